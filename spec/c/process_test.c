/* process_test.c: programs that are started for a task: what they read and write, how they end, and that one which
 * hangs is stopped. */
#include "tide/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

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

static const char *self;

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
  if (n > 1) return !strcmp(arguments[1], "answers") ? answers() : stays(!strcmp(arguments[1], "stubborn"));
  CHECK(tide_process_find(path, sizeof path, NULL, NULL));
  self = path;
  a_task_is_read_and_answered();
  one_that_hangs_is_stopped();
  what_cannot_be_started_is_told();
  printf("process_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
