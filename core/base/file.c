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
#include "tide/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"

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
  close(fd);
  return error;
}

/* A new file beside the target, with the rights of the one that it is to replace. */
static int open_part(tide_file *f, const struct stat *old) {
  size_t room = strlen(f->target) + 40;
  if (!(f->part = malloc(room))) return ENOMEM;
  int fd = -1;
  for (int k = 0; k < 1000 && fd < 0; k++) {
    snprintf(f->part, room, "%s.part-%ld-%d", f->target, (long)getpid(), k);
    fd = open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno != EEXIST) break;
  }
  int error = stream_of(f, fd);
  if (error) {
    if (fd >= 0) unlink(f->part);
    free(f->part);
    f->part = NULL;
  } else if (old) { /* the owner is kept as far as we may give files away */
    if ((old->st_uid != geteuid() || old->st_gid != getegid()) && fchown(fd, old->st_uid, old->st_gid)) errno = 0;
    fchmod(fd, old->st_mode & 07777);
  }
  return error;
}

/* One that has no name. */
static int open_spare(tide_file *f) {
  f->stream = tmpfile();
  f->spare = f->stream != NULL;
  return f->stream ? 0 : errno;
}

static int open_in_place(tide_file *f, bool fresh) {
  int error = stream_of(f, open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666));
  f->fresh = fresh && !error;
  if (f->fresh && !f->target) f->target = realpath(f->path, NULL);
  return error;
}

static bool takes_no_other(int error) {
  return error == EACCES || error == EPERM || error == EROFS || error == ENAMETOOLONG;
}

/* A link is followed; one that leads nowhere is written through. */
static int open_file(tide_file *f) {
  struct stat old, link;
  if (stat(f->path, &old) != 0) {
    if (lstat(f->path, &link) == 0) return open_in_place(f, true);
    if (!(f->target = strdup(f->path))) return ENOMEM;
    int error = open_part(f, NULL);
    return error == ENAMETOOLONG ? open_in_place(f, true) : error;
  }
  if (!S_ISREG(old.st_mode)) return open_in_place(f, false);
  if (access(f->path, W_OK) != 0 || !(f->target = realpath(f->path, NULL))) return errno;
  int error = open_part(f, &old);
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

FILE *tide_file_stream(const tide_file *f) { return f->stream; }

void tide__file_name(char *out, size_t size, const tide_file *f) {
  if (f->spare)
    snprintf(out, size, "/proc/self/fd/%d", fileno(f->stream));
  else
    snprintf(out, size, "%s", f->part ? f->part : f->path);
}

/* ---- the end ---- */

void tide_file_free(tide_file *f) {
  if (!f) return;
  if (f->stream) fclose(f->stream);
  if (f->part) unlink(f->part);
  if (f->fresh && f->target) unlink(f->target);
  free(f->part), free(f->target);
  free(f);
}

static int copy(int to, int from, off_t size) {
  char buffer[1 << 14];
  for (off_t at = 0; at < size;) {
    ssize_t n = pread(from, buffer, sizeof buffer, at), wrote = n > 0 ? pwrite(to, buffer, (size_t)n, at) : 0;
    if ((n < 0 || wrote < 0) && errno == EINTR) continue;
    if (n <= 0 || wrote <= 0) return n < 0 || wrote < 0 ? errno : EIO;
    at += wrote;
  }
  return 0;
}

/* Writes the target anew, once there is room for all of it. */
static int overwrite(const char *target, int from) {
  struct stat now, new;
  int to = open(target, O_WRONLY | O_CLOEXEC), error = to < 0 || fstat(to, &now) || fstat(from, &new) ? errno : 0;
  if (!error && new.st_size > now.st_size) {
    error = posix_fallocate(to, 0, new.st_size);
    if (error == EOPNOTSUPP || error == EINVAL) error = 0; /* a file system that cannot say */
    if (error && ftruncate(to, now.st_size)) error = errno;
  }
  if (!error) error = copy(to, from, new.st_size);
  if (!error && (ftruncate(to, new.st_size) || fdatasync(to))) error = errno;
  if (to >= 0) close(to);
  return error;
}

/* A file system or a folder that takes no other file in the place of this one. */
static bool cannot_replace(int error) {
  return error == EBUSY || error == EXDEV || error == EPERM || error == EACCES || error == EROFS;
}

static int put_in_place(tide_file *f, int fd) {
  if (f->spare) return overwrite(f->target, fd);
  if (!f->part) return 0;
  int error = rename(f->part, f->target) ? errno : 0;
  if (cannot_replace(error)) {
    int part = open(f->part, O_RDONLY | O_CLOEXEC);
    error = part < 0 ? errno : overwrite(f->target, part);
    if (part >= 0) close(part);
  } else if (!error)
    free(f->part), f->part = NULL;
  return error;
}

tide_status tide_file_finish(tide_file *f) {
  if (!f) return tide__fail(TIDE_ARGUMENT, "file: wrong arguments, got a null pointer, expected a file");
  int fd = fileno(f->stream), error = fflush(f->stream) ? errno : 0;
  if (!error && ferror(f->stream)) error = EIO;
  bool whole = f->part || f->spare;
  if (!error && whole && fdatasync(fd) && errno != EINVAL && errno != EROFS) error = errno;
  if (!error) error = put_in_place(f, fd);
  if (fclose(f->stream) && !error && !whole) error = errno;
  f->stream = NULL;
  if (!error) f->fresh = false;
  tide_status status = error ? fail(f->what, f->path, error) : TIDE_OK;
  tide_file_free(f);
  return status;
}

tide_status tide__file_check(const char *what, const char *path) {
  struct stat is;
  tide_file *f;
  if (path && stat(path, &is) == 0 && !S_ISREG(is.st_mode)) {
    int error = S_ISDIR(is.st_mode) ? EISDIR : access(path, W_OK) ? errno : 0;
    return error ? fail(what, path, error) : TIDE_OK;
  }
  TIDE_TRY(tide_file_new(&f, what, path));
  tide_file_free(f);
  return TIDE_OK;
}
