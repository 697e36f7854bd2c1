/* tide/kernel.h: kernels over a grid, of texts that a compiler in front of tide has written. Conventions as in tide.h.
 *
 * A front end translates a function of some language to CUDA C and to C++ for the CPU; here both become kernels: kept
 * in memory and on disk, compiled in the background, launched like every operation. What the texts find is an array of
 * 64-bit words, the slots: three sizes of the grid, two addresses of the device's mailbox for what a kernel cannot do,
 * the numbers of its source lines, then for each operand the address, sizes and strides (in elements) of a tensor, or a
 * number: an integer, a double's bits, 0 or 1. lua_bindings/kernel/text.lua is such a front end's last stage. */
#ifndef TIDE_KERNEL_H
#define TIDE_KERNEL_H

#include "tide/tide.h"

TIDE_C_BEGIN

enum { TIDE_KERNEL_DIMS = 3, TIDE_KERNEL_OPERANDS = 60 };
/* Up to how many blocks a launch is a small one (`waits`): along its second dim, or the first where it has no other. */
enum { TIDE_KERNEL_FEW_ACROSS = 1024, TIDE_KERNEL_FEW = 4096 };

typedef enum tide_kernel_kind {
  TIDE_KERNEL_TENSOR,
  TIDE_KERNEL_INTEGER,
  TIDE_KERNEL_FLOAT,
  TIDE_KERNEL_BOOLEAN
} tide_kernel_kind;

typedef struct tide_kernel_operand {
  const char *name; /* in messages */
  tide_kernel_kind kind;
  tide_dtype dtype; /* of a TENSOR, like the next two */
  int ndim;
  bool reads, writes;
  uint8_t row, rows; /* the sizes that its last dimension and the one before must have; 0: any */
} tide_kernel_operand;

/* What is known of a grid and of the tensors that are passed. */
typedef enum tide_kernel_layout {
  TIDE_KERNEL_ANY,
  TIDE_KERNEL_SMALL, /* sizes and offsets are below 2^30, so that 32 bits hold them, and places at most 2^28 */
  TIDE_KERNEL_UNIT,  /* SMALL, and elements are contiguous along the last dimension of each tensor */
  TIDE_KERNEL_MANY,  /* as SMALL, but for 2^28 to 2^30 places: the device's text tests whether to stop */
  TIDE_KERNEL_MANY_UNIT
} tide_kernel_layout;

/* What a kernel is made of; all of it is copied. */
typedef struct tide_kernel_text {
  size_t struct_size; /* sizeof(tide_kernel_text) */
  const char *name;   /* in messages: "wave" */
  const char *device; /* CUDA C that defines tide_kernel; this or the next may be NULL, which cannot run there then */
  const char *host; /* C++ behind what jit/ puts before every kernel of the CPU; it ends with TIDE_KERNEL(tide_loop) */
  const char *code; /* for the host's interpreter, which runs it where no compiler is or none has finished; NULL: there
                       a launch waits. As host, in the blocks and slots of it (lua_bindings/kernel/code.lua) */
  bool turns;       /* of the host: threads of a block wait for each other */
  tide_kernel_layout layout; /* what the texts take for granted of grid and tensors */
  bool waits;     /* of the device: a launch of few blocks (TIDE_KERNEL_FEW) waits itself, by griddepcontrol */
  bool unordered; /* what it computes depends on which thread comes first */
  int ndim;       /* of the grid, 1 to 3 */
  int64_t block[TIDE_KERNEL_DIMS], host_block[TIDE_KERNEL_DIMS]; /* places of a block */
  const tide_kernel_operand *operands;
  int operands_count;
  const char *source; /* of the lines, as a tide_site_fn names it: "@wave.lua" */
  const int *lines;   /* of the accesses that are tested */
  int lines_count;
  int rounds; /* of the device: blocks of the last dimension that one block of threads does, 0 as 1 */
} tide_kernel_text;

typedef struct tide_kernel tide_kernel;
typedef struct tide_kernel_bound tide_kernel_bound;

/* Checks it and keeps it; compiles nothing. */
TIDE_API tide_status tide_kernel_new(tide_kernel **out, const tide_kernel_text *text);
/* Frees the handle; NULL is allowed. Work that is queued goes on. */
TIDE_API void tide_kernel_free(tide_kernel *kernel);
/* The most that a kernel for this call may take for granted. */
TIDE_API tide_kernel_layout tide_kernel_layout_of(const int64_t *grid, int ndim, const tide_operand *args, int n);
/* Is its kernel for the device compiled and loaded? If not, that begins on another thread, and a later call tells;
 * each call reports a compiler's error. True too where there is no compiler, but code: nothing better will come.
 * device: TIDE_CPU, or a device. */
TIDE_API tide_status tide_kernel_ready(bool *out, tide_kernel *kernel, int device);
/* Waits until it is; STATE where waits are refused. */
TIDE_API tide_status tide_kernel_wait(tide_kernel *kernel, int device);
/* Runs it on the device of its tensors, or on `device` where it has none, for every place of the grid. Where it is not
 * ready its code is interpreted meanwhile; without code this waits for the compiler, unless waits are refused. */
TIDE_API tide_status tide_kernel_launch(tide_kernel *kernel, const int64_t *grid, const tide_operand *args, int n,
                                        int device);
/* Checks everything now and keeps it, with the tensors, for launches that check nothing but whether imported memory is
 * acquired. */
TIDE_API tide_status tide_kernel_bind(tide_kernel_bound **out, tide_kernel *kernel, const int64_t *grid,
                                      const tide_operand *args, int n, int device);
/* Changes one of the numbers; i counts from 0. */
TIDE_API tide_status tide_kernel_bound_set(tide_kernel_bound *bound, int i, tide_scalar number);
TIDE_API tide_status tide_kernel_bound_launch(tide_kernel_bound *bound);
/* Releases it; NULL is allowed. For finalisers too: calls no driver. */
TIDE_API void tide_kernel_bound_free(tide_kernel_bound *bound);

TIDE_C_END
#endif
