/* runtime_test.c: starting and ending, errors, dtypes, parallel loops, what is current, streams and events, script
 * lines.
 *
 * Runs on simulated devices; what needs a machine without any asks for a library that is not there. */
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tide/device.h"
#include "tide/sim.h"
#include "check.h"

#define SAYS(text) CHECK(strstr(tide_error_get()->message, text) != NULL)

static void start(int devices) {
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = devices, .sim_memory = 64 << 20}));
}

/* ---- starting and ending ---- */

static void starting(void) {
  bool done;
  CHECK(!tide_is_available() && tide_device_count() == 0 && !tide_is_initialized() && !tide__running());
  CHECK(tide_device_init() == TIDE_STATE && tide_device_synchronize(0) == TIDE_STATE);
  tide_shutdown(); /* without a start: nothing */
  tide_config c = {.struct_size = 3};
  CHECK(tide_init(&c) == TIDE_ARGUMENT);
  c = (tide_config){.struct_size = sizeof c, .sim_devices = TIDE_MAX_DEVICES + 1};
  CHECK(tide_init(&c) == TIDE_VALUE && !tide__running());
  start(2);
  OK(tide_init(NULL));
  CHECK(tide_device_count() == 2 && tide_is_available() && !tide_is_initialized());
  tide_shutdown();
  CHECK(tide__running());
  tide_event *e;
  OK(tide_event_new(&e, 0));
  tide_shutdown();
  CHECK(!tide__running() && tide_event_query(&done, e) == TIDE_STATE);
  start(1);
  CHECK(tide_device_count() == 1 && tide_event_query(&done, e) == TIDE_STATE);
  tide_event_release(e);
  tide_shutdown();
}

static void environment(void) {
  setenv("TIDE_SIM_DEVICES", "3", 1);
  setenv("TIDE_SIM_MEMORY", "96M", 1);
  setenv("TIDE_SIM_SEED", "7", 1);
  OK(tide_init(NULL));
  const tide_device_props *props;
  size_t free_bytes, total;
  OK(tide_device_get_props(&props, 2));
  OK(tide_device_mem_info(&free_bytes, &total, TIDE_CURRENT));
  CHECK(tide_device_count() == 3 && props->simulated && total == 96 << 20 && free_bytes <= total);
  CHECK(tide_device_get_props(&props, 3) == TIDE_DEVICE && tide_device_get_props(&props, TIDE_CPU) == TIDE_DEVICE);
  tide_shutdown();
  const char *bad[] = {"many", "-1", "1x", "99999999999999999999999"};
  for (int i = 0; i < 4; i++) {
    setenv("TIDE_SIM_DEVICES", bad[i], 1);
    CHECK(tide_init(NULL) == TIDE_VALUE);
    SAYS("TIDE_SIM_DEVICES");
  }
  unsetenv("TIDE_SIM_DEVICES"), unsetenv("TIDE_SIM_MEMORY"), unsetenv("TIDE_SIM_SEED");
}

static void no_library(void) {
  tide_config c = {.struct_size = sizeof c, .cuda_path = "/nowhere/libtide_cuda.so"};
  OK(tide_init(&c));
  for (int i = 0; i < 2; i++) { /* the second time from what was kept */
    CHECK(!tide_is_available() && tide_device_count() == 0);
    CHECK(tide_device_init() == TIDE_LIBRARY);
    SAYS("/nowhere/libtide_cuda.so");
  }
  tide_storage *s;
  CHECK(tide__storage_new(&s, 8, 0, false) == TIDE_LIBRARY && tide__storage_new(&s, 8, TIDE_CPU, true) == TIDE_LIBRARY);
  OK(tide__storage_new(&s, 8, TIDE_CPU, false));
  tide_storage_release(s);
  CHECK(tide_current_set_device(0) == TIDE_LIBRARY && tide_set_default_device(0) == TIDE_LIBRARY);
  tide_shutdown();
}

/* ---- what a host brings ---- */

static struct { int allocs, frees, logs, loops; } host;
static void *host_alloc(void *user, size_t bytes, size_t align) {
  CHECK(user == &host);
  host.allocs++;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}
static void host_free(void *user, void *ptr, size_t bytes) {
  CHECK(user == &host && bytes > 0);
  host.frees++;
  free(ptr);
}
static void host_log(void *user, const char *message) {
  CHECK(user == &host && !strcmp(message, "seven: 7"));
  host.logs++;
}
static void host_loop(void *user, int64_t n, int64_t grain, tide_task_fn fn, void *arg) {
  CHECK(user == &host && grain == 10);
  host.loops++;
  fn(arg, n / 2, n);
  fn(arg, 0, n / 2);
}
static void add_range(void *arg, int64_t begin, int64_t end) { *(int64_t *)arg += end - begin; }

static void hooks(void) {
  tide_config c = {.struct_size = sizeof c, .user = &host, .alloc = host_alloc};
  CHECK(tide_init(&c) == TIDE_ARGUMENT);
  c.free = host_free, c.log = host_log, c.parallel_for = host_loop;
  OK(tide_init(&c));
  tide_storage *small, *large, *late;
  OK(tide__storage_new(&small, 100, TIDE_CPU, false));
  OK(tide__storage_new(&large, 1 << 20, TIDE_CPU, false));
  OK(tide__storage_new(&late, 100, TIDE_CPU, false));
  CHECK(host.allocs == 3);
  tide_storage_release(small), tide_storage_release(large);
  tide__log("%s: %d", "seven", 7);
  int64_t sum = 0;
  tide__parallel_for(1000, 10, add_range, &sum);
  CHECK(host.logs == 1 && host.loops == 1 && sum == 1000);
  tide_shutdown();
  CHECK(host.frees == 2);
  OK(tide_init(NULL)); /* other hooks now; the piece still goes back to its own */
  tide_storage_release(late);
  CHECK(host.frees == 3);
  tide_shutdown();
}

/* ---- errors and dtypes ---- */

static void errors(void) {
  int64_t size[12];
  for (int i = 0; i < 12; i++) size[i] = INT64_MAX - i;
  CHECK(!strcmp(tide__shape_text(size, 0), "[]"));
  CHECK(!strcmp(tide__shape_text((int64_t[]){2, 3}, 2), "[2, 3]"));
  CHECK(strlen(tide__shape_text(size, 12)) > 200);
  CHECK(!strcmp(tide__device_text(1), "cuda:1") && !strcmp(tide__device_text(TIDE_CPU), "cpu"));
  CHECK(tide__fail(TIDE_SHAPE, "cat: %s", "wrong") == TIDE_SHAPE && tide_error_get()->status == TIDE_SHAPE);
  tide__fail(TIDE_VALUE, "more: %s", tide_error_get()->message);
  CHECK(!strcmp(tide_error_get()->message, "more: cat: wrong"));
  CHECK(!strcmp(tide_status_kind(TIDE_SHAPE), "ShapeError") && !strcmp(tide_status_kind((tide_status)99), "Unknown"));
  CHECK(tide__fail_index(0, 0, 7, 5, 1) == TIDE_INDEX);
  SAYS("got 7, expected 1 to 5 or -5 to -1");
  char big[5000];
  memset(big, 'x', sizeof big - 1), big[sizeof big - 1] = 0;
  CHECK(tide__fail(TIDE_FILE, "%s", big) == TIDE_FILE && strlen(tide_error_get()->message) < 2000);
}

static void dtypes(void) {
  tide_dtype d = TIDE_DTYPE_NONE;
  CHECK(tide_dtype_parse(&d, "half") && d == TIDE_FLOAT16 && tide_dtype_parse(&d, "float") && d == TIDE_FLOAT32);
  CHECK(tide_dtype_parse(&d, "long") && d == TIDE_INT64 && !tide_dtype_parse(&d, "quad") && !tide_dtype_parse(&d, ""));
  CHECK(!strcmp(tide_dtype_name(TIDE_COMPLEX64), "complex64") && tide_dtype_size(TIDE_COMPLEX128) == 16);
  CHECK(tide_dtype_size(TIDE_DTYPE_NONE) == 0 && tide_dtype_kind(TIDE_UINT8) == 'U');
  const struct {
    tide_dtype a, b, both;
  } row[] = {{TIDE_BOOL, TIDE_BOOL, TIDE_BOOL},
             {TIDE_BOOL, TIDE_UINT8, TIDE_UINT8},
             {TIDE_UINT8, TIDE_INT8, TIDE_INT16},
             {TIDE_UINT8, TIDE_INT16, TIDE_INT16},
             {TIDE_UINT8, TIDE_UINT8, TIDE_UINT8},
             {TIDE_INT8, TIDE_INT64, TIDE_INT64},
             {TIDE_INT64, TIDE_FLOAT16, TIDE_FLOAT16},
             {TIDE_FLOAT16, TIDE_BFLOAT16, TIDE_FLOAT32},
             {TIDE_BFLOAT16, TIDE_BFLOAT16, TIDE_BFLOAT16},
             {TIDE_FLOAT16, TIDE_FLOAT64, TIDE_FLOAT64},
             {TIDE_FLOAT64, TIDE_COMPLEX64, TIDE_COMPLEX128},
             {TIDE_FLOAT32, TIDE_COMPLEX64, TIDE_COMPLEX64},
             {TIDE_INT64, TIDE_COMPLEX64, TIDE_COMPLEX64},
             {TIDE_COMPLEX64, TIDE_COMPLEX128, TIDE_COMPLEX128}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    CHECK(tide_dtype_promote(row[i].a, row[i].b) == row[i].both);
    CHECK(tide_dtype_promote(row[i].b, row[i].a) == row[i].both);
  }
  CHECK(tide_dtype_can_cast(TIDE_FLOAT64, TIDE_FLOAT16) && tide_dtype_can_cast(TIDE_INT64, TIDE_UINT8));
  CHECK(!tide_dtype_can_cast(TIDE_FLOAT16, TIDE_INT64) && !tide_dtype_can_cast(TIDE_COMPLEX64, TIDE_FLOAT64));
  CHECK(!tide_dtype_can_cast(TIDE_UINT8, TIDE_BOOL) && tide_dtype_can_cast(TIDE_BOOL, TIDE_BOOL));
  CHECK(tide_set_default_dtype(TIDE_INT32) == TIDE_DTYPE && tide_get_default_dtype() == TIDE_FLOAT32);
  OK(tide_set_default_dtype(TIDE_FLOAT64));
  CHECK(tide_get_default_dtype() == TIDE_FLOAT64);
  OK(tide_set_default_dtype(TIDE_FLOAT32));
}

/* ---- parallel loops ---- */

static void mark(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) ((unsigned char *)arg)[i]++;
}
static void nested(void *arg, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++) tide__parallel_for(100, 1, mark, (unsigned char *)arg + i * 100);
}

static bool all_once(const unsigned char *marks, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (marks[i] != 1) return false;
  return true;
}

static void *loops(void *unused) {
  enum { N = 20000 };
  unsigned char *marks = malloc(N);
  for (int round = 0; round < 300; round++) {
    int64_t n = 1 + round * 61 % N;
    memset(marks, 0, N);
    tide__parallel_for(n, 1 + round % 50, mark, marks);
    CHECK(all_once(marks, n) && (n == N || marks[n] == 0));
    if (round % 100 == 50) usleep(1000); /* long enough for the workers to sleep */
  }
  memset(marks, 0, N);
  tide__parallel_for(N / 100, 1, nested, marks);
  CHECK(all_once(marks, N));
  free(marks);
  return unused;
}

/* How many threads run at once, at most. */
static void count_inside(void *arg, int64_t begin, int64_t end) {
  _Atomic int *count = arg; /* now, and at most */
  int now = atomic_fetch_add(&count[0], 1) + 1, most = atomic_load(&count[1]);
  while (most < now && !atomic_compare_exchange_weak(&count[1], &most, now))
    ;
  if ((begin + end) % 16 == 0) usleep(50);
  atomic_fetch_sub(&count[0], 1);
}

static int most_inside(int limit, int rounds) {
  _Atomic int count[2] = {0, 0};
  tide_set_thread_limit(limit);
  for (int i = 0; i < rounds; i++) {
    tide__parallel_for(256, 1, count_inside, count);
    if (i % 8 == 7) usleep(200); /* long enough for the workers to sleep */
  }
  tide_set_thread_limit(0);
  return atomic_load(&count[1]);
}

static void limits(void) {
  tide_set_num_threads(4);
  CHECK(most_inside(1, 3) == 1);
  for (int i = 0; i < 5; i++) {
    int most = most_inside(2, 40);
    CHECK(most <= 2 && most_inside(3, 40) <= 3);
  }
  CHECK(most_inside(0, 200) > 2 && most_inside(2, 200) == 2);
  CHECK(most_inside(9, 40) <= 4 && most_inside(-1, 40) <= 4);
}

static void parallel(void) {
  OK(tide_init(NULL));
  CHECK(tide_get_num_threads() >= 1);
  tide__parallel_for(0, 1, mark, NULL);
  const int counts[] = {4, 2, 1, 3};
  for (int i = 0; i < 4; i++) {
    tide_set_num_threads(counts[i]);
    CHECK(tide_get_num_threads() == counts[i]);
    loops(NULL);
  }
  pthread_t t[3];
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&t[i], NULL, loops, NULL) == 0);
  for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
  limits();
#if !defined(__SANITIZE_THREAD__) /* which does not follow a fork of a program with threads */
  pid_t child = fork();
  if (child == 0) {
    unsigned char marks[1000] = {0};
    tide__parallel_for(1000, 1, mark, marks);
    _exit(all_once(marks, 1000) ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
#endif
  tide_set_num_threads(0);
  CHECK(tide_get_num_threads() == 1);
  tide_set_num_threads(2);
  tide_shutdown();
}

/* ---- what is current ---- */

static void *free_current(void *current) {
  tide_current_free(current);
  return NULL;
}

static void *other_thread(void *stream) {
  CHECK(tide_current_device() == 0 && tide_get_index_base() == 0 && tide_default_device() == TIDE_CPU);
  OK(tide_current_set_stream(stream));
  return NULL;
}

static void currents(void) {
  start(3);
  tide_stream *s, *def, *got;
  OK(tide_current_set_device(2));
  CHECK(tide_current_device() == 2 && tide_current_set_device(3) == TIDE_DEVICE &&
        tide_current_set_device(TIDE_CPU) == TIDE_DEVICE);
  OK(tide_stream_new(&s, TIDE_CURRENT, 0));
  OK(tide_stream_default(&def, 2));
  CHECK(tide_stream_device(s) == 2 && tide_stream_handle(s) != tide_stream_handle(def));
  OK(tide_current_set_stream(s));
  CHECK(tide_current_stream(&got, TIDE_CURRENT) == TIDE_OK && got == s);
  CHECK(tide_current_selected(2) == s && !tide_current_selected(0) && !tide_current_selected(TIDE_CPU) &&
        !tide_current_selected(TIDE_MAX_DEVICES) && !tide_device_is_open(0)); /* asking opens nothing */
  tide_current_select(2, NULL);
  CHECK(tide_current_stream(&got, 2) == TIDE_OK && got == def && !tide_current_selected(2));
  tide_current_select(2, s), tide_current_select(2, s), tide_current_select(TIDE_MAX_DEVICES, s);
  CHECK(tide_current_stream(&got, 2) == TIDE_OK && got == s && s->refs == 2);
  tide_current *a = tide_current_new(NULL), *b;
  pthread_t t;
  CHECK(tide_current_bind(a) == NULL && tide_current_device() == 0);
  OK(tide_current_stream(&got, 2));
  CHECK(got == def);
  OK(tide_current_set_device(1));
  OK(tide_current_set_stream(s));
  CHECK(tide_current_device() == 1);
  b = tide_current_new(a);
  CHECK(tide_current_bind(b) == a && tide_current_device() == 1);
  OK(tide_current_set_stream(def));
  OK(tide_current_stream(&got, 2));
  CHECK(got == def && tide_current_bind(NULL) == b && tide_current_device() == 2);
  OK(tide_current_stream(&got, 2));
  CHECK(got == s);
  OK(tide_current_set_default_device(a, 1));
  tide_current_bind(b);
  tide_current_copy(b, a); /* what is bound has it at once */
  CHECK(tide_default_device() == 1);
  OK(tide_set_default_device(0));
  CHECK(tide_default_device() == 0 && tide_current_bind(a) == b && tide_default_device() == 1);
  tide_current_bind(b);
  int before = tide_current_device();
  OK(tide_set_default_device(TIDE_CURRENT)); /* follows the current device */
  for (int d = 0; d < 3; d++) {
    const tide_options plain = TIDE_OPTIONS;
    tide_tensor *x = NULL;
    OK(tide_current_set_device(d));
    OK(tide_full(&x, (int64_t[]){3}, 1, tide_int(0), &plain));
    CHECK(tide_default_device() == TIDE_CURRENT && tide_tensor_device(x) == d);
    tide_tensor_release(x);
  }
  OK(tide_current_set_device(before));
  CHECK(pthread_create(&t, NULL, free_current, b) == 0 && pthread_join(t, NULL) == 0);
  CHECK(tide_current_device() == 2 && tide_current_bind(NULL) == NULL);
  tide_current_free(a);
  CHECK(s->refs == 2);
  CHECK(pthread_create(&t, NULL, other_thread, s) == 0);
  pthread_join(t, NULL);
  CHECK(s->refs == 2); /* a thread leaves nothing behind */
  OK(tide_set_default_device(TIDE_CURRENT));
  CHECK(tide_default_device() == TIDE_CURRENT && tide_set_default_device(9) == TIDE_DEVICE);
  tide_stream_release(s);
  tide_shutdown();
  CHECK(tide_default_device() == TIDE_CPU && tide_current_device() == 0);
}

/* ---- streams and events ---- */

static void streams(void) {
  start(2);
  tide_stream *a, *b, *other;
  tide_event *e, *f, *timed;
  int least, greatest;
  bool done = true;
  double ms;
  OK(tide_stream_priority_range(&least, &greatest, 0));
  OK(tide_stream_new(&a, 0, -1000));
  OK(tide_stream_new(&b, 0, 1000));
  OK(tide_stream_new(&other, 1, 0));
  CHECK(tide_stream_priority(a) == greatest && tide_stream_priority(b) == least && a->id != b->id);
  OK(tide_event_new(&e, 0));
  OK(tide_event_new(&f, TIDE_EVENT_TIMING));
  OK(tide_event_new(&timed, TIDE_EVENT_TIMING));
  CHECK(tide_event_new(&e, 64) == TIDE_ARGUMENT &&
        tide_event_new(&e, TIDE_EVENT_TIMING | TIDE_EVENT_INTERPROCESS) == TIDE_VALUE);
  CHECK(tide_event_query(&done, e) == TIDE_OK && done && tide_event_device(e) == TIDE_CPU && tide_event_handle(e) == 0);
  OK(tide_stream_wait_event(a, e));
  OK(tide_stream_sleep(a, HOLD));
  OK(tide_event_record(e, a));
  CHECK(tide_event_query(&done, e) == TIDE_OK && !done && tide_event_device(e) == 0 && tide_event_handle(e) != 0);
  OK(tide_stream_wait_event(b, e));
  OK(tide_stream_wait_stream(other, b));
  CHECK(tide_stream_query(&done, other) == TIDE_OK && !done);
  tide_sim_wake();
  OK(tide_stream_synchronize(other));
  CHECK(tide_event_query(&done, e) == TIDE_OK && done);
  CHECK(tide_event_record(e, other) == TIDE_DEVICE && tide_event_record(e, NULL) == TIDE_ARGUMENT);
  CHECK(tide_event_elapsed(&ms, e, f) == TIDE_VALUE && tide_event_elapsed(&ms, f, timed) == TIDE_VALUE);
  OK(tide_event_record(f, a));
  OK(tide_stream_sleep(a, HOLD));
  OK(tide_event_record(timed, a));
  CHECK(tide_event_elapsed(&ms, f, timed) == TIDE_STATE);
  tide_sim_wake();
  OK(tide_event_synchronize(timed));
  OK(tide_event_elapsed(&ms, f, timed));
  CHECK(ms > 0);
  tide_event_release(e), tide_event_release(f), tide_event_release(timed);
  tide_event_release(NULL), tide_stream_release(NULL);
  OK(tide_stream_sleep(b, 1000000));
  tide_stream_release(a), tide_stream_release(b), tide_stream_release(other);
  bool peer;
  OK(tide_device_can_access_peer(&peer, 0, 1));
  CHECK(tide_device_can_access_peer(&peer, 0, 2) == TIDE_DEVICE);
  tide_shutdown();
}

static int asked;
static int stop_now(void *user) {
  CHECK(user == &asked);
  return ++asked > 2;
}

static void interrupts(void) {
  start(1);
  tide_stream *s;
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_stream_sleep(s, HOLD));
  tide_interrupt_set(stop_now, &asked);
  CHECK(tide_stream_synchronize(s) == TIDE_INTERRUPTED && asked > 2);
  tide_interrupt_set(NULL, NULL);
  tide_sim_wake();
  tide_stream_release(s);
  tide_shutdown();
}

/* ---- script lines, lost devices ---- */

static int site(void *user, const char **source) {
  *source = "@script.lua";
  return *(int *)user;
}

static void sites(void) {
  int line = 3;
  char text[100];
  CHECK(tide__site_now() == 0);
  tide_site_set(site, &line);
  uint32_t three = tide__site_now(), same = tide__site_now();
  line = 5;
  uint32_t five = tide__site_now();
  CHECK(three && three == same && five && five != three);
  tide__site_text(three, text, sizeof text);
  CHECK(!strcmp(text, "script.lua:3"));
  tide__site_text(0, text, sizeof text);
  CHECK(!*text);
  CHECK(tide__fail_index(0, five, 0, 3, 1) == TIDE_INDEX);
  SAYS("script.lua:5");
  for (line = 2; line < 40000; line += 2) CHECK(tide__site_now() != five || line == 5);
  tide__site_text(three, text, sizeof text);
  CHECK(!strcmp(text, "script.lua:3"));
  tide_site_set(NULL, NULL);
}

static void lost_device(void) {
  start(2);
  tide_storage *s, *t;
  tide_stream *st;
  OK(tide__storage_new(&s, 100, 0, false));
  OK(tide_stream_new(&st, 0, 0));
  tide__storage_use(s, st);
  OK(tide_device_synchronize(0));
  OK(tide_sim_fault("lost:0"));
  CHECK(tide_device_synchronize(0) == TIDE_ACCELERATOR);
  tide_error first = *tide_error_get();
  CHECK(first.sticky && first.device == 0 && first.code != 0 && *first.name);
  char message[1024];
  snprintf(message, sizeof message, "%s", first.message);
  tide__fail(TIDE_VALUE, "another: failure");
  CHECK(tide_stream_synchronize(st) == TIDE_ACCELERATOR && !strcmp(tide_error_get()->message, message));
  CHECK(tide_error_get()->sticky && tide__storage_new(&t, 50 << 20, 0, false) == TIDE_ACCELERATOR);
  CHECK(tide__fail_driver(0, "later", 1, "x", "y", true) == TIDE_ACCELERATOR &&
        !strcmp(tide_error_get()->message, message));
  OK(tide__storage_new(&t, 100, 1, false)); /* the other one lives on */
  tide_storage_release(t), tide_storage_release(s);
  tide_stream_release(st);
  tide_memory_pump();
  CHECK(tide_memory_allocated(0) == 0);
  OK(tide_memory_empty_cache(0));
  tide_shutdown();
  start(2);
  OK(tide__storage_new(&s, 100, 0, false));
  tide_storage_release(s);
  tide_shutdown();
}

/* ---- finalisers ---- */

static void *give_up(void *arg) {
  tide_tensor **list = arg;
  for (int i = 0; i < 100; i++) tide_tensor_release_deferred(list[i]);
  return NULL;
}

static void deferred(void) {
  start(1);
  static tide_tensor *list[301];
  tide_options on = {TIDE_FLOAT32, 0, false};
  for (int i = 0; i < 301; i++) OK(tide_empty(&list[i], (int64_t[]){128}, 1, &on));
  CHECK(tide_memory_allocated(0) == 301 * 512);
  pthread_t t[2];
  for (int i = 0; i < 2; i++) CHECK(pthread_create(&t[i], NULL, give_up, list + 100 * i) == 0);
  give_up(list + 200);
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  tide_tensor_release_deferred(NULL);
  CHECK(tide_memory_allocated(0) == 301 * 512);
  tide_memory_pump();
  CHECK(tide_memory_allocated(0) == 512);
  tide_shutdown();
  tide_tensor_release_deferred(list[300]); /* nothing is left to drain a list */
}

int main(void) {
  starting();
  environment();
  no_library();
  hooks();
  errors();
  dtypes();
  parallel();
  currents();
  streams();
  interrupts();
  sites();
  lost_device();
  deferred();
  printf("runtime_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
