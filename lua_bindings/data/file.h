/* file.h: the files that values of scripts go to and come from. */
#pragma once

#include <stdio.h>

#include "call/bindings.h"
#include "tide/file.h"

/* A file that is closed when its scope ends: pushes it, and marks it to be closed. Not open yet. */
typedef struct ltide_file {
  FILE *file;
  char *bytes; /* of a file in memory */
  size_t size;
  tide_file *written; /* that `file` belongs to, or NULL */
} ltide_file;
ltide_file *ltide_push_file(lua_State *L);

/* The file at arg: one that io.open gave, or one to be opened by its name, which is pushed. Of the latter, one to be
 * written takes the place of another at its end only. `name`: for messages. */
FILE *ltide_check_file(lua_State *L, int arg, bool write, ltide_file **own, const char **name);
/* The end of writing, and nothing for NULL. What was there before stays where it raises an error. */
void ltide_file_finish(lua_State *L, ltide_file *f);
/* The file as memory, or an error: pushes the handle, which goes with its scope. */
tide_mapping *ltide_push_mapping(lua_State *L, FILE *file, const char *name);
/* Raises a FileError from errno; what: "read" or "written". */
int ltide_file_error(lua_State *L, const char *what, const char *name);
