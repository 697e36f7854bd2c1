/* hot.h: the functions that LuaJIT compiles. */
#pragma once

#include "call/bindings.h"

/* Runs the text of hot.lua, where the host has opened Lua's own library. At the top are the module and
 * the FFI, which is popped. */
void ltide_open_hot(lua_State *L, const char *text, size_t length, const char *name);
