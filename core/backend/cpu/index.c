/* index.c: positions: those that several indexes name together, and those of true bytes.
 *
 * Bad indexes leave a mark in their place; the first of them is reported when the work is done. */
#include "layout.h"

#include <stdlib.h>

/* ---- one of several indexes ---- */

typedef struct location {
  const tide_locate_args *a;
  _Atomic int64_t bad; /* number of the first bad index; numel: none */
} location;

static int64_t locate_read(const tide_locate_args *a, int64_t offset) {
  return a->index_dtype == TIDE_INT32 ? ((const int32_t *)a->head.ptr[1])[offset]
                                      : ((const int64_t *)a->head.ptr[1])[offset];
}

static int64_t locate_offset(const tide_locate_args *a, int64_t *at, int64_t i) {
  int64_t offset = 0;
  for (int d = a->ndim - 1; d >= 0; d--) {
    at[d] = i % a->size[d];
    offset += at[d] * a->stride[d];
    i /= a->size[d];
  }
  return offset;
}

static void run_locate(void *arg, int64_t begin, int64_t end) {
  location *l = arg;
  const tide_locate_args *a = l->a;
  int64_t at[TIDE_MAX_DIMS], offset = locate_offset(a, at, begin), *out = a->head.ptr[0];
  for (int64_t i = begin; i < end; i++) {
    int64_t raw = locate_read(a, offset), v = raw < 0 ? raw + a->length : raw - a->index_base;
    if ((uint64_t)v >= (uint64_t)a->length) {
      int64_t was = atomic_load_explicit(&l->bad, memory_order_relaxed);
      while (i < was && !atomic_compare_exchange_weak(&l->bad, &was, i)) continue;
      out[i] = INT64_MIN;
    } else if (a->first || out[i] != INT64_MIN) {
      out[i] = (a->first ? 0 : out[i]) + v * a->pitch;
    }
    for (int d = a->ndim - 1; d >= 0; d--) {
      offset += a->stride[d];
      if (++at[d] < a->size[d]) break;
      offset -= at[d] * a->stride[d], at[d] = 0;
    }
  }
}

bool tide__cpu_locate_bad(const tide_locate_args *a, int64_t *value) {
  location l = {.a = a};
  atomic_init(&l.bad, a->numel);
  tide__spread(a->numel, 2, run_locate, &l);
  int64_t at[TIDE_MAX_DIMS], bad = atomic_load(&l.bad);
  if (bad < a->numel) *value = locate_read(a, locate_offset(a, at, bad));
  return bad < a->numel;
}

tide_status tide__cpu_locate(tide_stream *stream, const tide_locate_args *a) {
  (void)stream;
  int64_t value;
  if (!tide__cpu_locate_bad(a, &value)) return TIDE_OK;
  return tide__fail_index(a->head.device, a->head.site, value, a->length, a->index_base);
}

/* ---- compact ---- */

enum { COMPACT_PIECE = 16384 };

typedef struct compaction {
  const tide_compact_args *a;
  const tide__isa *isa;
  int64_t *start; /* of each piece's positions in the output */
} compaction;

static void count_pieces(void *arg, int64_t begin, int64_t end) {
  const compaction *c = arg;
  for (int64_t p = begin; p < end; p++) {
    int64_t at = p * COMPACT_PIECE, n = c->a->numel - at < COMPACT_PIECE ? c->a->numel - at : COMPACT_PIECE;
    c->start[p] = c->isa->count_u8((const uint8_t *)c->a->head.ptr[1] + at, n);
  }
}

/* Eight bytes at a time are skipped where none is set. */
static void write_pieces(void *arg, int64_t begin, int64_t end) {
  const compaction *c = arg;
  const uint8_t *x = c->a->head.ptr[1];
  for (int64_t p = begin; p < end; p++) {
    int64_t i = p * COMPACT_PIECE, stop = c->a->numel - i < COMPACT_PIECE ? c->a->numel : i + COMPACT_PIECE;
    int64_t *out = (int64_t *)c->a->head.ptr[0] + c->start[p];
    while (i < stop) {
      uint64_t eight = 1;
      if (i + 8 <= stop) memcpy(&eight, x + i, 8);
      int64_t next = i + 8 <= stop ? i + 8 : stop;
      if (!eight) i = next;
      for (; i < next; i++)
        if (x[i]) *out++ = i;
    }
  }
}

tide_status tide__cpu_compact(tide_stream *stream, const tide_compact_args *a) {
  (void)stream;
  int64_t pieces = (a->numel + COMPACT_PIECE - 1) / COMPACT_PIECE, total = 0, few[64];
  compaction c = {a, tide__isa_get(), few};
  if (pieces > 64) c.start = malloc((size_t)pieces * sizeof *c.start);
  if (!c.start) return tide__fail(TIDE_MEMORY, "nonzero: no memory for the counts of %lld pieces", (long long)pieces);
  tide__spread(pieces, COMPACT_PIECE, count_pieces, &c);
  for (int64_t p = 0; p < pieces; p++) {
    int64_t here = c.start[p];
    c.start[p] = total;
    total += here;
  }
  tide__spread(pieces, COMPACT_PIECE, write_pieces, &c);
  memcpy(a->head.ptr[2], &total, sizeof total);
  if (c.start != few) free(c.start);
  return TIDE_OK;
}
