/* reduce.h: what the files of the reductions share. A fold is what is done to the elements: how they are loaded, mapped
 * and put together; a state is what is known of some elements. States of consecutive elements join into one. */
#pragma once

#include "backend/cpu/loops/layout.h"

enum { TIDE_COLUMNS = 1024 }; /* results that a column-wise reduction holds at a time */

typedef enum tide__fold_kind {
  TIDE_FOLD_SUM,
  TIDE_FOLD_PROD,
  TIDE_FOLD_MAX,
  TIDE_FOLD_MIN,
  TIDE_FOLD_VAR,
  TIDE_FOLD_PAIR
} tide__fold_kind;
/* What happens to an element before it is folded. */
typedef enum tide__fold_map {
  TIDE_MAP_NONE,
  TIDE_MAP_NUMBER, /* 0 for NaN */
  TIDE_MAP_TRUTH,  /* 1 for what is not zero, 0 else */
  TIDE_MAP_ABS,
  TIDE_MAP_SQUARE,
  TIDE_MAP_POWER /* |x| to the power param */
} tide__fold_map;

typedef struct tide__fold {
  const tide__isa *isa;
  tide__fold_kind kind;
  tide__fold_map map;
  int op;       /* the reduction: of PAIR, whose functions */
  int dtype;    /* elements are folded as INT32 (MAX, MIN), INT64, FLOAT32, FLOAT64 or complex */
  bool index;   /* of MAX and MIN: where it is */
  bool squares; /* SUM of float32 and float64 along rows: of their squares, in float64 */
  double param;
} tide__fold;

/* SUM, PROD: re, im or i. MAX, MIN: re or i, and index, -1 while there is none. VAR: the mean re, the sum of squared
 * deviations im, and the number i. PAIR: the first number re, the second im. */
typedef struct tide__state {
  double re, im;
  int64_t i, index;
} tide__state;

/* Room for loading. */
typedef struct tide__fold_room {
  _Alignas(64) char buffer[TIDE_PIECE_BYTES * 2], raw[TIDE_PIECE * 16];
} tide__fold_room;

/* Elements of a chunk that the room holds. */
int64_t tide__fold_piece(const tide__fold *f);
/* The chunk's elements of operand k, mapped. */
const void *tide__fold_load(const tide__fold *f, tide__fold_room *room, const void *base, const tide__grid *g,
                            const tide__chunk *c, int k, int from);
void tide__state_init(tide__state *s, const tide__fold *f);
/* n more elements, the first of them with this index. */
void tide__state_fold(tide__state *s, const tide__fold *f, const void *x, int64_t n, int64_t first);
/* s becomes s and then t. */
void tide__state_join(tide__state *s, const tide__fold *f, const tide__state *t);

/* The states of PAIR are complete: re becomes the result. */
void tide__states_end(tide__state *s, const tide__fold *f, int64_t n);

/* States of up to TIDE_COLUMNS columns at once. Sums of float32 are kept in float32 for some rows, then in float64. */
typedef struct tide__columns {
  const tide__fold *fold;
  int64_t n, rows, pending; /* rows in all, and in part */
  _Alignas(64) char part[TIDE_COLUMNS * 8], all[TIDE_COLUMNS * 16];
  int64_t index[TIDE_COLUMNS];
} tide__columns;
void tide__columns_init(tide__columns *c, const tide__fold *f, int64_t n);
/* More rows, of which the first has this index; pitch elements of the fold's dtype lie between them. */
void tide__columns_fold_rows(tide__columns *c, const void *x, int64_t pitch, int64_t row, int64_t rows);
/* After the last row. Then all holds the results of this dtype (VAR, PAIR: the first numbers, behind them the second
 * ones). */
int tide__columns_end(tide__columns *c);
/* all takes another one, of columns of the same fold that have ended. Not for VAR and PAIR. */
void tide__columns_join(tide__columns *c, const void *all);
/* Column j's state, after the end. */
void tide__columns_state(tide__state *s, const tide__columns *c, int64_t j);
