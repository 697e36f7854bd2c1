/* stream.c: streams, and the blocks that select one. A Stream handle holds one reference; closing it (collection) never
 * waits. */

#include "call/class.h"
#include "call/block.h"
#include "device.h"
#include "tide/device.h"

#define STREAM_META "tide.cuda.Stream"

/* The userdata is made closed, so that an error between here and the filling loses nothing. */
tide_stream **ltide_new_stream(lua_State *L) { return (tide_stream **)ltide_new_pointer(L, STREAM_META); }

void ltide_push_stream(lua_State *L, tide_stream *stream) {
  tide_stream **u = ltide_new_stream(L);
  tide_stream_retain(stream);
  *u = stream;
}

static int lstream_new(lua_State *L, ltide_call *c) {
  int64_t priority = c->v[1].i;
  priority = priority < -100 ? -100 : priority > 100 ? 100 : priority;
  tide_stream **u = ltide_new_stream(L);
  return ltide_give(L, tide_stream_new(u, c->v[0].device, (int)priority));
}

static int lexternal_stream(lua_State *L, ltide_call *c) {
  int is_handle = lua_type(L, 1) == LUA_TLIGHTUSERDATA;
  uint64_t handle = (uint64_t)(uintptr_t)lua_touserdata(L, 1);
  if (lua_type(L, 1) == LUA_TNUMBER) handle = (uint64_t)lua_tointegerx(L, 1, &is_handle);
  if (!is_handle) return ltide_arg_error(L, 1, "ptr", "an integer or a lightuserdata: a cudaStream_t");
  tide_stream **u = ltide_new_stream(L);
  return ltide_give(L, tide_stream_wrap(u, c->v[1].device, handle));
}

static int lpriority_range(lua_State *L, ltide_call *c) {
  int least, greatest;
  ltide_try(L, tide_stream_priority_range(&least, &greatest, c->v[0].device));
  return ltide_give_pair(L, least, greatest);
}

/* {==== Fields and methods */

static int device_of(lua_State *L, void *s) { return ltide_push_device(L, tide_stream_device(s)), 1; }
static int priority_of(lua_State *L, void *s) { return ltide_give_integer(L, tide_stream_priority(s)); }
static int handle_of(lua_State *L, void *s) { return ltide_give_integer(L, (lua_Integer)tide_stream_handle(s)); }

static int lstream_query(lua_State *L, ltide_call *c) {
  bool done;
  ltide_try(L, tide_stream_query(&done, c->v[0].stream));
  return ltide_give_boolean(L, done);
}

static int lstream_synchronize(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_stream_synchronize(c->v[0].stream));
}

static tide_event *push_recorded(lua_State *L, tide_stream *s) {
  tide_event **made = ltide_new_event(L);
  ltide_try(L, tide_event_new(made, 0));
  ltide_try(L, tide_event_record(*made, s));
  return *made;
}

static int lstream_record_event(lua_State *L, ltide_call *c) {
  if (!c->v[1].given) return push_recorded(L, c->v[0].stream), 1;
  ltide_try(L, tide_event_record(c->v[1].event, c->v[0].stream));
  return lua_pushvalue(L, c->v[1].at), 1;
}

static int lstream_wait_event(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_stream_wait_event(c->v[0].stream, c->v[1].event));
}

static int lstream_wait_stream(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_stream_wait_stream(c->v[0].stream, c->v[1].stream));
}

/* Pushes a stream of the list at arg. */
static tide_stream *push_at(lua_State *L, int arg, lua_Integer i) {
  lua_geti(L, arg, i);
  return ltide_check_stream(L, -1, "streams");
}

/* The length of an array of streams. One by names is refused, and not taken for an empty one. */
static lua_Integer check_list(lua_State *L, int arg) {
  bool is_list = lua_istable(L, arg);
  lua_Integer n = is_list ? luaL_len(L, arg) : 0;
  if (is_list && n == 0) lua_pushnil(L), is_list = !lua_next(L, arg);
  if (!is_list) return ltide_arg_error(L, arg, "streams", "an array of streams");
  for (lua_Integer i = 1; i <= n; i++, lua_pop(L, 1)) push_at(L, arg, i);
  return n;
}

static int lstream_wait_streams(lua_State *L, ltide_call *c) {
  lua_Integer n = check_list(L, c->v[1].at);
  for (lua_Integer i = 1; i <= n; i++, lua_pop(L, 1))
    ltide_try(L, tide_stream_wait_stream(c->v[0].stream, push_at(L, c->v[1].at, i)));
  return 0;
}

static int stream_tostring(lua_State *L, void *s) {
  char handle[48] = ""; /* %p would show the legacy stream's 0 as the C library likes it */
  if (ltide_granted(L, TIDE_LUA_POINTERS))
    snprintf(handle, sizeof handle, ", cuda_stream=0x%llx", (unsigned long long)tide_stream_handle(s));
  return lua_pushfstring(L, "tide.cuda.Stream(device=cuda:%d, priority=%d%s)", tide_stream_device(s),
                         tide_stream_priority(s), handle),
         1;
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

static int enter_stream(lua_State *L, const char *what, tide_stream *s, int fn) {
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

/* A block is opened often: it reads its two arguments itself. */
static int lcuda_stream(lua_State *L) {
  ltide_enter(L);
  int fn = ltide_check_block(L, 2);
  if (lua_isnone(L, 1)) return ltide_arg_error(L, 1, "stream", "a tide.cuda.Stream or nil");
  if (lua_isnil(L, 1)) return ltide_empty_block(L, "cuda.stream", fn);
  return enter_stream(L, "cuda.stream", ltide_check_stream(L, 1, "stream"), fn);
}

static int lstream_use(lua_State *L, ltide_call *c) {
  return enter_stream(L, "Stream:use", c->v[0].stream, c->v[1].at);
}

/* Of a row that is read a nil at the end would be nothing. */
static int lset_stream(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  if (lua_isnil(L, 1)) return 0;
  tide_stream *s = ltide_check_stream(L, 1, "stream");
  ltide_try(L, tide_current_set_stream(s));
  return ltide_done(L, tide_current_set_device(tide_stream_device(s)));
}

static int lcurrent_stream(lua_State *L, ltide_call *c) {
  tide_stream *s;
  ltide_try(L, tide_current_stream(&s, c->v[0].device));
  return ltide_push_stream(L, s), 1;
}

static int ldefault_stream(lua_State *L, ltide_call *c) {
  tide_stream *s;
  ltide_try(L, tide_stream_default(&s, c->v[0].device));
  return ltide_push_stream(L, s), 1;
}

/* Every stream waits for what is queued now on all the others. */
static int lstream_barrier(lua_State *L, ltide_call *c) {
  int list = c->v[0].at;
  lua_Integer n = check_list(L, list);
  /* All events are recorded before any wait is queued, else later streams would wait for the waits of earlier ones. */
  lua_createtable(L, (int)n, 0);
  int events = lua_gettop(L);
  for (lua_Integer i = 1; i <= n; i++, lua_settop(L, events)) {
    push_recorded(L, push_at(L, list, i));
    lua_seti(L, events, i);
  }
  for (lua_Integer i = 1; i <= n; i++)
    for (lua_Integer j = 1; j <= n; j++, lua_settop(L, events)) {
      if (i == j) continue;
      lua_geti(L, events, j);
      ltide_try(L, tide_stream_wait_event(push_at(L, list, i), ltide_check_event(L, events + 1, "event")));
    }
  return 0;
}

static int lsleep(lua_State *L, ltide_call *c) {
  tide_stream *s;
  ltide_try(L, tide_current_stream(&s, TIDE_CURRENT));
  return ltide_done(L, tide_stream_sleep(s, c->v[0].i));
}

/* {==== The class */

static void release(void *s) { tide_stream_release(s); }
static bool equal(void *a, void *b) { return tide_stream_same(a, b); }

void ltide_open_stream(lua_State *L, ltide_state *S) {
#include <rows/stream.inc>
#include <rows/stream_cuda.inc>
#include <rows/stream_stream.inc>
  static const ltide_class class = {.meta = STREAM_META,
                                    .name = "Stream",
                                    .rows = stream_rows,
                                    .release = release,
                                    .tostring = stream_tostring,
                                    .equal = equal};
  ltide_handle_of(S)->stream_meta = ltide_open_class(L, &class);
  ltide_register_in(L, "tide.cuda", stream_cuda_rows);
  ltide_register_in(L, "tide.cuda.Stream", stream_stream_rows);
  lua_getfield(L, -1, "cuda");
  lua_getfield(L, -1, "stream");
  lua_setfield(L, LUA_REGISTRYINDEX, "tide.cuda.stream");
  lua_pop(L, 1);
}
