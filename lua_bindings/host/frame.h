/* frame.h: scripts in the frames of a host: what is behind tide_lua.h. */
#pragma once

#include "call/bindings.h"
#include "tide_lua.h"

int ltide_frame_begin(lua_State *L, const tide_frame_options *options);
int ltide_frame_call(lua_State *L, int args, int results);
int ltide_frame_resume(lua_State *L);
int ltide_frame_end(lua_State *L, tide_frame_stats *stats);

/* Has the state ended? Else LUA_OK; the error that says why is pushed. */
int ltide_check_ended(lua_State *L);
/* Does a script's function run, or a job? */
bool ltide_in_script(lua_State *L);
/* Pops so many arguments and pushes a StateError; LUA_ERRRUN. */
int ltide_fail_misuse(lua_State *L, int args, const char *message);
