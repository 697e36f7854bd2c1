/* archive.c: arrays with names, of either format: what both do alike.
 *
 * A format reads its table of contents into entries, whose order is that of their bytes; here they are compared with
 * each other: no two names are equal, no two arrays share bytes. An entry of a form that tide lacks is `foreign`: it
 * keeps its name and fails alone.
 *
 * Invariant: an entry's bytes lie inside the file, and in no other entry. */
#include "array.h"

static const tide__archive_kind *const kinds[] = {[TIDE_NPZ] = &tide__npz, [TIDE_SAFETENSORS] = &tide__safetensors};

static const tide__archive_kind *kind_of(tide_archive_kind kind) {
  return (unsigned)kind < sizeof kinds / sizeof *kinds ? kinds[kind] : NULL;
}

static int by_place(const void *a, const void *b) {
  const tide__entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

void tide__entries_sort(tide_archive *a) {
  if (a->count) qsort(a->entry, (size_t)a->count, sizeof *a->entry, by_place);
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* The first name of the list that is there twice, or NULL. Sorts it. */
static const char *find_twice(const char **name, int64_t n) {
  if (n) qsort(name, (size_t)n, sizeof *name, by_name);
  for (int64_t i = 1; i < n; i++)
    if (!strcmp(name[i - 1], name[i])) return name[i];
  return NULL;
}

static tide_status check_names(const tide_archive *a) {
  const char **name = malloc((size_t)(a->count + 1) * sizeof *name);
  if (!name) return tide__fail(TIDE_MEMORY, "%s: no host memory", a->kind->load);
  for (int64_t i = 0; i < a->count; i++) name[i] = a->entry[i].name;
  const char *twice = find_twice(name, a->count);
  free(name);
  return twice ? tide__source_fail(&a->source, "the name '%.80s' is there twice", twice) : TIDE_OK;
}

static tide_status check_entries(tide_archive *a) {
  tide__entries_sort(a);
  for (int64_t i = 1; i < a->count; i++)
    if (a->entry[i].begin < a->entry[i - 1].end)
      return tide__source_fail(&a->source, "the bytes of '%.80s' and '%.80s' overlap", a->entry[i - 1].name,
                               a->entry[i].name);
  return check_names(a);
}

tide_status tide_archive_open(tide_archive **out, tide_archive_kind which, const char *path, int64_t most) {
  const tide__archive_kind *kind = kind_of(which);
  if (!out || !kind || !path)
    return tide__fail(TIDE_ARGUMENT, "archive: wrong arguments, expected a kind of archive and a path");
  tide_archive *a = calloc(1, sizeof *a);
  if (a) a->path = strdup(path), a->kind = kind;
  if (!a || !a->path) {
    free(a);
    return tide__fail(TIDE_MEMORY, "%s: no host memory", kind->load);
  }
  tide_status status = tide__source_open(&a->source, kind->load, a->path);
  if (status == TIDE_OK) status = kind->open(a, most);
  if (status == TIDE_OK) status = check_entries(a);
  if (status == TIDE_OK)
    *out = a;
  else
    tide_archive_free(a);
  return status;
}

void tide_archive_free(tide_archive *a) {
  if (!a) return;
  tide__source_close(&a->source);
  tide_mapping_release(a->mapping);
  free(a->entry), free(a->note), free(a->text), free(a->path);
  free(a);
}

int64_t tide_archive_count(const tide_archive *a) { return a ? a->count : 0; }
int64_t tide_archive_notes(const tide_archive *a) { return a ? a->notes : 0; }

const char *tide_archive_name(const tide_archive *a, int64_t i) {
  if (!a) return NULL;
  return i >= 0 && i < a->count ? a->entry[i].name : NULL;
}

const char *tide_archive_dtype(const tide_archive *a, int64_t i) {
  return a && i >= 0 && i < a->count ? a->entry[i].type : NULL;
}

bool tide_archive_is_foreign(const tide_archive *a, int64_t i) {
  return a && i >= 0 && i < a->count && a->entry[i].foreign;
}

const char *tide_archive_note(const char **value, const tide_archive *a, int64_t i) {
  if (!a) return NULL;
  if (i < 0 || i >= a->notes) return NULL;
  if (value) *value = a->note[2 * i + 1];
  return a->note[2 * i];
}

tide_status tide_archive_tensor(tide_tensor **out, tide_archive *a, int64_t i) {
  if (!out || !a) return tide__fail(TIDE_ARGUMENT, "archive: wrong arguments, got a null pointer");
  if (i < 0 || i >= a->count)
    return tide__fail(TIDE_INDEX, "%s: got %lld, expected one of %lld arrays", a->kind->load, (long long)i,
                      (long long)a->count);
  a->source.member = a->entry[i].name, a->source.foreign = false;
  tide_status status = a->kind->tensor(out, a, &a->entry[i]);
  if (a->source.foreign) a->entry[i].foreign = true;
  a->source.member = "";
  return status;
}

/* ---- writing ---- */

/* By their names and, where the place of values matters, the sizes of their elements: so that each lies at a multiple
 * of its own. */
typedef struct named {
  const char *name;
  tide_tensor *tensor;
} named;

static int by_alignment(const void *a, const void *b) {
  const named *x = a, *y = b;
  int64_t wide = tide__itemsize(x->tensor->dtype), other = tide__itemsize(y->tensor->dtype);
  return wide != other ? wide < other ? 1 : -1 : strcmp(x->name, y->name);
}

static tide_status check_content(const tide__archive_kind *kind, const char *path, const tide_archive_content *c) {
  TIDE_SIZED(kind->save, c);
  TIDE_LIST(kind->save, c->name, c->count);
  TIDE_LIST(kind->save, c->tensor, c->count);
  TIDE_LIST(kind->save, c->key, c->notes);
  TIDE_LIST(kind->save, c->value, c->notes);
  for (int64_t i = 0; i < c->count; i++) {
    TIDE_GIVEN(kind->save, c->name[i]);
    TIDE_TRY(tide__check(c->tensor[i], kind->save, c->name[i]));
    TIDE_TRY(kind->check(path, c->name[i], c->tensor[i]));
  }
  const char **name = malloc((size_t)(c->count + 1) * sizeof *name);
  if (!name) return tide__fail(TIDE_MEMORY, "%s: no host memory", kind->save);
  for (int64_t i = 0; i < c->count; i++) name[i] = c->name[i];
  const char *twice = find_twice(name, c->count);
  free(name);
  if (!twice) return TIDE_OK;
  return tide__fail(TIDE_VALUE, "%s: %s: got the name '%.80s' twice, expected each once", kind->save, path, twice);
}

static tide_status write_file(const tide__archive_kind *kind, const char *path, const tide_archive_content *c) {
  tide_file *file;
  TIDE_TRY(tide_file_new(&file, kind->save, path));
  tide_status status = kind->write(tide_file_stream(file), path, c);
  if (status == TIDE_OK) return tide_file_finish(file);
  tide_file_free(file);
  return status;
}

tide_status tide_archive_save(tide_archive_kind which, const char *path, const tide_archive_content *content) {
  const tide__archive_kind *kind = kind_of(which);
  if (!kind || !path || !content)
    return tide__fail(TIDE_ARGUMENT, "archive: wrong arguments, expected a kind of archive, a path and contents");
  TIDE_TRY(check_content(kind, path, content));
  size_t n = (size_t)content->count;
  named *order = calloc(n + 1, sizeof *order);
  const char **name = calloc(n + 1, sizeof *name);
  tide_tensor **tensor = calloc(n + 1, sizeof *tensor);
  tide_status status = TIDE_OK;
  if (!order || !name || !tensor) status = tide__fail(TIDE_MEMORY, "%s: no host memory", kind->save);
  if (status == TIDE_OK) {
    for (size_t i = 0; i < n; i++) order[i] = (named){content->name[i], content->tensor[i]};
    qsort(order, n, sizeof *order, by_alignment);
    for (size_t i = 0; i < n; i++) name[i] = order[i].name, tensor[i] = order[i].tensor;
    tide_archive_content sorted = *content;
    sorted.name = name, sorted.tensor = tensor;
    status = write_file(kind, path, &sorted);
  }
  free(order), free(name), free(tensor);
  return status;
}
