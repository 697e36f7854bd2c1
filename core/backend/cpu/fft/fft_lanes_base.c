/* fft_lanes_base.c: the lanes of Fourier transforms for every processor of the kind.
 *
 * The template does the work; fft_plan.c takes this table where there is no better one. */
#include "backend/cpu/vector.h"

#include "fft_lanes_isa.h"

#define T                 float
#define N                 4
#define F(name)           name##_f32
#define EXCHANGES         FOURS
#define FUSE(a, b, c)     ((a) * (b) + (c))
#define FUSE_NEG(a, b, c) ((c) - (a) * (b))
#include "fft_lanes_template.h"
#define T                 double
#define N                 2
#define F(name)           name##_f64
#define EXCHANGES         EXCHANGE(1)
#define FUSE(a, b, c)     ((a) * (b) + (c))
#define FUSE_NEG(a, b, c) ((c) - (a) * (b))
#include "fft_lanes_template.h"

#define NAME_f32(name) name##_f32
#define NAME_f64(name) name##_f64
const tide__fft_lanes tide__fft_lanes_base[2] = {LANES_TABLE(NAME_f32), LANES_TABLE(NAME_f64)};

#if defined(__clang__) && defined(TIDE_TARGET)
#  pragma clang attribute pop
#endif
