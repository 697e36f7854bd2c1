/* communicator.c: the communicators of the backend's own collectives.
 *
 * One takes a second and some hundred megabytes to make, so there is one for each list of devices that was asked for,
 * kept until the runtime ends.
 *
 * An operation hangs where a rank does not come, and a communicator that hangs, or has failed, is of no more use: it is
 * aborted, so that the streams of the other ranks go on, and the next call makes a new one.
 *
 * Invariant: the lock guards the list, and every call of a communicator; comm_watch.c may take it while it holds its
 * own, never the other way round. */
#include "comm.h"

struct tide__communicator {
  struct tide__communicator *next;
  void *impl;
  int n, device[TIDE_MAX_DEVICES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tide__communicator *communicators;

const tide_collective *tide__collective_table(void) {
  const tide_backend *b = tide__accelerators();
  return b ? b->collective : NULL;
}

/* With the lock held. */
static tide_status find(tide__communicator **out, const int *devices, int n) {
  tide__communicator *c = communicators;
  while (c && (c->n != n || memcmp(c->device, devices, (size_t)n * sizeof *devices) != 0)) c = c->next;
  if (!c) {
    c = calloc(1, sizeof *c);
    if (!c) return tide__fail(TIDE_MEMORY, "nccl: no host memory for a communicator");
    c->n = n;
    memcpy(c->device, devices, (size_t)n * sizeof *devices);
    tide_status status = tide__collective_table()->open(&c->impl, devices, n);
    if (status != TIDE_OK) {
      free(c);
      return status;
    }
    c->next = communicators, communicators = c;
  }
  *out = c;
  return TIDE_OK;
}

/* With the lock held. */
static void drop(tide__communicator *c, bool abort) {
  tide__communicator **at = &communicators;
  while (*at && *at != c) at = &(*at)->next;
  if (!*at) return;
  *at = c->next;
  tide__collective_table()->close(c->impl, abort);
  free(c);
}

tide_status tide__communicator_run(tide__communicator **used, const int *devices, const tide_collective_call *call) {
  int rank;
  pthread_mutex_lock(&lock);
  tide__communicator *c = NULL;
  tide_status status = find(&c, devices, call->n);
  if (status == TIDE_OK) {
    status = tide__collective_table()->health(c->impl, &rank);
    if (status == TIDE_OK) status = tide__collective_table()->run(c->impl, call);
    if (status != TIDE_OK) drop(c, true);
  }
  pthread_mutex_unlock(&lock);
  if (status == TIDE_OK) *used = c;
  return status;
}

/* It may have gone meanwhile: then whoever dropped it has told why. */
tide_status tide__communicator_health(tide__communicator *c, int *rank) {
  TIDE_LOCKED(&lock);
  const tide__communicator *known = communicators;
  while (known && known != c) known = known->next;
  return known ? tide__collective_table()->health(c->impl, rank) : TIDE_OK;
}

void tide__communicator_abort(tide__communicator *c) {
  TIDE_LOCKED(&lock);
  drop(c, true);
}

/* One that hangs must not keep the runtime from ending. */
void tide__communicator_shutdown(void) {
  TIDE_LOCKED(&lock);
  while (communicators) {
    bool lost = false;
    for (int i = 0; i < communicators->n; i++) lost |= tide__device_lost(NULL, communicators->device[i]);
    drop(communicators, lost);
  }
}
