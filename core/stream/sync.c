/* sync.c: who wants to know what makes the host wait for a device.
 *
 * Every function that waits says so before it does anything else, which costs one load when nobody is interested. There
 * are two sorts. Waits that the program asked for (synchronize of a stream, an event or a device) are what they say;
 * they matter to a capture alone. All others hide in an operation: a value is read, a mask is counted, bytes travel to
 * or from memory that is not page-locked. The debug mode warns of those or refuses them, with the script line, so that
 * a loop that should keep a device busy can be searched for what stops it. The mode is the process's, as torch's is;
 * warnings go to the hook of the calling thread, else to the log.
 *
 * Invariant: tide__sync_watch is one for a mode that is not the default, plus one for each capture under way, for each
 * graph in debug mode while it or an output of it lives, and for each observer (observe.h). */
#include <stdio.h>
#include <stdlib.h>

#include "capture_state.h"
#include "observe.h"
#include "tide/debug.h"

static _Atomic int mode_now;

tide_status tide_sync_debug_set(tide_sync_debug mode) {
  if ((unsigned)mode > TIDE_SYNC_ERROR)
    return tide__fail(TIDE_VALUE, "set_sync_debug_mode: unknown mode, got %d, expected 0 to %d", (int)mode,
                      TIDE_SYNC_ERROR);
  int before = atomic_exchange(&mode_now, (int)mode);
  atomic_fetch_add(&tide__sync_watch, (mode != TIDE_SYNC_DEFAULT) - (before != TIDE_SYNC_DEFAULT));
  return TIDE_OK;
}

tide_sync_debug tide_sync_debug_get(void) {
  return (tide_sync_debug)atomic_load_explicit(&mode_now, memory_order_relaxed);
}

tide_status tide__sync_slow(const char *what, bool asked) {
  TIDE_TRY(tide__capture_refuse(what));
  TIDE_OBSERVE(host_waits, what);
  int mode = atomic_load_explicit(&mode_now, memory_order_relaxed);
  if (asked || mode == TIDE_SYNC_DEFAULT) return TIDE_OK;
  char where[160], text[400];
  tide__site_text(tide__site_now(), where, sizeof where);
  if (mode == TIDE_SYNC_ERROR)
    return tide__fail(TIDE_STATE,
                      "%s: makes the host wait for the device%s%s, expected no such operation while the "
                      "synchronisation debug mode is \"error\"",
                      what, where[0] ? " at " : "", where);
  snprintf(text, sizeof text, "%s: makes the host wait for the device%s%s", what, where[0] ? " at " : "", where);
  tide__warn(text);
  return TIDE_OK;
}

tide_status tide__launch_counted(void) {
  tide_status status = tide__quota_count(TIDE_QUOTA_LAUNCHES);
  if (status == TIDE_OK && tide__capturing) status = tide__capture_counted(tide__capturing);
  if (status != TIDE_OK) tide__early = status;
  return status;
}

/* ---- what waits of other rooms are overdue ---- */

static _Atomic(tide__overdue_fn) overdue[TIDE__OVERDUE_KINDS];

void tide__overdue_set(int kind, tide__overdue_fn fn) { overdue[kind] = fn; }

tide_status tide__overdue_slow(int device) {
  for (int kind = 0; kind < TIDE__OVERDUE_KINDS; kind++) {
    tide__overdue_fn fn = overdue[kind];
    if (fn) TIDE_TRY(fn(device));
  }
  return TIDE_OK;
}
