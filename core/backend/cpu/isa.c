/* isa.c: the choice of the inner loops, made once by what the processor says that it has.
 *
 * Invariant: the pointer is one of the tables for ever after, and these are filled; kernels read it once a call. */
#include "isa.h"

#if defined(__x86_64__)
#  include <cpuid.h>
#endif

static _Atomic(const tide__isa *) chosen;

#if defined(__x86_64__)
/* Not every compiler's builtin knows this name. */
static bool has_f16c(void) {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

/* The tables that this processor can run, best first; returns how many. */
static int usable(const tide__isa *list[3]) {
  int n = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
              __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") && has_f16c();
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl");
  if (avx512) list[n++] = &tide__isa_avx512;
  if (avx2) list[n++] = &tide__isa_avx2;
#endif
  list[n++] = &tide__isa_base;
  return n;
}

static void fill(void) {
  const tide__isa *list[3];
  int n = usable(list);
  for (int i = 0; i < n; i++) list[i]->fill();
  atomic_store_explicit(&chosen, list[0], memory_order_release);
}

static pthread_once_t filled = PTHREAD_ONCE_INIT;

const tide__isa *tide__isa_get(void) {
  const tide__isa *now = atomic_load_explicit(&chosen, memory_order_acquire);
  if (now) return now;
  pthread_once(&filled, fill);
  return atomic_load_explicit(&chosen, memory_order_acquire);
}

bool tide__isa_set(const char *name) {
  const tide__isa *list[3];
  int n = usable(list);
  pthread_once(&filled, fill);
  for (int i = 0; i < n; i++) {
    if (name && strcmp(name, list[i]->name) != 0) continue;
    atomic_store_explicit(&chosen, list[i], memory_order_release);
    return true;
  }
  return false;
}
