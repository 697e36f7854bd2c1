/* error.c: error objects, and the one place where errors are raised.
 *
 * An error object is a table with the metatable below: kind, message, traceback, op, for a device's errors device,
 * code, name, sticky and candidates, for memory requested, free, total, allocated, reserved, for a race earlier, later,
 * bytes and edge. It holds strings and numbers only, so it keeps no tensor alive. tostring gives "file:line: message",
 * the form of Lua's own errors. */
#include <stdarg.h>

#include "fields.h"
#include "row.h"
#include "tide/debug.h"

static const char key_meta;

static int error_tostring(lua_State *L) {
  lua_getfield(L, 1, "where");
  lua_getfield(L, 1, "message");
  if (!lua_isstring(L, -2) || !lua_isstring(L, -1)) return luaL_error(L, "not a tide error");
  lua_concat(L, 2);
  return 1;
}

/* How far a script is looked for: Lua walks to each level from the top, and LuaJIT lets thousands of calls of C be
 * nested that tail calls have left no line between. */
enum { LEVELS = 100, CHUNK_LEVELS = 4096 }; /* a chunk may walk a tree of tables, each deeper one a level */

bool ltide_find_script(lua_State *L, lua_Debug *ar) {
  for (int level = 0; level < LEVELS && lua_getstack(L, level, ar); level++) {
    lua_getinfo(L, "Sl", ar);
    if (ar->currentline > 0 && !ltide_script_is(ar)) return true;
  }
  return false;
}

/* Has a chunk called the function at the level? */
static bool chunk_calls(lua_State *L, int level) {
  lua_Debug ar;
  return lua_getstack(L, level + 1, &ar) && lua_getinfo(L, "S", &ar) && ltide_script_is(&ar);
}

/* Pushes the traceback, in Lua's form. luaL_traceback would look every C function's name up in all loaded modules,
 * which takes milliseconds with one of many names; what the callers called it serves as well. */
static void push_traceback(lua_State *L) {
  enum { MOST = 24 };
  lua_Debug ar;
  int pieces = 1;
  luaL_checkstack(L, MOST + 4, "tide: error");
  lua_pushliteral(L, "stack traceback:");
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    if (level == MOST) {
      lua_pushliteral(L, "\n\t...");
      pieces++;
      break;
    }
    lua_getinfo(L, "Sln", &ar);
    if (ltide_script_is(&ar) || (*ar.what == 'C' && chunk_calls(L, level))) continue;
    if (ar.currentline > 0)
      lua_pushfstring(L, "\n\t%s:%d: in ", ar.short_src, ar.currentline);
    else
      lua_pushfstring(L, "\n\t%s: in ", ar.short_src);
    if (*ar.namewhat)
      lua_pushfstring(L, "%s '%s'", ar.namewhat, ar.name);
    else if (*ar.what == 'm')
      lua_pushliteral(L, "main chunk");
    else if (*ar.what == 'C')
      lua_pushliteral(L, "?");
    else
      lua_pushfstring(L, "function <%s:%d>", ar.short_src, ar.linedefined);
    lua_concat(L, 2);
    pieces++;
  }
  lua_concat(L, pieces);
}

/* Adds the frames of the traceback, one a line, but for those of the chunks: each with the C function that it called,
 * the line before, and with the mark of its tail call, the line behind. */
static void add_frames(luaL_Buffer *b, const char *line) {
  const char *called = NULL;
  size_t length = 0;
  for (bool own = false; *line; line += length) {
    size_t n = strcspn(line + 1, "\n") + 1;
    bool is_tail = own && !strncmp(line, "\n\t(...tail", 10);
    own = is_tail || !strncmp(line, "\n\t[tide ", 8);
    if (called && (!own || is_tail)) luaL_addlstring(b, called, length);
    called = !own && !strncmp(line, "\n\t[C]:", 6) ? line : NULL;
    if (!own && !called) luaL_addlstring(b, line, n);
    length = n;
  }
  if (called) luaL_addstring(b, called);
}

void ltide_traceback(lua_State *L, lua_State *co, const char *message, int level) {
  luaL_Buffer b;
  luaL_traceback(L, co, NULL, level);
  int trace = lua_gettop(L);
  const char *text = lua_tostring(L, trace);
  size_t head = strcspn(text, "\n");
  luaL_buffinit(L, &b);
  if (message) luaL_addstring(&b, message), luaL_addchar(&b, '\n');
  luaL_addlstring(&b, text, head);
  add_frames(&b, text + head);
  luaL_pushresult(&b);
  lua_remove(L, trace);
}

/* op is the part before the first colon. */
void ltide_push_error(lua_State *L, const char *kind) {
  lua_Debug ar;
  const char *message = lua_tostring(L, -1), *colon = strchr(message, ':');
  lua_createtable(L, 0, 12);
  ltide_set_text(L, "kind", kind);
  if (colon) {
    lua_pushlstring(L, message, (size_t)(colon - message));
    lua_setfield(L, -2, "op");
  }
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "message");
  if (ltide_find_script(L, &ar))
    lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
  else
    lua_pushliteral(L, "");
  lua_setfield(L, -2, "where");
  push_traceback(L);
  lua_setfield(L, -2, "traceback");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_meta);
  lua_setmetatable(L, -2);
  lua_remove(L, -2);
}

/* Pushes {{line = "a.lua:3", op = "add", stream = handle, count = 1}, ...}. */
static void push_candidates(lua_State *L) {
  static const ltide_field fields[] = LTIDE_FIELDS(tide_candidate, op, stream, count);
  const tide_candidate *list;
  int n = tide_error_candidates(&list);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_createtable(L, 0, 4);
    ltide_set_fields(L, fields, &list[i], false);
    ltide_set_text(L, "line", *list[i].line ? list[i].line : NULL);
    lua_rawseti(L, -2, i + 1);
  }
}

/* The level of the function that a script has called, which may have called one of the chunks'; 0 where it runs. Of
 * LuaJIT's a script calls some in compat/hot.lua itself: what those call is meant. */
static int script_level(lua_State *L) {
  lua_Debug ar;
  int found = 0;
  bool was_chunk = false;
  for (int level = 1; level < CHUNK_LEVELS && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "S", &ar);
    if (*ar.what == 'C') {
      if (was_chunk) found = level;
      was_chunk = false;
      continue;
    }
    if (!ltide_script_is(&ar)) break;
    was_chunk = true;
  }
  return found;
}

/* The name of the C function that the script has called as users know it, or NULL: the one it is registered under,
 * whatever a local variable calls it; of one made in a loop, the field or method it was called by. */
static const char *known_name(lua_State *L, lua_Debug *ar) {
  if (!lua_getstack(L, script_level(L), ar)) return NULL;
  lua_getinfo(L, "nf", ar);
  const ltide_row *row = ltide_row_at(L, -1);
  lua_pop(L, 1);
  if (row) return row->name + (row->name[0] == '_' && row->name[1] == '_' ? 2 : 0); /* "__tostring": tostring */
  return strcmp(ar->namewhat, "field") && strcmp(ar->namewhat, "method") ? NULL : ar->name;
}

const char *ltide_function_name(lua_State *L) {
  lua_Debug ar = {0};
  const char *name = known_name(L, &ar);
  if (!name) name = ar.name;
  if (!name) return "tide";
  if (!strcmp(ar.namewhat, "metamethod") && !strcmp(name, "newindex")) return "assign";
  return name;
}

/* Core's messages begin with the name of a C function, which may stand behind several of Lua: "stream_new", "to",
 * "read". Is it such a name, and not that of an area ("cuda", "memory") or an operation's own? */
static bool names_c_function(const char *what, size_t n) {
  static const char *const verbs[] = {"bernoulli", "copy",   "empty", "fill",   "fit", "full", "mask",
                                      "normal",    "random", "read",  "resize", "set", "to",   "write"};
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
    if (n == strlen(verbs[i]) && !memcmp(what, verbs[i], n)) return true;
  return memchr(what, '_', n) && strspn(what, "abcdefghijklmnopqrstuvwxyz_") == n;
}

/* The name that the user called for the one that core's message begins with, or NULL where that one stays; *rest is the
 * message behind it. What a chunk calls is never what the user called, but what memory reports keeps its own name. */
static const char *called_name(lua_State *L, tide_status status, const char *message, const char **rest) {
  lua_Debug ar = {0};
  *rest = strchr(message, ':');
  bool is_name = *rest && !memchr(message, ' ', (size_t)(*rest - message));
  bool in_chunk = is_name && status != TIDE_MEMORY && script_level(L);
  bool is_other = *rest && (names_c_function(message, (size_t)(*rest - message)) || in_chunk);
  return is_other ? known_name(L, &ar) : NULL;
}

/* Pushes core's message under the name that the user called. What a device reports keeps its own. */
static void push_message(lua_State *L, const tide_error *e) {
  const char *rest, *name = e->status == TIDE_ACCELERATOR ? NULL : called_name(L, e->status, e->message, &rest);
  if (name)
    lua_pushfstring(L, "%s%s", name, rest);
  else
    lua_pushstring(L, e->message);
}

/* Once a device is lost every call says the same: pushes its message and the list of candidates, which are made
 * once. */
static void push_lost(lua_State *L, const char *message) {
  static const char key;
  size_t length = 0;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key) == LUA_TTABLE) {
    lua_rawgeti(L, -1, 1), lua_rawgeti(L, -2, 2);
    lua_remove(L, -3);
    const char *kept = lua_tolstring(L, -2, &length);
    if (length == strlen(message) && !memcmp(kept, message, length)) return;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  lua_pushstring(L, message);
  push_candidates(L);
  lua_createtable(L, 2, 0);
  lua_pushvalue(L, -3), lua_rawseti(L, -2, 1);
  lua_pushvalue(L, -2), lua_rawseti(L, -2, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
}

void ltide_push_raised(lua_State *L) {
  static const ltide_field of_memory[] = LTIDE_FIELDS(tide_error, requested, free, total, allocated, reserved),
                           of_devices[] = LTIDE_FIELDS(tide_error, code, name, sticky);
  tide_error e = *tide_error_get();
  if (!e.name) e.name = "";
  bool lost = e.status == TIDE_ACCELERATOR && e.sticky;
  ltide_state *S = ltide_state_of(L);
  struct ltide_error_part *part = ltide_error_of(S);
  luaL_checkstack(L, 12, "tide: error");
  bool by_quota = S->quota && (e.status == TIDE_QUOTA || e.status == TIDE_INTERRUPTED);
  if (by_quota && tide_quota_check(S->quota) != TIDE_OK) {
    atomic_store(&S->ended, true);
    if (part->on_ended) part->on_ended(S, L);
  }
  if (lost && ltide_lost_again(L, e.message)) return;
  if (lost)
    push_lost(L, e.message), lua_insert(L, -2);
  else
    push_message(L, &e);
  ltide_push_error(L, tide_status_kind(e.status));
  /* Out-of-memory of the host too; an error of several devices has none that is its own. */
  if (e.status == TIDE_MEMORY || e.status == TIDE_ACCELERATOR || e.device >= 0) {
    ltide_push_device(L, e.device);
    lua_setfield(L, -2, "device");
  }
  if (e.status == TIDE_MEMORY) {
    ltide_set_fields(L, of_memory, &e, false);
    if (part->set_oom) part->set_oom(L, e.device);
  }
  if (e.status == TIDE_STATE && part->set_race) part->set_race(L);
  if (e.status == TIDE_ACCELERATOR) {
    ltide_set_fields(L, of_devices, &e, false);
    if (lost)
      lua_pushvalue(L, -2);
    else
      push_candidates(L);
    lua_setfield(L, -2, "candidates");
  }
  if (!lost) return;
  lua_remove(L, -2);
  ltide_lost_keep(L);
}

int ltide_raise(lua_State *L) {
  ltide_push_raised(L);
  return lua_error(L);
}

void ltide_still_ended(lua_State *L, ltide_state *S) {
  if (!S->quota || tide_quota_check(S->quota) != TIDE_OK) ltide_raise(L);
  atomic_store(&S->ended, false);
}

/* NULL: no state is open. */
static const struct ltide_error_part *part_of(lua_State *L) {
  ltide_state *S = ltide_state_of(L);
  return S ? ltide_error_of(S) : NULL;
}

/* With the text at the top. */
static int raise_text(lua_State *L, const char *kind) {
  const struct ltide_error_part *part = part_of(L);
  bool hinted = part && part->dot_hint && *part->dot_hint(L); /* the hint's text goes with the concatenation */
  if (hinted) lua_concat(L, 2);
  ltide_push_error(L, hinted ? "ArgumentError" : kind);
  return lua_error(L);
}

int ltide_error(lua_State *L, const char *kind, const char *format, ...) {
  va_list list;
  luaL_checkstack(L, 8, "tide: error");
  va_start(list, format);
  lua_pushvfstring(L, format, list);
  va_end(list);
  return raise_text(L, kind);
}

int ltide_fail(lua_State *L, const char *kind, const char *format, ...) {
  va_list list;
  luaL_checkstack(L, 8, "tide: error");
  lua_pushfstring(L, "%s: ", ltide_function_name(L));
  va_start(list, format);
  lua_pushvfstring(L, format, list);
  va_end(list);
  lua_concat(L, 2);
  return raise_text(L, kind);
}

int ltide_arg_error(lua_State *L, int arg, const char *name, const char *expected) {
  arg = arg > 0 ? arg : lua_absindex(L, arg);
  luaL_checkstack(L, 12, "tide: error");
  const struct ltide_error_part *part = part_of(L);
  const char *got = ltide_typename(L, arg), *hint = part && part->arg_hint ? part->arg_hint(L, arg, expected) : "";
  return ltide_fail(L, "ArgumentError", "%s: got %s, expected %s%s", name, got, expected, hint);
}

int ltide_freed_error(lua_State *L, const char *name, const char *noun) {
  return ltide_fail(L, "StateError", "%s: got a freed %s, expected one that is alive", name, noun);
}

const char *ltide_check_text(lua_State *L, int arg, const char *name) {
  const char *text = lua_tostring(L, arg);
  if (!text) ltide_arg_error(L, arg, name, "a string");
  return text;
}

const char *ltide_check_cstring(lua_State *L, int arg, const char *name, const char *expected) {
  size_t length = 0;
  const char *text = lua_type(L, arg) == LUA_TSTRING ? lua_tolstring(L, arg, &length) : NULL;
  if (!text) ltide_arg_error(L, arg, name, expected);
  if (strlen(text) != length) ltide_fail(L, "ValueError", "%s: got a zero byte behind '%s', expected none", name, text);
  return text;
}

void *ltide_take_pointer(lua_State *L, const char *meta) {
  void **u = ltide_test_object(L, 1, meta), *held = u ? *u : NULL;
  if (u) *u = NULL;
  return held;
}

void *ltide_check_object(lua_State *L, int arg, const char *meta) {
  void *u = ltide_test_object(L, arg, meta);
  if (!u) ltide_arg_error(L, arg, "self", meta);
  return u;
}

/* Pushes the text too, so that it lives until the function returns. */
static const char *tensor_typename(lua_State *L, tide_tensor *t) {
  if (!t) return lua_pushliteral(L, "a freed tensor");
  char text[256];
  int n = snprintf(text, sizeof text, "a%s %s tensor [", tide_dtype_kind(tide_tensor_dtype(t)) == 'I' ? "n" : "",
                   tide_dtype_name(tide_tensor_dtype(t)));
  for (int d = 0; d < tide_tensor_ndim(t) && n < 200; d++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", d ? ", " : "", (long long)tide_tensor_size(t)[d]);
  int device = tide_tensor_device(t);
  if (device < 0)
    snprintf(text + n, sizeof text - (size_t)n, "]");
  else
    snprintf(text + n, sizeof text - (size_t)n, "] on cuda:%d", device);
  return lua_pushstring(L, text);
}

const char *ltide_typename(lua_State *L, int arg) {
  ltide_state *S = ltide_enter(L);
  ltide_tensor *u = ltide_test_handle(L, S, arg);
  if (u) return tensor_typename(L, u->t);
  switch (lua_type(L, arg)) {
  case LUA_TNONE: return "nothing";
  case LUA_TNIL: return "nil";
  case LUA_TBOOLEAN: return lua_toboolean(L, arg) ? "boolean true" : "boolean false";
  case LUA_TNUMBER:
    lua_pushvalue(L, arg); /* tostring converts in place */
    return lua_pushfstring(L, "number %s", lua_tostring(L, -1));
  case LUA_TSTRING: {
    size_t n;
    const char *s = lua_tolstring(L, arg, &n);
    if (n <= 40) return lua_pushfstring(L, "string '%s'", s);
    lua_pushlstring(L, s, 40);
    return lua_pushfstring(L, "string '%s...'", lua_tostring(L, -1));
  }
  default: {
    if (luaL_getmetafield(L, arg, "__name") == LUA_TSTRING) return lua_tostring(L, -1);
    return luaL_typename(L, arg);
  }
  }
}

int ltide_read_only(lua_State *L) {
  const char *name = luaL_getmetafield(L, 1, "__name") == LUA_TSTRING ? lua_tostring(L, -1) : "object";
  return ltide_error(L, "ArgumentError", "%s: fields cannot be assigned, got %s", name, ltide_typename(L, 2));
}

/* Core's warnings, on the coroutine that called last. In the middle of core nothing may raise: no string is made. */
void ltide_warn_hook(void *user, const char *message) {
  bool is_there = ltide_last_state && ltide_last_epoch == atomic_load(&ltide_epoch) && !ltide_last_state->in_ffi;
  lua_State *L = is_there ? ltide_last_state->running : NULL; /* also where a host has bound its own current since */
  if (!L || !lua_checkstack(L, 2)) return;
  const char *rest, *name = called_name(L, TIDE_OK, message, &rest);
  if (name) lua_warning(L, name, 1);
  lua_warning(L, name ? rest : message, 0);
}

void ltide_warn(lua_State *L, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const char *text = lua_pushvfstring(L, format, list);
  va_end(list);
  lua_warning(L, text, 0);
  lua_pop(L, 1);
}

void ltide_open_error_meta(lua_State *L, ltide_state *S) {
  lua_createtable(L, 0, 3);
  ltide_set_function(L, "__tostring", error_tostring);
  ltide_set_text(L, "__name", "tide.error");
  ltide_protect(L, "tide.error");
  ltide_error_of(S)->meta = lua_topointer(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_meta);
}

LTIDE_PART_SIZE(error)
