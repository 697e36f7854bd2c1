/* nccl.c: collectives of device tensors by NCCL, on the current stream.
 *
 * A group connects once, where it is made: its ranks agree whether all can, the first one sends a name, each makes its
 * communicator without blocking, and they agree whether all have. From then on each takes the same way for the same
 * operation, because that follows from what is compared: kind, op, dtype, and whether the tensors are on the device.
 *
 * MPI compares such an operation beside it. One that ranks do not agree on, or that takes too long, ends its group: the
 * next wait for the device fails, and then the communicator is aborted, so that the stream goes on.
 *
 * Invariant: a group that has a communicator has one on each rank. */
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"

struct tide__connect {
  int step, device;
  bool must;
  int32_t agree;
  unsigned char id[TIDE_NCCL_ID];
  tide_nccl_rank *rank;
  char why[512];
};

/* ---- connecting ---- */

static void refuse(tide__connect *c) {
  c->agree = 0;
  tide__append(c->why, sizeof c->why, "%s", host.error_get()->message);
}

tide_status tide__connect_begin(tide_work *w, int device, bool must) {
  tide__connect *c = calloc(1, sizeof *c);
  if (!c) return tide__dist_fail(TIDE_MEMORY, "init_process_group: no memory to connect");
  w->connect = c;
  c->device = device, c->must = must, c->agree = device >= 0;
  if (device < 0) tide__append(c->why, sizeof c->why, "this rank has no device of its own");
  if (c->agree && host.nccl_rank_id(c->id) != TIDE_OK) refuse(c);
  return TIDE_OK;
}

static tide_status end(tide_work *w) {
  tide__connect *c = w->connect;
  if (c->agree) {
    w->group->nccl = c->rank, w->group->device = c->device;
    c->rank = NULL;
    return TIDE_OK;
  }
  host.nccl_rank_release(c->rank);
  c->rank = NULL;
  if (!c->must) return TIDE_OK;
  return tide__dist_fail(TIDE_LIBRARY, "init_process_group: backend: got 'nccl', but %s",
                         c->why[0] ? c->why : "another rank cannot use it");
}

static tide_status make_rank(tide_work *w) {
  tide__connect *c = w->connect;
  if (host.nccl_rank_new(&c->rank, c->device, c->id, w->group->size, w->group->rank) != TIDE_OK) refuse(c);
  c->step = 2;
  return TIDE_OK;
}

/* The least `agree` of all ranks. */
tide_status tide__connect_post(tide_work *w) {
  if (w->group->size == 1) return TIDE_OK;
  POST(Iallreduce, tide__in_place(), &w->connect->agree, 1, mpi_const.int32, mpi_const.min, w->group->data);
  return TIDE_OK;
}

static tide_status wait_for_rank(tide_work *w) {
  tide__connect *c = w->connect;
  bool ready = true;
  if (c->rank && host.nccl_rank_ready(&ready, c->rank) != TIDE_OK) {
    host.nccl_rank_abort(c->rank);
    refuse(c);
    ready = true;
  }
  if (!ready) return TIDE_OK;
  c->step = 3;
  return tide__connect_post(w);
}

/* All that was posted is done: the next step. *done: there is none. */
tide_status tide__connect_next(bool *done, tide_work *w) {
  tide__connect *c = w->connect;
  *done = false;
  if (c->step == 2) return wait_for_rank(w);
  if (c->step == 1) return make_rank(w);
  if (c->step == 0 && c->agree) {
    c->step = 1;
    if (w->group->size > 1) POST(Ibcast, c->id, (int)sizeof c->id, mpi_const.byte, 0, w->group->data);
    return TIDE_OK;
  }
  *done = true;
  return end(w);
}

void tide__connect_free(tide_work *w) {
  if (!w->connect) return;
  host.nccl_rank_abort(w->connect->rank);
  host.nccl_rank_release(w->connect->rank);
  free(w->connect);
}

/* ---- operations ---- */

static bool kind_of(tide_nccl_kind *out, int kind) {
  switch (kind) {
  case TIDE_BROADCAST_RANKS: return *out = TIDE_NCCL_BROADCAST, true;
  case TIDE_REDUCE_RANKS: return *out = TIDE_NCCL_REDUCE, true;
  case TIDE_ALL_REDUCE_RANKS: return *out = TIDE_NCCL_ALL_REDUCE, true;
  case TIDE_ALL_GATHER_RANKS: return *out = TIDE_NCCL_ALL_GATHER, true;
  case TIDE_REDUCE_SCATTER_RANKS: return *out = TIDE_NCCL_REDUCE_SCATTER, true;
  default: return false;
  }
}

static tide_nccl_op op_of(tide_rank_op op) {
  static const tide_nccl_op ops[] = {TIDE_NCCL_SUM, TIDE_NCCL_PROD, TIDE_NCCL_MIN, TIDE_NCCL_MAX, TIDE_NCCL_AVG};
  return ops[op];
}

bool tide__nccl_can(const tide_work *w, const tide_distributed_call *c) {
  tide_nccl_kind kind;
  const tide_group *g = w->group;
  if (!g->nccl || !kind_of(&kind, (int)c->kind) || !host.nccl_takes(kind, op_of(w->op), (tide_dtype)w->note.dtype))
    return false;
  return host.tensor_device(c->out[0]) == g->device && (!c->ins || host.tensor_device(c->in[0]) == g->device);
}

static tide_status run(tide_work *w, tide_tensor *in, tide_tensor *out) {
  tide_nccl_kind kind = TIDE_NCCL_BROADCAST;
  kind_of(&kind, w->note.kind);
  bool gives = kind != TIDE_NCCL_REDUCE || w->root == w->group->rank;
  return host.nccl_rank_queue(w->group->nccl, kind, op_of(w->op), w->root < 0 ? 0 : w->root, in, gives ? out : NULL);
}

tide_status tide__nccl_queue(tide_work *w, const tide_distributed_call *c) {
  tide_tensor *in = NULL, *out = NULL;
  tide_dtype dtype = (tide_dtype)w->note.dtype;
  bool in_place = !c->ins;
  TRY(tide__side_keep(&w->out, c->out, c->outs, dtype));
  TRY(tide__side_keep(&w->in, c->in, c->ins, dtype));
  tide_status status = tide__side_line(&out, &w->out, in_place);
  if (status == TIDE_OK && !in_place) status = tide__side_line(&in, &w->in, true);
  if (status == TIDE_OK) status = run(w, in ? in : out, out);
  if (status == TIDE_OK) status = tide__side_spread(&w->out, out);
  host.tensor_release(in), host.tensor_release(out);
  tide__side_drop(&w->in), tide__side_drop(&w->out);
  TRY(status);
  return tide__side_watch(&w->out);
}

/* *done: the device has done it. Fails if NCCL has met an error. */
tide_status tide__nccl_test(bool *done, const tide_work *w) {
  bool ready;
  TRY(host.event_peek(done, w->written));
  if (*done) return TIDE_OK;
  if (!w->group->nccl) return tide__dist_fail(TIDE_STATE, "%s: the group has failed before", w->note.name);
  return host.nccl_rank_ready(&ready, w->group->nccl);
}
