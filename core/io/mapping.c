/* mapping.c: regular files as memory.
 *
 * The pages of a file are read when they are touched first, and shared with every other process that maps it; a page
 * that is written becomes the process's own, so that the file stays as it is. The mapping goes with the last tensor on
 * it and the handle.
 *
 * Invariant: a tensor lies inside the file as it was when it was mapped. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tensor/tensor.h"
#include "tide/file.h"

struct tide_mapping {
  _Atomic int64_t refs; /* of the handle and of tensors */
  char *at;
  int64_t size;
};

tide_status tide_mapping_new(tide_mapping **out, FILE *file) {
  struct stat is;
  if (!out || !file) return tide__fail(TIDE_ARGUMENT, "mapping: wrong arguments, got a null pointer, expected a file");
  int fd = fileno(file);
  if (fd < 0 || fstat(fd, &is) != 0)
    return tide__fail(TIDE_FILE, "mapping: got a file that cannot be mapped: %s", strerror(errno));
  if (!S_ISREG(is.st_mode))
    return tide__fail(TIDE_FILE, "mapping: got a device or a pipe, expected a regular file to be mapped");
  tide_mapping *m = calloc(1, sizeof *m);
  if (!m) return tide__fail(TIDE_MEMORY, "mapping: no host memory");
  atomic_init(&m->refs, 1);
  m->size = (int64_t)is.st_size;
  if (m->size) {
    void *at = mmap(NULL, (size_t)m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    if (at == MAP_FAILED) {
      free(m);
      return tide__fail(errno == ENOMEM ? TIDE_MEMORY : TIDE_FILE, "mapping: the file cannot be mapped: %s",
                        strerror(errno));
    }
    m->at = at;
  }
  *out = m;
  return TIDE_OK;
}

static void let_go(void *user) {
  tide_mapping *m = user;
  if (!tide__ref_drop(&m->refs)) return;
  if (m->at) munmap(m->at, (size_t)m->size);
  free(m);
}

void tide_mapping_release(tide_mapping *m) {
  if (m) let_go(m);
}

int64_t tide_mapping_size(const tide_mapping *m) { return m->size; }

tide_status tide_mapping_tensor(tide_tensor **out, tide_mapping *m, int64_t offset, int64_t bytes) {
  if (!out || !m) return tide__fail(TIDE_ARGUMENT, "mapping: wrong arguments, got a null pointer");
  if (offset < 0 || bytes < 0 || offset > m->size || bytes > m->size - offset)
    return tide__fail(TIDE_FILE, "mapping: got %lld bytes at %lld, expected them to lie inside the file's %lld",
                      (long long)bytes, (long long)offset, (long long)m->size);
  tide_options o = {TIDE_UINT8, TIDE_CPU, false};
  if (!bytes) return tide_empty(out, &bytes, 1, &o);
  tide__ref_take(&m->refs);
  tide_status status = tide_from_ptr(out, m->at + offset, &bytes, NULL, 1, &o, let_go, m);
  if (status != TIDE_OK) let_go(m);
  return status;
}
