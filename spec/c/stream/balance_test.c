/* balance_test.c: what core takes of a backend it gives back. A table between core and the simulated devices counts
 * streams, events, memory, graphs, plans and meeting places that live; none is left where a runtime closes them. The
 * table also refuses a call, each one of a program in turn: then the program's call fails, its result stays NULL, and
 * nothing is left either. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/registry.h"
#include "base/base.h"
#include "runtime/runtime.h"
#include "check.h"
#include "tide/comm.h"
#include "tide/fft.h"
#include "tide/field.h"
#include "tide/graph.h"
#include "tide/host_job.h"
#include "tide/ipc.h"
#include "tide/linalg.h"
#include "tide/loader.h"
#include "tide/memory.h"
#include "tide/nccl.h"
#include "tide/profiler.h"
#include "tide/scan.h"
#include "tide/scatter.h"
#include "tide/sort.h"

#define SIZE(...)                                                                                                      \
  (const int64_t[]) { __VA_ARGS__ }
#define LIST(...)                                                                                                      \
  (tide_tensor *[]) { __VA_ARGS__ }

enum { STREAM, EVENT, MEMORY, PINNED, ADDRESSES, MAPPED, GRAPH, EXEC, MEETING, PLAN, OPENED, KINDS };
static const char *const names[KINDS] = {"streams",        "events",       "device memory", "page-locked memory",
                                         "address ranges", "mapped bytes", "graphs",        "instances of graphs",
                                         "meeting places", "plans",        "opened memory"};
static _Atomic int64_t live[KINDS], taken[KINDS];
static const tide_backend *real;
static tide_backend counted;
static const char *work;
static _Atomic int refused_at; /* calls of the table until one is refused; 0: none is */

static tide_status may_fail(void) {
  if (refused_at <= 0 || atomic_fetch_sub(&refused_at, 1) != 1) return TIDE_OK;
  refused_at = -1;
  return tide__fail(TIDE_DEVICE, "a refused call");
}
#define PASS(call) (may_fail() == TIDE_OK ? (call) : TIDE_DEVICE)

static tide_status takes(int kind, int64_t n, tide_status status) {
  if (status != TIDE_OK) return status;
  atomic_fetch_add(&live[kind], n);
  atomic_fetch_add(&taken[kind], 1);
  return status;
}
static void gives(int kind, int64_t n) { atomic_fetch_sub(&live[kind], n); }

static tide_status stream_new(void **out, int d, int p) { return takes(STREAM, 1, PASS(real->stream_new(out, d, p))); }
static tide_status stream_wrap(void **out, int d, uint64_t handle) {
  return takes(STREAM, 1, PASS(real->stream_wrap(out, d, handle)));
}
static void stream_free(void *s) { gives(STREAM, 1), real->stream_free(s); }
static tide_status event_new(void **out, int d, uint32_t flags) {
  return takes(EVENT, 1, PASS(real->event_new(out, d, flags)));
}
static void event_free(void *e) { gives(EVENT, 1), real->event_free(e); }
static tide_status mem_alloc(void **out, int d, size_t n) {
  return takes(MEMORY, (int64_t)n, PASS(real->mem_alloc(out, d, n)));
}
static void mem_free(int d, void *p, size_t n) { gives(MEMORY, (int64_t)n), real->mem_free(d, p, n); }
static tide_status host_alloc(void **out, size_t n) {
  return takes(PINNED, (int64_t)n, PASS(real->host_alloc(out, n)));
}
static void host_free(void *p, size_t n) { gives(PINNED, (int64_t)n), real->host_free(p, n); }
static tide_status range_reserve(void **out, int d, size_t n) {
  return takes(ADDRESSES, (int64_t)n, PASS(real->range_reserve(out, d, n)));
}
static void range_release(int d, void *p, size_t n) { gives(ADDRESSES, (int64_t)n), real->range_release(d, p, n); }
static tide_status range_map(int d, void *p, size_t n) {
  return takes(MAPPED, (int64_t)n, PASS(real->range_map(d, p, n)));
}
static void range_unmap(int d, void *p, size_t n) { gives(MAPPED, (int64_t)n), real->range_unmap(d, p, n); }
static tide_status graph_instantiate(void **out, void *g, int d) {
  return takes(EXEC, 1, PASS(real->graph_instantiate(out, g, d)));
}
static void graph_exec_free(void *e) { gives(EXEC, 1), real->graph_exec_free(e); }
static void graph_free(void *g) { gives(GRAPH, 1), real->graph_free(g); }
static tide_status meet_new(void **out, int d) { return takes(MEETING, 1, PASS(real->meet_new(out, d))); }
static void meet_free(void *m) { gives(MEETING, 1), real->meet_free(m); }
static tide_status plan_new(void **out, size_t *n, int d, const tide_fft_shape *s) {
  return takes(PLAN, 1, PASS(real->fft_plan_new(out, n, d, s)));
}
static void plan_free(int d, void *p) { gives(PLAN, 1), real->fft_plan_free(d, p); }
static tide_status ipc_open(void **out, int d, const tide_ipc_handle *h) {
  return takes(OPENED, 1, PASS(real->ipc_mem_open(out, d, h)));
}
static void ipc_close(int d, void *p) { gives(OPENED, 1), real->ipc_mem_close(d, p); }
static tide_status ipc_event(void **out, int d, const tide_ipc_handle *h) {
  return takes(EVENT, 1, PASS(real->ipc_event_open(out, d, h)));
}
static tide_status capture_end(void **graph, void *stream) {
  tide_status status = real->capture_end(graph, stream);
  if (*graph) takes(GRAPH, 1, TIDE_OK);
  return status;
}

static tide_status event_record(void *e, void *s) { return PASS(real->event_record(e, s)); }
static tide_status event_wait(void *s, void *e) { return PASS(real->event_wait(s, e)); }
static tide_status copy_in(void *s, void *to, const void *from, size_t n, bool pinned) {
  return PASS(real->copy_to_device(s, to, from, n, pinned));
}
static tide_status copy_out(void *s, void *to, const void *from, size_t n, bool pinned) {
  return PASS(real->copy_to_host(s, to, from, n, pinned));
}
static tide_status copy_peer(void *s, void *to, int d, const void *from, int peer, size_t n) {
  return PASS(real->copy_peer(s, to, d, from, peer, n));
}
static tide_status read_small(void *s, void *to, const void *from, size_t n) {
  return PASS(real->read_small(s, to, from, n));
}
static tide_status capture_begin(void *s, int mode) { return PASS(real->capture_begin(s, mode)); }
static tide_status graph_launch(void *e, void *s) { return PASS(real->graph_launch(e, s)); }
static tide_status node_read(tide_node_image **out, void *n, int d) { return PASS(real->node_read(out, n, d)); }
static tide_status nodes_write(void *e, void *const *n, const tide_node_image *const *i, int *count, int d) {
  if (may_fail() == TIDE_OK) return real->nodes_write(e, n, i, count, d);
  *count = 0;
  return TIDE_DEVICE;
}
static tide_status meet_arrive(void *s, void *place) { return PASS(real->meet_arrive(s, place)); }
static tide_status meet_wait(void *s, void *place) { return PASS(real->meet_wait(s, place)); }
#define KERNEL(name, args, writes, cost, library)                                                                      \
  static tide_status may_##name(tide_stream *s, const args *a) { return PASS(real->name(s, a)); }
#include "backend/kernel.def"

/* Core has given back what it will. */
static void close_counted(void) {
  for (int k = 0; k < KINDS; k++) {
    if (live[k]) printf("%s: %lld left of %s\n", work, (long long)live[k], names[k]), failures++;
    live[k] = 0;
  }
  real->close();
}

static tide_status (*open_real)(const tide_backend **, const tide_backend_host *, const tide_config *);
static tide_status open_counted(const tide_backend **out, const tide_backend_host *host, const tide_config *config) {
  tide_status status = open_real(&real, host, config);
  if (status != TIDE_OK) return status;
  counted = *real;
  counted.close = close_counted;
  counted.stream_new = stream_new, counted.stream_free = stream_free, counted.stream_wrap = stream_wrap;
  counted.event_new = event_new, counted.event_free = event_free;
  counted.mem_alloc = mem_alloc, counted.mem_free = mem_free;
  counted.host_alloc = host_alloc, counted.host_free = host_free;
  counted.range_reserve = range_reserve, counted.range_release = range_release;
  counted.range_map = range_map, counted.range_unmap = range_unmap;
  counted.graph_instantiate = graph_instantiate, counted.graph_exec_free = graph_exec_free;
  counted.graph_free = graph_free, counted.capture_end = capture_end;
  counted.meet_new = meet_new, counted.meet_free = meet_free;
  counted.fft_plan_new = plan_new, counted.fft_plan_free = plan_free;
  counted.event_record = event_record, counted.event_wait = event_wait;
  counted.copy_to_device = copy_in, counted.copy_to_host = copy_out, counted.copy_peer = copy_peer;
  counted.read_small = read_small, counted.capture_begin = capture_begin, counted.graph_launch = graph_launch;
  counted.node_read = node_read, counted.nodes_write = nodes_write;
  counted.meet_arrive = meet_arrive, counted.meet_wait = meet_wait;
  counted.ipc_mem_open = ipc_open, counted.ipc_mem_close = ipc_close, counted.ipc_event_open = ipc_event;
#define KERNEL(name, args, writes, cost, library) counted.name = may_##name;
#include "backend/kernel.def"
  *out = &counted;
  return TIDE_OK;
}

/* What is opened from now on is counted. */
static void count_calls(void) {
  tide_config config = {.struct_size = sizeof config, .sim_devices = 2};
  OK(tide_init(&config));
  tide_backend_kind *kind = (tide_backend_kind *)tide__backend_kind_wanted(tide__config());
  open_real = kind->open, kind->open = open_counted;
  tide_shutdown();
}

/* ---- what is done ---- */

static tide_tensor *add(const tide_tensor *x, const tide_tensor *y) {
  tide_tensor *z = NULL;
  OK(tide_binary(&z, TIDE_OP_add, x, y, NULL));
  return z;
}

/* More streams than are kept for later, of two priorities and both devices. */
static void streams(void) {
  tide_stream *s[160], *again = NULL, *other = NULL;
  for (int i = 0; i < 160; i++) OK(tide_stream_new(&s[i], i % 2, -(i / 2 % 2)));
  for (int i = 0; i < 160; i++) OK(tide_stream_sleep(s[i], 1000));
  OK(tide_device_synchronize(TIDE_ALL_DEVICES));
  for (int i = 0; i < 160; i++) tide_stream_release(s[i]);
  tide_memory_pump();
  int64_t before = live[STREAM];
  CHECK(before == 2 * 64);            /* what is kept of each device */
  OK(tide_stream_new(&again, 0, -1)); /* one that was kept, of this priority */
  CHECK(live[STREAM] == before && tide_stream_priority(again) == -1);
  OK(tide_stream_wrap(&other, 0, tide_stream_handle(again)));
  tide_stream_release(other), tide_stream_release(again);
}

/* More streams of others than are kept for who wraps them again. */
static void wrapped(void) {
  for (int i = 0; i < 100; i++) {
    void *theirs = NULL;
    tide_stream *s = NULL;
    OK(real->stream_new(&theirs, i % 2, 0));
    if (tide_stream_wrap(&s, i % 2, real->stream_handle(theirs)) == TIDE_OK) tide_stream_release(s);
    real->stream_free(theirs);
  }
}

static void events(void) {
  tide_stream *s = NULL;
  tide_event *e[100], *moved = NULL;
  OK(tide_stream_new(&s, 1, 0));
  for (int i = 0; i < 100; i++) {
    OK(tide_event_new(&e[i], i % 3 == 0 ? 0 : TIDE_EVENT_TIMING));
    OK(tide_event_record(e[i], s));
    if (i % 2) OK(tide_stream_wait_event(s, e[i]));
  }
  for (int i = 0; i < 100; i++) {
    OK(tide_event_synchronize(e[i]));
    tide_event_release(e[i]);
  }
  CHECK(live[EVENT] >= 100);
  OK(tide_event_new(&moved, 0)); /* never recorded */
  tide_event_retain(moved), tide_event_release(moved), tide_event_release(moved);
  tide_stream_release(s);
}

/* What is current of a thread, a coroutine's: its streams and pools go with it. */
static void *in_a_thread(void *unused) {
  tide_stream *s = NULL;
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_current_set_stream(s));
  tide_stream_release(s);
  tide_tensor_release(full(0, 1000, 1));
  return unused;
}
static void currents(void) {
  for (int d = 0; d < 2; d++) {
    tide_current *c = tide_current_new(NULL), *copy;
    tide_stream *s = NULL;
    tide_mempool *pool = NULL;
    OK(tide_stream_new(&s, d, 0));
    OK(tide_mempool_new(&pool, d));
    tide_current_bind(c);
    OK(tide_current_set_stream(s));
    OK(tide_current_set_pool(pool, d));
    tide_tensor_release(full(d, 3000000, 1));
    copy = tide_current_new(c);
    tide_current_bind(NULL);
    tide_stream_release(s), tide_mempool_release(pool);
    tide_current_free(c), tide_current_free(copy);
  }
  pthread_t thread;
  pthread_create(&thread, NULL, in_a_thread, NULL);
  pthread_join(thread, NULL);
}

static void memory(const char *settings) {
  OK(tide_allocator_configure(settings));
  tide_stream *s = NULL;
  tide_tensor *x[40], *pinned = NULL;
  OK(tide_stream_new(&s, 0, 0));
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 40; i++) x[i] = full(i % 2, 100 << i % 14, i);
    for (int i = 0; i < 40; i += 3)
      if (i % 2 == 0) OK(tide_tensor_record_stream(x[i], s));
    for (int i = 0; i < 40; i++) tide_tensor_release(x[(i * 7) % 40]);
    if (round == 1) OK(tide_memory_empty_cache(0));
  }
  tide_tensor *most = NULL; /* more than fits: the ladder down to the last rung */
  CHECK(tide_empty(&most, SIZE(60 << 20), 1, &(tide_options){TIDE_FLOAT32, 0, false}) == TIDE_MEMORY);
  OK(tide_empty(&pinned, SIZE(300000), 1, &(tide_options){TIDE_FLOAT32, TIDE_CPU, true}));
  tide_tensor *there = NULL;
  OK(tide_to(&there, pinned, &(tide_options){TIDE_DTYPE_NONE, 1, false}, true, false));
  tide_tensor_release(there), tide_tensor_release(pinned);
  tide_stream_release(s);
}
static void growing(void) { memory("expandable_segments:True"); }
static void in_segments(void) { memory("expandable_segments:False,max_split_size_mb:32,roundup_power2_divisions:4"); }

static void graphs(void) {
  tide_stream *s = NULL;
  tide_mempool *shared = NULL;
  tide_event *inside = NULL;
  tide_tensor *x = full(0, 5000, 1), *w = full(0, 5000, 2), *z, *out = NULL;
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_event_new(&inside, 0));
  OK(tide_mempool_new(&shared, 0));
  for (int keep = 0; keep < 2; keep++)
    for (int round = 0; round < 3; round++) {
      tide_graph *g = NULL;
      OK(tide_graph_new(&g, keep));
      if (round == 2) OK(tide_graph_enable_debug(g));
      OK(tide_graph_begin(g, s, round == 1 ? shared : NULL, TIDE_CAPTURE_RELAXED));
      OK(tide_graph_input(g, "x", x));
      z = add(x, x);
      OK(tide_event_record(inside, s));
      OK(tide_random(z, TIDE_UNIFORM, 0, 1, NULL));
      OK(tide_binary(NULL, TIDE_OP_add, z, x, z));
      if (round == 0) OK(tide_fft(&out, TIDE_FFT_RFFT, x, (const int[]){0}, NULL, 1, TIDE_FFT_BACKWARD, NULL, NULL));
      OK(tide_graph_end(g));
      for (int k = 0; k < 2; k++) {
        if (keep) OK(tide_graph_instantiate(g));
        OK(tide_graph_replay(g));
        OK(tide_graph_bind(g, NULL, (const tide_tensor *const[]){k ? x : w}, 1));
        OK(tide_graph_replay(g));
      }
      if (round == 1) OK(tide_graph_reset(g));
      tide_tensor_release(z), tide_tensor_release(out), out = NULL;
      tide_graph_release(g);
    }
  tide_graph *broken = NULL; /* a capture that its graph does not outlive */
  OK(tide_graph_new(&broken, false));
  OK(tide_graph_begin(broken, s, NULL, TIDE_CAPTURE_RELAXED));
  z = add(x, w);
  tide_tensor_release(z);
  tide_graph_release(broken);
  tide_event_release(inside), tide_mempool_release(shared), tide_stream_release(s);
  tide_tensor_release(x), tide_tensor_release(w);
}

static void transforms(void) {
  for (int d = 0; d < 2; d++) {
    tide_tensor *y = NULL;
    OK(tide_fft_cache_set_max(d, 3));
    for (int n = 4; n < 10; n++) {
      tide_tensor *x = full(d, n, 1);
      OK(tide_fft(&y, TIDE_FFT_RFFT, x, (const int[]){0}, NULL, 1, TIDE_FFT_BACKWARD, NULL, NULL));
      tide_tensor_release(x), tide_tensor_release(y);
    }
    int64_t size;
    OK(tide_fft_cache_size(&size, d));
    CHECK(size == 3 && live[PLAN] == 3 + 2 * d);
    OK(tide_fft_cache_set_max(d, 2));
    OK(tide_fft_cache_size(&size, d));
    CHECK(size == 2);
  }
  OK(tide_fft_cache_clear(1));
  CHECK(live[PLAN] == 2);
}

static void host_jobs(void) {
  tide_stream *s = NULL;
  OK(tide_stream_new(&s, 0, 0));
  for (int i = 0; i < 6; i++) {
    tide_host_job *job = NULL;
    OK(tide_host_job_new(&job, 0));
    if (i) OK(tide_host_job_begin(job, s));
    if (i > 1) OK(tide_host_job_wait(job, s));
    if (i > 2) tide_host_job_end(job, i == 3 ? TIDE_VALUE : TIDE_OK, "no");
    tide_host_job_release(job);
  }
  (void)tide_device_synchronize(0); /* the failure of the fourth */
  OK(tide_device_synchronize(0));
  tide_stream_release(s);
}

static void recordings(void) {
  tide_profile *p = NULL;
  for (int k = 0; k < 2; k++) {
    tide_tensor *x = full(k, 100, 1), *cpu = full(TIDE_CPU, 100, 1);
    OK(tide_profile_begin("test", TIDE_PROFILE_EVENTS));
    for (int i = 0; i < 50; i++) tide_tensor_release(add(x, x));
    OK(tide_copy(x, cpu, true));
    if (k) OK(tide_profile_wait());
    OK(tide_profile_end(&p));
    tide_profile_free(p);
    tide_tensor_release(x), tide_tensor_release(cpu);
  }
}

static void between_devices(void) {
  tide_tensor *x = full(0, 400000, 1), *y = full(1, 400000, 2), *outs[4] = {NULL}, *sum = NULL;
  int count;
  OK(tide_comm_set_timeout(60));
  for (int k = 0; k < 3; k++) {
    OK(tide_comm_broadcast(outs, x, (const int[]){0, 1}, 2));
    tide_tensor_release(outs[0]), tide_tensor_release(outs[1]);
    OK(tide_comm_reduce_add(&sum, LIST(x, y), 2, 0));
    tide_tensor_release(sum);
    OK(tide_comm_scatter(outs, &count, x, (const int[]){0, 1}, 2, NULL, 0, NULL));
    OK(tide_comm_gather(&sum, outs, 2, 0, 1, NULL));
    tide_tensor_release(outs[0]), tide_tensor_release(outs[1]), tide_tensor_release(sum);
    OK(tide_nccl_all_reduce(LIST(x, y), LIST(x, y), 2, TIDE_NCCL_SUM, NULL));
    OK(tide_comm_broadcast_coalesced(outs, LIST(x, x), 2, (const int[]){0, 1}, 2, 1 << 16));
    for (int i = 0; i < 4; i++) tide_tensor_release(outs[i]);
    OK(tide_copy(y, x, true));
  }
  OK(tide_comm_set_timeout(0));
  tide_tensor_release(x), tide_tensor_release(y);
}

static void loaders(void) {
  for (int pin = 0; pin < 2; pin++) {
    tide_stream *kept = NULL;
    tide_loader *l = NULL;
    OK(tide_loader_new(&l, &kept, 0, pin, pin));
    tide_tensor *x[3], *item = full(TIDE_CPU, 3000, 1);
    for (int k = 0; k < 3; k++) {
      OK(tide_loader_ask(l));
      OK(tide_loader_begin(l));
      OK(tide_loader_empty(&x[k], l, SIZE(2, 3000), 2, TIDE_FLOAT32));
      OK(tide_loader_fill(l, x[k], LIST(item, item), 2, true));
      OK(tide_loader_queue(l, "=test", 1));
      tide_tensor **const list[] = {&x[k]};
      if (k < 2) OK(tide_loader_wait(l));
      if (k < 2) OK(tide_loader_bring(l, list, 1));
    }
    tide_loader_free(l); /* with a batch that nobody takes */
    for (int k = 0; k < 3; k++) tide_tensor_release(x[k]);
    tide_tensor_release(item), tide_stream_release(kept);
  }
}

static void run(const char *name, void (*fn)(void)) {
  work = name;
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = 2, .sim_memory = 128 << 20}));
  fn();
  tide_shutdown();
}

/* ---- programs with a refused call ---- */

enum { MOST = 12 };
static tide_tensor *t[MOST];
static tide_tensor *sized(tide_dtype dtype, const int64_t *size, int ndim, int device) {
  tide_tensor *x = NULL;
  (void)tide_full(&x, size, ndim, tide_int(1), &(tide_options){dtype, device, false});
  return x;
}
/* The program goes on after a failure; a tensor that a call has not made is NULL, which the next call refuses. */
#define MAKE(i, call)                                                                                                  \
  do {                                                                                                                 \
    bool waits_ = refused_at > 0;                                                                                      \
    tide_status status_ = (call);                                                                                      \
    if ((status_ == TIDE_OK) != (t[i] != NULL)) printf("%s: a result of %s\n", work, #call), failures++;               \
    if (status_ == TIDE_OK && waits_ && refused_at == -1) printf("%s: %s hides it\n", work, #call), failures++;        \
  } while (0)

static void makes_tensors(void) {
  tide_tensor *x = sized(TIDE_FLOAT32, SIZE(6, 8), 2, 0), *i = sized(TIDE_INT64, SIZE(3), 1, 0), *cols = NULL;
  tide_tensor *m = sized(TIDE_BOOL, SIZE(6, 8), 2, 0), *sq = sized(TIDE_FLOAT32, SIZE(2, 2), 2, 0);
  (void)tide_transpose(&cols, x, 0, 1);
  MAKE(0, tide_clone(&t[0], cols));
  MAKE(1, tide_contiguous(&t[1], cols));
  MAKE(2, tide_binary(&t[2], TIDE_OP_add, x, x, NULL));
  MAKE(3, tide_reduce(&t[3], TIDE_SUM, cols, NULL, NULL));
  MAKE(4, tide_matmul(&t[4], x, cols, NULL));
  MAKE(5, tide_cat(&t[5], LIST(x, x), 2, 0, NULL));
  MAKE(6, tide_index_get(&t[6], x, 0, i));
  MAKE(7, tide_mask_get(&t[7], x, m));
  MAKE(8, tide_nonzero(&t[8], m));
  MAKE(9, tide_roll(&t[9], x, SIZE(1), (const int[]){0}, 1));
  MAKE(10, tide_repeat_interleave(&t[10], x, 2, 0));
  MAKE(11, tide_to(&t[11], cols, &(tide_options){TIDE_FLOAT64, TIDE_CPU, false}, false, false));
  bool waits = refused_at > 0;
  if (tide_resize(x, SIZE(100, 8), 2) == TIDE_OK) CHECK(!waits || refused_at != -1);
  (void)tide_index_set(x, 0, i, &(tide_operand){.number = tide_int(2)});
  (void)tide_mask_set(x, m, &(tide_operand){.number = tide_int(2)});
  tide_tensor_release(x), tide_tensor_release(i), tide_tensor_release(cols), tide_tensor_release(m);
  tide_tensor_release(sq);
}

static void makes_more(void) {
  tide_tensor *x = sized(TIDE_FLOAT32, SIZE(6, 8), 2, 0), *sq = sized(TIDE_FLOAT32, SIZE(1, 1), 2, 0), *j = NULL;
  tide_tensor *i = sized(TIDE_INT64, SIZE(6), 1, 0), *image = sized(TIDE_FLOAT32, SIZE(1, 2, 5, 5), 4, 0);
  tide_tensor *w = sized(TIDE_FLOAT32, SIZE(3, 2, 2, 2), 4, 0);
  MAKE(0, tide_sort(&t[0], &j, x, 1, false));
  tide_tensor_release(j), j = NULL;
  MAKE(1, tide_scan(&t[1], TIDE_SCAN_CUMSUM, x, 0, TIDE_DTYPE_NONE, NULL));
  MAKE(2, tide_linalg_cholesky(&t[2], sq, false, NULL));
  MAKE(3, tide_linalg_solve(&t[3], sq, NULL));
  MAKE(4, tide_fft(&t[4], TIDE_FFT_RFFT, x, (const int[]){0}, NULL, 1, TIDE_FFT_BACKWARD, NULL, NULL));
  MAKE(5, tide_bincount(&t[5], i, NULL, 0));
  MAKE(6, tide_histc(&t[6], x, 4, 0, 0, NULL));
  MAKE(7, tide_conv(&t[7], image, w, NULL, 2,
                    &(tide_convolution){.stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1}));
  MAKE(8, tide_pad(&t[8], x, SIZE(1, 1), 1, TIDE_PAD_REFLECT, tide_int(0)));
  MAKE(9, tide_randperm(&t[9], 100, &(tide_options){TIDE_INT32, 0, false}, NULL));
  MAKE(10, tide_topk(&t[10], &j, x, 2, 0, true));
  MAKE(11, tide_masked_scatter(&t[11], x, NULL, x, NULL));
  (void)tide_random(x, TIDE_NORMAL, 0, 1, NULL);
  tide_tensor_release(x), tide_tensor_release(sq), tide_tensor_release(j), tide_tensor_release(i);
  tide_tensor_release(image), tide_tensor_release(w);
}

static void captures(void) {
  tide_stream *s = NULL;
  tide_graph *g = NULL;
  tide_event *e = NULL;
  tide_tensor *x = sized(TIDE_FLOAT32, SIZE(500), 1, 0), *w = sized(TIDE_FLOAT32, SIZE(500), 1, 0);
  (void)tide_stream_new(&s, 0, 0);
  (void)tide_event_new(&e, TIDE_EVENT_TIMING);
  if (s && e && tide_event_record(e, s) != TIDE_OK) { /* it is as it was */
    double ms;
    CHECK(tide_event_device(e) == TIDE_CPU && tide_event_elapsed(&ms, e, e) == TIDE_VALUE);
  } else if (s) {
    (void)tide_stream_wait_event(s, e);
  }
  (void)tide_graph_new(&g, false);
  if (s && tide_graph_begin(g, s, NULL, TIDE_CAPTURE_RELAXED) == TIDE_OK) {
    (void)tide_graph_input(g, "x", x);
    MAKE(0, tide_binary(&t[0], TIDE_OP_add, x, x, NULL));
    (void)tide_binary(NULL, TIDE_OP_add, t[0], x, t[0]);
    if (tide_graph_end(g) == TIDE_OK) {
      (void)tide_graph_replay(g);
      (void)tide_graph_bind(g, NULL, (const tide_tensor *const[]){w}, 1);
      (void)tide_graph_replay(g);
    }
  }
  tide_graph_release(g), tide_event_release(e), tide_stream_release(s);
  tide_tensor_release(x), tide_tensor_release(w);
}

static void communicates(void) {
  tide_tensor *x = sized(TIDE_FLOAT32, SIZE(4000), 1, 0), *y = sized(TIDE_FLOAT32, SIZE(4000), 1, 1);
  int count = 0;
  if (tide_comm_broadcast(t, x, (const int[]){0, 1}, 2) != TIDE_OK) CHECK(!t[0] && !t[1]);
  MAKE(2, tide_comm_reduce_add(&t[2], LIST(x, y), 2, 0));
  if (tide_comm_scatter(&t[3], &count, x, (const int[]){0, 1}, 2, NULL, 0, NULL) != TIDE_OK) CHECK(!t[3] && !t[4]);
  MAKE(5, tide_comm_gather(&t[5], LIST(x, y), 2, 0, 1, NULL));
  if (tide_comm_broadcast_coalesced(&t[6], LIST(x, x), 2, (const int[]){0, 1}, 2, 1 << 16) != TIDE_OK)
    CHECK(!t[6] && !t[7] && !t[8] && !t[9]);
  if (x && y) (void)tide_nccl_all_reduce(LIST(x, y), LIST(x, y), 2, TIDE_NCCL_SUM, NULL);
  if (x && y) (void)tide_copy(x, y, true);
  tide_tensor_release(x), tide_tensor_release(y);
}

/* The program is run with its first call refused, its second, and so on, until none is left to refuse. */
static void refuse_each(const char *name, void (*fn)(void)) {
  static char text[64];
  int k = 1;
  for (bool refused = true; refused && k < 400; k++) {
    snprintf(text, sizeof text, "%s, call %d refused", name, k);
    work = text;
    OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = 2, .sim_memory = 64 << 20}));
    refused_at = k;
    fn();
    refused = refused_at == -1;
    refused_at = 0;
    for (int i = 0; i < MOST; i++) tide_tensor_release(t[i]), t[i] = NULL;
    for (int d = 0; d < 2; d++) (void)tide_device_synchronize(d);
    CHECK(tide_memory_allocated(0) == 0 && tide_memory_allocated(1) == 0);
    tide_shutdown();
  }
  CHECK(k > 10 && k < 400);
}

/* ---- another process ---- */

enum { HANDLES = 16 };

/* The other process: each step of the import is refused once, and the same handle can be opened then. */
static void opens(int from, int to) {
  tide_ipc_tensor handle[HANDLES];
  int k = 0;
  CHECK(read(from, handle, sizeof handle) == (ssize_t)sizeof handle);
  work = "import";
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = 2, .sim_memory = 64 << 20}));
  tide_tensor_release(full(0, 10, 1)); /* the device is in use */
  for (bool refused = true; refused && k < HANDLES; k++) {
    tide_tensor *x = NULL;
    float value[300] = {0};
    refused_at = k + 1;
    tide_status status = tide_tensor_from_ipc(&x, &handle[k]);
    refused = refused_at == -1;
    refused_at = 0;
    CHECK((status != TIDE_OK) == refused && (status == TIDE_OK) == (x != NULL));
    if (refused) {
      CHECK(live[OPENED] == 0);
      OK(tide_tensor_from_ipc(&x, &handle[k]));
    }
    tide_tensor *again = NULL;
    CHECK(tide_tensor_from_ipc(&again, &handle[k]) == TIDE_STATE && !again);
    CHECK(strstr(tide_error_get()->message, "tensor_from_ipc: the handle was opened before"));
    CHECK(x && tide_tensor_numel(x) == 300 && live[OPENED] == 1);
    if (x) OK(tide_read(value, x));
    CHECK(value[0] == 7 && value[299] == 7);
    tide_tensor_release(x);
    OK(tide_device_synchronize(0));
    tide_memory_pump();
    CHECK(live[OPENED] == 0);
  }
  CHECK(k > 3 && k < HANDLES && taken[OPENED] > 3);
  tide_shutdown();
  CHECK(write(to, &k, sizeof k) == (ssize_t)sizeof k);
  CHECK(read(from, &k, 1) == 0); /* what was opened is given back before this process ends */
  fflush(stdout);
  exit(failures != 0);
}

static void between_processes(void) {
  int down[2], up[2], status = -1, opened = 0;
  if (pipe(down) || pipe(up)) exit(2);
  fflush(stdout);
  pid_t child = fork(); /* before the first runtime and its threads */
  count_calls();
  if (child == 0) close(down[1]), close(up[0]), opens(down[0], up[1]);
  close(down[0]), close(up[1]);
  work = "export";
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = 2, .sim_memory = 64 << 20}));
  tide_tensor *x = full(0, 300, 7);
  tide_ipc_tensor handle[HANDLES];
  int64_t before = tide_memory_allocated(0);
  for (int i = 0; i < HANDLES; i++) OK(tide_tensor_ipc_handle(&handle[i], x));
  CHECK(write(down[1], handle, sizeof handle) == (ssize_t)sizeof handle);
  CHECK(read(up[0], &opened, sizeof opened) == (ssize_t)sizeof opened);
  for (int i = opened; i < HANDLES; i++) { /* the rest */
    tide_tensor *own = NULL;
    OK(tide_tensor_from_ipc(&own, &handle[i]));
    tide_tensor_release(own);
  }
  tide_tensor_release(x);
  tide_ipc_collect();
  OK(tide_device_synchronize(0));
  CHECK(before > 0 && tide_memory_allocated(0) == 0);
  tide_shutdown();
  close(down[1]), close(up[0]);
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  between_processes();
  run("streams", streams);
  run("streams of others", wrapped);
  run("events", events);
  run("currents", currents);
  run("growing memory", growing);
  run("memory in segments", in_segments);
  run("graphs", graphs);
  run("transforms", transforms);
  run("host jobs", host_jobs);
  run("recordings", recordings);
  run("between devices", between_devices);
  run("loaders", loaders);
  refuse_each("tensors", makes_tensors);
  refuse_each("more tensors", makes_more);
  refuse_each("captures", captures);
  refuse_each("communication", communicates);
  for (int k = 0; k < KINDS; k++)
    if (!taken[k] && k != OPENED) printf("nothing was taken of %s\n", names[k]), failures++;
  return failures != 0;
}
