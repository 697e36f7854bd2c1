/* timer.c: tide.Timer and tide.cuda.Timer.
 *
 * The first reads the host's clocks. The second measures what a stream does: it holds two events with timing, of which
 * the first is recorded when it is made or reset and the second at each question, on the current stream of the device
 * that it was started on. Asking waits for that stream's work, so what is measured has really run.
 *
 * Invariant: a timer of a device holds both its events from its making on; the finaliser lets them go once. */
#include <time.h>

#include "call/class.h"
#include "call/system.h"

/* {==== tide.Timer */

typedef struct ltide_timer {
  double real, user, sys;
} ltide_timer;

static ltide_timer clock_now(void) {
  struct timespec t;
  ltide_timer now;
  clock_gettime(CLOCK_MONOTONIC, &t);
  now.real = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
  ltide_processor_seconds(&now.user, &now.sys);
  return now;
}

static int ltimer_time(lua_State *L, ltide_call *c);
static int ltimer_reset(lua_State *L, ltide_call *c);

static ltide_row timer_methods[] = {
    OF(timer, time, DO(ltimer_time), "() -> table", "{real=, user=, sys=}: seconds since it was made or reset.")
        OF(timer, reset, DO(ltimer_reset), "() -> timer", "Starts again."){0}};
static const ltide_class timer_class = {
    .meta = "tide.Timer", .name = "Timer", .rows = timer_methods, .size = sizeof(ltide_timer)};

static int ltimer_new(lua_State *L, ltide_call *c) {
  *(ltide_timer *)ltide_new_instance(L, &timer_class) = clock_now();
  return 1;
}

static int ltimer_reset(lua_State *L, ltide_call *c) {
  *(ltide_timer *)ltide_check_object(L, 1, timer_class.meta) = clock_now();
  return ltide_self(L, TIDE_OK);
}

static int ltimer_time(lua_State *L, ltide_call *c) {
  static const ltide_field fields[] = LTIDE_FIELDS(ltide_timer, real, user, sys);
  ltide_timer *t = ltide_check_object(L, 1, timer_class.meta), n = clock_now();
  n.real -= t->real, n.user -= t->user, n.sys -= t->sys;
  lua_createtable(L, 0, 3);
  ltide_set_fields(L, fields, &n, false);
  return 1;
}

/* {==== tide.cuda.Timer */

typedef struct ltide_cuda_timer {
  tide_event *start, *end;
} ltide_cuda_timer;

static int lcuda_timer_time(lua_State *L, ltide_call *c);
static int lcuda_timer_reset(lua_State *L, ltide_call *c);

static void release(void *timer) {
  ltide_cuda_timer *t = timer, own = *t;
  *t = (ltide_cuda_timer){0};
  tide_event_release(own.start);
  tide_event_release(own.end);
}

static ltide_row cuda_timer_methods[] = {
    OF(timer, time, NEEDS(WAITS, DO(lcuda_timer_time)), "() -> table",
       "Seconds of the device since it was made or reset; waits.")
        OF(timer, reset, DO(lcuda_timer_reset), "() -> timer", "Starts again."){0}};
static const ltide_class cuda_timer_class = {.meta = "tide.cuda.Timer",
                                             .name = "Timer",
                                             .rows = cuda_timer_methods,
                                             .size = sizeof(ltide_cuda_timer),
                                             .release = release};

static ltide_cuda_timer *check_timer(lua_State *L) {
  ltide_cuda_timer *t = ltide_check_object(L, 1, cuda_timer_class.meta);
  if (!t->end) ltide_freed_error(L, "timer", "timer");
  return t;
}

/* Records on the current stream of the device; TIDE_CURRENT: the current device. */
static void record_now(lua_State *L, tide_event *event, int device) {
  tide_stream *s;
  ltide_try(L, tide_current_stream(&s, device));
  ltide_try(L, tide_event_record(event, s));
}

static int lcuda_timer_new(lua_State *L, ltide_call *c) {
  ltide_cuda_timer *t = ltide_new_instance(L, &cuda_timer_class);
  ltide_try(L, tide_event_new(&t->start, TIDE_EVENT_TIMING));
  ltide_try(L, tide_event_new(&t->end, TIDE_EVENT_TIMING));
  record_now(L, t->start, TIDE_CURRENT);
  return 1;
}

static int lcuda_timer_reset(lua_State *L, ltide_call *c) {
  ltide_cuda_timer *t = check_timer(L);
  record_now(L, t->start, tide_event_device(t->start));
  return ltide_self(L, TIDE_OK);
}

static int lcuda_timer_time(lua_State *L, ltide_call *c) {
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

void ltide_open_timer(lua_State *L, ltide_state *S) {
#include <rows/timer.inc>
#include <rows/timer_cuda.inc>
  ltide_open_class(L, &timer_class);
  ltide_open_class(L, &cuda_timer_class);
  ltide_register_rows(L, "tide", timer_rows);
  ltide_register_in(L, "tide.cuda", timer_cuda_rows);
}
