/* copy.c: copies between layouts and dtypes, fills and progressions.
 *
 * Everything flat goes in pieces of the second cache's order of size, larger results around the caches. Other layouts
 * go chunk by chunk (layout.h): gathered to where they belong or to a buffer, converted, scattered. Transposed copies
 * become square tiles there.
 *
 * Invariant: source and destination are different elements or exactly the same ones. */
#include "layout.h"

#include <math.h>

enum { FLAT_PIECE = 65536, STREAMED_ROW = 1024 }; /* bytes */

typedef struct work {
  const tide_copy_args *a;
  const tide__isa *isa;
  tide__grid grid;
  bool stream;
} work;

static void copy_flat(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tide_copy_args *a = w->a;
  int64_t out = tide__item(a->dtype[0]), in = tide__item(a->dtype[1]);
  char *d = (char *)a->head.ptr[0] + begin * out;
  const char *s = (const char *)a->head.ptr[1] + begin * in;
  int64_t n = end - begin;
  if (a->dtype[0] != a->dtype[1]) {
    _Alignas(64) char buffer[16 * TIDE_PIECE];
    for (int64_t i = 0; i < n; i += TIDE_PIECE) {
      int64_t part = n - i < TIDE_PIECE ? n - i : TIDE_PIECE;
      tide__cast(w->isa, w->stream ? buffer : d + i * out, a->dtype[0], s + i * in, a->dtype[1], part);
      if (w->stream) w->isa->stream(d + i * out, buffer, (size_t)(part * out));
    }
  } else if (w->stream) {
    w->isa->stream(d, s, (size_t)(n * out));
  } else {
    memmove(d, s, (size_t)(n * out));
  }
  if (w->stream) w->isa->stream_end();
}

/* Rows without gaps of their own. */
static void copy_rows(const work *w, const tide__chunk *c) {
  int64_t item = tide__item(w->a->dtype[0]);
  size_t bytes = (size_t)(c->cols * item);
  for (int64_t r = 0; r < c->rows; r++) {
    char *out = (char *)w->a->head.ptr[0] + c->offset[0][r] * item;
    const char *in = (const char *)w->a->head.ptr[1] + c->offset[1][r] * item;
    if (w->stream && bytes >= STREAMED_ROW)
      w->isa->stream(out, in, bytes);
    else
      memmove(out, in, bytes);
  }
}

static void copy_chunks(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tide_copy_args *a = w->a;
  _Alignas(64) char buffer[16 * TIDE_PIECE], raw[16 * TIDE_PIECE];
  tide__chunk c;
  const int last = w->grid.ndim - 1;
  const bool rows = a->dtype[0] == a->dtype[1] && w->grid.stride[0][last] == 1 && w->grid.stride[1][last] == 1;
  for (int64_t i = begin; i < end; i++) {
    tide__grid_chunk(&c, &w->grid, i);
    if (rows) {
      copy_rows(w, &c);
      continue;
    }
    if (a->dtype[0] == a->dtype[1] && c.joined[0] && !w->stream) {
      int item = tide__item(a->dtype[0]);
      tide__chunk_gather((char *)a->head.ptr[0] + c.offset[0][0] * item, a->head.ptr[1], &w->grid, &c, 1, item);
      continue;
    }
    const void *in = tide__chunk_load(w->isa, buffer, raw, a->head.ptr[1], &w->grid, &c, 1, a->dtype[0], a->dtype[1]);
    tide__chunk_store(w->isa, a->head.ptr[0], raw, in, &w->grid, &c, 0, a->dtype[0], a->dtype[0], w->stream);
  }
  if (w->stream) w->isa->stream_end();
}

tide_status tide__cpu_copy(tide_stream *stream, const tide_copy_args *a) {
  work w;
  w.a = a, w.isa = tide__isa_get();
  w.stream = a->head.ptr[0] != a->head.ptr[1] && tide__beyond_cache(a->numel * tide__item(a->dtype[0]));
  if (a->flat) {
    int64_t grain = FLAT_PIECE / tide__item(a->dtype[0]);
    if (a->numel <= 2 * grain)
      copy_flat(&w, 0, a->numel);
    else
      tide__parallel_for(a->numel, grain, copy_flat, &w);
    return TIDE_OK;
  }
  tide__grid_init(&w.grid, a->ndim, a->size, a->stride, 2, TIDE_PIECE, true);
  tide__spread(w.grid.chunks, w.grid.high * w.grid.wide, copy_chunks, &w);
  return TIDE_OK;
}

/* ---- many pieces ---- */

typedef struct pack_work {
  const tide_pack_args *a;
  const tide__isa *isa;
  int64_t end[TIDE_PACK_PIECES]; /* of the pieces, laid one behind the other */
  bool stream;
} pack_work;

static void pack_range(void *arg, int64_t begin, int64_t end) {
  const pack_work *w = arg;
  int i = 0;
  while (w->end[i] <= begin) i++;
  for (int64_t at = begin; at < end; i++) {
    const tide_pack_piece *p = &w->a->piece[i];
    int64_t within = at - (w->end[i] - (int64_t)p->bytes), left = w->end[i] - at;
    int64_t part = end - at < left ? end - at : left;
    if (w->stream)
      w->isa->stream((char *)p->to + within, (const char *)p->from + within, (size_t)part);
    else
      memcpy((char *)p->to + within, (const char *)p->from + within, (size_t)part);
    at += part;
  }
  if (w->stream) w->isa->stream_end();
}

tide_status tide__cpu_pack(tide_stream *stream, const tide_pack_args *a) {
  pack_work w;
  int64_t bytes = 0;
  for (int i = 0; i < a->n; i++) w.end[i] = bytes += (int64_t)a->piece[i].bytes;
  w.a = a, w.isa = tide__isa_get(), w.stream = tide__beyond_cache(bytes);
  if (bytes == 0) return TIDE_OK;
  if (bytes <= 2 * FLAT_PIECE)
    pack_range(&w, 0, bytes);
  else
    tide__parallel_for(bytes, FLAT_PIECE, pack_range, &w);
  return TIDE_OK;
}

/* ---- fill ---- */

typedef struct fill_work {
  const tide_fill_args *a;
  const tide__isa *isa;
  tide__grid grid;
  int item;
  int64_t filled; /* bytes of pattern in use, and in flat fills the bytes of a piece */
  bool stream;
  _Alignas(64) char pattern[TIDE_PIECE_BYTES];
} fill_work;

static void fill_flat(void *arg, int64_t begin, int64_t end) {
  const fill_work *w = arg;
  char *d = (char *)w->a->head.ptr[0] + begin * w->item;
  int64_t bytes = (end - begin) * w->item;
  for (int64_t i = 0; i < bytes; i += w->filled) {
    int64_t part = bytes - i < w->filled ? bytes - i : w->filled;
    if (w->stream)
      w->isa->stream(d + i, w->pattern, (size_t)part);
    else
      memcpy(d + i, w->pattern, (size_t)part);
  }
  if (w->stream) w->isa->stream_end();
}

static void fill_chunks(void *arg, int64_t begin, int64_t end) {
  const fill_work *w = arg;
  tide__chunk c;
  for (int64_t i = begin; i < end; i++) {
    tide__grid_chunk(&c, &w->grid, i);
    tide__chunk_scatter(w->a->head.ptr[0], w->pattern, &w->grid, &c, 0, w->item);
  }
}

tide_status tide__cpu_fill(tide_stream *stream, const tide_fill_args *a) {
  fill_work w;
  w.a = a, w.isa = tide__isa_get(), w.item = tide__item(a->dtype);
  int64_t bytes = a->numel * w.item, size = bytes < TIDE_PIECE_BYTES ? bytes : TIDE_PIECE_BYTES;
  memcpy(w.pattern, a->bits, (size_t)w.item);
  for (int64_t done = w.item; done < size; done *= 2)
    memcpy(w.pattern + done, w.pattern, (size_t)(size - done < done ? size - done : done));
  w.filled = size, w.stream = tide__beyond_cache(bytes);
  if (!a->flat) {
    tide__grid_init(&w.grid, a->ndim, a->size, &a->stride, 1, TIDE_PIECE_BYTES / w.item, false);
    tide__spread(w.grid.chunks, w.grid.high * w.grid.wide, fill_chunks, &w);
  } else if (bytes <= 2 * FLAT_PIECE) {
    fill_flat(&w, 0, a->numel);
  } else {
    tide__parallel_for(a->numel, FLAT_PIECE / w.item, fill_flat, &w);
  }
  return TIDE_OK;
}

/* ---- progressions ---- */

typedef struct progression {
  const tide_arange_args *a;
  const tide__isa *isa;
} progression;

/* n elements from number `first` on: counted from the start, or where the progression is symmetric and its half is
 * over, from the last one. */
static void progress(const progression *p, double *out, int64_t first, int64_t n) {
  const tide_arange_args *a = p->a;
  int64_t half = a->symmetric ? a->numel / 2 : INT64_MAX, early = half - first < n ? half - first : n;
  if (early < 0) early = 0;
  if (early > 0) p->isa->progress(out, (double)first, a->step.re, a->start.re, early);
  if (early < n)
    p->isa->progress(out + early, (double)(first + early - (a->numel - 1)), a->step.re, a->last.re, n - early);
}

static void count(uint64_t *out, uint64_t first, uint64_t step, int64_t n) {
  for (int64_t i = 0; i < n; i++, first += step) out[i] = first;
}

static void arange_range(void *arg, int64_t begin, int64_t end) {
  const progression *p = arg;
  const tide_arange_args *a = p->a;
  bool integer = tide_dtype_kind((tide_dtype)a->dtype) != 'F' && tide_dtype_kind((tide_dtype)a->dtype) != 'C';
  union {
    uint64_t i[TIDE_PIECE / 2];
    double f[TIDE_PIECE / 2];
  } piece;
  int computed = integer ? TIDE_INT64 : TIDE_FLOAT64;
  char *out = (char *)a->head.ptr[0] + begin * tide__item(a->dtype);
  for (int64_t at = begin; at < end; at += TIDE_PIECE / 2) {
    int64_t n = end - at < TIDE_PIECE / 2 ? end - at : TIDE_PIECE / 2;
    if (integer)
      count(a->dtype == TIDE_INT64 ? (uint64_t *)(void *)out : piece.i,
            (uint64_t)a->start.i + (uint64_t)at * (uint64_t)a->step.i, (uint64_t)a->step.i, n);
    else
      progress(p, a->dtype == TIDE_FLOAT64 ? (double *)(void *)out : piece.f, at, n);
    if (a->dtype != computed) tide__cast(p->isa, out, a->dtype, &piece, computed, n);
    out += n * tide__item(a->dtype);
  }
}

tide_status tide__cpu_arange(tide_stream *stream, const tide_arange_args *a) {
  progression p = {a, tide__isa_get()};
  tide__spread(a->numel, 1, arange_range, &p);
  return TIDE_OK;
}
