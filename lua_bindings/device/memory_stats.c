/* memory_stats.c: every counter of the allocators, as tables: flat ones with torch's keys and nested ones.
 *
 * Before the first use of a device its tables are empty. */
#include "tensor/tensor.h"
#include "call/fields.h"
#include "memory.h"

/* {==== Device memory */

static const ltide_field device_fields[] =
    LTIDE_FIELDS(tide_memory_stats, allocation, segment, active, inactive_split, allocated_bytes, reserved_bytes,
                 active_bytes, inactive_split_bytes, requested_bytes, oversize_allocations, oversize_segments,
                 max_split_size, num_alloc_retries, num_ooms, num_sync_all_streams, num_device_alloc, num_device_free);

/* The tag of a row: is the table nested? */
static int lmemory_stats(lua_State *L, ltide_call *c) {
  tide_memory_stats s;
  ltide_try(L, tide_memory_get_stats(&s, ltide_memory_device(L, &c->v[0])));
  lua_createtable(L, 0, c->row->tag ? 20 : 128);
  if (tide_is_initialized()) ltide_set_fields(L, device_fields, &s, c->row->tag);
  return 1;
}

static int lmemory_summary(lua_State *L, ltide_call *c) {
  enum { TOP_LINES = 10 };
  tide_memory_stats s;
  tide_memory_site site[TOP_LINES];
  int device = ltide_memory_device(L, &c->v[0]);
  ltide_try(L, tide_memory_get_stats(&s, device));
  lua_pushinteger(L, device), lua_pushboolean(L, c->v[1].boolean), lua_newtable(L);
  ltide_set_fields(L, device_fields, &s, false);
  ltide_push_sites(L, site, tide_memory_sites(site, TOP_LINES, device));
  return ltide_script_call(L, "device/memory.summary", 4);
}

static int script_bytes_text(lua_State *L) {
  char text[TIDE_BYTES_TEXT];
  return lua_pushstring(L, tide_bytes_text(text, (uint64_t)lua_tointeger(L, 1))), 1;
}

/* {==== Page-locked host memory */

static int lhost_memory_stats(lua_State *L, ltide_call *c) {
  static const ltide_field fields[] =
      LTIDE_FIELDS(tide_host_memory_stats, allocations, allocated_bytes, active_requests, active_bytes, num_host_alloc,
                   num_host_free, host_alloc_time, host_free_time);
  tide_host_memory_stats s;
  tide_memory_pump();
  tide_host_memory_get_stats(&s);
  lua_createtable(L, 0, 32);
  if (tide_is_initialized()) ltide_set_fields(L, fields, &s, c->row->tag);
  return 1;
}

/* {==== tide.cpu: the memory of CPU tensors: what they hold, and what is kept of what they have let go */

/* Finalizers defer releases: without the pump a collected tensor would count until the next allocation. */
static int lallocated(lua_State *L, ltide_call *c) {
  tide_memory_pump();
  return ltide_give_integer(L, (lua_Integer)tide_memory_cpu_allocated());
}

static int lmax_allocated(lua_State *L, ltide_call *c) {
  tide_cpu_memory_stats s;
  tide_cpu_memory_get_stats(&s);
  return ltide_give_integer(L, (lua_Integer)s.peak_bytes);
}

static int lstats(lua_State *L, ltide_call *c) {
  static const ltide_field fields[] =
      LTIDE_FIELDS(tide_cpu_memory_stats, cached_bytes, cached_blocks, num_alloc, num_free, num_cache_hits);
  tide_cpu_memory_stats s;
  tide_memory_pump();
  tide_cpu_memory_get_stats(&s);
  lua_createtable(L, 0, 13);
  ltide_set_integer(L, "allocated_bytes.current", (lua_Integer)s.allocated_bytes);
  ltide_set_integer(L, "allocated_bytes.peak", (lua_Integer)s.peak_bytes);
  ltide_set_fields(L, fields, &s, false);
  return 1;
}

void ltide_open_memory_stats(lua_State *L, ltide_state *S) {
#include <rows/memory_stats.inc>
#include <rows/memory_cpu.inc>
  LTIDE_GIVE(L, "device/memory_stats.c", bytes_text);
  ltide_register_memory(L, memory_stats_rows);
  ltide_register_in(L, "tide.cpu", memory_cpu_rows);
}
