/* memory.c: statistics and control of device memory. */
#include <stdio.h>

#include "bindings.h"

/* The device asked for, after what finalisers let go of has been counted; a device that was never used has zeros. */
static int stats_device(lua_State *L, int arg) {
  tide_memory_pump();
  int device = ltide_check_device(L, arg, "device", LTIDE_NIL_OK);
  if (device == TIDE_CURRENT) device = tide_current_device();
  if (tide_is_initialized() && device >= tide_device_count())
    ltide_error(L, "DeviceError", "device: got cuda:%d, expected an id below %d", device, tide_device_count());
  return device;
}

static tide_memory_stats check_stats(lua_State *L, int arg) {
  ltide_enter(L);
  tide_memory_stats s;
  ltide_try(L, tide_memory_get_stats(&s, stats_device(L, arg)));
  return s;
}

static int push_bytes(lua_State *L, int64_t bytes) {
  lua_pushinteger(L, bytes);
  return 1;
}

static int lmemory_allocated(lua_State *L) {
  ltide_enter(L);
  return push_bytes(L, (int64_t)tide_memory_allocated(stats_device(L, 1)));
}
static int lmemory_reserved(lua_State *L) {
  ltide_enter(L);
  return push_bytes(L, (int64_t)tide_memory_reserved(stats_device(L, 1)));
}
static int lmax_memory_allocated(lua_State *L) {
  return push_bytes(L, check_stats(L, 1).allocated_bytes[TIDE_POOL_ALL].peak);
}
static int lmax_memory_reserved(lua_State *L) {
  return push_bytes(L, check_stats(L, 1).reserved_bytes[TIDE_POOL_ALL].peak);
}

static void set_number(lua_State *L, const char *row, const char *pool, const char *figure, int64_t value) {
  char key[96];
  snprintf(key, sizeof key, "%s.%s.%s", row, pool, figure);
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

static void set_row(lua_State *L, const char *row, const tide_stat stats[TIDE_POOL_COUNT]) {
  static const char *const pools[TIDE_POOL_COUNT] = {"all", "large_pool", "small_pool"};
  for (int p = 0; p < TIDE_POOL_COUNT; p++) {
    set_number(L, row, pools[p], "current", stats[p].current);
    set_number(L, row, pools[p], "peak", stats[p].peak);
    set_number(L, row, pools[p], "allocated", stats[p].allocated);
    set_number(L, row, pools[p], "freed", stats[p].freed);
  }
}

static int lmemory_stats(lua_State *L) {
  tide_memory_stats s = check_stats(L, 1);
  lua_createtable(L, 0, 120);
#define ROW(name) set_row(L, #name, s.name)
  ROW(allocation);
  ROW(segment);
  ROW(active);
  ROW(inactive_split);
  ROW(allocated_bytes);
  ROW(reserved_bytes);
  ROW(active_bytes);
  ROW(inactive_split_bytes);
  ROW(requested_bytes);
#undef ROW
#define COUNT(name) (lua_pushinteger(L, s.name), lua_setfield(L, -2, #name))
  COUNT(num_alloc_retries);
  COUNT(num_ooms);
  COUNT(num_sync_all_streams);
  COUNT(num_device_alloc);
  COUNT(num_device_free);
#undef COUNT
  return 1;
}

static int lmem_get_info(lua_State *L) {
  ltide_enter(L);
  size_t free_bytes, total;
  ltide_try(L, tide_device_mem_info(&free_bytes, &total, stats_device(L, 1)));
  push_bytes(L, (int64_t)free_bytes);
  push_bytes(L, (int64_t)total);
  return 2;
}

static int lempty_cache(lua_State *L) {
  static const char *const keys[] = {"collect", NULL};
  ltide_enter(L);
  bool collect = true;
  if (!lua_isnoneornil(L, 1)) {
    if (!lua_istable(L, 1)) return ltide_arg_error(L, 1, "opts", "a table {collect = boolean}");
    ltide_check_keys(L, 1, keys);
    if (lua_getfield(L, 1, "collect") != LUA_TNIL) collect = lua_toboolean(L, -1);
  }
  if (!tide_is_initialized()) return 0;
  if (collect) lua_gc(L, LUA_GCCOLLECT);
  ltide_try(L, tide_memory_empty_cache(TIDE_CURRENT));
  return 0;
}

static int lreset_peak(lua_State *L) {
  ltide_enter(L);
  ltide_try(L, tide_memory_reset_peak(stats_device(L, 1)));
  return 0;
}

static int lreset_accumulated(lua_State *L) {
  ltide_enter(L);
  ltide_try(L, tide_memory_reset_accumulated(stats_device(L, 1)));
  return 0;
}

static int lset_fraction(lua_State *L) {
  ltide_enter(L);
  if (lua_type(L, 1) != LUA_TNUMBER) return ltide_arg_error(L, 1, "fraction", "a number from 0 to 1");
  ltide_try(L, tide_memory_set_fraction(lua_tonumber(L, 1), stats_device(L, 2)));
  return 0;
}

static int lget_fraction(lua_State *L) {
  ltide_enter(L);
  lua_pushnumber(L, tide_memory_get_fraction(stats_device(L, 1)));
  return 1;
}

void ltide_open_memory(lua_State *L, ltide_state *S) {
  (void)S;
  static const ltide_reg list[] = {
      {"memory_allocated", lmemory_allocated, "tide.cuda.memory_allocated([dev]) -> bytes\nHeld by tensors now."},
      {"max_memory_allocated", lmax_memory_allocated,
       "tide.cuda.max_memory_allocated([dev]) -> bytes\nThe peak since the start or reset_peak_memory_stats."},
      {"memory_reserved", lmemory_reserved,
       "tide.cuda.memory_reserved([dev]) -> bytes\nHeld from the driver: tensors and cache."},
      {"max_memory_reserved", lmax_memory_reserved, "tide.cuda.max_memory_reserved([dev]) -> bytes"},
      {"memory_stats", lmemory_stats,
       "tide.cuda.memory_stats([dev]) -> table\nEvery counter of the allocator, by flat keys: "
       "'allocated_bytes.all.current', 'segment.large_pool.peak', num_ooms, ..."},
      {"mem_get_info", lmem_get_info,
       "tide.cuda.mem_get_info([dev]) -> free, total\nBytes of the device, for all processes."},
      {"empty_cache", lempty_cache,
       "tide.cuda.empty_cache([{collect = true}])\nGives unused cached memory back to the driver. Collects garbage "
       "first: dead tensors hold memory."},
      {"reset_peak_memory_stats", lreset_peak,
       "tide.cuda.reset_peak_memory_stats([dev])\nEvery peak starts again from the present value."},
      {"reset_accumulated_memory_stats", lreset_accumulated,
       "tide.cuda.reset_accumulated_memory_stats([dev])\nSets every 'allocated' and 'freed' counter to 0."},
      {"set_per_process_memory_fraction", lset_fraction,
       "tide.cuda.set_per_process_memory_fraction(fraction [, dev])\nAllocations beyond this share (0 to 1) of the "
       "device's memory fail."},
      {"get_per_process_memory_fraction", lget_fraction, "tide.cuda.get_per_process_memory_fraction([dev]) -> number"},
      {0}};
  lua_getfield(L, -1, "cuda");
  ltide_register(L, "tide.cuda", list);
  lua_pop(L, 1);
}
