/* fft_lanes_avx512.c: the lanes of Fourier transforms for AVX-512.
 *
 * The template does the work; fft_plan.c takes this table only on processors that have the instructions. */
#if defined(__x86_64__)
#  define TIDE_ISA_AVX512
#  include "backend/cpu/vector.h"

#  include "fft_lanes_isa.h"

#  define T                 float
#  define N                 16
#  define F(name)           name##_f32
#  define EXCHANGES         FOURS EXCHANGE(4) EXCHANGE(8)
#  define FUSE(a, b, c)     (F(vector)) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#  define FUSE_NEG(a, b, c) (F(vector)) _mm512_fnmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#  include "fft_lanes_template.h"
#  define T                 double
#  define N                 8
#  define F(name)           name##_f64
#  define EXCHANGES         EXCHANGE(1) EXCHANGE(2) EXCHANGE(4)
#  define FUSE(a, b, c)     (F(vector)) _mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#  define FUSE_NEG(a, b, c) (F(vector)) _mm512_fnmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#  include "fft_lanes_template.h"

#  define NAME_f32(name) name##_f32
#  define NAME_f64(name) name##_f64
const tide__fft_lanes tide__fft_lanes_avx512[2] = {LANES_TABLE(NAME_f32), LANES_TABLE(NAME_f64)};

#  if defined(__clang__) && defined(TIDE_TARGET)
#    pragma clang attribute pop
#  endif
#else
typedef int tide__no_fft_lanes_avx512;
#endif
