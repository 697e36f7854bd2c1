/* json.c: strings as JSON has them, whatever bytes the names of scripts, labels and ranges hold.
 *
 * Invariant: what is written is a JSON string in UTF-8. */
#include "json.h"

/* The length of the UTF-8 sequence at c, which has `left` bytes; 0 if there is none: a byte of no sequence would make
 * the whole file unreadable. */
static size_t sequence(const unsigned char *c, size_t left) {
  size_t n = *c < 0x80                 ? 1
             : *c >= 0xc2 && *c < 0xe0 ? 2
             : *c >= 0xe0 && *c < 0xf0 ? 3
             : *c >= 0xf0 && *c < 0xf5 ? 4
                                       : 0;
  if (n > left) return 0;
  for (size_t i = 1; i < n; i++)
    if ((c[i] & 0xc0) != 0x80) return 0;
  if ((*c == 0xe0 && c[1] < 0xa0) || (*c == 0xed && c[1] > 0x9f)) return 0;
  return (*c == 0xf0 && c[1] < 0x90) || (*c == 0xf4 && c[1] > 0x8f) ? 0 : n;
}

bool tide__utf8(const char *text, size_t length) {
  const unsigned char *c = (const unsigned char *)text, *end = c + length;
  for (size_t n; c < end; c += n)
    if (!(n = sequence(c, (size_t)(end - c)))) return false;
  return true;
}

void tide__json_string(FILE *f, const char *text, size_t length) {
  const unsigned char *c = (const unsigned char *)text, *end = c + length;
  fputc('"', f);
  while (c < end) {
    size_t n = sequence(c, (size_t)(end - c));
    if (*c == '"' || *c == '\\')
      fprintf(f, "\\%c", *c);
    else if (*c < 0x20 || *c == 0x7f || *c == '<')
      fprintf(f, "\\u%04x", *c);
    else if (!n)
      fputs("\\ufffd", f);
    else
      fwrite(c, 1, n, f);
    c += n ? n : 1;
  }
  fputc('"', f);
}
