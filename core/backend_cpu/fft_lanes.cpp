/* fft_lanes.cpp: the lanes of Fourier transforms for every processor of the kind.
 *
 * What the C++ library's own templates become is compiled here and only here: code that another file, compiled for
 * another instruction set, made of them could be the one that the linker keeps for both. */
#include <vector>

template class std::vector<int>;

#include "fft_lanes_of.h"

const tide__fft_lanes tide__fft_lanes_f32 = TABLE(narrow, single, 8, 4);
const tide__fft_lanes tide__fft_lanes_f64 = TABLE(wide, single_wide, 4, 8);
