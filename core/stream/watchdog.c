/* watchdog.c: ends kernels that a quota gives no more time, and those of work that was ended or interrupted.
 *
 * On the CPU a kernel asks by itself (tide__loop_stops). One of an accelerator only finds a number that says up to
 * which launch of its owner all have to end, and somebody has to write that (kernels_stop): a wait that is interrupted
 * does, and for work with a quota one thread, which the first such launch starts. Around each of these the stream notes
 * how far it is, so that this thread sees which launch runs, and since when, a millisecond more or less.
 *
 * Invariant: what is in the list holds its stream and its quota, and is released without the lock. */

#include "observe.h"
#include "os/os.h"

typedef struct watched {
  struct watched *next;
  tide_quota *quota;
  tide_stream *stream;
  uint32_t last, at; /* the last launch that is watched; the number that the stream noted last, */
  int64_t since;     /* and when that was seen */
  uint64_t ended;    /* tide__quota_ended, as far as it was dealt with */
} watched;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t wake, ended;
  watched *list;
  bool runs, quits;
} dog = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

uint64_t tide__watch_number(void) {
  return atomic_fetch_add_explicit(&tide__launch_numbers, 1, memory_order_relaxed) + 1;
}

static int64_t microseconds(void) { return tide__os_ns() / 1000; }

static void stop(int device, const tide_quota *quota, uint64_t number, int64_t ms) {
  const tide_backend *b = tide__backend_peek(device);
  if (b && b->kernels_stop && !tide__device_lost(NULL, device))
    b->kernels_stop(device, tide__quota_owner(quota), number, ms);
}

void tide__watch_interrupt(int device) {
  const tide_quota *quota = tide__quota_bound();
  for (int d = 0; d < TIDE_MAX_DEVICES; d++)
    if (device < 0 || d == device) stop(d, quota, atomic_load(&tide__launch_numbers), 0);
}

void tide_interrupt_kernels(void) {
  uint64_t number = atomic_load(&tide__launch_numbers);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    const tide_backend *b = tide__backend_peek(d);
    if (b && b->kernels_stop) b->kernels_stop(d, tide__quota_owner(NULL), number, -1);
  }
}

/* ---- the thread ---- */

/* Is it the launch that follows what the stream noted? Else something runs that ends by itself. */
static bool runs_now(const struct tide__progress *p, uint32_t at) {
  uint64_t entry = atomic_load_explicit(&p->entry[(at + 1) % TIDE__PROGRESS_RING], memory_order_relaxed);
  uint32_t what = (uint32_t)((entry & ~TIDE__PROGRESS_MARK) >> 40);
  return what == TIDE__LAUNCH_RAW || what == TIDE__LAUNCH_GRAPH;
}

/* False: its launches are over. */
static bool look(watched *w, int64_t now) {
  const struct tide__progress *p = atomic_load_explicit(&w->stream->progress, memory_order_acquire);
  int device = w->stream->device;
  if (!p || tide__device_lost(NULL, device)) return false;
  uint32_t at = p->backend->progress_read(w->stream->impl);
  if ((int32_t)(at - w->last) >= 0) return false;
  if (at != w->at) w->at = at, w->since = now;
  int64_t limit = tide_quota_get_limit(w->quota, TIDE_QUOTA_KERNEL_MICROSECONDS), took = now - w->since;
  uint64_t number = atomic_load(&tide__launch_numbers), ended = tide__quota_ended(w->quota);
  if (ended != w->ended) stop(device, w->quota, ended, 0), w->ended = ended;
  if (tide__quota_over(w->quota)) {
    stop(device, w->quota, number, 0);
  } else if (limit >= 0 && took > limit && runs_now(p, at)) {
    stop(device, w->quota, number, took / 1000 + 1);
    w->since = now; /* what is queued behind it may have to be stopped again */
  }
  return true;
}

static void release(watched *w) {
  tide_stream_release(w->stream);
  tide_quota_release(w->quota);
  free(w);
}

static void *watch(void *unused) {
  pthread_mutex_lock(&dog.lock);
  while (!dog.quits) {
    struct timespec until;
    watched *over = NULL;
    for (watched **link = &dog.list, *w; (w = *link);) {
      if (look(w, microseconds()))
        link = &w->next;
      else
        *link = w->next, w->next = over, over = w;
    }
    bool any = dog.list || over;
    pthread_mutex_unlock(&dog.lock);
    for (watched *next; over; over = next) next = over->next, release(over);
    pthread_mutex_lock(&dog.lock);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    if (any)
      tide__os_wait_until(&dog.wake, &dog.lock, &until);
    else if (!dog.quits && !dog.list)
      pthread_cond_wait(&dog.wake, &dog.lock);
  }
  dog.runs = dog.quits = false;
  pthread_cond_broadcast(&dog.ended);
  pthread_mutex_unlock(&dog.lock);
  return unused;
}

/* In the child of a fork there is no thread, and nothing that was launched before can be reached. */
static void child(void) {
  pthread_mutex_init(&dog.lock, NULL);
  pthread_cond_init(&dog.wake, NULL);
  dog.list = NULL, dog.runs = dog.quits = false;
}
static void at_fork(void) { pthread_atfork(NULL, NULL, child); }

/* The lock is held. */
static bool start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_t thread;
  if (dog.runs) return true;
  pthread_once(&once, at_fork);
  if (pthread_create(&thread, NULL, watch, NULL)) return false;
  pthread_detach(thread);
  return dog.runs = true;
}

/* ---- launches ---- */

static watched *find(const tide_stream *stream, const tide_quota *quota) {
  watched *w = dog.list;
  while (w && (w->stream != stream || w->quota != quota)) w = w->next;
  return w;
}

tide_status tide__watch_begin(tide_stream *stream, uint32_t number) {
  tide_quota *quota = tide__quota_bound();
  const tide_backend *b = tide__backend_peek(stream->device);
  if (!quota || !number || !b || !b->kernels_stop || !b->progress_note) return TIDE_OK;
  TIDE_TRY(b->progress_note(stream->impl, number - 1));
  TIDE_LOCKED(&dog.lock);
  watched *w = find(stream, quota);
  if (!w && start() && (w = calloc(1, sizeof *w))) {
    w->quota = tide__quota_retain(quota), w->stream = stream;
    tide_stream_retain(stream);
    w->ended = tide__quota_ended(quota);
    w->at = b->progress_read(stream->impl), w->since = microseconds();
    w->next = dog.list, dog.list = w;
  }
  if (w) w->last = number;
  pthread_cond_signal(&dog.wake);
  return w ? TIDE_OK : tide__fail(TIDE_MEMORY, "kernel: no host memory to watch it");
}

void tide__watch_end(tide_stream *stream, uint32_t number) {
  const tide_backend *b = tide__backend_peek(stream->device);
  if (number && tide__quota_bound() && b && b->kernels_stop && b->progress_note) b->progress_note(stream->impl, number);
}

void tide__watch_shutdown(void) {
  pthread_mutex_lock(&dog.lock);
  watched *list = dog.list;
  dog.list = NULL, dog.quits = dog.runs;
  pthread_cond_signal(&dog.wake);
  while (dog.runs) pthread_cond_wait(&dog.ended, &dog.lock);
  pthread_mutex_unlock(&dog.lock);
  for (watched *next; list; list = next) next = list->next, release(list);
}
