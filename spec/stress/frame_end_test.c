/* frame_end_test.c: what fails, ends or is not there yet in the frames of a host: coroutines, devices, quotas, kernels
 * that are being compiled.
 *
 * usage: frame_end_test tide.so. Simulated devices stand in: two of them. */
#include "frames.h"
#include "tide/quota.h"

/* {==== What ends in a frame */

/* Coroutines of a script that die, are closed or are let go while they wait: the frame and the state go on. */
static void test_coroutines(void) {
  lua_State *L = open_state();
  run(L, "x = tide.ones(4, {device = 'cuda'}) tide.cuda.synchronize() closed = 0 "
         "function note() return setmetatable({}, {__close = function() closed = closed + 1 end}) end");
  begin(L, TIDE_FRAME_WAIT_YIELDS);
  works(L, "local co = coroutine.create(function() local t <close> = note() x:totable() end) "
           "local ok, e = coroutine.resume(co) assert(not ok and tostring(e):find 'script:1') coroutine.close(co) "
           "assert(closed == 1 and coroutine.status(co) == 'dead')");
  works(L, "tide.cuda._sleep(40000000) co = coroutine.create(function() local t <close> = note() tide.await(x) end) "
           "assert(coroutine.resume(co) and coroutine.status(co) == 'suspended') "
           "assert(coroutine.close(co) and closed == 2)");
  works(L, "for i = 1, 50 do coroutine.wrap(function() tide.await(x + i) end)() end collectgarbage()");
  CHECK(call(L, "local t <close> = note() tide.await(x) error 'at last'", 0) == LUA_YIELD, "it does not yield");
  end(L);
  int status = LUA_OK;
  for (int n = 0; status == LUA_OK && n < 100000; n++) {
    begin(L, TIDE_FRAME_WAIT_YIELDS);
    status = tide_frame_resume(L);
    if (status != LUA_OK) CHECK(strstr(luaL_tolstring(L, -1, NULL), "at last"), "%s", lua_tostring(L, -1));
    lua_settop(L, 0);
    end(L);
  }
  run(L, "assert(closed == 3, closed)");
  begin(L, TIDE_FRAME_WAIT_YIELDS);
  CHECK(tide_frame_resume(L) == LUA_OK, "a job that has ended is resumed");
  works(L, "assert((x + 1):sum() ~= nil)");
  end(L);
  lua_close(L);
}

/* Devices are not reset in a frame; where they are between two, who waits for them is told. */
static void test_reset(void) {
  lua_State *L = open_state();
  begin(L, TIDE_FRAME_WAIT_YIELDS);
  refused(L, "tide.cuda.device_reset()", "device_reset");
  works(L, "x = tide.ones(4, {device = 'cuda'})");
  CHECK(call(L, "tide.cuda._sleep(4000000000) value = tide.await(x)", 0) == LUA_YIELD, "it does not yield");
  CHECK(call(L, "tide.cuda._sleep(4000000000) value = x:totable()", 0) == LUA_YIELD, "it does not yield");
  end(L);
  run(L, "tide.cuda.device_reset()");
  begin(L, TIDE_FRAME_WAIT_YIELDS);
  for (int i = 0; i < 2; i++) {
    CHECK(tide_frame_resume(L) == LUA_ERRRUN, "a job waits for what is gone");
    lua_settop(L, 0);
  }
  CHECK(tide_frame_resume(L) == LUA_OK, "there are no more jobs");
  works(L, "assert(value == nil) y = tide.ones(4, {device = 'cuda'}) + 1");
  end(L);
  run(L, "assert(y[4]:item() == 2)");
  lua_close(L);
}

/* A machine without a GPU: the CPU's values are there at once, and what is missing is said. */
static void test_no_gpu(void) {
  setenv("TIDE_SIM_DEVICES", "0", 1), setenv("CUDA_VISIBLE_DEVICES", "", 1);
  lua_State *L = open_state();
  for (int mode = TIDE_FRAME_WAIT_RAISES; mode <= TIDE_FRAME_WAIT_YIELDS; mode++) {
    begin(L, (tide_frame_wait)mode);
    works(L, "assert(not tide.cuda.is_available())");
    works(L, "local x = tide.ones(3) assert(x:sum():item() == 3 and x:totable()[3] == 1 and #tostring(x) > 0)");
    works(L, "assert(tide.await(tide.ones(3):sum()) == 3 and tide.ones(3)[tide.ones(3):gt(0)]:numel() == 3)");
    works(L, "local ok, e = pcall(tide.ones, 3, {device = 'cuda'}) "
             "assert(not ok and (e.kind == 'LibraryError' or e.kind == 'DeviceError'), e)");
    end(L);
  }
  CHECK(frames(L, TIDE_FRAME_WAIT_YIELDS) == 1, "there are jobs");
  lua_close(L);
  setenv("TIDE_SIM_DEVICES", "2", 1), unsetenv("CUDA_VISIBLE_DEVICES");
}

static lua_State *open_limited(tide_quota_kind kind, int64_t limit) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  tide_lua_options o = {.struct_size = sizeof o, .capabilities = TIDE_LUA_ALL, .open = opener};
  o.quota[kind] = limit;
  if (tide_lua_open(L, &o) != LUA_OK) exit(2);
  lua_setglobal(L, "tide");
  return L;
}

/* Quotas count in frames as elsewhere, and a state that the host has ended stays ended. */
static void test_quotas(void) {
  static const struct {
    tide_quota_kind kind;
    int64_t limit;
    const char *text, *message;
  } cases[] = {
      {TIDE_QUOTA_LAUNCHES, 100, "local x = tide.ones(4, {device = 'cuda'}) for i = 1, 1000 do x:add_(1) end",
       "used up"},
      {TIDE_QUOTA_DEVICE_BYTES, 1 << 20, "return tide.ones(1 << 20, {device = 'cuda'})", "bytes on devices"},
      {TIDE_QUOTA_MICROSECONDS, 20000, "while true do end", "used up"},
      {TIDE_QUOTA_COMPILES, 1, /* also those of another thread, which it does not wait for */
       "local x = tide.ones(4, {device = 'cuda'}) for i = 1, 3 do pcall(tide.cuda.jiterator.create_jit_fn("
       "'template <typename T> T f(T x) { return x + ' .. i .. '; }'), x) end return x + 1",
       "compilations that the host allows are used up"},
  };
  setenv("TIDE_KERNEL_CACHE", "0", 1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    lua_State *L = open_limited(cases[i].kind, cases[i].limit);
    begin(L, TIDE_FRAME_WAIT_RAISES);
    refused(L, cases[i].text, cases[i].message);
    end(L);
    CHECK(tide_lua_quota_set(L, cases[i].kind, 1 << 24), "a new limit");
    begin(L, TIDE_FRAME_WAIT_RAISES);
    works(L, "x = tide.ones(4, {device = 'cuda'}) + 1");
    end(L);
    tide_lua_kill(tide_lua_get(L), L);
    begin(L, TIDE_FRAME_WAIT_RAISES);
    refused(L, "return x + 1", "the host has ended this work");
    end(L);
    lua_close(L);
  }
  unsetenv("TIDE_KERNEL_CACHE");
}

/* What a script does to the collector in a frame ends with the frame. */
static void test_collector(void) {
  lua_State *L = open_state();
  begin(L, TIDE_FRAME_WAIT_RAISES);
  works(L, "assert(not collectgarbage 'isrunning') collectgarbage 'stop' collectgarbage 'generational'");
  end(L);
  CHECK(lua_gc(L, LUA_GCISRUNNING), "it stands still after the frame");
  lua_gc(L, LUA_GCSTOP);
  begin(L, TIDE_FRAME_WAIT_RAISES);
  works(L, "collectgarbage 'restart'");
  end(L);
  run(L, "x = tide.ones(2, {device = 'cuda'}) * 3 tide.cuda.synchronize()"); /* a finaliser may not wait, either */
  begin(L, TIDE_FRAME_WAIT_RAISES);
  works(L, "setmetatable({}, {__gc = function() tide.cuda._sleep(1000000) ok, e = pcall(x.totable, x) end}) "
           "garbage = {} for i = 1, 10000 do garbage[i] = {} end garbage = nil");
  end(L);
  for (int i = 0; i < 1000 && (lua_getglobal(L, "e"), lua_isnil(L, -1)); i++) {
    lua_settop(L, 0);
    begin(L, TIDE_FRAME_WAIT_RAISES);
    works(L, "for i = 1, 1000 do local t = {} end");
    end(L);
  }
  CHECK(strstr(luaL_tolstring(L, -1, NULL), "frame"), "a finaliser has waited: %s", lua_tostring(L, -1));
  lua_close(L);
}

/* {==== Compilers */

/* Frames until a call of the text ends; returns how many it took. */
static int frames_until(lua_State *L, const char *text) {
  for (int n = 1; n < 100000; n++) {
    begin(L, TIDE_FRAME_WAIT_RAISES);
    int status = call(L, text, 0);
    bool waits =
        status > LUA_YIELD && strstr(luaL_tolstring(L, -1, NULL), "would make the host wait for a compiler at");
    CHECK(status == LUA_OK || waits, "%s: %s", text, lua_tostring(L, -1));
    lua_settop(L, 0);
    end(L);
    if (!waits) return n;
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  return -1;
}

/* A script that uses a kernel before it is compiled: that is begun in the background, and no frame stands still. */
static void test_compiling(void) {
  if (system("command -v c++ g++ clang++ >/dev/null") != 0) return;
  setenv("TIDE_KERNEL_CACHE", "0", 1);
  lua_State *L = open_state();
  run(L, "J = tide.cuda.jiterator x = tide.ones(4, {device = 'cuda', dtype = 'float64'}) "
         "function add(n) return J.create_jit_fn('template <typename T> T f(T x) { return x + ' .. n .. '; }') end "
         "text = [[extern \"C\" __global__ void k(double *x, double a) { x[threadIdx.x] *= a; }]] "
         "f, g, h = add(1), add(2), add 'nothing'");
  begin(L, TIDE_FRAME_WAIT_RAISES);
  refused(L, "f(x)", "would make the host wait for a compiler at script:1");
  works(L, "assert(J.ready(f, x) == false)");
  end(L);
  CHECK(frames_until(L, "y = f(x)") > 1, "it was compiled in a frame");
  run(L, "assert(y[1]:item() == 2) assert(J.ready(f, x))");
  int status = LUA_YIELD; /* what does not compile is told in a frame, too */
  for (int n = 0; status != LUA_OK && n < 100000; n++) {
    begin(L, TIDE_FRAME_WAIT_RAISES);
    status = call(L, "local ok, e = pcall(h, x) assert(e.message:find 'does not compile', e.message)", 0);
    lua_settop(L, 0);
    end(L);
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  }
  CHECK(status == LUA_OK, "the compiler's error is never told");
  begin(L, TIDE_FRAME_WAIT_YIELDS);
  CHECK(call(L, "y = g(x) z = tide.empty(0, {device = 'cuda', dtype = 'float64'}) g(x, {out = z})", 0) == LUA_YIELD,
        "it does not yield");
  refused(L, "coroutine.wrap(function() add(3)(x) end)()", "wait for a compiler"); /* its resumer is the script */
  end(L);
  run(L, "assert(not z)");
  CHECK(frames(L, TIDE_FRAME_WAIT_YIELDS) > 1, "it did not wait");
  run(L, "assert(y[1]:item() == 3 and z[1]:item() == 3)");
  begin(L, TIDE_FRAME_WAIT_RAISES); /* a raw kernel */
  works(L, "k = tide.cuda.compile_kernel(text, 'k') assert(not k:ready())");
  refused(L, "k({grid = 1, block = 4}, x, 5)", "would make the host wait for a compiler at script:1");
  end(L);
  CHECK(frames_until(L, "k({grid = 1, block = 4}, x, 5)") > 1, "it was compiled in a frame");
  run(L, "assert(x[4]:item() == 5 and k:ready())");
  begin(L, TIDE_FRAME_WAIT_YIELDS);
  CHECK(call(L, "tide.cuda.compile_kernel('#define B\\n' .. text, 'k'):bind({grid = 1, block = 4}, x, 3)()", 0) ==
            LUA_YIELD,
        "it does not yield");
  end(L);
  CHECK(frames(L, TIDE_FRAME_WAIT_YIELDS) > 1, "it did not wait");
  run(L, "assert(x[4]:item() == 15)");
  lua_close(L);
  unsetenv("TIDE_KERNEL_CACHE");
}

/* A body that is compiled as it is once the compiler has refused it as a function: each is compiled once. */
static void test_refused_body(void) {
  if (system("command -v c++ g++ clang++ >/dev/null") != 0) return;
  setenv("TIDE_KERNEL_CACHE", "0", 1);
  lua_State *L = open_limited(TIDE_QUOTA_COMPILES, 100);
  run(L, "x = tide.ones(4, {device = 'cuda', dtype = 'float64'})");
  begin(L, TIDE_FRAME_WAIT_RAISES);
  works(L, "k = tide.cuda.compile_kernel([[extern \"C\" __global__ void k(double *x, double a) {"
           " struct here { static unsigned me() { return threadIdx.x; } }; x[here::me()] *= a; }]], 'k')");
  end(L);
  CHECK(frames_until(L, "k({grid = 1, block = 4}, x, 5)") > 1, "it was compiled in a frame");
  run(L, "assert(x[4]:item() == 5)");
  int64_t used = tide_lua_quota_used(L, TIDE_QUOTA_COMPILES);
  CHECK(used == 2, "%lld compilations", (long long)used);
  lua_close(L);
  unsetenv("TIDE_KERNEL_CACHE");
}

/* Kernels written in Lua: no frame waits for their compiler: where waits raise the interpreter runs them until it is
 * done, where they yield the script goes on then. What one writes outside of a tensor is told where the script waits. A
 * second state has kernels of its own, of the same text. */
static void test_lua_kernels(void) {
  setenv("TIDE_KERNEL_CACHE", "0", 1);
  lua_State *L = open_state(), *second = open_state();
  const char *make = "two = 2 x = tide.ones(4, {device = 'cuda'}) "
                     "k = tide.kernel('function(i, x, n) x[i + n] = x[i] * two end') "
                     "r = tide.kernel('function(i, x) return x[i] + 1 end', {reduce = 'sum'})";
  tide_frame_wait waits[] = {TIDE_FRAME_WAIT_RAISES, TIDE_FRAME_WAIT_YIELDS};
  run(L, make), run(second, make);
  for (int n = 0; n < 2; n++) {
    run(L, "tide.cuda.synchronize() x:fill_(1)");
    if (n) run(L, "k:wait() r:wait()"), run(second, "k:wait()");
    begin(L, waits[n]);
    begin(second, waits[n]);
    works(L, "tide.cuda._sleep(40000000) k(4, x, 0) y = r(4, x) b = k:on(4, x, 0)");
    works(second, "tide.cuda._sleep(40000000) k(2, x, 2) coroutine.wrap(function() k(2, x, 2) error 'gone' end)");
    works(L, "two = 3 k(4, x, 0) b()"); /* a global is read at each call */
    end(second);
    end(L);
    run(L, "assert(x[3]:item() == 18 and y:item() == 12, tostring(x) .. tostring(y)) two = 2");
    run(second, "assert(x[4]:item() == 2, tostring(x))");
  }
  begin(L, TIDE_FRAME_WAIT_YIELDS);
  call(L, "z = tide.kernel('function(i, x) return x[i] - 1.5 end')(4, x)", 0);
  lua_settop(L, 0);
  end(L);
  CHECK(frames(L, TIDE_FRAME_WAIT_YIELDS) > 0, "it does not go on");
  run(L, "assert(z[3]:item() == 16.5)");
  begin(L, TIDE_FRAME_WAIT_RAISES);
  works(L, "k(4, x, 1)");
  end(L);
  run(L,
      "local ok, e = pcall(tide.cuda.synchronize) assert(not ok and e.message:find('kernel:1', 1, true), e.message)");
  lua_close(second);
  run(L, "x:fill_(1) k(4, x, 0) assert(x[1]:item() == 2)");
  lua_close(L);
  unsetenv("TIDE_KERNEL_CACHE");
}

/* Fused functions: no frame waits for a kernel; one that is noted while a coroutine dies is noted again, and a second
 * state has functions of its own. */
static void test_fused(void) {
  setenv("TIDE_KERNEL_CACHE", "0", 1);
  lua_State *L = open_state(), *second = open_state();
  const char *make = "x = tide.ones(40000, {device = 'cuda'}) one = x:narrow(1, 1, 1) "
                     "f = tide.fuse(function(a, b) return (a * b + 1):relu(), (a - b):sum(), (a * 2):var() end) "
                     "g = tide.fuse(function(a) coroutine.yield() return a * 3 end) warn '@off' "
                     "n = tide.fuse(function(a, t) local b = a * t + 1 if t == 4 then coroutine.yield(b) end "
                     "if t == 5 then error 'five' end return b - t end)";
  tide_frame_wait waits[] = {TIDE_FRAME_WAIT_RAISES, TIDE_FRAME_WAIT_YIELDS};
  run(L, make), run(second, make);
  for (int n = 0; n < 2; n++) {
    run(L, "tide.cuda.synchronize()");
    if (n) run(L, "f:wait()");
    begin(L, waits[n]);
    begin(second, waits[n]);
    works(L, "tide.cuda._sleep(40000000) for i = 1, 3 do y, s, v = f(x, x) end");
    works(second, "tide.cuda._sleep(40000000) co = coroutine.create(function(a) return g(a) end) "
                  "coroutine.resume(co, x) co = nil collectgarbage() coroutine.wrap(function() pcall(f, x, 3) end)() "
                  "for i = 1, 3 do y, s, v = f(x, x) end");
    works(second, "for t = 1, 3 do q = n(x, t) end co = coroutine.create(function(a) return n(a, 4) end) "
                  "_, b = coroutine.resume(co, x) co = nil collectgarbage() "
                  "coroutine.resume(coroutine.create(function() n(x, 5) end)) q = n(x, 6)");
    works(L, "h = tide.fuse(function(a) return (a + 1):sum(-1) end) for i = 1, 3 do z = h(x) end");
    end(second);
    end(L);
    const char *test = "assert(y[40000]:item() == 2 and s:item() == 0 and v:item() == 0)";
    run(second, "assert(q[40000]:item() == 1 and b[7]:item() == 5)");
    run(L, test), run(second, test), run(L, "assert(z:item() == 80000)");
  }
  lua_close(second);
  run(L, "assert((f(x, x))[1]:item() == 2 and f:wait():kernels()[1].ready)");
  lua_close(L);
  unsetenv("TIDE_KERNEL_CACHE");
}

int main(int argc, char **argv) {
  void *keep = open_module(argc, argv);
  test_coroutines();
  test_reset();
  test_no_gpu();
  test_quotas();
  test_collector();
  test_compiling();
  test_refused_body();
  test_lua_kernels();
  test_fused();
  dlclose(keep);
  printf("%s\n", failed ? "FAILED" : "ok");
  return failed;
}
