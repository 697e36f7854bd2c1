/* memory_cpu.c: tide.cpu, the memory of CPU tensors: what they hold, and what is kept of what they have let go. */
#include "memory.h"
#include "tide/memory.h"

static int lallocated(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 0);
  lua_pushinteger(L, (lua_Integer)tide_memory_cpu_allocated());
  return 1;
}

static int lmax_allocated(lua_State *L) {
  tide_cpu_memory_stats s;
  ltide_enter(L);
  ltide_no_options(L, 0);
  tide_cpu_memory_get_stats(&s);
  lua_pushinteger(L, (lua_Integer)s.peak_bytes);
  return 1;
}

static int lstats(lua_State *L) {
  tide_cpu_memory_stats s;
  ltide_enter(L);
  ltide_no_options(L, 0);
  tide_cpu_memory_get_stats(&s);
  lua_createtable(L, 0, 13);
  ltide_set_integer(L, "allocated_bytes.current", (lua_Integer)s.allocated_bytes);
  ltide_set_integer(L, "allocated_bytes.peak", (lua_Integer)s.peak_bytes);
#define STAT(name)                                                                                                     \
  ltide_set_integer(L, #name ".current", s.name.current), ltide_set_integer(L, #name ".peak", s.name.peak),            \
      ltide_set_integer(L, #name ".allocated", s.name.allocated), ltide_set_integer(L, #name ".freed", s.name.freed)
  STAT(cached_bytes);
  STAT(cached_blocks);
#undef STAT
  ltide_set_integer(L, "num_alloc", s.num_alloc);
  ltide_set_integer(L, "num_free", s.num_free);
  ltide_set_integer(L, "num_cache_hits", s.num_cache_hits);
  return 1;
}

static int lreset_peak(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 0);
  tide_cpu_memory_reset_peak();
  return 0;
}

static int lempty_cache(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 0);
  tide_cpu_memory_empty_cache();
  return 0;
}

void ltide_open_memory_cpu(lua_State *L) {
  static const ltide_reg list[] = {
      {"memory_allocated", lallocated, "tide.cpu.memory_allocated() -> bytes\nHeld by CPU tensors now, of all states."},
      {"max_memory_allocated", lmax_allocated,
       "tide.cpu.max_memory_allocated() -> bytes\nThe peak since the start or reset_peak_memory_stats."},
      {"memory_stats", lstats,
       "tide.cpu.memory_stats() -> table\nCounters of the memory of CPU tensors by flat keys: allocated_bytes with "
       ".current and .peak; cached_bytes and cached_blocks, which are kept for the next tensors of about that size, "
       "with .current, .peak, .allocated and .freed; num_alloc and num_free, calls of the system's functions or the "
       "host's; num_cache_hits. Kept are pieces of more than 64 KiB: at most 256 MiB, or a quarter of what tensors "
       "hold, or the piece that came last where tensors hold as much again. What nobody has asked for in two seconds "
       "is given back at the next call that allocates, waits or asks."},
      {"reset_peak_memory_stats", lreset_peak,
       "tide.cpu.reset_peak_memory_stats()\nEvery peak starts again from the present value."},
      {"empty_cache", lempty_cache, "tide.cpu.empty_cache()\nGives back the memory that is kept and not in use."},
      {0}};
  lua_newtable(L);
  ltide_register(L, "tide.cpu", list);
  lua_setfield(L, -2, "cpu");
}
