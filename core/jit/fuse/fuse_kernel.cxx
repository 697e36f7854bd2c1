/* fuse_kernel.cxx: what fused kernels call beside the helpers of op.def (base/mathematics/helpers_template.h), on a GPU alone. */

/* Gathers. tide_line and tide_note are what their slots hold (fuse.h), the box is a tide_mail. What was wrong is told at
 * the end of a thread, so that nothing stands between the reads of its lanes. */
//@ gather
struct tide_line { unsigned length, pitch; int base; unsigned site; };
struct tide_box { unsigned full, site; int base, reserved; long long value, length; };
struct tide_note { unsigned *taken; volatile tide_box *box; };
struct tide_wrong { long long value; unsigned length, site; };
TIDE_APART void tide_report(tide_wrong w, tide_line l, tide_note n) {
  unsigned was;
  asm volatile("atom.global.exch.b32 %0, [%1], 1;" : "=r"(was) : "l"(n.taken) : "memory");
  if (was) return;
  n.box->site = w.site, n.box->base = l.base, n.box->value = w.value, n.box->length = w.length;
  asm volatile("membar.sys;" ::: "memory");
  n.box->full = 1;
}
template <class T> TIDE_INLINE const T &tide_at(const T *p, long long i, const tide_line &l, tide_wrong &w) {
  const long long at = i < 0 ? i + l.length : i - l.base;
  const bool bad = (unsigned long long)at >= l.length;
  w.value = bad ? i : w.value, w.length = bad ? l.length : w.length, w.site = bad ? l.site : w.site;
  return p[(unsigned long long)(bad ? 0u : (unsigned)at) * l.pitch];
}

/* Reductions of a row by a group of threads. */
//@ joins
TIDE_INLINE unsigned tide_other(unsigned x, int d) {
  unsigned y; asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(y) : "r"(x), "r"(d));
  return y;
}
TIDE_INLINE int tide_other(int x, int d) { return (int)tide_other((unsigned)x, d); }
TIDE_INLINE float tide_other(float x, int d) { return __uint_as_float(tide_other(__float_as_uint(x), d)); }
TIDE_INLINE double tide_other(double x, int d) {
  unsigned long long u = (unsigned long long)__double_as_longlong(x);
  unsigned long long low = tide_other((unsigned)u, d), high = tide_other((unsigned)(u >> 32), d);
  return __longlong_as_double((long long)(high << 32 | low));
}
TIDE_INLINE long long tide_other(long long x, int d) {
  return __double_as_longlong(tide_other(__longlong_as_double(x), d));
}
template <int OP, class T> TIDE_INLINE T tide_join(T a, T b) {
  return OP == 0 ? a + b : OP == 3 ? a * b : OP == 1 ? (a > b || a != a ? a : b) : (a < b || a != a ? a : b);
}
template <int OP, class T> TIDE_INLINE T tide_all(T x) {
#pragma unroll
  for (int d = 16; d; d >>= 1) x = tide_join<OP>(x, tide_other(x, d));
#if TIDE_GROUP > 32
  __shared__ T part[TIDE_GROUP / 32];
  asm volatile("bar.sync 0;" ::: "memory");
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
  asm volatile("bar.sync 0;" ::: "memory");
  x = part[0];
#pragma unroll
  for (int k = 1; k < TIDE_GROUP / 32; k++) x = tide_join<OP>(x, part[k]);
#endif
  return x;
}
template <int BYTES> struct tide_raw;
template <> struct tide_raw<1> { typedef unsigned char type; };
template <> struct tide_raw<2> { typedef unsigned short type; };
template <> struct tide_raw<4> { typedef unsigned type; };
template <> struct tide_raw<8> { typedef uint2 type; };
template <> struct tide_raw<16> { typedef uint4 type; };
#define TIDE_LOOP _Pragma("unroll") for (int j = 0; j < TIDE_PIECES; j++) if ((j * TIDE_GROUP + lane) * TIDE_LANES_ < columns) \
  _Pragma("unroll") for (int e = 0; e < TIDE_LANES_; e++)
#define TIDE_MINE (j * TIDE_LANES_ + e)
#define TIDE_EACH_LANE _Pragma("unroll") for (int e = 0; e < TIDE_LANES_; e++)
