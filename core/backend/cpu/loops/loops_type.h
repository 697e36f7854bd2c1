/* loops_type.h: template of the elementwise loops for one compute type. T: the type, R: the integer that tests write,
 * K: I, F or C, S: the suffix of its functions. What the names of <math.h> in op.def mean for it is forgotten at the
 * end. */
#define UNARY(name, rule, loop, expr, doc)                                                                             \
  LOOP_EMIT(LOOP_HAS_TYPE(K, rule, loop), LOOP_UNARY(name, loop, LOOP_OUT(rule), expr))
#define BINARY(name, rule, loop, expr, doc)                                                                            \
  LOOP_EMIT(LOOP_HAS_TYPE(K, rule, loop), LOOP_BINARY(name, loop, LOOP_OUT(rule), LOOP_TEXT(name, expr)))
#define TERNARY(name, rule, loop, expr, doc)                                                                           \
  LOOP_EMIT(LOOP_HAS_TYPE(K, rule, loop), LOOP_TERNARY(name, loop, LOOP_OUT(rule), LOOP_TEXT(name, expr)))
#include "tide/op.def"
#undef T
#undef R
#undef K
#undef S
#undef exp
#undef exp2
#undef expm1
#undef log
#undef log2
#undef log10
#undef log1p
#undef sin
#undef cos
#undef tan
#undef asin
#undef acos
#undef atan
#undef sinh
#undef cosh
#undef tanh
#undef asinh
#undef acosh
#undef atanh
#undef sqrt
#undef rint
#undef trunc
#undef erf
#undef erfc
#undef atan2
#undef hypot
