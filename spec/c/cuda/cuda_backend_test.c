/* cuda_backend_test.c: every kernel of the CUDA backend against the CPU's, and what the backend does besides.
 *
 * The library is used through its table alone, with a small host of our own, so a failure is the backend's. Each case
 * runs the same plan on both sides and compares whole allocations, so that an element outside of a view that was
 * written is found too. Skipped (77) where there is no library or no device. `cuda_backend_test [LIBRARY] bench`
 * measures instead; `cuda_backend_test sim` tries the cases themselves, on a simulated device. */
#include "cuda_test.h"

#include "cuda_bench.h"

static const char *name_of(int dtype) { return tide_dtype_name((tide_dtype)dtype); }

/* ---- layouts: sizes, strides of each operand, first elements ---- */

enum { FLAT, SHIFTED, PADDED, ROW, COLUMN, TRANSPOSED, STRIDE2, DEEP, LAYOUTS };
static const char *const layout_names[] = {"flat",       "shifted",  "padded", "row broadcast", "column broadcast",
                                           "transposed", "stride 2", "deep"};

typedef struct layout {
  int ndim;
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_OPERANDS][TIDE_MAX_DIMS], count[TIDE_MAX_OPERANDS], at, numel;
} layout;

static void rows_of(layout *l, int k, int64_t row, int64_t col) { l->stride[k][0] = row, l->stride[k][1] = col; }

static layout layout_of(int which, int operands, int64_t m, int64_t n) {
  layout l = {.ndim = 2, .size = {m, n}, .at = which == SHIFTED ? 1 : 0};
  for (int k = 0; k < operands; k++) {
    rows_of(&l, k, n, 1);
    if (which == PADDED) rows_of(&l, k, n + 8 * k, 1);
    if (which == ROW && k == 1) rows_of(&l, k, 0, 1);
    if (which == COLUMN && k == operands - 1 && k > 0) rows_of(&l, k, 1, 0);
    if (which == TRANSPOSED && k > 0) rows_of(&l, k, 1, m);
    if (which == STRIDE2) rows_of(&l, k, 2 * n, 2);
  }
  if (which == DEEP) {
    l = (layout){.ndim = 4, .size = {3, 5, 2, n / 8 + 1}};
    for (int k = 0; k < operands; k++) {
      int64_t s = n / 8 + 1;
      int64_t strides[] = {40 * s, k == 1 ? -3 * s : 3 * s, k == 2 ? 0 : s, 1};
      memcpy(l.stride[k], strides, sizeof strides);
      if (k == 1) l.at = 12 * s;
    }
  }
  l.numel = 1;
  for (int k = 0; k < operands; k++) {
    l.count[k] = 1;
    for (int d = 0; d < l.ndim; d++)
      if (l.stride[k][d] > 0) l.count[k] += l.stride[k][d] * (l.size[d] - 1);
  }
  for (int d = 0; d < l.ndim; d++) l.numel *= l.size[d];
  l.ndim = tide__collapse(l.size, l.stride, operands, l.ndim, false);
  return l;
}

static bool is_flat(const layout *l, int operands) {
  bool flat = l->ndim == 1;
  for (int k = 0; k < operands; k++) flat = flat && l->stride[k][0] == 1;
  return flat;
}

/* ---- elementwise ---- */

/* Ops whose results cross thresholds or lose digits by nature get inputs and tolerances of their own. */
static double op_range(int op) {
  switch (op) {
  case TIDE_OP_asin:
  case TIDE_OP_acos:
  case TIDE_OP_atanh:
  case TIDE_OP_erfinv: return 0.95;
  default: return 9;
  }
}

static double op_slack(int op) {
  switch (op) {
  case TIDE_OP_tan:
  case TIDE_OP_digamma:
  case TIDE_OP_lgamma:
  case TIDE_OP_polygamma:
  case TIDE_OP_sinc:
  case TIDE_OP_ndtri:
  case TIDE_OP_pow: return 50;
  case TIDE_OP_exp:
  case TIDE_OP_sinh:
  case TIDE_OP_cosh:
  case TIDE_OP_remainder:
  case TIDE_OP_fmod: return 5;
  default: return 1;
  }
}

static bool accepts(const char *rule, int compute) {
  bool is_int = compute == TIDE_INT32 || compute == TIDE_INT64, is_complex = compute >= TIDE_COMPLEX64;
  if (!strcmp(rule, "FLOAT") || !strcmp(rule, "EXACT")) return !is_int && !is_complex;
  if (!strcmp(rule, "FLOATC") || !strcmp(rule, "MATHC") || !strcmp(rule, "CLOSE")) return !is_int;
  if (!strcmp(rule, "ARITHC") || !strcmp(rule, "REALC") || !strcmp(rule, "EQUALC") || !strcmp(rule, "TEST") ||
      !strcmp(rule, "LOGIC"))
    return true;
  if (!strcmp(rule, "BITS")) return is_int;
  return !is_complex;
}

static bool is_test(const char *rule) {
  return !strcmp(rule, "TEST") || !strcmp(rule, "COMPARE") || !strcmp(rule, "EQUALC") || !strcmp(rule, "CLOSE") ||
         !strcmp(rule, "LOGIC");
}

/* in: dtype of each input, -1 for a number. */
static void elementwise_case(int op, int compute, int result, const int *in, int which, int64_t m, int64_t n) {
  const tide_op_info *info = tide_op_get((tide_op)op);
  int operands = info->operands + 1;
  layout l = layout_of(which, operands, m, n);
  tide_elementwise_args a = {.head = {.nptr = operands}, .op = op, .operands = operands, .compute = compute};
  a.ndim = l.ndim, a.numel = l.numel, a.flat = is_flat(&l, operands);
  operand x[TIDE_MAX_OPERANDS];
  double range = op_range(op);
  for (int k = 0; k < operands; k++) {
    int dtype = k == 0 ? result : in[k - 1];
    a.is_number[k] = dtype < 0;
    a.dtype[k] = (uint8_t)(dtype < 0 ? compute : dtype);
    a.number[k] = (tide_value){3, 1.5, -0.5};
    x[k] = make(a.dtype[k], l.count[k], l.at, range, true);
    memcpy(a.stride[k], l.stride[k], sizeof a.stride[k]);
  }
  memcpy(a.size, l.size, sizeof a.size);
  for (int p = 0; p < 3; p++) a.param[p] = (tide_value){2 + p, 0.5 + p, 0.25};
  tide_elementwise_args b = a;
  for (int k = 0; k < operands; k++) a.head.ptr[k] = x[k].host + x[k].at, b.head.ptr[k] = x[k].device + x[k].at;
  OK(cpu->elementwise(NULL, &a));
  OK(gpu->elementwise(stream, &b));
  char inputs[100] = "";
  for (int k = 1; k < operands; k++)
    snprintf(inputs + strlen(inputs), 30, " %s", a.is_number[k] ? "number" : name_of(a.dtype[k]));
  /* A GPU fuses products and sums. */
  double slack = op_slack(op) * (compute >= TIDE_COMPLEX64 ? 4 : 1);
  compare_with(&x[0], tolerance_of(result) * slack, "%s of%s to %s, %s %lldx%lld", info->name, inputs, name_of(result),
               layout_names[which], (long long)m, (long long)n);
  for (int k = 0; k < operands; k++) drop(&x[k]);
}

static void elementwise_op(int op, int compute, int storage) {
  const tide_op_info *info = tide_op_get((tide_op)op);
  int result = is_test(info->rule) ? TIDE_BOOL : storage, in[3] = {storage, storage, storage};
  if (op == TIDE_OP_where) in[0] = TIDE_BOOL;
  elementwise_case(op, compute, result, in, FLAT, 1, 9001);
  elementwise_case(op, compute, result, in, SHIFTED, 1, 2500);
  elementwise_case(op, compute, result, in, TRANSPOSED, 40, 33);
  if (info->operands == 1) return;
  elementwise_case(op, compute, result, in, ROW, 7, 2056);
  in[info->operands - 1] = -1;
  elementwise_case(op, compute, result, in, FLAT, 1, 4099);
  in[info->operands - 1] = storage, in[info->operands - 2] = -1;
  elementwise_case(op, compute, result, in, PADDED, 9, 520);
}

static void test_elementwise(void) {
  static const int pairs[][2] = {
      {TIDE_FLOAT32, TIDE_FLOAT32}, {TIDE_FLOAT32, TIDE_FLOAT16},     {TIDE_FLOAT32, TIDE_BFLOAT16},
      {TIDE_FLOAT64, TIDE_FLOAT64}, {TIDE_INT32, TIDE_INT32},         {TIDE_INT64, TIDE_INT64},
      {TIDE_INT32, TIDE_UINT8},     {TIDE_COMPLEX64, TIDE_COMPLEX64}, {TIDE_COMPLEX128, TIDE_COMPLEX128}};
  for (int op = 0; op < TIDE_OP_COUNT; op++)
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
      if (accepts(tide_op_get((tide_op)op)->rule, pairs[p][0])) elementwise_op(op, pairs[p][0], pairs[p][1]);
  for (int which = 0; which < LAYOUTS; which++) {
    static const int sizes[][2] = {{1, 1}, {3, 5}, {17, 129}, {8, 4096}, {5, 2051}};
    for (int i = 0; i < 5; i++) {
      int same[] = {TIDE_FLOAT32, TIDE_FLOAT32, TIDE_FLOAT32}, mixed[] = {TIDE_INT64, TIDE_BFLOAT16, TIDE_UINT8};
      elementwise_case(TIDE_OP_add, TIDE_FLOAT32, TIDE_FLOAT32, same, which, sizes[i][0], sizes[i][1]);
      elementwise_case(TIDE_OP_sub, TIDE_FLOAT32, TIDE_FLOAT64, mixed, which, sizes[i][0], sizes[i][1]);
      elementwise_case(TIDE_OP_addcmul, TIDE_FLOAT32, TIDE_FLOAT16, mixed, which, sizes[i][0], sizes[i][1]);
    }
  }
}

/* ---- copy, fill, arange ---- */

static void copy_case(int to, int from, int which, int64_t m, int64_t n) {
  layout l = layout_of(which, 2, m, n);
  tide_copy_args a = {.head = {.nptr = 2}, .flat = is_flat(&l, 2), .ndim = l.ndim, .numel = l.numel};
  a.dtype[0] = (uint8_t)to, a.dtype[1] = (uint8_t)from;
  memcpy(a.size, l.size, sizeof a.size);
  operand x[2];
  for (int k = 0; k < 2; k++) {
    x[k] = make(a.dtype[k], l.count[k], l.at, 100, to != TIDE_UINT8);
    memcpy(a.stride[k], l.stride[k], sizeof a.stride[k]);
  }
  tide_copy_args b = a;
  for (int k = 0; k < 2; k++) a.head.ptr[k] = x[k].host + x[k].at, b.head.ptr[k] = x[k].device + x[k].at;
  OK(cpu->copy(NULL, &a));
  OK(gpu->copy(stream, &b));
  compare_with(&x[0], 0, "copy %s to %s, %s %lldx%lld", name_of(from), name_of(to), layout_names[which], (long long)m,
               (long long)n);
  for (int k = 0; k < 2; k++) drop(&x[k]);
}

static void test_copy(void) {
  for (int to = 0; to < TIDE_DTYPE_COUNT; to++)
    for (int from = 0; from < TIDE_DTYPE_COUNT; from++) {
      copy_case(to, from, FLAT, 1, 17000);
      copy_case(to, from, SHIFTED, 1, 777);
      copy_case(to, from, TRANSPOSED, 33, 20);
    }
  static const int items[] = {TIDE_UINT8, TIDE_INT16, TIDE_FLOAT32, TIDE_FLOAT64, TIDE_COMPLEX128};
  for (int i = 0; i < 5; i++)
    for (int which = 0; which < LAYOUTS; which++) {
      copy_case(items[i], items[i], which, 64, 128);
      copy_case(items[i], items[i], which, 130, 67);
      copy_case(items[i], items[i], which, 192, 260);
    }
}

static void fill_case(int dtype, int which, int64_t m, int64_t n) {
  layout l = layout_of(which, 1, m, n);
  tide_fill_args a = {.head = {.nptr = 1}, .flat = is_flat(&l, 1), .ndim = l.ndim, .dtype = dtype, .numel = l.numel};
  memcpy(a.size, l.size, sizeof a.size);
  memcpy(a.stride, l.stride[0], sizeof a.stride);
  put(a.bits, dtype, 100, false);
  operand x = make(dtype, l.count[0], l.at, 9, false);
  tide_fill_args b = a;
  a.head.ptr[0] = x.host + x.at, b.head.ptr[0] = x.device + x.at;
  OK(cpu->fill(NULL, &a));
  OK(gpu->fill(stream, &b));
  compare_with(&x, 0, "fill %s, %s %lldx%lld", name_of(dtype), layout_names[which], (long long)m, (long long)n);
  drop(&x);
}

static void arange_case(int dtype, int64_t n, int symmetric) {
  tide_arange_args a = {.head = {.nptr = 1}, .dtype = dtype, .symmetric = symmetric, .numel = n};
  a.start = (tide_value){5, 5.25, 0}, a.step = (tide_value){-3, 0.1, 0};
  a.last = (tide_value){0, 5.25 + 0.1 * (double)(n - 1), 0};
  operand x = make(dtype, n, 0, 9, false);
  tide_arange_args b = a;
  a.head.ptr[0] = x.host, b.head.ptr[0] = x.device;
  OK(cpu->arange(NULL, &a));
  OK(gpu->arange(stream, &b));
  COMPARE(&x, "arange %s %lld symmetric %d", name_of(dtype), (long long)n, symmetric);
  drop(&x);
}

static void test_fill(void) {
  for (int dtype = 0; dtype < TIDE_DTYPE_COUNT; dtype++) {
    for (int which = 0; which < LAYOUTS; which++)
      if (which != ROW && which != COLUMN) fill_case(dtype, which, 50, 201);
    fill_case(dtype, FLAT, 1, 40000);
    arange_case(dtype, 1001, 0);
    if (tide_dtype_kind((tide_dtype)dtype) == 'F') arange_case(dtype, 1001, 1);
  }
}

/* ---- the rest ---- */

#include "cuda_cases.h"

static void run_all(void) {
  static const struct {
    const char *name;
    void (*run)(void);
  } all[] = {{"elementwise", test_elementwise}, {"copy", test_copy},         {"fill", test_fill},
             {"reduce", test_reduce},           {"index", test_index},       {"compact", test_compact},
             {"random", test_random},           {"randperm", test_randperm}, {"gemm", test_gemm},
             {"cholesky", test_cholesky},       {"solve", test_solve},       {"streams", test_streams},
             {"copies", test_copies},           {"device", test_device}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    int failed = failures, done = checks;
    double start = now();
    all[i].run();
    printf("%s %s: %d of %d failed, %.2f s\n", failures == failed ? "PASS" : "FAIL", all[i].name, failures - failed,
           checks - done, (now() - start) * 1e-9);
    fflush(stdout);
  }
}

int main(int argc, char **argv) {
  const char *path = argc > 1 && strchr(argv[1], '/') ? argv[1] : NULL;
  double start = now();
  if (!gpu_open(path, argc > 1 && !strcmp(argv[1], "sim"))) return 77;
  double opened = now();
  if (argc > 1 && !strcmp(argv[argc - 1], "bench")) {
    printf("bench\topen\t%.1f\tms\n", (opened - start) * 1e-6);
    bench_all();
  } else {
    run_all();
  }
  gpu->stream_free(head.impl);
  gpu->close();
  printf("%d of %d checks failed\n", failures, checks);
  return failures != 0;
}
