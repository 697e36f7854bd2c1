/* launch.c: launches of what was made at run time, of every face; and the arguments of elementwise kernels.
 *
 * Flat kernels count their threads in 32 bits, strided ones their elements: what is larger is done in parts, of which a
 * strided one is the half of a dim.
 *
 * Invariant: a launch counts at most 2^30 elements where it computes indexes. */
#include "jit/raw/function.h"

#include "base/determinism.h"

enum { MOST = 1 << 30 };

/* ---- every launch ---- */

tide_status tide__jit_compiler(const tide_compiler **out, const char *what, int device) {
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, device));
  *out = b->compiler;
  if (*out) return TIDE_OK;
  return tide__fail(TIDE_SUPPORT, "%s: %s cannot make kernels at run time", what, tide__device_text(device));
}

int tide__jit_device_of(const tide_operand *args, int n, int otherwise) {
  for (int i = 0; i < n; i++)
    if (args[i].tensor && args[i].tensor->storage) return args[i].tensor->storage->device;
  return otherwise;
}

tide_status tide__jit_check_order(bool is_unordered, _Atomic bool *warned, const char *what, int device) {
  if (TIDE_LIKELY(!is_unordered || device < 0 || !tide__deterministic())) return TIDE_OK;
  if (tide_get_deterministic() == TIDE_DETERMINISM_WARN && atomic_exchange(warned, true)) return TIDE_OK;
  return tide__determinism_refuse(what, "it uses atomic operations");
}

/* What can be stopped is stopped by its number, and what has a quota is watched. */
tide_status tide__jit_launch(const tide_compiler *c, void *function, tide__queue *q, tide__launch what,
                             tide_launch *a) {
  static const uint16_t no_offset[1];
  const tide__made made = {c, function, a};
  const bool stops = what == TIDE__LAUNCH_RAW && a->mail && a->device >= 0, watched = stops && tide__quota_any();
  a->site = a->device < 0 ? 0 : tide__site_now();
  if (!a->offset) a->params = 1, a->offset = no_offset;
  TIDE_TRY(tide__launch_begin(&q->number, q->stream, a->site, what, 0, &made));
  if (stops) a->owner = tide__quota_owner(tide__quota_bound()), a->number = q->number ? tide__watch_number() : 0;
  tide_status status = watched ? tide__watch_begin(q->stream, q->number) : TIDE_OK;
  if (status == TIDE_OK) status = c->loader->launch(q->stream, function, a);
  if (watched) tide__watch_end(q->stream, q->number);
  return tide__launch_done(q->stream, q->number, status);
}

/* ---- bound ---- */

tide_status tide__jit_bound_keep(tide__jit_bound *b, const tide_tensor *x, int at, bool writes, int most) {
  if (!b->tensor && !(b->tensor = calloc((size_t)most, sizeof *b->tensor)))
    return tide__fail(TIDE_MEMORY, "bind: no host memory");
  TIDE_TRY(tide__tensor_view(&b->tensor[b->tensors].x, x, x->size, x->stride, x->ndim, x->offset));
  b->external |= x->storage->external;
  b->tensor[b->tensors].at = (uint16_t)at, b->tensor[b->tensors++].writes = writes;
  return TIDE_OK;
}

/* Memory of another API is looked at before anything is noted or queued. */
tide_status tide__jit_bound_check(const tide__jit_bound *b, const char *what, bool is_unordered, _Atomic bool *warned) {
  if (TIDE_UNLIKELY(b->epoch != tide__epoch_now()))
    return tide__fail(TIDE_STATE, "%s: what was bound belongs to a runtime that has ended or was reset", what);
  for (int i = 0; TIDE_UNLIKELY(b->external) && i < b->tensors; i++)
    TIDE_TRY(tide__check(b->tensor[i].x, "launch", "an argument"));
  return tide__jit_check_order(is_unordered, warned, what, b->launch.device);
}

tide_status tide__jit_bound_launch(tide__jit_bound *b) {
  tide__queue q;
  TIDE_TRY(tide__jit_begin(&q, b->launch.device, b->stream));
  for (int i = 0; i < b->tensors; i++) {
    void *ptr = tide__tensor_ptr(b->tensor[i].x); /* another one since the memory was shared (ipc.c) */
    memcpy((char *)b->launch.packed + b->tensor[i].at, &ptr, sizeof ptr);
    tide__jit_operand(b->tensor[i].x, b->tensor[i].writes, q.stream);
  }
  return tide__jit_launch(b->compiler, b->function, &q, TIDE__LAUNCH_RAW, &b->launch);
}

void tide__jit_bound_end(tide__jit_bound *b) {
  for (int i = 0; i < b->tensors; i++) tide_tensor_release_deferred(b->tensor[i].x);
  if (b->stream) tide_stream_release(b->stream);
  free(b->tensor);
}

/* ---- elementwise ---- */

void tide__jit_plan_begin(tide__jit_plan *p, const tide_compiler *c) {
  p->compiler = c;
  tide__jit_layout(&p->layout, &p->special);
  p->tile = (int64_t)c->text->threads * p->layout.vector;
  for (int k = 0; k < p->special.operands - p->special.uniform; k++) p->moved += tide__itemsize(p->special.dtype[k]);
}

/* The lanes of a thread are a power of two of elements. */
static void put_count(char *packed, const tide__jit_plan *p, int64_t n) {
  int shift = __builtin_ctz((unsigned)p->layout.vector);
  const uint32_t threads[] = {(uint32_t)((n + p->layout.vector - 1) >> shift), (uint32_t)(n >> shift)};
  memcpy(packed + p->layout.count, &n, sizeof n);
  if (!p->special.ndim) memcpy(packed + p->layout.count + sizeof n, threads, sizeof threads);
}

/* Fills in what every launch has; the packed block holds the scalars and the addresses of `n` elements already. */
static tide_status launch_part(const tide__jit_plan *p, tide__queue *q, char *packed, int64_t n, int device,
                               tide__launch what) {
  uint16_t pointer[TIDE_JIT_OPERANDS];
  int operands = p->special.operands;
  for (int k = 0; k < operands; k++) pointer[k] = (uint16_t)(p->layout.pointers + 8 * k);
  put_count(packed, p, n);
  int64_t blocks = (n + p->tile - 1) / p->tile;
  tide_launch a = {.grid = {(uint32_t)blocks, 1, 1},
                   .block = {(uint32_t)p->compiler->text->threads, 1, 1},
                   .device = device,
                   .moved = n * p->moved,
                   .elementwise = true,
                   .pointers = (uint16_t)operands,
                   .bytes = p->layout.bytes,
                   .mail = p->mail,
                   .packed = packed,
                   .pointer = pointer};
  return tide__jit_launch(p->compiler, p->function, q, what, &a);
}

int64_t tide__jit_most_threads = (int64_t)1 << 31;

static tide_status launch_flat(const tide__jit_plan *p, tide__queue *q, char *packed, int64_t n, int device,
                               tide__launch what) {
  int64_t most = tide__jit_most_threads * p->layout.vector;
  for (; TIDE_UNLIKELY(n > most); n -= most) {
    TIDE_TRY(launch_part(p, q, packed, most, device, what));
    for (int k = 0; k < p->special.operands - p->special.uniform; k++) {
      char *ptr, *at = packed + p->layout.pointers + 8 * k;
      memcpy(&ptr, at, sizeof ptr);
      ptr += most * tide__itemsize(p->special.dtype[k]);
      memcpy(at, &ptr, sizeof ptr);
    }
  }
  return launch_part(p, q, packed, n, device, what);
}

/* ---- strided ---- */

typedef struct divisor {
  uint32_t d, mul, shift;
} divisor;

/* For n < 2^31: n / d is (high half of n * mul, plus n) >> shift (T. Granlund, P. Montgomery, PLDI 1994). */
static divisor make_divisor(int64_t d) {
  divisor out = {(uint32_t)d, 1, 0};
  while (((uint64_t)1 << out.shift) < (uint64_t)d) out.shift++;
  out.mul = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << out.shift) - (uint64_t)d)) / (uint64_t)d + 1);
  return out;
}

typedef struct strided {
  const tide__jit_plan *plan;
  tide__queue *q;
  char *packed;
  int device;
  tide__launch what;
} strided;

static tide_status launch_piece(const strided *s, const tide__work *w) {
  const tide__jit_plan *p = s->plan;
  int operands = p->special.operands;
  memcpy(s->packed + p->layout.pointers, w->ptr, (size_t)operands * sizeof w->ptr[0]);
  for (int d = 0; d < w->ndim; d++) {
    divisor by = make_divisor(w->size[d]);
    memcpy(s->packed + p->layout.divisors + (size_t)d * sizeof by, &by, sizeof by);
    for (int k = 0; k < operands; k++)
      memcpy(s->packed + p->layout.strides + (size_t)(d * operands + k) * 8, &w->stride[k][d], 8);
  }
  return launch_part(p, s->q, s->packed, w->numel, s->device, s->what);
}

/* Halves the outermost dim that can be. */
static tide_status launch_pieces(const strided *s, const tide__work *w) {
  if (w->numel <= MOST) return launch_piece(s, w);
  int d = 0;
  while (w->size[d] == 1) d++;
  tide__work low = *w, high = *w;
  low.size[d] = w->size[d] / 2, high.size[d] = w->size[d] - low.size[d];
  low.numel = w->numel / w->size[d] * low.size[d], high.numel = w->numel - low.numel;
  for (int k = 0; k < s->plan->special.operands; k++)
    high.ptr[k] += low.size[d] * w->stride[k][d] * tide__itemsize(s->plan->special.dtype[k]);
  TIDE_TRY(launch_pieces(s, &low));
  return launch_pieces(s, &high);
}

tide_status tide__jit_launch_work(const tide__jit_plan *p, char *packed, const tide_tensor *const *operand,
                                  tide__work *w, int device, tide__launch what) {
  tide__queue q;
  int operands = p->special.operands;
  TIDE_TRY(tide__jit_begin(&q, device, NULL));
  for (int k = 0; k < operands; k++) {
    w->ptr[k] = tide__tensor_ptr(operand[k]);
    tide__jit_operand(operand[k], k < p->special.outputs, q.stream);
  }
  if (w->ndim) return launch_pieces(&(strided){p, &q, packed, device, what}, w);
  memcpy(packed + p->layout.pointers, w->ptr, (size_t)operands * sizeof *w->ptr);
  return launch_flat(p, &q, packed, w->numel, device, what);
}
