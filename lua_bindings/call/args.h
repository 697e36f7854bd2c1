/* args.h: how the files about tensors read their arguments. A call has n positional arguments and perhaps a table of
 * options after them; every routine here raises an error that names the argument and what is accepted. */
#pragma once

#include "handle.h"

bool ltide_is_options(lua_State *L, int arg); /* a table without an array part and not empty: options */
/* For a function of at most so many arguments that takes no options: raises for what is beyond them, but for nils and
 * an empty table. Not for metamethods: Lua gives some of them an argument more. */
void ltide_refuse_beyond(lua_State *L, int most);
static inline void ltide_no_options(lua_State *L, int most) {
  if (lua_gettop(L) > most) ltide_refuse_beyond(L, most);
}
/* Raises for every key of the options table at arg that is not in the NULL-terminated list. */
void ltide_check_keys(lua_State *L, int arg, const char *const *keys);
/* As the caller counts, negative from the end -> from 0. */
int ltide_check_dim(lua_State *L, int arg, int ndim, const char *name);
bool ltide_test_scalar(lua_State *L, int arg, tide_scalar *out); /* numbers and booleans */
void ltide_push_scalar(lua_State *L, tide_scalar s);

typedef struct ltide_args {
  int n;    /* positional arguments, without nils at the end */
  int opts; /* index of the table of options, or 0 */
} ltide_args;

/* Splits the running call. An empty table counts as options once `min` positional arguments stand before it. */
ltide_args ltide_split(lua_State *L, int min);
/* Raises when there are more positional arguments than the function takes. */
void ltide_check_count(lua_State *L, ltide_args a, int most);

/* keyword_args.c. The arguments from `first` on have these names, NULL at the end: those that the table of options at
 * the end holds by name go to their places. */
void ltide_named(lua_State *L, int first, const char *const *names);
#define LTIDE_NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})
/* Another word for an argument, in torch's signatures or in those of tide's other functions; NULL: none. */
const char *ltide_other_word(const char *name);
/* Pushes what the options hold under the argument's name or its other word, or returns false. */
bool ltide_push_named(lua_State *L, int opts, const char *name);

int64_t ltide_check_integer(lua_State *L, int arg,
                            const char *name); /* a number without fraction; strings are refused */
double ltide_check_number(lua_State *L, int arg, const char *name);
bool ltide_check_boolean(lua_State *L, int arg, const char *name);
tide_scalar ltide_check_scalar(lua_State *L, int arg, const char *name);

/* The length of the list at arg, raising where it is none or longer; `of` says what it should hold. */
int ltide_check_list(lua_State *L, int arg, int most, const char *name, const char *of);
/* The n tensors of the list at arg. */
void ltide_check_tensors(lua_State *L, ltide_state *S, int arg, tide_tensor **out, int n, const char *name);
/* Pushes the value and returns true, or pushes nothing; opts = 0 is no table. */
bool ltide_push_option(lua_State *L, int opts, const char *key);

/* Sizes at first..n: integers, or one table of them. least: the smallest accepted (-1 where a size may be left
 * open). */
int ltide_check_sizes(lua_State *L, int first, int n, int64_t *size, const char *name, int64_t least);
/* Raises where the table at arg, which has n > 0 values, has a named one too: values and options are tables of their
 * own, and what is named would be lost. The "n" of table.pack is no name, where it is the number of
 * values. */
void ltide_check_unnamed(lua_State *L, int arg, lua_Integer n, const char *name);
/* The integers of the table at arg, or the one integer there. */
int ltide_check_integers(lua_State *L, int arg, int64_t *out, int most, const char *name);
/* Dimensions, as the caller counts: an integer or a table of them at arg. */
/* A tensor without dimensions may be named dim 1, as if it were a line of one. */
static inline int ltide_scalar_ndim(int ndim) { return ndim ? ndim : 1; }
int ltide_check_dims(lua_State *L, int arg, int ndim, int *dims, const char *name);
/* The same for integers at first..n, or one table. */
int ltide_check_dim_list(lua_State *L, int first, int n, int ndim, int *dims, const char *name);
/* A range as the caller counts, both ends included, negative from the end, of a dimension of n -> start, from 0, and
 * length. */
void ltide_check_range(lua_State *L, int64_t first, int64_t last, int64_t n, int64_t *start, int64_t *length);
/* Converts the caller's index or raises IndexError. */
int64_t ltide_index(lua_State *L, int64_t index, int64_t n, const char *name);

/* Options. opts = 0 gives the default. */
bool ltide_opt_boolean(lua_State *L, int opts, const char *key, bool otherwise);
double ltide_opt_number(lua_State *L, int opts, const char *key, double otherwise);
bool ltide_opt_scalar(lua_State *L, int opts, const char *key, tide_scalar *out);       /* false: not given */
tide_tensor *ltide_opt_tensor(lua_State *L, ltide_state *S, int opts, const char *key); /* NULL: not given */
/* Fills dtype, device and pin_memory where they are given. Unknown keys are the caller's to check. */
void ltide_opt_options(lua_State *L, int opts, tide_options *o);
#define LTIDE_OPTION_KEYS "dtype", "device", "pin_memory"
/* The same of functions that take out= too: its dtype and device are the options then, which may not say otherwise. */
#define LTIDE_OUT_KEYS    LTIDE_OPTION_KEYS, "out"

/* A destination that stands on the stack or in a table: an empty one may be given another size. */
tide_tensor *ltide_check_destination(lua_State *L, ltide_state *S, int arg, const char *name);
/* Before there is a result: raises where out= is no tensor, or no table of n > 1. */
void ltide_check_out(lua_State *L, ltide_state *S, int opts, int n);

/* Reads a number or a tensor as an operand; raises when it is neither. */
void ltide_check_operand(lua_State *L, ltide_state *S, int arg, tide_operand *out, const char *name);

/* sizes.c: pushes a plain table of integers, or x.shape's, which is read-only. */
void ltide_push_integers(lua_State *L, const int64_t *values, int n);
void ltide_push_shape(lua_State *L, const int64_t *values, int n);
/* Where there is a shape at arg, puts a plain table of its values in its place: what reads lists reads tables raw. The
 * plain one is not to be handed to scripts. */
bool ltide_plain_shape(lua_State *L, int arg);
/* The same function does it with small vectors and matrices (vectors.c): values whose metatable has been marked with
 * the number of their components or rows. The metatable is at the top. */
void ltide_mark_small(lua_State *L, int n);
bool ltide_is_small(lua_State *L, int arg);
/* The same for the list of n values at `list`, where the first is a shape. */
void ltide_plain_shapes(lua_State *L, int list, int n);
