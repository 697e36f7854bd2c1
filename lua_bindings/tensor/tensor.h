/* tensor.h: handles of tensors: their making and their end. */
#pragma once

#include "call/fields.h"
#include "call/collector.h"
#include "call/row.h"

struct ltide_tensor_part {
  int arenas; /* how many there are, of all coroutines */
};
LTIDE_PART(tensor)

/* Pushes a new closed handle; the caller stores the reference in ->t, then calls ltide_made. */
ltide_tensor *ltide_new_tensor(lua_State *L, ltide_state *S);
void ltide_handles_end(ltide_state *S); /* releases what is left: the state ends */
/* Is it the iterator of ipairs that calls the running __index? It counts up until it reads a nil, where every
 * other reader is told that it is past the end. */
bool ltide_is_read_by_ipairs(lua_State *L);
/* An allocator of Lua's that calls ltide_handle_gone for each block of this size before it frees it: then handles need
 * no finaliser, which costs more than all else about them. */
extern lua_Alloc ltide_notifying_alloc;
extern size_t ltide_handle_block; /* 0: nobody wants to know */
void ltide_handle_gone(void *block);
/* arena.c: arenas of tide.scope. */
void ltide_arena_add(ltide_state *S, ltide_tensor *u); /* called for every new handle while S->arena is set */
void ltide_arena_remove(ltide_tensor *u);              /* the handle is freed or kept */
/* tensor.c: frees what a temporary handle holds, before the collector would; the handle stays, closed. */
void ltide_close_tensor(ltide_tensor *u);
/* tensor.c: ends a function whose core call may have given x itself: then the handle at arg is the result. */
int ltide_result_or_self(lua_State *L, ltide_state *S, ltide_tensor *u, const tide_tensor *x, int arg);
/* convert.c: the tensor of the Lua value at arg, in a handle that it pushes. */
void ltide_push_converted(lua_State *L, ltide_state *S, int arg, const tide_options *options);
/* convert.c: the tensor of the table at arg as an operand beside a tensor of this device and dtype: of that dtype where
 * it can hold values of their kind, as for a number. With NONE the values alone give the dtype. */
void ltide_push_list_beside(lua_State *L, ltide_state *S, int arg, tide_dtype dtype, int device);
/* convert.c: pushes the values of x as a nested table. */
void ltide_push_table(lua_State *L, ltide_state *S, const tide_tensor *x);
/* storage.c: all bytes of the storage of x, as a tensor of uint8. */
tide_status ltide_span_storage(tide_tensor **out, const tide_tensor *x);

/* {==== results.c */

/* Pushes a closed handle for the result of core, to be filled. */
static inline tide_tensor **ltide_result(lua_State *L, ltide_call *c) { return &ltide_new_tensor(L, c->S)->t; }
/* With the handle of the result at the top, for `return`: puts it into out= where that is given. */
int ltide_finish(lua_State *L, const ltide_call *c, tide_status status);
/* With the handles of n results at the top, of a function without out=. */
static inline int ltide_give_tensors(lua_State *L, ltide_state *S, tide_status status, int n) {
  ltide_try(L, status);
  ltide_made(L, S);
  return n;
}
/* Of a row with two results, which go where out= says: pushes closed handles for both, and ends the function. */
typedef struct ltide_two {
  tide_tensor **first, **second;
} ltide_two;
ltide_two ltide_results(lua_State *L, ltide_call *c);
int ltide_finish_two(lua_State *L, const ltide_call *c, tide_status status);
/* The same where core writes to a destination itself: `slot = ltide_slot(L, c)` is where the result goes, or NULL where
 * out= is given, which is c->into then. */
tide_tensor **ltide_slot(lua_State *L, ltide_call *c);
int ltide_finish_into(lua_State *L, const ltide_call *c, tide_status status);
/* out=, for functions that fill a tensor of a known size: pushes the destination, or a new one. An empty
 * destination is given the size. */
tide_tensor *ltide_push_target(lua_State *L, ltide_state *S, int opts, const int64_t *size, int ndim,
                               const tide_options *o);
/* out=, for functions that make their n results anew, whose handles are at the top: moves or copies them there, and
 * ends the function. Of several results out is a table of as many tensors. */
int ltide_deliver(lua_State *L, ltide_state *S, int opts, int n);
/* The body of a row whose chunk function makes tensors, which go where out= says. */
int ltide_call_composed(lua_State *L, ltide_call *c);
int ltide_compose(lua_State *L, ltide_call *c, const char *name); /* the same by a name that the row has not */
ltide_row *ltide_special_ops(void);                               /* ops.c: those of tide.special alone */

/* {==== Bodies for rows that need none of their own, by the shape of what they call */
int ltide_x(lua_State *L, ltide_call *c);
int ltide_x_dim(lua_State *L, ltide_call *c);
int ltide_x_dim_dim(lua_State *L, ltide_call *c);
int ltide_x_dims(lua_State *L, ltide_call *c);
int ltide_x_sizes(lua_State *L, ltide_call *c);
int ltide_x_dim_sizes(lua_State *L, ltide_call *c);
int ltide_x_dtype(lua_State *L, ltide_call *c);
int ltide_x_y(lua_State *L, ltide_call *c);
int ltide_x_y_into(lua_State *L, ltide_call *c);
int ltide_act(lua_State *L, ltide_call *c);
int ltide_is(lua_State *L, ltide_call *c);
