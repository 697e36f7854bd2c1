/* check.c: the arguments of an operation: what has to fit on this rank alone. What has to fit between ranks is compared
 * by note.c. */
#include <stdlib.h>

#include "distributed/room.h"

static const char *arg_in(const tide_work *w) { return w->note.kind == TIDE_SEND_RANKS ? "x" : "input"; }

/* The tensors of a side have one dtype, and lie on one device. */
static tide_status check_list(const tide_work *w, const char *what, tide_tensor *const *list, int n) {
  for (int i = 0; i < n; i++) {
    tide_dtype dtype = host.tensor_dtype(list[i]);
    if ((int)dtype != w->note.dtype)
      return tide__dist_fail(TIDE_DTYPE, "%s: %s[%d]: got %s, expected %s as the others", w->note.name, what, i + 1,
                             host.dtype_name(dtype), host.dtype_name((tide_dtype)w->note.dtype));
    if (host.tensor_device(list[i]) != host.tensor_device(list[0]))
      return tide__dist_fail(TIDE_DEVICE, "%s: %s[%d]: it is on another device than the first, expected the same",
                             w->note.name, what, i + 1);
  }
  return TIDE_OK;
}

static tide_status check_count(const tide_work *w, const char *what, int n) {
  if (n == 1 || n == w->group->size) return TIDE_OK;
  return tide__dist_fail(TIDE_VALUE, "%s: %s: got %d tensors, expected one for each of the %d ranks", w->note.name,
                         what, n, w->group->size);
}

/* A list has one part for each rank, all of the same number of elements, or is one tensor of all parts. */
static tide_status check_parts(const tide_work *w, const char *what, tide_tensor *const *list, int n, int64_t part) {
  int size = w->group->size;
  TRY(check_count(w, what, n));
  int64_t expected = n == size ? part : part * size;
  for (int i = 0; i < n; i++)
    if (host.tensor_numel(list[i]) != expected)
      return tide__dist_fail(TIDE_SHAPE, "%s: %s%s: got %lld elements, expected %lld%s", w->note.name, what,
                             n == size && n > 1 ? " of a rank" : "", (long long)host.tensor_numel(list[i]),
                             (long long)expected, n == size ? "" : ", a part for each rank");
  return TIDE_OK;
}

static tide_status split_of(int64_t **out, const tide_work *w, const char *what, tide_tensor *const *list, int n,
                            const int64_t *rows) {
  int size = w->group->size;
  int64_t *split = calloc((size_t)size, sizeof *split), numel = n ? host.tensor_numel(list[0]) : 0, total = 0;
  *out = split;
  if (!split) return tide__dist_fail(TIDE_MEMORY, "%s: no memory for %d sizes", w->note.name, size);
  int64_t first = n && host.tensor_ndim(list[0]) ? host.tensor_size(list[0])[0] : 1, row = first ? numel / first : 0;
  for (int i = 0; i < size; i++) {
    split[i] = n == size && !rows ? host.tensor_numel(list[i]) : rows ? rows[i] * row : numel / size;
    if (split[i] < 0)
      return tide__dist_fail(TIDE_VALUE, "%s: %s: got a negative size for rank %d", w->note.name, what, i);
    total += split[i];
  }
  if (n == 1 && total != numel)
    return tide__dist_fail(TIDE_SHAPE,
                           "%s: %s: the sizes for ranks have %lld elements, expected the %lld of the tensor",
                           w->note.name, what, (long long)total, (long long)numel);
  return check_count(w, what, n);
}

static tide_status check_all_to_all(tide_work *w, const tide_distributed_call *c) {
  int size = w->group->size;
  bool equal = c->ins == 1 && c->outs == 1 && !c->in_split && !c->out_split;
  w->note.numel = equal ? host.tensor_numel(c->in[0]) : -1;
  if (equal && (w->note.numel % size || host.tensor_numel(c->out[0]) != w->note.numel))
    return tide__dist_fail(TIDE_SHAPE,
                           "%s: got %lld and %lld elements, expected the same in both, a multiple of the %d ranks",
                           w->note.name, (long long)w->note.numel, (long long)host.tensor_numel(c->out[0]), size);
  if (equal) return TIDE_OK;
  TRY(split_of(&w->in_split, w, "input", c->in, c->ins, c->in_split));
  TRY(split_of(&w->out_split, w, "output", c->out, c->outs, c->out_split));
  int me = w->group->rank;
  if (w->in_split[me] != w->out_split[me])
    return tide__dist_fail(TIDE_SHAPE,
                           "%s: got %lld elements for this rank itself and room for %lld, expected the same",
                           w->note.name, (long long)w->in_split[me], (long long)w->out_split[me]);
  return TIDE_OK;
}

bool tide__reduces(int kind) {
  return kind == TIDE_ALL_REDUCE_RANKS || kind == TIDE_REDUCE_RANKS || kind == TIDE_REDUCE_SCATTER_RANKS;
}

static tide_status check_op(const tide_work *w) {
  char kind = w->note.dtype < 0 ? 'F' : host.dtype_kind((tide_dtype)w->note.dtype);
  const char *dtype = w->note.dtype < 0 ? "" : host.dtype_name((tide_dtype)w->note.dtype);
  if (!tide__reduces(w->note.kind)) return TIDE_OK;
  if (kind == 'C' && (w->op == TIDE_RANK_MIN || w->op == TIDE_RANK_MAX))
    return tide__dist_fail(TIDE_DTYPE, "%s: op: got min or max of %s, expected sum, prod or avg", w->note.name, dtype);
  if (kind != 'C' && kind != 'F' && w->op == TIDE_RANK_AVG)
    return tide__dist_fail(TIDE_DTYPE, "%s: op: got avg of %s, expected a floating dtype, or sum", w->note.name, dtype);
  return TIDE_OK;
}

static tide_status check_sizes(tide_work *w, const tide_distributed_call *c) {
  bool is_root = w->root == w->group->rank;
  const tide_tensor *one = c->outs ? c->out[0] : NULL;
  switch (c->kind) {
  case TIDE_ALL_GATHER_RANKS:
    w->note.numel = host.tensor_numel(c->in[0]);
    return check_parts(w, "output", c->out, c->outs, w->note.numel);
  case TIDE_GATHER_RANKS:
    w->note.numel = host.tensor_numel(c->in[0]);
    return is_root ? check_parts(w, "gather_list", c->out, c->outs, w->note.numel) : TIDE_OK;
  case TIDE_SCATTER_RANKS:
    w->note.numel = host.tensor_numel(one);
    return is_root ? check_parts(w, "scatter_list", c->in, c->ins, w->note.numel) : TIDE_OK;
  case TIDE_REDUCE_SCATTER_RANKS:
    w->note.numel = host.tensor_numel(one);
    return check_parts(w, "input", c->in, c->ins, w->note.numel);
  case TIDE_ALL_TO_ALL_RANKS: return check_all_to_all(w, c);
  default: w->note.numel = one ? host.tensor_numel(one) : c->ins ? host.tensor_numel(c->in[0]) : 0;
  }
  return TIDE_OK;
}

static tide_status check_peer(tide_work *w, const tide_distributed_call *c) {
  bool any = c->kind == TIDE_RECV_RANKS && c->peer == TIDE_ANY_RANK;
  w->root = any ? TIDE_ANY_RANK : tide__group_find(w->group, c->peer);
  bool needs = tide__is_message(w) || c->kind == TIDE_BROADCAST_RANKS || c->kind == TIDE_REDUCE_RANKS ||
               c->kind == TIDE_GATHER_RANKS || c->kind == TIDE_SCATTER_RANKS;
  if (needs && w->root < 0 && !any)
    return tide__dist_fail(TIDE_VALUE, "%s: got rank %d, expected one of the %d ranks of the group, counted from 0",
                           c->name, c->peer, w->group->size);
  if (tide__is_message(w) && (c->tag < 0 || c->tag >= 32000))
    return tide__dist_fail(TIDE_VALUE, "%s: tag: got %d, expected 0 to 31999", c->name, c->tag);
  return TIDE_OK;
}

tide_status tide__check_call(tide_work *w, const tide_distributed_call *c) {
  if (c->kind == TIDE_CONNECT_RANKS) return TIDE_OK;
  TRY(check_peer(w, c));
  TRY(check_list(w, arg_in(w), c->in, c->ins));
  TRY(check_list(w, "output", c->out, c->outs));
  TRY(check_op(w));
  return check_sizes(w, c);
}
