/* sanitizer.c: the stream sanitizer: tells a program that two of its operations touch the same bytes in no order.
 *
 * It watches through observe.h. Before an operation is queued, each of its operands is held against what is known of
 * its storage: an access of another stream that this one is not ordered behind, one of the two a write, with a byte in
 * common, is a race. Whether it does harm is a matter of luck; so what happened to be finished does not count, only
 * what somebody waited for. The host is a stream of its own kind: what it does itself is over at once and so comes
 * before whatever it queues later; what was queued comes before what the host does only after a wait.
 *
 * regions   which bytes an operand has, to the byte     sanitizer_region.c
 * clocks    who has waited for what                     sanitizer_clock.c
 * histories what each storage has seen                  sanitizer_history.c, sanitizer_reuse.c
 * reports   the list, and the words                     sanitizer_report.c
 *
 * What cannot be known is taken for ordered: work from before the sanitizer was on, graphs that were captured before
 * it, events of other processes. A replay touches what its capture has recorded, at once. What an operation that failed
 * was about to touch is forgotten. One lock guards everything; it is the last one that is taken, and nothing is called
 * with it held but the stream's handle.
 *
 * Invariant: without memory it forgets; it never fails an operation but for a race. */
#include "sanitizer.h"

enum { FRESH = 8 };

pthread_mutex_t tide__sanitizer_lock = PTHREAD_MUTEX_INITIALIZER;
static bool on;
static tide_sanitizer_action action;

/* What was found about one operation. */
typedef struct verdict {
  bool failed; /* `race` refuses the operation */
  tide_race race;
  int fresh[FRESH], n;             /* places in the list, to be warned of */
  const tide__touch *other[FRESH]; /* with what it races: each counts once, however many operands meet it */
  int others;
} verdict;

/* ---- one operation ---- */

static inline bool concerns(const tide__access *a) { return a->x->numel > 0 && a->x->storage->tracked; }

static bool concerned(const tide__operation *op) {
  if (op->graph) return true;
  for (int i = 0; i < op->n; i++)
    if (concerns(&op->access[i])) return true;
  return false;
}

/* The operation as an access of nothing yet. */
static tide__touch touch_of(const tide__operation *op, const tide__timeline *line) {
  tide__touch t = {.site = op->site, .what = (uint16_t)op->what, .detail = (uint16_t)op->detail, .device = TIDE_CPU};
  if (!line) {
    t.site = tide__site_now();
    return t;
  }
  t.slot = (uint16_t)line->slot, t.epoch = line->clock.at[line->slot];
  t.device = line->device, t.stream = line->handle, t.is_default = line->is_default;
  return t;
}

static bool counted(verdict *v, const tide__touch *other) {
  for (int i = 0; i < v->others; i++)
    if (v->other[i]->site == other->site && v->other[i]->what == other->what && v->other[i]->slot == other->slot)
      return true;
  if (v->others < FRESH) v->other[v->others++] = other;
  return false;
}

/* Looks for a race of t with what the storage has seen; false: the operation is refused. */
static bool look(verdict *v, const tide__history *h, const tide__touch *t, const tide__clock *clock) {
  bool fresh;
  const tide__touch *other = tide__history_race(h, t, clock);
  if (!other || counted(v, other)) return true;
  int at = tide__race_note(&v->race, &fresh, other, t, clock);
  v->failed = action == TIDE_SANITIZER_ERROR;
  if (fresh && v->n < FRESH) v->fresh[v->n++] = at;
  return !v->failed;
}

static bool judge_operands(verdict *v, const tide__operation *op, const tide__timeline *line) {
  const tide__clock *clock = line ? &line->clock : tide__clock_host();
  uint64_t capture = tide__capture_id(op->stream);
  tide__history *h[TIDE__ACCESSES];
  tide__touch t = touch_of(op, line);
  for (int i = 0; i < op->n; i++) {
    const tide__access *a = &op->access[i];
    if (!concerns(a)) continue;
    t.write = a->write, t.input = a->input;
    tide__region_of(&t.region, a->x);
    h[i] = line ? tide__history_get(a->x->storage, capture) : tide__history_find(a->x->storage, 0);
    if (line && !h[i]) return false;
    if (!look(v, h[i], &t, clock)) return true;
  }
  bool ok = true;
  for (int i = 0; line && i < op->n; i++) {
    const tide__access *a = &op->access[i];
    if (!concerns(a)) continue;
    t.write = a->write, t.input = a->input;
    tide__region_of(&t.region, a->x);
    ok = tide__history_add(h[i], &t, clock) && ok;
  }
  return ok;
}

/* One access of the capture, as the replay does it. */
static tide__touch replayed(const tide__touch *captured, const tide__touch *replay) {
  tide__touch t = *captured;
  t.slot = replay->slot, t.epoch = replay->epoch, t.replay = replay->site;
  t.device = replay->device, t.stream = replay->stream, t.is_default = replay->is_default;
  return t;
}

static bool judge_replay(verdict *v, const tide__operation *op, const tide__timeline *line) {
  const tide__footprint *f = tide__footprint_find(op->graph->capture.id);
  tide__touch replay = touch_of(op, line);
  for (const tide__history *h = f ? f->first : NULL; h; h = h->next)
    for (int i = 0; i < h->n; i++) {
      tide__touch t = replayed(&h->touch[i], &replay);
      const tide__history *known = tide__history_get(h->storage, 0);
      if (!known) return false;
      if (!look(v, known, &t, &line->clock)) return true;
    }
  bool ok = true;
  for (const tide__history *h = f ? f->first : NULL; h; h = h->next)
    for (int i = 0; i < h->n; i++) {
      tide__touch t = replayed(&h->touch[i], &replay);
      ok = tide__history_add(tide__history_find(h->storage, 0), &t, &line->clock) && ok;
    }
  return ok;
}

static void judge(verdict *v, const tide__operation *op) {
  tide__timeline *line = NULL;
  bool ok = op->stream->device < 0 || (line = tide__timeline_of(op->stream));
  if (ok) ok = op->graph ? judge_replay(v, op, line) : judge_operands(v, op, line);
  if (!ok) tide__history_clear();
}

static tide_status before(const tide__operation *op) {
  if (!concerned(op)) return TIDE_OK;
  verdict v;
  v.failed = false, v.n = v.others = 0;
  pthread_mutex_lock(&tide__sanitizer_lock);
  if (on) judge(&v, op);
  bool warns = action == TIDE_SANITIZER_WARN;
  pthread_mutex_unlock(&tide__sanitizer_lock);
  for (int i = 0; warns && i < v.n; i++)
    if (tide_sanitizer_error(&v.race, v.fresh[i])) tide__warn(v.race.message);
  return v.failed ? tide__race_fail(&v.race) : TIDE_OK;
}

/* What was noted of an operation that was not queued after all. */
static void after(const tide__operation *op, tide_status status) {
  if (status == TIDE_OK || !concerned(op)) return;
  TIDE_LOCKED(&tide__sanitizer_lock);
  for (int i = 0; i < op->n; i++)
    if (concerns(&op->access[i])) tide__history_forget(op->access[i].x->storage);
  if (op->graph) tide__history_clear();
}

/* ---- waits and ends ---- */

/* Takes note of an order. One that was missed for want of memory could make a race of what is none. */
#define NOTE(call)                                                                                                     \
  do {                                                                                                                 \
    pthread_mutex_lock(&tide__sanitizer_lock);                                                                         \
    if (on && !(call)) tide__history_clear();                                                                          \
    pthread_mutex_unlock(&tide__sanitizer_lock);                                                                       \
  } while (0)

static void recorded(const void *mark, const tide_stream *stream) { NOTE(tide__clock_record(mark, stream)); }
static void waits_event(const tide_stream *stream, const tide_event *event) {
  NOTE(tide__clock_wait_event(stream, event));
}
static void waits_mark(const tide_stream *stream, const void *mark) { NOTE(tide__clock_wait_mark(stream, mark)); }
static void host_event(const tide_event *event) { NOTE(tide__clock_host_event(event)); }
static void host_stream(const tide_stream *stream) { NOTE(tide__clock_host_stream(stream)); }
static void host_device(int device) { NOTE(tide__clock_host_device(device)); }

static void mark_gone(const void *mark) {
  TIDE_LOCKED(&tide__sanitizer_lock);
  tide__clock_mark_gone(mark);
}

static void storage_gone(tide_storage *s) {
  TIDE_LOCKED(&tide__sanitizer_lock);
  tide__history_end(s);
}

static void memory_settled(void) {
  TIDE_LOCKED(&tide__sanitizer_lock);
  tide__reuse_clear();
}

static void capture_gone(uint64_t capture) {
  TIDE_LOCKED(&tide__sanitizer_lock);
  tide__footprint_forget(capture);
}

static void rebound(uint64_t capture, int input, const tide_storage *from, const tide_storage *to, int64_t shift) {
  NOTE(tide__history_rebind(capture, input, from, to, shift));
}

/* ---- on and off ---- */

static const tide__observer observer = {.before = before,
                                        .after = after,
                                        .recorded = recorded,
                                        .waits_event = waits_event,
                                        .waits_mark = waits_mark,
                                        .host_event = host_event,
                                        .host_stream = host_stream,
                                        .host_device = host_device,
                                        .mark_gone = mark_gone,
                                        .storage_gone = storage_gone,
                                        .memory_settled = memory_settled,
                                        .capture_gone = capture_gone,
                                        .rebound = rebound};

void tide__sanitizer_forget(void) {
  TIDE_LOCKED(&tide__sanitizer_lock);
  tide__history_clear();
  tide__clock_clear();
}

tide_status tide_sanitizer_enable(tide_sanitizer_action wanted) {
  if ((unsigned)wanted > TIDE_SANITIZER_WARN)
    return tide__fail(TIDE_VALUE, "sanitizer_enable: unknown action, got %d, expected 0 or 1", (int)wanted);
  TIDE_LOCKED(&tide__sanitizer_lock);
  tide__race_clear();
  action = wanted;
  on = true;
  tide__observer_set(TIDE__SANITIZER, &observer); /* under the lock: who notes an access will tell its waits too */
  return TIDE_OK;
}

void tide_sanitizer_disable(void) {
  TIDE_LOCKED(&tide__sanitizer_lock);
  on = false;
  tide__observer_set(TIDE__SANITIZER, NULL);
  tide__history_clear();
  tide__clock_clear();
}

bool tide_sanitizer_is_enabled(void) {
  TIDE_LOCKED(&tide__sanitizer_lock);
  return on;
}

void tide__sanitizer_start(void) {
  const char *text = getenv("TIDE_CUDA_SANITIZER");
  if (!text || !*text || !strcmp(text, "0") || tide_sanitizer_is_enabled()) return;
  (void)tide_sanitizer_enable(strcmp(text, "warn") ? TIDE_SANITIZER_ERROR : TIDE_SANITIZER_WARN);
}
