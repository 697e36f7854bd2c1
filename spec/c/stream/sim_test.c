/* sim_test.c: the simulated backend through its table, with a small host of our own instead of core.
 *
 * Each test opens the backend, does its work and closes it. What a host is told (failures, bad indexes) is noted in
 * `told`; the arithmetic is that of the CPU's loops. */
#include "backend/registry.h"
#include "tensor/tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tide/sim.h"

static int failures;
#define CHECK(cond)                                                                                                    \
  do {                                                                                                                 \
    if (!(cond)) {                                                                                                     \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #cond);                                                                \
      failures++;                                                                                                      \
    }                                                                                                                  \
  } while (0)
#define OK(expr) CHECK((expr) == TIDE_OK)

/* ---- the host ---- */

static struct {
  tide_status status;
  int code, index_failures;
  bool sticky;
  int64_t value, length;
  uint32_t site;
} told;
static _Atomic int interrupt_after; /* > 0: so many questions until the answer is yes */

static tide_status host_fail(tide_status status, const char *format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  CHECK(vsnprintf(text, sizeof text, format, list) > 0);
  va_end(list);
  CHECK(strchr(text, ':') != NULL);
  return told.status = status;
}

static tide_status host_fail_driver(int device, const char *what, int code, const char *name, const char *text,
                                    bool sticky) {
  CHECK(device >= 0 && *what && *name && *text);
  told.code = code, told.sticky = sticky;
  return told.status = TIDE_ACCELERATOR;
}

static tide_status host_wait_on(int device, const char *what) {
  CHECK(device >= TIDE_CPU);
  bool interrupted = interrupt_after > 0 && --interrupt_after == 0;
  return interrupted ? host_fail(TIDE_INTERRUPTED, "%s: interrupted", what) : TIDE_OK;
}

static tide_status host_fail_index(int device, uint32_t site, int64_t value, int64_t length, int index_base) {
  CHECK(device >= 0 && index_base == 0);
  told.value = value, told.length = length, told.site = site;
  told.index_failures++;
  return told.status = TIDE_INDEX;
}

static const tide_backend_host host = {
    .struct_size = sizeof host,
    .fail = host_fail,
    .fail_driver = host_fail_driver,
    .wait_on = host_wait_on,
    .fail_index = host_fail_index,
};

static const tide_backend *t;
static const size_t MIB = 1 << 20;

static void open_sim(int devices, size_t memory, uint64_t seed) {
  memset(&told, 0, sizeof told);
  interrupt_after = 0;
  const tide_config config = {.sim_devices = devices, .sim_memory = memory, .sim_seed = seed};
  OK(tide__backend_kind_wanted(&config)->open(&t, &host, &config));
  for (int d = 0; d < devices; d++) OK(t->device_open(d));
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- a few kernels ---- */

typedef struct lane {
  struct tide_stream_head head; /* first, as in core's struct */
} lane;
static tide_stream *stream_of(lane *l) { return (tide_stream *)(void *)l; }

static lane lane_new(int device, int priority) {
  lane l = {{NULL, device}};
  OK(t->stream_new(&l.head.impl, device, priority));
  return l;
}

static void *alloc(int device, size_t bytes) {
  void *p = NULL;
  OK(t->mem_alloc(&p, device, bytes));
  return p;
}

static tide_status fill(lane *l, void *ptr, int64_t n, float value) {
  tide_fill_args a = {.flat = 1, .ndim = 1, .dtype = TIDE_FLOAT32, .numel = n, .size = {n}, .stride = {1}};
  a.head.ptr[0] = ptr, a.head.nptr = 1, a.head.device = l->head.device;
  memcpy(a.bits, &value, sizeof value);
  return t->fill(stream_of(l), &a);
}

static tide_status add_number(lane *l, void *out, void *in, int64_t n, double number) {
  tide_elementwise_args a = {
      .op = TIDE_OP_add, .operands = 3, .compute = TIDE_FLOAT32, .flat = 1, .ndim = 1, .numel = n};
  a.head.ptr[0] = out, a.head.ptr[1] = in, a.head.nptr = 2, a.head.device = l->head.device;
  a.dtype[0] = a.dtype[1] = a.dtype[2] = TIDE_FLOAT32;
  a.is_number[2] = 1, a.number[2].re = number;
  a.size[0] = n, a.stride[0][0] = a.stride[1][0] = 1;
  return t->elementwise(stream_of(l), &a);
}

static tide_status gather(lane *l, void *dst, void *src, void *index, int64_t count, int64_t length, uint32_t site) {
  tide_index_args a = {
      .item_size = 4, .index_dtype = TIDE_INT64, .ndim = 1, .numel = count, .length = length, .pitch = 1};
  a.size[0] = count, a.stride[0][0] = a.stride[2][0] = 1;
  a.head.ptr[0] = dst, a.head.ptr[1] = src, a.head.ptr[2] = index, a.head.nptr = 3;
  a.head.device = l->head.device, a.head.site = site;
  return t->gather(stream_of(l), &a);
}

static float first(lane *l, const void *ptr) {
  float value = 0;
  OK(t->read_small(l->head.impl, &value, ptr, sizeof value));
  return value;
}

/* ---- tests ---- */

static void test_device(void) {
  open_sim(3, 8 * MIB, 0);
  int n = 0;
  OK(t->device_count(&n));
  CHECK(n == 3);
  tide_device_props p;
  OK(t->device_props(&p, 2));
  CHECK(p.simulated && p.major == 9 && p.total_memory == 8 * MIB);
  CHECK(t->device_props(&p, 3) == TIDE_DEVICE);
  bool can = false;
  OK(t->device_can_access_peer(&can, 0, 1));
  CHECK(can);
  OK(tide_sim_fault("peer:off"));
  OK(t->device_can_access_peer(&can, 0, 1));
  CHECK(!can);
  t->close();
}

static void test_memory(void) {
  open_sim(2, 8 * MIB, 0);
  size_t free = 0, total = 0;
  char *a = alloc(0, 3 * MIB), *b = alloc(0, 3 * MIB);
  OK(t->device_mem_info(&free, &total, 0));
  CHECK(free == 2 * MIB && total == 8 * MIB);
  void *none = &free;
  CHECK(t->mem_alloc(&none, 0, 3 * MIB) == TIDE_MEMORY && none == &free);
  char *other = alloc(1, 8 * MIB);
  t->mem_free(0, a, 3 * MIB);
  char *c = alloc(0, 5 * MIB); /* does not fit between, but it fits */
  CHECK(c != b && other != c);
  lane l = lane_new(0, 0);
  uint32_t bits = 0;
#if defined(__SANITIZE_THREAD__)
  const size_t at = MIB / 2; /* no more is filled there */
#else
  const size_t at = 4 * MIB;
#endif
  OK(t->read_small(l.head.impl, &bits, c + at, sizeof bits));
  CHECK(bits == 0xFFFFFFFFu); /* poison: NaN, or -1 */
  t->stream_free(l.head.impl);
  t->close();
}

/* Memory that is freed on a stream is the stream's own at once, others' when the stream has come there; where the
 * device is full, an allocation waits for that. */
static void test_ordered_memory(void) {
  open_sim(2, 8 * MIB, 0);
  lane l = lane_new(0, 0), m = lane_new(0, 0);
  void *x, *y, *z;
  size_t reserved;
  bool done = true;
  OK(t->mem_alloc_async(&x, l.head.impl, 5 * MIB));
  OK(t->mem_alloc_async(&y, l.head.impl, 2 * MIB));
  OK(t->mem_reserved_async(&reserved, 0));
  CHECK(reserved == 7 * MIB);
  CHECK(t->mem_alloc_async(&z, m.head.impl, 2 * MIB) == TIDE_MEMORY); /* nothing is freed */
  OK(t->stream_sleep(l.head.impl, 50000000));
  OK(t->mem_free_async(l.head.impl, x));
  OK(t->mem_alloc_async(&z, l.head.impl, 5 * MIB));
  CHECK(z == x);
  OK(t->stream_query(&done, l.head.impl));
  CHECK(!done);
  OK(t->mem_free_async(l.head.impl, z));
  OK(t->mem_alloc_async(&z, m.head.impl, 6 * MIB)); /* waits for the sleep */
  OK(t->stream_query(&done, l.head.impl));
  CHECK(done);
  OK(t->mem_reserved_async(&reserved, 0));
  CHECK(reserved == 8 * MIB);
  OK(t->mem_reserved_async(&reserved, 1));
  CHECK(reserved == 0);
  OK(t->mem_free_async(m.head.impl, z));
  OK(t->mem_free_async(l.head.impl, y));
  OK(t->mem_trim_async(0));
  OK(t->mem_reserved_async(&reserved, 0));
  CHECK(reserved == 0);
  t->stream_free(l.head.impl), t->stream_free(m.head.impl);
  t->close();
}

/* The address of device memory is nothing for the host: the system refuses it. */
static void test_untouchable(void) {
  open_sim(1, 8 * MIB, 0);
  char *a = alloc(0, MIB);
  int fd[2];
  CHECK(pipe(fd) == 0);
  CHECK(write(fd[1], a, 1) == -1);
  close(fd[0]), close(fd[1]);
  t->close();
}

static void test_order(uint64_t seed) {
  open_sim(1, 8 * MIB, seed);
  lane l = lane_new(0, 0), m = lane_new(0, -1);
  int64_t n = 1000;
  void *x = alloc(0, MIB), *y = alloc(0, MIB);
  void *e;
  OK(t->event_new(&e, 0, 0));
  OK(fill(&l, x, n, 0));
  for (int i = 0; i < 50; i++) OK(add_number(&l, x, x, n, 1));
  OK(t->event_record(e, l.head.impl));
  OK(t->event_wait(m.head.impl, e));
  OK(add_number(&m, y, x, n, 0.5));
  CHECK(first(&m, y) == 50.5f);
  CHECK(first(&l, x) == 50);
  bool done = false;
  OK(t->event_query(&done, e));
  CHECK(done);
  t->event_free(e);
  t->stream_free(l.head.impl), t->stream_free(m.head.impl);
  t->close();
}

/* A long sleep holds its stream, whether it has begun or waits behind one that has, until it is told to end; a short
 * sleep ends by itself alone. */
static void test_wake(void) {
  open_sim(1, 8 * MIB, 0);
  lane l = lane_new(0, 0), m = lane_new(0, 0);
  const int64_t hour = 3600000000000, moment = 300000000;
  bool done = true;
  OK(t->stream_sleep(l.head.impl, hour));
  OK(t->stream_sleep(l.head.impl, hour));
  void *before, *after;
  OK(t->event_new(&before, 0, TIDE_EVENT_TIMING));
  OK(t->event_new(&after, 0, TIDE_EVENT_TIMING));
  OK(t->event_record(before, m.head.impl));
  OK(t->stream_sleep(m.head.impl, moment));
  OK(t->event_record(after, m.head.impl));
  void *x = alloc(0, MIB), *y = alloc(0, MIB);
  OK(fill(&l, x, 16, 1));
  OK(fill(&m, y, 16, 2));
  OK(t->stream_query(&done, l.head.impl));
  CHECK(!done);
  tide_sim_wake();
  CHECK(first(&l, x) == 1 && first(&m, y) == 2);
  double ms = 0;
  OK(t->event_elapsed(&ms, before, after));
  CHECK(ms >= 300);
  OK(t->stream_sleep(l.head.impl, hour)); /* those that are queued later are not concerned */
  OK(t->stream_query(&done, l.head.impl));
  CHECK(!done);
  tide_sim_wake();
  OK(t->stream_sync(l.head.impl));
  t->event_free(before), t->event_free(after);
  t->stream_free(l.head.impl), t->stream_free(m.head.impl);
  t->close();
}

/* What nothing orders must come out in both orders, one run or another. */
static void test_disorder(void) {
  int before = 0, after = 0;
  for (uint64_t seed = 0; seed < 200 && !(before && after); seed++) {
    open_sim(1, 8 * MIB, seed);
    lane l = lane_new(0, 0), m = lane_new(0, 0);
    void *x = alloc(0, MIB), *y = alloc(0, MIB), *a, *b;
    OK(t->event_new(&a, 0, TIDE_EVENT_TIMING));
    OK(t->event_new(&b, 0, TIDE_EVENT_TIMING));
    for (int i = 0; i < 4; i++) {
      OK(fill(&l, x, 16, 1));
      OK(fill(&m, y, 16, 2));
    }
    OK(t->event_record(a, l.head.impl));
    OK(t->event_record(b, m.head.impl));
    OK(t->device_sync(0));
    double ms = 0;
    OK(t->event_elapsed(&ms, a, b));
    before += ms > 0, after += ms < 0;
    t->event_free(a), t->event_free(b);
    t->stream_free(l.head.impl), t->stream_free(m.head.impl);
    t->close();
  }
  CHECK(before && after);
}

static void test_copies(void) {
  open_sim(2, 8 * MIB, 3);
  lane l = lane_new(0, 0), far = lane_new(1, 0);
  float *pinned = NULL, here[1024], big[65536];
  OK(t->host_alloc((void **)&pinned, sizeof here));
  void *x = alloc(0, MIB), *y = alloc(1, MIB);
  for (int i = 0; i < 1024; i++) pinned[i] = (float)i;
  OK(tide_sim_fault("slow:200")); /* so late that nothing else can be */
  OK(t->copy_to_device(l.head.impl, x, pinned, sizeof here, true));
  OK(tide_sim_fault(NULL));
  bool done = true;
  OK(t->stream_query(&done, l.head.impl));
  CHECK(!done);
  OK(t->copy_to_host(l.head.impl, here, x, sizeof here, false));
  CHECK(here[1023] == 1023);
  OK(t->copy_peer(l.head.impl, y, 1, x, 0, sizeof here));
  OK(t->stream_sync(l.head.impl));
  CHECK(first(&far, (float *)y + 7) == 7);
  for (int i = 0; i < 1024; i++) here[i] = 5;
  OK(t->copy_to_device(l.head.impl, x, here, sizeof here, false));
  for (int i = 0; i < 1024; i++) here[i] = 6; /* staged: this changes nothing */
  OK(t->copy_to_host(l.head.impl, pinned, x, sizeof here, true));
  OK(t->stream_sync(l.head.impl));
  CHECK(pinned[0] == 5 && pinned[1023] == 5);
  for (int i = 0; i < 65536; i++) big[i] = 2;
  OK(t->copy_to_device(l.head.impl, x, big, sizeof big, false));
  CHECK(first(&l, (float *)x + 65535) == 2);
  OK(add_number(&l, pinned, x, 8, 1)); /* a kernel may write page-locked memory */
  OK(t->stream_sync(l.head.impl));
  CHECK(pinned[7] == 3);
  t->host_free(pinned, sizeof here);
  t->stream_free(l.head.impl), t->stream_free(far.head.impl);
  t->close();
}

static void test_events(void) {
  open_sim(2, 8 * MIB, 0);
  lane l = lane_new(0, 0), other = lane_new(1, 0);
  void *a, *b, *plain;
  double ms = -1, begun = seconds();
  OK(t->event_new(&a, 0, TIDE_EVENT_TIMING));
  OK(t->event_new(&b, 0, TIDE_EVENT_TIMING));
  OK(t->event_new(&plain, 0, 0));
  CHECK(t->event_elapsed(&ms, a, b) == TIDE_VALUE);
  OK(t->event_record(a, l.head.impl));
  OK(t->stream_sleep(l.head.impl, 20000000)); /* 20 ms at 1 GHz */
  OK(t->stream_sleep(l.head.impl, 3600000000000));
  OK(t->event_record(b, l.head.impl));
  OK(t->event_record(plain, l.head.impl));
  bool done = true;
  OK(t->event_query(&done, b));
  CHECK(!done);
  CHECK(t->event_elapsed(&ms, a, b) == TIDE_STATE);
  CHECK(t->event_record(a, other.head.impl) == TIDE_DEVICE);
  OK(t->event_wait(other.head.impl, b));
  tide_sim_wake();
  OK(t->event_sync(b));
  OK(t->event_elapsed(&ms, a, b));
  CHECK(ms >= 20 && ms <= 1e3 * (seconds() - begun)); /* no longer than the host saw */
  CHECK(t->event_elapsed(&ms, a, plain) == TIDE_VALUE);
  OK(t->device_sync(1));
  t->event_free(plain); /* perhaps before it is reached */
  t->event_free(a), t->event_free(b);
  t->stream_free(l.head.impl), t->stream_free(other.head.impl);
  t->close();
}

/* Each record counts for itself, also when the same event is recorded on streams that reach it in another order. */
static void test_event_again(void) {
  open_sim(1, 8 * MIB, 0);
  lane slow = lane_new(0, 0), fast = lane_new(0, 0), m = lane_new(0, 0), n = lane_new(0, 0);
  void *x = alloc(0, MIB), *y = alloc(0, MIB), *z = alloc(0, MIB), *e;
  OK(t->event_new(&e, 0, 0));
  OK(fill(&slow, x, 16, 0));
  OK(t->stream_sync(slow.head.impl));
  OK(t->stream_sleep(slow.head.impl, 10000000));
  OK(fill(&slow, x, 16, 1));
  OK(t->event_record(e, slow.head.impl));
  OK(t->event_wait(m.head.impl, e)); /* for the slow one */
  OK(t->event_record(e, fast.head.impl));
  OK(t->event_wait(n.head.impl, e)); /* for the fast one */
  OK(add_number(&m, y, x, 16, 0));
  OK(fill(&n, z, 16, 3));
  CHECK(first(&n, z) == 3);
  CHECK(first(&m, y) == 1);
  OK(t->device_sync(0));
  bool done = false;
  OK(t->event_query(&done, e));
  CHECK(done);
  OK(t->event_wait(n.head.impl, e));
  OK(t->stream_sync(n.head.impl));
  t->event_free(e);
  t->stream_free(slow.head.impl), t->stream_free(fast.head.impl);
  t->stream_free(m.head.impl), t->stream_free(n.head.impl);
  t->close();
}

/* A stream that is given back with work in it still does the work. */
static void test_stream_end(void) {
  open_sim(1, 8 * MIB, 1);
  lane l = lane_new(0, 0), m = lane_new(0, 0);
  void *x = alloc(0, MIB), *e, *wrapped, *legacy;
  OK(t->stream_wrap(&wrapped, 0, t->stream_handle(m.head.impl)));
  CHECK(wrapped == m.head.impl);
  t->stream_free(wrapped);
  OK(t->stream_wrap(&legacy, 0, 0));
  CHECK(t->stream_handle(legacy) == 0 && t->stream_handle(l.head.impl) != 0);
  CHECK(t->stream_wrap(&wrapped, 0, 12345) == TIDE_VALUE);
  t->stream_free(legacy);
  OK(t->event_new(&e, 0, 0));
  OK(t->stream_sleep(l.head.impl, 5000000));
  OK(fill(&l, x, 16, 4));
  OK(t->event_record(e, l.head.impl));
  t->stream_free(l.head.impl);
  OK(t->event_wait(m.head.impl, e));
  t->event_free(e);
  CHECK(first(&m, x) == 4);
  t->stream_free(m.head.impl);
  t->close();
}

static void test_interrupt(void) {
  open_sim(1, 8 * MIB, 0);
  lane l = lane_new(0, 0);
  OK(t->stream_sleep(l.head.impl, 3600000000000));
  interrupt_after = 2;
  CHECK(t->stream_sync(l.head.impl) == TIDE_INTERRUPTED);
  t->stream_free(l.head.impl);
  t->close(); /* drops the rest of the sleep */
}

static void test_bad_index(void) {
  open_sim(1, 8 * MIB, 0);
  lane l = lane_new(0, 0);
  void *x = alloc(0, MIB), *out = alloc(0, MIB), *index = alloc(0, MIB);
  int64_t good[] = {1, -1}, bad[] = {0, 9, 12};
  OK(fill(&l, x, 4, 8));
  OK(t->copy_to_device(l.head.impl, index, good, sizeof good, false));
  OK(gather(&l, out, x, index, 2, 4, 1));
  CHECK(first(&l, (float *)out + 1) == 8);
  OK(t->copy_to_device(l.head.impl, index, bad, sizeof bad, false));
  OK(gather(&l, out, x, index, 3, 4, 77));
  OK(gather(&l, out, x, index, 3, 4, 78));
  CHECK(t->stream_sync(l.head.impl) == TIDE_INDEX);
  CHECK(told.value == 9 && told.length == 4 && told.site == 77 && told.index_failures == 1);
  OK(t->stream_sync(l.head.impl)); /* told once, and the device lives */
  CHECK(first(&l, x) == 8);
  t->stream_free(l.head.impl);
  t->close();
}

static void test_faults(void) {
  open_sim(2, 8 * MIB, 0);
  lane l = lane_new(0, 0), other = lane_new(1, 0);
  void *x = alloc(0, MIB), *y = alloc(1, MIB), *p = NULL, *e;
  CHECK(tide_sim_fault("alloc") == TIDE_VALUE && tide_sim_fault("launch:x") == TIDE_VALUE);
  OK(tide_sim_fault("alloc:2,launch:3"));
  CHECK(t->mem_alloc(&p, 0, MIB) == TIDE_OK && t->mem_alloc(&p, 0, MIB) == TIDE_MEMORY &&
        t->mem_alloc(&p, 0, MIB) == TIDE_OK);
  for (int i = 0; i < 3; i++) OK(fill(&l, x, 4, (float)i)); /* the failure comes later */
  CHECK(t->stream_sync(l.head.impl) == TIDE_ACCELERATOR && told.code == 719 && !told.sticky);
  CHECK(first(&l, x) == 1); /* the third was not run; the device lives */
  OK(tide_sim_fault("sticky:1"));
  OK(t->event_new(&e, 0, 0));
  OK(fill(&l, x, 4, 1));
  CHECK(t->stream_sync(l.head.impl) == TIDE_ACCELERATOR && told.sticky);
  CHECK(fill(&l, x, 4, 1) == TIDE_ACCELERATOR && t->mem_alloc(&p, 0, 1) == TIDE_ACCELERATOR);
  CHECK(t->event_record(e, l.head.impl) == TIDE_ACCELERATOR);
  OK(t->event_wait(other.head.impl, e)); /* the other device is not held up */
  OK(fill(&other, y, 4, 9));
  CHECK(first(&other, y) == 9);
  OK(tide_sim_fault("lost:1"));
  CHECK(t->stream_sync(other.head.impl) == TIDE_ACCELERATOR && told.code == 46);
  t->event_free(e);
  t->stream_free(l.head.impl), t->stream_free(other.head.impl);
  t->close();
}

/* Memory that is not live, or is another device's, is an illegal access. */
static void test_illegal(void) {
  open_sim(2, 8 * MIB, 0);
  lane l = lane_new(0, 0), other = lane_new(1, 0);
  char *x = alloc(0, MIB);
  t->mem_free(0, x, MIB);
  OK(fill(&l, x, 4, 1));
  CHECK(t->stream_sync(l.head.impl) == TIDE_ACCELERATOR && told.code == 700);
  char *y = NULL;
  CHECK(t->mem_alloc((void **)&y, 0, MIB) == TIDE_ACCELERATOR);
  float local[4];
  OK(fill(&other, local, 4, 1));
  CHECK(t->device_sync(1) == TIDE_ACCELERATOR);
  t->stream_free(l.head.impl), t->stream_free(other.head.impl);
  t->close();
}

static void test_dry(void) {
  setenv("TIDE_SIM_DRY", "1", 1);
  open_sim(1, (size_t)8 << 30, 0);
  unsetenv("TIDE_SIM_DRY");
  lane l = lane_new(0, 0), m = lane_new(0, 0);
  void *a = alloc(0, (size_t)3 << 30), *b = alloc(0, (size_t)3 << 30), *start, *end;
  OK(t->event_new(&start, 0, TIDE_EVENT_TIMING));
  OK(t->event_new(&end, 0, TIDE_EVENT_TIMING));
  OK(t->event_record(start, l.head.impl));
  double real = seconds(), ms = 0;
  for (int i = 0; i < 100000; i++) OK(add_number(&l, a, b, (int64_t)3 << 28, 1));
  OK(t->event_record(end, l.head.impl));
  OK(t->event_wait(m.head.impl, end));
  OK(t->event_elapsed(&ms, start, end));
  CHECK(ms > 150000 && ms < 170000 && seconds() - real < 60);
  CHECK(tide_sim_time() > 150);
  float value = 1;
  OK(t->read_small(m.head.impl, &value, a, sizeof value));
  CHECK(value == 0);
  OK(tide_sim_set_dry(false));
  t->mem_free(0, a, (size_t)3 << 30);
  a = alloc(0, MIB);
  OK(fill(&l, a, 4, 2));
  CHECK(first(&l, a) == 2);
  t->event_free(start), t->event_free(end);
  t->stream_free(l.head.impl), t->stream_free(m.head.impl);
  t->close();
}

/* A child has no workers: it is told so, ends in peace, and may start anew. */
static void test_fork(void) {
  open_sim(1, 8 * MIB, 0);
  lane l = lane_new(0, 0);
  void *x = alloc(0, MIB);
  OK(fill(&l, x, 4, 1));
  pid_t child = fork();
  if (child == 0) {
    int before = failures;
    CHECK(fill(&l, x, 4, 1) == TIDE_STATE && t->stream_sync(l.head.impl) == TIDE_STATE);
    t->close();
#ifdef __SANITIZE_THREAD__ /* which allows no threads here */
    _exit(failures > before);
#endif
    open_sim(1, 8 * MIB, 0);
    lane mine = lane_new(0, 0);
    void *y = alloc(0, MIB);
    OK(fill(&mine, y, 4, 3));
    CHECK(first(&mine, y) == 3);
    t->close();
    _exit(failures > before);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(first(&l, x) == 1);
  t->stream_free(l.head.impl);
  t->close();
}

static void *hammer(void *arg) {
  int device = *(int *)arg;
  lane l = lane_new(device, 0);
  for (int i = 0; i < 40; i++) {
    void *x = alloc(device, 8192), *e;
    OK(t->event_new(&e, device, 0));
    for (int k = 0; k < 5; k++) OK(fill(&l, x, 64, (float)(i + k)));
    OK(t->event_record(e, l.head.impl));
    OK(t->event_sync(e));
    CHECK(first(&l, x) == (float)(i + 4));
    t->event_free(e);
    t->mem_free(device, x, 8192);
  }
  t->stream_free(l.head.impl);
  return NULL;
}

/* What is left goes with the backend, once. */
static void test_close_again(void) {
  for (int i = 0; i < 3; i++) {
    open_sim(1, 8 * MIB, 0);
    void *ptr = NULL;
    for (int k = 0; k <= i; k++) OK(t->host_alloc(&ptr, 4096));
    memset(ptr, i, 4096);
    t->close();
  }
}

static void test_threads(void) {
  open_sim(2, 8 * MIB, 0);
  pthread_t thread[4];
  int device[4] = {0, 1, 0, 1};
  for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, hammer, &device[i]);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  size_t free = 0, total = 0;
  OK(t->device_mem_info(&free, &total, 0));
  CHECK(free == total);
  t->close();
}

int main(void) {
  setenv("TIDE_SIM_CLOCK", "real", 1); /* clock_test has the other */
  test_device();
  test_memory();
  test_ordered_memory();
  test_untouchable();
  for (uint64_t seed = 0; seed < 20; seed++) test_order(seed);
  test_wake();
  test_disorder();
  test_copies();
  test_events();
  test_event_again();
  test_stream_end();
  test_interrupt();
  test_bad_index();
  test_faults();
  test_illegal();
  test_dry();
  test_fork();
  test_close_again();
  test_threads();
  /* The process may end with work queued. */
  open_sim(1, 8 * MIB, 0);
  lane l = lane_new(0, 0);
  OK(t->stream_sleep(l.head.impl, 1000000000));
  OK(fill(&l, alloc(0, MIB), 1 << 18, 1));
  if (failures) printf("sim_test: %d failures\n", failures);
  return failures != 0;
}
