/* object.h: userdata that no script can forge, and metatables that are closed to scripts. */
#pragma once

#include "bindings.h"

/* An object of ours ends with a seal, a word made of its metatable's address and its own: it tells what the object is,
 * whatever metatable debug.setmetatable has given to it, to another one or to a foreign userdata. */
static inline uintptr_t *ltide_seal_word(const void *object, size_t room) {
  return (uintptr_t *)((const char *)object + room - sizeof(uintptr_t));
}
/* lua_newuserdatauv with room for a seal. */
static inline void *ltide_new_userdata(lua_State *L, size_t size, int values) {
  size_t room = (size + sizeof(uintptr_t) - 1) / sizeof(uintptr_t) * sizeof(uintptr_t) + sizeof(uintptr_t);
  void *object = lua_newuserdatauv(L, room, values);
  *ltide_seal_word(object, room) = 0;
  return object;
}
/* The same for objects that core fills next. */
static inline void *ltide_new_object(lua_State *L, size_t size, int values) {
  void *object = ltide_new_userdata(L, size, values);
  ltide_enter_again(L);
  return object;
}
static inline void ltide_seal(lua_State *L, void *object, const void *meta) {
  *ltide_seal_word(object, lua_rawlen(L, -1)) = (uintptr_t)meta ^ (uintptr_t)object;
}
/* luaL_setmetatable for an object at the top of the stack, which is sealed. */
static inline void ltide_setmetatable(lua_State *L, const char *name) {
  luaL_getmetatable(L, name);
  const void *meta = lua_topointer(L, -1);
  lua_setmetatable(L, -2);
  ltide_seal(L, lua_touserdata(L, -1), meta);
}
/* A closed handle of one pointer, to be filled. */
static inline void **ltide_new_pointer(lua_State *L, const char *meta) {
  void **u = (void **)ltide_new_object(L, sizeof *u, 0);
  *u = NULL;
  ltide_setmetatable(L, meta);
  return u;
}
/* The object at arg if it was sealed with this metatable, else NULL. */
static inline void *ltide_test_meta(lua_State *L, int arg, const void *meta) {
  void *u = lua_touserdata(L, arg);
  size_t room = u ? lua_rawlen(L, arg) : 0; /* 0 for a light one */
  if (room < sizeof(uintptr_t) || room % sizeof(uintptr_t)) return NULL;
  return *ltide_seal_word(u, room) == ((uintptr_t)meta ^ (uintptr_t)u) ? u : NULL;
}
/* luaL_testudata that looks at the seal; it may be called while the state ends. */
void *ltide_test_object(lua_State *L, int arg, const char *meta);
/* Closes the metatable at the top of the stack to scripts: getmetatable gives the name, so that finalisers and the like
 * cannot be called by hand. */
static inline void ltide_protect(lua_State *L, const char *name) {
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__metatable");
}
/* luaL_newmetatable for one that is closed to scripts; false: it was there. */
static inline bool ltide_newmetatable(lua_State *L, const char *name) {
  bool is_new = luaL_newmetatable(L, name);
  ltide_protect(L, name);
  return is_new;
}

static inline void ltide_set_function(lua_State *L, const char *key, lua_CFunction f) {
  lua_pushcfunction(L, f);
  lua_setfield(L, -2, key);
}
/* The metatable of objects that have nothing but an end. */
static inline void ltide_open_finaliser(lua_State *L, const char *name, lua_CFunction gc) {
  ltide_newmetatable(L, name);
  ltide_set_function(L, "__gc", gc);
  lua_pop(L, 1);
}

/* lua_getfield for options and the like: a metamethod would run a script's code between the reading of operands and
 * their use. */
static inline int ltide_rawfield(lua_State *L, int table, const char *key) {
  table = lua_absindex(L, table);
  if (!lua_istable(L, table)) {
    lua_pushnil(L);
    return LUA_TNIL;
  }
  lua_pushstring(L, key);
  return lua_rawget(L, table);
}

/* The table at the top gets these metamethods, closed to scripts under the name. */
static inline void ltide_set_meta(lua_State *L, const char *name, const luaL_Reg *functions) {
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  ltide_protect(L, name);
  lua_setmetatable(L, -2);
}
/* The upvalue goes below the arguments, to be called with them. */
static inline void ltide_insert_upvalue(lua_State *L, int n) {
  lua_pushvalue(L, lua_upvalueindex(n));
  lua_insert(L, 1);
}
/* The table at the top holds what lies under "k" or "v" weakly. */
static inline void ltide_make_weak(lua_State *L, const char *mode) {
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
}
/* t[key] = text in the table at the top; nothing where the text is NULL. */
static inline void ltide_set_text(lua_State *L, const char *key, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, key);
}
static inline void ltide_set_integer(lua_State *L, const char *key, lua_Integer value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

/* readonly.c: puts an object in the place of the table at the top that reads as it does, and cannot be written;
 * the same for every table in it. */
void ltide_freeze(lua_State *L);
/* Pushes the table behind the read-only object at arg, or returns false. */
bool ltide_push_thawed(lua_State *L, int arg);
