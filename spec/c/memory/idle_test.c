/* idle_test.c: what is kept of device memory, and for how long, by a clock that the test moves on. */
#include <stdio.h>

#include "memory/idle.h"
#include "memory_test.h"
#include "tide/graph.h"

static tide_block *block(tide_stream *s, size_t bytes) {
  tide_block *b = NULL;
  OK(tide__block_alloc(&b, s, bytes));
  return b;
}

static void later(int64_t ms) { tide__idle_ahead += ms; }

/* Nothing goes on: 256 MiB stay for two seconds, then nothing. Segments of both kinds. */
static void quiet(bool expandable) {
  start(1, (size_t)4 << 30);
  OK(tide_sim_set_dry(true));
  if (!expandable) OK(tide_allocator_configure("expandable_segments:False"));
  tide_block *b[7];
  for (int i = 0; i < 7; i++) b[i] = block(current(0), 100 * MiB);
  tide_block *small = block(current(0), 1000);
  for (int i = 0; i < 7; i++) tide__block_free(b[i]);
  CHECK(tide_memory_reserved(0) == 702 * MiB);
  later(500);
  size_t kept = tide_memory_reserved(0);
  CHECK(kept <= 302 * MiB && kept >= 202 * MiB);
  later(1000);
  CHECK(tide_memory_reserved(0) == kept);
  later(1000);
  CHECK(tide_memory_reserved(0) == 2 * MiB && stats(0).num_sync_all_streams == 0);
  tide__block_free(small);
  tide_shutdown();
}

/* A loop that goes on keeps what it takes again, however large; what it does not take goes. */
static void in_a_loop(void) {
  start(1, (size_t)8 << 30);
  OK(tide_sim_set_dry(true));
  tide_block *once = block(current(0), 600 * MiB), *b, *c;
  b = block(current(0), 1000 * MiB), c = block(current(0), 500 * MiB);
  tide__block_free(once);
  int64_t calls = 0;
  for (int i = 0; i < 60; i++) {
    tide__block_free(b), tide__block_free(c);
    b = block(current(0), 1000 * MiB), c = block(current(0), 500 * MiB);
    tide_memory_pump();
    if (i == 29) calls = stats(0).num_device_alloc;
    later(100);
  }
  CHECK(tide_memory_reserved(0) <= 1540 * MiB); /* no piece is smaller than the rest */
  CHECK(stats(0).num_device_alloc == calls && stats(0).num_sync_all_streams == 0);
  tide__block_free(b), tide__block_free(c);
  tide_shutdown();
}

/* What a loop takes and frees each time is not idle, however little of the time it is in use. */
static void now_and_then(void) {
  start(1, (size_t)4 << 30);
  for (int i = 0; i < 60; i++) {
    tide__block_free(block(current(0), 600 * MiB));
    later(100);
    tide_memory_pump();
    CHECK(tide_memory_reserved(0) == 600 * MiB);
  }
  later(3000);
  CHECK(tide_memory_reserved(0) == 0);
  tide_shutdown();
}

/* Work that is queued is not waited for, and its memory stays; so does everything during a capture. */
static void at_work(void) {
  start(1, (size_t)4 << 30);
  OK(tide_sim_set_dry(false));
  tide_stream *s, *t;
  tide_graph *g;
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_stream_new(&t, 0, 0));
  tide_block *b = block(s, 100 * MiB), *c = block(t, 200 * MiB);
  tide__block_free(b), tide__block_free(c);
  OK(tide_stream_sleep(s, HOLD));
  later(3000);
  tide_memory_pump();
  CHECK(tide_memory_reserved(0) == 100 * MiB); /* that of the other stream has gone */
  tide_sim_wake();
  b = block(s, 100 * MiB);
  tide__block_free(b);
  OK(tide_stream_synchronize(s));
  OK(tide_graph_new(&g, false));
  OK(tide_graph_begin(g, t, NULL, TIDE_CAPTURE_GLOBAL));
  later(3000);
  CHECK(tide_memory_reserved(0) == 100 * MiB);
  OK(tide_graph_end(g));
  later(3000);
  CHECK(tide_memory_reserved(0) == 0);
  tide_graph_release(g);
  tide_stream_release(s), tide_stream_release(t);
  tide_shutdown();
}

/* Nobody knows whether a stream of the host's is idle: what it has cached stays. */
static void of_the_host(void) {
  start(1, (size_t)4 << 30);
  OK(tide_sim_set_dry(false));
  tide_block *b = block(current(0), 100 * MiB), *c;
  const tide_backend *backend = tide__backend_peek(0);
  tide_stream *wrapped;
  void *theirs;
  OK(backend->stream_new(&theirs, 0, 0));
  OK(tide_stream_wrap(&wrapped, 0, backend->stream_handle(theirs)));
  c = block(wrapped, 200 * MiB);
  OK(tide_stream_sleep(wrapped, HOLD));
  tide__block_free(b), tide__block_free(c);
  later(3000);
  tide_memory_pump();
  CHECK(tide_memory_reserved(0) == 200 * MiB);
  tide_sim_wake();
  OK(tide_device_synchronize(0));
  tide_stream_release(wrapped);
  OK(tide_memory_empty_cache(0));
  CHECK(tide_memory_reserved(0) == 0);
  backend->stream_free(theirs);
  tide_shutdown();
}

/* A worker that looks whether there is anything to give back, while the devices may be about to go, gives nothing. */
static void looking(void) {
  start(1, (size_t)1 << 30);
  OK(tide_sim_set_dry(true));
  tide__block_free(block(current(0), 100 * MiB));
  later(3000);
  CHECK(tide__idle_any());
  CHECK(atomic_load(&tide__allocator_of(0)->reserved) == 100 * MiB);
  CHECK(tide_memory_reserved(0) == 0 && !tide__idle_any());
  tide_shutdown();
}

static void pinned(void) {
  start(1, (size_t)1 << 30);
  tide_storage *s;
  tide_host_memory_stats t;
  OK(tide__storage_new(&s, 10 * MiB, TIDE_CPU, true));
  tide_storage_release(s);
  tide_memory_pump();
  tide_host_memory_get_stats(&t);
  CHECK(t.allocated_bytes.current == 16 << 20);
  later(2500);
  tide_memory_pump();
  tide_host_memory_get_stats(&t);
  CHECK(t.allocated_bytes.current == 0);
  tide_shutdown();
}

int main(void) {
  quiet(true);
  quiet(false);
  in_a_loop();
  now_and_then();
  at_work();
  of_the_host();
  looking();
  pinned();
  printf("idle_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
