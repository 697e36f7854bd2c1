/* search.c: where values belong among elements in order: halving, by the keys of order.h. Some values are halved
 * together, without a branch, so that their loads are waited for at once. Of a piece the least and the greatest value
 * come first: between their places lie all others, which is close where the values are in order. */
#include "backend/cpu/loops/layout.h"
#include "base/mathematics/order.h"

/* Values of a piece, and how many of one are worth to find out where the least and the greatest of them belong. */
enum { TOGETHER = 8, PIECE = 256, WORTH = 32 };

typedef struct work {
  const tide_search_args *a;
  tide_order_64 order;
  int bytes;
} work;

/* A line, and between which of its elements all keys belong. */
typedef struct line {
  const work *w;
  const void *x;
  const int64_t *sorter; /* or NULL */
  int64_t from, to;
} line;

/* The element at place i of a line, which a sorter names. */
static inline int64_t place_of(const line *l, int64_t i) {
  int64_t at = l->sorter[i] - l->w->a->index_base;
  return at < 0 ? 0 : at >= l->w->a->n ? l->w->a->n - 1 : at;
}

/* One step of all keys; equal elements lie before those that belong `right` of them. The key of an element is that of
 * order.h but for the sign of zero, which key_of makes up for. */
#define HALVE(E, place, unroll)                                                                                        \
  for (int64_t left = l->to - l->from, half; left > 0; left -= half) {                                                 \
    half = left / 2 + (left == 1);                                                                                     \
    _Pragma(unroll) for (int j = 0; j < TOGETHER; j++) {                                                               \
      uint64_t there = ((const E *)l->x)[place], nan = (there & ~o.sign) > infinity ? o.mask : 0;                      \
      there = (there ^ o.sign ^ (there & o.sign ? turned : 0)) | nan;                                                  \
      low[j] += half & -(int64_t)((there < key[j]) | ((there == key[j]) & right));                                     \
    }                                                                                                                  \
  }
#define SEARCH(E, unroll)                                                                                              \
  /* Where TOGETHER keys belong. */                                                                                    \
  static void halve_##E(int64_t *out, const line *l, const uint64_t *key) {                                            \
    const tide_order_64 o = l->w->order;                                                                               \
    const uint64_t turned = o.infinity ? o.mask ^ o.sign : 0, infinity = o.infinity ? o.infinity : o.mask;             \
    const bool right = l->w->a->right != 0;                                                                            \
    int64_t low[TOGETHER];                                                                                             \
    for (int j = 0; j < TOGETHER; j++) low[j] = l->from;                                                               \
    if (!l->sorter)                                                                                                    \
      HALVE(E, low[j] + half - 1, unroll)                                                                              \
    else                                                                                                               \
      HALVE(E, place_of(l, low[j] + half - 1), "GCC unroll 1")                                                         \
    memcpy(out, low, sizeof low);                                                                                      \
  }
SEARCH(uint8_t, "GCC unroll 1")
SEARCH(uint16_t, "GCC unroll 1")
SEARCH(uint32_t, "GCC unroll 8")
SEARCH(uint64_t, "GCC unroll 8")

/* The key of value i. One of zero lies before the elements that are zeros of either sign, or behind them. */
static inline uint64_t key_of(const work *w, int64_t i) {
  const void *at = (const char *)w->a->head.ptr[2] + i * w->bytes;
  uint64_t bits = w->bytes == 8   ? *(const uint64_t *)at
                  : w->bytes == 4 ? *(const uint32_t *)at
                  : w->bytes == 2 ? *(const uint16_t *)at
                                  : *(const uint8_t *)at;
  uint64_t key = tide_order_key_64(bits, w->order);
  return key - (!w->a->right && w->order.infinity && key == w->order.sign);
}

static void run(void *arg, int64_t begin, int64_t end) {
  static void (*const by_bytes[])(int64_t *, const line *, const uint64_t *) = {halve_uint8_t, halve_uint16_t,
                                                                                halve_uint32_t, halve_uint64_t};
  const work *w = arg;
  const tide_search_args *a = w->a;
  void (*halve)(int64_t *, const line *, const uint64_t *) = by_bytes[w->bytes == 8 ? 3 : w->bytes / 2];
  uint64_t key[PIECE];
  int64_t low[PIECE];
  for (int64_t i = begin, n; i < end && !tide__loop_stops(); i += n) {
    int64_t row = a->one_line ? 0 : i / a->m, stop = a->one_line ? end : (row + 1) * a->m;
    n = (stop < end ? stop : end) - i, n = n < PIECE ? n : PIECE;
    line l = {w, (const char *)a->head.ptr[1] + row * a->n * w->bytes, NULL, 0, a->n};
    if (a->head.ptr[3]) l.sorter = (const int64_t *)a->head.ptr[3] + row * a->n;
    uint64_t ends[TOGETHER] = {UINT64_MAX, 0};
    for (int64_t j = 0; j < n; j++) {
      key[j] = key_of(w, i + j);
      ends[0] = key[j] < ends[0] ? key[j] : ends[0], ends[1] = key[j] > ends[1] ? key[j] : ends[1];
    }
    for (int64_t j = n; j % TOGETHER; j++) key[j] = ends[1];
    if (n >= WORTH) {
      halve(low, &l, ends);
      l.from = low[0], l.to = low[1];
    }
    for (int64_t j = 0; j < n; j += TOGETHER) halve(low + j, &l, key + j);
    int64_t *out = (int64_t *)a->head.ptr[0] + i;
    for (int64_t j = 0; j < n; j++) out[j] = (tide_order_is_nan_64(key[j], w->order) ? a->n : low[j]) + a->index_base;
  }
}

tide_status tide__cpu_search(tide_stream *stream, const tide_search_args *a) {
  int bytes = tide__item(a->dtype);
  work w = {a, tide_order_of_64(a->dtype, bytes, 0, 1), bytes};
  tide__spread(a->lines * a->m, 32, run, &w);
  return TIDE_OK;
}
