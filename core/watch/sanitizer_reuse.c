/* sanitizer_reuse.c: memory that was freed while work on it is still queued.
 *
 * The allocator gives a freed block to its own stream again at once, because what is queued there comes later; so a new
 * tensor may lie where an old one is still being written, and is safe only for work that is ordered behind the place
 * where it was made. The accesses of that stream which the host has not waited for therefore outlive their storage:
 * they stand in a list by address, and the history of the next storage of the same stream in that place begins with
 * them. What other streams did needs no such care, the allocator waits for it.
 *
 * The pieces of the list do not overlap: a new one takes its place from older ones, whose accesses it has inherited. A
 * piece in the middle of an older one leaves the larger rest of that. Whatever makes the allocator wait for the device,
 * or give memory back to the driver, empties the list.
 *
 * Invariant: dropping a piece can hide a race and never makes one up. */
#include "sanitizer.h"
#include "base/own.h"

enum { MOST = 4096 };

typedef struct piece {
  uintptr_t first, last; /* what is left of it */
  uintptr_t base;        /* the offsets of the regions count from here */
  int n;
  tide__touch *touch;
} piece;

static piece *pieces; /* by address */
static int count, room;

static void take_out(int i) {
  free(pieces[i].touch);
  count--;
  memmove(pieces + i, pieces + i + 1, (size_t)(count - i) * sizeof *pieces);
}

/* The first piece that ends behind the address. */
static int find(uintptr_t address) {
  int low = 0, high = count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (pieces[middle].last <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Takes the range from what is there; the place where a piece of that range belongs. */
static int make_gap(uintptr_t first, uintptr_t last) {
  int i = find(first);
  while (i < count && pieces[i].first < last) {
    piece *p = &pieces[i];
    uintptr_t left = p->first < first ? first - p->first : 0, right = p->last > last ? p->last - last : 0;
    if (left == 0 && right == 0) {
      take_out(i);
    } else if (left >= right) {
      p->last = first;
      i++;
    } else {
      p->first = last;
      break;
    }
  }
  return i;
}

void tide__reuse_clear(void) {
  while (count) take_out(count - 1);
  free(pieces);
  pieces = NULL, room = 0;
}

static bool make_place(void) { return count < MOST && tide__grow(&pieces, &room, count, sizeof *pieces); }

/* Keeps of the accesses those that may still be under way on the storage's own stream. */
static int filter(tide__touch *touch, int n, const tide_storage *s) {
  uint64_t own = tide__stream_handle(s->stream);
  int kept = 0;
  for (int i = 0; i < n; i++)
    if (touch[i].stream == own && touch[i].device == s->device &&
        !tide__clock_knows(tide__clock_host(), touch[i].slot, touch[i].epoch)) {
      if (kept != i) touch[kept] = touch[i];
      kept++;
    }
  return kept;
}

void tide__reuse_keep(const tide_storage *s, tide__history *h) {
  uintptr_t first = (uintptr_t)s->ptr;
  if (!s->block || !tide__storage_live(s)) return;
  int at = make_gap(first, first + s->nbytes);
  h->n = filter(h->touch, h->n, s);
  if (h->n == 0 || !make_place()) return;
  memmove(pieces + at + 1, pieces + at, (size_t)(count - at) * sizeof *pieces);
  pieces[at] = (piece){first, first + s->nbytes, first, h->n, h->touch};
  count++;
  h->touch = NULL, h->n = h->room = 0;
}

/* The part of the access that lies in [first, last), as offsets from `base`. */
static bool inherited(tide__touch *out, const tide__touch *t, const piece *p, uintptr_t first, uintptr_t last,
                      uintptr_t base) {
  int64_t shift = (int64_t)(p->base - base), low = (int64_t)(first - base), high = (int64_t)(last - base);
  *out = *t;
  out->freed = true;
  out->region.first += shift, out->region.last += shift;
  if (out->region.n) return out->region.first >= low && out->region.last <= high;
  if (out->region.first < low) out->region.first = low;
  if (out->region.last > high) out->region.last = high;
  out->region.run = out->region.last - out->region.first;
  return out->region.run > 0;
}

bool tide__reuse_inherit(tide__history *h, const tide_storage *s) {
  if (!count || !s->block) return true;
  uintptr_t base = (uintptr_t)s->ptr, end = base + s->nbytes;
  uint64_t own = tide__stream_handle(s->stream);
  for (int i = find(base); i < count && pieces[i].first < end; i++) {
    const piece *p = &pieces[i];
    for (int k = 0; k < p->n; k++) {
      tide__touch t;
      uintptr_t first = p->first > base ? p->first : base, last = p->last < end ? p->last : end;
      if (p->touch[k].stream != own || p->touch[k].device != s->device) continue;
      if (tide__clock_knows(tide__clock_host(), p->touch[k].slot, p->touch[k].epoch)) continue;
      if (inherited(&t, &p->touch[k], p, first, last, base) && !tide__history_begin(h, &t)) return false;
    }
  }
  return true;
}
