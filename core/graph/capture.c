/* capture.c: recording a graph: which streams take part, what they touch, and what must not happen meanwhile.
 *
 * One thread captures at most one graph at a time. The stream where the capture began is captured; another one joins
 * when it waits for a point recorded on a captured stream, as the driver has it, and stays until the end. A captured
 * stream has a number of its own, under which storages note their use: so the first use of each storage in a capture
 * takes the slow path of storage.c, and nothing is asked on the fast one. There the storage is added to what the graph
 * holds, unless it was made in the capture: then it lies in the graph's pool, where freed memory serves later work of
 * the same stream, in the order that every replay keeps.
 *
 * What the driver would refuse is refused here first, at the line of the script that asks for it, before the driver is
 * touched: that ends the capture in order, so its streams are usable again and no second error follows.
 *
 * The places of generators lie outside the pool: memory of the pool that is free at some point of the capture is
 * written by work before it, in every replay.
 *
 * Invariants: stream->capture is set exactly while the stream is in graph->streams; only the capturing thread changes
 * either; tide__sync_watch counts every capture under way. */
#include "memory/allocator.h"

#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
_Atomic int tide__captures;
static _Thread_local tide_graph *own; /* what this thread captures */
static _Thread_local bool uncaptured; /* what is allocated now is not the capture's */

void tide__capture_lock(void) { pthread_mutex_lock(&lock); }
void tide__capture_unlock(void) { pthread_mutex_unlock(&lock); }

bool tide_thread_is_capturing(void) { return own != NULL; }

tide_mempool *tide__capture_pool(const tide_graph *g) { return uncaptured ? NULL : g->recording->pool; }

/* ---- the streams ---- */

/* With the lock held; there is room. */
static void add_stream(tide_graph *g, tide_stream *stream) {
  tide_stream_retain(stream);
  g->streams[g->count++] = stream;
  atomic_store_explicit(&stream->use_id, tide__stream_number(), memory_order_relaxed);
  stream->capture = g;
}

static tide_status make_room(tide_graph *g) {
  if (g->count < g->room) return TIDE_OK;
  int room = g->room ? 2 * g->room : 8;
  tide_stream **streams = realloc(g->streams, (size_t)room * sizeof *streams);
  if (!streams) return tide__fail(TIDE_MEMORY, "graph: no host memory for another captured stream");
  g->streams = streams, g->room = room;
  return TIDE_OK;
}

/* The capture is over, whatever came of it. */
static void leave(tide_graph *g) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < g->count; i++) {
    tide_stream *s = g->streams[i];
    atomic_store_explicit(&s->use_id, s->id, memory_order_relaxed);
    s->capture = NULL;
  }
  pthread_mutex_unlock(&lock);
  while (g->count) tide_stream_release(g->streams[--g->count]);
  g->capturing = false;
  own = NULL;
  atomic_fetch_sub(&tide__captures, 1);
  atomic_fetch_sub(&tide__sync_watch, 1);
}

/* ---- beginning and ending ---- */

static tide_status check_begin(const tide_graph *g, tide_stream *stream, const tide_mempool *pool, int mode) {
  if (g->epoch != tide__epoch_now())
    return tide__fail(TIDE_STATE, "graph_begin: the graph belongs to a runtime that has ended or was reset");
  if ((unsigned)mode > TIDE_CAPTURE_RELAXED)
    return tide__fail(TIDE_ARGUMENT, "graph_begin: unknown mode, got %d, expected 0 to %d", mode, TIDE_CAPTURE_RELAXED);
  if (g->capturing) return tide__fail(TIDE_STATE, "graph_begin: the capture of this graph has begun already");
  if (g->recording)
    return tide__fail(TIDE_STATE, "graph_begin: the graph holds a capture already, expected reset or a new graph");
  if (own) return tide__fail(TIDE_STATE, "graph_begin: this thread captures another graph, expected one at a time");
  TIDE_TRY(tide__stream_check(stream, "graph_begin"));
  if (stream->capture) return tide__fail(TIDE_STATE, "graph_begin: another thread captures the stream");
  if (stream->is_default)
    return tide__fail(TIDE_STATE,
                      "graph_begin: the default stream cannot be captured, because every thread may queue work there; "
                      "expected another stream to be current");
  if (tide__stream_legacy(stream))
    return tide__fail(TIDE_STATE, "graph_begin: the legacy stream cannot be captured, expected another stream");
  if (pool && pool->epoch != tide__epoch_now())
    return tide__fail(TIDE_STATE, "graph_begin: the pool belongs to a runtime that has ended or was reset");
  int of = tide_mempool_device(pool);
  if (of != TIDE_ALL_DEVICES && of != stream->device)
    return tide__fail(TIDE_DEVICE, "graph_begin: the pool is of another device, got %s, expected %s",
                      tide__device_text(of), tide__device_text(stream->device));
  return TIDE_OK;
}

/* What waits to be let go goes now: meanwhile it cannot. */
static tide_status clear_up(int device) {
  tide__deferred_drain();
  tide__deferred_frees_poll_slow(INT64_MAX);
  tide__stream_reap();
  tide__event_reap();
  return tide__allocator_reap(device);
}

tide_status tide_graph_begin(tide_graph *g, tide_stream *stream, tide_mempool *pool, int mode) {
  const tide_backend *b;
  if (!g) return tide__fail(TIDE_ARGUMENT, "graph_begin: no graph, got NULL, expected a graph");
  if (!stream) TIDE_TRY(tide_current_stream(&stream, TIDE_CURRENT));
  TIDE_TRY(check_begin(g, stream, pool, mode));
  TIDE_TRY(tide__backend(&b, stream->device));
  if (!b->capture_begin)
    return tide__fail(TIDE_SUPPORT, "graph_begin: %s has no graphs", tide__device_text(stream->device));
  TIDE_TRY(make_room(g));
  TIDE_TRY(clear_up(stream->device));
  tide__recording *r;
  TIDE_TRY(tide__recording_new(&r, stream->device, pool));
  pthread_mutex_lock(&lock);
  tide_status status = b->capture_begin(stream->impl, mode);
  if (status == TIDE_OK) {
    g->recording = r, g->mode = mode, g->capturing = true;
    g->id = r->capture = tide__stream_number();
    g->stopped[0] = 0;
    own = g;
    atomic_fetch_add(&tide__captures, 1);
    atomic_fetch_add(&tide__sync_watch, 1);
    add_stream(g, stream);
  }
  pthread_mutex_unlock(&lock);
  if (status != TIDE_OK) tide__recording_retire(r, false);
  return status;
}

/* Ends the capture in the backend and here; what it recorded is in g->recording, or, when this fails, gone. */
static tide_status finish(tide_graph *g) {
  tide__recording *r = g->recording;
  tide_stream *stream = g->streams[0];
  const tide_backend *b = tide__backend_peek(r->device);
  tide_stream_retain(stream);
  tide_status status = b->capture_end(&r->graph, stream->impl);
  leave(g);
  if (status == TIDE_OK) {
    r->last = stream;
  } else {
    r->graph = NULL, g->recording = NULL;
    tide_stream_release(stream);
    tide__recording_retire(r, true);
  }
  return status;
}

tide_status tide_graph_end(tide_graph *g) {
  if (!g) return tide__fail(TIDE_ARGUMENT, "graph_end: no graph, got NULL, expected a graph");
  if (g->epoch != tide__epoch_now())
    return tide__fail(TIDE_STATE, "graph_end: the graph belongs to a runtime that has ended or was reset");
  if (!g->capturing && g->stopped[0])
    return tide__fail(TIDE_STATE, "graph_end: nothing was recorded, the capture was ended by %s", g->stopped);
  if (!g->capturing)
    return tide__fail(TIDE_STATE, "graph_end: no capture is under way, expected one that was begun before");
  if (own != g) return tide__fail(TIDE_STATE, "graph_end: another thread began the capture, expected that one");
  TIDE_TRY(finish(g));
  tide__after_wait(); /* what had to wait for the end of the capture */
  if (g->keep) return TIDE_OK;
  tide_status status = tide_graph_instantiate(g);
  tide__recording *r = g->recording;
  if (status != TIDE_OK) {
    g->recording = NULL;
    tide__recording_retire(r, false);
  } else if (!g->debug) {
    tide__backend_peek(r->device)->graph_free(r->graph);
    r->graph = NULL;
  }
  return status;
}

/* Drops what was recorded, and keeps the thread's error as it is where it can. */
void tide_graph_abort(tide_graph *g) {
  if (!g || !g->capturing || own != g || g->epoch != tide__epoch_now()) return;
  if (finish(g) == TIDE_OK) {
    tide__recording *r = g->recording;
    g->recording = NULL;
    tide__recording_retire(r, true);
  }
}

void tide__capture_shutdown(void) { tide_graph_abort(own); }

/* ---- what must not happen ---- */

/* Ends the capture because of `what`; the caller says why. */
static void stop(tide_graph *g, const char *what) {
  char where[160];
  tide__site_text(tide__site_now(), where, sizeof where);
  snprintf(g->stopped, sizeof g->stopped, "%s%s%s", what, where[0] ? " at " : "", where);
  tide_graph_abort(g);
}

/* In relaxed mode what happens elsewhere is the caller's business. */
static bool concerned(const tide_graph *g) {
  tide_stream *current;
  if (g->mode != TIDE_CAPTURE_RELAXED) return true;
  return tide__stream_current(&current, g->recording->device) == TIDE_OK && current->capture == g;
}

tide_status tide__capture_refuse(const char *what) {
  if (!own || !concerned(own)) return TIDE_OK;
  stop(own, what);
  return tide__fail(TIDE_STATE,
                    "%s: not allowed while a graph is captured, because nothing is executed then; the capture has "
                    "ended, expected this before or after it",
                    what);
}

tide_status tide__capture_stream(const tide_stream *stream, const char *what) {
  TIDE_TRY(tide__capture_check(what));
  if (!stream->capture) return TIDE_OK;
  if (stream->capture == own) stop(own, what);
  return tide__fail(TIDE_STATE, "%s: the stream is being captured, expected this before or after it", what);
}

tide_status tide__capture_legacy(const tide_stream *stream, const char *what) {
  if (!own || !tide__stream_legacy(stream)) return TIDE_OK;
  stop(own, what);
  return tide__fail(TIDE_STATE,
                    "%s: the legacy stream waits for all others, got it while a graph is captured; the capture has "
                    "ended, expected another stream",
                    what);
}

static tide_status join(tide_graph *g, tide_stream *stream, const char *what) {
  TIDE_TRY(tide__capture_legacy(stream, what));
  TIDE_TRY(make_room(g));
  pthread_mutex_lock(&lock);
  add_stream(g, stream);
  pthread_mutex_unlock(&lock);
  return TIDE_OK;
}

tide_status tide__capture_wait(tide_stream *stream, uint64_t captured, const char *what) {
  tide_graph *g = stream->capture;
  if (g && g->id == captured) return TIDE_OK;
  if (g && g != own)
    return tide__fail(TIDE_STATE, "%s: another thread captures the stream, expected a stream of this thread", what);
  if (!g && captured == 0) return TIDE_OK;
  if (!g && own && own->id == captured) return join(own, stream, what);
  if (!g)
    return tide__fail(TIDE_STATE,
                      "%s: waits for a point of a capture that has ended or is another thread's, which never passes; "
                      "expected an event that was recorded outside captures, or again",
                      what);
  stop(g, what);
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

/* ---- what captured work uses: storages ---- */

/* `capture` of a storage is the number of the capture that made it, or the complement of the one that holds it. */
void tide__capture_made(tide_storage *s, const tide_stream *stream) {
  atomic_store_explicit(&s->capture, tide__capture_id(stream), memory_order_relaxed);
}

/* Without memory for the list the capture cannot be kept: nothing would hold what it uses. */
static void lost_hold(tide_graph *g) {
  stop(g, "a lack of host memory");
  tide__log("graph: the capture was ended for want of host memory");
}

bool tide__capture_holds(tide_storage *s, tide_stream *stream) {
  tide_graph *g = stream->capture;
  if (g != own) return false; /* another thread uses a stream that is not its own */
  tide__recording *r = g->recording;
  uint64_t known = atomic_load_explicit(&s->capture, memory_order_relaxed);
  if (known == g->id || known == ~g->id) return known == ~g->id;
  if (r->count == r->room) {
    size_t room = r->room ? 2 * r->room : 64;
    tide_storage **held = realloc(r->held, room * sizeof *held);
    if (!held) {
      lost_hold(g);
      return false;
    }
    r->held = held, r->room = room;
  }
  tide_storage_retain(s);
  r->held[r->count++] = s;
  atomic_store_explicit(&s->capture, ~g->id, memory_order_relaxed);
  return true;
}

/* ---- generators ---- */

static tide__draws *find_draws(const tide__recording *r, const tide_generator *generator) {
  tide__draws *d = r->draws;
  while (d && !tide__generator_same(d->generator, generator)) d = d->next;
  return d;
}

static tide_status add_draws(tide__draws **out, tide__recording *r, tide_generator *generator) {
  tide__draws *d = calloc(1, sizeof *d);
  if (!d) return tide__fail(TIDE_MEMORY, "graph: no host memory for a generator");
  tide_generator_retain(generator);
  d->generator = generator;
  d->next = r->draws;
  r->draws = d;
  *out = d;
  return TIDE_OK;
}

/* Also before the capture: then nothing is drawn yet. */
tide_status tide_graph_register_generator(tide_graph *g, tide_generator *generator) {
  if (!g || !generator)
    return tide__fail(TIDE_ARGUMENT, "graph_register_generator: got NULL, expected a graph and a generator");
  if (g->epoch != tide__epoch_now())
    return tide__fail(TIDE_STATE,
                      "graph_register_generator: the graph belongs to a runtime that has ended or was reset");
  if (tide_generator_device(generator) < 0)
    return tide__fail(TIDE_DEVICE, "graph_register_generator: wrong device, got a generator of cpu, expected cuda");
  tide__draws *d;
  if (!g->capturing || find_draws(g->recording, generator)) return TIDE_OK;
  return add_draws(&d, g->recording, generator);
}

tide_status tide__capture_draw(tide__draw *out, tide_generator *generator, tide_stream *stream) {
  tide_graph *g = stream->capture;
  if (g != own)
    return tide__fail(TIDE_STATE, "random: another thread captures the stream, expected a stream of this thread");
  tide__draws *d = find_draws(g->recording, generator);
  if (!d) TIDE_TRY(add_draws(&d, g->recording, generator));
  if (!d->state) {
    uncaptured = true;
    tide_status status = tide__storage_new(&d->state, 2 * sizeof *out->state, stream->device, false);
    uncaptured = false;
    if (status != TIDE_OK) return status;
  }
  *out = (tide__draw){.offset = d->calls++ * 4, .state = d->state->ptr};
  return TIDE_OK;
}

void tide__capture_undraw(const tide__draw *draw, tide_generator *generator, tide_stream *stream) {
  const tide_graph *g = stream->capture;
  tide__draws *d = g && g == own ? find_draws(g->recording, generator) : NULL;
  if (d && d->calls * 4 == draw->offset + 4) d->calls--;
}
