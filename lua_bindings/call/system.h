/* system.h: what the bindings themselves ask of the operating system, in one file for all of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int ltide_columns(void); /* of the terminal that the standard output goes to; 0: nobody knows */
/* The standard error output: "terminal", with its columns or 0; "log", a file; "pipe", all else. */
const char *ltide_place_of_errors(int *columns);
#define LTIDE_NOTEBOOK "tide.notebook" /* in the registry: standard error is shown below a cell of a notebook */
int64_t ltide_now(void);               /* nanoseconds of the steady clock; for handlers of signals too */
/* The local time of day, "12:34:56.789". */
void ltide_clock_text(char *text, size_t size);
/* Seconds of processors that this process has taken. */
void ltide_processor_seconds(double *user, double *kernel);
/* Is the code at both addresses of one library, or of the program? */
bool ltide_same_library(const void *a, const void *b);
/* The folder of the library, or the program, that the code at this address is in. */
bool ltide_folder_of(char *path, size_t size, const void *code);
void ltide_end_within(int seconds, int code); /* even inside a library */
void *ltide_library_open(const char *path);   /* NULL: see why; its symbols are for nobody else */
void *ltide_library_symbol(void *library, const char *name);
const char *ltide_library_problem(void);
/* The file of the running program, with '/' between folders; false: nobody knows. */
bool ltide_program_path(char *path, size_t size);
FILE *ltide_open_new(const char *path);                       /* for writing; NULL with EEXIST: it is there */
void ltide_make_folder(const char *path);                     /* nothing where that fails, or it is there */
bool ltide_set_variable(const char *name, const char *value); /* of the environment */

/* A stream whose bytes, malloc'ed, are in memory once it was flushed and they were taken; one that reads bytes, which
 * stay. NULL: no memory. */
FILE *ltide_bytes_writer(char **bytes, size_t *size);
bool ltide_bytes_take(FILE *writer, char **bytes, size_t *size);
FILE *ltide_bytes_reader(const char *bytes, size_t size);

/* For reading, if it is a file and no device, pipe or folder; else NULL. */
FILE *ltide_open_plain(const char *path);
/* 0, or the errno that says why a file cannot be read, or run. */
int ltide_cannot_use(const char *path, bool run);
/* Of a status as tide_process has it: the signal that ended it and its name, or 0 and the exit code. */
int ltide_signal_of(int status);
int ltide_exit_code_of(int status);
const char *ltide_signal_name(int number);
/* Was this process started by that one, which still runs? */
bool ltide_is_parent(long process);
