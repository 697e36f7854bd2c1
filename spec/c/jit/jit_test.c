/* jit_test.c: the parts of run-time kernels that scripts do not see: signatures, packed arguments, keys and entries of
 * the cache, and, where libtide_cuda and NVRTC are there, that every kind of kernel compiles for a GPU. No GPU is
 * needed for that. `jit_test time` tells how long NVRTC takes. */
#include "jit/fuse/fuse.h"

#include <time.h>

#include "cuda/cuda_compiler.h"
#include "tensor/tensor_test.h"

/* ---- signatures ---- */

static bool is_template(const char *code, const char *name, int params) {
  tide__signature s;
  return tide__parse_template(&s, code, "test") == TIDE_OK && !strcmp(s.name, name) && s.params == params;
}

static void test_templates(void) {
  tide__signature s;
  OK(tide__parse_template(&s, "template <typename T> T f(T x, const T &y, int n = 3, T) { return x; }", "test"));
  CHECK(s.params == 4 && !strcmp(s.name, "f") && !strcmp(s.template_type, "T") && !strcmp(s.result, "T"));
  CHECK(!strcmp(s.param[0].name, "x") && !strcmp(s.param[0].type, "T"));
  CHECK(!strcmp(s.param[1].name, "y") && !strcmp(s.param[1].type, "const T &"));
  CHECK(!strcmp(s.param[2].name, "n") && !strcmp(s.param[2].type, "int"));
  CHECK(!s.param[3].name[0] && !strcmp(s.param[3].type, "T"));
  CHECK(is_template("template<class T>T a(T x){return x;}template<class T>T b(T x,T y){return x;}", "b", 2));
  CHECK(is_template("template<class T> T a(T x) { return x; }\nint b(int x) { return x; }", "a", 1));
  CHECK(is_template(
      "#define Q template <class T> T no(T x) { \\\n return x; }\ntemplate <class T> T a(T x) { return x; }", "a", 1));
  CHECK(is_template("template <class T> T a(T x) { const char *s = \"} template <class T> T b(T x) {\"; return x; }",
                    "a", 1));
  CHECK(is_template("template <class T> T h(T x) { return x + 1'000; }\ntemplate <class T> T a(T x, T y) { return x; }",
                    "a", 2));
  CHECK(is_template(
      "template <class T> T h(T x) { return x + 0x1'F'F + u'{'; }\ntemplate <class T> T a(T x, T y) { return x; }", "a",
      2));
  CHECK(is_template(
      "template <class T> struct S { T f(T x) { return x; } }; template <class T> T a(S<T> x) { return x.f(1); }", "a",
      1));
  CHECK(is_template(
      "namespace n { }\ntemplate <class T, class U> __device__ __forceinline__ T a(T x, U y) noexcept { return x; }",
      "a", 2));
  CHECK(is_template(
      "template <class T> T a(T x);\ntemplate <class T> T a(T x) { return x; }\ntemplate <class T> T c(T x);", "a", 1));
  /* Quotes and marks of comments within a literal of a directive begin and end nothing. */
  static const char *const literals[] = {"'\"'",   "'/*'",  "'//'",       "\"'\"", "\"/*\"",
                                         "\"//\"", "'\\''", "\"\\\"/*\"", "'\\\\'"};
  for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
    char code[99];
    snprintf(code, sizeof code, "#define Q %s\ntemplate <class T> T a(T x) { return x; }", literals[i]);
    CHECK(is_template(code, "a", 1));
  }
  FAILS(TIDE_VALUE, tide__parse_template(&s, "", "test"));
  FAILS(TIDE_VALUE, tide__parse_template(&s, "template", "test"));
  FAILS(TIDE_VALUE, tide__parse_template(&s, "template <", "test"));
  FAILS(TIDE_VALUE, tide__parse_template(&s, "template <class T> T a(", "test"));
  FAILS(TIDE_VALUE, tide__parse_template(&s, "template <int N> int a(int x) { return x; }", "test"));
}

/* The first kernel of that name, in a place that the next call takes; NULL without one. */
static const tide__signature *global(int *count, const char *code, const char *name) {
  static tide__signature *list;
  free(list), list = NULL;
  return tide__parse_global(&list, count, code, name, "test") == TIDE_OK && *count ? list : NULL;
}

static void test_globals(void) {
  int n;
  const char *code = "__device__ float g(float x) { return x; }\n"
                     "extern \"C\" __global__ void __launch_bounds__(256) k(const float *__restrict__ x, float *y, "
                     "unsigned int n, long long m, bool b, double d[]) { }\n"
                     "template <typename T, int N> __global__ void t(T *x, T v) { }\n__global__ void k2() { }";
  const tide__signature *s = global(&n, code, "k");
  CHECK(s && n == 1 && s->params == 6 && !s->template_type[0] && s->line == 2);
  CHECK(!strcmp(s->param[0].type, "const float *") && !strcmp(s->param[0].name, "x"));
  CHECK(!strcmp(s->param[2].type, "unsigned int") && !strcmp(s->param[2].name, "n"));
  CHECK(!strcmp(s->param[5].type, "double *") && !strcmp(s->param[5].name, "d"));
  CHECK(s->bodies == 1 && code[s->body[0].begin] == '{' && code[s->body[0].end] == '}');
  s = global(&n, code, "t<float, 3>");
  CHECK(s && s->params == 2 && !strcmp(s->template_type, "T") && !strcmp(s->param[0].type, "T *"));
  CHECK(s->templates == 2 && !strcmp(s->template_name[0], "T") && !strcmp(s->template_name[1], "N"));
  s = global(&n, "template <int N = (1, 2), class T = P<int, 3>, int, class... U> __global__ void t() { }", "t<1>");
  CHECK(s && s->templates == 4 && !strcmp(s->template_name[0], "N") && !strcmp(s->template_name[1], "T") &&
        !s->template_name[2][0] && !strcmp(s->template_name[3], "U") && !strcmp(s->template_type, "T"));
  s = global(&n, code, "k2");
  CHECK(s && s->params == 0);
  CHECK(!global(&n, code, "g") && !global(&n, code, "k3"));
  static const char words[] = "__shared__ __syncthreads";
  CHECK(!tide__parse_finds(NULL, "// __shared__\nint x; /* __syncthreads() */ \"__shared__\"", words));
  CHECK(tide__parse_finds(NULL, "x(); __syncthreads();", words));
}

/* Those with a body say what the parameters are. */
static void test_declared_globals(void) {
  int n;
  const tide__signature *s =
      global(&n,
             "__global__ void k(int const *x, unsigned n);\nextern \"C\" __global__ void k(real *, int n);\n"
             "__global__ void k(const int *x, const unsigned int n) { }\n__global__ void k(int *x, int n);",
             "k");
  CHECK(s && n == 1 && s->params == 2 && !strcmp(s->param[0].type, "const int *"));
  CHECK(!strcmp(s->param[1].type, "const unsigned int"));
  s = global(&n,
             "template <class A, class B = A, int N = 3> __global__ void k(A *x, B y);\n"
             "template <class T, class U, int M> __global__ void k(T *x, U y) { }",
             "k<int>");
  CHECK(s && n == 1 && !strcmp(s->template_name[1], "U") && !s->template_default[1][0]);
  s = global(&n, "__global__ void k(float x);\n__global__ void k(float y, int);", "k");
  CHECK(s && n == 1 && s->params == 1 && !s->bodies);
}

/* Which of several is there is the compiler's to say. */
static void test_several_globals(void) {
  int n;
  const tide__signature *s =
      global(&n,
             "#if A && B\n__global__ void k(int x) { }\n#elif C\n__global__ void k(float x) { }\n"
             "#else\n__global__ void k(int y) { }\n#endif",
             "k");
  CHECK(s && n == 2 && s[0].bodies == 3 && s[1].bodies == 3 && s[1].line == 4);
  CHECK(!strcmp(s[0].param[0].type, "int") && !strcmp(s[1].param[0].type, "float"));
  s = global(&n, "#if 0\n__global__ void k(float x) { }\n#endif", "k");
  CHECK(s && n == 1);
  s = global(&n, "#endif\n#else\n#if\n#endif\n__global__ void k(float x) { }\n#ifdef", "k");
  CHECK(s && n == 1);
  char many[1000] = "";
  for (size_t i = 0, at = 0; i <= TIDE_JIT_KERNELS; i++)
    at += (size_t)snprintf(many + at, sizeof many - at, "__global__ void k(int x) { }\n");
  tide__signature *list;
  FAILS(TIDE_VALUE, tide__parse_global(&list, &n, many, "k", "test"));
}

static void test_types(void) {
  static const struct {
    const char *type;
    int bytes;
    bool is_unsigned;
  } good[] = {{"long unsigned int", 8, true},
              {"unsigned", 4, true},
              {"int unsigned", 4, true},
              {"long signed", 8, false},
              {"int long long", 8, false},
              {"short int", 2, false},
              {"char unsigned", 1, true},
              {"signed", 4, false},
              {"const int short unsigned", 2, true},
              {"signed char", 1, false},
              {"unsigned long const", 8, true}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    tide_raw_kernel_param p;
    CHECK(tide__param_read(&p, good[i].type) && p.kind == TIDE_PARAM_INTEGER);
    CHECK(p.bytes == good[i].bytes && p.is_unsigned == good[i].is_unsigned);
  }
  tide_raw_kernel_param p;
  CHECK(!tide__param_read(&p, "long double") && !tide__param_read(&p, "const"));
}

static bool divides(const char *code, const char *expected) {
  char *text = tide__jit_rewrite(code, NULL, "test");
  bool same = text && !strcmp(text, expected);
  free(text);
  return same;
}

static void test_divisions(void) {
  CHECK(divides("x = a / b %c;", "x = a /tide_by->* b %tide_by->*c;"));
  CHECK(divides("x /= a%b + c;", "x /=tide_by= a%tide_by->*b + c;"));
  CHECK(divides("/* a / b */ \"a / b\" '/' // a % b\n#include <a/b>\n",
                "/* a / b */ \"a / b\" '/' // a % b\n#include <a/b>\n"));
  CHECK(divides("# define A(x) 1 / \\\n# x\n", "# define A(x) 1 /TIDE_BY  \\\n# x\n"));
  CHECK(divides("#if 4 / 2\n#define A\n#elif A / 2\n", "#if 4 / 2\n#define A\n#elif A / 2\n"));
#define BY_NONE(line) "\n#undef TIDE_BY\n#define TIDE_BY\n#line " #line "\n"
#define BY_DONE(line) "\n#undef TIDE_BY\n#define TIDE_BY tide_by->*\n#line " #line "\n"
  CHECK(divides("#define A 4%2\n#define B /= A\n #if A / \\\n 2\n#else\nx\n#endif\na/b",
                "#define A 4%TIDE_BY 2\n#define B /=tide_by= A\n " BY_NONE(3) "#if A / \\\n 2" BY_DONE(
                    5) "#else" BY_DONE(6) "x\n#endif" BY_DONE(8) "a/tide_by->*b"));
  CHECK(divides("T operator /(T x); a <% b %> c %: d", "T operator /(T x); a <% b %> c %: d"));
  CHECK(divides("T operator()(T x); a/b", "T operator()(T x); a/tide_by->*b"));
  CHECK(divides("R\"x(a / b)x\" / 2", "R\"x(a / b)x\" /tide_by->* 2"));
}

/* Pieces of good code, cut and mixed: nothing may be read past the end. */
static void test_noise(void) {
  static const char good[] = "template <typename T> T f(const T &x, T *y[3], int n = (1 < 2)) { return \"a\\\"b\"[0]; }"
                             " /* c */ extern \"C\" __global__ void k(float *x) { } // d\n#define A \\\n b\n'c' {[(<";
  uint64_t seed = 1;
  for (int round = 0; round < 3000; round++) {
    char text[sizeof good];
    memcpy(text, good, sizeof good);
    for (int i = 0; i < round % 7; i++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      text[(seed >> 33) % (sizeof good - 1)] = good[(seed >> 20) % (sizeof good - 1)];
    }
    text[(seed >> 40) % sizeof good] = 0;
    char *own = strdup(text); /* its end is watched by the sanitizer */
    tide__signature s;
    (void)tide__parse_template(&s, own, "test");
    int n;
    (void)global(&n, own, "k");
    free(tide__jit_rewrite(own, NULL, "test"));
    free(own);
  }
}

/* The bracket that closes the name stands in the directive's own line. */
static void test_includes(void) {
  static const struct {
    const char *text, *name;
  } of[] = {{"#include <a/b.h>\n", "<a/b.h"},
            {"#include \"a.h\"\n", "\"a.h"},
            {"  #  include_next<a.h> // >\n", "<a.h"},
            {"#import \"a.h\" \"b.h\"\n", "\"a.h"},
            {"#include <a.h>", "<a.h"},
            {"#include <>\n", "<"},
            {"#include <a.h\nint x = 2 > 1;\n", NULL},
            {"#include \"a.h\nconst char *s = \"b\";\n", NULL},
            {"#include <a.h\n#include <b.h>\n", NULL},
            {"#include <a.h", NULL},
            {"#include \"", NULL},
            {"#include HEADER\nint x = 2 > 1;\n", NULL}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    tide__tokens w = {0};
    const char *name = NULL;
    size_t length = 1;
    OK(tide__tokenize(&w, of[i].text, NULL, TIDE_TOKENS_DIRECTIVES, "test"));
    CHECK(w.count > 0 && tide__parse_include(&w.list[0], &name, &length));
    const char *expected = of[i].name ? of[i].name : "";
    CHECK(length == strlen(expected) && (!length || !strncmp(name, expected, length)));
    free(w.list);
  }
}

/* ---- entries ---- */

static void test_entries(void) {
  char folder[] = "/tmp/tide-jit-test-XXXXXX";
  CHECK(mkdtemp(folder) != NULL);
  setenv("TIDE_KERNEL_CACHE_PATH", folder, 1);
  tide__jit_key a = {{1, 2}}, b = {{1, 2}};
  tide__jit_hash(&a, "xy", 2), tide__jit_hash(&a, "z", 1);
  tide__jit_hash(&b, "x", 1), tide__jit_hash(&b, "yz", 2);
  CHECK(memcmp(&a, &b, sizeof a) != 0);
  tide_image image = {.bytes = (char[]){1, 0, 2, 0, 3}, .size = 5, .name = "kernel"}, back = {0};
  CHECK(tide__jit_read(&back, &a) == TIDE_ENTRY_NONE);
  CHECK(tide__jit_write(&image, &a) && tide__jit_write(&image, &a));
  CHECK(tide__jit_read(&back, &a) == TIDE_ENTRY_FOUND);
  CHECK(back.size == 5 && !memcmp(back.bytes, image.bytes, 5) && !strcmp(back.name, "kernel"));
  free(back.bytes);
  CHECK(tide__jit_read(&back, &b) == TIDE_ENTRY_NONE);
  OK(tide_jit_cache_clear());
  CHECK(tide__jit_read(&back, &a) == TIDE_ENTRY_NONE);
  CHECK(rmdir(folder) == 0);
  unsetenv("TIDE_KERNEL_CACHE_PATH");
}

/* ---- NVRTC ---- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double compile_seconds;

/* The image is the caller's. */
static tide_status try_image(tide_image *image, const tide_compiler *c, const char *source, const char *name,
                             char **log) {
  const char *options[8];
  char text[256], *rest = text;
  int n = 0;
  snprintf(image->name, sizeof image->name, "%s", name);
  snprintf(text, sizeof text, "%s", strcmp(name, "tide_kernel") ? c->raw_options : c->options);
  for (char *p; (p = strtok_r(rest, " ", &rest)) && n < 8;) options[n++] = p;
  double start = now();
  tide_status status = c->compile(image, log, source, options, n, "sm_90");
  compile_seconds = now() - start;
  if (status == TIDE_OK) CHECK(image->size > 500 && !memcmp(image->bytes, "\177ELF", 4));
  return status;
}

static tide_status try_compile(const tide_compiler *c, const char *source, const char *name, char **log) {
  tide_image image = {0};
  tide_status status = try_image(&image, c, source, name, log);
  free(image.bytes);
  return status;
}

/* What is compiled without NVRTC's own header is what is compiled with it, which a word in the source brings back. */
static void check_same(const tide_compiler *c, const char *source) {
  char *with = malloc(strlen(source) + 20), *log = NULL;
  tide_image a = {0}, b = {0};
  snprintf(with, strlen(source) + 20, "%s// #include\n", source);
  OK(try_image(&a, c, source, "tide_kernel", &log));
  OK(try_image(&b, c, with, "tide_kernel", &log));
  CHECK(a.size == b.size && !memcmp(a.bytes, b.bytes, a.size));
  free(a.bytes), free(b.bytes), free(with);
}

static bool same; /* compare as well */

static void compile_special(const tide_compiler *c, const char *code, const char *scalar_kinds, int outputs, int ndim,
                            tide_dtype common, const tide_dtype *in) {
  tide__signature f;
  uint8_t role[TIDE_LAUNCH_PARAMS], number[TIDE_LAUNCH_PARAMS];
  int inputs = 0, outs = 0, scalars = 0;
  OK(tide__parse_template(&f, code, "test"));
  for (int p = 0; p < f.params; p++) {
    bool scalar = f.param[p].name[0] == 'c';
    bool out = strchr(f.param[p].type, '&') != NULL;
    role[p] = scalar ? TIDE_ROLE_SCALAR : out ? TIDE_ROLE_OUTPUT : TIDE_ROLE_INPUT;
    number[p] = (uint8_t)(scalar ? scalars++ : out ? outs++ : inputs++);
  }
  int n = outputs ? outputs : 1;
  tide__special s = {inputs + n, n, scalars, ndim, 0, common, {0}, 0, 0};
  for (int k = 0; k < n + inputs && k < 2 * TIDE_JIT_TENSORS; k++) s.dtype[k] = (uint8_t)(k < n ? common : in[k - n]);
  const tide__jit_text t = {code, &f, outputs == 0, role, number, scalar_kinds};
  char *source = tide__jit_source(&t, &s, c), *log = NULL;
  CHECK(source != NULL);
  tide_status status = try_compile(c, source, "tide_kernel", &log);
  if (status != TIDE_OK) fprintf(stderr, "%s\n", log ? log : "");
  OK(status);
  if (same) check_same(c, source);
  free(log), free(source);
}

static void compile_fused(const tide_compiler *c, char *source) {
  char *log = NULL;
  CHECK(source != NULL);
  tide_status status = source ? try_compile(c, source, "tide_kernel", &log) : TIDE_MEMORY;
  if (status != TIDE_OK) fprintf(stderr, "%s\n", log ? log : "");
  OK(status);
  if (source) check_same(c, source);
  free(log), free(source);
}

/* Fused reads by an index: what no compiler of a host is given. not x[index], or the sum of such rows. */
static void compile_gathers(const tide_compiler *c) {
  static const uint8_t order[] = {0, 1};
  const tide_dtype dtypes[] = {TIDE_FLOAT32, TIDE_FLOAT16, TIDE_BOOL};
  for (int d = 0; d < 3; d++)
    for (int sums = 0; sums < 2; sums++) {
      const int output = sums ? 3 : 2;
      tide_fused *f = NULL;
      tide_fuse_node nodes[4] = {
          {.kind = TIDE_FUSE_INPUT, .dtype = d ? TIDE_INT64 : TIDE_INT32, .ndim = 1, .dims = 1},
          {.kind = TIDE_FUSE_GATHER, .op = TIDE_FUSE_SLICES, .dtype = dtypes[d], .ndim = 2, .in = {0}},
          {.kind = TIDE_FUSE_OP, .op = TIDE_OP_logical_not, .in = {1}, .param = -1},
          {.kind = TIDE_FUSE_REDUCE, .op = TIDE_SUM, .in = {2}, .param = -1, .dims = 1}};
      if (sums) nodes[2] = (tide_fuse_node){.kind = TIDE_FUSE_CAST, .in = {1}, .dtype = TIDE_FLOAT32};
      OK(tide_fused_new(&f, "test", nodes, output + 1, &output, 1, NULL, 0));
      if (!f) return;
      tide__special s = {.operands = 3, .outputs = 1, .scalars = f->slots, .mail = f->mail};
      s.dtype[0] = f->value[f->output[0]].dtype, s.dtype[1] = nodes[0].dtype, s.dtype[2] = dtypes[d];
      for (s.ndim = 0; s.ndim < 3 && !sums; s.ndim++) {
        s.uniform = !s.ndim, s.places = s.ndim ? 4 : 0; /* flat: x is a line */
        compile_fused(c, tide__fuse_source(f, &s, order, c));
      }
      for (int lanes = 1; lanes < 5 && sums; lanes += 3) {
        const tide__fuse_shape rows = {.group = 32, .lanes = lanes, .pieces = 2, .spread = 4};
        const tide__fuse_shape along = {.lanes = lanes, .spread = 2, .moves = 2};
        const tide__fuse_shape across = {.lanes = lanes, .pieces = 1, .spread = 2, .moves = 1};
        compile_fused(c, tide__fuse_rows_source(f, &rows, c));
        f->is_part = true;
        compile_fused(c, tide__fuse_parts_source(f, &along, c));
        compile_fused(c, tide__fuse_parts_source(f, &across, c));
        f->is_part = false;
      }
      tide_fused_free(f);
    }
}

/* What rows are shared by, and variances of long ones: the texts that no call on a host asks for. */
static void compile_rows(const tide_compiler *c) {
  const tide_dtype dtypes[] = {TIDE_FLOAT64, TIDE_BFLOAT16};
  for (int d = 0; d < 4; d++) {
    const tide_dtype t = dtypes[d / 2];
    const int output = 4, lanes = 16 / (int)tide__itemsize(t);
    const tide_scalar correction = tide_float(1);
    const tide_fuse_node nodes[] = {
        {.kind = TIDE_FUSE_INPUT, .dtype = t, .ndim = 2},
        {.kind = TIDE_FUSE_REDUCE, .op = TIDE_MEAN, .param = -1, .dims = 1, .leading = d % 2, .keepdim = true},
        {.kind = TIDE_FUSE_OP, .op = TIDE_OP_sub, .in = {0, 1}, .param = -1},
        {.kind = TIDE_FUSE_REDUCE, .op = TIDE_STD, .dims = 1, .leading = d % 2, .keepdim = true},
        {.kind = TIDE_FUSE_OP, .op = TIDE_OP_div, .in = {2, 3}, .param = -1}};
    tide_fused *f = NULL, *part;
    tide_tensor *x = NULL, *out = NULL;
    bool done = false;
    OK(tide_fused_new(&f, "test", nodes, 5, &output, 1, &correction, 1));
    const int64_t size[] = {d % 2 ? 20000 : 2, d % 2 ? 2 : 20000};
    OK(tide_full(&x, size, 2, tide_float(1), &(tide_options){t, TIDE_CPU, false}));
    OK(tide_fused_call(&done, &out, f, &x, NULL)); /* a host makes the stages */
    CHECK(done);
    for (int blocks = 1; f && blocks <= TIDE_FUSE_BLOCKS; blocks *= 8) {
      const tide__fuse_shape s = {
          .group = 256 * blocks, .lanes = lanes, .pieces = 32 / lanes, .blocks = blocks, .spread = 3};
      compile_fused(c, tide__fuse_rows_source(f, &s, c));
    }
    for (int k = 0; f && (part = tide__fuse_stage(f, k)); k++) {
      const tide__fuse_shape s = {
          .lanes = part->is_part ? lanes : 2, .pieces = d % 2 || !part->is_part, .spread = 1, .moves = 1};
      if (!part->reduces || part->is_part) compile_fused(c, tide__fuse_parts_source(part, &s, c));
    }
    tide_tensor_release(x), tide_tensor_release(out);
    tide_fused_free(f);
  }
}

/* Kernels of all kinds that core writes as one program, in which each has its name; one that is refused leaves none. */
static void test_joined(const tide_compiler *c) {
  const tide__special flat = {.operands = 2, .outputs = 1, .dtype = {TIDE_FLOAT32, TIDE_FLOAT16}};
  const tide__special strided = {.operands = 2, .outputs = 1, .ndim = 2, .dtype = {TIDE_INT64, TIDE_INT64}};
  static char program[] =
      "#define TIDE_THREADS 64\nstatic __device__ __noinline__ float f(float x) { return exp(x); }\n"
      "extern \"C\" __global__ void __launch_bounds__(TIDE_THREADS) tide_kernel(float *x) {\n"
      "  x[threadIdx.x] = f(x[threadIdx.x]);\n}\n";
  static char bad[] = "extern \"C\" __global__ void tide_kernel(float *x) { *x = y; }";
  char *first =
      tide__jit_around("TIDE_INLINE float f(float x) { return x * x; }\n", "  x0 = f(tide_get(x1));\n", NULL, &flat, c);
  char *last = tide__jit_around("", "  x0 = x1 * 3;\n", NULL, &strided, c);
  const tide__jit_request r[4] = {{.what = "test", .source = first, .name = "tide_kernel", .ours = true},
                                  {.what = "test", .source = program, .name = "tide_kernel", .ours = true},
                                  {.what = "test", .source = last, .name = "tide_kernel", .ours = true},
                                  {.what = "test", .source = bad, .name = "tide_kernel", .ours = true}};
  const tide__jit_request *list[] = {&r[0], &r[1], &r[2], &r[3]};
  tide_image image[4] = {{0}}, *out[] = {&image[0], &image[1], &image[2], &image[3]};
  FAILS(TIDE_LIBRARY, tide__jit_compile_joined(out, list, 4, c, "sm_90"));
  CHECK(!image[0].bytes && !image[1].bytes && !image[2].bytes && !image[3].bytes);
  OK(tide__jit_compile_joined(out, list, 3, c, "sm_90"));
  for (int i = 0; i < 3; i++) {
    char section[64];
    snprintf(section, sizeof section, ".text." TIDE_JOINED "%d", i);
    CHECK(image[i].size == image[0].size && !strcmp(image[i].name, section + strlen(".text.")));
    CHECK(image[i].bytes && memmem(image[i].bytes, image[i].size, section, strlen(section) + 1));
    free(image[i].bytes);
  }
  free(first), free(last);
}

static tide_status real_arch(char *text, size_t size, int device) {
  (void)device;
  snprintf(text, size, "sm_90");
  return TIDE_OK;
}

static void test_nvrtc(bool timing) {
  const tide_compiler *c = cuda_compiler();
  char path[512], version[128], *log = NULL;
  if (!c || c->identify(path, sizeof path, version, sizeof version) != TIDE_OK) {
    printf("jit_test: no libtide_cuda or no NVRTC here, its part is left out\n");
    return;
  }
  static const char two[] = "template <typename T> T f(T x, T y, T c) { return x + c * y; }";
  static const char chain[] = "template <typename T> T f(T x) { x = x * 2 + 1; x = x * x - 3; return abs(x) + x; }";
  static const char outs[] =
      "template <typename T> void f(T x, T y, int ci, double cd, T &a, T &b) { a = x + T(ci); b = y * T(cd); }";
  static const char functions[] =
      "template <typename T> T f(T x) { return exp(-x) + rsqrt(x) + max(x, T(2)) + min(x, T(3)) + abs(-x) + pow(x, "
      "T(2)) "
      "+ normcdf(x) + fmod(x, T(2)) + log1p(x) + erf(x) + tanh(x) + std::sqrt(x) + sinpi(x) + isnan(x) + floor(x) "
      "+ std::max(x, T(1)) + std::numeric_limits<T>::infinity() + std::pow(x, 2) + ::exp(x); }";
  static const char complexes[] =
      "template <typename T> T f(T z) { return std::exp(z) * std::conj(z) / (z + T(1)) - "
      "std::sqrt(z) + std::log(z) + std::abs(z) + std::pow(z, z) + tan(z) + T(z.real(), 2); }";
  for (int d = 0; d < TIDE_DTYPE_COUNT; d++) {
    tide_dtype in[8] = {(tide_dtype)d, (tide_dtype)d};
    if (timing && d != TIDE_FLOAT32) continue;
    for (int ndim = 0; ndim < 3; ndim++) {
      compile_special(c, two, "T", 0, ndim, (tide_dtype)d, in);
      if (timing) printf("%d dims: %.1f ms\n", ndim, 1e3 * compile_seconds);
    }
    if (d == TIDE_BOOL) continue;
    tide_dtype mixed[8] = {(tide_dtype)d, TIDE_BOOL};
    if (!timing) compile_special(c, two, "T", 0, 0, (tide_dtype)d, mixed);
  }
  for (int k = 0; k < (timing ? 10 : 1); k++) {
    compile_special(c, chain, "", 0, 0, TIDE_FLOAT32, (tide_dtype[]){TIDE_FLOAT32});
    if (timing) printf("a chain: %.1f ms\n", 1e3 * compile_seconds);
  }
  static const char more[] =
      "template <typename T> T f(T x) { int e = 0; T m = frexp(x, &e); return fma(x, m, x) + copysign(x, m) + ldexp(x, "
      "2) + "
      "trunc(x) + rint(x) + nearbyint(x) + T(lround(x) + llrint(x) + abs(T(e)) + __popc(e) + __clzll(e)) + hypot(x, m) "
      "+ "
      "atan2(x, m) + cbrt(x) + exp2(x) + exp10(x) + erfinv(x) + T(signbit(x) + isfinite(x)) + fdim(x, m) + fmax(x, m) "
      "+ "
      "T(__expf(float(x))) + rcbrt(x) + T(max(e, 3)) + T(min(e, 2u)) + T(abs((long long)e)) + nextafter(x, m) + "
      "(x < T(3) ? log2(x) : log10(x)); }";
  same = !timing;
  compile_special(c, more, "", 0, 0, TIDE_FLOAT32, (tide_dtype[]){TIDE_FLOAT32});
  compile_special(c, more, "", 0, 0, TIDE_FLOAT64, (tide_dtype[]){TIDE_FLOAT64});
  compile_special(c, chain, "", 0, 0, TIDE_INT64, (tide_dtype[]){TIDE_INT64});
  compile_special(c, outs, "IF", 2, 12, TIDE_FLOAT64, (tide_dtype[]){TIDE_FLOAT16, TIDE_INT64});
  compile_special(c, functions, "", 0, 0, TIDE_FLOAT32, (tide_dtype[]){TIDE_FLOAT32});
  compile_special(c, functions, "", 0, 1, TIDE_FLOAT64, (tide_dtype[]){TIDE_FLOAT64});
  compile_special(c, complexes, "", 0, 0, TIDE_COMPLEX64, (tide_dtype[]){TIDE_COMPLEX64});
  compile_special(c, complexes, "", 0, 2, TIDE_COMPLEX128, (tide_dtype[]){TIDE_COMPLEX64});
  compile_gathers(c);
  compile_rows(c);
  static const char needs[] = "template <typename T> T f(T x) { assert(x == x); dim3 d(2); return x + __popc(d.x); }";
  same = false;
  compile_special(c, needs, "", 0, 0, TIDE_FLOAT32, (tide_dtype[]){TIDE_FLOAT32});
  FAILS(TIDE_LIBRARY, try_compile(c, "#line 1 \"code\"\nint f(int x) {\n return y; }", "tide_kernel", &log));
  CHECK(log && strstr(log, "code(2)") != NULL);
  free(log);
  log = NULL;
  log = NULL;
  test_joined(c);
  static const char raw[] = "template <class T> __global__ void k(T *x, int64_t n) { *x = n; }\n"
                            "extern \"C\" __global__ void e(float *x) { *x = 1; }\n__global__ void p() {}";
  static const char *const names[] = {"k<float>", "e", "p"};
  char *source = tide__raw_source(&(tide__raw_text){.source = raw, .call = "k<float>"}, c);
  for (int i = 0; i < 3; i++) OK(try_compile(c, source, names[i], &log));
  free(source), free(log);
}

/* What is more than the threads of one launch can be, with operands of different widths. */
static void test_parts(void) {
  static const char code[] = "template <typename T> T f(T x, T y) { return x * T(2) + y; }";
  const tide_options wide = {TIDE_FLOAT64, TIDE_CPU, false}, narrow = {TIDE_INT16, TIDE_CPU, false};
  int64_t before = tide__jit_most_threads;
  tide_tensor *in[2] = {NULL}, *out = NULL;
  tide_jit *j = NULL;
  OK(tide_jit_new(&j, code, NULL, NULL, 0, 0));
  OK(tide_arange(&in[0], tide_int(0), tide_int(1), 1001, &wide));
  OK(tide_arange(&in[1], tide_int(1), tide_int(3), 1001, &narrow));
  tide__jit_most_threads = 8;
  tide_status status = tide_jit_call(&out, j, in, 2, NULL);
  tide__jit_most_threads = before;
  if (status == TIDE_OK)
    for (int64_t i = 0; i < 1001; i++) CHECK(flat_at(out, i) == 5.0 * (double)i + 1);
  else
    CHECK(strstr(tide_error_get()->message, "compiler") != NULL); /* there is none here */
  tide_tensor_release(out), tide_tensor_release(in[0]), tide_tensor_release(in[1]);
  tide_jit_free(j);
}

/* NVRTC on a thread of its own, which the process does not wait for before it ends. */
static void test_nvrtc_ahead(void) {
  static tide_compiler with_arch;
  static tide_image_loader loader;
  const tide_compiler *c = cuda_compiler();
  char path[512], version[128], code[128];
  if (!c || c->identify(path, sizeof path, version, sizeof version) != TIDE_OK) return;
  loader = *c->loader, loader.arch = real_arch;
  with_arch = *c, with_arch.loader = &loader;
  setenv("TIDE_KERNEL_CACHE", "0", 1);
  for (int i = 0; i < 3; i++) {
    snprintf(code, sizeof code, "extern \"C\" __global__ void tide_kernel(int *x) { *x = %d; }", i);
    const tide__jit_request r = {.what = "test", .source = code, .name = "tide_kernel"};
    tide__jit_ahead(&r, &with_arch, 0, TIDE_WISH_GUESS);
  }
}

static void test_exit(void) {
  char self[PATH_MAX], command[PATH_MAX + 40];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  CHECK(n > 0);
  self[n > 0 ? n : 0] = 0;
  for (int ms = 0; ms <= 60; ms += 12) {
    snprintf(command, sizeof command, "'%s' exit %d", self, ms);
    CHECK(system(command) == 0);
  }
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "exit")) {
    OK(tide_init(NULL));
    test_nvrtc_ahead();
    nanosleep(&(struct timespec){.tv_nsec = argc > 2 ? 1000000l * atoi(argv[2]) : 0}, NULL);
    return failures != 0;
  }
  OK(tide_init(NULL));
  bool timing = argc > 1 && !strcmp(argv[1], "time");
  if (!timing) {
    test_templates();
    test_globals();
    test_declared_globals();
    test_several_globals();
    test_types();
    test_divisions();
    test_noise();
    test_includes();
    test_entries();
    test_exit();
    test_parts();
    FAILS(TIDE_ARGUMENT, tide_raw_kernel_bound_launch(NULL));
  }
  test_nvrtc(timing);
  tide_shutdown();
  printf("jit_test: %d checks, %d failures\n", checks, failures);
  return failures != 0;
}
