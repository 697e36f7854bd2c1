/* dlpack.c: DLPack's structs, made of tensors and made into them.
 *
 * What is handed out holds a view of its own, so that nothing which is done to the tensor afterwards moves the memory.
 * A struct of ours that comes back gives that view's memory as it was, with its streams and its place in the allocator.
 *
 * Invariant: a deleter is called once for each struct: by its consumer, by the tensor made of it, or never while a
 * function has failed. */
#include "tide/dlpack.h"

#include "tensor/tensor.h"

/* ---- the interface, as it is published: dmlc.github.io/dlpack/latest/c_api.html ---- */

enum { MAJOR = 1, MINOR = 0, READ_ONLY = 1 };
enum { ON_CPU = 1, ON_CUDA = 2, ON_CUDA_HOST = 3, ON_EXTENSION = 12, ON_CUDA_MANAGED = 13 };

typedef struct dl_tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides; /* in elements; no strides: C's order */
  uint64_t byte_offset;
} dl_tensor;

struct DLManagedTensor {
  dl_tensor tensor;
  void *context;
  void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void *context;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  dl_tensor tensor;
};

_Static_assert(sizeof(dl_tensor) == 48, "DLTensor");
_Static_assert(sizeof(struct DLManagedTensor) == 64, "DLManagedTensor");
_Static_assert(sizeof(struct DLManagedTensorVersioned) == 80, "DLManagedTensorVersioned");

/* By DLPack's numbers: signed, unsigned, floating, handles, bfloat, complex, bool. */
static const char codes[] = "IUF?bCB";

static char code_of(tide_dtype dtype) { return dtype == TIDE_BFLOAT16 ? 'b' : tide_dtype_kind(dtype); }

static bool find_dtype(tide_dtype *out, const dl_tensor *t) {
  for (int d = 0; d < TIDE_DTYPE_COUNT && t->lanes == 1 && t->code < sizeof codes - 1; d++)
    if (code_of((tide_dtype)d) == codes[t->code] && 8 * tide__itemsize(d) == t->bits) return *out = (tide_dtype)d, true;
  return false;
}

/* ---- handing out ---- */

typedef struct exported {
  union {
    struct DLManagedTensor plain;
    struct DLManagedTensorVersioned versioned;
  } managed;
  tide_tensor *view;
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
} exported;

/* It may be a finaliser of another language that lets go: no driver is called. */
static void let_go(exported *e) {
  tide_tensor_release_deferred(e->view);
  free(e);
}

static void delete_plain(struct DLManagedTensor *m) { let_go(m->context); }
static void delete_versioned(struct DLManagedTensorVersioned *m) { let_go(m->context); }

static bool is_simulated(int device) {
  const tide_device_props *props;
  return device >= 0 && tide_device_get_props(&props, device) == TIDE_OK && props->simulated;
}

/* The current stream's work comes before what the consumer queues. */
static tide_status hand_over(tide_tensor *view, tide_stream *consumer) {
  tide_stream *current;
  int device = tide__tensor_device(view);
  if (!consumer) return TIDE_OK;
  if (tide_stream_device(consumer) != device)
    return tide__fail(TIDE_DEVICE, "to_dlpack: stream: got one of %s, expected one of %s, where x is",
                      tide__device_text(tide_stream_device(consumer)), tide__device_text(device));
  TIDE_TRY(tide_current_stream(&current, device));
  TIDE_TRY(tide_stream_wait_stream(consumer, current));
  return tide_tensor_record_stream(view, consumer);
}

static tide_status export(exported **out, dl_tensor *(*tensor_of)(exported *e), const tide_tensor *x,
                          tide_stream *consumer) {
  TIDE_TRY(tide__check(x, "to_dlpack", "x"));
  exported *e = calloc(1, sizeof *e);
  if (!e) return tide__fail(TIDE_MEMORY, "to_dlpack: no host memory");
  tide_status status = tide__tensor_view(&e->view, x, x->size, x->stride, x->ndim, x->offset);
  if (status == TIDE_OK) status = hand_over(e->view, consumer);
  if (status != TIDE_OK) {
    tide_tensor_release(e->view);
    free(e);
    return status;
  }
  atomic_store_explicit(&x->storage->exported, true, memory_order_relaxed);
  int device = tide__tensor_device(x);
  memcpy(e->size, x->size, sizeof e->size);
  memcpy(e->stride, x->stride, sizeof e->stride);
  *tensor_of(e) = (dl_tensor){.data = tide_tensor_data(e->view),
                              .device_type = device < 0             ? ON_CPU
                                             : is_simulated(device) ? ON_EXTENSION
                                                                    : ON_CUDA,
                              .device_id = device < 0 ? 0 : device,
                              .ndim = x->ndim,
                              .code = (uint8_t)(strchr(codes, code_of((tide_dtype)x->dtype)) - codes),
                              .bits = (uint8_t)(8 * tide__itemsize(x->dtype)),
                              .lanes = 1,
                              .shape = e->size,
                              .strides = e->stride};
  *out = e;
  return TIDE_OK;
}

static dl_tensor *plain_of(exported *e) { return &e->managed.plain.tensor; }
static dl_tensor *versioned_of(exported *e) { return &e->managed.versioned.tensor; }

tide_status tide_tensor_to_dlpack(struct DLManagedTensorVersioned **out, const tide_tensor *x, tide_stream *consumer) {
  exported *e = NULL;
  if (!out) return tide__fail(TIDE_ARGUMENT, "to_dlpack: no place for the result, got a null pointer");
  TIDE_TRY(export(&e, versioned_of, x, consumer));
  struct DLManagedTensorVersioned *m = &e->managed.versioned;
  m->major = MAJOR, m->minor = MINOR, m->context = e, m->deleter = delete_versioned;
  *out = m;
  return TIDE_OK;
}

tide_status tide_tensor_to_dlpack_unversioned(struct DLManagedTensor **out, const tide_tensor *x,
                                              tide_stream *consumer) {
  exported *e = NULL;
  if (!out) return tide__fail(TIDE_ARGUMENT, "to_dlpack: no place for the result, got a null pointer");
  TIDE_TRY(export(&e, plain_of, x, consumer));
  struct DLManagedTensor *m = &e->managed.plain;
  m->context = e, m->deleter = delete_plain;
  *out = m;
  return TIDE_OK;
}

void tide_dlpack_release(struct DLManagedTensorVersioned *m) {
  if (m && m->deleter) m->deleter(m);
}

/* ---- taking ---- */

static tide_status find_device(int *out, const dl_tensor *t) {
  int id = t->device_id;
  *out = TIDE_CPU;
  if (t->device_type == ON_CPU || t->device_type == ON_CUDA_HOST) return TIDE_OK;
  if (t->device_type != ON_CUDA && t->device_type != ON_CUDA_MANAGED)
    return tide__fail(TIDE_DEVICE,
                      "from_dlpack: got memory of a device of DLPack's type %d, expected the cpu (1) or CUDA (2)",
                      t->device_type);
  if (id < 0 || id >= tide_device_count() || is_simulated(id))
    return tide__fail(TIDE_DEVICE,
                      "from_dlpack: got memory of CUDA's device %d, expected one that tide has: there are %d%s", id,
                      tide_device_count(), tide_device_count() && is_simulated(0) ? ", and they are simulated" : "");
  *out = id;
  return TIDE_OK;
}

static tide_status check_tensor(tide_dtype *dtype, const dl_tensor *t) {
  if (t->ndim < 0 || t->ndim > TIDE_MAX_DIMS || (t->ndim && !t->shape))
    return tide__fail(TIDE_SHAPE, "from_dlpack: got %d dimensions, expected at most %d", t->ndim, TIDE_MAX_DIMS);
  if (find_dtype(dtype, t)) return TIDE_OK;
  return tide__fail(TIDE_DTYPE, "from_dlpack: got a dtype that tide lacks: DLPack's code %d, %d bits, %d lanes",
                    t->code, t->bits, t->lanes);
}

static tide_status wait_for(int device, tide_stream *producer) {
  tide_stream *current;
  if (!producer || device < 0) return TIDE_OK;
  TIDE_TRY(tide_current_stream(&current, device));
  return tide_stream_wait_stream(current, producer);
}

/* The tensor on the memory; release(managed) is its. */
static tide_status import(tide_tensor **out, const dl_tensor *t, void (*release)(void *), void *managed,
                          tide_stream *producer) {
  tide_options o = {TIDE_DTYPE_NONE, TIDE_CPU, false};
  TIDE_TRY(check_tensor(&o.dtype, t));
  TIDE_TRY(find_device(&o.device, t));
  TIDE_TRY(wait_for(o.device, producer));
  char *data = t->data ? (char *)t->data + t->byte_offset : NULL;
  return tide_from_ptr(out, data, t->shape, t->ndim ? t->strides : NULL, t->ndim, &o, release, managed);
}

/* One of ours: the same memory, as tide knows it. */
static tide_status take_back(tide_tensor **out, const exported *e, tide_stream *producer) {
  const tide_tensor *x = e->view;
  TIDE_TRY(tide__check(x, "from_dlpack", "the tensor"));
  TIDE_TRY(wait_for(tide__tensor_device(x), producer));
  return tide__tensor_view(out, x, x->size, x->stride, x->ndim, x->offset);
}

static void release_plain(void *managed) {
  struct DLManagedTensor *m = managed;
  if (m->deleter) m->deleter(m);
}

static void release_versioned(void *managed) { tide_dlpack_release(managed); }

/* Memory that is only to be read. Its deleter is called when the copy is done, and never where there is none. */
typedef struct reading {
  struct DLManagedTensorVersioned *managed;
  bool copied;
} reading;

static void release_reading(void *user) {
  reading *r = user;
  if (r->copied) tide_dlpack_release(r->managed);
  free(r);
}

static tide_status import_copy(tide_tensor **out, struct DLManagedTensorVersioned *m, tide_stream *producer) {
  TIDE_OWNED tide_tensor *x = NULL;
  reading *r = malloc(sizeof *r);
  if (!r) return tide__fail(TIDE_MEMORY, "from_dlpack: no host memory");
  *r = (reading){m, false};
  tide_status status = import(&x, &m->tensor, release_reading, r, producer);
  if (status != TIDE_OK) {
    free(r);
    return status;
  }
  TIDE_TRY(tide_clone(out, x));
  r->copied = true;
  return TIDE_OK;
}

tide_status tide_from_dlpack_unversioned(tide_tensor **out, struct DLManagedTensor *m, tide_stream *producer) {
  if (!out || !m) return tide__fail(TIDE_ARGUMENT, "from_dlpack: wrong arguments, got a null pointer");
  if (m->deleter != delete_plain) return import(out, &m->tensor, release_plain, m, producer);
  TIDE_TRY(take_back(out, m->context, producer));
  delete_plain(m);
  return TIDE_OK;
}

tide_status tide_from_dlpack(tide_tensor **out, struct DLManagedTensorVersioned *m, tide_stream *producer) {
  if (!out || !m) return tide__fail(TIDE_ARGUMENT, "from_dlpack: wrong arguments, got a null pointer");
  if (m->major != MAJOR)
    return tide__fail(TIDE_VALUE, "from_dlpack: got version %u.%u of DLPack, expected %d", m->major, m->minor, MAJOR);
  if (m->deleter == delete_versioned) {
    TIDE_TRY(take_back(out, m->context, producer));
    delete_versioned(m);
    return TIDE_OK;
  }
  return m->flags & READ_ONLY ? import_copy(out, m, producer) : import(out, &m->tensor, release_versioned, m, producer);
}
