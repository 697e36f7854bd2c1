/* collective.c: which engine an operation of several devices runs on, the backend's own collectives or copies, and the
 * way over the former. It is the one place that chooses, for the calls of comm.h and of nccl.h.
 *
 * What the backend does not take (a dtype, a captured stream), and everything where there is no such library, goes the
 * way of collective_peer.c with the same result. A broadcast that makes its results goes over copies (fan_out.c) unless
 * it is large and goes to several devices: then a ring uses every link.
 *
 * Invariant: an operation is queued by one engine, and nothing is made or queued before that is chosen. */
#include "collective_ops.h"

/* ---- running one ---- */

/* Tells those who watch what each rank does: after all have come, it reads its input and writes its output. */
static tide_status note(const tide__collective *o, const tide__collective_tracker *tracker) {
  uint32_t number;
  for (int i = 0; i < o->call.n && tide__sync_watched(); i++)
    for (int j = 0; j < tracker->n; j++)
      if (tracker->entry[j].rank != i) TIDE_OBSERVE(waits_mark, o->streams[i], tracker->entry[j].point.event);
  for (int i = 0; i < o->call.n; i++) {
    if (tide__sync_watched()) {
      tide__observe_operands();
      if (o->out[i]) tide__observe_operand(o->out[i], true);
      tide__observe_operand(o->in[i], false);
    }
    TIDE_TRY(tide__launch_begin(&number, o->streams[i], tide__site_now(), TIDE__LAUNCH_COPY_PEER, 0, NULL));
    TIDE_TRY(tide__launch_done(o->streams[i], number, TIDE_OK));
  }
  return TIDE_OK;
}

/* In a row of operations the end of one is where a rank comes to the next: a second event there would only keep the
 * two apart. */
static tide_status run_points(tide__collective *o, tide__collective_tracker *tracker) {
  const tide__point *point;
  int devices[TIDE_MAX_DEVICES];
  bool observed = tide__sync_watched();
  for (int i = 0; i < o->call.n; i++) devices[i] = o->streams[i]->device;
  for (int i = 0; i < o->call.n; i++)
    if (observed || !tide__order_is_watched(o->streams[i]))
      TIDE_TRY(tide__tracker_point(&point, tracker, o->streams[i], i, true));
  TIDE_TRY(note(o, tracker));
  TIDE_TRY(tide__communicator_run(&tracker->communicator, devices, &o->call));
  for (int i = 0; i < o->call.n; i++) TIDE_TRY(tide__tracker_point(&point, tracker, o->streams[i], i, false));
  return TIDE_OK;
}

/* What travels unchanged travels as bytes; complex sums are sums of their parts; of bool values or is the larger. */
void tide__collective_translate(tide_collective_call *call, tide_dtype dtype) {
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

/* ---- which engine ---- */

/* Can the operation go over the backend's collectives? Not into a graph, and only with a dtype that they know. Then the
 * call is what the backend is to do. */
static bool translated(tide__collective *o) {
  int version[3];
  const tide_collective *t = tide__collective_table();
  bool captured = false;
  for (int i = 0; i < o->call.n; i++) captured |= o->streams[i]->capture != NULL;
  if (captured || o->call.n == 1 || !t) return false;
  tide_collective_call call = o->call;
  tide__collective_translate(&call, (tide_dtype)o->in[0]->dtype);
  if (!t->takes(call.dtype) || t->version(&version[0], &version[1], &version[2]) != TIDE_OK) return false;
  o->call = call;
  return true;
}

tide_status tide__collective_queue(tide__collective *o) {
  if (o->call.count == 0) return TIDE_OK;
  return translated(o) ? run(o) : tide__collective_peers(o);
}

/* From here on a ring beats one device that serves all others in turn. To a single other device it does not. */
enum { RING_RANKS = 3 };
static const int64_t ring_bytes = (int64_t)4 << 20;

static bool is_for_ring(const tide_tensor *x, const int *devices, int n) {
  int source = x->storage->device;
  if (source < 0 || x->numel * tide__itemsize(x->dtype) < ring_bytes || !tide__tensor_dense(x)) return false;
  uint64_t ranks = (uint64_t)1 << source, listed = 0;
  for (int i = 0; i < n; i++) {
    if (listed >> devices[i] & 1) return false;
    listed |= (uint64_t)1 << devices[i];
  }
  return __builtin_popcountll(ranks | listed) >= RING_RANKS;
}

/* The ranks of a ring: the listed devices, and the source where it is not among them. */
static tide_status ring_ranks(tide__collective *o, const tide_tensor *x, const int *devices, int n) {
  o->call.kind = TIDE_COLLECTIVE_BROADCAST, o->call.count = x->numel, o->call.n = n, o->call.root = n;
  for (int i = 0; i < n; i++)
    if (devices[i] == x->storage->device) o->call.root = i;
  if (o->call.root == n) o->call.n++;
  for (int i = 0; i < o->call.n; i++) {
    o->in[i] = o->out[i] = i == o->call.root ? (tide_tensor *)x : NULL;
    TIDE_TRY(tide__stream_current(&o->streams[i], i < n ? devices[i] : x->storage->device));
  }
  o->in[0] = (tide_tensor *)x; /* of the dtype of all */
  return TIDE_OK;
}

static tide_status run_ring(tide__collective *o, tide_tensor **made, const tide_tensor *x, int n) {
  tide_status status = TIDE_OK;
  for (int i = 0; i < n && status == TIDE_OK; i++) {
    if (i == o->call.root) continue;
    status = tide__tensor_new_like(&made[i], x, (tide_dtype)x->dtype, o->streams[i]->device);
    o->in[i] = o->out[i] = made[i];
  }
  if (status == TIDE_OK) status = run(o);
  if (status != TIDE_OK) tide__tensors_drop(made, n);
  return status;
}

tide_status tide__collective_broadcast(tide_tensor **made, const tide_tensor *x, const int *devices, int n,
                                       const char *what) {
  int jobs = 0;
  tide__fan_copy copies[TIDE_MAX_DEVICES];
  if (is_for_ring(x, devices, n)) {
    tide__collective o = {.what = what};
    TIDE_TRY(ring_ranks(&o, x, devices, n));
    if (translated(&o)) return run_ring(&o, made, x, n);
  }
  for (int i = 0; i < n; i++) {
    if (devices[i] == x->storage->device) continue;
    copies[jobs] = (tide__fan_copy){&made[i], x, NULL, i};
    TIDE_TRY(tide__stream_current(&copies[jobs++].on, devices[i]));
  }
  return tide__copies_fan_out(copies, jobs, what);
}
