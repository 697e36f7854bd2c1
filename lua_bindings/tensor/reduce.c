/* reduce.c: sums, extrema, tests and norms over all, one or several dimensions, and comparisons of whole tensors.
 *
 * x:sum() costs one core call. Which reduction a row asks for is its tag. max and min are three functions under one
 * name, as in torch: of all elements, of one dimension with its indexes, and elementwise with a second tensor. */
#include <math.h>

#include "tide/fuse.h"

#include "fuse/fuse.h"
#include "tensor.h"

typedef tide_reduce_options options;

/* What the row has of dim, keepdim and dtype. */
static options read_options(const ltide_call *c, const ltide_value *dim) {
  options o = TIDE_REDUCE_OPTIONS;
  o.dims = dim->dims, o.ndims = tide_tensor_ndim(c->x) ? dim->n : 0;
  o.keepdim = dim[1].boolean;
  return o;
}

static int finish(lua_State *L, ltide_call *c, tide_reduction op, const options *o) {
  tide_tensor **slot = ltide_slot(L, c);
  bool is_fusing = c->S->is_fusing && !c->into;
  tide_status status = is_fusing ? tide_fuse_reduce(slot, ltide_fuse_of(c->S)->pending, op, c->x, o)
                                 : tide_reduce(slot, op, c->x, o, c->into);
  return ltide_finish_into(L, c, status);
}

/* {==== [dim] [, {keepdim, dtype, out}] */

/* Of complex numbers it is tensor/complex.lua's. */
static bool is_composed(int tag, const tide_tensor *x) {
  return tag == TIDE_LOGSUMEXP && tide_dtype_kind(tide_tensor_dtype(x)) == 'C';
}

static int reduce(lua_State *L, ltide_call *c) {
  if (is_composed(c->row->tag, c->x)) return ltide_compose(L, c, "tensor/complex.logsumexp");
  options o = read_options(c, &c->v[1]);
  if (c->sig->count == 5) o.dtype = c->v[4].dtype;
  return finish(L, c, (tide_reduction)c->row->tag, &o);
}

static int lreduce(lua_State *L) {
  const ltide_row *row = lua_touserdata(L, lua_upvalueindex(1));
  if (lua_gettop(L) != 1 || !row) return ltide_run(L);
  ltide_state *S = ltide_begin(L);
  options o = TIDE_REDUCE_OPTIONS;
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  if (is_composed(row->tag, x)) return ltide_run(L);
  ltide_tensor *u = ltide_new_tensor(L, S);
  return ltide_give_tensors(L, S,
                            __builtin_expect(S->is_fusing, 0)
                                ? tide_fuse_reduce(&u->t, ltide_fuse_of(S)->pending, (tide_reduction)row->tag, x, &o)
                                : tide_reduce(&u->t, (tide_reduction)row->tag, x, &o, NULL),
                            1);
}

/* {==== One dimension */

static void one_dim(lua_State *L, const options *o) {
  if (o->ndims > 1) ltide_fail(L, "ArgumentError", "dim: got %d dimensions, expected one", o->ndims);
}

static int larg_extreme(lua_State *L, ltide_call *c) {
  options o = read_options(c, &c->v[1]);
  one_dim(L, &o);
  return finish(L, c, (tide_reduction)c->row->tag, &o);
}

/* The form with two tensors. */
static int larger_of(lua_State *L, ltide_call *c, const tide_tensor *y) {
  ltide_check_keys(L, c->opts, LTIDE_NAMES("out"));
  ltide_check_out(L, c->S, c->opts, 1);
  tide_tensor **slot = ltide_slot(L, c);
  return ltide_finish_into(
      L, c, tide_binary(slot, c->row->tag == TIDE_MAX ? TIDE_OP_maximum : TIDE_OP_minimum, c->x, y, c->into));
}

static int extreme(lua_State *L, ltide_call *c) {
  tide_reduction op = (tide_reduction)c->row->tag;
  options o = read_options(c, &c->v[1]);
  one_dim(L, &o);
  bool is_whole = !o.ndims && (tide_tensor_ndim(c->x) || !c->v[1].given);
  if (is_whole) {
    ltide_check_out(L, c->S, c->opts, 1);
    return finish(L, c, op, &o);
  }
  ltide_two r = ltide_results(L, c);
  return ltide_finish_two(L, c, tide_reduce_index(r.first, r.second, op, c->x, o.ndims ? o.dims[0] : 0, o.keepdim));
}

static int lextreme(lua_State *L) {
  ltide_call c;
  ltide_call_begin(L, &c);
  tide_tensor *y = c.n > 1 ? ltide_test_tensor(L, c.S, 2) : NULL;
  if (!y) return ltide_run(L);
  c.x = ltide_check_tensor(L, c.S, 1, "x");
  return larger_of(L, &c, y);
}

static int laminmax(lua_State *L, ltide_call *c) {
  options o = read_options(c, &c->v[1]);
  one_dim(L, &o);
  ltide_two r = ltide_results(L, c);
  ltide_try(L, tide_reduce(r.first, TIDE_MIN, c->x, &o, NULL));
  return ltide_finish_two(L, c, tide_reduce(r.second, TIDE_MAX, c->x, &o, NULL));
}

/* {==== Spread and norms */

static int lspread(lua_State *L, ltide_call *c) {
  options o = read_options(c, &c->v[1]);
  o.param = ltide_get(L, c, "correction")->number;
  return finish(L, c, (tide_reduction)c->row->tag, &o);
}

static int lvar_mean(lua_State *L, ltide_call *c) {
  options o = read_options(c, &c->v[1]);
  o.param = ltide_get(L, c, "correction")->number;
  ltide_two r = ltide_results(L, c);
  return ltide_finish_two(L, c, tide_var_mean(r.first, r.second, c->x, &o));
}

static int lnorm(lua_State *L, ltide_call *c) {
  options o = read_options(c, &c->v[2]);
  o.param = c->v[1].number;
  o.dtype = ltide_get(L, c, "dtype")->dtype;
  return finish(L, c, (tide_reduction)c->row->tag, &o);
}

/* {==== Whole tensors */

static int lequal(lua_State *L, ltide_call *c) {
  bool is_equal = false;
  ltide_try(L, tide_equal(&is_equal, c->x, c->v[1].tensor));
  return ltide_give_boolean(L, is_equal);
}

static int lallclose(lua_State *L, ltide_call *c) {
  tide_operand in[2] = {{c->x, {0}}, {c->v[1].tensor, {0}}};
  tide_scalar p[3] = {tide_float(c->v[2].number), tide_float(c->v[3].number), tide_float(c->v[4].boolean)};
  options o = TIDE_REDUCE_OPTIONS;
  ltide_tensor *close = ltide_new_tensor(L, c->S), *all = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_elementwise(&close->t, TIDE_OP_isclose, in, p, NULL));
  ltide_try(L, tide_reduce(&all->t, TIDE_ALL, close->t, &o, NULL));
  tide_scalar s = {0};
  ltide_try(L, tide_item(&s, all->t));
  ltide_close_tensor(close);
  ltide_close_tensor(all);
  lua_pushboolean(L, s.i != 0);
  ltide_made(L, c->S);
  return 1;
}

#define NOUN reduce
#include "call/api/open_noun.def"
