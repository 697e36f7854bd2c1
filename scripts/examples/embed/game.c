/* game.c: a script in a frame loop: sandboxed, with a budget of 4 ms a frame, loaded again when its file changes, and
 * its result read without a wait.        game [script.lua [frames]] */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

static bool call(lua_State *L, int arguments, int results, int milliseconds) { /* the function below its arguments */
  tide_lua_error_info e;
  tide_lua_quota_set(L, TIDE_QUOTA_MICROSECONDS, milliseconds * 1000);
  if (lua_pcall(L, arguments, results, 0) == LUA_OK) return true;
  tide_lua_error(L, -1, &e);
  printf("%s:%d: %s\n", e.source, e.line, e.message);
  return false;
}

static bool load(lua_State *L, const char *path) { /* the old functions stay where the new text does not load */
  static struct timespec loaded;
  struct stat now;
  if (stat(path, &now) || !memcmp(&now.st_mtim, &loaded, sizeof loaded)) return false;
  loaded = now.st_mtim;
  if (luaL_loadfilex(L, path, "t") != LUA_OK) return printf("%s\n", lua_tostring(L, -1)), false;
  return call(L, 0, 0, 500);
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "game.lua";
  int frames = argc > 2 ? atoi(argv[2]) : 600, results = 0, loads = 0;
  lua_State *L = luaL_newstate();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module || tide_init(NULL)) return EXIT_FAILURE;
  luaL_requiref(L, LUA_GNAME, luaopen_base, 1), luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 1);
  tide_lua_options options = tide_lua_defaults(); /* no capabilities: scripts compute */
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  options.device = tide_is_available() ? "cuda" : "cpu";
  options.gc = TIDE_LUA_GC_LAST;
  options.quota[TIDE_QUOTA_HOST_BYTES] = options.quota[TIDE_QUOTA_DEVICE_BYTES] = 256 << 20;
  if (tide_lua_open(L, &options) != LUA_OK) return EXIT_FAILURE;
  lua_setglobal(L, "tide");
  tide_tensor *host = NULL;
  tide_event *ready = NULL;
  for (int i = 0; i < frames; i++) {
    bool done = false;
    loads += load(L, path);
    lua_settop(L, 0);
    if (host && tide_readback_poll(&done, ready) == TIDE_OK && done) {
      if (results++ % 60 == 0) printf("frame %d: %g\n", i, *(const float *)tide_tensor_data(host));
      tide_tensor_release(host), tide_event_release(ready);
      host = NULL, ready = NULL;
    }
    if (lua_getglobal(L, "update") == LUA_TFUNCTION && (lua_pushnumber(L, 1. / 60), call(L, 1, 1, 4)) && !host)
      if (tide_lua_readback(&host, &ready, L, -1)) printf("update: %s\n", tide_error_get()->message);
    lua_gc(L, LUA_GCSTEP, 0); /* here the engine draws */
    struct timespec rest = {0, 16000000};
    nanosleep(&rest, NULL);
  }
  printf("%d frames, %d loads, %d results\n", frames, loads, results);
  tide_tensor_release(host), tide_event_release(ready);
  lua_close(L);
  tide_shutdown();
  return results > 0 && loads > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
