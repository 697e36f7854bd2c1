/* fft_stage_template.h: template of the stages of Fourier transforms in lanes, for one kind of float;
 * fft_lanes_template.h includes it.
 *
 * Every stage reads one buffer and writes the other, so that the elements come out in order (T. Stockham's way: with n
 * elements left in s lines that are interleaved, n = r m, the element q + s (p + j m) becomes j of r, and the result k
 * of these, multiplied by exp(-2 pi i p k / n), element q + s (r p + k)). Radices 2 to 5 and 8 are written out, all
 * other primes have a loop of their own. The first stage may read lines in memory and the last one write them, so that
 * these are no walks through a buffer of their own.
 *
 * Invariant: what is done to a lane does not depend on the other lanes, nor on how many there are. */

typedef struct F(element) {
  V re, im;
} F(element);
#define element F(element)

INLINE element F(add)(element a, element b) { return (element){a.re + b.re, a.im + b.im}; }
INLINE element F(sub)(element a, element b) { return (element){a.re - b.re, a.im - b.im}; }
/* a + i b, a - i b */
INLINE element F(add_i)(element a, element b) { return (element){a.re - b.im, a.im + b.re}; }
INLINE element F(sub_i)(element a, element b) { return (element){a.re + b.im, a.im - b.re}; }
/* a + t b, a + i t b, t real */
INLINE element F(add_t)(element a, V t, element b) { return (element){FUSE(t, b.re, a.re), FUSE(t, b.im, a.im)}; }
INLINE element F(sub_t)(element a, V t, element b) {
  return (element){FUSE_NEG(t, b.re, a.re), FUSE_NEG(t, b.im, a.im)};
}
INLINE element F(times)(element a, V re, V im) {
  return (element){FUSE_NEG(a.im, im, a.re * re), FUSE(a.im, re, a.re * im)};
}
INLINE V F(all)(T x) { return x - (V){0}; }

/* ---- butterflies: a[k] becomes the sum over j of a[j] exp(-2 pi i j k / r) ---- */

INLINE void F(two)(element *a) {
  element x = a[0], y = a[1];
  a[0] = F(add)(x, y), a[1] = F(sub)(x, y);
}

INLINE void F(three)(element *a) {
  const V half = F(all)((T)-0.5), h = F(all)((T)0.86602540378443864676);
  element s = F(add)(a[1], a[2]), d = F(sub)(a[1], a[2]), c = F(add_t)(a[0], half, s);
  element e = {d.re * h, d.im * h};
  a[0] = F(add)(a[0], s), a[1] = F(sub_i)(c, e), a[2] = F(add_i)(c, e);
}

INLINE void F(four_of)(element *a, element *b, element *c, element *d) {
  element s = F(add)(*a, *c), m = F(sub)(*a, *c), t = F(add)(*b, *d), u = F(sub)(*b, *d);
  *a = F(add)(s, t), *b = F(sub_i)(m, u), *c = F(sub)(s, t), *d = F(add_i)(m, u);
}

INLINE void F(five)(element *a) {
  const V c1 = F(all)((T)0.30901699437494742410), c2 = F(all)((T)-0.80901699437494742410);
  const V s1 = F(all)((T)0.95105651629515357212), s2 = F(all)((T)0.58778525229247312917);
  element p = F(add)(a[1], a[4]), q = F(add)(a[2], a[3]), m = F(sub)(a[1], a[4]), n = F(sub)(a[2], a[3]);
  element x = F(add_t)(F(add_t)(a[0], c1, p), c2, q), y = F(add_t)(F(add_t)(a[0], c2, p), c1, q);
  element u = F(add_t)((element){m.re * s1, m.im * s1}, s2, n), v = F(sub_t)((element){m.re * s2, m.im * s2}, s1, n);
  a[0] = F(add)(a[0], F(add)(p, q));
  a[1] = F(sub_i)(x, u), a[4] = F(add_i)(x, u), a[2] = F(sub_i)(y, v), a[3] = F(add_i)(y, v);
}

INLINE void F(eight)(element *a) {
  const V h = F(all)((T)0.70710678118654752440);
  F(four_of)(&a[0], &a[2], &a[4], &a[6]);
  F(four_of)(&a[1], &a[3], &a[5], &a[7]);
  /* The odd ones are turned by no, one, two and three eighths; the odd eighths are h times these. */
  element e0 = a[0], e1 = a[2], e2 = a[4], e3 = a[6], o0 = a[1], o1 = F(sub_i)(a[3], a[3]), o2 = a[5];
  element o3 = F(add_i)(a[7], a[7]);
  a[0] = F(add)(e0, o0), a[4] = F(sub)(e0, o0);
  a[1] = F(add_t)(e1, h, o1), a[5] = F(sub_t)(e1, h, o1);
  a[2] = F(sub_i)(e2, o2), a[6] = F(add_i)(e2, o2);
  a[3] = F(sub_t)(e3, h, o3), a[7] = F(add_t)(e3, h, o3);
}

INLINE void F(butterfly)(int radix, element *a) {
  if (radix == 2) F(two)(a);
  if (radix == 3) F(three)(a);
  if (radix == 4) F(four_of)(&a[0], &a[1], &a[2], &a[3]);
  if (radix == 5) F(five)(a);
  if (radix == 8) F(eight)(a);
}

/* ---- one stage ---- */

/* Where a stage stands: m, s as above, its factors, and the ends of a line in memory. */
typedef struct F(walk) {
  int64_t m, s, n;
  const T *w;
  const tide__fft_side *to, *from;
} F(walk);

INLINE element F(get)(const T *x, int64_t step, int64_t k, bool memory) {
  if (!memory) return ((const element *)x)[k];
  const L *at = (const L *)(x + k * step);
  const V a = (V)at[0], b = (V)at[1];
  return (element){EVEN(a, b), ODD(a, b)};
}

INLINE void F(put)(T *y, int64_t step, int64_t k, element v, bool memory, V scale) {
  if (!memory) {
    ((element *)y)[k] = v;
    return;
  }
  L *at = (L *)(y + k * step);
  v.re *= scale, v.im *= scale;
  at[0] = (L)LOW(v.re, v.im), at[1] = (L)HIGH(v.re, v.im);
}

/* in, out: from or to lines in memory, as the first or the last stage. */
INLINE void F(stage)(int radix, bool in, bool out, bool last, T *y, const T *x, const F(walk) * f) {
  const int64_t m = last ? 1 : f->m, s = in ? 1 : f->s, read = in ? f->from->step : 0, write = out ? f->to->step : 0;
  const int64_t n = out && f->to->reversed ? f->n : 0;
  const V scale = out ? F(all)((T)f->to->scale) : (V){0};
  const T *w = f->w;
  if (in) x = f->from->at;
  if (out) y = f->to->at;
  for (int64_t p = 0; p < m; p++, w += 2 * (radix - 1))
    for (int64_t q = 0; q < s; q++) {
      element a[8];
      UNROLL
      for (int j = 0; j < radix; j++) a[j] = F(get)(x, read, q + s * (p + j * m), in);
      F(butterfly)(radix, a);
      UNROLL
      for (int j = 0; j < radix; j++) {
        const int64_t k = q + s * (radix * p + j), at = n && (q || j) ? n - k : k;
        if (!last && j > 0) a[j] = F(times)(a[j], F(all)(w[2 * j - 2]), F(all)(w[2 * j - 1]));
        F(put)(y, write, out ? at : k, a[j], out, scale);
      }
    }
}

typedef void (*F(stage_fn))(T *, const T *, const F(walk) *);
#define STAGES_OF(r)                                                                                                   \
  static void F(first_##r)(T * y, const T *x, const F(walk) * f) { F(stage)(r, true, false, false, y, x, f); }         \
  static void F(some_##r)(T * y, const T *x, const F(walk) * f) { F(stage)(r, false, false, false, y, x, f); }         \
  static void F(end_##r)(T * y, const T *x, const F(walk) * f) { F(stage)(r, false, false, true, y, x, f); }           \
  static void F(last_##r)(T * y, const T *x, const F(walk) * f) { F(stage)(r, false, true, true, y, x, f); }
STAGES_OF(2)
STAGES_OF(3)
STAGES_OF(4)
STAGES_OF(5)
STAGES_OF(8)
#define STAGE_ROW(r) [r] = {F(first_##r), F(some_##r), F(end_##r), F(last_##r)}
static const F(stage_fn) F(stage_of)[9][4] = {STAGE_ROW(2), STAGE_ROW(3), STAGE_ROW(4), STAGE_ROW(5), STAGE_ROW(8)};

/* Any odd radix: the elements j and r - j have conjugate roots, so their sum and difference serve two results. */
static void F(stage_any)(int r, bool last, T *y, const T *x, const F(walk) * f) {
  const T *roots = f->w, *w = roots + 2 * r;
  const int h = r / 2;
  for (int64_t p = 0; p < f->m; p++, w += last ? 0 : 2 * (r - 1))
    for (int64_t q = 0; q < f->s; q++) {
      const element *in = (const element *)x + q + f->s * p;
      element *out = (element *)y + q + f->s * r * p, sum[TIDE_FFT_LARGEST / 2 + 1], dif[TIDE_FFT_LARGEST / 2 + 1],
              all = in[0];
      for (int j = 1; j <= h; j++) {
        element a = in[f->s * j * f->m], b = in[f->s * (r - j) * f->m];
        sum[j] = F(add)(a, b), dif[j] = F(sub)(a, b), all = F(add)(all, sum[j]);
      }
      out[0] = all;
      for (int k = 1; k <= h; k++) {
        element c = in[0], d = {{0}, {0}};
        for (int j = 1, e = k; j <= h; j++, e += k - (e + k < r ? 0 : r))
          c = F(add_t)(c, F(all)(roots[2 * e]), sum[j]), d = F(add_t)(d, F(all)(roots[2 * e + 1]), dif[j]);
        element one = F(add_i)(c, d), two = F(sub_i)(c, d);
        const T *u = w + 2 * (k - 1), *v = w + 2 * (r - k - 1);
        out[f->s * k] = last ? one : F(times)(one, F(all)(u[0]), F(all)(u[1]));
        out[f->s * (r - k)] = last ? two : F(times)(two, F(all)(v[0]), F(all)(v[1]));
      }
    }
}

static void *F(run)(const tide__fft_stages *plan, const tide__fft_side *to, const tide__fft_side *from, void *a,
                    void *b) {
  F(walk) f = {.m = plan->n, .s = 1, .n = plan->n, .w = plan->roots, .to = to, .from = from};
  for (int i = 0; i < plan->count; i++) {
    const int r = plan->radix[i];
    const bool last = i == plan->count - 1, is_short = tide__fft_is_short(r);
    f.m = plan->left[i];
    if (is_short)
      F(stage_of)[r][last ? (to ? 3 : 2) : i == 0 && from ? 0 : 1](b, a, &f);
    else
      F(stage_any)(r, last, b, a, &f);
    f.w += (is_short ? 0 : 2 * r) + (last ? 0 : 2 * (r - 1) * f.m);
    f.s *= r;
    void *c = a;
    a = b, b = c;
  }
  return a;
}
