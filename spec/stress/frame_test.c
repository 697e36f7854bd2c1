/* frame_test.c: scripts in the frames of a host (tide_lua.h): what waits is refused or yields, jobs go on in later
 * frames, collection runs in the slack, and nothing of it grows.
 *
 * usage: frame_test tide.so. Simulated devices stand in: two of them. */
#include "frames.h"
#include "tide/debug.h"
#include "tide/memory.h"
#include "tide/tide.h"

/* {==== Begin, call, end */

static void test_order(void) {
  lua_State *L = luaL_newstate();
  tide_frame_options o = options(TIDE_FRAME_WAIT_RAISES), none = {.struct_size = sizeof none};
  CHECK(!tide_frame_begin(L, &o) && !tide_frame_end(L, NULL), "there is no module");
  lua_pushnil(L), lua_pushinteger(L, 1);
  CHECK(tide_frame_call(L, 1, 0) == LUA_ERRRUN && lua_gettop(L) == 1 && lua_isstring(L, 1), "a call without a module");
  CHECK(tide_frame_resume(L) == LUA_OK && lua_gettop(L) == 1, "jobs without a module");
  lua_close(L);
  L = open_state();
  CHECK(!tide_frame_end(L, NULL), "an end without a begin");
  CHECK(!tide_frame_begin(L, &none) && !tide_frame_begin(L, NULL), "a frame without a budget");
  refused(L, "return 1", "no frame is open");
  CHECK(tide_frame_resume(L) == LUA_OK, "there are no jobs");
  begin(L, TIDE_FRAME_WAIT_RAISES);
  CHECK(!tide_frame_begin(L, &o), "a frame in a frame");
  lua_pushinteger(L, 7);
  CHECK(call(L, "return 1, 2, 3", LUA_MULTRET) == LUA_OK && lua_gettop(L) == 4 && lua_tointeger(L, 4) == 3, "results");
  lua_settop(L, 1);
  CHECK(call(L, "return 1", 3) == LUA_OK && lua_gettop(L) == 4 && lua_isnil(L, 4), "results that are missing");
  lua_settop(L, 1);
  CHECK(call(L, "return 1, 2, 3", 1) == LUA_OK && lua_gettop(L) == 2 && lua_tointeger(L, 2) == 1, "fewer results");
  lua_settop(L, 1);
  luaL_loadstring(L, "local a, b = ... return b, a");
  lua_pushinteger(L, 1), lua_pushinteger(L, 2);
  CHECK(tide_frame_call(L, 2, 2) == LUA_OK && lua_gettop(L) == 3 && lua_tointeger(L, 2) == 2, "arguments");
  lua_settop(L, 1);
  refused(L, "local t <close> = setmetatable({}, {__close = function(_, e) closed = e end}) error('mine', 0)", "mine");
  works(L, "assert(closed == 'mine', closed)");
  works(L, "assert(tide.ones(3):sum():item() == 3)"); /* of the cpu: nothing waits */
  end(L);
  CHECK(!tide_frame_end(L, NULL), "it ends twice");
  run(L, "assert(tide.ones(3, {device = 'cuda'}):sum():item() == 3)"); /* outside of a frame all is as ever */
  begin(L, TIDE_FRAME_WAIT_RAISES);
  for (int type = LUA_TNIL; type <= LUA_TSTRING; type++) { /* what a script has returned in the place of its function */
    if (type == LUA_TNIL) lua_pushnil(L);
    if (type == LUA_TBOOLEAN) lua_pushboolean(L, 1);
    if (type == LUA_TLIGHTUSERDATA) lua_pushlightuserdata(L, NULL);
    if (type == LUA_TNUMBER) lua_pushnumber(L, 0.5);
    if (type == LUA_TSTRING) lua_pushliteral(L, "x");
    CHECK(tide_frame_call(L, 0, 0) == LUA_ERRRUN && strstr(lua_tostring(L, 1), "attempt to call"), "no function");
    lua_settop(L, 0);
  }
  end(L);
  begin(L, TIDE_FRAME_WAIT_RAISES);
  works(L, "coroutine.wrap(function() tide.ones(3):sum() end)()");
  CHECK(call(L, "coroutine.yield(1, 2)", 1) == LUA_YIELD && lua_gettop(L) == 0, "it yields");
  lua_close(L); /* in an open frame, with a job */
}

/* Did any of them work in a script's call? */
static int nested(lua_State *L) {
  tide_frame_options o = options(TIDE_FRAME_WAIT_RAISES);
  bool any = tide_frame_begin(L, &o) || tide_frame_end(L, NULL);
  any |= tide_frame_resume(L) == LUA_OK;
  lua_getglobal(L, "print");
  any |= tide_frame_call(L, 0, 0) == LUA_OK;
  lua_pushboolean(L, any);
  return 1;
}

static void test_nested(void) {
  lua_State *L = open_state(), *other = open_state();
  lua_register(L, "nested", nested);
  begin(L, TIDE_FRAME_WAIT_RAISES);
  works(L, "assert(nested() == false)");
  begin(other, TIDE_FRAME_WAIT_RAISES); /* each state has its own */
  works(other, "x = tide.ones(2, {device = 'cuda'})");
  end(L);
  refused(other, "x:totable()", "frame");
  run(L, "tide.ones(2, {device = 'cuda'}):totable()");
  end(other);
  run(L, "x = tide.ones(2, {device = 'cuda'})"); /* a frame of a coroutine of the host's */
  lua_State *co = lua_newthread(L);
  begin(co, TIDE_FRAME_WAIT_RAISES);
  works(co, "y = x + 1");
  refused(co, "return y[1]:item()", "script:1");
  end(co);
  lua_close(other);
  lua_close(L);
}

/* {==== What waits */

static void test_refusals(void) {
  static const char *const waits[] = {"return x[1]:item()",
                                      "return x:totable()",
                                      "return x:cpu()",
                                      "return x:to 'cpu'",
                                      "return tostring(x)",
                                      "return x[x:gt(0)]",
                                      "return x:nonzero()",
                                      "tide.cuda.synchronize()",
                                      "tide.cuda.synchronize_all()",
                                      "tide.cuda.preload(0, {wait = true})",
                                      "tide.cuda.current_stream():synchronize()",
                                      "tide.cuda.Event():record():synchronize()",
                                      "return x:equal(x)",
                                      "return tide.allclose(x, x)",
                                      "return tide.linalg.cholesky(tide.eye(3, {device = 'cuda'}))",
                                      "x:copy_(tide.ones(4))",
                                      "pcall(x.item, x[1]) error((select(2, pcall(x.item, x[1]))))"};
  lua_State *L = open_state();
  run(L, "x = tide.ones(4, {device = 'cuda'}) e = tide.cuda.Event() e:record() tide.cuda.synchronize()");
  begin(L, TIDE_FRAME_WAIT_RAISES);
  for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
    refused(L, waits[i], "would make the host wait for a device at script:1");
    if (strstr(waits[i], "Event():record")) refused(L, "e:record() e:synchronize()", "script:1");
  }
  works(L, "x:add_(1); local y = x * 2; assert(tide.cuda.current_stream():query() ~= nil)");
  works(L, "local a = tide.cuda.memory_allocated() assert(a > 0)");
  works(L, "tide.cuda.preload()");
  end(L);
  run(L, "assert(x[1]:item() == 2 and tide.cuda.get_sync_debug_mode() == 0)");
  lua_close(L);
}

static void test_yields(void) {
  static const char *const waits[] = {
      "value = x[1]:item()",
      "value = x:totable()[1]",
      "value = x:cpu()[1]:item()",
      "value = x:to('cpu', 'float64')[1]:item()",
      "assert(tide.equal(x, x + 0)) value = 3",
      "assert(x:allclose(x + 0)) value = 3",
      "local s = tide.cuda.current_stream() s:synchronize() assert(s:query()) value = 3",
      "local e = tide.cuda.Event() e:record() e:synchronize() assert(e:query()) value = 3",
      "value = tide.await(x[1])",
  };
  lua_State *L = open_state();
  run(L, "x = tide.ones(4, {device = 'cuda'}) * 3 tide.cuda.synchronize()");
  for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
    char text[300];
    run(L, "value = nil");
    begin(L, TIDE_FRAME_WAIT_YIELDS);
    snprintf(text, sizeof text, "tide.cuda._sleep(40000000) %s", waits[i]);
    CHECK(call(L, text, 1) == LUA_YIELD && lua_gettop(L) == 0, "%s: it does not yield", waits[i]);
    end(L);
    run(L, "assert(value == nil)");
    CHECK(frames(L, TIDE_FRAME_WAIT_YIELDS) > 1, "%s: it did not wait", waits[i]);
    run(L, "assert(value == 3, value)");
  }
  begin(L, TIDE_FRAME_WAIT_YIELDS);
  refused(L, "tide.cuda.synchronize()", "script:1");
  refused(L, "return x[x:gt(0)]", "script:1");
  refused(L, "return tide.linalg.cholesky(tide.eye(3, {device = 'cuda'}))", "script:1");
  refused(L, "coroutine.wrap(function() x[1]:item() end)()", "script:1"); /* its resumer is the script */
  int status = call(L, "return x[1]:item(1)", 0);
  while (status == LUA_YIELD || status == LUA_OK) status = tide_frame_resume(L);
  CHECK(strstr(luaL_tolstring(L, -1, NULL), "item"), "an error in the arguments: %s", lua_tostring(L, -1));
  lua_settop(L, 0);
  end(L);
  lua_close(L);
}

/* A script that resumes a job which waits neither brings its value forward nor puts anything in its place. */
static void test_resumed(void) {
  static const char *const gives[] = {"", ", 0", ", 1", ", -1000000", ", 'x', nil, {}"};
  lua_State *L = open_state();
  run(L, "x = tide.ones(4, {device = 'cuda'}) * 3 tide.cuda.synchronize()");
  for (size_t i = 0; i < sizeof gives / sizeof *gives; i++) {
    char text[300];
    run(L, "value = nil");
    begin(L, TIDE_FRAME_WAIT_YIELDS);
    CHECK(call(L, "job = coroutine.running() tide.cuda._sleep(40000000) value = x[1]:item()", 0) == LUA_YIELD,
          "it does not yield");
    snprintf(text, sizeof text, "assert(coroutine.resume(job%s) and value == nil)", gives[i]);
    works(L, text);
    end(L);
    CHECK(frames(L, TIDE_FRAME_WAIT_YIELDS) > 0, "%s", text);
    run(L, "assert(value == 3, value)");
  }
  lua_close(L);
}

/* {==== Jobs */

static void test_jobs(void) {
  lua_State *L = open_state();
  tide_frame_options o = options(TIDE_FRAME_WAIT_RAISES);
  tide_frame_stats s = {.struct_size = sizeof s};
  run(L, "order = {} function job(name, n) for i = 1, n do order[#order + 1] = name .. i coroutine.yield() end end "
         "function spin(us) local t = os.clock() while os.clock() - t < us / 1e6 do end end");
  begin(L, TIDE_FRAME_WAIT_RAISES);
  CHECK(call(L, "job('a', 3)", 0) == LUA_YIELD, "a");
  CHECK(call(L, "job('b', 2)", 0) == LUA_YIELD, "b");
  CHECK(call(L, "coroutine.yield() error 'broken'", 0) == LUA_YIELD, "c");
  int status = tide_frame_resume(L);
  CHECK(status == LUA_ERRRUN && strstr(lua_tostring(L, -1), "broken"), "the error of a job is told");
  lua_settop(L, 0);
  CHECK(tide_frame_resume(L) == LUA_OK && tide_frame_end(L, &s) && s.jobs == 0, "%d jobs are left", s.jobs);
  run(L, "assert(table.concat(order, ' ') == 'a1 b1 a2 b2 a3', table.concat(order, ' '))");
  o.budget = 2000; /* what does not fit goes on in later frames */
  CHECK(tide_frame_begin(L, &o), "begin");
  CHECK(call(L, "for i = 1, 20 do spin(500) coroutine.yield() end", 0) == LUA_YIELD, "spin");
  int n = 0;
  for (s.jobs = 1; s.jobs && n < 100; n++) {
    if (n) CHECK(tide_frame_begin(L, &o), "begin");
    CHECK(tide_frame_resume(L) == LUA_OK && tide_frame_end(L, &s), "resume");
  }
  CHECK(n >= 5 && n < 100, "20 pieces of 0.5 ms took %d frames of 2 ms", n);
  run(L, "turns = {0, 0} function long(i) while turns[i] < 4 do turns[i] = turns[i] + 1 spin(1500) coroutine.yield() "
         "end end");
  o.budget = 1000; /* for one turn of one of them in each frame */
  CHECK(tide_frame_begin(L, &o), "begin");
  CHECK(call(L, "long(1)", 0) == LUA_YIELD && call(L, "long(2)", 0) == LUA_YIELD && tide_frame_end(L, &s), "long");
  for (int i = 0; i < 4; i++)
    CHECK(tide_frame_begin(L, &o) && tide_frame_resume(L) == LUA_OK && tide_frame_end(L, &s), "resume");
  run(L, "assert(turns[1] > 1 and turns[2] > 1, table.concat(turns, ' '))");
  o.budget = INT64_MAX;
  CHECK(tide_frame_begin(L, &o) && tide_frame_resume(L) == LUA_OK && tide_frame_end(L, &s), "no bound");
  CHECK(s.jobs == 0, "%d jobs are left of a frame without a bound", s.jobs);
  lua_close(L);
}

/* A frame without a bound ends when all jobs wait for devices, not when one does. */
static void test_waiting_job(void) {
  lua_State *L = open_state();
  tide_frame_options o = options(TIDE_FRAME_WAIT_YIELDS);
  tide_frame_stats s = {.struct_size = sizeof s};
  run(L, "x, turns = tide.ones(4, {device = 'cuda'}), 0 tide.cuda.synchronize()");
  o.budget = INT64_MAX;
  CHECK(tide_frame_begin(L, &o), "begin");
  CHECK(call(L, "for i = 1, 10 do turns = i coroutine.yield() end", 0) == LUA_YIELD, "it does not yield");
  CHECK(call(L, "tide.cuda._sleep(400000000) x[1]:item()", 0) == LUA_YIELD, "it does not wait");
  CHECK(tide_frame_resume(L) == LUA_OK && tide_frame_end(L, &s) && s.jobs <= 1, "%d jobs are left", s.jobs);
  run(L, "assert(turns == 10, turns)");
  CHECK(frames(L, TIDE_FRAME_WAIT_YIELDS) > 0, "it did not wait");
  lua_close(L);
}

/* A block that a function leaves open ends with its coroutine, not in the next one's. */
static void test_open_block(void) {
  lua_State *L = open_state();
  begin(L, TIDE_FRAME_WAIT_RAISES);
  works(L, "s = tide.scope()");
  works(L, "kept = tide.ones(3)");
  works(L, "pcall(s.close, s)");
  works(L, "assert(kept:numel() == 3 and not pcall(tide.zeros, -1))");
  end(L);
  lua_close(L);
}

/* Streams and devices that a function selects are its own, and it begins with the host's. */
static void test_selection(void) {
  lua_State *L = open_state();
  tide_stream *mine, *now, *before;
  begin(L, TIDE_FRAME_WAIT_RAISES);
  works(L, "tide.cuda.set_device(1) tide.cuda.set_stream(tide.cuda.Stream())");
  works(L, "assert(tide.cuda.current_device() == 0)");
  end(L);
  if (TIDE(tide_stream_new)(&mine, 0, 0) || TIDE(tide_current_stream)(&before, 0)) exit(2);
  run(L, "x = tide.zeros(4, {device = 'cuda'}) tide.cuda._sleep(20000000) x:add_(1)");
  CHECK(tide_lua_set_stream(L, mine) == 1, "set_stream");
  TIDE(tide_current_bind)(NULL);
  CHECK(!TIDE(tide_current_stream)(&now, 0) && now == before, "the host's own stream has changed");
  run(L, "s = tide.cuda.current_stream() assert(s ~= tide.cuda.default_stream()) y = x + 1 "
         "assert(y[1]:item() == 2)"); /* ordered */
  lua_getglobal(L, "s");
  CHECK(TIDE(tide_stream_same)(tide_lua_get(L)->to_stream(L, -1), mine), "another stream");
  lua_settop(L, 0);
  begin(L, TIDE_FRAME_WAIT_RAISES);
  works(L, "assert(tide.cuda.current_stream() == s)"); /* of a coroutine that has been used before */
  works(L, "assert(coroutine.wrap(function() return tide.cuda.current_stream() end)() == s)");
  end(L);
  CHECK(!tide_lua_set_stream(L, NULL), "no stream");
  lua_State *fresh = open_state(); /* what the host has bound is bound after each call, the first ones too */
  tide_current *own = TIDE(tide_current_new)(NULL);
  TIDE(tide_current_bind)(own);
  if (TIDE(tide_current_set_stream)(mine)) exit(2);
  begin(fresh, TIDE_FRAME_WAIT_RAISES);
  CHECK(!TIDE(tide_current_stream)(&now, 0) && TIDE(tide_stream_same)(now, mine), "begin has bound another");
  works(fresh, "x = tide.ones(2, {device = 'cuda'})");
  CHECK(!TIDE(tide_current_stream)(&now, 0) && TIDE(tide_stream_same)(now, mine), "the call has bound another");
  CHECK(call(fresh, "coroutine.yield()", 0) == LUA_YIELD && tide_frame_resume(fresh) == LUA_OK, "a job");
  CHECK(!TIDE(tide_current_stream)(&now, 0) && TIDE(tide_stream_same)(now, mine), "the job has bound another");
  end(fresh);
  CHECK(TIDE(tide_current_bind)(NULL) == own, "the end has bound another");
  lua_close(fresh);
  TIDE(tide_current_free)(own);
  lua_State *bare = luaL_newstate();
  CHECK(!tide_lua_set_stream(bare, mine), "no module");
  lua_close(bare);
  TIDE(tide_stream_release)(mine);
  lua_close(L);
}

/* A script that does not end, which a quota ends: the frame goes on, and so does the state with a new limit. */
static void test_endless(void) {
  lua_State *L = luaL_newstate();
  tide_lua_options o = {.struct_size = sizeof o, .open = opener};
  o.quota[TIDE_QUOTA_INSTRUCTIONS] = 100000;
  if (tide_lua_open(L, &o) != LUA_OK) exit(2);
  lua_setglobal(L, "tide");
  begin(L, TIDE_FRAME_WAIT_YIELDS);
  refused(L, "local t <close> = nil while true do end", "used up");
  refused(L, "for i = 1, 10000 do end", "used up");
  end(L);
  CHECK(tide_lua_quota_set(L, TIDE_QUOTA_INSTRUCTIONS, 100000), "a new limit");
  begin(L, TIDE_FRAME_WAIT_YIELDS);
  works(L, "local n = 0 for i = 1, 100 do n = n + i end");
  end(L);
  lua_close(L);
}

/* A script that has ended runs no further, nor do its jobs; with new limits these go on where they were. */
static void test_ended(void) {
  static const char text[] = "x = 1";
  lua_State *L = luaL_newstate();
  tide_lua_options o = {.struct_size = sizeof o, .open = opener};
  luaL_openlibs(L);
  if (tide_lua_open(L, &o) != LUA_OK) exit(2);
  lua_setglobal(L, "tide");
  begin(L, TIDE_FRAME_WAIT_YIELDS);
  CHECK(call(L, "tide.await(tide.ones(1, {device = 'cuda'})) coroutine.yield() done = true", 0) == LUA_YIELD, "no job");
  CHECK(tide_lua_quota_set(L, TIDE_QUOTA_INSTRUCTIONS, 10000), "a limit");
  refused(L, "while true do end", "used up");
  refused(L, "x = 1", "used up");
  CHECK(tide_frame_resume(L) == LUA_OK && lua_gettop(L) == 0, "a job ends with another function's error");
  CHECK(tide_lua_reload(L, "m", text, strlen(text)) == LUA_ERRRUN, "a text runs");
  lua_settop(L, 0);
  end(L);
  CHECK(tide_lua_quota_set(L, TIDE_QUOTA_INSTRUCTIONS, -1), "a new limit");
  CHECK(frames(L, TIDE_FRAME_WAIT_YIELDS) > 0, "a frame");
  run(L, "assert(done and not x)");
  begin(L, TIDE_FRAME_WAIT_YIELDS);
  CHECK(call(L, "coroutine.yield() x = 2", 0) == LUA_YIELD, "no job");
  CHECK(tide_lua_kill(tide_lua_get(L), L), "it cannot be killed");
  refused(L, "x = 1", "the host has ended this work");
  CHECK(tide_frame_resume(L) == LUA_OK && lua_gettop(L) == 0, "a job of a dead script");
  CHECK(tide_lua_reload(L, "m", text, strlen(text)) == LUA_ERRRUN, "a text runs");
  lua_getglobal(L, "x");
  CHECK(lua_isnil(L, -1), "it ran");
  end(L);
  lua_close(L);
}

/* {==== Memory */

static size_t heap(lua_State *L) { return ((size_t)lua_gc(L, LUA_GCCOUNT) << 10) + (size_t)lua_gc(L, LUA_GCCOUNTB); }

static int finalised;
static int note_finalised(lua_State *L) {
  (void)L;
  return finalised++, 0;
}

/* 50 small operations a frame. What they make is collected in the slack, and the collector never runs in an operation.
 * Where no time is set for it and none is left of the budget, it still does as much as is made: the heap stays as it
 * is. */
static void test_collection(const char *device, int64_t slack) {
  enum { FRAMES = 2000 };
  lua_State *L = open_state();
  tide_frame_options o = options(TIDE_FRAME_WAIT_RAISES);
  int cycles = 0, during = 0;
  size_t most = 0, after_first = 0;
  o.collect = slack;
  if (!slack) o.budget = 1;
  lua_register(L, "note", note_finalised);
  lua_pushstring(L, device);
  lua_setglobal(L, "device");
  run(L, "local x = tide.ones(256, {device = device}) "
         "function update() setmetatable({}, {__gc = note}) local y = x for i = 1, 50 do y = y * 1.0001 end x = y end");
  for (int i = 0; i < FRAMES; i++) {
    tide_frame_stats s = {.struct_size = sizeof s};
    CHECK(tide_frame_begin(L, &o), "begin");
    int had = finalised;
    lua_getglobal(L, "update");
    if (tide_frame_call(L, 0, 0) != LUA_OK) {
      CHECK(false, "%s", luaL_tolstring(L, -1, NULL));
      break;
    }
    during += finalised - had;
    CHECK(tide_frame_end(L, &s), "end");
    cycles += s.cycle;
    if (i == FRAMES / 4) after_first = most;
    if (heap(L) > most) most = heap(L);
  }
  CHECK(cycles > (slack ? 0 : 3) && finalised > (slack ? 0 : FRAMES / 2), "%d cycles, %d finalised", cycles, finalised);
  CHECK(!during, "%d objects were collected while a script ran", during);
  CHECK(slack || most < after_first + after_first / 2, "Lua's heap grew from %zu to %zu", after_first, most);
  CHECK(lua_gc(L, LUA_GCISRUNNING), "the collector stands still after the frames");
  finalised = 0;
  lua_close(L);
}

/* What makes no tensors makes no garbage. */
static void test_no_garbage(void) {
  lua_State *L = open_state();
  tide_frame_options o = options(TIDE_FRAME_WAIT_RAISES);
  o.collect = 1;
  run(L,
      "local x, y = tide.ones(256, {device = 'cuda'}), tide.ones(256, {device = 'cuda'}) local e = tide.cuda.Event() "
      "function update() for i = 1, 50 do x:add_(1) end x:copy_(y) e:record() e:query() end");
  lua_gc(L, LUA_GCSTOP);
  size_t before = 0;
  for (int i = 0; i < 1000; i++) {
    if (i == 10) before = heap(L);
    tide_frame_begin(L, &o);
    lua_getglobal(L, "update");
    CHECK(tide_frame_call(L, 0, 0) == LUA_OK, "update");
    lua_settop(L, 0);
    tide_frame_end(L, NULL);
  }
  CHECK(heap(L) <= before, "990 frames have left %zu bytes of garbage", heap(L) - before);
  CHECK(!lua_gc(L, LUA_GCISRUNNING), "the host has stopped the collector");
  lua_close(L);
}

/* A state's own device is that of the coroutines of its frames, of the first one and of one that serves again, and what
 * the host's coroutine has chosen since. */
static void test_device(void) {
  lua_State *L = luaL_newstate();
  tide_lua_options o = {.struct_size = sizeof o, .capabilities = TIDE_LUA_ALL, .open = opener, .device = "cuda:1"};
  luaL_openlibs(L);
  if (tide_lua_open(L, &o) != LUA_OK) exit(2);
  lua_setglobal(L, "tide");
  run(L, "function at(d) assert(tostring(tide.zeros(1).device) == d and tostring(tide.get_default_device()) == d) end");
  for (int i = 0; i < 3; i++) {
    static const char *const calls[] = {"at 'cuda:1' tide.set_default_device 'cpu' at 'cpu'",
                                        "at 'cuda:1' assert(tide.cuda.current_device() == 1)", "at 'cpu'"};
    if (i == 2) run(L, "tide.set_default_device 'cpu'");
    begin(L, TIDE_FRAME_WAIT_RAISES);
    CHECK(call(L, calls[i], 0) == LUA_OK, "%s: %s", calls[i], luaL_tolstring(L, -1, NULL));
    lua_settop(L, 0);
    end(L);
  }
  lua_close(L);
}

/* In a frame an allocation that a collection would let succeed fails, and outside it succeeds. */
static void test_full(void) {
  lua_State *L = open_state();
  run(L, "n = tide.cuda.mem_get_info(0) // 4 // 3 * 2 function fill() return tide.empty(n, {device = 'cuda'}) end");
  run(L, "fill() fill()");
  begin(L, TIDE_FRAME_WAIT_RAISES);
  refused(L, "fill() fill()", "memory");
  end(L);
  run(L, "fill() fill()");
  lua_close(L);
}

int main(int argc, char **argv) {
  void *keep = open_module(argc, argv);
  test_order();
  test_nested();
  test_refusals();
  test_yields();
  test_resumed();
  test_jobs();
  test_waiting_job();
  test_open_block();
  test_selection();
  test_endless();
  test_ended();
  test_collection("cpu", 0);
  test_collection("cuda", 0);
  test_collection("cuda", 200);
  test_no_garbage();
  test_full();
  test_device();
  dlclose(keep);
  printf("%s\n", failed ? "FAILED" : "ok");
  return failed;
}
