/* settings.h: what may be set about memory, as the allocators read it. */
#pragma once

#include "memory.h"

enum { TIDE__SIZE_CLASSES = 16 }; /* sizes from 1 MiB on, a power of two each */

typedef struct tide__settings {
  bool async;           /* backend:cudaMallocAsync */
  bool caching;         /* not TIDE_NO_CUDA_MEMORY_CACHING */
  bool expandable;      /* segments grow where the driver can */
  bool divided;         /* some division is above 1 */
  size_t max_split;     /* SIZE_MAX: no limit */
  size_t pinned_most;   /* SIZE_MAX: not set */
  double collect_above; /* of the bytes that may be used; 0: off */
  double fraction;      /* of the device; below 0: not set */
  uint8_t division[TIDE__SIZE_CLASSES];
} tide__settings;

/* Those in force; reads the environment when it is asked first, and fails if that cannot be understood. */
tide_status tide__settings_get(tide__settings *out);
void tide__settings_set_caching(bool on);
/* As the statistics have it: -1 without a limit. */
static inline int64_t tide__settings_max_split(const tide__settings *s) {
  return s->max_split == SIZE_MAX ? -1 : (int64_t)s->max_split;
}
/* Rounded as roundup_power2_divisions says, or else to a multiple of `unit`. */
size_t tide__settings_round(const tide__settings *s, size_t bytes, size_t unit);
