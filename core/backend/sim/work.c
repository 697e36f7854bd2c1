/* work.c: kernels and copies of simulated devices.
 *
 * A kernel's arguments are copied into the queue; when its turn comes the addresses in its head are looked up (an
 * address that is not live memory of the device, or page-locked host memory, is an illegal access that loses the
 * device, as on a real one) and the CPU's loop of the same name runs on what the workers see. One function for each
 * kernel comes from kernel.def.
 *
 * A copy from pageable memory of at most STAGE bytes is staged, as drivers do, and so is late on the device; every
 * other copy with pageable memory waits for the stream and is then done on the caller's thread. Copies with page-locked
 * memory are queued and late. In dry mode nothing is moved: what is read are zeros.
 *
 * Invariant: host memory that is not page-locked is touched during the call alone. */
#include <stdlib.h>

#include "sim.h"

#include "backend/cpu/cpu.h"

enum { STAGE = 64 << 10 };
static const double LAUNCH = 3e-6, BYTES_PER_SECOND = 4e12, FLOPS = 50e12;

/* ---- what a kernel costs on the modelled clock ---- */

static double bytes(int64_t elements, int dtype) {
  return (double)elements * (double)tide_dtype_size((tide_dtype)dtype);
}

static double operand_bytes(const tide_elementwise_args *a) {
  double sum = 0;
  for (int k = 0; k < a->operands; k++)
    if (!a->is_number[k]) sum += bytes(a->numel, a->dtype[k]);
  return sum;
}
static double product_bytes(const tide_gemm_args *a) {
  double m = (double)a->m, n = (double)a->n, k = (double)a->k;
  double moved = (m * k + k * n + m * n) * bytes(a->batch, a->dtype);
  double arithmetic = 2 * (double)a->batch * m * n * k / FLOPS * BYTES_PER_SECOND;
  return moved > arithmetic ? moved : arithmetic;
}
static double index_bytes(const tide_index_args *a) {
  double indexes = 1;
  for (int d = 0; d < a->ndim; d++)
    if (a->stride[2][d]) indexes *= (double)a->size[d];
  return 2 * (double)a->numel * a->item_size + bytes(1, a->index_dtype) * indexes;
}
/* About as many passes over the matrix as it has columns, up to what fits in a chip. */
static double matrix_bytes(const tide_linalg_args *a) {
  double passes = a->n < 64 ? (double)a->n : 64;
  return passes * (double)a->m * bytes(a->batch * a->n, a->dtype);
}
static double scan_bytes(const tide_scan_args *a) {
  int64_t numel = a->outer * a->n * a->inner;
  return bytes(numel, a->dtype[0]) + bytes(numel, a->dtype[1]) + (a->head.ptr[2] ? bytes(numel, TIDE_INT64) : 0);
}
/* As often as keys have bytes. */
static double sort_bytes(const tide_sort_args *a) {
  return 2 * (double)tide_dtype_size((tide_dtype)a->dtype) * 12 * (double)a->lines * (double)a->n;
}
static double window_bytes(const tide_window_args *a) {
  double in = (double)a->planes, out = in;
  for (int d = 0; d < 3; d++) in *= (double)a->dim[d].in, out *= (double)a->dim[d].out;
  return (in + out) * bytes(1, a->dtype) + (a->head.ptr[2] ? out * bytes(1, TIDE_INT64) : 0);
}
static double conv_bytes(const tide_conv_args *a) {
  double in = (double)(a->batch * a->channels), out = (double)(a->batch * a->results);
  double sum = (double)(a->channels / a->groups);
  for (int d = 0; d < 3; d++) in *= (double)a->dim[d].in, out *= (double)a->dim[d].out, sum *= (double)a->dim[d].kernel;
  double moved = (in + out) * bytes(1, a->dtype), arithmetic = 2 * out * sum / FLOPS * BYTES_PER_SECOND;
  return moved > arithmetic ? moved : arithmetic;
}
static double sample_bytes(const tide_sample_args *a) {
  double in = (double)(a->batch * a->channels), out = (double)(a->batch * a->points);
  for (int d = 0; d < 3; d++) in *= (double)a->size[d];
  return (in + out * (double)(a->channels + a->rank)) * bytes(1, a->dtype);
}
/* Memory is read and written once for every dim. */
static double transform_bytes(const tide_fft_args *a) {
  double elements = (double)a->shape.batch;
  for (int d = 0; d < a->shape.rank; d++) elements *= (double)a->shape.n[d];
  return 2 * a->shape.rank * elements * bytes(1, a->shape.wide ? TIDE_COMPLEX128 : TIDE_COMPLEX64);
}

/* ---- queueing kernels ---- */

#define KERNEL(name, type, writes, cost, library)                                                                      \
  static tide_status run_##name(const sim_args *args) { return tide__cpu_##name(NULL, &args->name); }                  \
  tide_status tide__sim_kernel_##name(tide_stream *stream, const type *a) {                                            \
    TIDE_TRY(tide__sim_enter(#name));                                                                                  \
    TIDE_TRY(tide__cpu_has_##library(#name));                                                                          \
    sim_op *op = tide__sim_op_new(SIM_KERNEL);                                                                         \
    if (!op) return TIDE_MEMORY;                                                                                       \
    op->run = run_##name;                                                                                              \
    op->args.name = *a;                                                                                                \
    return tide__sim_submit(tide_stream_impl(stream), op, LAUNCH + (cost) / BYTES_PER_SECOND, #name);                  \
  }
#include "backend/kernel.def"

/* Nothing is planned: a plan is its shape, so that each is an allocation that can be lost, and it asks for a work area
 * as a real one may. */
tide_status tide__sim_fft_plan_new(void **out, size_t *work, int device, const tide_fft_shape *shape) {
  TIDE_TRY(tide__sim_enter("fft"));
  tide_fft_shape *plan = malloc(sizeof *plan);
  if (!plan) return tide__sim.host->fail(TIDE_MEMORY, "fft: no host memory for a plan");
  *plan = *shape;
  *out = plan;
  *work = (size_t)shape->n[shape->rank - 1] * 16;
  return TIDE_OK;
}

void tide__sim_fft_plan_free(int device, void *plan) { free(plan); }

tide_status tide__sim_stream_sleep(void *stream, int64_t cycles) {
  TIDE_TRY(tide__sim_enter("sleep"));
  sim_op *op = tide__sim_op_new(SIM_SLEEP);
  if (!op) return TIDE_MEMORY;
  op->seconds = (double)cycles * 1e-9;
  return tide__sim_submit(stream, op, LAUNCH + op->seconds, "sleep");
}

/* ---- running them ---- */

/* What a kernel will put into the mailbox: the value that it cannot take, and why. */
typedef struct bad_value {
  bool set;
  int32_t index_base;
  int64_t value, length;
  uint32_t site; /* 0: the launch's */
} bad_value;

static bad_value find_bad(const sim_op *op) {
  bad_value bad = {0};
  if (op->run != run_verify) return bad;
  bad.set = tide__cpu_verify_bad(&op->args.verify, &bad.value);
  bad.length = op->args.verify.kind;
  return bad;
}

static tide_status run_indexed(const tide_index_args *a, bool scatter, bad_value *bad) {
  bad->set = scatter ? tide__cpu_scatter_bad(a, &bad->value) : tide__cpu_gather_bad(a, &bad->value);
  bad->length = a->length, bad->index_base = a->index_base;
  return TIDE_OK;
}

static tide_status run_made(sim_launch *l, bad_value *bad) {
  tide_mail mail = {0};
  tide_status status = tide__sim_run_made(l, &mail);
  *bad = (bad_value){mail.full, mail.base, mail.value, mail.length, mail.site};
  return status;
}

/* Kernels that say of themselves what they meet; the others run behind a look at what they read. */
static tide_status run_kernel(sim_op *op, bad_value *bad) {
  if (op->made) return run_made(&op->args.launch, bad);
  if (op->run == run_gather || op->run == run_scatter)
    return run_indexed(&op->args.gather, op->run == run_scatter, bad);
  if (op->run != run_locate) return op->run(&op->args);
  const tide_locate_args *a = &op->args.locate;
  bad->set = tide__cpu_locate_bad(a, &bad->value);
  bad->length = a->length, bad->index_base = a->index_base;
  return TIDE_OK;
}

static void note_bad(int device, const bad_value *bad, uint32_t site) {
  sim_device *d = &tide__sim.device[device];
  if (!bad->set || d->mailbox.set) return;
  d->mailbox.set = true;
  d->mailbox.site = site;
  d->mailbox.value = bad->value;
  d->mailbox.length = bad->length;
  d->mailbox.index_base = bad->index_base;
}

static bool translate(int device, tide_head *head) {
  for (int k = 0; k < head->nptr; k++) {
    if (!head->ptr[k]) continue;
    head->ptr[k] = tide__sim_operand(device, head->ptr[k]);
    if (!head->ptr[k]) return false;
  }
  return true;
}

/* The place of a generator, which the graph that replays the kernel keeps alive. */
static void translate_state(int device, const uint64_t **state) {
  if (*state) *state = (const uint64_t *)(const void *)tide__sim_operand(device, *state);
}

static void illegal_access(int device) {
  tide__sim_fail(device, true, 700, "cudaErrorIllegalAddress", "an illegal memory access was encountered");
}

static void do_kernel(int device, sim_op *op) {
  if (!translate(device, &op->args.head) || (op->translate && !op->translate(device, &op->args))) {
    illegal_access(device);
    return;
  }
  if (op->run == run_random) translate_state(device, &op->args.random.state);
  if (op->run == run_randperm) translate_state(device, &op->args.randperm.state);
  pthread_mutex_unlock(&tide__sim.lock);
  bad_value bad = find_bad(op);
  tide_status status = run_kernel(op, &bad);
  pthread_mutex_lock(&tide__sim.lock);
  note_bad(device, &bad, bad.site ? bad.site : op->args.head.site);
  if (status != TIDE_OK && op->made)
    tide__sim_fail(device, true, 710, "cudaErrorAssert", "device-side assert triggered");
  else if (status != TIDE_OK && !bad.set)
    tide__sim_fail(device, false, 701, "cudaErrorLaunchOutOfResources", "a kernel failed in the CPU's loops");
}

static void *seen(int device, void *ptr, size_t bytes) {
  return device == TIDE_CPU ? ptr : tide__sim_seen(device, ptr, bytes);
}

static void do_copy(int device, const sim_op *op) {
  void *dst = seen(op->dst_device, op->dst, op->bytes);
  const void *src = seen(op->src_device, op->src, op->bytes);
  if (!dst || !src) {
    illegal_access(device);
    return;
  }
  pthread_mutex_unlock(&tide__sim.lock);
  memmove(dst, src, op->bytes);
  pthread_mutex_lock(&tide__sim.lock);
}

void tide__sim_op_run(sim_stream *stream, sim_op *op) {
  const sim_failure *failure = &tide__sim.device[stream->device].failure;
  bool lost = failure->set && failure->sticky;
  if (op->kind == SIM_RECORD) {
    if (!(lost && op->mark->semaphore)) tide__sim_mark_pass(op->mark);
    op->mark->time = tide__sim_now();
  } else if (op->kind == SIM_NOTE) {
    if (!failure->set) stream->progress = op->note; /* what failed is still to be told */
  } else if (!lost && !tide__sim_fault_fire(stream->device, op)) {
    if (op->kind == SIM_KERNEL) do_kernel(stream->device, op);
    if (op->kind == SIM_COPY) do_copy(stream->device, op);
  }
}

/* ---- copies ---- */

static tide_status queue_copy(sim_stream *stream, void *dst, int dst_device, void *src, int src_device, size_t bytes,
                              bool staged, const char *what) {
  sim_op *op = tide__sim_op_new(SIM_COPY);
  if (!op && staged) free(src);
  if (!op) return TIDE_MEMORY;
  op->dst = dst, op->dst_device = dst_device;
  op->src = src, op->src_device = src_device;
  op->bytes = bytes;
  op->staged = staged;
  return tide__sim_submit(stream, op, LAUNCH + (double)bytes / BYTES_PER_SECOND, what);
}

/* After everything queued on the stream, on this thread. The caller has checked nothing. */
static tide_status copy_now(sim_stream *stream, void *dst, int dst_device, void *src, int src_device, size_t bytes,
                            const char *what) {
  TIDE_TRY(tide__sim_stream_sync(stream));
  if (atomic_load(&tide__sim_dry)) {
    pthread_mutex_lock(&tide__sim.lock);
    stream->clock += LAUNCH + (double)bytes / BYTES_PER_SECOND;
    pthread_mutex_unlock(&tide__sim.lock);
    if (dst_device == TIDE_CPU) memset(dst, 0, bytes);
    return TIDE_OK;
  }
  pthread_mutex_lock(&tide__sim.lock);
  dst = seen(dst_device, dst, bytes), src = seen(src_device, src, bytes);
  if (!dst || !src) illegal_access(stream->device);
  tide_status status = tide__sim_leave(stream->device, what);
  double start = tide__sim_now();
  if (status == TIDE_OK) memmove(dst, src, bytes);
  if (status == TIDE_OK && atomic_load_explicit(&tide__sim_tracing, memory_order_relaxed)) {
    pthread_mutex_lock(&tide__sim.lock);
    tide__sim_note(tide__sim_copy_work(dst_device, src_device), stream, tide__sim_traced_op, start, bytes, "");
    pthread_mutex_unlock(&tide__sim.lock);
  }
  return status;
}

tide_status tide__sim_copy_to_device(void *impl, void *dst, const void *src, size_t bytes, bool pinned) {
  TIDE_TRY(tide__sim_enter("copy"));
  sim_stream *stream = impl;
  if (pinned) return queue_copy(stream, dst, stream->device, (void *)src, TIDE_CPU, bytes, false, "copy");
  if (stream->capture) return tide__sim_stream_sync(stream); /* fails: a recording cannot keep the bytes */
  void *stage = bytes <= STAGE ? malloc(bytes) : NULL;
  if (!stage) return copy_now(stream, dst, stream->device, (void *)src, TIDE_CPU, bytes, "copy");
  memcpy(stage, src, bytes);
  return queue_copy(stream, dst, stream->device, stage, TIDE_CPU, bytes, true, "copy");
}

tide_status tide__sim_copy_to_host(void *impl, void *dst, const void *src, size_t bytes, bool pinned) {
  TIDE_TRY(tide__sim_enter("copy"));
  sim_stream *stream = impl;
  if (pinned) return queue_copy(stream, dst, TIDE_CPU, (void *)src, stream->device, bytes, false, "copy");
  return copy_now(stream, dst, TIDE_CPU, (void *)src, stream->device, bytes, "copy");
}

tide_status tide__sim_copy_peer(void *stream, void *dst, int dst_device, const void *src, int src_device,
                                size_t bytes) {
  TIDE_TRY(tide__sim_enter("copy"));
  return queue_copy(stream, dst, dst_device, (void *)src, src_device, bytes, false, "copy");
}

tide_status tide__sim_read_small(void *impl, void *dst, const void *src, size_t bytes) {
  TIDE_TRY(tide__sim_enter("item"));
  sim_stream *stream = impl;
  return copy_now(stream, dst, TIDE_CPU, (void *)src, stream->device, bytes, "item");
}
