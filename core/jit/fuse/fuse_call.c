/* fuse_call.c: calls of fused operations: do the tensors fit, where do results go, which kernel, launch.
 *
 * The usual call, inputs without holes and of one size beside single values, is recognised by a few compares. The
 * general way finds sizes, layouts and strides as the operations would find them one by one. What this kernel cannot do
 * is no error: the caller runs the operations themselves, which tell what is wrong, if anything is.
 *
 * Invariants: a result that is written in place shares memory with an input only where each element lies exactly on
 * that of the input; nothing has happened when `done` is false. */
#include "jit/fuse/fuse.h"

#include <stdio.h>

enum { OPERANDS = TIDE_FUSE_INPUTS + TIDE_FUSE_OUTPUTS, SHORT_ROW = 1024 };
_Static_assert((int)OPERANDS <= (int)TIDE_JIT_OPERANDS, "operands of a kernel");

typedef struct call {
  tide_fused *f;
  tide_tensor *const *in, *const *into, *const *given; /* given: the inputs in the shapes that they have */
  const tide_compiler *compiler;
  int device, ndim, work, joined; /* work: dims of the kernel, 0 flat; joined: as few dims as they can be */
  uint32_t uniform;               /* inputs that are single values for a flat kernel */
  int64_t size[TIDE_MAX_DIMS], numel;
  int64_t dims[TIDE_MAX_DIMS], stride[OPERANDS][TIDE_MAX_DIMS]; /* of the general way */
  tide_tensor *made[TIDE_FUSE_OUTPUTS];
  bool asks;      /* nothing is launched: `done` says whether it could be */
  uint32_t fresh; /* those of `into` that are new: nothing reads them */
} call;

/* ---- do they fit? ---- */

static inline bool inputs_fit(call *c) {
  const tide_fused *f = c->f;
  for (int k = 0; k < f->inputs; k++) {
    const tide_tensor *x = c->in[k];
    const tide_fused_node *v = &f->value[f->input[k]];
    if (!tide__tensor_live(x) || x->dtype != v->dtype || x->ndim != v->ndim) return false;
    if (x->storage->device != c->in[0]->storage->device) return false;
  }
  c->device = c->in[0]->storage->device;
  return true;
}

/* Is a result written to memory that was there before? */
static bool writes_over(const call *c) {
  for (int k = 0; c->into && k < c->f->outputs; k++)
    if (c->into[k] && !(c->fresh >> k & 1)) return true;
  return false;
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
    if (tide__fuse_gathers(f, k)) return false;
    if (!model) model = x;
    if (!x->contiguous || x->ndim != f->ndim || !tide__same_size(x, model)) return false;
    address |= (uintptr_t)tide__tensor_ptr(x);
  }
  if (!model || writes_over(c) || (address & 15)) return false;
  for (int k = 0; c->into && k < f->outputs; k++)
    if (c->into[k] && !c->into[k]->contiguous) return false;
  for (int k = 0; k < f->outputs; k++)
    if (!(f->value[f->output[k]].reach & ~c->uniform)) return false;
  c->ndim = f->ndim, c->numel = model->numel;
  tide__copy(c->size, model->size, (size_t)c->ndim * sizeof *c->size);
  tide__copy(c->dims, model->stride, (size_t)c->ndim * sizeof *c->dims);
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
  c->numel = tide__size_product(c->size, c->ndim);
  return c->numel < INT64_MAX;
}

/* ---- results ---- */

static bool into_fits(const call *c, int k) {
  const tide_tensor *x = c->into[k];
  if (!x || (c->fresh >> k & 1)) return true;
  if (!tide__tensor_live(x) || x->storage->device != c->device || x->dtype != c->f->value[c->f->output[k]].dtype)
    return false;
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
  const tide_fused_node *v = &c->f->value[node];
  if (v->kind == TIDE_FUSE_INPUT) return c->in[v->input];
  if (v->kind == TIDE_FUSE_GATHER) return NULL;
  for (int k = 0; k < v->operands; k++)
    if (v->in[k] >= 0 && !c->f->value[v->in[k]].is_row && is_full(c, c->f->value[v->in[k]].reach))
      return layout_of(c, v->in[k]);
  return NULL;
}

static bool is_reduced(const call *c, int dim) {
  const tide_fused *f = c->f;
  return f->leading ? dim < f->dims : dim >= c->ndim - f->dims;
}

/* Of a value of a row: where its dims stay they have size 1. */
static int row_size(int64_t *size, const call *c, bool keepdim) {
  int n = 0;
  for (int d = 0; d < c->ndim; d++)
    if (!is_reduced(c, d) || keepdim) size[n++] = is_reduced(c, d) ? 1 : c->size[d];
  return n;
}

static tide_status make_results(call *c, bool flat) {
  const tide_fused *f = c->f;
  int64_t row[TIDE_MAX_DIMS];
  for (int k = 0; k < f->outputs; k++) {
    const tide_fused_node *v = &f->value[f->output[k]];
    tide_dtype dtype = (tide_dtype)v->dtype;
    if (c->into && c->into[k]) {
      c->made[k] = tide__tensor_ref(c->into[k]);
      continue;
    }
    int ndim = v->is_row ? row_size(row, c, v->keepdim) : c->ndim;
    const tide_tensor *model = flat || v->is_row ? NULL : layout_of(c, f->output[k]);
    TIDE_TRY(flat    ? tide__tensor_new_strided(&c->made[k], c->size, c->dims, ndim, dtype, c->device)
             : model ? tide__tensor_new_like(&c->made[k], model, dtype, c->device)
                     : tide__tensor_new(&c->made[k], v->is_row ? row : c->size, ndim, dtype, c->device));
  }
  return TIDE_OK;
}

/* ---- kernels ---- */

static const tide_tensor *operand(const call *c, int k) {
  return k < c->f->outputs ? c->made[k] : c->in[k - c->f->outputs];
}

/* As a launch notes what it reads: of a source of gathers all. */
static const tide_tensor *whole_operand(const call *c, int k) {
  return k < c->f->outputs ? c->made[k] : c->given[k - c->f->outputs];
}

/* Dims as few as they can be. Flat: stride 1 and aligned, or a single value; a result that was there before is not
 * written past its end by the last thread of a GPU. */
static void find_work(call *c) {
  const tide_fused *f = c->f;
  int n = f->outputs + f->inputs;
  memcpy(c->dims, c->size, (size_t)c->ndim * sizeof *c->dims);
  for (int k = 0; k < n; k++) tide__stride_broadcast(c->stride[k], operand(c, k), c->size, c->ndim);
  c->work = c->joined = tide__collapse(c->dims, c->stride, n, c->ndim, false);
  bool flat = c->work == 1 && (!writes_over(c) || c->device < 0 || c->numel % 16 == 0);
  for (int k = 0; k < n; k++) {
    bool single = k >= f->outputs && c->stride[k][0] == 0;
    if (k >= f->outputs && !single) flat = flat && !tide__fuse_gathers(f, k - f->outputs);
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
  for (int k = 0; k < f->inputs && s->ndim; k++)
    s->places |= (uint32_t)tide__fuse_gathers(f, p->order[k]) << (f->outputs + k);
  s->mail = f->mail;
  p->plan.mail = (uint16_t)(16 * f->mail);
  tide__jit_plan_begin(&p->plan, compiler);
}

static char *source_of(tide__fuse_plan *p, const tide_fused *f) {
  const tide_compiler *c = p->plan.compiler;
  const tide__fuse_shape *s = &p->shape;
  if (s->lanes) return (s->group ? tide__fuse_rows_source : tide__fuse_parts_source)(f, s, c);
  char *source = p->refused ? NULL : tide__fuse_assembly(f, &p->plan, p->order, p->device);
  p->assembled = source != NULL;
  return source ? source : tide__fuse_source(f, &p->plan.special, p->order, c);
}

/* Has the compiler made it? If not, it begins to, elsewhere, or where that is asked for is waited for. What is being
 * made is not asked for again before a compiler has ended something: the question takes the whole text. */
static tide_status find_function(tide__fuse_plan *p, tide_fused *f, bool wait) {
  uint32_t ended = atomic_load(&tide__jit_ended);
  if (!wait && p->asked && p->ended == ended) return TIDE_OK;
  char *source = p->source ? p->source : source_of(p, f);
  if (!source) return TIDE_MEMORY;
  const tide_compiler *c = p->assembled ? p->plan.compiler->assembler->compiler : p->plan.compiler;
  const tide__jit_request r = {.what = f->name, .source = source, .name = "tide_kernel", .ours = true};
  tide__function found = {0};
  TIDE_ELSEWHERE(!wait);
  tide_status status = tide__jit_function(&found, &r, c, p->device);
  p->plan.function = found.handle;
  p->source = source;
  if (found.handle || status != TIDE_OK) free(p->source), p->source = NULL;
  if (status != TIDE_OK && status != TIDE_QUOTA && p->assembled) {
    /* What it refuses is a fault of ours, which the other compiler would hide. */
    if (status == TIDE_VALUE) tide__warn(tide_error_get()->message);
    p->refused = true;
    return find_function(p, f, wait);
  }
  p->asked = status == TIDE_OK, p->ended = ended;
  return status;
}

void tide__fuse_drop_plans(tide_fused *f) {
  tide_fused *part;
  for (int k = 0; (part = tide__fuse_stage(f, k)); k++) tide__fuse_drop_plans(part);
  while (f->plans) {
    tide__fuse_plan *p = f->plans;
    f->plans = p->next;
    free(p->source);
    free(p);
  }
  f->made = tide__epoch_now();
}

static void keep_problem(tide_fused *f) {
  free(f->problem);
  f->problem = strdup(tide_error_get()->message);
}

static bool has_pieces(const tide_compiler *c) { return c && c->interpreter; }

/* The plan of that key, for a call or, where rows are reduced, a shape. NULL: its function is not there. A compiler
 * that fails is asked once. */
static tide__fuse_plan *plan_of(tide_fused *f, const tide_compiler *c, int device, uint64_t key, const call *of,
                                const tide__fuse_shape *shape) {
  tide__fuse_plan *p = f->plans;
  while (p && p->key != key) p = p->next;
  if (TIDE_LIKELY(p && p->plan.function)) return p;
  if (f->problem) return NULL;
  if (!p && c && (p = calloc(1, sizeof *p))) {
    p->key = key, p->device = device, p->plan.compiler = c;
    p->next = f->plans, f->plans = p;
    if (shape) p->shape = *shape;
    if (of) fill_special(p, of, c);
  }
  tide_status status = p   ? find_function(p, f, false)
                       : c ? tide__fail(TIDE_MEMORY, "fuse: no host memory")
                           : tide__fail(TIDE_SUPPORT, "%s: there is no compiler for the device", f->name);
  if (status != TIDE_OK) keep_problem(f);
  return status == TIDE_OK && p->plan.function ? p : NULL;
}

static tide__fuse_plan *find_plan(call *c) {
  tide_fused *f = c->f;
  uint64_t key = (uint64_t)(c->device + 1) | (uint64_t)c->work << 16 | (uint64_t)c->uniform << 24;
  if ((f->costly || f->mail) && has_pieces(c->compiler)) f->in_pieces = true;
  return f->in_pieces ? NULL : plan_of(f, c->compiler, c->device, key, c, NULL);
}

static tide__fuse_plan *find_rows_plan(tide_fused *f, const tide_compiler *c, int device,
                                       const tide__fuse_shape *shape) {
  uint64_t key = (uint64_t)(device + 1) | (uint64_t)shape->group << 3 | (uint64_t)shape->blocks << 17 |
                 (uint64_t)shape->lanes << 21 | (uint64_t)shape->pieces << 26 | (uint64_t)shape->spread << 32 |
                 (uint64_t)shape->moves << 48 | 1ull << 63;
  return plan_of(f, c, device, key, NULL, shape);
}

/* ---- rows ---- */

/* Of the sizes in all, how many elements a row has. */
static bool rows_fit(call *c, tide__fuse_rows *r) {
  const tide_fused *f = c->f;
  if (!sizes_fit(c) || !c->numel) return false;
  for (int i = 0; i < f->nodes; i++)
    if (f->value[i].kind == TIDE_FUSE_REDUCE && !is_full(c, f->value[i].reach)) return false;
  *r = (tide__fuse_rows){.rows = 1, .columns = 1};
  for (int d = 0; d < c->ndim; d++)
    if (is_reduced(c, d))
      r->columns *= c->size[d];
    else
      r->rows *= c->size[d];
  return r->rows < INT32_MAX;
}

/* The strides of an operand over the dims that stay, and those that are reduced. Row results are new, row by row. */
static void split_strides(int64_t (*kept)[TIDE_MAX_DIMS], int64_t (*reduced)[TIDE_MAX_DIMS], const call *c, int k) {
  int64_t full[TIDE_MAX_DIMS], dense = 1;
  int n[2] = {0, 0};
  bool row = k < c->f->outputs && c->f->row_results;
  if (!row) tide__stride_broadcast(full, operand(c, k), c->size, c->ndim);
  for (int d = c->ndim - 1; row && d >= 0; d--) {
    full[d] = is_reduced(c, d) ? 0 : dense;
    if (!is_reduced(c, d)) dense *= c->size[d];
  }
  for (int d = 0; d < c->ndim; d++)
    if (is_reduced(c, d))
      (*reduced)[n[1]++] = full[d];
    else
      (*kept)[n[0]++] = full[d];
}

/* Can the dims that stay be one, in their order where results are not looked at, and the others too? A whole sum may be
 * one of rows, in `outer`, whose sums are added. The operands from `first` on are looked at. */
static bool strides_fit(const call *c, tide__fuse_rows *r, int first, int64_t *outer) {
  const tide_fused *f = c->f;
  int n = f->outputs + f->inputs, count[2] = {0, 0};
  int64_t size[2][TIDE_MAX_DIMS], stride[2][OPERANDS][TIDE_MAX_DIMS];
  for (int d = 0; d < c->ndim; d++) size[is_reduced(c, d)][count[is_reduced(c, d)]++] = c->size[d];
  for (int k = first; k < n; k++) split_strides(&stride[0][k], &stride[1][k], c, k);
  for (int i = 0; i < 2; i++)
    if (count[i]) count[i] = tide__collapse(size[i], stride[i] + first, n - first, count[i], first && !i);
  if (outer && r->rows == 1 && count[1] == 2) {
    int rows = size[1][1] < SHORT_ROW; /* which of the two dims the rows are: short ones lie beside each other */
    r->rows = *outer = size[1][rows], r->columns = size[1][!rows];
    for (int k = first; k < n; k++) stride[0][k][0] = stride[1][k][rows], stride[1][k][0] = stride[1][k][!rows];
    count[0] = count[1] = 1;
  }
  if (count[0] > 1 || count[1] > 1 || r->rows >= INT32_MAX) return false;
  bool along = true, across = true;
  for (int k = first; k < n; k++) {
    r->row_stride[k] = count[0] && r->rows > 1 ? stride[0][k][0] : 0;
    r->step[k] = count[1] && r->columns > 1 ? stride[1][k][0] : !(k < f->outputs && f->row_results);
    along = along && (r->step[k] == 0 || r->step[k] == 1);
    across = across && (r->row_stride[k] == 0 || r->row_stride[k] == 1);
  }
  r->across = !along;
  return along || across;
}

tide_status tide__fuse_run_rows(bool *done, tide_fused *f, const tide_compiler *c, const tide__fuse_rows *r,
                                const tide_tensor *const *list, int device, bool asks) {
  void *ptr[OPERANDS];
  int n = f->outputs + f->inputs;
  for (int k = 0; k < n; k++) ptr[k] = list[k] ? tide__tensor_ptr(list[k]) : NULL;
  if (has_pieces(c)) {
    f->in_pieces = true;
    const int64_t size[2] = {r->across ? r->columns : r->rows, r->across ? r->rows : r->columns};
    int64_t stride[OPERANDS][TIDE_MAX_DIMS];
    tide__fuse_work w = {.device = device, .ndim = 2, .numel = r->rows * r->columns, .size = size, .across = r->across};
    w.stride = (const int64_t(*)[TIDE_MAX_DIMS])stride;
    for (int k = 0; k < n; k++) {
      bool part = f->is_part && k < f->outputs;
      w.operand[k] = list[k];
      stride[k][r->across] = part ? r->parts : r->row_stride[k], stride[k][!r->across] = part ? 1 : r->step[k];
    }
    *done = tide__fuse_in_pieces(f, 2);
    return *done && !asks ? tide__fuse_run_pieces(f, c, &w) : TIDE_OK;
  }
  tide__fuse_shape shape = tide__fuse_shape_of(f, r, ptr);
  tide__fuse_plan *p = find_rows_plan(f, c, device, &shape);
  *done = p != NULL;
  return p && !asks ? tide__fuse_launch_rows(f, &p->plan, &shape, r, list, device) : TIDE_OK;
}

static tide_status run_short(bool *done, call *c, tide__fuse_rows *r) {
  const tide_tensor *list[OPERANDS];
  if (!strides_fit(c, r, 0, NULL) || r->across) return TIDE_OK;
  for (int k = 0; k < c->f->outputs + c->f->inputs; k++) list[k] = whole_operand(c, k);
  return tide__fuse_run_rows(done, c->f, c->compiler, r, list, c->device, c->asks);
}

static tide_status run_long(bool *done, call *c, const tide__fuse_rows *r) {
  int64_t size[TIDE_MAX_DIMS];
  const tide__fuse_long l = {.rows = r,
                             .in = c->given,
                             .results = c->made,
                             .out = c->made,
                             .compiler = c->compiler,
                             .size = size,
                             .ndim = row_size(size, c, true),
                             .device = c->device,
                             .into = c->into,
                             .asks = c->asks};
  return tide__fuse_run_stages(done, c->f, &l);
}

/* The blocks that can share a row, where it is too long for one and is read again to be written. */
static int64_t row_blocks(const call *c, int64_t columns) {
  char arch[64];
  if (columns <= TIDE_FUSE_COLUMNS || c->f->row_results || c->f->inputs > 4) return 1; /* registers */
  if (!c->compiler || has_pieces(c->compiler)) return 1;
  return c->compiler->loader->arch(arch, sizeof arch, c->device) == TIDE_OK && atoi(arch + 3) >= 90 ? TIDE_FUSE_BLOCKS
                                                                                                    : 1;
}

static tide_status rows_call(bool *done, call *c) {
  const tide_fused *f = c->f;
  tide__fuse_rows r, whole;
  int64_t outer = 1;
  if (writes_over(c) || !rows_fit(c, &r)) return TIDE_OK;
  whole = r;
  bool fits = strides_fit(c, &whole, f->outputs, &outer);
  bool is_short = outer == 1 && !whole.across && r.columns <= TIDE_FUSE_COLUMNS * row_blocks(c, r.columns);
  if (!fits || (outer > 1 && !f->row_results)) return TIDE_OK;
  if (is_short || f->row_results) TIDE_TRY(make_results(c, false));
  return is_short ? run_short(done, c, &r) : run_long(done, c, &whole);
}

/* ---- launching ---- */

static tide_status launch(call *c, const tide__fuse_plan *p) {
  const tide_fused *f = c->f;
  const tide_tensor *list[OPERANDS];
  int64_t stride[OPERANDS][TIDE_MAX_DIMS];
  tide__packed a;
  tide__work w;
  w.numel = c->numel, w.ndim = c->work, w.stride = (const int64_t(*)[TIDE_MAX_DIMS])stride;
  tide__copy(a.bytes, f->packed, (size_t)f->slots * 16);
  memcpy(w.size, c->dims, (size_t)c->work * sizeof *w.size);
  for (int k = 0; k < f->outputs + f->inputs; k++) {
    int at = k < f->outputs ? k : f->outputs + p->order[k - f->outputs];
    list[k] = whole_operand(c, at);
    if (c->work) memcpy(stride[k], c->stride[at], (size_t)c->work * sizeof stride[k][0]);
  }
  return tide__jit_launch_work(&p->plan, a.bytes, list, &w, c->device, TIDE__LAUNCH_FUSED);
}

/* By the loops of a host, where it has any. */
static tide_status run_pieces(bool *done, call *c, bool flat) {
  tide__fuse_work w = {.device = c->device, .ndim = flat ? 1 : c->joined, .numel = c->numel, .size = c->dims};
  int64_t stride[OPERANDS][TIDE_MAX_DIMS];
  *done = has_pieces(c->compiler) && tide__fuse_in_pieces(c->f, w.ndim);
  if (!*done || c->asks) return TIDE_OK;
  w.stride = (const int64_t(*)[TIDE_MAX_DIMS])(flat ? stride : c->stride);
  for (int k = 0; k < c->f->outputs + c->f->inputs; k++) {
    w.operand[k] = whole_operand(c, k);
    stride[k][0] = k < c->f->outputs || !(c->uniform >> (k - c->f->outputs) & 1);
  }
  if (flat) w.size = &c->numel;
  return tide__fuse_run_pieces(c->f, c->compiler, &w);
}

/* ---- calls ---- */

/* Large, of two dims, and every operand lies along the last one or is the same there: accesses are of several elements,
 * unlike those of a strided kernel. */
static bool is_table(const call *c, tide__fuse_rows *r) {
  void *ptr[OPERANDS];
  if (c->work != 2 || c->f->mail || !c->compiler || has_pieces(c->compiler) || c->numel >> 20 == 0 || c->numel >> 31)
    return false;
  *r = (tide__fuse_rows){.rows = c->dims[1], .columns = c->dims[0], .parts = c->dims[0], .across = true};
  for (int k = 0; k < c->f->outputs + c->f->inputs; k++) {
    r->step[k] = c->stride[k][0], r->row_stride[k] = c->stride[k][1];
    if ((uint64_t)r->row_stride[k] > 1 || (k < c->f->outputs && (!r->row_stride[k] || !r->step[k]))) return false;
    ptr[k] = tide__tensor_ptr(operand(c, k));
  }
  return tide__fuse_shape_of(c->f, r, ptr).lanes > 1;
}

static tide_status elementwise_call(bool *done, call *c) {
  bool flat = flat_match(c);
  if (!flat && !sizes_fit(c)) return TIDE_OK;
  for (int k = 0; !flat && c->into && k < c->f->outputs; k++)
    if (!into_fits(c, k)) return TIDE_OK;
  TIDE_TRY(make_results(c, flat));
  *done = true;
  if (!c->numel) return TIDE_OK;
  if (!flat) find_work(c);
  tide__fuse_rows r;
  if (is_table(c, &r)) {
    const tide_tensor *list[OPERANDS];
    for (int k = 0; k < c->f->outputs + c->f->inputs; k++) list[k] = operand(c, k);
    return tide__fuse_run_rows(done, c->f, c->compiler, &r, list, c->device, c->asks);
  }
  tide__fuse_plan *p = find_plan(c);
  if (p && c->asks) return TIDE_OK;
  return p ? launch(c, p) : run_pieces(done, c, flat);
}

tide_status tide_fused_call(bool *done, tide_tensor **out, tide_fused *f, tide_tensor *const *in,
                            tide_tensor *const *into) {
  return tide__fused_call(done, out, f, in, into, 0, false);
}

tide_status tide__fused_call(bool *done, tide_tensor **out, tide_fused *f, tide_tensor *const *in,
                             tide_tensor *const *into, uint32_t fresh, bool asks) {
  if (TIDE_UNLIKELY(!done || !out || !f || !in))
    return tide__fail(TIDE_ARGUMENT, "fuse: wrong arguments, expected a handle, tensors and room for results");
  if (TIDE_UNLIKELY(f->epoch != atomic_load(&tide__epochs[0])))
    return tide__fail(TIDE_STATE, "%s: the function belongs to a runtime that has ended or was reset", f->name);
  if (TIDE_UNLIKELY(f->made != tide__epoch_now())) tide__fuse_drop_plans(f);
  call c;
  tide_tensor view[TIDE_FUSE_INPUTS], *list[TIDE_FUSE_INPUTS];
  c.f = f, c.in = c.given = in, c.into = into, c.work = 0, c.uniform = 0;
  memset(c.made, 0, sizeof c.made), c.asks = asks, c.fresh = fresh;
  *done = false;
  if (f->views && (writes_over(&c) || !tide__fuse_views(list, view, f, in))) return TIDE_OK;
  if (f->views) c.in = list;
  if (!inputs_fit(&c) || (f->mail && !tide__fuse_place(f, (const tide_tensor *const *)in))) return TIDE_OK;
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, c.device));
  c.compiler = b->compiler;
  tide_status status = (f->reduces ? rows_call : elementwise_call)(done, &c);
  if (status != TIDE_OK || !*done)
    for (int k = 0; k < f->outputs; k++) tide_tensor_release(c.made[k]);
  else
    for (int k = 0; k < f->outputs; k++) out[k] = c.made[k];
  if (status != TIDE_OK) *done = false;
  /* A bad index on the CPU, which is told by the function alone; elsewhere what an earlier kernel has met. */
  return status == TIDE_INDEX && f->mail && c.device < 0 ? TIDE_OK : status;
}

/* ---- are the kernels there? ---- */

tide_status tide_fused_wait(tide_fused *f) {
  TIDE_GIVEN("fused_wait", f);
  tide_fused *part;
  for (int k = 0; (part = tide__fuse_stage(f, k)); k++) TIDE_TRY(tide_fused_wait(part));
  if (f->made != tide__epoch_now()) tide__fuse_drop_plans(f);
  for (tide__fuse_plan *p = f->plans; p && !f->problem; p = p->next) {
    if (p->plan.function) continue;
    TIDE_TRY(tide__waits_refused(f->name));
    if (find_function(p, f, true) != TIDE_OK) keep_problem(f);
  }
  return TIDE_OK;
}

bool tide_fused_ready(tide_fused *f) {
  if (!f) return false;
  tide_fused *part;
  bool ready = (f->plans || f->in_pieces || f->stages) && f->made == tide__epoch_now() && !f->problem;
  for (int k = 0; (part = tide__fuse_stage(f, k)); k++) ready = tide_fused_ready(part) && ready;
  for (tide__fuse_plan *p = f->plans; ready && p; p = p->next) {
    if (!p->plan.function && find_function(p, f, false) != TIDE_OK) keep_problem(f);
    ready = p->plan.function != NULL;
  }
  return ready;
}
