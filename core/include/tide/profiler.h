/* tide/profiler.h: seeing what a program does with its time: ranges for profilers of other makers (NVTX), and a
 * recording of our own, which ends as a file for a timeline or as a table. */
#ifndef TIDE_PROFILER_H
#define TIDE_PROFILER_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* ---- ranges ----
 * They are reported to a profiler that takes NVTX ranges (it names its library in NVTX_INJECTION64_PATH) and to a
 * recording that is under way; without either they cost next to nothing. Texts are copied. */

TIDE_API bool tide_nvtx_available(void);        /* does a profiler listen? Looks for one at the first call of any */
TIDE_API void tide_nvtx_mark(const char *text); /* one moment */
/* Nested ranges of the calling thread: the depth, from 0, of the range that begins or ends; -1: there is none. */
TIDE_API int tide_nvtx_range_push(const char *text);
TIDE_API int tide_nvtx_range_pop(void);
/* The same by a number, for scopes: the range ends although others above it are still open, which go on. */
TIDE_API uint64_t tide_nvtx_scope_enter(const char *text);
TIDE_API void tide_nvtx_scope_leave(uint64_t scope); /* one that has ended, or of another thread, is nothing */
/* A range that may end on any thread and overlap others; 0 without memory. */
TIDE_API uint64_t tide_nvtx_range_start(const char *text);
TIDE_API tide_status tide_nvtx_range_end(uint64_t id); /* VALUE if no such range is open */

/* Tells a profiler of another maker, one that waits for it, to begin or to end its collection (cudaProfilerStart,
 * Stop). Nothing happens on simulated devices and without any device. */
TIDE_API tide_status tide_profiler_control(bool start);

/* ---- recordings ---- */

/* What was recorded. It does not change any more and belongs to the caller. */
typedef struct tide_profile tide_profile;

enum { TIDE_PROFILE_EVENTS = 1 }; /* measure the devices by events even where they can be traced */
/* Records every operation of the process from now on; `what` (a literal) names the caller in errors. One recording at a
 * time: STATE for a second one. */
TIDE_API tide_status tide_profile_begin(const char *what, uint32_t flags);
TIDE_API bool tide_profile_is_recording(void);
/* Waits for the devices that were used and ends it. A failure of their work is not reported here. */
TIDE_API tide_status tide_profile_end(tide_profile **out);
/* Waits for all devices, so that a failure of their work is reported; not while anything is captured, which that would
 * break. */
TIDE_API tide_status tide_profile_wait(void);
TIDE_API void tide_profile_free(tide_profile *p); /* NULL is allowed */

/* Can a file of that name be written? An existing one is left as it is, and none is left where there was none. */
TIDE_API tide_status tide_profile_check_path(const char *path);
/* Chrome's trace-event JSON, which Perfetto and chrome://tracing open. */
TIDE_API tide_status tide_profile_write(const tide_profile *p, const char *path);

/* One row: what one line, op and kernel took on one device (TIDE_CPU: on the host itself). */
typedef struct tide_profile_row {
  char line[192];         /* "a.lua:3"; empty if unknown */
  const char *op;         /* "add", "copy to the host"; empty for work that no operation of ours queued */
  char kernel[96];        /* as the device calls it, without its result and parameters; empty if it is not known */
  const char *raw_kernel; /* whole; valid as long as the profile */
  int device;
  int64_t calls;
  double total_ms, min_ms, max_ms; /* on the device */
  double host_ms;                  /* what queueing it took on the host */
  double percent;                  /* of the time of all rows of that device */
  int64_t bytes;                   /* of operands or of copies; 0: not known */
} tide_profile_row;
/* Sorted by total_ms, largest first: malloc'ed, to be given to free(). */
TIDE_API tide_status tide_profile_rows(tide_profile_row **out, int64_t *count, const tide_profile *p);

/* Of one direction of copies: to a device, from a device to the host, and between or within devices. */
typedef struct tide_profile_copies {
  int64_t calls, bytes;
  double ms;
} tide_profile_copies;

typedef struct tide_profile_device {
  bool used;
  double busy_ms, kernel_ms, copy_ms; /* time while something, a kernel, a copy ran: overlaps count once */
} tide_profile_device;

typedef struct tide_profile_totals {
  double wall_ms;            /* from the beginning to the end of all work */
  double host_ms;            /* of it, what operations took on the host, all threads together */
  double wait_ms;            /* what it took in functions that waited for a device */
  int64_t operations, spans; /* recorded on the host, on the devices */
  int64_t lost;              /* what could not be recorded or measured */
  const char *source;        /* where device times come from: "cupti", "sim", "events"; "" without a device */
  const char *note;          /* why it is not better, or empty */
  tide_profile_copies to_device, to_host, between;
  tide_profile_device device[TIDE_MAX_DEVICES];
} tide_profile_totals;
TIDE_API void tide_profile_totals_get(tide_profile_totals *out, const tide_profile *p);

TIDE_C_END
#endif
