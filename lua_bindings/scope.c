/* scope.c: scoped blocks in their two forms.
 *
 * A scope is a userdata with a leave function. The closure form marks it to-be-closed on the C stack and calls the
 * closure, so that an error unwinds through it with its traceback intact and a yield passes. The object form returns
 * it. Each coroutine's record lists its open scopes, outermost first: close() of one that is not the innermost is an
 * error and changes nothing, and so is closing another coroutine's; leaving a block abandons what was left open inside
 * it, with a warning; a dropped object warns when it is collected.
 *
 * Invariant: from the moment a block has changed something its scope is open, and leaving it allocates nothing. So
 * whatever needs memory comes first, in ltide_block_new, and no failure leaves a block in force. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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
  bool in_order;
  int index; /* while it is left: where on the stack it is */
  int line;  /* 0: not known */
  char source[LUA_IDSIZE];
  int64_t data[]; /* a userdata is aligned for no more */
} ltide_scope;

#define SCOPE_META "tide.scope"
enum { LENT_DATA = 64, MOST_SPARES = 16 };
static const char key_spares; /* in the registry: an array of scopes that serve again */

static ltide_scope *scope_of(const void *data) {
  return (ltide_scope *)((char *)(uintptr_t)data - offsetof(ltide_scope, data));
}

bool ltide_left_in_order(const void *data) { return scope_of(data)->in_order; }

int ltide_block_index(const void *data) { return scope_of(data)->index; }

/* Lua's own warn without a string of Lua's, which could be refused. */
static void warn_of(lua_State *L, const ltide_scope *s, const char *text) {
  char message[160 + LUA_IDSIZE];
  if (s->line)
    snprintf(message, sizeof message, "%s: block opened at %s:%d %s", s->what, s->source, s->line, text);
  else
    snprintf(message, sizeof message, "%s: %s", s->what, text);
  lua_warning(L, message, 0);
}

static int find_scope(const ltide_record *r, const ltide_scope *s) {
  for (int i = r->depth - 1; i >= 0; i--)
    if (r->scopes[i] == s) return i;
  return -1;
}

/* Leaves s, which is at the index, and abandons the scopes that are open inside it. */
static void leave_scope(lua_State *L, ltide_scope *s, int index, bool in_order) {
  if (!s->open) return;
  ltide_record *r = s->record;
  ltide_bind_record(L, r);
  while (r->depth > 0 && r->scopes[--r->depth] != s) {
    ltide_scope *inner = r->scopes[r->depth];
    inner->open = false;
    inner->leave(NULL, inner->data);
    warn_of(L, inner, "was still open when the one around it ended");
  }
  s->open = false, s->index = index, s->in_order = in_order;
  s->leave(L, s->data);
}

/* What a block set is its own coroutine's, and so is the list it stands in: another one would leave its own state. */
static void check_owner(lua_State *L, const ltide_scope *s) {
  if (s->open && s->record != ltide_record_of(L))
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
 * with the block that calls it, after an error the pcall that caught that, and where a coroutine is closed nobody. */
static bool closed_in_order(lua_State *L, const ltide_scope *s) {
  lua_Debug ar;
  if (s->runs || !lua_isnil(L, 2)) return false;
  return s->lent || (lua_getstack(L, 1, &ar) && lua_getinfo(L, "S", &ar) && *ar.what != 'C');
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
  leave_scope(L, s, 1, true);
  return 0;
}

static int scope_unwind(lua_State *L) {
  ltide_scope *s = ltide_test_meta(L, 1, ltide_state_of(L)->scope_meta);
  if (!s) return 0;
  check_owner(L, s);
  leave_scope(L, s, 1, closed_in_order(L, s));
  return 0;
}

static int scope_gc(lua_State *L) {
  ltide_scope *s = ltide_test_object(L, 1, SCOPE_META);
  if (!s || !s->open) return 0;
  s->open = false;
  s->leave(NULL, s->data);
  if (s->lent) { /* its coroutine goes too, and the record with it: that is not touched any more */
    warn_of(L, s, "the coroutine that ran its function was dropped; nothing was restored");
    return 0;
  }
  int at = s->record->scopes ? find_scope(s->record, s) : -1;
  if (at >= 0) {
    memmove(s->record->scopes + at, s->record->scopes + at + 1, sizeof(void *) * (size_t)(s->record->depth - at - 1));
    s->record->depth--;
  }
  warn_of(L, s, "was dropped without being closed; nothing was restored");
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

/* A place in the list of the coroutine's open scopes. */
static void reserve(lua_State *L, ltide_record *r, const char *what) {
  if (r->depth < r->capacity) return;
  int capacity = r->capacity ? 2 * r->capacity : 8;
  void *scopes = realloc(r->scopes, sizeof(void *) * (size_t)capacity);
  if (!scopes) ltide_error(L, "OutOfMemoryError", "%s: no memory for the block", what);
  r->scopes = scopes, r->capacity = capacity;
}

/* Pushes a scope that scripts may get to see. The record is kept alive by its first user value: a scope may outlive its
 * coroutine. */
static ltide_scope *push_scope(lua_State *L, size_t size) {
  ltide_scope *s = ltide_new_object(L, sizeof *s + size, 2);
  memset(s, 0, sizeof *s + size);
  ltide_setmetatable(L, SCOPE_META);
  lua_pushthread(L);
  lua_setiuservalue(L, -2, 1);
  note_place(L, s);
  return s;
}

/* Pushes a scope for a closure form, which no script gets to see: it is made once and serves again and again, because a
 * new object with a finaliser costs more than all the rest of a block. */
static ltide_scope *push_lent(lua_State *L, ltide_state *S) {
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
  s->lent = true;
  return s;
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
  ltide_scope *s = lua_touserdata(L, (int)slot);
  s->runs = false;
  leave_scope(L, s, (int)slot, true);
  luaL_checkstack(L, LUA_MINSTACK, "tide: results of a block");
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

static void *new_block(lua_State *L, const char *what, bool lent, ltide_leave_fn leave, size_t size) {
  ltide_state *S = ltide_enter(L);
  luaL_checkstack(L, 2 * LUA_MINSTACK, "tide: block");
  ltide_scope *s = lent ? push_lent(L, S) : push_scope(L, size);
  reserve(L, S->record, what);
  s->what = what, s->leave = leave, s->record = S->record;
  return s->data;
}

void *ltide_block_new(lua_State *L, const char *what, int fn_arg, ltide_leave_fn leave, size_t size) {
  return new_block(L, what, fn_arg && size <= LENT_DATA, leave, size);
}

void *ltide_block_new_with(lua_State *L, const char *what, ltide_leave_fn leave, size_t size) {
  void *data = new_block(L, what, false, leave, size);
  lua_insert(L, -2);
  lua_setiuservalue(L, -2, 2);
  return data;
}

int ltide_block_open(lua_State *L, int fn_arg) {
  ltide_scope *s = lua_touserdata(L, -1);
  s->record->scopes[s->record->depth++] = s;
  s->open = true;
  if (fn_arg) {
    lua_insert(L, fn_arg);
    return call_inside(L, fn_arg);
  }
  if (lua_getiuservalue(L, -1, 2) != LUA_TNIL) return 2;
  lua_pop(L, 1);
  return 1;
}

static void leave_nothing(lua_State *L, void *data) { (void)L, (void)data; }

int ltide_empty_block(lua_State *L, const char *what, int fn_arg) {
  ltide_block_new(L, what, fn_arg, leave_nothing, 0);
  return ltide_block_open(L, fn_arg);
}

void *ltide_block_data(lua_State *L, int index) {
  ltide_scope *s = lua_touserdata(L, index);
  return s->open ? s->data : NULL;
}

void ltide_open_blocks(lua_State *L, ltide_state *S) {
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
}
