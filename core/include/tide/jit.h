/* tide/jit.h: kernels from text: elementwise functions in C++ for any dtypes and layouts, and raw CUDA C kernels.
 * Conventions as in tide.h. On accelerators the text is compiled by NVRTC, for the CPU and simulated devices by the
 * system's C++ compiler; both are opened only when something is in no cache. */
#ifndef TIDE_JIT_H
#define TIDE_JIT_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* ---- elementwise functions ---- */

enum { TIDE_JIT_TENSORS = 8, TIDE_JIT_SCALARS = 16 }; /* inputs and outputs, scalar parameters */
typedef struct tide_jit tide_jit;

/* A function of tensors, element by element. The last function template of `code` is the entry: its parameters are
 * inputs by value, or scalars where `names` names them, with their defaults. outputs 0: it returns its one result; else
 * it has that many results by reference. Compiles nothing yet; but on an accelerator that is in use the kernel for
 * contiguous inputs, of float32 or of the dtype that was wanted last, is begun in the background (TIDE_KERNEL_AHEAD=0:
 * it is not). */
TIDE_API tide_status tide_jit_new(tide_jit **out, const char *code, const char *const *names,
                                  const tide_scalar *defaults, int scalars, int outputs);
/* Frees the handle; NULL is allowed. Code that was made stays loaded until tide ends. */
TIDE_API void tide_jit_free(tide_jit *jit);
/* The name of the entry; as long as the handle lives. */
TIDE_API const char *tide_jit_name(const tide_jit *jit);
/* How many tensors it takes. */
TIDE_API int tide_jit_inputs(const tide_jit *jit);
/* How many tensors it gives. */
TIDE_API int tide_jit_outputs(const tide_jit *jit);
/* How many scalar parameters it has. */
TIDE_API int tide_jit_scalars(const tide_jit *jit);
/* The name of scalar parameter k, or NULL. */
TIDE_API const char *tide_jit_scalar_name(const tide_jit *jit, int k);
/* The default of scalar parameter k. */
TIDE_API tide_scalar tide_jit_scalar_default(const tide_jit *jit, int k);
/* Applies it to n tensors of one device, which broadcast and are promoted to their common dtype; it computes in this
 * one (16-bit floats in float32) and which the results have. scalars: all of them, or NULL for the defaults. Compiles
 * where dtypes and layout are new. out: room for every output; on failure none is given. */
TIDE_API tide_status tide_jit_call(tide_tensor **out, tide_jit *jit, tide_tensor *const *in, int n,
                                   const tide_scalar *scalars);
/* The same into tensors that are there, one for each output: of the results' size, or empty, which are given it; of
 * another dtype they are converted. An input may be one of them. */
TIDE_API tide_status tide_jit_call_into(tide_tensor *const *into, tide_jit *jit, tide_tensor *const *in, int n,
                                        const tide_scalar *scalars);
/* Would this call find its kernel compiled? If not, that begins on another thread, and a
 * later call of this or of the function reports a compiler's error. Where waits are refused (tide_refuse_waits, frames)
 * a call that needs a compiler fails with STATE and begins, too. Nothing is queued, but results are allocated and
 * freed. into: as in tide_jit_call_into, or NULL. */
TIDE_API tide_status tide_jit_ready(bool *out, tide_jit *jit, tide_tensor *const *in, int n, tide_tensor *const *into);

/* ---- raw kernels ---- */

typedef struct tide_raw_kernel tide_raw_kernel;
typedef struct tide_raw_kernel_bound tide_raw_kernel_bound;

typedef enum tide_param_kind {
  TIDE_PARAM_POINTER,
  TIDE_PARAM_INTEGER,
  TIDE_PARAM_FLOAT,
  TIDE_PARAM_BOOL
} tide_param_kind;

/* A parameter as the source declares it. */
typedef struct tide_raw_kernel_param {
  const char *name, *type; /* "y", "const float *" */
  tide_param_kind kind;
  bool read_only;    /* POINTER to const: the kernel only reads */
  uint32_t accepted; /* POINTER: bit d is set if a tensor of dtype d may be given */
  int align;         /* POINTER: what its address is a multiple of */
  int bytes;         /* its own size */
  bool is_unsigned;  /* INTEGER */
} tide_raw_kernel_param;

/* How a kernel is launched. Zero-initialise; sizes of 0 mean 1. */
typedef struct tide_grid {
  int64_t grid[3], block[3];
  int64_t shared;      /* bytes of dynamic shared memory */
  bool empty;          /* a grid of no blocks: everything is checked, and nothing runs */
  tide_stream *stream; /* NULL: the current one of the tensors' device */
  size_t struct_size;  /* as in tide_options */
} tide_grid;

/* A kernel's text. What it takes is read from the source, or is what `params` says: the compiler then checks that. */
typedef struct tide_raw_kernel_text {
  size_t struct_size;         /* sizeof(tide_raw_kernel_text) */
  const char *source;         /* CUDA C */
  const char *name;           /* of a __global__ function; of a template, an instance: "scale<float>" */
  const char *const *options; /* "-DN=4": they go to NVRTC as they are, to a C++ compiler those with -D, -U and -I */
  int options_count;
  const char *const
      *params; /* a type for each parameter, such as "const float *" and "int"; NULL: read from the source */
  int params_count;
} tide_raw_kernel_text;

/* Compiles it for the current accelerator, or for the CPU where there is none; for others at their first launch. Where
 * waits are refused it is only begun, on another thread (tide_raw_kernel_ready), and a later
 * call reports the compiler's errors; STATE then where the source has several kernels of that name, until it is known
 * which one it is. On the CPU and on simulated devices the blocks are shared by the CPU's threads, and the threads of a
 * block are a loop, or run by turns where they wait for each other; SUPPORT for what needs warps. */
TIDE_API tide_status tide_raw_kernel_new(tide_raw_kernel **out, const tide_raw_kernel_text *text);
/* Frees the handle; NULL is allowed. */
TIDE_API void tide_raw_kernel_free(tide_raw_kernel *kernel);
/* The name that was asked for; as long as the handle lives. */
TIDE_API const char *tide_raw_kernel_name(const tide_raw_kernel *kernel);
/* How many parameters it has. */
TIDE_API int tide_raw_kernel_params(const tide_raw_kernel *kernel);
/* Parameter i; as long as the handle lives. NULL if there is none. */
TIDE_API const tide_raw_kernel_param *tide_raw_kernel_param_get(const tide_raw_kernel *kernel, int i);
/* Is it compiled for the device? As tide_jit_ready. TIDE_CURRENT: the device tide_raw_kernel_new compiles for. */
TIDE_API tide_status tide_raw_kernel_ready(bool *out, tide_raw_kernel *kernel, int device);
/* Launches it. A pointer takes a contiguous tensor of its dtype, or an integer: an address that nobody checks. Numbers
 * are refused if the parameter's type cannot hold them; all checks come before the launch. */
TIDE_API tide_status tide_raw_kernel_launch(tide_raw_kernel *kernel, const tide_grid *grid, const tide_operand *args,
                                            int n);
/* Checks everything now and keeps it, with the tensors, for launches that check nothing but whether imported
 * memory is acquired. */
TIDE_API tide_status tide_raw_kernel_bind(tide_raw_kernel_bound **out, tide_raw_kernel *kernel, const tide_grid *grid,
                                          const tide_operand *args, int n);
/* Launches what was bound, on its stream, or on the current one where none was given. */
TIDE_API tide_status tide_raw_kernel_bound_launch(tide_raw_kernel_bound *bound);
/* Releases it; NULL is allowed. For finalisers too: calls no driver. */
TIDE_API void tide_raw_kernel_bound_free(tide_raw_kernel_bound *bound);

/* ---- the cache ---- */

/* Counts of this process. A kernel that is asked for is found in memory, on disk, or compiled. */
typedef struct tide_jit_stats {
  int64_t memory_hits, disk_hits, misses; /* misses: compiled */
  int64_t ahead;                          /* of the misses: compiled before the call that wanted them */
  int64_t stored, damaged;                /* entries written to disk; entries found damaged and made again */
  int64_t pending;                        /* that the threads in the background compile now, or have to */
  double compile_seconds;
  bool compiler_opened; /* has a compiler been opened or run? */
} tide_jit_stats;
/* Reads the counts. */
TIDE_API void tide_jit_get_stats(tide_jit_stats *out);
/* The folder of the disk cache, from the environment as it is now; false: there is none. */
TIDE_API bool tide_jit_cache_path(char *path, size_t size);
/* Removes every entry on disk; what is loaded stays. */
TIDE_API tide_status tide_jit_cache_clear(void);

TIDE_C_END
#endif
