/* cuda_bench.h: what the CUDA backend costs and moves, below core: host time in bursts, bandwidths by events (the
 * median of 20), the delay of reading one value, matrix products, copies. One line each: bench, name, value, unit. */

static void row(const char *name, double value, const char *unit) {
  printf("bench\t%s\t%.4g\t%s\n", name, value, unit);
  fflush(stdout);
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef tide_status (*bench_fn)(const void *args);

/* Milliseconds on the device, the median of 20 after 3. */
static double device_ms(bench_fn run, const void *args) {
  void *start = NULL, *end = NULL;
  double ms[20];
  OK(gpu->event_new(&start, 0, TIDE_EVENT_TIMING));
  OK(gpu->event_new(&end, 0, TIDE_EVENT_TIMING));
  for (int i = -3; i < 20; i++) {
    OK(gpu->event_record(start, head.impl));
    OK(run(args));
    OK(gpu->event_record(end, head.impl));
    OK(gpu->event_sync(end));
    if (i >= 0) OK(gpu->event_elapsed(&ms[i], start, end));
  }
  gpu->event_free(start), gpu->event_free(end);
  qsort(ms, 20, sizeof *ms, by_size);
  return ms[10];
}

static void bandwidth(const char *name, double bytes, bench_fn run, const void *args) {
  row(name, bytes / device_ms(run, args) * 1e-6, "GB/s");
}

/* Nanoseconds of the host for a call, in bursts of 200. */
static void host_cost(const char *name, bench_fn run, const void *args) {
  double ns[60];
  for (int r = 0; r < 60; r++) {
    double start = now();
    for (int i = 0; i < 200; i++) run(args);
    ns[r] = (now() - start) / 200;
    OK(gpu->stream_sync(head.impl));
  }
  qsort(ns, 60, sizeof *ns, by_size);
  row(name, ns[30], "ns/op issue in bursts of 200");
}

static tide_status do_elementwise(const void *a) { return gpu->elementwise(stream, a); }
static tide_status do_copy(const void *a) { return gpu->copy(stream, a); }
static tide_status do_fill(const void *a) { return gpu->fill(stream, a); }
static tide_status do_reduce(const void *a) { return gpu->reduce(stream, a); }
static tide_status do_random(const void *a) { return gpu->random(stream, a); }
static tide_status do_gemm(const void *a) { return gpu->gemm(stream, a); }
static tide_status do_gather(const void *a) { return gpu->gather(stream, a); }
static tide_status do_mask_count(const void *a) { return gpu->mask_count(stream, a); }
static tide_status do_compact(const void *a) { return gpu->compact(stream, a); }

static char *big[3]; /* 1 GiB each */
enum { SIDE = 16384 };
#define MANY ((int64_t)1 << 28)

static tide_elementwise_args bench_op(int op, int dtype, int64_t n) {
  int operands = tide_op_get((tide_op)op)->operands + 1;
  tide_elementwise_args a = {.head = {.ptr = {big[0], big[1], big[2], big[2]}}, .op = op, .operands = operands};
  a.compute = dtype == TIDE_FLOAT16 || dtype == TIDE_BFLOAT16 ? TIDE_FLOAT32 : dtype;
  a.flat = 1, a.ndim = 1, a.numel = n, a.size[0] = n;
  for (int k = 0; k < operands; k++) a.dtype[k] = (uint8_t)dtype, a.stride[k][0] = 1;
  return a;
}

static void bench_elementwise(void) {
  tide_elementwise_args a = bench_op(TIDE_OP_add, TIDE_FLOAT32, MANY);
  bandwidth("bw_add", 12.0 * MANY, do_elementwise, &a);
  a.head.ptr[1] = big[1] + 4, a.numel = a.size[0] = MANY - 1;
  bandwidth("bw_add_unaligned", 12.0 * MANY, do_elementwise, &a);
  a = bench_op(TIDE_OP_exp, TIDE_FLOAT32, MANY);
  bandwidth("bw_exp", 8.0 * MANY, do_elementwise, &a);
  a = bench_op(TIDE_OP_sin, TIDE_FLOAT32, MANY);
  bandwidth("bw_sin", 8.0 * MANY, do_elementwise, &a);
  a = bench_op(TIDE_OP_mul, TIDE_FLOAT32, MANY);
  a.is_number[2] = 1, a.number[2].re = 2;
  bandwidth("bw_mul_scalar", 8.0 * MANY, do_elementwise, &a);
  a = bench_op(TIDE_OP_gt, TIDE_FLOAT32, MANY);
  a.is_number[2] = 1, a.dtype[0] = TIDE_BOOL;
  bandwidth("bw_gt_scalar", 5.0 * MANY, do_elementwise, &a);
  a = bench_op(TIDE_OP_add, TIDE_BFLOAT16, MANY);
  a.head.ptr[2] = a.head.ptr[1];
  bandwidth("bw_add_bf16", 6.0 * MANY, do_elementwise, &a);
  a = bench_op(TIDE_OP_add, TIDE_FLOAT64, MANY / 2);
  bandwidth("bw_add_f64", 12.0 * MANY, do_elementwise, &a);
  a = bench_op(TIDE_OP_add, TIDE_FLOAT32, MANY);
  a.dtype[2] = TIDE_BFLOAT16;
  bandwidth("bw_add_mixed", 10.0 * MANY, do_elementwise, &a);
  a = bench_op(TIDE_OP_add, TIDE_FLOAT32, MANY);
  a.flat = 0, a.ndim = 2, a.size[0] = a.size[1] = SIDE;
  for (int k = 0; k < 3; k++) a.stride[k][0] = SIDE, a.stride[k][1] = 1;
  a.stride[2][0] = 0;
  bandwidth("bw_bcast_row_add", 8.0 * MANY, do_elementwise, &a);
  a.stride[2][0] = 1, a.stride[2][1] = 0;
  bandwidth("bw_bcast_col_add", 8.0 * MANY, do_elementwise, &a);
}

static tide_copy_args bench_copy_args(int to, int from) {
  tide_copy_args a = {.head = {.ptr = {big[0], big[1]}}, .flat = 1, .ndim = 1, .dtype = {(uint8_t)to, (uint8_t)from}};
  a.numel = a.size[0] = MANY, a.stride[0][0] = a.stride[1][0] = 1;
  return a;
}

static void bench_copies(void) {
  tide_copy_args a = bench_copy_args(TIDE_FLOAT32, TIDE_FLOAT32);
  bandwidth("bw_copy", 8.0 * MANY, do_copy, &a);
  a = bench_copy_args(TIDE_BFLOAT16, TIDE_FLOAT32);
  bandwidth("bw_cast_f32_bf16", 6.0 * MANY, do_copy, &a);
  a = bench_copy_args(TIDE_FLOAT32, TIDE_BFLOAT16);
  bandwidth("bw_cast_bf16_f32", 6.0 * MANY, do_copy, &a);
  a = bench_copy_args(TIDE_FLOAT32, TIDE_UINT8);
  bandwidth("bw_cast_u8_f32", 5.0 * MANY, do_copy, &a);
  static const int types[] = {TIDE_UINT8, TIDE_INT16, TIDE_FLOAT32, TIDE_FLOAT64, TIDE_COMPLEX128};
  for (int i = 0; i < 5; i++) {
    int64_t side = SIDE, size = size_of(types[i]);
    if (size > 4) side /= 2;
    a = bench_copy_args(types[i], types[i]);
    a.flat = 0, a.ndim = 2, a.numel = side * side, a.size[0] = a.size[1] = side;
    a.stride[0][0] = side, a.stride[0][1] = 1, a.stride[1][0] = 1, a.stride[1][1] = side;
    char name[40];
    snprintf(name, sizeof name, "bw_transpose_copy_%d", (int)size);
    bandwidth(name, 2.0 * (double)(size * side * side), do_copy, &a);
  }
  tide_fill_args f = {.head = {.ptr = {big[0]}}, .flat = 1, .ndim = 1, .dtype = TIDE_FLOAT32, .numel = MANY};
  f.bits[0] = 0x3f800000;
  bandwidth("bw_fill", 4.0 * MANY, do_fill, &f);
}

/* way 0: everything, 1: rows, 2: columns. */
static tide_reduce_args bench_reduce_args(int op, int in, int out, int way) {
  tide_reduce_args a = {.head = {.ptr = {big[0], big[1]}}, .op = op, .acc = TIDE_FLOAT32, .scale = 1, .nred = 1};
  a.dtype[0] = (uint8_t)out, a.dtype[1] = (uint8_t)in;
  a.nkeep = way ? 1 : 0, a.outer = way ? SIDE : 1, a.inner = way ? SIDE : MANY;
  a.keep_size[0] = SIDE, a.keep_stride[0][0] = 1, a.keep_stride[1][0] = way == 1 ? SIDE : 1;
  a.red_size[0] = a.inner, a.red_stride[0] = way == 2 ? SIDE : 1;
  return a;
}

static void bench_reductions(void) {
  static const char *const ways[] = {"", "_rows", "_cols"};
  static const struct {
    const char *name;
    int op, out;
  } ops[] = {{"sum", TIDE_SUM, TIDE_FLOAT32},
             {"max", TIDE_MAX, TIDE_FLOAT32},
             {"argmax", TIDE_ARGMAX, TIDE_INT64},
             {"var", TIDE_VAR, TIDE_FLOAT32}};
  for (int o = 0; o < 4; o++)
    for (int way = 0; way < 3; way++) {
      tide_reduce_args a = bench_reduce_args(ops[o].op, TIDE_FLOAT32, ops[o].out, way);
      char name[40];
      snprintf(name, sizeof name, "bw_%s%s", ops[o].name, ways[way]);
      bandwidth(name, 4.0 * MANY, do_reduce, &a);
    }
  tide_reduce_args a = bench_reduce_args(TIDE_SUM, TIDE_BFLOAT16, TIDE_FLOAT32, 0);
  bandwidth("bw_sum_bf16", 2.0 * MANY, do_reduce, &a);
  a = bench_reduce_args(TIDE_SUM, TIDE_BFLOAT16, TIDE_FLOAT32, 2);
  bandwidth("bw_sum_cols_bf16", 2.0 * MANY, do_reduce, &a);
  a = bench_reduce_args(TIDE_SUM, TIDE_FLOAT32, TIDE_FLOAT32, 1);
  a.outer = a.keep_size[0] = MANY / 64, a.inner = a.red_size[0] = a.keep_stride[1][0] = 64;
  bandwidth("bw_sum_rows_of_64", 4.0 * MANY, do_reduce, &a);
}

static void bench_random(void) {
  tide_random_args a = {
      .head = {.ptr = {big[0]}}, .kind = TIDE_UNIFORM, .ndim = 1, .flat = 1, .dtype = TIDE_FLOAT32, .b = 1, .most = 1};
  a.seed = 5, a.offset = 4, a.numel = a.size[0] = MANY, a.stride[0][0] = 1;
  bandwidth("bw_uniform_", 4.0 * MANY, do_random, &a);
  a.kind = TIDE_NORMAL;
  bandwidth("bw_normal_", 4.0 * MANY, do_random, &a);
  a.dtype = TIDE_BFLOAT16;
  bandwidth("bw_normal_bf16", 2.0 * MANY, do_random, &a);
  a.kind = TIDE_RANDINT, a.dtype = TIDE_INT64, a.range = 1000, a.numel = a.size[0] = MANY / 2;
  bandwidth("bw_randint_i64", 4.0 * MANY, do_random, &a);
}

static void bench_indexing(void) {
  int64_t n = (int64_t)1 << 26;
  tide_random_args r = {.head = {.ptr = {big[2]}}, .kind = TIDE_RANDINT, .ndim = 1, .flat = 1, .dtype = TIDE_INT64};
  r.numel = r.size[0] = n, r.stride[0][0] = 1, r.range = (uint64_t)n;
  OK(gpu->random(stream, &r));
  tide_index_args a = {
      .head = {.ptr = {big[0], big[1], big[2]}}, .item_size = 4, .index_dtype = TIDE_INT64, .ndim = 1, .numel = n};
  a.length = n, a.pitch = 1, a.size[0] = n, a.stride[0][0] = a.stride[2][0] = 1;
  bandwidth("gather_64M", 16.0 * (double)n, do_gather, &a);
  tide_random_args m = {
      .head = {.ptr = {big[1]}}, .kind = TIDE_BERNOULLI, .ndim = 1, .flat = 1, .dtype = TIDE_BOOL, .a = 0.5};
  m.numel = m.size[0] = n, m.stride[0][0] = 1;
  OK(gpu->random(stream, &m));
  tide_compact_args c = {.head = {.ptr = {big[2], big[1]}}, .item_size = 4, .numel = n};
  row("mask_count_64M", device_ms(do_mask_count, &c), "ms");
  c.head.ptr[0] = big[0], c.head.ptr[2] = big[2], c.head.ptr[3] = (char *)big[1] + n;
  row("compact_64M", device_ms(do_compact, &c), "ms");
}

static void bench_products(void) {
  static const struct {
    const char *name;
    int dtype, tf32;
  } types[] = {{"f32", TIDE_FLOAT32, 0},
               {"tf32", TIDE_FLOAT32, 1},
               {"f16", TIDE_FLOAT16, 0},
               {"bf16", TIDE_BFLOAT16, 0},
               {"f64", TIDE_FLOAT64, 0}};
  for (int i = 0; i < 5; i++) {
    int64_t n = 8192;
    for (int k = 1; k < 3; k++) {
      tide_random_args r = {
          .head = {.ptr = {big[k]}}, .kind = TIDE_NORMAL, .ndim = 1, .flat = 1, .b = 1, .seed = (uint64_t)k};
      r.dtype = (uint8_t)types[i].dtype, r.numel = r.size[0] = n * n, r.stride[0][0] = 1;
      OK(gpu->random(stream, &r));
    }
    tide_gemm_args a = {
        .head = {.ptr = {big[0], big[1], big[2]}}, .dtype = types[i].dtype, .tf32 = types[i].tf32, .batch = 1};
    a.m = a.n = a.k = a.a_row = a.b_row = a.c_row = n, a.a_col = a.b_col = 1, a.alpha.re = 1;
    char name[40];
    snprintf(name, sizeof name, "matmul8192_%s", types[i].name);
    row(name, 2.0 * 8192 * 8192 * 8192 / device_ms(do_gemm, &a) * 1e-9, "TFLOP/s");
    if (i) continue;
    a.m = a.n = a.k = a.a_row = a.b_row = a.c_row = 64;
    host_cost("host_matmul64", do_gemm, &a);
  }
}

static tide_status do_item(const void *a) {
  char value[4];
  tide_status status = gpu->elementwise(stream, a);
  return status == TIDE_OK ? gpu->read_small(head.impl, value, big[0], 4) : status;
}

static tide_status do_read(const void *a) {
  char value[4];
  (void)a;
  return gpu->read_small(head.impl, value, big[0], 4);
}

static tide_status do_event(const void *event) { return gpu->event_record((void *)(uintptr_t)event, head.impl); }

static void bench_host(void) {
  tide_elementwise_args a = bench_op(TIDE_OP_add, TIDE_FLOAT32, 1024);
  host_cost("host_add", do_elementwise, &a);
  a.is_number[2] = 1;
  host_cost("host_add_scalar", do_elementwise, &a);
  a = bench_op(TIDE_OP_add, TIDE_FLOAT32, 1024), a.dtype[2] = TIDE_INT32;
  host_cost("host_add_mixed", do_elementwise, &a);
  tide_copy_args c = bench_copy_args(TIDE_FLOAT32, TIDE_FLOAT32);
  c.numel = c.size[0] = 1024;
  host_cost("host_copy", do_copy, &c);
  tide_reduce_args r = bench_reduce_args(TIDE_SUM, TIDE_FLOAT32, TIDE_FLOAT32, 0);
  r.inner = r.red_size[0] = 1024;
  host_cost("host_sum", do_reduce, &r);
  a = bench_op(TIDE_OP_add, TIDE_FLOAT32, 1024);
  host_cost("item_after_add", do_item, &a);
  host_cost("item", do_read, NULL);
  void *event = NULL;
  OK(gpu->event_new(&event, 0, 0));
  host_cost("host_event_record", do_event, event);
  gpu->event_free(event);
}

static void bench_transfers(void) {
  size_t bytes = (size_t)1 << 28;
  void *pinned = NULL;
  char *pageable = malloc(bytes);
  OK(gpu->host_alloc(&pinned, bytes));
  memset(pinned, 1, bytes), memset(pageable, 1, bytes);
  static const char *const names[] = {"h2d_pageable", "d2h_pageable", "h2d_pinned", "d2h_pinned"};
  for (int way = 0; way < 4; way++) {
    double ms[7];
    char *mine = way < 2 ? pageable : pinned;
    for (int i = 0; i < 7; i++) {
      double start = now();
      if (way % 2 == 0)
        OK(gpu->copy_to_device(head.impl, big[0], mine, bytes, way >= 2));
      else
        OK(gpu->copy_to_host(head.impl, mine, big[0], bytes, way >= 2));
      OK(gpu->stream_sync(head.impl));
      ms[i] = now() - start;
    }
    qsort(ms, 7, sizeof *ms, by_size);
    row(names[way], (double)bytes / ms[3], "GB/s");
  }
  gpu->host_free(pinned, bytes);
  free(pageable);
}

static void bench_all(void) {
  double start = now();
  for (int i = 0; i < 3; i++) {
    void *p = NULL;
    OK(gpu->mem_alloc(&p, 0, (size_t)MANY * 4));
    big[i] = p;
  }
  row("three allocations", (now() - start) * 1e-6, "ms");
  start = now();
  tide_fill_args f = {.head = {.ptr = {big[0]}}, .flat = 1, .ndim = 1, .dtype = TIDE_FLOAT32, .numel = 1};
  OK(gpu->fill(stream, &f));
  OK(do_read(NULL));
  row("first operation", (now() - start) * 1e-6, "ms");
  start = now();
  tide_elementwise_args a = bench_op(TIDE_OP_add, TIDE_FLOAT32, 1024);
  OK(gpu->elementwise(stream, &a));
  OK(gpu->stream_sync(head.impl));
  row("first elementwise", (now() - start) * 1e-6, "ms");
  for (int i = 0; i < 3; i++) {
    tide_random_args r = {
        .head = {.ptr = {big[i]}}, .kind = TIDE_NORMAL, .ndim = 1, .flat = 1, .dtype = TIDE_FLOAT32, .b = 1};
    r.numel = r.size[0] = MANY, r.stride[0][0] = 1, r.seed = (uint64_t)i;
    OK(gpu->random(stream, &r));
  }
  bench_host();
  bench_elementwise();
  bench_copies();
  bench_reductions();
  bench_random();
  bench_indexing();
  bench_products();
  bench_transfers();
  for (int i = 0; i < 3; i++) gpu->mem_free(0, big[i], (size_t)MANY * 4);
}
