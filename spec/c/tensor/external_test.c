/* external_test.c: memory and semaphores of other APIs. What they are in Vulkan's hands is here a memfd that the test
 * maps itself, so each side sees what the other one does and when: turns and their order on streams, what is refused,
 * and what becomes of it all at the end. On a real device only the host's own pages are at hand. */
#include "tide/external.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "stream/stream.h"
#include "tide/debug.h"
#include "tide/device.h"
#include "tide/graph.h"
#include "tide/jit.h"
#include "tide/sim.h"

enum { N = 1024, BYTES = N * (int)sizeof(float) };

static bool simulated;

#define FAILS(expr, wanted, text)                                                                                      \
  do {                                                                                                                 \
    CHECK((expr) == (wanted));                                                                                         \
    CHECK(strstr(tide_error_get()->message, (text)));                                                                  \
  } while (0)

static double at(const tide_tensor *x, int64_t i) {
  tide_tensor *one = NULL;
  tide_scalar s = {0};
  OK(tide_select(&one, x, 0, i));
  OK(tide_item(&s, one));
  tide_tensor_release(one);
  return s.re;
}

static void fill(tide_tensor *x, double value) { OK(tide_fill(x, tide_float(value))); }

/* ---- the host's pages ---- */

static _Atomic int released;
static void release(void *user) {
  (void)user;
  released++;
}

static void host_memory(void) {
  enum { BIG = 1 << 20 };
  tide_tensor *x = NULL, *part = NULL, *bytes = NULL, *device = NULL, *back = NULL, *other = NULL;
  const tide_options on = {TIDE_FLOAT32, 0, false};
  float *mine = aligned_alloc(4096, BIG * sizeof *mine);
  for (int i = 0; i < BIG; i++) mine[i] = (float)i;
  int before = released;
  OK(tide_host_register(&bytes, mine, BIG * sizeof *mine, release, NULL));
  CHECK(tide_tensor_data(bytes) == mine && tide_tensor_device(bytes) == TIDE_CPU &&
        tide_storage_is_pinned(tide_tensor_storage(bytes)));
  FAILS(tide_host_register(&other, mine + 5, 64, release, NULL), TIDE_VALUE, "overlaps");
  FAILS(tide_host_register(&other, NULL, 64, release, NULL), TIDE_ARGUMENT, "64 bytes");
  FAILS(tide_host_register(&other, mine, 0, release, NULL), TIDE_ARGUMENT, "0 bytes");
  CHECK(!other && released == before);
  OK(tide_view_dtype(&x, bytes, TIDE_FLOAT32));
  OK(tide_narrow(&part, x, 0, 0, BIG / 2));
  tide_tensor_release(bytes);
  CHECK(tide_storage_is_pinned(tide_tensor_storage(part)));

  /* A copy that does not block is queued: behind a sleep, it finds what the host writes meanwhile. */
  tide_stream *s = NULL;
  OK(tide_current_stream(&s, 0));
  OK(tide_empty_like(&device, part, &on));
  if (simulated) {
    OK(tide_stream_sleep(s, HOLD));
    OK(tide_copy(device, part, true));
    mine[7] = -7;
    tide_sim_wake();
    OK(tide_stream_synchronize(s));
    CHECK(at(device, 7) == -7);
  } else {
    OK(tide_copy(device, part, true));
    CHECK(at(device, 7) == 7);
  }
  fill(device, 3);
  OK(tide_copy(part, device, true));
  OK(tide_stream_synchronize(s));
  CHECK(mine[0] == 3 && mine[BIG / 2 - 1] == 3 && mine[BIG / 2] == BIG / 2);

  /* The owner is told behind the last copy. */
  if (simulated) OK(tide_stream_sleep(s, HOLD));
  OK(tide_copy(device, part, true));
  tide_tensor_release(x), tide_tensor_release(part);
  tide_memory_pump();
  if (simulated) CHECK(released == before);
  if (simulated) tide_sim_wake();
  OK(tide_stream_synchronize(s));
  tide_memory_pump();
  CHECK(released == before + 1);
  OK(tide_host_register(&bytes, mine, 4096, NULL, NULL)); /* nothing is locked any more */
  tide_tensor_release(bytes);
  tide_tensor_release(device), tide_tensor_release(back);
  free(mine);
}

/* The end of the runtime unlocks; the owner is told when the handle goes. */
static void host_memory_at_the_end(void) {
  tide_tensor *x = NULL;
  char *mine = aligned_alloc(4096, 8192);
  int before = released;
  OK(tide_host_register(&x, mine, 8192, release, NULL));
  tide_shutdown();
  CHECK(released == before);
  tide_tensor_release(x);
  CHECK(released == before + 1);
  OK(tide_init(NULL));
  x = NULL;
  OK(tide_host_register(&x, mine, 8192, release, NULL));
  OK(tide_device_reset(0));
  tide_tensor_release(x);
  CHECK(released == before + 2);
  OK(tide_host_register(&x, mine, 8192, release, NULL));
  tide_tensor_release(x);
  CHECK(released == before + 3);
  free(mine);
}

/* Whichever thread lets go for it tells the owner, who then may use the memory for something else. */
static void release_for(void *user) {
  released++;
  atomic_store((_Atomic bool *)user, true);
}

static void *register_often(void *unused) {
  _Atomic bool gone = true;
  char *mine = aligned_alloc(4096, 16384);
  for (int i = 0; i < 50; i++) {
    tide_tensor *x = NULL, *y = NULL;
    const tide_options on = {TIDE_UINT8, 0, false};
    gone = false;
    OK(tide_host_register(&x, mine, 16384, release_for, &gone));
    OK(tide_empty_like(&y, x, &on));
    OK(tide_copy(y, x, true));
    tide_tensor_release_deferred(x);
    tide_tensor_release(y);
    while (!gone) tide_memory_pump();
  }
  free(mine);
  return unused;
}

static void threads(void) {
  pthread_t t[4];
  int before = released;
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, register_often, NULL);
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  tide_memory_pump();
  CHECK(released == before + 200);
}

/* ---- the other side ---- */

typedef struct shared {
  int fd;
  void *map;
} shared;

static shared shared_new(size_t bytes) {
  shared s = {memfd_create("external_test", MFD_CLOEXEC), NULL};
  if (ftruncate(s.fd, (off_t)bytes)) abort();
  s.map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
  return s;
}

static uint64_t count_of(const shared *s) { return atomic_load((_Atomic uint64_t *)s->map); }
static void signal_from_outside(const shared *s, uint64_t value) { atomic_store((_Atomic uint64_t *)s->map, value); }
static tide_semaphore *semaphore(shared *s, bool timeline) {
  tide_semaphore *out = NULL;
  *s = shared_new(8);
  OK(tide_import_semaphore(&out, s->fd, timeline, 0));
  CHECK(fcntl(s->fd, F_GETFD) < 0); /* taken */
  return out;
}

static const int64_t size_of_all[] = {N};
static const tide_options floats = {TIDE_FLOAT32, 0, false};

/* A tensor of N floats on a file that begins with `offset` other bytes. */
static tide_tensor *import(shared *s, size_t offset, tide_semaphore *ready, tide_semaphore *done) {
  tide_tensor *x = NULL;
  *s = shared_new(offset + BYTES);
  tide_external_memory m = {.fd = s->fd, .bytes = offset + BYTES, .offset = offset, .ready = ready, .done = done};
  OK(tide_import_memory(&x, &m, size_of_all, NULL, 1, &floats));
  CHECK(fcntl(s->fd, F_GETFD) < 0);
  return x;
}

static void turns(void) {
  shared memory, ready_count, done_count;
  tide_semaphore *ready = semaphore(&ready_count, true), *done = semaphore(&done_count, true);
  tide_tensor *x = import(&memory, 256, ready, done), *half = NULL, *sum = NULL;
  tide_semaphore_release(ready), tide_semaphore_release(done); /* the tensor has them */
  float *values = (float *)((char *)memory.map + 256);
  tide_stream *s = NULL;
  OK(tide_current_stream(&s, 0));

  FAILS(tide_fill(x, tide_float(1)), TIDE_STATE, "not acquired");
  FAILS(tide_narrow(&half, x, 0, 0, 4), TIDE_STATE, "not acquired");
  FAILS(tide_unary(&sum, TIDE_OP_neg, x, NULL), TIDE_STATE, "acquire");
  FAILS(tide_external_release(x, 1), TIDE_STATE, "released already");
  CHECK(!tide_tensor_data(x) && !half && !sum);

  /* What is queued waits for the other side, the host does not. */
  OK(tide_external_acquire(x, 5));
  FAILS(tide_external_acquire(x, 5), TIDE_STATE, "acquired already");
  OK(tide_unary(&sum, TIDE_OP_neg, x, NULL));
  bool passed = true;
  signal_from_outside(&ready_count, 4);
  usleep(3000);
  OK(tide_stream_query(&passed, s));
  CHECK(!passed);
  values[3] = 11;
  signal_from_outside(&ready_count, 5);
  CHECK(at(sum, 3) == -11);

  /* The end comes behind the work, also that of another stream, and closes the views with the tensor. */
  tide_stream *side = NULL;
  OK(tide_stream_new(&side, 0, 0));
  OK(tide_narrow(&half, x, 0, 0, N / 2));
  tide_stream *before = NULL;
  OK(tide_current_stream(&before, 0));
  tide_stream_retain(before);
  OK(tide_stream_wait_stream(side, s));
  OK(tide_current_set_stream(side));
  OK(tide_stream_sleep(side, HOLD));
  fill(half, 2);
  OK(tide_current_set_stream(before));
  tide_stream_release(before);
  OK(tide_external_release(x, 6));
  FAILS(tide_fill(half, tide_float(1)), TIDE_STATE, "not acquired");
  usleep(3000);
  CHECK(count_of(&done_count) == 0);
  tide_sim_wake();
  OK(tide_stream_synchronize(s));
  CHECK(count_of(&done_count) == 6 && values[0] == 2 && values[N / 2 - 1] == 2 && values[N / 2] == 0);

  /* And again: the values of the next turns. They begin on either stream, and their ends come behind the work of the
   * same other one. */
  for (uint64_t turn = 9; turn < 17; turn += 2) {
    values[1] = (float)turn;
    signal_from_outside(&ready_count, turn);
    if (turn > 11) OK(tide_current_set_stream(side));
    OK(tide_external_acquire(x, turn));
    CHECK(at(x, 1) == (double)turn);
    OK(tide_stream_wait_stream(side, s));
    OK(tide_current_set_stream(side));
    OK(tide_stream_sleep(side, HOLD));
    fill(half, (double)turn + 1);
    OK(tide_current_set_stream(s));
    OK(tide_external_release(half, turn + 1)); /* a view stands for all of it */
    usleep(3000);
    CHECK(count_of(&done_count) < turn);
    tide_sim_wake();
    OK(tide_stream_synchronize(s));
    CHECK(count_of(&done_count) == turn + 1 && values[0] == (float)turn + 1);
  }
  tide_stream_release(side);
  tide_tensor_release(x), tide_tensor_release(half), tide_tensor_release(sum);
}

/* Let go of in the middle of a turn: the queued work is done, then everything is closed. */
static void let_go_early(void) {
  shared memory, count;
  tide_semaphore *ready = semaphore(&count, false);
  tide_tensor *x = import(&memory, 0, ready, NULL);
  tide_semaphore_release(ready);
  OK(tide_external_acquire(x, 0));
  fill(x, 4);
  tide_tensor_release(x);
  tide_memory_pump();
  CHECK(*(float *)memory.map == 0);
  signal_from_outside(&count, 1);
  OK(tide_device_synchronize(0));
  CHECK(((float *)memory.map)[N - 1] == 4 && count_of(&count) == 0); /* a binary one is taken */
}

static void semaphores(void) {
  shared a_count, b_count;
  tide_semaphore *a = semaphore(&a_count, false), *b = semaphore(&b_count, true), *none = NULL;
  tide_stream *s = NULL, *side = NULL, *elsewhere = NULL;
  OK(tide_current_stream(&s, 0));
  OK(tide_stream_new(&side, 0, 0));
  OK(tide_stream_new(&elsewhere, 1, 0));
  OK(tide_stream_wait_semaphore(side, a, 0)); /* one stream for another */
  OK(tide_stream_signal_semaphore(side, b, 3));
  CHECK(count_of(&b_count) == 0);
  OK(tide_stream_signal_semaphore(NULL, a, 0));
  OK(tide_stream_synchronize(side));
  CHECK(count_of(&b_count) == 3 && count_of(&a_count) == 0);
  OK(tide_stream_wait_semaphore(s, b, 3));
  OK(tide_stream_synchronize(s));
  FAILS(tide_stream_wait_semaphore(elsewhere, a, 0), TIDE_DEVICE, "cuda:1");
  FAILS(tide_stream_wait_semaphore(s, NULL, 0), TIDE_ARGUMENT, "null");
  FAILS(tide_import_semaphore(&none, -1, true, 0), TIDE_ARGUMENT, "-1");
  FAILS(tide_import_semaphore(&none, 0, true, TIDE_CPU), TIDE_DEVICE, "cpu");
  int empty = memfd_create("empty", MFD_CLOEXEC);
  FAILS(tide_import_semaphore(&none, empty, true, 0), TIDE_VALUE, "8 bytes");
  CHECK(!none && close(empty) == 0); /* still ours */
  tide_stream_release(side), tide_stream_release(elsewhere);
  tide_semaphore_retain(a);
  tide_semaphore_release(a), tide_semaphore_release(a), tide_semaphore_release(b), tide_semaphore_release(NULL);
}

static int warnings;
static void note_warning(void *user, const char *message) {
  (void)user;
  warnings += strstr(message, "was destroyed while tide had it") != NULL;
}

/* A stream of the host's that has worked on the memory, and that its owner has destroyed before the turn ends: no event
 * can be recorded there, which one of another device stands for. The turn ends behind its work. */
static void destroyed_streams(void) {
  shared memory, count;
  tide_semaphore *done = semaphore(&count, true);
  tide_tensor *x = import(&memory, 0, NULL, done);
  const tide_backend *b = tide__backend_peek(0);
  tide_stream *s = NULL, *wrapped = NULL, *elsewhere = NULL;
  void *theirs = NULL;
  tide_semaphore_release(done);
  tide_warn_set(note_warning, NULL);
  OK(tide_stream_default(&s, 0));
  OK(tide_stream_new(&elsewhere, 1, 0));
  for (int i = 1; i <= 3; i++) {
    OK(b->stream_new(&theirs, 0, 0));
    OK(tide_stream_wrap(&wrapped, 0, b->stream_handle(theirs)));
    OK(tide_external_acquire(x, 0));
    OK(tide_current_set_stream(wrapped));
    fill(x, i);
    OK(tide_current_set_stream(s));
    void *impl = wrapped->impl;
    wrapped->impl = elsewhere->impl;
    OK(tide_external_release(x, (uint64_t)i));
    CHECK(((float *)memory.map)[N - 1] == i);
    wrapped->impl = impl;
    b->stream_free(theirs);
    tide_stream_release(wrapped);
    OK(tide_stream_synchronize(s));
    CHECK(count_of(&count) == (uint64_t)i);
  }
  CHECK(warnings == 1);
  /* One that is tide's own is an error. */
  OK(tide_stream_new(&wrapped, 0, 0));
  OK(tide_external_acquire(x, 0));
  OK(tide_current_set_stream(wrapped));
  fill(x, 5);
  OK(tide_current_set_stream(s));
  void *impl = wrapped->impl;
  wrapped->impl = elsewhere->impl;
  CHECK(tide_external_release(x, 9) == TIDE_DEVICE);
  wrapped->impl = impl;
  OK(tide_external_release(x, 9));
  tide_warn_set(NULL, NULL);
  tide_stream_release(wrapped), tide_stream_release(elsewhere);
  tide_tensor_release(x);
}

static int streams_alive(tide_stream **s, int n) {
  int alive = 0;
  for (int i = 0; i < n; i++) alive += atomic_load(&s[i]->refs) > 1;
  return alive;
}

/* A semaphore that lives long keeps no stream that it was used with, and closes behind what is queued all the same. */
static void many_streams(void) {
  enum { STREAMS = 40 };
  shared count;
  tide_semaphore *a = semaphore(&count, true);
  tide_stream *s[STREAMS], *last = NULL;
  for (int i = 0; i < STREAMS; i++) {
    OK(tide_stream_new(&s[i], 0, 0));
    for (int k = 0; k < 3; k++) OK(tide_stream_signal_semaphore(s[i], a, (uint64_t)(3 * i + k + 1)));
    OK(tide_stream_synchronize(s[i]));
  }
  CHECK(count_of(&count) == 3 * STREAMS && streams_alive(s, STREAMS) == 0);
  for (int i = 0; i < STREAMS; i++) tide_stream_release(s[i]);
  OK(tide_stream_new(&last, 0, 0));
  OK(tide_stream_sleep(last, HOLD));
  OK(tide_stream_signal_semaphore(last, a, 1000));
  tide_semaphore_release(a);
  tide_memory_pump();
  tide_sim_wake();
  OK(tide_stream_synchronize(last));
  CHECK(count_of(&count) == 1000);
  tide_stream_release(last);
}

static void refused(void) {
  shared count;
  tide_semaphore *other = NULL;
  tide_tensor *x = NULL, *own = full(0, 4, 1);
  const tide_options cpu = {TIDE_FLOAT32, TIDE_CPU, false}, elsewhere = {TIDE_FLOAT32, 1, false};
  const int64_t more[] = {N + 1}, image[] = {4, 8, 4}, pitch[] = {64, 4, 1};
  const tide_options bytes = {TIDE_UINT8, 0, false};
  shared s = shared_new(BYTES);
  tide_external_memory m = {.fd = s.fd, .bytes = BYTES};
  FAILS(tide_import_memory(&x, &m, more, NULL, 1, &floats), TIDE_VALUE, "4100 bytes from offset 0");
  const int64_t vertices[2] = {100, 3}, in_bytes[2] = {30, 4};
  FAILS(tide_import_memory(&x, &m, vertices, in_bytes, 2, &floats), TIDE_VALUE, "strides count elements");
  m.offset = 4;
  FAILS(tide_import_memory(&x, &m, size_of_all, NULL, 1, &floats), TIDE_VALUE, "offset 4");
  m.offset = 2;
  FAILS(tide_import_memory(&x, &m, size_of_all, NULL, 1, &floats), TIDE_VALUE, "aligned");
  m.offset = 0, m.bytes = BYTES + 1;
  FAILS(tide_import_memory(&x, &m, size_of_all, NULL, 1, &floats), TIDE_VALUE, "4097 bytes");
  m.bytes = 0;
  FAILS(tide_import_memory(&x, &m, size_of_all, NULL, 1, &floats), TIDE_ARGUMENT, "bytes");
  m.bytes = BYTES;
  FAILS(tide_import_memory(&x, &m, size_of_all, NULL, 1, &cpu), TIDE_DEVICE, "cpu");
  other = semaphore(&count, true);
  m.done = other;
  FAILS(tide_import_memory(&x, &m, size_of_all, NULL, 1, &elsewhere), TIDE_DEVICE, "done");
  m.done = NULL, m.fd = -1;
  FAILS(tide_import_memory(&x, &m, size_of_all, NULL, 1, &floats), TIDE_ARGUMENT, "fd");
  FAILS(tide_external_acquire(own, 0), TIDE_ARGUMENT, "imported");
  FAILS(tide_external_acquire(NULL, 0), TIDE_ARGUMENT, "imported");
  tide_gl_texture *texture = NULL;
  FAILS(tide_import_gl_texture(&texture, 1, 0x0DE1, 0), TIDE_SUPPORT, "cuda:0");
  FAILS(tide_import_gl_buffer(&x, 1, 0, size_of_all, NULL, 1, &floats), TIDE_SUPPORT, "cuda:0");
  CHECK(!x && !texture);
  m.fd = s.fd;
  OK(tide_import_memory(&x, &m, image, pitch, 3, &bytes)); /* a linear image: rows of 64 bytes, 32 of them seen */
  OK(tide_external_acquire(x, 0));
  OK(tide_fill(x, tide_int(7)));
  OK(tide_device_synchronize(0));
  const char *pixels = s.map;
  CHECK(pixels[31] == 7 && pixels[32] == 0 && pixels[64] == 7 && pixels[3 * 64 + 31] == 7);
  CHECK(!tide_external_scripts(x) && !tide_external_scripts(own));
  tide_tensor_release(x), tide_tensor_release(own);
  tide_semaphore_release(other);
}

/* A graph may use acquired memory; turns are taken around its replays, which each turn's end waits for. */
static void graphs(void) {
  shared memory, count;
  tide_semaphore *done = semaphore(&count, true);
  tide_tensor *x = import(&memory, 0, NULL, done);
  float *values = memory.map;
  tide_graph *g = NULL;
  tide_stream *work = NULL, *side = NULL, *before = NULL;
  OK(tide_current_stream(&before, 0));
  tide_stream_retain(before);
  OK(tide_stream_new(&work, 0, 0));
  OK(tide_stream_new(&side, 0, 0));
  OK(tide_current_set_stream(work));
  OK(tide_graph_new(&g, false));
  OK(tide_external_acquire(x, 0));
  OK(tide_graph_begin(g, NULL, NULL, TIDE_CAPTURE_THREAD_LOCAL));
  const tide_operand add[] = {{x, {0}}, {NULL, tide_float(1)}, {NULL, tide_float(1)}};
  const tide_scalar one = tide_float(1);
  OK(tide_elementwise(&x, TIDE_OP_add, add, &one, x));
  FAILS(tide_external_release(x, 1), TIDE_STATE, "captured");
  OK(tide_current_set_stream(side)); /* which is not captured */
  FAILS(tide_external_release(x, 1), TIDE_STATE, "work on the memory is being captured");
  OK(tide_current_set_stream(work));
  FAILS(tide_stream_signal_semaphore(NULL, done, 1), TIDE_STATE, "captured");
  OK(tide_graph_end(g));
  OK(tide_graph_replay(g));
  OK(tide_external_release(x, 1));
  OK(tide_device_synchronize(0));
  CHECK(values[0] == 1 && count_of(&count) == 1);
  FAILS(tide_graph_replay(g), TIDE_STATE, "not acquired");
  OK(tide_external_acquire(x, 0));
  OK(tide_current_set_stream(side));
  OK(tide_stream_sleep(side, HOLD));
  OK(tide_graph_replay(g));
  OK(tide_current_set_stream(work));
  OK(tide_external_release(x, 2));
  usleep(3000);
  CHECK(count_of(&count) == 1 && values[0] == 1);
  tide_sim_wake();
  OK(tide_device_synchronize(0));
  CHECK(count_of(&count) == 2 && values[0] == 2);
  OK(tide_current_set_stream(before));
  tide_stream_release(before), tide_stream_release(side), tide_stream_release(work);
  tide_graph_release(g);
  tide_tensor_release(x);
  tide_semaphore_release(done);
}

/* A kernel that was bound to the memory in its turn is refused when that is over, also where it would do nothing, and
 * runs again in the next turn. */
static void bound_kernels(void) {
  shared memory, count;
  tide_semaphore *done = semaphore(&count, true);
  tide_tensor *x = import(&memory, 0, NULL, done), *own = full(0, N, 2);
  const tide_raw_kernel_text text = {
      .struct_size = sizeof text,
      .name = "add",
      .source =
          "extern \"C\" __global__ void add(const float *from, float *to) { to[threadIdx.x] += from[threadIdx.x]; }"};
  const tide_operand args[] = {{own, {0}}, {x, {0}}};
  tide_grid grid = {.block = {4}};
  tide_raw_kernel *kernel = NULL;
  tide_raw_kernel_bound *bound = NULL, *idle = NULL;
  tide_status status = tide_raw_kernel_new(&kernel, &text);
  if (status == TIDE_SUPPORT) {
    printf("external_test: bound kernels are left out: %s\n", tide_error_get()->message);
  } else {
    OK(status);
    FAILS(tide_raw_kernel_bind(&bound, kernel, &grid, args, 2), TIDE_STATE, "not acquired");
    OK(tide_external_acquire(x, 0));
    OK(tide_raw_kernel_bind(&bound, kernel, &grid, args, 2));
    grid.empty = true;
    OK(tide_raw_kernel_bind(&idle, kernel, &grid, args, 2));
    OK(tide_raw_kernel_bound_launch(bound));
    OK(tide_raw_kernel_bound_launch(idle));
    OK(tide_external_release(x, 1));
    FAILS(tide_raw_kernel_bound_launch(bound), TIDE_STATE, "not acquired");
    FAILS(tide_raw_kernel_bound_launch(idle), TIDE_STATE, "not acquired");
    OK(tide_device_synchronize(0));
    CHECK(count_of(&count) == 1 && *(float *)memory.map == 2);
    OK(tide_external_acquire(x, 0));
    OK(tide_raw_kernel_bound_launch(bound));
    OK(tide_external_release(x, 2)); /* waits for the launch: it has been noted again */
    OK(tide_device_synchronize(0));
    CHECK(count_of(&count) == 2 && *(float *)memory.map == 4);
  }
  tide_raw_kernel_bound_free(bound), tide_raw_kernel_bound_free(idle);
  tide_raw_kernel_free(kernel);
  tide_tensor_release(x), tide_tensor_release(own);
  tide_semaphore_release(done);
}

/* Nothing outlives the runtime, and what is released late is released once. */
static void the_end(void) {
  shared memory, count;
  for (int reset = 0; reset < 2; reset++) {
    tide_semaphore *done = semaphore(&count, true);
    tide_tensor *x = import(&memory, 0, done, done);
    signal_from_outside(&count, 1);
    OK(tide_external_acquire(x, 1));
    fill(x, 1);
    if (reset) {
      OK(tide_device_reset(0));
    } else {
      tide_shutdown();
      OK(tide_init(NULL));
    }
    FAILS(tide_external_release(x, 2), TIDE_STATE, "ended or was reset");
    FAILS(tide_fill(x, tide_float(1)), TIDE_STATE, "ended or was reset");
    FAILS(tide_stream_signal_semaphore(NULL, done, 2), TIDE_STATE, "ended or was reset");
    CHECK(count_of(&count) == 1);
    tide_tensor_release(x);
    tide_semaphore_release(done);
  }
}

/* A lost device does not signal, and everything can be let go. */
static void lost(void) {
  shared memory, count;
  tide_semaphore *done = semaphore(&count, true);
  tide_tensor *x = import(&memory, 0, NULL, done);
  OK(tide_external_acquire(x, 0));
  OK(tide_sim_fault("sticky:1"));
  tide_fill(x, tide_float(1));
  CHECK(tide_device_synchronize(0) == TIDE_ACCELERATOR);
  CHECK(tide_external_release(x, 1) == TIDE_ACCELERATOR);
  CHECK(count_of(&count) == 0);
  tide_tensor_release(x);
  tide_semaphore_release(done);
}

int main(void) {
  const char *device = getenv("TIDE_DEVICE");
  tide_config config = {.struct_size = sizeof config, .sim_devices = device && !strcmp(device, "cuda") ? 0 : 2};
  OK(tide_init(&config));
  if (!tide_device_count()) {
    printf("external_test: no accelerator: set TIDE_SIM_DEVICES, or leave TIDE_DEVICE alone\n");
    return 77;
  }
  const tide_device_props *props;
  OK(tide_device_get_props(&props, 0));
  simulated = props->simulated;
  host_memory();
  threads();
  if (simulated) {
    turns();
    let_go_early();
    semaphores();
    many_streams();
    destroyed_streams();
    refused();
    graphs();
    bound_kernels();
  }
  tide_shutdown();
  setenv("TIDE_SIM_DEVICES", "2", simulated);
  OK(tide_init(NULL));
  host_memory_at_the_end();
  if (simulated) {
    the_end();
    lost();
  }
  tide_shutdown();
  printf("external_test: %d failures\n", failures);
  return failures != 0;
}
