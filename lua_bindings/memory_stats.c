/* memory_stats.c: every counter of the allocators, as tables: flat ones with torch's keys and nested ones.
 *
 * Both forms are made by one walk over the rows; a sink sets a figure under its path. Before the first use of a device
 * the tables are empty. */
#include <stdio.h>
#include <string.h>

#include "row.h"
#include "memory.h"
#include "tide/memory.h"

/* {==== Sinks: the table is at the top of the stack */

typedef struct sink {
  lua_State *L;
  bool nested;
} sink;

/* Sets "a.b.c" as one key, or as key c of table b of table a. */
static void set_figure(const sink *to, const char *path, int64_t value) {
  lua_State *L = to->L;
  int top = lua_gettop(L);
  const char *dot;
  while (to->nested && (dot = strchr(path, '.'))) {
    lua_pushlstring(L, path, (size_t)(dot - path));
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) != LUA_TTABLE) {
      lua_pop(L, 1);
      lua_newtable(L);
      lua_pushvalue(L, -2);
      lua_pushvalue(L, -2);
      lua_rawset(L, -5);
    }
    lua_remove(L, -2);
    path = dot + 1;
  }
  lua_pushinteger(L, value);
  lua_setfield(L, -2, path);
  lua_settop(L, top);
}

static void set_stat(const sink *to, const char *name, const tide_stat *s) {
  char path[96];
  const int64_t figures[] = {s->current, s->peak, s->allocated, s->freed};
  static const char *const names[] = {"current", "peak", "allocated", "freed"};
  for (int i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "%s.%s", name, names[i]);
    set_figure(to, path, figures[i]);
  }
}

/* {==== Device memory */

static void set_row(const sink *to, const char *row, const tide_stat stats[TIDE_POOL_COUNT]) {
  static const char *const pools[TIDE_POOL_COUNT] = {"all", "large_pool", "small_pool"};
  for (int p = 0; p < TIDE_POOL_COUNT; p++) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", row, pools[p]);
    set_stat(to, name, &stats[p]);
  }
}

static int push_stats(lua_State *L, bool nested) {
  ltide_begin(L);
  int device = ltide_memory_device(L, 1);
  tide_memory_stats s;
  ltide_try(L, tide_memory_get_stats(&s, device));
  lua_createtable(L, 0, nested ? 20 : 128);
  if (!tide_is_initialized()) return 1;
  sink to = {L, nested};
#define ROW(name) set_row(&to, #name, s.name)
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
  set_stat(&to, "oversize_allocations", &s.oversize_allocations);
  set_stat(&to, "oversize_segments", &s.oversize_segments);
#define COUNT(name) set_figure(&to, #name, s.name)
  COUNT(max_split_size);
  COUNT(num_alloc_retries);
  COUNT(num_ooms);
  COUNT(num_sync_all_streams);
  COUNT(num_device_alloc);
  COUNT(num_device_free);
  COUNT(max_split_size);
#undef COUNT
  return 1;
}

static int lmemory_stats(lua_State *L) { return push_stats(L, false); }
static int lmemory_stats_nested(lua_State *L) { return push_stats(L, true); }

/* {==== Page-locked host memory */

static void set_duration(const sink *to, const char *name, const tide_duration_stat *s) {
  const int64_t figures[] = {s->total, s->max, s->min, s->count, s->count ? s->total / s->count : 0};
  static const char *const names[] = {"total", "max", "min", "count", "avg"};
  for (int i = 0; i < 5; i++) {
    char path[64];
    snprintf(path, sizeof path, "%s.%s", name, names[i]);
    set_figure(to, path, figures[i]);
  }
}

static int push_host_stats(lua_State *L, bool nested) {
  ltide_enter(L);
  tide_memory_pump();
  tide_host_memory_stats s;
  tide_host_memory_get_stats(&s);
  lua_createtable(L, 0, 32);
  if (!tide_is_initialized()) return 1;
  sink to = {L, nested};
  set_stat(&to, "allocations", &s.allocations);
  set_stat(&to, "allocated_bytes", &s.allocated_bytes);
  set_stat(&to, "active_requests", &s.active_requests);
  set_stat(&to, "active_bytes", &s.active_bytes);
  set_figure(&to, "num_host_alloc", s.num_host_alloc);
  set_figure(&to, "num_host_free", s.num_host_free);
  set_duration(&to, "host_alloc_time", &s.host_alloc_time);
  set_duration(&to, "host_free_time", &s.host_free_time);
  return 1;
}

static int lhost_memory_stats(lua_State *L) { return push_host_stats(L, false); }
static int lhost_memory_stats_nested(lua_State *L) { return push_host_stats(L, true); }

static int lreset_peak_host(lua_State *L) {
  (void)L;
  tide_host_memory_reset_peak();
  return 0;
}

static int lreset_accumulated_host(lua_State *L) {
  (void)L;
  tide_host_memory_reset_accumulated();
  return 0;
}

void ltide_open_memory_stats(lua_State *L) {
#define PATH "tide.cuda."
  static ltide_row rows[] = {
#include "api/memory_stats.def"
      {0}};
  ltide_register_memory(L, rows);
}
