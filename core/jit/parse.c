/* parse.c: finds a function in C++ text and reads its signature.
 *
 * This is no parser of C++: the text is cut into words, comments and directives are left out, and functions are found
 * by the brackets around them. That is enough for the entry of a kernel, whose parameters are numbers, references and
 * pointers; whatever is stranger than that is refused with its line, and what lies inside a body is left to the
 * compiler. So is the preprocessor: where conditions choose between kernels of one name, all of them are found, and
 * kernel.c has the compiler say which one is there.
 *
 * Invariant: a signature holds no pointer into the text. */
#include "jit.h"

#include <ctype.h>
#include <stdio.h>

typedef struct word {
  const char *at;
  int length, line;
} word;

typedef struct words {
  word *list;
  int count, room;
} words;

static bool is(const word *w, const char *text) {
  return (size_t)w->length == strlen(text) && !memcmp(w->at, text, (size_t)w->length);
}
static bool is_name(const word *w) { return isalpha((unsigned char)*w->at) || *w->at == '_'; }

/* ---- cutting ---- */

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
static const char *word_end(const char *p, bool line_start) {
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

const char *tide__parse_piece(const char *p, bool *line_start) {
  if (splice(p)) return p + splice(p);
  bool space = isspace((unsigned char)*p) != 0;
  const char *end = space ? p + 1 : word_end(p, *line_start);
  *line_start = *p == '\n' || (*line_start && (space || is_comment(p)));
  return end;
}

static bool is_left_out(const char *p, bool line_start) {
  return is_comment(p) || (*p == '#' && line_start) || *p == '"' || *p == '\'' || raw_end(p);
}

static tide_status cut(words *out, const char *code, const char *what) {
  bool line_start = true;
  int line = 1;
  *out = (words){0};
  for (const char *p = code; *p;) {
    if (isspace((unsigned char)*p)) {
      if (*p == '\n') line++, line_start = true;
      p++;
      continue;
    }
    const char *end = word_end(p, line_start);
    if (!is_left_out(p, line_start)) {
      if (out->count == out->room) {
        int room = out->room ? 2 * out->room : 256;
        word *list = realloc(out->list, (size_t)room * sizeof *list);
        if (!list) {
          free(out->list);
          return tide__fail(TIDE_MEMORY, "%s: no host memory", what);
        }
        out->list = list, out->room = room;
      }
      out->list[out->count++] = (word){p, (int)(end - p), line};
    }
    for (const char *q = p; q < end; q++) line += *q == '\n';
    line_start = line_start && is_comment(p);
    p = end;
  }
  return TIDE_OK;
}

bool tide__parse_directive_line(char *out, size_t size, const char *directive, size_t length) {
  size_t at = 0;
  for (const char *p = directive, *end; p < directive + length && at + 1 < size; p = end) {
    bool quoted = *p == '"' || *p == '\'', blank = is_comment(p) || isspace((unsigned char)*p);
    end = is_comment(p) ? skip_comment(p) : quoted ? skip_quoted(p) : p + (splice(p) ? splice(p) : 1);
    if (splice(p)) continue;
    size_t n = blank ? 1 : (size_t)(end - p);
    if (n >= size - at) break;
    memcpy(out + at, blank ? " " : p, n);
    at += n;
    if (end >= directive + length) return out[at] = 0, true;
  }
  out[at] = 0;
  return !length;
}

const char *tide__parse_directive(const char **at, size_t *length) {
  bool line_start = true;
  for (const char *p = *at, *end; *p; p = end) {
    bool directive = *p == '#' && line_start;
    end = tide__parse_piece(p, &line_start);
    if (directive) {
      *at = end, *length = (size_t)(end - p);
      return p;
    }
  }
  return NULL;
}

/* ---- brackets ---- */

/* The index of the bracket that closes the one at `at`, or count. Angle brackets count where they are asked for. */
static int closing(const words *w, int at, bool angle) {
  int depth = 0;
  for (int i = at; i < w->count; i++) {
    char c = w->list[i].length == 1 ? *w->list[i].at : 0;
    if (c == '(' || c == '{' || c == '[' || (angle && c == '<')) depth++;
    if ((c == ')' || c == '}' || c == ']' || (angle && c == '>')) && --depth == 0) return i;
  }
  return w->count;
}

/* ---- declarations ---- */

static bool is_hint(const word *w) {
  return is(w, "__restrict__") || is(w, "__restrict") || is(w, "restrict") || is(w, "__grid_constant__") ||
         is(w, "register");
}
static bool is_qualifier(const word *w) { return is(w, "const") || is(w, "volatile"); }
static bool is_builtin(const word *w) {
  static const char *const names[] = {"void", "bool",  "char",     "short",  "int",
                                      "long", "float", "unsigned", "signed", "double"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (is(w, names[i])) return true;
  return false;
}

static bool join(char *out, size_t size, const words *w, int from, int to, int without) {
  size_t at = 0;
  out[0] = 0;
  for (int i = from; i < to; i++) {
    const word *x = &w->list[i];
    if (i == without || is_hint(x)) continue;
    int wrote =
        snprintf(out + at, size - at, "%s%.*s", at && *x->at != ':' && out[at - 1] != ':' ? " " : "", x->length, x->at);
    if (wrote < 0 || (size_t)wrote >= size - at) return false;
    at += (size_t)wrote;
  }
  return true;
}

/* One parameter between the indexes. Its name is the last word that can be one, if a type stands before it. */
static tide_status read_parameter(tide__parameter *out, const words *w, int from, int to, const char *what) {
  int end = from, name = -1;
  while (end < to && !is(&w->list[end], "=")) end++;
  bool array = end - 2 >= from && is(&w->list[end - 1], "]");
  int last = end - 1;
  while (array && last > from && !is(&w->list[last], "[")) last--;
  if (array) last--;
  bool typed = false;
  for (int i = from; i < last; i++)
    typed |= is_name(&w->list[i]) && !is_qualifier(&w->list[i]) && !is_hint(&w->list[i]);
  if (last >= from && is_name(&w->list[last]) && typed && !is_builtin(&w->list[last]) && !is_hint(&w->list[last]) &&
      !is_qualifier(&w->list[last]))
    name = last;
  out->name[0] = 0;
  bool fits = name < 0 || join(out->name, sizeof out->name, w, name, name + 1, -1);
  fits = fits && join(out->type, sizeof out->type, w, from, array ? last + 1 : end, name);
  size_t length = strlen(out->type);
  if (array && fits && length + 3 < sizeof out->type) memcpy(out->type + length, " *", 3);
  if (fits && out->type[0]) return TIDE_OK;
  return tide__fail(TIDE_VALUE, "%s: line %d: a parameter is not understood, expected a type and a name", what,
                    w->list[from].line);
}

static tide_status read_parameters(tide__signature *out, const words *w, int open, int close, const char *what) {
  out->params = 0;
  if (close == open + 1 || (close == open + 2 && is(&w->list[open + 1], "void"))) return TIDE_OK;
  int depth = 0, from = open + 1;
  for (int i = open + 1; i <= close; i++) {
    char c = w->list[i].length == 1 ? *w->list[i].at : 0;
    if (c == '(' || c == '<' || c == '[') depth++;
    if (i < close && (c == ')' || c == '>' || c == ']')) depth--;
    if (!(c == ',' && depth == 0) && i < close) continue;
    if (out->params == TIDE_LAUNCH_PARAMS || from == i)
      return tide__fail(TIDE_VALUE, "%s: line %d: wrong parameters, got %s, expected at most %d", what, w->list[i].line,
                        from == i ? "an empty one" : "too many", TIDE_LAUNCH_PARAMS);
    TIDE_TRY(read_parameter(&out->param[out->params], w, from, i, what));
    out->params++;
    from = i + 1;
  }
  return TIDE_OK;
}

/* The declaration in the words [from, ...) up to the parameter list at `open`. */
static tide_status read_function(tide__signature *out, const words *w, int from, int open, const char *what) {
  int close = closing(w, open, false);
  out->line = w->list[from].line;
  if (!join(out->name, sizeof out->name, w, open - 1, open, -1) ||
      !join(out->result, sizeof out->result, w, from, open - 1, -1))
    return tide__fail(TIDE_VALUE, "%s: line %d: the declaration is too long", what, w->list[from].line);
  if (close == w->count)
    return tide__fail(TIDE_VALUE, "%s: line %d: the parameters of %s have no end", what, w->list[open].line, out->name);
  return read_parameters(out, w, open, close, what);
}

/* Where the body of a function whose parameters close at `close` begins, or -1: attributes and noexcept may stand
 * between. */
static int body_of(const words *w, int close) {
  int i = close + 1;
  while (i < w->count && (is_name(&w->list[i]) || is(&w->list[i], "(")))
    i = is(&w->list[i], "(") ? closing(w, i, false) + 1 : i + 1;
  return i < w->count && is(&w->list[i], "{") ? i : -1;
}

/* The parameter list of the function whose words begin at `from`: the first round bracket after a name that is not an
 * attribute's. -1 where something else is declared. */
static int parameters_of(const words *w, int from) {
  for (int i = from; i < w->count; i++) {
    const word *x = &w->list[i];
    if (is(x, ";") || is(x, "{") || is(x, "}") || is(x, "=")) return -1;
    if (!is(x, "(")) continue;
    if (i == from || !is_name(&w->list[i - 1])) return -1;
    if (is(&w->list[i - 1], "__launch_bounds__") || is(&w->list[i - 1], "__attribute__") ||
        is(&w->list[i - 1], "__maxnreg__")) {
      i = closing(w, i, false);
      continue;
    }
    return i;
  }
  return -1;
}

/* The parameters of `template < ... >`: the name of each is its last word, before a default. Those that are too many or
 * too long have none. */
static void read_templates(tide__signature *out, const words *w, int open, int close) {
  out->templates = 0, out->template_type[0] = 0;
  for (int from = open + 1, to; from < close && out->templates < TIDE_JIT_TEMPLATES; from = to + 1) {
    int depth = 0, end = 0;
    for (to = from; to < close && (depth || !is(&w->list[to], ",")); to++) {
      depth += is(&w->list[to], "<") || is(&w->list[to], "(");
      depth -= is(&w->list[to], ">") || is(&w->list[to], ")");
      if (!end && is(&w->list[to], "=")) end = to;
    }
    int last = (end ? end : to) - 1;
    char *name = out->template_name[out->templates], *preset = out->template_default[out->templates++];
    name[0] = preset[0] = 0;
    if (end && !join(preset, TIDE_JIT_NAME, w, end + 1, to, -1)) preset[0] = 0;
    if (last > from && is_name(&w->list[last]) && !join(name, TIDE_JIT_NAME, w, last, last + 1, -1)) name[0] = 0;
    bool type = is(&w->list[from], "typename") || is(&w->list[from], "class");
    if (type && !out->template_type[0]) memcpy(out->template_type, name, TIDE_JIT_NAME);
  }
}

tide_status tide__parse_template(tide__signature *out, const char *code, const char *what) {
  words w;
  TIDE_TRY(cut(&w, code, what));
  tide_status status = TIDE_OK;
  bool found = false;
  for (int i = 0; i + 1 < w.count && status == TIDE_OK; i++) {
    if (is(&w.list[i], "{")) i = closing(&w, i, false);
    if (i + 1 >= w.count || !is(&w.list[i], "template") || !is(&w.list[i + 1], "<")) continue;
    int end = closing(&w, i + 1, true), open = end < w.count ? parameters_of(&w, end + 1) : -1;
    int body = open < 0 ? -1 : body_of(&w, closing(&w, open, false));
    if (body < 0) continue;
    read_templates(out, &w, i + 1, end);
    status = read_function(out, &w, end + 1, open, what);
    found = true;
    i = closing(&w, body, false);
  }
  free(w.list);
  if (status != TIDE_OK || (found && out->template_type[0])) return status;
  return tide__fail(TIDE_VALUE,
                    "%s: the code is not understood, got no function template%s, expected one such as "
                    "`template <typename T> T f(T x, T y, T alpha) { return x + alpha * y; }`",
                    what, found ? " with a type parameter" : "");
}

/* The template that ends before word k, if one does. */
static void read_template_before(tide__signature *out, const words *w, int k) {
  out->templates = 0, out->template_type[0] = 0;
  for (int open = k - 2; k > 0 && is(&w->list[k - 1], ">") && open > 0; open--)
    if (is(&w->list[open], "<") && is(&w->list[open - 1], "template")) {
      read_templates(out, w, open, k - 1);
      return;
    }
}

/* What is declared at the word __global__, if it has that name; out->name[0] is 0 if not. Its body is the only one. */
static tide_status read_global(tide__signature *out, const words *w, int i, const char *code, const char *name,
                               const char *what) {
  size_t length = strcspn(name, "<");
  int k = i, open = parameters_of(w, i + 1);
  out->name[0] = 0, out->bodies = 0;
  if (open < 0 || (size_t)w->list[open - 1].length != length || memcmp(w->list[open - 1].at, name, length) != 0)
    return TIDE_OK;
  TIDE_TRY(read_function(out, w, i, open, what));
  int brace = body_of(w, closing(w, open, false)), end = brace < 0 ? w->count : closing(w, brace, false);
  if (end < w->count)
    out->body[out->bodies++] = (tide__body){(size_t)(w->list[brace].at - code), (size_t)(w->list[end].at - code)};
  while (k > 0 && (is(&w->list[k - 1], "static") || is(&w->list[k - 1], "inline") || is(&w->list[k - 1], "void"))) k--;
  read_template_before(out, w, k);
  return TIDE_OK;
}

static bool same_parameters(const tide__signature *a, const tide__signature *b) {
  bool same = a->params == b->params;
  for (int i = 0; i < a->params && same; i++) same = !strcmp(a->param[i].type, b->param[i].type);
  return same;
}

/* What a declaration without a body says beyond the one with it: the defaults of a template, whose parameters may have
 * other names there. */
static void take_declared(tide__signature *out, const tide__signature *declared) {
  for (int i = 0; i < out->templates && i < declared->templates; i++) {
    const char *text = declared->template_default[i];
    if (out->template_default[i][0] || !*text) continue;
    for (int before = 0; before < i; before++)
      if (!strcmp(text, declared->template_name[before])) {
        text = out->template_name[before];
        break;
      }
    memcpy(out->template_default[i], text, TIDE_JIT_NAME);
  }
}

/* Those that have a body, else any. */
static tide_status find_global(tide__signature *list, int *count, const words *w, const char *code, const char *name,
                               const char *what) {
  bool declared = false;
  tide__signature one, without;
  tide__body body[TIDE_JIT_KERNELS];
  int bodies = 0;
  for (int i = 0; i < w->count; i++) {
    if (!is(&w->list[i], "__global__")) continue;
    TIDE_TRY(read_global(&one, w, i, code, name, what));
    if (!one.name[0]) continue;
    if (!one.bodies) {
      if (declared) take_declared(&without, &one);
      if (!declared) without = one, declared = true;
      continue;
    }
    if (bodies == TIDE_JIT_KERNELS)
      return tide__fail(TIDE_VALUE, "%s: line %d: too many kernels of this name, expected at most %d", what,
                        w->list[i].line, TIDE_JIT_KERNELS);
    body[bodies++] = one.body[0];
    int k = 0;
    while (k < *count && !same_parameters(&list[k], &one)) k++;
    if (k == *count) list[(*count)++] = one;
  }
  for (int k = 0; k < *count; k++) {
    if (declared) take_declared(&list[k], &without);
    list[k].bodies = bodies;
    memcpy(list[k].body, body, (size_t)bodies * sizeof *body);
  }
  if (!*count && declared) list[(*count)++] = without;
  return TIDE_OK;
}

tide_status tide__parse_global(tide__signature **out, int *count, const char *code, const char *name,
                               const char *what) {
  words w;
  *count = 0, *out = NULL;
  TIDE_TRY(cut(&w, code, what));
  tide_status status = TIDE_OK;
  if (!(*out = calloc(TIDE_JIT_KERNELS, sizeof **out))) status = tide__fail(TIDE_MEMORY, "%s: no host memory", what);
  if (status == TIDE_OK) status = find_global(*out, count, &w, code, name, what);
  free(w.list);
  if (status != TIDE_OK) free(*out), *out = NULL;
  return status;
}

const char *tide__parse_finds(const char *code, const char *const *list) {
  words w;
  const char *found = NULL;
  if (cut(&w, code, "compile") != TIDE_OK) return NULL;
  for (int i = 0; i < w.count && !found; i++)
    for (const char *const *p = list; *p && !found; p++)
      if (is(&w.list[i], *p)) found = *p;
  free(w.list);
  return found;
}
