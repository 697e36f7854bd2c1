/* memory.c: the figures of device memory that programs ask for all the time, and its control.
 *
 * Whatever is in tide.cuda about memory is in tide.cuda.memory as well. A figure is asked for without a driver call and
 * without opening anything: a device that was never used has zeros. What finalisers have let go of is released first,
 * so a figure tells what is held. */
#include <stdio.h>

#include "row.h"
#include "memory.h"

int ltide_memory_device(lua_State *L, int arg) {
  ltide_no_options(L, arg);
  tide_memory_pump();
  if (lua_isnoneornil(L, arg)) return tide_current_device();
  int device = ltide_check_device(L, arg, "device", LTIDE_NIL_OK);
  if (device == TIDE_CURRENT) device = tide_current_device();
  if (tide_is_initialized() && device >= tide_device_count())
    ltide_error(L, "DeviceError", "%s: device: no such device, got cuda:%d, expected a number from 0 to %d",
                ltide_function_name(L), device, tide_device_count() - 1);
  return device;
}

void ltide_register_memory_only(lua_State *L, ltide_row *rows) {
  luaL_getsubtable(L, -1, "memory");
  ltide_register_rows(L, "tide.cuda.memory", rows);
  lua_pop(L, 1);
}

void ltide_register_memory(lua_State *L, ltide_row *rows) {
  ltide_register_rows(L, "tide.cuda", rows);
  ltide_register_also(L, "memory", rows);
}

void ltide_deprecated(lua_State *L, const char *old, const char *now) {
  static const char key;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key) == LUA_TNIL) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
    lua_replace(L, -2);
  }
  bool warned = lua_getfield(L, -1, old) != LUA_TNIL;
  lua_pushboolean(L, 1);
  lua_setfield(L, -3, old);
  lua_pop(L, 2);
  if (!warned) ltide_warn(L, "tide.cuda.%s is an old name: use tide.cuda.%s", old, now);
}

/* {==== Figures */

static int push_bytes(lua_State *L, int64_t bytes) {
  lua_pushinteger(L, bytes);
  return 1;
}

static tide_memory_stats check_stats(lua_State *L, int arg) {
  ltide_begin(L);
  tide_memory_stats s;
  ltide_try(L, tide_memory_get_stats(&s, ltide_memory_device(L, arg)));
  return s;
}

static int lmemory_allocated(lua_State *L) {
  ltide_begin(L);
  return push_bytes(L, (int64_t)tide_memory_allocated(ltide_memory_device(L, 1)));
}
static int lmemory_reserved(lua_State *L) {
  ltide_begin(L);
  return push_bytes(L, (int64_t)tide_memory_reserved(ltide_memory_device(L, 1)));
}
static int lmax_memory_allocated(lua_State *L) {
  return push_bytes(L, check_stats(L, 1).allocated_bytes[TIDE_POOL_ALL].peak);
}
static int lmax_memory_reserved(lua_State *L) {
  return push_bytes(L, check_stats(L, 1).reserved_bytes[TIDE_POOL_ALL].peak);
}
static int lmemory_cached(lua_State *L) {
  ltide_deprecated(L, "memory_cached", "memory_reserved");
  return lmemory_reserved(L);
}
static int lmax_memory_cached(lua_State *L) {
  ltide_deprecated(L, "max_memory_cached", "max_memory_reserved");
  return lmax_memory_reserved(L);
}

static int lmem_get_info(lua_State *L) {
  ltide_enter(L);
  size_t free_bytes, total;
  ltide_try(L, tide_device_mem_info(&free_bytes, &total, ltide_memory_device(L, 1)));
  push_bytes(L, (int64_t)free_bytes);
  push_bytes(L, (int64_t)total);
  return 2;
}

/* {==== Control */

static int lempty_cache(lua_State *L) {
  static const char *const keys[] = {"collect", NULL};
  bool collect = true;
  if (!lua_isnoneornil(L, 1)) {
    if (!lua_istable(L, 1)) return ltide_arg_error(L, 1, "opts", "a table {collect = boolean}");
    ltide_check_keys(L, 1, keys);
    collect = ltide_opt_boolean(L, 1, "collect", true);
  }
  if (!tide_is_initialized()) return 0;
  if (collect) lua_gc(L, LUA_GCCOLLECT); /* asked for, so also where the collector is stopped */
  ltide_enter_again(L);
  ltide_try(L, tide_memory_empty_cache(TIDE_CURRENT));
  return 0;
}

static int lreset_peak(lua_State *L) {
  ltide_enter(L);
  ltide_try(L, tide_memory_reset_peak(ltide_memory_device(L, 1)));
  return 0;
}

static int lreset_accumulated(lua_State *L) {
  ltide_enter(L);
  ltide_try(L, tide_memory_reset_accumulated(ltide_memory_device(L, 1)));
  return 0;
}

static int lreset_max_allocated(lua_State *L) {
  ltide_deprecated(L, "reset_max_memory_allocated", "reset_peak_memory_stats, which resets every peak");
  return lreset_peak(L);
}

static int lreset_max_cached(lua_State *L) {
  ltide_deprecated(L, "reset_max_memory_cached", "reset_peak_memory_stats, which resets every peak");
  return lreset_peak(L);
}

static int lset_fraction(lua_State *L) {
  ltide_enter(L);
  if (lua_type(L, 1) != LUA_TNUMBER) return ltide_arg_error(L, 1, "fraction", "a number from 0 to 1");
  ltide_try(L, tide_memory_set_fraction(lua_tonumber(L, 1), ltide_memory_device(L, 2)));
  return 0;
}

static int lget_fraction(lua_State *L) {
  ltide_enter(L);
  lua_pushnumber(L, tide_memory_get_fraction(ltide_memory_device(L, 1)));
  return 1;
}

void ltide_open_memory(lua_State *L, ltide_state *S) {
  (void)S;
#define PATH "tide.cuda."
  static ltide_row rows[] = {
#include "api/memory.def"
      {0}};
  lua_getfield(L, -1, "cuda");
  ltide_register_memory(L, rows);
  ltide_open_memory_stats(L);
  ltide_open_memory_summary(L);
  ltide_open_memory_scope(L);
  ltide_open_memory_history(L);
  ltide_open_allocator(L);
  lua_pop(L, 1);
  ltide_open_memory_cpu(L);
}
