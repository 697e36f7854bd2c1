/* tide/history.h: who holds device memory, and what happened to it.
 *
 * Every block of device memory remembers the script line that asked for it (tide_site_set names it) and the allocation
 * scope that was open then. A snapshot copies all segments and blocks; the history, once switched on, keeps the last
 * events; the sites sum up the bytes by lines. All of these may be asked at any time, from any thread. */
#ifndef TIDE_HISTORY_H
#define TIDE_HISTORY_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* ---- Allocation scopes: labelled sums over the allocations of a block of a program ------------------------------ */

typedef struct tide_allocation_scope tide_allocation_scope;

/* Bytes count whole blocks, as memory_allocated does. What was allocated while the allocation scope was open counts,
 * whenever it is freed; live = allocated - freed, and peak is the highest that live has been. */
typedef struct tide_allocation_figures {
  int64_t allocated_bytes, freed_bytes, peak_bytes, live_bytes, allocations;
} tide_allocation_figures;

/* An allocation scope with one reference. What counts in it counts in `outer` too, which it keeps alive; `outer` may be
 * NULL. */
TIDE_API tide_status tide_allocation_scope_new(tide_allocation_scope **out, const char *label,
                                               tide_allocation_scope *outer);
TIDE_API void tide_allocation_scope_retain(tide_allocation_scope *scope);  /* one more reference */
TIDE_API void tide_allocation_scope_release(tide_allocation_scope *scope); /* one reference less; NULL is allowed */
/* "epoch 3/forward": the label behind those of the outer allocation scopes. Lives as long as the allocation scope. */
TIDE_API const char *tide_allocation_scope_label(const tide_allocation_scope *scope);
TIDE_API void tide_allocation_scope_read(tide_allocation_figures *out,
                                         const tide_allocation_scope *scope); /* the sums now */
TIDE_API tide_allocation_scope *
tide_current_allocation_scope(void); /* the open one of the bound tide_current, borrowed, or NULL */
TIDE_API void
tide_current_set_allocation_scope(tide_allocation_scope *scope); /* opens it in place of that one; NULL opens none */

/* ---- Lines ------------------------------------------------------------------------------------------------------ */

/* "train.lua:12" of a site, "" of 0, as snprintf: returns the length that it has. */
TIDE_API int tide_site_describe(uint32_t site, char *text, size_t size);

/* What one script line holds. */
typedef struct tide_memory_site {
  uint32_t site; /* 0: allocated where no script ran */
  size_t bytes;  /* of the blocks in use that it allocated */
  int64_t blocks;
} tide_memory_site;

/* The lines that hold most on the device, most first: at most `most` of them. Returns how many. */
TIDE_API int tide_memory_sites(tide_memory_site *out, int most, int device);

/* ---- Running out ------------------------------------------------------------------------------------------------- */

enum { TIDE_OOM_SITES = 5 };

/* What was found when an allocation of device memory failed for good. */
typedef struct tide_memory_oom {
  int device;
  size_t requested, free, total; /* bytes asked for; of the device, as the driver tells */
  size_t allocated, reserved;    /* in use by blocks; held from the driver */
  size_t largest_free;           /* the largest free block of the cache */
  size_t limit;                  /* what this process may reserve there; 0: no limit was set */
  double fragmentation;          /* share of the cached bytes that lies outside of the largest free block */
  const char *rung;              /* which step failed: "driver", "limit", "size", "fault" */
  int sites;                     /* entries of `site`: the lines that hold most */
  tide_memory_site site[TIDE_OOM_SITES];
} tide_memory_oom;

/* Of the calling thread's last failure of that kind; NULL if there was none. Valid until its next one. */
TIDE_API const tide_memory_oom *tide_memory_oom_get(void);
/* Called by the allocating thread, which holds no lock, before the failure is reported. */
typedef void (*tide_oom_fn)(void *user, const tide_memory_oom *oom);
TIDE_API tide_status tide_memory_on_oom_add(tide_oom_fn fn, void *user); /* at most 64 of them */
TIDE_API void tide_memory_on_oom_remove(tide_oom_fn fn, void *user);     /* forgets one; not while it runs elsewhere */

/* ---- History
 * ------------------------------------------------------------------------------------------------------ */

typedef enum tide_memory_action {
  TIDE_MEMORY_ALLOC,          /* a block was given out */
  TIDE_MEMORY_FREE_REQUESTED, /* its owner let it go */
  TIDE_MEMORY_FREE_COMPLETED, /* no stream uses it any more: it may be given out again */
  TIDE_MEMORY_SEGMENT_ALLOC,  /* the driver gave a segment */
  TIDE_MEMORY_SEGMENT_FREE,   /* and got it back */
  TIDE_MEMORY_SEGMENT_MAP,    /* a growing segment grew */
  TIDE_MEMORY_SEGMENT_UNMAP,  /* and shrank */
  TIDE_MEMORY_OOM,            /* an allocation failed for good; size is what was asked for */
  TIDE_MEMORY_ACTIONS
} tide_memory_action;

TIDE_API const char *tide_memory_action_name(tide_memory_action action); /* "alloc", "free_requested", ... */

/* Writes what runs on the calling thread, a line for each level, innermost first; returns the length. */
typedef size_t (*tide_stack_fn)(void *user, char *text, size_t size);

typedef struct tide_history_config {
  size_t struct_size;  /* sizeof(tide_history_config) */
  int64_t max_entries; /* how many of the last events are kept; 0 means 100000 */
  uint32_t skip;       /* bit 1 << action: events of that kind are not kept */
  tide_stack_fn stack; /* NULL: one line for each event; else the whole stack, at its cost */
  void *user;          /* passed to it */
} tide_history_config;

/* Starts the history anew; config NULL stops it and forgets what it has. */
TIDE_API tide_status tide_memory_history(const tide_history_config *config);
TIDE_API bool tide_memory_history_enabled(void); /* is it on? */

typedef struct tide_memory_event {
  tide_memory_action action;
  int device;
  uint64_t address, stream; /* of the block or segment; the number of the stream that it belongs to, 0 for none */
  size_t size;
  uint64_t time_us;             /* microseconds since 1970 */
  uint32_t site, owner;         /* the line that did it; the line that allocated the block */
  uint32_t stack;               /* of `site`, if the history keeps stacks; else 0 */
  tide_allocation_scope *scope; /* the block's, or NULL */
} tide_memory_event;

/* The text of a stack, lines separated by '\n'; "" of 0. Lives as long as the process. */
TIDE_API const char *tide_memory_stack(uint32_t stack);

/* The parts of such a line, "file.lua:12 in name", or of "file.lua:12". */
typedef struct tide_stack_line {
  size_t file_length; /* the file's name begins the line */
  int number;         /* 0: there is none */
  size_t name;        /* where the name begins; at the end if there is none */
} tide_stack_line;
TIDE_API void tide_memory_stack_line(tide_stack_line *out, const char *text, size_t length);

/* ---- Snapshots
 * ---------------------------------------------------------------------------------------------------- */

typedef enum tide_block_state { TIDE_BLOCK_FREE, TIDE_BLOCK_USED, TIDE_BLOCK_PENDING } tide_block_state;

typedef struct tide_block_info {
  uint64_t address;
  size_t size, requested;
  tide_block_state state;       /* PENDING: released, but a stream may still use it */
  uint32_t site, stack;         /* of the allocation; 0 for free blocks */
  tide_allocation_scope *scope; /* whose label it has, or NULL */
} tide_block_info;

typedef struct tide_segment_info {
  int device;
  bool large;                                 /* of the pool of large blocks */
  bool expandable;                            /* a stretch of addresses that are backed piece by piece */
  uint64_t address, stream, pool;             /* numbers of the stream and of the pool; pool 0 is the default one */
  size_t total, allocated, active, requested; /* bytes: all; in use; in use or pending; as asked for */
  int64_t first, blocks;                      /* its blocks in the snapshot, by address */
} tide_segment_info;

typedef struct tide_memory_snapshot {
  tide_segment_info *segment; /* by device and address */
  tide_block_info *block;
  tide_memory_event *event; /* the history, oldest first */
  int64_t segments, blocks, events;
  int64_t lost; /* events that the history had no room for */
} tide_memory_snapshot;

enum { TIDE_SNAPSHOT_EVENTS = 1 }; /* flag: with the history */

/* Copies the state of every device, or of one pool (0: of all). Free it with tide_memory_snapshot_free. */
TIDE_API tide_status tide_memory_snapshot_new(tide_memory_snapshot **out, uint64_t pool, uint32_t flags);
TIDE_API void tide_memory_snapshot_free(tide_memory_snapshot *snapshot); /* NULL is allowed */
/* Writes it as JSON: {version, time_us, lost_events, devices, segments, device_traces}. */
TIDE_API tide_status tide_memory_snapshot_write(const tide_memory_snapshot *snapshot, const char *path);

TIDE_C_END

#endif
