/* luajit.c: Lua 5.4's C API over LuaJIT's. It calls nothing of the bindings: open.c puts what it needs into the
 * registry.
 *
 * The functions of the module have an environment of their own, an empty table: so userdata without user values has
 * that one, and asking for one gives nil. */
#include <stdlib.h>
#include <string.h>

#include <luajit.h>

const char ltide_jit_kind, ltide_jit_parts, ltide_jit_join, ltide_jit_point, ltide_jit_engine, ltide_jit_library;
static const char key_warn;

/* {==== Numbers */

/* Calls the function of the key with the value at the index. */
static void call_with(lua_State *L, int index, const void *key, int results) {
  index = lua_absindex(L, index);
  luaL_checkstack(L, 4, "tide");
  lua_rawgetp(L, LUA_REGISTRYINDEX, key);
  lua_pushvalue(L, index);
  lua_call(L, 1, results);
}

int ltide_jit_cdata_type(lua_State *L, int index) {
  call_with(L, index, &ltide_jit_kind, 1);
  bool is_wide = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is_wide ? LUA_TNUMBER : LTIDE_CDATA;
}

int64_t ltide_jit_wide(lua_State *L, int index) {
  call_with(L, index, &ltide_jit_parts, 2);
  double low = (lua_tonumber)(L, -2), high = (lua_tonumber)(L, -1);
  lua_pop(L, 2);
  return (int64_t)high * 4294967296 + (int64_t)low;
}

void ltide_jit_push_wide(lua_State *L, int64_t i) {
  luaL_checkstack(L, 4, "tide");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &ltide_jit_join);
  lua_pushnumber(L, (double)(uint32_t)i);
  lua_pushnumber(L, (double)(i >> 32));
  lua_call(L, 2, 1);
}

/* {==== The FFI for scripts */

bool ltide_jit_push_ffi(lua_State *L) {
  int top = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  bool is_there = lua_getfield(L, -1, "ffi") == LUA_TTABLE;
  if (lua_getfield(L, LUA_REGISTRYINDEX, "_PRELOAD") == LUA_TTABLE && lua_getfield(L, -1, "ffi") != LUA_TNIL)
    is_there = true;
  lua_settop(L, top);
  if (is_there) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &ltide_jit_library);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &ltide_jit_engine);
    lua_call(L, 1, 1);
  }
  return is_there;
}

void ltide_jit_push_pointer(lua_State *L, const char *type, void *at) {
  int kept = lua_gettop(L);
  luaL_checkstack(L, 8, "tide");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &ltide_jit_point);
  lua_pushstring(L, type);
  ltide_jit_push_wide(L, (int64_t)(intptr_t)at);
  lua_pushvalue(L, kept);
  lua_call(L, 3, 1);
  lua_replace(L, kept);
}

/* {==== Strings */

static void add_value(luaL_Buffer *b, char kind, va_list *list) {
  char text[32] = {kind};
  const char *s = text;
  switch (kind) {
  case 's':
    s = va_arg(*list, const char *);
    if (!s) s = "(null)";
    break;
  case 'd': snprintf(text, sizeof text, "%d", va_arg(*list, int)); break;
  case 'I': snprintf(text, sizeof text, "%lld", (long long)va_arg(*list, lua_Integer)); break;
  case 'f': snprintf(text, sizeof text, LUA_NUMBER_FMT, va_arg(*list, lua_Number)); break;
  case 'p': snprintf(text, sizeof text, "%p", va_arg(*list, void *)); break;
  case 'c': text[0] = (char)va_arg(*list, int); break;
  default: break; /* a percent sign */
  }
  luaL_addstring(b, s);
}

const char *ltide_jit_pushvfstring(lua_State *L, const char *format, va_list list) {
  luaL_Buffer b;
  va_list own;
  va_copy(own, list);
  luaL_buffinit(L, &b);
  for (const char *at; (at = strchr(format, '%')) != NULL; format = at + 2) {
    luaL_addlstring(&b, format, (size_t)(at - format));
    add_value(&b, at[1], &own);
  }
  luaL_addstring(&b, format);
  luaL_pushresult(&b);
  va_end(own);
  return lua_tostring(L, -1);
}

const char *ltide_jit_pushfstring(lua_State *L, const char *format, ...) {
  va_list list;
  va_start(list, format);
  const char *text = lua_pushvfstring(L, format, list);
  va_end(list);
  return text;
}

int ltide_jit_error(lua_State *L, const char *format, ...) {
  va_list list;
  va_start(list, format);
  luaL_where(L, 1);
  lua_pushvfstring(L, format, list);
  va_end(list);
  lua_concat(L, 2);
  return lua_error(L);
}

const char *ltide_jit_tolstring(lua_State *L, int index, size_t *length) {
  index = lua_absindex(L, index);
  if (luaL_callmeta(L, index, "__tostring")) {
    if (!lua_isstring(L, -1)) luaL_error(L, "'__tostring' must return a string");
    return lua_tolstring(L, -1, length);
  }
  switch ((lua_type)(L, index)) {
  case LUA_TNUMBER:
  case LUA_TSTRING:
    lua_pushvalue(L, index);
    lua_tostring(L, -1); /* a number becomes a string there */
    break;
  case LUA_TBOOLEAN: lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false"); break;
  case LUA_TNIL: lua_pushstring(L, "nil"); break;
  default: {
    bool is_named = luaL_getmetafield(L, index, "__name") == LUA_TSTRING;
    lua_pushfstring(L, "%s: %p", is_named ? lua_tostring(L, -1) : luaL_typename(L, index), lua_topointer(L, index));
    if (is_named) lua_remove(L, -2);
  }
  }
  return lua_tolstring(L, -1, length);
}

size_t ltide_jit_stringtonumber(lua_State *L, const char *text) {
  lua_pushstring(L, text);
  if (!lua_isnumber(L, -1)) return lua_pop(L, 1), 0;
  lua_pushnumber(L, (lua_tonumber)(L, -1));
  lua_remove(L, -2);
  return strlen(text) + 1;
}

/* The bytes are written to a userdata, of which the string is made. */
char *ltide_jit_buffinitsize(lua_State *L, luaL_Buffer *b, size_t size) {
  b->L = L;
  return lua_newuserdata(L, size ? size : 1);
}

void ltide_jit_pushresultsize(luaL_Buffer *b, size_t size) {
  lua_pushlstring(b->L, lua_touserdata(b->L, -1), size);
  lua_remove(b->L, -2);
}

/* {==== The stack and tables */

void lua_rotate(lua_State *L, int index, int n) {
  index = lua_absindex(L, index);
  for (; n > 0; n--) lua_insert(L, index);
  for (; n < 0; n++) {
    lua_pushvalue(L, index);
    lua_remove(L, index);
  }
}

void lua_len(lua_State *L, int index) {
  if (!luaL_callmeta(L, index, "__len")) lua_pushnumber(L, (double)lua_objlen(L, index));
}

lua_Integer luaL_len(lua_State *L, int index) {
  int is_integer;
  lua_len(L, index);
  lua_Integer n = lua_tointegerx(L, -1, &is_integer);
  if (!is_integer) luaL_error(L, "object length is not an integer");
  lua_pop(L, 1);
  return n;
}

int luaL_getsubtable(lua_State *L, int index, const char *name) {
  index = lua_absindex(L, index);
  if (lua_getfield(L, index, name) == LUA_TTABLE) return 1;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, index, name);
  return 0;
}

int ltide_jit_newmetatable(lua_State *L, const char *name) {
  int is_new = (luaL_newmetatable)(L, name);
  if (is_new) {
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__name");
  }
  return is_new;
}

/* {==== Userdata */

void *ltide_jit_newuserdata(lua_State *L, size_t size, int values) {
  void *object = lua_newuserdata(L, size);
  lua_createtable(L, values, 0);
  lua_setfenv(L, -2);
  return object;
}

int lua_getiuservalue(lua_State *L, int index, int n) {
  lua_getfenv(L, index);
  int type = lua_rawgeti(L, -1, n);
  lua_remove(L, -2);
  return type;
}

int lua_setiuservalue(lua_State *L, int index, int n) {
  lua_getfenv(L, index);
  lua_insert(L, -2);
  lua_rawseti(L, -2, n);
  lua_pop(L, 1);
  return 1;
}

/* {==== Calls */

int ltide_jit_resume(lua_State *co, lua_State *from, int args, int *results) {
  int status = (lua_resume)(co, args);
  *results = lua_gettop(co);
  return status;
}

const char *ltide_jit_setupvalue(lua_State *L, int index, int n) {
  const char *name = (lua_setupvalue)(L, index, n);
  if (name || n != 1) return name;
  return lua_setfenv(L, index) ? "_ENV" : NULL;
}

void lua_closeslot(lua_State *L, int index) {
  if (luaL_getmetafield(L, index, "__close") == LUA_TNIL) return;
  lua_pushvalue(L, index);
  lua_pushnil(L);
  lua_call(L, 2, 0);
}

/* {==== Compiled code */

void ltide_jit_flush(lua_State *L) { luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_FLUSH); }

void ltide_jit_interpret(lua_State *L, int index) { luaJIT_setmode(L, index, LUAJIT_MODE_ALLFUNC | LUAJIT_MODE_OFF); }

/* {==== The collector and warnings */

/* Setting a mode raises within a finaliser; this one sets nothing. */
static int ask_engine(lua_State *L) { return luaJIT_setmode(L, 0, LUAJIT_MODE_DEBUG), 0; }

/* The collector is off while a finaliser runs, so that one that is on has none. */
static bool is_finalising(lua_State *L) {
  if ((lua_gc)(L, LUA_GCISRUNNING, 0) || !lua_checkstack(L, 4)) return false;
  if (lua_cpcall(L, ask_engine, NULL) == LUA_OK) return false;
  lua_pop(L, 1);
  return true;
}

int ltide_jit_gc(lua_State *L, int what, int data, ...) {
  if (what == LUA_GCINC) return LUA_GCINC;
  bool changes = what == LUA_GCCOLLECT || what == LUA_GCSTEP || what == LUA_GCSTOP || what == LUA_GCRESTART;
  if ((changes || what == LUA_GCCOUNT) && is_finalising(L)) return -1;
  if (what != LUA_GCCOLLECT && what != LUA_GCSTEP) return (lua_gc)(L, what, data);
  bool runs = (lua_gc)(L, LUA_GCISRUNNING, 0);
  int result = (lua_gc)(L, what, data);
  if (!runs) (lua_gc)(L, LUA_GCSTOP, 0); /* either has started it */
  return result;
}

typedef struct warn_function {
  lua_WarnFunction f;
  void *user;
  bool goes_on;
} warn_function;

void ltide_jit_open_warnings(lua_State *L) {
  memset(lua_newuserdata(L, sizeof(warn_function)), 0, sizeof(warn_function));
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_warn);
}

void lua_setwarnf(lua_State *L, lua_WarnFunction f, void *user) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_warn);
  warn_function *w = lua_touserdata(L, -1);
  if (w) *w = (warn_function){.f = f, .user = user};
  lua_pop(L, 1);
}

void lua_warning(lua_State *L, const char *message, int to_continue) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_warn);
  warn_function *w = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (!w) return;
  if (w->f) {
    w->f(w->user, message, to_continue);
    return;
  }
  if (!w->goes_on) fputs("Lua warning: ", stderr);
  fputs(message, stderr);
  if (!to_continue) fputc('\n', stderr);
  w->goes_on = to_continue;
}
