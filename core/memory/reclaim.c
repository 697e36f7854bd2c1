/* reclaim.c: asking the host to free memory that it does not need.
 *
 * When an allocation does not fit, the hooks run: a host with a garbage collector collects. Those of other threads can
 * only be asked, and answer later. What was allocated lately paces a collector between such moments.
 *
 * Invariants: no hook of the host runs while a lock of ours is held; a hook that has been removed is not running and
 * will not run. */
#include "memory.h"

#include <time.h>

enum { HOOKS = 64 };

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

static _Thread_local bool reclaiming;
static _Thread_local size_t pace;

bool tide__reclaiming(void) { return reclaiming; }

tide_status tide_reclaim_add(tide_reclaim_fn fn, void *user) {
  if (!fn) return tide__fail(TIDE_ARGUMENT, "reclaim_add: fn is missing, got NULL, expected a function");
  TIDE_LOCKED(&reclaim.lock);
  int i = 0;
  while (i < HOOKS && (reclaim.hook[i].fn || reclaim.hook[i].running)) i++;
  if (i < HOOKS) reclaim.hook[i].fn = fn, reclaim.hook[i].user = user;
  return i < HOOKS
             ? TIDE_OK
             : tide__fail(TIDE_STATE, "reclaim_add: too many hooks, got %d, expected at most %d", HOOKS + 1, HOOKS);
}

/* Waits until the hook is not running on another thread: its user data may go after this. */
void tide_reclaim_remove(tide_reclaim_fn fn, void *user) {
  TIDE_LOCKED(&reclaim.lock);
  for (int i = 0; i < HOOKS; i++) {
    if (reclaim.hook[i].fn != fn || reclaim.hook[i].user != user) continue;
    reclaim.hook[i].fn = NULL;
    while (reclaim.hook[i].running && !reclaiming) pthread_cond_wait(&reclaim.idle, &reclaim.lock);
  }
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
  TIDE_LOCKED(&reclaim.lock);
  reclaim.answers++;
  pthread_cond_broadcast(&reclaim.answered);
}

bool tide__reclaim_wait(void) {
  enum { BOUND = 200000000 }; /* nanoseconds */
  if (!asked.threads || reclaiming) return false;
  asked.threads = 0;
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec += BOUND;
  if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
  TIDE_LOCKED(&reclaim.lock);
  while (reclaim.answers < asked.until && pthread_cond_timedwait(&reclaim.answered, &reclaim.lock, &end) == 0) {}
  return true;
}

/* ---- how fast bytes are taken: what paces a collector ---- */

void tide__pace_add(size_t bytes) { pace += bytes; }

size_t tide_pace_take(void) {
  size_t bytes = pace;
  pace = 0;
  return bytes;
}
