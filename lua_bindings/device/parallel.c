/* parallel.c: tide.parallel: one function on several devices at once.
 *
 * It is written in Lua, in device/parallel.lua, which says how. Here is what that cannot do. The coroutines of replicas
 * are in parallel_replica.c. */
#include "call/each.h"
#include "call/scope.h"
#include "device.h"
#include "tensor/tensor.h"

/* {==== Devices, as core's numbers */

/* current_device() -> its number, how many there are; the CPU where there is none. */
static int script_current_device(lua_State *L) {
  int n = tide_device_count();
  lua_pushinteger(L, n ? tide_current_device() : TIDE_CPU);
  return lua_pushinteger(L, n), 2;
}

/* device_size(device) -> bytes, processors; nothing for the CPU. Raises where there is no such device. */
static int script_device_size(lua_State *L) {
  const tide_device_props *p;
  int device = (int)lua_tointeger(L, 1);
  if (device < 0) return 0;
  ltide_try(L, tide_device_get_props(&p, device));
  lua_pushinteger(L, (lua_Integer)p->total_memory);
  lua_pushinteger(L, p->multi_processor_count);
  return 2;
}

static int script_device_object(lua_State *L) { return ltide_push_device(L, (int)lua_tointeger(L, 1)), 1; }

/* read_device(value, name): its number. */
static int script_read_device(lua_State *L) {
  int device = ltide_check_device(L, 1, lua_tostring(L, 2), LTIDE_CPU_OK);
  return ltide_give_integer(L, device == TIDE_CURRENT ? tide_current_device() : device);
}

/* move(x, device, waits) */
static int script_move(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const tide_tensor *x = ltide_check_tensor(L, S, 1, "tree");
  tide_options o = {TIDE_DTYPE_NONE, (int)lua_tointeger(L, 2), false};
  ltide_tensor *u = ltide_new_tensor(L, S);
  return ltide_give_tensors(L, S, tide_to(&u->t, x, &o, o.device >= 0 && !lua_toboolean(L, 3), false), 1);
}

static int script_check_unnamed(lua_State *L) {
  return ltide_check_unnamed(L, 1, lua_tointeger(L, 2), lua_tostring(L, 3)), 0;
}

/* {==== Side streams */

/* side_stream(device): stands for the current stream, and waits for what is queued there. */
static int script_side_stream(lua_State *L) {
  tide_stream *current, **side = ltide_new_stream(L);
  int device = (int)lua_tointeger(L, 1);
  ltide_try(L, tide_current_stream(&current, device));
  ltide_try(L, tide_stream_new(side, device, tide_stream_priority(current)));
  return ltide_give(L, tide_stream_wait_stream(*side, current));
}

/* join_side(device, stream): what is queued next comes behind the copies. Never fails. */
static int script_join_side(lua_State *L) {
  tide_stream *current, **side = ltide_test_meta(L, 2, ltide_handle_of(ltide_enter(L))->stream_meta);
  if (tide_current_stream(&current, (int)lua_tointeger(L, 1)) == TIDE_OK) tide_stream_wait_stream(current, *side);
  tide_stream_release(*side);
  *side = NULL;
  return 0;
}

#include <rows/parallel.inc>

void ltide_open_parallel(lua_State *L, ltide_state *S) {
  ltide_script_give(L, "device/parallel_replica.c", ltide_replica_script);
  LTIDE_GIVE(L, "device/parallel.c", current_device, device_size, device_object, read_device, move, check_unnamed,
             side_stream, join_side);
  ltide_register_in(L, "tide.parallel", parallel_rows);
}
