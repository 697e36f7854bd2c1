/* quota_test.c: what counts against a quota, whose it is, and what is refused. Simulated devices stand in: two. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/quota.h"
#include "check.h"
#include "tide/graph.h"
#include "tide/quota.h"
#include "tide/sort.h"

static tide_quota *quota;
static tide_current *current;

static int64_t used(tide_quota_kind kind) { return tide_quota_used(quota, kind); }
static bool says(const char *text) { return strstr(tide_error_get()->message, text) != NULL; }

static bool pinned; /* page-locked */

static tide_status zeros(tide_tensor **out, int device, int64_t n) {
  const tide_options o = {TIDE_UINT8, device, pinned};
  return tide_full(out, &n, 1, tide_int(0), &o);
}

static void *release_there(void *x) { return tide_tensor_release(x), NULL; }

/* Bytes are exact, on whatever thread they are let go; what was refused counts nothing. */
static void test_bytes(int device, tide_quota_kind kind) {
  tide_tensor *x = NULL, *y = NULL, *view = NULL;
  pthread_t thread;
  int64_t before = used(kind), half = 500;
  tide_quota_limit(quota, kind, before + 10000);
  OK(zeros(&x, device, 4000));
  CHECK(used(kind) == before + 4512);
  OK(tide_view(&view, x, (int64_t[]){2, 2000}, 2));
  CHECK(used(kind) == before + 4512);
  CHECK(zeros(&y, device, 5000) == TIDE_QUOTA && !y && says("5000 more bytes"));
  CHECK(zeros(&y, device, (int64_t)1 << 60) == TIDE_QUOTA && !y && used(kind) == before + 4512);
  OK(zeros(&y, device, half));
  tide_tensor_release(x);
  CHECK(used(kind) == before + 4512 + 512 + half);
  CHECK(!pthread_create(&thread, NULL, release_there, view) && !pthread_join(thread, NULL));
  tide_current_bind(NULL); /* who lets go is not asked either */
  tide_tensor_release(y);
  tide_current_bind(current);
  OK(tide_device_synchronize(0));
  CHECK(used(kind) == before);
  tide_quota_limit(quota, kind, -1);
  CHECK(tide_quota_get_limit(quota, kind) == -1);
}

/* Launches of the bound current alone, of those that inherit from it too. */
static int drop(void *kept, int device, size_t bytes) {
  tide_tensor **x = kept;
  bool drops = device == TIDE_CPU && bytes && *x;
  if (drops) tide_tensor_release(*x), *x = NULL;
  return drops;
}

/* What an operation of the CPU works in counts while it runs; the host's garbage makes room for it. */
static void test_working_memory(void) {
  tide_tensor *x = NULL, *kept = NULL, *median = NULL;
  int64_t before = used(TIDE_QUOTA_HOST_BYTES), items = 1000000, limit = before + 2 * 8 * items + items + 4096;
  tide_quota_limit(quota, TIDE_QUOTA_HOST_BYTES, limit);
  OK(zeros(&x, TIDE_CPU, items));
  OK(tide_median(&median, NULL, x, 0, false));
  tide_tensor_release(median), median = NULL;
  OK(zeros(&kept, TIDE_CPU, 4096));
  int64_t held = used(TIDE_QUOTA_HOST_BYTES);
  CHECK(tide_median(&median, NULL, x, 0, false) == TIDE_QUOTA && !median && says("16000000 bytes of working memory"));
  CHECK(used(TIDE_QUOTA_HOST_BYTES) == held);
  OK(tide_reclaim_add(drop, &kept));
  OK(tide_median(&median, NULL, x, 0, false));
  CHECK(!kept);
  tide_reclaim_remove(drop, &kept);
  tide_tensor_release(median), tide_tensor_release(x);
  CHECK(used(TIDE_QUOTA_HOST_BYTES) == before);
  tide_quota_limit(quota, TIDE_QUOTA_HOST_BYTES, -1);
}

static void test_launches(int device) {
  tide_tensor *x = NULL, *y = NULL;
  tide_quota_limit(quota, TIDE_QUOTA_LAUNCHES, -1);
  OK(zeros(&x, device, 100));
  tide_quota_limit(quota, TIDE_QUOTA_LAUNCHES, 2);
  OK(tide_fill(x, tide_int(1)));
  tide_current *child = tide_current_new(current);
  tide_current_bind(child);
  CHECK(tide_current_quota() == quota);
  OK(tide_fill(x, tide_int(2)));
  CHECK(used(TIDE_QUOTA_LAUNCHES) == 2);
  CHECK(tide_fill(x, tide_int(3)) == TIDE_QUOTA && says("the 2 launches"));
  CHECK(zeros(&y, TIDE_CPU, 1) == TIDE_QUOTA && !y); /* it is used up: all is refused */
  tide_current_bind(NULL);
  CHECK(!tide_current_quota());
  OK(tide_fill(x, tide_int(4)));
  tide_current_bind(current);
  CHECK(tide_fill(x, tide_int(5)) == TIDE_QUOTA);
  tide_quota_limit(quota, TIDE_QUOTA_LAUNCHES, 10);
  OK(tide_fill(x, tide_int(6)));
  CHECK(used(TIDE_QUOTA_LAUNCHES) == 1);
  tide_quota_limit(quota, TIDE_QUOTA_LAUNCHES, 0); /* none at all */
  CHECK(tide_fill(x, tide_int(7)) == TIDE_QUOTA && says("the 0 launches"));
  CHECK(tide_fill(x, tide_int(7)) == TIDE_QUOTA && zeros(&y, TIDE_CPU, 1) == TIDE_QUOTA && !y);
  tide_quota_limit(quota, TIDE_QUOTA_LAUNCHES, -1);
  tide_current_free(child);
  tide_tensor_release(x);
}

/* Streams, events and graphs: made where they count, let go of anywhere. */
static void test_objects(void) {
  int64_t before = used(TIDE_QUOTA_HOST_BYTES);
  tide_stream *s = NULL, *other = NULL;
  tide_event *e = NULL;
  tide_graph *g = NULL;
  tide_quota_limit(quota, TIDE_QUOTA_HOST_BYTES, before + 150000);
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_event_new(&e, 0));
  OK(tide_graph_new(&g, false));
  CHECK(used(TIDE_QUOTA_HOST_BYTES) == before + 2 * 65536 + 4096 + 3 * 512);
  CHECK(tide_stream_new(&other, 0, 0) == TIDE_QUOTA && !other);
  tide_current_bind(NULL);
  tide_stream_release(s);
  tide_event_release(e);
  tide_graph_release(g);
  tide_current_bind(current);
  CHECK(used(TIDE_QUOTA_HOST_BYTES) == before);
  tide_quota_limit(quota, TIDE_QUOTA_HOST_BYTES, -1);
}

static void record(tide_tensor *x, int n) {
  for (int i = 0; i < n; i++) OK(tide_fill(x, tide_int(i)));
}

/* What a graph has recorded counts, by sixteens, until it is gone; what a host does in the capture is not its own. */
static void test_recorded(void) {
  tide_stream *s = NULL;
  tide_graph *g = NULL;
  tide_tensor *x = NULL;
  tide_quota *host_quota = NULL;
  int64_t piece = 16 * 8192 + 512;
  OK(tide_quota_new(&host_quota));
  tide_current *host = tide_current_new(NULL);
  tide_current_set_quota(host, host_quota);
  OK(zeros(&x, 0, 100));
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_graph_new(&g, false));
  OK(tide_device_synchronize(0));
  int64_t before = used(TIDE_QUOTA_HOST_BYTES);
  for (int i = 0; i < 3; i++) {
    OK(tide_graph_begin(g, s, NULL, TIDE_CAPTURE_THREAD_LOCAL));
    record(x, 40);
    CHECK(used(TIDE_QUOTA_HOST_BYTES) == before + 3 * piece);
    tide_stream *captured = NULL;
    OK(tide_current_stream(&captured, 0));
    tide_current_bind(host);
    OK(tide_current_set_stream(captured));
    record(x, 40);
    CHECK(tide_quota_used(host_quota, TIDE_QUOTA_HOST_BYTES) == 0);
    tide_current_bind(current);
    record(x, 20);
    OK(tide_graph_end(g));
    OK(tide_graph_replay(g));
    OK(tide_graph_reset(g));
    OK(tide_device_synchronize(0));
    CHECK(used(TIDE_QUOTA_HOST_BYTES) == before);
  }
  tide_graph_release(g), tide_stream_release(s), tide_tensor_release(x);
  tide_current_free(host);
  tide_quota_release(host_quota);
}

static void test_spending(void) {
  tide_quota_limit(quota, TIDE_QUOTA_INSTRUCTIONS, 100);
  OK(tide_quota_spend(quota, TIDE_QUOTA_INSTRUCTIONS, 100));
  CHECK(tide_quota_spend(quota, TIDE_QUOTA_INSTRUCTIONS, 1) == TIDE_QUOTA && says("the 100 instructions"));
  CHECK(tide_quota_check(quota) == TIDE_QUOTA);
  tide_quota_limit(quota, TIDE_QUOTA_INSTRUCTIONS, -1);
  OK(tide_quota_check(quota));
  CHECK(used(TIDE_QUOTA_INSTRUCTIONS) == 0 && used(TIDE_QUOTA_KINDS) == 0);
  tide_quota_limit(quota, TIDE_QUOTA_KINDS, 0);
  OK(tide_quota_spend(quota, TIDE_QUOTA_HOST_BYTES, 1 << 30));
}

/* Time that passes while the thread sleeps is no processor time; work beyond the budget is refused before it begins. */
static void test_times(void) {
  tide_quota_limit(quota, TIDE_QUOTA_CPU, 1000000);
  tide_quota_limit(quota, TIDE_QUOTA_MICROSECONDS, 10000000);
  usleep(30000);
  CHECK(used(TIDE_QUOTA_MICROSECONDS) >= 30000 && used(TIDE_QUOTA_CPU) < used(TIDE_QUOTA_MICROSECONDS));
  CHECK(tide_quota_left(quota) <= 1000000 && !tide_quota_ended(quota));
  OK(tide_quota_afford(quota, 1000));
  CHECK(tide_quota_afford(quota, 2000000) == TIDE_QUOTA && says("1000000 microseconds of processor time"));
  CHECK(tide_quota_check(quota) == TIDE_QUOTA && tide_quota_ended(quota));
  CHECK(tide_quota_overrun(quota, TIDE_QUOTA_CPU) == 0);
  tide_quota_limit(quota, TIDE_QUOTA_CPU, -1);
  OK(tide_quota_check(quota));
  OK(tide_quota_afford(quota, 2000000));
  CHECK(tide_quota_afford(quota, 20000000) == TIDE_QUOTA && says("10000000 microseconds"));
  tide_quota_limit(quota, TIDE_QUOTA_MICROSECONDS, 60000000);
  OK(tide_quota_check(quota));
  tide_quota_limit(quota, TIDE_QUOTA_MICROSECONDS, 1000);
  usleep(20000);
  CHECK(tide_quota_check(quota) == TIDE_QUOTA && says("the 1000 microseconds"));
  int64_t over = tide_quota_overrun(quota, TIDE_QUOTA_MICROSECONDS);
  usleep(2000);
  CHECK(over >= 19000 && tide_quota_check(quota) == TIDE_QUOTA);
  CHECK(tide_quota_overrun(quota, TIDE_QUOTA_MICROSECONDS) == over); /* when it was first noticed */
  CHECK(tide_quota_overrun(quota, TIDE_QUOTA_KINDS) == 0);
  tide_quota_limit(quota, TIDE_QUOTA_MICROSECONDS, -1);
  CHECK(tide_quota_overrun(quota, TIDE_QUOTA_KINDS) == 0);
  for (int k = 0; k < 2; k++) { /* a limit of 0 is one: what was used before it does not count */
    tide_quota_kind kind = k ? TIDE_QUOTA_CPU : TIDE_QUOTA_MICROSECONDS;
    tide_quota_limit(quota, TIDE_QUOTA_MICROSECONDS, -1);
    tide_quota_limit(quota, kind, 0);
    for (int64_t until = used(kind) + 2000; used(kind) < until;) {}
    CHECK(tide_quota_check(quota) == TIDE_QUOTA && tide_quota_get_limit(quota, kind) == 0);
    tide_quota_limit(quota, kind, -1);
    OK(tide_quota_check(quota));
  }
  CHECK(tide_quota_overrun(quota, TIDE_QUOTA_MICROSECONDS) == 0 && tide_quota_left(quota) == INT64_MAX);
}

static void *stop_soon(void *unused) {
  usleep(20000);
  return tide_quota_stop(quota, true), unused;
}

/* What runs ends between two blocks, and what waits ends too: by time, and from another thread. */
static void test_ends(void) {
  const tide_options o = {TIDE_FLOAT32, TIDE_CPU, false};
  tide_tensor *x = NULL, *y = NULL;
  tide_stream *s = NULL;
  pthread_t thread;
  OK(tide_full(&x, (int64_t[]){4096, 4096}, 2, tide_float(1), &o));
  tide_quota_limit(quota, TIDE_QUOTA_MICROSECONDS, 20000);
  while (tide_matmul(&y, x, x, NULL) == TIDE_OK) tide_tensor_release(y), y = NULL;
  CHECK(tide_error_get()->status == TIDE_QUOTA && says("microseconds"));
  tide_quota_limit(quota, TIDE_QUOTA_MICROSECONDS, -1);
  CHECK(!pthread_create(&thread, NULL, stop_soon, NULL));
  while (tide_matmul(&y, x, x, NULL) == TIDE_OK) tide_tensor_release(y), y = NULL;
  CHECK(tide_error_get()->status == TIDE_INTERRUPTED && says("the host has ended this work"));
  pthread_join(thread, NULL);
  tide_quota_stop(quota, false);
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_stream_sleep(s, 300000000)); /* 0.3 s and more */
  tide_quota_limit(quota, TIDE_QUOTA_MICROSECONDS, 20000);
  CHECK(tide_stream_synchronize(s) == TIDE_QUOTA);
  tide_quota_limit(quota, TIDE_QUOTA_MICROSECONDS, -1);
  OK(tide_stream_synchronize(s));
  tide_stream_release(s);
  tide_tensor_release(x);
}

static void test_waits(void) {
  tide_tensor *x = NULL, *y = NULL;
  tide_scalar value;
  const tide_options host = {TIDE_DTYPE_NONE, TIDE_CPU, false};
  OK(zeros(&x, 0, 1));
  tide_quota_refuse_waits(quota, true);
  CHECK(tide_item(&value, x) == TIDE_PERMISSION && says("item: would make the host wait"));
  CHECK(tide_to(&y, x, &host, false, false) == TIDE_PERMISSION && !y);
  OK(tide_fill(x, tide_int(1)));
  tide_current_bind(NULL);
  OK(tide_item(&value, x));
  tide_current_bind(current);
  tide_quota_refuse_waits(quota, false);
  OK(tide_item(&value, x));
  tide_tensor_release(x);
}

int main(void) {
  setenv("TIDE_SIM_DEVICES", "2", 1);
  OK(tide_init(NULL));
  OK(tide_quota_new(&quota));
  current = tide_current_new(NULL);
  tide_current_set_quota(current, quota);
  tide_current_bind(current);
  test_bytes(TIDE_CPU, TIDE_QUOTA_HOST_BYTES);
  test_bytes(0, TIDE_QUOTA_DEVICE_BYTES);
  pinned = true;
  test_bytes(TIDE_CPU, TIDE_QUOTA_HOST_BYTES);
  pinned = false;
  test_working_memory();
  test_launches(TIDE_CPU);
  test_launches(1);
  test_objects();
  test_recorded();
  test_spending();
  test_times();
  test_ends();
  test_waits();
  tide_tensor *kept = NULL;
  OK(zeros(&kept, TIDE_CPU, 100));
  tide_current_set_quota(NULL, NULL);
  CHECK(!tide_current_quota());
  tide_current_bind(NULL);
  tide_current_free(current);
  CHECK(used(TIDE_QUOTA_HOST_BYTES) == 612);
  tide_quota_release(quota); /* the tensor holds it */
  tide_tensor_release(kept);
  tide_quota_release(NULL);
  tide_shutdown();
  CHECK(!tide__quota_any()); /* nothing that was counted has kept it */
  printf("quota_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
