/* graph_test.c: graphs on simulated devices, where a script does not reach: what is refused of hosts, ends in the wrong
 * order, allocations that fail one after the other, memory let go by other threads, captures on several threads. */
#include "graph/graph.h"
#include "memory/allocator.h"

#include <stdio.h>
#include <stdlib.h>

#include "tide/sim.h"
#include "check.h"

static void start(int devices) {
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = devices, .sim_memory = 256 << 20}));
}

static tide_stream *new_stream(int device) {
  tide_stream *s = NULL;
  OK(tide_stream_new(&s, device, 0));
  return s;
}

static double first_of(const tide_tensor *x) {
  tide_tensor *one = NULL;
  tide_scalar v = tide_float(-1);
  OK(tide_select(&one, x, 0, 0));
  OK(tide_item(&v, one));
  tide_tensor_release(one);
  return v.re;
}

/* y = x + 1, into y. */
static tide_status add_one(tide_tensor *y, const tide_tensor *x) {
  tide_operand in[2] = {{x, {0}}, {NULL, tide_float(1)}};
  return tide_elementwise(NULL, TIDE_OP_add, in, (tide_scalar[]){tide_int(1), tide_int(1), tide_int(1)}, y);
}

/* ---- what a host may ask ---- */

static void arguments(void) {
  tide_graph *g = NULL;
  CHECK(tide_graph_new(&g, false) == TIDE_STATE && !tide_thread_is_capturing() && !tide_current_is_capturing());
  start(2);
  tide_mempool *pool;
  tide_stream *s = new_stream(0), *legacy, *other = new_stream(1);
  OK(tide_graph_new(&g, false));
  CHECK(tide_graph_begin(NULL, s, NULL, 1) == TIDE_ARGUMENT && tide_graph_end(NULL) == TIDE_ARGUMENT);
  CHECK(tide_graph_replay(NULL) == TIDE_ARGUMENT && tide_graph_reset(NULL) == TIDE_ARGUMENT);
  CHECK(tide_graph_begin(g, s, NULL, 3) == TIDE_ARGUMENT && tide_graph_begin(g, s, NULL, -1) == TIDE_ARGUMENT);
  CHECK(tide_graph_register_generator(g, NULL) == TIDE_ARGUMENT && tide_graph_dump(g, "x") == TIDE_STATE);
  OK(tide_stream_wrap(&legacy, 0, 0));
  CHECK(tide_graph_begin(g, legacy, NULL, 1) == TIDE_STATE);
  OK(tide_mempool_new(&pool, 1));
  CHECK(tide_graph_begin(g, s, pool, 1) == TIDE_DEVICE);
  tide_mempool_release(pool);
  tide_graph_abort(g), tide_graph_abort(NULL), tide_graph_release(NULL);
  CHECK(tide_graph_device(g) == TIDE_CPU && !tide_graph_is_capturing(g));

  tide_graph *h;
  OK(tide_graph_new(&h, false));
  OK(tide_graph_begin(g, s, NULL, TIDE_CAPTURE_THREAD_LOCAL));
  CHECK(tide_thread_is_capturing() && tide_graph_is_capturing(g) && tide_graph_device(g) == 0);
  CHECK(tide_graph_begin(g, s, NULL, 1) == TIDE_STATE && tide_graph_begin(h, other, NULL, 1) == TIDE_STATE);
  CHECK(tide_graph_is_capturing(g) && tide_graph_end(h) == TIDE_STATE && tide_graph_is_capturing(g));
  CHECK(tide_graph_instantiate(g) == TIDE_STATE && tide_graph_pool(&pool, g) == TIDE_STATE);
  OK(tide_graph_end(g));
  OK(tide_graph_replay(g));
  CHECK(tide_graph_device(g) == 0);
  tide_graph_release(g), tide_graph_release(h);
  tide_stream_release(s), tide_stream_release(legacy), tide_stream_release(other);
  tide_shutdown();
}

/* ---- ends in any order ---- */

static void endings(void) {
  tide_graph *ready, *capturing, *kept;
  start(1);
  tide_stream *s = new_stream(0), *t = new_stream(0);
  OK(tide_current_set_stream(s));
  tide_tensor *x = full(0, 1000, 1);
  OK(tide_graph_new(&ready, false));
  OK(tide_graph_new(&capturing, false));
  OK(tide_graph_new(&kept, true));
  OK(tide_graph_begin(ready, NULL, NULL, 1));
  OK(add_one(x, x));
  OK(tide_graph_end(ready));
  OK(tide_graph_begin(kept, NULL, NULL, 1));
  OK(add_one(x, x));
  OK(tide_graph_end(kept));
  OK(tide_graph_replay(ready));
  OK(tide_current_set_stream(t));
  OK(tide_graph_replay(kept));
  CHECK(first_of(x) == 3);
  OK(tide_graph_replay(ready));
  tide_graph_retain(kept);
  tide_graph_release(kept);
  OK(tide_graph_begin(capturing, s, NULL, 1));
  tide_shutdown(); /* in the middle of a capture, while another graph runs */
  CHECK(!tide_thread_is_capturing());
  start(1);
  CHECK(tide_graph_replay(ready) == TIDE_STATE && tide_graph_end(capturing) == TIDE_STATE);
  CHECK(tide_graph_begin(ready, NULL, NULL, 1) == TIDE_STATE && tide_graph_reset(kept) == TIDE_STATE);
  tide_graph_release(ready), tide_graph_release(capturing);
  tide_shutdown();
  tide_graph_release(kept);
  tide_tensor_release(x);
  tide_stream_release(s), tide_stream_release(t);
}

/* ---- allocations that fail ---- */

/* Memory of the device for a temporary and the result. */
static tide_status work(tide_tensor **out, tide_tensor *x) {
  tide_tensor *sum;
  tide_generator *generator;
  TIDE_TRY(tide_binary(&sum, TIDE_OP_mul, x, x, NULL));
  tide_status status = tide_generator_default(&generator, 0);
  if (status == TIDE_OK) status = tide_random(sum, TIDE_UNIFORM, 0, 1, generator);
  if (status == TIDE_OK) status = tide_binary(out, TIDE_OP_add, sum, x, NULL);
  tide_tensor_release(sum);
  return status;
}

static void ramp(void) {
  start(1);
  tide_stream *s = new_stream(0);
  OK(tide_current_set_stream(s));
  tide_tensor *x = full(0, 100, 1);
  OK(tide_device_synchronize(0));
  size_t before = tide_memory_allocated(0);
  int n = 0;
  for (tide_status status = TIDE_MEMORY; status != TIDE_OK && n < 50; n++) {
    tide_graph *g;
    tide_tensor *y = NULL;
    OK(tide_graph_new(&g, false));
    OK(tide_graph_begin(g, s, NULL, 1));
    tide__fault_alloc(n + 1);
    status = work(&y, x);
    tide__fault_alloc(0);
    CHECK(status == TIDE_OK || (status == TIDE_MEMORY && !y));
    if (status == TIDE_OK)
      OK(tide_graph_end(g));
    else
      tide_graph_abort(g);
    CHECK(!tide_thread_is_capturing());
    if (status == TIDE_OK) OK(tide_graph_replay(g));
    if (status == TIDE_OK) CHECK(first_of(y) >= 1 && first_of(y) < 2);
    tide_tensor_release(y);
    tide_graph_release(g);
    tide_memory_pump();
    OK(tide_device_synchronize(0));
    CHECK(tide_memory_allocated(0) == before);
  }
  CHECK(n > 2);
  tide_tensor_release(x);
  tide_stream_release(s);
  tide_shutdown();
}

/* ---- memory that is let go meanwhile ---- */

static void *release_all(void *arg) {
  tide_tensor **list = arg;
  for (int i = 0; i < 20; i++) tide_tensor_release_deferred(list[i]);
  tide_memory_pump();
  return NULL;
}

/* Tensors that the stream used before it was captured are let go by another thread during the capture. */
static void elsewhere(void) {
  start(1);
  tide_stream *s = new_stream(0);
  tide_tensor *list[20];
  for (int i = 0; i < 20; i++) list[i] = full(0, 1000, i);
  tide_tensor *y = full(0, 1000, 0);
  OK(tide_device_synchronize(0));
  OK(tide_current_set_stream(s));
  OK(tide_stream_sleep(s, 20000000));
  for (int i = 0; i < 20; i++) OK(add_one(y, list[i]));
  tide_graph *g;
  pthread_t thread;
  OK(tide_graph_new(&g, false));
  OK(tide_graph_begin(g, s, NULL, TIDE_CAPTURE_THREAD_LOCAL));
  OK(add_one(y, y));
  CHECK(pthread_create(&thread, NULL, release_all, list) == 0);
  pthread_join(thread, NULL);
  OK(add_one(y, y));
  OK(tide_graph_end(g));
  OK(tide_graph_replay(g));
  CHECK(first_of(y) == 22);
  OK(tide_stream_synchronize(s));
  tide_memory_pump();
  tide__deferred_frees_poll_slow(INT64_MAX);
  tide_graph_release(g);
  tide_tensor_release(y);
  for (int i = 0; i < 2; i++) OK(tide_stream_synchronize(s)); /* the first begins to wait, the second sees the end */
  tide__deferred_frees_poll_slow(INT64_MAX);
  CHECK(tide_memory_allocated(0) == 0);
  tide_stream_release(s);
  tide_shutdown();
}

/* ---- several threads ---- */

static void *capture_many(void *arg) {
  int seed = *(int *)arg;
  tide_stream *s = new_stream(0), *side = new_stream(0);
  OK(tide_current_set_stream(s));
  tide_tensor *x = full(0, 100, seed);
  for (int i = 0; i < 60; i++) {
    tide_graph *g;
    tide_tensor *y = NULL, *z = NULL, *junk = full(0, 100, -1);
    OK(tide_graph_new(&g, false));
    OK(tide_graph_begin(g, s, NULL, TIDE_CAPTURE_THREAD_LOCAL));
    tide_tensor_release_deferred(junk);
    OK(tide_binary(&y, TIDE_OP_add, x, x, NULL));
    OK(tide_stream_wait_stream(side, s));
    OK(tide_current_set_stream(side));
    OK(tide_binary(&z, TIDE_OP_add, y, x, NULL));
    tide_tensor_release_deferred(y);
    OK(tide_stream_wait_stream(s, side));
    OK(tide_current_set_stream(s));
    OK(tide_graph_end(g));
    for (int k = 0; k < 3; k++) OK(tide_graph_replay(g));
    CHECK(first_of(z) == 3 * seed);
    tide_tensor_release_deferred(z);
    tide_graph_release(g);
  }
  tide_tensor_release(x);
  OK(tide_stream_synchronize(s));
  OK(tide_current_set_stream(s));
  tide_stream_release(s), tide_stream_release(side);
  return NULL;
}

static void threads(void) {
  start(1);
  pthread_t thread[3];
  int seeds[3] = {1, 2, 3};
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&thread[i], NULL, capture_many, &seeds[i]) == 0);
  for (int i = 0; i < 100; i++) OK(tide_device_synchronize(0)); /* harmless to the captures of others */
  for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 2; i++) OK(tide_device_synchronize(0));
  tide__deferred_frees_poll_slow(INT64_MAX);
  CHECK(tide_memory_allocated(0) == 0 && atomic_load(&tide__sync_watch) == 0);
  OK(tide_memory_empty_cache(0));
  CHECK(tide_memory_reserved(0) == 0);
  tide_shutdown();
}

/* Another thread can neither end a capture nor wait for its stream, and does it no harm in trying. */
static void *meddle(void *arg) {
  tide_graph *g = arg;
  tide_stream *s = g->capture.streams[0];
  tide_event *e;
  CHECK(tide_graph_end(g) == TIDE_STATE && tide_graph_begin(g, NULL, NULL, 1) == TIDE_STATE);
  tide_graph_abort(g);
  OK(tide_event_new(&e, 0));
  OK(tide_event_record(e, s));
  tide_stream *own = new_stream(0);
  CHECK(tide_stream_wait_event(own, e) == TIDE_STATE && tide_event_query(&(bool){false}, e) == TIDE_STATE);
  CHECK(tide_stream_wait_stream(s, own) == TIDE_STATE && tide_stream_wait_stream(own, s) == TIDE_STATE);
  CHECK(tide_stream_synchronize(s) == TIDE_STATE && tide_stream_query(&(bool){false}, s) == TIDE_STATE);
  tide_event_release(e);
  tide_stream_release(own);
  return NULL;
}

static void meddling(void) {
  start(1);
  tide_graph *g;
  pthread_t thread;
  tide_stream *s = new_stream(0);
  OK(tide_current_set_stream(s));
  tide_tensor *x = full(0, 10, 1);
  OK(tide_graph_new(&g, false));
  OK(tide_graph_begin(g, s, NULL, TIDE_CAPTURE_THREAD_LOCAL));
  CHECK(pthread_create(&thread, NULL, meddle, g) == 0);
  pthread_join(thread, NULL);
  OK(add_one(x, x));
  OK(tide_graph_end(g));
  OK(tide_graph_replay(g));
  CHECK(first_of(x) == 2);
  tide_graph_release(g);
  tide_tensor_release(x);
  tide_stream_release(s);
  tide_shutdown();
}

/* ---- faults ---- */

static void faults(void) {
  start(1);
  tide_graph *g;
  tide_stream *s = new_stream(0);
  OK(tide_current_set_stream(s));
  tide_tensor *x = full(0, 10, 1);
  OK(tide_graph_new(&g, false));
  OK(tide_graph_begin(g, s, NULL, 1));
  for (int i = 0; i < 5; i++) OK(add_one(x, x));
  OK(tide_graph_end(g));
  OK(tide_stream_synchronize(s));
  /* The stream sleeps first: a fault is to come when all is queued, and not to the call that queues it. */
  OK(tide_sim_fault("launch:3"));
  OK(tide_stream_sleep(s, HOLD));
  OK(tide_graph_replay(g));
  tide_sim_wake();
  CHECK(tide_stream_synchronize(s) == TIDE_ACCELERATOR);
  CHECK(first_of(x) == 5);
  OK(tide_sim_fault("sticky:2"));
  OK(tide_stream_sleep(s, HOLD));
  OK(tide_graph_replay(g));
  tide_sim_wake();
  CHECK(tide_stream_synchronize(s) == TIDE_ACCELERATOR && tide_error_get()->sticky);
  CHECK(tide_graph_replay(g) == TIDE_ACCELERATOR);
  tide_graph *h;
  OK(tide_graph_new(&h, false));
  CHECK(tide_graph_begin(h, s, NULL, 1) == TIDE_ACCELERATOR && !tide_thread_is_capturing());
  tide_graph_release(h), tide_graph_release(g);
  tide_tensor_release(x);
  tide_stream_release(s);
  tide_shutdown();
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  arguments();
  endings();
  ramp();
  elsewhere();
  threads();
  meddling();
  faults();
  printf("graph_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
