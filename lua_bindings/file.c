/* file.c: the files that values of scripts go to and come from.
 *
 * Invariant: a file that is written by its name and was not finished is as it was before when the scope of its
 * ltide_file ends (tide/file.h). */
#include "file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_META    "tide.file"
#define MAPPING_META "tide.mapping"

static int file_close(lua_State *L) {
  ltide_file *f = ltide_test_object(L, 1, FILE_META);
  if (!f) return 0;
  if (f->written)
    tide_file_free(f->written);
  else if (f->file)
    fclose(f->file);
  free(f->bytes);
  f->file = NULL, f->bytes = NULL, f->written = NULL;
  return 0;
}

ltide_file *ltide_push_file(lua_State *L) {
  ltide_file *f = ltide_new_object(L, sizeof *f, 0);
  memset(f, 0, sizeof *f);
  if (ltide_newmetatable(L, FILE_META)) {
    static const luaL_Reg meta[] = {{"__gc", file_close}, {"__close", file_close}, {0}};
    luaL_setfuncs(L, meta, 0);
  }
  lua_pop(L, 1);
  ltide_setmetatable(L, FILE_META);
  lua_toclose(L, -1);
  return f;
}

int ltide_file_error(lua_State *L, const char *what, const char *name) {
  return ltide_error(L, "FileError", "%s: %s: %s, expected a file that can be %s", ltide_function_name(L), name,
                     strerror(errno), what);
}

FILE *ltide_check_file(lua_State *L, int arg, bool write, ltide_file **own, const char **name) {
  luaL_Stream *open = luaL_testudata(L, arg, LUA_FILEHANDLE);
  if (open && lua_rawlen(L, arg) != sizeof *open) open = NULL; /* its metatable was given to something else */
  *name = "file", *own = NULL;
  if (open && !open->closef)
    ltide_error(L, "StateError", "%s: got a closed file, expected an open one", ltide_function_name(L));
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

static int mapping_close(lua_State *L) {
  tide_mapping_release(ltide_take_pointer(L, MAPPING_META));
  return 0;
}

tide_mapping *ltide_push_mapping(lua_State *L, FILE *file, const char *name) {
  tide_mapping **m = ltide_new_object(L, sizeof *m, 0);
  *m = NULL;
  if (ltide_newmetatable(L, MAPPING_META)) {
    static const luaL_Reg meta[] = {{"__gc", mapping_close}, {"__close", mapping_close}, {0}};
    luaL_setfuncs(L, meta, 0);
  }
  lua_pop(L, 1);
  ltide_setmetatable(L, MAPPING_META);
  lua_toclose(L, -1);
  const luaL_Stream *open = luaL_testudata(L, 1, LUA_FILEHANDLE);
  if (open && open->f == file && !open->closef) /* by a finaliser, just now */
    ltide_error(L, "StateError", "%s: got a closed file, expected an open one", ltide_function_name(L));
  if (tide_mapping_new(m, file) != TIDE_OK)
    ltide_error(L, "FileError", "%s: %s: %s", ltide_function_name(L), name, tide_error_get()->message);
  return *m;
}
