/* memory_test.h: what the tests of the allocator share: its private header, sizes, the state of a device. */
#pragma once

#include <stdlib.h>

#include "memory/allocator.h"
#include "check.h"
#include "tide/sim.h"

enum { ALL = TIDE_POOL_ALL, LARGE = TIDE_POOL_LARGE, SMALL = TIDE_POOL_SMALL };
static const size_t MiB = (size_t)1 << 20;

static inline void start(int devices, size_t memory) {
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = devices, .sim_memory = memory}));
}

static inline tide_stream *current(int device) {
  tide_stream *s = NULL;
  OK(tide_current_stream(&s, device));
  return s;
}

static inline tide_memory_stats stats(int device) {
  tide_memory_stats s;
  OK(tide_memory_get_stats(&s, device));
  return s;
}
