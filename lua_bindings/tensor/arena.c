/* arena.c: tide.scope, which frees the tensors made inside.
 *
 * An arena is the ring of the handles made while it was the innermost of its coroutine; all others are in the ring of
 * the state. So a handle can always be taken out of its ring, and freeing, collecting or keeping it takes O(1). What
 * survives an inner scope belongs to the outer one from then on, also where the inner one was dropped or abandoned
 * without being closed.
 *
 * Invariant: an arena lives as long as whoever may still add to it. Its scope holds it, an inner arena holds the outer
 * one, and the record of a replica of tide.parallel holds the one around the call; one whose scope is gone has ended,
 * holds no handle, and whoever comes to it goes on to the nearest outer one that has not. */
#include <stdlib.h>

#include "call/scope.h"
#include "call/block.h"
#include "tensor.h"

typedef struct ltide_arena {
  int references;
  bool ended;
  bool interrupts;           /* opened in a finaliser */
  struct ltide_arena *outer; /* a reference */
  ltide_state *state;
  ltide_record *record; /* of the coroutine in whose chain it stands, until it ends */
  ltide_link handles;
} ltide_arena;

static ltide_arena *retain(ltide_arena *a) {
  if (a) a->references++;
  return a;
}

static void release(ltide_arena *a) {
  while (a && !--a->references) {
    ltide_arena *outer = a->outer;
    ltide_tensor_of(a->state)->arenas--;
    free(a);
    a = outer;
  }
}

/* The nearest that takes handles, a itself or one around it. */
static ltide_arena *nearest(ltide_arena *a) {
  while (a && a->ended) a = a->outer;
  return a;
}

static ltide_tensor *tensor_of(ltide_link *l) { return (ltide_tensor *)l; }

/* To the ring of the arena, or of the state where that is NULL. */
static void move(ltide_tensor *u, ltide_state *S, ltide_arena *to) {
  ltide_link_remove(&u->link);
  ltide_link_add(to ? &to->handles : &S->handles, &u->link);
  u->arena = to;
}

void ltide_arena_add(ltide_state *S, ltide_tensor *u) {
  ltide_arena *a = S->arena;
  if (a->ended) a = S->arena = nearest(a);
  ltide_link_add(a ? &a->handles : &S->handles, &u->link);
  u->arena = a;
}

void ltide_arena_remove(ltide_tensor *u) {
  if (u->arena) move(u, u->arena->state, NULL);
}

static void forget(ltide_record *r) {
  release(r->inherited);
  r->inherited = NULL;
}

void ltide_arena_inherit(ltide_record *r, ltide_arena *a) {
  release(r->inherited);
  r->arena = r->inherited = retain(nearest(a));
  r->forget = forget;
}

static void free_all(ltide_arena *a) {
  for (ltide_link *l = a->handles.next; l != &a->handles; l = a->handles.next) {
    ltide_tensor *u = tensor_of(l);
    tide_tensor *t = u->t;
    u->t = NULL;
    move(u, a->state, NULL);
    tide_tensor_release(t);
  }
}

/* For the collector, later, or for the scope around it. */
static void hand_on(ltide_arena *a) {
  ltide_arena *outer = nearest(a->outer);
  while (a->handles.next != &a->handles) move(tensor_of(a->handles.next), a->state, outer);
}

/* {==== The block */

static ltide_arena *arena_of(const void *data) {
  ltide_arena *a;
  memcpy(&a, data, sizeof a);
  return a;
}

/* Frees what was made inside; where the scope was dropped or abandoned, nothing. Nor where a finaliser ends a block of
 * the program: it may have interrupted a call that uses what is inside. */
static void leave_arena(lua_State *L, void *data) {
  ltide_arena *a = arena_of(data), **at = a->state->record == a->record ? &a->state->arena : &a->record->arena;
  if (*at == a) *at = nearest(a->outer);
  if (L && (a->interrupts || !ltide_is_interrupting(L, a->state)))
    free_all(a);
  else
    hand_on(a);
  a->ended = true, a->record = NULL;
  release(a);
}

/* A result that the arena would free belongs to the one around it from now on. */
static void keep(ltide_tensor *u, ltide_arena *from) {
  if (u->arena != from) return;
  move(u, from->state, nearest(from->outer));
}

/* Keeps the tensor at the top of the stack; a table that is not known yet is added to the list of those that are looked
 * through, which knows its tables as keys too. Pops the value. */
static void keep_value(lua_State *L, ltide_state *S, int list, ltide_arena *from) {
  ltide_tensor *u = ltide_test_handle(L, S, -1);
  if (u) {
    keep(u, from);
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

/* Stack: the scope, results. The scope is still open, so that its arena can be searched. */
static int kept(lua_State *L, int status, lua_KContext context) {
  ltide_state *S = ltide_enter(L);
  void *data = ltide_block_data(L, 1);
  if (data) keep_trees(L, S, 2, lua_gettop(L), arena_of(data));
  return lua_gettop(L) - 1;
}

/* What runs inside: scope, fn, arguments -> results of fn, which stay. */
static int run_inside(lua_State *L) {
  lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, kept);
  return kept(L, LUA_OK, 0);
}

static int lscope(lua_State *L, ltide_call *c) {
  ltide_state *S = c->S;
  int fn_arg = c->v[0].at;
  void *data = ltide_block_new(L, "tide.scope", 0, leave_arena, sizeof(ltide_arena *));
  ltide_arena *a = calloc(1, sizeof *a);
  if (!a) return ltide_error(L, "OutOfMemoryError", "scope: no memory for the block");
  *a = (ltide_arena){.references = 1, .outer = retain(nearest(S->arena)), .state = S, .record = S->record};
  ltide_tensor_of(S)->arenas++;
  ltide_link_clear(&a->handles);
  a->interrupts = ltide_is_interrupting(L, S);
  memcpy(data, &a, sizeof a);
  S->arena = a;
  if (fn_arg) {
    lua_pushcfunction(L, run_inside);
    lua_insert(L, 1);
    lua_pushvalue(L, -1);
    lua_insert(L, 2);
  }
  return ltide_block_open(L, fn_arg);
}

static int lkeep(lua_State *L, ltide_call *c) {
  ltide_arena_remove(lua_touserdata(L, 1));
  return ltide_self(L, TIDE_OK);
}

#define NOUN arena
#include "call/api/open_noun.def"
