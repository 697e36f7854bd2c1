/* defer.c: what waits for the first use of an accelerator.
 *
 * A script may set things of devices before it uses one, and must not start the driver by that: a process that has
 * started it cannot be forked any more. What can only be checked when the driver is there is put on a list and done
 * when the first device is opened, on the thread that opens it. A call that fails then does not get lost: the opening
 * call fails in its place, with the text of where it was made. The device is open all the same, so the next call works.
 *
 * What is opened is also looked at: a device for which the library has no code causes a warning.
 *
 * Invariant: each entry runs at most once and is dropped exactly once, with no lock held. */
#include "accelerator.h"
#include "base/lock.h"

#include <stdio.h>
#include <stdlib.h>

enum { WHERE = 512 };

typedef struct deferred {
  struct deferred *next;
  tide_status (*fn)(void *user);
  void (*drop)(void *user);
  void *user;
  char where[WHERE];
} deferred;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static deferred *first, **last = &first;

static tide_status run_now(tide_status (*fn)(void *user), void (*drop)(void *user), void *user) {
  tide_status status = fn(user);
  if (drop) drop(user);
  return status;
}

tide_status tide_defer(tide_status (*fn)(void *user), void (*drop)(void *user), void *user, const char *where) {
  if (!fn) return tide__fail(TIDE_ARGUMENT, "defer: fn is missing, got NULL, expected a function");
  if (!tide__running()) return tide__fail(TIDE_STATE, "defer: tide is not started, expected tide_init first");
  if (tide__device_any_open()) return run_now(fn, drop, user);
  deferred *d = malloc(sizeof *d);
  if (!d) return tide__fail(TIDE_MEMORY, "defer: no host memory");
  *d = (deferred){.fn = fn, .drop = drop, .user = user};
  strncpy(d->where, where ? where : "", WHERE - 1);
  TIDE_LOCKED(&lock);
  *last = d, last = &d->next;
  return TIDE_OK;
}

static deferred *take_all(void) {
  TIDE_LOCKED(&lock);
  deferred *list = first;
  first = NULL, last = &first;
  return list;
}

/* Every entry runs; the first failure is the one that is told. */
static tide_status run_deferred(void) {
  tide_status result = TIDE_OK;
  char message[1024] = "";
  for (deferred *d = take_all(), *next; d; d = next) {
    next = d->next;
    if (run_now(d->fn, d->drop, d->user) != TIDE_OK && result == TIDE_OK) {
      tide__fail(TIDE_DEFERRED, "cuda: a call made before the first use of a device failed: %s%s%s",
                 tide_error_get()->message, d->where[0] ? "; it was made at " : "", d->where);
      strncpy(message, tide_error_get()->message, sizeof message - 1);
      result = TIDE_DEFERRED;
    }
    free(d);
  }
  return result == TIDE_OK ? TIDE_OK : tide__fail(result, "%s", message);
}

/* A device that there is no code for is found now rather than by the first kernel's failure. */
static void warn_of_old(int device) {
  const tide_device_props *p;
  bool supported;
  int major, minor;
  if (tide_device_supported(&supported, device) != TIDE_OK || supported) return;
  if (tide_device_get_props(&p, device) != TIDE_OK || tide_min_capability(&major, &minor) != TIDE_OK) return;
  char text[512];
  snprintf(text, sizeof text,
           "cuda: %s (%s) has compute capability %d.%d, for which this library was not compiled: the lowest is %d.%d",
           p->name, tide__device_text(device), p->major, p->minor, major, minor);
  tide__warn(text);
}

tide_status tide__opened(int device) {
  warn_of_old(device);
  return run_deferred();
}

void tide__defer_shutdown(void) {
  for (deferred *d = take_all(), *next; d; d = next) {
    next = d->next;
    if (d->drop) d->drop(d->user);
    free(d);
  }
}
