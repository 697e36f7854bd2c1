/* fft_freq.c: what goes with Fourier transforms: frequencies and their order.
 *
 * Frequencies are small integers first, exact in any float, and are divided once; so two that are negatives of each
 * other differ in sign alone. Shifting is rolling by half of each dim. */
#include "tensor.h"
#include "tide/fft.h"

static tide_status scaled(tide_tensor *x, double factor) {
  tide_operand operands[2] = {{.tensor = x}, {.tensor = NULL, .number = tide_float(factor)}};
  return x->numel ? tide_elementwise(NULL, TIDE_OP_mul, operands, NULL, x) : TIDE_OK;
}

tide_status tide_fft_freq(tide_tensor **out, int64_t n, double d, bool half, const tide_options *options) {
  TIDE_GIVEN("fft_freq", out);
  const char *what = half ? "rfftfreq" : "fftfreq";
  tide_options o;
  TIDE_TRY(tide__options_read(&o, options, what));
  if (o.dtype == TIDE_DTYPE_NONE) o.dtype = tide_get_default_dtype();
  if (n < 1)
    return tide__fail(TIDE_VALUE, "%s: wrong number of points, got %lld, expected at least 1", what, (long long)n);
  if (tide__category(o.dtype) != 2) return tide__fail_dtype(what, o.dtype, "a floating one");
  TIDE_OWNED tide_tensor *x = NULL, *rolled = NULL;
  const int dim = 0;
  TIDE_TRY(tide_arange(&x, tide_int(half ? 0 : -(n / 2)), tide_int(1), half ? n / 2 + 1 : n, &o));
  if (!half) TIDE_TRY(tide_fft_shift(&rolled, x, &dim, 1, true));
  TIDE_TRY(scaled(half ? x : rolled, 1 / ((double)n * d)));
  return tide__owned_give(out, half ? &x : &rolled);
}

tide_status tide_fft_shift(tide_tensor **out, const tide_tensor *x, const int *dims, int ndims, bool inverse) {
  TIDE_GIVEN("fft_shift", out);
  const char *what = inverse ? "ifftshift" : "fftshift";
  int64_t shift[TIDE_MAX_DIMS];
  TIDE_TRY(tide__check(x, what, "the input"));
  if (ndims < 0 || ndims > TIDE_MAX_DIMS || (ndims && !dims))
    return tide__fail(TIDE_ARGUMENT, "%s: wrong dims, got %d%s, expected a list of at most %d", what, ndims,
                      dims ? "" : " and no list", TIDE_MAX_DIMS);
  for (int i = 0; i < ndims; i++) {
    int d;
    TIDE_TRY(tide__dim_check(&d, dims[i], x->ndim, what));
    int64_t n = x->ndim ? x->size[d] : 1;
    shift[i] = inverse ? (n + 1) / 2 : n / 2;
  }
  if (ndims) return tide_roll(out, x, shift, dims, ndims);
  return tide_clone(out, x);
}
