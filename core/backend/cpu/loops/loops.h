/* loops.h: template of the elementwise loops of one instruction set: op.def for each compute type. Defines the
 * functions and the rows of tide__isa.op; loops_type.h is one type. */
#include "elementary.h"
#include "complex_math.h"
#include "loops_rules.h"
#include "opmath.h"
#if defined(TIDE_ISA_AVX512)
#  include "backend/cpu/simd16.h"
#endif
#if defined(TIDE_ISA_AVX512) || defined(TIDE_ISA_AVX2)
#  include "backend/cpu/block_math.h"
#  include "quotient.h"
#endif

#define LOOP_EMIT_0(...)
#define LOOP_EMIT_1(...)     __VA_ARGS__
#define LOOP_EMIT_(has, ...) LOOP_EMIT_##has(__VA_ARGS__)
#define LOOP_EMIT(has, ...)  LOOP_EMIT_(has, __VA_ARGS__)
#define LOOP_NAME_(name, S)  loop_##name##_##S
#define LOOP_NAME(name, S)   LOOP_NAME_(name, S)

/* Has this instruction set a loop of its own? K is one of I, F, C, or a macro that says which. */
#define LOOP_HAS_TYPE(K, rule, loop) LOOP_HAS(K, rule, loop)
#define LOOP_HAS(K, rule, loop)      LOOP_AND(LOOP_PICK_##K(LOOP_RULE_##rule), LOOP_MADE(loop))
#define LOOP_AND(has, made)          LOOP_AND_(has, made)
#define LOOP_AND_(has, made)         LOOP_AND_##has##_##made
#define LOOP_AND_0_0                 0
#define LOOP_AND_0_1                 0
#define LOOP_AND_1_0                 0
#define LOOP_AND_1_1                 1
#define LOOP_MADE(loop)              LOOP_SECOND_(LOOP_LEFT_##loop, 1, 0)
#if defined(TIDE_ISA_AVX2) || defined(TIDE_ISA_AVX512)
#  define LOOP_LEFT_RARE , 0
#endif

/* What a rule's loop writes: T, or for tests the integer of its width, R. */
#define LOOP_OUT(rule)   LOOP_OUT_(LOOP_PICK_TEST(LOOP_RULE_##rule))
#define LOOP_OUT_(test)  LOOP_OUT__(test)
#define LOOP_OUT__(test) LOOP_OUT_##test
#define LOOP_OUT_0       T
#define LOOP_OUT_1       R

#define LOOP_HEAD(name)                                                                                                \
  static void LOOP_NAME(name, S)(void *out_, const void *a_, const void *b_, const void *c_, const void *p_,           \
                                 int64_t blocks)
#define LOOP_PARAMS                                                                                                    \
  const T p0 = ((const T *)p_)[0], p1 = ((const T *)p_)[1], p2 = ((const T *)p_)[2];                                   \
  (void)p0, (void)p1, (void)p2;
#define LOOP_FOR TIDE_IVDEP for (int64_t i = 0; i < TIDE_BLOCK * blocks; i++)

#define LOOP_UNARY(name, loop, OUT, expr)   LOOP_CHOOSE(LOOP_FORM(S, loop), UNARY, name, OUT, expr)
#define LOOP_BINARY(name, loop, OUT, expr)  LOOP_CHOOSE(LOOP_FORM(S, loop), BINARY, name, OUT, expr)
#define LOOP_TERNARY(name, loop, OUT, expr) LOOP_CHOOSE(LOOP_FORM(S, loop), TERNARY, name, OUT, expr)
#define LOOP_UNARY_0(name, OUT, expr)                                                                                  \
  LOOP_HEAD(name) {                                                                                                    \
    LOOP_PARAMS LOOP_FOR {                                                                                             \
      const T x = ((const T *)a_)[i];                                                                                  \
      ((OUT *)out_)[i] = (OUT)(expr);                                                                                  \
    }                                                                                                                  \
  }
#define LOOP_BINARY_0(name, OUT, expr)                                                                                 \
  LOOP_HEAD(name) {                                                                                                    \
    LOOP_PARAMS LOOP_FOR {                                                                                             \
      const T a = ((const T *)a_)[i], b = ((const T *)b_)[i];                                                          \
      ((OUT *)out_)[i] = (OUT)(expr);                                                                                  \
    }                                                                                                                  \
  }
#define LOOP_TERNARY_0(name, OUT, expr)                                                                                \
  LOOP_HEAD(name) {                                                                                                    \
    LOOP_PARAMS LOOP_FOR {                                                                                             \
      const T a = ((const T *)a_)[i], b = ((const T *)b_)[i], c = ((const T *)c_)[i];                                  \
      ((OUT *)out_)[i] = (OUT)(expr);                                                                                  \
    }                                                                                                                  \
  }
/* The same expressions over the vectors of simd16.h, of which a block is one, in two ways: into the caches, and around
 * them. */
#define LOOP_UNARY_1(name, OUT, expr) LOOP_BOTH(name, const __m512 x = WIDE_LOAD(a_); WIDE_STORE(out_, expr))
#define LOOP_BINARY_1(name, OUT, expr)                                                                                 \
  LOOP_BOTH(name, const __m512 a = WIDE_LOAD(a_), b = WIDE_LOAD(b_); WIDE_STORE(out_, expr))
#define LOOP_TERNARY_1(name, OUT, expr)                                                                                \
  LOOP_BOTH(name, const __m512 a = WIDE_LOAD(a_), b = WIDE_LOAD(b_), c = WIDE_LOAD(c_); WIDE_STORE(out_, expr))
#define LOOP_UNARY_3(name, OUT, expr)                                                                                  \
  LOOP_HEAD(name) {                                                                                                    \
    LOOP_PARAMS for (int64_t i = 0; i < TIDE_BLOCK * blocks; i += 8) {                                                 \
      const __m512d x = _mm512_loadu_pd((const double *)a_ + i);                                                       \
      _mm512_storeu_pd((double *)out_ + i, expr);                                                                      \
    }                                                                                                                  \
  }
/* A block at once by block_math.h; what that does not take gets the expression's value, by a loop of this instruction
 * set or by the base one's, which costs no further code. */
#define LOOP_UNARY_2(name, OUT, expr)                                                                                  \
  LOOP_EMIT(QUICK_HERE_##name, LOOP_UNARY_0(name##_other, OUT, expr))                                                  \
  LOOP_HEAD(name) {                                                                                                    \
    LOOP_PARAMS                                                                                                        \
    LOOP_QUICK_RUN(S)                                                                                                  \
    (out_, a_, p_, blocks, quick_##name, QUICK_LOW_##name, QUICK_HIGH_##name, LOOP_OTHER(QUICK_HERE_##name, name));    \
  }
#define LOOP_QUICK_RUN(s)       LOOP_QUICK_RUN_(s)
#define LOOP_QUICK_RUN_(s)      quick_run_##s
#define LOOP_OTHER(here, name)  LOOP_OTHER_(here, name)
#define LOOP_OTHER_(here, name) LOOP_OTHER_##here(name)
#define LOOP_OTHER_0(name)      tide__isa_base.op[TIDE_OP_##name][sizeof(T) == 4 ? TIDE_C_F32 : TIDE_C_F64]
#define LOOP_OTHER_1(name)      LOOP_NAME(name##_other, S)
/* Quotients: a block at once by quotient.h, or if it has one that is not simple, by the expression. */
#define LOOP_BINARY_2(name, OUT, expr)                                                                                 \
  LOOP_HEAD(name) {                                                                                                    \
    LOOP_PARAMS for (int64_t i = 0; i < TIDE_BLOCK * blocks; i += TIDE_BLOCK) {                                        \
      OUT quick[TIDE_BLOCK];                                                                                           \
      R hard = 0;                                                                                                      \
      for (int j = 0; j < TIDE_BLOCK; j++) {                                                                           \
        const T x = ((const T *)a_)[i + j], y = ((const T *)b_)[i + j], q = tide_trunc(x / y);                         \
        quick[j] = LOOP_QUICK(name, S)(x, y, q);                                                                       \
        hard |= (tide_abs(q) < LOOP_QUICK_MOST(S)) & (y - y == 0) ? 0 : 1;                                             \
      }                                                                                                                \
      if (hard)                                                                                                        \
        for (int j = 0; j < TIDE_BLOCK; j++) {                                                                         \
          const T a = ((const T *)a_)[i + j], b = ((const T *)b_)[i + j];                                              \
          quick[j] = (OUT)(expr);                                                                                      \
        }                                                                                                              \
      memcpy((OUT *)out_ + i, quick, sizeof quick);                                                                    \
    }                                                                                                                  \
  }
#define LOOP_QUICK(name, s)  LOOP_QUICK_(name, s)
#define LOOP_QUICK_(name, s) quick_##name##_##s
#define LOOP_QUICK_MOST(s)   LOOP_QUICK_MOST_(s)
#define LOOP_QUICK_MOST_(s)  QUOTIENT_MOST_##s
#define LOOP_BOTH(name, ...)                                                                                           \
  LOOP_HEAD(name) {                                                                                                    \
    const bool stream = false;                                                                                         \
    LOOP_PARAMS for (int64_t i = 0; i < TIDE_BLOCK * blocks; i += TIDE_BLOCK) { __VA_ARGS__; }                         \
  }                                                                                                                    \
  LOOP_HEAD(name##_streamed) {                                                                                         \
    const bool stream = true;                                                                                          \
    LOOP_PARAMS for (int64_t i = 0; i < TIDE_BLOCK * blocks; i += TIDE_BLOCK) { __VA_ARGS__; }                         \
  }

/* What a loop of op.def is for this type and this instruction set: 1 in vectors of simd16.h, 3 where these are of
 * float64, 2 by block_math.h or quotient.h, 0 the plain one, which has no such name. */
#define LOOP_FORM(s, loop)     LOOP_FORM_(s, loop)
#define LOOP_FORM_(s, loop)    LOOP_SECOND_(LOOP_FORM_##s##_##loop, 0, 0)
#define LOOP_SECOND_(...)      LOOP_SECOND(__VA_ARGS__)
#define LOOP_SECOND(a, b, ...) b
#if defined(TIDE_ISA_AVX512) || defined(TIDE_ISA_AVX2)
#  define LOOP_FORM_f32_QUOTIENT , 2
#  define LOOP_FORM_f64_QUOTIENT , 2
#  define LOOP_FORM_f32_QUICK    , 2
#  define LOOP_FORM_f64_QUICK    , 2
#  define LOOP_FORM_f64_QUICK64  , 2
#endif
#define LOOP_CHOOSE(form, kind, name, OUT, expr)  LOOP_CHOOSE_(form, kind, name, OUT, expr)
#define LOOP_CHOOSE_(form, kind, name, OUT, expr) LOOP_##kind##_##form(name, OUT, expr)
#if defined(TIDE_ISA_AVX512)
#  define LOOP_FORM_f32_WIDE        , 1
#  define LOOP_FORM_f32_WIDE_BYTES  , 1
#  define LOOP_FORM_f32_WIDE64      , 1
#  define LOOP_FORM_f64_WIDE64      , 3
#  define LOOP_F32(x, single, wide) _Generic((x), __m512 : wide, default : single)(x)
#  define LOOP_F64(x, single, wide) _Generic((x), __m512d : wide, default : single)(x)
#else
#  define LOOP_F32(x, single, wide) single(x)
#  define LOOP_F64(x, single, wide) single(x)
#endif

/* What is computed otherwise than op.def says it: products, which for complex numbers are below, as quotients are. */
#define LOOP_TEXT(name, expr) LOOP_SECOND_(LOOP_TEXT_##name, expr, 0)
#define LOOP_TEXT_mul         , tide_times(a, b)
#define LOOP_TEXT_add_scaled  , a + tide_times(p0, b)
#define LOOP_TEXT_addcmul     , a + tide_times(tide_times(p0, b), c)
#define LOOP_TEXT_addcdiv     , a + tide_divide(tide_times(p0, b), c)
#define LOOP_TEXT_lerp        , a + tide_times(c, b - a)

#define tide_times(a, b)  ((a) * (b))
#define tide_divide(a, b) ((a) / (b))

#define T int32_t
#define R int32_t
#define K I
#define S i32
#include "loops_type.h"

#define T int64_t
#define R int64_t
#define K I
#define S i64
#include "loops_type.h"

/* In a loop over floats the names of <math.h> in op.def mean the functions of floats. */
#define exp(x)      LOOP_F32(x, fast_expf, wide_exp)
#define exp2(x)     LOOP_F32(x, exp2f, wide_exp2)
#define expm1(x)    LOOP_F32(x, expm1f, wide_expm1)
#define log(x)      LOOP_F32(x, fast_logf, wide_log)
#define log2(x)     LOOP_F32(x, log2f, wide_log2)
#define log10(x)    log10f(x)
#define log1p(x)    log1pf(x)
#define sin(x)      LOOP_F32(x, sinf, wide_sin)
#define cos(x)      LOOP_F32(x, cosf, wide_cos)
#define tan(x)      tanf(x)
#define asin(x)     fast_asinf(x)
#define acos(x)     fast_acosf(x)
#define atan(x)     atanf(x)
#define sinh(x)     sinhf(x)
#define cosh(x)     coshf(x)
#define tanh(x)     LOOP_F32(x, tanhf, wide_tanh)
#define asinh(x)    asinhf(x)
#define acosh(x)    acoshf(x)
#define atanh(x)    atanhf(x)
#define sqrt(x)     LOOP_F32(x, sqrtf, wide_sqrt)
#define rint(x)     rintf(x)
#define trunc(x)    truncf(x)
#define erf(x)      LOOP_F32(x, erff, wide_erf)
#define erfc(x)     erfcf(x)
#define atan2(x, y) atan2f(x, y)
#define hypot(x, y) hypotf(x, y)
#define T           float
#define R           int32_t
#define K           F
#define S           f32
#include "loops_type.h"

#define sqrt(x) LOOP_F64(x, sqrt, wide_sqrt_f64)
#define T       double
#define R       int64_t
#define K       F
#define S       f64
#include "loops_type.h"

/* In a loop over complex numbers they mean the functions of these, and a test asks both parts. */
#undef tide_times
#undef tide_divide
#pragma push_macro("tide_pow")
#pragma push_macro("tide_log_add")
#pragma push_macro("tide_isnan")
#pragma push_macro("tide_isinf")
#pragma push_macro("tide_isfinite")
#pragma push_macro("tide_sgn")
#pragma push_macro("tide_nan_to_num")
#pragma push_macro("tide_isclose")
#undef tide_pow
#undef tide_log_add
#undef tide_isnan
#undef tide_isinf
#undef tide_isfinite
#undef tide_sgn
#undef tide_nan_to_num
#undef tide_isclose

#define tide_sgn(x)                               tide__csgn(x)
#define tide_nan_to_num(x, nan, high, low)        tide__cnan_to_num(x, creal(nan), creal(high), creal(low))
#define tide_isclose(a, b, rtol, atol, equal_nan) tide__cisclose(a, b, creal(rtol), creal(atol), creal(equal_nan) != 0)

#define tide_isnan(x)      (tide_isnan_f64(creal(x)) | tide_isnan_f64(cimag(x)))
#define tide_isinf(x)      (tide_isinf_f64(creal(x)) | tide_isinf_f64(cimag(x)))
#define tide_isfinite(x)   (tide_isfinite_f64(creal(x)) & tide_isfinite_f64(cimag(x)))
#define exp(x)             cexpf(x)
#define log(x)             clogf(x)
#define sqrt(x)            csqrtf(x)
#define sin(x)             csinf(x)
#define cos(x)             ccosf(x)
#define tan(x)             ctanf(x)
#define asin(x)            casinf(x)
#define acos(x)            cacosf(x)
#define atan(x)            catanf(x)
#define sinh(x)            csinhf(x)
#define cosh(x)            ccoshf(x)
#define tanh(x)            ctanhf(x)
#define asinh(x)           casinhf(x)
#define acosh(x)           cacoshf(x)
#define atanh(x)           catanhf(x)
#define exp2(x)            (float _Complex) tide__cexp2(x)
#define expm1(x)           (float _Complex) tide__cexpm1(x)
#define log2(x)            (float _Complex) tide__clog2(x)
#define log10(x)           (float _Complex) tide__clog10(x)
#define log1p(x)           (float _Complex) tide__clog1p(x)
#define tide_pow(a, b)     (float _Complex) tide__cpow(a, b)
#define tide_log_add(a, b) (float _Complex) tide__clog_add(a, b)
#define tide_times(a, b)   tide_times_c64(a, b)
#define tide_divide(a, b)  tide_divide_c64(a, b)
#define T                  float _Complex
#define R                  int32_t
#define K                  C
#define S                  c64
#include "loops_type.h"

#undef tide_pow
#undef tide_log_add
#undef tide_times
#undef tide_divide
#define exp(x)             cexp(x)
#define log(x)             clog(x)
#define sqrt(x)            csqrt(x)
#define sin(x)             csin(x)
#define cos(x)             ccos(x)
#define tan(x)             ctan(x)
#define asin(x)            casin(x)
#define acos(x)            cacos(x)
#define atan(x)            catan(x)
#define sinh(x)            csinh(x)
#define cosh(x)            ccosh(x)
#define tanh(x)            ctanh(x)
#define asinh(x)           casinh(x)
#define acosh(x)           cacosh(x)
#define atanh(x)           catanh(x)
#define exp2(x)            tide__cexp2(x)
#define expm1(x)           tide__cexpm1(x)
#define log2(x)            tide__clog2(x)
#define log10(x)           tide__clog10(x)
#define log1p(x)           tide__clog1p(x)
#define tide_pow(a, b)     tide__cpow(a, b)
#define tide_log_add(a, b) tide__clog_add(a, b)
#define tide_times(a, b)   tide_times_c128(a, b)
#define tide_divide(a, b)  tide_divide_c128(a, b)
#define T                  double _Complex
#define R                  int32_t
#define K                  C
#define S                  c128
#include "loops_type.h"

#pragma pop_macro("tide_pow")
#pragma pop_macro("tide_log_add")
#pragma pop_macro("tide_isnan")
#pragma pop_macro("tide_isinf")
#pragma pop_macro("tide_isfinite")
#pragma pop_macro("tide_sgn")
#pragma pop_macro("tide_nan_to_num")
#pragma pop_macro("tide_isclose")

/* Statements that store the loops there are of an operation: for each type, and those that write around the caches. */
#define LOOP_STORE(has, slot, f)   LOOP_STORE_(has, slot, f)
#define LOOP_STORE_(has, slot, f)  LOOP_STORE__(has, slot, f)
#define LOOP_STORE__(has, slot, f) LOOP_STORE_##has(slot, f)
#define LOOP_STORE_0(slot, f)
#define LOOP_STORE_2(slot, f)
#define LOOP_STORE_1(slot, f) slot = f;
#define LOOP_ROW(table, name, rule, loop)                                                                              \
  LOOP_STORE(LOOP_HAS(I, rule, loop), (table)[TIDE_OP_##name][TIDE_C_I32], loop_##name##_i32)                          \
  LOOP_STORE(LOOP_HAS(I, rule, loop), (table)[TIDE_OP_##name][TIDE_C_I64], loop_##name##_i64)                          \
  LOOP_STORE(LOOP_HAS(F, rule, loop), (table)[TIDE_OP_##name][TIDE_C_F32], loop_##name##_f32)                          \
  LOOP_STORE(LOOP_HAS(F, rule, loop), (table)[TIDE_OP_##name][TIDE_C_F64], loop_##name##_f64)                          \
  LOOP_STORE(LOOP_HAS(C, rule, loop), (table)[TIDE_OP_##name][TIDE_C_C64], loop_##name##_c64)                          \
  LOOP_STORE(LOOP_HAS(C, rule, loop), (table)[TIDE_OP_##name][TIDE_C_C128], loop_##name##_c128)
#define LOOP_STREAMED(table, name, loop)                                                                               \
  LOOP_STORE(LOOP_FORM(f32, loop), (table)[TIDE_OP_##name], loop_##name##_streamed_f32)
