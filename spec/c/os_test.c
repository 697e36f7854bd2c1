/* os_test.c: what the room for the operating system promises. It needs no other part of tide, so that it is built for
 * another system, and run there, before anything else is. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "os/os.h"

static int failures;
#define CHECK(x)                                                                                                       \
  do {                                                                                                                 \
    if (!(x)) failures++, fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                                      \
  } while (0)

static bool zeros(const char *at, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (at[i]) return false;
  return true;
}

static void test_pages(void) {
  const size_t bytes = 3 << 20, aligns[] = {0, 65536, (size_t)2 << 20, (size_t)16 << 20};
  for (size_t i = 0; i < sizeof aligns / sizeof *aligns; i++) {
    char *at = tide__os_map(bytes, aligns[i]);
    CHECK(at && (!aligns[i] || (uintptr_t)at % aligns[i] == 0));
    if (!at) continue;
    CHECK(zeros(at, bytes));
    memset(at, 7, bytes);
    tide__os_huge(at, bytes);
    CHECK(at[0] == 7 && at[bytes - 1] == 7);
    tide__os_unmap(at, bytes);
  }
  CHECK(!tide__os_map((size_t)1 << 62, 0));

  char *range = tide__os_reserve((size_t)1 << 32);
  CHECK(range != NULL);
  if (!range) return;
  for (int round = 0; round < 2; round++) {
    char *at = range + ((size_t)1 << 31);
    CHECK(tide__os_back(at, 1 << 20));
    CHECK(zeros(at, 1 << 20)); /* the second time, too */
    memset(at, 1, 1 << 20);
    tide__os_unback(at, 1 << 20);
  }
  tide__os_unmap(range, (size_t)1 << 32);
}

static void test_aligned(void) {
  for (size_t align = 16; align <= (size_t)2 << 20; align *= 2) {
    char *p = tide__os_aligned(align, 1000);
    CHECK(p && (uintptr_t)p % align == 0);
    if (p) memset(p, 1, 1000);
    tide__os_aligned_free(p);
  }
}

static void test_machine(void) {
  size_t unused = 0, total = 0;
  tide__os_memory(&unused, &total);
  CHECK(total > (size_t)1 << 26 && unused <= total);
  CHECK(tide__os_processors(true) >= 1 && tide__os_processors(false) >= 1);
  CHECK(tide__os_cache(2) >= 0 && tide__os_cache(3) >= 0);
  uint64_t a[4] = {0}, b[4] = {0};
  CHECK(tide__os_random(a, sizeof a) && tide__os_random(b, sizeof b));
  CHECK(memcmp(a, b, sizeof a) != 0 && (a[3] || b[3]));
}

static void test_time(void) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  struct timespec then;
  int64_t begun = tide__os_coarse_ms();
  clock_gettime(CLOCK_MONOTONIC, &then);
  then.tv_nsec += 60000000;
  if (then.tv_nsec >= 1000000000) then.tv_sec++, then.tv_nsec -= 1000000000;
  pthread_mutex_lock(&mutex);
  tide__os_wait_until(&condition, &mutex, &then);
  pthread_mutex_unlock(&mutex);
  int64_t passed = tide__os_coarse_ms() - begun;
  CHECK(passed >= 30 && passed < 60000);
  then.tv_sec -= 10; /* over already */
  pthread_mutex_lock(&mutex);
  tide__os_wait_until(&condition, &mutex, &then);
  pthread_mutex_unlock(&mutex);
}

/* Two threads that store and then look at each other's: with the barrier of one of them at least one sees the other. */
static _Atomic int ready, here, there, seen_there;
enum { ROUNDS = 2000 };

static void *other(void *unused) {
  for (int i = 1; i <= ROUNDS; i++) {
    while (atomic_load(&ready) < i) {}
    atomic_store_explicit(&there, i, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    int seen = atomic_load_explicit(&here, memory_order_relaxed);
    atomic_store(&seen_there, seen == i ? i : -i);
  }
  return unused;
}

static void test_barrier(void) {
  pthread_t thread;
  if (!tide__os_barrier_prepare() || pthread_create(&thread, NULL, other, NULL)) return;
  int both_blind = 0;
  for (int i = 1; i <= ROUNDS; i++) {
    atomic_store(&ready, i);
    atomic_store_explicit(&here, i, memory_order_relaxed);
    tide__os_barrier();
    bool saw = atomic_load_explicit(&there, memory_order_relaxed) == i;
    int told;
    do { told = atomic_load(&seen_there); } while (told != i && told != -i);
    both_blind += !saw && told != i;
  }
  pthread_join(thread, NULL);
  CHECK(both_blind == 0);
}

static int local;

static void test_code(void) {
  char program[4096], same[4096];
  CHECK(tide__os_file_of(program, sizeof program, NULL) && strstr(program, "os_test"));
  CHECK(tide__os_file_of(same, sizeof same, (const void *)(uintptr_t)test_code) && !strcmp(program, same));
  CHECK(!tide__os_file_of(program, 4, NULL));
  CHECK(!tide__os_library("no/such/library", true) && *tide__os_library_problem());
#ifdef _WIN32
  const char *name = "kernel32.dll", *symbol = "GetTickCount";
#elif defined(__APPLE__)
  const char *name = "libSystem.B.dylib", *symbol = "malloc";
#else
  const char *name = "libm.so.6", *symbol = "cos";
#endif
  void *library = tide__os_library(name, false);
  CHECK(library && tide__os_symbol(library, symbol) && !tide__os_symbol(library, "no_such_symbol"));
  CHECK(!library || tide__os_symbol(library, symbol) != (void *)&local);
  if (library) tide__os_library_close(library);
}

int main(void) {
  test_pages();
  test_aligned();
  test_machine();
  test_time();
  test_barrier();
  test_code();
  printf("os_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
