/* sandbox_test.c: a host of scripts that it does not trust. Each part of the files in spec/sandbox is a script of its
 * own, an escape or an abuse: it runs in a state that was given base, string, table, math, coroutine and tide, and has
 * to be refused or contained, with the process as it was before.
 *
 *   --- NAME                 begins a part
 *   --! raises TEXT          it ends with an error that has this text; else it must end well (what it asserts holds)
 *   --! grant NAME ...       capabilities of the state; else none
 *   --! then NAME ...        what tide_lua_restrict leaves when the function `restrict` is called
 *   --! quota NAME=N ...     device_bytes, host_bytes, launches, compiles, instructions, milliseconds, kernel_ms,
 *                            cpu_ms
 *   --! memory N             MiB that the host's allocator gives to Lua; else 64
 *   --! kill N               another thread ends the state after so many milliseconds
 *   --! ends                 every later call raises, too, until the host sets new limits (never after a kill)
 *   --! from 0               its scripts count indexes from 0
 *   --! give NAME ...        further libraries of Lua: debug; finalisers: the setmetatable that sets them; strings: the
 *                            tables string and table as Lua's libraries have them, as strings and tables
 *
 * usage: sandbox_test tide.so [part]
 *        sandbox_test tide.so --calls FIRST LAST [CALLS]     spec/stress/calls.lua with these seeds
 * Simulated devices stand in: two of them. With TIDE_SIM_DEVICES=0 the machine's GPUs are used. */
#include <glob.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "module.h"
#include "tide/memory.h"
#include "tide/tide.h"
#include "tide_lua.h"

typedef struct part {
  const char *file, *name, *text;
  int64_t line; /* of the file; of random calls the seed */
  unsigned granted, left;
  char raises[200];
  bool debug, finalisers, strings, ends, from_zero;
  int64_t quota[TIDE_QUOTA_KINDS];
  int kill, memory; /* milliseconds; MiB */
} part;

static lua_CFunction opener;
static int parts;

static void check(bool holds, const part *p, const char *what) {
  if (!holds) printf("%s:%lld: %s: %s\n", p->file, (long long)p->line, p->name, what);
  failed |= !holds;
}

/* {==== What a part says of itself */

static unsigned read_capabilities(const char *words) {
  static const char *const names[] = {"FILES", "NATIVE", "POINTERS", "PROCESSES", "GLOBALS", "WAITS"};
  unsigned all = 0;
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (strstr(words, names[i])) all |= 1u << i;
  return all;
}

static void read_quota(part *p, const char *words) {
  static const char *const names[] = {"device_bytes=", "host_bytes=",   "launches=",  "compiles=",
                                      "instructions=", "milliseconds=", "kernel_ms=", "cpu_ms="};
  for (int k = 0; k < TIDE_QUOTA_KINDS; k++) {
    const char *at = strstr(words, names[k]);
    if (at) p->quota[k] = atoll(at + strlen(names[k])) * (k >= TIDE_QUOTA_MICROSECONDS ? 1000 : 1);
  }
}

static void read_setting(part *p, const char *line) {
  if (!strncmp(line, "quota ", 6)) read_quota(p, line);
  if (!strncmp(line, "memory ", 7)) p->memory = atoi(line + 7);
  if (!strncmp(line, "kill ", 5)) p->kill = atoi(line + 5);
  if (!strcmp(line, "ends")) p->ends = true;
  if (!strcmp(line, "from 0")) p->from_zero = true;
  if (!strncmp(line, "raises ", 7)) snprintf(p->raises, sizeof p->raises, "%s", line + 7);
  if (!strncmp(line, "grant ", 6)) p->granted = read_capabilities(line);
  if (!strncmp(line, "then ", 5)) p->left = read_capabilities(line);
  if (!strncmp(line, "give ", 5)) {
    p->debug = strstr(line, "debug") != NULL;
    p->finalisers = strstr(line, "finalisers") != NULL;
    p->strings = strstr(line, "strings") != NULL;
  }
}

/* {==== A state */

static void open_libraries(lua_State *L, const part *p) {
  static const luaL_Reg given[] = {{LUA_GNAME, luaopen_base},          {LUA_STRLIBNAME, luaopen_string},
                                   {LUA_TABLIBNAME, luaopen_table},    {LUA_MATHLIBNAME, luaopen_math},
                                   {LUA_COLIBNAME, luaopen_coroutine}, {NULL, NULL}};
  for (const luaL_Reg *r = given; r->name; r++) luaL_requiref(L, r->name, r->func, 1), lua_pop(L, 1);
  if (p->debug) luaL_requiref(L, LUA_DBLIBNAME, luaopen_debug, 1), lua_pop(L, 1);
}

static int restrict_now(lua_State *L) {
  const part *p = lua_touserdata(L, lua_upvalueindex(1));
  return lua_pushboolean(L, tide_lua_restrict(L, p->left)), 1;
}

/* What another state has: a function that needs POINTERS, with the value that makes it what it is. */
static int leaked(lua_State *L) {
  lua_CFunction *fn = lua_touserdata(L, lua_upvalueindex(1));
  lua_pushlightuserdata(L, lua_touserdata(L, lua_upvalueindex(2)));
  lua_pushcclosure(L, *fn, 1);
  return 1;
}

static struct {
  lua_CFunction fn;
  void *row;
} leak;

static void take_leak(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  tide_lua_options all = {.struct_size = sizeof all, .capabilities = TIDE_LUA_ALL, .open = opener};
  if (tide_lua_open(L, &all) != LUA_OK) exit(2);
  lua_getfield(L, -1, "from_ptr");
  leak.fn = lua_tocfunction(L, -1);
  lua_getupvalue(L, -1, 1);
  leak.row = lua_touserdata(L, -1);
  lua_close(L);
}

typedef struct heap {
  size_t used, most;
} heap;

static void *limited_alloc(void *user, void *ptr, size_t old, size_t size) {
  heap *h = user;
  if (!ptr) old = 0;
  if (size > old && h->used + (size - old) > h->most) return NULL;
  void *block = size ? realloc(ptr, size) : NULL;
  if (!size) free(ptr);
  if (block || !size) h->used += size - old;
  return block;
}

static lua_State *open_state(const part *p, heap *h) {
  lua_State *L = lua_newstate(limited_alloc, h);
  if (!L) exit(2);
  open_libraries(L, p);
  tide_lua_options o = {.struct_size = sizeof o, .capabilities = p->granted, .open = opener};
  memcpy(o.quota, p->quota, sizeof o.quota);
  o.indexes = p->from_zero ? TIDE_LUA_FROM_ZERO : TIDE_LUA_FROM_ONE;
  if (p->strings) {
    luaopen_string(L); /* a table of its own; it is the one of the strings' metatable until the next */
    lua_setglobal(L, "strings");
    luaopen_table(L);
    lua_setglobal(L, "tables");
    luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 1);
    lua_settop(L, 0);
  }
  lua_getglobal(L, "setmetatable");
  if (tide_lua_open(L, &o) != LUA_OK) {
    printf("sandbox_test: %s\n", lua_tostring(L, -1));
    exit(2);
  }
  lua_setglobal(L, "tide");
  if (p->finalisers) lua_setglobal(L, "setmetatable");
  lua_settop(L, 0);
  lua_pushlightuserdata(L, (void *)p);
  lua_pushcclosure(L, restrict_now, 1);
  lua_setglobal(L, "restrict");
  lua_pushlightuserdata(L, &leak.fn);
  lua_pushlightuserdata(L, leak.row);
  lua_pushcclosure(L, leaked, 2);
  lua_setglobal(L, "leaked_from_ptr");
  return L;
}

/* {==== The process around it */

typedef struct process {
  int dtype, device, threads, deterministic;
  size_t cpu, gpu;
} process;

static process look(void) {
  return (process){(int)TIDE(tide_get_default_dtype)(), TIDE(tide_default_device)(),   TIDE(tide_get_num_threads)(), 0,
                   TIDE(tide_memory_cpu_allocated)(),   TIDE(tide_memory_allocated)(0)};
}

typedef struct killer {
  const tide_lua_api *api;
  lua_State *L;
  int milliseconds;
} killer;

static void *kill_later(void *user) {
  killer *k = user;
  usleep((useconds_t)k->milliseconds * 1000);
  tide_lua_kill(k->api, k->L);
  return NULL;
}

/* An error as text. What a script has raised may have a __tostring that does not end either: it is asked in protected
 * mode. */
static int to_text(lua_State *L) { return luaL_tolstring(L, 1, NULL), 1; }

static int call(lua_State *L, const char *text, const char *name) {
  lua_settop(L, 0);
  int status = luaL_loadbuffer(L, text, strlen(text), name);
  if (status == LUA_OK) status = lua_pcall(L, 0, 0, 0);
  if (status == LUA_OK) return status;
  for (int failed_too = LUA_ERRRUN; failed_too != LUA_OK;) {
    lua_pushcfunction(L, to_text);
    lua_insert(L, -2);
    failed_too = lua_pcall(L, 1, 1, 0);
  }
  return status;
}

/* Nothing runs any more that a script could call; with new limits all does, unless it was killed. */
static void check_end(lua_State *L, const part *p) {
  check(call(L, "return tide.ones(1)", "call") != LUA_OK, p, "a later call of tide works");
  check(call(L, "for i = 1, 10000 do end", "loop") != LUA_OK, p, "a later loop of Lua's runs");
  check(call(L, "for i = 1, 10 do pcall(tide.zeros, 1) end", "pcall") != LUA_OK, p, "a later error is caught");
  for (int k = 0; k < TIDE_QUOTA_KINDS; k++) tide_lua_quota_set(L, (tide_quota_kind)k, -1);
  int status = call(L, "for i = 1, 10000 do end assert(tide.ones(3):sum():item() == 3)", "again");
  check((status == LUA_OK) == !p->kill, p, p->kill ? "it was killed and runs" : lua_tostring(L, -1));
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check_quotas(lua_State *L, const part *p) {
  for (int k = 0; k < TIDE_QUOTA_MICROSECONDS; k++) {
    int64_t slack = k == TIDE_QUOTA_INSTRUCTIONS ? 100000 : 1;
    if (p->quota[k] && tide_lua_quota_used(L, (tide_quota_kind)k) > p->quota[k] + slack)
      check(false, p, "it has taken more than its quota");
  }
}

static const char *running;

static void on_alarm(int sig) {
  (void)sig;
  static const char text[] = "\nsandbox_test: not contained: ";
  if (write(STDOUT_FILENO, text, sizeof text - 1) < 0 || write(STDOUT_FILENO, running, strlen(running)) < 0) _exit(3);
  _exit(1);
}

/* Seconds of all threads: a busy machine does not make a part run too long. */
static double processor(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* Under ThreadSanitizer, which delays signals, no other thread sees to a script's time. All takes ten times as long. */
#if defined(__SANITIZE_THREAD__)
enum { HAS_HOOK_ALONE = 1, LONGEST = 200 }; /* seconds: what is not contained never ends */
#else
enum { HAS_HOOK_ALONE = 0, LONGEST = 20 };
#endif

static void run(const part *p) {
  running = p->name;
  alarm(10 * LONGEST);
  process before = look();
  heap h = {0, (size_t)(p->memory ? p->memory : 64) << 20};
  lua_State *L = open_state(p, &h);
  killer k = {tide_lua_get(L), L, p->kill};
  pthread_t thread;
  double begun = now(), spent = processor();
  if (p->kill && pthread_create(&thread, NULL, kill_later, &k)) exit(2);
  int status = call(L, p->text, p->name);
  if (p->kill) pthread_join(thread, NULL);
  check(now() - begun < LONGEST || processor() - spent < LONGEST, p, "it ran too long");
  const char *message = status == LUA_OK ? "" : lua_tostring(L, -1);
  if (!message) message = "(no text)";
  if (*p->raises)
    check(status != LUA_OK && strstr(message, p->raises), p, status == LUA_OK ? "ended well" : message);
  else
    check(status == LUA_OK, p, message);
  check_quotas(L, p);
  if (p->ends) check_end(L, p);
  lua_close(L);
  process after = look();
  check(!memcmp(&before, &after, sizeof before), p, "the process is not as it was");
  parts++;
}

/* {==== The files */

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) exit(2);
  fseek(f, 0, SEEK_END);
  size_t n = (size_t)ftell(f);
  char *text = calloc(1, n + 1);
  rewind(f);
  if (!text || fread(text, 1, n, f) != n) exit(2);
  fclose(f);
  return text;
}

static void run_file(const char *path, const char *only) {
  if (HAS_HOOK_ALONE && (strstr(path, "bounded.lua") || strstr(path, "long.lua"))) return;
  char *text = read_file(path), *at = strstr(text, "--- ");
  while (at) {
    char *next = strstr(at, "\n--- "), *end = strchr(at, '\n');
    part p = {.file = path, .name = at + 4, .line = 1};
    for (const char *c = text; c < at; c++) p.line += *c == '\n';
    if (next) *next = 0;
    *end = 0;
    p.text = end + 1;
    while (!strncmp(end + 1, "--! ", 4)) {
      char *line = end + 5;
      end = strchr(line, '\n');
      *end = 0;
      read_setting(&p, line);
      p.text = end + 1;
    }
    bool takes_hook = HAS_HOOK_ALONE && p.debug;
    if (!takes_hook && (!only || strstr(p.name, only))) run(&p);
    for (char *c = text; c < (next ? next : at); c++)
      if (!*c) *c = '\n';
    at = next ? next + 1 : NULL;
  }
  free(text);
}

/* {==== The functions of tide_lua.h */

/* Of a state that has not opened tide, of one that has required it, and of one that opens it through require. */
static void test_openings(void) {
  part p = {.file = "spec/stress/sandbox_test.c", .name = "openings"};
  lua_State *L = luaL_newstate();
  tide_lua_options o = {.struct_size = sizeof o};
  luaL_openlibs(L);
  check(!tide_lua_restrict(L, 0) && !tide_lua_quota_set(L, TIDE_QUOTA_LAUNCHES, 1), &p, "nothing is open");
  check(tide_lua_quota_used(L, TIDE_QUOTA_LAUNCHES) == -1 && !tide_lua_kill(tide_lua_get(L), L), &p, "nothing is open");
  lua_getglobal(L, "package");
  lua_pushstring(L, module);
  lua_setfield(L, -2, "cpath");
  check(call(L, "tide = require 'tide' assert(tide.save)", "required") == LUA_OK, &p, "require");
  check(!tide_lua_restrict(L, 0) && !tide_lua_quota_set(L, TIDE_QUOTA_LAUNCHES, 1), &p, "it has no options");
  check(!tide_lua_kill(tide_lua_get(L), L), &p, "it has no quota");
  check(call(L, "tide.mine = 1 assert(setmetatable({}, {__gc = 1}))", "as ever") == LUA_OK, &p, "it is changed");
  o.open = opener;
  check(tide_lua_open(L, &o) != LUA_OK && strstr(lua_tostring(L, -1), "already open"), &p, "it opens twice");
  lua_close(L);
  L = luaL_newstate();
  luaL_openlibs(L);
  lua_getglobal(L, "package");
  lua_pushstring(L, "/nowhere/?.so");
  lua_setfield(L, -2, "cpath");
  o.open = NULL;
  check(tide_lua_open(L, &o) != LUA_OK && strstr(lua_tostring(L, -1), "not found"), &p, "nothing was found");
  lua_settop(L, 1);
  lua_pushstring(L, module);
  lua_setfield(L, -2, "cpath");
  check(tide_lua_open(L, &o) == LUA_OK && lua_gettop(L) == 2, &p, "it does not open through require");
  check(call(L, "assert(not require 'tide'.has 'save' and require 'tide' == package.loaded.tide)", "same") == LUA_OK,
        &p, "require gives another one");
  check(tide_lua_quota_used(L, TIDE_QUOTA_KINDS) == 0 && !tide_lua_quota_set(L, TIDE_QUOTA_KINDS, 1), &p, "no kind");
  lua_close(L);
  L = luaL_newstate(); /* without any of Lua's libraries */
  o.open = opener;
  check(tide_lua_open(L, &o) == LUA_OK && lua_getfield(L, -1, "ones") == LUA_TFUNCTION, &p, "it needs a library");
  lua_pushinteger(L, 3);
  check(lua_pcall(L, 1, 1, 0) == LUA_OK && tide_lua_get(L)->to_tensor(L, -1), &p, "it does not compute");
  check(tide_lua_kill(tide_lua_get(L), L) && tide_lua_get(L)->to_tensor(L, -1), &p, "the host cannot look any more");
  lua_close(L);
}

/* A step of test_orders; 1: it has succeeded. */
static int do_step(lua_State *L, char step) {
  tide_lua_options o = {.struct_size = sizeof o, .capabilities = TIDE_LUA_WAITS};
  lua_settop(L, 0);
  switch (step) {
  case 'r': return call(L, "return require 'tide'", "require") == LUA_OK;
  case 'd': return call(L, "package.loaded.tide = nil", "drop") == LUA_OK;
  case 'p': return call(L, "package.loaded.tide = {}", "put") == LUA_OK;
  case 'w': return tide_lua_reload(L, "game", "other = 1", 9) == LUA_OK;
  case 'f': o.device = "cuda:7"; /* fall through */
  case 'o': o.open = opener;     /* fall through */
  default: return tide_lua_open(L, &o) == LUA_OK;
  }
}

/* In whatever order the module is required and opened, LUA_OK of tide_lua_open means that its options hold. Steps: r:
 * `require`; o, n: tide_lua_open by the opener or, of NULL, by `require`; f: one that fails, for its device; d, p: the
 * script takes the module out of package.loaded, or puts another one there; w: tide_lua_reload. A capital fails. */
static void test_orders(void) {
  static const char *const orders[] = {"rO",   "rN",    "rrN",  "rdO", "rdN",  "rpN", "rwO",  "rwN",   "oO",
                                       "oN",   "orO",   "odRN", "opO", "opN",  "owO", "nO",   "nN",    "nrN",
                                       "ndRN", "nwrNO", "Fo",   "Fn",  "FrON", "pN",  "pNdn", "pNdrO", "pNo"};
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    part p = {.file = "spec/stress/sandbox_test.c", .name = orders[i]};
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    lua_getglobal(L, "package");
    lua_pushstring(L, module);
    lua_setfield(L, -2, "cpath");
    bool has_options = false;
    for (const char *c = orders[i]; *c; c++) {
      bool fails = *c < 'a', was_open = tide_lua_get(L) != NULL;
      check(do_step(L, fails ? (char)(*c + 'a' - 'A') : *c) == !fails, &p, fails ? "it succeeds" : "it fails");
      check(*c == 'O' || *c == 'N' || *c == 'R' || *c == 'F' || !fails, &p, "no such step");
      check(!fails || lua_type(L, -1) == LUA_TSTRING || lua_type(L, -1) == LUA_TTABLE, &p, "no message");
      has_options |= *c == 'o' || *c == 'n';
      check((tide_lua_quota_used(L, TIDE_QUOTA_LAUNCHES) >= 0) == has_options, &p, "its options do not hold");
      check(!was_open || tide_lua_get(L), &p, "a failure has closed the module");
    }
    lua_close(L);
  }
}

static lua_State *opened(const tide_lua_options *o, int expected, const char *message, part *p) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_getglobal(L, "package");
  lua_pushstring(L, module);
  lua_setfield(L, -2, "cpath");
  lua_settop(L, 0);
  int status = tide_lua_open(L, o);
  tide_lua_error_info e = {.message = ""};
  if (status != LUA_OK) tide_lua_error(L, -1, &e);
  check(status == LUA_OK || (!tide_lua_get(L) && !tide_lua_to_tensor(L, -1)), p, "it is half open");
  const char *text = e.message;
  check(status == expected && strstr(text, message), p, status == LUA_OK ? message : text);
  lua_settop(L, 1);
  if (status == LUA_OK) lua_setglobal(L, "tide");
  return L;
}

/* Options that are none, or not all of them, and a module that is opened in a coroutine. */
static void test_options(void) {
  part p = {.file = "spec/stress/sandbox_test.c", .name = "options"};
  lua_State *L = opened(NULL, LUA_OK, "", &p);
  check(call(L, "assert(not tide.has 'save' and tide.ones(2):sum():item() == 2)", "null") == LUA_OK, &p, "NULL");
  lua_close(L);
  tide_lua_options o = {.capabilities = TIDE_LUA_ALL, .open = opener}; /* its struct_size is missing */
  lua_close(opened(&o, LUA_ERRRUN, "options.struct_size: got 0", &p));
  o.struct_size = offsetof(tide_lua_options, quota);
  lua_close(opened(&o, LUA_ERRRUN, "options.struct_size: got ", &p));
  o.struct_size = offsetof(tide_lua_options, device); /* of a host that was built with the first version */
  o.device = "nowhere";
  lua_close(opened(&o, LUA_OK, "", &p));
  o.struct_size = sizeof o, o.device = NULL, o.gc = (tide_lua_gc)77;
  lua_close(opened(&o, LUA_ERRRUN, "options.gc: got 77", &p));
  o.gc = TIDE_LUA_GC_AUTO, o.device = "cuda:7";
  lua_close(opened(&o, LUA_ERRRUN, "cuda:7", &p));
  o.device = NULL, o.capabilities = 0, o.quota[TIDE_QUOTA_INSTRUCTIONS] = 100000;
  L = luaL_newstate();
  luaL_openlibs(L);
  lua_State *co = lua_newthread(L);
  if (tide_lua_open(co, &o) == LUA_OK) {
    check(call(co, "while true do end", "loop") != LUA_OK, &p, "it goes on in the coroutine");
    check(call(L, "while true do end", "loop") != LUA_OK, &p, "it goes on");
  } else
    check(strstr(luaL_tolstring(co, -1, NULL), "expected the main coroutine"), &p, lua_tostring(co, -1));
  lua_close(L);
}

/* A host tries again, in the same state, where the first device is not there. */
static void test_again(void) {
  part p = {.file = "spec/stress/sandbox_test.c", .name = "opened again"};
  static const char as_ever[] =
      "for i = 1, 3000 do assert(pcall(tostring, i)) end\n"
      "assert(load 'return 1'() == 1 and getmetatable(setmetatable({}, {})) and not pcall(error))\n"
      "assert(('x'):rep(3):find 'xx' == 1 and coroutine.wrap(function() return 2 end)() == 2)";
  tide_lua_options o = {.struct_size = sizeof o, .open = opener, .device = "cuda:7"};
  o.quota[TIDE_QUOTA_INSTRUCTIONS] = 1000000;
  lua_State *L = opened(&o, LUA_ERRRUN, "cuda:7", &p);
  lua_gc(L, LUA_GCCOLLECT, 0);
  check(call(L, as_ever, "not opened") == LUA_OK, &p, lua_tostring(L, -1));
  o.device = "cpu";
  check(tide_lua_open(L, &o) == LUA_OK, &p, "it does not open any more");
  lua_setglobal(L, "tide");
  lua_gc(L, LUA_GCCOLLECT, 0);
  check(call(L, as_ever, "opened") == LUA_OK && call(L, "tide.ones(3)", "opened") == LUA_OK, &p, lua_tostring(L, -1));
  check(call(L, "while true do pcall(string.rep, 'x', 3) end", "loop") != LUA_OK, &p, "it goes on");
  lua_close(L);
}

/* What is restricted later is as if it had not been granted: of Lua's own library, too. */
static void test_restricted(void) {
  part p = {.file = "spec/stress/sandbox_test.c", .name = "a restriction"};
  tide_lua_options o = {.struct_size = sizeof o, .capabilities = TIDE_LUA_ALL, .open = opener};
  lua_State *L = opened(&o, LUA_OK, "", &p);
  static const char before[] = "code = string.dump(function() return 1 end)\n"
                               "saved, saved_file, saved_do, saved_set = load, loadfile, dofile, setmetatable\n"
                               "assert(load(code)() == 1 and loadfile('/nowhere') == nil)\n"
                               "assert(setmetatable({}, {__gc = function() end}))",
                    after[] = "for _, f in ipairs {load, saved} do\n"
                              "  assert(not f(code) and not f(code, 'x', 'b') and f 'return 1'() == 1)\n"
                              "end\n"
                              "assert(not loadfile and not dofile)\n"
                              "for _, f in ipairs {saved_file, saved_do} do\n"
                              "  local ok, e = pcall(f, 'spec/sandbox/frozen.lua')\n"
                              "  assert(not ok and e.kind == 'PermissionError', tostring(e))\n"
                              "end\n"
                              "for _, f in ipairs {setmetatable, saved_set} do\n"
                              "  assert(not pcall(f, {}, {__gc = function() end}) and f({}, {}))\n"
                              "end\n"
                              "assert(type(getmetatable '') ~= 'table')";
  check(call(L, before, "before") == LUA_OK, &p, lua_tostring(L, -1));
  check(tide_lua_restrict(L, 0) == 1, &p, "it cannot be restricted");
  check(call(L, after, "after") == LUA_OK, &p, lua_tostring(L, -1));
  check(tide_lua_restrict(L, TIDE_LUA_ALL) == 1 && call(L, after, "again") == LUA_OK, &p, "it came back");
  lua_close(L);
}

static void write_file(char *path, const char *text, size_t size) {
  int file = mkstemp(path);
  if (file < 0 || write(file, text, size) != (ssize_t)size || close(file)) exit(2);
}

/* Files that a script may read hold no machine code for it either. */
static void test_bytecode_files(void) {
  part p = {.file = "spec/stress/sandbox_test.c", .name = "bytecode in a file"};
  char code[] = "/tmp/tide_sandbox_XXXXXX", text[] = "/tmp/tide_sandbox_XXXXXX";
  size_t size;
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (luaL_dostring(L, "return string.dump(function() return 1 end)")) exit(2);
  const char *bytes = lua_tolstring(L, -1, &size);
  write_file(code, bytes, size), write_file(text, "return 7", 8);
  lua_close(L);
  tide_lua_options o = {.struct_size = sizeof o, .capabilities = TIDE_LUA_FILES, .open = opener};
  L = opened(&o, LUA_OK, "", &p);
  lua_pushstring(L, code), lua_setglobal(L, "code");
  lua_pushstring(L, text), lua_setglobal(L, "text");
  int status = call(L,
                    "assert(not loadfile(code) and not loadfile(code, 'b') and not pcall(dofile, code))\n"
                    "assert(loadfile(text)() == 7 and loadfile(text, 'bt', {})() == 7 and dofile(text) == 7)",
                    "files");
  check(status == LUA_OK, &p, lua_tostring(L, -1));
  lua_close(L);
  unlink(code), unlink(text);
}

/* A state with a device of its own: what names none is made there, in every coroutine, and nowhere else. */
static bool places(lua_State *L, const char *device) {
  static const char text[] = "local d = ...\n"
                             "local function at(d) return tostring(tide.zeros(2).device) == d and\n"
                             "  tostring(tide.tensor{1, 2}.device) == d and tostring(tide.rand(2).device) == d and\n"
                             "  tostring(tide.arange(3).device) == d and tostring(tide.get_default_device()) == d and\n"
                             "  tostring(tide.zeros(2, {device = 'cpu'}).device) == 'cpu' end\n"
                             "return at(d) and coroutine.wrap(at)(d)";
  lua_settop(L, 0);
  if (luaL_loadstring(L, text) != LUA_OK) return false;
  lua_pushstring(L, device);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) printf("%s\n", luaL_tolstring(L, -1, NULL));
  return lua_isboolean(L, 1) && lua_toboolean(L, 1);
}

static lua_State *open_on(const char *device, int expected) {
  lua_State *L = luaL_newstate();
  tide_lua_options o = {.struct_size = sizeof o, .open = opener, .device = device};
  o.capabilities = TIDE_LUA_GLOBALS | TIDE_LUA_WAITS;
  luaL_openlibs(L);
  if (tide_lua_open(L, &o) != expected) printf("sandbox_test: %s\n", lua_tostring(L, -1)), failed = 1;
  if (expected == LUA_OK) lua_setglobal(L, "tide");
  return L;
}

static void test_device(void) {
  part p = {.file = "spec/stress/sandbox_test.c", .name = "a device of its own"};
  lua_State *L = open_on("cuda:1", LUA_OK), *other = open_on(NULL, LUA_OK), *cpu = open_on("cpu", LUA_OK);
  check(places(L, "cuda:1") && places(other, "cpu") && places(cpu, "cpu"), &p, "a tensor is elsewhere");
  check(call(L, "assert(tide.cuda.current_device() == 1)", "current") == LUA_OK, &p, "another device is current");
  TIDE(tide_current_bind)(NULL);
  check(TIDE(tide_default_device)() == TIDE_CPU && TIDE(tide_current_device)() == 0, &p,
        "the host's device is another");
  lua_settop(L, 0);
  lua_State *co = lua_newthread(L); /* resumed by nobody that has a device */
  int n;
  bool ok = luaL_loadstring(co, "return tide.zeros(1).device.index + tide.cuda.current_device()") == LUA_OK;
  check(ok && lua_resume(co, NULL, 0, &n) == LUA_OK && lua_tointeger(co, -1) == 2, &p, "a coroutine of the host's");
  check(call(L, "tide.set_default_device('cuda:0')", "set") == LUA_OK && places(L, "cuda:0"), &p,
        "it cannot be changed");
  check(places(other, "cpu"), &p, "another state's has changed");
  check(call(other, "tide.set_default_device('cuda:1')", "set") == LUA_OK && places(other, "cuda:1"), &p, "set");
  check(places(L, "cuda:0") && places(cpu, "cpu"), &p, "the process's has changed it");
  check(call(other, "tide.set_default_device('cpu')", "set") == LUA_OK, &p, "set");
  lua_close(L), lua_close(other), lua_close(cpu);
  L = open_on("cuda", LUA_OK);
  check(call(L, "assert(tide.zeros(1).device.index == 0) tide.cuda.set_device(1)", "set") == LUA_OK, &p,
        lua_tostring(L, -1));
  check(call(L, "assert(tide.zeros(1).device.index == 1)", "current") == LUA_OK, &p, "not the current device");
  lua_close(L);
  L = luaL_newstate();
  tide_lua_options bad = {.struct_size = sizeof bad, .open = opener, .indexes = (tide_lua_indexes)2};
  check(tide_lua_open(L, &bad) != LUA_OK && strstr(luaL_tolstring(L, -1, NULL), "options.indexes: got 2"), &p,
        "indexes");
  lua_close(L);
  L = open_on("cuda:7", LUA_ERRRUN);
  check(strstr(luaL_tolstring(L, -1, NULL), "cuda:7"), &p, lua_tostring(L, -1));
  lua_close(L);
  L = open_on("gpu", LUA_ERRRUN);
  check(strstr(luaL_tolstring(L, -1, NULL), "options.device: got string 'gpu', expected"), &p, lua_tostring(L, -1));
  lua_close(L);
}

/* {==== Random calls */

/* The program is the host's own, so it has all of Lua's libraries and lets finalisers call tide, which has been granted
 * nothing, or waits alone. Some have few launches, others are killed somewhere. */
static void run_calls(int64_t seed, const char *calls) {
  enum { MOST = 1 << 18 };
  part p = {
      .file = "spec/stress/calls.lua", .name = "random calls", .line = seed, .granted = seed % 2 ? TIDE_LUA_WAITS : 0};
  lua_State *L = luaL_newstate();
  char text[24];
  tide_cpu_memory_stats memory;
  tide_lua_options o = {.struct_size = sizeof o, .capabilities = p.granted, .open = opener};
  o.quota[TIDE_QUOTA_HOST_BYTES] = o.quota[TIDE_QUOTA_DEVICE_BYTES] = MOST;
  if (seed % 5 == 0) o.quota[TIDE_QUOTA_LAUNCHES] = 20 * (1 + seed % 97);
  o.quota[TIDE_QUOTA_KERNEL_MICROSECONDS] = 1000 + seed % 20000 * 7919 % 20000;
  if (seed % 4 == 2) p.kill = 1 + (int)(seed % 150 * 37 % 150);
  o.indexes = seed % 3 ? TIDE_LUA_FROM_ONE : TIDE_LUA_FROM_ZERO;
  running = p.name;
  alarm(300);
  process before = look();
  TIDE(tide_cpu_memory_reset_peak)();
  luaL_openlibs(L);
  lua_getglobal(L, "setmetatable");
  if (tide_lua_open(L, &o) != LUA_OK) exit(2);
  lua_pop(L, 1);
  lua_setglobal(L, "setmetatable");
  snprintf(text, sizeof text, "%lld", (long long)seed);
  lua_newtable(L);
  const char *const arguments[] = {"--calls", calls, text};
  for (int i = 0; i < 3; i++) lua_pushstring(L, arguments[i]), lua_rawseti(L, -2, i + 1);
  lua_setglobal(L, "arg");
  killer k = {tide_lua_get(L), L, p.kill};
  pthread_t thread;
  if (p.kill && pthread_create(&thread, NULL, kill_later, &k)) exit(2);
  bool ok = luaL_dofile(L, p.file) == LUA_OK;
  if (p.kill) pthread_join(thread, NULL);
  const char *message = ok ? "" : luaL_tolstring(L, -1, NULL);
  bool killed = p.kill && strstr(message, "the host has ended this work");
  check(ok || killed || (o.quota[TIDE_QUOTA_LAUNCHES] && strstr(message, "that the host allows")), &p, message);
  memcpy(p.quota, o.quota, sizeof p.quota);
  check_quotas(L, &p);
  TIDE(tide_cpu_memory_get_stats)(&memory);
  check(memory.peak_bytes <= before.cpu + MOST, &p, "more host memory was taken than the quota says");
  lua_close(L);
  process after = look();
  check(!memcmp(&before, &after, sizeof before), &p, "the process is not as it was");
}

int main(int argc, char **argv) {
  setenv("TIDE_SIM_DEVICES", "2", 0);
  glob_t files;
  if (argc < 2) return 2;
  module = argv[1];
  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGALRM, on_alarm);
  void *tide = dlopen(module, RTLD_NOW);
  if (!tide) return printf("sandbox_test: %s\n", dlerror()), 2;
  opener = (lua_CFunction)(size_t)dlsym(tide, "luaopen_tide");
  take_leak();
  if (argc > 4 && !strcmp(argv[2], "--calls")) {
    for (int64_t seed = atoll(argv[3]), last = atoll(argv[4]); seed <= last; seed++)
      run_calls(seed, argc > 5 ? argv[5] : "300");
    return failed;
  }
  if (glob("spec/sandbox/*.lua", 0, NULL, &files)) return 2;
  test_openings();
  test_orders();
  test_options();
  test_again();
  test_restricted();
  test_bytecode_files();
  test_device();
  for (size_t i = 0; i < files.gl_pathc; i++) run_file(files.gl_pathv[i], argc > 2 ? argv[2] : NULL);
  globfree(&files);
  printf("sandbox_test: %d escapes and abuses\n", parts);
  return failed;
}
