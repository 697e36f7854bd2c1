/* fft_fold_template.h: template of Fourier transforms of one line that fills the lanes by itself; fft_lanes_template.h
 * includes it.
 *
 * The line is a matrix of `columns` rows, each of `rows` numbers that lie side by side: each lane transforms one of its
 * columns, the results are multiplied by their factors, and blocks of N by N of them are transposed, so that each lane
 * holds a row of what the second transforms run over. Where N does not divide, the last lanes do some lines again. */

/* Results of the lanes j to j + N - 1, in v, to all blocks of middle. Those of a backward transform of columns are the
 * forward one's in reverse order, and their factors conjugates. */
static void F(turn)(const tide__fft_fold *p, T *middle, const T *v, const T *w, int64_t j, bool back) {
  const int64_t columns = p->first->n, rows = p->second->n;
  const T sign = back ? -1 : 1;
  element *to = (element *)middle + j;
  for (int64_t k = 0; k < columns; k += N, to += rows) {
    if (k > columns - N) k = columns - N;
    V r[N], other[N];
    UNROLL
    for (int i = 0; i < N; i++) {
      const int64_t at = back && k + i > 0 ? columns - k - i : k + i;
      const element by = ((const element *)w)[k + i];
      const element x = F(times)(((const element *)v)[at], by.re, by.im * sign);
      r[i] = x.re, other[i] = x.im;
    }
    F(transpose)(r);
    UNROLL
    for (int i = 0; i < N; i++) to[i].re = r[i];
    F(transpose)(other);
    UNROLL
    for (int i = 0; i < N; i++) to[i].im = other[i];
  }
}

static void F(fold)(const tide__fft_fold *p, void *out, const void *in, bool back, double scale, void *middle, void *a,
                    void *b) {
  const int64_t columns = p->first->n, rows = p->second->n;
  const T *w = p->factors;
  for (int64_t j = 0; j < rows; j += N, w += 2 * N * columns) {
    if (j > rows - N) j = rows - N;
    const tide__fft_side from = {(T *)(uintptr_t)in + 2 * j, 2 * rows, false, 1};
    F(turn)(p, middle, F(run)(p->first, NULL, &from, a, b), w, j, back);
  }
  element *block = middle;
  for (int64_t k = 0; k < columns; k += N, block += rows) {
    if (k > columns - N) k = columns - N;
    const tide__fft_side to = {(T *)out + 2 * k, 2 * columns, back, scale};
    F(run)(p->second, &to, NULL, block, b);
  }
}

/* As unzip and zip, along one line; z has room for another element. */
static void F(unzip_along)(void *out, void *z, const void *w_, int64_t h, double scale) {
  const T *x = z, *w = w_, half = (T)(0.5 * scale);
  T *y = out;
  ((F(single) *)z)[h] = ((F(single) *)z)[0];
  for (int64_t k = 0; k <= h; k += N) {
    if (k > h + 1 - N) k = h + 1 - N;
    const L *up = (const L *)(x + 2 * k), *down = (const L *)(x + 2 * (h - k + 1 - N)), *by = (const L *)(w + 2 * k);
    const V a = (V)up[0], b = (V)up[1], c = (V)down[0], d = (V)down[1], e = (V)by[0], f = (V)by[1];
    const element one = {EVEN(a, b), ODD(a, b)}, two = {BACK(EVEN(c, d)), BACK(ODD(c, d))};
    const element even = {one.re + two.re, one.im - two.im}, dif = {one.re - two.re, one.im + two.im};
    const element odd = F(times)(dif, EVEN(e, f), ODD(e, f));
    const V re = (even.re + odd.im) * half, im = (even.im - odd.re) * half;
    L *to = (L *)(y + 2 * k);
    to[0] = (L)LOW(re, im), to[1] = (L)HIGH(re, im);
  }
}

/* Real parts first. */
static void F(zip_along)(void *out, const void *in, const void *w_, int64_t h) {
  const T *x = in, *w = w_;
  T *y = out;
  for (int64_t k = 0; k < h; k += N) {
    if (k > h - N) k = h - N;
    const L *up = (const L *)(x + 2 * k), *down = (const L *)(x + 2 * (h - k + 1 - N)), *by = (const L *)(w + 2 * k);
    const V a = (V)up[0], b = (V)up[1], c = (V)down[0], d = (V)down[1], e = (V)by[0], f = (V)by[1];
    element one = {EVEN(a, b), ODD(a, b)}, two = {BACK(EVEN(c, d)), BACK(ODD(c, d))};
    if (k == 0) one.im[0] = two.im[0] = 0; /* imaginary parts that no real line has */
    const element even = {one.re + two.re, one.im - two.im}, dif = {one.re - two.re, one.im + two.im};
    const element odd = F(times)(dif, EVEN(e, f), -ODD(e, f));
    const V re = even.re - odd.im, im = even.im + odd.re;
    L *to = (L *)(y + 2 * k);
    to[0] = (L)LOW(re, im), to[1] = (L)HIGH(re, im);
  }
}
