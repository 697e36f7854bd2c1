/* include.c: what a kernel's code includes, which decides what is compiled as much as the code does.
 *
 * Every file of an included name that is found along the paths counts, with what it includes itself, whether a
 * condition of the preprocessor leaves it out or not: a key that changes too often only costs a compilation. What is
 * not found there is a header of the system or the toolkit, which belongs to the compiler's version.
 *
 * Invariant: a file is known by its name in its real folder, where it looks for others, however the path is spelled. */
#include "jit/jit.h"

#include <limits.h>

#include "os/file.h"
#include "os/process.h"

enum { FOLDERS = 64, FILES = 4096, BYTES = 64 << 20 };

/* What is looked for in `folder`, and all that was found. */
typedef struct search {
  tide__jit_key *key;
  const char *folder[FOLDERS];
  int length[FOLDERS]; /* of each folder's name */
  char *file[FILES];
  int folders, files;
  size_t bytes;
} search;

/* ---- the paths ---- */

static bool add_folder(search *s, const char *path, size_t length) {
  if (!length) return true;
  if (s->folders == FOLDERS || length >= PATH_MAX) return false;
  s->folder[s->folders] = path, s->length[s->folders++] = (int)length;
  return true;
}

static bool add_variable(search *s, const char *name) {
  const char *p = getenv(name);
  for (size_t n; p && *p; p += n + (p[n] == *TIDE_OS_LIST))
    if (!add_folder(s, p, n = strcspn(p, TIDE_OS_LIST))) return false;
  return true;
}

static bool begins(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

/* False where an option names a file to read. */
static bool add_options(search *s, const char *const *options, int n) {
  for (int i = 0; i < n; i++) {
    const char *o = options[i];
    if (begins(o, "-include") || begins(o, "--pre-include") || begins(o, "--options-file") || begins(o, "-optf") ||
        *o == '@')
      return false;
    if (!begins(o, "-I") && !begins(o, "--include-path")) continue;
    o += begins(o, "-I") ? 2 : strlen("--include-path");
    o += *o == '=';
    if (!*o && i + 1 < n) o = options[i + 1];
    if (!add_folder(s, o, strlen(o))) return false;
  }
  return true;
}

/* ---- the files ---- */

/* False where there are too many. */
static bool add_file(search *s, const char *folder, int in, const char *name, size_t length) {
  char path[PATH_MAX], found[2 * PATH_MAX];
  tide__os_about is;
  int n = snprintf(path, sizeof path, "%.*s/%.*s", in, folder, (int)length, name);
  if (n < 0 || n >= PATH_MAX || tide__os_look(&is, path) || is.kind != TIDE_OS_FILE) return true;
  char *slash = strrchr(path, '/');
  *slash = 0;
  TIDE_FREED char *real = tide__os_real_path(*path ? path : "/");
  if (!real) return false;
  snprintf(found, sizeof found, "%s/%s", real, slash + 1);
  for (int i = 0; i < s->files; i++)
    if (!strcmp(s->file[i], found)) return true;
  return s->files < FILES && (s->file[s->files] = strdup(found)) && ++s->files;
}

/* False where a macro says what is included. */
static bool add_included(search *s, const char *text, const char *folder) {
  TIDE_FREED tide__tokens w = {0};
  bool good = tide__tokenize(&w, text, NULL, TIDE_TOKENS_DIRECTIVES, "compile") == TIDE_OK;
  for (int i = 0; i < w.count && good; i++) {
    const char *name;
    size_t n;
    if (!tide__parse_include(&w.list[i], &name, &n)) continue;
    good = n > 0 && (*name != '"' || name[1] == '/' || add_file(s, folder, (int)strlen(folder), name + 1, n - 1));
    if (good && name[1] == '/') good = add_file(s, "", 0, name + 1, n - 1);
    for (int k = 0; k < s->folders && good && name[1] != '/'; k++)
      good = add_file(s, s->folder[k], s->length[k], name + 1, n - 1);
  }
  return good;
}

static bool take_files(search *s) {
  for (int i = 0; i < s->files; i++) {
    size_t size = 0;
    TIDE_FREED char *text = tide__jit_file(s->file[i], &size);
    char folder[2 * PATH_MAX];
    if (!text) return false;
    tide__jit_hash(s->key, text, size);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(s->file[i], '/') - s->file[i]), s->file[i]);
    s->bytes += size;
    if (s->bytes >= BYTES || !add_included(s, text, folder)) return false;
  }
  return true;
}

bool tide__jit_hash_includes(tide__jit_key *key, const char *source, const char *const *options, int n) {
  const char *code = strstr(source, "#line 1 \"code\"\n"); /* what stands before is ours */
  TIDE_FREED search *s = calloc(1, sizeof *s);
  if (!s) return false;
  s->key = key;
  bool good = add_options(s, options, n);
  if (!code) code = source;
  if (good && (strstr(code, "include") || strstr(code, "import") || strchr(code, '\\'))) /* a \ joins lines */
    good = add_variable(s, "CPATH") && add_variable(s, "CPLUS_INCLUDE_PATH") && add_included(s, code, ".") &&
           take_files(s);
  for (int i = 0; i < s->files; i++) free(s->file[i]);
  return good;
}
