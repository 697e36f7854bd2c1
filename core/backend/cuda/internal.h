/* internal.h: what the files of the CUDA backend share. Only they include it. */
#pragma once

#include <cuda.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "backend/library.h"
#include "base/likely.h"
#include "base/lock.h"
#include "base/try.h"
#include "tidek.h"

/* ---- state.c ---- */

extern const tide_backend_host *tide__cuda_host;

typedef struct cuda_device {
  _Atomic(CUcontext) context; /* the primary one; NULL until the device is opened */
  int multiprocessors, major;
} cuda_device;
extern cuda_device tide__cuda_devices[TIDE_MAX_DEVICES];

/* The driver's calls of the hot path; the runtime's own are dearer. Both number their errors alike. */
extern CUresult (*tide__cuda_ask_stream)(CUstream stream);
extern CUresult (*tide__cuda_get_current)(CUcontext *out);
extern CUresult (*tide__cuda_set_current)(CUcontext context);

/* Makes the device's primary context current, and the caller's again where the block is left. A program that has none
 * at all may keep device 0's, which it gets anyway; so the common case costs one call. */
typedef struct cuda_scope {
  CUcontext before;
  bool restore;
} cuda_scope;
static inline cuda_scope cuda_enter(int device) {
  CUcontext wanted = atomic_load_explicit(&tide__cuda_devices[device].context, memory_order_acquire);
  cuda_scope s = {NULL, false};
  tide__cuda_get_current(&s.before);
  if (s.before != wanted) {
    tide__cuda_set_current(wanted);
    s.restore = s.before || device != 0;
  }
  return s;
}
static inline void cuda_leave(const cuda_scope *s) {
  if (s->restore) tide__cuda_set_current(s->before);
}
/* A declaration, once in a block. */
#define CUDA_ON(device)                                                                                                \
  __attribute__((cleanup(cuda_leave), unused)) const cuda_scope on_until_here_ = cuda_enter(device)
int tide__cuda_any_device(void); /* an opened device, or -1 */

extern _Atomic int tide__cuda_captures; /* those under way */
/* Lets this thread make calls that a capture elsewhere, or of its own, would forbid although they do not touch it. */
typedef struct cuda_relaxed {
  enum cudaStreamCaptureMode before;
  bool changed;
} cuda_relaxed;
static inline cuda_relaxed cuda_relax(bool always) {
  cuda_relaxed r = {cudaStreamCaptureModeRelaxed, false};
  if (TIDE_UNLIKELY(always || atomic_load_explicit(&tide__cuda_captures, memory_order_relaxed) != 0))
    r.changed = cudaThreadExchangeStreamCaptureMode(&r.before) == cudaSuccess;
  return r;
}
static inline void cuda_unrelax(cuda_relaxed *r) {
  if (r->changed) cudaThreadExchangeStreamCaptureMode(&r->before);
}
/* Until the block is left, once in a block. FULLY: also where another library than tide captures. */
#define CUDA_RELAXED       CUDA_RELAXED_WHERE(false)
#define CUDA_RELAXED_FULLY CUDA_RELAXED_WHERE(true)
#define CUDA_RELAXED_WHERE(always)                                                                                     \
  __attribute__((cleanup(cuda_unrelax), unused)) cuda_relaxed relaxed_until_here_ = cuda_relax(always)
#define CUDA_ON_RELAXED(device)                                                                                        \
  CUDA_ON(device);                                                                                                     \
  CUDA_RELAXED

typedef struct cuda_stream {
  cudaStream_t handle;
  int device;
  bool owned;
  _Atomic int refs;
  uint64_t id;                           /* in the order of creation; of a foreign one the driver's, or 0 */
  _Atomic(volatile uint32_t *) progress; /* error.c; NULL before the first note */
  struct cuda_stream *next;
} cuda_stream;
/* Scratch memory of core's, which goes back where the block is left: what is queued by then may use it. */
typedef struct cuda_scratch {
  void *memory; /* NULL: none was wanted */
  tide_stream *stream;
} cuda_scratch;
static inline tide_status cuda_scratch_get(cuda_scratch *s, tide_stream *stream, size_t bytes) {
  s->stream = stream;
  return bytes ? tide__cuda_host->scratch_get(&s->memory, stream, bytes) : TIDE_OK;
}
static inline void cuda_scratch_put(const cuda_scratch *s) {
  if (s->memory) tide__cuda_host->scratch_put(s->stream, s->memory);
}
#define CUDA_SCRATCH(name) __attribute__((cleanup(cuda_scratch_put))) cuda_scratch name = {NULL, NULL}

typedef struct cuda_event {
  cudaEvent_t handle;
  int device;
  uint32_t flags;
} cuda_event;

static inline const cuda_stream *cuda_stream_of(const tide_stream *s) {
  return (const cuda_stream *)tide_stream_impl(s);
}
/* Declares s, and enters its device until the block is left. */
#define CUDA_ON_STREAM(s, impl)                                                                                        \
  const cuda_stream *s = impl;                                                                                         \
  CUDA_ON(s->device)

/* Is it being captured? Then nothing may be asked of it. */
bool tide__cuda_stream_captured(const cuda_stream *s);
/* Held where a stream becomes a captured one, and by whoever asks streams of other threads: between finding that a
 * stream is not captured and asking it. */
extern pthread_mutex_t tide__cuda_capture_lock;

/* ---- error.c ---- */

/* The status of a call of the runtime, TIDE_OK for 0; else the thread's error is set and the runtime's is cleared. */
tide_status tide__cuda_fail(int device, const char *what, int code);
static inline tide_status tide__cuda_check(int device, const char *what, int code) {
  return code == 0 ? TIDE_OK : tide__cuda_fail(device, what, code);
}

void tide__cuda_progress_end(volatile uint32_t *word); /* the stream ends; NULL is allowed */
void tide__cuda_progress_close(void);
void tide__cuda_meet_close(void); /* meet.c */

/* ---- device.c ---- */
/* A function of the driver's, which is found by its name. */
typedef struct cuda_symbol {
  void *to; /* a pointer to such a function */
  const char *name;
} cuda_symbol;
/* Finds them all; returns the name of one that the driver lacks, or NULL. */
const char *tide__cuda_find(const cuda_symbol *wanted, size_t n);

/* ---- stream.c ---- */

/* Waits for every owned stream of the device, interruptibly. */
tide_status tide__cuda_streams_drain(int device);
void tide__cuda_streams_forget(int device); /* after a reset */

/* ---- wait.c ---- */

/* Waits for the stream without a look at the mailbox; the device is current. */
tide_status tide__cuda_stream_drain(const cuda_stream *s, const char *what);
/* Likewise for a stream that any thread may begin to capture: then it is not waited for. */
tide_status tide__cuda_stream_drain_any(const cuda_stream *s, const char *what);
/* Likewise for an event; a yielding wait soon sleeps between its looks. */
tide_status tide__cuda_event_drain(const cuda_event *e, bool yielding);
/* The mailbox of the device for kernels that meet bad indexes. */
tide_status tide__cuda_mailbox(uint32_t **taken, tidek_mailbox **mailbox, int device);
/* What every wait ends with: fails if a kernel met a bad index. */
tide_status tide__cuda_mail(int device);
void tide__cuda_wait_close(void);

/* ---- stop.c ---- */

/* What a launch that can be stopped compares: a word of the device, and its own number. */
tide_status tide__cuda_stop_word(uint64_t **word, uint64_t *number, const tide_launch *a, int device);
int tide__cuda_stop_replays(int device, cudaStream_t stream); /* before a replay: it is not the one that was stopped */
void tide__cuda_stop_close(void);

/* ---- peer.c ---- */

/* Lets `device` reach the memory of `peer` directly, where the machine can; else copies pass through the host. Both are
 * open. */
bool tide__cuda_peer_open(int device, int peer);

/* ---- range.c ---- */

/* From now on `peer` may use the mapped memory of `device`. */
void tide__cuda_range_peer(int device, int peer);

/* ---- staged.c ---- */

/* Copies pageable memory by several threads; the stream has nothing else to do, its device is current. False where this
 * is not the way for such a copy. *rc is the runtime's error code. */
bool tide__cuda_staged_copy(int *rc, const cuda_stream *s, void *dst, const void *src, size_t bytes, bool to_host);
void tide__cuda_staged_close(void);

/* ---- gemm.c, solver.c ---- */

bool tide__cuda_has_blas(void);
void tide__cuda_gemm_close(void);
void tide__cuda_solver_close(void);

/* ---- what the table has ---- */

extern const tide_tracer tide__cuda_tracer;
extern const tide_collective tide__cuda_collective;
extern const tide_external tide__cuda_external;
#define KERNEL(name, args, writes, cost, library) tide_status tide__cuda_##name(tide_stream *stream, const args *a);
#include "backend/kernel.def"
#define SLOT(type, name, parameters) type tide__cuda_##name parameters;
#include "backend/slot.def"
