/* tensor.c: the tensor userdata, its inspection and its end.
 *
 * A handle is created closed and filled after core has succeeded, so an error in between leaves nothing behind. Its
 * end, __close and :free() all empty the handle, so each may come after any other. Only its end may come at any moment,
 * inside other calls too: it hands the tensor to core's deferred list instead of releasing it. The runner's allocator
 * tells when Lua frees a handle's block; elsewhere handles have a finaliser, which costs several times as much and
 * keeps each for another cycle of the collector. */
#include "tide/fuse.h"

#include "tensor.h"

static const char key_ipairs;

/* The state whose allocator tells when a handle's block is freed, and where the handle lies in that. */
static struct {
  ltide_state *state;
  char *block;
  size_t room, offset;
} told;

/* {==== Handles */

LTIDE_PART_SIZE(tensor)

ltide_tensor *ltide_new_tensor(lua_State *L, ltide_state *S) {
  ltide_tensor *u = lua_newuserdatauv(L, sizeof *u, 0);
  u->t = NULL, u->arena = NULL, u->seal = 0;
  ltide_enter_again(L);
  if (S->arena)
    ltide_arena_add(S, u);
  else
    ltide_link_add(&S->handles, &u->link);
  u->seal = S->tensor_seal ^ (uintptr_t)u;
  lua_rawgeti(L, LUA_REGISTRYINDEX, S->tensor_ref);
  lua_setmetatable(L, -2);
  return u;
}

int ltide_result_or_self(lua_State *L, ltide_state *S, ltide_tensor *u, const tide_tensor *x, int arg) {
  if (u->t == x) {
    tide_tensor_release(u->t);
    u->t = NULL;
    lua_pushvalue(L, arg);
  }
  ltide_made(L, S);
  return 1;
}

/* Empties the handle; the caller owns what it held. */
static tide_tensor *close_handle(ltide_tensor *u) {
  tide_tensor *t = u->t;
  u->t = NULL;
  if (u->arena) ltide_arena_remove(u);
  return t;
}

void ltide_close_tensor(ltide_tensor *u) { tide_tensor_release(close_handle(u)); }

/* The handle has come to its end, at any moment. */
static void gone(ltide_state *S, ltide_tensor *u) {
  tide_tensor *t = u->t;
  u->t = NULL, u->arena = NULL;
  ltide_link_remove(&u->link);
  ltide_link_clear(&u->link);
  if (!t && S->pin_count) t = ltide_take_deferred(S, u);
  if (t) tide_tensor_release_deferred(t);
}

/* The state is an upvalue, since at its end nothing may be entered. */
static int ltensor_gc(lua_State *L) {
  ltide_state *S = lua_touserdata(L, lua_upvalueindex(1));
  ltide_tensor *u = ltide_test_handle(L, S, 1);
  if (u) gone(S, u);
  return 0;
}

/* What is left at the end of the state; what else is made until Lua has ended as well holds nothing. */
void ltide_handles_end(ltide_state *S) {
  if (told.state == S) ltide_handle_block = 0;
  for (ltide_link *l = S->handles.next; l != &S->handles; l = S->handles.next) {
    ltide_tensor *u = (ltide_tensor *)l;
    tide_tensor *t = u->t;
    u->t = NULL;
    ltide_link_remove(l);
    ltide_link_clear(l);
    tide_tensor_release(t);
  }
}

/* {==== Handles without a finaliser */

lua_Alloc ltide_notifying_alloc;
size_t ltide_handle_block;

/* A word of a foreign block of that size may hold anything, a script's own bytes too, but no seal of ours: that is
 * random and wiped when a handle ends. */
void ltide_handle_gone(void *block) {
  ltide_tensor *u = (ltide_tensor *)((char *)block + told.offset);
  if (u->seal != (told.state->tensor_seal ^ (uintptr_t)u)) return;
  u->seal = 0;
  gone(told.state, u);
}

/* The first block that is taken. */
static void *note_block(void *user, void *ptr, size_t old, size_t size) {
  void *block = ltide_notifying_alloc(user, ptr, old, size);
  if (!ptr && !told.block) told.block = block, told.room = size;
  return block;
}

/* Looks where in its block a handle lies. */
static bool will_be_told(lua_State *L, ltide_state *S) {
  void *user;
  if (!ltide_notifying_alloc || lua_getallocf(L, &user) != ltide_notifying_alloc || ltide_handle_block) return false;
  told.block = NULL;
  lua_setallocf(L, note_block, user);
  char *u = lua_newuserdatauv(L, sizeof(ltide_tensor), 0);
  lua_setallocf(L, ltide_notifying_alloc, user);
  lua_pop(L, 1);
  told.offset = (size_t)(u - told.block), told.state = S;
  memset(u, 0, sizeof(ltide_tensor));
  if (u < told.block || told.offset + sizeof(ltide_tensor) != told.room) return false;
  ltide_handle_block = told.room;
  return true;
}

static int ltensor_free(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  ltide_tensor *u = ltide_test_handle(L, S, 1);
  if (!u) return ltide_arg_error(L, 1, "x", "a tensor");
  ltide_no_options(L, 1);
  if (u->t && ltide_is_interrupting(L, S)) {
    if (ltide_defer_release(S, u) && u->arena) ltide_arena_remove(u);
    return ltide_give_boolean(L, false);
  }
  tide_tensor *t = close_handle(u);
  bool is_gone = false;
  if (t && tide_tensor_is_pending(t)) {
    tide_tensor_release(t); /* no memory goes with it */
  } else if (t) {
    tide_storage *storage = tide_tensor_storage(t);
    tide_storage_retain(storage);
    tide_tensor_release(t);
    is_gone = tide_storage_refs(storage) == 1;
    tide_storage_release(storage);
  }
  return ltide_give_boolean(L, is_gone);
}

/* Lua gives the error, if there is one, as a second argument. */
static int ltensor_close(lua_State *L) {
  lua_settop(L, 1);
  return ltensor_free(L);
}

/* {==== Inspection */

/* The tensor of a method of at most so many arguments. */
static tide_tensor *self_of(lua_State *L, int most) {
  ltide_state *S = ltide_begin(L);
  ltide_no_options(L, most);
  return ltide_check_tensor(L, S, 1, "x");
}
static tide_tensor *self(lua_State *L) { return self_of(L, 1); }

/* One of the numbers that `of` gives for each dim, or all. */
static inline int extents(lua_State *L, const int64_t *(*of)(const tide_tensor *x)) {
  const tide_tensor *x = self_of(L, 2);
  ltide_named(L, 2, LTIDE_NAMES("dim"));
  int ndim = tide_tensor_ndim(x);
  if (!lua_isnoneornil(L, 2)) return ltide_give_integer(L, of(x)[ltide_check_dim(L, 2, ndim, "dim")]);
  return ltide_push_integers(L, of(x), ndim), 1;
}

static int ltensor_size(lua_State *L) { return extents(L, tide_tensor_size); }
static int ltensor_stride(lua_State *L) { return extents(L, tide_tensor_stride); }

static size_t item_size(const tide_tensor *x) { return tide_dtype_size(tide_tensor_dtype(x)); }
static char kind_of(const tide_tensor *x) { return tide_dtype_kind(tide_tensor_dtype(x)); }

static int ltensor_dim(lua_State *L) { return ltide_give_integer(L, tide_tensor_ndim(self(L))); }
static int ltensor_numel(lua_State *L) { return ltide_give_integer(L, tide_tensor_numel(self(L))); }
static int ltensor_element_size(lua_State *L) { return ltide_give_integer(L, (int64_t)item_size(self(L))); }
static int ltensor_offset(lua_State *L) { return ltide_give_integer(L, tide_tensor_offset(self(L))); }
static int ltensor_data_ptr(lua_State *L) {
  return ltide_give_integer(L, (int64_t)(intptr_t)tide_tensor_data(self(L)));
}
static int ltensor_is_contiguous(lua_State *L) { return ltide_give_boolean(L, tide_tensor_is_contiguous(self(L))); }
static int ltensor_is_pinned(lua_State *L) {
  return ltide_give_boolean(L, tide_storage_is_pinned(tide_tensor_storage(self(L))));
}
static int ltensor_is_floating_point(lua_State *L) { return ltide_give_boolean(L, kind_of(self(L)) == 'F'); }
static int ltensor_is_complex(lua_State *L) { return ltide_give_boolean(L, kind_of(self(L)) == 'C'); }

static int ltensor_nbytes(lua_State *L) {
  tide_tensor *x = self(L);
  return ltide_give_integer(L, tide_tensor_numel(x) * (int64_t)item_size(x));
}

static int ltensor_get_device(lua_State *L) {
  int device = tide_tensor_device(self(L));
  return ltide_give_integer(L, device == TIDE_CPU ? -1 : device);
}

static int ltensor_len(lua_State *L) {
  tide_tensor *x = ltide_check_tensor(L, ltide_enter(L), 1, "tensor");
  if (!tide_tensor_ndim(x))
    return ltide_error(L, "ShapeError", "#: a tensor without dimensions has no length; use item()");
  return ltide_give_integer(L, tide_tensor_size(x)[0]);
}

static int ltensor_eq(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_tensor *a = ltide_test_handle(L, S, 1), *b = ltide_test_handle(L, S, 2);
  return ltide_give_boolean(L, a && b && a->t && b->t && tide_tensor_same_view(a->t, b->t));
}

static int ltensor_order(lua_State *L) {
  return ltide_error(
      L, "ArgumentError",
      "tensors have no order: use x:lt(y), x:le(y), x:gt(y) or x:ge(y) for each element, x:item() < y for one number");
}

/* The iterator of x:iter() and pairs(x): state x, control i. */
static int next_row(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  int64_t before = ltide_check_integer(L, 2, "i"), i = before + 1 - ltide_base(L);
  if (!tide_tensor_ndim(x) || i < 0 || i >= tide_tensor_size(x)[0]) return 0;
  lua_pushinteger(L, before + 1);
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_select(&u->t, x, 0, i));
  return 2;
}

static int ltensor_iter(lua_State *L) {
  tide_tensor *x = self(L);
  if (!tide_tensor_ndim(x)) return ltide_fail(L, "ShapeError", "a tensor without dimensions has no rows");
  lua_pushcfunction(L, next_row);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, ltide_base(L) - 1);
  return 3;
}

/* By the address of its iterator, which was noted when the module opened. */
bool ltide_is_read_by_ipairs(lua_State *L) {
  lua_Debug ar;
  if (!lua_getstack(L, 1, &ar)) return false;
  lua_getinfo(L, "f", &ar);
  lua_CFunction reader = lua_tocfunction(L, -1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_ipairs);
  bool is_it = reader && reader == lua_tocfunction(L, -1);
  lua_pop(L, 2);
  return is_it;
}

/* Notes the iterator of ipairs, as what its own library gives for it. */
static void note_ipairs(lua_State *L) {
  int top = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_GNAME) == LUA_TTABLE && lua_getfield(L, -1, "ipairs") == LUA_TFUNCTION &&
      lua_iscfunction(L, -1)) {
    lua_newtable(L);
    lua_call(L, 1, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_ipairs);
  }
  lua_settop(L, top);
}

static int ltensor_record_stream(lua_State *L, ltide_call *c) {
  return ltide_self(L, tide_tensor_record_stream(c->x, c->v[1].stream));
}

static int lis_tensor(lua_State *L) { return ltide_give_boolean(L, ltide_test_handle(L, ltide_enter(L), 1) != NULL); }

/* {==== Opening */

static void make_metatable(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {
      {"__close", ltensor_close}, {"__len", ltensor_len},    {"__eq", ltensor_eq}, {"__lt", ltensor_order},
      {"__le", ltensor_order},    {"__pairs", ltensor_iter}, {NULL, NULL}};
  ltide_newmetatable(L, "tide.Tensor");
  luaL_setfuncs(L, meta, 0);
  S->tensor_seal = (uintptr_t)tide_random_seed();
  if (!will_be_told(L, S)) {
    lua_pushlightuserdata(L, S);
    lua_pushcclosure(L, ltensor_gc, 1);
    lua_setfield(L, -2, "__gc");
  }
  S->tensor_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

#include <rows/tensor_tensor.inc>

void ltide_open_tensor(lua_State *L, ltide_state *S) {
  int module = lua_gettop(L);
  ltide_push_methods(L);
  lua_setfield(L, module, "Tensor");
  make_metatable(L, S);
  note_ipairs(L);
  ltide_register_rows(L, "tide", tensor_tensor_rows);
}
