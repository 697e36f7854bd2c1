/* wait.c: how a thread waits for a device: by looking, so that it can be interrupted, and without system calls while
 * the wait is short.
 *
 * One small value comes back without a copy: a kernel of one thread writes it to a slot of pinned memory and then a
 * sequence number, which the host watches. A wait that was interrupted leaves its slot to the kernel that still may
 * write it; such a slot is used again once its number has arrived. Kernels report a bad index in the device's mailbox,
 * which every wait looks at in the end.
 *
 * Invariants: a slot belongs to one waiting thread, or to a queued kernel; the mailbox is emptied under its lock, first
 * the host's side, then the device's, so that a kernel never finds it half empty. */
#include "internal.h"
#include "os/os.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* ---- patience ---- */

typedef struct patience {
  int64_t start, asked; /* when the wait began, when the host was last asked */
  bool yielding;
} patience;

static void nap(long ns) {
  struct timespec t = {0, ns};
  nanosleep(&t, NULL);
}

/* To be called between two looks, some microseconds apart: gives way more and more, and fails when the wait must
 * end. */
static tide_status pause_between(patience *p, int device, const char *what) {
  int64_t now = tide__os_ns();
  if (!p->start) p->start = p->asked = now;
  if (now - p->asked > 1000000) {
    p->asked = now;
    TIDE_TRY(tide__cuda_host->wait_on(device, what));
  }
  int64_t waited = now - p->start;
  if (waited > 200000000 || (p->yielding && waited > 50000))
    nap(50000);
  else if (waited > 1000000)
    sched_yield();
  return TIDE_OK;
}

/* Ends a wait: the runtime remembers "not ready" as an error of the thread. */
static tide_status look_result(int device, const char *what, int rc, bool looked_twice) {
  if (looked_twice) cudaGetLastError();
  return tide__cuda_check(device, what, rc);
}

/* One look at the stream; `any`: it may be one that another thread begins to capture. */
static int look(const cuda_stream *s, bool any) {
  if (any) pthread_mutex_lock(&tide__cuda_capture_lock);
  CUDA_RELAXED;
  int rc = any && tide__cuda_stream_captured(s) ? cudaSuccess : (int)cudaStreamQuery(s->handle);
  if (any) pthread_mutex_unlock(&tide__cuda_capture_lock);
  return rc;
}

static tide_status drain(const cuda_stream *s, const char *what, bool any) {
  patience p = {0, 0, false};
  for (;;) {
    int rc = look(s, any);
    if (rc != cudaErrorNotReady) return look_result(s->device, what, rc, p.start != 0);
    TIDE_TRY(pause_between(&p, s->device, what));
  }
}

tide_status tide__cuda_stream_drain(const cuda_stream *s, const char *what) { return drain(s, what, false); }
tide_status tide__cuda_stream_drain_any(const cuda_stream *s, const char *what) { return drain(s, what, true); }

tide_status tide__cuda_event_drain(const cuda_event *e, bool yielding) {
  patience p = {0, 0, yielding};
  for (;;) {
    CUDA_RELAXED;
    int rc = (int)cudaEventQuery(e->handle);
    if (rc != cudaErrorNotReady) return look_result(e->device, "event_synchronize", rc, p.start != 0);
    TIDE_TRY(pause_between(&p, e->device, "event_synchronize"));
  }
}

/* ---- slots ---- */

enum { SLOTS = 64, FREE = 0, BUSY, LEFT };

static struct {
  pthread_mutex_t lock;
  tidek_slot *slot; /* pinned, SLOTS of them */
  uint32_t awaited[SLOTS];
  uint8_t state[SLOTS];
  uint32_t sequence;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static tide_status pool_open(int device) {
  if (pool.slot) return TIDE_OK;
  void *memory = NULL;
  int rc = (int)cudaHostAlloc(&memory, SLOTS * sizeof(tidek_slot), cudaHostAllocPortable | cudaHostAllocMapped);
  TIDE_TRY(tide__cuda_check(device, "read", rc));
  memset(memory, 0, SLOTS * sizeof(tidek_slot));
  pool.slot = memory;
  return TIDE_OK;
}

static tide_status slot_take(int *out, uint32_t *sequence, int device) {
  TIDE_LOCKED(&pool.lock);
  tide_status status = pool_open(device);
  int found = -1;
  for (int i = 0; status == TIDE_OK && found < 0 && i < SLOTS; i++)
    if (pool.state[i] == FREE || (pool.state[i] == LEFT && pool.slot[i].sequence == pool.awaited[i])) found = i;
  if (found >= 0) {
    if (++pool.sequence == 0) pool.sequence = 1;
    pool.state[found] = BUSY, pool.awaited[found] = pool.sequence;
    *out = found, *sequence = pool.sequence;
  } else if (status == TIDE_OK) {
    status = tide__cuda_host->fail(TIDE_STATE, "read: too many reads at once, got %d, expected at most %d", SLOTS + 1,
                                   SLOTS);
  }
  return status;
}

static void slot_put(int i, bool arrived) {
  TIDE_LOCKED(&pool.lock);
  pool.state[i] = arrived ? FREE : LEFT;
}

static inline void spin(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/* Watches the slot; now and then the stream too, because a fault means that the number never comes. */
static tide_status slot_watch(const tidek_slot *slot, uint32_t sequence, const cuda_stream *s) {
  patience p = {0, 0, false};
  for (uint32_t spins = 1;; spins++) {
    if (slot->sequence == sequence) break;
    spin();
    if (spins % 1024) continue;
    int64_t asked = p.asked;
    TIDE_TRY(pause_between(&p, s->device, "read"));
    if (p.asked == asked || asked == 0) continue;
    int rc = (int)cudaStreamQuery(s->handle);
    if (rc == cudaErrorNotReady)
      cudaGetLastError();
    else
      TIDE_TRY(tide__cuda_check(s->device, "read", rc));
  }
  atomic_thread_fence(memory_order_acquire);
  return TIDE_OK;
}

static tide_status read_slot(const cuda_stream *s, void *dst, const void *src, size_t bytes) {
  int slot = 0;
  uint32_t sequence = 0;
  TIDE_TRY(slot_take(&slot, &sequence, s->device));
  tide_status status =
      tide__cuda_check(s->device, "read", tidek_tell(s->handle, &pool.slot[slot], src, bytes, sequence));
  if (status != TIDE_OK) {
    slot_put(slot, true);
    return status;
  }
  status = slot_watch(&pool.slot[slot], sequence, s);
  if (status == TIDE_OK) memcpy(dst, pool.slot[slot].data, bytes);
  slot_put(slot, status == TIDE_OK);
  return status;
}

tide_status tide__cuda_read_small(void *stream, void *dst, const void *src, size_t bytes) {
  CUDA_ON_STREAM(s, stream);
  tide_status status = read_slot(s, dst, src, bytes);
  return status == TIDE_OK ? tide__cuda_mail(s->device) : status;
}

/* ---- mailboxes ---- */

static struct {
  pthread_mutex_t lock;
  struct {
    _Atomic(tidek_mailbox *) mailbox;
    uint32_t *taken;
    cudaStream_t stream; /* clears `taken` */
  } device[TIDE_MAX_DEVICES];
} mail = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int clear_taken(int device) {
  int rc = (int)cudaMemsetAsync(mail.device[device].taken, 0, sizeof(uint32_t), mail.device[device].stream);
  return rc ? rc : (int)cudaStreamSynchronize(mail.device[device].stream);
}

static int mailbox_open(int device) {
  void *memory = NULL;
  int rc = (int)cudaStreamCreateWithFlags(&mail.device[device].stream, cudaStreamNonBlocking);
  if (rc) return rc;
  rc = (int)cudaMalloc((void **)&mail.device[device].taken, sizeof(uint32_t));
  if (!rc) rc = clear_taken(device);
  if (!rc) rc = (int)cudaHostAlloc(&memory, sizeof(tidek_mailbox), cudaHostAllocPortable | cudaHostAllocMapped);
  if (rc) {
    cudaFree(mail.device[device].taken);
    cudaStreamDestroy(mail.device[device].stream);
    mail.device[device].taken = NULL;
    return rc;
  }
  memset(memory, 0, sizeof(tidek_mailbox));
  atomic_store_explicit(&mail.device[device].mailbox, (tidek_mailbox *)memory, memory_order_release);
  return 0;
}

/* The first use of an index may be in a capture. */
static int find_mailbox(int device) {
  TIDE_LOCKED(&mail.lock);
  CUDA_RELAXED;
  return atomic_load_explicit(&mail.device[device].mailbox, memory_order_acquire) ? 0 : mailbox_open(device);
}

tide_status tide__cuda_mailbox(uint32_t **taken, tidek_mailbox **mailbox, int device) {
  *mailbox = atomic_load_explicit(&mail.device[device].mailbox, memory_order_acquire);
  if (!*mailbox) {
    TIDE_TRY(tide__cuda_check(device, "index", find_mailbox(device)));
    *mailbox = atomic_load_explicit(&mail.device[device].mailbox, memory_order_acquire);
  }
  *taken = mail.device[device].taken;
  return TIDE_OK;
}

tide_status tide__cuda_mail(int device) {
  tidek_mailbox *box = atomic_load_explicit(&mail.device[device].mailbox, memory_order_acquire);
  if (!box || !box->full) return TIDE_OK;
  pthread_mutex_lock(&mail.lock);
  tidek_mailbox found = {0};
  int rc = 0;
  atomic_thread_fence(memory_order_acquire);
  if (box->full) {
    memcpy(&found, (const void *)box, sizeof found);
    box->full = 0;
    atomic_thread_fence(memory_order_seq_cst);
    CUDA_ON(device);
    rc = clear_taken(device);
  }
  pthread_mutex_unlock(&mail.lock);
  TIDE_TRY(tide__cuda_check(device, "index", rc));
  if (!found.full) return TIDE_OK;
  return tide__cuda_host->fail_index(device, found.site, found.value, found.length, found.index_base);
}

/* ---- the end ---- */

void tide__cuda_wait_close(void) {
  int any = tide__cuda_any_device();
  if (any < 0) return;
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    tidek_mailbox *box = atomic_exchange(&mail.device[d].mailbox, NULL);
    if (!box) continue;
    CUDA_ON(d);
    cudaFreeHost(box);
    cudaFree(mail.device[d].taken);
    cudaStreamDestroy(mail.device[d].stream);
    mail.device[d].taken = NULL;
  }
  CUDA_ON(any);
  if (pool.slot) cudaFreeHost(pool.slot);
  pool.slot = NULL;
  memset(pool.state, 0, sizeof pool.state);
  cudaGetLastError();
}
