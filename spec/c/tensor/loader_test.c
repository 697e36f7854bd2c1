/* loader_test.c: batches that are made ahead, copied with and without a thread, in host memory and on a simulated
 * device: their values, their order, what fails and what is refused. */
#include "tide/loader.h"
#include "tide/quota.h"

#include "check.h"

enum { ITEMS = 4, LENGTH = 3, BATCHES = 5 };

/* Queues the batch of ITEMS vectors of the value; gives the tensor that it will fill. */
static tide_tensor *queue(tide_loader *l, double value, int64_t last_length) {
  const int64_t size[2] = {ITEMS, LENGTH};
  tide_tensor *items[ITEMS], *into = NULL;
  for (int i = 0; i < ITEMS; i++) items[i] = full(TIDE_CPU, i < ITEMS - 1 ? LENGTH : last_length, value);
  OK(tide_loader_ask(l));
  OK(tide_loader_begin(l));
  OK(tide_loader_empty(&into, l, size, 2, TIDE_FLOAT32));
  OK(tide_loader_fill(l, into, items, ITEMS, true));
  OK(tide_loader_queue(l, "=test", 1));
  for (int i = 0; i < ITEMS; i++) tide_tensor_release(items[i]); /* the batch has its own references */
  return into;
}

static void check_values(tide_tensor **x, tide_loader *l, int device, double value) {
  float values[ITEMS * LENGTH] = {0};
  tide_tensor **list[] = {x};
  OK(tide_loader_wait(l));
  OK(tide_loader_bring(l, list, 1));
  CHECK(tide_tensor_device(*x) == device);
  OK(tide_read(values, *x));
  for (int i = 0; i < ITEMS * LENGTH; i++) CHECK(values[i] == (float)value);
  tide_tensor_release(*x);
}

static void batches_come_in_order(int device, int64_t prefetch, bool pin) {
  tide_stream *kept = NULL;
  for (int round = 0; round < 2; round++) { /* the second loop finds the stream of the first */
    tide_loader *l = NULL;
    tide_tensor *x[BATCHES];
    OK(tide_loader_new(&l, &kept, device, prefetch, pin));
    for (int k = 0; k < BATCHES; k++) x[k] = queue(l, k, LENGTH);
    for (int k = 0; k < BATCHES; k++) check_values(&x[k], l, device, k);
    tide_loader_free(l);
  }
  CHECK((kept != NULL) == (device != TIDE_CPU));
  tide_stream_release(kept);
}

static void a_batch_that_fails_is_left_out(int64_t prefetch) {
  tide_stream *kept = NULL;
  tide_loader *l = NULL;
  OK(tide_loader_new(&l, &kept, TIDE_CPU, prefetch, false));
  tide_tensor *bad = queue(l, 1, LENGTH + 1), *good = queue(l, 2, LENGTH);
  CHECK(tide_loader_wait(l) == TIDE_SHAPE);
  check_values(&good, l, TIDE_CPU, 2);
  tide_tensor_release(bad);
  tide_loader_free(l);
}

/* One of its two tensors cannot be filled, whichever it is. */
static void a_batch_that_fails_in_part(int64_t prefetch) {
  const int64_t size[2] = {ITEMS, LENGTH};
  for (int bad = 0; bad < 2; bad++) {
    tide_stream *kept = NULL;
    tide_loader *l = NULL;
    OK(tide_loader_new(&l, &kept, TIDE_CPU, prefetch, false));
    OK(tide_loader_begin(l));
    for (int k = 0; k < 2; k++) {
      tide_tensor *x = NULL, *item = full(TIDE_CPU, k == bad ? LENGTH + 1 : LENGTH, 1);
      OK(tide_loader_empty(&x, l, size, 2, TIDE_FLOAT32));
      OK(tide_loader_fill(l, x, (tide_tensor *[]){item, item, item, item}, ITEMS, true));
      tide_tensor_release(x), tide_tensor_release(item);
    }
    OK(tide_loader_queue(l, "=test", 1));
    CHECK(tide_loader_wait(l) == TIDE_SHAPE);
    tide_loader_free(l);
  }
}

/* However far it has come: begun, filled, queued, or waited for. */
static void a_batch_that_is_not_taken_is_freed(int device, int64_t prefetch) {
  const int64_t size[2] = {ITEMS, LENGTH};
  for (int step = 0; step < 5; step++) {
    tide_stream *kept = NULL;
    tide_loader *l = NULL;
    tide_tensor *x = NULL, *item = full(TIDE_CPU, LENGTH, 1), *items[] = {item, item, item, item};
    size_t before = tide_memory_cpu_allocated();
    OK(tide_loader_new(&l, &kept, device, prefetch, false));
    OK(tide_loader_begin(l));
    if (step > 0) OK(tide_loader_empty(&x, l, size, 2, TIDE_FLOAT32));
    if (step > 1) OK(tide_loader_fill(l, x, items, ITEMS, true));
    if (step > 2) OK(tide_loader_queue(l, "=test", 1));
    if (step > 3) OK(tide_loader_wait(l));
    tide_tensor_release(x);
    tide_loader_free(l);
    tide_tensor_release(full(TIDE_CPU, 1, 0)); /* frees what is deferred */
    CHECK(tide_memory_cpu_allocated() == before);
    tide_stream_release(kept);
    tide_tensor_release(item);
  }
}

static void what_comes_out_of_turn_is_refused(void) {
  tide_stream *kept = NULL;
  tide_loader *l = NULL;
  tide_tensor *x = NULL;
  const int64_t size = 1;
  CHECK(tide_loader_new(NULL, &kept, TIDE_CPU, 1, false) == TIDE_ARGUMENT);
  CHECK(tide_loader_new(&l, &kept, TIDE_CPU, -1, false) == TIDE_ARGUMENT);
  CHECK(tide_loader_new(&l, &kept, TIDE_CPU, INT64_MAX, false) == TIDE_ARGUMENT && !l);
  OK(tide_loader_new(&l, &kept, TIDE_CPU, INT64_MAX - 1, false));
  tide_tensor_release(queue(l, 1, LENGTH));
  tide_loader_free(l), l = NULL;
  OK(tide_loader_new(&l, &kept, TIDE_CPU, 1, false));
  CHECK(tide_loader_queue(l, "", 0) == TIDE_STATE);
  CHECK(tide_loader_empty(&x, l, &size, 1, TIDE_FLOAT32) == TIDE_STATE && !x);
  CHECK(tide_loader_wait(l) == TIDE_STATE);
  CHECK(tide_loader_bring(l, NULL, 0) == TIDE_STATE);
  tide_tensor_release(queue(l, 1, LENGTH)); /* never taken */
  OK(tide_loader_begin(l));                 /* nor queued */
  tide_loader_close(l);
  CHECK(tide_loader_begin(l) == TIDE_STATE && tide_loader_wait(l) == TIDE_STATE);
  tide_loader_close(l);
  tide_loader_free(l);
  tide_loader_free(NULL);
}

static void batches_that_nobody_takes(int64_t prefetch, bool pin) {
  tide_stream *kept = NULL;
  tide_loader *l = NULL;
  tide_tensor *x[BATCHES];
  OK(tide_loader_new(&l, &kept, 0, prefetch, pin));
  for (int k = 0; k < BATCHES; k++) x[k] = queue(l, k, LENGTH);
  check_values(&x[0], l, 0, 0);
  tide_loader_free(l);
  for (int k = 1; k < BATCHES; k++) tide_tensor_release(x[k]);
  tide_stream_release(kept);
}

/* Tensors, page-locked memory, streams and events of a loader count until it is gone, and no longer. */
static void nothing_is_left_in_a_quota(void) {
  tide_quota *quota = NULL;
  tide_current *current = tide_current_new(NULL);
  OK(tide_quota_new(&quota));
  tide_current_set_quota(current, quota);
  tide_current_bind(current);
  for (int64_t prefetch = 0; prefetch < 3; prefetch++)
    for (int pin = 0; pin < 2; pin++) {
      batches_come_in_order(0, prefetch, pin);
      batches_that_nobody_takes(prefetch, pin);
      OK(tide_device_synchronize(0));
      CHECK(tide_quota_used(quota, TIDE_QUOTA_HOST_BYTES) == 0);
      CHECK(tide_quota_used(quota, TIDE_QUOTA_DEVICE_BYTES) == 0);
    }
  tide_current_bind(NULL);
  tide_current_free(current);
  tide_quota_release(quota);
}

int main(void) {
  tide_config config = {.struct_size = sizeof config, .sim_devices = 1};
  OK(tide_init(&config));
  for (int64_t prefetch = 0; prefetch < 3; prefetch++) {
    batches_come_in_order(TIDE_CPU, prefetch, false);
    batches_come_in_order(0, prefetch, true);
    batches_come_in_order(0, prefetch, false);
    a_batch_that_fails_is_left_out(prefetch);
    a_batch_that_fails_in_part(prefetch);
    a_batch_that_is_not_taken_is_freed(TIDE_CPU, prefetch);
    a_batch_that_is_not_taken_is_freed(0, prefetch);
  }
  what_comes_out_of_turn_is_refused();
  nothing_is_left_in_a_quota();
  tide_shutdown();
  printf("loader_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
