/* vectors.c: small vectors, matrices and quaternions as values of plain Lua, which kernels have under the same names.
 *
 * What they do is Lua, in kernel/vectors.lua, which fills the metatables that are made here. Where components are given
 * as numbers, as in a loop, the value is made here without a call. A metatable says how many components or rows its
 * values have (sizes.c), so that whatever reads a list of numbers takes them too.
 *
 * tide.dot, cross, clamp and transpose are functions of tensors: where the first argument is one of these values, its
 * method is called in their place.
 *
 * Invariant: a value made here has floats in all of its fields, which vectors.lua says the names of. */
#include <math.h>

#include "call/fields.h"
#include "call/row.h"

static const char *const fields[] = {"_x", "_y", "_z", "_w"};
static const char *const names[] = {"vec2", "vec3", "vec4", "quat", "mat2", "mat3", "mat4"};
static const int counts[] = {2, 3, 4, 4, 2, 3, 4};

/* The table of the metatables by name, from the start; and once the chunk has filled them. */
static const char key_empty, key_small;

/* Are all of the n values from 1 on numbers? */
static bool are_numbers(lua_State *L, int n) {
  for (int i = 1; i <= n; i++)
    if (lua_type(L, i) != LUA_TNUMBER) return false;
  return true;
}

/* tide.vec3(...): tag is how many fields, 5 for a quaternion, 0 for matrices. */
static int lsmall(lua_State *L) {
  const ltide_row *row = lua_touserdata(L, lua_upvalueindex(1));
  int n = row->tag == 5 ? 4 : row->tag, given = lua_gettop(L);
  if (n && given == n && are_numbers(L, n) && lua_rawgetp(L, LUA_REGISTRYINDEX, &key_small) == LUA_TTABLE) {
    lua_createtable(L, 0, n);
    for (int i = 0; i < n; i++) {
      lua_pushstring(L, fields[i]);
      lua_pushnumber(L, lua_tonumber(L, i + 1));
      lua_rawset(L, -3);
    }
    lua_getfield(L, n + 1, row->name);
    lua_setmetatable(L, -2);
    return 1;
  }
  lua_settop(L, given);
  ltide_enter(L);
  lua_pushstring(L, row->name);
  lua_insert(L, 1);
  return ltide_script_call(L, "kernel/vectors.new", given + 1);
}

/* tide.NAME(v, ...) of what has a method NAME. */
static int lof_small(lua_State *L) {
  const ltide_row *row = lua_touserdata(L, lua_upvalueindex(1));
  ltide_enter(L);
  lua_pushstring(L, row->name);
  lua_insert(L, 1);
  return ltide_script_call(L, "kernel/vectors.call", lua_gettop(L));
}

static int ltensor_or_small(lua_State *L) {
  const ltide_row *row = lua_touserdata(L, lua_upvalueindex(1));
  return ltide_is_small(L, 1) ? lof_small(L) : row->fn(L);
}

/* {==== What the chunk cannot do itself */

/* seal(t, metatable): t. */
static int script_seal(lua_State *L) { return lua_settop(L, 2), lua_setmetatable(L, 1), 1; }
/* metatables(): by name. */
static int script_metatables(lua_State *L) { return lua_rawgetp(L, LUA_REGISTRYINDEX, &key_empty), 1; }
/* filled(metatables): they are. */
static int script_filled(lua_State *L) { return lua_settop(L, 1), lua_rawsetp(L, LUA_REGISTRYINDEX, &key_small), 0; }
/* written(text): the function that a text of the chunk is. */
static int script_written(lua_State *L) {
  const char *text = lua_tostring(L, 1);
  return luaL_loadbufferx(L, text, strlen(text), "=[tide kernel/vectors.lua]", "t") == LUA_OK ? 1 : lua_error(L);
}
static int script_sqrt(lua_State *L) { return lua_pushnumber(L, sqrt(lua_tonumber(L, 1))), 1; }

#define SMALL(n, tg) .fn = lsmall, .tag = tg
#define OF_SMALL     .fn = lof_small
#include <rows/vectors.inc>

/* With the module at the top: a function of tensors takes these values too. */
static void share(lua_State *L, const char *name) {
  lua_getfield(L, -1, name);
  lua_getupvalue(L, -1, 1);
  lua_pushcclosure(L, ltensor_or_small, 1);
  lua_setfield(L, -3, name);
  lua_pop(L, 1);
}

void ltide_open_vectors(lua_State *L, ltide_state *S) {
  static const char *const shared[] = {"dot", "cross", "clamp", "transpose"};
  ltide_register_rows(L, "tide", vectors_rows);
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) share(L, shared[i]);
  lua_createtable(L, 0, 7);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    lua_createtable(L, 0, 12);
    ltide_mark_small(L, counts[i]);
    ltide_set_text(L, "__name", names[i]);
    ltide_set_text(L, "__metatable", names[i]);
    lua_setfield(L, -2, names[i]);
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_empty);
  LTIDE_GIVE(L, "kernel/vectors.c", seal, sqrt, metatables, filled, written);
}
