/* bounded.h: functions of Lua's library that may run long in C, in a form that the host can end. */
#ifndef LTIDE_BOUNDED_H
#define LTIDE_BOUNDED_H

#include "bindings.h"

enum { LTIDE_LOOK = 1 << 16 }; /* steps between two looks at the quotas: some 0.2 ms */

/* Counts steps of such a function as instructions of the script, and raises where that has ended. */
void ltide_look(lua_State *L, ltide_state *S);
static inline void ltide_steps(lua_State *L, ltide_state *S, size_t steps) {
  S->steps += steps;
  if (S->steps >= LTIDE_LOOK) ltide_look(L, S);
}

/* Each has the state's struct in its first upvalue, and Lua's function in the second. */
static inline ltide_state *ltide_bounding(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }
extern const luaL_Reg ltide_patterns[]; /* patterns.c: of string */

/* Puts ours in the places of Lua's, where the host has opened string and table. */
void ltide_bound_library(lua_State *L, ltide_state *S);

#endif
