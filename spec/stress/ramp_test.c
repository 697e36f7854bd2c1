/* ramp_test.c: every form of every scoped block, and calls of each room, while memory fails: the first allocation, the
 * second, and so on until the block runs through; once Lua's allocations, once those of tide. Whatever fails, the block
 * is left, nothing that it set is in force, and at the end nothing is lost (which the address sanitizer's tree sees).
 * A call says that it has no memory, no tensor of its own is alive afterwards, and it gives the same values once it
 * has.
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

/* ---- calls of each room ---- */

static const char calls_script[] =
    "local tide = tide\n"
    "local cuda, D = tide.cuda, { device = 'cuda' }\n"
    "tide.manual_seed(1)\n"
    "local x = tide.arange(1, 25, D):to('float32'):reshape { 4, 6 }\n"
    "local h = tide.arange(1, 25):to('float32'):reshape { 4, 6 }\n"
    "local m = tide.tensor({ { 4., 1., 0. }, { 1., 3., 1. }, { 0., 1., 2. } })\n"
    "local i, file, other = tide.tensor({ 1, 3, 2 }, D), os.tmpname(), os.tmpname()\n"
    "local side, text = cuda.Stream(), 'a,b\\n1,2\\n3,\\n'\n"
    "do local f = assert(io.open(other, 'w')) f:write(text) f:close() end\n"
    "calls = {\n"
    "  { 'empty', function() return tide.zeros({ 3, 4 }, D) end },\n"
    "  { 'tensor', function() return tide.tensor({ { 1, 2 }, { 3, 4 } }, D) end },\n"
    "  { 'views', function() return x:t():unsqueeze(1):expand { 2, 6, 4 }:select(1, 1)[{ {2, 4}, {1, 3} }] end },\n"
    "  { 'operation', function() return (x * 2 + 1):sqrt() end },\n"
    "  { 'broadcast', function() return x + x[1] end },\n"
    "  { 'result', function() local y = x:clone() tide.add(x, 1, { out = y }) return y end },\n"
    "  { 'reduce', function() return x:sum(1), x:max(2) end },\n"
    "  { 'statistics', function() return x:std(), x:median(1), x:quantile(0.3) end },\n"
    "  { 'scan', function() return x:cumsum(2) end },\n"
    "  { 'sort', function() return x:flip { 2 }:sort(2) end },\n"
    "  { 'topk', function() return x:topk(2, 2) end },\n"
    "  { 'unique', function() return (x % 5):flatten():unique() end },\n"
    "  { 'gather', function() return x:index_select(1, i), x[i], x:take(i) end },\n"
    "  { 'mask', function() return x[x:gt(7)] end },\n"
    "  { 'scatter', function() return x:clone():index_add_(1, i, x[{ {1, 3} }]), x:clone():index_fill_(2, i, 9) end "
    "},\n"
    "  { 'put', function() local y = x:clone() y[{ {2, 3}, 4 }] = 5 y[i] = 1 return y end },\n"
    "  { 'cat', function() return tide.cat({ x, x }, 2), tide.stack { x, x } end },\n"
    "  { 'matmul', function() return x:matmul(x:t()) end },\n"
    "  { 'einsum', function() return tide.einsum('ij,kj->ik', x, x) end },\n"
    "  { 'linalg', function() return tide.linalg.solve(m, m[1]), tide.linalg.eigh(m), tide.linalg.svdvals(m) end "
    "},\n"
    "  { 'fft', function() return tide.fft.rfft(x, 5, 2):abs(), tide.fft.ifft2(x):abs() end },\n"
    "  { 'conv', function() return tide.conv2d(x:reshape { 1, 1, 4, 6 }, tide.ones({ 1, 1, 2, 2 }, D)) end },\n"
    "  { 'random', function() return tide.rand(5, { generator = tide.Generator('cuda'):manual_seed(3), device = 'cuda' "
    "}) end },\n"
    "  { 'permutation', function() return tide.randperm(9, { generator = tide.Generator('cpu'):manual_seed(3) }) end "
    "},\n"
    "  { 'copy', function() return x:cpu(), h:to('cuda', { non_blocking = true }), h:pin_memory() end },\n"
    "  { 'values', function() return tide.tensor(x:totable()), x[1][2]:item() end },\n"
    "  { 'text', function() return tostring(x) end },\n"
    "  { 'stream', function() local s = cuda.Stream() local y s:use(function() y = x + 1 end) s:synchronize() return y "
    "end },\n"
    "  { 'event', function()\n"
    "    local e = cuda.Event { enable_timing = true } e:record() side:wait_event(e) e:synchronize() return e:query()\n"
    "  end },\n"
    "  { 'record_stream', function() local y = x + 1 y:record_stream(side) y = nil return x end },\n"
    "  { 'graph', function()\n"
    "    local g, y = cuda.CUDAGraph(), nil cuda.graph(g, function() y = x * 3 + 1 end) g:replay() return y:clone()\n"
    "  end },\n"
    "  { 'graphed', function() return cuda.make_graphed_callables(function(y) return y * 2 end, { x })(x):clone() end "
    "},\n"
    "  { 'pool', function() local p, y = cuda.MemPool(), nil cuda.use_mem_pool(p, function() y = x + 2 end) return "
    "y:clone() end },\n"
    "  { 'history', function()\n"
    "    cuda.memory.record_history() local y = x + 1 local s = cuda.memory.snapshot()\n"
    "    cuda.memory.record_history(false) return y, #s.segments > 0\n"
    "  end },\n"
    "  { 'summary', function() return #cuda.memory_summary() > 100 end },\n"
    "  { 'npy', function() tide.save(file, x) return tide.load(file) end },\n"
    "  { 'safetensors', function()\n"
    "    tide.save_safetensors(file, { a = x, b = h }) local t = tide.load_safetensors(file) return t.a, t.b\n"
    "  end },\n"
    "  { 'npz', function() tide.save_npz(file, { a = x, b = h }) local t = tide.load_npz(file) return t.a, t.b end },\n"
    "  { 'png', function() tide.save_png(file, (x * 9):to('uint8')) return tide.load_png(file) end },\n"
    "  { 'csv', function() return (tide.load_csv(other, { header = true, missing = 0 })) end },\n"
    "  { 'serialize', function() return tide.deserialize(tide.serialize { x, 'a', { h } })[1] end },\n"
    "  { 'kernel', function() return tide.kernel(function(k, y) return y[1][k] * 2 end)(6, x) end },\n"
    "  { 'kernel on the CPU', function() return tide.kernel(function(k, y) return y[1][k] * 2 end)(6, h) end },\n"
    "  { 'fuse', function() local f = tide.fuse(function(y) return (y * 2 + 1):sum(2) end) return f(x), f(h) end },\n"
    "  { 'broadcast of GPUs', function() local l = cuda.comm.broadcast(x, { 0, 1 }) return l[1], l[2] end },\n"
    "  { 'scatter of GPUs', function() return cuda.comm.gather(cuda.comm.scatter(x, { 0, 1 }), 1) end },\n"
    "  { 'reduce of GPUs', function() return cuda.comm.reduce_add({ x, x:to('cuda:1') }, 0) end },\n"
    "  { 'nccl', function() local a, b = x:clone(), x:to('cuda:1') cuda.nccl.all_reduce { a, b } return a, b end },\n"
    "  { 'properties', function() return cuda.get_device_properties(0).name end },\n"
    "}\n"
    "local function flat(out, v)\n"
    "  if tide.is_tensor(v) then out[#out + 1] = table.concat(v:cpu():flatten():totable(), ' ') else out[#out + 1] = "
    "tostring(v) end\n"
    "end\n"
    "local function text_of(...)\n"
    "  local out = {}\n"
    "  for k = 1, select('#', ...) do flat(out, (select(k, ...))) end\n"
    "  return table.concat(out, '|')\n"
    "end\n"
    "function call(k) return text_of(calls[k][2]()) end\n"
    "function alive()\n"
    "  cuda.memory.record_history(false)\n"
    "  collectgarbage() collectgarbage() cuda.ipc_collect() cuda.synchronize(0) cuda.synchronize(1)\n"
    "  return cuda.memory_allocated(0) + cuda.memory_allocated(1)\n"
    "end\n"
    "function removed() os.remove(file) os.remove(other) end\n";

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

/* What the call with this number gives as a text, which the caller frees; NULL: an error is on the stack. */
static char *values_of(lua_State *L, int k) {
  lua_settop(L, 0);
  lua_getglobal(L, "call");
  lua_pushinteger(L, k);
  int status = lua_pcall(L, 1, 1, 0);
  in_tide.countdown = -1;
  return status == LUA_OK ? strdup(lua_tostring(L, -1)) : NULL;
}

static long long alive(lua_State *L) {
  lua_getglobal(L, "alive");
  lua_call(L, 0, 1);
  long long n = (long long)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

static void ramp_call(lua_State *L, int k, const char *name, bool good) {
  static const char where[] = "tide's";
  char *expected = values_of(L, k);
  check(expected, expected ? "" : luaL_tolstring(L, -1, NULL), name, "call", where, -1);
  const long long before = alive(L);
  long n = 0;
  for (bool done = !expected; !done; n++) {
    in_tide = (failing){n, good, false};
    char *got = values_of(L, k);
    const char *e = got ? NULL : luaL_tolstring(L, -1, NULL);
    if (e) check(in_tide.happened && strstr(e, "memory"), e, name, "call", where, n);
    if (got) check(!strcmp(got, expected), got, name, "call", where, n);
    free(got);
    check_left(name, "call", where, n);
    done = !in_tide.happened || n > 3000;
  }
  char *again = values_of(L, k);
  check(again && expected && !strcmp(again, expected), "other values afterwards", name, "call", where, n);
  free(again), free(expected);
  check(alive(L) == before, "memory of a device is still counted", name, "call", where, n);
}

static void all_calls(lua_State *L) {
  lua_getglobal(L, "calls");
  int n = (int)lua_rawlen(L, -1);
  for (int k = 1; k <= n; k++) {
    lua_settop(L, 0);
    lua_getglobal(L, "calls");
    lua_rawgeti(L, -1, k);
    lua_rawgeti(L, -1, 1);
    char name[64];
    snprintf(name, sizeof name, "%s", lua_tostring(L, -1));
    for (int good = 0; good < 2; good++) ramp_call(L, k, name, good);
  }
  lua_settop(L, 0);
  lua_getglobal(L, "removed");
  lua_call(L, 0, 0);
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
  if (luaL_dostring(L, script) != LUA_OK || luaL_dostring(L, calls_script) != LUA_OK) {
    printf("ramp_test: %s\n", luaL_tolstring(L, -1, NULL));
    return 1;
  }
  all_calls(L);
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
