/* sanitizer_history.c: which accesses of each storage can still take part in a race.
 *
 * A storage's history is a short list. A new access drops what it covers and is ordered behind, if it conflicts with
 * whatever that conflicted with: who races with the old one races with the new one as well, because order is passed on.
 * What the host has waited for goes too, since whatever is queued from now on comes behind it. Accesses of one line in
 * one epoch whose bytes grow together are one. So loops over tensors or over pieces of one keep the lists at a few
 * entries; of a program that defeats this the last MOST accesses are kept.
 *
 * What a capture records is not executed, and is executed at each replay. It has histories of its own, in which it is
 * ordered as it is recorded; at the end they are the graph's footprint, which every replay touches.
 *
 * Invariant: dropping an access can hide a race and never makes one up. A history ends with its storage; what of it
 * concerns the next one in that memory is seen to in sanitizer_reuse.c. */
#include "sanitizer.h"
#include "base/own.h"

enum { MOST = 128, SPARE = 256 };

static tide__history **buckets;
static size_t bucket_count, history_count; /* the former a power of two */
static tide__history *spare;               /* with their lists, to serve again */
static int spare_count;
static tide__footprint executed;
static tide__footprint *captures;

/* ---- finding ---- */

static size_t bucket_of(const tide_storage *s) {
  return (size_t)((uint64_t)(uintptr_t)s * 0x9E3779B97F4A7C15u >> 32) & (bucket_count - 1);
}

tide__footprint *tide__footprint_find(uint64_t capture) {
  if (!capture) return &executed;
  tide__footprint *f = captures;
  while (f && f->capture != capture) f = f->next;
  return f;
}

tide__history *tide__history_find(const tide_storage *s, uint64_t capture) {
  tide__history *h = bucket_count ? buckets[bucket_of(s)] : NULL;
  while (h && (h->storage != s || h->of->capture != capture)) h = h->chain;
  return h;
}

/* ---- making and ending ---- */

static bool grow_buckets(void) {
  size_t before = bucket_count, n = before ? 2 * before : 256;
  tide__history **old = buckets, **made = calloc(n, sizeof *made);
  if (!made) return false;
  buckets = made, bucket_count = n;
  for (size_t i = 0; i < before; i++)
    for (tide__history *h = old[i], *next; h; h = next) {
      next = h->chain;
      size_t k = bucket_of(h->storage);
      h->chain = buckets[k];
      buckets[k] = h;
    }
  free(old);
  return true;
}

static tide__footprint *footprint_get(uint64_t capture) {
  tide__footprint *f = tide__footprint_find(capture);
  if (f || !(f = calloc(1, sizeof *f))) return f;
  f->capture = capture;
  f->next = captures;
  return captures = f;
}

static tide__history *header_new(void) {
  tide__history *h = spare;
  if (!h) return calloc(1, sizeof *h);
  spare = h->chain;
  spare_count--;
  h->n = 0;
  return h;
}

tide__history *tide__history_get(const tide_storage *s, uint64_t capture) {
  tide__history *h = tide__history_find(s, capture);
  if (h) return h;
  if (history_count >= bucket_count && !grow_buckets()) return NULL;
  tide__footprint *f = footprint_get(capture);
  if (!f || !(h = header_new())) return NULL;
  size_t k = bucket_of(s);
  h->storage = s, h->of = f;
  h->chain = buckets[k];
  buckets[k] = h;
  h->prev = NULL, h->next = f->first;
  if (f->first) f->first->prev = h;
  f->first = h;
  history_count++;
  return capture || tide__reuse_inherit(h, s) ? h : NULL;
}

/* Ends the history that *place in a bucket holds. */
static void end(tide__history **place) {
  tide__history *h = *place;
  *place = h->chain;
  if (h->prev)
    h->prev->next = h->next;
  else
    h->of->first = h->next;
  if (h->next) h->next->prev = h->prev;
  history_count--;
  if (spare_count < SPARE) {
    h->chain = spare;
    spare = h;
    spare_count++;
  } else {
    free(h->touch);
    free(h);
  }
}

void tide__history_end(const tide_storage *s) {
  tide__history *h = tide__history_find(s, 0);
  if (h) tide__reuse_keep(s, h);
  tide__history_forget(s);
}

void tide__history_forget(const tide_storage *s) {
  if (!bucket_count) return;
  for (tide__history **p = &buckets[bucket_of(s)]; *p;)
    if ((*p)->storage == s)
      end(p);
    else
      p = &(*p)->chain;
}

bool tide__history_rebind(uint64_t capture, int input, const tide_storage *from, const tide_storage *to,
                          int64_t shift) {
  tide__history *h = tide__history_find(from, capture);
  if (!h) return true;
  tide__history *other = from == to ? NULL : tide__history_get(to, capture);
  int kept = 0;
  if (from != to && !other) return false;
  for (int i = 0; i < h->n; i++) {
    tide__touch *t = &h->touch[i];
    if (t->input == input) {
      t->region.first += shift, t->region.last += shift;
      if (other && !tide__history_begin(other, t)) return false;
      if (other) continue;
    }
    if (kept != i) h->touch[kept] = *t;
    kept++;
  }
  h->n = kept;
  return true;
}

static void end_all(tide__footprint *f) {
  while (f->first) {
    tide__history **p = &buckets[bucket_of(f->first->storage)];
    while (*p != f->first) p = &(*p)->chain;
    end(p);
  }
}

void tide__footprint_forget(uint64_t capture) {
  for (tide__footprint **p = &captures; *p; p = &(*p)->next) {
    tide__footprint *f = *p;
    if (f->capture != capture) continue;
    end_all(f);
    *p = f->next;
    free(f);
    return;
  }
}

void tide__history_clear(void) {
  tide__reuse_clear();
  end_all(&executed);
  while (captures) tide__footprint_forget(captures->capture);
  while (spare) {
    tide__history *h = spare;
    spare = h->chain;
    free(h->touch);
    free(h);
  }
  free(buckets);
  buckets = NULL, bucket_count = 0, spare_count = 0;
}

/* ---- comparing and adding ---- */

const tide__touch *tide__history_race(const tide__history *h, const tide__touch *t, const tide__clock *clock) {
  for (int i = h ? h->n - 1 : -1; i >= 0; i--) {
    const tide__touch *o = &h->touch[i];
    if ((o->write || t->write) && !tide__clock_knows(clock, o->slot, o->epoch) &&
        tide__region_meets(&o->region, &t->region))
      return o;
  }
  return NULL;
}

static void copy_touch(tide__touch *to, const tide__touch *from) {
  memcpy(to, from, offsetof(tide__touch, region.size));
  memcpy(to->region.size, from->region.size, (size_t)from->region.n * sizeof *from->region.size);
  memcpy(to->region.stride, from->region.stride, (size_t)from->region.n * sizeof *from->region.stride);
}

/* Is o of no use any more once t is there? */
static bool superseded(const tide__touch *o, const tide__touch *t, const tide__clock *clock, bool executes) {
  if (executes && tide__clock_knows(tide__clock_host(), o->slot, o->epoch)) return true;
  return (t->write || !o->write) && tide__clock_knows(clock, o->slot, o->epoch) &&
         tide__region_covers(&t->region, &o->region);
}

static bool alike(const tide__touch *a, const tide__touch *b) {
  return a->slot == b->slot && a->epoch == b->epoch && a->site == b->site && a->replay == b->replay &&
         a->what == b->what && a->detail == b->detail;
}

/* Makes place for one more; without memory, or with too many, the oldest goes. */
static bool make_place(tide__history *h) {
  if (h->n < h->room || (h->n < MOST && tide__grow(&h->touch, &h->room, h->n, sizeof *h->touch))) return true;
  if (h->n == 0) return false;
  memmove(h->touch, h->touch + 1, (size_t)--h->n * sizeof *h->touch);
  return true;
}

bool tide__history_begin(tide__history *h, const tide__touch *t) {
  if (!make_place(h)) return false;
  copy_touch(&h->touch[h->n++], t);
  return true;
}

bool tide__history_add(tide__history *h, const tide__touch *t, const tide__clock *clock) {
  bool executes = h->of->capture == 0;
  int kept = 0;
  for (int i = 0; i < h->n; i++) {
    tide__touch *o = &h->touch[i];
    bool same = alike(o, t);
    if (same && (o->write || !t->write) && tide__region_covers(&o->region, &t->region)) {
      memmove(h->touch + kept, h->touch + i, (size_t)(h->n - i) * sizeof *h->touch);
      h->n -= i - kept;
      return true;
    }
    if (superseded(o, t, clock, executes)) continue;
    if (kept != i) copy_touch(&h->touch[kept], o);
    kept++;
    o = &h->touch[kept - 1];
    if (same && o->write == t->write && tide__region_join(&o->region, &t->region)) {
      memmove(h->touch + kept, h->touch + i + 1, (size_t)(h->n - i - 1) * sizeof *h->touch);
      h->n -= i + 1 - kept;
      return true;
    }
  }
  h->n = kept;
  return tide__history_begin(h, t);
}
