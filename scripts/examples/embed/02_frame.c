/* 02_frame.c: calls a script in each frame of a loop, for at most 4 ms. What overruns ends with an ordinary error, and
 * the frame goes on without it; garbage is collected in what is left of the frame, not inside an operation. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

static const char script[] = "local x, frame = tide.zeros(256), 0\n"
                             "function update(dt)\n"
                             "  frame = frame + 1\n"
                             "  x:add_(dt)\n"
                             "  while frame == 20 do end -- a mistake\n"
                             "end\n";

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool update(lua_State *L, double dt) {
  tide_lua_error_info error;
  tide_lua_quota_set(L, TIDE_QUOTA_MICROSECONDS, 4000); /* from now on */
  lua_getglobal(L, "update");
  lua_pushnumber(L, dt);
  bool done = lua_pcall(L, 1, 0, 0) == LUA_OK;
  if (!done) tide_lua_error(L, -1, &error), printf("%s:%d: %s\n", error.source, error.line, error.message);
  lua_settop(L, 0);
  return done;
}

int main(void) {
  enum { FRAMES = 60 };
  const double frame = 1.0 / 60;
  lua_State *L = luaL_newstate();
  tide_lua_options options = tide_lua_defaults();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module) return EXIT_FAILURE;
  luaL_openlibs(L);
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  options.gc = TIDE_LUA_GC_LAST; /* no collection in an operation, unless memory has run out */
  if (tide_lua_open(L, &options) != LUA_OK) return EXIT_FAILURE;
  lua_setglobal(L, "tide");
  if (luaL_dostring(L, script) != LUA_OK) return EXIT_FAILURE;
  lua_gc(L, LUA_GCSTOP);
  int done = 0;
  for (int i = 0; i < FRAMES; i++) {
    double start = now();
    done += update(L, frame);
    while (now() - start < frame / 2 && !lua_gc(L, LUA_GCSTEP, 1)) {} /* at most one cycle, in the slack */
    double left = frame - (now() - start);
    struct timespec pause = {0, (long)(left * 1e9)};
    if (left > 0) nanosleep(&pause, NULL);
  }
  printf("%d of %d frames were done in time\n", done, FRAMES);
  lua_close(L);
  return done >= FRAMES / 2 && done < FRAMES ? EXIT_SUCCESS : EXIT_FAILURE;
}
