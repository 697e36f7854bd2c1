/* frame_cost.h: what frames know of the time that their work takes. */
#pragma once

#include "call/bindings.h"

enum { LTIDE_SLICES = 64, LTIDE_CALLS = 16 };

/* What was queued between two events, and has not been seen to be done. */
typedef struct ltide_slice {
  tide_event *begin, *end;
  uint64_t job;         /* its number */
  const void *function; /* that was called; NULL: the slice is of a job that went on */
  double expected;      /* microseconds */
} ltide_slice;

/* A function that has yielded, and the microseconds that a slice of it takes; below 0: not known. */
typedef struct ltide_job {
  uint64_t id;
  double device, host;
  double mean, spread; /* of the host's */
  bool awaits;         /* it has yielded because a device is not as far */
  bool served;         /* it has had a turn in this frame */
} ltide_job;

typedef struct ltide_costs {
  double limit;         /* microseconds of the device that the work of a frame may take; 0: they are not counted */
  double budget;        /* and of the host */
  double behind, spent; /* what earlier frames had left at the beginning; that and what this frame has queued */
  int ran;              /* jobs that had a turn in this frame */
  uint64_t ids;         /* the last number that was given */
  /* The job that is the first of this frame, since it did not fit in the one before, and that of the next; 0: none. */
  uint64_t first_turn, next_turn;
  int first, count; /* of the slices, a ring: the oldest first */
  ltide_slice slice[LTIDE_SLICES];
  struct {
    const void *function;
    double cost;
  } call[LTIDE_CALLS]; /* of functions that the host calls */
  ltide_job *job;      /* in the order of the frame's jobs, and as many */
  int room;
} ltide_costs;

/* A new one, which lives as long as the state; may raise. */
ltide_costs *ltide_costs_new(lua_State *L);
void ltide_costs_begin(ltide_costs *t, int64_t limit, int64_t budget, int jobs);
/* May the job at this place, from 1, have a turn, with so many microseconds of the host left? */
bool ltide_costs_fits(ltide_costs *t, int turn, double left);
/* A slice of it took so many microseconds of the host. */
void ltide_costs_learn(ltide_costs *t, int turn, double host);
/* What a call of the function is expected to take on the device; below 0: not known. */
double ltide_costs_of(const ltide_costs *t, const void *function);
/* Around what may queue work on the streams that are current for a coroutine; NULL: it is not measured. The caller
 * fills in whose slice it is. */
ltide_slice *ltide_costs_open(ltide_costs *t, tide_current *current, int jobs);
void ltide_costs_close(ltide_costs *t, ltide_slice *slice, tide_current *current, double expected);
void ltide_costs_drop(ltide_slice *slice); /* instead, where nothing was queued; NULL is allowed */
/* Makes room for one more job; may raise. */
void ltide_costs_room(lua_State *L, ltide_costs *t, int jobs);
