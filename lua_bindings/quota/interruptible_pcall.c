/* interruptible_pcall.c: pcall and the other functions of Lua's that catch errors, in a form that lets an error pass
 * while a flag is set: the second Ctrl-C, a script that the host has ended. __close runs as ever.
 *
 * Each has the flag in its first upvalue, and originals in the next ones, where it needs them.
 *
 * An error of a hook is raised while hooks are off: Lua runs the handler of xpcall so, and what a coroutine that ended
 * with it has to close. Nothing could end a loop there. In a state that hooks guard no handler is called while the flag
 * is set, and such a coroutine is not closed; the hook has left its count at 1. */
#include "interruptible_pcall.h"
#include "call/error.h"
#include "quota.h"

static bool passes(lua_State *L) {
  return atomic_load_explicit((_Atomic bool *)lua_touserdata(L, lua_upvalueindex(1)), memory_order_relaxed);
}

/* Does an error that is about to be caught pass? What ends in one may have taken long, and the next hook may be a
 * thousand such calls away. Where the clock watches only an error of tide's says that something is used up. */
static bool error_passes(lua_State *L) {
  if (passes(L)) return true;
  ltide_state *S = ltide_state_of(L);
  if (!S || !S->quota || (ltide_hook_is_watched(L, S) && !ltide_is_error(L, -1))) return false;
  if (tide_quota_check(S->quota) == TIDE_OK) return false;
  atomic_store(&S->ended, true);
  return true;
}

/* The error at the top passes. One that was on its way when a kill, or a finaliser in the middle of it, ended the state
 * says nothing of that: what has ended it passes in its place. */
static int let_pass(lua_State *L) {
  const ltide_state *S = ltide_state_of(L);
  if (!S || !S->quota || tide_quota_check(S->quota) == TIDE_OK) return lua_error(L);
  const char *kind = tide_status_kind(tide_error_get()->status);
  bool is_end =
      ltide_is_error(L, -1) && ltide_rawfield(L, -1, "kind") == LUA_TSTRING && !strcmp(lua_tostring(L, -1), kind);
  if (!is_end) return ltide_raise(L);
  lua_pop(L, 1);
  return lua_error(L);
}

/* The end of a protected call, at once or after a yield: what it gave lies above `below` values and a true. */
static int end_protected(lua_State *L, int status, lua_KContext below) {
  if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - (int)below;
  if (error_passes(L)) return let_pass(L);
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}

static int protected_call(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 1);
  return end_protected(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, end_protected), 0);
}

static int run_handler(lua_State *L) {
  lua_settop(L, 1);
  if (passes(L)) return 1;
  ltide_insert_upvalue(L, 2);
  lua_call(L, 1, 1);
  return 1;
}

static int protected_call_with_handler(lua_State *L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushboolean(L, 1);
  lua_pushvalue(L, 1);
  lua_rotate(L, 3, 2); /* function, handler, true, function, arguments */
  return end_protected(L, lua_pcallk(L, lua_gettop(L) - 4, LUA_MULTRET, 2, 2, end_protected), 2);
}

static int guarded_call_with_handler(lua_State *L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, run_handler, 2);
  lua_replace(L, 2);
  return protected_call_with_handler(L);
}

/* load reports an error of its reader as one in the text, resume that of the coroutine. */
static int call_original(lua_State *L) {
  ltide_insert_upvalue(L, 2);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  bool failed = lua_gettop(L) == 2 && !lua_toboolean(L, 1);
  return failed && error_passes(L) ? let_pass(L) : lua_gettop(L);
}

/* Where hooks guard the state the flag is in its struct. */
static ltide_state *guarding(lua_State *L) {
  return (ltide_state *)((char *)lua_touserdata(L, lua_upvalueindex(1)) - offsetof(ltide_state, ended));
}

#if !LTIDE_FFI
/* Runs the coroutine on with the arguments above `below` values of L; what it gave, or its error, lies there then. */
static int resume_coroutine(lua_State *L, lua_State *co, int below) {
  int n = lua_gettop(L) - below;
  ltide_state *S = guarding(L);
  if (n && !lua_checkstack(co, n)) {
    lua_settop(L, below);
    lua_pushliteral(L, "too many arguments to resume");
    return LUA_ERRRUN;
  }
  if (n) lua_xmove(L, co, n);
  bool entered = ltide_hook_enter(L, S, co);
  int status = lua_resume(co, L, n, &n);
  if (entered) ltide_hook_leave(L, S, co, status);
  if (status > LUA_YIELD) {
    lua_xmove(co, L, 1);
  } else if (n && !lua_checkstack(L, n + 1)) {
    lua_pop(co, n);
    lua_pushliteral(L, "too many results to resume");
    return LUA_ERRRUN;
  } else if (n)
    lua_xmove(co, L, n);
  return status;
}

/* coroutine.resume in a state that hooks guard. */
static int resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  int status = resume_coroutine(L, co, 1);
  if (status > LUA_YIELD && error_passes(L)) return let_pass(L);
  lua_pushboolean(L, status <= LUA_YIELD);
  lua_replace(L, 1);
  return lua_gettop(L);
}
#endif

bool ltide_ended_by_hook(lua_State *co) { return lua_status(co) > LUA_YIELD && lua_gethookcount(co) == 1; }

/* coroutine.close; upvalue 2: the original. */
static int close_coroutine(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  if (co && ltide_ended_by_hook(co)) return luaL_error(L, "close: the host has ended this coroutine");
  return call_original(L);
}

/* What coroutine.wrap returns; upvalues: the flag, resume, close, the coroutine. */
static int call_wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(4));
#if LTIDE_FFI
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushvalue(L, lua_upvalueindex(4));
  lua_rotate(L, 1, 2);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (lua_toboolean(L, 1)) return lua_gettop(L) - 1;
#else
  if (resume_coroutine(L, co, 0) <= LUA_YIELD) return lua_gettop(L);
#endif
  bool died = lua_status(co) > LUA_YIELD;
  if (died && !passes(L) && !ltide_ended_by_hook(co)) {
    lua_pushvalue(L, lua_upvalueindex(3));
    lua_pushvalue(L, lua_upvalueindex(4));
    lua_call(L, 1, 2); /* false and the error, which what it closed may have replaced */
  }
  if (passes(L)) return let_pass(L);
  if (lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

/* Pushes a coroutine that runs the function at 1. */
static void make_coroutine(lua_State *L) {
  ltide_state *S = guarding(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  ltide_quota_of(S)->makes_coroutine = true;
  lua_State *co = lua_newthread(L);
  ltide_quota_of(S)->makes_coroutine = false;
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  ltide_hook_on(S, co);
}

static int create(lua_State *L) { return make_coroutine(L), 1; }

/* coroutine.wrap; upvalues: the flag, resume, close. */
static int wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  for (int i = 1; i <= 3; i++) lua_pushvalue(L, lua_upvalueindex(i));
  make_coroutine(L);
  return lua_pushcclosure(L, call_wrapped, 4), 1;
}

/* Replaces the function of that name in the table at the top; the others there are its originals. */
static void replace(lua_State *L, lua_CFunction by, _Atomic bool *flag, const char *name, const char *const *others) {
  int table = lua_gettop(L), n = 1;
  lua_pushlightuserdata(L, (void *)flag);
  for (; *others && lua_getfield(L, table, *others) == LUA_TFUNCTION; others++) n++;
  if (!*others && lua_getfield(L, table, name) == LUA_TFUNCTION) {
    lua_pop(L, 1);
    lua_pushcclosure(L, by, n);
    lua_setfield(L, table, name);
  }
  lua_settop(L, table);
}
#define REPLACE(name, by, ...) replace(L, by, flag, name, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

void ltide_let_pass(lua_State *L, _Atomic bool *flag, bool guarded) {
  lua_pushglobaltable(L);
  REPLACE("pcall", protected_call);
  REPLACE("xpcall", guarded ? guarded_call_with_handler : protected_call_with_handler);
  REPLACE("load", call_original, "load");
  if (lua_getfield(L, -1, LUA_COLIBNAME) == LUA_TTABLE) {
    if (guarded) REPLACE("wrap", wrap, "resume", "close");
    if (guarded) REPLACE("close", close_coroutine, "close");
    if (guarded) REPLACE("create", create);
#if LTIDE_FFI
    REPLACE("resume", call_original, "resume");
#else
    if (guarded)
      REPLACE("resume", resume);
    else
      REPLACE("resume", call_original, "resume");
#endif
  }
  lua_pop(L, 2);
}
