/* conv.cuh: what the kernels of convolutions share. */
#pragma once

#include "types.cuh"
#include "tidek.h"

namespace tidek {

/* A convolution whose operands are laid out for products: of some images at x [group][image][place][wide] and of the
 * weights [result][tap][wide], with the channels of a group innermost, filled up with zeros to `wide`, a multiple of 16
 * bytes. out, bias: as the caller has them. */
struct ConvArgs {
  void *out;
  const void *x, *w, *bias;
  int64_t m, k, n, plane, in_plane; /* the product of a group; elements of a plane of the result and of the input */
  int64_t groups, batch, channels, wide;
  int64_t tiles_m, tiles_n;
  int in[3], out_size[3], kernel[3], stride[3], before[3], dilation[3], up[3];
  Div by_plane, by_row, by_x;
};

static inline int conv_taps(const ConvArgs &a) { return a.kernel[0] * a.kernel[1] * a.kernel[2]; }

/* depthwise.cu: queues a convolution whose groups have one channel, or returns false where another way is needed. */
bool conv_depthwise(int *rc, cudaStream_t stream, const tide_conv_args *a);

/* The product on Hopper's tensor cores, conv_hopper.cu: of float16, bfloat16, and float32 that was rounded to TF32.
 * conv_hopper_takes: can it be one? */
bool conv_hopper_takes(const ConvArgs &a, int dtype);
int conv_hopper(cudaStream_t stream, const ConvArgs &a, int dtype);

} // namespace tidek
