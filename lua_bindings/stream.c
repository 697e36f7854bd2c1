/* stream.c: streams, and the blocks that select one. A Stream handle holds one reference; closing it (collection) never
 * waits. */
#include <stdio.h>
#include <string.h>

#include "row.h"
#include "names.h"
#include "tide/device.h"

#define STREAM_META "tide.cuda.Stream"

/* The userdata is made closed, so that an error between here and the filling loses nothing. */
tide_stream **ltide_new_stream(lua_State *L) {
  tide_stream **u = ltide_new_object(L, sizeof *u, 0);
  *u = NULL;
  ltide_setmetatable(L, STREAM_META);
  return u;
}

void ltide_push_stream(lua_State *L, tide_stream *stream) {
  tide_stream **u = ltide_new_stream(L);
  tide_stream_retain(stream);
  *u = stream;
}

static int stream_gc(lua_State *L) {
  tide_stream *s = ltide_take_pointer(L, STREAM_META);
  if (s) tide_stream_release(s);
  return 0;
}

/* Stream([dev] [, {priority=}]) or Stream{device=, priority=}; arg 1 is the class itself. */
static int lstream_new(lua_State *L) {
  static const char *const keys[] = {"device", "priority", NULL};
  ltide_enter(L);
  int opts = lua_istable(L, 2) ? 2 : lua_istable(L, 3) ? 3 : 0, device = TIDE_CURRENT;
  lua_Integer priority = 0;
  int beyond = (opts ? opts : 2) + 1;
  if (!lua_isnoneornil(L, beyond)) return ltide_arg_error(L, beyond, "opts", "a table {priority = n} as the last");
  if (opts) {
    ltide_check_keys(L, opts, keys);
    if (ltide_rawfield(L, opts, "priority") != LUA_TNIL) priority = ltide_check_integer(L, -1, "priority");
    if (ltide_rawfield(L, opts, "device") != LUA_TNIL && opts == 3)
      return ltide_error(L, "ArgumentError", "Stream: device: got two, expected it as an argument or as an option");
    device = ltide_check_device(L, -1, "device", LTIDE_NIL_OK | LTIDE_NEGATIVE_OK);
  }
  if (opts != 2) device = ltide_check_device(L, 2, "device", LTIDE_NIL_OK | LTIDE_NEGATIVE_OK);
  priority = priority < -100 ? -100 : priority > 100 ? 100 : priority;
  tide_stream **u = ltide_new_stream(L);
  ltide_try(L, tide_stream_new(u, device, (int)priority));
  return 1;
}

static int lexternal_stream(lua_State *L) {
  int device = ltide_check_device(L, 2, "device", LTIDE_NIL_OK), is_handle = lua_type(L, 1) == LUA_TLIGHTUSERDATA;
  uint64_t handle = (uint64_t)(uintptr_t)lua_touserdata(L, 1);
  if (lua_type(L, 1) == LUA_TNUMBER) handle = (uint64_t)lua_tointegerx(L, 1, &is_handle);
  if (!is_handle) return ltide_arg_error(L, 1, "ptr", "an integer or a lightuserdata: a cudaStream_t");
  tide_stream **u = ltide_new_stream(L);
  ltide_try(L, tide_stream_wrap(u, device, handle));
  return 1;
}

static int lpriority_range(lua_State *L) {
  int least, greatest, device = ltide_check_device(L, 1, "device", LTIDE_NIL_OK);
  ltide_try(L, tide_stream_priority_range(&least, &greatest, device));
  lua_pushinteger(L, least);
  lua_pushinteger(L, greatest);
  return 2;
}

/* {==== Methods */

static int lstream_query(lua_State *L) {
  bool done;
  ltide_try(L, tide_stream_query(&done, ltide_check_stream(L, 1, "stream")));
  lua_pushboolean(L, done);
  return 1;
}

static int lstream_synchronize(lua_State *L) {
  ltide_try(L, tide_stream_synchronize(ltide_check_stream(L, 1, "stream")));
  return 0;
}

static int lstream_record_event(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 2);
  tide_stream *s = ltide_check_stream(L, 1, "stream");
  if (lua_isnoneornil(L, 2)) {
    lua_settop(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "tide.Event.new");
    lua_pushnil(L);
    lua_call(L, 1, 1);
  }
  ltide_try(L, tide_event_record(ltide_check_event(L, 2, "event"), s));
  lua_settop(L, 2);
  return 1;
}

static int lstream_wait_event(lua_State *L) {
  ltide_try(L, tide_stream_wait_event(ltide_check_stream(L, 1, "stream"), ltide_check_event(L, 2, "event")));
  return 0;
}

static int lstream_wait_stream(lua_State *L) {
  ltide_try(L, tide_stream_wait_stream(ltide_check_stream(L, 1, "stream"), ltide_check_stream(L, 2, "other")));
  return 0;
}

/* The length of an array of streams. One by names is refused, and not taken for an empty one. */
static lua_Integer check_list(lua_State *L, int arg) {
  bool is_list = lua_istable(L, arg);
  lua_Integer n = is_list ? luaL_len(L, arg) : 0;
  if (is_list && n == 0) lua_pushnil(L), is_list = !lua_next(L, arg);
  if (!is_list) return ltide_arg_error(L, arg, "streams", "an array of streams");
  lua_settop(L, arg);
  for (lua_Integer i = 1; i <= n; i++, lua_pop(L, 1)) {
    lua_geti(L, arg, i);
    ltide_check_stream(L, -1, "streams");
  }
  return n;
}

static int lstream_wait_streams(lua_State *L) {
  tide_stream *s = ltide_check_stream(L, 1, "stream");
  lua_Integer n = check_list(L, 2);
  for (lua_Integer i = 1; i <= n; i++, lua_pop(L, 1)) {
    lua_geti(L, 2, i);
    ltide_try(L, tide_stream_wait_stream(s, ltide_check_stream(L, -1, "streams")));
  }
  return 0;
}

static int stream_eq(lua_State *L) {
  const void *meta = ltide_enter(L)->stream_meta;
  tide_stream **a = ltide_test_meta(L, 1, meta), **b = ltide_test_meta(L, 2, meta);
  lua_pushboolean(L, a && b && tide_stream_same(*a, *b));
  return 1;
}

static int stream_tostring(lua_State *L) {
  tide_stream *s = ltide_check_stream(L, 1, "stream");
  char handle[32]; /* %p would show the legacy stream's 0 as the C library likes it */
  snprintf(handle, sizeof handle, "0x%llx", (unsigned long long)tide_stream_handle(s));
  lua_pushfstring(L, "tide.cuda.Stream(device=cuda:%d, priority=%d, cuda_stream=%s)", tide_stream_device(s),
                  tide_stream_priority(s), handle);
  return 1;
}

static int stream_index(lua_State *L) {
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  tide_stream *s = ltide_check_stream(L, 1, "stream");
  const char *key = ltide_check_text(L, 2, "key");
  if (!strcmp(key, "device"))
    ltide_push_device(L, tide_stream_device(s));
  else if (!strcmp(key, "priority"))
    lua_pushinteger(L, tide_stream_priority(s));
  else if (!strcmp(key, "cuda_stream"))
    lua_pushinteger(L, (lua_Integer)tide_stream_handle(s));
  else
    return ltide_no_field(L, "Stream", key, lua_upvalueindex(1), "device priority cuda_stream");
  return 1;
}

/* {==== The current stream */

/* What was selected before a block: NULL is a device's default stream. Only if the block's stream is of another device
 * than the current one are there two devices to restore. Leaving asks nothing of the streams, so that it cannot
 * fail. */
typedef struct stream_before {
  int device, other;               /* the current device before, that of the block's stream */
  tide_stream *stream, *elsewhere; /* what was selected on `other`, and on `device` if it is not the same */
} stream_before;

static void leave_stream(lua_State *L, void *data) {
  stream_before *b = data;
  if (L) {
    tide_current_select(b->other, b->stream);
    tide_current_set_device(b->device);
    if (b->device != b->other) tide_current_select(b->device, b->elsewhere);
  }
  tide_stream_release(b->stream);
  tide_stream_release(b->elsewhere);
}

static int enter_stream(lua_State *L, const char *what, int arg) {
  ltide_enter(L);
  int fn = lua_isnoneornil(L, arg + 1) ? 0 : arg + 1;
  if (fn && !lua_isfunction(L, fn)) return ltide_arg_error(L, fn, "fn", "a function or nothing");
  if (lua_isnil(L, arg)) return ltide_empty_block(L, what, fn);
  tide_stream *s = ltide_check_stream(L, arg, "stream");
  stream_before *before = ltide_block_new(L, what, fn, leave_stream, sizeof *before);
  *before = (stream_before){tide_current_device(), tide_stream_device(s), NULL, NULL};
  if ((before->stream = tide_current_selected(before->other))) tide_stream_retain(before->stream);
  if (before->device != before->other && (before->elsewhere = tide_current_selected(before->device)))
    tide_stream_retain(before->elsewhere);
  tide_status status = tide_current_set_stream(s);
  if (status == TIDE_OK && before->device != before->other) status = tide_current_set_device(before->other);
  if (status != TIDE_OK) {
    leave_stream(L, before);
    return ltide_raise(L);
  }
  return ltide_block_open(L, fn);
}

static int lcuda_stream(lua_State *L) {
  if (lua_isnone(L, 1)) return ltide_arg_error(L, 1, "stream", "a tide.cuda.Stream or nil");
  return enter_stream(L, "cuda.stream", 1);
}

static int lstream_use(lua_State *L) {
  ltide_check_stream(L, 1, "stream");
  return enter_stream(L, "Stream:use", 1);
}

static int lset_stream(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  if (lua_isnil(L, 1)) return 0;
  tide_stream *s = ltide_check_stream(L, 1, "stream");
  ltide_try(L, tide_current_set_stream(s));
  ltide_try(L, tide_current_set_device(tide_stream_device(s)));
  return 0;
}

static int lcurrent_stream(lua_State *L) {
  tide_stream *s;
  ltide_try(L, tide_current_stream(&s, ltide_check_device(L, 1, "device", LTIDE_NIL_OK)));
  ltide_push_stream(L, s);
  return 1;
}

static int ldefault_stream(lua_State *L) {
  tide_stream *s;
  ltide_try(L, tide_stream_default(&s, ltide_check_device(L, 1, "device", LTIDE_NIL_OK)));
  ltide_push_stream(L, s);
  return 1;
}

/* Every stream waits for what is queued now on all the others. */
static int lstream_barrier(lua_State *L) {
  lua_Integer n = check_list(L, 1);
  /* All events are recorded before any wait is queued, else later streams would wait for the waits of earlier ones. */
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_pushcfunction(L, lstream_record_event);
    lua_geti(L, 1, i);
    lua_call(L, 1, 1);
    lua_seti(L, -2, i);
  }
  for (lua_Integer i = 1; i <= n; i++)
    for (lua_Integer j = 1; j <= n; j++) {
      if (i == j) continue;
      lua_geti(L, 1, i);
      lua_geti(L, 2, j);
      ltide_try(L, tide_stream_wait_event(ltide_check_stream(L, -2, "streams"), ltide_check_event(L, -1, "event")));
      lua_pop(L, 2);
    }
  return 0;
}

static int lsleep(lua_State *L) {
  int64_t cycles = ltide_check_integer(L, 1, "cycles");
  if (cycles < 0)
    return ltide_error(L, "ValueError", "_sleep: cycles: got %I, expected at least 0", (lua_Integer)cycles);
  tide_stream *s;
  ltide_try(L, tide_current_stream(&s, TIDE_CURRENT));
  ltide_try(L, tide_stream_sleep(s, cycles));
  return 0;
}

static ltide_row stream_rows[] = {
#include "api/stream.def"
    {0}};

#define PATH "tide.cuda."
static ltide_row stream_cuda_rows[] = {
#include "api/stream_cuda.def"
    {0}};

void ltide_open_stream(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {
      {"__gc", stream_gc}, {"__eq", stream_eq}, {"__tostring", stream_tostring}, {"__newindex", ltide_read_only}, {0}};
  ltide_newmetatable(L, STREAM_META);
  S->stream_meta = lua_topointer(L, -1);
  luaL_setfuncs(L, meta, 0);
  lua_createtable(L, 0, 8);
  ltide_register_rows(L, "Stream", stream_rows);
  lua_pushcclosure(L, stream_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  lua_getfield(L, -1, "cuda");
  ltide_register_rows(L, "tide.cuda", stream_cuda_rows);
  lua_pushcfunction(L, lcuda_stream);
  lua_setfield(L, LUA_REGISTRYINDEX, "tide.cuda.stream");
  lua_createtable(L, 0, 1); /* the class: callable, with priority_range */
#undef PATH
#define PATH "tide.cuda.Stream."
  static ltide_row stream_stream_rows[] = {
#include "api/stream_stream.def"
      {0}};
  ltide_register_rows(L, "tide.cuda.Stream", stream_stream_rows);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, lstream_new);
  lua_setfield(L, -2, "__call");
  ltide_protect(L, "tide.cuda.Stream");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "Stream");
  lua_pop(L, 1);
}
