/* luajit_host.c: a host with LuaJIT, of scripts that it does not trust: what loops for ever is ended by a quota or from
 * another thread, also where it had been compiled before the module was opened.
 * usage: luajit_host tide.so (the module for LuaJIT) */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "tide_lua.h"

static lua_CFunction opener;
static int failed;

typedef struct trial {
  const char *name, *text, *raises;
  int64_t instructions, milliseconds;
  int kill; /* after so many milliseconds; 0: not */
} trial;

static const trial trials[] = {
    {"a loop", "while true do end", "instructions that the host allows are used up", 100000, 0, 0},
    {"a loop, by time", "while true do end", "microseconds that the host allows are used up", 0, 50, 0},
    {"a loop that is killed", "while true do end", "the host has ended this work", 0, 0, 50},
    {"a loop with numbers", "local n = 0 for i = 1, math.huge do n = n + i end", "are used up", 0, 50, 0},
    {"a loop that was compiled before", "warm(1e300)", "are used up", 0, 50, 0},
    {"a loop that was compiled before, killed", "warm(1e300)", "the host has ended this work", 0, 0, 50},
    {"reads", "local x = tide.ones(2, 2) while true do x[1][1]:item() x:numel() end", "are used up", 0, 50, 0},
    {"what catches errors", "while true do pcall(function() while true do end end) end", "are used up", 100000, 0, 0},
    {"recursion", "local function f() return f() end f()", "are used up", 100000, 0, 0},
    {"a coroutine", "coroutine.wrap(function() while true do end end)()", "are used up", 100000, 0, 0},
    {"coroutines", "while true do coroutine.resume(coroutine.create(function() for _ = 1, 1e4 do end end)) end",
     "are used up", 0, 50, 0},
    {"an iterator", "for _ in function() return 1 end do end", "are used up", 100000, 0, 0},
    {"tide.ffi", "return tide.ffi", "there is no such name", 0, 0, 0},
    {"ffi_ptr", "return tide.ones(1):ffi_ptr()", "no such", 0, 0, 0},
    {"bytecode", "assert(load(string.dump(function() return 7 end)))", "wrong mode", 0, 0, 0},
    {"bytecode by its other name", "assert(loadstring(string.dump(function() end), 'x', 'b'))", "wrong mode", 0, 0, 0},
    {"text", "assert(loadstring 'return 7'() == 7 and load(function() return nil end))", NULL, 0, 0, 0},
    {"a finaliser", "getmetatable(newproxy(true)).__gc = function() while true do end end", "newproxy", 0, 0, 0},
    {"environments", "assert(getfenv(tide.ones) == _G and not pcall(setfenv, tide.ones, {}))", NULL, 0, 0, 0},
    {"the environment of all",
     "setfenv(0, setmetatable({}, {__index = function() error 'mine' end})) local x = tide.ones(2) "
     "assert(x:sum():item() == 2 and tide.help)",
     NULL, 0, 0, 0},
    {"numbers of the FFI", "assert(getmetatable(1LL) == 'ffi' and not pcall(function() return (1LL).x end))", NULL, 0,
     0, 0},
    {"what ends well", "for i = 1, 1000 do assert(tide.ones(1):item() == 1) end", NULL, 0, 0, 0},
};

typedef struct killer {
  const tide_lua_api *api;
  lua_State *L;
  int milliseconds;
} killer;

static void *kill_later(void *user) {
  const killer *k = user;
  usleep((useconds_t)k->milliseconds * 1000);
  tide_lua_kill(k->api, k->L);
  return NULL;
}

static const char warm[] = "function warm(n) local s = 0 for i = 1, n do s = s + i % 3 end return s end "
                           "for i = 1, 100 do warm(1000) end";

static lua_State *open_state(const trial *t) {
  static const lua_CFunction libraries[] = {luaopen_base, luaopen_string, luaopen_table, luaopen_math, luaopen_jit};
  lua_State *L = luaL_newstate();
  if (!L) exit(2);
  for (unsigned i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    lua_pushcfunction(L, libraries[i]);
    lua_pushliteral(L, "");
    lua_call(L, 1, 0);
  }
  if (luaL_dostring(L, warm)) exit(2);
  tide_lua_options o = tide_lua_defaults();
  o.open = opener;
  o.quota[TIDE_QUOTA_INSTRUCTIONS] = t->instructions;
  o.quota[TIDE_QUOTA_MICROSECONDS] = t->milliseconds * 1000;
  if (tide_lua_open(L, &o) != LUA_OK) {
    printf("luajit_host: %s\n", lua_tostring(L, -1));
    exit(2);
  }
  lua_setglobal(L, "tide");
  return L;
}

static void run(const trial *t) {
  lua_State *L = open_state(t);
  killer k = {tide_lua_get(L), L, t->kill};
  pthread_t thread;
  if (t->kill && pthread_create(&thread, NULL, kill_later, &k)) exit(2);
  int status = luaL_loadstring(L, t->text);
  if (status == LUA_OK) status = lua_pcall(L, 0, 0, 0);
  tide_lua_error_info e = {.message = ""};
  if (status != LUA_OK) tide_lua_error(L, -1, &e);
  if (t->kill) pthread_join(thread, NULL);
  if (t->raises ? status == LUA_OK || !strstr(e.message, t->raises) : status != LUA_OK) {
    printf("luajit_host: %s: got \"%s\", expected \"%s\"\n", t->name, e.message, t->raises ? t->raises : "no error");
    failed = 1;
  }
  lua_close(L);
}

int main(int argc, char **argv) {
  void *module = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
  opener = module ? (lua_CFunction)(size_t)dlsym(module, "luaopen_tide") : NULL;
  if (!opener) {
    printf("luajit_host: %s\n", argc == 2 ? dlerror() : "usage: luajit_host tide.so");
    return 2;
  }
  alarm(120); /* what nothing ends */
  for (unsigned i = 0; i < sizeof trials / sizeof *trials; i++) run(&trials[i]);
  printf("luajit_host: %d trials%s\n", (int)(sizeof trials / sizeof *trials), failed ? ", some failed" : "");
  return failed;
}
