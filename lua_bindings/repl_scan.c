/* repl_scan.c: the tokens of Lua text, as far as the prompt must understand it: to find declarations and to complete.
 *
 * Strings, comments and numbers are stepped over as Lua does it; nothing is judged, for the compiler does that. */
#include <ctype.h>
#include <string.h>

#include "repl.h"

static bool is_name(char c, bool first) {
  return c == '_' || (first ? isalpha((unsigned char)c) : isalnum((unsigned char)c));
}

/* The level of a long bracket that begins at p, or -1: "[[" is 0, "[==[" is 2. */
static int long_level(const char *p, const char *end) {
  int level = 0;
  for (p++; p < end && *p == '='; p++) level++;
  return p < end && *p == '[' ? level : -1;
}

/* Behind the end of the long bracket that begins at p; NULL where it does not end. */
static const char *after_long(const char *p, const char *end, int level) {
  for (p += level + 2; p < end; p++) {
    const char *q = p + 1;
    if (*p != ']') continue;
    while (q < end && *q == '=' && q - p <= level) q++;
    if (q - p == level + 1 && q < end && *q == ']') return q + 1;
  }
  return NULL;
}

static const char *after_quoted(const char *p, const char *end) {
  char quote = *p++;
  for (; p < end && *p != '\n'; p++) {
    if (*p == quote) return p + 1;
    if (*p != '\\' || p + 1 >= end) continue;
    p++;
    if (*p == 'z')
      while (p + 1 < end && isspace((unsigned char)p[1])) p++;
  }
  return NULL;
}

static const char *after_number(const char *p, const char *end) {
  bool hex = *p == '0' && p + 1 < end && (p[1] | 32) == 'x';
  for (char before = 0; p < end && (isalnum((unsigned char)*p) || *p == '.' || ((*p == '+' || *p == '-') && before));)
    before = (*p++ | 32) == (hex ? 'p' : 'e');
  return p;
}

/* Steps over blanks and comments. False where a comment does not end before the text does. */
static bool skip_blanks(repl_scanner *s) {
  for (;;) {
    while (s->at < s->end && isspace((unsigned char)*s->at)) s->at++;
    if (s->end - s->at < 2 || s->at[0] != '-' || s->at[1] != '-') return true;
    const char *p = s->at + 2;
    int level = p < s->end && *p == '[' ? long_level(p, s->end) : -1;
    if (level >= 0) {
      const char *after = after_long(p, s->end, level);
      if (!after) return false;
      s->at = after;
    } else {
      while (p < s->end && *p != '\n') p++;
      if (p == s->end) return false;
      s->at = p;
    }
  }
}

static size_t operator_length(const char *p, const char *end) {
  static const char *const longer[] = {"...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>"};
  for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
    size_t n = strlen(longer[i]);
    if ((size_t)(end - p) >= n && !memcmp(p, longer[i], n)) return n;
  }
  return 1;
}

bool repl_scan(repl_scanner *s, repl_token *t) {
  bool whole = skip_blanks(s);
  const char *p = s->at, *after;
  *t = (repl_token){.text = p, .kind = whole ? REPL_END : REPL_COMMENT};
  if (!whole || p >= s->end) return false;
  int level = *p == '[' ? long_level(p, s->end) : -1;
  if (is_name(*p, true)) {
    for (after = p; after < s->end && is_name(*after, false);) after++;
    t->kind = REPL_NAME;
  } else if (isdigit((unsigned char)*p) || (*p == '.' && p + 1 < s->end && isdigit((unsigned char)p[1]))) {
    after = after_number(p, s->end);
    t->kind = REPL_NUMBER;
  } else if (level >= 0 || *p == '"' || *p == '\'') {
    after = level >= 0 ? after_long(p, s->end, level) : after_quoted(p, s->end);
    t->kind = after ? REPL_STRING : REPL_OPEN_STRING;
    if (!after) after = s->end;
  } else {
    after = p + operator_length(p, s->end);
    t->kind = REPL_SIGN;
  }
  t->size = (size_t)(after - p);
  s->at = after;
  return true;
}

bool repl_token_is(const repl_token *t, const char *text) {
  return (t->kind == REPL_NAME || t->kind == REPL_SIGN) && t->size == strlen(text) && !memcmp(t->text, text, t->size);
}

bool repl_token_is_word(const repl_token *t) {
  static const char *const words[] = {"and",      "break",  "do",   "else", "elseif", "end",  "false", "for",
                                      "function", "goto",   "if",   "in",   "local",  "nil",  "not",   "or",
                                      "repeat",   "return", "then", "true", "until",  "while"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (repl_token_is(t, words[i])) return true;
  return false;
}
