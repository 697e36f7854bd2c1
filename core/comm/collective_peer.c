/* collective_peer.c: the operations of nccl.h over copies and kernels that reach into peers' memory.
 *
 * Each begins with a meeting of all streams and ends with another: the first rank's stream waits for the others, and
 * they for it. In between every rank writes its own output on its own stream. What is joined is joined in one order,
 * the rank's own input first and then the others as listed, so that an output may be the input, and the result is the
 * same every time.
 *
 * Invariant: between the meetings a rank writes only what no other one reads: where an output is an input that others
 * read as well, it is written after a meeting of its own. */
#include "collective_ops.h"

static const tide_op ops[TIDE_NCCL_OPS] = {TIDE_OP_add, TIDE_OP_mul, TIDE_OP_maximum, TIDE_OP_minimum, TIDE_OP_add};

/* All streams wait for each other. */
static tide_status meet(tide__collective *o, tide__collective_tracker *tracker, bool arrival) {
  const tide__point *point;
  for (int i = 1; i < o->call.n; i++) {
    TIDE_TRY(tide__tracker_point(&point, tracker, o->streams[i], i, arrival));
    TIDE_TRY(tide__point_wait(o->streams[0], point, tracker->what));
  }
  TIDE_TRY(tide__tracker_point(&point, tracker, o->streams[0], 0, arrival));
  for (int i = 1; i < o->call.n; i++) TIDE_TRY(tide__point_wait(o->streams[i], point, tracker->what));
  return TIDE_OK;
}

/* `count` elements of x from `first` on, in one dimension. */
static tide_status piece(tide_tensor **out, const tide_tensor *x, int64_t first, int64_t count) {
  int64_t stride = 1;
  return tide__tensor_view(out, x, &count, &stride, 1, x->offset + first);
}

/* The elements of src, from `first` on, to dst's from `at` on, on rank r's stream. */
static tide_status send(tide__collective *o, int r, tide_tensor *dst, int64_t at, const tide_tensor *src) {
  tide_tensor *to = NULL, *from = NULL;
  int64_t count = o->call.count;
  tide_status status = piece(&to, dst, at, count);
  if (status == TIDE_OK) status = piece(&from, src, 0, count);
  if (status == TIDE_OK && tide__tensor_ptr(to) != tide__tensor_ptr(from))
    status = tide__comm_send(o->streams[r], to, from);
  tide_tensor_release(to);
  tide_tensor_release(from);
  return status;
}

/* Rank r's output: part `part` of its own input joined with that of all others. */
static tide_status join_part(tide__collective *o, int r, int part) {
  int64_t first = o->call.count * part;
  tide_tensor *out = NULL, *own = NULL, *other;
  const tide_tensor *a;
  tide_operand in[2] = {{.tensor = NULL}, {.number = tide_int(o->call.n)}};
  tide_status status = piece(&out, o->out[r], 0, o->call.count);
  if (status == TIDE_OK) status = piece(&own, o->in[r], first, o->call.count);
  a = own;
  if (status == TIDE_OK && o->call.n == 1 && tide__tensor_ptr(out) != tide__tensor_ptr(own))
    status = tide__copy_kernel(out, own);
  for (int j = 0; j < o->call.n && status == TIDE_OK; j++) {
    if (j == r) continue;
    status = piece(&other, o->in[j], first, o->call.count);
    if (status != TIDE_OK) break;
    status = tide__fold(ops[o->call.op], out, a, other, o->streams[r]);
    tide_tensor_release(other);
    a = out;
  }
  in[0].tensor = out;
  if (status == TIDE_OK && o->call.op == TIDE_NCCL_AVG)
    status = tide_elementwise(NULL, tide__category(out->dtype) == 1 ? TIDE_OP_div_trunc : TIDE_OP_div, in, NULL, out);
  tide_tensor_release(out);
  tide_tensor_release(own);
  return status;
}

static tide_status work(tide__collective *o, tide__collective_tracker *tracker) {
  tide_status status = TIDE_OK;
  int n = o->call.n, root = o->call.root;
  switch (o->call.kind) {
  case TIDE_COLLECTIVE_BROADCAST:
    for (int r = 0; r < n && status == TIDE_OK; r++) status = send(o, r, o->out[r], 0, o->in[root]);
    return status;
  case TIDE_COLLECTIVE_REDUCE: return join_part(o, root, 0);
  case TIDE_COLLECTIVE_ALL_REDUCE:
    TIDE_TRY(join_part(o, 0, 0));
    TIDE_TRY(meet(o, tracker, false));
    for (int r = 1; r < n && status == TIDE_OK; r++) status = send(o, r, o->out[r], 0, o->out[0]);
    return status;
  case TIDE_COLLECTIVE_ALL_GATHER:
    for (int r = 0; r < n; r++)
      for (int j = 0; j < n; j++) TIDE_TRY(send(o, r, o->out[r], j * o->call.count, o->in[j]));
    return status;
  default:
    for (int r = 0; r < n && status == TIDE_OK; r++) status = join_part(o, r, r);
    return status;
  }
}

static tide_status queue(tide__collective *o, tide__collective_tracker *tracker) {
  for (int i = 0; i < o->call.n; i++) {
    tide__storage_use(o->in[i]->storage, o->streams[i]);
    if (o->out[i]) tide__storage_use(o->out[i]->storage, o->streams[i]);
  }
  TIDE_TRY(meet(o, tracker, true));
  TIDE_TRY(work(o, tracker));
  return meet(o, tracker, false);
}

/* The streams are the current ones meanwhile, for whatever takes those. */
tide_status tide__collective_peers(tide__collective *o) {
  tide__collective_tracker tracker;
  tide__selection selection[TIDE_MAX_DEVICES];
  int n = o->call.n;
  TIDE_TRY(tide__comm_join(o->streams, n, o->what));
  for (int i = 0; i < n; i++) selection[i] = tide__selection_begin(o->streams[i]);
  tide__tracker_begin(&tracker, o->what);
  tide_status status = tide__tracker_end(&tracker, queue(o, &tracker));
  for (int i = n; i-- > 0;) tide__selection_end(selection[i]);
  return status;
}
