/* process.h: other programs: starting, watching, stopping them. Private to core. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

int32_t tide__os_self(void);                                         /* this process */
void tide__os_default_variable(const char *name, const char *value); /* of the environment, where it is not set */
bool tide__os_alive(int32_t process); /* is it running? A dead one that nobody has waited for is not */
void tide__os_sleep(double seconds);  /* less where a signal comes */

/* The separator of lists of folders, as in PATH. */
#ifdef _WIN32
#  define TIDE_OS_LIST ";"
#else
#  define TIDE_OS_LIST ":"
#endif
/* The path of a program of this name in this folder, or (NULL) in those of PATH. */
bool tide__os_program(char *out, size_t size, const char *folder, const char *name);

/* A file that a started program inherits, as descriptor TIDE_OS_TASK where there are descriptors. NULL: see errno. */
enum { TIDE_OS_TASK = 3 };
FILE *tide__os_task_new(void);
/* In that program: its file, or NULL where this process has none. It ends with who started it from then on. */
FILE *tide__os_task(void);

/* Starts a program, with nothing to read. task: what it inherits, or NULL. output: the path of a file for all that it
 * writes, or NULL: where we write. 0, or an errno. */
int tide__os_start(pid_t *out, const char *program, char *const *arguments, FILE *task, const char *output);
/* The same with limits of processor time and of addresses, which its children inherit. It
 * ends when this process does, or *leash is cut: to be cut in any case. */
int tide__os_start_leashed(pid_t *out, int *leash, const char *program, char *const *arguments, const char *output,
                           int seconds, int mebibytes);
void tide__os_leash_cut(int leash);
typedef enum tide__os_end {
  TIDE_OS_RUNS,
  TIDE_OS_ENDED,
  TIDE_OS_LOST
} tide__os_end; /* LOST: somebody else has asked */
/* Has it ended? `status` is as waitpid's. To be asked until it has, and no more. */
tide__os_end tide__os_ended(int *status, pid_t process, bool wait);
void tide__os_stop(pid_t process, bool at_once); /* else it may see to its affairs, where it can be asked to */
int tide__os_exit_code(int status);              /* -1: it did not end by itself */

/* A library from bytes; no file is left once it is closed. NULL: errno, or 0 where tide__os_library_problem
 * says why. */
void *tide__os_code(const void *bytes, size_t n);
void tide__os_code_close(void *library);
