/* kernel.h: what the files of kernels written in Lua share. */
#pragma once

#include "call/row.h"
#include "tide/kernel.h"

#define LTIDE_LUA_KERNEL_META "tide.LuaKernel"
#define LTIDE_BOUND_META      "tide.BoundLuaKernel"

enum { LTIDE_LUA_KERNEL_RESULTS = 8 };

/* What a value is to a kernel: a number of one of these kinds, or a tensor of a dtype and a number of dims. */
enum { LTIDE_IS_NONE, LTIDE_IS_INTEGER, LTIDE_IS_FLOAT, LTIDE_IS_BOOLEAN, LTIDE_IS_TENSOR };
static inline uint16_t ltide_tensor_code(tide_dtype dtype, int ndim) {
  return (uint16_t)(LTIDE_IS_TENSOR | (int)dtype << 3 | ndim << 8);
}

/* A value that a kernel finds outside of its arguments: an upvalue of a function, or a global where `upvalue` is 0, and
 * of that, where it is a table, what lies under so many fields. The function, or the name of the global, and the fields
 * stand in the list of such places that the kernel has, from `at` on. `fixed`: what was compiled in, which is the same
 * as long as it is this object. */
typedef struct ltide_outer {
  int upvalue, at, fields;
  const void *fixed; /* NULL: a number or a tensor, which goes along as an operand */
  uint16_t code;
} ltide_outer;

/* What a text takes for granted of an argument's sizes and strides. `like`: they are those of an argument before it,
 * counted from 1; 0: of none. `row`: the text reads its rows up to this place, by numbers alone, or 0. */
typedef struct ltide_shape {
  uint8_t like, row;
  bool packed; /* rows have that size, and lie side by side */
} ltide_shape;
enum { LTIDE_ANY_SHAPE = UINT8_MAX }; /* a `like`: nothing is taken for granted */

/* What was compiled for arguments of such kinds: operands are the arguments, then what comes from outside, then the
 * results. */
typedef struct ltide_special {
  struct ltide_special *next;
  int number; /* in the kernel's lists, from 1 */
  tide_kernel_layout layout;
  int ndim, args, outers, passed, results; /* passed: of the outers, those that are operands */
  bool gpu;                                /* its text is for GPUs; if not, for the CPU and simulated devices */
  uint16_t *code;                          /* of the arguments, as is the next */
  ltide_shape *shape;
  ltide_outer *outer;
  tide_dtype dtype[LTIDE_LUA_KERNEL_RESULTS];
  tide_kernel *kernel;
  int64_t block[TIDE_KERNEL_DIMS];
  int rounds; /* above 1: on a GPU it writes one result for each block of threads, which does so many
                 (tide_kernel_text) */
  bool ran;
  int device; /* where it ran last */
} ltide_special;

/* The user values: 1 what kernel/kernel.lua keeps of it, 2 the lists of places of each special. */
typedef struct ltide_kernel {
  ltide_special *specials; /* the one that was used last stands first */
  const char *name;
  int reduce;             /* a tide_reduction, or -1 */
  uint32_t body;          /* counts the replacements */
  ltide_special *dropped; /* by one, while a call may have been using them */
} ltide_kernel;

/* kernel.c */
ltide_kernel *ltide_check_kernel(lua_State *L, int arg);
/* specialize.c */
void ltide_specials_free(ltide_kernel *k);
/* Is all of it compiled for the device where it ran last, or else would run? `wait`: until it is. */
bool ltide_specials_ready(lua_State *L, const ltide_kernel *k, bool wait);
/* Which argument before the i-th has its sizes and strides, counted from 1, or 0: the first with the same number of
 * dims, if that is 2 or more. */
int ltide_like(const tide_operand *args, int i);
/* Are the rows of x of that size, side by side? */
static inline bool ltide_is_packed(const tide_tensor *x, int64_t row) {
  return tide_tensor_is_contiguous(x) && tide_tensor_size(x)[tide_tensor_ndim(x) - 1] == row;
}
/* Is it a GPU, and no simulated one? */
bool ltide_is_gpu(int device);
/* Makes what this call needs, by kernel/kernel.lua: of the kernel at `at`, for the n arguments from `first` on. */
void ltide_special_make(lua_State *L, int at, int ndim, tide_kernel_layout layout, int device, int first,
                        const tide_operand *args, int n);
extern const luaL_Reg ltide_kernel_script[];
/* source_text.c */
extern const luaL_Reg ltide_kernel_texts[];
int ltide_set_source_reader(lua_State *L);
