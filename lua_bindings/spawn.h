/* spawn.h: the processes behind spawn.c; no Lua in it. */
#ifndef LTIDE_SPAWN_H
#define LTIDE_SPAWN_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* One started program. `status` is what waitpid gave, once it has ended. */
typedef struct ltide_process {
  pid_t pid; /* 0: not started */
  bool ended;
  int status;
  FILE *file; /* what it reads its task from, and writes its error to: descriptor LTIDE_TASK there */
} ltide_process;

enum { LTIDE_TASK = 3 };

/* Makes its file, empty; false: see errno. */
bool ltide_process_prepare(ltide_process *p);
/* Starts exe with the arguments (NULL ends them); returns 0 or an errno. The standard input is empty. */
int ltide_process_start(ltide_process *p, const char *exe, char *const *arguments);
/* Has it ended? Never waits. */
bool ltide_process_ended(ltide_process *p);
/* Ends it: asks first, insists after `patience` seconds, and takes its status in either case. */
void ltide_process_stop(ltide_process *list, int n, double patience);
/* Forgets it; one that still runs is taken note of by a later call of any of these, so that no zombie stays. */
void ltide_process_drop(ltide_process *p);
/* In the child: its file, or NULL where this process is no such child. From now on it ends with the
 * thread that started it, so with the parent at the latest. */
FILE *ltide_process_task(void);
double ltide_process_now(void);           /* seconds, monotonic */
void ltide_process_sleep(double seconds); /* less where a signal comes */

#endif
