/* One rank of a communicator that several processes could share (tide/nccl.h): made, used, aborted, ended.
 *
 * usage: nccl_rank_test        on simulated devices, with the double that TIDE_NCCL_LIBRARY names
 *        nccl_rank_test gpu    on a GPU, with NCCL */
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "tide/graph.h"
#include "tide/nccl.h"

enum { N = 1000 };

/* name: as another rank would have sent it; NULL: a new one. */
static tide_nccl_rank *make(const char *name) {
  unsigned char id[TIDE_NCCL_ID] = {0};
  tide_nccl_rank *rank = NULL;
  bool ready = false;
  if (name)
    memcpy(id, name, strlen(name));
  else
    OK(tide_nccl_rank_id(id));
  OK(tide_nccl_rank_new(&rank, 0, id, 1, 0));
  for (int i = 0; rank && !ready && !failures && i < 600000; i++) {
    OK(tide_nccl_rank_ready(&ready, rank));
    usleep(100);
  }
  CHECK(ready);
  return rank;
}

static bool holds(tide_tensor *x, float value) {
  float values[N];
  OK(tide_read(values, x));
  for (int i = 0; i < N; i++)
    if (values[i] != value) return false;
  return true;
}

static void test_kinds(tide_nccl_rank *rank) {
  for (int kind = 0; kind < TIDE_NCCL_KINDS; kind++) {
    for (int op = 0; op < TIDE_NCCL_OPS; op++) {
      tide_tensor *x = full(0, N, 3), *y = full(0, N, 5);
      OK(tide_nccl_rank_queue(rank, (tide_nccl_kind)kind, (tide_nccl_op)op, 0, x, y));
      OK(tide_nccl_rank_queue(rank, (tide_nccl_kind)kind, (tide_nccl_op)op, 0, x, x));
      CHECK(holds(y, 3) && holds(x, 3));
      tide_tensor_release(x), tide_tensor_release(y);
    }
  }
}

static void test_misuse(tide_nccl_rank *rank) {
  unsigned char id[TIDE_NCCL_ID] = {0};
  tide_nccl_rank *other;
  tide_tensor *x = full(0, N, 1), *host = full(TIDE_CPU, N, 1);
  CHECK(tide_nccl_rank_new(&other, 0, id, 2, 2) == TIDE_VALUE);
  CHECK(tide_nccl_rank_queue(rank, TIDE_NCCL_BROADCAST, TIDE_NCCL_SUM, 1, x, x) == TIDE_VALUE);
  CHECK(tide_nccl_rank_queue(rank, TIDE_NCCL_ALL_REDUCE, TIDE_NCCL_SUM, 0, host, host) != TIDE_OK);
  CHECK(tide_nccl_rank_queue(rank, TIDE_NCCL_ALL_REDUCE, TIDE_NCCL_SUM, 0, x, NULL) == TIDE_ARGUMENT);
  CHECK(!tide_nccl_takes(TIDE_NCCL_ALL_REDUCE, TIDE_NCCL_SUM, TIDE_INT16));
  CHECK(tide_nccl_takes(TIDE_NCCL_BROADCAST, TIDE_NCCL_SUM, TIDE_INT16)); /* as bytes */
  CHECK(tide_nccl_takes(TIDE_NCCL_ALL_REDUCE, TIDE_NCCL_SUM, TIDE_COMPLEX64));
  CHECK(!tide_nccl_takes(TIDE_NCCL_ALL_REDUCE, TIDE_NCCL_PROD, TIDE_COMPLEX64));
  tide_tensor_release(x), tide_tensor_release(host);
}

/* Two communicators of a device on two streams have one order. */
static void test_order(tide_nccl_rank *a, tide_nccl_rank *b, tide_stream *s) {
  tide_tensor *x = full(0, N, 2), *y = full(0, N, 4);
  tide_stream *before;
  OK(tide_device_synchronize(0));
  OK(tide_current_stream(&before, 0));
  for (int i = 0; i < 20; i++) {
    OK(tide_nccl_rank_queue(a, TIDE_NCCL_ALL_REDUCE, TIDE_NCCL_SUM, 0, x, x));
    OK(tide_current_set_stream(s));
    OK(tide_nccl_rank_queue(b, TIDE_NCCL_ALL_REDUCE, TIDE_NCCL_SUM, 0, y, y));
    OK(tide_current_set_stream(before));
  }
  OK(tide_device_synchronize(0));
  CHECK(holds(x, 2) && holds(y, 4));
  tide_tensor_release(x), tide_tensor_release(y);
}

static void test_abort(tide_nccl_rank *rank) {
  tide_tensor *x = full(0, N, 2);
  bool ready;
  OK(tide_nccl_rank_queue(rank, TIDE_NCCL_ALL_REDUCE, TIDE_NCCL_SUM, 0, x, x));
  tide_nccl_rank_abort(rank);
  OK(tide_device_synchronize(0));
  CHECK(tide_nccl_rank_queue(rank, TIDE_NCCL_ALL_REDUCE, TIDE_NCCL_SUM, 0, x, x) == TIDE_STATE);
  CHECK(tide_nccl_rank_ready(&ready, rank) == TIDE_STATE);
  tide_nccl_rank_release(rank);
  tide_nccl_rank_release(NULL);
  tide_tensor_release(x);
}

/* A rank that makes no name connects as the first one does. */
static void test_named(void) {
  char name[40];
  unsetenv("NCCL_RUNTIME_CONNECT");
  snprintf(name, sizeof name, "tide-nccl-%d-named", (int)getpid());
  tide_nccl_rank_release(make(name));
}

/* A communicator whose other rank does not come waits for nobody's release. */
static void test_alone(void) {
  unsigned char id[TIDE_NCCL_ID];
  tide_nccl_rank *rank = NULL;
  tide_tensor *x = full(0, N, 2);
  bool ready = true;
  OK(tide_nccl_rank_id(id));
  OK(tide_nccl_rank_new(&rank, 0, id, 2, 0));
  OK(tide_nccl_rank_ready(&ready, rank));
  CHECK(!ready);
  CHECK(tide_nccl_rank_queue(rank, TIDE_NCCL_BROADCAST, TIDE_NCCL_SUM, 0, x, x) == TIDE_STATE);
  tide_nccl_rank_release(rank);
  tide_tensor_release(x);
}

int main(int argc, char **argv) {
  bool is_gpu = argc > 1 && !strcmp(argv[1], "gpu");
  tide_config config = {.struct_size = sizeof config, .sim_devices = is_gpu ? 0 : 1};
  unsigned char id[TIDE_NCCL_ID];
  OK(tide_init(&config));
  tide_status status = tide_nccl_rank_id(id);
  if (!is_gpu && status == TIDE_SUPPORT) { /* no double is named */
    tide_shutdown();
    printf("nccl_rank_test: left out, TIDE_NCCL_LIBRARY names no double\n");
    return failures != 0;
  }
  CHECK(status == TIDE_OK);
  if (status != TIDE_OK) return printf("nccl_rank_test: %s\n", tide_error_get()->message), 1;
  if (!is_gpu) test_named();
  tide_nccl_rank *a = make(NULL), *b = make(NULL), *c = make(NULL);
  tide_stream *s;
  OK(tide_stream_new(&s, 0, 0));
  if (a && b && c) {
    test_kinds(a);
    test_misuse(a);
    test_order(a, b, s);
    test_abort(b);
    if (!is_gpu) test_alone();
    tide_nccl_rank_release(a);
  }
  tide_stream_release(s);
  tide_shutdown(); /* with one alive */
  tide_nccl_rank_release(c);
  printf("nccl_rank_test: %d failures\n", failures);
  return failures != 0;
}
