/* prelude.cxx: what stands before a kernel that was written in Lua: the same C++ for NVRTC and for the compiler of
 * the CPU. Of a text with lines of @ a kernel gets the definitions that it names (kernel_prelude.lua), as compilers take
 * their time for all that they read.
 *
 * Integers are Lua's: 64 bits that wrap around, division and remainder toward minus infinity. Arithmetic that C has too
 * is core's: kernel_numbers.h, philox.h and helpers_template.h of core/base. A reported failure goes into the mailbox
 * that the slots name (kernels/mailbox.cuh); the first one of all stays.
 *
 * Invariant: every name begins with tide_, tk_ or TIDE_, so that none of a script's can clash. */

/* The text for a GPU defines the words that the CPU's own texts have: TIDE_FN, the slots, the fences. */
//@ device
#define TIDE_FN static __device__ __forceinline__
#define TIDE_COLD static __device__ __noinline__
#define TIDE_TABLE static __constant__
#if __CUDA_ARCH__ >= 900
#define TIDE_WAIT if (TIDE_FEW) asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
#else
#define TIDE_WAIT
#endif
#define TIDE_FENCE __threadfence_system();
#define TIDE_IN __device__ __forceinline__
#define TIDE_SHARED __shared__
#define TIDE_RARELY(x) __builtin_expect(x, 0)
#define TIDE_OPAQUE(i)
struct tide_slots { long long v[TIDE_SLOTS]; __device__ __forceinline__ long long operator[](int i) const { return v[i]; } };
#define TIDE_S const tide_slots &

//@ device_words
@tk_bits<
template <class To, class From> TIDE_FN To tk_bits(From x) { union { From a; To b; } u; u.a = x; return u.b; }
@tk_widen(
TIDE_FN float tk_widen(unsigned short v) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(v)); return y; }
@tk_narrow(
TIDE_FN unsigned short tk_narrow(float x) { unsigned short v; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(v) : "f"(x)); return v; }
@tk_add_to(
TIDE_FN long long tk_add_to(long long *p, long long x) { return (long long)atomicAdd((unsigned long long *)p, (unsigned long long)x); }
TIDE_FN int tk_add_to(int *p, int x) { return atomicAdd(p, x); }
TIDE_FN float tk_add_to(float *p, float x) { return atomicAdd(p, x); }
TIDE_FN double tk_add_to(double *p, double x) { return atomicAdd(p, x); }
@tk_swap(
TIDE_FN unsigned tk_swap(unsigned *p, unsigned old, unsigned now) { return atomicCAS(p, old, now); }
TIDE_FN unsigned long long tk_swap(unsigned long long *p, unsigned long long old, unsigned long long now) { return atomicCAS(p, old, now); }

//@ host
#define TIDE_FN static inline __attribute__((always_inline, unused))
#define TIDE_COLD static __attribute__((noinline, cold))
#define TIDE_TABLE static
#define TIDE_FENCE __atomic_thread_fence(__ATOMIC_SEQ_CST);
#define TIDE_IN inline __attribute__((always_inline))
#define TIDE_SHARED thread_local
#define TIDE_RARELY(x) __builtin_expect(x, 0)
#define TIDE_OPAQUE(i) asm("" : "+r"(i));
#define TIDE_S const long long *

//@ host_words
@tk_bits<
template <class To, class From> TIDE_FN To tk_bits(From x) { To y; memcpy(&y, &x, sizeof y); return y; }
@tk_widen(
TIDE_FN float tk_widen(unsigned short v) { return tide_get(tide_f16{v}); }
@tk_narrow(
TIDE_FN unsigned short tk_narrow(float x) { tide_f16 y; tide_put(y, x); return y.v; }
@tk_swap(
template <class T> TIDE_FN T tk_swap(T *p, T old, T now) {
  __atomic_compare_exchange(p, &old, &now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return old;
}
@tk_add_to(
TIDE_FN long long tk_add_to(long long *p, long long x) { return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST); }
TIDE_FN int tk_add_to(int *p, int x) { return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST); }

/* tide_r: the kernel's float; tide_i: an integer of Lua. TIDE_OPAQUE keeps g++ from making an integer that comes
 * from a float and becomes one again a float that was never an integer, of which -0.5 gives -0. */
//@ integers
typedef long long tide_i;
typedef unsigned long long tide_u;

//@ numbers
@NAN_
#define NAN_ (0.0f / 0.0f)
@INF_
#define INF_ (1.0f / 0.0f)
@tk_half
struct tk_half { unsigned short v; };
@tk_bf16
struct tk_bf16 { unsigned short v; };
@tk_bool
struct tk_bool { unsigned char v; };
@tk_mail
struct tk_mail { volatile unsigned full; unsigned site; int base, reserved; long long value, length; };
@tk_report(
TIDE_COLD void tk_report(TIDE_S s, int site, tide_i value, tide_i length, int base) {
  if (tk_swap((unsigned *)s[3], 0u, 1u) != 0u) return;
  tk_mail *m = (tk_mail *)s[4];
  m->site = (unsigned)s[7 + site], m->base = base, m->value = value, m->length = length;
  TIDE_FENCE
  m->full = 1;
  TIDE_FENCE
}
@tk_add(
TIDE_FN tide_i tk_add(tide_i a, tide_i b) { return (tide_i)((tide_u)a + (tide_u)b); }
@tk_sub(
TIDE_FN tide_i tk_sub(tide_i a, tide_i b) { return (tide_i)((tide_u)a - (tide_u)b); }
@tk_mul(
TIDE_FN tide_i tk_mul(tide_i a, tide_i b) { return (tide_i)((tide_u)a * (tide_u)b); }
@tk_neg(
TIDE_FN tide_i tk_neg(tide_i a) { return (tide_i)(0 - (tide_u)a); }
@tk_idiv(
template <class T> TIDE_FN T tk_idiv(TIDE_S s, int site, T a, T b) {
  if (b == 0) { tk_report(s, site, a, 0, TIDE_ZERO); return 0; }
  return tk_div_floor(a, b);
}
@tk_imod(
TIDE_FN tide_i tk_imod(TIDE_S s, int site, tide_i a, tide_i b) {
  const tide_u x = (tide_u)a + (a < 0 ? (tide_u)b : a >= b ? 0 - (tide_u)b : 0u);
  if (b > 0 && x < (tide_u)b) return (tide_i)x;
  if (b == 0) { tk_report(s, site, a, 0, TIDE_ZERO); return 0; }
  return tk_remainder(a, b);
}
@tk_imod(
TIDE_FN int tk_imod(TIDE_S s, int site, int a, int b) {
  const unsigned x = (unsigned)a + (a < 0 ? (unsigned)b : a >= b ? 0 - (unsigned)b : 0u);
  if (b > 0 && x < (unsigned)b) return (int)x;
  if (b == 0) { tk_report(s, site, a, 0, TIDE_ZERO); return 0; }
  return tk_remainder(a, b);
}
@tk_apart_imod(
template <class T> TIDE_COLD T tk_apart_imod(TIDE_S s, int site, T a, T b) { return tk_imod(s, site, a, b); }
@tk_wrap(
TIDE_FN int tk_wrap(int a, int b) { return a + (a < 0 ? b : a >= b ? -b : 0); }
@tk_same(
TIDE_FN bool tk_same(tide_i a, tide_r b) { return (tide_r)a == b && TIDE_R(tk_whole)((tide_r)a) == a; }
@tk_fmin(
TIDE_FN tide_r tk_fmin(tide_r a, tide_r b) { return b < a ? b : a; }
@tk_fmax(
TIDE_FN tide_r tk_fmax(tide_r a, tide_r b) { return a < b ? b : a; }
@tk_small(
TIDE_FN bool tk_small(tide_i x) { return x > -(1ll << 40) && x < 1ll << 40; }
@tk_ult(
TIDE_FN bool tk_ult(tide_i a, tide_i b) { return (tide_u)a < (tide_u)b; }
@tk_ffloor(
TIDE_FN tide_r tk_ffloor(tide_r a) { return TIDE_M(floor)(a); }
@tk_fdiv(
TIDE_FN tide_r tk_fdiv(tide_r a, tide_r b) { return TIDE_M(floor)(a / b); }
@tk_fmodulo(
TIDE_FN tide_r tk_fmodulo(tide_r a, tide_r b) {
  tide_r m = TIDE_M(fmod)(a, b);
  return (m > 0 ? b < 0 : m < 0 && b > 0) ? m + b : m;
}
@tk_fmodulo_2(
TIDE_FN tide_r tk_fmodulo_2(tide_r a, tide_r b) {
  const tide_r m = a - TIDE_M(floor)(a / b) * b;
  return m > 0 ? m : m < 0 ? m + b : m == 0 ? TIDE_M(copysign)(m, a) : m;
}
@tk_pow(
TIDE_FN tide_r tk_pow(tide_r a, tide_r b) {
  if (b == 0.5) return a < 0 && a * 2 == a ? -a : TIDE_M(sqrt)(a) + 0; /* GCC's vectors forget -inf and -0 */
  return b == 2 ? a * a : TIDE_M(pow)(a, b);
}
@tk_power<
template <int N> TIDE_FN tide_r tk_power(tide_r a) {
  tide_r out = N % 2 ? a : 1;
  for (int n = N / 2; n; n /= 2) {
    a *= a;
    if (n % 2) out *= a;
  }
  return out;
}
@tk_to_int(
TIDE_FN tide_i tk_to_int(tide_r a) {
  tide_i i = TIDE_R(tk_whole)(a);
  TIDE_OPAQUE(i)
  return i;
}

//@ memory
@tk_as<
template <class R, class T> struct tk_as { static TIDE_IN R get(T x) { return (R)x; } };
@tk_as<@tk_half
template <class R> struct tk_as<R, tk_half> { static TIDE_IN R get(tk_half x) { return (R)tk_widen(x.v); } };
@tk_as<@tk_bf16
template <class R> struct tk_as<R, tk_bf16> { static TIDE_IN R get(tk_bf16 x) { return (R)tk_bits<float>((unsigned)x.v << 16); } };
@tk_as<@tk_bool
template <class R> struct tk_as<R, tk_bool> { static TIDE_IN R get(tk_bool x) { return (R)(x.v != 0); } };
@tk_put(
template <class T> TIDE_FN void tk_put(T &to, tide_i x) { to = (T)x; }
template <class T> TIDE_FN void tk_put(T &to, int x) { to = (T)x; }
template <class T> TIDE_FN void tk_put(T &to, bool x) { to = (T)x; }
template <class T> TIDE_FN void tk_put(T &to, tide_r x) { to = (T)TIDE_R(tk_whole)(x); }
TIDE_FN void tk_put(float &to, tide_r x) { to = (float)x; }
TIDE_FN void tk_put(double &to, tide_r x) { to = (double)x; }
@tk_put(@tk_half
TIDE_FN void tk_put(tk_half &to, tide_r x) { to.v = tk_narrow((float)x); }
TIDE_FN void tk_put(tk_half &to, tide_i x) { to.v = tk_narrow((float)x); }
TIDE_FN void tk_put(tk_half &to, int x) { to.v = tk_narrow((float)x); }
TIDE_FN void tk_put(tk_half &to, bool x) { to.v = tk_narrow((float)x); }
@tk_round(
TIDE_FN unsigned short tk_round(float x) {
  unsigned u = tk_bits<unsigned>(x);
  return (unsigned short)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
@tk_put(@tk_bf16
TIDE_FN void tk_put(tk_bf16 &to, tide_r x) { to.v = tk_round((float)x); }
TIDE_FN void tk_put(tk_bf16 &to, tide_i x) { to.v = tk_round((float)x); }
TIDE_FN void tk_put(tk_bf16 &to, int x) { to.v = tk_round((float)x); }
TIDE_FN void tk_put(tk_bf16 &to, bool x) { to.v = tk_round((float)x); }
@tk_put(@tk_bool
TIDE_FN void tk_put(tk_bool &to, tide_r x) { to.v = x != 0; }
TIDE_FN void tk_put(tk_bool &to, tide_i x) { to.v = x != 0; }
TIDE_FN void tk_put(tk_bool &to, int x) { to.v = x != 0; }
TIDE_FN void tk_put(tk_bool &to, bool x) { to.v = x; }
@tk_out(
TIDE_FN bool tk_out(int i, int n) { return (unsigned)i - 1u >= (unsigned)n; }
TIDE_FN bool tk_out(int i, tide_i n) { return (tide_u)(tide_i)i - 1u >= (tide_u)n; }
TIDE_FN bool tk_out(tide_i i, tide_i n) { return (tide_u)i - 1u >= (tide_u)n; }
TIDE_FN bool tk_out(tide_i i, int n) { return (tide_u)i - 1u >= (tide_u)(tide_i)n; }

/* Atomic operations by a loop of compare and swap, but for what every device has. `old` is what was there. */
//@ atomics
@tk_raw<
template <int BYTES> struct tk_raw { typedef unsigned type; };
template <> struct tk_raw<8> { typedef unsigned long long type; };
@TIDE_ATOMIC(
#define TIDE_ATOMIC(name, params, expr) \
  template <class T, class V> TIDE_FN T tk_atomic_##name params { \
    typedef typename tk_raw<sizeof(T)>::type W; \
    W was = *(volatile W *)p, seen; \
    T old; \
    do { \
      seen = was, old = tk_bits<T>(seen); \
      T now; \
      tk_put(now, expr); \
      was = tk_swap((W *)p, seen, tk_bits<W>(now)); \
    } while (was != seen); \
    return old; \
  }
@tk_atomic_swap_add(
TIDE_ATOMIC(swap_add, (T *p, V x), (V)old + x)
@tk_atomic_min(
TIDE_ATOMIC(min, (T *p, V x), x < (V)old ? x : (V)old)
@tk_atomic_max(
TIDE_ATOMIC(max, (T *p, V x), x > (V)old ? x : (V)old)
@tk_atomic_exchange(
TIDE_ATOMIC(exchange, (T *p, V x), x)
@tk_atomic_cas(
TIDE_ATOMIC(cas, (T *p, V from, V x), (V)old == from ? x : (V)old)
@tk_atomic_band(
TIDE_ATOMIC(band, (T *p, V x), (V)old & x)
@tk_atomic_bor(
TIDE_ATOMIC(bor, (T *p, V x), (V)old | x)
@tk_atomic_bxor(
TIDE_ATOMIC(bxor, (T *p, V x), (V)old ^ x)
@tk_atomic_add(
TIDE_FN int tk_atomic_add(int *p, tide_i x) { return tk_add_to(p, (int)x); }
TIDE_FN tide_i tk_atomic_add(tide_i *p, tide_i x) { return tk_add_to(p, x); }

//@ device_adds
@tk_atomic_add(
TIDE_FN float tk_atomic_add(float *p, tide_r x) { return tk_add_to(p, (float)x); }
TIDE_FN double tk_atomic_add(double *p, tide_r x) { return tk_add_to(p, (double)x); }

/* Where threads would wait for each other, a part of a grid adds to elements of its own (kernel_own.lua): as
 * `volatile`, since two places that are computed together may add to the same one. tk_few gives how many a tensor
 * has, 0 where they are many or do not lie side by side; tk_apart says whether another one has none of them. A
 * slot with an address is followed by sizes and strides. */
//@ host_adds
@tk_few(
TIDE_FN tide_i tk_few(TIDE_S x, int ndim, tide_i most) {
  tide_i n = 1;
  for (int d = ndim; d > 0; d--) {
    if (x[d] > most || (x[d] > 1 && x[ndim + d] != n)) return 0;
    if ((n *= x[d]) > most) return 0;
  }
  return n;
}
@tk_apart(
TIDE_FN bool tk_apart(TIDE_S x, int ndim, tide_i size, tide_i from, tide_i upto) {
  tide_i low = x[0], high = x[0] + size;
  for (int d = 1; d <= ndim; d++) {
    if (x[d] == 0) return true;
    const tide_i far = (x[d] - 1) * x[ndim + d] * size;
    if (far < 0) low += far; else high += far;
  }
  return high <= from || upto <= low;
}
@tk_atomic_add(
TIDE_FN float tk_atomic_add(float *p, tide_r x) { return tk_atomic_swap_add(p, x); }
TIDE_FN double tk_atomic_add(double *p, tide_r x) { return tk_atomic_swap_add(p, x); }
@tk_add_own(
TIDE_FN void tk_add_own(int *p, tide_i x, bool own) {
  if (own) *(volatile int *)p = (int)((unsigned)*(volatile int *)p + (unsigned)x); else tk_atomic_add(p, x);
}
TIDE_FN void tk_add_own(tide_i *p, tide_i x, bool own) {
  if (own) *(volatile tide_i *)p = tk_add(*(volatile tide_i *)p, x); else tk_atomic_add(p, x);
}
template <class T> TIDE_FN void tk_add_own(T *p, tide_r x, bool own) {
  if (own) *(volatile T *)p = (T)((tide_r)*(volatile T *)p + x); else tk_atomic_add(p, x);
}

/* Sums are of one order everywhere: those of a warp from its first thread to its last, then those of the warps. A
 * thread that has left counts 0: on a GPU a vote tells which are there, each of which reads the others by
 * shuffles. */
//@ device_lanes
@tk_lane(
TIDE_FN unsigned tk_lane(unsigned x, unsigned k) {
  unsigned y;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(y) : "r"(x), "r"(k));
  return y;
}
TIDE_FN tide_u tk_lane(tide_u x, unsigned k) { return (tide_u)tk_lane((unsigned)(x >> 32), k) << 32 | tk_lane((unsigned)x, k); }
TIDE_FN tide_i tk_lane(tide_i x, unsigned k) { return (tide_i)tk_lane((tide_u)x, k); }
TIDE_FN float tk_lane(float x, unsigned k) { return tk_bits<float>(tk_lane(tk_bits<unsigned>(x), k)); }
TIDE_FN double tk_lane(double x, unsigned k) { return tk_bits<double>(tk_lane(tk_bits<tide_u>(x), k)); }
@tk_present(
TIDE_FN unsigned tk_present() {
  unsigned mask;
  asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(mask));
  return mask;
}
@tk_join(
template <class T, class F> TIDE_FN T tk_join(T x, unsigned t, F join) {
  static TIDE_SHARED T warp[(TIDE_THREADS + 31) / 32];
  const unsigned present = tk_present();
#pragma unroll 1
  for (unsigned far = 16; far; far /= 2) {
    const unsigned from = (t & 31) ^ far;
    const T other = tk_lane(x, from);
    if (present >> from & 1) x = join(x, other);
  }
  if (t % 32 == 0) warp[t / 32] = x;
  __syncthreads();
  for (unsigned k = 1; k < (TIDE_THREADS + 31) / 32 && t == 0; k++) x = join(x, warp[k]);
  __syncthreads();
  return x;
}

//@ device_sums
template <class T> TIDE_FN T tk_warp_sum(T x) {
  const unsigned present = tk_present();
  T sum = 0;
#pragma unroll 4
  for (unsigned k = 0; k < 32; k++) {
    const T other = tk_lane(x, k);
    if (present >> k & 1) sum += other;
  }
  return sum;
}
#define TIDE_SUMS(T, name) \
  static TIDE_SHARED T name##_warp[(TIDE_THREADS + 31) / 32]; \
  TIDE_FN void name##_clear(unsigned t) { name##_warp[t / 32] = 0; } \
  TIDE_FN T name(unsigned t, T x) { \
    name##_warp[t / 32] = tk_warp_sum(x); \
    __syncthreads(); \
    T sum = 0; \
    for (unsigned k = 0; k < (TIDE_THREADS + 31) / 32; k++) sum += name##_warp[k]; \
    __syncthreads(); \
    name##_clear(t); \
    return sum; \
  } \
  TIDE_FN T name##_in_warp(unsigned, T x) { return tk_warp_sum(x); }

//@ host_sums
#define TIDE_SUMS(T, name) \
  static TIDE_SHARED T name##_each[TIDE_THREADS], name##_warp[(TIDE_THREADS + 31) / 32]; \
  TIDE_FN void name##_clear(unsigned t) { name##_each[t] = 0, name##_warp[t / 32] = 0; } \
  TIDE_FN T name##_fold(unsigned t) { \
    T sum = 0; \
    for (unsigned k = t / 32 * 32; k < t / 32 * 32 + 32 && k < TIDE_THREADS; k++) sum += name##_each[k]; \
    return sum; \
  } \
  TIDE_FN T name(unsigned t, T x) { \
    name##_each[t] = x; \
    __syncthreads(); \
    T sum = name##_fold(t); \
    name##_warp[t / 32] = sum; \
    __syncthreads(); \
    sum = 0; \
    for (unsigned k = 0; k < (TIDE_THREADS + 31) / 32; k++) sum += name##_warp[k]; \
    __syncthreads(); \
    name##_clear(t); \
    return sum; \
  } \
  TIDE_FN T name##_in_warp(unsigned t, T x) { \
    name##_each[t] = x; \
    __syncthreads(); \
    T sum = name##_fold(t); \
    __syncthreads(); \
    name##_each[t] = 0; \
    return sum; \
  }

/* Threads of a block that may come to different places, or not at all: each says where it is, and all that are
 * left wait. Of three rounds one is spoken of, the one before may still be looked at, and the next one is made
 * empty. Those at the first of several places report it. */
//@ meets
static TIDE_SHARED unsigned tk_met[6];
TIDE_FN void tk_meet_clear(unsigned t) {
  if (t == 0) for (int k = 0; k < 3; k++) tk_met[2 * k] = ~0u, tk_met[2 * k + 1] = 0;
}
TIDE_COLD bool tk_meet(TIDE_S s, unsigned &round, unsigned at, int site) {
  volatile unsigned *now = tk_met + round % 3 * 2, *next = tk_met + (round + 1) % 3 * 2;
  tk_least((unsigned *)now, at);
  tk_most((unsigned *)now + 1, at);
  next[0] = ~0u, next[1] = 0;
  tk_all_wait();
  round++;
  const unsigned first = now[0];
  if (first == now[1]) return false;
  if (at == first) tk_report(s, site, 0, 0, TIDE_APART);
  return true;
}

//@ device_meets
static __device__ __forceinline__ void tk_least(unsigned *p, unsigned x) { atomicMin(p, x); }
static __device__ __forceinline__ void tk_most(unsigned *p, unsigned x) { atomicMax(p, x); }
static __device__ __forceinline__ void tk_all_wait() { asm volatile("barrier.sync 0;" ::: "memory"); }

//@ host_meets
static inline void tk_least(unsigned *p, unsigned x) { if (x < *p) *p = x; }
static inline void tk_most(unsigned *p, unsigned x) { if (x > *p) *p = x; }
static inline void tk_all_wait() { __syncthreads(); }

/* How a kernel that goes on is stopped: now and then a thread looks whether it is to return. On a GPU slot 5 is
 * the address of the number up to which launches are to end, slot 6 the number of this one; behind the former
 * stand the milliseconds, 0 where nobody is to be told, and third where the host has both itself. That is far to
 * read: one look of 64 in a loop goes there, and as blocks begin one thread now and then, and brings what it finds:
 * 1088 blocks whose warps all read it take 8 ms on an H200. */
//@ device_stops
#define TIDE_ROUNDS 1024
TIDE_FN bool tk_look(TIDE_S s, bool far) {
  volatile tide_u *word = (volatile tide_u *)s[5];
#if __CUDA_ARCH__ >= 700
  tide_u number;
  asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(number) : "l"(word));
#else
  tide_u number = word[0];
#endif
  if (far) {
    const volatile tide_u *host = (const volatile tide_u *)word[2];
    const tide_u last = host[0];
    if (last > number) word[1] = host[1], word[0] = number = last;
  }
  return number >= (tide_u)s[6];
}
TIDE_COLD void tk_stopped(TIDE_S s, int site) {
  const tide_i ms = ((const volatile tide_i *)s[5])[1];
  if (ms && !*(const volatile unsigned *)s[3]) tk_report(s, site, ms, 0, TIDE_STOPPED);
}
TIDE_COLD bool tk_look_again(TIDE_S s, unsigned looks) { return tk_look(s, looks % 64 == 0); }
#define tk_stops(s) tk_look_again(s, ++tk_looks)
#define TIDE_LATE(blocks, every, one) \
  if ((tide_u)gridDim.x * gridDim.y * gridDim.z > blocks && \
      tk_look(s, one && ((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) % every == 0)) { \
    if (threadIdx.x == 0) tk_stopped(s, 0); \
    return; \
  }

//@ host_stops
#define TIDE_ROUNDS 16384
TIDE_COLD bool tk_stops(TIDE_S) { return tide_hook->stops(tide_hook->self); }
TIDE_COLD void tk_stopped(TIDE_S s, int site) { tk_report(s, site, 0, 0, TIDE_STOPPED); }

//@ stops
#define TIDE_STOPS(site, rounds) \
  if (TIDE_RARELY((tk_left -= (int)(rounds)) < 0)) { \
    if (tk_stops(s)) return tk_stopped(s, site); \
    tk_left = TIDE_ROUNDS; \
  }
