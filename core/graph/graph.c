/* graph.c: graphs: what a capture has recorded, replaying it, letting it go.
 *
 * A graph is a handle; what a capture made is its recording: the backend's graph, the pool that its memory came from,
 * every other storage that its work touches, and the generators that it draws from. So a replay finds its memory in
 * place, whichever tensors the user has dropped. A replay waits for the one before it if that ran on another stream,
 * writes the generators' places into device memory, by a kernel so that nothing waits, and launches: nothing in it
 * grows with what was recorded. A freed recording waits in deferred_free.c until its last replay is done; a finaliser
 * only puts it there.
 *
 * In debug mode the handles that tide_graph_output gives carry the number of the replay whose values they stand for;
 * tensor/operand.c finds out reads through old ones.
 *
 * Invariants: a recording is held by one graph or a deferred free; what it holds is released by nobody else. A
 * graph is empty, capturing, captured (`keep`) or ready, in this order; reset makes it empty again. */

#include <limits.h>

#include "base/file.h"
#include "graph.h"
#include "os/file.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `all` */
static tide__recording *all;

/* ---- recordings ---- */

tide_status tide__recording_new(tide__recording **out, int device, tide_mempool *pool) {
  tide__recording *r = calloc(1, sizeof *r);
  if (!r) return tide__fail(TIDE_MEMORY, "graph_begin: no host memory");
  r->device = device;
  if (pool) {
    tide_mempool_retain(pool);
    r->pool = pool;
  } else {
    tide_status status = tide_mempool_new(&r->pool, TIDE_ALL_DEVICES);
    if (status != TIDE_OK) {
      free(r);
      return status;
    }
  }
  tide__mempool_recorded(r->pool);
  pthread_mutex_lock(&lock);
  r->next = all;
  if (all) all->prev = r;
  all = r;
  pthread_mutex_unlock(&lock);
  *out = r;
  return TIDE_OK;
}

/* Its last replay is done. */
static void dispose(void *arg) {
  tide__recording *r = arg;
  const tide_backend *b = tide__backend_peek(r->device);
  pthread_mutex_lock(&lock);
  if (r->prev)
    r->prev->next = r->next;
  else
    all = r->next;
  if (r->next) r->next->prev = r->prev;
  pthread_mutex_unlock(&lock);
  if (b && r->exec) b->graph_exec_free(r->exec);
  if (b && r->graph) b->graph_free(r->graph);
  tide__inputs_free(r);
  for (int i = 0; i < r->count; i++) tide_storage_release(r->held[i]);
  free(r->held);
  for (tide__draws *d = r->draws, *next; d; d = next) {
    next = d->next;
    tide_generator_release(d->generator);
    tide_storage_release(d->state);
    free(d);
  }
  tide__mempool_recorded_less(r->pool);
  tide_mempool_release(r->pool);
  tide_stream_release(r->last);
  for (int64_t n = 0; n < r->launches; n += TIDE__NODES)
    tide__quota_give_object(r->quota, TIDE__NODES * TIDE__NODE_COST);
  free(r);
}

void tide__recording_retire(tide__recording *r, bool from_finaliser) {
  if (!r) return;
  if (tide__sync_watched()) TIDE_OBSERVE(capture_gone, r->capture);
  if (r->last) tide__deferred_free_use(&r->deferred, r->last);
  if (from_finaliser || tide_thread_is_capturing())
    tide__deferred_free_later(&r->deferred, dispose, r);
  else
    tide__deferred_free_begin(&r->deferred, dispose, r);
}

/* The devices have been waited for. The deferred ones first: the rest is held by handles that outlive their runtime. */
void tide__graph_shutdown(void) {
  tide__deferred_frees_shutdown();
  while (all) dispose(all);
}

/* ---- graphs ---- */

static tide_status check(const tide_graph *g, const char *what) {
  if (!g) return tide__fail(TIDE_ARGUMENT, "%s: no graph, got NULL, expected a graph", what);
  if (g->epoch != tide__epoch_now())
    return tide__fail(TIDE_STATE, "%s: the graph belongs to a runtime that has ended or was reset", what);
  return TIDE_OK;
}

/* A graph that a capture has filled. */
tide_status tide__graph_check_captured(const tide_graph *g, const char *what) {
  TIDE_TRY(check(g, what));
  if (g->capture.on) return tide__fail(TIDE_STATE, "%s: the capture is under way, expected it to have ended", what);
  if (!g->recording) return tide__fail(TIDE_STATE, "%s: the graph is empty, expected a capture before", what);
  return TIDE_OK;
}

static _Atomic int debug_all = -1; /* -1: what the environment says */

void tide_graph_debug_all(bool enabled) { atomic_store(&debug_all, enabled); }

static bool debug_wanted(void) {
  int wanted = atomic_load(&debug_all);
  const char *text = wanted < 0 ? getenv("TIDE_GRAPH_DEBUG") : NULL;
  return wanted > 0 || (text && *text && *text != '0');
}

/* From now on every operation tells what it reads (observe.c). */
static void watch(tide__replays *replays) {
  if (!atomic_exchange(&replays->watched, true)) atomic_fetch_add(&tide__sync_watch, 1);
}

tide_status tide_graph_new(tide_graph **out, bool keep) {
  TIDE_GIVEN("graph_new", out);
  if (!tide__running()) return tide__fail(TIDE_STATE, "graph_new: tide is not started, expected tide_init first");
  tide_quota *quota;
  TIDE_TRY(tide__quota_take_object(&quota, TIDE__GRAPH_COST));
  tide_graph *g = calloc(1, sizeof *g);
  tide__replays *replays = calloc(1, sizeof *replays);
  if (!g || !replays) {
    free(g), free(replays);
    tide__quota_give_object(quota, TIDE__GRAPH_COST);
    return tide__fail(TIDE_MEMORY, "graph_new: no host memory");
  }
  g->quota = quota;
  atomic_init(&g->refs, 1);
  atomic_init(&replays->refs, 1);
  atomic_init(&replays->now, 1);
  g->epoch = tide__epoch_now();
  g->capture.ops = &tide__graph_capture_ops;
  g->keep = keep;
  g->replays = replays;
  g->debug = debug_wanted();
  if (g->debug) watch(replays);
  *out = g;
  return TIDE_OK;
}

void tide_graph_retain(tide_graph *g) {
  if (!g) return;
  tide__ref_take(&g->refs);
}

void tide_graph_release(tide_graph *g) {
  if (!g || !tide__ref_drop(&g->refs)) return;
  tide_graph_abort(g);
  if (g->epoch == tide__epoch_now()) tide__recording_retire(g->recording, true);
  tide__replays_drop(g->replays);
  tide__capture_free(&g->capture);
  tide__quota_give_object(g->quota, TIDE__GRAPH_COST);
  free(g);
}

tide_status tide_graph_reset(tide_graph *g) {
  TIDE_TRY(check(g, "graph_reset"));
  tide_graph_abort(g);
  tide__recording *r = g->recording;
  g->recording = NULL;
  g->capture.stopped[0] = 0;
  tide__recording_retire(r, false);
  return TIDE_OK;
}

tide_status tide_graph_pool(tide_mempool **out, const tide_graph *g) {
  TIDE_TRY(tide__graph_check_captured(g, "graph_pool"));
  *out = g->recording->pool;
  return TIDE_OK;
}

int tide_graph_device(const tide_graph *g) {
  if (!g) return TIDE_CPU;
  return g->epoch == tide__epoch_now() && g->recording ? g->recording->device : TIDE_CPU;
}

bool tide_graph_is_capturing(const tide_graph *g) { return g && g->epoch == tide__epoch_now() && g->capture.on; }

tide_status tide_graph_enable_debug(tide_graph *g) {
  TIDE_TRY(check(g, "graph_enable_debug"));
  g->debug = true;
  watch(g->replays);
  return TIDE_OK;
}

/* The driver does not say whether it could write all: the text of a graph ends with a line that is a bracket alone. */
static bool dump_is_whole(const char *path) {
  tide__os_about is;
  char end[5] = "";
  FILE *f = !tide__os_look(&is, path) && is.kind == TIDE_OS_FILE ? fopen(path, "rb") : NULL;
  if (!f) return true; /* a device or a pipe */
  if (fseek(f, -4, SEEK_END) == 0) end[fread(end, 1, 4, f)] = 0;
  fclose(f);
  return !strcmp(end, "\n}\r\n") || (*end && !strcmp(end + 1, "\n}\n"));
}

tide_status tide_graph_dump(const tide_graph *g, const char *path) {
  TIDE_TRY(tide__graph_check_captured(g, "graph_dump"));
  if (!path) return tide__fail(TIDE_ARGUMENT, "graph_dump: no path, got NULL, expected a file to write");
  if (!g->recording->graph)
    return tide__fail(TIDE_STATE, "graph_dump: what was recorded was not kept, expected a graph that keeps it or is in "
                                  "debug mode, before the capture");
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, g->recording->device));
  tide_file *file;
  char part[PATH_MAX + 64];
  TIDE_TRY(tide_file_new(&file, "debug_dump", path));
  tide__file_name(part, sizeof part, file);
  tide_status status = b->graph_dot(g->recording->graph, part);
  if (status == TIDE_FILE || (status == TIDE_OK && !dump_is_whole(part)))
    status = tide__fail(TIDE_FILE, "debug_dump: the file could not be written, got \"%s\"", path);
  if (status == TIDE_OK) return tide_file_finish(file);
  tide_file_free(file);
  return status;
}

/* ---- replaying ---- */

tide_status tide_graph_instantiate(tide_graph *g) {
  TIDE_TRY(tide__graph_check_captured(g, "graph_instantiate"));
  tide__recording *r = g->recording;
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, r->device));
  if (!r->graph)
    return tide__fail(TIDE_STATE, "graph_instantiate: the graph is ready already, expected one made with `keep`");
  void *exec;
  TIDE_TRY(tide__capture_check("graph_instantiate"));
  TIDE_TRY(b->graph_instantiate(&exec, r->graph, r->device));
  if (r->exec) { /* the one before may still run */
    TIDE_TRY(b->stream_sync(r->last->impl));
    b->graph_exec_free(r->exec);
  }
  r->exec = exec;
  return r->binding ? tide__bind_again(r) : TIDE_OK;
}

/* The state of a generator goes to the device in the arguments of a kernel: nothing waits, nothing has to be kept. */
static tide_status write_state(const tide_backend *b, tide_storage *s, tide_stream *stream, uint64_t seed,
                               uint64_t offset) {
  tide_fill_args a = {.flat = 1, .ndim = 1, .dtype = TIDE_COMPLEX128, .numel = 1};
  a.size[0] = a.stride[0] = 1;
  a.head.ptr[0] = s->ptr, a.head.nptr = 1, a.head.device = s->device;
  a.bits[0] = seed, a.bits[1] = offset;
  tide__storage_use(s, stream);
  return b->fill(stream, &a);
}

/* A generator of another device is written there, between two waits. */
static tide_status place_draws(tide__draws *d, const tide_backend *b, tide_stream *stream) {
  tide_stream *own = stream;
  int device = d->state->device;
  if (device != stream->device) {
    TIDE_TRY(tide__stream_current(&own, device));
    TIDE_TRY(tide_stream_wait_stream(own, stream));
  }
  tide__generator_advance(&d->seed, &d->offset, d->generator, d->calls);
  TIDE_TRY(write_state(b, d->state, own, d->seed, d->offset));
  return own == stream ? TIDE_OK : tide_stream_wait_stream(stream, own);
}

/* The replay is not queued after all: the last one first, because two generators may stand at one place by now. */
static void take_back_draws(const tide__draws *d) {
  if (!d) return;
  take_back_draws(d->next);
  if (d->calls) tide__generator_retreat(d->seed, d->offset, d->generator, d->calls);
}

/* Memory of another API: the end of its turn waits for the replay. */
static tide_status use_external(const tide__recording *r, tide_stream *stream) {
  for (int i = 0; i < r->count; i++) {
    if (!r->held[i]->external) continue;
    if (!tide__storage_live(r->held[i]))
      return tide__fail(TIDE_STATE, "graph_replay: memory of another API that its work uses is not acquired, expected "
                                    "tide_external_acquire, or acquire in Lua, before");
    tide__storage_use(r->held[i], stream);
  }
  return TIDE_OK;
}

/* The recorded launches, or one more than there is room for. */
static tide_status count_launches(const tide__recording *r) {
  tide_quota *q = tide__quota_bound();
  if (!q) return TIDE_OK;
  int64_t limit = tide_quota_get_limit(q, TIDE_QUOTA_LAUNCHES), n = r->launches > 1 ? r->launches : 1;
  int64_t left = limit - tide_quota_used(q, TIDE_QUOTA_LAUNCHES);
  return tide_quota_spend(q, TIDE_QUOTA_LAUNCHES, limit >= 0 && left >= 0 && n > left ? left + 1 : n);
}

tide_status tide_graph_replay(tide_graph *g) {
  TIDE_TRY(tide__graph_check_captured(g, "graph_replay"));
  tide__recording *r = g->recording;
  tide_stream *stream;
  const tide_backend *b;
  TIDE_TRY(tide__capture_check("graph_replay"));
  TIDE_TRY(tide__pending.graph(true));
  if (!r->exec) TIDE_TRY(tide_graph_instantiate(g));
  TIDE_TRY(tide__backend(&b, r->device));
  TIDE_TRY(tide__stream_current(&stream, r->device));
  if (stream != r->last) {
    TIDE_TRY(tide_stream_wait_stream(stream, r->last));
    tide_stream_retain(stream);
    tide_stream_release(r->last);
    r->last = stream;
  }
  if (r->external) TIDE_TRY(use_external(r, stream));
  if (r->binding) TIDE_TRY(tide__bind_use(r, stream));
  TIDE_TRY(count_launches(r));
  tide__staged_copy_before_all(stream); /* nothing tells which storages it uses */
  for (tide__draws *d = r->draws; d; d = d->next)
    if (d->calls) TIDE_TRY(place_draws(d, b, stream));
  uint32_t site = tide__site_now();
  if (tide__sync_watched()) {
    tide__observe_operands();
    tide_status status = tide__observe_launch(stream, site, TIDE__LAUNCH_GRAPH, 0, g, NULL);
    if (status != TIDE_OK) {
      take_back_draws(r->draws);
      return status;
    }
  }
  uint16_t next = (uint16_t)(atomic_load_explicit(&g->replays->now, memory_order_relaxed) + 1);
  atomic_store_explicit(&g->replays->now, next ? next : 1, memory_order_relaxed);
  uint32_t number = tide__launch_note(stream, site, TIDE__LAUNCH_GRAPH, 0);
  tide_status status = tide__quota_any() ? tide__watch_begin(stream, number) : TIDE_OK;
  if (status == TIDE_OK) status = b->graph_launch(r->exec, stream->impl);
  if (tide__quota_any()) tide__watch_end(stream, number);
  return tide__launch_done(stream, number, status);
}

tide_status tide_graph_record(const tide_graph *g, tide_event *event) {
  TIDE_TRY(tide__graph_check_captured(g, "graph_record"));
  return tide_event_record(event, g->recording->last);
}

/* ---- the replay of a handle ---- */

tide_status tide_graph_output(tide_tensor **out, const tide_graph *g, const tide_tensor *x) {
  TIDE_TRY(tide__graph_check_captured(g, "graph_output"));
  TIDE_TRY(tide__tensor_check(x, "graph_output", "x"));
  tide_tensor *view;
  TIDE_TRY(tide__tensor_view(&view, x, x->size, x->stride, x->ndim, x->offset));
  if (!x->storage->replays) {
    tide__ref_take(&g->replays->refs);
    x->storage->replays = g->replays;
  }
  view->replay = x->storage->replays == g->replays ? atomic_load_explicit(&g->replays->now, memory_order_relaxed) : 0;
  *out = view;
  return TIDE_OK;
}
