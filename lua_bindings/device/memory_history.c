/* memory_history.c: the memory history, and snapshots as tables and as JSON.
 *
 * Core makes the copy; here it becomes tables. Lines and stacks repeat, so the table of frames of a line is made once
 * for a snapshot and shared by all the blocks and events that came from it. The copy is held by a userdata, so an error
 * loses nothing; the collector rests while tens of thousands of tables are made. */

#include "call/fields.h"
#include "memory.h"

/* {==== The whole stack of an event */

/* Runs on whatever thread allocates; the text has a line for each level, "file.lua:12 in name". */
static size_t stack_text(void *user, char *text, size_t size) {
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

static uint32_t check_skip(lua_State *L, const ltide_value *list) {
  uint32_t skip = 0;
  if (!list->given) return 0;
  if (!lua_istable(L, list->at)) ltide_arg_error(L, list->at, "skip_actions", "a table of names of actions");
  for (lua_pushnil(L); lua_next(L, list->at);) {
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

static int lrecord_history(lua_State *L, ltide_call *c) {
  tide_history_config config = {.struct_size = sizeof config};
  double most = c->v[1].number;
  if (!(most >= 1 && most <= 1 << 26 && most == (double)(int64_t)most))
    return ltide_error(L, "ValueError", "record_history: wrong max_entries, got %f, expected an integer from 1 to %d",
                       most, 1 << 26);
  config.max_entries = (int64_t)most;
  config.stack = c->v[2].boolean ? stack_text : NULL;
  config.skip = check_skip(L, &c->v[3]);
  return ltide_done(L, tide_memory_history(c->v[0].boolean ? &config : NULL));
}

/* {==== Frames */

typedef struct frames {
  lua_State *L;
  int lines, tables; /* indexes of caches: site -> its text; site or stack -> table of frames */
} frames;

/* t[key] = "file.lua:12" in the table at the top; nothing where no script ran. */
static void set_line(frames *f, const char *key, uint32_t site) {
  lua_State *L = f->L;
  char text[512];
  if (!site) return;
  if (lua_rawgeti(L, f->lines, site) == LUA_TNIL) {
    tide_site_describe(site, text, sizeof text);
    lua_pop(L, 1);
    lua_pushstring(L, text);
    lua_pushvalue(L, -1);
    lua_rawseti(L, f->lines, site);
  }
  lua_setfield(L, -2, key);
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

/* Sets the list of frames of an allocation: its whole stack if that was kept, else its line. */
static void set_frames(frames *f, uint32_t site, uint32_t stack) {
  lua_State *L = f->L;
  lua_Integer key = stack ? -(lua_Integer)stack : (lua_Integer)site;
  char line[512];
  if (lua_rawgeti(L, f->tables, key) == LUA_TNIL) {
    const char *text = stack ? tide_memory_stack(stack) : line;
    if (!stack && !tide_site_describe(site, line, sizeof line)) *line = 0;
    lua_pop(L, 1);
    lua_newtable(L);
    for (lua_Integer at = 1; *text; at++) {
      size_t n = strcspn(text, "\n");
      add_frame(L, text, n, at);
      text += n + (text[n] == '\n');
    }
    lua_pushvalue(L, -1);
    lua_rawseti(L, f->tables, key);
  }
  lua_setfield(L, -2, "frames");
}

/* {==== Tables: each pushes one */

static void set_label(lua_State *L, const tide_allocation_scope *scope) {
  if (scope) ltide_set_text(L, "label", tide_allocation_scope_label(scope));
}

static void push_block(frames *f, const tide_block_info *b, bool traces) {
  static const char *const states[] = {"inactive", "active_allocated", "active_pending_free"};
  static const ltide_field fields[] = LTIDE_FIELDS(tide_block_info, address, size);
  lua_State *L = f->L;
  lua_createtable(L, 0, traces && b->state ? 8 : 4);
  ltide_set_fields(L, fields, b, false);
  ltide_set_integer(L, "requested_size", (int64_t)b->requested);
  ltide_set_text(L, "state", states[b->state]);
  set_label(L, b->scope);
  if (traces && b->state) set_line(f, "line", b->site), set_frames(f, b->site, b->stack);
}

static void push_segment(frames *f, const tide_memory_snapshot *s, const tide_segment_info *g, bool traces) {
  static const ltide_field fields[] = LTIDE_FIELDS(tide_segment_info, device, address, stream);
  lua_State *L = f->L;
  lua_createtable(L, 0, 12);
  ltide_set_fields(L, fields, g, false);
  ltide_set_integer(L, "total_size", (int64_t)g->total), ltide_set_integer(L, "active_size", (int64_t)g->active);
  ltide_set_integer(L, "allocated_size", (int64_t)g->allocated);
  ltide_set_integer(L, "requested_size", (int64_t)g->requested);
  ltide_set_integer(L, "segment_pool_id", (int64_t)g->pool);
  lua_pushboolean(L, g->expandable), lua_setfield(L, -2, "is_expandable");
  ltide_set_text(L, "segment_type", g->large ? "large" : "small");
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
  static const ltide_field fields[] = LTIDE_FIELDS(tide_memory_event, size, stream, time_us);
  lua_State *L = f->L;
  lua_createtable(L, 0, 9);
  ltide_set_fields(L, fields, e, false);
  ltide_set_integer(L, "addr", (int64_t)e->address);
  ltide_set_text(L, "action", tide_memory_action_name(e->action));
  set_line(f, "line", e->site), set_line(f, "owner", e->owner);
  set_frames(f, e->site, e->stack);
  set_label(L, e->scope);
}

/* One list for each device up to the last that has an event, oldest first. */
static void push_traces(frames *f, const tide_memory_snapshot *s) {
  lua_State *L = f->L;
  lua_newtable(L);
  for (int64_t i = 0; i < s->events; i++) {
    int device = s->event[i].device;
    for (lua_Integer d = (lua_Integer)lua_rawlen(L, -1); d <= device; d++) lua_newtable(L), lua_rawseti(L, -2, d + 1);
    lua_rawgeti(L, -1, device + 1);
    push_event(f, &s->event[i]);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_pop(L, 1);
  }
}

/* {==== Snapshots */

static void free_snapshot(void *s) { tide_memory_snapshot_free(s); }

static uint64_t check_pool(lua_State *L, const ltide_value *v) {
  if (!v->given) return 0;
  const tide_mempool *pool = ltide_test_graph_pool(L, v->at);
  if (pool) return tide_mempool_id(pool);
  int is_id = 0;
  lua_Integer id = lua_type(L, v->at) == LUA_TNUMBER ? lua_tointegerx(L, v->at, &is_id) : 0;
  if (!is_id || id < 0) ltide_arg_error(L, v->at, "mempool", "a tide.cuda.MemPool, its id or the pool of a graph");
  return (uint64_t)id;
}

/* Pushes the holder. */
static tide_memory_snapshot *take(lua_State *L, const ltide_value *mempool, uint32_t flags) {
  uint64_t pool = check_pool(L, mempool);
  tide_memory_snapshot **s = (tide_memory_snapshot **)ltide_push_owned(L, free_snapshot);
  ltide_try(L, tide_memory_snapshot_new(s, pool, flags));
  return *s;
}

/* Protected: the snapshot, whether traces are wanted, whether the whole of it is; returns the table. */
static int build(lua_State *L) {
  const tide_memory_snapshot *s = lua_touserdata(L, 1);
  bool traces = lua_toboolean(L, 2), whole = lua_toboolean(L, 3);
  lua_newtable(L);
  lua_newtable(L);
  frames f = {L, 4, 5};
  if (whole) lua_createtable(L, 0, 3);
  push_segments(&f, s, traces);
  if (!whole) return 1;
  lua_setfield(L, -2, "segments");
  push_traces(&f, s);
  lua_setfield(L, -2, "device_traces");
  ltide_set_integer(L, "lost_entries", s->lost);
  return 1;
}

/* Of the segments alone, or with a tag of the whole. */
static int lsnapshot(lua_State *L, ltide_call *c) {
  bool whole = c->row->tag, running = lua_gc(L, LUA_GCISRUNNING) != 0;
  const tide_memory_snapshot *s = take(L, &c->v[0], whole ? TIDE_SNAPSHOT_EVENTS : 0);
  if (running) lua_gc(L, LUA_GCSTOP);
  lua_pushcfunction(L, build);
  lua_pushlightuserdata(L, (void *)s), lua_pushboolean(L, c->v[1].boolean), lua_pushboolean(L, whole);
  int status = lua_pcall(L, 3, 1, 0);
  if (running) lua_gc(L, LUA_GCRESTART);
  return status == LUA_OK ? 1 : lua_error(L);
}

static int ldump_snapshot(lua_State *L, ltide_call *c) {
  const tide_memory_snapshot *s = take(L, &c->v[1], TIDE_SNAPSHOT_EVENTS);
  return ltide_done(L, tide_memory_snapshot_write(s, c->v[0].text));
}

void ltide_open_memory_history(lua_State *L, ltide_state *S) {
#include <rows/memory_history_cuda.inc>
#include <rows/memory_history_memory.inc>
  ltide_register_memory(L, memory_history_cuda_rows);
  ltide_register_in(L, "tide.cuda.memory", memory_history_memory_rows);
}
