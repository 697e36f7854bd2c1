/* bounded.c: what of table and string goes through as many steps as a script says, in a form that the host can end. A
 * table's length and elements may be a metamethod's, so that they cost no memory. The results are those of Lua's. */
#include "bounded.h"

void ltide_look(lua_State *L, ltide_state *S) {
  int64_t steps = (int64_t)S->steps;
  S->steps = 0;
  if (S->quota) ltide_try(L, tide_quota_spend(S->quota, TIDE_QUOTA_INSTRUCTIONS, steps));
}

#if !LTIDE_FFI /* LuaJIT has its own */
/* {==== table */

enum { READS = 1, WRITES = 2, HAS_LENGTH = 4 };

static bool has_field(lua_State *L, int meta, const char *name) {
  lua_pushstring(L, name);
  bool has = lua_rawget(L, meta) != LUA_TNIL;
  lua_pop(L, 1);
  return has;
}

/* A table, or what has the metamethods to be used as one. */
static void check_table(lua_State *L, int arg, int uses) {
  if (lua_istable(L, arg)) return;
  bool is = lua_getmetatable(L, arg);
  int meta = lua_gettop(L);
  is = is && (!(uses & READS) || has_field(L, meta, "__index")) &&
       (!(uses & WRITES) || has_field(L, meta, "__newindex")) && (!(uses & HAS_LENGTH) || has_field(L, meta, "__len"));
  if (!is) luaL_checktype(L, arg, LUA_TTABLE);
  lua_settop(L, meta - 1);
}

static lua_Integer length_of(lua_State *L, int arg, int uses) {
  check_table(L, arg, uses | HAS_LENGTH);
  return luaL_len(L, arg);
}

/* Element `to` becomes what element `from` is. */
static void copy_element(lua_State *L, ltide_state *S, int source, lua_Integer from, int target, lua_Integer to) {
  ltide_steps(L, S, 1);
  lua_geti(L, source, from);
  lua_seti(L, target, to);
}

static int table_insert(lua_State *L) {
  lua_Integer end = (lua_Integer)((lua_Unsigned)length_of(L, 1, READS | WRITES) + 1), at = end;
  int n = lua_gettop(L);
  if (n != 2 && n != 3) return luaL_error(L, "wrong number of arguments to 'insert'");
  if (n == 3) {
    at = luaL_checkinteger(L, 2);
    luaL_argcheck(L, (lua_Unsigned)at - 1u < (lua_Unsigned)end, 2, "position out of bounds");
    for (lua_Integer i = end; i > at; i--) copy_element(L, ltide_bounding(L), 1, i - 1, 1, i);
  }
  lua_seti(L, 1, at);
  return 0;
}

static int table_remove(lua_State *L) {
  lua_Integer size = length_of(L, 1, READS | WRITES), at = luaL_optinteger(L, 2, size);
  if (at != size) luaL_argcheck(L, (lua_Unsigned)at - 1u <= (lua_Unsigned)size, 2, "position out of bounds");
  lua_geti(L, 1, at);
  for (; at < size; at++) copy_element(L, ltide_bounding(L), 1, at + 1, 1, at);
  lua_pushnil(L);
  lua_seti(L, 1, at);
  return 1;
}

static int table_move(lua_State *L) {
  lua_Integer from = luaL_checkinteger(L, 2), end = luaL_checkinteger(L, 3), to = luaL_checkinteger(L, 4);
  int target = lua_isnoneornil(L, 5) ? 1 : 5;
  check_table(L, 1, READS);
  check_table(L, target, WRITES);
  if (end >= from) {
    luaL_argcheck(L, from > 0 || end < LUA_MAXINTEGER + from, 3, "too many elements to move");
    lua_Integer n = end - from + 1;
    luaL_argcheck(L, to <= LUA_MAXINTEGER - n + 1, 4, "destination wrap around");
    bool forward = to > end || to <= from || (target != 1 && !lua_compare(L, 1, target, LUA_OPEQ));
    for (lua_Integer i = 0; i < n; i++) {
      lua_Integer k = forward ? i : n - 1 - i;
      copy_element(L, ltide_bounding(L), 1, from + k, target, to + k);
    }
  }
  lua_pushvalue(L, target);
  return 1;
}

static void add_element(lua_State *L, luaL_Buffer *out, lua_Integer i) {
  ltide_steps(L, ltide_bounding(L), 1);
  if (lua_geti(L, 1, i) != LUA_TSTRING && !lua_isstring(L, -1))
    luaL_error(L, "invalid value (%s) at index %I in table for 'concat'", luaL_typename(L, -1), i);
  luaL_addvalue(out);
}

static int table_concat(lua_State *L) {
  size_t n;
  lua_Integer length = length_of(L, 1, READS);
  const char *between = luaL_optlstring(L, 2, "", &n);
  lua_Integer i = luaL_optinteger(L, 3, 1), last = luaL_optinteger(L, 4, length);
  luaL_Buffer out;
  luaL_buffinit(L, &out);
  for (; i < last; i++) {
    add_element(L, &out, i);
    luaL_addlstring(&out, between, n);
  }
  if (i == last) add_element(L, &out, i);
  luaL_pushresult(&out);
  return 1;
}

/* The order of two elements; upvalues: the state's struct, and the script's function or nil. */
static int comes_before(lua_State *L) {
  ltide_steps(L, ltide_bounding(L), 1);
  if (lua_isnil(L, lua_upvalueindex(2))) return lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT)), 1;
  if (lua_iscfunction(L, lua_upvalueindex(2))) ltide_look(L, ltide_bounding(L));
  lua_settop(L, 2);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_insert(L, 1);
  lua_call(L, 2, 1);
  return 1;
}

/* Few elements of a table itself are sorted as ever: the order is called so often that counting would be felt. One in C
 * may take long each time. Lua's names the place of whoever calls it, which is not the script here. */
static int table_sort(lua_State *L) {
  enum { FEW = 1 << 14 };
  static const char of_order[] = "invalid order function";
  check_table(L, 1, READS | WRITES | HAS_LENGTH);
  if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  bool is_small = lua_istable(L, 1) && !lua_getmetatable(L, 1) && lua_rawlen(L, 1) <= FEW && !lua_iscfunction(L, 2);
  lua_settop(L, 2);
  if (!is_small) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 2);
    lua_pushcclosure(L, comes_before, 2);
  }
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_insert(L, 1);
  if (lua_pcall(L, 2, 0, 0) == LUA_OK) return 0;
  bool is_order = lua_type(L, -1) == LUA_TSTRING && !strncmp(lua_tostring(L, -1), of_order, sizeof of_order - 1);
  return is_order ? luaL_error(L, "%s", lua_tostring(L, -1)) : lua_error(L);
}

static int table_unpack(lua_State *L) {
  lua_Integer from = luaL_optinteger(L, 2, 1), end = lua_isnoneornil(L, 3) ? luaL_len(L, 1) : luaL_checkinteger(L, 3);
  if (from > end) return 0;
  lua_Unsigned n = (lua_Unsigned)end - (lua_Unsigned)from;
  if (n >= INT_MAX || !lua_checkstack(L, (int)++n)) return luaL_error(L, "too many results to unpack");
  ltide_steps(L, ltide_bounding(L), n);
  for (lua_Unsigned i = 0; i < n; i++) lua_geti(L, 1, from + (lua_Integer)i);
  return (int)n;
}

/* {==== The rest
 *
 * A hook looks every thousand instructions, and each of these may be a call that takes milliseconds. */

static int call_original(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* upper, lower and reverse */
static int through_string(lua_State *L) {
  enum { BYTES = 16 }; /* a step's */
  size_t length;
  luaL_checklstring(L, 1, &length);
  ltide_steps(L, ltide_bounding(L), length / BYTES + 1);
  return call_original(L);
}

/* Of nothing, however often, nothing. */
static int string_rep(lua_State *L) {
  enum { BYTES = 64 };
  size_t length, between;
  luaL_checklstring(L, 1, &length);
  lua_Integer n = luaL_checkinteger(L, 2);
  luaL_optlstring(L, 3, "", &between);
  if (n <= 0 || length + between == 0) return lua_pushliteral(L, ""), 1;
  if (length + between > (size_t)(LUA_MAXINTEGER / n)) return luaL_error(L, "resulting string too large");
  ltide_steps(L, ltide_bounding(L), (length + between) * (size_t)n / BYTES + 1);
  return call_original(L);
}

static int base_collectgarbage(lua_State *L) {
  static const char *const options[] = {"stop",       "restart",   "collect",      "count",       "step", "setpause",
                                        "setstepmul", "isrunning", "generational", "incremental", NULL};
  luaL_checkoption(L, 1, "collect", options);
  ltide_look(L, ltide_bounding(L));
  return call_original(L);
}

/* In the table of that name, if it is there. */
static void bound(lua_State *L, ltide_state *S, const char *library, const luaL_Reg *by) {
  if (lua_getglobal(L, library) == LUA_TTABLE)
    for (; by->name; by++) {
      lua_pushstring(L, by->name);
      if (lua_rawget(L, -2) == LUA_TFUNCTION) {
        lua_pushlightuserdata(L, S);
        lua_insert(L, -2);
        lua_pushcclosure(L, by->func, 2);
        lua_setfield(L, -2, by->name);
      } else
        lua_pop(L, 1);
    }
  lua_pop(L, 1);
}

void ltide_bound_library(lua_State *L, ltide_state *S) {
  static const luaL_Reg table[] =
      {{"insert", table_insert}, {"remove", table_remove}, {"move", table_move}, {"concat", table_concat},
       {"sort", table_sort},     {"unpack", table_unpack}, {NULL, NULL}},
                        string[] = {{"rep", string_rep},
                                    {"upper", through_string},
                                    {"lower", through_string},
                                    {"reverse", through_string},
                                    {NULL, NULL}},
                        base[] = {{"collectgarbage", base_collectgarbage}, {NULL, NULL}};
  bound(L, S, LUA_GNAME, base);
  bound(L, S, LUA_TABLIBNAME, table);
  bound(L, S, LUA_STRLIBNAME, string);
  bound(L, S, LUA_STRLIBNAME, ltide_patterns);
}
#endif
