/* function.h: an elementwise function and what it has compiled. Private to function.c and jit.c. */
#pragma once

#include "jit/jit.h"

/* What was compiled for these dtypes, device and shape of the work, and the arguments that are always the same. */
typedef struct tide__jit_plan {
  struct tide__jit_plan *next;
  uint64_t key;
  tide_dtype common;
  const tide_compiler *compiler;
  void *function;
  tide__special special;
  tide_layout layout;
  uint16_t mail;       /* where in the arguments the addresses of a mailbox go; 0: the kernel reports nothing */
  int64_t tile, moved; /* elements of a block; bytes that an element moves */
  char scalars[16 * TIDE_JIT_SCALARS];
} tide__jit_plan;

/* launch.c: what follows from `special`. */
void tide__jit_plan_begin(tide__jit_plan *p, const tide_compiler *c);

/* What an elementwise kernel works on. ndim 0: flat, without size and stride. */
typedef struct tide__work {
  int64_t numel, size[TIDE_MAX_DIMS];
  const int64_t (*stride)[TIDE_MAX_DIMS]; /* of each operand */
  int ndim;
  char *ptr[TIDE_JIT_OPERANDS];
} tide__work;
/* launch.c: launches an elementwise kernel whose packed arguments hold the scalars. operand: as the kernel counts them,
 * results first. Fills in w->ptr. */
tide_status tide__jit_launch_work(const tide__jit_plan *p, char *packed, const tide_tensor *const *operand,
                                  tide__work *w, int device, tide__launch what);

struct tide_jit {
  tide__signature signature;
  int inputs, outputs, scalars;
  bool by_value;
  uint8_t role[TIDE_LAUNCH_PARAMS], number[TIDE_LAUNCH_PARAMS];
  char scalar_kind[TIDE_JIT_SCALARS];
  struct {
    int64_t low, high;
  } range[TIDE_JIT_SCALARS]; /* of scalars of kind 'I' */
  const char *scalar_name[TIDE_JIT_SCALARS];
  tide_scalar scalar[TIDE_JIT_SCALARS];
  char what[192];       /* "jiterator: scale of demo.lua:3" */
  uint32_t epoch, made; /* of the runtime; of the accelerators when the plans were made */
  tide__jit_plan *plans;
  char code[];
};

/* VALUE where a number is not an integer that the parameter can hold. */
tide_status tide__jit_scalars_check(const tide_jit *j, const tide_scalar *scalars, const char *what);
void tide__jit_scalars_pack(char *to, const tide_jit *j, const tide_scalar *scalars, tide_dtype common);

/* dtypes of the inputs, 4 bits each; the device; 0 or the number of dims; and for each input whether it is a 0-d tensor
 * among others, which counts less in promotion. */
static inline uint64_t tide__jit_plan_key(uint64_t dtypes, int device, int ndim, uint64_t lesser) {
  return dtypes | (uint64_t)(device + 1) << 32 | (uint64_t)ndim << 48 | lesser << 56;
}
static inline const tide__jit_plan *tide__jit_plan_find(const tide_jit *j, uint64_t key) {
  const tide__jit_plan *p = j->plans;
  while (p && p->key != key) p = p->next;
  return p;
}
/* *out is NULL where the kernel is being compiled on another thread, as tide__jit_function tells. */
tide_status tide__jit_plan_make(const tide__jit_plan **out, tide_jit *j, uint64_t key, const tide_tensor *const *in,
                                tide_dtype common, int device, int ndim);
void tide__jit_plans_drop(tide_jit *j);
