/* parallel_replica.c: the calls of a function on several devices, for tide.parallel: coroutines that take turns at
 * waiting.
 *
 * Each has its device as the current one. A function that waits for its device begins with ltide_waiting: in a replica
 * that yields first, so that the others run meanwhile (device/parallel.lua). */
#include "quota/interruptible_pcall.h"
#include "call/each.h"
#include "call/scope.h"
#include "call/script.h"
#include "tide/device.h"

/* {==== Coroutines */

/* new_thread(device, turns, fn): the coroutine of a replica, with its device as the current one. */
static int script_new_thread(lua_State *L) {
  int device = (int)lua_tointeger(L, 1);
  lua_settop(L, 3);
  lua_State *co = lua_newthread(L);
  ltide_record *replica = ltide_make_record(L, -1);
  lua_settop(L, 4);
  lua_pushvalue(L, 3);
  if (!lua_checkstack(co, 1)) ltide_error(L, "OutOfMemoryError", "parallel: no room on the stack of a replica");
  lua_xmove(L, co, 1);
  tide_current *before = tide_current_bind(replica->current);
  tide_status status = device < 0 ? TIDE_OK : tide_current_set_device(device);
  tide_current_bind(before);
  ltide_state *S = ltide_enter(L);
  ltide_try(L, status);
  replica->replica = true, replica->turns = lua_toboolean(L, 2);
  ltide_arena_inherit(replica, S->arena); /* a tide.scope around the call frees the tensors of its replicas too */
  return 1;
}

/* For a host without Lua's library of coroutines. */
static int resume_plain(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  int n = lua_gettop(L) - 1;
  if (!lua_checkstack(co, n)) ltide_error(L, "OutOfMemoryError", "parallel: no room for %d arguments of a replica", n);
  lua_xmove(L, co, n);
  int status = lua_resume(co, L, n, &n);
  bool ok = status == LUA_OK || status == LUA_YIELD;
  if (!ok) n = 1;
  luaL_checkstack(L, n + 1, "parallel: too many results");
  lua_pushboolean(L, ok);
  lua_xmove(co, L, n);
  return n + 1;
}

/* coroutine.resume: the library's, because the runner has taught that one where Ctrl-C is to go. */
static int script_resume(lua_State *L) {
  int n = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_COLIBNAME) == LUA_TTABLE) lua_getfield(L, -1, "resume");
  if (!lua_isfunction(L, -1)) lua_pushcfunction(L, resume_plain);
  lua_insert(L, 1);
  lua_settop(L, 1 + n);
  lua_call(L, n, LUA_MULTRET);
  ltide_enter(L);
  return lua_gettop(L);
}

static int script_yield(lua_State *L) { return lua_yield(L, lua_gettop(L)); }

static int script_is_turn(lua_State *L) { return ltide_give_boolean(L, lua_touserdata(L, 1) == &ltide_turn); }

static int script_has_ended(lua_State *L) { return ltide_give_boolean(L, lua_status(lua_tothread(L, 1)) != LUA_YIELD); }

static int script_close_thread(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  if (!ltide_ended_by_hook(co)) lua_resetthread(co);
  ltide_enter(L);
  return 0;
}

/* traceback(co, e), of the error that has ended the coroutine. */
static int script_traceback(lua_State *L) { return ltide_push_trace(L, lua_tothread(L, 1)), 1; }

static int script_is_error(lua_State *L) { return ltide_give_boolean(L, ltide_is_error(L, 1)); }

const luaL_Reg ltide_replica_script[] =
    LTIDE_SCRIPT(new_thread, resume, yield, is_turn, has_ended, close_thread, traceback, is_error);
