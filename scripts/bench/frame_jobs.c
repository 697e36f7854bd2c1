/* frame_jobs.c: jobs of scripts that a host spreads over its frames (tide_lua.h, device_budget): so much of the
 * device's time and of its own in each frame, 60 frames a second.
 *
 * Five jobs never end, each in slices of another length, and together they would take several frames' budgets of
 * each frame. For every frame is taken: the device's time from the first of its slices to the end of the last, by
 * events in the stream around them; the host's from tide_frame_begin to the end of tide_frame_end, by the clock and by
 * this thread's. Printed: of each its budget, median, 99th and 99.9th percentile, largest, and how many frames went
 * beyond the budget by more than a tenth; then how often each job had a turn, and how long a slice of it alone takes.
 *
 * usage: build/spec/bench_frame_jobs build/lib/lua/5.4/tide.so [--device cuda] [--frames 36000] [--hz 60]
 *        [--device_budget 2000] [--budget 300] [--size 1048576]
 *        [--sleep 1]
 * The device is an accelerator, the first one. --sleep 1: slices sleep on it, 120 to 1130 us, as the time that a
 * simulated device takes to compute is the host's. Budgets: microseconds. --size: elements of the smallest job's
 * tensor. TIDE_SIM_DEVICES=1 simulates a GPU. */
#include "frames.h"
#include "tide/tide.h"

enum { JOBS = 5, WARM = 60 }; /* frames before what is counted: the first slices tell how long the others take */

static const char text[] =
    "turns = {0, 0, 0, 0, 0} "
    "local function job(k, slice) return function() while true do slice() turns[k] = turns[k] + 1 coroutine.yield() "
    "end end end "
    "local function new(n) return tide.rand(n * size, {device = device}) end "
    "local a, b, c, d = new(1), new(4), new(16), new(64) "
    "local n = math.floor((size * 1.) ^ .5) "
    "local m, product = tide.randn(n, n, {device = device}), tide.empty(n, n, {device = device}) "
    "slices = {function() for _ = 1, 8 do a:mul_(0.9999):add_(1e-4) end end, "
    "function() b:sin_():mul_(2.0):sub_(0.5) end, "
    "function() c:mul_(0.9999) sum = c:sum() end, "
    "function() tide.matmul(m, m, {out = product}) end, "
    "function() d:mul_(0.9999):add_(1e-4) end} "
    "if sleeping then "
    "for k, us in ipairs{120, 310, 470, 690, 1130} do slices[k] = function() tide.cuda._sleep(us * 1000) end end end "
    "jobs = {} for k, slice in ipairs(slices) do jobs[k] = job(k, slice) end";

typedef struct sample {
  double device, wall, cpu; /* microseconds */
} sample;

static void must(tide_status status) {
  if (status == TIDE_OK) return;
  fprintf(stderr, "frame_jobs: %s\n", tide_error_get()->message);
  exit(EXIT_FAILURE);
}

/* The median of five runs of a slice alone. */
static double alone(lua_State *L, int k, int device, tide_event *const e[2]) {
  double t[5], ms;
  for (int i = 0; i < 5; i++) {
    tide_stream *stream;
    must(tide_current_stream(&stream, device));
    must(tide_event_record(e[0], stream));
    lua_getglobal(L, "slices");
    lua_rawgeti(L, -1, k);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) fail(L, "slice");
    lua_settop(L, 0);
    must(tide_event_record(e[1], stream));
    must(tide_event_synchronize(e[1]));
    must(tide_event_elapsed(&ms, e[0], e[1]));
    t[i] = 1e3 * ms;
  }
  qsort(t, 5, sizeof *t, compare);
  return t[2];
}

/* One frame between two events; how long the device took is asked later, when it is done. */
static void run_frame(lua_State *L, sample *s, const tide_frame_options *o, bool begin_jobs, int device,
                      tide_event *const e[2]) {
  tide_stream *stream;
  must(tide_current_stream(&stream, device));
  must(tide_event_record(e[0], stream));
  double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
  if (!tide_frame_begin(L, o)) fail(L, "begin");
  for (int k = 1; begin_jobs && k <= JOBS; k++) {
    lua_getglobal(L, "jobs");
    lua_rawgeti(L, -1, k);
    if (tide_frame_call(L, 0, 0) != LUA_YIELD) fail(L, "job");
    lua_settop(L, 0);
  }
  if (tide_frame_resume(L) != LUA_OK) fail(L, "resume");
  tide_frame_end(L, NULL);
  s->cpu = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
  s->wall = now(CLOCK_MONOTONIC) - wall;
  must(tide_event_record(e[1], stream));
}

static void print_row(const char *name, const sample *s, int n, size_t at, double budget) {
  double *t = malloc((size_t)n * sizeof *t);
  int beyond = 0;
  if (!t) exit(EXIT_FAILURE);
  for (int i = 0; i < n; i++) {
    memcpy(&t[i], (const char *)&s[i] + at, sizeof *t);
    beyond += t[i] > 1.1 * budget;
  }
  qsort(t, (size_t)n, sizeof *t, compare);
  printf("%-22s %8.0f %8.0f %8.0f %8.0f %8.0f %8.2f%%\n", name, budget, t[n / 2], t[(int)(0.99 * n)],
         t[(int)(0.999 * n)], t[n - 1], 100.0 * beyond / n);
  free(t);
}

int main(int argc, char **argv) {
  const char *device_name = option(argc, argv, "--device", "cuda");
  int frames = atoi(option(argc, argv, "--frames", "36000")), hz = atoi(option(argc, argv, "--hz", "60"));
  lua_CFunction opener = open_module(argc, argv);
  if (!opener || frames < 10) {
    fprintf(stderr,
            "usage: %s tide.so [--device cuda] [--frames 36000] [--hz 60] [--device_budget 2000] "
            "[--budget 300] [--size 1048576]\n",
            argv[0]);
    return EXIT_FAILURE;
  }
  const tide_frame_options o = {.struct_size = sizeof o,
                                .budget = atoi(option(argc, argv, "--budget", "300")),
                                .device_budget = atoi(option(argc, argv, "--device_budget", "2000"))};
  char *full = malloc(sizeof text + 80);
  sample *s = calloc((size_t)frames + WARM, sizeof *s);
  if (!full || !s) return EXIT_FAILURE;
  sprintf(full, "size, sleeping = %d, %s ", atoi(option(argc, argv, "--size", "1048576")),
          atoi(option(argc, argv, "--sleep", "0")) ? "true" : "false");
  strcat(full, text);
  lua_State *L = open_state(opener, device_name, full);
  free(full);
  preload(L);
  const int device = 0;
  tide_event *e[2][2];
  for (int i = 0; i < 4; i++) must(tide_event_new(&e[i / 2][i % 2], TIDE_EVENT_TIMING));
  double slice[JOBS];
  for (int k = 0; k < JOBS; k++) slice[k] = alone(L, k + 1, device, e[0]);
  double start = now(CLOCK_MONOTONIC), ms;
  for (int i = 0; i < frames + WARM; i++) {
    run_frame(L, &s[i], &o, i == 0, device, e[i % 2]);
    wait_until(start + (i + 1) * (1e6 / hz), false);
    if (!i) continue;
    must(tide_event_synchronize(e[(i - 1) % 2][1])); /* a frame ago: done, but on a busy machine */
    must(tide_event_elapsed(&ms, e[(i - 1) % 2][0], e[(i - 1) % 2][1]));
    s[i - 1].device = 1e3 * ms;
  }
  printf("%s, %d frames at %d Hz, microseconds\n%-22s %8s %8s %8s %8s %8s %9s\n", device_name, frames, hz, "", "budget",
         "p50", "p99", "p99.9", "max", "> 110 %");
  print_row("device", s + WARM, frames - 1, offsetof(sample, device), (double)o.device_budget);
  print_row("host, by the clock", s + WARM, frames - 1, offsetof(sample, wall), (double)o.budget);
  print_row("host, this thread's", s + WARM, frames - 1, offsetof(sample, cpu), (double)o.budget);
  lua_getglobal(L, "turns");
  for (int k = 0; k < JOBS; k++) {
    lua_rawgeti(L, -1, k + 1);
    printf("job %d: %lld turns, a slice alone %.0f\n", k + 1, (long long)lua_tointeger(L, -1), slice[k]);
    lua_pop(L, 1);
  }
  for (int i = 0; i < 4; i++) tide_event_release(e[i / 2][i % 2]);
  lua_close(L);
  free(s);
  return EXIT_SUCCESS;
}
