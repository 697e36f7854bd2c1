/* allocator_test.c: the caching allocator on simulated devices.
 *
 * Its placement and its statistics are compared, after every step of long random walks, with a plain model of torch's
 * published policy that searches lists from end to end. The rest is what a model cannot tell: blocks used on two
 * streams, streams that end, pools, threads, what a call costs. */
#include "memory_test.h"

#include "memory/idle.h"
#include "tide/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* ---- a plain model of the policy ---- */

enum { MODEL_BLOCKS = 4096 };

typedef struct model_block {
  bool live, used;
  int segment, pool;
  uint64_t stream;
  size_t offset, size, requested;
} model_block;

static struct {
  model_block block[MODEL_BLOCKS];
  int segments;
  size_t segment_size[MODEL_BLOCKS];
  char *segment_ptr[MODEL_BLOCKS]; /* learnt from the allocator, when it makes one */
  tide_memory_stats stats;
} model;

static void up(tide_stat *rows, int pool, int64_t by) {
  for (int i = 0; i < 2; i++) {
    tide_stat *s = &rows[i ? pool : ALL];
    s->current += by, s->allocated += by;
    if (s->current > s->peak) s->peak = s->current;
  }
}
static void down(tide_stat *rows, int pool, int64_t by) {
  for (int i = 0; i < 2; i++) rows[i ? pool : ALL].current -= by, rows[i ? pool : ALL].freed += by;
}
static void move(tide_stat *rows, int pool, int64_t by) {
  if (by > 0) up(rows, pool, by);
  if (by < 0) down(rows, pool, -by);
}

static int model_slot(void) {
  int i = 0;
  while (model.block[i].live) i++;
  return i;
}

static bool model_split(const model_block *b) { return b->size != model.segment_size[b->segment]; }

/* Lower segments have lower addresses only by chance, so addresses decide, as in the allocator. */
static char *model_ptr(const model_block *b) { return model.segment_ptr[b->segment] + b->offset; }

static int model_find(int pool, uint64_t stream, size_t size) {
  int best = -1;
  for (int i = 0; i < MODEL_BLOCKS; i++) {
    const model_block *b = &model.block[i], *o = best >= 0 ? &model.block[best] : NULL;
    if (!b->live || b->used || b->pool != pool || b->stream != stream || b->size < size) continue;
    if (!o || b->size < o->size || (b->size == o->size && model_ptr(b) < model_ptr(o))) best = i;
  }
  return best;
}

static int model_alloc(uint64_t stream, size_t bytes, const char *ptr) {
  size_t size = (bytes + 511) / 512 * 512;
  int pool = size <= MiB ? SMALL : LARGE;
  int at = model_find(pool, stream, size);
  if (at < 0) {
    size_t segment = pool == SMALL     ? 2 * MiB
                     : size < 10 * MiB ? 20 * MiB
                                       : (size + 2 * MiB - 1) / (2 * MiB) * (2 * MiB);
    at = model_slot();
    int s = model.segments++;
    model.segment_size[s] = segment;
    model.segment_ptr[s] = (char *)(uintptr_t)ptr;
    model.block[at] = (model_block){true, false, s, pool, stream, 0, segment, 0};
    up(model.stats.segment, pool, 1);
    up(model.stats.reserved_bytes, pool, (int64_t)segment);
    model.stats.num_device_alloc++;
  }
  model_block *b = &model.block[at];
  bool was = model_split(b);
  size_t rest = b->size - size;
  if (pool == SMALL ? rest >= 512 : rest > MiB) {
    model.block[model_slot()] = (model_block){true, false, b->segment, pool, stream, b->offset + size, rest, 0};
    b = &model.block[at];
    b->used = true; /* so that the slot above is another one */
    b->size = size;
    if (was)
      down(model.stats.inactive_split_bytes, pool, (int64_t)size);
    else
      up(model.stats.inactive_split_bytes, pool, (int64_t)rest), up(model.stats.inactive_split, pool, 1);
  } else if (was) {
    down(model.stats.inactive_split_bytes, pool, (int64_t)b->size), down(model.stats.inactive_split, pool, 1);
  }
  b->used = true, b->requested = bytes;
  up(model.stats.allocation, pool, 1), up(model.stats.active, pool, 1);
  up(model.stats.allocated_bytes, pool, (int64_t)b->size), up(model.stats.active_bytes, pool, (int64_t)b->size);
  up(model.stats.requested_bytes, pool, (int64_t)bytes);
  CHECK(model_ptr(b) == ptr);
  return at;
}

static void model_free(int at) {
  model_block *b = &model.block[at];
  size_t size = b->size;
  int64_t blocks = 0, bytes = 0;
  for (int i = 0; i < MODEL_BLOCKS; i++) {
    model_block *o = &model.block[i];
    if (!o->live || o->used || o->segment != b->segment) continue;
    if (o->offset + o->size != b->offset && b->offset + b->size != o->offset) continue;
    blocks--, bytes -= (int64_t)o->size;
    if (o->offset < b->offset) b->offset = o->offset;
    b->size += o->size;
    o->live = false;
  }
  b->used = false;
  if (model_split(b)) blocks++, bytes += (int64_t)b->size;
  move(model.stats.inactive_split, b->pool, blocks);
  move(model.stats.inactive_split_bytes, b->pool, bytes);
  down(model.stats.allocation, b->pool, 1), down(model.stats.active, b->pool, 1);
  down(model.stats.allocated_bytes, b->pool, (int64_t)size), down(model.stats.active_bytes, b->pool, (int64_t)size);
  down(model.stats.requested_bytes, b->pool, (int64_t)b->requested);
}

static void model_empty(void) {
  for (int i = 0; i < MODEL_BLOCKS; i++) {
    model_block *b = &model.block[i];
    if (!b->live || b->used || model_split(b)) continue;
    b->live = false;
    down(model.stats.segment, b->pool, 1);
    down(model.stats.reserved_bytes, b->pool, (int64_t)b->size);
    model.stats.num_device_free++;
  }
  model.stats.num_sync_all_streams++;
}

static uint32_t dice_state;
static uint32_t dice(uint32_t n) {
  dice_state = dice_state * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)dice_state * n >> 32);
}

static size_t some_size(void) {
  switch (dice(6)) {
  case 0: return 1 + dice(2000);
  case 1: return 512u * (1 + dice(64));
  case 2: return 1 + dice(1u << 20);
  case 3: return 1 + dice(4u << 20);
  case 4: return 1 + dice(12u << 20);
  default: return 1 + dice(64u << 10);
  }
}

/* In segments of torch's sizes, which do not grow. */
static void classic(void) { OK(tide_allocator_configure("expandable_segments:False")); }

/* The model knows nothing of memory that goes when it has been idle, as it may be on a slow machine: it stays so
 * late. */
static void hold_clock(int64_t at) { tide__idle_ahead += at - tide__idle_now(); }

static void random_walk(uint32_t seed) {
  enum { HELD = 200, STEPS = 4000 };
  static struct {
    tide_block *block;
    int model;
  } held[HELD];
  memset(&model, 0, sizeof model);
  dice_state = seed;
  start(1, (size_t)4 << 30);
  classic();
  model.stats.max_split_size = -1;
  tide_stream *streams[3] = {current(0), NULL, NULL};
  OK(tide_stream_new(&streams[1], 0, 0));
  OK(tide_stream_new(&streams[2], 0, 0));
  int count = 0, wrong = 0;
  int64_t began = tide__idle_now();
  for (int step = 0; step < STEPS && !wrong; step++) {
    hold_clock(began);
    uint32_t what = dice(100);
    if (what < 52 && count < HELD) {
      tide_stream *s = streams[dice(3)];
      size_t bytes = some_size();
      OK(tide__block_alloc(&held[count].block, s, bytes));
      held[count].model = model_alloc(s->id, bytes, tide__block_ptr(held[count].block));
      count++;
    } else if (what < 99 && count > 0) {
      int i = (int)dice((uint32_t)count);
      tide__block_free(held[i].block);
      model_free(held[i].model);
      held[i] = held[--count];
    } else if (what == 99) {
      OK(tide_memory_empty_cache(0));
      model_empty();
    }
    tide_memory_stats now = stats(0);
    wrong = memcmp(&now, &model.stats, sizeof now) || failures;
    if (wrong) printf("walk %u: the model and the allocator differ at step %d\n", seed, step), failures++;
  }
  while (count > 0) tide__block_free(held[--count].block);
  CHECK(tide_memory_allocated(0) == 0);
  tide_stream_release(streams[1]);
  tide_stream_release(streams[2]);
  tide_shutdown();
}

/* ---- figures that torch documents ---- */

static void known_figures(void) {
  start(1, 256 * MiB);
  classic();
  tide_block *a, *b, *c;
  tide_stream *s = current(0);
  OK(tide__block_alloc(&a, s, 1000));
  tide_memory_stats t = stats(0);
  CHECK(t.allocated_bytes[ALL].current == 1024 && t.requested_bytes[ALL].current == 1000);
  CHECK(t.reserved_bytes[SMALL].current == 2 << 20 && t.segment[SMALL].current == 1);
  CHECK(t.inactive_split[SMALL].current == 1 && t.inactive_split_bytes[SMALL].current == (2 << 20) - 1024);
  CHECK(tide_memory_allocated(0) == 1024 && tide_memory_reserved(TIDE_CURRENT) == 2 * MiB);
  OK(tide__block_alloc(&b, s, 3 * MiB));
  t = stats(0);
  CHECK(t.reserved_bytes[LARGE].current == 20 << 20 && t.inactive_split_bytes[LARGE].current == 17 << 20);
  OK(tide__block_alloc(&c, s, 16 * MiB + 512));
  t = stats(0);
  CHECK(t.allocated_bytes[LARGE].current == 20 << 20); /* the rest is too small to be split off */
  CHECK(t.inactive_split[LARGE].current == 0 && t.requested_bytes[LARGE].current == (19 << 20) + 512);
  tide__block_free(a), tide__block_free(b), tide__block_free(c);
  t = stats(0);
  CHECK(t.allocation[ALL].current == 0 && t.allocation[ALL].allocated == 3 && t.allocation[ALL].freed == 3);
  CHECK(t.inactive_split[ALL].current == 0 && t.active_bytes[ALL].current == 0 && t.requested_bytes[ALL].current == 0);
  CHECK(t.allocated_bytes[ALL].peak == 1024 + (20 << 20));
  OK(tide_memory_reset_peak(0));
  OK(tide_memory_reset_accumulated(0));
  t = stats(0);
  CHECK(t.allocated_bytes[ALL].peak == 0 && t.allocation[ALL].allocated == 0 && t.reserved_bytes[ALL].peak == 22 << 20);
  OK(tide_memory_empty_cache(TIDE_CURRENT));
  t = stats(0);
  CHECK(t.reserved_bytes[ALL].current == 0 && t.num_device_free == 2 && tide_memory_reserved(0) == 0);
  tide_shutdown();
  tide_memory_stats zero = {0};
  start(2, 64 * MiB);
  t = stats(1);
  CHECK(!memcmp(&t, &zero, sizeof t) && !tide_is_initialized());
  CHECK(tide_memory_get_stats(&t, TIDE_CPU) == TIDE_DEVICE);
  tide_shutdown();
}

/* ---- streams ---- */

static void two_streams(void) {
  start(1, 256 * MiB);
  tide_stream *own = current(0), *other;
  OK(tide_stream_new(&other, 0, 0));
  tide_block *a, *b, *c;
  OK(tide__block_alloc(&a, own, MiB));
  void *ptr = tide__block_ptr(a);
  tide__block_free(a);
  OK(tide__block_alloc(&b, own, MiB));
  CHECK(tide__block_ptr(b) == ptr); /* its own stream gets it back at once */
  OK(tide_stream_sleep(other, HOLD));
  tide__block_use(b, other);
  tide__block_use(b, other);
  tide__block_free(b);
  tide_memory_stats t = stats(0);
  CHECK(t.allocation[ALL].current == 0 && t.active[ALL].current == 1);
  OK(tide__block_alloc(&c, own, MiB));
  CHECK(tide__block_ptr(c) != ptr); /* the other stream is not done with it */
  tide_sim_wake();
  OK(tide_stream_synchronize(other));
  t = stats(0);
  CHECK(t.active[ALL].current == 1);
  OK(tide__block_alloc(&b, own, MiB));
  CHECK(tide__block_ptr(b) == ptr);
  tide__block_free(b), tide__block_free(c);
  CHECK(stats(0).segment[ALL].allocated == 1);
  tide_stream_release(other);
  tide_shutdown();
}

/* What an ended stream had cached serves the others once its work is done. */
static void ended_streams(void) {
  start(1, 256 * MiB);
  tide_stream *own = current(0);
  for (int i = 0; i < 20; i++) {
    tide_stream *s;
    tide_block *b;
    OK(tide_stream_new(&s, 0, -1));
    OK(tide__block_alloc(&b, s, 3 * MiB));
    OK(tide_stream_sleep(s, 1000));
    tide__block_free(b);
    tide_stream_release(s);
    OK(tide_device_synchronize(0));
  }
  tide_block *b;
  OK(tide__block_alloc(&b, own, 3 * MiB));
  tide__block_free(b);
  CHECK(stats(0).segment[ALL].allocated == 1);
  tide_shutdown();
}

/* ---- pools ---- */

typedef struct seen {
  int segments;
  size_t bytes;
  uint64_t mempool;
} seen;
static void count_segment(void *arg, const tide__segment *segment) {
  seen *s = arg;
  if (tide_mempool_id(segment->mempool) != s->mempool) return;
  s->segments++;
  for (const tide_block *b = segment->head; b; b = b->next) s->bytes += b->size;
}
static seen look(int device, const tide_mempool *pool) {
  seen s = {.mempool = tide_mempool_id(pool)};
  tide__allocator_visit(device, count_segment, &s);
  return s;
}

static void pools(void) {
  start(2, 256 * MiB);
  classic();
  tide_stream *s = current(0);
  tide_mempool *p, *q, *now;
  tide_block *a, *b, *c;
  CHECK(tide_mempool_new(&p, 7) == TIDE_DEVICE && tide_mempool_new(&p, TIDE_CPU) == TIDE_DEVICE);
  OK(tide_mempool_new(&p, 0));
  OK(tide_mempool_new(&q, TIDE_ALL_DEVICES));
  CHECK(tide_mempool_id(p) && tide_mempool_id(q) != tide_mempool_id(p) && tide_mempool_id(NULL) == 0);
  CHECK(tide_mempool_device(p) == 0 && tide_mempool_device(q) == TIDE_ALL_DEVICES);
  OK(tide__block_alloc(&a, s, 3 * MiB)); /* the default pool has a free rest */
  OK(tide_current_set_pool(p, 0));
  OK(tide_current_pool(&now, 0));
  CHECK(now == p && tide_current_set_pool(p, 1) == TIDE_DEVICE);
  OK(tide__block_alloc(&b, s, 3 * MiB));
  CHECK(look(0, p).segments == 1 && look(0, NULL).segments == 1);
  const void *ptr = tide__block_ptr(b);
  tide__block_free(b);
  OK(tide__block_alloc(&c, s, 3 * MiB));
  CHECK(tide__block_ptr(c) == ptr && look(0, p).segments == 1);
  OK(tide_current_set_pool(q, TIDE_ALL_DEVICES));
  OK(tide__block_alloc(&b, current(1), 100));
  CHECK(look(1, q).segments == 1 && look(1, q).bytes == 2 * MiB && look(0, q).segments == 0);
  tide__block_free(b);
  OK(tide_current_set_pool(NULL, TIDE_ALL_DEVICES));
  tide__block_free(a);
  OK(tide__block_alloc(&a, s, 3 * MiB));
  CHECK(look(0, NULL).segments == 1);
  tide_mempool_release(p); /* its block lives on, and its segment with it */
  OK(tide_memory_empty_cache(TIDE_CURRENT));
  CHECK(look(0, p).segments == 1 && look(1, q).segments == 0);
  tide__block_free(c);
  tide_memory_stats before = stats(0);
  OK(tide__block_alloc(&b, s, 30 * MiB)); /* the driver is asked for more, and gets the dead pool's */
  CHECK(stats(0).num_device_free == before.num_device_free + 1);
  tide__block_free(a), tide__block_free(b);
  tide_shutdown();
  CHECK(tide_current_set_pool(q, TIDE_ALL_DEVICES) == TIDE_STATE);
  tide_mempool_release(q);
}

static void fraction(void) {
  start(1, 64 * MiB);
  tide_block *b, *c;
  CHECK(tide_memory_get_fraction(0) == 1);
  CHECK(tide_memory_set_fraction(1.5, 0) == TIDE_VALUE && tide_memory_set_fraction(-1, 0) == TIDE_VALUE);
  OK(tide_memory_set_fraction(0.5, 0));
  CHECK(tide_memory_get_fraction(0) == 0.5);
  OK(tide__block_alloc(&b, current(0), 30 * MiB));
  CHECK(tide__block_alloc(&c, current(0), 4 * MiB) == TIDE_MEMORY && strstr(tide_error_get()->message, "32.00 MiB"));
  OK(tide_memory_set_fraction(1, 0));
  OK(tide__block_alloc(&c, current(0), 4 * MiB));
  tide__block_free(b), tide__block_free(c);
  tide_shutdown();
}

static void faults(void) {
  start(1, 64 * MiB);
  tide_storage *s, *t;
  tide__fault_alloc(2);
  OK(tide__storage_new(&s, 100, TIDE_CPU, false));
  CHECK(tide__storage_new(&t, 100, 0, false) == TIDE_MEMORY);
  OK(tide__storage_new(&t, 100, 0, false));
  tide_storage_release(s), tide_storage_release(t);
  tide__fault_alloc(1);
  CHECK(tide__storage_new(&s, 100, TIDE_CPU, true) == TIDE_MEMORY && tide_error_get()->device == TIDE_CPU);
  CHECK(tide_memory_cpu_allocated() == 0 && tide_memory_allocated(0) == 0);
  void *scratch;
  OK(tide__scratch_get(&scratch, current(0), 5000));
  CHECK(tide_memory_allocated(0) == 5120);
  tide__scratch_put(current(0), scratch);
  CHECK(tide_memory_allocated(0) == 0);
  tide_shutdown();
}

static tide_storage *garbage;
static int drop_garbage(void *unused, int device, size_t bytes) {
  bool drops = garbage && bytes && !device;
  (void)unused;
  if (drops) tide_storage_release(garbage), garbage = NULL;
  return drops;
}

/* Scratch memory counts while it is out, in the quota of its taking, unless a pool counts it. */
static void scratch_in_a_quota(void) {
  start(1, 64 * MiB);
  tide_quota *quota = NULL;
  tide_mempool *pool = NULL;
  tide_current *bound = tide_current_new(NULL);
  void *p = NULL, *q = NULL;
  OK(tide_quota_new(&quota));
  OK(tide_reclaim_add(drop_garbage, NULL));
  tide_current_set_quota(bound, quota);
  tide_current_bind(bound);
  tide_quota_limit(quota, TIDE_QUOTA_DEVICE_BYTES, 10 * (int64_t)MiB);
  OK(tide__scratch_get(&p, current(0), 6 * MiB));
  CHECK(tide_quota_used(quota, TIDE_QUOTA_DEVICE_BYTES) == (int64_t)(6 * MiB) + 512);
  size_t held = tide_memory_allocated(0);
  CHECK(tide__scratch_get(&q, current(0), 6 * MiB) == TIDE_QUOTA && !q && tide_memory_allocated(0) == held);
  CHECK(strstr(tide_error_get()->message, "6291456 more bytes beside 6291968"));
  CHECK(tide__storage_new(&garbage, 6 * MiB, 0, false) == TIDE_QUOTA);
  tide__fault_alloc(1);
  CHECK(tide__scratch_get(&q, current(0), MiB) == TIDE_MEMORY && !q);
  CHECK(tide_quota_used(quota, TIDE_QUOTA_DEVICE_BYTES) == (int64_t)(6 * MiB) + 512);
  tide_current_bind(NULL); /* it counts where it was taken */
  tide__scratch_put(current(0), p);
  tide_current_bind(bound);
  CHECK(tide_quota_used(quota, TIDE_QUOTA_DEVICE_BYTES) == 0);
  OK(tide__storage_new(&garbage, 6 * MiB, 0, false));
  CHECK(tide__scratch_try(&p, current(0), 6 * MiB) == TIDE_QUOTA && garbage);
  OK(tide__scratch_get(&p, current(0), 6 * MiB));
  CHECK(!garbage);
  tide__scratch_put(current(0), p);
  tide_quota_limit(quota, TIDE_QUOTA_DEVICE_BYTES, 30 * (int64_t)MiB);
  OK(tide_mempool_new(&pool, 0));
  OK(tide_current_set_pool(pool, 0));
  OK(tide__scratch_get(&p, current(0), 6 * MiB));
  CHECK(tide_quota_used(quota, TIDE_QUOTA_DEVICE_BYTES) == (int64_t)tide_memory_reserved(0) - (int64_t)(6 * MiB));
  tide__scratch_put(current(0), p);
  OK(tide_current_set_pool(NULL, 0));
  tide_mempool_release(pool);
  tide_current_bind(NULL);
  tide_current_free(bound);
  OK(tide_memory_empty_cache(0));
  CHECK(tide_quota_used(quota, TIDE_QUOTA_DEVICE_BYTES) == 0 && tide_memory_allocated(0) == 0);
  tide_quota_release(quota);
  tide_reclaim_remove(drop_garbage, NULL);
  tide_shutdown();
}

/* ---- storages ---- */

static int released;
static void count_release(void *user) {
  CHECK(user == &released);
  released++;
}

static void storages(void) {
  start(1, 64 * MiB);
  tide_storage *s, *t;
  tide_stream *other;
  OK(tide_stream_new(&other, 0, 0));
  tide_pace_take();
  OK(tide__storage_new(&s, 1000, TIDE_CPU, false));
  CHECK(tide_memory_cpu_allocated() == 1000 && tide_pace_take() == 1000 && (uintptr_t)s->ptr % 64 == 0);
  tide_storage_release(s);
  CHECK(tide_memory_cpu_allocated() == 0);
  OK(tide__storage_new(&s, 1000, TIDE_CPU, true)); /* a copy still reads it when it goes */
  void *ptr = s->ptr;
  CHECK(tide_storage_is_pinned(s));
  OK(tide_stream_sleep(other, HOLD));
  tide__storage_use(s, other);
  tide_storage_release(s);
  OK(tide__storage_new(&t, 1000, TIDE_CPU, true));
  CHECK(t->ptr != ptr);
  tide_sim_wake();
  OK(tide_stream_synchronize(other));
  OK(tide__storage_new(&s, 1000, TIDE_CPU, true));
  CHECK(s->ptr == ptr);
  tide_storage_release(s), tide_storage_release(t);
  OK(tide__storage_wrap(&s, &released, 4, 0, count_release, &released));
  OK(tide_stream_sleep(other, HOLD));
  tide__storage_use(s, other);
  tide_storage_release(s);
  CHECK(released == 0);
  tide_sim_wake();
  OK(tide_stream_synchronize(other));
  CHECK(released == 1);
  OK(tide__storage_new(&s, 0, 0, false));
  CHECK(s->ptr == NULL && tide_storage_refs(s) == 1 && stats(0).allocation[ALL].allocated == 0);
  tide_storage_release(s);
  CHECK(tide__storage_new(&s, 1, 0, true) == TIDE_ARGUMENT);
  CHECK(tide__storage_new(&s, SIZE_MAX - 10, TIDE_CPU, false) == TIDE_MEMORY && tide_error_get()->total > 0);
  tide_stream_release(other);
  tide_shutdown();
}

/* What outlives its runtime can still be let go, before and after the next one starts. */
static void outliving(void) {
  tide_storage *s[6];
  tide_stream *other, *held;
  start(1, 64 * MiB);
  OK(tide_stream_new(&other, 0, 0));
  for (int i = 0; i < 4; i++) OK(tide__storage_new(&s[i], 5000, 0, false));
  tide__storage_use(s[0], other), tide__storage_use(s[1], other);
  OK(tide__storage_new(&s[4], 5000, TIDE_CPU, true));
  OK(tide__storage_new(&s[5], 5000, TIDE_CPU, false));
  OK(tide_current_set_stream(other));
  held = other;
  tide_shutdown();
  CHECK(!tide__storage_live(s[0]) && tide_storage_data(s[2]) == NULL);
  CHECK(tide_stream_synchronize(held) == TIDE_STATE && tide_stream_handle(held) == 0);
  tide_storage_release(s[0]), tide_storage_release(s[2]), tide_storage_release(s[4]);
  CHECK(tide__storage_new(&s[0], 10, TIDE_CPU, false) == TIDE_STATE);
  start(1, 64 * MiB);
  tide_storage_release(s[1]), tide_storage_release(s[3]), tide_storage_release(s[5]);
  tide_stream_release(held);
  CHECK(tide_memory_allocated(0) == 0 && tide_memory_cpu_allocated() == 0);
  tide_shutdown();
}

/* ---- threads ---- */

static void *walker(void *arg) {
  uint32_t state = (uint32_t)(uintptr_t)arg * 2654435761u + 1;
  tide_storage *held[16] = {NULL};
  tide_stream *own, *side;
  OK(tide_stream_new(&own, 0, 0));
  OK(tide_stream_new(&side, 0, 0));
  OK(tide_current_set_stream(own));
  for (int i = 0; i < 3000; i++) {
    state = state * 1664525u + 1013904223u;
    int k = (int)(state >> 28);
    tide_storage_release(held[k]);
    held[k] = NULL;
    int device = state & 0x800000 ? 0 : TIDE_CPU;
    tide_status status =
        tide__storage_new(&held[k], 1 + (state >> 8) % 300000, device, (state & 0x700000) == 0 && device < 0);
    CHECK(status == TIDE_OK);
    if (status == TIDE_OK && i % 7 == 0) tide__storage_use(held[k], side);
    if (i % 500 == 0) OK(tide_stream_synchronize(side));
    if (i % 1000 == 999) OK(tide_memory_empty_cache(0));
  }
  for (int k = 0; k < 16; k++) tide_storage_release(held[k]);
  tide_stream_release(own), tide_stream_release(side);
  return NULL;
}

static void threads(void) {
  start(1, 256 * MiB);
  pthread_t t[4];
  for (uintptr_t i = 0; i < 4; i++) CHECK(pthread_create(&t[i], NULL, walker, (void *)(i + 1)) == 0);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  OK(tide_device_synchronize(0));
  tide_memory_pump();
  tide_memory_stats s = stats(0);
  CHECK(s.allocation[ALL].current == 0 && s.active_bytes[ALL].current == 0 && s.inactive_split_bytes[ALL].current == 0);
  CHECK(tide_memory_cpu_allocated() == 0);
  OK(tide_memory_empty_cache(TIDE_CURRENT));
  CHECK(tide_memory_reserved(0) == 0);
  tide_shutdown();
}

/* ---- cost: told, not judged, because other programs run too ---- */

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The quickest of many short runs: what else the machine does is not the allocator's. */
static void cost(void) {
  enum { RUNS = 400, N = 500 };
  double best[3] = {1, 1, 1};
  start(1, 64 * MiB);
  tide_stream *s = current(0);
  for (int run = 0; run < RUNS; run++) {
    for (int what = 0; what < 3; what++) {
      tide_block *b = NULL;
      tide_storage *x = NULL;
      double t = seconds();
      for (int i = 0; i < N && what == 0; i++) {
        OK(tide__block_alloc(&b, s, 4096));
        tide__block_free(b);
      }
      for (int i = 0; i < N && what > 0; i++) {
        OK(tide__storage_new(&x, 4096, what == 1 ? 0 : TIDE_CPU, false));
        tide_storage_release(x);
      }
      t = (seconds() - t) / N;
      if (t < best[what]) best[what] = t;
    }
  }
  printf("block %.0f ns, storage on the device %.0f ns, on the cpu %.0f ns\n", best[0] * 1e9, best[1] * 1e9,
         best[2] * 1e9);
  tide_shutdown();
}

int main(void) {
  known_figures();
  for (uint32_t seed = 1; seed <= 3; seed++) random_walk(seed);
  two_streams();
  ended_streams();
  pools();
  fraction();
  faults();
  scratch_in_a_quota();
  storages();
  outliving();
  threads();
  cost();
  printf("allocator_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
