/* conv.h: what the files of the convolutions share: conv.c chooses, conv_run.c computes. */
#pragma once

#include "gemm.h"

enum { TIDE__CONV_PHASES = 16 };

/* One dim of a phase. */
typedef struct tide__conv_axis {
  int64_t count, first, step;  /* elements of the result: first, first + step, ... */
  int64_t walk;                /* elements of the input from one to the next */
  int64_t taps, tap, tap_step; /* of the kernel: tap, tap + tap_step, ... */
  int64_t at, at_step;         /* the place that the first tap meets for the first element; from tap to tap */
  int64_t turn;                /* every turn-th tap falls on the same columns of a plane that is laid out by `walk` */
  int64_t low, size;           /* of a laid out plane: elements before the input's, and all of them */
  int64_t part;                /* of a laid out plane: those that lie together, every walk-th */
} tide__conv_axis;

/* The elements of the result that the same taps reach. */
typedef struct tide__conv_phase {
  tide__conv_axis axis[3];
  int64_t k, slice;               /* of its product, and how much of it is summed in registers */
  const int64_t *tap;             /* numbers of its taps among all of the kernel's */
  const int64_t *placed, *packed; /* where rows of the second operand begin, in planes and in a panel, or NULL */
  const char *given;              /* the weights of its taps, [results, k], as the products' dtype */
  char *panels;                   /* the same in panels */
} tide__conv_phase;

typedef struct tide__conv {
  const tide_conv_args *a;
  const tide__isa *isa;
  tide__conv_axis axis[3];                   /* of the first phase, which has the most elements */
  tide__conv_phase phase[TIDE__CONV_PHASES]; /* those that are computed together */
  int phases, together[3];                   /* in each dim */
  int dtype;                                 /* of the products: FLOAT32 or FLOAT64 */
  int64_t item, wide;                        /* bytes of an element of the tensors, and of the products */
  int64_t m, n, k, slice;        /* of the product for a group: k and a slice of it are the phases' together */
  int64_t slices, some;          /* of k; channels of one, where phases share it */
  int64_t each;                  /* of n: an image's */
  bool joined, even;             /* n is of all images of a turn; the rows of a result follow each other */
  int64_t pitch, columns, plane; /* elements of a row, of every walk-th column, and of a laid out plane */
  int64_t down, high;            /* elements between two rows of a result; rows of them that are summed together */
  bool lies;                     /* the input serves as it lies */
  bool placed;                   /* panels of neighbours are read where they are */
  bool thin, near, direct; /* sums of rows; of planes that are laid out for them alone; tiles may be the result's */
  bool whole, unpacked;    /* the weights serve as they are given; and are read where they lie */
  tide__panels rows;
  int64_t panels, width, across; /* of weights; lanes of a tile; tiles of a task */
  int64_t blocks;                /* tasks of an image and group */
  int64_t whole_tasks, parts;    /* tasks that are not cut, and of how many parts each other one is */
  int64_t image, images;         /* of a turn */
  int64_t laid;                  /* the first image that is laid out now, or -1 */
  int64_t lay, weighed;          /* planes that a task lays out; tasks that pack weights */
  const int64_t *row;            /* where each row of the second operand begins */
  const char *given;             /* all weights, as `dtype` */
  char *gathered, *packed;       /* room for those of phases, and for panels of them */
  int64_t *table;                /* room for the rows */
  char *room;                    /* the laid out planes */
  tide_task_fn task;             /* what is shared out */
  int64_t tasks;
  _Atomic int64_t next;
  _Atomic bool failed;
} tide__conv;

/* Row y of the input's, as it is counted with the zeros before the first one, in a laid out plane. */
static inline int64_t tide__conv_row(const tide__conv *w, int64_t y) {
  const tide__conv_axis *x = &w->axis[1];
  return w->lies ? y : y % x->walk * x->part + y / x->walk;
}

static inline int64_t tide__conv_strips_of(const tide__conv *w) {
  return w->axis[0].count * tide__ceil_div(w->axis[1].count, w->high);
}

/* Tasks: the first pack weights, the others lay out planes; strips of the planes of a turn's result; groups of all
 * images; blocks of the turn's products. */
void tide__conv_prepare(void *arg, int64_t begin, int64_t end);
void tide__conv_strips(void *arg, int64_t begin, int64_t end);
void tide__conv_groups(void *arg, int64_t begin, int64_t end);
void tide__conv_blocks(void *arg, int64_t begin, int64_t end);
/* The weights of a phase's taps for group g, where they do not serve as they are. */
void tide__conv_gather(const tide__conv *w, const tide__conv_phase *p, int64_t g);
