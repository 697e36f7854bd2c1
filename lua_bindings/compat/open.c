/* open.c: the module's entry in LuaJIT: opens the FFI and the prelude, which luajit.c calls by the registry, then tide,
 * then what is LuaJIT's alone. */
#include <luajit.h>

#include "hot.h"
#include "library.h"
#include "call/object.h"
#include "call/script.h"

#undef luaopen_tide
__attribute__((visibility("default"))) int luaopen_tide(lua_State *L);

static const char key_with; /* registry */

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

static int give_ffi(lua_State *L) { return lua_rawgetp(L, LUA_REGISTRYINDEX, &ltide_jit_engine), 1; }

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
  lua_rawsetp(L, LUA_REGISTRYINDEX, &ltide_jit_engine);
  lua_pop(L, 1);
}

/* Once for a state, however often a script loads tide there. */
static void push_ffi(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &ltide_jit_engine) != LUA_TNIL) return;
  lua_pop(L, 1);
  open_ffi(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &ltide_jit_engine);
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
  ltide_make_weak(L, "k");
  lua_call(L, 5, 5);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &ltide_jit_point);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_with);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &ltide_jit_join);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &ltide_jit_parts);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &ltide_jit_kind);
  lua_settop(L, top);
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

/* Compiled code runs no hooks, so that no quota and no kill would end it: what is compiled already goes, too. */
static void forbid_compiling(lua_State *L) {
  ltide_jit_flush(L);
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
}

/* push_library(ffi): tide.ffi. */
static int push_library(lua_State *L) { return ltide_library_push(L), 1; }

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
  ltide_jit_open_warnings(L);
  lua_pushcfunction(L, push_library);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &ltide_jit_library);
  lua_pushcfunction(L, ltide_luaopen);
  lua_call(L, 0, 1);
  lua_newtable(L);
  luaL_setfuncs(L, operators, 0);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_with);
  lua_setfield(L, -2, "__with");
  ltide_script_add(L);
  ltide_library_note(L);
  push_ffi(L);
  ltide_open_hot(L, prelude[1].text, prelude[1].length, prelude[1].name);
  if (ltide_state_of(L)->has_options) forbid_compiling(L);
  return 1;
}
