/* loader_columns.c: a table of tensors, by any keys, as a dataset with {size=}: its items are their rows.
 *
 * The table is copied when the loader is made and stands behind a function, so that the rest of the loader sees one of
 * the two kinds of datasets that there are. */
#include "args.h"
#include "loader.h"

static bool is_columns(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  bool any = false;
  if (lua_type(L, 1) != LUA_TTABLE) return false;
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1), any = true)
    if (!ltide_test_tensor(L, S, -1)) {
      lua_pop(L, 2);
      return false;
    }
  return any;
}

/* The item at 1: the rows of the columns, which are the upvalue, under the same keys. */
static int push_rows(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  int64_t i = ltide_check_integer(L, 1, "i") - 1;
  lua_settop(L, 1);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, lua_upvalueindex(1)); lua_settop(L, 3)) {
    const tide_tensor *x = ltide_check_tensor(L, S, -1, "dataset");
    lua_pushvalue(L, 3);
    ltide_tensor *u = ltide_new_tensor(L, S);
    ltide_try(L, tide_select(&u->t, x, 0, i));
    lua_rawset(L, 2);
  }
  return 1;
}

void ltide_loader_columns(lua_State *L, lua_Integer size) {
  if (!is_columns(L)) return;
  ltide_state *S = ltide_enter(L);
  int top = lua_gettop(L);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, 1);) {
    const tide_tensor *x = ltide_check_tensor(L, S, -1, "dataset");
    lua_Integer rows = tide_tensor_ndim(x) ? tide_tensor_size(x)[0] : 0;
    if (rows < size)
      ltide_error(L, "ShapeError", "loader: dataset[%s]: got %I rows, expected at least the %I of size",
                  luaL_tolstring(L, -2, NULL), rows, size);
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, top + 1);
  }
  lua_pushcclosure(L, push_rows, 1);
  lua_replace(L, 1);
}
