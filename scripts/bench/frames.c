/* frames.c: what scripts cost a host that draws 60 frames a second (tide_lua.h, tide_frame_begin and what follows).
 *
 * In each frame several scripts run one after another, each in a state and a frame of its own, and for each the time
 * from tide_frame_begin to the end of tide_frame_end is taken, of the clock and of this thread alone. Another one is
 * the first in each frame, since that one finds cold caches and a processor that has slept:
 *
 *   empty     a function that does nothing: what the machine itself does to a short frame
 *   work      arithmetic and a table, no tide: what the machine does to a frame as long as `in place` (--work)
 *   in place  50 operations of 256 elements that make nothing
 *   results   50 operations that each make a tensor, which is garbage afterwards
 *   await     the same 50, and tide.await of their sum, which yields and goes on in the next frame
 *   item      the same 50 and their sum's item() outside of a frame: the host waits for the device
 *
 * Printed for each, of the clock, of this thread's and of tide_frame_end: the first frame, the median, the 99th and
 * 99.9th percentile and the largest of the others, in microseconds; then the most of Lua's heap in the first tenth,
 * what it is at the end, and how many functions were waiting at once. Then of the slowest hundredth by the clock, what
 * took the thread's time: its mean, how often the thread gave the processor up (a lock, a wait), how often it was taken
 * away, how many pages it touched first; how many of them came first in their frame; and the times of these.
 *
 * usage: build/spec/bench_frames build/lib/lua/5.4/tide.so [--device cuda] [--frames 10000] [--hz 60] [--spin 1]
 *        [--lazy 1] [--work 250]
 * --hz 0: one frame follows another, without a pause. --spin 1: the thread does not sleep between frames. --lazy 1:
 * without tide.cuda.preload before. --work: microseconds. TIDE_SIM_DEVICES=1 simulates a GPU. */
#include "frames.h"

#include <sys/resource.h>

enum { SCRIPTS = 6, BUDGET = 4000, COLLECT = 200 }; /* microseconds of a frame, and of its collection */

static const struct {
  const char *name, *text;
  bool in_frame;
} scripts[SCRIPTS] = {
    {"empty", "function update() end", true},
    {"work",
     "local t = {} "
     "function update() local s = 0. for i = 1, turns do t[i % 256 + 1] = i s = s + (t[(i * 7) % 256 + 1] or 0) end "
     "end",
     true},
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

typedef struct cost {
  double wall, cpu, collected; /* microseconds; in tide_frame_end */
  int waits, taken, pages;     /* the processor given up and taken away; pages touched first */
  bool first;                  /* in its frame */
} cost;

typedef struct host {
  lua_State *L;
  cost *cost;  /* of each frame */
  size_t heap; /* the most of the first tenth */
  int most_jobs;
} host;

static void run_in_frame(host *h, int frame) {
  const tide_frame_options o = {.struct_size = sizeof o, .budget = BUDGET, .collect = COLLECT};
  tide_frame_stats s = {.struct_size = sizeof s};
  if (!tide_frame_begin(h->L, &o)) fail(h->L, "begin");
  lua_getglobal(h->L, "update");
  if (tide_frame_call(h->L, 0, 0) > LUA_YIELD || tide_frame_resume(h->L) != LUA_OK) fail(h->L, "update");
  tide_frame_end(h->L, &s);
  h->cost[frame].collected = (double)s.collected;
  if (s.jobs > h->most_jobs) h->most_jobs = s.jobs;
}

static void run_outside(host *h) {
  lua_getglobal(h->L, "update");
  if (lua_pcall(h->L, 0, 0, 0) != LUA_OK) fail(h->L, "update");
}

static void run(host *h, int frame, bool in_frame) {
  cost *c = &h->cost[frame];
  struct rusage before, after;
  getrusage(RUSAGE_THREAD, &before);
  double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
  if (in_frame)
    run_in_frame(h, frame);
  else
    run_outside(h);
  c->cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
  c->wall = now(CLOCK_MONOTONIC) - wall;
  getrusage(RUSAGE_THREAD, &after);
  c->waits = (int)(after.ru_nvcsw - before.ru_nvcsw), c->taken = (int)(after.ru_nivcsw - before.ru_nivcsw);
  c->pages = (int)(after.ru_minflt - before.ru_minflt);
}

static size_t heap(lua_State *L) { return ((size_t)lua_gc(L, LUA_GCCOUNT) << 10) + (size_t)lua_gc(L, LUA_GCCOUNTB); }

/* Sets the number of turns of the loop to what takes that long. */
static void set_work(lua_State *L, double microseconds) {
  int turns = 1000;
  for (int i = 0; i < 20; i++) {
    lua_pushinteger(L, turns);
    lua_setglobal(L, "turns");
    double begun = now(CLOCK_MONOTONIC);
    lua_getglobal(L, "update");
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) fail(L, "work");
    double next = turns * microseconds / (now(CLOCK_MONOTONIC) - begun);
    turns = next < 1 ? 1 : next > 1e6 ? 1000000 : (int)next;
  }
}

/* {==== What is printed */

static int by_wall(const void *a, const void *b) { return compare(&((const cost *)a)->wall, &((const cost *)b)->wall); }

/* One of a cost's times, by its place in the struct. The first frame stands alone. */
static void print_times(const cost *c, int n, size_t at) {
  double *t = malloc((size_t)n * sizeof *t);
  if (!t) exit(EXIT_FAILURE);
  for (int i = 0; i < n; i++) memcpy(&t[i], (const char *)&c[i] + at, sizeof *t);
  double first = t[0];
  qsort(t + 1, (size_t)n - 1, sizeof *t, compare);
  printf(" |%8.1f%8.1f%8.1f%8.1f%8.1f", first, t[n / 2], t[(int)(0.99 * n)], t[(int)(0.999 * n)], t[n - 1]);
  free(t);
}

static void print_table(host *hosts, int frames) {
  printf("%-10s", "");
  for (int k = 0; k < 3; k++)
    printf(" |%-8s%8s%8s%8s%8s", (const char *[]){" wall", " cpu", " end"}[k], "p50", "p99", "p99.9", "max");
  printf(" | heap, KiB\n");
  for (int k = 0; k < SCRIPTS; k++) {
    const host *h = &hosts[k];
    printf("%-10s", scripts[k].name);
    print_times(h->cost, frames, offsetof(cost, wall));
    print_times(h->cost, frames, offsetof(cost, cpu));
    print_times(h->cost, frames, offsetof(cost, collected));
    printf(" | %zu, then %zu; %d jobs\n", h->heap >> 10, heap(h->L) >> 10, h->most_jobs);
  }
}

/* Sorts what it prints. */
static void print_slow(const char *name, cost *c, int n) {
  int slow = n / 100 ? n / 100 : 1, firsts = 0, found = 0;
  cost sum = {0};
  cost *first = calloc((size_t)n, sizeof *first);
  if (!first) exit(EXIT_FAILURE);
  qsort(c, (size_t)n, sizeof *c, by_wall);
  for (int i = 0; i < n; i++)
    if (c[i].first) first[found++] = c[i];
  for (int i = n - slow; i < n; i++) {
    sum.wall += c[i].wall, sum.cpu += c[i].cpu, sum.collected += c[i].collected;
    sum.waits += c[i].waits, sum.taken += c[i].taken, sum.pages += c[i].pages, firsts += c[i].first;
  }
  printf("%-10s |%8.1f%8.1f%8.1f%8.2f%8.2f%8.2f%8.2f", name, sum.wall / slow, sum.cpu / slow, sum.collected / slow,
         (double)sum.waits / slow, (double)sum.taken / slow, (double)sum.pages / slow, (double)firsts / slow);
  if (found > 1) print_times(first, found, offsetof(cost, wall));
  printf("\n");
  free(first);
}

static void print_all(host *hosts, int frames) {
  print_table(hosts, frames);
  printf("\n%-10s |%8s%8s%8s%8s%8s%8s%8s | of those first in a frame, wall\n", "slowest 1%", "wall", "cpu", "end",
         "waits", "taken", "pages", "first");
  for (int k = 0; k < SCRIPTS; k++) print_slow(scripts[k].name, hosts[k].cost + 1, frames - 1);
}

static void open_hosts(host *hosts, lua_CFunction opener, const char *device, int frames) {
  for (int k = 0; k < SCRIPTS; k++) {
    hosts[k].L = open_state(opener, device, scripts[k].text);
    hosts[k].cost = calloc((size_t)frames, sizeof *hosts[k].cost);
    if (!hosts[k].cost) exit(EXIT_FAILURE);
  }
}

static void run_frames(host *hosts, int frames, int hz, bool spin) {
  double start = now(CLOCK_MONOTONIC);
  for (int i = 0; i < frames; i++) {
    for (int turn = 0; turn < SCRIPTS; turn++) {
      int k = (i + turn) % SCRIPTS;
      run(&hosts[k], i, scripts[k].in_frame);
      hosts[k].cost[i].first = turn == 0;
      if (i < frames / 10 && heap(hosts[k].L) > hosts[k].heap) hosts[k].heap = heap(hosts[k].L);
    }
    if (hz) wait_until(start + (i + 1) * (1e6 / hz), spin);
  }
}

int main(int argc, char **argv) {
  const char *device = option(argc, argv, "--device", "cpu");
  int frames = atoi(option(argc, argv, "--frames", "10000")), hz = atoi(option(argc, argv, "--hz", "60"));
  bool lazy = atoi(option(argc, argv, "--lazy", "0")), spin = atoi(option(argc, argv, "--spin", "0"));
  host hosts[SCRIPTS] = {{0}};
  lua_CFunction opener = open_module(argc, argv);
  if (!opener || frames < 10) {
    fprintf(stderr, "usage: %s tide.so [--device cuda] [--frames 10000] [--hz 60] [--spin 1] [--lazy 1] [--work 250]\n",
            argv[0]);
    return EXIT_FAILURE;
  }
  open_hosts(hosts, opener, device, frames);
  set_work(hosts[1].L, atof(option(argc, argv, "--work", "250")));
  if (strcmp(device, "cpu") && !lazy) preload(hosts[0].L);
  run_frames(hosts, frames, hz, spin);
  printf("%s, %d frames at %d Hz%s, microseconds\n", device, frames, hz, spin ? ", without sleep" : "");
  print_all(hosts, frames);
  for (int k = 0; k < SCRIPTS; k++) {
    lua_close(hosts[k].L);
    free(hosts[k].cost);
  }
  return EXIT_SUCCESS;
}
