/* lapack_small.c: LU, solutions, inverses, determinants and Cholesky factors of small real matrices.
 *
 * A call of a library costs more than they do. They are worked on in float64, by columns, in memory of the stack.
 *
 * Invariant: what stands in ptr[5] is only read, and ptr[0] is written at the end. */
#include <math.h>

#include "lapack.h"

enum { MOST = 32 };

/* The matrices of a kind are `step` elements apart; element (i, j) of one stands at i * down + j * across. */
typedef struct shape {
  int64_t step;
  int rows, columns, down, across;
} shape;

static void take(double *to, const void *from, const shape *s, int64_t i, bool wide) {
  int64_t first = i * s->step;
  for (int c = 0; c < s->columns; c++)
    for (int r = 0; r < s->rows; r++) {
      int64_t at = first + r * s->down + c * s->across;
      *to++ = wide ? ((const double *)from)[at] : (double)((const float *)from)[at];
    }
}

static void put(void *to, const double *from, const shape *s, int64_t i, bool wide) {
  int64_t first = i * s->step;
  for (int c = 0; c < s->columns; c++)
    for (int r = 0; r < s->rows; r++, from++) {
      int64_t at = first + r * s->down + c * s->across;
      if (wide)
        ((double *)to)[at] = *from;
      else
        ((float *)to)[at] = (float)*from;
    }
}

/* As LAPACK's getrf. *sign: the determinant of the permutation. */
static int factor(double *a, int n, int *pivots, double *sign) {
  int info = 0;
  *sign = 1;
  for (int j = 0; j < n; j++) {
    double *column = a + j * n, most = fabs(column[j]);
    int at = j;
    for (int i = j + 1; i < n; i++)
      if (fabs(column[i]) > most) most = fabs(column[i]), at = i;
    pivots[j] = at + 1;
    if (at != j) {
      *sign = -*sign;
      for (double *x = a; x < a + n * n; x += n) {
        double held = x[j];
        x[j] = x[at], x[at] = held;
      }
    }
    if (column[j] == 0) {
      if (!info) info = j + 1;
      continue;
    }
    double inverse = 1 / column[j];
    for (int i = j + 1; i < n; i++) column[i] *= inverse;
    for (double *x = column + n; x < a + n * n; x += n)
      for (int i = j + 1; i < n; i++) x[i] -= column[i] * x[j];
  }
  return info;
}

/* inverse: of the diagonal's numbers. */
static void solve(const double *lu, const double *inverse, const int *pivots, int n, double *x) {
  for (int i = 0; i < n; i++) {
    double held = x[i];
    x[i] = x[pivots[i] - 1], x[pivots[i] - 1] = held;
  }
  for (int j = 0; j < n; j++)
    for (int i = j + 1; i < n; i++) x[i] -= lu[j * n + i] * x[j];
  for (int j = n - 1; j >= 0; j--) {
    x[j] *= inverse[j];
    for (int i = 0; i < j; i++) x[i] -= lu[j * n + i] * x[j];
  }
}

static int cholesky(double *a, int n) {
  for (int j = 0; j < n; j++) {
    double *column = a + j * n;
    if (!(column[j] > 0)) return j + 1;
    column[j] = sqrt(column[j]);
    double inverse = 1 / column[j];
    for (int i = j + 1; i < n; i++) column[i] *= inverse;
    for (int c = j + 1; c < n; c++)
      for (int i = c; i < n; i++) a[c * n + i] -= column[i] * column[c];
  }
  return 0;
}

/* The solutions, one column of right sides after the other. */
static void put_solutions(const tide_linalg_args *a, int64_t i, const double *lu, const int *pivots, bool wide) {
  int n = (int)a->n;
  double x[MOST], inverse[MOST];
  for (int j = 0; j < n; j++) inverse[j] = 1 / lu[j * n + j];
  for (int64_t c = 0; c < a->k; c++) {
    shape column = {0, n, 1, 1, n};
    char *to = (char *)a->head.ptr[0] + (i * a->step + c * n) * (wide ? 8 : 4);
    if (a->flags & TIDE_LINALG_INVERSE)
      for (int r = 0; r < n; r++) x[r] = r == c;
    else
      take(x, to, &column, 0, wide);
    solve(lu, inverse, pivots, n, x);
    put(to, x, &column, 0, wide);
  }
}

static void put_determinant(const tide_linalg_args *a, int64_t i, const double *lu, double product, bool wide) {
  shape one = {1, 1, 1, 0, 0};
  double sum = 0;
  bool logs = a->head.ptr[1] != NULL;
  for (int j = 0; j < a->n; j++) {
    double x = lu[j * a->n + j];
    if (logs) sum += log(fabs(x));
    product *= !logs || x == 0 || x != x ? x : copysign(1, x);
  }
  put(a->head.ptr[0], &product, &one, i, wide);
  if (logs) put(a->head.ptr[1], &sum, &one, i, wide);
}

int tide__small_linalg(const tide_linalg_args *a, int64_t i) {
  int n = (int)a->n, pivots[MOST], info;
  bool wide = a->dtype == TIDE_FLOAT64, reads = a->routine == TIDE_LINALG_SOLVE || a->routine == TIDE_LINALG_DET;
  bool turned = a->flags & TIDE_LINALG_TRANSPOSED;
  double x[MOST * MOST], sign;
  if (a->m != n || n > MOST || a->dtype > TIDE_FLOAT64 || a->routine > TIDE_LINALG_DET) return -1;
  shape s = {reads ? a->other_step : a->step, n, n, turned ? n : 1, turned ? 1 : n};
  take(x, a->head.ptr[reads ? 5 : 0], &s, i, wide);
  info = a->routine == TIDE_LINALG_CHOLESKY ? cholesky(x, n) : factor(x, n, pivots, &sign);
  if (a->routine == TIDE_LINALG_SOLVE)
    put_solutions(a, i, x, pivots, wide);
  else if (a->routine == TIDE_LINALG_DET)
    put_determinant(a, i, x, sign, wide);
  else
    put(a->head.ptr[0], x, &s, i, wide);
  if (a->routine == TIDE_LINALG_LU) memcpy((int *)a->head.ptr[1] + i * n, pivots, (size_t)n * sizeof(int));
  return info;
}
