/* frames.c: what scripts cost a host that draws 60 frames a second (tide_lua.h, tide_frame_begin and what follows).
 *
 * In each frame several scripts run one after another, each in a state and a frame of its own, and for each the time
 * from tide_frame_begin to the end of tide_frame_end is taken, of the clock and of this thread alone:
 *
 *   empty     a function that does nothing: what the machine itself does to a frame
 *   in place  50 operations of 256 elements that make nothing
 *   results   50 operations that each make a tensor, which is garbage afterwards
 *   await     the same 50, and tide.await of their sum, which yields and goes on in the next frame
 *   item      the same 50 and their sum's item() outside of a frame: the host waits for the device
 *
 * Printed for each, of the clock, of this thread's and of tide_frame_end: the first frame, the median, the 99th and
 * 99.9th percentile and the largest of the others, in microseconds; then the most of Lua's heap in the first tenth,
 * what it is at the end, and how many functions were waiting at once.
 *
 * usage: build/spec/bench_frames build/lib/lua/5.4/tide.so [--device cuda] [--frames 10000] [--hz 60] [--lazy 1]
 * --hz 0: one frame follows another, without a pause. --lazy 1: without tide.cuda.preload before. TIDE_SIM_DEVICES=1
 * simulates a GPU. */
#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tide_lua.h"

enum { SCRIPTS = 5, BUDGET = 4000, COLLECT = 200 }; /* microseconds of a frame, and of its collection */

static const struct {
  const char *name, *text;
  bool in_frame;
} scripts[SCRIPTS] = {
    {"empty", "function update() end", true},
    {"in place",
     "local x = tide.ones(256, {device = device}) function update() for i = 1, 50 do x:mul_(1.0001) end end", true},
    {"results",
     "local x = tide.ones(256, {device = device}) "
     "function update() local y = x for i = 1, 50 do y = y * 1.0001 end end",
     true},
    {"await",
     "local x, await = tide.ones(256, {device = device}), tide.await "
     "function update() local y = x for i = 1, 50 do y = y * 1.0001 end value = await(y:sum()) end",
     true},
    {"item",
     "local x = tide.ones(256, {device = device}) "
     "function update() local y = x for i = 1, 50 do y = y * 1.0001 end value = y:sum():item() end",
     false},
};

typedef struct host {
  lua_State *L;
  double *wall, *cpu, *collected; /* microseconds of each frame; of them in tide_frame_end */
  size_t heap;                    /* the most of the first tenth */
  int most_jobs;
} host;

static double now(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static void fail(lua_State *L, const char *what) {
  fprintf(stderr, "frames: %s: %s\n", what, L ? luaL_tolstring(L, -1, NULL) : dlerror());
  exit(EXIT_FAILURE);
}

static lua_State *open_state(lua_CFunction opener, const char *device, const char *text) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  tide_lua_options o = {.struct_size = sizeof o, .capabilities = TIDE_LUA_ALL, .open = opener};
  if (tide_lua_open(L, &o) != LUA_OK) fail(L, "open");
  lua_setglobal(L, "tide");
  lua_pushstring(L, device);
  lua_setglobal(L, "device");
  if (luaL_dostring(L, text) != LUA_OK) fail(L, text);
  return L;
}

static void run_in_frame(host *h, int frame) {
  const tide_frame_options o = {.struct_size = sizeof o, .budget = BUDGET, .collect = COLLECT};
  tide_frame_stats s = {.struct_size = sizeof s};
  if (!tide_frame_begin(h->L, &o)) fail(h->L, "begin");
  lua_getglobal(h->L, "update");
  if (tide_frame_call(h->L, 0, 0) > LUA_YIELD || tide_frame_resume(h->L) != LUA_OK) fail(h->L, "update");
  tide_frame_end(h->L, &s);
  h->collected[frame] = (double)s.collected;
  if (s.jobs > h->most_jobs) h->most_jobs = s.jobs;
}

static void run_outside(host *h) {
  lua_getglobal(h->L, "update");
  if (lua_pcall(h->L, 0, 0, 0) != LUA_OK) fail(h->L, "update");
}

static void run(host *h, int frame, bool in_frame) {
  double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
  if (in_frame)
    run_in_frame(h, frame);
  else
    run_outside(h);
  h->cpu[frame] = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
  h->wall[frame] = now(CLOCK_MONOTONIC) - wall;
}

static size_t heap(lua_State *L) { return ((size_t)lua_gc(L, LUA_GCCOUNT) << 10) + (size_t)lua_gc(L, LUA_GCCOUNTB); }

static void wait_until(double t) {
  double left = t - now(CLOCK_MONOTONIC);
  if (left > 0) nanosleep(&(struct timespec){(time_t)(left / 1e6), (long)(1e3 * left) % 1000000000}, NULL);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_times(double *t, int n) {
  double first = t[0];
  qsort(t + 1, (size_t)n - 1, sizeof *t, compare);
  printf(" |%8.1f%8.1f%8.1f%8.1f%8.1f", first, t[n / 2], t[(int)(0.99 * n)], t[(int)(0.999 * n)], t[n - 1]);
}

static const char *option(int argc, char **argv, const char *name, const char *standard) {
  for (int i = 2; i + 1 < argc; i++)
    if (!strcmp(argv[i], name)) return argv[i + 1];
  return standard;
}

int main(int argc, char **argv) {
  const char *device = option(argc, argv, "--device", "cpu");
  int frames = atoi(option(argc, argv, "--frames", "10000")), hz = atoi(option(argc, argv, "--hz", "60"));
  bool lazy = atoi(option(argc, argv, "--lazy", "0"));
  host hosts[SCRIPTS] = {{0}};
  void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  lua_CFunction opener = module ? (lua_CFunction)dlsym(module, "luaopen_tide") : NULL;
  if (!opener || frames < 10) {
    fprintf(stderr, "usage: %s tide.so [--device cuda] [--frames 10000] [--hz 60] [--lazy 1]\n", argv[0]);
    return EXIT_FAILURE;
  }
  for (int k = 0; k < SCRIPTS; k++) {
    hosts[k].L = open_state(opener, device, scripts[k].text);
    double *times = calloc((size_t)frames, 3 * sizeof *times);
    if (!times) return EXIT_FAILURE;
    hosts[k].wall = times, hosts[k].cpu = times + frames, hosts[k].collected = times + 2 * frames;
  }
  double before = now(CLOCK_MONOTONIC);
  if (strcmp(device, "cpu") && !lazy && luaL_dostring(hosts[0].L, "return tide.cuda.preload(device, {wait = true})"))
    fail(hosts[0].L, "preload");
  if (lua_gettop(hosts[0].L))
    printf("%s kernels loaded ahead in %.0f ms\n", lua_tostring(hosts[0].L, -1),
           1e-3 * (now(CLOCK_MONOTONIC) - before));
  double start = now(CLOCK_MONOTONIC);
  for (int i = 0; i < frames; i++) {
    for (int k = 0; k < SCRIPTS; k++) {
      run(&hosts[k], i, scripts[k].in_frame);
      if (i < frames / 10 && heap(hosts[k].L) > hosts[k].heap) hosts[k].heap = heap(hosts[k].L);
    }
    if (hz) wait_until(start + (i + 1) * (1e6 / hz));
  }
  printf("%s, %d frames at %d Hz, microseconds\n%-10s", device, frames, hz, "");
  for (int k = 0; k < 3; k++)
    printf(" |%-8s%8s%8s%8s%8s", (const char *[]){" wall", " cpu", " end"}[k], "p50", "p99", "p99.9", "max");
  printf(" | heap, KiB\n");
  for (int k = 0; k < SCRIPTS; k++) {
    host *h = &hosts[k];
    size_t end = heap(h->L);
    printf("%-10s", scripts[k].name);
    print_times(h->wall, frames);
    print_times(h->cpu, frames);
    print_times(h->collected, frames);
    printf(" | %zu, then %zu; %d jobs\n", h->heap >> 10, end >> 10, h->most_jobs);
    lua_close(h->L);
    free(h->wall);
  }
  return EXIT_SUCCESS;
}
