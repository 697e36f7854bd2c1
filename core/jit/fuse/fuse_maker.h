/* fuse_maker.h: adds nodes to a fused function until one fails. */
#pragma once

#include "jit/fuse/fuse.h"

typedef struct maker {
  tide_fused *f;
  tide_status status; /* of the first one that failed */
  int dims;           /* that a fold is over, which stay */
  bool leading;
} maker;

/* Each gives what is its operand in others. */
static inline int make_node(maker *m, const tide_fuse_node *node) {
  int at = 0;
  if (m->status == TIDE_OK) m->status = tide__fuse_add(&at, m->f, node);
  return at;
}

static inline int make_number(maker *m, double x) {
  tide_fused *f = m->f;
  if (f->numbers == TIDE_FUSE_SCALARS) {
    if (m->status == TIDE_OK) m->status = tide__fuse_refuse(f, "it takes too many numbers");
    return -1;
  }
  f->number[f->numbers] = tide_float(x);
  return -1 - f->numbers++;
}

static inline int make_op(maker *m, tide_op op, int a, int b, int c) {
  return make_node(m, &(tide_fuse_node){.kind = TIDE_FUSE_OP, .op = op, .in = {a, b, c}, .param = -1});
}

static inline int make_cast(maker *m, int x, int dtype) {
  if (m->f->value[x].dtype == dtype) return x;
  return make_node(m, &(tide_fuse_node){.kind = TIDE_FUSE_CAST, .in = {x}, .dtype = (tide_dtype)dtype});
}

static inline int make_fold(maker *m, int op, int x, int param) {
  return make_node(m, &(tide_fuse_node){.kind = TIDE_FUSE_REDUCE,
                                        .op = op,
                                        .in = {x},
                                        .param = param,
                                        .dims = m->dims,
                                        .leading = m->leading,
                                        .keepdim = true});
}
