/* conv.c: convolutions, as matrix products.
 *
 * The matrix that is multiplied has a column for each element of the result's planes and a row for each channel and
 * element of the kernel. It is never made as a whole: a task makes some of its columns, as many as the caches hold, and
 * multiplies the weights by them. A kernel of one element reads the input as it lies. float16 and bfloat16 become
 * float32 on the way, and their sums are rounded once.
 *
 * Invariant: an element of the result is written by one task. */
#include "layout.h"
#include "room.h"

enum { COLUMNS_BYTES = 2 << 20, LEAST_COLUMNS = 256, MOST_COLUMNS = 8192 };

typedef struct work {
  const tide_conv_args *a;
  const tide__isa *isa;
  int dtype;                 /* of the product: FLOAT32 or FLOAT64 */
  int64_t item, wide;        /* bytes of an element of the tensors, and of the product */
  int64_t m, k, n, in_plane; /* the product for a group of an image; elements of a plane of the input */
  int64_t columns, blocks;   /* of a task; tasks of a group */
  bool lies;                 /* the input is the matrix */
  const char *weights;       /* as `dtype` */
  _Atomic bool failed;
} work;

/* One row of the result's plane: n elements from `first` on, in steps of stride, of an input's row of `in`. */
#define PICK(T)                                                                                                        \
  {                                                                                                                    \
    T *to = (T *)(void *)out;                                                                                          \
    const T *from = (const T *)(const void *)row;                                                                      \
    if (up == 1) {                                                                                                     \
      for (int64_t i = 0; i < low; i++) to[i] = 0;                                                                     \
      for (int64_t i = low; i < end; i++) to[i] = from[first + i * stride];                                            \
      for (int64_t i = end; i < n; i++) to[i] = 0;                                                                     \
    } else                                                                                                             \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        int64_t p = first + i * stride;                                                                                \
        to[i] = p >= 0 && p % up == 0 && p / up < in ? from[p / up] : 0;                                               \
      }                                                                                                                \
  }                                                                                                                    \
  break

static void pick(char *out, const char *row, int64_t first, int64_t stride, int64_t up, int64_t in, int64_t n,
                 int64_t item) {
  int64_t low = first < 0 ? stride - 1 - first : 0, end = first < in ? in - first + stride - 1 : 0;
  if (stride > 1) low /= stride, end /= stride; /* which is slow */
  if (end > n) end = n;
  if (low > end) low = end;
  if (up == 1 && stride == 1) {
    memset(out, 0, (size_t)(low * item));
    memcpy(out + low * item, row + (first + low) * item, (size_t)((end - low) * item));
    memset(out + end * item, 0, (size_t)((n - end) * item));
    return;
  }
  switch (item) {
  case 2: PICK(uint16_t);
  case 4: PICK(uint32_t);
  default: PICK(uint64_t);
  }
}

/* The place along dim d of element i for element k of the kernel; -1: there is none. */
static int64_t place(const tide_conv_args *a, int d, int64_t i, int64_t k) {
  int64_t p = i * a->dim[d].stride - a->dim[d].before + k * a->dim[d].dilation;
  if (a->up[d] == 1) return p >= 0 && p < a->dim[d].in ? p : -1;
  return p >= 0 && p % a->up[d] == 0 && p / a->up[d] < a->dim[d].in ? p / a->up[d] : -1;
}

/* A row of the matrix: of one channel's plane and one element of the kernel, columns from .. from + n. */
static void make_row(const work *w, char *out, const char *plane, int64_t tap, int64_t from, int64_t n) {
  const tide_conv_args *a = w->a;
  const tide_taps *d = a->dim;
  const int64_t kx = tap % d[2].kernel, ky = tap / d[2].kernel % d[1].kernel, kz = tap / d[2].kernel / d[1].kernel;
  int64_t x = from % d[2].out, y = from / d[2].out % d[1].out, z = from / d[2].out / d[1].out;
  while (n > 0) {
    int64_t part = d[2].out - x < n ? d[2].out - x : n, in_y = place(a, 1, y, ky), in_z = place(a, 0, z, kz);
    if (in_y < 0 || in_z < 0)
      memset(out, 0, (size_t)(part * w->item));
    else
      pick(out, plane + (in_z * d[1].in + in_y) * d[2].in * w->item, x * d[2].stride - d[2].before + kx * d[2].dilation,
           d[2].stride, a->up[2], d[2].in, part, w->item);
    out += part * w->item, n -= part, x = 0;
    if (++y == d[1].out) y = 0, z++;
  }
}

/* Some columns as the product takes them. */
static void make_columns(const work *w, char *matrix, char *raw, const char *planes, int64_t from, int64_t n) {
  const tide_taps *d = w->a->dim;
  const int64_t taps = d[0].kernel * d[1].kernel * d[2].kernel;
  for (int64_t r = 0; r < w->k; r++) {
    char *row = matrix + r * n * w->wide;
    make_row(w, w->item == w->wide ? row : raw, planes + r / taps * w->in_plane * w->item, r % taps, from, n);
    if (w->item != w->wide) tide__cast(w->isa, row, w->dtype, raw, w->a->dtype, n);
  }
}

/* Rows of the result as they are before anything is added: the bias, or nothing. */
static void begin_rows(const work *w, char *c, int64_t pitch, int64_t result, int64_t n) {
  const char *bias = (const char *)w->a->head.ptr[3] + result * w->item;
  for (int64_t i = 0; i < w->m; i++, c += pitch * w->wide) {
    char *row = c;
    double value[1];
    tide__cast(w->isa, value, w->dtype, bias + i * w->item, w->a->dtype, 1);
    for (int64_t j = 0; j < n; j++) memcpy(row + j * w->wide, value, (size_t)w->wide);
  }
}

static tide_status task(const work *w, char *memory, int64_t index) {
  const tide_conv_args *a = w->a;
  const int64_t block = index % w->blocks, group = index / w->blocks % a->groups, image = index / w->blocks / a->groups;
  const int64_t from = block * w->columns, n = w->n - from < w->columns ? w->n - from : w->columns;
  const char *planes =
      (const char *)a->head.ptr[1] + (image * a->channels + group * (a->channels / a->groups)) * w->in_plane * w->item;
  char *out = (char *)a->head.ptr[0] + ((image * a->results + group * w->m) * w->n + from) * w->item;
  char *raw = memory + w->k * n * w->wide, *sums = raw + w->columns * w->wide;
  const bool direct = w->item == w->wide;
  if (!w->lies) make_columns(w, memory, raw, planes, from, n);
  tide_gemm_args g = {.dtype = w->dtype, .m = w->m, .n = n, .k = w->k, .batch = 1, .alpha = {.re = 1}};
  g.head.device = -1;
  g.head.ptr[0] = direct ? out : sums, g.c_row = direct ? w->n : n;
  g.head.ptr[1] = (void *)(w->weights + group * w->m * w->k * w->wide), g.a_row = w->k, g.a_col = 1;
  g.head.ptr[2] = w->lies ? (void *)(planes + from * w->item) : memory, g.b_row = w->lies ? w->n : n, g.b_col = 1;
  if (a->head.ptr[3]) begin_rows(w, g.head.ptr[0], g.c_row, group * w->m, n), g.beta.re = 1;
  TIDE_TRY(tide__cpu_gemm(NULL, &g));
  for (int64_t i = 0; i < w->m && !direct; i++)
    tide__cast(w->isa, out + i * w->n * w->item, a->dtype, sums + i * n * w->wide, w->dtype, n);
  return TIDE_OK;
}

static void run(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  int64_t floats = (w->lies ? 0 : w->k * w->columns) + w->columns + (w->item == w->wide ? 0 : w->m * w->columns);
  char *memory = tide__room_take((size_t)(floats * w->wide));
  bool fails = !memory;
  for (int64_t i = begin; i < end && !fails && !tide__loop_stops(); i++) fails = task(w, memory, i) != TIDE_OK;
  tide__room_put(memory);
  if (fails) atomic_store_explicit(&w->failed, true, memory_order_relaxed);
}

tide_status tide__cpu_conv(tide_stream *stream, const tide_conv_args *a) {
  (void)stream;
  const tide_taps *d = a->dim;
  work w = {.a = a, .isa = tide__isa_get(), .item = tide__item(a->dtype), .weights = a->head.ptr[2]};
  w.dtype = a->dtype == TIDE_FLOAT64 ? TIDE_FLOAT64 : TIDE_FLOAT32, w.wide = tide__item(w.dtype);
  w.m = a->results / a->groups, w.n = d[0].out * d[1].out * d[2].out, w.in_plane = d[0].in * d[1].in * d[2].in;
  w.k = a->channels / a->groups * d[0].kernel * d[1].kernel * d[2].kernel;
  w.lies = w.item == w.wide;
  for (int i = 0; i < 3; i++)
    w.lies = w.lies && d[i].kernel == 1 && d[i].stride == 1 && d[i].before == 0 && a->up[i] == 1 && d[i].in == d[i].out;
  w.columns = COLUMNS_BYTES / (w.k * w.wide) / 16 * 16;
  if (w.columns < LEAST_COLUMNS) w.columns = LEAST_COLUMNS;
  if (w.columns > MOST_COLUMNS) w.columns = MOST_COLUMNS;
  if (w.columns > w.n) w.columns = w.n;
  w.blocks = (w.n + w.columns - 1) / w.columns;
  char *weights = NULL;
  if (w.item != w.wide) {
    weights = tide__room_take((size_t)(a->results * w.k * w.wide));
    if (!weights) return tide__fail(TIDE_MEMORY, "conv: no memory for the weights as float32");
    tide__cast(w.isa, weights, w.dtype, a->head.ptr[2], a->dtype, a->results * w.k);
    w.weights = weights;
  }
  int64_t tasks = a->batch * a->groups * w.blocks;
  if (tasks < tide_get_num_threads())
    run(&w, 0, tasks); /* the products have threads of their own */
  else
    tide__spread(tasks, w.m * w.k * w.columns, run, &w);
  tide__room_put(weights);
  if (!atomic_load_explicit(&w.failed, memory_order_relaxed)) return TIDE_OK;
  return tide__fail(TIDE_MEMORY, "conv: no memory for %lld columns of %lld elements", (long long)w.columns,
                    (long long)w.k);
}
