/* comm_test.c: collectives through the C API on three simulated devices: a peer that hangs and comes back, a slow one,
 * one that is lost, allocations that fail at every place, and the numbers of ranks as a C host counts them. */
#include "tide/comm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "tensor/tensor.h"
#include "tide/nccl.h"
#include "tide/sim.h"

enum { DEVICES = 3, COUNT = 1000 };
static const int devices[DEVICES] = {0, 1, 2};

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double first(const tide_tensor *x) {
  tide_tensor *one = NULL;
  tide_scalar s = {0};
  OK(tide_select(&one, x, 0, 0));
  OK(tide_item(&s, one));
  tide_tensor_release(one);
  return s.re;
}

static void drop(tide_tensor **list, int n) {
  for (int i = 0; i < n; i++) tide_tensor_release(list[i]), list[i] = NULL;
}

static void inputs(tide_tensor **list) {
  for (int d = 0; d < DEVICES; d++) list[d] = full(d, COUNT, d + 1);
}

static bool tells(const char *text) { return strstr(tide_error_get()->message, text) != NULL; }

/* ---- copies of much to several devices, by a ring ---- */

static void goes_round(void) {
  static const int lists[][DEVICES] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {0, 2, -1}, {2, 2, 0}};
  enum { MUCH = 3 << 19 };
  float *values = malloc(MUCH * sizeof *values);
  tide_tensor *x = full(1, MUCH, 7);
  for (int k = 0; k < 5; k++) {
    tide_tensor *outs[DEVICES] = {NULL};
    int n = lists[k][2] < 0 ? 2 : 3;
    OK(tide_comm_broadcast(outs, x, lists[k], n));
    for (int i = 0; i < n; i++) {
      CHECK(tide_tensor_device(outs[i]) == lists[k][i]);
      CHECK((tide_tensor_storage(outs[i]) == tide_tensor_storage(x)) == (lists[k][i] == 1));
      OK(tide_read(values, outs[i]));
      int wrong = 0;
      for (int j = 0; j < MUCH; j++) wrong += values[j] != 7;
      CHECK(wrong == 0);
    }
    drop(outs, n);
  }
  tide_tensor_release(x);
  free(values);
}

/* ---- a peer that hangs ---- */

static void hangs_and_comes_back(void) {
  tide_tensor *list[DEVICES], *sum = NULL, *outs[DEVICES] = {NULL};
  inputs(list);
  for (int d = 0; d < DEVICES; d++) OK(tide_device_synchronize(d));
  OK(tide_comm_set_timeout(0.5));
  OK(tide_sim_fault("dead:1"));
  OK(tide_comm_reduce_add(&sum, list, DEVICES, 0));
  CHECK(tide_comm_broadcast(outs, sum, NULL, DEVICES) == TIDE_ARGUMENT);
  OK(tide_comm_broadcast(outs, sum, devices, DEVICES));
  double start = seconds();
  CHECK(tide_device_synchronize(0) == TIDE_ACCELERATOR);
  double waited = seconds() - start;
  CHECK(waited > 0.3 && waited < 60);
  CHECK(tells("comm.reduce_add: rank 1 (cuda:1) has not come to operation "));
  CHECK(tide_error_get()->device == 1 && !tide_error_get()->sticky);
  CHECK(!strcmp(tide_error_get()->name, "commTimeout"));
  start = seconds();
  CHECK(tide_device_synchronize(2) == TIDE_ACCELERATOR); /* it takes part, and is told at once */
  CHECK(seconds() - start < 60);
  bool done;
  tide_stream *stream;
  OK(tide_current_stream(&stream, 0));
  CHECK(tide_stream_query(&done, stream) == TIDE_ACCELERATOR);
  OK(tide_sim_fault(""));
  OK(tide_comm_set_timeout(0));
  while (tide_device_synchronize(0) != TIDE_OK && seconds() - start < 60) continue; /* late, and done in the end */
  for (int d = 0; d < DEVICES; d++) CHECK(first(outs[d]) == 6);
  drop(outs, DEVICES);
  drop(list, DEVICES);
  tide_tensor_release(sum);
}

/* A library's kernels spin for a rank that does not come: they are aborted, and the next call starts afresh. */
static void hangs_in_a_library(void) {
  tide_tensor *list[DEVICES];
  inputs(list);
  for (int d = 0; d < DEVICES; d++) OK(tide_device_synchronize(d));
  OK(tide_comm_set_timeout(0.25));
  OK(tide_sim_fault("dead:2"));
  OK(tide_nccl_all_reduce(list, list, DEVICES, TIDE_NCCL_SUM, NULL));
  OK(tide_nccl_all_reduce(list, list, DEVICES, TIDE_NCCL_SUM, NULL));
  CHECK(tide_device_synchronize(1) == TIDE_ACCELERATOR);
  CHECK(tells("nccl.all_reduce: rank 2 (cuda:2) has not come to operation "));
  OK(tide_device_synchronize(0));
  OK(tide_device_synchronize(1));
  OK(tide_sim_fault(""));
  OK(tide_device_synchronize(2));
  drop(list, DEVICES);
  inputs(list);
  OK(tide_nccl_all_reduce(list, list, DEVICES, TIDE_NCCL_MAX, NULL));
  for (int d = 0; d < DEVICES; d++) CHECK(first(list[d]) == 3);
  drop(list, DEVICES);
}

static void is_slow(void) {
  tide_tensor *x = full(0, COUNT, 5), *outs[2] = {NULL};
  OK(tide_device_synchronize(0));
  OK(tide_comm_set_timeout(0.5));
  tide_stream *stream;
  OK(tide_current_stream(&stream, 1));
  OK(tide_stream_sleep(stream, HOLD));
  OK(tide_comm_broadcast(outs, x, devices, 2));
  CHECK(tide_device_synchronize(1) == TIDE_ACCELERATOR);
  CHECK(tells("comm.broadcast: rank 1 (cuda:1) has not finished operation "));
  tide_sim_wake();
  double start = seconds();
  while (tide_device_synchronize(1) != TIDE_OK && seconds() - start < 60) continue;
  CHECK(first(outs[1]) == 5);
  drop(outs, 2);
  tide_tensor_release(x);
}

/* With no limit, or one that is far, nobody is told anything. */
static void has_time(void) {
  tide_tensor *x = full(0, COUNT, 5), *outs[2] = {NULL};
  OK(tide_comm_set_timeout(30));
  OK(tide_sim_fault("slow:100"));
  for (int i = 0; i < 100; i++) { /* more than are remembered */
    OK(tide_comm_broadcast(outs, x, devices, 2));
    if (i == 0) OK(tide_device_synchronize(1));
    if (i == 0) OK(tide_sim_fault(""));
    drop(outs, 2);
  }
  OK(tide_device_synchronize(0));
  OK(tide_device_synchronize(1));
  tide_tensor_release(x);
}

/* ---- want of memory ---- */

/* Every allocation of a call fails in turn: nothing is left behind, and the call works in the end. */
static void fails_anywhere(void) {
  tide_tensor *list[2 * DEVICES], *outs[2 * DEVICES], *one;
  for (int d = 0; d < DEVICES; d++)
    for (int i = 0; i < 2; i++) list[2 * d + i] = full(d, COUNT + i, d + 1);
  size_t before[DEVICES];
  for (int d = 0; d < DEVICES; d++) {
    OK(tide_device_synchronize(d));
    before[d] = tide_memory_allocated(d);
  }
  for (int which = 0; which < 5; which++) {
    tide_status status = TIDE_MEMORY;
    int count;
    for (int k = 1; status != TIDE_OK && k < 50; k++) {
      memset(outs, 0, sizeof outs);
      one = NULL;
      tide__fault_alloc(k);
      if (which == 0) status = tide_comm_broadcast(outs, list[0], devices, DEVICES);
      if (which == 1) status = tide_comm_scatter(outs, &count, list[0], devices, DEVICES, NULL, 0, NULL);
      if (which == 2) status = tide_comm_gather(&one, list, 2 * DEVICES, 0, 1, NULL);
      if (which == 3) status = tide_comm_broadcast_coalesced(outs, list, 2, devices, DEVICES, TIDE_COMM_BUFFER);
      if (which == 4) status = tide_comm_reduce_add_coalesced(outs, list, DEVICES, 2, 2, TIDE_COMM_BUFFER);
      tide__fault_alloc(0);
      CHECK(status == TIDE_OK || status == TIDE_MEMORY);
      drop(outs, 2 * DEVICES);
      tide_tensor_release(one);
      for (int d = 0; d < DEVICES; d++) CHECK(tide_memory_allocated(d) == before[d]);
    }
    CHECK(status == TIDE_OK);
  }
  drop(list, 2 * DEVICES);
}

/* ---- a lost device, last: it does not come back ---- */

static void is_lost(void) {
  tide_tensor *list[DEVICES], *sum = NULL;
  inputs(list);
  for (int d = 0; d < DEVICES; d++) OK(tide_device_synchronize(d));
  OK(tide_sim_fault("lost:1"));
  double start = seconds();
  CHECK(tide_comm_reduce_add(&sum, list, DEVICES, 0) == TIDE_ACCELERATOR);
  CHECK(tide_error_get()->device == 1 && tide_error_get()->sticky && sum == NULL);
  CHECK(tide_nccl_all_reduce(list, list, DEVICES, TIDE_NCCL_SUM, NULL) == TIDE_ACCELERATOR);
  OK(tide_device_synchronize(0)); /* the others go on */
  OK(tide_device_synchronize(2));
  CHECK(seconds() - start < 60);
  drop(list, DEVICES);
}

int main(void) {
  tide_config config = {.struct_size = sizeof config, .sim_devices = DEVICES};
  OK(tide_init(&config));
  goes_round();
  hangs_and_comes_back();
  hangs_in_a_library();
  is_slow();
  has_time();
  fails_anywhere();
  is_lost();
  tide_shutdown();
  printf("comm_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
