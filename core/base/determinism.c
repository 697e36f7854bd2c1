/* determinism.c: whether equal programs must give equal results.
 *
 * Nearly everything does always: sums are merged in a fixed order, products have a workspace of their own. What depends
 * on which thread comes first heeds the setting: values that a scatter brings to one element meet in order
 * (kernels/index/indexed_order.cu), blocks of a raw kernel run one after the other on the CPU (backend/cpu/jit/cxx.c),
 * and a raw kernel whose atomics depend on the order is refused on an accelerator. The setting is the process's. */
#include "determinism.h"

_Atomic int tide__determinism;

tide_status tide_set_deterministic(tide_determinism mode) {
  if (mode != TIDE_DETERMINISM_OFF && mode != TIDE_DETERMINISM_WARN && mode != TIDE_DETERMINISM_ON)
    return tide__fail(TIDE_ARGUMENT, "set_deterministic: wrong mode, got %d, expected OFF, WARN or ON", (int)mode);
  atomic_store_explicit(&tide__determinism, (int)mode, memory_order_relaxed);
  return TIDE_OK;
}

tide_determinism tide_get_deterministic(void) {
  return (tide_determinism)atomic_load_explicit(&tide__determinism, memory_order_relaxed);
}

tide_status tide__determinism_refuse(const char *what, const char *why) {
  char text[400];
  snprintf(text, sizeof text, "%s: the result depends on the order of threads: %s", what, why);
  if (tide_get_deterministic() == TIDE_DETERMINISM_ON)
    return tide__fail(TIDE_SUPPORT, "%s, expected use_deterministic_algorithms(false), or warn_only", text);
  tide__warn(text);
  return TIDE_OK;
}
