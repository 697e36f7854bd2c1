/* fused.h: fused operations as a list of nodes whose dtypes are known: the one form of them. core/jit/fuse makes the
 * list and writes the texts of kernels from it; an assembler's writer (cuda/ptx.c) and the loops of a host
 * (cpu/jit/fused.c) read it as it is, in the arguments of a launch. */
#pragma once

#include "plan.h"
#include "tide/fuse.h"

enum { TIDE_FUSED_NODES = 48, TIDE_FUSED_OPERANDS = TIDE_FUSE_INPUTS + TIDE_FUSE_OUTPUTS, TIDE_FUSED_DIMS = 4 };

/* One value. A reduction that takes a number is divided by how many elements there are less that number. */
typedef struct tide_fused_node {
  uint8_t kind, op, operands, params;
  uint8_t common, compute, dtype; /* what it is computed in; what it is */
  uint8_t ndim, dims;
  bool is_row, keepdim; /* is_row: one value for each row; of a REDUCE, do its dims stay? */
  uint8_t input, given; /* INPUT, GATHER: which one; the dims of its tensor */
  /* Where a host has it: an operand, results first, or behind them a piece of scratch memory, which serves another
   * value once no later node reads this one. */
  uint8_t place;
  int8_t in[3];   /* a node, or -1 - slot of a number */
  uint8_t param;  /* the first slot; GATHER: of a tide_fused_line */
  uint16_t reach; /* the inputs that it depends on, one bit each */
  uint32_t site;  /* GATHER: of its errors; 0: of the call */
} tide_fused_node;

/* Place i is element i - base, or i + length where it is below 0, of those that lie `pitch` apart. */
typedef struct tide_fused_line {
  uint32_t length, pitch;
  int32_t base;
  uint32_t site;
} tide_fused_line;

typedef union tide_fused_number {
  struct {
    int64_t i;
    double re;
  } value;
  tide_fused_line line;
} tide_fused_number;

/* The list, and for a host what it works on. */
typedef struct tide_fused_program {
  void *ptr[TIDE_FUSED_OPERANDS]; /* results first */
  void *mail[4];                  /* where a place that is outside is reported: backend/compiler.h */
  int64_t size[TIDE_FUSED_DIMS], stride[TIDE_FUSED_OPERANDS][TIDE_FUSED_DIMS];
  int64_t rows, columns; /* of the two last dims, what a piece takes at most */
  int32_t ndim, nodes, operands, results, scratch;
  /* Results, which are of pieces: an operand before this one has one element for each piece of the reduced dim. across:
   * the dim before the last is what is reduced. */
  int32_t parts, across;
  uint8_t operand[TIDE_FUSED_OPERANDS]; /* the node of each */
  tide_fused_number number[TIDE_FUSE_SCALARS];
  tide_fused_node node[TIDE_FUSED_NODES];
} tide_fused_program;
