/* fuse_plan.c: what was recorded becomes steps: calls that are made again, and kernels between them.
 *
 * Operations are put into a group until something stands in the way: a call that is no view of a tensor that is there,
 * a read by an index of what the group computes, a write to memory that it reads otherwise, a limit of one kernel. Then
 * those of its values that somebody uses later, or that are written to memory that was there before, become results of
 * kernels, one for each size; what only leads to them is computed on the way and never stored.
 *
 * Invariant: a step reads what the function read there, as every write ends the group that could read it too late. */
#include "fuse.h"

#include <stdlib.h>

#include "tide/scatter.h"

#if LUA_VERSION_NUM == 504

enum { GROUP = 48, NUMBERS = TIDE_FUSE_SCALARS - 6 };

typedef struct group {
  int16_t event[GROUP], leaf[TIDE_FUSE_INPUTS];
  int events, leaves, numbers, gathered; /* gathered: inputs that are no leaves, as they are read by an index */
  bool writes;
  int16_t reduced; /* the value that reductions are over, or -1 */
  int dims;
  bool leading;
  uint8_t kind[GROUP]; /* of each event */
} group;

/* An event is none of reductions; one value a row, whose dims stay, or are gone; or is computed with such values. */
enum { PLAIN, ROW, DROPPED, OF_ROWS, MIXED };
static bool is_row(int kind) { return kind == ROW || kind == DROPPED; }

typedef struct planner {
  fuse_recorder *r;
  const char *name;
  group g;
  int steps;
  fuse_step step[FUSE_EVENTS];
  int16_t slot[FUSE_VALUES];
} planner;

static bool is_pending(const planner *p, int value) {
  for (int i = 0; i < p->g.events; i++)
    if (p->r->event[p->g.event[i]].out == value) return true;
  return false;
}

static bool same_size(const fuse_value *a, const fuse_value *b) {
  return a->ndim == b->ndim && !memcmp(a->size, b->size, a->ndim * sizeof *a->size);
}

/* Does it broadcast to x's size? */
static bool is_below(const fuse_value *v, const fuse_value *x) {
  if (v->ndim > x->ndim) return false;
  for (int d = 1; d <= v->ndim; d++)
    if (v->size[v->ndim - d] != 1 && v->size[v->ndim - d] != x->size[x->ndim - d]) return false;
  return true;
}

static void give_slot(planner *p, int value) {
  if (!p->slot[value]) p->slot[value] = (int16_t)++p->r->slots;
}

/* {==== One kernel */

static bool is_wanted(const planner *p, const fuse_event *e, int next) {
  const fuse_value *v = &p->r->value[e->out];
  if (v->target < 0) return v->last >= next;
  for (int i = 0; i < p->g.events; i++)
    if (p->r->event[p->g.event[i]].into == e->out) return false; /* it is written once more */
  return true;
}

static void mark(const planner *p, int value, bool *needed) {
  for (int i = p->g.events - 1; i >= 0; i--) {
    const fuse_event *e = &p->r->event[p->g.event[i]];
    if (e->out != value || needed[i]) continue;
    needed[i] = true;
    for (int k = 0; k < e->operands; k++)
      if (e->in[k] >= 0) mark(p, e->in[k], needed);
    return;
  }
}

static int add_node(fuse_step *s, tide_fuse_node node) {
  s->node[s->nodes] = node;
  return s->nodes++;
}

/* The node of a value: one that is computed in the kernel, or an input. */
static int node_of(const planner *p, fuse_step *s, int16_t *node, int value) {
  const fuse_value *v = &p->r->value[value];
  if (node[value] >= 0) return node[value];
  s->input[s->inputs++] = (int16_t)value;
  tide_fuse_node input = {.kind = TIDE_FUSE_INPUT, .dtype = (tide_dtype)v->dtype, .ndim = v->ndim};
  return node[value] = (int16_t)add_node(s, input);
}

static int add_number(fuse_step *s, tide_scalar number, int event, int which) {
  s->from[s->numbers] = (int16_t)(event << 3 | which);
  s->number[s->numbers] = number;
  return s->numbers++;
}

/* How many dims of x stand behind the one that the index is of, where it has no dims for them. */
static int dims_behind(const planner *p, const fuse_event *e) {
  return e->op == TIDE_FUSE_SLICES ? p->r->value[e->in[1]].ndim - 1 - e->dims : 0;
}

static void add_gather_node(const planner *p, fuse_step *s, int16_t *node, const fuse_event *e) {
  const fuse_value *x = &p->r->value[e->in[1]], *index = &p->r->value[e->in[0]];
  const int behind = dims_behind(p, e);
  tide_fuse_node n = {.kind = TIDE_FUSE_GATHER, .op = e->op, .dtype = (tide_dtype)x->dtype, .ndim = x->ndim};
  n.line = e->line, n.file = e->line > 0 ? e->file : NULL;
  if (behind) {
    s->input[s->inputs++] = e->in[0];
    n.in[0] = add_node(
        s, (tide_fuse_node){
               .kind = TIDE_FUSE_INPUT, .dtype = (tide_dtype)index->dtype, .ndim = index->ndim, .dims = behind});
  } else
    n.in[0] = node_of(p, s, node, e->in[0]);
  s->input[s->inputs++] = e->in[1];
  n.dims = e->dims;
  node[e->out] = (int16_t)add_node(s, n);
}

static void add_event_node(const planner *p, fuse_step *s, int16_t *node, int at_event) {
  const fuse_event *e = &p->r->event[at_event];
  static const tide_fuse_kind kinds[] = {
      [FUSE_OP] = TIDE_FUSE_OP, [FUSE_CAST] = TIDE_FUSE_CAST, [FUSE_REDUCE] = TIDE_FUSE_REDUCE};
  if (e->what == FUSE_GATHER) {
    add_gather_node(p, s, node, e);
    return;
  }
  tide_fuse_node n = {
      .kind = kinds[e->what], .op = e->op, .param = -1, .dims = e->dims, .leading = e->leading, .keepdim = e->keepdim};
  if (e->what == FUSE_CAST) n.dtype = (tide_dtype)e->dtype;
  for (int k = 0; k < e->operands; k++)
    n.in[k] = e->in[k] >= 0 ? node_of(p, s, node, e->in[k]) : -1 - add_number(s, e->number[k], at_event, k);
  for (int k = 0; k < e->params; k++) {
    int at = add_number(s, e->param[k], at_event, 3 + k);
    if (!k) n.param = at;
  }
  node[e->out] = (int16_t)add_node(s, n);
}

static bool step_arrays(fuse_step *s) {
  s->node = calloc(TIDE_FUSE_NODES, sizeof *s->node);
  s->number = calloc(TIDE_FUSE_SCALARS, sizeof *s->number);
  return s->node && s->number;
}

/* Asks for the kernel that these tensors need, before a call does. */
static void begin_ahead(const planner *p, const fuse_step *s) {
  tide_fuse_layout in[TIDE_FUSE_INPUTS];
  for (int k = 0; k < s->inputs; k++) {
    const fuse_value *v = &p->r->value[s->input[k]];
    in[k] = (tide_fuse_layout){v->device, v->size, v->stride};
  }
  tide_fused_begin(s->fused, in);
}

/* A kernel with these results, which are events of the group. */
static void add_kernel(planner *p, const int *results, int n) {
  bool needed[GROUP] = {false};
  int16_t node[FUSE_VALUES];
  fuse_step *s = &p->step[p->steps++];
  *s = (fuse_step){.outputs = n};
  memset(node, -1, sizeof node);
  if (!step_arrays(s)) {
    fuse_decline(p->r, "there is no memory for what it does");
    return;
  }
  for (int k = 0; k < n; k++) mark(p, p->r->event[p->g.event[results[k]]].out, needed);
  for (int i = 0; i < p->g.events; i++)
    if (needed[i]) add_event_node(p, s, node, p->g.event[i]);
  for (int k = 0; k < n; k++) {
    int16_t value = p->r->event[p->g.event[results[k]]].out;
    fuse_value *v = &p->r->value[value];
    s->written[k] = node[value], s->output[k] = value, s->into[k] = v->target;
    s->writes |= v->target >= 0;
    s->numel = tide_fuse_numel(v->size, v->ndim);
    if (v->target >= 0)
      p->slot[value] = p->slot[v->target];
    else
      give_slot(p, value);
  }
  for (int i = 0; i < s->inputs + n; i++)
    s->bytes +=
        (int64_t)tide_dtype_size((tide_dtype)p->r->value[i < s->inputs ? s->input[i] : s->output[i - s->inputs]].dtype);
  if (fuse_has_one(s)) return; /* one operation has a kernel already, which no other one is faster than */
  tide_status status = tide_fused_new(&s->fused, p->name, s->node, s->nodes, s->written, n, s->number, s->numbers);
  if (status == TIDE_OK && !s->writes) begin_ahead(p, s);
}

/* `next`: the first event that is not in the group or before it. */
static void close_group(planner *p, int next) {
  group *g = &p->g;
  bool done[GROUP] = {false};
  for (int i = 0; i < g->events; i++) {
    int results[TIDE_FUSE_OUTPUTS], n = 0;
    for (int k = i; k < g->events && n < TIDE_FUSE_OUTPUTS; k++) {
      const fuse_event *e = &p->r->event[g->event[k]], *first = n ? &p->r->event[g->event[results[0]]] : e;
      int like = n ? results[0] : k;
      if (done[k] || !is_wanted(p, e, next) || !same_size(&p->r->value[e->out], &p->r->value[first->out])) continue;
      if (is_row(g->kind[k]) != is_row(g->kind[like])) continue;
      done[k] = true;
      results[n++] = k;
    }
    if (g->writes && n == TIDE_FUSE_OUTPUTS) fuse_decline(p->r, "it gives too many results beside what it writes");
    if (n && !p->r->record->eager) add_kernel(p, results, n);
  }
  *g = (group){.reduced = -1};
}

/* {==== Groups */

static bool is_leaf(const group *g, int value) {
  for (int i = 0; i < g->leaves; i++)
    if (g->leaf[i] == value) return true;
  return false;
}

static bool fits(const planner *p, const fuse_event *e) {
  const group *g = &p->g;
  int leaves = g->leaves + g->gathered;
  if (e->what == FUSE_GATHER) leaves += 1 + !e->operands;
  for (int k = 0; k < e->operands; k++)
    if (e->in[k] >= 0 && !is_pending(p, e->in[k]) && !is_leaf(g, e->in[k])) leaves++;
  return g->events < GROUP - 1 && leaves <= TIDE_FUSE_INPUTS && g->numbers <= NUMBERS;
}

/* Would it read, in one kernel, what that kernel writes by another way? Or have another size than what is written? */
static bool conflicts(const planner *p, const fuse_event *e, int target) {
  const fuse_recorder *r = p->r;
  const group *g = &p->g;
  bool writes = g->writes || target >= 0;
  if (writes && (g->gathered || e->what == FUSE_GATHER)) return true;
  for (int i = 0; writes && i < g->events; i++) {
    const fuse_event *other = &r->event[g->event[i]];
    const fuse_value *v = &r->value[other->out];
    if (!same_size(v, &r->value[e->out])) return true;
    for (int k = 0; v->target >= 0 && k < e->operands; k++)
      if (e->in[k] >= 0 && !is_pending(p, e->in[k]) && r->value[e->in[k]].storage == r->value[v->target].storage)
        return true;
    if (target >= 0 && v->target >= 0 && v->target != target && r->value[v->target].storage == r->value[target].storage)
      return true;
  }
  for (int i = 0; target >= 0 && i < g->leaves; i++)
    if (g->leaf[i] != target && r->value[g->leaf[i]].storage == r->value[target].storage) return true;
  return false;
}

static int target_of(const planner *p, const fuse_event *e) {
  if (e->into < 0) return -1;
  return is_pending(p, e->into) ? p->r->value[e->into].target : e->into;
}

/* MIXED: with values that have lost dims and others, which broadcast in another way than rows do. */
static int kind_of(const planner *p, const fuse_event *e) {
  const group *g = &p->g;
  int count[MIXED] = {0}, tensors = 0;
  if (e->what == FUSE_REDUCE) return e->keepdim ? ROW : DROPPED;
  for (int k = 0; k < e->operands; k++) {
    int kind = PLAIN;
    for (int i = 0; i < g->events; i++)
      if (p->r->event[g->event[i]].out == e->in[k]) kind = g->kind[i];
    tensors += e->in[k] >= 0;
    count[kind] += e->in[k] >= 0;
  }
  if (count[DROPPED]) return count[DROPPED] == tensors ? DROPPED : MIXED;
  return count[PLAIN] == tensors ? PLAIN : count[ROW] == tensors ? ROW : OF_ROWS;
}

/* In a kernel of rows every value has the size of the rows, or less, but what is computed with one value a row. */
static bool breaks_rows(const planner *p, const fuse_event *e, int target) {
  const fuse_recorder *r = p->r;
  const group *g = &p->g;
  int kind = kind_of(p, e);
  if (kind == MIXED) return true;
  if (e->what == FUSE_REDUCE) {
    const fuse_value *x = &r->value[e->in[0]];
    if (g->reduced >= 0) return g->dims != e->dims || g->leading != e->leading || !same_size(x, &r->value[g->reduced]);
    for (int i = 0; i < g->events; i++)
      if (r->value[r->event[g->event[i]].out].ndim > x->ndim || !is_below(&r->value[r->event[g->event[i]].out], x))
        return true;
    return g->writes;
  }
  if (g->reduced < 0 || is_row(kind)) return g->reduced >= 0 && target >= 0;
  const fuse_value *out = &r->value[e->out], *rows = &r->value[g->reduced];
  return target >= 0 || !is_below(out, rows) || (kind == OF_ROWS && !same_size(out, rows));
}

/* Would a kernel that writes have as many results as one can have? Then it may need two, of which the first would have
 * written what the second reads. */
static bool overflows(const planner *p, int target, int at) {
  int n = 1;
  for (int i = 0; i < p->g.events; i++) n += is_wanted(p, &p->r->event[p->g.event[i]], at + 1);
  return (p->g.writes || target >= 0) && n >= TIDE_FUSE_OUTPUTS;
}

static void add_operation(planner *p, int at) {
  fuse_event *e = &p->r->event[at];
  group *g = &p->g;
  if (e->what == FUSE_GATHER) {
    bool made = is_pending(p, e->in[1]) || (is_pending(p, e->in[0]) && !e->operands);
    if (made || kind_of(p, e) != PLAIN) close_group(p, at); /* what lies in memory is read */
  }
  int target = target_of(p, e);
  if (!fits(p, e) || conflicts(p, e, target) || breaks_rows(p, e, target) || overflows(p, target, at)) {
    close_group(p, at);
    target = target_of(p, e);
  }
  for (int k = 0; k < e->operands; k++)
    if (e->in[k] >= 0 && !is_pending(p, e->in[k]) && !is_leaf(g, e->in[k])) g->leaf[g->leaves++] = e->in[k];
  for (int k = 0; k < e->operands; k++) g->numbers += e->in[k] < 0;
  g->numbers += e->params;
  if (e->what == FUSE_GATHER) g->numbers += g->gathered ? 1 : 3, g->gathered += 1 + !e->operands;
  g->kind[g->events] = (uint8_t)kind_of(p, e);
  g->event[g->events++] = (int16_t)at;
  if (e->what == FUSE_REDUCE) g->reduced = e->in[0], g->dims = e->dims, g->leading = e->leading;
  p->r->value[e->out].target = (int16_t)target;
  g->writes |= target >= 0;
  if (target >= 0) p->r->record->writes = true;
}

static bool uses_pending(const planner *p, const fuse_step *s) {
  for (int k = 0; k < s->args; k++)
    if (s->arg[k].is_tree || (s->arg[k].value >= 0 && is_pending(p, s->arg[k].value))) return true;
  return false;
}

static void add_call(planner *p, int at) {
  fuse_event *e = &p->r->event[at];
  if (!e->is_view || p->g.writes || uses_pending(p, &e->call)) close_group(p, at);
  fuse_step *s = &p->step[e->step = (int16_t)p->steps++];
  *s = e->call;
  for (int k = 0; k < s->results; k++) {
    int first = s->result[k] < -1 ? -2 - s->result[k] : s->result[k], n = s->result[k] < -1 ? s->listed[k] : 1;
    for (int i = first; i < first + n; i++) give_slot(p, i);
  }
  p->r->record->exact = true;
  p->r->record->writes |= e->writes;
  p->r->record->kernels |= s->is_kernel;
}

/* Of rows that are done in parts the CPU's own loops read once for these, in a precision that a kernel gets by more
 * steps. */
static bool is_better_alone(const planner *p, const fuse_event *e) {
  const fuse_value *x = &p->r->value[e->in[0]];
  bool spreads = e->op == TIDE_VAR || e->op == TIDE_STD || e->op == TIDE_NORM;
  return x->device < 0 && spreads && (e->leading || tide_fuse_numel(x->size + x->ndim - e->dims, e->dims) > 16384);
}

static bool is_computed_with(const planner *p, int at) {
  const fuse_recorder *r = p->r;
  for (int i = at + 1; i < r->events; i++)
    for (int k = 0; k < r->event[i].operands && r->event[i].what != FUSE_CALL; k++)
      if (r->event[i].in[k] == r->event[at].out) return true;
  return false;
}

/* Does a reduction follow of what has its size, before the group ends? */
static bool is_reduced_later(const planner *p, int at) {
  const fuse_recorder *r = p->r;
  for (int i = at + 1; i < r->events && (r->event[i].what != FUSE_CALL || r->event[i].is_view); i++)
    if (r->event[i].what == FUSE_REDUCE && same_size(&r->value[r->event[i].in[0]], &r->value[r->event[at].out]))
      return true;
  return false;
}

/* A gather that stands alone is the call that it was. On the CPU it is faster by itself, and the rest as a kernel of
 * its own, than both piece by piece; but where a reduction ends the chain nothing as large as the chain is written. */
static bool is_gather_part(const planner *p, int at) {
  const fuse_event *e = &p->r->event[at];
  if (p->r->value[e->out].device < 0 && !is_reduced_later(p, at)) return false;
  return is_computed_with(p, at) || (e->operands && is_pending(p, e->in[0]));
}

/* A reduction that stands alone, or whose second result is used, is the call that it was. */
static bool is_row_part(const planner *p, int at) {
  const fuse_recorder *r = p->r;
  const fuse_event *e = &r->event[at];
  if (is_better_alone(p, e)) return false;
  if (e->call.results > 1 && r->value[e->call.result[1]].last >= 0) return false;
  if (is_pending(p, e->in[0])) return true;
  return e->keepdim && is_computed_with(p, at); /* what follows may use both */
}

/* {==== The whole */

static bool note_results(fuse_recorder *r, int first, int top) {
  fuse_record *p = r->record;
  int n = top - first + 1;
  p->result = calloc((size_t)n + 1, sizeof *p->result);
  p->results = n;
  if (!p->result) return false;
  for (int i = 0; i < n; i++) {
    fuse_arg *a = &p->result[i];
    const ltide_tensor *u = ltide_test_handle(r->L, r->S, first + i);
    *a = (fuse_arg){.value = -1};
    r->call.seen_count = 0;
    if (u) {
      a->value = fuse_value_of(r, first + i);
      if (a->value < 0 || r->value[a->value].is_closed) return false;
      r->value[a->value].last = FUSE_EVENTS;
      continue;
    }
    if (lua_istable(r->L, first + i)) {
      for (int k = 0; k < r->tables; k++)
        if (r->table[k] == lua_topointer(r->L, first + i)) return false;
      if (!fuse_push_template(r, first + i, 0, &a->is_tree)) return false;
      for (int k = 0; k < r->call.seen_count; k++) r->value[r->call.seen[k].value].last = FUSE_EVENTS;
      a->is_tree = true;
      if (r->call.seen_count == 32) return false;
    } else
      lua_pushvalue(r->L, first + i);
    a->ref = fuse_keep(r);
  }
  return true;
}

static void place_inputs(planner *p) {
  const fuse_record *record = p->r->record;
  for (int i = 0; i < record->guards; i++) {
    const fuse_guard *g = &record->guard[i];
    if (g->want == FUSE_TENSOR) p->slot[g->input] = (int16_t)(g->slot ? g->slot : -1 - g->at);
  }
}

static void free_steps(fuse_step *step, int n) {
  for (int i = 0; i < n; i++) {
    tide_fused_free(step[i].fused);
    free(step[i].node);
    free(step[i].number);
  }
}

static bool keep_steps(fuse_record *record, planner *p) {
  record->step = malloc((size_t)(p->steps + 1) * sizeof *record->step);
  record->slot = malloc(sizeof p->slot);
  if (!record->step || !record->slot) {
    free_steps(p->step, p->steps);
    return false;
  }
  memcpy(record->step, p->step, (size_t)p->steps * sizeof *p->step);
  memcpy(record->slot, p->slot, sizeof p->slot);
  record->steps = p->steps, record->slots = p->r->slots, record->values = p->r->values;
  return true;
}

void fuse_plan(fuse_recorder *r, const char *name, int first, int top) {
  fuse_record *record = r->record;
  if (!note_results(r, first, top)) {
    fuse_decline(r, "it returns what cannot be made again");
    return;
  }
  planner *p = calloc(1, sizeof *p);
  if (!p) {
    fuse_decline(r, "there is no memory for what it does");
    return;
  }
  p->r = r, p->name = name, p->g.reduced = -1;
  for (int i = 0; i < r->values; i++) r->value[i].target = -1;
  for (int i = 0; i < r->events; i++) r->event[i].step = -1;
  place_inputs(p);
  for (int i = 0; i < r->events && !record->eager; i++)
    if (r->event[i].what == FUSE_CALL || (r->event[i].what == FUSE_REDUCE && !is_row_part(p, i)) ||
        (r->event[i].what == FUSE_GATHER && !is_gather_part(p, i)))
      add_call(p, i);
    else
      add_operation(p, i);
  if (!record->eager) close_group(p, r->events);
  if (!keep_steps(record, p)) fuse_decline(r, "there is no memory for what it does");
  if (!record->eager) fuse_trace_keep(r);
  free(p);
}

void fuse_record_free(fuse_record *p) {
  if (!p) return;
  free_steps(p->step, p->steps);
  free(p->trace);
  free(p->guard), free(p->input), free(p->step), free(p->slot), free(p->result);
  free(p);
}

#endif
