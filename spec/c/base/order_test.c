/* order_test.c: which waits between streams of two simulated devices are needless, and that nothing else is left
 * out. */
#include "stream/stream.h"

#include <stdlib.h>

#include "check.h"
#include "tide/comm.h"
#include "tide/device.h"
#include "tide/sim.h"

enum { COUNT = 1000, ROUNDS = 200 };

static tide_stream *stream_of(int device) {
  tide_stream *s = NULL;
  OK(tide_stream_new(&s, device, 0));
  return s;
}

static void launch(tide_stream *s) { OK(tide_stream_sleep(s, 1000)); }

static void what_makes_a_wait_needless(void) {
  tide_stream *a = stream_of(0), *b = stream_of(1), *c = stream_of(1);
  tide_event *event = NULL;
  CHECK(!tide__order_settled(a, b)); /* nobody has waited */
  OK(tide_stream_wait_stream(a, b));
  CHECK(!tide__order_settled(a, b)); /* of a stream that never launched nothing is known */
  launch(b);
  OK(tide_stream_wait_stream(a, b));
  CHECK(tide__order_settled(a, b) && !tide__order_settled(b, a));
  launch(a);
  OK(tide_stream_wait_stream(b, a)); /* adds nothing to b that a has not got */
  CHECK(tide__order_settled(a, b) && tide__order_settled(b, a));
  launch(b);
  CHECK(!tide__order_settled(a, b) && tide__order_settled(b, a));
  OK(tide_stream_wait_stream(a, b));
  CHECK(tide__order_settled(a, b) && tide__order_settled(b, a));
  OK(tide_stream_wait_stream(b, c)); /* b waits for work that a knows nothing of */
  CHECK(!tide__order_settled(a, b));
  OK(tide_stream_wait_stream(a, b));
  CHECK(tide__order_settled(a, b));
  OK(tide_event_new(&event, 0));
  launch(c);
  OK(tide_event_record(event, c));
  OK(tide_stream_wait_event(b, event));
  CHECK(!tide__order_settled(a, b));
  tide_event_release(event);
  tide_stream_release(a), tide_stream_release(b), tide_stream_release(c);
}

static void whether_a_watched_point_stands_behind_all(void) {
  tide_stream *a = stream_of(0), *b = stream_of(1);
  CHECK(!tide__order_is_watched(a));
  tide__order_watched(a, tide__order_now(a)); /* of a stream that never launched nothing is known */
  CHECK(!tide__order_is_watched(a));
  launch(a);
  tide__order_watched(a, tide__order_now(a));
  CHECK(tide__order_is_watched(a) && !tide__order_is_watched(b));
  launch(a);
  CHECK(!tide__order_is_watched(a));
  tide__order_watched(a, tide__order_now(a));
  OK(tide_stream_wait_stream(a, b));
  CHECK(!tide__order_is_watched(a));
  tide__order_watched(a, tide__order_now(a));
  CHECK(tide__order_is_watched(a) && tide_stream_handle(a) != 0 && !tide__order_is_watched(a));
  tide_stream_release(a), tide_stream_release(b);
}

static void not_where_others_may_queue(void) {
  tide_stream *a = stream_of(0), *b = stream_of(1);
  launch(b);
  OK(tide_stream_wait_stream(a, b));
  CHECK(tide__order_settled(a, b));
  CHECK(tide_stream_handle(b) != 0); /* whoever has it may queue work that nobody counts */
  CHECK(!tide__order_settled(a, b));
  OK(tide_stream_wait_stream(a, b));
  CHECK(!tide__order_settled(a, b));
  tide_stream_release(a), tide_stream_release(b);
}

static double first(const tide_tensor *x) {
  tide_tensor *one = NULL;
  tide_scalar s = {0};
  OK(tide_select(&one, x, 0, 0));
  OK(tide_item(&s, one));
  tide_tensor_release(one);
  return s.re;
}

/* A row of sums and copies, of which some have something between them, comes out as if every wait were there. */
static void a_row_of_collectives(void) {
  static const int devices[] = {0, 1};
  tide_tensor *list[2] = {full(0, COUNT, 0), full(1, COUNT, 0)}, *ones = full(1, COUNT, 1), *sum = NULL, *outs[2];
  double want = 0;
  srand(7);
  for (int r = 0; r < ROUNDS; r++) {
    if (rand() % 3 == 0) {
      OK(tide_binary(NULL, TIDE_OP_add, list[1], ones, list[1]));
      want += 1;
    }
    OK(tide_comm_reduce_add(&sum, list, 2, 0));
    if (rand() % 3 == 0) {
      OK(tide_comm_broadcast(outs, sum, devices, 2));
      CHECK(first(outs[1]) == want);
      tide_tensor_release(outs[0]), tide_tensor_release(outs[1]);
    }
    if (rand() % 5 == 0) CHECK(first(sum) == want);
    tide_tensor_release(sum);
  }
  tide_tensor_release(list[0]), tide_tensor_release(list[1]), tide_tensor_release(ones);
}

int main(void) {
  tide_config config = {.struct_size = sizeof config, .sim_devices = 2};
  OK(tide_init(&config));
  what_makes_a_wait_needless();
  whether_a_watched_point_stands_behind_all();
  not_where_others_may_queue();
  a_row_of_collectives();
  tide_shutdown();
  printf("order_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
