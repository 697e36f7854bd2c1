/* file.c: the files that values of scripts go to and come from.
 *
 * Invariant: a file that is written by its name and was not finished is as it was before when the scope of its
 * ltide_file ends (tide/file.h). */
#include "file.h"

#include <errno.h>
#include <stdlib.h>

#include "call/fields.h"
#include "call/error.h"

static void close_file(void *file) {
  ltide_file *f = file;
  if (f->written)
    tide_file_free(f->written);
  else if (f->file)
    fclose(f->file);
  free(f->bytes);
  free(f);
}

ltide_file *ltide_push_file(lua_State *L) {
  void **f = ltide_push_owned(L, close_file);
  if (!(*f = calloc(1, sizeof(ltide_file)))) ltide_fail(L, "OutOfMemoryError", "no memory for a file");
  return *f;
}

int ltide_file_error(lua_State *L, const char *what, const char *name) {
  return ltide_fail(L, "FileError", "%s: %s, expected a file that can be %s", name, strerror(errno), what);
}

FILE *ltide_check_file(lua_State *L, int arg, bool write, ltide_file **own, const char **name) {
  luaL_Stream *open = luaL_testudata(L, arg, LUA_FILEHANDLE);
  if (open && lua_rawlen(L, arg) != sizeof *open) open = NULL; /* its metatable was given to something else */
  *name = "file", *own = NULL;
  if (open && !open->closef) ltide_fail(L, "StateError", "got a closed file, expected an open one");
  if (open) return open->f;
  *name = ltide_check_cstring(L, arg, "path", "a file name or an open file");
  ltide_file *f = *own = ltide_push_file(L);
  if (write) {
    ltide_try(L, tide_file_new(&f->written, ltide_function_name(L), *name));
    f->file = tide_file_stream(f->written);
  } else if (!(f->file = fopen(*name, "rb")))
    ltide_file_error(L, "read", *name);
  return f->file;
}

void ltide_file_finish(lua_State *L, ltide_file *f) {
  if (!f) return;
  tide_file *written = f->written;
  f->file = NULL, f->written = NULL;
  ltide_try(L, tide_file_finish(written));
}

static void release_mapping(void *mapping) { tide_mapping_release(mapping); }

tide_mapping *ltide_push_mapping(lua_State *L, FILE *file, const char *name) {
  tide_mapping **m = (tide_mapping **)ltide_push_owned(L, release_mapping);
  const luaL_Stream *open = luaL_testudata(L, 1, LUA_FILEHANDLE);
  if (open && open->f == file && !open->closef) /* by a finaliser, just now */
    ltide_fail(L, "StateError", "got a closed file, expected an open one");
  if (tide_mapping_new(m, file) != TIDE_OK) ltide_fail(L, "FileError", "%s: %s", name, tide_error_get()->message);
  return *m;
}
