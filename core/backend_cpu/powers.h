/* powers.h: template of the loops of powers that are written as numbers, where no op of op.def is the same: x^3,
 * rounded once for float32, and x^0.5, which unlike the square root is inf at -inf and +0 at -0; blocks of one
 * value, and progressions. */

#define POWER(name, T, expr)                                                                                           \
  static void power_##name(void *out_, const void *a_, const void *b_, const void *c_, const void *p_,                 \
                           int64_t blocks) {                                                                           \
    (void)b_, (void)c_, (void)p_;                                                                                      \
    TIDE_IVDEP for (int64_t i = 0; i < TIDE_BLOCK * blocks; i++) {                                                     \
      const T x = ((const T *)a_)[i];                                                                                  \
      ((T *)out_)[i] = (T)(expr);                                                                                      \
    }                                                                                                                  \
  }
POWER(cube_f32, float, (double)x *(double)x *(double)x)
POWER(cube_f64, double, x *x *x)
POWER(root_f32, float, x == -INFINITY ? INFINITY : sqrtf(x + 0.0f))
POWER(root_f64, double, x == -INFINITY ? INFINITY : sqrt(x + 0.0))

#define POWER_TABLE .cube = {power_cube_f32, power_cube_f64}, .root = {power_root_f32, power_root_f64}

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
