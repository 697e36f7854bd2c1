/* fuse_call.c: calls of fused operations: do the tensors fit, where do results go, which kernel, launch.
 *
 * The usual call, inputs without holes and of one size beside single values, is recognised by a few compares. The
 * general way finds sizes, layouts and strides as the operations would find them one by one. What this kernel cannot do
 * is no error: the caller runs the operations themselves, which tell what is wrong, if anything is.
 *
 * Invariants: a result that is written in place shares memory with an input only where each element lies exactly on
 * that of the input; nothing has happened when `done` is false. */
#include "fuse.h"

#include <stdio.h>

enum { OPERANDS = TIDE_FUSE_INPUTS + TIDE_FUSE_OUTPUTS };
_Static_assert((int)OPERANDS <= (int)TIDE_JIT_OPERANDS, "operands of a kernel");

typedef struct call {
  tide_fused *f;
  tide_tensor *const *in, *const *into;
  const tide_compiler *compiler;
  int device, ndim, work, joined; /* work: dims of the kernel, 0 flat; joined: as few dims as they can be */
  uint32_t uniform;               /* inputs that are single values for a flat kernel */
  int64_t size[TIDE_MAX_DIMS], numel;
  int64_t dims[TIDE_MAX_DIMS], stride[OPERANDS][TIDE_MAX_DIMS]; /* of the general way */
  tide_tensor *made[TIDE_FUSE_OUTPUTS];
  bool supposed; /* nothing is launched */
} call;

/* ---- do they fit? ---- */

static inline bool live(const tide_tensor *x) {
  return x && atomic_load_explicit(&x->refs, memory_order_relaxed) > 0 && x->storage && tide__storage_live(x->storage);
}

static inline bool inputs_fit(call *c) {
  const tide_fused *f = c->f;
  for (int k = 0; k < f->inputs; k++) {
    const tide_tensor *x = c->in[k];
    const tide__fuse_value *v = &f->value[f->input[k]];
    if (!live(x) || x->dtype != v->dtype || x->ndim != v->ndim) return false;
    if (x->storage->device != c->in[0]->storage->device) return false;
  }
  c->device = c->in[0]->storage->device;
  return true;
}

/* Inputs of one size without holes, and single values. */
static bool flat_match(call *c) {
  const tide_fused *f = c->f;
  const tide_tensor *model = NULL;
  uintptr_t address = 0;
  for (int k = 0; k < f->inputs; k++) {
    const tide_tensor *x = c->in[k];
    if (x->numel == 1) {
      c->uniform |= 1u << k;
      continue;
    }
    if (!model) model = x;
    if (!x->contiguous || x->ndim != f->ndim || !tide__same_size(x, model)) return false;
    address |= (uintptr_t)tide__tensor_ptr(x);
  }
  if (!model || c->into || (address & 15)) return false;
  for (int k = 0; k < f->outputs; k++)
    if (!(f->value[f->output[k]].reach & ~c->uniform)) return false;
  c->ndim = f->ndim, c->numel = model->numel;
  memcpy(c->size, model->size, (size_t)c->ndim * sizeof *c->size);
  memcpy(c->dims, model->stride, (size_t)c->ndim * sizeof *c->dims);
  return true;
}

/* Does what depends on these inputs have the size of the results? */
static bool is_full(const call *c, unsigned reach) {
  int64_t size[TIDE_MAX_DIMS];
  int ndim = 0;
  for (int k = 0; k < c->f->inputs; k++)
    if (reach >> k & 1) tide__size_broadcast(size, &ndim, c->in[k]);
  return ndim == c->ndim && !memcmp(size, c->size, (size_t)ndim * sizeof *size);
}

static bool sizes_fit(call *c) {
  const tide_fused *f = c->f;
  c->ndim = 0, c->uniform = 0;
  for (int k = 0; k < f->inputs; k++)
    if (!tide__size_broadcast(c->size, &c->ndim, c->in[k])) return false;
  for (int k = 0; k < f->outputs; k++)
    if (!is_full(c, f->value[f->output[k]].reach)) return false;
  int64_t numel = tide__size_product(c->size, c->ndim);
  c->numel = numel;
  return numel < INT64_MAX;
}

/* ---- results ---- */

static bool into_fits(const call *c, int k) {
  const tide_tensor *x = c->into[k];
  if (!x) return true;
  if (!live(x) || x->storage->device != c->device || x->dtype != c->f->value[c->f->output[k]].dtype) return false;
  if (x->ndim != c->ndim || memcmp(x->size, c->size, (size_t)c->ndim * sizeof *c->size) != 0) return false;
  for (int d = 0; d < c->ndim; d++)
    if (x->stride[d] == 0 && x->size[d] > 1) return false;
  for (int i = 0; i < c->f->inputs; i++)
    if (tide__tensor_overlaps(x, c->in[i]) && !tide__same_elements(x, c->in[i])) return false;
  for (int i = 0; i < k; i++)
    if (c->into[i] && tide__tensor_overlaps(x, c->into[i])) return false;
  return true;
}

/* The input whose layout the value would have if it were made alone: that of its first operand of full size. NULL: row
 * by row. */
static const tide_tensor *layout_of(const call *c, int node) {
  const tide__fuse_value *v = &c->f->value[node];
  if (v->kind == TIDE_FUSE_INPUT) return c->in[v->input];
  for (int k = 0; k < v->operands; k++)
    if (v->in[k] >= 0 && !c->f->value[v->in[k]].is_row && is_full(c, c->f->value[v->in[k]].reach))
      return layout_of(c, v->in[k]);
  return NULL;
}

static tide_status make_results(call *c, bool flat) {
  const tide_fused *f = c->f;
  for (int k = 0; k < f->outputs; k++) {
    tide_dtype dtype = (tide_dtype)f->value[f->output[k]].dtype;
    if (c->into && c->into[k]) {
      c->made[k] = tide__tensor_ref(c->into[k]);
      continue;
    }
    const tide_tensor *model = flat ? NULL : layout_of(c, f->output[k]);
    TIDE_TRY(flat    ? tide__tensor_new_strided(&c->made[k], c->size, c->dims, c->ndim, dtype, c->device)
             : model ? tide__tensor_new_like(&c->made[k], model, dtype, c->device)
                     : tide__tensor_new(&c->made[k], c->size, c->ndim, dtype, c->device));
  }
  return TIDE_OK;
}

/* ---- kernels ---- */

static const tide_tensor *operand(const call *c, int k) {
  return k < c->f->outputs ? c->made[k] : c->in[k - c->f->outputs];
}

/* Dims as few as they can be. Flat: stride 1 and aligned, or a single value; a result that was there before is not
 * written past its end by the last thread of a GPU. */
static void find_work(call *c) {
  const tide_fused *f = c->f;
  int n = f->outputs + f->inputs;
  memcpy(c->dims, c->size, (size_t)c->ndim * sizeof *c->dims);
  for (int k = 0; k < n; k++) tide__stride_broadcast(c->stride[k], operand(c, k), c->size, c->ndim);
  c->work = c->joined = tide__collapse(c->dims, c->stride, n, c->ndim, false);
  bool flat = c->work == 1 && (!c->into || c->device < 0 || c->numel % 16 == 0);
  for (int k = 0; k < n; k++) {
    bool single = k >= f->outputs && c->stride[k][0] == 0;
    flat = flat && (single || (c->stride[k][0] == 1 && ((uintptr_t)tide__tensor_ptr(operand(c, k)) & 15) == 0));
    if (single && c->work == 1) c->uniform |= 1u << (k - f->outputs);
  }
  if (flat)
    c->work = 0;
  else
    c->uniform = 0;
}

static void fill_special(tide__fuse_plan *p, const call *c, const tide_compiler *compiler) {
  const tide_fused *f = c->f;
  tide__special *s = &p->plan.special;
  int n = 0;
  *s = (tide__special){.operands = f->outputs + f->inputs, .outputs = f->outputs, .scalars = f->slots, .ndim = c->work};
  for (int pass = 0; pass < 2; pass++)
    for (int k = 0; k < f->inputs; k++)
      if ((int)(c->uniform >> k & 1) == pass) p->order[n++] = (uint8_t)k, s->uniform += pass;
  for (int k = 0; k < f->outputs; k++) s->dtype[k] = f->value[f->output[k]].dtype;
  for (int k = 0; k < f->inputs; k++) s->dtype[f->outputs + k] = f->value[f->input[p->order[k]]].dtype;
  tide__jit_layout(&p->plan.layout, s);
  p->plan.compiler = compiler;
  p->plan.tile = (int64_t)compiler->threads * p->plan.layout.vector;
  for (int k = 0; k < s->operands - s->uniform; k++) p->plan.moved += tide__itemsize(s->dtype[k]);
}

/* Has the compiler made it? If not, it begins to, elsewhere, or where that is asked for is waited for. */
static tide_status find_function(tide__fuse_plan *p, tide_fused *f, bool wait) {
  char *source = f->reduces ? tide__fuse_rows_source(f, &p->shape, p->plan.compiler)
                            : tide__fuse_source(f, &p->plan.special, p->order, p->plan.compiler);
  if (!source) return TIDE_MEMORY;
  const tide__jit_request r = {.what = f->name, .source = source, .name = "tide_kernel"};
  tide__function found = {0};
  bool before = tide__jit_elsewhere;
  tide__jit_elsewhere = !wait;
  tide_status status = tide__jit_function(&found, &r, p->plan.compiler, p->device);
  tide__jit_elsewhere = before;
  free(source);
  p->plan.function = found.handle;
  return status;
}

static void drop_plans(tide_fused *f) {
  while (f->plans) {
    tide__fuse_plan *p = f->plans;
    f->plans = p->next;
    free(p);
  }
  f->made = tide__epoch_now();
}

static tide_status new_plan(tide__fuse_plan **out, call *c, uint64_t key, const tide__fuse_shape *shape) {
  if (!c->compiler) return tide__fail(TIDE_SUPPORT, "%s: there is no compiler for the device", c->f->name);
  tide__fuse_plan *p = calloc(1, sizeof *p);
  if (!p) return tide__fail(TIDE_MEMORY, "fuse: no host memory");
  p->key = key, p->device = c->device;
  if (shape)
    p->shape = *shape, p->plan.compiler = c->compiler;
  else
    fill_special(p, c, c->compiler);
  p->next = c->f->plans, c->f->plans = p;
  *out = p;
  return TIDE_OK;
}

static void keep_problem(tide_fused *f) {
  free(f->problem);
  f->problem = strdup(tide_error_get()->message);
}

static bool has_pieces(const call *c) { return c->compiler && c->compiler->fused; }

/* NULL: it is not there. A compiler that fails is asked once. */
static tide__fuse_plan *find_plan_of(call *c, uint64_t key, const tide__fuse_shape *shape) {
  tide_fused *f = c->f;
  tide__fuse_plan *p = f->plans;
  if (f->costly && has_pieces(c)) f->in_pieces = true;
  if (f->in_pieces) return NULL;
  while (p && p->key != key) p = p->next;
  if (TIDE_LIKELY(p && p->plan.function)) return p;
  if (f->problem) return NULL;
  tide_status status = p ? TIDE_OK : new_plan(&p, c, key, shape);
  if (status == TIDE_OK) status = find_function(p, f, false);
  if (status != TIDE_OK) keep_problem(f);
  return status == TIDE_OK && p->plan.function ? p : NULL;
}

static tide__fuse_plan *find_plan(call *c) {
  return find_plan_of(c, (uint64_t)(c->device + 1) | (uint64_t)c->work << 16 | (uint64_t)c->uniform << 24, NULL);
}

/* ---- rows ---- */

/* Of the sizes in all, how many elements a row has. */
static bool rows_fit(call *c, tide__fuse_rows *r) {
  const tide_fused *f = c->f;
  c->ndim = 0, c->uniform = 0;
  for (int k = 0; k < f->inputs; k++)
    if (!tide__size_broadcast(c->size, &c->ndim, c->in[k])) return false;
  for (int i = 0; i < f->nodes; i++)
    if (f->value[i].kind == TIDE_FUSE_REDUCE && !is_full(c, f->value[i].reach)) return false;
  for (int k = 0; k < f->outputs; k++)
    if (!is_full(c, f->value[f->output[k]].reach)) return false;
  int lead = c->ndim - f->dims;
  r->rows = tide__size_product(c->size, lead), r->columns = tide__size_product(c->size + lead, f->dims);
  c->numel = tide__size_mul(r->rows, r->columns);
  return r->columns >= 1 && r->columns <= TIDE_FUSE_COLUMNS && c->numel > 0 && r->rows < INT32_MAX;
}

static tide_status make_row_results(call *c) {
  const tide_fused *f = c->f;
  int lead = c->ndim - f->dims;
  for (int k = 0; k < f->outputs; k++) {
    const tide__fuse_value *v = &f->value[f->output[k]];
    int64_t size[TIDE_MAX_DIMS];
    for (int d = 0; d < v->ndim; d++) size[d] = d < lead ? c->size[d] : 1;
    TIDE_TRY(tide__tensor_new(&c->made[k], size, v->ndim, (tide_dtype)v->dtype, c->device));
  }
  return TIDE_OK;
}

/* Can the dims before those of a row be one, and those of a row too, whose elements lie side by side or are one? */
static bool strides_fit(const call *c, tide__fuse_rows *r) {
  const tide_fused *f = c->f;
  int lead = c->ndim - f->dims, n = f->outputs + f->inputs;
  int64_t size[2][TIDE_MAX_DIMS], stride[2][OPERANDS][TIDE_MAX_DIMS], full[TIDE_MAX_DIMS];
  memcpy(size[0], c->size, (size_t)lead * sizeof *full);
  memcpy(size[1], c->size + lead, (size_t)f->dims * sizeof *full);
  for (int k = 0; k < n; k++) {
    if (k < f->outputs && f->row_results) { /* new, row by row */
      tide__stride_contiguous(full, c->size, lead);
      memset(full + lead, 0, (size_t)f->dims * sizeof *full);
    } else
      tide__stride_broadcast(full, operand(c, k), c->size, c->ndim);
    memcpy(stride[0][k], full, (size_t)lead * sizeof *full);
    memcpy(stride[1][k], full + lead, (size_t)f->dims * sizeof *full);
  }
  int left[2] = {tide__collapse(size[0], stride[0], n, lead, false),
                 tide__collapse(size[1], stride[1], n, f->dims, false)};
  if (left[0] > 1 || left[1] > 1) return false;
  for (int k = 0; k < n; k++) {
    int64_t step = left[1] && r->columns > 1 ? stride[1][k][0] : !(k < f->outputs && f->row_results);
    r->row_stride[k] = left[0] && r->rows > 1 ? stride[0][k][0] : 0, r->spread[k] = step == 1;
    if (step != 0 && step != 1) return false;
  }
  return true;
}

static tide_status run_rows(bool *done, call *c, const tide__fuse_rows *r) {
  const tide_fused *f = c->f;
  const tide_tensor *list[OPERANDS];
  void *ptr[OPERANDS];
  int n = f->outputs + f->inputs;
  for (int k = 0; k < n; k++) list[k] = operand(c, k), ptr[k] = tide__tensor_ptr(list[k]);
  if (has_pieces(c)) {
    c->f->in_pieces = true;
    const int64_t size[2] = {r->rows, r->columns};
    int64_t stride[OPERANDS][TIDE_MAX_DIMS];
    tide__fuse_work w = {.device = c->device, .ndim = 2, .numel = c->numel, .size = size};
    w.stride = (const int64_t(*)[TIDE_MAX_DIMS])stride;
    for (int k = 0; k < n; k++) w.operand[k] = list[k], stride[k][0] = r->row_stride[k], stride[k][1] = r->spread[k];
    *done = tide__fuse_in_pieces(f, 2);
    return *done ? tide__fuse_run_pieces(f, c->compiler, &w) : TIDE_OK;
  }
  tide__fuse_shape shape = tide__fuse_shape_of(f, r, ptr);
  uint64_t key = (uint64_t)(c->device + 1) | (uint64_t)shape.group << 8 | (uint64_t)shape.lanes << 20 |
                 (uint64_t)shape.pieces << 26 | (uint64_t)shape.spread << 32;
  tide__fuse_plan *p = find_plan_of(c, key, &shape);
  *done = p != NULL;
  return p && !c->supposed ? tide__fuse_launch_rows(f, &p->plan, &shape, r, list, c->device) : TIDE_OK;
}

static tide_status rows_call(bool *done, call *c) {
  tide__fuse_rows r;
  if (c->into || !rows_fit(c, &r)) return TIDE_OK;
  TIDE_TRY(c->f->row_results ? make_row_results(c) : make_results(c, false));
  return strides_fit(c, &r) ? run_rows(done, c, &r) : TIDE_OK;
}

/* ---- launching ---- */

static tide_status launch(call *c, const tide__fuse_plan *p) {
  const tide_fused *f = c->f;
  tide__queue q;
  tide__packed a;
  tide__work w = {.numel = c->numel, .ndim = c->work};
  int64_t stride[OPERANDS][TIDE_MAX_DIMS];
  TIDE_TRY(tide__queue_begin(&q, c->device));
  memcpy(a.bytes, f->packed, (size_t)f->slots * 16);
  tide__jit_launch_begin();
  for (int k = 0; k < f->outputs + f->inputs; k++) {
    int at = k < f->outputs ? k : f->outputs + p->order[k - f->outputs];
    const tide_tensor *x = operand(c, at);
    w.ptr[k] = tide__tensor_ptr(x);
    tide__jit_operand(x, k < f->outputs, q.stream);
    if (c->work) memcpy(stride[k], c->stride[at], (size_t)c->work * sizeof stride[k][0]);
  }
  if (!c->work) {
    memcpy(a.bytes + p->plan.layout.pointers, w.ptr, (size_t)p->plan.special.operands * sizeof *w.ptr);
    return tide__jit_launch_flat(&p->plan, &q, a.bytes, c->numel, c->device, TIDE__LAUNCH_FUSED);
  }
  memcpy(w.size, c->dims, (size_t)c->work * sizeof *w.size);
  w.stride = (const int64_t(*)[TIDE_MAX_DIMS])stride;
  return tide__jit_launch_strided(&p->plan, &q, a.bytes, &w, c->device, TIDE__LAUNCH_FUSED);
}

/* By the loops of a host, where it has any. */
static tide_status run_pieces(bool *done, call *c, bool flat) {
  tide__fuse_work w = {.device = c->device, .ndim = flat ? 1 : c->joined, .numel = c->numel, .size = c->dims};
  int64_t stride[OPERANDS][TIDE_MAX_DIMS];
  *done = has_pieces(c) && tide__fuse_in_pieces(c->f, w.ndim);
  if (!*done) return TIDE_OK;
  w.stride = (const int64_t(*)[TIDE_MAX_DIMS])(flat ? stride : c->stride);
  for (int k = 0; k < c->f->outputs + c->f->inputs; k++) {
    w.operand[k] = operand(c, k);
    stride[k][0] = k < c->f->outputs || !(c->uniform >> (k - c->f->outputs) & 1);
  }
  if (flat) w.size = &c->numel;
  return tide__fuse_run_pieces(c->f, c->compiler, &w);
}

/* ---- calls ---- */

static tide_status flat_call(bool *done, call *c) {
  tide__fuse_plan *p = find_plan(c);
  if (!p && !has_pieces(c)) return TIDE_OK;
  TIDE_TRY(make_results(c, true));
  *done = true;
  if (!c->numel) return TIDE_OK;
  return p ? launch(c, p) : run_pieces(done, c, true);
}

static tide_status general_call(bool *done, call *c) {
  if (!sizes_fit(c)) return TIDE_OK;
  for (int k = 0; c->into && k < c->f->outputs; k++)
    if (!into_fits(c, k)) return TIDE_OK;
  TIDE_TRY(make_results(c, false));
  *done = true;
  if (!c->numel) return TIDE_OK;
  find_work(c);
  tide__fuse_plan *p = find_plan(c);
  return p ? launch(c, p) : run_pieces(done, c, false);
}

static tide_status find_compiler(call *c) {
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, c->device));
  c->compiler = b->compiler;
  return TIDE_OK;
}

tide_status tide_fused_call(bool *done, tide_tensor **out, tide_fused *f, tide_tensor *const *in,
                            tide_tensor *const *into) {
  if (TIDE_UNLIKELY(!done || !out || !f || !in))
    return tide__fail(TIDE_ARGUMENT, "fuse: wrong arguments, expected a handle, tensors and room for results");
  if (TIDE_UNLIKELY(f->epoch != atomic_load(&tide__epochs[0])))
    return tide__fail(TIDE_STATE, "%s: the function belongs to a runtime that has ended or was reset", f->name);
  if (TIDE_UNLIKELY(f->made != tide__epoch_now())) drop_plans(f);
  call c;
  c.f = f, c.in = in, c.into = into, c.work = 0, c.uniform = 0;
  memset(c.made, 0, sizeof c.made), c.supposed = false;
  *done = false;
  if (!inputs_fit(&c)) return TIDE_OK;
  TIDE_TRY(find_compiler(&c));
  tide_status status = f->reduces ? rows_call(done, &c) : flat_match(&c) ? flat_call(done, &c) : general_call(done, &c);
  if (status != TIDE_OK || !*done)
    for (int k = 0; k < f->outputs; k++) tide_tensor_release(c.made[k]);
  else
    memcpy(out, c.made, (size_t)f->outputs * sizeof *out);
  if (status != TIDE_OK) *done = false;
  return status;
}

/* ---- before a call ---- */

/* Where results would lie, as if they were there. */
static void suppose_results(call *c, bool flat, tide_tensor *result, tide_storage *storage) {
  const tide_fused *f = c->f;
  for (int k = 0; k < f->outputs; k++) {
    tide_dtype dtype = (tide_dtype)f->value[f->output[k]].dtype;
    tide__tensor_wrap(&result[k], &storage[k], (void *)(uintptr_t)4096, SIZE_MAX / 4, c->device, dtype, c->size,
                      c->ndim);
    const tide_tensor *model = flat ? NULL : layout_of(c, f->output[k]);
    if (model && tide__tensor_dense(model)) {
      memcpy(result[k].stride, model->stride, (size_t)c->ndim * sizeof *model->stride);
      tide__tensor_layout(&result[k]);
    }
    c->made[k] = &result[k];
  }
}

void tide_fused_begin(tide_fused *f, const tide_fuse_layout *in) {
  tide_tensor x[TIDE_FUSE_INPUTS], result[TIDE_FUSE_OUTPUTS], *list[TIDE_FUSE_INPUTS];
  tide_storage storage[TIDE_FUSE_INPUTS], to[TIDE_FUSE_OUTPUTS];
  call c;
  c.f = f, c.in = list, c.into = NULL, c.work = 0, c.uniform = 0, c.device = in[0].device, c.supposed = true;
  for (int k = 0; k < f->inputs; k++) {
    const tide__fuse_value *v = &f->value[f->input[k]];
    tide__tensor_wrap(&x[k], &storage[k], (void *)(uintptr_t)4096, SIZE_MAX / 4, in[k].device, (tide_dtype)v->dtype,
                      in[k].size, v->ndim);
    memcpy(x[k].stride, in[k].stride, v->ndim * sizeof *x[k].stride);
    tide__tensor_layout(&x[k]);
    list[k] = &x[k];
    if (in[k].device != c.device) return;
  }
  if (find_compiler(&c) != TIDE_OK) return;
  if (f->reduces) {
    tide__fuse_rows r;
    bool done;
    f->in_pieces = has_pieces(&c);
    if (f->in_pieces || !rows_fit(&c, &r)) return;
    suppose_results(&c, false, result, to);
    if (strides_fit(&c, &r)) run_rows(&done, &c, &r);
    return;
  }
  bool flat = flat_match(&c);
  if (!flat && !sizes_fit(&c)) return;
  suppose_results(&c, flat, result, to);
  if (!flat && c.numel) find_work(&c);
  if (c.numel) find_plan(&c);
}

tide_status tide_fused_wait(tide_fused *f) {
  if (f->made != tide__epoch_now()) drop_plans(f);
  for (tide__fuse_plan *p = f->plans; p && !f->problem; p = p->next) {
    if (p->plan.function) continue;
    TIDE_TRY(tide__waits_refused(f->name));
    if (find_function(p, f, true) != TIDE_OK) keep_problem(f);
  }
  return TIDE_OK;
}

bool tide_fused_ready(tide_fused *f) {
  bool ready = (f->plans || f->in_pieces) && f->made == tide__epoch_now() && !f->problem;
  for (tide__fuse_plan *p = f->plans; ready && p; p = p->next) {
    if (!p->plan.function && find_function(p, f, false) != TIDE_OK) keep_problem(f);
    ready = p->plan.function != NULL;
  }
  return ready;
}
