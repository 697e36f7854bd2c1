/* compose.c: functions that are made of others: joins and splits, products, sums over named dimensions, statistics.
 *
 * What is computed is written in Lua, in tensor/compose.lua, contract.lua, distance.lua, einsum.lua and statistics.lua.
 * Here the arguments are read and checked by the row's signature; the chunk gets their values in its order, dimensions
 * counted from 1, and returns new handles. It calls the module's functions as they were registered, whatever a script
 * has set in their place.
 *
 * Invariant: what the chunk returns is no handle of the caller's, so that out= may empty it. */

#include "call/each.h"
#include "tensor.h"

/* {==== What the chunks cannot do themselves */

typedef struct search {
  const char *name;
  const ltide_row *found;
} search;

static void seek(void *ctx, const char *path, const ltide_row *row) {
  search *s = ctx;
  bool is_there = !strcmp(path, "tide") || !strcmp(path, "Tensor");
  if (!s->found && is_there && row->fn && !strcmp(row->name, s->name)) s->found = row;
}

/* builtin(name, ...): the functions or methods of tensors. */
static int script_builtin(lua_State *L) {
  int n = lua_gettop(L);
  luaL_checkstack(L, n + 1, "builtin");
  for (int i = 1; i <= n; i++) {
    search s = {lua_tostring(L, i), NULL};
    ltide_each_row(seek, &s);
    if (!s.found) return ltide_error(L, "StateError", "tide: there is no builtin %s", s.name);
    lua_pushlightuserdata(L, (void *)s.found);
    lua_pushcclosure(L, s.found->fn, 1);
  }
  return n;
}

static const tide_tensor *tensor_of(lua_State *L, int arg) {
  return ltide_check_tensor(L, ltide_enter(L), arg, "an operand");
}

static int script_is_tensor(lua_State *L) {
  return ltide_give_boolean(L, ltide_test_tensor(L, ltide_enter(L), 1) != NULL);
}

/* sizes_of(x): a plain table. */
static int script_sizes_of(lua_State *L) {
  const tide_tensor *x = tensor_of(L, 1);
  return ltide_push_integers(L, tide_tensor_size(x), tide_tensor_ndim(x)), 1;
}

static int script_strides_of(lua_State *L) {
  const tide_tensor *x = tensor_of(L, 1);
  return ltide_push_integers(L, tide_tensor_stride(x), tide_tensor_ndim(x)), 1;
}

/* dtype_of(x): its name and its kind. */
static int script_dtype_of(lua_State *L) {
  tide_dtype dtype = tide_tensor_dtype(tensor_of(L, 1));
  char kind = tide_dtype_kind(dtype);
  lua_pushstring(L, tide_dtype_name(dtype));
  lua_pushlstring(L, &kind, 1);
  return 2;
}

static int script_dtype_kind(lua_State *L) {
  char kind = tide_dtype_kind(ltide_check_dtype(L, 1, "dtype"));
  return lua_pushlstring(L, &kind, 1), 1;
}

static int script_default_dtype(lua_State *L) {
  return lua_pushstring(L, tide_dtype_name(tide_get_default_dtype())), 1;
}

/* promoted(a, b): the names of dtypes. */
static int script_promoted(lua_State *L) {
  tide_dtype a = ltide_check_dtype(L, 1, "dtype"), b = ltide_check_dtype(L, 2, "dtype");
  return lua_pushstring(L, tide_dtype_name(tide_dtype_promote(a, b))), 1;
}

static int script_place_of(lua_State *L) {
  int device = tide_tensor_device(tensor_of(L, 1));
  if (device < 0)
    lua_pushliteral(L, "cpu");
  else
    lua_pushfstring(L, "cuda:%d", device);
  return 1;
}

/* char_at(text, i): one character, "" behind the end. */
static int script_char_at(lua_State *L) {
  size_t size;
  const char *text = lua_tolstring(L, 1, &size);
  lua_Integer i = lua_tointeger(L, 2);
  return lua_pushlstring(L, text + i - 1, i >= 1 && (size_t)i <= size), 1;
}

/* layout_key(text, tensors): a string that equal texts and tensors that lie alike have in common, and no others. Which
 * of them are one and the same tensor counts, too. */
static int script_layout_key(lua_State *L) {
  lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (lua_Integer i = 1; i <= n; i++) {
    int64_t head[4] = {0};
    lua_rawgeti(L, 2, i);
    const tide_tensor *x = tensor_of(L, -1);
    while (lua_rawgeti(L, 2, ++head[0]), !lua_rawequal(L, -1, -2)) lua_pop(L, 1);
    lua_pop(L, 2);
    head[1] = tide_tensor_dtype(x), head[2] = tide_tensor_device(x), head[3] = tide_tensor_ndim(x);
    luaL_addlstring(&b, (const char *)head, sizeof head);
    luaL_addlstring(&b, (const char *)tide_tensor_size(x), (size_t)head[3] * sizeof(int64_t));
    luaL_addlstring(&b, (const char *)tide_tensor_stride(x), (size_t)head[3] * sizeof(int64_t));
  }
  lua_pushvalue(L, 1);
  luaL_addvalue(&b);
  return luaL_pushresult(&b), 1;
}

static ltide_tensor *made(lua_State *L) { return ltide_new_tensor(L, ltide_enter(L)); }

/* cross_of(a, b), cdist_of(x, y, kind): what the core has of them, by the numbers of tide_distance. */
static int script_cross_of(lua_State *L) {
  const tide_tensor *a = tensor_of(L, 1), *b = tensor_of(L, 2);
  return ltide_give_tensors(L, ltide_enter(L), tide_cross(&made(L)->t, a, b), 1);
}

static int script_cdist_of(lua_State *L) {
  const tide_tensor *x = tensor_of(L, 1), *y = tensor_of(L, 2);
  tide_distance kind = (tide_distance)lua_tointeger(L, 3);
  return ltide_give_tensors(L, ltide_enter(L), tide_cdist(&made(L)->t, x, y, kind), 1);
}

/* plain(value): the table of a shape's values in its place. */
static int script_plain(lua_State *L) {
  lua_settop(L, 1);
  ltide_plain_shape(L, 1);
  return 1;
}

/* {==== Dtypes */

static int lresult_type(lua_State *L, ltide_call *c) {
  tide_operand in[2] = {c->v[0].operand, c->v[1].operand};
  tide_dtype dtype = TIDE_INT64;
  bool numbers = !in[0].tensor && !in[1].tensor;
  if (numbers && (in[0].number.kind != 'I' || in[1].number.kind != 'I')) dtype = tide_get_default_dtype();
  if (!numbers) ltide_try(L, tide_result_dtype(&dtype, TIDE_OP_mul, in));
  return ltide_push_dtype(L, dtype), 1;
}

#include <rows/compose.inc>

void ltide_open_compose(lua_State *L, ltide_state *S) {
  LTIDE_GIVE(L, "tensor/compose.c", builtin, is_tensor, sizes_of, strides_of, dtype_of, dtype_kind, default_dtype,
             promoted, place_of, char_at, plain, layout_key, cross_of, cdist_of);
  ltide_register_rows(L, "tide", compose_rows);
}
