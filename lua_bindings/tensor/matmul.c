/* matmul.c: matrix products, and how exact those of float32 are.
 *
 * The names of torch differ in the dimensions that they accept; core does the products and these functions check. */

#include "call/did_you_mean.h"
#include "tensor.h"

/* A column times a row, by broadcasting. */
static int louter(lua_State *L, ltide_call *c) {
  const tide_tensor *x = c->x, *y = c->v[1].tensor;
  if (tide_tensor_ndim(x) != 1 || tide_tensor_ndim(y) != 1)
    return ltide_error(L, "ShapeError", "outer: got %d and %d dimensions, expected 1 and 1", tide_tensor_ndim(x),
                       tide_tensor_ndim(y));
  ltide_tensor *column = ltide_new_tensor(L, c->S);
  tide_tensor **slot = ltide_slot(L, c);
  ltide_try(L, tide_unsqueeze(&column->t, x, 1));
  ltide_try(L, tide_binary(slot, TIDE_OP_mul, column->t, y, c->into));
  ltide_close_tensor(column);
  return ltide_finish_into(L, c, TIDE_OK);
}

/* beta * c + alpha * (a @ b), of factors with as many dimensions as the tag's digits say. In place without out=. */
static int ladded(lua_State *L, ltide_call *c) {
  const tide_tensor *a = c->v[1].tensor, *b = c->v[2].tensor;
  int of_a = c->row->tag / 10, of_b = c->row->tag % 10;
  if (tide_tensor_ndim(a) != of_a || tide_tensor_ndim(b) != of_b)
    return ltide_fail(L, "ShapeError", "got factors of %d and %d dimensions, expected %d and %d", tide_tensor_ndim(a),
                      tide_tensor_ndim(b), of_a, of_b);
  double beta = c->v[3].number, alpha = c->v[4].number;
  if (!c->sig->outs) return ltide_self(L, tide_addmm(NULL, c->x, a, b, beta, alpha, c->x));
  tide_tensor **slot = ltide_slot(L, c);
  return ltide_finish_into(L, c, tide_addmm(slot, c->x, a, b, beta, alpha, c->into));
}

/* {==== Exactness of float32 products */

static int lset_precision(lua_State *L, ltide_call *c) {
  const char *text = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
  if (strcmp(text, "highest") && strcmp(text, "high") && strcmp(text, "medium"))
    return ltide_arg_error(L, 1, "precision", "'highest' (ieee), 'high' or 'medium' (tf32)");
  tide_set_tf32(strcmp(text, "highest") != 0);
  return 0;
}

static int lget_precision(lua_State *L, ltide_call *c) {
  return lua_pushstring(L, tide_get_tf32() ? "high" : "highest"), 1;
}

static int lsettings_index(lua_State *L) {
  ltide_enter(L);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "fp32_precision")) return ltide_no_field(L, "tide.backends.cuda.matmul", key, 0, "fp32_precision");
  return lua_pushstring(L, tide_get_tf32() ? "tf32" : "ieee"), 1;
}

static int lsettings_newindex(lua_State *L) {
  ltide_enter(L);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "",
             *value = lua_type(L, 3) == LUA_TSTRING ? lua_tostring(L, 3) : "";
  if (strcmp(key, "fp32_precision"))
    return ltide_error(L, "ArgumentError", "backends.cuda.matmul: got setting '%s', expected fp32_precision", key);
  if (strcmp(value, "tf32") && strcmp(value, "ieee"))
    return ltide_arg_error(L, 3, "fp32_precision", "'ieee' or 'tf32'");
  ltide_need(L, TIDE_LUA_GLOBALS, "backends.cuda.matmul.fp32_precision");
  tide_set_tf32(!strcmp(value, "tf32"));
  return 0;
}

/* tide.backends.cuda.matmul.fp32_precision reads and sets core's switch. */
static void open_settings(lua_State *L) {
  static const luaL_Reg meta[] = {{"__index", lsettings_index}, {"__newindex", lsettings_newindex}, {NULL, NULL}};
  luaL_getsubtable(L, -1, "backends");
  luaL_getsubtable(L, -1, "cuda");
  lua_newtable(L);
  ltide_set_meta(L, "tide.backends.cuda.matmul", meta);
  lua_setfield(L, -2, "matmul");
  lua_pop(L, 2);
}

#include <rows/matmul.inc>

void ltide_open_matmul(lua_State *L, ltide_state *S) {
  ltide_register_rows(L, "tide", matmul_rows);
  open_settings(L);
}
