/* cxx_text.c: the C++ that stands around a user's code on the CPU: compiler.h says which piece is what.
 *
 * The names that CUDA has and C++ has not are defined here, so that one code string serves both. Arithmetic is the same
 * as in the CPU's own loops: no contraction of a multiplication and an addition, integers wrap round, 16-bit floats
 * round to nearest even. What stands before raw kernels beyond that is cxx_raw.c.
 *
 * Half of the time would go to headers, of which those that only std needs, and the special functions that libstdc++
 * has in <cmath> since C++17, are left out of code that does not name std.
 *
 * Invariant: every name of ours that a user could clash with begins with tide_ or TIDE_. */
#include "cxx.h"

#include "base/quota.h"

/* Behind a sign of division stands tide_by (jit/rewrite.c), in macros as TIDE_BY, and gives the divisor. The value of
 * an integer that may be 0, or -1 which the least number overflows by, goes through an empty instruction that the
 * compiler knows nothing of. */
#define DIVISIONS                                                                                                      \
  "template <class T> struct tide_whole { enum { value = 0 }; };\n"                                                    \
  "#define TIDE_WHOLE(T) template <> struct tide_whole<T> { enum { value = 1 }; };\n"                                  \
  "TIDE_WHOLE(bool) TIDE_WHOLE(char) TIDE_WHOLE(signed char) TIDE_WHOLE(unsigned char) TIDE_WHOLE(short)\n"            \
  "TIDE_WHOLE(unsigned short) TIDE_WHOLE(int) TIDE_WHOLE(unsigned) TIDE_WHOLE(long) TIDE_WHOLE(unsigned long)\n"       \
  "TIDE_WHOLE(long long) TIDE_WHOLE(unsigned long long) TIDE_WHOLE(wchar_t) TIDE_WHOLE(char16_t)\n"                    \
  "TIDE_WHOLE(char32_t)\n"                                                                                             \
  "#ifdef __SIZEOF_INT128__\nTIDE_WHOLE(__int128) TIDE_WHOLE(unsigned __int128)\n#endif\n"                             \
  "template <class T> TIDE_INLINE T tide_hidden(T x) {\n"                                                              \
  "  if constexpr (sizeof(T) > 8) {\n"                                                                                 \
  "    unsigned long long low = (unsigned long long)x, high = (unsigned long long)(x >> 64);\n"                        \
  "    asm(\"\" : \"+r\"(low), \"+r\"(high));\n    return (T)high << 64 | (T)low;\n"                                   \
  "  } else { int y = 0; if constexpr (sizeof(T) < sizeof y) { y = x; asm(\"\" : \"+r\"(y)); return (T)y; }\n"         \
  "    else { asm(\"\" : \"+r\"(x)); return x; } }\n}\n"                                                               \
  "template <class B> TIDE_INLINE constexpr B tide_divisor(B b) {\n"                                                   \
  "  if constexpr (__is_enum(B)) return (B)tide_divisor((__underlying_type(B))b);\n"                                   \
  "  else if constexpr (tide_whole<B>::value) {\n"                                                                     \
  "    if (__builtin_is_constant_evaluated()) return b;\n"                                                             \
  "    return __builtin_constant_p(b) && b != (B)0 && b != (B)-1 ? b : tide_hidden(b);\n"                              \
  "  } else return b;\n}\n"                                                                                            \
  "static constexpr struct tide_division {\n"                                                                          \
  "  template <class B> TIDE_INLINE constexpr B operator->*(B b) const { return tide_divisor(b); }\n"                  \
  "  template <class B> TIDE_INLINE constexpr B operator=(B b) const { return tide_divisor(b); }\n"                    \
  "} tide_by = {};\n"                                                                                                  \
  "#define TIDE_BY tide_by->*\n"

#define MATHEMATICS                                                                                                    \
  "#ifdef TIDE_NAMES_STD\n#include <algorithm>\n#include <limits>\n"                                                   \
  "#else\n#include <cstddef>\n#undef _GLIBCXX_USE_STD_SPEC_FUNCS\n#endif\n"                                            \
  "#include <cmath>\n#include <cstdint>\n#include <cstring>\n#include <math.h>\n#include <stdlib.h>\n"                 \
  "#define __device__\n#define __host__\n#define __forceinline__ inline\n#define __noinline__\n"                       \
  "#define TIDE_INLINE inline __attribute__((always_inline))\n" DIVISIONS                                              \
  "template <class A, class B> inline auto max(A a, B b) -> decltype(a + b) { return a > b ? a : b; }\n"               \
  "template <class A, class B> inline auto min(A a, B b) -> decltype(a + b) { return a < b ? a : b; }\n"               \
  "#define TIDE_REAL(name, expr) \\\n"                                                                                 \
  "  inline float name(float x) { return (float)(expr); } \\\n"                                                        \
  "  inline double name(double x) { return (expr); }\n"                                                                \
  "TIDE_REAL(rsqrt, 1 / std::sqrt(x))\nTIDE_REAL(rcbrt, 1 / std::cbrt(x))\n"                                           \
  "TIDE_REAL(normcdf, std::erfc((double)x * -0.70710678118654752440) / 2)\n"                                           \
  "TIDE_REAL(sinpi, std::sin(3.14159265358979323846 * std::remainder((double)x, 2.0)))\n"                              \
  "TIDE_REAL(cospi, std::cos(3.14159265358979323846 * std::remainder((double)x, 2.0)))\n"                              \
  "TIDE_REAL(tide_exp10, std::pow(10.0, (double)x))\n#define exp10(x) tide_exp10(x)\n#define exp10f(x) "               \
  "tide_exp10((float)(x))\n"                                                                                           \
  "TIDE_REAL(erfcx, std::exp((double)x * x) * std::erfc((double)x))\n"                                                 \
  "inline float rsqrtf(float x) { return rsqrt(x); }\ninline float normcdff(float x) { return normcdf(x); }\n"         \
  "inline float __expf(float x) { return std::exp(x); }\ninline float __logf(float x) { return std::log(x); }\n"       \
  "inline float __log2f(float x) { return std::log2(x); }\ninline float __sinf(float x) { return std::sin(x); }\n"     \
  "inline float __cosf(float x) { return std::cos(x); }\ninline float __tanf(float x) { return std::tan(x); }\n"       \
  "inline float __powf(float x, float y) { return std::pow(x, y); }\n"                                                 \
  "inline float __fdividef(float x, float y) { return x / y; }\ninline float fdividef(float x, float y) { return x / " \
  "y; }\n"                                                                                                             \
  "inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }\n"                                        \
  "inline float __frcp_rn(float x) { return 1 / x; }\ninline float __fsqrt_rn(float x) { return std::sqrt(x); }\n"

#define HALVES                                                                                                         \
  "struct tide_f16 { unsigned short v; };\nstruct tide_bf16 { unsigned short v; };\nstruct tide_b8 { unsigned char "   \
  "v; };\n"                                                                                                            \
  "template <class To, class From> inline To tide_bits(From x) { To y; memcpy(&y, &x, sizeof y); return y; }\n"        \
  "inline float tide_get(tide_f16 x) {\n"                                                                              \
  "  unsigned s = (x.v & 0x8000u) << 16, r = x.v & 0x7fffu;\n"                                                         \
  "  if (r >= 0x7c00u) return tide_bits<float>(s | 0x7f800000u | (r & 0x3ffu) << 13);\n"                               \
  "  if (r >= 0x400u) return tide_bits<float>(s | ((r << 13) + 0x38000000u));\n"                                       \
  "  float y = (float)r * 5.9604644775390625e-8f;\n  return s ? -y : y;\n}\n"                                          \
  "inline void tide_put(tide_f16 &to, float f) {\n"                                                                    \
  "  unsigned u = tide_bits<unsigned>(f), s = (u >> 16) & 0x8000u, r = u & 0x7fffffffu;\n"                             \
  "  if (r >= 0x7f800000u) to.v = s | 0x7c00u | (r > 0x7f800000u ? 0x200u : 0);\n"                                     \
  "  else if (r >= 0x477ff000u) to.v = s | 0x7c00u;\n"                                                                 \
  "  else if (r < 0x38800000u) to.v = s | (tide_bits<unsigned>(tide_bits<float>(r) + 0.5f) - 0x3f000000u);\n"          \
  "  else to.v = s | ((r - 0x38000000u + 0xfffu + ((r >> 13) & 1u)) >> 13);\n}\n"                                      \
  "inline float tide_get(tide_bf16 x) { return tide_bits<float>((unsigned)x.v << 16); }\n"                             \
  "inline void tide_put(tide_bf16 &to, float f) {\n"                                                                   \
  "  unsigned u = tide_bits<unsigned>(f);\n"                                                                           \
  "  to.v = (u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;\n}\n"

static const char prelude[] = MATHEMATICS;

static const char small[] = HALVES "inline bool tide_get(tide_b8 x) { return x.v != 0; }\n"
                                   "inline void tide_put(tide_b8 &to, bool x) { to.v = x; }\n";

static const char dims[] = "struct tide_div { unsigned d, mul, shift; };\n";

static const char complex_text[] = "#include <complex>\n"
                                   "typedef std::complex<float> tide_c64;\ntypedef std::complex<double> tide_c128;\n";

/* Operands never overlap a result, so the loop may be made of vector instructions. */
static const char flat[] =
    "extern \"C\" __attribute__((visibility(\"default\")))\n"
    "int tide_kernel(const void *packed, const unsigned *, long long begin, long long end, const void *) {\n"
    "  const tide_args a = *(const tide_args *)packed;\n"
    "  const long long tile = TIDE_THREADS * TIDE_VECTOR, first = begin * tile;\n"
    "  const long long last = end * tile < a.n ? end * tile : a.n;\n"
    "#define TIDE_POINTER(k) tide_s##k *__restrict p##k = (tide_s##k *)a.ptr[k];\n"
    "  TIDE_EACH(TIDE_POINTER)\n"
    "#define TIDE_AT(k) p##k[i]\n"
    "  for (long long i = first; i < last; i++) tide_apply(a, TIDE_ARGS(TIDE_AT));\n"
    "  return 0;\n}\n";

/* Row by row of the innermost dim. */
static const char strided[] =
    "extern \"C\" __attribute__((visibility(\"default\")))\n"
    "int tide_kernel(const void *packed, const unsigned *, long long begin, long long end, const void *) {\n"
    "  const tide_args a = *(const tide_args *)packed;\n"
    "  const long long tile = TIDE_THREADS * TIDE_VECTOR, row = a.size[TIDE_NDIM - 1].d;\n"
    "  const long long last = end * tile < a.n ? end * tile : a.n;\n"
    "  for (long long i = begin * tile; i < last;) {\n"
    "    long long rest = i / row, at = i % row, count = row - at < last - i ? row - at : last - i;\n"
    "    long long offset[TIDE_OPERANDS];\n"
    "    for (int k = 0; k < TIDE_OPERANDS; k++) offset[k] = at * a.stride[TIDE_NDIM - 1][k];\n"
    "    for (int d = TIDE_NDIM - 2; d >= 0; d--) {\n"
    "      long long index = rest % a.size[d].d;\n"
    "      rest /= a.size[d].d;\n"
    "      for (int k = 0; k < TIDE_OPERANDS; k++) offset[k] += index * a.stride[d][k];\n"
    "    }\n"
    "#define TIDE_POINTER(k) tide_s##k *p##k = (tide_s##k *)a.ptr[k] + offset[k]; \\\n"
    "  const long long step##k = a.stride[TIDE_NDIM - 1][k];\n"
    "    TIDE_EACH(TIDE_POINTER)\n"
    "#define TIDE_AT(k) p##k[j * step##k]\n"
    "    for (long long j = 0; j < count; j++) tide_apply(a, TIDE_ARGS(TIDE_AT));\n"
    "    i += count;\n"
    "  }\n"
    "  return 0;\n}\n";

/* On the calling thread, whose host may interrupt it. */
static tide_status watched_launch(tide_stream *stream, void *function, const tide_launch *a) {
  tide__loops_begin();
  if (a->mail && tide__quota_any()) tide__loops_limit();
  return tide__loops_end(tide__cxx_launch(stream, function, a));
}

const tide_compiler tide__cpu_compiler = {
    .name = "c++",
    .variable = "TIDE_CXX",
    .prelude = prelude,
    .with_small = small,
    .with_complex = complex_text,
    .with_dims = dims,
    .flat = flat,
    .strided = strided,
    .threads = 1024,
    .raw = tide__cxx_raw,
    .host = true,
    .fused = tide__cpu_fused,
    .options = "-std=c++17 -O3 -fPIC -shared -w -fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math",
    .raw_options = "-std=c++17 -O3 -fPIC -shared -w -fvisibility=hidden -fwrapv -ffp-contract=off -fno-math-errno "
                   "-fno-trapping-math "
                   "-fno-threadsafe-statics", /* an assertion leaves the kernel past what would let go of a guard */
    .identify = tide__cxx_identify,
    .arch = tide__cxx_arch,
    .compile = tide__cxx_compile,
    .load = tide__cxx_load,
    .unload = tide__cxx_unload,
    .function = tide__cxx_function,
    .launch = watched_launch,
    .code_new = tide__blocks_new,
    .code_free = tide__blocks_free,
};
