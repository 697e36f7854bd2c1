/* lapack.c: what LAPACK computes, one text for its four dtypes; it is opened at the first call (library.def).
 *
 * LAPACK stores matrices by columns, as plan.h does; what it spends in products of matrices, ours do
 * (lapack_blocks.c), small real ones ask no library (lapack_small.c). Matrices of a batch are spread over the threads,
 * each of which asks once how much room a routine wants.
 *
 * Invariant: nothing is computed where a function of the library is missing. */
#include <math.h>
#include <stdlib.h>

#include "base/quota.h"
#include "lapack.h"
#include "backend/cpu/loops/layout.h"
#include "backend/cpu/scratch.h"
#include "os/os.h"

tide__lapack tide__cpu_lapack;
#define lapack tide__cpu_lapack
static pthread_once_t lapack_once = PTHREAD_ONCE_INIT;
static char lapack_problem[512];

/* OpenBLAS gets one thread: its own beside ours, which share a batch, wait for each other. */
static void lapack_open(void) {
  tide__openblas openblas;
  char missing[512];
  if (tide__library_open(&lapack, TIDE__LIBRARY_lapack, lapack_problem, sizeof lapack_problem) &&
      tide__library_open(&openblas, TIDE__LIBRARY_openblas, missing, sizeof missing))
    openblas.set_threads(1);
}

tide_status tide__cpu_has_lapack(const char *kernel) {
  pthread_once(&lapack_once, lapack_open);
  return lapack_problem[0] ? tide__fail(TIDE_LIBRARY, "%s: %s", kernel, lapack_problem) : TIDE_OK;
}

/* What one call works in. With elements == -1 a routine only answers how much it wants, each in the first element. */
typedef struct room {
  void *work, *real;
  int *ints;
  void *vectors; /* of EIG: the real and imaginary parts of eigenvalues, then eigenvectors as LAPACK packs them */
  int elements, reals, integers;
} room;

/* A matrix's addresses, and how many bytes it has at each. */
typedef struct place {
  char *x, *at[4];
  const char *other;
  int *pivots;
  int64_t bytes[4];
} place;

static place place_of(const tide_linalg_args *a, int64_t i) {
  int64_t item = (int64_t)tide__item(a->dtype), real = a->dtype >= TIDE_COMPLEX64 ? item / 2 : item;
  int64_t least = a->m < a->n ? a->m : a->n, columns = a->flags & TIDE_LINALG_FULL ? a->m : a->n, bytes[4] = {0};
  switch (a->routine) {
  case TIDE_LINALG_LU: bytes[1] = least * 4; break;
  case TIDE_LINALG_SOLVE: break;
  case TIDE_LINALG_DET: bytes[1] = real; break;
  case TIDE_LINALG_QR: bytes[1] = least * item; break;
  case TIDE_LINALG_QR_Q: bytes[1] = a->k * item; break;
  case TIDE_LINALG_EIG: bytes[1] = a->n * 2 * real, bytes[2] = a->n * a->n * 2 * real; break;
  default: bytes[1] = a->n * real, bytes[2] = a->m * columns * item, bytes[3] = a->n * a->n * item;
  }
  place p = {.x = (char *)a->head.ptr[0] + i * a->step * item};
  for (int k = 1; k < 4; k++) p.at[k] = a->head.ptr[k] ? (char *)a->head.ptr[k] + i * bytes[k] : NULL;
  p.pivots = (int *)(void *)p.at[1];
  if (a->head.ptr[5]) p.other = (const char *)a->head.ptr[5] + i * a->other_step * item;
  memcpy(p.bytes, bytes, sizeof bytes);
  return p;
}

static void add_operand(tide__blocks *b, const char *first, int64_t bytes) {
  if (!first || bytes <= 0) return;
  b->operand[b->operands].first = first, b->operand[b->operands++].end = first + bytes;
}

/* Matrix i at p and those behind it: what a tail may be part of. */
static void list_operands(tide__blocks *b, const tide_linalg_args *a, const place *p, int64_t i) {
  int64_t item = (int64_t)tide__item(a->dtype), left = a->batch - 1 - i;
  int64_t columns = a->routine == TIDE_LINALG_SOLVE ? a->k : a->n, rows = a->routine == TIDE_LINALG_SOLVE ? a->n : a->m;
  int64_t side = a->routine == TIDE_LINALG_TRIANGULAR ? a->k : a->n;
  add_operand(b, p->x, (left * a->step + rows * columns) * item);
  for (int k = 1; k < 4; k++) add_operand(b, p->at[k], (left + 1) * p->bytes[k]);
  add_operand(b, p->other, (left * a->other_step + side * side) * item);
}

/* Those whose real and complex forms differ. */
#define VOID void *
#define TEXT const char *
#define INT  const int *
typedef void (*svd_real)(TEXT, INT, INT, VOID, INT, VOID, VOID, INT, VOID, INT, VOID, INT, int *, int *, size_t);
typedef void (*svd_complex)(TEXT, INT, INT, VOID, INT, VOID, VOID, INT, VOID, INT, VOID, INT, VOID, int *, int *,
                            size_t);
typedef void (*eigh_real)(TEXT, TEXT, INT, VOID, INT, VOID, VOID, INT, int *, INT, int *, size_t, size_t);
typedef void (*eigh_complex)(TEXT, TEXT, INT, VOID, INT, VOID, VOID, INT, VOID, INT, int *, INT, int *, size_t, size_t);
typedef void (*eig_real)(TEXT, TEXT, INT, VOID, INT, VOID, VOID, VOID, INT, VOID, INT, VOID, INT, int *, size_t,
                         size_t);
typedef void (*eig_complex)(TEXT, TEXT, INT, VOID, INT, VOID, VOID, INT, VOID, INT, VOID, INT, VOID, int *, size_t,
                            size_t);
#undef VOID
#undef TEXT
#undef INT

/* p's matrices and vectors as the library gets them, from x on; what it returns is written back at the end. */
static void lend_all(tide__lent l[4], tide__blocks *b, const place *p, int m, int n, int columns) {
  int item = (int)tide__item(TIDE_FLOAT32 + b->type), width = (int)(p->bytes[1] / n);
  l[0] = tide__lend(b, p->x, item, m, n, m);
  l[1] = tide__lend(b, p->at[1], width, n, 1, n);
  l[2] = tide__lend(b, p->at[2], item, m, columns, m);
  l[3] = tide__lend(b, p->at[3], item, n, n, n);
}
static void take_all(const tide__lent l[4]) {
  for (int k = 0; k < 4; k++) tide__lend_end(&l[k], true);
}

static int do_svd(tide__blocks *b, const tide_linalg_args *a, const place *p, const room *r) {
  const int m = (int)a->m, n = (int)a->n, type = b->type;
  const char *job = !p->at[2] ? "N" : a->flags & TIDE_LINALG_FULL ? "A" : "S";
  int info = 0;
  tide__lent l[4];
  lend_all(l, b, p, m, n, a->flags & TIDE_LINALG_FULL ? m : n);
  if (!b->is_broken && type < 2)
    ((svd_real)lapack.gesdd[type])(job, &m, &n, l[0].at, &m, l[1].at, l[2].at, &m, l[3].at, &n, r->work, &r->elements,
                                   r->ints, &info, 1);
  else if (!b->is_broken)
    ((svd_complex)lapack.gesdd[type])(job, &m, &n, l[0].at, &m, l[1].at, l[2].at, &m, l[3].at, &n, r->work,
                                      &r->elements, r->real, r->ints, &info, 1);
  take_all(l);
  return info;
}

static int do_eigh(tide__blocks *b, const tide_linalg_args *a, const place *p, const room *r) {
  const int n = (int)a->n, type = b->type;
  const char *job = a->flags & TIDE_LINALG_VECTORS ? "V" : "N", *triangle = a->flags & TIDE_LINALG_UPPER ? "U" : "L";
  int info = 0;
  tide__lent l[4];
  lend_all(l, b, p, n, n, n);
  if (!b->is_broken && type < 2)
    ((eigh_real)lapack.syevd[type])(job, triangle, &n, l[0].at, &n, l[1].at, r->work, &r->elements, r->ints,
                                    &r->integers, &info, 1, 1);
  else if (!b->is_broken)
    ((eigh_complex)lapack.syevd[type])(job, triangle, &n, l[0].at, &n, l[1].at, r->work, &r->elements, r->real,
                                       &r->reals, r->ints, &r->integers, &info, 1, 1);
  take_all(l);
  return info;
}

static double real_at(const void *x, int64_t i, int type) {
  return type & 1 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}
static void real_put(void *x, int64_t i, int type, double v) {
  if (type & 1)
    ((double *)x)[i] = v;
  else
    ((float *)x)[i] = (float)v;
}

/* Of a pair of conjugates, one column has the real part of the first vector, the next one its imaginary part. */
static void unpack_eig(const place *p, const char *values, const char *vectors, int64_t n, int type) {
  const char *imaginary = values + n * (type ? 8 : 4);
  for (int64_t j = 0; j < n; j++) {
    double w = real_at(imaginary, j, type);
    real_put(p->at[1], 2 * j, type, real_at(values, j, type)), real_put(p->at[1], 2 * j + 1, type, w);
    int64_t first = w < 0 ? j - 1 : j;
    for (int64_t i = 0; p->at[2] && i < n; i++) {
      double im = w == 0 ? 0 : real_at(vectors, (first + 1) * n + i, type);
      real_put(p->at[2], 2 * (j * n + i), type, real_at(vectors, first * n + i, type));
      real_put(p->at[2], 2 * (j * n + i) + 1, type, w < 0 ? -im : im);
    }
  }
}

static int do_eig(tide__blocks *b, const tide_linalg_args *a, const place *p, const room *r) {
  const int n = (int)a->n, type = b->type;
  const char *job = p->at[2] ? "V" : "N";
  char *values = r->vectors, *vectors = values + 2 * n * (type ? 8 : 4);
  int info = 0;
  tide__lent l[4];
  place shown = *p; /* real ones are unpacked into results */
  if (type < 2) shown.at[1] = shown.at[2] = NULL;
  lend_all(l, b, &shown, n, n, n);
  if (!b->is_broken && type >= 2)
    ((eig_complex)lapack.geev[type])("N", job, &n, l[0].at, &n, l[1].at, NULL, &n, l[2].at, &n, r->work, &r->elements,
                                     r->real, &info, 1, 1);
  else if (!b->is_broken)
    ((eig_real)lapack.geev[type])("N", job, &n, l[0].at, &n, values, values + n * (type ? 8 : 4), NULL, &n, vectors, &n,
                                  r->work, &r->elements, &info, 1, 1);
  take_all(l);
  if (type < 2 && !b->is_broken && r->elements >= 0 && !info) unpack_eig(p, values, vectors, n, type);
  return info;
}

/* The LU of a copy of A, or of its transpose as it lies, which has the same determinant. */
static int factor_copy(tide__blocks *b, const place *p, const room *r, int n) {
  memcpy(r->work, p->other, (size_t)n * (size_t)n * tide__item(TIDE_FLOAT32 + b->type));
  return tide__blocks_lu(b, n, n, r->work, n, r->ints);
}

static int do_solve(tide__blocks *b, const tide_linalg_args *a, const place *p, const room *r) {
  int n = (int)a->n, info = factor_copy(b, p, r, n);
  size_t item = tide__item(a->dtype);
  if (info) return info;
  if (a->flags & TIDE_LINALG_INVERSE) memset(p->x, 0, (size_t)n * (size_t)n * item);
  for (int64_t j = 0; j < n && a->flags & TIDE_LINALG_INVERSE; j++)
    real_put(p->x + j * (n + 1) * (int64_t)item, 0, b->type, 1);
  tide__blocks_lu_solve(b, a->flags & TIDE_LINALG_TRANSPOSED, n, (int)a->k, r->work, r->ints, p->x);
  return 0;
}

/* Of complex numbers, which also have the real ones of float64. */
static int do_det(tide__blocks *b, const tide_linalg_args *a, int64_t at, const place *p, const room *r) {
  int n = (int)a->n, parts = b->type >= 2 ? 2 : 1;
  bool logs = a->head.ptr[1] != NULL;
  double complex product = 1;
  double sum = 0;
  factor_copy(b, p, r, n);
  for (int64_t j = 0; j < n; j++) {
    int64_t i = j * (n + 1) * parts;
    double complex x = CMPLX(real_at(r->work, i, b->type), parts == 2 ? real_at(r->work, i + 1, b->type) : 0);
    double size = cabs(x);
    if (logs) sum += log(size);
    product *= (logs && size != 0 ? x / size : x) * (r->ints[j] == j + 1 ? 1 : -1);
  }
  for (int i = 0; i < parts; i++)
    real_put(a->head.ptr[0], at * parts + i, b->type, i ? cimag(product) : creal(product));
  if (logs) real_put(a->head.ptr[1], at, b->type, sum);
  return 0;
}

static int do_one(const tide_linalg_args *a, int64_t i, const room *r, bool *is_broken) {
  const int m = (int)a->m, n = (int)a->n, k = (int)a->k, type = a->dtype - TIDE_FLOAT32, flags = a->flags;
  tide__blocks b = {.type = type};
  tide__triangle how = {flags & TIDE_LINALG_LEFT, flags & TIDE_LINALG_UPPER, flags & TIDE_LINALG_TRANSPOSED,
                        flags & TIDE_LINALG_UNIT};
  int info = tide__small_linalg(a, i);
  if (info >= 0) return info;
  place p = place_of(a, i);
  if (r->elements >= 0 && a->routine != TIDE_LINALG_DET) list_operands(&b, a, &p, i);
  info = 0;
  switch (a->routine) {
  case TIDE_LINALG_CHOLESKY: info = tide__blocks_cholesky(&b, n, p.x, n); break;
  case TIDE_LINALG_LU: info = tide__blocks_lu(&b, m, n, p.x, m, p.pivots); break;
  case TIDE_LINALG_SOLVE: info = do_solve(&b, a, &p, r); break;
  case TIDE_LINALG_DET: info = do_det(&b, a, i, &p, r); break;
  case TIDE_LINALG_QR: info = tide__blocks_qr(&b, m, n, p.x, p.at[1], r->work, r->elements); break;
  case TIDE_LINALG_QR_Q: info = tide__blocks_qr_q(&b, m, n, k, p.x, p.at[1], r->work, r->elements); break;
  case TIDE_LINALG_SVD: info = do_svd(&b, a, &p, r); break;
  case TIDE_LINALG_EIGH: info = do_eigh(&b, a, &p, r); break;
  case TIDE_LINALG_EIG: info = do_eig(&b, a, &p, r); break;
  default: tide__blocks_triangle(&b, how, m, n, p.other, k, p.x, m);
  }
  if (b.is_broken) *is_broken = true;
  return info < 0 ? -info : info;
}

/* The number of elements that a routine has answered with, rounded up where a float32 could not hold it. */
static int64_t answer(const double *x, int type) {
  double n = real_at(x, 0, type);
  return (int64_t)(n + n * 1e-6) + 1;
}

/* Room for the routine: one piece of memory, at r->work; false: there is none, or more than LAPACK's 32 bits count. */
static bool room_new(room *r, const tide_linalg_args *a) {
  int type = a->dtype - TIDE_FLOAT32;
  int64_t item = (int64_t)tide__item(a->dtype), real = type & 1 ? 8 : 4, n = a->n, vectors = 0;
  double work[2] = {0}, reals[2] = {0};
  bool is_broken = false;
  int integers = 1;
  *r = (room){.work = work, .real = reals, .ints = &integers, .vectors = work, .elements = -1, .reals = -1};
  r->integers = -1;
  bool copies = a->routine == TIDE_LINALG_SOLVE || a->routine == TIDE_LINALG_DET;
  bool wants = a->routine >= TIDE_LINALG_QR && a->routine <= TIDE_LINALG_EIG;
  if (!wants && !copies) return *r = (room){0}, true;
  if (wants) do_one(a, 0, r, &is_broken);
  int64_t elements = answer(work, type), most = 0, ints = copies ? n : integers;
  if (a->routine == TIDE_LINALG_EIGH && type >= 2) most = answer(reals, type);
  if (a->routine == TIDE_LINALG_SVD) {
    ints = 8 * n;
    if (type >= 2) most = n * (5 * n + 7 > 2 * a->m + 2 * n + 1 ? 5 * n + 7 : 2 * a->m + 2 * n + 1);
  }
  if (a->routine == TIDE_LINALG_EIG && type >= 2) most = 2 * n;
  if (a->routine == TIDE_LINALG_EIG && type < 2) vectors = (n + 2) * n;
  if (elements < 1 || elements > INT32_MAX || most > INT32_MAX || ints > INT32_MAX) return false;
  r->elements = (int)elements, r->reals = (int)most, r->integers = (int)ints;
  int64_t first = (copies ? n * n : r->elements) * item + 16, second = r->reals * real + 16,
          third = vectors * real + 16;
  size_t tail = tide__tail((int)(a->m > n ? a->m : n), 16);
  char *memory = tide__room_take((size_t)(first + second + third) + (size_t)r->integers * sizeof(int) + tail);
  r->work = memory;
  if (!memory) return false;
  first = first / 16 * 16, second = second / 16 * 16, third = third / 16 * 16;
  r->real = memory + first, r->vectors = memory + first + second;
  r->ints = (int *)(void *)(memory + first + second + third);
  return true;
}

/* {==== Time
 *
 * LAPACK's own algorithms run to their end. So what cannot be done in the time that the quota has left is not begun:
 * the fewest operations that it takes, at the best rate that was seen. Before a large one was seen a small matrix
 * tells, of which a large one is some times faster. What our blocks do stops between them, so there only what no
 * processor could do is refused. */

enum { GROUPS = 5, SMALL = 32, TRIES = 5, FASTER = 3 };
static const double SEEN_FLOPS = 1e7, no_processor = 200; /* operations a nanosecond of a thread */
static _Atomic int64_t seen[GROUPS][4], tried[GROUPS][4]; /* the best rates, operations a second; 0: none yet */

/* 0: ours. */
static int group_of(const tide_linalg_args *a) {
  switch (a->routine) {
  case TIDE_LINALG_SVD: return 1;
  case TIDE_LINALG_EIGH: return 2;
  case TIDE_LINALG_EIG: return 3;
  case TIDE_LINALG_CHOLESKY: return a->dtype >= TIDE_COMPLEX64 ? 4 : 0;
  default: return 0;
  }
}

/* The fewest operations that a matrix takes. */
static double flops_of(const tide_linalg_args *a) {
  double m = (double)a->m, n = (double)a->n, k = (double)a->k, least = m < n ? m : n, most = m + n - least;
  double panels = least * least * (most - least / 3), times = a->dtype >= TIDE_COMPLEX64 ? 4 : 1;
  bool vectors = a->flags & TIDE_LINALG_VECTORS || a->head.ptr[2];
  switch (a->routine) {
  case TIDE_LINALG_CHOLESKY: return times * n * n * n / 3;
  case TIDE_LINALG_LU:
  case TIDE_LINALG_DET: return times * panels;
  case TIDE_LINALG_SOLVE: return times * (panels + 2 * n * n * k);
  case TIDE_LINALG_QR: return times * 2 * panels;
  case TIDE_LINALG_QR_Q: return times * 2 * k * k * (m - k / 3);
  case TIDE_LINALG_SVD: return times * panels * (vectors ? 8 : 4);
  case TIDE_LINALG_EIGH: return times * n * n * n * (vectors ? 4 : 1.3);
  case TIDE_LINALG_EIG: return times * n * n * n * (vectors ? 20 : 8);
  default: return times * m * n * (a->flags & TIDE_LINALG_LEFT ? m : n);
  }
}

static void saw(_Atomic int64_t *best, double flops, int64_t ns) {
  int64_t rate = (int64_t)(flops * 1e9 / (double)(ns > 0 ? ns : 1)), known = atomic_load(best);
  while (rate > known && !atomic_compare_exchange_weak(best, &known, rate)) continue;
}

/* A matrix without a pattern, of the same routine; nothing is learnt without memory. */
static void try_small(const tide_linalg_args *a, _Atomic int64_t *best) {
  enum { BYTES = SMALL * SMALL * 32 };
  tide_linalg_args small = *a;
  bool is_broken = false;
  room r;
  char *memory = calloc(5, BYTES);
  if (!memory) return;
  small.m = small.n = small.k = SMALL, small.batch = 1;
  for (int k = 0; k < 5; k++) small.head.ptr[k] = a->head.ptr[k] || k < 2 ? memory + k * BYTES : NULL;
  int type = a->dtype - TIDE_FLOAT32, parts = type >= 2 ? 2 : 1;
  for (int i = 0; i < SMALL; i++)
    for (int j = 0; j < SMALL; j++)
      real_put(memory, (i * SMALL + j) * parts, type, i == j ? SMALL : (double)((i * j + i + j) * 37 % 101) / 101);
  if (room_new(&r, &small)) {
    for (int i = 0; i < TRIES; i++) { /* the first one opens the library, and a busy machine interrupts */
      int64_t begun = tide__os_ns();
      do_one(&small, 0, &r, &is_broken);
      saw(best, flops_of(&small), tide__os_ns() - begun);
    }
    if (r.elements) tide__room_put(r.work);
  }
  free(memory);
}

static tide_status check_time(const tide_linalg_args *a, const char *name, double flops) {
  int group = group_of(a), type = a->dtype - TIDE_FLOAT32;
  double threads = a->batch > 1 || group == 0 ? tide_get_num_threads() : 1, all = flops * (double)a->batch / threads;
  TIDE_TRY(tide__quota_fits(name, all / no_processor / 1e3));
  if (group == 0 || flops < SEEN_FLOPS / 10 || !tide__quota_bound()) return TIDE_OK;
  double rate = (double)atomic_load(&seen[group][type]);
  if (rate == 0) {
    if (!atomic_load(&tried[group][type])) try_small(a, &tried[group][type]);
    rate = (double)atomic_load(&tried[group][type]) * FASTER;
  }
  return rate > 0 ? tide__quota_fits(name, all / rate * 1e6) : TIDE_OK;
}

typedef struct job {
  const tide_linalg_args *a;
  double flops; /* of each matrix */
  _Atomic bool lacks_memory;
} job;

static void do_some(void *arg, int64_t begin, int64_t end) {
  job *j = arg;
  int32_t *info = j->a->head.ptr[4];
  bool is_broken = false;
  room r;
  if (!room_new(&r, j->a)) {
    atomic_store(&j->lacks_memory, true);
    return;
  }
  for (int64_t i = begin; i < end && !tide__loop_stops(); i++) {
    int64_t begun = j->flops < SEEN_FLOPS ? 0 : tide__os_ns();
    int got = do_one(j->a, i, &r, &is_broken);
    if (begun) saw(&seen[group_of(j->a)][j->a->dtype - TIDE_FLOAT32], j->flops, tide__os_ns() - begun);
    if (info) info[i] = got;
  }
  if (is_broken) atomic_store(&j->lacks_memory, true);
  if (r.elements) tide__room_put(r.work);
}

tide_status tide__cpu_linalg(tide_stream *stream, const tide_linalg_args *a) {
  const char *name = tide__linalg_names[a->routine];
  TIDE_TRY(tide__cpu_has_lapack(name));
  job j = {.a = a, .flops = flops_of(a)};
  TIDE_TRY(check_time(a, name, j.flops));
  tide__spread(a->batch, a->m * a->n * (a->k ? a->k : a->n) / 8 + 1, do_some, &j);
  return j.lacks_memory ? tide__fail(TIDE_MEMORY, "%s: no host memory to work in", name) : TIDE_OK;
}
