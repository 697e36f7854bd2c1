/* parallel_host_test.c: a host's parallel_for under the rules of tide.h: several threads call it at once, and a loop
 * inside a loop calls it from a thread of the host's. Every piece runs once, before the call returns. */
#include <pthread.h>
#include <string.h>

#include "base/base.h"
#include "check.h"

enum { CALLERS = 3, WORKERS = 3, ROUNDS = 20, OUTER = 8, INNER = 64, LENGTH = 200000 };

static _Atomic int calls, at_once, most_at_once, nested;
static _Thread_local int depth;

typedef struct piece {
  tide_task_fn fn;
  void *arg;
  int64_t begin, end;
  int depth;
} piece;

static void *run_piece(void *user) {
  const piece *p = user;
  depth = p->depth;
  p->fn(p->arg, p->begin, p->end);
  return NULL;
}

/* As an engine might: pieces to threads, the caller waits. */
static void host_for(void *user, int64_t n, int64_t grain, tide_task_fn fn, void *arg) {
  pthread_t thread[WORKERS];
  piece p[WORKERS];
  int now = ++at_once, most = most_at_once, started = 0;
  CHECK(user == &calls && n > 0 && grain > 0 && fn);
  while (now > most && !atomic_compare_exchange_weak(&most_at_once, &most, now)) {}
  calls++;
  if (depth) nested++;
  int64_t each = (n + WORKERS - 1) / WORKERS;
  if (each < grain) each = grain;
  for (int64_t at = 0; at < n; at += each, started++) {
    p[started] = (piece){fn, arg, at, n - at < each ? n : at + each, depth + 1};
    if (pthread_create(&thread[started], NULL, run_piece, &p[started])) abort();
  }
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
  at_once--;
}

static void mark(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) atomic_fetch_add((_Atomic int *)arg + i, 1);
}

static void outer(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) tide__parallel_for(INNER, 1, mark, (_Atomic int *)arg + i * INNER);
}

static void *caller(void *user) {
  (void)user;
  for (int round = 0; round < ROUNDS; round++) {
    _Atomic int marks[OUTER * INNER];
    memset((void *)marks, 0, sizeof marks);
    tide__parallel_for(OUTER, 1, outer, (void *)marks);
    for (int i = 0; i < OUTER * INNER; i++) CHECK(marks[i] == 1);
    tide_tensor *x = full(TIDE_CPU, LENGTH, 2), *y = NULL, *z = NULL;
    tide_scalar sum;
    OK(tide_binary(&y, TIDE_OP_mul, x, x, NULL));
    OK(tide_reduce(&z, TIDE_SUM, y, NULL, NULL));
    OK(tide_item(&sum, z));
    CHECK(sum.re == 4.0 * LENGTH);
    tide_tensor_release(x), tide_tensor_release(y), tide_tensor_release(z);
  }
  return NULL;
}

int main(void) {
  tide_config config = {.struct_size = sizeof config, .user = &calls, .parallel_for = host_for};
  pthread_t thread[CALLERS];
  OK(tide_init(&config));
  for (int i = 0; i < CALLERS; i++)
    if (pthread_create(&thread[i], NULL, caller, NULL)) return 2;
  for (int i = 0; i < CALLERS; i++) pthread_join(thread[i], NULL);
  CHECK(calls > CALLERS * ROUNDS && at_once == 0 && nested > 0);
  tide_shutdown();
  printf("parallel_host_test: %d calls, %d nested, %d at once\n", calls, nested, most_at_once);
  return failures != 0;
}
