/* nccl.c: the calls of nccl.h: their checks.
 *
 * Invariant: what is queued (collective.c) has been checked whole. */
#include "collective_ops.h"

tide_status tide_nccl_version(int *major, int *minor, int *patch) {
  TIDE_GIVEN("nccl_version", major);
  TIDE_GIVEN("nccl_version", minor);
  TIDE_GIVEN("nccl_version", patch);
  int count;
  TIDE_TRY(tide__device_count(&count));
  if (!tide__collective_table())
    return tide__fail(TIDE_LIBRARY, "nccl.version: these devices have no collectives of their own");
  return tide__collective_table()->version(major, minor, patch);
}

/* Contiguous, on an accelerator, of the first one's dtype, on a device that no other entry has. */
static tide_status check_entry(tide_tensor *const *list, int i, uint64_t *devices, const char *name, const char *what) {
  const tide_tensor *x = list[i];
  TIDE_TRY(tide__comm_cuda(x, i, name, what));
  if (!x->contiguous)
    return tide__fail(TIDE_VALUE, "%s: %s %lld is not contiguous, expected contiguous tensors", what, name,
                      (long long)tide__shown(i));
  if (*devices >> x->storage->device & 1)
    return tide__fail(TIDE_DEVICE, "%s: %s %lld is on a device that another one has, got %s, expected one for each",
                      what, name, (long long)tide__shown(i), tide__device_text(x->storage->device));
  *devices |= (uint64_t)1 << x->storage->device;
  if (x->dtype == list[0]->dtype) return TIDE_OK;
  return tide__fail(TIDE_DTYPE, "%s: %s %lld has another dtype, got %s, expected %s", what, name,
                    (long long)tide__shown(i), tide_dtype_name((tide_dtype)x->dtype),
                    tide_dtype_name((tide_dtype)list[0]->dtype));
}

bool tide_nccl_is_available(tide_tensor *const *list, int n) {
  if (n < 0 || (n && !list)) return false;
  int major, minor, patch;
  uint64_t devices = 0;
  if (tide_nccl_version(&major, &minor, &patch) != TIDE_OK) return false;
  for (int i = 0; i < n; i++)
    if (check_entry(list, i, &devices, "tensor", "nccl.is_available") != TIDE_OK) return false;
  return true;
}

static tide_status check_numel(const tide_tensor *x, int i, const char *name, int64_t want, const char *what) {
  if (x->numel == want) return TIDE_OK;
  return tide__fail(TIDE_SHAPE, "%s: %s %lld has another number of elements, got %lld, expected %lld", what, name,
                    (long long)tide__shown(i), (long long)x->numel, (long long)want);
}

/* An output: of rank i's device and the inputs' dtype. */
static tide_status check_output(const tide_tensor *x, int i, const tide_tensor *in, int64_t want, const char *what) {
  uint64_t devices = 0;
  tide_tensor *one = (tide_tensor *)x;
  if (x == in) return check_numel(x, i, "output", want, what);
  TIDE_TRY(tide__comm_tensor(x, i, "output", what));
  TIDE_TRY(check_entry(&one, 0, &devices, "output", what));
  if (x->storage->device != in->storage->device)
    return tide__fail(TIDE_DEVICE, "%s: output %lld is on another device than its input, got %s, expected %s", what,
                      (long long)tide__shown(i), tide__device_text(x->storage->device),
                      tide__device_text(in->storage->device));
  if (x->dtype != in->dtype)
    return tide__fail(TIDE_DTYPE, "%s: output %lld has another dtype, got %s, expected %s", what,
                      (long long)tide__shown(i), tide_dtype_name((tide_dtype)x->dtype),
                      tide_dtype_name((tide_dtype)in->dtype));
  return check_numel(x, i, "output", want, what);
}

static tide_status check_op(const tide_tensor *x, tide_nccl_op op, const char *what) {
  int category = tide__category(x->dtype);
  if ((unsigned)op >= TIDE_NCCL_OPS)
    return tide__fail(TIDE_ARGUMENT, "%s: unknown op, got %d, expected 0 to %d", what, (int)op, TIDE_NCCL_OPS - 1);
  if (category == 3 && (op == TIDE_NCCL_MAX || op == TIDE_NCCL_MIN))
    return tide__fail(TIDE_DTYPE, "%s: complex numbers have no order, got %s for max or min", what,
                      tide_dtype_name((tide_dtype)x->dtype));
  if (category == 0 && op == TIDE_NCCL_AVG)
    return tide__fail(TIDE_DTYPE, "%s: bool has no average, got bool for avg, expected a number", what);
  return TIDE_OK;
}

/* What all calls begin with: the inputs, their streams, the root. */
static tide_status begin(tide__collective *o, tide_tensor *const *inputs, int n, int root,
                         tide_stream *const *streams) {
  uint64_t devices = 0;
  if (n < 1 || n > TIDE_MAX_DEVICES)
    return tide__fail(TIDE_VALUE, "%s: wrong number of tensors, got %d, expected 1 to %d", o->what, n,
                      TIDE_MAX_DEVICES);
  for (int i = 0; i < n; i++) {
    TIDE_TRY(check_entry(inputs, i, &devices, "input", o->what));
    TIDE_TRY(check_numel(inputs[i], i, "input", inputs[0]->numel, o->what));
    o->in[i] = o->out[i] = inputs[i];
    o->streams[i] = streams ? streams[i] : NULL;
    if (!o->streams[i]) {
      TIDE_TRY(tide__stream_current(&o->streams[i], inputs[i]->storage->device));
      continue;
    }
    TIDE_TRY(tide__stream_check(o->streams[i], o->what));
    if (o->streams[i]->device != inputs[i]->storage->device)
      return tide__fail(TIDE_DEVICE, "%s: stream %lld is on another device, got %s, expected %s", o->what,
                        (long long)tide__shown(i), tide__device_text(o->streams[i]->device),
                        tide__device_text(inputs[i]->storage->device));
  }
  if (root < 0 || root >= n)
    return tide__fail(TIDE_VALUE, "%s: no such root, got %lld, expected %lld to %lld", o->what,
                      (long long)root + tide_get_index_base(), (long long)tide__shown(0),
                      (long long)tide__shown(n - 1));
  o->call.n = n, o->call.root = root, o->call.count = inputs[0]->numel;
  return TIDE_OK;
}

static tide_status check_outputs(tide__collective *o, tide_tensor *const *outputs, int64_t want) {
  for (int i = 0; i < o->call.n; i++) {
    TIDE_TRY(check_output(outputs[i], i, o->in[i], want, o->what));
    o->out[i] = outputs[i];
  }
  return TIDE_OK;
}

tide_status tide_nccl_all_reduce(tide_tensor *const *inputs, tide_tensor *const *outputs, int n, tide_nccl_op op,
                                 tide_stream *const *streams) {
  TIDE_LIST("nccl_all_reduce", inputs, n);
  tide__collective o = {.what = "nccl.all_reduce", .call = {.kind = TIDE_COLLECTIVE_ALL_REDUCE, .op = op}};
  TIDE_TRY(begin(&o, inputs, n, 0, streams));
  TIDE_TRY(check_op(inputs[0], op, o.what));
  TIDE_TRY(check_outputs(&o, outputs, o.call.count));
  return tide__collective_queue(&o);
}

tide_status tide_nccl_reduce(tide_tensor *const *inputs, tide_tensor *output, int n, int root, tide_nccl_op op,
                             tide_stream *const *streams) {
  TIDE_LIST("nccl_reduce", inputs, n);
  tide__collective o = {.what = "nccl.reduce", .call = {.kind = TIDE_COLLECTIVE_REDUCE, .op = op}};
  TIDE_TRY(begin(&o, inputs, n, root, streams));
  TIDE_TRY(check_op(inputs[0], op, o.what));
  TIDE_TRY(check_output(output, root, inputs[root], o.call.count, o.what));
  for (int i = 0; i < n; i++) o.out[i] = i == root ? output : NULL;
  return tide__collective_queue(&o);
}

tide_status tide_nccl_broadcast(tide_tensor *const *list, int n, int root, tide_stream *const *streams) {
  TIDE_LIST("nccl_broadcast", list, n);
  tide__collective o = {.what = "nccl.broadcast", .call = {.kind = TIDE_COLLECTIVE_BROADCAST}};
  TIDE_TRY(begin(&o, list, n, root, streams));
  return tide__collective_queue(&o);
}

tide_status tide_nccl_all_gather(tide_tensor *const *inputs, tide_tensor *const *outputs, int n,
                                 tide_stream *const *streams) {
  TIDE_LIST("nccl_all_gather", inputs, n);
  tide__collective o = {.what = "nccl.all_gather", .call = {.kind = TIDE_COLLECTIVE_ALL_GATHER}};
  TIDE_TRY(begin(&o, inputs, n, 0, streams));
  TIDE_TRY(check_outputs(&o, outputs, o.call.count * n));
  return tide__collective_queue(&o);
}

tide_status tide_nccl_reduce_scatter(tide_tensor *const *inputs, tide_tensor *const *outputs, int n, tide_nccl_op op,
                                     tide_stream *const *streams) {
  TIDE_LIST("nccl_reduce_scatter", inputs, n);
  tide__collective o = {.what = "nccl.reduce_scatter", .call = {.kind = TIDE_COLLECTIVE_REDUCE_SCATTER, .op = op}};
  TIDE_TRY(begin(&o, inputs, n, 0, streams));
  TIDE_TRY(check_op(inputs[0], op, o.what));
  if (o.call.count % n != 0)
    return tide__fail(TIDE_SHAPE, "%s: the inputs have no equal parts, got %lld elements, expected a multiple of %d",
                      o.what, (long long)o.call.count, n);
  o.call.count /= n;
  TIDE_TRY(check_outputs(&o, outputs, o.call.count));
  return tide__collective_queue(&o);
}
