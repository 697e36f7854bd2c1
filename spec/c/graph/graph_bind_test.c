/* graph_bind_test.c: inputs of graphs that are replaced, where a script does not reach: what hosts may ask, allocations
 * that fail one after the other, a driver that takes half of a bind, memory that other streams still use. */
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "tide/sim.h"
#include "check.h"

static void start(void) {
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = 1, .sim_memory = 256 << 20}));
}

static double first_of(const tide_tensor *x) {
  tide_tensor *one = NULL;
  tide_scalar v = tide_float(-1);
  OK(tide_select(&one, x, 0, 0));
  OK(tide_item(&v, one));
  tide_tensor_release(one);
  return v.re;
}

/* y = x + w, into y. */
static tide_status add(tide_tensor *y, const tide_tensor *x, const tide_tensor *w) {
  tide_operand in[2] = {{x, {0}}, {w, {0}}};
  return tide_elementwise(NULL, TIDE_OP_add, in, (tide_scalar[]){tide_int(1), tide_int(1), tide_int(1)}, y);
}

static tide_stream *stream;

/* The begin of a graph whose inputs are x and w. */
static tide_graph *begin_graph(const tide_tensor *x, const tide_tensor *w) {
  tide_graph *g = NULL;
  OK(tide_graph_new(&g, false));
  OK(tide_graph_begin(g, stream, NULL, TIDE_CAPTURE_THREAD_LOCAL));
  OK(tide_graph_input(g, "x", x));
  OK(tide_graph_input(g, "w", w));
  return g;
}

/* A graph of two steps, y = x + w, y = y + w. */
static tide_graph *graph_of(const tide_tensor *x, const tide_tensor *w, tide_tensor *y) {
  tide_graph *g = begin_graph(x, w);
  OK(add(y, x, w));
  OK(add(y, y, w));
  OK(tide_graph_end(g));
  return g;
}

static double replayed(tide_graph *g, const tide_tensor *y) {
  OK(tide_graph_replay(g));
  return first_of(y);
}

static tide_status bind_one(tide_graph *g, const char *name, const tide_tensor *x) {
  return tide_graph_bind(g, &name, &x, 1);
}

/* ---- what a host may ask ---- */

static void arguments(void) {
  tide_tensor *x = full(0, 8, 1), *w = full(0, 8, 10), *y = full(0, 8, 0), *t = full(0, 8, 2), *u = full(0, 8, 100);
  tide_graph *g = graph_of(x, w, y);
  const tide_tensor *both[] = {t, u}, *none[] = {NULL}, *three[] = {t, u, t};
  CHECK(replayed(g, y) == 21);
  OK(tide_graph_bind(g, NULL, both, 2)); /* in the order in which they were named */
  CHECK(replayed(g, y) == 202);
  OK(tide_graph_bind(g, NULL, NULL, 0));
  OK(bind_one(g, "w", w));
  CHECK(replayed(g, y) == 22);
  CHECK(tide_graph_bind(NULL, NULL, both, 2) == TIDE_ARGUMENT && tide_graph_bind(g, NULL, NULL, 1) == TIDE_ARGUMENT);
  CHECK(tide_graph_bind(g, NULL, both, -1) == TIDE_ARGUMENT && tide_graph_bind(g, NULL, three, 3) == TIDE_VALUE);
  CHECK(tide_graph_bind(g, NULL, none, 1) != TIDE_OK && bind_one(g, "z", t) == TIDE_VALUE);
  CHECK(bind_one(g, NULL, t) == TIDE_ARGUMENT);
  CHECK(tide_graph_input(g, "x", x) == TIDE_STATE && tide_graph_input(NULL, "x", x) == TIDE_ARGUMENT);
  CHECK(tide_graph_input(g, NULL, x) == TIDE_ARGUMENT && tide_graph_input(g, "", x) == TIDE_VALUE);
  CHECK(replayed(g, y) == 22);
  tide_graph *h;
  tide_tensor *many[TIDE_GRAPH_INPUTS];
  for (int i = 0; i < TIDE_GRAPH_INPUTS; i++) many[i] = full(0, 8, i);
  OK(tide_graph_new(&h, false));
  OK(tide_graph_begin(h, stream, NULL, TIDE_CAPTURE_THREAD_LOCAL));
  OK(tide_graph_input(h, "x", x));
  CHECK(tide_graph_input(h, "x", w) == TIDE_VALUE && tide_graph_input(h, "other", x) == TIDE_VALUE);
  CHECK(tide_graph_input(h, "y", NULL) != TIDE_OK);
  OK(add(y, x, w));
  CHECK(tide_graph_input(h, "w", w) == TIDE_STATE); /* used already */
  for (int i = 1; i <= TIDE_GRAPH_INPUTS; i++) {
    char name[8];
    snprintf(name, sizeof name, "x%d", i);
    CHECK(tide_graph_input(h, name, many[i - 1]) == (i < TIDE_GRAPH_INPUTS ? TIDE_OK : TIDE_VALUE));
  }
  OK(tide_graph_end(h));
  CHECK(bind_one(h, "w", u) == TIDE_VALUE);
  OK(bind_one(h, "x", u));
  CHECK(replayed(h, y) == 110);
  tide_graph_release(h), tide_graph_release(g);
  for (int i = 0; i < TIDE_GRAPH_INPUTS; i++) tide_tensor_release(many[i]);
  tide_tensor_release(x), tide_tensor_release(w), tide_tensor_release(y), tide_tensor_release(t);
  tide_tensor_release(u);
}

/* ---- what goes wrong on the way ---- */

static const tide_backend *real;
static int left; /* calls until one fails */
static bool once;

static bool fails(void) { return once ? left-- == 0 : left-- <= 0; }

static tide_status fail(void) { return tide__fail(TIDE_ACCELERATOR, "a call of the driver that fails"); }

static tide_status write_nodes(void *exec, void *const *node, const tide_node_image *const *image, int *count,
                               int device) {
  int n = *count, one = 1;
  for (*count = 0; *count < n; ++*count) {
    if (fails()) return fail();
    TIDE_TRY(real->nodes_write(exec, node + *count, image + *count, &one, device));
  }
  return TIDE_OK;
}
static tide_status read_node(tide_node_image **out, void *node, int device) {
  return fails() ? fail() : real->node_read(out, node, device);
}
static tide_status find_nodes(void **nodes, int *count, void *impl, const tide_capture_place *before) {
  return fails() ? fail() : real->capture_nodes(nodes, count, impl, before);
}
static tide_status new_stream(void **out, int device, int priority) {
  return fails() ? fail() : real->stream_new(out, device, priority);
}
static tide_status begin(void *impl, int mode) { return fails() ? fail() : real->capture_begin(impl, mode); }
static tide_status run(tide_stream *s, const tide_elementwise_args *a) {
  return fails() ? fail() : real->elementwise(s, a);
}

static tide_status bind_failing(tide_graph *g, const char *name, const tide_tensor *x, int calls) {
  static tide_backend other;
  real = tide__backend_peek(0);
  other = *real;
  other.nodes_write = write_nodes, other.node_read = read_node, other.capture_nodes = find_nodes;
  other.stream_new = new_stream, other.capture_begin = begin, other.elementwise = run;
  left = calls;
  atomic_store(&tide__backends_ready[1], &other);
  tide_status status = bind_one(g, name, x);
  atomic_store(&tide__backends_ready[1], real);
  return status;
}

/* Each call of the driver that a bind makes fails once, the second node's too, of which the first is taken back. */
static void ramp(void) {
  tide_tensor *x = full(0, 8, 1), *w = full(0, 8, 10), *y = full(0, 8, 0), *t = full(0, 8, 2);
  bool done = false;
  int n = 0;
  for (once = true; n < 100 && !done; n++) {
    tide_graph *g = graph_of(x, w, y);
    tide_status status = bind_failing(g, "w", t, n);
    done = status == TIDE_OK;
    CHECK(done || status == TIDE_ACCELERATOR);
    CHECK(!tide_thread_is_capturing());
    CHECK(replayed(g, y) == (done ? 5 : 21));
    OK(bind_one(g, "w", t));
    CHECK(replayed(g, y) == 5);
    OK(bind_one(g, "w", w));
    CHECK(replayed(g, y) == 21);
    tide_graph_release(g);
  }
  CHECK(done && n > 10);
  tide_tensor_release(x), tide_tensor_release(w), tide_tensor_release(y), tide_tensor_release(t);
}

/* The driver takes one node, then nothing, so that the first cannot be given back: the graph is not replayed. */
static void halves(void) {
  tide_tensor *x = full(0, 8, 1), *w = full(0, 8, 10), *y = full(0, 8, 0), *t = full(0, 8, 2);
  tide_graph *g = graph_of(x, w, y);
  OK(bind_one(g, "w", t)); /* everything is learnt: what follows are two nodes */
  OK(bind_one(g, "w", w));
  once = true;
  CHECK(bind_failing(g, "w", t, 1) == TIDE_ACCELERATOR);
  CHECK(replayed(g, y) == 21);
  CHECK(bind_failing(g, "w", t, 2) == TIDE_OK); /* which were all calls of the driver: the third would have failed */
  CHECK(replayed(g, y) == 5);
  OK(bind_one(g, "w", w));
  once = false;
  CHECK(bind_failing(g, "w", t, 1) == TIDE_ACCELERATOR);
  CHECK(tide_graph_replay(g) == TIDE_STATE);
  OK(tide_graph_reset(g));
  tide_graph_release(g);
  tide_tensor_release(x), tide_tensor_release(w), tide_tensor_release(y), tide_tensor_release(t);
}

/* One operation of three steps, y = x + w, y = y + w, y = y + x. */
static tide_status run_steps(tide_stream *s, const tide_elementwise_args *a) {
  tide_elementwise_args step = *a;
  TIDE_TRY(real->elementwise(s, a));
  step.head.ptr[1] = a->head.ptr[0];
  TIDE_TRY(real->elementwise(s, &step));
  step.head.ptr[2] = a->head.ptr[1];
  return real->elementwise(s, &step);
}

/* Each of its nodes gets the inputs that it uses, in whatever order they are replaced for the first time. */
static void steps(void) {
  tide_tensor *x = full(0, 8, 1), *w = full(0, 8, 10), *y = full(0, 8, 0), *t = full(0, 8, 2), *u = full(0, 8, 100);
  const tide_tensor *both[] = {u, t}, *before[] = {w, x};
  const char *names[] = {"w", "x"};
  tide_backend other = *(real = tide__backend_peek(0));
  other.elementwise = run_steps;
  atomic_store(&tide__backends_ready[1], &other);
  for (int first = 0; first < 2; first++) {
    tide_graph *g = begin_graph(x, w);
    OK(add(y, x, w));
    OK(tide_graph_end(g));
    OK(bind_one(g, names[first], both[first]));
    CHECK(replayed(g, y) == (first ? 2 * 2 + 2 * 10 : 2 * 1 + 2 * 100));
    for (int i = 0; i < 3; i++) {
      OK(tide_graph_bind(g, names, both, 2));
      CHECK(replayed(g, y) == 2 * 2 + 2 * 100);
      OK(bind_one(g, names[first], before[first]));
      CHECK(replayed(g, y) == (first ? 2 * 1 + 2 * 100 : 2 * 2 + 2 * 10));
      OK(tide_graph_bind(g, names, before, 2));
      CHECK(replayed(g, y) == 2 * 1 + 2 * 10);
    }
    tide_graph_release(g);
  }
  atomic_store(&tide__backends_ready[1], real);
  tide_tensor_release(x), tide_tensor_release(w), tide_tensor_release(y), tide_tensor_release(t);
  tide_tensor_release(u);
}

/* More nodes than the driver gets at once: whichever it refuses, those before it become what they were. */
static void many(void) {
  enum { NODES = 70 };
  static const int refused[] = {0, 1, 31, 32, 33, 63, 64, NODES - 1};
  tide_tensor *x = full(0, 8, 1), *w = full(0, 8, 10), *y = full(0, 8, 0), *t = full(0, 8, 2);
  tide_graph *g = NULL;
  OK(tide_graph_new(&g, true));
  OK(tide_graph_begin(g, stream, NULL, TIDE_CAPTURE_THREAD_LOCAL));
  OK(tide_graph_input(g, "w", w));
  OK(add(y, x, w));
  for (int i = 1; i < NODES; i++) OK(add(y, y, w));
  OK(tide_graph_end(g));
  OK(bind_one(g, "w", t));
  OK(bind_one(g, "w", w));
  once = true;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    CHECK(bind_failing(g, "w", t, refused[i]) == TIDE_ACCELERATOR);
    CHECK(replayed(g, y) == 1 + NODES * 10);
  }
  CHECK(bind_failing(g, "w", t, NODES) == TIDE_OK);
  CHECK(replayed(g, y) == 1 + NODES * 2);
  OK(tide_graph_instantiate(g));
  CHECK(replayed(g, y) == 1 + NODES * 2);
  tide_graph_release(g);
  tide_tensor_release(x), tide_tensor_release(w), tide_tensor_release(y), tide_tensor_release(t);
}

/* ---- lifetimes ---- */

/* An input of two graphs, and twice of one of them. */
static void shared(void) {
  tide_tensor *x = full(0, 8, 1), *w = full(0, 8, 10), *y = full(0, 8, 0), *t = full(0, 8, 2);
  tide_graph *g = graph_of(x, w, y), *h = graph_of(x, w, y);
  const tide_tensor *both[] = {t, t};
  tide_storage *s = tide_tensor_storage(t);
  OK(tide_graph_bind(g, NULL, both, 2));
  OK(bind_one(h, "w", t));
  CHECK(tide_storage_refs(s) == 4);
  CHECK(replayed(g, y) == 6 && replayed(h, y) == 5);
  tide_storage_retain(s);
  tide_tensor_release(t);
  CHECK(tide_storage_refs(s) == 4 && replayed(g, y) == 6); /* somebody holds it still */
  tide_storage_release(s);
  CHECK(tide_graph_replay(g) == TIDE_STATE && tide_graph_replay(h) == TIDE_STATE);
  tide_graph_release(g);
  CHECK(tide_graph_replay(h) == TIDE_STATE && strstr(tide_error_get()->message, "'w' was freed"));
  OK(bind_one(h, "w", w));
  CHECK(replayed(h, y) == 21);
  OK(tide_graph_reset(h));
  OK(tide_device_synchronize(0));
  tide_graph_release(h);
  CHECK(tide_storage_refs(tide_tensor_storage(w)) == 1);
  tide_tensor_release(x), tide_tensor_release(w), tide_tensor_release(y);
}

static void lifetimes(void) {
  tide_tensor *x = full(0, 8, 1), *w = full(0, 8, 10), *y = full(0, 8, 0), *t = full(0, 8, 2);
  tide_graph *g = graph_of(x, w, y);
  tide_storage *old = tide_tensor_storage(x);
  CHECK(tide_storage_refs(old) == 2); /* the tensor's and the graph's */
  OK(bind_one(g, "x", t));
  CHECK(tide_storage_refs(old) == 1 && tide_storage_refs(tide_tensor_storage(t)) == 2);
  tide_tensor_release_deferred(t); /* a finaliser's: the graph goes on with what it holds */
  CHECK(replayed(g, y) == 22);
  tide_memory_empty_cache(TIDE_CURRENT);
  CHECK(replayed(g, y) == 22);
  OK(bind_one(g, "x", x));
  tide_tensor_release(x); /* by name */
  CHECK(tide_graph_replay(g) == TIDE_STATE && strstr(tide_error_get()->message, "'x' was freed"));
  t = full(0, 8, 5);
  OK(bind_one(g, "x", t));
  CHECK(replayed(g, y) == 25);
  tide_tensor_release(w);
  CHECK(tide_graph_replay(g) == TIDE_STATE && strstr(tide_error_get()->message, "'w' was freed"));
  tide_graph_release(g);
  tide_tensor_release(y), tide_tensor_release(t);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  start();
  OK(tide_stream_new(&stream, 0, 0));
  OK(tide_current_set_stream(stream));
  arguments();
  ramp();
  halves();
  steps();
  many();
  lifetimes();
  shared();
  tide_stream_release(stream);
  tide_shutdown();
  printf("graph_bind_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
