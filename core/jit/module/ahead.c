/* ahead.c: kernels that are compiled on threads of their own, before they are called, or because the caller may not
 * wait.
 *
 * A function is made before it is called, and a program that makes one mostly makes several. So while the program goes
 * on, the kernel that the first call will most likely want is compiled, if neither memory nor disk has it: a script
 * whose functions stand at its top finds them ready. Which kernel that is, jit.c guesses. A call that comes before its
 * kernel was begun compiles it itself; one that comes in the middle waits for the rest. A guess that was wrong costs
 * time of a processor that was idle, and is written nowhere. Where nothing may wait, in the frames of a host, a call
 * begins its kernel here and fails, and a later one finds it in memory: a driver that loads it may wait for the device,
 * so that the thread does this, too. What counts against a quota counts once: a job that is
 * dropped because the threads are stopped is given back, as a later call begins it again.
 *
 * Half of what a small kernel costs is what any program costs. So where more jobs wait than there are threads for, a
 * thread takes several, and its compiler reads their texts as one; where that fails it reads each, so that a text
 * that is refused spoils no other. While there are threads enough each takes one job, as the kernels of one program
 * are there only when all of them are.
 *
 * The threads see no Lua state and no stream. They start with the first kernel and end when the runtime
 * ends, or the process, both of which wait for the one compilation that each is in: a compiler may not run while its
 * library is torn down. What was registered last with atexit runs first, and a compiler registers things of its own
 * until its first compilation is over. So after that one atexit is the place to wait; until then it is the end of the
 * thread that made the function, which for the thread that calls exit comes before everything else.
 *
 * Invariant: a job is on the list until it is taken or dropped, both under the lock; only its own thread touches the
 * image of a running one. */
#include "jit/jit.h"
#include "os/os.h"

enum { WORKERS = 8, JOBS = 256, ARCH = 64, TOGETHER = 4 };
typedef enum state { WAITING, RUNNING, DONE } state;

typedef struct job {
  struct job *next;
  state state;
  const tide_compiler *compiler;
  tide__jit_request request; /* its strings are the job's */
  char arch[ARCH];
  int device;
  bool load, tried; /* it is asked for where nothing may wait: so it is to be loaded, and has been if it can be */
  bool loads;       /* of a running one: `load` as it was when it was taken */
  tide_image image;
  tide_status status; /* DONE: and its message */
  char *message;
  tide_quota *quota; /* that it counts against, or NULL */
  uint64_t tenant;   /* whose it is, see tide__tenant */
} job;

static struct {
  pthread_mutex_t lock, stopping;
  pthread_cond_t wake, done;
  job *jobs;
  _Atomic int count;                      /* of jobs */
  int waiting, idle, started, busy, most; /* jobs; threads that wait, are there, compile, and may be there */
  uint64_t tenant;                        /* whose job was taken last */
  pthread_t thread[WORKERS];
  bool quit;
} ahead = {.lock = PTHREAD_MUTEX_INITIALIZER,
           .stopping = PTHREAD_MUTEX_INITIALIZER,
           .wake = PTHREAD_COND_INITIALIZER,
           .done = PTHREAD_COND_INITIALIZER};

_Atomic uint32_t tide__jit_ended;

static void job_free(job *j) {
  const tide__jit_request *r = &j->request;
  for (int i = 0; r->options && i < r->options_count; i++) free((char *)(uintptr_t)r->options[i]);
  free((void *)(uintptr_t)r->options);
  free((char *)(uintptr_t)r->what), free((char *)(uintptr_t)r->source), free((char *)(uintptr_t)r->name);
  free(j->image.bytes);
  free(j->message);
  tide_quota_release(j->quota);
  free(j);
}

static bool copy_options(tide__jit_request *to, const tide__jit_request *r) {
  const char **options = calloc((size_t)r->options_count + 1, sizeof *options);
  bool good = options != NULL;
  for (int i = 0; good && i < r->options_count; i++) good = (options[i] = strdup(r->options[i])) != NULL;
  to->options = options, to->options_count = r->options_count;
  return good;
}

static job *job_new(const tide__jit_request *r, const tide_compiler *c, int device) {
  job *j = calloc(1, sizeof *j);
  if (!j) return NULL;
  j->compiler = c, j->device = device, j->tenant = tide__tenant();
  j->request = (tide__jit_request){strdup(r->what), strdup(r->source), strdup(r->name), .raw = r->raw, .ours = r->ours};
  bool good = j->request.what && j->request.source && j->request.name && copy_options(&j->request, r);
  if (good && c->loader->arch(j->arch, sizeof j->arch, device) == TIDE_OK) return j;
  job_free(j);
  return NULL;
}

static bool same_options(const tide__jit_request *a, const tide__jit_request *b) {
  bool same = a->options_count == b->options_count;
  for (int i = 0; same && i < a->options_count; i++) same = !strcmp(a->options[i], b->options[i]);
  return same;
}

/* The lock is held. */
static job *unlink_job(job **p) {
  job *j = *p;
  *p = j->next;
  atomic_fetch_sub(&ahead.count, 1);
  return j;
}

/* ---- the threads ---- */

static void at_exit(void) { tide__jit_ahead_stop(); }
static void watch_exit(void) { atexit(at_exit); }

/* In the C library; C has no name for it. */
extern int __cxa_thread_atexit_impl(void (*fn)(void *), void *arg, void *library) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static void at_thread_end(void *unused) { tide__jit_ahead_stop(); }

static void watch_thread(void) {
  static _Thread_local bool watched;
  if (!watched && __cxa_thread_atexit_impl) __cxa_thread_atexit_impl(at_thread_end, NULL, &__dso_handle);
  watched = true;
}

/* Is it in no memory and on no disk, and is to be compiled? */
static tide_status job_look(bool *missing, job *j) {
  const tide__jit_request *r = &j->request;
  *missing = false;
  if (j->image.bytes) return TIDE_OK;
  return j->loads ? tide__jit_bring(missing, NULL, r, j->compiler, j->arch, j->device)
                  : tide__jit_missing(missing, r, j->compiler, j->arch, j->device);
}

static void job_fail(job *j, tide_status status) {
  j->status = status;
  j->message = strdup(tide_error_get()->message); /* the call will tell */
}

/* Those that are missing, in one program where there are several and that works. */
static void compile_missing(job *const *list, int n) {
  static pthread_once_t compiled = PTHREAD_ONCE_INIT;
  const tide__jit_request *request[TOGETHER];
  tide_image *image[TOGETHER];
  for (int i = 0; i < n; i++) request[i] = &list[i]->request, image[i] = &list[i]->image;
  bool all = n > 1 && tide__jit_compile_joined(image, request, n, list[0]->compiler, list[0]->arch) == TIDE_OK;
  for (int i = 0; i < n && !all; i++) {
    tide_status status = tide__jit_compile(image[i], request[i], list[i]->compiler, list[i]->arch);
    if (status != TIDE_OK) image[i]->bytes = NULL, job_fail(list[i], status);
  }
  if (n) pthread_once(&compiled, watch_exit);
}

static void jobs_run(job *const *list, int n) {
  job *missing[TOGETHER];
  int k = 0;
  for (int i = 0; i < n; i++) {
    bool is_missing;
    tide_status status = job_look(&is_missing, list[i]);
    if (status != TIDE_OK) job_fail(list[i], status);
    if (status == TIDE_OK && is_missing) missing[k++] = list[i];
  }
  compile_missing(missing, k);
  for (int i = 0; i < n; i++) {
    job *j = list[i];
    if (!j->loads || !j->image.bytes) continue;
    bool unused;
    tide_status status = tide__jit_bring(&unused, &j->image, &j->request, j->compiler, j->arch, j->device);
    if (status != TIDE_OK) j->image.bytes = NULL, job_fail(j, status);
  }
}

static job *first_that_is(state s) {
  job *j = ahead.jobs;
  while (j && j->state != s) j = j->next;
  return j;
}

/* Tenants take turns, so that one that has queued hundreds holds up no other: the oldest of the tenant behind the last
 * one's, by number, or else of the first. */
static job *next_that_waits(void) {
  job *next = NULL;
  for (job *j = ahead.jobs; j; j = j->next) {
    uint64_t turn = j->tenant - ahead.tenant - 1; /* the last one's own comes last */
    if (j->state == WAITING && (!next || turn < next->tenant - ahead.tenant - 1)) next = j;
  }
  return next;
}

static void drop(job *j) {
  job **p = &ahead.jobs;
  while (*p != j) p = &(*p)->next;
  job_free(unlink_job(p));
}

static bool goes_with(const job *a, const job *b) {
  return a->state == WAITING && !a->image.bytes && a->request.ours && a->compiler == b->compiler &&
         a->device == b->device && a->request.raw == b->request.raw && same_options(&a->request, &b->request);
}

/* The first one that waits and its share of the others that can go with it. The lock is held. */
static int take_jobs(job **list) {
  job *first = next_that_waits();
  int n = 0, share = ahead.waiting / (ahead.most - ahead.busy);
  if (first && !(first->compiler->joins && goes_with(first, first))) share = 1;
  if (share > TOGETHER) share = TOGETHER;
  if (first) ahead.tenant = first->tenant;
  for (job *j = first; j && (!n || n < share); j = j->next) {
    if (j != first && !goes_with(j, first)) continue;
    j->state = RUNNING, j->loads = j->load, ahead.waiting--;
    list[n++] = j;
  }
  return n;
}

/* The lock is held. */
static void end_job(job *j) {
  j->state = DONE, j->tried = j->loads;
  if (!j->image.bytes && !j->message)
    drop(j); /* it is there, or nothing can be told */
  else if (j->load && !j->loads && !j->message && !ahead.quit)
    j->state = WAITING, ahead.waiting++;
  atomic_fetch_add(&tide__jit_ended, 1);
}

static void *worker(void *unused) {
  job *list[TOGETHER];
  pthread_mutex_lock(&ahead.lock);
  while (!ahead.quit) {
    int n = take_jobs(list);
    if (!n) {
      ahead.idle++;
      pthread_cond_wait(&ahead.wake, &ahead.lock);
      ahead.idle--;
      continue;
    }
    ahead.busy++;
    pthread_mutex_unlock(&ahead.lock);
    jobs_run(list, n);
    pthread_mutex_lock(&ahead.lock);
    ahead.busy--;
    for (int i = 0; i < n; i++) end_job(list[i]);
    pthread_cond_broadcast(&ahead.done);
  }
  pthread_mutex_unlock(&ahead.lock);
  return unused;
}

int tide__jit_ahead_pending(void) {
  TIDE_LOCKED(&ahead.lock);
  int n = 0;
  for (const job *j = ahead.jobs; j; j = j->next) n += j->state != DONE;
  return n;
}

/* Only the forking thread lives in a child, and what a worker may have locked is made new there. */
static void child_after_fork(void) {
  pthread_mutex_init(&ahead.lock, NULL);
  pthread_mutex_init(&ahead.stopping, NULL);
  pthread_cond_init(&ahead.wake, NULL);
  pthread_cond_init(&ahead.done, NULL);
  ahead.jobs = NULL, ahead.waiting = ahead.idle = ahead.started = ahead.busy = 0, ahead.quit = false;
  atomic_store(&ahead.count, 0);
  tide__jit_cache_forked();
  tide__jit_module_forked();
}

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static void watch_forks(void) { pthread_atfork(NULL, NULL, child_after_fork); }

/* Half of the processors at most, as the program wants to go on. The lock is held. */
static void start_worker(void) {
  int half = ahead.most ? 0 : tide__os_processors(false) / 2;
  if (!ahead.most) ahead.most = half > WORKERS ? WORKERS : half > 1 ? half : 1;
  if (ahead.started >= ahead.most) return;
  if (pthread_create(&ahead.thread[ahead.started], NULL, worker, NULL) == 0) ahead.started++;
}

/* *j becomes NULL where it is on the list. While the threads are stopped none is started, as it would end at once and
 * count as one that runs. */
static tide__ahead add(job **j, tide__wish wish) {
  TIDE_LOCKED(&ahead.lock);
  if (ahead.quit) return TIDE_AHEAD_PENDING;
  if (ahead.waiting >= ahead.idle) start_worker();
  if (!ahead.started) return TIDE_AHEAD_NONE;
  if (wish == TIDE_WISH_MAKE && tide__quota_count(TIDE_QUOTA_COMPILES) != TIDE_OK) return TIDE_AHEAD_FAILED;
  if (wish == TIDE_WISH_MAKE) (*j)->quota = tide__quota_retain(tide__quota_bound());
  job *oldest = atomic_load(&ahead.count) >= JOBS ? first_that_is(DONE) : NULL, **last = &ahead.jobs;
  if (oldest) drop(oldest);
  while (*last) last = &(*last)->next;
  *last = *j, *j = NULL;
  atomic_fetch_add(&ahead.count, 1);
  ahead.waiting++;
  pthread_cond_signal(&ahead.wake);
  return TIDE_AHEAD_PENDING;
}

/* ---- what core does with it ---- */

tide__ahead tide__jit_ahead(const tide__jit_request *r, const tide_compiler *c, int device, tide__wish wish) {
  job *j = job_new(r, c, device);
  if (!j) return TIDE_AHEAD_NONE;
  j->load = wish != TIDE_WISH_GUESS;
  pthread_once(&fork_once, watch_forks);
  watch_thread();
  tide__ahead result = add(&j, wish);
  if (j) job_free(j);
  return result;
}

static job **find(const tide__jit_request *r, const tide_compiler *c, const char *arch) {
  job **p = &ahead.jobs;
  for (; *p; p = &(*p)->next) {
    const tide__jit_request *x = &(*p)->request;
    if ((*p)->compiler == c && x->raw == r->raw && !strcmp((*p)->arch, arch) && !strcmp(x->name, r->name) &&
        !strcmp(x->source, r->source) && same_options(x, r))
      break;
  }
  return p;
}

/* The lock is held. Has it to be loaded first? */
static bool ask(job *j) {
  if (j->state == DONE && (j->tried || j->message)) return false;
  j->load = true;
  if (j->state != DONE) return true;
  if (ahead.waiting >= ahead.idle && !ahead.quit) start_worker();
  if (ahead.quit || !ahead.started) return false;
  j->state = WAITING, ahead.waiting++;
  pthread_cond_signal(&ahead.wake);
  return true;
}

/* The job that is to be taken or dropped, NULL: there is none, or it is pending. */
static job *unlink_ready(bool *pending, const tide__jit_request *r, const tide_compiler *c, const char *arch,
                         bool wait) {
  TIDE_LOCKED(&ahead.lock);
  job **p = find(r, c, arch);
  for (; wait && *p && (*p)->state == RUNNING; p = find(r, c, arch)) pthread_cond_wait(&ahead.done, &ahead.lock);
  *pending = *p && !wait && ask(*p);
  if (!*p || *pending) return NULL;
  if ((*p)->state == WAITING) ahead.waiting--;
  return unlink_job(p);
}

tide__ahead tide__jit_ahead_take(tide_image *out, const tide__jit_request *r, const tide_compiler *c, const char *arch,
                                 bool wait) {
  bool pending;
  if (!atomic_load(&ahead.count)) return TIDE_AHEAD_NONE;
  job *j = unlink_ready(&pending, r, c, arch, wait);
  if (!j) return pending ? TIDE_AHEAD_PENDING : TIDE_AHEAD_NONE;
  tide__ahead result = TIDE_AHEAD_NONE;
  if (j->state == DONE && j->image.bytes) {
    *out = j->image, j->image.bytes = NULL;
    result = TIDE_AHEAD_TAKEN;
  } else if (j->state == DONE && j->message) {
    tide__fail(j->status, "%s", j->message);
    result = TIDE_AHEAD_FAILED;
  }
  job_free(j);
  return result;
}

void tide__jit_ahead_stop(void) {
  pthread_t thread[WORKERS];
  TIDE_LOCKED(&ahead.stopping);
  pthread_mutex_lock(&ahead.lock);
  int started = ahead.started;
  memcpy(thread, ahead.thread, sizeof thread);
  ahead.quit = true, ahead.started = 0;
  pthread_cond_broadcast(&ahead.wake);
  pthread_mutex_unlock(&ahead.lock);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
  pthread_mutex_lock(&ahead.lock);
  while (ahead.jobs) {
    job *j = unlink_job(&ahead.jobs);
    if (j->quota) tide__quota_uncount(j->quota, TIDE_QUOTA_COMPILES);
    job_free(j);
  }
  ahead.waiting = 0, ahead.quit = false;
  atomic_fetch_add(&tide__jit_ended, 1); /* who was told to wait asks again */
  pthread_cond_broadcast(&ahead.done);
  pthread_mutex_unlock(&ahead.lock);
}
