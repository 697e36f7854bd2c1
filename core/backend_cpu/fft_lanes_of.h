/* fft_lanes_of.h: Fourier transforms by Eigen's port of kissfft, several lines at once; C++, for one instruction set.
 *
 * Eigen's butterflies are templates over the scalar. Ours is a small vector, each of whose lanes belongs to another
 * line: every multiplication is then one vector instruction, for any length, and no data is shuffled between lanes. All
 * of it lives in an unnamed namespace with C entries in a table (fft_lanes.h), so no C++ name leaves the file that
 * includes this one; the C++ library is linked statically and hidden. Eigen's headers are under the MPL 2: closed
 * programs may hold them that say where their source is to be had.
 *
 * Invariant: no exception leaves: only making plans allocates, and that is caught. */
#include <complex>
#include <new>

#define EIGEN_MPL2_ONLY
#define EIGEN_DONT_VECTORIZE
#include <unsupported/Eigen/FFT>

#include "fft_lanes.h"

namespace {

template <typename T, int N> struct lanes {
  typedef T vector __attribute__((vector_size(N * sizeof(T)), aligned(N * sizeof(T) < 16 ? N * sizeof(T) : 16)));
  vector v;
  lanes() : v{} {}
  lanes(double x) : v(static_cast<T>(x) - vector{}) {}
  explicit lanes(const vector &x) : v(x) {}
  lanes &operator+=(const lanes &o) { return v += o.v, *this; }
  lanes &operator-=(const lanes &o) { return v -= o.v, *this; }
  lanes &operator*=(const lanes &o) { return v *= o.v, *this; }
  lanes operator-() const { return lanes(-v); }
};
template <typename T, int N> inline lanes<T, N> operator+(lanes<T, N> a, const lanes<T, N> &b) { return a += b; }
template <typename T, int N> inline lanes<T, N> operator-(lanes<T, N> a, const lanes<T, N> &b) { return a -= b; }
template <typename T, int N> inline lanes<T, N> operator*(lanes<T, N> a, const lanes<T, N> &b) { return a *= b; }
template <typename T, int N> inline lanes<T, N> operator*(lanes<T, N> a, int b) { return a *= lanes<T, N>(b); }

template <typename T, int N> struct transform {
  typedef lanes<T, N> real;
  typedef std::complex<real> element;
  typedef Eigen::internal::kiss_cpx_fft<real> plan;

  /* As Eigen's own, which grows vectors of int by a template that is local to no file. */
  static void factorize(plan *p, int n) {
    int radix[32], left[32], stages = 0, largest = 0;
    for (int f = 4; n > 1; stages++) {
      while (n % f) f = f == 4 ? 2 : f == 2 ? 3 : f + 2;
      n /= f;
      radix[stages] = f, left[stages] = n;
      if (f > largest) largest = f;
    }
    p->m_stageRadix.resize(static_cast<size_t>(stages));
    p->m_stageRemainder.resize(static_cast<size_t>(stages));
    for (int i = 0; i < stages; i++) {
      p->m_stageRadix[static_cast<size_t>(i)] = radix[i];
      p->m_stageRemainder[static_cast<size_t>(i)] = left[i];
    }
    if (largest > 5) p->m_scratchBuf.resize(static_cast<size_t>(largest));
  }

  static void *plan_new(int n) {
    try {
      plan *p = new plan;
      try {
        p->make_twiddles(n, false);
        factorize(p, n);
        return p;
      } catch (...) { delete p; }
    } catch (...) {}
    return nullptr;
  }
  static void *plan_copy(const void *p) {
    try {
      return new plan(*static_cast<const plan *>(p));
    } catch (...) { return nullptr; }
  }
  static void plan_free(void *p) { delete static_cast<plan *>(p); }
  static void run(void *p, void *out, const void *in) {
    static_cast<plan *>(p)->work(0, static_cast<element *>(out), static_cast<const element *>(in), 1, 1);
  }

  /* Do the lanes lie side by side as complex numbers do? Constant distances become vector loads. */
  static bool together(const int64_t *at) {
    bool yes = true;
    for (int l = 1; l < N; l++) yes = yes && at[l] == at[0] + 2 * l;
    return yes;
  }
  /* Are the parts of an element neighbours, in either order? */
  static bool adjacent(tide__fft_access a) { return a.re + a.im == 1 && a.re >= 0 && a.im >= 0; }

  /* Rows of N numbers become columns. */
  typedef T loose __attribute__((vector_size(N * sizeof(T)), aligned(sizeof(T)), may_alias));
  static void transpose(loose *r) {
    if constexpr (N == 4) {
      loose a = __builtin_shufflevector(r[0], r[1], 0, 4, 2, 6), b = __builtin_shufflevector(r[0], r[1], 1, 5, 3, 7);
      loose c = __builtin_shufflevector(r[2], r[3], 0, 4, 2, 6), d = __builtin_shufflevector(r[2], r[3], 1, 5, 3, 7);
      r[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5), r[1] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
      r[2] = __builtin_shufflevector(a, c, 2, 3, 6, 7), r[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
    } else if constexpr (N == 8) {
      loose pair[8], four[8];
      for (int i = 0; i < 8; i += 2) {
        pair[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        pair[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
      }
      for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
          four[i + 2 * j] = __builtin_shufflevector(pair[i + j], pair[i + 2 + j], 0, 1, 8, 9, 4, 5, 12, 13);
          four[i + 2 * j + 1] = __builtin_shufflevector(pair[i + j], pair[i + 2 + j], 2, 3, 10, 11, 6, 7, 14, 15);
        }
      for (int i = 0; i < 4; i++) {
        r[i] = __builtin_shufflevector(four[i], four[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = __builtin_shufflevector(four[i], four[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
      }
    }
  }
  /* Lines that lie along memory: as many whole elements of each as make N numbers at once; returns how many are done.
   */
  static int64_t load_along(T *b, const T *x, const int64_t *at, bool swapped, int64_t n) {
    int64_t k = 0;
    for (; k + N / 2 <= n; k += N / 2, x += N, b += N * N) {
      loose r[N];
      for (int l = 0; l < N; l++) r[l] = *reinterpret_cast<const loose *>(x + at[l]);
      transpose(r);
      for (int i = 0; i < N; i++) *reinterpret_cast<loose *>(b + (swapped ? i ^ 1 : i) * N) = r[i];
    }
    return k;
  }
  static int64_t store_along(T *y, const T *b, const int64_t *at, bool swapped, int64_t n, T factor) {
    int64_t k = 0;
    for (; k + N / 2 <= n; k += N / 2, y += N, b += N * N) {
      loose r[N];
      for (int i = 0; i < N; i++) r[i] = *reinterpret_cast<const loose *>(b + (swapped ? i ^ 1 : i) * N) * factor;
      transpose(r);
      for (int l = 0; l < N; l++) *reinterpret_cast<loose *>(y + at[l]) = r[l];
    }
    return k;
  }

  static void load(void *buffer, const void *in, const int64_t *at, tide__fft_access a, int64_t n) {
    T *b = static_cast<T *>(buffer);
    const T *x = static_cast<const T *>(in);
    int first = a.re == 0 ? 0 : N, second = N - first; /* where an element's first number goes */
    if (adjacent(a) && together(at)) {
      x += at[0];
      for (int64_t k = 0; k < n; k++, b += 2 * N, x += a.step)
        for (int l = 0; l < N; l++) b[first + l] = x[2 * l], b[second + l] = x[2 * l + 1];
    } else if (adjacent(a)) {
      int64_t done = N > 1 && a.step == 2 ? load_along(b, x, at, first != 0, n) : 0;
      b += 2 * N * done, x += 2 * done;
      for (int64_t k = done; k < n; k++, b += 2 * N, x += a.step)
        for (int l = 0; l < N; l++) b[first + l] = x[at[l]], b[second + l] = x[at[l] + 1];
    } else {
      for (int64_t k = 0; k < n; k++, b += 2 * N, x += a.step)
        for (int l = 0; l < N; l++) b[l] = x[at[l] + a.re], b[N + l] = a.im < 0 ? T(0) : x[at[l] + a.im];
    }
  }
  static void store(void *out, const void *buffer, const int64_t *at, tide__fft_access a, int64_t n, double scale,
                    int used) {
    const T *b = static_cast<const T *>(buffer);
    T *y = static_cast<T *>(out), factor = static_cast<T>(scale);
    int first = a.re == 0 ? 0 : N, second = N - first;
    if (adjacent(a) && used == N && together(at)) {
      y += at[0];
      for (int64_t k = 0; k < n; k++, b += 2 * N, y += a.step)
        for (int l = 0; l < N; l++) y[2 * l] = b[first + l] * factor, y[2 * l + 1] = b[second + l] * factor;
    } else if (adjacent(a)) {
      int64_t done = N > 1 && a.step == 2 && used == N ? store_along(y, b, at, first != 0, n, factor) : 0;
      b += 2 * N * done, y += 2 * done;
      for (int64_t k = done; k < n; k++, b += 2 * N, y += a.step)
        for (int l = 0; l < used; l++) y[at[l]] = b[first + l] * factor, y[at[l] + 1] = b[second + l] * factor;
    } else {
      for (int64_t k = 0; k < n; k++, b += 2 * N, y += a.step)
        for (int l = 0; l < used; l++) {
          y[at[l] + a.re] = b[l] * factor;
          if (a.im >= 0) y[at[l] + a.im] = b[N + l] * factor;
        }
    }
  }

  static element constant(const double *w) { return element(real(w[0]), real(w[1])); }
  static void multiply(void *buffer, const double *w, int64_t n, bool conj) {
    element *x = static_cast<element *>(buffer);
    const real sign(conj ? -1 : 1);
    for (int64_t k = 0; k < n; k++) x[k] = element(x[k].real(), x[k].imag() * sign) * constant(w + 2 * k);
  }
  static void clear(void *buffer, int64_t from, int64_t n) {
    element *x = static_cast<element *>(buffer);
    for (int64_t k = from; k < n; k++) x[k] = element();
  }
  static void twiddle(void *buffer, const void *spread, const double *w, int64_t n) {
    element *x = static_cast<element *>(buffer);
    const element *s = static_cast<const element *>(spread);
    for (int64_t k = 0; k < n; k++) x[k] *= s[k] * constant(w + 2 * k);
  }
  static void spread(void *buffer, const double *w, int64_t n) {
    T *b = static_cast<T *>(buffer);
    for (int64_t k = 0; k < n; k++, b += 2 * N)
      for (int l = 0; l < N; l++)
        b[l] = static_cast<T>(w[2 * (k * N + l)]), b[N + l] = static_cast<T>(w[2 * (k * N + l) + 1]);
  }

  static void unzip(void *out, const void *z, const double *w, int64_t h) {
    const element *x = static_cast<const element *>(z);
    element *y = static_cast<element *>(out);
    for (int64_t k = 0; k <= h; k++) {
      const element a = x[k == h ? 0 : k], c = x[k == 0 ? 0 : h - k], b(c.real(), -c.imag());
      element even = a + b, odd = (a - b) * constant(w + 2 * k);
      /* odd times -i */
      y[k] = element((even.real() + odd.imag()) * real(0.5), (even.imag() - odd.real()) * real(0.5));
    }
  }
  static void zip(void *out, const void *in, const double *w, int64_t h) {
    const element *x = static_cast<const element *>(in);
    element *z = static_cast<element *>(out);
    for (int64_t k = 0; k < h; k++) {
      element a = x[k], c = x[h - k];
      if (k == 0) a = element(a.real(), real(0)), c = element(c.real(), real(0));
      const element b(c.real(), -c.imag()), turn(real(w[2 * k]), real(-w[2 * k + 1]));
      element even = a + b, odd = (a - b) * turn; /* z = even + i odd */
      z[k] = element(even.imag() + odd.real(), even.real() - odd.imag());
    }
  }
  static void mirror(void *buffer, int64_t n) {
    element *x = static_cast<element *>(buffer);
    x[0] = element(x[0].real(), real(0));
    for (int64_t k = 1; k <= n / 2; k++) {
      x[n - k] = x[k];
      x[k] = element(x[k].real(), -x[k].imag());
    }
  }
  static void product(void *out, tide__fft_access to, const void *in, tide__fft_access from, const double *w, int64_t n,
                      bool conj, double scale) {
    const T *x = static_cast<const T *>(in);
    T *y = static_cast<T *>(out);
    for (int64_t k = 0; k < n; k++) {
      double re = x[k * from.step + from.re], im = from.im < 0 ? 0 : static_cast<double>(x[k * from.step + from.im]);
      double a = w ? w[2 * k] : 1, b = w ? w[2 * k + 1] : 0;
      if (conj) im = -im;
      y[k * to.step + to.re] = static_cast<T>((re * a - im * b) * scale);
      if (to.im >= 0) y[k * to.step + to.im] = static_cast<T>((re * b + im * a) * scale);
    }
  }
};

typedef transform<float, 8> narrow;
typedef transform<double, 4> wide;
typedef transform<float, 1> single;
typedef transform<double, 1> single_wide;

} // namespace

#define TABLE(type, one, lanes_, item_)                                                                                \
  {                                                                                                                    \
    lanes_, item_, type::plan_new, type::plan_copy, type::plan_free, type::run, type::load, type::store,               \
        type::multiply, type::clear, type::twiddle, type::spread, type::unzip, type::zip, type::mirror, one::unzip,    \
        one::zip, type::product                                                                                        \
  }
