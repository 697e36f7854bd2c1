/* cupti.c: when the devices did what, told by NVIDIA's tracing library (CUPTI), which is opened at the first recording.
 *
 * It delivers records of kernels, copies and fills; each names the call of the runtime or the driver that queued it,
 * and for calls made while a number of ours is pushed it says that number too. Times are put on CLOCK_MONOTONIC by the
 * library itself, which asks us for the time. Names of kernels are demangled here.
 *
 * The heads of the records that are needed are declared here, so no header of it is needed to build; where there is
 * one, the compiler compares. Newer libraries only add fields behind those. One that another profiler keeps busy
 * refuses to start, and then the recording measures by events.
 *
 * Invariant: `sink` is set from start to stop; records that come later are dropped. */
#include "internal.h"
#include "os/os.h"

#include <cuda_profiler_api.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_include)
#  if __has_include(<cupti.h>)
#    include <cupti.h>
#    define HAVE_CUPTI_H 1
#  endif
#endif

/* ---- its binary interface ---- */

enum { COPY = 1, FILL = 2, DRIVER = 4, RUNTIME = 5, KERNEL_RECORD = 10, PEER_COPY = 22, LINK = 39 };
enum { TO_DEVICE = 1, TO_HOST = 2 };
enum { OK = 0, CUSTOM = 3, FORCED = 1 };
enum { BUFFER = 2 << 20, ALIGNMENT = 8 };

#define RECORD __attribute__((__packed__)) __attribute__((aligned(8)))

typedef struct RECORD any_record {
  uint32_t kind;
} any_record;
typedef struct RECORD kernel_record {
  uint32_t kind;
  uint8_t cache, shared_config;
  uint16_t registers;
  uint32_t global_cache[2];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3], shared[2];
  uint32_t local[2], correlation;
  int64_t grid_id;
  const char *name;
} kernel_record;
typedef struct RECORD copy_record {
  uint32_t kind;
  uint8_t direction, from, to, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
} copy_record;
typedef struct RECORD peer_record {
  uint32_t kind;
  uint8_t direction, from, to, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, from_device, from_context, to_device, to_context, correlation;
} peer_record;
typedef struct RECORD fill_record {
  uint32_t kind, value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
} fill_record;
typedef struct RECORD link_record {
  uint32_t kind, external_kind;
  uint64_t external;
  uint32_t correlation;
} link_record;

#ifdef HAVE_CUPTI_H
#  define SAME(ours, field, theirs, name)                                                                              \
    _Static_assert(offsetof(ours, field) == offsetof(theirs, name), "cupti.c: a record has another layout")
SAME(kernel_record, start, CUpti_ActivityKernel9, start);
SAME(kernel_record, device, CUpti_ActivityKernel9, deviceId);
SAME(kernel_record, correlation, CUpti_ActivityKernel9, correlationId);
SAME(kernel_record, name, CUpti_ActivityKernel9, name);
SAME(copy_record, direction, CUpti_ActivityMemcpy5, copyKind);
SAME(copy_record, bytes, CUpti_ActivityMemcpy5, bytes);
SAME(copy_record, correlation, CUpti_ActivityMemcpy5, correlationId);
SAME(peer_record, stream, CUpti_ActivityMemcpyPtoP4, streamId);
SAME(peer_record, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
SAME(fill_record, start, CUpti_ActivityMemset4, start);
SAME(fill_record, correlation, CUpti_ActivityMemset4, correlationId);
SAME(link_record, external, CUpti_ActivityExternalCorrelation, externalId);
SAME(link_record, correlation, CUpti_ActivityExternalCorrelation, correlationId);
#endif

static tide__cupti cupti;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char problem[512];
static const int kinds[] = {KERNEL_RECORD, COPY, PEER_COPY, FILL, LINK, RUNTIME, DRIVER};
enum { KINDS = (int)(sizeof kinds / sizeof *kinds) };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the names, and of one delivery at a time */
static tide_tracer_sink sink;
static bool delivering;

/* ---- names ---- */

extern char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);

/* The library keeps one copy of each name, so its address stands for it while a recording lasts. */
enum { NAMES = 1024 };
static struct {
  const char *mangled;
  char *readable;
} names[NAMES];

static const char *readable(const char *mangled) {
  if (!mangled) return "";
  size_t at = ((uintptr_t)mangled >> 3) % NAMES;
  if (names[at].mangled != mangled) {
    int status = 0;
    free(names[at].readable);
    names[at].mangled = mangled, names[at].readable = __cxa_demangle(mangled, NULL, NULL, &status);
  }
  return names[at].readable ? names[at].readable : mangled;
}

static void forget_names(void) {
  for (int i = 0; i < NAMES; i++) free(names[i].readable);
  memset(names, 0, sizeof names);
}

/* ---- records ---- */

static uint64_t stream_number(uint32_t context, uint32_t stream) { return (uint64_t)context << 32 | stream; }

static void deliver(tide_activity a) {
  if (a.end)
    sink.activity(&a);
  else
    sink.lost(1); /* it had not run to its end when it was asked for */
}

static void take_kernel(const kernel_record *r) {
  deliver((tide_activity){TIDE_WORK_KERNEL, (int)r->device, r->correlation, stream_number(r->context, r->stream),
                          r->start, r->end, 0, readable(r->name)});
}

static void take_copy(const copy_record *r) {
  tide_work work = r->direction == TO_DEVICE ? TIDE_WORK_COPY_IN
                   : r->direction == TO_HOST ? TIDE_WORK_COPY_OUT
                                             : TIDE_WORK_COPY_BETWEEN;
  deliver((tide_activity){work, (int)r->device, r->correlation, stream_number(r->context, r->stream), r->start, r->end,
                          r->bytes, ""});
}

static void take_peer(const peer_record *r) {
  deliver((tide_activity){TIDE_WORK_COPY_BETWEEN, (int)r->device, r->correlation, stream_number(r->context, r->stream),
                          r->start, r->end, r->bytes, ""});
}

static void take_fill(const fill_record *r) {
  deliver((tide_activity){TIDE_WORK_FILL, (int)r->device, r->correlation, stream_number(r->context, r->stream),
                          r->start, r->end, r->bytes, ""});
}

static void take_link(const link_record *r) {
  if (r->external_kind == CUSTOM) sink.link(r->correlation, r->external);
}

static void take(const any_record *r) {
  if (r->kind == KERNEL_RECORD) take_kernel((const kernel_record *)r);
  if (r->kind == COPY) take_copy((const copy_record *)r);
  if (r->kind == PEER_COPY) take_peer((const peer_record *)r);
  if (r->kind == FILL) take_fill((const fill_record *)r);
  if (r->kind == LINK) take_link((const link_record *)r);
}

static void request(uint8_t **buffer, size_t *bytes, size_t *records) {
  *buffer = aligned_alloc(ALIGNMENT, BUFFER);
  *bytes = *buffer ? BUFFER : 0;
  *records = 0; /* as many as there is room for */
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  void *r = NULL;
  size_t dropped = 0;
  pthread_mutex_lock(&lock);
  while (delivering && valid && cupti.next(buffer, valid, &r) == OK) take(r);
  if (delivering && cupti.dropped(context, stream, &dropped) == OK && dropped) sink.lost(dropped);
  pthread_mutex_unlock(&lock);
  free(buffer);
}

static uint64_t now(void) { return (uint64_t)tide__os_ns(); }

/* ---- starting and stopping ---- */

static void open_library(void) { tide__library_open(&cupti, TIDE__LIBRARY_cupti, problem, sizeof problem); }

static tide_status refuse(int rc) {
  const char *text = NULL;
  if (cupti.error_string(rc, &text) != OK || !text) text = "an unknown error";
  return tide__cuda_host->fail(TIDE_SUPPORT, "profiler: CUPTI cannot trace now, got: %s", text);
}

static void set_delivering(bool on) {
  pthread_mutex_lock(&lock);
  delivering = on;
  if (!on) forget_names();
  pthread_mutex_unlock(&lock);
}

static tide_status start(const tide_tracer_sink *to) {
  pthread_once(&once, open_library);
  if (problem[0]) return tide__cuda_host->fail(TIDE_LIBRARY, "profiler: %s", problem);
  sink = *to;
  int rc = cupti.clock(now), on = 0;
  if (rc == OK) rc = cupti.callbacks(request, complete);
  while (rc == OK && on < KINDS) {
    rc = cupti.enable(kinds[on]);
    if (rc == OK) on++;
  }
  if (rc == OK) {
    set_delivering(true);
    return TIDE_OK;
  }
  while (on > 0) cupti.disable(kinds[--on]);
  return refuse(rc);
}

static void begin(uint64_t op) { cupti.push(CUSTOM, op); }

static void end(void) {
  uint64_t last;
  cupti.pop(CUSTOM, &last);
}

static void stop(void) {
  cupti.flush(FORCED);
  for (int i = 0; i < KINDS; i++) cupti.disable(kinds[i]);
  cupti.flush(FORCED);
  set_delivering(false);
}

static tide_status control(bool on) {
  int device = tide__cuda_any_device();
  if (device < 0) return TIDE_OK; /* nothing is in use: there is nothing to collect */
  CUDA_ON(device);
  return tide__cuda_check(device, on ? "profiler.start" : "profiler.stop",
                          (int)(on ? cudaProfilerStart() : cudaProfilerStop()));
}

const tide_tracer tide__cuda_tracer = {
    .name = "cupti", .start = start, .begin = begin, .end = end, .stop = stop, .control = control};
