/* search.c: where values belong among elements in order: halving, by the keys of order.h. Some values are halved
 * together, without a branch, so that their loads are waited for at once. */
#include "layout.h"
#include "base/order.h"

enum { TOGETHER = 8 };

typedef struct work {
  const tide_search_args *a;
  tide_order_32 o32;
  tide_order_64 o64;
} work;

/* The element at place i of a line, which a sorter names. */
static inline int64_t place_of(const int64_t *sorter, int64_t i, const tide_search_args *a) {
  int64_t at = sorter[i] - a->index_base;
  return at < 0 ? 0 : at >= a->n ? a->n - 1 : at;
}

#define HALVE(bits, place)                                                                                             \
  for (int64_t left = a->n, half; left > 0; left -= half) {                                                            \
    half = left / 2 + (left == 1);                                                                                     \
    for (int64_t j = 0; j < some; j++) {                                                                               \
      uint##bits##_t there = tide_order_key_##bits(x[place], o);                                                       \
      low[j] += half & -(int64_t)(there < key[j] + more);                                                              \
    }                                                                                                                  \
  }
#define SEARCH(E, bits)                                                                                                \
  static void search_##E(void *arg, int64_t begin, int64_t end) {                                                      \
    const work *w = arg;                                                                                               \
    const tide_search_args *a = w->a;                                                                                  \
    const tide_order_##bits o = w->o##bits;                                                                            \
    int64_t *out = a->head.ptr[0];                                                                                     \
    const E *value = a->head.ptr[2];                                                                                   \
    for (int64_t i = begin, some; i < end; i += some) {                                                                \
      if ((i - begin) % 4096 < TOGETHER && tide__loop_stops()) return;                                                 \
      int64_t row = a->one_line ? 0 : i / a->m, stop = a->one_line ? end : (row + 1) * a->m, low[TOGETHER] = {0};      \
      some = (stop < end ? stop : end) - i, some = some < TOGETHER ? some : TOGETHER;                                  \
      const E *x = (const E *)a->head.ptr[1] + row * a->n;                                                             \
      const int64_t *sorter = a->head.ptr[3] ? (const int64_t *)a->head.ptr[3] + row * a->n : NULL;                    \
      uint##bits##_t key[TOGETHER], more = a->right != 0;                                                              \
      for (int64_t j = 0; j < some; j++) key[j] = tide_order_key_##bits(value[i + j], o);                              \
      if (sorter)                                                                                                      \
        HALVE(bits, place_of(sorter, low[j] + half - 1, a))                                                            \
      else                                                                                                             \
        HALVE(bits, low[j] + half - 1)                                                                                 \
      for (int64_t j = 0; j < some; j++)                                                                               \
        out[i + j] = (tide_order_is_nan_##bits(key[j], o) ? a->n : low[j]) + a->index_base;                            \
    }                                                                                                                  \
  }
SEARCH(uint8_t, 32)
SEARCH(uint16_t, 32)
SEARCH(uint32_t, 32)
SEARCH(uint64_t, 64)

tide_status tide__cpu_search(tide_stream *stream, const tide_search_args *a) {
  (void)stream;
  static void (*const by_bytes[])(void *, int64_t, int64_t) = {search_uint8_t, search_uint16_t, search_uint32_t,
                                                               search_uint64_t};
  int bytes = tide__item(a->dtype);
  work w = {a, tide_order_of_32(a->dtype, bytes > 4 ? 4 : bytes, 0, 1), tide_order_of_64(a->dtype, bytes, 0, 1)};
  tide__spread(a->lines * a->m, 32, by_bytes[bytes == 8 ? 3 : bytes / 2], &w);
  return TIDE_OK;
}
