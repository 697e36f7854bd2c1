/* reduce.c: sums, extrema, tests and norms over all, one or several dimensions, and comparisons of whole tensors.
 *
 * x:sum() costs one core call. With arguments, the dimensions come first (an integer or a table, from 1) and options
 * after them. max and min are three functions under one name, as in torch: of all elements, of one dimension with its
 * indexes, and elementwise with a second tensor. */
#include <math.h>
#include <string.h>

#include "row.h"

typedef struct reduction {
  ltide_state *S;
  tide_tensor *x;
  ltide_args a;
  int dims[TIDE_MAX_DIMS];
  tide_reduce_options o;
} reduction;

/* Reads the dimensions at `arg`, or in the option dim, and keepdim. */
static void read_dims(lua_State *L, reduction *r, int arg) {
  int ndim = tide_tensor_ndim(r->x), scalar_ndim = ltide_scalar_ndim(ndim);
  int n = 0;
  if (r->a.n >= arg && !lua_isnil(L, arg))
    n = ltide_check_dims(L, arg, scalar_ndim, r->dims, "dim");
  else if (r->a.opts) {
    if (ltide_rawfield(L, r->a.opts, "dim") != LUA_TNIL)
      n = ltide_check_dims(L, lua_gettop(L), scalar_ndim, r->dims, "dim");
    lua_pop(L, 1);
  }
  r->o.dims = r->dims, r->o.ndims = ndim ? n : 0;
  r->o.keepdim = ltide_opt_boolean(L, r->a.opts, "keepdim", false);
}

/* Begins a call with at most `most` arguments; keys end with NULL. */
static void begin(lua_State *L, reduction *r, int most, const char *const *keys) {
  r->S = ltide_begin(L);
  r->x = ltide_check_tensor(L, r->S, 1, "x");
  r->a = ltide_split(L, 1);
  r->o = (tide_reduce_options)TIDE_REDUCE_OPTIONS;
  ltide_check_count(L, r->a, most);
  ltide_check_keys(L, r->a.opts, keys);
}

static int finish(lua_State *L, reduction *r, tide_reduction op) {
  tide_tensor *out = ltide_opt_tensor(L, r->S, r->a.opts, "out");
  if (out) {
    ltide_try(L, tide_reduce(NULL, op, r->x, &r->o, out));
    ltide_made(L, r->S);
    ltide_rawfield(L, r->a.opts, "out");
    return 1;
  }
  ltide_tensor *u = ltide_new_tensor(L, r->S);
  ltide_try(L, tide_reduce(&u->t, op, r->x, &r->o, NULL));
  ltide_made(L, r->S);
  return 1;
}

/* {==== [dim] [, {keepdim, dtype, out}] */

static int over_dims(lua_State *L, tide_reduction op, bool has_dtype) {
  static const char *const keys[] = {"dim", "keepdim", "out", "dtype", NULL}, *const plain_keys[] = {"dim", "keepdim",
                                                                                                     "out", NULL};
  reduction r;
  if (lua_gettop(L) == 1) {
    ltide_state *S = ltide_begin(L);
    tide_reduce_options o = TIDE_REDUCE_OPTIONS;
    tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
    ltide_tensor *u = ltide_new_tensor(L, S);
    ltide_try(L, tide_reduce(&u->t, op, x, &o, NULL));
    ltide_made(L, S);
    return 1;
  }
  begin(L, &r, 2, has_dtype ? keys : plain_keys);
  read_dims(L, &r, 2);
  if (has_dtype) r.o.dtype = ltide_opt_dtype(L, r.a.opts);
  return finish(L, &r, op);
}

static int lsum(lua_State *L) { return over_dims(L, TIDE_SUM, true); }
static int lnansum(lua_State *L) { return over_dims(L, TIDE_NANSUM, true); }
static int lmean(lua_State *L) { return over_dims(L, TIDE_MEAN, true); }
static int lprod(lua_State *L) { return over_dims(L, TIDE_PROD, true); }
static int lamax(lua_State *L) { return over_dims(L, TIDE_MAX, false); }
static int lamin(lua_State *L) { return over_dims(L, TIDE_MIN, false); }
static int lall(lua_State *L) { return over_dims(L, TIDE_ALL, false); }
static int lany(lua_State *L) { return over_dims(L, TIDE_ANY, false); }
static int lcount_nonzero(lua_State *L) { return over_dims(L, TIDE_COUNT_NONZERO, false); }

/* {==== One dimension */

static void one_dim(lua_State *L, const reduction *r) {
  if (r->o.ndims > 1)
    ltide_error(L, "ArgumentError", "%s: dim: got %d dimensions, expected one", ltide_function_name(L), r->o.ndims);
}

static int arg_extreme(lua_State *L, tide_reduction op) {
  static const char *const keys[] = {"dim", "keepdim", "out", NULL};
  reduction r;
  begin(L, &r, 2, keys);
  read_dims(L, &r, 2);
  one_dim(L, &r);
  return finish(L, &r, op);
}
static int largmax(lua_State *L) { return arg_extreme(L, TIDE_ARGMAX); }
static int largmin(lua_State *L) { return arg_extreme(L, TIDE_ARGMIN); }

/* The form with two tensors. */
static int larger_of(lua_State *L, reduction *r, tide_op op, const tide_tensor *y) {
  tide_tensor *out = ltide_opt_tensor(L, r->S, r->a.opts, "out");
  ltide_tensor *u = out ? NULL : ltide_new_tensor(L, r->S);
  ltide_try(L, tide_binary(u ? &u->t : NULL, op, r->x, y, out));
  if (out) ltide_push_option(L, r->a.opts, "out");
  ltide_made(L, r->S);
  return 1;
}

static int extreme(lua_State *L, tide_reduction op, tide_op elementwise) {
  static const char *const keys[] = {"dim", "keepdim", "out", NULL}, *const pair_keys[] = {"out", NULL};
  reduction r;
  begin(L, &r, 2, keys);
  tide_tensor *y = r.a.n > 1 ? ltide_test_tensor(L, r.S, 2) : NULL;
  if (y) {
    ltide_check_keys(L, r.a.opts, pair_keys);
    return larger_of(L, &r, elementwise, y);
  }
  read_dims(L, &r, 2);
  one_dim(L, &r);
  if (!r.o.ndims && tide_tensor_ndim(r.x)) return finish(L, &r, op);
  if (!r.o.ndims && r.a.n < 2) return finish(L, &r, op);
  ltide_check_out(L, r.S, r.a.opts, 2);
  int dim = r.o.ndims ? r.dims[0] : 0;
  ltide_tensor *values = ltide_new_tensor(L, r.S), *indices = ltide_new_tensor(L, r.S);
  ltide_try(L, tide_reduce_index(&values->t, &indices->t, op, r.x, dim, r.o.keepdim));
  return ltide_deliver(L, r.S, r.a.opts, 2);
}
static int lmax(lua_State *L) { return extreme(L, TIDE_MAX, TIDE_OP_maximum); }
static int lmin(lua_State *L) { return extreme(L, TIDE_MIN, TIDE_OP_minimum); }

static int laminmax(lua_State *L) {
  static const char *const keys[] = {"dim", "keepdim", "out", NULL};
  reduction r;
  begin(L, &r, 2, keys);
  read_dims(L, &r, 2);
  one_dim(L, &r);
  ltide_check_out(L, r.S, r.a.opts, 2);
  ltide_tensor *low = ltide_new_tensor(L, r.S), *high = ltide_new_tensor(L, r.S);
  ltide_try(L, tide_reduce(&low->t, TIDE_MIN, r.x, &r.o, NULL));
  ltide_try(L, tide_reduce(&high->t, TIDE_MAX, r.x, &r.o, NULL));
  return ltide_deliver(L, r.S, r.a.opts, 2);
}

/* {==== Spread and norms */

static void begin_spread(lua_State *L, reduction *r) {
  static const char *const keys[] = {"dim", "correction", "keepdim", "out", NULL};
  begin(L, r, 2, keys);
  read_dims(L, r, 2);
  r->o.param = ltide_opt_number(L, r->a.opts, "correction", 1);
}

static int spread(lua_State *L, tide_reduction op) {
  reduction r;
  begin_spread(L, &r);
  return finish(L, &r, op);
}
static int lvar(lua_State *L) { return spread(L, TIDE_VAR); }
static int lstd(lua_State *L) { return spread(L, TIDE_STD); }

static int lvar_mean(lua_State *L) {
  reduction r;
  begin_spread(L, &r);
  ltide_check_out(L, r.S, r.a.opts, 2);
  ltide_tensor *var = ltide_new_tensor(L, r.S), *mean = ltide_new_tensor(L, r.S);
  ltide_try(L, tide_var_mean(&var->t, &mean->t, r.x, &r.o));
  return ltide_deliver(L, r.S, r.a.opts, 2);
}

static int lnorm(lua_State *L) {
  static const char *const keys[] = {"p", "dim", "keepdim", "dtype", "out", NULL};
  reduction r;
  begin(L, &r, 3, keys);
  read_dims(L, &r, 3);
  r.o.dtype = ltide_opt_dtype(L, r.a.opts);
  bool is_given = r.a.n > 1 && !lua_isnil(L, 2);
  r.o.param = is_given ? ltide_check_number(L, 2, "p") : ltide_opt_number(L, r.a.opts, "p", 2);
  return finish(L, &r, TIDE_NORM);
}

/* {==== Whole tensors */

static int equal_now(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  bool is_equal = false;
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x"), *y = ltide_check_tensor(L, S, 2, "y");
  ltide_try(L, tide_equal(&is_equal, x, y));
  lua_pushboolean(L, is_equal);
  return 1;
}
static int lequal(lua_State *L) { return ltide_waiting(L, equal_now); }

static int allclose_now(lua_State *L) {
  static const char *const keys[] = {"rtol", "atol", "equal_nan", NULL};
  ltide_state *S = ltide_enter(L);
  tide_operand in[2] = {{ltide_check_tensor(L, S, 1, "x"), {0}}, {ltide_check_tensor(L, S, 2, "y"), {0}}};
  ltide_args a = ltide_split(L, 2);
  ltide_check_count(L, a, 2);
  ltide_check_keys(L, a.opts, keys);
  tide_scalar p[3] = {tide_float(ltide_opt_number(L, a.opts, "rtol", 1e-5)),
                      tide_float(ltide_opt_number(L, a.opts, "atol", 1e-8)),
                      tide_float(ltide_opt_boolean(L, a.opts, "equal_nan", false))};
  tide_reduce_options o = TIDE_REDUCE_OPTIONS;
  ltide_tensor *close = ltide_new_tensor(L, S), *all = ltide_new_tensor(L, S);
  ltide_try(L, tide_elementwise(&close->t, TIDE_OP_isclose, in, p, NULL));
  ltide_try(L, tide_reduce(&all->t, TIDE_ALL, close->t, &o, NULL));
  tide_scalar s = {0};
  ltide_try(L, tide_item(&s, all->t));
  ltide_close_tensor(close);
  ltide_close_tensor(all);
  lua_pushboolean(L, s.i != 0);
  ltide_made(L, S);
  return 1;
}
static int lallclose(lua_State *L) { return ltide_waiting(L, allclose_now); }

#define DIMS_TAIL "Over all elements, a dimension or a table of them."

void ltide_open_reduce(lua_State *L, ltide_state *S) {
  (void)S;
#define PATH "tide."
  static ltide_row rows[] = {
#include "api/reduce.def"
      {0}};
  ltide_register_rows(L, "tide", rows);
}
