/* reduce_ops.cuh: what is accumulated: one policy for each kind of reduction.
 *
 * A policy P has P::V, the type of a loaded value; P::load(stored), from memory to V; P::Lane, what a thread
 * accumulates in one chain, with push(v, step); P::Local, what the chains of one block are merged as, by merge(a, b);
 * P::gather(lane, count, first, pitch): a lane that took `count` values, the one of step s at position first + s *
 * pitch of the block's part, as a Local; P::Acc, a Local whose positions count in the whole reduction, by widen(local,
 * base); and P::finish(acc, args), the result. Steps and local positions have 32 bits, which keeps the loops and merges
 * short.
 *
 * Invariant: merge does not depend on how the work was divided, except for the rounding of sums, and the division
 * depends only on the shapes; so equal calls give equal bits. */
#pragma once

#include <math_constants.h>

#include "loops/opmath.cuh"

namespace tidek {

#define TIDEK_IN static __device__ __forceinline__

/* What finishing needs of the arguments. */
struct Finish {
  double param, scale;
  int64_t inner;
  int32_t index_base, mode;
};

template <class T> TIDEK_IN T scaled(T x, double scale) {
  if constexpr (is_complex<T>::value)
    return scale == 1 ? x : T((decltype(T::re))(x.re * scale), (decltype(T::re))(x.im * scale));
  else if constexpr (std::is_integral_v<T>)
    return scale == 1 ? x : (T)((double)x * scale);
  else
    return scale == 1 ? x : (T)((double)x * scale);
}

template <class T> TIDEK_IN bool is_nan(T x) {
  if constexpr (is_complex<T>::value)
    return x.re != x.re || x.im != x.im;
  else
    return x != x;
}

/* Most policies accumulate plainly: a lane is an Acc, and positions do not matter. */
template <class P, class T> struct Plain {
  using V = T;
  struct Lane {
    T acc;
    __device__ __forceinline__ Lane() : acc(P::init()) {}
    __device__ __forceinline__ void push(T v, uint32_t) { acc = P::add(acc, v); }
  };
  using Local = T;
  using Acc = T;
  template <class S> TIDEK_IN T load(S s) { return cast<T>(s); }
  TIDEK_IN Local none() { return P::init(); }
  TIDEK_IN Local gather(const Lane &l, uint32_t, uint32_t, uint32_t) { return l.acc; }
  TIDEK_IN Acc widen(const Local &l, int64_t) { return l; }
  TIDEK_IN Acc none_wide() { return P::init(); }
  TIDEK_IN Acc merge(const Acc &a, const Acc &b) { return P::add(a, b); }
  TIDEK_IN T finish(const Acc &a, const Finish &f) { return scaled(a, f.scale); }
};

template <class T> struct Sum : Plain<Sum<T>, T> {
  TIDEK_IN T init() { return (T)0; }
  TIDEK_IN T add(T a, T b) { return a + b; }
};

/* NaNs become zeros as they are loaded. */
template <class T> struct NanSum : Plain<NanSum<T>, T> {
  TIDEK_IN T init() { return (T)0; }
  TIDEK_IN T add(T a, T b) { return a + b; }
  template <class S> TIDEK_IN T load(S s) {
    T v = cast<T>(s);
    return is_nan(v) ? (T)0 : v;
  }
};

template <class T> struct Prod : Plain<Prod<T>, T> {
  TIDEK_IN T init() { return (T)1; }
  TIDEK_IN T add(T a, T b) { return a * b; }
  TIDEK_IN T finish(const T &a, const Finish &) { return a; }
};

template <class T> TIDEK_IN T lowest() {
  if constexpr (std::is_integral_v<T>)
    return INT64_MIN;
  else
    return (T)-CUDART_INF;
}
template <class T> TIDEK_IN T highest() {
  if constexpr (std::is_integral_v<T>)
    return INT64_MAX;
  else
    return (T)CUDART_INF;
}

/* NaN wins. */
template <class T, bool MAX> struct Extreme : Plain<Extreme<T, MAX>, T> {
  TIDEK_IN T init() { return MAX ? lowest<T>() : highest<T>(); }
  TIDEK_IN T add(T a, T b) { return MAX ? tide_max(a, b) : tide_min(a, b); }
  TIDEK_IN T finish(const T &a, const Finish &) { return a; }
};

/* The extreme and where it stands first. A lane notes the step only, which costs two comparisons and two selections for
 * each value; a lane that only ever saw its initial value stands at its step 0, which is right. */
template <class T, bool MAX> struct Where {
  using V = T;
  struct Lane {
    T v;
    uint32_t step;
    __device__ __forceinline__ Lane() : v(MAX ? lowest<T>() : highest<T>()), step(0) {}
    __device__ __forceinline__ void push(T x, uint32_t s) {
      bool better = MAX ? !(x <= v) : !(x >= v);
      if (better && v == v) v = x, step = s;
    }
  };
  template <class I> struct Found {
    T v;
    I at;
  };
  using Local = Found<uint32_t>;
  using Acc = Found<int64_t>;
  template <class S> TIDEK_IN T load(S s) { return cast<T>(s); }
  TIDEK_IN Local none() { return {MAX ? lowest<T>() : highest<T>(), UINT32_MAX}; }
  TIDEK_IN Acc none_wide() { return {MAX ? lowest<T>() : highest<T>(), INT64_MAX}; }
  TIDEK_IN Local gather(const Lane &l, uint32_t count, uint32_t first, uint32_t pitch) {
    return {l.v, count ? first + l.step * pitch : UINT32_MAX};
  }
  TIDEK_IN Acc widen(const Local &l, int64_t base) { return {l.v, l.at == UINT32_MAX ? INT64_MAX : base + l.at}; }
  template <class I> TIDEK_IN Found<I> merge(const Found<I> &a, const Found<I> &b) {
    bool an = a.v != a.v, bn = b.v != b.v;
    bool tie = an || bn ? an && bn : a.v == b.v;
    bool b_wins = tie ? b.at < a.at : bn || (!an && (MAX ? b.v > a.v : b.v < a.v));
    return b_wins ? b : a;
  }
  TIDEK_IN T finish(const Acc &a, const Finish &) { return a.v; }
};

/* Tests: the value is whether the element is not zero. */
template <bool ALL> struct Test : Plain<Test<ALL>, int> {
  template <class S> TIDEK_IN int load(S s) { return cast<Bool>(s).v; }
  TIDEK_IN int init() { return ALL; }
  TIDEK_IN int add(int a, int b) { return ALL ? a & b : a | b; }
  TIDEK_IN int finish(const int &a, const Finish &) { return a; }
};

struct Count : Plain<Count, int64_t> {
  template <class S> TIDEK_IN int64_t load(S s) { return cast<Bool>(s).v; }
  TIDEK_IN int64_t init() { return 0; }
  TIDEK_IN int64_t add(int64_t a, int64_t b) { return a + b; }
  TIDEK_IN int64_t finish(const int64_t &a, const Finish &) { return a; }
};

/* Norms work on absolute values. */
template <class T, class S> TIDEK_IN T magnitude(S s) {
  auto x = plain(s);
  if constexpr (is_complex<decltype(x)>::value)
    return hypot((T)x.re, (T)x.im);
  else
    return tide_abs(cast<T>(s));
}

template <class T> struct Norm2 : Plain<Norm2<T>, T> {
  template <class S> TIDEK_IN T load(S s) {
    T v = magnitude<T>(s);
    return v * v;
  }
  TIDEK_IN T init() { return (T)0; }
  TIDEK_IN T add(T a, T b) { return a + b; }
  TIDEK_IN T finish(const T &a, const Finish &f) { return scaled((T)sqrt(a), f.scale); }
};

template <class T> struct Norm1 : Plain<Norm1<T>, T> {
  template <class S> TIDEK_IN T load(S s) { return magnitude<T>(s); }
  TIDEK_IN T init() { return (T)0; }
  TIDEK_IN T add(T a, T b) { return a + b; }
};

template <class T> struct Norm0 : Plain<Norm0<T>, T> {
  template <class S> TIDEK_IN T load(S s) { return (T)cast<Bool>(s).v; }
  TIDEK_IN T init() { return (T)0; }
  TIDEK_IN T add(T a, T b) { return a + b; }
};

template <class T, bool MAX> struct NormExtreme : Plain<NormExtreme<T, MAX>, T> {
  template <class S> TIDEK_IN T load(S s) { return magnitude<T>(s); }
  TIDEK_IN T init() { return MAX ? (T)0 : (T)CUDART_INF; }
  TIDEK_IN T add(T a, T b) { return MAX ? tide_max(a, b) : tide_min(a, b); }
};

/* Any p. The power is taken by the lane, which knows no p: it is a constant of the kernel, set by the loader. */
template <class T> struct NormP : Plain<NormP<T>, T> {
  template <class S> TIDEK_IN T load(S s, const Finish &f) { return pow(magnitude<T>(s), (T)f.param); }
  TIDEK_IN T init() { return (T)0; }
  TIDEK_IN T add(T a, T b) { return a + b; }
  TIDEK_IN T finish(const T &a, const Finish &f) { return scaled(pow(a, (T)(1 / f.param)), f.scale); }
};

/* B. Welford, Technometrics 4, 1962; merged as by T. Chan, G. Golub, R. LeVeque, 1979. mode 1: the standard
 * deviation. */
template <class T> struct Var {
  using V = T;
  struct Lane {
    T mean, m2;
    __device__ __forceinline__ Lane() : mean(0), m2(0) {}
    __device__ __forceinline__ void push(T v, uint32_t step) {
      T delta = v - mean;
      mean += delta * ((T)1 / (T)(step + 1));
      m2 += delta * (v - mean);
    }
  };
  struct Acc { /* n is a weight: 24 bits of it are enough */
    T n, mean, m2;
  };
  using Local = Acc;
  template <class S> TIDEK_IN T load(S s) { return cast<T>(s); }
  TIDEK_IN Local none() { return {0, 0, 0}; }
  TIDEK_IN Acc none_wide() { return {0, 0, 0}; }
  TIDEK_IN Local gather(const Lane &l, uint32_t count, uint32_t, uint32_t) { return {(T)count, l.mean, l.m2}; }
  TIDEK_IN Acc widen(const Local &l, int64_t) { return l; }
  TIDEK_IN Acc merge(const Acc &a, const Acc &b) {
    if (b.n == 0) return a;
    if (a.n == 0) return b;
    const T delta = b.mean - a.mean, n = a.n + b.n, share = a.n == b.n ? (T)0.5 : b.n / n;
    return {n, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.n * share};
  }
  TIDEK_IN T finish(const Acc &a, const Finish &f) {
    double divisor = (double)f.inner - f.param;
    T var = (T)((double)a.m2 / (divisor > 0 ? divisor : 0));
    return f.mode ? (T)sqrt(var) : var;
  }
};

/* Two numbers are known of some elements: F has the functions of one reduction of pairs.h. */
template <class F, class T> struct Pair {
  using V = T;
  struct Acc {
    T first, second;
  };
  struct Lane {
    Acc acc;
    __device__ __forceinline__ Lane() : acc(none()) {}
    __device__ __forceinline__ void push(T v, uint32_t) {
      Acc one;
      F::of(&one.first, &one.second, v);
      F::join(&acc.first, &acc.second, one.first, one.second);
    }
  };
  using Local = Acc;
  template <class S> TIDEK_IN T load(S s) { return cast<T>(s); }
  TIDEK_IN Acc none() {
    Acc acc;
    F::none(&acc.first, &acc.second);
    return acc;
  }
  TIDEK_IN Acc none_wide() { return none(); }
  TIDEK_IN Local gather(const Lane &l, uint32_t, uint32_t, uint32_t) { return l.acc; }
  TIDEK_IN Acc widen(const Local &l, int64_t) { return l; }
  TIDEK_IN Acc merge(Acc a, const Acc &b) {
    F::join(&a.first, &a.second, b.first, b.second);
    return a;
  }
  TIDEK_IN T finish(const Acc &a, const Finish &) { return F::end(a.first, a.second); }
};

/* The policies whose load wants the arguments. */
template <class P> struct wants_finish : std::false_type {};
template <class T> struct wants_finish<NormP<T>> : std::true_type {};
template <class P, class S> TIDEK_IN typename P::V load_value(S s, const Finish &f) {
  if constexpr (wants_finish<P>::value)
    return P::load(s, f);
  else
    return P::load(s);
}

/* Where a warp can be merged by a few instructions of its own: quick_warp<P, A>::merge. */
template <class P, class A> struct quick_warp : std::false_type {};

/* A float as an unsigned number of the same order, zeros being equal and NaN the largest. */
TIDEK_IN uint32_t ordered(float v) {
  uint32_t bits = __float_as_uint(v + 0.0f);
  return v != v ? UINT32_MAX : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The best value of the warp first, then the lowest position of those that have it. */
template <bool MAX> struct quick_warp<Where<float, MAX>, typename Where<float, MAX>::Local> : std::true_type {
  using Local = typename Where<float, MAX>::Local;
  TIDEK_IN Local merge(Local a) {
#if __CUDA_ARCH__ >= 800
    uint32_t key = ordered(MAX || a.v != a.v ? a.v : -a.v), best = __reduce_max_sync(0xffffffff, key);
    uint32_t at = __reduce_min_sync(0xffffffff, key == best ? a.at : UINT32_MAX);
    uint32_t from = __ffs(__ballot_sync(0xffffffff, key == best && a.at == at)) - 1;
    return {__shfl_sync(0xffffffff, a.v, from), at};
#else
    return a;
#endif
  }
};

/* The second result: an index, or the mean. */
template <class P> struct second_of { static constexpr bool any = false; };
template <class T, bool MAX> struct second_of<Where<T, MAX>> {
  static constexpr bool any = true;
  TIDEK_IN int64_t get(const typename Where<T, MAX>::Acc &a, const Finish &f) { return a.at + f.index_base; }
};
template <class T> struct second_of<Var<T>> {
  static constexpr bool any = true;
  /* where an infinity comes in decides what the running mean is, so that it is none */
  TIDEK_IN T get(const typename Var<T>::Acc &a, const Finish &) { return a.m2 == a.m2 ? a.mean : a.m2; }
};

} // namespace tidek
