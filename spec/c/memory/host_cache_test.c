/* host_cache_test.c: large pieces of CPU memory: whose they are, how long they are kept, many threads at once. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/host_cache.h"
#include "memory/idle.h"
#include "memory_test.h"

#if !defined(__SANITIZE_ADDRESS__)

static tide_cpu_memory_stats cpu(void) {
  tide_cpu_memory_stats s;
  tide_cpu_memory_get_stats(&s);
  return s;
}

static tide_storage *piece(size_t bytes) {
  tide_storage *s = NULL;
  OK(tide__storage_new(&s, bytes, TIDE_CPU, false));
  return s;
}

static void rooms(void) {
  for (size_t size = 65537; size < (size_t)1 << 46; size += size / 3 + 1) {
    size_t room = tide__host_room(size);
    CHECK(room >= size && room - size < size / 8 + 1 && tide__host_room(room) == room && room % 64 == 0);
  }
  CHECK(tide__host_room(4 * MiB) == 4 * MiB && tide__host_room(4 * MiB + 1) == 4 * MiB + 512 * 1024);
}

/* What tensors on the CPU take now, and took at most. */
static void peaks(void) {
  start(0, 0);
  tide_cpu_memory_reset_peak();
  const size_t before = cpu().allocated_bytes;
  CHECK(cpu().peak_bytes == before);
  tide_storage *a = piece(2 * MiB), *b = piece(MiB);
  tide_storage_release(a);
  CHECK(cpu().allocated_bytes == before + MiB && cpu().peak_bytes == before + 3 * MiB);
  tide_cpu_memory_reset_peak();
  CHECK(cpu().peak_bytes == before + MiB);
  tide_storage_release(b);
  CHECK(cpu().allocated_bytes == before && cpu().peak_bytes == before + MiB);
  tide_shutdown();
}

static void idle(void) {
  start(0, 0);
  tide_storage *a = piece(MiB), *b = piece(3 * MiB);
  tide_storage_release(a);
  CHECK(cpu().cached_bytes.current == (int64_t)MiB);
  tide__idle_ahead += 1500;
  tide_storage_release(b);
  tide_memory_pump();
  CHECK(cpu().cached_bytes.current == (int64_t)(4 * MiB));
  tide__idle_ahead += 1000;
  tide_memory_pump();
  CHECK(cpu().cached_bytes.current == (int64_t)(3 * MiB)); /* `a` was idle for two seconds */
  a = piece(3 * MiB);
  CHECK(cpu().cached_bytes.current == 0);
  tide_storage_release(a); /* has been used since */
  tide__idle_ahead += 1500;
  tide_memory_pump();
  CHECK(cpu().cached_bytes.current == (int64_t)(3 * MiB));
  tide__idle_ahead += 1000;
  CHECK(cpu().cached_bytes.current == 0); /* asking is enough */
  for (int i = 0; i < 40; i++) a = piece(6 * MiB), b = piece(6 * MiB), tide_storage_release(a), tide_storage_release(b);
  tide_storage *held[8];
  for (int i = 0; i < 8; i++) held[i] = piece(10 * MiB);
  for (int i = 0; i < 8; i++) tide_storage_release(held[i]);
  tide__idle_ahead += 3000;
  a = piece(100000); /* an allocation gives back a little at a time */
  tide_storage_release(a);
  tide_cpu_memory_stats s = {0};
  tide__host_cache_stats(&s);
  CHECK(s.cached_bytes.current > (int64_t)(40 * MiB) && s.cached_bytes.current < (int64_t)(92 * MiB));
  tide_shutdown();
  CHECK(cpu().cached_bytes.current == 0);
}

static int64_t held_bytes;
static void *hook_alloc(void *user, size_t bytes, size_t align) {
  void *p = NULL;
  (void)user;
  if (held_bytes + (int64_t)bytes > (int64_t)(20 * MiB) || posix_memalign(&p, align, bytes)) return NULL;
  held_bytes += (int64_t)bytes;
  return p;
}
static void hook_free(void *user, void *ptr, size_t bytes) {
  (void)user;
  held_bytes -= (int64_t)bytes;
  free(ptr);
}

/* A host's memory is kept too; it is given back before an allocation fails, and at the end. */
static void hooks(void) {
  start(0, 0);
  tide_storage_release(piece(MiB)); /* our own */
  tide_shutdown();
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .alloc = hook_alloc, .free = hook_free}));
  int64_t before = cpu().num_alloc;
  for (int i = 0; i < 5; i++) tide_storage_release(piece(12 * MiB));
  CHECK(held_bytes == (int64_t)(12 * MiB) && cpu().num_alloc == before + 1);
  tide_storage *s = piece(15 * MiB), *none;
  CHECK(held_bytes == (int64_t)(15 * MiB));
  CHECK(tide__storage_new(&none, 15 * MiB, TIDE_CPU, false) == TIDE_MEMORY);
  tide_shutdown();
  CHECK(held_bytes == (int64_t)(15 * MiB));
  tide_storage_release(s); /* back to the host, though tide has ended */
  CHECK(held_bytes == 0);
}

enum { THREADS = 8, ROUNDS = 2000 };
static void *churn(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  tide_storage *mine[8] = {0};
  for (int i = 0; i < ROUNDS; i++) {
    seed = seed * 1664525u + 1013904223u;
    int k = (int)(seed >> 8) & 7;
    tide_storage_release(mine[k]);
    mine[k] = piece(65537 + (seed >> 12) % 400000);
    *(unsigned *)tide_storage_data(mine[k]) = seed;
    for (int j = 0; j < 8; j++)
      if (mine[j] && j != k) ((char *)tide_storage_data(mine[j]))[mine[j]->nbytes - 1] = (char)j;
    if (!(i & 255)) tide_cpu_memory_empty_cache();
    CHECK(*(unsigned *)tide_storage_data(mine[k]) == seed);
  }
  for (int k = 0; k < 8; k++) tide_storage_release(mine[k]);
  return NULL;
}

static void threads(void) {
  start(0, 0);
  pthread_t thread[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, churn, (void *)(uintptr_t)(i + 1));
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  CHECK(tide_memory_cpu_allocated() == 0 && cpu().num_cache_hits > 0);
  tide_shutdown();
  CHECK(cpu().cached_bytes.current == 0 && cpu().num_alloc == cpu().num_free);
}

/* A fork while a worker gives back what is idle: the child has no such worker, and ends as ever. */
#  if !defined(__SANITIZE_THREAD__) /* which does not follow a fork of a program with threads */

static pthread_t caller;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool giving, go_on;

static void *aside_alloc(void *user, size_t bytes, size_t align) {
  void *p = NULL;
  (void)user;
  return posix_memalign(&p, align, bytes) ? NULL : p;
}
static void aside_free(void *user, void *ptr, size_t bytes) {
  (void)user, (void)bytes;
  if (!pthread_equal(pthread_self(), caller)) {
    pthread_mutex_lock(&gate);
    giving = true;
    pthread_cond_broadcast(&changed);
    while (!go_on) pthread_cond_wait(&changed, &gate);
    pthread_mutex_unlock(&gate);
  }
  free(ptr);
}

static void nothing(void *arg, int64_t begin, int64_t end) { (void)arg, (void)begin, (void)end; }

static void forked(void) {
  caller = pthread_self();
  OK(tide_init(
      &(tide_config){.struct_size = sizeof(tide_config), .num_threads = 2, .alloc = aside_alloc, .free = aside_free}));
  tide_storage *s = piece(2 * MiB);
  tide__parallel_for(1000, 1, nothing, NULL);
  tide_storage_release(s);
  tide__idle_ahead += 3000;
  pthread_mutex_lock(&gate);
  while (!giving) pthread_cond_wait(&changed, &gate);
  pthread_mutex_unlock(&gate);
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    tide_storage_release(piece(3 * MiB));
    tide__parallel_for(1000, 1, nothing, NULL);
    tide__idle_trim_background();
    tide_shutdown();
    _exit(failures != 0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  pthread_mutex_lock(&gate);
  go_on = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&gate);
  tide_shutdown();
}

#  else
static void forked(void) {}
#  endif

int main(void) {
  rooms();
  peaks();
  idle();
  hooks();
  threads();
  forked();
  printf("host_cache_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}

#else

int main(void) { /* nothing is kept */
  printf("host_cache_test: passed\n");
  return 0;
}

#endif
