/* lapack.h: LAPACK's functions, and factors of large matrices whose products are ours. */
#pragma once

#include "backend/library.h"
#include "backend/cpu/cpu.h"

extern tide__lapack tide__cpu_lapack; /* open once tide__cpu_has_lapack has said so */

/* A call for a dtype: type is 0 to 3, for float32 to complex128. is_broken: no memory for a product or a copy. */
typedef struct tide__blocks {
  int type;
  bool is_broken;
  int operands;
  struct {
    const char *first, *end;
  } operand[5]; /* tensors' memory: nothing behind `end` may be readable */
} tide__blocks;

/* Which triangle of t, and what is done with it. */
typedef struct tide__triangle {
  bool left, upper, turned, unit;
} tide__triangle;

/* Kernels of libraries read whole tiles, also beyond the end of a matrix. So a library gets a matrix only with a
 * readable tail of tide__tail bytes: as it lies where the operand goes on for so long, else a copy. */
typedef struct tide__lent {
  void *at; /* for the library */
  int ld;
  char *x; /* as it lies */
  int rows, columns, ld_x, item;
} tide__lent;
static inline size_t tide__tail(int ld, int item) { return 4 * (size_t)ld * (size_t)item + 4096; }

/* ---- lapack_lend.c ---- */

/* x may be NULL. Without memory for a copy it sets is_broken. */
tide__lent tide__lend(tide__blocks *b, const void *x, int item, int rows, int columns, int ld);
/* Writes a copy back if the library has `written`, and frees it. */
void tide__lend_end(const tide__lent *l, bool written);
static inline size_t tide__lapack_item(const tide__blocks *b) { return b->type == 0 ? 4 : b->type == 3 ? 16 : 8; }
const void *tide__lapack_one(const tide__blocks *b); /* the number 1, of any dtype */
/* LAPACK's functions on what is lent; all but `work` and `t` may be operands. */
void tide__lapack_trsm(tide__blocks *b, tide__triangle how, int m, int n, const void *t, int ld, void *x, int ld_x);
int tide__lapack_getrf(tide__blocks *b, int m, int n, void *a, int ld, int *pivots);
int tide__lapack_potrf(tide__blocks *b, int n, void *a, int ld);
int tide__lapack_geqrf(tide__blocks *b, int m, int n, void *a, int ld, void *tau, void *work, int elements);
int tide__lapack_orgqr(tide__blocks *b, int m, int n, int k, void *a, int ld, const void *tau, void *work,
                       int elements);
void tide__lapack_larft(tide__blocks *b, int rows, int columns, const void *a, int ld, const void *tau, void *t);

/* ---- lapack_blocks.c ---- */

/* As LAPACK's getrf, getrs, potrf and trsm; all give what stands in info. Cholesky's other triangle is lost; of complex
 * matrices it is LAPACK's. */
int tide__blocks_lu(tide__blocks *b, int m, int n, void *a, int ld, int *pivots);
/* turned: the LU is of A's transpose. */
void tide__blocks_lu_solve(tide__blocks *b, bool turned, int n, int k, const void *lu, const int *pivots, void *x);
int tide__blocks_cholesky(tide__blocks *b, int n, void *a, int ld);
void tide__blocks_triangle(tide__blocks *b, tide__triangle how, int m, int n, const void *t, int ld, void *x, int ld_x);
/* As geqrf and orgqr, with their work for `elements` elements, or the question for it; `a` is m elements from column to
 * column. */
int tide__blocks_qr(tide__blocks *b, int m, int n, void *a, void *tau, void *work, int elements);
int tide__blocks_qr_q(tide__blocks *b, int m, int n, int k, void *a, const void *tau, void *work, int elements);

/* Matrix i of CHOLESKY, LU, SOLVE or DET, where it is small and real: what stands in info, or -1: it is neither. */
int tide__small_linalg(const tide_linalg_args *a, int64_t i);
