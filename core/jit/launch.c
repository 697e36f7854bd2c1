/* launch.c: elementwise kernels that were made at run time, queued: what of the arguments every launch has.
 *
 * Flat kernels count their threads in 32 bits, strided ones their elements: what is larger is done in parts, of which a
 * strided one is the half of a dim.
 *
 * Invariant: a launch counts at most 2^30 elements where it computes indexes. */
#include "function.h"

enum { MOST = 1 << 30 };

static const uint16_t no_offset[1];

/* The lanes of a thread are a power of two of elements. */
static void put_count(char *packed, const tide__jit_plan *p, int64_t n) {
  int shift = __builtin_ctz((unsigned)p->layout.vector);
  const uint32_t threads[] = {(uint32_t)((n + p->layout.vector - 1) >> shift), (uint32_t)(n >> shift)};
  memcpy(packed + p->layout.count, &n, sizeof n);
  if (!p->special.ndim) memcpy(packed + p->layout.count + sizeof n, threads, sizeof threads);
}

/* Fills in what every launch has; the packed block holds the scalars and the addresses of `n` elements already. */
static tide_status launch_part(const tide__jit_plan *p, tide__queue *q, char *packed, int64_t n, int device,
                               uint32_t site, tide__launch what) {
  uint16_t pointer[TIDE_JIT_OPERANDS];
  int operands = p->special.operands;
  for (int k = 0; k < operands; k++) pointer[k] = (uint16_t)(p->layout.pointers + 8 * k);
  put_count(packed, p, n);
  int64_t blocks = (n + p->tile - 1) / p->tile;
  const tide_launch a = {.grid = {(uint32_t)blocks, 1, 1},
                         .block = {(uint32_t)p->compiler->threads, 1, 1},
                         .site = site,
                         .device = device,
                         .moved = n * p->moved,
                         .elementwise = true,
                         .params = 1,
                         .pointers = (uint16_t)operands,
                         .bytes = p->layout.bytes,
                         .mail = p->mail,
                         .packed = packed,
                         .offset = no_offset,
                         .pointer = pointer};
  return tide__jit_launch(p->compiler, p->function, q, what, &a);
}

int64_t tide__jit_most_threads = (int64_t)1 << 31;

tide_status tide__jit_launch_flat(const tide__jit_plan *p, tide__queue *q, char *packed, int64_t n, int device,
                                  tide__launch what) {
  uint32_t site = device < 0 ? 0 : tide__site_now();
  int64_t most = tide__jit_most_threads * p->layout.vector;
  for (; TIDE_UNLIKELY(n > most); n -= most) {
    TIDE_TRY(launch_part(p, q, packed, most, device, site, what));
    for (int k = 0; k < p->special.operands - p->special.uniform; k++) {
      char *ptr, *at = packed + p->layout.pointers + 8 * k;
      memcpy(&ptr, at, sizeof ptr);
      ptr += most * tide__itemsize(p->special.dtype[k]);
      memcpy(at, &ptr, sizeof ptr);
    }
  }
  return launch_part(p, q, packed, n, device, site, what);
}

/* ---- strided ---- */

typedef struct divisor {
  uint32_t d, mul, shift;
} divisor;

/* For n < 2^31: n / d is (high half of n * mul, plus n) >> shift (T. Granlund, P. Montgomery, PLDI 1994). */
static divisor make_divisor(int64_t d) {
  divisor out = {(uint32_t)d, 1, 0};
  while (((uint64_t)1 << out.shift) < (uint64_t)d) out.shift++;
  out.mul = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << out.shift) - (uint64_t)d)) / (uint64_t)d + 1);
  return out;
}

typedef struct strided {
  const tide__jit_plan *plan;
  tide__queue *q;
  char *packed;
  int device;
  uint32_t site;
  tide__launch what;
} strided;

static tide_status launch_piece(const strided *s, const tide__work *w) {
  const tide__jit_plan *p = s->plan;
  int operands = p->special.operands;
  memcpy(s->packed + p->layout.pointers, w->ptr, (size_t)operands * sizeof w->ptr[0]);
  for (int d = 0; d < w->ndim; d++) {
    divisor by = make_divisor(w->size[d]);
    memcpy(s->packed + p->layout.divisors + (size_t)d * sizeof by, &by, sizeof by);
    for (int k = 0; k < operands; k++)
      memcpy(s->packed + p->layout.strides + (size_t)(d * operands + k) * 8, &w->stride[k][d], 8);
  }
  return launch_part(p, s->q, s->packed, w->numel, s->device, s->site, s->what);
}

/* Halves the outermost dim that can be. */
static tide_status launch_pieces(const strided *s, const tide__work *w) {
  if (w->numel <= MOST) return launch_piece(s, w);
  int d = 0;
  while (w->size[d] == 1) d++;
  tide__work low = *w, high = *w;
  low.size[d] = w->size[d] / 2, high.size[d] = w->size[d] - low.size[d];
  low.numel = w->numel / w->size[d] * low.size[d], high.numel = w->numel - low.numel;
  for (int k = 0; k < s->plan->special.operands; k++)
    high.ptr[k] += low.size[d] * w->stride[k][d] * tide__itemsize(s->plan->special.dtype[k]);
  TIDE_TRY(launch_pieces(s, &low));
  return launch_pieces(s, &high);
}

tide_status tide__jit_launch_strided(const tide__jit_plan *p, tide__queue *q, char *packed, const tide__work *w,
                                     int device, tide__launch what) {
  const strided s = {p, q, packed, device, device < 0 ? 0 : tide__site_now(), what};
  return launch_pieces(&s, w);
}
