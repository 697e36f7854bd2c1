/* base.h: the face of base: errors, script lines, the host, threads, loops, dtypes. Private to core.
 *
 * It stands on nothing. The other headers of base hold one thing each, and whoever needs it includes it; those that are
 * meant for C and CUDA alike (plan.h, random.h, special.h) include nothing of this. */
#pragma once

#include <pthread.h>
#include <string.h>

#include "likely.h"
#include "plan.h"
#include "refs.h"
#include "try.h"

/* ---- status.c: errors ---- */

/* Sets the thread's error and returns status: return tide__fail(TIDE_SHAPE, "cat: tensor %d has ...", i). */
tide_status tide__fail(tide_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
tide_status tide__fail_memory(int device, size_t requested, size_t free, size_t total, size_t allocated,
                              size_t reserved, const char *format, ...);
/* What index_base says where a kernel that was written in the host's language reports itself: a place that a tensor has
 * not, counted from 1; a division by 0, or, of length 1, a loop whose step is 0; that it was stopped after `value`
 * milliseconds, at the loop of the site. */
enum { TIDE__MAIL_PLACE = 2, TIDE__MAIL_ZERO, TIDE__MAIL_STOPPED, TIDE__MAIL_APART };
tide_status tide__fail_index(int device, uint32_t site, int64_t value, int64_t length, int index_base);
/* Sets the thread's error to one that was kept: the cause of a lost device, the reason why a library did not open. */
tide_status tide__fail_again(const tide_error *error);
/* Makes `error` the thread's, with copies of the two texts, which must fit. */
enum { TIDE__MESSAGE_MOST = 6144 }; /* the message of a device's error lists launches and is longer than others */
tide_status tide__error_set(const tide_error *error, const char *message, const char *name);
/* "[2, 3]" into a ring of per-thread buffers: at most 8 alive at once, for messages. */
const char *tide__shape_text(const int64_t *size, int ndim);
/* "cpu" or "cuda:1", likewise. */
const char *tide__device_text(int device);

/* ---- trace.c: script lines ---- */

tide_index_base_fn tide__index_base_get(void);        /* what tide_index_base_set has set on this thread */
uint32_t tide__site_of(const char *source, int line); /* interned; 0: the table is full, or line 0 */
uint32_t tide__site_now(void);                        /* interned site of the running script line; 0 if unknown */
void tide__site_text(uint32_t site, char *text, size_t size);

/* ---- host.c: what the host brings ---- */

/* Counts starts and ends: odd while tide runs. What was made in another epoch holds nothing of this one's. The first
 * one is that of ordinary CPU memory; the second one, of all that belongs to accelerators, also moves on by two when
 * they are reset. */
extern _Atomic uint32_t tide__epochs[2];
static inline uint32_t tide__epoch_now(void) { return atomic_load_explicit(&tide__epochs[1], memory_order_acquire); }
const tide_config *tide__config(void);
bool tide__running(void);
tide_status tide__host_install(const tide_config *config); /* at the start; the config holds until the reset */
void tide__host_reset(void);
bool tide__interrupt_asked(void); /* does the host's hook of this thread say so? Then it is dealt with. */
void tide__log(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tide__warn(const char *message); /* to the calling thread's hook */
/* Where CPU memory comes from: the host's hooks or our own. A record lives as long as the process, so memory goes back
 * where it came from even after the runtime that took it has ended. */
typedef struct tide__host_hooks tide__host_hooks;
const tide__host_hooks *tide__host_current(void);
void *tide__host_take(const tide__host_hooks *hooks, size_t bytes);
void tide__host_give(const tide__host_hooks *hooks, void *ptr, size_t bytes);
bool tide__host_zeroes(const tide__host_hooks *hooks, size_t bytes); /* is memory of this size zero when it comes? */
void *tide__host_alloc(size_t bytes);                                /* through the host's hook; 64-byte aligned */
void tide__host_free(void *ptr, size_t bytes);
/* For tests: the nth allocation from now, on the CPU or a device, fails with TIDE_MEMORY; 0 switches it off. */
extern _Atomic int64_t tide__fault_left;
void tide__fault_alloc(int64_t n);
bool tide__fault_hit(void);
static inline bool tide__fault_now(void) {
  return atomic_load_explicit(&tide__fault_left, memory_order_relaxed) > 0 && tide__fault_hit();
}

/* ---- thread.c: what a thread leaves behind ---- */

/* fn runs on every thread that called tide__thread_touch, when it ends; to be added once for the process. */
void tide__thread_at_end(void (*fn)(void));
void tide__thread_touch(void);

/* ---- parallel.c ---- */

void tide__parallel_for(int64_t n, int64_t grain, tide_task_fn fn, void *arg);
/* What worker threads do for the memory above them, and what they are told; set once. */
typedef struct tide__idle_work {
  bool (*any)(void);         /* is anything kept, or may it soon be? */
  void (*trim)(void);        /* by a worker that has nothing else to do: gives back what is idle */
  void (*watch_forks)(void); /* once, before the first worker starts */
} tide__idle_work;
void tide__parallel_idle(const tide__idle_work *work);
void tide__parallel_shutdown(void);
/* Between these two, which stand around a kernel of the CPU, the thread's interrupt hook can end loops. The second
 * gives INTERRUPTED where it has, else the status that it is given. */
void tide__loops_begin(void);
tide_status tide__loops_end(tide_status status);
/* Behind the first: the kernel is one that the bound quota lets run for so long (TIDE_QUOTA_KERNEL_MICROSECONDS). */
void tide__loops_limit(void);
int64_t tide__loops_ms(void); /* since then */
/* Loops of the calling thread, which no host's hook is asked for, stop once *stop is set; NULL: no more. */
void tide__loops_follow(_Atomic bool *stop);
/* Must what is left of the running loop be skipped? Long loops ask about every millisecond. */
bool tide__loop_stops(void);
/* The same as tide__parallel_for, in order and on the calling thread, which may be in such a loop. */
void tide__serial_for(int64_t n, int64_t grain, tide_task_fn fn, void *arg);

/* ---- dtypes, without a call ---- */

static inline int64_t tide__itemsize(int dtype) {
  static const uint8_t bytes[] = {
#define DTYPE(name, NAME, type, size_, kind, alias) size_,
#include "tide/dtype.def"
#undef DTYPE
  };
  return bytes[dtype];
}

/* By the library: where compilers know the size, they choose instructions that take long to begin. */
static inline void tide__clear(void *to, size_t bytes) {
  __asm__("" : "+r"(bytes));
  memset(to, 0, bytes);
}
static inline void tide__copy(void *to, const void *from, size_t bytes) {
  __asm__("" : "+r"(bytes));
  memcpy(to, from, bytes);
}

/* 0 bool, 1 integer, 2 floating, 3 complex: the order in which categories win over each other in promotion. */
static inline int tide__category(int dtype) {
  return dtype == TIDE_BOOL ? 0 : dtype < TIDE_FLOAT16 ? 1 : dtype < TIDE_COMPLEX64 ? 2 : 3;
}
static inline int tide__scalar_category(char kind) { return kind == 'B' ? 0 : kind == 'F' ? 2 : kind == 'C' ? 3 : 1; }

/* ---- op.c, plan.c ---- */

tide_dtype tide__compute_dtype(tide_dtype common); /* of plan.h: INT32, INT64, FLOAT32, ... */
tide_value tide__value(tide_scalar s);
/* Packs a scalar into the storage form of dtype. */
void tide__scalar_pack(uint64_t bits[2], tide_scalar s, tide_dtype dtype);
tide_scalar tide__scalar_unpack(const void *bits, tide_dtype dtype);
uint16_t tide__to_half(float f);
float tide__from_half(uint16_t h);
uint16_t tide__to_bfloat16(float f);
float tide__from_bfloat16(uint16_t h);
/* Drops dims of size 1, orders by stride of operand 0 (unless keep_order) and merges neighbours that all operands
 * allow. stride[k][d] for k < operands; returns the new number of dims (at least 1). */
int tide__collapse(int64_t *size, int64_t (*stride)[TIDE_MAX_DIMS], int operands, int ndim, bool keep_order);
typedef struct tide_random_args tide_random_args;
/* limits.c: once kind, dtype, a and b are set. */
void tide__random_limits(tide_random_args *a);
extern const char *const tide__random_names[]; /* of each kind of random numbers */
extern const char *const tide__linalg_names[]; /* of each routine */
