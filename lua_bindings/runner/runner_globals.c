/* runner_globals.c: reads of globals that nothing has set: errors with --strict, warnings at the prompt. Words of
 * Python's are errors in any case.
 *
 * __index of the table of globals sees each of them. A global that was set once, even to nil, counts as defined: with
 * --strict __newindex notes the names. Reads by C functions, which look for what may be there, pass. */

#include "call/did_you_mean.h"
#include "call/object.h"
#include "runner.h"

static lua_CFunction outer; /* the prompt's __index, which asks ours */

/* Where the reader is in the stack, if it is written in Lua, else 0. */
static int reader_level(lua_State *L, lua_Debug *ar) {
  for (int level = 1; level <= 2 && lua_getstack(L, level, ar) && lua_getinfo(L, "Sf", ar); level++) {
    bool is_outer = outer && lua_tocfunction(L, -1) == outer;
    lua_pop(L, 1);
    if (*ar->what != 'C') return level;
    if (!is_outer) break;
  }
  return 0;
}

bool globals_is_typed(lua_State *L) {
  lua_Debug ar;
  return reader_level(L, &ar) && (!strcmp(ar.source, "=stdin") || !strncmp(ar.source, "=In [", 5));
}

void globals_outer(lua_CFunction index) { outer = index; }

int globals_inherited(lua_State *L, int index) {
  if (lua_isnil(L, index)) return lua_pushnil(L), 1;
  if (!lua_isfunction(L, index)) {
    lua_pushvalue(L, index);
    lua_pushvalue(L, 2);
    lua_gettable(L, -2);
    return 1;
  }
  lua_pushvalue(L, index);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_call(L, 2, 1);
  return 1;
}

/* True, False and None are nil in Lua, and an option that is nil is none: {shuffle = True}. */
static bool is_python(const char *name) {
  return !strcmp(name, "True") || !strcmp(name, "False") || !strcmp(name, "None");
}

/* Upvalues: what __index was before, the names that were set with --strict, else false. */
static int checked_index(lua_State *L) {
  lua_Debug ar;
  lua_settop(L, 2);
  globals_inherited(L, lua_upvalueindex(1));
  if (!lua_isnil(L, -1) || lua_type(L, 2) != LUA_TSTRING) return 1;
  const char *name = lua_tostring(L, 2);
  bool is_strict = lua_istable(L, lua_upvalueindex(2));
  int level = is_strict || is_python(name) ? reader_level(L, &ar) : 0;
  lua_pushvalue(L, 2);
  if (!level || (is_strict && lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL)) return lua_pushnil(L), 1;
  const char *hint = ltide_global_hint(L, name, 0);
  luaL_where(L, level);
  lua_pushfstring(L, "undefined global '%s'%s", name, hint);
  lua_concat(L, 2);
  return lua_error(L);
}

/* Upvalues: what __newindex was before, the names that were set. */
static int strict_newindex(lua_State *L) {
  lua_settop(L, 3);
  lua_pushvalue(L, 2);
  lua_pushboolean(L, true);
  lua_rawset(L, lua_upvalueindex(2));
  if (lua_isfunction(L, lua_upvalueindex(1))) {
    ltide_insert_upvalue(L, 1);
    lua_call(L, 3, 0);
  } else if (lua_isnil(L, lua_upvalueindex(1))) {
    lua_rawset(L, 1);
  } else {
    lua_settable(L, lua_upvalueindex(1));
  }
  return 0;
}

/* metatable[key] = a function with the value before and the table at the top, for the metatable below that. */
static void wrap(lua_State *L, const char *key, lua_CFunction fn) {
  lua_getfield(L, -2, key);
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, fn, 2);
  lua_setfield(L, -3, key);
}

void globals_check(lua_State *L, bool is_strict) {
  lua_pushglobaltable(L);
  if (!lua_getmetatable(L, -1)) lua_newtable(L);
  is_strict ? lua_newtable(L) : lua_pushboolean(L, false);
  wrap(L, "__index", checked_index);
  if (is_strict) wrap(L, "__newindex", strict_newindex);
  lua_pop(L, 1);
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}
