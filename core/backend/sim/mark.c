/* mark.c: the places in streams that records of events are, and what carries the news of one beyond this process: pages
 * of shared events, semaphores of other APIs.
 *
 * A shared event has a page from the start, with two counters: how often it was recorded and how far that has come.
 * A wait, here or elsewhere, is for the count that it found. A recorder that died has nothing more to do: its
 * records count as passed.
 *
 * Invariant: a mark lives while its event, a queued operation or a waiting host holds it. */
#include <stdlib.h>

#include "sim.h"

#include "base/base.h"
#include "os/process.h"

/* ---- pages of shared events ---- */

enum { PAGE = 4096 };

/* Counters that several processes see. */
struct sim_counters {
  _Atomic uint64_t recorded, passed;
  _Atomic int32_t recorder; /* the process that recorded last */
};

sim_page *tide__sim_page_map(const tide__os_share *share) {
  sim_page *page = calloc(1, sizeof *page);
  void *map = page ? tide__os_share_map(share->file, PAGE) : NULL;
  if (!map) {
    free(page);
    tide__os_share_close(share->file);
    return NULL;
  }
  *page = (sim_page){.refs = 1, .share = *share, .counters = map};
  return page;
}

sim_page *tide__sim_page_new(void) {
  tide__os_share share;
  return tide__os_share_new(&share, PAGE) ? tide__sim_page_map(&share) : NULL;
}

sim_page *tide__sim_page_ref(sim_page *page) {
  page->refs++;
  return page;
}

void tide__sim_page_unref(sim_page *page) {
  if (!page || --page->refs) return;
  tide__os_share_unmap(page->counters, PAGE);
  tide__os_share_close(page->share.file);
  free(page);
}

void tide__sim_page_record(sim_mark *mark, sim_page *page) {
  mark->page = tide__sim_page_ref(page);
  atomic_store(&page->counters->recorder, tide__os_self());
  mark->ticket = atomic_fetch_add(&page->counters->recorded, 1) + 1;
}

static void page_pass(const sim_mark *mark) {
  uint64_t now = atomic_load(&mark->page->counters->passed);
  while (now < mark->ticket && !atomic_compare_exchange_weak(&mark->page->counters->passed, &now, mark->ticket))
    ;
}

static bool page_passed(const sim_page *page, uint64_t ticket) {
  const struct sim_counters *c = page->counters;
  return atomic_load(&c->passed) >= ticket || !tide__os_alive(atomic_load(&c->recorder));
}

uint64_t tide__sim_page_ticket(const sim_page *page) { return atomic_load(&page->counters->recorded); }

/* ---- semaphores ---- */

void tide__sim_semaphore_unref(sim_semaphore *s) {
  if (!s || --s->refs) return;
  tide__os_share_unmap((void *)s->count, sizeof *s->count);
  free(s);
}

static void semaphore_pass(const sim_mark *mark) {
  atomic_store(mark->semaphore->count, mark->semaphore->timeline ? mark->ticket : 1);
}

static bool semaphore_passed(const sim_mark *mark) {
  uint64_t signalled = 1;
  if (mark->semaphore->timeline) return atomic_load(mark->semaphore->count) >= mark->ticket;
  return atomic_compare_exchange_strong(mark->semaphore->count, &signalled, 0);
}

/* ---- marks ---- */

void tide__sim_mark_unref(sim_mark *mark) {
  if (!mark || --mark->refs) return;
  free(mark->frontier);
  tide__sim_page_unref(mark->page);
  tide__sim_semaphore_unref(mark->semaphore);
  free(mark);
}

void tide__sim_mark_pass(sim_mark *mark) {
  mark->passed = true;
  if (mark->page) page_pass(mark);
  if (mark->semaphore) semaphore_pass(mark);
}

bool tide__sim_mark_passed(sim_mark *mark) {
  if (!mark->passed && mark->page) mark->passed = page_passed(mark->page, mark->ticket);
  if (!mark->passed && mark->semaphore) mark->passed = semaphore_passed(mark);
  return mark->passed;
}
