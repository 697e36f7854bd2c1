/* op.c: the tables of elementwise ops and of reductions.
 *
 * They are op.def and reduction.def. Which dtypes an operation takes and gives in general is tensor/promote.c's and
 * tensor/reduce.c's.
 *
 * Invariant: tide__rule_result holds an entry only where the answer depends on nothing but the rule and the one
 * dtype. */
#include "op.h"

#include "base.h"

/* Four texts of each op, one after the other: arrays of characters, because each pointer in a table costs a shared
 * library 32 bytes. */
#define TEXTS(X, name, rule, expr, doc)                                                                                \
  X(name, name_, #name) X(name, rule_, #rule) X(name, expr_, #expr) X(name, doc_, doc)
static const struct {
#define FIELD(name, which, text)                  char which##name[sizeof(text)];
#define TIDE_EACH_OP(name, rule, loop, expr, doc) TEXTS(FIELD, name, rule, expr, doc)
#include "tide/op.def"
} texts = {
#define TEXT(name, which, text)                   text,
#define TIDE_EACH_OP(name, rule, loop, expr, doc) TEXTS(TEXT, name, rule, expr, doc)
#include "tide/op.def"
};

static tide_op_info table[TIDE_OP_COUNT]; /* filled when first asked for */

static tide__op_traits traits[] = {
#define UNARY(name, rule, loop, expr, doc)   {TIDE_RULE_##rule, 1, 0, TIDE_RULE_##rule == TIDE_RULE_DIVIDE},
#define BINARY(name, rule, loop, expr, doc)  {TIDE_RULE_##rule, 2, 0, TIDE_RULE_##rule == TIDE_RULE_DIVIDE},
#define TERNARY(name, rule, loop, expr, doc) {TIDE_RULE_##rule, 3, 0, TIDE_RULE_##rule == TIDE_RULE_DIVIDE},
#include "tide/op.def"
};

#define D(name)    TIDE_##name
#define X          TIDE_SLOW
/* Columns:  bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 */
#define ALL_INTS   D(UINT8), D(INT8), D(INT16), D(INT32), D(INT64)
#define ALL_FLOATS D(FLOAT16), D(BFLOAT16), D(FLOAT32), D(FLOAT64)
#define TESTS      D(BOOL), D(BOOL), D(BOOL), D(BOOL), D(BOOL), D(BOOL), D(BOOL), D(BOOL), D(BOOL)
const uint8_t tide__rule_result[][TIDE_DTYPE_COUNT] = {
    [TIDE_RULE_FLOAT] = {X, X, X, X, X, X, ALL_FLOATS, X, X},
    [TIDE_RULE_FLOATC] = {X, X, X, X, X, X, ALL_FLOATS, D(COMPLEX64), D(COMPLEX128)},
    [TIDE_RULE_MATHC] = {X, X, X, X, X, X, ALL_FLOATS, D(COMPLEX64), D(COMPLEX128)},
    [TIDE_RULE_EXACT] = {X, X, X, X, X, X, X, X, D(FLOAT32), D(FLOAT64), X, X},
    [TIDE_RULE_REAL] = {X, ALL_INTS, ALL_FLOATS, X, X},
    [TIDE_RULE_DIVIDE] = {X, ALL_INTS, ALL_FLOATS, X, X},
    [TIDE_RULE_REALC] = {X, ALL_INTS, ALL_FLOATS, D(COMPLEX64), D(COMPLEX128)},
    [TIDE_RULE_ARITHC] = {X, ALL_INTS, ALL_FLOATS, D(COMPLEX64), D(COMPLEX128)},
    [TIDE_RULE_TEST] = {X, TESTS, D(BOOL), D(BOOL)},
    [TIDE_RULE_COMPARE] = {X, TESTS, X, X},
    [TIDE_RULE_EQUALC] = {X, TESTS, D(BOOL), D(BOOL)},
    [TIDE_RULE_CLOSE] = {X, X, X, X, X, X, D(BOOL), D(BOOL), D(BOOL), D(BOOL), D(BOOL), D(BOOL)},
    [TIDE_RULE_LOGIC] = {X, TESTS, D(BOOL), D(BOOL)},
    [TIDE_RULE_BITS] = {X, ALL_INTS, X, X, X, X, X, X},
};
#undef X
#undef D

const char *tide_op_operand(tide_op op, int k) {
  static const char *const usual[3][3] = {{"x"}, {"a", "b"}, {"a", "b", "c"}};
  if ((unsigned)op >= TIDE_OP_COUNT || k < 0 || k >= traits[op].operands) return "";
  switch (op) {
  case TIDE_OP_where: return (const char *const[]){"condition", "x", "y"}[k];
  case TIDE_OP_addcmul:
  case TIDE_OP_addcdiv: return (const char *const[]){"x", "a", "b"}[k];
  case TIDE_OP_lerp: return (const char *const[]){"a", "b", "weight"}[k];
  case TIDE_OP_add:
  case TIDE_OP_add_scaled:
  case TIDE_OP_sub:
  case TIDE_OP_div:
  case TIDE_OP_div_trunc:
  case TIDE_OP_isclose: return k ? "y" : "x";
  default: return usual[traits[op].operands - 1][k];
  }
}

static const tide_reduction_info reductions[] = {
#define REDUCTION(NAME, name, rule, empty, fold, kernels, form, doc) {#name, doc},
#include "tide/reduction.def"
};

const tide_reduction_info *tide_reduction_get(tide_reduction op) {
  return (unsigned)op < TIDE_REDUCTION_COUNT ? &reductions[op] : NULL;
}

/* ---- parameters: an op has as many as its expression names ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic bool known;

static bool word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static int params_of(const char *expr) {
  int most = 0;
  for (const char *p = expr; *p; p++) {
    bool starts = p[0] == 'p' && (p == expr || !word_char(p[-1]));
    if (starts && p[1] >= '0' && p[1] <= '2' && !word_char(p[2]) && p[1] - '0' + 1 > most) most = p[1] - '0' + 1;
  }
  return most;
}

static const char *next_text(const char **at) {
  const char *text = *at;
  *at += strlen(text) + 1;
  return text;
}

static void fill(void) {
  const char *at = (const char *)&texts;
  for (int op = 0; op < TIDE_OP_COUNT; op++) {
    tide_op_info *t = &table[op];
    t->name = next_text(&at), t->rule = next_text(&at), t->expr = next_text(&at), t->doc = next_text(&at);
    t->operands = traits[op].operands;
    traits[op].params = (uint8_t)params_of(t->expr);
  }
  atomic_store_explicit(&known, true, memory_order_release);
}

static inline void know(void) {
  if (__builtin_expect(!atomic_load_explicit(&known, memory_order_acquire), 0)) pthread_once(&once, fill);
}

const tide_op_info *tide_op_get(tide_op op) {
  know();
  return (unsigned)op < TIDE_OP_COUNT ? &table[op] : NULL;
}

const tide__op_traits *tide__op_traits_get(tide_op op) {
  know();
  return &traits[op];
}

/* ---- promotion ---- */

tide_dtype tide__compute_dtype(tide_dtype common) {
  if (common <= TIDE_INT32) return TIDE_INT32;
  return common >= TIDE_FLOAT16 && common <= TIDE_FLOAT32 ? TIDE_FLOAT32 : common;
}
