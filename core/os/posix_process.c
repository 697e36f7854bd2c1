/* posix_process.c: other programs where the system is POSIX.
 *
 * A process is a new program, never the copy of this one that fork alone makes: no driver follows a fork. Its task lies
 * in a file without a name, which it inherits as one descriptor; it gets no other file of ours but the two outputs. */
#ifndef _WIN32
#  include "process.h"

#  include <errno.h>
#  include <fcntl.h>
#  include <limits.h>
#  include <pthread.h>
#  include <signal.h>
#  include <spawn.h>
#  include <stdlib.h>
#  include <string.h>
#  include <sys/wait.h>
#  include <time.h>
#  include <unistd.h>

#  ifdef __linux__
#    include <sys/mman.h>
#    include <sys/prctl.h>
#  endif

#  include "file.h"
#  include "os.h"

extern char **environ;

int32_t tide__os_self(void) { return (int32_t)getpid(); }

void tide__os_default_variable(const char *name, const char *value) { setenv(name, value, 0); }

void tide__os_sleep(double seconds) {
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

bool tide__os_alive(int32_t process) {
#  ifdef __linux__
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  FILE *file = fopen(path, "re");
  if (!file) return false;
  size_t n = fread(line, 1, sizeof line - 1, file);
  fclose(file);
  line[n] = 0;
  const char *state = strrchr(line, ')'); /* behind the program's name */
  return state && state[1] && state[2] != 'Z' && state[2] != 'X';
#  else
  return kill(process, 0) == 0 || errno == EPERM;   /* a dead one too, until it is waited for */
#  endif
}

/* ---- finding ---- */

static bool is_program(char *out, size_t size, const char *folder, int length, const char *name) {
  int n = snprintf(out, size, "%.*s/%s", length, folder, name);
  return n > 0 && (size_t)n < size && access(out, X_OK) == 0;
}

bool tide__os_program(char *out, size_t size, const char *folder, const char *name) {
  if (folder) return is_program(out, size, folder, (int)strlen(folder), name);
  const char *path = getenv("PATH");
  for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
    int length = (int)strcspn(p, ":");
    if (length && is_program(out, size, p, length, name)) return true;
    p += length + (p[length] == ':');
  }
  return false;
}

/* ---- tasks ---- */

#  ifdef __linux__
static const char task_path[] = "/memfd:tide-task"; /* as /proc shows the file of a task */

FILE *tide__os_task_new(void) {
  int file = memfd_create(task_path + sizeof "/memfd:" - 1, MFD_CLOEXEC);
  FILE *stream = file < 0 ? NULL : fdopen(file, "w+b");
  int error = errno;
  if (file >= 0 && !stream) close(file);
  errno = error;
  return stream;
}

/* What lies under the number of a task in a process of another kind is left alone. */
static bool has_task(void) {
  char link[64], path[64] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", TIDE_OS_TASK);
  ssize_t n = readlink(link, path, sizeof path - 1);
  return n >= (ssize_t)sizeof task_path - 1 && !strncmp(path, task_path, sizeof task_path - 1);
}

static char **task_environment(void) { return environ; }
static void end_with_parent(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); } /* SIGTERM may be caught */

#  else
static const char task_variable[] = "TIDE_TASK_OF"; /* the parent, in the environment */

FILE *tide__os_task_new(void) { return tmpfile(); }

static bool has_task(void) {
  const char *parent = getenv(task_variable);
  return parent && atol(parent) == (long)getppid() && fcntl(TIDE_OS_TASK, F_GETFD) >= 0;
}

/* Of a program that is started for a task: malloc'ed, in one piece. */
static char **task_environment(void) {
  enum { TEXT = 64 };
  size_t n = 0;
  while (environ[n]) n++;
  char **list = malloc((n + 2) * sizeof *list + TEXT);
  if (!list) return NULL;
  list[0] = (char *)(list + n + 2); /* the first of a name counts */
  snprintf(list[0], TEXT, "%s=%ld", task_variable, (long)getpid());
  memcpy(list + 1, environ, (n + 1) * sizeof *list);
  return list;
}

static void *watch_parent(void *unused) {
  for (pid_t parent = getppid(); getppid() == parent;) tide__os_sleep(0.1);
  kill(getpid(), SIGKILL);
  return unused;
}

static void end_with_parent(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, watch_parent, NULL) == 0) pthread_detach(thread);
}
#  endif

FILE *tide__os_task(void) {
  if (!has_task()) return NULL;
  end_with_parent();
  fcntl(TIDE_OS_TASK, F_SETFD, FD_CLOEXEC);
  return fdopen(TIDE_OS_TASK, "r+b");
}

/* ---- starting ---- */

/* The new program starts with default signals, also those that a host ignores or blocks. */
static int set_signals(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigemptyset(&all);
  sigaddset(&all, SIGINT), sigaddset(&all, SIGTERM), sigaddset(&all, SIGPIPE), sigaddset(&all, SIGCHLD);
  int error = posix_spawnattr_setsigmask(attributes, &none);
  if (!error) error = posix_spawnattr_setsigdefault(attributes, &all);
  return error ? error : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int set_files(posix_spawn_file_actions_t *actions, FILE *task, const char *output) {
  int error = task ? posix_spawn_file_actions_adddup2(actions, fileno(task), TIDE_OS_TASK) : 0;
  if (!error) error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
  if (!error && output)
    error = posix_spawn_file_actions_addopen(actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!error && output) error = posix_spawn_file_actions_adddup2(actions, 1, 2);
#  if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  if (!error && task) error = posix_spawn_file_actions_addclosefrom_np(actions, TIDE_OS_TASK + 1);
#  endif
  return error;
}

int tide__os_start(pid_t *out, const char *program, char *const *arguments, FILE *task, const char *output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (posix_spawn_file_actions_init(&actions)) return ENOMEM;
  if (posix_spawnattr_init(&attributes)) {
    posix_spawn_file_actions_destroy(&actions);
    return ENOMEM;
  }
  int error = set_files(&actions, task, output);
  if (!error && task) error = set_signals(&attributes);
  char **environment = task ? task_environment() : environ;
  if (!environment) error = ENOMEM;
  if (!error) error = posix_spawn(out, program, &actions, &attributes, arguments, environment);
  if (environment != environ) free(environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* ---- on a leash ----
 *
 * A shell sets the limits, which all that it starts inherits, and leads a group of processes: a compiler is several.
 * One of them reads from a pipe that only this process can write to, so that it sees when this one ends, by any
 * thread and in any way, and ends the group. */

static const char leashed[] = "ulimit -t $1 2>/dev/null; ulimit -v $2 2>/dev/null; shift 2; exec 3<&0\n"
                              "{ read x; kill -9 0; } <&3 >/dev/null 2>&1 &\n"
                              "w=$!; \"$@\" 3<&- </dev/null; r=$?; kill -9 $w; exit $r";
enum { LEASHED_MOST = 96 };

static int new_leash(int ends[2]) {
#  ifdef __linux__
  return pipe2(ends, O_CLOEXEC) ? errno : 0;
#  else
  if (pipe(ends)) return errno;
  return fcntl(ends[0], F_SETFD, FD_CLOEXEC), fcntl(ends[1], F_SETFD, FD_CLOEXEC), 0;
#  endif
}

static int spawn_leashed(pid_t *out, int from, char *const *argv, const char *output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (posix_spawn_file_actions_init(&actions)) return ENOMEM;
  if (posix_spawnattr_init(&attributes)) {
    posix_spawn_file_actions_destroy(&actions);
    return ENOMEM;
  }
  int error = posix_spawn_file_actions_adddup2(&actions, from, 0);
  if (!error) error = posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!error) error = posix_spawn_file_actions_adddup2(&actions, 1, 2);
  if (!error) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  if (!error) error = posix_spawnattr_setpgroup(&attributes, 0);
  if (!error) error = posix_spawn(out, argv[0], &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

int tide__os_start_leashed(pid_t *out, int *leash, const char *program, char *const *arguments, const char *output,
                           int seconds, int mebibytes) {
  char time[16], space[24], *argv[LEASHED_MOST] = {"/bin/sh", "-c", (char *)(uintptr_t)leashed, "sh", time, space};
  int ends[2], n = 6;
  snprintf(time, sizeof time, "%d", seconds);
  snprintf(space, sizeof space, "%lld", (long long)mebibytes * 1024);
  argv[n++] = (char *)(uintptr_t)program;
  for (int i = 1; arguments[i]; i++) {
    if (n == LEASHED_MOST - 1) return E2BIG;
    argv[n++] = arguments[i];
  }
  int error = new_leash(ends);
  if (error) return error;
  error = spawn_leashed(out, ends[0], argv, output);
  close(ends[0]);
  *leash = ends[1];
  if (error) close(ends[1]);
  return error;
}

void tide__os_leash_cut(int leash) { close(leash); }

/* ---- ending ---- */

tide__os_end tide__os_ended(int *status, pid_t process, bool wait) {
  pid_t got;
  do { got = waitpid(process, status, wait ? 0 : WNOHANG); } while (wait && got < 0 && errno == EINTR);
  if (got < 0 && errno != EINTR) return TIDE_OS_LOST;
  return got > 0 ? TIDE_OS_ENDED : TIDE_OS_RUNS;
}

void tide__os_stop(pid_t process, bool at_once) { kill(process, at_once ? SIGKILL : SIGTERM); }
int tide__os_exit_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }

/* ---- code ---- */

#  ifdef __linux__
/* A path to the file that is new in this process, because the loader takes equal paths for equal libraries: the bits of
 * a counter stand in it as "./" and ".//". */
static void *load(int file, const char *name) {
  static _Atomic unsigned counter;
  char path[160];
  unsigned n = counter++;
  size_t at = (size_t)snprintf(path, sizeof path, "/proc/self/fd/");
  for (int i = 0; i < 32; i++) at += (size_t)snprintf(path + at, sizeof path - at, n >> i & 1 ? ".//" : "./");
  snprintf(path + at, sizeof path - at, "%d", file);
  return tide__os_library(path, true);
}

static int new_file(char *path, size_t size) { return *path = 0, memfd_create("tide-kernel", MFD_CLOEXEC); }
#  else
static void *load(int file, const char *name) { return (void)file, tide__os_library(name, true); }

static int new_file(char *path, size_t size) {
  const char *tmp = getenv("TMPDIR");
  snprintf(path, size, "%s/tide-kernel-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  return mkstemp(path);
}
#  endif

void *tide__os_code(const void *bytes, size_t n) {
  char path[PATH_MAX];
  int file = new_file(path, sizeof path), error = 0;
  void *library = NULL;
  if (file < 0) return NULL;
  if (tide__os_write(file, bytes, n))
    library = load(file, path);
  else
    error = errno;
  close(file);
  if (*path) unlink(path);
  errno = error;
  return library;
}

void tide__os_code_close(void *library) { tide__os_library_close(library); }
#endif
