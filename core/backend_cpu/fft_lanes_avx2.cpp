/* fft_lanes_avx2.cpp: the lanes of Fourier transforms for AVX2 and FMA, which the build switches on for this file
 * alone.
 *
 * Everything of ours is local to the file; the C++ library's templates come from fft_lanes.cpp, see there. */
#if defined(__AVX2__) && defined(__FMA__)
#  include <vector>

extern template class std::vector<int>;

#  include "fft_lanes_of.h"

const tide__fft_lanes tide__fft_lanes_f32_avx2 = TABLE(narrow, single, 8, 4);
const tide__fft_lanes tide__fft_lanes_f64_avx2 = TABLE(wide, single_wide, 4, 8);
#endif
