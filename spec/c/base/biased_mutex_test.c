/* biased_mutex_test.c: the lock that becomes a thread's own: one at a time is inside, whoever takes it and in whatever
 * rhythm. */
#include "base/biased_mutex.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#ifdef _WIN32 /* MinGW's mutexes ask the kernel when they are held, and Wine its server */
enum { THREADS = 6, ROUNDS = 200, MANY = 70 };
#else
enum { THREADS = 6, ROUNDS = 2000, MANY = 70 };
#endif

static tide__biased lock;
static int64_t count, other_count; /* plain: what a second thread inside would lose */
static _Atomic int begun;
static time_t end; /* of the bursts: on a machine with much else to do each hand-over waits for a processor */

/* Some steps try first. */
static void step(int i) {
  if (i % 3 || !tide__biased_trylock(&lock)) tide__biased_lock(&lock);
  int64_t before = count;
  if (before % 100 == 0) sched_yield(); /* others get the processor while this one is inside */
  count = before + 1;
  other_count = -count;
  tide__biased_unlock(&lock);
}

/* Some take it often enough in a row to own it, some never. */
static void *in_bursts(void *arg) {
  unsigned seed = (unsigned)(size_t)arg + 1;
  int64_t mine = 0;
  begun++;
  while (begun < THREADS) sched_yield();
  for (int i = 0; i < ROUNDS && time(NULL) < end; i++) {
    seed = seed * 1664525u + 1013904223u;
    int n = (seed >> 16) % 8 ? (int)((seed >> 20) % 50) : (int)((seed >> 20) % 2000);
    for (int k = 0; k < n; k++) step(k);
    mine += n;
    if (seed >> 31) usleep(50);
  }
  return (void *)(size_t)mine;
}

static void one_at_a_time(void) {
  pthread_t thread[THREADS];
  int64_t wanted = 0;
  count = 0, end = time(NULL) + 60;
  for (size_t i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, in_bursts, (void *)i) == 0);
  for (int i = 0; i < THREADS; i++) {
    void *mine;
    pthread_join(thread[i], &mine);
    wanted += (int64_t)(size_t)mine;
  }
  CHECK(count == wanted && other_count == -wanted);
}

static uint8_t owner(void) { return lock.owner; }

static void *takes_once(void *arg) {
  (void)arg;
  step(1);
  return NULL;
}

static void *tries_once(void *taken) {
  *(bool *)taken = tide__biased_trylock(&lock);
  if (*(bool *)taken) tide__biased_unlock(&lock);
  return NULL;
}

/* False where the lock is held, by its owner too, who stays that; true where it is free. */
static void tries_elsewhere(void) {
  for (int held = 1; held >= 0; held--) {
    pthread_t thread;
    bool taken = held;
    uint8_t before = owner();
    if (held) tide__biased_lock(&lock);
    CHECK(pthread_create(&thread, NULL, tries_once, &taken) == 0);
    pthread_join(thread, NULL);
    CHECK(taken == !held && owner() == (held ? before : 0));
    if (held) tide__biased_unlock(&lock);
  }
}

static void once_elsewhere(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, takes_once, NULL) == 0);
  pthread_join(thread, NULL);
}

/* Tells whether locks become anybody's own here. */
static bool becomes_its_takers(void) {
  for (int i = 0; i < 1000; i++) step(i);
  bool owned = owner() != 0;
  once_elsewhere();
  CHECK(owner() == 0);
  for (int i = 0; i < 1000; i++) step(i);
  CHECK(owned == (owner() != 0));
  return owned;
}

/* More than there are numbers for, one after the other and at once. */
static void many_threads(void) {
  int64_t before = count;
  for (int i = 0; i < MANY; i++) once_elsewhere();
  pthread_t thread[MANY];
  for (int i = 0; i < MANY; i++) CHECK(pthread_create(&thread[i], NULL, takes_once, NULL) == 0);
  for (int i = 0; i < MANY; i++) pthread_join(thread[i], NULL);
  CHECK(count == before + 2 * MANY);
}

int main(void) {
  bool owned = becomes_its_takers();
  tries_elsewhere();
  one_at_a_time();
  many_threads();
  becomes_its_takers();
  printf("biased: locks are %s thread's own here; %d failures\n", owned ? "a" : "no", failures);
  return failures != 0;
}
