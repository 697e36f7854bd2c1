/* quota_alloc.c: what a state with quotas allocates counts as time.
 *
 * Lua's operator .. is no function that could be charged. But Lua says what it allocates: where less time is left than
 * writing a long string takes, the script ends. If the operator's coroutine is known, the error of the quota is raised
 * here, where Lua would raise its own for NULL: so no collection comes first, which could take long. Else NULL makes it
 * an error of memory. A function of C was charged before it ran (lua_cost.c): its strings are not refused.
 *
 * A new coroutine inherits the hook of the one that runs, which may have none: all get it back in front of that. One
 * that is freed is forgotten by quota_clock.c first.
 *
 * Invariant: the host's function allocates and frees everything, in the order that Lua asks for. */
#include "interruptible_stdlib.h"
#include "quota_clock.h"
#include "call/error.h"

#if !LTIDE_FFI

#  include <stdlib.h>

enum { LONG = 1 << 20 }; /* bytes of a string that is charged */

struct ltide_alloc {
  lua_Alloc fn;
  void *user;
  ltide_state *S;     /* NULL: the state ends */
  size_t thread_size; /* of a coroutine's block; 0: none was made */
};

/* Is a function of C running, whose cost was charged before? */
static bool is_function(lua_State *L, lua_Debug *ar) { return lua_getinfo(L, "S", ar) && *ar->what == 'C'; }

/* A new string, of an operator of L, which is NULL where the coroutine is not known. */
static bool is_refused(const ltide_state *S, size_t size) {
  enum { BYTES = 1000 }; /* written in a microsecond, into memory that is new */
  const ltide_clock *clock = ltide_quota_of(S)->clock;
  lua_State *L = ltide_clock_running(clock);
  lua_Debug ar;
  if (L && (lua_status(L) != LUA_OK || !ltide_clock_holds(clock, L) || !lua_getstack(L, 0, &ar))) L = NULL;
  if (!S->quota || (L && is_function(L, &ar))) return false;
  if (tide_quota_afford(S->quota, (int64_t)(size / BYTES)) == TIDE_OK) return false;
  if (L) ltide_raise(L);
  return true;
}

static void note_new_thread(struct ltide_alloc *a, size_t size) {
  struct ltide_quota_part *q = ltide_quota_of(a->S);
  lua_State *L = q->makes_coroutine ? NULL : ltide_clock_running(q->clock);
  a->thread_size = size;
  if (!q->makes_coroutine) ltide_hook_all(a->S);
  q->makes_coroutine = false;
  if (L) ltide_hook_on(a->S, L);
}

static bool is_watched(const struct ltide_alloc *a, const void *block, size_t old, size_t size) {
  if (block) return !size && old == a->thread_size;
  return old == LUA_TTHREAD || (old == LUA_TSTRING && size >= LONG);
}

__attribute__((noinline)) static bool is_stopped(struct ltide_alloc *a, void *block, size_t old, size_t size) {
  if (!a->S) return false;
  if (block)
    ltide_hook_forget(a->S, (lua_State *)((char *)block + LUA_EXTRASPACE));
  else if (old == LUA_TTHREAD)
    note_new_thread(a, size);
  return old == LUA_TSTRING && !block && is_refused(a->S, size);
}

static void *allocate(void *user, void *block, size_t old, size_t size) {
  struct ltide_alloc *a = user;
  if (is_watched(a, block, old, size) && is_stopped(a, block, old, size)) return NULL;
  return a->fn(a->user, block, old, size);
}

void ltide_alloc_open(lua_State *L, ltide_state *S) {
  struct ltide_alloc *a = calloc(1, sizeof *a);
  if (!a) luaL_error(L, "tide_lua_open: no host memory");
  a->fn = lua_getallocf(L, &a->user), a->S = S;
  ltide_quota_of(S)->alloc = a;
  lua_setallocf(L, allocate, a);
  lua_newthread(L); /* says how large their blocks are: some may be older */
  lua_pop(L, 1);
}

/* A function that was set above ours goes on calling it. */
void ltide_alloc_close(lua_State *L, ltide_state *S) {
  struct ltide_quota_part *q = ltide_quota_of(S);
  void *user;
  struct ltide_alloc *a = q->alloc;
  if (a) a->S = NULL;
  if (!a || lua_getallocf(L, &user) != allocate || user != a) return;
  lua_setallocf(L, a->fn, a->user);
  free(a);
  q->alloc = NULL;
}

#else

void ltide_alloc_open(lua_State *L, ltide_state *S) { (void)L, (void)S; }
void ltide_alloc_close(lua_State *L, ltide_state *S) { (void)L, (void)S; }

#endif
