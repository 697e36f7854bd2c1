/* fuse.h: what the files of fused operations share. Private to them. */
#ifndef TIDE_JIT_FUSE_H
#define TIDE_JIT_FUSE_H

#include "function.h"
#include "tide/fuse.h"

/* A node whose dtypes are known. */
typedef struct tide__fuse_value {
  uint8_t kind, op, operands, params;
  uint8_t common, compute, dtype; /* what it is computed in; what it is */
  uint8_t ndim, dims;
  bool is_row, keepdim; /* is_row: one value for each row; of a REDUCE, do its dims stay? */
  uint8_t input;        /* INPUT: which one */
  int16_t in[3];        /* a node, or -1 - slot of a number */
  int16_t param;        /* the first slot */
  uint16_t reach;       /* the inputs that it depends on, one bit each */
} tide__fuse_value;

/* A number as one node takes it. */
typedef struct tide__fuse_slot {
  uint8_t number, common, compute;
  bool is_param;
} tide__fuse_slot;

/* What a kernel of rows is made for. */
typedef struct tide__fuse_shape {
  int group, lanes, pieces; /* threads of a row, elements of one access, accesses of a thread */
  uint32_t spread;          /* the operands that have elements along a row */
} tide__fuse_shape;

/* What was made for one device and shape of the work. NULL function: it is being compiled. */
typedef struct tide__fuse_plan {
  struct tide__fuse_plan *next;
  uint64_t key;
  tide__jit_plan plan;
  int device;
  tide__fuse_shape shape;          /* where rows are reduced */
  uint8_t order[TIDE_FUSE_INPUTS]; /* the inputs as the kernel counts them: uniform ones last */
} tide__fuse_plan;

struct tide_fused {
  char *name;
  int nodes, inputs, outputs, numbers, slots;
  tide__fuse_value value[TIDE_FUSE_NODES];
  uint8_t input[TIDE_FUSE_INPUTS]; /* the node of each */
  uint8_t output[TIDE_FUSE_OUTPUTS];
  tide_scalar number[TIDE_FUSE_SCALARS];
  tide__fuse_slot slot[TIDE_FUSE_SCALARS];
  int ndim;                  /* of the results */
  bool reduces, row_results; /* reduces: over the last `dims` dims; row_results: the results are one value a row */
  int dims;
  bool in_pieces; /* a call, or one that was announced, is done by a host's loops for good */
  bool costly;    /* functions that the CPU's own loops do faster than what its compiler makes of them */
  _Alignas(16) char packed[16 * TIDE_FUSE_SCALARS]; /* the numbers, one in each slot */
  uint32_t epoch, made;                             /* of the runtime; of the accelerators when the plans were made */
  tide__fuse_plan *plans;
  char *problem;
};

tide_scalar tide__fuse_number(const tide_fused *f, int slot); /* as the operation takes it */

/* ---- fuse_pieces.c ---- */

/* What a host's loops do: the operands, results first, with their strides over these dims. */
typedef struct tide__fuse_work {
  int device, ndim;
  int64_t numel;
  const int64_t *size;
  const int64_t (*stride)[TIDE_MAX_DIMS];
  const tide_tensor *operand[TIDE_FUSE_INPUTS + TIDE_FUSE_OUTPUTS];
} tide__fuse_work;
/* Can they? */
bool tide__fuse_in_pieces(const tide_fused *f, int ndim);
tide_status tide__fuse_run_pieces(const tide_fused *f, const tide_compiler *c, const tide__fuse_work *w);

/* ---- fuse_rows.c ---- */

/* A call of operations that reduce rows. */
typedef struct tide__fuse_rows {
  int64_t rows, columns;
  int64_t row_stride[TIDE_FUSE_INPUTS + TIDE_FUSE_OUTPUTS]; /* results first */
  bool spread[TIDE_FUSE_INPUTS + TIDE_FUSE_OUTPUTS];        /* has it elements along a row? */
} tide__fuse_rows;
enum { TIDE_FUSE_COLUMNS = 16384 }; /* of a row at most */
tide__fuse_shape tide__fuse_shape_of(const tide_fused *f, const tide__fuse_rows *r, void *const *ptr);
tide_status tide__fuse_launch_rows(const tide_fused *f, const tide__jit_plan *p, const tide__fuse_shape *shape,
                                   const tide__fuse_rows *r, const tide_tensor *const *operand, int device);

/* ---- fuse_rows_text.c ---- */

char *tide__fuse_rows_source(const tide_fused *f, const tide__fuse_shape *shape, const tide_compiler *c);

/* ---- fuse_text.c ---- */

const char *tide__fuse_value_type(int dtype);
void tide__fuse_add_op(tide__text *t, const tide_fused *f, int node);
void tide__fuse_add_cast(tide__text *t, const tide_fused *f, int node);
char *tide__fuse_helpers(const char *body); /* those that the text calls, malloc'ed */

/* Does the expression call a function that takes long? */
bool tide__fuse_is_costly(int op);

bool tide__fuse_has_text(int op);
/* The text of an elementwise kernel whose operands are the results, then the inputs in this order. NULL: error set. */
char *tide__fuse_source(const tide_fused *f, const tide__special *s, const uint8_t *order, const tide_compiler *c);
const char *tide__fuse_slot_type(const tide__fuse_slot *slot);

#endif
