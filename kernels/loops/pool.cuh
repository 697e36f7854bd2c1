/* pool.cuh: pooling by the usual windows. */
#pragma once

#include "tidek.h"

namespace tidek {

/* Queues it, or returns false where window.cu's kernel has to do it. */
bool pool(int *rc, cudaStream_t stream, const tide_window_args *a);

} // namespace tidek
