/* file.c: files that are written whole or stay as they were.
 *
 * A new file is made beside the one that is there and renamed at its end, so that an error, a full disk or a killed
 * process leaves the old one whole, and a reader never sees half of the new one. Where there can be no other file
 * beside it (a folder that takes none, a name that has no room for more, a file that is mounted on its own), the new
 * one is made elsewhere and copied at its end, after the disk has given the room for it. What is no regular file is
 * written in place: a device, a pipe.
 *
 * Invariant: the old file is not touched before all of the new one is on the disk; a part that was not put in its place
 * is gone with its handle. */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "file.h"
#include "os/file.h"
#include "os/process.h"

struct tide_file {
  FILE *stream;
  char *target, *part; /* part: the file beside the target; NULL where there is none */
  bool spare;          /* it is made elsewhere */
  bool fresh;          /* written in place where no file was: an error takes it away again */
  char what[64], path[PATH_MAX];
};

static tide_status fail(const char *what, const char *path, int error) {
  return tide__fail(error == ENOMEM ? TIDE_MEMORY : TIDE_FILE, "%s: %s: %s, expected a file that can be written", what,
                    path, strerror(error));
}

/* ---- opening: each gives 0 or an errno ---- */

static int stream_of(tide_file *f, int fd) {
  if (fd < 0) return errno;
  if ((f->stream = fdopen(fd, "wb"))) return 0;
  int error = errno;
  tide__os_close(fd);
  return error;
}

/* A new file beside the target, with the rights of the one that it is to replace. */
static int open_part(tide_file *f, bool replaces) {
  size_t room = strlen(f->target) + 40;
  if (!(f->part = malloc(room))) return ENOMEM;
  int fd = -1;
  for (int k = 0; k < 1000 && fd < 0; k++) {
    snprintf(f->part, room, "%s.part-%ld-%d", f->target, (long)tide__os_self(), k);
    fd = tide__os_open(f->part, TIDE_OS_WRITE | TIDE_OS_NEW);
    if (fd < 0 && errno != EEXIST) break;
  }
  int error = stream_of(f, fd);
  if (error) {
    if (fd >= 0) remove(f->part);
    free(f->part);
    f->part = NULL;
  } else if (replaces) {
    tide__os_rights(fd, f->target);
  }
  return error;
}

/* One that has no name. */
static int open_spare(tide_file *f) {
  f->stream = tide__os_temporary();
  f->spare = f->stream != NULL;
  return f->stream ? 0 : errno;
}

static int open_in_place(tide_file *f, bool fresh) {
  int error = stream_of(f, tide__os_open(f->path, TIDE_OS_WRITE | TIDE_OS_MAKE | TIDE_OS_EMPTY));
  f->fresh = fresh && !error;
  if (f->fresh && !f->target) f->target = tide__os_real_path(f->path);
  return error;
}

static bool takes_no_other(int error) {
  return error == EACCES || error == EPERM || error == EROFS || error == ENAMETOOLONG;
}

/* A link is followed; one that leads nowhere is written through. */
static int open_file(tide_file *f) {
  tide__os_about old;
  if (tide__os_look(&old, f->path)) {
    if (tide__os_is_link(f->path)) return open_in_place(f, true);
    if (!(f->target = strdup(f->path))) return ENOMEM;
    int error = open_part(f, false);
    return error == ENAMETOOLONG ? open_in_place(f, true) : error;
  }
  if (old.kind != TIDE_OS_FILE) return open_in_place(f, false);
  int error = tide__os_access(f->path, TIDE_OS_WRITE);
  if (error || !(f->target = tide__os_real_path(f->path))) return error ? error : errno;
  error = open_part(f, true);
  return takes_no_other(error) ? open_spare(f) : error;
}

tide_status tide_file_new(tide_file **out, const char *what, const char *path) {
  if (!out || !what || !path)
    return tide__fail(TIDE_ARGUMENT, "file: wrong arguments, got a null pointer, expected a path");
  if (!*path || strlen(path) >= PATH_MAX) return fail(what, path, *path ? ENAMETOOLONG : ENOENT);
  tide_file *f = calloc(1, sizeof *f);
  if (!f) return fail(what, path, ENOMEM);
  snprintf(f->what, sizeof f->what, "%s", what);
  snprintf(f->path, sizeof f->path, "%s", path);
  int error = open_file(f);
  if (error) {
    tide_file_free(f);
    return fail(what, path, error);
  }
  *out = f;
  return TIDE_OK;
}

FILE *tide_file_stream(const tide_file *f) { return f ? f->stream : NULL; }

void tide__file_name(char *out, size_t size, const tide_file *f) {
  if (!f->spare || !tide__os_name(out, size, fileno(f->stream))) snprintf(out, size, "%s", f->part ? f->part : f->path);
}

/* ---- the end ---- */

void tide_file_free(tide_file *f) {
  if (!f) return;
  if (f->stream) fclose(f->stream);
  if (f->part) remove(f->part);
  if (f->fresh && f->target) remove(f->target);
  free(f->part), free(f->target);
  free(f);
}

/* Writes the target anew, once there is room for all of it. */
static int overwrite(const char *target, int from) {
  tide__os_about now, new;
  int to = tide__os_open(target, TIDE_OS_WRITE), error = to < 0 ? errno : tide__os_look_at(&now, to);
  if (!error) error = tide__os_look_at(&new, from);
  if (!error && new.bytes > now.bytes) {
    error = tide__os_room(to, new.bytes);
    if (error == EOPNOTSUPP || error == EINVAL) error = 0; /* a file system that cannot say */
    if (error) {
      int undone = tide__os_resize(to, now.bytes);
      error = undone ? undone : error;
    }
  }
  if (!error) error = tide__os_copy(to, from, new.bytes);
  if (!error) error = tide__os_resize(to, new.bytes);
  if (!error) error = tide__os_sync(to);
  if (to >= 0) tide__os_close(to);
  return error;
}

/* A file system or a folder that takes no other file in the place of this one. */
static bool cannot_replace(int error) {
  return error == EBUSY || error == EXDEV || error == EPERM || error == EACCES || error == EROFS;
}

static int put_in_place(tide_file *f, int fd) {
  if (f->spare) return overwrite(f->target, fd);
  if (!f->part) return 0;
  int error = tide__os_rename(f->part, f->target);
  if (cannot_replace(error)) {
    int part = tide__os_open(f->part, TIDE_OS_READ);
    error = part < 0 ? errno : overwrite(f->target, part);
    if (part >= 0) tide__os_close(part);
  } else if (!error)
    free(f->part), f->part = NULL;
  return error;
}

tide_status tide_file_finish(tide_file *f) {
  if (!f) return tide__fail(TIDE_ARGUMENT, "file: wrong arguments, got a null pointer, expected a file");
  int fd = fileno(f->stream), error = fflush(f->stream) ? errno : 0;
  if (!error && ferror(f->stream)) error = EIO;
  bool whole = f->part || f->spare;
  int unsynced = !error && whole ? tide__os_sync(fd) : 0;
  if (unsynced != EINVAL && unsynced != EROFS) error = error ? error : unsynced; /* else there is nothing to sync */
  if (!error) error = put_in_place(f, fd);
  if (fclose(f->stream) && !error && !whole) error = errno;
  f->stream = NULL;
  if (!error) f->fresh = false;
  tide_status status = error ? fail(f->what, f->path, error) : TIDE_OK;
  tide_file_free(f);
  return status;
}

tide_status tide__file_check(const char *what, const char *path) {
  tide__os_about is;
  tide_file *f;
  if (path && tide__os_look(&is, path) == 0 && is.kind != TIDE_OS_FILE) {
    int error = is.kind == TIDE_OS_FOLDER ? EISDIR : tide__os_access(path, TIDE_OS_WRITE);
    return error ? fail(what, path, error) : TIDE_OK;
  }
  TIDE_TRY(tide_file_new(&f, what, path));
  tide_file_free(f);
  return TIDE_OK;
}
