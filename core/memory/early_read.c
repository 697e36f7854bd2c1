/* early_read.c: finds values that a script reads too early.
 *
 * A non_blocking copy brings bytes to page-locked memory. They are there only after a wait for that copy. While a debug
 * mode is on, such a copy leaves a note in the storage. A read on the host warns or raises, with the line of the copy,
 * unless a stream, an event or the device behind the copy has been waited for. stream/sync.c finds needless waits.
 *
 * Invariant: a note is dropped when its copy is known to be done, or with its storage. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>

#include "tide/debug.h"

struct tide__early_read {
  uint64_t stream;
  uint32_t number, site; /* of the copy */
};

/* A note that cannot be kept for want of memory is a warning less. */
void tide__early_read_note(tide_storage *s, tide_stream *stream, uint32_t number, uint32_t site) {
  if (number == 0 || tide_sync_debug_get() == TIDE_SYNC_DEFAULT) return;
  if (!s->early_read) s->early_read = malloc(sizeof *s->early_read);
  if (s->early_read) *s->early_read = (tide__early_read){stream->id, number, site};
}

tide_status tide__early_read_check(tide_storage *s, const char *what) {
  int mode = (int)tide_sync_debug_get();
  if (mode == TIDE_SYNC_DEFAULT) return TIDE_OK;
  if (tide__progress_is_done(s->early_read->stream, s->early_read->number)) {
    free(s->early_read);
    s->early_read = NULL;
    return TIDE_OK;
  }
  char from[160], text[500];
  tide__site_text(s->early_read->site, from, sizeof from);
  snprintf(text, sizeof text,
           "%s: the values are still on their way: the non_blocking copy%s%s has not been waited for, expected a "
           "synchronize of its stream or of an event behind it first",
           what, from[0] ? " of " : "", from);
  if (mode == TIDE_SYNC_ERROR) return tide__fail(TIDE_STATE, "%s", text);
  tide__warn(text);
  return TIDE_OK;
}

void tide__early_read_touch(tide_storage *s) {
  tide_status status = tide__early_read_check(s, "read");
  if (status != TIDE_OK) tide__early = status;
}
