/* fault.c: errors of devices, with the launches that may be behind them.
 *
 * A driver reports what went wrong earlier. So the error of this thread keeps the launches that were under way, and a
 * lost device those of its first cause, as long as it is lost.
 *
 * Invariant: the launches of a lost device are kept before anybody can see that it is lost. */
#include "progress.h"

#include <stdarg.h>
#include <stdio.h>

#include "tide/debug.h"

enum { PEER_MESSAGE = 1792 };

static _Thread_local tide__suspects suspects; /* of the thread's error, about a device that is not lost */
static tide__suspects lost[TIDE_MAX_DEVICES]; /* of the lost devices' causes */

static void keep_suspects(int device) { lost[device] = suspects; }

/* A driver reports what went wrong earlier, so the message names the launches that may have. */
tide_status tide__fail_driver(int device, const char *what, int code, const char *name, const char *text, bool sticky) {
  static const char lost_text[] =
      "; the device and what lies on it are lost to this process, the CPU and other devices go on; "
      "device_reset may bring it back";
  tide_error error = {.status = TIDE_ACCELERATOR, .device = device, .code = code, .sticky = sticky};
  if (tide__device_lost(&error, device)) return tide__fail_again(&error);
  char message[TIDE__MESSAGE_MOST], launches[TIDE__MESSAGE_MOST - 1024];
  tide__suspects_find(&suspects, device);
  tide__suspects_text(launches, sizeof launches, &suspects);
  if (tide__suspects_sure(&suspects)) what = tide__suspects_sure(&suspects);
  snprintf(message, sizeof message, "%s: the device reported an error on %s, got %s (%d): %s%s%s", what,
           tide__device_text(device), name, code, text, sticky ? lost_text : "", launches);
  tide__error_set(&error, message, name);
  if (!sticky || device < 0) return TIDE_ACCELERATOR;
  tide__device_set_lost(device, tide_error_get(), keep_suspects);
  tide__device_lost(&error, device); /* another thread may have been first */
  return tide__fail_again(&error);
}

/* The launches of the device go along as candidates; nobody knows whether one of them is behind it. */
tide_status tide__fail_peer(int device, int code, const char *name, const char *format, ...) {
  char text[PEER_MESSAGE];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  tide__suspects_find(&suspects, device);
  return tide__error_set(&(tide_error){.status = TIDE_ACCELERATOR, .device = device, .code = code}, text, name);
}

/* Of the thread's error; NULL if it is of another sort. */
static const tide__suspects *error_suspects(void) {
  const tide_error *error = tide_error_get();
  if (error->status != TIDE_ACCELERATOR || error->device < 0) return NULL;
  return error->sticky ? &lost[error->device] : &suspects;
}

/* ---- for hosts ---- */

int tide_error_candidates(const tide_candidate **out) {
  if (!out) return 0;
  static _Thread_local tide_candidate list[TIDE__SUSPECTS];
  static _Thread_local char lines[TIDE__SUSPECTS][160];
  const tide__suspects *s = error_suspects();
  for (int i = 0; s && i < s->n; i++) {
    tide__site_text(s->item[i].site, lines[i], sizeof lines[i]);
    list[i] = (tide_candidate){tide__launch_text(s->item[i].what), lines[i], s->item[i].stream, (int)s->item[i].count};
  }
  *out = list;
  return s ? s->n : 0;
}
