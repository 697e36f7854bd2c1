/* frames.h: what the programs have in common that time scripts in the frames of a host (frames.c, frame_jobs.c). */
#ifndef TIDE_BENCH_FRAMES_H
#define TIDE_BENCH_FRAMES_H

#ifndef _GNU_SOURCE
#  define _GNU_SOURCE /* RUSAGE_THREAD */
#endif
#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tide_lua.h"

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void fail(lua_State *L, const char *what) {
  fprintf(stderr, "frames: %s: %s\n", what, L ? luaL_tolstring(L, -1, NULL) : dlerror());
  exit(EXIT_FAILURE);
}

/* The function that opens the module whose path is the first argument, or NULL. */
static lua_CFunction open_module(int argc, char **argv) {
  void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  return module ? (lua_CFunction)dlsym(module, "luaopen_tide") : NULL;
}

static lua_State *open_state(lua_CFunction opener, const char *device, const char *text) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  tide_lua_options o = {.struct_size = sizeof o, .capabilities = TIDE_LUA_ALL, .open = opener};
  if (tide_lua_open(L, &o) != LUA_OK) fail(L, "open");
  lua_setglobal(L, "tide");
  lua_pushstring(L, device);
  lua_setglobal(L, "device");
  if (luaL_dostring(L, text) != LUA_OK) fail(L, text);
  return L;
}

static void wait_until(double t, bool spin) {
  while (spin && now(CLOCK_MONOTONIC) < t) {}
  double left = t - now(CLOCK_MONOTONIC);
  if (left > 0) nanosleep(&(struct timespec){(time_t)(left / 1e6), (long)(1e3 * left) % 1000000000}, NULL);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static const char *option(int argc, char **argv, const char *name, const char *standard) {
  for (int i = 2; i + 1 < argc; i++)
    if (!strcmp(argv[i], name)) return argv[i + 1];
  return standard;
}

static void preload(lua_State *L) {
  double before = now(CLOCK_MONOTONIC);
  if (luaL_dostring(L, "return tide.cuda.preload(device, {wait = true})")) fail(L, "preload");
  printf("%s kernels loaded ahead in %.0f ms\n", lua_tostring(L, -1), 1e-3 * (now(CLOCK_MONOTONIC) - before));
}

#endif
