/* frames.h: what the tests of frames share. Included once by each. */
#pragma once

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "module.h"
#include "tide_lua.h"

static lua_CFunction opener;

#define CHECK(holds, ...)                                                                                              \
  do {                                                                                                                 \
    if (!(holds)) failed = 1, printf("%s:%d: ", __FILE__, __LINE__), printf(__VA_ARGS__), printf("\n");                \
  } while (0)

static lua_State *open_state(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  tide_lua_options o = {.struct_size = sizeof o, .capabilities = TIDE_LUA_ALL, .open = opener};
  if (tide_lua_open(L, &o) != LUA_OK) exit(2);
  lua_setglobal(L, "tide");
  return L;
}

static void run(lua_State *L, const char *text) {
  if (luaL_loadbuffer(L, text, strlen(text), "=script") != LUA_OK || lua_pcall(L, 0, 0, 0) != LUA_OK)
    CHECK(false, "%s", luaL_tolstring(L, -1, NULL));
  lua_settop(L, 0);
}

static tide_frame_options options(tide_frame_wait on_wait) {
  return (tide_frame_options){.struct_size = sizeof(tide_frame_options), .budget = 10000000, .on_wait = on_wait};
}

static void begin(lua_State *L, tide_frame_wait on_wait) {
  tide_frame_options o = options(on_wait);
  CHECK(tide_frame_begin(L, &o) == 1, "the frame does not begin");
}

static inline void end(lua_State *L) { CHECK(tide_frame_end(L, NULL) == 1, "the frame does not end"); }

/* Calls the text in the open frame. */
static int call(lua_State *L, const char *text, int results) {
  if (luaL_loadbuffer(L, text, strlen(text), "=script") != LUA_OK) exit(2);
  return tide_frame_call(L, 0, results);
}

/* It has to raise an error with this text. */
static inline void refused(lua_State *L, const char *text, const char *message) {
  int status = call(L, text, 0);
  const char *got = status > LUA_YIELD ? luaL_tolstring(L, -1, NULL) : "no error";
  CHECK(strstr(got, message), "%s: got %s, expected %s", text, got, message);
  lua_settop(L, 0);
}

static inline void works(lua_State *L, const char *text) {
  int status = call(L, text, 0);
  CHECK(status == LUA_OK, "%s: %s", text, status > LUA_YIELD ? luaL_tolstring(L, -1, NULL) : "it yielded");
  lua_settop(L, 0);
}

/* Runs frames until there are no jobs; returns how many there were, or -1 after an error. */
static inline int frames(lua_State *L, tide_frame_wait on_wait) {
  for (int n = 1; n < 100000; n++) {
    tide_frame_stats s = {.struct_size = sizeof s};
    begin(L, on_wait);
    if (tide_frame_resume(L) != LUA_OK) {
      printf("a job: %s\n", luaL_tolstring(L, -1, NULL));
      tide_frame_end(L, NULL);
      return -1;
    }
    CHECK(tide_frame_end(L, &s), "the frame does not end");
    if (!s.jobs) return n;
    nanosleep(&(struct timespec){0, 100000}, NULL);
  }
  return -1;
}

/* The module, which stays open until dlclose of what is given. */
static void *open_module(int argc, char **argv) {
  setenv("TIDE_SIM_DEVICES", "2", 1);
  setenv("TIDE_SIM_MEMORY", "67108864", 0);
  if (argc < 2) exit(2);
  module = argv[1];
  opener = (lua_CFunction)function("luaopen_tide");
  return dlopen(module, RTLD_NOW);
}
