/* operand.h: what is told of the tensors that an operation touches: to observers, and by graphs' outputs. Private to
 * core. */
#pragma once

#include "handle.h"

/* STATE when x is a handle of tide_graph_output whose values a later replay has overwritten. */
tide_status tide__replay_check_slow(const tide_tensor *x, const char *what);
static inline tide_status tide__replay_check(const tide_tensor *x, const char *what) {
  return __builtin_expect(x->replay != 0, 0) ? tide__replay_check_slow(x, what) : TIDE_OK;
}

/* Between tide__observe_operands and tide__observe_launch; a read of values that are gone refuses the launch. */
void tide__observe_operand(const tide_tensor *x, bool write);
/* Likewise head.ptr[k] of a kernel: kernel.def says whether it is written. */
void tide__observe_argument(const tide_tensor *x, int k);
static inline void tide__observe_copy(const tide_tensor *dst, const tide_tensor *src) {
  tide__observe_operands();
  tide__observe_operand(dst, true);
  tide__observe_operand(src, false);
}
/* The host reads x, which lies in its own memory, by no kernel. */
tide_status tide__observe_read_slow(const tide_tensor *x);
static inline tide_status tide__observe_read(const tide_tensor *x) {
  return tide__sync_watched() && x->storage->tracked ? tide__observe_read_slow(x) : TIDE_OK;
}
