/* jit.c: loads and launches kernels that were made at run time, through the driver.
 *
 * Our own elementwise kernels are launched with programmatic dependent launch, as all kernels of ours are: they wait
 * for the kernel before them themselves (kernels/launch.cuh). A kernel of the user's knows nothing of that and is
 * ordered in full. Loading must not break a capture that the thread is in, hence the relaxed mode around it.
 *
 * Invariant: the driver's names are found before a module is loaded, so a launch looks nothing up. */
#include "jit.h"

#include <stdio.h>
#include <string.h>

#include "nvrtc_kernel.inc"

tide__driver tide__cuda_driver;

static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static const char *driver_lacks;

static void driver_open(void) {
  const cuda_symbol wanted[] = {{&tide__cuda_driver.load, "cuModuleLoadData"},
                                {&tide__cuda_driver.unload, "cuModuleUnload"},
                                {&tide__cuda_driver.function, "cuModuleGetFunction"},
                                {&tide__cuda_driver.get_attribute, "cuFuncGetAttribute"},
                                {&tide__cuda_driver.set_attribute, "cuFuncSetAttribute"},
                                {&tide__cuda_driver.launch, "cuLaunchKernelEx"},
                                {&tide__cuda_driver.link_create, "cuLinkCreate_v2"},
                                {&tide__cuda_driver.link_add, "cuLinkAddData_v2"},
                                {&tide__cuda_driver.link_complete, "cuLinkComplete"},
                                {&tide__cuda_driver.link_destroy, "cuLinkDestroy"}};
  driver_lacks = tide__cuda_find(wanted, sizeof wanted / sizeof *wanted);
}

tide_status tide__cuda_driver_ready(void) {
  pthread_once(&driver_once, driver_open);
  if (!driver_lacks) return TIDE_OK;
  return tide__cuda_host->fail(TIDE_LIBRARY, "jit: the driver lacks %s, expected one for CUDA 12 or later",
                               driver_lacks);
}

static tide_status arch(char *text, size_t size, int device) {
  int major = 0, minor = 0;
  int rc = (int)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (!rc) rc = (int)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  TIDE_TRY(tide__cuda_check(device, "jit", rc));
  snprintf(text, size, "sm_%d%d", major, minor);
  return TIDE_OK;
}

static tide_status load(void **module, const void *image, size_t bytes, int device) {
  TIDE_TRY(tide__cuda_driver_ready());
  CUDA_ON(device);
  CUDA_RELAXED_FULLY;
  return tide__cuda_check(device, "jit", (int)tide__cuda_driver.load((CUmodule *)module, image));
}

static void unload(void *module, int device) {
  CUDA_ON(device);
  tide__cuda_driver.unload(module);
}

static int attribute(CUfunction function, CUfunction_attribute which) {
  int value = 0;
  return tide__cuda_driver.get_attribute(&value, which, function) ? 0 : value;
}

static tide_status function(void **out, tide_function_info *info, void *module, const char *name, int device) {
  CUfunction f = NULL;
  CUDA_ON(device);
  int rc = (int)tide__cuda_driver.function(&f, module, name);
  if (!rc)
    *info = (tide_function_info){.max_threads = attribute(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
                                 .registers = attribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS),
                                 .shared = attribute(f, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
                                 .local = attribute(f, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)};
  *out = f;
  return tide__cuda_check(device, "jit", rc);
}

enum { PLAIN_SHARED = 48 << 10 }; /* more dynamic shared memory has to be asked for */

static tide_status put_mailbox(const tide_launch *a, int device) {
  uint32_t *taken;
  tidek_mailbox *mailbox;
  TIDE_TRY(tide__cuda_mailbox(&taken, &mailbox, device));
  uint64_t *word, number;
  TIDE_TRY(tide__cuda_stop_word(&word, &number, a, device));
  const uint64_t place[4] = {(uintptr_t)taken, (uintptr_t)mailbox, (uintptr_t)word, number};
  memcpy((char *)a->packed + a->mail, place, sizeof place);
  return TIDE_OK;
}

static tide_status launch(tide_stream *stream, void *handle, const tide_launch *a) {
  CUDA_ON_STREAM(s, cuda_stream_of(stream));
  if (a->mail) TIDE_TRY(put_mailbox(a, s->device));
  void *params[TIDE_LAUNCH_PARAMS];
  for (int k = 0; k < a->params; k++) params[k] = (char *)(uintptr_t)a->packed + a->offset[k];
  CUlaunchAttribute dependent = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                 .value.programmaticStreamSerializationAllowed = 1};
  const CUlaunchConfig config = {.gridDimX = a->grid[0],
                                 .gridDimY = a->grid[1],
                                 .gridDimZ = a->grid[2],
                                 .blockDimX = a->block[0],
                                 .blockDimY = a->block[1],
                                 .blockDimZ = a->block[2],
                                 .sharedMemBytes = a->shared,
                                 .hStream = s->handle,
                                 .attrs = &dependent,
                                 .numAttrs = a->elementwise && !tidek_plain_launches};
  CUresult rc = CUDA_SUCCESS;
  if (a->shared > PLAIN_SHARED)
    rc = tide__cuda_driver.set_attribute(handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)a->shared);
  if (!rc) rc = tide__cuda_driver.launch(&config, handle, params, NULL);
  return tide__cuda_check(s->device, "launch", (int)rc);
}

static const tide_image_loader loader = {
    .arch = arch, .load = load, .unload = unload, .function = function, .launch = launch};

static const tide_compiler assembler = {
    .name = "ptx",
    .ahead = true,
    .options = "",
    .identify = tide__driver_identify,
    .compile = tide__driver_assemble,
    .loader = &loader,
};

static const tide_dialect text = {
    .prelude = TEXT_integers TEXT_prelude,
    .with_small = TEXT_small,
    .with_complex = TEXT_complex,
    .with_dims = TEXT_dims,
    .flat = TEXT_raws TEXT_begin TEXT_flat_begin TEXT_apply TEXT_flat_end,
    .strided = TEXT_begin TEXT_strided_begin TEXT_apply TEXT_strided_end,
    .raw = TEXT_integers,
    .threads = TIDE_CUDA_THREADS,
};

const tide_compiler tide__cuda_compiler = {
    .name = "nvrtc",
    .variable = "TIDE_CUDA_LIBRARY_PATH",
    .text = &text,
    .ahead = true,
    .joins = true,
    .options = "--std=c++17 --device-as-default-execution-space -w --minimal",
    .raw_options = "--std=c++17 -w",
    .identify = tide__nvrtc_identify,
    .compile = tide__nvrtc_compile,
    .loader = &loader,
    .assembler = &(const tide_assembler){tide__cuda_fused_text, &assembler},
};
