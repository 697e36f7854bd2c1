/* graph.h: what core's files share about graphs and captures. Private. See graph.c for the design. */
#ifndef TIDE_CORE_GRAPH_H
#define TIDE_CORE_GRAPH_H

#include "tensor/tensor.h"

/* A generator that captured work draws from. */
typedef struct tide__draws {
  struct tide__draws *next;
  tide_generator *generator; /* retained */
  tide_storage *state;       /* {seed, offset} in the device's memory, written before each replay; NULL before use */
  uint64_t calls;            /* of one replay */
  uint64_t seed, offset;     /* where the last replay began */
} tide__draws;

/* What one capture recorded, and everything that it needs to run. */
typedef struct tide__recording {
  struct tide__recording *prev, *next; /* all of them, for the shutdown */
  int device;
  uint64_t capture;   /* the number of the capture */
  void *graph, *exec; /* the backend's */
  tide_stream *last;  /* of the last replay, at first of the capture; retained */
  tide_storage **held;
  size_t count, room; /* of `held` */
  bool external;      /* some of them are another API's, and used by turns */
  tide__draws *draws;
  tide_mempool *pool;
  tide__deferred_free deferred;
} tide__recording;

struct tide_graph {
  tide__capture capture; /* the first member: what streams know of it */
  _Atomic int64_t refs;
  uint32_t epoch;
  tide_quota *quota; /* in which it counts, or NULL */
  bool keep, debug;
  tide__recording *recording; /* NULL: the graph is empty */
  tide__replays *replays;
};

/* ---- graph.c ---- */

tide_status tide__recording_new(tide__recording **out, int device, tide_mempool *pool);
/* Lets it go when its last replay is done. From a finaliser: touches no driver. */
void tide__recording_retire(tide__recording *recording, bool from_finaliser);
void tide__graph_shutdown(void);

/* ---- capture.c ---- */

extern const tide__capture_ops tide__graph_capture_ops;

#endif
