/* scatter.h: what the files of reads and writes at indexed places share. scatter.c walks and moves, scatter_whole.c
 * sees to it that all of a scatter is done or nothing. */
#pragma once

#include "buckets.h"
#include "backend/cpu/loops/layout.h"

enum { TIDE_SCATTER_OUTSIDE = -1 };

/* A call on its way; zero but for `a`, `scatter` and `checks` at first. */
typedef struct tide__scatter {
  const tide_index_args *a;
  bool scatter, checks;   /* checks: looks at the index and does nothing else */
  bool apart;             /* sums that meet are kept apart, in a wider dtype */
  bool far;               /* no cache holds the indexed side */
  bool fills;             /* a row is one element everywhere */
  int ndim;               /* without the row, which stands behind the others */
  int split;              /* the dim along which threads share, or OUTSIDE: they share the places */
  tide__buckets *buckets; /* or NULL: values go where they belong */
  char *sums;             /* or NULL: of each part, `each` bytes, for the elements from `lowest` on */
  char *saved;            /* or NULL: the lines of the indexed side, as each was before anything was written there */
  int64_t lowest, span, each;
  int64_t first; /* the step of the dim that is split where the parts begin */
  int64_t steps; /* and how many of its steps they have */
  int64_t parts, size[TIDE_MAX_DIMS + 1], stride[3][TIDE_MAX_DIMS + 1];
  int64_t weight[TIDE_MAX_DIMS + 1]; /* of each dim in the number of a step */
  _Atomic int64_t bad;               /* the first step with a bad index; INT64_MAX: none */
} tide__scatter;

void tide__scatter_prepare(tide__scatter *w);
/* The dtype of the dense side, and the bytes of its elements. */
static inline int tide__scatter_dense(const tide__scatter *w) { return w->a->narrow ? w->a->narrow : w->a->dtype; }
static inline int tide__scatter_item(const tide__scatter *w) {
  return w->a->narrow ? tide__item(w->a->narrow) : w->a->item_size;
}
/* Walks through the parts, which are tasks of tide__spread. */
void tide__scatter_parts(void *scatter, int64_t begin, int64_t end);
/* All of it. True, and the first bad index, if there is one. */
bool tide__scatter_run(tide__scatter *w, int64_t *value);
bool tide__scatter_find_bad(const tide__scatter *w, int64_t *value);
/* Line `line` of what is written, where that lies in lines. */
char *tide__scatter_line(const tide__scatter *w, int64_t line);
/* Values come to places of x, which was checked. step: of the values. */
void tide__scatter_values(const tide_index_args *a, char *x, const int64_t *place, char *values, int64_t step,
                          int64_t n);
/* n values join those of x that lie side by side, too. */
void tide__scatter_row(const tide_index_args *a, char *x, const char *values, int64_t n);

/* Sums of the rows of x that have been named, in a dtype wider than x's. */
typedef struct tide__sums tide__sums;
/* Does a call want them? */
bool tide__sums_wanted(const tide_index_args *a);
/* a: the call, which lives on. x: what its places count from. row: elements. NULL: there is no memory. */
tide__sums *tide__sums_open(const tide_index_args *a, char *x, int64_t row);
/* Turns n places (at most 512), but INT64_MIN, into those of their sums, counted from the sums' begin, in elements. */
char *tide__sums_find(tide__sums *s, int64_t *place, int64_t offset, int64_t n);
/* The call as it is for the sums. */
const tide_index_args *tide__sums_call(const tide__sums *s);
/* Rounds the sums to where they belong. */
void tide__sums_close(tide__sums *s);
