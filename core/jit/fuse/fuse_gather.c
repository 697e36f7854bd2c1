/* fuse_gather.c: fused reads at places that an index says.
 *
 * A gather is an input whose value depends on another one. For all that is about sizes and strides its tensor stands
 * there as what it is without the dim that the index is of: this has size 1, or as many dims of size 1 as the index
 * has. So it broadcasts against the index to the size of the result, and where it lies for an element of that is where
 * the line begins that the index counts along. A kernel adds place times pitch, both below 2^31.
 *
 * Invariant: a place is compared with the length before anything is read; one that is outside goes to the mailbox, and
 * the first element is read instead. */
#include "jit/fuse/fuse.h"

tide_status tide__fuse_add_gather(tide_fused *f, int at, const tide_fuse_node *node) {
  tide_fused_node *v = &f->value[at];
  const tide_fused_node *index = &f->value[node->in[0] < 0 ? at : node->in[0]];
  int rest = node->ndim - 1 - node->dims;
  bool is_line = node->op == TIDE_FUSE_LINE, along = node->op == TIDE_FUSE_ALONG;
  if (node->in[0] < 0 || (unsigned)node->op > TIDE_FUSE_LINE || (!is_line && (node->dims < 0 || rest < 0)))
    return tide__fail(TIDE_ARGUMENT, "%s: node %d is no gather", f->name, at);
  if (index->is_row || tide__category(index->dtype) != 1 || (along && index->ndim != node->ndim) ||
      (!is_line && !along && index->ndim < rest) || index->ndim + (along ? 0 : node->dims) > TIDE_MAX_DIMS)
    return tide__fuse_refuse(f, "such an index");
  int slots = f->mail ? 1 : 3;
  if (f->slots + slots > TIDE_FUSE_SCALARS) return tide__fuse_refuse(f, "it takes too many numbers");
  v->op = (uint8_t)node->op, v->dims = (uint8_t)node->dims;
  v->ndim = (uint8_t)(is_line || along ? index->ndim : node->dims + index->ndim);
  v->operands = 1, v->in[0] = (int8_t)node->in[0], v->reach |= index->reach;
  v->param = (uint8_t)f->slots;
  v->site = node->file ? tide__site_of(node->file, node->line) : (uint32_t)node->line; /* a stage's is known */
  f->slot[f->slots++].kind = TIDE__FUSE_LINE;
  if (!f->mail) f->mail = f->slots;
  for (; slots > 1; slots--) f->slot[f->slots++].kind = TIDE__FUSE_MAIL;
  f->views = true;
  return TIDE_OK;
}

static void view_source(tide_tensor *view, const tide_fused_node *v, const tide_tensor *x) {
  int rest = v->op == TIDE_FUSE_LINE ? 0 : v->given - 1 - v->dims, from = v->given - v->ndim;
  for (int d = 0; d < v->ndim; d++) {
    bool before = v->op != TIDE_FUSE_LINE && d < v->dims, own = before || d >= v->ndim - rest;
    view->size[d] = own ? x->size[before ? d : d + from] : 1;
    view->stride[d] = own ? x->stride[before ? d : d + from] : 0;
  }
}

bool tide__fuse_views(tide_tensor **list, tide_tensor *view, const tide_fused *f, tide_tensor *const *in) {
  for (int k = 0; k < f->inputs; k++) {
    const tide_fused_node *v = &f->value[f->input[k]];
    tide_tensor *x = list[k] = in[k];
    if (!x || x->dtype != v->dtype || x->ndim != v->given) return false;
    bool gathers = tide__fuse_gathers(f, k);
    if (!gathers && v->given == v->ndim) continue;
    if (atomic_load_explicit(&x->refs, memory_order_relaxed) < 1) return false;
    list[k] = &view[k];
    view[k] = (tide_tensor){
        .refs = 1, .storage = x->storage, .offset = x->offset, .ndim = v->ndim, .dtype = x->dtype, .replay = x->replay};
    for (int d = 0; d < v->ndim && !gathers; d++) {
      view[k].size[d] = d < v->given ? x->size[d] : 1;
      view[k].stride[d] = d < v->given ? x->stride[d] : 0;
    }
    if (gathers) view_source(&view[k], v, x);
    tide__tensor_layout(&view[k]);
  }
  return true;
}

bool tide__fuse_place(tide_fused *f, const tide_tensor *const *in) {
  for (int k = 0; k < f->inputs; k++) {
    const tide_fused_node *v = &f->value[f->input[k]];
    const tide_tensor *x = in[k];
    if (!tide__fuse_gathers(f, k)) continue;
    bool is_line = v->op == TIDE_FUSE_LINE;
    int64_t length = is_line ? x->numel : x->size[v->dims], pitch = is_line ? 1 : x->stride[v->dims];
    if (length < 1 || length > INT32_MAX || pitch > INT32_MAX || (is_line && !x->contiguous)) return false;
    const tide_fused_line line = {(uint32_t)length, (uint32_t)pitch, tide_get_index_base(),
                                  x->storage->device < 0 ? 0
                                  : v->site              ? v->site
                                                         : tide__site_now()};
    memcpy(f->packed + 16 * v->param, &line, sizeof line);
  }
  return true;
}
