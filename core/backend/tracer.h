/* tracer.h: what a backend offers that can tell when its devices did what. Part of the backend's table. */
#pragma once

#include "tide/tide.h"

typedef enum tide_work {
  TIDE_WORK_KERNEL,
  TIDE_WORK_COPY_IN,
  TIDE_WORK_COPY_OUT,
  TIDE_WORK_COPY_BETWEEN, /* devices, or within one */
  TIDE_WORK_FILL,
  TIDE_WORK_GRAPH, /* a whole replay, where its parts are not told */
  TIDE_WORK_SLEEP
} tide_work;

/* A piece of work that a device has done. */
typedef struct tide_activity {
  tide_work kind;
  int device;
  uint64_t correlation; /* the call that queued it, see `link`; 0: not known */
  uint64_t stream;      /* a number of the tracer's own, never 0 */
  uint64_t start, end;  /* nanoseconds of CLOCK_MONOTONIC */
  uint64_t bytes;       /* of a copy or fill */
  const char *name;     /* of a kernel, readable; valid during the call */
} tide_activity;

/* Where a tracer delivers, on any thread, until stop returns. */
typedef struct tide_tracer_sink {
  void (*activity)(const tide_activity *a);
  void (*link)(uint64_t correlation, uint64_t op); /* that call was made between begin(op) and end() */
  void (*lost)(uint64_t count);
} tide_tracer_sink;

typedef struct tide_tracer {
  const char *name;
  tide_status (*start)(const tide_tracer_sink *sink); /* LIBRARY or SUPPORT where it cannot */
  void (*begin)(uint64_t op);                         /* what this thread queues from now on belongs to op */
  void (*end)(void);
  void (*stop)(void); /* delivers what is left; the devices have been waited for */
  /* Tells profilers of other makers to begin or to end their collection. */
  tide_status (*control)(bool start);
} tide_tracer;
