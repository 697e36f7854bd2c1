/* staged_copy_test.c: threads that are the first to use a tensor whose copy from pageable memory is still under way. */
#include "check.h"
#include "tensor/tensor.h"
#include "tide/sim.h"

enum { COUNT = 5000, ROUNDS = 60, THREADS = 3 };

static tide_tensor *shared;
static pthread_barrier_t begin, end;
static _Atomic int wrong;

/* By its address, or on a stream of its own, each thread in another order. */
static void *use(void *number) {
  int which = (int)(intptr_t)number;
  tide_stream *s = NULL;
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_current_set_stream(s));
  for (int i = 0; i < ROUNDS; i++) {
    pthread_barrier_wait(&begin);
    const tide_tensor *x = shared;
    if ((i + which) % 3 == 0) CHECK(tide_tensor_data(x) != NULL);
    tide_tensor *y = NULL;
    float values[COUNT];
    OK(tide_clone(&y, x));
    if ((i + which) % 3 == 1) CHECK(tide_tensor_data(x) != NULL);
    OK(tide_read(values, y));
    for (int k = 0; k < COUNT; k++) wrong += values[k] != (float)(i + 1);
    tide_tensor_release(y);
    pthread_barrier_wait(&end);
  }
  tide_stream_release(s);
  return NULL;
}

int main(void) {
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = 1}));
  pthread_t thread[THREADS];
  tide_stream *stream;
  OK(tide_current_stream(&stream, 0));
  pthread_barrier_init(&begin, NULL, THREADS + 1);
  pthread_barrier_init(&end, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, use, (void *)(intptr_t)i);
  for (int i = 0; i < ROUNDS; i++) {
    tide_tensor *y = full(TIDE_CPU, COUNT, i + 1);
    shared = full(0, COUNT, 0);
    OK(tide_device_synchronize(0));
    OK(tide_stream_sleep(stream, 2000000));
    OK(tide_copy(shared, y, false));
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
    tide_tensor_release(shared), tide_tensor_release(y);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  CHECK(wrong == 0);
  tide_shutdown();
  printf("staged_copy_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
