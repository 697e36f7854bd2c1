/* results.c: where the results of a call go: new handles, or the destinations of out=. */
#include "tensor.h"

tide_tensor *ltide_push_target(lua_State *L, ltide_state *S, int opts, const int64_t *size, int ndim,
                               const tide_options *o) {
  if (ltide_push_option(L, opts, "out")) {
    tide_tensor *out = ltide_check_destination(L, S, -1, "out");
    ltide_try(L, tide_fit(out, size, ndim));
    return out;
  }
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_empty(&u->t, size, ndim, o));
  return u->t;
}

/* Can the destination take the result? It raises where not, and changes nothing. */
static void check_fit(lua_State *L, tide_tensor *out, const tide_tensor *result) {
  tide_dtype from = tide_tensor_dtype(result), to = tide_tensor_dtype(out);
  const char *name = ltide_function_name(L);
  if (!tide_dtype_can_cast(from, to))
    ltide_error(L, "DtypeError", "%s: out: got %s, expected %s or a wider one", name, tide_dtype_name(to),
                tide_dtype_name(from));
  if (tide_tensor_device(out) != tide_tensor_device(result)) {
    ltide_push_device(L, tide_tensor_device(out));
    const char *got = luaL_tolstring(L, -1, NULL);
    ltide_push_device(L, tide_tensor_device(result));
    ltide_error(L, "DeviceError", "%s: out: got a tensor on %s, expected one on %s, where the result is", name, got,
                luaL_tolstring(L, -1, NULL));
  }
  if (tide_tensor_numel(out)) ltide_try(L, tide_fit(out, tide_tensor_size(result), tide_tensor_ndim(result)));
}

/* Gives the result to the destination: without a copy where that one is empty and nobody else has the result. */
static void give(lua_State *L, tide_tensor *out, tide_tensor *result) {
  tide_dtype from = tide_tensor_dtype(result), to = tide_tensor_dtype(out);
  bool own = tide_storage_refs(tide_tensor_storage(result)) == 1;
  if (own && from == to && !tide_tensor_numel(out)) {
    ltide_try(L, tide_set(out, result));
    return;
  }
  ltide_try(L, tide_fit(out, tide_tensor_size(result), tide_tensor_ndim(result)));
  ltide_try(L, tide_copy(out, result, false));
}

int ltide_deliver(lua_State *L, ltide_state *S, int opts, int n) {
  ltide_made(L, S);
  int first = lua_gettop(L) - n + 1;
  ltide_check_out(L, S, opts, n);
  if (!ltide_push_option(L, opts, "out")) return n;
  luaL_checkstack(L, n + LUA_MINSTACK, "tide: results");
  int outs = lua_gettop(L) + 1;
  for (int i = 0; i < n; i++) { /* all of them, before one is written */
    if (n == 1)
      lua_pushvalue(L, -1);
    else
      lua_rawgeti(L, outs - 1, i + 1);
    check_fit(L, ltide_check_tensor(L, S, -1, "out"), ((ltide_tensor *)lua_touserdata(L, first + i))->t);
  }
  for (int i = 0; i < n; i++) {
    ltide_tensor *u = lua_touserdata(L, first + i);
    give(L, ltide_check_destination(L, S, outs + i, "out"), u->t);
    ltide_close_tensor(u);
    lua_pushvalue(L, outs + i);
    lua_replace(L, first + i);
  }
  lua_settop(L, first + n - 1);
  return n;
}

/* {==== The end of a call that a row has read */

ltide_two ltide_results(lua_State *L, ltide_call *c) {
  ltide_check_out(L, c->S, c->opts, 2);
  tide_tensor **first = ltide_result(L, c);
  return (ltide_two){first, ltide_result(L, c)};
}

int ltide_finish_two(lua_State *L, const ltide_call *c, tide_status status) {
  ltide_try(L, status);
  return ltide_deliver(L, c->S, c->opts, 2);
}

int ltide_finish(lua_State *L, const ltide_call *c, tide_status status) {
  ltide_try(L, status);
  if (c->opts && c->sig->outs) return ltide_deliver(L, c->S, c->opts, 1);
  ltide_made(L, c->S);
  return 1;
}

tide_tensor **ltide_slot(lua_State *L, ltide_call *c) {
  c->into = ltide_opt_tensor(L, c->S, c->opts, "out");
  return c->into ? NULL : ltide_result(L, c);
}

int ltide_finish_into(lua_State *L, const ltide_call *c, tide_status status) {
  ltide_try(L, status);
  ltide_made(L, c->S);
  if (c->into) ltide_push_option(L, c->opts, "out");
  return 1;
}

int ltide_call_composed(lua_State *L, ltide_call *c) { return ltide_compose(L, c, c->row->script); }

int ltide_compose(lua_State *L, ltide_call *c, const char *name) {
  if (c->sig->outs > 1) ltide_check_out(L, c->S, c->opts, c->sig->outs);
  int before = lua_gettop(L);
  ltide_script_push(L, name);
  lua_call(L, ltide_push_read(L, c), LUA_MULTRET);
  c->S = ltide_enter(L);
  int n = lua_gettop(L) - before;
  if (c->sig->outs == 1) return ltide_finish(L, c, TIDE_OK);
  return c->sig->outs && c->opts ? ltide_deliver(L, c->S, c->opts, n) : n;
}

/* {==== Bodies for rows that need none of their own: one for each shape of core's functions. The row says what is
 * called, and its signature how the arguments are read. */

int ltide_x(lua_State *L, ltide_call *c) { return ltide_finish(L, c, c->row->core.x(ltide_result(L, c), c->x)); }

int ltide_x_dim(lua_State *L, ltide_call *c) {
  return ltide_finish(L, c, c->row->core.x_dim(ltide_result(L, c), c->x, c->v[1].dim));
}

int ltide_x_dim_dim(lua_State *L, ltide_call *c) {
  return ltide_finish(L, c, c->row->core.x_dim_dim(ltide_result(L, c), c->x, c->v[1].dim, c->v[2].dim));
}

int ltide_x_dims(lua_State *L, ltide_call *c) {
  return ltide_finish(L, c, c->row->core.x_dims(ltide_result(L, c), c->x, c->v[1].dims, c->v[1].n));
}

int ltide_x_sizes(lua_State *L, ltide_call *c) {
  return ltide_finish(L, c, c->row->core.x_sizes(ltide_result(L, c), c->x, c->v[1].sizes, c->v[1].n));
}

int ltide_x_dim_sizes(lua_State *L, ltide_call *c) {
  const ltide_value *sizes = &c->v[2];
  return ltide_finish(L, c, c->row->core.x_dim_sizes(ltide_result(L, c), c->x, c->v[1].dim, sizes->sizes, sizes->n));
}

int ltide_x_dtype(lua_State *L, ltide_call *c) {
  return ltide_finish(L, c, c->row->core.x_dtype(ltide_result(L, c), c->x, c->v[1].dtype));
}

int ltide_x_y(lua_State *L, ltide_call *c) {
  return ltide_finish(L, c, c->row->core.x_y(ltide_result(L, c), c->x, c->v[1].tensor));
}

int ltide_x_y_into(lua_State *L, ltide_call *c) {
  tide_tensor **slot = ltide_slot(L, c);
  return ltide_finish_into(L, c, c->row->core.x_y_into(slot, c->x, c->v[1].tensor, c->into));
}

int ltide_act(lua_State *L, ltide_call *c) { return c->row->core.act(), 0; }

int ltide_is(lua_State *L, ltide_call *c) { return lua_pushboolean(L, c->row->core.is()), 1; }
