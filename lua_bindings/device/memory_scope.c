/* memory_scope.c: memory.scope, which labels and counts what is allocated inside it, and what a script sees of an
 * allocation that failed: the fields of its error, the observers of memory.on_oom.
 *
 * A scope's counts are a core allocation scope that is open in the running coroutine. The table of the counts is made
 * at once and filled when the block is left, so that leaving allocates nothing. Observers stand in
 * device/memory.lua, behind one of core's for each Lua state; they run in protected mode on the thread that failed, if
 * it runs Lua. */
#include "call/fields.h"
#include "memory.h"
#include "call/block.h"

/* {==== memory.scope */

typedef struct counted_scope {
  tide_allocation_scope *scope, *before; /* references */
} counted_scope;

static const ltide_field counts[] =
    LTIDE_FIELDS(tide_allocation_figures, allocated_bytes, freed_bytes, peak_bytes, live_bytes, allocations);

static void leave_scope(lua_State *L, void *data) {
  counted_scope *s = data;
  tide_allocation_figures figures = {0};
  if (L) {
    tide_memory_pump();
    tide_allocation_scope_read(&figures, s->scope);
    tide_current_set_allocation_scope(s->before);
  }
  tide_allocation_scope_release(s->scope);
  tide_allocation_scope_release(s->before);
  if (!L || !lua_checkstack(L, 3)) return;
  if (lua_getiuservalue(L, ltide_block_index(data), 2) == LUA_TTABLE)
    ltide_set_fields(L, counts, &figures, false); /* the keys are there: nothing is allocated */
  lua_pop(L, 1);
}

static int lmemory_scope(lua_State *L, ltide_call *c) {
  int fn = c->v[1].at;
  if (!fn) lua_settop(L, 1);
  lua_createtable(L, 0, 5);
  ltide_set_fields(L, counts, &(tide_allocation_figures){0}, false);
  counted_scope *s = ltide_block_new_with(L, "memory.scope", leave_scope, sizeof *s);
  s->before = tide_current_allocation_scope();
  ltide_try(L, tide_allocation_scope_new(&s->scope, c->v[0].text, s->before));
  if (s->before) tide_allocation_scope_retain(s->before);
  tide_current_set_allocation_scope(s->scope);
  return ltide_block_open(L, fn);
}

/* {==== What a failure tells */

void ltide_push_sites(lua_State *L, const tide_memory_site *site, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    char line[256];
    tide_site_describe(site[i].site, line, sizeof line);
    lua_createtable(L, 0, 3);
    ltide_set_text(L, "line", line);
    ltide_set_integer(L, "bytes", (int64_t)site[i].bytes);
    ltide_set_integer(L, "blocks", site[i].blocks);
    lua_rawseti(L, -2, i + 1);
  }
}

static void set_figures(lua_State *L, const tide_memory_oom *o) {
  static const ltide_field fields[] = LTIDE_FIELDS(tide_memory_oom, largest_free, fragmentation, rung);
  ltide_set_fields(L, fields, o, false);
  if (o->limit || *o->rung == 'l') ltide_set_integer(L, "limit", (int64_t)o->limit); /* nothing may be the limit */
  ltide_push_sites(L, o->site, o->sites);
  lua_setfield(L, -2, "sites");
}

static void set_oom(lua_State *L, int device) {
  const tide_memory_oom *o = tide_memory_oom_get();
  luaL_checkstack(L, 6, "tide: error");
  if (o && device >= 0 && o->device == device) set_figures(L, o);
}

/* {==== Observers */

/* Protected: the failure is at 1. */
static int run_observers(lua_State *L) {
  static const ltide_field fields[] = LTIDE_FIELDS(tide_memory_oom, requested, free, total, allocated, reserved);
  const tide_memory_oom *o = lua_touserdata(L, 1);
  ltide_script_push(L, "device/memory.run_observers");
  ltide_push_device(L, o->device);
  lua_pushinteger(L, (lua_Integer)o->requested);
  lua_createtable(L, 0, 12);
  ltide_set_fields(L, fields, o, false);
  set_figures(L, o);
  return lua_call(L, 3, 0), 0;
}

/* Core calls this on the thread that failed; no error may pass. */
static void observe(void *user, const tide_memory_oom *oom) {
  lua_State *L = ltide_last;
  if (!L || ltide_last_state != user || !lua_checkstack(L, 8)) return;
  lua_pushcfunction(L, run_observers);
  lua_pushlightuserdata(L, (void *)oom);
  ltide_last_state->observing++;
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1); /* Lua itself is out of memory */
  ((ltide_state *)user)->observing--;
  ltide_enter(L); /* an observer may have run coroutines */
}

static void end_watch(void *S) { tide_memory_on_oom_remove(observe, S); }

/* Gives what ends it, with the Lua state. */
static int script_watch_failures(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  void **owner = ltide_new_owned(L, end_watch);
  ltide_try(L, tide_memory_on_oom_add(observe, S));
  *owner = S;
  return 1;
}

static int lon_oom(lua_State *L, ltide_call *c) { return ltide_script_call(L, "device/memory.on_oom", c->n); }

void ltide_open_memory_scope(lua_State *L, ltide_state *S) {
  ltide_error_of(S)->set_oom = set_oom;
  LTIDE_GIVE(L, "device/memory_scope.c", watch_failures);
#include <rows/memory_scope.inc>
  ltide_register_in(L, "tide.cuda.memory", memory_scope_rows);
}
