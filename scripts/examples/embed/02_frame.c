/* 02_frame.c: calls a script in each frame of a loop, for at most 4 ms. What overruns ends with an ordinary error, and
 * the loop goes on; nothing waits for a device: a value is there in a later frame; and garbage is collected in what is
 * left of the frame, not inside an operation. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

static const char script[] =
    "local x, frame = tide.zeros(256), 0\n"
    "values = 0\n"
    "return function(dt)\n"
    "  frame = frame + 1\n"
    "  x:add_(dt)\n"
    "  while frame == 20 do end -- a mistake\n"
    "  if frame == 30 then local y = x:sum():item() end -- another one: it would wait\n"
    "  if frame % 8 == 0 then\n"
    "    local mean = tide.await(x:mean()) -- the frame goes on, and a later one returns here\n"
    "    assert(mean > 0)\n"
    "    values = values + 1\n"
    "  end\n"
    "end\n";

static bool fine(lua_State *L, int status) {
  tide_lua_error_info error;
  if (status <= LUA_YIELD) return true;
  tide_lua_error(L, -1, &error);
  printf("%s:%d: %s\n", error.source, error.line, error.message);
  lua_pop(L, 1);
  return false;
}

static lua_State *open_state(void) {
  lua_State *L = luaL_newstate();
  tide_lua_options options = tide_lua_defaults();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module || tide_init(NULL)) return NULL;
  luaL_openlibs(L);
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  options.capabilities = TIDE_LUA_ALL; /* the engine's own script: what it may not do in a frame the frame says */
  options.device = tide_is_available() ? "cuda" : "cpu";
  if (!fine(L, tide_lua_open(L, &options))) return NULL;
  lua_setglobal(L, "tide");
  return fine(L, luaL_loadbuffer(L, script, strlen(script), "=script")) && fine(L, lua_pcall(L, 0, 1, 0)) ? L : NULL;
}

int main(void) {
  enum { FRAMES = 60 };
  lua_State *L = open_state();
  if (!L) return EXIT_FAILURE;
  int done = 0, jobs = 0;
  tide_frame_options frame = {sizeof frame, 4000, 0, TIDE_FRAME_WAIT_RAISES, 0};
  for (int i = 0; i < FRAMES; i++) {
    tide_frame_stats stats;
    stats.struct_size = sizeof stats;
    tide_lua_quota_set(L, TIDE_QUOTA_MICROSECONDS, 4000);
    tide_frame_begin(L, &frame);
    while (!fine(L, tide_frame_resume(L))) {}
    lua_pushvalue(L, 1);
    lua_pushnumber(L, 1.0 / 60);
    done += fine(L, tide_frame_call(L, 1, 0));
    tide_frame_end(L, &stats);
    jobs += stats.jobs;
    struct timespec pause = {0, 12000000};
    nanosleep(&pause, NULL);
  }
  lua_getglobal(L, "values");
  long values = (long)lua_tointeger(L, -1);
  printf("%d of %d frames were done in time, %ld values came, %d of them in a later frame\n", done, FRAMES, values,
         jobs);
  lua_close(L);
  tide_shutdown();
  return done >= FRAMES / 2 && done < FRAMES && values > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
