/* product.h: template of the inner loops of matrix products and of writes around the caches, for one instruction set.
 *
 * A product's tile is two vectors wide and at most PRODUCT_ROWS rows high, all of which stay in registers; there is a
 * loop for each height down to half of that, so that the rows of a matrix are cut evenly and none is computed for
 * nothing. Numbers of floats are fused multiply-adds where the processor has them, one after another along k, so that
 * AVX2 and AVX-512 give the same bits. */

/* GCC counts the registers right only where the loops over them are gone. */
#if defined(__clang__)
#  define PRODUCT_UNROLL _Pragma("clang loop unroll(full)")
#else
#  define PRODUCT_UNROLL _Pragma("GCC unroll 64")
#endif

#if defined(TIDE_ISA_AVX512)
#  define PRODUCT_ROWS      14
#  define FUSE_f32(a, b, c) (wide_f32) _mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c))
#  define FUSE_f64(a, b, c) (wide_f64) _mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c))
#elif defined(TIDE_ISA_AVX2)
#  define PRODUCT_ROWS      6
#  define FUSE_f32(a, b, c) (wide_f32) _mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c))
#  define FUSE_f64(a, b, c) (wide_f64) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c))
#else
#  if defined(__x86_64__)
#    define PRODUCT_ROWS 4
#  else
#    define PRODUCT_ROWS 8
#  endif
#  define FUSE_f32(a, b, c) ((a) * (b) + (c))
#  define FUSE_f64(a, b, c) ((a) * (b) + (c))
#endif
/* X(height) for every height of a tile. */
#if PRODUCT_ROWS == 14
#  define PRODUCT_HEIGHTS(X, ...)                                                                                      \
    X(7, __VA_ARGS__)                                                                                                  \
    X(8, __VA_ARGS__)                                                                                                  \
    X(9, __VA_ARGS__) X(10, __VA_ARGS__) X(11, __VA_ARGS__) X(12, __VA_ARGS__) X(13, __VA_ARGS__) X(14, __VA_ARGS__)
#elif PRODUCT_ROWS == 8
#  define PRODUCT_HEIGHTS(X, ...)                                                                                      \
    X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__) X(7, __VA_ARGS__) X(8, __VA_ARGS__)
#elif PRODUCT_ROWS == 6
#  define PRODUCT_HEIGHTS(X, ...) X(3, __VA_ARGS__) X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__)
#else
#  define PRODUCT_HEIGHTS(X, ...) X(2, __VA_ARGS__) X(3, __VA_ARGS__) X(4, __VA_ARGS__)
#endif
#define FUSE_i32(a, b, c) ((a) * (b) + (c))
#define FUSE_i64(a, b, c) ((a) * (b) + (c))
#define PRODUCT_LANES(T)  (int)(FOLD_WIDTH / sizeof(T))

/* Bytes of what is needed next that each of the product's PRODUCT_ROWS parts of k asks for. */
enum { PRODUCT_NEXT = 512 };

/* One tile (isa.h). a and b are asked for some steps ahead; where the sums go, and `next` unless it is NULL, is asked
 * for little by little, so that the loop never waits for all of it at once. */
#define PRODUCT_OPEN(rows, s, T)                                                                                       \
  enum { N = PRODUCT_LANES(T), AHEAD = 1024 };                                                                         \
  T *c = t->c;                                                                                                         \
  const int64_t c_row = t->c_row;                                                                                      \
  const char *next = t->next;                                                                                          \
  wide_##s left[rows], right[rows];                                                                                    \
  PRODUCT_UNROLL                                                                                                       \
  for (int r = 0; r < rows; r++) left[r] = right[r] = (wide_##s){0};
#define PRODUCT_ASK(rows)                                                                                              \
  __builtin_prefetch(c + (q < rows ? q : 0) * c_row, 1, 2);                                                            \
  __builtin_prefetch(c + (q < rows ? q : 0) * c_row + N, 1, 2);                                                        \
  for (int64_t line = 0; next && line < PRODUCT_NEXT; line += 64)                                                      \
    __builtin_prefetch(next + q * PRODUCT_NEXT + line, 0, 2);
/* b: a row of b; a_at: where the number of row r is; a_ahead: what is needed later. */
#define PRODUCT_STEP(rows, s, T, a_at, b, a_ahead)                                                                     \
  {                                                                                                                    \
    wide_##s x = *(const wide_load_##s *)(b), y = *(const wide_load_##s *)((b) + N);                                   \
    __builtin_prefetch(a_ahead);                                                                                       \
    if (FOLD_WIDTH == 64 && sizeof(T) == 8) __builtin_prefetch((a_ahead) + 64);                                        \
    PRODUCT_UNROLL                                                                                                     \
    for (int r = 0; r < rows; r++) {                                                                                   \
      wide_##s one = *(const T *)(const void *)(a_at) - (wide_##s){0};                                                 \
      left[r] = FUSE_##s(one, x, left[r]);                                                                             \
      right[r] = FUSE_##s(one, y, right[r]);                                                                           \
    }                                                                                                                  \
  }
#define PRODUCT_CLOSE(rows, s)                                                                                         \
  PRODUCT_UNROLL                                                                                                       \
  for (int r = 0; r < rows; r++) {                                                                                     \
    wide_load_##s *to = (wide_load_##s *)(c + r * c_row), *then = (wide_load_##s *)(c + r * c_row + N);                \
    if (t->add) left[r] += *to, right[r] += *then;                                                                     \
    *to = left[r], *then = right[r];                                                                                   \
  }

/* Every third row of a has an address of its own, as many as there are registers for. */
#define PRODUCT(rows, s, T)                                                                                            \
  static void product_##s##_##rows(const tide__tile *t) {                                                              \
    PRODUCT_OPEN(rows, s, T)                                                                                           \
    const int64_t a_row = t->a_row, a_step = t->a_step, b_step = t->b_step, b_ahead = t->b_ahead;                      \
    const char *a[(rows + 2) / 3];                                                                                     \
    const T *b = t->b;                                                                                                 \
    PRODUCT_UNROLL                                                                                                     \
    for (int r = 0; r < rows; r += 3) a[r / 3] = (const char *)t->a + r * a_row;                                       \
    for (int64_t q = 0, p = 0; q < PRODUCT_ROWS; q++) {                                                                \
      PRODUCT_ASK(rows)                                                                                                \
      for (const int64_t end = t->k * (q + 1) / PRODUCT_ROWS; p < end; p++, b += b_step) {                             \
        __builtin_prefetch(b + b_ahead);                                                                               \
        if (FOLD_WIDTH == 64) __builtin_prefetch(b + b_ahead + N);                                                     \
        PRODUCT_STEP(rows, s, T, a[r / 3] + r % 3 * a_row, b, a[0] + AHEAD)                                            \
        PRODUCT_UNROLL                                                                                                 \
        for (int r = 0; r < rows; r += 3) a[r / 3] += a_step;                                                          \
      }                                                                                                                \
    }                                                                                                                  \
    PRODUCT_CLOSE(rows, s)                                                                                             \
  }
/* The same where a is a packed panel and b's rows begin at `at`. */
#define PRODUCT_PLACED(rows, s, T)                                                                                     \
  static void product_placed_##s##_##rows(const tide__tile *t) {                                                       \
    PRODUCT_OPEN(rows, s, T)                                                                                           \
    const int64_t *at = t->at;                                                                                         \
    const char *a = t->a;                                                                                              \
    const T *b = t->b;                                                                                                 \
    for (int64_t q = 0; q < PRODUCT_ROWS; q++) {                                                                       \
      PRODUCT_ASK(rows)                                                                                                \
      for (const int64_t *end = t->at + t->k * (q + 1) / PRODUCT_ROWS; at < end;                                       \
           at++, a += PRODUCT_ROWS * sizeof(T)) {                                                                      \
        __builtin_prefetch(b + at[TIDE__PRODUCT_AHEAD]);                                                               \
        if (FOLD_WIDTH == 64) __builtin_prefetch(b + at[TIDE__PRODUCT_AHEAD] + N);                                     \
        PRODUCT_STEP(rows, s, T, a + r * sizeof(T), b + *at, a + AHEAD)                                                \
      }                                                                                                                \
    }                                                                                                                  \
    PRODUCT_CLOSE(rows, s)                                                                                             \
  }
PRODUCT_HEIGHTS(PRODUCT, f32, float)
PRODUCT_HEIGHTS(PRODUCT, f64, double)
#if PRODUCT_ROWS == 14
/* Integers multiply so slowly that a tile in two halves takes no longer: four loops serve all heights. */
#  define PRODUCT_HALF(X, ...) X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__) X(7, __VA_ARGS__)
static void product_halves(const tide__tile *t, int rows, size_t item, const tide__product *half) {
  const int top = rows - rows / 2;
  tide__tile part = *t;
  half[top - 4](&part);
  part.c = (char *)t->c + top * t->c_row * (int64_t)item;
  part.a = (const char *)t->a + top * t->a_row;
  part.next = NULL;
  half[rows / 2 - 4](&part);
}
#  define PRODUCT_NAME(rows, s) product_##s##_##rows,
#  define PRODUCT_HALVED(rows, s, T)                                                                                   \
    static void product_##s##_##rows(const tide__tile *t) { product_halves(t, rows, sizeof(T), product_half_##s); }
#  define PRODUCT_INTEGERS(s, T)                                                                                       \
    PRODUCT_HALF(PRODUCT, s, T)                                                                                        \
    static const tide__product product_half_##s[] = {PRODUCT_HALF(PRODUCT_NAME, s)};                                   \
    PRODUCT_HALVED(8, s, T)                                                                                            \
    PRODUCT_HALVED(9, s, T)                                                                                            \
    PRODUCT_HALVED(10, s, T)                                                                                           \
    PRODUCT_HALVED(11, s, T)                                                                                           \
    PRODUCT_HALVED(12, s, T)                                                                                           \
    PRODUCT_HALVED(13, s, T)                                                                                           \
    PRODUCT_HALVED(14, s, T)
#else
#  define PRODUCT_INTEGERS(s, T) PRODUCT_HEIGHTS(PRODUCT, s, T)
#endif
PRODUCT_INTEGERS(i32, int32_t)
PRODUCT_INTEGERS(i64, int64_t)
PRODUCT_HEIGHTS(PRODUCT_PLACED, f32, float)
PRODUCT_HEIGHTS(PRODUCT_PLACED, f64, double)

#include "product_pack.h"

/* The step of two rows of DOTS: `lanes` numbers of each and of x. */
#define DOTS_STEP(s, a, b, x)                                                                                          \
  PRODUCT_UNROLL                                                                                                       \
  for (int v = 0; v < V; v++) {                                                                                        \
    wide_##s by = *(const wide_load_##s *)((x) + v * N);                                                               \
    one[v] = FUSE_##s(*(const wide_load_##s *)((a) + v * N), by, one[v]);                                              \
    two[v] = FUSE_##s(*(const wide_load_##s *)((b) + v * N), by, two[v]);                                              \
  }

/* out[row] = the sum over i of a[row * pitch + i] * x[i]: in 128 bytes of lanes, whatever the instruction set, that
 * meet in double. */
#define DOTS(s, T)                                                                                                     \
  static void dots_##s(double *out, const void *a_, int64_t pitch, const void *x_, int64_t rows, int64_t n) {          \
    enum { N = PRODUCT_LANES(T), V = 128 / FOLD_WIDTH };                                                               \
    const T *x = x_;                                                                                                   \
    for (int64_t r = 0; r < rows; r += 2) {                                                                            \
      const T *a = (const T *)a_ + r * pitch, *b = r + 1 < rows ? a + pitch : a;                                       \
      wide_##s one[V], two[V];                                                                                         \
      T rest[3][N * V] = {{0}}, lane[2][N * V];                                                                        \
      double sum[2] = {0, 0};                                                                                          \
      int64_t i = 0;                                                                                                   \
      PRODUCT_UNROLL                                                                                                   \
      for (int v = 0; v < V; v++) one[v] = two[v] = (wide_##s){0};                                                     \
      for (; i + N * V <= n; i += N * V) DOTS_STEP(s, a + i, b + i, x + i)                                             \
      if (i < n) {                                                                                                     \
        memcpy(rest[0], a + i, (size_t)(n - i) * sizeof(T));                                                           \
        memcpy(rest[1], b + i, (size_t)(n - i) * sizeof(T));                                                           \
        memcpy(rest[2], x + i, (size_t)(n - i) * sizeof(T));                                                           \
        DOTS_STEP(s, rest[0], rest[1], rest[2])                                                                        \
      }                                                                                                                \
      memcpy(lane[0], one, sizeof one);                                                                                \
      memcpy(lane[1], two, sizeof two);                                                                                \
      for (int l = 0; l < N * V; l++) sum[0] += (double)lane[0][l], sum[1] += (double)lane[1][l];                      \
      out[r] = sum[0];                                                                                                 \
      if (r + 1 < rows) out[r + 1] = sum[1];                                                                           \
    }                                                                                                                  \
  }
DOTS(f32, float)
DOTS(f64, double)

/* acc[i] += the sum over four columns of a[column * pitch + i] * x[column], for n numbers, a multiple of 64 bytes of
 * them in acc; what a lacks of the last ones is not read. */
#define COLUMNS(s, T)                                                                                                  \
  static void columns_##s(void *acc_, const void *a_, int64_t pitch, const void *x_, int64_t columns, int64_t n) {     \
    enum { N = PRODUCT_LANES(T) };                                                                                     \
    T *acc = acc_;                                                                                                     \
    const T *a = a_, *x = x_;                                                                                          \
    for (int64_t q = 0; q < columns; q += 4, a += 4 * pitch) {                                                         \
      const int64_t two = q + 1 < columns ? pitch : 0, three = q + 2 < columns ? 2 * pitch : 0,                        \
                    four = q + 3 < columns ? 3 * pitch : 0;                                                            \
      const wide_##s zero = {0}, x0 = x[q] - zero, x1 = two ? x[q + 1] - zero : zero,                                  \
                     x2 = three ? x[q + 2] - zero : zero, x3 = four ? x[q + 3] - zero : zero;                          \
      int64_t i = 0;                                                                                                   \
      for (; i + N <= n; i += N) {                                                                                     \
        wide_##s y = *(wide_load_##s *)(acc + i);                                                                      \
        y = FUSE_##s(*(const wide_load_##s *)(a + i), x0, y);                                                          \
        if (two) y = FUSE_##s(*(const wide_load_##s *)(a + two + i), x1, y);                                           \
        if (three) y = FUSE_##s(*(const wide_load_##s *)(a + three + i), x2, y);                                       \
        if (four) y = FUSE_##s(*(const wide_load_##s *)(a + four + i), x3, y);                                         \
        *(wide_load_##s *)(acc + i) = y;                                                                               \
      }                                                                                                                \
      const T *from[4] = {a, a + two, a + three, a + four};                                                            \
      const int64_t some = columns - q < 4 ? columns - q : 4;                                                          \
      for (int64_t c = 0; c < some && i < n; c++) {                                                                    \
        wide_##s part = zero, by = x[q + c] - zero;                                                                    \
        memcpy(&part, from[c] + i, (size_t)(n - i) * sizeof(T));                                                       \
        *(wide_load_##s *)(acc + i) = FUSE_##s(part, by, *(wide_load_##s *)(acc + i));                                 \
      }                                                                                                                \
    }                                                                                                                  \
  }
COLUMNS(f32, float)
COLUMNS(f64, double)

/* A difference by itself is its square, by 1 with its sign its absolute value. */
#define DISTANCES(s, T)                                                                                                \
  static void distances_##s(void *out_, const void *x_, const void *y_, int64_t k, bool square) {                      \
    enum { N = PRODUCT_LANES(T) };                                                                                     \
    const T *x = x_, *y = y_, *then = y + 2 * N * k, unit = square ? 0 : 1;                                            \
    const wide_##s zero = {0};                                                                                         \
    const wide_mask_##s set = (wide_mask_##s)(unit - zero);                                                            \
    const wide_mask_##s keep = square ? ~(wide_mask_##s){0} : (wide_mask_##s)(-zero);                                  \
    wide_##s sum[4] = {zero, zero, zero, zero};                                                                        \
    for (int64_t p = 0; p < k; p++, y += 2 * N, then += 2 * N) {                                                       \
      const wide_##s by = x[p] - zero;                                                                                 \
      PRODUCT_UNROLL                                                                                                   \
      for (int v = 0; v < 4; v++) {                                                                                    \
        const wide_##s d = by - *(const wide_load_##s *)((v < 2 ? y : then) + v % 2 * N);                              \
        sum[v] = FUSE_##s(d, (wide_##s)(((wide_mask_##s)d & keep) | set), sum[v]);                                     \
      }                                                                                                                \
    }                                                                                                                  \
    PRODUCT_UNROLL                                                                                                     \
    for (int v = 0; v < 4; v++) *(wide_load_##s *)((T *)out_ + v * N) = sum[v];                                        \
  }
DISTANCES(f32, float)
DISTANCES(f64, double)

/* Writes a vector around the caches. */
#if defined(TIDE_ISA_AVX512)
#  define STREAM(out, y) _mm512_stream_si512((__m512i *)(void *)(out), (__m512i)(y))
#elif defined(TIDE_ISA_AVX2)
#  define STREAM(out, y) _mm256_stream_si256((__m256i *)(void *)(out), (__m256i)(y))
#elif defined(__x86_64__)
#  define STREAM(out, y) _mm_stream_si128((__m128i *)(void *)(out), (__m128i)(y))
#else
#  define STREAM(out, y) memcpy(out, &(y), sizeof(y))
#endif

/* Loops that wait for the memory. */
#if defined(__clang__)
#  define PRODUCT_SMALL static
#else
#  define PRODUCT_SMALL static __attribute__((optimize("Os")))
#endif
#define ROW_PRODUCTS(s, T)                                                                                             \
  PRODUCT_SMALL void row_products_##s(void *out_, const void *a_, int64_t a_step, const void *b_, int64_t b_step,      \
                                      int64_t rows, int64_t cols, bool stream) {                                       \
    enum { N = PRODUCT_LANES(T) };                                                                                     \
    T *out = out_;                                                                                                     \
    const T *a = a_, *b = b_;                                                                                          \
    for (; rows > 0; rows--, out += cols, a += a_step, b += b_step) {                                                  \
      const T x = *a; /* which may be an element of this row of out */                                                 \
      int64_t c = 0;                                                                                                   \
      for (; c + N <= cols; c += N) {                                                                                  \
        const wide_##s y = x * *(const wide_load_##s *)(b + c);                                                        \
        if (stream)                                                                                                    \
          STREAM(out + c, y);                                                                                          \
        else                                                                                                           \
          *(wide_load_##s *)(out + c) = y;                                                                             \
      }                                                                                                                \
      for (; c < cols; c++) out[c] = x * b[c];                                                                         \
    }                                                                                                                  \
  }
ROW_PRODUCTS(f32, float)
ROW_PRODUCTS(f64, double)

static void stream_copy(void *out, const void *in, size_t bytes) {
#if defined(__x86_64__)
  char *d = out;
  const char *s = in;
  size_t head = (size_t)(-(uintptr_t)d & 63);
  if (head > bytes) head = bytes;
  memcpy(d, s, head);
  d += head, s += head, bytes -= head;
  for (; bytes >= FOLD_WIDTH; bytes -= FOLD_WIDTH, d += FOLD_WIDTH, s += FOLD_WIDTH) {
    const wide_i32 y = *(const wide_load_i32 *)(const void *)s;
    STREAM(d, y);
  }
  memcpy(d, s, bytes);
#else
  memcpy(out, in, bytes);
#endif
}

/* Orders the streamed writes before what follows on this thread. */
static void stream_end(void) {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

#undef PRODUCT_NAME
#define PRODUCT_NAME(rows, s)        product_##s##_##rows,
#define PRODUCT_PLACED_NAME(rows, s) product_placed_##s##_##rows,
#define PRODUCT_TABLE                                                                                                  \
  .product = {{PRODUCT_HEIGHTS(PRODUCT_NAME, i32)},                                                                    \
              {PRODUCT_HEIGHTS(PRODUCT_NAME, i64)},                                                                    \
              {PRODUCT_HEIGHTS(PRODUCT_NAME, f32)},                                                                    \
              {PRODUCT_HEIGHTS(PRODUCT_NAME, f64)}},                                                                   \
  .product_placed = {{PRODUCT_HEIGHTS(PRODUCT_PLACED_NAME, f32)}, {PRODUCT_HEIGHTS(PRODUCT_PLACED_NAME, f64)}},        \
  .product_rows = PRODUCT_ROWS, .product_bytes = 2 * FOLD_WIDTH, .product_next = PRODUCT_ROWS * PRODUCT_NEXT,          \
  .pack_rows = {pack_rows_4, pack_rows_8}, .pack_lanes = {pack_lanes_4, pack_lanes_8}, .pack_runs = pack_runs,         \
  .dots = {dots_f32, dots_f64}, .columns = {columns_f32, columns_f64}, .distances = {distances_f32, distances_f64},    \
  .row_products = {row_products_f32, row_products_f64}, .stream = stream_copy, .stream_end = stream_end
