/* frame_budget_test.c: frames whose work may take so much of a device's time (tide_frame_options.device_budget). The
 * devices' time is modelled (dry mode) wherever it is compared: no clock of the machine decides anything. Slices that
 * take the host's time take at least what they say, so that on a slow machine fewer fit.
 *
 * usage: frame_budget_test tide.so. Simulated devices stand in. */
#include "frames.h"
#include "tide/sim.h"
#include "tide/tide.h"

enum { BUDGET = 3500 }; /* microseconds */

/* Each job sleeps so many ms on the device in every turn, and counts its turns. */
static const char jobs[] = "turns = {}\n"
                           "function job(name, ms)\n"
                           "  turns[name] = 0\n"
                           "  while true do\n"
                           "    tide.cuda._sleep(math.floor(ms * 1e6))\n"
                           "    turns[name] = turns[name] + 1\n"
                           "    coroutine.yield()\n"
                           "  end\n"
                           "end\n";

static lua_State *open_jobs(void) {
  lua_State *L = open_state();
  run(L, jobs);
  return L;
}

static void begin_budget(lua_State *L, int64_t budget) {
  tide_frame_options o = options(TIDE_FRAME_WAIT_RAISES);
  o.device_budget = budget;
  CHECK(tide_frame_begin(L, &o) == 1, "the frame does not begin");
}

static tide_frame_stats finish(lua_State *L) {
  tide_frame_stats s = {.struct_size = sizeof s};
  while (tide_frame_resume(L) != LUA_OK) {
    CHECK(false, "%s", luaL_tolstring(L, -1, NULL));
    lua_pop(L, 2);
  }
  CHECK(tide_frame_end(L, &s) == 1, "the frame does not end");
  return s;
}

static int turns(lua_State *L, const char *name) {
  lua_getglobal(L, "turns");
  lua_getfield(L, -1, name);
  int n = (int)lua_tointeger(L, -1);
  lua_settop(L, 0);
  return n;
}

static void add(lua_State *L, const char *text) { CHECK(call(L, text, 0) == LUA_YIELD, "no job: %s", text); }

/* One frame; what it has queued takes so many milliseconds. */
static double frame(lua_State *L, const char *text) {
  double before = TIDE(tide_sim_time)();
  begin_budget(L, BUDGET);
  if (text) works(L, text);
  tide_frame_stats s = finish(L);
  CHECK(s.device_behind == 0, "nothing is left behind, got %d us", (int)s.device_behind);
  return (TIDE(tide_sim_time)() - before) * 1e3;
}

/* {==== What fits */

static void test_fill(void) {
  lua_State *L = open_jobs();
  begin_budget(L, BUDGET);
  add(L, "job('a', 1)");
  finish(L);
  CHECK(turns(L, "a") == 1, "what is not measured counts as a frame, got %d turns", turns(L, "a"));
  for (int i = 1; i <= 10; i++) {
    double ms = frame(L, NULL);
    CHECK(turns(L, "a") == 1 + 3 * i && ms > 3 && ms < 3.5, "frame %d: %d turns, %g ms", i, turns(L, "a"), ms);
  }
  begin_budget(L, 2100);
  tide_frame_stats s = finish(L);
  CHECK(turns(L, "a") == 33 && s.device > 2000 && s.device < 2100, "%d turns, %d us", turns(L, "a"), (int)s.device);
  begin(L, TIDE_FRAME_WAIT_RAISES); /* a frame that counts nothing */
  s = (tide_frame_stats){.struct_size = sizeof s, .device = 7};
  works(L, "tide.cuda._sleep(1000)");
  CHECK(tide_frame_end(L, &s) == 1 && s.device == 0, "no budget, got %d us", (int)s.device);
  lua_close(L); /* with a job */
}

static void test_calls_count(void) {
  lua_State *L = open_jobs();
  run(L, "function update() tide.cuda._sleep(1000000) end");
  begin_budget(L, BUDGET);
  add(L, "job('a', 1)");
  finish(L);
  for (int i = 0; i < 3; i++) frame(L, NULL);
  lua_getglobal(L, "update"); /* the first time it is not known, and counts as a frame */
  int update = luaL_ref(L, LUA_REGISTRYINDEX), before = turns(L, "a");
  for (int i = 0; i < 10; i++) {
    begin_budget(L, BUDGET);
    lua_rawgeti(L, LUA_REGISTRYINDEX, update);
    CHECK(tide_frame_call(L, 0, 0) == LUA_OK, "the call fails");
    tide_frame_stats s = finish(L);
    CHECK(i == 0 || (s.device > 3000 && s.device < BUDGET), "frame %d: %d us", i, (int)s.device);
  }
  CHECK(turns(L, "a") - before == 18, "a call and two turns, got %d turns", turns(L, "a") - before);
  lua_close(L);
}

/* {==== What does not */

static void test_long(void) {
  lua_State *L = open_jobs();
  begin_budget(L, BUDGET);
  add(L, "job('a', 1)"), add(L, "job('long', 10)"), add(L, "job('b', 1)");
  finish(L);
  for (int i = 0; i < 4; i++) frame(L, NULL);
  int a = turns(L, "a"), b = turns(L, "b"), l = turns(L, "long"), alone = 0;
  for (int i = 0; i < 20; i++) {
    double ms = frame(L, NULL);
    alone += ms > 10;
    CHECK(ms < 3.5 || (ms > 10 && ms < 10.1), "frame %d takes %g ms", i, ms);
  }
  CHECK(alone >= 5 && turns(L, "long") - l == alone, "the long one has its frames: %d", alone);
  CHECK(turns(L, "a") - a >= 10 && turns(L, "b") - b >= 10, "and so have the others");
  lua_close(L);
}

/* Calls leave no room: the job goes on all the same, in every other frame, until they take it all. */
static void test_crowded(void) {
  lua_State *L = open_jobs();
  run(L, "function update(n) tide.cuda._sleep(n) end");
  lua_getglobal(L, "update");
  int update = luaL_ref(L, LUA_REGISTRYINDEX), took[3] = {0};
  begin_budget(L, BUDGET);
  add(L, "job('a', 1)");
  finish(L);
  frame(L, NULL);
  for (int part = 0; part < 2; part++) {
    int before = turns(L, "a");
    for (int i = 0; i < 10; i++) {
      begin_budget(L, BUDGET);
      lua_rawgeti(L, LUA_REGISTRYINDEX, update), lua_pushinteger(L, part ? 4000000 : 3000000);
      CHECK(tide_frame_call(L, 1, 0) == LUA_OK, "the call fails");
      finish(L);
    }
    took[part] = turns(L, "a") - before;
  }
  CHECK(took[0] >= 4 && took[0] <= 6, "beside calls: %d turns", took[0]);
  CHECK(took[1] <= 2, "beside calls that take it all: %d turns", took[1]);
  lua_close(L);
}

/* A job grows: the first such slice is late, the next ones are known. */
static void test_growth(void) {
  lua_State *L = open_jobs();
  run(L, "ms = 1 n = 0 function grow() while true do tide.cuda._sleep(math.floor(ms * 1e6)) n = n + 1 "
         "coroutine.yield() end end");
  begin_budget(L, BUDGET);
  add(L, "grow()");
  finish(L);
  frame(L, NULL);
  run(L, "ms = 2 n = 0");
  frame(L, NULL);
  double ms = frame(L, NULL);
  CHECK(ms > 2 && ms < 2.1, "one turn of 2 ms fits, got %g ms", ms);
  run(L, "ms = 0.25");
  for (int i = 0; i < 30; i++) CHECK(frame(L, NULL) <= 3.5, "it shrinks");
  CHECK(frame(L, NULL) > 3, "and is known again");
  lua_close(L);
}

/* Jobs end, fail and follow one another: what is known stays with the right one. */
static void test_ends(void) {
  lua_State *L = open_jobs();
  run(L, "function short(k) for i = 1, k do tide.cuda._sleep(500000) coroutine.yield() end end");
  begin_budget(L, BUDGET);
  add(L, "short(3)"), add(L, "job('a', 1)"), add(L, "short(9)");
  for (int i = 0; i < 20; i++) add(L, "job('b', 3)");
  finish(L);
  for (int i = 0; i < 30; i++) {
    double ms = frame(L, NULL);
    CHECK(ms < 3.6, "frame %d takes %g ms", i, ms);
  }
  CHECK(turns(L, "a") >= 2 && turns(L, "b") >= 1, "all have turns");
  lua_close(L);
}

/* {==== What is left undone */

static void test_behind(void) {
  lua_State *L = open_jobs();
  run(L, "hold = 60000 * 1e6 n = 0");
  begin_budget(L, BUDGET);
  add(L, "while true do tide.cuda._sleep(math.floor(hold)) n = n + 1 coroutine.yield() end");
  finish(L);
  for (int i = 0; i < 3; i++) { /* the device has not come to its end */
    begin_budget(L, BUDGET);
    tide_frame_stats s = finish(L);
    CHECK(s.device_behind == BUDGET && s.device == 0, "behind by %d us", (int)s.device_behind);
  }
  run(L, "assert(n == 1, n) hold = 0");
  TIDE(tide_sim_wake)();
  run(L, "tide.cuda.synchronize()");
  begin_budget(L, BUDGET);
  tide_frame_stats s = finish(L);
  CHECK(s.device_behind == 0, "it has caught up");
  run(L, "assert(n >= 2, n) tide.cuda.synchronize()");
  lua_close(L);
}

/* A job that waits asks again and again: that queues nothing, and is no measure of its slices. */
static void test_awaits(void) {
  lua_State *L = open_jobs();
  run(L, "s, e, n = tide.cuda.Stream(), tide.cuda.Event(), 0 "
         "tide.cuda.stream(s, function() tide.cuda._sleep(60000000000) e:record() end)");
  begin_budget(L, BUDGET);
  add(L, "while true do tide.await(e) n = n + 1 coroutine.yield() end");
  finish(L);
  run(L, "tide.cuda.current_stream():synchronize()");
  for (int i = 0; i < 100; i++) { /* more than are measured at a time */
    begin_budget(L, BUDGET);
    tide_frame_stats f = finish(L);
    CHECK(f.device == 0 && f.device_behind == 0 && f.jobs == 1, "frame %d: %d us", i, (int)f.device);
  }
  run(L, "assert(n == 0)");
  TIDE(tide_sim_wake)();
  run(L, "tide.cuda.synchronize()");
  begin_budget(L, BUDGET);
  finish(L);
  run(L, "assert(n >= 1) tide.cuda.synchronize()");
  lua_close(L);
}

/* {==== The host's time */

static tide_frame_stats host_frame(lua_State *L, int64_t ms) {
  tide_frame_options o = options(TIDE_FRAME_WAIT_RAISES);
  o.budget = ms * 1000;
  CHECK(tide_frame_begin(L, &o) == 1, "the frame does not begin");
  return finish(L);
}

static void test_host(void) {
  lua_State *L = open_state();
  run(L, "turns = {} "
         "function spin(name, ms) turns[name] = 0 while true do local t = os.clock() while os.clock() - t < ms / 1000 "
         "do end "
         "turns[name] = turns[name] + 1 coroutine.yield() end end");
  begin(L, TIDE_FRAME_WAIT_RAISES);
  add(L, "spin('a', 30)");
  CHECK(tide_frame_end(L, NULL) == 1, "the frame does not end");
  host_frame(L, 100);
  for (int i = 0; i < 5; i++) {
    int before = turns(L, "a");
    host_frame(L, 100);
    int n = turns(L, "a") - before;
    CHECK(n >= 1 && n <= 3, "frame %d: a fourth slice of 30 ms does not fit in 100, got %d", i, n);
  }
  begin(L, TIDE_FRAME_WAIT_RAISES);
  add(L, "spin('long', 60)"); /* longer than the frames that follow, and has its own */
  CHECK(tide_frame_end(L, NULL) == 1, "the frame does not end");
  host_frame(L, 50);
  int l = turns(L, "long"), a = turns(L, "a");
  for (int i = 0; i < 10; i++) {
    int before = turns(L, "long") + turns(L, "a");
    host_frame(L, 50);
    CHECK(turns(L, "long") + turns(L, "a") - before == 1, "frame %d: one slice fits", i);
  }
  CHECK(turns(L, "long") - l >= 3 && turns(L, "a") - a >= 3, "both go on: %d and %d turns", turns(L, "long") - l,
        turns(L, "a") - a);
  lua_close(L);
}

static void test_options(void) {
  lua_State *L = open_jobs();
  tide_frame_options o = options(TIDE_FRAME_WAIT_RAISES);
  o.device_budget = -1;
  CHECK(!tide_frame_begin(L, &o), "a negative budget");
  o.device_budget = BUDGET, o.struct_size = offsetof(tide_frame_options, device_budget);
  CHECK(tide_frame_begin(L, &o), "a host that knows no such option"); /* nothing is counted */
  works(L, "tide.cuda._sleep(1000)");
  tide_frame_stats s = {.struct_size = offsetof(tide_frame_stats, device), .device = 9};
  CHECK(tide_frame_end(L, &s) && s.device == 9, "stats of such a host");
  run(L, "tide.cuda.synchronize()");
  lua_close(L);
}

int main(int argc, char **argv) {
  void *keep = open_module(argc, argv);
  test_host();
  test_options();
  test_behind();
  test_awaits();
  CHECK(TIDE(tide_sim_set_dry)(true) == TIDE_OK, "dry mode");
  test_fill();
  test_calls_count();
  test_long();
  test_crowded();
  test_growth();
  test_ends();
  dlclose(keep);
  printf("%s\n", failed ? "FAILED" : "ok");
  return failed;
}
