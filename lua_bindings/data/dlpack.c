/* dlpack.c: capsules, in which tensors go to other modules of the process and come from them, without a copy.
 *
 * Invariant: a capsule holds what is in it until it is taken, once; one that is collected or closed before that lets go
 * of it. */
#include "dlpack.h"

#include "tensor/tensor.h"

#define META "tide.DLPack"

typedef struct DLManagedTensorVersioned managed;

static managed **new_capsule(lua_State *L) { return (managed **)ltide_new_pointer(L, META); }

struct DLManagedTensorVersioned *ltide_take_dlpack(lua_State *L, int index) {
  managed **u = ltide_test_object(L, index, META), *held = u ? *u : NULL;
  if (u) *u = NULL;
  return held;
}

static int capsule_gc(lua_State *L) {
  tide_dlpack_release(ltide_take_dlpack(L, 1));
  return 0;
}

static int capsule_tostring(lua_State *L) {
  managed **u = ltide_check_object(L, 1, META);
  return lua_pushstring(L, *u ? "tide.DLPack" : "tide.DLPack(taken)"), 1;
}

static int push_capsule(lua_State *L) {
  managed **held = lua_touserdata(L, 1), **u = new_capsule(L);
  *u = *held, *held = NULL;
  return 1;
}

/* Lua's own errors, of memory, let go of it too. */
void ltide_push_dlpack(lua_State *L, struct DLManagedTensorVersioned *m) {
  lua_pushcfunction(L, push_capsule);
  lua_pushlightuserdata(L, &m);
  if (lua_pcall(L, 1, 1, 0) == LUA_OK) return;
  tide_dlpack_release(m);
  lua_error(L);
}

static int lto_dlpack(lua_State *L, ltide_call *c) {
  managed **u = new_capsule(L);
  return ltide_give(L, tide_tensor_to_dlpack(u, c->x, c->v[1].stream));
}

/* What is in the capsule is taken by the tensor, or put back. */
static int lfrom_dlpack(lua_State *L, ltide_call *c) {
  managed **u = ltide_test_object(L, 1, META);
  if (!u) return ltide_arg_error(L, 1, "capsule", "what x:to_dlpack() or another module has made");
  if (!*u)
    return ltide_error(L, "StateError",
                       "from_dlpack: capsule: got one that was taken, expected one that is full: a "
                       "capsule is for one use");
  ltide_tensor *t = ltide_new_tensor(L, c->S);
  managed *m = *u; /* a finaliser may have taken it while the handle was made */
  if (!m) return ltide_error(L, "StateError", "from_dlpack: capsule: it was taken meanwhile");
  *u = NULL;
  tide_status status = tide_from_dlpack(&t->t, m, c->v[1].stream);
  if (status != TIDE_OK) *u = m;
  return ltide_give_tensors(L, c->S, status, 1);
}

#include <rows/dlpack.inc>

void ltide_open_dlpack(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {{"__gc", capsule_gc},
                                  {"__close", capsule_gc},
                                  {"__tostring", capsule_tostring},
                                  {"__newindex", ltide_read_only},
                                  {0}};
  ltide_newmetatable(L, META);
  luaL_setfuncs(L, meta, 0);
  lua_pop(L, 1);
  ltide_register_rows(L, "tide", dlpack_rows);
}
