/* shape.c: shaping that copies (cat, stack, tile, flip, roll ...), broadcasting of lists, and complex tensors from
 * parts.
 *
 * A list of tensors is read into a userdata array, which the collector owns, so that any length is served and an error
 * loses nothing. Operands of the list are held: a finaliser can change the script's table. */
#include <string.h>

#include "args.h"

typedef struct list {
  tide_tensor **items;
  int n;
} list;

/* Reads the table of tensors at arg and pushes the array that holds them. */
static list check_list(lua_State *L, ltide_state *S, int arg, int least) {
  if (!lua_istable(L, arg)) ltide_arg_error(L, arg, "tensors", "a table of tensors");
  lua_Integer n = (lua_Integer)lua_rawlen(L, arg);
  if (n < least || n > INT32_MAX)
    ltide_error(L, "ValueError", "%s: tensors: got a table of %I, expected at least %d", ltide_function_name(L), n,
                least);
  list l = {ltide_new_object(L, (size_t)n * sizeof(tide_tensor *), 0), (int)n};
  for (int i = 0; i < l.n; i++) {
    lua_rawgeti(L, arg, i + 1);
    l.items[i] = ltide_check_tensor(L, S, -1, "tensors");
    ltide_hold_tensor(L, S, l.items[i]);
    lua_pop(L, 1);
  }
  return l;
}

static int done(lua_State *L, ltide_state *S, tide_status status) {
  ltide_try(L, status);
  ltide_made(L, S);
  return 1;
}

/* {==== Lists */

typedef tide_status (*join_fn)(tide_tensor **, tide_tensor *const *, int, int, tide_tensor *);

static int join(lua_State *L, join_fn fn, int extra) {
  static const char *const keys[] = {"out", "dim", NULL};
  ltide_state *S = ltide_begin(L);
  ltide_args a = ltide_split(L, 1);
  ltide_check_count(L, a, 2);
  ltide_check_keys(L, a.opts, keys);
  list l = check_list(L, S, 1, 1);
  int ndim = tide_tensor_ndim(l.items[0]) + extra, dim = 0;
  if (a.n > 1)
    dim = ltide_check_dim(L, 2, ndim, "dim");
  else if (a.opts && ltide_rawfield(L, a.opts, "dim") != LUA_TNIL)
    dim = ltide_check_dim(L, -1, ndim, "dim");
  tide_tensor *out = ltide_opt_tensor(L, S, a.opts, "out");
  if (out) {
    ltide_try(L, fn(NULL, l.items, l.n, dim, out));
    ltide_made(L, S);
    ltide_rawfield(L, a.opts, "out");
    return 1;
  }
  return done(L, S, fn(&ltide_new_tensor(L, S)->t, l.items, l.n, dim, NULL));
}
static int lcat(lua_State *L) { return join(L, tide_cat, 0); }
static int lstack(lua_State *L) { return join(L, tide_stack, 1); }

static int lbroadcast_tensors(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 1);
  list l = check_list(L, S, 1, 0);
  int64_t size[TIDE_MAX_DIMS];
  int ndim;
  lua_createtable(L, l.n, 0);
  if (!l.n) return 1;
  ltide_try(L, tide_broadcast_size(size, &ndim, l.items, l.n));
  for (int i = 0; i < l.n; i++) {
    ltide_tensor *u = ltide_new_tensor(L, S);
    ltide_try(L, tide_expand(&u->t, l.items[i], size, ndim));
    lua_rawseti(L, -2, i + 1);
  }
  ltide_made(L, S);
  return 1;
}

/* Is the indexing option "xy": the first two grids exchanged? */
static bool is_xy(lua_State *L, int opts) {
  static const char *const keys[] = {"indexing", NULL};
  ltide_check_keys(L, opts, keys);
  if (!opts) return false;
  const char *text = ltide_rawfield(L, opts, "indexing") == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
  bool xy = text && !strcmp(text, "xy");
  if (!xy && (!text || strcmp(text, "ij"))) ltide_arg_error(L, -1, "indexing", "'ij' or 'xy'");
  lua_pop(L, 1);
  return xy;
}

static int lmeshgrid(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_args a = ltide_split(L, 1);
  ltide_check_count(L, a, 1);
  bool xy = is_xy(L, a.opts);
  list l = check_list(L, S, 1, 1);
  int64_t size[TIDE_MAX_DIMS];
  if (l.n > TIDE_MAX_DIMS)
    return ltide_error(L, "ValueError", "meshgrid: tensors: got %d, expected at most %d", l.n, TIDE_MAX_DIMS);
  luaL_checkstack(L, 2 * l.n + 4, "meshgrid");
  for (int i = 0; i < l.n; i++) {
    if (tide_tensor_ndim(l.items[i]) > 1)
      return ltide_error(L, "ShapeError", "meshgrid: tensors: number %d has %d dimensions, expected at most 1", i + 1,
                         tide_tensor_ndim(l.items[i]));
    size[xy && i < 2 && l.n > 1 ? 1 - i : i] = tide_tensor_numel(l.items[i]);
  }
  for (int i = 0; i < l.n; i++) {
    int64_t column[TIDE_MAX_DIMS];
    int at = xy && i < 2 && l.n > 1 ? 1 - i : i;
    for (int d = 0; d < l.n; d++) column[d] = d == at ? size[d] : 1;
    ltide_tensor *u = ltide_new_tensor(L, S), *v = ltide_new_tensor(L, S);
    ltide_try(L, tide_reshape(&v->t, l.items[i], column, l.n));
    ltide_try(L, tide_expand(&u->t, v->t, size, l.n));
    ltide_close_tensor(v);
    lua_pop(L, 1);
  }
  ltide_made(L, S);
  return l.n;
}

/* {==== Repeating and turning */

static const char *const out_keys[] = {"out", NULL};

/* Arguments of a function on x, without options but for out. */
static ltide_args split(lua_State *L, ltide_state *S, int min, int most) {
  ltide_args a = ltide_split(L, min);
  if (most) ltide_check_count(L, a, most);
  ltide_check_keys(L, a.opts, out_keys);
  ltide_check_out(L, S, a.opts, 1);
  return a;
}

static int deliver(lua_State *L, ltide_state *S, ltide_args a, tide_status status) {
  ltide_try(L, status);
  return ltide_deliver(L, S, a.opts, 1);
}

static int ltensor_tile(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args a = split(L, S, 2, 0);
  int64_t repeats[TIDE_MAX_DIMS];
  int n = ltide_check_sizes(L, 2, a.n, repeats, "repeats", 0);
  return deliver(L, S, a, tide_tile(&ltide_new_tensor(L, S)->t, x, repeats, n));
}

/* Unlike tile, it needs a count for every dimension. */
static int ltensor_repeat(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args a = split(L, S, 2, 0);
  int64_t repeats[TIDE_MAX_DIMS];
  int n = ltide_check_sizes(L, 2, a.n, repeats, "repeats", 0);
  if (n < tide_tensor_ndim(x))
    return ltide_error(L, "ShapeError",
                       "repeat_tensor: repeats: got %d, expected at least %d, one for each dimension; tile takes fewer",
                       n, tide_tensor_ndim(x));
  return deliver(L, S, a, tide_tile(&ltide_new_tensor(L, S)->t, x, repeats, n));
}

/* Pushes the elements in one dimension, for calls that name none. */
static ltide_tensor *flattened(lua_State *L, ltide_state *S, tide_tensor *x) {
  ltide_tensor *u = ltide_new_tensor(L, S);
  int64_t all = -1;
  ltide_try(L, tide_reshape(&u->t, x, &all, 1));
  return u;
}

static int ltensor_repeat_interleave(lua_State *L) {
  ltide_named(L, 2, LTIDE_NAMES("n", "dim"));
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args a = split(L, S, 2, 3);
  tide_tensor *counts = ltide_test_tensor(L, S, 2);
  int64_t n = counts ? 0 : ltide_check_integer(L, 2, "n");
  if (n < 0) return ltide_error(L, "ValueError", "repeat_interleave: n: got %I, expected at least 0", (lua_Integer)n);
  int dim = a.n > 2 && !lua_isnil(L, 3) ? ltide_check_dim(L, 3, tide_tensor_ndim(x), "dim") : 0;
  ltide_tensor *flat = a.n < 3 ? flattened(L, S, x) : NULL, *u = ltide_new_tensor(L, S);
  if (flat) x = flat->t;
  ltide_try(L, counts ? tide_repeat_interleave_each(&u->t, x, counts, dim) : tide_repeat_interleave(&u->t, x, n, dim));
  if (flat) ltide_close_tensor(flat);
  return deliver(L, S, a, TIDE_OK);
}

static int ltensor_flip(lua_State *L) {
  ltide_named(L, 2, LTIDE_NAMES("dims"));
  ltide_state *S = ltide_begin(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args a = split(L, S, 2, 0);
  int dims[TIDE_MAX_DIMS], n = ltide_check_dim_list(L, 2, a.n, ltide_scalar_ndim(tide_tensor_ndim(x)), dims, "dims");
  return deliver(L, S, a, tide_flip(&ltide_new_tensor(L, S)->t, x, dims, n));
}

static int ltensor_roll(lua_State *L) {
  ltide_named(L, 2, LTIDE_NAMES("shifts", "dims"));
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args a = split(L, S, 2, 3);
  int64_t shifts[TIDE_MAX_DIMS];
  int dims[TIDE_MAX_DIMS] = {0}, n = ltide_check_integers(L, 2, shifts, TIDE_MAX_DIMS, "shifts");
  int m = a.n > 2 && !lua_isnil(L, 3) ? ltide_check_dims(L, 3, tide_tensor_ndim(x), dims, "dims") : 1;
  if (n != m) return ltide_error(L, "ShapeError", "roll: shifts: got %d, expected %d, one for each dimension", n, m);
  if (a.n > 2) return deliver(L, S, a, tide_roll(&ltide_new_tensor(L, S)->t, x, shifts, dims, n));
  ltide_tensor *flat = flattened(L, S, x), *rolled = ltide_new_tensor(L, S);
  ltide_try(L, tide_roll(&rolled->t, flat->t, shifts, dims, 1));
  ltide_try(L, tide_view(&ltide_new_tensor(L, S)->t, rolled->t, tide_tensor_size(x), tide_tensor_ndim(x)));
  ltide_close_tensor(flat);
  ltide_close_tensor(rolled);
  return deliver(L, S, a, TIDE_OK);
}

static int ltensor_rot90(lua_State *L) {
  ltide_named(L, 2, LTIDE_NAMES("k", "dims"));
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args a = split(L, S, 2, 3);
  int64_t k = a.n > 1 && !lua_isnil(L, 2) ? ltide_check_integer(L, 2, "k") : 1;
  int dims[TIDE_MAX_DIMS] = {0, 1}, n = tide_tensor_ndim(x);
  if (n < 2) return ltide_error(L, "ShapeError", "rot90: x: got %d dimensions, expected at least 2", n);
  if (a.n > 2 && ltide_check_dims(L, 3, n, dims, "dims") != 2)
    return ltide_error(L, "ShapeError", "rot90: dims: expected a table of two dimensions");
  return deliver(L, S, a, tide_rot90(&ltide_new_tensor(L, S)->t, x, k, dims[0], dims[1]));
}

/* {==== Complex tensors */

/* Pushes a new complex tensor of the broadcast shape and two views of it, for the parts. */
static void push_complex(lua_State *L, ltide_state *S, tide_tensor *const *pair, ltide_tensor **re, ltide_tensor **im) {
  int64_t size[TIDE_MAX_DIMS];
  int ndim;
  tide_dtype real = tide_dtype_promote(tide_tensor_dtype(pair[0]), tide_tensor_dtype(pair[1]));
  if (real != TIDE_FLOAT32 && real != TIDE_FLOAT64)
    ltide_error(L, "DtypeError", "%s: got %s parts, expected float32 or float64", ltide_function_name(L),
                tide_dtype_name(real));
  ltide_try(L, tide_broadcast_size(size, &ndim, pair, 2));
  tide_options o = {real == TIDE_FLOAT32 ? TIDE_COMPLEX64 : TIDE_COMPLEX128, tide_tensor_device(pair[0]), false};
  ltide_tensor *u = ltide_new_tensor(L, S), *a = ltide_new_tensor(L, S), *b = ltide_new_tensor(L, S);
  ltide_try(L, tide_empty(&u->t, size, ndim, &o));
  ltide_try(L, tide_real(&a->t, u->t));
  ltide_try(L, tide_imag(&b->t, u->t));
  *re = a, *im = b;
}

static int lcomplex(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_args a = split(L, S, 2, 2);
  tide_tensor *pair[2] = {ltide_check_tensor(L, S, 1, "re"), ltide_check_tensor(L, S, 2, "im")};
  ltide_tensor *re, *im;
  push_complex(L, S, pair, &re, &im);
  ltide_try(L, tide_copy(re->t, pair[0], false));
  ltide_try(L, tide_copy(im->t, pair[1], false));
  ltide_close_tensor(re);
  ltide_close_tensor(im);
  lua_pop(L, 2);
  return deliver(L, S, a, TIDE_OK);
}

static int lpolar(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_args a = split(L, S, 2, 2);
  tide_tensor *pair[2] = {ltide_check_tensor(L, S, 1, "abs"), ltide_check_tensor(L, S, 2, "angle")};
  ltide_tensor *re, *im;
  push_complex(L, S, pair, &re, &im);
  ltide_tensor *cosine = ltide_new_tensor(L, S), *sine = ltide_new_tensor(L, S);
  ltide_try(L, tide_unary(&cosine->t, TIDE_OP_cos, pair[1], NULL));
  ltide_try(L, tide_unary(&sine->t, TIDE_OP_sin, pair[1], NULL));
  ltide_try(L, tide_binary(NULL, TIDE_OP_mul, pair[0], cosine->t, re->t));
  ltide_try(L, tide_binary(NULL, TIDE_OP_mul, pair[0], sine->t, im->t));
  ltide_tensor *const temporary[] = {re, im, cosine, sine};
  for (int i = 0; i < 4; i++) ltide_close_tensor(temporary[i]);
  lua_pop(L, 4);
  return deliver(L, S, a, TIDE_OK);
}

void ltide_open_shape(lua_State *L) {
  static const ltide_reg both[] = {
      {"tile", ltensor_tile,
       "x:tile(repeats... [, {out=}]) -> Tensor\nx repeated that many times along its last dimensions."},
      {"repeat_tensor", ltensor_repeat,
       "x:repeat_tensor(repeats... [, {out=}]) -> Tensor\nx repeated; a count for every dimension, more make new "
       "dimensions in "
       "front."},
      {"repeat_interleave", ltensor_repeat_interleave,
       "x:repeat_interleave(n [, dim] [, {out=}]) -> Tensor\nEvery element n times in a row, along dim or flattened. n "
       "may be an "
       "integer tensor with a count for each element, or index of dim; that synchronises."},
      {"flip", ltensor_flip, "x:flip(dims... [, {out=}]) -> Tensor\nA copy with these dimensions in reverse."},
      {"roll", ltensor_roll,
       "x:roll(shifts [, dims] [, {out=}]) -> Tensor\nA copy shifted along dims, the end coming round to the front; "
       "flattened "
       "without dims."},
      {"rot90", ltensor_rot90,
       "x:rot90([k=1 [, dims={1, 2}]] [, {out=}]) -> Tensor\nA copy turned k times by 90 degrees, from the first of "
       "dims to the "
       "second."},
      {NULL, NULL, NULL}};
  static const ltide_reg functions[] = {
      {"cat", lcat,
       "tide.cat(tensors [, dim=1] [, {out=}]) -> Tensor\nThe tensors of a table one after another along dim; other "
       "sizes "
       "must be equal."},
      {"stack", lstack,
       "tide.stack(tensors [, dim=1] [, {out=}]) -> Tensor\nThe tensors of a table along a new dimension; shapes must "
       "be "
       "equal."},
      {"broadcast_tensors", lbroadcast_tensors,
       "tide.broadcast_tensors(tensors) -> {Tensor, ...}\nViews of those of a table in their common shape."},
      {"meshgrid", lmeshgrid,
       "tide.meshgrid(tensors [, {indexing='ij'}]) -> X, Y, ...\nViews: the coordinates {x, y, ...} over the grid "
       "that they span; 'xy' exchanges the first two dimensions."},
      {"complex", lcomplex,
       "tide.complex(re, im [, {out=}]) -> Tensor\ncomplex64 from float32 parts, complex128 from float64 ones. "
       "Broadcasts."},
      {"polar", lpolar,
       "tide.polar(abs, angle [, {out=}]) -> Tensor\nThe complex tensor abs * (cos(angle) + i sin(angle)). "
       "Broadcasts."},
      {NULL, NULL, NULL}};
  ltide_register_both(L, both);
  ltide_register(L, "tide", functions);
}
