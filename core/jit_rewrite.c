/* jit_rewrite.c: what is changed in a user's code before a compiler of the host gets it.
 *
 * Divisions: to a C++ compiler an integer division by zero cannot happen, and where it sees one it may compile
 * anything, which is a trap as a rule. So it is not let see any: `a / b` becomes `a /tide_by->*b`, and `a /= b` becomes
 * `a /=tide_by= b`, and % likewise. That binds as before, and tide_by's operators give b itself, of its own type, but
 * hide the value of an integer that is not known to be harmless. What happens then when the code runs is the
 * processor's matter (cxx_trap.c).
 *
 * Invariant: lines keep their numbers, and code that a condition of the preprocessor computes with stays as it is. */
#include "jit.h"

#include <ctype.h>

/* ---- macros that conditions use ---- */

enum { LOOKS = 64 };

/* The word behind "#define", NULL where another directive stands at p. */
static const char *defined_name(size_t *length, const char *p, const char *directive) {
  size_t n = strlen(directive);
  p += 1 + strspn(p + 1, " \t");
  if (strncmp(p, directive, n) != 0 || isalnum((unsigned char)p[n]) || p[n] == '_') return NULL;
  p += n + strspn(p + n, " \t");
  *length = 0;
  while (isalnum((unsigned char)p[*length]) || p[*length] == '_') ++*length;
  return p;
}

static bool has_word(const char *p, size_t size, const char *word, size_t length) {
  bool inside = false; /* of a word */
  for (size_t i = 0; i + length <= size; i++) {
    bool part = isalnum((unsigned char)p[i]) || p[i] == '_';
    char after = i + length < size ? p[i + length] : ' ';
    if (part && !inside && !memcmp(p + i, word, length) && !isalnum((unsigned char)after) && after != '_') return true;
    inside = part;
  }
  return false;
}

/* Does a condition name the macro, or another macro that a condition names? Yes where that takes too long to say. */
static bool in_condition(const char *code, const char *name, size_t length, int *looks) {
  size_t size, own;
  if (--*looks < 0) return true;
  for (const char *at = code, *p; (p = tide__parse_directive(&at, &size));) {
    if (defined_name(&own, p, "if") || defined_name(&own, p, "elif")) {
      if (has_word(p, size, name, length)) return true;
      continue;
    }
    const char *other = defined_name(&own, p, "define");
    if (!other || (own == length && !memcmp(other, name, own)) || !has_word(p, size, name, length)) continue;
    if (in_condition(code, other, own, looks)) return true;
  }
  return false;
}

static bool is_free_macro(const char *code, const char *p) {
  size_t length;
  int looks = LOOKS;
  const char *name = defined_name(&length, p, "define");
  return name && length && !in_condition(code, name, length, &looks);
}

/* ---- divisions ---- */

/* A sign of division at p: not one of the signs <% %> %: and not a name of one. */
static bool is_division(const char *code, const char *p, const char *word, size_t length) {
  if (length == 8 && !memcmp(word, "operator", 8)) return false;
  return *p == '/' || (*p == '%' && p[1] != ':' && p[1] != '>' && !(p > code && p[-1] == '<'));
}

char *tide__jit_rewrite(const char *code, const char *what) {
  bool line_start = true;
  tide__text t = {0};
  const char *word = code, *from = code; /* the word before; what is not written yet */
  size_t length = 0;
  for (const char *p = code, *end; *p; p = end) {
    bool was_start = line_start;
    end = tide__parse_piece(p, &line_start);
    if (*p == '#' && was_start && is_free_macro(code, p)) end = p + 1;
    if (end == p + 1 && is_division(code, p, word, length)) {
      bool assigns = *end == '=';
      end += assigns;
      tide__text_add(&t, "%.*s%s", (int)(end - from), from, assigns ? "tide_by=" : "tide_by->*");
      from = end;
    }
    if (!isspace((unsigned char)*p)) word = p, length = (size_t)(end - p);
  }
  tide__text_add(&t, "%s", from);
  return tide__text_end(&t, what);
}
