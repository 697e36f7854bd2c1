/* profiler.c: the recording of what a program does, while one is under way.
 *
 * Every operation is told by observe.c before it is queued and after; both times the clock is read, so the host's side
 * is a list of slices with script lines. The device's side comes from profiler_device.c. A recording is one struct,
 * guarded by one lock that is held to add to it and for nothing else; profiler_read.c makes sense of it once it has
 * ended. With no recording nothing of this is called. While one is under way an operation costs the host about a
 * microsecond more, whatever the devices need comes on top.
 *
 * Invariant: `current` is the recording that others may add to; whoever does names it by its number, under the lock, so
 * that a thread that is late adds nothing to the next one. */
#include "profiler.h"

#include <stdlib.h>
#include <time.h>

_Atomic uint64_t tide__profile_on;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tide_profile *current;
static uint64_t last_number;

/* Of the operation that this thread is about to queue; and the thread's number in that recording. */
static _Thread_local struct {
  uint64_t number, op, start;
  uint64_t known_in;
  uint32_t thread;
  const char *wait; /* the function that may be waiting for a device, since when and where; or NULL */
  uint64_t wait_since;
  uint32_t wait_site;
} mine;

uint64_t tide__profile_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

tide_profile *tide__profile_lock(uint64_t number) {
  pthread_mutex_lock(&lock);
  if (current && current->number == number) return current;
  pthread_mutex_unlock(&lock);
  return NULL;
}

void tide__profile_unlock(void) { pthread_mutex_unlock(&lock); }

/* ---- lists and names ---- */

void *tide__profile_add(tide_profile *p, void *list, size_t item) {
  TIDE__LIST(char) l;
  memcpy(&l, list, sizeof l);
  if (l.n == l.room) {
    size_t room = l.room ? 2 * l.room : 256;
    void *at = realloc(l.at, room * item);
    if (!at) {
      p->lost++;
      return NULL;
    }
    l.at = at, l.room = room;
  }
  void *place = l.at + l.n++ * item;
  memset(place, 0, item);
  memcpy(list, &l, sizeof l);
  return place;
}
#define ADD(p, field) tide__profile_add((p), &(p)->field, sizeof *(p)->field.at)

static uint32_t *name_place(tide_profile *p, const char *text) {
  uint32_t hash = 2166136261u;
  for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
  for (size_t i = hash;; i++) {
    uint32_t *place = &p->name_hash[i & (p->name_slots - 1)];
    if (!*place || !strcmp(p->name.at[*place], text)) return place;
  }
}

static bool names_grow(tide_profile *p) {
  size_t slots = p->name_slots ? 2 * p->name_slots : 1024;
  uint32_t *hash = calloc(slots, sizeof *hash);
  if (!hash) return false;
  free(p->name_hash);
  p->name_hash = hash, p->name_slots = slots;
  for (size_t i = 1; i < p->name.n; i++) *name_place(p, p->name.at[i]) = (uint32_t)i;
  return true;
}

uint32_t tide__profile_name(tide_profile *p, const char *text) {
  if (!text || !*text) return 0;
  if (2 * p->name.n >= p->name_slots && !names_grow(p)) return 0;
  uint32_t *place = name_place(p, text);
  if (*place) return *place;
  char *copy = strdup(text), **at = copy ? ADD(p, name) : NULL;
  if (!at) {
    free(copy);
    return 0;
  }
  *at = copy;
  return *place = (uint32_t)(p->name.n - 1);
}

/* With the lock held: the number of the calling thread. */
static uint32_t thread_of(tide_profile *p) {
  if (mine.known_in != p->number) mine.known_in = p->number, mine.thread = p->threads++;
  return mine.thread;
}

/* With the lock held: where the stream stands in the list, or -1 without memory. The last ones are looked at first. */
static int64_t stream_of(tide_profile *p, const tide_stream *stream) {
  for (size_t i = p->stream.n; i-- > 0;)
    if (p->stream.at[i].id == stream->id) return (int64_t)i;
  tide__profiled_stream *s = ADD(p, stream);
  if (!s) return -1;
  const tide_backend *b = tide__backend_peek(stream->device);
  *s = (tide__profiled_stream){.id = stream->id, .device = stream->device, .is_default = stream->is_default};
  s->handle = b && stream->impl ? b->stream_handle(stream->impl) : 0;
  return (int64_t)p->stream.n - 1;
}

/* ---- what the observer is told ---- */

/* Of a copy the bytes that travel: the smaller of what is read and what may be written. */
static uint64_t bytes_of(const tide__operation *op) {
  uint64_t bytes[2] = {0, 0};
  for (int i = 0; i < op->n; i++) {
    const tide_tensor *x = op->access[i].x;
    bytes[op->access[i].write] += (uint64_t)x->numel * tide_dtype_size((tide_dtype)x->dtype);
  }
  bool copies = op->what >= TIDE__LAUNCH_COPY_IN && op->what <= TIDE__LAUNCH_COPY_PEER;
  if (copies && bytes[0] && bytes[1]) return bytes[0] < bytes[1] ? bytes[0] : bytes[1];
  return bytes[0] + bytes[1];
}

static void fill(tide_profile *p, tide__profiled *o, const tide__operation *op, int64_t stream) {
  o->site = op->site ? op->site : tide__site_now();
  o->what = (uint16_t)op->what, o->detail = (uint8_t)op->detail;
  o->device = op->stream->device;
  o->thread = thread_of(p), o->stream = (uint32_t)stream;
  o->bytes = bytes_of(op);
  if (o->device >= 0) p->devices |= (uint64_t)1 << o->device;
}

/* Never refuses an operation. */
static tide_status before(const tide__operation *op) {
  mine.number = 0;
  uint64_t number = atomic_load_explicit(&tide__profile_on, memory_order_acquire);
  tide_profile *p = number ? tide__profile_lock(number) : NULL;
  if (!p) return TIDE_OK;
  int64_t stream = stream_of(p, op->stream);
  tide__profiled *o = stream < 0 ? NULL : ADD(p, op); /* one without its stream could not be drawn */
  if (o) {
    fill(p, o, op, stream);
    mine.number = number, mine.op = p->op.n;
    o->start = o->end = tide__profile_since(p, tide__profile_clock());
  }
  tide__profile_unlock();
  if (o && op->stream->device >= 0) tide__profile_device_begin(number, mine.op, op->stream);
  mine.start = tide__profile_clock();
  return TIDE_OK;
}

static void after(const tide__operation *op, tide_status status) {
  uint64_t end = tide__profile_clock();
  if (!mine.number) return;
  bool on_device = op->stream->device >= 0;
  if (on_device) tide__profile_device_end(mine.number, mine.op, op->stream, status == TIDE_OK);
  tide_profile *p = tide__profile_lock(mine.number);
  if (!p) return;
  tide__profiled *o = &p->op.at[mine.op - 1];
  o->start = tide__profile_since(p, mine.start), o->end = tide__profile_since(p, end);
  o->allocated = on_device ? tide_memory_allocated(o->device) : tide_memory_cpu_allocated();
  tide__profile_unlock();
}

static void host_waits(const char *what) {
  mine.wait = what, mine.wait_site = tide__site_now(), mine.wait_since = tide__profile_clock();
}

/* Some functions announce a wait and find that there is nothing to wait for: that is forgotten with the line. */
static void host_waited(void) {
  const char *what = mine.wait;
  mine.wait = NULL;
  if (!what || mine.wait_site != tide__site_now()) return;
  tide_profile *p = tide__profile_lock(atomic_load_explicit(&tide__profile_on, memory_order_acquire));
  if (!p) return;
  tide__ranged *r = ADD(p, range);
  if (r) {
    r->kind = TIDE__WAIT, r->name = tide__profile_name(p, what), r->thread = thread_of(p), r->site = mine.wait_site;
    r->start = tide__profile_since(p, mine.wait_since), r->end = tide__profile_since(p, tide__profile_clock());
  }
  tide__profile_unlock();
}
static void host_stream(const tide_stream *stream) {
  (void)stream;
  host_waited();
}
static void host_event(const tide_event *event) {
  (void)event;
  host_waited();
}
static void host_device(int device) {
  (void)device;
  host_waited();
}

void tide__profile_range(tide__range_kind kind, const char *text, uint64_t since, uint64_t until) {
  tide_profile *p = tide__profile_lock(atomic_load_explicit(&tide__profile_on, memory_order_acquire));
  if (!p) return;
  tide__ranged *r = ADD(p, range);
  if (r) {
    r->kind = kind, r->name = tide__profile_name(p, text), r->thread = thread_of(p);
    r->start = tide__profile_since(p, since), r->end = tide__profile_since(p, until);
  }
  tide__profile_unlock();
}

/* ---- beginning and ending ---- */

static const tide__observer observer = {.before = before,
                                        .after = after,
                                        .host_waits = host_waits,
                                        .host_stream = host_stream,
                                        .host_event = host_event,
                                        .host_device = host_device};

void tide_profile_free(tide_profile *p) {
  if (!p) return;
  for (size_t i = 1; i < p->name.n; i++) free(p->name.at[i]);
  free(p->op.at), free(p->span.at), free(p->range.at), free(p->stream.at), free(p->link.at), free(p->name.at);
  free(p->track.at), free(p->name_hash);
  free(p);
}

/* NULL without memory. The first name is "". */
static tide_profile *profile_new(const char *what, uint32_t flags) {
  tide_profile *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->what = what, p->flags = flags, p->source = "";
  char **empty = ADD(p, name);
  if (empty && names_grow(p)) {
    *empty = "";
    return p;
  }
  p->name.n = 0;
  tide_profile_free(p);
  return NULL;
}

tide_status tide_profile_begin(const char *what, uint32_t flags) {
  if (!tide__running()) return tide__fail(TIDE_STATE, "%s: tide is not started, expected tide_init first", what);
  if (flags & ~(uint32_t)TIDE_PROFILE_EVENTS)
    return tide__fail(TIDE_VALUE, "%s: unknown flags, got %u, expected 0 or TIDE_PROFILE_EVENTS", what, flags);
  tide_profile *p = profile_new(what, flags);
  if (!p) return tide__fail(TIDE_MEMORY, "%s: no host memory for a recording", what);
  pthread_mutex_lock(&lock);
  const char *other = current ? current->what : NULL;
  if (!other) {
    p->number = ++last_number;
    p->begun = tide__profile_clock();
    current = p;
    thread_of(p); /* who begins is the first thread */
  }
  pthread_mutex_unlock(&lock);
  if (other) {
    tide_profile_free(p);
    return tide__fail(TIDE_STATE, "%s: a recording is under way already, got one of %s, expected its end first", what,
                      other);
  }
  tide__profile_device_open(p->number, flags);
  atomic_store_explicit(&tide__profile_on, p->number, memory_order_release);
  tide__observer_set(TIDE__PROFILER, &observer);
  return TIDE_OK;
}

/* Takes the recording out: nobody adds to it any more. NULL if there is none. */
static tide_profile *take(bool wait) {
  uint64_t number = atomic_exchange(&tide__profile_on, 0);
  if (!number) return NULL;
  tide__observer_set(TIDE__PROFILER, NULL);
  tide_profile *p = tide__profile_lock(number);
  uint64_t devices = p->devices;
  tide__profile_unlock();
  tide__profile_device_close(devices, wait);
  pthread_mutex_lock(&lock);
  p->wall = tide__profile_clock() - p->begun;
  current = NULL;
  pthread_mutex_unlock(&lock);
  return p;
}

tide_status tide_profile_end(tide_profile **out) {
  tide__nvtx_flush();
  tide__nvtx_flush_free();
  tide_profile *p = take(true);
  if (!p) return tide__fail(TIDE_STATE, "profile_end: no recording is under way, expected one that was begun");
  tide__profile_finish(p);
  *out = p;
  return TIDE_OK;
}

void tide__profile_shutdown(void) { tide_profile_free(take(false)); }

/* ---- profilers of other makers ---- */

tide_status tide_profiler_control(bool start) {
  int device, count;
  const tide_backend *b;
  if (tide__device_count(&count) != TIDE_OK) return TIDE_OK; /* without a device there is nothing to look at */
  TIDE_TRY(tide__device_resolve_accelerator(&device, TIDE_CURRENT, start ? "profiler.start" : "profiler.stop"));
  TIDE_TRY(tide__backend(&b, device));
  return b->tracer && b->tracer->control ? b->tracer->control(start) : TIDE_OK;
}
