/* fft_real.c: the whole transform of a real tensor, at half the work.
 *
 * Along the last dim only the first half is computed, straight into its place in the result; the second half is the
 * first one's conjugate, backwards. The other dims are transformed in place after that.
 *
 * Invariant: the mirror reads elements 1 to (n - 1) / 2 of a line and writes those from n / 2 + 1 on: never the
 * same. */
#include "fft.h"

#include "tensor.h"

/* One elementwise call whose input runs backwards. */
static tide_status mirror(tide_tensor *x, int dim) {
  int64_t n = x->size[dim], step = x->stride[dim];
  if (n < 3) return TIDE_OK;
  tide__queue q;
  tide_elementwise_args a = {.op = TIDE_OP_conj, .operands = 2, .compute = x->dtype, .dtype = {x->dtype, x->dtype}};
  int device = x->storage->device, item = (int)tide__itemsize(x->dtype);
  TIDE_TRY(tide__queue_begin(&q, device));
  tide__head_begin(&a.head, device, 2);
  tide__head_set(&a.head, 0, x, &q);
  a.head.ptr[1] = (char *)a.head.ptr[0] + (n - 1) / 2 * step * item;
  a.head.ptr[0] = (char *)a.head.ptr[0] + (n / 2 + 1) * step * item;
  a.numel = 1;
  for (int d = 0; d < x->ndim; d++) {
    a.size[d] = d == dim ? (n - 1) / 2 : x->size[d];
    a.stride[0][d] = x->stride[d], a.stride[1][d] = d == dim ? -step : x->stride[d];
    a.numel *= a.size[d];
  }
  a.ndim = tide__collapse(a.size, a.stride, 2, x->ndim, false);
  return q.backend->elementwise(q.stream, &a);
}

static tide_status fill(tide_tensor *result, const tide_tensor *x, const int *dims, const int64_t *n, int ndims,
                        tide_fft_norm norm, const char *what) {
  int last = dims[ndims - 1];
  int64_t size[TIDE_MAX_DIMS];
  TIDE_OWNED tide_tensor *half = NULL;
  memcpy(size, result->size, sizeof size);
  size[last] = size[last] / 2 + 1;
  TIDE_TRY(tide__tensor_view(&half, result, size, result->stride, result->ndim, 0));
  TIDE_TRY(tide_fft(NULL, TIDE_FFT_RFFT, x, &last, n ? n + ndims - 1 : NULL, 1, norm, half, what));
  TIDE_TRY(mirror(result, last));
  if (ndims == 1) return TIDE_OK;
  return tide_fft(NULL, TIDE_FFT_FFT, result, dims, NULL, ndims - 1, norm, result, what);
}

tide_status tide__fft_of_real(tide_tensor **out, const tide_tensor *x, const int64_t *size, tide_dtype dtype,
                              const int *dims, const int64_t *n, int ndims, tide_fft_norm norm, const char *what) {
  tide_tensor *result;
  TIDE_TRY(tide__tensor_new(&result, size, x->ndim, dtype, x->storage->device));
  return tide__hand_out(out, result, fill(result, x, dims, n, ndims, norm, what));
}
