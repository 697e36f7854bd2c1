/* backend.c: simulated GPUs over host memory, for the specs of everything that is asynchronous.
 *
 * A simulated device does what a real one may do and a friendly one would not. Each stream is a queue; a few worker
 * threads take the heads of the queues in a shuffled order and let some of them lie for a while, so whatever streams
 * and events do not order is really reordered. Arithmetic is done by the CPU's loops. Device memory is capped and is
 * seen at two addresses: the one that core knows can never be touched, so a host that mistakes it for its own memory
 * faults at once; the other one is the workers'. Kernels may touch live memory of their own device and page-locked host
 * memory, nothing else.
 *
 *   sim     the state that all share             memory, range, async  address space, blocks, page-locked memory
 *   queue   streams, the scheduler, waits        event                 events
 *   work    kernels and copies                   launch                kernels made from text
 *   comm    pieces at once, between devices      graph                 captures and replays
 *   fault   faults on demand, dry mode           ipc                   memory and events of other processes
 *   info    what devices report                  trace                 when they did what
 *   clock   real and virtual time            external              memory and semaphores of other APIs
 *   bind    operands of captured work replaced
 *
 * Invariants: one lock guards every struct of sim.h and is never held while a kernel runs or the host's functions are
 * called; what is queued keeps its stream and its marks alive; close leaves nothing behind. A forked child has no
 * workers, so every call there fails until it starts tide anew. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/registry.h"
#include "base/base.h"

/* ---- devices ---- */

static tide_status device_count(int *out) {
  *out = tide__sim.devices;
  return TIDE_OK;
}

static tide_status device_check(int device, const char *what) {
  TIDE_TRY(tide__sim_enter(what));
  if (device >= 0 && device < tide__sim.devices) return TIDE_OK;
  return tide__sim.host->fail(TIDE_DEVICE, "%s: no such device, got %d, expected 0 to %d", what, device,
                              tide__sim.devices - 1);
}

static tide_status device_open(int device) {
  TIDE_TRY(device_check(device, "device"));
  if (tide__sim.env_bad)
    return tide__sim.host->fail(TIDE_VALUE,
                                "device: TIDE_SIM_FAULT is not understood, got \"%s\", expected a list such as "
                                "\"alloc:3,launch:12\"",
                                getenv("TIDE_SIM_FAULT"));
  if (tide__sim.clock_bad)
    return tide__sim.host->fail(TIDE_VALUE,
                                "device: TIDE_SIM_CLOCK is not understood, got \"%s\", expected real or virtual",
                                getenv("TIDE_SIM_CLOCK"));
  pthread_mutex_lock(&tide__sim.lock);
  return tide__sim_leave(device, "device");
}

static void write_uuid(unsigned char *uuid, int index) {
  memset(uuid, 0, 16);
  memcpy(uuid, "tide simulated", 14);
  uuid[15] = (unsigned char)index;
}

static tide_status device_props(tide_device_props *out, int device) {
  TIDE_TRY(device_check(device, "get_device_properties"));
  tide_device_props p = {.name = "tide simulated GPU", .simulated = true};
  tide__sim_capability(&p.major, &p.minor);
  p.multi_processor_count = (int)(sizeof tide__sim.worker / sizeof *tide__sim.worker);
  p.max_threads_per_multi_processor = 2048, p.max_threads_per_block = 1024, p.warp_size = 32;
  p.regs_per_multiprocessor = 65536;
  pthread_mutex_lock(&tide__sim.lock);
  p.total_memory = tide__sim_memory_of(device);
  pthread_mutex_unlock(&tide__sim.lock);
  p.shared_memory_per_block = 48 << 10, p.shared_memory_per_block_optin = 227 << 10;
  p.shared_memory_per_multiprocessor = 228 << 10, p.L2_cache_size = 32 << 20;
  write_uuid(p.uuid, tide__sim.picked[device]);
  p.pci_bus_id = tide__sim.picked[device] + 1;
  p.clock_rate = 1000000; /* what tide__sim_stream_sleep counts: 1 GHz */
  *out = p;
  return TIDE_OK;
}

static tide_status device_mem_info(size_t *free, size_t *total, int device) {
  TIDE_TRY(device_check(device, "mem_get_info"));
  pthread_mutex_lock(&tide__sim.lock);
  size_t used = tide__sim.device[device].used;
  *total = tide__sim_memory_of(device);
  *free = *total > used ? *total - used : 0;
  pthread_mutex_unlock(&tide__sim.lock);
  return TIDE_OK;
}

static tide_status device_can_access_peer(bool *out, int device, int peer) {
  TIDE_TRY(device_check(device, "can_device_access_peer"));
  TIDE_TRY(device_check(peer, "can_device_access_peer"));
  pthread_mutex_lock(&tide__sim.lock);
  *out = device != peer && !tide__sim.faults.peer_off;
  pthread_mutex_unlock(&tide__sim.lock);
  return TIDE_OK;
}

static tide_status peer_access(int device, int peer, bool enabled) {
  TIDE_TRY(device_check(device, "set_peer_access"));
  pthread_mutex_lock(&tide__sim.lock);
  uint64_t bit = (uint64_t)1 << peer, *peers = &tide__sim.peers[device];
  *peers = enabled ? *peers | bit : *peers & ~bit;
  pthread_mutex_unlock(&tide__sim.lock);
  return TIDE_OK;
}

static tide_status stream_priority_range(int *least, int *greatest, int device) {
  TIDE_TRY(device_check(device, "priority_range"));
  *least = 0, *greatest = -5;
  return TIDE_OK;
}

/* ---- the table ---- */

static void close_all(void) {
  if (!tide__sim.host) return;
  tide__sim_stop();
  pthread_mutex_lock(&tide__sim.lock);
  tide__sim_queue_drop();
  tide__sim_async_close();
  tide__sim_event_drop();
  tide__sim_memory_close();
  tide__sim.host = NULL;
  tide__sim.devices = 0;
  tide__sim.clock = 0;
  tide__sim.faults = (sim_faults){0};
  memset(tide__sim.device, 0, sizeof tide__sim.device);
  memset(tide__sim.peers, 0, sizeof tide__sim.peers);
  atomic_store(&tide__sim_forked, false);
  pthread_mutex_unlock(&tide__sim.lock);
}

static tide_backend table = {
    .version = TIDE_BACKEND_VERSION,
    .name = "sim",
    .close = close_all,
    .device_count = device_count,
    .device_open = device_open,
    .device_props = device_props,
    .device_mem_info = device_mem_info,
    .device_sync = tide__sim_device_sync,
    .device_can_access_peer = device_can_access_peer,
    .mem_alloc = tide__sim_mem_alloc,
    .mem_free = tide__sim_mem_free,
    .host_alloc = tide__sim_host_alloc,
    .host_free = tide__sim_host_free,
    .range_granularity = tide__sim_range_granularity,
    .range_reserve = tide__sim_range_reserve,
    .range_release = tide__sim_range_release,
    .range_map = tide__sim_range_map,
    .range_unmap = tide__sim_range_unmap,
    .mem_alloc_async = tide__sim_mem_alloc_async,
    .mem_free_async = tide__sim_mem_free_async,
    .mem_trim_async = tide__sim_mem_trim_async,
    .mem_reserved_async = tide__sim_mem_reserved_async,
    .stream_new = tide__sim_stream_new,
    .stream_wrap = tide__sim_stream_wrap,
    .stream_free = tide__sim_stream_free,
    .stream_handle = tide__sim_stream_handle,
    .stream_identity = tide__sim_stream_identity,
    .stream_priority_range = stream_priority_range,
    .stream_query = tide__sim_stream_query,
    .stream_sync = tide__sim_stream_sync,
    .stream_sleep = tide__sim_stream_sleep,
    .event_new = tide__sim_event_new,
    .event_free = tide__sim_event_free,
    .event_handle = tide__sim_event_handle,
    .event_record = tide__sim_event_record,
    .event_wait = tide__sim_event_wait,
    .event_query = tide__sim_event_query,
    .event_sync = tide__sim_event_sync,
    .event_elapsed = tide__sim_event_elapsed,
    .copy_to_device = tide__sim_copy_to_device,
    .copy_to_host = tide__sim_copy_to_host,
    .copy_peer = tide__sim_copy_peer,
    .read_small = tide__sim_read_small,
    .peer_access = peer_access,
    .ipc_mem_export = tide__sim_ipc_mem_export,
    .ipc_mem_open = tide__sim_ipc_mem_open,
    .ipc_mem_close = tide__sim_ipc_mem_close,
    .ipc_event_export = tide__sim_ipc_event_export,
    .ipc_event_open = tide__sim_ipc_event_open,
    .arch_list = tide__sim_arch_list,
    .telemetry = tide__sim_telemetry,
    .processes = tide__sim_processes,
    .meet_new = tide__sim_meet_new,
    .meet_arrive = tide__sim_meet_arrive,
    .meet_arrived = tide__sim_meet_arrived,
    .meet_wait = tide__sim_meet_wait,
    .meet_open = tide__sim_meet_open,
    .meet_free = tide__sim_meet_free,
    .progress_note = tide__sim_progress_note,
    .progress_read = tide__sim_progress_read,
    .capture_begin = tide__sim_capture_begin,
    .capture_end = tide__sim_capture_end,
    .capture_query = tide__sim_capture_query,
    .graph_instantiate = tide__sim_graph_instantiate,
    .graph_launch = tide__sim_graph_launch,
    .graph_free = tide__sim_graph_free,
    .graph_exec_free = tide__sim_graph_exec_free,
    .graph_dot = tide__sim_graph_dot,
    .capture_place = tide__sim_capture_place,
    .capture_nodes = tide__sim_capture_nodes,
    .node_read = tide__sim_node_read,
    .nodes_write = tide__sim_nodes_write,
    .external = &tide__sim_external,
    .pack = tide__sim_pack,
    .kernels_stop = tide__sim_kernels_stop,
    .fft_plan_new = tide__sim_fft_plan_new,
    .fft_plan_free = tide__sim_fft_plan_free,
    .tracer = &tide__sim_tracer,
#define KERNEL(name, args, writes, cost, library) .name = tide__sim_kernel_##name,
#include "backend/kernel.def"
};

/* Of `devices` those that CUDA_VISIBLE_DEVICES leaves, by number or by uuid, as the driver would. */
static int pick(int *picked, int devices) {
  char text[TIDE_MAX_DEVICES][TIDE_UUID_TEXT];
  for (int d = 0; d < devices; d++) {
    unsigned char uuid[16];
    write_uuid(uuid, d);
    int at = snprintf(text[d], TIDE_UUID_TEXT, "GPU-");
    for (int i = 0; i < 16; i++)
      at += snprintf(text[d] + at, (size_t)(TIDE_UUID_TEXT - at), "%s%02x",
                     i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
  }
  return tide__visible(picked, getenv("CUDA_VISIBLE_DEVICES"), text, devices);
}

static tide_status open_table(const tide_backend **out, const tide_backend_host *host, const tide_config *config) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, tide__sim_fork_watch);
  int picked[TIDE_MAX_DEVICES], devices = pick(picked, config->sim_devices);
  if (!devices)
    return host->fail(TIDE_DEVICE,
                      "cuda: no device was found, CUDA_VISIBLE_DEVICES leaves none of %d simulated ones, expected one",
                      config->sim_devices);
  pthread_mutex_lock(&tide__sim.lock);
  tide__sim.devices = devices;
  memcpy(tide__sim.picked, picked, sizeof picked);
  tide__sim.memory = config->sim_memory;
  table.compiler = tide__sim_compiler();
  table.collective = tide__sim_collective();
  bool opened = tide__sim_memory_open();
  if (opened) {
    tide__sim.host = host;
    tide__sim.run = tide__sim_op_run;
    tide__sim.random = (config->sim_seed + 1) * 0x9E3779B97F4A7C15u | 1;
    tide__sim.stopping = false;
    tide__sim_fault_env();
    tide__sim.clock_bad = !tide__sim_clock_env();
  }
  pthread_mutex_unlock(&tide__sim.lock);
  if (!opened) return host->fail(TIDE_MEMORY, "cuda: no host memory for the simulated devices");
  *out = &table;
  return TIDE_OK;
}

static bool wanted(const tide_config *config) { return config->sim_devices > 0; }

static tide_backend_kind sim = {
    .name = "sim",
    .wanted = wanted,
    .hint = "TIDE_SIM_DEVICES=2, or tide --sim 2, simulates GPUs",
    .open = open_table,
};
TIDE_BACKEND_REGISTER(sim)
