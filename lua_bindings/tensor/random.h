/* random.h: what random.c and random_cuda.c share: states and default generators. */
#pragma once

#include "call/args.h"

/* Pushes the generator's state, 16 bytes. */
int ltide_push_rng_state(lua_State *L, ltide_state *S, tide_generator *g);
/* Reads the state, seed and offset, from the tensor at arg; raises when that is none. */
void ltide_check_rng_state(lua_State *L, ltide_state *S, int arg, const char *name, uint64_t state[2]);
void ltide_set_rng_state(lua_State *L, tide_generator *g, const uint64_t state[2]);
/* Raises while this thread captures a graph, unless the generators to be set are the CPU's: between two recorded draws
 * they would be set once, now, and not by the replays. */
void ltide_check_settable(lua_State *L, int device);
/* The default generator of a device, or an error. */
tide_generator *ltide_default_generator(lua_State *L, int device);
void ltide_push_generator(lua_State *L, tide_generator *g);
