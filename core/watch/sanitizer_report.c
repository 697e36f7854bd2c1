/* sanitizer_report.c: the races that were found, as data and in words.
 *
 * One entry for each pair of operations and lines, with a count, so that a loop does not fill the list; after MOST of
 * them only the count of all goes on. A race that makes an operation fail is kept for the thread too, next to the error
 * that it is the cause of.
 *
 * Invariant: entries own their texts, so they outlive streams, devices and scripts. */
#include "sanitizer.h"
#include "base/own.h"

#include <stdio.h>

enum { MOST = 512 };

typedef struct entry {
  uint64_t key[2]; /* line and op of each of the two */
  tide_race race;
} entry;

static entry *list;
static int count, room;
static int64_t total;
static _Thread_local tide_race *raised; /* made when the thread's first race is */

/* ---- words ---- */

static void describe(tide_race_access *out, const tide__touch *t) {
  out->op = tide__launch_name((tide__launch)t->what, t->detail);
  out->device = t->device, out->stream = t->stream;
  out->is_default = t->is_default, out->write = t->write, out->freed = t->freed;
  tide__site_text(t->site, out->line, sizeof out->line);
  tide__site_text(t->replay, out->replay, sizeof out->replay);
}

typedef struct name {
  char text[64];
} name;
typedef struct phrase {
  char text[400];
} phrase;

static name stream_text(const tide_race_access *a) {
  name n;
  if (a->device < 0)
    snprintf(n.text, sizeof n.text, "the host");
  else if (a->is_default)
    snprintf(n.text, sizeof n.text, "the default stream of %s", tide__device_text(a->device));
  else
    snprintf(n.text, sizeof n.text, "stream 0x%llx of %s", (unsigned long long)a->stream, tide__device_text(a->device));
  return n;
}

/* Where it stands in the script, as the place to put a wait before or behind. */
static const char *place_of(const tide_race_access *a) {
  return a->replay[0] ? a->replay : a->line[0] ? a->line : a->op;
}

static phrase op_text(const tide_race_access *a) {
  phrase p;
  if (a->replay[0])
    snprintf(p.text, sizeof p.text, "%s (%s, replayed at %s)", a->op, a->line, a->replay);
  else
    snprintf(p.text, sizeof p.text, "%s (%s)", a->op, a->line[0] ? a->line : "an unknown line");
  return p;
}

/* `knew`: the later one's stream has waited for some of the earlier one's work, but for none that late. */
static void write_edge(tide_race *r, bool knew) {
  name from = stream_text(&r->earlier), to = stream_text(&r->later);
  const char *behind = place_of(&r->earlier), *before = place_of(&r->later);
  if (r->later.device < 0)
    snprintf(
        r->edge, sizeof r->edge,
        "the host has not waited for %s, expected a synchronize of that stream, or of an event recorded behind %s, "
        "before %s",
        from.text, behind, before);
  else if (knew)
    snprintf(r->edge, sizeof r->edge,
             "%s has waited for %s only up to an earlier point, expected wait_stream, or wait_event with an event "
             "recorded behind %s, before %s",
             to.text, from.text, behind, before);
  else
    snprintf(r->edge, sizeof r->edge,
             "nothing makes %s wait for %s, expected wait_stream, or wait_event with an event recorded behind %s, "
             "before %s",
             to.text, from.text, behind, before);
}

static void write_message(tide_race *r) {
  name from = stream_text(&r->earlier), to = stream_text(&r->later);
  phrase other = op_text(&r->earlier), own = op_text(&r->later);
  snprintf(r->message, sizeof r->message,
           "%s: race: %s on %s %s what %s on %s %s, bytes %lld to %lld of one storage%s: %s", r->later.op, own.text,
           to.text, r->later.write ? "writes" : "reads", other.text, from.text, r->earlier.write ? "writes" : "reads",
           (long long)r->first, (long long)r->last - 1,
           r->earlier.freed ? " in memory that another tensor left before that was done" : "", r->edge);
}

/* ---- the list ---- */

static uint64_t key_of(const tide__touch *t) {
  return (uint64_t)t->site << 32 | (uint64_t)(t->what & 255) << 24 | (uint64_t)(t->detail & 255) << 16;
}

/* A new place in the list, or NULL. */
static entry *add(void) {
  return count < MOST && tide__grow(&list, &room, count, sizeof *list) ? &list[count++] : NULL;
}

int tide__race_note(tide_race *out, bool *fresh, const tide__touch *earlier, const tide__touch *later,
                    const tide__clock *clock) {
  const uint64_t key[2] = {key_of(earlier), key_of(later)};
  memset(out, 0, sizeof *out);
  describe(&out->earlier, earlier);
  describe(&out->later, later);
  const tide__region *a = &earlier->region, *b = &later->region;
  out->first = a->first > b->first ? a->first : b->first;
  out->last = a->last < b->last ? a->last : b->last;
  const tide__clock *host = tide__clock_host();
  uint64_t seen = earlier->slot < host->n ? host->at[earlier->slot] : 0; /* by waits of the host, not by the stream's */
  write_edge(out, tide__clock_knows(clock, earlier->slot, seen + 1));
  write_message(out);
  total++;
  *fresh = false;
  for (int i = 0; i < count; i++) {
    if (memcmp(list[i].key, key, sizeof key)) continue;
    out->count = ++list[i].race.count;
    return i;
  }
  entry *e = add();
  out->count = 1;
  if (!e) return -1;
  memcpy(e->key, key, sizeof key);
  e->race = *out;
  *fresh = true;
  return count - 1;
}

void tide__race_clear(void) {
  free(list);
  list = NULL;
  count = room = 0, total = 0;
}

int tide_sanitizer_errors(void) {
  TIDE_LOCKED(&tide__sanitizer_lock);
  return count;
}

bool tide_sanitizer_error(tide_race *out, int i) {
  TIDE_LOCKED(&tide__sanitizer_lock);
  bool there = i >= 0 && i < count;
  if (there) *out = list[i].race;
  return there;
}

int64_t tide_sanitizer_count(void) {
  TIDE_LOCKED(&tide__sanitizer_lock);
  return total;
}

/* ---- the thread's error ---- */

static void drop_raised(void) {
  free(raised);
  raised = NULL;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void watch_threads(void) { tide__thread_at_end(drop_raised); }

/* Without memory the error has its words alone. */
tide_status tide__race_fail(const tide_race *race) {
  if (!raised && (raised = malloc(sizeof *raised))) {
    pthread_once(&once, watch_threads);
    tide__thread_touch();
  }
  if (raised) *raised = *race;
  return tide__fail(TIDE_STATE, "%s", race->message);
}

bool tide_error_race(tide_race *out) {
  const tide_error *error = tide_error_get();
  if (!raised || error->status != TIDE_STATE || strcmp(error->message, raised->message)) return false;
  *out = *raised;
  return true;
}
