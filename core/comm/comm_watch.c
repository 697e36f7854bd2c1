/* comm_watch.c: collective operations that do not end.
 *
 * A device that hangs, or a link that is slow, keeps the others waiting, and the host with them, for streams wait for
 * each other inside an operation. So each operation has a time: the points that it sets on its streams anyway, where a
 * device comes to it and where it has done its part, are kept in a ring, and every wait of the host looks now and then
 * whether an operation of the device that it waits for is overdue. If so the wait ends, and the error names the
 * operation, its number and line, and the first rank that has not come, or else has not finished. Later waits end
 * likewise, at once, until the operation is done after all. There is no thread that watches: a program that waits for
 * nothing hangs nowhere.
 *
 * The ring remembers the last operations alone; where more are queued the oldest go first, and a later one on the same
 * streams hangs as well.
 *
 * Invariant: a point of a capture is never watched, since it never passes; the lock is held for queries of events, and
 * no backend asks for the wait while it holds a lock of its own. */
#include "comm.h"
#include "os/os.h"

#include <stdio.h>

enum { RING = 64 };

typedef struct watched {
  uint64_t number; /* of the operation; 0: the place is free */
  const char *what;
  double start, limit; /* seconds */
  uint64_t devices;    /* as bits */
  uint32_t site;
  tide__communicator *communicator;
  int n, room;
  struct tide__collective_entry *entry;
} watched;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static watched ring[RING];
static uint64_t last_number;
static _Atomic double timeout = 600;
static uint64_t late_devices; /* as bits: those that were found late since the start */
static double end_by;         /* while the runtime ends: when it waits for them no longer; else 0 */
static const double PATIENCE = 2;

tide_status tide_comm_set_timeout(double seconds) {
  if (!(seconds >= 0))
    return tide__fail(TIDE_VALUE, "comm.set_timeout: not a time, got %g, expected seconds, or 0 for no limit", seconds);
  atomic_store_explicit(&timeout, seconds, memory_order_relaxed);
  return TIDE_OK;
}

double tide_comm_get_timeout(void) { return atomic_load_explicit(&timeout, memory_order_relaxed); }

/* ---- the tracker of one operation ---- */

tide_status tide__tracker_point(const tide__point **out, tide__collective_tracker *tracker, tide_stream *stream,
                                int rank, bool arrival) {
  struct tide__collective_entry *e = &tracker->entry[tracker->n];
  if (tracker->n == TIDE__TRACKER_MOST)
    return tide__fail(TIDE_VALUE, "%s: too many parts, got more than %d, expected fewer", tracker->what,
                      TIDE_MAX_DEVICES);
  TIDE_TRY(tide__point_set(&e->point, stream, tracker->what));
  e->rank = rank, e->arrival = arrival;
  tracker->n++;
  *out = &e->point;
  return TIDE_OK;
}

/* With the lock held. */
static void forget(watched *w) {
  for (int i = 0; i < w->n; i++) tide__point_drop(&w->entry[i].point);
  if (w->number) atomic_fetch_sub_explicit(&tide__overdue_watched, 1, memory_order_relaxed);
  w->n = 0, w->number = 0;
}

/* With the lock held; false without memory: then nobody watches. */
static bool make_room(watched *w, int n) {
  if (n <= w->room) return true;
  struct tide__collective_entry *entry = realloc(w->entry, (size_t)n * sizeof *entry);
  if (entry) w->entry = entry, w->room = n;
  return entry != NULL;
}

static bool watch(const tide__collective_tracker *tracker, double limit) {
  TIDE_LOCKED(&lock);
  uint64_t number = ++last_number;
  watched *w = &ring[number % RING];
  forget(w);
  bool kept = make_room(w, tracker->n);
  if (kept) {
    w->number = number, w->what = tracker->what, w->start = tide__os_seconds(), w->limit = limit, w->devices = 0,
    w->n = tracker->n;
    w->site = tide__site_now(), w->communicator = tracker->communicator;
    memcpy(w->entry, tracker->entry, (size_t)tracker->n * sizeof *w->entry);
    for (int i = 0; i < w->n; i++) w->devices |= (uint64_t)1 << w->entry[i].point.device;
    atomic_fetch_add_explicit(&tide__overdue_watched, 1, memory_order_relaxed);
  }
  return kept;
}

tide_status tide__tracker_end(tide__collective_tracker *tracker, tide_status status) {
  double limit = tide_comm_get_timeout();
  bool watchable = status == TIDE_OK && limit > 0 && tracker->n > 0;
  for (int i = 0; i < tracker->n && watchable; i++) watchable = tracker->entry[i].point.captured == 0;
  if (watchable && watch(tracker, limit)) return status;
  for (int i = 0; i < tracker->n; i++) tide__point_drop(&tracker->entry[i].point);
  return status;
}

/* ---- who is late ---- */

/* A device that is lost, or cannot be asked, comes no more. */
static bool passed(const tide__point *point) {
  const tide_backend *b = tide__backend_peek(point->device);
  bool done = false;
  return b && !tide__device_lost(NULL, point->device) && b->event_query(&done, point->event) == TIDE_OK && done;
}

/* The first part that has not come, else the first that has not finished; NULL if the operation is done. */
static const struct tide__collective_entry *find_late(const watched *w) {
  const struct tide__collective_entry *late = NULL;
  for (int i = 0; i < w->n; i++) {
    const struct tide__collective_entry *e = &w->entry[i];
    if ((late && !e->arrival) || passed(&e->point)) continue;
    if (e->arrival) return e;
    late = e;
  }
  return late;
}

/* With the lock held. */
static tide_status tell(const watched *w, const struct tide__collective_entry *late, double waited) {
  char where[160], who[64];
  tide__site_text(w->site, where, sizeof where);
  if (late->rank >= 0)
    snprintf(who, sizeof who, "rank %lld (cuda:%d)", (long long)tide__shown(late->rank), late->point.device);
  else
    snprintf(who, sizeof who, "the %s (cuda:%d)", late->rank == TIDE__RANK_SOURCE ? "source" : "destination",
             late->point.device);
  late_devices |= (uint64_t)1 << late->point.device;
  bool lost = tide__device_lost(NULL, late->point.device);
  return tide__fail_peer(
      late->point.device, 0, "commTimeout",
      "%s: %s has not %s operation %llu%s%s%s, got %.3g s since it was queued, expected at most %.3g "
      "s, the time limit of collective operations",
      w->what, who, late->arrival ? "come to" : "finished", (unsigned long long)w->number, where[0] ? " of " : "",
      where, lost ? ", its device is lost" : "", waited, w->limit);
}

/* No later operation of an aborted communicator is done any more either. */
static void abort_all(tide__communicator *c) {
  for (int i = 0; i < RING; i++)
    if (ring[i].number && ring[i].communicator == c) forget(&ring[i]);
  tide__communicator_abort(c);
}

/* A communicator that has met an error tells so at once, without waiting for the time. */
static tide_status check_health(watched *w) {
  int rank = -1;
  char cause[512];
  if (!w->communicator || tide__communicator_health(w->communicator, &rank) == TIDE_OK) return TIDE_OK;
  const tide_error *e = tide_error_get();
  int code = e->code;
  char name[64];
  snprintf(cause, sizeof cause, "%s", e->message);
  snprintf(name, sizeof name, "%s", e->name);
  const struct tide__collective_entry *late = find_late(w);
  if (!late) return TIDE_OK; /* this operation was done before */
  for (int i = 0; i < w->n; i++)
    if (w->entry[i].rank == rank) late = &w->entry[i];
  tide_status status =
      tide__fail_peer(late->point.device, code, name, "%s: rank %lld (cuda:%d) failed in operation %llu: %s", w->what,
                      (long long)tide__shown(late->rank), late->point.device, (unsigned long long)w->number, cause);
  abort_all(w->communicator);
  return status;
}

static tide_status check_time(watched *w, double time) {
  if (time - w->start < w->limit) return TIDE_OK;
  const struct tide__collective_entry *late = find_late(w);
  tide_status status = late ? tell(w, late, time - w->start) : TIDE_OK;
  bool lost = late && tide__device_lost(NULL, late->point.device);
  if (late && w->communicator)
    abort_all(w->communicator);
  else if (!late || lost) /* what waits for a lost device may go on by now: it is told once */
    forget(w);
  return status;
}

tide_status tide__comm_overdue(int device) {
  if (device < 0) return TIDE_OK;
  tide_status status = TIDE_OK;
  double time = tide__os_seconds();
  TIDE_LOCKED(&lock);
  if (end_by > 0 && time > end_by && late_devices >> device & 1)
    status = tide__fail_peer(device, 0, "commTimeout", "shutdown: %s was late before and has not come to rest",
                             tide__device_text(device));
  for (uint64_t k = 1; k <= RING && status == TIDE_OK; k++) {
    watched *w = &ring[(last_number + k) % RING]; /* the oldest first */
    if (!w->number || !(w->devices >> device & 1)) continue;
    status = check_health(w);
    if (status == TIDE_OK && w->number) status = check_time(w, time);
  }
  return status;
}

/* A device that hangs must not keep a host from ending. */
void tide__comm_ending(void) {
  TIDE_LOCKED(&lock);
  if (late_devices) {
    end_by = tide__os_seconds() + PATIENCE;
    atomic_fetch_add_explicit(&tide__overdue_watched, 1, memory_order_relaxed);
  }
}

void tide__comm_watch_shutdown(void) {
  TIDE_LOCKED(&lock);
  if (end_by > 0) atomic_fetch_sub_explicit(&tide__overdue_watched, 1, memory_order_relaxed);
  end_by = 0, late_devices = 0;
  for (int i = 0; i < RING; i++) {
    forget(&ring[i]);
    free(ring[i].entry);
    ring[i].entry = NULL, ring[i].room = 0;
  }
}
