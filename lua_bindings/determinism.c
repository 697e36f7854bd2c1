/* determinism.c: whether equal programs must give equal results. */
#include "row.h"
#include "script.h"

static int luse_deterministic(lua_State *L, ltide_call *c) {
  bool mode = c->v[0].boolean, warns = c->v[1].boolean;
  ltide_try(L, tide_set_deterministic(!mode   ? TIDE_DETERMINISM_OFF
                                      : warns ? TIDE_DETERMINISM_WARN
                                              : TIDE_DETERMINISM_ON));
  return 0;
}

/* Is it the mode that the row says, or any? */
static int lis_deterministic(lua_State *L, ltide_call *c) {
  int mode = tide_get_deterministic();
  return ltide_give_boolean(L, c->row->tag ? mode == c->row->tag : mode != TIDE_DETERMINISM_OFF);
}

void ltide_open_determinism(lua_State *L, ltide_state *S) {
  (void)S;
#define PATH "tide."
  static ltide_row rows[] = {
#include "api/determinism.def"
      {0}};
  ltide_register_rows(L, "tide", rows);
}
