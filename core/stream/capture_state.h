/* capture_state.h: what streams know of captures: who captures what, and what must not happen meanwhile. Private to
 * core. What a capture records is graph/'s. */
#pragma once

#include "handle.h"
#include "tide/graph.h"

typedef struct tide__capture tide__capture;
struct tide__draw; /* of generators */
struct tide__operation;

/* What the owner of a capture does for the rooms below it; always on the capturing thread, but for `pool`. */
typedef struct tide__capture_ops {
  void (*abandon)(tide__capture *capture); /* ends it in the backend and here, drops what it recorded */
  bool (*holds)(tide__capture *capture, tide_storage *s);
  tide_mempool *(*pool)(const tide__capture *capture);
  tide_status (*draw)(struct tide__draw *out, tide__capture *capture, tide_generator *g, tide_stream *stream);
  void (*undraw)(const struct tide__draw *draw, tide__capture *capture, tide_generator *g);
  /* Of what is recorded: which inputs it touches, before anybody is asked whether it may be; that it is about to
   * be; the result. */
  void (*touches)(tide__capture *capture, struct tide__operation *op);
  void (*launching)(tide__capture *capture, const struct tide__operation *op);
  void (*launched)(tide__capture *capture, tide_status status);
} tide__capture_ops;

/* A capture into a graph, whose first member it is. */
struct tide__capture {
  const tide__capture_ops *ops;
  bool on; /* under way */
  int mode, device;
  uint64_t id;              /* a number of its own; 0: there was none yet */
  tide_stream **streams;    /* the captured ones, retained; the first is where it began */
  int count, room;          /* of `streams` */
  int64_t launches;         /* operations that were recorded while there were quotas */
  struct tide_quota *quota; /* that they count in, or NULL */
  char stopped[320];        /* what ended it before its time, "" for nothing */
};

extern _Atomic int tide__captures; /* those under way, on any thread; one begins under tide__capture_lock */

/* Begins: the backend captures the stream from now on, on behalf of this thread. */
tide_status tide__capture_start(tide__capture *capture, tide_stream *stream, int mode, const tide_backend *backend);
/* It is over, with or without success: the streams are usable again. */
void tide__capture_leave(tide__capture *capture);
void tide__capture_free(tide__capture *capture);     /* what the struct holds */
extern _Thread_local tide__capture *tide__capturing; /* what this thread captures, or NULL */
/* Ends the capture, which is this thread's, because of `what`; the caller says why. */
void tide__capture_stop(tide__capture *capture, const char *what);

/* STATE, after ending the capture of this thread, if there is one that `what` may not happen in. */
tide_status tide__capture_refuse(const char *what);
static inline tide_status tide__capture_check(const char *what) {
  return tide__sync_watched() ? tide__capture_refuse(what) : TIDE_OK;
}
/* The same, if that concerns the stream; another thread's capture of it goes on. */
tide_status tide__capture_stream(const tide_stream *stream, const char *what);
/* The same, if the stream is the legacy one. */
tide_status tide__capture_legacy(const tide_stream *stream, const char *what);
/* May `stream` wait for a point that was recorded in the capture `captured`, 0 for none? Lets it join that capture. */
tide_status tide__capture_wait(tide_stream *stream, uint64_t captured, const char *what);
/* STATE if an event was recorded in a capture: it never passes. */
tide_status tide__capture_event(uint64_t captured, const char *what);
static inline uint64_t tide__capture_id(const tide_stream *stream) {
  const tide__capture *capture = stream->capture;
  return capture ? capture->id : 0;
}
/* Makes the graph hold a storage that captured work uses; false if it was made in this very capture. */
bool tide__capture_holds(tide_storage *s, tide_stream *stream);
tide_status tide__capture_draw(struct tide__draw *out, tide_generator *g, tide_stream *stream);
void tide__capture_undraw(const struct tide__draw *draw, tide_generator *g, tide_stream *stream); /* the last one */
/* Of an operation on a captured stream; the last one also of others. */
void tide__capture_touches(struct tide__operation *op);
void tide__capture_launching(const struct tide__operation *op);
void tide__capture_launched(tide_status status);
/* Where memory for a captured stream comes from; NULL: not from the capture's pool. */
tide_mempool *tide__capture_pool(const tide_stream *stream);
/* One more operation is recorded by this thread, with a quota: QUOTA where there is no room for it. */
tide_status tide__capture_counted(tide__capture *capture);
/* Ends what the calling thread captures: no wait is allowed before. */
void tide__capture_shutdown(void);
/* While it is held no capture begins and no stream joins one. */
void tide__capture_lock(void);
void tide__capture_unlock(void);
