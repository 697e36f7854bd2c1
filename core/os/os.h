/* os.h: what the operating system brings beyond C11 and POSIX threads. Private to core.
 *
 * Threads, mutexes, conditions and clock_gettime are POSIX's everywhere: macOS has them, and MinGW brings them to
 * Windows. Everything that differs is behind these functions, in one file for each system. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifdef _WIN32
#  include <malloc.h>
#endif

/* ---- time ---- */

/* In milliseconds; a few nanoseconds to read, right to some milliseconds. */
static inline int64_t tide__os_coarse_ms(void) {
  struct timespec t;
#ifdef CLOCK_MONOTONIC_COARSE
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
#else
  clock_gettime(CLOCK_MONOTONIC, &t);
#endif
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Since some moment, by CLOCK_MONOTONIC. */
static inline int64_t tide__os_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}
static inline double tide__os_seconds(void) { return 1e-9 * (double)tide__os_ns(); }

/* Waits for the condition until then by CLOCK_MONOTONIC, or for less; the mutex is held. */
void tide__os_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *then);

/* ---- the machine ---- */

int tide__os_processors(bool usable); /* all, or the usable ones of this process; at least 1 */
bool tide__os_may_use(int processor); /* counted from 0: may this process run there? */
/* Of the machine, in bytes; 0 where nobody knows. */
void tide__os_memory(size_t *unused, size_t *total);
int64_t tide__os_cache(int level);             /* 2 or 3: bytes of a processor's cache; 0 where nobody knows */
bool tide__os_random(void *out, size_t bytes); /* numbers that nobody can foresee; false: there are none */

/* ---- pages ---- */

/* Zeros, for reading and writing, at a multiple of `align`, a power of two of at least a page, or 0. Of huge pages
 * where `align` is as large as one and the system has them. NULL: no memory. */
void *tide__os_map(size_t bytes, size_t align);
/* Addresses that nothing may be done with until they are backed. */
void *tide__os_reserve(size_t bytes);
bool tide__os_back(void *at, size_t bytes);   /* whole pages of those: for reading and writing, zeros at first */
void tide__os_unback(void *at, size_t bytes); /* as they were reserved; the pages go back to the system */
void tide__os_unmap(void *at, size_t bytes);  /* all that one call has mapped or reserved */
void tide__os_huge(void *at, size_t bytes);   /* huge pages are welcome there */

/* Memory at a multiple of `align`, a power of two. */
static inline void *tide__os_aligned(size_t align, size_t bytes) {
#ifdef _WIN32
  return _aligned_malloc(bytes, align);
#else
  void *p = NULL;
  return posix_memalign(&p, align, bytes) ? NULL : p;
#endif
}
static inline void tide__os_aligned_free(void *p) {
#ifdef _WIN32
  _aligned_free(p);
#else
  free(p);
#endif
}

/* ---- processors that run threads of this process ---- */

/* Can tide__os_barrier be called? To be asked once before. */
bool tide__os_barrier_prepare(void);
/* Each of them passes a memory barrier before this returns. */
void tide__os_barrier(void);

/* From now on an integer division of this thread's that traps gives a number and goes on, or no more. */
void tide__os_divides(bool is_inside);

/* ---- code ---- */

/* Opens a library, with its symbols for nobody else; `now`: with all that it needs, or not at all. NULL: see why. */
void *tide__os_library(const char *path, bool now);
void *tide__os_library_loaded(const char *name); /* one that the process has already, by its own name; to be closed */
void *tide__os_symbol(void *library, const char *name);
void tide__os_library_close(void *library);
const char *tide__os_library_problem(void); /* why the last call of these failed, on this thread */
/* The full name of the file that the code at this address was loaded from; NULL: of the program. */
bool tide__os_file_of(char *out, size_t size, const void *code);
/* Has another host acknowledged none of what this process sent by TCP, for some 3 s? */
bool tide__os_is_unanswered(void);
