/* progress.c: the thread that goes on with operations of streams, and the lock of this library.
 *
 * A stream waits for the end of a job of the host, while the script queues further work or waits for the device. So a
 * thread tests what runs. It exists from the first such operation on, and sleeps while there is none. It spins for as
 * long as a collective takes, then naps.
 *
 * Where MPI was initialised for calls of one thread alone there is no thread, and scripts wait themselves.
 *
 * Invariant: MPI is called with the lock held, except to begin and to finalize. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static pthread_t thread;
static bool runs, quits, is_allowed = true;
static void (*tell)(const char *text);

/* Streams wait behind it until somebody has heard why. */
typedef struct failure {
  struct failure *next;
  tide_host_job *job;
  tide_group *group; /* a reference */
  bool is_nccl;      /* its communicator is to be aborted then, and the streams go on */
  tide_status status;
  char *message;
} failure;
static failure *failures;

static _Atomic int callers; /* threads that want the lock, but the one below */

void tide__progress_lock(void) {
  callers++;
  pthread_mutex_lock(&lock);
  callers--;
}
void tide__progress_unlock(void) { pthread_mutex_unlock(&lock); }
bool tide__progress_can(void) { return is_allowed; }
void tide__progress_tell(void (*fn)(const char *text)) { tell = fn; }
void tide__tell(const char *text) {
  if (tell) tell(text);
}
void tide__progress_allow(bool allowed) { is_allowed = allowed; }

void tide__progress_nap(double seconds) {
  if (seconds > 0)
    nanosleep(&(struct timespec){0, (long)(seconds * 1e9)}, NULL);
  else
    sched_yield();
}

/* ---- ends ---- */

static tide_host_job *take(tide_host_job **at) {
  tide_host_job *job = *at;
  *at = NULL;
  return job;
}

static void end_jobs(tide_work *w) {
  host.host_job_release(take(&w->in.job));
  host.host_job_release(take(&w->out.job));
}

/* A group that has failed does nothing more: its streams go on, and the first failure is what is heard of. */
static void fail_others(const tide_work *first) {
  for (tide_work *w = tide__work_running; w; w = w->running)
    if (w != first && w->group == first->group && w->state < WORK_COMPLETE && !tide__is_message(w))
      tide__work_fail(w, tide__dist_fail(first->status, "%s", first->message));
}

static bool is_group_known(const tide_group *group) {
  const failure *f = failures;
  while (f && f->group != group) f = f->next;
  return f;
}

static void drop_first(failure **at) {
  failure *f = *at;
  *at = f->next;
  if (f->is_nccl) host.nccl_rank_abort(f->group->nccl);
  tide__group_release(f->group);
  host.host_job_release(f->job);
  free(f->message);
  free(f);
}

/* What was raised, until somebody has heard of it; NULL: no memory. */
static failure *new_failure(const tide_work *w, tide_host_job *job) {
  failure *f = calloc(1, sizeof *f);
  char *message = strdup(w->message ? w->message : "distributed: it has failed");
  if (!f || !message) return free(f), free(message), NULL;
  w->group->refs++;
  *f = (failure){failures, job, w->group, w->is_nccl, w->status, message};
  return f;
}

/* Takes the job, whose end is a failure. Without f the job stays, so that its failure is raised all the same. */
static void end_with_failure(failure *f, tide_host_job *job, tide_status status) {
  host.host_job_end(job, status, f ? f->message : "distributed: no memory for what has failed");
  if (f) failures = f;
}

static bool is_heard_of(const failure *f) {
  bool heard = true;
  return host.host_job_ready(&heard, f->job) != TIDE_OK || heard;
}

static void forget_failures(void) {
  for (failure **at = &failures; *at;) {
    if (is_heard_of(*at))
      drop_first(at);
    else
      at = &(*at)->next;
  }
}

tide_status tide__progress_failure(void) {
  tide_status status = TIDE_OK;
  tide__progress_lock();
  tide__work_sweep();
  forget_failures();
  if (failures) {
    status = tide__dist_fail(failures->status, "%s", failures->message);
    drop_first(&failures);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

/* It is done, or has failed: what it holds is released, then its streams go on. */
static void leave(tide_work *w) {
  bool is_first = w->state == WORK_FAILED && w->is_awaited && (tide__is_message(w) || !is_group_known(w->group));
  if (w->state == WORK_FAILED && w->group->failure) fail_others(w);
  if (w->state != WORK_FAILED && w->refs) { /* another stream may wait for it later */
    w->is_running = false;
    host.host_job_end(w->in.job, TIDE_OK, NULL), host.host_job_end(w->out.job, TIDE_OK, NULL);
    return;
  }
  tide_host_job *in = take(&w->in.job), *out = take(&w->out.job), *failed = is_first ? take(out ? &out : &in) : NULL;
  tide_status status = w->status;
  failure *f = failed ? new_failure(w, failed) : NULL;
  w->is_running = false;
  if (!w->refs && !w->is_queued && tide__work_is_over(w)) tide__work_free(w);
  if (failed) end_with_failure(f, failed, status);
  host.host_job_release(in), host.host_job_release(out);
}

/* ---- the thread ---- */

/* Operations of NCCL end in the order of their starts, so only the first one is asked. */
static void look(tide_work *w, double *nap) {
  const char *notice = NULL;
  double wanted = 5e-5;
  tide__work_advance(w);
  bool waits = (w->state == WORK_CHECKING || w->state == WORK_RUNNING) && !w->is_behind;
  if (waits && (w->is_awaited || w->message)) tide__work_wait(w, &notice, &wanted);
  if (notice) tide__tell(notice);
  if (wanted < *nap) *nap = wanted;
}

/* *hurries: somebody waits for the end of one of them. Nobody waits for those of NCCL, which streams order, and to ask
 * the driver often would hold up who queues the next. */
static double look_at_all(bool *hurries) {
  double nap = 5e-4;
  bool is_behind = false;
  *hurries = false;
  tide__message_progress(tide__work_advance);
  for (tide_work **at = &tide__work_running; *at;) {
    tide_work *w = *at;
    w->is_behind = w->is_nccl && is_behind;
    look(w, &nap);
    is_behind |= w->is_nccl && w->state < WORK_COMPLETE;
    *hurries |= !w->is_nccl;
    if (w->state < WORK_COMPLETE) {
      at = &w->running;
      continue;
    }
    *at = w->running, w->running = NULL;
    leave(w);
    nap = 0;
  }
  return nap;
}

static void *run(void *unused) {
  int quiet = 0;
  pthread_mutex_lock(&lock);
  while (!quits) {
    if (!tide__work_running && !failures) {
      pthread_cond_wait(&wake, &lock);
      quiet = 0;
      continue;
    }
    bool hurries;
    double nap = look_at_all(&hurries);
    forget_failures();
    quiet = nap > 0 ? quiet + 1 : 0;
    pthread_mutex_unlock(&lock);
    bool spins = hurries && quiet < (tide__crowded ? 20 : 1000);
    do tide__progress_nap(spins ? 0 : nap > 0 || hurries ? nap : 5e-5);
    while (callers);
    pthread_mutex_lock(&lock);
  }
  pthread_mutex_unlock(&lock);
  return unused;
}

static bool start(void) {
  quits = false;
  return runs = pthread_create(&thread, NULL, run, NULL) == 0;
}

void tide__progress_add(tide_work *w) {
  if (!runs && !start()) {
    tide__work_fail(w, tide__dist_fail(TIDE_MEMORY, "%s: no thread could be started", w->note.name));
    end_jobs(w);
    return;
  }
  tide_work **at = &tide__work_running;
  while (*at) at = &(*at)->running;
  w->is_running = true, w->running = NULL, *at = w;
  pthread_cond_signal(&wake);
}

void tide__progress_end(void) {
  pthread_mutex_lock(&lock);
  quits = true;
  pthread_cond_signal(&wake);
  pthread_mutex_unlock(&lock);
  if (runs) pthread_join(thread, NULL);
  runs = false;
  pthread_mutex_lock(&lock);
  while (tide__work_running) {
    tide_work *w = tide__work_running;
    tide__work_running = w->running, w->running = NULL;
    end_jobs(w);
    w->is_running = false;
  }
  while (failures) drop_first(&failures);
  pthread_mutex_unlock(&lock);
}
