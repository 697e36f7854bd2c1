/* host_job.c: work of the host as work of a stream.
 *
 * A backend's meeting place (meet_*) is two flags: a stream raises the first one, the host the second one. So neither
 * asks the driver, whose locks a thread that waits for this very job may hold.
 *
 * A job that failed keeps its streams until a wait for the device has failed with its message, once.
 *
 * Invariant: a job is in the list while its backend has a place for it; a place goes when the runtime ends or with the
 * job, and no stream waits there any more. */
#include <stdlib.h>

#include "observe.h"
#include "order.h"
#include "tide/debug.h"
#include "tide/host_job.h"

struct tide_host_job {
  tide_host_job *prev, *next;
  const tide_backend *backend;
  void *place; /* NULL: its runtime has ended */
  int device;
  bool begun, awaited, ended;
  char *failure; /* that nobody has heard of, or NULL */
  tide_status status;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tide_host_job *all;

tide_status tide_host_job_new(tide_host_job **out, int device) {
  const tide_backend *b;
  TIDE_GIVEN("host_job_new", out);
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "host_job"));
  TIDE_TRY(tide__backend(&b, device));
  if (!b->meet_new)
    return tide__fail(TIDE_SUPPORT, "host_job: streams of %s cannot wait for the host", tide__device_text(device));
  tide_host_job *job = calloc(1, sizeof *job);
  if (!job) return tide__fail(TIDE_MEMORY, "host_job: no host memory");
  tide_status status = b->meet_new(&job->place, device);
  if (status != TIDE_OK) {
    free(job);
    return status;
  }
  job->backend = b, job->device = device;
  pthread_mutex_lock(&lock);
  job->next = all;
  if (all) all->prev = job;
  all = job;
  pthread_mutex_unlock(&lock);
  *out = job;
  return TIDE_OK;
}

static tide_status check(const tide_host_job *job, const tide_stream *stream, const char *what) {
  if (!job) return tide__fail(TIDE_ARGUMENT, "%s: no job, got NULL, expected a job", what);
  TIDE_TRY(tide__stream_check(stream, what));
  if (!job->place) return tide__fail(TIDE_STATE, "%s: the job belongs to a runtime that has ended or was reset", what);
  if (stream->device != job->device)
    return tide__fail(TIDE_DEVICE, "%s: the stream is of another device, got %s, expected %s", what,
                      tide__device_text(stream->device), tide__device_text(job->device));
  if (stream->capture)
    return tide__fail(TIDE_STATE, "%s: a graph is being captured, and the host does nothing in its replays", what);
  return TIDE_OK;
}

tide_status tide_host_job_begin(tide_host_job *job, tide_stream *stream) {
  TIDE_TRY(check(job, stream, "host_job_begin"));
  if (job->begun) return tide__fail(TIDE_STATE, "host_job_begin: the job was begun before, expected a new one");
  TIDE_TRY(job->backend->meet_arrive(stream->impl, job->place));
  job->begun = true;
  if (tide__sync_watched()) TIDE_OBSERVE(recorded, job, stream);
  tide__order_waited(stream, NULL, 0);
  return TIDE_OK;
}

tide_status tide_host_job_ready(bool *ready, const tide_host_job *job) {
  TIDE_GIVEN("host_job_ready", ready);
  TIDE_GIVEN("host_job_ready", job);
  tide_error error;
  if (tide__device_lost(&error, job->device)) return tide__fail_again(&error);
  TIDE_LOCKED(&lock);
  *ready = !job->failure && (!job->begun || !job->place || job->backend->meet_arrived(job->place));
  return TIDE_OK;
}

tide_status tide_host_job_wait(tide_host_job *job, tide_stream *stream) {
  if (stream || !job) TIDE_TRY(check(job, stream, "host_job_wait"));
  pthread_mutex_lock(&lock);
  bool waits = job->failure || !job->ended;
  job->awaited |= waits;
  pthread_mutex_unlock(&lock);
  if (!stream) return TIDE_OK;
  if (tide__sync_watched()) TIDE_OBSERVE(waits_mark, stream, job);
  if (!waits) return TIDE_OK;
  TIDE_TRY(job->backend->meet_wait(stream->impl, job->place));
  tide__order_waited(stream, NULL, 0);
  return TIDE_OK;
}

/* With the lock held: nobody hears of a failure any more, and the streams go on. */
static void open_place(tide_host_job *job) {
  if (job->failure) atomic_fetch_sub_explicit(&tide__overdue_watched, 1, memory_order_relaxed);
  free(job->failure);
  job->failure = NULL, job->ended = true;
  if (job->place) job->backend->meet_open(job->place);
}

/* Fails as a failed job on that device, once. */
static tide_status raise_failure(int device) {
  char *message = NULL;
  tide_status status = TIDE_OK;
  pthread_mutex_lock(&lock);
  for (tide_host_job *job = all; job && !message; job = job->next) {
    if (!job->failure || job->device != device) continue;
    status = job->status, message = strdup(job->failure);
    open_place(job);
  }
  pthread_mutex_unlock(&lock);
  if (message) tide_error_set(status, message);
  free(message);
  return status;
}

void tide_host_job_end(tide_host_job *job, tide_status status, const char *message) {
  if (!job) return;
  TIDE_LOCKED(&lock);
  char *failure = status != TIDE_OK && (job->awaited || job->begun) && job->place && message ? strdup(message) : NULL;
  if (failure && !job->ended) {
    job->ended = true, job->failure = failure, job->status = status;
    tide__overdue_set(TIDE__OVERDUE_JOB, raise_failure);
    atomic_fetch_add_explicit(&tide__overdue_watched, 1, memory_order_relaxed);
  } else {
    free(failure);
    if (!job->ended) open_place(job);
  }
}

static void close_place(tide_host_job *job) {
  open_place(job);
  if (job->place) job->backend->meet_free(job->place);
  if (job->place && job->next) job->next->prev = job->prev;
  if (job->place) *(job->prev ? &job->prev->next : &all) = job->next;
  job->place = NULL;
}

void tide_host_job_release(tide_host_job *job) {
  if (!job) return;
  pthread_mutex_lock(&lock);
  close_place(job);
  pthread_mutex_unlock(&lock);
  if (tide__sync_watched()) TIDE_OBSERVE(mark_gone, job);
  free(job);
}

void tide__host_job_shutdown(void) {
  TIDE_LOCKED(&lock);
  while (all) close_place(all);
}
