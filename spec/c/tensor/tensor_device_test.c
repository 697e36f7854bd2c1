/* tensor_device_test.c: tensors on simulated devices: every copy route, mixed operands, results that travel back.
 *
 * The simulator reorders and delays whatever is not ordered, poisons freed memory and keeps host and device memory
 * apart, so a missing wait or a temporary that was let go too early shows as a wrong value here. */
#include "tensor_test.h"

#include "tide/readback.h"
#include "tide/sim.h"

static tide_tensor *moved(const tide_tensor *x, int device, tide_dtype dtype) {
  tide_tensor *y = NULL;
  OK(tide_to(&y, x, &(tide_options){dtype, device, false}, false, true));
  return y;
}

/* Are the values of x, wherever it is, those of the CPU tensor y? */
static bool holds(const tide_tensor *x, const tide_tensor *y) {
  tide_tensor *back = moved(x, TIDE_CPU, TIDE_FLOAT64);
  bool same = back && back->numel == y->numel;
  for (int64_t i = 0; same && i < y->numel; i++) same = flat_at(back, i) == flat_at(y, i);
  tide_tensor_release(back);
  return same;
}

/* A view of `size` with holes and an offset, on any device. */
static tide_tensor *holed(const int64_t *size, int ndim, tide_dtype dtype, int device) {
  tide_tensor *on_cpu = laid_out(size, ndim, dtype, 3, 0), *base = NULL, *x = NULL;
  tide_tensor whole = *on_cpu;
  int64_t larger[TIDE_MAX_DIMS];
  for (int d = 0; d < ndim; d++) larger[d] = 2 * size[d] + 1;
  OK(tide_full(&base, larger, ndim, tide_int(1), &(tide_options){dtype, device, false}));
  OK(tide_as_strided(&x, base, whole.size, whole.stride, ndim, whole.offset));
  tide_tensor_release(base), tide_tensor_release(on_cpu);
  return x;
}

static void test_routes(void) {
  static const int64_t size[3] = {3, 4, 5};
  static const tide_dtype dtypes[] = {TIDE_FLOAT32, TIDE_INT16, TIDE_FLOAT64, TIDE_FLOAT16};
  for (int from = -1; from < 2; from++)
    for (int to = -1; to < 2; to++)
      for (int t = 0; t < 16; t++)
        for (int layout = 0; layout < LAYOUTS; layout++) {
          tide_tensor *x = laid_out(size, 3, dtypes[t / 4], layout, t), *whole = NULL, *expected = NULL;
          tide_tensor *source = moved(x, from, TIDE_DTYPE_NONE);
          OK(tide_to(&expected, x, &(tide_options){dtypes[t % 4], TIDE_CPU, false}, false, true));
          tide_tensor *target = holed(size, 3, dtypes[t % 4], to);
          OK(tide_copy(target, source, t & 1));
          CHECK(holds(target, expected));
          whole = moved(source, to, dtypes[t % 4]);
          CHECK(holds(whole, expected));
          tide_tensor *all[] = {x, whole, expected, source, target};
          for (int k = 0; k < 5; k++) tide_tensor_release(all[k]);
        }
}

static void test_pinned(void) {
  int64_t n = 10000;
  tide_options pinned = {TIDE_INT64, TIDE_CPU, true}, there = {TIDE_DTYPE_NONE, 0, false};
  tide_tensor *x = NULL, *d = NULL, *back = NULL;
  OK(tide_arange(&x, tide_int(5), tide_int(3), n, &pinned));
  CHECK(tide_storage_is_pinned(tide_tensor_storage(x)));
  for (int round = 0; round < 20; round++) {
    OK(tide_to(&d, x, &there, true, false));
    OK(tide_binary(NULL, TIDE_OP_add, d, d, d));
    OK(tide_to(&back, d, &(tide_options){TIDE_DTYPE_NONE, TIDE_CPU, false}, true, false));
    tide_tensor_release(d); /* its work is still queued */
    OK(tide_device_synchronize(0));
    CHECK(tide_storage_is_pinned(tide_tensor_storage(back)) && flat_at(back, 7) == 52 &&
          flat_at(back, n - 1) == 2.0 * (5 + 3 * (n - 1)));
    tide_tensor_release(back);
  }
  OK(tide_to(&d, x, &there, true, false)); /* the source goes while the copy is queued */
  tide_tensor_release(x);
  OK(tide_arange(&x, tide_int(0), tide_int(0), n, &pinned));
  tide_scalar s = {0};
  tide_tensor *last = NULL;
  OK(tide_select(&last, d, 0, -1));
  OK(tide_item(&s, last));
  CHECK(s.i == 5 + 3 * (n - 1));
  tide_tensor_release(x), tide_tensor_release(d), tide_tensor_release(last);
}

/* What is polled for is what x was when it was asked for, and neither waits; x may go and change meanwhile. */
static void test_readback(void) {
  static const int64_t size[3] = {3, 4, 5};
  tide_tensor *host = NULL, *never = NULL;
  tide_event *ready = NULL;
  bool done = false;
  for (int device = -1; device < 2; device++)
    for (int layout = 0; layout < LAYOUTS; layout++) {
      tide_tensor *x = laid_out(size, 3, TIDE_FLOAT32, layout, 7), *d = moved(x, device, TIDE_DTYPE_NONE);
      OK(tide_readback(&host, &ready, d));
      OK(tide_fill(d, tide_int(0)));
      tide_tensor_release(d);
      for (done = false; !done;) OK(tide_readback_poll(&done, ready));
      CHECK(tide_tensor_device(host) == TIDE_CPU && holds(host, x));
      tide_tensor_release(x), tide_tensor_release(host);
      tide_event_release(ready);
    }
  tide_tensor *d = NULL;
  OK(tide_full(&d, size, 1, tide_int(1), &(tide_options){TIDE_INT32, 0, false}));
  ready = NULL;
  FAILS(TIDE_ARGUMENT, tide_readback(&never, NULL, d));
  FAILS(TIDE_ARGUMENT, tide_readback(NULL, &ready, d));
  FAILS(TIDE_STATE, tide_readback(&never, &ready, NULL));
  CHECK(!never && !ready);
  tide_tensor_release(d);
}

static void test_streams(void) {
  tide_stream *stream = NULL, *first = NULL;
  int64_t n = 5000;
  OK(tide_stream_new(&stream, 0, 0));
  OK(tide_stream_default(&first, 0));
  for (int round = 0; round < 30; round++) {
    tide_tensor *a = NULL, *b = NULL, *c = NULL, *peer = NULL;
    OK(tide_full(&a, &n, 1, tide_int(round), &(tide_options){TIDE_INT32, 0, false}));
    OK(tide_stream_wait_stream(stream, first));
    OK(tide_current_set_stream(stream));
    OK(tide_binary(&b, TIDE_OP_add, a, a, NULL));
    OK(tide_binary(&c, TIDE_OP_add, b, a, NULL));
    tide_tensor_release(a), tide_tensor_release(b); /* used by the side stream: not reused too early */
    peer = moved(c, 1, TIDE_DTYPE_NONE);
    OK(tide_current_set_stream(first));
    tide_tensor *filler = NULL;
    OK(tide_full(&filler, &n, 1, tide_int(-1), &(tide_options){TIDE_INT32, 0, false}));
    tide_tensor *expected = NULL;
    OK(tide_full(&expected, &n, 1, tide_int(3 * round), &(tide_options){TIDE_INT32, TIDE_CPU, false}));
    CHECK(holds(peer, expected));
    tide_tensor *all[] = {c, peer, filler, expected};
    for (int k = 0; k < 4; k++) tide_tensor_release(all[k]);
  }
  tide_stream_release(stream);
}

static void test_mixed(void) {
  tide_tensor *cpu = counted(4, TIDE_FLOAT32), *zero = NULL, *d0 = moved(cpu, 0, TIDE_DTYPE_NONE),
              *d1 = moved(cpu, 1, TIDE_DTYPE_NONE), *r = NULL;
  OK(tide_full(&zero, NULL, 0, tide_float(2.5), &(tide_options){TIDE_FLOAT64, TIDE_CPU, false}));
  OK(tide_binary(&r, TIDE_OP_mul, zero, d0, NULL));
  CHECK(tide_tensor_device(r) == 0 && r->dtype == TIDE_FLOAT32);
  tide_tensor *expected = NULL;
  OK(tide_binary(&expected, TIDE_OP_mul, zero, cpu, NULL));
  CHECK(holds(r, expected));
  tide_tensor *v = NULL;
  FAILS(TIDE_DEVICE, tide_binary(&v, TIDE_OP_add, cpu, d0, NULL));
  CHECK(strstr(tide_error_get()->message, "x on cpu, y on cuda:0") != NULL);
  FAILS(TIDE_DEVICE, tide_binary(&v, TIDE_OP_add, d0, d1, NULL));
  FAILS(TIDE_DEVICE, tide_binary(NULL, TIDE_OP_add, d0, d0, cpu));
  FAILS(TIDE_DEVICE, tide_matmul(&v, d0, cpu, NULL));
  FAILS(TIDE_DEVICE, tide_cat(&v, (tide_tensor *[]){d0, cpu}, 2, 0, NULL));
  FAILS(TIDE_DEVICE, tide_mask_get(&v, d0, cpu));
  tide_tensor *flags = moved(cpu, 0, TIDE_BOOL);
  FAILS(TIDE_DTYPE, tide_matmul(&v, flags, flags, NULL));
  tide_tensor *all[] = {cpu, zero, d0, d1, r, expected, flags};
  for (int k = 0; k < 7; k++) tide_tensor_release(all[k]);
}

/* The same steps on a device and on the CPU give the same values. */
static void test_same_on_device(void) {
  static const int64_t size[2] = {6, 6};
  for (int layout = 0; layout < LAYOUTS; layout++) {
    tide_tensor *x[2] = {laid_out(size, 2, TIDE_FLOAT32, layout, 0), NULL}, *r[2][6] = {{NULL}};
    x[1] = moved(x[0], 1, TIDE_DTYPE_NONE);
    for (int k = 0; k < 2; k++) {
      tide_operand in[2] = {{.tensor = x[k]}, {.number = tide_int(0)}};
      tide_tensor *mask = NULL;
      OK(tide_elementwise(&mask, TIDE_OP_gt, in, NULL, NULL));
      OK(tide_mask_get(&r[k][0], x[k], mask));
      OK(tide_nonzero(&r[k][1], mask));
      OK(tide_tril(&r[k][2], x[k], 1, false));
      OK(tide_reduce(&r[k][3], TIDE_SUM, x[k], &(tide_reduce_options){(int[]){0}, 1, false, TIDE_DTYPE_NONE, 0}, NULL));
      OK(tide_index_get(&r[k][4], r[k][0], 0, r[k][1]));
      tide_manual_seed(7);
      OK(tide_random(x[k], TIDE_UNIFORM, 0, 1, NULL));
      OK(tide_clone(&r[k][5], x[k]));
      tide_tensor_release(mask);
    }
    for (int i = 0; i < 6; i++) {
      CHECK(holds(r[1][i], r[0][i]));
      tide_tensor_release(r[0][i]), tide_tensor_release(r[1][i]);
    }
    tide_tensor_release(x[0]), tide_tensor_release(x[1]);
  }
}

static void test_bad_index(void) {
  tide_tensor *x = counted(4, TIDE_FLOAT32), *d = moved(x, 0, TIDE_DTYPE_NONE), *index = NULL, *r = NULL;
  OK(tide_full(&index, (int64_t[]){2}, 1, tide_int(9), &(tide_options){TIDE_INT64, 0, false}));
  tide_status status = tide_index_get(&r, d, 0, index);
  if (status == TIDE_OK) status = tide_device_synchronize(0);
  CHECK(status == TIDE_INDEX && strstr(tide_error_get()->message, "9") != NULL);
  OK(tide_device_synchronize(0)); /* the device lives on */
  tide_tensor_release(x), tide_tensor_release(d), tide_tensor_release(index), tide_tensor_release(r);
}

/* Operands that live elsewhere: a value without dims on the host, a mask on a peer. */
static void test_elsewhere(void) {
  const int64_t six = 6, two = 2;
  static const bool taken[] = {true, false, false, true, true, false};
  tide_tensor *x = counted(6, TIDE_FLOAT32), *on0 = moved(x, 0, TIDE_FLOAT32), *number = NULL, *index = NULL;
  tide_tensor *mask = NULL, *peers = NULL, *got = NULL, *back = NULL;
  OK(tide_full(&number, NULL, 0, tide_int(9), &(tide_options){TIDE_INT64, TIDE_CPU, false}));
  OK(tide_empty(&index, &two, 1, &(tide_options){TIDE_INT64, TIDE_CPU, false}));
  OK(tide_write(index, (const int64_t[]){1, 4}));
  OK(tide_empty(&mask, &six, 1, &(tide_options){TIDE_BOOL, TIDE_CPU, false}));
  OK(tide_write(mask, taken));
  tide_tensor *index0 = moved(index, 0, TIDE_INT64);
  OK(tide_index_set(on0, 0, index0, &(tide_operand){.tensor = number}));
  back = moved(on0, TIDE_CPU, TIDE_FLOAT64);
  for (int64_t i = 0; i < 6; i++) CHECK(flat_at(back, i) == (i == 1 || i == 4 ? 9 : flat_at(x, i)));
  tide_tensor_release(back), back = NULL;
  peers = moved(mask, 1, TIDE_BOOL);
  tide_status status = tide_mask_get(&got, on0, peers);
  if (status == TIDE_OK) {
    back = moved(got, TIDE_CPU, TIDE_FLOAT64);
    CHECK(back->numel == 3 && flat_at(back, 0) == flat_at(x, 0) && flat_at(back, 1) == flat_at(x, 3) &&
          flat_at(back, 2) == 9);
    tide_tensor_release(back), tide_tensor_release(got);
  } else {
    CHECK(status == TIDE_DEVICE && !got); /* not where peers do not reach each other */
  }
  void *memory = NULL;
  CHECK(tide_sim_mem_alloc(&memory, 2, 64) == TIDE_DEVICE && !memory);
  CHECK(
      !strcmp(tide_error_get()->message, "tide_sim_mem_alloc: no such simulated device, got 2, expected less than 2"));
  CHECK(tide_sim_mem_alloc(&memory, -1, 64) == TIDE_DEVICE && !memory);
  OK(tide_sim_mem_alloc(&memory, 1, 64));
  tide_sim_mem_free(2, memory), tide_sim_mem_free(-1, memory); /* nothing */
  tide_sim_mem_free(1, memory);
  tide_tensor *all[] = {x, on0, number, index, mask, index0, peers};
  for (int k = 0; k < 7; k++) tide_tensor_release(all[k]);
}

int main(void) {
  for (uint64_t seed = 1; seed < 4; seed++) {
    tide_config config = {.struct_size = sizeof config, .sim_devices = 2, .sim_memory = 64 << 20, .sim_seed = seed};
    OK(tide_init(&config));
    test_routes();
    test_pinned();
    test_readback();
    test_streams();
    test_mixed();
    test_same_on_device();
    test_bad_index();
    test_elsewhere();
    OK(tide_device_synchronize(0));
    OK(tide_device_synchronize(1));
    tide_memory_pump();
    CHECK(tide_memory_allocated(0) == 0 && tide_memory_allocated(1) == 0 && tide_memory_cpu_allocated() == 0);
    tide_shutdown();
  }
  return finish("tensor_device_test");
}
