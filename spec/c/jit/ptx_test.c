/* ptx_test.c: the texts that the CUDA backend writes of fused operations: every operation, conversion and dtype, one
 * kernel each, in one file that the toolkit's assembler takes for the oldest and the newest kind of GPU. No GPU is
 * needed. Skipped (77) without libtide_cuda; without an assembler the texts are made only. `ptx_test FOLDER` leaves the
 * files there. */
#include "jit/fuse/fuse.h"

#include "cuda/cuda_compiler.h"
#include "tensor/tensor_test.h"

static const char *wanted_arch;
static FILE *file;
static int kernels;

static tide_status test_arch(char *text, size_t size, int device) {
  (void)device;
  snprintf(text, size, "%s", wanted_arch);
  return TIDE_OK;
}

static tide_image_loader loader;
static tide_compiler compiler;

/* Appends the kernel under a name of its own, the first one with the head. False: it is left to NVRTC. */
static bool write_layout(tide_fused *f, int uniform, int ndim) {
  tide__jit_plan plan = {.compiler = &compiler};
  uint8_t order[TIDE_FUSE_INPUTS];
  tide__special *s = &plan.special;
  *s = (tide__special){
      .operands = f->outputs + f->inputs, .outputs = f->outputs, .scalars = f->slots, .ndim = ndim, .uniform = uniform};
  for (int k = 0; k < f->inputs; k++) order[k] = (uint8_t)k;
  for (int k = 0; k < s->operands; k++)
    s->dtype[k] = f->value[k < f->outputs ? f->output[k] : f->input[k - f->outputs]].dtype;
  tide__jit_layout(&plan.layout, s);
  char *text = tide__fuse_assembly(f, &plan, order, 0);
  if (!text) return false;
  char *entry = strstr(text, ".visible .entry tide_kernel"), head[120];
  snprintf(head, sizeof head, "%.*s", (int)(entry - text), text);
  CHECK(strstr(head, strcmp(wanted_arch, "sm_75") ? ".target sm_90\n" : ".target sm_75\n") != NULL);
  fprintf(file, "%s.visible .entry tide_kernel_%d%s", kernels ? "" : head, kernels,
          entry + strlen(".visible .entry tide_kernel"));
  kernels++;
  free(text);
  return true;
}

static bool write_kernel(tide_fused *f, int uniform) { return write_layout(f, uniform, 0); }

static tide_fused *make(const tide_fuse_node *nodes, int n) {
  static const tide_scalar numbers[] = {{.kind = 'F', .re = 1.5}, {.kind = 'I', .i = 2}, {.kind = 'F', .re = 0.25}};
  tide_fused *f = NULL;
  int output = n - 1;
  return tide_fused_new(&f, "test", nodes, n, &output, 1, numbers, 3) == TIDE_OK ? f : NULL;
}

static tide_fuse_node input(int dtype) {
  return (tide_fuse_node){.kind = TIDE_FUSE_INPUT, .dtype = (tide_dtype)dtype, .ndim = 1};
}

static bool write_nodes(const tide_fuse_node *nodes, int n, int uniform) {
  tide_fused *f = make(nodes, n);
  bool written = f && write_kernel(f, uniform);
  if (written && !uniform) CHECK(write_layout(f, 0, 1) && write_layout(f, 0, 4));
  tide_fused_free(f);
  return written;
}

static bool is_left(const char *name) { /* what may be left to NVRTC: each calls functions or needs memory */
  static const char *const names[] = {"sin",       "cos",      "tan",    "sinc",  "pow", "float_power",
                                      "lgamma",    "i0",       "i1",     "i0e",   "i1e", "digamma",
                                      "polygamma", "mvlgamma", "erfinv", "ndtri", "zeta"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i], name)) return true;
  return false;
}

/* Each operation of tensors of each dtype, and with a number instead of the second one. */
static void every_op(void) {
  for (int op = 0; op < TIDE_OP_COUNT; op++)
    for (int dtype = 0; dtype < TIDE_DTYPE_COUNT; dtype++) {
      const tide_op_info *info = tide_op_get((tide_op)op);
      tide_fuse_node nodes[4] = {input(dtype), input(dtype), input(dtype)};
      int n = info->operands;
      nodes[n] = (tide_fuse_node){.kind = TIDE_FUSE_OP, .op = op, .in = {0, 1, 2}};
      tide_fused *f = make(nodes, n + 1);
      if (!f) continue; /* it takes no such dtype */
      bool written = write_kernel(f, 0);
      if (!written && !is_left(info->name))
        fprintf(stderr, "%s of %s\n", info->name, tide_dtype_name((tide_dtype)dtype));
      CHECK(written || is_left(info->name));
      tide_fused_free(f);
      if (n == 2) nodes[1] = (tide_fuse_node){.kind = TIDE_FUSE_OP, .op = op, .in = {0, -1}};
      if (n == 2 && (f = make(nodes, 2))) {
        CHECK(write_kernel(f, 0) == written);
        tide_fused_free(f);
      }
    }
}

/* Every dtype to every other one, so that threads do 2, 4, 8 and 16 elements; sums of two, one of them a single value;
 * both over strides as well. */
static void every_conversion(void) {
  for (int from = 0; from < TIDE_COMPLEX64; from++)
    for (int to = 0; to < TIDE_COMPLEX64; to++) {
      const tide_fuse_node cast[] = {input(from), {.kind = TIDE_FUSE_CAST, .in = {0}, .dtype = (tide_dtype)to}};
      const tide_fuse_node sum[] = {input(from), input(to), {.kind = TIDE_FUSE_OP, .op = TIDE_OP_add, .in = {0, 1}}};
      CHECK(write_nodes(cast, 2, 0));
      CHECK(write_nodes(sum, 3, 0));
      CHECK(write_nodes(sum, 3, 1));
    }
}

/* A value that is both a result and read again, and one that is two results. */
static void results(void) {
  const tide_fuse_node nodes[] = {input(TIDE_FLOAT32),
                                  {.kind = TIDE_FUSE_OP, .op = TIDE_OP_exp, .in = {0}},
                                  {.kind = TIDE_FUSE_OP, .op = TIDE_OP_gt, .in = {1, -1}},
                                  {.kind = TIDE_FUSE_OP, .op = TIDE_OP_where, .in = {2, 1, 0}}};
  for (int twice = 0; twice < 2; twice++) {
    const int outputs[] = {3, 1, twice ? 1 : 2};
    const tide_scalar number = tide_float(1);
    tide_fused *f = NULL;
    OK(tide_fused_new(&f, "test", nodes, 4, outputs, 3, &number, 1));
    CHECK(write_kernel(f, 0));
    tide_fused_free(f);
  }
}

static void assemble(const char *path) {
#ifdef TIDE_PTXAS
  char command[2 * PATH_MAX];
  snprintf(command, sizeof command, "'%s' -O0 -arch=%s -o /dev/null '%s'", TIDE_PTXAS, wanted_arch, path);
  CHECK(system(command) == 0);
#else
  (void)path;
#endif
}

int main(int argc, char **argv) {
  static const char *const archs[] = {"sm_75", "sm_90"};
  OK(tide_init(NULL));
  const tide_compiler *c = cuda_compiler();
  if (!c || !c->assembler) return printf("ptx_test: no libtide_cuda here\n"), 77;
  loader = *c->loader, loader.arch = test_arch;
  compiler = *c, compiler.loader = &loader;
  for (int i = 0; i < 2; i++) {
    char path[PATH_MAX];
    wanted_arch = archs[i], kernels = 0;
    if (argc > 1)
      snprintf(path, sizeof path, "%s/%s.ptx", argv[1], wanted_arch);
    else
      snprintf(path, sizeof path, "/tmp/tide_ptx_test.%ld", (long)getpid());
    if (!(file = fopen(path, "w"))) return perror(path), 1;
    every_op();
    every_conversion();
    results();
    CHECK(fclose(file) == 0);
    assemble(path);
    if (argc == 1) remove(path);
  }
  wanted_arch = "sm_70"; /* older than what the text is for */
  CHECK(!write_nodes((tide_fuse_node[]){input(TIDE_FLOAT32), {.kind = TIDE_FUSE_OP, .op = TIDE_OP_exp, .in = {0}}}, 2,
                     0));
  tide_shutdown();
  printf("ptx_test: %d kernels, %d checks, %d failures\n", kernels, checks, failures);
  return failures != 0;
}
