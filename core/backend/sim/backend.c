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

#include <stdlib.h>

#include "backend/registry.h"
#include "base/base.h"

/* ---- devices ---- */

tide_status tide__sim_device_count(int *out) {
  *out = tide__sim.devices;
  return TIDE_OK;
}

static tide_status device_check(int device, const char *what) {
  TIDE_TRY(tide__sim_enter(what));
  if (device >= 0 && device < tide__sim.devices) return TIDE_OK;
  return tide__sim.host->fail(TIDE_DEVICE, "%s: no such device, got %d, expected 0 to %d", what, device,
                              tide__sim.devices - 1);
}

tide_status tide__sim_device_open(int device) {
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

tide_status tide__sim_device_props(tide_device_props *out, int device) {
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

tide_status tide__sim_device_mem_info(size_t *free, size_t *total, int device) {
  TIDE_TRY(device_check(device, "mem_get_info"));
  TIDE_LOCKED(&tide__sim.lock);
  size_t used = tide__sim.device[device].used;
  *total = tide__sim_memory_of(device);
  *free = *total > used ? *total - used : 0;
  return TIDE_OK;
}

tide_status tide__sim_device_can_access_peer(bool *out, int device, int peer) {
  TIDE_TRY(device_check(device, "can_device_access_peer"));
  TIDE_TRY(device_check(peer, "can_device_access_peer"));
  TIDE_LOCKED(&tide__sim.lock);
  *out = device != peer && !tide__sim.faults.peer_off;
  return TIDE_OK;
}

tide_status tide__sim_peer_access(int device, int peer, bool enabled) {
  TIDE_TRY(device_check(device, "set_peer_access"));
  TIDE_LOCKED(&tide__sim.lock);
  uint64_t bit = (uint64_t)1 << peer, *peers = &tide__sim.peers[device];
  *peers = enabled ? *peers | bit : *peers & ~bit;
  return TIDE_OK;
}

tide_status tide__sim_stream_priority_range(int *least, int *greatest, int device) {
  TIDE_TRY(device_check(device, "priority_range"));
  *least = 0, *greatest = -5;
  return TIDE_OK;
}

/* ---- the table ---- */

void tide__sim_close(void) {
  if (!tide__sim.host) return;
  tide__sim_stop();
  TIDE_LOCKED(&tide__sim.lock);
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
}

static tide_backend table = {
    .version = TIDE_BACKEND_VERSION,
    .name = "sim",
#define SLOT(type, name, parameters) .name = tide__sim_##name,
#define OPTIONAL_SLOT(type, name, parameters)
#include "backend/slot.def"
    .external = &tide__sim_external,
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
