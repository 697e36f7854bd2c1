/* profiler_test.c: recordings from C, on simulated devices: threads that work while recordings begin and end, both ways
 * of measuring, and what is left behind where the runtime ends in the middle of one. */
#include "tide/profiler.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "watch/profiler.h"

static void start(int devices) {
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = devices, .sim_memory = 64 << 20}));
}

static tide_tensor *ones(int64_t n, int device) {
  tide_tensor *x = NULL;
  tide_options options = TIDE_OPTIONS;
  options.device = device;
  OK(tide_full(&x, &n, 1, (tide_scalar){.kind = 'F', .re = 1}, &options));
  return x;
}

static void add(const tide_tensor *x) {
  tide_tensor *y = NULL;
  OK(tide_binary(&y, TIDE_OP_add, x, x, NULL));
  tide_tensor_release(y);
}

static int64_t calls_of(const tide_profile *p, const char *op, int device) {
  tide_profile_row *rows;
  int64_t n, calls = 0;
  OK(tide_profile_rows(&rows, &n, p));
  for (int64_t i = 0; i < n; i++)
    if (!strcmp(rows[i].op, op) && rows[i].device == device) calls += rows[i].calls;
  free(rows);
  return calls;
}

/* Work that overlaps is drawn in lanes of its track, and each lane of each track is a thread of its own in the file. */
static void lanes(void) {
  static const struct {
    int device, stream, start, end, lane;
  } of[] = {{0, 1, 0, 10, 0},  {0, 2, 0, 5, 0},   {0, 2, 1, 3, 1},   {0, 2, 2, 4, 2},   {0, 2, 3, 4, 1},
            {0, 2, 5, 9, 0},   {0, 1, 10, 20, 0}, {0, 3, 30, 31, 0}, {1, 1, 1, 5, 0},   {1, 1, 4, 6, 1},
            {1, 1, 5, 15, 0},  {1, 1, 6, 8, 1},   {1, 2, 7, 9, 0},   {1, 1, 16, 17, 0}, {1, 1, 17, 18, 0},
            {1, 3, 18, 19, 0}, {1, 3, 19, 20, 0}};
  const uint32_t n = sizeof of / sizeof *of;
  tide_profile *p = calloc(1, sizeof *p);
  uint32_t used = 0;
  for (uint32_t i = 0; i < n; i++) { /* from the last on: they are sorted */
    tide__span *s = TIDE__ADD(p, span);
    s->device = of[n - 1 - i].device, s->stream = (uint64_t)of[n - 1 - i].stream, s->op = -1;
    s->start = (uint64_t)of[n - 1 - i].start, s->end = (uint64_t)of[n - 1 - i].end;
  }
  tide__profile_finish(p);
  CHECK(p->track.n == 6);
  for (uint32_t i = 0; i < n; i++) {
    const tide__span *s = &p->span.at[i];
    for (uint32_t k = 0; k < n; k++)
      if (of[k].device == s->device && (uint64_t)of[k].stream == s->stream && (uint64_t)of[k].start == s->start)
        CHECK(s->lane == (uint32_t)of[k].lane && p->track.at[s->track].traced == s->stream);
  }
  for (size_t i = 0; i < p->track.n; i++)
    for (uint32_t k = p->track.at[i].first; k < p->track.at[i].first + p->track.at[i].lanes; k++) {
      CHECK(k > 0 && k < 32 && !(used >> k & 1));
      used |= 1u << k;
    }
  free(p->span.at), free(p->track.at), free(p);
}

static void both_ways(void) {
  for (uint32_t flags = 0; flags <= TIDE_PROFILE_EVENTS; flags++) {
    tide_profile *p = NULL, *none = NULL;
    tide_profile_totals t;
    start(2);
    tide_tensor *x = ones(100, 0), *y = ones(100, 1), *c = ones(100, TIDE_CPU);
    CHECK(tide_profile_end(&none) == TIDE_STATE && !none);
    CHECK(tide_profile_begin("test", TIDE_PROFILE_EVENTS << 1) == TIDE_VALUE);
    OK(tide_profile_begin("test", flags));
    CHECK(tide_profile_begin("another", flags) == TIDE_STATE);
    for (int i = 0; i < 10; i++) add(x), add(y), add(c);
    OK(tide_profile_end(&p));
    add(x);
    tide_profile_totals_get(&t, p);
    CHECK(!strcmp(t.source, flags ? "events" : "sim") && t.lost == 0 && t.operations == 30);
    CHECK(t.device[0].used && t.device[1].used && !t.device[2].used);
    CHECK(t.device[0].busy_ms > 0 && t.device[0].busy_ms <= t.wall_ms && t.device[0].copy_ms == 0);
    CHECK(calls_of(p, "add", 0) == 10 && calls_of(p, "add", 1) == 10 && calls_of(p, "add", TIDE_CPU) == 10);
    tide_tensor_release(x), tide_tensor_release(y), tide_tensor_release(c);
    tide_shutdown();
    CHECK(calls_of(p, "add", 0) == 10); /* what was recorded outlives the runtime */
    tide_profile_free(p);
    tide_profile_free(NULL);
  }
}

/* Each way is counted as what it is, however it is measured. */
static void copies(void) {
  enum { N = 100, BYTES = N * sizeof(float) };
  for (uint32_t flags = 0; flags <= TIDE_PROFILE_EVENTS; flags++) {
    tide_profile *p = NULL;
    tide_profile_totals t;
    tide_scalar first;
    start(2);
    tide_tensor *x = ones(N, 0), *y = ones(N, 1), *c = ones(N, TIDE_CPU), *one = ones(1, 0);
    OK(tide_profile_begin("test", flags));
    OK(tide_copy(x, c, false));
    for (int i = 0; i < 2; i++) OK(tide_copy(c, x, false));
    OK(tide_item(&first, one));
    for (int i = 0; i < 4; i++) OK(tide_copy(i % 2 ? x : y, i % 2 ? y : x, false));
    for (int d = 0; d < 2; d++) OK(tide_device_synchronize(d));
    OK(tide_profile_end(&p));
    tide_profile_totals_get(&t, p);
    CHECK(t.to_device.calls == 1 && t.to_host.calls == 3 && t.between.calls == 4);
    CHECK(t.to_device.bytes == BYTES && t.to_host.bytes == 2 * BYTES + 4 && t.between.bytes == 4 * BYTES);
    tide_tensor_release(x), tide_tensor_release(y), tide_tensor_release(c), tide_tensor_release(one);
    tide_profile_free(p);
    tide_shutdown();
  }
}

static void ends_in_the_middle(void) {
  for (uint32_t flags = 0; flags <= TIDE_PROFILE_EVENTS; flags++) {
    tide_profile *p = NULL;
    start(1);
    tide_tensor *x = ones(100, 0);
    OK(tide_profile_begin("test", flags));
    add(x);
    OK(tide_device_synchronize(0));
    tide_tensor_release(x);
    tide_shutdown();
    CHECK(tide_profile_end(&p) == TIDE_STATE && !p);
    start(1);
    OK(tide_profile_begin("test", flags));
    OK(tide_profile_end(&p));
    tide_profile_free(p);
    tide_shutdown();
  }
}

static _Atomic bool stop;

/* Waits now and then: a simulated device takes any number of operations, and where it is slower than who queues them,
 * each recording's end would find more of them than the one before. */
static void *work(void *arg) {
  int device = (int)(intptr_t)arg;
  tide_tensor *x = ones(1000, device);
  for (int i = 1; !stop; i++) {
    if (device >= 0 && i % 64 == 0) OK(tide_device_synchronize(device));
    tide_nvtx_range_push("range");
    add(x);
    uint64_t id = tide_nvtx_range_start("free");
    add(x);
    OK(tide_nvtx_range_end(id));
    CHECK(tide_nvtx_range_pop() == 0);
  }
  tide_tensor_release(x);
  return NULL;
}

static void threads(void) {
  pthread_t thread[3];
  start(2);
  stop = false;
  for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, work, (void *)(intptr_t)(i - 1));
  for (uint32_t round = 0; round < 20; round++) {
    tide_profile *p = NULL;
    tide_profile_totals t;
    OK(tide_profile_begin("test", round % 2));
    tide_tensor *x = ones(10, 0);
    for (int i = 0; i < 20; i++) add(x);
    tide_tensor_release(x);
    OK(tide_profile_end(&p));
    tide_profile_totals_get(&t, p);
    CHECK(t.operations >= 20);
    CHECK(calls_of(p, "add", 0) >= 20);
    OK(tide_profile_write(p, "/dev/null"));
    tide_profile_free(p);
  }
  stop = true;
  for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
  tide_shutdown();
}

static void ranges(void) {
  uint64_t a = tide_nvtx_scope_enter("a"), b = tide_nvtx_scope_enter("b");
  CHECK(a && b && a != b);
  tide_nvtx_scope_leave(a);
  CHECK(tide_nvtx_range_push("c") == 1);
  tide_nvtx_scope_leave(a);
  CHECK(tide_nvtx_range_pop() == 1);
  tide_nvtx_scope_leave(b);
  CHECK(tide_nvtx_range_pop() == -1);
  CHECK(tide_nvtx_range_end(12345678) == TIDE_VALUE);
}

int main(void) {
  CHECK(tide_profile_begin("test", 0) == TIDE_STATE);
  CHECK(tide_profile_check_path("/nowhere/x") == TIDE_FILE && tide_profile_check_path(NULL) == TIDE_ARGUMENT);
  ranges();
  lanes();
  both_ways();
  copies();
  ends_in_the_middle();
  threads();
  printf("%s\n", failures ? "FAILED" : "ok");
  return failures != 0;
}
