/* jit.h: run-time kernels of the CUDA backend. */
#pragma once

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

/* The driver's functions for code that is made at run time. */
typedef struct tide__driver {
  CUresult (*load)(CUmodule *out, const void *image);
  CUresult (*unload)(CUmodule module);
  CUresult (*function)(CUfunction *out, CUmodule module, const char *name);
  CUresult (*get_attribute)(int *out, CUfunction_attribute which, CUfunction function);
  CUresult (*set_attribute)(CUfunction function, CUfunction_attribute which, int value);
  CUresult (*launch)(const CUlaunchConfig *config, CUfunction function, void **params, void **extra);
  CUresult (*link_create)(unsigned n, CUjit_option *options, void **values, CUlinkState *out);
  CUresult (*link_add)(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name, unsigned n,
                       CUjit_option *options, void **values);
  CUresult (*link_complete)(CUlinkState state, void **image, size_t *size);
  CUresult (*link_destroy)(CUlinkState state);
} tide__driver;
extern tide__driver tide__cuda_driver;
tide_status tide__cuda_driver_ready(void); /* finds them; LIBRARY where one is missing */
extern const tide_compiler tide__cuda_compiler;
