/* kernel.h: a kernel over a grid. Private to kernel.c and kernel_launch.c. */
#pragma once

#include "jit/jit.h"
#include "tide/kernel.h"

enum {
  TIDE_KERNEL_SLOTS = TIDE_LAUNCH_BYTES / 8,
  TIDE_KERNEL_MAIL = 3, /* the slot of what a launch writes (tide_launch), which stands before the lines */
  TIDE_KERNEL_LINES = 7
};

typedef struct tide__kernel_loaded {
  bool ready;
  bool asked;     /* a compiler has been asked for it, and was not done, or failed, when so many jobs had ended: */
  uint32_t ended; /* tide__jit_ended */
  bool without;   /* there is no compiler, and the interpreter does */
  void *function;
  int max_threads;
  const tide_compiler *compiler;
} tide__kernel_loaded;

struct tide_kernel {
  _Atomic int refs; /* the handle, and bound launches */
  char what[96];    /* "kernel: wave" */
  const char *name;
  char *device, *host, *code;
  void *interpreted; /* what the host's interpreter made of `code`, by its compiler's slots */
  void (*code_free)(void *interpreted);
  bool turns, waits, unordered;
  bool uninterpreted; /* the interpreter cannot run it */
  _Atomic bool warned;
  uint32_t epoch, made; /* of the runtime; of the accelerators when the functions were loaded */
  int ndim, operands, slots, pointers, rounds;
  int64_t block[TIDE_KERNEL_DIMS], host_block[TIDE_KERNEL_DIMS];
  tide_kernel_operand *operand;
  uint16_t *first, *pointer;                    /* the slot of each operand; the places of addresses in bytes */
  int64_t *template;                            /* the slots, with the lines */
  tide__kernel_loaded on[TIDE_MAX_DEVICES + 1]; /* of the CPU, then of each device */
};

/* The function of the device, compiled and loaded where it is not yet. */
tide_status tide__kernel_prepare(tide__kernel_loaded **out, tide_kernel *p, int device);
/* The same for a launch, which is not to wait: out->ready is false where p->interpreted is to be launched instead. */
tide_status tide__kernel_choose(tide__kernel_loaded **out, tide_kernel *p, int device);
tide_status tide__kernel_renew(tide_kernel *p); /* after a reset of the accelerators everything is loaded again */
