/* luajit.c: Lua 5.4's C API over LuaJIT's, and the module's entry there.
 *
 * The functions of the module have an environment of their own, an empty table: so userdata without user values has
 * that one, and asking for one gives nil. */
#include <stdlib.h>
#include <string.h>

#include <luajit.h>

#include "hot.h"
#include "library.h"
#include "call/script.h"

#undef luaopen_tide
__attribute__((visibility("default"))) int luaopen_tide(lua_State *L);

static const char key_kind, key_parts, key_join, key_with, key_point, key_warn, key_ffi; /* registry */

/* {==== Numbers */

/* prelude.lua and hot.lua, made by CMake. */
static const struct text {
  const char *name, *text;
  size_t length;
} prelude[] = {
#include <tide_prelude.inc>
};

/* protect(f, ...): true and its results, or false and the error. */
static int protect(lua_State *L) {
  bool ok = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0) == LUA_OK;
  lua_pushboolean(L, ok);
  lua_insert(L, 1);
  return lua_gettop(L);
}

/* closer(value): its __close, or nil. */
static int closer(lua_State *L) {
  if (luaL_getmetafield(L, 1, "__close") == LUA_TNIL) lua_pushnil(L);
  return 1;
}

static int throw(lua_State * L) { return lua_settop(L, 1), lua_error(L); }

static int give_ffi(lua_State *L) { return lua_rawgetp(L, LUA_REGISTRYINDEX, &key_ffi), 1; }

/* Opens the FFI where nobody has. A second luaopen_ffi would make all cdata there is invalid, so `require "ffi"`, where
 * a host has it, gives this one. luaopen_ffi itself puts it among the modules: a host that has withheld it, or
 * withholds it later, does not want it there. */
static void open_ffi(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "ffi") != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_pushcfunction(L, luaopen_ffi);
    lua_pushliteral(L, "ffi");
    lua_call(L, 1, 1);
    lua_pushnil(L);
    lua_setfield(L, -3, "ffi");
    if (lua_getfield(L, LUA_REGISTRYINDEX, "_PRELOAD") == LUA_TTABLE) {
      if (lua_getfield(L, -1, "ffi") != LUA_TNIL && lua_tocfunction(L, -1) == luaopen_ffi) {
        lua_pushcfunction(L, give_ffi);
        lua_setfield(L, -3, "ffi");
      }
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_ffi);
  lua_pop(L, 1);
}

/* Once for a state, however often a script loads tide there. */
static void push_ffi(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_ffi) != LUA_TNIL) return;
  lua_pop(L, 1);
  open_ffi(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_ffi);
}

/* What a C function sees of a cdata is no more than its address: functions over the FFI tell the rest. */
static void open_prelude(lua_State *L) {
  int top = lua_gettop(L);
  const struct text *p = &prelude[0];
  push_ffi(L); /* first: LuaJIT opens it itself for a text with a literal like 1LL */
  if (luaL_loadbuffer(L, p->text, p->length, p->name) != LUA_OK) lua_error(L);
  lua_insert(L, -2);
  lua_pushcfunction(L, protect), lua_pushcfunction(L, closer), lua_pushcfunction(L, throw);
  lua_newtable(L);
  lua_newtable(L), lua_pushliteral(L, "k"), lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_call(L, 5, 5);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_point);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_with);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_join);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_parts);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_kind);
  lua_settop(L, top);
}

/* Calls the function of the key with the value at the index. */
static void call_with(lua_State *L, int index, const void *key, int results) {
  index = lua_absindex(L, index);
  luaL_checkstack(L, 4, "tide");
  lua_rawgetp(L, LUA_REGISTRYINDEX, key);
  lua_pushvalue(L, index);
  lua_call(L, 1, results);
}

int ltide_jit_cdata_type(lua_State *L, int index) {
  call_with(L, index, &key_kind, 1);
  bool is_wide = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return is_wide ? LUA_TNUMBER : LTIDE_CDATA;
}

int64_t ltide_jit_wide(lua_State *L, int index) {
  call_with(L, index, &key_parts, 2);
  double low = (lua_tonumber)(L, -2), high = (lua_tonumber)(L, -1);
  lua_pop(L, 2);
  return (int64_t)high * 4294967296 + (int64_t)low;
}

void ltide_jit_push_wide(lua_State *L, int64_t i) {
  luaL_checkstack(L, 4, "tide");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_join);
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
  if (is_there) lua_rawgetp(L, LUA_REGISTRYINDEX, &key_ffi), ltide_library_push(L);
  return is_there;
}

void ltide_jit_push_pointer(lua_State *L, const char *type, void *at) {
  int kept = lua_gettop(L);
  luaL_checkstack(L, 8, "tide");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_point);
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
  (void)from;
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

/* Compiled code runs no hooks, so that no quota and no kill would end it: what is compiled already goes, too. */
static void forbid_compiling(lua_State *L) {
  ltide_jit_flush(L);
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
}

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

/* {==== Operators that LuaJIT has no syntax for, as translate.lua writes them */

/* Has the metamethod of an operand, where one has it, given the result? */
static bool by_metamethod(lua_State *L, const char *name) {
  if (lua_type(L, 1) == LUA_TNUMBER && lua_type(L, 2) == LUA_TNUMBER) return false;
  if (luaL_getmetafield(L, 1, name) == LUA_TNIL && luaL_getmetafield(L, 2, name) == LUA_TNIL)
    luaL_error(L, "attempt to perform arithmetic on a %s value", luaL_typename(L, lua_isnumber(L, 1) ? 2 : 1));
  lua_insert(L, 1);
  lua_settop(L, 3);
  lua_call(L, 2, 1);
  return true;
}

static int64_t bits_at(lua_State *L, int arg) {
  int is_integer;
  int64_t i = lua_tointegerx(L, arg, &is_integer);
  if (!is_integer) luaL_error(L, "number has no integer representation");
  return i;
}

static int64_t shifted(int64_t x, int64_t by) {
  if (by <= -64 || by >= 64) return 0;
  return (int64_t)(by >= 0 ? (uint64_t)x << by : (uint64_t)x >> -by);
}

/* Floats without a fraction are integers, so it rounds down. */
static int idiv(lua_State *L) {
  if (by_metamethod(L, "__idiv")) return 1;
  if (ltide_jit_is_wide(L, 1) || ltide_jit_is_wide(L, 2)) {
    int64_t a = bits_at(L, 1), b = bits_at(L, 2);
    if (!b) return luaL_error(L, "attempt to perform 'n//0'");
    lua_pushinteger(L, b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b - (a % b && (a < 0) != (b < 0)));
  } else {
    lua_pushnumber(L, floor(lua_tonumber(L, 1) / lua_tonumber(L, 2)));
  }
  return 1;
}

#define BITS(name, metamethod, expression)                                                                             \
  static int name(lua_State *L) {                                                                                      \
    if (by_metamethod(L, metamethod)) return 1;                                                                        \
    int64_t x = bits_at(L, 1), y = bits_at(L, 2);                                                                      \
    lua_pushinteger(L, expression);                                                                                    \
    return 1;                                                                                                          \
  }
BITS(band, "__band", x &y)
BITS(bor, "__bor", x | y)
BITS(bxor, "__bxor", x ^ y)
BITS(shl, "__shl", shifted(x, y))
BITS(shr, "__shr", shifted(x, -y))

static int bnot(lua_State *L) {
  lua_settop(L, 1);
  lua_pushvalue(L, 1);
  if (by_metamethod(L, "__bnot")) return 1;
  lua_pushinteger(L, ~bits_at(L, 1));
  return 1;
}

/* What translate.lua writes for syntax that LuaJIT lacks. */
static const luaL_Reg operators[] = {{"__idiv", idiv}, {"__band", band}, {"__bor", bor},   {"__bxor", bxor},
                                     {"__shl", shl},   {"__shr", shr},   {"__bnot", bnot}, {NULL, NULL}};

/* {==== The entry */

int luaopen_tide(lua_State *L) {
  if (ltide_state_of(L)) return ltide_luaopen(L);
  ltide_library_check(L);
  lua_newtable(L);
  lua_replace(L, LUA_ENVIRONINDEX);
  if (lua_pushthread(L))
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  else
    lua_pop(L, 1);
  open_prelude(L);
  memset(lua_newuserdata(L, sizeof(warn_function)), 0, sizeof(warn_function));
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_warn);
  lua_pushcfunction(L, ltide_luaopen);
  lua_call(L, 0, 1);
  lua_newtable(L);
  luaL_setfuncs(L, operators, 0);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_with);
  lua_setfield(L, -2, "__with");
  ltide_script_add(L);
  ltide_library_note();
  push_ffi(L);
  ltide_open_hot(L, prelude[1].text, prelude[1].length, prelude[1].name);
  if (ltide_state_of(L)->has_options) forbid_compiling(L);
  return 1;
}
