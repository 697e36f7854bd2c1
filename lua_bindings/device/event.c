/* event.c: events. The device is that of the first recording stream; a handle holds one reference. */
#include "call/class.h"
#include "device.h"

#define EVENT_META "tide.cuda.Event"

tide_event **ltide_new_event(lua_State *L) { return (tide_event **)ltide_new_pointer(L, EVENT_META); }

/* The one given, or the current stream of the current device. */
static tide_stream *stream_or_current(lua_State *L, tide_stream *s) {
  if (!s) ltide_try(L, tide_current_stream(&s, TIDE_CURRENT));
  return s;
}

/* With a tag it is recorded now. */
static int levent_new(lua_State *L, ltide_call *c) {
  static const uint32_t flag[] = {TIDE_EVENT_TIMING, TIDE_EVENT_BLOCKING, TIDE_EVENT_INTERPROCESS};
  uint32_t flags = 0;
  for (int i = 0; i < 3; i++) flags |= c->v[i].boolean ? flag[i] : 0;
  if (c->v[3].boolean)
    return ltide_error(L, "NotSupportedError",
                       "Event: external: got true, but events that are nodes of a graph are not there yet, expected "
                       "false");
  tide_event **e = ltide_new_event(L);
  ltide_try(L, tide_event_new(e, flags));
  if (c->row->tag) ltide_try(L, tide_event_record(*e, stream_or_current(L, NULL)));
  return 1;
}

static int levent_record(lua_State *L, ltide_call *c) {
  return ltide_self(L, tide_event_record(c->v[0].event, stream_or_current(L, c->v[1].stream)));
}

static int levent_wait(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_stream_wait_event(stream_or_current(L, c->v[1].stream), c->v[0].event));
}

static int levent_query(lua_State *L, ltide_call *c) {
  bool done;
  ltide_try(L, tide_event_query(&done, c->v[0].event));
  return ltide_give_boolean(L, done);
}

static int levent_synchronize(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_event_synchronize(c->v[0].event));
}

static int levent_elapsed_time(lua_State *L, ltide_call *c) {
  double ms;
  ltide_try(L, tide_event_elapsed(&ms, c->v[0].event, c->v[1].event));
  return lua_pushnumber(L, ms), 1;
}

static int handle_of(lua_State *L, void *e) { return ltide_give_integer(L, (lua_Integer)tide_event_handle(e)); }

static int device_of(lua_State *L, void *e) {
  if (tide_event_device(e) < 0)
    lua_pushnil(L);
  else
    ltide_push_device(L, tide_event_device(e));
  return 1;
}

static int event_tostring(lua_State *L, void *e) {
  if (tide_event_device(e) < 0)
    lua_pushliteral(L, "tide.cuda.Event(not recorded)");
  else
    lua_pushfstring(L, "tide.cuda.Event(device=cuda:%d)", tide_event_device(e));
  return 1;
}

static void release(void *e) { tide_event_release(e); }

void ltide_open_event(lua_State *L, ltide_state *S) {
#include <rows/event.inc>
#include <rows/event_cuda.inc>
  static const ltide_class class = {
      .meta = EVENT_META, .name = "Event", .rows = event_rows, .release = release, .tostring = event_tostring};
  ltide_handle_of(S)->event_meta = ltide_open_class(L, &class);
  ltide_register_in(L, "tide.cuda", event_cuda_rows);
}
