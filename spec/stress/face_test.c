/* face_test.c: the functions of tide_lua.h that take things out of a state and put them in: objects, errors as structs,
 * values without a wait, streams. Simulated devices stand in: two of them.
 *
 * usage: face_test tide.so */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "module.h"
#include "tide/debug.h"
#include "tide/sim.h"
#include "tide/tide.h"
#include "tide_lua.h"

static lua_CFunction opener;

static void check(bool holds, const char *what) {
  if (!holds) printf("face_test: %s\n", what);
  failed |= !holds;
}

static int run(lua_State *L, const char *text) {
  lua_settop(L, 0);
  int status = luaL_loadbuffer(L, text, strlen(text), "@game.lua");
  return status == LUA_OK ? lua_pcall(L, 0, 1, 0) : status;
}

static void must(lua_State *L, const char *text) {
  if (run(L, text) != LUA_OK) check(false, luaL_tolstring(L, -1, NULL));
}

static lua_State *open_state(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "tide", opener, 1);
  return L;
}

/* {==== Objects */

static bool is_one(lua_State *L, const char *text, bool tensor, bool stream, bool event, bool graph, bool generator) {
  must(L, text);
  return !tide_lua_to_tensor(L, -1) == !tensor && !tide_lua_to_stream(L, -1) == !stream &&
         !tide_lua_to_event(L, -1) == !event && !tide_lua_to_graph(L, -1) == !graph &&
         !tide_lua_to_generator(L, -1) == !generator;
}

static void test_to(lua_State *L) {
  check(is_one(L, "return tide.ones(2)", true, false, false, false, false), "a tensor");
  check(is_one(L, "return tide.cuda.Stream()", false, true, false, false, false), "a stream");
  check(is_one(L, "return tide.cuda.Event()", false, false, true, false, false), "an event");
  check(is_one(L, "return tide.cuda.CUDAGraph()", false, false, false, true, false), "a graph");
  check(is_one(L, "return tide.Generator()", false, false, false, false, true), "a generator");
  const char *const none[] = {"return nil",
                              "return 3",
                              "return 'x'",
                              "return {}",
                              "return io.stdout",
                              "return tide.ones",
                              "return tide.float32",
                              "return tide.ones(2):storage()",
                              "local x = tide.ones(2) x:free() return x"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    check(is_one(L, none[i], false, false, false, false, false), none[i]);
  lua_settop(L, 0);
  check(!tide_lua_to_tensor(L, 1) && !tide_lua_to_event(L, 1), "nothing at the index");
}

/* What the host has made, a script uses; the host's reference and the script's are two. */
static void test_push(lua_State *L) {
  int64_t two = 2;
  tide_options on = {TIDE_FLOAT32, 0, false};
  tide_tensor *x = NULL;
  tide_stream *stream = NULL;
  tide_event *event = NULL;
  tide_graph *graph = NULL;
  tide_generator *generator = NULL;
  check(!TIDE(tide_full)(&x, &two, 1, tide_float(3), &on) && !TIDE(tide_stream_new)(&stream, 0, 0) &&
            !TIDE(tide_event_new)(&event, 0) && !TIDE(tide_graph_new)(&graph, false) &&
            !TIDE(tide_generator_new)(&generator, TIDE_CPU),
        "no objects");
  TIDE(tide_generator_seed)(generator, 77);
  lua_settop(L, 0);
  check(tide_lua_push_tensor(L, x) && tide_lua_push_stream(L, stream) && tide_lua_push_event(L, event) &&
            tide_lua_push_graph(L, graph) && tide_lua_push_generator(L, generator) && lua_gettop(L) == 5,
        "not pushed");
  check(tide_lua_to_tensor(L, 1) == x && tide_lua_to_stream(L, 2) == stream && tide_lua_to_event(L, 3) == event &&
            tide_lua_to_graph(L, 4) == graph && tide_lua_to_generator(L, 5) == generator,
        "another one came back");
  const char *const names[] = {"generator", "graph", "event", "stream", "x"};
  for (int i = 0; i < 5; i++) lua_setglobal(L, names[i]);
  TIDE(tide_tensor_release)(x), TIDE(tide_stream_release)(stream), TIDE(tide_event_release)(event);
  TIDE(tide_graph_release)(graph), TIDE(tide_generator_release)(generator);
  must(L, "assert(x:sum():item() == 6 and generator:initial_seed() == 77)\n"
          "tide.cuda.graph(graph, {stream = stream}, function() x:add_(1) end)\n"
          "graph:replay() graph:replay() event:record() event:synchronize()\n"
          "assert(event:query() and x:sum():item() == 10)\n"
          "x, stream, event, graph, generator = nil collectgarbage()");
}

/* Nothing to push is pushed as nothing. */
static void test_null(lua_State *L) {
  lua_settop(L, 0);
  check(!tide_lua_push_tensor(L, NULL) && !tide_lua_push_stream(L, NULL) && !tide_lua_push_event(L, NULL) &&
            !tide_lua_push_graph(L, NULL) && !tide_lua_push_generator(L, NULL) && lua_gettop(L) == 0,
        "NULL is pushed");
  check(run(L, "tide.ones(2):sum(3)") != LUA_OK && tide_lua_error(L, -1, NULL) == 1, "an error of tide's");
  check(run(L, "error 'mine'") != LUA_OK && !tide_lua_error(L, -1, NULL), "an error of the script's");
}

/* {==== Errors */

static tide_lua_error_info raised(lua_State *L, const char *text) {
  tide_lua_error_info e;
  check(run(L, text) != LUA_OK, text);
  bool is_ours = tide_lua_error(L, -1, &e);
  check(is_ours == (e.kind != NULL) && is_ours >= (e.status != TIDE_OK) && lua_gettop(L) == 1, "the result");
  check(e.message && e.traceback && e.name, "a string is missing");
  return e;
}

static bool is_plain(lua_State *L, const char *text, const char *source, int line, const char *message) {
  tide_lua_error_info e = raised(L, text);
  bool is = !e.kind && !strcmp(e.source, source) && e.line == line && !strcmp(e.message, message) &&
            e.device == TIDE_CPU && !e.code && !e.sticky && !*e.traceback;
  if (!is) printf("face_test: got '%s' %d '%s'\n", e.source, e.line, e.message);
  return is;
}

static void test_errors(lua_State *L) {
  tide_lua_error_info e = raised(L, "local a\na = tide.ones(2) + tide.ones(3)");
  check(e.status == TIDE_SHAPE && !strcmp(e.kind, "ShapeError") && !strcmp(e.source, "game.lua") && e.line == 2,
        "a ShapeError's place");
  check(!strncmp(e.message, "add: ", 5) && strstr(e.traceback, "game.lua:2:") && e.device == TIDE_CPU && !e.sticky,
        "a ShapeError's text");
  e = raised(L, "tide.zeros(1 << 40, {device = 'cuda:1'})");
  check(e.status == TIDE_MEMORY && e.device == 1 && e.requested == (size_t)4 << 40 && e.total && e.free <= e.total,
        "an OutOfMemoryError");
  e = raised(L, "error(setmetatable({}, {__tostring = function() while true do end end}))");
  check(!e.kind && !strcmp(e.message, "(error object is a table)") && !e.line, "a foreign object");
  check(is_plain(L, "\nerror 'mine'", "game.lua", 2, "mine"), "a string with its place");
  check(is_plain(L, "error('no place', 0)", "", 0, "no place"), "a string without");
  check(is_plain(L, "error('a:b:12: c', 0)", "a:b", 12, "c"), "a name with a colon");
  check(is_plain(L, "error('1:', 0)", "", 0, "1:") && is_plain(L, "error(':0: x', 0)", "", 0, ":0: x"), "no line");
  e = raised(L, "error(('x'):rep(100) .. ':3: y', 0)");
  check(!*e.source && !e.line && strlen(e.message) == 105, "too long a name");
  check(is_plain(L, "error('x:99999999999999999999: y', 0)", "", 0, "x:99999999999999999999: y"), "too large a line");
  check(is_plain(L, "error(42)", "", 0, "42") && lua_type(L, -1) == LUA_TSTRING, "a number");
  check(is_plain(L, "error(nil)", "", 0, "(error object is nil)"), "nil");
  check(is_plain(L, "error(print)", "", 0, "(error object is a function)"), "a function");
  check(is_plain(L, "x = = 1", "game.lua", 1, "unexpected symbol near '='"), "a syntax error");
}

/* Fields that a script has changed are not what they were; nothing is read that is not there. */
static void test_changed(lua_State *L) {
  tide_lua_error_info e = raised(L, "local _, e = pcall(tide.zeros, -1)\n"
                                    "for k in pairs(e) do e[k] = 7 end error(e)");
  check(!strcmp(e.message, "(error object is a table)") && !e.line && !e.sticky, "numbers for texts");
  e = raised(L, "local _, e = pcall(tide.zeros, -1)\n"
                "e.kind, e.message, e.where, e.device, e.code = 'Mine', 'x', 'y:3', io.stdout, {} error(e)");
  check(e.kind && !strcmp(e.kind, "Mine") && !strcmp(e.message, "x") && !e.line && e.device == TIDE_CPU && !e.code,
        "another kind");
}

/* A device that is lost: the first error and every later one say so, and after a reset it serves again. */
static void test_lost(lua_State *L) {
  must(L, "x = tide.ones(4, {device = 'cuda:1'}) tide.cuda.synchronize(1)");
  TIDE(tide_sim_fault)("sticky:1");
  for (int i = 0; i < 3; i++) {
    tide_lua_error_info e = raised(L, "for i = 1, 100 do x:add_(1) end tide.cuda.synchronize(1)");
    check(e.status == TIDE_ACCELERATOR && e.sticky && e.code && *e.name && e.device == 1 && e.line == 1,
          "a lost device");
    check(*e.message && *e.traceback, "a lost device's text");
  }
  TIDE(tide_sim_fault)(NULL);
  lua_settop(L, 0);
  check(TIDE(tide_device_reset)(1) == TIDE_OK, "no reset");
  must(L, "assert(tide.ones(4, {device = 'cuda:1'}):sum():item() == 4)");
}

static bool has_memory = true;

static void *some_memory(void *user, void *ptr, size_t old, size_t size) {
  (void)user, (void)old;
  if (!size) return free(ptr), NULL;
  return has_memory || (ptr && size <= old) ? realloc(ptr, size) : NULL;
}

/* Without memory of Lua's, and before the state has required tide. */
static void test_without(void) {
  lua_State *L = lua_newstate(some_memory, NULL);
  luaL_openlibs(L);
  tide_lua_error_info e = raised(L, "error 'early'");
  check(!e.kind && strstr(e.message, "early"), "an error before tide");
  tide_tensor *host = NULL;
  tide_event *ready = NULL;
  check(!tide_lua_to_tensor(L, -1) && !tide_lua_push_tensor(L, NULL) && !tide_lua_stream(L, 0) &&
            tide_lua_readback(&host, &ready, L, 1) == TIDE_STATE && lua_gettop(L) == 1,
        "a state without tide");
  luaL_requiref(L, "tide", opener, 1);
  check(run(L, "tide.ones(2):sum(3)") != LUA_OK, "no error");
  has_memory = false;
  check(tide_lua_error(L, -1, &e) && e.status == TIDE_INDEX, "an error without memory");
  has_memory = true;
  check(run(L, "error(1 / 3)") != LUA_OK, "no error");
  has_memory = false;
  check(!tide_lua_error(L, -1, &e) && !strcmp(e.message, "(error object is a number)"), "a number without memory");
  has_memory = true;
  lua_close(L);
}

/* {==== Values and streams */

/* The float that arrives, while the host has device 0 and its default stream. */
static float arrival(lua_State *L) {
  tide_tensor *host = NULL;
  tide_event *ready = NULL;
  bool done = false;
  TIDE(tide_current_bind)(NULL);
  if (tide_lua_readback(&host, &ready, L, -1) != TIDE_OK) return check(false, TIDE(tide_error_get)()->message), 0;
  check(TIDE(tide_current_bind)(NULL) == NULL, "what the host has bound is bound no more");
  for (int i = 0; i < 100000 && !done; i++) {
    check(TIDE(tide_readback_poll)(&done, ready) == TIDE_OK, "the values do not arrive");
    nanosleep(&(struct timespec){0, 10000}, NULL);
  }
  float value = *(const float *)TIDE(tide_tensor_data)(host);
  TIDE(tide_tensor_release)(host), TIDE(tide_event_release)(ready);
  return value;
}

/* The copy is behind the script's work on its own stream, which sleeps before. */
static void test_readback(lua_State *L) {
  tide_tensor *host = NULL;
  tide_event *ready = NULL;
  must(L, "tide.cuda.set_stream(tide.cuda.Stream())\n"
          "for i = 1, 5 do x = tide.zeros(1, {device = 'cuda'}) tide.cuda._sleep(10000000) x:add_(i) end return x");
  check(arrival(L) == 5, "the copy came before the script's work");
  must(L, "return tide.full({1}, 7.)");
  check(arrival(L) == 7, "of the CPU");
  must(L, "return {}");
  check(tide_lua_readback(&host, &ready, L, -1) == TIDE_STATE && !host && !ready, "a table has been read back");
  must(L, "tide.cuda.set_stream(tide.cuda.default_stream())");
}

static void test_stream(lua_State *L) {
  must(L, "s = tide.cuda.Stream(1) tide.cuda.set_stream(s) return s");
  tide_stream *s = tide_lua_to_stream(L, -1), *first = NULL;
  TIDE(tide_current_bind)(NULL);
  check(s && tide_lua_stream(L, 1) == s, "not the script's stream");
  check(TIDE(tide_stream_default)(&first, 0) == TIDE_OK && TIDE(tide_stream_same)(tide_lua_stream(L, 0), first),
        "not the default stream");
  check(TIDE(tide_current_device)() == 0 && TIDE(tide_current_bind)(NULL) == NULL, "the host's device is another");
  check(!tide_lua_stream(L, 77), "there is no such device");
  must(L,
       "co = coroutine.create(function() tide.cuda.stream(tide.cuda.Stream(1), function() coroutine.yield() end) end)\n"
       "assert(coroutine.resume(co)) return co");
  tide_stream *inner = tide_lua_stream(lua_tothread(L, -1), 1);
  check(inner && inner != s && tide_lua_stream(L, 1) == s, "a coroutine's stream is its own");
}

/* What the host asks for costs the script nothing, and works when the script has ended. */
static void test_quota(void) {
  lua_State *L = luaL_newstate();
  tide_lua_options o = {.struct_size = sizeof o, .open = opener};
  o.quota[TIDE_QUOTA_LAUNCHES] = 10, o.quota[TIDE_QUOTA_HOST_BYTES] = 4096;
  luaL_openlibs(L);
  check(tide_lua_open(L, &o) == LUA_OK, "it does not open");
  lua_setglobal(L, "tide");
  must(L, "x = tide.full({1}, 3., {device = 'cuda'}) return x");
  int64_t used = tide_lua_quota_used(L, TIDE_QUOTA_LAUNCHES), bytes = tide_lua_quota_used(L, TIDE_QUOTA_HOST_BYTES);
  for (int i = 0; i < 20; i++) check(arrival(L) == 3, "a value");
  check(tide_lua_quota_used(L, TIDE_QUOTA_LAUNCHES) == used && tide_lua_quota_used(L, TIDE_QUOTA_HOST_BYTES) == bytes,
        "the host's copies count");
  tide_lua_error_info e = raised(L, "while true do x:add_(1) end");
  check(e.status == TIDE_QUOTA && e.line == 1, "no QuotaError");
  lua_getglobal(L, "x");
  check(arrival(L) > 3, "the value of a script that has ended");
  check(raised(L, "x:add_(1)").status == TIDE_QUOTA, "it is limited no more");
  check(tide_lua_kill(tide_lua_get(L), L) == 1, "it cannot be killed");
  check(raised(L, "x:add_(1)").status == TIDE_INTERRUPTED, "it is alive");
  lua_close(L);
}

/* {==== Outside of protected mode */

/* A tensor is pushed, or Lua has no memory and nothing is: outside of every pcall. */
static void test_try(void) {
  lua_State *L = lua_newstate(some_memory, NULL);
  tide_tensor *x = NULL;
  int64_t two = 2;
  check(tide_lua_try_push_tensor(NULL, NULL) == TIDE_ARGUMENT && tide_lua_try_push_tensor(L, NULL) == TIDE_ARGUMENT,
        "NULL is pushed");
  luaL_openlibs(L);
  tide_lua_options o = tide_lua_defaults();
  o.open = opener;
  check(tide_lua_open(L, &o) == LUA_OK, "it does not open");
  check(TIDE(tide_full)(&x, &two, 1, tide_float(3), NULL) == TIDE_OK, "full");
  lua_State *bare = luaL_newstate();
  check(tide_lua_try_push_tensor(bare, x) == TIDE_STATE && tide_lua_set_global_tensor(bare, "x", x) == TIDE_STATE &&
            lua_gettop(bare) == 0,
        "a state without tide takes a tensor");
  lua_close(bare);
  must(L, "setmetatable(_G, {__newindex = function() error 'a script runs' end})");
  lua_settop(L, 0);
  has_memory = false;
  tide_status full = TIDE_OK, set = TIDE_OK;
  for (int i = 0; i < 1000 && full == TIDE_OK; i++) full = tide_lua_try_push_tensor(L, x), lua_settop(L, 0);
  set = tide_lua_set_global_tensor(L, "a name that is not there yet", x);
  has_memory = true;
  check(full == TIDE_MEMORY && set == TIDE_MEMORY && lua_gettop(L) == 0, "without memory it does not say so");
  check(tide_lua_try_push_tensor(L, x) == TIDE_OK && lua_gettop(L) == 1 && tide_lua_to_tensor(L, 1), "a tensor");
  check(tide_lua_set_global_tensor(L, NULL, x) == TIDE_ARGUMENT, "a global without a name");
  check(tide_lua_set_global_tensor(L, "x", x) == TIDE_OK && lua_gettop(L) == 1, "a global");
  must(L, "assert(x:sum():item() == 6)");
  check(tide_lua_set_global_tensor(L, "x", NULL) == TIDE_OK, "a global is taken away");
  must(L, "assert(rawget(_G, 'x') == nil)");
  TIDE(tide_tensor_release)(x);
  lua_close(L);
}

/* {==== In a script's call */

/* What the host must not call there: each fails, and says why. */
static int call_host(lua_State *L) {
  const tide_frame_options o = {sizeof o, 1000, 0, TIDE_FRAME_WAIT_RAISES, 0};
  int top = lua_gettop(L);
  check(!tide_frame_begin(L, &o) && strstr(TIDE(tide_error_get)()->message, "a script runs"), "a frame begins");
  check(!tide_frame_end(L, NULL) && strstr(TIDE(tide_error_get)()->message, "a script runs"), "a frame ends");
  check(tide_frame_resume(L) == LUA_ERRRUN && lua_gettop(L) == top + 1, "jobs are resumed");
  lua_pushvalue(L, 1);
  check(tide_frame_call(L, 0, 0) == LUA_ERRRUN && lua_gettop(L) == top + 2, "a function is called in a frame");
  check(tide_lua_reload(L, "m", "return 1", 8) == LUA_ERRRUN && lua_gettop(L) == top + 3, "a module is loaded again");
  check(strstr(luaL_tolstring(L, -1, NULL), "a script runs") != NULL, "reload does not say why");
  return 0;
}

static void test_inside(void) {
  static const char text[] = "host(print) pcall(host, print) coroutine.wrap(function() host(print) end)()";
  lua_State *L = open_state();
  const tide_frame_options o = {sizeof o, 1000000, 0, TIDE_FRAME_WAIT_RAISES, 0};
  tide_frame_options huge = o, small = o;
  huge.struct_size = (size_t)-1, small.struct_size = 1;
  lua_register(L, "host", call_host);
  must(L, text);
  lua_settop(L, 0);
  check(!tide_frame_begin(L, &huge) && !tide_frame_begin(L, &small), "struct_size is not looked at");
  check(tide_frame_begin(L, &o) == 1, "no frame begins");
  check(!tide_frame_begin(L, &o) && strstr(TIDE(tide_error_get)()->message, "a frame is open"), "a second one begins");
  check(luaL_loadstring(L, text) == LUA_OK && tide_frame_call(L, 0, 0) == LUA_OK, "the frame's call");
  check(tide_frame_resume(L) == LUA_OK && tide_frame_end(L, NULL) == 1, "the frame does not end");
  check(!tide_frame_end(L, NULL) && strstr(TIDE(tide_error_get)()->message, "no frame is open"), "it ends again");
  check(tide_lua_reload(L, "m", "return 1", 8) == LUA_OK, "a module is not loaded between calls");
  lua_close(L);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  module = argv[1];
  setenv("TIDE_SIM_DEVICES", "2", 1);
  setenv("TIDE_SIM_MEMORY", "67108864", 1);
  void *tide = dlopen(module, RTLD_NOW);
  if (!tide) return printf("face_test: %s\n", dlerror()), 2;
  opener = (lua_CFunction)(size_t)dlsym(tide, "luaopen_tide");
  lua_State *L = open_state();
  test_to(L);
  test_push(L);
  test_null(L);
  test_errors(L);
  test_changed(L);
  test_lost(L);
  test_readback(L);
  test_stream(L);
  lua_close(L);
  test_without();
  test_try();
  test_inside();
  test_quota();
  printf("face_test: %s\n", failed ? "failed" : "passed");
  return failed;
}
