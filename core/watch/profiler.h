/* profiler.h: what the files of the profiler share. Private to them. */
#pragma once

#include "watch.h"
#include "tide/profiler.h"

/* ---- what is recorded ---- */

/* An operation, on the thread that queued it or, of the CPU, did it. */
typedef struct tide__profiled {
  uint64_t start, end; /* nanoseconds since the recording began */
  uint32_t site;
  uint16_t what;
  uint8_t detail;
  int32_t device;   /* TIDE_CPU or the stream's */
  uint32_t thread;  /* counted from 0 */
  uint32_t stream;  /* in the list of streams */
  uint32_t name;    /* of a kernel over a grid, in the list of names; else 0 */
  uint32_t spans;   /* how many pieces of a device's work are known to be its */
  uint64_t bytes;   /* of its operands */
  size_t allocated; /* bytes on the device when it had been queued */
} tide__profiled;

/* A piece of work of a device. */
typedef struct tide__span {
  uint64_t start, end;
  int64_t op;           /* the index of the operation, -1 if it is not known */
  uint64_t correlation; /* until the operation is known */
  uint64_t stream;      /* the tracer's number; 0: the operation's stream */
  uint64_t bytes;
  uint32_t name; /* in the list of names; 0 is "" */
  uint8_t kind;  /* tide_work */
  int32_t device;
  uint32_t track, lane; /* for drawing: see profiler_read.c */
} tide__span;

typedef enum tide__range_kind { TIDE__RANGE, TIDE__FREE_RANGE, TIDE__MARK, TIDE__WAIT } tide__range_kind;
typedef struct tide__ranged {
  uint64_t start, end;
  uint32_t name, thread, site; /* site: of a wait */
  tide__range_kind kind;
} tide__ranged;

typedef struct tide__profiled_stream {
  uint64_t id, handle, traced; /* traced: the tracer's number, once a span of it was seen */
  int device;
  bool is_default;
} tide__profiled_stream;

enum { TIDE__LANES = 16 };
/* What is drawn as one thread of a device's process, or as several where work overlaps. */
typedef struct tide__track {
  int device;
  int stream; /* in the list of streams, or -1: one of the tracer alone */
  uint64_t traced;
  uint32_t lanes, first; /* the number of the first lane in the file */
  uint64_t until[TIDE__LANES];
} tide__track;

typedef struct tide__link {
  uint64_t correlation, op;
} tide__link;

/* A list that grows. */
#define TIDE__LIST(type)                                                                                               \
  struct {                                                                                                             \
    type *at;                                                                                                          \
    size_t n, room;                                                                                                    \
  }

struct tide_profile {
  uint64_t number; /* of this recording; never 0 */
  const char *what;
  uint64_t begun, wall; /* nanoseconds: of the clock, and how long it was */
  uint32_t flags;
  uint32_t threads;
  int64_t lost;
  uint64_t devices; /* those that were used, as bits */
  const char *source;
  char note[256];
  TIDE__LIST(tide__profiled) op;
  TIDE__LIST(tide__span) span;
  TIDE__LIST(tide__ranged) range;
  TIDE__LIST(tide__profiled_stream) stream;
  TIDE__LIST(tide__link) link;
  TIDE__LIST(char *) name;
  TIDE__LIST(tide__track) track;
  uint32_t *name_hash; /* indexes of names, 0 is free */
  size_t name_slots;
};

/* ---- recording.c ---- */

extern _Atomic uint64_t tide__profile_on; /* the number of the recording that is under way, or 0 */
static inline bool tide__profiling(void) {
  return TIDE_UNLIKELY(atomic_load_explicit(&tide__profile_on, memory_order_relaxed) != 0);
}
uint64_t tide__profile_clock(void); /* nanoseconds of CLOCK_MONOTONIC */
/* since 0: it began before the recording. site: the line of the script, or 0. */
void tide__profile_range(tide__range_kind kind, const char *text, uint32_t site, uint64_t since, uint64_t until);
/* Begins to take what others add, or STATE; ends. */
tide_status tide__recording_begin(tide_profile **out, const char *what, uint32_t flags);
void tide__recording_end(tide_profile *p);
/* The recording of that number, with the lock held, or NULL and unlocked. */
tide_profile *tide__profile_lock(uint64_t number);
void tide__profile_unlock(void);
/* With the lock held: a place at the end of a list, zeroed; NULL without memory, which counts as lost. */
void *tide__profile_add(tide_profile *p, void *list, size_t item);
#define TIDE__ADD(p, list) tide__profile_add((p), &(p)->list, sizeof *(p)->list.at)
uint32_t tide__profile_name(tide_profile *p, const char *text);
uint32_t tide__profile_thread(tide_profile *p); /* with the lock held: the number of the calling thread */
/* A time of the clock as one of the recording. */
static inline uint64_t tide__profile_since(const tide_profile *p, uint64_t time) {
  return time > p->begun ? time - p->begun : 0;
}

/* ---- profiler_device.c: when devices did what ---- */

/* Before and after an operation of a device's stream is queued. `op` counts from 1. */
void tide__profile_device_begin(uint64_t number, uint64_t op, tide_stream *stream);
void tide__profile_device_end(uint64_t number, uint64_t op, tide_stream *stream, bool queued);
void tide__profile_device_open(uint64_t number, uint32_t flags); /* a recording begins */
void tide__profile_device_close(uint64_t devices, bool wait);    /* it ends */

/* ---- profiler_read.c ---- */

void tide__profile_finish(tide_profile *p); /* joins spans and operations, sorts, finds the tracks */
/* "add", "copy to the host", or what the device calls it; into the buffer if need be. */
const char *tide__span_title(const tide_profile *p, const tide__span *s, char *text, size_t size);

/* ---- nvtx.c ---- */

/* Records the open ranges of the calling thread, or those of no thread, up to now. */
void tide__nvtx_flush(void);
void tide__nvtx_flush_free(void);
