/* comm.c: work of simulated devices that concerns several of them.
 *
 * Many pieces are copied by one kernel, whose addresses stand in a list of their own, so they are looked up here when
 * its turn comes.
 *
 * The simulated collectives do what NCCL's do: no rank goes on before all have come. The first rank's stream waits for
 * a mark of each other one, does the whole operation at once, and passes a mark for which the others wait. A
 * communicator knows the marks that have not been passed; aborting it passes them all, so that the streams go on with
 * whatever stands in the outputs.
 *
 * Invariant: a piece touches live memory of the device or of a peer whose way is open, a collective that of its ranks,
 * or the device is lost. */

#include "sim.h"

#include "base/own.h"
#include "backend/cpu/cpu.h"
#include "backend/nccl.h"
#include "os/os.h"

static const double LAUNCH = 3e-6, BYTES_PER_SECOND = 4e12;

/* ---- many pieces ---- */

static tide_status run_pack(const sim_args *args) { return tide__cpu_pack(NULL, &args->pack); }

/* With the lock held: false if an address is not the device's or a peer's. */
static bool translate_pack(int device, sim_args *args) {
  tide_pack_args *a = &args->pack;
  for (int i = 0; i < a->n; i++) {
    tide_pack_piece *p = &a->piece[i];
    p->to = tide__sim_operand(device, p->to);
    p->from = tide__sim_operand(device, p->from);
    if (!p->to || !p->from) return false;
  }
  return true;
}

tide_status tide__sim_pack(tide_stream *stream, const tide_pack_args *a) {
  uint64_t bytes = 0;
  TIDE_TRY(tide__sim_enter("pack"));
  sim_op *op = tide__sim_op_new(SIM_KERNEL);
  if (!op) return TIDE_MEMORY;
  op->run = run_pack, op->translate = translate_pack;
  op->args.pack = *a;
  for (int i = 0; i < a->n; i++) bytes += 2 * a->piece[i].bytes;
  return tide__sim_submit(tide_stream_impl(stream), op, LAUNCH + (double)bytes / BYTES_PER_SECOND, "pack");
}

/* ---- what a collective computes ---- */

/* With the lock held: false if an address is no device's. */
static bool translate_join(int device, sim_args *args) {
  tide_collective_call *call = &args->join.call;
  for (int i = 0; i < call->n; i++) {
    const void *in = call->in[i];
    void *out = call->out[i], *seen = NULL;
    for (int d = 0; d < tide__sim.devices && !seen; d++) seen = tide__sim_seen(d, in, 1);
    call->in[i] = seen, seen = NULL;
    for (int d = 0; d < tide__sim.devices && out && !seen; d++) seen = tide__sim_seen(d, out, 1);
    call->out[i] = seen;
    if (!call->in[i] || (out && !seen)) return false;
  }
  return true;
}

/* to = op(to, from), or op(to, number) where from is NULL. */
static tide_status combine(tide_op op, void *to, const void *from, double number, int64_t n, tide_dtype dtype) {
  tide_elementwise_args a = {.op = op, .operands = 3, .compute = tide__compute_dtype(dtype), .flat = 1, .ndim = 1};
  a.head.ptr[0] = a.head.ptr[1] = to, a.head.ptr[2] = (void *)from, a.head.nptr = 3, a.head.device = TIDE_CPU;
  a.numel = a.size[0] = n;
  for (int k = 0; k < 3; k++) a.dtype[k] = (uint8_t)dtype, a.stride[k][0] = 1;
  a.is_number[2] = !from, a.number[2].re = number, a.number[2].i = (int64_t)number;
  return tide__cpu_elementwise(NULL, &a);
}

/* Part `part` of all inputs joined, in the order of the ranks. */
static tide_status join(void *to, const tide_collective_call *c, int part) {
  static const tide_op ops[TIDE_NCCL_OPS] = {TIDE_OP_add, TIDE_OP_mul, TIDE_OP_maximum, TIDE_OP_minimum, TIDE_OP_add};
  size_t bytes = (size_t)c->count * tide_dtype_size(c->dtype), at = bytes * (size_t)part;
  memcpy(to, (const char *)c->in[0] + at, bytes);
  for (int j = 1; j < c->n; j++) TIDE_TRY(combine(ops[c->op], to, (const char *)c->in[j] + at, 0, c->count, c->dtype));
  if (c->op != TIDE_NCCL_AVG) return TIDE_OK;
  return combine(tide_dtype_kind(c->dtype) == 'F' ? TIDE_OP_div : TIDE_OP_div_trunc, to, NULL, c->n, c->count,
                 c->dtype);
}

/* All results stand beside before any of them is written: an output may be an input. */
static tide_status run_join(const sim_args *args) {
  const tide_collective_call *c = &args->join.call;
  size_t bytes = (size_t)c->count * tide_dtype_size(c->dtype), parts = (size_t)c->n;
  char *beside = malloc(bytes * parts);
  tide_status status = beside ? TIDE_OK : TIDE_MEMORY;
  for (int i = 0; i < c->n && status == TIDE_OK; i++) {
    char *to = beside + bytes * (size_t)i;
    if (c->kind == TIDE_COLLECTIVE_BROADCAST)
      memcpy(to, c->in[c->root], bytes);
    else if (c->kind == TIDE_COLLECTIVE_ALL_GATHER)
      memcpy(to, c->in[i], bytes);
    else
      status = join(to, c, c->kind == TIDE_COLLECTIVE_REDUCE_SCATTER ? i : 0);
  }
  for (int i = 0; i < c->n && status == TIDE_OK; i++) {
    bool all = c->kind == TIDE_COLLECTIVE_ALL_GATHER;
    if (c->out[i]) memcpy(c->out[i], all ? beside : beside + bytes * (size_t)i, all ? bytes * parts : bytes);
  }
  free(beside);
  return status;
}

/* ---- communicators ---- */

typedef struct sim_comm {
  int count, room;
  sim_mark **marks; /* each with a reference of ours */
} sim_comm;

static tide_status version(int *major, int *minor, int *patch) {
  pthread_mutex_lock(&tide__sim.lock);
  bool off = tide__sim.faults.nccl_off;
  pthread_mutex_unlock(&tide__sim.lock);
  if (off)
    return tide__sim.host->fail(TIDE_LIBRARY, "nccl: NCCL is switched off, got the fault nccl:off, expected none");
  *major = TIDE_VERSION_MAJOR, *minor = TIDE_VERSION_MINOR, *patch = TIDE_VERSION_PATCH;
  return TIDE_OK;
}

/* As NCCL's: no 16-bit integers, nothing complex, no bool. */
static bool takes(tide_dtype dtype) { return dtype != TIDE_BOOL && dtype != TIDE_INT16 && dtype < TIDE_COMPLEX64; }

static tide_status comm_open(void **out, const int *devices, int n) {
  TIDE_TRY(tide__sim_enter("nccl"));
  *out = calloc(1, sizeof(sim_comm));
  return *out ? TIDE_OK : tide__sim.host->fail(TIDE_MEMORY, "nccl: no host memory for a communicator");
}

/* A mark with a reference for each of `refs` operations, and one for the communicator, which forgets what was
 * passed. */
static sim_mark *new_mark(sim_comm *comm, int refs) {
  sim_mark *mark = calloc(1, sizeof *mark);
  TIDE_LOCKED(&tide__sim.lock);
  int kept = 0;
  for (int i = 0; i < comm->count; i++) {
    if (comm->marks[i]->passed)
      tide__sim_mark_unref(comm->marks[i]);
    else
      comm->marks[kept++] = comm->marks[i];
  }
  comm->count = kept;
  if (!mark || !tide__grow(&comm->marks, &comm->room, comm->count, sizeof *comm->marks)) return free(mark), NULL;
  mark->refs = refs + 1;
  return comm->marks[comm->count++] = mark;
}

/* `later` waits for what `earlier` has queued. */
static tide_status order(sim_comm *comm, sim_stream *later, sim_stream *earlier) {
  sim_mark *mark = new_mark(comm, 2);
  if (!mark) return tide__sim.host->fail(TIDE_MEMORY, "nccl: no host memory to queue work");
  tide_status status = tide__sim_mark_queue(SIM_RECORD, mark, earlier, "nccl");
  if (status == TIDE_OK) return tide__sim_mark_queue(SIM_WAIT, mark, later, "nccl");
  TIDE_LOCKED(&tide__sim.lock);
  tide__sim_mark_pass(mark); /* so that the communicator forgets it */
  tide__sim_mark_unref(mark);
  return status;
}

static tide_status comm_run(void *impl, const tide_collective_call *call) {
  sim_comm *comm = impl;
  sim_stream *first = call->stream[0];
  TIDE_TRY(tide__sim_enter("nccl"));
  for (int i = 1; i < call->n; i++) TIDE_TRY(order(comm, first, call->stream[i]));
  sim_op *op = tide__sim_op_new(SIM_KERNEL);
  if (!op) return TIDE_MEMORY;
  op->run = run_join, op->translate = translate_join;
  op->args.join.call = *call;
  double bytes = (double)call->count * (double)tide_dtype_size(call->dtype) * call->n;
  TIDE_TRY(tide__sim_submit(first, op, LAUNCH + bytes / BYTES_PER_SECOND, "nccl"));
  for (int i = 1; i < call->n; i++) TIDE_TRY(order(comm, call->stream[i], first));
  return TIDE_OK;
}

static tide_status comm_health(void *impl, int *rank) { return TIDE_OK; }

static void comm_close(void *impl, bool abort) {
  sim_comm *comm = impl;
  TIDE_LOCKED(&tide__sim.lock);
  for (int i = 0; i < comm->count; i++) {
    if (abort && !comm->marks[i]->passed) tide__sim_mark_pass(comm->marks[i]);
    tide__sim_mark_unref(comm->marks[i]);
  }
  pthread_cond_broadcast(&tide__sim.work);
  free(comm->marks);
  free(comm);
}

/* ---- one rank of several processes: by a double of NCCL that knows simulated devices, as the specs have one ---- */

/* What the double does with a device. A stream runs `fn` when it gets there; the rest is as in backend.h. */
typedef struct sim_face {
  tide_status (*queue)(void *stream, void (*fn)(void *user), void *user);
  void *(*seen)(int device, const void *ptr, size_t bytes);
  tide_status (*meet_new)(void **out, int device);
  tide_status (*meet_wait)(void *stream, void *place);
  void (*meet_open)(void *place);
  void (*meet_free)(void *place);
} sim_face;

static tide_status run_host(const sim_args *args) {
  args->host.fn(args->host.user);
  return TIDE_OK;
}

static tide_status queue_host(void *stream, void (*fn)(void *user), void *user) {
  sim_op *op = tide__sim_op_new(SIM_KERNEL);
  if (!op) return TIDE_MEMORY;
  op->run = run_host;
  op->args.host.fn = fn, op->args.host.user = user;
  return tide__sim_submit(stream, op, LAUNCH, "nccl");
}

static void *seen_locked(int device, const void *ptr, size_t bytes) {
  TIDE_LOCKED(&tide__sim.lock);
  return tide__sim_seen(device, ptr, bytes);
}

static bool has_double;
static void attach(void) {
  static const sim_face face = {queue_host,          seen_locked,         tide__sim_meet_new,
                                tide__sim_meet_wait, tide__sim_meet_open, tide__sim_meet_free};
  const char *path = getenv("TIDE_NCCL_LIBRARY");
  void *library = path && *path ? tide__os_library(path, false) : NULL;
  void (*use)(const sim_face *face) = NULL;
  if (library) *(void **)&use = tide__os_symbol(library, "tide_simulated_devices");
  if (use) use(&face), has_double = true;
}

static tide_status check_double(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, attach);
  if (has_double) return TIDE_OK;
  return tide__sim.host->fail(TIDE_SUPPORT, "nccl: simulated devices of several processes do not meet");
}

static tide_status rank_id(unsigned char *id) {
  TIDE_TRY(check_double());
  return tide__nccl_rank_id(tide__sim.host, id);
}

/* By a thread that may wait until after the devices are closed. */
static tide_status rank_open(void **out, int device, const unsigned char *id, int n, int rank) {
  TIDE_TRY(check_double());
  pthread_mutex_lock(&tide__sim.lock);
  const tide_backend_host *host = tide__sim.host;
  pthread_mutex_unlock(&tide__sim.lock);
  return tide__nccl_rank_open(host, out, device, id, n, rank);
}

static tide_status rank_ready(bool *ready, int device, void *comm) {
  return tide__nccl_rank_ready(tide__sim.host, ready, device, comm);
}

static tide_status rank_run(int device, void *comm, const tide_collective_call *call) {
  return tide__nccl_check(tide__sim.host, device, "nccl", tide__nccl_call(call, 0, comm, call->stream[0]));
}

static void rank_close(int device, void *comm, bool abort) { tide__nccl_rank_close(comm, abort); }

const tide_collective *tide__sim_collective(void) {
  static const tide_collective table = {.version = version,
                                        .takes = takes,
                                        .open = comm_open,
                                        .run = comm_run,
                                        .health = comm_health,
                                        .close = comm_close,
                                        .rank_id = rank_id,
                                        .rank_open = rank_open,
                                        .rank_ready = rank_ready,
                                        .rank_run = rank_run,
                                        .rank_close = rank_close};
  return &table;
}
