/* kernel.h: a raw kernel. Private to kernel.c and kernel_launch.c. */
#ifndef TIDE_JIT_KERNEL_H
#define TIDE_JIT_KERNEL_H

#include "jit.h"

enum { TIDE_KERNEL_PARAMS = TIDE_LAUNCH_PARAMS, TIDE_KERNEL_OPTIONS = 24 };

typedef struct tide__kernel_loaded {
  bool ready, plain; /* plain: the compiler has refused the body as a function inside of the kernel */
  tide__function function;
  const tide_compiler *compiler;
  int max_threads;
  int64_t max_shared;
} tide__kernel_loaded;

struct tide_kernel {
  char *source, *name;
  char what[192];       /* "compile_kernel: scale of demo.lua:3" */
  uint32_t epoch, made; /* of the runtime; of the accelerators when the functions were loaded */
  int params, bytes, pointers;
  bool checked; /* the compiler says whether it takes them */
  tide__signature signature;
  char type[TIDE_KERNEL_PARAMS][TIDE_JIT_TYPE]; /* with the template's argument in the place of its parameter */
  tide_kernel_param param[TIDE_KERNEL_PARAMS];
  uint16_t offset[TIDE_KERNEL_PARAMS], pointer[TIDE_KERNEL_PARAMS];
  bool unordered; /* its atomics may depend on the order of threads */
  _Atomic bool warned;
  int options_count;
  char *options[TIDE_KERNEL_OPTIONS];
  tide__kernel_loaded on[TIDE_MAX_DEVICES + 1]; /* of the CPU, then of each device */
};

/* The function of the device, compiled and loaded where it is not yet. */
tide_status tide__kernel_prepare(const tide__kernel_loaded **out, tide_kernel *k, int device);
tide_status tide__kernel_renew(tide_kernel *k); /* after a reset of the accelerators everything is loaded again */

#endif
