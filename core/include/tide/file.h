/* tide/file.h: files that are written whole or stay as they were. Conventions as in tide.h. */
#ifndef TIDE_FILE_H
#define TIDE_FILE_H

#include <stdio.h>

#include "tide/tide.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tide_file tide_file;

/* Opens a file to be written, under its name: what is there stays until tide_file_finish, which puts the new one in its
 * place. A device, a pipe or a socket is written into and never replaced. `what`: who writes, of messages. */
TIDE_API tide_status tide_file_new(tide_file **out, const char *what, const char *path);
/* Where to write; open until one of the two calls below. */
TIDE_API FILE *tide_file_stream(const tide_file *file);
/* Everything is written: it goes to the disk and then, at once, to its name. Frees the handle in any case; after an
 * error, one of writing too, what was there before is still there. */
TIDE_API tide_status tide_file_finish(tide_file *file);
/* Gives up: what was there before stays. NULL is allowed. */
TIDE_API void tide_file_free(tide_file *file);

#ifdef __cplusplus
}
#endif
#endif
