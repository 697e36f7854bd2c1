/* fuse_stages.c: fused operations whose rows are too long for one kernel, or lie beside each other.
 *
 * Each reduction is done in two steps: a kernel that reads once reduces parts of rows and writes a value for each; a
 * second one reduces these, which are few, and does what follows of the row's values. Reductions that need the results
 * of others come a level later and read again; but a variance is one of its operand: a part gives its sum of squares
 * around its mean, the mean and the count. What is as large as the inputs is computed at the end, by an elementwise
 * kernel that reads the row's values as tensors. Each of these is a tide_fused of its own, made on the first call.
 *
 * How rows are cut depends on sizes alone, and parts join in their order: equal calls give equal bits.
 *
 * Invariant: the first call of a shape launches nothing before the kernels of all stages are there. */
#include "jit/fuse/fuse_maker.h"

enum { LEVELS = 3, OPERANDS = TIDE_FUSE_INPUTS + TIDE_FUSE_OUTPUTS };

/* What an input of a stage is: input k of the whole, or -1 - node: that row's value, or its parts. */
typedef struct stage {
  tide_fused *fused;
  int16_t from[TIDE_FUSE_INPUTS];
} stage;

typedef struct tide__fuse_stages {
  int levels;
  stage parts[LEVELS], last[LEVELS], whole;
  int16_t node[LEVELS][TIDE_FUSE_OUTPUTS];   /* the reductions of each level; behind a variance two more parts of it */
  int16_t result[LEVELS][TIDE_FUSE_OUTPUTS]; /* what `last` gives: k: result k of all; -1 - node: a row's value */
  int reductions[LEVELS], results[LEVELS], first[LEVELS]; /* first: the number of `last` that its divisors begin at */
  int16_t divisor[LEVELS][TIDE_FUSE_SCALARS];             /* the node with the correction; or -1 */
  int16_t same[TIDE_FUSE_NODES];                          /* of variances: the first of the same operand */
  tide__fuse_rows done;                                   /* of the last call that was done */
  bool is_read[TIDE_FUSE_NODES];                          /* row's values that something larger is computed with */
  bool in_two_reads;                                      /* variances, where there are too many */
} tide__fuse_stages;

/* ---- writing the stages ---- */

typedef struct writer {
  const tide_fused *f;
  stage *stage;
  maker m;
  bool of_parts;                                 /* row's values are reduced from their parts; or read */
  int at[TIDE_FUSE_NODES], row[TIDE_FUSE_NODES]; /* the node of each of the whole, and of what is read of it; or -1 */
  tide__fuse_stages *stages;
  int level;
} writer;

static tide_status begin(writer *w, const tide_fused *f, stage *s, bool of_parts, int level) {
  *w = (writer){.f = f, .stage = s, .of_parts = of_parts, .stages = f->stages, .level = level};
  memset(w->at, -1, sizeof w->at), memset(w->row, -1, sizeof w->row);
  TIDE_TRY(tide__fuse_begin(&s->fused, f->name, f->number, f->numbers));
  w->m = (maker){.f = s->fused, .dims = of_parts ? 1 : f->dims, .leading = f->leading && !of_parts};
  return TIDE_OK;
}

/* from: as in a stage. */
static int add_input(writer *w, int from, const tide_fuse_node *node) {
  int at = make_node(&w->m, node);
  if (w->m.status == TIDE_OK) w->stage->from[w->m.f->inputs - 1] = (int16_t)from;
  return at;
}

/* A row's value, or its parts. */
static int add_row(writer *w, int node, int dtype, int ndim) {
  if (w->row[node] < 0)
    w->row[node] =
        add_input(w, -1 - node, &(tide_fuse_node){.kind = TIDE_FUSE_INPUT, .dtype = (tide_dtype)dtype, .ndim = ndim});
  return w->row[node];
}

/* Of parts: 16-bit floats are not rounded on the way. */
static int part_dtype(int dtype) { return dtype == TIDE_FLOAT16 || dtype == TIDE_BFLOAT16 ? TIDE_FLOAT32 : dtype; }

static int fold(writer *w, const tide_fused_node *v, int node) {
  return make_fold(&w->m, v->op == TIDE_MEAN ? TIDE_SUM : v->op, node, -1);
}

/* Of a variance (fuse_reduce.c): 1 step to the square, 2 to the difference, 3 to the operand. No other sum takes a
 * number. */
static int inner(const tide_fused *f, int node, int steps) {
  while (steps--) node = f->value[node].in[0];
  return node;
}

static bool in_one_read(const tide__fuse_stages *s, const tide_fused *f, int node) {
  return f->value[node].kind == TIDE_FUSE_REDUCE && f->value[node].params && !s->in_two_reads;
}

/* By a number that each call gives: how many there are, less the correction of that node. */
static int divide(writer *w, int at, int node) {
  w->stages->divisor[w->level][w->m.f->numbers - w->f->numbers] = (int16_t)node;
  return make_op(&w->m, TIDE_OP_div, at, make_number(&w->m, 1), 0);
}

static int add_part(writer *w, int node, int dtype) { return add_row(w, node, part_dtype(dtype), 2); }

/* The parts' sums of squares, and what their means differ from the whole's (Chan, Golub, LeVeque, 1979). */
static int join_spreads(writer *w, int of, int dtype) {
  maker *m = &w->m;
  int squares = add_part(w, of, dtype), mean = add_part(w, inner(w->f, of, 2), TIDE_FLOAT64);
  int count = add_part(w, inner(w->f, of, 1), dtype);
  int whole = divide(w, make_fold(m, TIDE_SUM, make_op(m, TIDE_OP_mul, count, mean, 0), -1), -1);
  int apart = make_op(m, TIDE_OP_sub, mean, whole, 0);
  int weighted = make_op(m, TIDE_OP_mul, count, make_op(m, TIDE_OP_mul, apart, apart, 0), 0);
  return make_fold(m, TIDE_SUM, make_op(m, TIDE_OP_add, squares, weighted, 0), -1);
}

/* The row's value, from its parts. */
static int join_parts(writer *w, int node) {
  const tide_fused_node *v = &w->f->value[node];
  int at = in_one_read(w->stages, w->f, node) ? join_spreads(w, w->stages->same[node], v->dtype)
                                              : fold(w, v, add_part(w, node, v->dtype));
  if (v->op == TIDE_MEAN || v->params) at = divide(w, at, node);
  return make_cast(&w->m, at, v->dtype);
}

static int copy(writer *w, int node) {
  const tide_fused_node *v = &w->f->value[node];
  tide_fuse_node n = {.kind = (tide_fuse_kind)v->kind, .op = v->op, .dtype = (tide_dtype)v->dtype, .param = -1};
  if (w->at[node] >= 0) return w->at[node];
  if (v->kind == TIDE_FUSE_REDUCE && w->of_parts) return w->at[node] = join_parts(w, node);
  if (w->stages->is_read[node] && !w->of_parts) return w->at[node] = add_row(w, node, v->dtype, w->f->ndim);
  for (int k = 0; k < v->operands; k++)
    n.in[k] = v->in[k] < 0 ? -1 - w->f->slot[-1 - v->in[k]].number : copy(w, v->in[k]);
  if (v->kind == TIDE_FUSE_INPUT || v->kind == TIDE_FUSE_GATHER) {
    n.ndim = v->given, n.dims = v->dims, n.line = (int)v->site;
    return w->at[node] = add_input(w, v->input, &n);
  }
  if (v->params) n.param = w->f->slot[v->param].number;
  return w->at[node] = make_node(&w->m, &n);
}

static tide_status finish(const writer *w, const int *outputs, int n) {
  return w->m.status == TIDE_OK ? tide__fuse_finish(w->m.f, outputs, n) : w->m.status;
}

static tide_status add_parts(writer *w, tide__fuse_stages *s, const tide_fused *f, int level) {
  int outputs[TIDE_FUSE_OUTPUTS];
  static const int spread[] = {TIDE_VAR, TIDE_MEAN, TIDE_COUNT_NONZERO};
  TIDE_TRY(begin(w, f, &s->parts[level], false, level));
  for (int i = 0; i < s->reductions[level]; i++) {
    int node = s->node[level][i];
    const tide_fused_node *v = &f->value[node];
    bool one = in_one_read(s, f, node);
    int from = one ? inner(f, node, 3) : v->in[0];
    from = make_cast(&w->m, copy(w, from), part_dtype(f->value[from].dtype));
    for (int k = 0; k < 3 && one; k++) /* means are float64, as their differences count */
      outputs[i + k] = make_fold(&w->m, spread[k], k == 1 ? make_cast(&w->m, from, TIDE_FLOAT64) : from, -1);
    if (one)
      i += 2;
    else
      outputs[i] = fold(w, v, from);
  }
  TIDE_TRY(finish(w, outputs, s->reductions[level]));
  w->stage->fused->is_part = true;
  return TIDE_OK;
}

static tide_status add_last(writer *w, tide__fuse_stages *s, const tide_fused *f, int level) {
  int outputs[TIDE_FUSE_OUTPUTS];
  TIDE_TRY(begin(w, f, &s->last[level], true, level));
  s->first[level] = f->numbers;
  for (int i = 0; i < s->results[level]; i++) {
    int result = s->result[level][i];
    outputs[i] = copy(w, result >= 0 ? f->output[result] : -1 - result);
  }
  return finish(w, outputs, s->results[level]);
}

static tide_status add_whole(writer *w, tide__fuse_stages *s, const tide_fused *f) {
  int outputs[TIDE_FUSE_OUTPUTS];
  TIDE_TRY(begin(w, f, &s->whole, false, 0));
  for (int k = 0; k < f->outputs; k++) outputs[k] = copy(w, f->output[k]);
  return finish(w, outputs, f->outputs);
}

/* ---- what belongs to which level ---- */

static bool put(int16_t *list, int *n, int value) {
  if (*n == TIDE_FUSE_OUTPUTS) return false;
  list[(*n)++] = (int16_t)value;
  return true;
}

/* The parts of a reduction, which variances of one operand share. */
static bool put_parts(tide__fuse_stages *s, const tide_fused *f, int node, int level) {
  int16_t *list = s->node[level];
  int *n = &s->reductions[level];
  if (!in_one_read(s, f, node)) return put(list, n, node);
  s->same[node] = (int16_t)node;
  for (int i = 0; i < *n; i++)
    if (in_one_read(s, f, list[i]) && inner(f, list[i], 3) == inner(f, node, 3)) s->same[node] = list[i];
  if (s->same[node] != node) return true;
  return put(list, n, node) && put(list, n, inner(f, node, 2)) && put(list, n, inner(f, node, 1));
}

/* Does a result need it, if variances are of their operands? */
static void find_needed(bool *needed, const tide__fuse_stages *s, const tide_fused *f) {
  for (int k = 0; k < f->outputs; k++) needed[f->output[k]] = true;
  for (int i = f->nodes - 1; i >= 0; i--) {
    bool one = needed[i] && in_one_read(s, f, i);
    if (one) needed[inner(f, i, 3)] = true;
    for (int k = 0; k < f->value[i].operands && needed[i] && !one; k++)
      if (f->value[i].in[k] >= 0) needed[f->value[i].in[k]] = true;
  }
}

/* level[i]: how many reductions stand one behind the other on the way to node i. */
static bool find_levels(tide__fuse_stages *s, const tide_fused *f) {
  int level[TIDE_FUSE_NODES];
  bool fits = true, is_result[TIDE_FUSE_NODES] = {false}, needed[TIDE_FUSE_NODES] = {false};
  find_needed(needed, s, f);
  for (int i = 0; i < f->nodes; i++) {
    const tide_fused_node *v = &f->value[i];
    level[i] = 0;
    for (int k = 0; k < v->operands; k++)
      if (v->in[k] >= 0 && level[v->in[k]] > level[i]) level[i] = level[v->in[k]];
    if (v->kind != TIDE_FUSE_REDUCE) continue;
    if (in_one_read(s, f, i)) level[i] = level[inner(f, i, 3)];
    if (level[i] == LEVELS) return false;
    fits = fits && (!needed[i] || put_parts(s, f, i, level[i]));
    if (++level[i] > s->levels && needed[i]) s->levels = level[i];
  }
  for (int k = 0; f->row_results && k < f->outputs; k++) {
    int at = level[f->output[k]] - 1;
    is_result[f->output[k]] = true;
    fits = fits && put(s->result[at], &s->results[at], k);
  }
  for (int i = 0; i < f->nodes; i++) /* the others that something larger reads */
    for (int k = 0; k < f->value[i].operands && needed[i] && !f->value[i].is_row; k++)
      if (f->value[i].in[k] >= 0) s->is_read[f->value[i].in[k]] = f->value[f->value[i].in[k]].is_row;
  for (int i = 0; i < f->nodes; i++)
    if (s->is_read[i] && !is_result[i]) fits = fits && put(s->result[level[i] - 1], &s->results[level[i] - 1], -1 - i);
  return fits;
}

static tide_status try_stages(tide_fused *f, bool in_two_reads) {
  tide__fuse_stages *s = f->stages = calloc(1, sizeof *s);
  writer w;
  tide_status status = s ? TIDE_OK : tide__fail(TIDE_MEMORY, "fuse: no host memory");
  if (s) s->in_two_reads = in_two_reads;
  if (s && !find_levels(s, f)) status = tide__fuse_refuse(f, "too many reductions of long rows");
  for (int l = 0; status == TIDE_OK && l < s->levels; l++) {
    status = add_parts(&w, s, f, l);
    if (status == TIDE_OK) status = add_last(&w, s, f, l);
  }
  if (status == TIDE_OK && !f->row_results) status = add_whole(&w, s, f);
  if (status != TIDE_OK) tide__fuse_stages_free(f);
  return status;
}

static tide_status make_stages(tide_fused *f) {
  return try_stages(f, false) == TIDE_OK ? TIDE_OK : try_stages(f, true);
}

tide_fused *tide__fuse_stage(const tide_fused *f, int k) {
  const tide__fuse_stages *s = f->stages;
  if (!s) return NULL;
  if (k == 2 * s->levels) return s->whole.fused;
  return k < 2 * s->levels ? (k % 2 ? s->last : s->parts)[k / 2].fused : NULL;
}

void tide__fuse_stages_free(tide_fused *f) {
  tide__fuse_stages *s = f->stages;
  for (int l = 0; s && l < LEVELS; l++) tide_fused_free(s->parts[l].fused), tide_fused_free(s->last[l].fused);
  if (s) tide_fused_free(s->whole.fused);
  free(s);
  f->stages = NULL;
}

/* ---- running them ---- */

typedef struct run {
  const tide_fused *f;
  const tide__fuse_long *l;
  tide_tensor *part[TIDE_FUSE_NODES], *row[TIDE_FUSE_NODES]; /* of each reduction */
  int64_t parts;                                             /* of a row; 0: not known yet */
  bool asks;
} run;

/* Rows may be rows of one row (fuse_call.c): then all their parts are its. */
static int64_t row_count(const run *x) {
  int64_t n = 1;
  for (int d = 0; d < x->l->ndim; d++) n *= x->l->size[d];
  return n;
}

static tide_status run_parts(bool *done, run *x, const stage *s, const int16_t *node) {
  const tide__fuse_rows *whole = x->l->rows;
  tide_fused *f = s->fused;
  tide__fuse_rows r = *whole;
  r.parts = x->parts;
  const tide_tensor *list[OPERANDS] = {NULL};
  void *ptr[OPERANDS] = {NULL};
  for (int k = 0; k < f->inputs; k++) {
    int from = s->from[k], at = f->outputs + k;
    list[at] = from >= 0 ? x->l->in[from] : x->row[-1 - from];
    if (list[at]) ptr[at] = tide__tensor_ptr(list[at]);
    r.row_stride[at] = from >= 0 ? whole->row_stride[x->f->outputs + from] : row_count(x) > 1;
    r.step[at] = from >= 0 ? whole->step[x->f->outputs + from] : 0;
  }
  if (!tide__fuse_place(f, list + f->outputs)) return TIDE_OK;
  if (x->l->compiler->interpreter) {
    r.span = tide__fuse_piece(r.rows, r.across);
    r.parts = (r.columns + r.span - 1) / r.span;
  } else
    tide__fuse_choose_parts(f, &r, ptr);
  x->parts = r.parts;
  const int64_t size[] = {r.rows, r.parts};
  for (int k = 0; k < f->outputs && !x->asks; k++) {
    tide_dtype dtype = (tide_dtype)f->value[f->output[k]].dtype;
    tide_tensor **part = &x->part[node[k]];
    if (!*part) TIDE_TRY(tide__tensor_new(part, size, 2, dtype, x->l->device));
    list[k] = *part;
  }
  return tide__fuse_run_rows(done, f, x->l->compiler, &r, list, x->l->device, x->asks);
}

/* What the sums are divided by: how many elements there are, less the correction. */
static void set_divisors(run *x, const tide__fuse_stages *stages, int level) {
  const tide__fuse_rows *whole = x->l->rows;
  tide_fused *f = stages->last[level].fused;
  tide_scalar number[TIDE_FUSE_SCALARS];
  double n = (double)(whole->rows / row_count(x) * whole->columns);
  memcpy(number, f->number, sizeof number);
  for (int k = stages->first[level]; k < f->numbers; k++) {
    int node = stages->divisor[level][k - stages->first[level]];
    const tide_fused_node *v = node < 0 ? NULL : &x->f->value[node];
    double less = v && v->params ? tide__value(tide__fuse_number(x->f, v->param)).re : 0;
    number[k] = tide_float(n > less ? n - less : 0);
  }
  tide__fuse_set_numbers(f, number, f->numbers);
}

/* Parts of rows of a row may be many: their parts. */
static tide_status run_joined(bool *done, run *x, tide_fused *f, const tide__fuse_rows *r, tide_tensor *const *list) {
  const tide__fuse_long l = {.rows = r,
                             .in = list + f->outputs,
                             .results = list,
                             .compiler = x->l->compiler,
                             .size = &r->rows,
                             .ndim = 1,
                             .device = x->l->device,
                             .asks = x->asks};
  if (r->columns > TIDE_FUSE_COLUMNS && !l.compiler->interpreter) return tide__fuse_run_stages(done, f, &l);
  return tide__fuse_run_rows(done, f, l.compiler, r, (const tide_tensor *const *)list, l.device, x->asks);
}

static tide_status run_last(bool *done, run *x, const tide__fuse_stages *stages, int level) {
  const stage *s = &stages->last[level];
  tide_fused *f = s->fused;
  int64_t rows = row_count(x), columns = x->l->rows->rows / rows * x->parts;
  tide__fuse_rows r = {.rows = rows, .columns = columns, .parts = 1};
  tide_tensor *list[OPERANDS] = {NULL};
  for (int k = 0; k < f->outputs; k++) {
    int result = stages->result[level][k];
    if (result < 0 && !x->row[-1 - result])
      TIDE_TRY(
          tide__tensor_new(&x->row[-1 - result], &rows, 1, (tide_dtype)f->value[f->output[k]].dtype, x->l->device));
    list[k] = result < 0 ? x->row[-1 - result] : x->l->results[result];
    int node = result < 0 ? -1 - result : x->f->output[result];
    if (result >= 0 && !x->row[node]) x->row[node] = tide__tensor_ref(x->l->results[result]);
  }
  for (int k = 0; k < f->outputs; k++) r.row_stride[k] = rows > 1;
  for (int k = f->outputs; k < f->outputs + f->inputs; k++) {
    list[k] = x->part[-1 - s->from[k - f->outputs]];
    r.row_stride[k] = rows > 1 ? columns : 0, r.step[k] = 1;
  }
  set_divisors(x, stages, level);
  return run_joined(done, x, f, &r, list);
}

static tide_status run_whole(bool *done, run *x, const stage *s) {
  tide_tensor *in[TIDE_FUSE_INPUTS] = {NULL}, *unused[TIDE_FUSE_OUTPUTS] = {NULL}, **out = x->asks ? unused : x->l->out;
  tide_status status = TIDE_OK;
  for (int k = 0; k < s->fused->inputs && status == TIDE_OK; k++)
    if (s->from[k] >= 0)
      in[k] = tide__tensor_ref(x->l->in[s->from[k]]);
    else
      status = tide_view(&in[k], x->row[-1 - s->from[k]], x->l->size, x->l->ndim);
  if (status == TIDE_OK) {
    uint32_t fresh = x->l->into ? ~0u : 0;
    status = tide__fused_call(done, out, s->fused, in, x->l->into, fresh, x->asks);
  }
  for (int k = 0; k < s->fused->inputs; k++) tide_tensor_release(in[k]);
  for (int k = 0; k < s->fused->outputs; k++) tide_tensor_release(unused[k]);
  return status;
}

static tide_status run_all(bool *done, run *x, bool asks) {
  const tide__fuse_stages *s = x->f->stages;
  bool all = true;
  x->asks = asks;
  for (int l = 0; l < s->levels; l++)
    for (int i = 0; i < 2; i++) {
      bool one = false;
      TIDE_TRY(i ? run_last(&one, x, s, l) : run_parts(&one, x, &s->parts[l], s->node[l]));
      all = all && one;
      if (!all && !asks) return TIDE_OK;
    }
  if (s->whole.fused && (all || asks)) { /* who asks for one kernel has all of them compiled */
    bool one = false;
    TIDE_TRY(run_whole(&one, x, &s->whole));
    all = all && one;
  }
  *done = all;
  return TIDE_OK;
}

/* On a host, which waits for arithmetic more than for memory, costly functions are not to be computed once a stage. */
static bool is_done_twice(const tide_fused *f, const tide_compiler *c) {
  return c->interpreter && f->costly && (f->stages->levels > 1 || f->stages->whole.fused);
}

tide_status tide__fuse_run_stages(bool *done, tide_fused *f, const tide__fuse_long *l) {
  run x = {.f = f, .l = l};
  bool ready = false;
  *done = false;
  if (!l->compiler || f->has_no_stages) return TIDE_OK;
  if (!f->stages && (make_stages(f) != TIDE_OK || is_done_twice(f, l->compiler))) {
    tide__fuse_stages_free(f);
    f->has_no_stages = f->in_pieces = true;
    return TIDE_OK;
  }
  /* What was done of such rows before has its kernels; else the operations run alone after all. */
  tide__fuse_stages *s = f->stages;
  bool known = !l->asks && !memcmp(&s->done, l->rows, sizeof s->done);
  tide_status status = known ? TIDE_OK : run_all(&ready, &x, true);
  if (status == TIDE_OK && (known || ready) && !l->asks) status = run_all(done, &x, false);
  if (!l->asks) s->done = *done ? *l->rows : (tide__fuse_rows){0};
  for (int i = 0; i < f->nodes; i++) tide_tensor_release(x.part[i]), tide_tensor_release(x.row[i]);
  return status;
}
