/* progress.c: which launches may have failed.
 *
 * A device reports that something failed long after it was queued, and not what. So each stream keeps a ring of what
 * was launched on it, with script lines, and is asked now and then to write a launch's number to a word that can be
 * read even when the device is lost. What failed stands between the last number that was written and the next one that
 * should have been: at most 32 launches of a stream that is alone on its device, 16 of each of several. (To be asked
 * costs a call of the driver, so it is not done more often than that.) Waits that ended well say
 * still more precisely what is done. With CUDA_LAUNCH_BLOCKING set, every launch is waited for, and there is no doubt
 * left.
 *
 * A launch costs one addition and one store here. Threads that share a stream may get neighbouring numbers in another
 * order than their launches; nobody can tell those apart anyway.
 *
 * Invariant: a progress is in the list exactly while its stream can be asked; the lock is held to change the list and
 * to walk it, and below it are only the backend's locks. */
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>

#include "tide/debug.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tide__progress *all;

bool tide_launch_blocking(void) {
  const char *text = getenv("CUDA_LAUNCH_BLOCKING");
  return text && strtol(text, NULL, 10) != 0;
}

/* ---- what is known of a stream ---- */

/* The lock is held. */
static void set_steps(int device) {
  int n = 0;
  for (const struct tide__progress *p = all; p; p = p->next) n += p->stream->device == device;
  for (struct tide__progress *p = all; p; p = p->next)
    if (p->stream->device == device)
      atomic_store_explicit(&p->step, n == 1 ? TIDE__PROGRESS_ALONE : TIDE__PROGRESS_AMONG, memory_order_relaxed);
}

struct tide__progress *tide__progress_new(tide_stream *stream) {
  const tide_backend *b = tide__backend_peek(stream->device);
  TIDE_LOCKED(&lock);
  struct tide__progress *p = atomic_load_explicit(&stream->progress, memory_order_relaxed);
  if (!p && b && (p = calloc(1, sizeof *p))) {
    p->backend = b, p->stream = stream;
    p->blocking = tide_launch_blocking();
    atomic_init(&p->noted, b->progress_note && b->progress_read);
    /* The driver's stream may have served before: its count goes on. */
    uint32_t start = b->progress_note && b->progress_read ? b->progress_read(stream->impl) : 0;
    atomic_init(&p->launched, start), atomic_init(&p->queued, start), atomic_init(&p->done, start);
    p->next = all;
    if (all) all->prev = p;
    all = p;
    set_steps(stream->device);
    atomic_store_explicit(&stream->progress, p, memory_order_release);
  }
  return p;
}

static void drop(struct tide__progress *p) {
  if (p->prev)
    p->prev->next = p->next;
  else
    all = p->next;
  if (p->next) p->next->prev = p->prev;
  atomic_store_explicit(&p->stream->progress, NULL, memory_order_relaxed);
  set_steps(p->stream->device);
  free(p);
}

void tide__progress_free(tide_stream *stream) {
  TIDE_LOCKED(&lock);
  struct tide__progress *p = atomic_load_explicit(&stream->progress, memory_order_relaxed);
  if (p) drop(p);
}

/* Streams that a program still holds go on as headers and launch nothing. */
void tide__progress_shutdown(void) {
  TIDE_LOCKED(&lock);
  while (all) drop(all);
}

/* Is a before b? The distance is far below half of the numbers there are. */
static bool before(uint32_t a, uint32_t b) { return (int32_t)(a - b) < 0; }

static void raise_done(struct tide__progress *p, uint32_t number) {
  uint32_t done = atomic_load_explicit(&p->done, memory_order_relaxed);
  while (before(done, number) &&
         !atomic_compare_exchange_weak_explicit(&p->done, &done, number, memory_order_relaxed, memory_order_relaxed))
    ;
}

/* A backend that cannot note loses precision and nothing else, unless its device is lost. */
tide_status tide__launch_check(struct tide__progress *p, uint32_t number) {
  uint32_t step = atomic_load_explicit(&p->step, memory_order_relaxed);
  if (number % step == 0 && atomic_load_explicit(&p->noted, memory_order_relaxed)) {
    atomic_fetch_or_explicit(&p->entry[number % TIDE__PROGRESS_RING], TIDE__PROGRESS_MARK, memory_order_relaxed);
    tide_status status = p->backend->progress_note(p->stream->impl, number);
    if (status != TIDE_OK && tide__device_lost(NULL, p->stream->device)) return status;
    if (status != TIDE_OK) atomic_store_explicit(&p->noted, false, memory_order_relaxed);
  }
  if (!p->blocking) return TIDE_OK;
  TIDE_TRY(p->backend->stream_sync(p->stream->impl));
  raise_done(p, number);
  return TIDE_OK;
}

static struct tide__progress *find(uint64_t stream) {
  struct tide__progress *p = all;
  while (p && p->stream->id != stream) p = p->next;
  return p;
}

/* The lock is held. Each step makes some number grow, so streams that wait for each other end the loop. */
static void reached(struct tide__progress *p, uint32_t number) {
  raise_done(p, number);
  for (int i = 0; i < (int)(sizeof p->behind / sizeof *p->behind) && p->behind[i].stream; i++) {
    struct tide__progress *other = find(p->behind[i].stream);
    if (other && !before(number, p->behind[i].own) &&
        before(atomic_load_explicit(&other->done, memory_order_relaxed), p->behind[i].number))
      reached(other, p->behind[i].number);
  }
}

void tide__progress_reached(tide_stream *stream, uint32_t number) {
  struct tide__progress *p = atomic_load_explicit(&stream->progress, memory_order_acquire);
  if (!p) return;
  if (!tide__sync_watched()) {
    raise_done(p, number);
    return;
  }
  TIDE_LOCKED(&lock);
  reached(p, number);
}

void tide__progress_reached_id(uint64_t stream, uint32_t number) {
  TIDE_LOCKED(&lock);
  struct tide__progress *p = find(stream);
  if (p) reached(p, number);
}

bool tide__progress_is_done(uint64_t stream, uint32_t number) {
  TIDE_LOCKED(&lock);
  const struct tide__progress *p = find(stream);
  bool done = !p || !before(atomic_load_explicit(&p->done, memory_order_relaxed), number);
  return done;
}

/* A stream that launched nothing itself can be waited for too. */
void tide__progress_behind(tide_stream *stream, uint64_t other, uint32_t number) {
  struct tide__progress *p = atomic_load_explicit(&stream->progress, memory_order_acquire);
  if (!p && !(p = tide__progress_new(stream))) return;
  TIDE_LOCKED(&lock);
  unsigned i = p->behind_at++ % (sizeof p->behind / sizeof *p->behind);
  p->behind[i].stream = other, p->behind[i].number = number;
  p->behind[i].own = atomic_load_explicit(&p->launched, memory_order_relaxed);
}

int tide__progress_list(tide__reached *list, int room, int device) {
  int n = 0;
  TIDE_LOCKED(&lock);
  for (struct tide__progress *p = all; p && n < room; p = p->next) {
    uint32_t launched = atomic_load_explicit(&p->launched, memory_order_relaxed);
    if (p->stream->device == device && launched != atomic_load_explicit(&p->done, memory_order_relaxed))
      list[n++] = (tide__reached){p->stream->id, launched};
  }
  return n;
}

void tide__progress_reached_all(const tide__reached *list, int n) {
  TIDE_LOCKED(&lock);
  for (struct tide__progress *p = all; p && n; p = p->next)
    for (int i = 0; i < n; i++)
      if (p->stream->id == list[i].stream) reached(p, list[i].number);
}

/* ---- suspects ---- */

/* The first launch after `noted` that the stream was asked to note, or the last one. What is no longer in the ring is
 * not looked at. */
static uint32_t next_mark(const struct tide__progress *p, uint32_t noted, uint32_t launched) {
  if (!before(noted, launched)) return launched;
  uint32_t k = launched - noted < TIDE__PROGRESS_RING ? noted + 1 : launched - TIDE__PROGRESS_RING + 1;
  while (before(k, launched) &&
         !(atomic_load_explicit(&p->entry[k % TIDE__PROGRESS_RING], memory_order_relaxed) & TIDE__PROGRESS_MARK))
    k++;
  return k;
}

/* The launches (*first, *last] of a stream that may have failed; false if some of them are not known any more. */
static bool window(const struct tide__progress *p, uint32_t *first, uint32_t *last) {
  uint32_t launched = atomic_load_explicit(&p->launched, memory_order_relaxed);
  *first = atomic_load_explicit(&p->done, memory_order_relaxed), *last = launched;
  if (atomic_load_explicit(&p->noted, memory_order_relaxed)) {
    uint32_t noted = p->backend->progress_read(p->stream->impl);
    if (before(*first, noted)) *first = noted;
    *last = next_mark(p, noted, launched);
  }
  bool known = launched - *first <= TIDE__PROGRESS_RING;
  if (!known) *first = launched - TIDE__PROGRESS_RING;
  if (before(*last, *first)) *last = *first;
  return known;
}

static void add_suspect(tide__suspects *out, int from, const struct tide__progress *p, uint64_t entry) {
  uint32_t site = (uint32_t)entry, what = (uint32_t)((entry & ~TIDE__PROGRESS_MARK) >> 32);
  int i = from;
  while (i < out->n && (out->item[i].site != site || out->item[i].what != what)) i++;
  if (i == TIDE__SUSPECTS) {
    out->more++;
    return;
  }
  if (i == out->n) {
    out->item[i].site = site, out->item[i].what = what, out->item[i].count = 0;
    out->item[i].is_default = p->stream->is_default;
    out->item[i].stream = p->backend->stream_handle(p->stream->impl);
    out->n++;
  }
  out->item[i].count++;
}

void tide__suspects_find(tide__suspects *out, int device) {
  out->n = out->more = 0, out->all = true;
  TIDE_LOCKED(&lock);
  for (struct tide__progress *p = all; p; p = p->next) {
    uint32_t first, last;
    if (p->stream->device != device) continue;
    if (!window(p, &first, &last)) out->all = false;
    int from = out->n;
    for (uint32_t k = first + 1; !before(last, k); k++)
      add_suspect(out, from, p, atomic_load_explicit(&p->entry[k % TIDE__PROGRESS_RING], memory_order_relaxed));
  }
}

const char *tide__launch_name(tide__launch what, int detail) {
  static const char *const names[] = {
#define KERNEL(name, args, writes, cost, library) #name,
#include "backend/kernel.def"
      "copy to the device", "copy to the host", "copy between devices", "item",           "sleep",
      "graph replay",       "jiterator",        "fused operations",     "compiled kernel"};
  if (what == TIDE__LAUNCH_elementwise) return tide_op_get((tide_op)detail)->name;
  if (what == TIDE__LAUNCH_reduce && detail < TIDE_REDUCTION_COUNT)
    return tide_reduction_get((tide_reduction)detail)->name;
  if (what == TIDE__LAUNCH_linalg) return tide__linalg_names[detail];
  if (what == TIDE__LAUNCH_random) return tide__random_names[detail];
  return what == TIDE__LAUNCH_gemm ? "matmul" : names[what];
}

const char *tide__launch_text(uint32_t what) { return tide__launch_name((tide__launch)(what >> 8), (int)(what & 255)); }

static size_t put(char *text, size_t size, size_t at, const char *piece) {
  int n = at < size ? snprintf(text + at, size - at, "%s", piece) : 0;
  return at + (size_t)n;
}

static void suspect_text(char *text, size_t size, const tide__suspects *s, int i) {
  char line[160], stream[32] = "the default stream", times[32] = "";
  tide__site_text(s->item[i].site, line, sizeof line);
  if (!s->item[i].is_default) snprintf(stream, sizeof stream, "stream 0x%llx", (unsigned long long)s->item[i].stream);
  if (s->item[i].count > 1) snprintf(times, sizeof times, ", %u times", (unsigned)s->item[i].count);
  snprintf(text, size, "\n  %s at %s, %s%s", tide__launch_text(s->item[i].what), line[0] ? line : "an unknown line",
           stream, times);
}

const char *tide__suspects_sure(const tide__suspects *s) {
  return s->n == 1 && s->item[0].count == 1 && s->all ? tide__launch_text(s->item[0].what) : NULL;
}

void tide__suspects_text(char *text, size_t size, const tide__suspects *s) {
  char piece[256];
  text[0] = 0;
  if (s->n == 0) return;
  bool exact = tide__suspects_sure(s) != NULL;
  size_t at = put(text, size, 0, exact ? "\nWhat failed:" : "\nWhat failed is one of these launches:");
  for (int i = 0; i < s->n; i++) {
    suspect_text(piece, sizeof piece, s, i);
    at = put(text, size, at, piece);
  }
  if (s->more) {
    snprintf(piece, sizeof piece, "\n  and %d more", s->more);
    at = put(text, size, at, piece);
  }
  if (!s->all) at = put(text, size, at, "\n  or an earlier one");
  if (!exact)
    put(text, size, at,
        "\nErrors of queued work may be reported late; set CUDA_LAUNCH_BLOCKING=1 to learn which launch it was.");
}
