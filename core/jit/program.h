/* program.h: a kernel over a grid. Private to program.c and program_launch.c. */
#ifndef TIDE_JIT_PROGRAM_H
#define TIDE_JIT_PROGRAM_H

#include "jit.h"
#include "tide/program.h"

enum {
  TIDE_PROGRAM_SLOTS = TIDE_LAUNCH_BYTES / 8,
  TIDE_PROGRAM_MAIL = 3, /* the slot of what a launch writes (tide_launch), which stands before the lines */
  TIDE_PROGRAM_LINES = 7
};

typedef struct tide__program_loaded {
  bool ready;
  bool asked;     /* a compiler has been asked for it, and was not done, or failed, when so many jobs had ended: */
  uint32_t ended; /* tide__jit_ended */
  bool without;   /* there is no compiler, and the interpreter does */
  void *function;
  int max_threads;
  const tide_compiler *compiler;
} tide__program_loaded;

struct tide_program {
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
  int64_t block[TIDE_PROGRAM_DIMS], host_block[TIDE_PROGRAM_DIMS];
  tide_program_operand *operand;
  uint16_t *first, *pointer;                     /* the slot of each operand; the places of addresses in bytes */
  int64_t *template;                             /* the slots, with the lines */
  tide__program_loaded on[TIDE_MAX_DEVICES + 1]; /* of the CPU, then of each device */
};

/* The function of the device, compiled and loaded where it is not yet. */
tide_status tide__program_prepare(tide__program_loaded **out, tide_program *p, int device);
/* The same for a launch, which is not to wait: out->ready is false where p->interpreted is to be launched instead. */
tide_status tide__program_choose(tide__program_loaded **out, tide_program *p, int device);
tide_status tide__program_renew(tide_program *p); /* after a reset of the accelerators everything is loaded again */

#endif
