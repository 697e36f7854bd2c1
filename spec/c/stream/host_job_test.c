/* Work of the host as work of a stream, on simulated devices (tide/host_job.h). */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "tide/debug.h"
#include "tide/graph.h"
#include "tide/host_job.h"
#include "tide/tide.h"

static int stage; /* what the host did, for the stream */

static void *do_job(void *job) {
  bool ready = false;
  while (!ready) OK(tide_host_job_ready(&ready, job));
  usleep(20000);
  __atomic_store_n(&stage, 1, __ATOMIC_RELEASE);
  tide_host_job_end(job, TIDE_OK, NULL);
  return NULL;
}

static void *fail_job(void *job) {
  bool ready = false;
  while (!ready) OK(tide_host_job_ready(&ready, job));
  tide_host_job_end(job, TIDE_VALUE, "the job went wrong");
  return NULL;
}

static void test_order(tide_stream *s) {
  tide_host_job *job;
  pthread_t thread;
  bool done = true;
  OK(tide_host_job_new(&job, 0));
  OK(tide_host_job_ready(&done, job));
  CHECK(done); /* nothing to wait for */
  OK(tide_stream_sleep(s, 5000000));
  OK(tide_host_job_begin(job, s));
  OK(tide_host_job_ready(&done, job));
  CHECK(!done);
  CHECK(tide_host_job_begin(job, s) == TIDE_STATE);
  OK(tide_host_job_wait(job, s));
  OK(tide_stream_query(&done, s));
  CHECK(!done);
  pthread_create(&thread, NULL, do_job, job);
  OK(tide_stream_synchronize(s));
  CHECK(__atomic_load_n(&stage, __ATOMIC_ACQUIRE) == 1);
  pthread_join(thread, NULL);
  OK(tide_host_job_wait(job, s)); /* nothing any more */
  OK(tide_stream_synchronize(s));
  tide_host_job_release(job);
}

static void test_failure(tide_stream *s) {
  tide_host_job *job;
  pthread_t thread;
  bool ready = true;
  OK(tide_host_job_new(&job, 0));
  OK(tide_host_job_begin(job, s));
  OK(tide_host_job_wait(job, s));
  pthread_create(&thread, NULL, fail_job, job);
  pthread_join(thread, NULL);
  OK(tide_host_job_ready(&ready, job));
  CHECK(!ready); /* nobody has heard of it */
  CHECK(tide_device_synchronize(0) == TIDE_VALUE);
  CHECK(!strcmp(tide_error_get()->message, "the job went wrong"));
  OK(tide_host_job_ready(&ready, job));
  CHECK(ready);
  OK(tide_device_synchronize(0)); /* once */
  tide_host_job_release(job);
}

static void test_release(tide_stream *s) {
  tide_host_job *job;
  OK(tide_host_job_new(&job, 0));
  OK(tide_host_job_begin(job, s));
  OK(tide_host_job_wait(job, s));
  tide_host_job_release(job); /* ends it */
  OK(tide_stream_synchronize(s));
  OK(tide_host_job_new(&job, 0));
  OK(tide_host_job_wait(job, s));
  tide_host_job_end(job, TIDE_VALUE, "nobody hears of it");
  tide_host_job_release(job);
  OK(tide_stream_synchronize(s));
  tide_host_job_release(NULL);
  CHECK(tide_host_job_new(&job, 7) == TIDE_DEVICE);
}

/* A job that no stream waits for: who waits for the device hears of its failure all the same. */
static void test_unwaited(tide_stream *s) {
  tide_host_job *job, *holds;
  bool ready;
  CHECK(tide_host_job_wait(NULL, NULL) == TIDE_ARGUMENT);
  for (int fails = 0; fails < 2; fails++) {
    OK(tide_host_job_new(&job, 0));
    OK(tide_host_job_wait(job, NULL));
    OK(tide_stream_synchronize(s)); /* it holds nothing up */
    OK(tide_host_job_new(&holds, 0));
    OK(tide_host_job_wait(holds, s));
    tide_host_job_end(job, fails ? TIDE_VALUE : TIDE_OK, "the job went wrong");
    OK(tide_host_job_ready(&ready, job));
    CHECK(ready == !fails);
    if (fails) CHECK(tide_stream_synchronize(s) == TIDE_VALUE);
    OK(tide_host_job_ready(&ready, job));
    CHECK(ready);
    tide_host_job_end(holds, TIDE_OK, NULL);
    OK(tide_stream_synchronize(s)); /* once */
    tide_host_job_release(job), tide_host_job_release(holds);
  }
}

/* To peek is no wait: who asks the event next hears of the failure. */
static void test_peek(tide_stream *s) {
  tide_host_job *job;
  tide_event *event;
  bool done = false;
  OK(tide_event_new(&event, 0));
  OK(tide_event_peek(&done, event));
  CHECK(done);
  OK(tide_host_job_new(&job, 0));
  OK(tide_host_job_wait(job, s));
  OK(tide_event_record(event, s));
  tide_host_job_end(job, TIDE_VALUE, "the job went wrong");
  OK(tide_event_peek(&done, event));
  CHECK(!done);
  CHECK(tide_event_query(&done, event) == TIDE_VALUE);
  OK(tide_event_synchronize(event));
  OK(tide_event_peek(&done, event));
  CHECK(done);
  CHECK(tide_event_peek(NULL, event) == TIDE_ARGUMENT && tide_event_peek(&done, NULL) == TIDE_ARGUMENT);
  tide_event_release(event), tide_host_job_release(job);
}

static void test_capture(tide_stream *s) {
  tide_host_job *job;
  tide_graph *graph;
  OK(tide_host_job_new(&job, 0));
  OK(tide_graph_new(&graph, false));
  OK(tide_graph_begin(graph, s, NULL, 0));
  CHECK(tide_host_job_begin(job, s) == TIDE_STATE && strstr(tide_error_get()->message, "captured"));
  CHECK(tide_host_job_wait(job, s) == TIDE_STATE);
  OK(tide_graph_end(graph));
  tide_graph_release(graph);
  tide_host_job_release(job);
}

int main(void) {
  tide_config config = {.struct_size = sizeof config, .sim_devices = 2};
  tide_stream *s;
  tide_host_job *late;
  OK(tide_init(&config));
  OK(tide_stream_new(&s, 0, 0));
  test_order(s);
  test_failure(s);
  test_release(s);
  test_unwaited(s);
  test_peek(s);
  test_capture(s);
  OK(tide_host_job_new(&late, 0));
  OK(tide_host_job_begin(late, s));
  OK(tide_host_job_wait(late, s));
  tide_stream_release(s);
  tide_shutdown(); /* does not wait for the host */
  bool ready = false;
  CHECK(tide_host_job_ready(&ready, late) != TIDE_OK || ready);
  tide_host_job_release(late);
  printf("host_job_test: %d failures\n", failures);
  return failures != 0;
}
