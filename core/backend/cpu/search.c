/* search.c: where values belong among elements in order: halving, by the keys of order.h. */
#include "layout.h"
#include "base/order.h"

typedef struct work {
  const tide_search_args *a;
  tide_order_32 o32;
  tide_order_64 o64;
} work;

/* The element at place i of a line, which a sorter may name. */
static inline int64_t place_of(const int64_t *sorter, int64_t i, const tide_search_args *a) {
  if (!sorter) return i;
  int64_t at = sorter[i] - a->index_base;
  return at < 0 ? 0 : at >= a->n ? a->n - 1 : at;
}

#define SEARCH(E, bits)                                                                                                \
  static void search_##E(void *arg, int64_t begin, int64_t end) {                                                      \
    const work *w = arg;                                                                                               \
    const tide_search_args *a = w->a;                                                                                  \
    const tide_order_##bits o = w->o##bits;                                                                            \
    int64_t *out = a->head.ptr[0];                                                                                     \
    const E *value = a->head.ptr[2];                                                                                   \
    for (int64_t i = begin; i < end; i++) {                                                                            \
      if (i % 4096 == 0 && tide__loop_stops()) return;                                                                 \
      int64_t line = a->one_line ? 0 : i / a->m * a->n, low = 0, high = a->n;                                          \
      const E *x = (const E *)a->head.ptr[1] + line;                                                                   \
      const int64_t *sorter = a->head.ptr[3] ? (const int64_t *)a->head.ptr[3] + line : NULL;                          \
      uint##bits##_t wanted = tide_order_key_##bits(value[i], o);                                                      \
      if (tide_order_is_nan_##bits(wanted, o)) low = high;                                                             \
      while (low < high) {                                                                                             \
        int64_t middle = low + (high - low) / 2;                                                                       \
        uint##bits##_t there = tide_order_key_##bits(x[place_of(sorter, middle, a)], o);                               \
        if (there < wanted || (a->right && there == wanted))                                                           \
          low = middle + 1;                                                                                            \
        else                                                                                                           \
          high = middle;                                                                                               \
      }                                                                                                                \
      out[i] = low + a->index_base;                                                                                    \
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
