/* lapack_blocks.c: LU, Cholesky and triangles of large matrices by halves, down to blocks that LAPACK does, so that
 * most of the arithmetic is our products': they use all threads, and are fast where the library's own are the
 * reference's.
 *
 * Source: F. Gustavson, "Recursion leads to automatic variable blocking for dense linear-algebra algorithms", IBM J.
 * Res. Dev. 41 (1997).
 *
 * Invariant: matrices are stored by columns, `ld` elements apart. */
#include <stdlib.h>

#include "backend/cpu/isa.h"
#include "lapack.h"

enum { BLOCK = 32 };

static char *at(const tide__blocks *b, const void *a, int ld, int row, int column) {
  return (char *)a + ((size_t)column * (size_t)ld + (size_t)row) * tide__lapack_item(b);
}
/* How much of n comes first. */
static int half(int n) { return (n / 2 + 15) / 16 * 16; }

typedef struct factor {
  const void *x;
  int ld;
  bool turned; /* it counts transposed */
} factor;

/* C, m by n, becomes alpha op(A) op(B) + beta C; A and B meet in k. By rows it is the transposed product. */
static void multiply(tide__blocks *b, void *c, int ld, factor left, factor right, int m, int n, int k, int alpha,
                     int beta) {
  tide_gemm_args a = {.dtype = TIDE_FLOAT32 + b->type, .m = n, .n = m, .k = k, .batch = 1, .c_row = ld};
  a.head = (tide_head){.ptr = {c, (void *)right.x, (void *)left.x}, .nptr = 3, .device = TIDE_CPU};
  a.a_row = right.turned ? 1 : right.ld, a.a_col = right.turned ? right.ld : 1;
  a.b_row = left.turned ? 1 : left.ld, a.b_col = left.turned ? left.ld : 1;
  a.alpha = (tide_value){alpha, alpha, 0}, a.beta = (tide_value){beta, beta, 0};
  if (m > 0 && n > 0 && tide__cpu_gemm(NULL, &a) != TIDE_OK) b->is_broken = true;
}
static void subtract(tide__blocks *b, void *c, int ld, factor left, factor right, int m, int n, int k) {
  multiply(b, c, ld, left, right, m, n, k, -1, 1);
}

/* ---- blocks of real numbers: a column after the other, by products of a matrix and a vector ---- */

static double number(const void *x, int64_t i, bool wide) {
  return wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

/* Of a column y: divided by a number; less another one; the place of the largest of n, where NaN counts least; and
 * what a lower triangle, whose diagonal counts as 1, makes of its first numbers. */
#define COLUMN(s, T)                                                                                                   \
  static void divide_##s(T *y, T by, int n) {                                                                          \
    for (int i = 0; i < n; i++) y[i] /= by;                                                                            \
  }                                                                                                                    \
  static void less_##s(T *y, const T *x, int64_t n) {                                                                  \
    for (int64_t i = 0; i < n; i++) y[i] -= x[i];                                                                      \
  }                                                                                                                    \
  static int largest_##s(const T *y, int n) {                                                                          \
    T most = y[0] < 0 ? -y[0] : y[0];                                                                                  \
    int found = 0;                                                                                                     \
    for (int i = 1; i < n; i++) {                                                                                      \
      T size = y[i] < 0 ? -y[i] : y[i];                                                                                \
      if (size > most) most = size, found = i;                                                                         \
    }                                                                                                                  \
    return found;                                                                                                      \
  }                                                                                                                    \
  static void solve_head_##s(const T *a, int ld, T *y, int n) {                                                        \
    for (int i = 0; i < n; i++, a += ld)                                                                               \
      for (int k = i + 1; k < n; k++) y[k] -= a[k] * y[i];                                                             \
  }
COLUMN(f32, float)
COLUMN(f64, double)

/* y -= the `columns` of x, which are `ld` apart, by the factors of so many. */
static void subtract_columns(void *y, const void *x, int ld, const void *factors, int columns, int rows, bool wide) {
  enum { PART = 512 };
  _Alignas(64) char sums[PART * 8];
  void (*add)(void *, const void *, int64_t, const void *, int64_t, int64_t) = tide__isa_get()->columns[wide];
  int item = wide ? 8 : 4;
  for (int64_t i = 0; i < rows && columns > 0; i += PART) {
    int64_t n = rows - i < PART ? rows - i : PART;
    char *to = (char *)y + i * item;
    memset(sums, 0, (size_t)(n * item + 63) / 64 * 64);
    add(sums, (const char *)x + i * item, ld, factors, columns, n);
    if (wide)
      less_f64((double *)(void *)to, (const double *)(const void *)sums, n);
    else
      less_f32((float *)(void *)to, (const float *)(const void *)sums, n);
  }
}

static void divide(void *y, double by, int n, bool wide) {
  if (wide)
    divide_f64(y, by, n);
  else
    divide_f32(y, (float)by, n);
}

/* X op(T) becomes X, which has m rows and at most BLOCK columns. */
static void solve_right(const tide__blocks *b, tide__triangle how, int m, int n, const void *t, int ld, void *x,
                        int ld_x) {
  bool wide = b->type == 1, upper = how.upper != how.turned;
  double factors[BLOCK];
  for (int q = 0; q < n; q++) {
    int j = upper ? q : n - 1 - q, first = upper ? 0 : j + 1, columns = upper ? j : n - 1 - j;
    void *y = at(b, x, ld_x, 0, j);
    for (int k = 0; k < columns; k++)
      memcpy((char *)factors + (size_t)k * tide__lapack_item(b),
             how.turned ? at(b, t, ld, j, first + k) : at(b, t, ld, first + k, j), tide__lapack_item(b));
    subtract_columns(y, at(b, x, ld_x, 0, first), ld_x, factors, columns, m, wide);
    if (!how.unit) divide(y, number(at(b, t, ld, j, j), 0, wide), m, wide);
  }
}

/* op(T) X becomes X, which has at most BLOCK rows: some of its columns at a time, as rows. */
static void solve_left(const tide__blocks *b, tide__triangle how, int m, int n, const void *t, int ld, void *x,
                       int ld_x) {
  enum { PART = 64 };
  double turned[BLOCK * PART];
  size_t item = tide__lapack_item(b);
  how.turned = !how.turned;
  for (int j = 0; j < n; j += PART) {
    int columns = n - j < PART ? n - j : PART;
    for (int c = 0; c < columns; c++)
      for (int i = 0; i < m; i++) memcpy(at(b, turned, columns, c, i), at(b, x, ld_x, i, j + c), item);
    solve_right(b, how, columns, m, t, ld, turned, columns);
    for (int c = 0; c < columns; c++)
      for (int i = 0; i < m; i++) memcpy(at(b, x, ld_x, i, j + c), at(b, turned, columns, c, i), item);
  }
}

static void triangle_block(tide__blocks *b, tide__triangle how, int m, int n, const void *t, int ld, void *x,
                           int ld_x) {
  if (b->type >= 2 || (how.left ? n : m) < 8)
    tide__lapack_trsm(b, how, m, n, t, ld, x, ld_x);
  else if (how.left)
    solve_left(b, how, m, n, t, ld, x, ld_x);
  else
    solve_right(b, how, m, n, t, ld, x, ld_x);
}

void tide__blocks_triangle(tide__blocks *b, tide__triangle how, int m, int n, const void *t, int ld, void *x,
                           int ld_x) {
  int size = how.left ? m : n, first = half(size), rest = size - first;
  if (tide__loop_stops()) return;
  if (size <= BLOCK) {
    triangle_block(b, how, m, n, t, ld, x, ld_x);
    return;
  }
  const char *corner = at(b, t, ld, first, first), *off = at(b, t, ld, how.upper ? 0 : first, how.upper ? first : 0);
  char *second = at(b, x, ld_x, how.left ? first : 0, how.left ? 0 : first);
  factor between = {off, ld, how.turned};
  bool is_lower = how.upper == how.turned;
  if (is_lower == how.left) { /* the first part does not need the second one */
    tide__blocks_triangle(b, how, how.left ? first : m, how.left ? n : first, t, ld, x, ld_x);
    factor known = {x, ld_x, false};
    if (how.left)
      subtract(b, second, ld_x, between, known, rest, n, first);
    else
      subtract(b, second, ld_x, known, between, m, rest, first);
    tide__blocks_triangle(b, how, how.left ? rest : m, how.left ? n : rest, corner, ld, second, ld_x);
  } else {
    tide__blocks_triangle(b, how, how.left ? rest : m, how.left ? n : rest, corner, ld, second, ld_x);
    factor known = {second, ld_x, false};
    if (how.left)
      subtract(b, x, ld_x, between, known, first, n, rest);
    else
      subtract(b, x, ld_x, known, between, m, first, rest);
    tide__blocks_triangle(b, how, how.left ? first : m, how.left ? n : first, t, ld, x, ld_x);
  }
}

/* Row i of so many columns changes places with row pivots[i] - 1, one after the other, or the last one first. */
static void change_rows(const tide__blocks *b, void *a, int ld, int columns, const int *pivots, int n, bool back) {
#define CHANGE(T)                                                                                                      \
  for (int j = 0; j < columns; j++)                                                                                    \
    for (int k = 0, i = back ? n - 1 : 0; k < n; k++, i += back ? -1 : 1) {                                            \
      T *column = (T *)a + (size_t)j * (size_t)ld, held = column[i];                                                   \
      column[i] = column[pivots[i] - 1], column[pivots[i] - 1] = held;                                                 \
    }
  if (tide__lapack_item(b) == 4)
    CHANGE(float)
  else if (tide__lapack_item(b) == 8)
    CHANGE(double)
  else
    CHANGE(double complex)
#undef CHANGE
}

/* At most BLOCK columns; those behind a column are changed when their turn comes. */
static int lu_block(tide__blocks *b, int m, int n, void *a, int ld, int *pivots) {
  bool wide = b->type == 1;
  int info = 0;
  if (m == 0) return 0;
  if (b->type >= 2) return tide__lapack_getrf(b, m, n, a, ld, pivots);
  for (int j = 0; j < n; j++) {
    char *y = at(b, a, ld, 0, j);
    int known = j < m ? j : m;
    change_rows(b, y, ld, 1, pivots, known, false);
    if (wide)
      solve_head_f64(a, ld, (double *)(void *)y, known);
    else
      solve_head_f32(a, ld, (float *)(void *)y, known);
    if (known == m) continue;
    subtract_columns(at(b, y, ld, j, 0), at(b, a, ld, j, 0), ld, y, j, m - j, wide);
    void *rest = at(b, y, ld, j, 0);
    pivots[j] = j + 1 + (wide ? largest_f64(rest, m - j) : largest_f32(rest, m - j));
    for (int c = 0; c <= j; c++) {
      char held[16], *one = at(b, a, ld, j, c), *other = at(b, a, ld, pivots[j] - 1, c);
      memcpy(held, one, tide__lapack_item(b)), memcpy(one, other, tide__lapack_item(b)),
          memcpy(other, held, tide__lapack_item(b));
    }
    double pivot = number(y, j, wide);
    if (pivot == 0)
      info = info ? info : j + 1;
    else
      divide(at(b, y, ld, j + 1, 0), pivot, m - j - 1, wide);
  }
  return info;
}

int tide__blocks_lu(tide__blocks *b, int m, int n, void *a, int ld, int *pivots) {
  int least = m < n ? m : n, first = least <= BLOCK ? least : half(least), info = 0;
  if (m == 0 || n <= BLOCK) return lu_block(b, m, n, a, ld, pivots);
  if (tide__loop_stops()) { /* the caller has to find pivots that are rows */
    for (int i = 0; i < least; i++) pivots[i] = i + 1;
    return 0;
  }
  char *right = at(b, a, ld, 0, first), *below = at(b, a, ld, first, 0), *corner = at(b, a, ld, first, first);
  info = tide__blocks_lu(b, m, first, a, ld, pivots);
  change_rows(b, right, ld, n - first, pivots, first, false);
  tide__blocks_triangle(b, (tide__triangle){.left = true, .unit = true}, first, n - first, a, ld, right, ld);
  subtract(b, corner, ld, (factor){below, ld, false}, (factor){right, ld, false}, m - first, n - first, first);
  int later = tide__blocks_lu(b, m - first, n - first, corner, ld, pivots + first);
  change_rows(b, below, ld, first, pivots + first, least - first, false);
  for (int i = first; i < least; i++) pivots[i] += first;
  return info ? info : later ? later + first : 0;
}

void tide__blocks_lu_solve(tide__blocks *b, bool turned, int n, int k, const void *lu, const int *pivots, void *x) {
  tide__triangle lower = {.left = true, .unit = true, .turned = turned};
  tide__triangle upper = {.left = true, .upper = true, .turned = turned};
  if (!turned) change_rows(b, x, n, k, pivots, n, false);
  tide__blocks_triangle(b, turned ? upper : lower, n, k, lu, n, x, n);
  tide__blocks_triangle(b, turned ? lower : upper, n, k, lu, n, x, n);
  if (turned) change_rows(b, x, n, k, pivots, n, true);
}

int tide__blocks_cholesky(tide__blocks *b, int n, void *a, int ld) {
  int first = half(n), rest = n - first, info = 0;
  if (n <= BLOCK || b->type >= 2) return tide__lapack_potrf(b, n, a, ld);
  if (tide__loop_stops()) return 0;
  char *corner = at(b, a, ld, first, first), *off = at(b, a, ld, first, 0);
  info = tide__blocks_cholesky(b, first, a, ld);
  if (info) return info;
  tide__blocks_triangle(b, (tide__triangle){.turned = true}, rest, first, a, ld, off, ld);
  subtract(b, corner, ld, (factor){off, ld, false}, (factor){off, ld, true}, rest, rest, first);
  info = tide__blocks_cholesky(b, rest, corner, ld);
  return info ? info + first : 0;
}

/* ---- QR ---- */

/* The block reflector I - V T V^H: V, rows by columns, its T, the conjugates of both, and room for products. */
typedef struct reflector {
  int rows, columns;
  char *memory, *v, *t, *v_conj, *t_conj, *between[2];
} reflector;

static bool reflector_new(reflector *r, const tide__blocks *b, int rows, int others) {
  size_t item = tide__lapack_item(b), v = (size_t)rows * BLOCK * item, t = BLOCK * BLOCK * item;
  size_t w = (size_t)others * BLOCK * item, copies = b->type >= 2 ? 2 : 1;
  r->memory = malloc((v + t) * copies + 2 * w + tide__tail(rows, (int)item));
  r->v = r->memory, r->t = r->v + v;
  r->v_conj = copies == 2 ? r->t + t : r->v, r->t_conj = copies == 2 ? r->v_conj + v : r->t;
  r->between[0] = (copies == 2 ? r->t_conj : r->t) + t, r->between[1] = r->between[0] + w;
  return r->memory != NULL;
}

/* The sign bits of imaginary parts. */
static void conjugate(const tide__blocks *b, char *to, const char *from, int64_t n) {
  size_t item = tide__lapack_item(b);
  if (b->type < 2) return;
  memcpy(to, from, (size_t)n * item);
  for (int64_t i = 1; i <= n; i++) to[(size_t)i * item - 1] ^= (char)0x80; /* little-endian, as all that we run on */
}

/* Takes the reflectors of a block of columns. */
static void reflector_take(reflector *r, tide__blocks *b, int rows, int columns, const void *a, int ld,
                           const void *tau) {
  size_t item = tide__lapack_item(b);
  r->rows = rows, r->columns = columns;
  memset(r->t, 0, BLOCK * BLOCK * item);
  tide__lapack_larft(b, rows, columns, a, ld, tau, r->t);
  for (int j = 0; j < columns; j++) {
    char *v = r->v + (size_t)j * (size_t)rows * item;
    memset(v, 0, (size_t)(j + 1) * item);
    memcpy(v + (size_t)j * item, tide__lapack_one(b), item);
    memcpy(v + (size_t)(j + 1) * item, at(b, a, ld, j + 1, j), (size_t)(rows - j - 1) * item);
  }
  conjugate(b, r->v_conj, r->v, (int64_t)rows * columns);
  conjugate(b, r->t_conj, r->t, (int64_t)columns * columns);
}

/* C, as high as V, becomes the reflector times C, or its adjoint times C. */
static void reflector_apply(const reflector *r, tide__blocks *b, bool adjoint, void *c, int ld, int n) {
  int m = r->rows, k = r->columns;
  factor middle = {adjoint ? r->t_conj : r->t, k, adjoint};
  multiply(b, r->between[0], k, (factor){r->v_conj, m, true}, (factor){c, ld, false}, k, n, m, 1, 0);
  multiply(b, r->between[1], k, middle, (factor){r->between[0], k, false}, k, n, k, 1, 0);
  subtract(b, c, ld, (factor){r->v, m, false}, (factor){r->between[1], k, false}, m, n, k);
}

int tide__blocks_qr(tide__blocks *b, int m, int n, void *a, void *tau, void *work, int elements) {
  int least = m < n ? m : n, info = 0;
  reflector r;
  if (least <= 2 * BLOCK || elements < 0) return tide__lapack_geqrf(b, m, n, a, m, tau, work, elements);
  if (!reflector_new(&r, b, m, n)) return b->is_broken = true, 0;
  for (int j = 0; j < least && !tide__loop_stops(); j += BLOCK) {
    int rows = m - j, columns = least - j < BLOCK ? least - j : BLOCK, others = n - j - columns;
    char *block = at(b, a, m, j, j), *factors = at(b, tau, 1, j, 0);
    info = tide__lapack_geqrf(b, rows, columns, block, m, factors, work, elements);
    if (others == 0) continue;
    reflector_take(&r, b, rows, columns, block, m, factors);
    reflector_apply(&r, b, true, at(b, a, m, j, j + columns), m, others);
  }
  free(r.memory);
  return info;
}

/* Column j becomes that of the identity. */
static void set_unit(const tide__blocks *b, void *a, int ld, int j) {
  memset(at(b, a, ld, 0, j), 0, (size_t)ld * tide__lapack_item(b));
  memcpy(at(b, a, ld, j, j), tide__lapack_one(b), tide__lapack_item(b));
}

int tide__blocks_qr_q(tide__blocks *b, int m, int n, int k, void *a, const void *tau, void *work, int elements) {
  int info = 0;
  reflector r;
  if (k <= 2 * BLOCK || elements < 0) return tide__lapack_orgqr(b, m, n, k, a, m, tau, work, elements);
  if (!reflector_new(&r, b, m, n)) return b->is_broken = true, 0;
  for (int j = k; j < n; j++) set_unit(b, a, m, j);
  for (int j = (k - 1) / BLOCK * BLOCK; j >= 0 && !tide__loop_stops(); j -= BLOCK) {
    int rows = m - j, columns = k - j < BLOCK ? k - j : BLOCK, others = n - j - columns;
    char *block = at(b, a, m, j, j), *factors = at(b, tau, 1, j, 0);
    if (others) {
      reflector_take(&r, b, rows, columns, block, m, factors);
      reflector_apply(&r, b, false, at(b, a, m, j, j + columns), m, others);
    }
    info = tide__lapack_orgqr(b, rows, columns, columns, block, m, factors, work, elements);
    for (int i = j; i < j + columns; i++) memset(at(b, a, m, 0, i), 0, (size_t)j * tide__lapack_item(b));
  }
  free(r.memory);
  return info;
}
