/* index.c: reading and writing by tensors of positions and by masks.
 *
 * Elements under a mask are counted in pieces and then taken (the kernels mask_count and compact). To write them the
 * mask becomes positions by the same kernels, and positions become a gather or a scatter along one dim of a flat
 * tensor. Only the count travels to the host: it is the size of the result.
 *
 * Index values count from the base that the calling thread has set; masks and the positions made from them count from 0
 * and never leave this file.
 *
 * Invariant: the dense side of a gather or scatter has one stride for all positions of the index tensor, whatever its
 * number of dims. */
#include "index.h"

#include "tide/scatter.h"

/* ---- by an index tensor ---- */

/* The index as contiguous int64 or int32 on x's device; a copy if it overlaps with `written`. */
static tide_status prepare_index(tide_tensor **out, const tide_tensor *x, const tide_tensor *index,
                                 const tide_tensor *written) {
  TIDE_OWNED tide_tensor *any = NULL;
  TIDE_TRY(tide__check(x, "index", "x"));
  TIDE_TRY(tide__index_tensor(&any, x, index, written, "index"));
  return tide__as_contiguous(out, any, (tide_dtype)any->dtype);
}

/* x's size with dim replaced by the index's. */
static tide_status indexed_size(int64_t *size, int *ndim, const tide_tensor *x, int dim, const tide_tensor *index,
                                const char *what) {
  int rest = x->ndim ? x->ndim - 1 : 0;
  *ndim = rest + index->ndim;
  if (*ndim > TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE, "%s: too many dims in the result, got %d, expected at most %d", what, *ndim,
                      TIDE_MAX_DIMS);
  int n = 0;
  for (int d = 0; d < dim; d++) size[n++] = x->size[d];
  for (int d = 0; d < index->ndim; d++) size[n++] = index->size[d];
  for (int d = dim + 1; d < x->ndim; d++) size[n++] = x->size[d];
  return TIDE_OK;
}

tide_status tide__index_move(const tide__index_mode *m, const tide_tensor *sparse, int dim, const tide_tensor *index,
                             const tide_tensor *dense, const int64_t *dense_stride, int64_t pitch) {
  tide__index_space s;
  tide__index_along(&s, sparse, dim);
  s.ndim = sparse->ndim ? sparse->ndim : 1;
  for (int d = 0; d < s.ndim; d++) {
    bool along = d == dim;
    s.size[d] = along ? index->numel : sparse->size[d];
    s.stride[0][d] = along ? pitch : dense_stride[d];
    s.stride[1][d] = along ? 0 : sparse->stride[d];
    s.stride[2][d] = along;
  }
  return tide__index_run(m, sparse, dense, index, &s);
}

int64_t tide__index_strides(int64_t *stride, const tide_tensor *x, int dim, int64_t count) {
  int64_t step = 1, pitch = 1;
  for (int d = x->ndim - 1; d >= 0; d--) {
    stride[d] = step;
    if (d == dim) pitch = step;
    step = tide__size_mul(step, d == dim ? count : x->size[d]);
  }
  return pitch;
}

tide_status tide_index_get(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index) {
  TIDE_GIVEN("index_get", out);
  TIDE_OWNED tide_tensor *positions = NULL, *made = NULL;
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  int ndim;
  TIDE_TRY(prepare_index(&positions, x, index, NULL));
  TIDE_TRY(tide__dim_check(&dim, dim, x->ndim, "index"));
  TIDE_TRY(indexed_size(size, &ndim, x, dim, index, "index"));
  TIDE_TRY(tide__tensor_new(&made, size, ndim, (tide_dtype)x->dtype, x->storage->device));
  int64_t pitch = tide__index_strides(stride, x, dim, positions->numel);
  tide__index_mode m = {.base = tide_get_index_base()};
  TIDE_TRY(tide__index_move(&m, x, dim, positions, made, stride, pitch));
  return tide__owned_give(out, &made);
}

tide_status tide__index_number(tide_tensor **out, const tide_tensor *x, tide_dtype dtype, tide_scalar value) {
  tide_tensor *made;
  TIDE_TRY(tide__tensor_new(&made, NULL, 0, dtype, x->storage->device));
  return tide__hand_out(out, made, tide_fill(made, value));
}

tide_status tide__index_value(tide_tensor **out, const tide_tensor *x, const tide_operand *value, const char *what) {
  const tide_tensor *v = value->tensor;
  if (!v) {
    TIDE_TRY(tide__scalar_check(value->number, (tide_dtype)x->dtype, what));
    return tide__index_number(out, x, (tide_dtype)x->dtype, value->number);
  }
  TIDE_TRY(tide__check(v, what, "the value"));
  if (v->storage->device < 0 && v->ndim == 0 && x->storage->device >= 0) {
    tide_options o = {(tide_dtype)x->dtype, x->storage->device, false};
    return tide_to(out, v, &o, false, false);
  }
  TIDE_TRY(tide__operand_device(x, "x", v, "the value", what));
  return tide__tensor_overlaps(x, v) && v->dtype == x->dtype ? tide_clone(out, v)
                                                             : tide__as_dtype(out, v, (tide_dtype)x->dtype);
}

tide_status tide__index_write(const tide__index_mode *m, const tide_tensor *x, int dim, const tide_tensor *index,
                              const tide_tensor *value, const int64_t *size, int ndim) {
  int64_t flat[TIDE_MAX_DIMS];
  int n = 0;
  if (!tide__broadcasts_to(value, size, ndim))
    return tide__fail(TIDE_SHAPE, "index: wrong shape of the value, got %s, expected one that broadcasts to %s",
                      tide__shape_text(value->size, value->ndim), tide__shape_text(size, ndim));
  TIDE_OWNED tide_tensor *full = NULL, *lined = NULL;
  TIDE_TRY(tide_expand(&full, value, size, ndim));
  for (int d = 0; d < dim; d++) flat[n++] = x->size[d];
  flat[n++] = index->numel;
  for (int d = dim + 1; d < x->ndim; d++) flat[n++] = x->size[d];
  TIDE_TRY(tide_reshape(&lined, full, flat, n));
  return tide__index_move(m, x, dim, index, lined, lined->stride, lined->stride[dim]);
}

tide_status tide_index_set(tide_tensor *x, int dim, const tide_tensor *index, const tide_operand *value) {
  TIDE_GIVEN("index_set", value);
  tide__index_mode m = {.scatter = true, .base = tide_get_index_base()};
  TIDE_OWNED tide_tensor *positions = NULL, *v = NULL;
  int64_t size[TIDE_MAX_DIMS];
  int ndim;
  TIDE_TRY(prepare_index(&positions, x, index, x));
  TIDE_TRY(tide__writable_check(x, "index", "x"));
  TIDE_TRY(tide__dim_check(&dim, dim, x->ndim, "index"));
  TIDE_TRY(tide__index_value(&v, x, value, "index"));
  TIDE_TRY(indexed_size(size, &ndim, x, dim, positions, "index"));
  return tide__index_write(&m, x, dim, positions, v, size, ndim);
}

/* ---- by a mask ---- */

/* The kernel that counts, or with `starts` the one that takes elements of x, or positions from `base` on where that is
 * NULL. */
static tide_status compact(const tide_tensor *out, const tide_tensor *flags, const tide_tensor *starts,
                           const tide_tensor *x, int base) {
  tide__queue q;
  tide_compact_args a;
  TIDE_TRY(tide__operands(&a.head, &q, flags->storage->device, 4, (const tide_tensor *[]){out, flags, starts, x}));
  a.numel = flags->numel, a.item_size = x ? (int32_t)tide__itemsize(out->dtype) : base;
  return starts ? TIDE_LAUNCH(&q, compact, &a, 0) : TIDE_LAUNCH(&q, mask_count, &a, 0);
}

/* How many of contiguous flags are true before each piece of them, and in all. Synchronises. */
static tide_status count_pieces(tide_tensor **starts, int64_t *held, const tide_tensor *flags) {
  int64_t size = (flags->numel + TIDE_COMPACT_PIECE - 1) / TIDE_COMPACT_PIECE + 1;
  TIDE_OWNED tide_tensor *last = NULL;
  tide_scalar n;
  TIDE_TRY(tide__tensor_new(starts, &size, 1, TIDE_INT64, flags->storage->device));
  TIDE_TRY(compact(*starts, flags, NULL, NULL, 0));
  TIDE_TRY(tide_select(&last, *starts, 0, size - 1));
  TIDE_TRY(tide__item_now(&n, last));
  *held = n.i;
  return TIDE_OK;
}

/* Where contiguous flags are true: the elements of x, contiguous and beside them, or their positions, counted from
 * `base`. Synchronises. */
static tide_status take_true(tide_tensor **out, const tide_tensor *flags, const tide_tensor *x, int base) {
  TIDE_OWNED tide_tensor *starts = NULL;
  tide_tensor *made;
  int64_t n = 0;
  if (flags->numel) TIDE_TRY(count_pieces(&starts, &n, flags));
  TIDE_TRY(tide__tensor_new(&made, &n, 1, x ? (tide_dtype)x->dtype : TIDE_INT64, flags->storage->device));
  return tide__hand_out(out, made, n ? compact(made, flags, starts, x, base) : TIDE_OK);
}

static tide_status check_mask(const tide_tensor *x, const tide_tensor *mask) {
  TIDE_TRY(tide__check(x, "mask", "x"));
  TIDE_TRY(tide__check(mask, "mask", "the mask"));
  TIDE_TRY(tide__operand_device(x, "x", mask, "the mask", "mask"));
  if (mask->dtype != TIDE_BOOL)
    return tide__fail(TIDE_DTYPE, "mask: wrong dtype of the mask, got %s, expected bool",
                      tide_dtype_name((tide_dtype)mask->dtype));
  if (tide__broadcasts_to(mask, x->size, x->ndim)) return TIDE_OK;
  return tide__fail(TIDE_SHAPE, "mask: wrong shape of the mask, got %s, expected one that broadcasts to %s",
                    tide__shape_text(mask->size, mask->ndim), tide__shape_text(x->size, x->ndim));
}

/* The checked mask as contiguous flags, one for each element of x, before a wait. */
static tide_status mask_flags(tide_tensor **out, const tide_tensor *x, const tide_tensor *mask) {
  TIDE_OWNED tide_tensor *full = NULL;
  if (x->storage->device >= 0) TIDE_TRY(tide__sync_begin("mask"));
  TIDE_TRY(tide_expand(&full, mask, x->size, x->ndim));
  return tide__as_contiguous(out, full, TIDE_BOOL);
}

/* The positions where the checked mask, broadcast to x, holds. Synchronises. */
static tide_status mask_positions(tide_tensor **out, const tide_tensor *x, const tide_tensor *mask) {
  TIDE_OWNED tide_tensor *flags = NULL;
  TIDE_TRY(mask_flags(&flags, x, mask));
  return take_true(out, flags, NULL, 0);
}

/* Gathers from, or scatters to, the contiguous x as one line. */
static tide_status move_flat(bool scatter, const tide_tensor *x, const tide_tensor *positions,
                             const tide_tensor *dense) {
  tide_tensor line = *x;
  int64_t unused[1] = {0};
  line.ndim = 1, line.size[0] = x->numel, line.stride[0] = 1;
  tide__index_mode m = {.scatter = scatter};
  return tide__index_move(&m, &line, 0, positions, dense, unused, dense->ndim ? dense->stride[0] : 0);
}

static tide_status gather_flat(tide_tensor **out, const tide_tensor *x, const tide_tensor *positions) {
  TIDE_OWNED tide_tensor *packed = NULL;
  tide_tensor *made;
  TIDE_TRY(tide__as_contiguous(&packed, x, (tide_dtype)x->dtype));
  TIDE_TRY(tide__tensor_new(&made, &positions->numel, 1, (tide_dtype)x->dtype, x->storage->device));
  return tide__hand_out(out, made, move_flat(false, packed, positions, made));
}

tide_status tide_mask_get(tide_tensor **out, const tide_tensor *x, const tide_tensor *mask) {
  TIDE_GIVEN("mask_get", out);
  TIDE_OWNED tide_tensor *flags = NULL, *packed = NULL, *positions = NULL;
  TIDE_TRY(check_mask(x, mask));
  if (mask->storage->device != x->storage->device) { /* a peer's */
    TIDE_TRY(mask_positions(&positions, x, mask));
    return gather_flat(out, x, positions);
  }
  TIDE_TRY(mask_flags(&flags, x, mask));
  TIDE_TRY(tide__as_contiguous(&packed, x, (tide_dtype)x->dtype));
  return take_true(out, flags, packed, 0);
}

/* Writes the elements of a 1-d value, one for each position. */
static tide_status scatter_flat(tide_tensor *x, const tide_tensor *positions, const tide_tensor *value) {
  if (x->contiguous) return move_flat(true, x, positions, value);
  TIDE_OWNED tide_tensor *packed = NULL;
  TIDE_TRY(tide__as_contiguous(&packed, x, (tide_dtype)x->dtype));
  TIDE_TRY(move_flat(true, packed, positions, value));
  return tide__copy_kernel(x, packed);
}

static tide_status choose(tide_tensor *x, const tide_tensor *mask, const tide_operand *value) {
  tide_operand in[3] = {{.tensor = mask}, *value, {.tensor = x}};
  return tide_elementwise(NULL, TIDE_OP_where, in, NULL, x);
}

/* A 1-d value has as many elements as the mask holds, or it broadcasts. */
static tide_status set_from_line(tide_tensor *x, const tide_tensor *mask, const tide_tensor *v) {
  TIDE_OWNED tide_tensor *positions = NULL;
  TIDE_TRY(mask_positions(&positions, x, mask));
  if (positions->numel == v->numel) return scatter_flat(x, positions, v);
  if (tide__broadcasts_to(v, x->size, x->ndim)) return choose(x, mask, &(tide_operand){.tensor = v});
  return tide__fail(TIDE_SHAPE, "mask: wrong number of values, got %lld, expected %lld, as many as the mask holds",
                    (long long)v->numel, (long long)positions->numel);
}

/* A number takes x's dtype before the choice, so that it does not promote the result. */
static tide_scalar number_for(tide_scalar s, tide_dtype dtype) {
  uint64_t bits[2];
  tide__scalar_pack(bits, s, dtype);
  return tide__scalar_unpack(bits, dtype);
}

tide_status tide_mask_set(tide_tensor *x, const tide_tensor *mask, const tide_operand *value) {
  TIDE_GIVEN("mask_set", value);
  TIDE_OWNED tide_tensor *v = NULL;
  TIDE_TRY(check_mask(x, mask));
  TIDE_TRY(tide__writable_check(x, "mask", "x"));
  if (!value->tensor) {
    TIDE_TRY(tide__scalar_check(value->number, (tide_dtype)x->dtype, "mask"));
    return choose(x, mask, &(tide_operand){.number = number_for(value->number, (tide_dtype)x->dtype)});
  }
  TIDE_TRY(tide__index_value(&v, x, value, "mask"));
  if (v->ndim == 1 && v->numel != 1) return set_from_line(x, mask, v);
  if (tide__broadcasts_to(v, x->size, x->ndim)) return choose(x, mask, &(tide_operand){.tensor = v});
  return tide__fail(TIDE_SHAPE,
                    "mask: wrong shape of the value, got %s, expected one that broadcasts to %s, or one dim",
                    tide__shape_text(v->size, v->ndim), tide__shape_text(x->size, x->ndim));
}

/* ---- masked_scatter ---- */

/* The first elements of the source, as many as the mask holds. */
static tide_status scatter_source(tide_tensor *x, const tide_tensor *mask, const tide_tensor *source) {
  TIDE_OWNED tide_tensor *positions = NULL, *line = NULL, *first = NULL, *apart = NULL;
  TIDE_TRY(mask_positions(&positions, x, mask));
  int64_t all = source->numel, held = positions->numel;
  if (held > all)
    return tide__fail(TIDE_SHAPE,
                      "masked_scatter: too few elements in the source, got %lld, expected at least %lld, as many as "
                      "the mask holds",
                      (long long)all, (long long)held);
  TIDE_TRY(tide_reshape(&line, source, &all, 1));
  TIDE_TRY(tide_narrow(&first, line, 0, 0, held));
  if (tide__tensor_overlaps(x, first)) TIDE_TRY(tide_clone(&apart, first));
  return scatter_flat(x, positions, apart ? apart : first);
}

tide_status tide_masked_scatter(tide_tensor **out, const tide_tensor *x, const tide_tensor *mask,
                                const tide_tensor *source, tide_tensor *into) {
  static const char *what = "masked_scatter";
  tide_tensor *target;
  TIDE_TRY(tide__out_check(out, into, what));
  TIDE_TRY(check_mask(x, mask));
  TIDE_TRY(tide__written_check(x, into, what));
  TIDE_TRY(tide__check(source, what, "the source"));
  TIDE_TRY(tide__operand_device(x, "x", source, "the source", what));
  if (source->dtype != x->dtype)
    return tide__fail(TIDE_DTYPE, "%s: wrong dtype of the source, got %s, expected %s as x has", what,
                      tide_dtype_name((tide_dtype)source->dtype), tide_dtype_name((tide_dtype)x->dtype));
  TIDE_TRY(tide__written_begin(&target, x, into, (tide_dtype)x->dtype));
  return tide__written_end(out, target, x, into, scatter_source(target, mask, source), what);
}

/* ---- positions as coordinates ---- */

/* out[:, d] = (position / step) % size + base, less what changes nothing, but for the first. */
static tide_status coordinate(tide_tensor *out, int d, const tide_tensor *positions, int64_t step, int64_t size) {
  TIDE_OWNED tide_tensor *column = NULL;
  int64_t base = tide_get_index_base();
  TIDE_TRY(tide_select(&column, out, 1, d));
  const struct {
    tide_op op;
    int64_t by;
    bool is_needed;
  } steps[3] = {{TIDE_OP_floor_divide, step, step != 1 || d == 0},
                {TIDE_OP_remainder, size, d > 0},
                {TIDE_OP_add, base, base != 0}};
  for (int i = 0; i < 3; i++) {
    if (!steps[i].is_needed) continue;
    tide_operand in[2] = {{.tensor = positions}, {.tensor = NULL, .number = tide_int(steps[i].by)}};
    TIDE_TRY(tide_elementwise(NULL, steps[i].op, in, NULL, column));
    positions = column;
  }
  return TIDE_OK;
}

static tide_status coordinates(tide_tensor **out, const tide_tensor *x, const tide_tensor *positions) {
  int64_t size[2] = {positions->numel, x->ndim}, step = 1;
  tide_tensor *made;
  TIDE_TRY(tide__tensor_new(&made, size, 2, TIDE_INT64, x->storage->device));
  tide_status status = TIDE_OK;
  for (int d = x->ndim - 1; d >= 0 && status == TIDE_OK && made->numel; d--) {
    status = coordinate(made, d, positions, step, x->size[d]);
    step *= x->size[d];
  }
  return tide__hand_out(out, made, status);
}

tide_status tide_nonzero(tide_tensor **out, const tide_tensor *x) {
  TIDE_TRY(tide__unary_check(out, x, "nonzero"));
  TIDE_OWNED tide_tensor *flags = NULL, *positions = NULL;
  bool is_line = x->ndim == 1; /* its positions are the coordinates */
  if (x->storage->device >= 0) TIDE_TRY(tide__sync_begin("nonzero"));
  TIDE_TRY(tide__as_contiguous(&flags, x, TIDE_BOOL));
  TIDE_TRY(take_true(&positions, flags, NULL, is_line ? tide_get_index_base() : 0));
  const int64_t size[2] = {positions->numel, 1};
  return is_line ? tide_view(out, positions, size, 2) : coordinates(out, x, positions);
}

/* ---- triangles ---- */

/* A [rows, 1] or [1, columns] tensor of positions plus `first`. */
static tide_status ruler(tide_tensor **out, int64_t rows, int64_t columns, int64_t first, tide_dtype dtype,
                         int device) {
  tide_options o = {dtype, device, false};
  TIDE_OWNED tide_tensor *line = NULL;
  int64_t size[2] = {rows, columns};
  TIDE_TRY(tide_arange(&line, tide_int(first), tide_int(1), rows * columns, &o));
  return tide_view(out, line, size, 2);
}

tide_status tide_tril(tide_tensor **out, const tide_tensor *x, int64_t k, bool upper) {
  const char *what = upper ? "triu" : "tril";
  TIDE_TRY(tide__check(x, what, "x"));
  if (x->ndim < 2)
    return tide__fail(TIDE_SHAPE, "%s: too few dims, got %s, expected at least 2 dims", what,
                      tide__shape_text(x->size, x->ndim));
  int64_t n = x->size[x->ndim - 2], m = x->size[x->ndim - 1];
  int64_t shift = k < -n ? -n : k > m ? m : k;
  TIDE_OWNED tide_tensor *rows = NULL, *columns = NULL, *keep = NULL;
  const tide_dtype dtype = n < INT32_MAX / 2 && m < INT32_MAX / 2 ? TIDE_INT32 : TIDE_INT64; /* which compares faster */
  TIDE_TRY(ruler(&rows, n, 1, shift, dtype, x->storage->device));
  TIDE_TRY(ruler(&columns, 1, m, 0, dtype, x->storage->device));
  TIDE_TRY(tide_binary(&keep, upper ? TIDE_OP_ge : TIDE_OP_le, columns, rows, NULL));
  tide_scalar zero = x->dtype == TIDE_BOOL ? tide_bool(false) : tide_int(0);
  tide_operand in[3] = {{.tensor = keep}, {.tensor = x}, {.tensor = NULL, .number = zero}};
  return tide_elementwise(out, TIDE_OP_where, in, NULL, NULL);
}

/* ---- repeats ---- */

/* The counts on the host: one for each of n indexes, or a lone one that serves all. */
static tide_status read_counts(tide_tensor **out, const tide_tensor *counts, int64_t n) {
  TIDE_TRY(tide__check(counts, "repeat_interleave", "n"));
  if (tide__category(counts->dtype) != 1)
    return tide__fail(TIDE_DTYPE, "repeat_interleave: n: got %s, expected integers",
                      tide_dtype_name((tide_dtype)counts->dtype));
  if (counts->ndim > 1 || (counts->numel != n && counts->numel != 1))
    return tide__fail(TIDE_SHAPE, "repeat_interleave: n: got %s, expected one count or %lld in one dim",
                      tide__shape_text(counts->size, counts->ndim), (long long)n);
  TIDE_OWNED tide_tensor *host = NULL;
  tide_options o = {TIDE_INT64, TIDE_CPU, false};
  TIDE_TRY(tide_to(&host, counts, &o, false, false));
  return tide__as_contiguous(out, host, TIDE_INT64);
}

/* INT64_MAX where int64 cannot hold the sum. */
static tide_status sum_counts(int64_t *total, const int64_t *counts, int64_t n) {
  *total = 0;
  for (int64_t i = 0; i < n; i++) {
    if (counts[i] < 0)
      return tide__fail(TIDE_VALUE, "repeat_interleave: n: got %lld, expected at least 0", (long long)counts[i]);
    *total = tide__size_add(*total, counts[i]);
  }
  return TIDE_OK;
}

/* The indexes, from the thread's base, of a dim of size n whose index i is to stand counts[i] times. */
static tide_status repeated_index(tide_tensor **out, const tide_tensor *counts, int64_t n, int device) {
  const int64_t *count = tide_tensor_data(counts);
  int64_t total, at = 0, base = tide_get_index_base();
  bool lone = counts->numel == 1;
  TIDE_OWNED tide_tensor *host = NULL;
  TIDE_TRY(sum_counts(&total, count, counts->numel));
  if (lone) total = tide__size_mul(n, total);
  TIDE_TRY(tide__tensor_new(&host, &total, 1, TIDE_INT64, TIDE_CPU));
  int64_t *values = tide_tensor_data(host);
  for (int64_t i = 0; i < n && at < total; i++)
    for (int64_t k = 0; k < count[lone ? 0 : i]; k++) values[at++] = base + i;
  tide_options o = {TIDE_INT64, device, false};
  return tide_to(out, host, &o, false, false);
}

tide_status tide_repeat_interleave_each(tide_tensor **out, const tide_tensor *x, const tide_tensor *counts, int dim) {
  TIDE_GIVEN("repeat_interleave_each", out);
  TIDE_TRY(tide__check(x, "repeat_interleave", "x"));
  TIDE_TRY(tide__dim_check(&dim, dim, x->ndim, "repeat_interleave"));
  int64_t n = x->ndim ? x->size[dim] : 1;
  TIDE_OWNED tide_tensor *host = NULL, *index = NULL;
  TIDE_TRY(read_counts(&host, counts, n));
  TIDE_TRY(repeated_index(&index, host, n, x->storage->device));
  return tide_index_get(out, x, dim, index);
}
