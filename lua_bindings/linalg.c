/* linalg.c: tide.linalg, linear algebra by LAPACK and cuSOLVER. Core checks and waits. */
#include "tide/linalg.h"

#include "row.h"

static int lcholesky(lua_State *L, ltide_call *c) {
  bool upper = ltide_get(L, c, "upper")->boolean;
  tide_tensor **slot = ltide_slot(L, c);
  return ltide_finish_into(L, c, tide_linalg_cholesky(slot, c->x, upper, c->into));
}

#define PATH "tide.linalg."
static ltide_row rows[] = {
#include "api/linalg.def"
    {0}};

void ltide_open_linalg(lua_State *L, ltide_state *S) {
  (void)S;
  lua_newtable(L);
  ltide_register_rows(L, "tide.linalg", rows);
  lua_setfield(L, -2, "linalg");
}
