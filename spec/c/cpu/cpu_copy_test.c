/* cpu_copy_test.c: copies, fills and progressions of the CPU backend against one element at a time, for every dtype and
 * instruction set, in layouts with holes, negative and zero strides. Conversions are those of cpu_test.h. */
#include "cpu_test.h"

static void copy_trial(int to, int from, const char *isa) {
  tide_copy_args a;
  memset(&a, 0, sizeof a);
  a.ndim = random_size(a.size);
  a.flat = below(3) == 0;
  if (a.flat) a.size[0] = numel_of(a.size, a.ndim), a.ndim = 1;
  a.numel = numel_of(a.size, a.ndim);
  a.dtype[0] = (uint8_t)to, a.dtype[1] = (uint8_t)from;
  memory out = memory_new(a.stride[0], a.size, a.ndim, a.flat ? DENSE : (int)below(REPEATED), item_of(to));
  memory in = memory_new(a.stride[1], a.size, a.ndim, a.flat ? DENSE : (int)below(LAYOUTS), item_of(from));
  char *before = malloc(out.bytes);
  memcpy(before, out.all, out.bytes);
  a.head.ptr[0] = out.first, a.head.ptr[1] = in.first;
  for (int64_t i = 0; i < a.numel; i++)
    put(from, in.first + offset_at(a.size, a.stride[1], a.ndim, i) * item_of(from), odd_value(from), from);
  CHECK(tide__cpu_copy(NULL, &a) == TIDE_OK, "copy");
  bool right = true;
  for (int64_t i = 0; i < a.numel && right; i++) {
    char room[16], *p = out.first + offset_at(a.size, a.stride[0], a.ndim, i) * item_of(to);
    tide_value v = get(from, in.first + offset_at(a.size, a.stride[1], a.ndim, i) * item_of(from));
    put(to, room, v, from);
    tide_value want = get(to, room), got = get(to, p);
    right = same_value(got, want, to);
    CHECK(right, "%s: %s to %s, element %lld of %lld: %lld %.17g became %lld %.17g, expected %lld %.17g", isa,
          tide_dtype_name((tide_dtype)from), tide_dtype_name((tide_dtype)to), (long long)i, (long long)a.numel,
          (long long)v.i, v.re, (long long)got.i, got.re, (long long)want.i, want.re);
    memcpy(p, before + (p - out.all), (size_t)item_of(to));
  }
  if (right) CHECK(!memcmp(before, out.all, out.bytes), "a copy wrote outside its elements");
  free(out.all), free(in.all), free(before);
}

static void test_transposed(void) {
  enum { H = 300, W = 517 };
  for (int dtype = 0; dtype < TIDE_DTYPE_COUNT; dtype++) {
    int item = item_of(dtype);
    char *in = calloc(H * W, (size_t)item), *out = calloc(H * W, (size_t)item);
    for (int64_t i = 0; i < H * W; i++) put(dtype, in + i * item, plain_value(dtype), dtype);
    tide_copy_args a = {.head = {.ptr = {out, in}},
                        .ndim = 2,
                        .dtype = {(uint8_t)dtype, (uint8_t)dtype},
                        .numel = H * W,
                        .size = {W, H},
                        .stride = {{H, 1}, {1, W}}};
    CHECK(tide__cpu_copy(NULL, &a) == TIDE_OK, "copy");
    bool right = true;
    for (int64_t i = 0; i < W; i++)
      for (int64_t j = 0; j < H; j++)
        right = right && !memcmp(out + (i * H + j) * item, in + (j * W + i) * item, (size_t)item);
    CHECK(right, "transposed copy of %s", tide_dtype_name((tide_dtype)dtype));
    free(in), free(out);
  }
}

static void test_fill(void) {
  for (int dtype = 0; dtype < TIDE_DTYPE_COUNT; dtype++)
    for (int r = 0; r < 8; r++) {
      tide_fill_args a;
      memset(&a, 0, sizeof a);
      a.ndim = random_size(a.size);
      a.flat = r < 3;
      if (a.flat) a.size[0] = r == 0 ? 1000003 : numel_of(a.size, a.ndim), a.ndim = 1;
      a.numel = numel_of(a.size, a.ndim), a.dtype = dtype;
      put(dtype, a.bits, odd_value(dtype), dtype);
      memory m = memory_new(a.stride, a.size, a.ndim, a.flat ? DENSE : (int)below(REPEATED), item_of(dtype));
      char *want = malloc(m.bytes);
      memcpy(want, m.all, m.bytes);
      a.head.ptr[0] = m.first;
      CHECK(tide__cpu_fill(NULL, &a) == TIDE_OK, "fill");
      for (int64_t i = 0; i < a.numel; i++)
        memcpy(want + (m.first - m.all) + offset_at(a.size, a.stride, a.ndim, i) * item_of(dtype), a.bits,
               (size_t)item_of(dtype));
      CHECK(!memcmp(want, m.all, m.bytes), "fill of %s", tide_dtype_name((tide_dtype)dtype));
      free(m.all), free(want);
    }
}

static void test_arange(void) {
  enum { N = 70001 };
  double *out = malloc(N * sizeof *out);
  for (int dtype = TIDE_UINT8; dtype <= TIDE_FLOAT64; dtype++)
    for (int symmetric = 0; symmetric < 2; symmetric++) {
      tide_arange_args a = {.head = {.ptr = {out}},
                            .dtype = dtype,
                            .symmetric = symmetric && !is_whole(dtype),
                            .numel = N,
                            .start = {5, 0.25, 0},
                            .step = {-3, 0.1, 0},
                            .last = {0, 0.25 + 0.1 * (N - 1), 0}};
      CHECK(tide__cpu_arange(NULL, &a) == TIDE_OK, "arange");
      for (int64_t i = 0; i < N; i += i < 100 ? 1 : 997) {
        tide_value v = {
            5 - 3 * i,
            a.symmetric && i >= N / 2 ? fma(-(double)(N - 1 - i), 0.1, a.last.re) : fma((double)i, 0.1, 0.25), 0};
        char room[16];
        put(dtype, room, v, is_whole(dtype) ? TIDE_INT64 : TIDE_FLOAT64);
        CHECK(!memcmp(room, (char *)out + i * item_of(dtype), (size_t)item_of(dtype)), "arange of %s, element %lld",
              tide_dtype_name((tide_dtype)dtype), (long long)i);
      }
    }
  free(out);
}

int main(void) {
  for (int s = 0; s < 3; s++) {
    if (!tide__isa_set(isa_names[s])) continue;
    for (int to = 0; to < TIDE_DTYPE_COUNT; to++)
      for (int from = 0; from < TIDE_DTYPE_COUNT; from++)
        for (int r = 0; r < 3; r++) copy_trial(to, from, isa_names[s]);
    test_transposed();
    test_fill();
    test_arange();
  }
  if (failures) printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
