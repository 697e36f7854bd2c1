/* scatter.c: reads and writes at places that index tensors name, and counts of values. Core checks; a row with a tag is
 * the form in place. */
#include "tide/scatter.h"

#include "fuse/fuse.h"
#include "tensor.h"
#include "tide/fuse.h"

/* Where the result goes: x itself, out=, or a new handle. */
static tide_tensor **begin(lua_State *L, ltide_call *c) {
  if (!c->row->tag) return ltide_slot(L, c);
  c->into = c->x;
  return NULL;
}

static int finish(lua_State *L, ltide_call *c, tide_status status) {
  if (!c->row->tag) return ltide_finish_into(L, c, status);
  ltide_try(L, status);
  ltide_made(L, c->S);
  return ltide_self(L, TIDE_OK);
}

/* {==== Element by element */

/* A read by an index, which tide.fuse may put into a kernel. */
static bool is_fused(lua_State *L, ltide_call *c, tide_tensor **slot, const tide_tensor *index, int dim, int places) {
  return c->S->is_fusing && !c->into && ltide_fuse_gather(L, c->S, slot, c->x, index, dim, places);
}

static int lgather(lua_State *L, ltide_call *c) {
  tide_tensor **slot = begin(L, c);
  if (is_fused(L, c, slot, c->v[2].tensor, c->v[1].dim, TIDE_FUSE_ALONG)) return finish(L, c, TIDE_OK);
  return finish(L, c, tide_gather(slot, c->x, c->v[1].dim, c->v[2].tensor, c->into));
}

static int ltake(lua_State *L, ltide_call *c) {
  tide_tensor **slot = begin(L, c);
  if (is_fused(L, c, slot, c->v[1].tensor, 0, TIDE_FUSE_LINE)) return finish(L, c, TIDE_OK);
  return finish(L, c, tide_take(slot, c->x, c->v[1].tensor, c->into));
}

static int ltake_along_dim(lua_State *L, ltide_call *c) {
  tide_tensor **slot = begin(L, c);
  const tide_tensor *index = c->v[1].tensor;
  int dim = c->v[2].dim;
  if (c->v[2].given && is_fused(L, c, slot, index, dim, TIDE_FUSE_ALONG)) return finish(L, c, TIDE_OK);
  if (c->v[2].given) return finish(L, c, tide_take_along_dim(slot, c->x, index, dim, c->into));
  int64_t all = -1;
  ltide_tensor *line = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_reshape(&line->t, index, &all, 1));
  ltide_try(L, tide_take(slot, c->x, line->t, c->into));
  ltide_close_tensor(line);
  lua_pop(L, 1);
  return finish(L, c, TIDE_OK);
}

static int lput(lua_State *L, ltide_call *c) {
  tide_tensor **slot = begin(L, c);
  return finish(L, c, tide_put(slot, c->x, c->v[1].tensor, c->v[2].tensor, c->v[3].boolean, c->into));
}

static int lscatter(lua_State *L, ltide_call *c) {
  tide_scatter_op op = !c->v[4].given ? TIDE_SCATTER_WRITE : c->v[4].i ? TIDE_SCATTER_PROD : TIDE_SCATTER_SUM;
  tide_tensor **slot = begin(L, c);
  return finish(L, c, tide_scatter(slot, c->x, c->v[1].dim, c->v[2].tensor, &c->v[3].operand, op, true, c->into));
}

static int lscatter_add(lua_State *L, ltide_call *c) {
  tide_operand source = {.tensor = c->v[3].tensor};
  tide_tensor **slot = begin(L, c);
  return finish(L, c, tide_scatter(slot, c->x, c->v[1].dim, c->v[2].tensor, &source, TIDE_SCATTER_SUM, true, c->into));
}

static int lscatter_reduce(lua_State *L, ltide_call *c) {
  tide_operand source = {.tensor = c->v[3].tensor};
  tide_scatter_op op = (tide_scatter_op)(TIDE_SCATTER_SUM + c->v[4].i);
  bool include_self = !c->v[5].given || c->v[5].boolean;
  tide_tensor **slot = begin(L, c);
  return finish(L, c, tide_scatter(slot, c->x, c->v[1].dim, c->v[2].tensor, &source, op, include_self, c->into));
}

/* {==== Slice by slice */

static int lindex_add(lua_State *L, ltide_call *c) {
  tide_tensor **slot = begin(L, c);
  return finish(L, c, tide_index_add(slot, c->x, c->v[1].dim, c->v[2].tensor, c->v[3].tensor, c->v[4].scalar, c->into));
}

static int lindex_copy(lua_State *L, ltide_call *c) {
  tide_tensor **slot = begin(L, c);
  return finish(L, c, tide_index_copy(slot, c->x, c->v[1].dim, c->v[2].tensor, c->v[3].tensor, c->into));
}

static int lindex_fill(lua_State *L, ltide_call *c) {
  tide_tensor **slot = begin(L, c);
  return finish(L, c, tide_index_fill(slot, c->x, c->v[1].dim, c->v[2].tensor, &c->v[3].operand, c->into));
}

/* {==== By masks */

/* x and mask broadcast to one size: a view of x in a handle that is pushed. */
static ltide_tensor *push_wide(lua_State *L, ltide_call *c) {
  int64_t size[TIDE_MAX_DIMS];
  int ndim;
  tide_tensor *both[2] = {c->x, c->v[1].tensor};
  ltide_tensor *wide = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_broadcast_size(size, &ndim, both, 2));
  ltide_try(L, tide_expand(&wide->t, c->x, size, ndim));
  return wide;
}

static int lmasked_scatter(lua_State *L, ltide_call *c) {
  if (c->row->tag) return finish(L, c, tide_masked_scatter(NULL, c->x, c->v[1].tensor, c->v[2].tensor, c->x));
  tide_tensor **slot = begin(L, c);
  ltide_tensor *wide = push_wide(L, c);
  ltide_try(L, tide_masked_scatter(slot, wide->t, c->v[1].tensor, c->v[2].tensor, c->into));
  ltide_close_tensor(wide);
  lua_pop(L, 1);
  return finish(L, c, TIDE_OK);
}

static int lmasked_fill(lua_State *L, ltide_call *c) {
  const tide_operand *value = &c->v[2].operand;
  if (value->tensor && tide_tensor_ndim(value->tensor))
    return ltide_error(
        L, "ShapeError",
        "masked_fill: value: got a tensor of %d dimensions, expected a number or a tensor without dimensions",
        tide_tensor_ndim(value->tensor));
  ltide_tensor *wide = push_wide(L, c), *made = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_clone(&made->t, wide->t));
  ltide_try(L, tide_mask_set(made->t, c->v[1].tensor, value));
  ltide_close_tensor(wide);
  return ltide_finish(L, c, TIDE_OK);
}

/* {==== Classes and counts */

static int lone_hot(lua_State *L, ltide_call *c) {
  return ltide_finish(L, c, tide_one_hot(ltide_result(L, c), c->v[0].tensor, c->v[1].i));
}

static int lembedding(lua_State *L, ltide_call *c) {
  const tide_tensor *weight = c->v[0].tensor;
  if (tide_tensor_ndim(weight) != 2)
    return ltide_error(L, "ShapeError", "embedding: weight: got %d dimensions, expected 2", tide_tensor_ndim(weight));
  return ltide_finish(L, c, tide_index_get(ltide_result(L, c), weight, 0, c->v[1].tensor));
}

static int lbincount(lua_State *L, ltide_call *c) {
  return ltide_finish(L, c, tide_bincount(ltide_result(L, c), c->x, c->v[1].tensor, c->v[2].i));
}

static int lhistc(lua_State *L, ltide_call *c) {
  int64_t bins = c->v[1].i;
  tide_tensor **slot = ltide_slot(L, c);
  return ltide_finish_into(L, c, tide_histc(slot, c->x, bins, c->v[2].number, c->v[3].number, c->into));
}

static void read_range(lua_State *L, const ltide_value *range, tide_histogram_options *o) {
  if (!range->given) return;
  if (!lua_istable(L, range->at) || lua_rawlen(L, range->at) != 2)
    ltide_arg_error(L, range->at, "range", "a table of two numbers");
  double *bound[2] = {&o->low, &o->high};
  for (int i = 0; i < 2; i++) {
    lua_rawgeti(L, range->at, i + 1);
    *bound[i] = ltide_check_number(L, -1, "range");
    lua_pop(L, 1);
  }
}

static int lhistogram(lua_State *L, ltide_call *c) {
  tide_histogram_options o = {.bins = 100};
  if (c->v[1].given && !(o.edges = ltide_test_tensor(L, c->S, c->v[1].at))) {
    o.bins = ltide_check_integer(L, c->v[1].at, "bins");
    if (o.bins < 1)
      return ltide_error(L, "ValueError", "histogram: bins: got %I, expected at least 1", (LUAI_UACINT)o.bins);
  }
  if (o.edges && c->v[2].given)
    return ltide_error(L, "ArgumentError", "histogram: range: got it beside a tensor of edges, expected one of them");
  read_range(L, &c->v[2], &o);
  o.weights = c->v[3].tensor, o.density = c->v[4].boolean;
  ltide_two r = ltide_results(L, c);
  return ltide_finish_two(L, c, tide_histogram(r.first, r.second, c->x, &o));
}

#define NOUN scatter
#include "call/api/open_noun.def"
