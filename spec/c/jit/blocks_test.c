/* blocks_test.c: the block interpreter, by programs written by hand; those of kernel_code.lua run in the specs. */
#include "backend/cpu/jit/blocks.h"

#include <math.h>

#include "check.h"

enum { N = 700 };
static const char head[] = "float32\nndim 1\nslots 64\nsites 4\nmail 2 3\n";

/* What a launch of one dim finds: sizes, the mailbox and what stops it, the numbers of four lines, then from slot 11 on
 * tensors of one dim at three slots each. */
typedef struct fixture {
  int64_t slots[64];
  uint32_t taken;
  tide_mail mail;
} fixture;

static void bring(fixture *f, int64_t n) {
  memset(f, 0, sizeof *f);
  f->slots[0] = n, f->slots[1] = f->slots[2] = 1;
  f->slots[3] = (int64_t)(intptr_t)&f->taken, f->slots[4] = (int64_t)(intptr_t)&f->mail;
  for (int k = 0; k < 4; k++) f->slots[7 + k] = 70 + k;
}

static void bring_tensor(fixture *f, int k, void *at, int64_t n, int64_t stride) {
  f->slots[11 + 3 * k] = (int64_t)(intptr_t)at;
  f->slots[12 + 3 * k] = n, f->slots[13 + 3 * k] = stride;
}

static void *read_code(const char *before, const char *text) {
  char all[8192];
  void *code = NULL;
  snprintf(all, sizeof all, "%s%s%s", head, before, text);
  OK(tide__blocks_new(&code, all, strlen(all)));
  return code;
}

/* The launch of so many runs, as a stream's. */
static tide_status launch(void *code, fixture *f, int64_t runs) {
  tide_launch a = {
      .grid = {(uint32_t)runs, 1, 1}, .block = {1, 1, 1}, .elementwise = true, .interpreted = true, .packed = f->slots};
  return tide__cpu_loader.launch(NULL, code, &a);
}

/* y[i] = 2 x[i] + 1, of other strides and dtypes too, and nothing beyond the end. */
static void test_lines(void) {
  static const char text[] =
      "tensor 11 1 float32\ntensor 14 1 float64\ncode rows 3 0 1 0 1\naccess 0 1 r 1 s0 0 1\n"
      "access 1 1 r 1 s0 0 1\nlaunch\nreal s1 1 1\nreal s2 1 0\nend\nrow\nend\nblock_part\nfirst "
      "s0 0\nload r0 a0 k0\nmul_r r0 r0 s1\nadd_r r0 r0 s2\nstore a1 r0 k0\nend\n";
  static float x[2 * N];
  static double y[3 * N + 3];
  void *code = read_code("", text);
  for (int step = 1; step <= 3; step++) {
    fixture f;
    bring(&f, N);
    for (int i = 0; i < 2 * N; i++) x[i] = (float)i / 4;
    for (int i = 0; i < 3 * N + 3; i++) y[i] = -1;
    bring_tensor(&f, 0, step == 2 ? x + 2 * N - 2 : x, N, step == 2 ? -2 : 1);
    bring_tensor(&f, 1, y, N, step);
    OK(launch(code, &f, 1));
    for (int i = 0; i < N; i++) CHECK(y[step * i] == (double)((step == 2 ? 2 * N - 2 - 2 * i : i) / 2.0f + 1));
    CHECK(y[step * N] == -1 && f.taken == 0);
  }
  tide__blocks_free(code);
}

/* What lies outside is read as 0, not written, and told once, with the number of its line. */
static void test_outside(void) {
  static const char text[] = "tensor 11 1 int32\ntensor 14 1 int64\ncode rows 2 2 0 0 1\naccess 0 1 w 2 s0 -1 1\n"
                             "access 1 1 w 3 s0 0 1\naccess 0 1 w 4 w1 0 0\nlaunch\ninteger s1 7\nend\nrow\nend\nblock_"
                             "part\nfirst s0 0\nload w0 a0 k0\nadd_i w0 w0 s1\nstore a1 w0 k0\nend\n";
  int32_t x[N];
  int64_t y[N];
  fixture f;
  void *code = read_code("", text);
  for (int i = 0; i < N; i++) x[i] = i * i, y[i] = -1;
  bring(&f, N), bring_tensor(&f, 0, x, N, 1), bring_tensor(&f, 1, y, N, 1);
  OK(launch(code, &f, 1));
  CHECK(f.mail.full == 1 && f.mail.site == 71 && f.mail.value == 0 && f.mail.length == N && f.mail.base == 2);
  for (int i = 0; i < N; i++) CHECK(y[i] == (i ? x[i - 1] : 0) + 7);
  bring(&f, N), bring_tensor(&f, 0, x, N, 1), bring_tensor(&f, 1, y, 300, 1);
  f.taken = 1; /* somebody has told something already */
  for (int i = 0; i < N; i++) y[i] = -1;
  OK(launch(code, &f, 1));
  CHECK(f.mail.full == 0);
  for (int i = 0; i < N; i++) CHECK(y[i] == (i < 300 ? (i ? x[i - 1] : 0) + 7 : -1));
  tide__blocks_free(code);
}

/* Each lane counts to its own number; odd ones leave early. */
static void test_masks(void) {
  static const char counted[] =
      "tensor 11 1 int64\ncode rows 4 5 0 1 2\naccess 0 1 w 1 s0 0 1\nlaunch\ninteger s1 1\ninteger s2 0\ninteger s3 "
      "50\n"
      "end\nrow\nend\nblock_part\nfirst s0 0\nfill_w w0 s2\nline w3 s0 0 1\neach_begin k1 k0 w1 w2 s1 w3 s1 1 L15\n"
      "add_i w4 w0 w1\nput_w w0 k1 w4\nlt_i m0 s3 w1\nmask_less k1 k1 m0 L15\neach_next k1 w1 w2 s1 L15\n"
      "jump L9\nstore a0 w0 k0\nend\n";
  int64_t y[N];
  fixture f;
  void *code = read_code("", counted);
  bring(&f, N), bring_tensor(&f, 0, y, N, 1);
  OK(launch(code, &f, 1));
  for (int64_t i = 1; i <= N; i++) {
    const int64_t most = i < 51 ? i : 51;
    CHECK(y[i - 1] == most * (most + 1) / 2);
  }
  tide__blocks_free(code);
}

static const char *const sets[] = {"base", "avx2", "avx512"};

/* The same loop with its rounds counted by 3, by every set of instructions, in runs of 256 places. */
static void test_count(void) {
  static const char text[] =
      "tensor 11 1 int64\ncode rows 5 5 0 1 2\naccess 0 1 w 1 s0 0 1\nlaunch\ninteger s1 1\ninteger s2 -9\ninteger s3 "
      "50\ninteger s4 3\n"
      "end\nrow\nend\nblock_part\nfirst s0 0\nfill_w w0 s2\nline w3 s0 0 1\neach_begin k1 k0 w1 w2 s1 w3 s1 1 L15\n"
      "count w0 k1 s4\nlt_i m0 s3 w1\nmask_less k1 k1 m0 L15\neach_next k1 w1 w2 s1 L15\njump L10\n"
      "store a0 w0 k0\nend\n";
  int64_t y[N + 1];
  for (int s = 0; s < 3; s++) {
    fixture f;
    if (!tide__isa_set(sets[s])) continue;
    void *code = read_code("run 256\n", text);
    for (int i = 0; i <= N; i++) y[i] = -1;
    bring(&f, N), bring_tensor(&f, 0, y, N, 1);
    OK(launch(code, &f, 3));
    for (int64_t i = 1; i <= N; i++) CHECK(y[i - 1] == -9 + 3 * (i < 51 ? i : 51));
    CHECK(y[N] == -1);
    tide__blocks_free(code);
  }
  tide__isa_set(NULL);
}

/* Elements from all over an array, for some lanes: what lies outside is read as 0, lanes that are off write nothing. */
static void test_gather(void) {
  static const char text[] =
      "tensor 11 1 int64\ntensor 14 1 float32\ntensor 17 1 float32\ncode rows 3 1 1 1 2\naccess 0 1 w 1 s0 0 1\n"
      "access 1 1 r 2 w0 0 0\naccess 2 1 r 3 s0 0 1\nlaunch\ninteger s2 4\nreal s1 9 0\nend\nrow\nend\nblock_part\n"
      "first s0 0\nload w0 a0 k0\nfill_r r0 s1\nlt_i m0 s2 w0\nmask_and k1 k0 m0 L11\nload r0 a1 k1\nstore a2 r0 k1\n"
      "end\n";
  int64_t index[N];
  float x[N], y[N];
  for (int s = 0; s < 3; s++) {
    fixture f;
    if (!tide__isa_set(sets[s])) continue;
    void *code = read_code("", text);
    for (int64_t i = 0; i < N; i++) index[i] = i * i * 31 % 900 - 20, x[i] = (float)i + 0.5f, y[i] = -1;
    for (int i = 128; i < 256; i++) index[i] = i == 200 ? 7 : i == 210 ? N + 1 : 0; /* nearly all are off */
    bring(&f, N), bring_tensor(&f, 0, index, N, 1), bring_tensor(&f, 1, x, N, 1), bring_tensor(&f, 2, y, N, 1);
    OK(launch(code, &f, 1));
    CHECK(f.mail.full == 1 && f.mail.site == 71 && f.mail.value > N && f.mail.length == N);
    for (int i = 0; i < N; i++) CHECK(y[i] == (index[i] <= 4 ? -1 : index[i] <= N ? x[index[i] - 1] : 0));
    tide__blocks_free(code);
  }
  tide__isa_set(NULL);
}

static int64_t floor_of(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/* Integers as Lua has them, by every set of instructions; a zero is told. */
static void test_integers(void) {
  static const char text[] =
      "tensor 11 1 int64\ntensor 14 1 int64\ntensor 17 1 int64\ntensor 20 1 int64\ncode rows 1 4 0 "
      "0 1\naccess 0 1 w 1 s0 0 1\naccess 1 1 w 1 s0 0 1\naccess 2 1 w 1 s0 0 1\naccess 3 1 w 1 "
      "s0 0 1\nlaunch\nend\nrow\nend\nblock_part\nfirst s0 0\nload w0 a0 k0\nload w1 a1 k0\nidiv "
      "w2 w0 w1 1 k0\nimod w3 w0 w1 2 k0\nstore a2 w2 k0\nstore a3 w3 k0\nend\n";
  static const int64_t values[] = {0, 1, -1, 2, -2, 3, -7, 10, 100, -1000, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  enum { V = sizeof values / sizeof *values };
  for (int s = 0; s < 3; s++) {
    int64_t a[V * V], b[V * V], q[V * V], m[V * V];
    fixture f;
    if (!tide__isa_set(sets[s])) continue;
    void *code = read_code("", text);
    for (int large = 0; large < 2; large++) {
      for (int i = 0; i < V * V; i++) a[i] = values[i / V], b[i] = values[i % V];
      for (int i = 0; i < V * V && !large; i++)
        a[i] = values[i / V % 10], b[i] = values[i % V] == 0 ? 5 : values[i % V] % 100000;
      bring(&f, V * V);
      void *all[] = {a, b, q, m};
      for (int k = 0; k < 4; k++) bring_tensor(&f, k, all[k], V * V, 1);
      OK(launch(code, &f, 1));
      for (int i = 0; i < V * V; i++) {
        CHECK(q[i] == floor_of(a[i], b[i]));
        CHECK(m[i] == (b[i] ? (int64_t)((uint64_t)a[i] - (uint64_t)b[i] * (uint64_t)q[i]) : 0));
      }
      CHECK(f.mail.full == (uint32_t)large && (!large || (f.mail.site == 70 && f.mail.base == 3)));
    }
    tide__blocks_free(code);
  }
  tide__isa_set(NULL);
}

/* Short rows share blocks. */
static void test_flat(void) {
  static const char text[] = "float64\nndim 2\nslots 64\nsites 4\nmail 2 3\ntensor 11 2 int32\n"
                             "code rows 2 1 0 0 1\naccess 0 1 w 1 s1 0 0 s0 0 1\nlaunch\nend\nrow\nfirst s1 "
                             "0\nend\nblock_part\nfirst s0 1\nline "
                             "w0 s0 0 1\nstore a0 w0 k0\nend\n"
                             "code flat 1 3 0 0 1\naccess 0 1 w 1 w0 0 0 w1 0 0\nlaunch\ninteger s0 "
                             "100\nend\nrow\nend\nblock_part\nplace w0 0\n"
                             "place w1 1\nmul_i w2 w0 s0\nadd_i w2 w2 w1\nstore a0 w2 k0\nend\n";
  void *code = NULL;
  OK(tide__blocks_new(&code, text, strlen(text)));
  for (int columns = 1; columns <= 301; columns += 60) {
    int32_t *y = calloc(50 * 301, sizeof *y);
    fixture f;
    bring(&f, 50);
    f.slots[1] = columns;
    f.slots[11] = (int64_t)(intptr_t)y, f.slots[12] = 50, f.slots[13] = columns, f.slots[14] = columns, f.slots[15] = 1;
    OK(launch(code, &f, 50));
    for (int i = 0; i < 50 * columns; i++)
      CHECK(y[i] == (columns < 128 ? (i / columns + 1) * 100 : 0) + i % columns + 1);
    free(y);
  }
  tide__blocks_free(code);
}

/* A block of threads turns its part round by way of its own array; the sum is that of all threads in the grid. */
static const char reversal[] =
    "threads 100\ntensor 11 1 float32\ntensor 14 1 float32\nshared float32 1 100\ncode threads 4 0 3 1 2\n"
    "access 0 1 r 1 s0 1 1\naccess 2 1 r 1 - 1 1\naccess 2 1 r 1 - 100 -1\naccess 1 1 r 1 s0 1 1\nlaunch\ninteger s1 "
    "1\n"
    "integer s2 50\ninteger s3 0\nend\nrow\nfirst s0 0\nend\nblock_part\nload r0 a0 k0\nstore a1 r0 k0\n";

static void test_threads(void) {
  char text[2048];
  float x[N], y[N];
  fixture f;
  snprintf(text, sizeof text, "%s%s", reversal,
           "barrier k0 2 0\nload r1 a2 k0\nsum r2 r0 k0 3 0 0\nadd_r r1 r1 r2\nstore a3 r1 k0\nend\n");
  void *code = read_code("", text);
  for (int i = 0; i < N; i++) x[i] = (float)(i % 100), y[i] = -1;
  bring(&f, N), bring_tensor(&f, 0, x, N, 1), bring_tensor(&f, 1, y, N, 1);
  OK(launch(code, &f, 7));
  for (int i = 0; i < N; i++) CHECK(y[i] == (float)(99 - i % 100) + 4950);
  tide__blocks_free(code);

  /* Half of the threads come to a barrier. */
  snprintf(text, sizeof text, "%s%s", reversal,
           "compare m0 s3 1 1 s2 1\nmask_and k1 k0 m0 L10\nbarrier k1 2 0\nstore a3 r0 k0\nend\n");
  code = read_code("", text);
  bring(&f, N), bring_tensor(&f, 0, x, N, 1), bring_tensor(&f, 1, y, N, 1);
  OK(launch(code, &f, 7));
  CHECK(f.mail.full == 1 && f.mail.site == 71 && f.mail.base == TIDE__MAIL_APART);
  tide__blocks_free(code);
}

/* Threads add to the same elements. */
static void test_atomics(void) {
  static const char text[] = "tensor 11 1 int32\ntensor 14 1 float32\ncode rows 4 2 2 0 1\naccess 0 1 w 1 w0 1 "
                             "0\naccess 1 1 r 1 w0 1 0\nlaunch\n"
                             "integer s1 3\ninteger s2 1\nreal s3 1 -1\nend\nrow\nend\nblock_part\nfirst s0 0\nline w0 "
                             "s0 0 1\nimod w0 w0 s1 1 "
                             "k0\natomic w1 a0 0 s2 s2 k0\natomic r0 a1 0 s3 s3 k0\nend\n";
  enum { PLACES = 30000 };
  int32_t whole[3] = {0};
  float real[3] = {0};
  fixture f;
  void *code = read_code("", text);
  bring(&f, PLACES), bring_tensor(&f, 0, whole, 3, 1), bring_tensor(&f, 1, real, 3, 1);
  OK(launch(code, &f, (PLACES + 4095) / 4096));
  for (int k = 0; k < 3; k++) CHECK(whole[k] == PLACES / 3 && real[k] == PLACES / 6);
  tide__blocks_free(code);
}

static _Atomic int asked;
static int ask(void *user) { return (void)user, ++asked > 3; }

/* A loop without an end heeds the host. */
static void test_interrupt(void) {
  void *code = read_code("", "code rows 0 0 0 0 1\nlaunch\nend\nrow\nend\nblock_part\njump L2\nend\n");
  fixture f;
  bring(&f, 1);
  tide_interrupt_set(ask, NULL);
  tide_launch a = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .interpreted = true, .packed = f.slots};
  CHECK(tide__cpu_compiler.loader->launch(NULL, code, &a) == TIDE_INTERRUPTED && asked > 3);
  tide_interrupt_set(NULL, NULL);
  tide__blocks_free(code);
}

/* Whatever is missing or changed in a text: it is refused, or what it says is whole. */
static void test_refused(void) {
  char good[4096], text[4096];
  snprintf(good, sizeof good, "%s%s%s", head, reversal, "barrier k0 2 0\nload r1 a2 k0\nend\n");
  const size_t n = strlen(good);
  void *code;
  for (size_t k = 0; k < n; k++) {
    if (tide__blocks_new(&code, good, k) == TIDE_OK) tide__blocks_free(code);
    for (const char *c = "9x -\n"; *c; c++) {
      memcpy(text, good, n);
      text[k] = *c;
      if (tide__blocks_new(&code, text, n) == TIDE_OK) tide__blocks_free(code);
    }
  }
  static const char *const bad[] = {
      "code rows 1 1 1 1 1\nlaunch\nend\nrow\nend\nblock_part\nadd_i w0 w0 w1\nend\n",  /* no such register */
      "code rows 1 1 1 1 1\nlaunch\nend\nrow\nend\nblock_part\nadd_i w0 w0 r0\nend\n",  /* of another kind */
      "code rows 1 1 1 1 1\nlaunch\nend\nrow\nend\nblock_part\njump L9\nend\n",         /* nowhere */
      "code rows 1 1 1 1 1\nlaunch\nend\nrow\nend\nblock_part\nfill_w w0 s0\n",         /* no end */
      "code rows 1 1 1 1 1\nlaunch\nend\nrow\nend\nblock_part\nmask_copy k1 k0\nend\n", /* no such mask */
      "tensor 60 3 int32\ncode rows 0 0 0 0 1\nlaunch\nend\n",                          /* no slots */
      "tensor 11 1 complex64\ncode rows 0 0 0 0 1\nlaunch\nend\n",
      "tensor 62 1 int32\ncode rows 0 0 0 0 1\nlaunch\nend\n", /* its last slot is one too many */
      "tensor 60 2 int32\ncode rows 0 0 0 0 1\nlaunch\nend\n",
      "tensor 64 0 int32\ncode rows 0 0 0 0 1\nlaunch\nend\n",
      "table int64 1 2 5 6\ncode rows 1 0 0 0 1\naccess 0 1 w 0 - 1 0\nlaunch\nend\nrow\nend\nblock_part\nstore a0 s0 "
      "k0\n"
      "end\n",
  };
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    snprintf(text, sizeof text, "%s%s", head, bad[k]);
    CHECK(tide__blocks_new(&code, text, strlen(text)) == TIDE_VALUE);
  }
  static const char *const last[] = {"tensor 61 1", "tensor 59 2", "tensor 63 0"}; /* their last slot is the last */
  for (size_t k = 0; k < sizeof last / sizeof *last; k++) {
    snprintf(text, sizeof text, "%s%s int32\ncode rows 0 0 0 0 1\nlaunch\nend\n", head, last[k]);
    OK(tide__blocks_new(&code, text, strlen(text)));
    tide__blocks_free(code);
  }
}

int main(void) {
  OK(tide_init(NULL));
  test_lines();
  test_outside();
  test_masks();
  test_count();
  test_gather();
  test_integers();
  test_flat();
  test_threads();
  test_atomics();
  test_interrupt();
  test_refused();
  tide_shutdown();
  printf("blocks_test: %d failures\n", failures);
  return failures != 0;
}
