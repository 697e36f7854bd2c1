/* capture_state.c: who captures what, and what must not happen meanwhile.
 *
 * One thread captures at most one graph at a time. The stream where the capture began is captured; another one joins
 * when it waits for a point recorded on a captured stream, as the driver has it, and stays until the end. A captured
 * stream has a number of its own, under which storages note their use: so the first use of each storage in a capture
 * takes the slow path of storage.c, and nothing is asked on the fast one.
 *
 * What the driver would refuse is refused here first, at the line of the script that asks for it, before the driver is
 * touched: that ends the capture in order, so its streams are usable again and no second error follows. How it ends,
 * what it holds and where its memory comes from is its owner's, graph/capture.c, behind the capture's operations.
 *
 * Invariants: stream->capture is set exactly while the stream is in capture->streams; only the capturing thread changes
 * either; tide__sync_watch counts every capture under way. */
#include "capture_state.h"
#include "base/own.h"
#include "observe.h"

#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic int tide__captures;

void tide__capture_lock(void) { pthread_mutex_lock(&lock); }
void tide__capture_unlock(void) { pthread_mutex_unlock(&lock); }

/* ---- the streams ---- */

/* With the lock held; there is room. */
static void add_stream(tide__capture *c, tide_stream *stream) {
  tide_stream_retain(stream);
  c->streams[c->count++] = stream;
  atomic_store_explicit(&stream->use_id, tide__stream_number(), memory_order_relaxed);
  stream->capture = c;
}

static tide_status make_room(tide__capture *c) {
  if (tide__grow(&c->streams, &c->room, c->count, sizeof *c->streams)) return TIDE_OK;
  return tide__fail(TIDE_MEMORY, "graph: no host memory for another captured stream");
}

tide_status tide__capture_start(tide__capture *c, tide_stream *stream, int mode, const tide_backend *b) {
  TIDE_TRY(make_room(c));
  TIDE_LOCKED(&lock);
  tide_status status = b->capture_begin(stream->impl, mode);
  if (status == TIDE_OK) {
    c->mode = mode, c->device = stream->device, c->on = true;
    c->stopped[0] = 0;
    tide__capturing = c;
    atomic_fetch_add(&tide__captures, 1);
    atomic_fetch_add(&tide__sync_watch, 1);
    add_stream(c, stream);
  }
  return status;
}

void tide__capture_leave(tide__capture *c) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < c->count; i++) {
    tide_stream *s = c->streams[i];
    atomic_store_explicit(&s->use_id, s->id, memory_order_relaxed);
    s->capture = NULL;
  }
  pthread_mutex_unlock(&lock);
  while (c->count) tide_stream_release(c->streams[--c->count]);
  c->on = false;
  tide__capturing = NULL;
  atomic_fetch_sub(&tide__captures, 1);
  atomic_fetch_sub(&tide__sync_watch, 1);
}

void tide__capture_free(tide__capture *c) { free(c->streams); }

void tide__capture_shutdown(void) {
  if (tide__capturing) tide__capturing->ops->abandon(tide__capturing);
}

/* ---- what must not happen ---- */

void tide__capture_stop(tide__capture *c, const char *what) {
  char where[160];
  tide__site_text(tide__site_now(), where, sizeof where);
  snprintf(c->stopped, sizeof c->stopped, "%s%s%s", what, where[0] ? " at " : "", where);
  c->ops->abandon(c);
}

/* In relaxed mode what happens elsewhere is the caller's business. */
static bool concerned(const tide__capture *c) {
  tide_stream *current;
  if (c->mode != TIDE_CAPTURE_RELAXED) return true;
  return tide__stream_current(&current, c->device) == TIDE_OK && current->capture == c;
}

tide_status tide__capture_refuse(const char *what) {
  if (!tide__capturing || !concerned(tide__capturing)) return TIDE_OK;
  tide__capture_stop(tide__capturing, what);
  return tide__fail(TIDE_STATE,
                    "%s: not allowed while a graph is captured, because nothing is executed then; the capture has "
                    "ended, expected this before or after it",
                    what);
}

tide_status tide__capture_stream(const tide_stream *stream, const char *what) {
  TIDE_TRY(tide__capture_check(what));
  if (!stream->capture) return TIDE_OK;
  if (stream->capture == tide__capturing) tide__capture_stop(tide__capturing, what);
  return tide__fail(TIDE_STATE, "%s: the stream is being captured, expected this before or after it", what);
}

tide_status tide__capture_legacy(const tide_stream *stream, const char *what) {
  if (!tide__capturing || !tide__stream_legacy(stream)) return TIDE_OK;
  tide__capture_stop(tide__capturing, what);
  return tide__fail(TIDE_STATE,
                    "%s: the legacy stream waits for all others, got it while a graph is captured; the capture has "
                    "ended, expected another stream",
                    what);
}

static tide_status join(tide__capture *c, tide_stream *stream, const char *what) {
  TIDE_TRY(tide__capture_legacy(stream, what));
  TIDE_TRY(make_room(c));
  TIDE_LOCKED(&lock);
  add_stream(c, stream);
  return TIDE_OK;
}

tide_status tide__capture_wait(tide_stream *stream, uint64_t captured, const char *what) {
  tide__capture *c = stream->capture;
  if (c && c->id == captured) return TIDE_OK;
  if (c && c != tide__capturing)
    return tide__fail(TIDE_STATE, "%s: another thread captures the stream, expected a stream of this thread", what);
  if (!c && captured == 0) return TIDE_OK;
  if (!c && tide__capturing && tide__capturing->id == captured) return join(tide__capturing, stream, what);
  if (!c)
    return tide__fail(TIDE_STATE,
                      "%s: waits for a point of a capture that has ended or is another thread's, which never passes; "
                      "expected an event that was recorded outside captures, or again",
                      what);
  tide__capture_stop(c, what);
  return tide__fail(TIDE_STATE,
                    "%s: a captured stream would wait for work outside its capture; the capture has ended, expected "
                    "the wait before it, or the other stream to join first by waiting for the captured one",
                    what);
}

tide_status tide__capture_event(uint64_t captured, const char *what) {
  TIDE_TRY(tide__capture_check(what));
  if (!captured) return TIDE_OK;
  return tide__fail(TIDE_STATE,
                    "%s: the event was recorded in a capture, where it only orders streams, expected one recorded "
                    "outside",
                    what);
}

/* ---- what captured work uses ---- */

bool tide__capture_holds(tide_storage *s, tide_stream *stream) {
  tide__capture *c = stream->capture;
  return c && c == tide__capturing && c->ops->holds(c, s); /* else another thread uses a stream that is not its own */
}

tide_mempool *tide__capture_pool(const tide_stream *stream) {
  const tide__capture *c = stream->capture;
  return c ? c->ops->pool(c) : NULL;
}

tide_status tide__capture_draw(struct tide__draw *out, tide_generator *g, tide_stream *stream) {
  tide__capture *c = stream->capture;
  if (c && c == tide__capturing) return c->ops->draw(out, c, g, stream);
  return tide__fail(TIDE_STATE, "random: another thread captures the stream, expected a stream of this thread");
}

void tide__capture_undraw(const struct tide__draw *draw, tide_generator *g, tide_stream *stream) {
  tide__capture *c = stream->capture;
  if (c && c == tide__capturing) c->ops->undraw(draw, c, g);
}

/* ---- what is recorded ---- */

void tide__capture_touches(tide__operation *op) {
  if (tide__capturing && op->stream->capture == tide__capturing) tide__capturing->ops->touches(tide__capturing, op);
}

void tide__capture_launching(const tide__operation *op) {
  if (tide__capturing && op->stream->capture == tide__capturing) tide__capturing->ops->launching(tide__capturing, op);
}

void tide__capture_launched(tide_status status) {
  if (tide__capturing) tide__capturing->ops->launched(tide__capturing, status);
}

/* ---- what is recorded counts ---- */

tide_status tide__capture_counted(tide__capture *capture) {
  tide_quota *quota = capture->quota;
  if (capture->launches % TIDE__NODES == 0) {
    TIDE_TRY(tide__quota_take_object(&quota, TIDE__NODES * TIDE__NODE_COST));
    if (capture->launches && quota != capture->quota) { /* the host's, in a script's capture */
      tide__quota_give_object(quota, TIDE__NODES * TIDE__NODE_COST);
      return TIDE_OK;
    }
  }
  capture->quota = quota;
  capture->launches++;
  return TIDE_OK;
}
