/* bound_test.c: how exactly a sandbox ends a script, and what that costs the script.
 *
 * Calls are made from the tables of Lua's libraries: each function with arguments of many shapes and lengths, in a loop
 * that catches its errors, under a limit of processor time. None ends later than 5 ms behind it, or 5 % of it. Only the
 * processor time of this thread is measured, so that a busy machine fails nothing; the best of some tries counts.
 *
 * usage: bound_test tide.so [--full]        also strings of 64 MB */
#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "tide_lua.h"

static lua_CFunction opener;
static int failed;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOWER = 20, OPERATORS_MS = 300 };
static int cases, stride = 25; /* of the argument lists: one in so many */
#else
enum { SLOWER = 1, OPERATORS_MS = 60 };
static int cases, stride = 5;
#endif

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + 1e-6 * (double)t.tv_nsec;
}

static void check(bool holds, const char *what, const char *more) {
  if (!holds) printf("bound_test: %s: %s\n", what, more ? more : "");
  failed |= !holds;
}

static lua_State *open_state(lua_Hook hook) {
  lua_State *L = luaL_newstate();
  tide_lua_options o = tide_lua_defaults();
  o.open = opener;
  luaL_openlibs(L);
  if (hook) lua_sethook(L, hook, LUA_MASKLINE, 0);
  if (tide_lua_open(L, &o) != LUA_OK) exit(2);
  lua_setglobal(L, "tide");
  return L;
}

static int run(lua_State *L, const char *text) {
  int status = luaL_loadstring(L, text);
  return status == LUA_OK ? lua_pcall(L, 0, 0, 0) : status;
}

static const char *message(lua_State *L) {
  static tide_lua_error_info e;
  tide_lua_error(L, -1, &e);
  return e.message;
}

/* {==== Every function */

static void push_string(lua_State *L, const char *unit, size_t size) {
  luaL_Buffer b;
  size_t n = strlen(unit) + !*unit;
  char *text = luaL_buffinitsize(L, &b, size);
  for (size_t i = 0; i < size; i++) text[i] = unit[i % n];
  luaL_pushresultsize(&b, size);
}

/* Two equal strings, so that a comparison reads all of both; a name that is long; a list of long strings. */
static const char shapes[] =
    "local s, s2 = ...\n"
    "local named, list, few = setmetatable({}, {__name = s}), {}, {}\n"
    "for i = 1, 100000 do list[i] = (i * 7919) % 100003 end\n"
    "for i = 1, 8 do few[i] = s end\n"
    "return {{s}, {s, s2}, {s, 1, -1}, {s, 1, 200000}, {s, 7, s2}, {1, s}, {1, 2, s}, {'x', s}, {'%s', s}, {'%q', s}, "
    "{s, s2, 'x'},\n"
    "  {s, s2, 1, true}, {'s', s}, {'z', s}, {s, 10}, {list}, {list, s}, {list, 1, s}, {few}, {few, s}, {named},\n"
    "  {named, named}, {1, named}, {{[s] = 1}, s2}, {list, 1, 100000}, {function() return s end},\n"
    "  {function() error(s) end}, {coroutine.create(function() end), s}, {10, 'x', s}, {'generational'}, {'step', 1 << "
    "20}}";

static const char loop[] = "local f, a, n = ...\n"
                           "local unpack, pcall = table.unpack, pcall\n"
                           "while true do pcall(f, unpack(a, 1, n)) end";

/* Milliseconds beyond the limit, of the argument list at the top with the function below it. */
static double overrun(lua_State *L, double limit) {
  int top = lua_gettop(L);
  luaL_loadstring(L, loop);
  lua_pushvalue(L, top - 1);
  lua_pushvalue(L, top);
  lua_pushinteger(L, (lua_Integer)lua_rawlen(L, top));
  tide_lua_quota_set(L, TIDE_QUOTA_CPU, (int64_t)(limit * 1000));
  double begun = cpu();
  int status = lua_pcall(L, 3, 0, 0);
  double took = cpu() - begun;
  check(status != LUA_OK && strstr(message(L), "used up"), "it ended otherwise", message(L));
  tide_lua_quota_set(L, TIDE_QUOTA_CPU, -1);
  lua_settop(L, top);
  return took - limit;
}

static void check_function(lua_State *L, const char *library, const char *name, const char *unit, size_t size) {
  enum { LIMIT = 12, TRIES = 60 };
  int lists = lua_gettop(L) - 1, n = (int)lua_rawlen(L, lists); /* stack: ..., the lists, the function */
  for (int i = 1 + (int)(strlen(name) + size / 1000 + (size_t)*unit) % stride; i <= n; i += stride, cases++) {
    double best = 1e9;
    for (int k = 0; k < TRIES && best > 5 * SLOWER; k++) {
      lua_rawgeti(L, lists, i);
      double over = overrun(L, LIMIT);
      if (over < best) best = over;
      lua_pop(L, 1);
    }
    if (best > 5 * SLOWER) {
      printf("bound_test: %s.%s: list %d of '%.8s', %zu bytes: ended %.1f ms late\n", library, name, i, unit, size,
             best);
      failed = 1;
    }
  }
}

static bool is_left_out(const char *name) { /* they write, or wait for what is read */
  static const char *const names[] = {"print", "warn", "dofile", "loadfile", "require", "pcall", "xpcall", "yield"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return true;
  return false;
}

static void check_library(lua_State *L, const char *library, const char *unit, size_t size) {
  int lists = lua_gettop(L);
  lua_getglobal(L, library);
  for (lua_pushnil(L); lua_next(L, lists + 1); lua_settop(L, lists + 2)) {
    const char *name = lua_tostring(L, lists + 2);
    if (!lua_iscfunction(L, -1) || is_left_out(name)) continue;
    lua_pushvalue(L, lists);
    lua_insert(L, -2);
    check_function(L, library, name, unit, size);
  }
  lua_settop(L, lists);
}

static void test_functions(size_t size) {
  static const char *const units[] = {"a", "1", "", " ", "%5.1f", "b2", "x=1 ", "\xc3\xa9", "\""},
                           *const libraries[] = {"_G", "string", "table", "math", "coroutine", "utf8"};
  for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
    lua_State *L = open_state(NULL);
    lua_settop(L, 0);
    luaL_loadstring(L, shapes);
    push_string(L, units[u], size);
    push_string(L, units[u], size);
    if (lua_pcall(L, 2, 1, 0) != LUA_OK) exit(2);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) check_library(L, libraries[i], units[u], size);
    lua_close(L);
  }
}

/* Operators have no function. */
static void test_operators(void) {
  static const char *const texts[] = {
      "local s = ('x'):rep(1 << 23) while true do local t = s .. s end",
      "local s = ('x'):rep(1 << 23) while true do pcall(function() local t = s .. s end) end",
      "local s = ('x'):rep(1 << 23) coroutine.wrap(function() while true do local t = s .. 1 .. s end end)()",
      "local s, t = ('x'):rep(1 << 22), ('x'):rep(1 << 22) .. 'y' while true do local x = s < t, s == t end",
      "while true do end",
      "local function f() return f() end f()",
      "while true do pcall(error, {}) end",
      "local t = {} while true do t[#t % 1000 + 1] = {} end",
      "while true do coroutine.wrap(function() for i = 1, 1e9 do end end)() end",
      "local t = {} for i = 1, 100000 do t[i] = {} end while true do collectgarbage() end"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    double best = 1e9;
    for (int k = 0; k < 60 && best > 5 * SLOWER; k++) {
      lua_State *L = open_state(NULL);
      tide_lua_quota_set(L, TIDE_QUOTA_CPU, 1000 * OPERATORS_MS);
      double begun = cpu();
      int status = run(L, texts[i]);
      double over = cpu() - begun - OPERATORS_MS;
      check(status != LUA_OK && strstr(message(L), "used up"), texts[i], message(L));
      if (over < best) best = over;
      lua_close(L);
    }
    if (best > 5 * SLOWER) printf("bound_test: %s: ended %.1f ms late\n", texts[i], best), failed = 1;
  }
}

/* A library's function has said what it costs when the time is over in the middle of it: the error is the quota's. */
static void test_long_strings(void) {
  enum { STATES = 24 };
  for (int i = 0; i < STATES; i++) {
    lua_State *L = open_state(NULL);
    tide_lua_quota_set(L, i % 2 ? TIDE_QUOTA_CPU : TIDE_QUOTA_MICROSECONDS, 20000 + 997 * i);
    int status = run(L, "while true do local s = ('a'):rep(1 << 24) end");
    const char *text = luaL_tolstring(L, -1, NULL);
#if defined(__SANITIZE_THREAD__) /* it hands signals over late, so Lua's own word may come first */
    bool names_it = strstr(text, "used up") || strstr(text, "not enough memory");
#else
    bool names_it = strstr(text, "used up");
#endif
    check(status != LUA_OK && names_it, "a long string", text);
    lua_close(L);
  }
}

/* {==== What a script pays */

/* The best of ten runs of milliseconds, in plain Lua and in a sandbox. Both are new ones, as names fall into other
 * places of a table in each state, and some meet on the way. */
static void time_both(double best[2], const char *text) {
  lua_State *L[2] = {luaL_newstate(), open_state(NULL)};
  luaL_openlibs(L[0]);
  for (int k = 0; k < 20; k++) {
    lua_settop(L[k % 2], 0);
    tide_lua_quota_set(L[1], TIDE_QUOTA_MICROSECONDS, 60000000);
    tide_lua_quota_set(L[1], TIDE_QUOTA_CPU, 60000000);
    double begun = cpu();
    if (run(L[k % 2], text) != LUA_OK) check(false, text, message(L[1]));
    double took = cpu() - begun;
    if (took < best[k % 2]) best[k % 2] = took;
  }
  lua_close(L[0]), lua_close(L[1]);
}

/* A call of a library's function passes through one of ours, a few nanoseconds that weigh more or less with the places
 * where the system has loaded the libraries. */
static void test_speed(void) {
  static const struct {
    const char *text;
    double most;
  } loops[] = {
      {"local x = 0 for i = 1, 600000 do x = x + i % 7 end", 1.25},
      {"local i = 0 while i < 400000 do i = i + 1 end", 1.25},
      {"local function f(n) if n < 2 then return n end return f(n - 1) + f(n - 2) end f(22)", 1.25},
      {"local t = {} for i = 1, 200000 do t[i % 100 + 1] = i end", 1.25},
      {"local s = 0 for i = 1, 100000 do s = s + math.floor(i / 3) end", 1.6},
      {"local t = {} for i = 1, 40000 do t[i] = i .. '' end", 1.25},
      {"local f, pcall = function() error() end, pcall for i = 1, 40000 do pcall(f) end", 1.5},
      {"local co, resume = coroutine.create(function() while true do coroutine.yield() end end), coroutine.resume "
       "for i = 1, 100000 do resume(co) end",
       1.35},
      {"local co, resume = coroutine.create(function() while true do coroutine.yield() end end), coroutine.resume "
       "coroutine.wrap(function() for i = 1, 100000 do resume(co) end end)()",
       1.35},
      {"for i in coroutine.wrap(function() for i = 1, 100000 do coroutine.yield(i) end end) do end", 1.35},
      {"local f, create, resume = function() end, coroutine.create, coroutine.resume "
       "for i = 1, 40000 do resume(create(f)) end",
       2}}; /* the memory of tide's own functions is collected beside it */
  if (SLOWER > 1) return;
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
    double best[2] = {1e9, 1e9}, most = loops[i].most;
    for (int k = 0; k < 50 && (k < 2 || best[1] > most * best[0]); k++) time_both(best, loops[i].text);
    if (best[1] > most * best[0])
      printf("bound_test: %s: %.2f times plain Lua's time\n", loops[i].text, best[1] / best[0]), failed = 1;
  }
}

/* {==== Sorting */

/* McIlroy's adversary: items whose order is chosen while they are compared, so that each split leaves nearly all of
 * them. */
static struct {
  int value[2001], solid, candidate;
  char *lowest, *highest; /* of the frames that have compared */
} adversary;

static int compare(lua_State *L) {
  enum { GAS = 1 << 30 };
  int a = (int)lua_tointeger(L, 1), b = (int)lua_tointeger(L, 2), *v = adversary.value;
  char *frame = __builtin_frame_address(0);
  if (!adversary.lowest || frame < adversary.lowest) adversary.lowest = frame;
  if (frame > adversary.highest) adversary.highest = frame;
  if (v[a] == GAS && v[b] == GAS) v[a == adversary.candidate ? a : b] = adversary.solid++;
  if (v[a] == GAS || v[b] == GAS) adversary.candidate = v[a] == GAS ? a : b;
  return lua_pushboolean(L, v[a] < v[b]), 1;
}

/* The host's stack is no deeper for items in the worst order. */
static void test_sort(void) {
  enum { ITEMS = sizeof adversary.value / sizeof *adversary.value - 1 };
  lua_State *L = open_state(NULL);
  lua_newtable(L);
  for (int i = 1; i <= ITEMS; i++) adversary.value[i] = 1 << 30, lua_pushinteger(L, i), lua_rawseti(L, -2, i);
  lua_setglobal(L, "items");
  lua_register(L, "compare", compare);
  check(run(L, "table.sort(items, compare)") == LUA_OK, "table.sort", message(L));
  check(run(L, "for i = 2, #items do assert(compare(items[i - 1], items[i])) end") == LUA_OK, "table.sort", message(L));
  check(adversary.highest - adversary.lowest < 16 << 10, "table.sort", "it has gone deep into the stack");
  lua_close(L);
}

/* {==== Hooks of the host */

static int hooked;

static void count_hook(lua_State *L, lua_Debug *ar) { (void)L, (void)ar, hooked++; }

static void check_ends(lua_State *L, const char *what, tide_quota_kind kind, int64_t limit) {
  tide_lua_quota_set(L, kind, limit);
  int status = run(L, "while true do pcall(function() while true do end end) end");
  check(status != LUA_OK && strstr(message(L), "used up"), what, message(L));
  tide_lua_quota_set(L, kind, -1);
  lua_settop(L, 0);
}

static void test_hooks(void) {
  static const char lines[] = "local x = 1\nx = 2\nx = 3\n";
  for (int k = 0; k < 2; k++) { /* by time, by instructions */
    tide_quota_kind kind = k ? TIDE_QUOTA_INSTRUCTIONS : TIDE_QUOTA_CPU;
    lua_State *L = open_state(count_hook); /* before tide */
    hooked = 0;
    check(run(L, lines) == LUA_OK && hooked >= 3, "a hook from before is called", NULL);
    check_ends(L, "a hook from before", kind, 30000);
    lua_close(L);
    L = open_state(NULL);
    lua_sethook(L, count_hook, LUA_MASKLINE, 0); /* after tide, in the place of its own */
    hooked = 0;
    check_ends(L, "a hook from after", kind, 30000);
    check(hooked > 3, "a hook from after is called", NULL);
    tide_lua_quota_set(L, kind, 100000000);
    lua_sethook(L, count_hook, LUA_MASKLINE, 0); /* set after the limit */
    tide_lua_quota_set(L, TIDE_QUOTA_CPU, 30000);
    check_ends(L, "a hook after the limit", TIDE_QUOTA_CPU, 30000);
    lua_close(L);
    L = open_state(NULL);
    check(tide_lua_sethook(L, count_hook, LUA_MASKLINE, 0) == 1, "tide_lua_sethook", NULL);
    hooked = 0;
    check(run(L, lines) == LUA_OK && hooked >= 3 && hooked <= 4, "each line", NULL);
    check(run(L, "coroutine.wrap(function() local x = 1\nx = 2 end)()") == LUA_OK && hooked > 5, "in a coroutine",
          NULL);
    check_ends(L, "a hook of lines", kind, 30000);
    hooked = 0;
    check(tide_lua_sethook(L, count_hook, LUA_MASKCOUNT, 2500), "a hook of counts", NULL);
    check(run(L, "for i = 1, 1000000 do end") == LUA_OK && hooked > 350 && hooked < 450, "so many counts", NULL);
    check_ends(L, "a hook of counts", kind, 30000);
    check(tide_lua_sethook(L, NULL, 0, 0) == 1, "no hook", NULL);
    hooked = 0;
    check(run(L, "for i = 1, 100000 do end") == LUA_OK && hooked == 0, "none is called", NULL);
    check_ends(L, "no hook", kind, 30000);
    lua_close(L);
  }
  lua_State *L = luaL_newstate();
  check(!tide_lua_sethook(L, count_hook, LUA_MASKLINE, 0) && tide_lua_quota_overrun(L, TIDE_QUOTA_CPU) == -1,
        "a state without tide", NULL);
  lua_close(L);
}

/* {==== Threads, coroutines of the host, kinds of time */

static int rest(lua_State *L) {
  usleep((useconds_t)lua_tointeger(L, 1));
  return 0;
}

static void test_times(void) {
  lua_State *L = open_state(NULL);
  lua_register(L, "rest", rest);
  tide_lua_quota_set(L, TIDE_QUOTA_CPU, 50000 * SLOWER); /* stands in for a process that the system interrupts */
  check(run(L, "for i = 1, 20 do rest(5000 + i) end") == LUA_OK, "rest is no processor time", message(L));
  check(tide_lua_quota_used(L, TIDE_QUOTA_CPU) < 50000 * SLOWER, "it counted", NULL);
  check(tide_lua_quota_overrun(L, TIDE_QUOTA_CPU) == 0, "no overrun", NULL);
  tide_lua_quota_set(L, TIDE_QUOTA_CPU, -1);
  tide_lua_quota_set(L, TIDE_QUOTA_MICROSECONDS, 50000);
  check(run(L, "for i = 1, 20 do rest(5000) end rest(50000) while true do end") != LUA_OK, "rest is time", NULL);
  int64_t over = tide_lua_quota_overrun(L, TIDE_QUOTA_MICROSECONDS);
  check(over > 0 && over <= tide_lua_quota_used(L, TIDE_QUOTA_MICROSECONDS) - 50000, "the overrun", NULL);
  check(tide_lua_quota_overrun(L, TIDE_QUOTA_CPU) == 0 && tide_lua_quota_overrun(L, TIDE_QUOTA_KINDS) == 0, "of a kind",
        NULL);
  tide_lua_quota_set(L, TIDE_QUOTA_MICROSECONDS, -1);
  check(tide_lua_quota_overrun(L, TIDE_QUOTA_MICROSECONDS) == 0, "a new limit", NULL);
  lua_close(L);
}

/* A coroutine of the host's that a script's function makes and runs. */
static int run_other(lua_State *L) {
  int n;
  lua_State *co = lua_newthread(L);
  luaL_loadstring(co, "while true do end");
  if (lua_resume(co, L, 0, &n) > LUA_YIELD) lua_xmove(co, L, 1);
  return lua_error(L);
}

static void test_host_coroutines(void) {
  lua_State *L = open_state(NULL);
  int n;
  check(
      run(L,
          "for i = 1, 100000 do end\nshared = coroutine.create(function() coroutine.yield() while true do end end)") ==
          LUA_OK,
      "a loop", NULL); /* the main coroutine runs without a hook */
  tide_lua_quota_set(L, TIDE_QUOTA_CPU, 30000);
  lua_State *co = lua_newthread(L);
  luaL_loadstring(co, "while true do end");
  check(lua_resume(co, L, 0, &n) > LUA_YIELD, "a coroutine of the host's", NULL);
  tide_lua_quota_set(L, TIDE_QUOTA_CPU, 30000);
  lua_getglobal(L, "shared");
  co = lua_tothread(L, -1);
  check(lua_resume(co, L, 0, &n) == LUA_YIELD && lua_resume(co, L, 0, &n) > LUA_YIELD, "a script's", NULL);
  tide_lua_quota_set(L, TIDE_QUOTA_CPU, -1);
  for (int i = 0; i < 20; i++) { /* the one that is watched is freed, and another one may get its place */
    lua_settop(L, 0);
    co = lua_newthread(L);
    luaL_loadstring(co, "for i = 1, 10000 do end coroutine.wrap(function() for i = 1, 10000 do end end)()");
    check(lua_resume(co, L, 0, &n) == LUA_OK, "one that ends", NULL);
    lua_settop(L, 0);
    lua_gc(L, LUA_GCCOLLECT);
    if (i % 2) lua_newthread(L);
    check_ends(L, "after one that was freed", TIDE_QUOTA_CPU, 10000);
  }
  lua_close(L);
  for (int k = 0; k < 4; k++) { /* one that a script has resumed, and that waits without a hook */
    L = open_state(NULL);
    lua_register(L, "run_other", run_other);
    check(run(L, "local t = setmetatable({}, {__close = function() if spin then while true do end end end})\n"
                 "shared = coroutine.create(function(by) local c <close> = t while true do if by then run_other() end\n"
                 "  if spin then while true do end end by = coroutine.yield() end end)\n"
                 "for i = 1, 3 do assert(coroutine.resume(shared)) end spin = true") == LUA_OK,
          "one that waits", message(L));
    tide_lua_quota_set(L, k == 1 ? TIDE_QUOTA_INSTRUCTIONS : TIDE_QUOTA_CPU, 30000);
    lua_getglobal(L, "shared");
    co = lua_tothread(L, -1);
    lua_pushboolean(co, k == 2);
    int status = k == 3 ? run(L, "coroutine.close(shared)") : lua_resume(co, L, 1, &n);
    check(status > LUA_YIELD && strstr(message(k == 3 ? L : co), "used up"), "one that waits",
          message(k == 3 ? L : co));
    lua_close(L);
  }
}

typedef struct job {
  lua_State *L;
  const tide_lua_api *api;
  int status;
  _Atomic bool runs;
} job;

static int note_runs(lua_State *L) {
  job *j = lua_touserdata(L, lua_upvalueindex(1));
  return atomic_store(&j->runs, true), 0;
}

static void *run_job(void *user) {
  job *j = user;
  j->status = run(j->L, "for i = 1, 100000 do end runs() while true do pcall(function() while true do end end) end");
  return NULL;
}

/* On a thread that has not opened the state, and twice. */
static void test_threads(void) {
  for (int k = 0; k < 2; k++) {
    job j = {.L = open_state(NULL)};
    pthread_t thread;
    j.api = tide_lua_get(j.L);
    lua_pushlightuserdata(j.L, &j);
    lua_pushcclosure(j.L, note_runs, 1);
    lua_setglobal(j.L, "runs");
    if (k) check(run(j.L, "for i = 1, 100000 do end") == LUA_OK, "before", NULL);
    if (k) tide_lua_quota_set(j.L, TIDE_QUOTA_LAUNCHES, -1); /* it goes to another thread */
    if (pthread_create(&thread, NULL, run_job, &j)) exit(2);
    while (!atomic_load(&j.runs)) usleep(100);
    check(tide_lua_kill(j.api, j.L), "kill", NULL);
    pthread_join(thread, NULL);
    check(j.status != LUA_OK && strstr(message(j.L), "the host has ended"), "on another thread", message(j.L));
    lua_close(j.L);
  }
}

/* A host's handler of the same signal is called for what is not ours, and is there again at the end. */
static _Atomic int urgent;

static void on_urgent(int sig) { (void)sig, urgent++; }

static void test_signal(void) {
  struct sigaction mine = {.sa_handler = on_urgent}, now;
  sigaction(SIGURG, &mine, NULL);
  lua_State *L = open_state(NULL);
  check_ends(L, "with a handler of the host's", TIDE_QUOTA_CPU, 20000);
  int before = urgent;
  raise(SIGURG);
  check(urgent == before + 1, "the host's handler", NULL);
  lua_close(L);
  char *stack = malloc(1 << 16);
  stack_t other = {.ss_sp = stack, .ss_size = 1 << 16}, before_it;
  sigaltstack(&other, &before_it); /* a sanitizer's */
  L = open_state(NULL);
  check_ends(L, "on a thread with an alternate stack", TIDE_QUOTA_CPU, 20000);
#if defined(__x86_64__) || defined(__aarch64__)
  sigaction(SIGURG, NULL, &now);
  check(SLOWER > 1 || (now.sa_flags & SA_ONSTACK), "the handler runs on the alternate stack", NULL);
#endif
  lua_close(L);
  sigaltstack(&before_it, NULL);
  free(stack);
  sigaction(SIGURG, NULL, &now);
  check(now.sa_handler == on_urgent, "the host's handler is there again", NULL);
  sigset_t set;
  sigemptyset(&set), sigaddset(&set, SIGURG);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  L = open_state(NULL);
  check_ends(L, "on a thread that blocks the signal", TIDE_QUOTA_CPU, 20000);
  lua_close(L);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* A script on a fiber of an engine's: its stack is not the thread's, and lies above that one here. */
static ucontext_t engine, fiber;
static lua_State *on_fiber;
static _Alignas(4096) char thread_stack[1 << 20];

static void run_fiber(void) { check_ends(on_fiber, "on a fiber", TIDE_QUOTA_CPU, 20000); }

static void *run_engine(void *unused) {
  char *stack = malloc(1 << 20);
  on_fiber = open_state(NULL);
  tide_lua_quota_set(on_fiber, TIDE_QUOTA_CPU, 60000000);
  check(run(on_fiber, "for i = 1, 100000 do end") == LUA_OK, "before the fiber", NULL);
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = stack, fiber.uc_stack.ss_size = 1 << 20, fiber.uc_link = &engine;
  makecontext(&fiber, run_fiber, 0);
  swapcontext(&engine, &fiber);
  lua_close(on_fiber);
  free(stack);
  return unused;
}

static void test_fiber(void) {
  pthread_attr_t attr;
  pthread_t thread;
  if (SLOWER > 1) return; /* the sanitizers know one stack a thread */
  pthread_attr_init(&attr);
  if (pthread_attr_setstack(&attr, thread_stack, sizeof thread_stack) ||
      pthread_create(&thread, &attr, run_engine, NULL))
    exit(2);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attr);
}

static void on_alarm(int sig) {
  static const char text[] = "\nbound_test: not contained\n";
  (void)sig;
  _exit(write(STDOUT_FILENO, text, sizeof text - 1) < 0 ? 3 : 1);
}

int main(int argc, char **argv) {
  setenv("TIDE_SIM_DEVICES", "1", 0);
  if (argc < 2) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGALRM, on_alarm);
  void *tide = dlopen(argv[1], RTLD_NOW);
  if (!tide) return printf("bound_test: %s\n", dlerror()), 2;
  opener = (lua_CFunction)(size_t)dlsym(tide, "luaopen_tide");
  bool is_full = argc > 2 && !strcmp(argv[2], "--full");
  alarm(is_full ? 36000 : 3000);
  test_sort();
  test_hooks();
  test_times();
  test_host_coroutines();
  test_threads();
  test_signal();
  test_fiber();
  test_speed();
  test_operators();
  test_long_strings();
  if (is_full) stride = 1;
  test_functions(3000000 / SLOWER);
  if (is_full) test_functions(1000), test_functions(16 << 20), test_functions(64 << 20);
  printf("bound_test: %d calls\n", cases);
  return failed;
}
