/* profiler.c: the recording of what a program does, while one is under way.
 *
 * Every operation is told by observe.c before it is queued and after; both times the clock is read, so the host's side
 * is a list of slices with script lines. The device's side comes from profiler_device.c; profiler_read.c makes sense of
 * a recording once it has ended. With no recording nothing of this is called. While one is under way an operation costs
 * the host about a microsecond more; what the devices need comes on top. */
#include "profiler.h"

/* Of the operation that this thread is about to queue. */
static _Thread_local struct {
  uint64_t number, op, start;
  const char *wait; /* the function that may be waiting for a device, since when and where; or NULL */
  uint64_t wait_since;
  uint32_t wait_site;
} mine;

/* With the lock held: where the stream stands in the list, or -1 without memory. The last ones are looked at first. */
static int64_t stream_of(tide_profile *p, const tide_stream *stream) {
  for (size_t i = p->stream.n; i-- > 0;)
    if (p->stream.at[i].id == stream->id) return (int64_t)i;
  tide__profiled_stream *s = TIDE__ADD(p, stream);
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
  o->thread = tide__profile_thread(p), o->stream = (uint32_t)stream;
  o->bytes = bytes_of(op);
  if (op->what == TIDE__LAUNCH_RAW && op->subject) {
    const char *name = ((const tide__made *)op->subject)->launch->name;
    o->name = name ? tide__profile_name(p, name) : 0;
  }
  if (o->device >= 0) p->devices |= (uint64_t)1 << o->device;
}

/* Never refuses an operation. */
static tide_status before(const tide__operation *op) {
  mine.number = 0;
  uint64_t number = atomic_load_explicit(&tide__profile_on, memory_order_acquire);
  tide_profile *p = number ? tide__profile_lock(number) : NULL;
  if (!p) return TIDE_OK;
  int64_t stream = stream_of(p, op->stream);
  tide__profiled *o = stream < 0 ? NULL : TIDE__ADD(p, op); /* one without its stream could not be drawn */
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
  tide__profile_range(TIDE__WAIT, what, mine.wait_site, mine.wait_since, tide__profile_clock());
}
static void host_stream(const tide_stream *stream) { host_waited(); }
static void host_event(const tide_event *event) { host_waited(); }
static void host_device(int device) { host_waited(); }

/* ---- beginning and ending ---- */

static const tide__observer observer = {.before = before,
                                        .after = after,
                                        .host_waits = host_waits,
                                        .host_stream = host_stream,
                                        .host_event = host_event,
                                        .host_device = host_device};

tide_status tide_profile_begin(const char *what, uint32_t flags) {
  if (!tide__running()) return tide__fail(TIDE_STATE, "%s: tide is not started, expected tide_init first", what);
  if (flags & ~(uint32_t)TIDE_PROFILE_EVENTS)
    return tide__fail(TIDE_VALUE, "%s: unknown flags, got %u, expected 0 or TIDE_PROFILE_EVENTS", what, flags);
  tide_profile *p;
  TIDE_TRY(tide__recording_begin(&p, what, flags));
  tide__profile_device_open(p->number, flags);
  atomic_store_explicit(&tide__profile_on, p->number, memory_order_release);
  tide__observer_set(TIDE__PROFILER, &observer);
  return TIDE_OK;
}

bool tide_profile_is_recording(void) { return tide__profiling(); }

/* Takes the recording out: nobody adds to it any more. NULL if there is none. */
static tide_profile *take(bool wait) {
  uint64_t number = atomic_exchange(&tide__profile_on, 0);
  if (!number) return NULL;
  tide__observer_set(TIDE__PROFILER, NULL);
  tide_profile *p = tide__profile_lock(number);
  uint64_t devices = p->devices;
  tide__profile_unlock();
  tide__profile_device_close(devices, wait);
  tide__recording_end(p);
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
