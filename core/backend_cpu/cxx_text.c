/* cxx_text.c: the C++ that stands around a user's code on the CPU: compiler.h says which piece is what.
 *
 * The names that CUDA has and C++ has not are defined here, so that one code string serves both. Arithmetic is the same
 * as in the CPU's own loops: no contraction of a multiplication and an addition, integers wrap round, 16-bit floats
 * round to nearest even. Raw kernels see threadIdx and the rest as variables of the running thread; their threads are
 * run one after the other by a loop that core writes, hence nothing here can wait for another thread.
 *
 * Invariant: every name of ours that a user could clash with begins with tide_ or TIDE_. */
#include "backend_cpu/cxx.h"

#define MATHEMATICS                                                                                                    \
  "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n#include <cstring>\n#include <limits>\n"                \
  "#include <math.h>\n#include <stdlib.h>\n"                                                                           \
  "#define __device__\n#define __host__\n#define __forceinline__ inline\n#define __noinline__\n"                       \
  "#define TIDE_INLINE inline __attribute__((always_inline))\n"                                                        \
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

static const char prelude[] =
    MATHEMATICS HALVES "inline bool tide_get(tide_b8 x) { return x.v != 0; }\n"
                       "inline void tide_put(tide_b8 &to, bool x) { to.v = x; }\n"
                       "template <class S> TIDE_INLINE S tide_get(S x) { return x; }\n"
                       "template <class S> TIDE_INLINE void tide_put(S &to, S x) { to = x; }\n"
                       "struct tide_div { unsigned d, mul, shift; };\n";

static const char complex_text[] = "#include <complex>\n"
                                   "typedef std::complex<float> tide_c64;\ntypedef std::complex<double> tide_c128;\n";

/* Operands never overlap a result, so the loop may be made of vector instructions. */
static const char flat[] = "extern \"C\" __attribute__((visibility(\"default\")))\n"
                           "void tide_kernel(const void *packed, const unsigned *, long long begin, long long end) {\n"
                           "  const tide_args a = *(const tide_args *)packed;\n"
                           "  const long long tile = TIDE_THREADS * TIDE_VECTOR, first = begin * tile;\n"
                           "  const long long last = end * tile < a.n ? end * tile : a.n;\n"
                           "#define TIDE_POINTER(k) tide_s##k *__restrict p##k = (tide_s##k *)a.ptr[k];\n"
                           "  TIDE_EACH(TIDE_POINTER)\n"
                           "#define TIDE_AT(k) p##k[i]\n"
                           "  for (long long i = first; i < last; i++) tide_apply(a, TIDE_ARGS(TIDE_AT));\n"
                           "}\n";

/* Row by row of the innermost dim. */
static const char strided[] =
    "extern \"C\" __attribute__((visibility(\"default\")))\n"
    "void tide_kernel(const void *packed, const unsigned *, long long begin, long long end) {\n"
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
    "}\n";

const tide_compiler tide__cpu_compiler = {
    .name = "c++",
    .variable = "TIDE_CXX",
    .prelude = prelude,
    .with_complex = complex_text,
    .flat = flat,
    .strided = strided,
    .threads = 4096,
    .raw = "",
    .host = true,
    .options = "-std=c++17 -O3 -fPIC -shared -w -fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math",
    .raw_options = "-std=c++17 -O2 -fPIC -shared -w -fwrapv -ffp-contract=off -fno-math-errno -fno-trapping-math",
    .identify = tide__cxx_identify,
    .arch = tide__cxx_arch,
    .compile = tide__cxx_compile,
    .load = tide__cxx_load,
    .unload = tide__cxx_unload,
    .function = tide__cxx_function,
    .launch = tide__cxx_launch,
};
