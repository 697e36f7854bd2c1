/* rewrite.c: what is changed in a user's code before a compiler of the host gets it.
 *
 * Divisions: to a C++ compiler an integer division by zero cannot happen, and where it sees one it may compile
 * anything, which is a trap as a rule. So it is not let see any: `a / b` becomes `a /tide_by->*b`, and `a /= b` becomes
 * `a /=tide_by= b`, and % likewise. That binds as before, and tide_by's operators give b itself, of its own type, but
 * hide the value of an integer that is not known to be harmless. What happens then when the code runs is the
 * processor's matter (os/division.c). In a macro stands TIDE_BY for tide_by->*, which is nothing while the preprocessor
 * computes a condition: it divides by itself.
 *
 * Shared memory whose size the launch says is a pointer, which C++ cannot declare as CUDA C does: TIDE_DYNAMIC does it,
 * and TIDE_DYNAMIC_GLOBAL outside of functions.
 *
 * The body of a kernel stands between TIDE_BODY and TIDE_BODY_END, which make it a function that a loop calls for each
 * thread of a block, if the backend's text says so.
 *
 * Invariant: lines keep their numbers. */
#include "jit/jit.h"

#include <stdio.h>

typedef struct rewriter {
  const char *from; /* what is not written yet */
  bool by;          /* does a macro use TIDE_BY? */
  tide__text text;
} rewriter;

static bool is(const tide__token *w, const char *text) { return tide__token_is(w, text); }

/* Writes what stands before p, and the text. */
static void put(rewriter *r, const char *p, const char *text) {
  tide__text_add(&r->text, "%.*s%s", (int)(p - r->from), r->from, text);
  r->from = p;
}

/* ---- divisions ---- */

/* A sign of division: not one of the signs <% %> %: and not a name of one. True where one was changed. */
static bool rewrite_division(rewriter *r, const tide__tokens *w, int i, const char *by) {
  const char *p = w->list[i].at;
  if (w->list[i].length != 1 || (i > 0 && is(&w->list[i - 1], "operator"))) return false;
  if (*p != '/' && (*p != '%' || p[1] == ':' || p[1] == '>' || (i > 0 && p[-1] == '<'))) return false;
  bool assigns = p[1] == '=';
  put(r, p + 1 + assigns, assigns ? "tide_by=" : by);
  return true;
}

static tide_status rewrite_macro(rewriter *r, const char *p, const char *end, const char *what) {
  TIDE_FREED tide__tokens w = {0};
  TIDE_TRY(tide__tokenize(&w, p, end, TIDE_TOKENS_ALL, what));
  for (int i = 2; i < w.count; i++) r->by |= rewrite_division(r, &w, i, "TIDE_BY ");
  return TIDE_OK;
}

/* TIDE_BY is nothing from each #if to the end of its condition, and of those of its #elif, which are computed only
 * where nothing between was compiled. */
static tide_status rewrite_directive(rewriter *r, const tide__token *x, const char *what) {
  const char *p = x->at + 1 + strspn(x->at + 1, " \t"), *end = x->at + x->length;
  if (!strncmp(p, "define", 6)) return rewrite_macro(r, p, end, what);
  bool begins = !strncmp(p, "if", 2);
  int line = x->line;
  if (!r->by || (!begins && strncmp(p, "el", 2) != 0 && strncmp(p, "endif", 5) != 0)) return TIDE_OK;
  put(r, x->at, "");
  if (begins) tide__text_add(&r->text, "\n#undef TIDE_BY\n#define TIDE_BY\n#line %d\n", line);
  for (const char *q = x->at; q < end; q++) line += *q == '\n';
  put(r, end, "\n#undef TIDE_BY\n#define TIDE_BY tide_by->*\n");
  tide__text_add(&r->text, "#line %d", line + 1);
  return TIDE_OK;
}

/* ---- shared memory ---- */

/* The end of the declaration `extern __shared__ T name[];` that begins at token i; i if another one does. */
static int read_dynamic(char *type, size_t size, int *name, const tide__tokens *w, int i) {
  bool shared = false;
  type[0] = 0;
  for (int k = i + 1; k + 3 < w->count; k++) {
    const tide__token *x = &w->list[k];
    if (is(x, "__align__") || is(x, "alignas") || is(x, "__attribute__")) {
      k = tide__closing(w, k + 1, false);
    } else if (is(x, "__shared__")) {
      shared = true;
    } else if (is(x + 1, "[")) {
      *name = k;
      return shared && type[0] && is(x + 2, "]") && is(x + 3, ";") ? k + 3 : i;
    } else {
      size_t at = strlen(type);
      if (strchr(";{}()=\"#", *x->at) || size - at <= (size_t)x->length + 1) return i;
      snprintf(type + at, size - at, "%s%.*s", at ? " " : "", x->length, x->at);
    }
  }
  return i;
}

/* The shared variable that is declared at token i, as C++ has it: gives the last token that was read. */
static int rewrite_shared(rewriter *r, const tide__tokens *w, int i, bool in_function) {
  const tide__token *x = &w->list[i];
  char type[200];
  int name = 0, end = i;
  if (i > 0 && is(x, "__shared__") && is(x - 1, "static")) {
    put(r, x->at, "thread_local");
    r->from += x->length;
  } else if (is(x, "extern") && (end = read_dynamic(type, sizeof type, &name, w, i)) > i) {
    put(r, x->at, in_function ? "TIDE_DYNAMIC" : "TIDE_DYNAMIC_GLOBAL");
    tide__text_add(&r->text, "(%s, %.*s)", type, w->list[name].length, w->list[name].at);
    for (int line = x->line; line < w->list[end].line; line++) tide__text_add(&r->text, "\n");
    r->from = w->list[end].at + 1;
  }
  return end;
}

/* ---- the whole ---- */

static tide_status rewrite(rewriter *r, const tide__tokens *w, const tide__signature *kernel, const char *code,
                           const char *what) {
  int depth = 0, function = 0; /* of brackets; of the function that we are in */
  for (int i = 0; i < w->count; i++) {
    const tide__token *x = &w->list[i];
    if (*x->at == '#' && x->length > 1) TIDE_TRY(rewrite_directive(r, x, what));
    depth += is(x, "{");
    bool opens = is(x, "{") && i > 0 && (is(x - 1, ")") || is(x - 1, "const") || is(x - 1, "noexcept"));
    if (opens && !function) function = depth;
    if (is(x, "}") && function == depth--) function = 0;
    for (int k = 0; kernel && k < kernel->bodies; k++) {
      if (x->at == code + kernel->body[k].begin) put(r, x->at + 1, " TIDE_BODY ");
      if (x->at == code + kernel->body[k].end) put(r, x->at, " TIDE_BODY_END ");
    }
    rewrite_division(r, w, i, "tide_by->*");
    i = rewrite_shared(r, w, i, function > 0);
  }
  tide__text_add(&r->text, "%s", r->from);
  return TIDE_OK;
}

char *tide__jit_rewrite(const char *code, const tide__signature *kernel, const char *what) {
  TIDE_FREED tide__tokens w = {0};
  rewriter r = {.from = code};
  if (tide__tokenize(&w, code, NULL, TIDE_TOKENS_ALL, what) == TIDE_OK &&
      rewrite(&r, &w, kernel, code, what) == TIDE_OK)
    return tide__text_end(&r.text, what);
  free(r.text.at);
  return NULL;
}
