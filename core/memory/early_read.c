/* arrival.c: values that are read too early.
 *
 * The mistake opposite to those of stream/sync.c is to wait too little: bytes that a non_blocking copy brings to
 * page-locked memory are there only after a wait for that copy. While a debug mode is on, such a copy leaves a note in
 * the storage, and whoever touches the bytes on the host before a stream, an event or the device behind it has been
 * waited for is told, with the copy's line.
 *
 * Invariant: a note is dropped when its copy is known to be done, or with its storage. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>

#include "tide/debug.h"

struct tide__arrival {
  uint64_t stream;
  uint32_t number, site; /* of the copy */
};

/* A note that cannot be kept for want of memory is a warning less. */
void tide__arrival_note(tide_storage *s, tide_stream *stream, uint32_t number, uint32_t site) {
  if (number == 0 || tide_sync_debug_get() == TIDE_SYNC_DEFAULT) return;
  if (!s->arrival) s->arrival = malloc(sizeof *s->arrival);
  if (s->arrival) *s->arrival = (tide__arrival){stream->id, number, site};
}

tide_status tide__arrival_check(tide_storage *s, const char *what) {
  int mode = (int)tide_sync_debug_get();
  if (mode == TIDE_SYNC_DEFAULT) return TIDE_OK;
  if (tide__progress_is_done(s->arrival->stream, s->arrival->number)) {
    free(s->arrival);
    s->arrival = NULL;
    return TIDE_OK;
  }
  char from[160], text[500];
  tide__site_text(s->arrival->site, from, sizeof from);
  snprintf(text, sizeof text,
           "%s: the values are still on their way: the non_blocking copy%s%s has not been waited for, expected a "
           "synchronize of its stream or of an event behind it first",
           what, from[0] ? " of " : "", from);
  if (mode == TIDE_SYNC_ERROR) return tide__fail(TIDE_STATE, "%s", text);
  tide__warn(text);
  return TIDE_OK;
}

void tide__arrival_touch(tide_storage *s) {
  tide_status status = tide__arrival_check(s, "read");
  if (status != TIDE_OK) tide__early = status;
}
