/* powers.h: template of the loops of powers that are written as numbers, where no op of op.def is the same: x^3,
 * rounded once for float32, and x^0.5, which unlike the square root is inf at -inf and +0 at -0; e^(x - p[0]); blocks
 * of one value, and progressions. */

#define POWER(name, T, expr)                                                                                           \
  static void power_##name(void *out_, const void *a_, const void *b_, const void *c_, const void *p_,                 \
                           int64_t blocks) {                                                                           \
    const T p0 = p_ ? *(const T *)p_ : 0;                                                                              \
    (void)p0;                                                                                                          \
    TIDE_IVDEP for (int64_t i = 0; i < TIDE_BLOCK * blocks; i++) {                                                     \
      const T x = ((const T *)a_)[i];                                                                                  \
      ((T *)out_)[i] = (T)(expr);                                                                                      \
    }                                                                                                                  \
  }
POWER(cube_f32, float, (double)x *(double)x *(double)x)
POWER(cube_f64, double, x *x *x)
#if defined(TIDE_ISA_AVX512)
#  define POWER_ROOT(s, T, V, suffix, root)                                                                            \
    static void power_root_##s(void *out_, const void *a_, const void *b_, const void *c_, const void *p_,             \
                               int64_t blocks) {                                                                       \
      const V zero = {0}, far = (T)INFINITY - zero;                                                                    \
      for (int64_t i = 0; i < TIDE_BLOCK * blocks; i += 64 / (int)sizeof(T)) {                                         \
        V x = _mm512_loadu_##suffix((const T *)a_ + i) + zero, y = root(x);                                            \
        y = _mm512_mask_mov_##suffix(y, _mm512_cmp_##suffix##_mask(x, -far, _CMP_EQ_OQ), far);                         \
        _mm512_storeu_##suffix((T *)out_ + i, y);                                                                      \
      }                                                                                                                \
    }
POWER_ROOT(f32, float, __m512, ps, wide_sqrt)
POWER_ROOT(f64, double, __m512d, pd, wide_sqrt_f64)
#else
POWER(root_f32, float, x == -INFINITY ? INFINITY : sqrtf(x + 0.0f))
POWER(root_f64, double, x == -INFINITY ? INFINITY : sqrt(x + 0.0))
#endif

POWER(exp_less_f64, double, exp(x - p0))
#if defined(TIDE_ISA_AVX512)
static void power_exp_less_f32(void *out, const void *a, const void *b, const void *c, const void *p, int64_t blocks) {
  const __m512 less = _mm512_set1_ps(*(const float *)p);
  for (int64_t i = 0; i < TIDE_BLOCK * blocks; i += TIDE_BLOCK)
    _mm512_storeu_ps((float *)out + i, wide_exp(_mm512_loadu_ps((const float *)a + i) - less));
}
#else
POWER(exp_less_f32, float, fast_expf(x - p0))
#endif

#define POWER_TABLE                                                                                                    \
  .cube = {power_cube_f32, power_cube_f64}, .root = {power_root_f32, power_root_f64},                                  \
  .exp_less = {power_exp_less_f32, power_exp_less_f64}

#define REPEAT(T)                                                                                                      \
  static void repeat_##T(void *out, const void *value, int64_t blocks) {                                               \
    const T x = *(const T *)value;                                                                                     \
    for (int64_t i = 0; i < TIDE_BLOCK * blocks; i++) ((T *)out)[i] = x;                                               \
  }
REPEAT(uint32_t)
REPEAT(uint64_t)

/* The product and the sum are rounded once, in one fused step. */
static void progress(double *out, double first, double step, double start, int64_t n) {
  for (int32_t i = 0; i < (int32_t)n; i++) out[i] = __builtin_fma(first + (double)i, step, start);
}
#define REPEAT_TABLE .progress = progress, .repeat = {repeat_uint32_t, repeat_uint64_t}
