/* api.c: the functions behind tide_lua.h. */
#include "data/dlpack.h"
#include "host/frame.h"
#include "device/graph.h"
#include "host/host.h"
#include "tensor/random.h"
#include "host/reload.h"
#include "host/sandbox.h"
#include "tide_lua.h"
#include "device/device.h"
#include "quota/quota_clock.h"
#include "quota/quota.h"
#include "tensor/tensor.h"

static tide_tensor *to_tensor(lua_State *L, int index) {
  ltide_tensor *u = ltide_test_handle(L, ltide_state_of(L), index);
  return u ? u->t : NULL;
}

static tide_stream *to_stream(lua_State *L, int index) {
  tide_stream **u = ltide_test_object(L, index, "tide.cuda.Stream");
  return u ? *u : NULL;
}

static void push_tensor(lua_State *L, tide_tensor *tensor) {
  ltide_tensor *u = ltide_new_tensor(L, ltide_enter(L));
  tide_tensor_retain(tensor);
  u->t = tensor;
}

static tide_event *to_event(lua_State *L, int index) {
  tide_event **u = ltide_test_meta(L, index, ltide_handle_of(ltide_state_of(L))->event_meta);
  return u ? *u : NULL;
}

static tide_graph *to_graph(lua_State *L, int index) {
  tide_graph **u = ltide_test_meta(L, index, ltide_graph_of(ltide_state_of(L))->meta);
  return u ? *u : NULL;
}

static tide_generator *to_generator(lua_State *L, int index) {
  tide_generator **u = ltide_test_meta(L, index, ltide_handle_of(ltide_state_of(L))->generator_meta);
  return u ? *u : NULL;
}

static void push_event(lua_State *L, tide_event *event) {
  tide_event **u = ltide_new_event(L);
  tide_event_retain(event);
  *u = event;
}

static void push_graph(lua_State *L, tide_graph *graph) {
  tide_graph **u = ltide_new_graph(L);
  tide_graph_retain(graph);
  *u = graph;
}

static int gc_set(lua_State *L, int mode) {
  if (mode < TIDE_LUA_GC_AUTO || mode > TIDE_LUA_GC_NEVER) return 0;
  ltide_gc_set(L, mode);
  return 1;
}

/* tide_lua_kill */
static int kill(lua_State *L) {
  int can = ltide_kill(L);
  if (can) ltide_clock_wake();
  return can;
}

static int set_stream(lua_State *L, tide_stream *stream) { return stream && ltide_set_stream(L, stream); }

void ltide_open_api(lua_State *L, ltide_state *S) {
  static const tide_lua_api api = {sizeof api,
                                   to_tensor,
                                   to_stream,
                                   push_tensor,
                                   ltide_push_stream,
                                   gc_set,
                                   ltide_push_dlpack,
                                   ltide_take_dlpack,
                                   ltide_restrict,
                                   ltide_quota_set,
                                   ltide_quota_used,
                                   kill,
                                   .to_event = to_event,
                                   .to_graph = to_graph,
                                   .to_generator = to_generator,
                                   .push_event = push_event,
                                   .push_graph = push_graph,
                                   .push_generator = ltide_push_generator,
                                   .error = ltide_host_error,
                                   .readback = ltide_host_readback,
                                   .stream = ltide_host_stream,
                                   .set_stream = set_stream,
                                   .frame_begin = ltide_frame_begin,
                                   .frame_call = ltide_frame_call,
                                   .frame_resume = ltide_frame_resume,
                                   .frame_end = ltide_frame_end,
                                   .reload = ltide_reload,
                                   .quota_overrun = ltide_quota_overrun,
                                   .sethook = ltide_hook_set};
  lua_pushlightuserdata(L, (void *)&api);
  lua_setfield(L, LUA_REGISTRYINDEX, "tide.api");
}
