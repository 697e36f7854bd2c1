/* quota.c: what untrusted work may take, and what it has taken.
 *
 * A quota is bound to a thread with the tide_current that has it. Storages that were made under it hold it until they
 * go, on whatever thread that is, so that its figures are exact. Where no quota exists each question is one load.
 *
 * Invariant: what was refused is not counted. */
#include "quota.h"

#include <stdlib.h>
#include <time.h>

#include "tide/debug.h"

struct tide_quota {
  _Atomic int64_t refs;
  _Atomic int64_t limit[TIDE_QUOTA_KINDS], used[TIDE_QUOTA_KINDS]; /* of times, the moment when they began */
  _Atomic int64_t overrun[TIDE_QUOTA_KINDS];                       /* when it was first noticed, and 1 */
  _Atomic int64_t cpu_look; /* before this moment the processor time cannot be used up, which is slow to ask for */
  _Atomic int cpu_clock;    /* of the thread that has set its limit */
  _Atomic int refused;      /* the kind of time that could not pay for some work, or 0 */
  _Atomic bool stopped, no_waits;
  _Atomic uint64_t ended;
  uint16_t owner;
  uint64_t tenant;
};

enum { EXTRA = 512 }; /* what a storage costs beside its bytes */

_Atomic int tide__quotas;
static _Thread_local tide_quota *bound;

tide_quota *tide__quota_bound_slow(void) { return bound; }
void tide__quota_bind(tide_quota *quota) { bound = quota; }

/* ---- owners ---- */

static _Atomic uint64_t owners[TIDE_LAUNCH_OWNERS / 64] = {1}; /* 0 is everybody's who has no quota */

/* 0, too, where there are no more. */
static uint16_t owner_take(void) {
  for (unsigned i = 0; i < TIDE_LAUNCH_OWNERS; i++)
    if (!(atomic_fetch_or(&owners[i / 64], (uint64_t)1 << i % 64) >> i % 64 & 1)) return (uint16_t)i;
  return 0;
}

static void owner_give(unsigned i) {
  if (i) atomic_fetch_and(&owners[i / 64], ~((uint64_t)1 << i % 64));
}

_Atomic uint64_t tide__launch_numbers;
uint64_t tide__quota_ended(const tide_quota *q) { return atomic_load(&q->ended); }
uint64_t tide__tenant_of(const tide_quota *q) { return q ? q->tenant : 0; }
uint16_t tide__quota_owner(const tide_quota *q) { return q ? q->owner : 0; }

/* 0 of a thread that is no more. */
static int64_t read_clock(clockid_t clock) {
  struct timespec t;
  return clock_gettime(clock, &t) ? 0 : t.tv_sec * (int64_t)1000000 + t.tv_nsec / 1000;
}

static int64_t microseconds(void) { return read_clock(CLOCK_MONOTONIC); }

static bool is_time(int kind) { return kind == TIDE_QUOTA_MICROSECONDS || kind == TIDE_QUOTA_CPU; }

/* The moment from which a kind of time counts: now, on this thread. */
static int64_t begin_time(tide_quota *q, int kind) {
  clockid_t clock = CLOCK_THREAD_CPUTIME_ID; /* of whoever asks, where no other one's can be read */
  if (kind == TIDE_QUOTA_MICROSECONDS) return microseconds();
#ifdef __linux__
  pthread_getcpuclockid(pthread_self(), &clock);
#endif
  atomic_store(&q->cpu_clock, (int)clock);
  atomic_store(&q->cpu_look, 0);
  return read_clock(clock);
}

tide_status tide_quota_new(tide_quota **out) {
  TIDE_GIVEN("quota_new", out);
  tide_quota *q = calloc(1, sizeof *q);
  if (!q) return tide__fail(TIDE_MEMORY, "quota: no host memory");
  atomic_init(&q->refs, 1);
  static _Atomic uint64_t tenants;
  q->owner = owner_take();
  q->tenant = atomic_fetch_add(&tenants, 1) + 1;
  for (int k = 0; k < TIDE_QUOTA_KINDS; k++) atomic_init(&q->limit[k], -1);
  for (int k = 0; k < TIDE_QUOTA_KINDS; k++)
    if (is_time(k)) atomic_store(&q->used[k], begin_time(q, k));
  atomic_fetch_add(&tide__quotas, 1);
  *out = q;
  return TIDE_OK;
}

tide_quota *tide__quota_retain(tide_quota *q) {
  if (q) atomic_fetch_add_explicit(&q->refs, 1, memory_order_relaxed);
  return q;
}

void tide_quota_release(tide_quota *q) {
  if (!q || atomic_fetch_sub_explicit(&q->refs, 1, memory_order_acq_rel) != 1) return;
  atomic_fetch_sub(&tide__quotas, 1);
  owner_give(q->owner);
  free(q);
}

static bool is_bytes(tide_quota_kind kind) { return kind == TIDE_QUOTA_DEVICE_BYTES || kind == TIDE_QUOTA_HOST_BYTES; }

void tide_quota_limit(tide_quota *q, tide_quota_kind kind, int64_t limit) {
  if (!q) return;
  if ((unsigned)kind >= TIDE_QUOTA_KINDS) return;
  if (tide__quota_over(q)) atomic_store(&q->ended, atomic_load(&tide__launch_numbers));
  if (!is_bytes(kind)) atomic_store(&q->used[kind], is_time(kind) ? begin_time(q, kind) : 0);
  atomic_store(&q->overrun[kind], 0);
  if (atomic_load(&q->refused) == (int)kind) atomic_store(&q->refused, 0);
  atomic_store(&q->limit[kind], limit < 0 ? -1 : limit);
}

int64_t tide_quota_get_limit(const tide_quota *q, tide_quota_kind kind) {
  if (!q) return 0;
  return (unsigned)kind < TIDE_QUOTA_KINDS ? atomic_load(&q->limit[kind]) : -1;
}

int64_t tide_quota_used(const tide_quota *q, tide_quota_kind kind) {
  if (!q) return 0;
  if ((unsigned)kind >= TIDE_QUOTA_KINDS) return 0;
  int64_t used = atomic_load_explicit(&q->used[kind], memory_order_relaxed);
  if (!is_time(kind)) return used;
  int64_t now = read_clock(kind == TIDE_QUOTA_CPU ? (clockid_t)atomic_load(&q->cpu_clock) : (clockid_t)CLOCK_MONOTONIC);
  return now > used ? now - used : 0;
}

int64_t tide_quota_overrun(const tide_quota *q, tide_quota_kind kind) {
  int64_t noted = q && (unsigned)kind < TIDE_QUOTA_KINDS ? atomic_load(&q->overrun[kind]) : 0;
  return noted ? noted - 1 : 0;
}

void tide_quota_stop(tide_quota *q, bool stopped) {
  if (!q) return;
  atomic_store(&q->stopped, stopped);
}
void tide_quota_refuse_waits(tide_quota *q, bool refused) {
  if (!q) return;
  atomic_store(&q->no_waits, refused);
}

/* ---- what may go on ---- */

static const char *const names[TIDE_QUOTA_KINDS] = {"bytes on devices",
                                                    "bytes in host memory",
                                                    "launches",
                                                    "compilations",
                                                    "instructions",
                                                    "microseconds",
                                                    "microseconds of a kernel",
                                                    "microseconds of processor time"};

static int64_t limit_of(const tide_quota *q, int kind) {
  return atomic_load_explicit(&q->limit[kind], memory_order_relaxed);
}

static bool cpu_is_spent(const tide_quota *quota, int64_t limit) {
  tide_quota *q = (tide_quota *)quota; /* the moment is only remembered */
  if (limit < 0) return false;
  int64_t now = microseconds();
  if (now < atomic_load_explicit(&q->cpu_look, memory_order_relaxed)) return false;
  int64_t left = limit - tide_quota_used(q, TIDE_QUOTA_CPU);
  if (left >= 0) atomic_store_explicit(&q->cpu_look, now + left, memory_order_relaxed);
  return left < 0;
}

/* The kind that is used up, or KINDS. */
static int spent(const tide_quota *q) {
  for (int k = TIDE_QUOTA_LAUNCHES; k <= TIDE_QUOTA_MICROSECONDS; k++) {
    int64_t limit = limit_of(q, k);
    if (limit >= 0 && tide_quota_used(q, (tide_quota_kind)k) > limit) return k;
  }
  if (cpu_is_spent(q, limit_of(q, TIDE_QUOTA_CPU))) return TIDE_QUOTA_CPU;
  int refused = atomic_load_explicit(&q->refused, memory_order_relaxed);
  return refused ? refused : TIDE_QUOTA_KINDS;
}

static tide_status fail_spent(tide_quota *q, int kind) {
  int64_t over = tide_quota_used(q, (tide_quota_kind)kind) - limit_of(q, kind), none = 0;
  atomic_compare_exchange_strong(&q->overrun[kind], &none, over > 0 ? over + 1 : 1);
  return tide__fail(TIDE_QUOTA, "quota: the %lld %s that the host allows are used up%s", (long long)limit_of(q, kind),
                    names[kind], over < 0 ? ": what is left is less than one operation takes" : "");
}

int64_t tide_quota_left(const tide_quota *q) {
  int64_t least = INT64_MAX;
  if (!q) return least;
  for (int k = TIDE_QUOTA_MICROSECONDS; k < TIDE_QUOTA_KINDS; k++) {
    int64_t limit = is_time(k) ? limit_of(q, k) : -1;
    if (limit < 0) continue;
    int64_t left = limit - tide_quota_used(q, (tide_quota_kind)k);
    if (left < least) least = left;
  }
  return least > 0 ? least : 0;
}

tide_status tide_quota_afford(tide_quota *q, int64_t more) {
  TIDE_GIVEN("quota_afford", q);
  for (int k = TIDE_QUOTA_MICROSECONDS; k < TIDE_QUOTA_KINDS; k++) {
    int64_t limit = is_time(k) ? limit_of(q, k) : -1;
    if (limit < 0 || tide_quota_used(q, (tide_quota_kind)k) <= limit + limit / 40 + 2000 - more) continue;
    atomic_store(&q->refused, k);
    break;
  }
  return tide_quota_check(q);
}

tide_status tide_quota_check(tide_quota *q) {
  TIDE_GIVEN("quota_check", q);
  if (atomic_load_explicit(&q->stopped, memory_order_relaxed))
    return tide__fail(TIDE_INTERRUPTED, "quota: the host has ended this work");
  int kind = spent(q);
  return kind < TIDE_QUOTA_KINDS ? fail_spent(q, kind) : TIDE_OK;
}

tide_status tide_quota_spend(tide_quota *q, tide_quota_kind kind, int64_t n) {
  TIDE_GIVEN("quota_spend", q);
  TIDE_RANGE("quota_spend", kind, TIDE_QUOTA_KINDS);
  TIDE_TRY(tide_quota_check(q));
  if (kind < TIDE_QUOTA_LAUNCHES || kind >= TIDE_QUOTA_MICROSECONDS) return TIDE_OK; /* times pass by themselves */
  int64_t limit = limit_of(q, kind), before = atomic_fetch_add_explicit(&q->used[kind], n, memory_order_relaxed);
  return limit >= 0 && before + n > limit ? fail_spent(q, kind) : TIDE_OK;
}

void tide__quota_uncount(tide_quota *q, tide_quota_kind kind) {
  int64_t used = atomic_load(&q->used[kind]);
  while (used > 0 && !atomic_compare_exchange_weak(&q->used[kind], &used, used - 1))
    continue; /* 0: a new limit is set */
}

bool tide__quota_over(const tide_quota *q) {
  return atomic_load_explicit(&q->stopped, memory_order_relaxed) || spent(q) < TIDE_QUOTA_KINDS;
}

bool tide_quota_ended(const tide_quota *q) { return q && tide__quota_over(q); }

bool tide__quota_ends(void) {
  const tide_quota *q = tide__quota_bound();
  return q && tide__quota_over(q);
}

tide_status tide__quota_fits(const char *what, double us) {
  double left = (double)tide_quota_left(tide__quota_bound());
  if (us <= left) return TIDE_OK;
  return tide__fail(TIDE_QUOTA,
                    "%s: takes at least %.0f ms, expected at most the %.0f ms that are left of what the host allows",
                    what, us / 1000, left / 1000);
}

tide_status tide__quota_interrupted(const char *what) {
  tide_quota *q = tide__quota_bound();
  if (q) TIDE_TRY(tide_quota_check(q));
  return *what ? tide__fail(TIDE_INTERRUPTED, "%s: interrupted", what) : tide__fail(TIDE_INTERRUPTED, "interrupted");
}

static _Thread_local const char *refused; /* why nothing may wait, or NULL */

const char *tide_refuse_waits(const char *why) {
  const char *before = refused;
  refused = why;
  return before;
}

tide_status tide__waits_refused(const char *what) {
  char line[160];
  if (!refused) return TIDE_OK;
  tide__site_text(tide__site_now(), line, sizeof line);
  return tide__fail(TIDE_STATE, "%s: would make the host wait for a device%s%s, %s", what, *line ? " at " : "", line,
                    refused);
}

tide_status tide__quota_waits(const char *what) {
  TIDE_TRY(tide__waits_refused(what));
  const tide_quota *q = tide__quota_bound();
  if (!q || !atomic_load_explicit(&q->no_waits, memory_order_relaxed)) return TIDE_OK;
  return tide__fail(TIDE_PERMISSION, "%s: would make the host wait for a device, which it has not granted (WAITS)",
                    what);
}

/* ---- bytes ---- */

static tide_quota_kind kind_on(int device) { return device < 0 ? TIDE_QUOTA_HOST_BYTES : TIDE_QUOTA_DEVICE_BYTES; }

static tide_status take(tide_quota *q, int64_t more, int64_t said, tide_quota_kind kind) {
  int64_t limit = limit_of(q, kind);
  TIDE_TRY(tide_quota_check(q));
  int64_t now = atomic_load_explicit(&q->used[kind], memory_order_relaxed);
  do {
    if (limit >= 0 && (now > limit || more > limit - now))
      return tide__fail(TIDE_QUOTA,
                        "quota: got %lld more bytes beside %lld, expected at most the %lld %s that the host allows",
                        (long long)said, (long long)now, (long long)limit, names[kind]);
  } while (!atomic_compare_exchange_weak(&q->used[kind], &now, now + more));
  return TIDE_OK;
}

tide_status tide__quota_move(tide_quota *q, int64_t by, int device) {
  if (by > 0) return take(q, by, by, kind_on(device));
  atomic_fetch_add_explicit(&q->used[kind_on(device)], by, memory_order_relaxed);
  return TIDE_OK;
}

tide_status tide__quota_take_slow(tide_quota **out, tide_quota *q, size_t bytes, int device) {
  int64_t most = bytes > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)bytes;
  TIDE_TRY(take(q, most + EXTRA, most, kind_on(device)));
  *out = tide__quota_retain(q);
  return TIDE_OK;
}

static void (*collect)(int device, size_t bytes);
void tide__quota_collect_by(void (*fn)(int device, size_t bytes)) { collect = fn; }

tide_status tide__quota_charge(tide_quota **out, size_t bytes, int device) {
  if (tide__quota_take(out, bytes, device) == TIDE_OK) return TIDE_OK;
  collect(device, bytes);
  return tide__quota_take(out, bytes, device);
}

void tide__quota_give(tide_quota *q, size_t bytes, int device) {
  atomic_fetch_sub_explicit(&q->used[kind_on(device)], (int64_t)bytes + EXTRA, memory_order_relaxed);
  tide_quota_release(q);
}
