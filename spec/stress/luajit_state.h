/* luajit_state.h: what sandbox_test.c has of Lua 5.4's C API, over LuaJIT's; included ahead of it. */
#pragma once

#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

#define LUA_GNAME "_G"

/* The functions that open a library make their globals themselves; that of coroutines is in the base. */
static inline int no_library(lua_State *L) { return lua_settop(L, 0), 0; }
#define luaopen_coroutine no_library

static inline void open_library(lua_State *L, const char *name, lua_CFunction open) {
  lua_pushcfunction(L, open);
  lua_pushstring(L, strcmp(name, LUA_GNAME) ? name : "");
  lua_call(L, 1, 0);
  lua_pushnil(L);
}
#define luaL_requiref(L, name, open, global) open_library(L, name, open)

static inline const char *to_plain_text(lua_State *L, int index, size_t *length) {
  if (index < 0) index = lua_gettop(L) + index + 1;
  if (luaL_callmeta(L, index, "__tostring")) return lua_tolstring(L, -1, length);
  if (lua_isstring(L, index))
    lua_pushvalue(L, index);
  else
    lua_pushfstring(L, "%s: %p", luaL_typename(L, index), lua_topointer(L, index));
  return lua_tolstring(L, -1, length);
}
#define luaL_tolstring(L, index, length) to_plain_text(L, index, length)

/* LuaJIT without GC64 takes no allocator of a host's. */
#define lua_newstate(alloc, user)           ((void)(alloc), (void)(user), luaL_newstate())
#define lua_resume(co, from, args, results) (*(results) = 1, (lua_resume)(co, args))
#define lua_getfield(L, index, name)        ((lua_getfield)(L, index, name), lua_type(L, -1))
