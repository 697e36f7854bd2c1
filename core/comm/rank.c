/* rank.c: one rank of a communicator of several processes (tide/nccl.h).
 *
 * NCCL hangs where two communicators of a device run in another order on another rank. So all ranks of a device have
 * one order: each operation waits for the one before, whichever stream that is on.
 *
 * Making a communicator waits for all ranks, ending one for those on this host, and aborting one for the device. So
 * threads of their own do all three: a collector that drops a group must not wait for the others' collectors.
 *
 * Invariant: the lock guards the list and every call of a communicator; one that was aborted has no `impl`. */
#include <time.h>

#include "collective_ops.h"
#include "os/process.h"

/* A communicator that a thread makes, where the second of thread and rank to end frees this; or ends. */
typedef struct task {
  const tide_collective *table; /* it may end after the runtime */
  _Atomic int ends;
  void *impl;
  int device, n, rank;
  bool abort;
  unsigned char id[TIDE_NCCL_ID];
  tide_status status;
  char message[400];
} task;

struct tide_nccl_rank {
  tide_nccl_rank *prev, *next;
  task *opening; /* until it is made */
  void *impl;    /* NULL: not made, aborted, or of a runtime that has ended */
  int device, n, rank;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tide_nccl_rank *all;
static struct {
  bool set;
  tide__point point;
} last[TIDE_MAX_DEVICES]; /* the operation that was queued last */

static _Atomic int closing;

static void *close_impl(void *user) {
  task *o = user;
  bool is_locked = false; /* a call that runs while the communicator is aborted has two seconds to end */
  for (int i = 0; o->abort && i < 2000 && !(is_locked = !pthread_mutex_trylock(&lock)); i++)
    nanosleep(&(struct timespec){0, 1000000}, NULL);
  if (is_locked) pthread_mutex_unlock(&lock);
  o->table->rank_close(o->device, o->impl, o->abort);
  free(o);
  closing--;
  return NULL;
}

static bool start(void *(*fn)(void *), task *o) {
  pthread_t thread;
  return !pthread_create(&thread, NULL, fn, o) && !pthread_detach(thread);
}

static void *open_impl(void *user) {
  task *o = user;
  o->status = o->table->rank_open(&o->impl, o->device, o->id, o->n, o->rank);
  if (o->status != TIDE_OK) snprintf(o->message, sizeof o->message, "%s", tide_error_get()->message);
  if (o->ends++) { /* nobody waits for it any more */
    if (o->status == TIDE_OK) o->table->rank_close(o->device, o->impl, true);
    free(o);
  }
  return NULL;
}

static tide_status get_table(const tide_collective **out) {
  int count;
  TIDE_TRY(tide__device_count(&count));
  const tide_collective *t = tide__collective_table();
  if (!t || !t->rank_open)
    return tide__fail(TIDE_SUPPORT, "nccl: these devices have no collectives of several processes");
  tide__os_default_variable("NCCL_RUNTIME_CONNECT", "0"); /* ranks connect while the communicator is made */
  *out = t;
  return TIDE_OK;
}

tide_status tide_nccl_rank_id(unsigned char id[TIDE_NCCL_ID]) {
  const tide_collective *t;
  TIDE_GIVEN("nccl_rank_id", id);
  TIDE_TRY(get_table(&t));
  return t->rank_id(id);
}

tide_status tide_nccl_rank_new(tide_nccl_rank **out, int device, const unsigned char id[TIDE_NCCL_ID], int n,
                               int rank) {
  const tide_collective *t;
  const tide_backend *b;
  TIDE_GIVEN("nccl_rank_new", out);
  TIDE_GIVEN("nccl_rank_new", id);
  if (n < 1 || rank < 0 || rank >= n)
    return tide__fail(TIDE_VALUE, "nccl_rank_new: no such rank, got %d of %d", rank, n);
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "nccl"));
  TIDE_TRY(tide__backend(&b, device));
  TIDE_TRY(get_table(&t));
  tide_nccl_rank *r = calloc(1, sizeof *r);
  if (!r) return tide__fail(TIDE_MEMORY, "nccl: no host memory for a communicator");
  r->device = device, r->n = n, r->rank = rank;
  if ((r->opening = calloc(1, sizeof *r->opening))) {
    *r->opening = (task){.table = t, .device = device, .n = n, .rank = rank};
    memcpy(r->opening->id, id, TIDE_NCCL_ID);
  }
  if (!r->opening || !start(open_impl, r->opening)) {
    free(r->opening), free(r);
    return tide__fail(TIDE_MEMORY, "nccl: no thread could be started");
  }
  pthread_mutex_lock(&lock);
  r->next = all;
  if (all) all->prev = r;
  all = r;
  pthread_mutex_unlock(&lock);
  *out = r;
  return TIDE_OK;
}

/* With the lock held. */
static tide_status ask(bool *ready, tide_nccl_rank *r) {
  task *o = r->opening;
  *ready = false;
  if (o && !o->ends) return TIDE_OK;
  if (o) {
    tide_status status = o->status == TIDE_OK ? TIDE_OK : tide__fail(o->status, "%s", o->message);
    r->impl = o->impl, r->opening = NULL;
    free(o);
    TIDE_TRY(status);
  }
  if (!r->impl) return tide__fail(TIDE_STATE, "nccl: the communicator was aborted");
  return tide__collective_table()->rank_ready(ready, r->device, r->impl);
}

tide_status tide_nccl_rank_ready(bool *ready, tide_nccl_rank *rank) {
  TIDE_GIVEN("nccl_rank_ready", ready);
  TIDE_GIVEN("nccl_rank_ready", rank);
  TIDE_LOCKED(&lock);
  return ask(ready, rank);
}

static tide_collective_call make_call(tide_nccl_kind kind, tide_nccl_op op, tide_dtype dtype) {
  static const tide_collective_kind kinds[] = {TIDE_COLLECTIVE_BROADCAST, TIDE_COLLECTIVE_REDUCE,
                                               TIDE_COLLECTIVE_ALL_REDUCE, TIDE_COLLECTIVE_ALL_GATHER,
                                               TIDE_COLLECTIVE_REDUCE_SCATTER};
  tide_collective_call call = {.kind = kinds[kind], .op = op, .n = 1, .count = 1};
  tide__collective_translate(&call, dtype);
  return call;
}

bool tide_nccl_takes(tide_nccl_kind kind, tide_nccl_op op, tide_dtype dtype) {
  if ((unsigned)kind >= TIDE_NCCL_KINDS || (unsigned)op >= TIDE_NCCL_OPS || (unsigned)dtype >= TIDE_DTYPE_COUNT)
    return false;
  const tide_collective *t = tide__collective_table();
  return t && t->rank_open && t->takes(make_call(kind, op, dtype).dtype);
}

static tide_status check_tensor(const tide_nccl_rank *r, const tide_tensor *x, const char *name) {
  TIDE_TRY(tide__comm_cuda(x, 0, name, "nccl"));
  if (x->storage->device != r->device || !x->contiguous)
    return tide__fail(TIDE_DEVICE, "nccl: %s: got a tensor on %s, expected a contiguous one on %s", name,
                      tide__device_text(x->storage->device), tide__device_text(r->device));
  return TIDE_OK;
}

static tide_status check(const tide_nccl_rank *r, tide_nccl_kind kind, tide_nccl_op op, int root, tide_tensor *in,
                         tide_tensor *out) {
  TIDE_GIVEN("nccl_rank_queue", r);
  TIDE_TRY(check_tensor(r, in, "input"));
  if (!tide_nccl_takes(kind, op, (tide_dtype)in->dtype))
    return tide__fail(TIDE_SUPPORT, "nccl: it cannot do this with %s", tide_dtype_name((tide_dtype)in->dtype));
  if (root < 0 || root >= r->n) return tide__fail(TIDE_VALUE, "nccl: no such root, got %d of %d ranks", root, r->n);
  if (!out && !(kind == TIDE_NCCL_REDUCE && root != r->rank))
    return tide__fail(TIDE_ARGUMENT, "nccl: no output, got NULL, expected a tensor");
  if (!out) return TIDE_OK;
  TIDE_TRY(check_tensor(r, out, "output"));
  int64_t want = kind == TIDE_NCCL_ALL_GATHER       ? in->numel * r->n
                 : kind == TIDE_NCCL_REDUCE_SCATTER ? in->numel / r->n
                                                    : in->numel;
  if (out->dtype != in->dtype || out->numel != want || (kind == TIDE_NCCL_REDUCE_SCATTER && in->numel % r->n))
    return tide__fail(TIDE_SHAPE, "nccl: output: got %lld %s, expected %lld %s", (long long)out->numel,
                      tide_dtype_name((tide_dtype)out->dtype), (long long)want, tide_dtype_name((tide_dtype)in->dtype));
  return TIDE_OK;
}

/* With the lock held. */
static tide_status run(tide_nccl_rank *r, const tide_collective_call *call, tide_stream *stream, const tide_tensor *in,
                       const tide_tensor *out) {
  uint32_t number;
  bool ready;
  TIDE_TRY(ask(&ready, r));
  if (!r->impl) return tide__fail(TIDE_STATE, "nccl: the communicator is being made");
  if (last[r->device].set) TIDE_TRY(tide__point_wait(stream, &last[r->device].point, "nccl"));
  if (tide__sync_watched()) {
    tide__observe_operands();
    if (out) tide__observe_operand(out, true);
    tide__observe_operand(in, false);
  }
  TIDE_TRY(tide__launch_begin(&number, stream, tide__site_now(), TIDE__LAUNCH_COPY_PEER, 0, NULL));
  tide_status status = tide__collective_table()->rank_run(r->device, r->impl, call);
  TIDE_TRY(tide__launch_done(stream, number, status));
  if (last[r->device].set) tide__point_drop(&last[r->device].point);
  status = tide__point_set(&last[r->device].point, stream, "nccl");
  last[r->device].set = status == TIDE_OK;
  return status;
}

tide_status tide_nccl_rank_queue(tide_nccl_rank *rank, tide_nccl_kind kind, tide_nccl_op op, int root, tide_tensor *in,
                                 tide_tensor *out) {
  tide_stream *stream;
  TIDE_TRY(check(rank, kind, op, root, in, out));
  if (!in->numel) return TIDE_OK;
  TIDE_TRY(tide__stream_current(&stream, rank->device));
  if (stream->capture)
    return tide__fail(TIDE_STATE, "nccl: a graph is being captured, expected operations before and after it");
  tide_collective_call call = make_call(kind, op, (tide_dtype)in->dtype);
  call.count *= kind == TIDE_NCCL_REDUCE_SCATTER ? in->numel / rank->n : in->numel;
  call.root = root, call.stream[0] = stream->impl;
  call.in[0] = tide__tensor_ptr(in), call.out[0] = out ? tide__tensor_ptr(out) : NULL;
  tide__storage_use(in->storage, stream);
  if (out) tide__storage_use(out->storage, stream);
  TIDE_LOCKED(&lock);
  return run(rank, &call, stream, in, out);
}

/* With the lock held, or a communicator that was made. */
static void close_rank(tide_nccl_rank *r, bool abort) {
  const tide_collective *t = tide__collective_table();
  task *o = r->opening;
  if (o && o->ends++) r->impl = o->impl, free(o);
  void *impl = r->impl;
  r->impl = NULL, r->opening = NULL;
  if (!impl || !t) return;
  if ((o = calloc(1, sizeof *o))) *o = (task){.table = t, .impl = impl, .device = r->device, .abort = abort};
  closing++;
  if (o && start(close_impl, o)) return;
  closing--;
  free(o);
  t->rank_close(r->device, impl, abort);
}

void tide_nccl_rank_abort(tide_nccl_rank *rank) {
  if (!rank) return;
  bool is_locked = !pthread_mutex_trylock(&lock); /* a call that hangs holds it */
  if (is_locked || rank->impl) close_rank(rank, true);
  if (is_locked) pthread_mutex_unlock(&lock);
}

static void unlink_rank(tide_nccl_rank *r) {
  if (r->next) r->next->prev = r->prev;
  *(r->prev ? &r->prev->next : &all) = r->next;
}

void tide_nccl_rank_release(tide_nccl_rank *rank) {
  if (!rank) return;
  pthread_mutex_lock(&lock);
  close_rank(rank, tide__device_lost(NULL, rank->device));
  unlink_rank(rank);
  pthread_mutex_unlock(&lock);
  free(rank);
}

void tide__rank_shutdown(void) {
  pthread_mutex_lock(&lock);
  for (tide_nccl_rank *r = all; r; r = r->next) close_rank(r, tide__device_lost(NULL, r->device));
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    if (last[d].set) tide__point_drop(&last[d].point);
    last[d].set = false;
  }
  pthread_mutex_unlock(&lock);
  for (int i = 0; closing && i < 5000; i++) nanosleep(&(struct timespec){0, 1000000}, NULL);
}
