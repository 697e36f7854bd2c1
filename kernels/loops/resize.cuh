/* resize.cuh: images in another size, which window.cu and pad.cu leave to resize.cu. */
#pragma once

#include "launch.cuh"

namespace tidek {

/* Whether it is one: cubic mode; linear mode of two dims, of which several rows need the same row of the input; nearest
 * mode of two, behind one that stays as it is. */
bool is_resize(const tide_window_args *a);
bool is_resize(const tide_pad_args *a);
int resize(cudaStream_t stream, const tide_window_args *a);
int resize(cudaStream_t stream, const tide_pad_args *a);

} // namespace tidek
