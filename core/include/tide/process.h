/* tide/process.h: programs that are started for a task and watched, and what they find there. Conventions as in
 * tide.h. */
#ifndef TIDE_PROCESS_H
#define TIDE_PROCESS_H

#include <stdio.h>
#include <sys/types.h>

#include "tide/tide.h"

TIDE_C_BEGIN

/* One started program. `status` is what waitpid gave, once it has ended; -1: somebody else has asked for it. Zero at
 * first. */
typedef struct tide_process {
  pid_t pid; /* 0: not started */
  bool ended;
  int status;
  FILE *file; /* what it reads its task from, and writes its error to: descriptor TIDE_PROCESS_TASK there */
} tide_process;

enum { TIDE_PROCESS_TASK = 3 };

/* Makes its file, empty; returns 0 or an errno. */
TIDE_API int tide_process_prepare(tide_process *p);
/* Finds a program of that name: beside the library that holds the code at `address`, where an installation puts it, or
 * in PATH. NULL: this program itself. False where there is none. */
TIDE_API bool tide_process_find(char *out, size_t size, const char *name, const void *address);
/* Starts exe with the arguments (NULL ends them); returns 0 or an errno. The standard input is empty. */
TIDE_API int tide_process_start(tide_process *p, const char *exe, char *const *arguments);
/* Has it ended? Never waits. */
TIDE_API bool tide_process_ended(tide_process *p);
/* Ends these n: asks first, insists after `patience` seconds, and takes their status in either case. */
TIDE_API void tide_process_stop(tide_process *list, int n, double patience);
/* Forgets it; one that still runs is taken note of by a later call of any of these, so that no zombie stays. */
TIDE_API void tide_process_drop(tide_process *p);
/* In the child: its file, or NULL where this process is no such child. From now on it ends with the thread that started
 * it, so with the parent at the latest. */
TIDE_API FILE *tide_process_task(void);
/* In the child: it has read its task and begins, or (with a text) has failed. The text stands in the file then. */
TIDE_API void tide_process_tell(FILE *task, const char *failure, size_t length);
/* The last message of a process that has ended. Where it failed, its file stands at the beginning of the text. */
typedef enum tide_process_word { TIDE_PROCESS_SILENT, TIDE_PROCESS_BEGUN, TIDE_PROCESS_FAILED } tide_process_word;
TIDE_API tide_process_word tide_process_told(const tide_process *p);
TIDE_API double tide_process_now(void);           /* seconds, monotonic */
TIDE_API void tide_process_sleep(double seconds); /* less where a signal comes */

TIDE_C_END
#endif
