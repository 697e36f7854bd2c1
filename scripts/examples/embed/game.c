/* game.c: a script in a frame loop: sandboxed, with 4 ms a frame and no wait for a device, and loaded again
 * when its file changes.        game [script.lua [frames]] */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

static bool fine(lua_State *L, int status) { /* what failed says why, and the game goes on */
  tide_lua_error_info e;
  if (status <= LUA_YIELD) return true;
  tide_lua_error(L, -1, &e);
  printf("%s:%d: %s\n", e.source, e.line, e.message);
  return lua_pop(L, 1), false;
}

static bool load(lua_State *L, const char *path) { /* what the script has changed stays; if the text fails, all does */
  static struct timespec loaded;
  static char text[1 << 16];
  struct stat now;
  FILE *file;
  if (stat(path, &now) || !memcmp(&now.st_mtim, &loaded, sizeof loaded) || !(file = fopen(path, "rb"))) return false;
  size_t size = fread(text, 1, sizeof text, file);
  fclose(file);
  if (!size) return false; /* it is being written */
  loaded = now.st_mtim;
  if (size == sizeof text) return printf("%s: too long\n", path), false;
  tide_lua_quota_set(L, TIDE_QUOTA_MICROSECONDS, 500000);
  if (!fine(L, tide_lua_reload(L, path, text, size))) return false;
  if (!lua_isfunction(L, -1))
    return printf("%s: expected a script that returns a function\n", path), lua_pop(L, 1), false;
  return lua_replace(L, 1), true;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "game.lua";
  int frames = argc > 2 ? atoi(argv[2]) : 600, calls = 0, loads = 0;
  lua_State *L = luaL_newstate();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module || tide_init(NULL)) return EXIT_FAILURE;
  luaL_requiref(L, LUA_GNAME, luaopen_base, 1), luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 1);
  tide_lua_options options = tide_lua_defaults(); /* no capabilities: scripts compute */
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  options.device = tide_is_available() ? "cuda" : "cpu";
  options.quota[TIDE_QUOTA_HOST_BYTES] = options.quota[TIDE_QUOTA_DEVICE_BYTES] = 256 << 20;
  if (!fine(L, tide_lua_open(L, &options))) return EXIT_FAILURE;
  lua_setglobal(L, "tide"), lua_settop(L, 1); /* at 1 lies what the script has returned, its update */
  if (!(loads = load(L, path))) return printf("%s: not loaded\n", path), EXIT_FAILURE;
  tide_frame_options frame = {sizeof frame, 4000, 0, TIDE_FRAME_WAIT_YIELDS, 0};
  for (int i = 0; i < frames; i++) {
    loads += load(L, path);
    tide_lua_quota_set(L, TIDE_QUOTA_MICROSECONDS, 4000); /* what takes longer ends with an error */
    tide_frame_begin(L, &frame);
    lua_pushvalue(L, 1), lua_pushnumber(L, 1. / 60);
    calls += fine(L, tide_frame_call(L, 1, 0));
    while (!fine(L, tide_frame_resume(L))) {} /* what has waited for a device goes on */
    tide_frame_end(L, NULL);                  /* collects garbage in what is left */
    struct timespec drawing = {0, 12000000};  /* here the engine draws */
    nanosleep(&drawing, NULL);
  }
  printf("%d frames, %d loads\n", frames, loads);
  lua_close(L), tide_shutdown();
  return loads > 0 && calls > frames / 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}
