/* file.c: the files that values of scripts go to and come from.
 *
 * A file that is written by its name is made beside the one that is there and renamed at its end, so that an error, a
 * full disk or a killed process leaves the old one whole, and a reader never sees half of the new one. What cannot be
 * replaced so is written in place: a device, a pipe, a file whose folder takes no other one, a name that has no room
 * for more. Any other reason why no file can be made is an error, which leaves the old one whole too.
 *
 * Invariant: a part that was not put in its place is gone when the scope of its ltide_file ends. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_META "tide.file"

static void forget_part(ltide_file *f) {
  free(f->part), free(f->target);
  f->part = f->target = NULL;
}

static int file_close(lua_State *L) {
  ltide_file *f = ltide_test_object(L, 1, FILE_META);
  if (!f) return 0;
  if (f->file) fclose(f->file);
  if (f->part) unlink(f->part);
  free(f->bytes);
  f->file = NULL, f->bytes = NULL;
  forget_part(f);
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

/* Opens a new file beside the target, with the rights of the one that it is to replace. Returns 0 or an errno. */
static int open_part(ltide_file *f, const struct stat *old) {
  size_t room = strlen(f->target) + 40;
  if (!(f->part = malloc(room))) return ENOMEM;
  int fd = -1;
  for (int k = 0; k < 1000 && fd < 0; k++) {
    snprintf(f->part, room, "%s.part-%ld-%d", f->target, (long)getpid(), k);
    fd = open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  if (fd < 0) return errno;
  if (old) fchmod(fd, old->st_mode & 07777);
  if ((f->file = fdopen(fd, "wb"))) return 0;
  int error = errno;
  close(fd), unlink(f->part);
  return error;
}

/* A link is followed; one that leads nowhere is written through. */
static void open_written(ltide_file *f, const char *name) {
  struct stat old, link;
  bool exists = stat(name, &old) == 0, dangling = !exists && lstat(name, &link) == 0;
  if (!dangling && (!exists || S_ISREG(old.st_mode))) {
    f->target = exists ? realpath(name, NULL) : strdup(name);
    int error = f->target ? open_part(f, exists ? &old : NULL) : errno;
    if (!error) return;
    forget_part(f);
    errno = error;
    if (error != EACCES && error != EPERM && error != ENAMETOOLONG) return;
  }
  f->file = fopen(name, "wb");
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
  if (write)
    open_written(f, *name);
  else
    f->file = fopen(*name, "rb");
  if (!f->file) ltide_file_error(L, write ? "written" : "read", *name);
  return f->file;
}

int ltide_file_finish(ltide_file *f) {
  if (!f) return 0;
  int error = fclose(f->file) ? errno : 0;
  f->file = NULL;
  if (!error && f->part && rename(f->part, f->target)) error = errno;
  if (!error) forget_part(f);
  return error;
}
