/* jit.h: run-time kernels of the CUDA backend. */
#ifndef TIDE_BACKEND_CUDA_JIT_H
#define TIDE_BACKEND_CUDA_JIT_H

#include "internal.h"

/* ---- nvrtc.c ---- */

tide_status tide__nvrtc_identify(char *path, size_t path_size, char *version, size_t version_size);
tide_status tide__nvrtc_compile(tide_image *out, char **log, const char *source, const char *const *options, int n,
                                const char *arch);

/* ---- assembler.c ---- */

tide_status tide__driver_identify(char *path, size_t path_size, char *version, size_t version_size);
tide_status tide__driver_assemble(tide_image *out, char **log, const char *source, const char *const *options, int n,
                                  const char *arch);

/* ---- ptx.c ---- */

enum { TIDE_CUDA_THREADS = 256 }; /* of a block of an elementwise kernel */
char *tide__cuda_fused_text(const tide_fused_program *p, const tide_layout *l, const char *arch);

/* ---- jit.c ---- */

extern const tide_compiler tide__cuda_compiler;

#endif
