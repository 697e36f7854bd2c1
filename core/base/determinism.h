/* determinism.h: what heeds tide_set_deterministic. */
#pragma once

#include <stdio.h>

#include "base.h"

extern _Atomic int tide__determinism; /* a tide_determinism */

static inline bool tide__deterministic(void) {
  return atomic_load_explicit(&tide__determinism, memory_order_relaxed) != TIDE_DETERMINISM_OFF;
}
/* Where there is no deterministic way: SUPPORT, or a warning where it is only asked to warn. */
tide_status tide__determinism_refuse(const char *what, const char *why);
