/* reload_test.c: a host that hands a script's text to tide_lua_reload, in a state that may not read files. Whatever
 * fails, at every allocation and every few instructions, the script is as it was: wholly the old one or wholly the new.
 *
 * usage: reload_test tide.so */
#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tide/tide.h"
#include "tide_lua.h"

static lua_CFunction opener;
static int failed;

static void check(bool holds, const char *what) {
  if (!holds) printf("reload_test: %s\n", what);
  failed |= !holds;
}

/* Lua's memory: after `countdown` allocations one fails; negative: none does. */
static long countdown = -1;

static void *allocate(void *user, void *ptr, size_t old, size_t size) {
  (void)user;
  if (!size) return free(ptr), NULL;
  if ((!ptr || size > old) && countdown >= 0 && !countdown--) return NULL;
  return realloc(ptr, size);
}

/* The script in version N, in the sandbox: what it has of tide, variables, a class and globals. */
static const char text[] = "local old = select(3, ...)\n"
                           "local state, steps, Class = tide.zeros(4), 0, {}\n"
                           "Class.__index = Class\n"
                           "function Class.version() return %1$d end\n"
                           "local M = {list = {%1$d}, object = setmetatable({}, Class), new%1$d = {}, version = %1$d}\n"
                           "function M.step() steps = steps + 1 state:add_(1) return steps, state end\n"
                           "function update() return %1$d, M.step() end\n"
                           "version, global%1$d = %1$d, {}\n"
                           "%2$s\n"
                           "return M\n";

static int reload(lua_State *L, int version, const char *end) {
  char now[2000];
  snprintf(now, sizeof now, text, version, end);
  return tide_lua_reload(L, "game", now, strlen(now));
}

/* What the script is must be of one version throughout, and its state the same. */
static const char look[] =
    "local M, expected = ...\n"
    "local v, steps, state = update()\n"
    "assert(version == v and M.version == v and M.list[1] == v and M.object.version() == v, 'of two versions')\n"
    "assert(M['new' .. v] and not M['new' .. 3 - v] and _G['global' .. v] and not _G['global' .. 3 - v], 'names of "
    "two')\n"
    "assert(steps == state[1]:item(), 'state was lost')\n"
    "assert(not expected or v == expected, 'not the expected version')\n"
    "assert(not tide.has 'reload', 'scripts can reload')\n"
    "return v\n";

static int looks(lua_State *L, int module, int expected, const char *when) {
  int version = 0;
  if (luaL_loadstring(L, look) != LUA_OK) exit(2);
  lua_pushvalue(L, module);
  if (expected)
    lua_pushinteger(L, expected);
  else
    lua_pushnil(L);
  if (lua_pcall(L, 2, 1, 0) != LUA_OK)
    printf("reload_test: %s: %s\n", when, lua_tostring(L, -1)), failed = 1;
  else
    version = (int)lua_tointeger(L, -1);
  lua_settop(L, module);
  return version;
}

static lua_State *open_state(void) {
  static const luaL_Reg given[] = {{LUA_GNAME, luaopen_base}, {LUA_COLIBNAME, luaopen_coroutine}, {NULL, NULL}};
  lua_State *L = lua_newstate(allocate, NULL);
  if (!L) exit(2);
  for (const luaL_Reg *r = given; r->name; r++) luaL_requiref(L, r->name, r->func, 1), lua_pop(L, 1);
  tide_lua_options o = {.struct_size = sizeof o, .open = opener};
  if (tide_lua_open(L, &o) != LUA_OK) exit(2);
  lua_setglobal(L, "tide");
  return L;
}

static void test_failures(void) {
  static const struct {
    const char *end, *message;
  } wrong[] = {{"return = 1", "game:9: unexpected symbol"},
               {"error 'stop'", "game:9: stop"},
               {"tide.ones(2):add(tide.ones(3))", "add"}};
  lua_State *L = open_state();
  check(reload(L, 1, "") == LUA_OK && lua_istable(L, 1), "the first load");
  looks(L, 1, 1, "the first load");
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    check(reload(L, 2, wrong[i].end) != LUA_OK && strstr(luaL_tolstring(L, -1, NULL), wrong[i].message), wrong[i].end);
    lua_settop(L, 1);
    looks(L, 1, 1, wrong[i].end);
  }
  check(reload(L, 2, "") == LUA_OK && lua_rawequal(L, 1, 2), "the module is another table");
  looks(L, 1, 2, "the second load");
  check(tide_lua_reload(L, "script", "function other() end", 20) == LUA_OK && lua_isboolean(L, -1), "no module");
  check(lua_getglobal(L, "other") == LUA_TFUNCTION, "no globals");
  lua_close(L);
  L = luaL_newstate();
  check(reload(L, 1, "") != LUA_OK && lua_isstring(L, -1), "a state without tide");
  lua_close(L);
}

/* Each allocation of Lua's fails once, until a reload runs through. */
static void test_memory(void) {
  lua_State *L = open_state();
  int version = 1;
  check(reload(L, 1, "") == LUA_OK, "the first load");
  for (long n = 0; n < 100000; n++) {
    countdown = n;
    int status = reload(L, 3 - version, "");
    bool ran = countdown >= 0;
    countdown = -1;
    lua_settop(L, 1);
    lua_gc(L, LUA_GCCOLLECT, 0);
    version = looks(L, 1, status == LUA_OK ? 3 - version : version, "memory fails");
    if (ran || failed) break;
  }
  lua_close(L);
}

/* The host's quota ends the script somewhere in the reload: the longer the text runs, the earlier. */
static void test_quota(void) {
  lua_State *L = open_state();
  int version = 1, done = 0, tried = 0;
  char loop[80];
  check(reload(L, 1, "") == LUA_OK, "the first load");
  for (int n = 0; n < 1500 && !failed; n += 5, tried++) {
    snprintf(loop, sizeof loop, "for i = 1, %d do local t = {} end", n);
    tide_lua_quota_set(L, TIDE_QUOTA_INSTRUCTIONS, 4000);
    int status = reload(L, 3 - version, loop);
    tide_lua_quota_set(L, TIDE_QUOTA_INSTRUCTIONS, -1);
    lua_settop(L, 1);
    version = looks(L, 1, status == LUA_OK ? 3 - version : version, "a quota is used up");
    done += status == LUA_OK;
  }
  check(done > 0 && done < tried, "the quotas cut through no reload");
  lua_close(L);
}

/* The text puts __gc into a metatable that it has set: no finaliser comes of it where the reload sets it again. */
static void test_finalisers(void) {
  static const char bare[] = "return {object = {}}",
                    dressed[] = "local M, Class = {object = {}}, {}\n"
                                "setmetatable(M.object, Class)\n"
                                "Class.__gc = function() finalised = true end\n"
                                "return M\n",
                    end[] = "local M = ...\n"
                            "assert(type(getmetatable(M.object).__gc) == 'function', 'the key is gone')\n"
                            "M.object = nil\n"
                            "collectgarbage()\n"
                            "collectgarbage()\n"
                            "assert(not finalised, 'a finaliser ran')\n";
  lua_State *L = open_state();
  check(tide_lua_reload(L, "class", bare, strlen(bare)) == LUA_OK, "without a metatable");
  check(tide_lua_reload(L, "class", dressed, strlen(dressed)) == LUA_OK && lua_rawequal(L, 1, 2), "with a metatable");
  lua_settop(L, 1);
  if (luaL_loadstring(L, end) != LUA_OK) exit(2);
  lua_pushvalue(L, 1);
  bool ok = lua_pcall(L, 1, 0, 0) == LUA_OK;
  check(ok, ok ? "" : lua_tostring(L, -1));
  lua_close(L);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  void *tide = dlopen(argv[1], RTLD_NOW);
  opener = tide ? (lua_CFunction)dlsym(tide, "luaopen_tide") : NULL;
  if (!opener) {
    printf("reload_test: %s\n", dlerror());
    return 2;
  }
  test_failures();
  test_memory();
  test_quota();
  test_finalisers();
  return failed;
}
