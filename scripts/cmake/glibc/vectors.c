/* vectors.c: libmvec's functions where the machine has them, the scalar ones lane by lane where it has not.
 *
 * Loops over elements call functions such as _ZGVdN4v_acos: four doubles in AVX2's registers. Most came with
 * glibc 2.35, and a binary that names them does not start with an older one. Linked with --wrap, each call goes through
 * a table instead, as it would through the linker's own; it is filled when this code is loaded. CMake reads the names
 * off the rows below.
 *
 * Invariant: no entry is empty: what libmvec lacks is a function that calls the scalar one for each lane. */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

/* Number, arguments, name: those that core/backend/cpu/vector.h declares. */
#define ROWS(X)                                                                                                        \
  X(0, v, exp)                                                                                                         \
  X(1, v, exp2)                                                                                                        \
  X(2, v, expm1)                                                                                                       \
  X(3, v, log)                                                                                                         \
  X(4, v, log2)                                                                                                        \
  X(5, v, log10)                                                                                                       \
  X(6, v, log1p)                                                                                                       \
  X(7, v, sin)                                                                                                         \
  X(8, v, cos)                                                                                                         \
  X(9, v, tan)                                                                                                         \
  X(10, v, asin)                                                                                                       \
  X(11, v, acos)                                                                                                       \
  X(12, v, atan)                                                                                                       \
  X(13, v, sinh)                                                                                                       \
  X(14, v, cosh)                                                                                                       \
  X(15, v, tanh)                                                                                                       \
  X(16, v, asinh)                                                                                                      \
  X(17, v, acosh)                                                                                                      \
  X(18, v, atanh)                                                                                                      \
  X(19, v, erf)                                                                                                        \
  X(20, v, erfc)                                                                                                       \
  X(21, vv, pow)                                                                                                       \
  X(22, vv, atan2)                                                                                                     \
  X(23, vv, hypot)

enum { FUNCTIONS = 24, TWO_ARGUMENTS = 21, SETS = 3 };

/* An entry's number is ((set * FUNCTIONS) + function) * 2, and 1 more for float: SSE2, AVX2, AVX-512. */
__attribute__((visibility("hidden"))) void *tide__vectors[SETS * FUNCTIONS * 2];

#define STUB(symbol, number)                                                                                           \
  __asm__(".text\n"                                                                                                    \
          ".globl __wrap_" symbol "\n"                                                                                 \
          ".hidden __wrap_" symbol "\n"                                                                                \
          ".type __wrap_" symbol ",@function\n"                                                                        \
          "__wrap_" symbol ": movl $(" number "),%eax\n"                                                               \
          "jmp *tide__vectors+8*(" number ")(%rip)\n"                                                                  \
          ".size __wrap_" symbol ",.-__wrap_" symbol "\n");
#define STUBS(i, arguments, name)                                                                                      \
  STUB("_ZGVbN2" #arguments "_" #name, #i "*2")                                                                        \
  STUB("_ZGVbN4" #arguments "_" #name "f", #i "*2+1")                                                                  \
  STUB("_ZGVdN4" #arguments "_" #name, "48+" #i "*2")                                                                  \
  STUB("_ZGVdN8" #arguments "_" #name "f", "48+" #i "*2+1")                                                            \
  STUB("_ZGVeN8" #arguments "_" #name, "96+" #i "*2")                                                                  \
  STUB("_ZGVeN16" #arguments "_" #name "f", "96+" #i "*2+1")
ROWS(STUBS)

typedef void any(void);
#define FUNCTION(i, arguments, name) {#name, {(any *)name, (any *)name##f}},
static const struct {
  const char *name;
  any *scalar[2];
} rows[FUNCTIONS] = {ROWS(FUNCTION)};

/* The lanes of x, and of y where there are two arguments; the results go to x. */
__attribute__((visibility("hidden"))) void tide__lane_by_lane(void *x, const void *y, unsigned number);
void tide__lane_by_lane(void *x, const void *y, unsigned number) {
  unsigned set = number / (FUNCTIONS * 2), row = number / 2 % FUNCTIONS;
  any *scalar = rows[row].scalar[number % 2];
  if (number % 2) {
    float *to = x;
    const float *second = y;
    for (unsigned i = 0; i < 4u << set; i++)
      to[i] =
          row < TWO_ARGUMENTS ? ((float (*)(float))scalar)(to[i]) : ((float (*)(float, float))scalar)(to[i], second[i]);
  } else {
    double *to = x;
    const double *second = y;
    for (unsigned i = 0; i < 2u << set; i++)
      to[i] = row < TWO_ARGUMENTS ? ((double (*)(double))scalar)(to[i])
                                  : ((double (*)(double, double))scalar)(to[i], second[i]);
  }
}

/* What an entry holds where libmvec has no function: registers to memory, the lanes, and back. */
#define LANES(set, move, reg, clear)                                                                                   \
  __asm__(".text\n"                                                                                                    \
          ".type lanes_" #set ",@function\n"                                                                           \
          "lanes_" #set ": pushq %rbp\n"                                                                               \
          "movq %rsp,%rbp\n"                                                                                           \
          "subq $128,%rsp\n"                                                                                           \
          "andq $-64,%rsp\n" move " %" reg "0,(%rsp)\n" move " %" reg "1,64(%rsp)\n" clear "movq %rsp,%rdi\n"          \
          "leaq 64(%rsp),%rsi\n"                                                                                       \
          "movl %eax,%edx\n"                                                                                           \
          "call tide__lane_by_lane\n" move " (%rsp),%" reg "0\n"                                                       \
          "leave\n"                                                                                                    \
          "ret\n"                                                                                                      \
          ".size lanes_" #set ",.-lanes_" #set "\n");                                                                  \
  extern any lanes_##set __attribute__((visibility("hidden")));
LANES(0, "movaps", "xmm", "")
LANES(1, "vmovaps", "ymm", "vzeroupper\n")
LANES(2, "vmovaps", "zmm", "vzeroupper\n")

__attribute__((constructor(101))) static void fill(void) {
  static any *const lanes[SETS] = {lanes_0, lanes_1, lanes_2};
  void *library = dlopen("libmvec.so.1", RTLD_NOW);
  for (unsigned n = 0; n < SETS * FUNCTIONS * 2; n++) {
    unsigned set = n / (FUNCTIONS * 2), row = n / 2 % FUNCTIONS;
    char symbol[32];
    snprintf(symbol, sizeof symbol, "_ZGV%cN%u%s_%s%s", "bde"[set], (n % 2 ? 4u : 2u) << set,
             row < TWO_ARGUMENTS ? "v" : "vv", rows[row].name, n % 2 ? "f" : "");
    void *found = library ? dlsym(library, symbol) : NULL;
    tide__vectors[n] = found ? found : (void *)(uintptr_t)lanes[set];
  }
}
