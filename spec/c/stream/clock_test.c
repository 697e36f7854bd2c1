/* clock_test.c: virtual time of simulated devices. What would take minutes is measured as minutes and is over at once;
 * what holds a stream, and a host that only asks, is not hurried. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "tide/sim.h"
#include "tide/tide.h"

enum { SECOND = 1000000000 };
static const int64_t LONG = (int64_t)50 * SECOND; /* the longest sleeps that hold nothing are shorter than a minute */

static double system_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void start(uint64_t seed) {
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = 2, .sim_seed = seed + 1}));
}

static tide_stream *stream(int device) {
  tide_stream *s = NULL;
  OK(tide_stream_new(&s, device, 0));
  return s;
}

static tide_event *record(tide_stream *s) {
  tide_event *e = NULL;
  OK(tide_event_new(&e, TIDE_EVENT_TIMING));
  OK(tide_event_record(e, s));
  return e;
}

static double between(tide_event *a, tide_event *b) {
  double ms = 0;
  OK(tide_event_elapsed(&ms, a, b));
  return ms;
}

static bool done(tide_stream *s) {
  bool yes = false;
  OK(tide_stream_query(&yes, s));
  return yes;
}

/* Three streams of two devices sleep for different times, one behind another: all of it is over in the order of time,
 * and events measure it as if it had been waited for. */
static void test_order_of_time(uint64_t seed) {
  start(seed);
  double begun = system_ms();
  tide_stream *a = stream(0), *b = stream(0), *c = stream(1);
  tide_event *from = record(a), *end[4];
  OK(tide_stream_synchronize(a));
  OK(tide_stream_sleep(a, LONG));
  end[2] = record(a);
  OK(tide_stream_sleep(c, LONG / 2));
  end[1] = record(c);
  OK(tide_stream_sleep(b, LONG / 5));
  end[0] = record(b);
  OK(tide_stream_wait_event(b, end[2]));
  OK(tide_stream_sleep(b, LONG / 5));
  end[3] = record(b);
  OK(tide_stream_synchronize(c));
  CHECK(!done(a) && !done(b)); /* the host waited for less */
  OK(tide_event_synchronize(end[3]));
  CHECK(done(a) && done(b));
  CHECK(between(from, end[0]) >= 10e3 && between(end[0], end[2]) > 0 && between(from, end[2]) >= 50e3);
  CHECK(between(end[2], end[3]) >= 10e3 && between(from, end[3]) >= 60e3);
  CHECK(between(from, end[3]) > system_ms() - begun);
  for (int i = 0; i < 4; i++) tide_event_release(end[i]);
  tide_event_release(from);
  tide_stream_release(a), tide_stream_release(b), tide_stream_release(c);
  tide_shutdown();
}

/* A stream is held, beside one whose sleep is waited for: it stays so until it is let go. */
static void test_hold(void) {
  start(0);
  tide_stream *held = stream(0), *s = stream(0);
  OK(tide_stream_sleep(held, HOLD));
  OK(tide_stream_sleep(s, LONG));
  OK(tide_stream_synchronize(s));
  OK(tide_stream_synchronize(s)); /* nothing is waited for any more */
  CHECK(!done(held));
  tide_sim_wake();
  OK(tide_stream_synchronize(held));
  tide_stream_release(held), tide_stream_release(s);
  tide_shutdown();
}

/* Asking is not waiting: the device does not hurry. */
static void test_asking(void) {
  start(0);
  tide_stream *s = stream(0);
  OK(tide_stream_sleep(s, LONG));
  const struct timespec moment = {0, 20000000};
  for (int i = 0; i < 5; i++) {
    CHECK(!done(s));
    nanosleep(&moment, NULL);
  }
  OK(tide_stream_synchronize(s));
  CHECK(done(s));
  tide_stream_release(s);
  tide_shutdown();
}

static void test_setting(void) {
  setenv("TIDE_SIM_CLOCK", "fast", 1);
  start(0);
  tide_stream *s = NULL;
  CHECK(tide_stream_new(&s, 0, 0) == TIDE_VALUE);
  CHECK(strstr(tide_error_get()->message, "TIDE_SIM_CLOCK is not understood, got \"fast\", expected real or virtual"));
  tide_shutdown();
  setenv("TIDE_SIM_CLOCK", "real", 1);
  start(0);
  s = stream(0);
  double begun = system_ms();
  OK(tide_stream_sleep(s, SECOND / 10));
  OK(tide_stream_synchronize(s));
  CHECK(system_ms() - begun >= 100);
  tide_stream_release(s);
  tide_shutdown();
}

int main(void) {
  setenv("TIDE_SIM_CLOCK", "virtual", 1);
  for (uint64_t seed = 0; seed < 20; seed++) test_order_of_time(seed);
  test_hold();
  test_asking();
  test_setting();
  printf("clock_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
