/* linalg_tail_test.c: every matrix and vector that a library gets has a readable tail, whatever its memory ends at.
 *
 * The host's allocator puts each piece of CPU memory at the end of a mapping, before pages without access. Checkers
 * stand in for the library's functions: each reads the tails of its operands, then calls the function. A missing tail
 * is a crash here, or a report of the address sanitizer, with every library and on every processor. */
#include "tensor_test.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "backend/cpu/product/lapack.h"
#include "tide/linalg.h"

/* ---- memory before pages without access ---- */

enum { PAGE = 4096, GUARD = 1 << 20 };

static size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static void *guarded_alloc(void *user, size_t bytes, size_t align) {
  char *p = mmap(NULL, pages(bytes) + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  (void)user;
  if (p == MAP_FAILED || mprotect(p + pages(bytes), GUARD, PROT_NONE)) return NULL;
  return p + (pages(bytes) - bytes) / align * align;
}

static void guarded_free(void *user, void *ptr, size_t bytes) {
  (void)user;
  munmap((void *)((uintptr_t)ptr / PAGE * PAGE), pages(bytes) + GUARD);
}

/* ---- checkers ---- */

static _Thread_local const char *routine;
static _Atomic int calls[9], lacking; /* matrices of a batch go to several threads */
static _Thread_local sigjmp_buf lacks;

static _Thread_local bool looks;

static void on_fault(int number) {
  if (looks) siglongjmp(lacks, 1);
  signal(number, SIG_DFL); /* the library itself has read there: the test ends */
}

/* Four columns, each of ld numbers of so many bytes, behind the end of a matrix. */
static void tail(const void *x, int item, int rows, int columns, int ld) {
  if (!x || rows <= 0 || columns <= 0) return;
  const volatile char *end = (const char *)x + ((size_t)(columns - 1) * (size_t)ld + (size_t)rows) * (size_t)item;
  static _Atomic int told;
  if (sigsetjmp(lacks, 1)) {
    looks = false, lacking++;
    if (told++ < 10) fprintf(stderr, "%s: no tail behind %d x %d numbers of %d bytes\n", routine, rows, columns, item);
    return;
  }
  looks = true;
  for (size_t i = 0; i < 4 * (size_t)ld * (size_t)item; i += 16) (void)end[i];
  looks = false;
}

static tide__lapack real; /* the library's own */
static const int items[] = {4, 8, 8, 16};
static int least(int m, int n) { return m < n ? m : n; }
static void begin(int which, const char *name) { routine = name, calls[which]++; }
#define TYPES(F) F(0) F(1) F(2) F(3)

#define POTRF(t)                                                                                                       \
  static void potrf_##t(const char *uplo, const int *n, void *a, const int *ld, int *info, size_t l) {                 \
    begin(0, "potrf"), tail(a, items[t], *n, *n, *ld);                                                                 \
    real.potrf[t](uplo, n, a, ld, info, l);                                                                            \
  }
#define GETRF(t)                                                                                                       \
  static void getrf_##t(const int *m, const int *n, void *a, const int *ld, int *p, int *info) {                       \
    begin(1, "getrf"), tail(a, items[t], *m, *n, *ld), tail(p, 4, least(*m, *n), 1, least(*m, *n));                    \
    real.getrf[t](m, n, a, ld, p, info);                                                                               \
  }
#define GEQRF(t)                                                                                                       \
  static void geqrf_##t(const int *m, const int *n, void *a, const int *ld, void *tau, void *work, const int *count,   \
                        int *info) {                                                                                   \
    begin(2, "geqrf");                                                                                                 \
    if (*count >= 0) {                                                                                                 \
      tail(a, items[t], *m, *n, *ld), tail(tau, items[t], least(*m, *n), 1, least(*m, *n));                            \
      tail(work, items[t], *count, 1, least(*m, *n));                                                                  \
    }                                                                                                                  \
    real.geqrf[t](m, n, a, ld, tau, work, count, info);                                                                \
  }
#define LARFT(t)                                                                                                       \
  static void larft_##t(const char *d, const char *s, const int *n, const int *k, const void *v, const int *ld,        \
                        const void *tau, void *out, const int *ld_out, size_t l, size_t l2) {                          \
    begin(3, "larft"), tail(v, items[t], *n, *k, *ld), tail(tau, items[t], *k, 1, *k);                                 \
    tail(out, items[t], *k, *k, *ld_out);                                                                              \
    real.larft[t](d, s, n, k, v, ld, tau, out, ld_out, l, l2);                                                         \
  }
#define ORGQR(t)                                                                                                       \
  static void orgqr_##t(const int *m, const int *n, const int *k, void *a, const int *ld, const void *tau, void *work, \
                        const int *count, int *info) {                                                                 \
    begin(4, "orgqr");                                                                                                 \
    if (*count >= 0) tail(a, items[t], *m, *n, *ld), tail(tau, items[t], *k, 1, *k);                                   \
    real.orgqr[t](m, n, k, a, ld, tau, work, count, info);                                                             \
  }
#define TRSM(t)                                                                                                        \
  static void trsm_##t(const char *side, const char *uplo, const char *op, const char *diag, const int *m,             \
                       const int *n, const void *alpha, const void *a, const int *ld, void *b, const int *ld_b,        \
                       size_t l, size_t l2, size_t l3, size_t l4) {                                                    \
    int size = *side == 'L' ? *m : *n;                                                                                 \
    begin(5, "trsm"), tail(a, items[t], size, size, *ld), tail(b, items[t], *m, *n, *ld_b);                            \
    real.trsm[t](side, uplo, op, diag, m, n, alpha, a, ld, b, ld_b, l, l2, l3, l4);                                    \
  }
TYPES(POTRF)
TYPES(GETRF)
TYPES(GEQRF)
TYPES(LARFT)
TYPES(ORGQR)
TYPES(TRSM)

/* Complex ones have more arguments: room for real numbers. */
#define GESDD(t, MORE, more)                                                                                           \
  static void gesdd_##t(const char *job, const int *m, const int *n, void *a, const int *ld, void *s, void *u,         \
                        const int *ld_u, void *v, const int *ld_v, void *work, const int *count MORE, int *ints,       \
                        int *info, size_t l) {                                                                         \
    begin(6, "gesdd");                                                                                                 \
    if (*count >= 0) {                                                                                                 \
      tail(a, items[t], *m, *n, *ld), tail(s, t & 1 ? 8 : 4, *n, 1, *n), tail(v, items[t], *n, *n, *ld_v);             \
      tail(u, items[t], *m, *job == 'A' ? *m : *n, *ld_u), tail(work, items[t], *count, 1, *m);                        \
    }                                                                                                                  \
    ((void (*)(const char *, const int *, const int *, void *, const int *, void *, void *, const int *, void *,       \
               const int *, void *, const int *MORE, int *, int *, size_t))real.gesdd[t])(                             \
        job, m, n, a, ld, s, u, ld_u, v, ld_v, work, count more, ints, info, l);                                       \
  }
#define SYEVD(t, MORE, more)                                                                                           \
  static void syevd_##t(const char *job, const char *uplo, const int *n, void *a, const int *ld, void *w, void *work,  \
                        const int *count MORE, int *ints, const int *count_ints, int *info, size_t l, size_t l2) {     \
    begin(7, "syevd");                                                                                                 \
    if (*count >= 0) tail(a, items[t], *n, *n, *ld), tail(w, t & 1 ? 8 : 4, *n, 1, *n);                                \
    ((void (*)(const char *, const char *, const int *, void *, const int *, void *, void *, const int *MORE, int *,   \
               const int *, int *, size_t, size_t))real.syevd[t])(job, uplo, n, a, ld, w, work, count more, ints,      \
                                                                  count_ints, info, l, l2);                            \
  }
#define NOTHING
#define NO_COUNT   , void *reals
#define AND_COUNT  , void *reals, const int *count_reals
#define REALS      , reals
#define BOTH_REALS , reals, count_reals
GESDD(0, NOTHING, NOTHING)
GESDD(1, NOTHING, NOTHING)
GESDD(2, NO_COUNT, REALS)
GESDD(3, NO_COUNT, REALS)
SYEVD(0, NOTHING, NOTHING)
SYEVD(1, NOTHING, NOTHING)
SYEVD(2, AND_COUNT, BOTH_REALS)
SYEVD(3, AND_COUNT, BOTH_REALS)

/* Of geev the arguments behind the matrix are in another order, but as many: `count` is argument 13 or 12. */
typedef void (*geev_fn)(const char *, const char *, const int *, void *, const int *, void *, void *, void *, void *,
                        void *, void *, void *, void *, void *, size_t, size_t);
#define GEEV(t)                                                                                                        \
  static void geev_##t(const char *left, const char *right, const int *n, void *a, const int *ld, void *x6, void *x7,  \
                       void *x8, void *x9, void *x10, void *x11, void *x12, void *x13, void *x14, size_t l,            \
                       size_t l2) {                                                                                    \
    const int *count = t < 2 ? x13 : x12;                                                                              \
    begin(8, "geev");                                                                                                  \
    if (*count >= 0) {                                                                                                 \
      tail(a, items[t], *n, *n, *ld), tail(x6, items[t], *n, 1, *n);                                                   \
      if (*right == 'V') tail(t < 2 ? x10 : x9, items[t], *n, *n, *n);                                                 \
    }                                                                                                                  \
    ((geev_fn)real.geev[t])(left, right, n, a, ld, x6, x7, x8, x9, x10, x11, x12, x13, x14, l, l2);                    \
  }
TYPES(GEEV)

static void stand_in(void) {
  real = tide__cpu_lapack;
#define SET(t)                                                                                                         \
  tide__cpu_lapack.potrf[t] = potrf_##t, tide__cpu_lapack.getrf[t] = getrf_##t, tide__cpu_lapack.geqrf[t] = geqrf_##t; \
  tide__cpu_lapack.larft[t] = larft_##t, tide__cpu_lapack.orgqr[t] = orgqr_##t, tide__cpu_lapack.trsm[t] = trsm_##t;   \
  tide__cpu_lapack.gesdd[t] = (void (*)(void))gesdd_##t, tide__cpu_lapack.syevd[t] = (void (*)(void))syevd_##t;        \
  tide__cpu_lapack.geev[t] = (void (*)(void))geev_##t;
  TYPES(SET)
}

/* ---- every routine, dtype and some sizes ---- */

/* Diagonally heavy, so that every routine has a result; at the end of its own mapping. */
static tide_tensor *matrix(int64_t batch, int64_t m, int64_t n, tide_dtype dtype) {
  const int64_t size[] = {batch, m, n};
  tide_tensor *wide, *x;
  double *values = malloc((size_t)(batch * m * n) * sizeof *values);
  for (int64_t i = 0; i < batch * m * n; i++) {
    int64_t row = i / n % m, column = i % n;
    values[i] = row == column ? 3.0 * (double)n + (double)row : 1.0 / (double)(1 + row + column);
  }
  OK(tide_from_data(&wide, values, size, 3, &(tide_options){TIDE_FLOAT64, TIDE_CPU, false}));
  OK(tide_to(&x, wide, &(tide_options){dtype, TIDE_CPU, false}, false, false));
  tide_tensor_release(wide);
  free(values);
  return x;
}

static void drop(tide_tensor **out) {
  for (int i = 0; i < 3; i++) tide_tensor_release(out[i]);
  memset(out, 0, 3 * sizeof *out);
}

static void square(const tide_tensor *x, const tide_tensor *sides) {
  tide_tensor *out[3] = {NULL};
  OK(tide_linalg_cholesky(&out[0], x, false, NULL));
  drop(out);
  OK(tide_linalg_lu_factor(&out[0], &out[1], x));
  drop(out);
  OK(tide_linalg_solve(&out[0], x, sides));
  drop(out);
  OK(tide_linalg_solve(&out[0], x, NULL));
  drop(out);
  OK(tide_linalg_det(&out[0], NULL, x));
  drop(out);
  OK(tide_linalg_eigh(&out[0], &out[1], x, false));
  drop(out);
  OK(tide_linalg_eig(&out[0], &out[1], x));
  drop(out);
  OK(tide_linalg_triangular_solve(&out[0], x, sides, true, true, false));
  drop(out);
}

static void any(const tide_tensor *x) {
  tide_tensor *out[3] = {NULL};
  for (int full = 0; full < 2; full++) {
    OK(tide_linalg_qr(&out[0], &out[1], x, full));
    drop(out);
    OK(tide_linalg_svd(&out[0], &out[1], &out[2], x, full));
    drop(out);
  }
}

static void test_tails(void) {
  /* Pieces of up to 64 KiB are powers of two: these fill theirs. */
  static const int sizes[] = {1, 2, 4, 8, 16, 32, 33, 64, 70, 100, 128};
  static const tide_dtype dtypes[] = {TIDE_FLOAT32, TIDE_FLOAT64, TIDE_COMPLEX64, TIDE_COMPLEX128};
  for (int d = 0; d < 4; d++)
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++)
      for (int64_t batch = 1; batch <= (sizes[i] <= 16 ? 4 : 1); batch += 3) {
        tide_tensor *x = matrix(batch, sizes[i], sizes[i], dtypes[d]), *b = matrix(batch, sizes[i], 4, dtypes[d]);
        square(x, b), any(x), any(b);
        tide_tensor_release(x), tide_tensor_release(b);
      }
  CHECK(lacking == 0);
  for (int i = 0; i < 9; i++) CHECK(calls[i] > 0);
}

int main(void) {
  const tide_config config = {
      .struct_size = sizeof config, .alloc = guarded_alloc, .free = guarded_free, .num_threads = 2};
  OK(tide_init(&config));
  if (tide__cpu_has_lapack("linalg_tail_test") != TIDE_OK) {
    printf("linalg_tail_test: %s\n", tide_error_get()->message);
    return 77;
  }
  struct sigaction action = {.sa_handler = on_fault};
  sigaction(SIGSEGV, &action, NULL), sigaction(SIGBUS, &action, NULL);
  stand_in();
  test_tails();
  tide_shutdown();
  return finish("linalg_tail_test");
}
