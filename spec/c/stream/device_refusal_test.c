/* device_refusal_test.c: what functions of streams, events, graphs, memory, communication and recordings refuse on
 * simulated devices, each with its kind and its whole text. */
#include "check.h"
#include "lists.h"
#include "tide/comm.h"
#include "tide/debug.h"
#include "tide/device.h"
#include "tide/external.h"
#include "tide/fft.h"
#include "tide/graph.h"
#include "tide/history.h"
#include "tide/host_job.h"
#include "tide/memory.h"
#include "tide/nccl.h"
#include "tide/profiler.h"
#include "tide/sanitizer.h"

static tide_tensor *o, *outs[4];

static tide_tensor *of(tide_dtype dtype, const int64_t *size, int ndim, int device) {
  tide_tensor *t = NULL;
  OK(tide_full(&t, size, ndim, tide_int(1), &(tide_options){dtype, device, false}));
  return t;
}

static void streams(void) {
  tide_stream *s = NULL, *on1 = NULL, *none = NULL;
  tide_event *timed = NULL, *plain = NULL, *never = NULL, *no = NULL, *other = NULL;
  tide_host_job *job = NULL;
  double ms;
  bool done;
  int least, greatest;
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_stream_new(&on1, 1, 0));
  OK(tide_event_new(&timed, TIDE_EVENT_TIMING));
  OK(tide_event_new(&never, TIDE_EVENT_TIMING));
  OK(tide_event_new(&other, TIDE_EVENT_TIMING));
  OK(tide_event_new(&plain, 0));
  OK(tide_event_record(timed, s));
  OK(tide_event_record(other, on1));
  OK(tide_event_record(plain, s));
  OK(tide_host_job_new(&job, 0));
  OK(tide_stream_synchronize(s));
  OK(tide_stream_synchronize(on1));
  REFUSES("DeviceError: stream_new: no such device, got cuda:2, expected a number from 0 to 1",
          tide_stream_new(&none, 2, 0));
  REFUSES("DeviceError: stream_new: no such device, got cuda:-3, expected a number from 0 to 1",
          tide_stream_new(&none, -3, 0));
  REFUSES("DeviceError: stream_default: wrong device, got cpu, expected an accelerator",
          tide_stream_default(&none, TIDE_CPU));
  REFUSES("DeviceError: current_stream: wrong device, got cpu, expected an accelerator",
          tide_current_stream(&none, TIDE_CPU));
  REFUSES(
      "ValueError: ExternalStream: not a stream of cuda:0, got handle 12345, expected 0 or the handle of a live stream",
      tide_stream_wrap(&none, 0, 12345));
  REFUSES("DeviceError: stream_priority_range: wrong device, got cpu, expected an accelerator",
          tide_stream_priority_range(&least, &greatest, TIDE_CPU));
  REFUSES("DeviceError: set_device: no such device, got cuda:2, expected a number from 0 to 1",
          tide_current_set_device(2));
  REFUSES("DeviceError: set_default_device: no such device, got cuda:7, expected a number from 0 to 1",
          tide_set_default_device(7));
  REFUSES("DeviceError: synchronize: wrong device, got cpu, expected an accelerator",
          tide_device_synchronize(TIDE_CPU));
  REFUSES("ArgumentError: event_new: unknown flags, got 0x100000, expected bits of 0x7", tide_event_new(&no, 1u << 20));
  REFUSES("ValueError: event_new: an event shared between processes has no timing, got both, expected one",
          tide_event_new(&no, TIDE_EVENT_INTERPROCESS | TIDE_EVENT_TIMING));
  REFUSES("DeviceError: event_record: the event was first recorded on another device, got a stream of cuda:1, expected "
          "cuda:0",
          tide_event_record(timed, on1));
  REFUSES("ValueError: event_elapsed: the start event keeps no time, expected one made with enable_timing",
          tide_event_elapsed(&ms, plain, timed));
  REFUSES("ValueError: event_elapsed: the end event keeps no time, expected one made with enable_timing",
          tide_event_elapsed(&ms, timed, plain));
  REFUSES("ValueError: event_elapsed: the start event was never recorded", tide_event_elapsed(&ms, never, timed));
  REFUSES("ValueError: event_elapsed: the end event was never recorded", tide_event_elapsed(&ms, timed, never));
  REFUSES("ValueError: event_elapsed: the events are of two devices, got cuda:0 and cuda:1, expected one",
          tide_event_elapsed(&ms, timed, other));
  REFUSES("ArgumentError: event_query: no event, got NULL, expected an event", tide_event_query(&done, NULL));
  REFUSES("DeviceError: host_job_begin: the stream is of another device, got cuda:1, expected cuda:0",
          tide_host_job_begin(job, on1));
  REFUSES("DeviceError: host_job_wait: the stream is of another device, got cuda:1, expected cuda:0",
          tide_host_job_wait(job, on1));
  REFUSES("DeviceError: host_job: wrong device, got cpu, expected an accelerator", tide_host_job_new(&job, TIDE_CPU));
  REFUSES("DeviceError: can_device_access_peer (peer): no such device, got cuda:5, expected a number from 0 to 1",
          tide_device_can_access_peer(&done, 0, 5));
  REFUSES("DeviceError: set_peer_access: wrong device, got cpu, expected an accelerator",
          tide_set_peer_access(0, TIDE_CPU, true));
  REFUSES("ValueError: set_sync_debug_mode: unknown mode, got 9, expected 0 to 2",
          tide_sync_debug_set((tide_sync_debug)9));
  REFUSES("ArgumentError: telemetry: unknown question, got 99, expected 0 to 5",
          tide_device_telemetry(&(int64_t){0}, 0, (tide_telemetry)99));
  static const char *const reports[] = {"utilization", "memory_usage", "temperature",
                                        "power_draw",  "clock_rate",   "device_memory_used"};
  for (int k = 0; k < 6; k++) {
    char text[128];
    snprintf(text, sizeof text, "DeviceError: %s: wrong device, got cpu, expected an accelerator", reports[k]);
    REFUSES(text, tide_device_telemetry(&(int64_t){0}, TIDE_CPU, (tide_telemetry)k));
  }
  tide_host_job_release(job);
  tide_event_release(timed), tide_event_release(never), tide_event_release(other), tide_event_release(plain);
  tide_stream_release(s), tide_stream_release(on1);
}

static void memory(void) {
  tide_mempool *pool = NULL;
  tide_memory_stats stats;
  tide_memory_snapshot *snapshot = NULL;
  void *p = NULL;
  REFUSES("DeviceError: mempool_new: wrong device, got cpu, expected an accelerator",
          tide_mempool_new(&pool, TIDE_CPU));
  REFUSES("DeviceError: mempool_new: no such device, got cuda:9, expected a number from 0 to 1",
          tide_mempool_new(&pool, 9));
  REFUSES("DeviceError: memory_stats: wrong device, got cpu, expected an accelerator",
          tide_memory_get_stats(&stats, TIDE_CPU));
  REFUSES("DeviceError: memory_stats: no such device, got cuda:9, expected a number from 0 to 1",
          tide_memory_get_stats(&stats, 9));
  REFUSES("DeviceError: reset_peak_memory_stats: wrong device, got cpu, expected an accelerator",
          tide_memory_reset_peak(TIDE_CPU));
  REFUSES("DeviceError: reset_accumulated_memory_stats: no such device, got cuda:9, expected a number from 0 to 1",
          tide_memory_reset_accumulated(9));
  REFUSES("DeviceError: empty_cache: wrong device, got cpu, expected an accelerator",
          tide_memory_empty_cache(TIDE_CPU));
  REFUSES("ValueError: set_per_process_memory_fraction: wrong fraction, got 1.5, expected 0 to 1",
          tide_memory_set_fraction(1.5, 0));
  REFUSES("ValueError: set_per_process_memory_fraction: wrong fraction, got -0.5, expected 0 to 1",
          tide_memory_set_fraction(-0.5, 0));
  REFUSES("DeviceError: set_per_process_memory_fraction: wrong device, got cpu, expected an accelerator",
          tide_memory_set_fraction(0.5, TIDE_CPU));
  REFUSES("DeviceError: caching_allocator_alloc: wrong device, got cpu, expected an accelerator",
          tide_allocator_take(&p, 64, TIDE_CPU, NULL));
  REFUSES("ValueError: set_allocator_settings: per_process_memory_fraction: wrong value, got \"1.5\", expected a "
          "number from 0 to 1",
          tide_allocator_configure("per_process_memory_fraction:1.5"));
  REFUSES("ValueError: set_allocator_settings: roundup_power2_divisions: wrong value, got \"3\", expected a power of "
          "two up to 128, or a list such as [256:1,512:2,>:8]",
          tide_allocator_configure("roundup_power2_divisions:3"));
  REFUSES("ValueError: set_allocator_settings: roundup_power2_divisions: wrong value, got \"[256:1,128:2]\", expected "
          "a power of two up to 128, or a list such as [256:1,512:2,>:8]",
          tide_allocator_configure("roundup_power2_divisions:[256:1,128:2]"));
  REFUSES("ValueError: set_allocator_settings: max_split_size_mb: wrong value, got \"20\", expected a whole number "
          "above 20, or unlimited",
          tide_allocator_configure("max_split_size_mb:20"));
  REFUSES("ValueError: set_allocator_settings: garbage_collection_threshold: wrong value, got \"1\", expected a number "
          "between 0 and 1",
          tide_allocator_configure("garbage_collection_threshold:1"));
  REFUSES("ValueError: set_allocator_settings: pinned_max_cached_size_mb: wrong value, got \"-1\", expected a whole "
          "number, 0 or more",
          tide_allocator_configure("pinned_max_cached_size_mb:-1"));
  REFUSES("ValueError: set_allocator_settings: expandable_segments: wrong value, got \"yes\", expected True or False",
          tide_allocator_configure("expandable_segments:yes"));
  REFUSES("ValueError: set_allocator_settings: backend: wrong value, got \"other\", expected native or cudaMallocAsync",
          tide_allocator_configure("backend:other"));
  REFUSES("DeviceError: set_pool: wrong device, got cpu, expected an accelerator",
          tide_current_set_pool(NULL, TIDE_CPU));
  REFUSES("ArgumentError: allocation_scope: no label, got NULL, expected a string",
          tide_allocation_scope_new(&(tide_allocation_scope *){NULL}, NULL, NULL));
  OK(tide_memory_snapshot_new(&snapshot, 0, 0));
  REFUSES("FileError: dump_snapshot: /no/such/folder/snapshot.json: No such file or directory, expected a file that "
          "can be written",
          tide_memory_snapshot_write(snapshot, "/no/such/folder/snapshot.json"));
  tide_memory_snapshot_free(snapshot);
}

static void graphs(void) {
  tide_graph *g = NULL, *second = NULL;
  tide_stream *s = NULL, *other = NULL;
  tide_event *e = NULL, *outside = NULL;
  tide_mempool *pool = NULL;
  tide_host_job *job = NULL;
  bool done;
  double ms;
  tide_tensor *x = of(TIDE_FLOAT32, SIZE(4), 1, 0), *y = of(TIDE_FLOAT32, SIZE(3), 1, 0);
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_stream_new(&other, 0, 0));
  OK(tide_event_new(&e, TIDE_EVENT_TIMING));
  OK(tide_event_new(&outside, TIDE_EVENT_TIMING));
  OK(tide_event_record(outside, other));
  OK(tide_event_synchronize(outside));
  OK(tide_graph_new(&g, false));
  OK(tide_graph_new(&second, false));
  OK(tide_host_job_new(&job, 0));
  REFUSES("StateError: graph_replay: the graph is empty, expected a capture before", tide_graph_replay(g));
  REFUSES("StateError: graph_instantiate: the graph is empty, expected a capture before", tide_graph_instantiate(g));
  REFUSES("StateError: graph_end: no capture is under way, expected one that was begun before", tide_graph_end(g));
  REFUSES("StateError: graph_record: the graph is empty, expected a capture before", tide_graph_record(g, e));
  REFUSES("StateError: graph_pool: the graph is empty, expected a capture before", tide_graph_pool(&pool, g));
  REFUSES("StateError: graph_input: the thread does not capture the graph, expected graph_begin before",
          tide_graph_input(g, "x", x));
  REFUSES("StateError: graph_bind: the graph is empty, expected a capture before",
          tide_graph_bind(g, NULL, (const tide_tensor *const[]){x}, 1));
  REFUSES("StateError: graph_dump: the graph is empty, expected a capture before", tide_graph_dump(g, "/dev/null"));
  REFUSES("ArgumentError: graph_begin: unknown mode, got 77, expected 0 to 2", tide_graph_begin(g, s, NULL, 77));
  OK(tide_graph_begin(g, s, NULL, TIDE_CAPTURE_RELAXED));
  REFUSES("StateError: graph_begin: the capture of this graph has begun already",
          tide_graph_begin(g, s, NULL, TIDE_CAPTURE_RELAXED));
  REFUSES("StateError: graph_begin: this thread captures another graph, expected one at a time",
          tide_graph_begin(second, other, NULL, TIDE_CAPTURE_RELAXED));
  REFUSES("StateError: graph_replay: the capture is under way, expected it to have ended", tide_graph_replay(g));
  REFUSES("ValueError: graph_input: bad name, got 0 bytes, expected 1 to 63", tide_graph_input(g, "", x));
  REFUSES("StateError: host_job_begin: a graph is being captured, and the host does nothing in its replays",
          tide_host_job_begin(job, s));
  REFUSES("StateError: host_job_wait: a graph is being captured, and the host does nothing in its replays",
          tide_host_job_wait(job, s));
  OK(tide_event_record(e, s));
  REFUSES("StateError: event_query: the event was recorded in a capture, where it only orders streams, expected one "
          "recorded outside",
          tide_event_query(&done, e));
  REFUSES("StateError: event_synchronize: the event was recorded in a capture, where it only orders streams, expected "
          "one recorded outside",
          tide_event_synchronize(e));
  REFUSES("StateError: event_elapsed: the event was recorded in a capture, where it only orders streams, expected one "
          "recorded outside",
          tide_event_elapsed(&ms, outside, e));
  REFUSES("StateError: event_elapsed: the event was recorded in a capture, where it only orders streams, expected one "
          "recorded outside",
          tide_event_elapsed(&ms, e, outside));
  OK(tide_graph_end(g));
  REFUSES("StateError: graph_begin: the graph holds a capture already, expected reset or a new graph",
          tide_graph_begin(g, s, NULL, TIDE_CAPTURE_RELAXED));
  REFUSES("StateError: event_query: the event was recorded in a capture, where it only orders streams, expected one "
          "recorded outside",
          tide_event_query(&done, e));
  REFUSES("StateError: event_elapsed: the event was recorded in a capture, where it only orders streams, expected one "
          "recorded outside",
          tide_event_elapsed(&ms, e, outside));
  REFUSES("StateError: graph_input: the thread does not capture the graph, expected graph_begin before",
          tide_graph_input(g, "x", x));
  REFUSES("StateError: graph_bind: the graph has no inputs, expected tide_graph_input, or the option inputs in Lua, in "
          "its capture",
          tide_graph_bind(g, (const char *const[]){"x"}, (const tide_tensor *const[]){x}, 1));
  REFUSES("StateError: graph_bind: the graph has no inputs, expected tide_graph_input, or the option inputs in Lua, in "
          "its capture",
          tide_graph_bind(g, (const char *const[]){NULL}, (const tide_tensor *const[]){x}, 1));
  tide_host_job_release(job);
  tide_graph_release(g), tide_graph_release(second);
  tide_event_release(e), tide_event_release(outside);
  tide_stream_release(s), tide_stream_release(other);
  tide_tensor_release(x), tide_tensor_release(y);
}

static void communication(void) {
  int count;
  tide_tensor *x = of(TIDE_FLOAT32, SIZE(4), 1, 0), *y = of(TIDE_FLOAT32, SIZE(4), 1, 1),
              *small = of(TIDE_FLOAT32, SIZE(3), 1, 1);
  tide_tensor *whole = of(TIDE_INT32, SIZE(4), 1, 1), *cpu = of(TIDE_FLOAT32, SIZE(4), 1, TIDE_CPU),
              *s = of(TIDE_FLOAT32, NULL, 0, 0);
  tide_tensor *here = of(TIDE_FLOAT32, SIZE(4), 1, 0), *c = of(TIDE_COMPLEX64, SIZE(4), 1, 0),
              *c1 = of(TIDE_COMPLEX64, SIZE(4), 1, 1);
  tide_tensor *wide = of(TIDE_FLOAT32, SIZE(8), 1, 0);
  REFUSES("DeviceError: comm.broadcast: entry 1 of devices is no accelerator, got cpu, expected a cuda device",
          tide_comm_broadcast(outs, x, DIMS(0, TIDE_CPU), 2));
  REFUSES("DeviceError: comm.broadcast: entry 1 of devices does not exist, got cuda:5, expected 0 to 1",
          tide_comm_broadcast(outs, x, DIMS(0, 5), 2));
  REFUSES("ArgumentError: comm.broadcast: no devices, got NULL, expected 2", tide_comm_broadcast(outs, x, NULL, 2));
  REFUSES("ShapeError: comm.broadcast: out 0 has another shape, got [3], expected [4]",
          tide_comm_broadcast_into(LIST(small), 1, x));
  REFUSES("DeviceError: comm.broadcast: out 0 is not on an accelerator, got cpu, expected a cuda device",
          tide_comm_broadcast_into(LIST(cpu), 1, x));
  REFUSES("DtypeError: comm.broadcast: out 0 has another dtype, got int32, expected float32",
          tide_comm_broadcast_into(LIST(whole), 1, x));
  REFUSES("DeviceError: comm.broadcast_coalesced: tensor 1 is not on the first device, got cuda:1, expected cuda:0",
          tide_comm_broadcast_coalesced(outs, LIST(x, y), 2, DIMS(0, 1), 2, 1 << 20));
  REFUSES("ValueError: comm.reduce_add: input 1 has another size, got [3], expected [4]",
          tide_comm_reduce_add(&o, LIST(x, small), 2, 0));
  REFUSES("DtypeError: comm.reduce_add: input 1 has another dtype, got int32, expected float32",
          tide_comm_reduce_add(&o, LIST(x, whole), 2, 0));
  REFUSES("DeviceError: comm.reduce_add: input 1 is not on an accelerator, got cpu, expected a cuda device",
          tide_comm_reduce_add(&o, LIST(x, cpu), 2, 0));
  REFUSES("DeviceError: comm.reduce_add: no input lies on the destination, got none on cuda:0, expected one",
          tide_comm_reduce_add(&o, LIST(y, y), 2, 0));
  REFUSES("ValueError: comm.reduce_add: wrong number of inputs, got 0, expected 1 to 64",
          tide_comm_reduce_add(&o, LIST(x, y), 0, 0));
  REFUSES("ValueError: comm.reduce_add_coalesced: input 1, tensor 1 has another size, got [3], expected [4]",
          tide_comm_reduce_add_coalesced(outs, LIST(x, here, y, small), 2, 2, 0, 1 << 20));
  REFUSES("DeviceError: comm.reduce_add_coalesced: input 1, tensor 1 is on another device than the first, got cuda:0, "
          "expected cuda:1",
          tide_comm_reduce_add_coalesced(outs, LIST(x, here, y, x), 2, 2, 0, 1 << 20));
  REFUSES("DtypeError: comm.reduce_add_coalesced: input 1, tensor 1 has another dtype, got int32, expected float32",
          tide_comm_reduce_add_coalesced(outs, LIST(x, here, y, whole), 2, 2, 0, 1 << 20));
  REFUSES("ShapeError: comm.scatter: a tensor without dimensions cannot be split or joined, got [], expected one",
          tide_comm_scatter(outs, &count, s, DIMS(0, 1), 2, NULL, 0, NULL));
  REFUSES("IndexError: comm.scatter: dim out of range, got 1, expected 0 to 0 or -1 to -1",
          tide_comm_scatter(outs, &count, x, DIMS(0, 1), 2, NULL, 1, NULL));
  REFUSES("ValueError: comm.scatter: the chunk sizes do not add up, got 3, expected 4, the size of the dim",
          tide_comm_scatter(outs, &count, x, DIMS(0, 1), 2, SIZE(1, 2), 0, NULL));
  REFUSES("ValueError: comm.scatter: the chunk sizes do not add up, got more than 4, the size of the dim",
          tide_comm_scatter(outs, &count, x, DIMS(0, 1), 2, SIZE(5, -1), 0, NULL));
  REFUSES("ShapeError: comm.scatter: the sizes of the destinations do not add up, got 7, expected 8",
          tide_comm_scatter_into(LIST(x, small), 2, wide, 0, NULL));
  REFUSES("DeviceError: comm.gather: tensor 1 is not on an accelerator, got cpu, expected a cuda device",
          tide_comm_gather(&o, LIST(x, cpu), 2, 0, 0, NULL));
  REFUSES("ShapeError: comm.gather: tensor 1 has another number of dimensions, got 0, expected 1",
          tide_comm_gather(&o, LIST(x, s), 2, 0, 0, NULL));
  REFUSES("ShapeError: comm.gather: a tensor without dimensions cannot be split or joined, got [], expected one",
          tide_comm_gather(&o, LIST(s, s), 2, 0, 0, NULL));
  REFUSES("IndexError: comm.gather: dim out of range, got 1, expected 0 to 0 or -1 to -1",
          tide_comm_gather(&o, LIST(x, y), 2, 1, 0, NULL));
  REFUSES("ShapeError: comm.gather: wrong shape of out, got [4], expected [8]",
          tide_comm_gather(NULL, LIST(x, y), 2, 0, 0, here));
  REFUSES("ShapeError: comm.gather: wrong shape of out, got [4], expected [8]",
          tide_comm_gather(NULL, LIST(x, y), 2, 0, 0, c));
  REFUSES("ValueError: comm.set_timeout: not a time, got -1, expected seconds, or 0 for no limit",
          tide_comm_set_timeout(-1));
  REFUSES("ShapeError: nccl.all_reduce: input 1 has another number of elements, got 3, expected 4",
          tide_nccl_all_reduce(LIST(x, small), LIST(x, small), 2, TIDE_NCCL_SUM, NULL));
  REFUSES(
      "DeviceError: nccl.all_reduce: input 1 is on a device that another one has, got cuda:0, expected one for each",
      tide_nccl_all_reduce(LIST(x, here), LIST(x, here), 2, TIDE_NCCL_SUM, NULL));
  REFUSES("DtypeError: nccl.all_reduce: input 1 has another dtype, got int32, expected float32",
          tide_nccl_all_reduce(LIST(x, whole), LIST(x, whole), 2, TIDE_NCCL_SUM, NULL));
  REFUSES("DeviceError: nccl.all_reduce: input 1 is not on an accelerator, got cpu, expected a cuda device",
          tide_nccl_all_reduce(LIST(x, cpu), LIST(x, cpu), 2, TIDE_NCCL_SUM, NULL));
  REFUSES("ShapeError: nccl.all_reduce: output 1 has another number of elements, got 3, expected 4",
          tide_nccl_all_reduce(LIST(x, y), LIST(x, small), 2, TIDE_NCCL_SUM, NULL));
  REFUSES("DtypeError: nccl.all_reduce: output 1 has another dtype, got int32, expected float32",
          tide_nccl_all_reduce(LIST(x, y), LIST(x, whole), 2, TIDE_NCCL_SUM, NULL));
  REFUSES("DeviceError: nccl.all_reduce: output 1 is on another device than its input, got cuda:0, expected cuda:1",
          tide_nccl_all_reduce(LIST(x, y), LIST(here, x), 2, TIDE_NCCL_SUM, NULL));
  REFUSES("DtypeError: nccl.all_reduce: complex numbers have no order, got complex64 for max or min",
          tide_nccl_all_reduce(LIST(c, c1), LIST(c, c1), 2, TIDE_NCCL_MAX, NULL));
  REFUSES("ArgumentError: nccl.all_reduce: unknown op, got 99, expected 0 to 4",
          tide_nccl_all_reduce(LIST(x, y), LIST(x, y), 2, (tide_nccl_op)99, NULL));
  REFUSES("ShapeError: nccl.reduce: output 1 has another number of elements, got 3, expected 4",
          tide_nccl_reduce(LIST(x, y), small, 2, 1, TIDE_NCCL_SUM, NULL));
  REFUSES("ValueError: nccl.reduce: no such root, got 2, expected 0 to 1",
          tide_nccl_reduce(LIST(x, y), x, 2, 2, TIDE_NCCL_SUM, NULL));
  REFUSES("DeviceError: nccl.reduce: output 1 is on another device than its input, got cuda:0, expected cuda:1",
          tide_nccl_reduce(LIST(x, y), x, 2, 1, TIDE_NCCL_SUM, NULL));
  REFUSES("ValueError: nccl.broadcast: no such root, got -1, expected 0 to 1",
          tide_nccl_broadcast(LIST(x, y), 2, -1, NULL));
  REFUSES("ShapeError: nccl.broadcast: input 1 has another number of elements, got 3, expected 4",
          tide_nccl_broadcast(LIST(x, small), 2, 0, NULL));
  REFUSES("ShapeError: nccl.all_gather: output 0 has another number of elements, got 4, expected 8",
          tide_nccl_all_gather(LIST(x, y), LIST(x, y), 2, NULL));
  REFUSES("ShapeError: nccl.all_gather: output 1 has another number of elements, got 4, expected 8",
          tide_nccl_all_gather(LIST(x, y), LIST(wide, y), 2, NULL));
  REFUSES("ShapeError: nccl.reduce_scatter: output 0 has another number of elements, got 4, expected 2",
          tide_nccl_reduce_scatter(LIST(x, y), LIST(x, y), 2, TIDE_NCCL_SUM, NULL));
  for (int k = 0; k < 10; k++) tide_tensor_release(LIST(x, y, small, whole, cpu, s, here, c, c1, wide)[k]);
}

/* Results of a generator and a cache of plans are of one device; a stream uses what an accelerator can reach. */
static void of_one_device(void) {
  tide_generator *g = NULL, *other = NULL, *host = NULL;
  tide_tensor *on_host = of(TIDE_FLOAT32, SIZE(2), 1, TIDE_CPU), *pinned = NULL;
  tide_stream *s = NULL;
  int64_t most = 0;
  OK(tide_generator_new(&g, 0));
  OK(tide_generator_new(&other, 1));
  OK(tide_generator_new(&host, TIDE_CPU));
  REFUSES("DeviceError: graphsafe_set_state: a generator of another device, got cuda:1, expected cuda:0",
          tide_generator_join(g, other));
  REFUSES("DeviceError: graphsafe_set_state: a generator of another device, got cuda:0, expected cpu",
          tide_generator_join(host, g));
  tide_generator_release(g), tide_generator_release(other), tide_generator_release(host);
  for (int device = 0; device < 2; device++) {
    OK(tide_fft_cache_set_max(device, 0));
    OK(tide_fft_cache_get_max(&most, device));
    CHECK(most == 0);
    OK(tide_fft_cache_set_max(device, 3 + device));
  }
  REFUSES("ValueError: cufft_plan_cache: max_size is negative, got -1, expected at least 0",
          tide_fft_cache_set_max(1, -1));
  for (int device = 0; device < 2; device++) { /* each has its own, and the refused one changed nothing */
    OK(tide_fft_cache_get_max(&most, device));
    CHECK(most == 3 + device);
  }
  OK(tide_stream_new(&s, 0, 0));
  REFUSES("DeviceError: record_stream: wrong device of x, got cpu, expected an accelerator",
          tide_tensor_record_stream(on_host, s));
  OK(tide_to(&pinned, on_host, &(tide_options){TIDE_DTYPE_NONE, TIDE_CPU, true}, false, false));
  OK(tide_tensor_record_stream(pinned, s));
  tide_tensor_release(pinned), tide_tensor_release(on_host), tide_stream_release(s);
}

static void across_devices(void) {
  tide_tensor *x = of(TIDE_FLOAT32, SIZE(2), 1, 0), *y = of(TIDE_FLOAT32, SIZE(2), 1, 1),
              *cpu = of(TIDE_FLOAT32, SIZE(2), 1, TIDE_CPU);
  tide_tensor *index = of(TIDE_INT64, SIZE(1), 1, TIDE_CPU), *mask = of(TIDE_BOOL, SIZE(2), 1, TIDE_CPU),
              *far = of(TIDE_INT64, SIZE(1), 1, 1);
  tide_generator *g = NULL;
  tide_stream *s = NULL;
  OK(tide_generator_new(&g, 1));
  OK(tide_stream_default(&s, 1));
  CHECK(tide_generator_device(g) == 1 && tide_generator_device(NULL) == TIDE_CPU);
  REFUSES("DeviceError: add: tensors on different devices, got x on cuda:0, y on cpu, expected one device",
          tide_binary(&o, TIDE_OP_add, x, cpu, NULL));
  REFUSES("DeviceError: add: tensors on different devices, got x on cuda:0, y on cuda:1, expected one device",
          tide_binary(&o, TIDE_OP_add, x, y, NULL));
  REFUSES("DeviceError: add: tensors on different devices, got x on cuda:0, y on cuda:0, the destination on cpu, "
          "expected one device",
          tide_binary(NULL, TIDE_OP_add, x, x, cpu));
  REFUSES("DeviceError: matmul: tensors on different devices, got x on cuda:0 and y on cpu, expected one device",
          tide_matmul(&o, x, cpu, NULL));
  REFUSES(
      "DeviceError: cat: tensors on different devices, got tensor 0 on cuda:0 and tensor 1 on cpu, expected one device",
      tide_cat(&o, LIST(x, cpu), 2, 0, NULL));
  REFUSES(
      "DeviceError: index: tensors on different devices, got x on cuda:0 and the index on cuda:1, expected one device",
      tide_index_get(&o, x, 0, far));
  REFUSES("DeviceError: mask: tensors on different devices, got x on cuda:1 and the mask on cpu, expected one device",
          tide_mask_get(&o, y, mask));
  REFUSES("DeviceError: uniform: wrong device of the generator, got cuda:1, expected cuda:0 like x",
          tide_random(x, TIDE_UNIFORM, 0, 1, g));
  REFUSES("DeviceError: random: wrong device of the generator, got cuda:1, expected cpu like x",
          tide_random_int(cpu, 0, 5, g));
  REFUSES("DeviceError: empty: only CPU tensors can be pinned, got pin_memory with cuda:0, expected cpu",
          tide_empty(&o, SIZE(2), 1, &(tide_options){TIDE_FLOAT32, 0, true}));
  REFUSES("DeviceError: to: only CPU tensors can be pinned, got cuda:0, expected cpu",
          tide_to(&o, cpu, &(tide_options){TIDE_DTYPE_NONE, 0, true}, false, false));
  REFUSES(
      "DeviceError: sum: tensors on different devices, got the destination on cpu and x on cuda:0, expected one device",
      tide_reduce(NULL, TIDE_SUM, x, NULL, cpu));
  REFUSES("StateError: copy: the source is missing, got none, expected a tensor", tide_copy(x, NULL, false));
  OK(tide_set_peer_access(0, 1, true)); /* cuda:0 reads cuda:1, and not the other way round */
  OK(tide_binary(&o, TIDE_OP_add, x, y, NULL));
  tide_tensor_release(o), o = NULL;
  REFUSES("DeviceError: add: tensors on different devices, got x on cuda:1, y on cuda:0, expected one device",
          tide_binary(&o, TIDE_OP_add, y, x, NULL));
  REFUSES("DeviceError: add: tensors on different devices, got x on cuda:0, y on cpu, expected one device",
          tide_binary(&o, TIDE_OP_add, x, cpu, NULL));
  OK(tide_set_peer_access(0, 1, false));
  REFUSES("DeviceError: add: tensors on different devices, got x on cuda:0, y on cuda:1, expected one device",
          tide_binary(&o, TIDE_OP_add, x, y, NULL));
  tide_generator_release(g);
  for (int k = 0; k < 6; k++) tide_tensor_release(LIST(x, y, cpu, index, mask, far)[k]);
}

static void recordings(void) {
  tide_profile *p = NULL;
  REFUSES("ValueError: test: unknown flags, got 77, expected 0 or TIDE_PROFILE_EVENTS", tide_profile_begin("test", 77));
  REFUSES("StateError: profile_end: no recording is under way, expected one that was begun", tide_profile_end(&p));
  OK(tide_profile_begin("test", 0));
  REFUSES("StateError: again: a recording is under way already, got one of test, expected its end first",
          tide_profile_begin("again", 0));
  OK(tide_profile_end(&p));
  REFUSES("FileError: profiler.trace: /no/such/folder/trace.json: No such file or directory, expected a file that can "
          "be written",
          tide_profile_write(p, "/no/such/folder/trace.json"));
  tide_profile_free(p);
  REFUSES("ValueError: range_end: no such range is open, got 12345, expected what range_start gave",
          tide_nvtx_range_end(12345));
  REFUSES("FileError: profiler.trace: /no/such/folder/trace.json: No such file or directory, expected a file that can "
          "be written",
          tide_profile_check_path("/no/such/folder/trace.json"));
}

/* What a runtime has made is of no use to the next one. */
static void another_runtime(void) {
  tide_stream *s = NULL;
  tide_event *e = NULL, *fresh = NULL;
  tide_graph *g = NULL;
  tide_host_job *job = NULL;
  tide_tensor *x = of(TIDE_FLOAT32, SIZE(4), 1, 0);
  bool done;
  double ms;
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_event_new(&e, TIDE_EVENT_TIMING));
  OK(tide_event_record(e, s));
  OK(tide_graph_new(&g, false));
  OK(tide_host_job_new(&job, 0));
  tide_shutdown();
  REFUSES("StateError: empty: the runtime is not started, got a call before tide_init or after tide_shutdown, expected "
          "one between them",
          tide_empty(&o, SIZE(2), 1, &(tide_options){TIDE_FLOAT32, TIDE_CPU, false}));
  REFUSES("StateError: event_new: tide is not started, expected tide_init first", tide_event_new(&fresh, 0));
  REFUSES("StateError: test: tide is not started, expected tide_init first", tide_profile_begin("test", 0));
  REFUSES("StateError: mempool_new: tide is not started, expected tide_init first",
          tide_mempool_new(&(tide_mempool *){NULL}, 0));
  tide_stream *now = NULL;
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = 2}));
  OK(tide_stream_new(&now, 0, 0));
  REFUSES("StateError: stream_wait_event: the event belongs to a runtime that has ended or was reset",
          tide_stream_wait_event(now, e));
  REFUSES("StateError: host_job_begin: the job belongs to a runtime that has ended or was reset",
          tide_host_job_begin(job, now));
  REFUSES("StateError: host_job_begin: the stream belongs to a runtime that has ended or was reset",
          tide_host_job_begin(job, s));
  tide_stream_release(now);
  REFUSES("StateError: stream_synchronize: the stream belongs to a runtime that has ended or was reset",
          tide_stream_synchronize(s));
  REFUSES("StateError: stream_query: the stream belongs to a runtime that has ended or was reset",
          tide_stream_query(&done, s));
  REFUSES("StateError: set_stream: the stream belongs to a runtime that has ended or was reset",
          tide_current_set_stream(s));
  REFUSES("StateError: event_record: the event belongs to a runtime that has ended or was reset",
          tide_event_record(e, NULL));
  REFUSES("StateError: event_query: the event belongs to a runtime that has ended or was reset",
          tide_event_query(&done, e));
  REFUSES("StateError: event_synchronize: the event belongs to a runtime that has ended or was reset",
          tide_event_synchronize(e));
  REFUSES("StateError: event_elapsed: the event belongs to a runtime that has ended or was reset",
          tide_event_elapsed(&ms, e, e));
  REFUSES("StateError: graph_begin: the graph belongs to a runtime that has ended or was reset",
          tide_graph_begin(g, NULL, NULL, TIDE_CAPTURE_RELAXED));
  REFUSES("StateError: graph_replay: the graph belongs to a runtime that has ended or was reset", tide_graph_replay(g));
  REFUSES("StateError: neg: x cannot be used, got a tensor of a runtime that has ended or was reset, expected one of "
          "the present",
          tide_unary(&o, TIDE_OP_neg, x, NULL));
  REFUSES("StateError: clone: x cannot be used, got a tensor of a runtime that has ended or was reset, expected one of "
          "the present",
          tide_clone(&o, x));
  CHECK(!tide_stream_is_live(s));
  tide_stream_release(s), tide_event_release(e), tide_graph_release(g), tide_host_job_release(job);
  tide_tensor_release(x);
}

/* What a host alone can do wrong: Lua gives no NULL. */
static void of_hosts(void) {
  tide_stream *s = NULL;
  tide_graph *g = NULL;
  bool done;
  OK(tide_stream_new(&s, 0, 0));
  OK(tide_graph_new(&g, false));
  REFUSES("ArgumentError: stream_synchronize: no stream, got NULL, expected a stream", tide_stream_synchronize(NULL));
  REFUSES("ArgumentError: stream_query: no stream, got NULL, expected a stream", tide_stream_query(&done, NULL));
  REFUSES("ValueError: stream_sleep: negative cycles, got -1, expected 0 or more", tide_stream_sleep(s, -1));
  REFUSES("ArgumentError: graph_begin: no graph, got NULL, expected a graph",
          tide_graph_begin(NULL, s, NULL, TIDE_CAPTURE_RELAXED));
  REFUSES("ArgumentError: graph_end: no graph, got NULL, expected a graph", tide_graph_end(NULL));
  REFUSES("ArgumentError: graph_replay: no graph, got NULL, expected a graph", tide_graph_replay(NULL));
  REFUSES("StateError: graph_dump: the graph is empty, expected a capture before", tide_graph_dump(g, "/nowhere"));
  REFUSES("ArgumentError: graph_input: got NULL, expected a graph and a name", tide_graph_input(g, NULL, NULL));
  REFUSES("ArgumentError: graph_register_generator: got NULL, expected a graph and a generator",
          tide_graph_register_generator(g, NULL));
  REFUSES("ArgumentError: host_job_begin: no job, got NULL, expected a job", tide_host_job_begin(NULL, s));
  REFUSES("ArgumentError: host_job_wait: no job, got NULL, expected a job", tide_host_job_wait(NULL, s));
  REFUSES("ArgumentError: reclaim_add: fn is missing, got NULL, expected a function", tide_reclaim_add(NULL, NULL));
  REFUSES("ArgumentError: set_allocator_settings: no text, got NULL, expected \"option:value,...\"",
          tide_allocator_configure(NULL));
  REFUSES("ValueError: sanitizer_enable: unknown action, got 2, expected 0 or 1",
          tide_sanitizer_enable((tide_sanitizer_action)2));
  tide_graph_release(g), tide_stream_release(s);
}

int main(void) {
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = 2}));
  streams();
  memory();
  graphs();
  communication();
  across_devices();
  of_one_device();
  recordings();
  of_hosts();
  another_runtime();
  CHECK(!o && !outs[0] && !outs[1]);
  tide_shutdown();
  return failures != 0;
}
