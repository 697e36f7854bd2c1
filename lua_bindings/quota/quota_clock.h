/* quota_clock.h: ends scripts that run without a hook, when their time is over or the host kills them. */
#pragma once

#include "call/bindings.h"

typedef struct ltide_clock ltide_clock;
/* One for each Lua state with quotas; NULL where there is none: hooks alone count then. It calls `hook` for each
 * instruction of the coroutine that runs as soon as the quota is used up. L runs in protected mode. */
ltide_clock *ltide_clock_new(lua_State *L, ltide_state *S, lua_Hook hook);
void ltide_clock_free(ltide_clock *c);
/* This thread runs the coroutine from now on; false: no signal reaches it here, so that it has to keep its hook. */
bool ltide_clock_run(ltide_clock *c, lua_State *L);
/* The coroutine of the same thread that runs in its place. */
void ltide_clock_switch(ltide_clock *c, lua_State *L);
void ltide_clock_forget(ltide_clock *c, const lua_State *L); /* before L is freed */
/* The one that runs on this thread, or NULL. */
lua_State *ltide_clock_running(const ltide_clock *c);
/* Is it in a protected call on this thread's stack? */
bool ltide_clock_holds(const ltide_clock *c, const lua_State *L);
/* The hook was called: what it has replaced, with its mask and count; NULL: it has replaced none. */
lua_Hook ltide_clock_taken(ltide_clock *c, int *mask, int *count);
void ltide_clock_wake(void); /* something may be used up earlier than was known */
