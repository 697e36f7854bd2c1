/* sanitizer_region.c: which bytes of its storage a view touches, and whether two views touch the same.
 *
 * A view is runs of bytes at regular distances. Dims that stand next to each other without a hole become one run,
 * others are kept as they are, so that two columns of a matrix, or the even and the odd elements of a vector, are told
 * apart. Two such sets share a byte exactly if some sum of multiples of all their strides falls into a small window: a
 * search over one stride after the other, the largest first, which gives up a branch as soon as what is left cannot
 * reach the window, by its size or by its greatest common divisor. For views as programs make them a few steps decide.
 *
 * Invariant: what meets does share a byte. Where the search would take too long, or a view has too many dims to be
 * kept, the answer is no: a race may be missed there, and none is made up. */
#include "sanitizer.h"

enum { TERMS = 2 * TIDE__REGION_DIMS, STEPS = 4096 };

/* ---- making ---- */

/* The dims that have more than one position, by ascending stride in bytes; where strides are negative, `first`
 * moves. */
static int sort_dims(int64_t *size, int64_t *stride, int64_t *first, const tide_tensor *x, int64_t item) {
  int n = 0;
  for (int d = 0; d < x->ndim; d++) {
    int64_t step = x->stride[d] * item;
    if (x->size[d] < 2 || step == 0) continue;
    if (step < 0) {
      *first += step * (x->size[d] - 1);
      step = -step;
    }
    int i = n++;
    for (; i > 0 && stride[i - 1] > step; i--) size[i] = size[i - 1], stride[i] = stride[i - 1];
    size[i] = x->size[d], stride[i] = step;
  }
  return n;
}

void tide__region_of(tide__region *out, const tide_tensor *x) {
  int64_t item = tide__itemsize(x->dtype), size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  out->first = x->offset * item;
  out->n = 0;
  if (x->contiguous) {
    out->run = x->numel * item;
    out->last = out->first + out->run;
    return;
  }
  int n = sort_dims(size, stride, &out->first, x, item), d = 0;
  for (out->run = item; d < n && stride[d] <= out->run; d++) out->run += stride[d] * (size[d] - 1);
  for (; d < n; d++) {
    int k = out->n;
    if (k && stride[d] == out->stride[k - 1] * out->size[k - 1])
      out->size[k - 1] *= size[d];
    else if (k < TIDE__REGION_DIMS)
      out->size[k] = size[d], out->stride[k] = stride[d], out->n++;
  }
  out->last = out->first + out->run;
  for (d = 0; d < out->n; d++) out->last += out->stride[d] * (out->size[d] - 1);
}

/* ---- do two share a byte? ---- */

typedef struct search {
  int n, steps;
  int64_t stride[TERMS], most[TERMS];           /* x[i] of each term is 0 .. most[i]; the largest stride first */
  int64_t reach[TERMS + 1], divisor[TERMS + 1]; /* of the terms from i on */
} search;

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

/* Terms of one stride are one term. */
static void add_term(search *s, int64_t stride, int64_t most) {
  int i = s->n;
  for (int k = 0; k < s->n; k++)
    if (s->stride[k] == stride) {
      s->most[k] += most;
      return;
    }
  for (; i > 0 && s->stride[i - 1] < stride; i--) s->stride[i] = s->stride[i - 1], s->most[i] = s->most[i - 1];
  s->stride[i] = stride, s->most[i] = most;
  s->n++;
}

/* Does some sum of the terms from i on lie in [low, high]? */
static bool reaches(search *s, int i, int64_t low, int64_t high) {
  if (low < 0) low = 0;
  if (high > s->reach[i]) high = s->reach[i];
  if (low > high) return false;
  if (low == 0) return true; /* all of them 0 */
  if (high / s->divisor[i] * s->divisor[i] < low || --s->steps < 0) return false;
  int64_t stride = s->stride[i], rest = low - s->reach[i + 1];
  int64_t from = rest > 0 ? (rest + stride - 1) / stride : 0, to = high / stride;
  if (to > s->most[i]) to = s->most[i];
  for (int64_t x = to; x >= from; x--)
    if (reaches(s, i + 1, low - x * stride, high - x * stride)) return true;
  return false;
}

/* The distance between an element of a and one of b is their first distance, plus multiples of a's strides, minus
 * multiples of b's; the latter are counted down from the last element instead, so that all are added. */
bool tide__region_meets(const tide__region *a, const tide__region *b) {
  if (a->last <= b->first || b->last <= a->first) return false;
  if (a->n == 0 && b->n == 0) return true;
  search s = {.steps = STEPS};
  int64_t distance = a->first - (b->last - b->run);
  for (int d = 0; d < a->n; d++) add_term(&s, a->stride[d], a->size[d] - 1);
  for (int d = 0; d < b->n; d++) add_term(&s, b->stride[d], b->size[d] - 1);
  for (int i = s.n - 1; i >= 0; i--) {
    s.reach[i] = s.reach[i + 1] + s.stride[i] * s.most[i];
    s.divisor[i] = gcd(s.stride[i], s.divisor[i + 1]);
  }
  return reaches(&s, 0, 1 - a->run - distance, b->run - 1 - distance);
}

/* ---- one of two ---- */

static bool same_dims(const tide__region *a, const tide__region *b) {
  size_t bytes = (size_t)a->n * sizeof *a->size;
  return a->n == b->n && !memcmp(a->size, b->size, bytes) && !memcmp(a->stride, b->stride, bytes);
}

bool tide__region_covers(const tide__region *a, const tide__region *b) {
  if (a->n == 0) return a->first <= b->first && b->last <= a->last;
  return a->first <= b->first && b->first + b->run <= a->first + a->run && same_dims(a, b);
}

/* Runs that have grown together are one. */
static void close_up(tide__region *a) {
  while (a->n && a->run == a->stride[0]) {
    a->run += a->stride[0] * (a->size[0] - 1);
    a->n--;
    memmove(a->size, a->size + 1, (size_t)a->n * sizeof *a->size);
    memmove(a->stride, a->stride + 1, (size_t)a->n * sizeof *a->stride);
  }
}

bool tide__region_join(tide__region *a, const tide__region *b) {
  if (!same_dims(a, b)) return false;
  const tide__region *left = a->first <= b->first ? a : b, *right = left == a ? b : a;
  int64_t run = right->first + right->run - left->first;
  if (left->first + left->run < right->first || (a->n && run > a->stride[0])) return false;
  a->run = run > left->run ? run : left->run;
  a->last = left->last > right->last ? left->last : right->last;
  a->first = left->first;
  close_up(a);
  return true;
}
