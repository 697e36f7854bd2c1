/* sort.c: lines in order, the first of them, their middles, what occurs in them, and searching. What is made of these
 * by operations on whole tensors is in tensor/sort.lua. */
#include "tide/sort.h"

#include <math.h>
#include "call/each.h"

#include "tensor.h"

/* {==== Values with their indexes */

static int lsort(lua_State *L, ltide_call *c) {
  ltide_two r = ltide_results(L, c);
  bool descending = ltide_get(L, c, "descending")->boolean;
  return ltide_finish_two(L, c, tide_sort(r.first, r.second, c->x, c->v[1].dim, descending));
}

static int largsort(lua_State *L, ltide_call *c) {
  bool descending = ltide_get(L, c, "descending")->boolean;
  return ltide_finish(L, c, tide_sort(NULL, ltide_result(L, c), c->x, c->v[1].dim, descending));
}

static int ltopk(lua_State *L, ltide_call *c) {
  ltide_two r = ltide_results(L, c);
  bool largest = ltide_get(L, c, "largest")->boolean;
  return ltide_finish_two(L, c, tide_topk(r.first, r.second, c->x, c->v[1].i, c->v[2].dim, largest));
}

static int lkthvalue(lua_State *L, ltide_call *c) {
  ltide_two r = ltide_results(L, c);
  return ltide_finish_two(L, c, tide_kthvalue(r.first, r.second, c->x, c->v[1].i, c->v[2].dim, c->v[3].boolean));
}

/* Of no elements: NaN, as of one that is none. */
static int no_median(lua_State *L, ltide_call *c) {
  tide_options o = {tide_tensor_dtype(c->x), tide_tensor_device(c->x), false};
  if (tide_dtype_kind(o.dtype) != 'F')
    return ltide_error(L, "ShapeError", "median: x: got no elements, expected some, or a floating dtype");
  return ltide_finish(L, c, tide_full(ltide_result(L, c), NULL, 0, tide_float(NAN), &o));
}

static int lmedian(lua_State *L, ltide_call *c) {
  if (c->v[1].given) {
    ltide_two r = ltide_results(L, c);
    return ltide_finish_two(L, c, tide_median(r.first, r.second, c->x, c->v[1].dim, c->v[2].boolean));
  }
  if (c->v[2].given)
    return ltide_error(L, "ArgumentError", "median: keepdim: it is for one dimension, got none, expected dim too");
  ltide_check_out(L, c->S, c->opts, 1);
  if (tide_tensor_numel(c->x) == 0) return no_median(L, c);
  ltide_tensor *flat = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_flatten(&flat->t, c->x, 0, -1));
  tide_tensor **out = ltide_result(L, c);
  tide_status status = tide_median(out, NULL, flat->t, 0, false);
  ltide_close_tensor(flat);
  return ltide_finish(L, c, status);
}

/* {==== Searching */

/* A new tensor of v, a tensor or a number, of this dtype and on of's device unless it is a tensor. */
static const tide_tensor *made_of(lua_State *L, ltide_call *c, const tide_operand *v, tide_dtype dtype,
                                  const tide_tensor *of) {
  tide_options o = {dtype, tide_tensor_device(v->tensor ? v->tensor : of), false};
  tide_tensor **made = ltide_result(L, c);
  ltide_try(L, v->tensor ? tide_to(made, v->tensor, &o, false, false) : tide_full(made, NULL, 0, v->number, &o));
  return *made;
}

/* The dtype in which elements of dtype and the number are what they are: its own unless integers have no place for the
 * number. */
static tide_dtype common_dtype(tide_dtype dtype, const tide_scalar *number) {
  char kind = tide_dtype_kind(dtype);
  if (kind == 'F' || kind == 'C' || number->kind == 'B' || number->kind == 'C') return dtype;
  bool whole = number->kind == 'I' || (fabs(number->re) < 0x1p63 && number->re == trunc(number->re));
  if (!whole) return TIDE_FLOAT64;
  int64_t i = number->kind == 'I' ? number->i : (int64_t)number->re;
  int bits = kind == 'B' ? 1 : 8 * (int)tide_dtype_size(dtype) - (kind == 'I');
  bool fits = bits == 63 || (i < INT64_C(1) << bits && i >= (kind == 'I' ? -(INT64_C(1) << bits) : 0));
  return fits ? dtype : TIDE_INT64;
}

static int search(lua_State *L, ltide_call *c, tide_tensor *sorted, const tide_operand *v, const tide_tensor *sorter) {
  bool right = ltide_get(L, c, "right")->boolean, narrow = ltide_get(L, c, "out_int32")->boolean;
  const tide_tensor *lines = sorted, *x = v->tensor;
  if (!x) {
    tide_dtype dtype = common_dtype(tide_tensor_dtype(sorted), &v->number);
    if (dtype != tide_tensor_dtype(sorted)) lines = made_of(L, c, &(tide_operand){.tensor = sorted}, dtype, sorted);
    x = made_of(L, c, v, dtype, sorted);
  }
  tide_tensor **out = ltide_result(L, c);
  ltide_try(L, tide_searchsorted(out, lines, x, right, sorter));
  if (!narrow) return ltide_finish(L, c, TIDE_OK);
  tide_options o = {TIDE_INT32, tide_tensor_device(*out), false};
  return ltide_finish(L, c, tide_to(ltide_result(L, c), *out, &o, false, false));
}

static int lsearchsorted(lua_State *L, ltide_call *c) {
  const ltide_value *side = ltide_get(L, c, "side"), *sorter = ltide_get(L, c, "sorter");
  ltide_value *right = (ltide_value *)ltide_get(L, c, "right");
  if (side->given && side->i == 0 && right->boolean)
    return ltide_error(L, "ValueError", "searchsorted: side: got 'left' beside right = true, expected one of them");
  if (side->given && side->i == 1) right->boolean = true;
  return search(L, c, c->x, &c->v[1].operand, sorter->given ? sorter->tensor : NULL);
}

static int lbucketize(lua_State *L, ltide_call *c) {
  tide_tensor *boundaries = c->v[1].tensor;
  if (tide_tensor_ndim(boundaries) != 1)
    return ltide_error(L, "ShapeError", "bucketize: boundaries: got %d dimensions, expected one",
                       tide_tensor_ndim(boundaries));
  return search(L, c, boundaries, &c->v[0].operand, NULL);
}

/* {==== What tensor/sort.lua does */

/* sorted(x, dim): the values in order, without their indexes. */
static int script_sorted(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_tensor *made = ltide_new_tensor(L, S);
  return ltide_give_tensors(L, S, tide_sort(&made->t, NULL, x, (int)lua_tointeger(L, 2) - 1, false), 1);
}

/* search(sorted, x): the places of x in a line in order. */
static int script_search(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  tide_tensor *sorted = ltide_check_tensor(L, S, 1, "sorted"), *x = ltide_check_tensor(L, S, 2, "x");
  ltide_tensor *made = ltide_new_tensor(L, S);
  return ltide_give_tensors(L, S, tide_searchsorted(&made->t, sorted, x, false, NULL), 1);
}

/* extremes(x): the least and the greatest of integers. */
static int script_extremes(lua_State *L) {
  ltide_state *S = ltide_begin(L);
  int64_t low, high;
  ltide_try(L, tide_extremes(&low, &high, ltide_check_tensor(L, S, 1, "x")));
  return ltide_give_pair(L, low, high);
}

/* Calls the function of tensor/sort.lua with the values above `from`, and ends the call with its `n` results. */
static int finish_script(lua_State *L, ltide_call *c, const char *name, int from, int n) {
  ltide_script_push(L, name);
  lua_insert(L, from + 1);
  lua_call(L, lua_gettop(L) - from - 1, n);
  ltide_enter(L);
  return ltide_deliver(L, c->S, c->opts, n);
}

static int lisin(lua_State *L, ltide_call *c) {
  const tide_operand *x = &c->v[0].operand, *test = &c->v[1].operand;
  if (!x->tensor && !test->tensor)
    return ltide_error(L, "ArgumentError", "isin: x, test: got two numbers, expected a tensor");
  int from = lua_gettop(L);
  const tide_tensor *of = x->tensor ? x->tensor : test->tensor;
  tide_dtype dtype = tide_tensor_dtype(of);
  if (x->tensor && test->tensor) dtype = tide_dtype_promote(dtype, tide_tensor_dtype(test->tensor));
  if (!x->tensor || !test->tensor) dtype = common_dtype(dtype, x->tensor ? &test->number : &x->number);
  made_of(L, c, x, dtype, of);
  made_of(L, c, test, dtype, of);
  lua_pushboolean(L, ltide_get(L, c, "invert")->boolean);
  return finish_script(L, c, "tensor/sort.is_in", from, 1);
}

#include <rows/sort.inc>

void ltide_open_sort(lua_State *L, ltide_state *S) {
  LTIDE_GIVE(L, "tensor/sort.c", sorted, search, extremes);
  ltide_register_rows(L, "tide", sort_rows);
}
