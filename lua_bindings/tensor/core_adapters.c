/* core_adapters.c: bodies for rows that need none of their own: the row says what is called, and its signature how the
 * arguments are read. One for each shape of core's functions on a tensor. */
#include "call/row.h"

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
