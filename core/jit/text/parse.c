/* parse.c: finds a function in C++ text and reads its signature.
 *
 * This is no parser of C++: the text is split into tokens, comments and directives are left out, and functions are
 * found by the brackets around them. That is enough for the entry of a kernel, whose parameters are numbers, references
 * and pointers; whatever is stranger than that is refused with its line, and what lies inside a body is left to the
 * compiler. So is the preprocessor: where conditions choose between kernels of one name, all of them are found, and
 * kernel.c has the compiler say which one is there.
 *
 * Invariant: a signature holds no pointer into the text. */
#include "jit/jit.h"

#include <ctype.h>
#include <stdio.h>

static bool is(const tide__token *w, const char *text) { return tide__token_is(w, text); }
static bool is_name(const tide__token *w) { return isalpha((unsigned char)*w->at) || *w->at == '_'; }

bool tide__token_is_any(const tide__token *w, const char *names) {
  for (size_t n; *names; names += n + (names[n] == ' ')) {
    n = strcspn(names, " ");
    if (n == (size_t)w->length && !memcmp(w->at, names, n)) return true;
  }
  return false;
}

/* ---- tokens ---- */

static const char *skip_quoted(const char *p) {
  char quote = *p++;
  while (*p && *p != quote && *p != '\n') p += *p == '\\' && p[1] ? 2 : 1;
  return *p == quote ? p + 1 : p;
}

/* Is there a backslash at p that joins the next line to this one? The length of both, else 0. */
static size_t splice(const char *p) {
  if (*p != '\\') return 0;
  return p[1] == '\n' ? 2 : p[1] == '\r' && p[2] == '\n' ? 3 : 0;
}

static bool is_comment(const char *p) { return *p == '/' && (p[1] == '/' || p[1] == '*'); }

static const char *skip_comment(const char *p) {
  if (p[1] == '/') {
    while (*p && *p != '\n') p += splice(p) ? splice(p) : 1;
    return p;
  }
  const char *end = strstr(p + 2, "*/");
  return end ? end + 2 : p + strlen(p);
}

static const char *skip_directive(const char *p) {
  while (*p && *p != '\n') {
    if (is_comment(p))
      p = skip_comment(p);
    else if (*p == '"' || *p == '\'')
      p = skip_quoted(p);
    else
      p += splice(p) ? splice(p) : 1;
  }
  return p;
}

/* The end of a literal such as R"x(...)x", NULL where none begins at p. */
static const char *raw_end(const char *p) {
  char close[20];
  const char *quote = p + (p[0] == 'u' && p[1] == '8' ? 2 : *p == 'u' || *p == 'U' || *p == 'L');
  if (quote[0] != 'R' || quote[1] != '"') return NULL;
  quote += 2;
  size_t n = strcspn(quote, "()\\ \t\n");
  if (n > 16 || quote[n] != '(') return NULL;
  snprintf(close, sizeof close, ")%.*s\"", (int)n, quote);
  const char *end = strstr(quote + n, close);
  return end ? end + n + 2 : quote + strlen(quote);
}

/* Its digits may have a ' between them, which begins no literal. */
static const char *skip_number(const char *p) {
  while (isalnum((unsigned char)*p) || *p == '_' || (*p == '\'' && (isalnum((unsigned char)p[1]) || p[1] == '_'))) p++;
  return p;
}

/* The end of what begins at p: a comment, a literal, a directive, a name or number, or one sign. */
static const char *token_end(const char *p, bool line_start) {
  const char *raw = raw_end(p);
  if (raw) return raw;
  if (is_comment(p)) return skip_comment(p);
  if (*p == '#' && line_start) return skip_directive(p);
  if (*p == '"' || *p == '\'') return skip_quoted(p);
  if (isdigit((unsigned char)*p)) return skip_number(p);
  if (!isalpha((unsigned char)*p) && *p != '_') return p + 1;
  while (isalnum((unsigned char)*p) || *p == '_') p++;
  return p;
}

static bool add_token(tide__tokens *out, const char *p, const char *end, int line) {
  if (!tide__grow(&out->list, &out->room, out->count, sizeof *out->list)) return false;
  out->list[out->count++] = (tide__token){p, (int)(end - p), line};
  return true;
}

static bool is_kept(const char *p, bool line_start, tide__token_kinds kinds) {
  if (is_comment(p)) return false;
  if (*p == '#' && line_start) return kinds != TIDE_TOKENS_CODE;
  if (*p == '"' || *p == '\'' || raw_end(p)) return kinds == TIDE_TOKENS_ALL;
  return kinds != TIDE_TOKENS_DIRECTIVES;
}

tide_status tide__tokenize(tide__tokens *out, const char *code, const char *end, tide__token_kinds kinds,
                           const char *what) {
  bool line_start = true;
  int line = 1;
  *out = (tide__tokens){0};
  for (const char *p = code, *next; p != end && *p; p = next) {
    size_t joined = splice(p);
    bool blank = joined || isspace((unsigned char)*p);
    next = joined ? p + joined : blank ? p + 1 : token_end(p, line_start);
    if (end && next > end) next = end;
    if (!blank && is_kept(p, line_start, kinds) && !add_token(out, p, next, line)) {
      free(out->list), out->list = NULL;
      return tide__fail(TIDE_MEMORY, "%s: no host memory", what);
    }
    line_start = *p == '\n' || (line_start && (blank || is_comment(p)));
    for (const char *q = p; q < next; q++) line += *q == '\n';
  }
  return TIDE_OK;
}

bool tide__parse_include(const tide__token *w, const char **name, size_t *length) {
  const char *p = w->at + 1 + strspn(w->at + 1, " \t"), *end = w->at + w->length;
  size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz_");
  tide__token word = {p, (int)n, 0};
  *length = 0;
  if (!tide__token_is_any(&word,
                          "include include_next import")) /* what is joined or begins with a comment may be one */
    return (p[n] == '\\' || p[n] == '/') && (!strncmp(p, "include", n) || !strncmp(p, "import", n));
  p += n + strspn(p + n, " \t");
  const char *close = *p == '<' ? strchr(p, '>') : *p == '"' ? strchr(p + 1, '"') : NULL;
  if (close && close < end) *name = p, *length = (size_t)(close - p);
  return true;
}

/* ---- brackets ---- */

/* The index of the bracket that closes the one at `at`, or count. Angle brackets count where they are asked for. */
int tide__closing(const tide__tokens *w, int at, bool angle) {
  int depth = 0;
  for (int i = at; i < w->count; i++) {
    char c = w->list[i].length == 1 ? *w->list[i].at : 0;
    if (c == '(' || c == '{' || c == '[' || (angle && c == '<')) depth++;
    if ((c == ')' || c == '}' || c == ']' || (angle && c == '>')) && --depth == 0) return i;
  }
  return w->count;
}

/* ---- declarations ---- */

#define HINTS      "__restrict__ __restrict restrict __grid_constant__ register"
#define QUALIFIERS "const volatile"
#define BUILTINS   "void bool char short int long float unsigned signed double"
#define ATTRIBUTES "__launch_bounds__ __attribute__ __maxnreg__"

static bool join(char *out, size_t size, const tide__tokens *w, int from, int to) {
  size_t at = 0;
  out[0] = 0;
  for (int i = from; i < to; i++) {
    const tide__token *x = &w->list[i];
    if (tide__token_is_any(x, HINTS)) continue;
    int wrote =
        snprintf(out + at, size - at, "%s%.*s", at && *x->at != ':' && out[at - 1] != ':' ? " " : "", x->length, x->at);
    if (wrote < 0 || (size_t)wrote >= size - at) return false;
    at += (size_t)wrote;
  }
  return true;
}

/* The index of the comma that ends what begins at `from` in a list which ends at `close`, or that. *end: the same, or
 * where a default begins. */
static int item_end(int *end, const tide__tokens *w, int from, int close) {
  int depth = 0, to = from;
  for (*end = close; to < close && (depth || !is(&w->list[to], ",")); to++) {
    depth += tide__token_is_any(&w->list[to], "( < [") - tide__token_is_any(&w->list[to], ") > ]");
    if (*end == close && is(&w->list[to], "=")) *end = to;
  }
  if (*end > to) *end = to;
  return to;
}

/* One parameter, without its default. Its name is the last token that can be one, if a type stands before it. */
static bool read_parameter(tide__parameter *out, const tide__tokens *w, int from, int end) {
  int last = end - 1;
  bool array = last > from && is(&w->list[last], "]"), typed = false;
  while (array && last > from && !is(&w->list[last], "[")) last--;
  last -= array;
  for (int i = from; i < last; i++)
    typed |= is_name(&w->list[i]) && !tide__token_is_any(&w->list[i], QUALIFIERS " " HINTS);
  bool named =
      typed && is_name(&w->list[last]) && !tide__token_is_any(&w->list[last], BUILTINS " " QUALIFIERS " " HINTS);
  if (!join(out->name, sizeof out->name, w, last, last + named) ||
      !join(out->type, sizeof out->type, w, from, last + !named))
    return false;
  size_t length = strlen(out->type);
  if (array && length + 3 < sizeof out->type) memcpy(out->type + length, " *", 3);
  return length > 0;
}

static tide_status read_parameters(tide__signature *out, const tide__tokens *w, int open, int close, const char *what) {
  bool none = close == open + 1 || (close == open + 2 && is(&w->list[open + 1], "void"));
  out->params = 0;
  for (int from = open + 1, to, end; !none && from <= close; from = to + 1) {
    to = item_end(&end, w, from, close);
    if (out->params == TIDE_LAUNCH_PARAMS || !read_parameter(&out->param[out->params], w, from, end))
      return tide__fail(TIDE_VALUE,
                        "%s: line %d: a parameter is not understood, expected at most %d, a type and a name", what,
                        w->list[from].line, TIDE_LAUNCH_PARAMS);
    out->params++;
  }
  return TIDE_OK;
}

/* The declaration in the tokens [from, ...) up to the parameter list at `open`. */
static tide_status read_function(tide__signature *out, const tide__tokens *w, int from, int open, const char *what) {
  int close = tide__closing(w, open, false);
  out->line = w->list[from].line;
  if (!join(out->name, sizeof out->name, w, open - 1, open) ||
      !join(out->result, sizeof out->result, w, from, open - 1))
    return tide__fail(TIDE_VALUE, "%s: line %d: the declaration is too long", what, w->list[from].line);
  if (close == w->count)
    return tide__fail(TIDE_VALUE, "%s: line %d: the parameters of %s have no end", what, w->list[open].line, out->name);
  return read_parameters(out, w, open, close, what);
}

/* Where the body of a function whose parameters close at `close` begins, or -1: attributes and noexcept may stand
 * between. */
static int body_of(const tide__tokens *w, int close) {
  int i = close + 1;
  while (i < w->count && (is_name(&w->list[i]) || is(&w->list[i], "(")))
    i = is(&w->list[i], "(") ? tide__closing(w, i, false) + 1 : i + 1;
  return i < w->count && is(&w->list[i], "{") ? i : -1;
}

/* The parameter list of the function whose tokens begin at `from`: the first round bracket after a name that is not an
 * attribute's. -1 where something else is declared. */
static int parameters_of(const tide__tokens *w, int from) {
  for (int i = from; i < w->count; i++) {
    const tide__token *x = &w->list[i];
    if (is(x, ";") || is(x, "{") || is(x, "}") || is(x, "=")) return -1;
    if (!is(x, "(")) continue;
    if (i == from || !is_name(&w->list[i - 1])) return -1;
    if (!tide__token_is_any(&w->list[i - 1], ATTRIBUTES)) return i;
    i = tide__closing(w, i, false);
  }
  return -1;
}

/* The parameters of `template < ... >`: the name of each is its last token, before a default. Those that are too many
 * or too long have none. */
static void read_templates(tide__signature *out, const tide__tokens *w, int open, int close) {
  out->templates = 0, out->template_type[0] = 0;
  for (int from = open + 1, to, end; from < close && out->templates < TIDE_JIT_TEMPLATES; from = to + 1) {
    to = item_end(&end, w, from, close);
    char *name = out->template_name[out->templates], *preset = out->template_default[out->templates++];
    if (!join(preset, TIDE_JIT_NAME, w, end + 1, to)) preset[0] = 0;
    bool named = end - 1 > from && is_name(&w->list[end - 1]);
    if (!join(name, TIDE_JIT_NAME, w, end - 1, end - 1 + named)) name[0] = 0;
    if (tide__token_is_any(&w->list[from], "typename class") && !out->template_type[0])
      memcpy(out->template_type, name, TIDE_JIT_NAME);
  }
}

tide_status tide__parse_template(tide__signature *out, const char *code, const char *what) {
  TIDE_FREED tide__tokens w = {0};
  bool found = false;
  TIDE_TRY(tide__tokenize(&w, code, NULL, TIDE_TOKENS_CODE, what));
  for (int i = 0; i + 1 < w.count; i++) {
    if (is(&w.list[i], "{")) i = tide__closing(&w, i, false);
    if (i + 1 >= w.count || !is(&w.list[i], "template") || !is(&w.list[i + 1], "<")) continue;
    int end = tide__closing(&w, i + 1, true), open = end < w.count ? parameters_of(&w, end + 1) : -1;
    int body = open < 0 ? -1 : body_of(&w, tide__closing(&w, open, false));
    if (body < 0) continue;
    read_templates(out, &w, i + 1, end);
    TIDE_TRY(read_function(out, &w, end + 1, open, what));
    found = true;
    i = tide__closing(&w, body, false);
  }
  if (found && out->template_type[0]) return TIDE_OK;
  return tide__fail(TIDE_VALUE,
                    "%s: the code is not understood, got no function template%s, expected one such as "
                    "`template <typename T> T f(T x, T y, T alpha) { return x + alpha * y; }`",
                    what, found ? " with a type parameter" : "");
}

/* The template that ends before token k, if one does. */
static void read_template_before(tide__signature *out, const tide__tokens *w, int k) {
  out->templates = 0, out->template_type[0] = 0;
  for (int open = k - 2; k > 0 && is(&w->list[k - 1], ">") && open > 0; open--)
    if (is(&w->list[open], "<") && is(&w->list[open - 1], "template")) {
      read_templates(out, w, open, k - 1);
      return;
    }
}

/* What is declared at the token __global__, if it has that name; out->name[0] is 0 if not. Its body is the only one. */
static tide_status read_global(tide__signature *out, const tide__tokens *w, int i, const char *code, const char *name,
                               const char *what) {
  size_t length = strcspn(name, "<");
  int k = i, open = parameters_of(w, i + 1);
  out->name[0] = 0, out->bodies = 0;
  if (open < 0 || (size_t)w->list[open - 1].length != length || memcmp(w->list[open - 1].at, name, length) != 0)
    return TIDE_OK;
  TIDE_TRY(read_function(out, w, i, open, what));
  int brace = body_of(w, tide__closing(w, open, false)), end = brace < 0 ? w->count : tide__closing(w, brace, false);
  if (end < w->count)
    out->body[out->bodies++] = (tide__body){(size_t)(w->list[brace].at - code), (size_t)(w->list[end].at - code)};
  while (k > 0 && (tide__token_is_any(&w->list[k - 1], "static inline void"))) k--;
  read_template_before(out, w, k);
  return TIDE_OK;
}

static bool same_parameters(const tide__signature *a, const tide__signature *b) {
  bool same = a->params == b->params;
  for (int i = 0; i < a->params && same; i++) same = !strcmp(a->param[i].type, b->param[i].type);
  return same;
}

/* Those that have a body, else the first that is declared. */
static tide_status find_global(tide__signature *list, int *count, const tide__tokens *w, const char *code,
                               const char *name, const char *what) {
  tide__signature one;
  tide__body body[TIDE_JIT_KERNELS];
  int bodies = 0;
  for (int i = 0; i < w->count; i++) {
    if (!is(&w->list[i], "__global__")) continue;
    TIDE_TRY(read_global(&one, w, i, code, name, what));
    if (!one.name[0] || (!one.bodies && *count)) continue;
    if (one.bodies && bodies == TIDE_JIT_KERNELS)
      return tide__fail(TIDE_VALUE, "%s: line %d: too many kernels of this name, expected at most %d", what,
                        w->list[i].line, TIDE_JIT_KERNELS);
    if (one.bodies && !bodies) *count = 0; /* what was only declared */
    if (one.bodies) body[bodies++] = one.body[0];
    int k = 0;
    while (k < *count && !same_parameters(&list[k], &one)) k++;
    if (k == *count) list[(*count)++] = one;
  }
  for (int k = 0; k < *count; k++) {
    list[k].bodies = bodies;
    memcpy(list[k].body, body, (size_t)bodies * sizeof *body);
  }
  return TIDE_OK;
}

tide_status tide__parse_global(tide__signature **out, int *count, const char *code, const char *name,
                               const char *what) {
  TIDE_FREED tide__tokens w = {0};
  TIDE_FREED tide__signature *list = calloc(TIDE_JIT_KERNELS, sizeof *list);
  *count = 0;
  if (!list) return tide__fail(TIDE_MEMORY, "%s: no host memory", what);
  TIDE_TRY(tide__tokenize(&w, code, NULL, TIDE_TOKENS_CODE, what));
  TIDE_TRY(find_global(list, count, &w, code, name, what));
  *out = list, list = NULL;
  return TIDE_OK;
}

bool tide__parse_finds(tide__token *out, const char *code, const char *names) {
  TIDE_FREED tide__tokens w = {0};
  int i = 0;
  if (tide__tokenize(&w, code, NULL, TIDE_TOKENS_CODE, "compile") != TIDE_OK) return false;
  while (i < w.count && !tide__token_is_any(&w.list[i], names)) i++;
  if (i < w.count && out) *out = w.list[i];
  return i < w.count;
}
