/* poison_test.c: memory that several streams use is not handed on too early, though nobody says record_stream.
 *
 * Random programs over four streams of two simulated devices, whose queues run in an adversarial order. A new tensor is
 * filled with NaN and then with its number, both queued; others are made from it on other streams, which wait for it as
 * a program must, or on the other device; and handles are let go as soon as the work that reads them is queued. Whoever
 * reads memory that already serves another tensor finds NaN or a wrong number in its result. TIDE_POISON=10000 runs as
 * many programs; the number of a program is its seed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory/allocator.h"
#include "tensor/tensor.h"

static int failures;
#define OK(expr)                                                                                                       \
  do {                                                                                                                 \
    if ((expr) != TIDE_OK) {                                                                                           \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #expr, tide_error_get()->message);                                 \
      failures++;                                                                                                      \
    }                                                                                                                  \
  } while (0)

static uint64_t dice_state;
static uint32_t dice(uint32_t n) {
  dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((dice_state >> 33) * n >> 31);
}

enum { STREAMS = 4, HELD = 12, STEPS = 60, PER_START = 50 };

typedef struct item {
  tide_tensor *x;
  double value;
  int writer; /* index of the stream on which it was written */
} item;

static tide_stream *streams[STREAMS]; /* two of each device */
static item held[HELD];
static int count;

static int device_of(int stream) { return stream / 2; }

static void use(int stream) {
  OK(tide_current_set_stream(streams[stream]));
  OK(tide_current_set_device(device_of(stream)));
}

/* What a program must say itself: this stream reads what that one wrote. */
static void after(int stream, const item *i) {
  if (i->writer != stream) OK(tide_stream_wait_stream(streams[stream], streams[i->writer]));
}

static void keep(tide_tensor *x, double value, int writer) {
  if (count == HELD) {
    int out = (int)dice(HELD);
    tide_tensor_release(held[out].x);
    held[out] = held[--count];
  }
  held[count++] = (item){x, value, writer};
}

static void let_go(int i) {
  tide_tensor *x = held[i].x;
  held[i] = held[--count];
  if (dice(4) == 0)
    tide_tensor_release_deferred(x);
  else
    tide_tensor_release(x);
}

static void fresh(int stream) {
  static const int64_t sizes[] = {300, 300, 1000, 5000, 5000, 400000};
  int64_t n = sizes[dice(dice(8) ? 5 : 6)];
  double value = 1 + dice(1000);
  tide_tensor *x = NULL;
  use(stream);
  OK(tide_empty(&x, &n, 1, &(tide_options){.dtype = TIDE_FLOAT32, .device = device_of(stream)}));
  OK(tide_fill(x, (tide_scalar){.kind = 'F', .re = NAN}));
  OK(tide_fill(x, (tide_scalar){.kind = 'F', .re = value}));
  keep(x, value, stream);
}

/* A result on any stream of the tensor's device; often its last reader. */
static void derived(void) {
  int from = (int)dice((uint32_t)count), stream = device_of(held[from].writer) * 2 + (int)dice(2);
  tide_tensor *y = NULL;
  double value = -held[from].value;
  use(stream);
  after(stream, &held[from]);
  OK(tide_unary(&y, TIDE_OP_neg, held[from].x, NULL));
  if (dice(2)) let_go(from);
  keep(y, value, stream);
}

static void moved(void) {
  int from = (int)dice((uint32_t)count), source = held[from].writer;
  int target = (1 - device_of(source)) * 2 + (int)dice(2);
  tide_tensor *y = NULL;
  double value = held[from].value;
  if (dice(2)) { /* read by a stream that did not write it */
    source ^= 1;
    after(source, &held[from]);
  }
  use(target);
  use(source);
  OK(tide_to(&y, held[from].x, &(tide_options){.dtype = TIDE_FLOAT32, .device = device_of(target)}, true, false));
  if (dice(2)) let_go(from);
  keep(y, value, target);
}

static int wrong_values(const item *i) {
  static float out[400000];
  int wrong = 0;
  use(i->writer);
  OK(tide_read(out, i->x));
  for (int64_t k = 0; k < i->x->numel; k++) wrong += out[k] != (float)i->value;
  return wrong;
}

static void program(uint64_t seed) {
  dice_state = seed * 2654435761u + 1;
  for (int step = 0; step < STEPS; step++) {
    uint32_t what = count ? dice(10) : 0;
    if (what < 4)
      fresh((int)dice(STREAMS));
    else if (what < 7)
      derived();
    else if (what < 8)
      moved();
    else if (what < 9)
      OK(tide_stream_sleep(streams[dice(STREAMS)], 1000 * (int64_t)dice(200)));
    else
      let_go((int)dice((uint32_t)count));
  }
  while (count > 0) {
    int wrong = wrong_values(&held[count - 1]);
    if (wrong) printf("program %llu: %d elements are wrong\n", (unsigned long long)seed, wrong), failures++;
    let_go(count - 1);
  }
}

/* Every start has another schedule, and not much memory, so that what is free is soon used again. */
static void start(uint64_t seed) {
  OK(tide_init(
      &(tide_config){.struct_size = sizeof(tide_config), .sim_devices = 2, .sim_memory = 64 << 20, .sim_seed = seed}));
  for (int s = 0; s < STREAMS; s++) OK(tide_stream_new(&streams[s], device_of(s), 0));
}

static void end(void) {
  OK(tide_device_synchronize(0));
  OK(tide_device_synchronize(1));
  if (tide_memory_allocated(0) || tide_memory_allocated(1)) printf("memory is left\n"), failures++;
  for (int s = 0; s < STREAMS; s++) tide_stream_release(streams[s]);
  tide_shutdown();
}

int main(void) {
  const char *text = getenv("TIDE_POISON");
  uint64_t programs = text ? strtoull(text, NULL, 10) : 200;
  for (uint64_t seed = 1; seed <= programs && failures < 20; seed++) {
    if (seed % PER_START == 1) start(seed);
    program(seed);
    if (seed % PER_START == 0 || seed == programs) end();
  }
  printf("poison_test: %llu programs %s\n", (unsigned long long)programs, failures ? "failed" : "passed");
  return failures != 0;
}
