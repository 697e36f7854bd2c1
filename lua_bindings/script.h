/* script.h: the parts of the bindings that are written in Lua, lua/NAME.lua. */
#ifndef LTIDE_SCRIPT_H
#define LTIDE_SCRIPT_H

#include "bindings.h"

/* Gives the chunks C functions, by these names, when one is compiled next: what they cannot do themselves. The list
 * ends with {NULL} and lives as long as the state. */
void ltide_script_give(lua_State *L, const luaL_Reg *list);
void ltide_script_push(lua_State *L, const char *name); /* the function of the chunks */
/* Calls the chunks' function of that name with the n values at the top of the stack, which it may yield in. For
 * `return`: whatever it returns is what the running function returns. */
int ltide_script_call(lua_State *L, const char *name, int n);

/* For their functions of one result. */
static inline int ltide_give_boolean(lua_State *L, bool b) { return lua_pushboolean(L, b), 1; }
static inline int ltide_give_integer(lua_State *L, lua_Integer i) { return lua_pushinteger(L, i), 1; }

#endif
