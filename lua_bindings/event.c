/* event.c: events. The device is that of the first recording stream; a handle holds one reference. */
#include <string.h>

#include "row.h"
#include "bindings.h"
#include "names.h"

#define EVENT_META "tide.cuda.Event"

static int event_gc(lua_State *L) {
  tide_event *e = ltide_take_pointer(L, EVENT_META);
  if (e) tide_event_release(e);
  return 0;
}

tide_event **ltide_new_event(lua_State *L) {
  tide_event **u = ltide_new_object(L, sizeof *u, 0);
  *u = NULL;
  ltide_setmetatable(L, EVENT_META);
  return u;
}

/* Is opts[key] true? Raises if it is there and no boolean. */
static bool flag(lua_State *L, int opts, const char *key) {
  int type = ltide_rawfield(L, opts, key);
  if (type != LUA_TNIL && type != LUA_TBOOLEAN) ltide_arg_error(L, -1, key, "a boolean");
  bool value = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return value;
}

/* Event{enable_timing=, blocking=, interprocess=, external=}; arg 1 is the class itself. */
static int levent_new(lua_State *L) {
  static const char *const keys[] = {"enable_timing", "blocking", "interprocess", "external", NULL};
  ltide_enter(L);
  uint32_t flags = 0;
  if (lua_istable(L, 2)) {
    ltide_check_keys(L, 2, keys);
    if (flag(L, 2, "enable_timing")) flags |= TIDE_EVENT_TIMING;
    if (flag(L, 2, "blocking")) flags |= TIDE_EVENT_BLOCKING;
    if (flag(L, 2, "interprocess")) flags |= TIDE_EVENT_INTERPROCESS;
    if (flag(L, 2, "external"))
      return ltide_error(L, "NotSupportedError",
                         "Event: external: got true, but events that are nodes of a graph are "
                         "not there yet, expected false");
  } else if (!lua_isnoneornil(L, 2))
    return ltide_arg_error(L, 2, "opts", "a table {enable_timing=, blocking=, interprocess=}");
  ltide_try(L, tide_event_new(ltide_new_event(L), flags));
  return 1;
}

/* The stream argument, or the current stream of the given device (TIDE_CURRENT: the current one). */
static tide_stream *stream_or_current(lua_State *L, int arg, int device) {
  if (!lua_isnoneornil(L, arg)) return ltide_check_stream(L, arg, "stream");
  tide_stream *s;
  ltide_try(L, tide_current_stream(&s, device));
  return s;
}

static int levent_record(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 2);
  tide_event *e = ltide_check_event(L, 1, "event");
  ltide_try(L, tide_event_record(e, stream_or_current(L, 2, TIDE_CURRENT)));
  lua_settop(L, 1);
  return 1;
}

static int levent_wait(lua_State *L) {
  tide_event *e = ltide_check_event(L, 1, "event");
  ltide_try(L, tide_stream_wait_event(stream_or_current(L, 2, TIDE_CURRENT), e));
  return 0;
}

static int levent_query(lua_State *L) {
  bool done;
  ltide_try(L, tide_event_query(&done, ltide_check_event(L, 1, "event")));
  lua_pushboolean(L, done);
  return 1;
}

static int levent_synchronize(lua_State *L) {
  ltide_try(L, tide_event_synchronize(ltide_check_event(L, 1, "event")));
  return 0;
}

static int levent_elapsed_time(lua_State *L) {
  double ms;
  ltide_try(L, tide_event_elapsed(&ms, ltide_check_event(L, 1, "start"), ltide_check_event(L, 2, "end_ev")));
  lua_pushnumber(L, ms);
  return 1;
}

static int event_index(lua_State *L) {
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  tide_event *e = ltide_check_event(L, 1, "event");
  const char *key = ltide_check_text(L, 2, "key");
  if (!strcmp(key, "cuda_event"))
    lua_pushinteger(L, (lua_Integer)tide_event_handle(e));
  else if (strcmp(key, "device"))
    return ltide_no_field(L, "Event", key, lua_upvalueindex(1), "device cuda_event");
  else if (tide_event_device(e) < 0)
    lua_pushnil(L);
  else
    ltide_push_device(L, tide_event_device(e));
  return 1;
}

static int event_tostring(lua_State *L) {
  tide_event *e = ltide_check_event(L, 1, "event");
  if (tide_event_device(e) < 0)
    lua_pushliteral(L, "tide.cuda.Event(not recorded)");
  else
    lua_pushfstring(L, "tide.cuda.Event(device=cuda:%d)", tide_event_device(e));
  return 1;
}

/* tide.cuda.record(): an event recorded now on the current stream. */
static int lrecord(lua_State *L) {
  lua_settop(L, 1);
  lua_pushnil(L);
  lua_insert(L, 1);
  levent_new(L);
  lua_replace(L, 1);
  lua_settop(L, 1);
  return levent_record(L);
}

static ltide_row event_rows[] = {
#include "api/event.def"
    {0}};

void ltide_open_event(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {
      {"__gc", event_gc}, {"__tostring", event_tostring}, {"__newindex", ltide_read_only}, {0}};
  ltide_newmetatable(L, EVENT_META);
  S->event_meta = lua_topointer(L, -1);
  luaL_setfuncs(L, meta, 0);
  lua_createtable(L, 0, 8);
  ltide_register_rows(L, "Event", event_rows);
  lua_pushcclosure(L, event_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  lua_pushcfunction(L, levent_new);
  lua_setfield(L, LUA_REGISTRYINDEX, "tide.Event.new");
  lua_getfield(L, -1, "cuda");
#define PATH "tide.cuda."
  static ltide_row event_cuda_rows[] = {
#include "api/event_cuda.def"
      {0}};
  ltide_register_rows(L, "tide.cuda", event_cuda_rows);
  lua_createtable(L, 0, 1);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, levent_new);
  lua_setfield(L, -2, "__call");
  ltide_protect(L, "tide.cuda.Event");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "Event");
  lua_pop(L, 1);
}
