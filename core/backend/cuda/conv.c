/* conv.c: convolutions, by kernels of ours; those by kernels of one element, which are products of the operands as they
 * lie, by cuBLAS where it is installed.
 *
 * Invariant: a slot that fails has queued nothing that still needs its scratch memory. */
#include "internal.h"

enum { LEAST_PLANE = 8 }; /* elements of a plane of the result; shorter rows are no work for cuBLAS */

static bool is_product(const tide_conv_args *a) {
  const tide_taps *d = a->dim;
  for (int i = 0; i < 3; i++)
    if (d[i].kernel != 1 || d[i].stride != 1 || d[i].before || a->up[i] != 1 || d[i].in != d[i].out) return false;
  return a->groups == 1 && a->results > 1 && d[0].out * d[1].out * d[2].out >= LEAST_PLANE && tide__cuda_has_blas();
}

/* Each image's result is the weights times the image; the bias stands there before. */
static tide_status product(tide_stream *stream, const tide_conv_args *a) {
  const int64_t plane = a->dim[0].out * a->dim[1].out * a->dim[2].out;
  tide_gemm_args g = {.dtype = a->dtype, .tf32 = a->tf32, .alpha = {.re = 1}};
  g.head = a->head, g.head.nptr = 3;
  g.head.ptr[1] = a->head.ptr[2], g.head.ptr[2] = a->head.ptr[1];
  g.m = a->results, g.n = plane, g.k = a->channels, g.batch = a->batch;
  g.a_row = a->channels, g.a_col = 1, g.b_row = plane, g.b_col = 1, g.c_row = plane;
  g.b_batch = a->channels * plane, g.c_batch = a->results * plane;
  if (a->head.ptr[3]) {
    tide_copy_args c = {.ndim = 3, .dtype = {(uint8_t)a->dtype, (uint8_t)a->dtype}};
    c.head = a->head, c.head.nptr = 2, c.head.ptr[1] = a->head.ptr[3];
    c.numel = a->batch * a->results * plane;
    c.size[0] = a->batch, c.size[1] = a->results, c.size[2] = plane;
    c.stride[0][0] = a->results * plane, c.stride[0][1] = plane, c.stride[0][2] = 1;
    c.stride[1][1] = 1;
    TIDE_TRY(tide__cuda_copy(stream, &c));
    g.beta.re = 1;
  }
  return tide__cuda_gemm(stream, &g);
}

tide_status tide__cuda_conv(tide_stream *stream, const tide_conv_args *a) {
  if (is_product(a)) return product(stream, a);
  CUDA_ON_STREAM(s, cuda_stream_of(stream));
  CUDA_SCRATCH(scratch);
  TIDE_TRY(cuda_scratch_get(&scratch, stream, tidek_conv_scratch(a)));
  return tide__cuda_check(s->device, "conv", tidek_conv(s->handle, a, scratch.memory));
}
