/* linalg.c: tide.linalg, linear algebra by LAPACK and cuSOLVER. Core checks and waits; these functions read arguments.
 */
#include "tide/linalg.h"

#include "args.h"

static int cholesky_now(lua_State *L) {
  static const char *const keys[] = {"upper", "out", NULL};
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args a = ltide_split(L, 1);
  ltide_check_count(L, a, 1);
  ltide_check_keys(L, a.opts, keys);
  bool upper = ltide_opt_boolean(L, a.opts, "upper", false);
  tide_tensor *out = ltide_opt_tensor(L, S, a.opts, "out");
  ltide_tensor *u = out ? NULL : ltide_new_tensor(L, S);
  ltide_try(L, tide_linalg_cholesky(u ? &u->t : NULL, x, upper, out));
  if (out) ltide_push_option(L, a.opts, "out");
  ltide_made(L, S);
  return 1;
}
static int lcholesky(lua_State *L) { return ltide_waiting(L, cholesky_now); }

void ltide_open_linalg(lua_State *L, ltide_state *S) {
  (void)S;
  static const ltide_reg list[] = {
      {"cholesky", lcholesky,
       "tide.linalg.cholesky(x [, {upper=false, out=}]) -> Tensor\nThe lower factor L of each matrix of x [..., n, n], "
       "with L @ L.mT:conj() = x, or the upper one U, with U.mT:conj() @ U = x; only that triangle of x is read. "
       "ValueError "
       "where "
       "a matrix is not positive definite. float32, float64 and complex. Synchronises. By LAPACK, and by cuSOLVER on a "
       "GPU."},
      {NULL, NULL, NULL}};
  lua_newtable(L);
  ltide_register(L, "tide.linalg", list);
  lua_setfield(L, -2, "linalg");
}
