/* headers.c: what a host may include that has found tide alone. */
#include "tide/tide.h"
#include "tide/tide_lua.h"

int headers(lua_State *L) { return luaopen_tide(L); }
