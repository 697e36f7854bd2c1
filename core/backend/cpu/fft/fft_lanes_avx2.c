/* fft_lanes_avx2.c: the lanes of Fourier transforms for AVX2 and FMA.
 *
 * The template does the work; fft_plan.c takes this table only on processors that have the instructions. */
#if defined(__x86_64__)
#  define TIDE_ISA_AVX2
#  include "backend/cpu/vector.h"

#  include "fft_lanes_isa.h"

#  define T                 float
#  define N                 8
#  define F(name)           name##_f32
#  define EXCHANGES         FOURS EXCHANGE(4)
#  define FUSE(a, b, c)     (F(vector)) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#  define FUSE_NEG(a, b, c) (F(vector)) _mm256_fnmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#  include "fft_lanes_template.h"
#  define T                 double
#  define N                 4
#  define F(name)           name##_f64
#  define EXCHANGES         EXCHANGE(1) EXCHANGE(2)
#  define FUSE(a, b, c)     (F(vector)) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#  define FUSE_NEG(a, b, c) (F(vector)) _mm256_fnmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#  include "fft_lanes_template.h"

#  define NAME_f32(name) name##_f32
#  define NAME_f64(name) name##_f64
const tide__fft_lanes tide__fft_lanes_avx2[2] = {LANES_TABLE(NAME_f32), LANES_TABLE(NAME_f64)};

#  if defined(__clang__) && defined(TIDE_TARGET)
#    pragma clang attribute pop
#  endif
#else
typedef int tide__no_fft_lanes_avx2;
#endif
