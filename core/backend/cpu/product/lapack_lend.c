/* lapack_lend.c: what LAPACK gets of our memory.
 *
 * Kernels of OpenBLAS read whole tiles, up to a column beyond the end of a matrix. Where nothing may be readable there,
 * at the end of an operand, the library gets a copy with a tail.
 *
 * Invariant: each address that the library gets is followed by tide__tail readable bytes. */
#include <stdlib.h>

#include "lapack.h"

/* The number 1, of any dtype. */
const void *tide__lapack_one(const tide__blocks *b) {
  static const float floats[2] = {1, 0};
  static const double doubles[2] = {1, 0};
  return b->type & 1 ? (const void *)doubles : (const void *)floats;
}
static void copy_columns(char *to, int ld_to, const char *from, int ld_from, const tide__lent *l) {
  size_t item = (size_t)l->item;
  for (int j = 0; j < l->columns; j++)
    memcpy(to + (size_t)j * (size_t)ld_to * item, from + (size_t)j * (size_t)ld_from * item, (size_t)l->rows * item);
}

tide__lent tide__lend(tide__blocks *b, const void *x, int item, int rows, int columns, int ld) {
  tide__lent l = {(void *)x, ld, (char *)x, rows, columns, ld, item};
  const char *first = x, *end = first;
  bool at_end = false;
  if (columns > 0 && x) end += ((size_t)(columns - 1) * (size_t)ld + (size_t)rows) * (size_t)item;
  for (int i = 0; i < b->operands && x; i++)
    at_end |= first >= b->operand[i].first && first < b->operand[i].end &&
              (size_t)(b->operand[i].end - end) < tide__tail(ld, item);
  if (!at_end) return l;
  l.ld = rows > 0 ? rows : 1;
  l.at = malloc((size_t)l.ld * (size_t)columns * (size_t)item + tide__tail(l.ld, item));
  if (l.at)
    copy_columns(l.at, l.ld, l.x, ld, &l);
  else
    b->is_broken = true;
  return l;
}

void tide__lend_end(const tide__lent *l, bool written) {
  if (l->at == l->x) return;
  if (written && l->at) copy_columns(l->x, l->ld_x, l->at, l->ld, l);
  free(l->at);
}

static tide__lent lend(tide__blocks *b, const void *x, int rows, int columns, int ld) {
  return tide__lend(b, x, (int)tide__lapack_item(b), rows, columns, ld);
}
static tide__lent lend_vector(tide__blocks *b, const void *x, int n) { return lend(b, x, n, 1, n); }

void tide__lapack_trsm(tide__blocks *b, tide__triangle how, int m, int n, const void *t, int ld, void *x, int ld_x) {
  int size = how.left ? m : n;
  tide__lent triangle = lend(b, t, size, size, ld), sides = lend(b, x, m, n, ld_x);
  if (!b->is_broken)
    tide__cpu_lapack.trsm[b->type](how.left ? "L" : "R", how.upper ? "U" : "L", how.turned ? "T" : "N",
                                   how.unit ? "U" : "N", &m, &n, tide__lapack_one(b), triangle.at, &triangle.ld,
                                   sides.at, &sides.ld, 1, 1, 1, 1);
  tide__lend_end(&triangle, false), tide__lend_end(&sides, true);
}

int tide__lapack_getrf(tide__blocks *b, int m, int n, void *a, int ld, int *pivots) {
  int info = 0;
  tide__lent x = lend(b, a, m, n, ld), p = tide__lend(b, pivots, 4, m < n ? m : n, 1, m < n ? m : n);
  if (!b->is_broken) tide__cpu_lapack.getrf[b->type](&m, &n, x.at, &x.ld, p.at, &info);
  tide__lend_end(&x, true), tide__lend_end(&p, true);
  return info;
}

int tide__lapack_potrf(tide__blocks *b, int n, void *a, int ld) {
  int info = 0;
  tide__lent x = lend(b, a, n, n, ld);
  if (!b->is_broken) tide__cpu_lapack.potrf[b->type]("L", &n, x.at, &x.ld, &info, 1);
  tide__lend_end(&x, true);
  return info;
}

int tide__lapack_geqrf(tide__blocks *b, int m, int n, void *a, int ld, void *tau, void *work, int elements) {
  int info = 0;
  tide__lent x = lend(b, a, m, n, ld), t = lend_vector(b, tau, m < n ? m : n);
  if (!b->is_broken) tide__cpu_lapack.geqrf[b->type](&m, &n, x.at, &x.ld, t.at, work, &elements, &info);
  tide__lend_end(&x, true), tide__lend_end(&t, true);
  return info;
}

int tide__lapack_orgqr(tide__blocks *b, int m, int n, int k, void *a, int ld, const void *tau, void *work,
                       int elements) {
  int info = 0;
  tide__lent x = lend(b, a, m, n, ld), t = lend_vector(b, tau, k);
  if (!b->is_broken) tide__cpu_lapack.orgqr[b->type](&m, &n, &k, x.at, &x.ld, t.at, work, &elements, &info);
  tide__lend_end(&x, true), tide__lend_end(&t, false);
  return info;
}

void tide__lapack_larft(tide__blocks *b, int rows, int columns, const void *a, int ld, const void *tau, void *t) {
  tide__lent x = lend(b, a, rows, columns, ld), factors = lend_vector(b, tau, columns);
  if (!b->is_broken)
    tide__cpu_lapack.larft[b->type]("F", "C", &rows, &columns, x.at, &x.ld, factors.at, t, &columns, 1, 1);
  tide__lend_end(&x, false), tide__lend_end(&factors, false);
}
