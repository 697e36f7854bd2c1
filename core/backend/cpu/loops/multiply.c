/* multiply.c: products of a number and a row, many times, as an outer product is, or rows that are scaled.
 *
 * Elementwise loops read operands that follow each other, so that the number would be written down for each element of
 * its row first; where rows are short that, and the finding of each row, takes longer than the products. */
#include "layout.h"

enum { MANY_ROWS = 64, ROW_BYTES = 64 }; /* at least: rows are shared out between threads, and read by whole vectors */

typedef struct work {
  const tide_elementwise_args *a;
  const tide__isa *isa;
  tide__row_products run;
  int by, item; /* the operand that repeats a number in every row, and bytes of an element */
  bool stream;
} work;

static void multiply_range(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tide_elementwise_args *a = w->a;
  const int side = a->ndim - 2, by = w->by, of = 3 - by;
  const int64_t cols = a->size[side + 1];
  for (int64_t row = begin, n; row < end; row += n) {
    const char *in[3] = {NULL, a->head.ptr[1], a->head.ptr[2]};
    int64_t rest = row;
    n = a->size[side] - row % a->size[side];
    if (n > end - row) n = end - row;
    for (int d = side; d >= 0; d--) {
      int64_t i = rest % a->size[d] * w->item;
      in[1] += i * a->stride[1][d], in[2] += i * a->stride[2][d], rest /= a->size[d];
    }
    w->run((char *)a->head.ptr[0] + row * cols * w->item, in[by], a->stride[by][side], in[of], a->stride[of][side], n,
           cols, w->stream);
  }
  if (w->stream) w->isa->stream_end();
}

bool tide__multiply_rows(const tide__isa *isa, const tide_elementwise_args *a, bool stream) {
  const int last = a->ndim - 1, item = tide__item(a->compute);
  const int64_t cols = a->size[last], left = a->stride[1][last], right = a->stride[2][last];
  if (a->flat || (a->compute != TIDE_FLOAT32 && a->compute != TIDE_FLOAT64)) return false;
  for (int k = 0; k < 3; k++)
    if (a->is_number[k] || a->dtype[k] != a->compute) return false;
  if ((left | right) != 1 || (left & right) || cols * item < ROW_BYTES) return false;
  int64_t rows = 1;
  for (int d = last; d >= 0; d--) {
    if (a->stride[0][d] != rows * (d < last ? cols : 1)) return false;
    if (d < last) rows *= a->size[d];
  }
  if (rows < MANY_ROWS) return false;
  work w = {.a = a, .isa = isa, .run = isa->row_products[item / 8], .by = left ? 2 : 1, .item = item};
  w.stream = stream && (uintptr_t)a->head.ptr[0] % 64 == 0 && cols * item % 64 == 0;
  tide__spread(rows, cols, multiply_range, &w);
  return true;
}
