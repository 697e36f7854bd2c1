/* indexed.cuh: what the kernels that read and write at indexed places share: the plan on the device, the three offsets
 * of a step, and the place that an index stands for.
 *
 * Invariant: a bad index touches no memory: the first one fills the mailbox, which the host reads at its next wait. */
#pragma once

#include "base/bins.h"
#include "mailbox.cuh"
#include "types.cuh"

namespace tidek {

constexpr int INDEX_THREADS = 256, INDEX_EACH = 4; /* steps of one thread, whose loads are in flight together */

struct IndexArgs {
  void *to;
  const void *from, *index, *edges;
  int64_t n, length, pitch;
  Mail mail;
  int32_t wide, base, located, ndim, bins;
  double low, high;
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS][3]; /* dense, indexed, index */
};

struct Offsets {
  int64_t dense, indexed, index;
};

/* Divides by a size; both fit in 32 bits nearly always. */
static __device__ __forceinline__ int64_t divide(int64_t n, int64_t d) {
  if (((n | d) >> 32) == 0) return (uint32_t)n / (uint32_t)d;
  return n / d;
}

static __device__ __forceinline__ Offsets offsets_of(const IndexArgs &a, int64_t i) {
  Offsets o = {0, 0, 0};
  for (int d = a.ndim - 1; d >= 0; d--) {
    int64_t q = d ? divide(i, a.size[d]) : 0, r = i - q * a.size[d];
    o.dense += r * a.stride[d][0], o.indexed += r * a.stride[d][1], o.index += r * a.stride[d][2];
    i = q;
  }
  return o;
}

static __device__ __forceinline__ int64_t load_index(const IndexArgs &a, int64_t offset) {
  return a.wide ? ((const int64_t *)a.index)[offset] : ((const int32_t *)a.index)[offset];
}

/* The place that a value of the index stands for, or -1. */
static __device__ __forceinline__ int64_t place_of(const IndexArgs &a, int64_t value) {
  int64_t at = value < 0 ? value + a.length : value - a.base;
  return at >= 0 && at < a.length ? at : -1;
}

/* A value without a place: reported, unless locate_kernel has done so. */
static __device__ __forceinline__ void report_index(const IndexArgs &a, int64_t value) {
  if (!a.located || value != INT64_MIN) report(a.mail, value, a.length, a.base);
}

/* The same of values that fall in bins. A step's value is loaded, then found, so that several loads are in flight. */
static __device__ __forceinline__ double load_binned(const IndexArgs &a, int64_t offset) {
  return a.wide ? ((const double *)a.index)[offset] : ((const float *)a.index)[offset];
}
static __device__ __forceinline__ int64_t place_of(const IndexArgs &a, double value) {
  if (a.wide) return tide_bin_f64(value, a.low, a.high, a.length, (const double *)a.edges, a.bins);
  return tide_bin_f32((float)value, (float)a.low, (float)a.high, a.length, (const float *)a.edges, a.bins);
}
static __device__ __forceinline__ void report_index(const IndexArgs &, double) {} /* in no bin: no error */

template <bool BINS> using IndexValue = std::conditional_t<BINS, double, int64_t>;
template <bool BINS> static __device__ __forceinline__ IndexValue<BINS> load_value(const IndexArgs &a, int64_t offset) {
  if constexpr (BINS)
    return load_binned(a, offset);
  else
    return load_index(a, offset);
}

static inline IndexArgs index_args(const tide_index_args *a, uint32_t *taken, tidek_mailbox *mailbox) {
  IndexArgs r = {};
  r.to = a->head.ptr[0], r.from = a->head.ptr[1], r.index = a->head.ptr[2];
  r.edges = a->head.nptr > 3 ? a->head.ptr[3] : nullptr;
  r.n = a->numel, r.length = a->length, r.pitch = a->pitch;
  r.mail = {taken, mailbox, a->head.site};
  r.wide = a->index_dtype == TIDE_INT64 || a->index_dtype == TIDE_FLOAT64;
  r.base = a->index_base, r.located = a->located, r.ndim = a->ndim;
  r.bins = a->bins, r.low = a->low, r.high = a->high;
  for (int d = 0; d < a->ndim; d++) {
    r.size[d] = a->size[d];
    for (int k = 0; k < 3; k++) r.stride[d][k] = a->stride[k][d];
  }
  return r;
}

/* Takes `times` elements of the innermost dim as one, where the index stands still along it and both sides have them
 * side by side, and aligned to so many bytes: false where not. */
static inline bool widen(IndexArgs &r, int64_t times, int64_t to_bytes, int64_t from_bytes) {
  int last = r.ndim - 1;
  int64_t *innermost = r.stride[last];
  if (innermost[0] != 1 || innermost[1] != 1 || innermost[2] != 0) return false;
  if ((uintptr_t)r.to % (uintptr_t)to_bytes || (uintptr_t)r.from % (uintptr_t)from_bytes) return false;
  int64_t misfit = r.size[last] % times | r.pitch % times;
  for (int d = 0; d < last; d++) misfit |= r.stride[d][0] % times | r.stride[d][1] % times;
  if (misfit) return false;
  for (int d = 0; d < last; d++) r.stride[d][0] /= times, r.stride[d][1] /= times;
  r.pitch /= times, r.size[last] /= times, r.n /= times;
  return true;
}

/* indexed_mark.cu: writes one value, of so many bytes, for every value of the index; false where it is not for this
 * kernel. */
bool try_mark(int &rc, cudaStream_t stream, const IndexArgs &r, int bytes, int sms);
/* indexed_reduce.cu, indexed_count.cu and indexed_order.cu: scatters that do more than write. */
/* narrow: as in tide_index_args. */
int launch_reduce(cudaStream_t stream, IndexArgs r, int dtype, int narrow, int reduce, int sms);
/* Adds one number, int64, for every value of the index; false where it is not for this kernel. */
bool try_count(int &rc, cudaStream_t stream, const IndexArgs &r, int sms);
cudaError_t order_scratch(size_t &bytes, const tide_index_args *a);
int launch_ordered(cudaStream_t stream, const IndexArgs &r, const tide_index_args *a, void *scratch, size_t bytes);

} // namespace tidek
