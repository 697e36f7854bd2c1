/* backend.c: the CPU as a backend. There is one CPU, it is always open, and everything is done when a call returns; so
 * streams and events have nothing to hold and waits have nothing to wait for. Memory is the host's.
 *
 * Invariant: no slot is empty that core may call for any device; what a CPU has not is answered, not missing. */

#include "backend/cpu/jit/cxx.h"
#include "backend/cpu/jit/fiber.h"
#include "cpu.h"
#include "scratch.h"
#include "backend/registry.h"
#include "os/os.h"

static void close_backend(void) {
  tide__room_close();
  tide__fibers_trim();
}

static tide_status device_count(int *out) {
  *out = 1;
  return TIDE_OK;
}
static tide_status device_open(int device) { return TIDE_OK; }

static tide_status device_mem_info(size_t *free_bytes, size_t *total, int device) {
  tide__os_memory(free_bytes, total);
  return TIDE_OK;
}

static tide_status device_props(tide_device_props *out, int device) {
  size_t free_bytes;
  memset(out, 0, sizeof *out);
  memcpy(out->name, "CPU", 4);
  out->multi_processor_count = tide_get_num_threads();
  return device_mem_info(&free_bytes, &out->total_memory, device);
}

static tide_status device_sync(int device) { return TIDE_OK; }
static tide_status device_can_access_peer(bool *out, int device, int peer) {
  *out = device == peer;
  return TIDE_OK;
}

static tide_status host_alloc(void **out, size_t bytes) {
  void *ptr = tide__host_alloc(bytes);
  if (!ptr) return tide__fail(TIDE_MEMORY, "cpu: out of memory, got a need of %zu bytes", bytes);
  *out = ptr;
  return TIDE_OK;
}
static tide_status mem_alloc(void **out, int device, size_t bytes) { return host_alloc(out, bytes); }
static void mem_free(int device, void *ptr, size_t bytes) { tide__host_free(ptr, bytes); }

static tide_status handle_new(void **out) {
  *out = NULL;
  return TIDE_OK;
}
static tide_status stream_new(void **out, int device, int priority) { return handle_new(out); }
static void handle_free(void *handle) {}
static uint64_t handle_number(void *handle) { return 0; }
static tide_status stream_priority_range(int *least, int *greatest, int device) {
  *least = *greatest = 0;
  return TIDE_OK;
}
static tide_status is_done(bool *done, void *handle) {
  *done = true;
  return TIDE_OK;
}
static tide_status wait(void *handle) { return TIDE_OK; }
static tide_status stream_sleep(void *stream, int64_t cycles) { return TIDE_OK; }
static tide_status event_new(void **out, int device, uint32_t flags) { return handle_new(out); }
static tide_status event_order(void *a, void *b) { return TIDE_OK; }
static tide_status event_elapsed(double *ms, void *start, void *end) {
  *ms = 0;
  return TIDE_OK;
}

static tide_status copy(void *stream, void *dst, const void *src, size_t bytes, bool pinned) {
  memmove(dst, src, bytes);
  return TIDE_OK;
}
static tide_status copy_peer(void *stream, void *dst, int dst_device, const void *src, int src_device, size_t bytes) {
  return copy(stream, dst, src, bytes, false);
}
static tide_status read_small(void *stream, void *dst, const void *src, size_t bytes) {
  return copy(stream, dst, src, bytes, false);
}

/* Kernels run on the calling thread, whose host may interrupt them. */
#define WATCHED(name, args)                                                                                            \
  static tide_status watched_##name(tide_stream *stream, const args *a) {                                              \
    tide__loops_begin();                                                                                               \
    return tide__loops_end(tide__room_status(tide__cpu_##name(stream, a)));                                            \
  }
#define KERNEL(name, args, writes, cost, library) WATCHED(name, args)
#include "backend/kernel.def"
WATCHED(pack, tide_pack_args)

static const tide_backend table = {
    .version = TIDE_BACKEND_VERSION,
    .name = "cpu",
    .close = close_backend,
    .device_count = device_count,
    .device_open = device_open,
    .device_props = device_props,
    .device_mem_info = device_mem_info,
    .device_sync = device_sync,
    .device_can_access_peer = device_can_access_peer,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .host_alloc = host_alloc,
    .host_free = tide__host_free,
    .stream_new = stream_new,
    .stream_free = handle_free,
    .stream_handle = handle_number,
    .stream_priority_range = stream_priority_range,
    .stream_query = is_done,
    .stream_sync = wait,
    .stream_sleep = stream_sleep,
    .event_new = event_new,
    .event_free = handle_free,
    .event_handle = handle_number,
    .event_record = event_order,
    .event_wait = event_order,
    .event_query = is_done,
    .event_sync = wait,
    .event_elapsed = event_elapsed,
    .copy_to_device = copy,
    .copy_to_host = copy,
    .copy_peer = copy_peer,
    .read_small = read_small,
    .compiler = &tide__cpu_compiler,
    .pack = watched_pack,
#define KERNEL(name, args, writes, cost, library) .name = watched_##name,
#include "backend/kernel.def"
};

static tide_status open_table(const tide_backend **out, const tide_backend_host *host, const tide_config *config) {
  *out = &table;
  return TIDE_OK;
}

static tide_backend_kind cpu = {.name = "cpu", .host = true, .open = open_table};
TIDE_BACKEND_REGISTER(cpu)
