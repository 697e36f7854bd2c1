/* array.h: what the formats of arrays share: bytes that come from somewhere, types of elements, archives. Private to
 * this room. */
#pragma once

#include <stdio.h>

#include "tensor/tensor.h"
#include "tide/archive.h"
#include "tide/file.h"

/* ---- array.c: bytes ---- */

typedef struct tide__inflate tide__inflate;

/* Where bytes come from: a file from where it stands, a compressed part of one, or memory. */
typedef struct tide__source {
  const char *what, *path, *member; /* of messages; member: "" or the name of a part */
  int64_t left;                     /* bytes to come */
  FILE *file;
  tide__inflate *inflate;
  const char *memory;
  uint32_t crc; /* of what a part of a zip file has given */
  bool counts;  /* is it wanted? */
  bool foreign; /* the last failure was a form that tide lacks, not a broken file */
} tide__source;

/* FILE, "what: path: member: ...". */
tide_status tide__source_fail(const tide__source *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Marks such a failure as one of a form that tide lacks: the other members can be read. Returns the status. */
static inline tide_status tide__source_foreign(tide__source *s, tide_status status) {
  return s->foreign = true, status;
}
/* All n bytes or an error. */
tide_status tide__source_read(tide__source *s, void *to, size_t n);
/* Opens a regular file to be read; left: its bytes. */
tide_status tide__source_open(tide__source *s, const char *what, const char *path);
tide_status tide__source_seek(tide__source *s, int64_t at);
void tide__source_close(tide__source *s);

/* deflate.c: begins to give the `bytes` that n compressed ones stand for. */
tide_status tide__inflate_begin(tide__source *s, int64_t n, int64_t bytes);
tide_status tide__inflate_read(tide__source *s, void *to, size_t n);
void tide__inflate_end(tide__source *s);
/* Compresses bytes into a file. The caller looks whether the file took them. */
typedef struct tide__deflate tide__deflate;
tide_status tide__deflate_new(tide__deflate **out, FILE *file, const char *what);
void tide__deflate_write(tide__deflate *d, const void *bytes, size_t n);
int64_t tide__deflate_finish(tide__deflate *d); /* frees it, and tells how many bytes it has written */

/* ---- array.c: elements ---- */

typedef struct tide__elements {
  char kind; /* 'b', 'i', 'u', 'f', 'B' (bfloat16) or 'c' */
  int bytes; /* of one in the file */
  bool swap; /* the other byte order */
  tide_dtype dtype;
} tide__elements;
/* Finds the dtype by kind and bytes; false: tide has none that holds them. */
bool tide__elements_find(tide__elements *e);
/* May they be used where they lie? */
bool tide__elements_plain(const tide__elements *e);
/* The kind of dtype's elements in files. */
char tide__elements_kind(tide_dtype dtype);
/* A new tensor of these sizes, read from the source, which has the bytes. */
tide_status tide__elements_read(tide_tensor **out, tide__source *s, const tide__elements *e, const int64_t *size,
                                int ndim, bool fortran);
/* The values of x in C's order in host memory. */
tide_status tide__elements_host(tide_tensor **out, const tide_tensor *x);
static inline int64_t tide__elements_nbytes(const tide_tensor *x) { return x->numel * tide__itemsize(x->dtype); }

/* ---- npy.c ---- */

/* An array with its head. */
tide_status tide__npy_read(tide_tensor **out, tide__source *s);
enum { TIDE__NPY_HEAD = 512 };
/* The head for x, of so many bytes; 0: NumPy has no such dtype. */
size_t tide__npy_head(char head[TIDE__NPY_HEAD], const tide_tensor *x);

/* ---- archives ---- */

struct tide_archive {
  const struct tide__archive_kind *kind;
  tide__source source;
  char *path, *text; /* text: of the table of contents, with the names in it */
  int64_t count, notes;
  struct tide__entry *entry;
  const char **note; /* keys and values in turn */
  tide_mapping *mapping;
  int64_t data; /* where the arrays begin, or end */
  int64_t most; /* bytes that compressed ones may still take */
};

typedef struct tide__entry {
  const char *name, *shape; /* shape: where its list begins in the text */
  int64_t begin, end;       /* in the file; of a zip file's part with its head, whose length is to be read */
  int64_t packed, bytes;    /* of a zip file's part, and what it stands for */
  uint32_t crc;
  bool deflated, foreign; /* foreign: tide has no form for it, as far as is known */
  int flags, method;      /* of a zip file's part */
  const char *type;       /* as the file names it, or NULL */
  tide__elements elements;
} tide__entry;

typedef struct tide__archive_kind {
  const char *load, *save; /* of messages */
  tide_status (*open)(tide_archive *a, int64_t most);
  tide_status (*tensor)(tide_tensor **out, tide_archive *a, const tide__entry *e);
  /* Errors of the file are the caller's to find. */
  tide_status (*write)(FILE *file, const char *path, const tide_archive_content *c);
  tide_status (*check)(const char *path, const char *name, const tide_tensor *x);
} tide__archive_kind;
void tide__entries_sort(tide_archive *a); /* by their places */
extern const tide__archive_kind tide__npz, tide__safetensors;
extern int64_t tide__npz_wide; /* the sizes and places that no 32 bits hold, in npz files; tests begin earlier */
