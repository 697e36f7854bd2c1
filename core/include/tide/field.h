/* tide/field.h: what is done to pictures, volumes and fields on a grid: borders, windows, convolutions, other sizes,
 * and values between the points. Shapes are [batch, channels, ...]: up to three spatial dims, the last ones. */
#ifndef TIDE_FIELD_H
#define TIDE_FIELD_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* What stands beyond the borders. CONSTANT: a value. REFLECT: x mirrored at its first and last element. REPLICATE: the
 * element at the border. CIRCULAR: x again. */
typedef enum tide_pad_mode { TIDE_PAD_CONSTANT, TIDE_PAD_REFLECT, TIDE_PAD_REPLICATE, TIDE_PAD_CIRCULAR } tide_pad_mode;
/* x with borders. pads[2 * i] and pads[2 * i + 1] stand before and behind dim ndim - 1 - i, for i < n; negative ones
 * crop. value: of CONSTANT. Every dtype. */
TIDE_API tide_status tide_pad(tide_tensor **out, const tide_tensor *x, const int64_t *pads, int n, tide_pad_mode mode,
                              tide_scalar value);

/* Windows over the last `rank` dims, 1 to 3; entry 0 is of the first of these. The padding behind it is
 * none or the padding before it. ceil_mode: a last window that is not whole counts too. */
typedef struct tide_pool {
  int64_t kernel[3], stride[3], padding[3], dilation[3];
  bool ceil_mode;
  bool count_include_pad; /* of the mean */
  int64_t divisor;        /* of the mean; 0: the number of elements */
  size_t struct_size;     /* as in tide_options */
} tide_pool;
/* The maximum of each window, NaN if there is one, and, unless indices is NULL, the row-major place in its plane of the
 * first of them (int64, from tide_get_index_base). x: [batch, channels, ...] or [channels, ...], real and floating. */
TIDE_API tide_status tide_max_pool(tide_tensor **out, tide_tensor **indices, const tide_tensor *x, int rank,
                                   const tide_pool *pool);
/* The mean of each window; dilation is not used. */
TIDE_API tide_status tide_avg_pool(tide_tensor **out, const tide_tensor *x, int rank, const tide_pool *pool);

/* NEAREST, of every dtype: PyTorch's, whose places are rounded down. EXACT is the same from the middle of each element.
 * AREA: the mean of what lies below. LINEAR, in all dims, and CUBIC, for two spatial dims: between elements. */
typedef enum tide_interpolate_mode {
  TIDE_INTERPOLATE_NEAREST,
  TIDE_INTERPOLATE_EXACT,
  TIDE_INTERPOLATE_AREA,
  TIDE_INTERPOLATE_LINEAR,
  TIDE_INTERPOLATE_CUBIC
} tide_interpolate_mode;
/* x, [batch, channels, ...] with one to three spatial dims, in another size of these. scale: NULL, or by how much each
 * dim grows, where that is not exactly size / its old size. align: the first and last elements keep their places. */
TIDE_API tide_status tide_interpolate(tide_tensor **out, const tide_tensor *x, const int64_t *size, const double *scale,
                                      tide_interpolate_mode mode, bool align);

/* Entry 0 is of the first of `rank` spatial dims. padding: zeros on either side; same: padding keeps the size. */
typedef struct tide_convolution {
  int64_t stride[3], padding[3], dilation[3], output_padding[3], groups;
  bool same;
  size_t struct_size; /* as in tide_options */
} tide_convolution;
/* The cross-correlation of x, [batch, channels, ...] or [channels, ...], with w, [results, channels / groups, ...], and
 * bias, [results], or NULL, which is added. Real floating dtypes, one for all; float16 and bfloat16 are summed in
 * float32, and float32 in TF32 on a GPU where tide_set_tf32 allows it. */
TIDE_API tide_status tide_conv(tide_tensor **out, const tide_tensor *x, const tide_tensor *w, const tide_tensor *bias,
                               int rank, const tide_convolution *c);
/* Its transpose, of w [channels, results / groups, ...]: elements of x are `stride` apart in the result, which has
 * output_padding more elements behind. */
TIDE_API tide_status tide_conv_transpose(tide_tensor **out, const tide_tensor *x, const tide_tensor *w,
                                         const tide_tensor *bias, int rank, const tide_convolution *c);

typedef enum tide_sample_mode { TIDE_SAMPLE_BY_LINEAR, TIDE_SAMPLE_BY_NEAREST, TIDE_SAMPLE_BY_CUBIC } tide_sample_mode;
typedef enum tide_sample_beyond { TIDE_SAMPLE_ZEROS, TIDE_SAMPLE_BORDER, TIDE_SAMPLE_REFLECTION } tide_sample_beyond;
/* The values of x, [batch, channels, ...] with two or three spatial dims, at the places grid, [batch, ..., dims], of
 * which the last dim names the innermost one first, from -1 to 1 over x: from its first to its last element with
 * `align`, else from border to border. One real floating dtype. CUBIC: two spatial dims. */
TIDE_API tide_status tide_grid_sample(tide_tensor **out, const tide_tensor *x, const tide_tensor *grid,
                                      tide_sample_mode mode, tide_sample_beyond beyond, bool align);

TIDE_C_END
#endif
