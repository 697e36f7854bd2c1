/* sanitizer_test.c: the stream sanitizer from C: what a host is told, what a failed operation leaves behind, views that
 * are hard to compare, many threads at once while it is switched on and off, and that it ends with the runtime. */
#include "tensor/operand.h"
#include "watch/sanitizer.h"

#include <stdlib.h>

#include "check.h"

static void start(void) {
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = 2, .sim_memory = 64 << 20}));
}

static tide_tensor *zeros(int64_t n, int device) {
  tide_tensor *x = NULL;
  tide_options options = TIDE_OPTIONS;
  options.dtype = TIDE_FLOAT32, options.device = device;
  OK(tide_full(&x, &n, 1, tide_float(0), &options));
  return x;
}

static tide_stream *stream(int device) {
  tide_stream *s = NULL;
  OK(tide_stream_new(&s, device, 0));
  return s;
}

static tide_status fill_on(tide_stream *s, tide_tensor *x) {
  tide_stream *before = tide_current_selected(tide_stream_device(s));
  OK(tide_current_set_stream(s));
  tide_status status = tide_fill(x, tide_float(1));
  tide_current_select(tide_stream_device(s), before);
  return status;
}

/* A hook like a script's: the line is a variable. */
static _Thread_local int line;
static int site(void *user, const char **source) {
  *source = user;
  return line;
}

static void told(void) {
  start();
  CHECK(tide_sanitizer_enable((tide_sanitizer_action)2) == TIDE_VALUE);
  CHECK(tide_sanitizer_enable((tide_sanitizer_action)-1) == TIDE_VALUE);
  tide_sanitizer_disable();
  CHECK(!tide_sanitizer_is_enabled());
  tide_site_set(site, "@game.lua");
  OK(tide_sanitizer_enable(TIDE_SANITIZER_ERROR));
  CHECK(tide_sanitizer_is_enabled() && tide_sanitizer_errors() == 0 && tide_sanitizer_count() == 0);
  tide_race race;
  CHECK(!tide_error_race(&race) && !tide_sanitizer_error(&race, 0) && !tide_sanitizer_error(&race, -1));
  tide_stream *s = stream(1);
  line = 3;
  tide_tensor *x = zeros(10, 1);
  line = 4;
  CHECK(fill_on(s, x) == TIDE_STATE);
  CHECK(tide_error_race(&race));
  CHECK(!strcmp(race.earlier.op, "fill") && !strcmp(race.earlier.line, "game.lua:3") && race.earlier.is_default);
  CHECK(!strcmp(race.later.op, "fill") && !strcmp(race.later.line, "game.lua:4") && !race.later.is_default);
  CHECK(race.later.stream == tide_stream_handle(s) && race.later.device == 1 && race.later.write);
  CHECK(race.first == 0 && race.last == 40 && race.count == 1 && !race.later.replay[0]);
  CHECK(strstr(race.message, race.edge) && !strcmp(tide_error_get()->message, race.message));
  CHECK(tide_sanitizer_errors() == 1 && tide_sanitizer_error(&race, 0) && !strcmp(race.later.line, "game.lua:4"));
  CHECK(tide_stream_new(&s, 99, 0) != TIDE_OK && !tide_error_race(&race)); /* another error */
  tide_sanitizer_disable();
  CHECK(tide_sanitizer_count() == 1);
  OK(tide_device_synchronize(1)); /* or the thread sanitizer sees the race too */
  OK(fill_on(s, x));
  OK(tide_device_synchronize(1));
  tide_site_set(NULL, NULL);
  tide_tensor_release(x);
  tide_stream_release(s);
  tide_shutdown();
}

static tide_status pretend(tide_tensor *x, tide_stream *s, tide_status outcome) {
  tide__observe_operands();
  tide__observe_operand(x, true);
  TIDE_TRY(tide__observe_launch(s, 0, TIDE__LAUNCH_fill, 0, NULL, NULL));
  tide__observe_queued(outcome);
  return TIDE_OK;
}

static void failures_leave_nothing(void) {
  start();
  tide_stream *a = stream(0), *b = stream(0);
  tide_tensor *x = zeros(10, 0);
  OK(tide_device_synchronize(0));
  OK(tide_sanitizer_enable(TIDE_SANITIZER_ERROR));
  OK(pretend(x, a, TIDE_ACCELERATOR));
  OK(pretend(x, b, TIDE_OK));
  CHECK(pretend(x, a, TIDE_OK) == TIDE_STATE);
  CHECK(pretend(x, a, TIDE_OK) == TIDE_STATE); /* what was refused is not there */
  OK(pretend(x, b, TIDE_OK));
  CHECK(tide_sanitizer_errors() == 1 && tide_sanitizer_count() == 2);
  tide_sanitizer_disable();
  tide_tensor_release(x);
  tide_stream_release(a);
  tide_stream_release(b);
  tide_shutdown();
}

static tide__region region(int64_t first, int64_t run, int n, const int64_t *size, const int64_t *stride) {
  tide__region r = {.first = first, .run = run, .n = n, .last = first + run};
  for (int d = 0; d < n; d++) {
    r.size[d] = size[d], r.stride[d] = stride[d];
    r.last += (size[d] - 1) * stride[d];
  }
  return r;
}

/* Cases that take long to search in a simple way, and joining. */
static void regions(void) {
  const int64_t many[] = {1 << 20, 1 << 20}, narrow[] = {1000003, 1000003 * 7}, wide[] = {1000033, 1000033 * 5};
  tide__region a = region(0, 4, 2, many, narrow), b = region(17, 4, 2, many, wide);
  (void)tide__region_meets(&a, &b); /* whatever it says, it ends */
  const int64_t rows[] = {1 << 30}, pitch[] = {1 << 12};
  a = region(0, 64, 1, rows, pitch), b = region(64, 64, 1, rows, pitch);
  CHECK(!tide__region_meets(&a, &b) && tide__region_meets(&a, &a));
  CHECK(tide__region_join(&a, &b) && a.run == 128 && tide__region_covers(&a, &b));
  b = region(0, 1, 1, (int64_t[]){3}, (int64_t[]){(int64_t)1 << 40});
  CHECK(tide__region_meets(&a, &b));
  b = region(1 << 12, 64, 0, NULL, NULL);
  CHECK(tide__region_meets(&a, &b) && !tide__region_covers(&b, &a) && !tide__region_join(&a, &b));
  a = region(0, 8, 1, (int64_t[]){4}, (int64_t[]){16}), b = region(8, 8, 1, (int64_t[]){4}, (int64_t[]){16});
  CHECK(!tide__region_meets(&a, &b) && tide__region_join(&a, &b) && a.n == 0 && a.first == 0 && a.run == 64);
}

enum { ROUNDS = 300, THREADS = 4 };

static void *worker(void *arg) {
  int device = (int)(uintptr_t)arg % 2;
  tide_stream *s = stream(device), *d;
  OK(tide_stream_default(&d, device));
  for (int i = 0; i < ROUNDS; i++) {
    tide_tensor *x = zeros(16 + i % 7, device);
    OK(tide_stream_wait_stream(s, d));
    OK(fill_on(s, x));
    OK(tide_stream_wait_stream(d, s));
    OK(tide_fill(x, tide_float(2)));
    if (i % 16 == 0) OK(tide_stream_synchronize(s));
    tide_tensor_release(x);
  }
  OK(tide_stream_synchronize(d));
  tide_stream_release(s);
  return NULL;
}

/* On and off at any moment: nothing is orderless, so nothing is ever found. */
static void threads(void) {
  start();
  pthread_t t[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&t[i], NULL, worker, (void *)i) == 0);
  for (int i = 0; i < ROUNDS; i++) {
    OK(tide_sanitizer_enable(i % 2 ? TIDE_SANITIZER_WARN : TIDE_SANITIZER_ERROR));
    for (int k = 0; k < 20; k++) CHECK(tide_sanitizer_errors() == 0);
    if (i % 3 == 0) tide_sanitizer_disable();
  }
  for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
  CHECK(tide_sanitizer_count() == 0);
  tide_sanitizer_disable();
  tide_shutdown();
  CHECK(atomic_load(&tide__sync_watch) == 0);
}

static void restarts(void) {
  setenv("TIDE_CUDA_SANITIZER", "1", 1);
  for (int i = 0; i < 3; i++) {
    start();
    CHECK(tide_sanitizer_is_enabled());
    tide_stream *s = stream(0);
    tide_tensor *x = zeros(10, 0);
    CHECK(fill_on(s, x) == TIDE_STATE);
    OK(tide_stream_synchronize(s));
    tide_shutdown();
    tide_tensor_release(x);
    tide_stream_release(s);
  }
  tide_sanitizer_disable();
  unsetenv("TIDE_CUDA_SANITIZER");
}

int main(void) {
  unsetenv("TIDE_CUDA_SANITIZER");
  told();
  failures_leave_nothing();
  regions();
  threads();
  restarts();
  printf("sanitizer_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
