/* fused.h: fused operations as a list of steps that the CPU's own loops do, a piece of the tensors at a time. Core
 * fills it, and it is packed as the arguments of a launch are: it holds all that it needs. */
#ifndef TIDE_BASE_FUSED_H
#define TIDE_BASE_FUSED_H

#include "plan.h"

enum {
  TIDE_FUSED_STEPS = 48,
  TIDE_FUSED_VALUES = 64,
  TIDE_FUSED_OPERANDS = 16,
  TIDE_FUSED_NUMBERS = 32,
  TIDE_FUSED_DIMS = 4
};

/* out = op(in) or, with op 255, the cast of in[0], or with op 254 a reduction, by `compute`, of its last dim, or where
 * `across` of the one before, or with op 253 what operand in[1] has at the places in[0], int32 or int64: number `param`
 * is a tide_fused_line. in: a value, or -1 - k for number k; param: the first of the numbers that it takes beside; a
 * reduction that takes one is divided by how many elements there are less that number. */
typedef struct tide_fused_step {
  uint8_t op, compute, operands, params, out, param;
  int8_t in[3];
} tide_fused_step;

/* Place i is element i - base, or i + length where it is below 0, of those that lie `pitch` apart. */
typedef struct tide_fused_line {
  uint32_t length, pitch;
  int32_t base;
  uint32_t site;
} tide_fused_line;

/* ptr[k] is operand k, a tensor; the values after `operands` are pieces of scratch memory, of which there are `scratch`
 * at once. */
typedef struct tide_fused_program {
  void *ptr[TIDE_FUSED_OPERANDS];
  void *mail[4]; /* where a place that is outside is told: backend/compiler.h */
  int64_t size[TIDE_FUSED_DIMS], stride[TIDE_FUSED_OPERANDS][TIDE_FUSED_DIMS];
  int64_t rows, columns; /* of the two last dims, what a piece takes at most */
  int32_t ndim, operands, results, steps, scratch;
  /* results, which are of pieces: an operand before this one has one element for each piece of the reduced dim */
  int32_t parts, across;
  /* place: which scratch memory; is_row: it has one element a row */
  uint8_t dtype[TIDE_FUSED_VALUES], place[TIDE_FUSED_VALUES], is_row[TIDE_FUSED_VALUES];
  tide_value number[TIDE_FUSED_NUMBERS];
  tide_fused_step step[TIDE_FUSED_STEPS];
} tide_fused_program;

#endif
