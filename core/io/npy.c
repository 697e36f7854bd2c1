/* npy.c: NumPy's .npy: a magic word, a version, a head in Python's words for a dict, the values.
 *
 * Of the dict exactly its three keys are taken, in any order, and of Python's words only what NumPy writes there. Types
 * that are no numbers are refused by name; objects, which are programs to be run, first of all. Behind the values there
 * may be more, as where several arrays were written to one file.
 *
 * Invariant: the head is at most 64 KiB, whatever it claims. */
#include "array.h"

enum { LONGEST = 1 << 16 };

/* What is read of the head. */
typedef struct reader {
  tide__source *source;
  const char *at; /* ends with a zero */
  tide__elements elements;
  bool fortran;
  int ndim, found; /* found: a bit for each key */
  int64_t size[TIDE_MAX_DIMS];
} reader;

static const char *skip_blanks(reader *h) {
  while (*h->at == ' ' || *h->at == '\t' || *h->at == '\n') h->at++;
  return h->at;
}

static tide_status broken(const reader *h, const char *expected) {
  return tide__source_fail(h->source, "its head is wrong, got '%.40s', expected %s", h->at, expected);
}

static bool take(reader *h, char c) { return *skip_blanks(h) == c && h->at++; }

static bool take_word(reader *h, const char *word) {
  size_t n = strlen(word);
  if (strncmp(skip_blanks(h), word, n) != 0) return false;
  h->at += n;
  return true;
}

/* A string of Python's without escapes, into at most `room` bytes. */
static tide_status get_text(reader *h, char *out, size_t room) {
  char quote = *skip_blanks(h);
  const char *end = quote == '\'' || quote == '"' ? strchr(h->at + 1, quote) : NULL;
  size_t n = end ? (size_t)(end - h->at - 1) : room;
  if (n >= room) return broken(h, "a short string");
  memcpy(out, h->at + 1, n);
  out[n] = 0;
  h->at = end + 1;
  return TIDE_OK;
}

/* "<f4": byte order, kind, bytes. */
static tide_status get_descr(reader *h) {
  char text[64];
  if (*skip_blanks(h) == '[') return tide__source_fail(h->source, "got records, expected numbers");
  TIDE_TRY(get_text(h, text, sizeof text));
  const char *t = text;
  char order = *t && strchr("<>|=", *t) ? *t++ : '=';
  tide__elements e = {.kind = *t == '?' ? 'b' : *t, .bytes = *t == '?'};
  if (*t) t++;
  for (; *t >= '0' && *t <= '9' && e.bytes < 100; t++) e.bytes = 10 * e.bytes + (*t - '0');
  e.swap = order == '>' && e.bytes > 1;
  if (e.kind == 'O')
    return tide__source_fail(h->source, "got Python's objects, which are never read, expected numbers");
  if (*t || e.kind == 'B' || !tide__elements_find(&e))
    return tide__source_fail(
        h->source, "got the type '%s', expected bool, integers, floats up to 8 bytes or complex numbers up to 16",
        text);
  h->elements = e;
  return TIDE_OK;
}

static tide_status get_shape(reader *h) {
  if (!take(h, '(')) return broken(h, "a shape");
  while (!take(h, ')')) {
    int64_t n = 0;
    const char *digits = skip_blanks(h);
    for (; *h->at >= '0' && *h->at <= '9'; h->at++) n = tide__size_add(tide__size_mul(n, 10), *h->at - '0');
    if (h->at == digits) return broken(h, "a size");
    if (n == INT64_MAX) return tide__source_fail(h->source, "a size of its shape is too large");
    if (h->ndim == TIDE_MAX_DIMS) return tide__source_fail(h->source, "got more than %d dimensions", TIDE_MAX_DIMS);
    h->size[h->ndim++] = n;
    if (*h->at == 'L') h->at++; /* Python 2's */
    if (!take(h, ',') && *h->at != ')') return broken(h, "a shape");
  }
  return TIDE_OK;
}

static tide_status get_value(reader *h, int key) {
  if (key == 0) return get_descr(h);
  if (key == 2) return get_shape(h);
  h->fortran = take_word(h, "True");
  return h->fortran || take_word(h, "False") ? TIDE_OK : broken(h, "True or False");
}

static tide_status get_dict(reader *h) {
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  if (!take(h, '{')) return broken(h, "a dict");
  while (!take(h, '}')) {
    char text[16];
    int key = 0;
    TIDE_TRY(get_text(h, text, sizeof text));
    while (key < 3 && strcmp(text, keys[key]) != 0) key++;
    if (key == 3 || h->found & 1 << key || !take(h, ':')) return broken(h, "descr, fortran_order and shape once each");
    h->found |= 1 << key;
    TIDE_TRY(get_value(h, key));
    if (!take(h, ',') && *h->at != '}') return broken(h, "the end of the dict");
  }
  return *skip_blanks(h) || h->found != 7 ? broken(h, "descr, fortran_order and shape once each") : TIDE_OK;
}

/* The text of the head, with a zero behind it. */
static tide_status get_head(char **out, tide__source *s) {
  unsigned char start[12];
  TIDE_TRY(tide__source_read(s, start, 8));
  if (memcmp(start, "\x93NUMPY", 6) != 0)
    return tide__source_fail(s, "its first bytes are not NumPy's, expected an array in the format .npy");
  if (start[6] < 1 || start[6] > 3 || start[7])
    return tide__source_fail(s, "got version %d.%d, expected 1.0, 2.0 or 3.0", start[6], start[7]);
  int digits = start[6] == 1 ? 2 : 4;
  TIDE_TRY(tide__source_read(s, start + 8, (size_t)digits));
  size_t length = 0;
  while (digits--) length = length << 8 | start[8 + digits];
  if (length > LONGEST || (int64_t)length > s->left)
    return tide__source_fail(s, "got a head of %zu bytes, expected at most %lld", length,
                             (long long)(s->left < LONGEST ? s->left : LONGEST));
  char *text = malloc(length + 1);
  if (!text) return tide__fail(TIDE_MEMORY, "%s: no host memory", s->what);
  tide_status status = tide__source_read(s, text, length);
  text[length] = 0;
  if (status == TIDE_OK && strlen(text) != length) status = tide__source_fail(s, "its head has a zero in it");
  if (status == TIDE_OK)
    *out = text;
  else
    free(text);
  return status;
}

/* A head that cannot be read is of no form that tide has. */
tide_status tide__npy_read(tide_tensor **out, tide__source *s) {
  char *text = NULL;
  reader h = {.source = s};
  tide_status status = get_head(&text, s);
  if (status == TIDE_OK) h.at = text, status = get_dict(&h);
  free(text);
  if (status == TIDE_FILE) return tide__source_foreign(s, status);
  return status == TIDE_OK ? tide__elements_read(out, s, &h.elements, h.size, h.ndim, h.fortran) : status;
}

tide_status tide_npy_load(tide_tensor **out, const char *path) {
  tide__source s;
  if (!out) return tide__fail(TIDE_ARGUMENT, "load_npy: no place for the result, got a null pointer");
  TIDE_TRY(tide__source_open(&s, "load_npy", path));
  tide_status status = tide__npy_read(out, &s);
  tide__source_close(&s);
  return status;
}

/* Ends with a line end and fills 64 bytes, as NumPy aligns the values. */
size_t tide__npy_head(char out[TIDE__NPY_HEAD], const tide_tensor *x) {
  char shape[24 * TIDE_MAX_DIMS + 1] = "", kind = tide__elements_kind((tide_dtype)x->dtype);
  int bytes = (int)tide__itemsize(x->dtype), at = 0;
  if (x->dtype == TIDE_BFLOAT16) return 0;
  for (int d = 0; d < x->ndim; d++)
    at += snprintf(shape + at, sizeof shape - (size_t)at,
                   x->ndim == 1 ? "%lld,"
                   : d          ? ", %lld"
                                : "%lld",
                   (long long)x->size[d]);
  int n = 10 + snprintf(out + 10, TIDE__NPY_HEAD - 10, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (%s), }",
                        bytes > 1 ? '<' : '|', kind, bytes, shape);
  int whole = (n + 1 + 63) / 64 * 64;
  memcpy(out, "\x93NUMPY\1", 8);
  out[8] = (char)(whole - 10), out[9] = (char)((whole - 10) >> 8);
  memset(out + n, ' ', (size_t)(whole - n));
  out[whole - 1] = '\n';
  return (size_t)whole;
}

tide_status tide_npy_save(const char *path, const tide_tensor *x) {
  char head[TIDE__NPY_HEAD];
  TIDE_OWNED tide_tensor *host = NULL;
  tide_file *file;
  if (!path) return tide__fail(TIDE_ARGUMENT, "save_npy: no path, got a null pointer, expected a file name");
  TIDE_TRY(tide__check(x, "save_npy", "x"));
  size_t n = tide__npy_head(head, x);
  if (!n)
    return tide__fail(TIDE_DTYPE, "save_npy: got bfloat16, which NumPy lacks, expected x:float() or another dtype");
  TIDE_TRY(tide__elements_host(&host, x));
  TIDE_TRY(tide_file_new(&file, "save_npy", path));
  fwrite(head, 1, n, tide_file_stream(file));
  if (host->numel)
    fwrite(tide__tensor_ptr(host), (size_t)tide__itemsize(host->dtype), (size_t)host->numel, tide_file_stream(file));
  return tide_file_finish(file);
}
