/* biased_mutex.c: a mutex that costs the thread which takes it again and again no locked instruction.
 *
 * Most programs use a device from one thread. A lock that a thread has taken many times in a row becomes its own: it
 * then says that it is inside by a plain store, and looks whether the lock is still its own by a plain load. A thread
 * that finds the lock another's takes the mutex, takes the lock away from its owner, and makes every processor that
 * runs a thread of the process pass a barrier (tide__os_barrier), after which the owner has either seen that it has
 * lost the lock or been seen inside, where it is waited for. That costs microseconds, so a lock is nobody's until one
 * thread has taken it many times in a row again.
 *
 * Where there is no such call, and under the thread sanitizer, which does not know it, this is the mutex alone.
 *
 * Invariants: `owner`, where it is not 0, changes by whoever holds the mutex alone; a thread writes no other's
 * `inside`. So what is left of a thread that has lost the lock and was slow to see it disturbs nobody. */
#include "biased_mutex.h"

#include <sched.h>

#include "base.h"
#include "os/os.h"

enum { IN_A_ROW = 200 };

_Thread_local uint8_t tide__thread_number;

/* ---- the numbers of threads ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t numbers_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t numbers = 1; /* bits of those that are taken; 0 stands for nobody */
static bool able;

static void give_number(void) {
  pthread_mutex_lock(&numbers_lock);
  if (tide__thread_number) numbers &= ~((uint64_t)1 << tide__thread_number);
  tide__thread_number = 0;
  pthread_mutex_unlock(&numbers_lock);
}

static void prepare(void) {
  able = tide__os_barrier_prepare();
  if (able) tide__thread_at_end(give_number);
}

/* A thread that gets the number of one that has ended gets its locks too. */
static uint8_t take_number(void) {
  if (tide__thread_number) return tide__thread_number;
  pthread_once(&once, prepare);
  if (!able) return 0;
  pthread_mutex_lock(&numbers_lock);
  if (~numbers) {
    tide__thread_number = (uint8_t)__builtin_ctzll(~numbers);
    numbers |= (uint64_t)1 << tide__thread_number;
  }
  pthread_mutex_unlock(&numbers_lock);
  if (tide__thread_number) tide__thread_touch();
  return tide__thread_number;
}

/* ---- the lock ---- */

/* The mutex is held. */
static void take_away(tide__biased *l, uint8_t owner) {
  atomic_store_explicit(&l->owner, 0, memory_order_relaxed);
  tide__os_barrier();
  while (atomic_load_explicit(&l->inside[owner], memory_order_acquire)) sched_yield();
  l->row = 0;
}

/* All zeros is a mutex with glibc; elsewhere the first to come makes one. */
static void make_mutex(tide__biased *l) {
#ifdef __GLIBC__
#else
  if (atomic_load_explicit(&l->made, memory_order_acquire)) return;
  pthread_mutex_lock(&numbers_lock);
  if (!atomic_load(&l->made)) pthread_mutex_init(&l->mutex, NULL);
  atomic_store_explicit(&l->made, true, memory_order_release);
  pthread_mutex_unlock(&numbers_lock);
#endif
}

/* The mutex is held, and nobody else is inside. */
static void enter(tide__biased *l, uint8_t self) {
  l->row = l->last != self ? 0 : l->row < IN_A_ROW ? (uint8_t)(l->row + 1) : l->row;
  l->last = self;
  if (self && l->row == IN_A_ROW) atomic_store_explicit(&l->owner, self, memory_order_relaxed);
  l->by_mutex = true;
}

void tide__biased_lock_slow(tide__biased *l) {
  make_mutex(l);
  uint8_t self = take_number();
  pthread_mutex_lock(&l->mutex);
  uint8_t owner = atomic_load_explicit(&l->owner, memory_order_relaxed);
  if (owner && owner != self) take_away(l, owner);
  enter(l, self);
}

/* An owner that is inside stays the owner. */
static bool try_to_enter(tide__biased *l, uint8_t self) {
  uint8_t owner = atomic_load_explicit(&l->owner, memory_order_relaxed);
  if (owner && owner != self) {
    atomic_store_explicit(&l->owner, 0, memory_order_relaxed);
    tide__os_barrier();
    if (atomic_load_explicit(&l->inside[owner], memory_order_acquire)) {
      atomic_store_explicit(&l->owner, owner, memory_order_relaxed);
      pthread_mutex_unlock(&l->mutex);
      return false;
    }
    l->row = 0;
  }
  enter(l, self);
  return true;
}

/* One thread at a time tries, so that it fails because of a holder and not because of another one that fails. */
bool tide__biased_trylock_slow(tide__biased *l) {
  make_mutex(l);
  uint8_t self = take_number();
  while (atomic_exchange(&l->trying, true)) sched_yield();
  bool taken = !pthread_mutex_trylock(&l->mutex) && try_to_enter(l, self);
  atomic_store(&l->trying, false);
  return taken;
}
