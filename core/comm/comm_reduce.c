/* comm_reduce.c: sums of tensors that lie on several devices.
 *
 * Everything is computed on the destination's current stream, in one order, so that the result is the same every time.
 * Where the machine lets kernels reach into a peer's memory, the addition reads the peer's values as they come over the
 * link: one kernel for each tensor, no copy, no scratch. Where not, they are copied first.
 *
 * Invariant: the destination's stream has waited for every other device that takes part before it reads, and they wait
 * for it before they go on. */
#include "comm.h"

tide_status tide__sum_begin(tide__collective_tracker *tracker, tide_stream *const *streams, int n,
                            tide_stream *destination) {
  const tide__point *here;
  for (int i = 0; i < n; i++) {
    if (streams[i] == destination || tide__order_settled(destination, streams[i])) continue;
    TIDE_TRY(tide__tracker_point(&here, tracker, streams[i], i, true));
    TIDE_TRY(tide__point_wait(destination, here, tracker->what));
  }
  return TIDE_OK;
}

tide_status tide__sum_end(tide__collective_tracker *tracker, tide_stream *const *streams, int n,
                          tide_stream *destination) {
  const tide__point *done;
  TIDE_TRY(tide__tracker_point(&done, tracker, destination, TIDE__RANK_DESTINATION, false));
  for (int i = 0; i < n; i++) TIDE_TRY(tide__point_wait(streams[i], done, tracker->what));
  return TIDE_OK;
}

/* Do the two have their elements in the same places, without holes? */
static bool same_places(const tide_tensor *a, const tide_tensor *b) {
  if (a->contiguous && b->contiguous) return true;
  return tide__copy_travels(a, b);
}

/* out = op(a, peer), of which out and a lie on the stream's device and peer on another one. */
static tide_status fold_peer(tide_op op, tide_tensor *out, const tide_tensor *a, const tide_tensor *peer,
                             tide_stream *on) {
  tide__queue q = {.stream = on};
  tide_elementwise_args args; /* only what a flat plan needs is set */
  TIDE_TRY(tide__backend(&q.backend, on->device));
  tide__head_begin(&args.head, on->device, 3);
  tide__head_set(&args.head, 0, out, &q);
  tide__head_set(&args.head, 1, a, &q);
  args.head.ptr[2] = tide__tensor_ptr(peer);
  if (tide__sync_watched()) tide__observe_operand(peer, false);
  args.op = op, args.operands = 3, args.compute = tide__compute_dtype((tide_dtype)out->dtype);
  args.flat = 1, args.ndim = 1, args.numel = args.size[0] = out->numel;
  for (int k = 0; k < 3; k++) args.dtype[k] = out->dtype, args.is_number[k] = 0, args.stride[k][0] = 1;
  return TIDE_LAUNCH(&q, elementwise, &args, (int)op);
}

static bool readable(tide_op op, const tide_tensor *a, const tide_tensor *x, int device) {
  return same_places(a, x) && tide__comm_reaches(device, x->storage) &&
         tide__rule_result[tide__op_traits_get(op)->rule][x->dtype] == x->dtype;
}

tide_status tide__fold(tide_op op, tide_tensor *out, const tide_tensor *a, const tide_tensor *x, tide_stream *on) {
  tide_stream *home;
  if (x->numel == 0) return TIDE_OK;
  if (x->storage->device == on->device) return tide_binary(NULL, op, a, x, out);
  if (same_places(out, a) && readable(op, a, x, on->device)) {
    TIDE_TRY(tide__stream_current(&home, x->storage->device));
    tide__storage_use(x->storage, home);
    return fold_peer(op, out, a, x, on);
  }
  tide_tensor *copy;
  tide_options options = {(tide_dtype)x->dtype, on->device, false};
  TIDE_TRY(tide_to(&copy, x, &options, true, false));
  tide_status status = tide_binary(NULL, op, a, copy, out);
  tide_tensor_release(copy);
  return status;
}

/* The list is of one shape and dtype, on accelerators; *root becomes the last one on the destination. */
static tide_status check_list(int *root, tide_tensor *const *list, int n, int destination, const char *what) {
  *root = -1;
  for (int i = 0; i < n; i++) {
    TIDE_TRY(tide__comm_cuda(list[i], i, "input", what));
    if (!tide__same_size(list[i], list[0]))
      return tide__fail(TIDE_VALUE, "%s: input %lld has another size, got %s, expected %s", what,
                        (long long)tide__shown(i), tide__shape_text(list[i]->size, list[i]->ndim),
                        tide__shape_text(list[0]->size, list[0]->ndim));
    if (list[i]->dtype != list[0]->dtype)
      return tide__fail(TIDE_DTYPE, "%s: input %lld has another dtype, got %s, expected %s", what,
                        (long long)tide__shown(i), tide_dtype_name((tide_dtype)list[i]->dtype),
                        tide_dtype_name((tide_dtype)list[0]->dtype));
    if (list[i]->storage->device == destination) *root = i;
  }
  if (*root >= 0) return TIDE_OK;
  return tide__fail(TIDE_DEVICE, "%s: no input lies on the destination, got none on %s, expected one", what,
                    tide__device_text(destination));
}

static tide_status sum_list(tide_tensor *sum, tide_tensor *const *list, int n, int root,
                            tide__collective_tracker *tracker) {
  tide_stream *streams[TIDE_MAX_DEVICES], *on;
  const tide_tensor *a = list[root];
  TIDE_TRY(tide__stream_current(&on, sum->storage->device));
  for (int i = 0; i < n; i++) TIDE_TRY(tide__stream_current(&streams[i], list[i]->storage->device));
  TIDE_TRY(tide__comm_join(streams, n, tracker->what));
  TIDE_TRY(tide__sum_begin(tracker, streams, n, on));
  for (int i = 0; i < n; i++) {
    if (i == root) continue;
    TIDE_TRY(tide__fold(TIDE_OP_add, sum, a, list[i], on));
    a = sum;
  }
  return tide__sum_end(tracker, streams, n, on);
}

tide_status tide_comm_reduce_add(tide_tensor **out, tide_tensor *const *list, int n, int destination) {
  TIDE_LIST("comm_reduce_add", list, n);
  TIDE_GIVEN("comm_reduce_add", out);
  static const char what[] = "comm.reduce_add";
  int root;
  tide__collective_tracker tracker;
  if (n < 1 || n > TIDE_MAX_DEVICES)
    return tide__fail(TIDE_VALUE, "%s: wrong number of inputs, got %d, expected 1 to %d", what, n, TIDE_MAX_DEVICES);
  TIDE_TRY(tide__device_resolve_accelerator(&destination, destination, what));
  TIDE_TRY(check_list(&root, list, n, destination, what));
  if (n == 1) {
    *out = tide__tensor_ref(list[0]);
    return TIDE_OK;
  }
  tide_tensor *sum;
  TIDE_TRY(tide__tensor_new_like(&sum, list[root], (tide_dtype)list[root]->dtype, destination));
  tide__tracker_begin(&tracker, what);
  tide_status status = tide__tracker_end(&tracker, sum->numel ? sum_list(sum, list, n, root, &tracker) : TIDE_OK);
  if (status != TIDE_OK) {
    tide_tensor_release(sum);
    return status;
  }
  *out = sum;
  return TIDE_OK;
}
