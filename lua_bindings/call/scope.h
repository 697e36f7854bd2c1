/* scope.h: what state.c, scope.c and arena.c share: the record of a coroutine and its open scopes. */
#pragma once

#include "bindings.h"

typedef struct ltide_record {
  ltide_state *state;
  tide_current *current;
  struct ltide_arena *arena;     /* innermost tide.scope, while the coroutine is not the running one */
  struct ltide_arena *inherited; /* the one around the call of tide.parallel that made it: a reference, or NULL */
  void (*forget)(struct ltide_record *r); /* lets go of it */
  struct ltide_scope **scopes;            /* open scopes, outermost first */
  int depth, capacity;
  int fusing;          /* calls of fused functions that it is in: fuse.c */
  bool replica, turns; /* of tide.parallel; other replicas run while it would wait */
  bool raises;         /* an error that has been noted goes on from a block */
} ltide_record;

extern const char ltide_turn; /* its address is what a replica yields when it would wait: ltide_waiting */

/* The record of L, which has called before, or NULL. Allocates nothing. */
ltide_record *ltide_record_of(lua_State *L);
/* Makes the record of the coroutine at the index, a new one, as if L resumed it: nothing fails in that one's name. */
ltide_record *ltide_make_record(lua_State *L, int thread);
/* Selects the state's own device, which has one, in a coroutine's new current. */
tide_status ltide_use_device(const ltide_state *S, tide_current *current);
/* For L, whose record it is, where a block is left: what ltide_enter does as far as that allocates nothing. */
void ltide_bind_record(lua_State *L, ltide_record *r);

/* Functions that have something to close besides blocks begin with `if (ltide_unguarded(L)) return ltide_guarded(L,
 * fn)` with their own name: that calls them again, so that it is closed also where an error ends the coroutine. */
bool ltide_unguarded(lua_State *L);
int ltide_guarded(lua_State *L, lua_CFunction fn);
/* Pushes the traceback of the error at the top of the stack, which has ended the replica's coroutine. */
void ltide_push_trace(lua_State *L, lua_State *co);

/* parallel_replica.c: for the chunks of Lua (script.h). */
extern const luaL_Reg ltide_replica_script[];

/* The data of the scope at the index while it is open, else NULL. */
void *ltide_block_data(lua_State *L, int index);

/* arena.c: the coroutine's tensors belong to the arena from now on, and until it is forgotten. */
void ltide_arena_inherit(ltide_record *r, struct ltide_arena *arena);
