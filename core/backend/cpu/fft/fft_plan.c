/* fft_plan.c: how a line of a given length is transformed, and the tables for it.
 *
 * Lengths without a large prime factor are done by stages of small radices. Any other is a convolution with a chirp (L.
 * Bluestein, "A linear filtering approach to the computation of the discrete Fourier transform", 1970), done by
 * transforms of a length that has small factors. A long line, or a lone one, is split in two factors, so that its
 * columns fill the lanes and stay in the cache (D. Bailey, "FFTs in external or hierarchical memory", 1990). Tables are
 * in double precision for both kinds of floats.
 *
 * Plans are counted; the last few are kept for the next call, as far as their tables are not too large. Invariant: a
 * plan that is in the list or in use does not change. */
#include "fft.h"

#include <math.h>

#include "backend/cpu/loops/layout.h"
#include "os/os.h"

enum {
  LONGEST_DIRECT = 4096,
  LONGEST_FOLD = 16384,
  MOST_FOLD_WORK = 140,
  LEAST_SPLIT = 512,
  KEPT = 32,
  KEPT_BYTES = 1 << 27
};

static struct {
  pthread_mutex_t lock;
  fft_plan *plan[KEPT];
  uint64_t clock;
  size_t bytes;
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* By what the processor has, as the other loops are chosen. */
static const tide__fft_lanes *lanes_of(bool wide) {
#if defined(__x86_64__)
  const tide__isa *isa = tide__isa_get();
  if (isa == &tide__isa_avx512) return &tide__fft_lanes_avx512[wide];
  if (isa == &tide__isa_avx2) return &tide__fft_lanes_avx2[wide];
#endif
  return &tide__fft_lanes_base[wide];
}

/* ---- numbers ---- */

static int64_t largest_factor(int64_t n) {
  int64_t largest = 1;
  for (int64_t p = 2; p * p <= n; p++)
    while (n % p == 0) largest = p, n /= p;
  return n > largest ? n : largest;
}

/* The largest divisor whose square is at most n. */
static int64_t divisor(int64_t n) {
  int64_t d = (int64_t)sqrt((double)n);
  while (d > 1 && (d * d > n || n % d)) d--;
  return d;
}

/* The smallest 2^a 3^b 5^c from n on. */
static int64_t good_length(int64_t n) {
  int64_t best = INT64_MAX;
  for (int64_t five = 1; five < 5 * n; five *= 5)
    for (int64_t three = five; three < 3 * n; three *= 3) {
      int64_t m = three;
      while (m < n) m *= 2;
      if (m < best) best = m;
    }
  return best;
}

/* exp(-2 pi i k / n), by the symmetries of an eighth of the circle, so that no accuracy is lost far from 0. */
static void root(double w[2], int64_t k, int64_t n) {
  const double turn = 6.283185307179586476925286766559;
  int64_t k8 = 8 * (k % n), octant = k8 / n;
  double angle = (double)(octant & 1 ? (octant + 1) * n - k8 : k8 - octant * n) * (turn / 8) / (double)n;
  double c = cos(angle), s = sin(angle);
  int64_t quarter = (octant + 1) / 2 % 4;
  if (octant & 1) s = -s; /* the angle is counted from the nearest multiple of a quarter */
  double x[4] = {c, -s, -c, s}, y[4] = {s, c, -s, -c};
  w[0] = x[quarter], w[1] = -y[quarter];
}

/* Tables are made by all threads, and an interruption leaves them as they are: such a plan is never kept. */
enum { ROOT_COST = 16 };

typedef struct table {
  double *w, *spectrum;
  int64_t step, n, m;
} table;

static void run_roots(void *arg, int64_t begin, int64_t end) {
  const table *t = arg;
  for (int64_t k = begin; k < end; k++) root(t->w + 2 * k, k * t->step, t->n);
}

static double *roots(int64_t count, int64_t step, int64_t n) {
  table t = {.w = malloc((size_t)count * 2 * sizeof(double)), .step = step, .n = n};
  if (t.w) tide__spread(count, ROOT_COST, run_roots, &t);
  return t.w;
}

/* ---- making plans ---- */

static void plan_free(fft_plan *p) {
  if (p->first) tide__fft_plan_put(p->first);
  if (p->second) tide__fft_plan_put(p->second);
  free(p->chirp), free(p->spectrum), free(p->coarse), free(p->fine), free(p->half_root), free(p->roots);
  tide__os_aligned_free(p->spread), tide__os_aligned_free(p->factors);
  free(p);
}

static void *whole_lines(int64_t bytes) { return tide__os_aligned(64, (size_t)(bytes + 63) / 64 * 64); }

/* Elements k and m - k of the chirp that is to be transformed: the conjugates of w, over m. */
static void run_conjugates(void *arg, int64_t begin, int64_t end) {
  const table *t = arg;
  for (int64_t k = begin; k < end; k++) {
    double re = t->w[2 * k] / (double)t->m, im = -t->w[2 * k + 1] / (double)t->m;
    double *x = t->spectrum + 2 * k, *y = t->spectrum + 2 * (k ? t->m - k : 0);
    x[0] = y[0] = re, x[1] = y[1] = im;
  }
}

/* The transform of the chirp, in double precision for either kind of float, conjugated. */
static bool make_spectrum(fft_plan *p) {
  int64_t n = p->n, m = p->m;
  double *chirp = malloc((size_t)m * 2 * sizeof *chirp), *spectrum = malloc((size_t)m * 2 * sizeof *spectrum);
  fft_plan *wide = tide__fft_plan_get(m, true, false, FFT_ALONE);
  bool good = chirp && spectrum && wide;
  if (good) {
    table t = {.w = p->chirp, .spectrum = chirp, .m = m};
    tide__fft_clear(wide->ops, chirp, n, m - n + 1);
    tide__spread(n, 4, run_conjugates, &t);
    fft_line line = {spectrum, chirp, tide__fft_dense, tide__fft_dense, 1};
    good = tide__fft_line(wide, &line);
  }
  if (good) tide__fft_product(wide->ops, spectrum, tide__fft_dense, spectrum, tide__fft_dense, NULL, m, true, 1);
  free(chirp);
  if (wide) tide__fft_plan_put(wide);
  p->spectrum = spectrum;
  return good;
}

/* exp(-pi i k k / n): k * k modulo 2n goes on by differences. */
static void run_chirp(void *arg, int64_t begin, int64_t end) {
  const table *t = arg;
  int64_t square = (int64_t)((unsigned __int128)begin * (uint64_t)begin % (uint64_t)(2 * t->n));
  for (int64_t k = begin; k < end; k++) {
    root(t->w + 2 * k, square, 2 * t->n);
    square = (square + 2 * k + 1) % (2 * t->n);
  }
}

static bool make_chirp(fft_plan *p) {
  p->way = FFT_CHIRP;
  p->m = good_length(2 * p->n - 1);
  p->first = tide__fft_plan_get(p->m, p->wide, false, p->use);
  p->chirp = malloc((size_t)p->n * 2 * sizeof *p->chirp);
  if (!p->first || !p->chirp) return false;
  table t = {.w = p->chirp, .n = p->n};
  tide__spread(p->n, ROOT_COST, run_chirp, &t);
  return make_spectrum(p);
}

static bool make_split(fft_plan *p, int64_t columns) {
  int64_t rows = p->n / columns;
  p->way = FFT_SPLIT;
  p->first = tide__fft_plan_get(columns, p->wide, false, FFT_INNER);
  p->second = tide__fft_plan_get(rows, p->wide, false, FFT_INNER);
  while (((int64_t)1 << 2 * p->shift) < p->n) p->shift++;
  p->fine = roots((int64_t)1 << p->shift, 1, p->n);
  p->coarse = roots((p->n >> p->shift) + 1, (int64_t)1 << p->shift, p->n);
  int lanes = p->ops->lanes;
  double *w = malloc((size_t)(columns * lanes) * 2 * sizeof *w);
  for (int64_t k = 0; w && k < columns; k++)
    for (int l = 0; l < lanes; l++) root(w + 2 * (k * lanes + l), k * l, p->n);
  p->spread = whole_lines(columns * lanes * 2 * p->ops->item);
  bool good = p->first && p->second && p->fine && p->coarse && w && p->spread;
  if (good) p->ops->spread(p->spread, w, columns);
  free(w);
  return good;
}

/* Eights as far as no two is left over for them, fours, and then the primes from the smallest on. */
static void choose_radices(tide__fft_stages *s, int64_t n) {
  s->n = n;
  while (n > 1) {
    int64_t twos = n & -n, r = twos == 2 ? 2 : twos == 4 || twos == 16 || twos == 32 ? 4 : twos > 1 ? 8 : 3;
    while (n % r) r += 2;
    n /= r;
    s->left[s->count] = n;
    s->radix[s->count++] = (uint8_t)r;
  }
}

/* exp(-2 pi i k / n), in the reals of the plan's table: its parts `apart`, the first one at `at`. */
static void put_root(const fft_plan *p, void *out, int64_t at, int64_t apart, int64_t k, int64_t n) {
  double w[2];
  root(w, k, n);
  for (int i = 0; i < 2; i++)
    if (p->wide)
      ((double *)out)[at + i * apart] = w[i];
    else
      ((float *)out)[at + i * apart] = (float)w[i];
}

static void run_half(void *arg, int64_t begin, int64_t end) {
  const fft_plan *p = arg;
  for (int64_t k = begin; k < end; k++) put_root(p, p->half_root, 2 * k, 1, k, 2 * p->n);
}

static bool make_half(fft_plan *p) {
  p->half_root = malloc((size_t)(p->n + 1) * 2 * (size_t)p->ops->item);
  if (p->half_root) tide__spread(p->n + 1, ROOT_COST, run_half, p);
  return p->half_root != NULL;
}

/* See tide__fft_stages; counted first, then written. */
static int64_t walk_roots(const fft_plan *p, bool write) {
  int64_t at = 0;
  for (int i = 0; i < p->stages.count; i++) {
    const int64_t r = p->stages.radix[i], m = p->stages.left[i];
    for (int64_t k = 0; k < (tide__fft_is_short((int)r) ? 0 : r); k++, at++)
      if (write) put_root(p, p->roots, 2 * at, 1, k, r);
    for (int64_t k = 0; k < (m > 1 ? m * (r - 1) : 0); k++, at++)
      if (write) put_root(p, p->roots, 2 * at, 1, k / (r - 1) * (k % (r - 1) + 1), m * r);
  }
  return at;
}

static bool make_roots(fft_plan *p) {
  p->roots = malloc((size_t)(walk_roots(p, false) + 1) * 2 * (size_t)p->ops->item);
  if (!p->roots) return false;
  walk_roots(p, true);
  p->stages.roots = p->roots;
  return true;
}

/* ---- folds ---- */

/* Two stages or more, all of them short: the first one can read lines in memory, the last one write them. */
static bool is_foldable(int64_t n) {
  tide__fft_stages s = {.count = 0};
  choose_radices(&s, n);
  bool all = s.count > 1;
  for (int i = 0; i < s.count; i++) all = all && tide__fft_is_short(s.radix[i]);
  return all;
}

/* The columns with which the lanes do the least work twice, in per cent of what is needed; 0 if there are none. */
static int64_t fold_columns(int64_t n, int64_t lanes) {
  int64_t best = 0, least = MOST_FOLD_WORK;
  for (int64_t d = lanes; d * d <= n; d++) {
    if (n % d) continue;
    int64_t r = n / d, groups = (d + lanes - 1) / lanes * lanes, other = (r + lanes - 1) / lanes * lanes;
    if (!is_foldable(d) || !is_foldable(r)) continue;
    int64_t work = 50 * groups / d + 50 * other / r + r / d;
    if (work < least) best = d, least = work;
  }
  return best;
}

bool tide__fft_folds(int64_t n, bool wide) { return n <= LONGEST_FOLD && fold_columns(n, lanes_of(wide)->lanes) > 0; }

static bool make_fold(fft_plan *p) {
  int64_t lanes = p->ops->lanes, columns = fold_columns(p->n, lanes), rows = p->n / columns, at = 0;
  p->way = FFT_FOLD;
  p->first = tide__fft_plan_get(columns, p->wide, false, FFT_INNER);
  p->second = tide__fft_plan_get(rows, p->wide, false, FFT_INNER);
  p->factors = whole_lines((rows + lanes - 1) / lanes * columns * 2 * lanes * p->ops->item);
  if (!p->first || !p->second || !p->factors) return false;
  for (int64_t j = 0; j < rows; j += lanes) {
    if (j > rows - lanes) j = rows - lanes;
    for (int64_t k = 0; k < columns; k++, at += lanes)
      for (int64_t l = 0; l < lanes; l++, at++) put_root(p, p->factors, at, lanes, (j + l) * k, p->n);
  }
  return true;
}

/* Roughly, and without the plans that it holds, which are counted on their own. */
static size_t bytes_of(const fft_plan *p) {
  size_t bytes = (p->half ? (size_t)p->n : 0) * 16;
  if (p->way == FFT_FOLD) return bytes + (size_t)p->n * 16;
  if (p->way == FFT_CHIRP) return bytes + (size_t)(p->n + p->m) * 16;
  if (p->way == FFT_DIRECT) return bytes + (size_t)p->n * 32;
  return bytes + (size_t)p->first->n * 64 + ((size_t)32 << p->shift);
}

static bool make(fft_plan *p) {
  if (p->half && !make_half(p)) return false;
  p->m = p->n;
  if (p->n == 1) return true;
  if (p->use == FFT_DENSE) return make_fold(p);
  int64_t largest = largest_factor(p->n), columns = divisor(p->n);
  if (largest > TIDE_FFT_LARGEST) return make_chirp(p);
  bool lone = p->use == FFT_ALONE && p->n >= LEAST_SPLIT && columns >= p->ops->lanes;
  if (p->use != FFT_INNER && (p->n > LONGEST_DIRECT || lone)) return make_split(p, columns);
  choose_radices(&p->stages, p->n);
  return make_roots(p);
}

/* ---- the list ---- */

/* With the lock held: drops a reference; the last one's caller frees the plan. */
static bool unref(fft_plan *p) { return --p->refs == 0; }

void tide__fft_plan_put(fft_plan *p) {
  pthread_mutex_lock(&cache.lock);
  bool last = unref(p);
  pthread_mutex_unlock(&cache.lock);
  if (last) plan_free(p);
}

/* With the lock held: the place of the one that has not been used for longest, or a free one. */
static int oldest_place(bool only_taken) {
  int at = -1;
  for (int i = 0; i < KEPT; i++) {
    if (!cache.plan[i] && !only_taken) return i;
    if (cache.plan[i] && (at < 0 || cache.plan[i]->used < cache.plan[at]->used)) at = i;
  }
  return at;
}

/* With the lock held: empties a place; returns the plan if the caller is to free it. */
static fft_plan *evict(int at) {
  fft_plan *p = cache.plan[at];
  if (!p) return NULL;
  cache.plan[at] = NULL;
  cache.bytes -= p->bytes;
  return unref(p) ? p : NULL;
}

static void keep(fft_plan *p) {
  if (p->bytes > KEPT_BYTES) return;
  fft_plan *freed[KEPT + 1];
  int count = 0;
  pthread_mutex_lock(&cache.lock);
  while (cache.bytes + p->bytes > KEPT_BYTES) {
    fft_plan *old = evict(oldest_place(true));
    if (old) freed[count++] = old;
  }
  int at = oldest_place(false);
  fft_plan *old = evict(at);
  if (old) freed[count++] = old;
  cache.plan[at] = p;
  cache.bytes += p->bytes;
  p->refs++;
  p->used = ++cache.clock;
  pthread_mutex_unlock(&cache.lock);
  for (int i = 0; i < count; i++) plan_free(freed[i]);
}

static fft_plan *find(int64_t n, bool wide, bool half, fft_use use) {
  fft_plan *found = NULL;
  const tide__fft_lanes *ops = lanes_of(wide);
  pthread_mutex_lock(&cache.lock);
  for (int i = 0; i < KEPT && !found; i++) {
    fft_plan *p = cache.plan[i];
    if (p && p->n == n && p->ops == ops && p->half == half && p->use == use) found = p;
  }
  if (found) found->refs++, found->used = ++cache.clock;
  pthread_mutex_unlock(&cache.lock);
  return found;
}

fft_plan *tide__fft_plan_get(int64_t n, bool wide, bool half, fft_use use) {
  fft_plan *p = find(n, wide, half, use);
  if (p) return p;
  p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->n = n, p->wide = wide, p->half = half, p->use = use, p->refs = 1;
  p->ops = lanes_of(wide);
  if (!make(p) || tide__loop_stops()) {
    plan_free(p);
    return NULL;
  }
  p->bytes = bytes_of(p);
  keep(p);
  return p;
}
