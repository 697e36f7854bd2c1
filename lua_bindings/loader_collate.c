/* loader_collate.c: how the items of a batch become one value.
 *
 * Tensors are stacked, numbers and booleans become a tensor, tables are walked by key, strings stay a list. Everything
 * that may fail for what the items are is looked at here, in the Lua thread, and the results are allocated here, those
 * that go on to a device on it; what is left is copying, which is noted in the job. The handles that are made belong to
 * no tide.scope yet: a batch that is prepared ahead is handed out in a later call, and the iterator adds them to the
 * scope of that one.
 *
 * Invariant: the job owns a reference to every tensor that its copies touch, from the moment the copy is noted. */
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "loader.h"
#include "tree.h"

enum { DEEPEST = 100 }; /* tables in tables: more is a circle */

/* Pushes a new closed handle, and notes it. */
static ltide_tensor *push_handle(lua_State *L, const ltide_loader_batch *b) {
  ltide_tensor *u = ltide_new_tensor(L, b->S);
  ltide_arena_remove(u);
  lua_pushvalue(L, -1);
  lua_rawseti(L, b->handles, (lua_Integer)lua_rawlen(L, b->handles) + 1);
  return u;
}

/* Pushes what a copy of the job's fills: on the device, or in host memory where that has no room or is to be first, or
 * where the lane is one of before a reset: such a batch is refused when it is to be moved, with its number. */
static tide_tensor *push_target(lua_State *L, ltide_loader_batch *b, const int64_t *size, int ndim, tide_dtype dtype) {
  ltide_tensor *u = push_handle(L, b);
  tide_status status = b->lane ? ltide_loader_lane_empty(b->lane, &u->t, size, ndim, dtype) : TIDE_MEMORY;
  if (status == TIDE_OK && b->lane) {
    b->job->ring = b->lane->ring;
  } else if (status == TIDE_MEMORY || status == TIDE_STATE) {
    tide_options o = {dtype, TIDE_CPU, b->pin};
    status = tide_empty(&u->t, size, ndim, &o);
  }
  ltide_try(L, status);
  return u->t;
}

static ltide_loader_copy *new_copy(lua_State *L, ltide_loader_batch *b, tide_tensor *into, int n, bool stacked) {
  ltide_loader_copy *c = calloc(1, sizeof *c + (size_t)n * sizeof *c->items);
  if (!c) ltide_error(L, "OutOfMemoryError", "loader: no host memory for the list of %d items", n);
  *c = (ltide_loader_copy){.next = b->job->copies, .stacked = stacked, .n = n, .into = into};
  tide_tensor_retain(into);
  b->job->copies = c;
  return c;
}

static void hold(ltide_loader_copy *c, tide_tensor *x) {
  tide_tensor_retain(x);
  c->items[c->held++] = x;
}

/* Item i (from 0) at `item` does not go with the first, at `first`. */
static int refuse(lua_State *L, const ltide_loader_batch *b, int i, const char *path, int item, int first) {
  const char *got = ltide_typename(L, item), *expected = ltide_typename(L, first);
  return ltide_error(L, "ShapeError", "loader: dataset[%I]%s: got %s, expected one like dataset[%I]%s, which is %s",
                     (lua_Integer)b->index[i], path, got, (lua_Integer)b->index[0], path, expected);
}

static bool like(const tide_tensor *x, const tide_tensor *y) {
  int n = tide_tensor_ndim(x);
  return n == tide_tensor_ndim(y) && tide_tensor_device(x) == tide_tensor_device(y) &&
         !memcmp(tide_tensor_size(x), tide_tensor_size(y), (size_t)n * sizeof(int64_t));
}

/* Tensors of an accelerator are stacked there and now: it does the work on its own anyway. */
static void stack_there(lua_State *L, ltide_loader_batch *b, int items) {
  tide_tensor **list = ltide_new_object(L, (size_t)b->n * sizeof(tide_tensor *), 0);
  for (int i = 0; i < b->n; i++) {
    lua_rawgeti(L, items, i + 1);
    list[i] = ltide_check_tensor(L, b->S, -1, "item");
    ltide_hold_tensor(L, b->S, list[i]);
    lua_pop(L, 1);
  }
  ltide_tensor *u = push_handle(L, b);
  ltide_try(L, tide_stack(&u->t, list, b->n, 0, NULL));
  ltide_made(L, b->S);
}

static void collate_tensors(lua_State *L, ltide_loader_batch *b, int items, int first, const char *path) {
  tide_tensor *x = ltide_check_tensor(L, b->S, first, "item");
  tide_dtype dtype = tide_tensor_dtype(x);
  for (int i = 1; i < b->n; i++) {
    lua_rawgeti(L, items, i + 1);
    tide_tensor *y = ltide_test_tensor(L, b->S, -1);
    if (!y || !like(x, y)) refuse(L, b, i, path, lua_gettop(L), first);
    if (tide_tensor_dtype(y) != dtype) dtype = tide_dtype_promote(dtype, tide_tensor_dtype(y));
    lua_pop(L, 1);
  }
  if (tide_tensor_device(x) != TIDE_CPU) {
    stack_there(L, b, items);
    return;
  }
  int64_t size[TIDE_MAX_DIMS + 1] = {b->n};
  int ndim = tide_tensor_ndim(x);
  memcpy(size + 1, tide_tensor_size(x), (size_t)ndim * sizeof *size);
  ltide_loader_copy *c = new_copy(L, b, push_target(L, b, size, ndim + 1, dtype), b->n, true);
  for (int i = 0; i < b->n; i++) {
    lua_rawgeti(L, items, i + 1);
    hold(c, ltide_check_tensor(L, b->S, -1, "item"));
    lua_pop(L, 1);
  }
}

/* Numbers and booleans: few bytes, written at once. Integers give int64; one float among them makes all float32. */
static void collate_scalars(lua_State *L, ltide_loader_batch *b, int items, int first, const char *path) {
  bool integers = true;
  for (int i = 0; i < b->n; i++) {
    lua_rawgeti(L, items, i + 1);
    if (lua_type(L, -1) != lua_type(L, first)) refuse(L, b, i, path, lua_gettop(L), first);
    integers = integers && lua_isinteger(L, -1);
    lua_pop(L, 1);
  }
  int64_t size = b->n;
  tide_dtype dtype = lua_isboolean(L, first) ? TIDE_BOOL : integers ? TIDE_INT64 : TIDE_FLOAT32;
  tide_tensor *x = push_target(L, b, &size, 1, dtype);
  if (tide_tensor_device(x) != TIDE_CPU) { /* written here, and sent through the ring */
    ltide_loader_copy *c = new_copy(L, b, x, 1, false);
    tide_options o = {dtype, TIDE_CPU, false};
    ltide_try(L, tide_empty(&x, &size, 1, &o));
    c->items[c->held++] = x;
  }
  void *data = tide_tensor_data(x);
  for (int i = 0; i < b->n; i++) {
    lua_rawgeti(L, items, i + 1);
    if (dtype == TIDE_BOOL)
      ((bool *)data)[i] = lua_toboolean(L, -1);
    else if (dtype == TIDE_INT64)
      ((int64_t *)data)[i] = lua_tointeger(L, -1);
    else
      ((float *)data)[i] = (float)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
}

static void collate_strings(lua_State *L, ltide_loader_batch *b, int items, int first, const char *path) {
  lua_createtable(L, b->n, 0);
  for (int i = 0; i < b->n; i++) {
    lua_rawgeti(L, items, i + 1);
    if (lua_type(L, -1) != LUA_TSTRING) refuse(L, b, i, path, lua_gettop(L), first);
    lua_rawseti(L, -2, i + 1);
  }
}

static void collate(lua_State *L, ltide_loader_batch *b, int items, const char *path, int depth);

static lua_Integer count_keys(lua_State *L, int t) {
  lua_Integer n = 0;
  for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1)) n++;
  return n;
}

/* Pushes the path with the key at `key` added to it. */
static const char *push_path(lua_State *L, const char *path, int key) {
  const char *name = luaL_tolstring(L, key, NULL);
  lua_pushfstring(L, lua_type(L, key) == LUA_TSTRING ? "%s.%s" : "%s[%s]", path, name);
  lua_remove(L, -2);
  return lua_tostring(L, -1);
}

static void collate_tables(lua_State *L, ltide_loader_batch *b, int items, int first, const char *path, int depth) {
  lua_Integer keys = count_keys(L, first);
  for (int i = 1; i < b->n; i++) {
    lua_rawgeti(L, items, i + 1);
    int item = lua_gettop(L);
    if (!lua_istable(L, item)) refuse(L, b, i, path, item, first);
    if (count_keys(L, item) != keys)
      ltide_error(L, "ShapeError", "loader: dataset[%I]%s: got %I keys, expected the %I of dataset[%I]%s",
                  (lua_Integer)b->index[i], path, count_keys(L, item), keys, (lua_Integer)b->index[0], path);
    lua_settop(L, item - 1);
  }
  lua_newtable(L);
  int result = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, first); lua_settop(L, result + 1)) {
    const char *below = push_path(L, path, result + 1);
    lua_createtable(L, b->n, 0);
    int list = lua_gettop(L);
    for (int i = 0; i < b->n; i++) {
      lua_rawgeti(L, items, i + 1);
      lua_pushvalue(L, result + 1);
      if (lua_rawget(L, -2) == LUA_TNIL)
        ltide_error(L, "ShapeError", "loader: dataset[%I]%s: got nothing, expected one like dataset[%I]%s",
                    (lua_Integer)b->index[i], below, (lua_Integer)b->index[0], below);
      lua_rawseti(L, list, i + 1);
      lua_pop(L, 1);
    }
    collate(L, b, list, below, depth + 1);
    lua_pushvalue(L, result + 1);
    lua_insert(L, -2);
    lua_rawset(L, result);
  }
}

/* Pushes one value for the list of items at `items`. */
static void collate(lua_State *L, ltide_loader_batch *b, int items, const char *path, int depth) {
  luaL_checkstack(L, 20, "loader: collate");
  ltide_plain_shapes(L, items, b->n);
  lua_rawgeti(L, items, 1);
  int first = lua_gettop(L), type = lua_type(L, first);
  if (depth > DEEPEST)
    ltide_error(L, "ValueError", "loader: dataset[%I]: got tables nested more than %d deep, expected fewer",
                (lua_Integer)b->index[0], DEEPEST);
  if (ltide_test_tensor(L, b->S, first))
    collate_tensors(L, b, items, first, path);
  else if (type == LUA_TNUMBER || type == LUA_TBOOLEAN)
    collate_scalars(L, b, items, first, path);
  else if (type == LUA_TSTRING)
    collate_strings(L, b, items, first, path);
  else if (type == LUA_TTABLE)
    collate_tables(L, b, items, first, path, depth);
  else
    ltide_error(L, "ArgumentError",
                "loader: dataset[%I]%s: got %s, expected tensors, numbers, booleans, strings or tables of them, or "
                "collate= a function that takes such items",
                (lua_Integer)b->index[0], path, ltide_typename(L, first));
  lua_replace(L, first);
  lua_settop(L, first);
}

void ltide_loader_collate(lua_State *L, ltide_loader_batch *b, int items) { collate(L, b, items, "", 0); }

/* A tensor that the function gave as it is: one that the innermost tide.scope would free goes to the one in which the
 * batch is handed out. */
static void note_own(lua_State *L, void *user, int index, tide_tensor *x) {
  const ltide_loader_batch *b = user;
  ltide_tensor *u = ltide_test_handle(L, b->S, index);
  (void)x;
  if (!u->arena || u->arena != b->S->arena) return;
  ltide_arena_remove(u);
  lua_pushvalue(L, index);
  lua_rawseti(L, b->handles, (lua_Integer)lua_rawlen(L, b->handles) + 1);
}

/* Pushes what takes the place of x. What goes on to a device is copied from pinned memory after the batch has come, so
 * it is in memory of the loader's, and in handles of its own: the script's stay where they are. */
static void push_pinned(lua_State *L, void *user, int index, tide_tensor *x) {
  ltide_loader_batch *b = user;
  bool host = tide_tensor_device(x) == TIDE_CPU, pinned = host && tide_storage_is_pinned(tide_tensor_storage(x));
  if (host && (pinned ? b->device : b->pin)) {
    tide_tensor *into = push_target(L, b, tide_tensor_size(x), tide_tensor_ndim(x), tide_tensor_dtype(x));
    hold(new_copy(L, b, into, 1, false), x);
  } else if (b->device) {
    ltide_tensor *u = push_handle(L, b);
    tide_tensor_retain(x);
    u->t = x;
  } else {
    note_own(L, b, index, x);
    lua_pushvalue(L, index);
  }
}

static bool has_metafield(lua_State *L, int index, const char *name) {
  bool has = luaL_getmetafield(L, index, name) != LUA_TNIL;
  if (has) lua_pop(L, 1);
  return has;
}

/* What has to be ended is ended once: there is no second one of it. */
static bool stays(lua_State *L, void *user, int index) {
  ltide_loader_batch *b = user;
  if (!has_metafield(L, index, "__gc") && !has_metafield(L, index, "__close")) return false;
  if (b->device)
    ltide_error(L, "ArgumentError",
                "loader: collate: got a table with __gc or __close, which is not copied, expected none with device=");
  if (b->S->arena) ltide_visit_tree(L, b->S, index, note_own, b);
  return true;
}

void ltide_loader_pin(lua_State *L, ltide_loader_batch *b) {
  int value = lua_gettop(L);
  if (b->pin || b->device) {
    ltide_map_tree_but(L, b->S, value, push_pinned, stays, b);
    lua_replace(L, value);
  } else if (b->S->arena) {
    ltide_visit_tree(L, b->S, value, note_own, b);
  }
}
