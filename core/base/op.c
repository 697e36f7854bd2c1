/* op.c: the tables of elementwise ops and of reductions.
 *
 * They are op.def and reduction.def. Which dtypes an operation takes and gives in general is tensor/promote.c's and
 * tensor/reduce.c's.
 *
 * Invariant: tide__rule_result holds an entry only where the answer depends on nothing but the rule and the one
 * dtype. */
#include "op.h"

#include <stdatomic.h>

#include "base.h"

static const tide_op_info table[] = {
#define UNARY(name, rule, loop, expr, doc)   {#name, #rule, #expr, doc, 1},
#define BINARY(name, rule, loop, expr, doc)  {#name, #rule, #expr, doc, 2},
#define TERNARY(name, rule, loop, expr, doc) {#name, #rule, #expr, doc, 3},
#include "tide/op.def"
};

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
  default: return usual[table[op].operands - 1][k];
  }
}

const tide_op_info *tide_op_get(tide_op op) { return (unsigned)op < TIDE_OP_COUNT ? &table[op] : NULL; }

static const tide_reduction_info reductions[] = {
#define REDUCTION(NAME, name, rule, empty, fold, kernels, form, doc) {#name, doc},
#include "tide/reduction.def"
};

const tide_reduction_info *tide_reduction_get(tide_reduction op) {
  return (unsigned)op < TIDE_REDUCTION_COUNT ? &reductions[op] : NULL;
}

/* ---- parameters: an op has as many as its expression names ---- */

static pthread_once_t params_once = PTHREAD_ONCE_INIT;
static _Atomic bool params_known;

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

static void params_count(void) {
  for (int op = 0; op < TIDE_OP_COUNT; op++) traits[op].params = (uint8_t)params_of(table[op].expr);
  atomic_store_explicit(&params_known, true, memory_order_release);
}

const tide__op_traits *tide__op_traits_get(tide_op op) {
  if (__builtin_expect(!atomic_load_explicit(&params_known, memory_order_acquire), 0))
    pthread_once(&params_once, params_count);
  return &traits[op];
}

/* ---- promotion ---- */

tide_dtype tide__compute_dtype(tide_dtype common) {
  if (common <= TIDE_INT32) return TIDE_INT32;
  return common >= TIDE_FLOAT16 && common <= TIDE_FLOAT32 ? TIDE_FLOAT32 : common;
}
