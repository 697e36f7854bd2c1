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

/* Reductions of a row by a group of threads: a warp, a block, or the blocks of a cluster. Every block gets the values of
 * all warps. Each reduction has memory of its own, so that one barrier is enough. */
//@ joins
template <class T> TIDE_INLINE T tide_other(T x, int d) {
  union { T value; unsigned word[sizeof(T) / 4]; } u = {x};
#pragma unroll
  for (int k = 0; k < sizeof(T) / 4; k++)
    asm volatile("shfl.sync.bfly.b32 %0, %0, %1, 0x1f, 0xffffffff;" : "+r"(u.word[k]) : "r"(d));
  return u.value;
}
template <int OP, class T> TIDE_INLINE T tide_join(T a, T b) {
  return OP == 0 ? a + b : OP == 3 ? a * b : OP == 1 ? (a > b || a != a ? a : b) : (a < b || a != a ? a : b);
}
#define TIDE_ARRIVE asm volatile("barrier.cluster.arrive.aligned;" ::: "memory")
#define TIDE_WAIT asm volatile("barrier.cluster.wait.aligned;" ::: "memory")
template <int OP, int NODE, class T> TIDE_INLINE T tide_all(T x) {
#pragma unroll
  for (int d = 16; d; d >>= 1) x = tide_join<OP>(x, tide_other(x, d));
#if TIDE_GROUP > 32
  enum { WARPS = TIDE_GROUP / 32, LAST = WARPS < 32 ? WARPS : 32, MINE = WARPS / TIDE_BLOCKS };
  __shared__ T part[WARPS];
  const int lane = threadIdx.x % 32;
  T *at = part + blockIdx.x % TIDE_BLOCKS * MINE + threadIdx.x / 32;
#if TIDE_BLOCKS > 1
  asm("mapa.u64 %0, %1, %2;" : "=l"(at) : "l"(at), "r"(lane % TIDE_BLOCKS));
#endif
  if (lane < TIDE_BLOCKS) *at = x;
#if TIDE_BLOCKS > 1
  TIDE_ARRIVE;
  TIDE_WAIT;
#else
  asm volatile("bar.sync 0;" ::: "memory");
#endif
  x = part[lane % LAST];
#pragma unroll
  for (int k = 32; k < WARPS; k += 32) x = tide_join<OP>(x, part[lane + k]);
#pragma unroll
  for (int d = LAST / 2; d; d >>= 1) x = tide_join<OP>(x, tide_other(x, d));
#endif
  return x;
}
template <int BYTES> struct tide_raw;
template <> struct tide_raw<1> { typedef unsigned char type; };
template <> struct tide_raw<2> { typedef unsigned short type; };
template <> struct tide_raw<4> { typedef unsigned type; };
template <> struct tide_raw<8> { typedef uint2 type; };
template <> struct tide_raw<16> { typedef uint4 type; };
#define TIDE_EACH_LANE _Pragma("unroll") for (int e = 0; e < TIDE_LANES_; e++)
#define TIDE_EACH_PIECE _Pragma("unroll") for (int j = 0; j < TIDE_PIECES; j++) if (TIDE_AT * TIDE_LANES_ < columns)
#define TIDE_LOOP TIDE_EACH_PIECE TIDE_EACH_LANE
#define TIDE_AT (j * TIDE_GROUP + lane)
#define TIDE_MINE (j * TIDE_LANES_ + e)
/* Operand k: its row, room for elements of it, an access. */
#define TIDE_ROW(k) ((tide_s##k *)tide_a.ptr[k] + row * tide_a.stride[k])
#define TIDE_ROOM(k, n) typedef tide_raw<sizeof(tide_s##k) * TIDE_LANES_>::type tide_r##k; alignas(tide_r##k) tide_s##k p##k[n];
#define TIDE_READ(k) TIDE_ROOM(k, TIDE_PIECES * TIDE_LANES_) TIDE_EACH_PIECE ((tide_r##k *)p##k)[j] = ((const tide_r##k *)a##k)[TIDE_AT];
#define TIDE_WRITE(k) TIDE_EACH_PIECE ((tide_r##k *)TIDE_ROW(k))[TIDE_AT] = ((tide_r##k *)p##k)[j];
#define TIDE_STEP(k, i) (TIDE_ROW(k) + (i) * tide_a.step[k])
#define TIDE_READ_STEP(k, i) TIDE_ROOM(k, TIDE_LANES_) *(tide_r##k *)p##k = *(const tide_r##k *)TIDE_STEP(k, i);
#define TIDE_WRITE_STEP(k, i) *(tide_r##k *)TIDE_STEP(k, i) = *(tide_r##k *)p##k;

/* The sum of squares of what remains when the mean is taken away, in one pass (B. P. Welford, Technometrics 1962), and
 * of two parts (T. Chan, G. Golub, R. LeVeque, 1979). The first value is taken away from all, so that a mean that is
 * large beside the deviation rounds nothing. */
//@ spreads
template <class T> struct tide_spread { double mean; T squares, n, first, apart; };
template <int OP, class T> TIDE_INLINE tide_spread<T> tide_join(tide_spread<T> a, tide_spread<T> b) {
  const T n = a.n + b.n, w = n > 0 ? b.n / n : 0, d = (T)(b.mean - a.mean);
  return {a.mean + (b.mean - a.mean) * w, a.squares + b.squares + d * d * a.n * w, n};
}
TIDE_INLINE float tide_inverse(float n) { float r; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(n)); return r; }
TIDE_INLINE double tide_inverse(double n) { return 1 / n; }
template <class T> TIDE_INLINE void tide_take(tide_spread<T> &s, T x, int n, T inverse) {
  s.first = n ? s.first : x;
  const T d = x - s.first, more = d - s.apart;
  s.apart += more * inverse;
  s.squares += more * (d - s.apart);
}
