/* mapping.c: regular files as memory.
 *
 * The pages of a file are read when they are touched first, and shared with every other process that maps it; a page
 * that is written becomes the process's own, so that the file stays as it is, unless the mapping is shared. It goes
 * with the last tensor on it and the handle.
 *
 * Invariant: a tensor lies inside the file as it was when it was mapped. */
#include <errno.h>

#include "os/file.h"
#include "tensor/tensor.h"
#include "tide/file.h"

struct tide_mapping {
  _Atomic int64_t refs; /* of the handle and of tensors */
  char *at;
  int64_t size;
};

/* The first `size` bytes of a file. */
static tide_status map(tide_mapping **out, int fd, int64_t size, bool shared) {
  tide_mapping *m = calloc(1, sizeof *m);
  if (!m) return tide__fail(TIDE_MEMORY, "mapping: no host memory");
  atomic_init(&m->refs, 1);
  m->size = size;
  if (m->size) {
    m->at = tide__os_map_file(fd, (size_t)m->size, shared);
    if (!m->at) {
      int error = errno;
      free(m);
      return tide__fail(error == ENOMEM ? TIDE_MEMORY : TIDE_FILE, "mapping: the file cannot be mapped: %s",
                        strerror(error));
    }
  }
  *out = m;
  return TIDE_OK;
}

tide_status tide_mapping_new(tide_mapping **out, FILE *file) {
  tide__os_about is;
  if (!out || !file) return tide__fail(TIDE_ARGUMENT, "mapping: wrong arguments, got a null pointer, expected a file");
  int fd = fileno(file), error = fd < 0 ? errno : tide__os_look_at(&is, fd);
  if (error) return tide__fail(TIDE_FILE, "mapping: got a file that cannot be mapped: %s", strerror(error));
  if (is.kind != TIDE_OS_FILE)
    return tide__fail(TIDE_FILE, "mapping: got a device or a pipe, expected a regular file to be mapped");
  return map(out, fd, is.bytes, false);
}

static void let_go(void *user) {
  tide_mapping *m = user;
  if (!tide__ref_drop(&m->refs)) return;
  if (m->at) tide__os_unmap_file(m->at, (size_t)m->size);
  free(m);
}

void tide_mapping_release(tide_mapping *m) {
  if (m) let_go(m);
}

int64_t tide_mapping_size(const tide_mapping *m) { return m ? m->size : 0; }

/* A tensor of n bytes there; the mapping goes with it. */
static tide_status tensor_at(tide_tensor **out, tide_mapping *m, int64_t offset, const int64_t *size, int ndim,
                             tide_dtype dtype) {
  const tide_options o = {dtype, TIDE_CPU, false};
  tide__ref_take(&m->refs);
  tide_status status = tide_from_ptr(out, m->at + offset, size, NULL, ndim, &o, let_go, m);
  if (status != TIDE_OK) let_go(m);
  return status;
}

tide_status tide_mapping_tensor(tide_tensor **out, tide_mapping *m, int64_t offset, int64_t bytes) {
  if (!out || !m) return tide__fail(TIDE_ARGUMENT, "mapping: wrong arguments, got a null pointer");
  if (offset < 0 || bytes < 0 || offset > m->size || bytes > m->size - offset)
    return tide__fail(TIDE_FILE, "mapping: got %lld bytes at %lld, expected them to lie inside the file's %lld",
                      (long long)bytes, (long long)offset, (long long)m->size);
  tide_options o = {TIDE_UINT8, TIDE_CPU, false};
  if (!bytes) return tide_empty(out, &bytes, 1, &o);
  return tensor_at(out, m, offset, &bytes, 1, TIDE_UINT8);
}

/* ---- a file of plain values ---- */

static tide_status fail_file(const char *path, const char *reason) {
  return tide__fail(TIDE_FILE, "from_file: %s: %s, expected a regular file that can be mapped", path, reason);
}

/* made: a shared one was not there. */
static int open_file(const char *path, bool shared, bool *made) {
  int how = TIDE_OS_READ | TIDE_OS_NOW | (shared ? TIDE_OS_WRITE : 0), fd = tide__os_open(path, how);
  if (fd >= 0 || !shared || errno != ENOENT) return fd;
  fd = tide__os_open(path, how | TIDE_OS_NEW);
  return *made = fd >= 0, fd;
}

/* A shared file is made as long as it has to be, with room on the disk: else a write would end the process. */
static tide_status check_length(const char *path, int fd, int64_t length, bool shared) {
  tide__os_about is;
  int error = tide__os_look_at(&is, fd);
  if (error) return fail_file(path, strerror(error));
  if (is.kind != TIDE_OS_FILE) return fail_file(path, "got a folder, a device or a pipe");
  if (is.bytes >= length) return TIDE_OK;
  if (!shared)
    return tide__fail(TIDE_FILE, "from_file: %s: got a file of %lld bytes, expected at least %lld", path,
                      (long long)is.bytes, (long long)length);
  error = tide__os_room(fd, length);
  if (!error) return TIDE_OK;
  int undone = tide__os_resize(fd, is.bytes);
  return fail_file(path, strerror(undone ? undone : error));
}

tide_status tide_from_file(tide_tensor **out, const char *path, const int64_t *size, int ndim, int64_t offset,
                           bool shared, tide_dtype dtype) {
  TIDE_LIST("from_file", size, ndim);
  int64_t n;
  tide_mapping *m;
  if (!out || !path) return tide__fail(TIDE_ARGUMENT, "from_file: wrong arguments, got a null pointer");
  if (dtype == TIDE_DTYPE_NONE) dtype = tide_get_default_dtype();
  TIDE_RANGE("from_file", dtype, TIDE_DTYPE_COUNT);
  TIDE_TRY(tide__size_check(&n, size, ndim, dtype, "from_file"));
  int64_t each = tide_dtype_kind(dtype) == 'C' ? tide__itemsize(dtype) / 2 : tide__itemsize(dtype);
  if (offset < 0 || offset % each)
    return tide__fail(TIDE_VALUE, "from_file: offset: got %lld, expected a multiple of %lld bytes", (long long)offset,
                      (long long)each);
  int64_t length = tide__size_add(offset, n * tide__itemsize(dtype));
  bool made = false;
  int fd = open_file(path, shared, &made);
  if (fd < 0) return fail_file(path, strerror(errno));
  tide_status status = check_length(path, fd, length, shared);
  if (status == TIDE_OK) status = map(&m, fd, length, shared);
  tide__os_close(fd);
  if (status != TIDE_OK && made) remove(path);
  if (status != TIDE_OK) return status;
  const tide_options o = {dtype, TIDE_CPU, false};
  status = n ? tensor_at(out, m, offset, size, ndim, dtype) : tide_empty(out, size, ndim, &o);
  tide_mapping_release(m);
  return status;
}
