/* graph.h: what core's files share about graphs and captures. Private. See graph.c for the design. */
#ifndef TIDE_CORE_GRAPH_H
#define TIDE_CORE_GRAPH_H

#include "core.h"
#include "tide/graph.h"

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
  tide__draws *draws;
  tide_mempool *pool;
  tide__deferred_free deferred;
} tide__recording;

/* Counts the replays of a graph for the storages that it writes, which may outlive it. */
typedef struct tide__replays {
  _Atomic int64_t refs;
  _Atomic uint16_t now; /* never 0 */
  _Atomic bool watched;
} tide__replays;

struct tide_graph {
  _Atomic int64_t refs;
  uint32_t epoch;
  bool keep, debug;
  tide__recording *recording; /* NULL: the graph is empty */
  tide__replays *replays;
  /* While a capture is under way: */
  bool capturing;
  int mode;
  uint64_t id;           /* of this capture; 0: there was none */
  tide_stream **streams; /* those that are captured, retained; the first is where it began */
  int count, room;       /* of `streams` */
  char stopped[320];     /* what ended the capture before its time, "" for nothing */
};

/* ---- graph.c ---- */

tide_status tide__recording_new(tide__recording **out, int device, tide_mempool *pool);
/* Lets it go when its last replay is done. From a finaliser: touches no driver. */
void tide__recording_retire(tide__recording *recording, bool from_finaliser);
void tide__replays_drop(tide__replays *replays); /* NULL is allowed */
/* STATE when x is a handle of tide_graph_output whose values a later replay has overwritten. */
tide_status tide__replay_check_slow(const tide_tensor *x, const char *what);
static inline tide_status tide__replay_check(const tide_tensor *x, const char *what) {
  return __builtin_expect(x->replay != 0, 0) ? tide__replay_check_slow(x, what) : TIDE_OK;
}
void tide__graph_shutdown(void);

/* ---- capture.c ---- */

extern _Atomic int tide__captures; /* those under way, on any thread; one begins under tide__capture_lock */

/* STATE, after ending the capture of this thread, if there is one that `what` may not happen in. */
tide_status tide__capture_refuse(const char *what);
static inline tide_status tide__capture_check(const char *what) {
  return tide__sync_watched() ? tide__capture_refuse(what) : TIDE_OK;
}
/* Likewise, if that concerns the stream; another thread's capture of it goes on. */
tide_status tide__capture_stream(const tide_stream *stream, const char *what);
/* Likewise, if the stream is the legacy one. */
tide_status tide__capture_legacy(const tide_stream *stream, const char *what);
/* May `stream` wait for a point that was recorded in the capture `captured`, 0 for none? Lets it join that capture. */
tide_status tide__capture_wait(tide_stream *stream, uint64_t captured, const char *what);
/* STATE if an event was recorded in a capture: it never passes. */
tide_status tide__capture_event(uint64_t captured, const char *what);
static inline uint64_t tide__capture_id(const tide_stream *stream) {
  const tide_graph *graph = stream->capture;
  return graph ? graph->id : 0;
}
/* The storage is made by work of the captured stream: it belongs to the capture's pool. */
void tide__capture_made(tide_storage *s, const tide_stream *stream);
/* Makes the graph hold a storage that captured work uses; false if it was made in this very capture. */
bool tide__capture_holds(tide_storage *s, tide_stream *stream);
tide_status tide__capture_draw(tide__draw *out, tide_generator *g, tide_stream *stream);
void tide__capture_undraw(const tide__draw *draw, tide_generator *g, tide_stream *stream); /* the last one alone */
bool tide__generator_same(const tide_generator *g, const tide_generator *other); /* at one place? In generator.c. */
/* Where memory for a captured stream comes from. */
tide_mempool *tide__capture_pool(const tide_graph *graph);
/* Ends what the calling thread captures: no wait is allowed before. */
void tide__capture_shutdown(void);
/* While it is held no capture begins and no stream joins one. */
void tide__capture_lock(void);
void tide__capture_unlock(void);

#endif
