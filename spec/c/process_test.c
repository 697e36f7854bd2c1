/* process_test.c: programs that are started for a task: what they read and write, how they end, and that one which
 * hangs is stopped. */
#include "tide/process.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

#include "check.h"

/* A shell whose file holds the task and is read from its beginning. */
static tide_process shell(const char *script, const char *task) {
  tide_process p = {0};
  char *arguments[] = {"sh", "-c", (char *)script, NULL};
  CHECK(tide_process_prepare(&p) == 0);
  fputs(task, p.file);
  fflush(p.file);
  rewind(p.file);
  CHECK(tide_process_start(&p, "/bin/sh", arguments) == 0);
  return p;
}

static void wait_for(tide_process *p) {
  for (double end = tide_process_now() + 30; !tide_process_ended(p) && tide_process_now() < end;)
    tide_process_sleep(1e-3);
  CHECK(p->ended);
}

static void a_task_is_read_and_answered(void) {
  char text[64] = "";
  tide_process p = shell("read x <&3; echo \"got $x\" >&3; read y || exit 7", "task\n");
  wait_for(&p);
  CHECK(WIFEXITED(p.status) && WEXITSTATUS(p.status) == 7); /* the standard input is empty */
  rewind(p.file);
  CHECK(fread(text, 1, sizeof text - 1, p.file) > 0 && strstr(text, "got task"));
  tide_process_drop(&p);
  CHECK(!p.pid && !p.file);
}

static void one_that_hangs_is_stopped(void) {
  tide_process list[2] = {shell("trap '' TERM; while :; do sleep 0.01; done", ""), shell("exec sleep 60", "")};
  CHECK(!tide_process_ended(&list[0]) && !tide_process_ended(&list[1]));
  tide_process_sleep(0.2); /* until the trap is set */
  double start = tide_process_now();
  tide_process_stop(list, 2, 0.1);
  CHECK(tide_process_now() - start < 20);
  CHECK(list[0].ended && WIFSIGNALED(list[0].status));
  CHECK(list[1].ended && WIFSIGNALED(list[1].status) && WTERMSIG(list[1].status) == 15);
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

int main(void) {
  a_task_is_read_and_answered();
  one_that_hangs_is_stopped();
  what_cannot_be_started_is_told();
  printf("process_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
