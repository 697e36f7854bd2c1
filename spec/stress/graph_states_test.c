/* graph_states_test.c: two Lua states on two threads capture graphs at the same time, and collect garbage after every
 * operation of every capture. All captures must be valid, and nothing may be left at the end.
 *
 * usage: graph_states_test tide.so      Simulated devices stand in unless TIDE_DEVICE=cuda; TIDE_STRESS=n makes n
 * captures instead of a few. */
#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char work[] =
    "local captures, seed = ...\n"
    "local tide = require 'tide'\n"
    "local cuda, dev, gc = tide.cuda, { device = 'cuda' }, collectgarbage\n"
    "local gen = tide.Generator 'cuda'\n"
    "gen:manual_seed(seed)\n"
    "cuda.set_stream(cuda.Stream())\n"
    "local last\n"
    "for i = 1, captures do\n"
    "  local g, s = cuda.CUDAGraph(), cuda.Stream()\n"
    "  local x, y, out, dice = tide.full({ 64 }, seed + 0.0, dev), tide.ones(64, dev)\n"
    "  local junk = { tide.zeros(100, dev), cuda.record(), cuda.Stream(), tide.zeros(9, { pin_memory = true }), last "
    "}\n"
    "  s:wait_stream(cuda.current_stream())\n"
    "  cuda.stream(s, function() junk[1]:add_(1) end)\n"
    "  local function body()\n"
    "    local t = x + y; gc()\n"
    "    junk, last = nil, nil; gc()\n"
    "    s:wait_stream(cuda.current_stream()); gc()\n"
    "    local u = cuda.stream(s, function() local v = t * 2; gc(); return v end); gc()\n"
    "    t, x = nil, nil; gc()\n"
    "    cuda.current_stream():wait_stream(s); gc()\n"
    "    dice = tide.rand(64, { device = 'cuda', generator = gen }); gc()\n"
    "    out = u + y; gc()\n"
    "    u, y, s = nil, nil, nil; gc()\n"
    "    local _ = tostring(out); gc()\n"
    "  end\n"
    "  if i % 2 == 0 then cuda.graph(g, body) else\n"
    "    g:capture_begin(); body(); g:capture_end()\n"
    "  end\n"
    "  for _ = 1, 3 do g:replay(); gc() end\n"
    "  local got, d = out:totable(), dice:totable()\n"
    "  for k = 1, 64 do\n"
    "    assert(got[k] == 2 * seed + 3, got[k])\n"
    "    assert(d[k] >= 0 and d[k] < 1, d[k])\n"
    "  end\n"
    "  last = i % 3 == 0 and g or nil\n"
    "  if i % 5 == 0 then g:reset() end\n"
    "  if i % 7 == 0 then\n"
    "    local h = cuda.CUDAGraph()\n"
    "    local ok, e = pcall(cuda.graph, h, function() local a = out + 1; gc(); return a:sum():item() end)\n"
    "    assert(not ok and e.kind == 'StateError', tostring(e))\n"
    "  end\n"
    "end\n"
    "assert(gen:get_offset() == 12 * captures, gen:get_offset())\n";

static const char left[] =
    "local tide = require 'tide'\n"
    "collectgarbage()\n"
    "for _ = 1, 3 do tide.cuda.synchronize_all() end\n"
    "tide.cuda.empty_cache()\n"
    "local a, r = tide.cuda.memory_allocated(), tide.cuda.memory_reserved()\n"
    "assert(a == 0 and r == 0, ('%d bytes of tensors and %d of the cache are left'):format(a, r))\n";

static const char *module;

static int run(lua_State *L, const char *text, int captures, int seed) {
  lua_getglobal(L, "package");
  lua_pushstring(L, module);
  lua_setfield(L, -2, "cpath");
  lua_pop(L, 1);
  int status = luaL_loadstring(L, text);
  lua_pushinteger(L, captures);
  lua_pushinteger(L, seed);
  if (status == LUA_OK) status = lua_pcall(L, 2, 0, 0);
  if (status != LUA_OK) printf("graph_states_test: %s\n", luaL_tolstring(L, -1, NULL));
  return status != LUA_OK;
}

typedef struct job {
  pthread_t thread;
  int captures, seed, failed;
} job;

static void *worker(void *arg) {
  job *j = arg;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  j->failed = run(L, work, j->captures, j->seed);
  lua_close(L);
  return NULL;
}

int main(int argc, char **argv) {
  const char *device = getenv("TIDE_DEVICE"), *stress = getenv("TIDE_STRESS");
  int captures = stress ? atoi(stress) / 2 : 30;
  if (argc != 2) return 2;
  module = argv[1];
  dlopen(module, RTLD_NOW | RTLD_NODELETE); /* a library that is unloaded looks like a leak of what it holds */
  if (!device || strcmp(device, "cuda")) setenv("TIDE_SIM_DEVICES", "1", 0);
  lua_State *L = luaL_newstate(); /* the runtime ends with this one, so what is left can be counted */
  luaL_openlibs(L);
  int failed = run(L, left, 0, 0);
  job jobs[2] = {{.captures = captures, .seed = 3}, {.captures = captures, .seed = 8}};
  for (int i = 0; i < 2; i++)
    if (pthread_create(&jobs[i].thread, NULL, worker, &jobs[i])) return 2;
  for (int i = 0; i < 2; i++) {
    pthread_join(jobs[i].thread, NULL);
    failed |= jobs[i].failed;
  }
  if (!failed) failed = run(L, left, 0, 0);
  lua_close(L);
  printf("graph_states_test: %s\n", failed ? "failed" : "passed");
  return failed;
}
