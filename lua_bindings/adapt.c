/* adapt.c: functions for rows that need no C function of their own: the row says what is called, and its signature how
 * the arguments are read. One function for each shape of core's functions on a tensor. */
#include "row.h"

#define RESULT (&ltide_new_tensor(L, c.S)->t)
#define X      c.v[0].tensor

int ltide_x(lua_State *L) {
  ltide_call c;
  ltide_call_read(L, &c);
  return ltide_finish(L, &c, c.row->core.x(RESULT, X));
}

int ltide_x_dim(lua_State *L) {
  ltide_call c;
  ltide_call_read(L, &c);
  return ltide_finish(L, &c, c.row->core.x_dim(RESULT, X, c.v[1].dim));
}

int ltide_x_dim_dim(lua_State *L) {
  ltide_call c;
  ltide_call_read(L, &c);
  return ltide_finish(L, &c, c.row->core.x_dim_dim(RESULT, X, c.v[1].dim, c.v[2].dim));
}

int ltide_x_dims(lua_State *L) {
  ltide_call c;
  ltide_call_read(L, &c);
  return ltide_finish(L, &c, c.row->core.x_dims(RESULT, X, c.v[1].dims, c.v[1].n));
}

int ltide_x_sizes(lua_State *L) {
  ltide_call c;
  ltide_call_read(L, &c);
  return ltide_finish(L, &c, c.row->core.x_sizes(RESULT, X, c.v[1].sizes, c.v[1].n));
}

int ltide_x_dim_sizes(lua_State *L) {
  ltide_call c;
  ltide_call_read(L, &c);
  return ltide_finish(L, &c, c.row->core.x_dim_sizes(RESULT, X, c.v[1].dim, c.v[2].sizes, c.v[2].n));
}

int ltide_x_dtype(lua_State *L) {
  ltide_call c;
  ltide_call_read(L, &c);
  return ltide_finish(L, &c, c.row->core.x_dtype(RESULT, X, c.v[1].dtype));
}

/* Core writes to out= itself. */
int ltide_x_y_into(lua_State *L) {
  ltide_call c;
  ltide_call_read(L, &c);
  tide_tensor *into = ltide_opt_tensor(L, c.S, c.opts, "out");
  ltide_try(L, c.row->core.x_y_into(into ? NULL : RESULT, X, c.v[1].tensor, into));
  if (into) ltide_push_option(L, c.opts, "out");
  ltide_made(L, c.S);
  return 1;
}
