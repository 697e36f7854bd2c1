/* scope.c: scoped blocks in their two forms, and tide.scope, which frees the tensors made inside.
 *
 * A scope is a userdata with a leave function. The closure form marks it to-be-closed on the C stack and calls the
 * closure, so that an error unwinds through it with its traceback intact and a yield passes. The object form returns
 * it. Each coroutine's record lists its open scopes, outermost first: close() of one that is not the innermost is an
 * error and changes nothing, and so is closing another coroutine's; leaving a block abandons what was left open inside
 * it, with a warning; a dropped object warns when it is collected.
 *
 * An arena is the list of the handles made while it was the innermost of its coroutine. A handle knows its slot, so
 * that freeing, collecting or keeping it takes O(1). What survives an inner scope belongs to the outer one from then
 * on. */
#include <stdlib.h>
#include <string.h>

#include "scope.h"

typedef struct ltide_scope {
  ltide_leave_fn leave;
  ltide_record *record;
  const char *what;
  bool open;
  bool lent; /* of a closure form: nobody else has it, it goes with its coroutine or serves again */
  bool runs; /* of a closure form: its function has not returned */
  int line;  /* 0: not known */
  char source[LUA_IDSIZE];
  int64_t data[]; /* a userdata is aligned for no more */
} ltide_scope;

#define SCOPE_META "tide.scope"
enum { LENT_DATA = 64, MOST_SPARES = 16 };
static const char key_spares; /* in the registry: an array of scopes that serve again */

static void leave_arena(lua_State *L, void *data);
static struct ltide_arena *arena_of(const void *data);
static void drop_arena(ltide_record *r, struct ltide_arena *a);

static int find_scope(const ltide_record *r, const ltide_scope *s) {
  for (int i = r->depth - 1; i >= 0; i--)
    if (r->scopes[i] == s) return i;
  return -1;
}

/* Leaves s and abandons the scopes that are open inside it. */
static void leave_scope(lua_State *L, ltide_scope *s) {
  if (!s->open) return;
  ltide_enter(L);
  ltide_record *r = s->record;
  while (r->depth > 0 && r->scopes[--r->depth] != s) {
    ltide_scope *inner = r->scopes[r->depth]; /* out of the list first: making the warning may collect it */
    inner->open = false;
    if (inner->leave != leave_arena) inner->leave(NULL, inner->data);
    ltide_warn(L, "%s: block opened at %s:%d was still open when the one around it ended", inner->what, inner->source,
               inner->line);
  }
  ltide_enter_again(L);
  s->open = false;
  s->leave(L, s->data);
}

/* What a block set is its own coroutine's, and so is the list it stands in: another one would leave its own state. */
static void check_owner(lua_State *L, const ltide_scope *s) {
  if (s->open && s->record != ltide_enter(L)->record)
    ltide_error(L, "StateError",
                "close: %s: the block of %s:%d belongs to the coroutine that opened it, got another one", s->what,
                s->source, s->line);
}

/* What other blocks set is the thread's or the process's. */
bool ltide_scopes_own(const ltide_record *r) {
  static const char *const own[] = {"cuda.device", "cuda.device_of", "cuda.stream",  "Stream:use",
                                    "tide.scope",  "use_mem_pool",   "memory.scope", NULL};
  for (int i = 0; i < r->depth; i++) {
    const char *const *name = own;
    while (*name && strcmp(*name, r->scopes[i]->what)) name++;
    if (!*name) return false;
  }
  return true;
}

/* Lua gives __close the error that leaves the block, if one does, which may be nil. But in order it is the function
 * with the block that calls it, after an error the pcall that caught that, and where a coroutine is closed nobody.
 * close() has no second argument. */
bool ltide_left_in_order(lua_State *L) {
  const ltide_scope *s = lua_touserdata(L, 1);
  lua_Debug ar;
  if (lua_isnone(L, 2)) return true;
  if (s->lent || !lua_isnil(L, 2)) return !s->runs && lua_isnil(L, 2);
  return lua_getstack(L, 1, &ar) && lua_getinfo(L, "S", &ar) && *ar.what != 'C';
}

static int scope_close(lua_State *L) {
  ltide_scope *s = ltide_check_object(L, 1, SCOPE_META);
  lua_settop(L, 1);
  check_owner(L, s);
  if (s->open && s->record->scopes[s->record->depth - 1] != s) {
    ltide_scope *inner = s->record->scopes[s->record->depth - 1];
    if (!inner->line)
      return ltide_error(L, "StateError", "close: %s: the function of a %s block inside it is still running", s->what,
                         inner->what);
    return ltide_error(L, "StateError",
                       "close: %s: a block opened inside it is still open, %s of %s:%d; close that first", s->what,
                       inner->what, inner->source, inner->line);
  }
  leave_scope(L, s);
  return 0;
}

static int scope_unwind(lua_State *L) {
  ltide_scope *s = ltide_test_meta(L, 1, ltide_enter(L)->scope_meta);
  if (!s) return 0;
  check_owner(L, s);
  leave_scope(L, s);
  return 0;
}

static int scope_gc(lua_State *L) {
  ltide_scope *s = ltide_test_object(L, 1, SCOPE_META);
  if (!s || !s->open) return 0;
  s->open = false;
  if (s->leave != leave_arena) s->leave(NULL, s->data);
  if (s->lent) { /* its coroutine goes too, and the record with it: that is not touched any more */
    ltide_warn(L, "%s: the coroutine that ran its function was dropped; nothing was restored", s->what);
    return 0;
  }
  int at = s->record->scopes ? find_scope(s->record, s) : -1;
  if (at >= 0) {
    memmove(s->record->scopes + at, s->record->scopes + at + 1, sizeof(void *) * (size_t)(s->record->depth - at - 1));
    s->record->depth--;
    if (s->leave == leave_arena) drop_arena(s->record, arena_of(s->data));
  }
  ltide_warn(L, "%s: block opened at %s:%d was dropped without being closed; nothing was restored", s->what, s->source,
             s->line);
  return 0;
}

static int scope_tostring(lua_State *L) {
  ltide_scope *s = ltide_check_object(L, 1, SCOPE_META);
  lua_pushfstring(L, "%s block (%s)", s->what, s->open ? "open" : "closed");
  return 1;
}

static void note_place(lua_State *L, ltide_scope *s) {
  lua_Debug ar;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0) continue;
    s->line = ar.currentline;
    memcpy(s->source, ar.short_src, sizeof s->source);
    return;
  }
}

static void link_scope(lua_State *L, ltide_scope *s, ltide_record *r, const char *what) {
  if (r->depth == r->capacity) {
    int capacity = r->capacity ? 2 * r->capacity : 8;
    void *scopes = realloc(r->scopes, sizeof(void *) * (size_t)capacity);
    if (!scopes) ltide_error(L, "OutOfMemoryError", "%s: no memory for the block", what);
    r->scopes = scopes, r->capacity = capacity;
  }
  s->record = r, s->what = what, s->open = true;
  r->scopes[r->depth++] = s;
}

/* Pushes the scope, open. The record is kept alive by its first user value: a scope may outlive its coroutine. */
static ltide_scope *push_scope(lua_State *L, const char *what, ltide_leave_fn leave, const void *data, size_t size) {
  ltide_state *S = ltide_enter(L);
  ltide_scope *s = ltide_new_object(L, sizeof *s + size, 2);
  memset(s, 0, sizeof *s);
  ltide_setmetatable(L, SCOPE_META);
  lua_pushthread(L);
  lua_setiuservalue(L, -2, 1);
  note_place(L, s);
  memcpy(s->data, data, size);
  s->leave = leave;
  link_scope(L, s, S->record, what);
  return s;
}

/* Pushes a scope for a closure form, which no script gets to see: it is made once and serves again and again, because a
 * new object with a finaliser costs more than all the rest of a block. */
static void push_lent(lua_State *L, const char *what, ltide_leave_fn leave, const void *data, size_t size) {
  ltide_state *S = ltide_enter(L);
  ltide_scope *s;
  if (S->spare_scopes > 0) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &key_spares);
    lua_rawgeti(L, -1, S->spare_scopes);
    lua_pushnil(L);
    lua_rawseti(L, -3, S->spare_scopes--);
    lua_remove(L, -2);
    s = lua_touserdata(L, -1);
  } else {
    s = ltide_new_object(L, sizeof *s + LENT_DATA, 0);
    memset(s, 0, sizeof *s);
    ltide_setmetatable(L, SCOPE_META);
  }
  memcpy(s->data, data, size);
  s->lent = true, s->leave = leave;
  link_scope(L, s, S->record, what);
}

/* The scope at the top of the stack has been left without an error. */
static void give_back(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const ltide_scope *s = lua_touserdata(L, -1);
  if (s->open || S->spare_scopes == MOST_SPARES) {
    lua_pop(L, 1);
    return;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_spares);
  lua_insert(L, -2);
  lua_rawseti(L, -2, ++S->spare_scopes);
  lua_pop(L, 1);
}

static int scoped_done(lua_State *L, int status, lua_KContext slot) {
  (void)status;
  luaL_checkstack(L, 4, "tide: results of a block");
  ltide_scope *s = lua_touserdata(L, (int)slot);
  s->runs = false;
  if (s->lent) {
    lua_pushvalue(L, (int)slot);
    lua_closeslot(L, (int)slot);
    give_back(L);
  } else {
    if (lua_getiuservalue(L, (int)slot, 2) == LUA_TNIL) lua_pop(L, 1);
    lua_closeslot(L, (int)slot);
  }
  return lua_gettop(L) - (int)slot;
}

/* Stack: the scope at fn_arg, the closure and its arguments behind it. */
static int call_inside(lua_State *L, int fn_arg) {
  ((ltide_scope *)lua_touserdata(L, fn_arg))->runs = true;
  lua_toclose(L, fn_arg);
  lua_callk(L, lua_gettop(L) - fn_arg - 1, LUA_MULTRET, fn_arg, scoped_done);
  return scoped_done(L, LUA_OK, fn_arg);
}

int ltide_scoped(lua_State *L, const char *what, int fn_arg, ltide_leave_fn leave, const void *data, size_t size) {
  if (!fn_arg || size > LENT_DATA)
    push_scope(L, what, leave, data, size);
  else
    push_lent(L, what, leave, data, size);
  if (!fn_arg) return 1;
  lua_insert(L, fn_arg);
  return call_inside(L, fn_arg);
}

int ltide_scoped_with(lua_State *L, const char *what, int fn_arg, ltide_leave_fn leave, const void *data, size_t size) {
  int extra = lua_gettop(L);
  push_scope(L, what, leave, data, size);
  lua_pushvalue(L, extra);
  lua_setiuservalue(L, -2, 2);
  if (!fn_arg) {
    lua_insert(L, -2);
    return 2;
  }
  lua_remove(L, extra);
  lua_insert(L, fn_arg);
  return call_inside(L, fn_arg);
}

void ltide_leave_nothing(lua_State *L, void *data) { (void)L, (void)data; }

/* {==== Arenas */

typedef struct ltide_arena {
  struct ltide_arena *outer;
  ltide_tensor **items;
  int n, capacity;
} ltide_arena;

/* The arena of a scope's data, which is a pointer to it. */
static ltide_arena *arena_of(const void *data) {
  ltide_arena *a;
  memcpy(&a, data, sizeof a);
  return a;
}

void ltide_arena_add(ltide_state *S, ltide_tensor *u) {
  ltide_arena *a = S->arena;
  if (a->n == a->capacity) {
    int capacity = a->capacity ? 2 * a->capacity : 64;
    ltide_tensor **items = realloc(a->items, sizeof *items * (size_t)capacity);
    if (!items) return; /* the collector frees this one */
    a->items = items, a->capacity = capacity;
  }
  u->arena = a, u->slot = a->n;
  a->items[a->n++] = u;
}

void ltide_arena_remove(ltide_tensor *u) {
  if (!u->arena) return;
  ltide_tensor *last = u->arena->items[--u->arena->n];
  u->arena->items[u->slot] = last;
  last->slot = u->slot;
  u->arena = NULL;
}

void ltide_stray_add(ltide_state *S, ltide_tensor *u) {
  ltide_arena *current = S->arena;
  if (!S->strays) S->strays = calloc(1, sizeof *S->strays);
  if (!S->strays) return; /* its bytes are lost if the state is ending, else nothing is */
  S->arena = S->strays;
  ltide_arena_add(S, u);
  S->arena = current;
}

static void free_arena(ltide_arena *a) {
  for (int i = 0; i < a->n; i++) {
    ltide_tensor *u = a->items[i];
    tide_tensor *t = u->t;
    u->t = NULL, u->arena = NULL;
    tide_tensor_release(t);
  }
  free(a->items);
  free(a);
}

void ltide_strays_free(ltide_state *S) {
  if (S->strays) free_arena(S->strays);
  S->strays = NULL;
}

/* Frees what was made inside. */
static void leave_arena(lua_State *L, void *data) {
  ltide_state *S = ltide_enter(L);
  ltide_arena *a = arena_of(data);
  while (S->arena && S->arena != a) { /* blocks that were abandoned inside */
    ltide_arena *inner = S->arena;
    leave_arena(L, &inner);
  }
  S->arena = a->outer;
  free_arena(a);
}

/* Takes the arena of a dropped scope object out of its coroutine's chain and frees no tensor. */
static void drop_arena(ltide_record *r, ltide_arena *a) {
  ltide_state *S = ltide_last_state;
  ltide_arena **at = S && S->record == r ? &S->arena : &r->arena;
  while (*at && *at != a) at = &(*at)->outer;
  if (*at) *at = a->outer;
  while (a->n) ltide_arena_remove(a->items[a->n - 1]);
  free(a->items);
  free(a);
}

static void keep(lua_State *L, ltide_state *S, ltide_tensor *u, ltide_arena *from) {
  (void)L;
  if (u->arena != from) return;
  ltide_arena_remove(u);
  if (from->outer) {
    ltide_arena *inner = S->arena;
    S->arena = from->outer;
    ltide_arena_add(S, u);
    S->arena = inner;
  }
}

/* Keeps the tensor at the top of the stack; a table that is not known yet is added to the list of those that are looked
 * through, which knows its tables as keys too. Pops the value. */
static void keep_value(lua_State *L, ltide_state *S, int list, ltide_arena *from) {
  ltide_tensor *u = ltide_test_handle(L, S, -1);
  if (u) {
    keep(L, S, u, from);
  } else if (lua_istable(L, -1)) {
    lua_pushvalue(L, -1);
    if (lua_rawget(L, list) == LUA_TNIL) {
      lua_pushvalue(L, -2);
      lua_pushboolean(L, 1);
      lua_rawset(L, list);
      lua_pushvalue(L, -2);
      lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Keeps the tensors in the values from first to last, at any depth: a list instead of recursion, which the depth of a
 * script's tables could take beyond the C stack. */
static void keep_trees(lua_State *L, ltide_state *S, int first, int last, ltide_arena *from) {
  luaL_checkstack(L, 8, "tide.scope: results of a block");
  lua_newtable(L);
  int list = lua_gettop(L);
  for (int i = first; i <= last; i++) {
    lua_pushvalue(L, i);
    keep_value(L, S, list, from);
  }
  for (lua_Integer at = 1; lua_rawgeti(L, list, at) == LUA_TTABLE; at++) {
    int table = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, table);) {
      keep_value(L, S, list, from);
      lua_pushvalue(L, -1);
      keep_value(L, S, list, from);
    }
    lua_pop(L, 1);
  }
  lua_settop(L, list - 1);
}

/* Stack: scope, results. The scope is still open, so that its arena can be searched. */
static int arena_done(lua_State *L, int status, lua_KContext slot) {
  ltide_state *S = ltide_enter(L);
  ltide_scope *s = lua_touserdata(L, (int)slot);
  if (s->open) keep_trees(L, S, (int)slot + 1, lua_gettop(L), arena_of(s->data));
  return scoped_done(L, status, slot);
}

static int lscope(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  if (!lua_isnoneornil(L, 1) && !lua_isfunction(L, 1)) return ltide_arg_error(L, 1, "fn", "a function or nothing");
  int fn_arg = lua_isfunction(L, 1) ? 1 : 0;
  ltide_arena *a = calloc(1, sizeof *a);
  if (!a) return ltide_error(L, "OutOfMemoryError", "scope: no memory for the block");
  push_scope(L, "tide.scope", leave_arena, &a, sizeof a);
  a->outer = S->arena; /* which one that is is known now: others may have been dropped meanwhile */
  S->arena = a;
  if (!fn_arg) return 1;
  lua_insert(L, 1);
  lua_toclose(L, 1);
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 1, arena_done);
  return arena_done(L, LUA_OK, 1);
}

static int lkeep(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_check_tensor(L, S, 1, "t");
  ltide_arena_remove(lua_touserdata(L, 1));
  lua_settop(L, 1);
  return 1;
}

void ltide_open_scope(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {{"__close", scope_unwind}, {"__gc", scope_gc}, {"__tostring", scope_tostring}, {0}};
  static const luaL_Reg methods[] = {{"close", scope_close}, {0}};
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_spares);
  ltide_newmetatable(L, SCOPE_META);
  S->scope_meta = lua_topointer(L, -1);
  luaL_setfuncs(L, meta, 0);
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  static const ltide_reg list[] = {
      {"scope", lscope,
       "tide.scope(fn, ...) -> results of fn\nlocal _ <close> = tide.scope()\n"
       "Frees, on leaving, every tensor made inside that is not returned (at any depth of tables) or kept with "
       "tide.keep. "
       "Also when fn raises. Scopes nest; what an inner one returns belongs to the outer one."},
      {"keep", lkeep,
       "tide.keep(t) -> t\nTakes the tensor t out of the tide.scope it was made in: only the collector frees it."},
      {0}};
  ltide_register(L, "tide", list);
}
