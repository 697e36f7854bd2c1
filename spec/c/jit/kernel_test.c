/* kernel_test.c: kernels over a grid, of texts that are written here: slots, mailboxes, bound launches, the refusals
 * that no script meets. */
#include "jit/grid/kernel.h"

#include <unistd.h>

#include "tensor/tensor_test.h"

/* y[i] = a * x[i] of two tensors of float32; a place outside is reported as kernels of Lua do it. */
static const char host[] =
    "struct mail { volatile unsigned full; unsigned site; int base, reserved; long long value, length; };\n"
    "static int loop(const void *packed, const unsigned *, long long begin, long long end) {\n"
    "  const long long *s = (const long long *)packed;\n"
    "  const float *x = (const float *)s[8];\n  float *y = (float *)s[11];\n  double a;\n  memcpy(&a, s + 14, 8);\n"
    "  for (long long i = begin * 64; i < end * 64 && i < s[0]; i++) {\n"
    "    if (i < s[9]) { y[i * s[13]] = (float)a * x[i * s[10]]; continue; }\n"
    "    if (__atomic_exchange_n((unsigned *)s[3], 1u, __ATOMIC_SEQ_CST)) continue;\n"
    "    mail *m = (mail *)s[4];\n"
    "    m->site = (unsigned)s[7], m->base = 2, m->value = i + 1, m->length = s[9], m->full = 1;\n"
    "  }\n  return 0;\n}\nTIDE_KERNEL(loop)\n";

static const tide_kernel_operand operands[] = {
    {.name = "x", .kind = TIDE_KERNEL_TENSOR, .dtype = TIDE_FLOAT32, .ndim = 1, .reads = true},
    {.name = "y", .kind = TIDE_KERNEL_TENSOR, .dtype = TIDE_FLOAT32, .ndim = 1, .writes = true},
    {.name = "a", .kind = TIDE_KERNEL_FLOAT}};
static const int line = 7;

static tide_kernel_text text_of(const char *code) {
  return (tide_kernel_text){.struct_size = sizeof(tide_kernel_text),
                            .name = "scale",
                            .device = "",
                            .host = code,
                            .ndim = 1,
                            .block = {64, 1, 1},
                            .host_block = {64, 1, 1},
                            .operands = operands,
                            .operands_count = 3,
                            .source = "@scale.lua",
                            .lines = &line,
                            .lines_count = 1};
}

static tide_kernel *program(void) {
  tide_kernel_text t = text_of(host);
  tide_kernel *p = NULL;
  OK(tide_kernel_new(&p, &t));
  return p;
}

static double value_at(const tide_tensor *x, int64_t i) {
  tide_tensor *one;
  tide_scalar v = {0};
  OK(tide_select(&one, x, 0, i));
  OK(tide_item(&v, one));
  tide_tensor_release(one);
  return v.re;
}

static void test_launch(void) {
  const int64_t size = 1000, grid[3] = {1000}, more[3] = {1001}, none[3] = {0}, bad[3] = {-1};
  tide_kernel *p = program();
  tide_tensor *x, *y;
  bool ready = false;
  OK(tide_full(&x, &size, 1, tide_float(3), NULL));
  OK(tide_full(&y, &size, 1, tide_float(0), NULL));
  tide_operand args[] = {{.tensor = x}, {.tensor = y}, {.number = tide_float(2)}};
  OK(tide_kernel_launch(p, grid, args, 3, TIDE_CPU));
  CHECK(value_at(y, 0) == 6 && value_at(y, 999) == 6);
  OK(tide_kernel_ready(&ready, p, TIDE_CPU));
  OK(tide_kernel_wait(p, TIDE_CPU));
  CHECK(ready);
  FAILS(TIDE_INDEX, tide_kernel_launch(p, more, args, 3, TIDE_CPU));
  CHECK(strstr(tide_error_get()->message, "scale.lua:7, got 1001, expected 1 to 1000") != NULL);
  OK(tide_kernel_launch(p, none, args, 3, TIDE_CPU));
  FAILS(TIDE_VALUE, tide_kernel_launch(p, bad, args, 3, TIDE_CPU));
  args[2].number = tide_int(2);
  FAILS(TIDE_ARGUMENT, tide_kernel_launch(p, grid, args, 3, TIDE_CPU));
  FAILS(TIDE_ARGUMENT, tide_kernel_launch(p, grid, args, 2, TIDE_CPU));
  args[2].number = tide_float(2), args[1].tensor = NULL;
  FAILS(TIDE_ARGUMENT, tide_kernel_launch(p, grid, args, 3, TIDE_CPU));
  args[1] = (tide_operand){.tensor = y};
  tide_kernel_bound *b;
  OK(tide_kernel_bind(&b, p, grid, args, 3, TIDE_CPU));
  tide_kernel_free(p); /* what is bound goes on */
  OK(tide_kernel_bound_set(b, 2, tide_float(5)));
  FAILS(TIDE_ARGUMENT, tide_kernel_bound_set(b, 2, tide_int(5)));
  FAILS(TIDE_ARGUMENT, tide_kernel_bound_set(b, 0, tide_float(5)));
  FAILS(TIDE_ARGUMENT, tide_kernel_bound_set(b, 3, tide_float(5)));
  OK(tide_kernel_bound_launch(b));
  CHECK(value_at(y, 500) == 15);
  tide_kernel_bound_free(b);
  tide_tensor_release(x), tide_tensor_release(y);
}

/* The number of blocks fits in 31 bits, in each dimension of the grid and in all. */
static void test_most_blocks(void) {
  const int64_t most = INT32_MAX, block = 64;
  const struct {
    int64_t grid[3];
    int ndim;
    bool fits;
  } of[] = {{{most * block}, 1, true},
            {{most * block - 1}, 1, true},
            {{most * block + 1}, 1, false},
            {{(most + 1) * block}, 1, false},
            {{((int64_t)1 << 32) * block}, 1, false},
            {{((int64_t)1 << 32) * block + 1}, 1, false},
            {{INT64_MAX}, 1, false},
            {{block, most}, 2, true},
            {{block, most + 1}, 2, false},
            {{2 * block, (most + 1) / 2}, 2, false},
            {{2 * block, most / 2}, 2, true},
            {{block, 1 << 15, (1 << 16) - 1}, 3, true},
            {{block, 1 << 15, 1 << 16}, 3, false},
            {{INT64_MAX, INT64_MAX, INT64_MAX}, 3, false},
            {{INT64_MAX, INT64_MAX, 0}, 3, true}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    tide_kernel_text t = text_of("static int loop(const void *, const unsigned *, long long, long long) { return 0; }\n"
                                 "TIDE_KERNEL(loop)\n");
    tide_kernel *p = NULL;
    t.ndim = of[i].ndim, t.operands_count = 0;
    for (int d = 1; d < t.ndim; d++) t.block[d] = t.host_block[d] = 1;
    OK(tide_kernel_new(&p, &t));
    tide_status status = tide_kernel_launch(p, of[i].grid, NULL, 0, TIDE_CPU);
    CHECK(status == (of[i].fits ? TIDE_OK : TIDE_VALUE));
    if (!of[i].fits) CHECK(strstr(tide_error_get()->message, "blocks, expected at most 2147483647") != NULL);
    if (status != (of[i].fits ? TIDE_OK : TIDE_VALUE)) printf("grid %d: %s\n", (int)i, tide_error_get()->message);
    tide_kernel_free(p);
  }
}

static void test_small(void) {
  const int64_t size = 3, grid[1] = {1 << 20}, huge[1] = {1 << 30};
  tide_tensor *x, *wide, *odd;
  OK(tide_full(&x, &size, 1, tide_float(0), NULL));
  const int64_t sizes[2] = {INT64_C(1) << 31, 3};
  OK(tide_expand(&wide, x, sizes, 2));
  OK(tide_slice(&odd, x, 0, 0, 2, 2)); /* no unit stride */
  const tide_operand args[] = {{.tensor = x}, {.number = tide_int(1)}, {.tensor = wide}};
  CHECK(tide_kernel_layout_of(grid, 1, args, 2) == TIDE_KERNEL_UNIT);
  CHECK(tide_kernel_layout_of(huge, 1, args, 2) == TIDE_KERNEL_ANY);
  CHECK(tide_kernel_layout_of(grid, 1, args, 3) == TIDE_KERNEL_ANY);
  for (int k = 0; k < 2; k++) { /* places of the last grid that is SMALL, and of the last that 32 bits count */
    const tide_operand of = {.tensor = k ? odd : x};
    const int64_t last[][2] = {
        {1 << 14, 1 << 14}, {1 << 14, (1 << 14) + 1}, {1 << 15, 1 << 15}, {1 << 15, (1 << 15) + 1}};
    const tide_kernel_layout layouts[][4] = {
        {TIDE_KERNEL_UNIT, TIDE_KERNEL_MANY_UNIT, TIDE_KERNEL_MANY_UNIT, TIDE_KERNEL_ANY},
        {TIDE_KERNEL_SMALL, TIDE_KERNEL_MANY, TIDE_KERNEL_MANY, TIDE_KERNEL_ANY}};
    for (int i = 0; i < 4; i++) CHECK(tide_kernel_layout_of(last[i], 2, &of, 1) == layouts[k][i]);
  }
  tide_tensor_release(x), tide_tensor_release(wide), tide_tensor_release(odd);
}

static void test_refusals(void) {
  tide_kernel *p;
  tide_kernel_text t = text_of(host);
  t.ndim = 4;
  FAILS(TIDE_ARGUMENT, tide_kernel_new(&p, &t));
  t.ndim = 1, t.host_block[0] = 0;
  FAILS(TIDE_ARGUMENT, tide_kernel_new(&p, &t));
  static int lines[1000];
  t = text_of(host), t.lines = lines, t.lines_count = 1000;
  FAILS(TIDE_SUPPORT, tide_kernel_new(&p, &t));
  FAILS(TIDE_ARGUMENT, tide_kernel_new(NULL, &t));
  tide_kernel_free(NULL), tide_kernel_bound_free(NULL);
  t = text_of("static int loop() { return wrong; }\nTIDE_KERNEL(loop)\n"); /* all that was said is told */
  OK(tide_kernel_new(&p, &t));
  FAILS(TIDE_VALUE, tide_kernel_wait(p, TIDE_CPU));
  CHECK(strstr(tide_error_get()->message, "please report this") && strstr(tide_error_get()->message, "return wrong"));
  tide_kernel_free(p);
}

int main(void) {
  char folder[] = "/tmp/tide-kernel-XXXXXX"; /* what compilers work in */
  CHECK(mkdtemp(folder) && setenv("TMPDIR", folder, 1) == 0);
  OK(tide_init(NULL));
  test_launch();
  test_most_blocks();
  test_small();
  test_refusals();
  tide_shutdown();
  CHECK(rmdir(folder) == 0); /* nothing is left there, of what did not compile either */
  return finish("kernel_test");
}
