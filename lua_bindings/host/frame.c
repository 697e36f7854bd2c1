/* frame.c: scripts in the frames of a host (tide_lua.h).
 *
 * A function runs in a coroutine, so that it may yield while a device works; then it is a job, and later frames resume
 * it. Coroutines that are done serve again, with what the host's own has selected: a frame whose functions end makes no
 * garbage. They stand in two tables of the registry, of jobs in the order of their turns and of idle ones.
 *
 * The collector stands still from begin to end. At the end it makes small steps in the slack, through cycle after
 * cycle, and rests after each until something has been allocated.
 *
 * Invariant: waits are refused (tide_refuse_waits) just while a coroutine of ours runs, and while the slack is used. */
#include <limits.h>
#include <time.h>

#include "frame.h"
#include "call/system.h"
#include "quota/interruptible_pcall.h"
#include "frame_cost.h"
#include "call/scope.h"
#include "call/block.h"
#include "device/device.h"
#include "quota/quota.h"
#include "tensor/tensor.h"
#include "tide/debug.h"

enum { IDLE = 8 };                                          /* coroutines that are kept */
enum { STEP_MUL = 1 };                                      /* percent, the least: most steps take some 5 us so */
enum { REST_LUA = 8 << 10, REST = 4 << 20, PER_STEP = 40 }; /* bytes that begin a cycle; that are one step's worth */

static const char refusal[] = "expected no wait in a frame of the host's: tide.await yields until the value is there";

typedef struct ltide_frame {
  bool open, resuming, collector, in_cycle;
  int64_t began, deadline, scripts; /* nanoseconds */
  tide_frame_options o;
  int jobs, turn, waiting;       /* how many; whose turn it is, from 1; how many in a row wait for a device */
  int idle;                      /* of them in the table, from 1 */
  int jobs_ref, idle_ref;        /* references in the registry */
  size_t lua_begun;              /* bytes of Lua's heap when the frame began */
  size_t lua_left, left;         /* what the last cycle left, of Lua's and of tensors */
  int64_t longest, last_longest; /* nanoseconds of the longest step of this cycle, and of the one before */
  ltide_costs *costs;            /* what jobs and calls take */
} ltide_frame;
struct ltide_frame_part {
  ltide_frame *frame; /* NULL before the host's first one */
};
LTIDE_PART(frame)
LTIDE_PART_SIZE(frame)

static size_t lua_bytes(lua_State *L) {
  return ((size_t)lua_gc(L, LUA_GCCOUNT) << 10) + (size_t)lua_gc(L, LUA_GCCOUNTB);
}

/* What the host has bound is put aside while scripts run. Where scripts ran last it has bound nothing. */
static tide_current *leave_host(void) { return ltide_last ? NULL : tide_current_bind(NULL); }

static ltide_frame *frame_of(lua_State *L) {
  const ltide_state *S = ltide_state_of(L);
  return S ? ltide_frame_of(S)->frame : NULL;
}

/* {==== Begin */

static int make_frame(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_frame *f = ltide_new_userdata(L, sizeof *f, 0);
  memset(f, 0, sizeof *f);
  f->turn = 1;
  f->costs = ltide_costs_new(L);
  lua_newtable(L);
  f->jobs_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_createtable(L, IDLE, 0);
  for (int i = 1; i <= IDLE; i++) lua_pushboolean(L, 0), lua_rawseti(L, -2, i);
  f->idle_ref = luaL_ref(L, LUA_REGISTRYINDEX);
  luaL_ref(L, LUA_REGISTRYINDEX); /* it lives as long as the state */
  ltide_frame_of(S)->frame = f;
  return 0;
}

/* Does a script's function run, or a job? */
bool ltide_in_script(lua_State *L) {
  const ltide_state *S = ltide_state_of(L);
  lua_State *of[2] = {L, S ? S->main : L};
  lua_Debug ar;
  for (int k = 0; k < 2; k++)
    for (int i = 0; lua_getstack(of[k], i, &ar); i++)
      if (lua_getinfo(of[k], "S", &ar) && *ar.what != 'C') return true;
  return S && ltide_turn_of(S)->in_frame;
}

static const char *const in_script =
    "frame: a script runs, got a call by one of its functions, expected one by the host";
static int refuse(const char *why) { return tide_error_set(TIDE_STATE, why), 0; }

static tide_frame_options read_options(const tide_frame_options *from) {
  const int64_t most = INT64_MAX / 4000; /* counted in nanoseconds, and added to the clock's */
  tide_frame_options o = {0};
  if (from) memcpy(&o, from, from->struct_size < sizeof o ? from->struct_size : sizeof o);
  if (o.budget > most) o.budget = most;
  if (o.collect > most) o.collect = most;
  return o;
}

static int yield_for(lua_State *L, lua_CFunction fn);

/* The job that did not fit in the last frame has the first turn. */
static void begin_costs(ltide_frame *f) {
  ltide_costs *t = f->costs;
  ltide_costs_begin(t, f->o.device_budget, f->o.budget, f->jobs);
  for (int i = 0; t->next_turn && i < f->jobs; i++)
    if (t->job[i].id == t->next_turn) f->turn = i + 1;
  t->first_turn = t->next_turn, t->next_turn = 0;
}

/* Calls fn, which keeps what it makes. */
static bool make(lua_State *L, lua_CFunction fn) {
  tide_current *host = leave_host();
  lua_pushcfunction(L, fn);
  int status = lua_pcall(L, 0, 0, 0);
  tide_current_bind(host);
  if (status != LUA_OK) lua_pop(L, 1);
  return status == LUA_OK;
}

int ltide_frame_begin(lua_State *L, const tide_frame_options *options) {
  ltide_state *S = ltide_state_of(L);
  struct ltide_frame_part *part = ltide_frame_of(S);
  if (!S) return refuse("frame_begin: the state has ended");
  if (ltide_in_script(L)) return refuse(in_script);
  if (options && (options->struct_size < sizeof(size_t) || options->struct_size > 65536))
    return refuse("frame_begin: struct_size is wrong, expected sizeof(tide_frame_options)");
  tide_frame_options o = read_options(options);
  if (o.budget <= 0 || o.collect < 0 || o.device_budget < 0 || (unsigned)o.on_wait > TIDE_FRAME_WAIT_YIELDS)
    return refuse("frame_begin: wrong options, expected a budget of more than 0 and no negative number");
  if (S->frame_open) return refuse("frame_begin: a frame is open, expected tide_frame_end first");
  if (!lua_checkstack(L, LUA_MINSTACK)) return refuse("frame_begin: Lua has no memory");
  if (!part->frame && !make(L, make_frame)) return 0;
  ltide_frame *f = part->frame;
  f->open = true, f->o = o;
  f->began = ltide_now(), f->deadline = f->began + o.budget * 1000, f->scripts = 0;
  f->waiting = 0;
  begin_costs(f);
  f->collector = lua_gc(L, LUA_GCISRUNNING);
  lua_gc(L, LUA_GCSTOP);
  f->lua_begun = lua_bytes(L);
  ltide_turn_of(S)->wait = LTIDE_YIELDS && o.on_wait == TIDE_FRAME_WAIT_YIELDS ? yield_for : NULL;
  atomic_store(&S->frame_open, true);
  return 1;
}

/* {==== Coroutines */

/* A coroutine at the top, with the streams and the device that L has. */
static int new_coroutine(lua_State *L) {
  lua_newthread(L);
  ltide_make_record(L, -1);
  return 1;
}

static int push_coroutine(lua_State *L, ltide_frame *f) {
  if (!f->idle) {
    lua_pushcfunction(L, new_coroutine);
    return lua_pcall(L, 0, 1, 0);
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, f->idle_ref);
  lua_rawgeti(L, -1, f->idle);
  lua_pushboolean(L, 0);
  lua_rawseti(L, -3, f->idle--);
  lua_remove(L, -2);
  const ltide_record *from = ltide_record_of(L), *r = ltide_record_of(lua_tothread(L, -1));
  if (!from) from = ltide_record_of(ltide_state_of(L)->main);
  if (from && from->current && r && r->current) tide_current_copy(r->current, from->current);
  return LUA_OK;
}

/* The coroutine at the index, which has ended: it may serve again, unless a block is still open in it. */
static void keep_idle(lua_State *L, ltide_frame *f, int at) {
  lua_State *co = lua_tothread(L, at);
  const ltide_record *r = ltide_record_of(co);
  at = lua_absindex(L, at);
  if (f->idle == IDLE || lua_status(co) != LUA_OK || (r && r->depth)) return;
  lua_settop(co, 0);
  lua_rawgeti(L, LUA_REGISTRYINDEX, f->idle_ref);
  lua_pushvalue(L, at);
  lua_rawseti(L, -2, ++f->idle);
  lua_pop(L, 1);
}

/* Runs the coroutine on. An error leaves its message at the top of L, and what the coroutine has to close is closed; it
 * is left as it is where a hook has ended it. */
static int resume(lua_State *L, lua_State *co, int args, int *results) {
  ltide_state *S = ltide_state_of(L);
  struct ltide_turn_part *turn = ltide_turn_of(S);
  const char *before = tide_refuse_waits(refusal);
  int64_t begun = ltide_now();
  turn->in_frame = co, turn->awaits = false;
  if (S->quota) ltide_hook_on(S, co);
  int status = lua_resume(co, L, args, results);
  if (status > LUA_YIELD) {
    if (lua_checkstack(co, 1)) lua_pushvalue(co, -1); /* what is closed gets it, too */
    lua_xmove(co, L, 1);
    if (!ltide_ended_by_hook(co)) lua_resetthread(co);
  }
  turn->in_frame = NULL;
  ltide_frame_of(S)->frame->scripts += ltide_now() - begun;
  tide_refuse_waits(before);
  return status;
}

static tide_current *current_of(lua_State *L, lua_State *co) {
  const ltide_record *r = ltide_record_of(co);
  if (!r || !r->current) r = ltide_record_of(ltide_state_of(L)->main);
  return r ? r->current : NULL;
}

/* Likewise, and measures a job's turn, or the call of a function. A turn that has found the job waiting, and leaves it
 * so, queues nothing. */
static int measured(lua_State *L, lua_State *co, int args, int *results, ltide_job job, const void *function) {
  ltide_frame *f = frame_of(L);
  ltide_costs *t = f->costs;
  int64_t begun = ltide_now();
  ltide_slice *s = f->o.device_budget ? ltide_costs_open(t, current_of(L, co), f->jobs) : NULL;
  if (s) s->job = job.id, s->function = function;
  int status = resume(L, co, args, results);
  if (job.awaits && status == LUA_YIELD && ltide_turn_of(ltide_state_of(L))->awaits) {
    ltide_costs_drop(s);
    return status;
  }
  t->ran += !function;
  if (f->o.device_budget) ltide_costs_close(t, s, current_of(L, co), job.device);
  if (!function) ltide_costs_learn(t, f->turn, (double)(ltide_now() - begun) / 1000);
  return status;
}

/* Appends the coroutine at 1 to the jobs. */
static int add_job(lua_State *L) {
  ltide_frame *f = frame_of(L);
  ltide_costs_room(L, f->costs, f->jobs);
  f->costs->job[f->jobs] = (ltide_job){.id = f->costs->ids,
                                       .device = -1,
                                       .host = -1,
                                       .awaits = ltide_turn_of(ltide_state_of(L))->awaits,
                                       .served = true};
  lua_rawgeti(L, LUA_REGISTRYINDEX, f->jobs_ref);
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, f->jobs + 1);
  f->jobs++;
  return 0;
}

static int become_job(lua_State *L) {
  lua_pushcfunction(L, add_job);
  lua_insert(L, -2);
  int status = lua_pcall(L, 1, 0, 0);
  return status == LUA_OK ? LUA_YIELD : status;
}

/* {==== Calls */

static int push_misuse(lua_State *L) {
  const char *message = lua_touserdata(L, 1);
  lua_pushstring(L, message);
  return ltide_push_error(L, "StateError"), 1;
}

int ltide_fail_misuse(lua_State *L, int args, const char *message) {
  lua_pop(L, args);
  lua_pushcfunction(L, push_misuse);
  lua_pushlightuserdata(L, (void *)message);
  lua_pcall(L, 1, 1, 0);
  return LUA_ERRRUN;
}

static int raise_end(lua_State *L) { return ltide_done(L, tide_quota_check(ltide_state_of(L)->quota)); }

/* A script that has ended: what begins anew would run until a hook looks. LUA_OK, or the error is pushed. */
int ltide_check_ended(lua_State *L) {
  const ltide_state *S = ltide_state_of(L);
  if (!S->quota || tide_quota_check(S->quota) == TIDE_OK) return LUA_OK;
  lua_pushcfunction(L, raise_end);
  return lua_pcall(L, 0, 0, 0);
}

/* Stack: the coroutine, then n results of its own. */
static int take_results(lua_State *L, ltide_frame *f, lua_State *co, int n, int wanted) {
  if (wanted != LUA_MULTRET) {
    if (!lua_checkstack(co, wanted)) return ltide_fail_misuse(L, 1, "frame_call: too many results");
    for (; n < wanted; n++) lua_pushnil(co);
    lua_pop(co, n - wanted);
    n = wanted;
  }
  if (!lua_checkstack(L, n + 4))
    return ltide_fail_misuse(L, 1, "frame_call: too many results, and no room on the stack");
  lua_xmove(co, L, n);
  keep_idle(L, f, -n - 1);
  lua_remove(L, -n - 1);
  return LUA_OK;
}

static int call(lua_State *L, ltide_frame *f, int args, int results) {
  int status = push_coroutine(L, f), n = 0;
  lua_insert(L, -args - 2);
  if (status != LUA_OK) return lua_pop(L, args + 1), status;
  lua_State *co = lua_tothread(L, -args - 2);
  if (!lua_checkstack(co, args + LUA_MINSTACK)) return ltide_fail_misuse(L, args + 2, "frame_call: too many arguments");
  const void *function = lua_topointer(L, -args - 1);
  if (!function) function = co; /* what is a number, or nil, raises that it cannot be called */
  lua_xmove(L, co, args + 1);
  ltide_job job = {.id = ++f->costs->ids, .device = ltide_costs_of(f->costs, function), .host = -1};
  status = measured(L, co, args, &n, job, function);
  if (status == LUA_OK) return take_results(L, f, co, n, results);
  if (status == LUA_YIELD) return lua_pop(co, n), become_job(L);
  keep_idle(L, f, -2);
  lua_remove(L, -2);
  return status;
}

int ltide_frame_call(lua_State *L, int args, int results) {
  ltide_frame *f = frame_of(L);
  if (args < 0 || args >= lua_gettop(L))
    return ltide_fail_misuse(L, 0, "frame_call: args is not the number of arguments there");
  if (results < LUA_MULTRET) return ltide_fail_misuse(L, args + 1, "frame_call: results is negative");
  if (!f || !f->open)
    return ltide_fail_misuse(L, args + 1, "frame_call: no frame is open, expected tide_frame_begin before");
  if (ltide_in_script(L)) return ltide_fail_misuse(L, args + 1, in_script);
  if (!lua_checkstack(L, LUA_MINSTACK)) return ltide_fail_misuse(L, args + 1, "frame_call: no room on the stack");
  tide_current *host = leave_host();
  int status = ltide_check_ended(L);
  if (status == LUA_OK) {
    status = call(L, f, args, results);
  } else { /* the error in the place of the function */
    lua_replace(L, -args - 2);
    lua_pop(L, args);
  }
  tide_current_bind(host);
  return status;
}

/* The job of this turn is gone: those behind it move up. */
static void remove_job(lua_State *L, ltide_frame *f) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, f->jobs_ref);
  for (int i = f->turn; i < f->jobs; i++) lua_rawgeti(L, -1, i + 1), lua_rawseti(L, -2, i);
  for (int i = f->turn; i < f->jobs; i++) f->costs->job[i - 1] = f->costs->job[i];
  lua_pushnil(L);
  lua_rawseti(L, -2, f->jobs--);
  lua_pop(L, 1);
}

/* One turn of a job. */
static int take_turn(lua_State *L, ltide_frame *f) {
  int n = 0;
  lua_rawgeti(L, LUA_REGISTRYINDEX, f->jobs_ref);
  lua_rawgeti(L, -1, f->turn);
  lua_remove(L, -2);
  lua_State *co = lua_tothread(L, -1);
  ltide_job *job = &f->costs->job[f->turn - 1];
  job->served = true;
  int status = measured(L, co, 0, &n, *job, NULL);
  if (status == LUA_YIELD) {
    lua_pop(co, n);
    bool awaits = ltide_turn_of(ltide_state_of(L))->awaits;
    f->waiting = awaits ? f->waiting + 1 : 0;
    job->awaits = awaits;
    f->turn++;
    lua_pop(L, 1);
    return status;
  }
  remove_job(L, f);
  f->waiting = 0;
  keep_idle(L, f, status == LUA_OK ? -1 : -2);
  lua_remove(L, status == LUA_OK ? -1 : -2);
  return status;
}

int ltide_frame_resume(lua_State *L) {
  ltide_frame *f = frame_of(L);
  if (ltide_in_script(L)) return ltide_fail_misuse(L, 0, in_script);
  if (!f || !f->open || !lua_checkstack(L, LUA_MINSTACK)) return LUA_OK;
  const ltide_state *S = ltide_state_of(L);
  tide_current *host = leave_host();
  int status = LUA_OK;
  for (int64_t left; status <= LUA_YIELD && f->waiting < f->jobs && (left = f->deadline - ltide_now()) > 0;) {
    if (S->quota && tide_quota_check(S->quota) != TIDE_OK) break; /* they are not to end with another one's error */
    if (f->turn > f->jobs) f->turn = 1;
    if (ltide_costs_fits(f->costs, f->turn, (double)left / 1000))
      status = take_turn(L, f);
    else
      f->waiting++, f->turn++;
  }
  tide_current_bind(host);
  if (status > LUA_YIELD) return status;
  f->waiting = 0; /* another call asks them again */
  return LUA_OK;
}

/* {==== Waits that yield
 *
 * The arguments of the function that would wait are on the stack. Tensors on devices are copied to the host in their
 * places; above all of them lie the events that tell when the copies are there, the function (or nil) and how many
 * events there are. */

/* `top` is the place of that number: what lies above it was given by a script that resumed this coroutine itself. */
static int when_there(lua_State *L, int status, lua_KContext top) {
  ltide_state *S = ltide_enter(L);
  lua_settop(L, (int)top);
  int count = (int)lua_tointeger(L, -1), last = (int)top - 2;
  for (int i = 0; i < count; i++) {
    bool done;
    ltide_try(L, tide_event_query(&done, ltide_check_event(L, last - i, "event")));
    if (done) continue;
    ltide_turn_of(S)->awaits = true;
    return lua_yieldk(L, 0, top, when_there);
  }
  lua_CFunction fn = lua_tocfunction(L, -2);
  lua_pop(L, count + 2);
  return fn ? fn(L) : 0;
}

/* The event of a stream or of an event, which a synchronize waits for; false: it is neither. */
static bool push_mark(lua_State *L, ltide_state *S) {
  bool is_stream = ltide_test_meta(L, 1, ltide_handle_of(S)->stream_meta);
  if (!is_stream && !ltide_test_meta(L, 1, ltide_handle_of(S)->event_meta)) return false;
  if (!is_stream) {
    ltide_check_event(L, 1, "event");
    lua_pushvalue(L, 1);
    return true;
  }
  tide_event **mark = ltide_new_event(L);
  ltide_try(L, tide_event_new(mark, 0));
  ltide_try(L, tide_event_record(*mark, ltide_check_stream(L, 1, "stream")));
  return true;
}

static int yield_for(lua_State *L, lua_CFunction fn) {
  ltide_state *S = ltide_enter(L);
  int args = lua_gettop(L), count = 0;
  luaL_checkstack(L, args + LUA_MINSTACK, "tide: arguments");
  if (args == 1 && push_mark(L, S)) {
    lua_pushnil(L);
    lua_pushinteger(L, 1);
    return when_there(L, LUA_OK, lua_gettop(L));
  }
  for (int i = 1; i <= args; i++) {
    const ltide_tensor *x = ltide_test_handle(L, S, i);
    if (!x || !x->t || tide_tensor_device(x->t) < 0) continue;
    tide_event **there = ltide_new_event(L);
    tide_tensor **host = &ltide_new_tensor(L, S)->t;
    ltide_try(L, tide_readback(host, there, ltide_check_tensor(L, S, i, "x")));
    ltide_made(L, S);
    lua_replace(L, i);
    count++;
  }
  lua_pushcfunction(L, fn);
  lua_pushinteger(L, count);
  return when_there(L, LUA_OK, lua_gettop(L));
}

/* {==== The slack */

/* Is there more than a cycle would be for? Between marking and sweeping Lua goes through all that is dead and has a
 * finaliser, as tensors do, in one piece: some 0.2 us each. So cycles are many, and each finds little. */
static bool wants_cycle(lua_State *L, const ltide_frame *f) {
  size_t bytes = ltide_alive(), lua = lua_bytes(L);
  return lua > f->lua_left + f->lua_left / 32 + REST_LUA || bytes > f->left + f->left / 4 + REST;
}

/* Steps until the deadline, and at least so many. Tells whether a cycle has ended. One step of a cycle is longer than
 * all others, and nothing tells which comes next: half of the time may be kept free for it. */
static bool collect(lua_State *L, ltide_frame *f, int64_t deadline, size_t least) {
  bool ended = false;
  int64_t t = ltide_now(), half = (deadline - t) / 2;
  int pace = lua_gc(L, LUA_GCSETSTEPMUL, STEP_MUL);
  deadline -= f->last_longest < half ? f->last_longest : half;
  while (!ended && (t < deadline || least)) {
    ended = lua_gc(L, LUA_GCSTEP, 0);
    int64_t next = ltide_now();
    if (next - t > f->longest) f->longest = next - t;
    t = next;
    least -= least != 0;
  }
  lua_gc(L, LUA_GCSETSTEPMUL, pace);
  f->in_cycle = !ended;
  if (ended) f->last_longest = f->longest, f->longest = 0;
  return ended;
}

static bool collect_in_slack(lua_State *L, ltide_frame *f) {
  size_t lua = lua_bytes(L), least = f->o.collect || lua < f->lua_begun ? 0 : (lua - f->lua_begun) / PER_STEP;
  int64_t deadline = f->o.collect ? ltide_now() + f->o.collect * 1000 : f->deadline;
  if (!f->in_cycle && !wants_cycle(L, f)) return false;
  lua_gc(L, LUA_GCINC, 0, 0, 0); /* a step of a collector with generations has no bound */
  return collect(L, f, deadline, least);
}

int ltide_frame_end(lua_State *L, tide_frame_stats *stats) {
  ltide_state *S = ltide_state_of(L);
  ltide_frame *f = S ? ltide_frame_of(S)->frame : NULL;
  if (ltide_in_script(L)) return refuse(in_script);
  if (!f || !f->open) return refuse("frame_end: no frame is open, expected tide_frame_begin first");
  if (stats && (stats->struct_size < sizeof(size_t) || stats->struct_size > 65536))
    return refuse("frame_end: struct_size is wrong, expected sizeof(tide_frame_stats)");
  tide_current *host = leave_host();
  int64_t begun = ltide_now();
  const char *before = tide_refuse_waits(refusal); /* finalisers are scripts, too */
  bool ended = collect_in_slack(L, f);
  tide_refuse_waits(before);
  tide_memory_pump();
  if (ended) f->lua_left = lua_bytes(L), f->left = ltide_alive();
  tide_current_bind(host);
  f->open = false;
  ltide_turn_of(S)->wait = NULL;
  atomic_store(&S->frame_open, false);
  if (f->collector) lua_gc(L, LUA_GCRESTART);
  if (!stats) return 1;
  int64_t end = ltide_now();
  const ltide_costs *t = f->costs;
  tide_frame_stats s = {stats->struct_size,
                        (end - f->began) / 1000,
                        f->scripts / 1000,
                        (end - begun) / 1000,
                        f->jobs,
                        ended,
                        (int64_t)(t->spent - t->behind),
                        (int64_t)t->behind};
  memcpy(stats, &s, stats->struct_size < sizeof s ? stats->struct_size : sizeof s);
  return 1;
}
