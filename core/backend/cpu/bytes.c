/* bytes.c: loops over elements of one byte, for the ops whose result's byte depends on the bytes of the operands alone;
 * elementwise.c takes them instead of converting to int32 and back. Every processor's vectors hold enough bytes, so
 * that they are compiled once.
 *
 * Invariant: the results are those of op.def in int32, wrapped; a bool is true where its byte is not 0. */
#include "bytes.h"

#define BYTES(name, expr)                                                                                              \
  static void name(void *out_, const void *a_, const void *b_, const void *c_, const void *p_, int64_t blocks) {       \
    const uint8_t *x = a_, *y = b_ ? b_ : a_;                                                                          \
    uint8_t *out = out_;                                                                                               \
    (void)c_, (void)p_;                                                                                                \
    BYTES_IVDEP for (int64_t i = 0; i < TIDE_BLOCK * blocks; i++) {                                                    \
      const uint8_t a = x[i], b = y[i];                                                                                \
      (void)b;                                                                                                         \
      out[i] = (uint8_t)(expr);                                                                                        \
    }                                                                                                                  \
  }
#if defined(__clang__)
#  define BYTES_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#  define BYTES_IVDEP _Pragma("GCC ivdep")
#endif
BYTES(add, a + b)
BYTES(sub, a - b)
BYTES(mul, a *b)
BYTES(neg, -a)
BYTES(and, a &b)
BYTES(or, a | b)
BYTES(xor, a ^ b)
BYTES(not, ~a)
BYTES(equal, a == b)
BYTES(differ, a != b)
BYTES(both, (a != 0) & (b != 0))
BYTES(either, (a | b) != 0)
BYTES(one, (a != 0) ^ (b != 0))
BYTES(same, (a != 0) == (b != 0))
BYTES(none, a == 0)

tide__loop tide__byte_loop(int op, int dtype) {
  bool truth = dtype == TIDE_BOOL;
  switch (op) {
  case TIDE_OP_add: return truth ? either : add;
  case TIDE_OP_sub: return truth ? one : sub;
  case TIDE_OP_mul: return truth ? both : mul;
  case TIDE_OP_neg: return truth ? NULL : neg;
  case TIDE_OP_bitwise_and: return truth ? both : and;
  case TIDE_OP_bitwise_or: return truth ? either : or ;
  case TIDE_OP_bitwise_xor: return truth ? one : xor;
  case TIDE_OP_bitwise_not: return truth ? NULL : not ;
  case TIDE_OP_eq: return truth ? same : equal;
  case TIDE_OP_ne: return truth ? one : differ;
  case TIDE_OP_logical_and: return both;
  case TIDE_OP_logical_or: return either;
  case TIDE_OP_logical_xor: return one;
  case TIDE_OP_logical_not: return none;
  default: return NULL;
  }
}
