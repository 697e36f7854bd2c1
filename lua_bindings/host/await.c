/* await.c: tide.await, for coroutines beside something that must not stop. The loop is host/await.lua's; what it waits
 * for is an event in every case. */
#include "call/each.h"
#include "device/graph.h"
#include "call/scope.h"
#include "call/block.h"
#include "device/device.h"
#include "tensor/tensor.h"

static bool may_yield(lua_State *L, const ltide_state *S) { return lua_isyieldable(L) && !S->record->replica; }

/* start_wait(what): an event, and for a tensor its copy on the host. */
static int script_start_wait(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const ltide_tensor *u = ltide_test_handle(L, S, 1);
  bool is_here = u && u->t && tide_tensor_device(u->t) < 0;
  bool is_tensor = u, is_graph = ltide_test_meta(L, 1, ltide_graph_of(S)->meta),
       is_stream = ltide_test_meta(L, 1, ltide_handle_of(S)->stream_meta);
  if (!is_tensor && !is_graph && !is_stream) {
    if (!ltide_test_meta(L, 1, ltide_handle_of(S)->event_meta))
      return ltide_arg_error(L, 1, "what", "a tensor, a tide.cuda.Event, a tide.cuda.Stream or a tide.cuda.CUDAGraph");
    ltide_check_event(L, 1, "what");
    if (!may_yield(L, S)) ltide_need(L, TIDE_LUA_WAITS, "await");
    lua_settop(L, 1);
    return 1;
  }
  if (!may_yield(L, S) && !is_here) ltide_need(L, TIDE_LUA_WAITS, "await");
  tide_event **ready = ltide_new_event(L);
  if (is_tensor) {
    tide_tensor **host = &ltide_new_tensor(L, S)->t;
    ltide_try(L, tide_readback(host, ready, ltide_check_tensor(L, S, 1, "what")));
    ltide_made(L, S);
    return 2;
  }
  ltide_try(L, tide_event_new(ready, 0));
  if (is_graph)
    ltide_try(L, tide_graph_record(ltide_check_graph(L, 1, "what"), *ready));
  else
    ltide_try(L, tide_event_record(*ready, ltide_check_stream(L, 1, "what")));
  return 1;
}

/* may_yield(): to whoever resumed the coroutine of the script. A replica of tide.parallel waits in turn with the
 * others. */
static int script_may_yield(lua_State *L) { return ltide_give_boolean(L, may_yield(L, ltide_enter(L))); }

/* note_wait(): it yields because what it waits for is not there. */
static int script_note_wait(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_turn_of(S)->awaits |= ltide_turn_of(S)->in_frame == L;
  return 0;
}

void ltide_open_await(lua_State *L, ltide_state *S) {
#include <rows/await.inc>
  LTIDE_GIVE(L, "host/await.c", start_wait, may_yield, note_wait);
  ltide_register_rows(L, "tide", await_rows);
}
