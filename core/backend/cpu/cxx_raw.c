/* cxx_raw.c: the C++ that stands before a raw kernel of the user's on the CPU.
 *
 * It has what CUDA C has for threads of a block, and the 16-bit floats of CUDA's headers, which are named there only
 * where the code includes anything. Threads that do not wait for each other are a loop inside the kernel: tide_run
 * calls the body, which core has made a function without a name, with the place of each thread, so that the compiler
 * sees through all of it and can make vector instructions. Where the places count without wrapping round, which is
 * nearly always, a loop of its own tells the compiler so. Threads that wait run by turns, each on a stack of its own
 * (fiber.c). threadIdx and the rest are variables of the running thread too, for functions that the kernel calls; a
 * body that core could not find is called once for each thread with those alone.
 *
 * Invariant: every name of ours that a user could clash with begins with tide_ or TIDE_. */
#include "cxx.h"

#define VECTORS                                                                                                        \
  "#include <cstdio>\n"                                                                                                \
  "#include <setjmp.h>\n"                                                                                              \
  "#define __global__\n"                                                                                               \
  "#define __constant__ static\n"                                                                                      \
  "#define __launch_bounds__(...)\n"                                                                                   \
  "#define __grid_constant__\n"                                                                                        \
  "#define __shared__ static thread_local\n"                                                                           \
  "#define __align__(n) __attribute__((aligned(n)))\n"                                                                 \
  "#define TIDE_VECTOR_TYPE(T, name) \\\n"                                                                             \
  "  struct alignas(2 * sizeof(T)) name##2 { T x, y; }; struct name##3 { T x, y, z; }; \\\n"                           \
  "  struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; }; \\\n"                          \
  "  inline name##2 make_##name##2(T x, T y) { return {x, y}; } \\\n"                                                  \
  "  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \\\n"                                          \
  "  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }\n"                                     \
  "TIDE_VECTOR_TYPE(float, float) TIDE_VECTOR_TYPE(double, double) TIDE_VECTOR_TYPE(int, int)\n"                       \
  "TIDE_VECTOR_TYPE(unsigned, uint) TIDE_VECTOR_TYPE(unsigned char, uchar) TIDE_VECTOR_TYPE(signed char, char)\n"      \
  "TIDE_VECTOR_TYPE(short, short) TIDE_VECTOR_TYPE(unsigned short, ushort) TIDE_VECTOR_TYPE(long long, longlong)\n"    \
  "struct dim3 { unsigned x, y, z; dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {} };\n"    \
  "static thread_local uint3 threadIdx, blockIdx;\n"                                                                   \
  "static thread_local dim3 blockDim, gridDim;\n"                                                                      \
  "static const int warpSize = 32;\n"

#define SMALL_FLOATS                                                                                                   \
  "#define TIDE_SMALL_FLOAT(T, B) \\\n"                                                                                \
  "  struct T { B b; T() = default; T(float x) { tide_put(b, x); } T(double x) : T((float)x) {} T(int x) : "           \
  "T((float)x) {} \\\n"                                                                                                \
  "    T(unsigned x) : T((float)x) {} T(long x) : T((float)x) {} T(unsigned long x) : T((float)x) {} \\\n"             \
  "    T(long long x) : T((float)x) {} T(unsigned long long x) : T((float)x) {} T(short x) : T((float)x) {} \\\n"      \
  "    operator float() const { return tide_get(b); } };\n"                                                            \
  "TIDE_SMALL_FLOAT(__half, tide_f16) TIDE_SMALL_FLOAT(__nv_bfloat16, tide_bf16)\n"                                    \
  "typedef __half half;\n"                                                                                             \
  "typedef __nv_bfloat16 nv_bfloat16;\n"                                                                               \
  "inline float __half2float(__half x) { return x; }\n"                                                                \
  "inline __half __float2half(float x) { return x; }\n"                                                                \
  "inline float __bfloat162float(__nv_bfloat16 x) { return x; }\n"                                                     \
  "inline __nv_bfloat16 __float2bfloat16(float x) { return x; }\n"

/* What <cuda_fp16.h> and <cuda_bf16.h> declare, as far as code of kernels uses it. */
#define HEADERS                                                                                                        \
  "#ifdef TIDE_NAMES_CUDA\n"                                                                                           \
  "template <class X, int WHOLE = tide_whole<X>::value> struct tide_mixed {};\n"                                       \
  "template <class X> struct tide_mixed<X, 1> { typedef float type; typedef bool truth; };\n"                          \
  "template <> struct tide_mixed<float, 0> { typedef float type; typedef bool truth; };\n"                             \
  "template <> struct tide_mixed<double, 0> { typedef double type; typedef bool truth; };\n"                           \
  "#define TIDE_SMALL_OPERATOR(T, op) \\\n"                                                                            \
  "  inline T operator op(T a, T b) { return T((float)a op (float)b); } \\\n"                                          \
  "  inline T &operator op##=(T &a, T b) { return a = a op b; } \\\n"                                                  \
  "  template <class X> inline typename tide_mixed<X>::type operator op(T "                                            \
  "a, X b) { \\\n"                                                                                                     \
  "    return (float)a op b; } \\\n"                                                                                   \
  "  template <class X> inline typename tide_mixed<X>::type operator op(X "                                            \
  "a, T b) { \\\n"                                                                                                     \
  "    return a op (float)b; }\n"                                                                                      \
  "#define TIDE_SMALL_COMPARE(T, op, name) \\\n"                                                                       \
  "  inline bool operator op(T a, T b) { return (float)a op (float)b; } \\\n"                                          \
  "  template <class X> inline typename tide_mixed<X>::truth operator op(T a, X b) { return "                          \
  "(float)a op b; } \\\n"                                                                                              \
  "  template <class X> inline typename tide_mixed<X>::truth operator op(X a, T b) { return a "                        \
  "op (float)b; } \\\n"                                                                                                \
  "  inline bool name(T a, T b) { return (float)a op (float)b; }\n"                                                    \
  "#define TIDE_SMALL_UNARY(T, name, expr) inline T name(T v) { float x = v; return T(expr); }\n"                      \
  "#define TIDE_SMALL_PAIR(T, T2, name, op) \\\n"                                                                      \
  "  inline T name(T a, T b) { return a op b; } \\\n"                                                                  \
  "  inline T2 name##2(T2 a, T2 b) { return {a.x op b.x, a.y op b.y}; } \\\n"                                          \
  "  inline T2 operator op(T2 a, T2 b) { return name##2(a, b); } \\\n"                                                 \
  "  inline T2 &operator op##=(T2 &a, T2 b) { return a = name##2(a, b); }\n"                                           \
  "#define TIDE_SMALL_ALL(T, T2) \\\n"                                                                                 \
  "  struct alignas(4) T2 { T x, y; }; \\\n"                                                                           \
  "  TIDE_SMALL_OPERATOR(T, +) TIDE_SMALL_OPERATOR(T, -) TIDE_SMALL_OPERATOR(T, *) TIDE_SMALL_OPERATOR(T, /) \\\n"     \
  "  inline T operator-(T a) { return T(-(float)a); } inline T operator+(T a) { return a; } \\\n"                      \
  "  TIDE_SMALL_COMPARE(T, ==, __heq) TIDE_SMALL_COMPARE(T, !=, __hne) TIDE_SMALL_COMPARE(T, <, __hlt) \\\n"           \
  "  TIDE_SMALL_COMPARE(T, <=, __hle) TIDE_SMALL_COMPARE(T, >, __hgt) TIDE_SMALL_COMPARE(T, >=, __hge) \\\n"           \
  "  TIDE_SMALL_PAIR(T, T2, __hadd, +) TIDE_SMALL_PAIR(T, T2, __hsub, -) TIDE_SMALL_PAIR(T, T2, __hmul, *) \\\n"       \
  "  inline T __hdiv(T a, T b) { return a / b; } inline T2 __h2div(T2 a, T2 b) { return {a.x / b.x, a.y / b.y}; } "    \
  "\\\n"                                                                                                               \
  "  inline T2 operator/(T2 a, T2 b) { return __h2div(a, b); } \\\n"                                                   \
  "  inline T __hfma(T a, T b, T c) { return T((float)((double)(float)a * (float)b + (double)(float)c)); } \\\n"       \
  "  inline T2 __hfma2(T2 a, T2 b, T2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; } \\\n"              \
  "  inline T2 __hneg2(T2 a) { return {-a.x, -a.y}; } \\\n"                                                            \
  "  inline T __hmax(T a, T b) { return T(std::fmax((float)a, (float)b)); } \\\n"                                      \
  "  inline T __hmin(T a, T b) { return T(std::fmin((float)a, (float)b)); } \\\n"                                      \
  "  inline bool __hisnan(T a) { return std::isnan((float)a); } inline int __hisinf(T a) { return "                    \
  "std::isinf((float)a) ? ((float)a > 0 ? 1 : -1) : 0; } \\\n"                                                         \
  "  TIDE_SMALL_UNARY(T, __hneg, -x) TIDE_SMALL_UNARY(T, __habs, std::fabs(x)) TIDE_SMALL_UNARY(T, hexp, "             \
  "std::exp(x)) \\\n"                                                                                                  \
  "  TIDE_SMALL_UNARY(T, hexp2, std::exp2(x)) TIDE_SMALL_UNARY(T, hexp10, std::pow(10.0, (double)x)) \\\n"             \
  "  TIDE_SMALL_UNARY(T, hlog, std::log(x)) TIDE_SMALL_UNARY(T, hlog2, std::log2(x)) TIDE_SMALL_UNARY(T, hlog10, "     \
  "std::log10(x)) \\\n"                                                                                                \
  "  TIDE_SMALL_UNARY(T, hsqrt, std::sqrt(x)) TIDE_SMALL_UNARY(T, hrsqrt, 1 / std::sqrt(x)) TIDE_SMALL_UNARY(T, "      \
  "hrcp, 1 / x) \\\n"                                                                                                  \
  "  TIDE_SMALL_UNARY(T, hsin, std::sin(x)) TIDE_SMALL_UNARY(T, hcos, std::cos(x)) TIDE_SMALL_UNARY(T, htanh, "        \
  "std::tanh(x)) \\\n"                                                                                                 \
  "  TIDE_SMALL_UNARY(T, hfloor, std::floor(x)) TIDE_SMALL_UNARY(T, hceil, std::ceil(x)) TIDE_SMALL_UNARY(T, htrunc, " \
  "std::trunc(x)) \\\n"                                                                                                \
  "  TIDE_SMALL_UNARY(T, hrint, std::rint(x))\n"                                                                       \
  "TIDE_SMALL_ALL(__half, __half2) TIDE_SMALL_ALL(__nv_bfloat16, __nv_bfloat162)\n"                                    \
  "typedef __half2 half2;\n"                                                                                           \
  "typedef __nv_bfloat162 nv_bfloat162;\n"                                                                             \
  "#define TIDE_HALF_FROM(name, X) inline __half __##name##2half(X x) { return __half((float)x); } \\\n"               \
  "  inline __half __##name##2half_rn(X x) { return __half((float)x); } \\\n"                                          \
  "  inline __nv_bfloat16 __##name##2bfloat16(X x) { return __nv_bfloat16((float)x); } \\\n"                           \
  "  inline __nv_bfloat16 __##name##2bfloat16_rn(X x) { return __nv_bfloat16((float)x); }\n"                           \
  "#define TIDE_HALF_TO(name, X) inline X __half2##name##_rn(__half x) { return (X)std::rint((float)x); } \\\n"        \
  "  inline X __half2##name##_rz(__half x) { return (X)(float)x; } \\\n"                                               \
  "  inline X __bfloat162##name##_rn(__nv_bfloat16 x) { return (X)std::rint((float)x); } \\\n"                         \
  "  inline X __bfloat162##name##_rz(__nv_bfloat16 x) { return (X)(float)x; }\n"                                       \
  "TIDE_HALF_FROM(double, double) TIDE_HALF_FROM(int, int) TIDE_HALF_FROM(uint, unsigned) TIDE_HALF_FROM(ll, long "    \
  "long)\n"                                                                                                            \
  "TIDE_HALF_FROM(short, short) TIDE_HALF_TO(int, int) TIDE_HALF_TO(uint, unsigned) TIDE_HALF_TO(ll, long long) "      \
  "TIDE_HALF_TO(short, short)\n"                                                                                       \
  "inline __half __float2half_rn(float x) { return x; }\n"                                                             \
  "inline __nv_bfloat16 __float2bfloat16_rn(float x) { return x; }\n"                                                  \
  "inline unsigned short __half_as_ushort(__half x) { return x.b.v; }\n"                                               \
  "inline short __half_as_short(__half x) { return (short)x.b.v; }\n"                                                  \
  "inline __half __ushort_as_half(unsigned short x) { __half y; y.b.v = x; return y; }\n"                              \
  "inline __half __short_as_half(short x) { return __ushort_as_half((unsigned short)x); }\n"                           \
  "inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.b.v; }\n"                                    \
  "inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { __nv_bfloat16 y; y.b.v = x; return y; }\n"            \
  "inline __half2 make_half2(__half x, __half y) { return {x, y}; }\n"                                                 \
  "inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }\n"                                             \
  "inline __half2 __half2half2(__half x) { return {x, x}; }\n"                                                         \
  "inline __half2 __float2half2_rn(float x) { return {x, x}; }\n"                                                      \
  "inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }\n"                                            \
  "inline __half2 __float22half2_rn(float2 x) { return {x.x, x.y}; }\n"                                                \
  "inline float2 __half22float2(__half2 x) { return {x.x, x.y}; }\n"                                                   \
  "inline __half __low2half(__half2 x) { return x.x; }\n"                                                              \
  "inline __half __high2half(__half2 x) { return x.y; }\n"                                                             \
  "inline float __low2float(__half2 x) { return x.x; }\n"                                                              \
  "inline float __high2float(__half2 x) { return x.y; }\n"                                                             \
  "inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }\n"                        \
  "inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }\n"                    \
  "inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 x) { return {x, x}; }\n"                                   \
  "inline __nv_bfloat162 __float2bfloat162_rn(float x) { return {x, x}; }\n"                                           \
  "inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }\n"                                 \
  "inline __nv_bfloat162 __float22bfloat162_rn(float2 x) { return {x.x, x.y}; }\n"                                     \
  "inline float2 __bfloat1622float2(__nv_bfloat162 x) { return {x.x, x.y}; }\n"                                        \
  "inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 x) { return x.x; }\n"                                            \
  "inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 x) { return x.y; }\n"                                           \
  "#endif\n"

#define THREADS                                                                                                        \
  "#define TIDE_GRID(d) gridDim = dim3(d[0], d[1], d[2]); blockDim = dim3(d[3], d[4], d[5]);\n"                        \
  "#define TIDE_BLOCK(b, d) blockIdx = {(unsigned)(b % d[0]), (unsigned)(b / d[0] % d[1]), (unsigned)(b / d[0] / "     \
  "d[1])};\n"                                                                                                          \
  "struct tide_hooks { void *self; char *shared; int (*block)(void *, unsigned, void (*)(const void *, unsigned), "    \
  "const void *);\n"                                                                                                   \
  "  void (*wait)(void *); unsigned (*vote)(void *, int, unsigned *); void (*leave)(void *);\n"                        \
  "  bool (*stops)(void *); };\n"                                                                                      \
  "static thread_local const tide_hooks *tide_hook;\n"                                                                 \
  "static thread_local char *tide_shared;\n"                                                                           \
  "template <class T> struct tide_dynamic { operator T *() const { return (T *)tide_shared; } };\n"                    \
  "#define TIDE_DYNAMIC(T, name) T *const name = (T *)tide_shared;\n"                                                  \
  "#define TIDE_DYNAMIC_GLOBAL(T, name) static const tide_dynamic<T> name{};\n"                                        \
  "#ifdef __clang__\n"                                                                                                 \
  "#define TIDE_LAMBDA __attribute__((always_inline)) mutable\n"                                                       \
  "#else\n"                                                                                                            \
  "#define TIDE_LAMBDA mutable __attribute__((always_inline))\n"                                                       \
  "#endif\n"                                                                                                           \
  "static thread_local bool tide_ran;\n"                                                                               \
  "#define TIDE_EACH_THREAD for (unsigned z = 0; z < n.z; z++) for (unsigned y = 0; y < n.y; y++) for (unsigned x = "  \
  "0; x < n.x; x++)\n"                                                                                                 \
  "template <class F> TIDE_INLINE void tide_run(F f) {\n"                                                              \
  "  const uint3 b = blockIdx;\n"                                                                                      \
  "  const dim3 n = blockDim, g = gridDim;\n"                                                                          \
  "  tide_ran = true;\n"                                                                                               \
  "  if ((unsigned long long)b.x * n.x < 0x7ffff000u && b.x * n.x < 0x7ffff000u && n.x <= 1024) {\n"                   \
  "    TIDE_EACH_THREAD f(uint3{x, y, z}, b, n, g);\n"                                                                 \
  "  } else {\n"                                                                                                       \
  "    TIDE_EACH_THREAD f(uint3{x, y, z}, b, n, g);\n"                                                                 \
  "  }\n"                                                                                                              \
  "}\n"                                                                                                                \
  "#ifdef TIDE_EACH_ID\n"                                                                                              \
  "#define TIDE_SET_ID ::threadIdx = threadIdx;\n"                                                                     \
  "#else\n"                                                                                                            \
  "#define TIDE_SET_ID\n"                                                                                              \
  "#endif\n"                                                                                                           \
  "#define TIDE_BODY tide_run([=](const uint3 threadIdx, const uint3 blockIdx, const dim3 blockDim, const dim3 "       \
  "gridDim) TIDE_LAMBDA { \\\n"                                                                                        \
  "  TIDE_SET_ID [=]() TIDE_LAMBDA {\n"                                                                                \
  "#define TIDE_BODY_END }(); });\n"                                                                                   \
  "#define TIDE_FOR_OTHERS(d) for (threadIdx.z = 0; threadIdx.z < d[5]; threadIdx.z++) \\\n"                           \
  "  for (threadIdx.y = 0; threadIdx.y < d[4]; threadIdx.y++) \\\n"                                                    \
  "    for (threadIdx.x = 0; threadIdx.x < d[3]; threadIdx.x++) \\\n"                                                  \
  "      if (threadIdx.x | threadIdx.y | threadIdx.z)\n"                                                               \
  "#define TIDE_SET_THREAD(i) threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / "             \
  "blockDim.y};\n"                                                                                                     \
  "#ifdef TIDE_FIBERS\n"                                                                                               \
  "inline void __syncthreads() { uint3 me = threadIdx; tide_hook->wait(tide_hook->self); threadIdx = me; }\n"          \
  "inline int tide_vote(int yes, unsigned *voters) {\n"                                                                \
  "  uint3 me = threadIdx;\n"                                                                                          \
  "  int n = (int)tide_hook->vote(tide_hook->self, yes != 0, voters);\n"                                               \
  "  threadIdx = me;\n"                                                                                                \
  "  return n;\n"                                                                                                      \
  "}\n"                                                                                                                \
  "inline int __syncthreads_count(int yes) { unsigned n; return tide_vote(yes, &n); }\n"                               \
  "inline int __syncthreads_or(int yes) { unsigned n; return tide_vote(yes, &n) != 0; }\n"                             \
  "inline int __syncthreads_and(int yes) { unsigned n; return tide_vote(yes, &n) == (int)n; }\n"                       \
  "#endif\n"

/* An assertion that fails ends the kernel and not the process, and says what a GPU says. The C library's own function
 * is hidden behind one of the same name, so that it does not matter who includes <assert.h>. */
#define ASSERTIONS                                                                                                     \
  "static thread_local jmp_buf tide_end;\n"                                                                            \
  "#ifdef __GLIBC__\n"                                                                                                 \
  "extern \"C\" __attribute__((noreturn, visibility(\"hidden\")))\n"                                                   \
  "void __assert_fail(const char *what, const char *file, unsigned line, const char *function) noexcept {\n"           \
  "  char text[200];\n"                                                                                                \
  "  size_t n = 0;\n"                                                                                                  \
  "  while (*what && n + 1 < sizeof text) {\n"                                                                         \
  "    while (!strncmp(what, \"tide_by->*\", 10) || !strncmp(what, \"TIDE_BY \", 8)) what += *what == 'T' ? 8 : 10;\n" \
  "    text[n++] = *what++;\n"                                                                                         \
  "  }\n"                                                                                                              \
  "  text[n] = 0;\n"                                                                                                   \
  "  fprintf(stderr, \"%s:%u: %.*s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\\n\", file, line,\n"  \
  "          (int)(strchr(function, ')') ? strchr(function, ')') + 1 - function : strlen(function)), function,\n"      \
  "          blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, text);\n"                      \
  "#ifdef TIDE_FIBERS\n"                                                                                               \
  "  tide_hook->leave(tide_hook->self);\n"                                                                             \
  "#endif\n"                                                                                                           \
  "  longjmp(tide_end, 1);\n"                                                                                          \
  "}\n"                                                                                                                \
  "#endif\n"                                                                                                           \
  "#include <cassert>\n"                                                                                               \
  "#define TIDE_KERNEL(loop) extern \"C\" __attribute__((visibility(\"default\"))) \\\n"                               \
  "  int tide_kernel(const void *packed, const unsigned *dims, long long begin, long long end, const void *hooks) { "  \
  "\\\n"                                                                                                               \
  "    tide_hook = (const tide_hooks *)hooks; \\\n"                                                                    \
  "    tide_shared = tide_hook->shared; \\\n"                                                                          \
  "    if (setjmp(tide_end)) return 1; \\\n"                                                                           \
  "    return loop(packed, dims, begin, end); }\n"

#define FUNCTIONS                                                                                                      \
  "template <class T> inline T __ldg(const T *p) { return *p; }\n"                                                     \
  "inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }\n"                                         \
  "inline void __threadfence_block() {}\n"                                                                             \
  "inline int __popc(unsigned x) { return __builtin_popcount(x); }\n"                                                  \
  "inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }\n"                                    \
  "inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }\n"                                          \
  "inline int __ffs(int x) { return __builtin_ffs(x); }\n"                                                             \
  "inline int __float_as_int(float x) { return tide_bits<int>(x); }\n"                                                 \
  "inline unsigned __float_as_uint(float x) { return tide_bits<unsigned>(x); }\n"                                      \
  "inline float __int_as_float(int x) { return tide_bits<float>(x); }\n"                                               \
  "inline float __uint_as_float(unsigned x) { return tide_bits<float>(x); }\n"                                         \
  "inline long long __double_as_longlong(double x) { return tide_bits<long long>(x); }\n"                              \
  "inline double __longlong_as_double(long long x) { return tide_bits<double>(x); }\n"                                 \
  "template <class T> struct tide_same { typedef T type; };\n"                                                         \
  "template <class T, class F> inline T tide_atomic(T *p, F f) {\n"                                                    \
  "  T old, now;\n  __atomic_load(p, &old, __ATOMIC_SEQ_CST);\n"                                                       \
  "  do now = f(old); while (!__atomic_compare_exchange(p, &old, &now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));\n" \
  "  return old;\n}\n"                                                                                                 \
  "#define TIDE_ATOMIC(name, expr) template <class T> inline T name(T *p, typename tide_same<T>::type x) { \\\n"       \
  "  return tide_atomic(p, [=](T old) -> T { return (expr); }); }\n"                                                   \
  "TIDE_ATOMIC(atomicAdd, old + x) TIDE_ATOMIC(atomicSub, old - x) TIDE_ATOMIC(atomicExch, x)\n"                       \
  "TIDE_ATOMIC(atomicMin, old < x ? old : x) TIDE_ATOMIC(atomicMax, old > x ? old : x)\n"                              \
  "TIDE_ATOMIC(atomicAnd, old & x) TIDE_ATOMIC(atomicOr, old | x) TIDE_ATOMIC(atomicXor, old ^ x)\n"                   \
  "TIDE_ATOMIC(atomicInc, old >= x ? 0 : old + 1) TIDE_ATOMIC(atomicDec, old == 0 || old > x ? x : old - 1)\n"         \
  "template <class T> inline T atomicCAS(T *p, typename tide_same<T>::type from, typename tide_same<T>::type to) {\n"  \
  "  return tide_atomic(p, [=](T old) -> T { return old == from ? to : old; }); }\n"                                   \
  "template <class T> struct tide_plain { typedef T type; };\n"                                                        \
  "template <class T> struct tide_plain<const T> { typedef T type; };\n"                                               \
  "template <class T> inline T tide_at(const char *p) {\n"                                                             \
  "  typename tide_plain<T>::type x; memcpy((void *)&x, p, sizeof x); return x; }\n"

const char tide__cxx_raw[] = VECTORS SMALL_FLOATS FUNCTIONS HEADERS THREADS ASSERTIONS;
