/* tide.h: the embedding API of tide, a runtime for tensors on GPUs and on the CPU. Plain C11, usable from C++.
 *
 * Conventions
 *  - A function that can fail returns a tide_status. On failure its outputs are untouched and the calling thread's
 * error (tide_error_get) says what was wrong. Nothing aborts, exits or jumps through C frames.
 *  - Results come first, then the object, then inputs. Sizes and indexes are int64_t and count from 0; a negative
 *    dimension counts from the end. Bytes are size_t. A device is an int: TIDE_CPU or 0..n-1.
 *  - A function that returns a new tensor gives the caller one reference: tide_tensor_release. `into` is an optional
 *    destination: NULL allocates; otherwise the result is written there and *out, if out is given, is `into` again
 *    without a new reference. In-place forms pass the first operand as `into`.
 *  - Work on a GPU is queued on the current stream of the tensor's device and returns at once. Only functions marked
 *    "synchronises" wait. On the CPU everything is done when the call returns.
 *  - One thread uses an object at a time; distinct objects may be used by distinct threads. Reference counts, the
 *    caching allocator and the current device and streams (kept for each thread) are safe. */
#ifndef TIDE_TIDE_H
#define TIDE_TIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Around what is C's for C++ too. */
#ifdef __cplusplus
#  define TIDE_C_BEGIN extern "C" {
#  define TIDE_C_END   }
#else
#  define TIDE_C_BEGIN
#  define TIDE_C_END
#endif
TIDE_C_BEGIN

#if defined(TIDE_STATIC)
#  define TIDE_API
#else
#  define TIDE_API __attribute__((visibility("default")))
#endif

#define TIDE_VERSION_MAJOR 0
#define TIDE_VERSION_MINOR 1
#define TIDE_VERSION_PATCH 0
#define TIDE_VERSION       "0.1.0"

#define TIDE_MAX_DIMS    12 /* the largest number of dimensions of a tensor */
#define TIDE_MAX_DEVICES 64
#define TIDE_CPU         (-1) /* the CPU, as a device */
#define TIDE_CURRENT     (-2) /* where a device is asked: the current accelerator of the calling thread */

typedef struct tide_tensor tide_tensor;
typedef struct tide_storage tide_storage;
typedef struct tide_stream tide_stream;
typedef struct tide_event tide_event;
typedef struct tide_generator tide_generator;
typedef struct tide_current tide_current;

/* ---- Status and errors ------------------------------------------------------------------------------------------ */

typedef enum tide_status {
#define STATUS(code, kind, text) TIDE_##code,
#include "tide/status.def"
#undef STATUS
} tide_status;

/* What the calling thread's last failure was. The strings are valid until its next failing call. */
typedef struct tide_error {
  tide_status status;
  const char *message; /* "what: what was wrong, got X, expected Y" */
  int device;          /* the device concerned, or TIDE_CPU */
  int code;            /* ACCELERATOR: the driver's number, else 0 */
  const char *name;    /* ACCELERATOR: the driver's name of that number, else "" */
  bool sticky;         /* ACCELERATOR: every later call on the device fails with this cause */
  /* MEMORY: bytes asked for, free and total on the device, held by tensors, held by the cache. */
  size_t requested, free, total, allocated, reserved;
} tide_error;

TIDE_API const tide_error *tide_error_get(void);
TIDE_API const char *tide_status_kind(tide_status status); /* "ShapeError", ... */

/* ---- Starting, hooks -------------------------------------------------------------------------------------------- */

typedef void (*tide_task_fn)(void *arg, int64_t begin, int64_t end);

/* What a host may bring. Zero means the default. */
typedef struct tide_config {
  size_t struct_size;                                     /* sizeof(tide_config) */
  void *user;                                             /* passed to the hooks */
  void *(*alloc)(void *user, size_t bytes, size_t align); /* CPU tensors' memory; default aligned_alloc */
  void (*free)(void *user, void *ptr, size_t bytes);      /* by any thread, after a time of idleness too */
  /* Warnings, on whichever thread warns: tide's own, and those of scripts (Lua's warn, errors in finalisers) in every
   * state that requires tide. It must return. Default: dropped, and Lua's stay with the state's own warn function. */
  void (*log)(void *user, const char *message);
  /* Runs fn over [0, n) in pieces of at least `grain`, each once, on any threads, and returns when all is done.
   * Default: a pool of our own, whose threads start with the first large loop. Threads: it is called by every thread
   * that computes, by several at once, and by a thread that runs fn (a loop inside a loop): then it must not wait for
   * threads that may all be busy, and may run fn itself. fn takes no lock that the caller holds, and does not throw. */
  void (*parallel_for)(void *user, int64_t n, int64_t grain, tide_task_fn fn, void *arg);
  int num_threads;       /* of our own pool; default: the cores that this process may use, at most 16 */
  int sim_devices;       /* > 0: this many simulated GPUs stand in for real ones; default: TIDE_SIM_DEVICES */
  size_t sim_memory;     /* bytes a simulated device; default: TIDE_SIM_MEMORY, else 1 GiB */
  uint64_t sim_seed;     /* of the simulated schedule; default: TIDE_SIM_SEED, else 0 */
  const char *cuda_path; /* path of libtide_cuda.so; default: beside this library, else the loader's search */
} tide_config;

/* Starts tide; config may be NULL. Calls nest: each needs its tide_shutdown, the first one's config holds. Touches no
 * driver. Start again after the last shutdown works. */
TIDE_API tide_status tide_init(const tide_config *config);
/* The last one waits for all work, frees every cache. Tensors still held stay readable handles whose use fails with
 * STATE. No other thread may use or release an object of tide's while the last one runs, only before it is called and
 * after it has returned; a tide_init on another thread waits for its end. */
TIDE_API void tide_shutdown(void);
TIDE_API const char *tide_version(void);

/* Hands a message to the log of the config in force. False where that has none, and when tide does not run; NULL only
 * asks. */
TIDE_API bool tide_log(const char *message);

/* Called when an allocation does not fit, so that the host may drop garbage: returns 1 if something may have been
 * dropped, 0 if not, and -1 if another thread was asked to do so, which then calls tide_reclaim_answer: before the
 * allocation fails that is waited for, at most 0.2 s. Runs on the allocating thread, which holds no lock. */
typedef int (*tide_reclaim_fn)(void *user, int device, size_t bytes);
TIDE_API void tide_reclaim_answer(void);
TIDE_API tide_status tide_reclaim_add(tide_reclaim_fn fn, void *user);
TIDE_API void tide_reclaim_remove(tide_reclaim_fn fn, void *user);
/* Asked now and then by every wait: nonzero ends the wait with TIDE_INTERRUPTED. One for each thread. */
typedef int (*tide_interrupt_fn)(void *user);
TIDE_API void tide_interrupt_set(tide_interrupt_fn fn, void *user);
/* From a signal's handler, too: kernels written in Lua that run without a quota end soon, even while the driver waits
 * for one and no wait of ours asks. */
TIDE_API void tide_interrupt_kernels(void);
/* Names the script line that is running, for messages of errors that surface later; one for each thread. Returns the
 * line, 0 if there is none, -1 if it is what the hook named last, and sets *source to the script's name ("@game.lua" as
 * Lua gives it, or plain), valid until the next call. Asked at every allocation and launch: make it cheap. */
typedef int (*tide_site_fn)(void *user, const char **source);
TIDE_API void tide_site_set(tide_site_fn fn, void *user);
/* Bytes allocated by the calling thread since the last call of this function, on every device: paces a collector. */
TIDE_API size_t tide_pace_take(void);

TIDE_API void tide_set_num_threads(int n); /* of the pool for CPU loops; n < 1 means 1 */
/* Denormal floats count as zero on the CPU, in this thread and in loops that it starts; false if it cannot be had. */
TIDE_API bool tide_set_flush_denormal(bool on);
TIDE_API int tide_get_num_threads(void);
/* Loops that the calling thread starts use at most `most` threads of the pool, itself included: a thread that works
 * beside another one leaves it a core. 0: all there are, the default. */
TIDE_API void tide_set_thread_limit(int most);

/* ---- Dtypes and scalars ------------------------------------------------------------------------------------------ */

typedef enum tide_dtype {
#define DTYPE(name, NAME, type, bytes, kind, alias) TIDE_##NAME,
#include "tide/dtype.def"
#undef DTYPE
  TIDE_DTYPE_COUNT,
  TIDE_DTYPE_NONE = -1 /* where a dtype is optional: the default */
} tide_dtype;

TIDE_API const char *tide_dtype_name(tide_dtype dtype);
TIDE_API size_t tide_dtype_size(tide_dtype dtype);
TIDE_API char tide_dtype_kind(tide_dtype dtype);                    /* 'B', 'U', 'I', 'F' or 'C' */
TIDE_API bool tide_dtype_parse(tide_dtype *out, const char *name);  /* names and aliases */
TIDE_API tide_dtype tide_dtype_promote(tide_dtype a, tide_dtype b); /* of two tensors with dimensions */
TIDE_API bool tide_dtype_can_cast(tide_dtype from, tide_dtype to);  /* may a result of `from` be written to `to`? */
TIDE_API tide_status tide_set_default_dtype(tide_dtype dtype);      /* a floating dtype; float32 at the start */
TIDE_API tide_dtype tide_get_default_dtype(void);

/* A number without a dtype of its own: a weak operand. kind is 'B', 'I', 'F' or 'C' as in tide_dtype_kind. */
typedef struct tide_scalar {
  char kind;
  int64_t i;     /* kinds B and I */
  double re, im; /* kinds F and C; where an I is 0 its sign as a float is re's */
} tide_scalar;
static inline tide_scalar tide_int(int64_t i) {
  tide_scalar s = {'I', i, (double)i, 0};
  return s;
}
static inline tide_scalar tide_float(double f) {
  tide_scalar s = {'F', 0, f, 0};
  return s;
}
static inline tide_scalar tide_bool(bool b) {
  tide_scalar s = {'B', b, (double)b, 0};
  return s;
}

/* ---- Devices ----------------------------------------------------------------------------------------------------- */

typedef struct tide_device_props {
  char name[256];
  int major, minor;
  bool simulated, is_integrated, is_multi_gpu_board;
  int multi_processor_count, max_threads_per_multi_processor, max_threads_per_block, warp_size, regs_per_multiprocessor;
  size_t total_memory, shared_memory_per_block, shared_memory_per_block_optin, shared_memory_per_multiprocessor,
      L2_cache_size;
  unsigned char uuid[16];
  int pci_bus_id, pci_device_id, pci_domain_id;
  int clock_rate, memory_clock_rate, memory_bus_width; /* kHz, kHz, bits */
} tide_device_props;

TIDE_API bool tide_is_available(void);       /* is there an accelerator? Never fails. */
TIDE_API bool tide_is_initialized(void);     /* has one been used? Touches no driver. */
TIDE_API tide_status tide_device_init(void); /* opens the accelerators' library; else it happens at first use */
TIDE_API int tide_device_count(void);        /* accelerators; 0 without any */
/* A pointer that lives as long as tide; synchronises nothing. */
TIDE_API tide_status tide_device_get_props(const tide_device_props **out, int device);
TIDE_API tide_status tide_device_mem_info(size_t *free, size_t *total, int device); /* of all processes */
/* Waits for every stream of the device; with TIDE_ALL_DEVICES, for every device in use. Dropped memory that only these
 * devices used is free afterwards and no longer counted. Synchronises. */
TIDE_API tide_status tide_device_synchronize(int device);
TIDE_API tide_status tide_device_can_access_peer(bool *out, int device, int peer);
TIDE_API tide_status tide_driver_version(int *driver, int *runtime); /* as 1000 * major + 10 * minor */
TIDE_API int tide_default_device(void);                              /* of factories: TIDE_CPU at the start */
TIDE_API tide_status tide_set_default_device(int device);

/* The current device and the current stream of each device. Every thread has one of its own; a host with coroutines
 * makes one for each and binds the running one's. */
TIDE_API tide_current *tide_current_new(const tide_current *inherit); /* NULL: device 0 and default streams */
TIDE_API void tide_current_free(tide_current *current);
/* Selects what `from` has selected, its quota apart. */
TIDE_API void tide_current_copy(tide_current *current, const tide_current *from);
/* Makes `current` the calling thread's, until the next bind; NULL: the thread's own. Returns the one before. A script
 * binds its coroutine's at its next call, and that stays bound when the script returns. One that is freed is bound no
 * more: on the threads where it was, their own is. */
TIDE_API tide_current *tide_current_bind(tide_current *current);
/* Called on this thread whenever a bind or a free has changed what is bound there; NULL: nothing. */
TIDE_API void tide_current_on_bind(void (*fn)(void));
TIDE_API int tide_current_device(void);
TIDE_API tide_status tide_current_set_device(int device);
TIDE_API tide_status tide_current_stream(tide_stream **out, int device); /* borrowed until the next change */
TIDE_API tide_status tide_current_set_stream(tide_stream *stream);       /* of the stream's device; device unchanged */

/* ---- Streams and events
 * ------------------------------------------------------------------------------------------- */

TIDE_API tide_status tide_stream_new(tide_stream **out, int device, int priority); /* lower is more urgent; clamped */
/* A foreign cudaStream_t, which its owner keeps alive while tensors of other streams are that were used on it: when
 * they end it is asked once more how far it is. Wrapped again soon, it is the same stream with the same memory; of one
 * of ours it is that stream. VALUE if it is no stream of the device, as far as the driver says. */
TIDE_API tide_status tide_stream_wrap(tide_stream **out, int device, uint64_t handle);
TIDE_API tide_status tide_stream_default(tide_stream **out, int device); /* borrowed, lives as long as tide */
TIDE_API void tide_stream_retain(tide_stream *stream);
TIDE_API void tide_stream_release(tide_stream *stream); /* work in it still completes */
TIDE_API int tide_stream_device(const tide_stream *stream);
TIDE_API int tide_stream_priority(const tide_stream *stream);
TIDE_API uint64_t tide_stream_handle(const tide_stream *stream); /* the driver's handle; distinct for live streams */
/* Is it of the present runtime, and not of one that has ended or was reset? */
TIDE_API bool tide_stream_is_live(const tide_stream *stream);
/* Do both stand for one stream of the device? One that is not live is like no other. */
TIDE_API bool tide_stream_same(const tide_stream *a, const tide_stream *b);
TIDE_API tide_status tide_stream_priority_range(int *least, int *greatest, int device);
TIDE_API tide_status tide_stream_query(bool *done, tide_stream *stream);
TIDE_API tide_status tide_stream_synchronize(tide_stream *stream); /* synchronises */
TIDE_API tide_status tide_stream_wait_event(tide_stream *stream, tide_event *event);
TIDE_API tide_status tide_stream_wait_stream(tide_stream *stream, tide_stream *other);
TIDE_API tide_status tide_stream_sleep(tide_stream *stream, int64_t cycles); /* busy work, for tests */

enum { TIDE_EVENT_TIMING = 1, TIDE_EVENT_BLOCKING = 2, TIDE_EVENT_INTERPROCESS = 4 };
TIDE_API tide_status tide_event_new(tide_event **out, uint32_t flags); /* bound to a device by its first record */
TIDE_API void tide_event_retain(tide_event *event);
TIDE_API void tide_event_release(tide_event *event);
TIDE_API tide_status tide_event_record(tide_event *event, tide_stream *stream);
TIDE_API tide_status tide_event_query(bool *done, tide_event *event); /* true if never recorded */
/* The same for a thread that only watches: the sanitizer orders nothing by it, and it hears of no overdue operation. */
TIDE_API tide_status tide_event_peek(bool *done, const tide_event *event);
TIDE_API tide_status tide_event_synchronize(tide_event *event); /* synchronises; nothing if never recorded */
TIDE_API tide_status tide_event_elapsed(double *ms, tide_event *start, tide_event *end);
TIDE_API int tide_event_device(const tide_event *event); /* TIDE_CPU before the first record */
TIDE_API uint64_t tide_event_handle(const tide_event *event);

/* ---- Memory
 * -------------------------------------------------------------------------------------------------------- */

typedef struct tide_stat {
  int64_t current, peak, allocated, freed;
} tide_stat;
enum { TIDE_POOL_ALL, TIDE_POOL_LARGE, TIDE_POOL_SMALL, TIDE_POOL_COUNT };
/* torch's memory_stats: each row for all, large and small pools. Counters are exact. */
typedef struct tide_memory_stats {
  tide_stat allocation[TIDE_POOL_COUNT], segment[TIDE_POOL_COUNT], active[TIDE_POOL_COUNT],
      inactive_split[TIDE_POOL_COUNT];
  tide_stat allocated_bytes[TIDE_POOL_COUNT], reserved_bytes[TIDE_POOL_COUNT], active_bytes[TIDE_POOL_COUNT],
      inactive_split_bytes[TIDE_POOL_COUNT], requested_bytes[TIDE_POOL_COUNT];
  tide_stat oversize_allocations, oversize_segments; /* of at least max_split_size */
  int64_t max_split_size;                            /* in bytes; -1: no limit is set */
  int64_t num_alloc_retries, num_ooms, num_sync_all_streams, num_device_alloc, num_device_free;
} tide_memory_stats;
TIDE_API tide_status tide_memory_get_stats(tide_memory_stats *out, int device); /* zeros before first use */
TIDE_API size_t tide_memory_allocated(int device);
TIDE_API size_t tide_memory_reserved(int device);
TIDE_API tide_status tide_memory_reset_peak(int device);
TIDE_API tide_status tide_memory_reset_accumulated(int device);
TIDE_API tide_status tide_memory_empty_cache(int device); /* TIDE_CURRENT: every device in use */
TIDE_API tide_status tide_memory_set_fraction(double fraction, int device);
TIDE_API double tide_memory_get_fraction(int device);
TIDE_API void tide_memory_pump(void); /* drains deferred releases; also done by allocations and synchronisation */
TIDE_API size_t tide_memory_cpu_allocated(void); /* bytes of CPU storages now alive */

/* Storages: reference-counted bytes. */
TIDE_API void tide_storage_retain(tide_storage *storage);
TIDE_API void tide_storage_release(tide_storage *storage);
TIDE_API size_t tide_storage_nbytes(const tide_storage *storage);
TIDE_API void *tide_storage_data(const tide_storage *storage);
TIDE_API int tide_storage_device(const tide_storage *storage);
TIDE_API bool tide_storage_is_pinned(const tide_storage *storage);
TIDE_API int64_t tide_storage_refs(const tide_storage *storage);

/* ---- Tensors
 * -------------------------------------------------------------------------------------------------------- */

/* How a factory makes its tensor: TIDE_OPTIONS, or tide_options_defaults(), for the host to change. As every struct
 * with a struct_size behind other fields, it may grow at its end: what is built with another version of tide sets it to
 * the struct's sizeof, as these do. 0: the fields that stand before it. */
typedef struct tide_options {
  tide_dtype dtype; /* TIDE_DTYPE_NONE: the default of the factory */
  int device;       /* TIDE_CPU, an accelerator, TIDE_CURRENT */
  bool pin_memory;  /* page-locked host memory; CPU only */
  size_t struct_size;
} tide_options;
#define TIDE_OPTIONS                                                                                                   \
  { TIDE_DTYPE_NONE, tide_default_device(), false, sizeof(tide_options) }
static inline tide_options tide_options_defaults(void) {
  tide_options o = TIDE_OPTIONS;
  return o;
}

TIDE_API tide_status tide_empty(tide_tensor **out, const int64_t *size, int ndim, const tide_options *options);
TIDE_API tide_status tide_empty_strided(tide_tensor **out, const int64_t *size, const int64_t *stride, int ndim,
                                        const tide_options *options);
/* The layout of x: its strides if it is dense and does not overlap, else contiguous. dtype NONE: x's; device of
 * options. */
TIDE_API tide_status tide_empty_like(tide_tensor **out, const tide_tensor *x, const tide_options *options);
TIDE_API tide_status tide_full(tide_tensor **out, const int64_t *size, int ndim, tide_scalar value,
                               const tide_options *options);
/* start, start + step, ... `count` of them; dtype default int64 if both are integers, else the default float. */
TIDE_API tide_status tide_arange(tide_tensor **out, tide_scalar start, tide_scalar step, int64_t count,
                                 const tide_options *options);
/* n values from a to b, both included; accurate at both ends. */
TIDE_API tide_status tide_linspace(tide_tensor **out, double a, double b, int64_t n, const tide_options *options);
/* Copies contiguous host values of options->dtype (required) to a new tensor. Synchronises with pageable memory. */
TIDE_API tide_status tide_from_data(tide_tensor **out, const void *data, const int64_t *size, int ndim,
                                    const tide_options *options);
/* Borrows foreign memory; `release(user)` runs once, from any thread, when the last view has gone and the work queued
 * on it is done. stride may be NULL (contiguous). Strides count elements; there are none in bytes. Attributes that are
 * interleaved at a stride that is a multiple of their size are a tensor each; of a 30-byte vertex take the bytes, uint8
 * [n, 30], narrow a column's and copy it with tide_contiguous, then tide_view_dtype. */
TIDE_API tide_status tide_from_ptr(tide_tensor **out, void *ptr, const int64_t *size, const int64_t *stride, int ndim,
                                   const tide_options *options, void (*release)(void *user), void *user);
TIDE_API void tide_tensor_retain(tide_tensor *x);
TIDE_API void tide_tensor_release(tide_tensor *x); /* NULL is allowed */
/* For finalisers: only hands x to a list that the next allocation, synchronisation or pump drains; calls no driver. */
TIDE_API void tide_tensor_release_deferred(tide_tensor *x);

TIDE_API int tide_tensor_ndim(const tide_tensor *x);
TIDE_API const int64_t *tide_tensor_size(const tide_tensor *x);   /* ndim of them; valid while x lives */
TIDE_API const int64_t *tide_tensor_stride(const tide_tensor *x); /* in elements */
TIDE_API int64_t tide_tensor_numel(const tide_tensor *x);
TIDE_API int64_t tide_tensor_offset(const tide_tensor *x); /* in elements from the start of the storage */
TIDE_API tide_dtype tide_tensor_dtype(const tide_tensor *x);
TIDE_API int tide_tensor_device(const tide_tensor *x);
TIDE_API bool tide_tensor_is_contiguous(const tide_tensor *x);
TIDE_API tide_storage *tide_tensor_storage(const tide_tensor *x); /* borrowed */
TIDE_API void *tide_tensor_data(const tide_tensor *x);            /* device pointer of the first element */
TIDE_API bool tide_tensor_same_view(const tide_tensor *x, const tide_tensor *y);
TIDE_API tide_status tide_tensor_record_stream(tide_tensor *x, tide_stream *stream);

/* Reading. Both synchronise. */
TIDE_API tide_status tide_item(tide_scalar *out, const tide_tensor *x); /* x has one element */
/* Copies the values, in row-major order, to numel * element size bytes of host memory. */
TIDE_API tide_status tide_read(void *host, const tide_tensor *x);
/* Copies from contiguous host values of x's dtype. Synchronises with pageable memory. */
TIDE_API tide_status tide_write(tide_tensor *x, const void *host);

/* ---- Moving and copying
 * ---------------------------------------------------------------------------------------------- */

TIDE_API tide_status tide_copy(tide_tensor *dst, const tide_tensor *src, bool non_blocking); /* broadcasts, casts */
/* A new reference to x itself if nothing changes and `copy` is false. dtype NONE keeps it. pin_memory of options is
 * used. */
TIDE_API tide_status tide_to(tide_tensor **out, const tide_tensor *x, const tide_options *options, bool non_blocking,
                             bool copy);
TIDE_API tide_status tide_clone(tide_tensor **out, const tide_tensor *x);
TIDE_API tide_status tide_contiguous(tide_tensor **out, const tide_tensor *x); /* x itself if it is */
TIDE_API tide_status tide_fill(tide_tensor *x, tide_scalar value);

/* ---- Views: they share x's storage and copy nothing, unless said otherwise
 * --------------------------------------------- */

TIDE_API tide_status tide_view(tide_tensor **out, const tide_tensor *x, const int64_t *size,
                               int ndim); /* one size may be -1 */
TIDE_API tide_status tide_reshape(tide_tensor **out, const tide_tensor *x, const int64_t *size,
                                  int ndim);                                                     /* may copy */
TIDE_API tide_status tide_flatten(tide_tensor **out, const tide_tensor *x, int start, int stop); /* may copy */
TIDE_API tide_status tide_unflatten(tide_tensor **out, const tide_tensor *x, int dim, const int64_t *size, int n);
TIDE_API tide_status tide_squeeze(tide_tensor **out, const tide_tensor *x); /* every dim of size 1 */
TIDE_API tide_status tide_squeeze_dim(tide_tensor **out, const tide_tensor *x, int dim);
TIDE_API tide_status tide_unsqueeze(tide_tensor **out, const tide_tensor *x, int dim);
TIDE_API tide_status tide_transpose(tide_tensor **out, const tide_tensor *x, int d1, int d2);
TIDE_API tide_status tide_permute(tide_tensor **out, const tide_tensor *x, const int *dims, int n);
TIDE_API tide_status tide_movedim(tide_tensor **out, const tide_tensor *x, const int *src, const int *dst, int n);
TIDE_API tide_status tide_expand(tide_tensor **out, const tide_tensor *x, const int64_t *size,
                                 int ndim); /* -1 keeps a size */
TIDE_API tide_status tide_select(tide_tensor **out, const tide_tensor *x, int dim, int64_t index);
TIDE_API tide_status tide_narrow(tide_tensor **out, const tide_tensor *x, int dim, int64_t start, int64_t length);
/* Elements first, first + step, ... up to last, included; both in range or counted from the end; step > 0. An empty
 * range (last = first - 1) is allowed. */
TIDE_API tide_status tide_slice(tide_tensor **out, const tide_tensor *x, int dim, int64_t first, int64_t last,
                                int64_t step);
TIDE_API tide_status tide_diagonal(tide_tensor **out, const tide_tensor *x, int64_t offset, int d1, int d2);
TIDE_API tide_status tide_unfold(tide_tensor **out, const tide_tensor *x, int dim, int64_t size, int64_t step);
TIDE_API tide_status tide_as_strided(tide_tensor **out, const tide_tensor *x, const int64_t *size,
                                     const int64_t *stride, int ndim, int64_t offset);
TIDE_API tide_status tide_view_dtype(tide_tensor **out, const tide_tensor *x, tide_dtype dtype);
TIDE_API tide_status tide_view_as_real(tide_tensor **out, const tide_tensor *x);
TIDE_API tide_status tide_view_as_complex(tide_tensor **out, const tide_tensor *x);
TIDE_API tide_status tide_real(tide_tensor **out, const tide_tensor *x);
TIDE_API tide_status tide_imag(tide_tensor **out, const tide_tensor *x);
/* These copy. */
TIDE_API tide_status tide_cat(tide_tensor **out, tide_tensor *const *list, int n, int dim, tide_tensor *into);
TIDE_API tide_status tide_stack(tide_tensor **out, tide_tensor *const *list, int n, int dim, tide_tensor *into);
TIDE_API tide_status tide_tile(tide_tensor **out, const tide_tensor *x, const int64_t *repeats, int n);
TIDE_API tide_status tide_repeat_interleave(tide_tensor **out, const tide_tensor *x, int64_t repeats, int dim);
/* The same with a number of times for each index of dim: an integer tensor of that length, or of one element.
 * Synchronises, since the counts give the size of the result. */
TIDE_API tide_status tide_repeat_interleave_each(tide_tensor **out, const tide_tensor *x, const tide_tensor *counts,
                                                 int dim);
TIDE_API tide_status tide_flip(tide_tensor **out, const tide_tensor *x, const int *dims, int n);
TIDE_API tide_status tide_roll(tide_tensor **out, const tide_tensor *x, const int64_t *shifts, const int *dims, int n);
TIDE_API tide_status tide_rot90(tide_tensor **out, const tide_tensor *x, int64_t k, int d1, int d2);
/* These change the tensor itself. */
TIDE_API tide_status tide_resize(tide_tensor *x, const int64_t *size, int ndim);
TIDE_API tide_status tide_set(tide_tensor *x, const tide_tensor *src);
/* For a destination: nothing where it has that size; an empty one gets it, with new memory; else TIDE_SHAPE. One that
 * cannot be written, since several elements share an address, is TIDE_VALUE. */
TIDE_API tide_status tide_fit(tide_tensor *out, const int64_t *size, int ndim);
/* The common broadcast size of n tensors. */
TIDE_API tide_status tide_broadcast_size(int64_t *size, int *ndim, tide_tensor *const *list, int n);

/* ---- Elementwise operations
 * --------------------------------------------------------------------------------------------- */

typedef enum tide_op {
#define TIDE_EACH_OP(name, rule, loop, expr, doc) TIDE_OP_##name,
#include "tide/op.def"
  TIDE_OP_COUNT
} tide_op;

typedef struct tide_op_info {
  const char *name, *rule, *expr, *doc;
  int operands; /* 1, 2 or 3 */
} tide_op_info;
TIDE_API const tide_op_info *tide_op_get(tide_op op);
/* What messages and help call operand k of the op, from 0: "x", "condition". */
TIDE_API const char *tide_op_operand(tide_op op, int k);

/* An operand: a tensor, or, where tensor is NULL, a weak number. At least one operand of a call is a tensor. */
typedef struct tide_operand {
  const tide_tensor *tensor;
  tide_scalar number;
} tide_operand;

/* out = op(in[0], ...) with broadcasting and type promotion. params are p0, p1, p2 of op.def; NULL where the op has
 * none. */
TIDE_API tide_status tide_elementwise(tide_tensor **out, tide_op op, const tide_operand *in, const tide_scalar *params,
                                      tide_tensor *into);
TIDE_API tide_status tide_unary(tide_tensor **out, tide_op op, const tide_tensor *x, tide_tensor *into);
TIDE_API tide_status tide_binary(tide_tensor **out, tide_op op, const tide_tensor *a, const tide_tensor *b,
                                 tide_tensor *into);
/* The dtype that the elementwise op would return for these operands. */
TIDE_API tide_status tide_result_dtype(tide_dtype *out, tide_op op, const tide_operand *in);

/* ---- Reductions
 * ----------------------------------------------------------------------------------------------------------- */

typedef enum tide_reduction {
#define REDUCTION(NAME, name, rule, empty, fold, kernels, form, doc) TIDE_##NAME,
#include "tide/reduction.def"
  TIDE_REDUCTION_COUNT
} tide_reduction;

typedef struct tide_reduction_info {
  const char *name, *doc;
} tide_reduction_info;
TIDE_API const tide_reduction_info *tide_reduction_get(tide_reduction op);

typedef struct tide_reduce_options {
  const int *dims; /* NULL or ndims 0: all */
  int ndims;
  bool keepdim;
  tide_dtype dtype; /* of the result of sum, nansum, prod, mean, norm; NONE: the rule's */
  double param;
  size_t struct_size;
} tide_reduce_options;
#define TIDE_REDUCE_OPTIONS                                                                                            \
  { NULL, 0, false, TIDE_DTYPE_NONE, 0, sizeof(tide_reduce_options) }
static inline tide_reduce_options tide_reduce_options_defaults(void) {
  tide_reduce_options o = TIDE_REDUCE_OPTIONS;
  return o;
}

TIDE_API tide_status tide_reduce(tide_tensor **out, tide_reduction op, const tide_tensor *x,
                                 const tide_reduce_options *options, tide_tensor *into);
/* MAX or MIN over one dim: values and the index (from tide_get_index_base) of the first. */
TIDE_API tide_status tide_reduce_index(tide_tensor **values, tide_tensor **indices, tide_reduction op,
                                       const tide_tensor *x, int dim, bool keepdim);
TIDE_API tide_status tide_var_mean(tide_tensor **var, tide_tensor **mean, const tide_tensor *x,
                                   const tide_reduce_options *options);
TIDE_API tide_status tide_equal(bool *out, const tide_tensor *x,
                                const tide_tensor *y); /* same shape and values; synchronises */

/* Index values inside tensors (index tensors, argmax, randperm) and in error messages count from this base: 0, or what
 * the thread's hook answers. A language that counts from 1 sets one that answers 1 while a script of its calls us, so
 * that the host's own calls on that thread still count from 0. */
typedef int (*tide_index_base_fn)(void);
TIDE_API void tide_index_base_set(tide_index_base_fn fn); /* for the calling thread; NULL: none */
TIDE_API int tide_get_index_base(void);

/* ---- Indexing
 * ---------------------------------------------------------------------------------------------------------------- */

/* x with dim `dim` replaced by index's shape: out[.., k.., ..] = x[.., index[k..], ..]. A bad value in the index is an
 * error at the next synchronising call on a GPU, at once on the CPU. */
TIDE_API tide_status tide_index_get(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index);
TIDE_API tide_status tide_index_set(tide_tensor *x, int dim, const tide_tensor *index, const tide_operand *value);
/* The elements of x where the bool tensor mask (broadcast to x) holds, in row-major order. Synchronises. */
/* Several at once: entry i is for the next dim of x, and NULL keeps it whole. Integer tensors broadcast together and
 * name elements one by one; a bool tensor replaces all dims that it has, and for the positions where it holds.
 * Their dims take the place of the indexed ones where these are neighbours, else they come first. With accumulate every
 * value is added, as often as its place is named. */
TIDE_API tide_status tide_index_get_many(tide_tensor **out, const tide_tensor *x, tide_tensor *const *index, int n);
TIDE_API tide_status tide_index_put(tide_tensor *x, tide_tensor *const *index, int n, const tide_operand *value,
                                    bool accumulate);
TIDE_API tide_status tide_mask_get(tide_tensor **out, const tide_tensor *x, const tide_tensor *mask);
/* Writes a number, or a tensor that broadcasts to x, or a 1-d tensor with one element for each true one of the mask. */
TIDE_API tide_status tide_mask_set(tide_tensor *x, const tide_tensor *mask, const tide_operand *value);
TIDE_API tide_status tide_nonzero(tide_tensor **out, const tide_tensor *x); /* int64 [n, ndim]; synchronises */
TIDE_API tide_status tide_tril(tide_tensor **out, const tide_tensor *x, int64_t k, bool upper);
/* int64 [2, k], counted from the index base: the rows, and below them the columns, of what tide_tril keeps of an n by m
 * tensor. */
TIDE_API tide_status tide_tril_indices(tide_tensor **out, int64_t n, int64_t m, int64_t k, bool upper,
                                       const tide_options *options);
TIDE_API tide_status tide_eye(tide_tensor **out, int64_t n, int64_t m, const tide_options *options);

/* ---- Matrix products
 * ----------------------------------------------------------------------------------------------------------- */

/* torch's matmul: vectors, matrices, batches with broadcasting. */
TIDE_API tide_status tide_matmul(tide_tensor **out, const tide_tensor *a, const tide_tensor *b, tide_tensor *into);
TIDE_API tide_status tide_mm(tide_tensor **out, const tide_tensor *a, const tide_tensor *b,
                             tide_tensor *into); /* 2-d only */
TIDE_API tide_status tide_bmm(tide_tensor **out, const tide_tensor *a, const tide_tensor *b,
                              tide_tensor *into); /* 3-d only */
TIDE_API tide_status tide_mv(tide_tensor **out, const tide_tensor *a, const tide_tensor *v, tide_tensor *into);
TIDE_API tide_status tide_dot(tide_tensor **out, const tide_tensor *a, const tide_tensor *b,
                              tide_tensor *into); /* 1-d only */
/* beta * c + alpha * (a @ b); c broadcasts to the result; a and b 2-d (addmm), 3-d (baddbmm) or 2-d and 1-d (addmv). */
TIDE_API tide_status tide_addmm(tide_tensor **out, const tide_tensor *c, const tide_tensor *a, const tide_tensor *b,
                                double beta, double alpha, tide_tensor *into);
/* The cross product of each two vectors: x and y are [..., 3], of one size, both float32 or both float64. */
TIDE_API tide_status tide_cross(tide_tensor **out, const tide_tensor *x, const tide_tensor *y);
/* torch's cdist: [..., n, m], the distances of the points of x, [..., n, k], and of y, [..., m, k], whose batches are
 * of one size, both float32 or both float64. */
typedef enum tide_distance {
  TIDE_DISTANCE_SUM,       /* of the absolute differences */
  TIDE_DISTANCE_EUCLIDEAN, /* of the differences */
  TIDE_DISTANCE_BY_PRODUCT /* Euclidean, by a matrix product: not exact where points are nearly the same */
} tide_distance;
TIDE_API tide_status tide_cdist(tide_tensor **out, const tide_tensor *x, const tide_tensor *y, tide_distance kind);
TIDE_API void tide_set_tf32(bool allowed); /* float32 products may use tf32; off at the start */
TIDE_API bool tide_get_tf32(void);

/* ---- equal results of equal programs ---- */

typedef enum tide_determinism {
  TIDE_DETERMINISM_OFF,
  TIDE_DETERMINISM_WARN, /* as ON, but what has no deterministic way only warns */
  TIDE_DETERMINISM_ON
} tide_determinism;
/* Of the process; OFF at the start. Otherwise nothing that tide computes depends on the order of threads:
 * where an index repeats, values meet in its order, the last one is written; raw kernels run in order on the CPU, and
 * on an accelerator those are refused whose atomic operations depend on the order. */
TIDE_API tide_status tide_set_deterministic(tide_determinism mode);
TIDE_API tide_determinism tide_get_deterministic(void);

/* ---- Random numbers
 * -------------------------------------------------------------------------------------------------------------- */

/* Philox4x32-10 with torch's state: (seed, offset). Element i of a call depends on seed, offset and i alone. The
 * default generators begin with seeds from the system's entropy, another one for each device and process, others with
 * 67280421310721. */
TIDE_API tide_status tide_generator_new(tide_generator **out, int device);
TIDE_API void tide_generator_retain(tide_generator *g);
TIDE_API void tide_generator_release(tide_generator *g);
TIDE_API tide_status tide_generator_default(tide_generator **out, int device); /* borrowed */
TIDE_API int tide_generator_device(const tide_generator *g);
TIDE_API void tide_generator_seed(tide_generator *g, uint64_t seed); /* offset becomes 0 */
TIDE_API uint64_t tide_generator_get_seed(const tide_generator *g);
TIDE_API uint64_t tide_generator_get_offset(const tide_generator *g);
TIDE_API tide_status tide_generator_set_offset(tide_generator *g, uint64_t offset); /* a multiple of 4 */
TIDE_API uint64_t tide_random_seed(void);      /* 53 bits from the system's entropy */
TIDE_API void tide_manual_seed(uint64_t seed); /* every default generator, also of devices not opened yet */

typedef enum tide_random_kind {
  TIDE_UNIFORM,     /* a <= x < b */
  TIDE_NORMAL,      /* mean a, standard deviation b */
  TIDE_RANDINT,     /* integers, lo <= x < hi */
  TIDE_BERNOULLI,   /* 1 with probability a */
  TIDE_EXPONENTIAL, /* rate a */
  TIDE_CAUCHY,      /* median a, scale b */
  TIDE_LOG_NORMAL,  /* exp of a normal with mean a, deviation b */
  TIDE_GEOMETRIC,   /* number of trials up to the first success, probability a */
  TIDE_POISSON,     /* by tide_poisson */
  TIDE_PICK         /* by tide_pick */
} tide_random_kind;
/* Fills x, by one of the kinds up to GEOMETRIC. generator NULL: the default one of x's device. */
TIDE_API tide_status tide_random(tide_tensor *x, tide_random_kind kind, double a, double b, tide_generator *generator);
TIDE_API tide_status tide_random_int(tide_tensor *x, int64_t lo, int64_t hi,
                                     tide_generator *generator); /* hi excluded */
/* The whole range that x's dtype holds exactly, from 0. */
TIDE_API tide_status tide_random_bits(tide_tensor *x, tide_generator *generator);
TIDE_API tide_status tide_bernoulli(tide_tensor *x, const tide_tensor *p,
                                    tide_generator *generator); /* x_i = 1 with probability p_i */
/* x_i: Poisson's distribution with the mean rate_i, which broadcasts to x. */
TIDE_API tide_status tide_poisson(tide_tensor *x, const tide_tensor *rate, tide_generator *generator);
/* A new tensor of normals; one of the two at least is a tensor, and they broadcast to each other. */
TIDE_API tide_status tide_normal(tide_tensor **out, const tide_operand *mean, const tide_operand *deviation,
                                 tide_generator *generator);
/* Draws n places of each line, int64 from tide_get_index_base. A place's chance is the rise there of the line's running
 * sums, the last dim of `sums` (float64), which never fall and rise somewhere in every line. */
TIDE_API tide_status tide_pick(tide_tensor **out, const tide_tensor *sums, int64_t n, tide_generator *generator);
TIDE_API tide_status tide_randperm(tide_tensor **out, int64_t n, const tide_options *options,
                                   tide_generator *generator);

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* Pictures, sample by sample. Writing takes [h, w] or [h, w, channels]: grey, grey and alpha, RGB or RGBA; uint8 gives
 * 8 bits a sample, int32 with values 0 to 65535 gives 16. A picture on a device is waited for. */
TIDE_API tide_status tide_png_save(const char *path, const tide_tensor *image);
/* Reading gives [h, w, channels] on the cpu, with the samples in the file: uint8, or int32 of 16 bits a sample. A
 * palette becomes its colors, grey of 1, 2 or 4 bits is scaled to 0 to 255, transparency becomes alpha. */
TIDE_API tide_status tide_png_load(tide_tensor **out, const char *path);
/* bits: 8 or 16 scales the samples to that, 0 keeps them. gamma: corrects them to sRGB, as gAMA in the file says. */
TIDE_API tide_status tide_png_load_as(tide_tensor **out, const char *path, int bits, bool gamma);

TIDE_C_END
#endif
