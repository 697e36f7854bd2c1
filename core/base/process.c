/* process.c: other processes: start, watch, stop.
 *
 * A process is a new program, never the copy of this one that fork alone makes: no driver follows a fork. Its task lies
 * in a file without a name, which it inherits as one descriptor; it gets no other file of ours but the two outputs.
 *
 * Invariant: the status of every process that was started is asked for once, so that none stays as a zombie: by who
 * waits, or, for one that was dropped while it ran, by whoever comes here later. */
#include "tide/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"

extern char **environ;

/* What stands in the file of a task once the process has read it, and before the text of its failure. */
static const char begun_head[] = "tide begun\n", failed_head[] = "tide error\n";
static const char task_path[] = "/memfd:tide-task"; /* as /proc shows the file of a task */

typedef struct orphan {
  struct orphan *next;
  pid_t pid;
} orphan;
static orphan *orphans;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */

double tide_process_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void tide_process_sleep(double seconds) {
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

static void reap_orphans(void) {
  pthread_mutex_lock(&lock);
  for (orphan **link = &orphans; *link;) {
    orphan *o = *link;
    if (waitpid(o->pid, NULL, WNOHANG) == 0) {
      link = &o->next;
      continue;
    }
    *link = o->next;
    free(o);
  }
  pthread_mutex_unlock(&lock);
}

/* Signals that a host ignores or blocks are as ever in the new program. */
static int set_signals(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigemptyset(&all);
  sigaddset(&all, SIGINT), sigaddset(&all, SIGTERM), sigaddset(&all, SIGPIPE), sigaddset(&all, SIGCHLD);
  int error = posix_spawnattr_setsigmask(attributes, &none);
  if (!error) error = posix_spawnattr_setsigdefault(attributes, &all);
  return error ? error : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

int tide_process_prepare(tide_process *p) {
  int file = memfd_create(task_path + sizeof "/memfd:" - 1, MFD_CLOEXEC);
  p->file = file < 0 ? NULL : fdopen(file, "w+b");
  int error = p->file ? 0 : errno;
  if (file >= 0 && !p->file) close(file);
  return error;
}

int tide_process_start(tide_process *p, const char *exe, char *const *arguments) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  reap_orphans();
  if (posix_spawn_file_actions_init(&actions)) return ENOMEM;
  if (posix_spawnattr_init(&attributes)) {
    posix_spawn_file_actions_destroy(&actions);
    return ENOMEM;
  }
  int error = posix_spawn_file_actions_adddup2(&actions, fileno(p->file), TIDE_PROCESS_TASK);
  if (!error) error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  if (!error) error = posix_spawn_file_actions_addclosefrom_np(&actions, TIDE_PROCESS_TASK + 1);
#endif
  if (!error) error = set_signals(&attributes);
  if (!error) error = posix_spawn(&p->pid, exe, &actions, &attributes, arguments, environ);
  if (error) p->pid = 0;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

bool tide_process_ended(tide_process *p) {
  if (p->ended || !p->pid) return true;
  pid_t got = waitpid(p->pid, &p->status, WNOHANG);
  if (got < 0 && errno != EINTR) p->status = -1; /* somebody else has asked */
  p->ended = got > 0 || (got < 0 && errno != EINTR);
  return p->ended;
}

static bool all_ended(tide_process *list, int n) {
  bool all = true;
  for (int i = 0; i < n; i++) all = tide_process_ended(&list[i]) && all;
  return all;
}

static void signal_all(tide_process *list, int n, int signal) {
  for (int i = 0; i < n; i++)
    if (!tide_process_ended(&list[i])) kill(list[i].pid, signal);
}

void tide_process_stop(tide_process *list, int n, double patience) {
  if (all_ended(list, n)) return;
  signal_all(list, n, SIGTERM);
  for (double end = tide_process_now() + patience; !all_ended(list, n) && tide_process_now() < end;)
    tide_process_sleep(1e-3);
  signal_all(list, n, SIGKILL);
  while (!all_ended(list, n)) tide_process_sleep(1e-3);
}

void tide_process_drop(tide_process *p) {
  if (p->file) fclose(p->file);
  p->file = NULL;
  orphan *o = tide_process_ended(p) ? NULL : malloc(sizeof *o);
  if (o) {
    pthread_mutex_lock(&lock);
    *o = (orphan){orphans, p->pid};
    orphans = o;
    pthread_mutex_unlock(&lock);
  }
  p->pid = 0;
  reap_orphans();
}

/* What lies under the number of a task in a process of another kind is left alone. */
FILE *tide_process_task(void) {
  char link[64], path[64] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", TIDE_PROCESS_TASK);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < (ssize_t)sizeof task_path - 1 || strncmp(path, task_path, sizeof task_path - 1) != 0) return NULL;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  fcntl(TIDE_PROCESS_TASK, F_SETFD, FD_CLOEXEC);
  return fdopen(TIDE_PROCESS_TASK, "r+b");
}

/* {==== What a process tells of itself, in the place of what its file held */

void tide_process_tell(FILE *task, const char *failure, size_t length) {
  const char *head = failure ? failed_head : begun_head;
  rewind(task);
  if (ftruncate(fileno(task), 0)) return;
  fwrite(head, 1, strlen(head), task);
  fwrite(failure ? failure : "", 1, failure ? length : 0, task);
  fflush(task);
}

tide_process_word tide_process_told(const tide_process *p) {
  char head[sizeof failed_head - 1];
  if (fseek(p->file, 0, SEEK_SET) || fread(head, 1, sizeof head, p->file) != sizeof head) return TIDE_PROCESS_SILENT;
  if (!memcmp(head, begun_head, sizeof head)) return TIDE_PROCESS_BEGUN;
  return memcmp(head, failed_head, sizeof head) ? TIDE_PROCESS_SILENT : TIDE_PROCESS_FAILED;
}

/* {==== Finding a program */

static bool is_program(char *out, size_t size, const char *folder, int length, const char *place, const char *name) {
  int n = snprintf(out, size, "%.*s%s/%s", length, folder, place, name);
  return n > 0 && (size_t)n < size && access(out, X_OK) == 0;
}

static bool find_beside(char *out, size_t size, const char *name, const void *address) {
  static const char *const places[] = {"/../../../bin", "/../bin", ""};
  char path[PATH_MAX];
  if (!tide__os_file_of(path, sizeof path, address)) return false;
  const char *slash = strrchr(path, '/');
  for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++)
    if (is_program(out, size, path, (int)(slash - path), places[i], name)) return true;
  return false;
}

bool tide_process_find(char *out, size_t size, const char *name, const void *address) {
  if (!address && tide__os_file_of(out, size, NULL)) return true;
  if (address && find_beside(out, size, name, address)) return true;
  for (const char *path = getenv("PATH"); path && *path;) {
    size_t n = strcspn(path, ":");
    if (n && is_program(out, size, path, (int)n, "", name)) return true;
    path += n + (path[n] == ':');
  }
  return false;
}
