/* host_test.c: what a host does around its scripts: it binds devices of its own, moves a Lua state to another thread,
 * closes one there, runs out of memory on a thread that a state has left, and resumes coroutines that die.
 *
 * usage: host_test tide.so      Simulated devices stand in: two of them. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"
#include "tide/debug.h"
#include "tide/graph.h"
#include "tide/memory.h"
#include "tide/tide.h"
#include "tide_lua.h"

static void run(lua_State *L, const char *text) {
  if (luaL_dostring(L, text) == LUA_OK) return;
  printf("host_test: %s\n", luaL_tolstring(L, -1, NULL));
  lua_pop(L, 2);
  failed = 1;
}

static lua_State *open_state(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_getglobal(L, "package");
  lua_pushstring(L, module);
  lua_setfield(L, -2, "cpath");
  lua_pop(L, 1);
  run(L, "tide = require 'tide'; cuda = tide.cuda");
  return L;
}

static void on_thread(void *(*fn)(void *), lua_State *L) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, fn, L)) exit(2);
  pthread_join(thread, NULL);
}

static void check(int holds, const char *what) {
  if (!holds) printf("host_test: %s\n", what);
  failed |= !holds;
}

/* The first ones of the process, all at once. */
static void *open_and_close(void *unused) {
  (void)unused;
  lua_State *L = open_state();
  run(L, "assert(tide.help 'matmul':find('x:matmul', 1, true))");
  lua_close(L);
  return NULL;
}

static void test_openings(void) {
  enum { THREADS = 6 };
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, open_and_close, NULL)) exit(2);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static int host_work(lua_State *L) {
  (void)L;
  TIDE(tide_current_bind)(NULL);
  TIDE(tide_current_set_device)(0);
  return 0;
}

static void test_bind(lua_State *L) {
  lua_register(L, "host", host_work);
  run(L, "cuda.set_device(1); side = cuda.Stream(); cuda.set_stream(side)");
  host_work(L);
  run(L, "assert(cuda.current_device() == 1 and cuda.current_stream() == side)");
  TIDE(tide_current_bind)(NULL);
  check(TIDE(tide_current_device)() == 0, "the host's device is not its own");
  run(L, "cuda.set_device(0); cuda.device(1, function() host(); assert(cuda.current_device() == 1) end)");
}

/* Nothing has called tide from Lua since: what the host finds must be right at once. */
static void check_resumed(lua_State *co, lua_State *from) {
  int n;
  check(luaL_loadstring(co, "cuda.sync_debug_mode('error', function()\n"
                            "  cuda.caching_allocator_disabled(function()\n"
                            "    cuda.graph(cuda.CUDAGraph(), function() error 'inside' end)\n"
                            "  end)\n"
                            "end)") == LUA_OK,
        "no script");
  check(lua_resume(co, from, 0, &n) == LUA_ERRRUN, "a coroutine has not died");
  check(TIDE(tide_sync_debug_get)() == TIDE_SYNC_DEFAULT, "a dead coroutine's mode is in force");
  check(TIDE(tide_allocator_get_caching)(), "a dead coroutine's allocations are not cached");
  check(!TIDE(tide_current_is_capturing)(), "a dead coroutine's graph is captured");
  check(TIDE(tide_device_synchronize)(0) == TIDE_OK, "a dead coroutine keeps the host from waiting");
}

static void test_resumed(lua_State *L) {
  check_resumed(lua_newthread(L), L);
  lua_pop(L, 1);
  lua_State *own = open_state(); /* a host may resume the main coroutine, too */
  check_resumed(own, NULL);
  lua_close(own);
}

static void *start(void *L) {
  run(L, "co = coroutine.create(function() local s = tide.scope(); coroutine.yield(); s:close() end)\n"
         "assert(coroutine.resume(co))");
  return NULL;
}

static void *resume(void *L) {
  run(L, "assert(coroutine.resume(co))");
  return NULL;
}

static void test_moved(lua_State *L) {
  on_thread(start, L);
  run(L, "x = tide.ones(3)");
  on_thread(resume, L);
  run(L, "assert(x:sum():item() == 3)");
}

static pthread_barrier_t barrier;
static int finalisers;

static int finalise(lua_State *L) {
  (void)L;
  finalisers++;
  return 0;
}

/* Inside the state on the thread that it has moved to, while the one that it has left runs out of memory. */
static int inside(lua_State *L) {
  (void)L;
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  check(finalisers == 0, "another thread has collected a state's garbage in the middle of its work");
  return 0;
}

static void *use(void *L) {
  run(L, "cuda.current_device(); do local a = setmetatable({}, { __gc = finalise }) end inside()");
  run(L, "cuda.current_device()");
  check(finalisers == 1, "a state that was asked to collect has not done so at its next call");
  return NULL;
}

static void test_memory(void) {
  pthread_t thread;
  tide_tensor *x = NULL;
  int64_t n = (int64_t)1 << 40;
  tide_options options = {TIDE_FLOAT32, 0, false};
  lua_State *L = open_state();
  lua_register(L, "finalise", finalise);
  lua_register(L, "inside", inside);
  lua_gc(L, LUA_GCSTOP);
  pthread_barrier_init(&barrier, NULL, 2);
  if (pthread_create(&thread, NULL, use, L)) exit(2);
  pthread_barrier_wait(&barrier);
  check(TIDE(tide_full)(&x, &n, 1, tide_float(1), &options) != TIDE_OK, "4 TiB fit");
  pthread_barrier_wait(&barrier);
  pthread_join(thread, NULL);
  lua_close(L);
}

/* The state on the other thread makes garbage, then goes on calling until it is told to end. */
static atomic_int made, ends;

static int has_made(lua_State *L) {
  (void)L;
  atomic_store(&made, 1);
  return 0;
}

static int is_over(lua_State *L) {
  lua_pushboolean(L, atomic_load(&ends));
  return 1;
}

static void *make_garbage(void *L) {
  run(L, "collectgarbage 'stop'\n"
         "for i = 1, 3 do tide.empty(14 << 20, { device = 'cuda', dtype = tide.uint8 }) end\n"
         "has_made()\n"
         "while not is_over() do\n"
         "  for i = 1, 100000 do end\n"
         "  cuda.current_device()\n"
         "end");
  return NULL;
}

static bool fits(int64_t n) {
  tide_tensor *x = NULL;
  tide_options options = {TIDE_UINT8, 0, false};
  bool does = TIDE(tide_empty)(&x, &n, 1, &options) == TIDE_OK;
  TIDE(tide_tensor_release)(x);
  return does;
}

static void test_answer(tide_lua_gc mode, bool expected, const char *what) {
  pthread_t thread;
  lua_State *L = open_state();
  lua_register(L, "has_made", has_made);
  lua_register(L, "is_over", is_over);
  check(tide_lua_gc_set(L, mode) == 1, "the collector's mode was refused");
  check(tide_lua_gc_set(L, (tide_lua_gc)77) == 0, "an unknown mode was taken");
  atomic_store(&made, 0), atomic_store(&ends, 0);
  if (pthread_create(&thread, NULL, make_garbage, L)) exit(2);
  while (!atomic_load(&made)) sched_yield();
  check(fits(40 << 20) == expected, what);
  atomic_store(&ends, 1);
  pthread_join(thread, NULL);
  lua_close(L);
}

static void *end(void *L) {
  lua_close(L);
  return NULL;
}

static void test_closed(void) {
  tide_tensor *x = NULL;
  int64_t n = 1000;
  tide_options options = {TIDE_FLOAT32, 0, false};
  lua_State *L = open_state();
  run(L, "cuda.set_device(1); cuda.set_stream(cuda.Stream())");
  on_thread(end, L);
  check(TIDE(tide_full)(&x, &n, 1, tide_float(1), &options) == TIDE_OK, "no tensor after a state was closed");
  check(TIDE(tide_current_device)() == 0, "the device of a closed state is current");
  TIDE(tide_tensor_release)(x);
}

static void test_owner(lua_State *L) {
  static float memory[16];
  lua_pushlightuserdata(L, memory);
  lua_setglobal(L, "memory");
  run(L, "x = tide.from_ptr(memory, 16, { owner = {} })");
}

/* A tensor that outlives its owner's state writes to no memory that is another's by then. */
static void test_owner_gone(void) {
  enum { BLOCKS = 10000, BYTES = 24 };
  static char *block[BLOCKS], like[BYTES];
  lua_State *L = open_state();
  test_owner(L);
  lua_getglobal(L, "x");
  tide_tensor *x = tide_lua_to_tensor(L, -1);
  TIDE(tide_tensor_retain)(x);
  lua_close(L);
  memset(like, '=', BYTES); /* what is cleared would come from calloc, which leaves the newest free blocks alone */
  for (int i = 0; i < BLOCKS; i++)
    if ((block[i] = malloc(BYTES))) memcpy(block[i], like, BYTES);
  TIDE(tide_tensor_release)(x);
  int changed = 0;
  for (int i = 0; i < BLOCKS; i++) changed += block[i] && memcmp(block[i], like, BYTES) != 0, free(block[i]);
  check(!changed, "the owner of a tensor was freed with its state, before the tensor");
}

/* Where the largest of (0, 9, 0) is by a call of the host's own. */
static int64_t host_argmax(void) {
  int64_t size = 3, place = -1;
  tide_tensor *x = NULL, *at = NULL;
  if (TIDE(tide_empty)(&x, &size, 1, &(tide_options){TIDE_FLOAT32, TIDE_CPU, false}) == TIDE_OK) {
    memcpy(TIDE(tide_tensor_data)(x), (float[]){0, 9, 0}, 3 * sizeof(float));
    if (TIDE(tide_reduce)(&at, TIDE_ARGMAX, x, NULL, NULL) == TIDE_OK) place = *(int64_t *)TIDE(tide_tensor_data)(at);
  }
  TIDE(tide_tensor_release)(at);
  TIDE(tide_tensor_release)(x);
  return place;
}

static int from_lua(lua_State *L) {
  lua_pushinteger(L, host_argmax());
  return 1;
}

static bool says(const char *text) {
  int64_t size = 3;
  tide_tensor *x = NULL, *part = NULL;
  if (TIDE(tide_empty)(&x, &size, 1, NULL) != TIDE_OK) return false;
  bool failed_so = TIDE(tide_select)(&part, x, 0, 7) != TIDE_OK && strstr(TIDE(tide_error_get)()->message, text);
  TIDE(tide_tensor_release)(x);
  return failed_so;
}

static void *close_state(void *L) {
  lua_close(L);
  return NULL;
}

/* A script counts from 1, whoever runs in between; the host counts from 0 on the same thread, before, between and after
 * its script's calls, and in C functions of its own that a script calls. */
static void test_base(lua_State *L) {
  static const char counts[] = "assert(tide.tensor{0, 9, 0}:argmax():item() == 2)";
  run(L, counts);
  check(host_argmax() == 1 && says("got 7, expected 0 to 2"), "the host counts from where the script does");
  lua_pushcfunction(L, from_lua);
  lua_setglobal(L, "from_lua");
  run(L, "assert(from_lua() == 1); local ok, e = pcall(function() return tide.zeros(3)[8] end) "
         "assert(e.message:find('got 8, expected 1 to 3', 1, true), e.message)");
  run(L, "coroutine.wrap(function() assert(tide.tensor{9, 0}:argmax():item() == 1) assert(from_lua() == 1) end)()");
  run(L, counts);
  lua_State *other = open_state();
  run(other, counts);
  check(host_argmax() == 1, "the host counts from where another state does");
  on_thread(close_state, other);
  check(host_argmax() == 1, "the host counts from where a state that is gone did");
  run(L, counts);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  module = argv[1];
  setenv("TIDE_SIM_DEVICES", "2", 1);
  setenv("TIDE_SIM_MEMORY", "67108864", 1);
  test_openings();
  lua_State *L = open_state();
  check(TIDE(tide_init)(NULL) == TIDE_OK, "no tide");
  test_base(L);
  test_bind(L);
  test_resumed(L);
  test_moved(L);
  test_memory();
  test_answer(TIDE_LUA_GC_AUTO, true, "no memory, but the garbage of another thread's state");
  test_answer(TIDE_LUA_GC_LAST, true, "no memory, but the garbage of another thread's state that collects late");
  test_answer(TIDE_LUA_GC_NEVER, false, "garbage was collected that the host keeps");
  test_closed();
  test_owner_gone();
  test_owner(L);
  lua_close(L);
  TIDE(tide_memory_pump)();
  TIDE(tide_shutdown)();
  printf("host_test: %s\n", failed ? "failed" : "passed");
  return failed;
}
