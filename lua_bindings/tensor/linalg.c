/* linalg.c: tide.linalg, linear algebra by LAPACK and cuSOLVER. Core has the factors and solutions, tensor/linalg.lua
 * what is made of them. */
#include "tide/linalg.h"

#include <float.h>
#include <stdlib.h>
#include "call/each.h"

#include "tensor.h"

/* {==== What tensor/linalg.lua is given. Results are closed handles first, which core fills */

static const tide_tensor *tensor_at(lua_State *L, ltide_state *S, int arg) {
  return ltide_check_tensor(L, S, arg, arg == 1 ? "x" : "b");
}

#define HANDLE(name) tide_tensor **name = &ltide_new_tensor(L, S)->t

/* lu_factor(x): LU and the pivots. */
static int script_lu_factor(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  HANDLE(lu);
  HANDLE(pivots);
  return ltide_give_tensors(L, S, tide_linalg_lu_factor(lu, pivots, tensor_at(L, S, 1)), 2);
}

/* solve(a, b), solve(a): the inverse. */
static int script_solve(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const tide_tensor *b = lua_isnoneornil(L, 2) ? NULL : tensor_at(L, S, 2);
  HANDLE(result);
  return ltide_give_tensors(L, S, tide_linalg_solve(result, tensor_at(L, S, 1), b), 1);
}

/* determinant(x, logarithm): it, or its sign and the logarithm of its absolute value. */
static int script_determinant(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  bool logs = lua_toboolean(L, 2);
  HANDLE(det);
  tide_tensor **logarithm = logs ? &ltide_new_tensor(L, S)->t : NULL;
  return ltide_give_tensors(L, S, tide_linalg_det(det, logarithm, tensor_at(L, S, 1)), logs ? 2 : 1);
}

/* solve_triangle(a, b, upper, left, unit) */
static int script_solve_triangle(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  bool upper = lua_toboolean(L, 3), left = lua_toboolean(L, 4), unit = lua_toboolean(L, 5);
  HANDLE(result);
  return ltide_give_tensors(
      L, S, tide_linalg_triangular_solve(result, tensor_at(L, S, 1), tensor_at(L, S, 2), upper, left, unit), 1);
}

/* factor_qr(x, mode): Q and R; R alone where the mode is "r". */
static int script_factor_qr(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const char *mode = lua_tostring(L, 2);
  tide_tensor **q = NULL;
  if (*mode != 'r' || mode[1]) q = &ltide_new_tensor(L, S)->t;
  HANDLE(r);
  return ltide_give_tensors(L, S, tide_linalg_qr(q, r, tensor_at(L, S, 1), *mode == 'c'), q ? 2 : 1);
}

/* factor_svd(x, full): U, S, Vh; S alone where full is nil. */
static int script_factor_svd(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  bool values = lua_isnoneornil(L, 2), full = lua_toboolean(L, 2);
  const tide_tensor *x = tensor_at(L, S, 1);
  HANDLE(u);
  HANDLE(s);
  HANDLE(vh);
  if (!values) return ltide_give_tensors(L, S, tide_linalg_svd(u, s, vh, x, full), 3);
  ltide_try(L, tide_linalg_svd(NULL, u, NULL, x, false));
  ltide_made(L, S);
  lua_settop(L, lua_gettop(L) - 2);
  return 1;
}

/* factor_eigh(x, upper, vectors), factor_eig(x, vectors): values and vectors. */
static int script_factor_eigh(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  bool upper = lua_toboolean(L, 2), vectors = lua_toboolean(L, 3);
  HANDLE(w);
  tide_tensor **v = vectors ? &ltide_new_tensor(L, S)->t : NULL;
  return ltide_give_tensors(L, S, tide_linalg_eigh(w, v, tensor_at(L, S, 1), upper), vectors ? 2 : 1);
}
static int script_factor_eig(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  bool vectors = lua_toboolean(L, 2);
  HANDLE(w);
  tide_tensor **v = vectors ? &ltide_new_tensor(L, S)->t : NULL;
  return ltide_give_tensors(L, S, tide_linalg_eig(w, v, tensor_at(L, S, 1)), vectors ? 2 : 1);
}

/* epsilon(x): the distance from 1 to the next number of its dtype. */
static int script_epsilon(lua_State *L) {
  tide_dtype dtype = tide_tensor_dtype(ltide_check_tensor(L, ltide_enter(L), 1, "x"));
  bool wide = dtype == TIDE_FLOAT64 || dtype == TIDE_COMPLEX128;
  return lua_pushnumber(L, wide ? DBL_EPSILON : FLT_EPSILON), 1;
}

/* Which row of m ones stands where after all changes, from 0. */
static void follow(int64_t *order, int64_t m, const int32_t *pivots, int64_t n) {
  for (int64_t i = 0; i < m; i++) order[i] = i;
  for (int64_t i = 0; i < n; i++) {
    int64_t j = pivots[i] - 1, t = order[i];
    order[i] = order[j], order[j] = t;
  }
}

/* row_order(pivots, m): the rows of x in the order of L's, from 0; int64, [..., m]. */
static int script_row_order(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const tide_tensor *pivots = tensor_at(L, S, 1);
  int ndim = tide_tensor_ndim(pivots);
  int64_t size[TIDE_MAX_DIMS], n = tide_tensor_size(pivots)[ndim - 1], batch = 1, m = lua_tointeger(L, 2);
  for (int d = 0; d < ndim - 1; d++) batch *= size[d] = tide_tensor_size(pivots)[d];
  size[ndim - 1] = m;
  tide_options o = {TIDE_INT64, tide_tensor_device(pivots), false};
  HANDLE(result);
  int32_t *from = malloc((size_t)(batch * n) * sizeof *from + 1);
  int64_t *order = malloc((size_t)(batch * m) * sizeof *order + 1);
  tide_status status = from && order ? tide_read(from, pivots) : TIDE_MEMORY;
  if (status == TIDE_OK) {
    for (int64_t b = 0; b < batch; b++) follow(order + b * m, m, from + b * n, n);
    status = tide_from_data(result, order, size, ndim, &o);
  }
  bool lacks = !from || !order;
  free(from), free(order);
  if (lacks) return ltide_error(L, "OutOfMemoryError", "lu: no host memory for the order of rows");
  return ltide_give_tensors(L, S, status, 1);
}

/* {==== Rows */

static int lcholesky(lua_State *L, ltide_call *c) {
  bool upper = ltide_get(L, c, "upper")->boolean;
  tide_tensor **slot = ltide_slot(L, c);
  return ltide_finish_into(L, c, tide_linalg_cholesky(slot, c->x, upper, c->into));
}

#define OF_CHUNK(f) WAITS(COMPOSED("tensor/linalg." #f))
#include <rows/linalg.inc>

void ltide_open_linalg(lua_State *L, ltide_state *S) {
  LTIDE_GIVE(L, "tensor/linalg.c", lu_factor, solve, determinant, solve_triangle, factor_qr, factor_svd, factor_eigh,
             factor_eig, epsilon, row_order);
  lua_newtable(L);
  ltide_register_rows(L, "tide.linalg", linalg_rows);
  lua_setfield(L, -2, "linalg");
}
