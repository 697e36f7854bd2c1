/* tide.c: the house: starting and ending the process's one runtime. The one file that sees every room.
 *
 * Rooms stand on floors, and a lower one never calls a higher one. So a room that has to be told of something registers
 * for it with the rooms below, in its own start.c; here they are only called in order, once in a process, before
 * anything else can be. The runtime ends by one list, from the highest room to the lowest.
 *
 * tide_init counts; the first call's configuration holds until the last tide_shutdown. Starting touches no driver and
 * starts no thread. tide__epochs are odd while tide runs and grow with each start and end. Everything that holds a
 * resource of a runtime carries the epoch it was made in, so a handle that outlives its runtime is recognised by one
 * compare and let go without touching what is gone.
 *
 * Invariant: no hook of the host runs while a lock of ours is held. */
#include "comm/comm.h"
#include "jit/jit.h"
#include "tide/debug.h"
#include "watch/watch.h"

static struct {
  pthread_mutex_t lock;
  pthread_cond_t ended;
  int depth;
  bool ending;
} runtime = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

static _Thread_local bool ending_here;

/* ---- starting ---- */

/* What each room registers with the rooms below, from the lowest to the highest. It runs when the code is loaded, so
 * nothing can be called before, and no thread can be about. */
__attribute__((constructor)) static void start_rooms(void) {
  tide__backends_start(tide__opened);
  tide__stream_start();
  tide__memory_start();
  tide__comm_start();
  tide__pending_start();
}

static void next_epoch(void) {
  atomic_fetch_add(&tide__epochs[0], 1);
  atomic_fetch_add(&tide__epochs[1], 1);
}

/* Ending runs hooks of the host, so it holds no lock; a start on another thread waits until it is over. */
tide_status tide_init(const tide_config *config) {
  if (ending_here)
    return tide__fail(TIDE_STATE, "init: called from a hook while tide ends, expected after tide_shutdown");
  if (config) TIDE_TRY(tide__struct_check("init", config->struct_size, sizeof(size_t)));
  pthread_mutex_lock(&runtime.lock);
  while (runtime.ending) pthread_cond_wait(&runtime.ended, &runtime.lock);
  tide_status status = runtime.depth ? TIDE_OK : tide__configure(config);
  if (status == TIDE_OK && runtime.depth++ == 0) {
    next_epoch();
    tide__sanitizer_start();
  }
  pthread_mutex_unlock(&runtime.lock);
  return status;
}

/* ---- ending ---- */

static void hold_idle(void) { tide__idle_hold(true); }

/* Waiting is best effort: a lost device or an interrupt must not keep a host from ending. */
static void wait_for_devices(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    const tide_backend *b = tide__backend_peek(d);
    if (b && !tide__device_lost(NULL, d)) b->device_sync(d);
  }
}

/* From those who watch down to the streams: each room frees what it has from the rooms below it, and only then these
 * may go. */
static void (*const ends[])(void) = {
    hold_idle, /* no worker gives back memory meanwhile */
    tide__preload_stop,
    tide__profile_shutdown,
    tide__peer_shutdown,
    tide__capture_shutdown,
    tide__deferred_drain_slow,
    tide__host_job_shutdown,
    tide__comm_ending, /* what is late already is not waited for long */
    wait_for_devices,  /* from here on nothing is queued */
    tide__watch_shutdown,
    tide__comm_shutdown,
    tide__graph_shutdown,
    tide__ipc_shutdown,
    tide__deferred_frees_shutdown,
    tide__external_shutdown,
    tide__staged_copy_shutdown,
    tide__fft_shutdown,
    tide__storage_shutdown,
    tide__allocator_shutdown,
    tide__pinned_shutdown,
    tide__event_shutdown,
    tide__stream_shutdown,
    tide__sanitizer_forget, /* what it knew of all that */
};

static void end_accelerators(void) {
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) ends[i]();
}

/* Kernels that were made at run time hold what is the backends': they are called when those have closed. */
static void close_backends(bool reset) {
  tide__jit_ahead_stop();
  tide__backends_close(reset, tide__jit_unload);
}

static void end_runtime(void) {
  tide__defer_shutdown();
  end_accelerators();
  tide__parallel_shutdown();
  next_epoch();
  close_backends(false);
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
  if (tide__reclaiming()) /* an operation is under way on this very thread */
    return tide__fail(TIDE_STATE,
                      "device_reset: called from a finaliser while an allocation collects garbage, expected "
                      "outside of finalisers");
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "device_reset"));
  TIDE_TRY(tide__sync_asked("device_reset"));
  end_begin();
  end_accelerators();
  atomic_fetch_add(&tide__epochs[1], 2);
  close_backends(true);
  tide__idle_hold(false);
  end_done();
  return TIDE_OK;
}
