/* memory_history.c: the memory history, and snapshots as tables and as JSON.
 *
 * Core makes the copy; here it becomes tables. Lines and stacks repeat, so the table of frames of a line is made once
 * for a snapshot and shared by all the blocks and events that came from it. The copy is held by a userdata, so an error
 * loses nothing; the collector rests while tens of thousands of tables are made. */
#include <stdio.h>
#include <string.h>

#include "row.h"
#include "memory.h"
#include "mempool.h"
#include "script.h"

#define SNAPSHOT_META "tide.memory.snapshot"

/* {==== The whole stack of an event */

/* Runs on whatever thread allocates; the text has a line for each level, "file.lua:12 in name". */
static size_t stack_text(void *user, char *text, size_t size) {
  (void)user;
  enum { LEVELS = 24 };
  lua_State *L = ltide_last_epoch == atomic_load(&ltide_epoch) ? ltide_last : NULL; /* else it may be gone */
  lua_Debug ar;
  size_t at = 0;
  for (int level = 1; L && level <= LEVELS && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sln", &ar);
    if (ar.currentline <= 0 || ltide_script_is(&ar)) continue;
    const char *source = *ar.source == '@' ? ar.source + 1 : ar.short_src;
    int n = snprintf(text + at, size - at, "%s%s:%d in %s", at ? "\n" : "", source, ar.currentline,
                     ar.name           ? ar.name
                     : *ar.what == 'm' ? "main chunk"
                                       : "?");
    if (n < 0 || (size_t)n >= size - at) break;
    at += (size_t)n;
  }
  return at;
}

/* {==== record_history */

static uint32_t check_skip(lua_State *L, int opts) {
  uint32_t skip = 0;
  if (!opts || ltide_rawfield(L, opts, "skip_actions") == LUA_TNIL) return 0;
  if (!lua_istable(L, -1)) ltide_arg_error(L, -1, "skip_actions", "a table of names of actions");
  int list = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, list);) {
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    int k = 0;
    while (k < TIDE_MEMORY_ACTIONS && strcmp(name, tide_memory_action_name((tide_memory_action)k))) k++;
    if (k == TIDE_MEMORY_ACTIONS)
      ltide_error(L, "ValueError",
                  "record_history: unknown action in skip_actions, got %s, expected alloc, "
                  "free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap or oom",
                  ltide_typename(L, -1));
    skip |= 1u << k;
    lua_pop(L, 1);
  }
  return skip;
}

static int lrecord_history(lua_State *L) {
  static const char *const keys[] = {"max_entries", "stacks", "skip_actions", NULL};
  ltide_enter(L);
  ltide_args a = ltide_split(L, 0);
  ltide_check_count(L, a, 1);
  ltide_check_keys(L, a.opts, keys);
  if (a.n == 1 && !lua_isboolean(L, 1)) return ltide_arg_error(L, 1, "enabled", "true or false");
  tide_history_config config = {.struct_size = sizeof config};
  double most = ltide_opt_number(L, a.opts, "max_entries", 100000);
  if (!(most >= 1 && most <= 1 << 26 && most == (double)(int64_t)most))
    return ltide_error(L, "ValueError", "record_history: wrong max_entries, got %f, expected an integer from 1 to %d",
                       most, 1 << 26);
  config.max_entries = (int64_t)most;
  config.stack = ltide_opt_boolean(L, a.opts, "stacks", false) ? stack_text : NULL;
  config.skip = check_skip(L, a.opts);
  ltide_try(L, tide_memory_history(a.n == 1 && !lua_toboolean(L, 1) ? NULL : &config));
  return 0;
}

/* {==== Frames */

typedef struct frames {
  lua_State *L;
  int lines, tables; /* indexes of caches: site -> its text; site or stack -> table of frames */
} frames;

/* Pushes "file.lua:12", or nil where no script ran. */
static void push_line(frames *f, uint32_t site) {
  lua_State *L = f->L;
  if (!site) {
    lua_pushnil(L);
    return;
  }
  if (lua_rawgeti(L, f->lines, site) != LUA_TNIL) return;
  lua_pop(L, 1);
  char text[512];
  tide_site_describe(site, text, sizeof text);
  lua_pushstring(L, text);
  lua_pushvalue(L, -1);
  lua_rawseti(L, f->lines, site);
}

/* Appends {filename, line, name} of "file.lua:12 in name" to the table at the top. */
static void add_frame(lua_State *L, const char *text, size_t length, lua_Integer at) {
  tide_stack_line line;
  tide_memory_stack_line(&line, text, length);
  lua_createtable(L, 0, 3);
  lua_pushlstring(L, text, line.file_length);
  lua_setfield(L, -2, "filename");
  ltide_set_integer(L, "line", line.number);
  lua_pushlstring(L, text + line.name, length - line.name);
  lua_setfield(L, -2, "name");
  lua_rawseti(L, -2, at);
}

/* Pushes the list of frames of an allocation: its whole stack if that was kept, else its line. */
static void push_frames(frames *f, uint32_t site, uint32_t stack) {
  lua_State *L = f->L;
  lua_Integer key = stack ? -(lua_Integer)stack : (lua_Integer)site;
  if (lua_rawgeti(L, f->tables, key) != LUA_TNIL) return;
  lua_pop(L, 1);
  lua_newtable(L);
  char line[512];
  const char *text = stack ? tide_memory_stack(stack) : line;
  if (!stack && !tide_site_describe(site, line, sizeof line)) *line = 0;
  for (lua_Integer at = 1; *text; at++) {
    size_t n = strcspn(text, "\n");
    add_frame(L, text, n, at);
    text += n + (text[n] == '\n');
  }
  lua_pushvalue(L, -1);
  lua_rawseti(L, f->tables, key);
}

/* {==== Tables: each pushes one */

static void set_label(lua_State *L, const tide_allocation_scope *scope) {
  if (!scope) return;
  lua_pushstring(L, tide_allocation_scope_label(scope));
  lua_setfield(L, -2, "label");
}

static void push_block(frames *f, const tide_block_info *b, bool traces) {
  static const char *const states[] = {"inactive", "active_allocated", "active_pending_free"};
  lua_State *L = f->L;
  lua_createtable(L, 0, traces && b->state ? 8 : 4);
  ltide_set_integer(L, "address", (int64_t)b->address);
  ltide_set_integer(L, "size", (int64_t)b->size);
  ltide_set_integer(L, "requested_size", (int64_t)b->requested);
  lua_pushstring(L, states[b->state]);
  lua_setfield(L, -2, "state");
  set_label(L, b->scope);
  if (!traces || !b->state) return;
  push_line(f, b->site);
  lua_setfield(L, -2, "line");
  push_frames(f, b->site, b->stack);
  lua_setfield(L, -2, "frames");
}

static void push_segment(frames *f, const tide_memory_snapshot *s, const tide_segment_info *g, bool traces) {
  lua_State *L = f->L;
  lua_createtable(L, 0, 12);
  ltide_set_integer(L, "device", g->device);
  ltide_set_integer(L, "address", (int64_t)g->address);
  ltide_set_integer(L, "total_size", (int64_t)g->total);
  ltide_set_integer(L, "allocated_size", (int64_t)g->allocated);
  ltide_set_integer(L, "active_size", (int64_t)g->active);
  ltide_set_integer(L, "requested_size", (int64_t)g->requested);
  ltide_set_integer(L, "stream", (int64_t)g->stream);
  ltide_set_integer(L, "segment_pool_id", (int64_t)g->pool);
  lua_pushstring(L, g->large ? "large" : "small");
  lua_setfield(L, -2, "segment_type");
  lua_pushboolean(L, g->expandable);
  lua_setfield(L, -2, "is_expandable");
  lua_createtable(L, (int)g->blocks, 0);
  for (int64_t i = 0; i < g->blocks; i++) {
    push_block(f, &s->block[g->first + i], traces);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "blocks");
}

static void push_segments(frames *f, const tide_memory_snapshot *s, bool traces) {
  lua_createtable(f->L, (int)s->segments, 0);
  for (int64_t i = 0; i < s->segments; i++) {
    push_segment(f, s, &s->segment[i], traces);
    lua_rawseti(f->L, -2, i + 1);
  }
}

static void push_event(frames *f, const tide_memory_event *e) {
  lua_State *L = f->L;
  lua_createtable(L, 0, 9);
  lua_pushstring(L, tide_memory_action_name(e->action));
  lua_setfield(L, -2, "action");
  ltide_set_integer(L, "addr", (int64_t)e->address);
  ltide_set_integer(L, "size", (int64_t)e->size);
  ltide_set_integer(L, "stream", (int64_t)e->stream);
  ltide_set_integer(L, "time_us", (int64_t)e->time_us);
  push_line(f, e->site);
  lua_setfield(L, -2, "line");
  push_line(f, e->owner);
  lua_setfield(L, -2, "owner");
  push_frames(f, e->site, e->stack);
  lua_setfield(L, -2, "frames");
  set_label(L, e->scope);
}

/* One list for each device up to the last that has an event, oldest first. */
static void push_traces(frames *f, const tide_memory_snapshot *s) {
  lua_State *L = f->L;
  lua_Integer next[TIDE_MAX_DEVICES] = {0};
  int devices = 0;
  for (int64_t i = 0; i < s->events; i++)
    if (s->event[i].device >= devices) devices = s->event[i].device + 1;
  lua_createtable(L, devices, 0);
  luaL_checkstack(L, devices + 16, "memory.snapshot");
  int list = lua_gettop(L);
  for (int d = 0; d < devices; d++) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawseti(L, list, d + 1);
  }
  for (int64_t i = 0; i < s->events; i++) {
    push_event(f, &s->event[i]);
    lua_rawseti(L, list + 1 + s->event[i].device, ++next[s->event[i].device]);
  }
  lua_settop(L, list);
}

/* {==== Snapshots */

typedef struct holder {
  tide_memory_snapshot *snapshot;
} holder;

static int holder_gc(lua_State *L) {
  tide_memory_snapshot_free(ltide_take_pointer(L, SNAPSHOT_META));
  return 0;
}

static uint64_t check_pool(lua_State *L, int opts) {
  if (!opts || ltide_rawfield(L, opts, "mempool") == LUA_TNIL) return 0;
  const tide_mempool *pool = ltide_test_graph_pool(L, -1);
  if (pool) return tide_mempool_id(pool);
  int is_id = 0;
  lua_Integer id = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &is_id) : 0;
  if (!is_id || id < 0) ltide_arg_error(L, -1, "mempool", "a tide.cuda.MemPool, its id or the pool of a graph");
  return (uint64_t)id;
}

/* The options of a snapshot stand behind `n` arguments. Pushes the holder. */
static tide_memory_snapshot *take(lua_State *L, int n, const char *const *keys, int *opts, uint32_t flags) {
  ltide_enter(L);
  ltide_args a = ltide_split(L, n);
  ltide_check_count(L, a, n);
  ltide_check_keys(L, a.opts, keys);
  *opts = a.opts;
  uint64_t pool = check_pool(L, a.opts);
  holder *h = ltide_new_object(L, sizeof *h, 0);
  h->snapshot = NULL;
  ltide_setmetatable(L, SNAPSHOT_META);
  ltide_try(L, tide_memory_snapshot_new(&h->snapshot, pool, flags));
  return h->snapshot;
}

/* Protected: the snapshot, whether traces are wanted, whether the whole of it is; returns the table. */
static int build(lua_State *L) {
  const tide_memory_snapshot *s = lua_touserdata(L, 1);
  bool traces = lua_toboolean(L, 2), whole = lua_toboolean(L, 3);
  lua_newtable(L);
  lua_newtable(L);
  frames f = {L, 4, 5};
  if (!whole) {
    push_segments(&f, s, traces);
    return 1;
  }
  lua_createtable(L, 0, 3);
  push_segments(&f, s, traces);
  lua_setfield(L, -2, "segments");
  push_traces(&f, s);
  lua_setfield(L, -2, "device_traces");
  ltide_set_integer(L, "lost_entries", s->lost);
  return 1;
}

static int push_tables(lua_State *L, const tide_memory_snapshot *s, bool traces, bool whole) {
  bool running = lua_gc(L, LUA_GCISRUNNING) != 0;
  if (running) lua_gc(L, LUA_GCSTOP);
  lua_pushcfunction(L, build);
  lua_pushlightuserdata(L, (void *)s);
  lua_pushboolean(L, traces);
  lua_pushboolean(L, whole);
  int status = lua_pcall(L, 3, 1, 0);
  if (running) lua_gc(L, LUA_GCRESTART);
  return status == LUA_OK ? 1 : lua_error(L);
}

static int lmemory_snapshot(lua_State *L) {
  static const char *const keys[] = {"mempool", "include_traces", NULL};
  int opts;
  const tide_memory_snapshot *s = take(L, 0, keys, &opts, 0);
  return push_tables(L, s, ltide_opt_boolean(L, opts, "include_traces", true), false);
}

static int lsnapshot(lua_State *L) {
  static const char *const keys[] = {"mempool", "include_traces", NULL};
  int opts;
  const tide_memory_snapshot *s = take(L, 0, keys, &opts, TIDE_SNAPSHOT_EVENTS);
  return push_tables(L, s, ltide_opt_boolean(L, opts, "include_traces", true), true);
}

static int ldump_snapshot(lua_State *L) {
  static const char *const keys[] = {"mempool", NULL};
  int opts;
  const char *path = ltide_check_cstring(L, 1, "path", "a string");
  const tide_memory_snapshot *s = take(L, 1, keys, &opts, TIDE_SNAPSHOT_EVENTS);
  ltide_try(L, tide_memory_snapshot_write(s, path));
  return 0;
}

void ltide_open_memory_history(lua_State *L) {
  ltide_newmetatable(L, SNAPSHOT_META);
  lua_pushcfunction(L, holder_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
#define PATH "tide.cuda."
  static ltide_row memory_history_cuda_rows[] = {
#include "api/memory_history_cuda.def"
      {0}};
#undef PATH
#define PATH "tide.cuda.memory."
  static ltide_row memory_history_memory_rows[] = {
#include "api/memory_history_memory.def"
      {0}};
  ltide_register_memory(L, memory_history_cuda_rows);
  ltide_register_memory_only(L, memory_history_memory_rows);
}
