/* interruptible_stdlib.h: functions of Lua's library that may run long in C, in a form that the host can end. */
#pragma once

#include "quota.h"

enum { LTIDE_LOOK = 1 << 13 }; /* steps between two looks at the quotas: at most some 0.5 ms */

/* Counts steps of such a function as instructions of the script, and raises where that has ended. */
void ltide_look(lua_State *L, ltide_state *S);
static inline void ltide_steps(lua_State *L, ltide_state *S, size_t steps) {
  ltide_quota_of(S)->steps += steps;
  if (ltide_quota_of(S)->steps >= LTIDE_LOOK) ltide_look(L, S);
}

/* lua_cost.c: work begins that takes so many nanoseconds, and that nothing can end: counts it, and raises where less
 * time is left. */
void ltide_charge(lua_State *L, ltide_state *S, double nanoseconds);
#if !LTIDE_FFI
/* n bytes more go into the buffer, which may have to be copied to a larger one. */
static inline void ltide_grow(lua_State *L, ltide_state *S, const luaL_Buffer *b, size_t n) {
  enum { LONG = 1 << 14 };
  if (n >= LONG || (b->n >= LONG && b->n + n > b->size))
    ltide_charge(L, S, (double)n + (b->n + n > b->size ? 1.5 * (double)(b->n + n) : 0));
}
#endif
/* For long strings among the arguments from that one on, nanoseconds for each 16 bytes. */
double ltide_cost_of_arguments(lua_State *L, int from, int rate);
enum { LTIDE_NUMERAL = 64 };             /* of a string that is read as a number */
void ltide_charge_library(lua_State *L); /* puts what charges in the places of Lua's functions */

void ltide_quota_hook(lua_State *L, lua_Debug *ar); /* quota_hook.c */

/* Each has the state's struct in its first upvalue, and Lua's function in the second. */
static inline ltide_state *ltide_bounding(lua_State *L) { return lua_touserdata(L, lua_upvalueindex(1)); }
extern const luaL_Reg ltide_patterns[]; /* interruptible_patterns.c: of string */

/* Puts ours in the places of Lua's, where the host has opened string and table. */
void ltide_bound_library(lua_State *L, ltide_state *S);
