/* compiler.h: how a backend makes kernels at run time from C++ text.
 *
 * Core writes the text, keeps what was made and decides when to make it; a backend brings the dialect (four pieces of
 * text), a compiler that it opens on first use, and loads and launches the result. An image is what the compiler gives,
 * as bytes: it can be kept in a file and loaded by another process with the same architecture. */
#pragma once

#include "base/fused.h"

/* The most that the arguments of one launch take, and how many there are. */
enum { TIDE_LAUNCH_BYTES = 2560, TIDE_LAUNCH_PARAMS = 64, TIDE_LAUNCH_POINTERS = 64 };

/* Where a kernel says which value it could not take, the first one alone. tide__fail_index says what `base` means. A
 * kernel gets its address behind that of a word, which is 0 until some thread takes the mailbox. */
typedef struct tide_mail {
  volatile uint32_t full;
  uint32_t site;
  int32_t base, reserved;
  int64_t value, length;
} tide_mail;

/* One launch of a function. The arguments lie in `packed` as the function's parameters do; addresses of device memory
 * among them stand at the offsets `pointer`, so that a backend may translate them. The arrays are the caller's and are
 * not used after the call. */
typedef struct tide_launch {
  uint32_t grid[3], block[3];
  uint32_t shared; /* bytes of dynamic shared memory */
  uint32_t site;
  int32_t device;
  const char *name; /* in profiles, of a kernel that has one; else NULL. Not in copies that a graph keeps */
  int64_t moved;    /* bytes read and written, as far as known */
  bool elementwise; /* one of ours: its blocks are independent, and it waits itself for the kernel before it */
  bool interpreted; /* the function is what code_new made; packed are the slots of its kernel */
  uint16_t params, pointers, bytes;
  /* Where in `packed` the launch writes the two addresses of a mailbox, and behind them, for kernels that can be
   * stopped (kernels_stop), that of the number up to which launches are to end, and its own; 0: the function has
   * none. */
  uint16_t mail;
  uint16_t owner;  /* whose it is, below TIDE_LAUNCH_OWNERS */
  uint64_t number; /* grows from launch to launch; 0: it is captured, and every replay is a launch */
  void *packed;
  const uint16_t *offset, *pointer;
} tide_launch;

typedef struct tide_image {
  void *bytes; /* malloc'ed */
  size_t size;
  char name[512]; /* of the function in it */
} tide_image;

#define TIDE_JOINED "tide_joined_"

typedef struct tide_function_info {
  int max_threads, registers;
  int64_t shared, local; /* bytes: static shared memory of a block, local memory of a thread */
} tide_function_info;

/* Where the arguments of an elementwise kernel lie, in bytes; jit/text/source.c says what they are. Number k is at 16 *
 * k. ndim 0: a flat kernel, the last operands of which are single values. */
typedef struct tide_layout {
  int vector, ndim, uniform; /* vector: elements of a thread; uniform: how many are single values */
  uint16_t pointers, count, strides, divisors, bytes;
} tide_layout;

/* The texts around kernels. An elementwise one is prelude, the pieces that are needed of with_small (bool and 16-bit
 * floats), with_complex and with_dims (strided), the user's code, declarations by core (jit/text/source.c), then flat
 * or strided. TIDE_NAMES_STD is defined before all of it, and before `raw`, where the code may use what C++ has in std.
 * A block has `threads` threads, each of which does 16 bytes of the widest operand, or four elements where strided.
 * `raw` precedes a kernel of the user's own; of a host behind prelude and with_small. */
typedef struct tide_dialect {
  const char *prelude, *with_small, *with_complex, *with_dims, *flat, *strided, *raw;
  int threads;
} tide_dialect;

/* What runs images. */
typedef struct tide_image_loader {
  tide_status (*arch)(char *text, size_t size, int device); /* "sm_90"; opens no compiler */
  tide_status (*load)(void **module, const void *image, size_t bytes, int device);
  void (*unload)(void *module, int device);
  tide_status (*function)(void **out, tide_function_info *info, void *module, const char *name, int device);
  tide_status (*launch)(tide_stream *stream, void *function, const tide_launch *a);
} tide_image_loader;

/* What a host runs without a compiler. */
typedef struct tide_interpreter {
  /* Fused operations: launched as a function whose packed arguments are a tide_fused_program (base/fused.h), a block of
   * the grid for each piece. */
  int (*fused)(const void *packed, const uint32_t *dims, long long begin, long long end, const void *hooks);
  /* A program of the block interpreter, from the text that kernel_code.lua writes, which is checked. It is launched as
   * a function is; a launch that waits in a queue holds it. */
  tide_status (*code_new)(void **out, const char *text, size_t size);
  void (*code_free)(void *code);
} tide_interpreter;

struct tide_compiler;

/* The assembler of an accelerator: fused operations, of which the program has the list alone, in a text that it takes,
 * malloc'ed, as kernels of `flat` and `strided`. NULL: they cannot be written so. */
typedef struct tide_assembler {
  char *(*fused_text)(const tide_fused_program *p, const tide_layout *l, const char *arch);
  const struct tide_compiler *compiler;
} tide_assembler;

typedef struct tide_compiler {
  const char *name;     /* "nvrtc", "c++": what its record in the cache is called */
  const char *variable; /* of the environment, which says where the compiler is; NULL: none */
  const tide_dialect *text;
  bool ahead; /* it compiles in the process, on any thread: kernels may be made before they are called */
  bool joins; /* it may get several texts that core writes as one, each in a namespace; its functions are then called
                 TIDE_JOINED and a number, and out->name is that of the first */
  bool host;  /* kernels are functions that loop over threads: `raw` defines what the loop is made of that core writes
                 (jit/text/source.c); prelude and raw define tide_by, by which the code divides (jit/text/rewrite.c) */
  const char *options, *raw_options; /* always given, separated by blanks */
  /* Opens the compiler: the file that it is, and its version. LIBRARY where there is none. */
  tide_status (*identify)(char *path, size_t path_size, char *version, size_t version_size);
  /* out->name holds the function's name, or an expression that names it, and is replaced by its name in the image. On
   * failure *log, malloc'ed, may hold what the compiler said; otherwise the thread's error is set. */
  tide_status (*compile)(tide_image *out, char **log, const char *source, const char *const *options, int n,
                         const char *arch);
  const tide_image_loader *loader;
  const tide_interpreter *interpreter; /* of a host; or NULL */
  const tide_assembler *assembler;     /* of an accelerator; or NULL */
} tide_compiler;
