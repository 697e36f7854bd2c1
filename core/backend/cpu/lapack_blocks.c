/* lapack_blocks.c: LU, Cholesky and triangles of large matrices by halves, down to blocks that LAPACK does, so that
 * most of the arithmetic is our products': they use all threads, and are fast where the library's own are the
 * reference's.
 *
 * Source: F. Gustavson, "Recursion leads to automatic variable blocking for dense linear-algebra algorithms", IBM J.
 * Res. Dev. 41 (1997).
 *
 * Invariant: matrices are stored by columns, `ld` elements apart. */
#include <string.h>

#include "lapack.h"

enum { BLOCK = 32 };

static size_t item_of(const tide__blocks *b) { return b->type == 0 ? 4 : b->type == 3 ? 16 : 8; }
static char *at(const tide__blocks *b, const void *a, int ld, int row, int column) {
  return (char *)a + ((size_t)column * (size_t)ld + (size_t)row) * item_of(b);
}
/* How much of n comes first. */
static int half(int n) { return (n / 2 + 15) / 16 * 16; }

typedef struct factor {
  const void *x;
  int ld;
  bool turned; /* it counts transposed */
} factor;

/* C, m by n, less op(A) op(B), which meet in k. By rows it is the transposed product. */
static void subtract(tide__blocks *b, void *c, int ld, factor left, factor right, int m, int n, int k) {
  tide_gemm_args a = {.dtype = TIDE_FLOAT32 + b->type, .m = n, .n = m, .k = k, .batch = 1, .c_row = ld};
  a.head = (tide_head){.ptr = {c, (void *)right.x, (void *)left.x}, .nptr = 3, .device = TIDE_CPU};
  a.a_row = right.turned ? 1 : right.ld, a.a_col = right.turned ? right.ld : 1;
  a.b_row = left.turned ? 1 : left.ld, a.b_col = left.turned ? left.ld : 1;
  a.alpha = (tide_value){-1, -1, 0}, a.beta = (tide_value){1, 1, 0};
  if (m > 0 && n > 0 && tide__cpu_gemm(NULL, &a) != TIDE_OK) b->is_broken = true;
}

void tide__blocks_triangle(tide__blocks *b, tide__triangle how, int m, int n, const void *t, int ld, void *x,
                           int ld_x) {
  static const float one_float[2] = {1, 0};
  static const double one_double[2] = {1, 0};
  int size = how.left ? m : n, first = half(size), rest = size - first;
  if (size <= BLOCK) {
    const void *one = b->type & 1 ? (const void *)one_double : (const void *)one_float;
    tide__cpu_lapack.trsm[b->type](how.left ? "L" : "R", how.upper ? "U" : "L", how.turned ? "T" : "N",
                                   how.unit ? "U" : "N", &m, &n, one, t, &ld, x, &ld_x, 1, 1, 1, 1);
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

/* Row i of so many columns changes places with row pivots[i] - 1, one after the other. */
static void change_rows(const tide__blocks *b, void *a, int ld, int columns, const int *pivots, int n) {
  size_t item = item_of(b);
  for (int j = 0; j < columns; j++) {
    char *column = at(b, a, ld, 0, j);
    for (int i = 0; i < n; i++) {
      char held[16], *one = column + (size_t)i * item, *other = column + (size_t)(pivots[i] - 1) * item;
      memcpy(held, one, item);
      memmove(one, other, item);
      memcpy(other, held, item);
    }
  }
}

int tide__blocks_lu(tide__blocks *b, int m, int n, void *a, int ld, int *pivots) {
  int least = m < n ? m : n, first = half(least), info = 0;
  if (least <= BLOCK) {
    tide__cpu_lapack.getrf[b->type](&m, &n, a, &ld, pivots, &info);
    return info;
  }
  char *right = at(b, a, ld, 0, first), *below = at(b, a, ld, first, 0), *corner = at(b, a, ld, first, first);
  info = tide__blocks_lu(b, m, first, a, ld, pivots);
  change_rows(b, right, ld, n - first, pivots, first);
  tide__blocks_triangle(b, (tide__triangle){.left = true, .unit = true}, first, n - first, a, ld, right, ld);
  subtract(b, corner, ld, (factor){below, ld, false}, (factor){right, ld, false}, m - first, n - first, first);
  int later = tide__blocks_lu(b, m - first, n - first, corner, ld, pivots + first);
  change_rows(b, below, ld, first, pivots + first, least - first);
  for (int i = first; i < least; i++) pivots[i] += first;
  return info ? info : later ? later + first : 0;
}

void tide__blocks_lu_solve(tide__blocks *b, int n, int k, const void *lu, const int *pivots, void *x) {
  change_rows(b, x, n, k, pivots, n);
  tide__blocks_triangle(b, (tide__triangle){.left = true, .unit = true}, n, k, lu, n, x, n);
  tide__blocks_triangle(b, (tide__triangle){.left = true, .upper = true}, n, k, lu, n, x, n);
}

int tide__blocks_cholesky(tide__blocks *b, bool upper, int n, void *a, int ld) {
  int first = half(n), rest = n - first, info = 0;
  if (n <= BLOCK || b->type >= 2) {
    tide__cpu_lapack.potrf[b->type](upper ? "U" : "L", &n, a, &ld, &info, 1);
    return info;
  }
  char *corner = at(b, a, ld, first, first), *off = at(b, a, ld, upper ? 0 : first, upper ? first : 0);
  info = tide__blocks_cholesky(b, upper, first, a, ld);
  if (info) return info;
  tide__triangle how = {.left = upper, .upper = upper, .turned = true};
  tide__blocks_triangle(b, how, upper ? first : rest, upper ? rest : first, a, ld, off, ld);
  subtract(b, corner, ld, (factor){off, ld, upper}, (factor){off, ld, !upper}, rest, rest, first);
  info = tide__blocks_cholesky(b, upper, rest, corner, ld);
  return info ? info + first : 0;
}
