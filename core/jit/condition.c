/* jit_condition.c: which parts of a source the preprocessor leaves out, as far as that is plain.
 *
 * Conditions are a name that is or is not defined, a number, a name that stands for a number, or two of these compared.
 * Anything else may be true or not, and so may whatever depends on a name that the compiler or an included file may
 * define: code that may be there counts as being there.
 *
 * Invariant: what is called OFF is left out by every compiler that gets these options. */
#include "jit.h"

#include <ctype.h>
#include <stdio.h>

enum { OFF, MAYBE, ON };

typedef struct value {
  bool known;
  long long is;
} value;

/* ---- macros ---- */

static void set_macro(tide__conditions *c, const char *name, size_t length, int defined, const char *text) {
  char *end = NULL;
  if (c->macros == TIDE_CONDITION_MACROS) c->macros = 0, c->vague = true;
  if (length >= TIDE_JIT_NAME) c->vague = true;
  if (length >= TIDE_JIT_NAME) return;
  tide__condition_macro *m = &c->macro[c->macros++];
  snprintf(m->name, sizeof m->name, "%.*s", (int)length, name);
  m->defined = defined;
  text += strspn(text, " \t");
  m->number = strtoll(text, &end, 0);
  m->is_number = end != text && !end[strspn(end, " \t")];
}

/* The last that was said of it; NULL: nothing. */
static const tide__condition_macro *get_macro(const tide__conditions *c, const char *name, size_t length) {
  for (int i = c->macros; i-- > 0;)
    if (strlen(c->macro[i].name) == length && !memcmp(c->macro[i].name, name, length)) return &c->macro[i];
  return NULL;
}

/* Is it one that the compiler defines, or a header that on a host stands before every kernel? */
static bool is_reserved(const char *name, size_t length) {
  static const char *const begins[] = {"_", "M_", "FP_", "HUGE_VAL", "INFINITY", "NAN", "NULL", "assert"};
  static const char *const ends[] = {"_MAX", "_MIN", "_WIDTH"};
  for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
    if (!strncmp(name, begins[i], strlen(begins[i]))) return true;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (length > strlen(ends[i]) && !strncmp(name + length - strlen(ends[i]), ends[i], strlen(ends[i]))) return true;
  return false;
}

static int is_defined(const tide__conditions *c, const char *name, size_t length) {
  const tide__condition_macro *m = get_macro(c, name, length);
  return m ? m->defined : c->vague || !length || is_reserved(name, length) ? MAYBE : OFF;
}

/* ---- expressions ---- */

static size_t name_length(const char *p) {
  size_t n = 0;
  if (!isalpha((unsigned char)*p) && *p != '_') return 0;
  while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
  return n;
}

static const char *skip(const char *p) { return p + strspn(p, " \t"); }

/* A number or a name that stands for one, 0 where it is not defined and not "true". */
static value read_value(const tide__conditions *c, const char **p) {
  size_t n = name_length(*p);
  char *end;
  if (!n) {
    value number = {isdigit((unsigned char)**p) != 0, strtoll(*p, &end, 0)};
    *p = skip(end + strspn(end, "uUlL"));
    return number;
  }
  const tide__condition_macro *m = get_macro(c, *p, n);
  int defined = is_defined(c, *p, n);
  bool is_true = n == 4 && !memcmp(*p, "true", n);
  *p = skip(*p + n);
  if (is_true && !m) return (value){true, 1};
  if (defined == OFF) return (value){true, 0};
  return (value){defined == ON && m && m->is_number, m ? m->number : 0};
}

static int compare(long long a, const char *sign, long long b) {
  if (!strcmp(sign, "==")) return a == b ? ON : OFF;
  if (!strcmp(sign, "!=")) return a != b ? ON : OFF;
  if (!strcmp(sign, "<=")) return a <= b ? ON : OFF;
  if (!strcmp(sign, ">=")) return a >= b ? ON : OFF;
  if (!strcmp(sign, "<")) return a < b ? ON : OFF;
  return !strcmp(sign, ">") ? (a > b ? ON : OFF) : MAYBE;
}

/* "defined X", "defined(X)" */
static int read_defined(const tide__conditions *c, const char *p) {
  p = skip(p);
  bool bracket = *p == '(';
  p = skip(p + bracket);
  size_t n = name_length(p);
  const char *end = skip(p + n);
  if (bracket && *end++ != ')') return MAYBE;
  return n && !*skip(end) ? is_defined(c, p, n) : MAYBE;
}

static int evaluate(const tide__conditions *c, const char *p) {
  char sign[3] = "";
  p = skip(p);
  bool no = *p == '!';
  p = skip(p + no);
  int truth;
  if (!strncmp(p, "defined", 7) && name_length(p) == 7) {
    truth = read_defined(c, p + 7);
  } else {
    value a = read_value(c, &p), b = {true, 0};
    size_t n = strspn(p, "=!<>");
    if (n > 2 || (n && no)) return MAYBE;
    snprintf(sign, sizeof sign, "%.*s", (int)n, p);
    p = skip(p + n);
    if (n) b = read_value(c, &p);
    truth = !a.known || !b.known || *p ? MAYBE : compare(a.is, n ? sign : "!=", b.is);
  }
  return no ? ON - truth : truth;
}

/* ---- directives ---- */

static int now(const tide__conditions *c) {
  int least = ON;
  for (int i = 0; i < c->depth && i < TIDE_CONDITION_DEPTH; i++)
    if (c->now[i] < least) least = c->now[i];
  return least;
}

bool tide__condition_off(const tide__conditions *c) { return now(c) == OFF; }

static void branch(tide__conditions *c, int truth) {
  int i = c->depth - 1;
  if (i < 0 || i >= TIDE_CONDITION_DEPTH) return;
  int done = c->done[i];
  c->now[i] = (uint8_t)(done == ON ? OFF : truth == ON && done == MAYBE ? MAYBE : truth);
  if (truth > done) c->done[i] = (uint8_t)truth;
}

static void open_branch(tide__conditions *c, int truth) {
  if (c->depth < TIDE_CONDITION_DEPTH) c->done[c->depth] = OFF;
  c->depth++;
  branch(c, truth);
}

static void define(tide__conditions *c, const char *p, bool defined, bool lost) {
  int state = now(c);
  size_t n = name_length(p);
  if (state != OFF && n) set_macro(c, p, n, state == MAYBE ? MAYBE : defined ? ON : OFF, lost ? "" : p + n);
}

/* One directive, from its # on. */
void tide__condition_step(tide__conditions *c, const char *directive, size_t length) {
  char text[256];
  bool lost = !tide__parse_directive_line(text, sizeof text, directive, length);
  const char *word = skip(text + 1), *rest = word + name_length(word);
  size_t n = (size_t)(rest - word);
  rest = skip(rest);
#define IS(name) (n == sizeof(name) - 1 && !memcmp(word, name, n))
  if (IS("if"))
    open_branch(c, lost ? MAYBE : evaluate(c, rest));
  else if (IS("ifdef"))
    open_branch(c, lost ? MAYBE : is_defined(c, rest, name_length(rest)));
  else if (IS("ifndef"))
    open_branch(c, lost ? MAYBE : ON - is_defined(c, rest, name_length(rest)));
  else if (IS("elif"))
    branch(c, lost ? MAYBE : evaluate(c, rest));
  else if (IS("elifdef") || IS("elifndef")) /* which not every compiler knows */
    branch(c, MAYBE);
  else if (IS("else"))
    branch(c, ON);
  else if (IS("endif") && c->depth)
    c->depth--;
  else if (IS("define") || IS("undef"))
    define(c, rest, IS("define"), lost);
  else if ((IS("include") || IS("include_next") || IS("import")) && now(c) != OFF)
    c->vague = true;
#undef IS
}

void tide__conditions_begin(tide__conditions *c, const char *const *options, int n) {
  *c = (tide__conditions){.depth = 0};
  for (int i = 0; i < n; i++) {
    const char *p = options[i];
    if (p[0] != '-' || (p[1] != 'D' && p[1] != 'U')) {
      c->vague |= !strncmp(p, "--define", 8) || !strncmp(p, "--undefine", 10) || strstr(p, "include") != NULL;
      continue;
    }
    size_t length = name_length(p + 2);
    const char *text = p + 2 + length;
    set_macro(c, p + 2, length, p[1] == 'D' ? ON : OFF, *text == '=' ? text + 1 : "1");
    c->vague |= !length;
  }
}
