/* fuse_text.c: fused operations as the text of one kernel.
 *
 * Each node is one statement that makes a value v<node>, of the type that its dtype is computed in; an operation's
 * expression is the text that op.def has of it, in a block that declares what it names. The helpers that expressions
 * call are here once for CUDA and C++, and only those that are called go into a kernel, as compilers take their time
 * for each.
 *
 * Invariant: a value is what memory of its dtype would give back, but for 16-bit floats, which stay float32. */
#include "fuse.h"

#include <stdio.h>

/* ---- helpers ---- */

#define FLOATS(name, f)                                                                                                \
  "TIDE_INLINE float " name "(float x) { return " f "f(x); }\nTIDE_INLINE double " name "(double x) { return " f       \
  "(x); }\n"
#define ROUNDS(name, f)                                                                                                \
  FLOATS(name, f)                                                                                                      \
  "TIDE_INLINE int " name "(int x) { return x; }\nTIDE_INLINE long long " name "(long long x) { return x; }\n"
#define EACH1(result, name, body) "template <class T> TIDE_INLINE " result " " name "(T x) { return " body "; }\n"
#define EACH2(result, name, body) "template <class T> TIDE_INLINE " result " " name "(T a, T b) { return " body "; }\n"
#define WHOLES(name, body)                                                                                             \
  "TIDE_INLINE int " name "(int a, int b) { typedef int T; typedef unsigned U; " body " }\n"                           \
  "TIDE_INLINE long long " name                                                                                        \
  "(long long a, long long b) { typedef long long T; typedef unsigned long long U; " body " }\n"

/* Of a GPU's texts alone. tide_line and tide_note are what slots of gathers hold (fuse.h), the box is a tide_mail. What
 * was wrong is told at the end of a thread, so that nothing stands between the reads of its lanes. */
static const char gather_text[] =
    "struct tide_line { unsigned length, pitch; int base; unsigned site; };\n"
    "struct tide_box { unsigned full, site; int base, reserved; long long value, length; };\n"
    "struct tide_note { unsigned *taken; volatile tide_box *box; };\n"
    "struct tide_wrong { long long value; unsigned length, site; };\n"
    "TIDE_APART void tide_report(tide_wrong w, tide_line l, tide_note n) {\n"
    "  unsigned was;\n"
    "  asm volatile(\"atom.global.exch.b32 %0, [%1], 1;\" : \"=r\"(was) : \"l\"(n.taken) : \"memory\");\n"
    "  if (was) return;\n"
    "  n.box->site = w.site, n.box->base = l.base, n.box->value = w.value, n.box->length = w.length;\n"
    "  asm volatile(\"membar.sys;\" ::: \"memory\");\n"
    "  n.box->full = 1;\n}\n"
    "template <class T> TIDE_INLINE const T &tide_at(const T *p, long long i, const tide_line &l, tide_wrong &w) {\n"
    "  const long long at = i < 0 ? i + l.length : i - l.base;\n"
    "  const bool bad = (unsigned long long)at >= l.length;\n"
    "  w.value = bad ? i : w.value, w.length = bad ? l.length : w.length, w.site = bad ? l.site : w.site;\n"
    "  return p[(unsigned long long)(bad ? 0u : (unsigned)at) * l.pitch];\n}\n";

/* Each stands behind those that it calls. */
static const struct {
  const char *name, *text;
} helpers[] = {
    {"tide_abs",
     FLOATS("tide_abs", "fabs") "TIDE_INLINE int tide_abs(int x) { return x < 0 ? (int)(0u - (unsigned)x) : x; }\n"
                                "TIDE_INLINE long long tide_abs(long long x) {\n"
                                "  return x < 0 ? (long long)(0ull - (unsigned long long)x) : x;\n}\n"},
    {"tide_sign", EACH1("T", "tide_sign", "(T)((x > 0) - (x < 0))")},
    {"tide_sgn", EACH1("T", "tide_sgn", "(T)((x > 0) - (x < 0))")},
    {"tide_floor", ROUNDS("tide_floor", "floor")},
    {"tide_ceil", ROUNDS("tide_ceil", "ceil")},
    {"tide_rint", ROUNDS("tide_rint", "rint")},
    {"tide_trunc", ROUNDS("tide_trunc", "trunc")},
    {"tide_isnan", EACH1("bool", "tide_isnan", "x != x")},
    {"tide_isinf", EACH1("bool", "tide_isinf", "x == x && x - x != 0")},
    {"tide_isfinite", EACH1("bool", "tide_isfinite", "x - x == 0")},
    {"tide_nan_to_num", "template <class T> TIDE_INLINE T tide_nan_to_num(T x, T nan, T most, T least) {\n"
                        "  return x != x ? nan : x - x != 0 ? (x > 0 ? most : least) : x;\n}\n"},
    {"tide_max", EACH2("T", "tide_max", "a > b || a != a ? a : b")},
    {"tide_min", EACH2("T", "tide_min", "a < b || a != a ? a : b")},
    {"tide_fmax", EACH2("T", "tide_fmax", "a > b || b != b ? a : b")},
    {"tide_fmin", EACH2("T", "tide_fmin", "a < b || b != b ? a : b")},
    {"tide_divide", EACH2("T", "tide_divide", "a / b")},
    {"tide_conj", EACH1("T", "tide_conj", "x")},
    {"tide_pow", "TIDE_INLINE float tide_pow(float a, float b) { return powf(a, b); }\n"
                 "TIDE_INLINE double tide_pow(double a, double b) { return pow(a, b); }\n" //
     WHOLES("tide_pow", "if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;\n"
                        "  U out = 1, base = (U)a;\n  for (; b; b >>= 1, base *= base) if (b & 1) out *= base;\n"
                        "  return (T)out;")},
    {"tide_div_trunc", "TIDE_INLINE float tide_div_trunc(float a, float b) { return truncf(a / b); }\n"
                       "TIDE_INLINE double tide_div_trunc(double a, double b) { return trunc(a / b); }\n"},
    {"tide_fmod", "TIDE_INLINE float tide_fmod(float a, float b) { return fmodf(a, b); }\n"
                  "TIDE_INLINE double tide_fmod(double a, double b) { return fmod(a, b); }\n"},
    {"tide_remainder", "template <class T> TIDE_INLINE T tide_remainder(T a, T b) {\n"
                       "  T r = fmod(a, b);\n  return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n}\n"},
    {"tide_div_floor", "template <class T> TIDE_INLINE T tide_div_floor(T a, T b) {\n"
                       "  if (b == 0) return a / b;\n  T r = fmod(a, b), q = (a - r) / b;\n"
                       "  if (r != 0 && (r < 0) != (b < 0)) q -= 1;\n  T whole = floor(q);\n"
                       "  if (q == 0) return copysign((T)0, a / b);\n"
                       "  return q - whole > (T)0.5 ? whole + 1 : whole;\n}\n"},
    {"tide_copysign", "TIDE_INLINE float tide_copysign(float a, float b) { return copysignf(a, b); }\n"
                      "TIDE_INLINE double tide_copysign(double a, double b) { return copysign(a, b); }\n"},
    {"tide_signbit", "TIDE_INLINE bool tide_signbit(float x) { return copysignf(1, x) < 0; }\n"
                     "TIDE_INLINE bool tide_signbit(double x) { return copysign(1.0, x) < 0; }\n"
                     "TIDE_INLINE bool tide_signbit(int x) { return x < 0; }\n"
                     "TIDE_INLINE bool tide_signbit(long long x) { return x < 0; }\n"},
    {"tide_isclose", "template <class T> TIDE_INLINE bool tide_isclose(T a, T b, T rtol, T atol, T equal_nan) {\n"
                     "  T d = a > b ? a - b : b - a;\n  if (a == b) return true;\n"
                     "  return (d - d == 0 && d <= atol + rtol * (b < 0 ? -b : b)) || (equal_nan != 0 && a != a && b "
                     "!= b);\n}\n"},
    {"tide_shl", WHOLES("tide_shl", "return b < 0 || b >= (T)(8 * sizeof(T)) ? 0 : (T)((U)a << b);")},
    {"tide_shr", WHOLES("tide_shr", "return a >> (b < 0 || b >= (T)(8 * sizeof(T)) ? (T)(8 * sizeof(T) - 1) : b);")},
    {"tide_whole", "template <class T> TIDE_INLINE long long tide_whole(T x) {\n"
                   "  return x >= (T)-9223372036854775808.0 && x < (T)9223372036854775808.0 ? (long long)x\n"
                   "                                                      : -9223372036854775807ll - 1;\n}\n"},
    {"tide_at", gather_text},
};
enum { HELPERS = sizeof helpers / sizeof *helpers };

/* Are all helpers that its expression calls here? */
static bool look_for_text(int op) {
  char word[40];
  for (const char *p = tide_op_get((tide_op)op)->expr; (p = strstr(p, "tide_"));) {
    int n = 0, i = 0;
    while (tide__text_word(p[n])) n++;
    snprintf(word, sizeof word, "%.*s", n, p);
    while (i < HELPERS && strcmp(helpers[i].name, word) != 0) i++;
    if (i == HELPERS) return false;
    p += n;
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
  static const char *const words[] = {
      "exp",  "exp2",  "expm1", "log",      "log2",      "log10",          "log1p",          "sin",   "cos",   "tan",
      "asin", "acos",  "atan",  "sinh",     "cosh",      "tanh",           "asinh",          "acosh", "atanh", "erf",
      "erfc", "atan2", "hypot", "tide_pow", "tide_fmod", "tide_remainder", "tide_div_floor", NULL};
  for (int i = 0; words[i]; i++)
    if (tide__text_names(tide_op_get((tide_op)op)->expr, words[i])) return true;
  return false;
}

/* ---- statements ---- */

const char *tide__fuse_value_type(int dtype) {
  return dtype == TIDE_BOOL ? "bool" : tide__jit_compute_type(tide__compute_dtype((tide_dtype)dtype));
}

const char *tide__fuse_slot_type(const tide__fuse_slot *slot) {
  if (slot->kind != TIDE__FUSE_NUMBER) return slot->kind == TIDE__FUSE_LINE ? "tide_line" : "tide_note";
  return tide__jit_compute_type((tide_dtype)slot->compute);
}

static bool is_half(int dtype) { return dtype == TIDE_FLOAT16 || dtype == TIDE_BFLOAT16; }

/* Integers below 32 bits wrap round. */
static bool is_narrow(int dtype) { return dtype >= TIDE_UINT8 && dtype <= TIDE_INT16; }

void tide__fuse_add_read(tide__text *t, const tide_fused *f, int node, const char *from) {
  const tide__fuse_value *v = &f->value[node];
  bool packed = v->dtype == TIDE_BOOL || is_half(v->dtype);
  const char *get = packed ? "tide_get" : "";
  tide__text_add(t, "  const %s v%d = %s(tide_at(%s, v%d, tide_a.c%d, tide_w));\n", tide__fuse_value_type(v->dtype),
                 node, get, from, v->in[0], v->param);
}

/* A gather's source is an address. */
static void add_input(tide__text *t, const tide_fused *f, int node, const tide__special *s, const uint8_t *order) {
  const tide__fuse_value *v = &f->value[node];
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
  bool packed = v->dtype == TIDE_BOOL || is_half(v->dtype);
  tide__text_add(t, packed ? "  const %s v%d = tide_get(%s);\n" : "  const %s v%d = %s;\n",
                 tide__fuse_value_type(v->dtype), node, at);
}

static void add_operand(tide__text *t, const tide__fuse_value *v, int k, const char *name) {
  if (v->in[k] < 0)
    tide__text_add(t, "const T %s = (T)tide_a.c%d; ", name, -1 - v->in[k]);
  else
    tide__text_add(t, "const T %s = (T)v%d; ", name, v->in[k]);
}

void tide__fuse_add_op(tide__text *t, const tide_fused *f, int node) {
  static const char *const usual[] = {"a", "b", "c"};
  const tide__fuse_value *v = &f->value[node];
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
  const tide__fuse_value *v = &f->value[node];
  const char *type = tide__fuse_value_type(v->dtype), *stored = tide__jit_storage_type(v->dtype);
  int from = v->in[0];
  if (v->dtype == TIDE_BOOL)
    tide__text_add(t, "  const bool v%d = v%d != 0;\n", node, from);
  else if (is_half(v->dtype))
    tide__text_add(t, "  float v%d; { %s r; tide_put(r, (float)v%d); v%d = tide_get(r); }\n", node, stored, from, node);
  else if (tide__category(v->dtype) == 1 && tide__category(f->value[from].dtype) == 2)
    tide__text_add(t, "  const %s v%d = (%s)(%s)tide_whole(v%d);\n", type, node, type, stored, from);
  else
    tide__text_add(t, "  const %s v%d = (%s)(%s)v%d;\n", type, node, type, stored, from);
}

static void add_output(tide__text *t, const tide_fused *f, int k) {
  int node = f->output[k], dtype = f->value[node].dtype;
  tide__text_add(t, dtype == TIDE_BOOL || is_half(dtype) ? "  tide_put(x%d, v%d);\n" : "  x%d = v%d;\n", k, node);
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

char *tide__fuse_helpers(const char *body) {
  tide__text t = {0};
  tide__text_add(&t, "%s", "");
  for (int i = 0; i < HELPERS; i++)
    if (tide__text_names(body, helpers[i].name)) tide__text_add(&t, "%s", helpers[i].text);
  return tide__text_end(&t, "fuse");
}

char *tide__fuse_source(const tide_fused *f, const tide__special *s, const uint8_t *order, const tide_compiler *c) {
  tide__text t = {0};
  const char *types[TIDE_FUSE_SCALARS];
  for (int k = 0; k < f->slots; k++) types[k] = tide__fuse_slot_type(&f->slot[k]);
  for (int i = 0; i < f->nodes; i++) add_node(&t, f, i, s, order);
  for (int k = 0; k < f->outputs; k++) add_output(&t, f, k);
  char *body = tide__text_end(&t, "fuse"), *before = body ? tide__fuse_helpers(body) : NULL, *source = NULL;
  if (before) source = tide__jit_around(before, body, types, s, c);
  free(before);
  free(body);
  return source;
}
