/* thread.c: what a thread leaves behind when it ends.
 *
 * Some rooms keep small caches and references for each thread. They name a function once; it runs on every thread that
 * has touched such a cache, as the thread ends. One key of pthreads serves them all, and it goes when this library is
 * unloaded: a thread that outlives the library must not jump into it.
 *
 * Invariant: the functions run in the thread whose leavings they clear, before its thread-local storage is gone. */
#include "base.h"

enum { FUNCTIONS = 12 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;
static _Atomic(void (*)(void)) functions[FUNCTIONS];
static _Atomic int count;
static _Thread_local bool touched;

static void at_end(void *unused) {
  touched = false;
  int n = atomic_load(&count);
  for (int i = 0; i < n && i < FUNCTIONS; i++) {
    void (*fn)(void) = atomic_load(&functions[i]);
    if (fn) fn();
  }
}

static void make_key(void) { have_key = pthread_key_create(&key, at_end) == 0; }

__attribute__((destructor)) static void drop_key(void) {
  if (have_key) pthread_key_delete(key);
  have_key = false;
}

void tide__thread_at_end(void (*fn)(void)) {
  int n = atomic_fetch_add(&count, 1);
  if (n < FUNCTIONS) atomic_store(&functions[n], fn);
}

void tide__thread_touch(void) {
  if (touched) return;
  pthread_once(&once, make_key);
  if (have_key && pthread_setspecific(key, &touched) == 0) touched = true;
}
