/* fft_lanes_template.h: template of the arithmetic of Fourier transforms, several lines at once, for one instruction
 * set and one kind of float.
 *
 * A file fft_lanes_*.c includes vector.h, then this for float32 and for float64, with T (the float), N (lanes), F(name)
 * (a name of this kind of float), EXCHANGES (see fft_lanes_isa.h), FUSE(a, b, c) (a * b + c) and FUSE_NEG (c - a * b).
 * Each lane of a vector belongs to another line: every multiplication is then one vector instruction, for any length,
 * and data are shuffled between lanes only where lines lie along memory, and where the parts of numbers are told
 * apart. */
#define V F(vector)
#define L F(loose)
typedef T V __attribute__((vector_size(N * sizeof(T)), may_alias));
typedef T L __attribute__((vector_size(N * sizeof(T)), aligned(sizeof(T)), may_alias));

#include "fft_stage_template.h"

/* ---- lines in memory ---- */

/* Do the lanes lie side by side as complex numbers do? */
static bool F(together)(const int64_t *at) {
  bool yes = true;
  for (int l = 1; l < N; l++) yes = yes && at[l] == at[0] + 2 * l;
  return yes;
}
/* Are the parts of an element neighbours, in either order? */
static bool F(adjacent)(tide__fft_access a) { return a.re + a.im == 1 && a.re >= 0 && a.im >= 0; }

/* Rows of N numbers become columns. */
INLINE void F(transpose)(V *r) { EXCHANGES }

/* Lines that lie along memory: as many whole elements of each as make N numbers at once; returns how many are done. */
static int64_t F(load_along)(T *b, const T *x, const int64_t *at, bool swapped, int64_t n) {
  int64_t k = 0;
  for (; k + N / 2 <= n; k += N / 2, x += N, b += N * N) {
    V r[N];
    UNROLL
    for (int l = 0; l < N; l++) r[l] = (V) * (const L *)(x + at[l]);
    F(transpose)(r);
    UNROLL
    for (int i = 0; i < N; i++) *(V *)(b + (swapped ? i ^ 1 : i) * N) = r[i];
  }
  return k;
}
static int64_t F(store_along)(T *y, const T *b, const int64_t *at, bool swapped, int64_t n, T factor) {
  int64_t k = 0;
  for (; k + N / 2 <= n; k += N / 2, y += N, b += N * N) {
    V r[N];
    UNROLL
    for (int i = 0; i < N; i++) r[i] = *(const V *)(b + (swapped ? i ^ 1 : i) * N) * factor;
    F(transpose)(r);
    UNROLL
    for (int l = 0; l < N; l++) *(L *)(y + at[l]) = (L)r[l];
  }
  return k;
}

static void F(load)(void *buffer, const void *in, const int64_t *at, tide__fft_access a, int64_t n) {
  T *b = buffer;
  const T *x = in;
  const int first = a.re == 0 ? 0 : N, second = N - first; /* where an element's first number goes */
  if (F(adjacent)(a) && F(together)(at)) {
    x += at[0];
    for (int64_t k = 0; k < n; k++, b += 2 * N, x += a.step) {
      V u = (V) * (const L *)x, v = (V) * (const L *)(x + N);
      *(V *)(b + first) = EVEN(u, v), *(V *)(b + second) = ODD(u, v);
    }
  } else if (F(adjacent)(a)) {
    int64_t done = a.step == 2 ? F(load_along)(b, x, at, first != 0, n) : 0;
    b += 2 * N * done, x += 2 * done;
    for (int64_t k = done; k < n; k++, b += 2 * N, x += a.step)
      for (int l = 0; l < N; l++) b[first + l] = x[at[l]], b[second + l] = x[at[l] + 1];
  } else {
    for (int64_t k = 0; k < n; k++, b += 2 * N, x += a.step)
      for (int l = 0; l < N; l++) b[l] = x[at[l] + a.re], b[N + l] = a.im < 0 ? (T)0 : x[at[l] + a.im];
  }
}

static void F(store)(void *out, const void *buffer, const int64_t *at, tide__fft_access a, int64_t n, double scale,
                     int used) {
  const T *b = buffer;
  T *y = out;
  const T factor = (T)scale;
  const int first = a.re == 0 ? 0 : N, second = N - first;
  if (F(adjacent)(a) && used == N && F(together)(at)) {
    y += at[0];
    for (int64_t k = 0; k < n; k++, b += 2 * N, y += a.step) {
      V u = *(const V *)(b + first) * factor, v = *(const V *)(b + second) * factor;
      *(L *)y = (L)LOW(u, v), *(L *)(y + N) = (L)HIGH(u, v);
    }
  } else if (F(adjacent)(a)) {
    int64_t done = a.step == 2 && used == N ? F(store_along)(y, b, at, first != 0, n, factor) : 0;
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

/* ---- between the stages ---- */

static void F(multiply)(void *buffer, const double *w, int64_t n, bool conj) {
  element *x = buffer;
  const T sign = conj ? -1 : 1;
  for (int64_t k = 0; k < n; k++)
    x[k] = F(times)((element){x[k].re, x[k].im * sign}, F(all)((T)w[2 * k]), F(all)((T)w[2 * k + 1]));
}
static void F(clear)(void *buffer, int64_t from, int64_t n) {
  memset((element *)buffer + from, 0, (size_t)(n - from) * sizeof(element));
}
static void F(twiddle)(void *buffer, const void *spread, const double *w, int64_t n) {
  element *x = buffer;
  const element *s = spread;
  for (int64_t k = 0; k < n; k++) {
    element by = F(times)(s[k], F(all)((T)w[2 * k]), F(all)((T)w[2 * k + 1]));
    x[k] = F(times)(x[k], by.re, by.im);
  }
}
static void F(spread)(void *buffer, const double *w, int64_t n) {
  T *b = buffer;
  for (int64_t k = 0; k < n; k++, b += 2 * N)
    for (int l = 0; l < N; l++) b[l] = (T)w[2 * (k * N + l)], b[N + l] = (T)w[2 * (k * N + l) + 1];
}

/* Both for lanes, and for the one line of `single` numbers. */
typedef struct F(single) {
  T re, im;
} F(single);
#define UNZIP(name, type)                                                                                              \
  static void F(name)(void *out, const void *z, const void *w_, int64_t h, int64_t begin, int64_t end) {               \
    const T *w = w_;                                                                                                   \
    const type *x = z;                                                                                                 \
    type *y = out;                                                                                                     \
    const T half = (T)0.5;                                                                                             \
    for (int64_t k = begin; k < end; k++) {                                                                            \
      const type a = x[k == h ? 0 : k], c = x[k == 0 ? 0 : h - k]; /* conj(c) is the other one */                      \
      const T re = w[2 * k], im = w[2 * k + 1];                                                                        \
      type even = {a.re + c.re, a.im - c.im}, d = {a.re - c.re, a.im + c.im};                                          \
      type odd = {d.re * re - d.im * im, d.re * im + d.im * re};                                                       \
      y[k] = (type){(even.re + odd.im) * half, (even.im - odd.re) * half}; /* odd times -i */                          \
    }                                                                                                                  \
  }
UNZIP(unzip_part, element)
UNZIP(unzip_line, F(single))

#define ZIP(name, type)                                                                                                \
  static void F(name)(void *out, const void *in, const void *w_, int64_t h, int64_t begin, int64_t end) {              \
    const T *w = w_;                                                                                                   \
    const type *x = in;                                                                                                \
    type *z = out;                                                                                                     \
    for (int64_t k = begin; k < end; k++) {                                                                            \
      type a = x[k], c = x[h - k];                                                                                     \
      const T re = w[2 * k], im = -w[2 * k + 1];                                                                       \
      if (k == 0) a.im = c.im = (__typeof__(a.im)){0};                                                                 \
      type even = {a.re + c.re, a.im - c.im}, d = {a.re - c.re, a.im + c.im};                                          \
      type odd = {d.re * re - d.im * im, d.re * im + d.im * re};                                                       \
      z[k] = (type){even.im + odd.re, even.re - odd.im}; /* even + i odd */                                            \
    }                                                                                                                  \
  }
ZIP(zip_part, element)
ZIP(zip_line, F(single))

static void F(unzip)(void *out, const void *z, const void *w, int64_t h) { F(unzip_part)(out, z, w, h, 0, h + 1); }
static void F(zip)(void *out, const void *x, const void *w, int64_t h) { F(zip_part)(out, x, w, h, 0, h); }

#include "fft_fold_template.h"

static void F(mirror)(void *buffer, int64_t n) {
  element *x = buffer;
  x[0].im = (V){0};
  for (int64_t k = 1; k <= n / 2; k++) {
    x[n - k] = x[k];
    x[k].im = -x[k].im;
  }
}

static void F(product)(void *out, tide__fft_access to, const void *in, tide__fft_access from, const double *w,
                       int64_t n, bool conj, double scale) {
  const T *x = in;
  T *y = out;
  for (int64_t k = 0; k < n; k++) {
    double re = x[k * from.step + from.re], im = from.im < 0 ? 0 : (double)x[k * from.step + from.im];
    double a = w ? w[2 * k] : 1, b = w ? w[2 * k + 1] : 0;
    if (conj) im = -im;
    y[k * to.step + to.re] = (T)((re * a - im * b) * scale);
    if (to.im >= 0) y[k * to.step + to.im] = (T)((re * b + im * a) * scale);
  }
}

#undef element
#undef V
#undef L
#undef UNZIP
#undef ZIP
#undef EXCHANGES
#undef T
#undef N
#undef F
#undef FUSE
#undef FUSE_NEG
#undef STAGES_OF
#undef STAGE_ROW
