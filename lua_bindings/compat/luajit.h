/* luajit.h: what the bindings use of Lua 5.4's C API and LuaJIT's has not, or has otherwise: included in front of every
 * file of theirs that is compiled for LuaJIT, and of none that is compiled for Lua 5.4.
 *
 * A number is a double there. One without a fraction below 2^53 in magnitude counts as an integer, -0. too, whose sign
 * goes where floats are written; larger ones go to scripts, and come from them, as int64_t cdata, which looks like a
 * number to the rest of the bindings (a uint64_t one that int64_t holds, too). A user value is a field of the
 * userdata's environment. Nothing is to be closed by Lua itself: what would be waits for the collector. */
#pragma once

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

/* The module is opened by open.c, which prepares the state and then calls the one of tide.c. */
#define luaopen_tide ltide_luaopen
int luaopen_tide(lua_State *L);

#define LUA_LOADED_TABLE    "_LOADED"
#define LUA_GNAME           "_G"
#define LUAI_UACINT         lua_Integer
#define LUA_RIDX_MAINTHREAD (-1) /* set by open.c; nil where a coroutine has opened the module */

/* {==== Numbers */

typedef uint64_t lua_Unsigned;
enum { LTIDE_CDATA = 10 }; /* what lua_type says of it */
#define LTIDE_EXACT 9007199254740992.0

int ltide_jit_cdata_type(lua_State *L, int index); /* LUA_TNUMBER for one of 64 bits */
int64_t ltide_jit_wide(lua_State *L, int index);   /* its value */
void ltide_jit_push_wide(lua_State *L, int64_t i);

static inline int ltide_jit_type(lua_State *L, int index) {
  int type = lua_type(L, index);
  return type == LTIDE_CDATA ? ltide_jit_cdata_type(L, index) : type;
}
#define lua_type(L, index) ltide_jit_type(L, index)

static inline bool ltide_jit_is_wide(lua_State *L, int index) {
  return (lua_type)(L, index) == LTIDE_CDATA && ltide_jit_cdata_type(L, index) == LUA_TNUMBER;
}
static inline int ltide_jit_isinteger(lua_State *L, int index) {
  if ((lua_type)(L, index) != LUA_TNUMBER) return ltide_jit_is_wide(L, index);
  double x = (lua_tonumber)(L, index);
  return x >= -LTIDE_EXACT && x <= LTIDE_EXACT && x == (double)(int64_t)x;
}
#define lua_isinteger(L, index) ltide_jit_isinteger(L, index)

/* In a list nobody writes 1. for a float there: only a cdata is an integer for sure. */
#define ltide_is_listed_integer(L, index) ltide_jit_is_wide(L, index)

static inline lua_Integer ltide_jit_tointegerx(lua_State *L, int index, int *is_integer) {
  bool is_wide = ltide_jit_is_wide(L, index);
  double x = is_wide ? 0 : (lua_tonumber)(L, index);
  bool fits = x >= -0x1p63 && x < 0x1p63 && x == floor(x) && (x || is_wide || lua_isnumber(L, index));
  if (is_integer) *is_integer = fits;
  return is_wide ? ltide_jit_wide(L, index) : fits ? (lua_Integer)x : 0;
}
#define lua_tointegerx(L, index, is_integer) ltide_jit_tointegerx(L, index, is_integer)
#define lua_tointeger(L, index)              ltide_jit_tointegerx(L, index, NULL)

static inline lua_Number ltide_jit_tonumber(lua_State *L, int index) {
  return ltide_jit_is_wide(L, index) ? (lua_Number)ltide_jit_wide(L, index) : (lua_tonumber)(L, index);
}
#define lua_tonumber(L, index) ltide_jit_tonumber(L, index)

static inline void ltide_jit_pushinteger(lua_State *L, lua_Integer i) {
  if (i >= -(lua_Integer)LTIDE_EXACT && i <= (lua_Integer)LTIDE_EXACT)
    lua_pushnumber(L, (lua_Number)i);
  else
    ltide_jit_push_wide(L, i);
}
#define lua_pushinteger(L, i) ltide_jit_pushinteger(L, i)

/* {==== Strings */

const char *ltide_jit_pushvfstring(lua_State *L, const char *format, va_list list); /* with %I and %U */
const char *ltide_jit_pushfstring(lua_State *L, const char *format, ...);
int ltide_jit_error(lua_State *L, const char *format, ...);
const char *ltide_jit_tolstring(lua_State *L, int index, size_t *length);
size_t ltide_jit_stringtonumber(lua_State *L, const char *text);
char *ltide_jit_buffinitsize(lua_State *L, luaL_Buffer *b, size_t size);
void ltide_jit_pushresultsize(luaL_Buffer *b, size_t size);
static inline const char *ltide_jit_pushlstring(lua_State *L, const char *text, size_t length) {
  lua_pushlstring(L, text, length);
  return lua_tostring(L, -1);
}
static inline const char *ltide_jit_pushstring(lua_State *L, const char *text) {
  lua_pushstring(L, text);
  return lua_tostring(L, -1);
}
#undef lua_pushliteral
#define lua_pushlstring(L, text, length)  ltide_jit_pushlstring(L, text, length)
#define lua_pushstring(L, text)           ltide_jit_pushstring(L, text)
#define lua_pushliteral(L, text)          ltide_jit_pushlstring(L, "" text, sizeof(text) - 1)
#define lua_pushvfstring(L, format, list) ltide_jit_pushvfstring(L, format, list)
#define lua_pushfstring(...)              ltide_jit_pushfstring(__VA_ARGS__)
#define luaL_error(...)                   ltide_jit_error(__VA_ARGS__)
#define luaL_tolstring(L, index, length)  ltide_jit_tolstring(L, index, length)
#define lua_stringtonumber(L, text)       ltide_jit_stringtonumber(L, text)
#define luaL_buffinitsize(L, b, size)     ltide_jit_buffinitsize(L, b, size)
#define luaL_pushresultsize(b, size)      ltide_jit_pushresultsize(b, size)

/* {==== The stack and tables */

static inline int lua_absindex(lua_State *L, int index) {
  return index > 0 || index <= LUA_REGISTRYINDEX ? index : lua_gettop(L) + index + 1;
}
void lua_rotate(lua_State *L, int index, int n);

#define LTIDE_JIT_TYPED(name, ...)                                                                                     \
  (name)(L, __VA_ARGS__);                                                                                              \
  return lua_type(L, -1)
static inline int ltide_jit_getfield(lua_State *L, int index, const char *key) {
  LTIDE_JIT_TYPED(lua_getfield, index, key);
}
static inline int ltide_jit_rawgeti(lua_State *L, int index, lua_Integer i) {
  if (i == (int)i) { LTIDE_JIT_TYPED(lua_rawgeti, index, (int)i); }
  index = lua_absindex(L, index);
  lua_pushinteger(L, i);
  LTIDE_JIT_TYPED(lua_rawget, index);
}
static inline int ltide_jit_rawget(lua_State *L, int index) { LTIDE_JIT_TYPED(lua_rawget, index); }
static inline int ltide_jit_gettable(lua_State *L, int index) { LTIDE_JIT_TYPED(lua_gettable, index); }
static inline int ltide_jit_getmetafield(lua_State *L, int index, const char *key) {
  return (luaL_getmetafield)(L, index, key) ? lua_type(L, -1) : LUA_TNIL;
}
static inline void ltide_jit_rawseti(lua_State *L, int index, lua_Integer i) {
  if (i == (int)i) {
    (lua_rawseti)(L, index, (int)i);
    return;
  }
  index = lua_absindex(L, index);
  lua_pushinteger(L, i);
  lua_insert(L, -2);
  lua_rawset(L, index);
}
#undef lua_getglobal
#undef luaL_getmetatable
#define lua_getfield(L, index, key)      ltide_jit_getfield(L, index, key)
#define lua_getglobal(L, key)            ltide_jit_getfield(L, LUA_GLOBALSINDEX, key)
#define luaL_getmetatable(L, key)        ltide_jit_getfield(L, LUA_REGISTRYINDEX, key)
#define lua_rawgeti(L, index, i)         ltide_jit_rawgeti(L, index, i)
#define lua_rawseti(L, index, i)         ltide_jit_rawseti(L, index, i)
#define lua_rawget(L, index)             ltide_jit_rawget(L, index)
#define lua_gettable(L, index)           ltide_jit_gettable(L, index)
#define luaL_getmetafield(L, index, key) ltide_jit_getmetafield(L, index, key)
#define lua_rawlen(L, index)             lua_objlen(L, index)
#define lua_pushglobaltable(L)           lua_pushvalue(L, LUA_GLOBALSINDEX)

static inline int lua_rawgetp(lua_State *L, int index, const void *key) {
  index = lua_absindex(L, index);
  lua_pushlightuserdata(L, (void *)(uintptr_t)key);
  LTIDE_JIT_TYPED(lua_rawget, index);
}
static inline void lua_rawsetp(lua_State *L, int index, const void *key) {
  index = lua_absindex(L, index);
  lua_pushlightuserdata(L, (void *)(uintptr_t)key);
  lua_insert(L, -2);
  lua_rawset(L, index);
}
static inline int lua_geti(lua_State *L, int index, lua_Integer i) {
  index = lua_absindex(L, index);
  lua_pushinteger(L, i);
  LTIDE_JIT_TYPED(lua_gettable, index);
}
static inline void lua_seti(lua_State *L, int index, lua_Integer i) {
  index = lua_absindex(L, index);
  lua_pushinteger(L, i);
  lua_insert(L, -2);
  lua_settable(L, index);
}
void lua_len(lua_State *L, int index);
lua_Integer luaL_len(lua_State *L, int index);
int luaL_getsubtable(lua_State *L, int index, const char *name);
int ltide_jit_newmetatable(lua_State *L, const char *name); /* with a __name */
#define luaL_newmetatable(L, name) ltide_jit_newmetatable(L, name)

/* {==== Userdata */

void *ltide_jit_newuserdata(lua_State *L, size_t size, int values);
#define lua_newuserdatauv(L, size, values)                                                                             \
  ((values) ? ltide_jit_newuserdata(L, size, values) : lua_newuserdata(L, size))
int lua_getiuservalue(lua_State *L, int index, int n);
int lua_setiuservalue(lua_State *L, int index, int n);

/* A file of LuaJIT's begins with its FILE, which is NULL once it is closed. */
typedef struct luaL_Stream {
  union {
    FILE *f, *closef;
  };
  uint32_t kind;
} luaL_Stream;

/* {==== Calls */

typedef intptr_t lua_KContext;
typedef int (*lua_KFunction)(lua_State *L, int status, lua_KContext context);

#define lua_callk(L, args, results, context, k)           lua_call(L, args, results)
#define lua_pcallk(L, args, results, handler, context, k) lua_pcall(L, args, results, handler)
/* A function that may wait for others goes on at once. */
static inline int ltide_jit_yieldk(lua_State *L, int results, lua_KContext context, lua_KFunction k) {
  lua_pop(L, results);
  return k(L, LUA_YIELD, context);
}
#define lua_yieldk(L, results, context, k) ltide_jit_yieldk(L, results, context, k)
int ltide_jit_resume(lua_State *co, lua_State *from, int args, int *results);
#define lua_resume(co, from, args, results) ltide_jit_resume(co, from, args, results)
#define lua_resetthread(co)                 lua_settop(co, 0)
#define lua_dump(L, writer, data, strip)    (lua_dump)(L, writer, data)
/* The first upvalue of a chunk is its environment in Lua 5.4. */
const char *ltide_jit_setupvalue(lua_State *L, int index, int n);
#define lua_setupvalue(L, index, n) ltide_jit_setupvalue(L, index, n)

/* Nothing is closed at the end of a function, and nothing when an error passes. */
#define LTIDE_CLOSES          0
#define LTIDE_TABLE_LEN       0
#define LTIDE_YIELDS          0
#define LTIDE_FROM_ZERO       0
#define LTIDE_PROGRAM         "luajit"
#define lua_toclose(L, index) ((void)(L), (void)(index))
void lua_closeslot(lua_State *L, int index); /* calls __close without an error, as if the value went out of scope */

/* {==== The FFI */

#define LTIDE_LUAJIT /* for #ifdef: these bindings are of LuaJIT */
#define LTIDE_FFI    1
bool ltide_jit_push_ffi(lua_State *L); /* tide.ffi, unless the host has withheld the FFI from scripts */
#define ltide_push_ffi(L) ltide_jit_push_ffi(L)
/* Pushes the address as a pointer of that type, which keeps the value at the top, that it takes, alive. */
void ltide_jit_push_pointer(lua_State *L, const char *type, void *at);
#define ltide_push_pointer(L, type, at) ltide_jit_push_pointer(L, type, at)

/* {==== Compiled code: either raises within a finaliser */

void ltide_jit_flush(lua_State *L);                /* what is compiled is compiled again, from what there is then */
void ltide_jit_interpret(lua_State *L, int index); /* the function, and those in it, are compiled no more */

/* {==== The collector and warnings */

#define LUA_GCINC 11 /* LuaJIT's collector is an incremental one always */
/* -1 within a finaliser, as in Lua 5.4. */
int ltide_jit_gc(lua_State *L, int what, int data, ...);
#define lua_gc(...) ltide_jit_gc(__VA_ARGS__, 0, 0)

typedef void (*lua_WarnFunction)(void *user, const char *message, int to_continue);
void lua_setwarnf(lua_State *L, lua_WarnFunction f, void *user);
void lua_warning(lua_State *L, const char *message, int to_continue); /* to stderr, unless a host takes them */

/* {==== What open.c puts into the registry: functions of prelude.lua, the FFI, what makes tide.ffi of it */

extern const char ltide_jit_kind, ltide_jit_parts, ltide_jit_join, ltide_jit_point, ltide_jit_engine, ltide_jit_library;
void ltide_jit_open_warnings(lua_State *L);
