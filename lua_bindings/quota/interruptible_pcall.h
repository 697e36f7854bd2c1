/* interruptible_pcall.h: errors that no script may catch. */
#pragma once

#include "call/bindings.h"

/* From now on pcall, xpcall, load and coroutine.resume, where the globals have them, let every error pass while the
 * flag is set, which lives as long as the state. guarded: a hook sets it, and raises. */
void ltide_let_pass(lua_State *L, _Atomic bool *flag, bool guarded);
/* Has the error of that hook ended the coroutine? What it has to close would run without hooks: it is left as it is. */
bool ltide_ended_by_hook(lua_State *co);
