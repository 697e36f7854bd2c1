/* convert.c: Lua values to tensors and back: tide.tensor, item, totable, strings of bytes.
 *
 * A nested table is walked twice: the first walk finds the shape, checks every leaf and joins the dtypes; the second
 * writes the values to a staging buffer, a userdata, so that no error can lose it. 16-bit floats are staged in float32
 * and cast by core. A tensor inside a table is a block of its own shape, read back to the host. */
#include <math.h>

#include "call/did_you_mean.h"
#include "call/block.h"
#include "tensor.h"

typedef struct builder {
  lua_State *L;
  ltide_state *S;
  int64_t size[TIDE_MAX_DIMS];
  int64_t place[TIDE_MAX_DIMS]; /* where the walk is, for messages */
  int ndim;                     /* -1 until the first leaf was seen */
  tide_dtype found, dtype;      /* of the leaves; of the staging buffer */
  bool is_beside;               /* a tensor: numbers count as they do there by themselves */
  size_t item;
  char *next; /* where the next value goes */
} builder;

/* A finaliser can change the table between the two walks, and a tensor in it. */
static void refuse_change(builder *b) {
  ltide_fail(b->L, "StateError", "data: it was changed while it was read, expected it to stay as it is");
}

/* {==== First walk: shape and dtype */

/* Pushes "data[1][2]". */
static const char *place_name(builder *b, int depth) {
  luaL_Buffer text;
  luaL_buffinit(b->L, &text);
  luaL_addstring(&text, "data");
  for (int d = 0; d < depth; d++) {
    lua_pushfstring(b->L, "[%I]", (lua_Integer)b->place[d]);
    luaL_addvalue(&text);
  }
  luaL_pushresult(&text);
  return lua_tostring(b->L, -1);
}

static void refuse_leaf(builder *b, int depth, const char *expected) {
  int leaf = lua_gettop(b->L);
  const char *got = ltide_typename(b->L, leaf), *where = place_name(b, depth),
             *hint = ltide_arg_hint(b->L, leaf, expected);
  ltide_fail(b->L, "ArgumentError", "%s: got %s, expected %s%s", where, got, expected, hint);
}

/* The value at `depth` has `levels` dimensions in all, at least, if it is a table: do all leaves agree? */
static void check_depth(builder *b, int depth, int levels) {
  if (b->ndim < 0)
    b->ndim = levels;
  else if (b->ndim != levels) {
    const char *where = place_name(b, depth);
    ltide_fail(b->L, "ShapeError", "%s: ragged table: got a value of %d dimensions, expected %d as before it", where,
               levels - depth, b->ndim - depth);
  }
}

static void check_length(builder *b, int depth, int64_t n, bool is_first) {
  if (is_first)
    b->size[depth] = n;
  else if (b->size[depth] != n) {
    const char *where = place_name(b, depth);
    ltide_fail(b->L, "ShapeError", "%s: ragged table: got %I values, expected %I as before it", where, (lua_Integer)n,
               (lua_Integer)b->size[depth]);
  }
}

static void join_dtype(builder *b, tide_dtype dtype) {
  if (b->found == TIDE_DTYPE_NONE)
    b->found = dtype;
  else if (b->found != dtype)
    b->found = tide_dtype_promote(b->found, dtype);
}

/* Looks at the value on top of the stack. is_first: no value has reached this depth before. */
static void survey(builder *b, int depth, bool is_first) {
  lua_State *L = b->L;
  switch (lua_type(L, -1)) {
  case LUA_TNUMBER: {
    bool is_integer = b->is_beside ? lua_isinteger(L, -1) : ltide_is_listed_integer(L, -1);
    join_dtype(b, is_integer ? TIDE_INT64 : tide_get_default_dtype());
    break;
  }
  case LUA_TBOOLEAN: join_dtype(b, TIDE_BOOL); break;
  case LUA_TTABLE: {
    if (depth == TIDE_MAX_DIMS) ltide_fail(L, "ShapeError", "data: got more than %d levels of tables", TIDE_MAX_DIMS);
    luaL_checkstack(L, 10, "tide.tensor");
    ltide_plain_shape(L, -1);
    int64_t n = (int64_t)lua_rawlen(L, -1);
    if (b->ndim >= 0 && depth >= b->ndim) check_depth(b, depth, depth + 1);
    check_length(b, depth, n, is_first);
    if (!n) {
      if (ltide_is_options(L, lua_gettop(L))) refuse_leaf(b, depth, "a table with an array part");
      check_depth(b, depth, depth + 1);
    }
    if (n && !depth) ltide_check_unnamed(L, -1, n, "data");
    for (int64_t i = 1; i <= n; i++) {
      b->place[depth] = i;
      lua_rawgeti(L, -1, i);
      survey(b, depth + 1, is_first && i == 1);
      lua_pop(L, 1);
    }
    return;
  }
  default: {
    tide_tensor *x = ltide_test_tensor(L, b->S, lua_gettop(L));
    if (!x) refuse_leaf(b, depth, "a number, a boolean, a table or a tensor");
    int n = tide_tensor_ndim(x);
    if (depth + n > TIDE_MAX_DIMS) ltide_fail(L, "ShapeError", "data: got more than %d dimensions", TIDE_MAX_DIMS);
    check_depth(b, depth, depth + n);
    for (int d = 0; d < n; d++) check_length(b, depth + d, tide_tensor_size(x)[d], is_first);
    join_dtype(b, tide_tensor_dtype(x));
    return;
  }
  }
  check_depth(b, depth, depth);
}

/* {==== Second walk: values */

static void refuse_value(builder *b, int depth) {
  const char *got = ltide_typename(b->L, -1), *where = place_name(b, depth);
  ltide_fail(b->L, "ValueError", "%s: got %s, which %s cannot hold", where, got, tide_dtype_name(b->dtype));
}

/* The value on top of the stack as an integer of the staging dtype; a fraction is cut off. */
static int64_t integer_of(builder *b, int depth) {
  lua_State *L = b->L;
  int64_t i = lua_toboolean(L, -1);
  if (lua_type(L, -1) == LUA_TNUMBER && lua_isinteger(L, -1))
    i = lua_tointeger(L, -1);
  else if (lua_type(L, -1) == LUA_TNUMBER) {
    double f = trunc(lua_tonumber(L, -1));
    if (!(f >= -0x1p63 && f < 0x1p63)) refuse_value(b, depth);
    i = (int64_t)f;
  }
  int bits = 8 * (int)b->item;
  int64_t most = b->dtype == TIDE_UINT8 ? 255 : bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
  int64_t least = b->dtype == TIDE_UINT8 ? 0 : -most - 1;
  if (i < least || i > most) refuse_value(b, depth);
  return i;
}

static double float_of(lua_State *L) { return lua_isboolean(L, -1) ? lua_toboolean(L, -1) : lua_tonumber(L, -1); }

static void write_value(builder *b, int depth) {
  lua_State *L = b->L;
  switch (b->dtype) {
  case TIDE_BOOL:
    *(uint8_t *)b->next = lua_isboolean(L, -1) ? (uint8_t)lua_toboolean(L, -1) : lua_tonumber(L, -1) != 0;
    break;
  case TIDE_UINT8: *(uint8_t *)b->next = (uint8_t)integer_of(b, depth); break;
  case TIDE_INT8: *(int8_t *)b->next = (int8_t)integer_of(b, depth); break;
  case TIDE_INT16: *(int16_t *)b->next = (int16_t)integer_of(b, depth); break;
  case TIDE_INT32: *(int32_t *)b->next = (int32_t)integer_of(b, depth); break;
  case TIDE_INT64: *(int64_t *)b->next = integer_of(b, depth); break;
  case TIDE_FLOAT32: *(float *)b->next = (float)float_of(L); break;
  case TIDE_FLOAT64: *(double *)b->next = float_of(L); break;
  case TIDE_COMPLEX64: ((float *)b->next)[0] = (float)float_of(L), ((float *)b->next)[1] = 0; break;
  default: ((double *)b->next)[0] = float_of(L), ((double *)b->next)[1] = 0; break;
  }
  b->next += b->item;
}

static void write_tensor(builder *b, const tide_tensor *x, int depth) {
  tide_options o = {b->dtype, TIDE_CPU, false};
  ltide_tensor *u = ltide_new_tensor(b->L, b->S);
  ltide_try(b->L, tide_to(&u->t, x, &o, false, false));
  int n = tide_tensor_ndim(u->t);
  if (n != b->ndim - depth || memcmp(tide_tensor_size(u->t), b->size + depth, (size_t)n * sizeof *b->size) != 0)
    refuse_change(b);
  ltide_try(b->L, tide_read(b->next, u->t));
  b->next += (size_t)tide_tensor_numel(u->t) * b->item;
  ltide_close_tensor(u);
  lua_pop(b->L, 1);
}

/* Writes the value on top of the stack. */
static void write(builder *b, int depth) {
  lua_State *L = b->L;
  if (lua_istable(L, -1)) {
    ltide_plain_shape(L, -1);
    if (depth >= b->ndim || (int64_t)lua_rawlen(L, -1) != b->size[depth]) refuse_change(b);
    for (int64_t i = 1; i <= b->size[depth]; i++) {
      b->place[depth] = i;
      lua_rawgeti(L, -1, i);
      write(b, depth + 1);
      lua_pop(L, 1);
    }
    return;
  }
  tide_tensor *x = lua_isuserdata(L, -1) ? ltide_test_tensor(L, b->S, lua_gettop(L)) : NULL;
  if (x)
    write_tensor(b, x, depth);
  else {
    if (depth != b->ndim || !(lua_type(L, -1) == LUA_TNUMBER || lua_isboolean(L, -1))) refuse_change(b);
    write_value(b, depth);
  }
}

static tide_dtype staging_dtype(tide_dtype dtype) {
  return dtype == TIDE_FLOAT16 || dtype == TIDE_BFLOAT16 ? TIDE_FLOAT32 : dtype;
}

/* Puts contiguous values of the staging dtype at data into a new tensor of the options' dtype and device. */
static void finish(lua_State *L, ltide_state *S, const void *data, const int64_t *size, int ndim, tide_dtype staged,
                   const tide_options *o) {
  if (staged == o->dtype) {
    ltide_tensor *u = ltide_new_tensor(L, S);
    ltide_try(L, tide_from_data(&u->t, data, size, ndim, o));
    return;
  }
  tide_options host = {staged, TIDE_CPU, false};
  ltide_tensor *wide = ltide_new_tensor(L, S), *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_from_data(&wide->t, data, size, ndim, &host));
  ltide_try(L, tide_to(&u->t, wide->t, o, false, false));
  ltide_close_tensor(wide);
  lua_remove(L, -2);
}

/* How far a dtype reaches: bool, integers, floating, complex. */
static int reach(tide_dtype dtype) {
  char kind = tide_dtype_kind(dtype);
  return kind == 'B' ? 0 : kind == 'F' ? 2 : kind == 'C' ? 3 : 1;
}

/* like: the dtype in which the values are read where it can hold their kind, as numbers beside a tensor are; or
 * NONE. */
static void push_converted(lua_State *L, ltide_state *S, int arg, const tide_options *options, tide_dtype like) {
  tide_options o = *options;
  builder b = {.L = L, .S = S, .ndim = -1, .found = TIDE_DTYPE_NONE, .is_beside = like != TIDE_DTYPE_NONE};
  lua_pushvalue(L, arg);
  survey(&b, 0, true);
  if (like != TIDE_DTYPE_NONE && (b.found == TIDE_DTYPE_NONE || reach(b.found) <= reach(like))) o.dtype = like;
  if (o.dtype == TIDE_DTYPE_NONE) o.dtype = b.found == TIDE_DTYPE_NONE ? tide_get_default_dtype() : b.found;
  b.dtype = staging_dtype(o.dtype), b.item = tide_dtype_size(b.dtype);
  size_t bytes = b.item;
  for (int d = 0; d < b.ndim; d++) bytes *= (size_t)b.size[d];
  char *buffer = b.next = ltide_new_object(L, bytes, 0);
  lua_pushvalue(L, -2);
  write(&b, 0);
  finish(L, S, buffer, b.size, b.ndim, b.dtype, &o);
  lua_replace(L, -4);
  lua_pop(L, 2);
  ltide_pace_taken(L, S);
}

void ltide_push_converted(lua_State *L, ltide_state *S, int arg, const tide_options *options) {
  push_converted(L, S, arg, options, TIDE_DTYPE_NONE);
}

void ltide_push_list_beside(lua_State *L, ltide_state *S, int arg, tide_dtype dtype, int device) {
  tide_options o = {TIDE_DTYPE_NONE, device, false};
  push_converted(L, S, arg, &o, dtype);
}

/* {==== Strings of bytes */

/* The tensor of the bytes at arg; size is NULL: one dimension of as many elements as there are. */
static int push_bytes(lua_State *L, ltide_state *S, int arg, const int64_t *size, int ndim, const tide_options *o) {
  size_t bytes, item = tide_dtype_size(o->dtype);
  const char *data = lua_tolstring(L, arg, &bytes);
  int64_t numel = 1, all = (int64_t)(bytes / item);
  if (!size) ndim = 1, size = &all;
  for (int d = 0; d < ndim; d++)
    if (__builtin_mul_overflow(numel, size[d], &numel)) numel = INT64_MAX / 16;
  if ((size_t)numel * item != bytes)
    return ltide_fail(L, "ValueError", "bytes: got %I bytes, expected %I: elements of %s take %d each",
                      (lua_Integer)bytes, (lua_Integer)((size_t)numel * item), tide_dtype_name(o->dtype), (int)item);
  ltide_tensor *u = ltide_new_tensor(L, S);
  return ltide_give_tensors(L, S, tide_from_data(&u->t, data, size, ndim, o), 1);
}

static int lfrom_string(lua_State *L, ltide_call *c) {
  if (lua_type(L, 1) != LUA_TSTRING) return ltide_arg_error(L, 1, "bytes", "a string");
  const ltide_value *sizes = ltide_get(L, c, "sizes");
  tide_options o = TIDE_OPTIONS;
  ltide_opt_options(L, c->opts, &o);
  if (o.dtype == TIDE_DTYPE_NONE) o.dtype = TIDE_UINT8;
  return push_bytes(L, c->S, 1, sizes->given ? sizes->sizes : NULL, sizes->n, &o);
}

static int ltensor_tostring_bytes(lua_State *L, ltide_call *c) {
  luaL_Buffer b;
  size_t bytes = (size_t)tide_tensor_numel(c->x) * tide_dtype_size(tide_tensor_dtype(c->x));
  char *to = luaL_buffinitsize(L, &b, bytes);
  ltide_try(L, tide_read(to, c->x));
  luaL_pushresultsize(&b, bytes);
  return 1;
}

/* {==== tide.tensor */

/* Pushes a tensor with the values of the argument at arg, a copy in every case. */
static int push_new(lua_State *L, ltide_state *S, int arg, const tide_options *o) {
  tide_tensor *x = ltide_test_tensor(L, S, arg);
  if (x) {
    ltide_tensor *u = ltide_new_tensor(L, S);
    ltide_try(L, tide_to(&u->t, x, o, false, true));
    ltide_made(L, S);
  } else if (lua_type(L, arg) == LUA_TSTRING) {
    if (o->dtype == TIDE_DTYPE_NONE)
      return ltide_fail(L, "ArgumentError", "data: got a string of bytes without a dtype, expected {dtype=}");
    push_bytes(L, S, arg, NULL, 0, o);
  } else
    ltide_push_converted(L, S, arg, o);
  return 1;
}

/* Of (data [, options]), with the data at `at`: what the options say, and where they say nothing x, unless NULL. */
static tide_options read_options(lua_State *L, int at, const tide_tensor *x) {
  ltide_args a = ltide_split(L, at);
  tide_options o = TIDE_OPTIONS;
  if (x) o = (tide_options){tide_tensor_dtype(x), tide_tensor_device(x), false};
  if (a.n < at) ltide_arg_error(L, at, "data", "a nested table, a number, a boolean, a tensor or a string of bytes");
  if (a.n > at && lua_type(L, at) == LUA_TNUMBER && lua_type(L, at + 1) == LUA_TNUMBER)
    ltide_fail(L, "ArgumentError", "data: got %d numbers, expected them in one table: {1, 2, 3}", a.n - at + 1);
  ltide_check_count(L, a, at);
  ltide_check_keys(L, a.opts, LTIDE_NAMES(LTIDE_OPTION_KEYS));
  ltide_opt_options(L, a.opts, &o);
  return o;
}

static int ltensor(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  tide_options o = read_options(L, 1, NULL);
  return push_new(L, S, 1, &o);
}

static int las_tensor(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  tide_tensor *x = ltide_test_tensor(L, S, 1);
  tide_options o = read_options(L, 1, x);
  if (!x) return push_new(L, S, 1, &o);
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_to(&u->t, x, &o, false, false));
  return ltide_result_or_self(L, S, u, x, 1);
}

static int ltensor_new_tensor(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  tide_options o = read_options(L, 2, ltide_check_tensor(L, S, 1, "x"));
  return push_new(L, S, 2, &o);
}

/* {==== Tensors to Lua values */

static int tensor_item_now(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  ltide_no_options(L, 1);
  tide_scalar s;
  ltide_try(L, tide_item(&s, ltide_check_tensor(L, S, 1, "x")));
  ltide_push_scalar(L, s);
  if (s.kind != 'C') return 1;
  lua_pushnumber(L, s.im);
  return 2;
}
static int ltensor_item(lua_State *L) { return ltide_waiting(L, tensor_item_now); }

/* Pushes the element of a contiguous host buffer; complex ones as a table of two numbers. */
static void push_element(lua_State *L, const char *at, tide_dtype dtype) {
  switch (dtype) {
  case TIDE_BOOL: lua_pushboolean(L, *(const uint8_t *)at); break;
  case TIDE_UINT8: lua_pushinteger(L, *(const uint8_t *)at); break;
  case TIDE_INT8: lua_pushinteger(L, *(const int8_t *)at); break;
  case TIDE_INT16: lua_pushinteger(L, *(const int16_t *)at); break;
  case TIDE_INT32: lua_pushinteger(L, *(const int32_t *)at); break;
  case TIDE_INT64: lua_pushinteger(L, *(const int64_t *)at); break;
  case TIDE_FLOAT32: lua_pushnumber(L, *(const float *)at); break;
  case TIDE_FLOAT64: lua_pushnumber(L, *(const double *)at); break;
  default: {
    bool is_wide = dtype == TIDE_COMPLEX128;
    lua_createtable(L, 2, 0);
    for (int k = 0; k < 2; k++) {
      lua_pushnumber(L, is_wide ? ((const double *)at)[k] : (double)((const float *)at)[k]);
      lua_rawseti(L, -2, k + 1);
    }
  }
  }
}

/* Pushes the values from dimension d on; returns where the next ones are. */
static const char *push_nested(lua_State *L, const tide_tensor *x, int d, const char *at, tide_dtype dtype) {
  if (d == tide_tensor_ndim(x)) {
    push_element(L, at, dtype);
    return at + tide_dtype_size(dtype);
  }
  luaL_checkstack(L, 6, "totable");
  int64_t n = tide_tensor_size(x)[d];
  lua_createtable(L, n > INT32_MAX ? 0 : (int)n, 0);
  for (int64_t i = 1; i <= n; i++) {
    ltide_poll(L, i);
    at = push_nested(L, x, d + 1, at, dtype);
    lua_rawseti(L, -2, i);
  }
  return at;
}

void ltide_push_table(lua_State *L, ltide_state *S, const tide_tensor *x) {
  tide_options o = {staging_dtype(tide_tensor_dtype(x)), TIDE_CPU, false};
  ltide_tensor *host = ltide_new_tensor(L, S);
  ltide_try(L, tide_to(&host->t, x, &o, false, false));
  char *buffer = ltide_new_object(L, (size_t)tide_tensor_numel(x) * tide_dtype_size(o.dtype), 0);
  ltide_try(L, tide_read(buffer, host->t));
  push_nested(L, host->t, 0, buffer, o.dtype);
  ltide_close_tensor(host);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

static int tensor_totable_now(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  ltide_no_options(L, 1);
  ltide_push_table(L, S, ltide_check_tensor(L, S, 1, "x"));
  ltide_made(L, S);
  return 1;
}
static int ltensor_totable(lua_State *L) { return ltide_waiting(L, tensor_totable_now); }

#define NOUN convert
#include "call/api/open_noun.def"
