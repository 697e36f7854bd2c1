/* loops_type.h: template of the elementwise loops for one compute type. T: the type, R: the integer that tests write,
 * K: I, F or C, S: the suffix of its functions. */
#define UNARY(name, rule, expr, doc)   LOOP_EMIT(LOOP_HAS(K, rule), LOOP_UNARY(name, LOOP_OUT_##rule, expr))
#define BINARY(name, rule, expr, doc)  LOOP_EMIT(LOOP_HAS(K, rule), LOOP_BINARY(name, LOOP_OUT_##rule, expr))
#define TERNARY(name, rule, expr, doc) LOOP_EMIT(LOOP_HAS(K, rule), LOOP_TERNARY(name, LOOP_OUT_##rule, expr))
#include "tide/op.def"
#undef T
#undef R
#undef K
#undef S
