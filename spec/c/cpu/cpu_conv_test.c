/* cpu_conv_test.c: convolutions of the CPU backend against naive loops, for every instruction set: random sizes, with
 * strides, dilations, groups and, as transposed ones have them, zeros between the elements of the input. Numbers are
 * whole, so that sums are exact in any order; of others the bits do not depend on the number of threads. */
#include "cpu_test.h"

#include "backend/cpu/product/gemm.h"

#if defined(__SANITIZE_THREAD__)
enum { CASES = 20 };
#else
enum { CASES = 600 };
#endif

enum { MOST = 1 << 21 };
static double x[MOST], w[MOST], bias[1024];

static int64_t volume(const tide_conv_args *a, char what) {
  int64_t n = 1;
  for (int d = 0; d < 3; d++) n *= what == 'i' ? a->dim[d].in : what == 'o' ? a->dim[d].out : a->dim[d].kernel;
  return n;
}

/* A dim of random sizes that has results; false where there are none. */
static bool choose_dim(tide_conv_args *a, int d, int rank, bool transposed) {
  tide_taps *t = &a->dim[d];
  *t = (tide_taps){1, 1, 1, 1, 0, 1, 1}, a->up[d] = 1;
  if (d < 3 - rank) return true;
  t->in = 1 + below(d == 2 ? 45 : 10), t->kernel = 1 + below(5), t->dilation = below(3) ? 1 : 1 + below(4);
  const int64_t step = 1 + below(4), wide = (t->kernel - 1) * t->dilation, padding = below(wide / 2 + 2);
  if (transposed) {
    t->out = (t->in - 1) * step + wide + 1 + below(step) - 2 * padding;
    a->up[d] = step, t->before = wide - padding;
    return t->out > 0;
  }
  t->stride = step, t->before = padding;
  if (t->in + 2 * padding <= wide) return false;
  t->out = (t->in + 2 * padding - wide - 1) / step + 1;
  return true;
}

static bool choose(tide_conv_args *a, bool transposed) {
  static const int64_t channels[] = {1, 2, 3, 7, 16, 33, 70}, results[] = {1, 2, 3, 5, 8, 14, 27, 40};
  const int rank = 1 + (int)below(3);
  a->batch = 1 + below(4), a->groups = below(4) ? 1 : 1 + below(3);
  a->channels = channels[below(7)] * a->groups, a->results = results[below(8)] * a->groups;
  for (int d = 0; d < 3; d++)
    if (!choose_dim(a, d, rank, transposed)) return false;
  const int64_t work = a->batch * a->results * volume(a, 'o') * (a->channels / a->groups) * volume(a, 'k');
  return work < 20000000 && a->batch * a->channels * volume(a, 'i') < MOST &&
         a->batch * a->results * volume(a, 'o') < MOST;
}

static double naive(const tide_conv_args *a, int64_t image, int64_t result, const int64_t at[3], bool with_bias) {
  const int64_t channels = a->channels / a->groups, group = result / (a->results / a->groups);
  const tide_taps *t = a->dim;
  double sum = with_bias ? bias[result] : 0;
  for (int64_t k = 0; k < volume(a, 'k'); k++) {
    const int64_t tap[3] = {k / t[2].kernel / t[1].kernel, k / t[2].kernel % t[1].kernel, k % t[2].kernel};
    int64_t from = 0;
    for (int d = 0; d < 3 && from >= 0; d++) {
      const int64_t p = at[d] * t[d].stride - t[d].before + tap[d] * t[d].dilation;
      from = p < 0 || p % a->up[d] || p / a->up[d] >= t[d].in ? -1 : from * t[d].in + p / a->up[d];
    }
    for (int64_t c = 0; c < channels && from >= 0; c++)
      sum += x[(image * a->channels + group * channels + c) * volume(a, 'i') + from] *
             w[(result * channels + c) * volume(a, 'k') + k];
  }
  return sum;
}

static void *as(int dtype, const double *from, int64_t n, double divisor) {
  char *to = malloc((size_t)(n * item_of(dtype)));
  for (int64_t i = 0; i < n; i++)
    put(dtype, to + i * item_of(dtype), (tide_value){.re = from[i] / divisor}, TIDE_FLOAT64);
  return to;
}

static void check(const tide_conv_args *a, const char *y, const double *want, const char *name) {
  for (int64_t i = 0; i < a->batch * a->results * volume(a, 'o'); i++) {
    const double got = get(a->dtype, y + i * item_of(a->dtype)).re;
    CHECK(got == want[i], "%s, dtype %d, element %lld: got %g, expected %g; %lld channels, %lld results, %lld groups",
          name, a->dtype, (long long)i, got, want[i], (long long)a->channels, (long long)a->results,
          (long long)a->groups);
    if (got != want[i]) return;
  }
}

/* As each dtype by each instruction set, and with one thread and several. */
static void run(tide_conv_args *a, const double *want, bool with_bias) {
  static const char *const names[] = {"base", "avx2", "avx512"};
  static const int dtypes[] = {TIDE_FLOAT32, TIDE_FLOAT64};
  const int64_t in = a->batch * a->channels * volume(a, 'i'), out = a->batch * a->results * volume(a, 'o');
  const int64_t taps = a->results * (a->channels / a->groups) * volume(a, 'k');
  for (int i = 0; i < 6; i++) {
    if (!tide__isa_set(names[i / 2])) continue;
    a->dtype = dtypes[i % 2];
    const size_t bytes = (size_t)(out * item_of(a->dtype));
    void *some = as(a->dtype, bias, a->results, 1), *y[3] = {malloc(bytes), malloc(bytes), malloc(bytes)};
    for (int k = 0; k < 3; k++) {
      void *one = as(a->dtype, x, in, k ? 3 : 1), *two = as(a->dtype, w, taps, k ? 7 : 1);
      a->head.ptr[0] = y[k], a->head.ptr[1] = one, a->head.ptr[2] = two, a->head.ptr[3] = with_bias ? some : NULL;
      memset(y[k], 0x7F, bytes);
      tide_set_num_threads(k == 1 ? 1 : 3);
      CHECK(tide__cpu_conv(NULL, a) == TIDE_OK, "conv");
      free(one), free(two);
    }
    check(a, y[0], want, names[i / 2]);
    CHECK(!memcmp(y[1], y[2], bytes), "%s: other bits with other threads", names[i / 2]);
    for (int k = 0; k < 3; k++) free(y[k]);
    free(some);
  }
}

int main(void) {
  for (int i = 0; i < MOST; i++) x[i] = (double)(below(9) - 4), w[i] = (double)(below(9) - 4);
  for (int i = 0; i < 1024; i++) bias[i] = (double)(below(9) - 4);
  for (int i = 0; i < CASES; i++) {
    tide_conv_args a = {.head = {.device = TIDE_CPU}};
    if (!choose(&a, i % 2)) continue;
    const int64_t out = volume(&a, 'o');
    double *want = malloc(sizeof(double) * (size_t)(a.batch * a.results * out));
    for (int64_t j = 0; j < a.batch * a.results * out; j++) {
      const int64_t e = j % out, row = e / a.dim[2].out;
      const int64_t at[3] = {row / a.dim[1].out, row % a.dim[1].out, e % a.dim[2].out};
      want[j] = naive(&a, j / out / a.results, j / out % a.results, at, i % 3 == 0);
    }
    run(&a, want, i % 3 == 0);
    free(want);
  }
  tide__isa_set(NULL);
  if (failures) printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
