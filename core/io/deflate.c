/* deflate.c: compressed bytes inside of a file, read and written through zlib in pieces.
 *
 * Invariant: neither direction holds more than a piece of the bytes; reading stops at the number of bytes that the
 * caller has been told of, and it is an error where the compressed ones stand for more. */
#include "array.h"

#include <errno.h>
#include <zlib.h>

enum { PIECE = 1 << 14, RAW = -15 };

struct tide__inflate {
  z_stream z;
  int64_t left; /* compressed bytes to be read */
  bool ended;
  unsigned char piece[PIECE];
};

tide_status tide__inflate_begin(tide__source *s, int64_t n, int64_t bytes) {
  tide__inflate *i = calloc(1, sizeof *i);
  if (!i || inflateInit2(&i->z, RAW) != Z_OK) {
    free(i);
    return tide__fail(TIDE_MEMORY, "%s: no host memory", s->what);
  }
  i->left = n;
  s->inflate = i, s->left = bytes;
  return TIDE_OK;
}

static tide_status fill(tide__source *s, tide__inflate *i) {
  size_t n = i->left < PIECE ? (size_t)i->left : PIECE;
  if (i->z.avail_in || !n) return TIDE_OK;
  if (fread(i->piece, 1, n, s->file) != n)
    return tide__source_fail(s, "%s", ferror(s->file) ? strerror(errno) : "the file ends too early");
  i->left -= (int64_t)n;
  i->z.next_in = i->piece, i->z.avail_in = (unsigned)n;
  return TIDE_OK;
}

tide_status tide__inflate_read(tide__source *s, void *to, size_t n) {
  tide__inflate *i = s->inflate;
  unsigned char none;
  bool last = (int64_t)n == s->left; /* then the stream has to end here: one byte more is asked for */
  for (char *at = to; n || (last && !i->ended);) {
    unsigned room = n < PIECE ? (unsigned)n : PIECE;
    TIDE_TRY(fill(s, i));
    i->z.next_out = n ? (unsigned char *)at : &none, i->z.avail_out = n ? room : 1;
    int result = i->ended ? Z_BUF_ERROR : inflate(&i->z, Z_NO_FLUSH);
    size_t got = (n ? room : 1) - i->z.avail_out;
    i->ended |= result == Z_STREAM_END;
    if ((result != Z_OK && result != Z_STREAM_END) || (!n && got))
      return tide__source_fail(s, "its compressed bytes are broken, or stand for %s than the %s says",
                               !n && got ? "more" : "less", "table of contents");
    if (n) at += got, n -= got;
  }
  return TIDE_OK;
}

void tide__inflate_end(tide__source *s) {
  if (!s->inflate) return;
  inflateEnd(&s->inflate->z);
  free(s->inflate);
  s->inflate = NULL;
}

struct tide__deflate {
  z_stream z;
  FILE *file;
  unsigned char piece[PIECE];
};

tide_status tide__deflate_new(tide__deflate **out, FILE *file, const char *what) {
  tide__deflate *d = calloc(1, sizeof *d);
  if (!d || deflateInit2(&d->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, RAW, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    free(d);
    return tide__fail(TIDE_MEMORY, "%s: no host memory", what);
  }
  d->file = file;
  *out = d;
  return TIDE_OK;
}

static void run(tide__deflate *d, int flush) {
  do {
    d->z.next_out = d->piece, d->z.avail_out = PIECE;
    deflate(&d->z, flush);
    fwrite(d->piece, 1, PIECE - d->z.avail_out, d->file);
  } while (!d->z.avail_out);
}

void tide__deflate_write(tide__deflate *d, const void *bytes, size_t n) {
  for (const unsigned char *at = bytes; n;) {
    size_t part = n < 1 << 20 ? n : 1 << 20;
    d->z.next_in = (unsigned char *)at, d->z.avail_in = (unsigned)part;
    run(d, Z_NO_FLUSH);
    at += part, n -= part;
  }
}

int64_t tide__deflate_finish(tide__deflate *d) {
  run(d, Z_FINISH);
  int64_t packed = (int64_t)d->z.total_out;
  deflateEnd(&d->z);
  free(d);
  return packed;
}
