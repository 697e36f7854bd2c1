/* view.c: views and shape: tensors that look at the same bytes in another way, and the few that must copy.
 *
 * Every function reads its tensor, its sizes or dimensions (from 1), makes the closed handle and calls one core
 * function. Lists of views (split, chunk, unbind) are tables whose handles are filled one by one: an error leaves none
 * behind. */
#include "args.h"

typedef struct call {
  ltide_state *S;
  tide_tensor *x;
  int ndim;
  ltide_args a;
} call;

/* Reads the tensor at 1 and counts the arguments. Views take no options but their arguments by name. */
static call begin_named(lua_State *L, int most, const char *const *names) {
  ltide_named(L, 2, names);
  call c = {.S = ltide_begin(L)};
  c.x = ltide_check_tensor(L, c.S, 1, "x");
  c.ndim = tide_tensor_ndim(c.x);
  c.a = ltide_split(L, 2);
  if (most) ltide_check_count(L, c.a, most);
  ltide_check_keys(L, c.a.opts, names); /* which have gone to their places */
  return c;
}

static call begin(lua_State *L, int most) {
  static const char *const none[] = {NULL};
  return begin_named(L, most, none);
}

static int done(lua_State *L, call *c, tide_status status) {
  ltide_try(L, status);
  ltide_made(L, c->S);
  return 1;
}

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
  ltide_try(L, is_dtype ? tide_view_dtype(&u->t, x, dtype) : tide_view(&u->t, x, size, ndim));
  return 1;
}

static int ltensor_reshape(lua_State *L) {
  call c = begin(L, 0);
  int64_t size[TIDE_MAX_DIMS];
  int ndim = ltide_check_sizes(L, 2, c.a.n, size, "sizes", -1);
  return done(L, &c, tide_reshape(&ltide_new_tensor(L, c.S)->t, c.x, size, ndim));
}

static int ltensor_expand(lua_State *L) {
  call c = begin(L, 0);
  int64_t size[TIDE_MAX_DIMS];
  int ndim = ltide_check_sizes(L, 2, c.a.n, size, "sizes", -1);
  return done(L, &c, tide_expand(&ltide_new_tensor(L, c.S)->t, c.x, size, ndim));
}

typedef tide_status (*shape_fn)(tide_tensor **, const tide_tensor *, const int64_t *, int);

/* view_as, reshape_as, expand_as: the sizes of the tensor at 2. */
static int shape_as(lua_State *L, shape_fn fn) {
  call c = begin(L, 2);
  tide_tensor *y = ltide_check_tensor(L, c.S, 2, "y");
  return done(L, &c, fn(&ltide_new_tensor(L, c.S)->t, c.x, tide_tensor_size(y), tide_tensor_ndim(y)));
}
static int ltensor_view_as(lua_State *L) { return shape_as(L, tide_view); }
static int ltensor_reshape_as(lua_State *L) { return shape_as(L, tide_reshape); }
static int ltensor_expand_as(lua_State *L) { return shape_as(L, tide_expand); }

static int ltensor_flatten(lua_State *L) {
  call c = begin_named(L, 3, LTIDE_NAMES("start", "stop"));
  int ndim = ltide_scalar_ndim(c.ndim); /* a tensor without dimensions is flattened to one */
  int start = c.a.n > 1 && !lua_isnil(L, 2) ? ltide_check_dim(L, 2, ndim, "start") : 0,
      stop = c.a.n > 2 && !lua_isnil(L, 3) ? ltide_check_dim(L, 3, ndim, "stop") : ndim - 1;
  return done(L, &c, tide_flatten(&ltide_new_tensor(L, c.S)->t, c.x, start, stop));
}

static int ltensor_unflatten(lua_State *L) {
  call c = begin_named(L, 0, LTIDE_NAMES("dim", "sizes"));
  int dim = ltide_check_dim(L, 2, c.ndim, "dim");
  int64_t size[TIDE_MAX_DIMS];
  int n = ltide_check_sizes(L, 3, c.a.n, size, "sizes", -1);
  return done(L, &c, tide_unflatten(&ltide_new_tensor(L, c.S)->t, c.x, dim, size, n));
}

/* {==== Dimensions */

static int ltensor_squeeze(lua_State *L) {
  call c = begin_named(L, 2, LTIDE_NAMES("dim"));
  int dims[TIDE_MAX_DIMS];
  if (c.a.n < 2) return done(L, &c, tide_squeeze(&ltide_new_tensor(L, c.S)->t, c.x));
  int n = ltide_check_dims(L, 2, ltide_scalar_ndim(c.ndim), dims, "dim");
  ltide_tensor *u = ltide_new_tensor(L, c.S);
  tide_tensor_retain(u->t = c.x);
  /* From the last dimension to the first, so that the ones still to come keep their numbers. */
  for (int d = c.ndim - 1; d >= 0; d--)
    for (int i = 0; i < n; i++) {
      if (dims[i] != d) continue;
      tide_tensor *last = u->t, *next;
      ltide_try(L, tide_squeeze_dim(&next, last, d));
      u->t = next;
      tide_tensor_release(last);
      break;
    }
  return 1;
}

static int ltensor_unsqueeze(lua_State *L) {
  call c = begin_named(L, 2, LTIDE_NAMES("dim"));
  int dim = ltide_check_dim(L, 2, c.ndim + 1, "dim");
  return done(L, &c, tide_unsqueeze(&ltide_new_tensor(L, c.S)->t, c.x, dim));
}

static int ltensor_transpose(lua_State *L) {
  call c = begin_named(L, 3, LTIDE_NAMES("dim1", "dim2"));
  int d1 = ltide_check_dim(L, 2, ltide_scalar_ndim(c.ndim), "dim1"),
      d2 = ltide_check_dim(L, 3, ltide_scalar_ndim(c.ndim), "dim2");
  return done(L, &c, tide_transpose(&ltide_new_tensor(L, c.S)->t, c.x, d1, d2));
}

static int ltensor_t(lua_State *L) {
  call c = begin(L, 1);
  if (c.ndim > 2)
    return ltide_error(L, "ShapeError", "t: x: got %d dimensions, expected at most 2; use transpose or permute",
                       c.ndim);
  int last = c.ndim ? c.ndim - 1 : 0;
  ltide_tensor *u = ltide_new_tensor(L, c.S);
  if (c.ndim == 2) return done(L, &c, tide_transpose(&u->t, c.x, 0, last));
  return done(L, &c, tide_view(&u->t, c.x, tide_tensor_size(c.x), c.ndim));
}

static int ltensor_permute(lua_State *L) {
  call c = begin_named(L, 0, LTIDE_NAMES("dims"));
  int dims[TIDE_MAX_DIMS], n = c.a.n < 2 && !c.ndim ? 0 : ltide_check_dim_list(L, 2, c.a.n, c.ndim, dims, "dims");
  return done(L, &c, tide_permute(&ltide_new_tensor(L, c.S)->t, c.x, dims, n));
}

static int ltensor_movedim(lua_State *L) {
  call c = begin_named(L, 3, LTIDE_NAMES("source", "destination"));
  int from[TIDE_MAX_DIMS], to[TIDE_MAX_DIMS];
  int n = ltide_check_dims(L, 2, ltide_scalar_ndim(c.ndim), from, "source"),
      m = ltide_check_dims(L, 3, ltide_scalar_ndim(c.ndim), to, "destination");
  if (n != m) return ltide_error(L, "ShapeError", "movedim: destination: got %d dimensions, expected %d", m, n);
  return done(L, &c, tide_movedim(&ltide_new_tensor(L, c.S)->t, c.x, from, to, n));
}

static int ltensor_diagonal(lua_State *L) {
  call c = begin_named(L, 4, LTIDE_NAMES("offset", "dim1", "dim2"));
  int64_t offset = c.a.n > 1 && !lua_isnil(L, 2) ? ltide_check_integer(L, 2, "offset") : 0;
  if (c.ndim < 2) return ltide_error(L, "ShapeError", "diagonal: x: got %d dimensions, expected at least 2", c.ndim);
  int d1 = c.a.n > 2 && !lua_isnil(L, 3) ? ltide_check_dim(L, 3, c.ndim, "dim1") : 0,
      d2 = c.a.n > 3 && !lua_isnil(L, 4) ? ltide_check_dim(L, 4, c.ndim, "dim2") : 1;
  return done(L, &c, tide_diagonal(&ltide_new_tensor(L, c.S)->t, c.x, offset, d1, d2));
}

/* {==== Parts of a dimension */

static int ltensor_select(lua_State *L) {
  call c = begin_named(L, 3, LTIDE_NAMES("dim", "index"));
  int dim = ltide_check_dim(L, 2, c.ndim, "dim");
  int64_t i = ltide_check_index(L, 3, tide_tensor_size(c.x)[dim], "index");
  return done(L, &c, tide_select(&ltide_new_tensor(L, c.S)->t, c.x, dim, i));
}

static int ltensor_narrow(lua_State *L) {
  call c = begin_named(L, 4, LTIDE_NAMES("dim", "start", "length"));
  int dim = ltide_check_dim(L, 2, c.ndim, "dim");
  int64_t n = tide_tensor_size(c.x)[dim], first = ltide_check_integer(L, 3, "start"),
          length = ltide_check_integer(L, 4, "length");
  int64_t start = first < 0 ? first + n : first - 1;
  if (first == 0 || start < 0 || start > n)
    return ltide_error(L, "IndexError",
                       "narrow: start: got %I, expected 1 to %I or from the end, of a dimension of %I%s",
                       (lua_Integer)first, (lua_Integer)n, (lua_Integer)n, first ? "" : "; indexes count from 1");
  if (length < 0 || length > n - start)
    return ltide_error(L, "IndexError", "narrow: length: got %I from %I, expected at most %I", (lua_Integer)length,
                       (lua_Integer)first, (lua_Integer)(n - start));
  return done(L, &c, tide_narrow(&ltide_new_tensor(L, c.S)->t, c.x, dim, start, length));
}

static int ltensor_slice(lua_State *L) {
  call c = begin_named(L, 5, LTIDE_NAMES("dim", "first", "last", "step"));
  int dim = ltide_check_dim(L, 2, c.ndim, "dim");
  int64_t n = tide_tensor_size(c.x)[dim], start = 0, length = n;
  int64_t first = c.a.n > 2 && !lua_isnil(L, 3) ? ltide_check_integer(L, 3, "first") : 1,
          last = c.a.n > 3 && !lua_isnil(L, 4) ? ltide_check_integer(L, 4, "last") : -1;
  int64_t step = c.a.n > 4 && !lua_isnil(L, 5) ? ltide_check_integer(L, 5, "step") : 1;
  if (step < 1) return ltide_error(L, "ValueError", "slice: step: got %I, expected at least 1", (lua_Integer)step);
  if (c.a.n > 2) ltide_check_range(L, first, last, n, &start, &length);
  ltide_tensor *u = ltide_new_tensor(L, c.S);
  return done(L, &c,
              step == 1 || !length ? tide_narrow(&u->t, c.x, dim, start, length)
                                   : tide_slice(&u->t, c.x, dim, start, start + length - 1, step));
}

/* A handle of x's own, pushed, for loops that hooks may interrupt. */
static ltide_tensor *hold(lua_State *L, call *c) {
  ltide_tensor *own = ltide_new_tensor(L, c->S);
  tide_tensor_retain(c->x);
  own->t = c->x;
  return own;
}

/* Appends the view of [start, start + length) to the table at the top. */
static void append_part(lua_State *L, call *c, int dim, int64_t start, int64_t length, lua_Integer at) {
  ltide_poll(L, at);
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_narrow(&u->t, c->x, dim, start, length));
  lua_rawseti(L, -2, at);
}

/* Parts of `each`, the last one shorter; one empty part of an empty dimension. */
static int equal_parts(lua_State *L, call *c, int dim, int64_t each) {
  int64_t n = tide_tensor_size(c->x)[dim];
  lua_Integer count = 0;
  ltide_tensor *own = hold(L, c);
  lua_createtable(L, each && n / each < 1 << 20 ? (int)(n / each) + 1 : 0, 0);
  for (int64_t start = 0, length = 0; start < n || !count; start += length) {
    length = n - start < each ? n - start : each;
    append_part(L, c, dim, start, length, ++count);
  }
  ltide_close_tensor(own);
  return 1;
}

static int listed_parts(lua_State *L, call *c, int dim) {
  ltide_plain_shape(L, 2);
  int64_t n = tide_tensor_size(c->x)[dim], sum = 0;
  bool fits = true;
  lua_Integer count = (lua_Integer)lua_rawlen(L, 2);
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, 2, i);
    int64_t size = ltide_check_integer(L, -1, "sizes");
    fits = fits && size >= 0 && size <= n - sum;
    if (fits) sum += size;
    lua_pop(L, 1);
  }
  if (!fits || sum != n)
    return ltide_error(L, "ShapeError", "split: sizes: they add up to another sum than %I, the size of dimension %d",
                       (lua_Integer)n, dim + 1);
  ltide_tensor *own = hold(L, c);
  lua_createtable(L, (int)count, 0);
  int64_t start = 0;
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, 2, i);
    int64_t size = lua_tointeger(L, -1);
    lua_pop(L, 1);
    append_part(L, c, dim, start, size, i);
    start += size;
  }
  ltide_close_tensor(own);
  return 1;
}

static int ltensor_split(lua_State *L) {
  call c = begin_named(L, 3, LTIDE_NAMES("size", "dim"));
  if (c.a.n < 2) return ltide_arg_error(L, 2, "size", "an integer or a table of integers");
  int dim = c.a.n > 2 && !lua_isnil(L, 3) ? ltide_check_dim(L, 3, c.ndim, "dim") : 0;
  if (!c.ndim) return ltide_error(L, "ShapeError", "split: x: a tensor without dimensions cannot be split");
  if (lua_istable(L, 2)) return listed_parts(L, &c, dim);
  int64_t each = ltide_check_integer(L, 2, "size");
  if (each < 0 || (!each && tide_tensor_size(c.x)[dim]))
    return ltide_error(L, "ValueError", "split: size: got %I, expected at least 1 for a dimension of size %I",
                       (lua_Integer)each, (lua_Integer)tide_tensor_size(c.x)[dim]);
  return equal_parts(L, &c, dim, each);
}

static int ltensor_chunk(lua_State *L) {
  call c = begin_named(L, 3, LTIDE_NAMES("n", "dim"));
  int64_t n = ltide_check_integer(L, 2, "n");
  if (n < 1) return ltide_error(L, "ValueError", "chunk: n: got %I, expected at least 1", (lua_Integer)n);
  if (!c.ndim) return ltide_error(L, "ShapeError", "chunk: x: a tensor without dimensions cannot be split");
  int dim = c.a.n > 2 && !lua_isnil(L, 3) ? ltide_check_dim(L, 3, c.ndim, "dim") : 0;
  int64_t size = tide_tensor_size(c.x)[dim], each = size / n + (size % n != 0);
  if (size) return equal_parts(L, &c, dim, each);
  ltide_tensor *own = hold(L, &c);
  lua_createtable(L, n < 1 << 20 ? (int)n : 0, 0);
  for (int64_t i = 1; i <= n; i++) append_part(L, &c, dim, 0, 0, i); /* as many empty parts */
  ltide_close_tensor(own);
  return 1;
}

static int ltensor_unbind(lua_State *L) {
  call c = begin_named(L, 2, LTIDE_NAMES("dim"));
  if (!c.ndim) return ltide_error(L, "ShapeError", "unbind: x: a tensor without dimensions cannot be split");
  int dim = c.a.n > 1 && !lua_isnil(L, 2) ? ltide_check_dim(L, 2, c.ndim, "dim") : 0;
  int64_t n = tide_tensor_size(c.x)[dim];
  ltide_tensor *own = hold(L, &c);
  lua_createtable(L, n < 1 << 20 ? (int)n : 0, 0);
  for (int64_t i = 0; i < n; i++) {
    ltide_poll(L, i);
    ltide_tensor *u = ltide_new_tensor(L, c.S);
    ltide_try(L, tide_select(&u->t, c.x, dim, i));
    lua_rawseti(L, -2, i + 1);
  }
  ltide_close_tensor(own);
  return 1;
}

static int ltensor_unfold(lua_State *L) {
  call c = begin_named(L, 4, LTIDE_NAMES("dim", "size", "step"));
  int dim = ltide_check_dim(L, 2, ltide_scalar_ndim(c.ndim), "dim");
  int64_t size = ltide_check_integer(L, 3, "size"), step = ltide_check_integer(L, 4, "step");
  return done(L, &c, tide_unfold(&ltide_new_tensor(L, c.S)->t, c.x, dim, size, step));
}

static int ltensor_as_strided(lua_State *L) {
  call c = begin_named(L, 4, LTIDE_NAMES("size", "stride", "offset"));
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  if (c.a.n < 3) return ltide_arg_error(L, c.a.n + 1, c.a.n < 2 ? "size" : "stride", "a table of integers");
  int ndim = ltide_check_sizes(L, 2, 2, size, "size", 0), n = ltide_check_sizes(L, 3, 3, stride, "stride", 0);
  if (n != ndim) return ltide_error(L, "ShapeError", "as_strided: stride: got %d values, expected %d", n, ndim);
  int64_t offset = c.a.n > 3 && !lua_isnil(L, 4) ? ltide_check_integer(L, 4, "offset") : 0;
  return done(L, &c, tide_as_strided(&ltide_new_tensor(L, c.S)->t, c.x, size, stride, ndim, offset));
}

/* {==== Dtypes */

static int ltensor_view_dtype(lua_State *L) {
  call c = begin(L, 2);
  tide_dtype dtype = ltide_check_dtype(L, 2, "dtype");
  return done(L, &c, tide_view_dtype(&ltide_new_tensor(L, c.S)->t, c.x, dtype));
}

typedef tide_status (*view_fn)(tide_tensor **, const tide_tensor *);
static int plain_view(lua_State *L, view_fn fn) {
  call c = begin(L, 1);
  return done(L, &c, fn(&ltide_new_tensor(L, c.S)->t, c.x));
}
static int ltensor_view_as_real(lua_State *L) { return plain_view(L, tide_view_as_real); }
static int ltensor_view_as_complex(lua_State *L) { return plain_view(L, tide_view_as_complex); }
static int ltensor_real(lua_State *L) { return plain_view(L, tide_real); }
static int ltensor_imag(lua_State *L) { return plain_view(L, tide_imag); }

/* {==== The tensor itself changes */

static int ltensor_resize_(lua_State *L) {
  call c = begin(L, 0);
  int64_t size[TIDE_MAX_DIMS];
  int ndim = ltide_check_sizes(L, 2, c.a.n, size, "sizes", 0);
  ltide_unshare(L, c.S, lua_touserdata(L, 1));
  ltide_try(L, tide_resize(ltide_check_tensor(L, c.S, 1, "x"), size, ndim));
  ltide_made(L, c.S);
  lua_settop(L, 1);
  return 1;
}

static int ltensor_set_(lua_State *L) {
  call c = begin(L, 2);
  tide_tensor *source = ltide_check_tensor(L, c.S, 2, "source");
  ltide_unshare(L, c.S, lua_touserdata(L, 1));
  ltide_try(L, tide_set(ltide_check_tensor(L, c.S, 1, "x"), source));
  lua_settop(L, 1);
  return 1;
}

static const ltide_reg methods[] = {
    {"view", ltensor_view,
     "x:view(sizes...) -> Tensor\nThe same elements in another shape; one size may be -1. ShapeError where that needs "
     "a copy: use reshape. x:view(dtype) is view_dtype."},
    {"view_as", ltensor_view_as, "x:view_as(y) -> Tensor\nx viewed in the shape of y."},
    {"reshape_as", ltensor_reshape_as,
     "x:reshape_as(y) -> Tensor\nx in the shape of y; copies where a view cannot do it."},
    {"expand", ltensor_expand,
     "x:expand(sizes...) -> Tensor\nA view in which dimensions of size 1 are repeated; -1 keeps a size. New dimensions "
     "come first."},
    {"expand_as", ltensor_expand_as, "x:expand_as(y) -> Tensor\nx expanded to the shape of y."},
    {"t", ltensor_t, "x:t() -> Tensor\nThe transposed matrix, a view; a vector is itself."},
    {"resize_", ltensor_resize_,
     "x:resize_(sizes...) -> x\nGives x itself another size; what is new is uninitialised."},
    {"set_", ltensor_set_, "x:set_(source) -> x\nMakes x the same view of the same storage as source."},
    {NULL, NULL, NULL}};

static const ltide_reg both[] = {
    {"reshape", ltensor_reshape,
     "x:reshape(sizes...) -> Tensor\nThe same elements in another shape; one size may be -1. A view where possible, "
     "else a copy."},
    {"broadcast_to", ltensor_expand,
     "x:broadcast_to(sizes...) -> Tensor\nA view in which dimensions of size 1 are repeated."},
    {"flatten", ltensor_flatten,
     "x:flatten([start=1 [, stop=-1]]) -> Tensor\nJoins these dimensions to one. A view where possible, else a copy."},
    {"unflatten", ltensor_unflatten,
     "x:unflatten(dim, sizes) -> Tensor\nSplits a dimension into several; one size may be -1. A view."},
    {"squeeze", ltensor_squeeze,
     "x:squeeze([dim]) -> Tensor\nDrops the dimensions of size 1, or those named that have size 1. A view."},
    {"unsqueeze", ltensor_unsqueeze, "x:unsqueeze(dim) -> Tensor\nPuts a dimension of size 1 at dim. A view."},
    {"transpose", ltensor_transpose, "x:transpose(dim1, dim2) -> Tensor\nA view with the two dimensions exchanged."},
    {"swapaxes", ltensor_transpose, "x:swapaxes(dim1, dim2) -> Tensor\nAnother name of transpose."},
    {"permute", ltensor_permute, "x:permute(dims...) -> Tensor\nA view with the dimensions in this order."},
    {"movedim", ltensor_movedim,
     "x:movedim(source, destination) -> Tensor\nA view with a dimension, or a table of them, moved."},
    {"select", ltensor_select, "x:select(dim, index) -> Tensor\nA view of one index of a dimension, which is dropped."},
    {"narrow", ltensor_narrow,
     "x:narrow(dim, start, length) -> Tensor\nA view of `length` indexes of a dimension from start on."},
    {"slice", ltensor_slice,
     "x:slice(dim, first [, last=-1 [, step=1]]) -> Tensor\nA view of the indexes first to last, both included; "
     "negative from the end."},
    {"split", ltensor_split,
     "x:split(size or {sizes} [, dim=1]) -> {Tensor, ...}\nViews of that many indexes each, the last perhaps of "
     "fewer; 0 fits a dimension of size 0."},
    {"chunk", ltensor_chunk,
     "x:chunk(n [, dim=1]) -> {Tensor, ...}\nAt most n views of nearly equal size; exactly n of a "
     "dimension of size 0."},
    {"unbind", ltensor_unbind,
     "x:unbind([dim=1]) -> {Tensor, ...}\nA view for each index of the dimension, which is dropped."},
    {"diagonal", ltensor_diagonal,
     "x:diagonal([offset=0 [, dim1=1 [, dim2=2]]]) -> Tensor\nA view of the diagonal of two dimensions, as the last "
     "dimension."},
    {"unfold", ltensor_unfold,
     "x:unfold(dim, size, step) -> Tensor\nA view of the windows of a dimension; the window is the last dimension."},
    {"as_strided", ltensor_as_strided,
     "x:as_strided(size, stride [, offset=0]) -> Tensor\nA view with these strides; the offset counts from 0, in "
     "elements of the storage. It must stay inside the storage."},
    {"view_dtype", ltensor_view_dtype,
     "x:view_dtype(dtype) -> Tensor\nThe same bytes seen as another dtype; the last size changes with the element "
     "size."},
    {"view_as_real", ltensor_view_as_real,
     "tide.view_as_real(x) -> Tensor\nA complex tensor as a real one with a last dimension of 2. A view."},
    {"view_as_complex", ltensor_view_as_complex,
     "tide.view_as_complex(x) -> Tensor\nA real tensor with a last dimension of 2 as a complex one. A view."},
    {"real", ltensor_real, "x:real() -> Tensor\nThe real parts, a view; x itself if it is real."},
    {"imag", ltensor_imag, "x:imag() -> Tensor\nThe imaginary parts of a complex tensor, a view."},
    {NULL, NULL, NULL}};

void ltide_open_view(lua_State *L, ltide_state *S) {
  (void)S;
  ltide_register_methods(L, methods);
  ltide_register_both(L, both);
  ltide_open_shape(L);
}
