/* raw_launch.c: launches of raw kernels: checked arguments, sizes, bound launches.
 *
 * Everything that the signature says is checked before a launch: number, kind, dtype, device, contiguity and alignment
 * of what is passed, and that numbers fit their types. The arguments are packed on the stack as the kernel expects
 * them; nothing is allocated and no name is looked up. A bound launch is such a block that was packed before, with
 * views of its tensors, so that nothing is left to check but whose turn it is with another API's memory.
 *
 * Invariant: a kernel is launched only with a function of its device, with sizes that the device and the function
 * allow; storages know the stream before the work is queued. */
#include "jit/raw/raw.h"

#include <stdio.h>

/* ---- arguments ---- */

/* "scale: argument 2 (float *y)" */
static const char *place(char *text, size_t size, const tide_raw_kernel *k, int i) {
  snprintf(text, size, "%s: argument %d (%s%s%s)", k->name, i + 1, k->type[i], k->param[i].name[0] ? " " : "",
           k->param[i].name);
  return text;
}

static void accepted_text(char *text, size_t size, uint32_t accepted) {
  size_t at = 0;
  text[0] = 0;
  for (int d = 0; d < TIDE_DTYPE_COUNT; d++) {
    if (!(accepted >> d & 1)) continue;
    int wrote = snprintf(text + at, size - at, "%s%s", at ? " or " : "", tide_dtype_name((tide_dtype)d));
    if (wrote < 0 || (size_t)wrote >= size - at) return;
    at += (size_t)wrote;
  }
}

static tide_status fail_tensor(const tide_raw_kernel *k, int i, const tide_tensor *x, int device) {
  char where[200], names[200];
  const tide_raw_kernel_param *p = &k->param[i];
  TIDE_TRY(tide__tensor_check(x, k->name, "an argument"));
  place(where, sizeof where, k, i);
  if (p->kind != TIDE_PARAM_POINTER) return tide__fail(TIDE_ARGUMENT, "%s: got a tensor, expected a number", where);
  if (x->storage->device != device)
    return tide__fail(TIDE_DEVICE, "%s: got a tensor on %s, expected %s, where the kernel runs", where,
                      tide__device_text(x->storage->device), tide__device_text(device));
  accepted_text(names, sizeof names, p->accepted);
  if (!(p->accepted >> x->dtype & 1))
    return tide__fail(TIDE_DTYPE, "%s: got %s, expected %s", where, tide_dtype_name((tide_dtype)x->dtype), names);
  if (!x->contiguous)
    return tide__fail(TIDE_VALUE,
                      "%s: got a tensor that is not contiguous, expected x:contiguous(), or x:data_ptr() if the kernel "
                      "knows the strides",
                      where);
  return tide__fail(TIDE_VALUE, "%s: the tensor's address is not aligned, expected a multiple of %d bytes", where,
                    p->align);
}

static inline bool fits_pointer(const tide_raw_kernel_param *p, const tide_tensor *x, int device) {
  return p->kind == TIDE_PARAM_POINTER && tide__tensor_live(x) && x->storage->device == device &&
         (p->accepted >> x->dtype & 1) && x->contiguous &&
         ((uintptr_t)tide__tensor_ptr(x) & (uintptr_t)(p->align - 1)) == 0;
}

static tide_status pack_integer(char *to, const tide_raw_kernel *k, int i, const tide_scalar *s) {
  const tide_raw_kernel_param *p = &k->param[i];
  char where[200];
  int64_t v, low, high;
  if (!tide__scalar_whole(&v, s))
    return tide__fail(s->kind == 'F' ? TIDE_VALUE : TIDE_ARGUMENT, "%s: got %s, expected an integer",
                      place(where, sizeof where, k, i), s->kind == 'F' ? "a number with a fraction" : "no number");
  tide__param_range(&low, &high, p);
  if (v < low || v > high)
    return tide__fail(TIDE_VALUE, "%s: got %lld, expected %lld to %lld", place(where, sizeof where, k, i), (long long)v,
                      (long long)low, (long long)high);
  memcpy(to, &v, (size_t)p->bytes); /* little-endian: the low bytes */
  return TIDE_OK;
}

/* A fraction is rounded, as every float is; a whole number has to survive, and nothing finite may become infinite. */
static tide_status pack_float(char *to, const tide_raw_kernel *k, int i, const tide_scalar *s) {
  char where[200];
  double v = s->kind == 'I' ? tide__value(*s).re : s->re;
  bool narrow = k->param[i].bytes == 4;
  float f = (float)v;
  if (s->kind != 'I' && s->kind != 'F')
    return tide__fail(TIDE_ARGUMENT, "%s: got no number, expected one", place(where, sizeof where, k, i));
  double kept = narrow ? (double)f : v;
  bool lost = s->kind == 'I' ? kept >= 9223372036854775808.0 || (int64_t)kept != s->i : isinf(kept) && !isinf(v);
  char got[40];
  if (lost && s->kind == 'I') snprintf(got, sizeof got, "%lld", (long long)s->i);
  if (lost && s->kind != 'I') snprintf(got, sizeof got, "%.17g", v);
  if (lost)
    return tide__fail(TIDE_VALUE, "%s: got %s, which a %s cannot hold", place(where, sizeof where, k, i), got,
                      narrow ? "float" : "double");
  if (narrow)
    memcpy(to, &f, sizeof f);
  else
    memcpy(to, &v, sizeof v);
  return TIDE_OK;
}

static tide_status pack_number(char *to, const tide_raw_kernel *k, int i, const tide_scalar *s) {
  char where[200];
  switch (k->param[i].kind) {
  case TIDE_PARAM_INTEGER: return pack_integer(to, k, i, s);
  case TIDE_PARAM_FLOAT: return pack_float(to, k, i, s);
  case TIDE_PARAM_BOOL:
    if (s->kind != 'B')
      return tide__fail(TIDE_ARGUMENT, "%s: got a number, expected a boolean", place(where, sizeof where, k, i));
    *to = s->i != 0;
    return TIDE_OK;
  case TIDE_PARAM_POINTER: break;
  }
  if (s->kind != 'I')
    return tide__fail(TIDE_ARGUMENT, "%s: got no tensor, expected one, or an address",
                      place(where, sizeof where, k, i));
  memcpy(to, &s->i, sizeof s->i);
  return TIDE_OK;
}

/* ---- sizes ---- */

static tide_status fail_sizes(const tide_raw_kernel *k, const tide__raw_kernel_loaded *l, const tide_grid *g) {
  static const char axis[] = "xyz";
  static const int64_t most_grid[3] = {INT32_MAX, 65535, 65535}, most_block[3] = {1024, 1024, 64};
  for (int d = 0; d < 3; d++) {
    if (g->grid[d] < 0 || g->grid[d] > most_grid[d])
      return tide__fail(TIDE_VALUE, "%s: grid.%c: got %lld, expected 1 to %lld", k->name, axis[d],
                        (long long)g->grid[d], (long long)most_grid[d]);
    if (g->block[d] < 0 || g->block[d] > most_block[d])
      return tide__fail(TIDE_VALUE, "%s: block.%c: got %lld, expected 1 to %lld", k->name, axis[d],
                        (long long)g->block[d], (long long)most_block[d]);
  }
  int64_t threads = (g->block[0] ? g->block[0] : 1) * (g->block[1] ? g->block[1] : 1) * (g->block[2] ? g->block[2] : 1);
  if (threads > l->max_threads)
    return tide__fail(TIDE_VALUE, "%s: block: got %lld threads, expected at most %d%s", k->name, (long long)threads,
                      l->max_threads, l->max_threads < 1024 ? ", which is what its registers allow" : "");
  if (g->shared < 0 || g->shared > l->max_shared)
    return tide__fail(TIDE_VALUE, "%s: shared_mem: got %lld bytes, expected 0 to %lld", k->name, (long long)g->shared,
                      (long long)l->max_shared);
  return TIDE_OK;
}

/* ---- launching ---- */

/* The device of the work: the stream's, else the first tensor's, else the current one. */
static int device_of(const tide_grid *g, const tide_operand *args, int n) {
  enum { NONE = TIDE_CPU - 1 };
  int device = g->stream ? g->stream->device : tide__jit_device_of(args, n, NONE);
  return device != NONE ? device : tide_is_available() ? tide_current_device() : TIDE_CPU;
}

/* Checks everything and packs it. */
static tide_status pack(tide__packed *to, tide_launch *a, const tide__raw_kernel_loaded **l, tide_raw_kernel *k,
                        const tide_grid *g, const tide_operand *args, int n) {
  if (TIDE_UNLIKELY(k->made != tide__epoch_now())) TIDE_TRY(tide__raw_kernel_renew(k));
  if (TIDE_UNLIKELY(n != k->params))
    return tide__fail(TIDE_ARGUMENT, "%s: wrong number of arguments, got %d, expected %d", k->name, n, k->params);
  TIDE_SIZED(k->name, g);
  if (g->stream) TIDE_TRY(tide__stream_check(g->stream, k->name));
  int device = device_of(g, args, n);
  TIDE_TRY(tide__raw_kernel_prepare(l, k, device));
  for (int i = 0; i < n; i++) {
    const tide_tensor *x = args[i].tensor;
    char *at = to->bytes + k->offset[i];
    if (!x) {
      TIDE_TRY(pack_number(at, k, i, &args[i].number));
      continue;
    }
    if (TIDE_UNLIKELY(!fits_pointer(&k->param[i], x, device))) return fail_tensor(k, i, x, device);
    void *ptr = tide__tensor_ptr(x);
    memcpy(at, &ptr, sizeof ptr);
  }
  TIDE_TRY(fail_sizes(k, *l, g));
  for (int d = 0; d < 3; d++) {
    a->grid[d] = g->grid[d] ? (uint32_t)g->grid[d] : 1;
    a->block[d] = g->block[d] ? (uint32_t)g->block[d] : 1;
  }
  a->shared = (uint32_t)g->shared;
  a->device = device;
  a->params = (uint16_t)k->params, a->pointers = (uint16_t)k->pointers, a->bytes = (uint16_t)k->bytes;
  a->packed = to->bytes, a->offset = k->offset, a->pointer = k->pointer;
  return TIDE_OK;
}

tide_status tide_raw_kernel_launch(tide_raw_kernel *k, const tide_grid *g, const tide_operand *args, int n) {
  tide__packed bytes;
  tide_launch a = {.moved = 0};
  tide__queue q;
  const tide__raw_kernel_loaded *l;
  if (TIDE_UNLIKELY(!k || !g || (n && !args)))
    return tide__fail(TIDE_ARGUMENT, "kernel_launch: wrong arguments, expected a kernel, sizes and arguments");
  TIDE_TRY(pack(&bytes, &a, &l, k, g, args, n));
  TIDE_TRY(tide__jit_check_order(k->unordered, &k->warned, k->name, a.device));
  if (g->empty) return TIDE_OK;
  TIDE_TRY(tide__jit_begin(&q, a.device, g->stream));
  for (int i = 0; i < n; i++)
    if (args[i].tensor) tide__jit_operand(args[i].tensor, !k->param[i].read_only, q.stream);
  return tide__jit_launch(l->compiler, l->function.handle, &q, TIDE__LAUNCH_RAW, &a);
}

/* ---- bound ---- */

struct tide_raw_kernel_bound {
  tide__jit_bound b;
  bool unordered;
  _Atomic bool warned;
  uint16_t offset[TIDE_RAW_KERNEL_PARAMS], pointer[TIDE_RAW_KERNEL_PARAMS];
  tide__packed bytes;
};

tide_status tide_raw_kernel_bind(tide_raw_kernel_bound **out, tide_raw_kernel *k, const tide_grid *g,
                                 const tide_operand *args, int n) {
  const tide__raw_kernel_loaded *l;
  if (!out || !k || !g || (n && !args))
    return tide__fail(TIDE_ARGUMENT, "bind: wrong arguments, expected a kernel, sizes and arguments");
  tide_raw_kernel_bound *b = calloc(1, sizeof *b);
  if (!b) return tide__fail(TIDE_MEMORY, "bind: no host memory");
  tide_status status = pack(&b->bytes, &b->b.launch, &l, k, g, args, n);
  for (int i = 0; i < n && status == TIDE_OK; i++)
    if (args[i].tensor) status = tide__jit_bound_keep(&b->b, args[i].tensor, k->offset[i], !k->param[i].read_only, n);
  if (status != TIDE_OK) return tide_raw_kernel_bound_free(b), status;
  b->unordered = k->unordered;
  b->b.epoch = k->made, b->b.compiler = l->compiler, b->b.function = g->empty ? NULL : l->function.handle;
  memcpy(b->offset, k->offset, sizeof b->offset), memcpy(b->pointer, k->pointer, sizeof b->pointer);
  b->b.launch.offset = b->offset, b->b.launch.pointer = b->pointer;
  b->b.stream = g->stream;
  if (g->stream) tide_stream_retain(g->stream);
  *out = b;
  return TIDE_OK;
}

tide_status tide_raw_kernel_bound_launch(tide_raw_kernel_bound *b) {
  if (TIDE_UNLIKELY(!b)) return tide__fail(TIDE_ARGUMENT, "launch: nothing is bound, expected a bound kernel");
  TIDE_TRY(tide__jit_bound_check(&b->b, "launch", b->unordered, &b->warned));
  return b->b.function ? tide__jit_bound_launch(&b->b) : TIDE_OK;
}

void tide_raw_kernel_bound_free(tide_raw_kernel_bound *b) {
  if (!b) return;
  tide__jit_bound_end(&b->b);
  free(b);
}
