/* library.h: the C library for scripts, through LuaJIT's FFI. */
#pragma once

#include "call/bindings.h"

/* Raises where the libtide that is there was built from other headers than this module. */
void ltide_library_check(lua_State *L);
/* Help knows tide.ffi's functions from here on. */
void ltide_library_note(lua_State *L);
/* Pushes tide.ffi. The FFI is at the top, and is popped. */
void ltide_library_push(lua_State *L);

/* While core is called through the FFI: its hooks call no Lua and collect nothing. Returns what the end is given. */
static inline lua_State *ltide_ffi_begin(ltide_state *S) {
  lua_State *last = ltide_last;
  ltide_last = NULL, S->in_ffi = true;
  return last;
}
static inline void ltide_ffi_end(ltide_state *S, lua_State *last) { ltide_last = last, S->in_ffi = false; }
