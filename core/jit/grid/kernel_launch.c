/* kernel_launch.c: launches of kernels over a grid: checked operands, slots, bound launches.
 *
 * The slots are filled on the stack, from the kernel's own that hold what never changes; nothing is allocated and
 * nothing is looked up. A bound launch is such an array that was filled before, with views of its tensors, so that
 * nothing is left to check but whose turn it is with another API's memory.
 *
 * Invariant: a kernel is launched only with a function of its device, and only with operands of the dtypes and numbers
 * of dims that its text was written for; storages know the stream before the work is queued. */
#include "jit/grid/kernel.h"

#include "base/determinism.h"

/* ---- operands ---- */

static tide_status fail_operand(const tide_kernel *p, int i, const tide_operand *x, int device) {
  const tide_kernel_operand *o = &p->operand[i];
  if (o->kind != TIDE_KERNEL_TENSOR || !x->tensor)
    return tide__fail(TIDE_ARGUMENT, "%s: %s: got %s, expected %s", p->what, o->name,
                      x->tensor ? "a tensor" : "a number",
                      o->kind == TIDE_KERNEL_TENSOR ? "a tensor" : "a number of another kind");
  TIDE_TRY(tide__tensor_check(x->tensor, p->what, o->name));
  if (x->tensor->storage->device != device)
    return tide__fail(TIDE_DEVICE, "%s: %s: got a tensor on %s, expected %s, where the kernel's first tensor is",
                      p->what, o->name, tide__device_text(x->tensor->storage->device), tide__device_text(device));
  if (x->tensor->dtype != (uint8_t)o->dtype || x->tensor->ndim != o->ndim)
    return tide__fail(TIDE_DTYPE, "%s: %s: got %s of %d dims, expected %s of %d", p->what, o->name,
                      tide_dtype_name((tide_dtype)x->tensor->dtype), x->tensor->ndim, tide_dtype_name(o->dtype),
                      o->ndim);
  const int64_t *last = x->tensor->size + x->tensor->ndim - 1;
  if (o->rows)
    return tide__fail(TIDE_SHAPE, "%s: %s: got %lld rows of %lld, expected %d of %d, which are a matrix", p->what,
                      o->name, (long long)last[-1], (long long)last[0], o->rows, o->row);
  return tide__fail(TIDE_SHAPE, "%s: %s: got rows of %lld, expected rows of %d, which are vectors", p->what, o->name,
                    (long long)*last, o->row);
}

static inline bool has_rows(const tide_kernel_operand *o, const tide_tensor *x) {
  const int64_t *last = x->size + x->ndim - 1;
  return !o->row || (*last == o->row && (!o->rows || last[-1] == o->rows));
}

static inline bool fits(const tide_kernel_operand *o, const tide_tensor *x, int device) {
  return o->kind == TIDE_KERNEL_TENSOR && tide__tensor_live(x) && x->storage->device == device &&
         x->dtype == (uint8_t)o->dtype && x->ndim == o->ndim && has_rows(o, x);
}

static inline void put_tensor(int64_t *s, const tide_tensor *x) {
  s[0] = (int64_t)(intptr_t)tide__tensor_ptr(x);
  for (int d = 0; d < x->ndim; d++) s[1 + d] = x->size[d], s[1 + x->ndim + d] = x->stride[d];
}

/* False where it is a number of another kind. */
static inline bool put_number(int64_t *s, const tide_kernel_operand *o, const tide_scalar *x) {
  switch (o->kind) {
  case TIDE_KERNEL_INTEGER: *s = x->i; return x->kind == 'I';
  case TIDE_KERNEL_BOOLEAN: *s = x->i != 0; return x->kind == 'B';
  case TIDE_KERNEL_FLOAT: memcpy(s, &x->re, sizeof *s); return x->kind == 'F';
  case TIDE_KERNEL_TENSOR: break;
  }
  return false;
}

static tide_status put_operands(int64_t *s, const tide_kernel *p, const tide_operand *args, int device) {
  for (int i = 0; i < p->operands; i++) {
    const tide_kernel_operand *o = &p->operand[i];
    const tide_tensor *x = args[i].tensor;
    if (x && x->storage) TIDE_TRY(tide__storage_settle(x->storage));
    if (x && x->storage && o->writes) TIDE_TRY(tide__storage_write(x->storage));
    if (TIDE_LIKELY(fits(o, x, device))) {
      put_tensor(s + p->first[i], x);
      if (o->writes && TIDE_UNLIKELY(!x->contiguous)) TIDE_TRY(tide__writable_check(x, p->what, o->name));
    } else if (TIDE_UNLIKELY(x || !put_number(s + p->first[i], o, &args[i].number)))
      return fail_operand(p, i, &args[i], device);
  }
  return TIDE_OK;
}

enum { SMALL = 1 << 30, SMALL_GRID = 1 << 28 }; /* the sum of two fits in 32 bits; a GPU is soon done */

/* Are all sizes and all offsets of x, with what lies between its elements, small? */
static inline bool is_small(const tide_tensor *x) {
  int64_t span = 0;
  if (TIDE_LIKELY(x->contiguous && x->numel)) return x->numel < SMALL;
  for (int d = 0; d < x->ndim; d++) {
    if (x->size[d] >= SMALL || x->stride[d] >= SMALL || x->stride[d] <= -SMALL) return false;
    if (x->size[d] > 1) span += (x->size[d] - 1) * (x->stride[d] < 0 ? -x->stride[d] : x->stride[d]);
    if (span >= SMALL) return false;
  }
  return true;
}

static inline bool is_unit(const tide_tensor *x) {
  return x->contiguous || !x->ndim || x->stride[x->ndim - 1] == 1 || x->size[x->ndim - 1] <= 1;
}

tide_kernel_layout tide_kernel_layout_of(const int64_t *grid, int ndim, const tide_operand *args, int n) {
  if (!args || !grid || ndim > TIDE_KERNEL_DIMS || n > TIDE_KERNEL_OPERANDS) return TIDE_KERNEL_ANY;
  bool small = true, unit = true;
  int64_t places = 1;
  for (int d = 0; d < ndim; d++) small &= grid[d] < SMALL, places = tide__size_mul(places, grid[d]);
  small &= places <= SMALL;
  for (int i = 0; small && i < n; i++) {
    const tide_tensor *x = args[i].tensor;
    if (x) small = is_small(x), unit &= is_unit(x);
  }
  if (!small) return TIDE_KERNEL_ANY;
  if (places > SMALL_GRID) return unit ? TIDE_KERNEL_MANY_UNIT : TIDE_KERNEL_MANY;
  return unit ? TIDE_KERNEL_UNIT : TIDE_KERNEL_SMALL;
}

/* ---- sizes ---- */

/* Most blocks along the second and third dimension of a launch. */
enum { MOST_ACROSS = 65535 };

/* In how many blocks the grid is done, all zeros where it is empty. On a GPU its last dimension is the launch's first,
 * so that no thread divides for it; all others are counted by the second and, from MOST_ACROSS on, the third, where
 * blocks may be left over, which end at once. */
static tide_status count_blocks(uint32_t out[3], const tide_kernel *p, const int64_t *grid, bool host) {
  const int64_t *block = host ? p->host_block : p->block;
  int64_t n = 1, last = 1;
  for (int d = 0; d < p->ndim; d++) {
    if (grid[d] < 0)
      return tide__fail(TIDE_VALUE, "%s: grid: got %lld places, expected at least 0", p->what, (long long)grid[d]);
    int64_t of = block[d] * (host || d < p->ndim - 1 ? 1 : p->rounds);
    last = grid[d] / of + (grid[d] % of != 0);
    n = tide__size_mul(n, last);
  }
  if (n > INT32_MAX)
    return tide__fail(TIDE_VALUE, "%s: grid: got %lld blocks, expected at most %d", p->what, (long long)n, INT32_MAX);
  out[0] = (uint32_t)n, out[1] = out[2] = n > 0;
  if (host || p->ndim == 1 || !n) return TIDE_OK;
  int64_t across = n / last, layers = (across + MOST_ACROSS - 1) / MOST_ACROSS;
  out[0] = (uint32_t)last, out[1] = (uint32_t)(layers > 1 ? MOST_ACROSS : across), out[2] = (uint32_t)layers;
  return TIDE_OK;
}

static tide_status check_threads(const tide_kernel *p, const tide__kernel_loaded *l) {
  int64_t threads = 1;
  for (int d = 0; d < p->ndim; d++) threads *= p->block[d];
  if (l->compiler->host || !l->max_threads || threads <= l->max_threads) return TIDE_OK;
  return tide__fail(TIDE_VALUE, "%s: block: got %lld threads, expected at most %d, which is what its registers allow",
                    p->what, (long long)threads, l->max_threads);
}

/* ---- launching ---- */

static int64_t bytes_of(const tide_operand *args, int n) {
  int64_t bytes = 0;
  for (int i = 0; i < n; i++)
    if (args[i].tensor) bytes += args[i].tensor->numel * tide__itemsize(args[i].tensor->dtype);
  return bytes;
}

/* Checks everything and fills the slots; out->function is NULL where the grid is empty. */
static tide_status pack(tide__jit_bound *out, int64_t *s, tide_kernel *p, const int64_t *grid, const tide_operand *args,
                        int n, int device) {
  tide__kernel_loaded *l;
  uint32_t blocks[3] = {0};
  if (TIDE_UNLIKELY(device < TIDE_CPU || device >= TIDE_MAX_DEVICES))
    return tide__fail(TIDE_DEVICE, "%s: no such device, got %d, expected %d to %d", p->what, device, TIDE_CPU,
                      TIDE_MAX_DEVICES - 1);
  if (TIDE_UNLIKELY(p->made != tide__epoch_now())) TIDE_TRY(tide__kernel_renew(p));
  if (TIDE_UNLIKELY(n != p->operands))
    return tide__fail(TIDE_ARGUMENT, "%s: wrong number of operands, got %d, expected %d", p->what, n, p->operands);
  memcpy(s, p->template, (size_t)p->slots * sizeof *s);
  memcpy(s, grid, (size_t)p->ndim * sizeof *s);
  TIDE_TRY(put_operands(s, p, args, device));
  TIDE_TRY(tide__jit_check_order(p->unordered, &p->warned, p->what, device));
  TIDE_TRY(tide__kernel_choose(&l, p, device));
  TIDE_TRY(count_blocks(blocks, p, grid, l->compiler->host));
  TIDE_TRY(check_threads(p, l));
  const int64_t *block = p->block;
  /* as the text has it: to wait itself takes 1.2 ns a block on an H200 */
  const bool few = p->ndim > 1 ? blocks[1] <= TIDE_KERNEL_FEW_ACROSS : blocks[0] <= TIDE_KERNEL_FEW;
  out->compiler = l->compiler, out->function = !blocks[0] ? NULL : l->ready ? l->function : p->interpreted;
  out->launch =
      (tide_launch){.grid = {blocks[0], blocks[1], blocks[2]},
                    .block = {(uint32_t)(block[0] * (p->ndim > 1 ? block[1] : 1) * (p->ndim > 2 ? block[2] : 1)), 1, 1},
                    .device = device,
                    .name = p->name,
                    .moved = bytes_of(args, n),
                    .elementwise = l->compiler->host ? !(p->unordered && tide__deterministic()) : p->waits && few,
                    .interpreted = !l->ready,
                    .pointers = (uint16_t)p->pointers,
                    .bytes = (uint16_t)(p->slots * 8),
                    .mail = TIDE_KERNEL_MAIL * 8,
                    .packed = s,
                    .pointer = p->pointer};
  return TIDE_OK;
}

tide_status tide_kernel_launch(tide_kernel *p, const int64_t *grid, const tide_operand *args, int n, int device) {
  int64_t s[TIDE_KERNEL_SLOTS];
  tide__jit_bound l; /* its launch, compiler and function */
  tide__queue q;
  if (TIDE_UNLIKELY(!p || !grid || (n && !args)))
    return tide__fail(TIDE_ARGUMENT, "kernel: wrong arguments, expected a kernel, a grid and operands");
  device = tide__jit_device_of(args, n, device);
  TIDE_TRY(pack(&l, s, p, grid, args, n, device));
  if (!l.function) return TIDE_OK;
  TIDE_TRY(tide__jit_begin(&q, device, NULL));
  for (int i = 0; i < n; i++)
    if (args[i].tensor) tide__jit_operand(args[i].tensor, p->operand[i].writes, q.stream);
  return tide__jit_launch(l.compiler, l.function, &q, TIDE__LAUNCH_RAW, &l.launch);
}

/* ---- bound ---- */

struct tide_kernel_bound {
  tide__jit_bound b;
  tide_kernel *kernel;
  int64_t s[];
};

tide_status tide_kernel_bind(tide_kernel_bound **out, tide_kernel *p, const int64_t *grid, const tide_operand *args,
                             int n, int device) {
  if (!out || !p || !grid || (n && !args))
    return tide__fail(TIDE_ARGUMENT, "kernel: wrong arguments, expected a kernel, a grid and operands");
  tide_kernel_bound *b = calloc(1, sizeof *b + (size_t)p->slots * sizeof b->s[0]);
  if (!b) return tide__fail(TIDE_MEMORY, "%s: no host memory", p->what);
  b->kernel = p, b->b.epoch = tide__epoch_now();
  atomic_fetch_add(&p->refs, 1);
  tide_status status = pack(&b->b, b->s, p, grid, args, n, tide__jit_device_of(args, n, device));
  for (int i = 0; i < n && status == TIDE_OK; i++)
    if (args[i].tensor) status = tide__jit_bound_keep(&b->b, args[i].tensor, 8 * p->first[i], p->operand[i].writes, n);
  if (status == TIDE_OK)
    *out = b;
  else
    tide_kernel_bound_free(b);
  return status;
}

tide_status tide_kernel_bound_set(tide_kernel_bound *b, int i, tide_scalar number) {
  int64_t word;
  if (!b || i < 0 || i >= b->kernel->operands)
    return tide__fail(TIDE_ARGUMENT, "set: wrong arguments, expected a bound kernel and one of its operands");
  const tide_kernel *p = b->kernel;
  if (!put_number(&word, &p->operand[i], &number))
    return tide__fail(TIDE_ARGUMENT, "%s: set: %s is of another kind", p->what, p->operand[i].name);
  b->s[p->first[i]] = word;
  return TIDE_OK;
}

/* Perhaps a compiler has finished since. */
static tide_status find_compiled(tide_kernel_bound *b, int device) {
  tide__kernel_loaded *l;
  TIDE_TRY(tide__kernel_choose(&l, b->kernel, device));
  if (l->ready) b->b.function = l->function, b->b.launch.interpreted = false;
  return TIDE_OK;
}

tide_status tide_kernel_bound_launch(tide_kernel_bound *b) {
  if (TIDE_UNLIKELY(!b)) return tide__fail(TIDE_ARGUMENT, "launch: nothing is bound, expected a bound kernel");
  tide_kernel *p = b->kernel;
  TIDE_TRY(tide__jit_bound_check(&b->b, p->what, p->unordered, &p->warned));
  if (!b->b.function) return TIDE_OK;
  if (b->b.launch.interpreted) TIDE_TRY(find_compiled(b, b->b.launch.device));
  return tide__jit_bound_launch(&b->b);
}

void tide_kernel_bound_free(tide_kernel_bound *b) {
  if (!b) return;
  tide__jit_bound_end(&b->b);
  tide_kernel_free(b->kernel);
  free(b);
}
