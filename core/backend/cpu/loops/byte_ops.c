/* byte_ops.c: loops over elements of one byte, for the ops that op.def marks with BYTES; elementwise.c takes them
 * instead of converting to int32 and back. Every processor's vectors hold enough bytes, so that they are compiled once.
 *
 * Each op has two: of numbers, signed or not, whose result is the low byte of the expression, and of bools, for which
 * an operand is 1 where its byte is not 0.
 *
 * Invariant: the results are those of op.def in int32, wrapped. */
#include "byte_ops.h"

#if defined(__clang__)
#  define BYTE_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#  define BYTE_IVDEP _Pragma("GCC ivdep")
#endif
/* A function, because a compiler would find some of the questions silly. */
static inline bool truth_of(uint8_t byte) { return byte != 0; }

#define BYTE_LOOP(name, OPERAND, operands, result)                                                                     \
  static void name(void *out_, const void *a_, const void *b_, const void *c_, const void *p_, int64_t blocks) {       \
    const uint8_t *first = a_, *other = b_;                                                                            \
    uint8_t *out = out_;                                                                                               \
    (void)other;                                                                                                       \
    BYTE_IVDEP for (int64_t i = 0; i < TIDE_BLOCK * blocks; i++) {                                                     \
      operands(OPERAND);                                                                                               \
      out[i] = (uint8_t)(result);                                                                                      \
    }                                                                                                                  \
  }
#define BYTE_NUMBER(byte) (byte)
#define BYTE_TRUTH(byte)  ((byte) != 0)
#define BYTE_ONE(OPERAND) const uint8_t x = OPERAND(first[i])
#define BYTE_TWO(OPERAND) const uint8_t a = OPERAND(first[i]), b = OPERAND(other[i])
#define BYTE_PAIR(name, operands, expr)                                                                                \
  BYTE_LOOP(number_##name, BYTE_NUMBER, operands, expr)                                                                \
  BYTE_LOOP(truth_##name, BYTE_TRUTH, operands, truth_of((uint8_t)(expr)))

/* BYTE_EMIT(loop, what): what, of the ops that have these loops. */
#define BYTE_EMIT(loop, ...) BYTE_EMIT_##loop(__VA_ARGS__)
#define BYTE_EMIT_PLAIN(...)
#define BYTE_EMIT_WIDE(...)
#define BYTE_EMIT_WIDE64(...)
#define BYTE_EMIT_QUOTIENT(...)
#define BYTE_EMIT_QUICK(...)
#define BYTE_EMIT_QUICK64(...)
#define BYTE_EMIT_RARE(...)
#define BYTE_EMIT_BYTES(...)      __VA_ARGS__
#define BYTE_EMIT_WIDE_BYTES(...) __VA_ARGS__

#define UNARY(name, rule, loop, expr, doc)  BYTE_EMIT(loop, BYTE_PAIR(name, BYTE_ONE, expr))
#define BINARY(name, rule, loop, expr, doc) BYTE_EMIT(loop, BYTE_PAIR(name, BYTE_TWO, expr))
#include "tide/op.def"

tide__loop tide__byte_loop(int op, int dtype) {
  static const tide__loop loops[TIDE_OP_COUNT][2] = {
#define TIDE_EACH_OP(name, rule, loop, expr, doc) BYTE_EMIT(loop, [TIDE_OP_##name] = {number_##name, truth_##name}, )
#include "tide/op.def"
  };
  return loops[op][dtype == TIDE_BOOL];
}
