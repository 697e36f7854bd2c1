/* pad.c: tensors with borders, or without some of their own; and what the operations on fields share.
 *
 * Each dim of the result reads its input by a rule of base/mathematics/field.h. Dims without a border that lie as one
 * are one to a backend, so that it moves long runs.
 *
 * Invariant: the backend gets an input that has elements, or only rules that read none. */
#include "field.h"

tide_status tide__place(const tide_tensor *result, const tide_tensor *x, tide_pad_args *a) {
  tide__queue q;
  int n = 0;
  if (result->numel == 0) return TIDE_OK;
  TIDE_TRY(tide__operands(&a->head, &q, x->storage->device, 2, (const tide_tensor *[]){result, x}));
  bool joins = false; /* may the next dim be one with the last? */
  for (int d = 0; d < x->ndim; d++) {
    bool plain = a->rule[d] == TIDE_PLACE_CONSTANT && a->before[d] == 0 && result->size[d] == x->size[d];
    if (plain && joins && a->stride[n - 1] == x->stride[d] * x->size[d]) {
      a->size[n - 1] *= x->size[d], a->in_size[n - 1] = a->size[n - 1], a->stride[n - 1] = x->stride[d];
      continue;
    }
    a->size[n] = result->size[d], a->in_size[n] = x->size[d], a->stride[n] = x->stride[d];
    a->rule[n] = a->rule[d], a->scale[n] = a->scale[d], a->before[n] = a->before[d];
    n++, joins = plain;
  }
  a->ndim = n, a->numel = result->numel, a->item_size = (int32_t)tide__itemsize(x->dtype);
  return TIDE_LAUNCH(&q, pad, a, 0);
}

static tide_status check_pads(const tide_tensor *x, const int64_t *pads, int n, tide_pad_mode mode) {
  if (n > x->ndim)
    return tide__fail(TIDE_ARGUMENT, "pad: too many pads, got %d pairs for a tensor of %d dims", n, x->ndim);
  for (int i = 0; i < n; i++) {
    int d = x->ndim - 1 - i;
    int64_t before = pads[2 * i], behind = pads[2 * i + 1], size = x->size[d];
    int64_t most = before > behind ? before : behind;
    bool crops = mode == TIDE_PAD_CONSTANT || mode == TIDE_PAD_CIRCULAR; /* first of all */
    int64_t less = crops && before > 0 ? 0 : before, also = crops && behind > 0 ? 0 : behind;
    bool beyond = crops && (less < -size || also < -size); /* the others find an element for every place */
    if (beyond || tide__size_add(size, tide__size_add(less, also)) < 0)
      return tide__fail(TIDE_VALUE, "pad: more is cropped than there is, got %lld and %lld for dim %lld of size %lld",
                        (long long)before, (long long)behind, (long long)tide__shown(d), (long long)size);
    if (mode == TIDE_PAD_REFLECT && (before || behind) && most >= size)
      return tide__fail(TIDE_VALUE,
                        "pad: too much to reflect, got %lld for dim %lld, expected less than its size, %lld",
                        (long long)most, (long long)tide__shown(d), (long long)size);
    if (mode == TIDE_PAD_CIRCULAR && most > size)
      return tide__fail(TIDE_VALUE,
                        "pad: goes round more than once, got %lld for dim %lld, expected at most its size, %lld",
                        (long long)most, (long long)tide__shown(d), (long long)size);
    if (mode == TIDE_PAD_REPLICATE && most > 0 && size == 0)
      return tide__fail(TIDE_VALUE, "pad: nothing to replicate, got dim %lld of size 0", (long long)tide__shown(d));
  }
  return TIDE_OK;
}

/* What goes round is what is left after cropping. */
static void crop(tide_tensor *x, int d, int64_t *before, int64_t *behind) {
  if (*before < 0) x->offset -= *before * x->stride[d], x->size[d] += *before, *before = 0;
  if (*behind < 0) x->size[d] += *behind, *behind = 0;
}

tide_status tide_pad(tide_tensor **out, const tide_tensor *x, const int64_t *pads, int n, tide_pad_mode mode,
                     tide_scalar value) {
  TIDE_LIST("pad", pads, n);
  TIDE_TRY(tide__check(x, "pad", "x"));
  TIDE_TRY(tide__out_check(out, NULL, "pad"));
  if ((unsigned)mode > TIDE_PAD_CIRCULAR)
    return tide__fail(TIDE_ARGUMENT, "pad: unknown mode, got %d, expected 0 to %d", (int)mode, TIDE_PAD_CIRCULAR);
  TIDE_TRY(check_pads(x, pads, n, mode));
  if (mode == TIDE_PAD_CONSTANT) TIDE_TRY(tide__scalar_check(value, (tide_dtype)x->dtype, "pad"));
  tide_pad_args a = {0};
  tide_tensor view = tide__tensor_borrow(x), *result;
  int64_t size[TIDE_MAX_DIMS];
  for (int d = 0; d < x->ndim; d++) {
    int i = x->ndim - 1 - d;
    int64_t before = i < n ? pads[2 * i] : 0, behind = i < n ? pads[2 * i + 1] : 0;
    if (mode == TIDE_PAD_CIRCULAR) crop(&view, d, &before, &behind);
    if (mode == TIDE_PAD_CIRCULAR && (before > view.size[d] || behind > view.size[d]))
      return tide__fail(TIDE_VALUE, "pad: goes round more than once, got dim %lld of size %lld after cropping",
                        (long long)tide__shown(d), (long long)view.size[d]);
    size[d] = tide__size_add(view.size[d], tide__size_add(before, behind));
    a.before[d] = before;
    a.rule[d] = before || behind ? (uint8_t)mode : TIDE_PLACE_CONSTANT;
  }
  TIDE_TRY(tide__tensor_new(&result, size, x->ndim, (tide_dtype)x->dtype, x->storage->device));
  tide__scalar_pack(a.bits, value, (tide_dtype)x->dtype);
  return tide__hand_out(out, result, tide__place(result, &view, &a));
}
