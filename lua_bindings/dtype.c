/* dtype.c: tide.float32 and the like: one object for each dtype and Lua state, so that == compares them.
 *
 * The objects live in a registry table, indexed by the enum; ltide_push_dtype makes no garbage. Wherever a dtype is
 * expected its name or alias will do as well. */
#include <string.h>

#include "row.h"
#include "names.h"

#define DTYPE_META "tide.dtype"

static tide_dtype check_self(lua_State *L) {
  const tide_dtype *d = ltide_dtype_of(L, 1);
  if (!d) ltide_arg_error(L, 1, "dtype", "a dtype object");
  return *d;
}

static int ldtype_tostring(lua_State *L) {
  lua_pushfstring(L, "tide.%s", tide_dtype_name(check_self(L)));
  return 1;
}

static int ldtype_index(lua_State *L) {
  tide_dtype d = check_self(L);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  char kind = tide_dtype_kind(d);
  if (!strcmp(key, "name"))
    lua_pushstring(L, tide_dtype_name(d));
  else if (!strcmp(key, "itemsize"))
    lua_pushinteger(L, (lua_Integer)tide_dtype_size(d));
  else if (!strcmp(key, "is_floating_point"))
    lua_pushboolean(L, kind == 'F');
  else if (!strcmp(key, "is_complex"))
    lua_pushboolean(L, kind == 'C');
  else if (!strcmp(key, "is_signed"))
    lua_pushboolean(L, kind != 'B' && kind != 'U');
  else
    return ltide_no_field(L, "dtype", key, 0, "name itemsize is_floating_point is_complex is_signed");
  return 1;
}

static int lset_default_dtype(lua_State *L) {
  ltide_try(L, tide_set_default_dtype(ltide_check_dtype(L, 1, "dtype")));
  return 0;
}

static int lget_default_dtype(lua_State *L) {
  ltide_push_dtype(L, tide_get_default_dtype());
  return 1;
}

static int lpromote_types(lua_State *L) {
  tide_dtype a = ltide_check_dtype(L, 1, "a"), b = ltide_check_dtype(L, 2, "b");
  ltide_push_dtype(L, tide_dtype_promote(a, b));
  return 1;
}

static int lcan_cast(lua_State *L) {
  tide_dtype a = ltide_check_dtype(L, 1, "from"), b = ltide_check_dtype(L, 2, "to");
  lua_pushboolean(L, tide_dtype_can_cast(a, b));
  return 1;
}

static int lis_dtype(lua_State *L) {
  lua_pushboolean(L, ltide_dtype_of(L, 1) != NULL);
  return 1;
}

static void set_object(lua_State *L, int module, tide_dtype d, const char *name, const char *alias) {
  ltide_push_dtype(L, d);
  lua_pushvalue(L, -1);
  lua_setfield(L, module, name);
  lua_setfield(L, module, alias);
}

void ltide_open_dtype(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {{"__tostring", ldtype_tostring}, {"__index", ldtype_index}, {NULL, NULL}};
  int module = lua_gettop(L);
  ltide_newmetatable(L, DTYPE_META);
  luaL_setfuncs(L, meta, 0);
  S->dtype_meta = lua_topointer(L, -1);
  lua_createtable(L, TIDE_DTYPE_COUNT, 1);
  for (int d = 0; d < TIDE_DTYPE_COUNT; d++) {
    tide_dtype *object = ltide_new_object(L, sizeof *object, 0);
    *object = (tide_dtype)d;
    ltide_setmetatable(L, DTYPE_META);
    lua_rawseti(L, -2, d);
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, &ltide_dtype_objects);
#define DTYPE(name, NAME, type, bytes, kind, alias) set_object(L, module, TIDE_##NAME, #name, #alias);
#include "tide/dtype.def"
#undef DTYPE
  lua_settop(L, module);
#define PATH "tide."
  static ltide_row rows[] = {
#include "api/dtype.def"
      {0}};
  ltide_register_rows(L, "tide", rows);
}
