/* ladder_test.c: what an allocation that does not fit tries, rung by rung, on simulated devices.
 *
 * Each rung has a case in which it alone helps; the counters tell that no later one was climbed. Then what a failure
 * leaves behind. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "memory_test.h"

static tide_block *garbage[4];
static int garbage_count, reclaimed;

static int drop_garbage(void *user, int device, size_t bytes) {
  CHECK(user == &reclaimed && device == 0 && bytes == 24 * MiB);
  reclaimed++;
  tide_block *b; /* no lock is held: a hook may allocate */
  OK(tide__block_alloc(&b, current(0), 100));
  tide__block_free(b);
  int dropped = garbage_count;
  while (garbage_count > 0) tide__block_free(garbage[--garbage_count]);
  return dropped;
}

/* All of it, with segments that do not grow. */
static void whole_ladder(void) {
  start(1, 64 * MiB);
  OK(tide_allocator_configure("expandable_segments:False"));
  tide_stream *s = current(0), *other;
  tide_block *b, *c, *d;
  OK(tide__block_alloc(&b, s, 512));
  tide__block_free(b);
  OK(tide_reclaim_add(drop_garbage, &reclaimed));
  for (int i = 0; i < 2; i++) OK(tide__block_alloc(&garbage[garbage_count++], s, 24 * MiB));
  OK(tide__block_alloc(&b, s, 24 * MiB)); /* the host's garbage */
  CHECK(reclaimed == 1 && stats(0).num_alloc_retries == 0);
  OK(tide__block_alloc(&c, s, 24 * MiB));
  OK(tide_stream_new(&other, 0, 0));
  OK(tide_stream_sleep(other, 20000000));
  tide__block_use(c, other);
  tide__block_free(c);
  OK(tide__block_alloc(&c, s, 24 * MiB)); /* what is queued on another stream */
  CHECK(reclaimed == 2 && stats(0).num_sync_all_streams == 1 && stats(0).num_alloc_retries == 0);
  tide_reclaim_remove(drop_garbage, &reclaimed);
  tide__block_free(c), tide__block_free(b);
  OK(tide__block_alloc(&b, s, 50 * MiB)); /* the cache */
  CHECK(stats(0).num_alloc_retries == 1 && stats(0).num_ooms == 0);
  d = NULL;
  CHECK(tide__block_alloc(&d, s, 30 * MiB) == TIDE_MEMORY && d == NULL);
  const tide_error *e = tide_error_get();
  CHECK(e->status == TIDE_MEMORY && e->device == 0 && e->requested == 30 * MiB && e->total == 64 * MiB);
  CHECK(e->allocated == 50 * MiB && e->reserved >= 50 * MiB && e->free <= 14 * MiB);
  CHECK(strstr(e->message, "30.00 MiB") && strstr(e->message, "64.00 MiB") && strstr(e->message, "50.00 MiB"));
  CHECK(stats(0).num_ooms == 1 && stats(0).num_alloc_retries == 2);
  tide__block_free(b);
  CHECK(tide__block_alloc(&b, s, SIZE_MAX - 100) == TIDE_MEMORY);
  tide_stream_release(other);
  tide_shutdown();
}

/* ---- one rung at a time, with segments that grow ---- */

static int calls;
static int count_call(void *user, int device, size_t bytes) {
  (void)user, (void)device, (void)bytes;
  calls++;
  return 0;
}

static int always(void *unused) {
  (void)unused;
  return 1;
}

/* Runs when the first wait is over: the next one is interrupted. */
static void keep_busy(void *stream) {
  OK(tide_stream_sleep(stream, 300000000));
  tide_interrupt_set(always, NULL);
}

static void check_climb(int reclaims, int64_t waits, int64_t retries, int64_t ooms) {
  tide_memory_stats t = stats(0);
  tide_reclaim_remove(count_call, NULL);
  CHECK(calls == reclaims && t.num_sync_all_streams == waits);
  CHECK(t.num_alloc_retries == retries && t.num_ooms == ooms);
}

static tide_tensor *tensor(size_t bytes) {
  tide_tensor *x = NULL;
  OK(tide_empty(&x, &(int64_t){(int64_t)bytes}, 1, &(tide_options){.dtype = TIDE_UINT8, .device = 0}));
  return x;
}

static void begin(void) {
  start(1, 64 * MiB);
  OK(tide_reclaim_add(count_call, NULL));
  calls = 0;
}

static void deferred_releases(void) {
  begin();
  tide_tensor *x = tensor(40 * MiB);
  tide_tensor_release_deferred(x);
  x = tensor(40 * MiB);
  check_climb(0, 0, 0, 0);
  tide_tensor_release(x);
  tide_shutdown();
}

/* A pool ends with its last reference, also if a request in it went down the ladder: the next new segment finds its
 * memory given back. */
static void pool_of_a_climb(void) {
  tide_mempool *pool = NULL;
  begin();
  OK(tide_mempool_new(&pool, 0));
  tide_tensor_release(tensor(40 * MiB)); /* of no pool: room for the next one once it is given back */
  OK(tide_current_set_pool(pool, 0));
  tide_tensor_release(tensor(40 * MiB));
  CHECK(calls == 1);
  tide_reclaim_remove(count_call, NULL);
  OK(tide_current_set_pool(NULL, 0));
  tide_mempool_release(pool);
  tide_tensor *x = tensor(20 * MiB);
  CHECK(tide_memory_reserved(0) < (int64_t)(40 * MiB));
  tide_tensor_release(x);
  tide_shutdown();
}

/* More pieces wait than one allocation looks at in passing; the one that is needed is the last. */
static void passed_events(void) {
  enum { OTHERS = 20 };
  begin();
  tide_stream *other;
  tide_block *b[OTHERS], *large;
  OK(tide_stream_new(&other, 0, 0));
  OK(tide__block_alloc(&large, current(0), 40 * MiB));
  for (int i = 0; i < OTHERS; i++) OK(tide__block_alloc(&b[i], current(0), 512));
  for (int i = 0; i < OTHERS; i++) tide__block_use(b[i], other);
  tide__block_use(large, other);
  for (int i = 0; i < OTHERS; i++) tide__block_free(b[i]);
  tide__block_free(large);
  const tide_backend *backend = tide__backend_peek(0);
  OK(backend->device_sync(0)); /* behind core's back: nobody has looked at the events since */
  OK(tide__block_alloc(&large, current(0), 40 * MiB));
  check_climb(0, 0, 0, 0);
  tide__block_free(large);
  tide_stream_release(other);
  tide_shutdown();
}

static tide_tensor *dead[2];
static int collect(void *user, int device, size_t bytes) {
  (void)device, (void)bytes;
  int i = *(int *)user;
  if (!dead[i]) return 0;
  tide_tensor_release_deferred(dead[i]); /* as a finaliser does */
  dead[i] = NULL;
  return 1;
}

/* Every hook runs: each Lua state has one. */
static void garbage_of_all(void) {
  static int first = 0, second = 1;
  begin();
  OK(tide_reclaim_add(collect, &first));
  OK(tide_reclaim_add(collect, &second));
  dead[0] = tensor(20 * MiB);
  dead[1] = tensor(20 * MiB);
  tide_tensor *x = tensor(60 * MiB);
  check_climb(1, 0, 0, 0);
  tide_reclaim_remove(collect, &first);
  tide_reclaim_remove(collect, &second);
  tide_tensor_release(x);
  tide_shutdown();
}

static void queued_work(void) {
  begin();
  tide_stream *other;
  tide_block *b;
  OK(tide_stream_new(&other, 0, 0));
  OK(tide__block_alloc(&b, current(0), 40 * MiB));
  OK(tide_stream_sleep(other, 300000000));
  tide__block_use(b, other);
  tide__block_free(b);
  OK(tide__block_alloc(&b, current(0), 40 * MiB));
  check_climb(1, 1, 0, 0);
  tide__block_free(b);
  tide_stream_release(other);
  tide_shutdown();
}

static void cache_of_others(void) {
  begin();
  tide_stream *other;
  tide_block *b;
  OK(tide_stream_new(&other, 0, 0));
  OK(tide__block_alloc(&b, other, 40 * MiB));
  tide__block_free(b);
  OK(tide__block_alloc(&b, current(0), 50 * MiB)); /* what the other stream has cached goes back to the driver */
  check_climb(1, 1, 1, 0);
  tide__block_free(b);
  tide_stream_release(other);
  tide_shutdown();
}

/* Between the blocks of another stream, which are in use. What is borrowed there goes back to that stream, once this
 * one is done with it. */
static void between_blocks_of_others(bool interrupt) {
  start(1, 64 * MiB);
  OK(tide_allocator_configure("expandable_segments:False"));
  tide_stream *other;
  tide_block *held[3], *between[3], *b, *c;
  OK(tide_stream_new(&other, 0, 0));
  for (int i = 0; i < 3; i++) { /* a segment of 20 MiB each: 9 held, 9 free behind them */
    OK(tide__block_alloc(&held[i], other, 9 * MiB));
    OK(tide__block_alloc(&between[i], other, 9 * MiB));
  }
  for (int i = 0; i < 3; i++) tide__block_free(between[i]);
  OK(tide_stream_sleep(other, 20000000));
  int64_t split = stats(0).inactive_split_bytes[ALL].current;
  if (interrupt) { /* in the wait for what it wants to borrow: it is there again */
    tide_storage *foreign;
    OK(tide__storage_wrap(&foreign, &foreign, 8, 0, keep_busy, other));
    tide__storage_use(foreign, other);
    tide_storage_release(foreign);
    CHECK(tide__block_alloc(&b, current(0), 9 * MiB) == TIDE_INTERRUPTED);
    tide_interrupt_set(NULL, NULL);
    CHECK(stats(0).inactive_split_bytes[ALL].current == split && stats(0).num_sync_all_streams == 2);
    CHECK(stats(0).num_ooms == 0 && stats(0).active[ALL].current == 3);
  }
  OK(tide__block_alloc(&b, current(0), 9 * MiB));
  CHECK(stats(0).num_ooms == 0 && b->key.stream == other->id);
  bool idle = false;
  OK(tide_stream_query(&idle, other));
  CHECK(idle); /* it was waited for */
  CHECK(stats(0).reserved_bytes[ALL].current == (int64_t)(60 * MiB));
  OK(tide_stream_sleep(current(0), HOLD));
  tide__block_free(b);
  CHECK(b->state == BLOCK_DEFERRED); /* this stream still works there */
  OK(tide__block_alloc(&b, other, 9 * MiB));
  OK(tide__block_alloc(&c, other, 9 * MiB));
  tide_sim_wake();
  OK(tide_device_synchronize(0));
  tide__block_free(b), tide__block_free(c);
  CHECK(stats(0).inactive_split_bytes[ALL].current == split);
  CHECK(tide__block_alloc(&b, current(0), 30 * MiB) == TIDE_MEMORY && stats(0).num_ooms == 1);
  CHECK(strstr(tide_error_get()->message, "largest free block is 11.00 MiB (fragmentation 0.67)"));
  for (int i = 0; i < 3; i++) tide__block_free(held[i]);
  CHECK(stats(0).active_bytes[ALL].current == 0 && stats(0).inactive_split[ALL].current == 0);
  OK(tide_memory_empty_cache(0));
  CHECK(tide_memory_reserved(0) == 0);
  tide_stream_release(other);
  tide_shutdown();
}

/* A block at any place of its segment is counted as before where the wait that would borrow it ends early. */
static void interrupted_borrow(int place) {
  start(1, 64 * MiB);
  OK(tide_allocator_configure("expandable_segments:False"));
  tide_stream *other;
  tide_storage *foreign;
  tide_block *held[9], *b;
  OK(tide_stream_new(&other, 0, 0));
  for (int i = 0; i < 9; i++) OK(tide__block_alloc(&held[i], other, 6 * MiB)); /* three in a segment of 20 MiB */
  for (int i = place; i < 9; i += 3) tide__block_free(held[i]);
  OK(tide_stream_sleep(other, 20000000));
  const tide_memory_stats before = stats(0);
  OK(tide__storage_wrap(&foreign, &foreign, 8, 0, keep_busy, other));
  tide__storage_use(foreign, other);
  tide_storage_release(foreign);
  CHECK(tide__block_alloc(&b, current(0), 6 * MiB) == TIDE_INTERRUPTED);
  tide_interrupt_set(NULL, NULL);
  CHECK(stats(0).inactive_split[ALL].current == before.inactive_split[ALL].current);
  CHECK(stats(0).inactive_split_bytes[ALL].current == before.inactive_split_bytes[ALL].current);
  for (int i = 0; i < 9; i++)
    if (i % 3 != place) tide__block_free(held[i]);
  CHECK(stats(0).inactive_split[ALL].current == 0 && stats(0).inactive_split_bytes[ALL].current == 0);
  tide_stream_release(other);
  tide_shutdown();
}

/* ---- a hook that only asks its thread ---- */

static struct {
  tide_block *held;
  _Atomic bool asked;
} answering;

static int ask(void *user, int device, size_t bytes) {
  (void)user, (void)device, (void)bytes;
  atomic_store(&answering.asked, true);
  return -1;
}

static void *answer(void *unused) {
  while (!atomic_load(&answering.asked)) usleep(100);
  usleep(3000);
  tide__block_free(answering.held);
  tide_reclaim_answer();
  return unused;
}

/* The allocation waits for the answer, for a time: on a machine that stood still it is tried again. */
static void answers_of_threads(void) {
  bool good = false;
  for (int i = 0; i < 5 && !good; i++) {
    start(1, 64 * MiB);
    pthread_t thread;
    tide_block *b = NULL;
    OK(tide__block_alloc(&answering.held, current(0), 40 * MiB));
    atomic_store(&answering.asked, false);
    OK(tide_reclaim_add(ask, NULL));
    CHECK(!pthread_create(&thread, NULL, answer, NULL));
    good = tide__block_alloc(&b, current(0), 40 * MiB) == TIDE_OK;
    pthread_join(thread, NULL);
    tide_reclaim_remove(ask, NULL);
    if (good) tide__block_free(b);
    tide_shutdown();
  }
  CHECK(good);
}

/* A stream of the host's whose owner has destroyed it: no event is recorded behind its work, which a stream of another
 * device stands for. The device is waited for before its memory serves again. */
static void stream_without_events(void) {
  start(2, 64 * MiB);
  tide_stream *wrapped, *elsewhere;
  tide_block *b, *again;
  void *theirs;
  bool done = false;
  OK(tide_stream_new(&elsewhere, 1, 0));
  OK(tide__block_alloc(&b, current(0), 40 * MiB));
  const tide_backend *backend = tide__backend_peek(0);
  OK(backend->stream_new(&theirs, 0, 0));
  OK(tide_stream_wrap(&wrapped, 0, backend->stream_handle(theirs)));
  OK(tide_stream_sleep(wrapped, 20000000));
  tide__block_use(b, wrapped);
  void *impl = wrapped->impl;
  wrapped->impl = elsewhere->impl;
  tide__block_free(b);
  OK(tide__block_alloc(&again, current(0), 40 * MiB));
  OK(backend->stream_query(&done, theirs));
  CHECK(done && stats(0).num_ooms == 0);
  wrapped->impl = impl;
  tide__block_free(again);
  tide_stream_release(wrapped), tide_stream_release(elsewhere);
  backend->stream_free(theirs);
  tide_shutdown();
}

/* A failure holds nothing, and half the size does, as often as one likes. */
static void failures_and_halves(void) {
  begin();
  tide_block *held, *b = NULL;
  OK(tide__block_alloc(&held, current(0), 10 * MiB));
  for (int i = 1; i <= 100; i++) {
    size_t before = tide_memory_allocated(0);
    CHECK(tide__block_alloc(&b, current(0), 100 * MiB) == TIDE_MEMORY && !b);
    CHECK(tide_memory_allocated(0) == before && stats(0).num_ooms == i);
    OK(tide__block_alloc(&b, current(0), 50 * MiB));
    tide__block_free(b);
    b = NULL;
  }
  check_climb(100, 100, 100, 100);
  tide__block_free(held);
  tide_shutdown();
}

int main(void) {
  whole_ladder();
  deferred_releases();
  pool_of_a_climb();
  passed_events();
  garbage_of_all();
  queued_work();
  cache_of_others();
  between_blocks_of_others(false);
  between_blocks_of_others(true);
  for (int place = 0; place < 3; place++) interrupted_borrow(place);
  answers_of_threads();
  stream_without_events();
  failures_and_halves();
  printf("ladder_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
