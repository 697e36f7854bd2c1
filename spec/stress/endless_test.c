/* endless_test.c: calls that would run for days, of spec/stress/endless.lua: each ends soon after the quota's time, or
 * after the host's interrupt, in bounded memory. Time is the calling thread's own, so a busy machine changes nothing.
 *
 * usage: endless_test tide.so [NAME]      only the calls whose names have this text, each printed with its time */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "module.h"
#include "tide_lua.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMIT_MS = 4, LATE_MS = 1500, GROWTH_KB = 4 << 20 };
#else
enum { LIMIT_MS = 2, LATE_MS = 150, GROWTH_KB = 256 << 10 };
#endif

static const char *running = "";

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e3 + 1e-6 * (double)t.tv_nsec;
}

static void on_alarm(int sig) {
  (void)sig;
  static const char text[] = "\nendless_test: it goes on: ";
  if (write(STDOUT_FILENO, text, sizeof text - 1) < 0 || write(STDOUT_FILENO, running, strlen(running)) < 0) _exit(3);
  _exit(1);
}

static long peak_kb(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_maxrss;
}

static double interrupt_at;
static int is_time(void *user) {
  (void)user;
  return now(CLOCK_MONOTONIC) > interrupt_at;
}

/* With the function at the top, by a quota or by an interrupt. */
static void run(lua_State *L, bool by_quota, bool talks) {
  tide_lua_error_info e = {.message = "", .kind = NULL};
  tide_lua_quota_set(L, TIDE_QUOTA_MICROSECONDS, by_quota ? LIMIT_MS * 1000 : 30000); /* Lua's own loops */
  interrupt_at = now(CLOCK_MONOTONIC) + LIMIT_MS;
  TIDE(tide_interrupt_set)(by_quota ? NULL : is_time, NULL);
  alarm(60);
  long before = peak_kb();
  double begun = now(CLOCK_THREAD_CPUTIME_ID);
  int status = lua_pcall(L, 0, 0, 0);
  double took = now(CLOCK_THREAD_CPUTIME_ID) - begun;
  long grown = peak_kb() - before;
  TIDE(tide_interrupt_set)(NULL, NULL);
  if (status != LUA_OK) tide_lua_error(L, -1, &e);
  if (talks) printf("%8.1f ms %6ld KiB  %s: %s\n", took, grown, running, e.message);
  bool is_late = took > LIMIT_MS + LATE_MS, is_large = grown > GROWTH_KB;
  bool lacks = e.kind && !strcmp(e.kind, "OutOfMemoryError") && !strstr(e.message, "too large");
  if (is_late || is_large || lacks)
    printf("endless_test: %s: %.0f ms of %d, %ld KiB: %s\n", running, took, LIMIT_MS, grown, e.message);
  failed |= is_late || is_large || lacks;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  setenv("TIDE_SIM_DEVICES", "1", 0);
  module = argv[1];
  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGALRM, on_alarm);
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  void *tide = dlopen(module, RTLD_NOW);
  tide_lua_options o = {.struct_size = sizeof o};
  if (tide) o.open = (lua_CFunction)(size_t)dlsym(tide, "luaopen_tide");
  o.quota[TIDE_QUOTA_HOST_BYTES] = o.quota[TIDE_QUOTA_DEVICE_BYTES] = 64 << 20;
  if (!tide || tide_lua_open(L, &o) != LUA_OK) return 2;
  lua_setglobal(L, "tide");
  if (luaL_dofile(L, "spec/stress/endless.lua") != LUA_OK) return printf("%s\n", luaL_tolstring(L, -1, NULL)), 2;
  int calls = (int)luaL_len(L, -1), done = 0, list = lua_gettop(L);
  for (int i = 1; i <= calls; i++) {
    lua_settop(L, list);
    lua_rawgeti(L, list, i);
    lua_rawgeti(L, -1, 1);
    running = lua_tostring(L, -1);
    lua_rawgeti(L, -2, 2);
    if (argc > 2 && !strstr(running, argv[2])) continue;
    run(L, done++ % 4 != 3, argc > 2);
  }
  printf("endless_test: %d calls\n", done);
  lua_close(L);
  return failed || done == 0;
}
