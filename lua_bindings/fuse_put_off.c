/* fuse_put_off.c: the operations of a function that is followed: each that is the record's next one gives a tensor
 * without values. */
#include "fuse_follow.h"

#if LUA_VERSION_NUM == 504

static const fuse_event *next_event(const follower *w, fuse_what what) {
  const fuse_event *e = w->next < w->trace->events ? &w->trace->event[w->next] : NULL;
  return e && e->what == what && !fuse_is_made(e) ? e : NULL;
}

static void note_value(follower *w, const fuse_event *e, tide_tensor *x) {
  tide_tensor_retain(w->tensor[e->out] = x);
  w->next++;
}

/* All its elements are one, which nobody reads. */
static bool put_off(follower *w, const fuse_event *e, tide_tensor **out, const int64_t *size, int ndim, int device) {
  static const int64_t stride[TIDE_MAX_DIMS] = {0};
  const tide_options o = {(tide_dtype)e->dtype, device, false};
  if (tide_empty_strided(out, size, stride, ndim, &o) != TIDE_OK) return false;
  note_value(w, e, *out);
  return true;
}

static bool broadcast(int64_t *size, int *ndim, const tide_tensor *x) {
  const int64_t *other = tide_tensor_size(x);
  int n = tide_tensor_ndim(x), more = n - *ndim;
  if (more > 0) {
    memmove(size + more, size, (size_t)*ndim * sizeof *size);
    for (int d = 0; d < more; d++) size[d] = 1;
    *ndim = n;
  }
  for (int d = 1; d <= n; d++) {
    int64_t *at = &size[*ndim - d];
    if (*at != other[n - d] && *at != 1 && other[n - d] != 1) return false;
    if (*at == 1) *at = other[n - d];
  }
  return true;
}

static bool put_off_op(follower *w, tide_tensor **out, tide_op op, const tide_operand *in, const tide_scalar *p,
                       tide_tensor *into) {
  const fuse_event *e = next_event(w, FUSE_OP);
  int64_t size[TIDE_MAX_DIMS];
  int ndim = 0, device = 0;
  tide_dtype dtype;
  if (!e || e->op != fuse_plain_op(op, in) || (e->into >= 0) != (into != NULL)) return false;
  fuse_numbers *n = &w->numbers[w->next];
  for (int k = 0; k < e->operands; k++) {
    const tide_tensor *x = in[k].tensor;
    if (x ? !fuse_is_value(w, e->in[k], x) : e->in[k] >= 0 || in[k].number.kind != e->number[k].kind) return false;
    n->number[k] = in[k].number;
    if (x && !broadcast(size, &ndim, x)) return false;
    if (x) device = tide_tensor_device(x);
  }
  for (int k = 0; k < e->params; k++) {
    if (!p || p[k].kind != e->param[k].kind) return false;
    n->param[k] = p[k];
  }
  if (tide_result_dtype(&dtype, op, in) != TIDE_OK || dtype != (tide_dtype)e->dtype) return false;
  if (!into) return put_off(w, e, out, size, ndim, device);
  if (!fuse_is_value(w, e->into, into) || tide_tensor_ndim(into) != ndim ||
      memcmp(tide_tensor_size(into), size, (size_t)ndim * sizeof *size) != 0)
    return false;
  note_value(w, e, into);
  return true;
}

static bool put_off_reduction(follower *w, tide_tensor **out, tide_reduction op, const tide_tensor *x,
                              const tide_reduce_options *o) {
  const fuse_event *e = next_event(w, FUSE_REDUCE);
  fuse_event is = {0};
  int64_t size[TIDE_MAX_DIMS];
  int n = tide_tensor_ndim(x), ndim = 0;
  if (!e || e->op != op || o->dtype != TIDE_DTYPE_NONE || !fuse_is_value(w, e->in[0], x)) return false;
  if (!fuse_find_dims(&is, o, n) || is.dims != e->dims || is.leading != e->leading || is.keepdim != e->keepdim)
    return false;
  w->numbers[w->next].param[0] = e->param[0];
  if (e->params && o->param != e->param[0].re) return false;
  for (int d = 0; d < n; d++) {
    bool reduced = e->leading ? d < e->dims : d >= n - e->dims;
    if (!reduced || e->keepdim) size[ndim++] = reduced ? 1 : tide_tensor_size(x)[d];
  }
  return put_off(w, e, out, size, ndim, tide_tensor_device(x));
}

/* What such a call does inside it does at once. */
static bool is_in_call(const follower *w, const lua_State *L) { return w->frame && w->L == L; }

tide_status ltide_fuse_elementwise(lua_State *L, ltide_state *S, tide_tensor **out, tide_op op, const tide_operand *in,
                                   const tide_scalar *p, tide_tensor *into) {
  follower *w = S->follower;
  tide_status status = TIDE_OK;
  if (w && w->L == L && !w->frame && put_off_op(w, out, op, in, p, into)) return TIDE_OK;
  if (w && !is_in_call(w, L)) status = fuse_do_all(L, w);
  if (status == TIDE_OK) status = tide_elementwise(out, op, in, p, into);
  if (status == TIDE_OK && S->recorder) fuse_note(L, S, op, in, p, into);
  return status;
}

tide_status ltide_fuse_reduce(lua_State *L, ltide_state *S, tide_tensor **out, tide_reduction op, const tide_tensor *x,
                              const tide_reduce_options *o) {
  follower *w = S->follower;
  tide_status status = TIDE_OK;
  if (w && w->L == L && !w->frame && put_off_reduction(w, out, op, x, o)) return TIDE_OK;
  if (w && !is_in_call(w, L)) status = fuse_do_all(L, w);
  if (status == TIDE_OK) status = tide_reduce(out, op, x, o, NULL);
  if (status == TIDE_OK && S->recorder && o->dtype == TIDE_DTYPE_NONE) ltide_fuse_note_reduction(L, S, op, x, o);
  return status;
}

bool ltide_fuse_cast(lua_State *L, ltide_state *S, tide_tensor **out, tide_tensor *x, const tide_options *o,
                     bool copy) {
  follower *w = S->follower;
  tide_dtype dtype = o->dtype;
  bool is_cast = o->device == tide_tensor_device(x) && !o->pin_memory && !copy;
  if (!w || is_in_call(w, L) || (is_cast && (dtype == TIDE_DTYPE_NONE || dtype == tide_tensor_dtype(x)))) return false;
  const fuse_event *e = is_cast && w->L == L ? next_event(w, FUSE_CAST) : NULL;
  bool is_next = e && fuse_is_value(w, e->in[0], x) && e->dtype == (uint8_t)dtype;
  if (is_next && put_off(w, e, out, tide_tensor_size(x), tide_tensor_ndim(x), tide_tensor_device(x))) return true;
  ltide_try(L, fuse_do_all(L, w));
  return false;
}

#endif
