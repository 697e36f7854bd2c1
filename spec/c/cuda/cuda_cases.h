/* cuda_cases.h: the second half of cuda_backend_test.c: reductions, indexing, random numbers, products, streams,
 * copies. */

/* ---- reductions ---- */

typedef struct reduce_shape {
  const char *name;
  int nkeep, nred;
  int64_t keep_size[3], keep_in[3], red_size[3], red_in[3];
} reduce_shape;

static int reduce_acc(int op, int in) {
  char kind = tide_dtype_kind((tide_dtype)in);
  if (op == TIDE_ALL || op == TIDE_ANY) return TIDE_BOOL;
  if (op == TIDE_COUNT_NONZERO) return TIDE_INT64;
  if (op == TIDE_NORM && kind == 'C') return in == TIDE_COMPLEX64 ? TIDE_FLOAT32 : TIDE_FLOAT64;
  if (kind == 'C') return in;
  if (kind == 'F') return in == TIDE_FLOAT64 ? TIDE_FLOAT64 : TIDE_FLOAT32;
  return op == TIDE_MEAN || op == TIDE_NORM || op == TIDE_VAR || op == TIDE_STD ? TIDE_FLOAT32 : TIDE_INT64;
}

static int reduce_result(int op, int in, int acc) {
  if (op == TIDE_ALL || op == TIDE_ANY) return TIDE_BOOL;
  if (op == TIDE_ARGMAX || op == TIDE_ARGMIN || op == TIDE_COUNT_NONZERO) return TIDE_INT64;
  if (op == TIDE_MAX || op == TIDE_MIN) return in;
  return acc;
}

static void reduce_case(int op, int in, const reduce_shape *s, double p, bool second, int64_t shift) {
  int acc = reduce_acc(op, in), result = reduce_result(op, in, acc);
  tide_reduce_args a = {.head = {.nptr = 3}, .op = op, .acc = acc, .nkeep = s->nkeep, .nred = s->nred, .index_base = 1};
  int index = op == TIDE_VAR || op == TIDE_STD ? acc : TIDE_INT64;
  a.dtype[0] = (uint8_t)result, a.dtype[1] = (uint8_t)in, a.dtype[2] = (uint8_t)index;
  a.outer = a.inner = 1;
  int64_t span = 1;
  for (int d = 0; d < s->nkeep; d++) a.outer *= s->keep_size[d], span += (s->keep_size[d] - 1) * s->keep_in[d];
  for (int d = 0; d < s->nred; d++) {
    a.inner *= s->red_size[d], span += (s->red_size[d] - 1) * s->red_in[d];
    a.red_size[d] = s->red_size[d], a.red_stride[d] = s->red_in[d];
  }
  int64_t at = a.outer;
  for (int d = 0; d < s->nkeep; d++) {
    at /= s->keep_size[d];
    a.keep_size[d] = s->keep_size[d];
    a.keep_stride[0][d] = a.keep_stride[2][d] = at, a.keep_stride[1][d] = s->keep_in[d];
  }
  a.param = op == TIDE_NORM ? p : op != TIDE_MIN; /* 1 of MIN: both ends */
  a.scale = op == TIDE_MEAN ? 1.0 / (double)a.inner : 1;
  operand x[3] = {make(result, a.outer, 0, 9, false),
                  make(in, span, shift, op == TIDE_PROD ? 1.2 : 6, op == TIDE_NANSUM),
                  make(index, a.outer, 0, 9, false)};
  tide_reduce_args b = a;
  for (int k = 0; k < 2 + second; k++) a.head.ptr[k] = x[k].host + x[k].at, b.head.ptr[k] = x[k].device + x[k].at;
  OK(cpu->reduce(NULL, &a));
  OK(gpu->reduce(stream, &b));
  /* The terms of a sum, of size 6, may cancel; what was rounded on the way does not. */
  double slack = 10 + sqrt((double)a.inner) / (op == TIDE_SUM ? 4 : 10);
  for (int k = 0; k <= 2; k += 2)
    if (k == 0 || second)
      compare_with(&x[k], tolerance_of(x[k].dtype) * slack, "%s of %s, %s, p %g, shift %d, result %d",
                   tide_reduction_get((tide_reduction)op)->name, name_of(in), s->name, p, (int)shift, k);
  for (int k = 0; k < 3; k++) drop(&x[k]);
}

static const reduce_shape reduce_shapes[] = {
    {"one", 0, 1, {0}, {0}, {1}, {1}},
    {"all of 1000", 0, 1, {0}, {0}, {1000}, {1}},
    {"all of 300001", 0, 1, {0}, {0}, {300001}, {1}},
    {"rows of 3", 1, 1, {5000}, {3}, {3}, {1}},
    {"rows of 100", 1, 1, {77}, {100}, {100}, {1}},
    {"rows of 4096", 1, 1, {37}, {4096}, {4096}, {1}},
    {"two rows of 200000", 1, 1, {2}, {200000}, {200000}, {1}},
    {"columns of 300", 1, 1, {1000}, {1}, {300}, {1000}},
    {"columns of 20000", 1, 1, {130}, {1}, {20000}, {130}},
    {"middle", 2, 1, {9, 200}, {200 * 33, 1}, {33}, {200}},
    {"outer and inner", 1, 2, {20}, {50}, {30, 50}, {1000, 1}},
    {"strided", 1, 1, {60}, {400}, {200}, {2}},
    {"deep", 2, 2, {4, 6}, {1500, 5}, {25, 5}, {60, 1}},
};

static void reduce_op(int op, int in) {
  for (size_t i = 0; i < sizeof reduce_shapes / sizeof *reduce_shapes; i++) {
    const reduce_shape *s = &reduce_shapes[i];
    bool second = op == TIDE_MAX || op == TIDE_MIN || op == TIDE_VAR || op == TIDE_STD;
    bool long_product = op == TIDE_PROD && s->red_size[0] > 1000;
    if (long_product) continue;
    if (op != TIDE_NORM) {
      reduce_case(op, in, s, 1, false, 0);
      if (i % 3 == 0) reduce_case(op, in, s, 1, second, 1);
      continue;
    }
    static const double powers[] = {2, 1, 0, INFINITY, -INFINITY, 3};
    for (int p = 0; p < 6; p++) reduce_case(op, in, s, powers[p], false, p & 1);
  }
}

static void test_reduce(void) {
  for (int op = 0; op < TIDE_REDUCTION_COUNT; op++) {
    for (int in = 0; in < TIDE_DTYPE_COUNT; in++) {
      if (reduction_takes(op, tide_dtype_kind((tide_dtype)in))) reduce_op(op, in);
    }
  }
  /* Constant and infinite rows: the first of equals, also when nothing beats the initial value. */
  operand x = make(TIDE_FLOAT32, 5000, 0, 1, false), out = make(TIDE_INT64, 5, 0, 1, false);
  for (int i = 0; i < 5000; i++) ((float *)x.host)[i] = i < 1000 ? 1.0f : i < 2000 ? -INFINITY : i < 3000 ? NAN : 0;
  ((float *)x.host)[1500] = NAN, ((float *)x.host)[3700] = INFINITY, ((float *)x.host)[4999] = 2;
  upload(&x);
  tide_reduce_args a = {.head = {.ptr = {out.device, x.device}, .nptr = 2}, .op = TIDE_ARGMAX, .acc = TIDE_FLOAT32};
  a.nkeep = 1, a.nred = 1, a.dtype[0] = TIDE_INT64, a.dtype[1] = TIDE_FLOAT32, a.scale = 1;
  a.outer = 5, a.inner = 1000, a.keep_size[0] = 5, a.keep_stride[0][0] = 1, a.keep_stride[1][0] = 1000;
  a.red_size[0] = 1000, a.red_stride[0] = 1;
  OK(gpu->reduce(stream, &a));
  static const int64_t expected[] = {0, 500, 0, 700, 999};
  memcpy(out.host, expected, sizeof expected);
  COMPARE(&out, "argmax of special rows");
  drop(&x), drop(&out);
  /* logsumexp of rows that are constant, of -inf alone, with +inf, with NaN, and beyond what exp takes. */
  static const float rows[5][2] = {{1, 1}, {-INFINITY, -INFINITY}, {2, INFINITY}, {0, NAN}, {700, 712}};
  x = make(TIDE_FLOAT32, 5000, 0, 1, false), out = make(TIDE_FLOAT32, 5, 0, 1, false);
  for (int i = 0; i < 5000; i++) ((float *)x.host)[i] = rows[i / 1000][i % 1000 == 617];
  upload(&x);
  a.op = TIDE_LOGSUMEXP, a.dtype[0] = TIDE_FLOAT32, a.head.ptr[0] = out.device, a.head.ptr[1] = x.device;
  OK(gpu->reduce(stream, &a));
  static const float sums[] = {7.90775528f, -INFINITY, INFINITY, NAN, 712.0061f};
  memcpy(out.host, sums, sizeof sums);
  compare_with(&out, 1e-6, "logsumexp of special rows");
  drop(&x), drop(&out);
}

/* ---- Cholesky factors ---- */

static double complex element_of(const operand *x, int64_t i) {
  tide_scalar s = tide__scalar_unpack(x->host + i * size_of(x->dtype), (tide_dtype)x->dtype);
  return s.kind == 'C' ? s.re + s.im * _Complex_I : s.re;
}
static void element_set(operand *x, int64_t i, double complex v) {
  uint64_t bits[2];
  tide_scalar s = tide_float(creal(v));
  if (tide_dtype_kind((tide_dtype)x->dtype) == 'C') s.kind = 'C', s.im = cimag(v);
  tide__scalar_pack(bits, s, (tide_dtype)x->dtype);
  memcpy(x->host + i * size_of(x->dtype), bits, (size_t)size_of(x->dtype));
}

/* The lower factor of the n by n matrix at `first`, whose element (i, j) is at i * row + j * col; the order of the
 * leading minor that is not positive definite, or 0. */
static int factor_plainly(operand *x, int64_t first, int64_t n, int64_t row, int64_t col) {
  for (int64_t j = 0; j < n; j++) {
    double d = creal(element_of(x, first + j * (row + col)));
    for (int64_t k = 0; k < j; k++) d -= pow(cabs(element_of(x, first + j * row + k * col)), 2);
    if (!(d > 0)) return (int)j + 1;
    element_set(x, first + j * (row + col), sqrt(d));
    for (int64_t i = j + 1; i < n; i++) {
      double complex v = element_of(x, first + i * row + j * col);
      for (int64_t k = 0; k < j; k++)
        v -= element_of(x, first + i * row + k * col) * conj(element_of(x, first + j * row + k * col));
      element_set(x, first + i * row + j * col, v / sqrt(d));
    }
  }
  return 0;
}

/* The diagonal outweighs the rest of a row, but in the matrix `bad`, in its second to last row. */
static void cholesky_case(int dtype, int64_t n, int64_t batch, int64_t bad) {
  operand x = make(dtype, batch * n * n, 0, 1, false), order = make(TIDE_INT32, batch, 0, 9, false);
  for (int64_t b = 0; b < batch; b++)
    for (int64_t i = 0; i < n; i++) element_set(&x, (b * n + i) * n + i, b == bad && i == n - 2 ? -1 : 2 * (double)n);
  upload(&x);
  tide_linalg_args a = {.head = {.ptr = {[0] = x.device, [4] = order.device}, .nptr = 5}, .dtype = dtype};
  a.routine = TIDE_LINALG_CHOLESKY, a.m = a.n = n, a.batch = batch, a.step = n * n;
  OK(gpu->linalg(stream, &a));
  operand got = x;
  got.host = malloc(x.bytes);
  OK(gpu->copy_to_host(head.impl, got.host, x.device, x.bytes, false));
  for (int64_t b = 0; b < batch; b++) {
    int bad_order = factor_plainly(&x, b * n * n, n, 1, n);
    ((int32_t *)order.host)[b] = bad_order;
    for (int64_t k = 0; k < n * n; k++) {
      bool other = k / n > k % n;
      if (other || bad_order) element_set(&got, b * n * n + k, element_of(&x, b * n * n + k));
    }
  }
  upload(&got);
  compare_with(&x, tolerance_of(dtype) * (double)n, "cholesky of %s, %d x %d by %d", name_of(dtype), (int)batch, (int)n,
               (int)n);
  COMPARE(&order, "cholesky of %s, %d x %d by %d: orders", name_of(dtype), (int)batch, (int)n, (int)n);
  free(got.host);
  drop(&x), drop(&order);
}

static void test_cholesky(void) {
  static const int dtypes[] = {TIDE_FLOAT32, TIDE_FLOAT64, TIDE_COMPLEX64, TIDE_COMPLEX128};
  for (int d = 0; d < 4; d++) {
    cholesky_case(dtypes[d], 1, 1, -1);
    cholesky_case(dtypes[d], 40, 1, 0);
    cholesky_case(dtypes[d], 17, 9, 4);
    cholesky_case(dtypes[d], 130, 2, -1);
  }
  cholesky_case(TIDE_FLOAT32, 520, 2, 1); /* too large for one call of the batch */
}

/* A X = B for each of a batch, multiplied out again. All are stored by columns, or A by rows. */
static void solve_case(int dtype, int64_t n, int64_t k, int64_t batch, bool by_rows) {
  operand x = make(dtype, batch * n * n, 0, 1, false), b = make(dtype, batch * n * k, 0, 1, false);
  operand info = make(TIDE_INT32, batch, 0, 9, false);
  for (int64_t i = 0; i < batch * n; i++) element_set(&x, i / n * n * n + i % n * (n + 1), 2 * (double)n);
  upload(&x);
  tide_linalg_args a = {.dtype = dtype, .routine = TIDE_LINALG_SOLVE, .m = n, .n = n, .k = k, .batch = batch};
  a.flags = by_rows ? TIDE_LINALG_TRANSPOSED : 0, a.step = n * k, a.other_step = n * n;
  a.head = (tide_head){.ptr = {[0] = b.device, [4] = info.device, [5] = x.device}, .nptr = 6};
  OK(gpu->linalg(stream, &a));
  operand got = b;
  got.host = malloc(b.bytes);
  OK(gpu->copy_to_host(head.impl, got.host, b.device, b.bytes, false));
  for (int64_t at = 0; at < batch * n * k; at++) {
    int64_t i = at % n, column = at / n, first = column / k * n * n;
    double complex sum = 0;
    for (int64_t l = 0; l < n; l++)
      sum += element_of(&x, first + (by_rows ? i * n + l : l * n + i)) * element_of(&got, column * n + l);
    double away = cabs(sum - element_of(&b, at));
    report(away < tolerance_of(dtype) * (double)n * 4, "solve of %s, %d x %d by %d%s: off by %g", name_of(dtype),
           (int)batch, (int)n, (int)k, by_rows ? ", by rows" : "", away);
  }
  free(got.host);
  drop(&x), drop(&b), drop(&info);
}

static void test_solve(void) {
  static const int dtypes[] = {TIDE_FLOAT32, TIDE_FLOAT64, TIDE_COMPLEX64, TIDE_COMPLEX128};
  for (int d = 0; d < 4; d++) {
    for (int by_rows = 0; by_rows < 2; by_rows++) {
      solve_case(dtypes[d], 1, 1, 1, by_rows);
      solve_case(dtypes[d], 5, 2, 40, by_rows);
      solve_case(dtypes[d], 29, 2, 3, by_rows);
      solve_case(dtypes[d], 33, 3, 2, by_rows);
    }
  }
}

/* ---- indexing ---- */

static void index_case(int item, int index_dtype, int64_t outer, int64_t length, int64_t count, int64_t inner,
                       bool scatter) {
  static const int dtypes[] = {TIDE_UINT8, TIDE_INT16, TIDE_INT32, TIDE_INT64, TIDE_COMPLEX128};
  int dtype = dtypes[item];
  int64_t tensor = outer * length * inner, dense = outer * count * inner;
  operand to = make(dtype, scatter ? tensor : dense, 0, 100, false),
          from = make(dtype, scatter ? dense : tensor, 0, 100, false);
  operand index = make(index_dtype, count, 0, 1, false);
  for (int64_t k = 0; k < count; k++) {
    /* Distinct when scattering, so that the order of writes does not matter. */
    int64_t at = scatter ? (k * 7 + 3) % length : (int64_t)(any_bits() % (uint32_t)length),
            v = k % 3 ? at + 1 : at - length;
    if (index_dtype == TIDE_INT64)
      ((int64_t *)index.host)[k] = v;
    else
      ((int32_t *)index.host)[k] = (int32_t)v;
  }
  upload(&index);
  tide_index_args a = {.head = {.ptr = {to.host, from.host, index.host}, .nptr = 3}, .item_size = size_of(dtype)};
  a.index_dtype = index_dtype, a.index_base = 1, a.length = length, a.pitch = inner, a.numel = dense, a.dtype = dtype;
  if (outer > 1) a.size[0] = outer, a.stride[0][0] = count * inner, a.stride[1][0] = length * inner, a.ndim++;
  a.size[a.ndim] = count, a.stride[0][a.ndim] = inner, a.stride[2][a.ndim++] = 1;
  if (inner > 1) a.size[a.ndim] = inner, a.stride[0][a.ndim] = a.stride[1][a.ndim] = 1, a.ndim++;
  tide_index_args b = a;
  b.head.ptr[0] = to.device, b.head.ptr[1] = from.device, b.head.ptr[2] = index.device;
  OK((scatter ? cpu->scatter : cpu->gather)(NULL, &a));
  OK((scatter ? gpu->scatter : gpu->gather)(stream, &b));
  compare_with(&to, 0, "%s of %s, %lld x %lld of %lld x %lld", scatter ? "scatter" : "gather", name_of(dtype),
               (long long)outer, (long long)count, (long long)length, (long long)inner);
  drop(&to), drop(&from), drop(&index);
}

/* Small whole numbers, of which sums are exact in any order; signs alone where they are multiplied. */
static void make_whole(operand *x, int reduce) {
  int size = size_of(x->dtype);
  for (int64_t i = 0; i < (int64_t)x->bytes / size; i++) {
    uint64_t bits[2];
    int64_t v = reduce == TIDE_INDEX_PROD ? (any_bits() % 2 ? 1 : -1) : (int64_t)(any_bits() % 3) - 1;
    if (x->dtype == TIDE_BOOL || x->dtype == TIDE_UINT8) v = v > 0;
    tide__scalar_pack(bits, tide_int(v), (tide_dtype)x->dtype);
    memcpy(x->host + i * size, bits, (size_t)size);
  }
  upload(x);
}

/* Values that meet: [length, inner] from [count, inner], where the index stands still along a row or not. */
static void narrow_case(int dtype, int narrow, int reduce, bool ordered, int64_t length, int64_t count, int64_t inner,
                        bool still) {
  operand to = make(dtype, length * inner, 0, 1, false);
  operand from = make(narrow ? narrow : dtype, count * inner, 0, 1, false);
  operand index = make(TIDE_INT64, still ? count : count * inner, 0, 1, false);
  bool exact = !narrow && ordered && tide_dtype_kind((tide_dtype)dtype) != 'B' && size_of(dtype) >= 4;
  if (!exact) make_whole(&to, reduce), make_whole(&from, reduce);
  for (int64_t k = 0; k < (int64_t)index.bytes / 8; k++) ((int64_t *)index.host)[k] = any_bits() % (uint32_t)length;
  upload(&index);
  tide_index_args a = {.head = {.ptr = {to.host, from.host, index.host}, .nptr = 3}, .item_size = size_of(dtype)};
  a.index_dtype = TIDE_INT64, a.length = length, a.pitch = inner, a.numel = count * inner, a.dtype = dtype;
  a.reduce = reduce, a.ordered = ordered, a.narrow = narrow;
  a.size[0] = count, a.stride[0][0] = inner, a.stride[2][0] = still ? 1 : inner, a.ndim = 1;
  if (inner > 1) a.size[1] = inner, a.stride[0][1] = a.stride[1][1] = 1, a.stride[2][1] = !still, a.ndim = 2;
  tide_index_args b = a;
  b.head.ptr[0] = to.device, b.head.ptr[1] = from.device, b.head.ptr[2] = index.device;
  OK(cpu->scatter(NULL, &a));
  OK(gpu->scatter(stream, &b));
  bool fused = reduce == TIDE_INDEX_PROD && tide_dtype_kind((tide_dtype)dtype) == 'C';
  compare_with(&to, fused ? tolerance_of(dtype) : 0, "scatter of %s, reduction %d%s, %lld of %lld x %lld",
               name_of(dtype), reduce, ordered ? " in order" : "", (long long)count, (long long)length,
               (long long)inner);
  drop(&to), drop(&from), drop(&index);
}

static void meeting_case(int dtype, int reduce, bool ordered, int64_t length, int64_t count, int64_t inner,
                         bool still) {
  narrow_case(dtype, 0, reduce, ordered, length, count, inner, still);
}

/* Values that are narrower than their sums. */
static void test_narrow_sums(void) {
  static const int pair[][2] = {{TIDE_UINT8, TIDE_INT64},     {TIDE_INT8, TIDE_INT64},
                                {TIDE_INT16, TIDE_INT64},     {TIDE_INT32, TIDE_INT64},
                                {TIDE_FLOAT16, TIDE_FLOAT32}, {TIDE_BFLOAT16, TIDE_FLOAT32},
                                {TIDE_FLOAT32, TIDE_FLOAT64}, {TIDE_COMPLEX64, TIDE_COMPLEX128}};
  for (int i = 0; i < 8; i++)
    for (int kind = 0; kind < (i < 4 ? 1 : 4); kind++) { /* integers have sums alone, in any order */
      int reduce = kind < 2 ? TIDE_INDEX_SUM : TIDE_INDEX_PROD;
      bool ordered = kind % 2 || (reduce == TIDE_INDEX_PROD && i == 7);
      narrow_case(pair[i][1], pair[i][0], reduce, ordered, 3000, 7001, 1, false);
      narrow_case(pair[i][1], pair[i][0], reduce, ordered, 500, 3000, 8, true);
      narrow_case(pair[i][1], pair[i][0], reduce, ordered, 500, 3000, 5, true);
      narrow_case(pair[i][1], pair[i][0], reduce, ordered, 500, 3000, 5, false);
      for (int64_t length = 1; length < 20000 && kind == 0; length = 6 * length + 1)
        narrow_case(pair[i][1], pair[i][0], reduce, false, length, 100000, 1, false);
    }
}

static void test_index_reduce(void) {
  for (int dtype = 0; dtype < TIDE_DTYPE_COUNT; dtype++)
    for (int reduce = TIDE_INDEX_WRITE; reduce <= TIDE_INDEX_MIN; reduce++) {
      bool orders = reduce == TIDE_INDEX_MAX || reduce == TIDE_INDEX_MIN, parts = dtype >= TIDE_COMPLEX64;
      bool ranks = reduce == TIDE_INDEX_WRITE || (!orders && dtype >= TIDE_FLOAT16); /* where an order may matter */
      if (orders && parts) continue;
      for (int ordered = reduce == TIDE_INDEX_WRITE; ordered <= ranks; ordered++) {
        meeting_case(dtype, reduce, ordered, 3000, 7001, 1, false);
        meeting_case(dtype, reduce, ordered, 500, 3000, 8, true);
        meeting_case(dtype, reduce, ordered, 500, 3000, 5, true);
        meeting_case(dtype, reduce, ordered, 500, 3000, 5, false);
      }
      /* Few places: their sums are kept apart; so many ones that 16-bit floats round would not compare. */
      if (reduce == TIDE_INDEX_SUM && dtype != TIDE_FLOAT16 && dtype != TIDE_BFLOAT16)
        for (int64_t length = 1; length < 20000; length = 6 * length + 1)
          meeting_case(dtype, reduce, false, length, 100000, 1, false);
    }
}

static void test_bad_index(void) {
  operand to = make(TIDE_FLOAT32, 8, 0, 1, false), from = make(TIDE_FLOAT32, 4, 0, 1, false);
  operand index = make(TIDE_INT64, 8, 0, 1, false);
  for (int i = 0; i < 8; i++) ((int64_t *)index.host)[i] = i == 5 ? 99 : i % 4;
  upload(&index);
  tide_index_args a = {.head = {.ptr = {to.device, from.device, index.device}, .nptr = 3, .site = 7}, .item_size = 4};
  a.index_dtype = TIDE_INT64, a.ndim = 1, a.numel = 8, a.length = 4, a.pitch = 1;
  a.size[0] = 8, a.stride[0][0] = a.stride[2][0] = 1;
  for (int round = 0; round < 3; round++) {
    told.index_failures = 0;
    OK(gpu->gather(stream, &a));
    CHECK(gpu->stream_sync(head.impl) == TIDE_INDEX);
    CHECK(told.index_failures == 1 && told.value == 99 && told.length == 4 && told.site == 7);
    OK(gpu->stream_sync(head.impl));
  }
  for (int i = 0; i < 8; i++) ((float *)to.host)[i] = i == 5 ? 0 : ((float *)from.host)[i % 4];
  COMPARE(&to, "gather with a bad index");
  drop(&to), drop(&from), drop(&index);
}

static void test_index(void) {
  for (int item = 0; item < 5; item++)
    for (int wide = 0; wide < 2; wide++) {
      int dtype = wide ? TIDE_INT64 : TIDE_INT32;
      for (int scatter = 0; scatter < 2; scatter++) {
        index_case(item, dtype, 1, 5000, 4999, 1, scatter);
        index_case(item, dtype, 1, 50, 40, 64, scatter);
        index_case(item, dtype, 6, 50, 40, 7, scatter);
        index_case(item, dtype, 300, 9, 8, 1, scatter);
      }
    }
  test_bad_index();
  test_index_reduce();
  test_narrow_sums();
}

static void test_compact(void) {
  static const int64_t sizes[] = {1, 100, 16384, 70001};
  static const int dtypes[] = {TIDE_INT64, TIDE_UINT8, TIDE_FLOAT16, TIDE_FLOAT32, TIDE_FLOAT64, TIDE_COMPLEX128};
  for (int k = 0; k < 24; k++) {
    int64_t n = sizes[k % 4], pieces = (n + TIDE_COMPACT_PIECE - 1) / TIDE_COMPACT_PIECE;
    int dtype = dtypes[k / 4];
    operand mask = make(TIDE_BOOL, n, 0, 1, false), out = make(dtype, n, 0, 1, false), x = make(dtype, n, 0, 1, false),
            starts = make(TIDE_INT64, pieces + 1, 0, 1, false);
    tide_compact_args a = {.head = {.ptr = {starts.host, mask.host}, .nptr = 2}, .numel = n}, b = a;
    b.head.ptr[0] = starts.device, b.head.ptr[1] = mask.device;
    OK(cpu->mask_count(NULL, &a));
    OK(gpu->mask_count(stream, &b));
    COMPARE(&starts, "mask_count %lld", (long long)n);
    a.head.ptr[0] = out.host, a.head.ptr[2] = starts.host, a.head.ptr[3] = k < 4 ? NULL : x.host;
    b.head.ptr[0] = out.device, b.head.ptr[2] = starts.device, b.head.ptr[3] = k < 4 ? NULL : x.device;
    a.item_size = b.item_size = (int)(out.bytes / (size_t)n);
    OK(cpu->compact(NULL, &a));
    OK(gpu->compact(stream, &b));
    out.bytes = (size_t)((int64_t *)starts.host)[pieces] * (size_t)a.item_size;
    COMPARE(&out, "compact %lld of %s", (long long)n, name_of(dtype));
    drop(&mask), drop(&out), drop(&x), drop(&starts);
  }
}

/* ---- random numbers ---- */

static void random_case(int kind, int dtype, int p_dtype, uint64_t range, int which, int64_t m, int64_t n) {
  layout l = {.ndim = 2, .size = {m, n}, .numel = m * n};
  rows_of(&l, 0, which == TRANSPOSED ? 1 : n, which == TRANSPOSED ? m : 1);
  rows_of(&l, 1, n, 1);
  l.at = which == SHIFTED ? 1 : 0;
  l.ndim = tide__collapse(l.size, l.stride, 2, 2, true);
  tide_random_args a = {.head = {.nptr = 2}, .kind = kind, .ndim = l.ndim, .flat = is_flat(&l, 2), .numel = l.numel};
  a.dtype = (uint8_t)dtype, a.dtype2 = (uint8_t)(p_dtype < 0 ? TIDE_FLOAT32 : p_dtype), a.a = 0.3, a.b = 1.7, a.lo = -5;
  a.range = range, a.seed = 0x123456789abcdefu, a.offset = 8;
  tide__random_limits(&a);
  memcpy(a.size, l.size, sizeof a.size);
  memcpy(a.stride, l.stride, sizeof a.stride);
  operand x = make(dtype, l.numel, l.at, 1, false), p = make(a.dtype2, l.numel, 0, 1, false);
  tide_random_args b = a;
  a.head.ptr[0] = x.host + x.at, b.head.ptr[0] = x.device + x.at;
  if (p_dtype >= 0) a.head.ptr[1] = p.host, b.head.ptr[1] = p.device;
  OK(cpu->random(NULL, &a));
  OK(gpu->random(stream, &b));
  bool exact = kind == TIDE_UNIFORM || kind == TIDE_RANDINT || kind == TIDE_BERNOULLI;
  /* Of normals the device's sine and cosine are off by 6e-7 at most, times the radius and the deviation. */
  double slack = kind == TIDE_CAUCHY ? 5000 : kind == TIDE_NORMAL || kind == TIDE_LOG_NORMAL ? 2 : 1;
  compare_with(&x, exact ? 0 : tolerance_of(dtype) * slack, "random kind %d of %s, %s, %lldx%lld, range %llu", kind,
               name_of(dtype), layout_names[which], (long long)m, (long long)n, (unsigned long long)range);
  drop(&x), drop(&p);
}

static void test_random(void) {
  static const int layouts[] = {FLAT, SHIFTED, TRANSPOSED};
  static const uint64_t ranges[] = {1, 10, 0xffffffffu, 0x100000000u, 0, (uint64_t)3 << 30, (uint64_t)3 << 62};
  for (int w = 0; w < 3; w++) {
    for (int dtype = TIDE_FLOAT16; dtype <= TIDE_FLOAT64; dtype++)
      for (int kind = 0; kind < 8; kind++)
        if (kind != TIDE_RANDINT) random_case(kind, dtype, -1, 0, layouts[w], 37, 1001);
    for (int r = 0; r < 7; r++)
      for (int dtype = TIDE_UINT8; dtype <= TIDE_FLOAT64; dtype++)
        if (ranges[r] <= 10 || dtype == TIDE_INT64)
          random_case(TIDE_RANDINT, dtype, -1, ranges[r], layouts[w], 37, 1001);
    random_case(TIDE_BERNOULLI, TIDE_FLOAT32, TIDE_FLOAT32, 0, layouts[w], 37, 1001);
    random_case(TIDE_BERNOULLI, TIDE_BOOL, TIDE_FLOAT64, 0, layouts[w], 37, 1001);
    random_case(TIDE_BERNOULLI, TIDE_BOOL, -1, 0, layouts[w], 37, 1001);
    random_case(TIDE_BERNOULLI, TIDE_FLOAT64, TIDE_FLOAT16, 0, layouts[w], 37, 1001);
  }
}

static void test_randperm(void) {
  static const int64_t sizes[] = {1, 7, 1000, 100001};
  for (int i = 0; i < 4; i++) {
    operand x = make(TIDE_INT64, sizes[i], 0, 1, false);
    tide_randperm_args a = {.head = {.ptr = {x.host}, .nptr = 1},
                            .n = sizes[i],
                            .index_base = 1,
                            .seed = 42,
                            .offset = 4},
                       b = a;
    b.head.ptr[0] = x.device;
    OK(cpu->randperm(NULL, &a));
    OK(gpu->randperm(stream, &b));
    COMPARE(&x, "randperm %lld", (long long)sizes[i]);
    drop(&x);
  }
}

/* ---- products ---- */

static void gemm_case(int dtype, int64_t m, int64_t n, int64_t k, int64_t batch, int form, double beta) {
  tide_gemm_args a = {.head = {.nptr = 3}, .dtype = dtype, .m = m, .n = n, .k = k, .batch = batch};
  a.a_row = form & 1 ? 1 : k, a.a_col = form & 1 ? m : 1, a.b_row = form & 2 ? 1 : n, a.b_col = form & 2 ? k : 1;
  a.c_row = n + (form & 4 ? 3 : 0), a.c_batch = a.c_row * m;
  a.a_batch = m * k, a.b_batch = form & 4 ? 0 : k * n;
  a.alpha = (tide_value){2, 0.5, 0}, a.beta = (tide_value){(int64_t)beta, beta, 0};
  operand x[3] = {make(dtype, a.c_row * m * batch, 0, 3, false), make(dtype, m * k * batch, 0, 3, false),
                  make(dtype, k * n * batch, 0, 3, false)};
  tide_gemm_args b = a;
  for (int i = 0; i < 3; i++) a.head.ptr[i] = x[i].host, b.head.ptr[i] = x[i].device;
  OK(cpu->gemm(NULL, &a));
  OK(gpu->gemm(stream, &b));
  compare_with(&x[0], tolerance_of(dtype) * (5 + (double)k / 10),
               "gemm %s %lldx%lldx%lld, batch %lld, form %d, beta %g", name_of(dtype), (long long)m, (long long)n,
               (long long)k, (long long)batch, form, beta);
  for (int i = 0; i < 3; i++) drop(&x[i]);
}

static void test_gemm(void) {
  static const int dtypes[] = {TIDE_FLOAT32,    TIDE_FLOAT64, TIDE_FLOAT16, TIDE_BFLOAT16, TIDE_COMPLEX64,
                               TIDE_COMPLEX128, TIDE_INT32,   TIDE_INT64,   TIDE_UINT8};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    for (int form = 0; form < 8; form++) {
      gemm_case(dtypes[i], 33, 17, 65, 1, form, 0);
      gemm_case(dtypes[i], 33, 17, 65, 3, form, 1);
      gemm_case(dtypes[i], 1, 70, 9, 1, form, 0);
      gemm_case(dtypes[i], 70, 1, 9, 1, form, 1);
      gemm_case(dtypes[i], 300, 270, 31, 1, form, 0); /* those before are small, and this one is not */
      gemm_case(dtypes[i], 64, 48, 300, 2, form, 1);
      gemm_case(dtypes[i], 4, 4, 4, 1001, form, 0);
      gemm_case(dtypes[i], 3, 8, 5, 77, form, 1);
      gemm_case(dtypes[i], 8, 8, 8, 5000, form, 0);
      gemm_case(dtypes[i], 2003, 4, 3, 1, form, 1); /* rows */
    }
}

/* ---- streams, events, copies, devices ---- */

static void test_streams(void) {
  void *other = NULL, *start = NULL, *end = NULL;
  bool done = false;
  int least, greatest;
  double ms = 0;
  OK(gpu->stream_priority_range(&least, &greatest, 0));
  OK(gpu->stream_new(&other, 0, greatest - 5));
  OK(gpu->event_new(&start, 0, TIDE_EVENT_TIMING));
  OK(gpu->event_new(&end, 0, TIDE_EVENT_TIMING | TIDE_EVENT_BLOCKING));
  OK(gpu->event_record(start, other));
  OK(gpu->stream_sleep(other, 40000000));
  OK(gpu->event_record(end, other));
  OK(gpu->stream_query(&done, other));
  CHECK(!done);
  OK(gpu->event_query(&done, end));
  CHECK(!done);
  interrupt_now = 1, told.quiet = true;
  CHECK(gpu->event_sync(end) == TIDE_INTERRUPTED);
  CHECK(gpu->stream_sync(other) == TIDE_INTERRUPTED);
  CHECK(gpu->device_sync(0) == TIDE_INTERRUPTED);
  interrupt_now = 0, told.quiet = false;
  OK(gpu->event_wait(head.impl, end));
  OK(gpu->event_sync(end));
  OK(gpu->stream_query(&done, other));
  CHECK(done);
  OK(gpu->event_elapsed(&ms, start, end));
  CHECK(ms > 5 && ms < 500);
  OK(gpu->stream_sync(head.impl));
  /* A read that is interrupted leaves its slot alone; later reads are right. */
  operand x = make(TIDE_COMPLEX128, 3, 0, 9, false);
  char got[16];
  OK(gpu->stream_sleep(other, 20000000));
  interrupt_now = 1, told.quiet = true;
  CHECK(gpu->read_small(other, got, x.device, 16) == TIDE_INTERRUPTED);
  interrupt_now = 0, told.quiet = false;
  for (int bytes = 1; bytes <= 16; bytes++) {
    for (int i = 0; i < 100; i++) {
      int at = (i * 3) % (48 - bytes);
      OK(gpu->read_small(head.impl, got, x.device + at, (size_t)bytes));
      CHECK(memcmp(got, x.host + at, (size_t)bytes) == 0);
    }
  }
  OK(gpu->device_sync(0));
  OK(gpu->stream_sleep(other, 1000000));
  void *wrapped = NULL, *legacy = NULL;
  uint64_t handle = gpu->stream_handle(other);
  OK(gpu->stream_wrap(&wrapped, 0, handle));
  OK(gpu->stream_wrap(&legacy, 0, 0));
  CHECK(gpu->stream_handle(wrapped) == handle && gpu->stream_handle(legacy) == 0);
  CHECK(gpu->stream_identity(wrapped) != gpu->stream_identity(legacy));
  gpu->stream_free(wrapped), gpu->stream_free(legacy);
  told.quiet = true;
  for (int i = 0; i < 4; i++) {
    static const uint64_t nowhere[] = {3, 4096, (uint64_t)-7, INT64_MAX};
    CHECK(gpu->stream_wrap(&wrapped, 0, nowhere[i]) == TIDE_VALUE);
  }
  told.quiet = false;
  gpu->stream_free(other);
  gpu->event_free(start), gpu->event_free(end);
  OK(gpu->device_sync(0));
  drop(&x);
}

static void test_copies(void) {
  for (size_t bytes = 1; bytes < (size_t)100 << 20; bytes = bytes * 13 + 1) {
    void *device = NULL, *pinned = NULL;
    char *from = malloc(bytes), *to = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) from[i] = (char)(i * 31 + i / 255);
    OK(gpu->mem_alloc(&device, 0, bytes));
    OK(gpu->host_alloc(&pinned, bytes));
    OK(gpu->copy_to_device(head.impl, device, from, bytes, false));
    OK(gpu->copy_to_host(head.impl, pinned, device, bytes, true));
    OK(gpu->stream_sync(head.impl));
    CHECK(memcmp(pinned, from, bytes) == 0);
    memset(pinned, 5, bytes);
    OK(gpu->copy_to_device(head.impl, device, pinned, bytes, true));
    OK(gpu->copy_to_host(head.impl, to, device, bytes, false));
    CHECK(memcmp(pinned, to, bytes) == 0);
    OK(gpu->copy_peer(head.impl, device, 0, device, 0, 1));
    OK(gpu->stream_sync(head.impl));
    gpu->mem_free(0, device, bytes);
    gpu->host_free(pinned, bytes);
    free(from), free(to);
  }
}

static void test_device(void) {
  tide_device_props props;
  size_t available = 0, total = 0;
  int driver = 0, runtime = 0;
  void *none = NULL;
  OK(gpu->device_props(&props, 0));
  OK(gpu->device_mem_info(&available, &total, 0));
  OK(gpu->versions(&driver, &runtime));
  CHECK(props.name[0] && props.multi_processor_count > 0 && props.clock_rate > 0 && props.memory_clock_rate > 0);
  CHECK(available > 0 && total >= available && driver >= runtime && runtime >= 12000);
  told.quiet = true;
  CHECK(gpu->mem_alloc(&none, 0, total * 2) == TIDE_MEMORY && !none);
  told.quiet = false;
  operand x = make(TIDE_FLOAT32, 10, 0, 1, false);
  COMPARE(&x, "a copy after the failed allocation");
  drop(&x);
}
