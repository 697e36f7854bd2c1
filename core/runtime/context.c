/* context.c: the process's one runtime: starting and ending it, what the host brings, what each thread sets.
 *
 * tide_init counts; the first call's configuration holds until the last tide_shutdown. Starting touches no driver and
 * starts no thread. tide__epochs are odd while tide runs and grow with each start and end. Everything that holds a
 * resource of a runtime carries the epoch it was made in, so a handle that outlives its runtime is recognised by one
 * compare and let go without touching what is gone.
 *
 * Invariants: the configuration changes only while the epoch is even; no hook of the host runs while a lock of ours is
 * held; a reclaim hook that has been removed is not running and will not run. */
#include "accelerator.h"
#include "graph/graph.h"
#include "stream/capture_state.h"
#include "stream/observe.h"
#include "watch/profiler.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tide/debug.h"

enum { HOOKS = 64 };

static struct {
  pthread_mutex_t lock;
  pthread_cond_t ended;
  int depth;
  bool ending;
  char cuda_path[PATH_MAX];
} runtime = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

static struct {
  pthread_mutex_t lock;
  pthread_cond_t idle, answered;
  uint64_t answers;
  struct {
    tide_reclaim_fn fn;
    void *user;
    int running;
  } hook[HOOKS];
} reclaim = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER, .answered = PTHREAD_COND_INITIALIZER};

/* How many threads the hooks of this one have asked, and the count of answers that says that all have. */
static _Thread_local struct {
  int threads;
  uint64_t until;
} asked;

static _Thread_local bool reclaiming, ending_here;
static _Thread_local size_t pace;

const char *tide_version(void) { return TIDE_VERSION; }

static void next_epoch(void) {
  atomic_fetch_add(&tide__epochs[0], 1);
  atomic_fetch_add(&tide__epochs[1], 1);
}
/* ---- starting and ending ---- */

/* A whole number with an optional k, M or G (powers of 1024). An unset or empty variable leaves *out alone. */
static tide_status read_number(uint64_t *out, const char *variable, bool suffix) {
  const char *text = getenv(variable);
  if (!text || !*text) return TIDE_OK;
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 0);
  int shift = 0;
  if (suffix && *end) {
    const char *units = "kKmMgG", *unit = strchr(units, *end);
    if (unit) shift = 10 * (int)((unit - units) / 2 + 1), end++;
  }
  if (errno || end == text || *end || *text == '-' || (shift && value >> (64 - shift)))
    return tide__fail(TIDE_VALUE, "init: %s is not a number, got \"%s\", expected a whole number%s", variable, text,
                      suffix ? ", with k, M or G after it if you like" : "");
  *out = (uint64_t)value << shift;
  return TIDE_OK;
}

static tide_status configure(const tide_config *given) {
  tide_config c = {.struct_size = sizeof c};
  if (given && (given->struct_size < sizeof(size_t) || given->struct_size > 65536))
    return tide__fail(TIDE_ARGUMENT, "init: struct_size is wrong, got %zu, expected sizeof(tide_config), %zu",
                      given->struct_size, sizeof c);
  if (given) memcpy(&c, given, given->struct_size < sizeof c ? given->struct_size : sizeof c);
  uint64_t devices = 0, memory = (uint64_t)1 << 30, seed = 0;
  TIDE_TRY(read_number(&devices, "TIDE_SIM_DEVICES", false));
  TIDE_TRY(read_number(&memory, "TIDE_SIM_MEMORY", true));
  TIDE_TRY(read_number(&seed, "TIDE_SIM_SEED", false));
  if (!c.sim_devices) c.sim_devices = devices > INT_MAX ? INT_MAX : (int)devices;
  if (c.sim_devices < 0 || c.sim_devices > TIDE_MAX_DEVICES)
    return tide__fail(TIDE_VALUE, "init: wrong number of simulated devices, got %d, expected 0 to %d", c.sim_devices,
                      TIDE_MAX_DEVICES);
  if (!c.sim_memory) c.sim_memory = (size_t)memory;
  if (!c.sim_seed) c.sim_seed = seed;
  if (c.cuda_path) {
    if (strlen(c.cuda_path) >= sizeof runtime.cuda_path) return tide__fail(TIDE_VALUE, "init: cuda_path is too long");
    memcpy(runtime.cuda_path, c.cuda_path, strlen(c.cuda_path) + 1);
    c.cuda_path = runtime.cuda_path;
  }
  TIDE_TRY(tide__host_install(&c));
  if (c.num_threads > 0) tide_set_num_threads(c.num_threads);
  return TIDE_OK;
}

static pthread_once_t started = PTHREAD_ONCE_INIT;
static void start_rooms(void) {
  tide__stream_start();
  tide__memory_start();
}

/* Ending runs hooks of the host, so it holds no lock; a start on another thread waits until it is over. */
tide_status tide_init(const tide_config *config) {
  if (ending_here)
    return tide__fail(TIDE_STATE, "init: called from a hook while tide ends, expected after tide_shutdown");
  pthread_mutex_lock(&runtime.lock);
  while (runtime.ending) pthread_cond_wait(&runtime.ended, &runtime.lock);
  tide_status status = runtime.depth ? TIDE_OK : configure(config);
  if (status == TIDE_OK && runtime.depth++ == 0) {
    pthread_once(&started, start_rooms);
    next_epoch();
    tide__sanitizer_start();
  }
  pthread_mutex_unlock(&runtime.lock);
  return status;
}

/* Waiting is best effort: a lost device or an interrupt must not keep a host from ending. */
static void wait_for_devices(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    const tide_backend *b = tide__backend_peek(d);
    if (b && !tide__device_lost(NULL, d)) b->device_sync(d);
  }
}

/* From the tensors down to the library; each room frees what it has from the rooms below it. */
static void end_accelerators(void) {
  tide__idle_hold(true);
  tide__profile_shutdown();
  tide__peer_shutdown();
  tide__capture_shutdown();
  tide__deferred_drain();
  tide__comm_ending();
  wait_for_devices();
  tide__comm_shutdown();
  tide__graph_shutdown();
  tide__ipc_shutdown();
  tide__deferred_frees_shutdown();
  tide__landing_shutdown();
  tide__fft_shutdown();
  tide__storage_shutdown();
  tide__allocator_shutdown();
  tide__pinned_shutdown();
  tide__event_shutdown();
  tide__stream_shutdown();
  tide__sanitizer_forget();
}

static void end_runtime(void) {
  tide__defer_shutdown();
  end_accelerators();
  tide__parallel_shutdown();
  next_epoch();
  tide__backends_close(false);
  tide__host_reset();
  tide__idle_hold(false);
}

static void end_begin(void) {
  pthread_mutex_lock(&runtime.lock);
  while (runtime.ending) pthread_cond_wait(&runtime.ended, &runtime.lock);
  runtime.ending = true;
  pthread_mutex_unlock(&runtime.lock);
  ending_here = true;
}

static void end_done(void) {
  ending_here = false;
  pthread_mutex_lock(&runtime.lock);
  runtime.ending = false;
  pthread_cond_broadcast(&runtime.ended);
  pthread_mutex_unlock(&runtime.lock);
}

void tide_shutdown(void) {
  pthread_mutex_lock(&runtime.lock);
  bool end = runtime.depth > 0 && --runtime.depth == 0;
  if (end) runtime.ending = true;
  pthread_mutex_unlock(&runtime.lock);
  if (!end) return;
  ending_here = true;
  end_runtime();
  end_done();
}

/* The library keeps state for all devices in one place, and page-locked memory belongs to none, so one device cannot go
 * alone. */
tide_status tide_device_reset(int device) {
  if (ending_here)
    return tide__fail(TIDE_STATE, "device_reset: called from a hook while tide ends, expected before tide_shutdown");
  if (reclaiming) /* an operation is under way on this very thread */
    return tide__fail(TIDE_STATE,
                      "device_reset: called from a finaliser while an allocation collects garbage, expected "
                      "outside of finalisers");
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "device_reset"));
  TIDE_TRY(tide__sync_asked("device_reset"));
  end_begin();
  end_accelerators();
  atomic_fetch_add(&tide__epochs[1], 2);
  tide__backends_close(true);
  tide__idle_hold(false);
  end_done();
  return TIDE_OK;
}

/* ---- reclaim hooks ---- */

tide_status tide_reclaim_add(tide_reclaim_fn fn, void *user) {
  if (!fn) return tide__fail(TIDE_ARGUMENT, "reclaim_add: fn is missing, got NULL, expected a function");
  pthread_mutex_lock(&reclaim.lock);
  int i = 0;
  while (i < HOOKS && (reclaim.hook[i].fn || reclaim.hook[i].running)) i++;
  if (i < HOOKS) reclaim.hook[i].fn = fn, reclaim.hook[i].user = user;
  pthread_mutex_unlock(&reclaim.lock);
  return i < HOOKS
             ? TIDE_OK
             : tide__fail(TIDE_STATE, "reclaim_add: too many hooks, got %d, expected at most %d", HOOKS + 1, HOOKS);
}

/* Waits until the hook is not running on another thread: its user data may go after this. */
void tide_reclaim_remove(tide_reclaim_fn fn, void *user) {
  pthread_mutex_lock(&reclaim.lock);
  for (int i = 0; i < HOOKS; i++) {
    if (reclaim.hook[i].fn != fn || reclaim.hook[i].user != user) continue;
    reclaim.hook[i].fn = NULL;
    while (reclaim.hook[i].running && !reclaiming) pthread_cond_wait(&reclaim.idle, &reclaim.lock);
  }
  pthread_mutex_unlock(&reclaim.lock);
}

/* A hook may itself allocate and fail; it is not called again from inside. */
int tide__reclaim(int device, size_t bytes) {
  if (reclaiming) return 0;
  reclaiming = true;
  int dropped = 0;
  tide__stream_override before = tide__stream_override_suspend();
  pthread_mutex_lock(&reclaim.lock);
  asked.threads = 0;
  uint64_t answers = reclaim.answers;
  for (int i = 0; i < HOOKS; i++) {
    tide_reclaim_fn fn = reclaim.hook[i].fn;
    void *user = reclaim.hook[i].user;
    if (!fn) continue;
    reclaim.hook[i].running++;
    pthread_mutex_unlock(&reclaim.lock);
    int result = fn(user, device, bytes);
    asked.threads += result < 0;
    dropped |= result > 0;
    pthread_mutex_lock(&reclaim.lock);
    if (--reclaim.hook[i].running == 0) pthread_cond_broadcast(&reclaim.idle);
  }
  pthread_mutex_unlock(&reclaim.lock);
  asked.until = answers + (uint64_t)asked.threads;
  tide__stream_override_resume(before);
  reclaiming = false;
  return dropped;
}

void tide_reclaim_answer(void) {
  pthread_mutex_lock(&reclaim.lock);
  reclaim.answers++;
  pthread_cond_broadcast(&reclaim.answered);
  pthread_mutex_unlock(&reclaim.lock);
}

bool tide__reclaim_wait(void) {
  enum { BOUND = 200000000 }; /* nanoseconds */
  if (!asked.threads || reclaiming) return false;
  asked.threads = 0;
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += BOUND;
  if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
  pthread_mutex_lock(&reclaim.lock);
  while (reclaim.answers < asked.until && pthread_cond_timedwait(&reclaim.answered, &reclaim.lock, &end) == 0) {}
  pthread_mutex_unlock(&reclaim.lock);
  return true;
}

/* ---- what each thread sets, and small services ---- */

tide_status tide__wait_on(int device, const char *what) {
  if (tide__interrupt_asked()) return tide__fail(TIDE_INTERRUPTED, "%s: interrupted", what);
  return tide__comm_overdue(device);
}

void tide__pace_add(size_t bytes) { pace += bytes; }

size_t tide_pace_take(void) {
  size_t bytes = pace;
  pace = 0;
  return bytes;
}
