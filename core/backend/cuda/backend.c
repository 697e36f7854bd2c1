/* backend.c: the table of the CUDA backend and the one name that libtide_cuda.so exports.
 *
 * The table is constant and no other file of the room knows it. What changes lies with the files that own it: contexts
 * in state.c, pinned slots and mailboxes in wait.c, cuBLAS handles in gemm.c. Nothing here knows tensors, and nothing
 * is decided here.
 *
 * Invariant: every slot leaves the calling thread's CUDA context as it found it, see CUDA_ON. */
#include "jit.h"

void tide__cuda_close(void) {
  tide__cuda_gemm_close();
  tide__cuda_solver_close();
  tide__cuda_staged_close();
  tide__cuda_meet_close();
  tide__cuda_progress_close();
  tide__cuda_stop_close();
  tide__cuda_wait_close();
}

static const tide_backend table = {
    .version = TIDE_BACKEND_VERSION,
    .name = "cuda",
#define SLOT(type, name, parameters) .name = tide__cuda_##name,
#include "backend/slot.def"
    .compiler = &tide__cuda_compiler,
    .tracer = &tide__cuda_tracer,
    .collective = &tide__cuda_collective,
    .external = &tide__cuda_external,
#define KERNEL(slot, args, writes, cost, library) .slot = tide__cuda_##slot,
#include "backend/kernel.def"
};

__attribute__((visibility("default"))) const tide_backend *tide_backend_cuda_open(const tide_backend_host *host,
                                                                                  uint32_t version);

const tide_backend *tide_backend_cuda_open(const tide_backend_host *host, uint32_t version) {
  if (version != TIDE_BACKEND_VERSION || host->struct_size < sizeof *host) {
    host->fail(TIDE_LIBRARY, "cuda: libtide_cuda.so has another version, got a caller of version %u, expected %u",
               (unsigned)version, (unsigned)TIDE_BACKEND_VERSION);
    return NULL;
  }
  tide__cuda_host = host;
  return &table;
}
