/* fft.c: Fourier transforms.
 *
 * A call is brought to what backends take: dims that are nested in memory (each stride a multiple of the next one), at
 * most three at once, beside one batch dim. Whatever layout fits is handed on as it lies: dims in any order where
 * nothing is halved, strided and transposed tensors, several calls for a few batches. What does not fit is copied so
 * that the transformed dims are innermost, and the result keeps that order of dims, so that nothing is copied twice.
 *
 * On accelerators a plan comes from the cache and brings its scaling as an elementwise pass of its own; the CPU scales
 * as it stores. A backend may destroy what it transforms back to reals, so that is a copy whenever it is not ours.
 *
 * Invariant: x is only read; a result that is returned shares no memory with it. */
#include "fft.h"

#include "tensor.h"

/* More calls than these for the batches of one transform cost more than a copy. */
enum { MOST_CALLS = 16 };

typedef struct request {
  const char *what;
  tide_fft_kind kind;
  tide_fft_type type; /* of the last dim's group */
  bool backward;
  int ndims, dim[TIDE_MAX_DIMS];
  int64_t n[TIDE_MAX_DIMS]; /* logical lengths */
  double scale;
  int64_t in_size[TIDE_MAX_DIMS], out_size[TIDE_MAX_DIMS]; /* of the whole tensors */
  int ndim;
  tide_dtype in_dtype, out_dtype;
} request;

/* The input on its way: a tensor, and whether it is ours to destroy. */
typedef struct input {
  tide_tensor *x;
  bool ours;
} input;

/* ---- checking ---- */

static tide_status check_dims(request *r, const tide_tensor *x, const int *dims, int ndims) {
  if (ndims < 0 || (ndims && !dims))
    return tide__fail(TIDE_ARGUMENT, "%s: wrong dims, got %d%s, expected a list of them", r->what, ndims,
                      dims ? "" : " and no list");
  if (ndims > x->ndim)
    return tide__fail(TIDE_INDEX, "%s: too many dims, got %d for a tensor of %d", r->what, ndims, x->ndim);
  if (ndims == 0 && r->type != TIDE_FFT_C2C)
    return tide__fail(TIDE_VALUE, "%s: no dims, expected at least one", r->what);
  for (int i = 0; i < ndims; i++) {
    TIDE_TRY(tide__dim_check(&r->dim[i], dims[i], x->ndim, r->what));
    for (int k = 0; k < i; k++)
      if (r->dim[k] == r->dim[i])
        return tide__fail(TIDE_VALUE, "%s: dim %lld is given twice, expected different dims", r->what,
                          (long long)tide__shown(r->dim[i]));
  }
  r->ndims = ndims, r->ndim = x->ndim;
  return TIDE_OK;
}

static tide_status check_lengths(request *r, const tide_tensor *x, const int64_t *n) {
  for (int d = 0; d < x->ndim; d++) r->in_size[d] = r->out_size[d] = x->size[d];
  for (int i = 0; i < r->ndims; i++) {
    int d = r->dim[i];
    bool halved = r->type != TIDE_FFT_C2C && i == r->ndims - 1, back = r->type == TIDE_FFT_C2R && halved;
    int64_t length = !n || n[i] == -1 ? (back ? 2 * (x->size[d] - 1) : x->size[d]) : n[i];
    if (length < 1 || length > INT32_MAX)
      return tide__fail(TIDE_VALUE, "%s: invalid number of points in dim %lld, got %lld, expected 1 to 2^31 - 1",
                        r->what, (long long)tide__shown(d), (long long)length);
    r->n[i] = length;
    r->in_size[d] = back ? length / 2 + 1 : length;
    r->out_size[d] = halved && !back ? length / 2 + 1 : length;
  }
  return TIDE_OK;
}

static tide_status check_dtype(request *r, const tide_tensor *x) {
  tide_dtype dtype = (tide_dtype)x->dtype;
  if (tide__category(dtype) < 2) dtype = tide_get_default_dtype();
  if (dtype == TIDE_FLOAT16 || dtype == TIDE_BFLOAT16)
    return tide__fail_dtype(r->what, dtype, "float32, float64, complex64 or complex128");
  bool wide = dtype == TIDE_FLOAT64 || dtype == TIDE_COMPLEX128;
  if (r->type == TIDE_FFT_R2C && tide__category(dtype) == 3) return tide__fail_dtype(r->what, dtype, "a real one");
  tide_dtype real = wide ? TIDE_FLOAT64 : TIDE_FLOAT32, complex = wide ? TIDE_COMPLEX128 : TIDE_COMPLEX64;
  r->in_dtype = r->type == TIDE_FFT_R2C ? real : complex;
  r->out_dtype = r->type == TIDE_FFT_C2R ? real : complex;
  return TIDE_OK;
}

static tide_status check_into(const request *r, const tide_tensor *x, tide_tensor *into) {
  TIDE_TRY(tide__into_check(into, x, "the input", r->out_dtype, r->what));
  return tide__size_give(into, r->out_size, r->ndim, into->storage == x->storage, r->what);
}

static void set_scale(request *r, tide_fft_norm norm) {
  bool forward = r->kind == TIDE_FFT_FFT || r->kind == TIDE_FFT_RFFT || r->kind == TIDE_FFT_HFFT;
  double points = 1;
  for (int i = 0; i < r->ndims; i++) points *= (double)r->n[i];
  r->scale = norm == TIDE_FFT_ORTHO ? 1 / sqrt(points) : (norm == TIDE_FFT_FORWARD) == forward ? 1 / points : 1;
}

static tide_status request_begin(request *r, tide_fft_kind kind, const tide_tensor *x, const int *dims,
                                 const int64_t *n, int ndims, tide_fft_norm norm, const char *what) {
  static const char *const names[] = {"fft", "ifft", "rfft", "irfft", "hfft", "ihfft"};
  if ((unsigned)kind > TIDE_FFT_IHFFT || (unsigned)norm > TIDE_FFT_FORWARD)
    return tide__fail(TIDE_VALUE,
                      "%s: no such kind or norm, got %d and %d, expected a tide_fft_kind and a tide_fft_norm",
                      what ? what : "fft", (int)kind, (int)norm);
  *r = (request){.what = what ? what : names[kind], .kind = kind};
  r->type = kind <= TIDE_FFT_IFFT                             ? TIDE_FFT_C2C
            : kind == TIDE_FFT_RFFT || kind == TIDE_FFT_IHFFT ? TIDE_FFT_R2C
                                                              : TIDE_FFT_C2R;
  r->backward = kind == TIDE_FFT_IFFT || r->type == TIDE_FFT_C2R;
  TIDE_TRY(tide__check(x, r->what, "the input"));
  TIDE_TRY(check_dtype(r, x));
  TIDE_TRY(check_dims(r, x, dims, ndims));
  TIDE_TRY(check_lengths(r, x, n));
  set_scale(r, norm);
  return TIDE_OK;
}

/* ---- the input: cropped, padded, of the right dtype ---- */

static void input_end(input *in) { tide_tensor_release(in->x); }

static void input_replace(input *in, tide_tensor *x, bool ours) {
  tide_tensor_release(in->x);
  in->x = x, in->ours = ours;
}

/* Views of both tensors that have the lesser of the two sizes. */
static tide_status common_part(tide_tensor **a, tide_tensor **b, const tide_tensor *x, const tide_tensor *y) {
  int64_t size[TIDE_MAX_DIMS];
  for (int d = 0; d < x->ndim; d++) size[d] = x->size[d] < y->size[d] ? x->size[d] : y->size[d];
  TIDE_TRY(tide__tensor_view(a, x, size, x->stride, x->ndim, x->offset));
  return tide__tensor_view(b, y, size, y->stride, y->ndim, y->offset);
}

static tide_status pad(input *in, const request *r) {
  TIDE_OWNED tide_tensor *whole = NULL, *from = NULL, *to = NULL;
  TIDE_TRY(tide__tensor_new(&whole, r->in_size, r->ndim, r->in_dtype, in->x->storage->device));
  TIDE_TRY(tide_fill(whole, tide_int(0)));
  TIDE_TRY(common_part(&from, &to, in->x, whole));
  if (to->numel) TIDE_TRY(tide__copy_kernel(to, from));
  input_replace(in, tide__tensor_ref(whole), true);
  return TIDE_OK;
}

static tide_status fit(input *in, const request *r) {
  bool longer = false, shorter = false;
  for (int d = 0; d < r->ndim; d++) longer |= r->in_size[d] > in->x->size[d], shorter |= r->in_size[d] < in->x->size[d];
  if (longer) return pad(in, r);
  if (!shorter) return TIDE_OK;
  tide_tensor *part;
  TIDE_TRY(tide__tensor_view(&part, in->x, r->in_size, in->x->stride, r->ndim, in->x->offset));
  input_replace(in, part, false);
  return TIDE_OK;
}

static tide_status input_begin(input *in, const request *r, const tide_tensor *x) {
  tide_tensor *y;
  *in = (input){tide__tensor_ref(x), false};
  TIDE_TRY(fit(in, r));
  if (in->x->dtype != r->in_dtype) {
    TIDE_TRY(tide__as_dtype(&y, in->x, r->in_dtype));
    input_replace(in, y, true);
  }
  if (r->kind != TIDE_FFT_HFFT) return TIDE_OK;
  TIDE_TRY(tide_unary(&y, TIDE_OP_conj, in->x, in->ours ? in->x : NULL));
  if (y != in->x) input_replace(in, y, true);
  return TIDE_OK;
}

/* ---- one group of dims ---- */

typedef struct group {
  tide_fft_shape shape;
  int rank, dim[TIDE_FFT_RANK];
  /* Batches beyond the one of the shape. */
  int loops;
  int64_t size[TIDE_MAX_DIMS], stride[2][TIDE_MAX_DIMS];
} group;

/* Outermost first, by the strides of x; the halved dim stays last. */
static void sort_dims(int *dim, int count, const tide_tensor *x) {
  for (int i = 1; i < count; i++)
    for (int k = i; k > 0 && x->stride[dim[k]] > x->stride[dim[k - 1]]; k--) {
      int d = dim[k];
      dim[k] = dim[k - 1], dim[k - 1] = d;
    }
}

/* The strides of the group's dims in x, if they are nested; a dim of one element goes anywhere. */
static bool nested(int64_t *stride, const group *g, const tide_tensor *x) {
  int64_t inner = 1, covered = 1;
  for (int i = g->rank - 1; i >= 0; i--) {
    int64_t size = x->size[g->dim[i]], step = x->stride[g->dim[i]];
    if (size == 1) step = inner * covered;
    if (i == g->rank - 1 && size == 1) step = 1;
    if (step <= 0 || (i < g->rank - 1 && (step % inner != 0 || step / inner < covered))) return false;
    stride[i] = step;
    inner = step, covered = size;
  }
  return true;
}

static bool in_group(const group *g, int d) {
  for (int i = 0; i < g->rank; i++)
    if (g->dim[i] == d) return true;
  return false;
}

/* Collapses the dims that are not transformed: the longest is the shape's batch, the others are loops. */
static void set_batches(group *g, const tide_tensor *out, const tide_tensor *in) {
  int n = 0, longest = 0;
  for (int d = 0; d < in->ndim; d++)
    if (!in_group(g, d) && in->size[d] > 1) {
      g->size[n] = in->size[d];
      g->stride[0][n] = out->stride[d], g->stride[1][n] = in->stride[d];
      n++;
    }
  n = tide__collapse(g->size, g->stride, 2, n, false);
  for (int k = 1; k < n; k++)
    if (g->size[k] > g->size[longest]) longest = k;
  g->shape.batch = g->size[longest];
  for (int side = 0; side < 2; side++) g->shape.distance[side] = g->size[longest] == 1 ? 0 : g->stride[side][longest];
  g->size[longest] = 1;
  g->loops = n;
}

static int64_t calls_of(const group *g) {
  int64_t calls = 1;
  for (int k = 0; k < g->loops; k++) calls *= g->size[k];
  return calls;
}

/* false if the layouts are not what backends take. */
static bool group_begin(group *g, const request *r, const tide_tensor *out, const tide_tensor *in, tide_fft_type type,
                        const int *dim, int rank) {
  memset(g, 0, sizeof *g);
  g->rank = rank;
  memcpy(g->dim, dim, (size_t)rank * sizeof *dim);
  g->shape.type = (uint8_t)type, g->shape.wide = r->in_dtype == TIDE_FLOAT64 || r->in_dtype == TIDE_COMPLEX128;
  g->shape.rank = (uint8_t)rank;
  for (int i = 0; i < rank; i++) {
    bool real_out = type == TIDE_FFT_C2R;
    g->shape.n[i] = real_out ? out->size[dim[i]] : in->size[dim[i]];
  }
  if (!nested(g->shape.stride[0], g, out) || !nested(g->shape.stride[1], g, in)) return false;
  set_batches(g, out, in);
  return g->shape.batch == 1 || (g->shape.distance[0] > 0 && g->shape.distance[1] > 0);
}

/* ---- queueing ---- */

static tide_status run_calls(group *g, tide_fft_args *a, tide__queue *q, int item_out, int item_in) {
  int64_t at[TIDE_MAX_DIMS] = {0};
  char *out = a->head.ptr[0], *in = a->head.ptr[1];
  for (;;) {
    a->head.ptr[0] = out, a->head.ptr[1] = in;
    TIDE_TRY(TIDE_LAUNCH(q, fft, a, 0));
    int d = g->loops - 1;
    for (; d >= 0; d--) {
      out += g->stride[0][d] * item_out, in += g->stride[1][d] * item_in;
      if (++at[d] < g->size[d]) break;
      out -= g->size[d] * g->stride[0][d] * item_out, in -= g->size[d] * g->stride[1][d] * item_in;
      at[d] = 0;
    }
    if (d < 0) return TIDE_OK;
  }
}

/* With a plan, its work area from the allocator: the block may serve later work of the stream, which runs after
 * this. */
static tide_status run_planned(group *g, tide_fft_args *a, tide__queue *q, int item_out, int item_in) {
  tide__fft_entry *e;
  TIDE_TRY(tide__fft_take(&e, q->backend, q->stream, &g->shape));
  a->plan = e->plan, a->scale = 1;
  tide_status status = e->work ? tide__scratch_get(&a->head.ptr[2], q->stream, e->work) : TIDE_OK;
  if (status == TIDE_OK) {
    status = run_calls(g, a, q, item_out, item_in);
    if (a->head.ptr[2]) tide__scratch_put(q->stream, a->head.ptr[2]);
  }
  tide__fft_give(e);
  return status;
}

static tide_status run(const request *r, group *g, tide_tensor *out, const tide_tensor *in, double scale) {
  tide__queue q;
  tide_fft_args a = {.backward = r->backward, .scale = scale, .shape = g->shape};
  TIDE_TRY(tide__queue_begin(&q, out->storage->device));
  if (!q.backend->fft)
    return tide__fail(TIDE_SUPPORT, "fft: %s has no Fourier transforms", tide__device_text(out->storage->device));
  tide__head_begin(&a.head, out->storage->device, 3);
  tide__head_set(&a.head, 0, out, &q);
  tide__head_set(&a.head, 1, in, &q);
  a.head.ptr[2] = NULL;
  int item_out = (int)tide__itemsize(out->dtype), item_in = (int)tide__itemsize(in->dtype);
  if (!q.backend->fft_plan_new) return run_calls(g, &a, &q, item_out, item_in);
  TIDE_TRY(run_planned(g, &a, &q, item_out, item_in));
  if (scale == 1) return TIDE_OK;
  tide_operand operands[2] = {{.tensor = out}, {.tensor = NULL, .number = tide_float(scale)}};
  return tide_elementwise(NULL, TIDE_OP_mul, operands, NULL, out);
}

/* ---- layouts ---- */

/* The dims by falling strides, or, transformed ones innermost, in their order. */
static void dims_order(int *order, const request *r, const tide_tensor *x, bool innermost) {
  int n = 0;
  bool transformed[TIDE_MAX_DIMS] = {false};
  for (int i = 0; innermost && i < r->ndims; i++) transformed[r->dim[i]] = true;
  for (int d = 0; d < x->ndim; d++)
    if (!transformed[d]) order[n++] = d;
  if (!x->contiguous) sort_dims(order, n, x);
  for (int i = 0; innermost && i < r->ndims; i++) order[n++] = r->dim[i];
}

static tide_status new_ordered(tide_tensor **out, const int64_t *size, const int *order, int ndim, tide_dtype dtype,
                               int device) {
  int64_t stride[TIDE_MAX_DIMS], numel, step = 1;
  TIDE_TRY(tide__size_check(&numel, size, ndim, dtype, "fft"));
  for (int i = ndim - 1; i >= 0; i--) {
    stride[order[i]] = step;
    step = tide__size_mul(step, size[order[i]]);
  }
  return tide__tensor_new_strided(out, size, stride, ndim, dtype, device);
}

/* The dims of the group that is done first: the last ones, up to three, with the halved one. */
static int first_group(int *dim, const request *r, const tide_tensor *x) {
  int rank = r->ndims < TIDE_FFT_RANK ? r->ndims : TIDE_FFT_RANK;
  int free_dims = r->type == TIDE_FFT_C2C ? rank : rank - 1;
  memcpy(dim, r->dim + r->ndims - rank, (size_t)rank * sizeof *dim);
  sort_dims(dim, free_dims, x);
  return rank;
}

static bool is_few(const group *g, bool planned) {
  return calls_of(g) <= MOST_CALLS || (!planned && g->shape.batch >= 2 * MOST_CALLS);
}

/* Plans take reals two at a time: the first one of a call must lie as a complex number does. */
static bool even_loops(const group *g, int side) {
  int64_t odd = 0;
  for (int k = 0; k < g->loops; k++) odd |= g->size[k] > 1 ? g->stride[side][k] : 0;
  return odd % 2 == 0;
}

static bool aligned(const group *g, const tide_tensor *x, int side) {
  return even_loops(g, side) && x->offset % 2 == 0 && (uintptr_t)x->storage->ptr % 16 == 0;
}

/* May the backend read x as it lies and write a result with the same order of dims? */
static bool fits(const request *r, const tide_tensor *x, bool planned) {
  tide_tensor out = {.ndim = r->ndim};
  int order[TIDE_MAX_DIMS], dim[TIDE_FFT_RANK];
  int64_t step = 1;
  dims_order(order, r, x, false);
  for (int i = r->ndim - 1; i >= 0; i--) {
    out.size[order[i]] = r->out_size[order[i]], out.stride[order[i]] = step;
    step *= r->out_size[order[i]];
  }
  group g;
  int rank = first_group(dim, r, x);
  if (!group_begin(&g, r, &out, x, r->type, dim, rank) || !is_few(&g, planned)) return false;
  if (!planned || r->type == TIDE_FFT_C2C) return true;
  return r->type == TIDE_FFT_R2C ? aligned(&g, x, 1) : even_loops(&g, 0);
}

/* Copies the input where its layout does not serve, or where it would be destroyed. */
static tide_status arrange(input *in, const request *r, int *order, bool planned) {
  bool fitting = fits(r, in->x, planned);
  bool destroyed = r->type == TIDE_FFT_C2R && (planned || r->ndims > 1) && !in->ours;
  dims_order(order, r, in->x, !fitting);
  if (fitting && !destroyed) return TIDE_OK;
  TIDE_OWNED tide_tensor *copy = NULL;
  TIDE_TRY(new_ordered(&copy, in->x->size, order, in->x->ndim, r->in_dtype, in->x->storage->device));
  TIDE_TRY(tide__copy_kernel(copy, in->x));
  input_replace(in, tide__tensor_ref(copy), true);
  return TIDE_OK;
}

/* The groups of complex dims besides the first, in place. */
static tide_status run_rest(const request *r, tide_tensor *x, double scale) {
  for (int left = r->ndims - TIDE_FFT_RANK; left > 0; left -= TIDE_FFT_RANK) {
    int rank = left < TIDE_FFT_RANK ? left : TIDE_FFT_RANK, dim[TIDE_FFT_RANK];
    memcpy(dim, r->dim + left - rank, (size_t)rank * sizeof *dim);
    sort_dims(dim, rank, x);
    group g;
    if (!group_begin(&g, r, x, x, TIDE_FFT_C2C, dim, rank))
      return tide__fail(TIDE_SUPPORT, "%s: dims that do not nest, got strides of %s", r->what,
                        tide__shape_text(x->stride, x->ndim));
    TIDE_TRY(run(r, &g, x, x, left <= TIDE_FFT_RANK ? scale : 1));
  }
  return TIDE_OK;
}

static tide_status transform(const request *r, tide_tensor *out, tide_tensor *in) {
  int dim[TIDE_FFT_RANK], rank = first_group(dim, r, in);
  bool more = r->ndims > TIDE_FFT_RANK;
  if (more && r->type == TIDE_FFT_C2R) TIDE_TRY(run_rest(r, in, 1));
  group g;
  if (!group_begin(&g, r, out, in, r->type, dim, rank))
    return tide__fail(TIDE_SUPPORT, "%s: dims that do not nest, got strides of %s", r->what,
                      tide__shape_text(out->stride, out->ndim));
  bool last = !more || r->type == TIDE_FFT_C2R;
  TIDE_TRY(run(r, &g, out, in, last ? r->scale : 1));
  return last ? TIDE_OK : run_rest(r, out, r->scale);
}

/* ---- the entry ---- */

/* Can the backend write the result to `into` as that lies? */
static bool direct(const request *r, const tide_tensor *into, const tide_tensor *in, bool planned) {
  if (!into || into->dtype != r->out_dtype || tide__tensor_overlaps(into, in)) return false;
  if (r->ndims > TIDE_FFT_RANK && !into->contiguous) return false;
  group g;
  int dim[TIDE_FFT_RANK], rank = first_group(dim, r, in);
  if (!group_begin(&g, r, into, in, r->type, dim, rank) || !is_few(&g, planned)) return false;
  if (!planned || r->type == TIDE_FFT_C2C) return true;
  return r->type == TIDE_FFT_C2R ? aligned(&g, into, 0) : aligned(&g, in, 1);
}

/* Complex elements may be transformed where they are: in a copy of ours, or where the result is to go anyway. */
static bool in_place(const request *r, const tide_tensor *into, const input *in) {
  if (r->type != TIDE_FFT_C2C) return false;
  return in->ours || (into && tide_tensor_same_view(into, in->x));
}

static tide_status compute(tide_tensor **result, const request *r, input *in, tide_tensor *into) {
  int device = in->x->storage->device, order[TIDE_MAX_DIMS];
  const tide_backend *backend;
  TIDE_TRY(tide__backend(&backend, device));
  bool empty = false, planned = backend->fft_plan_new != NULL;
  for (int d = 0; d < r->ndim; d++) empty |= r->out_size[d] == 0;
  if (empty || r->ndims == 0) {
    TIDE_TRY(tide__tensor_new(result, r->out_size, r->ndim, r->out_dtype, device));
    return empty ? TIDE_OK : tide__copy_kernel(*result, in->x);
  }
  TIDE_TRY(arrange(in, r, order, planned));
  if (in_place(r, into, in))
    *result = tide__tensor_ref(in->x);
  else if (direct(r, into, in->x, planned))
    *result = tide__tensor_ref(into);
  else
    TIDE_TRY(new_ordered(result, r->out_size, order, r->ndim, r->out_dtype, device));
  TIDE_TRY(transform(r, *result, in->x));
  return r->kind == TIDE_FFT_IHFFT ? tide_unary(NULL, TIDE_OP_conj, *result, *result) : TIDE_OK;
}

/* Does fft_real.c serve this call? */
static bool is_of_real(const request *r, const tide_tensor *x) {
  if (r->kind != TIDE_FFT_FFT || tide__category(x->dtype) == 3 || x->numel == 0 || r->ndims == 0) return false;
  for (int i = 0; i < r->ndims - 1; i++)
    if (r->n[i] != x->size[r->dim[i]]) return false;
  return true;
}

static tide_status compute_any(tide_tensor **result, const request *r, const tide_tensor *x, const int64_t *n,
                               tide_fft_norm norm, tide_tensor *into) {
  if (is_of_real(r, x))
    return tide__fft_of_real(result, x, r->out_size, r->out_dtype, r->dim, n, r->ndims, norm, r->what);
  __attribute__((cleanup(input_end))) input in = {0};
  TIDE_TRY(input_begin(&in, r, x));
  return compute(result, r, &in, into);
}

tide_status tide_fft(tide_tensor **out, tide_fft_kind kind, const tide_tensor *x, const int *dims, const int64_t *n,
                     int ndims, tide_fft_norm norm, tide_tensor *into, const char *what) {
  request r;
  TIDE_TRY(request_begin(&r, kind, x, dims, n, ndims, norm, what));
  TIDE_TRY(tide__out_check(out, into, r.what));
  if (into) TIDE_TRY(check_into(&r, x, into));
  tide_tensor *result = NULL;
  tide_status status = compute_any(&result, &r, x, n, norm, into);
  if (status != TIDE_OK || (into && tide_tensor_same_view(result, into))) { /* the destination itself, once more */
    tide_tensor_release(result);
    result = into;
  }
  return tide__deliver(out, result, into, status);
}
