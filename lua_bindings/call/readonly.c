/* readonly.c: the tables of the module as a script sees them that must not change them: tide, what is in it, its
 * classes.
 *
 * Instead of a table the script has an object, which rawset and table.insert refuse. What it reads, and what pairs
 * gives, is a copy of the table in which the tables below are such objects, too; reading costs nothing more, since the
 * copy is the object's __index. Our own functions go on using the tables themselves.
 *
 * Invariant: no function hands out a table that has been frozen, or its copy. */
#include "row.h"

static const char key_seal, key_frozen; /* registry: the object of each table that is frozen */

enum { COPY = 1, TABLE }; /* user values */

static bool is_frozen(lua_State *L, int arg) { return ltide_test_meta(L, arg, &key_seal) != NULL; }

bool ltide_push_thawed(lua_State *L, int arg) {
  if (!is_frozen(L, arg)) return false;
  lua_getiuservalue(L, arg, TABLE);
  return true;
}

static int next_pair(lua_State *L) {
  lua_settop(L, 2);
  if (!is_frozen(L, 1)) return ltide_arg_error(L, 1, "table", "a table of tide");
  lua_getiuservalue(L, 1, COPY);
  lua_replace(L, 1);
  return lua_next(L, 1) ? 2 : 0;
}

static int all_pairs(lua_State *L) {
  lua_settop(L, 1);
  lua_pushcfunction(L, next_pair);
  lua_insert(L, 1);
  return lua_pushnil(L), 3;
}

/* Pushes the object's own metatable: what the table's has, such as a call, and what makes it read-only. */
static void push_meta(lua_State *L, int table, int copy) {
  lua_createtable(L, 0, 8);
  int meta = lua_gettop(L);
  if (lua_getmetatable(L, table)) {
    for (lua_pushnil(L); lua_next(L, meta + 1); lua_settop(L, meta + 2)) {
      if (lua_type(L, meta + 2) != LUA_TSTRING) continue;
      lua_pushvalue(L, meta + 2);
      lua_insert(L, -2);
      lua_rawset(L, meta);
    }
    lua_settop(L, meta + 1);
    lua_setmetatable(L, copy);
  }
  lua_pushvalue(L, copy);
  lua_setfield(L, meta, "__index");
  lua_pushcfunction(L, all_pairs);
  lua_setfield(L, meta, "__pairs");
  if (lua_getfield(L, meta, "__metatable") == LUA_TSTRING) lua_setfield(L, meta, "__name");
  lua_settop(L, meta);
  if (lua_getfield(L, meta, "__newindex") == LUA_TNIL) {
    lua_pushcfunction(L, ltide_read_only);
    lua_setfield(L, meta, "__newindex");
  }
  lua_settop(L, meta);
}

static void push_frozen(lua_State *L, int table, int known) {
  luaL_checkstack(L, 12, "tide");
  lua_pushvalue(L, table);
  if (lua_rawget(L, known) != LUA_TNIL) return;
  lua_pop(L, 1);
  ltide_new_object(L, 0, 2);
  int object = lua_gettop(L), copy = object + 1;
  lua_pushvalue(L, table);
  lua_pushvalue(L, object);
  lua_rawset(L, known);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, table); lua_settop(L, copy + 1)) {
    lua_pushvalue(L, copy + 1);
    if (lua_istable(L, copy + 2))
      push_frozen(L, copy + 2, known);
    else
      lua_pushvalue(L, copy + 2);
    lua_rawset(L, copy);
  }
  lua_settop(L, copy);
  ltide_note_table(L);
  push_meta(L, table, copy);
  lua_setmetatable(L, object);
  lua_setiuservalue(L, object, COPY);
  lua_pushvalue(L, table);
  lua_setiuservalue(L, object, TABLE);
  ltide_seal(L, lua_touserdata(L, object), &key_seal);
}

void ltide_freeze(lua_State *L) {
  int table = lua_gettop(L);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_frozen);
  push_frozen(L, table, table + 1);
  lua_replace(L, table);
  lua_settop(L, table);
}
