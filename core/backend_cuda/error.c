/* error.c: the runtime's error codes as statuses.
 *
 * Three kinds: memory that does not fit is TIDE_MEMORY, and the device goes on; faults that destroy the context are
 * sticky, and core then refuses the device; everything else is an error of this one call. The runtime keeps an error of
 * its own for each thread, which a host of ours may read: it is cleared here, so that our failures never become the
 * host's.
 *
 * Invariant: whoever gets a status other than TIDE_OK from tide__cuda_check finds the thread's error set. */
#include "internal.h"

static bool sticky(int code) {
  switch (code) {
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchTimeout:
  case cudaErrorContextIsDestroyed:
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorLaunchFailure:
  case cudaErrorTensorMemoryLeak:
  case cudaErrorMpsClientTerminated:
  case cudaErrorExternalDevice:
  case cudaErrorDevicesUnavailable:
  case cudaErrorUnknown: return true;
  default: return false;
  }
}

tide_status tide__cuda_fail(int device, const char *what, int code) {
  cudaGetLastError();
  if (code == cudaErrorMemoryAllocation)
    return tide__cuda_host->fail(TIDE_MEMORY, "%s: out of memory on cuda:%d", what, device);
  if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction)
    return tide__cuda_host->fail(
        TIDE_LIBRARY, "%s: libtide_cuda has no code for cuda:%d, expected a build for its architecture", what, device);
  return tide__cuda_host->fail_driver(device, what, code, cudaGetErrorName((cudaError_t)code),
                                      cudaGetErrorString((cudaError_t)code), sticky(code));
}
