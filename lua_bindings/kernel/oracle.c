/* oracle.c: what kernels that are written in Lua can call, for plain Lua: random numbers by counter, atomic
 * operations, the words of a block; and tide.kernel.interpret, which runs a kernel's function in plain Lua.
 *
 * Random numbers are those of core's base/mathematics/kernel_numbers.h, as in kernels (kernel/prelude.lua), to the bit
 * where the C library is the same. The words of a block (barrier, shared, sums) have a meaning only where
 * kernel/interpret.lua runs the threads of one as coroutines: they ask it whether it does, and yield to it what
 * they want. It gives the result when it resumes.
 *
 * Invariant: a word of a block that may not run here raises before anything is changed. */
#include <math.h>

#include <kernel_numbers.h>

#include "call/each.h"
#include "call/did_you_mean.h"
#include "kernel.h"

/* {==== Philox 4x32-10, as kernels have it */

/* Of the seed at 1 and the counters from `first` on. */
static tide_philox draw(lua_State *L, int first) {
  int n = lua_gettop(L);
  int64_t seed = ltide_check_integer(L, 1, "seed"), i = ltide_check_integer(L, first, "i");
  tide_philox c = tk_draw(seed, i, n > first ? ltide_check_integer(L, first + 1, "j") : 0);
  for (int k = first + 2; k <= n; k++) c = tk_more(c, seed, ltide_check_integer(L, k, "a counter"));
  return c;
}

/* Does interpret run a kernel that computes in float32? */
static const char key_single;
static bool is_single(lua_State *L) {
  bool single = lua_rawgetp(L, LUA_REGISTRYINDEX, &key_single) == LUA_TBOOLEAN;
  lua_pop(L, 1);
  return single;
}

static int luniform(lua_State *L) {
  ltide_enter(L);
  tide_philox c = draw(L, 2);
  lua_pushnumber(L, is_single(L) ? (double)tk_uniform_f32(c) : tk_uniform_f64(c));
  return 1;
}

static int lnormal(lua_State *L) {
  ltide_enter(L);
  tide_philox c = draw(L, 2);
  lua_pushnumber(L, is_single(L) ? (double)tk_normal_f32(c) : tk_normal_f64(c));
  return 1;
}

static int linteger(lua_State *L) {
  ltide_enter(L);
  int64_t low = ltide_check_integer(L, 2, "low"), high = ltide_check_integer(L, 3, "high");
  return ltide_give_integer(L, tk_integer(draw(L, 4), low, high));
}

/* {==== Blocks and atomics: kernel/words.lua */

/* The chunk raises, or says true: the word is to be yielded to it; else it gives the results. */
static int lblock_word(lua_State *L) {
  const ltide_row *row = lua_touserdata(L, lua_upvalueindex(1));
  int n = lua_gettop(L);
  ltide_enter(L);
  luaL_checkstack(L, n + 4, row->name);
  lua_pushstring(L, row->name);
  lua_insert(L, 1);
  ltide_script_push(L, "kernel/words.block_word");
  for (int i = 1; i <= n + 1; i++) lua_pushvalue(L, i);
  lua_call(L, n + 1, LUA_MULTRET);
  ltide_enter(L);
  if (lua_gettop(L) == n + 2 && lua_isboolean(L, -1)) return lua_settop(L, n + 1), lua_yield(L, n + 1);
  return lua_gettop(L) - n - 1;
}

static int latomic(lua_State *L) {
  const ltide_row *row = lua_touserdata(L, lua_upvalueindex(1));
  ltide_enter(L);
  lua_pushstring(L, row->name);
  lua_insert(L, 1);
  return ltide_script_call(L, "kernel/words.atomic", lua_gettop(L));
}

static int linterpret(lua_State *L) {
  ltide_enter(L);
  ltide_test_object(L, 1, LTIDE_LUA_KERNEL_META) ? (void)lua_getiuservalue(L, 1, 1) : lua_pushnil(L);
  lua_insert(L, 1);
  return ltide_script_call(L, "kernel/interpret.run", lua_gettop(L));
}

static int lfunc(lua_State *L) {
  ltide_enter(L);
  if (lua_gettop(L) > 1) return ltide_error(L, "ArgumentError", "func: got %d arguments, expected one", lua_gettop(L));
  return ltide_script_call(L, "kernel/kernel.func", lua_gettop(L));
}

/* {==== What the chunks cannot do themselves */

/* single(is): do random numbers come in float32? */
static int script_single(lua_State *L) {
  lua_toboolean(L, 1) ? lua_pushboolean(L, 1) : lua_pushnil(L);
  return lua_rawsetp(L, LUA_REGISTRYINDEX, &key_single), 0;
}

static uint32_t float_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static float from_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* Rounded to the nearest that the mantissa of so many bits holds, ties to even; unlimited upwards. */
static float keep_bits(float x, int bits) {
  uint32_t u = float_bits(x), cut = 23u - (uint32_t)bits, half = (1u << (cut - 1)) - 1 + ((u >> cut) & 1u);
  return isfinite(x) ? from_bits((u + half) >> cut << cut) : x;
}

static float as_half(float x) {
  float size = fabsf(x);
  if (!(size < 65520.0f)) return isnan(x) ? x : copysignf(INFINITY, x);
  if (size < 0x1p-14f) return copysignf(rintf(size * 0x1p24f) * 0x1p-24f, x); /* equal steps */
  return keep_bits(x, 10);
}

static int push_stored(lua_State *L, tide_dtype dtype, bool is_integer, int64_t i, double x) {
  float narrow = is_integer ? (float)i : (float)x;
  int64_t whole = is_integer ? i : tk_whole_f64(x);
  switch (dtype) {
  case TIDE_BOOL: return lua_pushboolean(L, is_integer ? i != 0 : x != 0), 1;
  case TIDE_UINT8: return ltide_give_integer(L, (uint8_t)whole);
  case TIDE_INT8: return ltide_give_integer(L, (int8_t)whole);
  case TIDE_INT16: return ltide_give_integer(L, (int16_t)whole);
  case TIDE_INT32: return ltide_give_integer(L, (int32_t)whole);
  case TIDE_INT64: return ltide_give_integer(L, whole);
  case TIDE_FLOAT16: return lua_pushnumber(L, (double)as_half(narrow)), 1;
  case TIDE_BFLOAT16: return lua_pushnumber(L, (double)keep_bits(narrow, 7)), 1;
  case TIDE_FLOAT32: return lua_pushnumber(L, (double)narrow), 1;
  default: return lua_pushnumber(L, is_integer ? (double)i : x), 1;
  }
}

/* stored(dtype, value): what is read again where the number or boolean has been stored; nil: it is neither. */
static int script_stored(lua_State *L) {
  tide_dtype dtype = ltide_check_dtype(L, 1, "dtype");
  if (lua_isboolean(L, 2)) return push_stored(L, dtype, true, lua_toboolean(L, 2), 0);
  bool is_integer = lua_isinteger(L, 2);
  if (!is_integer && lua_type(L, 2) != LUA_TNUMBER) return 0;
  return push_stored(L, dtype, is_integer, is_integer ? (int64_t)lua_tointeger(L, 2) : 0,
                     is_integer ? 0 : lua_tonumber(L, 2));
}

/* wrapped(sign, a, b): of integers, without a bound. */
static int script_wrapped(lua_State *L) {
  uint64_t a = (uint64_t)lua_tointeger(L, 2), b = (uint64_t)lua_tointeger(L, 3);
  switch (*lua_tostring(L, 1)) {
  case '+': a += b; break;
  case '-': a -= b; break;
  case '&': a &= b; break;
  case '|': a |= b; break;
  default: a ^= b;
  }
  return ltide_give_integer(L, (lua_Integer)a);
}

/* kernel_thread(fn): a coroutine that will call it. */
static int script_kernel_thread(lua_State *L) {
  lua_State *co = lua_newthread(L);
  ltide_enter(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  return 1;
}

/* set_upvalue(f, i, value) */
static int script_set_upvalue(lua_State *L) { return lua_setupvalue(L, 1, (int)lua_tointeger(L, 2)), 0; }
/* is_lua(f): is it a function of a script? */
static int script_is_lua(lua_State *L) {
  lua_Debug ar = {0};
  bool is = lua_isfunction(L, 1) && !lua_iscfunction(L, 1);
  if (is) lua_pushvalue(L, 1), lua_getinfo(L, ">S", &ar);
  return ltide_give_boolean(L, is && !ltide_script_is(&ar));
}
/* parameter(f, n): its name, or nothing. */
static int script_parameter(lua_State *L) {
  int n = (int)lua_tointeger(L, 2);
  lua_settop(L, 1);
  return lua_pushstring(L, lua_getlocal(L, NULL, n)), 1;
}
/* What a text sees as globals: tide, and a copy of the library math, since the script may have less than the state. */
static void push_text_globals(lua_State *L) {
  lua_createtable(L, 0, 2);
  ltide_push_module(L);
  lua_setfield(L, -2, "tide");
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_MATHLIBNAME) == LUA_TTABLE) {
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, -3);) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, -4);
    }
    lua_setfield(L, -4, "math");
  }
  lua_pop(L, 2);
}

/* function_of(text): the function whose text it is, or that the chunk returns. Its chunk is named by the text that was
 * loaded, where a kernel that calls the function finds it. */
static int script_function_of(lua_State *L) {
  lua_settop(L, 1);
  lua_pushliteral(L, "return ");
  lua_pushvalue(L, 1);
  lua_concat(L, 2);
  if (luaL_loadbufferx(L, lua_tostring(L, 2), lua_rawlen(L, 2), lua_tostring(L, 2), "t") != LUA_OK) {
    lua_pop(L, 1);
    if (luaL_loadbufferx(L, lua_tostring(L, 1), lua_rawlen(L, 1), lua_tostring(L, 1), "t") != LUA_OK)
      return ltide_error(L, "ArgumentError", "interpret: fn: got a text that is no Lua: %s", lua_tostring(L, -1));
  }
  push_text_globals(L);
  lua_setupvalue(L, -2, 1);
  lua_call(L, 0, 1);
  return 1;
}

/* {==== Opening */

#define BLOCK_WORD .fn = lblock_word
#define ATOMIC     .fn = latomic
#include <rows/words_tide.inc>
#include <rows/words_random.inc>
#include <rows/words_atomic.inc>
#include <rows/words_kernel.inc>

void ltide_open_kernel_words(lua_State *L, ltide_state *S) {
  ltide_register_rows(L, "tide", words_tide_rows);
  ltide_register_in(L, "tide.random", words_random_rows);
  ltide_register_in(L, "tide.atomic", words_atomic_rows);
  ltide_register_in(L, "tide.kernel", words_kernel_rows);
  LTIDE_GIVE(L, "kernel/oracle.c", single, stored, wrapped, kernel_thread, set_upvalue, is_lua, parameter, function_of);
}
