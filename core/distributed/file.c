/* file.c: one file that all ranks write, each its own bytes.
 *
 * One rank makes the file under another name, with its head and room for all; every rank writes where its bytes belong;
 * one rank gives it its name. A process that ends in between leaves what was there before.
 *
 * Invariant: no rank writes a byte of another's, so that file systems of networks, which keep ranges of bytes that were
 * written and not pages, keep all of them. */
#include <errno.h>
#include <string.h>

#include "distributed/room.h"
#include "os/file.h"

static tide_status fail(const char *path, int code) {
  return tide__dist_fail(TIDE_FILE, "save: %s could not be written: %s", path, strerror(code));
}

/* At that place of an open file. */
static int write_at(FILE *stream, int64_t offset, const void *bytes, size_t n) {
  if (!n) return 0;
  if (fseeko(stream, (off_t)offset, SEEK_SET)) return errno;
  return fwrite(bytes, 1, n, stream) == n ? 0 : errno;
}

/* Writes, and has all of the file on the disk. */
static tide_status write_open(int file, const char *path, const tide_file_part *parts, int n) {
  FILE *stream = fdopen(file, "wb");
  if (!stream) {
    int code = errno;
    tide__os_close(file);
    return fail(path, code);
  }
  setvbuf(stream, NULL, _IONBF, 0);
  int code = 0;
  for (int i = 0; i < n && !code; i++) code = write_at(stream, parts[i].offset, parts[i].bytes, parts[i].size);
  if (!code) code = tide__os_sync(file);
  if (fclose(stream) && !code) code = errno;
  return code ? fail(path, code) : TIDE_OK;
}

tide_status tide__file_new(const char *path, const char *like, int64_t bytes) {
  int file = tide__os_open(path, TIDE_OS_WRITE | TIDE_OS_MAKE | TIDE_OS_EMPTY), code = 0;
  if (file < 0) return fail(path, errno);
  tide__os_rights(file, like);
  code = tide__os_room(file, bytes);
  tide__os_close(file);
  return code ? fail(path, code) : TIDE_OK;
}

tide_status tide__file_write(const char *path, const tide_file_part *parts, int n) {
  int file = tide__os_open(path, TIDE_OS_WRITE);
  return file < 0 ? fail(path, errno) : write_open(file, path, parts, n);
}

tide_status tide__file_rename(const char *from, const char *to) {
  int code = tide__os_rename(from, to);
  return code ? fail(to, code) : TIDE_OK;
}
