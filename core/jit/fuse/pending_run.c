/* pending_run.c: computes a cone of nodes by the kernels of a recipe, or one operation after the other.
 *
 * Storages get their memory before the kernel that writes it. Invariant: a storage whose kernel fails is pending again,
 * and has no memory. */
#include "jit/fuse/pending.h"

#include <stdio.h>

#include "tide/scatter.h"

typedef struct run {
  tide_fuse *f;
  tide__cone *c;
  tide_tensor **made; /* the value of each node that is there: a leaf's, or a new tensor */
} run;

/* A tensor that the value of a node is written to. `memory`: what a pending storage has got its memory from. */
typedef struct target {
  tide_tensor *x;
  tide_storage *memory;
  tide__node *node; /* NULL: nobody but nodes reads it */
} target;

static const tide_tensor *value_of(const run *r, int at) { return r->made[at] ? r->made[at] : &r->c->node[at]->x; }

static tide_status begin_target(target *t, const run *r, int at) {
  tide__node *n = r->c->node[at];
  *t = (target){.x = NULL};
  if (r->c->into && at == r->c->count - 1) {
    t->x = tide__tensor_ref(r->c->into);
    return TIDE_OK;
  }
  size_t bytes = (size_t)(n->x.numel * tide__itemsize(n->x.dtype));
  TIDE_TRY(tide__storage_new(&t->memory, bytes, n->device, false));
  bool alive = n->storage && n->storage->pending && tide__storage_retain_living(n->storage);
  tide_status status = tide__node_tensor(&t->x, n, alive ? n->storage : t->memory);
  if (status != TIDE_OK) {
    tide_storage_release(t->memory);
    if (alive) tide_storage_release(n->storage);
    return status;
  }
  if (!alive)
    t->memory = NULL;
  else {
    t->node = n, n->is_filled = true;
    tide__storage_ref(n->storage); /* others may drop it in the middle */
    tide__storage_move(n->storage, t->memory);
  }
  return TIDE_OK;
}

/* What was computed stays with the run; what failed is pending again. */
static void end_target(run *r, target *t, int at, bool done) {
  if (t->node && !done) {
    tide_storage *s = t->node->storage;
    tide__storage_move(t->memory, s);
    s->pending = true, s->user = t->node;
    t->node->is_filled = false;
    tide_storage_release(s); /* t->x holds it */
  }
  tide_storage_release(t->memory);
  if (done)
    r->made[at] = t->x;
  else
    tide_tensor_release(t->x);
}

/* ---- one operation ---- */

static tide_status gather(const run *r, const tide__node *n, tide_tensor *into) {
  const tide_tensor *index = value_of(r, n->in[0]->at), *x = value_of(r, n->in[1]->at);
  tide_tensor *made;
  if (n->op == TIDE_FUSE_LINE) return tide_take(NULL, x, index, into);
  if (n->op == TIDE_FUSE_ALONG) return tide_take_along_dim(NULL, x, index, n->dims, into);
  TIDE_TRY(tide_index_get(&made, x, n->dims, index));
  tide_status status = tide_copy(into, made, false);
  tide_tensor_release(made);
  return status;
}

/* The CPU tells of a bad index at once, when the line that is running is another one. */
static tide_status name_line(const tide__node *n, tide_status status) {
  char text[400], where[160];
  const char *message = tide_error_get()->message, *at = strstr(message, " in an index tensor,");
  if (status != TIDE_INDEX || n->device >= 0 || n->line <= 0 || !at) return status;
  tide__site_text(tide__site_of(n->file, n->line), where, sizeof where);
  size_t before = (size_t)(at - message) + strlen(" in an index tensor");
  snprintf(text, sizeof text, "%.*s used at %s%s", (int)before, message, where, message + before);
  return tide__fail(TIDE_INDEX, "%s", text);
}

static tide_status operate(const run *r, const tide__node *n, tide_tensor *into) {
  if (n->kind == TIDE_FUSE_GATHER) return name_line(n, gather(r, n, into));
  if (n->kind == TIDE_FUSE_CAST) return tide_copy(into, value_of(r, n->in[0]->at), false);
  if (n->kind == TIDE_FUSE_REDUCE) {
    tide_reduce_options o = TIDE_REDUCE_OPTIONS;
    const tide_tensor *x = value_of(r, n->in[0]->at);
    int dims[TIDE_MAX_DIMS];
    for (int k = 0; k < n->dims; k++) dims[k] = k + (n->leading ? 0 : x->ndim - n->dims);
    o.dims = dims, o.ndims = n->dims, o.keepdim = n->keepdim;
    if (n->params) o.param = n->param[0].re;
    return tide_reduce(NULL, (tide_reduction)n->op, x, &o, into);
  }
  tide_operand in[3];
  for (int k = 0; k < n->operands; k++) {
    in[k] = (tide_operand){.number = n->number[k]};
    if (n->in[k]) in[k].tensor = value_of(r, n->in[k]->at);
  }
  return tide_elementwise(NULL, (tide_op)n->op, in, n->params ? n->param : NULL, into);
}

static tide_status run_alone(run *r, int at) {
  target t;
  TIDE_TRY(begin_target(&t, r, at));
  tide_status status = operate(r, r->c->node[at], t.x);
  end_target(r, &t, at, status == TIDE_OK);
  return status;
}

/* ---- one kernel ---- */

/* The operations of the kernel one by one, but for those whose values an earlier kernel has left; what is no result is
 * dropped afterwards. */
static tide_status run_apart(run *r, const tide_fuse_kernel *s, const target *t) {
  tide_tensor *own[TIDE_FUSE_NODES] = {NULL};
  bool set[TIDE_FUSE_NODES] = {false};
  tide_status status = TIDE_OK;
  for (int i = 0; i < s->nodes && status == TIDE_OK; i++) {
    const tide__node *n = r->c->node[s->of[i]];
    if (s->node[i].kind == TIDE_FUSE_INPUT || r->made[s->of[i]]) continue;
    tide_tensor *to = NULL;
    for (int k = 0; k < s->outputs; k++)
      if (s->written[k] == i) to = t[k].x;
    if (!to) {
      tide_storage *memory;
      status = tide__storage_new(&memory, (size_t)(n->x.numel * tide__itemsize(n->x.dtype)), n->device, false);
      if (status == TIDE_OK && (status = tide__node_tensor(&own[i], n, memory)) != TIDE_OK)
        tide_storage_release(memory);
      to = own[i];
    }
    if (status == TIDE_OK) status = operate(r, n, to);
    r->made[s->of[i]] = to, set[i] = true;
  }
  for (int i = 0; i < s->nodes; i++) {
    if (set[i]) r->made[s->of[i]] = NULL;
    tide_tensor_release(own[i]);
  }
  return status;
}

static tide_status call_kernel(bool *done, run *r, const tide_fuse_kernel *s, const target *t) {
  tide_tensor *in[TIDE_FUSE_INPUTS], *into[TIDE_FUSE_OUTPUTS], *out[TIDE_FUSE_OUTPUTS];
  tide_scalar number[TIDE_FUSE_SCALARS];
  uint32_t fresh = 0;
  *done = false;
  if (!s->fused) return TIDE_OK;
  for (int k = 0; k < s->numbers; k++) number[k] = tide__cone_number(r->c, s->from[k]);
  TIDE_TRY(tide_fused_numbers(s->fused, number, s->numbers));
  for (int k = 0; k < s->inputs; k++) in[k] = (tide_tensor *)value_of(r, s->input[k]);
  for (int k = 0; k < s->outputs; k++) into[k] = t[k].x, fresh |= (uint32_t)(t[k].x != r->c->into) << k;
  TIDE_TRY(tide__fused_call(done, out, s->fused, in, into, fresh, false));
  for (int k = 0; k < s->outputs && *done; k++) tide_tensor_release(out[k]);
  return TIDE_OK;
}

static tide_status run_kernel(run *r, const tide_fuse_kernel *s) {
  target t[TIDE_FUSE_OUTPUTS];
  tide_status status = TIDE_OK;
  int begun = 0;
  bool done = false;
  for (; begun < s->outputs && status == TIDE_OK; begun++) status = begin_target(&t[begun], r, s->output[begun]);
  if (status != TIDE_OK) begun--;
  if (status == TIDE_OK) status = call_kernel(&done, r, s, t);
  if (status == TIDE_OK && !done) status = run_apart(r, s, t);
  for (int k = 0; k < begun; k++) end_target(r, &t[k], s->output[k], status == TIDE_OK);
  return status;
}

/* ---- all of them ---- */

/* Without memory for it there is none. */
static void note(tide_fuse *f, tide_fuse_kernel *k, int64_t elements) {
  enum { MOST = 256 };
  k->elements = elements;
  if (f->trace_count == MOST || !tide__grow(&f->trace, &f->trace_room, f->trace_count, sizeof *f->trace)) return;
  tide_fuse_kernel_retain(f->trace[f->trace_count++] = k);
}

tide_status tide__cone_run(tide_fuse *f, tide__cone *c, tide__fuse_recipe *recipe) {
  tide_tensor *own[64];
  bool fits = c->count <= 64;
  run r = {.f = f, .c = c, .made = fits ? own : malloc((size_t)c->count * sizeof *r.made)};
  if (r.made) memset(r.made, 0, (size_t)c->count * sizeof *r.made);
  if (!r.made) return tide__fail(TIDE_MEMORY, "fuse: no host memory");
  tide_status status = TIDE_OK;
  for (int i = 0; i < recipe->steps && status == TIDE_OK; i++) {
    const tide_fuse_kernel *s = &recipe->step[i];
    status = s->alone >= 0 ? run_alone(&r, s->alone) : run_kernel(&r, s);
    if (status == TIDE_OK) note(f, &recipe->step[i], c->node[s->output[0]]->x.numel);
  }
  for (int i = 0; i < c->count; i++) tide_tensor_release(r.made[i]);
  if (!fits) free(r.made);
  return status;
}
