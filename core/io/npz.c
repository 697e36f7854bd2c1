/* npz.c: NumPy's .npz: a zip file of arrays, each a .npy file, stored or deflated.
 *
 * Only the table of contents at the end tells what there is, as in every zip program; the head in front of each array
 * tells where its bytes begin, and has to say the same name. Files above 4 GiB have 64-bit fields in extra records.
 * What is compressed tells how many bytes it stands for: more than deflate can give are refused, and in sum more than
 * the caller allows, before memory is taken. A part that is no array of numbers has its name in the list, and fails
 * when it is asked for.
 *
 * Invariant: all bytes of an array have been compared with their checksum when it is given out. */
#include "array.h"

#include <zlib.h>

#include "base/json.h"

enum { ENCRYPTED = 1, NO_ARRAY = 2 }; /* of a part's flags */
enum { END = 22, END64 = 56, LOCATOR = 20, CONTENT = 46, LOCAL = 30, COMMENT = 65535, BEST = 1032, DAY = 33 };
static const uint32_t all32 = UINT32_MAX;
static const int64_t default_most = (int64_t)1 << 30;

static uint64_t get(const void *at, int bytes) {
  const unsigned char *c = at;
  uint64_t n = 0;
  while (bytes--) n = n << 8 | c[bytes];
  return n;
}

/* Reads n bytes at a place of the file. */
static tide_status get_at(tide_archive *a, int64_t size, int64_t at, void *to, int64_t n) {
  if (at < 0 || n < 0 || at > size || n > size - at)
    return tide__source_fail(&a->source, "its table of contents names bytes outside of the file");
  TIDE_TRY(tide__source_seek(&a->source, at));
  a->source.left = size - at;
  return tide__source_read(&a->source, to, (size_t)n);
}

/* ---- the end of the file ---- */

typedef struct contents {
  int64_t size, at, bytes, count; /* of the file; where the table is; entries */
} contents;

/* Where a zip file's last record is, in its last 64 KiB and 22 bytes; -1: nowhere. */
static int64_t find_end(const char *tail, int64_t n) {
  for (int64_t at = n - END; at >= 0; at--)
    if (get(tail + at, 4) == 0x06054b50 && at + END + (int64_t)get(tail + at + 20, 2) == n) return at;
  return -1;
}

static tide_status get_end64(tide_archive *a, contents *c, int64_t end) {
  char locator[LOCATOR], record[END64];
  TIDE_TRY(get_at(a, c->size, end - LOCATOR, locator, LOCATOR));
  if (get(locator, 4) != 0x07064b50) return tide__source_fail(&a->source, "the end of its table of contents is broken");
  uint64_t at = get(locator + 8, 8);
  TIDE_TRY(get_at(a, end, at > (uint64_t)end ? -1 : (int64_t)at, record, END64));
  if (get(record, 4) != 0x06064b50 || get(record + 16, 8) || get(record + 24, 8) != get(record + 32, 8))
    return tide__source_fail(&a->source, "the end of its table of contents is broken");
  c->count = (int64_t)get(record + 32, 8), c->bytes = (int64_t)get(record + 40, 8),
  c->at = (int64_t)get(record + 48, 8);
  return TIDE_OK;
}

static tide_status find_contents(tide_archive *a, contents *c) {
  int64_t n = c->size < END + COMMENT ? c->size : END + COMMENT;
  char *tail = malloc((size_t)n + 1);
  if (!tail) return tide__fail(TIDE_MEMORY, "%s: no host memory", a->kind->load);
  tide_status status = get_at(a, c->size, c->size - n, tail, n);
  int64_t at = status == TIDE_OK ? find_end(tail, n) : -1;
  char record[END];
  if (at >= 0) memcpy(record, tail + at, END);
  free(tail);
  if (status != TIDE_OK) return status;
  if (at < 0)
    return tide__source_fail(&a->source, "it has no table of contents, expected a zip file as NumPy writes it");
  at += c->size - n;
  c->count = (int64_t)get(record + 10, 2), c->bytes = (int64_t)get(record + 12, 4),
  c->at = (int64_t)get(record + 16, 4);
  if (get(record + 4, 4) || get(record + 8, 2) != get(record + 10, 2))
    return tide__source_fail(&a->source, "it is a part of several files, expected a whole one");
  if (c->count == 0xffff || c->bytes == all32 || c->at == all32) TIDE_TRY(get_end64(a, c, at));
  if (c->at < 0 || c->bytes < 0 || c->at > at || c->bytes > at - c->at || c->count < 0 || c->count > c->bytes / CONTENT)
    return tide__source_fail(&a->source, "its table of contents does not lie inside the file");
  return TIDE_OK;
}

/* ---- the table of contents ---- */

/* Fields that do not fit in 32 bits stand in an extra record, in this order. */
static bool get_wide(const char *extra, int64_t n, uint64_t *field[], int count) {
  while (n >= 4) {
    int64_t length = (int64_t)get(extra + 2, 2);
    if (length > n - 4) return false;
    if (get(extra, 2) == 1) {
      const char *at = extra + 4;
      for (int i = 0; i < count; i++)
        if (*field[i] == all32) {
          if (at + 8 > extra + 4 + length) return false;
          *field[i] = get(at, 8), at += 8;
        }
      return true;
    }
    extra += 4 + length, n -= 4 + length;
  }
  return true;
}

/* Fills the entry from its record, of which `left` bytes are there; *n: how long it is. */
static tide_status get_entry(tide_archive *a, tide__entry *e, char *at, int64_t left, int64_t *n) {
  const tide__source *s = &a->source;
  if (left < CONTENT || get(at, 4) != 0x02014b50) return tide__source_fail(s, "its table of contents is broken");
  uint64_t packed = get(at + 20, 4), bytes = get(at + 24, 4), begin = get(at + 42, 4);
  int64_t name = (int64_t)get(at + 28, 2), extra = (int64_t)get(at + 30, 2);
  int flags = (int)get(at + 8, 2), method = (int)get(at + 10, 2);
  *n = CONTENT + name + extra + (int64_t)get(at + 32, 2);
  if (*n > left) return tide__source_fail(s, "its table of contents is broken");
  if (!get_wide(at + CONTENT + name, extra, (uint64_t *[]){&bytes, &packed, &begin}, 3) ||
      (packed | bytes | begin) > INT64_MAX / 4)
    return tide__source_fail(s, "its table of contents is broken");
  char *text = at + CONTENT;
  if (memchr(text, 0, (size_t)name))
    return tide__source_fail(s, "got the part '%.80s', whose name has a zero in it, expected names of arrays", text);
  bool is_array = name >= 4 && !memcmp(text + name - 4, ".npy", 4);
  text = memmove(text - 1, text, (size_t)name); /* room for its zero, in a field that has been read */
  text[is_array ? name - 4 : name] = 0;
  *e = (tide__entry){.name = text, .begin = (int64_t)begin, .packed = (int64_t)packed, .bytes = (int64_t)bytes};
  e->crc = (uint32_t)get(at + 16, 4), e->deflated = method == 8, e->method = method;
  e->flags = (flags & ENCRYPTED) | (is_array ? 0 : NO_ARRAY);
  e->foreign = e->flags || (method != 0 && method != 8);
  e->end = e->begin + LOCAL + name + e->packed;
  return TIDE_OK;
}

static tide_status check_entry(const tide_archive *a, const tide__entry *e, const contents *c) {
  const tide__source *s = &a->source;
  if (e->end > c->at) return tide__source_fail(s, "%.80s: its bytes do not lie inside the file", e->name);
  if (e->foreign) return TIDE_OK;
  if (e->deflated ? e->bytes / BEST > e->packed : e->bytes != e->packed)
    return tide__source_fail(s, "%.80s: %lld bytes cannot stand for the %lld that it claims", e->name,
                             (long long)e->packed, (long long)e->bytes);
  return TIDE_OK;
}

static tide_status open_file(tide_archive *a, int64_t most) {
  contents c = {.size = a->source.left};
  a->most = most > 0 ? most : c.size > default_most / 200 ? 200 * c.size : default_most;
  TIDE_TRY(find_contents(a, &c));
  a->text = malloc((size_t)c.bytes + 1);
  a->entry = calloc((size_t)c.count + 1, sizeof *a->entry);
  if (!a->text || !a->entry) return tide__fail(TIDE_MEMORY, "%s: no host memory", a->kind->load);
  TIDE_TRY(get_at(a, c.size, c.at, a->text, c.bytes));
  char *at = a->text;
  for (int64_t left = c.bytes, n = 0; a->count < c.count; left -= n, at += n) {
    TIDE_TRY(get_entry(a, &a->entry[a->count], at, left, &n));
    TIDE_TRY(check_entry(a, &a->entry[a->count++], &c));
  }
  a->data = c.at;
  return TIDE_OK;
}

/* ---- an array ---- */

/* Puts the source where the array's bytes begin. */
static tide_status find_bytes(tide_archive *a, const tide__entry *e) {
  char head[LOCAL], text[64];
  tide__source *s = &a->source;
  size_t length = strlen(e->name), at = 0;
  TIDE_TRY(get_at(a, a->data, e->begin, head, LOCAL));
  int64_t name = (int64_t)get(head + 26, 2), extra = (int64_t)get(head + 28, 2);
  bool same = get(head, 4) == 0x04034b50 && name == (int64_t)length + 4;
  while (same && at < length) {
    size_t n = length - at < sizeof text ? length - at : sizeof text;
    TIDE_TRY(tide__source_read(s, text, n));
    same = !memcmp(text, e->name + at, n);
    at += n;
  }
  int64_t next = a->data, begin = e->begin + LOCAL + name + extra;
  if (e + 1 < a->entry + a->count) next = e[1].begin;
  if (!same || begin > next - e->packed)
    return tide__source_fail(s, "what stands in front of it is not what the table of contents says");
  TIDE_TRY(tide__source_seek(s, begin));
  s->left = e->packed;
  return TIDE_OK;
}

static tide_status read_array(tide_tensor **out, tide__source *s, const tide__entry *e) {
  tide_tensor *x;
  s->crc = 0, s->counts = true;
  if (e->deflated) TIDE_TRY(tide__inflate_begin(s, e->packed, e->bytes));
  TIDE_TRY(tide__npy_read(&x, s));
  tide_status status = s->left            ? tide__source_fail(s, "got %lld bytes behind its array", (long long)s->left)
                       : s->crc != e->crc ? tide__source_fail(s, "its checksum is wrong: the bytes were changed")
                                          : TIDE_OK;
  return tide__hand_out(out, x, status);
}

/* Says why a part whose record shows that it is no array that can be read is none. */
static tide_status fail_foreign(const tide__source *s, const tide__entry *e) {
  if (e->flags & NO_ARRAY) return tide__source_fail(s, "it is no array, whose name ends with .npy");
  if (e->flags & ENCRYPTED) return tide__source_fail(s, "it is encrypted, expected an array as NumPy writes it");
  return tide__source_fail(s, "got compression %d, expected stored (0) or deflated (8)", e->method);
}

static tide_status get_tensor(tide_tensor **out, tide_archive *a, const tide__entry *e) {
  if (e->flags || (e->method != 0 && e->method != 8))
    return tide__source_foreign(&a->source, fail_foreign(&a->source, e));
  if (e->deflated && e->bytes > a->most)
    return tide__source_fail(&a->source, "got %lld compressed bytes, with which the arrays take more than is allowed",
                             (long long)e->bytes);
  TIDE_TRY(find_bytes(a, e));
  if (e->deflated) a->most -= e->bytes;
  tide_status status = read_array(out, &a->source, e);
  if (a->source.foreign && e->deflated) a->most += e->bytes;
  tide__inflate_end(&a->source);
  a->source.counts = false;
  return status;
}

/* ---- writing ---- */

typedef struct part {
  int64_t begin, packed, bytes;
  uint32_t crc;
} part;

static void put(FILE *f, uint64_t value, int bytes) {
  for (; bytes--; value >>= 8) fputc((int)(value & 0xff), f);
}

int64_t tide__npz_wide = UINT32_MAX;
static bool is_wide(int64_t n) { return n >= tide__npz_wide; }
static uint64_t narrow(int64_t n) { return is_wide(n) ? all32 : (uint64_t)n; }

/* What both records of a part begin with, from the version on. wide: sizes of 64 bits. */
static void put_head(FILE *f, bool deflated, bool later, bool wide, const part *p, size_t name) {
  put(f, wide ? 45 : 20, 2);
  put(f, 0x800 | (later ? 8 : 0), 2); /* the name is UTF-8; sizes and checksum stand behind the bytes */
  put(f, deflated ? 8 : 0, 2);
  put(f, (uint64_t)DAY << 16, 4); /* 1980-01-01: equal arrays give equal files */
  put(f, later ? 0 : p->crc, 4);
  put(f, wide ? all32 : later ? 0 : (uint64_t)p->packed, 4);
  put(f, wide ? all32 : later ? 0 : (uint64_t)p->bytes, 4);
  put(f, name + 4, 2);
}

static void put_local(FILE *f, const char *name, bool deflated, bool wide, const part *p) {
  put(f, 0x04034b50, 4);
  put_head(f, deflated, deflated, wide, p, strlen(name));
  put(f, wide ? 20 : 0, 2);
  fprintf(f, "%s.npy", name);
  if (!wide) return;
  put(f, 1, 2), put(f, 16, 2);
  put(f, deflated ? 0 : (uint64_t)p->bytes, 8), put(f, deflated ? 0 : (uint64_t)p->packed, 8);
}

static tide_status put_bytes(FILE *f, bool deflated, part *p, const char *head, size_t n, const tide_tensor *x) {
  size_t bytes = (size_t)tide__elements_nbytes(x);
  if (!deflated) {
    fwrite(head, 1, n, f);
    if (bytes) fwrite(tide__tensor_ptr(x), 1, bytes, f);
    return TIDE_OK;
  }
  tide__deflate *d;
  TIDE_TRY(tide__deflate_new(&d, f, "save_npz"));
  tide__deflate_write(d, head, n);
  if (bytes) tide__deflate_write(d, tide__tensor_ptr(x), bytes);
  p->packed = tide__deflate_finish(d);
  return TIDE_OK;
}

/* Writes a part at *at, and moves that behind it. Its deflated bytes are counted as they are written. */
static tide_status put_part(FILE *f, part *p, int64_t *at, const char *name, const tide_tensor *x, bool deflated) {
  char head[TIDE__NPY_HEAD];
  size_t n = tide__npy_head(head, x);
  *p = (part){.begin = *at, .bytes = (int64_t)n + tide__elements_nbytes(x)};
  p->packed = p->bytes;
  p->crc = (uint32_t)crc32_z(0, (const unsigned char *)head, n);
  if (x->numel)
    p->crc = (uint32_t)crc32_z(p->crc, (const unsigned char *)tide__tensor_ptr(x), (size_t)tide__elements_nbytes(x));
  bool wide = is_wide(p->bytes + p->bytes / 1000 + 64);
  put_local(f, name, deflated, wide, p);
  TIDE_TRY(put_bytes(f, deflated, p, head, n, x));
  *at += LOCAL + (int64_t)strlen(name) + 4 + (wide ? 20 : 0) + p->packed;
  if (!deflated) return TIDE_OK;
  put(f, 0x08074b50, 4), put(f, p->crc, 4);
  put(f, (uint64_t)p->packed, wide ? 8 : 4), put(f, (uint64_t)p->bytes, wide ? 8 : 4);
  *at += wide ? 24 : 16;
  return TIDE_OK;
}

/* The record of a part in the table of contents; its bytes. */
static int64_t put_content(FILE *f, const part *p, const char *name, bool deflated) {
  bool sizes = is_wide(p->packed) || is_wide(p->bytes), place = is_wide(p->begin);
  int extra = sizes || place ? 4 + (sizes ? 16 : 0) + (place ? 8 : 0) : 0;
  size_t length = strlen(name);
  put(f, 0x02014b50, 4), put(f, 3 << 8 | 45, 2); /* by a program on Unix, whose rights follow below */
  put(f, extra ? 45 : 20, 2), put(f, 0x800 | (deflated ? 8 : 0), 2), put(f, deflated ? 8 : 0, 2);
  put(f, (uint64_t)DAY << 16, 4), put(f, p->crc, 4);
  put(f, sizes ? all32 : (uint64_t)p->packed, 4), put(f, sizes ? all32 : (uint64_t)p->bytes, 4);
  put(f, length + 4, 2), put(f, (uint64_t)extra, 2);
  put(f, 0, 6), put(f, (uint64_t)0600 << 16, 4);
  put(f, narrow(p->begin), 4);
  fprintf(f, "%s.npy", name);
  if (extra) put(f, 1, 2), put(f, (uint64_t)extra - 4, 2);
  if (sizes) put(f, (uint64_t)p->bytes, 8), put(f, (uint64_t)p->packed, 8);
  if (place) put(f, (uint64_t)p->begin, 8);
  return CONTENT + (int64_t)length + 4 + extra;
}

static void put_end(FILE *f, int64_t count, int64_t at, int64_t bytes) {
  if (count >= 0xffff || is_wide(at) || is_wide(bytes)) {
    put(f, 0x06064b50, 4), put(f, END64 - 12, 8), put(f, 45, 2), put(f, 45, 2), put(f, 0, 8);
    put(f, (uint64_t)count, 8), put(f, (uint64_t)count, 8), put(f, (uint64_t)bytes, 8), put(f, (uint64_t)at, 8);
    put(f, 0x07064b50, 4), put(f, 0, 4), put(f, (uint64_t)(at + bytes), 8), put(f, 1, 4);
  }
  uint64_t shown = count < 0xffff ? (uint64_t)count : 0xffff;
  put(f, 0x06054b50, 4), put(f, 0, 4), put(f, shown, 2), put(f, shown, 2);
  put(f, narrow(bytes), 4), put(f, narrow(at), 4), put(f, 0, 2);
}

static tide_status put_parts(FILE *f, part *p, int64_t *at, const tide_archive_content *c) {
  for (int64_t i = 0; i < c->count; i++) {
    TIDE_OWNED tide_tensor *host = NULL;
    TIDE_TRY(tide__elements_host(&host, c->tensor[i]));
    TIDE_TRY(put_part(f, &p[i], at, c->name[i], host, c->compressed));
  }
  return TIDE_OK;
}

static tide_status write_all(FILE *f, const char *path, const tide_archive_content *c) {
  int64_t at = 0, bytes = 0;
  part *p = calloc((size_t)c->count + 1, sizeof *p);
  if (!p) return tide__fail(TIDE_MEMORY, "save_npz: no host memory");
  tide_status status = put_parts(f, p, &at, c);
  for (int64_t i = 0; status == TIDE_OK && i < c->count; i++) bytes += put_content(f, &p[i], c->name[i], c->compressed);
  if (status == TIDE_OK) put_end(f, c->count, at, bytes);
  free(p);
  return status;
}

static tide_status check_tensor(const char *path, const char *name, const tide_tensor *x) {
  if (x->dtype == TIDE_BFLOAT16)
    return tide__fail(TIDE_DTYPE, "save_npz: %s: %.80s: got bfloat16, which NumPy lacks, expected another dtype", path,
                      name);
  if (strlen(name) > 65000)
    return tide__fail(TIDE_VALUE, "save_npz: %s: got a name of %zu bytes, expected at most 65000", path, strlen(name));
  if (tide__utf8(name, strlen(name))) return TIDE_OK;
  return tide__fail(TIDE_VALUE, "save_npz: %s: got the name '%.80s', expected UTF-8", path, name);
}

const tide__archive_kind tide__npz = {"load_npz", "save_npz", open_file, get_tensor, write_all, check_tensor};
