/* lapack_blocks.c: LU, Cholesky and triangles of large matrices by halves, down to blocks that LAPACK does, so that
 * most of the arithmetic is our products': they use all threads, and are fast where the library's own are the
 * reference's.
 *
 * Source: F. Gustavson, "Recursion leads to automatic variable blocking for dense linear-algebra algorithms", IBM J.
 * Res. Dev. 41 (1997).
 *
 * Invariant: matrices are stored by columns, `ld` elements apart. */
#include <stdlib.h>
#include <string.h>

#include "lapack.h"

enum { BLOCK = 32 };

static size_t item_of(const tide__blocks *b) { return b->type == 0 ? 4 : b->type == 3 ? 16 : 8; }
static char *at(const tide__blocks *b, const void *a, int ld, int row, int column) {
  return (char *)a + ((size_t)column * (size_t)ld + (size_t)row) * item_of(b);
}
/* The number 1, of any dtype. */
static const void *one_of(const tide__blocks *b) {
  static const float floats[2] = {1, 0};
  static const double doubles[2] = {1, 0};
  return b->type & 1 ? (const void *)doubles : (const void *)floats;
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

void tide__blocks_triangle(tide__blocks *b, tide__triangle how, int m, int n, const void *t, int ld, void *x,
                           int ld_x) {
  int size = how.left ? m : n, first = half(size), rest = size - first;
  if (size <= BLOCK) {
    tide__cpu_lapack.trsm[b->type](how.left ? "L" : "R", how.upper ? "U" : "L", how.turned ? "T" : "N",
                                   how.unit ? "U" : "N", &m, &n, one_of(b), t, &ld, x, &ld_x, 1, 1, 1, 1);
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

/* ---- QR ---- */

/* The block reflector I - V T V^H: V, rows by columns, its T, the conjugates of both, and room for products. */
typedef struct reflector {
  int rows, columns;
  char *memory, *v, *t, *v_conj, *t_conj, *between[2];
} reflector;

static bool reflector_new(reflector *r, const tide__blocks *b, int rows, int others) {
  size_t item = item_of(b), v = (size_t)rows * BLOCK * item, t = BLOCK * BLOCK * item;
  size_t w = (size_t)others * BLOCK * item, copies = b->type >= 2 ? 2 : 1;
  r->memory = malloc((v + t) * copies + 2 * w + 16);
  r->v = r->memory, r->t = r->v + v;
  r->v_conj = copies == 2 ? r->t + t : r->v, r->t_conj = copies == 2 ? r->v_conj + v : r->t;
  r->between[0] = (copies == 2 ? r->t_conj : r->t) + t, r->between[1] = r->between[0] + w;
  return r->memory != NULL;
}

/* The sign bits of imaginary parts. */
static void conjugate(const tide__blocks *b, char *to, const char *from, int64_t n) {
  size_t item = item_of(b);
  if (b->type < 2) return;
  memcpy(to, from, (size_t)n * item);
  for (int64_t i = 1; i <= n; i++) to[(size_t)i * item - 1] ^= (char)0x80; /* little-endian, as all that we run on */
}

/* Takes the reflectors of a block of columns. */
static void reflector_take(reflector *r, const tide__blocks *b, int rows, int columns, const void *a, int ld,
                           const void *tau) {
  size_t item = item_of(b);
  r->rows = rows, r->columns = columns;
  memset(r->t, 0, BLOCK * BLOCK * item);
  tide__cpu_lapack.larft[b->type]("F", "C", &rows, &columns, a, &ld, tau, r->t, &columns, 1, 1);
  for (int j = 0; j < columns; j++) {
    char *v = r->v + (size_t)j * (size_t)rows * item;
    memset(v, 0, (size_t)(j + 1) * item);
    memcpy(v + (size_t)j * item, one_of(b), item);
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
  if (least <= 2 * BLOCK || elements < 0) {
    tide__cpu_lapack.geqrf[b->type](&m, &n, a, &m, tau, work, &elements, &info);
    return info;
  }
  if (!reflector_new(&r, b, m, n)) return b->is_broken = true, 0;
  for (int j = 0; j < least; j += BLOCK) {
    int rows = m - j, columns = least - j < BLOCK ? least - j : BLOCK, others = n - j - columns;
    char *block = at(b, a, m, j, j), *factors = at(b, tau, 1, j, 0);
    tide__cpu_lapack.geqrf[b->type](&rows, &columns, block, &m, factors, work, &elements, &info);
    if (others == 0) continue;
    reflector_take(&r, b, rows, columns, block, m, factors);
    reflector_apply(&r, b, true, at(b, a, m, j, j + columns), m, others);
  }
  free(r.memory);
  return info;
}

/* Column j becomes that of the identity. */
static void set_unit(const tide__blocks *b, void *a, int ld, int j) {
  memset(at(b, a, ld, 0, j), 0, (size_t)ld * item_of(b));
  memcpy(at(b, a, ld, j, j), one_of(b), item_of(b));
}

int tide__blocks_qr_q(tide__blocks *b, int m, int n, int k, void *a, const void *tau, void *work, int elements) {
  int info = 0;
  reflector r;
  if (k <= 2 * BLOCK || elements < 0) {
    tide__cpu_lapack.orgqr[b->type](&m, &n, &k, a, &m, tau, work, &elements, &info);
    return info;
  }
  if (!reflector_new(&r, b, m, n)) return b->is_broken = true, 0;
  for (int j = k; j < n; j++) set_unit(b, a, m, j);
  for (int j = (k - 1) / BLOCK * BLOCK; j >= 0; j -= BLOCK) {
    int rows = m - j, columns = k - j < BLOCK ? k - j : BLOCK, others = n - j - columns;
    char *block = at(b, a, m, j, j), *factors = at(b, tau, 1, j, 0);
    if (others) {
      reflector_take(&r, b, rows, columns, block, m, factors);
      reflector_apply(&r, b, false, at(b, a, m, j, j + columns), m, others);
    }
    tide__cpu_lapack.orgqr[b->type](&rows, &columns, &columns, block, &m, factors, work, &elements, &info);
    for (int i = j; i < j + columns; i++) memset(at(b, a, m, 0, i), 0, (size_t)j * item_of(b));
  }
  free(r.memory);
  return info;
}
