/* memory_scope.c: memory.scope, which labels and counts what is allocated inside it, and what a script sees of an
 * allocation that failed: the fields of its error, the observers of memory.on_oom.
 *
 * A scope's counts are a core allocation scope that is open in the running coroutine. The table of the counts is made
 * at once and filled when the block is left, so that leaving allocates nothing. Observers are a Lua list in the
 * registry, behind one observer of core's for each Lua state; they run in protected mode on the thread that failed, if
 * it runs Lua. */
#include "memory.h"

/* {==== memory.scope */

typedef struct counted_scope {
  tide_allocation_scope *scope, *before; /* references */
} counted_scope;

static void set_counts(lua_State *L, const tide_allocation_figures *f) {
  ltide_set_integer(L, "allocated_bytes", f->allocated_bytes);
  ltide_set_integer(L, "freed_bytes", f->freed_bytes);
  ltide_set_integer(L, "peak_bytes", f->peak_bytes);
  ltide_set_integer(L, "live_bytes", f->live_bytes);
  ltide_set_integer(L, "allocations", f->allocations);
}

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
    set_counts(L, &figures); /* the keys are there: nothing is allocated */
  lua_pop(L, 1);
}

static int lmemory_scope(lua_State *L) {
  ltide_enter(L);
  const char *label = ltide_check_cstring(L, 1, "label", "a string");
  int fn = lua_isnoneornil(L, 2) ? 0 : 2;
  if (fn && !lua_isfunction(L, 2)) return ltide_arg_error(L, 2, "fn", "a function or nothing");
  if (!fn) lua_settop(L, 1);
  lua_createtable(L, 0, 5);
  set_counts(L, &(tide_allocation_figures){0});
  counted_scope *s = ltide_block_new_with(L, "memory.scope", leave_scope, sizeof *s);
  s->before = tide_current_allocation_scope();
  ltide_try(L, tide_allocation_scope_new(&s->scope, label, s->before));
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
    lua_pushstring(L, line);
    lua_setfield(L, -2, "line");
    ltide_set_integer(L, "bytes", (int64_t)site[i].bytes);
    ltide_set_integer(L, "blocks", site[i].blocks);
    lua_rawseti(L, -2, i + 1);
  }
}

static void set_figures(lua_State *L, const tide_memory_oom *o) {
  ltide_set_integer(L, "largest_free", (int64_t)o->largest_free);
  if (o->limit || *o->rung == 'l') ltide_set_integer(L, "limit", (int64_t)o->limit); /* nothing may be the limit */
  lua_pushnumber(L, o->fragmentation);
  lua_setfield(L, -2, "fragmentation");
  lua_pushstring(L, o->rung);
  lua_setfield(L, -2, "rung");
  ltide_push_sites(L, o->site, o->sites);
  lua_setfield(L, -2, "sites");
}

void ltide_set_oom(lua_State *L, int device) {
  const tide_memory_oom *o = tide_memory_oom_get();
  luaL_checkstack(L, 6, "tide: error");
  if (o && device >= 0 && o->device == device) set_figures(L, o);
}

/* {==== Observers */

#define OBSERVERS_META "tide.observers"
static const char key_observers;

/* Pushes a copy of the list as it is now: an observer may take itself out, or others. */
static void push_list(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_observers);
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -2, i);
    lua_rawseti(L, -2, i);
  }
  lua_remove(L, -2);
}

/* Protected: the failure is at 1. Each observer is called as fn(device, requested, figures). */
static int run_observers(lua_State *L) {
  const tide_memory_oom *o = lua_touserdata(L, 1);
  push_list(L);
  lua_createtable(L, 0, 12);
  ltide_set_integer(L, "requested", (int64_t)o->requested);
  ltide_set_integer(L, "free", (int64_t)o->free);
  ltide_set_integer(L, "total", (int64_t)o->total);
  ltide_set_integer(L, "allocated", (int64_t)o->allocated);
  ltide_set_integer(L, "reserved", (int64_t)o->reserved);
  set_figures(L, o);
  int list = 2, figures = 3;
  for (lua_Integer i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++) {
    lua_rawgeti(L, -1, 1);
    ltide_push_device(L, o->device);
    lua_pushinteger(L, (lua_Integer)o->requested);
    lua_pushvalue(L, figures);
    if (lua_pcall(L, 3, 0, 0) != LUA_OK) ltide_warn(L, "on_oom: an observer failed: %s", luaL_tolstring(L, -1, NULL));
    lua_settop(L, figures);
  }
  return 0;
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

/* Upvalue 1 is the entry of the observer: takes it out of the list. */
static int remove_observer(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_observers);
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1), kept = 0;
  int list = lua_gettop(L);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, list, i);
    if (lua_rawequal(L, -1, lua_upvalueindex(1)))
      lua_pop(L, 1);
    else
      lua_rawseti(L, list, ++kept);
  }
  for (lua_Integer i = kept + 1; i <= n; i++) {
    lua_pushnil(L);
    lua_rawseti(L, list, i);
  }
  return 0;
}

static int observers_gc(lua_State *L) {
  ltide_state *S = ltide_take_pointer(L, OBSERVERS_META);
  if (S) tide_memory_on_oom_remove(observe, S);
  return 0;
}

/* Pushes the list; the first time it is made and core is told of this Lua state. */
static void push_observers(lua_State *L, ltide_state *S) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_observers) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  ltide_state **owner = ltide_new_object(L, sizeof *owner, 0);
  *owner = S;
  ltide_newmetatable(L, OBSERVERS_META);
  lua_pushcfunction(L, observers_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  ltide_setmetatable(L, OBSERVERS_META);
  lua_setfield(L, -2, "owner"); /* goes when the Lua state ends */
  ltide_try(L, tide_memory_on_oom_add(observe, S));
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_observers);
}

static int lon_oom(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  if (!lua_isfunction(L, 1)) return ltide_arg_error(L, 1, "fn", "a function");
  push_observers(L, S);
  lua_createtable(L, 1, 0); /* an entry of its own: a function may be there twice */
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, 1);
  lua_pushvalue(L, -1);
  lua_rawseti(L, -3, (lua_Integer)lua_rawlen(L, -3) + 1);
  lua_pushcclosure(L, remove_observer, 1);
  return 1;
}

void ltide_open_memory_scope(lua_State *L) {
#define PATH "tide.cuda.memory."
  static ltide_row rows[] = {
#include "api/memory_scope.def"
      {0}};
  ltide_register_memory_only(L, rows);
}
