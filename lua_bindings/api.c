/* api.c: the functions behind tide_lua.h. */
#include "bindings.h"
#include "tide_lua.h"

static tide_tensor *to_tensor(lua_State *L, int index) {
  ltide_tensor *u = ltide_test_handle(L, ltide_enter(L), index);
  return u ? u->t : NULL;
}

static tide_stream *to_stream(lua_State *L, int index) {
  tide_stream **u = ltide_test_object(L, index, "tide.cuda.Stream");
  return u ? *u : NULL;
}

static void push_tensor(lua_State *L, tide_tensor *tensor) {
  ltide_tensor *u = ltide_new_tensor(L, ltide_enter(L));
  tide_tensor_retain(tensor);
  u->t = tensor;
}

void ltide_open_api(lua_State *L, ltide_state *S) {
  static const tide_lua_api api = {sizeof api, to_tensor, to_stream, push_tensor, ltide_push_stream};
  (void)S;
  lua_pushlightuserdata(L, (void *)&api);
  lua_setfield(L, LUA_REGISTRYINDEX, "tide.api");
}
