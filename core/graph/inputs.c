/* inputs.c: what is recorded of the operations that touch a graph's named inputs, so that bind.c can replace these.
 *
 * While a graph with inputs is captured, every operation tells its tensors and what it was called with before it is
 * queued. If one of them is a part of an input, the call is kept (subject.c), with the nodes that it made of the
 * backend's graph and the scratch memory that it was given. A tensor that reaches beyond an input on either side is of
 * both; what queues work without telling its call, as collectives do, cannot be called again: such an input stays what
 * it is, and the reason is kept for who tries to replace it.
 *
 * Invariant: only the capturing thread changes any of this, until the capture has ended. */
#include <stdio.h>

#include "graph.h"
#include "base/own.h"

enum { NODES = 256 }; /* of one operation */

static tide__recording *recording_of(const tide__capture *capture) { return ((const tide_graph *)capture)->recording; }

/* ---- naming ---- */

static tide_status check_input(const tide_graph *g, const char *name, const tide_tensor *x, const tide_backend *b) {
  const tide__recording *r = g->recording;
  if (!b->nodes_write)
    return tide__fail(TIDE_SUPPORT, "graph_input: %s cannot replace what a graph uses", tide__device_text(r->device));
  if (x->storage->device < 0 && !x->storage->pinned)
    return tide__fail(TIDE_DEVICE, "graph_input: '%s' is on cpu, expected device memory or page-locked memory", name);
  tide_capture_place place;
  TIDE_TRY(b->capture_place(&place, g->capture.streams[0]->impl)); /* does the driver tell? */
  uint64_t known = atomic_load_explicit(&x->storage->capture, memory_order_relaxed);
  if (known == r->capture)
    return tide__fail(TIDE_VALUE, "graph_input: '%s' was made in the capture, expected a tensor from before it", name);
  if (known == ~r->capture)
    return tide__fail(TIDE_STATE, "graph_input: the capture has used '%s' already, expected its name before", name);
  return TIDE_OK;
}

static tide_status check_others(const tide__binding *bound, const tide__input *in) {
  for (int i = 0; i < bound->n; i++) {
    const tide__input *o = bound->input[i];
    if (!strcmp(o->name, in->name))
      return tide__fail(TIDE_VALUE, "graph_input: the graph has an input '%s' already, expected another name", o->name);
    if (o->captured == in->captured && o->first < in->last && in->first < o->last)
      return tide__fail(TIDE_VALUE, "graph_input: '%s' shares memory with '%s', expected inputs that do not", in->name,
                        o->name);
  }
  if (bound->n == TIDE_GRAPH_INPUTS)
    return tide__fail(TIDE_VALUE, "graph_input: too many inputs, got one more than %d", TIDE_GRAPH_INPUTS);
  return TIDE_OK;
}

static void describe(tide__input *in, const char *name, const tide_tensor *x) {
  snprintf(in->name, sizeof in->name, "%s", name);
  in->dtype = x->dtype, in->ndim = x->ndim;
  in->device = x->storage->device, in->pinned = x->storage->pinned;
  memcpy(in->size, x->size, sizeof in->size);
  memcpy(in->stride, x->stride, sizeof in->stride);
  tide__tensor_range(&in->first, &in->last, x);
  in->captured = in->storage = x->storage;
  in->from = in->at = tide__tensor_ptr(x);
  in->begin = (const char *)x->storage->ptr + in->first;
}

static tide_status add_input(tide__recording *r, const char *name, const tide_tensor *x) {
  tide__binding *bound = r->binding;
  tide__input *in = calloc(1, sizeof *in);
  if (in && !bound && (bound = calloc(1, sizeof *bound))) bound->last = &bound->first, r->binding = bound;
  if (!in || !bound) {
    free(in);
    return tide__fail(TIDE_MEMORY, "graph_input: no host memory");
  }
  describe(in, name, x);
  tide_status status = check_others(bound, in);
  if (status != TIDE_OK) {
    free(in);
    return status;
  }
  tide__storage_bind(in->storage);
  bound->input[bound->n++] = in;
  return TIDE_OK;
}

tide_status tide_graph_input(tide_graph *g, const char *name, const tide_tensor *x) {
  const tide_backend *b;
  if (!g || !name) return tide__fail(TIDE_ARGUMENT, "graph_input: got NULL, expected a graph and a name");
  if (!name[0] || strlen(name) >= TIDE_GRAPH_NAME)
    return tide__fail(TIDE_VALUE, "graph_input: bad name, got %zu bytes, expected 1 to %d", strlen(name),
                      TIDE_GRAPH_NAME - 1);
  TIDE_TRY(tide__tensor_check(x, "graph_input", name));
  if (g->epoch != tide__epoch_now() || !g->capture.on || tide__capturing != &g->capture)
    return tide__fail(TIDE_STATE, "graph_input: the thread does not capture the graph, expected graph_begin before");
  TIDE_TRY(tide__backend(&b, g->recording->device));
  TIDE_TRY(check_input(g, name, x, b));
  return add_input(g->recording, name, x);
}

/* ---- what an operation touches ---- */

static void stick(tide__binding *bound, uint64_t inputs, uint32_t site, const char *why) {
  char where[100];
  tide__site_text(site, where, sizeof where);
  for (int i = 0; i < bound->n; i++)
    if (inputs >> i & 1 && !bound->input[i]->stuck[0])
      snprintf(bound->input[i]->stuck, sizeof bound->input[i]->stuck, "%s%s%s", why, where[0] ? ", at " : "", where);
}

static void note_written(tide__binding *bound, const tide_storage *s) {
  for (int i = 0; i < bound->written.n; i++)
    if (bound->written.item[i] == s) return;
  if (tide__grow(&bound->written.item, &bound->written.room, bound->written.n, sizeof *bound->written.item))
    bound->written.item[bound->written.n++] = s;
  else
    bound->unknown = true;
}

/* The input that holds x, from 1 on, or 0. */
static int input_of(tide__binding *bound, const tide_tensor *x, uint32_t site) {
  int64_t first, last;
  for (int i = 0; i < bound->n; i++) {
    const tide__input *in = bound->input[i];
    if (x->storage != in->captured) continue;
    tide__tensor_range(&first, &last, x);
    if (first >= in->first && last <= in->last) return i + 1;
    bound->input[i]->beside = true;
    if (first < in->last && last > in->first)
      stick(bound, (uint64_t)1 << i, site, "an operation uses memory around it together with its own");
  }
  return 0;
}

void tide__inputs_touches(tide__capture *capture, tide__operation *op) {
  tide__binding *bound = recording_of(capture)->binding;
  if (!bound) return;
  bound->touched = 0, bound->pending = NULL;
  tide__scratch_listens = NULL;
  for (int k = 0; k < op->n; k++) {
    tide__access *a = &op->access[k];
    a->input = (uint8_t)input_of(bound, a->x, op->site);
    if (a->input) {
      bound->touched |= (uint64_t)1 << (a->input - 1);
      bound->input[a->input - 1]->written |= a->write;
    } else if (a->write) {
      note_written(bound, a->x->storage);
    }
  }
  if (op->n == TIDE__ACCESSES) bound->unknown = true;
}

/* ---- the operation ---- */

static void op_free(tide__bound *o) {
  if (!o) return;
  for (int k = 0; k < o->nodes; k++) {
    if (o->base) free(o->base[k]);
    if (o->now) free(o->now[k]);
    if (o->then) free(o->then[k]);
  }
  free(o->subject), free(o->node), free(o->base), free(o->now), free(o->then), free(o->place);
  free(o);
}

void tide__inputs_launching(tide__capture *capture, const tide__operation *op) {
  tide__binding *bound = recording_of(capture)->binding;
  if (!bound || !bound->touched) return;
  const tide_backend *b = tide__backend_peek(op->stream->device);
  tide__bound *o = op->subject ? calloc(1, sizeof *o) : NULL;
  void *subject = o ? tide__subject_copy(op->what, op->subject) : NULL;
  if (!subject || b->capture_place(&bound->before, op->stream->impl) != TIDE_OK || bound->before.n < 0) {
    free(subject), free(o);
    stick(bound, bound->touched, op->site, "an operation that cannot be recorded again uses it");
    return;
  }
  o->what = op->what, o->site = op->site, o->device = op->stream->device;
  o->inputs = bound->touched;
  o->subject = subject;
  bound->pending = o;
  bound->impl = op->stream->impl;
  tide__scratch_listens = &o->scratch;
}

static bool take_nodes(tide__bound *o, const tide__binding *bound) {
  void *node[NODES];
  int n = NODES;
  const tide_backend *b = tide__backend_peek(o->device);
  if (b->capture_nodes(node, &n, bound->impl, &bound->before) != TIDE_OK) return false;
  o->node = malloc(((size_t)n + 1) * sizeof *node);
  if (!o->node) return false;
  memcpy(o->node, node, (size_t)n * sizeof *node);
  o->nodes = n;
  return true;
}

void tide__inputs_launched(tide__capture *capture, tide_status status) {
  tide__binding *bound = recording_of(capture)->binding;
  tide__bound *o = bound ? bound->pending : NULL;
  if (!o) return;
  bound->pending = NULL;
  tide__scratch_listens = NULL;
  if (status != TIDE_OK || o->scratch.failed || !take_nodes(o, bound)) {
    if (status == TIDE_OK) stick(bound, o->inputs, o->site, "an operation that cannot be recorded again uses it");
    op_free(o);
    return;
  }
  o->scratch.again = true;
  *bound->last = o;
  bound->last = &o->following;
}

/* ---- the end of the capture ---- */

/* Is the storage used outside of its input? Then the graph goes on holding it. */
static bool holds_input_alone(const tide__binding *bound, const tide_storage *s) {
  for (int i = 0; i < bound->n; i++)
    if (bound->input[i]->captured == s && !bound->input[i]->beside) return true;
  return false;
}

void tide__inputs_captured(tide__recording *r) {
  if (!r->binding) return;
  size_t kept = 0;
  for (int i = 0; i < r->count; i++)
    if (holds_input_alone(r->binding, r->held[i]))
      tide__storage_collect(r->held[i]);
    else
      r->held[kept++] = r->held[i];
  r->count = kept;
}

void tide__inputs_free(tide__recording *r) {
  tide__binding *bound = r->binding;
  if (!bound) return;
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    const tide_backend *b = bound->stream[d] ? tide__backend_peek(d) : NULL;
    if (b) b->stream_free(bound->stream[d]);
  }
  for (int i = 0; i < bound->n; i++) {
    tide__storage_unbind(bound->input[i]->storage);
    free(bound->input[i]);
  }
  op_free(bound->pending);
  for (tide__bound *o = bound->first, *next; o; o = next) {
    next = o->following;
    op_free(o);
  }
  free(bound->written.item);
  free(bound);
  r->binding = NULL;
}
