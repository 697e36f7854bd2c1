/* progress.h: what was launched on each stream and how far the stream has come. Private to core. */
#pragma once

#include "handle.h"

/* What can be launched: every kernel, then what is no kernel. */
typedef enum tide__launch {
#define KERNEL(name, args, writes, cost, library) TIDE__LAUNCH_##name,
#include "backend/kernel.def"
  TIDE__LAUNCH_COPY_IN,
  TIDE__LAUNCH_COPY_OUT,
  TIDE__LAUNCH_COPY_PEER,
  TIDE__LAUNCH_ITEM,
  TIDE__LAUNCH_SLEEP,
  TIDE__LAUNCH_GRAPH,
  TIDE__LAUNCH_JIT,
  TIDE__LAUNCH_FUSED,
  TIDE__LAUNCH_RAW
} tide__launch;

/* A power of two that is more than a driver lets a stream run ahead. After how many launches a stream is asked to note
 * where it is: all streams of a device together shall leave few in doubt. */
enum { TIDE__PROGRESS_RING = 2048, TIDE__PROGRESS_ALONE = 32, TIDE__PROGRESS_AMONG = 16 };
#define TIDE__PROGRESS_MARK ((uint64_t)1 << 63) /* of an entry: its stream was asked there */

/* One for each stream that launched something. */
struct tide__progress {
  _Atomic uint32_t launched; /* how many; also the number of the last one. It may wrap. */
  _Atomic uint32_t queued;   /* the last one that has been handed to the backend */
  _Atomic uint32_t done;     /* the last one that a wait has seen the end of */
  _Atomic uint32_t step;     /* TIDE__PROGRESS_ALONE while it is the only one of its device, else _AMONG */
  _Atomic bool noted;        /* the stream notes every step-th one as it passes it */
  bool blocking;             /* CUDA_LAUNCH_BLOCKING */
  const tide_backend *backend;
  tide_stream *stream; /* borrowed: the stream ends this before it ends itself */
  struct tide__progress *prev, *next;
  struct {
    uint64_t stream;
    uint32_t number, own; /* of that stream, and how many this one had launched */
  } behind[8];            /* what the stream last waited for; noted while the debug mode is on */
  unsigned behind_at;
  _Atomic uint64_t entry[TIDE__PROGRESS_RING]; /* site, then launch << 8 | detail in the upper half, and the mark */
};

/* NULL without memory: then nothing is noted. */
struct tide__progress *tide__progress_new(tide_stream *stream);
void tide__progress_free(tide_stream *stream);
void tide__progress_shutdown(void);
tide_status tide__launch_check(struct tide__progress *p, uint32_t number);

/* To be called before something is queued on the stream; gives it a number, 0 on the CPU and while capturing. `detail`
 * is the op of an elementwise kernel, the kind of a reduction or of random numbers. */
static inline uint32_t tide__launch_note(tide_stream *stream, uint32_t site, tide__launch what, int detail) {
  if (stream->device < 0 || stream->capture) return 0;
  struct tide__progress *p = atomic_load_explicit(&stream->progress, memory_order_acquire);
  if (TIDE_UNLIKELY(!p) && !(p = tide__progress_new(stream))) return 0;
  uint32_t number = atomic_fetch_add_explicit(&p->launched, 1, memory_order_relaxed) + 1;
  atomic_store_explicit(&p->entry[number % TIDE__PROGRESS_RING],
                        (uint64_t)((uint32_t)what << 8 | (uint32_t)detail) << 32 | site, memory_order_relaxed);
  return number;
}

/* To be called after it with what the backend said. Now and then asks the stream to note that it has come here; waits
 * where CUDA_LAUNCH_BLOCKING asks for it. */
static inline tide_status tide__launch_end(tide_stream *stream, uint32_t number, tide_status status) {
  if (number == 0 || status != TIDE_OK) return status;
  struct tide__progress *p = atomic_load_explicit(&stream->progress, memory_order_relaxed);
  atomic_store_explicit(&p->queued, number, memory_order_release);
  bool quiet = (number & (atomic_load_explicit(&p->step, memory_order_relaxed) - 1)) != 0 && !p->blocking;
  return TIDE_LIKELY(quiet) ? TIDE_OK : tide__launch_check(p, number);
}

/* A wait for the stream, from before it to its good end. */
static inline uint32_t tide__progress_now(tide_stream *stream) {
  struct tide__progress *p = atomic_load_explicit(&stream->progress, memory_order_acquire);
  return p ? atomic_load_explicit(&p->launched, memory_order_relaxed) : 0;
}
void tide__progress_reached(tide_stream *stream, uint32_t number);
/* The same by the id of a stream, which may have ended. */
void tide__progress_reached_id(uint64_t stream, uint32_t number);
/* Instead of tide__launch_end where the call itself waited for its work: there is nothing to ask, and nothing of ours
 * stays queued behind what the host knows to be done. */
static inline void tide__launch_over(tide_stream *stream, uint32_t number) {
  struct tide__progress *p = atomic_load_explicit(&stream->progress, memory_order_relaxed);
  if (number == 0 || !p) return;
  atomic_store_explicit(&p->queued, number, memory_order_release);
  tide__progress_reached(stream, number);
}
/* Has that launch been waited for, or has its stream ended? */
bool tide__progress_is_done(uint64_t stream, uint32_t number);
/* Later work of the stream waits for that launch of another: who waits for the former has waited for the latter. */
void tide__progress_behind(tide_stream *stream, uint64_t other, uint32_t number);
/* The same for a wait for the whole device; what does not fit in the list stays unknown. */
typedef struct tide__reached {
  uint64_t stream;
  uint32_t number;
} tide__reached;
int tide__progress_list(tide__reached *list, int room, int device);
void tide__progress_reached_all(const tide__reached *list, int n);

/* "add", "sum", "copy to the host": for people. */
const char *tide__launch_name(tide__launch what, int detail);
const char *tide__launch_text(uint32_t what); /* of both in one word, as suspects have them */

/* The launches that may have failed, oldest first on each stream: those of one stream that are the same op of the same
 * line are one, `count` times. */
enum { TIDE__SUSPECTS = 32 };
typedef struct tide__suspects {
  int n, more; /* how many are listed, and how many are not */
  bool all;    /* nothing that may have failed was forgotten */
  struct {
    uint32_t site, what, count;
    bool is_default;
    uint64_t stream; /* the driver's handle */
  } item[TIDE__SUSPECTS];
} tide__suspects;
void tide__suspects_find(tide__suspects *out, int device);
/* The name of the one launch that failed, or NULL if there is any doubt. */
const char *tide__suspects_sure(const tide__suspects *suspects);
/* Lines of text about them, to be put behind an error's message. */
void tide__suspects_text(char *text, size_t size, const tide__suspects *suspects);
