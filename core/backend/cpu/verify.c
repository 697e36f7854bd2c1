/* verify.c: is every element of a tensor one that an operation can take? The first bad one that a thread meets
 * counts. */
#include <float.h>

#include "backend/cpu/loops/layout.h"

typedef struct work {
  const tide_verify_args *a;
  const tide__isa *isa;
  tide__grid grid;
  _Atomic bool bad;
  _Atomic int64_t value;
} work;

#define FIND(T, BAD)                                                                                                   \
  do {                                                                                                                 \
    const T *x = in;                                                                                                   \
    bool any = false;                                                                                                  \
    for (int64_t i = 0; i < n; i++) any |= (BAD);                                                                      \
    for (int64_t i = 0; any && i < n; i++)                                                                             \
      if (BAD) return i;                                                                                               \
    return -1;                                                                                                         \
  } while (0)

static int64_t find(const work *w, const void *in, int64_t n) {
  bool zero = w->a->kind == TIDE_VERIFY_NONZERO;
  double most = w->a->kind == TIDE_VERIFY_RATE ? DBL_MAX : 1;
  float narrow = w->a->kind == TIDE_VERIFY_RATE ? FLT_MAX : 1;
  switch (w->a->compute) {
  case TIDE_INT32: FIND(int32_t, x[i] == 0);
  case TIDE_INT64: FIND(int64_t, x[i] == 0);
  case TIDE_FLOAT32: FIND(float, zero ? x[i] == 0 : !((x[i] >= 0) & (x[i] <= narrow)));
  default: FIND(double, zero ? x[i] == 0 : !((x[i] >= 0) & (x[i] <= most)));
  }
}

static void run_chunks(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  const tide_verify_args *a = w->a;
  _Alignas(64) char buffer[TIDE_PIECE * 8], raw[TIDE_PIECE * 16];
  tide__chunk c;
  for (int64_t i = begin; i < end && !atomic_load_explicit(&w->bad, memory_order_relaxed); i++) {
    tide__grid_chunk(&c, &w->grid, i);
    const void *in = tide__chunk_load(w->isa, buffer, raw, a->head.ptr[1], &w->grid, &c, 0, a->compute, a->dtype);
    int64_t at = find(w, in, c.n), value = 0;
    if (at < 0) continue;
    double chance = a->compute == TIDE_FLOAT32 ? (double)((const float *)in)[at] : 0;
    if (a->compute == TIDE_FLOAT64) chance = ((const double *)in)[at];
    memcpy(&value, &chance, sizeof value);
    atomic_store_explicit(&w->value, value, memory_order_relaxed);
    atomic_store_explicit(&w->bad, true, memory_order_relaxed);
  }
}

bool tide__cpu_verify_bad(const tide_verify_args *a, int64_t *value) {
  work w = {.a = a, .isa = tide__isa_get()};
  atomic_init(&w.bad, false);
  atomic_init(&w.value, 0);
  tide__grid_init(&w.grid, a->ndim, a->size, a->stride, 1, TIDE_PIECE, true);
  tide__spread(w.grid.chunks, w.grid.high * w.grid.wide, run_chunks, &w);
  *value = atomic_load_explicit(&w.value, memory_order_relaxed);
  return atomic_load_explicit(&w.bad, memory_order_relaxed);
}

tide_status tide__cpu_verify(tide_stream *stream, const tide_verify_args *a) {
  int64_t value;
  return tide__cpu_verify_bad(a, &value) ? tide__fail_index(a->head.device, a->head.site, value, a->kind, 0) : TIDE_OK;
}
