/* tide/file.h: files that are written whole or stay as they were, and files as memory. Conventions as in tide.h. */
#ifndef TIDE_FILE_H
#define TIDE_FILE_H

#include <stdio.h>

#include "tide/tide.h"

TIDE_C_BEGIN

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

/* ---- files as memory ---- */

typedef struct tide_mapping tide_mapping;

/* Maps a regular file as it is now: pages are read when they are touched, and what is written to them stays in this
 * process. The file may be closed then; one that is cut short later ends the process where it is read. */
TIDE_API tide_status tide_mapping_new(tide_mapping **out, FILE *file);
/* Releases the handle; NULL is allowed. The memory stays as long as a tensor on it lives. */
TIDE_API void tide_mapping_release(tide_mapping *mapping);
/* The bytes of the file. */
TIDE_API int64_t tide_mapping_size(const tide_mapping *mapping);
/* A uint8 tensor on the cpu of the bytes from offset on, which are not copied. */
TIDE_API tide_status tide_mapping_tensor(tide_tensor **out, tide_mapping *mapping, int64_t offset, int64_t bytes);
/* A tensor on the cpu of the values that lie in a file from `offset` bytes on, in the machine's own form. shared: what
 * is written goes to the file, which is made, or made longer, where it has to be. dtype NONE: the default one. */
TIDE_API tide_status tide_from_file(tide_tensor **out, const char *path, const int64_t *size, int ndim, int64_t offset,
                                    bool shared, tide_dtype dtype);

TIDE_C_END
#endif
