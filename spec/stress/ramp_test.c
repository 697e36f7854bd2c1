/* ramp_test.c: every form of every scoped block while memory fails: the first allocation, the second, and so on until
 * the block runs through; once Lua's allocations, once those of tide. Whatever fails, the block is left, nothing that
 * it set is in force, and at the end nothing is lost (which the address sanitizer's tree sees).
 *
 * Linked to the objects of tide and of its bindings, whose calls of malloc come here (--wrap). Only this thread's
 * count: those of simulated devices are not what fails. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tide/debug.h"
#include "tide/device.h"
#include "tide/graph.h"
#include "tide/history.h"
#include "tide/memory.h"
#include "tide/profiler.h"
#include "tide/tide.h"

int luaopen_tide(lua_State *L);

/* ---- memory that fails ---- */

typedef struct failing {
  long countdown; /* allocations that succeed before; negative: all do */
  bool for_good;  /* not that one alone, but all after it as well */
  bool happened;
} failing;
static failing in_lua = {-1, false, false};
static _Thread_local failing in_tide = {-1, false, false};

static bool fails(failing *f) {
  if (f->countdown < 0) return false;
  if (f->countdown > 0 && f->countdown--) return false;
  if (!f->for_good) f->countdown = -1;
  return f->happened = true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
char *__wrap_strdup(const char *text);
void *__wrap_malloc(size_t size) { return fails(&in_tide) ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t n, size_t size) { return fails(&in_tide) ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *ptr, size_t size) { return fails(&in_tide) ? NULL : __real_realloc(ptr, size); }
char *__wrap_strdup(const char *text) { return fails(&in_tide) ? NULL : __real_strdup(text); }

static lua_State *state;

/* Lua drops a finaliser that it has no memory to call, and what it would have freed is lost, in any program: so nothing
 * fails while one runs, which the collector says by not answering. */
static bool finalises(void) { return state && lua_gc(state, LUA_GCCOUNT) < 0; }

static void *allocate(void *user, void *ptr, size_t old, size_t size) {
  (void)user;
  if (!size) {
    free(ptr);
    return NULL;
  }
  if ((!ptr || size > old) && in_lua.countdown >= 0 && !finalises() && fails(&in_lua)) return NULL;
  return __real_realloc(ptr, size);
}

/* ---- the blocks ---- */

static const char script[] =
    "local tide = tide\n"
    "local cuda = tide.cuda\n"
    "local side, pool, graph = cuda.Stream(1), cuda.MemPool(), cuda.CUDAGraph()\n"
    "local x, path, dev = tide.ones(4, { device = 'cuda' }), os.tmpname(), { device = 'cuda' }\n"
    "local silent, host, long = function() end, tide.ones(4), tide.ones(17000, dev)\n"
    "forms = {\n"
    "  { 'tide.scope', tide.scope },\n"
    "  { 'device_scope', tide.device_scope, 'cuda' },\n"
    "  { 'fork_rng', tide.random.fork_rng },\n"
    "  { 'cuda.device', cuda.device, 1 },\n"
    "  { 'cuda.device_of', cuda.device_of, x },\n"
    "  { 'cuda.stream', cuda.stream, side },\n"
    "  { 'Stream:use', side.use, side },\n"
    "  { 'sync_debug_mode', cuda.sync_debug_mode, 'error' },\n"
    "  { 'caching_allocator_disabled', cuda.caching_allocator_disabled },\n"
    "  { 'use_mem_pool', cuda.use_mem_pool, pool },\n"
    "  { 'memory.scope', cuda.memory.scope, 'label' },\n"
    "  { 'nvtx.range', cuda.nvtx.range, 'range' },\n"
    "  { 'graph', function(_, fn) graph:reset() return cuda.graph(graph, fn) end, 0 },\n"
    "  { 'profiler.profile', cuda.profiler.profile },\n"
    "  { 'profiler.trace', function(fn) return cuda.profiler.trace(fn, path) end, closure = true },\n"
    "  { 'profiler.summary', function(fn)\n"
    "    local shown = print\n"
    "    print = silent\n"
    "    local ok, e = pcall(cuda.profiler.summary, fn)\n"
    "    print = shown\n"
    "    assert(ok, e)\n"
    "  end, closure = true },\n"
    "  { 'parallel.apply', function(fn) tide.parallel.apply(fn, { {}, {} }) end, closure = true },\n"
    "  { 'from_ptr', function(fn)\n" /* so many owners that the table of them has to grow */
    "    local list = {}\n"
    "    for i = 1, 70 do list[i] = tide.from_ptr(host:data_ptr(), { 4 }, { owner = host }) end\n"
    "    fn()\n"
    "  end, closure = true },\n"
    "  { 'fuse', function(fn)\n" /* noted, run, and rows that are done in parts */
    "    local f = tide.fuse(function(y) fn() return (y * 2 + 1):relu(), (y - 1):sum() end)\n"
    "    for i = 1, 2 do f(x) f(long) end\n"
    "  end, closure = true },\n"
    "  { 'fuse, numbers', function(fn)\n" /* followed, and left where it does something else */
    "    local f = tide.fuse(function(y, t)\n"
    "      y:add_(t)\n"
    "      local z = (y * t + 1):relu()\n"
    "      if t == 3 then fn() return z, z:clone() end\n"
    "      return z:sum(), { z * t }\n"
    "    end)\n"
    "    local g = tide.fuse(function(y, t) return ((y * t + 1):flip { 1 } * t - 1):relu() end)\n"
    "    for i = 1, 4 do f(x, i) f(long, i) g(x, i) end\n"
    "  end, closure = true },\n"
    "  { 'data_parallel', function(fn)\n"
    "    tide.parallel.data_parallel(function(y) fn() return y end, x)\n"
    "  end, closure = true },\n"
    "}\n"
    "local function body(...)\n"
    "  coroutine.wrap(cuda.current_device)()\n" /* another one is bound when the block is left */
    "  local y = x + 1\n"
    "  return y\n"
    "end\n"
    "local function call(form, fn)\n"
    "  local block, arg = form[2], form[3]\n"
    "  if arg == nil then return block(fn) end\n"
    "  return block(arg, fn)\n"
    "end\n"
    "variants = { 'closure', 'object', 'coroutine', 'error', 'yield' }\n"
    "function run(i, variant)\n"
    "  local form = forms[i]\n"
    "  if variant == 'object' then\n"
    "    if form.closure then return end\n"
    "    local block <close> = call(form)\n"
    "    body()\n"
    "    return\n"
    "  elseif variant == 'closure' then\n"
    "    call(form, body)\n"
    "  else\n"
    "    local co = coroutine.create(function()\n"
    "      call(form, function()\n"
    "        if variant == 'yield' then coroutine.yield() end\n"
    "        body()\n"
    "        if variant == 'error' then error 'inside' end\n"
    "      end)\n"
    "    end)\n"
    "    local ok, e = coroutine.resume(co)\n"
    "    if ok and variant == 'yield' then ok, e = coroutine.resume(co) end\n"
    "    if not ok and not (type(e) == 'string' and e:find 'inside') then error(e) end\n"
    "  end\n"
    "end\n"
    "function finish() os.remove(path) end\n";

static int failed;

static void check(bool holds, const char *what, const char *form, const char *variant, const char *where, long k) {
  if (holds) return;
  printf("ramp_test: %s, %s, %s allocation %ld: %s\n", form, variant, where, k, what);
  failed = 1;
}

/* Nothing that a block sets is in force, before Lua runs again. */
static void check_left(const char *form, const char *variant, const char *where, long k) {
  tide_stream *stream = NULL;
  tide_mempool *pool = NULL;
#define CHECK(holds, what) check(holds, what, form, variant, where, k)
  CHECK(tide_sync_debug_get() == TIDE_SYNC_DEFAULT, "the mode is in force");
  CHECK(tide_allocator_get_caching(), "nothing is cached");
  CHECK(tide_default_device() == TIDE_CPU, "the default device is in force");
  CHECK(!tide_current_is_capturing() && !tide_thread_is_capturing(), "the capture goes on");
  CHECK(tide_current_device() == 0, "the device is selected");
  for (int d = 0; d < 2; d++) CHECK(!tide_current_selected(d), "the stream is selected");
  CHECK(tide_current_stream(&stream, 0) == TIDE_OK, "no stream");
  CHECK(tide_current_pool(&pool, 0) == TIDE_OK && !pool, "the pool is in force");
  CHECK(!tide_current_allocation_scope(), "the label is in force");
  CHECK(tide_nvtx_range_push("depth") == 0, "the range is open");
  tide_nvtx_range_pop();
  CHECK(tide_device_synchronize(0) == TIDE_OK, "the host cannot wait");
#undef CHECK
  tide_sync_debug_set(TIDE_SYNC_DEFAULT);
}

/* Runs one form with failures at every place of `f`; the number of them. */
static long ramp(lua_State *L, int i, const char *form, const char *variant, failing *f, const char *where, bool good) {
  long k = 0;
  for (bool done = false; !done; k++) {
    lua_settop(L, 0);
    lua_gc(L, LUA_GCCOLLECT);
    lua_getglobal(L, "run");
    lua_pushinteger(L, i);
    lua_pushstring(L, variant);
    *f = (failing){k, good, false};
    int status = lua_pcall(L, 2, 0, 0);
    f->countdown = -1;
    if (!f->happened && status != LUA_OK) check(false, luaL_tolstring(L, -1, NULL), form, variant, where, k);
    check_left(form, variant, where, k);
    done = !f->happened || k > 20000;
  }
  return k;
}

static void all_ramps(lua_State *L) {
  lua_getglobal(L, "forms");
  int forms = (int)lua_rawlen(L, -1);
  static const char *const variants[] = {"closure", "object", "coroutine", "error", "yield"};
  long total = 0;
  for (int i = 1; i <= forms; i++) {
    lua_settop(L, 0);
    lua_getglobal(L, "forms");
    lua_rawgeti(L, -1, i);
    lua_rawgeti(L, -1, 1);
    char form[64];
    snprintf(form, sizeof form, "%s", lua_tostring(L, -1));
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
      /* For good first: where Lua asks once more after a collection it succeeds, and what has grown stays so. */
      for (int good = 1; good >= 0; good--) {
        total += ramp(L, i, form, variants[v], &in_lua, good ? "from Lua's" : "Lua's", good);
        total += ramp(L, i, form, variants[v], &in_tide, good ? "from tide's" : "tide's", good);
      }
    }
  }
  printf("ramp_test: %ld failures\n", total);
}

/* Opening, where the kth allocation of Lua's or tide's fails: a second require opens the module all the same. */
static bool open_again(failing *f, long k) {
  lua_State *L = lua_newstate(allocate, NULL);
  if (!L) exit(2);
  state = L;
  luaL_openlibs(L);
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  lua_pushcfunction(L, luaopen_tide);
  lua_setfield(L, -2, "tide");
  lua_getglobal(L, "require");
  lua_pushstring(L, "tide");
  *f = (failing){k, false, false};
  int status = lua_pcall(L, 1, 0, 0);
  bool happened = f->happened;
  f->countdown = -1;
  if (status != LUA_OK) lua_pop(L, 1);
  lua_settop(L, 2);
  if (luaL_dostring(L, "local tide = require 'tide' assert(tide.ones(3):sum():item() == 3)") != LUA_OK) {
    printf("ramp_test: opening again after failure %ld: %s\n", k, luaL_tolstring(L, -1, NULL));
    failed = 1;
  }
  state = NULL;
  lua_close(L);
  if (tide_device_init() == TIDE_OK) {
    printf("ramp_test: after failure %ld tide goes on without a state\n", k);
    failed = 1;
    tide_shutdown();
  }
  return happened;
}

/* Not at every place: most are a table's next entry. */
static void open_ramp(failing *f) {
  for (long k = 0; open_again(f, k); k += k < 60 ? 1 : 37) {}
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  setenv("TIDE_SIM_DEVICES", "2", 1);
  open_ramp(&in_lua);
  open_ramp(&in_tide);
  lua_State *L = lua_newstate(allocate, NULL);
  if (!L) return 2;
  state = L;
  luaL_openlibs(L);
  luaL_requiref(L, "tide", luaopen_tide, 1);
  lua_settop(L, 0);
  if (luaL_dostring(L, script) != LUA_OK) {
    printf("ramp_test: %s\n", luaL_tolstring(L, -1, NULL));
    return 1;
  }
  all_ramps(L);
  lua_settop(L, 0);
  lua_getglobal(L, "finish");
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) failed = 1;
  state = NULL;
  lua_close(L);
  tide_shutdown();
  printf("ramp_test: %s\n", failed ? "failed" : "passed");
  return failed;
}
