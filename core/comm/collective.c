/* collective.c: operations over the backend's own collectives: communicators, and the calls of nccl.h.
 *
 * A communicator takes a second and some hundred megabytes to make, so there is one for each list of devices that was
 * asked for, kept until the runtime ends. What the backend does not take (a dtype, a captured stream), and everything
 * where there is no such library, goes the way of collective_peer.c with the same result.
 *
 * An operation hangs where a rank does not come, and a communicator that hangs, or has failed, is of no more use: it is
 * aborted, so that the streams of the other ranks go on, and the next call makes a new one.
 *
 * Invariant: the lock guards the list, and every call of a communicator; comm_watch.c may take it while it holds its
 * own, never the other way round. */
#include "collective_ops.h"

#include <stdlib.h>

struct tide__communicator {
  struct tide__communicator *next;
  void *impl;
  int n, device[TIDE_MAX_DEVICES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tide__communicator *communicators;

static const tide_collective *table(void) {
  const tide_backend *b = tide__accelerators();
  return b ? b->collective : NULL;
}

/* ---- communicators ---- */

/* With the lock held. */
static tide_status find(tide__communicator **out, const int *devices, int n) {
  tide__communicator *c = communicators;
  while (c && (c->n != n || memcmp(c->device, devices, (size_t)n * sizeof *devices) != 0)) c = c->next;
  if (!c) {
    c = calloc(1, sizeof *c);
    if (!c) return tide__fail(TIDE_MEMORY, "nccl: no host memory for a communicator");
    c->n = n;
    memcpy(c->device, devices, (size_t)n * sizeof *devices);
    tide_status status = table()->open(&c->impl, devices, n);
    if (status != TIDE_OK) {
      free(c);
      return status;
    }
    c->next = communicators, communicators = c;
  }
  *out = c;
  return TIDE_OK;
}

/* With the lock held. */
static void drop(tide__communicator *c, bool abort) {
  tide__communicator **at = &communicators;
  while (*at && *at != c) at = &(*at)->next;
  if (!*at) return;
  *at = c->next;
  table()->close(c->impl, abort);
  free(c);
}

/* It may have gone meanwhile: then whoever dropped it has told why. */
tide_status tide__collective_health(tide__communicator *c, int *rank) {
  pthread_mutex_lock(&lock);
  const tide__communicator *known = communicators;
  while (known && known != c) known = known->next;
  tide_status status = known ? table()->health(c->impl, rank) : TIDE_OK;
  pthread_mutex_unlock(&lock);
  return status;
}

void tide__collective_abort(tide__communicator *c) {
  pthread_mutex_lock(&lock);
  drop(c, true);
  pthread_mutex_unlock(&lock);
}

/* One that hangs must not keep the runtime from ending. */
void tide__collective_shutdown(void) {
  pthread_mutex_lock(&lock);
  while (communicators) {
    bool lost = false;
    for (int i = 0; i < communicators->n; i++) lost |= tide__device_lost(NULL, communicators->device[i]);
    drop(communicators, lost);
  }
  pthread_mutex_unlock(&lock);
}

/* ---- running one ---- */

static tide_status run_locked(tide__communicator **used, tide__collective *o) {
  int devices[TIDE_MAX_DEVICES], rank;
  for (int i = 0; i < o->call.n; i++) devices[i] = o->streams[i]->device;
  TIDE_TRY(find(used, devices, o->call.n));
  tide_status status = table()->health((*used)->impl, &rank);
  if (status == TIDE_OK) status = table()->run((*used)->impl, &o->call);
  if (status != TIDE_OK) drop(*used, true);
  return status;
}

/* Tells those who watch what each rank does: after all have come, it reads its input and writes its output. */
static tide_status note(const tide__collective *o, const tide__collective_tracker *tracker) {
  uint32_t number;
  for (int i = 0; i < o->call.n && tide__sync_watched(); i++)
    for (int j = 0; j < tracker->n; j++)
      if (tracker->entry[j].rank != i) tide__observe_waits_mark(o->streams[i], tracker->entry[j].point.event);
  for (int i = 0; i < o->call.n; i++) {
    if (tide__sync_watched()) {
      tide__observe_operands();
      if (o->out[i]) tide__observe_operand(o->out[i], true);
      tide__observe_operand(o->in[i], false);
    }
    TIDE_TRY(tide__launch_begin(&number, o->streams[i], tide__site_now(), TIDE__LAUNCH_COPY_PEER, 0));
    TIDE_TRY(tide__launch_done(o->streams[i], number, TIDE_OK));
  }
  return TIDE_OK;
}

/* In a row of operations the end of one is where a rank comes to the next: a second event there would only keep the
 * two apart. */
static tide_status run_points(tide__collective *o, tide__collective_tracker *tracker) {
  const tide__point *point;
  bool observed = tide__sync_watched();
  for (int i = 0; i < o->call.n; i++)
    if (observed || !tide__order_is_watched(o->streams[i]))
      TIDE_TRY(tide__tracker_point(&point, tracker, o->streams[i], i, true));
  TIDE_TRY(note(o, tracker));
  pthread_mutex_lock(&lock);
  tide_status status = run_locked(&tracker->communicator, o);
  pthread_mutex_unlock(&lock);
  if (status != TIDE_OK) tracker->communicator = NULL;
  TIDE_TRY(status);
  for (int i = 0; i < o->call.n; i++) TIDE_TRY(tide__tracker_point(&point, tracker, o->streams[i], i, false));
  return TIDE_OK;
}

/* What travels unchanged travels as bytes; complex sums are sums of their parts; of bool values or is the larger. */
static void translate(tide_collective_call *call, tide_dtype dtype) {
  bool joins = call->kind == TIDE_COLLECTIVE_REDUCE || call->kind == TIDE_COLLECTIVE_ALL_REDUCE ||
               call->kind == TIDE_COLLECTIVE_REDUCE_SCATTER;
  call->dtype = dtype;
  if (!joins) {
    call->count *= tide__itemsize(dtype);
    call->dtype = TIDE_UINT8;
  } else if (tide__category(dtype) == 3 && (call->op == TIDE_NCCL_SUM || call->op == TIDE_NCCL_AVG)) {
    call->count *= 2;
    call->dtype = dtype == TIDE_COMPLEX64 ? TIDE_FLOAT32 : TIDE_FLOAT64;
  } else if (dtype == TIDE_BOOL) {
    call->op = call->op == TIDE_NCCL_SUM || call->op == TIDE_NCCL_MAX ? TIDE_NCCL_MAX : TIDE_NCCL_MIN;
    call->dtype = TIDE_UINT8;
  }
}

/* Can the operation, as translated, go over the backend's collectives? */
static bool takes(const tide_collective_call *call) {
  int version[3];
  const tide_collective *t = table();
  return t && t->takes(call->dtype) && t->version(&version[0], &version[1], &version[2]) == TIDE_OK;
}

static tide_status run(tide__collective *o) {
  tide__collective_tracker tracker;
  tide_collective_call *call = &o->call;
  for (int i = 0; i < call->n; i++) {
    tide__storage_use(o->in[i]->storage, o->streams[i]);
    if (o->out[i]) tide__storage_use(o->out[i]->storage, o->streams[i]);
    call->stream[i] = o->streams[i]->impl;
    call->in[i] = tide__tensor_ptr(o->in[i]);
    call->out[i] = o->out[i] ? tide__tensor_ptr(o->out[i]) : NULL;
  }
  tide__tracker_begin(&tracker, o->what);
  TIDE_TRY(tide__tracker_end(&tracker, run_points(o, &tracker)));
  bool watched = tide_comm_get_timeout() > 0;
  for (int i = 0; i < tracker.n && watched; i++) {
    const struct tide__collective_entry *e = &tracker.entry[i];
    if (!e->arrival) tide__order_watched(o->streams[e->rank], e->point.then);
  }
  return TIDE_OK;
}

tide_status tide__collective_queue(tide__collective *o) {
  tide_dtype dtype = (tide_dtype)o->in[0]->dtype;
  bool captured = false;
  if (o->call.count == 0) return TIDE_OK;
  for (int i = 0; i < o->call.n; i++) captured |= o->streams[i]->capture != NULL;
  if (captured || o->call.n == 1) return tide__collective_peers(o);
  tide_collective_call original = o->call;
  translate(&o->call, dtype);
  if (takes(&o->call)) return run(o);
  o->call = original;
  return tide__collective_peers(o);
}

/* ---- for comm.c ---- */

/* From here on a ring beats one device that serves all others in turn. To a single other device it does not. */
enum { RING_RANKS = 3 };
static const int64_t ring_bytes = (int64_t)4 << 20;

bool tide__collective_wanted(const tide_tensor *x, const int *devices, int n) {
  uint64_t ranks = (uint64_t)1 << x->storage->device, listed = 0;
  tide_collective_call bytes = {.dtype = TIDE_UINT8};
  if (n < RING_RANKS - 1 || x->numel * tide__itemsize(x->dtype) < ring_bytes || !tide__tensor_dense(x)) return false;
  for (int i = 0; i < n; i++) {
    if (listed >> devices[i] & 1) return false;
    listed |= (uint64_t)1 << devices[i];
  }
  return __builtin_popcountll(ranks | listed) >= RING_RANKS && takes(&bytes);
}

tide_status tide__collective_broadcast(tide_tensor **made, const tide_tensor *x, const int *devices, int n,
                                       const char *what) {
  tide__collective o = {.what = what, .call = {.kind = TIDE_COLLECTIVE_BROADCAST, .n = n, .root = n}};
  tide_status status = TIDE_OK;
  o.call.count = x->numel;
  for (int i = 0; i < n && status == TIDE_OK; i++) {
    bool source = devices[i] == x->storage->device;
    if (source) o.call.root = i;
    status = source ? TIDE_OK : tide__tensor_new_like(&made[i], x, (tide_dtype)x->dtype, devices[i]);
    o.in[i] = o.out[i] = source ? (tide_tensor *)x : made[i];
    if (status == TIDE_OK) status = tide__stream_current(&o.streams[i], devices[i]);
  }
  if (o.call.root == n) { /* the source is no part of the list */
    o.in[n] = o.out[n] = (tide_tensor *)x;
    o.call.n = n + 1;
    if (status == TIDE_OK) status = tide__stream_current(&o.streams[n], x->storage->device);
  }
  if (status == TIDE_OK) status = tide__collective_queue(&o);
  if (status != TIDE_OK) tide__tensors_drop(made, n);
  return status;
}

/* ---- the calls of nccl.h ---- */

tide_status tide_nccl_version(int *major, int *minor, int *patch) {
  int count;
  TIDE_TRY(tide__device_count(&count));
  if (!table()) return tide__fail(TIDE_LIBRARY, "nccl.version: these devices have no collectives of their own");
  return table()->version(major, minor, patch);
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
  tide__collective o = {.what = "nccl.all_reduce", .call = {.kind = TIDE_COLLECTIVE_ALL_REDUCE, .op = op}};
  TIDE_TRY(begin(&o, inputs, n, 0, streams));
  TIDE_TRY(check_op(inputs[0], op, o.what));
  TIDE_TRY(check_outputs(&o, outputs, o.call.count));
  return tide__collective_queue(&o);
}

tide_status tide_nccl_reduce(tide_tensor *const *inputs, tide_tensor *output, int n, int root, tide_nccl_op op,
                             tide_stream *const *streams) {
  tide__collective o = {.what = "nccl.reduce", .call = {.kind = TIDE_COLLECTIVE_REDUCE, .op = op}};
  TIDE_TRY(begin(&o, inputs, n, root, streams));
  TIDE_TRY(check_op(inputs[0], op, o.what));
  TIDE_TRY(check_output(output, root, inputs[root], o.call.count, o.what));
  for (int i = 0; i < n; i++) o.out[i] = i == root ? output : NULL;
  return tide__collective_queue(&o);
}

tide_status tide_nccl_broadcast(tide_tensor *const *list, int n, int root, tide_stream *const *streams) {
  tide__collective o = {.what = "nccl.broadcast", .call = {.kind = TIDE_COLLECTIVE_BROADCAST}};
  TIDE_TRY(begin(&o, list, n, root, streams));
  return tide__collective_queue(&o);
}

tide_status tide_nccl_all_gather(tide_tensor *const *inputs, tide_tensor *const *outputs, int n,
                                 tide_stream *const *streams) {
  tide__collective o = {.what = "nccl.all_gather", .call = {.kind = TIDE_COLLECTIVE_ALL_GATHER}};
  TIDE_TRY(begin(&o, inputs, n, 0, streams));
  TIDE_TRY(check_outputs(&o, outputs, o.call.count * n));
  return tide__collective_queue(&o);
}

tide_status tide_nccl_reduce_scatter(tide_tensor *const *inputs, tide_tensor *const *outputs, int n, tide_nccl_op op,
                                     tide_stream *const *streams) {
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
