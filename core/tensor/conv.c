/* conv.c: convolutions and their transposes.
 *
 * A transposed convolution is one whose input is spread, by zeros between its elements that no backend stores, and
 * whose kernel is turned round: so there is one kernel.
 *
 * Invariant: the backend gets contiguous operands of one dtype that fit each other, and results that have elements. */
#include "field.h"

static tide_status check_operands(const tide_tensor *x, const tide_tensor *w, const tide_tensor *bias, int rank,
                                  const char *what) {
  TIDE_TRY(tide__check(x, what, "x"));
  TIDE_TRY(tide__check(w, what, "w"));
  if (bias) TIDE_TRY(tide__check(bias, what, "bias"));
  if (rank < 1 || rank > 3)
    return tide__fail(TIDE_ARGUMENT, "%s: number of spatial dims, got %d, expected 1 to 3", what, rank);
  TIDE_TRY(tide__same_device(x, "x", w, "w", what));
  if (bias) TIDE_TRY(tide__same_device(x, "x", bias, "bias", what));
  if (tide__category(x->dtype) != 2)
    return tide__fail(TIDE_DTYPE, "%s: dtype of x not accepted, got %s, expected a real floating dtype", what,
                      tide_dtype_name((tide_dtype)x->dtype));
  if (w->dtype != x->dtype || (bias && bias->dtype != x->dtype))
    return tide__fail(TIDE_DTYPE, "%s: dtypes differ, got %s for %s, expected that of x, %s", what,
                      tide_dtype_name((tide_dtype)(w->dtype != x->dtype ? w->dtype : bias->dtype)),
                      w->dtype != x->dtype ? "w" : "bias", tide_dtype_name((tide_dtype)x->dtype));
  if (x->ndim != rank + 2 && x->ndim != rank + 1)
    return tide__fail(TIDE_SHAPE, "%s: x has the wrong number of dims, got %d, expected %d or, without a batch, %d",
                      what, x->ndim, rank + 2, rank + 1);
  if (w->ndim != rank + 2)
    return tide__fail(TIDE_SHAPE, "%s: w has the wrong number of dims, got %d, expected %d", what, w->ndim, rank + 2);
  return TIDE_OK;
}

static tide_status check_channels(const tide_conv_args *a, const tide_tensor *w, const tide_tensor *bias,
                                  bool transposed, const char *what) {
  if (a->groups < 1 || a->channels % a->groups || a->results % a->groups || a->channels < 1 || a->results < 1)
    return tide__fail(TIDE_VALUE, "%s: groups, got %lld for %lld channels and %lld results, expected a divisor of both",
                      what, (long long)a->groups, (long long)a->channels, (long long)a->results);
  int64_t given = w->size[transposed ? 0 : 1], wanted = transposed ? a->channels : a->channels / a->groups;
  if (given != wanted)
    return tide__fail(TIDE_SHAPE, "%s: w does not fit x, got size %s for %lld channels in %lld groups", what,
                      tide__shape_text(w->size, w->ndim), (long long)a->channels, (long long)a->groups);
  if (bias && (bias->ndim != 1 || bias->size[0] != a->results))
    return tide__fail(TIDE_SHAPE, "%s: bias, got size %s, expected one element for each of %lld results", what,
                      tide__shape_text(bias->size, bias->ndim), (long long)a->results);
  return TIDE_OK;
}

static tide_status check_dim(const tide_taps *t, int64_t padding, int64_t extra, int dim, const char *what) {
  const struct {
    const char *name;
    int64_t value, least;
  } parts[] = {{"the kernel's size", t->kernel, 1},
               {"stride", t->stride, 1},
               {"dilation", t->dilation, 1},
               {"padding", padding, 0},
               {"output_padding", extra, 0}};
  for (int i = 0; i < 5; i++)
    if (parts[i].value < parts[i].least || parts[i].value > INT32_MAX)
      return tide__fail(TIDE_VALUE, "%s: %s, got %lld for spatial dim %lld, expected %lld to %d", what, parts[i].name,
                        (long long)parts[i].value, (long long)tide__shown(dim), (long long)parts[i].least, INT32_MAX);
  if (extra >= t->stride && extra >= t->dilation && extra)
    return tide__fail(TIDE_VALUE, "%s: output_padding, got %lld, expected less than stride or dilation", what,
                      (long long)extra);
  return TIDE_OK;
}

static tide_status set_dim(tide_taps *t, int64_t *up, const tide_convolution *c, int i, bool transposed,
                           const char *what) {
  int64_t padding = c->same ? 0 : c->padding[i], extra = transposed ? c->output_padding[i] : 0;
  t->stride = c->stride[i], t->dilation = c->dilation[i], t->scale = 1, *up = 1;
  TIDE_TRY(check_dim(t, padding, extra, i, what));
  int64_t wide = (t->kernel - 1) * t->dilation;
  if (transposed) {
    t->out = t->in > 0 ? tide__size_add(tide__size_mul(t->in - 1, t->stride), wide + extra + 1 - 2 * padding) : 0;
    *up = t->stride, t->stride = 1, t->before = wide - padding;
    if (t->out < 0)
      return tide__fail(TIDE_SHAPE, "%s: nothing is left of spatial dim %lld, got %lld elements", what,
                        (long long)tide__shown(i), (long long)t->out);
    return TIDE_OK;
  }
  if (c->same && t->stride != 1)
    return tide__fail(TIDE_VALUE, "%s: padding = 'same', got stride %lld, expected 1", what, (long long)t->stride);
  t->before = c->same ? wide / 2 : padding;
  int64_t room = t->in + (c->same ? wide : 2 * padding) - wide - 1;
  if (room < 0)
    return tide__fail(TIDE_SHAPE, "%s: the kernel is larger than what it stands in, got %lld elements for %lld", what,
                      (long long)(wide + 1), (long long)(t->in + 2 * padding));
  t->out = room / t->stride + 1;
  return TIDE_OK;
}

/* w of a transposed convolution as one of a convolution: channels and results of each group change places, and the
 * kernel is turned round. */
static tide_status turned(tide_tensor **out, const tide_tensor *w, const tide_conv_args *a) {
  tide_tensor v = tide__tensor_borrow(w);
  int64_t row = w->stride[0], channels = a->channels / a->groups, results = a->results / a->groups;
  v.ndim = w->ndim + 1, v.refs = 1;
  v.size[0] = a->groups, v.stride[0] = row * channels;
  v.size[1] = results, v.stride[1] = w->stride[1];
  v.size[2] = channels, v.stride[2] = row;
  for (int d = 2; d < w->ndim; d++) {
    v.size[d + 1] = w->size[d], v.stride[d + 1] = -w->stride[d];
    v.offset += (w->size[d] - 1) * w->stride[d];
  }
  tide__tensor_layout(&v);
  if (!v.contiguous) return tide__as_contiguous(out, &v, (tide_dtype)w->dtype);
  return *out = tide__tensor_ref(w), TIDE_OK; /* one element wherever it could differ */
}

static tide_status launch(tide_conv_args *a, const tide_tensor *result, const tide_tensor *x, const tide_tensor *w,
                          const tide_tensor *bias) {
  tide__queue q;
  TIDE_TRY(tide__operands(&a->head, &q, x->storage->device, 4, (const tide_tensor *[]){result, x, w, bias}));
  a->dtype = x->dtype, a->tf32 = tide_get_tf32();
  return TIDE_LAUNCH(&q, conv, a, 0);
}

static tide_status run(tide_conv_args *a, const tide_tensor *result, const tide_tensor *x, const tide_tensor *w,
                       const tide_tensor *bias, bool transposed) {
  TIDE_OWNED tide_tensor *in = NULL, *by = NULL, *add = NULL;
  tide_dtype dtype = (tide_dtype)x->dtype;
  if (result->numel == 0) return TIDE_OK;
  TIDE_TRY(tide__as_contiguous(&in, x, dtype));
  TIDE_TRY(transposed ? turned(&by, w, a) : tide__as_contiguous(&by, w, dtype));
  if (bias) TIDE_TRY(tide__as_contiguous(&add, bias, dtype));
  return launch(a, result, in, by, add);
}

static tide_status convolve(tide_tensor **out, const tide_tensor *x, const tide_tensor *w, const tide_tensor *bias,
                            int rank, const tide_convolution *c, bool transposed) {
  static const char *const names[2][4] = {
      {"conv", "conv1d", "conv2d", "conv3d"},
      {"conv_transpose", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}};
  const char *what = names[transposed][rank >= 1 && rank <= 3 ? rank : 0];
  tide_conv_args a = {.groups = c->groups, .batch = 1};
  int64_t size[TIDE_MAX_DIMS];
  tide_tensor *result;
  TIDE_TRY(tide__out_check(out, NULL, what));
  TIDE_SIZED(what, c);
  TIDE_TRY(check_operands(x, w, bias, rank, what));
  int first = x->ndim - rank; /* spatial dim */
  if (first == 2) a.batch = x->size[0];
  a.channels = x->size[first - 1];
  a.results = transposed ? tide__size_mul(w->size[1], c->groups) : w->size[0];
  TIDE_TRY(check_channels(&a, w, bias, transposed, what));
  memcpy(size, x->size, sizeof size);
  for (int d = 0; d < 3; d++) a.dim[d] = (tide_taps){1, 1, 1, 1, 0, 1, 1}, a.up[d] = 1;
  for (int i = 0; i < rank; i++) {
    tide_taps *t = &a.dim[3 - rank + i];
    t->in = x->size[first + i], t->kernel = w->size[2 + i];
    TIDE_TRY(set_dim(t, &a.up[3 - rank + i], c, i, transposed, what));
    size[first + i] = t->out;
  }
  size[first - 1] = a.results;
  TIDE_TRY(tide__tensor_new(&result, size, x->ndim, (tide_dtype)x->dtype, x->storage->device));
  return tide__hand_out(out, result, run(&a, result, x, w, bias, transposed));
}

tide_status tide_conv(tide_tensor **out, const tide_tensor *x, const tide_tensor *w, const tide_tensor *bias, int rank,
                      const tide_convolution *c) {
  TIDE_GIVEN("conv", c);
  return convolve(out, x, w, bias, rank, c, false);
}

tide_status tide_conv_transpose(tide_tensor **out, const tide_tensor *x, const tide_tensor *w, const tide_tensor *bias,
                                int rank, const tide_convolution *c) {
  TIDE_GIVEN("conv_transpose", c);
  return convolve(out, x, w, bias, rank, c, true);
}
