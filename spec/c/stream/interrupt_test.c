/* interrupt_test.c: how soon an operation of the CPU sees that its host wants it to end: every loop is looked after, on
 * the pool, on one thread and on threads of the host's, and what an interrupted operation leaves behind harms nobody.
 *
 * Time is this thread's own between two looks, so that what else the machine does is not in it. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "tensor/tensor.h"
#include "tide/fft.h"

/* ---- the host that interrupts ---- */

static _Atomic long asks;
static long stop_at; /* the ask that is answered with yes; negative: none */
static double longest, last_ask;

static double worked(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note_gap(void) {
  double now = worked();
  if (now - last_ask > longest) longest = now - last_ask;
  last_ask = now;
}

static int on_ask(void *user) {
  (void)user;
  note_gap();
  return asks++ == stop_at;
}

static void begin_asks(long at) {
  atomic_store(&asks, 0);
  stop_at = at, longest = 0;
  last_ask = worked();
}

/* ---- loops ---- */

enum { ITEMS = 4096 };
static _Atomic int done[ITEMS];

/* Other threads do nothing before the calling one has been told, however the machine runs them. */
static bool others_wait;
static pthread_t caller;

static void mark(void *arg, int64_t begin, int64_t end) {
  (void)arg;
  if (others_wait && !pthread_equal(pthread_self(), caller))
    while (asks <= stop_at) sched_yield();
  for (int64_t i = begin; i < end; i++) {
    atomic_fetch_add(&done[i], 1);
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < 5000);
  }
}

/* How many items have been done, each once. */
static int64_t count_done(void) {
  int64_t sum = 0;
  for (int i = 0; i < ITEMS; i++) {
    CHECK(done[i] <= 1);
    sum += done[i];
    done[i] = 0;
  }
  return sum;
}

/* A loop is left soon after the host says so, and the next one is whole. */
static void test_loop(void (*loop)(int64_t, int64_t, tide_task_fn, void *), int64_t grain, bool takes_part) {
  begin_asks(1);
  others_wait = takes_part, caller = pthread_self();
  tide__loops_begin();
  loop(ITEMS, grain, mark, NULL);
  CHECK(tide__loop_stops());
  loop(ITEMS, grain, mark, NULL); /* what comes after in the same operation is not begun */
  CHECK(tide__loops_end(TIDE_OK) == TIDE_INTERRUPTED);
  others_wait = false;
  int64_t some = count_done();
  CHECK(some < ITEMS / 2);
  CHECK(!tide__loop_stops());
  begin_asks(-1);
  tide__loops_begin();
  loop(ITEMS, grain, mark, NULL);
  OK(tide__loops_end(TIDE_OK));
  CHECK(count_done() == ITEMS && asks > 0);
  begin_asks(0);
  loop(ITEMS, grain, mark, NULL); /* not within an operation */
  CHECK(count_done() == ITEMS && asks == 0);
}

static void test_loops(void) {
  for (int64_t grain = 1; grain <= 16; grain *= 4) {
    test_loop(tide__serial_for, grain, true);
    test_loop(tide__parallel_for, grain, true);
  }
}

/* ---- a host's threads ---- */

typedef struct share {
  tide_task_fn fn;
  void *arg;
  int64_t begin, end;
} share;

static void *run_share(void *arg) {
  const share *s = arg;
  s->fn(s->arg, s->begin, s->end);
  return NULL;
}

/* Two halves on threads of its own; user: the calling thread takes one of them. */
static void host_for(void *user, int64_t n, int64_t grain, tide_task_fn fn, void *arg) {
  int64_t half = n / 2 / grain * grain;
  share s[2] = {{fn, arg, 0, half}, {fn, arg, half, n}};
  pthread_t threads[2];
  for (int i = user ? 1 : 0; i < 2; i++)
    if (pthread_create(&threads[i], NULL, run_share, &s[i])) exit(2);
  if (user) run_share(&s[0]);
  for (int i = user ? 1 : 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static void test_host(bool takes_part) {
  static int yes;
  tide_config config = {.struct_size = sizeof config, .user = takes_part ? &yes : NULL, .parallel_for = host_for};
  OK(tide_init(&config));
  for (int64_t grain = 1; grain <= 16; grain *= 4) test_loop(tide__parallel_for, grain, takes_part);
  tide_shutdown();
}

/* ---- operations ---- */

static tide_tensor *numbers(int64_t n, int64_t m, tide_dtype dtype) {
  tide_tensor *x = NULL;
  const int64_t size[] = {n, m};
  const tide_options o = {dtype, TIDE_CPU, false};
  OK(tide_full(&x, size, m ? 2 : 1, tide_int(1), &o));
  return x;
}

typedef struct operation {
  const char *name;
  tide_status (*run)(tide_tensor **out, const tide_tensor *x);
  int64_t n, m;
  tide_dtype dtype;
} operation;

static tide_status run_product(tide_tensor **out, const tide_tensor *x) { return tide_matmul(out, x, x, NULL); }
static const int last = -1;
static tide_status run_rfft(tide_tensor **out, const tide_tensor *x) {
  return tide_fft(out, TIDE_FFT_RFFT, x, &last, NULL, 1, TIDE_FFT_BACKWARD, NULL, NULL);
}
static tide_status run_fft(tide_tensor **out, const tide_tensor *x) {
  return tide_fft(out, TIDE_FFT_FFT, x, &last, NULL, 1, TIDE_FFT_BACKWARD, NULL, NULL);
}
static tide_status run_permutation(tide_tensor **out, const tide_tensor *x) {
  const tide_options o = {TIDE_INT64, TIDE_CPU, false};
  return tide_randperm(out, tide_tensor_numel(x), &o, NULL);
}

#if defined(__SANITIZE_THREAD__) /* some forty times slower */
enum { INTEGERS = 300, HALVES = 600 };
#else
enum { INTEGERS = 700, HALVES = 1500 };
#endif

static const operation operations[] = {
    {"a product of integers", run_product, INTEGERS, INTEGERS, TIDE_INT64},
    {"a product of few columns", run_product, HALVES, HALVES, TIDE_FLOAT16},
    {"a long real line", run_rfft, 1 << 21, 0, TIDE_FLOAT32},
    {"a long line of complex numbers", run_fft, 1 << 20, 0, TIDE_COMPLEX64},
    {"a long line whose length is a prime", run_fft, 262147, 0, TIDE_COMPLEX64},
    {"a permutation", run_permutation, 1 << 21, 0, TIDE_BOOL},
};

static bool is_equal(const tide_tensor *a, const tide_tensor *b) {
  size_t bytes = (size_t)tide_tensor_numel(a) * tide_dtype_size(tide_tensor_dtype(a));
  return tide_tensor_numel(a) == tide_tensor_numel(b) && !memcmp(tide_tensor_data(a), tide_tensor_data(b), bytes);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const double most = 0.5;
enum { STOPS = 4 };
#else
static const double most = 0.1; /* a few milliseconds where pages of memory come at once */
enum { STOPS = 8 };
#endif

/* Whole, then interrupted at several of its looks, then whole again. An operation may end before the look that is
 * answered: tables are there already from the one before, or other threads have done most of the work. */
static void test_operation(const operation *o, int threads) {
  begin_asks(-1);
  tide_tensor *x = numbers(o->n, o->m, o->dtype), *whole = NULL, *again = NULL;
  bool is_random = o->run == run_permutation;
  begin_asks(-1);
  OK(o->run(&whole, x));
  note_gap();
  long all = asks;
  if (longest > most || all < 2) printf("%s: %ld looks, %.0f ms between two\n", o->name, all, 1e3 * longest);
  CHECK(all >= 2 && longest <= most);
  for (int i = 0; i < STOPS; i++) {
    begin_asks(i < STOPS / 2 ? i : all * (2 * i - STOPS) / (2 * STOPS));
    tide_tensor *none = NULL;
    tide_status status = o->run(&none, x);
    if (status == TIDE_OK) tide_tensor_release(none);
    CHECK(status == TIDE_INTERRUPTED || ((i >= STOPS / 2 || threads > 1) && asks <= stop_at));
    begin_asks(-1);
    OK(o->run(&again, x));
    CHECK(whole && again && (is_random || is_equal(whole, again)));
    tide_tensor_release(again);
  }
  tide_tensor_release(whole);
  tide_tensor_release(x);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  tide_interrupt_set(on_ask, NULL);
  OK(tide_init(NULL));
  for (int threads = 1; threads <= 4; threads += 3) {
    tide_set_num_threads(threads);
    test_loops();
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) test_operation(&operations[i], threads);
  }
  tide_shutdown();
  test_host(true);
  test_host(false);
  printf("interrupt_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
