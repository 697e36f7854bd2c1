/* raw.h: a raw kernel. Private to raw.c and raw_launch.c. */
#pragma once

#include "jit/jit.h"

enum { TIDE_RAW_KERNEL_PARAMS = TIDE_LAUNCH_PARAMS, TIDE_RAW_KERNEL_OPTIONS = 24 };

typedef struct tide__raw_kernel_loaded {
  bool ready, plain; /* plain: the compiler has refused the body as a function inside of the kernel */
  tide__function function;
  const tide_compiler *compiler;
  int max_threads;
  int64_t max_shared;
} tide__raw_kernel_loaded;

struct tide_raw_kernel {
  char *source, *name;
  char what[192];       /* "compile_kernel: scale of demo.lua:3" */
  uint32_t epoch, made; /* of the runtime; of the accelerators when the functions were loaded */
  int params, bytes, pointers;
  bool checked; /* the compiler says whether it takes them */
  tide__signature signature;
  char type[TIDE_RAW_KERNEL_PARAMS][TIDE_JIT_TYPE]; /* with the template's argument in the place of its parameter */
  tide_raw_kernel_param param[TIDE_RAW_KERNEL_PARAMS];
  uint16_t offset[TIDE_RAW_KERNEL_PARAMS], pointer[TIDE_RAW_KERNEL_PARAMS];
  bool unordered; /* its atomics may depend on the order of threads */
  _Atomic bool warned;
  int options_count;
  char *options[TIDE_RAW_KERNEL_OPTIONS];
  tide__raw_kernel_loaded on[TIDE_MAX_DEVICES + 1]; /* of the CPU, then of each device */
};

/* The function of the device, compiled and loaded where it is not yet. */
tide_status tide__raw_kernel_prepare(const tide__raw_kernel_loaded **out, tide_raw_kernel *k, int device);
tide_status
tide__raw_kernel_renew(tide_raw_kernel *k); /* after a reset of the accelerators everything is loaded again */
