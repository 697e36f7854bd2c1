/* file.h: files, folders, files as memory, and memory that other processes open. Private to core.
 *
 * A file is a descriptor as C's streams have it (fdopen, fileno), on Windows too; programs that are started do not get
 * it. Where nothing else is said a function gives 0, or an errno. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- files ---- */

enum {
  TIDE_OS_READ = 1,
  TIDE_OS_WRITE = 2,
  TIDE_OS_MAKE = 4,   /* where there is none */
  TIDE_OS_NEW = 8,    /* make it; EEXIST where there is one */
  TIDE_OS_EMPTY = 16, /* what is in it goes */
  TIDE_OS_OWN = 32,   /* a new one is this user's alone */
  TIDE_OS_NOW = 64,   /* a pipe that nobody writes is not waited for */
  TIDE_OS_RUN = 128   /* of tide__os_access */
};
int tide__os_open(const char *path, int how); /* -1: see errno */
int tide__os_close(int file);
bool tide__os_read(int file, void *to, size_t bytes); /* all of them */
bool tide__os_write(int file, const void *from, size_t bytes);
int tide__os_copy(int to, int from, int64_t bytes); /* from the beginning of one to the beginning of the other */
int tide__os_room(int file, int64_t bytes);         /* at least as long, with room on the disk for it */
int tide__os_resize(int file, int64_t bytes);
int tide__os_sync(int file);                    /* its bytes are on the disk */
int tide__os_access(const char *path, int how); /* READ, WRITE, RUN; 0: is there anything? */
int tide__os_rename(const char *from, const char *to);
char *tide__os_real_path(const char *path); /* malloc'ed; NULL: see errno */
bool tide__os_is_link(const char *path);
/* The owner, where we may give files away, and the rights of another file. */
void tide__os_rights(int file, const char *of);
/* A name that opens an open file, even a file without a name of its own. */
bool tide__os_name(char *out, size_t size, int file);
/* A file without a name in any folder, for reading and writing; NULL: see errno. */
FILE *tide__os_temporary(void);

typedef enum tide__os_kind { TIDE_OS_FILE, TIDE_OS_FOLDER, TIDE_OS_OTHER } tide__os_kind;
typedef struct tide__os_about {
  tide__os_kind kind;
  long nanoseconds;
  int64_t bytes, seconds; /* seconds, nanoseconds: when it was changed */
} tide__os_about;
int tide__os_look(tide__os_about *out, const char *path); /* links are followed */
int tide__os_look_at(tide__os_about *out, int file);

/* A stream whose bytes are in memory once it has ended: malloc'ed, with a zero after them. */
typedef struct tide__os_text {
  FILE *stream;
  char *at;
  size_t bytes;
} tide__os_text;
bool tide__os_text_begin(tide__os_text *t);
bool tide__os_text_end(tide__os_text *t); /* false: free `at` as after true */

/* ---- folders ---- */

int tide__os_folder(const char *path); /* a new one, this user's alone */
int tide__os_folder_remove(const char *path);
/* A new one for what is soon gone again, where the environment says; its path, or after an error what was tried. */
int tide__os_folder_temporary(char *out, size_t size, const char *name);
void tide__os_folder_list(const char *path, void (*each)(void *user, const char *name), void *user);

/* ---- files as memory ---- */

/* The first bytes of a file, for reading and writing; `shared`: what is written goes to the file. NULL: see errno. */
void *tide__os_map_file(int file, size_t bytes, bool shared);
void tide__os_unmap_file(void *at, size_t bytes);

/* ---- memory that other processes of the machine open by its name ---- */

/* Says who holds it open under which number; `key` tells it from a later file of that number. */
typedef struct tide__os_share {
  int32_t process, file;
  uint64_t key;
} tide__os_share;

/* Makes one of zeros; `file` is this process's number for it, to be closed when it is not shared any more. */
bool tide__os_share_new(tide__os_share *out, size_t bytes);
/* Opens another process's, or one's own: a number of the caller's, or -1. */
int tide__os_share_open(const tide__os_share *name);
void tide__os_share_close(int file);
void *tide__os_share_map(int file, size_t bytes); /* NULL: no memory */
void tide__os_share_unmap(void *at, size_t bytes);

/* Can such memory take the place of pages that are there, and may a file be another API's? Windows has neither. */
#ifdef _WIN32
enum { TIDE_OS_SHARES_PAGES = false, TIDE_OS_DESCRIPTORS = false };
#else
enum { TIDE_OS_SHARES_PAGES = true, TIDE_OS_DESCRIPTORS = true };
#endif
bool tide__os_share_pages(void *at, size_t bytes, int file);
void tide__os_share_leave(void *at, size_t bytes); /* reserved addresses again */
int tide__os_duplicate(int file);                  /* -1: it is none that is open */
