/* tide.c: the module: the one file that sees every other one of the bindings, and lets them open in order. */
#include "call/did_you_mean.h"
#include "host/sandbox.h"
#include "fuse/fuse.h"
#include "quota/quota.h"
#include "tensor/tensor.h"

/* What the parts hold is freed while core still runs. */
static void end(lua_State *L, ltide_state *S) {
  ltide_handles_end(S);
  ltide_held_close(S);
  ltide_fuse_end(S);
  ltide_warn_close(S);
  ltide_hook_close(L, S);
}

/* Makes the module and pushes it. */
static int open_module(lua_State *L) {
#define OPEN(name) ltide_open_##name,
  static void (*const openers[])(lua_State *, ltide_state *) = {
#include "call/api/open.def"
  };
#define PART(name) &ltide_##name##_size,
  static const size_t *const sizes[LTIDE_PARTS] = {
#include "call/api/parts.def"
  };
#undef PART
  ltide_state *S = ltide_state_open(L, sizes, ltide_warn_hook, end);
  lua_createtable(L, 0, 320);
  lua_createtable(L, 0, 160);
  lua_setfield(L, -2, "cuda");
  lua_pushstring(L, tide_version());
  lua_setfield(L, -2, "_VERSION");
  for (size_t i = 0; i < sizeof openers / sizeof *openers; i++) openers[i](L, S);
  ltide_sandbox(L, S);
  return 1;
}

/* Is that a host's call of tide_lua_open, or of a state that one has opened? What it promises holds from the start. */
static bool has_host(lua_State *L, const ltide_state *S) {
  bool has = lua_getfield(L, LUA_REGISTRYINDEX, "tide.options") == LUA_TLIGHTUSERDATA || S->has_options;
  lua_pop(L, 1);
  return has;
}

int luaopen_tide(lua_State *L) {
  const ltide_state *S = ltide_state_of(L);
  if (S && has_host(L, S)) return luaL_error(L, "tide: already open in this Lua state; require gives it again");
  if (S) return ltide_push_module(L), 1; /* a script has taken it out of package.loaded */
  lua_pushcfunction(L, open_module);
  if (lua_pcall(L, 0, 1, 0) == LUA_OK) {
    ltide_warn_open(L, ltide_state_of(L));
    return 1;
  }
  ltide_state_close(L); /* so that the next require begins anew */
  /* Nor has the host functions of a module that is not there: none would know an error object. */
  lua_pushnil(L);
  lua_setfield(L, LUA_REGISTRYINDEX, "tide.api");
  if (lua_istable(L, -1)) ltide_rawfield(L, -1, "message");
  return lua_error(L);
}
