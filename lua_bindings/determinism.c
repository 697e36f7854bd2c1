/* determinism.c: whether equal programs must give equal results. */
#include "args.h"

static int luse_deterministic(lua_State *L) {
  static const char *const keys[] = {"warn_only", NULL};
  ltide_enter(L);
  ltide_no_options(L, 2);
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
  ltide_enter(L);
  ltide_no_options(L, 0);
  lua_pushboolean(L, tide_get_deterministic() != TIDE_DETERMINISM_OFF);
  return 1;
}

static int lonly_warns(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 0);
  lua_pushboolean(L, tide_get_deterministic() == TIDE_DETERMINISM_WARN);
  return 1;
}

void ltide_open_determinism(lua_State *L, ltide_state *S) {
  (void)S;
  static const ltide_reg functions[] = {
      {"use_deterministic_algorithms", luse_deterministic,
       "tide.use_deterministic_algorithms(mode [, {warn_only=false}])\nWith true nothing depends on the order in which "
       "threads run: x[index] = v writes the last of indexes that repeat, also on a GPU, and kernels of "
       "compile_kernel run block after block on cpu tensors; on a GPU (a simulated one too) a kernel that uses "
       "atomicAdd, "
       "atomicSub, atomicExch or atomicCAS raises NotSupportedError, or, with warn_only, warns once. All else is "
       "deterministic anyway. It holds for the whole process."},
      {"are_deterministic_algorithms_enabled", lare_deterministic,
       "tide.are_deterministic_algorithms_enabled() -> boolean"},
      {"is_deterministic_algorithms_warn_only_enabled", lonly_warns,
       "tide.is_deterministic_algorithms_warn_only_enabled() -> boolean"},
      {NULL, NULL, NULL}};
  ltide_register(L, "tide", functions);
}
