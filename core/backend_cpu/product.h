/* product.h: template of the inner loop of matrix products and of writes around the caches, for one instruction set. */

/* c[6][lanes] += sum over k of a[k][6] * b[k][lanes]: six rows of one 64-byte vector stay in registers. */
#define PRODUCT(s, T)                                                                                                  \
  static void product_##s(void *c_, int64_t c_row, const void *a_, const void *b_, int64_t k) {                        \
    T *c = c_;                                                                                                         \
    const T *a = a_, *b = b_;                                                                                          \
    vec_##s acc[6] = {{0}};                                                                                            \
    for (int64_t p = 0; p < k; p++) {                                                                                  \
      vec_##s row = *(const load_##s *)(b + p * FOLD_LANES(T));                                                        \
      for (int r = 0; r < 6; r++) acc[r] += a[6 * p + r] * row;                                                        \
    }                                                                                                                  \
    for (int r = 0; r < 6; r++) *(load_##s *)(c + r * c_row) += acc[r];                                                \
  }
PRODUCT(f32, float)
PRODUCT(f64, double)
PRODUCT(i32, int32_t)
PRODUCT(i64, int64_t)

static void stream_copy(void *out, const void *in, size_t bytes) {
#if defined(__x86_64__)
  char *d = out;
  const char *s = in;
  size_t head = (size_t)(-(uintptr_t)d & 63);
  if (head > bytes) head = bytes;
  memcpy(d, s, head);
  d += head, s += head, bytes -= head;
  for (; bytes >= 64; bytes -= 64, d += 64, s += 64) {
#  if defined(TIDE_ISA_AVX512)
    _mm512_stream_si512((__m512i *)d, _mm512_loadu_si512(s));
#  elif defined(TIDE_ISA_AVX2)
    _mm256_stream_si256((__m256i *)d, _mm256_loadu_si256((const __m256i *)s));
    _mm256_stream_si256((__m256i *)(d + 32), _mm256_loadu_si256((const __m256i *)(s + 32)));
#  else
    for (int k = 0; k < 64; k += 16) _mm_stream_si128((__m128i *)(d + k), _mm_loadu_si128((const __m128i *)(s + k)));
#  endif
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

#define PRODUCT_TABLE                                                                                                  \
  .product = {product_i32, product_i64, product_f32, product_f64}, .stream = stream_copy, .stream_end = stream_end
