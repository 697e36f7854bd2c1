/* process_test.c: programs that are started for a task: what they read and write, how they end, and that one which
 * hangs is stopped; and those on a leash, as compilers are: their limits hold, and they end with who started them. */
#include "tide/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#ifndef _WIN32
#  include <fcntl.h>
#  include <sys/resource.h>
#  include <sys/stat.h>
#  include <unistd.h>
#endif

#include "check.h"
#include "os/process.h"

/* ---- the programs: this one, which is told what to do ---- */

static int answers(void) {
  FILE *task = tide_process_task();
  char text[64] = "";
  if (!task || !fgets(text, sizeof text, task)) return 1;
  rewind(task);
  fprintf(task, "got %s", text);
  fclose(task);
  return getchar() == EOF ? 7 : 2; /* the standard input is empty */
}

#ifdef _WIN32
enum { INSISTED = SIGTERM }; /* nobody can be asked there */
static void ignore(void) {}
#else
enum { INSISTED = SIGKILL };
static void ignore(void) { signal(SIGTERM, SIG_IGN); }
#endif

static int stays(bool stubborn) {
  if (stubborn) ignore();
  FILE *task = stubborn ? tide_process_task() : NULL;
  if (task) fputs("here", task), fflush(task);
  tide_process_sleep(600);
  return 3;
}

/* ---- on a leash: nothing under TSan runs where its addresses have a limit ---- */

static const char *self;

#if !defined(_WIN32) && !defined(__SANITIZE_THREAD__)

#  ifdef __SANITIZE_ADDRESS__
enum { MEBIBYTES = 1 << 30 }; /* the sanitizer's own addresses are terabytes */
#  else
enum { MEBIBYTES = 4096 };
#  endif

/* Prints its limits, and takes processor time until it is ended. */
static int limited(void) {
  struct rlimit time, space;
  getrlimit(RLIMIT_CPU, &time), getrlimit(RLIMIT_AS, &space);
  printf("%lld s, %lld MiB\n", (long long)time.rlim_cur, (long long)space.rlim_cur >> 20);
  fflush(stdout);
  volatile int64_t n = 0;
  while (n >= 0) n++;
  return 0;
}

static int start_leashed(pid_t *pid, int *leash, const char *what, const char *output, int seconds) {
  char *arguments[] = {(char *)self, (char *)what, NULL};
  return tide__os_start_leashed(pid, leash, self, arguments, output, seconds, MEBIBYTES);
}

/* A pipe by name, to which the started programs write: it ends when all of them have ended. */
static char fifo[64];

static int open_fifo(void) {
  snprintf(fifo, sizeof fifo, "/tmp/tide_process_pipe.%lld", (long long)getpid());
  CHECK(mkfifo(fifo, 0600) == 0);
  return open(fifo, O_RDONLY | O_NONBLOCK);
}

static void ends(int reader) {
  char c;
  ssize_t n = 0;
  for (double end = tide_process_now() + 60; tide_process_now() < end; tide_process_sleep(1e-3))
    if ((n = read(reader, &c, 1)) == 0) break;
  CHECK(n == 0);
  close(reader);
  remove(fifo);
}

static bool runs(int reader) {
  char c;
  return read(reader, &c, 1) < 0 && errno == EAGAIN;
}

/* Starts one that stays, and stays itself. */
static int hosts(void) {
  char path[4096];
  pid_t pid;
  int leash;
  FILE *task = tide_process_task();
  if (!task || !fgets(fifo, sizeof fifo, task) || !tide_process_find(path, sizeof path, NULL, NULL)) return 1;
  self = path;
  if (start_leashed(&pid, &leash, "stays", fifo, 1000)) return 1;
  rewind(task);
  fputs("ready", task);
  fflush(task);
  return stays(false);
}

static void a_compiler_has_limits(void) {
  char output[64], text[64] = "";
  pid_t pid;
  int leash, status = 0;
  snprintf(output, sizeof output, "/tmp/tide_process_test.%lld", (long long)getpid());
  CHECK(start_leashed(&pid, &leash, "limited", output, 1) == 0);
  double end = tide_process_now() + 300;
  tide__os_end how;
  while ((how = tide__os_ended(&status, pid, false)) == TIDE_OS_RUNS && tide_process_now() < end)
    tide_process_sleep(1e-2);
  CHECK(how == TIDE_OS_ENDED && tide__os_exit_code(status) > 128); /* by a signal, as the shell says */
  tide__os_leash_cut(leash);
  FILE *file = fopen(output, "r");
  CHECK(file && fgets(text, sizeof text, file));
#  ifdef __linux__
  char expected[64];
  snprintf(expected, sizeof expected, "1 s, %d MiB\n", (int)MEBIBYTES);
  CHECK(!strcmp(text, expected));
#  endif
  if (file) fclose(file);
  remove(output);
}

static void a_leash_that_is_cut_ends_all(void) {
  pid_t pid;
  int leash, status;
  int reader = open_fifo();
  CHECK(start_leashed(&pid, &leash, "stays", fifo, 1000) == 0);
  tide_process_sleep(0.05);
  CHECK(tide__os_ended(&status, pid, false) == TIDE_OS_RUNS && runs(reader));
  tide__os_leash_cut(leash);
  ends(reader);
  tide__os_ended(&status, pid, failures == 0);
}

static tide_process program(const char *what, const char *task);

static void a_compiler_ends_with_its_host(void) {
  int reader = open_fifo();
  tide_process host = program("hosts", fifo);
  char text[8] = "";
  /* the two share where they are in the file, so that this is not to move */
  for (double end = tide_process_now() + 60; strcmp(text, "ready") && tide_process_now() < end;
       tide_process_sleep(1e-3))
    if (pread(fileno(host.file), text, 5, 0) < 0) break;
  CHECK(!strcmp(text, "ready") && runs(reader));
  kill(host.pid, SIGKILL); /* it has no time to do anything */
  ends(reader);
  double end = tide_process_now() + 60;
  while (!tide_process_ended(&host) && tide_process_now() < end) tide_process_sleep(1e-3);
  tide_process_drop(&host);
}
#endif

static tide_process program(const char *what, const char *task) {
  tide_process p = {0};
  char *arguments[] = {(char *)self, (char *)what, NULL};
  CHECK(tide_process_prepare(&p) == 0);
  fputs(task, p.file);
  fflush(p.file);
  rewind(p.file);
  CHECK(tide_process_start(&p, self, arguments) == 0);
  return p;
}

static void wait_for(tide_process *p) {
  for (double end = tide_process_now() + 30; !tide_process_ended(p) && tide_process_now() < end;)
    tide_process_sleep(1e-3);
  CHECK(p->ended);
}

static void a_task_is_read_and_answered(void) {
  char text[64] = "";
  tide_process p = program("answers", "task\n");
  wait_for(&p);
  CHECK(tide__os_exit_code(p.status) == 7);
  rewind(p.file);
  CHECK(fread(text, 1, sizeof text - 1, p.file) > 0 && strstr(text, "got task"));
  tide_process_drop(&p);
  CHECK(!p.pid && !p.file);
}

static void one_that_hangs_is_stopped(void) {
  tide_process list[2] = {program("stubborn", ""), program("stays", "")};
  CHECK(!tide_process_ended(&list[0]) && !tide_process_ended(&list[1]));
  char text[8] = "";
  for (double end = tide_process_now() + 30; !*text && tide_process_now() < end; rewind(list[0].file)) {
    tide_process_sleep(1e-3); /* until it has begun to ignore what asks it to end */
    if (!fread(text, 1, 4, list[0].file)) *text = 0;
  }
  double start = tide_process_now();
  tide_process_stop(list, 2, 0.1);
  CHECK(tide_process_now() - start < 20);
  CHECK(list[0].ended && (list[0].status & 127) == INSISTED);
  CHECK(list[1].ended && (list[1].status & 127) == SIGTERM);
  tide_process_drop(&list[0]), tide_process_drop(&list[1]);
}

static void what_cannot_be_started_is_told(void) {
  tide_process p = {0};
  char *arguments[] = {"nothing", NULL};
  CHECK(tide_process_prepare(&p) == 0);
  CHECK(tide_process_start(&p, "/nowhere/nothing", arguments) == ENOENT && !p.pid);
  CHECK(tide_process_ended(&p)); /* it never ran */
  tide_process_drop(&p);
  CHECK(tide_process_task() == NULL); /* nobody has started this one for a task */
}

int main(int n, char **arguments) {
  char path[4096];
#if !defined(_WIN32) && !defined(__SANITIZE_THREAD__)
  if (n > 1 && !strcmp(arguments[1], "limited")) return limited();
  if (n > 1 && !strcmp(arguments[1], "hosts")) return hosts();
#endif
  if (n > 1) return !strcmp(arguments[1], "answers") ? answers() : stays(!strcmp(arguments[1], "stubborn"));
  CHECK(tide_process_find(path, sizeof path, NULL, NULL));
  self = path;
  a_task_is_read_and_answered();
  one_that_hangs_is_stopped();
  what_cannot_be_started_is_told();
#if !defined(_WIN32) && !defined(__SANITIZE_THREAD__)
  a_compiler_has_limits();
  a_leash_that_is_cut_ends_all();
  a_compiler_ends_with_its_host();
#endif
  printf("process_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
