/* hot.c: what hot.lua calls through LuaJIT's FFI.
 *
 * While compiled code runs, Lua's stack is not what its C API expects. So nothing here may call Lua, raise, allocate
 * for Lua or collect: each answers "no" (0, or below 0) to whatever could come to that, and hot.lua calls the ordinary
 * function. A failure of core's is such a case, too. Core's hooks are told (ltide_ffi_begin). */
#include <math.h>

#include "tide/sanitizer.h"
#include "hot.h"
#include "library.h"
#include "tensor/tensor.h"

enum { POOL = 64 };                     /* handles made at a time */
enum { SIZE, NUMEL, DIM };              /* what size gives, as in hot.lua */
enum { NO, NUMBER, IS_FALSE, IS_TRUE }; /* what read answers */

/* The handle at the address of a userdata; NULL: none of ours, or something is to be done that needs Lua. Scripts with
 * the debug library can give light userdata a tensor's metatable: no handle is where these often point. */
static const ltide_tensor *check(const ltide_state *S, const ltide_tensor *u) {
  bool can_be = (uintptr_t)u >= 4096 && (uintptr_t)u % _Alignof(ltide_tensor) == 0;
  bool is_ours = can_be && u->seal == (S->tensor_seal ^ (uintptr_t)u) && u->t;
  bool is_plain = S->thread == &ltide_last && !S->pin_count && !S->observing && !atomic_load(&S->frame_open) &&
                  !atomic_load_explicit(&S->ended, memory_order_relaxed) &&
                  ltide_last_epoch == atomic_load_explicit(&ltide_epoch, memory_order_relaxed);
  return is_ours && is_plain ? u : NULL;
}

/* item() of a tensor of the CPU that no stream sanitizer watches. */
static int read(ltide_state *S, ltide_tensor *at, double *out) {
  const ltide_tensor *u = check(S, at);
  if (!u || tide_tensor_device(u->t) >= 0 || tide_tensor_numel(u->t) != 1 || tide_sanitizer_is_enabled()) return NO;
  tide_scalar s;
  lua_State *last = ltide_ffi_begin(S);
  tide_status status = tide_item(&s, u->t);
  ltide_ffi_end(S, last);
  if (status != TIDE_OK) return NO;
  switch (s.kind) {
  case 'B': return s.i ? IS_TRUE : IS_FALSE;
  case 'I': return *out = (double)s.i, fabs(*out) < LTIDE_EXACT ? NUMBER : NO;
  /* LuaJIT takes the bits as they are, and those of some NaNs would be another value of Lua's. */
  case 'F': return *out = s.re != s.re ? (double)NAN : s.re, NUMBER;
  default: return NO;
  }
}

static double size(ltide_state *S, ltide_tensor *at, int what, double which) {
  const ltide_tensor *u = check(S, at);
  if (!u) return -1;
  int ndim = tide_tensor_ndim(u->t);
  if (what == NUMEL) return (double)tide_tensor_numel(u->t);
  if (what == DIM) return ndim;
  int dim = fabs(which) <= ndim ? (int)which : 0;
  if (!dim || dim != which) return -1;
  return (double)tide_tensor_size(u->t)[dim < 0 ? dim + ndim : dim - 1];
}

/* x[i], in an empty handle. No tide.scope is to free it. */
static int row(ltide_state *S, ltide_tensor *at, double which, ltide_tensor *view) {
  const ltide_tensor *u = check(S, at);
  if (!u || !view || ltide_tensor_of(S)->arenas || view->t || !tide_tensor_ndim(u->t)) return NO;
  double n = (double)tide_tensor_size(u->t)[0];
  if (!(which >= 1 && which <= n && which == floor(which))) return NO;
  lua_State *last = ltide_ffi_begin(S);
  tide_status status = tide_select(&view->t, u->t, 0, (int64_t)which - 1);
  ltide_ffi_end(S, last);
  return status == TIDE_OK;
}

/* refill(list): puts empty handles there, and tells how many; 0 while a tide.scope is open. */
static int refill(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  if (ltide_tensor_of(S)->arenas) return lua_pushinteger(L, 0), 1;
  for (int i = 1; i <= POOL; i++) {
    ltide_new_tensor(L, S);
    lua_rawseti(L, 1, i);
  }
  return lua_pushinteger(L, POOL), 1;
}

/* chunk(name): the function of that name in a chunk. */
static int chunk(lua_State *L) { return ltide_script_push(L, lua_tostring(L, 1)), 1; }

void ltide_open_hot(lua_State *L, const char *text, size_t length, const char *name) {
  static const char *const library[] = {"type", "getmetatable", "rawget", "next", "select"};
  static void (*const fast[])(void) = {(void (*)(void))read, (void (*)(void))size, (void (*)(void))row};
  ltide_state *S = ltide_state_of(L);
  int top = lua_gettop(L) - 1; /* the module, which a host may have closed to scripts, is there */
  if (luaL_loadbuffer(L, text, length, name) != LUA_OK) lua_error(L);
  lua_insert(L, top + 1);
  lua_pushlightuserdata(L, S);
  for (int i = 0; i < 3; i++) lua_pushlightuserdata(L, (void *)(uintptr_t)fast[i]);
  lua_pushcfunction(L, refill), lua_pushcfunction(L, chunk);
  lua_rawgeti(L, LUA_REGISTRYINDEX, S->tensor_ref);
  ltide_push_methods(L);
  if (lua_istable(L, top))
    lua_pushvalue(L, top);
  else
    lua_pushnil(L);
  bool has_all = true; /* a host may have opened none of it */
  for (int i = 0; i < 5; i++) {
    lua_getglobal(L, library[i]);
    has_all = has_all && lua_iscfunction(L, -1);
  }
  if (has_all) lua_call(L, lua_gettop(L) - top - 1, 0);
  lua_settop(L, top);
}
