/* layout.h: strided tensors cut into small pieces that fit in the first cache.
 *
 * A grid covers the elements of a call in row-major order of its dims: the last dim makes columns, all the others rows.
 * It is cut into chunks of rows x columns. A chunk's elements are the row-major sequence of it; an operand's element
 * (r, c) of a chunk lies at offset[r] + c * stride. Long rows are cut into chunks of one row; short rows are taken many
 * at a time, so that a chunk has always enough elements to pay for itself. Where an operand runs across the rows (a
 * transposed one), the dims are reordered and chunks become square tiles, so that every cache line is read once. */
#pragma once

#include "backend/cpu/isa.h"

enum { TIDE_PIECE = 2048, TIDE_PIECE_BYTES = 8192, TIDE_PIECE_ROWS = 256, TIDE_GRAIN = 32768 };

typedef struct tide__grid {
  int ndim, operands;
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_OPERANDS][TIDE_MAX_DIMS];
  int64_t rows, cols;   /* of all */
  int64_t high, wide;   /* of a chunk, at most */
  int64_t across, down; /* chunks beside and below each other */
  int64_t band;         /* chunks go in bands of so many columns of chunks, from the top down */
  int64_t chunks;
  bool dense[TIDE_MAX_OPERANDS]; /* contiguous over the whole grid */
} tide__grid;

typedef struct tide__chunk {
  int64_t rows, cols, n; /* n = rows * cols */
  int64_t first;         /* row-major number of the first element, where the grid keeps its order */
  int64_t offset[TIDE_MAX_OPERANDS][TIDE_PIECE_ROWS];
  bool joined[TIDE_MAX_OPERANDS]; /* the n elements follow each other in memory, from offset[k][0] on */
} tide__chunk;

/* most: elements of a chunk; reorder: the order of elements does not matter, so that tiles may be used. */
void tide__grid_init(tide__grid *g, int ndim, const int64_t *size, const int64_t (*stride)[TIDE_MAX_DIMS], int operands,
                     int64_t most, bool reorder);
/* A grid of one dense row, for flat operands. */
void tide__grid_init_flat(tide__grid *g, int64_t n, int operands, int64_t most);
void tide__grid_chunk(tide__chunk *c, const tide__grid *g, int64_t index);

/* The chunk's elements of operand k as a sequence, and back. item: bytes of an element. */
void tide__chunk_gather(void *out, const void *base, const tide__grid *g, const tide__chunk *c, int k, int item);
void tide__chunk_scatter(void *base, const void *in, const tide__grid *g, const tide__chunk *c, int k, int item);

/* n elements of any dtype as any other one. */
void tide__cast(const tide__isa *isa, void *out, int to, const void *in, int from, int64_t n);
/* The chunk's elements of operand k as `dtype`: where they are if they already are that and joined, else in buffer. raw
 * is room for n elements of 16 bytes at most. */
const void *tide__chunk_load(const tide__isa *isa, void *buffer, void *raw, const void *base, const tide__grid *g,
                             const tide__chunk *c, int k, int dtype, int from);
/* The sequence in (dtype from) becomes the chunk's elements of operand k. stream: write around the caches. */
void tide__chunk_store(const tide__isa *isa, void *base, void *raw, const void *in, const tide__grid *g,
                       const tide__chunk *c, int k, int dtype, int from, bool stream);

static inline int64_t tide__least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tide__ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t tide__distance(int64_t stride) { return stride < 0 ? -stride : stride; }
static inline int64_t tide__whole_blocks(int64_t n) { return tide__ceil_div(n, TIDE_BLOCK) * TIDE_BLOCK; }

static inline int tide__item(int dtype) { return (int)tide__itemsize(dtype); }

/* The place of a compute dtype in the tables. */
static inline tide__ctype tide__ctype_of(int dtype) {
  switch (dtype) {
  case TIDE_INT32: return TIDE_C_I32;
  case TIDE_INT64: return TIDE_C_I64;
  case TIDE_FLOAT32: return TIDE_C_F32;
  case TIDE_FLOAT64: return TIDE_C_F64;
  case TIDE_COMPLEX64: return TIDE_C_C64;
  default: return TIDE_C_C128;
  }
}

/* Are results of so many bytes larger than what the caches can keep for the next call? */
bool tide__beyond_cache(int64_t bytes);
/* Computes a product one of whose operands repeats a number in each of many rows (multiply.c); false, and nothing done,
 * where it is another one. */
bool tide__multiply_rows(const tide__isa *isa, const tide_elementwise_args *a, bool stream);
/* fn over [0, n) where one item is `each` elements of work: inline if that is little. */
static inline void tide__spread(int64_t n, int64_t each, tide_task_fn fn, void *arg) {
  if (n * each < TIDE_GRAIN || n == 1)
    fn(arg, 0, n);
  else
    tide__parallel_for(n, each < TIDE_GRAIN ? TIDE_GRAIN / (each > 0 ? each : 1) : 1, fn, arg);
}
