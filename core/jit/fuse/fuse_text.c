/* fuse_text.c: fused operations as the text of one kernel.
 *
 * Each node is one statement that makes a value v<node>, of the type that its dtype is computed in; an operation's
 * expression is the text that op.def has of it, in a block that declares what it names. Of helpers_template.h a kernel
 * gets the functions that it calls, for the types that it names, as compilers take their time for each.
 *
 * Invariant: a value is what memory of its dtype would give back, but for 16-bit floats, which stay float32. */
#include "jit/fuse/fuse.h"

#include <stdio.h>

#include "fuse_kernel.inc"
#include "helpers_template.inc"

/* ---- helpers ---- */

enum { HELPERS = 80 };

typedef struct helper {
  const char *text, *name;
  int length, name_length;
  bool of_integers, of_floats;
} helper;

/* The functions of helpers_template.h, in their order. */
static int list_helpers(helper *list) {
  bool of_integers = true, of_floats = true;
  int n = 0;
  for (const char *p = TEXT_helpers_template, *next; *p; p = next) {
    next = p + strcspn(p, "\n") + 1;
    if (!strncmp(p, "#ifdef", 6)) of_floats = false;
    if (!strncmp(p, "#else", 5)) of_integers = false, of_floats = true;
    if (!strncmp(p, "HELPER", 6) && n < HELPERS) {
      const char *name = strstr(p, " H(") + 3;
      list[n++] = (helper){p, name, 0, (int)strcspn(name, ")"), of_integers, of_floats};
    }
    if (*p != '#' && n) list[n - 1].length = (int)(next - list[n - 1].text);
  }
  return n;
}

/* Does the text of a helper call another one? */
static bool calls(const helper *h, const helper *other) {
  char call[48];
  snprintf(call, sizeof call, "H(%.*s)", other->name_length, other->name);
  const char *found = strstr(h->name, call);
  return found && found < h->text + h->length;
}

static bool is_named(const helper *h, const char *body) {
  char word[48];
  snprintf(word, sizeof word, "tide_%.*s", h->name_length, h->name);
  return tide__text_names(body, word);
}

/* Are all helpers that its expression calls here? */
static bool look_for_text(int op) {
  helper list[HELPERS];
  int count = list_helpers(list);
  for (const char *p = tide_op_get((tide_op)op)->expr; (p = strstr(p, "tide_"));) {
    int n = 0, i = 0;
    p += strlen("tide_");
    while (tide__text_word(p[n])) n++;
    while (i < count && (list[i].name_length != n || memcmp(list[i].name, p, (size_t)n) != 0)) i++;
    if (i == count) return false;
  }
  return true;
}

/* Every pending operation asks: the text is read once. */
bool tide__fuse_has_text(int op) {
  enum { UNKNOWN, NO, YES };
  static _Atomic uint8_t known[TIDE_OP_COUNT];
  uint8_t is = atomic_load_explicit(&known[op], memory_order_relaxed);
  if (is == UNKNOWN) {
    is = look_for_text(op) ? YES : NO;
    atomic_store_explicit(&known[op], is, memory_order_relaxed);
  }
  return is == YES;
}

bool tide__fuse_is_costly(int op) {
  return tide__text_names_any(
      tide_op_get((tide_op)op)->expr,
      "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
      "atanh erf erfc atan2 hypot tide_pow tide_fmod tide_remainder tide_div_floor");
}

/* ---- statements ---- */

const char *tide__fuse_value_type(int dtype) {
  return dtype == TIDE_BOOL ? "bool" : tide__jit_compute_type(tide__compute_dtype((tide_dtype)dtype));
}

const char *tide__fuse_slot_type(const tide__fuse_slot *slot) {
  if (slot->kind != TIDE__FUSE_NUMBER) return slot->kind == TIDE__FUSE_LINE ? "tide_line" : "tide_note";
  return tide__jit_compute_type((tide_dtype)slot->compute);
}

/* Integers below 32 bits wrap round. */
static bool is_narrow(int dtype) { return dtype >= TIDE_UINT8 && dtype <= TIDE_INT16; }

void tide__fuse_add_read(tide__text *t, const tide_fused *f, int node, const char *from) {
  const tide_fused_node *v = &f->value[node];
  const char *get = tide__jit_is_small(v->dtype) ? "tide_get" : "";
  tide__text_add(t, "  const %s v%d = %s(tide_at(%s, v%d, tide_a.c%d, tide_w));\n", tide__fuse_value_type(v->dtype),
                 node, get, from, v->in[0], v->param);
}

/* A gather's source is an address. */
static void add_input(tide__text *t, const tide_fused *f, int node, const tide__special *s, const uint8_t *order) {
  const tide_fused_node *v = &f->value[node];
  char at[64];
  int k = 0;
  bool gathers = v->kind == TIDE_FUSE_GATHER;
  while (order[k] != v->input) k++;
  k += s->outputs;
  if (k < s->operands - s->uniform)
    snprintf(at, sizeof at, "x%d", k);
  else
    snprintf(at, sizeof at, "%s(const tide_s%d *)tide_a.ptr[%d]", gathers ? "" : "*", k, k);
  if (gathers) {
    tide__fuse_add_read(t, f, node, at);
    return;
  }
  tide__text_add(t, tide__jit_is_small(v->dtype) ? "  const %s v%d = tide_get(%s);\n" : "  const %s v%d = %s;\n",
                 tide__fuse_value_type(v->dtype), node, at);
}

static void add_operand(tide__text *t, const tide_fused_node *v, int k, const char *name) {
  if (v->in[k] < 0)
    tide__text_add(t, "const T %s = (T)tide_a.c%d; ", name, -1 - v->in[k]);
  else
    tide__text_add(t, "const T %s = (T)v%d; ", name, v->in[k]);
}

void tide__fuse_add_op(tide__text *t, const tide_fused *f, int node) {
  static const char *const usual[] = {"a", "b", "c"};
  const tide_fused_node *v = &f->value[node];
  tide__text_add(t, "  %s v%d; { typedef %s T; ", tide__fuse_value_type(v->dtype), node,
                 tide__jit_compute_type((tide_dtype)v->compute));
  for (int k = 0; k < v->operands; k++) add_operand(t, v, k, v->operands == 1 ? "x" : usual[k]);
  for (int k = 0; k < v->params; k++) tide__text_add(t, "const T p%d = (T)tide_a.c%d; ", k, v->param + k);
  const char *expr = tide_op_get((tide_op)v->op)->expr, *type = tide__fuse_value_type(v->dtype);
  if (is_narrow(v->dtype))
    tide__text_add(t, "v%d = (%s)(%s)(%s); }\n", node, type, tide__jit_storage_type(v->dtype), expr);
  else
    tide__text_add(t, "v%d = (%s)(%s); }\n", node, type, expr);
}

void tide__fuse_add_cast(tide__text *t, const tide_fused *f, int node) {
  const tide_fused_node *v = &f->value[node];
  const char *type = tide__fuse_value_type(v->dtype), *stored = tide__jit_storage_type(v->dtype);
  int from = v->in[0];
  if (v->dtype == TIDE_BOOL)
    tide__text_add(t, "  const bool v%d = v%d != 0;\n", node, from);
  else if (tide__jit_is_half(v->dtype))
    tide__text_add(t, "  float v%d; { %s r; tide_put(r, (float)v%d); v%d = tide_get(r); }\n", node, stored, from, node);
  else if (tide__category(v->dtype) == 1 && tide__category(f->value[from].dtype) == 2)
    tide__text_add(t, "  const %s v%d = (%s)(%s)tide_whole(v%d);\n", type, node, type, stored, from);
  else
    tide__text_add(t, "  const %s v%d = (%s)(%s)v%d;\n", type, node, type, stored, from);
}

static void add_output(tide__text *t, const tide_fused *f, int k) {
  int node = f->output[k], dtype = f->value[node].dtype;
  tide__text_add(t, tide__jit_is_small(dtype) ? "  tide_put(x%d, v%d);\n" : "  x%d = v%d;\n", k, node);
}

static void add_node(tide__text *t, const tide_fused *f, int node, const tide__special *s, const uint8_t *order) {
  switch (f->value[node].kind) {
  case TIDE_FUSE_INPUT:
  case TIDE_FUSE_GATHER: add_input(t, f, node, s, order); break;
  case TIDE_FUSE_OP: tide__fuse_add_op(t, f, node); break;
  default: tide__fuse_add_cast(t, f, node); break;
  }
}

/* ---- the whole ---- */

/* The helpers that are needed, for a type that the body names. */
static void add_helpers(tide__text *t, const char *body, const char *type, const char *define, bool is_float,
                        const helper *list, const bool *needed, int n) {
  if (!tide__text_names(body, type)) return;
  tide__text_add(t, "#define T %s\n#define %s\n", type, define);
  for (int i = 0; i < n; i++)
    if (needed[i] && (is_float ? list[i].of_floats : list[i].of_integers))
      tide__text_add(t, "%.*s", list[i].length, list[i].text);
  tide__text_add(t, "#undef T\n#undef U\n#undef F\n");
}

char *tide__fuse_helpers(const char *body) {
  helper list[HELPERS];
  bool needed[HELPERS], any = false;
  int n = list_helpers(list);
  tide__text t = {0};
  for (int i = n - 1; i >= 0; i--) {
    needed[i] = is_named(&list[i], body);
    for (int k = i + 1; k < n; k++) needed[i] |= needed[k] && calls(&list[k], &list[i]);
    any |= needed[i];
  }
  tide__text_add(&t, "%s", tide__text_names(body, "tide_at") ? TEXT_gather : "");
  if (!any) return tide__text_end(&t, "fuse");
  tide__text_add(&t, "#ifndef INFINITY\n#define INFINITY (1.0f / 0.0f)\n#endif\n#define H(name) tide_##name\n"
                     "#define HELPER TIDE_INLINE\n#define HELPER_LONG TIDE_INLINE\n");
  add_helpers(&t, body, "int", "U unsigned", false, list, needed, n);
  add_helpers(&t, body, "long long", "U unsigned long long", false, list, needed, n);
  add_helpers(&t, body, "float", "F(name) name##f", true, list, needed, n);
  add_helpers(&t, body, "double", "F(name) name", true, list, needed, n);
  tide__text_add(&t, "#undef H\n#undef HELPER\n#undef HELPER_LONG\n");
  return tide__text_end(&t, "fuse");
}

char *tide__fuse_source(const tide_fused *f, const tide__special *s, const uint8_t *order, const tide_compiler *c) {
  tide__text t = {0};
  const char *types[TIDE_FUSE_SCALARS];
  for (int k = 0; k < f->slots; k++) types[k] = tide__fuse_slot_type(&f->slot[k]);
  for (int i = 0; i < f->nodes; i++) add_node(&t, f, i, s, order);
  for (int k = 0; k < f->outputs; k++) add_output(&t, f, k);
  TIDE_FREED char *body = tide__text_end(&t, "fuse"), *before = body ? tide__fuse_helpers(body) : NULL;
  return before ? tide__jit_around(before, body, types, s, c) : NULL;
}
