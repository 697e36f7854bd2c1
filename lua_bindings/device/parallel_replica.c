/* parallel_replica.c: the calls of a function on several devices, for tide.parallel: coroutines that take turns at
 * waiting.
 *
 * Each has its device as the current one. A function that waits for its device begins with ltide_waiting: in a replica
 * that yields first, so that the others run meanwhile (device/parallel.lua). */
#include "quota/interruptible_pcall.h"
#include "call/each.h"
#include "call/scope.h"
#include "call/script.h"
#include "call/error.h"

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

static int script_is_turn(lua_State *L) { return ltide_give_boolean(L, lua_touserdata(L, 1) == &ltide_turn); }

static int script_close_thread(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  if (!ltide_ended_by_hook(co)) lua_resetthread(co);
  ltide_enter(L);
  return 0;
}

/* traceback(co, e), of the error that has ended the coroutine. */
static int script_traceback(lua_State *L) { return ltide_push_trace(L, lua_tothread(L, 1)), 1; }

const luaL_Reg ltide_replica_script[] = LTIDE_SCRIPT(new_thread, is_turn, close_thread, traceback);
