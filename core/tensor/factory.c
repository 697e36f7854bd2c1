/* factory.c: new tensors: empty, filled, counted, from the host's memory.
 *
 * Options are resolved here and nowhere else: a missing dtype becomes the factory's default, TIDE_CURRENT the current
 * accelerator, and pinning is for CPU memory. A tensor on a GPU is allocated on the current stream of its device.
 *
 * Invariant: a factory that fails leaves nothing behind, also when the filling of a new tensor is what fails. */
#include "tensor.h"

tide_status tide__options_read(tide_options *o, const tide_options *options, const char *what) {
  *o = (tide_options)TIDE_OPTIONS;
  if (!options) return TIDE_OK;
  TIDE_SIZED(what, options);
  *o = *options;
  return TIDE_OK;
}

/* Fills in what options leave open. */
static tide_status resolve(tide_options *o, tide_tensor **out, const tide_options *options, tide_dtype dtype,
                           const char *what) {
  TIDE_GIVEN(what, out);
  TIDE_TRY(tide__options_read(o, options, what));
  if (o->dtype == TIDE_DTYPE_NONE) o->dtype = dtype;
  if (TIDE_UNLIKELY((unsigned)o->dtype >= TIDE_DTYPE_COUNT))
    return tide__fail(TIDE_ARGUMENT, "%s: unknown dtype, got %d, expected 0 to %d", what, (int)o->dtype,
                      TIDE_DTYPE_COUNT - 1);
  if (TIDE_UNLIKELY(!tide__running()))
    return tide__fail(TIDE_STATE,
                      "%s: the runtime is not started, got a call before tide_init or after tide_shutdown, "
                      "expected one between them",
                      what);
  if (TIDE_UNLIKELY(o->pin_memory && o->device != TIDE_CPU))
    return tide__fail(TIDE_DEVICE, "%s: only CPU tensors can be pinned, got pin_memory with %s, expected cpu", what,
                      tide__device_text(o->device));
  return tide__device_resolve(&o->device, o->device, what);
}

/* A new tensor over `elements` elements of storage; size and stride are checked. */
static tide_status make(tide_tensor **out, const int64_t *size, const int64_t *stride, int ndim, int64_t elements,
                        const tide_options *o) {
  return tide__tensor_new_over(out, size, stride, ndim, elements, o->dtype, o->device, o->pin_memory);
}

static tide_status make_contiguous(tide_tensor **out, const int64_t *size, int ndim, const tide_options *o,
                                   const char *what) {
  int64_t stride[TIDE_MAX_DIMS], numel;
  TIDE_TRY(tide__size_check(&numel, size, ndim, o->dtype, what));
  tide__stride_contiguous(stride, size, ndim);
  return make(out, size, stride, ndim, numel, o);
}

/* Hands x out if its filling went well. */
static tide_status finish(tide_tensor **out, tide_tensor *x, tide_status status) {
  tide__made_here(x);
  return tide__hand_out(out, x, status);
}

tide_status tide_empty(tide_tensor **out, const int64_t *size, int ndim, const tide_options *options) {
  tide_options o;
  TIDE_TRY(resolve(&o, out, options, tide_get_default_dtype(), "empty"));
  return make_contiguous(out, size, ndim, &o, "empty");
}

/* How many elements of storage the strided elements reach over. */
static tide_status strided_extent(int64_t *out, const int64_t *size, const int64_t *stride, int ndim, tide_dtype dtype,
                                  const char *what) {
  int64_t numel, reach = 1;
  TIDE_TRY(tide__size_check(&numel, size, ndim, dtype, what));
  for (int d = 0; d < ndim; d++) {
    if (stride[d] < 0)
      return tide__fail(TIDE_VALUE, "%s: negative stride, got %s, expected strides of at least 0", what,
                        tide__shape_text(stride, ndim));
    if (numel) reach = tide__size_add(reach, tide__size_mul(size[d] - 1, stride[d]));
  }
  if (tide__size_mul(reach, tide__itemsize(dtype)) == INT64_MAX)
    return tide__fail(TIDE_VALUE, "%s: strides too large, got %s, expected less than 2^63 bytes", what,
                      tide__shape_text(stride, ndim));
  *out = numel ? reach : 0;
  return TIDE_OK;
}

tide_status tide_empty_strided(tide_tensor **out, const int64_t *size, const int64_t *stride, int ndim,
                               const tide_options *options) {
  TIDE_LIST("empty_strided", stride, ndim);
  tide_options o;
  int64_t extent;
  TIDE_TRY(resolve(&o, out, options, tide_get_default_dtype(), "empty_strided"));
  TIDE_TRY(strided_extent(&extent, size, stride, ndim, o.dtype, "empty_strided"));
  return make(out, size, stride, ndim, extent, &o);
}

tide_status tide_empty_like(tide_tensor **out, const tide_tensor *x, const tide_options *options) {
  tide_options o;
  TIDE_TRY(tide__check(x, "empty_like", "x"));
  TIDE_TRY(resolve(&o, out, options, (tide_dtype)x->dtype, "empty_like"));
  if (!x->contiguous && tide__tensor_dense(x)) return make(out, x->size, x->stride, x->ndim, x->numel, &o);
  return make_contiguous(out, x->size, x->ndim, &o, "empty_like");
}

tide_status tide_full(tide_tensor **out, const int64_t *size, int ndim, tide_scalar value,
                      const tide_options *options) {
  tide_options o;
  tide_tensor *x;
  TIDE_TRY(resolve(&o, out, options, tide__scalar_dtype(value), "full"));
  TIDE_TRY(tide__scalar_check(value, o.dtype, "full"));
  TIDE_TRY(make_contiguous(&x, size, ndim, &o, "full"));
  return finish(out, x, tide_fill(x, value));
}

static tide_status new_for(tide_tensor **out, const tide_tensor *x, tide_dtype dtype, int device, bool pinned) {
  if (!pinned) return tide__tensor_new_like(out, x, dtype, device);
  tide_options options = {dtype, TIDE_CPU, true};
  return tide_empty_like(out, x, &options);
}

tide_status tide_to(tide_tensor **out, const tide_tensor *x, const tide_options *options, bool non_blocking,
                    bool copy) {
  TIDE_TRY(tide__unary_check(out, x, "to"));
  tide_options o;
  TIDE_TRY(tide__options_read(&o, options, "to"));
  int device;
  if (o.pin_memory && o.device != TIDE_CPU)
    return tide__fail(TIDE_DEVICE, "to: only CPU tensors can be pinned, got %s, expected cpu",
                      tide__device_text(o.device));
  TIDE_TRY(tide__device_resolve(&device, o.device, "to"));
  tide_dtype dtype = o.dtype == TIDE_DTYPE_NONE ? (tide_dtype)x->dtype : o.dtype;
  if ((unsigned)dtype >= TIDE_DTYPE_COUNT)
    return tide__fail(TIDE_ARGUMENT, "to: unknown dtype, got %d, expected 0 to %d", (int)dtype, TIDE_DTYPE_COUNT - 1);
  int from = x->storage->device;
  if (!copy && device == from && dtype == x->dtype && (!o.pin_memory || x->storage->pinned)) {
    *out = tide__tensor_ref(x);
    return TIDE_OK;
  }
  tide_tensor *made;
  bool pinned = o.pin_memory || (non_blocking && from >= 0 && device < 0);
  TIDE_TRY(new_for(&made, x, dtype, device, pinned));
  return tide__hand_out(out, made, tide__copy_named(made, x, non_blocking, "to"));
}

/* ---- counted ---- */

static tide_status count(tide_tensor *x, tide_value start, tide_value step, tide_value last, bool symmetric) {
  if (x->numel == 0) return TIDE_OK;
  tide__queue q;
  tide_arange_args a;
  TIDE_TRY(tide__operands(&a.head, &q, x->storage->device, 1, (const tide_tensor *[]){x}));
  a.dtype = x->dtype, a.symmetric = symmetric, a.numel = x->numel;
  a.start = start, a.step = step, a.last = last;
  return TIDE_LAUNCH(&q, arange, &a, 0);
}

static tide_status check_countable(const tide_options *o, int64_t n, const char *what) {
  if (n < 0) return tide__fail(TIDE_VALUE, "%s: negative length, got %lld, expected at least 0", what, (long long)n);
  int category = tide__category(o->dtype);
  return category == 1 || category == 2 ? TIDE_OK : tide__fail_dtype(what, o->dtype, "integers or floats");
}

tide_status tide_arange(tide_tensor **out, tide_scalar start, tide_scalar step, int64_t n,
                        const tide_options *options) {
  tide_options o;
  tide_tensor *x;
  bool floating = tide__scalar_category(start.kind) >= 2 || tide__scalar_category(step.kind) >= 2;
  if (start.kind == 'C' || step.kind == 'C')
    return tide__fail(TIDE_DTYPE, "arange: wrong number, got a complex one, expected real ones");
  TIDE_TRY(resolve(&o, out, options, floating ? tide_get_default_dtype() : TIDE_INT64, "arange"));
  TIDE_TRY(check_countable(&o, n, "arange"));
  TIDE_TRY(make_contiguous(&x, &n, 1, &o, "arange"));
  return finish(out, x, count(x, tide__value(start), tide__value(step), tide__value(tide_int(0)), false));
}

/* In integers and complex numbers it is counted in float64 and converted: integers are cut off. */
static tide_status linspace_wide(tide_tensor **out, double a, double b, int64_t n, const tide_options *o) {
  tide_options wide = *o;
  wide.dtype = TIDE_FLOAT64;
  TIDE_OWNED tide_tensor *x = NULL;
  TIDE_TRY(tide_linspace(&x, a, b, n, &wide));
  return tide_to(out, x, o, false, false);
}

tide_status tide_linspace(tide_tensor **out, double a, double b, int64_t n, const tide_options *options) {
  tide_options o;
  tide_tensor *x;
  TIDE_TRY(resolve(&o, out, options, tide_get_default_dtype(), "linspace"));
  if (tide__category(o.dtype) != 3) TIDE_TRY(check_countable(&o, n, "linspace"));
  if (tide__category(o.dtype) != 2) return linspace_wide(out, a, b, n, &o);
  TIDE_TRY(make_contiguous(&x, &n, 1, &o, "linspace"));
  double step = n > 1 ? (b - a) / (double)(n - 1) : 0;
  if (isinf(step)) step = b / (double)(n - 1) - a / (double)(n - 1);
  return finish(out, x,
                count(x, tide__value(tide_float(a)), tide__value(tide_float(step)), tide__value(tide_float(b)), n > 1));
}

tide_status tide_eye(tide_tensor **out, int64_t n, int64_t m, const tide_options *options) {
  int64_t size[2] = {n, m}, stride;
  tide_options o;
  TIDE_OWNED tide_tensor *diagonal = NULL;
  tide_tensor *x;
  TIDE_TRY(resolve(&o, out, options, tide_get_default_dtype(), "eye"));
  TIDE_TRY(make_contiguous(&x, size, 2, &o, "eye"));
  int64_t length = n < m ? n : m;
  stride = m + 1;
  tide_status status = tide_fill(x, tide_int(0));
  if (status == TIDE_OK) status = tide__tensor_view(&diagonal, x, &length, &stride, 1, 0);
  if (status == TIDE_OK) status = tide_fill(diagonal, tide_int(1));
  return finish(out, x, status);
}

/* ---- the places of a triangle ---- */

/* The rows that a triangle of an n by m matrix reaches into, from `first` on. From one to the next their number of
 * columns changes by one, between low and high, or stays high, which is then m. */
typedef struct triangle {
  int64_t m, k, first, rows, low, high;
  bool upper;
} triangle;

static triangle triangle_of(int64_t n, int64_t m, int64_t k, bool upper) {
  triangle t = {.m = m, .k = k < -n ? -n : k > m ? m : k, .upper = upper};
  int64_t above = t.k < 0 ? -t.k : 0, right = t.k > 0 ? t.k : 0;
  if (m == 0) return t;
  if (upper) {
    int64_t reach = tide__size_add(m - right, above), lowest;
    t.rows = reach < n ? reach : n;
    lowest = t.rows - 1 - above;
    t.high = m - right, t.low = t.high - (lowest > 0 ? lowest : 0);
  } else {
    int64_t last = tide__size_add(n - above, right);
    t.first = above, t.rows = n - above;
    t.low = right < m ? right + 1 : m, t.high = last < m ? last : m;
  }
  return t;
}

static int64_t triangle_count(const triangle *t) {
  if (t->rows == 0) return 0;
  int64_t ramp = t->high - t->low; /* the rows with less than `high` columns */
  int64_t doubled = tide__size_mul(ramp, tide__size_add(t->low, t->high - 1));
  return tide__size_add(doubled / 2, tide__size_mul(t->rows - ramp, t->high));
}

/* Stops at a program's wish between rows: there may be many. */
static tide_status triangle_write(int64_t *row, int64_t *column, const triangle *t, int64_t base, const char *what) {
  enum { ASK = 1 << 20 };
  int64_t since = 0;
  for (int64_t i = t->first; i < t->first + t->rows; i++) {
    int64_t from = t->upper && i + t->k > 0 ? i + t->k : 0, to = t->upper || i + t->k > t->m - 1 ? t->m - 1 : i + t->k;
    for (int64_t j = from; j <= to; j++) *row++ = i + base, *column++ = j + base;
    if ((since += to - from + 1) < ASK) continue;
    since = 0;
    TIDE_TRY(tide__wait_on(TIDE_CPU, what));
  }
  return TIDE_OK;
}

tide_status tide_tril_indices(tide_tensor **out, int64_t n, int64_t m, int64_t k, bool upper,
                              const tide_options *options) {
  const char *what = upper ? "triu_indices" : "tril_indices";
  tide_options o, host = {TIDE_INT64, TIDE_CPU, false};
  TIDE_OWNED tide_tensor *x = NULL;
  TIDE_TRY(resolve(&o, out, options, TIDE_INT64, what));
  TIDE_TRY(check_countable(&o, n, what));
  TIDE_TRY(check_countable(&o, m, what));
  triangle t = triangle_of(n, m, k, upper);
  int64_t size[2] = {2, triangle_count(&t)};
  TIDE_TRY(make_contiguous(&x, size, 2, &host, what));
  int64_t *values = size[1] ? (int64_t *)tide__tensor_ptr(x) : NULL;
  if (values) TIDE_TRY(triangle_write(values, values + size[1], &t, tide_get_index_base(), what));
  return tide_to(out, x, &o, false, false);
}

/* ---- the host's memory ---- */

tide_status tide_from_data(tide_tensor **out, const void *data, const int64_t *size, int ndim,
                           const tide_options *options) {
  tide_options o;
  tide_tensor *x;
  TIDE_TRY(resolve(&o, out, options, TIDE_DTYPE_COUNT, "from_data"));
  TIDE_TRY(make_contiguous(&x, size, ndim, &o, "from_data"));
  return finish(out, x, tide_write(x, data));
}

tide_status tide_from_ptr(tide_tensor **out, void *ptr, const int64_t *size, const int64_t *stride, int ndim,
                          const tide_options *options, void (*release)(void *user), void *user) {
  tide_options o;
  int64_t own_stride[TIDE_MAX_DIMS], extent;
  TIDE_TRY(resolve(&o, out, options, tide_get_default_dtype(), "from_ptr"));
  if (o.pin_memory) return tide__fail(TIDE_ARGUMENT, "from_ptr: foreign memory cannot be pinned, got pin_memory");
  if (!stride) {
    TIDE_TRY(tide__size_check(&extent, size, ndim, o.dtype, "from_ptr"));
    tide__stride_contiguous(own_stride, size, ndim);
    stride = own_stride;
  }
  TIDE_TRY(strided_extent(&extent, size, stride, ndim, o.dtype, "from_ptr"));
  size_t bytes = (size_t)(extent * tide__itemsize(o.dtype));
  if (!ptr && bytes)
    return tide__fail(TIDE_ARGUMENT, "from_ptr: no memory, got a null pointer, expected %zu bytes", bytes);
  if ((uintptr_t)ptr % (o.dtype == TIDE_COMPLEX64    ? 4
                        : o.dtype == TIDE_COMPLEX128 ? 8
                                                     : (size_t)tide__itemsize(o.dtype)))
    return tide__fail(TIDE_VALUE,
                      "from_ptr: the pointer is not aligned, got %p, expected the alignment of %s, or uint8", ptr,
                      tide_dtype_name(o.dtype));
  tide_tensor *x = tide__tensor_header();
  if (!x) return TIDE_MEMORY;
  x->ndim = ndim, x->offset = 0, x->dtype = (uint8_t)o.dtype;
  for (int d = 0; d < ndim; d++) x->size[d] = size[d], x->stride[d] = stride[d];
  tide__tensor_layout(x);
  tide_status status = tide__storage_wrap(&x->storage, ptr, bytes, o.device, release, user);
  if (status != TIDE_OK) x->storage = NULL;
  return finish(out, x, status);
}
