/* tide/sanitizer.h: finding operations of different streams that touch the same bytes and that nothing orders.
 *
 * While it is on, every operation is looked at before it is queued: two accesses of the same bytes, one of them a
 * write, must be ordered by a wait that the program asked for. It judges by these waits alone, not by what happened to
 * finish first, so the same program is judged alike on every run and every device. All threads of the program count as
 * one host. */
#ifndef TIDE_SANITIZER_H
#define TIDE_SANITIZER_H

#include "tide/tide.h"

TIDE_C_BEGIN

typedef enum tide_sanitizer_action {
  TIDE_SANITIZER_ERROR, /* the operation fails with STATE before it does anything */
  TIDE_SANITIZER_WARN   /* a warning, once for each pair of lines, and the operation goes on */
} tide_sanitizer_action;

/* On, for the process, from this operation on; forgets the races that were found before. On already: with another
 * action. TIDE_CUDA_SANITIZER=1 in the environment does this at tide_init, `warn` with the other action. */
TIDE_API tide_status tide_sanitizer_enable(tide_sanitizer_action action);
TIDE_API void tide_sanitizer_disable(void); /* the races that were found stay */
TIDE_API bool tide_sanitizer_is_enabled(void);

/* One of the two operations of a race. */
typedef struct tide_race_access {
  const char *op;   /* "sum"; always valid */
  char line[160];   /* the script line that queued it, "a.lua:3"; "" if unknown */
  char replay[160]; /* of a graph's work: the line that replayed it; else "" */
  int device;       /* TIDE_CPU: the host itself did it */
  uint64_t stream;  /* the driver's handle */
  bool is_default;  /* it is the device's default stream */
  bool write;       /* else it reads */
  bool freed;       /* of the earlier one: its tensor is gone, and the memory serves the later one's */
} tide_race_access;

typedef struct tide_race {
  tide_race_access earlier, later; /* in the program's order */
  int64_t first, last;             /* the bytes [first, last) of the storage: both touch some of them */
  char edge[640];                  /* the wait that is missing, for people */
  char message[1760];              /* all of it in one sentence */
  int64_t count;                   /* how often it was found */
} tide_race;

/* The races that were found since the last tide_sanitizer_enable: how many different ones are listed, the first 512 of
 * them, by op and line; the i-th of them (false: there is none); and how often any was found, repeated ones too. */
TIDE_API int tide_sanitizer_errors(void);
TIDE_API bool tide_sanitizer_error(tide_race *out, int i);
TIDE_API int64_t tide_sanitizer_count(void);

/* The race behind the calling thread's last error; false if that is of another sort. */
TIDE_API bool tide_error_race(tide_race *out);

TIDE_C_END
#endif
