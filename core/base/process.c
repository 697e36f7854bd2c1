/* process.c: other processes: start, watch, stop.
 *
 * Invariant: the status of every process that was started is asked for once, so that none stays as a zombie: by who
 * waits, or, for one that was dropped while it ran, by whoever comes here later. */
#include "tide/process.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "os/file.h"
#include "os/os.h"
#include "os/process.h"

_Static_assert((int)TIDE_PROCESS_TASK == (int)TIDE_OS_TASK, "the descriptor of a task");

/* What stands in the file of a task once the process has read it, and before the text of its failure. */
static const char begun_head[] = "tide begun\n", failed_head[] = "tide error\n";

typedef struct orphan {
  struct orphan *next;
  pid_t pid;
} orphan;
static orphan *orphans;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */

double tide_process_now(void) { return tide__os_seconds(); }
void tide_process_sleep(double seconds) { tide__os_sleep(seconds); }

static void reap_orphans(void) {
  pthread_mutex_lock(&lock);
  for (orphan **link = &orphans; *link;) {
    orphan *o = *link;
    if (tide__os_ended(NULL, o->pid, false) == TIDE_OS_RUNS) {
      link = &o->next;
      continue;
    }
    *link = o->next;
    free(o);
  }
  pthread_mutex_unlock(&lock);
}

int tide_process_prepare(tide_process *p) {
  if (!p) return EINVAL;
  p->file = tide__os_task_new();
  return p->file ? 0 : errno;
}

int tide_process_start(tide_process *p, const char *exe, char *const *arguments) {
  if (!p || !exe || !arguments) return EINVAL;
  reap_orphans();
  int error = tide__os_start(&p->pid, exe, arguments, p->file, NULL);
  if (error) p->pid = 0;
  return error;
}

bool tide_process_ended(tide_process *p) {
  if (!p || p->ended || !p->pid) return true;
  tide__os_end end = tide__os_ended(&p->status, p->pid, false);
  if (end == TIDE_OS_LOST) p->status = -1;
  p->ended = end != TIDE_OS_RUNS;
  return p->ended;
}

static bool all_ended(tide_process *list, int n) {
  bool all = true;
  for (int i = 0; i < n; i++) all = tide_process_ended(&list[i]) && all;
  return all;
}

static void stop_all(tide_process *list, int n, bool at_once) {
  for (int i = 0; i < n; i++)
    if (!tide_process_ended(&list[i])) tide__os_stop(list[i].pid, at_once);
}

void tide_process_stop(tide_process *list, int n, double patience) {
  if (!list) return;
  if (all_ended(list, n)) return;
  stop_all(list, n, false);
  for (double end = tide_process_now() + patience; !all_ended(list, n) && tide_process_now() < end;)
    tide_process_sleep(1e-3);
  stop_all(list, n, true);
  while (!all_ended(list, n)) tide_process_sleep(1e-3);
}

void tide_process_drop(tide_process *p) {
  if (!p) return;
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

FILE *tide_process_task(void) { return tide__os_task(); }

/* {==== What a process tells of itself, in the place of what its file held */

void tide_process_tell(FILE *task, const char *failure, size_t length) {
  if (!task) return;
  const char *head = failure ? failed_head : begun_head;
  rewind(task);
  if (tide__os_resize(fileno(task), 0)) return;
  fwrite(head, 1, strlen(head), task);
  fwrite(failure ? failure : "", 1, failure ? length : 0, task);
  fflush(task);
}

tide_process_word tide_process_told(const tide_process *p) {
  char head[sizeof failed_head - 1];
  if (!p || !p->file) return TIDE_PROCESS_SILENT;
  if (fseek(p->file, 0, SEEK_SET) || fread(head, 1, sizeof head, p->file) != sizeof head) return TIDE_PROCESS_SILENT;
  if (!memcmp(head, begun_head, sizeof head)) return TIDE_PROCESS_BEGUN;
  return memcmp(head, failed_head, sizeof head) ? TIDE_PROCESS_SILENT : TIDE_PROCESS_FAILED;
}

/* {==== Finding a program */

static bool find_beside(char *out, size_t size, const char *name, const void *address) {
  static const char *const places[] = {"/../../../bin", "/../bin", ""};
  char path[PATH_MAX], folder[PATH_MAX];
  if (!tide__os_file_of(path, sizeof path, address)) return false;
  const char *slash = strrchr(path, '/');
  for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++)
    if (snprintf(folder, sizeof folder, "%.*s%s", (int)(slash - path), path, places[i]) < PATH_MAX &&
        tide__os_program(out, size, folder, name))
      return true;
  return false;
}

bool tide_process_find(char *out, size_t size, const char *name, const void *address) {
  if (!out) return false;
  if (!address && tide__os_file_of(out, size, NULL)) return true;
  return (address && find_beside(out, size, name, address)) || tide__os_program(out, size, NULL, name);
}
