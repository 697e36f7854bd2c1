/* order_template.h: keys of one width; order.h includes it for each. Before: W, the type of the key; NAME(f), the name
 * of a function or type for it. */

/* mask: the bits of an element; sign: its sign bit, or 0 where that does not change the order; infinity: its bits, or 0
 * for integers; flip: equals mask if the largest comes first. */
typedef struct NAME(tide_order) {
  W mask, sign, infinity, flip;
  int joins;
} NAME(tide_order);
TIDE_FN W NAME(tide_order_key)(W bits, NAME(tide_order) o) {
  if (!o.infinity) return bits ^ o.sign ^ o.flip;
  W size = bits & ~o.sign, key = bits ^ (bits & o.sign ? o.mask : o.sign);
  if (size > o.infinity) key = o.mask;
  if (size == 0 && o.joins) key = o.sign;
  return key ^ o.flip;
}
TIDE_FN W NAME(tide_order_bits)(W key, NAME(tide_order) o) {
  key ^= o.flip;
  return key ^ (o.infinity && !(key & o.sign) ? o.mask : o.sign);
}
TIDE_FN int NAME(tide_order_is_nan)(W key, NAME(tide_order) o) { return o.infinity && (key ^ o.flip) == o.mask; }
TIDE_FN int NAME(tide_order_is_joined)(W key, NAME(tide_order) o) {
  return o.infinity && ((key ^ o.flip) == o.mask || (key ^ o.flip) == o.sign);
}
static inline NAME(tide_order) NAME(tide_order_of)(int dtype, int bytes, int descending, int joins) {
  NAME(tide_order) o;
  o.mask = (W) ~(W)0 >> (8 * (sizeof(W) - (unsigned)bytes));
  o.sign = dtype == TIDE_BOOL || dtype == TIDE_UINT8 ? 0 : o.mask ^ (o.mask >> 1);
  o.infinity = 0, o.flip = descending ? o.mask : 0, o.joins = joins;
  if (dtype == TIDE_FLOAT16) o.infinity = (W)0x7c00;
  if (dtype == TIDE_BFLOAT16) o.infinity = (W)0x7f80;
  if (dtype == TIDE_FLOAT32) o.infinity = (W)0x7f800000;
  if (dtype == TIDE_FLOAT64) o.infinity = (W)0x7ff << (8 * sizeof(W) - 12);
  return o;
}

#undef W
#undef NAME
