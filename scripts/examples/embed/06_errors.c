/* 06_errors.c: an error of a script is a struct for the host, and none ends the host: after a fault of a device, which
 * makes every call there fail, the device is reset and the script is loaded again. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tide/debug.h"
#include "tide/sim.h"
#include "tide/tide.h"
#include "tide/tide_lua.h"

static const char script[] = "state = tide.zeros(64)\n"
                             "function good() state:add_(1) tide.cuda.synchronize_all() end\n"
                             "function wrong() return state + tide.ones(3) end\n";

/* Calls a function of the script's; returns what went wrong, with TIDE_OK as its status where nothing did. */
static tide_lua_error_info call(lua_State *L, const char *function) {
  tide_lua_error_info error;
  memset(&error, 0, sizeof error);
  lua_settop(L, 0);
  lua_getglobal(L, function);
  if (lua_pcall(L, 0, 0, 0) == LUA_OK) return error;
  tide_lua_error(L, -1, &error); /* its strings live while the error is on the stack */
  printf("%s, line %d: %s: %s%s\n", function, error.line, error.kind ? error.kind : "error", error.message,
         error.sticky ? " (the device is lost)" : "");
  return error;
}

static bool load(lua_State *L) {
  return luaL_loadbuffer(L, script, sizeof script - 1, "@game.lua") == LUA_OK && lua_pcall(L, 0, 0, 0) == LUA_OK;
}

int main(void) {
  lua_State *L = luaL_newstate();
  tide_lua_options options = tide_lua_defaults();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module) return EXIT_FAILURE;
  luaL_openlibs(L);
  bool gpu = tide_init(NULL) == TIDE_OK && tide_is_available();
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  options.capabilities = TIDE_LUA_WAITS;
  options.device = gpu ? "cuda:0" : "cpu";
  if (tide_lua_open(L, &options) != LUA_OK) return EXIT_FAILURE;
  lua_setglobal(L, "tide");
  if (!load(L)) return EXIT_FAILURE;

  tide_lua_error_info error = call(L, "wrong");
  bool fine = error.status == TIDE_SHAPE && error.line == 3 && call(L, "missing").kind == NULL;
  fine = fine && call(L, "good").status == TIDE_OK;

  const tide_device_props *props = NULL;
  if (gpu && !tide_device_get_props(&props, 0) && props->simulated) {
    tide_sim_fault("sticky:1"); /* the next kernel fails as an illegal address does */
    error = call(L, "good");
    fine = fine && error.status == TIDE_ACCELERATOR && error.sticky && error.device == 0;
    fine = fine && call(L, "good").sticky; /* every later call says the first cause */
    lua_settop(L, 0);
    fine = fine && tide_device_reset(0) == TIDE_OK && load(L) && call(L, "good").status == TIDE_OK;
    printf("the device was reset: the script runs %s\n", fine ? "again" : "no more");
  }
  lua_close(L);
  tide_shutdown();
  return fine ? EXIT_SUCCESS : EXIT_FAILURE;
}
