/* state.c: the struct of each Lua state, and the current device and streams of each coroutine.
 *
 * Every coroutine that calls tide has a record: its tide_current and its stack of open scopes. Records hang in a
 * registry table with weak keys, so a record goes with its coroutine. A new record, made at the coroutine's first call,
 * inherits from the one that has resumed it then. Lua does not say who that was; it is the last caller that is still
 * active (it has frames and has not yielded), found by walking the chain of resumers from the coroutine that called
 * last, and noted for each coroutine whenever another one has called before it. The last caller is anchored in the
 * registry, so that the pointer kept for the fast compare cannot dangle.
 *
 * Collector: Lua sees 24 bytes of each tensor. Every 256 MiB that are allocated, what is alive is compared with what
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
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scope.h"
#include "tide/fuse.h"
#include "tide/debug.h"
#include "tide/device.h"
#include "tide/memory.h"
#include "tide_lua.h"

_Thread_local lua_State *ltide_last;
_Thread_local ltide_state *ltide_last_state;
_Thread_local unsigned ltide_last_epoch, ltide_calls;
_Atomic unsigned ltide_epoch;

static const char key_state, key_records, key_resumers, key_running;

static double seconds(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static double now(void) { return seconds(CLOCK_MONOTONIC); }
/* What this thread has worked: a collection during which it had to stand aside did not cost more for that. */
static double worked(void) { return seconds(CLOCK_THREAD_CPUTIME_ID); }

/* {==== Collector */

enum { LOOK = 1 << 28, HOST_LOOK = 1 << 20 }; /* bytes allocated between two looks at what is alive */
enum { HEAP_LOOK = 512 };                     /* KiB of Lua's own */
enum { WANT_NOTHING, WANT_STEP, WANT_ALL };   /* of the collector, at the next call */

/* Bytes alive on a device, or on the CPU for -1, and how many more than after the last collection ask for the next
 * one. */
static size_t alive(int device) { return device < 0 ? tide_memory_cpu_allocated() : tide_memory_allocated(device); }

static size_t allowance(const ltide_state *S, int device) {
  const tide_device_props *props;
  size_t as_much = S->alive[device + 1] > LOOK ? S->alive[device + 1] : LOOK;
  if (device < 0 || tide_device_get_props(&props, device) != TIDE_OK) return as_much;
  return as_much < props->total_memory / 8 ? as_much : props->total_memory / 8;
}

/* Locked pages are missing elsewhere, and more of them cost the driver's time: half as much garbage is left to lie. */
static size_t alive_pinned(void) {
  tide_host_memory_stats stats;
  tide_host_memory_get_stats(&stats);
  return (size_t)stats.active_bytes.current;
}

static size_t allowance_pinned(const ltide_state *S) { return S->pinned > LOOK / 2 ? S->pinned : LOOK / 2; }

static int devices_in_use(void) { return tide_is_initialized() ? tide_device_count() : 0; }

size_t ltide_alive(void) {
  size_t bytes = 0;
  for (int d = -1; d < devices_in_use(); d++) bytes += alive(d);
  return bytes;
}

static uint64_t nanoseconds(void) { return (uint64_t)(1e9 * now()); }

/* Does nobody mind a collection that nothing forces? */
static bool may_pace(lua_State *L, ltide_state *S) {
  return atomic_load_explicit(&S->gc, memory_order_relaxed) == TIDE_LUA_GC_AUTO && lua_gc(L, LUA_GCISRUNNING);
}

void ltide_collect_ahead(lua_State *L) {
  if (may_pace(L, ltide_enter(L))) lua_gc(L, LUA_GCCOLLECT);
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
  uint64_t asked = atomic_exchange(&S->asked, 0); /* whoever asks from now on may mean what this one no more finds */
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
  S->last_end = now();
  note_cost(&S->last_cost, worked() - start);
  S->debt = S->looked = 0, S->heap = heap_of(L);
  for (int d = -1; d < devices_in_use(); d++) S->alive[d + 1] = alive(d);
  S->young = S->alive[0];
  S->step_room = S->step_room > 2 * HOST_LOOK ? S->step_room / 2 : HOST_LOOK, S->vain_room = 0;
  S->pinned = alive_pinned();
  atomic_store(&S->wanted, WANT_NOTHING);
  if (result == -1) /* a finaliser is running: later */
    atomic_store(&S->asked, asked);
  else if (asked)
    tide_reclaim_answer();
  return result != -1;
}

/* May an allocation that fails otherwise collect? In a frame its slack does. */
static bool may_collect_at_last(const ltide_state *S) {
  return atomic_load(&S->gc) != TIDE_LUA_GC_NEVER && !atomic_load(&S->frame_open) && !S->in_ffi;
}

static int collect_at_last(lua_State *L, ltide_state *S) {
  if (!may_collect_at_last(S)) return 0;
  if (!S->told && !lua_gc(L, LUA_GCISRUNNING)) {
    S->told = true;
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

void ltide_gc_set(lua_State *L, int mode) { atomic_store(&ltide_enter(L)->gc, mode); }

/* How many bytes ask for the next step: twice as many after two in vain, since the first result of a loop lives and
 * leaves nothing to find; then ever fewer, slowly where that was. */
static void pace_steps(ltide_state *S) {
  if (S->in_vain) {
    bool again = S->vain_room == S->step_room;
    S->vain_room = S->step_room;
    if (again && S->step_room < LOOK / 4) S->step_room *= 2;
  } else {
    if (S->vain_room >= S->step_room) S->vain_room /= 2;
    S->step_room = S->step_room > 2 * S->vain_room ? S->step_room / 4 * 3 : S->step_room / 64 * 63;
    if (S->step_room < HOST_LOOK / 63 * 64) S->step_room = HOST_LOOK;
  }
}

/* One step of the collector, with as much to do as there may be: of a collector with generations that is a look at what
 * is young, of an incremental one a whole cycle. The former takes what is alive at two steps for old, and sees it no
 * more: where a step has freed less than half of what had come since the one before, the next ones come later. */
static void step(lua_State *L, ltide_state *S) {
  size_t had = alive(-1);
  double start = worked();
  int result = lua_gc(L, LUA_GCSTEP, INT_MAX);
  ltide_enter_again(L);
  if (result < 0) return; /* a finaliser is running: later */
  tide_memory_pump();
  size_t left = alive(-1);
  S->step_end = now(), note_cost(&S->step_cost, worked() - start);
  S->fresh = had > S->young ? had - S->young : 0;
  if (S->fresh) {
    S->in_vain = left >= had || had - left < S->fresh / 2;
    pace_steps(S);
  }
  S->young = left, S->heap = heap_of(L);
  if (result == 1) S->alive[0] = left, S->last_end = S->step_end, S->last_cost = S->step_cost; /* a whole cycle */
  atomic_store(&S->wanted, WANT_NOTHING);
}

/* Is there more garbage that steps have not found, or where they find little would not find, than a sixteenth of what
 * is alive, than comes between two steps and than is written in the time that a collection takes? A twentieth of the
 * time may go there; a ninth where it is more than twice what is alive, a fifth where it would ask on a device as
 * well. */
static bool wants_all(const ltide_state *S, double bytes, double at) {
  double left = (double)S->alive[0], grown = (S->in_vain ? bytes : (double)S->young) - left, more = 1e9 * S->last_cost;
  if (more < HOST_LOOK) more = HOST_LOOK;
  if (more < left / 16) more = left / 16;
  if (more < (double)S->fresh && !S->in_vain) more = (double)S->fresh;
  if (grown <= more) return false;
  int pause = grown > (double)allowance(S, -1) ? 4 : grown > 2 * left ? 8 : 20;
  return at - S->last_end > pause * S->last_cost;
}

/* Likewise at most an eleventh of the time. */
static bool wants_step(const ltide_state *S, double bytes, double at) {
  double grown = bytes - (double)S->young;
  return grown >= (double)S->step_room && grown >= 1e9 * S->step_cost && at - S->step_end > 10 * S->step_cost;
}

/* Small tensors on devices are garbage of Lua's above all. Its collector lets its heap grow by as much as the cycle
 * before has left, which are the objects whose finalisers have run in it: so each cycle would find more than the one
 * before, and goes through all that have died in one piece. Half a MiB are some 5,000 of them, two milliseconds. Where
 * a tenth of the time is not enough, which is so without generations, half of it is less than what a heap that grows
 * costs. */
static bool wants_heap(lua_State *L, const ltide_state *S, double at) {
  size_t heap = heap_of(L), more = S->heap / 2 > HEAP_LOOK ? S->heap / 2 : HEAP_LOOK;
  int pause = heap > 4 * HEAP_LOOK ? 1 : 10;
  return heap > S->heap + more && at - S->step_end > pause * S->step_cost;
}

static void pace_host(lua_State *L, ltide_state *S) {
  double bytes = (double)alive(-1), at = now();
  if (bytes < (double)S->young) S->young = (size_t)bytes;
  if (heap_of(L) < S->heap) S->heap = heap_of(L);
  bool step = wants_step(S, bytes, at) || wants_heap(L, S, at);
  int wanted = wants_all(S, bytes, at) ? WANT_ALL : step ? WANT_STEP : WANT_NOTHING;
  if (!wanted || !may_pace(L, S)) return;
  atomic_store(&S->wanted, wanted);
  ltide_last_epoch--; /* the next call looks */
}

void ltide_pace_slow(lua_State *L, ltide_state *S) {
  pace_host(L, S);
  S->limit = HOST_LOOK;
  S->looked += S->debt;
  S->debt = 0;
  if (S->looked < LOOK) return;
  S->looked = 0;
  bool wanted = atomic_load(&S->wanted) == WANT_ALL || alive_pinned() > S->pinned + allowance_pinned(S);
  for (int d = -1; !wanted && d < devices_in_use(); d++) wanted = alive(d) > S->alive[d + 1] + allowance(S, d);
  if (wanted && now() - S->last_end > 20 * S->last_cost && may_pace(L, S)) collect(L, S);
}

/* Called by an allocation that does not fit. A Lua state that may be running is asked to collect at its next call, and
 * waited for unless it is this thread's or has been asked long ago and has not called since. */
static int reclaim(void *user, int device, size_t bytes) {
  ltide_state *S = user;
  bool here = atomic_load(&S->thread) == &ltide_last;
  if (ltide_last_state == S && here) return collect_for(S, device, bytes);
  if (!may_collect_at_last(S)) return 0;
  uint64_t at = nanoseconds(), since = 0;
  bool first = atomic_compare_exchange_strong(&S->asked, &since, at);
  if (first) atomic_fetch_add(&ltide_epoch, 1);
  return !here && (first || at - since < 100000000) ? -1 : 0;
}

/* {==== Coroutines */

void *ltide_test_object(lua_State *L, int arg, const char *meta) {
  arg = lua_absindex(L, arg);
  luaL_getmetatable(L, meta);
  const void *expected = lua_topointer(L, -1);
  lua_pop(L, 1);
  return expected ? ltide_test_meta(L, arg, expected) : NULL;
}

/* The collector may run in the middle of another coroutine's operation: what that one has bound stays bound. */
static void free_record(ltide_record *r) {
  tide_current_free(r->current);
  if (r->inherited) r->forget(r);
  free(r->scopes);
  r->current = NULL, r->arena = NULL, r->scopes = NULL, r->depth = r->capacity = 0;
}

static int record_gc(lua_State *L) {
  ltide_record *r = ltide_test_object(L, 1, "tide.record");
  if (r) free_record(r);
  return 0;
}

static bool is_active(lua_State *co) {
  lua_Debug ar;
  return lua_status(co) == LUA_OK && lua_getstack(co, 0, &ar);
}

/* Notes who resumed L: the last caller, or the nearest of those that resumed that one, that is still active. Where that
 * is L itself, it goes on after one that it has resumed, and what was noted holds. */
static void note_resumer(lua_State *L, ltide_state *S) {
  lua_State *co = S->running;
  int top = lua_gettop(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_resumers);
  lua_pushthread(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_running);
  while (co && !is_active(co)) { /* stack: resumers, L, co */
    lua_rawget(L, top + 1);
    co = lua_tothread(L, -1);
  }
  if (co != L) lua_rawset(L, top + 1);
  lua_settop(L, top);
}

/* Puts the record of the coroutine at the top of the stack, or nil, in its place. */
static void get_record(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  lua_insert(L, -2);
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

static void push_record(lua_State *L) {
  lua_pushthread(L);
  get_record(L);
}

static ltide_record *find_record(lua_State *L) {
  push_record(L);
  ltide_record *r = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return r;
}

/* The record of the coroutine that resumed L, or NULL. */
static ltide_record *find_parent(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_resumers);
  lua_pushthread(L);
  lua_rawget(L, -2);
  get_record(L);
  ltide_record *r = lua_touserdata(L, -1);
  lua_pop(L, 2);
  return r;
}

/* A userdata at the top of the stack becomes L's record; pops it. */
static void keep_record(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  lua_pushthread(L);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 2);
}

tide_status ltide_use_device(const ltide_state *S, tide_current *current) {
  tide_status status = tide_current_set_default_device(current, S->device);
  if (status != TIDE_OK || S->device < 0) return status;
  tide_current *before = tide_current_bind(current);
  status = tide_current_set_device(S->device);
  tide_current_bind(before);
  return status;
}

/* Makes L's record, unless a finaliser that runs in the middle has called us in L and so has made it. One whose
 * finaliser has run serves again, since scopes may still point to it, where another finaliser resumes its coroutine. */
static ltide_record *new_record(lua_State *L, ltide_state *S) {
  if (!find_record(L)) {
    memset(ltide_new_userdata(L, sizeof(ltide_record), 0), 0, sizeof(ltide_record));
    if (find_record(L))
      lua_pop(L, 1);
    else
      keep_record(L);
  }
  push_record(L);
  ltide_record *r = lua_touserdata(L, -1);
  if (!r->current) {
    const ltide_record *parent = find_parent(L);
    ltide_setmetatable(L, "tide.record"); /* it has a finaliser to run from now on */
    r->state = S;
    r->current = tide_current_new(parent ? parent->current : NULL);
    if (!r->current) luaL_error(L, "tide: no memory for a coroutine's streams");
    if (S->quota) tide_current_set_quota(r->current, S->quota);
    if (S->has_device && !parent) ltide_use_device(S, r->current);
  }
  lua_pop(L, 1);
  return r;
}

ltide_record *ltide_make_record(lua_State *L, int thread) {
  ltide_state *S = ltide_enter(L);
  thread = lua_absindex(L, thread);
  ltide_record *r = ltide_new_userdata(L, sizeof *r, 0);
  memset(r, 0, sizeof *r);
  ltide_setmetatable(L, "tide.record");
  ltide_enter_again(L);
  r->state = S;
  r->current = tide_current_new(S->record->current);
  if (!r->current) luaL_error(L, "tide: no memory for a coroutine's streams");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  lua_pushvalue(L, thread);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 2);
  return r;
}

/* Of a record that has selected `before` on the stream's device. */
static bool change_stream(const ltide_record *r, const tide_stream *before, tide_stream *stream) {
  tide_current_bind(r->current);
  return tide_current_selected(tide_stream_device(stream)) != before || tide_current_set_stream(stream) == TIDE_OK;
}

bool ltide_set_stream(lua_State *L, tide_stream *stream) {
  const ltide_state *S = ltide_state_of(L);
  ltide_record *own = S ? find_record(S->main) : NULL;
  tide_stream *used;
  int device = tide_stream_device(stream);
  if (!own || !own->current || device < 0) return false;
  tide_current *host = tide_current_bind(own->current);
  const tide_stream *before = tide_current_selected(device);
  bool done = tide_current_stream(&used, device) == TIDE_OK && tide_stream_wait_stream(stream, used) == TIDE_OK;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    const ltide_record *r = lua_touserdata(L, -1);
    if (done && r->current) done = change_stream(r, before, stream);
  }
  lua_pop(L, 1);
  tide_current_bind(host);
  return done;
}

/* Level 0 is the function of ours that is running. Not far: as ltide_find_script. */
int ltide_line(lua_State *L, const char **source) {
  enum { LEVELS = 100 };
  lua_Debug ar;
  for (int level = 1; level < LEVELS && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    *source = ar.source;
    if (ar.currentline > 0 && !ltide_script_is(&ar)) return ar.currentline;
  }
  return 0;
}

/* A call that allocates and launches asks twice, and the second answer is free. */
static int site(void *user, const char **source) {
  static _Thread_local unsigned named;
  lua_State *L = ltide_last;
  unsigned epoch = atomic_load_explicit(&ltide_epoch, memory_order_relaxed), call = ltide_calls;
  if (!L || ltide_last_epoch != epoch) return 0; /* the host's, or it may be gone */
  if (named == call) return -1;
  named = call;
  return ltide_line(L, source);
}

/* A Lua state that another thread has called before: that one is to look anew if it comes back. */
static void note_thread(ltide_state *S) {
  if (atomic_load(&S->thread) == &ltide_last) return;
  if (atomic_exchange(&S->thread, &ltide_last)) atomic_fetch_add(&ltide_epoch, 1);
}

/* What is bound has changed, by the host or since it was freed: the next call binds its coroutine's again. */
static void rebound(void) { ltide_last = NULL; }

static bool is_bound(const lua_State *L) { return L == ltide_last && ltide_last_epoch == atomic_load(&ltide_epoch); }

ltide_state *ltide_state_of(lua_State *L) {
  if (is_bound(L)) return ltide_last_state;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_state);
  ltide_state *S = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return S;
}

static void use_record(ltide_state *S, ltide_record *r) {
  if (S->record) S->record->arena = S->arena;
  S->record = r, S->arena = r->arena, S->is_fusing = r->fusing > 0;
}

/* Makes what the record has selected current on this thread. */
static void bind(ltide_state *S, const ltide_record *r) {
  note_thread(S);
  tide_current_bind(r->current);
  tide_current_on_bind(rebound);
  tide_index_base_set(ltide_index_base);
  tide_site_set(site, NULL);
  tide_warn_set(S->warn, NULL);
}

ltide_record *ltide_record_of(lua_State *L) { return is_bound(L) ? ltide_last_state->record : find_record(L); }

/* Who runs is not noted, so the next call binds anew. */
void ltide_bind_record(lua_State *L, ltide_record *r) {
  if (is_bound(L)) return;
  if (r->state->record != r) use_record(r->state, r);
  bind(r->state, r);
  ltide_last = NULL;
}

ltide_state *ltide_enter_slow(lua_State *L) {
  luaL_checkstack(L, 8, "tide");
  ltide_state *S = ltide_state_of(L);
  if (S->running != L) note_resumer(L, S);
  ltide_record *r = find_record(L);
  if (!r || !r->current) r = new_record(L, S); /* a finaliser may call us in it */
  if (S->running != L || S->record != r) {
    lua_pushthread(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_running);
    S->running = L;
    use_record(S, r);
  }
  bind(S, r);
  S->in_ffi = false; /* where an error has ended a call through it */
  ltide_last = L, ltide_last_state = S, ltide_last_epoch = atomic_load(&ltide_epoch);
  if (atomic_load(&S->asked))
    collect_at_last(L, S);
  else if (atomic_load(&S->wanted) && may_pace(L, S))
    (atomic_load(&S->wanted) == WANT_ALL ? (void)collect(L, S) : step(L, S));
  return S;
}

/* {==== The struct of a Lua state */

/* Those of coroutines that finalisers have run while the state was closing get no finaliser any more. */
static void free_records(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) free_record(lua_touserdata(L, -1));
  lua_pop(L, 1);
}

static int state_gc(lua_State *L) {
  ltide_state *S = ltide_test_object(L, 1, "tide.state");
  if (S) ltide_state_unlist(S);
  if (!S || !S->started) return 0; /* opening failed, or closed already */
  S->started = false, S->record = NULL;
  free_records(L);
  S->end(S);
  tide_fuse_free(S->fuse), S->fuse = NULL;
  free(S->warned.text), S->warned.text = NULL;
  if (S->hook.close) S->hook.close(L, S);
  tide_quota_release(S->quota), S->quota = NULL;
  tide_reclaim_remove(reclaim, S);
  if (atomic_load(&S->asked)) tide_reclaim_answer(); /* all is collected */
  tide_current_bind(NULL);
  tide_current_on_bind(NULL);
  atomic_fetch_add(&ltide_epoch, 1);
  ltide_last = NULL, ltide_last_state = NULL;
  tide_index_base_set(NULL);
  tide_site_set(NULL, NULL);
  tide_warn_set(NULL, NULL);
  tide_shutdown();
  return 0;
}

static void weak_table(lua_State *L, const void *key, const char *mode) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

ltide_state *ltide_state_open(lua_State *L, ltide_warn_fn warn, void (*end)(ltide_state *S)) {
  ltide_state *S = ltide_new_userdata(L, sizeof *S, 0);
  memset(S, 0, sizeof *S);
  S->warn = warn, S->end = end, S->granted = TIDE_LUA_ALL;
  S->has_options = lua_getfield(L, LUA_REGISTRYINDEX, "tide.options") == LUA_TLIGHTUSERDATA;
  lua_pop(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  S->main = lua_tothread(L, -1);
  ltide_link_clear(&S->handles);
  lua_pop(L, 1);
  ltide_open_finaliser(L, "tide.state", state_gc);
  ltide_setmetatable(L, "tide.state");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_state);
  ltide_open_finaliser(L, "tide.record", record_gc);
  weak_table(L, &key_records, "k");
  weak_table(L, &key_resumers, "kv");
  if (tide_init(NULL) != TIDE_OK) luaL_error(L, "%s", tide_error_get()->message);
  S->started = true; /* from here on whatever fails, the state ends it */
  ltide_last = NULL;
  ltide_state_list(S);
  S->step_room = HOST_LOOK;
  ltide_enter(L);
  tide_reclaim_add(reclaim, S);
  return S;
}

void ltide_push_state(lua_State *L) { lua_rawgetp(L, LUA_REGISTRYINDEX, &key_state); }

void ltide_state_close(lua_State *L) {
  lua_pushcfunction(L, state_gc);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_state);
  lua_call(L, 1, 0);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_state);
}
