/* graph.c: captures and replays on simulated devices.
 *
 * What is queued on a captured stream goes to its capture's list instead. Each stream that takes part is a branch;
 * branch 0 is the one where the capture began. A branch knows how much work of every branch comes before its end (a
 * vector clock); recording an event keeps that as its frontier, waiting for the event takes it in, and a stream outside
 * that waits joins as a new branch. So the end of the capture can tell whether branch 0 comes after all work, as it
 * must.
 *
 * An instance has its own copies of what was recorded, as CUDA's have, so that one made anew knows nothing of what was
 * put into the one before. A replay queues copies of those, branch 0 on the stream of the replay and the others on
 * streams that belong to the instance, with new marks for the recorded events: the scheduler shuffles what the capture
 * did not order, as it does with everything. Since other branches begin with a wait and are waited for by branch 0, a
 * replay is one piece of the stream's order. What breaks a capture gets CUDA's error, and the rest of it is recorded no
 * more.
 *
 * Invariants: stream->capture is set exactly while the stream is a branch of a capture under way; what was recorded
 * never changes once the capture has ended, and bind.c alone changes operands of an instance, which holds its graph. */
#include <stdlib.h>

#include "backend/cpu/jit/cxx.h"
#include "sim.h"

enum { BRANCHES = 64 };

/* How much work of each branch comes before a point of a capture; `serial` says of which. */
typedef struct sim_frontier {
  uint64_t serial;
  int index; /* the how many-th record of the capture */
  uint32_t before[BRANCHES];
} sim_frontier;

typedef struct sim_branch {
  int device, priority;
  uint32_t work; /* kernels, copies and sleeps so far */
} sim_branch;

typedef struct sim_graph {
  int refs; /* the handle's and the instances' */
  int branches, marks;
  sim_branch branch[BRANCHES];
  sim_op *first, **last;
} sim_graph;

typedef struct sim_capture {
  struct sim_capture *next;
  uint64_t serial;
  bool broken;
  sim_graph *graph;
  sim_stream *stream[BRANCHES];
  uint32_t before[BRANCHES][BRANCHES];
} sim_capture;

typedef struct sim_exec {
  sim_graph *graph;
  sim_op *first;
  sim_stream *stream[BRANCHES]; /* of the branches from 1 on */
} sim_exec;

static sim_capture *captures; /* under the lock */
static uint64_t serials;

/* ---- recording ---- */

static void free_ops(sim_op *op) {
  for (sim_op *next; op; op = next) {
    next = op->next;
    tide__sim_op_free(op);
  }
}

static void graph_unref(sim_graph *g) {
  if (--g->refs) return;
  free_ops(g->first);
  free(g);
}

static void add_lane(sim_capture *c, sim_stream *stream) {
  sim_graph *g = c->graph;
  stream->capture = c, stream->branch = g->branches;
  c->stream[g->branches] = stream;
  g->branch[g->branches++] = (sim_branch){stream->device, stream->priority, 0};
  stream->refs++;
}

tide_status tide__sim_capture_begin(void *impl, int mode) {
  TIDE_TRY(tide__sim_enter("capture_begin"));
  sim_stream *stream = impl;
  sim_capture *c = calloc(1, sizeof *c);
  sim_graph *g = calloc(1, sizeof *g);
  if (!c || !g) {
    free(c), free(g);
    return tide__sim.host->fail(TIDE_MEMORY, "capture_begin: no host memory");
  }
  g->refs = 1, g->last = &g->first;
  pthread_mutex_lock(&tide__sim.lock);
  if (stream->legacy || stream->capture) {
    free(c), free(g);
    return tide__sim_capture_break(stream->capture ? stream : NULL, 900, "cudaErrorStreamCaptureUnsupported",
                                   "operation not permitted when stream is capturing", "capture_begin");
  }
  c->graph = g, c->serial = ++serials;
  c->next = captures, captures = c;
  add_lane(c, stream);
  pthread_mutex_unlock(&tide__sim.lock);
  return TIDE_OK;
}

static void note_record(sim_capture *c, sim_op *op) {
  sim_frontier *frontier = malloc(sizeof *frontier);
  op->mark->frontier = frontier;
  if (!frontier) {
    c->broken = true;
    return;
  }
  frontier->serial = c->serial, frontier->index = c->graph->marks++;
  memcpy(frontier->before, c->before[op->branch], sizeof frontier->before);
}

static void note_wait(sim_capture *c, const sim_op *op) {
  for (int k = 0; k < BRANCHES; k++)
    if (op->mark->frontier->before[k] > c->before[op->branch][k])
      c->before[op->branch][k] = op->mark->frontier->before[k];
}

void tide__sim_capture_take(sim_stream *stream, sim_op *op, double cost, const char *what) {
  sim_capture *c = stream->capture;
  op->cost = cost, op->what = what, op->branch = stream->branch;
  if (op->kind == SIM_RECORD) note_record(c, op);
  if (c->broken) {
    tide__sim_op_free(op);
    return;
  }
  if (op->kind == SIM_WAIT)
    note_wait(c, op);
  else if (op->kind != SIM_RECORD)
    c->before[op->branch][op->branch] = ++c->graph->branch[op->branch].work;
  *c->graph->last = op;
  c->graph->last = &op->next;
}

tide_status tide__sim_capture_break(sim_stream *stream, int code, const char *name, const char *text,
                                    const char *what) {
  if (stream && stream->capture) stream->capture->broken = true;
  pthread_mutex_unlock(&tide__sim.lock);
  return tide__sim.host->fail_driver(stream ? stream->device : TIDE_CPU, what, code, name, text, false);
}

tide_status tide__sim_capture_join(sim_stream *stream, const sim_mark *mark) {
  sim_capture *c = captures;
  while (c && !(mark->frontier && mark->frontier->serial == c->serial)) c = c->next;
  if (stream->capture && stream->capture == c) return TIDE_OK;
  if (!c || stream->capture)
    return tide__sim_capture_break(stream, 905, "cudaErrorStreamCaptureIsolation",
                                   "dependency created on uncaptured work in another stream", "wait_event");
  if (stream->legacy || c->graph->branches == BRANCHES)
    return tide__sim_capture_break(c->stream[0], 906, "cudaErrorStreamCaptureImplicit",
                                   "operation would make the legacy stream depend on a capturing blocking stream",
                                   "wait_event");
  add_lane(c, stream);
  return TIDE_OK;
}

sim_op *tide__sim_capture_first(const sim_stream *stream) {
  return stream->capture ? stream->capture->graph->first : NULL;
}

sim_op *tide__sim_capture_last(const sim_stream *stream) {
  const sim_graph *g = stream->capture ? stream->capture->graph : NULL;
  return g && g->first ? (sim_op *)((char *)g->last - offsetof(sim_op, next)) : NULL;
}

static void unlink_capture(sim_capture *c) {
  sim_capture **link = &captures;
  while (*link != c) link = &(*link)->next;
  *link = c->next;
}

tide_status tide__sim_capture_end(void **graph, void *impl) {
  *graph = NULL;
  TIDE_TRY(tide__sim_enter("capture_end"));
  sim_stream *origin = impl;
  pthread_mutex_lock(&tide__sim.lock);
  sim_capture *c = origin->capture;
  sim_graph *g = c->graph;
  bool broken = c->broken, joined = true;
  for (int k = 0; k < g->branches; k++) {
    if (c->before[0][k] < g->branch[k].work) joined = false;
    c->stream[k]->capture = NULL;
  }
  unlink_capture(c);
  if (broken || !joined) graph_unref(g);
  pthread_mutex_unlock(&tide__sim.lock);
  for (int k = 0; k < BRANCHES && c->stream[k]; k++) tide__sim_stream_free(c->stream[k]);
  free(c);
  if (broken)
    return tide__sim.host->fail_driver(origin->device, "capture_end", 901, "cudaErrorStreamCaptureInvalidated",
                                       "operation failed due to a previous error during capture", false);
  if (!joined)
    return tide__sim.host->fail(TIDE_STATE,
                                "capture_end: work of a stream that joined the capture is not waited for, expected the "
                                "captured stream to wait for it before the end");
  *graph = g;
  return TIDE_OK;
}

tide_status tide__sim_capture_query(tide_capture_state *out, void *impl) {
  const sim_stream *stream = impl;
  TIDE_LOCKED(&tide__sim.lock);
  *out = !stream->capture ? TIDE_CAPTURE_NONE : stream->capture->broken ? TIDE_CAPTURE_BROKEN : TIDE_CAPTURE_ACTIVE;
  return TIDE_OK;
}

void tide__sim_graph_free(void *graph) {
  if (atomic_load(&tide__sim_forked)) return;
  TIDE_LOCKED(&tide__sim.lock);
  graph_unref(graph);
}

/* ---- replaying ---- */

/* marks: those of the copies, by number; NULL: the recorded ones. */
static sim_op *copy_op(sim_op *op, sim_mark **marks) {
  sim_op *copy = tide__sim_op_new(op->kind);
  if (!copy) return NULL;
  memcpy(copy, op, op->kind == SIM_KERNEL ? sizeof *op : offsetof(sim_op, args));
  copy->next = NULL, copy->node = op;
  if (op->code) tide__blocks_hold(op->code);
  if (!op->mark) return copy;
  if (marks) copy->mark = marks[op->mark->frontier->index];
  copy->mark->refs++;
  return copy;
}

/* All of them, or false, and there are none. */
static bool copy_ops(sim_op **first, sim_op *op, sim_mark **marks) {
  sim_op **last = first;
  for (; op; op = op->next, last = &(*last)->next)
    if (!(*last = copy_op(op, marks))) {
      free_ops(*first);
      *first = NULL;
      return false;
    }
  return true;
}

sim_op *tide__sim_graph_exec_op(void *exec, const void *node, sim_op *after) {
  for (sim_op *op = after ? after->next : NULL; op; op = op->next)
    if (op->node == node) return op;
  sim_op *op = ((sim_exec *)exec)->first;
  while (op->node != node) op = op->next;
  return op;
}

tide_status tide__sim_graph_instantiate(void **out, void *graph, int device) {
  TIDE_TRY(tide__sim_enter("instantiate"));
  sim_exec *e = calloc(1, sizeof *e);
  if (!e) return tide__sim.host->fail(TIDE_MEMORY, "instantiate: no host memory");
  sim_graph *g = graph;
  bool made = true;
  pthread_mutex_lock(&tide__sim.lock);
  g->refs++;
  e->graph = g;
  made = copy_ops(&e->first, g->first, NULL);
  for (int k = 1; k < g->branches; k++)
    if (!(e->stream[k] = tide__sim_stream_make(g->branch[k].device, g->branch[k].priority))) made = false;
  pthread_mutex_unlock(&tide__sim.lock);
  if (!made) {
    tide__sim_graph_exec_free(e);
    return tide__sim.host->fail(TIDE_MEMORY, "instantiate: no host memory");
  }
  *out = e;
  return TIDE_OK;
}

void tide__sim_graph_exec_free(void *exec) {
  sim_exec *e = exec;
  for (int k = 1; k < e->graph->branches; k++) tide__sim_stream_free(e->stream[k]);
  if (!atomic_load(&tide__sim_forked)) {
    pthread_mutex_lock(&tide__sim.lock);
    free_ops(e->first);
    pthread_mutex_unlock(&tide__sim.lock);
  }
  tide__sim_graph_free(e->graph);
  free(e);
}

/* A copy of everything, before any of it is queued: half a replay would leave streams waiting for ever. */
static sim_op *copy_all(sim_exec *e, sim_mark **marks) {
  sim_op *first = NULL;
  bool made = true;
  for (int i = 0; i < e->graph->marks && made; i++) {
    made = (marks[i] = calloc(1, sizeof *marks[i])) != NULL;
    if (made) marks[i]->refs = 1;
  }
  if (made) copy_ops(&first, e->first, marks);
  return first;
}

/* Dry mode: every branch has its clock, which begins where the stream stands. */
static void charge(const sim_graph *g, sim_stream *stream, sim_mark **marks) {
  double clock[BRANCHES];
  for (int k = 0; k < g->branches; k++) clock[k] = stream->clock;
  for (const sim_op *op = g->first; op; op = op->next) {
    double *at = &clock[op->branch];
    sim_mark *mark = op->mark ? marks[op->mark->frontier->index] : NULL;
    *at += op->cost;
    if (op->kind == SIM_RECORD) mark->time = *at;
    if (op->kind == SIM_WAIT && mark->time > *at) *at = mark->time;
  }
  stream->clock = clock[0];
}

static tide_status queue_all(sim_exec *e, sim_stream *stream, sim_op *list) {
  tide_status status = TIDE_OK;
  while (list) {
    sim_op *op = list;
    list = op->next;
    op->next = NULL;
    tide_status one = tide__sim_submit(op->branch ? e->stream[op->branch] : stream, op, 0, "replay");
    if (status == TIDE_OK) status = one;
  }
  return status;
}

tide_status tide__sim_graph_launch(void *exec, void *impl) {
  TIDE_TRY(tide__sim_enter("replay"));
  sim_exec *e = exec;
  const sim_graph *g = e->graph;
  sim_mark **marks = calloc((size_t)g->marks + 1, sizeof *marks);
  if (!marks) return tide__sim.host->fail(TIDE_MEMORY, "replay: no host memory");
  pthread_mutex_lock(&tide__sim.lock);
  sim_op *list = copy_all(e, marks);
  bool made = list || !g->first, dry = atomic_load(&tide__sim_dry);
  if (made && dry) charge(g, impl, marks);
  pthread_mutex_unlock(&tide__sim.lock);
  tide_status status = made ? queue_all(e, impl, list) : TIDE_MEMORY;
  pthread_mutex_lock(&tide__sim.lock);
  for (int i = 0; i < g->marks; i++) tide__sim_mark_unref(marks[i]);
  pthread_mutex_unlock(&tide__sim.lock);
  free(marks);
  return status;
}

/* ---- a picture ---- */

static void draw_op(FILE *file, const sim_op *op, int number, int *last, int *records) {
  static const char *const shapes[] = {"box", "box", "box", "ellipse", "ellipse"};
  int branch = op->branch;
  fprintf(file, "  n%d [label=\"%d: %s\", shape=%s, group=branch%d];\n", number, number, op->what, shapes[op->kind],
          branch);
  if (last[branch] >= 0) fprintf(file, "  n%d -> n%d;\n", last[branch], number);
  if (op->kind == SIM_WAIT) fprintf(file, "  n%d -> n%d [style=dashed];\n", records[op->mark->frontier->index], number);
  if (op->kind == SIM_RECORD) records[op->mark->frontier->index] = number;
  last[branch] = number;
}

tide_status tide__sim_graph_dot(void *graph, const char *path) {
  const sim_graph *g = graph;
  int last[BRANCHES], *records = calloc((size_t)g->marks + 1, sizeof *records), number = 0;
  FILE *file = records ? fopen(path, "w") : NULL;
  if (!file) {
    free(records);
    return tide__sim.host->fail(TIDE_FILE, "debug_dump: the file could not be written, got \"%s\"", path);
  }
  for (int k = 0; k < BRANCHES; k++) last[k] = -1;
  fprintf(file, "digraph tide {\n");
  for (const sim_op *op = g->first; op; op = op->next) draw_op(file, op, number++, last, records);
  fprintf(file, "}\n");
  bool written = !ferror(file);
  written = fclose(file) == 0 && written;
  free(records);
  return written ? TIDE_OK
                 : tide__sim.host->fail(TIDE_FILE, "debug_dump: the file could not be written, got \"%s\"", path);
}
