/* scan.c: running sums, products and extremes along a dimension, softmax along one, and differences. Which scan a row
 * asks for is its tag. Areas under lines are tensor/trapezoid.lua's, logarithms of
 * sums of complex numbers tensor/complex.lua's. */
#include "tide/scan.h"

#include "tensor.h"

static int lscan(lua_State *L, ltide_call *c) {
  bool is_complex = tide_dtype_kind(tide_tensor_dtype(c->x)) == 'C';
  if (is_complex && c->row->tag == TIDE_SCAN_LOGCUMSUMEXP) return ltide_compose(L, c, "tensor/complex.logcumsumexp");
  tide_dtype dtype = c->sig->count == 4 ? ltide_get(L, c, "dtype")->dtype : TIDE_DTYPE_NONE;
  tide_tensor **slot = ltide_slot(L, c);
  return ltide_finish_into(L, c, tide_scan(slot, (tide_scan_op)c->row->tag, c->x, c->v[1].dim, dtype, c->into));
}

static int lscan_(lua_State *L, ltide_call *c) {
  return ltide_self(L, tide_scan(NULL, (tide_scan_op)c->row->tag, c->x, c->v[1].dim, TIDE_DTYPE_NONE, c->x));
}

static int lplaced(lua_State *L, ltide_call *c) {
  ltide_two r = ltide_results(L, c);
  return ltide_finish_two(L, c, tide_scan_index(r.first, r.second, (tide_scan_op)c->row->tag, c->x, c->v[1].dim));
}

/* The tag: whether the logarithm is wanted. */
static int lsoftmax(lua_State *L, ltide_call *c) {
  tide_tensor **slot = ltide_slot(L, c);
  return ltide_finish_into(
      L, c, tide_softmax(slot, c->x, c->v[1].dim, c->row->tag != 0, ltide_get(L, c, "dtype")->dtype, c->into));
}

/* What goes before or behind x has its sizes but along dim. */
static tide_tensor *beside(lua_State *L, const ltide_call *c, const char *name, int dim) {
  tide_tensor *v = ltide_get(L, c, name)->tensor, *x = c->x;
  int ndim = tide_tensor_ndim(x);
  bool fits = tide_tensor_ndim(v) == ndim;
  for (int d = 0; fits && d < ndim; d++) fits = d == dim || tide_tensor_size(v)[d] == tide_tensor_size(x)[d];
  if (!fits)
    ltide_fail(L, "ShapeError", "%s: got %s, expected the sizes of x, %s, but for dimension %d", name,
               ltide_typename(L, ltide_get(L, c, name)->at), ltide_typename(L, c->v[0].at), dim + ltide_base(L));
  return v;
}

/* x between what goes before it and what goes behind it, where something does. */
static tide_tensor *extended(lua_State *L, ltide_call *c, int dim) {
  tide_tensor *list[3];
  int n = 0;
  if (ltide_get(L, c, "prepend")->given) list[n++] = beside(L, c, "prepend", dim);
  list[n++] = c->x;
  if (ltide_get(L, c, "append")->given) list[n++] = beside(L, c, "append", dim);
  if (n == 1) return c->x;
  ltide_tensor *all = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_cat(&all->t, list, n, dim, NULL));
  return all->t;
}

static int ldiff(lua_State *L, ltide_call *c) {
  int dim = ltide_get(L, c, "dim")->dim;
  tide_tensor *x = c->x;
  if (tide_tensor_ndim(x) && ltide_get(L, c, "n")->i > 0) x = extended(L, c, dim);
  return ltide_finish(L, c, tide_diff(ltide_result(L, c), x, ltide_get(L, c, "n")->i, dim));
}

#define NOUN scan
#include "call/api/open_noun.def"
