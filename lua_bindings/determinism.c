/* determinism.c: whether equal programs must give equal results. */
#include "row.h"

static int luse_deterministic(lua_State *L) {
  static const char *const keys[] = {"warn_only", NULL};
  bool mode = ltide_check_boolean(L, 1, "mode");
  int opts = lua_isnoneornil(L, 2) ? 0 : 2;
  if (opts && !lua_istable(L, 2)) return ltide_arg_error(L, 2, "opts", "a table of options");
  if (opts) ltide_check_keys(L, opts, keys);
  bool warn = ltide_opt_boolean(L, opts, "warn_only", false);
  ltide_try(L, tide_set_deterministic(!mode  ? TIDE_DETERMINISM_OFF
                                      : warn ? TIDE_DETERMINISM_WARN
                                             : TIDE_DETERMINISM_ON));
  return 0;
}

static int lare_deterministic(lua_State *L) {
  lua_pushboolean(L, tide_get_deterministic() != TIDE_DETERMINISM_OFF);
  return 1;
}

static int lonly_warns(lua_State *L) {
  lua_pushboolean(L, tide_get_deterministic() == TIDE_DETERMINISM_WARN);
  return 1;
}

void ltide_open_determinism(lua_State *L, ltide_state *S) {
  (void)S;
#define PATH "tide."
  static ltide_row rows[] = {
#include "api/determinism.def"
      {0}};
  ltide_register_rows(L, "tide", rows);
}
