/* fiber.c: the threads of a block that wait for each other, all on one thread of the CPU.
 *
 * Each thread of the block has a stack of its own and runs until it waits or ends; then the next one goes on. When the
 * last one has waited it is the first one's turn again. A switch saves what a call keeps and changes stacks: a few
 * instructions on x86-64, swapcontext elsewhere. A page below each stack ends the process where a stack overflows, as
 * it does on any thread.
 *
 * Stacks are kept for the next kernel, in a list that one exchange takes from as a whole, so no lock is held.
 *
 * Invariant: a thread that has ended is not in the ring of those that have not. */
#include "fiber.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(TIDE_FIBER_PORTABLE)
#  define OWN_SWITCH 1
#else
#  define OWN_SWITCH 0
#  include <ucontext.h>
#endif

/* The sanitizers follow calls on the stack that they know; these functions change it. */
#define UNWATCHED __attribute__((no_sanitize("address", "thread", "undefined")))

enum { MOST = 1024, STACK = 256 << 10 };

#if OWN_SWITCH
typedef void *place; /* the stack pointer */
#else
typedef ucontext_t place;
#endif

struct tide__fibers {
  tide__fibers *next_idle;
  char *stacks;
  size_t bytes;
  unsigned room, now, last; /* last: the one that waited before the one that runs */
  void (*body)(const void *arg, unsigned i);
  const void *arg;
  bool left;
  unsigned round, yes[2], voters[2];
  place main, at[MOST];
  uint16_t next[MOST];
  bool begun[MOST];
};

/* ---- switching ---- */

static UNWATCHED void entry(void);

#if OWN_SWITCH

void tide__fiber_switch(void **from, void *to);
__asm__(".text\n.p2align 4\n.hidden tide__fiber_switch\n.globl tide__fiber_switch\n"
        ".type tide__fiber_switch,@function\ntide__fiber_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".size tide__fiber_switch,.-tide__fiber_switch\n");

static UNWATCHED void change(place *from, place *to) { tide__fiber_switch(from, *to); }

/* As if entry had been called from nowhere: its address is what the first switch returns to. */
static UNWATCHED void prepare(tide__fibers *f, unsigned i, char *top, size_t size) {
  (void)size;
  void **word = (void **)(void *)top;
  word[-1] = NULL;
  void (*first)(void) = entry;
  memcpy(&word[-2], &first, sizeof first);
  for (int k = 3; k <= 8; k++) word[-k] = NULL;
  f->at[i] = &word[-8];
}

#else

static UNWATCHED void change(place *from, place *to) { swapcontext(from, to); }

static UNWATCHED void prepare(tide__fibers *f, unsigned i, char *top, size_t size) {
  getcontext(&f->at[i]);
  f->at[i].uc_stack.ss_sp = top - size, f->at[i].uc_stack.ss_size = size;
  f->at[i].uc_link = NULL;
  makecontext(&f->at[i], entry, 0);
}

#endif

/* ---- the ring ---- */

static _Thread_local tide__fibers *running;

/* The tops of the stacks lie at different distances from a page, so that they do not share the same lines of a
 * cache. */
static UNWATCHED void begin(tide__fibers *f, unsigned i) {
  size_t page = 4096, shift = (size_t)(i % 128) * 576, size = STACK - 65536 - 16384;
  prepare(f, i, f->stacks + ((size_t)i + 1) * STACK - (shift / 64 * 64), size - page);
  f->begun[i] = true;
}

/* Who comes after i; where the ring begins anew, so does a round of waiting. */
static UNWATCHED unsigned follow(tide__fibers *f, unsigned i) {
  unsigned next = f->next[i];
  if (next <= i) {
    f->round++;
    f->yes[f->round & 1] = f->voters[f->round & 1] = 0;
  }
  return next;
}

static UNWATCHED void go(tide__fibers *f, place *from, unsigned i) {
  f->now = i;
  if (!f->begun[i]) begin(f, i);
  change(from, &f->at[i]);
}

static UNWATCHED void entry(void) {
  tide__fibers *f = running;
  unsigned i = f->now;
  f->body(f->arg, i);
  place unused;
  if (f->next[i] == i) change(&unused, &f->main);
  unsigned next = follow(f, i);
  f->next[f->last] = f->next[i];
  go(f, &unused, next);
}

UNWATCHED void tide__fibers_wait(tide__fibers *f) {
  unsigned i = f->now, next = follow(f, i);
  f->last = i;
  if (next != i) go(f, &f->at[i], next);
}

UNWATCHED unsigned tide__fibers_vote(tide__fibers *f, bool yes, unsigned *voters) {
  unsigned k = f->round & 1;
  f->yes[k] += yes, f->voters[k]++;
  tide__fibers_wait(f);
  *voters = f->voters[k];
  return f->yes[k];
}

UNWATCHED void tide__fibers_leave(tide__fibers *f) {
  place unused;
  f->left = true;
  change(&unused, &f->main);
}

UNWATCHED bool tide__fibers_run(tide__fibers *f, unsigned n, void (*body)(const void *arg, unsigned i),
                                const void *arg) {
  f->body = body, f->arg = arg, f->left = false;
  f->round = 0, f->yes[0] = f->voters[0] = 0, f->last = n - 1;
  for (unsigned i = 0; i < n; i++) f->next[i] = (uint16_t)(i + 1 < n ? i + 1 : 0), f->begun[i] = false;
  tide__fibers *outer = running;
  running = f;
  go(f, &f->main, 0);
  running = outer;
  return !f->left;
}

/* ---- stacks ---- */

static _Atomic(tide__fibers *) idle;

static void drop(tide__fibers *f) {
  munmap(f->stacks, f->bytes);
  free(f);
}

static tide__fibers *make(unsigned n) {
  tide__fibers *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->room = n, f->bytes = (size_t)n * STACK;
  f->stacks = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (f->stacks == MAP_FAILED) {
    free(f);
    return NULL;
  }
  for (unsigned i = 0; i < n; i++)
    if (mprotect(f->stacks + (size_t)i * STACK, 4096, PROT_NONE)) break; /* too many pieces: goes without */
  return f;
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
