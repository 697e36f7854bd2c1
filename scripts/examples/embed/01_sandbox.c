/* 01_sandbox.c: opens tide for scripts that the host does not trust. They compute, and can do nothing else: what needs
 * files, addresses, processes or machine code is not there, tables are read-only, and what they may take is bounded. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

/* Lua's libraries that reach nothing outside the state. */
static const luaL_Reg libraries[] = {{LUA_GNAME, luaopen_base},
                                     {LUA_STRLIBNAME, luaopen_string},
                                     {LUA_TABLIBNAME, luaopen_table},
                                     {LUA_MATHLIBNAME, luaopen_math},
                                     {LUA_COLIBNAME, luaopen_coroutine}};

static lua_State *open_sandbox(void) {
  lua_State *L = luaL_newstate();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module) return NULL;
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    luaL_requiref(L, libraries[i].name, libraries[i].func, 1);
    lua_pop(L, 1);
  }
  tide_lua_options options = tide_lua_defaults(); /* no capabilities */
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  options.quota[TIDE_QUOTA_HOST_BYTES] = 64 << 20;
  options.quota[TIDE_QUOTA_DEVICE_BYTES] = 64 << 20;
  if (tide_lua_open(L, &options) != LUA_OK) return NULL;
  lua_setglobal(L, "tide");
  return L;
}

/* Runs a script's text for at most 50 ms. Text alone: bytecode could reach anything. */
static bool run(lua_State *L, const char *text) {
  tide_lua_error_info error;
  tide_lua_quota_set(L, TIDE_QUOTA_MICROSECONDS, 50000);
  int status = luaL_loadbufferx(L, text, strlen(text), "=mod", "t");
  if (status == LUA_OK) status = lua_pcall(L, 0, 0, 0);
  if (status != LUA_OK) tide_lua_error(L, -1, &error);
  printf("%-42s %s\n", text, status == LUA_OK ? "is done" : error.message);
  lua_settop(L, 0);
  return status == LUA_OK;
}

int main(void) {
  lua_State *L = open_sandbox();
  if (!L) return EXIT_FAILURE;
  bool fine = run(L, "assert(tide.ones(8):sum():item() == 8)");
  bool wrong = run(L, "tide.ones(8):save('/tmp/x')") || run(L, "tide.zeros = nil") ||
               run(L, "io.open('/etc/passwd')") || run(L, "tide.zeros(1 << 30)") ||
               run(L, "while true do pcall(error) end");
  bool again = run(L, "assert(tide.ones(4):sum():item() == 4)"); /* new limits, and all is well again */
  lua_close(L);
  return fine && !wrong && again ? EXIT_SUCCESS : EXIT_FAILURE;
}
