/* quota_alloc.c: what a state with quotas allocates counts as time.
 *
 * Lua's operator .. is no function that could be charged. But Lua says what it allocates: where less time is left than
 * writing a long string takes, the script ends. If the operator's coroutine is known, the error of the quota is raised
 * here, where Lua would raise its own for NULL: so no collection comes first, which could take long. Else NULL makes it
 * an error of memory. A coroutine
 * that anybody makes inherits the hook of the one that runs, which has none while quota_clock.c watches it: it gets it
 * back in front of that.
 *
 * Invariant: the host's function allocates and frees everything, in the order that Lua asks for. */
#include "interruptible_stdlib.h"
#include "quota_clock.h"
#include "call/error.h"

#if !LTIDE_FFI

#  include <stdlib.h>

struct ltide_alloc {
  lua_Alloc fn;
  void *user;
  ltide_state *S;
};

static bool pays(const ltide_state *S, size_t size) {
  enum { LONG = 1 << 20, BYTES = 1000 }; /* written in a microsecond, into memory that is new */
  return size < LONG || !S->quota || tide_quota_afford(S->quota, (int64_t)(size / BYTES)) == TIDE_OK;
}

/* Is the operator of a Lua function of the coroutine running, in a protected call? */
static bool is_operator(lua_State *L, const ltide_state *S) {
  lua_Debug ar;
  if (!L || lua_status(L) != LUA_OK || !ltide_clock_holds(ltide_quota_of(S)->clock, L) || !lua_getstack(L, 0, &ar))
    return false;
  return lua_getinfo(L, "S", &ar) && *ar.what != 'C';
}

static void *allocate(void *user, void *block, size_t old, size_t size) {
  struct ltide_alloc *a = user;
  if (!block && old == LUA_TTHREAD) {
    lua_State *L = ltide_clock_running(ltide_quota_of(a->S)->clock);
    if (L && !ltide_quota_of(a->S)->makes_coroutine) ltide_hook_on(a->S, L);
    ltide_quota_of(a->S)->makes_coroutine = false;
  } else if (!block && old == LUA_TSTRING && !pays(a->S, size)) {
    lua_State *L = ltide_clock_running(ltide_quota_of(a->S)->clock);
    if (is_operator(L, a->S)) ltide_raise(L);
    return NULL;
  }
  return a->fn(a->user, block, old, size);
}

void ltide_alloc_open(lua_State *L, ltide_state *S) {
  struct ltide_alloc *a = malloc(sizeof *a);
  if (!a) luaL_error(L, "tide_lua_open: no host memory");
  a->fn = lua_getallocf(L, &a->user), a->S = S;
  ltide_quota_of(S)->alloc = a;
  lua_setallocf(L, allocate, a);
}

/* A function that was set above ours goes on calling it. */
void ltide_alloc_close(lua_State *L, ltide_state *S) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  void *user;
  struct ltide_alloc *a = q->alloc;
  if (!a || lua_getallocf(L, &user) != allocate || user != a) return;
  lua_setallocf(L, a->fn, a->user);
  free(a);
  q->alloc = NULL;
}

#else

void ltide_alloc_open(lua_State *L, ltide_state *S) { (void)L, (void)S; }
void ltide_alloc_close(lua_State *L, ltide_state *S) { (void)L, (void)S; }

#endif
