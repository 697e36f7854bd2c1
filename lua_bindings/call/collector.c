/* collector.c: when Lua's collector runs.
 *
 * Lua sees 24 bytes of each tensor. Every 256 MiB that are allocated, what is alive is compared with what
 * the last collection left; as much again (at least 256 MiB, at most an eighth of a device) asks for a full collection,
 * which takes at most a twentieth of the time. CPU memory is looked at every MiB,
 * because garbage that lies there pushes what is alive out of the processor's caches: a MiB more asks for a step of the
 * collector, which finds most of what is young, and a sixteenth of what is alive, where steps find little, for a full
 * collection. Either begins with the next call, when the variable that the result goes to has let go of what it held.
 * An allocation that does not fit calls reclaim(), which collects at once, or asks the thread that runs the Lua state
 * to do so at its next call. A collector that the script or the host has stopped stays stopped, but where memory has
 * run out: that is said once. */
#include <limits.h>
#include <stdlib.h>
#include <time.h>

#include "collector.h"
#include "tide_lua.h"

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static double now(void) { return seconds(CLOCK_MONOTONIC); }
/* What this thread has worked: a collection during which it had to stand aside did not cost more for that. */
static double worked(void) { return seconds(CLOCK_THREAD_CPUTIME_ID); }

struct ltide_collector_part {
  size_t alive[TIDE_MAX_DEVICES + 1];    /* bytes that the last collection left: of the CPU, then of each device */
  size_t pinned;                         /* page-locked ones among the CPU's */
  size_t bytes_since_check;              /* bytes allocated since the last look at devices, without `debt` */
  double last_cost, last_end;            /* seconds that collections take, and when the last one ended */
  size_t young_bytes, new_bytes;         /* of the CPU: what the last step left, and what had come before it */
  bool step_freed_little;                /* of these */
  size_t step_threshold, vain_threshold; /* how many more request the next step, and had requested the last vain one */
  double step_cost, step_end;
  size_t heap;                   /* KiB of Lua's that the last step or collection left */
  _Atomic int request;           /* of the collector, by ltide_pace */
  _Atomic uint64_t requested_at; /* when another thread ran out of memory and began to wait; 0: none does */
  _Atomic int gc;                /* tide_lua_gc: what the host lets operations collect */
  bool warned;                   /* that a stopped collector had to run */
};
LTIDE_PART(collector)
LTIDE_PART_SIZE(collector)
typedef struct ltide_collector_part collector;

enum { LOOK = 1 << 28, HOST_LOOK = 1 << 20 }; /* bytes allocated between two looks at what is alive */
enum { HEAP_LOOK = 512 };                     /* KiB of Lua's own */
enum { WANT_NOTHING, WANT_STEP, WANT_ALL };   /* of the collector, at the next call */

/* Bytes alive on a device, or on the CPU for -1, and how many more than after the last collection ask for the next
 * one. */
static size_t alive(int device) { return device < 0 ? tide_memory_cpu_allocated() : tide_memory_allocated(device); }

static size_t allowance(const collector *c, int device) {
  const tide_device_props *props;
  size_t as_much = c->alive[device + 1] > LOOK ? c->alive[device + 1] : LOOK;
  if (device < 0 || tide_device_get_props(&props, device) != TIDE_OK) return as_much;
  return as_much < props->total_memory / 8 ? as_much : props->total_memory / 8;
}

/* Locked pages are missing elsewhere, and more of them cost the driver's time: half as much garbage is left to lie. */
static size_t alive_pinned(void) {
  tide_host_memory_stats stats;
  tide_host_memory_get_stats(&stats);
  return (size_t)stats.active_bytes.current;
}

static size_t allowance_pinned(const collector *c) { return c->pinned > LOOK / 2 ? c->pinned : LOOK / 2; }

static int devices_in_use(void) { return tide_is_initialized() ? tide_device_count() : 0; }

size_t ltide_alive(void) {
  size_t bytes = 0;
  for (int d = -1; d < devices_in_use(); d++) bytes += alive(d);
  return bytes;
}

static uint64_t nanoseconds(void) { return (uint64_t)(1e9 * now()); }

/* Does nobody mind a collection that nothing forces? */
static bool may_pace(lua_State *L, const collector *c) {
  return atomic_load_explicit(&c->gc, memory_order_relaxed) == TIDE_LUA_GC_AUTO && lua_gc(L, LUA_GCISRUNNING);
}

void ltide_collect_ahead(lua_State *L) {
  if (may_pace(L, ltide_collector_of(ltide_enter(L)))) lua_gc(L, LUA_GCCOLLECT);
  ltide_enter_again(L);
}

static size_t heap_of(lua_State *L) { return (size_t)lua_gc(L, LUA_GCCOUNT); }

/* What a collection costs. What interrupts add to a short one must not put off the next: it is taken to have grown by
 * no more than a quarter. */
static void note_cost(double *cost, double now) {
  bool is_plain = *cost == 0 || now < *cost || now > 1e-3;
  *cost = is_plain ? now : now < 2 * *cost ? *cost + (now - *cost) / 4 : 1.25 * *cost;
}

static int collect(lua_State *L, ltide_state *S) {
  collector *c = ltide_collector_of(S);
  uint64_t asked =
      atomic_exchange(&c->requested_at, 0); /* whoever asks from now on may mean what this one no more finds */
  double start = worked();
  bool host = !ltide_last; /* has bound its own: finalisers bind theirs */
  tide_current *before = host ? tide_current_bind(NULL) : NULL;
  int result = lua_gc(L, LUA_GCCOLLECT);
  if (asked && result != -1) lua_gc(L, LUA_GCCOLLECT); /* what objects with finalisers hold goes a collection later */
  if (host)
    tide_current_bind(before);
  else
    ltide_enter_again(L); /* this may be inside an allocation of ours */
  tide_memory_pump();
  c->last_end = now();
  note_cost(&c->last_cost, worked() - start);
  S->debt = c->bytes_since_check = 0, c->heap = heap_of(L);
  for (int d = -1; d < devices_in_use(); d++) c->alive[d + 1] = alive(d);
  c->young_bytes = c->alive[0];
  c->step_threshold = c->step_threshold > 2 * HOST_LOOK ? c->step_threshold / 2 : HOST_LOOK, c->vain_threshold = 0;
  c->pinned = alive_pinned();
  atomic_store(&c->request, WANT_NOTHING);
  if (result == -1) /* a finaliser is running: later */
    atomic_store(&c->requested_at, asked);
  else if (asked)
    tide_reclaim_answer();
  return result != -1;
}

/* May an allocation that fails otherwise collect? In a frame its slack does. */
static bool may_collect_at_last(const ltide_state *S) {
  return atomic_load(&ltide_collector_of(S)->gc) != TIDE_LUA_GC_NEVER && !atomic_load(&S->frame_open) && !S->in_ffi;
}

static int collect_at_last(lua_State *L, ltide_state *S) {
  collector *c = ltide_collector_of(S);
  if (!may_collect_at_last(S)) return 0;
  if (!c->warned && !lua_gc(L, LUA_GCISRUNNING)) {
    c->warned = true;
    lua_warning(L, "memory: out of memory while the collector is stopped: its garbage is collected all the same", 0);
  }
  return collect(L, S);
}

/* Once more where the first one has not freed enough: what objects with finalisers hold goes a collection later. */
static int collect_for(ltide_state *S, int device, size_t bytes) {
  size_t before = alive(device);
  int any = collect_at_last(S->running, S);
  size_t after = alive(device);
  bool enough = before >= after && before - after >= bytes;
  return any && !enough ? collect_at_last(S->running, S) : any;
}

void ltide_gc_set(lua_State *L, int mode) { atomic_store(&ltide_collector_of(ltide_enter(L))->gc, mode); }

/* How many bytes ask for the next step: twice as many after two in vain, since the first result of a loop lives and
 * leaves nothing to find; then ever fewer, slowly where that was. */
static void pace_steps(collector *c) {
  if (c->step_freed_little) {
    bool again = c->vain_threshold == c->step_threshold;
    c->vain_threshold = c->step_threshold;
    if (again && c->step_threshold < LOOK / 4) c->step_threshold *= 2;
  } else {
    if (c->vain_threshold >= c->step_threshold) c->vain_threshold /= 2;
    c->step_threshold =
        c->step_threshold > 2 * c->vain_threshold ? c->step_threshold / 4 * 3 : c->step_threshold / 64 * 63;
    if (c->step_threshold < HOST_LOOK / 63 * 64) c->step_threshold = HOST_LOOK;
  }
}

/* One step of the collector, with as much to do as there may be: of a collector with generations that is a look at what
 * is young, of an incremental one a whole cycle. The former takes what is alive at two steps for old, and sees it no
 * more: where a step has freed less than half of what had come since the one before, the next ones come later. */
static void step(lua_State *L, ltide_state *S) {
  collector *c = ltide_collector_of(S);
  size_t had = alive(-1);
  double start = worked();
  int result = lua_gc(L, LUA_GCSTEP, INT_MAX);
  ltide_enter_again(L);
  if (result < 0) return; /* a finaliser is running: later */
  tide_memory_pump();
  size_t left = alive(-1);
  c->step_end = now(), note_cost(&c->step_cost, worked() - start);
  c->new_bytes = had > c->young_bytes ? had - c->young_bytes : 0;
  if (c->new_bytes) {
    c->step_freed_little = left >= had || had - left < c->new_bytes / 2;
    pace_steps(c);
  }
  c->young_bytes = left, c->heap = heap_of(L);
  if (result == 1) c->alive[0] = left, c->last_end = c->step_end, c->last_cost = c->step_cost; /* a whole cycle */
  atomic_store(&c->request, WANT_NOTHING);
}

/* Is there more garbage that steps have not found, or where they find little would not find, than a sixteenth of what
 * is alive, than comes between two steps and than is written in the time that a collection takes? A twentieth of the
 * time may go there; a ninth where it is more than twice what is alive, a fifth where it would ask on a device as
 * well. */
static bool wants_all(const collector *c, double bytes, double at) {
  double left = (double)c->alive[0], grown = (c->step_freed_little ? bytes : (double)c->young_bytes) - left,
         more = 1e9 * c->last_cost;
  if (more < HOST_LOOK) more = HOST_LOOK;
  if (more < left / 16) more = left / 16;
  if (more < (double)c->new_bytes && !c->step_freed_little) more = (double)c->new_bytes;
  if (grown <= more) return false;
  int pause = grown > (double)allowance(c, -1) ? 4 : grown > 2 * left ? 8 : 20;
  return at - c->last_end > pause * c->last_cost;
}

/* Likewise at most an eleventh of the time. */
static bool wants_step(const collector *c, double bytes, double at) {
  double grown = bytes - (double)c->young_bytes;
  return grown >= (double)c->step_threshold && grown >= 1e9 * c->step_cost && at - c->step_end > 10 * c->step_cost;
}

/* Small tensors on devices are garbage of Lua's above all. Its collector lets its heap grow by as much as the cycle
 * before has left, which are the objects whose finalisers have run in it: so each cycle would find more than the one
 * before, and goes through all that have died in one piece. Half a MiB are some 5,000 of them, two milliseconds. Where
 * a tenth of the time is not enough, which is so without generations, half of it is less than what a heap that grows
 * costs. */
static bool wants_heap(lua_State *L, const collector *c, double at) {
  size_t heap = heap_of(L), more = c->heap / 2 > HEAP_LOOK ? c->heap / 2 : HEAP_LOOK;
  int pause = heap > 4 * HEAP_LOOK ? 1 : 10;
  return heap > c->heap + more && at - c->step_end > pause * c->step_cost;
}

static void pace_host(lua_State *L, ltide_state *S) {
  collector *c = ltide_collector_of(S);
  double bytes = (double)alive(-1), at = now();
  if (bytes < (double)c->young_bytes) c->young_bytes = (size_t)bytes;
  if (heap_of(L) < c->heap) c->heap = heap_of(L);
  bool step = wants_step(c, bytes, at) || wants_heap(L, c, at);
  int wanted = wants_all(c, bytes, at) ? WANT_ALL : step ? WANT_STEP : WANT_NOTHING;
  if (!wanted || !may_pace(L, c)) return;
  atomic_store(&c->request, wanted);
  ltide_last_epoch--; /* the next call looks */
}

void ltide_pace_slow(lua_State *L, ltide_state *S) {
  collector *c = ltide_collector_of(S);
  pace_host(L, S);
  S->limit = HOST_LOOK;
  c->bytes_since_check += S->debt;
  S->debt = 0;
  if (c->bytes_since_check < LOOK) return;
  c->bytes_since_check = 0;
  bool wanted = atomic_load(&c->request) == WANT_ALL || alive_pinned() > c->pinned + allowance_pinned(c);
  for (int d = -1; !wanted && d < devices_in_use(); d++) wanted = alive(d) > c->alive[d + 1] + allowance(c, d);
  if (wanted && now() - c->last_end > 20 * c->last_cost && may_pace(L, c)) collect(L, S);
}

/* Called by an allocation that does not fit. A Lua state that may be running is asked to collect at its next call, and
 * waited for unless it is this thread's or has been asked long ago and has not called since. */
static int reclaim(void *user, int device, size_t bytes) {
  ltide_state *S = user;
  collector *c = ltide_collector_of(S);
  bool here = atomic_load(&S->thread) == &ltide_last;
  if (ltide_last_state == S && here) return collect_for(S, device, bytes);
  if (!may_collect_at_last(S)) return 0;
  uint64_t at = nanoseconds(), since = 0;
  bool first = atomic_compare_exchange_strong(&c->requested_at, &since, at);
  if (first) atomic_fetch_add(&ltide_epoch, 1);
  return !here && (first || at - since < 100000000) ? -1 : 0;
}

/* {==== For state.c */

void ltide_collect_requested(lua_State *L, ltide_state *S) {
  collector *c = ltide_collector_of(S);
  if (atomic_load(&c->requested_at))
    collect_at_last(L, S);
  else if (atomic_load(&c->request) && may_pace(L, c))
    (atomic_load(&c->request) == WANT_ALL ? (void)collect(L, S) : step(L, S));
}

void ltide_collector_open(ltide_state *S) {
  ltide_collector_of(S)->step_threshold = HOST_LOOK;
  tide_reclaim_add(reclaim, S);
}

void ltide_collector_close(ltide_state *S) {
  tide_reclaim_remove(reclaim, S);
  if (atomic_load(&ltide_collector_of(S)->requested_at)) tide_reclaim_answer(); /* all is collected */
}
