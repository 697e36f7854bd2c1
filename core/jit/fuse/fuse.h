/* fuse.h: what the files of fused operations share. Private to them. */
#pragma once

#include "jit/raw/function.h"

/* A number as one node takes it; or of gathers a line, and two slots for the addresses of a mailbox. */
enum { TIDE__FUSE_NUMBER, TIDE__FUSE_LINE, TIDE__FUSE_MAIL };
typedef struct tide__fuse_slot {
  uint8_t kind, number, common, compute;
  bool is_param;
} tide__fuse_slot;

/* What a kernel of rows is made for. group 0: one that does parts of rows, or operations without a reduction; pieces
 * > 0: lanes are rows beside each other instead of elements of one, and a thread reads that number of them at once. */
typedef struct tide__fuse_shape {
  int group, lanes, pieces; /* threads of a row, elements of one access, accesses of a thread */
  int blocks;               /* of a row: more than one are a cluster */
  uint32_t spread;          /* the operands that have elements along a row; of parts, along the lanes */
  uint32_t moves;           /* of parts: the operands that have others for the next lanes */
} tide__fuse_shape;

static inline int tide__fuse_threads(const tide__fuse_shape *s) { /* of a block */
  int threads = s->blocks > 1 ? s->group / s->blocks : s->group;
  return threads < 256 ? 256 : threads;
}

/* What was made for one device and shape of the work. NULL function: it is being compiled. */
typedef struct tide__fuse_plan {
  struct tide__fuse_plan *next;
  uint64_t key;
  tide__jit_plan plan;
  int device;
  tide__fuse_shape shape;          /* where rows are reduced */
  uint8_t order[TIDE_FUSE_INPUTS]; /* the inputs as the kernel counts them: uniform ones last */
  char *source;                    /* as long as its function is asked for; or NULL */
  bool assembled, refused;         /* it is a text for the assembler, or that one has failed */
  bool asked;                      /* a compiler has been asked for it, and was not done when so many jobs had ended: */
  uint32_t ended;                  /* tide__jit_ended */
} tide__fuse_plan;

struct tide_fused {
  int nodes, inputs, outputs, numbers, slots;
  int given;      /* of the numbers: the first ones, which the caller has given */
  uint32_t fixed; /* of them: those that the kernel is made for */
  int scratch;    /* pieces of scratch memory that a host needs */
  tide_fused_node value[TIDE_FUSE_NODES];
  uint8_t input[TIDE_FUSE_INPUTS]; /* the node of each */
  uint8_t output[TIDE_FUSE_OUTPUTS];
  tide_scalar number[TIDE_FUSE_SCALARS];
  tide__fuse_slot slot[TIDE_FUSE_SCALARS];
  int ndim;                  /* of the results */
  bool reduces, row_results; /* reduces: over the last `dims` dims; row_results: the results are one value a row */
  bool leading, is_part;     /* leading: over the first ones; is_part: a result is of a part of a row: fuse_stages.c */
  int dims;
  bool views;                       /* some inputs are read in another shape than their tensor's: fuse_gather.c */
  int mail;                         /* the slot of the mailbox's addresses; 0: there is no gather */
  struct tide__fuse_stages *stages; /* what rows that are too long for one kernel are done by; NULL: not needed yet */
  bool has_no_stages;               /* they cannot be made */
  bool in_pieces;                   /* a call, or one that was announced, is done by a host's loops for good */
  bool costly; /* functions that the CPU's own loops do faster than what its compiler makes of them */
  _Alignas(16) char packed[16 * TIDE_FUSE_SCALARS]; /* the numbers, one in each slot */
  uint32_t epoch, made;                             /* of the runtime; of the accelerators when the plans were made */
  tide__fuse_plan *plans;
  char *problem, name[];
};

void tide__fuse_set_numbers(tide_fused *f, const tide_scalar *numbers, int n); /* the first ones, and its stages' */

/* ---- fuse_node.c ---- */

tide_scalar tide__fuse_number(const tide_fused *f, int slot); /* as the operation takes it */
void tide__fuse_pack(tide_fused *f);                          /* its numbers, which may have changed */
/* Adds a node whose operands are of f, and says where. Reductions are sums, means, products and extremes. */
tide_status tide__fuse_add(int *out, tide_fused *f, const tide_fuse_node *node);
tide_status tide__fuse_refuse(const tide_fused *f, const char *why);
/* A handle without nodes; when they are there it is finished. */
tide_status tide__fuse_begin(tide_fused **out, const char *name, const tide_scalar *numbers, int n);
tide_status tide__fuse_finish(tide_fused *f, const int *outputs, int n);

/* ---- fuse_reduce.c ---- */

/* Any reduction: what a kernel knows and operations around it. */
tide_status tide__fuse_add_reduction(int *out, tide_fused *f, const tide_fuse_node *node);

/* ---- fuse_gather.c ---- */

/* Fills what is particular in a value that gathers: its operand is there. */
tide_status tide__fuse_add_gather(tide_fused *f, int at, const tide_fuse_node *node);
/* The inputs in the shapes in which the kernel reads them. False: they are not what it can read. */
bool tide__fuse_views(tide_tensor **list, tide_tensor *view, const tide_fused *f, tide_tensor *const *in);
/* Puts what gathers need of these tensors into the slots. False: they are too large, or have no element. */
bool tide__fuse_place(tide_fused *f, const tide_tensor *const *in);
static inline bool tide__fuse_gathers(const tide_fused *f, int input) {
  return f->value[f->input[input]].kind == TIDE_FUSE_GATHER;
}

/* ---- fuse_pieces.c ---- */

/* What a host's loops do: the operands, results first, with their strides over these dims. */
typedef struct tide__fuse_work {
  int device, ndim;
  bool across; /* the dim before the last is what is reduced */
  int64_t numel;
  const int64_t *size;
  const int64_t (*stride)[TIDE_MAX_DIMS];
  const tide_tensor *operand[TIDE_FUSE_INPUTS + TIDE_FUSE_OUTPUTS];
} tide__fuse_work;
/* Can they? */
bool tide__fuse_in_pieces(const tide_fused *f, int ndim);
tide_status tide__fuse_run_pieces(const tide_fused *f, const tide_compiler *c, const tide__fuse_work *w);
/* The text of an elementwise kernel for the compiler's assembler. NULL: it cannot be, or there is none. */
char *tide__fuse_assembly(const tide_fused *f, const tide__jit_plan *p, const uint8_t *order, int device);
int64_t tide__fuse_piece(int64_t rows, bool across); /* how many elements of a row are a part of it */

/* ---- fuse_rows.c ---- */

/* A call of operations that reduce rows. */
typedef struct tide__fuse_rows {
  int64_t rows, columns;
  int64_t row_stride[TIDE_FUSE_INPUTS + TIDE_FUSE_OUTPUTS]; /* results first */
  int64_t step[TIDE_FUSE_INPUTS + TIDE_FUSE_OUTPUTS];       /* from one element of a row to the next, 0: it has one */
  bool across;         /* rows lie beside each other: their strides are 0 or 1, not the steps */
  int64_t span, parts; /* of rows that are done in parts: elements of one, and how many there are */
} tide__fuse_rows;
/* Of a row at most, where it is not done in parts; and the blocks of that many that may share one. */
enum { TIDE_FUSE_COLUMNS = 16384, TIDE_FUSE_BLOCKS = 8 };
tide__fuse_shape tide__fuse_shape_of(const tide_fused *f, const tide__fuse_rows *r, void *const *ptr);
tide_status tide__fuse_launch_rows(const tide_fused *f, const tide__jit_plan *p, const tide__fuse_shape *shape,
                                   const tide__fuse_rows *r, const tide_tensor *const *operand, int device);
void tide__fuse_choose_parts(const tide_fused *f, tide__fuse_rows *r, void *const *ptr); /* of an accelerator */

/* ---- fuse_call.c ---- */

void tide__fuse_drop_plans(tide_fused *f); /* and those of its stages */

/* Does rows. `asks`: says in *done whether a call would; nothing is launched. */
tide_status tide__fuse_run_rows(bool *done, tide_fused *f, const tide_compiler *c, const tide__fuse_rows *r,
                                const tide_tensor *const *operand, int device, bool asks);

/* As tide_fused_call. fresh: bits of those of `into` that are new tensors, laid out as the results would be. `asks`: as
 * above. */
tide_status tide__fused_call(bool *done, tide_tensor **out, tide_fused *f, tide_tensor *const *in,
                             tide_tensor *const *into, uint32_t fresh, bool asks);

/* ---- fuse_stages.c ---- */

/* Rows of any length, by several kernels. results: those that are one value a row; out gets the others. */
typedef struct tide__fuse_long {
  const tide__fuse_rows *rows;
  tide_tensor *const *in; /* as they were given */
  tide_tensor *const *results;
  tide_tensor **out;
  const tide_compiler *compiler;
  const int64_t *size; /* of a row's value where its dims stay */
  int ndim, device;
  tide_tensor *const *into; /* new tensors that the results are written to; or NULL */
  bool asks;                /* says in *done whether a call would; nothing is launched */
} tide__fuse_long;
tide_status tide__fuse_run_stages(bool *done, tide_fused *f, const tide__fuse_long *l);
/* What the stages are made of, one after the other; NULL: that was the last. */
tide_fused *tide__fuse_stage(const tide_fused *f, int k);
void tide__fuse_stages_free(tide_fused *f);

/* ---- fuse_rows_text.c ---- */

char *tide__fuse_rows_source(const tide_fused *f, const tide__fuse_shape *shape, const tide_compiler *c);
char *tide__fuse_parts_source(const tide_fused *f, const tide__fuse_shape *shape, const tide_compiler *c);

/* ---- fuse_text.c ---- */

const char *tide__fuse_value_type(int dtype);
/* The value of a gather, whose source's first element of all that this thread may read lies at `from`. */
void tide__fuse_add_read(tide__text *t, const tide_fused *f, int node, const char *from);
void tide__fuse_add_op(tide__text *t, const tide_fused *f, int node);
void tide__fuse_add_cast(tide__text *t, const tide_fused *f, int node);
char *tide__fuse_helpers(const char *body); /* those that the text calls, malloc'ed */

/* Does the expression call a function that takes long? */
bool tide__fuse_is_costly(int op);

bool tide__fuse_has_text(int op);
/* The text of an elementwise kernel whose operands are the results, then the inputs in this order. NULL: error set. */
char *tide__fuse_source(const tide_fused *f, const tide__special *s, const uint8_t *order, const tide_compiler *c);
const char *tide__fuse_slot_type(const tide__fuse_slot *slot);
