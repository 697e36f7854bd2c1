/* shape.c: shaping that copies (cat, stack, tile, flip, roll ...), broadcasting of lists, and complex tensors from
 * parts. */
#include "tensor.h"

/* {==== Lists */

/* That of the row, which is not empty. */
static const ltide_value *check_list(lua_State *L, const ltide_call *c) {
  if (!c->v[0].n) ltide_fail(L, "ValueError", "tensors: got an empty list, expected at least one tensor");
  return &c->v[0];
}

/* Joins the tensors along a dimension that is counted in the first of them, or in one more for stack. */
static int ljoin(lua_State *L, ltide_call *c) {
  const ltide_value *list = check_list(L, c);
  tide_tensor **slot = ltide_slot(L, c);
  tide_status (*join)(tide_tensor **, tide_tensor *const *, int, int, tide_tensor *) =
      c->row->tag ? tide_stack : tide_cat;
  return ltide_finish_into(L, c, join(slot, list->tensors, list->n, c->v[1].dim, c->into));
}

static int lbroadcast_tensors(lua_State *L, ltide_call *c) {
  const ltide_value *list = &c->v[0];
  int64_t size[TIDE_MAX_DIMS];
  int ndim;
  lua_createtable(L, list->n, 0);
  if (!list->n) return 1;
  ltide_try(L, tide_broadcast_size(size, &ndim, list->tensors, list->n));
  for (int i = 0; i < list->n; i++) {
    ltide_try(L, tide_expand(ltide_result(L, c), list->tensors[i], size, ndim));
    lua_rawseti(L, -2, i + 1);
  }
  ltide_made(L, c->S);
  return 1;
}

static int lmeshgrid(lua_State *L, ltide_call *c) {
  bool xy = c->v[1].i == 1; /* the first two grids exchanged */
  const ltide_value *list = check_list(L, c);
  int64_t size[TIDE_MAX_DIMS];
  if (list->n > TIDE_MAX_DIMS)
    return ltide_error(L, "ValueError", "meshgrid: tensors: got %d, expected at most %d", list->n, TIDE_MAX_DIMS);
  luaL_checkstack(L, 2 * list->n + 4, "meshgrid");
  for (int i = 0; i < list->n; i++) {
    if (tide_tensor_ndim(list->tensors[i]) > 1)
      return ltide_error(L, "ShapeError", "meshgrid: tensors: number %d has %d dimensions, expected at most 1", i + 1,
                         tide_tensor_ndim(list->tensors[i]));
    size[xy && i < 2 && list->n > 1 ? 1 - i : i] = tide_tensor_numel(list->tensors[i]);
  }
  for (int i = 0; i < list->n; i++) {
    int64_t column[TIDE_MAX_DIMS];
    int at = xy && i < 2 && list->n > 1 ? 1 - i : i;
    for (int d = 0; d < list->n; d++) column[d] = d == at ? size[d] : 1;
    ltide_tensor *u = ltide_new_tensor(L, c->S), *v = ltide_new_tensor(L, c->S);
    ltide_try(L, tide_reshape(&v->t, list->tensors[i], column, list->n));
    ltide_try(L, tide_expand(&u->t, v->t, size, list->n));
    ltide_close_tensor(v);
    lua_pop(L, 1);
  }
  ltide_made(L, c->S);
  return list->n;
}

/* {==== Repeating and turning */

/* Unlike tile, it needs a count for every dimension. */
static int ltensor_repeat(lua_State *L, ltide_call *c) {
  int n = c->v[1].n, ndim = tide_tensor_ndim(c->x);
  if (n < ndim)
    return ltide_error(L, "ShapeError",
                       "repeat_tensor: repeats: got %d, expected at least %d, one for each dimension; tile takes fewer",
                       n, ndim);
  return ltide_finish(L, c, tide_tile(ltide_result(L, c), c->x, c->v[1].sizes, n));
}

/* Pushes the elements in one dimension, for calls that name none. */
static ltide_tensor *flattened(lua_State *L, ltide_call *c) {
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  int64_t all = -1;
  ltide_try(L, tide_reshape(&u->t, c->x, &all, 1));
  return u;
}

static int ltensor_repeat_interleave(lua_State *L, ltide_call *c) {
  tide_tensor *x = c->x, *counts = ltide_test_tensor(L, c->S, c->v[1].at);
  int64_t n = counts ? 0 : ltide_check_integer(L, c->v[1].at, "n");
  if (n < 0) return ltide_error(L, "ValueError", "repeat_interleave: n: got %I, expected at least 0", (lua_Integer)n);
  int dim = c->v[2].given ? c->v[2].dim : 0;
  ltide_tensor *flat = c->v[2].given ? NULL : flattened(L, c), *u = ltide_new_tensor(L, c->S);
  if (flat) x = flat->t;
  ltide_try(L, counts ? tide_repeat_interleave_each(&u->t, x, counts, dim) : tide_repeat_interleave(&u->t, x, n, dim));
  if (flat) ltide_close_tensor(flat);
  return ltide_finish(L, c, TIDE_OK);
}

static int ltensor_roll(lua_State *L, ltide_call *c) {
  const ltide_value *shifts = &c->v[1], *dims = &c->v[2];
  int n = shifts->n, m = dims->given ? dims->n : 1;
  if (n != m) return ltide_error(L, "ShapeError", "roll: shifts: got %d, expected %d, one for each dimension", n, m);
  if (dims->given) return ltide_finish(L, c, tide_roll(ltide_result(L, c), c->x, shifts->sizes, dims->dims, n));
  ltide_tensor *flat = flattened(L, c), *rolled = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_roll(&rolled->t, flat->t, shifts->sizes, &(int){0}, 1));
  ltide_try(L, tide_view(ltide_result(L, c), rolled->t, tide_tensor_size(c->x), tide_tensor_ndim(c->x)));
  ltide_close_tensor(flat);
  ltide_close_tensor(rolled);
  return ltide_finish(L, c, TIDE_OK);
}

static int ltensor_rot90(lua_State *L, ltide_call *c) {
  int first[] = {0, 1}, ndim = tide_tensor_ndim(c->x);
  const int *dims = c->v[2].given ? c->v[2].dims : first;
  if (ndim < 2) return ltide_error(L, "ShapeError", "rot90: x: got %d dimensions, expected at least 2", ndim);
  if (c->v[2].given && c->v[2].n != 2)
    return ltide_error(L, "ShapeError", "rot90: dims: expected a table of two dimensions");
  return ltide_finish(L, c, tide_rot90(ltide_result(L, c), c->x, c->v[1].i, dims[0], dims[1]));
}

/* {==== Complex tensors */

/* Pushes a new complex tensor of the broadcast shape and two views of it, for the parts. */
static void push_complex(lua_State *L, ltide_state *S, tide_tensor *const *pair, ltide_tensor **re, ltide_tensor **im) {
  int64_t size[TIDE_MAX_DIMS];
  int ndim;
  tide_dtype real = tide_dtype_promote(tide_tensor_dtype(pair[0]), tide_tensor_dtype(pair[1]));
  if (real != TIDE_FLOAT32 && real != TIDE_FLOAT64)
    ltide_fail(L, "DtypeError", "got %s parts, expected float32 or float64", tide_dtype_name(real));
  ltide_try(L, tide_broadcast_size(size, &ndim, pair, 2));
  tide_options o = {real == TIDE_FLOAT32 ? TIDE_COMPLEX64 : TIDE_COMPLEX128, tide_tensor_device(pair[0]), false};
  ltide_tensor *u = ltide_new_tensor(L, S), *a = ltide_new_tensor(L, S), *b = ltide_new_tensor(L, S);
  ltide_try(L, tide_empty(&u->t, size, ndim, &o));
  ltide_try(L, tide_real(&a->t, u->t));
  ltide_try(L, tide_imag(&b->t, u->t));
  *re = a, *im = b;
}

static int lcomplex(lua_State *L, ltide_call *c) {
  tide_tensor *pair[2] = {c->x, c->v[1].tensor};
  ltide_tensor *re, *im;
  push_complex(L, c->S, pair, &re, &im);
  ltide_try(L, tide_copy(re->t, pair[0], false));
  ltide_try(L, tide_copy(im->t, pair[1], false));
  ltide_close_tensor(re);
  ltide_close_tensor(im);
  lua_pop(L, 2);
  return ltide_finish(L, c, TIDE_OK);
}

static int lpolar(lua_State *L, ltide_call *c) {
  tide_tensor *pair[2] = {c->x, c->v[1].tensor};
  ltide_tensor *re, *im;
  push_complex(L, c->S, pair, &re, &im);
  ltide_tensor *cosine = ltide_new_tensor(L, c->S), *sine = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_unary(&cosine->t, TIDE_OP_cos, pair[1], NULL));
  ltide_try(L, tide_unary(&sine->t, TIDE_OP_sin, pair[1], NULL));
  ltide_try(L, tide_binary(NULL, TIDE_OP_mul, pair[0], cosine->t, re->t));
  ltide_try(L, tide_binary(NULL, TIDE_OP_mul, pair[0], sine->t, im->t));
  ltide_tensor *const temporary[] = {re, im, cosine, sine};
  for (int i = 0; i < 4; i++) ltide_close_tensor(temporary[i]);
  lua_pop(L, 4);
  return ltide_finish(L, c, TIDE_OK);
}

#define NOUN shape
#include "call/api/open_noun.def"
