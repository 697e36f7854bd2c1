/* order.h: the order in which elements are sorted, for C and for CUDA: each becomes a whole number, its key, and the
 * keys stand in the order of the elements, or in the other one. NaN is the greatest. A key gives its element back, but
 * for the sign of zero and what a NaN holds where these are joined: equal elements then have equal keys, and whoever
 * wants such an element itself takes it from where it stood (tide_order_is_joined).
 *
 * Elements of 1, 2 and 4 bytes have keys of 32 bits, of which the others are zero. */
#ifndef TIDE_ORDER_H
#define TIDE_ORDER_H

#include "random.h"
#include "tide/tide.h"

#define TIDE_ORDER(W, s)                                                                                               \
  /* mask: the bits of an element; sign: of these the one that turns the order round, or 0; infinity: its bits, or 0   \
   * for integers; flip: mask where the largest comes first. */                                                        \
  typedef struct tide_order_##s {                                                                                      \
    W mask, sign, infinity, flip;                                                                                      \
    int joins;                                                                                                         \
  } tide_order_##s;                                                                                                    \
  TIDE_FN W tide_order_key_##s(W bits, tide_order_##s o) {                                                             \
    if (!o.infinity) return bits ^ o.sign ^ o.flip;                                                                    \
    W size = bits & ~o.sign, key = bits ^ (bits & o.sign ? o.mask : o.sign);                                           \
    if (size > o.infinity) key = o.mask;                                                                               \
    if (size == 0 && o.joins) key = o.sign;                                                                            \
    return key ^ o.flip;                                                                                               \
  }                                                                                                                    \
  TIDE_FN W tide_order_bits_##s(W key, tide_order_##s o) {                                                             \
    key ^= o.flip;                                                                                                     \
    return key ^ (o.infinity && !(key & o.sign) ? o.mask : o.sign);                                                    \
  }                                                                                                                    \
  TIDE_FN int tide_order_is_nan_##s(W key, tide_order_##s o) { return o.infinity && (key ^ o.flip) == o.mask; }        \
  TIDE_FN int tide_order_is_joined_##s(W key, tide_order_##s o) {                                                      \
    return o.infinity && ((key ^ o.flip) == o.mask || (key ^ o.flip) == o.sign);                                       \
  }                                                                                                                    \
  static inline tide_order_##s tide_order_of_##s(int dtype, int bytes, int descending, int joins) {                    \
    tide_order_##s o;                                                                                                  \
    o.mask = (W) ~(W)0 >> (8 * (sizeof(W) - (unsigned)bytes));                                                         \
    o.sign = dtype == TIDE_BOOL || dtype == TIDE_UINT8 ? 0 : o.mask ^ (o.mask >> 1);                                   \
    o.infinity = 0, o.flip = descending ? o.mask : 0, o.joins = joins;                                                 \
    if (dtype == TIDE_FLOAT16) o.infinity = (W)0x7c00;                                                                 \
    if (dtype == TIDE_BFLOAT16) o.infinity = (W)0x7f80;                                                                \
    if (dtype == TIDE_FLOAT32) o.infinity = (W)0x7f800000;                                                             \
    if (dtype == TIDE_FLOAT64) o.infinity = (W)0x7ff << (8 * sizeof(W) - 12);                                          \
    return o;                                                                                                          \
  }
TIDE_ORDER(uint32_t, 32)
TIDE_ORDER(uint64_t, 64)
#undef TIDE_ORDER

#endif
