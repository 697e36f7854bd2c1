/* array.c: bytes that come from a file, and the elements of arrays made of them.
 *
 * A source knows how many bytes it has left, so that a size which a file claims is compared with what is there before
 * memory is asked for. Elements of the machine's own form go straight to their tensor; others, of the other byte order
 * or of a type that tide lacks, pass through a small buffer.
 *
 * Invariant: what is read of a source never exceeds what it said it has; a bool that was read is 0 or 1. */
#include "array.h"

#include <errno.h>
#include <stdarg.h>
#include <zlib.h>

#include "os/file.h"

enum { PIECE = 1 << 13, STRAIGHT = 1 << 20 };

/* ---- bytes ---- */

tide_status tide__source_fail(const tide__source *s, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return tide__fail(TIDE_FILE, "%s: %s: %s%s%s", s->what, s->path, s->member, *s->member ? ": " : "", text);
}

tide_status tide__source_read(tide__source *s, void *to, size_t n) {
  if ((int64_t)n > s->left)
    return tide__source_fail(s, "it ends too early, got %lld bytes, expected %zu", (long long)s->left, n);
  if (s->memory) {
    memcpy(to, s->memory, n);
    s->memory += n;
  } else if (s->inflate)
    TIDE_TRY(tide__inflate_read(s, to, n));
  else if (n && fread(to, 1, n, s->file) != n)
    return tide__source_fail(s, "%s, expected a file that can be read",
                             ferror(s->file) ? strerror(errno) : "it ends too early");
  s->left -= (int64_t)n;
  if (s->counts) s->crc = (uint32_t)crc32_z(s->crc, to, n);
  return TIDE_OK;
}

tide_status tide__source_open(tide__source *s, const char *what, const char *path) {
  tide__os_about is;
  *s = (tide__source){.what = what, .path = path, .member = ""};
  if (!path) return tide__fail(TIDE_ARGUMENT, "%s: no path, got a null pointer, expected a file name", what);
  int fd = tide__os_open(path, TIDE_OS_READ | TIDE_OS_NOW); /* a pipe that nobody writes is refused */
  int error = fd < 0 ? errno : tide__os_look_at(&is, fd);
  bool regular = !error && is.kind == TIDE_OS_FILE;
  if (regular && !(s->file = fdopen(fd, "rb"))) error = errno;
  if (s->file) return s->left = is.bytes, TIDE_OK;
  if (fd >= 0) tide__os_close(fd);
  if (error) return tide__source_fail(s, "%s, expected a file that can be read", strerror(error));
  return tide__source_fail(s, "got a folder, a device or a pipe, expected a regular file");
}

tide_status tide__source_seek(tide__source *s, int64_t at) {
  return fseeko(s->file, (off_t)at, SEEK_SET) ? tide__source_fail(s, "%s", strerror(errno)) : TIDE_OK;
}

void tide__source_close(tide__source *s) {
  tide__inflate_end(s);
  if (s->file) fclose(s->file);
  s->file = NULL;
}

/* ---- types of elements ---- */

bool tide__elements_find(tide__elements *e) {
  static const struct type {
    char kind, bytes;
    int8_t dtype;
  } types[] = {{'b', 1, TIDE_BOOL},      {'u', 1, TIDE_UINT8},       {'u', 2, TIDE_INT32},   {'u', 4, TIDE_INT64},
               {'u', 8, TIDE_INT64},     {'i', 1, TIDE_INT8},        {'i', 2, TIDE_INT16},   {'i', 4, TIDE_INT32},
               {'i', 8, TIDE_INT64},     {'f', 2, TIDE_FLOAT16},     {'f', 4, TIDE_FLOAT32}, {'f', 8, TIDE_FLOAT64},
               {'c', 8, TIDE_COMPLEX64}, {'c', 16, TIDE_COMPLEX128}, {'B', 2, TIDE_BFLOAT16}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].kind == e->kind && types[i].bytes == e->bytes) {
      e->dtype = (tide_dtype)types[i].dtype;
      return true;
    }
  return false;
}

bool tide__elements_plain(const tide__elements *e) {
  return !e->swap && e->dtype != TIDE_BOOL && e->bytes == tide__itemsize(e->dtype) &&
         !(e->kind == 'u' && e->bytes == 8);
}

char tide__elements_kind(tide_dtype dtype) {
  char kind = tide_dtype_kind(dtype);
  return kind == 'B' ? 'b' : dtype == TIDE_BFLOAT16 ? 'B' : (char)(kind + ('a' - 'A'));
}

/* Product of the sizes and the bytes of one, or an error: more than there are. */
static tide_status count_elements(int64_t *numel, tide__source *s, const tide__elements *e, const int64_t *size,
                                  int ndim) {
  int64_t n = tide__size_product(size, ndim), bytes = tide__size_mul(n, e->bytes);
  if (bytes > s->left)
    return tide__source_foreign(
        s, tide__source_fail(s, "got the shape %s of %d bytes each, expected it to fit in the %lld bytes there are",
                             tide__shape_text(size, ndim), e->bytes, (long long)s->left));
  *numel = n;
  return TIDE_OK;
}

/* ---- values ---- */

/* The parts of a complex number are swapped each for itself. */
static void swap(char *at, size_t bytes, int part) {
  for (char *end = at + bytes; at < end; at += part)
    for (int i = 0; i < part / 2; i++) {
      char c = at[i];
      at[i] = at[part - 1 - i], at[part - 1 - i] = c;
    }
}

/* Writes n elements, which have the machine's byte order, in the form of their dtype; false: one does not fit. */
static bool convert(char *to, const char *from, int64_t n, const tide__elements *e) {
  uint64_t u = 0;
  int wide = (int)tide__itemsize(e->dtype);
  if (e->kind != 'u' && e->kind != 'b') return memcpy(to, from, (size_t)n * (size_t)wide), true;
  for (int64_t i = 0; i < n; i++, to += wide, from += e->bytes) {
    memcpy(&u, from, (size_t)e->bytes); /* the machine's order is little endian, as x86 and ARM have it */
    if (u > INT64_MAX) return false;
    if (e->kind == 'b') u = u != 0;
    memcpy(to, &u, (size_t)wide);
  }
  return true;
}

static tide_status read_values(char *to, tide__source *s, const tide__elements *e, int64_t n) {
  char piece[PIECE];
  bool plain = tide__elements_plain(e);
  int64_t most = (plain ? STRAIGHT : PIECE) / e->bytes;
  for (int64_t count; n; n -= count) {
    count = n < most ? n : most;
    size_t bytes = (size_t)(count * e->bytes);
    TIDE_TRY(tide__source_read(s, plain ? to : piece, bytes));
    if (e->swap) swap(piece, bytes, e->kind == 'c' ? e->bytes / 2 : e->bytes);
    if (!plain && !convert(to, piece, count, e))
      return tide__source_foreign(
          s, tide__source_fail(s, "a value of uint64 is too large, expected values that int64 holds"));
    to += count * tide__itemsize(e->dtype);
  }
  return TIDE_OK;
}

tide_status tide__elements_read(tide_tensor **out, tide__source *s, const tide__elements *e, const int64_t *size,
                                int ndim, bool fortran) {
  int64_t stride[TIDE_MAX_DIMS], step = 1, n = 0;
  const tide_options o = {e->dtype, TIDE_CPU, false};
  tide_tensor *x;
  TIDE_TRY(count_elements(&n, s, e, size, ndim));
  for (int d = 0; fortran && n && d < ndim; d++) stride[d] = step, step *= size[d];
  TIDE_TRY(fortran && n ? tide_empty_strided(&x, size, stride, ndim, &o) : tide_empty(&x, size, ndim, &o));
  return tide__hand_out(out, x, n ? read_values(tide__tensor_ptr(x), s, e, n) : TIDE_OK);
}

tide_status tide__elements_host(tide_tensor **out, const tide_tensor *x) {
  if (tide__tensor_device(x) < 0) return tide__as_contiguous(out, x, (tide_dtype)x->dtype);
  const tide_options host = {(tide_dtype)x->dtype, TIDE_CPU, false};
  TIDE_OWNED tide_tensor *copy = NULL;
  TIDE_TRY(tide_to(&copy, x, &host, false, false));
  return tide__as_contiguous(out, copy, (tide_dtype)x->dtype);
}
