/* safetensors.c: the safetensors format: the length of a head (8 bytes, little endian), the head in JSON, the values.
 *
 * The head names each tensor with its dtype, shape and data_offsets, which count from its end; together the tensors
 * fill the rest of the file without a hole. It is read once, from a copy in which strings are replaced by what they
 * stand for. The file itself is mapped, so that values are read when they are touched; those that cannot be used where
 * they lie (bool, unsigned integers, a place that does not fit the dtype) are copied.
 *
 * Invariant: a name is UTF-8 without zeros; no value outside of the file is reached. */
#include "array.h"

#include "base/own.h"
#include "base/json.h"
#include "os/file.h"

enum { LONGEST = 100000000 }; /* of a head, as the format has it */

static const struct word {
  char text[5], kind;
  int8_t bytes;
} words[] = {{"BOOL", 'b', 1}, {"U8", 'u', 1},   {"I8", 'i', 1},  {"U16", 'u', 2}, {"I16", 'i', 2},
             {"F16", 'f', 2},  {"BF16", 'B', 2}, {"U32", 'u', 4}, {"I32", 'i', 4}, {"F32", 'f', 4},
             {"U64", 'u', 8},  {"I64", 'i', 8},  {"F64", 'f', 8}, {"C64", 'c', 8}};

/* ---- JSON ---- */

typedef struct reader {
  tide_archive *a;
  char *at; /* ends with a zero */
  int room, note_room;
} reader;

static tide_status broken(const reader *r, const char *expected) {
  return tide__source_fail(&r->a->source, "its head is wrong, got '%.40s', expected %s", r->at, expected);
}

static char look(reader *r) {
  while (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r') r->at++;
  return *r->at;
}

static bool take(reader *r, char c) { return look(r) == c && r->at++; }

/* Four hexadecimal digits; -1: they are none. */
static int get_hex(const char *at) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    char c = at[i];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

static char *put_utf8(char *to, uint32_t c) {
  int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
  *to++ = (char)(lead[more] | c >> 6 * more);
  while (more--) *to++ = (char)(0x80 | (c >> 6 * more & 0x3f));
  return to;
}

/* What follows a backslash; NULL: it is no escape. */
static char *get_escape(char **to, char *at) {
  static const char plain[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
  const char *known = *at ? strchr(plain, *at) : NULL;
  if (known) {
    *(*to)++ = means[known - plain];
    return at + 1;
  }
  int c = *at == 'u' ? get_hex(at + 1) : -1, low = 0;
  if (c <= 0 || (c >= 0xdc00 && c < 0xe000)) return NULL;
  at += 5;
  if (c >= 0xd800 && c < 0xdc00) {
    low = at[0] == '\\' && at[1] == 'u' ? get_hex(at + 2) : -1;
    if (low < 0xdc00 || low >= 0xe000) return NULL;
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    at += 6;
  }
  *to = put_utf8(*to, (uint32_t)c);
  return at;
}

/* A string, which is put in its own place: what it stands for is never longer. */
static tide_status get_text(reader *r, const char **out) {
  if (look(r) != '"') return broken(r, "a string");
  char *at = r->at + 1, *to = at;
  while (*at != '"') {
    if ((unsigned char)*at < 0x20) return broken(r, "a string without control characters");
    if (*at != '\\')
      *to++ = *at++;
    else if (!(at = get_escape(&to, at + 1)))
      return broken(r, "a string with JSON's escapes");
  }
  *out = r->at + 1;
  r->at = at + 1;
  *to = 0;
  return tide__utf8(*out, (size_t)(to - *out)) ? TIDE_OK
                                               : tide__source_fail(&r->a->source, "a string of its head is not UTF-8");
}

static tide_status get_integer(reader *r, int64_t *out) {
  int64_t n = 0;
  if (look(r) < '0' || *r->at > '9' || (*r->at == '0' && r->at[1] >= '0' && r->at[1] <= '9'))
    return broken(r, "an integer of at least 0");
  for (; *r->at >= '0' && *r->at <= '9'; r->at++) n = tide__size_add(tide__size_mul(n, 10), *r->at - '0');
  *out = n;
  return n == INT64_MAX ? broken(r, "an integer that is not too large") : TIDE_OK;
}

/* A list of integers, whose first `most` are stored. Only a shape may have more. */
static tide_status get_list(reader *r, int64_t *out, int most, int *n) {
  *n = 0;
  if (!take(r, '[')) return broken(r, "a list");
  if (take(r, ']')) return TIDE_OK;
  do {
    int64_t value;
    if (*n == most && most == 2) return broken(r, "two numbers");
    TIDE_TRY(get_integer(r, &value));
    if (*n <= most && (*n)++ < most) out[*n - 1] = value;
  } while (take(r, ','));
  return take(r, ']') ? TIDE_OK : broken(r, "the end of a list");
}

/* ---- reading ---- */

static tide_status no_memory(const reader *r) {
  return tide__fail(TIDE_MEMORY, "%s: no host memory", r->a->kind->load);
}

static tide_status get_notes(reader *r) {
  tide_archive *a = r->a;
  if (a->note) return broken(r, "__metadata__ once");
  if (!take(r, '{')) return broken(r, "the texts of __metadata__");
  if (!tide__grow(&a->note, &r->note_room, 0, 2 * sizeof *a->note)) return no_memory(r);
  if (take(r, '}')) return TIDE_OK;
  do {
    if (!tide__grow(&a->note, &r->note_room, (int)a->notes, 2 * sizeof *a->note)) return no_memory(r);
    TIDE_TRY(get_text(r, &a->note[2 * a->notes]));
    if (!take(r, ':')) return broken(r, "a colon");
    TIDE_TRY(get_text(r, &a->note[2 * a->notes + 1]));
    a->notes++;
  } while (take(r, ','));
  return take(r, '}') ? TIDE_OK : broken(r, "the end of __metadata__");
}

/* The floats of 8 bits, which tide lacks, are their bytes; other unknown dtypes are foreign. */
static tide_status get_dtype(reader *r, tide__entry *entry) {
  tide__elements e = {0};
  TIDE_TRY(get_text(r, &entry->type));
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(words[i].text, entry->type)) e = (tide__elements){.kind = words[i].kind, .bytes = words[i].bytes};
  if (!strncmp(entry->type, "F8_", 3)) e = (tide__elements){.kind = 'u', .bytes = 1};
  if (!tide__elements_find(&e)) entry->foreign = true;
  entry->elements = e;
  return TIDE_OK;
}

static tide_status get_field(reader *r, tide__entry *e, const char *key, int *found) {
  int64_t list[TIDE_MAX_DIMS];
  int n, bit = !strcmp(key, "dtype") ? 1 : !strcmp(key, "shape") ? 2 : !strcmp(key, "data_offsets") ? 4 : 0;
  if (!bit || *found & bit || !take(r, ':')) return broken(r, "dtype, shape and data_offsets once each");
  *found |= bit;
  if (bit == 1) return get_dtype(r, e);
  if (bit == 2) {
    e->shape = r->at;
    TIDE_TRY(get_list(r, list, TIDE_MAX_DIMS, &n));
    if (n > TIDE_MAX_DIMS) e->foreign = true;
    return TIDE_OK;
  }
  TIDE_TRY(get_list(r, list, 2, &n));
  if (n != 2 || list[0] > list[1]) return broken(r, "data_offsets as [begin, end]");
  e->begin = list[0], e->end = list[1];
  return TIDE_OK;
}

static tide_status get_entry(reader *r, const char *name) {
  tide_archive *a = r->a;
  int found = 0;
  if (!tide__grow(&a->entry, &r->room, (int)a->count, sizeof *a->entry)) return no_memory(r);
  tide__entry *e = &a->entry[a->count++];
  *e = (tide__entry){.name = name};
  if (!take(r, '{')) return broken(r, "a dict with dtype, shape and data_offsets");
  do {
    const char *key;
    TIDE_TRY(get_text(r, &key));
    TIDE_TRY(get_field(r, e, key, &found));
  } while (take(r, ','));
  return take(r, '}') && found == 7 ? TIDE_OK : broken(r, "dtype, shape and data_offsets once each");
}

static tide_status get_all(reader *r) {
  if (*r->at != '{') return broken(r, "'{' as its first byte");
  r->at++;
  if (!take(r, '}')) {
    do {
      const char *name;
      TIDE_TRY(get_text(r, &name));
      if (!take(r, ':')) return broken(r, "a colon");
      TIDE_TRY(!strcmp(name, "__metadata__") ? get_notes(r) : get_entry(r, name));
    } while (take(r, ','));
    if (!take(r, '}')) return broken(r, "the end of the dict");
  }
  return look(r) ? broken(r, "nothing but blanks behind the dict") : TIDE_OK;
}

/* Sizes from the text of an entry, which has been read once. */
static int get_shape(const tide_archive *a, const tide__entry *e, int64_t *size) {
  reader r = {.a = (tide_archive *)a, .at = (char *)e->shape};
  int ndim = 0;
  return get_list(&r, size, TIDE_MAX_DIMS, &ndim) == TIDE_OK ? ndim : 0;
}

/* Do the tensors fill the file's rest, each as its shape says? Their places become those in the file. */
static tide_status check_places(tide_archive *a, int64_t bytes) {
  int64_t at = 0, size[TIDE_MAX_DIMS];
  tide__entries_sort(a);
  for (int64_t i = 0; i < a->count; i++) {
    tide__entry *e = &a->entry[i];
    int ndim = e->foreign ? 0 : get_shape(a, e, size);
    int64_t whole = tide__size_mul(tide__size_product(size, ndim), e->elements.bytes);
    if (e->begin != at)
      return tide__source_fail(&a->source, "%.80s: its values begin at %lld, expected %lld, where those before it end",
                               e->name, (long long)e->begin, (long long)at);
    if (!e->foreign && e->end - e->begin != whole)
      return tide__source_fail(&a->source, "%.80s: got %lld bytes for the shape %s of %s, %d bytes each", e->name,
                               (long long)(e->end - e->begin), tide__shape_text(size, ndim), e->type,
                               e->elements.bytes);
    at = e->end;
    if (at > bytes) break; /* said below */
    e->begin += a->data, e->end += a->data;
  }
  if (at == bytes) return TIDE_OK;
  return tide__source_fail(&a->source, "got %lld bytes of values, expected %lld, as its head says", (long long)bytes,
                           (long long)at);
}

static tide_status open_file(tide_archive *a, int64_t most) {
  unsigned char digits[8];
  uint64_t length = 0;
  tide__source *s = &a->source;
  TIDE_TRY(tide__source_read(s, digits, sizeof digits));
  for (int i = 7; i >= 0; i--) length = length << 8 | digits[i];
  if (length > LONGEST || (int64_t)length > s->left)
    return tide__source_fail(s, "its first bytes are no length of a head, got %llu, expected at most %lld",
                             (unsigned long long)length, (long long)(s->left < LONGEST ? s->left : LONGEST));
  if (!(a->text = malloc((size_t)length + 1))) return tide__fail(TIDE_MEMORY, "%s: no host memory", a->kind->load);
  TIDE_TRY(tide__source_read(s, a->text, (size_t)length));
  a->text[length] = 0;
  if (strlen(a->text) != length) return tide__source_fail(s, "its head has a zero in it");
  a->data = 8 + (int64_t)length;
  reader r = {.a = a, .at = a->text};
  TIDE_TRY(get_all(&r));
  TIDE_TRY(check_places(a, s->left));
  TIDE_TRY(tide_mapping_new(&a->mapping, s->file));
  if (tide_mapping_size(a->mapping) != a->data + s->left)
    return tide__source_fail(s, "it was changed while it was read");
  fclose(s->file);
  s->file = NULL;
  return TIDE_OK;
}

static tide_status get_tensor(tide_tensor **out, tide_archive *a, const tide__entry *e) {
  int64_t size[TIDE_MAX_DIMS], bytes = e->end - e->begin;
  int ndim = get_shape(a, e, size), part = e->elements.kind == 'c' ? 4 : e->elements.bytes;
  TIDE_OWNED tide_tensor *raw = NULL, *flat = NULL;
  if (!part)
    return tide__source_foreign(&a->source, tide__source_fail(&a->source,
                                                              "got the dtype '%.40s', expected BOOL, "
                                                              "integers, F8, F16, BF16, F32, F64 or C64",
                                                              e->type));
  if (ndim > TIDE_MAX_DIMS)
    return tide__source_foreign(&a->source,
                                tide__source_fail(&a->source, "got more than %d dimensions", TIDE_MAX_DIMS));
  if (!bytes) return tide_empty(out, size, ndim, &(tide_options){e->elements.dtype, TIDE_CPU, false});
  TIDE_TRY(tide_mapping_tensor(&raw, a->mapping, e->begin, bytes));
  const char *at = tide__tensor_ptr(raw);
  if (tide__elements_plain(&e->elements) && !((uintptr_t)at % (size_t)part)) {
    TIDE_TRY(tide_view_dtype(&flat, raw, e->elements.dtype));
    return tide_view(out, flat, size, ndim);
  }
  tide__source s = a->source;
  s.memory = at, s.left = bytes;
  tide_status status = tide__elements_read(out, &s, &e->elements, size, ndim, false);
  a->source.foreign = s.foreign;
  return status;
}

/* ---- writing ---- */

static const char *word_of(tide_dtype dtype) {
  char kind = tide__elements_kind(dtype);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (words[i].kind == kind && words[i].bytes == (int)tide__itemsize(dtype)) return words[i].text;
  return NULL;
}

static tide_status check_tensor(const char *path, const char *name, const tide_tensor *x) {
  if (!word_of((tide_dtype)x->dtype))
    return tide__fail(TIDE_DTYPE, "save_safetensors: %s: %.80s: got %s, which the format lacks, expected another dtype",
                      path, name, tide_dtype_name((tide_dtype)x->dtype));
  if (strcmp(name, "__metadata__") != 0 && tide__utf8(name, strlen(name))) return TIDE_OK;
  return tide__fail(TIDE_VALUE, "save_safetensors: %s: got the name '%.80s', expected UTF-8 and not __metadata__", path,
                    name);
}

static tide_status check_notes(const char *path, const tide_archive_content *c) {
  for (int64_t i = 0; i < c->notes; i++)
    if (!tide__utf8(c->key[i], strlen(c->key[i])) || !tide__utf8(c->value[i], strlen(c->value[i])))
      return tide__fail(TIDE_VALUE, "save_safetensors: %s: metadata: got '%.80s' = '%.80s', expected UTF-8", path,
                        c->key[i], c->value[i]);
  return TIDE_OK;
}

static void write_notes(FILE *f, const tide_archive_content *c) {
  fputs("\"__metadata__\":{", f);
  for (int64_t i = 0; i < c->notes; i++) {
    if (i) fputc(',', f);
    tide__json_string(f, c->key[i], strlen(c->key[i]));
    fputc(':', f);
    tide__json_string(f, c->value[i], strlen(c->value[i]));
  }
  fputs(c->count ? "}," : "}", f);
}

static void write_head(FILE *f, const tide_archive_content *c) {
  int64_t at = 0;
  fputc('{', f);
  if (c->notes) write_notes(f, c);
  for (int64_t i = 0; i < c->count; i++) {
    const tide_tensor *x = c->tensor[i];
    tide__json_string(f, c->name[i], strlen(c->name[i]));
    fprintf(f, ":{\"dtype\":\"%s\",\"shape\":[", word_of((tide_dtype)x->dtype));
    for (int d = 0; d < x->ndim; d++) fprintf(f, d ? ",%lld" : "%lld", (long long)x->size[d]);
    fprintf(f, "],\"data_offsets\":[%lld,%lld]}%s", (long long)at, (long long)(at + tide__elements_nbytes(x)),
            i + 1 < c->count ? "," : "");
    at += tide__elements_nbytes(x);
  }
  fputc('}', f);
}

static tide_status write_all(FILE *file, const char *path, const tide_archive_content *c) {
  char digits[8];
  tide__os_text head = {0};
  TIDE_TRY(check_notes(path, c));
  bool good = tide__os_text_begin(&head);
  if (good) write_head(head.stream, c);
  if (!good || !tide__os_text_end(&head)) {
    free(head.at);
    return tide__fail(TIDE_MEMORY, "save_safetensors: no host memory");
  }
  size_t n = head.bytes, whole = (n + 7) / 8 * 8; /* blanks fill it, so that the values are aligned */
  if (whole > LONGEST) {
    free(head.at);
    return tide__fail(TIDE_VALUE, "save_safetensors: %s: its head has %zu bytes, expected at most %d", path, whole,
                      LONGEST);
  }
  for (int i = 0; i < 8; i++) digits[i] = (char)(whole >> 8 * i);
  fwrite(digits, 1, sizeof digits, file);
  fwrite(head.at, 1, n, file);
  fprintf(file, "%*s", (int)(whole - n), "");
  free(head.at);
  for (int64_t i = 0; i < c->count; i++) {
    TIDE_OWNED tide_tensor *host = NULL;
    TIDE_TRY(tide__elements_host(&host, c->tensor[i]));
    if (host->numel) fwrite(tide__tensor_ptr(host), 1, (size_t)tide__elements_nbytes(host), file);
  }
  return TIDE_OK;
}

const tide__archive_kind tide__safetensors = {"load_safetensors", "save_safetensors", open_file,
                                              get_tensor,         write_all,          check_tensor};
