/* cxx.h: run-time kernels of the CPU, which the simulated devices use too. */
#pragma once

#include "backend/backend.h"
#include "base/base.h"

/* ---- cxx.c: the system's C++ compiler ---- */

/* mail: what the kernel has reported. */
tide_status tide__cxx_run(void *function, const tide_launch *a, tide_mail *mail);
enum { TIDE__CXX_FAILED = 1, TIDE__CXX_NO_MEMORY }; /* what a kernel gives where it does not end well */

/* ---- fused.c ---- */

/* A kernel whose packed arguments are a tide_fused_program. */
int tide__cpu_fused(const void *packed, const uint32_t *dims, long long begin, long long end, const void *hooks);

/* ---- blocks_read.c: programs of the block interpreter ---- */

tide_status tide__blocks_new(void **out, const char *text, size_t size);
void tide__blocks_hold(void *blocks); /* once more: every hold and the first one end with a free */
void tide__blocks_free(void *blocks);

extern const tide_image_loader tide__cpu_loader;
extern const tide_compiler tide__cpu_compiler;
