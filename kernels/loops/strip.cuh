/* strip.cuh: windows of a few elements over planes. A thread makes ROWS x COLS neighbouring elements of the result, so
 * that what is read once serves all the windows that cover it: threads of a warp lie beside each other in a row. */
#pragma once

#include "types.cuh"

namespace tidek {

constexpr int STRIP_THREADS = 256;

struct StripArgs {
  void *out;
  const void *in;
  uint32_t count; /* threads that are needed */
  int in_y, in_x, out_y, out_x, before_y, before_x;
  Div by_x, by_y, by_share; /* strips along x and y; planes of the result that read one of the input */
};

/* Fills what depends on the sizes; false: too many for one launch. */
static inline bool strip_sizes(StripArgs &a, const tide_taps *dim, int64_t planes, int64_t share, int rows, int cols) {
  const int64_t xs = ceil_div(dim[2].out, cols), ys = ceil_div(dim[1].out, rows);
  if (dim[1].in * dim[2].in > MAX_PIECE || xs * ys > MAX_PIECE || planes > MAX_PIECE / (xs * ys)) return false;
  a.count = (uint32_t)(planes * xs * ys);
  a.in_y = (int)dim[1].in, a.in_x = (int)dim[2].in, a.out_y = (int)dim[1].out, a.out_x = (int)dim[2].out;
  a.before_y = (int)dim[1].before, a.before_x = (int)dim[2].before;
  a.by_x = make_div(xs), a.by_y = make_div(ys), a.by_share = make_div(share);
  return true;
}

/* Windows of KY x KX elements, STRIDE apart. Of a Policy made for (a, plane of the result):
 *   T, beyond()               what is computed in, and what an element beyond the borders counts as
 *   join(r, c, ky, kx, v, at) element (ky, kx) of the window of element (r, c) of the strip is v; row-major, and `at`
 *                             is its place in its plane, or -1 beyond the borders
 *   store(r, c, offset, y, x) element (r, c) belongs at `offset` of the result, which is (y, x) in its plane */
template <class Policy, class S, int KY, int KX, int STRIDE, int ROWS, int COLS, class A>
static __device__ __forceinline__ void strip(const A &a) {
  constexpr int WIDE = (COLS - 1) * STRIDE + KX, HIGH = (ROWS - 1) * STRIDE + KY;
  uint32_t plane = blockIdx.x * (uint32_t)STRIP_THREADS + threadIdx.x;
  if (plane >= a.count) return;
  const int to_x = (int)a.by_x.split(plane) * COLS, to_y = (int)a.by_y.split(plane) * ROWS;
  const int x = to_x * STRIDE - a.before_x, y = to_y * STRIDE - a.before_y;
  const S *in = (const S *)a.in + (int64_t)a.by_share.quotient(plane) * a.in_y * a.in_x;
  using T = typename Policy::T;
  Policy policy(a, plane);
  TIDEK_EACH(h, HIGH) {
    const bool inside = (unsigned)(y + h) < (unsigned)a.in_y;
    const int row = (y + h) * a.in_x;
    T v[WIDE];
    TIDEK_EACH(w, WIDE)
      v[w] = inside && (unsigned)(x + w) < (unsigned)a.in_x ? cast<T>(in[row + x + w]) : Policy::beyond();
    TIDEK_EACH(r, ROWS)
      if (h >= r * STRIDE && h < r * STRIDE + KY)
        TIDEK_EACH(c, COLS)
          TIDEK_EACH(k, KX) {
            const int at = x + c * STRIDE + k;
            policy.join(r, c, h - r * STRIDE, k, v[c * STRIDE + k],
                        inside && (unsigned)at < (unsigned)a.in_x ? row + at : -1);
          }
  }
  TIDEK_EACH(r, ROWS)
    TIDEK_EACH(c, COLS)
      if (to_y + r < a.out_y && to_x + c < a.out_x)
        policy.store(r, c, ((int64_t)plane * a.out_y + to_y + r) * a.out_x + to_x + c, to_y + r, to_x + c);
}

} // namespace tidek
