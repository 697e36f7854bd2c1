/* quota.h: the hook that ends a script with its quota, and the allocator that counts for it. */
#pragma once

#include "call/bindings.h"

enum { LTIDE_BARE = 8 }; /* coroutines that wait without a hook: what is resumed again and again */
struct ltide_quota_part {
  size_t steps;              /* of functions of Lua's library, that no quota has counted yet */
  struct ltide_clock *clock; /* quota_clock.c, or NULL */
  struct ltide_alloc *alloc; /* quota_alloc.c, or NULL */
  bool makes_coroutine;      /* one that gets its hook afterwards */
  lua_Hook fn;               /* the host's own, which quota_hook.c calls */
  int mask, count, counted;
  bool adopted;       /* by lua_sethook, not by tide_lua_sethook */
  bool is_free;       /* scripts run without a hook where they can */
  lua_State *running; /* what the clock watches */
  _Atomic(lua_State *) bare[LTIDE_BARE];
};
LTIDE_PART(quota)

void ltide_hook_open(lua_State *L, ltide_state *S);
/* L runs on this thread from now on: its hook is there, and counts what it is to. */
void ltide_hook_run(lua_State *L, ltide_state *S);
/* A new coroutine has the hook, whatever L has. */
void ltide_hook_on(ltide_state *S, lua_State *co);
void ltide_hook_all(ltide_state *S);                            /* those in `bare`, which is empty then */
bool ltide_hook_is_watched(lua_State *L, const ltide_state *S); /* without a hook, by quota_clock.c */
void ltide_hook_forget(ltide_state *S, const lua_State *co);    /* before co is freed */
/* Around lua_resume(co) by L. */
bool ltide_hook_enter(lua_State *L, ltide_state *S, lua_State *co);
void ltide_hook_leave(lua_State *L, ltide_state *S, lua_State *co, int status);
void ltide_alloc_open(lua_State *L, ltide_state *S); /* quota_alloc.c */
void ltide_alloc_close(lua_State *L, ltide_state *S);
int ltide_hook_set(lua_State *L, lua_Hook fn, int mask, int count); /* tide_lua_sethook */
void ltide_hook_close(lua_State *L, ltide_state *S);                /* the state ends */
