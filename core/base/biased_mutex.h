/* biased_mutex.h: a mutex for one frequent owner, whose thread takes it without a locked instruction (core only). */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { TIDE__BIASED_THREADS = 64 }; /* how many threads at a time may have locks of their own */

/* All zeros is a lock that is free. */
typedef struct tide__biased {
  pthread_mutex_t mutex;
  _Atomic uint8_t owner; /* the number of the thread whose own it is; 0: nobody's */
#ifndef __GLIBC__
  _Atomic bool made; /* there is a mutex: elsewhere all zeros is none */
#endif
  _Atomic bool trying;                       /* a thread is in tide__biased_trylock_slow */
  bool by_mutex;                             /* of the holder: it holds the mutex */
  uint8_t last, row;                         /* who took the mutex last, and how often in a row; the mutex is held */
  _Atomic bool inside[TIDE__BIASED_THREADS]; /* each thread's: it holds the lock as its owner, or is about to look */
} tide__biased;

extern _Thread_local uint8_t tide__thread_number; /* from 1; 0: none yet */
void tide__biased_lock_slow(tide__biased *l);
bool tide__biased_trylock_slow(tide__biased *l);

static inline bool tide__biased_is_taken_again(tide__biased *l) {
  uint8_t self = tide__thread_number;
  if (!self || atomic_load_explicit(&l->owner, memory_order_relaxed) != self) return false;
  atomic_store_explicit(&l->inside[self], true, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst); /* whoever takes it away makes this one for all processors */
  if (atomic_load_explicit(&l->owner, memory_order_relaxed) == self) return true;
  atomic_store_explicit(&l->inside[self], false, memory_order_release);
  return false;
}

static inline void tide__biased_lock(tide__biased *l) {
  if (!tide__biased_is_taken_again(l)) tide__biased_lock_slow(l);
}

/* False where another thread holds it: what this one has written before is seen by that one after its unlock. */
static inline bool tide__biased_trylock(tide__biased *l) {
  return tide__biased_is_taken_again(l) || tide__biased_trylock_slow(l);
}

static inline void tide__biased_unlock(tide__biased *l) {
  if (l->by_mutex) {
    l->by_mutex = false;
    pthread_mutex_unlock(&l->mutex);
  } else {
    atomic_store_explicit(&l->inside[tide__thread_number], false, memory_order_release);
  }
}
