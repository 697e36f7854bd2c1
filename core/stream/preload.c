/* preload.c: loads the kernels of a device ahead of their use, on a thread of its own.
 *
 * A driver that loads lazily brings a kernel to the device at its first launch, which may wait for all that runs there.
 * A program that must not stop for that asks for everything at its start. The device is opened by the caller, so that
 * what the driver does at the end of the process is registered before our own end, which therefore comes first.
 *
 * Invariant: `begun` means that there is a thread to be joined; it changes under the lock. */
#include <stdlib.h>
#include <time.h>

#include "os/process.h"
#include "stream.h"

typedef struct loading {
  const tide_backend *backend;
  int device, all;
  pthread_t thread;
  pid_t process; /* the thread does not run in its children */
  bool begun, complete;
  _Atomic bool over;
  _Atomic int loaded;
  tide_status status; /* and its message, once it is over */
  char message[256];
} loading;

static loading devices[TIDE_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool quit;

static void *load(void *user) {
  loading *l = user;
  for (int i = 0; l->status == TIDE_OK && i < l->all && !atomic_load(&quit); i++) {
    l->status = l->backend->kernel_load(l->device, i);
    if (l->status == TIDE_OK) atomic_store(&l->loaded, i + 1);
  }
  if (l->status != TIDE_OK) snprintf(l->message, sizeof l->message, "%s", tide_error_get()->message);
  atomic_store(&l->over, true);
  return NULL;
}

/* The lock is held. */
static void join(loading *l) {
  if (l->begun && l->process == tide__os_self()) pthread_join(l->thread, NULL);
  l->begun = false;
}

void tide__preload_stop(void) {
  TIDE_LOCKED(&lock);
  atomic_store(&quit, true);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    join(&devices[d]);
    devices[d].complete = false;
  }
  atomic_store(&quit, false);
}

static void watch_exit(void) { atexit(tide__preload_stop); }

/* The lock is held. */
static tide_status begin(loading *l, const tide_backend *b, int device) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  if (l->begun || l->complete) return TIDE_OK;
  pthread_once(&once, watch_exit);
  l->backend = b, l->device = device, l->all = b->kernel_count ? b->kernel_count() : 0;
  l->process = tide__os_self(), l->status = TIDE_OK;
  atomic_store(&l->loaded, 0);
  atomic_store(&l->over, false);
  l->complete = l->all == 0;
  if (l->complete) return TIDE_OK;
  if (pthread_create(&l->thread, NULL, load, l) != 0)
    return tide__fail(TIDE_MEMORY, "preload: no thread could be started");
  l->begun = true;
  return TIDE_OK;
}

/* Begins where nobody has, and takes what a thread that is done has to say. */
static tide_status look(int *loaded, int *all, int device, const tide_backend *b) {
  loading *l = &devices[device];
  TIDE_LOCKED(&lock);
  tide_status status = begin(l, b, device);
  if (l->begun && atomic_load(&l->over)) {
    join(l);
    l->complete = l->status == TIDE_OK;
    if (!l->complete) status = tide__fail(l->status, "%s", l->message);
  }
  *loaded = atomic_load(&l->loaded), *all = l->all;
  return status;
}

tide_status tide_preload(int *loaded, int *all, int device, bool wait) {
  const tide_backend *b;
  tide_stream *s;
  int done, count;
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "preload"));
  if (wait) TIDE_TRY(tide__sync_begin("preload"));
  TIDE_TRY(tide__backend(&b, device));
  TIDE_TRY(tide_stream_default(&s, device));
  for (;;) {
    TIDE_TRY(look(&done, &count, device, b));
    if (!wait || done == count) break;
    TIDE_TRY(tide__wait_on(device, "preload"));
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  if (loaded) *loaded = done;
  if (all) *all = count;
  return TIDE_OK;
}
