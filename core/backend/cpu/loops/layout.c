/* layout.c: grids, chunks, and the moving of a chunk's elements between memory and buffers (layout.h explains them).
 *
 * Moving is by the bytes of an element, not by its dtype. A row of a chunk is a run with one stride; where the rows are
 * closer to each other than the columns, the columns are walked outside and the rows inside.
 *
 * Invariant: a chunk has at most TIDE_PIECE_ROWS rows and the elements that the grid was made with. */
#include "layout.h"
#include "os/os.h"

enum { TILE_WIDE = 64, TILE_HIGH = 32, TILE_BAND = 8 };

/* Moves dim d to place `to` >= d. */
static void move_dim(tide__grid *g, int d, int to) {
  for (; d < to; d++) {
    int64_t size = g->size[d];
    g->size[d] = g->size[d + 1], g->size[d + 1] = size;
    for (int k = 0; k < g->operands; k++) {
      int64_t stride = g->stride[k][d];
      g->stride[k][d] = g->stride[k][d + 1], g->stride[k][d + 1] = stride;
    }
  }
}

/* Finds an operand that runs across the rows; its closest dim becomes the one before the last. */
static bool make_tiles(tide__grid *g) {
  int last = g->ndim - 1;
  if (g->ndim < 2 || g->size[last] < 8) return false;
  for (int k = 0; k < g->operands; k++) {
    int closest = last;
    for (int d = last - 1; d >= 0; d--)
      if (g->stride[k][d] && tide__distance(g->stride[k][d]) < tide__distance(g->stride[k][closest]) && g->size[d] >= 8)
        closest = d;
    if (closest == last) continue;
    move_dim(g, closest, last - 1);
    return true;
  }
  return false;
}

static bool is_dense(const tide__grid *g, int k) {
  int64_t expected = 1;
  for (int d = g->ndim - 1; d >= 0; d--) {
    if (g->size[d] != 1 && g->stride[k][d] != expected) return false;
    expected *= g->size[d];
  }
  return true;
}

static void choose_tiles(tide__grid *g, int64_t most, bool tiles) {
  if (tiles) {
    g->wide = g->cols < TILE_WIDE ? g->cols : TILE_WIDE;
    g->high = most / TILE_WIDE < TILE_HIGH ? most / TILE_WIDE : TILE_HIGH;
  } else {
    g->wide = g->cols < most ? g->cols : most;
    g->high = most / g->wide < TIDE_PIECE_ROWS ? most / g->wide : TIDE_PIECE_ROWS;
  }
  if (g->high > g->rows) g->high = g->rows;
  g->across = (g->cols + g->wide - 1) / g->wide;
  g->down = (g->rows + g->high - 1) / g->high;
  g->chunks = g->down * g->across;
  /* A band of tiles touches few enough pages that the addresses of all of them stay known to the processor. */
  g->band = tiles && g->across > TILE_BAND ? TILE_BAND : g->across;
}

void tide__grid_init(tide__grid *g, int ndim, const int64_t *size, const int64_t (*stride)[TIDE_MAX_DIMS], int operands,
                     int64_t most, bool reorder) {
  g->ndim = ndim, g->operands = operands;
  memcpy(g->size, size, (size_t)ndim * sizeof *size);
  for (int k = 0; k < operands; k++) memcpy(g->stride[k], stride[k], (size_t)ndim * sizeof *size);
  bool tiles = reorder && make_tiles(g);
  g->cols = g->size[ndim - 1], g->rows = 1;
  for (int d = 0; d < ndim - 1; d++) g->rows *= g->size[d];
  for (int k = 0; k < operands; k++) g->dense[k] = is_dense(g, k);
  choose_tiles(g, most, tiles);
}

void tide__grid_init_flat(tide__grid *g, int64_t n, int operands, int64_t most) {
  g->ndim = 1, g->operands = operands;
  g->size[0] = g->cols = n, g->rows = 1;
  for (int k = 0; k < operands; k++) g->stride[k][0] = 1, g->dense[k] = true;
  choose_tiles(g, most, false);
}

/* The offsets of the rows from `row` on. */
static void row_offsets(tide__chunk *c, const tide__grid *g, int64_t row, int64_t col) {
  int last = g->ndim - 1;
  int64_t at[TIDE_MAX_DIMS], now[TIDE_MAX_OPERANDS];
  for (int k = 0; k < g->operands; k++) now[k] = col * g->stride[k][last];
  for (int d = last - 1; d >= 0; d--) {
    at[d] = d ? row % g->size[d] : row;
    row = d ? row / g->size[d] : 0;
    for (int k = 0; k < g->operands; k++) now[k] += at[d] * g->stride[k][d];
  }
  /* Rows side by side along the dim before the last are equally far apart. */
  const int side = last - 1;
  for (int64_t r = 0, n; r < c->rows; r += n) {
    n = g->size[side] - at[side] < c->rows - r ? g->size[side] - at[side] : c->rows - r;
    for (int k = 0; k < g->operands; k++) {
      int64_t stride = g->stride[k][side];
      for (int64_t i = 0; i < n; i++) c->offset[k][r + i] = now[k] + i * stride;
      now[k] += n * stride;
    }
    at[side] += n;
    for (int d = side; d > 0 && at[d] == g->size[d]; d--) {
      for (int k = 0; k < g->operands; k++) now[k] += g->stride[k][d - 1] - g->size[d] * g->stride[k][d];
      at[d] = 0, at[d - 1]++;
    }
  }
}

void tide__grid_chunk(tide__chunk *c, const tide__grid *g, int64_t index) {
  int last = g->ndim - 1;
  int64_t row = index * g->high, col = 0;
  if (g->across > 1) {
    int64_t band = index / (g->band * g->down), width = g->across - band * g->band;
    if (width > g->band) width = g->band;
    index -= band * g->band * g->down;
    row = index / width * g->high, col = (band * g->band + index % width) * g->wide;
  }
  c->rows = g->rows - row < g->high ? g->rows - row : g->high;
  c->cols = g->cols - col < g->wide ? g->cols - col : g->wide;
  c->n = c->rows * c->cols;
  c->first = row * g->cols + col;
  if (last == 0)
    for (int k = 0; k < g->operands; k++) c->offset[k][0] = col * g->stride[k][0];
  else
    row_offsets(c, g, row, col);
  for (int k = 0; k < g->operands; k++)
    c->joined[k] = c->rows == 1 ? g->stride[k][last] == 1 || c->n == 1 : g->dense[k] && c->cols == g->cols;
}

/* ---- moving ---- */

typedef struct wide16 {
  uint64_t v[2];
} wide16;

#define T       uint8_t
#define NAME(f) f##_1
#include "move_template.h"
#define T       uint16_t
#define NAME(f) f##_2
#include "move_template.h"
#define T       uint32_t
#define NAME(f) f##_4
#include "move_template.h"
#define T       uint64_t
#define NAME(f) f##_8
#include "move_template.h"
#define T       wide16
#define NAME(f) f##_16
#include "move_template.h"

/* out[r][c] = in[c * stride + r]: four by four in registers, the rest one by one. rows and cols of a tile. */
typedef uint32_t four __attribute__((vector_size(16)));
#if defined(__clang__)
#  define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#  define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (four){__VA_ARGS__})
#endif
typedef uint32_t loose __attribute__((vector_size(16), aligned(4), may_alias));
static void transpose_4(uint32_t *restrict out, const uint32_t *in, int64_t rows, int64_t cols, int64_t stride) {
  int64_t c = 0;
  for (; c + 4 <= cols; c += 4) {
    const uint32_t *in0 = in + c * stride, *in1 = in0 + stride, *in2 = in1 + stride, *in3 = in2 + stride;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      four a = *(const loose *)(in0 + r), b = *(const loose *)(in1 + r);
      four d = *(const loose *)(in2 + r), e = *(const loose *)(in3 + r);
      four ab = SHUFFLE(a, b, 0, 4, 1, 5), de = SHUFFLE(d, e, 0, 4, 1, 5);
      four ab_high = SHUFFLE(a, b, 2, 6, 3, 7), de_high = SHUFFLE(d, e, 2, 6, 3, 7);
      uint32_t *to = out + r * cols + c;
      *(loose *)to = SHUFFLE(ab, de, 0, 1, 4, 5);
      *(loose *)(to + cols) = SHUFFLE(ab, de, 2, 3, 6, 7);
      *(loose *)(to + 2 * cols) = SHUFFLE(ab_high, de_high, 0, 1, 4, 5);
      *(loose *)(to + 3 * cols) = SHUFFLE(ab_high, de_high, 2, 3, 6, 7);
    }
    for (; r < rows; r++)
      out[r * cols + c] = in0[r], out[r * cols + c + 1] = in1[r], out[r * cols + c + 2] = in2[r],
                     out[r * cols + c + 3] = in3[r];
  }
  for (; c < cols; c++)
    for (int64_t r = 0; r < rows; r++) out[r * cols + c] = in[c * stride + r];
}

static bool runs_across(const tide__chunk *c, int k, int64_t stride) {
  return c->rows >= 8 && tide__distance(c->offset[k][1] - c->offset[k][0]) < tide__distance(stride);
}

/* Is every row one element from the row before it? */
static bool neighbours(const tide__chunk *c, int k) {
  for (int64_t r = 1; r < c->rows; r++)
    if (c->offset[k][r] - c->offset[k][0] != r) return false;
  return true;
}

void tide__chunk_gather(void *out, const void *base, const tide__grid *g, const tide__chunk *c, int k, int item) {
  const int64_t *offset = c->offset[k], stride = g->stride[k][g->ndim - 1];
  if (c->joined[k]) {
    memcpy(out, (const char *)base + offset[0] * item, (size_t)(c->n * item));
    return;
  }
  bool across = runs_across(c, k, stride);
  if (across && item == 4 && neighbours(c, k)) {
    transpose_4(out, (const uint32_t *)base + offset[0], c->rows, c->cols, stride);
    return;
  }
  switch (item) {
  case 1: gather_1(out, base, offset, c->rows, c->cols, stride, across); break;
  case 2: gather_2(out, base, offset, c->rows, c->cols, stride, across); break;
  case 4: gather_4(out, base, offset, c->rows, c->cols, stride, across); break;
  case 8: gather_8(out, base, offset, c->rows, c->cols, stride, across); break;
  default: gather_16(out, base, offset, c->rows, c->cols, stride, across); break;
  }
}

void tide__chunk_scatter(void *base, const void *in, const tide__grid *g, const tide__chunk *c, int k, int item) {
  const int64_t *offset = c->offset[k], stride = g->stride[k][g->ndim - 1];
  if (c->joined[k]) {
    memcpy((char *)base + offset[0] * item, in, (size_t)(c->n * item));
    return;
  }
  bool across = runs_across(c, k, stride);
  switch (item) {
  case 1: scatter_1(base, in, offset, c->rows, c->cols, stride, across); break;
  case 2: scatter_2(base, in, offset, c->rows, c->cols, stride, across); break;
  case 4: scatter_4(base, in, offset, c->rows, c->cols, stride, across); break;
  case 8: scatter_8(base, in, offset, c->rows, c->cols, stride, across); break;
  default: scatter_16(base, in, offset, c->rows, c->cols, stride, across); break;
  }
}

/* ---- dtypes ---- */

void tide__cast(const tide__isa *isa, void *out, int to, const void *in, int from, int64_t n) {
  if (to == from) {
    memcpy(out, in, (size_t)(n * tide__item(to)));
    return;
  }
  tide__convert direct = isa->convert[to][from];
  if (direct) {
    direct(out, in, n);
    return;
  }
  float between[512];
  tide__convert first = from == TIDE_FLOAT32 ? NULL : isa->convert[TIDE_FLOAT32][from],
                second = isa->convert[to][TIDE_FLOAT32];
  for (int64_t i = 0; i < n; i += 512) {
    int64_t part = n - i < 512 ? n - i : 512;
    first(between, (const char *)in + i * tide__item(from), part);
    second((char *)out + i * tide__item(to), between, part);
  }
}

const void *tide__chunk_load(const tide__isa *isa, void *buffer, void *raw, const void *base, const tide__grid *g,
                             const tide__chunk *c, int k, int dtype, int from) {
  int item = tide__item(from);
  const void *in = (const char *)base + c->offset[k][0] * item;
  if (!c->joined[k]) {
    void *to = dtype == from ? buffer : raw;
    tide__chunk_gather(to, base, g, c, k, item);
    in = to;
  }
  if (dtype == from) return in;
  tide__cast(isa, buffer, dtype, in, from, c->n);
  return buffer;
}

void tide__chunk_store(const tide__isa *isa, void *base, void *raw, const void *in, const tide__grid *g,
                       const tide__chunk *c, int k, int dtype, int from, bool stream) {
  int item = tide__item(dtype);
  char *out = (char *)base + c->offset[k][0] * item;
  if (dtype != from) {
    void *to = c->joined[k] && !stream ? out : raw;
    tide__cast(isa, to, dtype, in, from, c->n);
    if (to == out) return;
    in = raw;
  }
  if (stream && c->joined[k])
    isa->stream(out, in, (size_t)(c->n * item));
  else
    tide__chunk_scatter(base, in, g, c, k, item);
}

bool tide__beyond_cache(int64_t bytes) {
  static _Atomic int64_t limit;
  int64_t now = atomic_load_explicit(&limit, memory_order_relaxed);
  if (now == 0) {
    now = tide__os_cache(3) / 2;
    if (now < 4 << 20) now = 4 << 20;
    if (now > 16 << 20) now = 16 << 20; /* a larger cache is shared with others, who would lose by it */
    atomic_store_explicit(&limit, now, memory_order_relaxed);
  }
  return bytes >= now;
}
