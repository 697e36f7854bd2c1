/* sim.h: what the files of the simulated backend share. backend.c has the design. */
#pragma once

#include <stdatomic.h>
#include <string.h>

#include "backend/backend.h"
#include "base/lock.h"
#include "os/file.h"
#include "tide/sim.h"

/* A block of device memory that someone holds, or a range of addresses that is backed piece by piece; each device has a
 * list of them in the order of their addresses. */
typedef struct sim_block {
  struct sim_block *next;
  char *ptr; /* the address that core sees */
  size_t bytes;
  bool shared, borrowed; /* its pages are those of a file; of another process's file */
  tide__os_share share;  /* of a shared one: the file that we hold open */
  uint32_t *piece;       /* of a range: for each granule, see range.c; else NULL */
} sim_block;

/* Page-locked host memory, so that kernels may be given its addresses. */
typedef struct sim_pinned {
  struct sim_pinned *next;
  char *ptr;
  size_t bytes;
  bool registered; /* the host's own */
} sim_pinned;

/* What several processes share of an event. */
typedef struct sim_page {
  int refs;
  tide__os_share share;
  struct sim_counters *counters; /* see mark.c */
} sim_page;

/* A semaphore of another API. */
typedef struct sim_semaphore {
  _Atomic uint64_t *count;
  int refs;
  bool timeline;
} sim_semaphore;

/* One record of an event: a place in a stream. Shared by the event, the operation that reaches it and those that
 * wait. */
typedef struct sim_mark {
  int refs;
  bool passed;
  struct sim_frontier *frontier; /* recorded in a capture: see graph.c */
  sim_page *page;                /* the record is known elsewhere too, under this number; else NULL */
  sim_semaphore *semaphore;      /* of another API, with this number for a value; else NULL */
  uint64_t ticket;
  double time; /* seconds, when it was reached: of the system's clock, or of the stream's in dry mode */
} sim_mark;

typedef struct sim_event {
  struct sim_event *next, *prev;
  int device;
  uint32_t flags;
  sim_mark *mark; /* the last record, NULL before the first */
  sim_page *page; /* of one that is shared; else NULL */
} sim_event;

typedef enum sim_kind { SIM_KERNEL, SIM_COPY, SIM_SLEEP, SIM_RECORD, SIM_WAIT, SIM_NOTE } sim_kind;

/* A launch of a kernel that was made at run time, with its arguments. */
typedef struct sim_launch {
  tide_head head; /* without addresses: these stand in `packed` */
  void *function;
  tide_launch launch; /* its pointers are not used */
  _Atomic bool stop;  /* it is to end, */
  int64_t ms;         /* and to report this, unless it is 0 */
  uint16_t pointer[TIDE_LAUNCH_POINTERS];
  _Alignas(16) char packed[TIDE_LAUNCH_BYTES];
} sim_launch;

/* Arguments of any kernel. Each begins with its tide_head. */
typedef union sim_args {
  tide_head head;
  sim_launch launch;
  tide_pack_args pack;
  struct sim_join {
    tide_head head; /* not used */
    tide_collective_call call;
  } join;
  struct sim_host {
    tide_head head; /* not used */
    void (*fn)(void *user);
    void *user;
  } host;
#define KERNEL(name, args, writes, cost, library) args name;
#include "backend/kernel.def"
} sim_args;

/* One entry of a stream's queue. */
typedef struct sim_op {
  struct sim_op *next;
  uint64_t seq;      /* counts over all streams, from 1 */
  double not_before; /* seconds: the scheduler's whim, a slow copy, the end of a sleep */
  sim_kind kind;
  bool started; /* SLEEP: not_before is the end */
  bool fails, fails_sticky;
  tide_status (*run)(const sim_args *args);
  bool (*translate)(int device, sim_args *args); /* or NULL: the addresses that are not in the head; false: illegal */
  bool made;                                     /* a kernel from text: its failure is an assertion's */
  sim_mark *mark;                                /* RECORD, WAIT */
  uint32_t note;                                 /* NOTE */
  void *code;                                    /* KERNEL: an interpreted program, held; or NULL */
  double seconds;                                /* SLEEP */
  double cost;                                   /* in dry mode; kept for replays alone, like those below */
  const char *what;                              /* which call queued it */
  uint64_t traced;                               /* the operation that it is of, see trace.c; 0: not traced */
  int branch;                                    /* of its capture */
  struct sim_op *node;                           /* of an instance of a graph: what was recorded */
  /* COPY; a device of TIDE_CPU: host memory. `staged`: src is ours. */
  void *dst, *src;
  int dst_device, src_device;
  size_t bytes;
  bool staged;
  sim_args args; /* KERNEL; left out of the other kinds' allocation */
} sim_op;

typedef struct sim_stream {
  struct sim_stream *next;
  int device, priority, refs;
  bool legacy;  /* handle 0 */
  bool running; /* a worker has taken the head */
  sim_op *head, *tail;
  double clock;                /* seconds, in dry mode */
  uint32_t lazy;               /* one launch in so many is delayed */
  uint32_t progress;           /* the last note that was reached */
  struct sim_capture *capture; /* what is queued is recorded there */
  int branch;                  /* the stream's number in it */
} sim_stream;

/* launch.c: runs it; what the kernel has reported goes to `mail`. */
tide_status tide__sim_run_made(sim_launch *l, tide_mail *mail);

/* A thread of the host that waits until passed(arg), which is asked with the lock held. */
typedef struct sim_waiter {
  struct sim_waiter *next;
  bool (*passed)(const void *arg);
  const void *arg;
} sim_waiter;

/* What went wrong in queued work. */
typedef struct sim_failure {
  bool set, sticky;
  int code;
  const char *name, *text;
} sim_failure;

typedef struct sim_device {
  sim_block *blocks;
  size_t used;
  sim_failure failure;
  struct {
    bool set;
    uint32_t site;
    int64_t value, length;
    int index_base;
  } mailbox; /* the first bad index that a kernel met */
  sim_stream *legacy;
} sim_device;

/* The faults that were ordered; a count of 0 is none. */
typedef struct sim_faults {
  int64_t alloc, launch, sticky;
  bool alloc_on;
  double slow; /* seconds */
  bool peer_off;
  bool nccl_off;
  uint64_t dead;  /* devices, as bits, that do nothing more */
  uint64_t small; /* devices with half the memory, as bits */
} sim_faults;

typedef struct sim_state {
  const tide_backend_host *host;
  void (*run)(sim_stream *stream, sim_op *op); /* work.c's: the workers know no kind of work */
  int devices;
  int picked[TIDE_MAX_DEVICES]; /* which of those that were asked for each one is: CUDA_VISIBLE_DEVICES */
  size_t memory, span;          /* bytes that a device offers; bytes of address space that it has */
  char *base;                   /* the address range that core sees: never accessible */
  ptrdiff_t shift;              /* from there to the same bytes as the workers see them */
  uint64_t random, seq;
  pthread_mutex_t lock; /* of everything below, and of all structs above */
  pthread_cond_t work, done;
  pthread_t worker[2];
  int workers;
  sim_waiter *waiting;
  bool stopping, env_bad, clock_bad;
  bool skips;                       /* time is virtual */
  uint64_t peers[TIDE_MAX_DEVICES]; /* of each device: whose memory its kernels may use, as bits */
  sim_stream *streams;
  sim_event *events;
  sim_pinned *pinned;
  sim_faults faults;
  double clock; /* the furthest clock of streams that have ended */
  sim_device device[TIDE_MAX_DEVICES];
} sim_state;

/* A sleep of so many seconds or more holds a stream until tide_sim_wake. */
#define TIDE_SIM_HOLD 60.0

extern sim_state tide__sim;
extern _Atomic bool tide__sim_dry;    /* changed while nothing is queued */
extern _Atomic bool tide__sim_forked; /* this is a child of the process that opened us: the workers are not here */

/* With the lock held: what a lost device should still do is never done, so nobody may wait for it. */
static inline bool tide__sim_lost(int device) {
  return tide__sim.device[device].failure.set && tide__sim.device[device].failure.sticky;
}

/* sim.c. First line of every slot that can fail: TIDE_OK, or STATE in a forked child. */
tide_status tide__sim_enter(const char *what);
void tide__sim_fork_watch(void); /* once */
/* With the lock held; a number below n. */
uint32_t tide__sim_dice(uint32_t n);
/* With the lock held: releases it, and tells what happened on the device. A failure that is not sticky and a bad index
 * are told once. */
tide_status tide__sim_leave(int device, const char *what);

/* clock.c */
double tide__sim_now(void);                   /* seconds */
double tide__sim_clock_system(double when);   /* the same moment on the system's clock */
bool tide__sim_clock_env(void);               /* with the lock held: false if TIDE_SIM_CLOCK is not understood */
bool tide__sim_clock_skips(const sim_op *op); /* may the time until op may run be skipped? */
/* With the lock held and nothing to run before `when`: lets it be `when`, if time is virtual and someone waits. */
bool tide__sim_clock_skip(double when);

/* info.c */
void tide__sim_capability(int *major, int *minor);

/* memory.c */
bool tide__sim_memory_open(void);
void tide__sim_memory_close(void);
/* With the lock held: a place for a block of so many bytes, in no list yet; NULL if there is none. */
sim_block **tide__sim_find_gap(char **ptr, int device, size_t bytes);
/* With the lock held: pages become accessible to the workers and poisoned, or go back to the system. */
bool tide__sim_back(char *ptr, size_t bytes);
void tide__sim_unback(char *ptr, size_t bytes);
/* With the lock held: bytes that the device offers. */
size_t tide__sim_memory_of(int device);
/* With the lock held: the address at which the workers see `bytes` bytes of the device's memory, or NULL. */
char *tide__sim_seen(int device, const void *ptr, size_t bytes);
/* With the lock held: likewise for an operand of a kernel of that device, which may be page-locked host memory. */
char *tide__sim_operand(int device, const void *ptr);

/* ipc.c */
/* A block on the pages of a file, whose descriptor it takes over; false: no addresses, or no such pages. */
bool tide__sim_adopt(sim_block **out, int device, int file, size_t bytes);
/* With the lock held: the block's pages are its own again, and empty. */
void tide__sim_unshare(sim_block *block);
/* external.c */
extern const tide_external tide__sim_external;

/* async.c */
void tide__sim_async_close(void);

/* range.c */
bool tide__sim_range_backed(const sim_block *range, const char *ptr, size_t bytes); /* with the lock held */

/* queue.c */
sim_op *tide__sim_op_new(sim_kind kind); /* NULL without memory, error set */
void tide__sim_op_free(sim_op *op);      /* with the lock held, or before it was queued */
/* Queues op, which is then the queue's, or in dry mode charges `cost` seconds and drops it. */
tide_status tide__sim_submit(sim_stream *stream, sim_op *op, double cost, const char *what);
sim_stream *tide__sim_stream_make(int device, int priority); /* with the lock held; NULL without memory */
/* Waits, with the lock held at start and end, until passed(arg) or until the host ends the wait for the device,
 * TIDE_CPU for none: then the status says so. */
tide_status tide__sim_wait(bool (*passed)(const void *arg), const void *arg, int device, const char *what);
void tide__sim_queue_drop(void); /* with the workers gone: frees what is queued and all streams */
void tide__sim_stop(void);       /* ends the workers */

/* event.c */
/* Queues an operation on `mark`, whose reference it takes. */
tide_status tide__sim_mark_queue(sim_kind kind, sim_mark *mark, sim_stream *stream, const char *what);
void tide__sim_event_drop(void);

/* mark.c; with the lock held, but the first two */
sim_page *tide__sim_page_new(void);
sim_page *tide__sim_page_map(const tide__os_share *share); /* takes the file over */
sim_page *tide__sim_page_ref(sim_page *page);
void tide__sim_page_unref(sim_page *page);
void tide__sim_page_record(sim_mark *mark, sim_page *page); /* the mark becomes the page's next record */
uint64_t tide__sim_page_ticket(const sim_page *page);       /* of the last record, by whichever process */
void tide__sim_semaphore_unref(sim_semaphore *semaphore);
void tide__sim_mark_unref(sim_mark *mark);
void tide__sim_mark_pass(sim_mark *mark);   /* the record was reached */
bool tide__sim_mark_passed(sim_mark *mark); /* was it, here or in another process? */

/* work.c */
#define KERNEL(name, args, writes, cost, library)                                                                      \
  tide_status tide__sim_kernel_##name(tide_stream *stream, const args *a);
#include "backend/kernel.def"
/* Does what op asks, called by a worker. The lock is held at start and end and released in between. */
void tide__sim_op_run(sim_stream *stream, sim_op *op);

/* graph.c */
/* The instance's own copy of a recorded operation, looked for from `after` on, which may be NULL. */
struct sim_op *tide__sim_graph_exec_op(void *exec, const void *node, struct sim_op *after);
/* With the lock held: the first operation of the stream's capture and the last one, whichever stream's; or NULL. */
sim_op *tide__sim_capture_first(const sim_stream *stream);
sim_op *tide__sim_capture_last(const sim_stream *stream);
/* Takes an operation of a captured stream; with the lock held. */
void tide__sim_capture_take(sim_stream *stream, sim_op *op, double cost, const char *what);
/* A stream, perhaps captured, is to wait for the mark, perhaps of a capture: lets it join. With the lock held at the
 * start, released when this fails. */
tide_status tide__sim_capture_join(sim_stream *stream, const sim_mark *mark);
/* The captured stream, or NULL, is asked what no recording can answer: breaks the capture and releases the lock. */
tide_status tide__sim_capture_break(sim_stream *stream, int code, const char *name, const char *text, const char *what);

/* launch.c */
const tide_compiler *tide__sim_compiler(void);

/* comm.c */
const tide_collective *tide__sim_collective(void);

/* trace.c */
extern const tide_tracer tide__sim_tracer;
extern _Atomic bool tide__sim_tracing;
extern _Thread_local uint64_t tide__sim_traced_op; /* what this thread is queueing now */
uint64_t tide__sim_traced_now(void);               /* for what is being queued */
tide_work tide__sim_copy_work(int dst_device, int src_device);
/* With the lock held, while tracing: a piece of work that began at `start` is done. */
void tide__sim_note(tide_work kind, const sim_stream *stream, uint64_t op, double start, size_t bytes,
                    const char *name);
void tide__sim_note_run(const sim_stream *stream, const sim_op *op, double start);

/* fault.c; with the lock held */
void tide__sim_fault_env(void);
bool tide__sim_fault_alloc(void);
void tide__sim_fault_launch(sim_op *op);                 /* decides whether this launch is the one that fails */
bool tide__sim_fault_fire(int device, const sim_op *op); /* lets it fail, if so */
void tide__sim_fail(int device, bool sticky, int code, const char *name, const char *text); /* the first one stays */

/* what the table has */
#define SLOT(type, name, parameters) type tide__sim_##name parameters;
#define OPTIONAL_SLOT(type, name, parameters)
#include "backend/slot.def"
