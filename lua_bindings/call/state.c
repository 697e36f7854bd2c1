/* state.c: the struct of each Lua state, and the current device and streams of each coroutine.
 *
 * Every coroutine that calls tide has a record: its tide_current and its stack of open scopes. Records hang in a
 * registry table with weak keys, so a record goes with its coroutine. A new record, made at the coroutine's first call,
 * inherits from the one that has resumed it then. Lua does not say who that was; it is the last caller that is still
 * active (it has frames and has not yielded), found by walking the chain of resumers from the coroutine that called
 * last, and noted for each coroutine whenever another one has called before it. The last caller is anchored in the
 * registry, so that the pointer kept for the fast compare cannot dangle. */
#include <stdlib.h>

#include "collector.h"
#include "object.h"
#include "scope.h"
#include "tide/debug.h"
#include "tide/device.h"
#include "tide_lua.h"
#include "script.h"

_Thread_local lua_State *ltide_last;
_Thread_local ltide_state *ltide_last_state;
_Thread_local unsigned ltide_last_epoch, ltide_calls;
_Atomic unsigned ltide_epoch;

static const char key_state, key_records, key_resumers, key_running;

/* {==== Coroutines */

void *ltide_test_object(lua_State *L, int arg, const char *meta) {
  arg = lua_absindex(L, arg);
  luaL_getmetatable(L, meta);
  const void *expected = lua_topointer(L, -1);
  lua_pop(L, 1);
  return expected ? ltide_test_meta(L, arg, expected) : NULL;
}

/* The collector may run in the middle of another coroutine's operation: what that one has bound stays bound. */
static void free_record(ltide_record *r) {
  tide_current_free(r->current);
  if (r->inherited) r->forget(r);
  free(r->scopes);
  r->current = NULL, r->arena = NULL, r->scopes = NULL, r->depth = r->capacity = 0;
}

static int record_gc(lua_State *L) {
  ltide_record *r = ltide_test_object(L, 1, "tide.record");
  if (r) free_record(r);
  return 0;
}

static bool is_active(lua_State *co) {
  lua_Debug ar;
  return lua_status(co) == LUA_OK && lua_getstack(co, 0, &ar);
}

/* Notes who resumed L: the last caller, or the nearest of those that resumed that one, that is still active. Where that
 * is L itself, it goes on after one that it has resumed, and what was noted holds. */
static void note_resumer(lua_State *L, ltide_state *S) {
  lua_State *co = S->running;
  int top = lua_gettop(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_resumers);
  lua_pushthread(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_running);
  while (co && !is_active(co)) { /* stack: resumers, L, co */
    lua_rawget(L, top + 1);
    co = lua_tothread(L, -1);
  }
  if (co != L) lua_rawset(L, top + 1);
  lua_settop(L, top);
}

/* Puts the record of the coroutine at the top of the stack, or nil, in its place. */
static void get_record(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  lua_insert(L, -2);
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

static void push_record(lua_State *L) {
  lua_pushthread(L);
  get_record(L);
}

static ltide_record *find_record(lua_State *L) {
  push_record(L);
  ltide_record *r = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return r;
}

/* The record of the coroutine that resumed L, or NULL. */
static ltide_record *find_parent(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_resumers);
  lua_pushthread(L);
  lua_rawget(L, -2);
  get_record(L);
  ltide_record *r = lua_touserdata(L, -1);
  lua_pop(L, 2);
  return r;
}

/* A userdata at the top of the stack becomes L's record; pops it. */
static void keep_record(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  lua_pushthread(L);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 2);
}

tide_status ltide_use_device(const ltide_state *S, tide_current *current) {
  tide_status status = tide_current_set_default_device(current, S->device);
  if (status != TIDE_OK || S->device < 0) return status;
  tide_current *before = tide_current_bind(current);
  status = tide_current_set_device(S->device);
  tide_current_bind(before);
  return status;
}

/* Makes L's record, unless a finaliser that runs in the middle has called us in L and so has made it. One whose
 * finaliser has run serves again, since scopes may still point to it, where another finaliser resumes its coroutine. */
static ltide_record *new_record(lua_State *L, ltide_state *S) {
  if (!find_record(L)) {
    memset(ltide_new_userdata(L, sizeof(ltide_record), 0), 0, sizeof(ltide_record));
    if (find_record(L))
      lua_pop(L, 1);
    else
      keep_record(L);
  }
  push_record(L);
  ltide_record *r = lua_touserdata(L, -1);
  if (!r->current) {
    const ltide_record *parent = find_parent(L);
    ltide_setmetatable(L, "tide.record"); /* it has a finaliser to run from now on */
    r->state = S;
    r->current = tide_current_new(parent ? parent->current : NULL);
    if (!r->current) luaL_error(L, "tide: no memory for a coroutine's streams");
    if (S->quota) tide_current_set_quota(r->current, S->quota);
    if (S->has_device && !parent) ltide_use_device(S, r->current);
  }
  lua_pop(L, 1);
  return r;
}

ltide_record *ltide_make_record(lua_State *L, int thread) {
  ltide_state *S = ltide_enter(L);
  thread = lua_absindex(L, thread);
  ltide_record *r = ltide_new_userdata(L, sizeof *r, 0);
  memset(r, 0, sizeof *r);
  ltide_setmetatable(L, "tide.record");
  ltide_enter_again(L);
  r->state = S;
  r->current = tide_current_new(S->record->current);
  if (!r->current) luaL_error(L, "tide: no memory for a coroutine's streams");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  lua_pushvalue(L, thread);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 2);
  return r;
}

/* Of a record that has selected `before` on the stream's device. */
static bool change_stream(const ltide_record *r, const tide_stream *before, tide_stream *stream) {
  tide_current_bind(r->current);
  return tide_current_selected(tide_stream_device(stream)) != before || tide_current_set_stream(stream) == TIDE_OK;
}

bool ltide_set_stream(lua_State *L, tide_stream *stream) {
  const ltide_state *S = ltide_state_of(L);
  ltide_record *own = S ? find_record(S->main) : NULL;
  tide_stream *used;
  int device = tide_stream_device(stream);
  if (!own || !own->current || device < 0) return false;
  tide_current *host = tide_current_bind(own->current);
  const tide_stream *before = tide_current_selected(device);
  bool done = tide_current_stream(&used, device) == TIDE_OK && tide_stream_wait_stream(stream, used) == TIDE_OK;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    const ltide_record *r = lua_touserdata(L, -1);
    if (done && r->current) done = change_stream(r, before, stream);
  }
  lua_pop(L, 1);
  tide_current_bind(host);
  return done;
}

/* Level 0 is the function of ours that is running. Not far: as ltide_find_script. */
int ltide_line(lua_State *L, const char **source) {
  enum { LEVELS = 100 };
  lua_Debug ar;
  for (int level = 1; level < LEVELS && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    *source = ar.source;
    if (ar.currentline > 0 && !ltide_script_is(&ar)) return ar.currentline;
  }
  return 0;
}

/* A call that allocates and launches asks twice, and the second answer is free. */
static int site(void *user, const char **source) {
  static _Thread_local unsigned named;
  lua_State *L = ltide_last;
  unsigned epoch = atomic_load_explicit(&ltide_epoch, memory_order_relaxed), call = ltide_calls;
  if (!L || ltide_last_epoch != epoch) return 0; /* the host's, or it may be gone */
  if (named == call) return -1;
  named = call;
  return ltide_line(L, source);
}

/* A Lua state that another thread has called before: that one is to look anew if it comes back. */
static void note_thread(ltide_state *S) {
  if (atomic_load(&S->thread) == &ltide_last) return;
  if (atomic_exchange(&S->thread, &ltide_last)) atomic_fetch_add(&ltide_epoch, 1);
}

/* What is bound has changed, by the host or since it was freed: the next call binds its coroutine's again. */
static void rebound(void) { ltide_last = NULL; }

static bool is_bound(const lua_State *L) { return L == ltide_last && ltide_last_epoch == atomic_load(&ltide_epoch); }

ltide_state *ltide_state_of(lua_State *L) {
  if (is_bound(L)) return ltide_last_state;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_state);
  ltide_state *S = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return S;
}

static void use_record(ltide_state *S, ltide_record *r) {
  if (S->record) S->record->arena = S->arena;
  S->record = r, S->arena = r->arena, S->is_fusing = r->fusing > 0;
}

/* Makes what the record has selected current on this thread. */
static void bind(ltide_state *S, const ltide_record *r) {
  note_thread(S);
  tide_current_bind(r->current);
  tide_current_on_bind(rebound);
  tide_index_base_set(ltide_index_base);
  tide_site_set(site, NULL);
  tide_warn_set(S->warn, NULL);
}

ltide_record *ltide_record_of(lua_State *L) { return is_bound(L) ? ltide_last_state->record : find_record(L); }

/* Who runs is not noted, so the next call binds anew. */
void ltide_bind_record(lua_State *L, ltide_record *r) {
  if (is_bound(L)) return;
  if (r->state->record != r) use_record(r->state, r);
  bind(r->state, r);
  ltide_last = NULL;
}

ltide_state *ltide_enter_slow(lua_State *L) {
  luaL_checkstack(L, 8, "tide");
  ltide_state *S = ltide_state_of(L);
  if (S->running != L) note_resumer(L, S);
  ltide_record *r = find_record(L);
  if (!r || !r->current) r = new_record(L, S); /* a finaliser may call us in it */
  if (S->running != L || S->record != r) {
    lua_pushthread(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_running);
    S->running = L;
    use_record(S, r);
  }
  bind(S, r);
  S->in_ffi = false; /* where an error has ended a call through it */
  ltide_last = L, ltide_last_state = S, ltide_last_epoch = atomic_load(&ltide_epoch);
  ltide_collect_requested(L, S);
  return S;
}

/* {==== The struct of a Lua state */

/* Those of coroutines that finalisers have run while the state was closing get no finaliser any more. */
static void free_records(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_records);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) free_record(lua_touserdata(L, -1));
  lua_pop(L, 1);
}

static int state_gc(lua_State *L) {
  ltide_state *S = ltide_test_object(L, 1, "tide.state");
  if (S) ltide_state_unlist(S);
  if (!S || !S->started) return 0; /* opening failed, or closed already */
  S->started = false, S->record = NULL;
  free_records(L);
  S->end(L, S);
  tide_quota_release(S->quota), S->quota = NULL;
  ltide_collector_close(S);
  tide_current_bind(NULL);
  tide_current_on_bind(NULL);
  atomic_fetch_add(&ltide_epoch, 1);
  ltide_last = NULL, ltide_last_state = NULL;
  tide_index_base_set(NULL);
  tide_site_set(NULL, NULL);
  tide_warn_set(NULL, NULL);
  tide_shutdown();
  return 0;
}

static void weak_table(lua_State *L, const void *key, const char *mode) {
  lua_newtable(L);
  ltide_make_weak(L, mode);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

/* The struct, its parts' addresses, the parts: one block. */
static ltide_state *new_state(lua_State *L, const size_t *const sizes[LTIDE_PARTS]) {
  enum { ALIGN = _Alignof(max_align_t) };
  size_t at[LTIDE_PARTS + 1] = {(sizeof(ltide_state) + LTIDE_PARTS * sizeof(void *) + ALIGN - 1) / ALIGN * ALIGN};
  for (int i = 0; i < LTIDE_PARTS; i++) at[i + 1] = at[i] + (*sizes[i] + ALIGN - 1) / ALIGN * ALIGN;
  ltide_state *S = ltide_new_userdata(L, at[LTIDE_PARTS], 0);
  memset(S, 0, at[LTIDE_PARTS]);
  for (int i = 0; i < LTIDE_PARTS; i++) S->part[i] = (char *)S + at[i];
  return S;
}

ltide_state *ltide_state_open(lua_State *L, const size_t *const sizes[LTIDE_PARTS],
                              void (*warn)(void *user, const char *message),
                              void (*end)(lua_State *L, ltide_state *S)) {
  ltide_state *S = new_state(L, sizes);
  S->warn = warn, S->end = end, S->granted = TIDE_LUA_ALL;
  S->has_options = lua_getfield(L, LUA_REGISTRYINDEX, "tide.options") == LUA_TLIGHTUSERDATA;
  lua_pop(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  S->main = lua_tothread(L, -1);
  ltide_link_clear(&S->handles);
  lua_pop(L, 1);
  ltide_open_finaliser(L, "tide.state", state_gc);
  ltide_setmetatable(L, "tide.state");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_state);
  ltide_open_finaliser(L, "tide.record", record_gc);
  weak_table(L, &key_records, "k");
  weak_table(L, &key_resumers, "kv");
  if (tide_init(NULL) != TIDE_OK) luaL_error(L, "%s", tide_error_get()->message);
  S->started = true; /* from here on whatever fails, the state ends it */
  ltide_last = NULL;
  ltide_state_list(S);
  ltide_enter(L);
  ltide_collector_open(S);
  return S;
}

void ltide_push_state(lua_State *L) { lua_rawgetp(L, LUA_REGISTRYINDEX, &key_state); }

void ltide_state_close(lua_State *L) {
  lua_pushcfunction(L, state_gc);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_state);
  lua_call(L, 1, 0);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_state);
}
