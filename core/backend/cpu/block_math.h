/* block_math.h: special functions of blocks of float64 at once, for vectors, where they are asked for most; what is not
 * between QUICK_LOW_<name> and QUICK_HIGH_<name> is left to the expression of op.def. float32 goes through them too,
 * but for erfinv's.
 *
 *   erfinv     erfinv(x) / x is smooth in w = -log(1 - x^2) (M. Giles, "Approximating the erfinv function", GPU
 *              Computing Gems 2, 2010); the polynomial around w = 5.75 log 2 is our own, its first terms rounded so
 *              that their errors cancel each other. It takes an error of w down to a quarter and less, so that the
 *              logarithm is the power of 2, and a polynomial of our own around 1.5, which has 0.25 log 2 more.
 *   lgamma     between 1 and 3 (x - 1) (x - 2) times a polynomial of our own around 2; below 8 the recurrence leads
 *              there, from 8 on Stirling's series 6.1.41 of Abramowitz and Stegun, "Handbook of mathematical
 *              functions" (1964). float32 below zero by the reflection 6.1.17, whose error near zeros of the result
 *              only float64 would show.
 *   digamma, polygamma of order 1: ten steps of the recurrence, and the series 6.3.18 and 6.4.12.
 *   ndtri      the same polynomial, of 2 p - 1.
 *   i0         the power series 9.6.12 over t = x^2 / 4. What rounding takes from t would cost x ulp: it is put back by
 *              the logarithm's derivative, which is near 1 / sqrt(1 + t). */
#pragma once

/* T is the type of the loop, and p0 its parameter. */
#define QUICK_LOW_erfinv     -0.9999
#define QUICK_HIGH_erfinv    0.9999
#define QUICK_LOW_lgamma     (sizeof(T) == 4 ? -1e30 : 1e-300)
#define QUICK_HIGH_lgamma    1e300
#define QUICK_LOW_digamma    1e-100
#define QUICK_HIGH_digamma   1e300
#define QUICK_LOW_polygamma  (p0 == 1 ? 1e-70 : INFINITY)
#define QUICK_HIGH_polygamma 1e100
#define QUICK_LOW_i0         -12.0
#define QUICK_HIGH_i0        12.0
#define QUICK_LOW_ndtri      0.00005
#define QUICK_HIGH_ndtri     0.99995
/* Is there a loop of this instruction set for the others? Negative numbers are often asked for. */
#define QUICK_HERE_erfinv    0
#define QUICK_HERE_lgamma    1
#define QUICK_HERE_digamma   0
#define QUICK_HERE_polygamma 0
#define QUICK_HERE_i0        0
#define QUICK_HERE_ndtri     0

/* So many blocks at once, so that a processor works on several vectors whose steps wait for each other: of fewer the
 * others are computed too. */
enum { QUICK_BLOCKS = 4, QUICK_COUNT = QUICK_BLOCKS * TIDE_BLOCK };
typedef void quick_function(double *out, const double *in);

/* Loops that are short beside what is called in them. */
#if defined(__clang__)
#  define QUICK_SMALL static __attribute__((noinline))
#  define QUICK_ONCE  static __attribute__((noinline))
#else
#  define QUICK_ONCE  static __attribute__((noinline, noclone))
#  define QUICK_SMALL static __attribute__((noinline, optimize("Os")))
#endif
#define QUICK_FIRST(n) TIDE_IVDEP _Pragma("GCC unroll 1") for (int64_t j = 0; j < (n); j++)
#define QUICK_EACH     QUICK_FIRST(QUICK_COUNT)
#define T              float
#define NAME(f)        f##_f32
#include "quick_template.h"
#define T       double
#define NAME(f) f##_f64
#include "quick_template.h"

#define QUICK(name)                                                                                                    \
  static inline double quick_one_##name(double x);                                                                     \
  static __attribute__((noinline)) void quick_##name(double *out, const double *in) {                                  \
    QUICK_EACH out[j] = quick_one_##name(in[j]);                                                                       \
  }                                                                                                                    \
  static inline double quick_one_##name(double x)

/* The polynomial of n terms, the first of them the constant one: those of even and of odd powers side by side. */
static inline __attribute__((always_inline)) double quick_polynomial(double x, const double *term, int n) {
  double even = 0, odd = 0, square = x * x;
#pragma GCC unroll 32
  for (int k = n - 1; k >= 0; k--) {
    if (k % 2)
      odd = __builtin_fma(odd, square, term[k]);
    else
      even = __builtin_fma(even, square, term[k]);
  }
  return __builtin_fma(odd, x, even);
}

static const double quick_log_terms[20] = {
    -0.23217831296817809,   -0.66666666666666607,    0.2222222222222601,     -0.098765432098935235,
    0.049382716044417546,   -0.026337448546253105,   0.014631916118598001,   -0.0083610952695503445,
    0.0048772988029799373,  -0.0028902451687103279,  0.0017342484973501679,  -0.0010511205199491935,
    0.00064142741010603439, -0.00039435025296699904, 0.00024933146993494262, -0.00015650848141406367,
    8.0071156566266922e-05, -4.7502915662237466e-05, 6.3369974613269818e-05, -4.2328673824895212e-05};
static const double quick_erfinv_terms[28] = {
    1.8554884598393224,      0.228562577093637,       -0.0072120976461860211,  -0.00021085336074275305,
    0.00011999666271871676,  -1.5556411464443231e-05, 4.6847697413230131e-07,  1.81110313810943e-07,
    -3.367353661145161e-08,  1.8073134269083339e-09,  3.0243730561438099e-10,  -7.2661135143959024e-11,
    5.1514049817387913e-12,  4.9709006417475932e-13,  -1.5671183291799362e-13, 1.3638754421649908e-14,
    7.3967147910732044e-16,  -3.3985152408219545e-16, 3.579915657124026e-17,   1.0231133557330972e-18,
    -8.0361641452393567e-19, 8.323598634232427e-20,   4.4567348174502457e-21,  -1.6514103046241253e-21,
    7.4159370185274648e-23,  1.0400672926747457e-23,  -1.0587269736861257e-24, 1.8987334176567798e-26};
static const double quick_lgamma_terms[29] = {
    0.42278433509846713,    -0.1003173016743539,     0.032965000621155816,    -0.012384192193374183,
    0.0049986411646987059,  -0.0021081308338353785,  0.0009153769221939477,   -0.00040570739983335528,
    0.00018255264018626728, -8.3095100947973982e-05, 3.8168877217049974e-05,  -1.7661849545809686e-05,
    8.2222725282493795e-06, -3.8465374565754054e-06, 1.8077244952477939e-06,  -8.5541953067520078e-07,
    4.0491176292722286e-07, -1.8624721164419038e-07, 8.8588004623147608e-08,  -5.1889381335192836e-08,
    2.4876913129422816e-08, -9.172949166290702e-10,  3.8215413984109649e-10,  -8.8771160037043708e-09,
    4.3052206107853486e-09, 2.444386936885692e-09,   -1.1901740908188623e-09, -8.1528528706249738e-10,
    3.9592899392841773e-10};
static const double quick_i0_terms[28] = {1.0,
                                          1.0,
                                          0.25,
                                          0.027777777777777776,
                                          0.001736111111111111,
                                          6.9444444444444444e-05,
                                          1.9290123456790124e-06,
                                          3.9367598891408417e-08,
                                          6.1511873267825652e-10,
                                          7.5940584281266239e-12,
                                          7.5940584281266234e-14,
                                          6.2760813455591933e-16,
                                          4.358389823304995e-18,
                                          2.5789288895295828e-20,
                                          1.3157800456783586e-22,
                                          5.8479113141260385e-25,
                                          2.2843403570804838e-27,
                                          7.904291893012054e-30,
                                          2.4395962632753253e-32,
                                          6.7578843858042255e-35,
                                          1.6894710964510564e-37,
                                          3.8310002187098785e-40,
                                          7.9152897080782617e-43,
                                          1.4962740468957016e-45,
                                          2.5976979980828152e-48,
                                          4.1563167969325042e-51,
                                          6.1483976285983796e-54,
                                          8.434015951438106e-57};

#if defined(TIDE_ISA_AVX512)
typedef __m512d quick_vector;
#  define QUICK_FUSE    _mm512_fmadd_pd
#  define QUICK_FULL    _mm512_set1_pd
#  define QUICK_LOAD(a) _mm512_loadu_pd(a)
#  define QUICK_STORE   _mm512_storeu_pd
#else
typedef __m256d quick_vector;
#  define QUICK_FUSE    _mm256_fmadd_pd
#  define QUICK_FULL    _mm256_set1_pd
#  define QUICK_LOAD(a) _mm256_loadu_pd(a)
#  define QUICK_STORE   _mm256_storeu_pd
#endif
/* As quick_polynomial, for each number of x by itself and for long ones: eight vectors take turns at every term. In a
 * loop of one vector after another the steps that wait fill what a processor looks ahead. */
QUICK_ONCE void quick_each_polynomial(double *x, const double *terms, int n) {
  enum { LANES = sizeof(quick_vector) / sizeof(double), SIDE = 8 };
  for (double *end = x + QUICK_COUNT; x < end; x += SIDE * LANES) {
    quick_vector y[SIDE];
    for (int j = 0; j < SIDE; j++) y[j] = QUICK_FULL(terms[n - 1]);
#pragma GCC unroll 1
    for (int k = n - 2; k >= 0; k--) {
      quick_vector c = QUICK_FULL(terms[k]);
#pragma GCC unroll 8
      for (int j = 0; j < SIDE; j++) y[j] = QUICK_FUSE(y[j], QUICK_LOAD(x + j * LANES), c);
    }
    for (int j = 0; j < SIDE; j++) QUICK_STORE(x + j * LANES, y[j]);
  }
}

/* factor times erfinv(x) / x, of chance = 1 - x^2. The bits of 2^52 hold an integer in their last places: the exponent,
 * which is 1023 too large. */
QUICK_ONCE void quick_inverse(double *out, const double *factor, double *chance) {
  double whole[QUICK_COUNT];
  QUICK_EACH {
    uint64_t bits, power, part;
    memcpy(&bits, &chance[j], sizeof bits);
    power = bits >> 52 | 0x4330000000000000, part = (bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000;
    memcpy(&whole[j], &power, sizeof power), memcpy(&chance[j], &part, sizeof part);
    chance[j] -= 1.5;
  }
  quick_each_polynomial(chance, quick_log_terms, 20);
  QUICK_EACH chance[j] = __builtin_fma(whole[j] - (0x1p52 + 1023 - 6), -0.69314718055994531, chance[j]);
  quick_each_polynomial(chance, quick_erfinv_terms, 28);
  QUICK_EACH out[j] = factor[j] * chance[j];
}

static void quick_erfinv(double *out, const double *in) {
  double chance[QUICK_COUNT];
  QUICK_EACH chance[j] = __builtin_fma(in[j], -in[j], 1);
  quick_inverse(out, in, chance);
}

/* Below zero: the logarithm of pi over the sine of pi x, less what `out` has of 1 - x. */
QUICK_ONCE void quick_reflect(double *out, const double *in) {
  double sine[QUICK_COUNT];
  QUICK_EACH sine[j] = in[j] < 0 ? 3.14159265358979323846 / fabs(fast_sinpi(in[j])) : 1;
  QUICK_EACH {
    double turned = log(sine[j]) - out[j];
    out[j] = in[j] < 0 ? turned : out[j];
  }
}

static void quick_lgamma(double *out, const double *given) {
  static const double stirling[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                                    1.0 / 1188, -691.0 / 360360, 1.0 / 156};
  double near[QUICK_COUNT], roots[QUICK_COUNT], logarithm[QUICK_COUNT], in[QUICK_COUNT], number[QUICK_COUNT];
  int64_t negative = 0;
  QUICK_EACH negative += given[j] < 0 ? 1 : 0, number[j] = given[j];
  QUICK_EACH in[j] = number[j] < 0 ? 1 - number[j] : number[j];
  QUICK_EACH {
    const double x = in[j];
    double z = x < 1 ? x + 1 : x, product = 1;
#pragma GCC unroll 8
    for (int k = 0; k < 5; k++) {
      double lower = z - 1;
      product = z >= 3 ? product * lower : product;
      z = z >= 3 ? lower : z;
    }
    logarithm[j] = (x < 1) | (x >= 8) ? x : product;
    roots[j] = x < 1 ? x * (x - 1) : (z - 1) * (z - 2); /* x + 1 may be rounded */
    near[j] = z - 2;
  }
  QUICK_EACH logarithm[j] = log(logarithm[j]);
  quick_each_polynomial(near, quick_lgamma_terms, 29);
  QUICK_EACH {
    const double x = in[j], u = 1 / x;
    near[j] = roots[j] * near[j] + (x < 1 ? -logarithm[j] : logarithm[j]);
    double far = (x - 0.5) * logarithm[j] - x + (0.91893853320467274178 + u * quick_polynomial(u * u, stirling, 7));
    out[j] = x < 8 ? near[j] : far;
  }
  if (negative) quick_reflect(out, number);
}

/* The sum of 1 / (x + k)^power over k < 10, two at a time. */
static inline __attribute__((always_inline)) double quick_ten(double x, int power) {
  double sum = 0;
#pragma GCC unroll 8
  for (int k = 8; k >= 0; k -= 2) {
    double a = x + k, b = x + (k + 1), product = a * b;
    sum += power == 1 ? (a + b) / product : (a * a + b * b) / (product * product);
  }
  return sum;
}

QUICK(digamma) {
  static const double series[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  double t = x < 10 ? x + 10 : x, u = 1 / t, z = u * u, sum = quick_ten(x, 1);
  return log(t) - 0.5 * u - z * quick_polynomial(z, series, 7) - (x < 10 ? sum : 0);
}

QUICK(polygamma) {
  static const double series[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                  5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
  double t = x < 10 ? x + 10 : x, u = 1 / t, z = u * u, sum = quick_ten(x, 2);
  return u + z * (0.5 + u * quick_polynomial(z, series, 8)) + (x < 10 ? sum : 0);
}

static void quick_ndtri(double *out, const double *in) {
  double factor[QUICK_COUNT], chance[QUICK_COUNT];
  QUICK_EACH factor[j] = (2 * in[j] - 1) * 1.4142135623730951, chance[j] = 4 * in[j] * (1 - in[j]);
  quick_inverse(out, factor, chance);
}

static void quick_i0(double *out, const double *in) {
  double y[QUICK_COUNT], more[QUICK_COUNT];
  QUICK_EACH {
    double half = 0.5 * in[j], t = half * half;
    y[j] = t, more[j] = __builtin_fma(half, half, -t) * (double)(1 / sqrtf((float)(1 + t)));
  }
  quick_each_polynomial(y, quick_i0_terms, 28);
  QUICK_EACH out[j] = y[j] + y[j] * more[j];
}
