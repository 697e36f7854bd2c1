/* order.h: the order of sorted elements, for C and for CUDA. Each element becomes a whole number, its key. Keys are
 * sorted as their elements are, or the other way round. NaN is the greatest.
 *
 * A key gives its element back. Where equal elements are to have equal keys (`joins`), the sign of zero and the bits of
 * a NaN are lost: tide_order_is_joined says so, and the element is read from where it was.
 *
 * Elements of 1, 2 and 4 bytes have keys of 32 bits; the unused bits are zero. */
#pragma once

#include "base/random.h"
#include "tide/tide.h"

#define W       uint32_t
#define NAME(f) f##_32
#include "order_template.h"
#define W       uint64_t
#define NAME(f) f##_64
#include "order_template.h"
