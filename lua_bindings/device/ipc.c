/* ipc.c: tensors and events of other processes. A handle is a string of bytes that travels any way a script likes. */

#include "device.h"
#include "tensor/tensor.h"
#include "tide/ipc.h"

static int ltensor_ipc_handle(lua_State *L, ltide_call *c) {
  tide_ipc_tensor handle;
  ltide_try(L, tide_tensor_ipc_handle(&handle, c->x));
  return lua_pushlstring(L, (const char *)handle.bytes, sizeof handle.bytes), 1;
}

/* The bytes of the string at arg, which must be exactly so many. */
static void check_bytes(lua_State *L, int arg, void *out, size_t size) {
  size_t n = 0;
  const char *bytes = lua_type(L, arg) == LUA_TSTRING ? lua_tolstring(L, arg, &n) : NULL;
  if (!bytes) ltide_arg_error(L, arg, "handle", "a string that ipc_handle gave");
  if (n != size) ltide_fail(L, "ValueError", "handle: got %I bytes, expected %I", (lua_Integer)n, (lua_Integer)size);
  memcpy(out, bytes, size);
}

static int ltensor_from_ipc(lua_State *L, ltide_call *c) {
  tide_ipc_tensor handle;
  check_bytes(L, 1, handle.bytes, sizeof handle.bytes);
  return ltide_finish(L, c, tide_tensor_from_ipc(ltide_result(L, c), &handle));
}

static int levent_ipc_handle(lua_State *L, ltide_call *c) {
  tide_ipc_handle handle;
  ltide_try(L, tide_event_ipc_handle(&handle, c->v[0].event));
  return lua_pushlstring(L, (const char *)handle.bytes, sizeof handle.bytes), 1;
}

static int levent_from_ipc(lua_State *L, ltide_call *c) {
  tide_ipc_handle handle;
  check_bytes(L, c->v[1].at, handle.bytes, sizeof handle.bytes);
  return ltide_give(L, tide_event_from_ipc(ltide_new_event(L), c->v[0].device, &handle));
}

static ltide_row event_rows[] = {OF(
    ev, ipc_handle, NEEDS(PROCESSES, DO(levent_ipc_handle)), "() -> string",
    "Names the event, made with interprocess = true, to another process: tide.cuda.Event.from_ipc_handle. 64 bytes."){
    0}};
static ltide_row class_rows[] = {
    FUNCTION(from_ipc_handle, NEEDS(PROCESSES, DO(levent_from_ipc)), "(device:cuda or nil, handle) -> Event",
             "The event of another process: recording it, waiting for it and asking it work on both sides."){0}};
#include <rows/ipc.inc>

void ltide_open_ipc(lua_State *L, ltide_state *S) {
  ltide_register_in(L, "tide.cuda", ipc_rows);
  ltide_register_in(L, "tide.cuda.Event", class_rows);
  luaL_getmetatable(L, "tide.cuda.Event");
  lua_getfield(L, -1, "__index");
  lua_getupvalue(L, -1, 1); /* the methods */
  ltide_register_rows(L, "Event", event_rows);
  lua_pop(L, 3);
}
