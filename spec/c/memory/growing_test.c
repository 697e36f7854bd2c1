/* growing_test.c: segments that grow, on simulated devices.
 *
 * How much is reserved for what is alive, on traces that defeat a cache of separate segments; that blocks never overlap
 * and always lie in memory, over long random walks; that all of it goes back; and that the allocator goes on where
 * addresses, memory or the wait for a stream fail. */
#include "memory_test.h"

#include <stdio.h>
#include <stdlib.h>

static void start_dry(int devices, size_t memory) {
  start(devices, memory);
  OK(tide_sim_set_dry(true)); /* nothing is computed here: only placement matters */
}

static uint32_t dice_state;
static uint32_t dice(uint32_t n) {
  dice_state = dice_state * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)dice_state * n >> 32);
}

/* What is counted as reserved is what the device lacks. */
static void check_books(int device) {
  size_t unused, total;
  OK(tide_device_mem_info(&unused, &total, device));
  CHECK(total - unused == tide_memory_reserved(device));
}

static void check_ratio(const char *what) {
  tide_memory_stats t = stats(0);
  double ratio = (double)t.reserved_bytes[ALL].peak / (double)t.allocated_bytes[ALL].peak;
  printf("%s: peak reserved / peak live = %.3f, %lld calls of the driver\n", what, ratio,
         (long long)t.num_device_alloc);
  CHECK(ratio <= 1.15);
  check_books(0);
}

/* ---- traces ---- */

/* Each step's block is 3% larger than the one before; `overlap`: that one is freed after it was made. */
static void growing_sizes(bool overlap, size_t first) {
  start_dry(1, (size_t)16 << 30);
  tide_block *before = NULL, *b;
  double size = (double)first;
  for (int i = 0; i < 200; i++, size *= 1.03) {
    if (!overlap) tide__block_free(before);
    OK(tide__block_alloc(&b, current(0), (size_t)size));
    if (overlap) tide__block_free(before);
    before = b;
  }
  tide__block_free(before);
  check_ratio(overlap ? "3% growth, old freed after new" : "3% growth, old freed before new");
  tide_shutdown();
}

/* Several tensors of a step alive at once, and a few that stay. */
static void growing_batches(void) {
  enum { PARTS = 6 };
  start_dry(1, (size_t)16 << 30);
  tide_block *part[PARTS], *stay[50] = {0};
  double size = 1 << 20;
  for (int i = 0; i < 200; i++, size *= 1.03) {
    for (int k = 0; k < PARTS; k++) OK(tide__block_alloc(&part[k], current(0), (size_t)(size * (k + 1) / 2)));
    if (i % 4 == 0) OK(tide__block_alloc(&stay[i / 4], current(0), 100000));
    for (int k = 0; k < PARTS; k++) tide__block_free(part[(k * 5 + i) % PARTS]);
  }
  check_ratio("3% growth of six at a time");
  for (int i = 0; i < 50; i++) tide__block_free(stay[i]);
  tide_shutdown();
}

/* Batches of two kinds by turns, none of whose sizes serves the other kind well. */
static void alternating_sizes(void) {
  start_dry(1, (size_t)16 << 30);
  tide_block *a[8], *b[5], *held = NULL;
  for (int i = 0; i < 100; i++) {
    for (int k = 0; k < 8; k++) OK(tide__block_alloc(&a[k], current(0), (size_t)(30 + 7 * k) * MiB + 12345));
    tide__block_free(held);
    for (int k = 0; k < 8; k += 2) tide__block_free(a[k]);
    for (int k = 0; k < 5; k++) OK(tide__block_alloc(&b[k], current(0), (size_t)(41 + 13 * k) * MiB));
    for (int k = 1; k < 8; k += 2) tide__block_free(a[k]);
    for (int k = 0; k < 5; k++) tide__block_free(b[k]);
    OK(tide__block_alloc(&held, current(0), (size_t)(55 + i % 2 * 30) * MiB));
  }
  tide__block_free(held);
  check_ratio("alternating sizes");
  CHECK(stats(0).num_device_alloc < 100); /* it settles */
  tide_shutdown();
}

/* ---- random walks ---- */

typedef struct span {
  uintptr_t first, last;
} span;
static int by_first(const void *x, const void *y) {
  const span *a = x, *b = y;
  return a->first < b->first ? -1 : a->first > b->first;
}

/* What the chain of blocks must be, whatever happened. */
static void check_segment(void *arg, const tide__segment *s) {
  (void)arg;
  size_t covered = 0, memory = 0;
  for (const tide_block *b = s->head; b; b = b->next) {
    CHECK(b->segment == s && b->ptr == s->ptr + covered && b->size > 0);
    CHECK(!b->next || b->next->prev == b);
    bool gap = b->state == BLOCK_UNMAPPED,
         free_pair = b->state == BLOCK_FREE && b->next && b->next->state == BLOCK_FREE;
    CHECK(!free_pair && !(gap && b->next && b->next->state == BLOCK_UNMAPPED));
    covered += b->size;
    if (!gap) memory += b->size;
  }
  CHECK(covered == s->span && memory == s->size);
  size_t backed = 0, granule = tide__allocator_of(0)->granule;
  for (size_t at = 0; s->kind == SEGMENT_RANGE && at < s->span;) {
    size_t n = s->piece[at / granule];
    backed += n * granule, at += (n ? n : 1) * granule;
  }
  CHECK(s->kind != SEGMENT_RANGE || backed == s->size);
}

static size_t some_size(void) {
  switch (dice(6)) {
  case 0: return 1 + dice(2000);
  case 1: return 1 + dice(1u << 20);
  case 2: return 1 + dice(4u << 20);
  case 3: return 1 + dice(30u << 20);
  case 4: return 1 + dice(200u << 20);
  default: return 1 + dice(64u << 10);
  }
}

enum { HELD = 120 };
static tide_block *held[HELD];

static void check_spans(int count) {
  span spans[HELD];
  for (int i = 0; i < count; i++)
    spans[i] = (span){(uintptr_t)held[i]->ptr, (uintptr_t)held[i]->ptr + held[i]->requested};
  qsort(spans, (size_t)count, sizeof *spans, by_first);
  for (int i = 1; i < count; i++) CHECK(spans[i - 1].last <= spans[i].first);
}

static void random_walk(uint32_t seed, size_t memory) {
  dice_state = seed;
  start_dry(1, memory);
  tide_stream *streams[3] = {current(0), NULL, NULL};
  tide_mempool *pool;
  OK(tide_stream_new(&streams[1], 0, 0));
  OK(tide_stream_new(&streams[2], 0, 0));
  OK(tide_mempool_new(&pool, 0));
  int count = 0, refused = 0;
  for (int step = 0; step < 4000 && !failures; step++) {
    uint32_t what = dice(1000);
    if (what < 500 && count < HELD) {
      if (dice(10) == 0) OK(tide_current_set_pool(dice(2) ? pool : NULL, 0));
      tide_status status = tide__block_alloc(&held[count], streams[dice(3)], some_size());
      CHECK(status == TIDE_OK || status == TIDE_MEMORY);
      count += status == TIDE_OK, refused += status != TIDE_OK;
      if (count && dice(4) == 0) tide__block_use(held[count - 1], streams[dice(3)]);
    } else if (what < 990 && count > 0) {
      int i = (int)dice((uint32_t)count);
      tide__block_free(held[i]);
      held[i] = held[--count];
    } else if (what == 990) {
      OK(tide_memory_empty_cache(0));
    } else if (what == 991) {
      OK(tide_allocator_configure(dice(2) ? "expandable_segments:True" : "expandable_segments:False"));
    }
    if (step % 50 == 0) {
      check_spans(count);
      tide__allocator_visit(0, check_segment, NULL);
      check_books(0);
    }
  }
  CHECK((refused > 0) == (memory < (size_t)4 << 30));
  while (count > 0) tide__block_free(held[--count]);
  OK(tide_current_set_pool(NULL, 0));
  tide_mempool_release(pool);
  OK(tide_memory_empty_cache(0));
  CHECK(tide_memory_allocated(0) == 0 && tide_memory_reserved(0) == 0);
  tide_memory_stats t = stats(0);
  CHECK(t.segment[ALL].current == 0 && t.active_bytes[ALL].current == 0 && t.requested_bytes[ALL].current == 0);
  CHECK(t.inactive_split[ALL].current == 0 && t.inactive_split_bytes[ALL].current == 0);
  check_books(0);
  tide_stream_release(streams[1]);
  tide_stream_release(streams[2]);
  tide_shutdown();
}

/* ---- particulars ---- */

static void known_figures(void) {
  start_dry(1, 256 * MiB);
  tide_stream *s = current(0);
  tide_block *a, *b, *c, *d;
  OK(tide__block_alloc(&a, s, 1000));
  tide_memory_stats t = stats(0);
  CHECK(t.reserved_bytes[SMALL].current == 2 << 20 && t.segment[SMALL].current == 1);
  CHECK(t.allocated_bytes[ALL].current == 1024 && t.inactive_split[ALL].current == 0);
  OK(tide__block_alloc(&b, s, 30 * MiB));
  OK(tide__block_alloc(&c, s, 30 * MiB + 1)); /* the same segment goes on */
  t = stats(0);
  CHECK(t.segment[LARGE].current == 1 && t.reserved_bytes[LARGE].current == 62 << 20);
  CHECK(tide__block_ptr(c) == (char *)tide__block_ptr(b) + 30 * MiB);
  void *base;
  size_t bytes;
  CHECK(!tide__block_base(b, &base, &bytes));
  OK(tide__block_alloc_plain(&d, s, 1000)); /* alone, for sharing */
  CHECK(tide__block_base(d, &base, &bytes) && base == tide__block_ptr(d) && bytes == 2 * MiB);
  CHECK(tide_memory_reserved(0) == 66 * MiB);
  tide__block_free(c);
  OK(tide_memory_empty_cache(0)); /* the end of the range goes */
  CHECK(tide_memory_reserved(0) == 34 * MiB && stats(0).num_device_free == 1);
  check_books(0);
  tide__block_free(a), tide__block_free(b), tide__block_free(d);
  OK(tide_memory_empty_cache(0));
  CHECK(tide_memory_reserved(0) == 0 && stats(0).segment[ALL].current == 0);
  tide_shutdown();
}

/* A hole in the middle goes back and is filled again by what fits nowhere else. */
static void holes(void) {
  start_dry(1, 100 * MiB);
  tide_stream *s = current(0);
  tide_block *a, *b, *c, *d;
  OK(tide__block_alloc(&a, s, 30 * MiB));
  OK(tide__block_alloc(&b, s, 30 * MiB));
  OK(tide__block_alloc(&c, s, 30 * MiB));
  tide__block_free(b);
  OK(tide__block_alloc(&d, s, 40 * MiB)); /* 10 MiB are left: 30 come from the hole */
  check_books(0);
  CHECK(tide_memory_reserved(0) == 100 * MiB && stats(0).num_ooms == 0);
  tide__block_free(a), tide__block_free(c), tide__block_free(d);
  OK(tide__block_alloc(&a, s, 100 * MiB));
  CHECK(stats(0).num_ooms == 0);
  CHECK(tide__block_alloc(&b, s, 1) == TIDE_MEMORY);
  tide__block_free(a);
  tide_shutdown();
}

/* Hosts that make a stream for each frame do not grow, and neither do their addresses. */
static void ended_streams(void) {
  start_dry(1, 256 * MiB);
  tide_block *b;
  for (int i = 0; i < 200; i++) {
    tide_stream *s;
    OK(tide_stream_new(&s, 0, 0));
    OK(tide__block_alloc(&b, s, 3 * MiB + (size_t)i * 4096));
    tide__block_free(b);
    tide_stream_release(s);
    OK(tide_device_synchronize(0));
  }
  CHECK(tide_memory_reserved(0) <= 6 * MiB && stats(0).segment[ALL].current == 1);
  tide_shutdown();
}

/* Where there are no more addresses, segments of the old kind serve. */
static void many_streams(void) {
  enum { STREAMS = 100 };
  start_dry(1, 4096 * MiB);
  tide_stream *s[STREAMS];
  tide_block *b[STREAMS];
  for (int i = 0; i < STREAMS; i++) {
    OK(tide_stream_new(&s[i], 0, 0));
    OK(tide__block_alloc(&b[i], s[i], 2 * MiB));
  }
  CHECK(b[0]->segment->kind == SEGMENT_RANGE && b[STREAMS - 1]->segment->kind == SEGMENT_PLAIN);
  check_books(0);
  for (int i = 0; i < STREAMS; i++) {
    tide__block_free(b[i]);
    tide_stream_release(s[i]);
  }
  tide_shutdown();
}

/* The driver refuses the nth piece: the allocator is as it was, and what the ladder then finds serves. */
static void refusals(void) {
  for (int n = 1; n <= 5; n++) { /* 150 MiB come in five pieces */
    char fault[32];
    start_dry(1, 256 * MiB);
    tide_block *a, *b = NULL;
    OK(tide__block_alloc(&a, current(0), 10 * MiB));
    snprintf(fault, sizeof fault, "alloc:%d", n);
    OK(tide_sim_fault(fault));
    OK(tide__block_alloc(&b, current(0), 20 * MiB));
    tide__allocator_visit(0, check_segment, NULL);
    check_books(0);
    tide__block_free(b);
    snprintf(fault, sizeof fault, "alloc:%d+", n);
    OK(tide_sim_fault(fault));
    CHECK(tide__block_alloc(&b, current(0), 150 * MiB) == TIDE_MEMORY);
    OK(tide_sim_fault(""));
    tide__allocator_visit(0, check_segment, NULL);
    check_books(0);
    OK(tide__block_alloc(&b, current(0), 150 * MiB));
    tide__block_free(a), tide__block_free(b);
    tide_shutdown();
  }
}

static int stop(void *user) {
  (void)user;
  return 1;
}

/* An interrupted wait loses nothing. */
static void interruption(void) {
  start_dry(1, 100 * MiB);
  OK(tide_sim_set_dry(false));
  tide_stream *s = current(0);
  tide_block *a, *b, *c, *d = NULL;
  OK(tide__block_alloc(&a, s, 30 * MiB));
  OK(tide__block_alloc(&b, s, 30 * MiB));
  OK(tide__block_alloc(&c, s, 30 * MiB));
  tide__block_free(b);
  OK(tide_stream_sleep(s, HOLD));
  tide_interrupt_set(stop, NULL);
  CHECK(tide__block_alloc(&d, s, 40 * MiB) == TIDE_INTERRUPTED && !d);
  tide_interrupt_set(NULL, NULL);
  tide_sim_wake();
  tide__allocator_visit(0, check_segment, NULL);
  OK(tide__block_alloc(&b, s, 30 * MiB));
  tide__block_free(a), tide__block_free(b), tide__block_free(c);
  tide_shutdown();
}

/* Small, middling and large blocks that come and go in no order, on one stream or two. */
static void mixed_sizes(uint32_t seed, int streams) {
  enum { LIVE = 200 };
  start_dry(1, (size_t)16 << 30);
  tide_stream *stream[2] = {current(0), NULL};
  tide_block *b[LIVE] = {0};
  char what[64];
  OK(tide_stream_new(&stream[1], 0, 0));
  dice_state = seed;
  for (int i = 0; i < 6000; i++) {
    int k = (int)dice(LIVE), kind = (int)dice(10);
    size_t size = kind < 4 ? 1 + dice(1 << 20) : kind < 8 ? MiB + dice(10 << 20) : 10 * MiB + dice(80 << 20);
    tide__block_free(b[k]);
    b[k] = NULL;
    if (dice(8)) OK(tide__block_alloc(&b[k], stream[dice((uint32_t)streams)], size));
  }
  snprintf(what, sizeof what, "mixed sizes %u on %d streams", seed, streams);
  for (int k = 0; k < LIVE; k++) tide__block_free(b[k]);
  check_ratio(what);
  tide_stream_release(stream[1]);
  tide_shutdown();
  dice_state = 0;
}

int main(void) {
  for (uint32_t seed = 1; seed <= 4; seed++) mixed_sizes(seed, 1), mixed_sizes(seed, 2);
  known_figures();
  holes();
  growing_sizes(false, MiB);
  growing_sizes(true, MiB);
  growing_sizes(true, 6 * MiB);
  growing_batches();
  alternating_sizes();
  for (uint32_t seed = 1; seed <= 3; seed++) {
    random_walk(seed, (size_t)8 << 30);
    random_walk(seed, (size_t)1 << 30);
  }
  ended_streams();
  many_streams();
  refusals();
  interruption();
  printf("growing_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
