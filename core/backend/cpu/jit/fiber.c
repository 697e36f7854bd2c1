/* fiber.c: the threads of a block that wait for each other, all on one thread of the CPU.
 *
 * Each thread of the block has a stack of its own and runs until it waits or ends; then the next one goes on. When the
 * last one has waited it is the first one's turn again. A page below each stack ends the process where a stack
 * overflows, as it does on any thread.
 *
 * Stacks are kept for the next kernel, in a list that one exchange takes from as a whole, so no lock is held.
 *
 * Invariant: a thread that has ended is not in the ring of those that have not. */
#include "fiber.h"

#include <stdlib.h>

#include "os/stack.h"

enum { MOST = 1024, STACK = 256 << 10 };

struct tide__fibers {
  tide__fibers *next_idle;
  char *stacks;
  unsigned room, now, last; /* last: the one that waited before the one that runs */
  void (*body)(const void *arg, unsigned i);
  const void *arg;
  bool left;
  unsigned round, yes[2], voters[2];
  tide__os_place main, at[MOST];
  uint16_t next[MOST];
  bool begun[MOST];
};

/* ---- the ring ---- */

static _Thread_local tide__fibers *running;

static TIDE_OS_UNWATCHED void entry(void);

/* The tops of the stacks lie at different distances from a page, so that they do not share the same lines of a
 * cache. */
static TIDE_OS_UNWATCHED bool begin(tide__fibers *f, unsigned i) {
  size_t page = 4096, shift = (size_t)(i % 128) * 576, size = STACK - 65536 - 16384;
  char *top = f->stacks ? f->stacks + ((size_t)i + 1) * STACK - (shift / 64 * 64) : NULL;
  f->begun[i] = tide__os_place_begin(&f->at[i], top, size - page, entry);
  return f->begun[i];
}

/* Who comes after i; where the ring begins anew, so does a round of waiting. */
static TIDE_OS_UNWATCHED unsigned follow(tide__fibers *f, unsigned i) {
  unsigned next = f->next[i];
  if (next <= i) {
    f->round++;
    f->yes[f->round & 1] = f->voters[f->round & 1] = 0;
  }
  return next;
}

/* Without memory for its stack the whole run ends. */
static TIDE_OS_UNWATCHED void go(tide__fibers *f, tide__os_place *from, unsigned i) {
  f->now = i;
  if (f->begun[i] || begin(f, i)) {
    tide__os_change(from, &f->at[i]);
    return;
  }
  f->left = true;
  if (from != &f->main) tide__os_change(from, &f->main);
}

static TIDE_OS_UNWATCHED void entry(void) {
  tide__fibers *f = running;
  unsigned i = f->now;
  f->body(f->arg, i);
  tide__os_place unused;
  if (f->next[i] == i) tide__os_change(&unused, &f->main);
  unsigned next = follow(f, i);
  f->next[f->last] = f->next[i];
  go(f, &unused, next);
}

TIDE_OS_UNWATCHED void tide__fibers_wait(tide__fibers *f) {
  unsigned i = f->now, next = follow(f, i);
  f->last = i;
  if (next != i) go(f, &f->at[i], next);
}

TIDE_OS_UNWATCHED unsigned tide__fibers_vote(tide__fibers *f, bool yes, unsigned *voters) {
  unsigned k = f->round & 1;
  f->yes[k] += yes, f->voters[k]++;
  tide__fibers_wait(f);
  *voters = f->voters[k];
  return f->yes[k];
}

TIDE_OS_UNWATCHED void tide__fibers_leave(tide__fibers *f) {
  tide__os_place unused;
  f->left = true;
  tide__os_change(&unused, &f->main);
}

TIDE_OS_UNWATCHED bool tide__fibers_run(tide__fibers *f, unsigned n, void (*body)(const void *arg, unsigned i),
                                        const void *arg) {
  f->body = body, f->arg = arg, f->left = false;
  f->round = 0, f->yes[0] = f->voters[0] = 0, f->last = n - 1;
  for (unsigned i = 0; i < n; i++) f->next[i] = (uint16_t)(i + 1 < n ? i + 1 : 0), f->begun[i] = false;
  if (!tide__os_place_enter(&f->main)) return false;
  tide__fibers *outer = running;
  running = f;
  go(f, &f->main, 0);
  tide__os_place_leave(&f->main);
  running = outer;
  return !f->left;
}

/* ---- stacks ---- */

static _Atomic(tide__fibers *) idle;

static void drop(tide__fibers *f) {
  for (unsigned i = 0; i < MOST; i++) tide__os_place_end(&f->at[i]);
  tide__os_stacks_free(f->stacks, f->room, STACK);
  free(f);
}

static tide__fibers *make(unsigned n) {
  tide__fibers *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->room = n;
  if (tide__os_stacks_new(&f->stacks, n, STACK)) return f;
  free(f);
  return NULL;
}

tide__fibers *tide__fibers_get(unsigned n) {
  unsigned room = 32;
  while (room < n) room *= 2;
  tide__fibers *list = atomic_exchange(&idle, NULL), *found = NULL;
  while (list) {
    tide__fibers *f = list;
    list = f->next_idle;
    if (!found && f->room >= room)
      found = f;
    else if (!found && f->room < room)
      drop(f); /* the larger one serves instead */
    else
      tide__fibers_put(f);
  }
  return found ? found : make(room);
}

void tide__fibers_put(tide__fibers *f) {
  if (!f) return;
  f->next_idle = atomic_load(&idle);
  while (!atomic_compare_exchange_weak(&idle, &f->next_idle, f)) continue;
}

void tide__fibers_trim(void) {
  for (tide__fibers *f = atomic_exchange(&idle, NULL), *next; f; f = next) {
    next = f->next_idle;
    drop(f);
  }
}
