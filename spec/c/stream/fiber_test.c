/* fiber_test.c: threads of a block that wait for each other, by turns on one thread of the CPU. */
#include "backend/cpu/jit/fiber.h"

#include <stdio.h>

static int checks, failures;
#define CHECK(x) (checks++, (x) ? 0 : (failures++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

enum { MOST = 1024 };
static struct {
  tide__fibers *fibers;
  unsigned n, at;
  int log[8 * MOST], value[MOST];
} run;

static void note(int what) { run.log[run.at++] = what; }

/* Each writes for its neighbour, waits, and reads what the other neighbour wrote. */
static void neighbours(const void *arg, unsigned i) {
  double kept = i * 0.5;
  for (int round = 0; round < 3; round++) {
    run.value[(i + 1) % run.n] = (int)i + round;
    tide__fibers_wait(run.fibers);
    CHECK(run.value[i] == (int)((i + run.n - 1) % run.n) + round);
    tide__fibers_wait(run.fibers);
  }
  CHECK(kept == i * 0.5 && arg == &run);
}

/* The i-th waits i times; those that have ended are not waited for. */
static void uneven(const void *arg, unsigned i) {
  (void)arg;
  for (unsigned k = 0; k < i; k++) {
    note((int)(100 * k + i));
    tide__fibers_wait(run.fibers);
  }
}

static void votes(const void *arg, unsigned i) {
  unsigned voters = 0;
  (void)arg;
  CHECK(tide__fibers_vote(run.fibers, i % 2, &voters) == run.n / 2 && voters == run.n);
  if (i == 0) return;
  CHECK(tide__fibers_vote(run.fibers, true, &voters) == run.n - 1 && voters == run.n - 1);
  CHECK(tide__fibers_vote(run.fibers, false, &voters) == 0 && voters == run.n - 1);
  tide__fibers_wait(run.fibers);
  CHECK(tide__fibers_vote(run.fibers, i == 1, &voters) == 1);
}

static void leaves(const void *arg, unsigned i) {
  (void)arg;
  tide__fibers_wait(run.fibers);
  if (i == run.n / 2) tide__fibers_leave(run.fibers);
  note((int)i);
}

static void test(unsigned n) {
  run.n = n;
  run.fibers = tide__fibers_get(n);
  CHECK(run.fibers != NULL);
  if (!run.fibers) return;
  CHECK(tide__fibers_run(run.fibers, n, neighbours, &run));
  CHECK(tide__fibers_run(run.fibers, n, votes, NULL));
  run.at = 0;
  CHECK(!tide__fibers_run(run.fibers, n, leaves, NULL) && run.at == n / 2);
  run.at = 0;
  unsigned few = n < 8 ? n : 8;
  CHECK(tide__fibers_run(run.fibers, few, uneven, NULL) && run.at == few * (few - 1) / 2);
  for (unsigned k = 0, at = 0; k < few; k++)
    for (unsigned i = k + 1; i < few; i++) CHECK(run.log[at++] == (int)(100 * k + i));
  tide__fibers_put(run.fibers);
}

int main(void) {
  static const unsigned sizes[] = {2, 1, 3, 32, 33, 256, MOST, 7};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) test(sizes[i]);
  tide__fibers *a = tide__fibers_get(64), *b = tide__fibers_get(64);
  CHECK(a && b && a != b);
  tide__fibers_put(a), tide__fibers_put(b), tide__fibers_put(NULL);
  tide__fibers_trim();
  printf("fiber_test: %d checks, %d failures\n", checks, failures);
  return failures != 0;
}
