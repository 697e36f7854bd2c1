/* memory_cpu.c: tide.cpu, the memory of CPU tensors: what they hold, and what is kept of what they have let go. */
#include "row.h"
#include "memory.h"
#include "tide/memory.h"

static int lallocated(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)tide_memory_cpu_allocated());
  return 1;
}

static int lmax_allocated(lua_State *L) {
  tide_cpu_memory_stats s;
  tide_cpu_memory_get_stats(&s);
  lua_pushinteger(L, (lua_Integer)s.peak_bytes);
  return 1;
}

static int lstats(lua_State *L) {
  tide_cpu_memory_stats s;
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
  (void)L;
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
#define PATH "tide.cpu."
  static ltide_row rows[] = {
#include "api/memory_cpu.def"
      {0}};
  lua_newtable(L);
  ltide_register_rows(L, "tide.cpu", rows);
  lua_setfield(L, -2, "cpu");
}
