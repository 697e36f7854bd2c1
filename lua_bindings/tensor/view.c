/* view.c: views and shape: tensors that look at the same bytes in another way, and the few that must copy.
 *
 * Most rows of tensor/api/view.def need no function: an adaptor reads the arguments and calls core. Lists of views
 * (split, chunk, unbind) are tables whose handles are filled one by one: an error leaves none behind. */
#include "tensor.h"

/* {==== Sizes */

/* x:view(32, 32) comes through here: integers alone need no split. */
static int ltensor_view(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  int64_t size[TIDE_MAX_DIMS];
  tide_dtype dtype;
  int top = lua_gettop(L), ndim;
  bool is_dtype = top == 2 && lua_type(L, 2) != LUA_TNUMBER && ltide_test_dtype(L, 2, &dtype);
  if (!is_dtype) ndim = ltide_check_sizes(L, 2, top, size, "sizes", -1);
  ltide_tensor *u = ltide_new_tensor(L, S);
  return ltide_give(L, is_dtype ? tide_view_dtype(&u->t, x, dtype) : tide_view(&u->t, x, size, ndim));
}

/* {==== Dimensions */

static int ltensor_squeeze(lua_State *L, ltide_call *c) {
  tide_tensor *x = c->x;
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  if (!c->v[1].given) return ltide_finish(L, c, tide_squeeze(&u->t, x));
  tide_tensor_retain(u->t = x);
  /* From the last dimension to the first, so that the ones still to come keep their numbers. */
  for (int d = tide_tensor_ndim(x) - 1; d >= 0; d--)
    for (int i = 0; i < c->v[1].n; i++) {
      if (c->v[1].dims[i] != d) continue;
      tide_tensor *last = u->t, *next;
      ltide_try(L, tide_squeeze_dim(&next, last, d));
      u->t = next;
      tide_tensor_release(last);
      break;
    }
  return 1;
}

static int ltensor_t(lua_State *L, ltide_call *c) {
  tide_tensor *x = c->x;
  int ndim = tide_tensor_ndim(x);
  if (ndim > 2)
    return ltide_error(L, "ShapeError", "t: x: got %d dimensions, expected at most 2; use transpose or permute", ndim);
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  if (ndim == 2) return ltide_finish(L, c, tide_transpose(&u->t, x, 0, 1));
  return ltide_finish(L, c, tide_view(&u->t, x, tide_tensor_size(x), ndim));
}

/* The dimensions of a tensor without any are none. */
static int ltensor_permute(lua_State *L) {
  ltide_call c;
  ltide_call_begin(L, &c);
  tide_tensor *x = ltide_check_tensor(L, c.S, 1, "x");
  if (c.n > 1 || c.opts || tide_tensor_ndim(x)) return ltide_run(L);
  return ltide_finish(L, &c, tide_permute(&ltide_new_tensor(L, c.S)->t, x, NULL, 0));
}

static int ltensor_movedim(lua_State *L, ltide_call *c) {
  const ltide_value *from = &c->v[1], *to = &c->v[2];
  if (from->n != to->n)
    return ltide_error(L, "ShapeError", "movedim: destination: got %d dimensions, expected %d", to->n, from->n);
  return ltide_finish(L, c, tide_movedim(ltide_result(L, c), c->x, from->dims, to->dims, from->n));
}

static int ltensor_diagonal(lua_State *L, ltide_call *c) {
  int ndim = tide_tensor_ndim(c->x);
  if (ndim < 2) return ltide_error(L, "ShapeError", "diagonal: x: got %d dimensions, expected at least 2", ndim);
  return ltide_finish(L, c, tide_diagonal(ltide_result(L, c), c->x, c->v[1].i, c->v[2].dim, c->v[3].dim));
}

/* {==== Parts of a dimension */

static int64_t size_of(const ltide_call *c, int dim) { return tide_tensor_size(c->x)[dim]; }

static int ltensor_select(lua_State *L, ltide_call *c) {
  int64_t i = ltide_index(L, c->v[2].i, size_of(c, c->v[1].dim), "index");
  return ltide_finish(L, c, tide_select(ltide_result(L, c), c->x, c->v[1].dim, i));
}

static int ltensor_narrow(lua_State *L, ltide_call *c) {
  int dim = c->v[1].dim;
  int64_t n = size_of(c, dim), first = c->v[2].i, length = c->v[3].i, base = ltide_base(L);
  int64_t start = first < 0 ? first + n : first - base;
  if (start < 0 || start > n)
    return ltide_error(L, "IndexError",
                       "narrow: start: got %I, expected %d to %I or from the end, of a dimension of %I%s",
                       (lua_Integer)first, (int)base, (lua_Integer)(n - 1 + base), (lua_Integer)n,
                       first || !base ? "" : "; indexes count from 1");
  if (length < 0 || length > n - start)
    return ltide_error(L, "IndexError", "narrow: length: got %I from %I, expected at most %I", (lua_Integer)length,
                       (lua_Integer)first, (lua_Integer)(n - start));
  return ltide_finish(L, c, tide_narrow(ltide_result(L, c), c->x, dim, start, length));
}

static int ltensor_slice(lua_State *L, ltide_call *c) {
  int dim = c->v[1].dim;
  int64_t n = size_of(c, dim), start = 0, length = n, step = c->v[4].i;
  if (step < 1) return ltide_error(L, "ValueError", "slice: step: got %I, expected at least 1", (lua_Integer)step);
  int64_t first = c->v[2].given ? c->v[2].i : ltide_base(L); /* what is left out counts from 1 */
  if (c->n > 2 || c->opts) ltide_check_range(L, first, c->v[3].i, n, &start, &length);
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  return ltide_finish(L, c,
                      step == 1 || !length ? tide_narrow(&u->t, c->x, dim, start, length)
                                           : tide_slice(&u->t, c->x, dim, start, start + length - 1, step));
}

/* A handle of x's own, pushed, for loops that hooks may interrupt. */
static ltide_tensor *hold(lua_State *L, ltide_call *c) {
  ltide_tensor *own = ltide_new_tensor(L, c->S);
  tide_tensor_retain(own->t = c->x);
  return own;
}

/* A table of more handles would take the memory of the machine, which empty tensors never asked for. */
enum { PARTS = 1 << 24 };
static void check_parts(lua_State *L, int64_t count) {
  if (count > PARTS) ltide_fail(L, "ValueError", "got %I parts, expected at most %d", (lua_Integer)count, PARTS);
}

/* Appends the view of [start, start + length) to the table at the top. */
static void append_part(lua_State *L, ltide_call *c, int dim, int64_t start, int64_t length, lua_Integer at) {
  ltide_poll(L, at);
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_narrow(&u->t, c->x, dim, start, length));
  lua_rawseti(L, -2, at);
}

/* Parts of `each`, the last one shorter; one empty part of an empty dimension. */
static int equal_parts(lua_State *L, ltide_call *c, int dim, int64_t each) {
  int64_t n = size_of(c, dim);
  lua_Integer count = 0;
  check_parts(L, each ? n / each : 0);
  ltide_tensor *own = hold(L, c);
  lua_createtable(L, each && n / each < 1 << 20 ? (int)(n / each) + 1 : 0, 0);
  for (int64_t start = 0, length = 0; start < n || !count; start += length) {
    length = n - start < each ? n - start : each;
    append_part(L, c, dim, start, length, ++count);
  }
  ltide_close_tensor(own);
  return 1;
}

static int listed_parts(lua_State *L, ltide_call *c, int dim, int sizes) {
  ltide_plain_shape(L, sizes);
  int64_t n = size_of(c, dim), sum = 0;
  bool fits = true;
  lua_Integer count = (lua_Integer)lua_rawlen(L, sizes);
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, sizes, i);
    int64_t size = ltide_check_integer(L, -1, "sizes");
    fits = fits && size >= 0 && size <= n - sum;
    if (fits) sum += size;
    lua_pop(L, 1);
  }
  if (!fits || sum != n)
    return ltide_error(L, "ShapeError", "split: sizes: they add up to another sum than %I, the size of dimension %d",
                       (lua_Integer)n, dim + ltide_base(L));
  ltide_tensor *own = hold(L, c);
  lua_createtable(L, (int)count, 0);
  int64_t start = 0;
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, sizes, i);
    int64_t size = lua_tointeger(L, -1);
    lua_pop(L, 1);
    append_part(L, c, dim, start, size, i);
    start += size;
  }
  ltide_close_tensor(own);
  return 1;
}

static void refuse_scalar(lua_State *L, const ltide_call *c) {
  if (!tide_tensor_ndim(c->x)) ltide_fail(L, "ShapeError", "x: a tensor without dimensions cannot be split");
}

static int ltensor_split(lua_State *L, ltide_call *c) {
  int dim = c->v[2].dim;
  refuse_scalar(L, c);
  if (!c->v[1].given) return ltide_arg_error(L, 2, "size", "an integer or a table of integers");
  if (lua_istable(L, c->v[1].at)) return listed_parts(L, c, dim, c->v[1].at);
  int64_t each = ltide_check_integer(L, c->v[1].at, "size");
  if (each < 0 || (!each && size_of(c, dim)))
    return ltide_error(L, "ValueError", "split: size: got %I, expected at least 1 for a dimension of size %I",
                       (lua_Integer)each, (lua_Integer)size_of(c, dim));
  return equal_parts(L, c, dim, each);
}

static int ltensor_chunk(lua_State *L, ltide_call *c) {
  int64_t n = c->v[1].i;
  if (n < 1) return ltide_error(L, "ValueError", "chunk: n: got %I, expected at least 1", (lua_Integer)n);
  refuse_scalar(L, c);
  int dim = c->v[2].dim;
  int64_t size = size_of(c, dim), each = size / n + (size % n != 0);
  if (size) return equal_parts(L, c, dim, each);
  check_parts(L, n);
  ltide_tensor *own = hold(L, c);
  lua_createtable(L, n < 1 << 20 ? (int)n : 0, 0);
  for (int64_t i = 1; i <= n; i++) append_part(L, c, dim, 0, 0, i); /* as many empty parts */
  ltide_close_tensor(own);
  return 1;
}

static int ltensor_unbind(lua_State *L, ltide_call *c) {
  refuse_scalar(L, c);
  int dim = c->v[1].dim;
  int64_t n = size_of(c, dim);
  check_parts(L, n);
  ltide_tensor *own = hold(L, c);
  lua_createtable(L, n < 1 << 20 ? (int)n : 0, 0);
  for (int64_t i = 0; i < n; i++) {
    ltide_poll(L, i);
    ltide_tensor *u = ltide_new_tensor(L, c->S);
    ltide_try(L, tide_select(&u->t, c->x, dim, i));
    lua_rawseti(L, -2, i + 1);
  }
  ltide_close_tensor(own);
  return 1;
}

static int ltensor_unfold(lua_State *L, ltide_call *c) {
  return ltide_finish(L, c, tide_unfold(ltide_result(L, c), c->x, c->v[1].dim, c->v[2].i, c->v[3].i));
}

static int ltensor_as_strided(lua_State *L, ltide_call *c) {
  const ltide_value *size = &c->v[1], *stride = &c->v[2];
  if (stride->n != size->n)
    return ltide_error(L, "ShapeError", "as_strided: stride: got %d values, expected %d", stride->n, size->n);
  return ltide_finish(L, c, tide_as_strided(ltide_result(L, c), c->x, size->sizes, stride->sizes, size->n, c->v[3].i));
}

/* {==== The tensor itself changes */

static int ltensor_resize_(lua_State *L, ltide_call *c) {
  ltide_unshare(L, c->S, lua_touserdata(L, 1));
  ltide_try(L, tide_resize(ltide_check_tensor(L, c->S, 1, "x"), c->v[1].sizes, c->v[1].n));
  ltide_made(L, c->S);
  return ltide_self(L, TIDE_OK);
}

static int ltensor_set_(lua_State *L, ltide_call *c) {
  ltide_unshare(L, c->S, lua_touserdata(L, 1));
  return ltide_self(L, tide_set(ltide_check_tensor(L, c->S, 1, "x"), c->v[1].tensor));
}

#define NOUN view
#include "call/api/open_noun.def"
