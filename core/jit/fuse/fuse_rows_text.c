/* fuse_rows_text.c: operations that reduce rows, as the text of one kernel of CUDA.
 *
 * A group of threads, a warp, a block or a cluster, does a row. What it reads of the row stays in registers, so that
 * each element is read once, however many reductions there are. A reduction is a loop over the thread's elements, and
 * then a joining of the threads'. Values that lead to it are computed in that loop; what is reduced and used
 * again are kept. What is one value a row is computed once, by every thread. A kernel of parts reads as it goes and
 * keeps nothing but what it has summed up, one for each lane.
 *
 * Invariant: all of a row is read before any of it is written. */
#include "jit/fuse/fuse.h"

#include <stdio.h>

#include "fuse_kernel.inc"

typedef struct writer {
  tide__text t;
  const tide_fused *f;
  const tide__fuse_shape *shape;
  const char *mine, *here; /* behind an operand that has elements along the lanes: which one; where it lies in memory */
  bool kept[TIDE_FUSE_NODES], there[TIDE_FUSE_NODES]; /* there: declared in the running loop, or for the row */
} writer;

static int place_of(const writer *w, int node) { return w->f->outputs + w->f->value[node].input; }
static bool is_spread(const writer *w, int operand) {
  return w->shape->spread >> (w->shape->group ? operand : operand - w->f->outputs) & 1;
}
static int uses(const tide_fused *f, int node) {
  int n = 0;
  for (int i = 0; i < f->nodes; i++)
    for (int k = 0; k < f->value[i].operands; k++) n += f->value[i].in[k] == node;
  for (int k = 0; k < f->outputs; k++) n += f->output[k] == node;
  return n;
}

/* ---- values ---- */

static void need(writer *w, int node);

static void add_input(writer *w, int node) {
  const tide_fused_node *v = &w->f->value[node];
  int k = place_of(w, node);
  if (v->kind == TIDE_FUSE_GATHER) {
    char from[96], step[40] = "";
    if (w->f->is_part) snprintf(step, sizeof step, " + i * tide_a.step[%d]", k);
    snprintf(from, sizeof from, "a%d%s + %s", k, step, is_spread(w, k) ? w->here : "0");
    tide__fuse_add_read(&w->t, w->f, node, from);
    return;
  }
  tide__text_add(&w->t,
                 tide__jit_is_small(v->dtype) ? "  const %s v%d = tide_get(p%d%s);\n" : "  const %s v%d = p%d%s;\n",
                 tide__fuse_value_type(v->dtype), node, k, is_spread(w, k) ? w->mine : "");
}

/* Declares the value for one element, and what it is made of. */
static void need(writer *w, int node) {
  const tide_fused_node *v = &w->f->value[node];
  if (w->there[node]) return;
  w->there[node] = true;
  if (w->kept[node]) {
    tide__text_add(&w->t, "  const %s v%d = r%d[TIDE_MINE];\n", tide__fuse_value_type(v->dtype), node, node);
    return;
  }
  for (int k = 0; k < v->operands; k++)
    if (v->in[k] >= 0) need(w, v->in[k]);
  if (v->kind == TIDE_FUSE_INPUT || v->kind == TIDE_FUSE_GATHER)
    add_input(w, node);
  else if (v->kind == TIDE_FUSE_OP)
    tide__fuse_add_op(&w->t, w->f, node);
  else
    tide__fuse_add_cast(&w->t, w->f, node);
}

/* A loop ends: what is one value a row stays. */
static void forget(writer *w) {
  for (int i = 0; i < w->f->nodes; i++) w->there[i] = w->there[i] && w->f->value[i].is_row;
}

static int join_of(const tide_fused_node *v) {
  return v->op == TIDE_MAX ? 1 : v->op == TIDE_MIN ? 2 : v->op == TIDE_PROD ? 3 : 0;
}

/* What nothing is reduced to. */
static const char *none_of(const tide_fused_node *v) {
  static const char *const most[] = {"2147483647", "9223372036854775807ll", "__int_as_float(0x7f800000)",
                                     "__longlong_as_double(0x7ff0000000000000ll)"};
  static const char *const least[] = {"-2147483647 - 1", "-9223372036854775807ll - 1", "-__int_as_float(0x7f800000)",
                                      "-__longlong_as_double(0x7ff0000000000000ll)"};
  int join = join_of(v), k = v->compute == TIDE_INT64 ? 1 : v->compute == TIDE_FLOAT32 ? 2 : 3;
  if (join == 0 || join == 3) return join ? "1" : "0";
  return (join == 1 ? least : most)[v->compute == TIDE_INT32 ? 0 : k];
}

static void add_reduce(writer *w, int node) {
  const tide_fused_node *v = &w->f->value[node], *from = &w->f->value[v->in[0]];
  const char *type = tide__fuse_value_type(v->dtype);
  int join = join_of(v);
  bool keeps = from->kind != TIDE_FUSE_INPUT && !w->kept[v->in[0]] && uses(w->f, v->in[0]) > 1;
  if (keeps) tide__text_add(&w->t, "  %s r%d[TIDE_PIECES * TIDE_LANES_];\n", type, v->in[0]);
  tide__text_add(&w->t, "  %s v%d = %s;\n  TIDE_LOOP {\n", type, node, none_of(v));
  need(w, v->in[0]);
  if (keeps) tide__text_add(&w->t, "  r%d[TIDE_MINE] = v%d;\n", v->in[0], v->in[0]);
  tide__text_add(&w->t, "  v%d = tide_join<%d>(v%d, v%d);\n  }\n  v%d = tide_all<%d, %d>(v%d);\n", node, join, node,
                 v->in[0], node, join, node, node);
  if (v->op == TIDE_MEAN) tide__text_add(&w->t, "  v%d /= (%s)columns;\n", node, type);
  if (v->params)
    tide__text_add(&w->t, "  v%d /= columns > tide_a.c%d ? columns - tide_a.c%d : 0;\n", node, v->param, v->param);
  w->kept[v->in[0]] |= keeps;
  forget(w);
  w->there[node] = true;
}

/* ---- reading and writing ---- */

static void add_loads(writer *w) {
  const tide_fused *f = w->f;
  for (int k = f->outputs; k < f->outputs + f->inputs; k++) {
    tide__text_add(&w->t, "  const tide_s%d *a%d = TIDE_ROW(%d);\n", k, k, k);
    if (tide__fuse_gathers(f, k - f->outputs)) continue;
    if (is_spread(w, k))
      tide__text_add(&w->t, "  TIDE_READ(%d)\n", k);
    else
      tide__text_add(&w->t, "  const tide_s%d p%d = *a%d;\n", k, k, k);
  }
}

static void add_store(writer *w, int k, const char *to) {
  int node = w->f->output[k];
  tide__text_add(&w->t, tide__jit_is_small(w->f->value[node].dtype) ? "  tide_put(%s, v%d);\n" : "  %s = v%d;\n", to,
                 node);
}

static void add_row_results(writer *w) {
  char to[32];
  tide__text_add(&w->t, "  if (lane == 0) {\n");
  for (int k = 0; k < w->f->outputs; k++) {
    snprintf(to, sizeof to, "*TIDE_ROW(%d)", k);
    add_store(w, k, to);
  }
  tide__text_add(&w->t, "  }\n");
}

/* All of a size: `room` elements of a thread, in a loop over them. */
static void add_results(writer *w, const char *room, const char *loop, const char *step) {
  char to[64];
  for (int k = 0; k < w->f->outputs; k++) tide__text_add(&w->t, "  TIDE_ROOM(%d, %s)\n", k, room);
  tide__text_add(&w->t, "  %s {\n", loop);
  for (int k = 0; k < w->f->outputs; k++) need(w, w->f->output[k]);
  for (int k = 0; k < w->f->outputs; k++) {
    snprintf(to, sizeof to, "p%d%s", k, w->mine);
    add_store(w, k, to);
  }
  tide__text_add(&w->t, "  }\n");
  for (int k = 0; k < w->f->outputs; k++) tide__text_add(&w->t, "  TIDE_WRITE%s(%d%s)\n", step, k, *step ? ", i" : "");
}

/* ---- parts ---- */

/* What is the same for all lanes' next elements is read before the loop. */
static void add_part_load(writer *w, int k, bool in_loop) {
  bool moves = w->shape->moves >> (k - w->f->outputs) & 1, gathers = tide__fuse_gathers(w->f, k - w->f->outputs);
  const char *at = moves ? "i" : "0";
  if (!in_loop && gathers) tide__text_add(&w->t, "  const tide_s%d *a%d = TIDE_ROW(%d);\n", k, k, k);
  if ((moves && w->f->is_part) != in_loop || gathers) return;
  if (is_spread(w, k))
    tide__text_add(&w->t, "  TIDE_READ_STEP(%d, %s)\n", k, at);
  else
    tide__text_add(&w->t, "  const tide_s%d p%d = *TIDE_STEP(%d, %s);\n", k, k, k, at);
}

/* No reduction: one access, which a part is. */
static char *elements_body(const tide_fused *f, const tide__fuse_shape *shape) {
  writer w = {.f = f, .shape = shape, .mine = "[e]"};
  tide__text_add(&w.t, "  const long long i = part;\n");
  for (int k = 0; k < f->inputs; k++) add_part_load(&w, f->outputs + k, false);
  add_results(&w, "TIDE_LANES_", "TIDE_EACH_LANE", "_STEP");
  return tide__text_end(&w.t, "fuse");
}

/* The result that has the state of result k: a spread's mean and count come behind it. */
static int state_of(const tide_fused *f, int k) {
  int op = f->value[f->output[k]].op;
  return op == TIDE_MEAN ? k - 1 : op == TIDE_COUNT_NONZERO ? k - 2 : k;
}

static char *parts_body(const tide_fused *f, const tide__fuse_shape *shape) {
  static const char *const members[] = {".squares", ".mean", ".n"};
  writer w = {.f = f, .shape = shape, .mine = "[e]", .here = "e"};
  const char *across = shape->pieces ? "(row + e) * tide_a.parts + part" : "row * tide_a.parts + part";
  for (int k = 0; k < f->inputs; k++) add_part_load(&w, f->outputs + k, false);
  for (int k = 0; k < f->outputs; k++) {
    const tide_fused_node *v = &f->value[f->output[k]];
    const char *type = tide__fuse_value_type(v->dtype);
    if (v->op == TIDE_VAR)
      tide__text_add(&w.t, "  tide_spread<%s> s%d[TIDE_LANES_] = {};\n", type, k);
    else if (state_of(f, k) == k)
      tide__text_add(&w.t, "  %s s%d[TIDE_LANES_];\n  TIDE_EACH_LANE s%d[e] = %s;\n", type, k, k, none_of(v));
  }
  tide__text_add(
      &w.t,
      "  const long long first = part * tide_a.span + from, stop = (part + 1) * tide_a.span, step = %s;\n"
      "  const long long end = stop < tide_a.columns ? stop : tide_a.columns;\n  const int count = (int)((end - first "
      "+ step - 1) / step);\n"
      "  _Pragma(\"unroll %d\") for (int n = 0; n < count; n++) {\n  const long long i = first + n * step;\n",
      shape->pieces ? "1" : "256", shape->pieces ? shape->pieces : 4);
  for (int k = 0; k < f->inputs; k++) add_part_load(&w, f->outputs + k, true);
  for (int k = 0; k < f->outputs; k++) {
    const char *type = tide__fuse_value_type(f->value[f->output[k]].dtype);
    if (f->value[f->output[k]].op == TIDE_VAR)
      tide__text_add(&w.t, "  const %s r%d = tide_inverse((%s)(n + 1));\n", type, k, type);
  }
  tide__text_add(&w.t, "  TIDE_EACH_LANE {\n");
  for (int k = 0; k < f->outputs; k++) {
    const tide_fused_node *v = &f->value[f->output[k]];
    need(&w, v->in[0]);
    if (v->op == TIDE_VAR)
      tide__text_add(&w.t, "  tide_take(s%d[e], v%d, n, r%d);\n", k, v->in[0], k);
    else if (state_of(f, k) == k)
      tide__text_add(&w.t, "  s%d[e] = tide_join<%d>(s%d[e], v%d);\n", k, join_of(v), k, v->in[0]);
  }
  tide__text_add(&w.t, "  }\n  }\n");
  for (int k = 0; k < f->outputs; k++) {
    const tide_fused_node *v = &f->value[f->output[k]];
    int join = join_of(v), from = state_of(f, k);
    bool of_spread = from != k || v->op == TIDE_VAR;
    const char *member = of_spread ? members[k - from] : "";
    if (from == k && of_spread)
      tide__text_add(&w.t, "  TIDE_EACH_LANE s%d[e].n = count, s%d[e].mean = (double)s%d[e].first + s%d[e].apart;\n", k,
                     k, k, k);
    if (from == k && !shape->pieces)
      tide__text_add(&w.t,
                     "  _Pragma(\"unroll\") for (int e = 1; e < TIDE_LANES_; e++) s%d[0] = tide_join<%d>(s%d[0], "
                     "s%d[e]);\n  s%d[0] = tide_all<%d, %d>(s%d[0]);\n",
                     k, join, k, k, k, join, k, k);
    tide__text_add(&w.t, "  %s ((tide_s%d *)tide_a.ptr[%d])[%s] = s%d[%s]%s;\n",
                   shape->pieces ? "TIDE_EACH_LANE" : "if (!threadIdx.x)", k, k, across, from,
                   shape->pieces ? "e" : "0", member);
  }
  return tide__text_end(&w.t, "fuse");
}

/* ---- the whole ---- */

static char *body_of(const tide_fused *f, const tide__fuse_shape *shape) {
  writer w = {.f = f, .shape = shape, .mine = "[TIDE_MINE]", .here = "TIDE_AT * TIDE_LANES_ + e"};
  add_loads(&w);
  if (shape->blocks > 1) tide__text_add(&w.t, "  TIDE_WAIT;\n");
  for (int i = 0; i < f->nodes; i++) {
    if (f->value[i].kind == TIDE_FUSE_REDUCE)
      add_reduce(&w, i);
    else if (f->value[i].is_row)
      need(&w, i);
  }
  if (f->row_results)
    add_row_results(&w);
  else
    add_results(&w, "TIDE_PIECES * TIDE_LANES_", "TIDE_LOOP", "");
  return tide__text_end(&w.t, "fuse");
}

static void add_declarations(tide__text *t, const tide_fused *f, const tide__fuse_shape *shape) {
  int operands = f->outputs + f->inputs;
  for (int k = 0; k < operands; k++) {
    int node = k < f->outputs ? f->output[k] : f->input[k - f->outputs];
    tide__text_add(t, "typedef %s tide_s%d;\n", tide__jit_storage_type(f->value[node].dtype), k);
  }
  tide__text_add(t, "struct tide_args {\n");
  for (int k = 0; k < f->slots; k++) tide__text_add(t, "  alignas(16) %s c%d;\n", tide__fuse_slot_type(&f->slot[k]), k);
  tide__text_add(t, "  alignas(16) void *ptr[%d];\n  long long stride[%d], rows, columns", operands, operands);
  if (!shape->group) tide__text_add(t, ", span, parts, step[%d]", operands);
  tide__text_add(
      t, ";\n};\n#define TIDE_GROUP %d\n#define TIDE_BLOCKS %d\n#define TIDE_LANES_ %d\n#define TIDE_PIECES %d\n",
      shape->group ? shape->group : 256, shape->blocks > 1 ? shape->blocks : 1, shape->lanes, shape->pieces);
}

/* Of large blocks, and of clusters, several are to be on a processor, so that some read while others write: registers
 * are what the values of a row need. */
static void add_bounds(tide__text *t, const tide_fused *f, const tide__fuse_shape *shape) {
  int threads = tide__fuse_threads(shape), words = 0, blocks = 1;
  for (int k = 0; k < f->inputs; k++)
    if (shape->spread >> (f->outputs + k) & 1) words += tide__itemsize(f->value[f->input[k]].dtype) > 4 ? 2 : 1;
  if (shape->group >= 512) blocks = 65536 / (threads * (16 + shape->pieces * shape->lanes * words));
  tide__text_add(t, "__attribute__((launch_bounds(%d, %d))) ", threads, blocks > 1 ? blocks : 1);
}

/* The whole around a body, which is freed. */
static char *around(const tide_fused *f, const tide__fuse_shape *shape, const tide_compiler *c, char *taken,
                    const char *head) {
  tide__text t = {0};
  TIDE_FREED char *body = taken, *helpers = body ? tide__fuse_helpers(body) : NULL;
  if (!helpers) return NULL;
  tide__text_add(&t, "%s%s%s", c->text->prelude, c->text->with_small, helpers);
  add_declarations(&t, f, shape);
  tide__text_add(&t, "%s%sextern \"C\" __global__ void ", TEXT_joins,
                 tide__text_names(body, "tide_spread") ? TEXT_spreads : "");
  add_bounds(&t, f, shape);
  if (shape->blocks > 1) tide__text_add(&t, "__attribute__((cluster_dims(%d, 1, 1))) ", shape->blocks);
  tide__text_add(&t, "tide_kernel(const __grid_constant__ tide_args tide_a) {\n  tide_begin();\n%s%s%s%s",
                 shape->blocks > 1 ? "  TIDE_ARRIVE;\n" : "", head, f->mail ? "  tide_wrong tide_w = {0};\n" : "",
                 body);
  if (f->mail)
    tide__text_add(&t, "  if (tide_w.length) tide_report(tide_w, tide_a.c%d, tide_a.c%d);\n", f->mail - 1, f->mail);
  tide__text_add(&t, "}\n");
  return tide__text_end(&t, "fuse");
}

char *tide__fuse_rows_source(const tide_fused *f, const tide__fuse_shape *shape, const tide_compiler *c) {
  char head[280];
  int threads = tide__fuse_threads(shape);
  snprintf(head, sizeof head,
           "  const int lane = (blockIdx.x %% TIDE_BLOCKS * %d + threadIdx.x) %% TIDE_GROUP, columns = "
           "(int)tide_a.columns;\n"
           "  const long long row = (long long)(blockIdx.x / TIDE_BLOCKS) * %d + threadIdx.x / TIDE_GROUP;\n"
           "  if (row >= tide_a.rows) return;\n",
           threads, shape->blocks > 1 ? 1 : threads / shape->group);
  return around(f, shape, c, body_of(f, shape), head);
}

char *tide__fuse_parts_source(const tide_fused *f, const tide__fuse_shape *shape, const tide_compiler *c) {
  static const char along[] =
      "  const unsigned parts = (unsigned)tide_a.parts;\n"
      "  const long long row = blockIdx.x / parts, part = blockIdx.x % parts, from = threadIdx.x;\n";
  static const char across[] =
      "  const unsigned mine = blockIdx.x * 256 + threadIdx.x, wide = (unsigned)(tide_a.rows / TIDE_LANES_);\n"
      "  const long long row = mine % wide * TIDE_LANES_, part = mine / wide, from = 0;\n"
      "  if (part >= tide_a.parts) return;\n";
  char *body = (f->is_part ? parts_body : elements_body)(f, shape);
  return around(f, shape, c, body, shape->pieces ? across : along);
}
