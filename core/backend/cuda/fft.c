/* fft.c: Fourier transforms by cuFFT, which is opened at the first plan.
 *
 * Core keeps the plans and gives each to one call at a time; a plan allocates no work area of its own (core's allocator
 * gives one for the length of the queued work, so that two streams never share it). Strides go to cuFFT as embeddings:
 * a stride of a dim over that of the next inner one is the number of elements that a row of the latter takes. A plan
 * that is made or dropped while a stream captures must not break the capture by its own allocations, hence the relaxed
 * mode around both.
 *
 * Invariant: a plan is bound to the stream and the work area of the call that runs it. */
#include "internal.h"

#include <stdlib.h>

/* Values of cufft.h, which are part of cuFFT's binary interface. */
enum { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, D2Z = 0x6a, Z2D = 0x6c, Z2Z = 0x69 };
enum { FORWARD = -1, BACKWARD = 1, ALLOC_FAILED = 2 };

static tide__cufft cufft;

typedef struct fft_plan {
  int handle;
} fft_plan;

/* ---- opening ---- */

static pthread_once_t fft_once = PTHREAD_ONCE_INIT;
static char fft_problem[512];

static void fft_open(void) { tide__library_open(&cufft, TIDE__LIBRARY_cufft, fft_problem, sizeof fft_problem); }

static tide_status fft_fail(const char *what, int code) {
  static const char *const names[] = {"SUCCESS",        "INVALID_PLAN", "ALLOC_FAILED", "INVALID_TYPE", "INVALID_VALUE",
                                      "INTERNAL_ERROR", "EXEC_FAILED",  "SETUP_FAILED", "INVALID_SIZE"};
  const char *name = code >= 0 && code < (int)(sizeof names / sizeof *names) ? names[code] : "code";
  cudaGetLastError();
  if (code == ALLOC_FAILED) return tide__cuda_host->fail(TIDE_MEMORY, "fft: out of memory in cuFFT (%s)", what);
  return tide__cuda_host->fail(TIDE_ACCELERATOR, "fft: cuFFT failed in %s: CUFFT_%s (%d)", what, name, code);
}

/* ---- plans ---- */

/* One side's strides as cuFFT counts them. */
typedef struct layout {
  long long embed[TIDE_FFT_RANK], stride, distance;
} layout;

static layout layout_of(const tide_fft_shape *shape, int side) {
  layout l = {.stride = shape->stride[side][shape->rank - 1], .distance = shape->distance[side]};
  l.embed[0] = shape->n[0];
  for (int d = 1; d < shape->rank; d++) l.embed[d] = shape->stride[side][d - 1] / shape->stride[side][d];
  if (shape->batch == 1) l.distance = shape->stride[side][0] * shape->n[0];
  return l;
}

static int type_of(const tide_fft_shape *shape) {
  if (shape->type == TIDE_FFT_R2C) return shape->wide ? D2Z : R2C;
  if (shape->type == TIDE_FFT_C2R) return shape->wide ? Z2D : C2R;
  return shape->wide ? Z2Z : C2C;
}

static int make(int handle, size_t *work, const tide_fft_shape *shape) {
  layout out = layout_of(shape, 0), in = layout_of(shape, 1);
  long long n[TIDE_FFT_RANK];
  for (int d = 0; d < shape->rank; d++) n[d] = shape->n[d];
  int code = cufft.set_auto_allocation(handle, 0);
  if (code) return code;
  CUDA_RELAXED_FULLY;
  code = cufft.make_plan(handle, shape->rank, n, in.embed, in.stride, in.distance, out.embed, out.stride, out.distance,
                         type_of(shape), shape->batch, work);
  /* Tables go up by the legacy stream from pageable memory, perhaps not to their end, and our streams do not wait for
   * that one. */
  if (!code && cudaStreamSynchronize(cudaStreamLegacy)) cudaGetLastError();
  return code;
}

tide_status tide__cuda_fft_plan_new(void **out, size_t *work, int device, const tide_fft_shape *shape) {
  pthread_once(&fft_once, fft_open);
  if (fft_problem[0]) return tide__cuda_host->fail(TIDE_LIBRARY, "fft: %s", fft_problem);
  fft_plan *plan = malloc(sizeof *plan);
  if (!plan) return tide__cuda_host->fail(TIDE_MEMORY, "fft: no host memory for a plan");
  CUDA_ON(device);
  int code = cufft.create(&plan->handle);
  if (!code) {
    code = make(plan->handle, work, shape);
    if (code) cufft.destroy(plan->handle);
  }
  if (!code) return *out = plan, TIDE_OK;
  free(plan);
  return fft_fail("cufftMakePlanMany64", code);
}

void tide__cuda_fft_plan_free(int device, void *handle) {
  fft_plan *plan = handle;
  CUDA_ON(device);
  CUDA_RELAXED_FULLY;
  cufft.destroy(plan->handle);
  cudaGetLastError();
  free(plan);
}

/* ---- the transform ---- */

static int execute(int handle, const tide_fft_args *a) {
  void *out = a->head.ptr[0], *in = a->head.ptr[1];
  int direction = a->backward ? BACKWARD : FORWARD;
  switch (type_of(&a->shape)) {
  case R2C: return cufft.r2c(handle, in, out);
  case D2Z: return cufft.d2z(handle, in, out);
  case C2R: return cufft.c2r(handle, in, out);
  case Z2D: return cufft.z2d(handle, in, out);
  case Z2Z: return cufft.z2z(handle, in, out, direction);
  default: return cufft.c2c(handle, in, out, direction);
  }
}

tide_status tide__cuda_fft(tide_stream *stream, const tide_fft_args *a) {
  CUDA_ON_STREAM(s, cuda_stream_of(stream));
  const fft_plan *plan = a->plan;
  int code = cufft.set_stream(plan->handle, s->handle);
  if (!code && a->head.ptr[2]) code = cufft.set_work_area(plan->handle, a->head.ptr[2]);
  if (!code) code = execute(plan->handle, a);
  return code ? fft_fail("cufftExec", code) : TIDE_OK;
}
