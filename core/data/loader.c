/* loader.c: batches that are made ahead, copied by one thread of the loop, and sent on to a device.
 *
 * The loop's thread allocates a batch and notes what is to be copied; the worker does it, in order. What goes on to a
 * device is copied on a stream of its own, so that a batch is on its way while the loop's stream works on those before
 * it; each loop finds the memory of the ones before there. A batch gets its memory on the device when it is made, and
 * its copies fill it (loader_copy.c). Where there was no room, or no memory is to be page-locked, it stays in host
 * memory, from which it is moved when it is given out. The loop's stream is told to wait for the copy, the host is not.
 * What the loop does with a batch keeps its memory, as with every tensor that several streams use.
 *
 * A loop whose work is all on the device asks for batches faster than they are used up, so the host waits for the one
 * that was given out prefetch + 1 batches before: at most 2 * prefetch + 2 lie on the device.
 *
 * The worker holds no reference, and only reads what a batch holds.
 *
 * Invariants: a batch that the worker may look at is in the queue; it leaves the queue done, or after the worker has
 * ended. Slot k % slots of `left` is passed when the loop's stream has done what was queued before the loop asked for
 * the batch after k. */
#include "data/loader.h"

enum { SMALLEST_SLOT = 4096, LARGEST_SLOT = 8 << 20 }; /* bytes; larger ones do not stay in the caches */

struct tide_loader {
  bool open, pin, threaded, stop;
  int device;
  int64_t prefetch, given; /* batches given out */
  loader_batch *making;    /* not queued yet, or NULL */
  loader_batch *oldest, *newest;
  loader_batch *next; /* the worker's: the first that is not done; under the lock */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool ready;          /* the oldest batch is copied and gone from the queue */
  tide_event *sent;    /* what it had */
  tide_stream *stream; /* on which batches are sent; NULL: no device */
  loader_ring *ring;
  tide_event **left; /* [slots] */
  int64_t slots;
};

static tide_status check_open(const tide_loader *l) {
  return l->open ? TIDE_OK : tide__fail(TIDE_STATE, "loader: got a closed one, expected one that is open");
}

static tide_status check_making(const tide_loader *l) {
  TIDE_TRY(check_open(l));
  return l->making ? TIDE_OK : tide__fail(TIDE_STATE, "loader: got no batch that has begun, expected one");
}

/* ---- the worker ---- */

static pthread_rwlock_t running = PTHREAD_RWLOCK_INITIALIZER;

void tide_loader_pause(void) { pthread_rwlock_wrlock(&running); }
void tide_loader_resume(void) { pthread_rwlock_unlock(&running); }

/* What a batch queues is the line's that asked for it. */
static int batch_site(void *user, const char **source) {
  const loader_batch *b = *(loader_batch **)user;
  *source = b->source;
  return b->line;
}

/* Copying is bound by memory, and gains nothing from the last cores; without one the loop would stop it now and
 * then. */
static void *work(void *user) {
  tide_loader *l = user;
  loader_batch *b;
  int threads = tide_get_num_threads();
  tide_set_thread_limit(threads - (threads + 3) / 4);
  tide_site_set(batch_site, &b);
  pthread_mutex_lock(&l->lock);
  while (!l->stop) {
    if (!(b = l->next)) {
      pthread_cond_wait(&l->changed, &l->lock);
      continue;
    }
    pthread_mutex_unlock(&l->lock);
    pthread_rwlock_rdlock(&running);
    tide__loader_run(b);
    pthread_rwlock_unlock(&running);
    pthread_mutex_lock(&l->lock);
    b->done = true;
    l->next = b->next;
    pthread_cond_broadcast(&l->changed);
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

tide_status tide_loader_queue(tide_loader *l, const char *source, int line) {
  TIDE_GIVEN("loader_queue", l);
  loader_batch *b = l->making;
  TIDE_TRY(check_making(l));
  b->line = line;
  strncpy(b->source, source, sizeof b->source - 1);
  l->making = NULL;
  if (l->prefetch && !l->threaded) l->threaded = pthread_create(&l->thread, NULL, work, l) == 0;
  if (!l->threaded) tide__loader_run(b), b->done = true;
  pthread_mutex_lock(&l->lock);
  *(l->newest ? &l->newest->next : &l->oldest) = b;
  l->newest = b;
  if (!l->next && !b->done) l->next = b;
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
  return TIDE_OK;
}

tide_status tide_loader_wait(tide_loader *l) {
  TIDE_GIVEN("loader_wait", l);
  TIDE_TRY(check_open(l));
  if (l->ready) return TIDE_OK;
  if (!l->oldest) return tide__fail(TIDE_STATE, "loader: got no batch that is queued, expected one");
  pthread_mutex_lock(&l->lock);
  loader_batch *b = l->oldest;
  while (!b->done) pthread_cond_wait(&l->changed, &l->lock);
  l->oldest = b->next;
  if (!l->oldest) l->newest = NULL;
  pthread_mutex_unlock(&l->lock);
  tide_status status = b->status == TIDE_OK ? TIDE_OK : tide__fail(b->status, "%s", b->message);
  tide_event_release(l->sent);
  l->sent = b->sent, b->sent = NULL;
  tide__loader_drop(b);
  l->ready = status == TIDE_OK;
  if (!l->ready) l->given++;
  return status;
}

/* ---- the loader ---- */

/* A stream of before a reset has no handle any more. */
static tide_status find_stream(tide_loader *l, tide_stream **kept) {
  if (l->device == TIDE_CPU) return TIDE_OK;
  if (l->device == TIDE_CURRENT) l->device = tide_current_device();
  if (*kept && (tide_stream_device(*kept) != l->device || !tide_stream_handle(*kept))) {
    tide_stream_release(*kept);
    *kept = NULL;
  }
  if (!*kept) TIDE_TRY(tide_stream_new(kept, l->device, 0));
  tide_stream_retain(*kept);
  l->stream = *kept;
  return TIDE_OK;
}

tide_status tide_loader_new(tide_loader **out, tide_stream **kept, int device, int64_t prefetch, bool pin) {
  if (!out || !kept || prefetch < 0 || prefetch == INT64_MAX)
    return tide__fail(TIDE_ARGUMENT, "loader: wrong arguments, got a null pointer, a negative or a huge number");
  tide_loader *l = calloc(1, sizeof *l);
  if (!l) return tide__fail(TIDE_MEMORY, "loader: no host memory for a loop");
  l->pin = pin, l->device = device, l->prefetch = prefetch, l->slots = prefetch + 1;
  tide_status status = find_stream(l, kept);
  if (status != TIDE_OK) {
    free(l);
    return status;
  }
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->changed, NULL);
  l->open = true;
  *out = l;
  return TIDE_OK;
}

void tide_loader_free(tide_loader *l) {
  if (!l) return;
  tide_loader_close(l);
  pthread_cond_destroy(&l->changed);
  pthread_mutex_destroy(&l->lock);
  free(l);
}

/* May run in a finaliser, in the middle of another call: what that one has read stays, but for the device. */
void tide_loader_close(tide_loader *l) {
  if (!l) return;
  if (!l->open) return;
  l->open = false;
  pthread_mutex_lock(&l->lock);
  l->stop = true;
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
  if (l->threaded) pthread_join(l->thread, NULL);
  while (l->oldest) {
    loader_batch *b = l->oldest;
    l->oldest = b->next;
    tide__loader_drop(b);
  }
  tide__loader_drop(l->making);
  while (l->ring) {
    loader_ring *r = l->ring;
    l->ring = r->next;
    tide__loader_ring_free(r);
  }
  for (int64_t i = 0; l->left && i < l->slots; i++) tide_event_release(l->left[i]);
  free(l->left);
  tide_event_release(l->sent);
  tide_stream_release(l->stream);
  l->making = l->newest = l->next = NULL, l->left = NULL, l->sent = NULL, l->stream = NULL, l->device = TIDE_CPU;
}

/* ---- the loop ---- */

tide_status tide_loader_ask(tide_loader *l) {
  TIDE_GIVEN("loader_ask", l);
  tide_stream *current;
  if (!l->stream || !l->given) return TIDE_OK;
  if (!l->left && !(l->left = calloc((size_t)l->slots, sizeof *l->left)))
    return tide__fail(TIDE_MEMORY, "loader: no host memory for the events of %lld batches", (long long)l->slots);
  tide_event **e = &l->left[l->given % l->slots];
  TIDE_TRY(tide_current_stream(&current, l->device));
  if (!*e) TIDE_TRY(tide_event_new(e, 0));
  if (tide_event_record(*e, current) == TIDE_OK) return TIDE_OK;
  tide_event_release(*e); /* one of before a reset: the batch that comes next is refused on its way */
  *e = NULL;
  return TIDE_OK;
}

/* On the loader's stream, where it is not there yet, or, what lies on some device already, on the loop's. */
static tide_status move(tide_loader *l, tide_tensor **x, bool *moved) {
  tide_options o = {TIDE_DTYPE_NONE, l->device, false};
  tide_tensor *there;
  bool from_host = tide_tensor_device(*x) == TIDE_CPU;
  if (from_host) TIDE_TRY(tide_current_override(o.device, l->stream));
  *moved |= from_host;
  tide_status status = tide_to(&there, *x, &o, true, false);
  if (from_host) tide_current_override(o.device, NULL);
  if (status != TIDE_OK) return status;
  tide_tensor_release(*x);
  *x = there;
  return TIDE_OK;
}

static tide_status bring(tide_loader *l, tide_tensor **const *tensors, int n) {
  bool moved = false;
  int64_t k = l->given + 1;
  tide_event *e = k > l->slots && l->left ? l->left[k % l->slots] : NULL; /* of the batch k - slots */
  if (e) TIDE_TRY(tide_event_synchronize(e));
  for (int i = 0; i < n; i++) {
    TIDE_TRY(check_open(l)); /* finding memory may have run code of the program's */
    TIDE_TRY(move(l, tensors[i], &moved));
  }
  TIDE_TRY(check_open(l));
  tide_stream *current;
  TIDE_TRY(tide_current_stream(&current, l->device));
  if (l->sent) TIDE_TRY(tide_stream_wait_event(current, l->sent));
  return moved ? tide_stream_wait_stream(current, l->stream) : TIDE_OK;
}

tide_status tide_loader_bring(tide_loader *l, tide_tensor **const *tensors, int n) {
  TIDE_GIVEN("loader_bring", l);
  TIDE_TRY(check_open(l));
  if (!l->ready) return tide__fail(TIDE_STATE, "loader: got no batch that was waited for, expected one");
  tide_status status = l->stream ? bring(l, tensors, n) : TIDE_OK;
  if (status != TIDE_MEMORY) l->ready = false, l->given++;
  return status;
}

/* ---- what a batch needs ---- */

tide_status tide_loader_begin(tide_loader *l) {
  TIDE_GIVEN("loader_begin", l);
  TIDE_TRY(check_open(l));
  tide__loader_drop(l->making);
  l->making = calloc(1, sizeof *l->making);
  return l->making ? TIDE_OK : tide__fail(TIDE_MEMORY, "loader: no host memory for a batch");
}

/* A larger one takes the place of the first; batches that have that go on with it. */
static tide_status find_ring(tide_loader *l, int64_t bytes) {
  int64_t slot = SMALLEST_SLOT;
  while (slot < bytes && slot < LARGEST_SLOT) slot *= 2;
  if (l->ring && l->ring->bytes >= slot) return TIDE_OK;
  loader_ring *r;
  TIDE_TRY(tide__loader_ring_new(&r, l->stream, slot));
  if (!l->open) { /* by what ran meanwhile */
    tide__loader_ring_free(r);
    return check_open(l);
  }
  r->next = l->ring, l->ring = r;
  return TIDE_OK;
}

/* Memory on the device for what will be filled through the ring. */
static tide_status empty_there(tide_tensor **out, tide_loader *l, const int64_t *size, int ndim, tide_dtype dtype) {
  tide_options o = {dtype, l->device, false};
  TIDE_TRY(tide_current_override(o.device, l->stream));
  tide_status status = tide_empty(out, size, ndim, &o);
  tide_current_override(o.device, NULL);
  if (status == TIDE_OK) status = check_open(l);
  if (status == TIDE_OK) status = find_ring(l, tide_tensor_numel(*out) * (int64_t)tide_dtype_size(dtype));
  if (status == TIDE_OK) return TIDE_OK;
  tide_tensor_release(*out);
  *out = NULL;
  return status;
}

/* In host memory also where the loader's stream is one of before a reset: such a batch is refused when it is
 * brought. */
tide_status tide_loader_empty(tide_tensor **out, tide_loader *l, const int64_t *size, int ndim, tide_dtype dtype) {
  TIDE_GIVEN("loader_empty", l);
  TIDE_TRY(check_making(l));
  tide_status status = l->stream && l->pin ? empty_there(out, l, size, ndim, dtype) : TIDE_MEMORY;
  if (status == TIDE_OK) TIDE_TRY(check_making(l));
  if (status == TIDE_OK) l->making->ring = l->ring;
  if (status != TIDE_MEMORY && status != TIDE_STATE) return status;
  tide_options o = {dtype, TIDE_CPU, l->pin};
  return tide_empty(out, size, ndim, &o);
}

tide_status tide_loader_fill(tide_loader *l, tide_tensor *into, tide_tensor *const *items, int n, bool stacked) {
  TIDE_GIVEN("loader_fill", l);
  TIDE_TRY(check_making(l));
  loader_copy *c = malloc(sizeof *c + (size_t)n * sizeof *c->items);
  if (!c) return tide__fail(TIDE_MEMORY, "loader: no host memory for the list of %d items", n);
  *c = (loader_copy){.next = l->making->copies, .stacked = stacked, .n = n, .into = into};
  tide_tensor_retain(into);
  for (int i = 0; i < n; i++) tide_tensor_retain(c->items[i] = items[i]);
  l->making->copies = c;
  return TIDE_OK;
}
