/* timer.c: tide.Timer and tide.cuda.Timer.
 *
 * The first reads the host's clocks. The second measures what a stream does: it holds two events with timing, of which
 * the first is recorded when it is made or reset and the second at each question, on the current stream of the device
 * that it was started on. Asking waits for that stream's work, so what is measured has really run.
 *
 * Invariant: a timer of a device holds both its events from its making on; the finaliser lets them go once. */
#include <time.h>
#include <sys/resource.h>

#include "row.h"
#include "bindings.h"

#define TIMER_META      "tide.Timer"
#define CUDA_TIMER_META "tide.cuda.Timer"

/* {==== tide.Timer */

typedef struct ltide_timer {
  double real, user, sys;
} ltide_timer;

static ltide_timer clock_now(void) {
  struct timespec t;
  struct rusage r;
  clock_gettime(CLOCK_MONOTONIC, &t);
  getrusage(RUSAGE_SELF, &r);
  return (ltide_timer){(double)t.tv_sec + 1e-9 * (double)t.tv_nsec,
                       (double)r.ru_utime.tv_sec + 1e-6 * (double)r.ru_utime.tv_usec,
                       (double)r.ru_stime.tv_sec + 1e-6 * (double)r.ru_stime.tv_usec};
}

static int ltimer_new(lua_State *L) {
  ltide_timer *t = ltide_new_object(L, sizeof *t, 0);
  *t = clock_now();
  ltide_setmetatable(L, TIMER_META);
  return 1;
}

static int ltimer_reset(lua_State *L) {
  ltide_no_options(L, 1);
  *(ltide_timer *)ltide_check_object(L, 1, TIMER_META) = clock_now();
  lua_settop(L, 1);
  return 1;
}

static int ltimer_time(lua_State *L) {
  ltide_no_options(L, 1);
  ltide_timer *t = ltide_check_object(L, 1, TIMER_META), n = clock_now();
  lua_createtable(L, 0, 3);
  lua_pushnumber(L, n.real - t->real), lua_setfield(L, -2, "real");
  lua_pushnumber(L, n.user - t->user), lua_setfield(L, -2, "user");
  lua_pushnumber(L, n.sys - t->sys), lua_setfield(L, -2, "sys");
  return 1;
}

/* {==== tide.cuda.Timer */

typedef struct ltide_cuda_timer {
  tide_event *start, *end;
} ltide_cuda_timer;

static ltide_cuda_timer *check_timer(lua_State *L) {
  ltide_cuda_timer *t = ltide_test_object(L, 1, CUDA_TIMER_META);
  if (!t || !t->end) ltide_arg_error(L, 1, "timer", "a tide.cuda.Timer");
  return t;
}

static int cuda_timer_gc(lua_State *L) {
  ltide_cuda_timer *t = ltide_test_object(L, 1, CUDA_TIMER_META), own;
  if (!t) return 0;
  own = *t, *t = (ltide_cuda_timer){0};
  if (own.start) tide_event_release(own.start);
  if (own.end) tide_event_release(own.end);
  return 0;
}

/* Records on the current stream of the device; TIDE_CURRENT: the current device. */
static void record_now(lua_State *L, tide_event *event, int device) {
  tide_stream *s;
  ltide_try(L, tide_current_stream(&s, device));
  ltide_try(L, tide_event_record(event, s));
}

static int lcuda_timer_new(lua_State *L) {
  ltide_enter(L);
  if (!lua_isnone(L, 1)) return ltide_arg_error(L, 1, "argument", "none");
  ltide_cuda_timer *t = ltide_new_object(L, sizeof *t, 0);
  *t = (ltide_cuda_timer){0};
  ltide_setmetatable(L, CUDA_TIMER_META);
  ltide_try(L, tide_event_new(&t->start, TIDE_EVENT_TIMING));
  ltide_try(L, tide_event_new(&t->end, TIDE_EVENT_TIMING));
  record_now(L, t->start, TIDE_CURRENT);
  return 1;
}

static int lcuda_timer_reset(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  ltide_cuda_timer *t = check_timer(L);
  record_now(L, t->start, tide_event_device(t->start));
  lua_settop(L, 1);
  return 1;
}

static int lcuda_timer_time(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  ltide_cuda_timer *t = check_timer(L);
  double ms;
  record_now(L, t->end, tide_event_device(t->start));
  ltide_try(L, tide_event_synchronize(t->start)); /* it may be on another stream than the end */
  ltide_try(L, tide_event_synchronize(t->end));
  ltide_try(L, tide_event_elapsed(&ms, t->start, t->end));
  lua_createtable(L, 0, 1);
  lua_pushnumber(L, ms / 1000);
  lua_setfield(L, -2, "real");
  return 1;
}

static ltide_row timer_methods[] = {
    OF(timer, time, FN(ltimer_time), "() -> table", "{real=, user=, sys=}: seconds since it was made or reset.")
        OF(timer, reset, FN(ltimer_reset), "() -> timer", "Starts again."){0}};
static ltide_row cuda_timer_methods[] = {
    OF(timer, time, FN(lcuda_timer_time), "() -> table", "Seconds of the device since it was made or reset; waits.")
        OF(timer, reset, FN(lcuda_timer_reset), "() -> timer", "Starts again."){0}};

void ltide_open_timer(lua_State *L, ltide_state *S) {
  (void)S;
#define PATH "tide."
  static ltide_row timer_rows[] = {
#include "api/timer.def"
      {0}};
#undef PATH
#define PATH "tide.cuda."
  static ltide_row timer_cuda_rows[] = {
#include "api/timer_cuda.def"
      {0}};
  ltide_newmetatable(L, TIMER_META);
  lua_newtable(L);
  ltide_register_rows(L, "Timer", timer_methods);
  lua_setfield(L, -2, "__index");
  ltide_newmetatable(L, CUDA_TIMER_META);
  lua_pushcfunction(L, cuda_timer_gc);
  lua_setfield(L, -2, "__gc");
  lua_newtable(L);
  ltide_register_rows(L, "Timer", cuda_timer_methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 2);
  ltide_register_rows(L, "tide", timer_rows);
  lua_getfield(L, -1, "cuda");
  ltide_register_rows(L, "tide.cuda", timer_cuda_rows);
  lua_pop(L, 1);
}
