/* host.c: what a host asks of a state that no script does: errors as structs, values that are read back, the stream
 * that a script works on. Nothing here raises, and what the host has bound stays bound. */
#include <stdlib.h>

#include "host.h"
#include "call/scope.h"
#include "call/handle.h"

/* {==== Errors
 *
 * A script may have changed an error object, or raised anything else: what is there is looked at as it lies, without a
 * metamethod and without memory. */

/* Where "game.lua:12: what was wrong" says that it was: fills source and line, and returns the rest of the text, or
 * all of it where it begins otherwise. */
static const char *read_place(tide_lua_error_info *e, const char *text) {
  for (const char *colon = strchr(text, ':'); colon && colon - text < LUA_IDSIZE; colon = strchr(colon + 1, ':')) {
    char *end;
    long line = colon[1] >= '0' && colon[1] <= '9' ? strtol(colon + 1, &end, 10) : 0;
    if (line < 1 || line > INT32_MAX || end[0] != ':' || end[1] != ' ') continue;
    memcpy(e->source, text, (size_t)(colon - text));
    e->source[colon - text] = 0;
    e->line = (int)line;
    return end + 2;
  }
  return text;
}

static void read_kind(tide_lua_error_info *e, const char *kind) {
  e->kind = kind;
  for (int s = TIDE_OK + 1; s <= TIDE_DEFERRED; s++)
    if (!strcmp(kind, tide_status_kind((tide_status)s))) e->status = (tide_status)s;
}

static void read_text(tide_lua_error_info *e, const char *key, const char *text) {
  if (!strcmp(key, "kind")) read_kind(e, text);
  if (!strcmp(key, "message")) e->message = text;
  if (!strcmp(key, "name")) e->name = text;
  if (!strcmp(key, "traceback")) e->traceback = text;
  if (!strcmp(key, "where")) read_place(e, text);
}

static void read_integer(tide_lua_error_info *e, const char *key, lua_Integer i) {
  if (!strcmp(key, "code")) e->code = (int)i;
  if (!strcmp(key, "requested")) e->requested = (size_t)i;
  if (!strcmp(key, "free")) e->free = (size_t)i;
  if (!strcmp(key, "total")) e->total = (size_t)i;
  if (!strcmp(key, "allocated")) e->allocated = (size_t)i;
  if (!strcmp(key, "reserved")) e->reserved = (size_t)i;
}

/* Of every field of the table at the top. */
static void read_fields(lua_State *L, tide_lua_error_info *e) {
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    const int *device = strcmp(key, "device") ? NULL : ltide_test_object(L, -1, "tide.device");
    if (device) e->device = *device;
    if (lua_type(L, -1) == LUA_TSTRING) read_text(e, key, lua_tostring(L, -1));
    if (lua_isinteger(L, -1)) read_integer(e, key, lua_tointeger(L, -1));
    if (!strcmp(key, "sticky")) e->sticky = lua_isboolean(L, -1) && lua_toboolean(L, -1);
  }
}

/* The one at the index. A repeated error of a lost device has its fields in its metatable's __index
 * (device_lost_error.c). */
static void read_object(lua_State *L, int index, tide_lua_error_info *e) {
  lua_getmetatable(L, index);
  if (ltide_rawfield(L, -1, "__index") == LUA_TTABLE) read_fields(L, e);
  lua_pushvalue(L, index);
  read_fields(L, e);
  lua_pop(L, 3);
}

static int to_text(lua_State *L) { return lua_tostring(L, 1), 1; }

/* The text of the number at the index, which takes its place, or NULL: there is no memory. */
static const char *number_text(lua_State *L, int index) {
  lua_pushcfunction(L, to_text);
  lua_pushvalue(L, index);
  bool ok = lua_pcall(L, 1, 1, 0) == LUA_OK;
  if (ok) lua_copy(L, -1, index);
  lua_pop(L, 1);
  return ok ? lua_tostring(L, index) : NULL;
}

/* Of a state that has ended an error of memory is a string that it could not pay for (quota_alloc.c). */
static void read_end(lua_State *L, tide_lua_error_info *e) {
  const ltide_state *S = ltide_state_of(L);
  if (!S || !S->quota || strcmp(e->message, "not enough memory")) return;
  tide_status status = tide_quota_check(S->quota);
  if (status == TIDE_OK) return;
  e->status = status, e->kind = tide_status_kind(status), e->message = tide_error_get()->message;
}

int ltide_host_error(lua_State *L, int index, tide_lua_error_info *error, size_t size) {
  tide_lua_error_info e;
  const char *text = NULL;
  index = lua_absindex(L, index);
  tide_lua_error_plain(L, index, &e);
  bool room = lua_checkstack(L, 8);
  if (room && lua_type(L, index) == LUA_TNUMBER) text = number_text(L, index);
  if (lua_type(L, index) == LUA_TSTRING) text = read_place(&e, lua_tostring(L, index));
  if (room && ltide_is_error(L, index)) read_object(L, index, &e);
  if (text) e.message = text;
  if (text && room) read_end(L, &e);
  memcpy(error, &e, size < sizeof e ? size : sizeof e);
  return e.kind != NULL;
}

/* {==== Values and streams */

/* What the coroutine has selected becomes the thread's for a moment, without its quota: the work is the host's. */
typedef struct visit {
  tide_current *here, *before;
  tide_quota *quota;
} visit;

static visit enter_current(lua_State *L) {
  const ltide_record *r = ltide_record_of(L);
  visit v = {r ? r->current : NULL, NULL, NULL};
  v.before = tide_current_bind(v.here);
  if (!v.here) return v;
  v.quota = ltide_state_of(L)->quota;
  tide_current_set_quota(v.here, NULL);
  return v;
}

static void leave_current(visit v) {
  if (v.quota) tide_current_set_quota(v.here, v.quota);
  tide_current_bind(v.before);
}

tide_status ltide_host_readback(tide_tensor **host, tide_event **ready, lua_State *L, int index) {
  ltide_state *S = ltide_state_of(L);
  ltide_tensor *u = ltide_test_handle(L, S, index);
  visit v = enter_current(L);
  tide_status status = tide_readback(host, ready, u ? u->t : NULL);
  leave_current(v);
  return status;
}

tide_stream *ltide_host_stream(lua_State *L, int device) {
  tide_stream *s = NULL;
  visit v = enter_current(L);
  tide_status status = tide_current_stream(&s, device);
  leave_current(v);
  return status == TIDE_OK ? s : NULL;
}
