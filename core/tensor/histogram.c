/* histogram.c: how often values occur: bincount, histc, histogram.
 *
 * All of them are a scatter of ones, or of weights, that adds; the places are the values themselves, or the bins that
 * they fall in. Counts are int64 and become the dtype of the result at the end, so that they do not saturate.
 *
 * Invariant: the bounds are finite and apart before bins are made of them. */
#include "tide/scatter.h"
#include "tide/sort.h"

#include "index.h"

/* Adds to `sums`, [n], at the places that the contiguous `values` name or fall in. */
static tide_status add_at(const tide_tensor *sums, const tide_tensor *values, const tide_tensor *dense,
                          tide__index_space *s) {
  s->ndim = 1, s->size[0] = values->numel;
  s->stride[0][0] = dense->ndim ? 1 : 0, s->stride[1][0] = 0, s->stride[2][0] = 1;
  /* Values that are places lie between bounds that are known. */
  tide__index_mode m = {.scatter = true, .reduce = TIDE_INDEX_SUM, .located = s->bins == 0};
  return tide__index_run(&m, sums, dense, values, s);
}

/* The dtype that sums of `dtype` are kept in. */
static tide_dtype sum_dtype(tide_dtype dtype) {
  return tide__category(dtype) != 2 ? dtype : tide__itemsize(dtype) == 2 ? TIDE_FLOAT32 : TIDE_FLOAT64;
}

/* Sums of the weights, which have values' shape, or counts: [n] of a dtype that is wide enough, or int64. */
static tide_status sum_at(tide_tensor **out, const tide_tensor *values, const tide_tensor *weights, int64_t n,
                          tide__index_space *s) {
  tide_options o = {weights ? (tide_dtype)weights->dtype : TIDE_INT64, values->storage->device, false};
  TIDE_OWNED tide_tensor *sums = NULL, *dense = NULL;
  tide_options wide = {sum_dtype(o.dtype), o.device, false};
  TIDE_TRY(tide_full(&sums, &n, 1, tide_int(0), &wide));
  TIDE_TRY(weights ? tide__as_contiguous(&dense, weights, o.dtype) : tide_full(&dense, NULL, 0, tide_int(1), &o));
  s->length = n, s->pitch = 1;
  if (values->numel) TIDE_TRY(add_at(sums, values, dense, s));
  return tide__owned_give(out, &sums);
}

/* The smallest and the largest element, by one wait. */
static tide_status extremes(tide_scalar value[2], const tide_tensor *x) {
  if (tide__category(x->dtype) == 1) {
    int64_t low, high;
    TIDE_TRY(tide_extremes(&low, &high, x));
    value[0] = tide_int(low), value[1] = tide_int(high);
    return TIDE_OK;
  }
  TIDE_OWNED tide_tensor *both = NULL;
  int64_t two = 2;
  TIDE_TRY(tide__tensor_new(&both, &two, 1, (tide_dtype)x->dtype, x->storage->device));
  for (int i = 0; i < 2; i++) {
    TIDE_OWNED tide_tensor *slot = NULL;
    TIDE_TRY(tide_select(&slot, both, 0, i));
    TIDE_TRY(tide_reduce(NULL, i ? TIDE_MAX : TIDE_MIN, x, NULL, slot));
  }
  char bytes[2 * 16];
  TIDE_TRY(tide_read(bytes, both));
  for (int i = 0; i < 2; i++)
    value[i] = tide__scalar_unpack(bytes + i * tide__itemsize(x->dtype), (tide_dtype)x->dtype);
  return TIDE_OK;
}

/* ---- bincount ---- */

static tide_status check_bincount(const tide_tensor *x, const tide_tensor *weights, int64_t least) {
  static const char *what = "bincount";
  TIDE_TRY(tide__check(x, what, "x"));
  if (x->ndim != 1)
    return tide__fail(TIDE_SHAPE, "%s: wrong shape of x, got %s, expected one dim", what,
                      tide__shape_text(x->size, x->ndim));
  if (tide__category(x->dtype) != 1)
    return tide__fail(TIDE_DTYPE, "%s: wrong dtype of x, got %s, expected integers", what,
                      tide_dtype_name((tide_dtype)x->dtype));
  if (least < 0)
    return tide__fail(TIDE_VALUE, "%s: wrong minlength, got %lld, expected at least 0", what, (long long)least);
  if (!weights) return TIDE_OK;
  TIDE_TRY(tide__check(weights, what, "the weights"));
  TIDE_TRY(tide__operand_device(x, "x", weights, "the weights", what));
  if (tide__category(weights->dtype) == 3)
    return tide__fail(TIDE_DTYPE, "%s: wrong dtype of the weights, got %s, expected real numbers", what,
                      tide_dtype_name((tide_dtype)weights->dtype));
  return tide__size_expect(weights, x->size, x->ndim, what, "the weights");
}

tide_status tide_bincount(tide_tensor **out, const tide_tensor *x, const tide_tensor *weights, int64_t least) {
  TIDE_GIVEN("bincount", out);
  TIDE_TRY(check_bincount(x, weights, least));
  tide_scalar range[2] = {tide_int(0), tide_int(-1)};
  if (x->numel) TIDE_TRY(extremes(range, x));
  if (range[0].i < 0)
    return tide__fail(TIDE_VALUE, "bincount: x has a negative value, got %lld, expected values from 0",
                      (long long)range[0].i);
  tide__index_space s;
  TIDE_OWNED tide_tensor *values = NULL, *wide = NULL, *one = NULL, *sums = NULL;
  tide_dtype dtype = x->dtype == TIDE_INT32 ? TIDE_INT32 : TIDE_INT64;
  int64_t n = tide__size_add(range[1].i, 1);
  if (!x->numel) weights = NULL; /* torch counts then */
  tide__index_along(&s, x, 0);
  TIDE_TRY(tide__as_contiguous(&values, x, dtype));
  if (weights) {
    TIDE_TRY(tide__as_dtype(&wide, weights, weights->dtype == TIDE_FLOAT32 ? TIDE_FLOAT32 : TIDE_FLOAT64));
    TIDE_TRY(tide__as_contiguous(&one, wide, (tide_dtype)wide->dtype));
  }
  TIDE_TRY(sum_at(&sums, values, one, n < least ? least : n, &s));
  return tide__as_dtype(out, sums, one ? (tide_dtype)one->dtype : TIDE_INT64);
}

/* ---- bins ---- */

static tide_status check_values(const tide_tensor *x, const char *what) {
  TIDE_TRY(tide__check(x, what, "x"));
  int category = tide__category(x->dtype);
  if (category == 1 || category == 2) return TIDE_OK;
  return tide__fail(TIDE_DTYPE, "%s: wrong dtype of x, got %s, expected real numbers", what,
                    tide_dtype_name((tide_dtype)x->dtype));
}

/* The dtype that bins are computed in. */
static tide_dtype bin_dtype(const tide_tensor *x) {
  return x->dtype == TIDE_FLOAT64 || tide__category(x->dtype) == 1 ? TIDE_FLOAT64 : TIDE_FLOAT32;
}

/* `apart`: how far the bounds go from a value that is the only one. */
static tide_status find_bounds(double *low, double *high, const tide_tensor *x, double apart, const char *what) {
  if (!(*low <= *high))
    return tide__fail(TIDE_VALUE, "%s: wrong bounds, got %.17g and %.17g, expected the smaller one first", what, *low,
                      *high);
  if (*low == *high && x->numel) {
    tide_scalar range[2];
    TIDE_TRY(extremes(range, x));
    bool floats = range[0].kind == 'F';
    *low = floats ? range[0].re : (double)range[0].i, *high = floats ? range[1].re : (double)range[1].i;
  }
  if (*low == *high) *low -= apart, *high += apart;
  if (isfinite(*low) && isfinite(*high)) return TIDE_OK;
  /* the sign of what is not a number depends on the processor */
  return tide__fail(TIDE_VALUE, "%s: the bounds are not finite, got %.17g and %.17g, expected finite ones", what,
                    isnan(*low) ? (double)NAN : *low, isnan(*high) ? (double)NAN : *high);
}

/* Divided by the sum and by the widths of the bins. */
static tide_status make_density(tide_tensor **out, const tide_tensor *sums, const tide_tensor *edges) {
  TIDE_OWNED tide_tensor *upper = NULL, *lower = NULL, *width = NULL, *sum = NULL;
  TIDE_TRY(tide_narrow(&upper, edges, 0, 1, sums->numel));
  TIDE_TRY(tide_narrow(&lower, edges, 0, 0, sums->numel));
  TIDE_TRY(tide_binary(&width, TIDE_OP_sub, upper, lower, NULL));
  TIDE_TRY(tide_reduce(&sum, TIDE_SUM, sums, NULL, NULL));
  TIDE_TRY(tide_binary(NULL, TIDE_OP_mul, width, sum, width));
  return tide_binary(out, TIDE_OP_div, sums, width, NULL);
}

/* Sums or counts in the bins of s, as x's dtype; with edges, divided by their sum and by the widths. */
static tide_status sum_bins(tide_tensor **out, const tide_tensor *x, const tide_tensor *weights, int64_t n,
                            tide__index_space *s, const tide_tensor *edges) {
  TIDE_OWNED tide_tensor *values = NULL, *sums = NULL, *density = NULL;
  TIDE_TRY(tide__as_contiguous(&values, x, bin_dtype(x)));
  TIDE_TRY(sum_at(&sums, values, weights, n, s));
  if (edges) TIDE_TRY(make_density(&density, sums, edges));
  return tide__as_dtype(out, edges ? density : sums, (tide_dtype)x->dtype);
}

static tide_status check_bins(int64_t bins, const char *what) {
  if (bins > 0) return TIDE_OK;
  return tide__fail(TIDE_VALUE, "%s: wrong number of bins, got %lld, expected at least 1", what, (long long)bins);
}

tide_status tide_histc(tide_tensor **out, const tide_tensor *x, int64_t bins, double low, double high,
                       tide_tensor *into) {
  tide_tensor *made;
  TIDE_TRY(tide__out_check(out, into, "histc"));
  TIDE_TRY(check_values(x, "histc"));
  TIDE_TRY(check_bins(bins, "histc"));
  if (into) {
    TIDE_TRY(tide__into_check(into, x, "x", (tide_dtype)x->dtype, "histc"));
    TIDE_TRY(tide__size_takes(into, &bins, 1, into->storage == x->storage, "histc"));
  }
  TIDE_TRY(find_bounds(&low, &high, x, 1, "histc"));
  tide__index_space s;
  tide__index_along(&s, x, 0);
  s.bins = TIDE_BINS_EVEN, s.low = low, s.high = high;
  TIDE_TRY(sum_bins(&made, x, NULL, bins, &s, NULL));
  tide_status status = into ? tide__size_give(into, &bins, 1, into->storage == x->storage, "histc") : TIDE_OK;
  return tide__deliver(out, made, into, status);
}

static tide_status check_histogram(const tide_tensor *x, const tide_histogram_options *o) {
  static const char *what = "histogram";
  TIDE_SIZED(what, o);
  TIDE_TRY(check_values(x, what));
  if (tide__category(x->dtype) != 2)
    return tide__fail(TIDE_DTYPE, "%s: wrong dtype of x, got %s, expected floats", what,
                      tide_dtype_name((tide_dtype)x->dtype));
  const tide_tensor *with[2] = {o->edges, o->weights};
  const char *names[2] = {"the edges", "the weights"};
  for (int i = 0; i < 2; i++) {
    if (!with[i]) continue;
    TIDE_TRY(tide__check(with[i], what, names[i]));
    TIDE_TRY(tide__operand_device(x, "x", with[i], names[i], what));
    if (with[i]->dtype != x->dtype)
      return tide__fail(TIDE_DTYPE, "%s: wrong dtype of %s, got %s, expected %s as x has", what, names[i],
                        tide_dtype_name((tide_dtype)with[i]->dtype), tide_dtype_name((tide_dtype)x->dtype));
  }
  if (o->weights) TIDE_TRY(tide__size_expect(o->weights, x->size, x->ndim, what, "the weights"));
  if (!o->edges) return check_bins(o->bins ? o->bins : 100, what);
  if (o->edges->ndim == 1 && o->edges->numel >= 2) return TIDE_OK;
  return tide__fail(TIDE_SHAPE, "%s: wrong shape of the edges, got %s, expected one dim of at least 2", what,
                    tide__shape_text(o->edges->size, o->edges->ndim));
}

/* The first and the last edge are the bounds, which the host has to know. */
static tide_status edge_bounds(tide__index_space *s, const tide_tensor *edges) {
  double *bound[2] = {&s->low, &s->high};
  for (int i = 0; i < 2; i++) {
    TIDE_OWNED tide_tensor *one = NULL;
    tide_scalar value;
    TIDE_TRY(tide_select(&one, edges, 0, i ? edges->numel - 1 : 0));
    TIDE_TRY(tide_item(&value, one));
    *bound[i] = value.re;
  }
  return TIDE_OK;
}

/* The edges as the user gets them, and as bins are looked for: contiguous, in the dtype that they are computed in. */
static tide_status make_edges(tide_tensor **given, tide_tensor **edges, tide__index_space *s, int64_t *bins,
                              const tide_tensor *x, const tide_histogram_options *o) {
  tide_options like = {(tide_dtype)x->dtype, x->storage->device, false};
  if (o->edges) {
    s->bins = TIDE_BINS_EDGES, *bins = o->edges->numel - 1;
    TIDE_TRY(edge_bounds(s, o->edges));
    *given = tide__tensor_ref(o->edges);
  } else {
    s->bins = TIDE_BINS_NEARBY, *bins = o->bins ? o->bins : 100;
    s->low = o->low, s->high = o->high;
    if (!x->numel && s->low == 0 && s->high == 0) s->high = 1;
    TIDE_TRY(find_bounds(&s->low, &s->high, x, 0.5, "histogram"));
    TIDE_TRY(tide_linspace(given, s->low, s->high, tide__size_add(*bins, 1), &like));
  }
  return tide__as_contiguous(edges, *given, bin_dtype(x));
}

tide_status tide_histogram(tide_tensor **out, tide_tensor **edges, const tide_tensor *x,
                           const tide_histogram_options *options) {
  TIDE_GIVEN("histogram", edges);
  TIDE_GIVEN("histogram", options);
  TIDE_GIVEN("histogram", out);
  tide__index_space s;
  TIDE_OWNED tide_tensor *given = NULL, *searched = NULL;
  int64_t bins;
  TIDE_TRY(check_histogram(x, options));
  tide__index_along(&s, x, 0);
  TIDE_TRY(make_edges(&given, &searched, &s, &bins, x, options));
  s.edges = searched;
  /* Widths of 16-bit edges are exact in the dtype that bins are computed in. */
  TIDE_TRY(sum_bins(out, x, options->weights, bins, &s, options->density ? searched : NULL));
  return tide__owned_give(edges, &given);
}
