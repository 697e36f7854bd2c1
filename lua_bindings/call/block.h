/* block.h: scoped blocks, and functions that wait for a device. */
#pragma once

#include "bindings.h"

/* The two forms of a scoped block, in two steps, so that no failure leaves it in force.
 *
 * ltide_block_new does whatever may fail: it pushes the scope, closed, and gives the `size` bytes that are kept with
 * it. Then the caller acquires what the block needs, notes in them what `leave` is to restore, and changes it last:
 * only that may fail now. ltide_block_open, for `return` and with the scope at the top of the stack, opens it. fn_arg:
 * index of the closure (the last argument after opts) or 0: returns a scope object.
 *
 * `leave` undoes it and may raise last of all. Without a state (L is NULL) the block was dropped: it lets go of what
 * data holds and restores nothing. */
typedef void (*ltide_leave_fn)(lua_State *L, void *data);
void *ltide_block_new(lua_State *L, const char *what, int fn_arg, ltide_leave_fn leave, size_t size);
int ltide_block_open(lua_State *L, int fn_arg);
/* The same with the value at the top of the stack, popped, that is returned behind the results of the closure, or
 * behind the scope object. leave finds it as the second user value of the scope. */
void *ltide_block_new_with(lua_State *L, const char *what, ltide_leave_fn leave, size_t size);
/* For a leave function with a state: was the block left by neither an error nor the closing of its coroutine? */
bool ltide_left_in_order(const void *data);
int ltide_block_index(const void *data); /* likewise: where on its stack the scope is */
/* The index of the closure at arg, or 0: there is none. */
int ltide_check_block(lua_State *L, int arg);
/* For a block that changes nothing. */
int ltide_empty_block(lua_State *L, const char *what, int fn_arg);

/* How the running coroutine waits. A frame sets it. */
struct ltide_turn_part {
  lua_State *in_frame;                         /* the coroutine that a frame runs: the one that yields to the host */
  bool awaits;                                 /* it has yielded because a device is not as far */
  int (*wait)(lua_State *L, lua_CFunction fn); /* yields where fn would wait; NULL: that is an error */
};
LTIDE_PART(turn)

/* Runs fn, the body of a function that waits for a device. Inside tide.parallel the other replicas run first,
 * where nothing but the coroutine's own state is in force: inside blocks such as device_scope, whose setting all share,
 * it waits at once. The arguments are on the stack then as before. For `return`, and as the first thing that the
 * function does. */
int ltide_waiting(lua_State *L, lua_CFunction fn);
/* May it yield to the host where a compiler is not done? Then `return ltide_yield_again(L, fn)`, with fn's arguments on
 * the stack, which runs it anew in a later turn. */
bool ltide_may_yield(lua_State *L, const ltide_state *S);
int ltide_yield_again(lua_State *L, lua_CFunction fn);
/* The same for one that a frame refuses: what it gives stays on the device. */
int ltide_in_turn(lua_State *L, lua_CFunction fn);
