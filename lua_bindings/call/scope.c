/* scope.c: scoped blocks in their two forms.
 *
 * A scope is a userdata with a leave function. The closure form marks it to-be-closed on the C stack and calls the
 * closure, so that an error unwinds through it with its traceback intact and a yield passes. But an error that ends a
 * coroutine unwinds nothing: Lua leaves what is to be closed as it is, for ever if nobody asks. So wherever an error
 * may do that, the closure is called in protected mode, and its error goes on from here once the block is left. The
 * object form returns the scope. Each coroutine's record lists its open scopes, outermost first: close() of one that is
 * not the innermost is an error and changes nothing, and so is closing another coroutine's; leaving a block abandons
 * what was left open inside it, with a warning; a dropped object warns when it is collected.
 *
 * Invariant: from the moment a block has changed something its scope is open, and leaving it allocates nothing. So
 * whatever needs memory comes first, in ltide_block_new, and no failure leaves a block in force. */
#include <stdlib.h>

#include "row.h"
#include "scope.h"
#include "block.h"

typedef struct ltide_scope {
  ltide_leave_fn leave;
  ltide_record *record;
  const char *what;
  bool open;
  bool pooled;   /* of a closure form: no script has it, it goes with its coroutine or back to the pool */
  bool runs;     /* of a closure form: its function has not returned */
  bool returned; /* likewise: it has, without an error */
  bool in_order, traced;
  int index; /* while it is left: where on the stack it is */
  int line;  /* 0: not known */
  char source[LUA_IDSIZE];
  int64_t data[]; /* a userdata is aligned for no more */
} ltide_scope;

struct ltide_scope_part {
  const void *meta;
  int pooled, pool; /* how many scopes wait to be reused, the registry reference of their list */
};
LTIDE_PART(scope)
LTIDE_PART_SIZE(scope)
LTIDE_PART_SIZE(turn)

#define SCOPE_META "tide.scope"
enum { POOLED_DATA = 64, POOL_SIZE = 16 };
static const char
    key_trace; /* in the registry: {coroutine, message, traceback} of the last error in a replica's block */

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

/* Lua gives __close the error that leaves the block, if one does, which may be nil. But in order it is the function
 * with the block that calls it, after an error the pcall that caught that, and where a coroutine is closed nobody. */
static bool closed_in_order(lua_State *L, const ltide_scope *s) {
  lua_Debug ar;
  if (s->returned) return true;
  if (s->runs || !lua_isnil(L, 2)) return false;
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
  leave_scope(L, s, 1, true);
  return 0;
}

static int scope_unwind(lua_State *L) {
  ltide_scope *s = ltide_test_meta(L, 1, ltide_scope_of(ltide_state_of(L))->meta);
  if (!s || !s->open) return 0;
  check_owner(L, s);
  leave_scope(L, s, 1, closed_in_order(L, s));
  return 0;
}

static int scope_gc(lua_State *L) {
  ltide_scope *s = ltide_test_object(L, 1, SCOPE_META);
  if (!s || !s->open) return 0;
  s->open = false;
  s->leave(NULL, s->data);
  if (s->pooled) { /* its coroutine goes too, and the record with it: that is not touched any more */
    warn_of(L, s, "the coroutine that ran its function was dropped; nothing was restored");
    return 0;
  }
  int at = s->record->scopes ? find_scope(s->record, s) : -1;
  if (at >= 0) {
    memmove(s->record->scopes + at, s->record->scopes + at + 1, sizeof(void *) * (size_t)(s->record->depth - at - 1));
    s->record->depth--;
  }
  warn_of(L, s,
          "was dropped without being closed; nothing was restored. Pass a function, or hold it by local _ <close>");
  return 0;
}

static int scope_tostring(lua_State *L) {
  ltide_scope *s = ltide_check_object(L, 1, SCOPE_META);
  return lua_pushfstring(L, "%s block (%s)", s->what, s->open ? "open" : "closed"), 1;
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
  lua_Debug ar;
  if (ltide_find_script(L, &ar)) s->line = ar.currentline, memcpy(s->source, ar.short_src, sizeof s->source);
  return s;
}

/* Pushes a scope for a closure form, which no script gets to see: it comes from a pool of the Lua state, because a
 * new object with a finaliser costs more than all the rest of a block. */
static ltide_scope *push_pooled(lua_State *L, ltide_state *S) {
  struct ltide_scope_part *pool = ltide_scope_of(S);
  ltide_scope *s;
  if (pool->pooled > 0) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, pool->pool);
    lua_rawgeti(L, -1, pool->pooled);
    lua_pushnil(L);
    lua_rawseti(L, -3, pool->pooled--);
    lua_remove(L, -2);
    s = lua_touserdata(L, -1);
  } else {
    s = ltide_new_object(L, sizeof *s + POOLED_DATA, 0);
    memset(s, 0, sizeof *s);
    ltide_setmetatable(L, SCOPE_META);
  }
  s->pooled = true;
  return s;
}

/* The scope at the top of the stack has been left without an error. */
static void back_to_pool(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  struct ltide_scope_part *pool = ltide_scope_of(S);
  const ltide_scope *s = lua_touserdata(L, -1);
  if (s->open || pool->pooled == POOL_SIZE) {
    lua_pop(L, 1);
    return;
  }
  lua_rawgeti(L, LUA_REGISTRYINDEX, pool->pool);
  lua_insert(L, -2);
  lua_rawseti(L, -2, ++pool->pooled);
  lua_pop(L, 1);
}

/* Pushes the traceback that was noted for the error at the index, or nil. */
static bool push_noted(lua_State *L, lua_State *co, int error) {
  int top = lua_gettop(L);
  bool noted = false;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_trace) == LUA_TTABLE) {
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    noted = lua_tothread(L, -2) == co && lua_rawequal(L, -1, error);
    lua_rawgeti(L, top + 1, noted ? 3 : 0);
  }
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
  return noted;
}

/* The message handler of blocks in replicas, whose errors tide.parallel reports: notes the traceback before it is lost,
 * but not when an inner block lets the error go on. */
static int note_trace(lua_State *L) {
  ltide_record *r = ltide_record_of(L);
  bool again = r->raises && push_noted(L, L, 1);
  r->raises = false;
  lua_settop(L, 1);
  if (again || lua_type(L, 1) != LUA_TSTRING) return 1;
  lua_createtable(L, 3, 0);
  lua_pushthread(L);
  lua_rawseti(L, -2, 1);
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, 2);
  ltide_traceback(L, L, NULL, 1);
  lua_rawseti(L, -2, 3);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_trace);
  return 1;
}

void ltide_push_trace(lua_State *L, lua_State *co) {
  bool noted = push_noted(L, co, lua_gettop(L));
  lua_pushnil(L); /* it is told once */
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_trace);
  if (noted) return;
  lua_pop(L, 1);
  ltide_traceback(L, co, NULL, 0);
}

/* May an error end this coroutine, so that nothing is unwound? The main one is not resumed, as a rule. */
static bool may_die(lua_State *L, const ltide_state *S) { return !LTIDE_CLOSES || L != S->main || lua_isyieldable(L); }

static int guarded_done(lua_State *L, int status, lua_KContext context) {
  return status == LUA_OK || status == LUA_YIELD ? lua_gettop(L) : lua_error(L);
}

/* The second upvalue tells; the first is a function's row. */
bool ltide_unguarded(lua_State *L) { return lua_isnone(L, lua_upvalueindex(2)) && may_die(L, ltide_enter(L)); }

int ltide_guarded(lua_State *L, lua_CFunction fn) {
  luaL_checkstack(L, 2, "tide: arguments");
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushboolean(L, 1);
  lua_pushcclosure(L, fn, 2);
  lua_insert(L, 1);
  return guarded_done(L, lua_pcallk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, 0, guarded_done), 0);
}

/* Stack: the scope at `slot`, in a replica's block the message handler, then the results or the error. */
static int scoped_done(lua_State *L, int status, lua_KContext slot) {
  ltide_scope *s = lua_touserdata(L, (int)slot);
  bool failed = status != LUA_OK && status != LUA_YIELD;
  s->runs = false, s->returned = true;
  if (failed || !lua_checkstack(L, LUA_MINSTACK + 8)) { /* the call of __close may need that many */
    leave_scope(L, s, (int)slot, !failed);
    s->record->raises = failed;
    return failed ? lua_error(L) : luaL_error(L, "stack overflow (results of a block)");
  }
  if (s->traced) lua_remove(L, (int)slot + 1);
  if (s->pooled) {
    lua_pushvalue(L, (int)slot);
    lua_closeslot(L, (int)slot);
    back_to_pool(L);
  } else {
    if (lua_getiuservalue(L, (int)slot, 2) == LUA_TNIL) lua_pop(L, 1);
    lua_closeslot(L, (int)slot);
  }
  return lua_gettop(L) - (int)slot;
}

/* Stack: the scope at fn_arg, the closure and its arguments behind it. */
static int call_inside(lua_State *L, int fn_arg) {
  ltide_scope *s = lua_touserdata(L, fn_arg);
  int n = lua_gettop(L) - fn_arg - 1, handler = 0;
  s->runs = true, s->returned = s->traced = false;
  lua_toclose(L, fn_arg);
  if (!may_die(L, s->record->state)) {
    lua_callk(L, n, LUA_MULTRET, fn_arg, scoped_done);
    return scoped_done(L, LUA_OK, fn_arg);
  }
  if (s->record->replica) {
    s->traced = true, handler = fn_arg + 1;
    lua_pushcfunction(L, note_trace);
    lua_insert(L, handler);
  }
  return scoped_done(L, lua_pcallk(L, n, LUA_MULTRET, handler, fn_arg, scoped_done), fn_arg);
}

static void *new_block(lua_State *L, const char *what, bool pooled, ltide_leave_fn leave, size_t size) {
  ltide_state *S = ltide_enter(L);
  luaL_checkstack(L, 2 * LUA_MINSTACK, "tide: block");
  ltide_scope *s = pooled ? push_pooled(L, S) : push_scope(L, size);
  reserve(L, S->record, what);
  s->what = what, s->leave = leave, s->record = S->record;
  return s->data;
}

void *ltide_block_new(lua_State *L, const char *what, int fn_arg, ltide_leave_fn leave, size_t size) {
  return new_block(L, what, fn_arg && size <= POOLED_DATA, leave, size);
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

int ltide_check_block(lua_State *L, int arg) {
  if (lua_isnoneornil(L, arg)) return 0;
  if (!lua_isfunction(L, arg)) ltide_arg_error(L, arg, "fn", "a function or nothing");
  return arg;
}

static void leave_nothing(lua_State *L, void *data) {}

int ltide_empty_block(lua_State *L, const char *what, int fn_arg) {
  ltide_block_new(L, what, fn_arg, leave_nothing, 0);
  return ltide_block_open(L, fn_arg);
}

void *ltide_block_data(lua_State *L, int index) {
  ltide_scope *s = lua_touserdata(L, index);
  return s->open ? s->data : NULL;
}

/* {==== Waiting, in a replica of tide.parallel */

const char ltide_turn;

/* What other blocks set is the thread's or the process's. */
static bool scopes_own(const ltide_record *r) {
  static const char *const own[] = {"cuda.device", "cuda.device_of", "cuda.stream",  "Stream:use",
                                    "tide.scope",  "use_mem_pool",   "memory.scope", NULL};
  for (int i = 0; i < r->depth; i++) {
    const char *const *name = own;
    while (*name && strcmp(*name, r->scopes[i]->what)) name++;
    if (!*name) return false;
  }
  return true;
}

/* Calls the function at `at` again with the arguments below it: what lies above was given by who resumed. */
static int waited(lua_State *L, int status, lua_KContext at) {
  lua_CFunction fn = lua_tocfunction(L, (int)at);
  lua_settop(L, (int)at - 1);
  return fn(L);
}

bool ltide_may_yield(lua_State *L, const ltide_state *S) {
  struct ltide_turn_part *turn = ltide_turn_of(S);
  return turn->in_frame == L && turn->wait && lua_isyieldable(L);
}

int ltide_yield_again(lua_State *L, lua_CFunction fn) {
  ltide_turn_of(ltide_enter(L))->awaits = true;
  lua_pushcfunction(L, fn);
  return lua_yieldk(L, 0, lua_gettop(L), waited);
}

int ltide_waiting(lua_State *L, lua_CFunction fn) {
  ltide_state *S = ltide_enter(L);
  return ltide_may_yield(L, S) ? ltide_turn_of(S)->wait(L, fn) : ltide_in_turn(L, fn);
}

int ltide_in_turn(lua_State *L, lua_CFunction fn) {
  ltide_state *S = ltide_enter(L);
  if (!S->record->turns || !lua_isyieldable(L) || !scopes_own(S->record)) return fn(L);
  lua_pushcfunction(L, fn);
  lua_pushlightuserdata(L, (void *)&ltide_turn);
  return lua_yieldk(L, 1, lua_gettop(L) - 1, waited);
}

/* {==== Opening */

void ltide_open_blocks(lua_State *L, ltide_state *S) {
  struct ltide_scope_part *pool = ltide_scope_of(S);
  static const luaL_Reg meta[] = {{"__close", scope_unwind}, {"__gc", scope_gc}, {"__tostring", scope_tostring}, {0}};
  static ltide_row methods[] = {OF(scope, close, FN(scope_close), "()", "Ends the block, as <close> does."){0}};
  lua_createtable(L, POOL_SIZE, 0); /* it never grows: putting one back allocates nothing */
  pool->pool = luaL_ref(L, LUA_REGISTRYINDEX);
  pool->meta = ltide_new_class(L, SCOPE_META, meta, "scope", methods, NULL);
}
