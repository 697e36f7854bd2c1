/* dlpack_test.c: DLPack's structs as another library sees them: what is in them, when deleters are called and on which
 * thread, and what is refused. */
#include "tide/dlpack.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tide/sim.h"

/* As dmlc.github.io/dlpack/latest/c_api.html has them; dlpack.c says the same in words of its own. */
typedef struct DLTensor {
  void *data;
  struct {
    int32_t device_type, device_id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
};
struct DLManagedTensorVersioned {
  struct {
    uint32_t major, minor;
  } version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
};
typedef struct DLManagedTensor plain;
typedef struct DLManagedTensorVersioned versioned;

static _Atomic int deleted;
static float values[6] = {1, 2, 3, 4, 5, 6};
static int64_t shape[2] = {2, 2}, strides[2] = {3, 1};

static void delete_plain(plain *m) {
  deleted++;
  free(m);
}

static void delete_versioned(versioned *m) {
  deleted++;
  free(m);
}

static DLTensor tensor(void) {
  DLTensor t = {.data = values, .device = {1, 0}, .ndim = 2, .dtype = {2, 32, 1}, .shape = shape, .strides = strides};
  t.byte_offset = sizeof *values;
  return t;
}

static versioned *made(void) {
  versioned *m = calloc(1, sizeof *m);
  *m = (versioned){.version = {1, 3}, .deleter = delete_versioned, .dl_tensor = tensor()};
  return m;
}

static double at(const tide_tensor *x, int64_t i, int64_t j) {
  tide_tensor *row = NULL, *one = NULL;
  tide_scalar s = {0};
  OK(tide_select(&row, x, 0, i));
  OK(tide_select(&one, row, 0, j));
  OK(tide_item(&s, one));
  tide_tensor_release(row), tide_tensor_release(one);
  return s.re;
}

static void taken(void) {
  tide_tensor *x = NULL, *part = NULL;
  versioned *m = made();
  OK(tide_from_dlpack(&x, m, NULL));
  CHECK(tide_tensor_data(x) == values + 1 && tide_tensor_stride(x)[0] == 3 && at(x, 1, 0) == 5 && at(x, 0, 1) == 3);
  OK(tide_select(&part, x, 0, 1));
  tide_tensor_release(x);
  tide_memory_pump();
  CHECK(deleted == 0);
  tide_tensor_release(part);
  tide_memory_pump();
  CHECK(deleted == 1);

  plain *p = calloc(1, sizeof *p);
  *p = (plain){.deleter = delete_plain, .dl_tensor = tensor()};
  p->dl_tensor.strides = NULL, p->dl_tensor.byte_offset = 0;
  OK(tide_from_dlpack_unversioned(&x, p, NULL));
  CHECK(tide_tensor_data(x) == values && at(x, 1, 0) == 3);
  tide_tensor_release(x);
  tide_memory_pump();
  CHECK(deleted == 2);
}

static void read_only(void) {
  tide_tensor *x = NULL;
  versioned *m = made();
  m->flags = 1;
  deleted = 0;
  OK(tide_from_dlpack(&x, m, NULL));
  tide_memory_pump();
  CHECK(deleted == 1 && tide_tensor_data(x) != values + 1 && at(x, 1, 1) == 6);
  tide_tensor_release(x);
}

/* What is refused stays its owner's. */
static void refused(void) {
  tide_tensor *x = NULL;
  static int64_t negative[2] = {-1, 2}, back[2] = {-3, 1}, huge[2] = {(int64_t)1 << 62, 8};
  deleted = 0;
  for (int k = 0; k < 12; k++) {
    versioned *m = made();
    DLTensor *t = &m->dl_tensor;
    tide_status want = TIDE_DTYPE;
    switch (k) {
    case 0: m->version.major = 2, want = TIDE_VALUE; break;
    case 1: t->dtype.lanes = 4; break;
    case 2: t->dtype.code = 3; break;
    case 3: t->dtype.code = 200; break;
    case 4: t->dtype.bits = 8; break;
    case 5: t->ndim = 13, want = TIDE_SHAPE; break;
    case 6: t->ndim = -1, want = TIDE_SHAPE; break;
    case 7: t->device.device_type = 10, want = TIDE_DEVICE; break; /* ROCm */
    case 8: t->device.device_type = 2, t->device.device_id = 99, want = TIDE_DEVICE; break;
    case 9: t->shape = negative, want = TIDE_VALUE; break;
    case 10: t->strides = back, want = TIDE_VALUE; break;
    default: t->shape = huge, want = TIDE_MEMORY;
    }
    m->flags = (uint64_t)(k & 1); /* to be copied, or not */
    CHECK(tide_from_dlpack(&x, m, NULL) == want && x == NULL && deleted == 0);
    free(m);
  }
  CHECK(tide_from_dlpack(&x, NULL, NULL) == TIDE_ARGUMENT);
  tide_dlpack_release(NULL);
}

static void *delete_there(void *managed) {
  tide_dlpack_release(managed);
  return NULL;
}

static void given(int device, int type) {
  tide_tensor *x = full(device, 6, 7), *same = NULL;
  size_t before = tide_memory_allocated(0);
  versioned *m = NULL;
  plain *p = NULL;
  OK(tide_tensor_to_dlpack(&m, x, NULL));
  CHECK(m->version.major == 1 && m->flags == 0 && m->dl_tensor.data == tide_tensor_data(x));
  CHECK(m->dl_tensor.device.device_type == type && m->dl_tensor.device.device_id == (device < 0 ? 0 : device));
  CHECK(m->dl_tensor.ndim == 1 && m->dl_tensor.shape[0] == 6 && m->dl_tensor.strides[0] == 1);
  CHECK(m->dl_tensor.dtype.code == 2 && m->dl_tensor.dtype.bits == 32 && m->dl_tensor.dtype.lanes == 1);
  OK(tide_tensor_to_dlpack_unversioned(&p, x, NULL));
  CHECK(p->dl_tensor.data == m->dl_tensor.data && p->dl_tensor.byte_offset == 0);
  tide_tensor_release(x);
  CHECK(device < 0 || tide_memory_allocated(0) == before);
  OK(tide_from_dlpack(&same, m, NULL)); /* back again: the storage that it was */
  CHECK(tide_tensor_data(same) == p->dl_tensor.data && tide_tensor_device(same) == device);
  tide_tensor_release(same);
  pthread_t thread[4];
  for (int k = 0; k < 4; k++) {
    x = full(device, 6, k);
    OK(tide_tensor_to_dlpack(&m, x, NULL));
    tide_tensor_release(x);
    CHECK(!pthread_create(&thread[k], NULL, delete_there, m));
  }
  for (int k = 0; k < 4; k++) pthread_join(thread[k], NULL);
  p->deleter(p);
  if (device >= 0) {
    OK(tide_device_synchronize(device));
    CHECK(tide_memory_allocated(device) == 0);
  }
}

int main(void) {
  const tide_config config = {.struct_size = sizeof config, .sim_devices = 2};
  OK(tide_init(&config));
  taken();
  read_only();
  refused();
  given(TIDE_CPU, 1);
  given(0, 12); /* no other library may take it for a GPU's */
  given(1, 12);
  versioned *m = NULL;
  tide_tensor *x = full(TIDE_CPU, 3, 1);
  OK(tide_tensor_to_dlpack(&m, x, NULL));
  tide_tensor_release(x);
  tide_shutdown();
  tide_dlpack_release(m); /* late, but allowed */
  printf("%s: %d failures\n", __FILE__, failures);
  return failures != 0;
}
