/* sort.cuh: what the kernels that put lines in order share. */
#pragma once

#include "types.cuh"
#include "base/mathematics/order.h"
#include "tidek.h"

namespace tidek {

/* The key of an element of type E, and how it is made: of 64 bits for elements of 8 bytes, else of 32. */
template <class E> struct KeyOf {
  using Key = uint32_t;
  using Order = tide_order_32;
  static Order order(const tide_sort_args *a, bool joins) {
    return tide_order_of_32(a->dtype, (int)sizeof(E), a->descending, joins);
  }
  static __device__ __forceinline__ Key key(E x, const Order &o) { return tide_order_key_32(x, o); }
  static __device__ __forceinline__ E bits(Key k, const Order &o) { return (E)tide_order_bits_32(k, o); }
  static __device__ __forceinline__ bool joined(Key k, const Order &o) { return tide_order_is_joined_32(k, o); }
  static __device__ __forceinline__ bool nan(Key k, const Order &o) { return tide_order_is_nan_32(k, o); }
};
template <> struct KeyOf<uint64_t> {
  using Key = uint64_t;
  using Order = tide_order_64;
  static Order order(const tide_sort_args *a, bool joins) {
    return tide_order_of_64(a->dtype, 8, a->descending, joins);
  }
  static __device__ __forceinline__ Key key(uint64_t x, const Order &o) { return tide_order_key_64(x, o); }
  static __device__ __forceinline__ uint64_t bits(Key k, const Order &o) { return tide_order_bits_64(k, o); }
  static __device__ __forceinline__ bool joined(Key k, const Order &o) { return tide_order_is_joined_64(k, o); }
  static __device__ __forceinline__ bool nan(Key k, const Order &o) { return tide_order_is_nan_64(k, o); }
};

/* Where results go; values or places may be NULL. */
template <class E> struct SortArgs {
  const E *in;
  E *values;
  int64_t *places;
  int64_t lines, n, first, keep;
  int32_t base, median;
  typename KeyOf<E>::Order order;
};

template <class E> static SortArgs<E> sort_args(const tide_sort_args *a) {
  SortArgs<E> r = {};
  r.in = (const E *)a->head.ptr[1], r.values = (E *)a->head.ptr[0], r.places = (int64_t *)a->head.ptr[2];
  r.lines = a->lines, r.n = a->n, r.first = a->first, r.keep = a->keep;
  r.base = a->index_base, r.median = a->median;
  r.order = KeyOf<E>::order(a, r.places != nullptr);
  return r;
}

/* The same for `lines` lines from one on. */
template <class E> static SortArgs<E> from_line(const SortArgs<E> &a, int64_t line, int64_t lines) {
  SortArgs<E> r = a;
  r.in += line * a.n, r.lines = lines;
  if (r.values) r.values += line * a.keep;
  if (r.places) r.places += line * a.keep;
  return r;
}

/* Result `to` is the element with this key, which stood at place `at` of a line. */
template <class E>
static __device__ __forceinline__ void put(const SortArgs<E> &a, int64_t to, int64_t line, typename KeyOf<E>::Key key,
                                           int64_t at) {
  bool itself = a.places && KeyOf<E>::joined(key, a.order);
  if (a.values) a.values[to] = itself ? a.in[line * a.n + at] : KeyOf<E>::bits(key, a.order);
  if (a.places) a.places[to] = at + a.base;
}

static inline size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }
static inline int bits_below(int64_t n) { /* of a number below n */
  int bits = 0;
  while (bits < 63 && (int64_t)1 << bits < n) bits++;
  return bits;
}

/* Lines up to this length are put in order by one block or warp. */
constexpr int64_t SHORT_LINE = 4096;
/* Longer ones, of which few elements are wanted (select.cu). */
bool is_selection(const tide_sort_args *a);
size_t select_scratch(const tide_sort_args *a);
int select(cudaStream_t stream, const tide_sort_args *a, void *scratch);

/* Those that a block goes through alone (select_line.cu). */
bool is_line_selection(const tide_sort_args *a);
int select_of_lines(cudaStream_t stream, const tide_sort_args *a);
/* All others (radix.cu). */
size_t radix_scratch(const tide_sort_args *a);
int radix_sort(cudaStream_t stream, const tide_sort_args *a, void *scratch);

} // namespace tidek
