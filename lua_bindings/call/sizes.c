/* sizes.c: what x.shape gives: a list of sizes that cannot be changed.
 *
 * A shape is an empty table before a plain one, since Lua asks a metatable only about keys that a table does not have:
 * __index is the plain table, so that reading costs no call, and __newindex refuses. As nobody can change a shape, all
 * tensors of the same sizes share one while it is alive: x.shape makes no garbage in a loop. Raw functions (rawlen,
 * next) see an empty table; #, ipairs, pairs, table.unpack and table.concat see the sizes. Keys that the plain table
 * does not have reach lshape_index: -1 is the last size, 0 raises, and the key behind the last is nil, as ipairs wants.
 *
 * LuaJIT asks no metatable about the length of a table: there a shape is a plain table of its own, which refuses keys
 * that it does not have.
 *
 * Invariant: no script gets hold of the plain table. */
#include "args.h"
#include "each.h"

static const char key_cache, key_template, key_plain, key_beyond;

void ltide_push_integers(lua_State *L, const int64_t *values, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushinteger(L, values[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* Pushes the plain table of the shape at arg, or nothing. */
static bool push_plain(lua_State *L, int arg) {
  if (!lua_istable(L, arg) || !lua_getmetatable(L, arg)) return false;
  int kind = lua_rawgetp(L, -1, &key_plain);
  lua_remove(L, -2);
  if (kind == LUA_TBOOLEAN) lua_pushvalue(L, arg), lua_replace(L, -2); /* it is plain itself */
  if (kind == LUA_TNIL) lua_pop(L, 1);
  return kind != LUA_TNIL;
}

/* {==== Small vectors and matrices, of vectors.c, whose metatables say how many components or rows they have */

static const char key_small;

void ltide_mark_small(lua_State *L, int n) {
  lua_pushinteger(L, n);
  lua_rawsetp(L, -2, &key_small);
}

static int small_count(lua_State *L, int arg) {
  if (!lua_istable(L, arg) || !lua_getmetatable(L, arg)) return 0;
  lua_rawgetp(L, -1, &key_small);
  int n = (int)lua_tointeger(L, -1);
  lua_pop(L, 2);
  return n;
}

bool ltide_is_small(lua_State *L, int arg) { return small_count(L, arg) != 0; }

/* Pushes the list of what the value at arg has, or nothing. */
static bool push_small(lua_State *L, int arg) {
  static const char *const fields[] = {"_x", "_y", "_z", "_w"};
  int n = small_count(L, arg);
  if (!n) return false;
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushstring(L, fields[i]), lua_rawget(L, arg);
    lua_rawseti(L, -2, i + 1);
  }
  return true;
}

bool ltide_plain_shape(lua_State *L, int arg) {
  arg = lua_absindex(L, arg);
  if (!push_plain(L, arg) && !push_small(L, arg)) return false;
  lua_replace(L, arg);
  return true;
}

void ltide_plain_shapes(lua_State *L, int list, int n) {
  lua_rawgeti(L, list, 1);
  bool is_shape = ltide_plain_shape(L, -1);
  lua_pop(L, 1);
  for (int i = 1; is_shape && i <= n; i++) {
    lua_rawgeti(L, list, i);
    if (ltide_plain_shape(L, -1))
      lua_rawseti(L, list, i);
    else
      lua_pop(L, 1);
  }
}

/* {==== What a shape can do */

static int lshape_newindex(lua_State *L) {
  return ltide_error(L, "ArgumentError", "shape: it is read-only: use view, reshape or resize_");
}

static int lshape_index(lua_State *L) {
  if (!lua_istable(L, 1)) return ltide_arg_error(L, 1, "shape", "what x.shape gives");
  lua_Integer i = lua_type(L, 2) == LUA_TNUMBER ? lua_tointeger(L, 2) : 1, n = (lua_Integer)lua_rawlen(L, 1);
  if (i > 0 || (i == 0 && lua_tonumber(L, 2) != 0)) return 0;
  if (i == 0 || i < -n)
    return ltide_error(L, "IndexError", "shape: got %I, expected 1 to %I or %I to -1%s", i, n, -n,
                       i ? "" : "; indexes and dimensions count from 1");
  return lua_rawgeti(L, 1, n + 1 + i), 1;
}

static int lshape_len(lua_State *L) {
  if (!push_plain(L, 1)) return ltide_arg_error(L, 1, "shape", "what x.shape gives");
  return ltide_give_integer(L, (lua_Integer)lua_rawlen(L, -1));
}

static int lshape_tostring(lua_State *L) {
  luaL_Buffer b;
  if (!push_plain(L, 1)) return ltide_arg_error(L, 1, "shape", "what x.shape gives");
  int plain = lua_gettop(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, plain);
  luaL_buffinit(L, &b);
  luaL_addchar(&b, '{');
  for (lua_Integer i = 1; i <= n; i++) {
    if (i > 1) luaL_addstring(&b, ", ");
    lua_rawgeti(L, plain, i);
    luaL_addvalue(&b);
  }
  luaL_addchar(&b, '}');
  return luaL_pushresult(&b), 1;
}

/* With another shape or a plain table. */
static int lshape_eq(lua_State *L) {
  bool is_equal = lua_istable(L, 1) && lua_istable(L, 2);
  lua_settop(L, 2);
  for (int i = 1; is_equal && i <= 2; i++) ltide_plain_shape(L, i);
  is_equal = is_equal && lua_rawlen(L, 1) == lua_rawlen(L, 2);
  lua_Integer n = is_equal ? (lua_Integer)lua_rawlen(L, 1) : 0;
  for (lua_Integer i = 1; is_equal && i <= n; i++) {
    lua_rawgeti(L, 1, i);
    lua_rawgeti(L, 2, i);
    is_equal = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
  }
  return ltide_give_boolean(L, is_equal);
}

static int next_size(lua_State *L) {
  lua_Integer i = ltide_check_integer(L, 2, "i");
  if (!push_plain(L, 1)) return ltide_arg_error(L, 1, "shape", "what x.shape gives");
  if (i < 0 || i >= (lua_Integer)lua_rawlen(L, -1)) return 0;
  lua_pushinteger(L, i + 1);
  lua_insert(L, -2);
  if (lua_rawgeti(L, -1, i + 1) == LUA_TNIL) return 1;
  lua_remove(L, -2);
  return 2;
}

static int lshape_pairs(lua_State *L) {
  lua_pushcfunction(L, next_size);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, 0);
  return 3;
}

/* {==== Making them */

/* Makes the shape of the plain table at the top of the stack, in its place. */
static void wrap(lua_State *L) {
  int plain = lua_gettop(L);
  lua_newtable(L);
  lua_createtable(L, 0, 10);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_template);
  for (lua_pushnil(L); lua_next(L, -2);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -5);
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_beyond);
  lua_setmetatable(L, plain);
  lua_pop(L, 1);
  lua_pushvalue(L, plain);
  lua_setfield(L, -2, "__index");
  lua_pushvalue(L, plain);
  lua_rawsetp(L, -2, &key_plain);
  lua_setmetatable(L, -2);
  lua_replace(L, plain);
}

void ltide_push_shape(lua_State *L, const int64_t *values, int n) {
  luaL_checkstack(L, 10, "shape");
  if (!LTIDE_TABLE_LEN) {
    ltide_push_integers(L, values, n);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &key_template);
    lua_setmetatable(L, -2);
    return;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_cache);
  lua_pushlstring(L, n ? (const char *)values : "", (size_t)n * sizeof *values);
  lua_pushvalue(L, -1);
  if (lua_rawget(L, -3) == LUA_TNIL) {
    lua_pop(L, 1);
    ltide_push_integers(L, values, n);
    wrap(L);
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, -5);
  }
  lua_replace(L, -3);
  lua_pop(L, 1);
}

void ltide_open_sizes(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = LTIDE_META(lshape_, newindex, len, tostring, eq, pairs, index);
  lua_createtable(L, 0, 2);
  ltide_set_function(L, "__index", lshape_index);
  ltide_protect(L, "tide.Shape");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_beyond);
  luaL_newlib(L, meta);
  ltide_set_text(L, "__name", "tide.Shape");
  ltide_protect(L, "tide.Shape");
  if (!LTIDE_TABLE_LEN) lua_pushboolean(L, 1), lua_rawsetp(L, -2, &key_plain);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_template);
  lua_newtable(L);
  ltide_make_weak(L, "v");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_cache);
}
