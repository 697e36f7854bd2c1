/* capture.c: recording a graph: beginning, ending, and what the recorded work touches.
 *
 * Which streams take part and what must not happen meanwhile is stream/capture_state.c's; this is its other half. The
 * first use of each storage in a capture comes here, where the storage is added to what the graph holds, unless it was
 * made in the capture: then it is in the graph's pool, where freed memory serves later work of the same stream, in
 * the order that every replay keeps.
 *
 * The places of generators lie outside the pool: memory of the pool that is free at some point of the capture is
 * written by work before it, in every replay.
 *
 * Invariant: only the capturing thread changes what the graph holds and draws from. */

#include "graph.h"
#include "base/own.h"

static _Thread_local bool uncaptured; /* what is allocated now is not the capture's */

static tide_graph *graph_of(const tide__capture *capture) { return (tide_graph *)capture; }

/* ---- beginning and ending ---- */

static tide_status check_begin(const tide_graph *g, tide_stream *stream, const tide_mempool *pool, int mode) {
  if (g->epoch != tide__epoch_now())
    return tide__fail(TIDE_STATE, "graph_begin: the graph belongs to a runtime that has ended or was reset");
  if ((unsigned)mode > TIDE_CAPTURE_RELAXED)
    return tide__fail(TIDE_ARGUMENT, "graph_begin: unknown mode, got %d, expected 0 to %d", mode, TIDE_CAPTURE_RELAXED);
  if (g->capture.on) return tide__fail(TIDE_STATE, "graph_begin: the capture of this graph has begun already");
  if (g->recording)
    return tide__fail(TIDE_STATE, "graph_begin: the graph holds a capture already, expected reset or a new graph");
  if (tide_thread_is_capturing())
    return tide__fail(TIDE_STATE, "graph_begin: this thread captures another graph, expected one at a time");
  TIDE_TRY(tide__stream_check(stream, "graph_begin"));
  if (stream->capture) return tide__fail(TIDE_STATE, "graph_begin: another thread captures the stream");
  if (stream->is_default)
    return tide__fail(TIDE_STATE,
                      "graph_begin: the default stream cannot be captured, because every thread may queue work there; "
                      "expected another stream to be current: cuda.graph makes one");
  if (tide__stream_legacy(stream))
    return tide__fail(TIDE_STATE, "graph_begin: the legacy stream cannot be captured, expected another stream");
  if (pool && !tide__mempool_live(pool))
    return tide__fail(TIDE_STATE, "graph_begin: the pool belongs to a runtime that has ended or was reset");
  int of = tide_mempool_device(pool);
  if (of != TIDE_ALL_DEVICES && of != stream->device)
    return tide__fail(TIDE_DEVICE, "graph_begin: the pool is of another device, got %s, expected %s",
                      tide__device_text(of), tide__device_text(stream->device));
  return TIDE_OK;
}

/* Frees what is deferred: during the capture nothing can be freed. */
static tide_status clear_up(int device) {
  tide__memory_settle();
  tide__event_reap();
  return tide__allocator_reap(device);
}

tide_status tide_graph_begin(tide_graph *g, tide_stream *stream, tide_mempool *pool, int mode) {
  const tide_backend *b;
  if (!g) return tide__fail(TIDE_ARGUMENT, "graph_begin: no graph, got NULL, expected a graph");
  if (!stream) TIDE_TRY(tide_current_stream(&stream, TIDE_CURRENT));
  TIDE_TRY(check_begin(g, stream, pool, mode));
  TIDE_TRY(tide__pending.graph(false));
  TIDE_TRY(tide__backend(&b, stream->device));
  if (!b->capture_begin)
    return tide__fail(TIDE_SUPPORT, "graph_begin: %s has no graphs", tide__device_text(stream->device));
  TIDE_TRY(clear_up(stream->device));
  tide__recording *r;
  TIDE_TRY(tide__recording_new(&r, stream->device, pool));
  g->recording = r;
  g->capture.id = r->capture = tide__stream_number();
  tide_status status = tide__capture_start(&g->capture, stream, mode, b);
  if (status == TIDE_OK) return TIDE_OK;
  g->recording = NULL;
  tide__recording_retire(r, false);
  return status;
}

/* Ends the capture in the backend and here; what it recorded is in g->recording, or, when this fails, gone. */
static tide_status finish(tide_graph *g) {
  tide__recording *r = g->recording;
  tide_stream *stream = g->capture.streams[0];
  const tide_backend *b = tide__backend_peek(r->device);
  tide_stream_retain(stream);
  tide_status status = b->capture_end(&r->graph, stream->impl);
  tide__capture_leave(&g->capture);
  r->launches = g->capture.launches, r->quota = g->capture.quota;
  g->capture.launches = 0, g->capture.quota = NULL;
  tide__scratch_listens = NULL;
  if (status == TIDE_OK) {
    r->last = stream;
    tide__inputs_captured(r);
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
  if (!g->capture.on && g->capture.stopped[0])
    return tide__fail(TIDE_STATE, "graph_end: nothing was recorded, the capture was ended by %s", g->capture.stopped);
  if (!g->capture.on)
    return tide__fail(TIDE_STATE, "graph_end: no capture is under way, expected one that was begun before");
  if (tide__capturing != &g->capture)
    return tide__fail(TIDE_STATE, "graph_end: another thread began the capture, expected that one");
  TIDE_TRY(tide__pending.graph(false));
  TIDE_TRY(finish(g));
  tide__after_wait(); /* what had to wait for the end of the capture */
  if (g->keep) return TIDE_OK;
  tide_status status = tide_graph_instantiate(g);
  tide__recording *r = g->recording;
  if (status != TIDE_OK) {
    g->recording = NULL;
    tide__recording_retire(r, false);
  } else if (!g->debug && !r->binding) { /* by the nodes of the one, those of the other are found */
    tide__backend_peek(r->device)->graph_free(r->graph);
    r->graph = NULL;
  }
  return status;
}

/* Drops what was recorded, and keeps the thread's error as it is where it can. */
void tide_graph_abort(tide_graph *g) {
  if (!g || !g->capture.on || tide__capturing != &g->capture || g->epoch != tide__epoch_now()) return;
  if (finish(g) == TIDE_OK) {
    tide__recording *r = g->recording;
    g->recording = NULL;
    tide__recording_retire(r, true);
  }
}

static void abandon(tide__capture *capture) { tide_graph_abort(graph_of(capture)); }

/* ---- what captured work uses: storages ---- */

static tide_mempool *pool_of(const tide__capture *capture) {
  return uncaptured ? NULL : graph_of(capture)->recording->pool;
}

/* Without memory for the list the capture cannot be kept: nothing would hold what it uses. */
static void lost_hold(tide__capture *capture) {
  tide__capture_stop(capture, "a lack of host memory");
  tide__log("graph: the capture was ended for want of host memory");
}

/* `capture` of a storage is the number of the capture that made it, or the complement of the holder's. */
static bool holds(tide__capture *capture, tide_storage *s) {
  tide__recording *r = graph_of(capture)->recording;
  uint64_t known = atomic_load_explicit(&s->capture, memory_order_relaxed);
  if (known == capture->id || known == ~capture->id) return known == ~capture->id;
  if (!tide__grow(&r->held, &r->room, r->count, sizeof *r->held)) return lost_hold(capture), false;
  tide_storage_retain(s);
  r->held[r->count++] = s;
  r->external |= s->external;
  atomic_store_explicit(&s->capture, ~capture->id, memory_order_relaxed);
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
  if (!g->capture.on || find_draws(g->recording, generator)) return TIDE_OK;
  return add_draws(&d, g->recording, generator);
}

static tide_status draw(tide__draw *out, tide__capture *capture, tide_generator *generator, tide_stream *stream) {
  tide__recording *r = graph_of(capture)->recording;
  tide__draws *d = find_draws(r, generator);
  if (!d) TIDE_TRY(add_draws(&d, r, generator));
  if (!d->state) {
    uncaptured = true;
    tide_status status = tide__storage_new(&d->state, 2 * sizeof *out->state, stream->device, false);
    uncaptured = false;
    if (status != TIDE_OK) return status;
  }
  *out = (tide__draw){.offset = d->calls++ * 4, .state = d->state->ptr};
  return TIDE_OK;
}

static void undraw(const tide__draw *drawn, tide__capture *capture, tide_generator *generator) {
  tide__draws *d = find_draws(graph_of(capture)->recording, generator);
  if (d && d->calls * 4 == drawn->offset + 4) d->calls--;
}

const tide__capture_ops tide__graph_capture_ops = {.abandon = abandon,
                                                   .holds = holds,
                                                   .pool = pool_of,
                                                   .draw = draw,
                                                   .undraw = undraw,
                                                   .touches = tide__inputs_touches,
                                                   .launching = tide__inputs_launching,
                                                   .launched = tide__inputs_launched};
