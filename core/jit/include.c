/* include.c: what a kernel's code includes, which decides what is compiled as much as the code does.
 *
 * Every file of an included name that is found along the paths counts, with what it includes itself, whether a
 * condition of the preprocessor leaves it out or not: a key that changes too often only costs a compilation. What is
 * not found there is a header of the system or the toolkit, which belongs to the compiler's version. */
#include "jit.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

enum { FOLDERS = 64, FILES = 4096, BYTES = 64 << 20 };

/* A file and the folder that it was found in, which is where it looks for others: however the path is spelled. */
typedef struct found {
  char *path;
  dev_t device, folder_device;
  ino_t number, folder_number;
} found;

/* What is looked for in `folder`, and all that was found. */
typedef struct search {
  tide__jit_key *key;
  char folder[FOLDERS][PATH_MAX];
  int folders, files;
  size_t bytes;
  found file[FILES];
} search;

/* ---- the paths ---- */

static bool add_folder(search *s, const char *path, size_t length) {
  if (!length) return true;
  if (s->folders == FOLDERS || length >= PATH_MAX) return false;
  snprintf(s->folder[s->folders++], PATH_MAX, "%.*s", (int)length, path);
  return true;
}

static bool add_variable(search *s, const char *name) {
  const char *p = getenv(name);
  while (p && *p) {
    size_t n = strcspn(p, ":");
    if (!add_folder(s, p, n)) return false;
    p += n + (p[n] == ':');
  }
  return true;
}

static bool add_options(search *s, const char *const *options, int n) {
  static const char *const paths[] = {"--include-path", "-I"};
  for (int i = 0; i < n; i++)
    for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
      size_t length = strlen(paths[k]);
      if (strncmp(options[i], paths[k], length) != 0) continue;
      const char *path = options[i] + length;
      if (*path == '=') path++;
      if (!*path && i + 1 < n) path = options[i + 1];
      if (!add_folder(s, path, strlen(path))) return false;
      break;
    }
  return true;
}

/* Is there an option that names a file to read? */
static bool options_read(const char *const *options, int n) {
  static const char *const reads[] = {"-include", "--pre-include", "--options-file", "-optf", "@"};
  for (int i = 0; i < n; i++)
    for (size_t k = 0; k < sizeof reads / sizeof *reads; k++)
      if (!strncmp(options[i], reads[k], strlen(reads[k]))) return true;
  return false;
}

/* ---- the files ---- */

static void folder_of(char *folder, const char *path) {
  const char *slash = strrchr(path, '/');
  snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash + 1 - path) : 0, path);
}

/* False where there are too many. */
static bool add_file(search *s, const char *folder, const char *name, int length) {
  char path[PATH_MAX], own[PATH_MAX];
  struct stat is, in;
  int n = snprintf(path, sizeof path, "%s%s%.*s", folder, *folder ? "/" : "", length, name);
  if (n < 0 || n >= PATH_MAX || stat(path, &is) != 0 || !S_ISREG(is.st_mode)) return true;
  folder_of(own, path);
  if (stat(*own ? own : ".", &in) != 0) return false;
  for (int i = 0; i < s->files; i++) {
    const found *f = &s->file[i];
    if (f->number == is.st_ino && f->device == is.st_dev && f->folder_number == in.st_ino &&
        f->folder_device == in.st_dev)
      return true;
  }
  if (s->files == FILES) return false;
  s->file[s->files] = (found){strdup(path), is.st_dev, in.st_dev, is.st_ino, in.st_ino};
  return s->file[s->files].path && ++s->files;
}

/* What stands behind "#include" at p, in a text of that folder. False where the name has no end. */
static bool add_name(search *s, const char *p, const char *folder) {
  bool quoted = *p++ == '"';
  const char *end = strchr(p, quoted ? '"' : '>');
  if (!end) return false;
  int length = (int)(end - p);
  if (*p == '/') return add_file(s, "", p, length);
  if (quoted && !add_file(s, folder, p, length)) return false;
  for (int i = 0; i < s->folders; i++)
    if (!add_file(s, s->folder[i], p, length)) return false;
  return true;
}

/* What the directive names, if it includes a file; "" where it does not. */
static const char *included(const char *line) {
  static const char *const words[] = {"include_next", "include", "import"};
  const char *p = line + 1 + strspn(line + 1, " ");
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strncmp(p, words[i], strlen(words[i]))) {
      p += strlen(words[i]);
      return p + strspn(p, " ");
    }
  return "";
}

/* False where a macro says what is included. */
static bool add_included(search *s, const char *text, const char *folder) {
  char line[PATH_MAX];
  size_t length;
  for (const char *p; (p = tide__parse_directive(&text, &length));) {
    bool whole = tide__parse_directive_line(line, sizeof line, p, length);
    const char *name = included(line);
    if (!*name) continue;
    if (!whole || (*name != '<' && *name != '"') || !add_name(s, name, folder)) return false;
  }
  return true;
}

static bool take_files(search *s) {
  for (int i = 0; i < s->files; i++) {
    char folder[PATH_MAX];
    size_t size = 0;
    char *text = tide__jit_file(s->file[i].path, &size);
    if (!text) return false;
    tide__jit_hash(s->key, text, size);
    folder_of(folder, s->file[i].path);
    s->bytes += size;
    bool good = s->bytes < BYTES && add_included(s, text, folder);
    free(text);
    if (!good) return false;
  }
  return true;
}

bool tide__jit_hash_includes(tide__jit_key *key, const char *source, const char *const *options, int n) {
  const char *code = strstr(source, "#line 1 \"code\"\n"); /* what stands before is ours */
  if (options_read(options, n)) return false;
  if (!code) code = source;
  if (!strstr(code, "include") && !strstr(code, "import") && !strchr(code, '\\')) return true; /* a \ joins lines */
  search *s = calloc(1, sizeof *s);
  if (!s) return false;
  s->key = key;
  bool good = add_options(s, options, n) && add_variable(s, "CPATH") && add_variable(s, "CPLUS_INCLUDE_PATH") &&
              add_included(s, code, "") && take_files(s);
  for (int i = 0; i < s->files; i++) free(s->file[i].path);
  free(s);
  return good;
}
