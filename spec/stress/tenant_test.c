/* tenant_test.c: what one state leaves in memory no other one reads, wherever its tensors lay: small and large, on the
 * CPU, page-locked, on a device, in a graph's pool. The states of scripts that the host does not trust come and go in
 * one process; the first to leave something is now such a state, now one of the host's own.
 *
 * usage: tenant_test tide.so      Simulated devices stand in; with TIDE_SIM_DEVICES=0 the machine's GPUs are used. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "module.h"
#include "tide_lua.h"

static lua_CFunction opener;

/* places: what is there; sizes: of every kind of cache. */
static const char common[] = "local places = {{device = 'cpu'}}\n"
                             "if tide.cuda.is_available() then\n"
                             "  places[2], places[3] = {device = 'cpu', pin_memory = true}, {device = 'cuda'}\n"
                             "end\n"
                             "local sizes = {1, 16, 1000, 16384, 20000, 100000, 300000, 600000, 3000000}\n"
                             "local function each(fn)\n"
                             "  for _, n in ipairs(sizes) do for _, p in ipairs(places) do\n"
                             "    fn(n, {device = p.device, pin_memory = p.pin_memory, dtype = tide.int32})\n"
                             "  end end\n"
                             "end\n";

static const char leaves[] =
    "local all = {}\n"
    "each(function(n, o) for i = 1, n > 100000 and 2 or 5 do all[#all + 1] = tide.full(n, 0x5EC4E7, o) end end)\n"
    "for _, x in ipairs(all) do x:free() end\n"
    "all = nil\n"
    "collectgarbage() collectgarbage()\n"
    "if places[3] then tide.cuda.synchronize() end\n";

/* Every function that gives memory that it need not have written. */
static const char looks[] =
    "local kept = {}\n"
    "local function look(what, x)\n"
    "  kept[#kept + 1] = x\n"
    "  local n = x:ne(0):sum():item()\n"
    "  assert(n == 0, ('%s: %d of %d elements of %s'):format(what, n, x:numel(), tostring(x.device)))\n"
    "end\n"
    "each(function(n, o)\n"
    "  local one = tide.zeros(1, o)\n"
    "  look('empty', tide.empty(n, o))\n"
    "  look('empty_like', tide.empty_like(one:expand(n)))\n"
    "  look('new_empty', one:new_empty({n}))\n"
    "  look('empty_strided', tide.empty_strided({n}, {1}, o))\n"
    "  look('new_empty_strided', one:new_empty_strided({n}, {1}))\n"
    "  if not o.pin_memory then look('resize_', tide.zeros(1, o):resize_({n})) end\n"
    "  kept = n > 100000 and {} or kept\n"
    "end)\n";

/* The same state gets its own memory back as it is: it is cleared only when it changes its owner. */
static const char again[] __attribute__((unused)) =
    "local before = tide.full(300000, 7, {dtype = tide.int32}) before:free()\n"
    "local after = tide.empty(300000, {dtype = tide.int32})\n"
    "assert(after:eq(7):sum():item() > 299000, 'it is cleared for its own state')\n";

/* In a capture, whose memory is its pool's, and after it. */
static const char captured[] =
    "if not places[3] then return end\n"
    "local g, s, out = tide.cuda.CUDAGraph(), tide.cuda.Stream()\n"
    "local x = tide.ones(1000, {device = 'cuda'})\n"
    "tide.cuda.graph(g, function()\n"
    "  local y = x * 2\n"
    "  out = {tide.empty(1000, {device = 'cuda'}) + 0, y + 1, tide.empty(600000, {device = 'cuda'}) + 0}\n"
    "end)\n"
    "for i = 1, 3 do\n"
    "  g:replay()\n"
    "  assert(out[1]:ne(0):sum():item() == 0 and out[3]:ne(0):sum():item() == 0, 'in a graph')\n"
    "  assert(out[2]:eq(3):all():item(), 'the graph computes something else')\n"
    "end\n";

static lua_State *state_new(bool is_trusted) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (is_trusted) {
    luaL_requiref(L, "tide", opener, 0);
  } else {
    tide_lua_options o = {.struct_size = sizeof o, .capabilities = TIDE_LUA_WAITS, .open = opener};
    if (tide_lua_open(L, &o) != LUA_OK) exit(2);
  }
  lua_setglobal(L, "tide");
  return L;
}

static void run(lua_State *L, const char *text, const char *what) {
  char whole[8192];
  snprintf(whole, sizeof whole, "%s%s", common, text);
  if (luaL_dostring(L, whole) == LUA_OK) return;
  printf("tenant_test: %s: %s\n", what, luaL_tolstring(L, -1, NULL));
  failed = 1;
  lua_settop(L, 0);
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  setenv("TIDE_SIM_DEVICES", "1", 0);
  module = argv[1];
  void *tide = dlopen(module, RTLD_NOW);
  if (!tide) return 2;
  opener = (lua_CFunction)(size_t)dlsym(tide, "luaopen_tide");
  lua_State *trusted = state_new(true), *first = state_new(false), *second = state_new(false);
  run(trusted, leaves, "a host's state leaves");
  run(first, looks, "after a host's state");
  run(first, leaves, "a script leaves");
  run(second, looks, "after another script");
  run(second, leaves, "a script leaves");
  run(first, captured, "a graph after another script");
  run(first, leaves, "a script leaves");
  lua_close(first);
  lua_State *third = state_new(false);
  run(third, looks, "after a script that has ended");
#if !defined(__SANITIZE_ADDRESS__)
  run(third, again, "a state's own");
#endif
  lua_close(second), lua_close(third), lua_close(trusted);
  return failed;
}
