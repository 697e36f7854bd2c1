/* observe.h: what the watchers of every operation learn: the stream sanitizer and the profiler. Private to core.
 *
 * Everything here is called only while tide__sync_watched() says so, and costs nothing else. */
#pragma once

#include "progress.h"

enum { TIDE__ACCESSES = 160, TIDE__NO_ARGUMENT = -1 };

/* One tensor that an operation touches. */
typedef struct tide__access {
  const tide_tensor *x; /* borrowed for the length of the call */
  bool write;           /* it may read as well */
  int8_t argument;      /* which of head.ptr of a kernel, or TIDE__NO_ARGUMENT */
  uint8_t input;        /* of the graph that is being captured, counted from 1; 0: none */
} tide__access;

/* A copy between memories as a subject. */
typedef struct tide__transfer {
  void *dst;
  const void *src;
  size_t bytes;
  int dst_device, src_device;
} tide__transfer;

/* A launch of a kernel that was made at run time as a subject. */
typedef struct tide__made {
  const tide_compiler *compiler;
  void *function;
  const tide_launch *launch;
} tide__made;

/* What is about to be queued on a stream, or done by the host if the stream is the CPU's. */
typedef struct tide__operation {
  tide_stream *stream;
  uint32_t site;
  tide__launch what;
  int detail;                     /* as in tide__launch_note */
  const struct tide_graph *graph; /* a replay's; else NULL */
  const void *subject;            /* the arguments of a kernel, a tide__transfer, a tide__made; NULL: not told */
  int n;
  tide__access access[TIDE__ACCESSES];
} tide__operation;

/* Any function may be NULL. They may run on any thread, hold no lock of core's, and may not queue work. */
typedef struct tide__observer {
  tide_status (*before)(const tide__operation *op); /* a failure refuses the operation */
  void (*after)(const tide__operation *op, tide_status status);
  /* A mark is an event, or what replaces one inside core: where a stream was. */
  void (*recorded)(const void *mark, const tide_stream *stream);
  void (*waits_event)(const tide_stream *stream, const tide_event *event);
  void (*waits_mark)(const tide_stream *stream, const void *mark);
  void (*host_waits)(const char *what); /* it may be about to wait, in the function of that name */
  /* The host has waited for it, or has seen that it is done. */
  void (*host_event)(const tide_event *event);
  void (*host_stream)(const tide_stream *stream);
  void (*host_device)(int device);
  void (*mark_gone)(const void *mark);
  void (*storage_gone)(tide_storage *s);  /* its memory may serve others from now on */
  void (*memory_settled)(void);           /* the allocator, perhaps under its lock, has waited for freed memory */
  void (*capture_gone)(uint64_t capture); /* its graph is not replayed any more; by its number */
  /* What that capture did to this input on `from`, its replays do on `to`, `shift` bytes further on. */
  void (*rebound)(uint64_t capture, int input, const tide_storage *from, const tide_storage *to, int64_t shift);
} tide__observer;

typedef enum tide__observer_slot { TIDE__SANITIZER, TIDE__PROFILER, TIDE__OBSERVERS } tide__observer_slot;
/* NULL: nobody. Calls of the one before may still be under way on other threads. */
void tide__observer_set(tide__observer_slot slot, const tide__observer *observer);
extern _Atomic(const tide__observer *) tide__observers[TIDE__OBSERVERS];
#define TIDE__EACH_OBSERVER(o)                                                                                         \
  for (int slot_ = 0; slot_ < TIDE__OBSERVERS; slot_++)                                                                \
    for (const tide__observer *o = atomic_load_explicit(&tide__observers[slot_], memory_order_acquire); o; o = NULL)
/* Tells every observer that has the function of this name. */
#define TIDE_OBSERVE(name, ...)                                                                                        \
  do { TIDE__EACH_OBSERVER(o_) if (o_->name) o_->name(__VA_ARGS__); } while (0)

/* An operation is told in these steps, by one thread: its operands, that it is about to be queued, that it was. */
void tide__observe_operands(void);                                         /* none so far */
void tide__observe_access(const tide_tensor *x, bool write, int argument); /* tensor/operand.h says what it must */
tide_status tide__observe_launch(tide_stream *stream, uint32_t site, tide__launch what, int detail,
                                 const struct tide_graph *graph, const void *subject);
void tide__observe_queued(tide_status status);
tide_status tide__launch_counted(void); /* sync.c: against the quota that is bound */
/* The launch of anything: what comes before the backend's call, and what comes after it with its status. A failure of
 * the former, which stays in tide__early, refuses the launch. `subject` as in tide__operation, until the latter. */
static inline tide_status tide__launch_begin(uint32_t *number, tide_stream *stream, uint32_t site, tide__launch what,
                                             int detail, const void *subject) {
  if (tide__sync_watched() &&
      (tide__early = tide__observe_launch(stream, site, what, detail, NULL, subject)) != TIDE_OK)
    return tide__early;
  if (tide__quota_any()) TIDE_TRY(tide__launch_counted());
  *number = tide__launch_note(stream, site, what, detail);
  return TIDE_OK;
}
static inline tide_status tide__launch_done(tide_stream *stream, uint32_t number, tide_status status) {
  status = tide__launch_end(stream, number, status);
  if (tide__sync_watched()) tide__observe_queued(status);
  return status;
}

/* watchdog.c: kernels that can be stopped. Of a launch, its number among those of all streams; what stands around it
 * where a quota is bound; of an interrupted wait for the device, or TIDE_CPU for all: they end. */
uint64_t tide__watch_number(void);
tide_status tide__watch_begin(tide_stream *stream, uint32_t number);
void tide__watch_end(tide_stream *stream, uint32_t number);
void tide__watch_interrupt(int device);
void tide__watch_shutdown(void);

/* event.c: may other processes record it? */
bool tide__event_shared(const tide_event *event);
