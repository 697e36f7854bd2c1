/* lock.h: a mutex that is held until the block is left, by any way. Private to core. */
#pragma once

#include <pthread.h>

static inline pthread_mutex_t *tide__lock(pthread_mutex_t *mutex) {
  pthread_mutex_lock(mutex);
  return mutex;
}
static inline void tide__unlock(pthread_mutex_t **mutex) { pthread_mutex_unlock(*mutex); }
/* A declaration, once in a block. */
#define TIDE_LOCKED(mutex)                                                                                             \
  __attribute__((cleanup(tide__unlock), unused)) pthread_mutex_t *held_until_here_ = tide__lock(mutex)
