/* parallel.c: loops on several threads.
 *
 * One pool for the process, started by the first loop that is worth it. A loop is cut into chunks that the threads and
 * the caller take one after another from a counter, so an uneven load evens out. Workers spin for some microseconds
 * after a loop, because the next one is often near, and then sleep. The gate is one word: the loop's number, whether it
 * is open, and how many workers are inside. A worker enters by a compare-and-swap while the gate is open; the caller
 * closes it when the chunks are gone and waits only for those who had entered, never for one that still has to wake up.
 * A loop of a thread with a limit admits the first so many workers; the others are not even woken.
 *
 * Whether denormal numbers are flushed is a setting of each thread's processor state; a loop's workers take that of the
 * thread whose loop it is, so that who takes a chunk makes no difference.
 *
 * A loop inside a loop, and a loop of a second thread while the pool is busy, run on the calling thread. After a fork
 * the child has no workers and starts its own.
 *
 * A kernel of the CPU may be interrupted: tide__loops_begin and tide__loops_end stand around it, and between pieces of
 * some grains, about a millisecond's work, every thread looks whether the loop is to stop. The calling thread alone
 * asks the host, the others see what it was told. What is left of the kernel's loops is skipped then, and the kernel's
 * result is an error. A host with a parallel_for of its own, which may not run anything on the calling thread, gets a
 * long loop in several calls, so that the calling thread can ask in between.
 *
 * Invariant: `job` changes only while the gate is closed and empty. */
#include "lock.h"
#include "quota.h"

#if defined(__x86_64__)
#  include <xmmintrin.h>
#endif
#include <errno.h>
#include <sched.h>
#include <stdio.h>

#include "os/os.h"

enum { MOST_THREADS = 256, DEFAULT_MOST = 16, CHUNKS_EACH = 4, PIECE_GRAINS = 4, HOST_GRAINS = 64 };
static const int64_t spin_ns = 30000, piece_ns = 1000000, host_ns = 10000000;

#define GATE_INSIDE ((uint64_t)0xFFFF)
#define GATE_OPEN   ((uint64_t)1 << 16)

static struct {
  pthread_mutex_t owner; /* held by the thread whose loop runs, and to start or stop workers */
  pthread_mutex_t lock;  /* of the sleepers */
  struct {
    pthread_t thread;
    pthread_cond_t wake;
    _Atomic bool asleep;
  } worker[MOST_THREADS];
  int started; /* workers, without the caller */
  _Atomic int wanted;
  _Atomic bool quit;
  _Atomic uint64_t gate;
  _Atomic int room; /* how many workers the loop admits */
  struct {
    tide_task_fn fn;
    void *arg;
    int64_t n, chunk, grain;
    bool flush, watched;
  } job;
  _Atomic bool stop; /* the loop is to end before its time */
  _Atomic int64_t next;
} pool = {.owner = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool inside, is_worker;
static _Thread_local bool watched, interrupted; /* a kernel that may be interrupted runs; it was */
static _Thread_local struct {
  int64_t begun, most; /* nanoseconds; 0: it may run for ever */
  bool over;
} lasts;
/* Of the loop that a host's parallel_for runs: set on the thread that called it, and on another one of the host's. */
static _Thread_local _Atomic bool *hosting, *following;
static _Thread_local int limit;
static const tide__idle_work *idle_work;

void tide__parallel_idle(const tide__idle_work *work) { idle_work = work; }

/* ---- how many ---- */

/* A container may be allowed less than the cores it sees. */
static int cgroup_cores(void) {
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
  if (!f) return DEFAULT_MOST;
  long long quota = 0, period = 0;
  int n = fscanf(f, "%lld %lld", &quota, &period);
  fclose(f);
  if (n != 2 || quota <= 0 || period <= 0) return DEFAULT_MOST;
  return (int)((quota + period - 1) / period);
}

static int default_threads(void) {
  int n = tide__os_processors(true), allowed = cgroup_cores();
  if (n > allowed) n = allowed;
  return n < 1 ? 1 : n > DEFAULT_MOST ? DEFAULT_MOST : n;
}

void tide_set_num_threads(int n) {
  atomic_store_explicit(&pool.wanted, n < 1 ? 1 : n > MOST_THREADS ? MOST_THREADS : n, memory_order_relaxed);
}

int tide_get_num_threads(void) {
  int n = atomic_load_explicit(&pool.wanted, memory_order_relaxed);
  if (n == 0) {
    n = default_threads();
    atomic_store_explicit(&pool.wanted, n, memory_order_relaxed);
  }
  return n;
}

void tide_set_thread_limit(int most) { limit = most < 0 ? 0 : most; }

/* ---- denormal numbers ---- */

/* The bits of the control word that make results and operands that are denormal zero. */
#if defined(__x86_64__)
#  define FLUSH_BITS 0x8040u
static bool can_flush(void) { return true; }
static bool flushes(void) { return (_mm_getcsr() & FLUSH_BITS) == FLUSH_BITS; }
static void flush(bool on) { _mm_setcsr(on ? _mm_getcsr() | FLUSH_BITS : _mm_getcsr() & ~FLUSH_BITS); }
#elif defined(__aarch64__)
#  define FLUSH_BITS ((uint64_t)1 << 24)
static uint64_t control(void) {
  uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
static bool can_flush(void) { return true; }
static bool flushes(void) { return control() & FLUSH_BITS; }
static void flush(bool on) {
  uint64_t word = on ? control() | FLUSH_BITS : control() & ~FLUSH_BITS;
  __asm__ volatile("msr fpcr, %0" : : "r"(word));
}
#else
static bool can_flush(void) { return false; }
static bool flushes(void) { return false; }
static void flush(bool on) {}
#endif

bool tide_set_flush_denormal(bool on) {
  flush(on);
  return can_flush();
}

/* ---- the workers ---- */

static void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

static bool lasts_too_long(void) {
  lasts.over = lasts.most && tide__os_ns() - lasts.begun > lasts.most;
  return lasts.over;
}

bool tide__loop_stops(void) {
  if (is_worker) return atomic_load_explicit(&pool.stop, memory_order_relaxed);
  if (following ? !atomic_load_explicit(following, memory_order_relaxed) : !watched) return false;
  if (!following && !interrupted) interrupted = tide__interrupt_asked() || lasts_too_long();
  if (!following && !interrupted) return false;
  if (inside) atomic_store_explicit(&pool.stop, true, memory_order_relaxed);
  if (hosting) atomic_store_explicit(hosting, true, memory_order_relaxed);
  return true;
}

void tide__loops_begin(void) { watched = true; }

void tide__loops_limit(void) {
  const tide_quota *q = tide__quota_bound();
  int64_t most = q ? tide_quota_get_limit(q, TIDE_QUOTA_KERNEL_MICROSECONDS) : -1;
  if (most >= 0) lasts.begun = tide__os_ns(), lasts.most = most < INT64_MAX / 1000 ? most * 1000 + 1 : INT64_MAX;
}

int64_t tide__loops_ms(void) { return (tide__os_ns() - lasts.begun) / 1000000; }

void tide__loops_follow(_Atomic bool *stop) { following = stop; }

tide_status tide__loops_end(tide_status status) {
  bool was = interrupted, over = lasts.over;
  watched = interrupted = lasts.over = false;
  int64_t ms = over ? tide__loops_ms() : 0;
  lasts.most = 0;
  if (!was || (over && status != TIDE_OK)) return status; /* the kernel has said where it was */
  return over ? tide__fail_index(TIDE_CPU, 0, ms, 0, TIDE__MAIL_STOPPED) : tide__quota_interrupted("");
}

/* How much is done between two looks, in whole grains: the items of some loops cost a thousand times what others do, so
 * what the last piece took decides. */
typedef struct pace {
  int64_t piece, least, at;
} pace;

static pace pace_begin(int64_t grain) { return (pace){.piece = grain > 1 ? grain * PIECE_GRAINS : 1, .least = grain}; }

/* A piece has been done that was to take so long. */
static void pace_next(pace *p, int64_t wanted) {
  int64_t before = p->at, took = (p->at = tide__os_ns()) - before;
  if (took < wanted / 2 && p->piece < INT64_MAX / 4) p->piece *= 2;
  if (took > 2 * wanted && p->piece > p->least) p->piece = p->piece / p->least / 2 * p->least;
  if (p->piece < p->least) p->piece = p->least;
}

static void run_pieces(tide_task_fn fn, void *arg, int64_t begin, int64_t end, pace *p) {
  p->at = tide__os_ns();
  while (begin < end && !tide__loop_stops()) {
    int64_t to = end - begin <= p->piece ? end : begin + p->piece;
    fn(arg, begin, to);
    if (to < end) pace_next(p, piece_ns);
    begin = to;
  }
}

void tide__serial_for(int64_t n, int64_t grain, tide_task_fn fn, void *arg) {
  if (n <= 0) return;
  bool heeds = is_worker ? pool.job.watched : watched || following;
  if (n <= grain || !heeds) {
    fn(arg, 0, n);
    return;
  }
  pace p = pace_begin(grain);
  run_pieces(fn, arg, 0, n, &p);
}

static void work(void) {
  pace p = pace_begin(pool.job.grain);
  if (!pool.job.watched) p.piece = p.least = pool.job.n;
  for (;;) {
    int64_t begin = atomic_fetch_add_explicit(&pool.next, pool.job.chunk, memory_order_relaxed);
    if (begin >= pool.job.n) return;
    int64_t end = pool.job.n - begin < pool.job.chunk ? pool.job.n : begin + pool.job.chunk;
    run_pieces(pool.job.fn, pool.job.arg, begin, end, &p);
  }
}

/* Is there a loop that worker i has not seen, and may enter? */
static bool is_open(uint64_t gate, int i, uint32_t seen) {
  return (gate & GATE_OPEN) && (uint32_t)(gate >> 32) != seen && i < atomic_load(&pool.room);
}

/* Enters the loop if it is open and new; *seen is the number of the last one. */
static bool enter(int i, uint32_t *seen) {
  uint64_t gate = atomic_load_explicit(&pool.gate, memory_order_acquire);
  while (is_open(gate, i, *seen)) {
    if (!atomic_compare_exchange_weak_explicit(&pool.gate, &gate, gate + 1, memory_order_acq_rel, memory_order_acquire))
      continue;
    *seen = (uint32_t)(gate >> 32);
    return true;
  }
  return false;
}

/* Until somebody wakes it. The first worker comes back now and then to give back freed memory that has become idle, as
 * long as there is or may be any: a program that does nothing at all has nobody else to do it. */
static void nap(int i) {
  if (i > 0 || !idle_work->any()) {
    pthread_cond_wait(&pool.worker[i].wake, &pool.lock);
    return;
  }
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 1;
  if (pthread_cond_timedwait(&pool.worker[i].wake, &pool.lock, &until) != ETIMEDOUT) return;
  pthread_mutex_unlock(&pool.lock);
  idle_work->trim();
  pthread_mutex_lock(&pool.lock);
}

static void sleep_until_open(int i, uint32_t seen) {
  TIDE_LOCKED(&pool.lock);
  atomic_store(&pool.worker[i].asleep, true);
  while (!is_open(atomic_load(&pool.gate), i, seen) && !atomic_load(&pool.quit)) nap(i);
  atomic_store(&pool.worker[i].asleep, false);
}

static void *worker(void *number) {
  const int i = (int)(intptr_t)number;
  inside = is_worker = true;
  uint32_t seen = 0;
  int64_t idle_since = tide__os_ns();
  while (!atomic_load_explicit(&pool.quit, memory_order_acquire)) {
    if (enter(i, &seen)) {
      if (flushes() != pool.job.flush) flush(pool.job.flush);
      work();
      atomic_fetch_sub_explicit(&pool.gate, 1, memory_order_acq_rel);
      idle_since = tide__os_ns();
      continue;
    }
    for (int k = 0; k < 32; k++) pause_cpu();
    if (tide__os_ns() - idle_since > spin_ns) {
      sleep_until_open(i, seen);
      idle_since = tide__os_ns();
    }
  }
  return NULL;
}

/* In the child of a fork only the forking thread lives; what the workers held is made new. */
static void child_after_fork(void) {
  pthread_mutex_init(&pool.owner, NULL);
  pthread_mutex_init(&pool.lock, NULL);
  pool.started = 0;
  atomic_store(&pool.gate, 0);
}

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static void watch_forks(void) {
  pthread_atfork(NULL, NULL, child_after_fork);
  idle_work->watch_forks();
}

/* The owner lock is held. A thread that cannot be started is done without. */
static void start_workers(int count) {
  pthread_once(&fork_once, watch_forks);
  for (; pool.started < count; pool.started++) {
    int i = pool.started;
    pthread_cond_init(&pool.worker[i].wake, NULL);
    atomic_store(&pool.worker[i].asleep, false);
    if (pthread_create(&pool.worker[i].thread, NULL, worker, (void *)(intptr_t)i)) return;
  }
}

/* Those of the first `count` that sleep look at the gate again. */
static void wake(int count) {
  int i = 0;
  while (i < count && !atomic_load(&pool.worker[i].asleep)) i++;
  if (i == count) return;
  TIDE_LOCKED(&pool.lock);
  for (; i < count; i++)
    if (atomic_load(&pool.worker[i].asleep)) pthread_cond_signal(&pool.worker[i].wake);
}

static void stop_workers(void) {
  atomic_store(&pool.quit, true);
  wake(pool.started);
  for (int i = 0; i < pool.started; i++) {
    pthread_join(pool.worker[i].thread, NULL);
    pthread_cond_destroy(&pool.worker[i].wake);
  }
  pool.started = 0;
  atomic_store(&pool.quit, false);
}

void tide__parallel_shutdown(void) {
  TIDE_LOCKED(&pool.owner);
  stop_workers();
}

/* ---- the loop ---- */

static void open_gate(int room) {
  uint64_t gate = atomic_load(&pool.gate);
  uint64_t number = (gate >> 32) + 1;
  if ((uint32_t)number == 0) number = 1; /* 0 is what a new worker has seen */
  atomic_store(&pool.room, room);
  atomic_store(&pool.gate, (uint64_t)(uint32_t)number << 32 | GATE_OPEN);
  wake(room);
}

static void close_gate(void) {
  atomic_fetch_and(&pool.gate, ~GATE_OPEN);
  int64_t since = tide__os_ns();
  while (atomic_load_explicit(&pool.gate, memory_order_acquire) & GATE_INSIDE) {
    if (tide__os_ns() - since > spin_ns)
      tide__loop_stops(), sched_yield();
    else
      pause_cpu();
  }
}

/* The owner lock is held. `all` is how many threads there shall be, `threads` of them work. */
static void run_on_pool(int threads, int all, int64_t n, int64_t grain, tide_task_fn fn, void *arg) {
  if (pool.started > all - 1) stop_workers();
  start_workers(all - 1);
  int64_t pieces = (n + grain - 1) / grain, most = (int64_t)threads * CHUNKS_EACH;
  if (pieces > most) pieces = most;
  pool.job.fn = fn, pool.job.arg = arg, pool.job.n = n, pool.job.grain = grain;
  pool.job.flush = flushes(), pool.job.watched = watched || following;
  atomic_store_explicit(&pool.stop, interrupted, memory_order_relaxed);
  /* Chunks are whole grains, so that what a grain's author assumes about boundaries holds. */
  pool.job.chunk = ((n + pieces - 1) / pieces + grain - 1) / grain * grain;
  atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
  open_gate(threads - 1 < pool.started ? threads - 1 : pool.started);
  inside = true;
  work();
  close_gate();
  inside = false;
}

/* ---- the host's loop ---- */

/* A loop on threads of the host's, or a part of it that begins at `base`. */
typedef struct hosted {
  tide_task_fn fn;
  void *arg;
  int64_t base, grain;
  bool flush, watched;
  _Atomic bool stop; /* to be left undone */
} hosted;

static void run_hosted(void *arg, int64_t begin, int64_t end) {
  hosted *h = arg;
  bool before = h->flush && flushes();
  if (h->flush) flush(true);
  begin += h->base, end += h->base;
  if (h->watched) {
    _Atomic bool *outer = following;
    if (hosting != &h->stop) following = &h->stop;
    pace p = pace_begin(h->grain);
    run_pieces(h->fn, h->arg, begin, end, &p);
    following = outer;
  } else {
    h->fn(h->arg, begin, end);
  }
  if (h->flush) flush(before);
}

static void run_on_host(const tide_config *config, int64_t n, int64_t grain, tide_task_fn fn, void *arg) {
  hosted h = {.fn = fn, .arg = arg, .grain = grain, .flush = flushes(), .watched = watched || following};
  if (!h.flush && !h.watched) {
    config->parallel_for(config->user, n, grain, fn, arg);
    return;
  }
  _Atomic bool *outer = hosting;
  if (h.watched) hosting = &h.stop;
  pace p = {.piece = grain * HOST_GRAINS, .least = grain * (HOST_GRAINS / 4), .at = tide__os_ns()};
  if (!h.watched || n <= p.piece) p.piece = n;
  for (; h.base < n && !tide__loop_stops(); h.base += p.piece, pace_next(&p, host_ns))
    config->parallel_for(config->user, n - h.base < p.piece ? n - h.base : p.piece, grain, run_hosted, &h);
  hosting = outer;
}

void tide__parallel_for(int64_t n, int64_t grain, tide_task_fn fn, void *arg) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (n <= grain || inside) {
    fn(arg, 0, n);
    return;
  }
  const tide_config *config = tide__config();
  if (config->parallel_for) {
    run_on_host(config, n, grain, fn, arg);
    return;
  }
  int all = tide_get_num_threads(), threads = limit && limit < all ? limit : all;
  if (threads == 1 || pthread_mutex_trylock(&pool.owner)) {
    tide__serial_for(n, grain, fn, arg);
    return;
  }
  run_on_pool(threads, all, n, grain, fn, arg);
  pthread_mutex_unlock(&pool.owner);
}
