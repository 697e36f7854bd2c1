/* warning_test.c: where a script's warnings go in states that luaL_newstate made: to the host's log, whole, where it
 * has given one, and else to whatever the state warns by.
 *
 * usage: warning_test tide.so      A simulated device stands in. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"
#include "tide/tide.h"

/* ---- what was logged by this thread, each message in brackets ---- */

enum { ROOM = 1 << 16 };
static _Thread_local char logged[ROOM], heard[ROOM];

static void add(char *to, const char *format, ...) {
  size_t used = strlen(to);
  va_list list;
  va_start(list, format);
  vsnprintf(to + used, ROOM - used, format, list);
  va_end(list);
}

static void on_log(void *user, const char *message) {
  (void)user;
  add(logged, "[%s]", message);
}

static void on_warn(void *user, const char *message, int to_continue) {
  (void)user;
  add(heard, "%s%s", message, to_continue ? "+" : ";");
}

/* Was exactly this logged since the last time? */
static void expect(const char *text, const char *what) {
  if (strcmp(logged, text)) {
    printf("warning_test: %s: got %.300s, expected %.300s\n", what, logged, text);
    failed = 1;
  }
  logged[0] = 0;
}

static void expect_heard(const char *text, const char *what) {
  if (strcmp(heard, text)) {
    printf("warning_test: %s: the state's own function got %s, expected %s\n", what, heard, text);
    failed = 1;
  }
  heard[0] = 0;
}

/* ---- states ---- */

static void run(lua_State *L, const char *text) {
  if (luaL_dostring(L, text) == LUA_OK) return;
  printf("warning_test: %s\n", luaL_tolstring(L, -1, NULL));
  lua_pop(L, 2);
  failed = 1;
}

static int fails(lua_State *L) { return luaL_error(L, "the host's"); }

/* An object of the host's that is older than all libraries, so that its finaliser runs after theirs. */
static void make_oldest(lua_State *L) {
  lua_newuserdatauv(L, 1, 0);
  lua_newtable(L);
  lua_pushcfunction(L, fails);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_setfield(L, LUA_REGISTRYINDEX, "oldest");
}

static lua_State *new_state(bool oldest) {
  lua_State *L = luaL_newstate();
  if (!L) exit(2);
  if (oldest) make_oldest(L);
  luaL_openlibs(L);
  lua_getglobal(L, "package");
  lua_pushstring(L, module);
  lua_setfield(L, -2, "cpath");
  lua_pop(L, 1);
  return L;
}

static void require(lua_State *L) { run(L, "tide = require 'tide'"); }

static void start(void (*log)(void *, const char *)) {
  tide_config config = {.struct_size = sizeof config, .log = log, .sim_devices = 1};
  if (TIDE(tide_init)(&config) != TIDE_OK) exit(2);
}

/* ---- tests ---- */

static void test_no_log(void) {
  start(NULL);
  if (TIDE(tide_log)("nobody hears")) failed = 1;
  lua_State *L = new_state(false);
  lua_setwarnf(L, on_warn, NULL);
  require(L);
  run(L, "warn('a', 'b')");
  expect_heard("a+b;", "no log");
  lua_close(L);
  TIDE(tide_shutdown)();
}

static void test_pieces(lua_State *L) {
  run(L, "warn 'one'");
  expect("[one]", "one piece");
  run(L, "warn('a', '', 'b', 'c') warn 'd'");
  expect("[abc][d]", "pieces");
  run(L, "warn('', '')");
  expect("[]", "empty pieces");
  run(L, "warn '@off' warn 'no' warn('no', '@on') warn 'no' warn '@on' warn '@unknown' warn('@', 'on')");
  expect("[@on]", "commands");
  run(L, "local long = ('x'):rep(5000) warn(long, long)");
  if (strlen(logged) != 10002) printf("warning_test: %zu bytes of a long message\n", strlen(logged)), failed = 1;
  logged[0] = 0;
}

static void test_origins(lua_State *L) {
  run(L, "coroutine.wrap(function() warn('in', ' a coroutine') end)()");
  expect("[in a coroutine]", "coroutine");
  run(L, "setmetatable({}, {__gc = function() error('oh', 0) end}) collectgarbage()");
  expect("[error in __gc (oh)]", "finaliser");
  run(L,
      "tide.cuda.set_sync_debug_mode 'warn' tide.ones(1, {device = 'cuda'}):item() tide.cuda.set_sync_debug_mode(0)");
  if (!strstr(logged, "item")) printf("warning_test: %s: tide's own warning\n", logged), failed = 1;
  if (strstr(logged, "][")) printf("warning_test: %s: more than once\n", logged), failed = 1;
  logged[0] = 0;
}

/* A function that the host sets after the module was opened stays, one that it has set before does not. */
static void test_own(void) {
  lua_State *L = new_state(false);
  lua_setwarnf(L, on_warn, NULL);
  require(L);
  run(L, "warn 'first'");
  expect("[first]", "set before");
  lua_setwarnf(L, on_warn, NULL);
  run(L, "warn 'second'");
  expect("", "set after");
  expect_heard("second;", "set after");
  lua_close(L);
}

static void test_closing(void) {
  lua_State *L = new_state(true);
  require(L);
  run(L, "kept = setmetatable({}, {__gc = function() warn('clo', 'sing') end})");
  lua_warning(L, "a message without ", 1); /* whose end never comes */
  lua_close(L);
  if (!strstr(logged, "closing]") || !strstr(logged, "error in __gc")) {
    printf("warning_test: closing: got %s\n", logged);
    failed = 1;
  }
  logged[0] = 0;
}

static void *on_thread(void *name) {
  lua_State *L = new_state(false);
  require(L);
  lua_pushstring(L, name);
  lua_setglobal(L, "name");
  char all[ROOM] = "";
  for (int i = 0; i < 100; i++) {
    run(L, "warn('I am ', name) if name == 'a' then warn '@off' warn 'no' warn '@on' end");
    add(all, "[I am %s]", (char *)name);
  }
  expect(all, "threads");
  lua_close(L);
  return NULL;
}

static void test_threads(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    if (pthread_create(&threads[i], NULL, on_thread, i ? "b" : "a")) exit(2);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  module = argv[1];
  if (TIDE(tide_log)(NULL)) failed = 1; /* tide does not run */
  test_no_log();
  start(on_log);
  if (!TIDE(tide_log)(NULL) || !TIDE(tide_log)("the host's own")) failed = 1;
  expect("[the host's own]", "tide_log");
  lua_State *L = new_state(false);
  require(L);
  test_pieces(L);
  test_origins(L);
  lua_close(L);
  test_own();
  test_closing();
  test_threads();
  TIDE(tide_shutdown)();
  printf("warning_test: %s\n", failed ? "failed" : "passed");
  return failed;
}
