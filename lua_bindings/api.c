/* api.c: the functions behind tide_lua.h. */
#include "bindings.h"
#include "dlpack.h"
#include "sandbox.h"
#include "tide_lua.h"

static tide_tensor *to_tensor(lua_State *L, int index) {
  ltide_tensor *u = ltide_test_handle(L, ltide_state_of(L), index);
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

static int gc_set(lua_State *L, int mode) {
  if (mode < TIDE_LUA_GC_AUTO || mode > TIDE_LUA_GC_NEVER) return 0;
  ltide_gc_set(L, mode);
  return 1;
}

void ltide_open_api(lua_State *L, ltide_state *S) {
  static const tide_lua_api api = {sizeof api,        to_tensor,       to_stream,         push_tensor,
                                   ltide_push_stream, gc_set,          ltide_push_dlpack, ltide_take_dlpack,
                                   ltide_restrict,    ltide_quota_set, ltide_quota_used,  ltide_kill};
  lua_pushlightuserdata(L, (void *)&api);
  lua_setfield(L, LUA_REGISTRYINDEX, "tide.api");
}
