/* fuse_test.c: fused operations without a script: what they refuse, what a call does and leaves alone, reductions of
 * rows of any length and gathers on the CPU and on a simulated device. */
#include "jit/fuse/fuse.h"

#include "tensor/tensor_test.h"
#include "tide/debug.h"
#include "tide/scatter.h"

static tide_fuse_node input(tide_dtype dtype, int ndim) {
  return (tide_fuse_node){.kind = TIDE_FUSE_INPUT, .dtype = dtype, .ndim = ndim};
}
static tide_fuse_node op(tide_op what, int a, int b) {
  return (tide_fuse_node){.kind = TIDE_FUSE_OP, .op = what, .in = {a, b}, .param = -1};
}
static tide_fuse_node reduce(tide_reduction what, int a, int dims, bool leading, bool keepdim) {
  return (tide_fuse_node){.kind = TIDE_FUSE_REDUCE,
                          .op = what,
                          .in = {a},
                          .param = what == TIDE_NORM || what == TIDE_VAR || what == TIDE_STD ? 0 : -1,
                          .dims = dims,
                          .leading = leading,
                          .keepdim = keepdim};
}

static tide_fuse_node gather(tide_fuse_places what, int ndim, int dim, int index) {
  return (tide_fuse_node){
      .kind = TIDE_FUSE_GATHER, .op = what, .dtype = TIDE_FLOAT32, .ndim = ndim, .dims = dim, .in = {index}};
}

static tide_tensor *ramp(int device, const int64_t *size, int ndim, int modulus) {
  int64_t n = 1;
  for (int d = 0; d < ndim; d++) n *= size[d];
  float *values = malloc((size_t)n * sizeof *values + 1);
  for (int64_t i = 0; i < n; i++) values[i] = (float)(i * 37 % modulus) / 4 - 2;
  tide_tensor *x = NULL;
  const tide_options options = {TIDE_FLOAT32, device, false};
  OK(tide_from_data(&x, values, size, ndim, &options));
  free(values);
  return x;
}

/* The tensor's copy on the host, in its place. */
static void to_host(tide_tensor **x) {
  tide_tensor *copy = NULL;
  const tide_options options = {TIDE_DTYPE_NONE, TIDE_CPU, false};
  if (!*x) return;
  OK(tide_to(&copy, *x, &options, false, false));
  tide_tensor_release(*x);
  *x = copy;
}

static double element(const tide_tensor *x, int64_t i) {
  tide_tensor *copy = NULL;
  OK(tide_contiguous(&copy, x));
  to_host(&copy);
  double value = copy ? flat_at(copy, i) : NAN;
  tide_tensor_release(copy);
  return value;
}

/* ---- what is refused ---- */

static tide_status make(const tide_fuse_node *nodes, int n, int output, int numbers) {
  static const tide_scalar number[] = {{.kind = 'F', .re = 2}};
  tide_fused *f = NULL;
  tide_status status = tide_fused_new(&f, "test", nodes, n, &output, 1, number, numbers);
  CHECK((status == TIDE_OK) == (f != NULL));
  tide_fused_free(f);
  return status;
}

static void refusals(void) {
  const tide_fuse_node x = input(TIDE_FLOAT32, 2), i = input(TIDE_INT32, 2), z = input(TIDE_COMPLEX64, 1);
  OK(make((tide_fuse_node[]){x, op(TIDE_OP_abs, 0, 0)}, 2, 1, 0));
  FAILS(TIDE_ARGUMENT, make((tide_fuse_node[]){x, op(TIDE_OP_abs, 0, 0)}, 0, 1, 0));
  FAILS(TIDE_ARGUMENT, make((tide_fuse_node[]){x, op(TIDE_OP_abs, 0, 0)}, 2, 0, 0)); /* an input is no result */
  FAILS(TIDE_ARGUMENT, make((tide_fuse_node[]){x, op(TIDE_OP_abs, 0, 0)}, 2, 2, 0));
  FAILS(TIDE_ARGUMENT, make((tide_fuse_node[]){x, op(TIDE_OP_abs, 1, 0)}, 2, 1, 0)); /* itself */
  FAILS(TIDE_ARGUMENT, make((tide_fuse_node[]){x, op(TIDE_OP_add, 0, -1)}, 2, 1, 0));
  OK(make((tide_fuse_node[]){x, op(TIDE_OP_add, 0, -1)}, 2, 1, 1));
  FAILS(TIDE_ARGUMENT, make((tide_fuse_node[]){x, {.kind = TIDE_FUSE_OP, .op = TIDE_OP_COUNT}}, 2, 1, 0));
  FAILS(TIDE_ARGUMENT, make((tide_fuse_node[]){x, {.kind = (tide_fuse_kind)9}}, 2, 1, 0));
  FAILS(TIDE_ARGUMENT,
        make((tide_fuse_node[]){x, {.kind = TIDE_FUSE_CAST, .in = {0}, .dtype = (tide_dtype)99}}, 2, 1, 0));
  FAILS(TIDE_SUPPORT, make((tide_fuse_node[]){z, op(TIDE_OP_abs, 0, 0)}, 2, 1, 0));
  FAILS(TIDE_SUPPORT, make((tide_fuse_node[]){x, reduce(TIDE_ARGMAX, 0, 1, false, true)}, 2, 1, 0));
  FAILS(TIDE_SUPPORT, make((tide_fuse_node[]){i, reduce(TIDE_MEAN, 0, 1, false, true)}, 2, 1, 0));
  FAILS(TIDE_ARGUMENT, make((tide_fuse_node[]){x, reduce(TIDE_NORM, 0, 1, false, true)}, 2, 1, 0)); /* no p */
  FAILS(TIDE_SUPPORT, make((tide_fuse_node[]){x, reduce(TIDE_SUM, 0, 3, false, true)}, 2, 1, 0));
  FAILS(TIDE_SUPPORT,
        make((tide_fuse_node[]){x, reduce(TIDE_SUM, 0, 1, false, false), op(TIDE_OP_sub, 0, 1)}, 3, 2, 0));
  FAILS(TIDE_SUPPORT, make((tide_fuse_node[]){x, reduce(TIDE_SUM, 0, 1, false, true),
                                              reduce(TIDE_SUM, 0, 2, false, true), op(TIDE_OP_sub, 1, 2)},
                           4, 3, 0));
  OK(make((tide_fuse_node[]){x, reduce(TIDE_SUM, 0, 1, false, false), op(TIDE_OP_sqrt, 1, 0)}, 3, 2, 0));
  FAILS(TIDE_ARGUMENT, tide_fused_call(NULL, NULL, NULL, NULL, NULL));
  OK(make((tide_fuse_node[]){i, gather(TIDE_FUSE_LINE, 1, 0, 0)}, 2, 1, 0));
  OK(make((tide_fuse_node[]){i, gather(TIDE_FUSE_ALONG, 2, 1, 0)}, 2, 1, 0));
  FAILS(TIDE_ARGUMENT, make((tide_fuse_node[]){i, gather(TIDE_FUSE_SLICES, 2, 2, 0)}, 2, 1, 0)); /* no such dim */
  FAILS(TIDE_ARGUMENT, make((tide_fuse_node[]){i, gather((tide_fuse_places)3, 2, 1, 0)}, 2, 1, 0));
  FAILS(TIDE_ARGUMENT, make((tide_fuse_node[]){i, gather(TIDE_FUSE_LINE, 1, 0, 1)}, 2, 1, 0)); /* by itself */
  FAILS(TIDE_ARGUMENT, make((tide_fuse_node[]){i, gather(TIDE_FUSE_LINE, 1, 0, -1)}, 2, 1, 1));
  FAILS(TIDE_SUPPORT, make((tide_fuse_node[]){x, gather(TIDE_FUSE_LINE, 1, 0, 0)}, 2, 1, 0)); /* no integers */
  FAILS(TIDE_SUPPORT, make((tide_fuse_node[]){i, gather(TIDE_FUSE_ALONG, 1, 0, 0)}, 2, 1, 0));
  FAILS(TIDE_SUPPORT, make((tide_fuse_node[]){i, gather(TIDE_FUSE_SLICES, 5, 0, 0)}, 2, 1, 0)); /* no dims behind */
  for (int dim = 0; dim < TIDE_MAX_DIMS; dim++) { /* results of the most dimensions there are, and of one more */
    const tide_fuse_node full = input(TIDE_INT64, TIDE_MAX_DIMS), fits = input(TIDE_INT64, TIDE_MAX_DIMS - dim);
    OK(make((tide_fuse_node[]){full, gather(TIDE_FUSE_ALONG, TIDE_MAX_DIMS, dim, 0)}, 2, 1, 0));
    OK(make((tide_fuse_node[]){fits, gather(TIDE_FUSE_SLICES, dim + 1, dim, 0)}, 2, 1, 0));
    OK(make((tide_fuse_node[]){fits, gather(TIDE_FUSE_SLICES, TIDE_MAX_DIMS, dim, 0)}, 2, 1, 0));
    if (dim) FAILS(TIDE_SUPPORT, make((tide_fuse_node[]){full, gather(TIDE_FUSE_SLICES, dim + 1, dim, 0)}, 2, 1, 0));
  }
  FAILS(TIDE_SUPPORT,
        make((tide_fuse_node[]){i, reduce(TIDE_SUM, 0, 1, false, true), gather(TIDE_FUSE_LINE, 1, 0, 1)}, 3, 2, 0));
}

/* ---- calls ---- */

static void elementwise(int device) {
  const tide_fuse_node nodes[] = {input(TIDE_FLOAT32, 2), input(TIDE_FLOAT32, 1), op(TIDE_OP_mul, 0, 1),
                                  op(TIDE_OP_add, 2, -1)};
  const int output = 3;
  const tide_scalar number = tide_float(1);
  tide_fused *f = NULL;
  tide_tensor *x = ramp(device, (int64_t[]){6, 5}, 2, 23), *y = ramp(device, (int64_t[]){5}, 1, 7);
  tide_tensor *wrong = ramp(device, (int64_t[]){4}, 1, 7), *out = NULL;
  bool done = false;
  OK(tide_fused_new(&f, "chain", nodes, 4, &output, 1, &number, 1));
  CHECK(tide_fused_bytes(f) == 12);
  OK(tide_fused_call(&done, &out, f, (tide_tensor *[]){x, wrong}, NULL)); /* whoever calls says what is wrong */
  CHECK(!done && !out);
  OK(tide_fused_call(&done, &out, f, (tide_tensor *[]){y, y}, NULL));
  CHECK(!done);
  OK(tide_fused_call(&done, &out, f, (tide_tensor *[]){x, y}, NULL));
  CHECK(done && out);
  for (int i = 0; out && i < 30; i++) CHECK(element(out, i) == element(x, i) * element(y, i % 5) + 1);
  tide_tensor *into = x, *same = NULL; /* in place, where elements lie on those of the input */
  double before = element(x, 7);
  OK(tide_fused_call(&done, &same, f, (tide_tensor *[]){x, y}, &into));
  CHECK(done && same == x && element(x, 7) == before * element(y, 2) + 1);
  const tide_scalar other = tide_float(-2), integer = tide_int(-2);
  FAILS(TIDE_ARGUMENT, tide_fused_numbers(f, &other, 2));
  FAILS(TIDE_ARGUMENT, tide_fused_numbers(f, &integer, 1));
  FAILS(TIDE_ARGUMENT, tide_fused_numbers(f, NULL, 1));
  FAILS(TIDE_ARGUMENT, tide_fused_numbers(NULL, &other, 1));
  OK(tide_fused_numbers(f, &other, 1));
  tide_tensor_release(out), out = NULL;
  OK(tide_fused_call(&done, &out, f, (tide_tensor *[]){x, y}, NULL));
  for (int i = 0; out && i < 30; i++) CHECK(element(out, i) == element(x, i) * element(y, i % 5) - 2);
  tide_tensor_release(same), tide_tensor_release(out), tide_tensor_release(x), tide_tensor_release(y);
  tide_tensor_release(wrong);
  tide_fused_free(f);
}

/* A norm is made for the power that it has. */
static void fixed_number(void) {
  const tide_fuse_node nodes[] = {input(TIDE_FLOAT32, 2), op(TIDE_OP_add, 0, -2),
                                  reduce(TIDE_NORM, 1, 1, false, false)};
  const int output = 2;
  const tide_scalar number[][2] = {
      {tide_float(3), tide_float(1)}, {tide_float(3), tide_float(2)}, {tide_float(1), tide_float(2)}};
  tide_fused *f = NULL;
  OK(tide_fused_new(&f, "norm", nodes, 3, &output, 1, number[0], 2));
  OK(tide_fused_numbers(f, number[1], 2));
  FAILS(TIDE_ARGUMENT, tide_fused_numbers(f, number[2], 2));
  tide_fused_free(f);
}

/* out of abs(x) + 1 is what the operations give one by one, also where the 1 was another number before. */
static void reduction(int device, const int64_t *size, tide_reduction what, bool leading, bool keepdim, bool all) {
  const tide_scalar number[] = {tide_float(what == TIDE_NORM ? 3 : 1)}, before = tide_float(what == TIDE_NORM ? 3 : 0);
  const int output = 3, dims[] = {0, 1};
  tide_fuse_node nodes[] = {input(TIDE_FLOAT32, 2), op(TIDE_OP_abs, 0, 0), op(TIDE_OP_add, 1, -1),
                            reduce(what, 2, all ? 2 : 1, leading, keepdim)};
  tide_fused *f = NULL;
  tide_tensor *x = ramp(device, size, 2, 29), *chain[2] = {NULL}, *want = NULL, *out = NULL;
  bool done = false;
  OK(tide_fused_new(&f, "rows", nodes, 4, &output, 1, &before, 1));
  OK(tide_fused_call(&done, &out, f, &x, NULL));
  tide_tensor_release(out), out = NULL;
  OK(tide_fused_numbers(f, number, 1));
  OK(tide_fused_call(&done, &out, f, &x, NULL));
  OK(tide_unary(&chain[0], TIDE_OP_abs, x, NULL));
  OK(tide_elementwise(&chain[1], TIDE_OP_add, (tide_operand[]){{.tensor = chain[0]}, {.number = number[0]}}, NULL,
                      NULL));
  tide_reduce_options o = TIDE_REDUCE_OPTIONS;
  o.dims = dims + (all || leading ? 0 : 1), o.ndims = all ? 2 : 1, o.keepdim = keepdim, o.param = number[0].re;
  OK(tide_reduce(&want, what, chain[1], &o, NULL));
  /* Where exponentials would be computed twice the host's loops do not fuse. */
  bool parts = leading ? size[0] > 1 : size[1] > TIDE_FUSE_COLUMNS;
  CHECK(done == !(what == TIDE_LOGSUMEXP && parts) && done == (out != NULL));
  CHECK(tide_fused_ready(f) && !tide_fused_problem(f));
  if (out && want) {
    to_host(&out), to_host(&want);
    CHECK(out->dtype == want->dtype && out->ndim == want->ndim && out->numel == want->numel);
    for (int64_t i = 0; i < want->numel; i++) {
      double a = flat_at(out, i), b = flat_at(want, i);
      CHECK(fabs(a - b) <= 2e-5 * fabs(b) + 1e-6 || (a != a && b != b));
    }
  }
  for (int i = 0; i < 2; i++) tide_tensor_release(chain[i]);
  tide_tensor_release(x), tide_tensor_release(want), tide_tensor_release(out);
  tide_fused_free(f);
}

static void reductions(int device) {
  static const tide_reduction list[] = {TIDE_SUM, TIDE_MEAN,          TIDE_MAX,  TIDE_MIN, TIDE_VAR,      TIDE_STD,
                                        TIDE_ALL, TIDE_COUNT_NONZERO, TIDE_NORM, TIDE_ANY, TIDE_LOGSUMEXP};
  const int64_t sizes[][2] = {{6, 5}, {3, 16385}, {16385, 3}, {200, 130}, {1, 40000}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (size_t k = 0; k < sizeof list / sizeof *list; k++)
      for (int form = 0; form < 4; form++) reduction(device, sizes[s], list[k], form & 1, form & 2, false);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) reduction(device, sizes[s], TIDE_SUM, false, false, true);
}

/* ---- gathers ---- */

static int one(void) { return 1; }

static tide_tensor *places(int device, const int64_t *size, int ndim, int64_t first, int64_t n, int64_t last) {
  int64_t values[64], count = 1;
  for (int d = 0; d < ndim; d++) count *= size[d];
  for (int64_t i = 0; i < count; i++) values[i] = i % 4 == 3 ? -1 - i * 5 % n : first + i * 7 % n;
  values[count - 1] = last;
  tide_tensor *index = NULL;
  const tide_options options = {TIDE_INT64, device, false};
  OK(tide_from_data(&index, values, size, ndim, &options));
  return index;
}

typedef struct form {
  tide_fuse_places what;
  int dim, index_ndim, behind; /* behind: the dims of x that the index has not */
  int64_t index[2], length;
} form;

/* relu(x[index]), or its sum over the last dim, against what the functions give alone. */
static void gathered(int device, const form *g, bool sums, int64_t last, bool is_bad) {
  const int64_t size[] = {6, 5};
  const int output = sums ? 3 : 2;
  const int ndim = g->what == TIDE_FUSE_SLICES ? g->index_ndim + 1 : g->index_ndim;
  tide_fuse_node nodes[] = {input(TIDE_INT64, g->index_ndim), gather(g->what, 2, g->dim, 0), op(TIDE_OP_relu, 1, 0),
                            reduce(TIDE_SUM, 2, 1, false, false)};
  nodes[0].dims = g->behind;
  tide_fused *f = NULL;
  int base = tide_get_index_base();
  tide_tensor *x = ramp(device, size, 2, 23), *index = places(device, g->index, g->index_ndim, base, g->length, last);
  tide_tensor *out = NULL, *alone = NULL, *chain = NULL, *want = NULL;
  bool done = false;
  OK(tide_fused_new(&f, "gather", nodes, output + 1, &output, 1, NULL, 0));
  OK(tide_fused_call(&done, &out, f, (tide_tensor *[]){index, x}, NULL));
  if (is_bad && device < 0) CHECK(!done && !out);
  if (is_bad && device >= 0) {
    CHECK(done);
    FAILS(TIDE_INDEX, tide_device_synchronize(device));
    OK(tide_device_synchronize(device)); /* it lives on */
  }
  if (!is_bad) {
    tide_reduce_options o = TIDE_REDUCE_OPTIONS;
    int dim = ndim - 1;
    o.dims = &dim, o.ndims = 1;
    OK(g->what == TIDE_FUSE_LINE    ? tide_take(&alone, x, index, NULL)
       : g->what == TIDE_FUSE_ALONG ? tide_take_along_dim(&alone, x, index, g->dim, NULL)
                                    : tide_index_get(&alone, x, g->dim, index));
    OK(tide_unary(&chain, TIDE_OP_relu, alone, NULL));
    if (sums) OK(tide_reduce(&want, TIDE_SUM, chain, &o, NULL));
    if (!want) tide_tensor_retain(want = chain);
    CHECK(done && out && out->ndim == want->ndim && !memcmp(out->size, want->size, (size_t)out->ndim * sizeof *size));
    for (int64_t i = 0; out && i < out->numel; i++) CHECK(fabs(element(out, i) - element(want, i)) < 1e-5);
  }
  tide_tensor *in_place = x; /* gathers write to nothing that was there */
  OK(tide_fused_call(&done, &chain, f, (tide_tensor *[]){index, x}, &in_place));
  CHECK(!done);
  tide_tensor *const list[] = {x, index, out, alone, chain, want};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) tide_tensor_release(list[i]);
  tide_fused_free(f);
}

static void gathers(int device) {
  static const form forms[] = {
      {TIDE_FUSE_SLICES, 0, 1, 1, {7}, 6},    {TIDE_FUSE_SLICES, 1, 1, 0, {7}, 5},
      {TIDE_FUSE_SLICES, 0, 2, 1, {3, 4}, 6}, {TIDE_FUSE_SLICES, 1, 2, 0, {3, 4}, 5},
      {TIDE_FUSE_ALONG, 0, 2, 0, {3, 5}, 6},  {TIDE_FUSE_ALONG, 1, 2, 0, {6, 8}, 5},
      {TIDE_FUSE_LINE, 0, 2, 0, {4, 3}, 30},  {TIDE_FUSE_LINE, 0, 1, 0, {40}, 30},
  };
  for (int base = 0; base < 2; base++) {
    tide_index_base_set(base ? one : NULL);
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
      for (int sums = 0; sums < 2 - (k == 3); sums++) { /* its rows are of dims that do not join */
        int64_t n = forms[k].length;
        const int64_t bad[] = {base - 1 < 0 ? -n - 1 : base - 1, n + base, -n - 1, INT64_MIN, INT64_MAX};
        gathered(device, &forms[k], sums, n - 1 + base, false);
        gathered(device, &forms[k], sums, -n, false);
        for (int i = 0; i < 5; i++) gathered(device, &forms[k], sums, bad[i], true);
      }
  }
  tide_index_base_set(NULL);
}

/* ---- how a GPU's threads share a row ---- */

/* A warp, or whole blocks: what a part of a block sums up would meet the other rows'. All of a row is read. Of several
 * blocks none needs more registers than there are. */
static void shapes(void) {
  static const tide_dtype dtype[] = {TIDE_BFLOAT16, TIDE_FLOAT32, TIDE_FLOAT64};
  void *ptr[2] = {NULL};
  for (int k = 0; k < 3; k++) {
    const tide_fuse_node nodes[] = {input(dtype[k], 2), reduce(TIDE_SUM, 0, 1, false, false)};
    const int output = 1;
    tide_fused *f = NULL;
    OK(tide_fused_new(&f, "test", nodes, 2, &output, 1, NULL, 0));
    for (int64_t n = 1; f && n <= TIDE_FUSE_COLUMNS * TIDE_FUSE_BLOCKS; n += n < TIDE_FUSE_COLUMNS ? 1 : 1001) {
      const tide__fuse_rows r = {.rows = 7, .columns = n, .row_stride = {1, n}, .step = {0, 1}};
      const tide__fuse_shape s = tide__fuse_shape_of(f, &r, ptr);
      bool whole = s.group == 32 || (s.group % 256 == 0 && !(s.group & (s.group - 1))), one = n <= TIDE_FUSE_COLUMNS;
      if (whole && s.group / s.blocks <= 1024 && (s.blocks == 1) == one && s.blocks <= TIDE_FUSE_BLOCKS &&
          (int64_t)s.group * s.lanes * s.pieces >= n && (one || s.lanes * s.pieces <= 32))
        continue;
      printf("a row of %d: %d threads of %d accesses of %d\n", (int)n, s.group, s.pieces, s.lanes);
      CHECK(false);
    }
    CHECK(f != NULL);
    tide_fused_free(f);
  }
}

/* ---- what a compiler's assembler takes, by compilers that only say their names ---- */

static int texts, compiled, assembled, warned;
static bool refuses;
static const void *launched;

static tide_status tell_version(char *path, size_t path_size, char *version, size_t version_size) {
  snprintf(path, path_size, "/nowhere"), snprintf(version, version_size, "1");
  return TIDE_OK;
}

static tide_status tell_arch(char *text, size_t size, int device) {
  (void)device;
  snprintf(text, size, "any");
  return TIDE_OK;
}

static tide_status give_image(tide_image *out, int *count) {
  (*count)++;
  out->size = 1;
  return (out->bytes = calloc(1, 1)) ? TIDE_OK : tide__fail(TIDE_MEMORY, "no host memory");
}

static tide_status compile(tide_image *out, char **log, const char *source, const char *const *options, int n,
                           const char *arch) {
  (void)log, (void)options, (void)n, (void)arch;
  CHECK(strstr(source, "tide_apply") != NULL);
  return give_image(out, &compiled);
}

static tide_status assemble(tide_image *out, char **log, const char *source, const char *const *options, int n,
                            const char *arch) {
  (void)options, (void)n, (void)arch;
  CHECK(!strncmp(source, "mul add ", 8));
  if (!refuses) return give_image(out, &assembled);
  *log = strdup("error: it is no text");
  return tide__fail(TIDE_LIBRARY, "refused");
}

/* The names of the operations. */
static char *write_text(const tide_fused_program *p, const tide_layout *l, const char *arch) {
  char *text = calloc(1, 200);
  CHECK(p->operands == 3 && p->results == 1 && l->vector == 4 && l->bytes > 0 && !strcmp(arch, "any"));
  for (int i = 0; text && i < p->nodes; i++) {
    if (p->node[i].kind != TIDE_FUSE_OP) continue;
    strcat(text, tide_op_get((tide_op)p->node[i].op)->name);
    strcat(text, " ");
  }
  if (text) snprintf(text + strlen(text), 20, "%d", texts++);
  return text;
}

static tide_status load(void **module, const void *image, size_t bytes, int device) {
  (void)image, (void)bytes, (void)device;
  *module = &texts;
  return TIDE_OK;
}
static void unload(void *module, int device) { (void)module, (void)device; }

static tide_status of_compiler(void **out, tide_function_info *info, void *module, const char *name, int device) {
  (void)info, (void)module, (void)name, (void)device;
  *out = &compiled;
  return TIDE_OK;
}
static tide_status of_assembler(void **out, tide_function_info *info, void *module, const char *name, int device) {
  (void)info, (void)module, (void)name, (void)device;
  *out = &assembled;
  return TIDE_OK;
}

static tide_status note_launch(tide_stream *stream, void *function, const tide_launch *a) {
  (void)stream, (void)a;
  launched = function;
  return TIDE_OK;
}

static void note_warning(void *unused, const char *text) {
  (void)unused;
  warned += strstr(text, "it is no text") != NULL;
}

#define OF_TEST .ahead = true, .options = "", .identify = tell_version
static const tide_image_loader of_texts = {tell_arch, load, unload, of_assembler, note_launch},
                               of_code = {tell_arch, load, unload, of_compiler, note_launch};
static const tide_compiler assembler = {OF_TEST, .name = "assembler", .compile = assemble, .loader = &of_texts};
static const tide_compiler with_assembler = {OF_TEST,
                                             .name = "compiler",
                                             .text = &(tide_dialect){"", "", "", "", "", "", .threads = 256},
                                             .compile = compile,
                                             .loader = &of_code,
                                             .assembler = &(tide_assembler){write_text, &assembler}};

/* Flat and strided, by the assembler, and by the compiler where that refuses; a text that it refuses is warned of. */
static void assembling(int device) {
  const tide_fuse_node nodes[] = {input(TIDE_FLOAT32, 2), input(TIDE_FLOAT32, 2), op(TIDE_OP_mul, 0, 1),
                                  op(TIDE_OP_add, 2, 1)};
  const int output = 3;
  const tide_backend *b;
  OK(tide__backend(&b, device));
  tide_compiler *c = (tide_compiler *)(uintptr_t)b->compiler, before = *c;
  tide_tensor *x = ramp(device, (int64_t[]){6, 5}, 2, 23), *row = ramp(device, (int64_t[]){1, 5}, 2, 7);
  tide__jit_ahead_stop(); /* its threads look at the compiler of a device */
  *c = with_assembler;
  tide_warn_set(note_warning, NULL);
  for (int k = 0; k < 4; k++) {
    tide_tensor *in[] = {x, k % 2 ? row : x}, *out = NULL;
    tide_fused *f = NULL;
    bool done = true;
    int made = compiled + assembled;
    refuses = k >= 2;
    OK(tide_fused_new(&f, "chain", nodes, 4, &output, 1, NULL, 0));
    OK(tide_fused_call(&done, &out, f, in, NULL));
    CHECK(!done && !out);
    OK(tide_fused_wait(f));
    OK(tide_fused_call(&done, &out, f, in, NULL));
    CHECK(done && out && tide_fused_ready(f) && !tide_fused_problem(f));
    CHECK(launched == (refuses ? &compiled : &assembled));
    CHECK(compiled + assembled == made + 1 && warned == (k < 2 ? 0 : k - 1));
    tide_tensor_release(out);
    tide_fused_free(f);
  }
  OK(tide_device_synchronize(device));
  tide__jit_ahead_stop();
  tide__jit_unload(false); /* by the compilers that loaded them */
  *c = before;
  tide_warn_set(NULL, NULL);
  tide_tensor_release(x), tide_tensor_release(row);
}

int main(void) {
  setenv("TIDE_SIM_DEVICES", "1", 1);
  setenv("TIDE_CXX", "/nowhere", 1); /* the loops of the host do all */
  setenv("TIDE_KERNEL_CACHE", "0", 1);
  OK(tide_init(NULL));
  refusals();
  shapes();
  for (int device = -1; device < 1; device++) {
    elementwise(device);
    reductions(device);
    gathers(device);
  }
  fixed_number();
  assembling(0);
  tide_shutdown();
  printf("fuse_test: %d checks, %d failures\n", checks, failures);
  return failures != 0;
}
