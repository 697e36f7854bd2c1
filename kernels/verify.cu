/* verify.cu: is every element of a tensor one that an operation can take? A bad one goes to the mailbox. */
#include "launch.cuh"
#include "mailbox.cuh"
#include "types.cuh"

namespace tidek {

constexpr int THREADS = 256, EACH = 4;

struct VerifyArgs {
  const void *x;
  int64_t n;
  Mail mail;
  int32_t kind, dtype, ndim;
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
};

static __device__ __forceinline__ bool bad(int32_t x, int) { return x == 0; }
static __device__ __forceinline__ bool bad(int64_t x, int) { return x == 0; }
template <class T> static __device__ __forceinline__ bool bad(T x, int kind) {
  return kind == TIDE_VERIFY_NONZERO ? x == 0 : !(x >= 0 && (kind == TIDE_VERIFY_RATE ? x < (T)INFINITY : x <= 1));
}

/* The offset of element i. */
static __device__ __forceinline__ int64_t offset_of(const VerifyArgs &a, int64_t i) {
  if (a.ndim == 1) return i * a.stride[0];
  int64_t offset = 0;
  for (int d = a.ndim - 1; d >= 0; d--) {
    int64_t q = (uint64_t)(i | a.size[d]) >> 32 ? i / a.size[d] : (uint32_t)i / (uint32_t)a.size[d];
    offset += (i - q * a.size[d]) * a.stride[d];
    i = q;
  }
  return offset;
}

/* T: int32, int64, float or double, as the dtype is computed in. */
template <class T> __global__ void __launch_bounds__(THREADS) verify_kernel(const __grid_constant__ VerifyArgs a) {
  kernel_begin();
  int64_t start = (int64_t)blockIdx.x * (THREADS * EACH) + threadIdx.x, offset[EACH];
  T x[EACH];
  TIDEK_EACH(e, EACH) {
    int64_t i = start + e * THREADS;
    offset[e] = offset_of(a, i < a.n ? i : a.n - 1);
  }
  load_any<T, EACH>(x, a.x, offset, a.dtype);
  TIDEK_EACH(e, EACH)
    if (bad(x[e], a.kind)) report(a.mail, __double_as_longlong((double)x[e]), a.kind, 0);
}

} // namespace tidek

int tidek_verify(cudaStream_t stream, const tide_verify_args *a, uint32_t *taken, tidek_mailbox *mailbox) {
  using namespace tidek;
  VerifyArgs r = {};
  r.x = a->head.ptr[1], r.n = a->numel, r.mail = {taken, mailbox, a->head.site};
  r.kind = a->kind, r.dtype = a->dtype, r.ndim = a->ndim;
  for (int d = 0; d < a->ndim; d++) r.size[d] = a->size[d], r.stride[d] = a->stride[0][d];
  void (*kernel)(const VerifyArgs) = verify_kernel<double>;
  if (a->compute == TIDE_INT32) kernel = verify_kernel<int32_t>;
  if (a->compute == TIDE_INT64) kernel = verify_kernel<int64_t>;
  if (a->compute == TIDE_FLOAT32) kernel = verify_kernel<float>;
  return launch(kernel, (r.n + THREADS * EACH - 1) / (THREADS * EACH), THREADS, stream, (const VerifyArgs)r);
}
