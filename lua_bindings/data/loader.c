/* loader.c: tide.data.loader, the batches of a dataset.
 *
 * How items are asked for and become a batch is written in Lua, in data/loader.lua; how a batch is copied ahead, and on
 * to a device, is core's (tide/loader.h). Here are the objects, and what tensors need. Everything that may fail for
 * what the items are is looked at here or there, in the thread that iterates; what is left is copying.
 *
 * Invariant: a loop that is broken off, by `break`, an error or the collector, leaves nothing behind. */
#include "tide/loader.h"

#include "call/each.h"
#include "tensor/tensor.h"

#define LOADER_META    "tide.data.Loader"
#define ITERATION_META "tide.data.Iteration"

/* User value 1 of both: a table of the chunk's, what the loader was made of and what is known of the iteration. */
typedef struct loader {
  tide_stream *stream; /* on which batches go to a device, from the first iteration on */
  bool closed;         /* by the collector: a finaliser may have it still */
} loader;

typedef struct iteration {
  tide_loader *l;
  bool open;
} iteration;

/* {==== Objects */

static int loader_gc(lua_State *L) {
  loader *o = ltide_test_object(L, 1, LOADER_META);
  if (!o) return 0;
  tide_stream_release(o->stream);
  o->stream = NULL, o->closed = true;
  return 0;
}

/* Both __gc and __close. The user value goes too, as a closed iteration may be kept for long. */
static int script_close_iteration(lua_State *L) {
  iteration *it = ltide_test_object(L, 1, ITERATION_META);
  if (!it || !it->open) return 0;
  it->open = false;
  tide_loader_close(it->l);
  lua_pushnil(L);
  lua_setiuservalue(L, 1, 1);
  return 0;
}

static int iteration_gc(lua_State *L) {
  iteration *it = ltide_test_object(L, 1, ITERATION_META);
  script_close_iteration(L);
  if (it) tide_loader_free(it->l), it->l = NULL;
  return 0;
}

static loader *check_loader(lua_State *L) {
  loader *o = ltide_test_object(L, 1, LOADER_META);
  if (!o) ltide_arg_error(L, 1, "loader", "what tide.data.loader gives");
  return o;
}

/* Calls the chunk's function with the object at 1, its table, and the argument `more`, if it is none of 0. */
static int call_with_table(lua_State *L, const char *name, int more) {
  lua_pushvalue(L, 1);
  lua_getiuservalue(L, 1, 1);
  if (more) lua_pushvalue(L, more);
  return ltide_script_call(L, name, more ? 3 : 2);
}

/* {==== Iterations, for the chunk. Each takes the iteration first. */

static iteration *to_iteration(lua_State *L) { return ltide_test_object(L, 1, ITERATION_META); }

/* new_iteration(loader, s, device, prefetch, pin_memory) */
static int script_new_iteration(lua_State *L) {
  loader *o = ltide_test_object(L, 1, LOADER_META);
  iteration *it = ltide_new_object(L, sizeof *it, 1);
  *it = (iteration){NULL, false};
  ltide_setmetatable(L, ITERATION_META);
  lua_pushvalue(L, 2);
  lua_setiuservalue(L, -2, 1);
  ltide_enter_again(L);
  ltide_try(L, tide_loader_new(&it->l, &o->stream, (int)lua_tointeger(L, 3), lua_tointeger(L, 4), lua_toboolean(L, 5)));
  it->open = true;
  return 1;
}

static int script_is_open(lua_State *L) { return ltide_give_boolean(L, to_iteration(L)->open); }

static int script_ask_for_next(lua_State *L) {
  ltide_enter(L); /* a dataset may have run coroutines */
  return ltide_done(L, tide_loader_ask(to_iteration(L)->l));
}

static int script_begin_batch(lua_State *L) {
  ltide_enter(L);
  return ltide_done(L, tide_loader_begin(to_iteration(L)->l));
}

static int script_queue_batch(lua_State *L) {
  const char *source = "";
  int line = ltide_line(L, &source);
  return ltide_done(L, tide_loader_queue(to_iteration(L)->l, source, line));
}

/* Pushes the addresses of the tensors of the handles in the list at 2. */
static tide_tensor ***push_addresses(lua_State *L, int n) {
  tide_tensor ***list = ltide_new_object(L, (size_t)n * sizeof *list, 0);
  for (int i = 0; i < n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 2, i + 1);
    list[i] = &((ltide_tensor *)lua_touserdata(L, -1))->t;
    if (*list[i]) continue; /* else it was by a finaliser of the script's */
    lua_settop(L, 1);
    script_close_iteration(L);
    ltide_error(L, "StateError", "loader: got a batch with a freed tensor, expected all alive; the iteration ends");
  }
  return list;
}

/* take_batch(it, handles): the oldest batch goes to the tide.scope around this call, as if it were made in it. Gives
 * the kind and the message of an error that leaves it out; one that finds no room is there for the next call. */
static int script_take_batch(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_loader *l = to_iteration(L)->l;
  int n = (int)lua_rawlen(L, 2);
  tide_status status = tide_loader_wait(l);
  if (status == TIDE_OK) {
    tide_tensor ***list = push_addresses(L, n);
    status = tide_loader_bring(l, (tide_tensor * *const *)list, n);
    if (status == TIDE_MEMORY) return ltide_raise(L);
  }
  if (status != TIDE_OK) {
    lua_pushstring(L, tide_status_kind(status));
    lua_pushstring(L, tide_error_get()->message);
    return 2;
  }
  ltide_made(L, S);
  for (int i = 1; S->arena && i <= n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 2, i);
    ltide_tensor *u = lua_touserdata(L, -1);
    ltide_link_remove(&u->link);
    ltide_arena_add(S, u);
  }
  return 0;
}

/* {==== Tensors of a batch, for the chunk */

/* Pushes a new closed handle, and notes it in the list at `handles`. */
static ltide_tensor *push_handle(lua_State *L, ltide_state *S, int handles) {
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_arena_remove(u);
  lua_pushvalue(L, -1);
  lua_rawseti(L, handles, (lua_Integer)lua_rawlen(L, handles) + 1);
  return u;
}

static bool like(const tide_tensor *x, const tide_tensor *y) {
  int n = tide_tensor_ndim(x);
  return n == tide_tensor_ndim(y) && tide_tensor_device(x) == tide_tensor_device(y) &&
         !memcmp(tide_tensor_size(x), tide_tensor_size(y), (size_t)n * sizeof(int64_t));
}

/* For stack functions: the item of this number, from 0, does not go with the first. */
static int refuse(lua_State *L, int i) {
  lua_pushnil(L);
  lua_pushinteger(L, i + 1);
  return 2;
}

/* stack_items(it, items, n, handles) -> tensor. Those of an accelerator are stacked there and now: it does the work
 * on its own anyway. */
static int script_stack_items(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_loader *l = to_iteration(L)->l;
  int n = (int)lua_tointeger(L, 3);
  tide_tensor **list = ltide_new_object(L, (size_t)n * sizeof *list, 0);
  tide_dtype dtype = TIDE_DTYPE_NONE;
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 2, i + 1);
    list[i] = ltide_test_tensor(L, S, -1);
    if (!list[i] || !like(list[0], list[i])) return refuse(L, i);
    tide_dtype own = tide_tensor_dtype(list[i]);
    dtype = !i || own == dtype ? own : tide_dtype_promote(dtype, own);
    lua_pop(L, 1);
  }
  ltide_tensor *u = push_handle(L, S, 4);
  if (tide_tensor_device(list[0]) != TIDE_CPU) {
    for (int i = 0; i < n; i++) ltide_hold_tensor(L, S, list[i]);
    ltide_try(L, tide_stack(&u->t, list, n, 0, NULL));
  } else {
    int ndim = tide_tensor_ndim(list[0]);
    int64_t size[TIDE_MAX_DIMS + 1] = {n};
    memcpy(size + 1, tide_tensor_size(list[0]), (size_t)ndim * sizeof *size);
    ltide_try(L, tide_loader_empty(&u->t, l, size, ndim + 1, dtype));
    ltide_try(L, tide_loader_fill(l, u->t, list, n, true));
  }
  ltide_made(L, S);
  return 1;
}

/* stack_numbers(it, items, n, handles) -> tensor, of numbers or booleans: few bytes, written at once. Integers give
 * int64; one float among them makes all float32. */
static int script_stack_numbers(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_loader *l = to_iteration(L)->l;
  int64_t n = lua_tointeger(L, 3);
  lua_rawgeti(L, 2, 1);
  int type = lua_type(L, -1);
  tide_dtype dtype = type == LUA_TBOOLEAN ? TIDE_BOOL : TIDE_INT64;
  for (int i = 0; i < n; i++, lua_pop(L, 1)) {
    if (lua_rawgeti(L, 2, i + 1) != type) return refuse(L, i);
    if (type == LUA_TNUMBER && !lua_isinteger(L, -1)) dtype = TIDE_FLOAT32;
  }
  ltide_tensor *u = push_handle(L, S, 4), *host = u;
  ltide_try(L, tide_loader_empty(&u->t, l, &n, 1, dtype));
  if (tide_tensor_device(u->t) != TIDE_CPU) { /* written in host memory, and sent from there */
    tide_options o = {dtype, TIDE_CPU, false};
    host = ltide_new_tensor(L, S);
    ltide_try(L, tide_empty(&host->t, &n, 1, &o));
    ltide_try(L, tide_loader_fill(l, u->t, &host->t, 1, false));
  }
  void *data = tide_tensor_data(host->t);
  for (int i = 0; i < n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 2, i + 1);
    if (dtype == TIDE_BOOL)
      ((bool *)data)[i] = lua_toboolean(L, -1);
    else if (dtype == TIDE_INT64)
      ((int64_t *)data)[i] = lua_tointeger(L, -1);
    else
      ((float *)data)[i] = (float)lua_tonumber(L, -1);
  }
  if (host != u) {
    ltide_close_tensor(host);
    lua_pop(L, 1);
  }
  return 1;
}

/* note_own(x, handles): a tensor that the function gave as it is: one that the innermost tide.scope would free goes to
 * the one in which the batch is given out. */
static int script_note_own(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_tensor *u = ltide_test_handle(L, S, 1);
  if (!u->arena || u->arena != S->arena) return 0;
  ltide_arena_remove(u);
  lua_pushvalue(L, 1);
  lua_rawseti(L, 2, (lua_Integer)lua_rawlen(L, 2) + 1);
  return 0;
}

/* pin_tensor(it, x, handles, pin, moves): what takes the place of x. What goes on to a device is copied from pinned
 * memory after the batch has come, so it is in memory of the loader's, and in handles of its own: the script's stay
 * where they are. */
static int script_pin_tensor(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_loader *l = to_iteration(L)->l;
  tide_tensor *x = ltide_check_tensor(L, S, 2, "item");
  bool host = tide_tensor_device(x) == TIDE_CPU, pinned = host && tide_storage_is_pinned(tide_tensor_storage(x));
  bool pin = lua_toboolean(L, 4), moves = lua_toboolean(L, 5);
  if (host && (pinned ? moves : pin)) {
    ltide_tensor *u = push_handle(L, S, 3);
    ltide_try(L, tide_loader_empty(&u->t, l, tide_tensor_size(x), tide_tensor_ndim(x), tide_tensor_dtype(x)));
    ltide_try(L, tide_loader_fill(l, u->t, &x, 1, false));
  } else if (moves) {
    ltide_tensor *u = push_handle(L, S, 3);
    tide_tensor_retain(x);
    u->t = x;
  } else {
    lua_remove(L, 1);
    script_note_own(L);
    lua_settop(L, 1);
  }
  return 1;
}

static int script_in_scope(lua_State *L) { return ltide_give_boolean(L, ltide_enter(L)->arena != NULL); }

/* {==== The dataset, for the chunk */

static void push_item(lua_State *L, lua_Integer i) {
  if (lua_type(L, 1) == LUA_TFUNCTION) {
    lua_pushvalue(L, 1), lua_pushinteger(L, i);
    lua_call(L, 1, 1);
  } else
    lua_geti(L, 1, i);
  if (lua_isnil(L, -1)) ltide_error(L, "ValueError", "loader: dataset[%I]: got nil, expected an item", i);
}

/* get_items(dataset, order or nil, start, n) -> list of those from start + 1 on, list of their numbers. */
static int script_get_items(lua_State *L) {
  lua_Integer start = lua_tointeger(L, 3), n = lua_tointeger(L, 4);
  ltide_state *S = ltide_enter(L);
  const int64_t *order = lua_isnil(L, 2) ? NULL : tide_tensor_data(ltide_check_tensor(L, S, 2, "order"));
  lua_createtable(L, (int)n, 0), lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_Integer number = order ? order[start + i - 1] : start + i;
    lua_pushinteger(L, number);
    lua_rawseti(L, 6, i);
    push_item(L, number);
    lua_rawseti(L, 5, i);
  }
  ltide_enter(L); /* a dataset may have run coroutines */
  return 2;
}

static int script_length(lua_State *L) { return lua_len(L, 1), 1; }

/* shuffle(n, generator): the numbers 1 to n in another order. */
static int script_shuffle(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  lua_settop(L, 2);
  tide_generator *g = lua_isnil(L, 2) ? NULL : ltide_check_generator(L, 2, "generator");
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_arena_remove(u);
  tide_options o = {TIDE_INT64, TIDE_CPU, false};
  return ltide_give(L, tide_randperm(&u->t, lua_tointeger(L, 1), &o, g));
}

/* A dataset: item i are the rows of the columns, which are the upvalue, under the same keys. */
static int get_rows(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  int64_t i = ltide_check_integer(L, 1, "i") - 1;
  lua_settop(L, 1);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, lua_upvalueindex(1)); lua_settop(L, 3)) {
    const tide_tensor *x = ltide_check_tensor(L, S, 4, "dataset");
    lua_pushvalue(L, 3);
    ltide_try(L, tide_select(&ltide_new_tensor(L, S)->t, x, 0, i));
    lua_rawset(L, 2);
  }
  return 1;
}

static int script_rows_getter(lua_State *L) { return lua_pushcclosure(L, get_rows, 1), 1; }

static int script_plain_shapes(lua_State *L) { return ltide_plain_shapes(L, 1, (int)lua_tointeger(L, 2)), 0; }

/* {==== The functions */

static int iteration_call(lua_State *L) {
  ltide_enter(L);
  ltide_check_object(L, 1, ITERATION_META);
  return call_with_table(L, "data/loader.step", 0);
}

static int lloader_iter(lua_State *L) {
  if (check_loader(L)->closed) return ltide_freed_error(L, "loader", "loader");
  lua_settop(L, 1);
  call_with_table(L, "data/loader.iter", 0);
  lua_pushnil(L), lua_pushnil(L), lua_pushvalue(L, -3);
  return 4;
}

static int lloader_call(lua_State *L) {
  ltide_enter(L);
  if (check_loader(L)->closed) return ltide_freed_error(L, "loader", "loader");
  lua_settop(L, 3);
  return call_with_table(L, "data/loader.call", 3);
}

static int lloader_len(lua_State *L) {
  ltide_enter(L);
  check_loader(L);
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, 1);
  ltide_script_call(L, "data/loader.length", 1);
  lua_settop(L, 2);
  return 1;
}

/* new_loader(self) */
static int script_new_loader(lua_State *L) {
  *(loader *)ltide_new_object(L, sizeof(loader), 1) = (loader){NULL, false};
  ltide_setmetatable(L, LOADER_META);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

/* {==== Registration */

#include <rows/loader_loader.inc>

#include <rows/loader.inc>

void ltide_open_loader(lua_State *L, ltide_state *S) {
  static const luaL_Reg loader_meta[] = {{"__len", lloader_len}, {"__gc", loader_gc}, {"__call", lloader_call}, {0}},
                        iteration_meta[] = {{"__call", iteration_call},
                                            {"__gc", iteration_gc},
                                            {"__close", script_close_iteration},
                                            {0}};
  LTIDE_GIVE(L, "data/loader.c", new_loader, new_iteration, is_open, close_iteration, ask_for_next, begin_batch,
             queue_batch, take_batch, stack_items, stack_numbers, note_own, pin_tensor, in_scope, get_items, length,
             shuffle, rows_getter, plain_shapes);
  ltide_new_class(L, ITERATION_META, iteration_meta, NULL, NULL, NULL);
  ltide_new_class(L, LOADER_META, loader_meta, "Loader", loader_loader_rows, NULL);
  ltide_register_in(L, "tide.data", loader_rows);
}
