/* memory_summary.c: the counters of a device as a table that a person reads.
 *
 * One line for each figure with what it is now, its peak and its sums; below it, unless abbreviated, the parts of the
 * large and of the small pool. The lines of the script that hold most stand at the end. The text is made in a Lua
 * buffer, so an error loses nothing. */
#include <stdarg.h>
#include <stdio.h>

#include "row.h"
#include "memory.h"
#include "tide/memory.h"

enum { TOP_LINES = 10 };

static void add(luaL_Buffer *b, const char *format, ...) {
  char line[256];
  va_list list;
  va_start(list, format);
  int n = vsnprintf(line, sizeof line, format, list);
  va_end(list);
  if (n > 0) luaL_addlstring(b, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static const char *count_text(char out[32], int64_t n) {
  snprintf(out, 32, "%lld", (long long)n);
  return out;
}

static const char *bytes_text(char out[32], int64_t n) { return tide_bytes_text(out, (uint64_t)n); }

static void add_line(luaL_Buffer *b, const char *name, const tide_stat *s, bool bytes) {
  const char *(*text)(char *, int64_t) = bytes ? bytes_text : count_text;
  char c[32], p[32], a[32], f[32];
  add(b, "| %-22s | %11s | %11s | %11s | %11s |\n", name, text(c, s->current), text(p, s->peak), text(a, s->allocated),
      text(f, s->freed));
}

static const char rule[] = "+------------------------+-------------+-------------+-------------+-------------+\n";

static void add_row(luaL_Buffer *b, const char *name, const tide_stat rows[TIDE_POOL_COUNT], bool bytes, bool brief) {
  add_line(b, name, &rows[TIDE_POOL_ALL], bytes);
  if (brief) return;
  add_line(b, "    of large blocks", &rows[TIDE_POOL_LARGE], bytes);
  add_line(b, "    of small blocks", &rows[TIDE_POOL_SMALL], bytes);
}

static void add_rows(luaL_Buffer *b, const tide_memory_stats *s, bool brief) {
  static const char *const titles[] = {"", "now", "peak", "allocated", "freed"};
  luaL_addstring(b, rule);
  add(b, "| %-22s | %11s | %11s | %11s | %11s |\n", titles[0], titles[1], titles[2], titles[3], titles[4]);
  luaL_addstring(b, rule);
  add_row(b, "allocated memory", s->allocated_bytes, true, brief);
  add_row(b, "active memory", s->active_bytes, true, brief);
  add_row(b, "requested memory", s->requested_bytes, true, brief);
  add_row(b, "reserved memory", s->reserved_bytes, true, brief);
  add_row(b, "non-releasable memory", s->inactive_split_bytes, true, brief);
  luaL_addstring(b, rule);
  add_row(b, "allocations", s->allocation, false, brief);
  add_row(b, "active blocks", s->active, false, brief);
  add_row(b, "segments", s->segment, false, brief);
  add_row(b, "non-releasable blocks", s->inactive_split, false, brief);
  add_line(b, "oversize allocations", &s->oversize_allocations, false);
  add_line(b, "oversize segments", &s->oversize_segments, false);
  luaL_addstring(b, rule);
}

static void add_sites(luaL_Buffer *b, int device) {
  tide_memory_site site[TOP_LINES];
  int n = tide_memory_sites(site, TOP_LINES, device);
  if (n) luaL_addstring(b, "held most by\n");
  for (int i = 0; i < n; i++) {
    char bytes[32], line[160];
    if (!tide_site_describe(site[i].site, line, sizeof line)) snprintf(line, sizeof line, "(no script line)");
    add(b, "  %11s in %lld block%s  %s\n", tide_bytes_text(bytes, site[i].bytes), (long long)site[i].blocks,
        site[i].blocks == 1 ? "" : "s", line);
  }
}

static int lmemory_summary(lua_State *L) {
  static const char *const keys[] = {"abbreviated", NULL};
  ltide_enter(L);
  ltide_args a = ltide_split(L, 0);
  ltide_check_count(L, a, 1);
  ltide_check_keys(L, a.opts, keys);
  bool brief = ltide_opt_boolean(L, a.opts, "abbreviated", false);
  if (a.opts) lua_settop(L, a.n);
  int device = ltide_memory_device(L, 1);
  tide_memory_stats s;
  ltide_try(L, tide_memory_get_stats(&s, device));
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  add(&b, "memory of cuda:%d: %lld out-of-memory error%s, %lld retried allocation%s\n", device, (long long)s.num_ooms,
      s.num_ooms == 1 ? "" : "s", (long long)s.num_alloc_retries, s.num_alloc_retries == 1 ? "" : "s");
  add(&b, "driver: %lld allocations, %lld releases, %lld waits for the device\n", (long long)s.num_device_alloc,
      (long long)s.num_device_free, (long long)s.num_sync_all_streams);
  add_rows(&b, &s, brief);
  add_sites(&b, device);
  luaL_pushresult(&b);
  return 1;
}

void ltide_open_memory_summary(lua_State *L) {
#define PATH "tide.cuda."
  static ltide_row rows[] = {
#include "api/memory_summary.def"
      {0}};
  ltide_register_memory(L, rows);
}
