/* matmul.c: matrix products, and how exact those of float32 are.
 *
 * The names of torch differ in the dimensions that they accept; core does the products and these functions check. */
#include <string.h>

#include "args.h"
#include "names.h"

static const char *const out_keys[] = {"out", NULL};

typedef tide_status (*product_fn)(tide_tensor **, const tide_tensor *, const tide_tensor *, tide_tensor *);

static int product(lua_State *L, product_fn fn) {
  ltide_state *S = ltide_begin(L);
  tide_tensor *a = ltide_check_tensor(L, S, 1, "x"), *b = ltide_check_tensor(L, S, 2, "y"), *out = NULL;
  ltide_args args = {2, 0};
  if (lua_gettop(L) > 2) {
    args = ltide_split(L, 2);
    ltide_check_count(L, args, 2);
    ltide_check_keys(L, args.opts, out_keys);
    out = ltide_opt_tensor(L, S, args.opts, "out");
  }
  ltide_tensor *u = out ? NULL : ltide_new_tensor(L, S);
  ltide_try(L, fn(u ? &u->t : NULL, a, b, out));
  if (out) ltide_rawfield(L, args.opts, "out");
  ltide_made(L, S);
  return 1;
}

static int lmatmul(lua_State *L) { return product(L, tide_matmul); }
static int lmm(lua_State *L) { return product(L, tide_mm); }
static int lbmm(lua_State *L) { return product(L, tide_bmm); }
static int lmv(lua_State *L) { return product(L, tide_mv); }
static int ldot(lua_State *L) { return product(L, tide_dot); }

/* A column times a row, by broadcasting. */
static int louter(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *a = ltide_check_tensor(L, S, 1, "x"), *b = ltide_check_tensor(L, S, 2, "y");
  ltide_args args = ltide_split(L, 2);
  ltide_check_count(L, args, 2);
  ltide_check_keys(L, args.opts, out_keys);
  if (tide_tensor_ndim(a) != 1 || tide_tensor_ndim(b) != 1)
    return ltide_error(L, "ShapeError", "outer: got %d and %d dimensions, expected 1 and 1", tide_tensor_ndim(a),
                       tide_tensor_ndim(b));
  tide_tensor *out = ltide_opt_tensor(L, S, args.opts, "out");
  ltide_tensor *column = ltide_new_tensor(L, S), *u = out ? NULL : ltide_new_tensor(L, S);
  ltide_try(L, tide_unsqueeze(&column->t, a, 1));
  ltide_try(L, tide_binary(u ? &u->t : NULL, TIDE_OP_mul, column->t, b, out));
  ltide_close_tensor(column);
  if (out) ltide_rawfield(L, args.opts, "out");
  ltide_made(L, S);
  return 1;
}

/* {==== beta * c + alpha * (a @ b) */

typedef struct added_shape {
  int a, b; /* dimensions that the factors must have */
} added_shape;

static int added(lua_State *L, added_shape shape, bool in_place) {
  static const char *const keys[] = {"beta", "alpha", "out", NULL}, *const own_keys[] = {"beta", "alpha", NULL};
  ltide_state *S = ltide_enter(L);
  tide_tensor *c = ltide_check_tensor(L, S, 1, "c"), *a = ltide_check_tensor(L, S, 2, "a"),
              *b = ltide_check_tensor(L, S, 3, shape.b == 1 ? "v" : "b");
  ltide_args args = ltide_split(L, 3);
  ltide_check_count(L, args, 3);
  ltide_check_keys(L, args.opts, in_place ? own_keys : keys);
  if (tide_tensor_ndim(a) != shape.a || tide_tensor_ndim(b) != shape.b)
    return ltide_error(L, "ShapeError", "%s: got factors of %d and %d dimensions, expected %d and %d",
                       ltide_function_name(L), tide_tensor_ndim(a), tide_tensor_ndim(b), shape.a, shape.b);
  double beta = ltide_opt_number(L, args.opts, "beta", 1), alpha = ltide_opt_number(L, args.opts, "alpha", 1);
  tide_tensor *out = in_place ? c : ltide_opt_tensor(L, S, args.opts, "out");
  ltide_tensor *u = out ? NULL : ltide_new_tensor(L, S);
  ltide_try(L, tide_addmm(u ? &u->t : NULL, c, a, b, beta, alpha, out));
  if (in_place)
    lua_settop(L, 1);
  else if (out)
    ltide_rawfield(L, args.opts, "out");
  ltide_made(L, S);
  return 1;
}

static int laddmm(lua_State *L) { return added(L, (added_shape){2, 2}, false); }
static int laddmm_(lua_State *L) { return added(L, (added_shape){2, 2}, true); }
static int lbaddbmm(lua_State *L) { return added(L, (added_shape){3, 3}, false); }
static int lbaddbmm_(lua_State *L) { return added(L, (added_shape){3, 3}, true); }
static int laddmv(lua_State *L) { return added(L, (added_shape){2, 1}, false); }
static int laddmv_(lua_State *L) { return added(L, (added_shape){2, 1}, true); }

/* {==== Exactness of float32 products */

static int lset_precision(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  const char *text = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "";
  if (strcmp(text, "highest") && strcmp(text, "high") && strcmp(text, "medium"))
    return ltide_arg_error(L, 1, "precision", "'highest' (ieee), 'high' or 'medium' (tf32)");
  tide_set_tf32(strcmp(text, "highest") != 0);
  return 0;
}

static int lget_precision(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 0);
  lua_pushstring(L, tide_get_tf32() ? "high" : "highest");
  return 1;
}

static int lsettings_index(lua_State *L) {
  ltide_enter(L);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "fp32_precision")) return ltide_no_field(L, "tide.backends.cuda.matmul", key, 0, "fp32_precision");
  lua_pushstring(L, tide_get_tf32() ? "tf32" : "ieee");
  return 1;
}

static int lsettings_newindex(lua_State *L) {
  ltide_enter(L);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "",
             *value = lua_type(L, 3) == LUA_TSTRING ? lua_tostring(L, 3) : "";
  if (strcmp(key, "fp32_precision"))
    return ltide_error(L, "ArgumentError", "backends.cuda.matmul: got setting '%s', expected fp32_precision", key);
  if (strcmp(value, "tf32") && strcmp(value, "ieee"))
    return ltide_arg_error(L, 3, "fp32_precision", "'ieee' or 'tf32'");
  tide_set_tf32(!strcmp(value, "tf32"));
  return 0;
}

/* tide.backends.cuda.matmul.fp32_precision reads and sets core's switch. */
static void open_settings(lua_State *L) {
  static const luaL_Reg meta[] = {{"__index", lsettings_index}, {"__newindex", lsettings_newindex}, {NULL, NULL}};
  luaL_getsubtable(L, -1, "backends");
  luaL_getsubtable(L, -1, "cuda");
  lua_newtable(L);
  luaL_newlib(L, meta);
  ltide_protect(L, "tide.backends.cuda.matmul");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "matmul");
  lua_pop(L, 2);
}

#define ADDED_TAIL                                                                                                     \
  " [, {beta=1, alpha=1, out=}]) -> Tensor\nbeta * c + alpha * (a @ b); c broadcasts to the result. With beta 0, NaN " \
  "in c does not count. "

void ltide_open_matmul(lua_State *L, ltide_state *S) {
  (void)S;
  static const ltide_reg both[] = {
      {"matmul", lmatmul,
       "x:matmul(y [, {out=}]) -> Tensor\nThe product of vectors, matrices or batches of matrices, which broadcast. "
       "Same dtype and device."},
      {"mm", lmm, "x:mm(y [, {out=}]) -> Tensor\nThe product of matrices [n, k] and [k, m]."},
      {"bmm", lbmm,
       "x:bmm(y [, {out=}]) -> Tensor\nThe products of the matrices of two batches [b, n, k] and [b, k, m]."},
      {"mv", lmv, "x:mv(y [, {out=}]) -> Tensor\nThe product of a matrix [n, k] and a vector [k]."},
      {"dot", ldot, "x:dot(y [, {out=}]) -> Tensor\nThe scalar product of two vectors, without dimensions."},
      {"outer", louter, "x:outer(y [, {out=}]) -> Tensor\n[n, m]: every product of the elements of two vectors."},
      {"addmm", laddmm, "tide.addmm(c, a, b" ADDED_TAIL "a and b have two dimensions."},
      {"baddbmm", lbaddbmm, "tide.baddbmm(c, a, b" ADDED_TAIL "a and b have three dimensions."},
      {"addmv", laddmv, "tide.addmv(c, a, v" ADDED_TAIL "a has two dimensions, v one."},
      {NULL, NULL, NULL}};
  static const ltide_reg methods[] = {
      {"addmm_", laddmm_, "c:addmm_(a, b [, {beta=1, alpha=1}]) -> c\naddmm in place."},
      {"baddbmm_", lbaddbmm_, "c:baddbmm_(a, b [, {beta=1, alpha=1}]) -> c\nbaddbmm in place."},
      {"addmv_", laddmv_, "c:addmv_(a, v [, {beta=1, alpha=1}]) -> c\naddmv in place."},
      {NULL, NULL, NULL}};
  static const ltide_reg functions[] = {
      {"set_float32_matmul_precision", lset_precision,
       "tide.set_float32_matmul_precision(precision)\n'highest': float32 products in float32; 'high' or 'medium': they "
       "may use tf32 on "
       "a GPU. The same switch is tide.backends.cuda.matmul.fp32_precision, 'ieee' or 'tf32'."},
      {"get_float32_matmul_precision", lget_precision, "tide.get_float32_matmul_precision() -> string"},
      {NULL, NULL, NULL}};
  ltide_register_both(L, both);
  ltide_register_methods(L, methods);
  ltide_register(L, "tide", functions);
  open_settings(L);
}
