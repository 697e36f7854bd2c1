/* row_ops.c: softmax, its logarithm and logsumexp of very short lines of float32, one behind the other.
 *
 * A loop of its own for each line would take longer to begin than to run. So lines are filled up to whole vectors of
 * four numbers with -inf, which has no part in a maximum nor in a sum of exponentials; the largest number of a line and
 * its sum are found by four lanes that meet, and exponentials and logarithms are those of many lines at once. */
#include "row_ops.h"

#include <math.h>

enum { LANES = 4, PIECE = 1024, LINES = PIECE / LANES };
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t four_mask __attribute__((vector_size(16)));

/* Some lines, each of them filled up to `wide` numbers. */
typedef struct piece {
  int64_t n, wide, lines;
  _Alignas(64) float x[PIECE], less[PIECE], y[PIECE], most[LINES], sum[LINES]; /* less: x - most; y: exp(less) */
} piece;

static int64_t blocks_of(int64_t n) { return (n + TIDE_BLOCK - 1) / TIDE_BLOCK; }
static float larger(float a, float b) { return a > b ? a : b; }

/* Vectors reach into the next line, but at the end, and what is not this line's is not taken, or is written over. */
static void fill_up(piece *p, const float *in) {
  const float *const end = in + p->lines * p->n;
  const int last = (int)(p->n - p->wide) + LANES; /* numbers in the last vector of a line */
  const four_mask own = {0 < last ? -1 : 0, 1 < last ? -1 : 0, 2 < last ? -1 : 0, 0};
  const four none = (four){0, 0, 0, 0} - INFINITY;
  float *x = p->x;
  for (int64_t l = 0; l < p->lines; l++, in += last, x += LANES) {
    for (int64_t i = LANES; i < p->wide; i += LANES, in += LANES, x += LANES) *(four *)x = *(const four *)in;
    four v = none;
    if (end - in >= LANES)
      v = *(const four *)in;
    else
      memcpy(&v, in, (size_t)last * sizeof *in);
    *(four *)x = (four)((own & (four_mask)v) | (~own & (four_mask)none));
  }
}

static void take_out(const piece *p, float *out) {
  const float *x = p->x, *const end = out + p->lines * p->n;
  for (int64_t l = 0; l < p->lines; l++, out += p->n - p->wide)
    for (int64_t i = 0; i < p->wide; i += LANES, x += LANES, out += LANES)
      if (end - out >= LANES)
        *(four *)out = *(const four *)x;
      else
        memcpy(out, x, (size_t)(end - out) * sizeof *out);
}

/* less and most. `bounded`: an infinite number is not taken off, so that the logarithm of the sum is infinite too. */
static void subtract_most(piece *p, const float *x, bool bounded) {
  float *less = p->less;
  for (int64_t l = 0; l < p->lines; l++, x += p->wide, less += p->wide) {
    four best = *(const four *)x;
    for (int64_t i = LANES; i < p->wide; i += LANES) {
      const four next = *(const four *)(x + i);
      const four_mask take = next > best;
      best = (four)((take & (four_mask)next) | (~take & (four_mask)best));
    }
    float most = larger(larger(best[0], best[1]), larger(best[2], best[3]));
    if (bounded && most - most != 0) most = 0;
    p->most[l] = most;
    for (int64_t i = 0; i < p->wide; i += LANES) *(four *)(less + i) = *(const four *)(x + i) - most;
  }
  memset(less, 0, (size_t)(blocks_of(p->lines * p->wide) * TIDE_BLOCK - p->lines * p->wide) * sizeof *less);
}

static float sum_of(const float *y, int64_t wide) {
  four sum = *(const four *)y;
  for (int64_t i = LANES; i < wide; i += LANES) sum += *(const four *)(y + i);
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

static void finish(const tide__isa *isa, piece *p, tide__lines_form form, float *out) {
  static const float no_param[3];
  const float *y = p->y, *less = p->less;
  if (form == TIDE__LINES_SOFTMAX) {
    for (int64_t l = 0; l < p->lines; l++, y += p->wide, out += p->wide) {
      const float sum = sum_of(y, p->wide);
      for (int64_t i = 0; i < p->wide; i += LANES) *(four *)(out + i) = *(const four *)(y + i) / sum;
    }
    return;
  }
  memset(p->sum, 0, sizeof p->sum);
  for (int64_t l = 0; l < p->lines; l++, y += p->wide) p->sum[l] = sum_of(y, p->wide);
  isa->op[TIDE_OP_log][TIDE_C_F32](p->sum, p->sum, NULL, NULL, no_param, blocks_of(p->lines));
  for (int64_t l = 0; l < p->lines; l++)
    if (form == TIDE__LINES_LOGSUMEXP)
      out[l] = p->most[l] + p->sum[l];
    else
      for (int64_t i = 0; i < p->wide; i += LANES, less += LANES, out += LANES)
        *(four *)out = *(const four *)less - p->sum[l];
}

void tide__short_lines(const tide__isa *isa, tide__lines_form form, float *out, const float *in, int64_t n,
                       int64_t lines) {
  piece p = {.n = n, .wide = (n + LANES - 1) / LANES * LANES};
  const float nothing = 0;
  const bool each = form != TIDE__LINES_LOGSUMEXP, filled = p.wide != n;
  for (int64_t at = 0; at < lines; at += p.lines, in += p.lines * n, out += p.lines * (each ? n : 1)) {
    p.lines = lines - at < PIECE / p.wide ? lines - at : PIECE / p.wide;
    if (filled) fill_up(&p, in);
    subtract_most(&p, filled ? p.x : in, !each);
    isa->exp_less[0](p.y, p.less, NULL, NULL, &nothing, blocks_of(p.lines * p.wide));
    finish(isa, &p, form, each && filled ? p.x : out);
    if (each && filled) take_out(&p, out);
  }
}
