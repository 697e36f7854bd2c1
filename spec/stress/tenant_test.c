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

#if defined(__SANITIZE_THREAD__) /* some forty times slower */
#  define LARGEST "600000"
#else
#  define LARGEST "600000, 3000000"
#endif

/* places: what is there; sizes: of every kind of cache. */
static const char common[] = "local places = {{device = 'cpu'}}\n"
                             "if tide.cuda.is_available() then\n"
                             "  places[2], places[3] = {device = 'cpu', pin_memory = true}, {device = 'cuda'}\n"
                             "end\n"
                             "local sizes = {1, 16, 1000, 16384, 20000, 100000, 300000, " LARGEST "}\n"
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
#define LOOK                                                                                                           \
  "local kept = {}\n"                                                                                                  \
  "local function look(what, x)\n"                                                                                     \
  "  kept[#kept + 1] = x\n"                                                                                            \
  "  local n = x:ne(0):sum():item()\n"                                                                                 \
  "  if n == 0 then return end\n"                                                                                      \
  "  local at = x:ne(0):nonzero()\n"                                                                                   \
  "  local first, last = at[1]:item(), at[-1]:item()\n"                                                                \
  "  error(('%s: %d of %d elements of %s, from %d (0x%x) to %d (0x%x)'):format(what, n, x:numel(), "                   \
  "tostring(x.device),\n"                                                                                              \
  "    first, x[first]:item(), last, x[last]:item()))\n"                                                               \
  "end\n"
static const char looks[] = LOOK "each(function(n, o)\n"
                                 "  local one = tide.zeros(1, o)\n"
                                 "  look('empty', tide.empty(n, o))\n"
                                 "  look('empty_like', tide.empty_like(one:expand(n)))\n"
                                 "  look('new_empty', one:new_empty({n}))\n"
                                 "  look('empty_strided', tide.empty_strided({n}, {1}, o))\n"
                                 "  look('new_empty_strided', one:new_empty_strided({n}, {1}))\n"
                                 "  if not o.pin_memory then look('resize_', tide.zeros(1, o):resize_({n})) end\n"
                                 "  kept = n > 100000 and {} or kept\n"
                                 "end)\n";

/* Behind a smaller tensor that had the memory before lie the bytes that its size was rounded up by. */
static const char tails[] =
    LOOK "each(function(n, o)\n"
         "  local less = {}\n"
         "  for _, part in ipairs {0.6, 0.77, 0.85, 0.9, 0.97} do\n"
         "    for i = 1, 6 do less[#less + 1] = tide.zeros(math.max(1, math.floor(n * part)), o) end\n"
         "  end\n"
         "  for _, x in ipairs(less) do x:free() end\n"
         "  less = nil collectgarbage() collectgarbage()\n"
         "  for i = 1, 8 do look('empty behind a smaller one', tide.empty(n, o)) end\n"
         "  kept = {} collectgarbage() collectgarbage()\n"
         "end)\n";

/* Memory that was taken and given back without a tensor, as operations take their scratch memory. */
static const char raw[] =
    LOOK "if not places[3] then return end\n"
         "for _, n in ipairs(sizes) do\n"
         "  local p = tide.cuda.caching_allocator_alloc(4 * n)\n"
         "  tide.cuda.caching_allocator_delete(p)\n"
         "  look('empty after a raw piece', tide.empty(n, {device = 'cuda', dtype = tide.int32}))\n"
         "end\n";

/* Blocks of all sizes that are split and merged, on streams that come and go and in pools. */
static const char mixed[] =
    "local seed, live = 7, {}\n"
    "local function below(n) seed = (seed * 1103515245 + 12345) % 2147483648 return math.floor(seed / 8) % n + 1 end\n"
    "local streams, pools = {}, {}\n"
    "for k = 1, places[3] and 2 or 0 do streams[k], pools[k] = tide.cuda.Stream(), tide.cuda.MemPool() end\n"
    "local function step()\n"
    "  local p = places[below(#places)]\n"
    "  local n = below(below(3) == 1 and 600000 or below(3) == 1 and 40000 or 1500)\n"
    "  local x = tide.empty(n, {device = p.device, pin_memory = p.pin_memory, dtype = tide.int32})\n"
    "  for _, other in ipairs {0x5EC4E7, 1234567, 7654321} do\n"
    "    local read = other ~= mark and x:eq(other):sum():item() or 0\n"
    "    assert(read == 0, ('%d of %d elements of %s'):format(read, n, tostring(x.device)))\n"
    "  end\n"
    "  x:fill_(mark)\n"
    "  local k = below(40)\n"
    "  if live[k] then live[k]:free() end\n"
    "  live[k] = x\n"
    "end\n"
    "for i = 1, 400 do\n"
    "  local how = places[3] and below(4) or 1\n"
    "  if how == 2 then tide.cuda.stream(streams[below(2)], step)\n"
    "  elseif how == 3 then tide.cuda.use_mem_pool(pools[below(2)], step)\n"
    "  else step() end\n"
    "  local got = live[below(40)]\n"
    "  if got and places[3] then tide.cuda.synchronize() end\n"
    "  if got then assert(got:eq(mark):all():item(), 'a clearing meets what is in use') end\n"
    "  if i % 100 == 0 and places[3] then streams[below(2)] = tide.cuda.Stream() collectgarbage() end\n"
    "end\n";

/* What the threads of a block share is memory, too, which on a GPU any kernel may have written before, on the CPU the
 * same one: for another state, or for another block. */
static const char shares[] = "for _, p in ipairs {places[1], places[3]} do\n"
                             "  local y = tide.zeros(2560, {device = p.device, dtype = tide.int32})\n"
                             "  local k = tide.kernel(function(i, y)\n"
                             "    local s = tide.shared(tide.int32, 12000)\n"
                             "    for n = tide.thread(), 12000, 256 do s[n] = 77 end\n"
                             "    tide.barrier()\n"
                             "    y[i] = s[1]\n"
                             "  end, {types = {tide.int32}})\n"
                             "  k:wait()\n"
                             "  k(2560, y)\n"
                             "  assert(y:eq(77):all():item())\n"
                             "end\n";
#define SHARED(size)                                                                                                   \
  "for _, p in ipairs {places[1], places[3]} do\n"                                                                     \
  "  local y = tide.full(2560, 5, {device = p.device, dtype = tide.int32})\n"                                          \
  "  local k = tide.kernel(function(i, y)\n"                                                                           \
  "    local s, b, h = tide.shared(tide.int32, " size                                                                  \
  "), tide.shared(tide.bool, 99), tide.shared(tide.float16, 3, 99)\n"                                                  \
  "    local e, d = tide.shared(tide.bfloat16, 700), tide.shared(tide.float64, 7)\n"                                   \
  "    local sum = 0\n"                                                                                                \
  "    for n = 1, " size " do if s[n] ~= 0 then sum = sum + 1 end end\n"                                               \
  "    for n = 1, 99 do if b[n] or h[3][n] ~= 0 or e[n] ~= 0 then sum = sum + 1 end end\n"                             \
  "    for n = 1, 7 do if d[n] ~= 0 then sum = sum + 1 end end\n"                                                      \
  "    y[i] = sum\n"                                                                                                   \
  "    tide.barrier()\n"                                                                                               \
  "    for n = tide.thread(), " size ", 256 do s[n] = 77 end\n"                                                        \
  "    for n = 1, 99 do b[n], h[3][n], e[n], d[n % 7 + 1] = true, 1, 2, 3 end\n"                                       \
  "  end, {types = {tide.int32}})\n"                                                                                   \
  "  k:wait()\n"                                                                                                       \
  "  k(2560, y)\n"                                                                                                     \
  "  assert(y:eq(0):all():item(), 'in memory that a block shares')\n"                                                  \
  "end\n"
static const char shared[] = SHARED("9000");
static const char shared_interpreted[] = SHARED("8000");

/* The same state gets its own memory back as it is: it is cleared only when it changes its owner. */
static const char again[] __attribute__((unused)) =
    "for _, p in ipairs(places) do\n"
    "  local o = {device = p.device, pin_memory = p.pin_memory, dtype = tide.int32}\n"
    "  tide.empty(300000, o):free()\n"
    "  local before = tide.full(300000, 7, o) before:free()\n"
    "  local after = tide.empty(300000, o)\n"
    "  assert(after:eq(7):sum():item() > 299000, 'it is cleared for its own state')\n"
    "end\n";

/* Read without a replay, the memory that a capture has taken is clear; numbers are drawn anew by each replay. */
static const char unplayed[] = LOOK
    "if not places[3] then return end\n"
    "for _, n in ipairs(sizes) do\n"
    "  local g, out = tide.cuda.CUDAGraph(), nil\n"
    "  tide.cuda.graph(g, function()\n"
    "    local x = tide.empty(n, {device = 'cuda', dtype = tide.int32})\n"
    "    out = {x, x + 1, tide.empty(n, {device = 'cuda', dtype = tide.int32}), tide.rand(100, {device = 'cuda'})}\n"
    "  end)\n"
    "  look('empty in a capture', out[1]) look('add in a capture', out[2]) look('empty in a capture', out[3])\n"
    "  g:replay()\n"
    "  look('empty in a graph', out[1]) look('empty in a graph', out[3])\n"
    "  local drawn = out[4]:clone()\n"
    "  g:replay()\n"
    "  assert(not out[4]:equal(drawn), 'a replay draws the same numbers')\n"
    "  assert(out[2]:eq(1):all():item(), 'the graph computes something else')\n"
    "end\n";

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

/* more: capabilities beside waits, which a host may grant to a state that it does not trust with other states' data. */
static lua_State *state_with(bool is_trusted, uint32_t more) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (is_trusted) {
    luaL_requiref(L, "tide", opener, 0);
  } else {
    tide_lua_options o = {.struct_size = sizeof o, .capabilities = TIDE_LUA_WAITS | more, .open = opener};
    if (tide_lua_open(L, &o) != LUA_OK) exit(2);
  }
  lua_setglobal(L, "tide");
  return L;
}

static lua_State *state_new(bool is_trusted) { return state_with(is_trusted, 0); }

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
  run(second, leaves, "a script leaves");
  run(first, unplayed, "a graph that is not played");
  run(second, leaves, "a script leaves");
  run(first, tails, "behind smaller tensors");
  run(trusted, leaves, "a host's state leaves");
  run(second, tails, "behind smaller tensors");
  lua_pushinteger(first, 1234567), lua_setglobal(first, "mark");
  lua_pushinteger(second, 7654321), lua_setglobal(second, "mark");
  for (int i = 0; i < 3; i++) {
    run(first, mixed, "sizes, streams and pools");
    run(second, mixed, "sizes, streams and pools");
    run(trusted, leaves, "a host's state leaves");
    run(second, mixed, "sizes, streams and pools after the host's"); /* no other script had them in between */
    run(trusted, leaves, "a host's state leaves");
  }
  lua_State *raws = state_with(false, TIDE_LUA_POINTERS);
  run(first, leaves, "a script leaves");
  run(raws, raw, "after raw pieces");
  lua_close(raws);
  run(trusted, shares, "a host's kernel leaves");
  run(second, shared, "a kernel after a host's");
  run(first, shares, "a script's kernel leaves");
  run(first, shared, "a kernel after its own state's");
  run(second, shared, "a kernel after a script's");
  /* A compiler that starts meanwhile reads the environment. */
  run(trusted, "while tide.cuda.jiterator.cache_info().pending > 0 do os.execute 'sleep 0.01' end\n", "compilers end");
  setenv("TIDE_CXX", "/nonexistent", 1);
  run(second, shared_interpreted, "an interpreted kernel");
  run(first, leaves, "a script leaves");
  lua_close(first);
  lua_State *third = state_new(false);
  run(third, looks, "after a script that has ended");
#if !defined(__SANITIZE_ADDRESS__)
  run(trusted, "collectgarbage() collectgarbage() if places[3] then tide.cuda.empty_cache() end\n",
      "the host tidies up");
  if (!getenv("TIDE_ALLOC_CONF") && !getenv("TIDE_NO_CUDA_MEMORY_CACHING")) run(third, again, "a state's own");
#endif
  lua_close(second), lua_close(third), lua_close(trusted);
  return failed;
}
