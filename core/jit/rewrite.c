/* rewrite.c: what is changed in a user's code before a compiler of the host gets it.
 *
 * Divisions: to a C++ compiler an integer division by zero cannot happen, and where it sees one it may compile
 * anything, which is a trap as a rule. So it is not let see any: `a / b` becomes `a /tide_by->*b`, and `a /= b` becomes
 * `a /=tide_by= b`, and % likewise. That binds as before, and tide_by's operators give b itself, of its own type, but
 * hide the value of an integer that is not known to be harmless. What happens then when the code runs is the
 * processor's matter (cxx_trap.c).
 *
 * Shared memory whose size the launch says is a pointer, which C++ cannot declare as CUDA C does: TIDE_DYNAMIC does it,
 * and TIDE_DYNAMIC_GLOBAL outside of functions.
 *
 * The body of a kernel stands between TIDE_BODY and TIDE_BODY_END, which make it a function that a loop calls for each
 * thread of a block, if the backend's text says so.
 *
 * Invariant: lines keep their numbers, and code that a condition of the preprocessor computes with stays as it is. */
#include "jit.h"

#include <ctype.h>
#include <stdio.h>

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

/* ---- shared memory ---- */

enum { TYPE = 200, WORDS = 40 };

typedef struct dynamic {
  char type[TYPE];
  const char *name;
  int length; /* of the name */
  bool shared;
} dynamic;

static bool is_word(const char *p, const char *end, const char *word) {
  return (size_t)(end - p) == strlen(word) && !memcmp(p, word, strlen(word));
}

static const char *skip_round(const char *p) {
  bool start = false;
  int depth = 0;
  while (*p) {
    depth += (*p == '(') - (*p == ')');
    p = tide__parse_piece(p, &start);
    if (depth == 0) break;
  }
  return p;
}

/* What stands before a name belongs to the type. */
static bool add_to_type(dynamic *d, const char *p, int n) {
  size_t at = strlen(d->type);
  int wrote = snprintf(d->type + at, TYPE - at, "%s%.*s", at ? " " : "", n, p);
  return wrote >= 0 && (size_t)wrote < TYPE - at;
}

static bool take_word(dynamic *d, const char *p, const char *end) {
  bool name = isalpha((unsigned char)*p) || *p == '_';
  if (is_word(p, end, "__shared__")) return d->shared = true;
  if (name && d->length && !add_to_type(d, d->name, d->length)) return false;
  if (name) return d->name = p, d->length = (int)(end - p), true;
  if (d->length && !add_to_type(d, d->name, d->length)) return false;
  d->length = 0;
  return add_to_type(d, p, (int)(end - p));
}

/* The end of the declaration `extern __shared__ T name[];` that begins at p, NULL if another one does. */
static const char *read_dynamic(dynamic *d, const char *p) {
  bool start = false;
  *d = (dynamic){.name = p};
  p += strlen("extern");
  for (int n = 0; *p && n < WORDS; n++) {
    const char *end = tide__parse_piece(p, &start);
    if (isspace((unsigned char)*p) || (*p == '/' && end > p + 1) || *p == '\\') {
      p = end;
      n--;
      continue;
    }
    if (*p == '[') {
      p += 1 + strspn(p + 1, " \t\r\n");
      if (*p != ']') return NULL;
      p += 1 + strspn(p + 1, " \t\r\n");
      return *p == ';' && d->shared && d->length && d->type[0] ? p + 1 : NULL;
    }
    bool hint = is_word(p, end, "__align__") || is_word(p, end, "alignas") || is_word(p, end, "__attribute__");
    if (strchr(";{}()=\"#", *p) || (!hint && !take_word(d, p, end))) return NULL;
    p = hint ? skip_round(end + strspn(end, " \t")) : end;
  }
  return NULL;
}

/* ---- the whole ---- */

typedef struct rewriter {
  const char *code, *from; /* from: what is not written yet */
  const char *word;        /* the one before */
  size_t length;
  int depth, function; /* of brackets; of the function that we are in, or 0 */
  tide__text text;
} rewriter;

/* Writes what stands before p, and the text instead of what stands between p and end. */
static void replace(rewriter *r, const char *p, const char *end, const char *text) {
  tide__text_add(&r->text, "%.*s%s", (int)(p - r->from), r->from, text);
  r->from = end;
}

static void follow_brackets(rewriter *r, const char *p) {
  if (*p == '{') {
    r->depth++;
    bool opens = *r->word == ')' || (r->length == 5 && !memcmp(r->word, "const", 5)) ||
                 (r->length == 8 && !memcmp(r->word, "noexcept", 8));
    if (!r->function && opens) r->function = r->depth;
  } else if (*p == '}') {
    if (r->function == r->depth) r->function = 0;
    r->depth--;
  }
}

/* The shared variable that is declared at p, as C++ has it: gives where to go on. */
static const char *rewrite_shared(rewriter *r, const char *p, const char *end) {
  dynamic d;
  if (is_word(p, end, "__shared__")) {
    if (r->length == 6 && !memcmp(r->word, "static", 6)) replace(r, p, end, "thread_local");
    return end;
  }
  const char *after = is_word(p, end, "extern") ? read_dynamic(&d, p) : NULL;
  if (!after) return end;
  replace(r, p, after, "");
  tide__text_add(&r->text, "%s(%s, %.*s)", r->function ? "TIDE_DYNAMIC" : "TIDE_DYNAMIC_GLOBAL", d.type, d.length,
                 d.name);
  for (; p < after; p++)
    if (*p == '\n') tide__text_add(&r->text, "\n");
  return after;
}

char *tide__jit_rewrite(const char *code, const tide__signature *kernel, const char *what) {
  bool line_start = true;
  rewriter r = {.code = code, .from = code, .word = code};
  for (const char *p = code, *end; *p; p = end) {
    bool was_start = line_start;
    end = tide__parse_piece(p, &line_start);
    if (*p == '#' && was_start && is_free_macro(code, p)) end = p + 1;
    if (end == p + 1 && is_division(code, p, r.word, r.length)) {
      bool assigns = *end == '=';
      end += assigns;
      replace(&r, end, end, assigns ? "tide_by=" : "tide_by->*");
    }
    if (end == p + 1) follow_brackets(&r, p);
    for (int i = 0; kernel && i < kernel->bodies; i++) {
      if (p == code + kernel->body[i].begin) replace(&r, end, end, " TIDE_BODY ");
      if (p == code + kernel->body[i].end) replace(&r, p, p, " TIDE_BODY_END ");
    }
    if (isalpha((unsigned char)*p) || *p == '_') end = rewrite_shared(&r, p, end);
    bool comment = *p == '/' && end > p + 1 && end[-1] != '=';
    if (!isspace((unsigned char)*p) && !comment) r.word = p, r.length = (size_t)(end - p);
  }
  tide__text_add(&r.text, "%s", r.from);
  return tide__text_end(&r.text, what);
}
