/* apply.c: x:apply_(f) and x:map_(y, f): a Lua function for each element, on cpu tensors.
 *
 * The values go to a flat table, the function's results replace them, and the table is written back at the end: an
 * error in the function leaves the tensor as it was. A function that returns nothing keeps the element. */
#include "tensor.h"

static void check_on_cpu(lua_State *L, const tide_tensor *x, const char *name) {
  if (tide_tensor_device(x) != TIDE_CPU)
    ltide_fail(L, "DeviceError",
               "%s: got a tensor on a GPU, expected one on the cpu: a Lua function runs there; use x:cpu()", name);
  if (tide_dtype_kind(tide_tensor_dtype(x)) == 'C')
    ltide_fail(L, "DtypeError", "%s: got a complex tensor, expected a real one", name);
}

/* Pushes the elements of x, row by row, as a flat table. */
static void push_flat(lua_State *L, ltide_state *S, const tide_tensor *x) {
  ltide_tensor *u = ltide_new_tensor(L, S);
  int64_t all = -1;
  ltide_try(L, tide_reshape(&u->t, x, &all, 1));
  ltide_push_table(L, S, u->t);
  ltide_close_tensor(u);
  lua_remove(L, -2);
}

/* Writes the flat table at the top of the stack back to x. */
static int write_flat(lua_State *L, ltide_state *S, tide_tensor *x) {
  tide_options o = {tide_tensor_dtype(x), TIDE_CPU, false};
  ltide_push_converted(L, S, lua_gettop(L), &o);
  ltide_tensor *flat = lua_touserdata(L, -1), *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_view(&u->t, flat->t, tide_tensor_size(x), tide_tensor_ndim(x)));
  ltide_try(L, tide_copy(x, u->t, false));
  ltide_close_tensor(u);
  ltide_close_tensor(flat);
  lua_settop(L, 1);
  return 1;
}

/* map_ has a second tensor. */
static int lmap(lua_State *L, ltide_call *c) {
  const tide_tensor *y = c->sig->count > 2 ? c->v[1].tensor : NULL;
  int f = c->v[y ? 2 : 1].at;
  check_on_cpu(L, c->x, "x");
  if (y) check_on_cpu(L, y, "y");
  int64_t n = tide_tensor_numel(c->x);
  ltide_tensor *wide = y ? ltide_new_tensor(L, c->S) : NULL;
  if (y) {
    ltide_try(L, tide_expand(&wide->t, y, tide_tensor_size(c->x), tide_tensor_ndim(c->x)));
    push_flat(L, c->S, wide->t);
    ltide_close_tensor(wide);
  }
  push_flat(L, c->S, c->x);
  int values = lua_gettop(L);
  for (int64_t i = 1; i <= n; i++) {
    lua_pushvalue(L, f);
    lua_rawgeti(L, values, i);
    if (y) lua_rawgeti(L, values - 1, i);
    lua_call(L, y ? 2 : 1, 1);
    if (lua_isnil(L, -1))
      lua_pop(L, 1);
    else
      lua_rawseti(L, values, i);
  }
  ltide_state *S = ltide_enter(L);
  return write_flat(L, S, ltide_check_tensor(L, S, 1, "x"));
}

#define NOUN apply
#include "call/api/open_noun.def"
