/* backend.c: the table of the CUDA backend and the one name that libtide_cuda.so exports.
 *
 * The table is constant and no other file of the room knows it. What changes lies with the files that own it: contexts
 * in state.c, pinned slots and mailboxes in wait.c, cuBLAS handles in gemm.c. Nothing here knows tensors, and nothing
 * is decided here.
 *
 * Invariant: every slot leaves the calling thread's CUDA context as it found it, see cuda_enter. */
#include "internal.h"
#include "jit.h"

static void backend_close(void) {
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
    .close = backend_close,
    .device_count = tide__cuda_device_count,
    .device_open = tide__cuda_device_open,
    .device_reset = tide__cuda_device_reset,
    .kernel_count = tide__cuda_kernel_count,
    .kernel_load = tide__cuda_kernel_load,
    .device_props = tide__cuda_device_props,
    .device_mem_info = tide__cuda_device_mem_info,
    .device_sync = tide__cuda_device_sync,
    .device_can_access_peer = tide__cuda_device_can_access_peer,
    .versions = tide__cuda_versions,
    .mem_alloc = tide__cuda_mem_alloc,
    .mem_free = tide__cuda_mem_free,
    .host_alloc = tide__cuda_host_alloc,
    .host_free = tide__cuda_host_free,
    .range_granularity = tide__cuda_range_granularity,
    .range_reserve = tide__cuda_range_reserve,
    .range_release = tide__cuda_range_release,
    .range_map = tide__cuda_range_map,
    .range_unmap = tide__cuda_range_unmap,
    .mem_alloc_async = tide__cuda_mem_alloc_async,
    .mem_free_async = tide__cuda_mem_free_async,
    .mem_trim_async = tide__cuda_mem_trim_async,
    .mem_reserved_async = tide__cuda_mem_reserved_async,
    .stream_new = tide__cuda_stream_new,
    .stream_wrap = tide__cuda_stream_wrap,
    .stream_free = tide__cuda_stream_free,
    .stream_handle = tide__cuda_stream_handle,
    .stream_identity = tide__cuda_stream_identity,
    .stream_priority_range = tide__cuda_stream_priority_range,
    .stream_query = tide__cuda_stream_query,
    .stream_sync = tide__cuda_stream_sync,
    .stream_sleep = tide__cuda_stream_sleep,
    .event_new = tide__cuda_event_new,
    .event_free = tide__cuda_event_free,
    .event_handle = tide__cuda_event_handle,
    .event_record = tide__cuda_event_record,
    .event_wait = tide__cuda_event_wait,
    .event_query = tide__cuda_event_query,
    .event_sync = tide__cuda_event_sync,
    .event_elapsed = tide__cuda_event_elapsed,
    .copy_to_device = tide__cuda_copy_to_device,
    .copy_to_host = tide__cuda_copy_to_host,
    .copy_peer = tide__cuda_copy_peer,
    .read_small = tide__cuda_read_small,
    .peer_access = tide__cuda_peer_access,
    .ipc_mem_export = tide__cuda_ipc_mem_export,
    .ipc_mem_open = tide__cuda_ipc_mem_open,
    .ipc_mem_close = tide__cuda_ipc_mem_close,
    .ipc_event_export = tide__cuda_ipc_event_export,
    .ipc_event_open = tide__cuda_ipc_event_open,
    .blas_handle = tide__cuda_blas_handle,
    .arch_list = tide__cuda_arch_list,
    .machine_list = tide__cuda_machine_list,
    .telemetry = tide__cuda_telemetry,
    .processes = tide__cuda_processes,
    .capture_begin = tide__cuda_capture_begin,
    .capture_end = tide__cuda_capture_end,
    .capture_query = tide__cuda_capture_query,
    .graph_instantiate = tide__cuda_graph_instantiate,
    .graph_launch = tide__cuda_graph_launch,
    .graph_free = tide__cuda_graph_free,
    .graph_exec_free = tide__cuda_graph_exec_free,
    .graph_dot = tide__cuda_graph_dot,
    .capture_place = tide__cuda_capture_place,
    .capture_nodes = tide__cuda_capture_nodes,
    .node_read = tide__cuda_node_read,
    .nodes_write = tide__cuda_nodes_write,
    .fft_plan_new = tide__cuda_fft_plan_new,
    .fft_plan_free = tide__cuda_fft_plan_free,
    .meet_new = tide__cuda_meet_new,
    .meet_arrive = tide__cuda_meet_arrive,
    .meet_arrived = tide__cuda_meet_arrived,
    .meet_wait = tide__cuda_meet_wait,
    .meet_open = tide__cuda_meet_open,
    .meet_free = tide__cuda_meet_free,
    .progress_note = tide__cuda_progress_note,
    .progress_read = tide__cuda_progress_read,
    .compiler = &tide__cuda_compiler,
    .tracer = &tide__cuda_tracer,
    .collective = &tide__cuda_collective,
    .external = &tide__cuda_external,
    .pack = tide__cuda_pack,
    .kernels_stop = tide__cuda_kernels_stop,
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
