/* fail.c: errors of this room, by the tide that the program handed over. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "distributed/room.h"

tide_distributed_host host;

tide_status tide__dist_fail(tide_status status, const char *format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return host.error_set(status, text);
}

tide_status tide__dist_mpi_fail(const char *function, int code) {
  char text[512];
  return tide__dist_fail(TIDE_STATE, "distributed: %s", tide__mpi_problem(text, sizeof text, function, code));
}

tide_status tide__work_fail(tide_work *w, tide_status status) {
  tide_group *g = w->group;
  w->state = WORK_FAILED, w->status = status;
  w->message = strdup(host.error_get()->message);
  if (g->size > 1 && !tide__is_message(w) && !g->failure) g->failure = strdup(host.error_get()->message);
  return status;
}
