/* cxx.h: run-time kernels of the CPU, which the simulated devices use too. */
#ifndef TIDE_CPU_CXX_H
#define TIDE_CPU_CXX_H

#include "backend/backend.h"
#include "base/base.h"

/* ---- cxx.c: the system's C++ compiler ---- */

tide_status tide__cxx_identify(char *path, size_t path_size, char *version, size_t version_size);
tide_status tide__cxx_arch(char *text, size_t size, int device);
tide_status tide__cxx_compile(tide_image *out, char **log, const char *source, const char *const *options, int n,
                              const char *arch);
tide_status tide__cxx_load(void **module, const void *image, size_t bytes, int device);
void tide__cxx_unload(void *module, int device);
tide_status tide__cxx_function(void **out, tide_function_info *info, void *module, const char *name, int device);
/* mail: what the kernel has reported. */
tide_status tide__cxx_run(void *function, const tide_launch *a, tide_mail *mail);
tide_status tide__cxx_launch(tide_stream *stream, void *function, const tide_launch *a);
enum { TIDE__CXX_FAILED = 1, TIDE__CXX_NO_MEMORY }; /* what a kernel gives where it does not end well */

/* ---- fused.c ---- */

/* A kernel whose packed arguments are a tide_fused_program. */
int tide__cpu_fused(const void *packed, const uint32_t *dims, long long begin, long long end, const void *hooks);

/* ---- blocks_read.c: programs of the block interpreter ---- */

tide_status tide__blocks_new(void **out, const char *text, size_t size);
void tide__blocks_hold(void *blocks); /* once more: every hold and the first one end with a free */
void tide__blocks_free(void *blocks);

extern const tide_compiler tide__cpu_compiler;

#endif
