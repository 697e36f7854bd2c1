/* ipc.c: tensors and events of other processes. A handle is a string of bytes that travels any way a script likes. */
#include <string.h>

#include "bindings.h"
#include "args.h"
#include "tide/ipc.h"

static int ltensor_ipc_handle(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 1);
  tide_ipc_tensor handle;
  ltide_try(L, tide_tensor_ipc_handle(&handle, ltide_check_tensor(L, S, 1, "x")));
  lua_pushlstring(L, (const char *)handle.bytes, sizeof handle.bytes);
  return 1;
}

/* The bytes of the string at arg, which must be exactly so many. */
static void check_bytes(lua_State *L, int arg, void *out, size_t size) {
  size_t n = 0;
  const char *bytes = lua_type(L, arg) == LUA_TSTRING ? lua_tolstring(L, arg, &n) : NULL;
  if (!bytes) ltide_arg_error(L, arg, "handle", "a string that ipc_handle gave");
  if (n != size)
    ltide_error(L, "ValueError", "%s: handle: got %I bytes, expected %I", ltide_function_name(L), (lua_Integer)n,
                (lua_Integer)size);
  memcpy(out, bytes, size);
}

static int ltensor_from_ipc(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 1);
  tide_ipc_tensor handle;
  check_bytes(L, 1, handle.bytes, sizeof handle.bytes);
  ltide_try(L, tide_tensor_from_ipc(&ltide_new_tensor(L, S)->t, &handle));
  ltide_made(L, S);
  return 1;
}

static int lipc_collect(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 0);
  tide_ipc_collect();
  return 0;
}

static int levent_ipc_handle(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  tide_ipc_handle handle;
  ltide_try(L, tide_event_ipc_handle(&handle, ltide_check_event(L, 1, "event")));
  lua_pushlstring(L, (const char *)handle.bytes, sizeof handle.bytes);
  return 1;
}

static int levent_from_ipc(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 2);
  tide_ipc_handle handle;
  int device = ltide_check_device(L, 1, "device", LTIDE_NIL_OK);
  check_bytes(L, 2, handle.bytes, sizeof handle.bytes);
  ltide_try(L, tide_event_from_ipc(ltide_new_event(L), device, &handle));
  return 1;
}

const ltide_reg ltide_event_ipc[] = {
    {"ipc_handle", levent_ipc_handle,
     "ev:ipc_handle() -> string (64 bytes)\nNames the event, made with interprocess = true, to another process: "
     "tide.cuda.Event.from_ipc_handle."},
    {0}};

const ltide_reg ltide_event_class[] = {
    {"from_ipc_handle", levent_from_ipc,
     "tide.cuda.Event.from_ipc_handle(device, handle) -> Event\nThe event of another "
     "process: recording it, waiting for it "
     "and asking it work on both sides."},
    {0}};

void ltide_open_ipc(lua_State *L, ltide_state *S) {
  (void)S;
  static const ltide_reg tensor[] = {
      {"ipc_handle", ltensor_ipc_handle,
       "x:ipc_handle() -> string\nNames x to one other process: tide.cuda.tensor_from_ipc. This process must live as "
       "long as that one uses x, whose memory is held until then (see ipc_collect). Memory that cannot be opened "
       "elsewhere is moved once, which changes x:data_ptr()."},
      {0}};
  static const ltide_reg cuda[] = {
      {"tensor_from_ipc", ltensor_from_ipc,
       "tide.cuda.tensor_from_ipc(handle) -> Tensor\nThe tensor of another process, on the same memory. The current "
       "stream waits for what its maker had queued. A handle is opened once; do not send on what you received."},
      {"ipc_collect", lipc_collect,
       "tide.cuda.ipc_collect()\nLets go of the memory that other processes have given back, also those that died."},
      {0}};
  ltide_register_methods(L, tensor);
  lua_getfield(L, -1, "cuda");
  ltide_register(L, "tide.cuda", cuda);
  lua_pop(L, 1);
}
