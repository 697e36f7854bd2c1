/* recording.c: the recording that is under way, to which the profiler's parts add.
 *
 * It is one struct, guarded by one lock that is held to add to it and for nothing else.
 *
 * Invariant: `current` is the recording that others may add to; they name it by its number, under the lock, so
 * that a thread that is late adds nothing to the next one. */
#include "profiler.h"
#include "os/os.h"

_Atomic uint64_t tide__profile_on;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tide_profile *current;
static uint64_t last_number;

uint64_t tide__profile_clock(void) { return (uint64_t)tide__os_ns(); }

tide_profile *tide__profile_lock(uint64_t number) {
  pthread_mutex_lock(&lock);
  if (current && current->number == number) return current;
  pthread_mutex_unlock(&lock);
  return NULL;
}

void tide__profile_unlock(void) { pthread_mutex_unlock(&lock); }

/* ---- lists and names ---- */

void *tide__profile_add(tide_profile *p, void *list, size_t item) {
  TIDE__LIST(char) l;
  memcpy(&l, list, sizeof l);
  if (l.n == l.room) {
    size_t room = l.room ? 2 * l.room : 256;
    void *at = realloc(l.at, room * item);
    if (!at) {
      p->lost++;
      return NULL;
    }
    l.at = at, l.room = room;
  }
  void *place = l.at + l.n++ * item;
  memset(place, 0, item);
  memcpy(list, &l, sizeof l);
  return place;
}

static uint32_t *name_place(tide_profile *p, const char *text) {
  uint32_t hash = 2166136261u;
  for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
  for (size_t i = hash;; i++) {
    uint32_t *place = &p->name_hash[i & (p->name_slots - 1)];
    if (!*place || !strcmp(p->name.at[*place], text)) return place;
  }
}

static bool names_grow(tide_profile *p) {
  size_t slots = p->name_slots ? 2 * p->name_slots : 1024;
  uint32_t *hash = calloc(slots, sizeof *hash);
  if (!hash) return false;
  free(p->name_hash);
  p->name_hash = hash, p->name_slots = slots;
  for (size_t i = 1; i < p->name.n; i++) *name_place(p, p->name.at[i]) = (uint32_t)i;
  return true;
}

uint32_t tide__profile_name(tide_profile *p, const char *text) {
  if (!text || !*text) return 0;
  if (2 * p->name.n >= p->name_slots && !names_grow(p)) return 0;
  uint32_t *place = name_place(p, text);
  if (*place) return *place;
  char *copy = strdup(text), **at = copy ? TIDE__ADD(p, name) : NULL;
  if (!at) {
    free(copy);
    return 0;
  }
  *at = copy;
  return *place = (uint32_t)(p->name.n - 1);
}

uint32_t tide__profile_thread(tide_profile *p) {
  static _Thread_local uint64_t known_in;
  static _Thread_local uint32_t thread;
  if (known_in != p->number) known_in = p->number, thread = p->threads++;
  return thread;
}

void tide__profile_range(tide__range_kind kind, const char *text, uint32_t site, uint64_t since, uint64_t until) {
  tide_profile *p = tide__profile_lock(atomic_load_explicit(&tide__profile_on, memory_order_acquire));
  if (!p) return;
  tide__ranged *r = TIDE__ADD(p, range);
  if (r) {
    r->kind = kind, r->name = tide__profile_name(p, text), r->thread = tide__profile_thread(p), r->site = site;
    r->start = tide__profile_since(p, since), r->end = tide__profile_since(p, until);
  }
  tide__profile_unlock();
}

/* ---- beginning and ending ---- */

void tide_profile_free(tide_profile *p) {
  if (!p) return;
  for (size_t i = 1; i < p->name.n; i++) free(p->name.at[i]);
  free(p->op.at), free(p->span.at), free(p->range.at), free(p->stream.at), free(p->link.at), free(p->name.at);
  free(p->track.at), free(p->name_hash);
  free(p);
}

/* NULL without memory. The first name is "". */
static tide_profile *profile_new(const char *what, uint32_t flags) {
  tide_profile *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->what = what, p->flags = flags, p->source = "";
  char **empty = TIDE__ADD(p, name);
  if (empty && names_grow(p)) {
    *empty = "";
    return p;
  }
  p->name.n = 0;
  tide_profile_free(p);
  return NULL;
}

tide_status tide__recording_begin(tide_profile **out, const char *what, uint32_t flags) {
  tide_profile *p = profile_new(what, flags);
  if (!p) return tide__fail(TIDE_MEMORY, "%s: no host memory for a recording", what);
  pthread_mutex_lock(&lock);
  const char *other = current ? current->what : NULL;
  if (!other) {
    p->number = ++last_number;
    p->begun = tide__profile_clock();
    current = *out = p;
    tide__profile_thread(p); /* who begins is the first thread */
  }
  pthread_mutex_unlock(&lock);
  if (!other) return TIDE_OK;
  tide_profile_free(p);
  return tide__fail(TIDE_STATE, "%s: a recording is under way already, got one of %s, expected its end first", what,
                    other);
}

void tide__recording_end(tide_profile *p) {
  TIDE_LOCKED(&lock);
  p->wall = tide__profile_clock() - p->begun;
  current = NULL;
}
