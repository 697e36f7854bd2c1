/* shape.c: functions that put elements in another order or number, and those that change a tensor's own shape.
 *
 * Each of them is one or a few strided copies: into narrow views of the result (cat, stack, roll), from a view with
 * stride 0 (tile, repeat_interleave) or with negative strides (flip, rot90). Such views live on the stack: they hold no
 * reference and never leave this file.
 *
 * Invariant: a destination that overlaps a source gets its values through a temporary. */
#include "tensor.h"

/* ---- views on the stack ---- */

static void narrow(tide_tensor *v, int dim, int64_t start, int64_t length) {
  if (v->numel) v->offset += start * v->stride[dim];
  v->size[dim] = length;
  tide__tensor_layout(v);
}

static void reverse(tide_tensor *v, int dim) {
  if (v->size[dim] > 1 && v->numel) v->offset += (v->size[dim] - 1) * v->stride[dim];
  v->stride[dim] = -v->stride[dim];
  tide__tensor_layout(v);
}

static tide_status copy_to_new(tide_tensor **out, const tide_tensor *view) {
  tide_tensor *x;
  TIDE_TRY(tide__tensor_new(&x, view->size, view->ndim, (tide_dtype)view->dtype, view->storage->device));
  return tide__hand_out(out, x, tide__copy_kernel(x, view));
}

/* ---- cat and stack ---- */

/* A 1-d tensor without elements fits beside anything, as the start of a loop that appends. */
static bool skipped(const tide_tensor *x) { return x->ndim == 1 && x->size[0] == 0; }

typedef struct joined {
  int dim, ndim;
  int64_t size[TIDE_MAX_DIMS];
  tide_dtype dtype;
  const tide_tensor *model; /* the first that is not skipped */
} joined;

static tide_status join_dtype(joined *j, tide_tensor *const *list, int n, const char *what) {
  tide__promotion p = TIDE_PROMOTION;
  if (n < 1 || !list)
    return tide__fail(TIDE_ARGUMENT, "%s: nothing to join, got an empty list, expected at least one tensor", what);
  for (int i = 0; i < n; i++) {
    TIDE_TRY(tide__check(list[i], what, "a tensor of the list"));
    if (list[i]->storage->device != list[0]->storage->device &&
        !tide__peer_reads(list[0]->storage->device, list[i]->storage->device))
      return tide__fail(TIDE_DEVICE,
                        "%s: tensors on different devices, got tensor %lld on %s%s and tensor %lld on %s%s, expected "
                        "one device",
                        what, (long long)tide__shown(0), tide__device_text(list[0]->storage->device),
                        tide__made_text(list[0]), (long long)tide__shown(i),
                        tide__device_text(list[i]->storage->device), tide__made_text(list[i]));
    tide__promote_tensor(&p, list[i]);
  }
  j->dtype = tide__promote_end(&p);
  return TIDE_OK;
}

static tide_status fail_join(const char *what, int i, const tide_tensor *x, const tide_tensor *model, int dim) {
  return tide__fail(TIDE_SHAPE,
                    "%s: shapes do not fit along dim %lld, got %s%s for tensor %lld beside %s%s, expected equal sizes "
                    "in the other dims",
                    what, (long long)tide__shown(dim), tide__shape_text(x->size, x->ndim), tide__made_text(x),
                    (long long)tide__shown(i), tide__shape_text(model->size, model->ndim), tide__made_text(model));
}

static tide_status join_size(joined *j, tide_tensor *const *list, int n, int dim) {
  j->model = list[0];
  for (int i = n - 1; i >= 0; i--)
    if (!skipped(list[i])) j->model = list[i];
  if (j->model->ndim == 0)
    return tide__fail(TIDE_SHAPE,
                      "cat: 0-d tensors cannot be joined, got a 0-d tensor, expected at least one dim: use stack");
  TIDE_TRY(tide__dim_check(&j->dim, dim, j->model->ndim, "cat"));
  j->ndim = j->model->ndim;
  memcpy(j->size, j->model->size, sizeof j->size);
  j->size[j->dim] = 0;
  for (int i = 0; i < n; i++) {
    const tide_tensor *x = list[i];
    if (skipped(x)) continue;
    if (x->ndim != j->ndim) return fail_join("cat", i, x, j->model, j->dim);
    for (int d = 0; d < j->ndim; d++)
      if (d != j->dim && x->size[d] != j->size[d]) return fail_join("cat", i, x, j->model, j->dim);
    j->size[j->dim] = tide__size_add(j->size[j->dim], x->size[j->dim]);
  }
  return TIDE_OK;
}

/* The tensor to write to: `into` if it can be written directly, else a new one. */
static tide_status join_target(tide_tensor **out, const joined *j, tide_tensor *const *list, int n, tide_tensor *into,
                               const char *what) {
  bool direct = into != NULL;
  if (into) {
    TIDE_TRY(tide__into_check(into, list[0], "the tensors", j->dtype, what));
    bool shared = false;
    for (int i = 0; i < n; i++) shared = shared || into->storage == list[i]->storage;
    TIDE_TRY(tide__size_give(into, j->size, j->ndim, shared, what));
    for (int i = 0; i < n; i++) direct = direct && !tide__tensor_overlaps(into, list[i]);
  }
  if (direct) {
    *out = into;
    return TIDE_OK;
  }
  return tide__tensor_new(out, j->size, j->ndim, j->dtype, list[0]->storage->device);
}

/* Do dense tensors of the CPU come to stand one behind the other as they are? */
static bool is_packed(const tide_tensor *target, int dim, tide_tensor *const *list, int n) {
  bool packed = target->storage->device == TIDE_CPU && target->contiguous && !tide__sync_watched();
  for (int d = 0; d < dim; d++) packed = packed && target->size[d] == 1;
  for (int i = 0; i < n && packed; i++)
    packed = list[i]->storage->device == TIDE_CPU && list[i]->contiguous && list[i]->dtype == target->dtype;
  return packed;
}

/* Many at once, so that threads share them evenly, which they cannot with each by itself. */
static tide_status pack(const tide_tensor *target, tide_tensor *const *list, int n) {
  tide_pack_args a;
  a.n = 0;
  char *to = tide__tensor_ptr(target);
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, TIDE_CPU));
  for (int i = 0; i < n; i++) {
    uint64_t bytes = (uint64_t)(list[i]->numel * tide__itemsize(list[i]->dtype));
    if (bytes) a.piece[a.n++] = (tide_pack_piece){to, tide__tensor_ptr(list[i]), bytes};
    to += bytes;
    if (a.n < TIDE_PACK_PIECES && i < n - 1) continue;
    TIDE_TRY(b->pack(NULL, &a));
    a.n = 0;
  }
  return TIDE_OK;
}

tide_status tide_cat(tide_tensor **out, tide_tensor *const *list, int n, int dim, tide_tensor *into) {
  joined j;
  tide_tensor *target;
  TIDE_TRY(tide__out_check(out, into, "cat"));
  TIDE_TRY(join_dtype(&j, list, n, "cat"));
  TIDE_TRY(join_size(&j, list, n, dim));
  TIDE_TRY(join_target(&target, &j, list, n, into, "cat"));
  tide_status status = TIDE_OK;
  bool packed = is_packed(target, j.dim, list, n);
  if (packed) status = pack(target, list, n);
  int64_t at = 0;
  for (int i = 0; i < n && status == TIDE_OK && !packed; i++) {
    if (skipped(list[i])) continue;
    tide_tensor part = tide__tensor_borrow(target);
    narrow(&part, j.dim, at, list[i]->size[j.dim]);
    at += list[i]->size[j.dim];
    status = tide__copy_kernel(&part, list[i]);
  }
  return tide__deliver(out, target, into, status);
}

tide_status tide_stack(tide_tensor **out, tide_tensor *const *list, int n, int dim, tide_tensor *into) {
  joined j;
  tide_tensor *target;
  TIDE_TRY(tide__out_check(out, into, "stack"));
  TIDE_TRY(join_dtype(&j, list, n, "stack"));
  TIDE_TRY(tide__dim_check(&j.dim, dim, list[0]->ndim + 1, "stack"));
  for (int i = 1; i < n; i++)
    if (!tide__same_size(list[i], list[0])) return fail_join("stack", i, list[i], list[0], j.dim);
  if (list[0]->ndim == TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE, "stack: too many dims, got %d, expected less than %d", TIDE_MAX_DIMS, TIDE_MAX_DIMS);
  j.ndim = list[0]->ndim + 1;
  for (int d = 0; d < j.ndim; d++) j.size[d] = d < j.dim ? list[0]->size[d] : d == j.dim ? n : list[0]->size[d - 1];
  TIDE_TRY(join_target(&target, &j, list, n, into, "stack"));
  tide_status status = TIDE_OK;
  bool packed = is_packed(target, j.dim, list, n);
  if (packed) status = pack(target, list, n);
  for (int i = 0; i < n && status == TIDE_OK && !packed; i++) {
    tide_tensor part = tide__tensor_borrow(target), whole = tide__tensor_borrow(list[i]);
    narrow(&part, j.dim, i, 1);
    whole.ndim = j.ndim;
    for (int d = j.ndim - 1; d > j.dim; d--) whole.size[d] = whole.size[d - 1], whole.stride[d] = whole.stride[d - 1];
    whole.size[j.dim] = 1, whole.stride[j.dim] = 0;
    status = tide__copy_kernel(&part, &whole);
  }
  return tide__deliver(out, target, into, status);
}

/* ---- repeated elements ---- */

/* The source has stride 0 along the repetitions; `split` is the result with the same dims. */
static tide_status repeat(tide_tensor **out, tide_tensor *source, const int64_t *size, int ndim) {
  tide_tensor *x;
  tide__tensor_layout(source);
  TIDE_TRY(tide__tensor_new(&x, size, ndim, (tide_dtype)source->dtype, source->storage->device));
  tide_tensor split = tide__tensor_borrow(source);
  split.storage = x->storage, split.offset = 0;
  tide__stride_contiguous(split.stride, split.size, split.ndim);
  tide__tensor_layout(&split);
  return tide__hand_out(out, x, tide__copy_kernel(&split, source));
}

static void push_dim(tide_tensor *v, int64_t size, int64_t stride) {
  if (v->ndim < TIDE_MAX_DIMS) v->size[v->ndim] = size, v->stride[v->ndim] = stride;
  v->ndim++;
}

tide_status tide_tile(tide_tensor **out, const tide_tensor *x, const int64_t *repeats, int n) {
  TIDE_GIVEN("tile", out);
  TIDE_LIST("tile", repeats, n);
  TIDE_TRY(tide__check(x, "tile", "x"));
  int ndim = n > x->ndim ? n : x->ndim;
  int64_t size[TIDE_MAX_DIMS], numel;
  if (n < 0 || ndim > TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE, "tile: wrong number of repeats, got %d, expected at most %d", n, TIDE_MAX_DIMS);
  tide_tensor source = tide__tensor_borrow(x);
  source.ndim = 0;
  for (int d = 0; d < ndim; d++) {
    int64_t times = d < ndim - n ? 1 : repeats[d - (ndim - n)];
    int64_t own = d < ndim - x->ndim ? 1 : x->size[d - (ndim - x->ndim)];
    int64_t stride = d < ndim - x->ndim ? 0 : x->stride[d - (ndim - x->ndim)];
    if (times < 0)
      return tide__fail(TIDE_VALUE, "tile: negative repeats, got %s, expected at least 0",
                        tide__shape_text(repeats, n));
    size[d] = tide__size_mul(own, times);
    if (times != 1) push_dim(&source, times, 0);
    if (own != 1) push_dim(&source, own, stride);
  }
  TIDE_TRY(tide__size_check(&numel, size, ndim, (tide_dtype)x->dtype, "tile"));
  if (source.ndim > TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE,
                      "tile: too many dims are repeated, got %d dims and repeats, expected at most %d together",
                      source.ndim, TIDE_MAX_DIMS);
  return repeat(out, &source, size, ndim);
}

tide_status tide_repeat_interleave(tide_tensor **out, const tide_tensor *x, int64_t repeats, int dim) {
  TIDE_TRY(tide__unary_check(out, x, "repeat_interleave"));
  TIDE_TRY(tide__dim_check(&dim, dim, x->ndim, "repeat_interleave"));
  if (repeats < 0)
    return tide__fail(TIDE_VALUE, "repeat_interleave: negative repeats, got %lld, expected at least 0",
                      (long long)repeats);
  int64_t size[TIDE_MAX_DIMS] = {1}, numel;
  int ndim = x->ndim ? x->ndim : 1;
  memcpy(size, x->size, (size_t)x->ndim * sizeof *size);
  size[dim] = tide__size_mul(size[dim], repeats);
  TIDE_TRY(tide__size_check(&numel, size, ndim, (tide_dtype)x->dtype, "repeat_interleave"));
  tide_tensor source = tide__tensor_borrow(x);
  source.ndim = 0;
  for (int d = 0; d < x->ndim; d++) {
    if (x->size[d] != 1) push_dim(&source, x->size[d], x->stride[d]);
    if (d == dim) push_dim(&source, repeats, 0);
  }
  if (x->ndim == 0) push_dim(&source, repeats, 0);
  if (source.ndim > TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE, "repeat_interleave: too many dims, got %d, expected less than %d", x->ndim,
                      TIDE_MAX_DIMS);
  return repeat(out, &source, size, ndim);
}

/* ---- another order ---- */

tide_status tide_flip(tide_tensor **out, const tide_tensor *x, const int *dims, int n) {
  TIDE_GIVEN("flip", out);
  TIDE_LIST("flip", dims, n);
  TIDE_TRY(tide__check(x, "flip", "x"));
  tide_tensor view = tide__tensor_borrow(x);
  unsigned seen = 0;
  for (int i = 0; i < n; i++) {
    int dim;
    TIDE_TRY(tide__dim_check(&dim, dims[i], x->ndim, "flip"));
    if (seen & 1u << dim)
      return tide__fail(TIDE_ARGUMENT, "flip: dim %lld is given twice, expected every dim at most once",
                        (long long)tide__shown(dim));
    seen |= 1u << dim;
    if (x->ndim) reverse(&view, dim);
  }
  return copy_to_new(out, &view);
}

/* Rolls from dim `dim` on: the dim's two pieces change places, and each piece goes on with the next dim. */
static tide_status roll_pieces(const tide_tensor *dst, const tide_tensor *src, const int64_t *shift, int dim) {
  while (dim < dst->ndim && shift[dim] == 0) dim++;
  if (dim == dst->ndim) return tide__copy_kernel(dst, src);
  int64_t size = dst->size[dim], s = shift[dim];
  tide_tensor to = tide__tensor_borrow(dst), from = tide__tensor_borrow(src);
  narrow(&to, dim, s, size - s);
  narrow(&from, dim, 0, size - s);
  TIDE_TRY(roll_pieces(&to, &from, shift, dim + 1));
  to = tide__tensor_borrow(dst), from = tide__tensor_borrow(src);
  narrow(&to, dim, 0, s);
  narrow(&from, dim, size - s, s);
  return roll_pieces(&to, &from, shift, dim + 1);
}

/* Without dims the tensor is rolled as one line. */
static tide_status roll_flat(tide_tensor **out, const tide_tensor *x, int64_t shift) {
  TIDE_OWNED tide_tensor *line = NULL, *rolled = NULL;
  int64_t minus_one = -1;
  int zero = 0;
  if (x->numel == 0) return tide_clone(out, x);
  TIDE_TRY(tide_reshape(&line, x, &minus_one, 1));
  TIDE_TRY(tide_roll(&rolled, line, &shift, &zero, 1));
  return tide_view(out, rolled, x->size, x->ndim);
}

tide_status tide_roll(tide_tensor **out, const tide_tensor *x, const int64_t *shifts, const int *dims, int n) {
  TIDE_GIVEN("roll", out);
  TIDE_LIST("roll", shifts, n);
  TIDE_TRY(tide__check(x, "roll", "x"));
  if (!dims && n == 1) return roll_flat(out, x, shifts[0]);
  if (!dims || n < 1)
    return tide__fail(TIDE_ARGUMENT, "roll: no dims for %d shifts, expected as many dims as shifts", n);
  int64_t shift[TIDE_MAX_DIMS] = {0};
  for (int i = 0; i < n; i++) {
    int dim;
    TIDE_TRY(tide__dim_check(&dim, dims[i], x->ndim, "roll"));
    int64_t size = x->ndim ? x->size[dim] : 1;
    if (!size) continue;
    int64_t own = shifts[i] % size;
    if (own < 0) own += size;
    shift[dim] = own < size - shift[dim] ? shift[dim] + own : shift[dim] - (size - own);
  }
  tide_tensor *made;
  TIDE_TRY(tide__tensor_new(&made, x->size, x->ndim, (tide_dtype)x->dtype, x->storage->device));
  return tide__hand_out(out, made, roll_pieces(made, x, shift, 0));
}

tide_status tide_rot90(tide_tensor **out, const tide_tensor *x, int64_t k, int d1, int d2) {
  TIDE_TRY(tide__unary_check(out, x, "rot90"));
  if (x->ndim < 2)
    return tide__fail(TIDE_SHAPE, "rot90: too few dims, got %s, expected at least 2 dims",
                      tide__shape_text(x->size, x->ndim));
  TIDE_TRY(tide__dim_check(&d1, d1, x->ndim, "rot90"));
  TIDE_TRY(tide__dim_check(&d2, d2, x->ndim, "rot90"));
  if (d1 == d2)
    return tide__fail(TIDE_ARGUMENT, "rot90: both dims are %lld, expected two different ones",
                      (long long)tide__shown(d1));
  int turns = (int)((k % 4 + 4) % 4);
  tide_tensor view = tide__tensor_borrow(x);
  if (turns == 1 || turns == 2) reverse(&view, d2);
  if (turns == 2 || turns == 3) reverse(&view, d1);
  if (turns == 1 || turns == 3) {
    tide__dims_swap(&view, d1, d2);
    tide__tensor_layout(&view);
  }
  return copy_to_new(out, &view);
}

/* ---- functions that change the tensor itself ---- */

/* A larger storage that begins with the bytes of x's, over x's own offset. */
static tide_status grow(tide_tensor *x, size_t bytes) {
  tide_storage *larger;
  TIDE_TRY(tide__storage_new(&larger, bytes, x->storage->device, x->storage->pinned));
  int64_t old = (int64_t)x->storage->nbytes;
  tide_tensor to = {.storage = larger, .numel = old, .ndim = 1, .dtype = TIDE_UINT8, .contiguous = true};
  to.size[0] = old, to.stride[0] = 1;
  tide_tensor from = to;
  from.storage = x->storage;
  tide_status status = old ? tide__copy_kernel(&to, &from) : TIDE_OK;
  if (status != TIDE_OK) {
    tide_storage_release(larger);
    return status;
  }
  tide_storage_release(x->storage);
  x->storage = larger;
  return TIDE_OK;
}

tide_status tide_resize(tide_tensor *x, const int64_t *size, int ndim) {
  TIDE_LIST("resize", size, ndim);
  TIDE_TRY(tide__check(x, "resize", "x"));
  int64_t numel;
  TIDE_TRY(tide__size_check(&numel, size, ndim, (tide_dtype)x->dtype, "resize"));
  int64_t bytes = tide__size_mul(tide__size_add(numel, x->offset), tide__itemsize(x->dtype));
  if (bytes == INT64_MAX)
    return tide__fail(TIDE_VALUE, "resize: too large, got %s after offset %lld, expected less than 2^63 bytes",
                      tide__shape_text(size, ndim), (long long)x->offset);
  if (numel && (size_t)bytes > x->storage->nbytes) TIDE_TRY(grow(x, (size_t)bytes));
  x->ndim = ndim;
  if (ndim) memmove(x->size, size, (size_t)ndim * sizeof *size);
  tide__stride_contiguous(x->stride, x->size, ndim);
  tide__tensor_layout(x);
  return TIDE_OK;
}

tide_status tide_set(tide_tensor *x, const tide_tensor *src) {
  TIDE_TRY(tide__check(x, "set", "x"));
  TIDE_TRY(tide__check(src, "set", "the source"));
  if (x->dtype != src->dtype)
    return tide__fail(TIDE_DTYPE, "set: wrong dtype of the source, got %s, expected %s",
                      tide_dtype_name((tide_dtype)src->dtype), tide_dtype_name((tide_dtype)x->dtype));
  TIDE_TRY(tide__same_device(x, "x", src, "the source", "set"));
  tide__storage_ref(src->storage);
  tide_storage *old = x->storage;
  x->storage = src->storage;
  x->offset = src->offset, x->numel = src->numel;
  x->ndim = src->ndim, x->contiguous = src->contiguous, x->replay = src->replay;
  memmove(x->size, src->size, sizeof x->size);
  memmove(x->stride, src->stride, sizeof x->stride);
  tide_storage_release(old);
  return TIDE_OK;
}

tide_status tide__size_takes(const tide_tensor *into, const int64_t *size, int ndim, bool shared, const char *what) {
  if (into->numel == 0 && !shared) return TIDE_OK;
  return tide__size_expect(into, size, ndim, what, "the destination");
}

/* An empty destination may be a view: it gets memory of its own, since what lies behind it is another tensor's. */
tide_status tide__size_give(tide_tensor *into, const int64_t *size, int ndim, bool shared, const char *what) {
  if (TIDE_LIKELY(tide__size_equal(into, size, ndim))) return TIDE_OK;
  TIDE_TRY(tide__size_takes(into, size, ndim, shared, what));
  tide_options o = {(tide_dtype)into->dtype, into->storage->device, into->storage->pinned};
  TIDE_OWNED tide_tensor *fresh = NULL;
  TIDE_TRY(tide_empty(&fresh, size, ndim, &o));
  return tide_set(into, fresh);
}

tide_status tide_fit(tide_tensor *out, const int64_t *size, int ndim) {
  TIDE_LIST("fit", size, ndim);
  int64_t numel;
  TIDE_TRY(tide__check(out, "fit", "out"));
  TIDE_TRY(tide__writable_check(out, "fit", "out"));
  TIDE_TRY(tide__size_check(&numel, size, ndim, (tide_dtype)out->dtype, "fit"));
  return tide__size_give(out, size, ndim, false, "fit");
}
