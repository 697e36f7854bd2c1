/* source_test.c: memory that is not cached, memory of others, page-locked memory, and sizes as the settings round
 * them. */
#include <stdio.h>
#include <stdlib.h>

#include "memory/memory_test.h"
#include "tide/graph.h"

/* ---- settings ---- */

static size_t rounded(const char *text, size_t bytes) {
  tide__settings s;
  OK(tide_allocator_configure(text));
  OK(tide__settings_get(&s));
  return tide__settings_round(&s, bytes, 512);
}

static void sizes(void) {
  start(1, 64 * MiB);
  CHECK(rounded("roundup_power2_divisions:1", 1025) == 1536);
  CHECK(rounded("roundup_power2_divisions:4", 1200) == 1536); /* too small for four divisions */
  CHECK(rounded("roundup_power2_divisions:4", 5000) == 5120);
  CHECK(rounded("roundup_power2_divisions:4", 4096) == 4096);
  CHECK(rounded("roundup_power2_divisions:8", 9 * MiB + 1) == 10 * MiB);
  const char *list = "roundup_power2_divisions:[1:1,4:2,256:4,>:8]";
  CHECK(rounded(list, MiB - 1) == MiB);
  CHECK(rounded(list, MiB + 1) == MiB + MiB / 2);
  CHECK(rounded(list, 5 * MiB) == 5 * MiB && rounded(list, 5 * MiB + 1) == 6 * MiB);
  CHECK(rounded(list, 256 * MiB + 1) == 288 * MiB);
  CHECK(rounded(list, (size_t)1 << 40) == (size_t)1 << 40);
  tide_shutdown();
  CHECK(tide_allocator_configure("backend:native") == TIDE_STATE);
}

/* ---- a program's own ---- */

static int64_t live, asked;
static bool refuse;
static void *own_alloc(ptrdiff_t size, int device, void *stream) {
  void *ptr = NULL;
  (void)stream;
  if (refuse || tide_sim_mem_alloc(&ptr, device, (size_t)size) != TIDE_OK) return NULL;
  live += size, asked++;
  return ptr;
}
static void own_free(void *ptr, ptrdiff_t size, int device, void *stream) {
  (void)stream;
  live -= size;
  tide_sim_mem_free(device, ptr);
}

static void own_functions(void) {
  start(2, 64 * MiB);
  tide_allocator *own, *none;
  tide_block *a, *b;
  const char *name;
  CHECK(tide_allocator_wrap(&none, own_alloc, NULL) == TIDE_ARGUMENT && tide_allocator_change(NULL) == TIDE_ARGUMENT);
  OK(tide_allocator_wrap(&own, own_alloc, own_free));
  OK(tide_allocator_change(own));
  tide_allocator_release(own);
  OK(tide_allocator_backend(&name));
  CHECK(!strcmp(name, "pluggable"));
  OK(tide__block_alloc(&a, current(0), 1000));
  OK(tide__block_alloc(&b, current(1), 3 * MiB));
  CHECK(live == 1024 + (3 << 20) && tide_memory_allocated(0) == 1024 && tide_memory_reserved(1) == 3 * MiB);
  tide__block_free(a);
  CHECK(live == 3 << 20 && tide_memory_reserved(0) == 0);
  refuse = true;
  CHECK(tide__block_alloc(&a, current(0), 1000) == TIDE_MEMORY && stats(0).num_ooms == 1);
  refuse = false;
  tide_shutdown(); /* with a block that is still held */
  CHECK(live == 0 && asked == 2);
  start(1, 64 * MiB); /* another start has the driver's again */
  OK(tide_allocator_backend(&name));
  CHECK(!strcmp(name, "native"));
  OK(tide__block_alloc(&a, current(0), 1000));
  CHECK(asked == 2 && tide_allocator_wrap(&own, own_alloc, own_free) == TIDE_OK);
  CHECK(tide_allocator_change(own) == TIDE_STATE);
  tide_mempool *pool;
  OK(tide_mempool_new_from(&pool, 0, own));
  tide_allocator_release(own);
  OK(tide_current_set_pool(pool, 0));
  OK(tide__block_alloc(&b, current(0), 1000));
  tide__block_free(b);
  OK(tide__block_alloc(&b, current(0), 2000));
  CHECK(asked == 3 && live == 2 << 20); /* its segments are cached */
  tide__block_free(b), tide__block_free(a);
  OK(tide_current_set_pool(NULL, 0));
  tide_mempool_release(pool);
  OK(tide_memory_empty_cache(0));
  CHECK(live == 0);
  tide_shutdown();
}

/* ---- without a cache of ours ---- */

static void uncached(void) {
  start(1, 64 * MiB);
  tide_stream *other;
  tide_block *a, *b;
  OK(tide_stream_new(&other, 0, 0));
  OK(tide__block_alloc(&a, current(0), 1000));
  OK(tide_allocator_set_caching(false));
  CHECK(!tide_allocator_get_caching());
  OK(tide__block_alloc(&b, current(0), 1000));
  CHECK(b->segment->alone && tide_memory_reserved(0) == 2 * MiB + 1024);
  OK(tide_stream_sleep(other, HOLD));
  tide__block_use(b, other);
  tide__block_free(b);
  CHECK(tide_memory_allocated(0) == 1024 && tide_memory_reserved(0) == 2 * MiB + 1024); /* the other stream has it */
  tide_sim_wake();
  tide__block_free(a); /* of the cache, where it stays */
  OK(tide_device_synchronize(0));
  CHECK(tide_memory_reserved(0) == 2 * MiB);
  OK(tide_allocator_set_caching(true));
  OK(tide__block_alloc(&a, current(0), 1000));
  CHECK(!a->segment->alone && tide_memory_reserved(0) == 2 * MiB);
  tide__block_free(a);
  tide_stream_release(other);
  tide_shutdown();
}

static void *free_block(void *block) {
  tide__block_free(block);
  return NULL;
}

/* On this thread or another one, while the block's own stream, which is still at work on it, is captured. */
static void uncached_in_capture(bool own, bool thread) {
  start(1, 64 * MiB);
  tide_stream *s;
  tide_graph *g;
  tide_block *b;
  pthread_t other;
  tide_allocator *mine = NULL;
  if (own) OK(tide_allocator_wrap(&mine, own_alloc, own_free));
  if (own) OK(tide_allocator_change(mine));
  tide_allocator_release(mine);
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_graph_new(&g, false));
  OK(tide_allocator_set_caching(false));
  OK(tide__block_alloc(&b, s, 1000));
  OK(tide_stream_sleep(s, HOLD));
  OK(tide_graph_begin(g, s, NULL, TIDE_CAPTURE_THREAD_LOCAL));
  if (thread) {
    CHECK(!pthread_create(&other, NULL, free_block, b));
    pthread_join(other, NULL);
  } else {
    tide__block_free(b);
  }
  CHECK(tide_memory_allocated(0) == 0 && tide_memory_reserved(0) == 1024);
  tide_memory_pump();
  CHECK(tide_memory_reserved(0) == 1024);
  tide_sim_wake();
  OK(tide_graph_end(g));
  OK(tide_device_synchronize(0)); /* begins to wait, and the next one ends it */
  OK(tide_device_synchronize(0));
  CHECK(tide_memory_reserved(0) == 0 && stats(0).active[ALL].current == 0);
  tide_graph_release(g);
  tide_stream_release(s);
  tide_shutdown();
}

static int stop(void *unused) {
  (void)unused;
  return 1;
}

/* A wait that the host interrupts has told nothing: the memory stays until the work is done. */
static void uncached_interrupted(void) {
  start(1, 64 * MiB);
  tide_block *b;
  OK(tide_allocator_set_caching(false));
  OK(tide__block_alloc(&b, current(0), 1000));
  OK(tide_stream_sleep(current(0), HOLD));
  tide_interrupt_set(stop, NULL);
  tide__block_free(b);
  CHECK(tide_memory_reserved(0) == 1024);
  tide_interrupt_set(NULL, NULL);
  tide_sim_wake();
  OK(tide_device_synchronize(0));
  CHECK(tide_memory_reserved(0) == 0);
  tide_shutdown();
}

static void stream_ordered(void) {
  start(1, 64 * MiB);
  OK(tide_allocator_configure("backend:cudaMallocAsync"));
  tide_stream *other;
  tide_block *a, *b;
  OK(tide_stream_new(&other, 0, 0));
  OK(tide__block_alloc(&a, current(0), 20 * MiB));
  void *ptr = tide__block_ptr(a);
  CHECK(tide_memory_allocated(0) == 20 * MiB && tide_memory_reserved(0) == 20 * MiB);
  CHECK(tide_allocator_configure("backend:native") == TIDE_STATE);
  OK(tide_stream_sleep(current(0), 20000000));
  tide__block_free(a);
  CHECK(tide_memory_allocated(0) == 0 && tide_memory_reserved(0) == 20 * MiB);
  OK(tide__block_alloc(&a, current(0), 20 * MiB));
  CHECK(tide__block_ptr(a) == ptr); /* its stream has it back in order */
  tide__block_free(a);
  OK(tide__block_alloc(&b, other, 50 * MiB)); /* the driver waits for what is freed */
  tide__block_free(b);
  OK(tide_memory_empty_cache(0));
  CHECK(tide_memory_reserved(0) == 0 && stats(0).reserved_bytes[ALL].current == 0);
  CHECK(tide__block_alloc(&b, other, 100 * MiB) == TIDE_MEMORY);
  tide_stream_release(other);
  tide_shutdown();
}

/* ---- page-locked memory ---- */

static tide_host_memory_stats host(void) {
  tide_host_memory_stats s;
  tide_host_memory_get_stats(&s);
  return s;
}

static void pinned(void) {
  start(1, 64 * MiB);
  tide_storage *a, *b, *c;
  OK(tide__storage_new(&a, 5000, TIDE_CPU, true));
  tide_host_memory_stats t = host();
  CHECK(t.allocations.current == 1 && t.allocated_bytes.current == 8192 && t.active_bytes.current == 8192);
  CHECK(t.num_host_alloc == 1 && t.host_alloc_time.count == 1 && t.host_alloc_time.max >= t.host_alloc_time.min);
  void *ptr = tide_storage_data(a);
  OK(tide_stream_sleep(current(0), 50000000));
  tide__storage_use(a, current(0)); /* a copy is queued */
  tide_storage_release(a);
  CHECK(host().active_requests.current == 1);
  OK(tide__storage_new(&b, 8000, TIDE_CPU, true));
  CHECK(tide_storage_data(b) != ptr);
  OK(tide_device_synchronize(0));
  CHECK(host().active_requests.current == 1 && host().allocations.current == 2);
  OK(tide__storage_new(&c, 6000, TIDE_CPU, true)); /* the event has passed */
  CHECK(tide_storage_data(c) == ptr && host().num_host_alloc == 2);
  tide_storage_release(b), tide_storage_release(c);
  t = host();
  CHECK(t.active_bytes.current == 0 && t.active_bytes.peak == 16384 && t.allocated_bytes.current == 16384);
  tide_host_memory_reset_peak();
  tide_host_memory_reset_accumulated();
  t = host();
  CHECK(t.active_bytes.peak == 0 && t.num_host_alloc == 0 && t.host_alloc_time.total == 0);
  CHECK(t.allocations.allocated == 0 && t.allocations.current == 2);
  tide_host_memory_empty_cache();
  CHECK(host().allocated_bytes.current == 0 && host().num_host_free == 2);
  OK(tide_allocator_configure("pinned_max_cached_size_mb:3"));
  OK(tide__storage_new(&a, 2 * MiB, TIDE_CPU, true));
  OK(tide__storage_new(&b, 2 * MiB, TIDE_CPU, true));
  tide_storage_release(a), tide_storage_release(b);
  CHECK(host().allocated_bytes.current == 2 << 20); /* one of them is kept */
  OK(tide_allocator_configure("pinned_max_cached_size_mb:0"));
  CHECK(host().allocated_bytes.current == 0);
  tide_shutdown();
  CHECK(host().allocations.peak == 0);
}

int main(void) {
  sizes();
  own_functions();
  uncached();
  for (int i = 0; i < 4; i++) uncached_in_capture(i & 1, i & 2);
  uncached_interrupted();
  stream_ordered();
  pinned();
  printf("source_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
