/* sanitizer_clock.c: vector clocks: which part of whose work lies before what comes next on a stream, or in the
 * program.
 *
 * Each of the driver's streams has a timeline with a slot. Its clock says, for each slot, up to which epoch of that
 * timeline it is ordered behind; its own entry is the epoch that it is in, which ends when somebody learns of it: an
 * event is recorded there, another stream or the host waits for it. So all accesses of one epoch are alike to
 * everybody. Events keep a copy of a clock. The host is one clock, however many threads it has, which every stream
 * joins before it is given work; it has no epochs of its own, because what the host did itself is over before it queues
 * anything.
 *
 * Handles tell timelines apart, so that two objects for one stream of the driver are one. Streams that are captured
 * have timelines of their own until the capture ends. The legacy stream waits for the foreign streams of its device and
 * they for it, as they would if nobody made them non-blocking. An event that other processes may record stands for all
 * that there is.
 *
 * There are MOST slots. When they are used up the timeline that was asked for least recently gives its slot away; the
 * new one goes on with its epochs and counts as ordered behind everything, also if it is the old one that comes back.
 *
 * Invariant: whatever is not known is taken for ordered; a clock never forgets. */
#include "sanitizer.h"

enum { MOST = 256, CACHE = 64, BUCKETS = 256 };

static tide__timeline *lines[MOST];
static int count;
static uint64_t asked; /* counts, for `used` */

static tide__clock host;
static uint64_t host_version;

static struct {
  uint64_t id; /* of the stream, or in its capture */
  tide__timeline *line;
} cache[CACHE];

typedef struct known_mark {
  struct known_mark *next;
  const void *mark;
  tide__clock clock;
} known_mark;
static known_mark *marks[BUCKETS];

/* ---- clocks ---- */

static bool reserve(tide__clock *c, int n) {
  if (n <= c->room) return true;
  int room = n + 8;
  uint64_t *at = realloc(c->at, (size_t)room * sizeof *at);
  if (!at) return false;
  c->at = at, c->room = room;
  return true;
}

static bool reach(tide__clock *c, int slot, uint64_t epoch) {
  if (slot >= c->n) {
    if (!reserve(c, slot + 1)) return false;
    memset(c->at + c->n, 0, (size_t)(slot + 1 - c->n) * sizeof *c->at);
    c->n = slot + 1;
  }
  if (c->at[slot] < epoch) c->at[slot] = epoch;
  return true;
}

static bool join(tide__clock *into, const tide__clock *from) {
  if (from->n == 0 || into == from) return true;
  if (!reach(into, from->n - 1, from->at[from->n - 1])) return false;
  for (int i = 0; i < from->n; i++)
    if (into->at[i] < from->at[i]) into->at[i] = from->at[i];
  return true;
}

/* Somebody learns of all that the timeline has done. */
static bool learn(tide__clock *into, tide__timeline *t) {
  if (into == &t->clock) return true;
  bool ok = join(into, &t->clock);
  t->clock.at[t->slot]++;
  return ok;
}

static bool learn_all(tide__clock *into, int device) {
  for (int i = 0; i < count; i++)
    if ((device < 0 || lines[i]->device == device) && !learn(into, lines[i])) return false;
  return true;
}

const tide__clock *tide__clock_host(void) { return &host; }

/* ---- timelines ---- */

static tide__timeline *match(int device, bool captured, uint64_t key) {
  for (int i = 0; i < count; i++)
    if (lines[i]->key == key && lines[i]->device == device && lines[i]->captured == captured) return lines[i];
  return NULL;
}

static tide__timeline *line_new(void) {
  tide__timeline *t = calloc(1, sizeof *t);
  if (!t || !reach(&t->clock, count, 1)) {
    free(t);
    return NULL;
  }
  t->slot = count;
  return lines[count++] = t;
}

static tide__timeline *line_reuse(void) {
  tide__timeline *t = lines[0];
  for (int i = 1; i < count; i++)
    if (lines[i]->used < t->used) t = lines[i];
  memset(cache, 0, sizeof cache);
  t->clock.at[t->slot]++;
  return learn_all(&t->clock, TIDE_CPU) ? t : NULL;
}

static tide__timeline *find(const tide_stream *stream) {
  bool captured = stream->capture != NULL;
  uint64_t id = captured ? atomic_load_explicit(&stream->use_id, memory_order_relaxed) : stream->id;
  tide__timeline *t = cache[id % CACHE].line;
  if (t && cache[id % CACHE].id == id) return t;
  uint64_t handle = tide__stream_handle(stream);
  uint64_t key = captured ? id : handle;
  t = match(stream->device, captured, key);
  if (!t) {
    t = count < MOST ? line_new() : line_reuse();
    if (!t) return NULL;
    t->device = stream->device, t->captured = captured, t->key = key, t->handle = handle;
    t->foreign = true, t->is_default = false;
  }
  t->is_default |= stream->is_default;
  t->foreign &= stream->external;
  cache[id % CACHE].id = id, cache[id % CACHE].line = t;
  return t;
}

/* What the legacy stream and the blocking streams of its device do by themselves. */
static bool order_legacy(tide__timeline *t) {
  bool ok = true;
  for (int i = 0; i < count; i++) {
    tide__timeline *other = lines[i];
    if (other != t && other->foreign && other->device == t->device && !other->captured && (!t->key || !other->key))
      ok = learn(&t->clock, other) && ok;
  }
  return ok;
}

tide__timeline *tide__timeline_of(const tide_stream *stream) {
  tide__timeline *t = find(stream);
  if (!t) return NULL;
  t->used = ++asked;
  bool ok = true;
  if (t->host_seen != host_version && !t->captured) {
    ok = join(&t->clock, &host);
    t->host_seen = host_version;
  }
  if (t->foreign && !t->captured) ok = order_legacy(t) && ok;
  return ok ? t : NULL;
}

/* ---- marks ---- */

static known_mark **place_of(const void *mark) {
  known_mark **p = &marks[((uintptr_t)mark >> 4) % BUCKETS];
  while (*p && (*p)->mark != mark) p = &(*p)->next;
  return p;
}

bool tide__clock_record(const void *mark, const tide_stream *stream) {
  tide__timeline *t = tide__timeline_of(stream);
  known_mark **place = place_of(mark), *m = *place;
  if (!m && (m = calloc(1, sizeof *m))) {
    m->mark = mark;
    *place = m;
  }
  if (!t || !m) return false;
  m->clock.n = 0;
  return learn(&m->clock, t);
}

void tide__clock_mark_gone(const void *mark) {
  known_mark **place = place_of(mark), *m = *place;
  if (!m) return;
  *place = m->next;
  free(m->clock.at);
  free(m);
}

/* One that is not known was recorded before anybody looked, behind nothing that is known. */
static bool learn_mark(tide__clock *into, const void *mark) {
  const known_mark *m = *place_of(mark);
  return !m || join(into, &m->clock);
}

static bool learn_event(tide__clock *into, const tide_event *event) {
  return tide__event_shared(event) ? learn_all(into, TIDE_CPU) : learn_mark(into, event);
}

/* ---- waits ---- */

bool tide__clock_wait_event(const tide_stream *stream, const tide_event *event) {
  tide__timeline *t = tide__timeline_of(stream);
  return t && learn_event(&t->clock, event);
}

bool tide__clock_wait_mark(const tide_stream *stream, const void *mark) {
  tide__timeline *t = tide__timeline_of(stream);
  return t && learn_mark(&t->clock, mark);
}

bool tide__clock_host_event(const tide_event *event) {
  host_version++;
  return learn_event(&host, event);
}

bool tide__clock_host_stream(const tide_stream *stream) {
  tide__timeline *t = tide__timeline_of(stream);
  host_version++;
  return t && learn(&host, t);
}

bool tide__clock_host_device(int device) {
  host_version++;
  return learn_all(&host, device);
}

void tide__clock_clear(void) {
  for (int i = 0; i < BUCKETS; i++)
    while (marks[i]) tide__clock_mark_gone(marks[i]->mark);
  for (int i = 0; i < count; i++) {
    free(lines[i]->clock.at);
    free(lines[i]);
  }
  free(host.at);
  host = (tide__clock){0};
  count = 0, host_version++;
  memset(cache, 0, sizeof cache);
}
