/* tensor.c: the tensor itself: shape, strides and offset over a reference to a storage.
 *
 * Tensors are made and dropped at every operation, so their structs come from a free list of the calling thread and no
 * lock is taken. A struct may be made in one thread and dropped in another: it then moves to the other's list, which is
 * bounded.
 *
 * Invariant: while refs > 0, storage is a reference of the tensor's own, every element lies inside the storage, numel
 * is the product of size, and contiguous says whether stride is row-major without holes. On the free list refs is 0, so
 * that a use after release is found out as long as the struct has not been handed out again. */
#include "tensor.h"

#include <stdio.h>

/* ---- structs ---- */

enum { HEADERS_KEPT = 16384 }; /* a collector lets go of thousands at a time */

static _Thread_local struct {
  tide_tensor *head;
  int count;
} headers;
static pthread_once_t headers_once = PTHREAD_ONCE_INIT;

static void headers_drop(void) {
  while (headers.head) {
    tide_tensor *x = headers.head;
    headers.head = x->next;
    free(x);
  }
  headers.count = 0;
}

static void headers_register(void) { tide__thread_at_end(headers_drop); }

tide_tensor *tide__tensor_header(void) {
  /* A program that makes nothing but views allocates no bytes: then this is where deferred releases come back. */
  if (TIDE_UNLIKELY(!headers.head)) tide__deferred_drain();
  tide_tensor *x = headers.head;
  if (TIDE_LIKELY(x != NULL)) {
    headers.head = x->next;
    headers.count--;
  } else if (!(x = malloc(sizeof *x))) {
    tide__fail_memory(TIDE_CPU, sizeof *x, 0, 0, 0, 0, "tensor: no host memory for a handle, got %zu bytes refused",
                      sizeof *x);
    return NULL;
  }
  x->storage = NULL;
  x->replay = 0;
  atomic_store_explicit(&x->refs, 1, memory_order_relaxed);
  return x;
}

static void header_give(tide_tensor *x) {
  if (TIDE_UNLIKELY(headers.count >= HEADERS_KEPT)) {
    free(x);
    return;
  }
  if (TIDE_UNLIKELY(headers.count == 0)) {
    pthread_once(&headers_once, headers_register);
    tide__thread_touch();
  }
  x->next = headers.head;
  headers.head = x;
  headers.count++;
}

void tide_tensor_retain(tide_tensor *x) {
  if (x) tide__tensor_ref(x);
}

/* The last reference has gone; the storage, if there is one, is the caller's. */
static inline tide_storage *end(tide_tensor *x) {
  atomic_store_explicit(&x->refs, 0, memory_order_relaxed);
  tide_storage *storage = x->storage;
  x->storage = NULL;
  header_give(x);
  return storage;
}

void tide_tensor_release(tide_tensor *x) {
  if (!x || !tide__ref_drop(&x->refs)) return;
  tide_storage_release(end(x));
}

static void release_deferred(tide__deferred *d) {
  tide_tensor *x = (tide_tensor *)((char *)d - offsetof(tide_tensor, deferred));
  if (tide__ref_drop(&x->refs)) tide__storage_collect(end(x));
}

/* After the end of the runtime nothing would drain the list, and nothing can be touched any more. */
void tide_tensor_release_deferred(tide_tensor *x) {
  if (!x) return;
  if (!tide__running()) {
    tide_tensor_release(x);
    return;
  }
  /* Only the last reference goes to the list: a tensor that two finalisers hand over can stand in it but once. */
  if (!tide__ref_drop(&x->refs)) return;
  atomic_store_explicit(&x->refs, 1, memory_order_relaxed);
  tide__deferred_push(&x->deferred, release_deferred);
}

/* ---- accessors ---- */

int tide_tensor_ndim(const tide_tensor *x) { return x ? x->ndim : 0; }
const int64_t *tide_tensor_size(const tide_tensor *x) { return x ? x->size : NULL; }
const int64_t *tide_tensor_stride(const tide_tensor *x) { return x ? x->stride : NULL; }
int64_t tide_tensor_numel(const tide_tensor *x) { return x ? x->numel : 0; }
int64_t tide_tensor_offset(const tide_tensor *x) { return x ? x->offset : 0; }
tide_dtype tide_tensor_dtype(const tide_tensor *x) { return x ? (tide_dtype)x->dtype : TIDE_DTYPE_NONE; }
int tide_tensor_device(const tide_tensor *x) { return x && x->storage ? x->storage->device : TIDE_CPU; }
bool tide_tensor_is_contiguous(const tide_tensor *x) { return x && x->contiguous; }
tide_storage *tide_tensor_storage(const tide_tensor *x) {
  if (x && x->storage) tide__storage_settle(x->storage);
  return x ? x->storage : NULL;
}
void *tide_tensor_data(const tide_tensor *x) {
  if (!x || !x->storage) return NULL;
  /* Whoever gets the address may write there. */
  if (tide__storage_settle(x->storage) != TIDE_OK || tide__storage_write(x->storage) != TIDE_OK) return NULL;
  if (tide__storage_lands(x->storage)) tide__staged_copy_settle(x->storage);
  return x->storage->ptr && tide__storage_live(x->storage) ? tide__tensor_ptr(x) : NULL;
}

bool tide_tensor_same_view(const tide_tensor *x, const tide_tensor *y) {
  if (!x || !y) return false;
  if (x == y) return true;
  return x->storage == y->storage && x->offset == y->offset && x->dtype == y->dtype && tide__same_size(x, y) &&
         memcmp(x->stride, y->stride, (size_t)x->ndim * sizeof x->stride[0]) == 0;
}

tide_status tide_tensor_record_stream(tide_tensor *x, tide_stream *stream) {
  TIDE_TRY(tide__check(x, "record_stream", "x"));
  TIDE_TRY(tide__stream_check(stream, "record_stream"));
  if (x->storage->device < 0 && !x->storage->pinned)
    return tide__fail(TIDE_DEVICE, "record_stream: wrong device of x, got cpu, expected an accelerator");
  tide__storage_use(x->storage, stream);
  return TIDE_OK;
}

/* ---- checks ---- */

tide_status tide__tensor_check(const tide_tensor *x, const char *what, const char *name) {
  if (!x) return tide__fail(TIDE_STATE, "%s: %s is missing, got none, expected a tensor", what, name);
  if (atomic_load_explicit(&x->refs, memory_order_relaxed) <= 0 || !x->storage)
    return tide__fail(TIDE_STATE, "%s: %s cannot be used, got a freed tensor, expected a live one", what, name);
  if (!tide__running())
    return tide__fail(TIDE_STATE, "%s: the runtime has ended, got a call after tide_shutdown, expected one before",
                      what);
  TIDE_TRY(tide__storage_settle(x->storage));
  if (x->storage->external && !x->storage->epoch)
    return tide__fail(TIDE_STATE,
                      "%s: %s is not acquired, got memory that is another API's at present, expected "
                      "tide_external_acquire, or acquire in Lua, before",
                      what, name);
  if (!tide__storage_live(x->storage))
    return tide__fail(
        TIDE_STATE,
        "%s: %s cannot be used, got a tensor of a runtime that has ended or was reset, expected one of the present",
        what, name);
  return TIDE_OK;
}

tide_status tide__dim_check(int *out, int dim, int ndim, const char *what) {
  int n = ndim ? ndim : 1;
  if (TIDE_UNLIKELY(dim < -n || dim >= n))
    return tide__fail(TIDE_INDEX, "%s: dim out of range, got %lld, expected %lld to %lld or %d to -1", what,
                      (long long)tide__shown(dim), (long long)tide__shown(0), (long long)tide__shown(n - 1), -n);
  *out = dim < 0 ? dim + n : dim;
  return TIDE_OK;
}

tide_status tide__out_check(tide_tensor **out, const tide_tensor *into, const char *what) {
  if (TIDE_LIKELY(out != NULL || into != NULL)) return TIDE_OK;
  return tide__fail(TIDE_ARGUMENT, "%s: no place for the result, got neither out nor into, expected one of them", what);
}

tide_status tide__writable_check(const tide_tensor *x, const char *what, const char *name) {
  TIDE_TRY(tide__storage_write(x->storage));
  for (int d = 0; d < x->ndim; d++)
    if (x->stride[d] == 0 && x->size[d] > 1)
      return tide__fail(TIDE_VALUE,
                        "%s: %s cannot be written, got a tensor expanded along dim %lld (several elements share one "
                        "address), expected one without overlap: clone it first",
                        what, name, (long long)tide__shown(d));
  return TIDE_OK;
}

bool tide__size_equal(const tide_tensor *x, const int64_t *size, int ndim) {
  return x->ndim == ndim && memcmp(x->size, size, (size_t)ndim * sizeof *size) == 0;
}

tide_status tide__size_expect(const tide_tensor *x, const int64_t *size, int ndim, const char *what, const char *name) {
  if (tide__size_equal(x, size, ndim)) return TIDE_OK;
  return tide__fail(TIDE_SHAPE, "%s: wrong shape of %s, got %s%s, expected %s", what, name,
                    tide__shape_text(x->size, x->ndim), tide__made_text(x), tide__shape_text(size, ndim));
}

tide_status tide__cast_expect(const tide_tensor *x, tide_dtype result, const char *what) {
  if (tide_dtype_can_cast(result, (tide_dtype)x->dtype)) return TIDE_OK;
  return tide__fail(TIDE_DTYPE,
                    "%s: the result cannot be written to the destination, got %s, expected %s or a wider one", what,
                    tide_dtype_name((tide_dtype)x->dtype), tide_dtype_name(result));
}

tide_status tide__into_check(const tide_tensor *into, const tide_tensor *x, const char *name, tide_dtype result,
                             const char *what) {
  TIDE_TRY(tide__check(into, what, "the destination"));
  TIDE_TRY(tide__writable_check(into, what, "the destination"));
  TIDE_TRY(tide__same_device(into, "the destination", x, name, what));
  return tide__cast_expect(into, result, what);
}

tide_status tide__fail_dtype(const char *what, int got, const char *expected) {
  return tide__fail(TIDE_DTYPE, "%s: dtype not accepted, got %s, expected %s", what, tide_dtype_name((tide_dtype)got),
                    expected);
}

void tide__made_here(const tide_tensor *x) {
  if (!atomic_load_explicit(&x->storage->site, memory_order_relaxed))
    atomic_store_explicit(&x->storage->site, tide__site_now(), memory_order_relaxed);
}

const char *tide__made_text(const tide_tensor *x) {
  enum { TEXTS = 4, TEXT = 160 };
  static _Thread_local char text[TEXTS][TEXT];
  static _Thread_local unsigned turn;
  char line[128], *made = text[turn++ % TEXTS];
  made[0] = 0;
  tide__site_text(x->storage->site, line, sizeof line);
  if (line[0]) snprintf(made, TEXT, " made at %s", line);
  return made;
}

tide_status tide__same_device(const tide_tensor *a, const char *a_name, const tide_tensor *b, const char *b_name,
                              const char *what) {
  int da = a->storage->device, db = b->storage->device;
  if (TIDE_LIKELY(da == db)) return TIDE_OK;
  return tide__fail(TIDE_DEVICE, "%s: tensors on different devices, got %s on %s%s and %s on %s%s, expected one device",
                    what, a_name, tide__device_text(da), tide__made_text(a), b_name, tide__device_text(db),
                    tide__made_text(b));
}

tide_status tide__size_check(int64_t *numel, const int64_t *size, int ndim, tide_dtype dtype, const char *what) {
  if (ndim < 0 || ndim > TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE, "%s: wrong number of dims, got %d, expected at most %d", what, ndim, TIDE_MAX_DIMS);
  if (TIDE_UNLIKELY(!size && ndim)) return tide__fail_null(what, "size");
  bool huge = false;
  for (int d = 0; d < ndim; d++) {
    if (size[d] < 0)
      return tide__fail(TIDE_VALUE, "%s: negative size, got %s, expected sizes of at least 0", what,
                        tide__shape_text(size, ndim));
    huge |= size[d] == INT64_MAX;
  }
  int64_t n = tide__size_product(size, ndim);
  if (huge || tide__size_mul(n, tide__itemsize(dtype)) == INT64_MAX)
    return tide__fail_memory(TIDE_CPU, SIZE_MAX, 0, 0, 0, 0,
                             "%s: too large, got size %s of %s, expected less than 2^63 bytes", what,
                             tide__shape_text(size, ndim), tide_dtype_name(dtype));
  *numel = n;
  return TIDE_OK;
}

/* ---- layout ---- */

void tide__stride_contiguous(int64_t *stride, const int64_t *size, int ndim) {
  int64_t step = 1;
  for (int d = ndim - 1; d >= 0; d--) {
    stride[d] = step;
    if (size[d] > 1) step = tide__size_mul(step, size[d]);
  }
}

void tide__tensor_layout(tide_tensor *x) {
  uint64_t n = 1; /* wraps around for empty tensors alone, and 0 it becomes for these all the same */
  bool contiguous = true;
  for (int d = x->ndim - 1; d >= 0; d--) {
    if (x->size[d] != 1 && (uint64_t)x->stride[d] != n) contiguous = false;
    n *= (uint64_t)x->size[d];
  }
  x->numel = (int64_t)n;
  x->contiguous = contiguous || n == 0;
}

bool tide__tensor_dense(const tide_tensor *x) {
  if (x->contiguous) return true;
  int order[TIDE_MAX_DIMS], n = 0;
  for (int d = 0; d < x->ndim; d++) {
    if (x->size[d] == 1) continue;
    int at = n++;
    for (; at > 0 && x->stride[order[at - 1]] > x->stride[d]; at--) order[at] = order[at - 1];
    order[at] = d;
  }
  int64_t expected = 1;
  for (int i = 0; i < n; i++) {
    if (x->stride[order[i]] != expected) return false;
    expected *= x->size[order[i]];
  }
  return true;
}

void tide__tensor_range(int64_t *first, int64_t *last, const tide_tensor *x) {
  int64_t low = x->offset, high = x->offset, bytes = tide__itemsize(x->dtype);
  for (int d = 0; d < x->ndim && x->numel; d++) {
    int64_t reach = (x->size[d] - 1) * x->stride[d];
    if (reach < 0)
      low += reach;
    else
      high += reach;
  }
  *first = low * bytes;
  *last = x->numel ? (high + 1) * bytes : low * bytes;
}

bool tide__tensor_overlaps(const tide_tensor *a, const tide_tensor *b) {
  if (a->numel == 0 || b->numel == 0 || a->storage->device != b->storage->device) return false;
  const char *pa = a->storage->ptr, *pb = b->storage->ptr;
  if (pa + a->storage->nbytes <= pb || pb + b->storage->nbytes <= pa) return false;
  int64_t a0, a1, b0, b1;
  tide__tensor_range(&a0, &a1, a);
  tide__tensor_range(&b0, &b1, b);
  return pa + a0 < pb + b1 && pb + b0 < pa + a1;
}

bool tide__same_elements(const tide_tensor *a, const tide_tensor *b) {
  if (tide__tensor_ptr(a) != tide__tensor_ptr(b) || tide__itemsize(a->dtype) != tide__itemsize(b->dtype)) return false;
  if (!tide__same_size(a, b)) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->size[d] > 1 && a->stride[d] != b->stride[d]) return false;
  return true;
}

void tide__stride_broadcast(int64_t *stride, const tide_tensor *x, const int64_t *size, int ndim) {
  int pad = ndim - x->ndim;
  for (int d = 0; d < ndim; d++)
    stride[d] = d < pad || (x->size[d - pad] == 1 && size[d] != 1) ? 0 : x->stride[d - pad];
}

bool tide__size_broadcast(int64_t *size, int *ndim, const tide_tensor *x) {
  int n = x->ndim > *ndim ? x->ndim : *ndim, grow = n - *ndim, pad = n - x->ndim;
  if (grow) {
    memmove(size + grow, size, (size_t)*ndim * sizeof *size);
    for (int d = 0; d < grow; d++) size[d] = 1;
    *ndim = n;
  }
  for (int d = pad; d < n; d++) {
    int64_t own = x->size[d - pad];
    if (own == size[d] || own == 1) continue;
    if (size[d] != 1) return false;
    size[d] = own;
  }
  return true;
}

bool tide__broadcasts_to(const tide_tensor *x, const int64_t *size, int ndim) {
  int pad = ndim - x->ndim;
  if (pad < 0) return false;
  for (int d = pad; d < ndim; d++)
    if (x->size[d - pad] != size[d] && x->size[d - pad] != 1) return false;
  return true;
}

tide_status tide_broadcast_size(int64_t *size, int *ndim, tide_tensor *const *list, int n) {
  TIDE_LIST("broadcast_size", list, n);
  TIDE_GIVEN("broadcast_size", size);
  TIDE_GIVEN("broadcast_size", ndim);
  int64_t sum[TIDE_MAX_DIMS];
  int dims = 0;
  for (int i = 0; i < n; i++) {
    TIDE_TRY(tide__check(list[i], "broadcast", "a tensor of the list"));
    int64_t before[TIDE_MAX_DIMS];
    int before_dims = dims;
    memcpy(before, sum, (size_t)dims * sizeof *sum);
    if (!tide__size_broadcast(sum, &dims, list[i]))
      return tide__fail(TIDE_SHAPE, "broadcast: shapes do not fit, got %s and %s, expected equal sizes or 1",
                        tide__shape_text(before, before_dims), tide__shape_text(list[i]->size, list[i]->ndim));
  }
  memcpy(size, sum, (size_t)dims * sizeof *sum);
  *ndim = dims;
  return TIDE_OK;
}

/* ---- making ---- */

tide_status tide__tensor_view(tide_tensor **out, const tide_tensor *x, const int64_t *size, const int64_t *stride,
                              int ndim, int64_t offset) {
  tide_tensor *view = tide__tensor_header();
  if (TIDE_UNLIKELY(!view)) return TIDE_MEMORY;
  tide__storage_ref(x->storage);
  view->storage = x->storage;
  view->offset = offset;
  view->dtype = x->dtype;
  view->replay = x->replay;
  view->ndim = ndim;
  for (int d = 0; d < ndim; d++) view->size[d] = size[d], view->stride[d] = stride[d];
  tide__tensor_layout(view);
  *out = view;
  return TIDE_OK;
}

tide_status tide__tensor_new_over(tide_tensor **out, const int64_t *size, const int64_t *stride, int ndim,
                                  int64_t elements, tide_dtype dtype, int device, bool pinned) {
  tide_tensor *x = tide__tensor_header();
  if (TIDE_UNLIKELY(!x)) return TIDE_MEMORY;
  x->ndim = ndim;
  x->offset = 0;
  x->dtype = (uint8_t)dtype;
  for (int d = 0; d < ndim; d++) x->size[d] = size[d], x->stride[d] = stride[d];
  tide__tensor_layout(x);
  int64_t n = elements < 0 ? x->numel : elements;
  tide_status status = tide__storage_new(&x->storage, (size_t)(n * tide__itemsize(dtype)), device, pinned);
  if (TIDE_UNLIKELY(status != TIDE_OK)) {
    x->storage = NULL;
    tide_tensor_release(x);
    return status;
  }
  *out = x;
  return TIDE_OK;
}

tide_status tide__tensor_new_strided(tide_tensor **out, const int64_t *size, const int64_t *stride, int ndim,
                                     tide_dtype dtype, int device) {
  return tide__tensor_new_over(out, size, stride, ndim, -1, dtype, device, false);
}

tide_status tide__tensor_new(tide_tensor **out, const int64_t *size, int ndim, tide_dtype dtype, int device) {
  int64_t stride[TIDE_MAX_DIMS], numel;
  TIDE_TRY(tide__size_check(&numel, size, ndim, dtype, "tensor"));
  tide__stride_contiguous(stride, size, ndim);
  return tide__tensor_new_strided(out, size, stride, ndim, dtype, device);
}

tide_status tide__tensor_new_like(tide_tensor **out, const tide_tensor *x, tide_dtype dtype, int device) {
  if (!tide__tensor_dense(x) || x->contiguous) return tide__tensor_new(out, x->size, x->ndim, dtype, device);
  int64_t numel;
  TIDE_TRY(tide__size_check(&numel, x->size, x->ndim, dtype, "tensor"));
  return tide__tensor_new_strided(out, x->size, x->stride, x->ndim, dtype, device);
}

void tide__tensor_wrap(tide_tensor *x, tide_storage *s, void *ptr, size_t bytes, int device, tide_dtype dtype,
                       const int64_t *size, int ndim) {
  memset(s, 0, sizeof *s);
  atomic_init(&s->refs, 1);
  s->ptr = ptr;
  s->nbytes = bytes;
  s->device = device;
  tide__storage_enter(s);
  x->next = NULL;
  atomic_init(&x->refs, 1);
  x->storage = s;
  x->offset = 0, x->replay = 0;
  x->dtype = (uint8_t)dtype;
  x->ndim = ndim;
  memcpy(x->size, size, (size_t)ndim * sizeof *size);
  tide__stride_contiguous(x->stride, size, ndim);
  tide__tensor_layout(x);
}

void tide__owned_end(tide_tensor **x) { tide_tensor_release(*x); }

/* ---- queueing ---- */

tide_status tide__operands(tide_head *head, tide__queue *q, int device, int n, const tide_tensor *const *x) {
  TIDE_TRY(tide__queue_begin(q, device));
  int nptr = n;
  while (!x[nptr - 1]) nptr--;
  tide__head_begin(head, device, nptr);
  for (int k = 0; k < n; k++) {
    head->ptr[k] = NULL;
    if (x[k]) tide__head_set(head, k, x[k], q);
  }
  return TIDE_OK;
}
