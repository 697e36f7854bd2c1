/* jit_include.c: what a kernel's code includes, which decides what is compiled as much as the code does.
 *
 * Every file of an included name that is found along the paths counts, with what it includes itself, whether a
 * condition of the preprocessor leaves it out or not: a key that changes too often only costs a compilation. What is
 * not found there is a header of the system or the toolkit, which belongs to the compiler's version. */
#include "jit.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

enum { FOLDERS = 64, FILES = 4096, BYTES = 64 << 20 };

/* What is looked for in `folder`, and all that was found. */
typedef struct search {
  tide__jit_key *key;
  char folder[FOLDERS][PATH_MAX];
  int folders, files;
  size_t bytes;
  char *file[FILES]; /* paths */
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

/* False where there are too many. */
static bool add_file(search *s, const char *folder, const char *name, int length) {
  char path[PATH_MAX];
  struct stat is;
  int n = snprintf(path, sizeof path, "%s%s%.*s", folder, *folder ? "/" : "", length, name);
  if (n < 0 || n >= PATH_MAX || stat(path, &is) != 0 || !S_ISREG(is.st_mode)) return true;
  for (int i = 0; i < s->files; i++)
    if (!strcmp(s->file[i], path)) return true;
  if (s->files == FILES) return false;
  s->file[s->files] = strdup(path);
  return s->file[s->files] && ++s->files;
}

static bool begins_line(const char *p, const char *text) {
  while (p > text && (p[-1] == ' ' || p[-1] == '\t')) p--;
  return p == text || p[-1] == '\n';
}

/* What stands behind "#include" at p, in a text of that folder. */
static bool add_name(search *s, const char *p, const char *folder) {
  bool quoted = *p++ == '"';
  int length = (int)strcspn(p, quoted ? "\"\n" : ">\n");
  if (*p == '/') return add_file(s, "", p, length);
  if (quoted && !add_file(s, folder, p, length)) return false;
  for (int i = 0; i < s->folders; i++)
    if (!add_file(s, s->folder[i], p, length)) return false;
  return true;
}

/* False where a macro says what is included. */
static bool add_included(search *s, const char *text, const char *folder) {
  for (const char *p = text; (p = strchr(p, '#'));) {
    bool first = begins_line(p, text);
    p += 1 + strspn(p + 1, " \t");
    if (strncmp(p, "include", 7) != 0) continue;
    p += !strncmp(p, "include_next", 12) ? 12 : 7;
    p += strspn(p, " \t");
    bool named = *p == '<' || *p == '"';
    if (named ? !add_name(s, p, folder) : first) return false;
  }
  return true;
}

static bool take_files(search *s) {
  for (int i = 0; i < s->files; i++) {
    char folder[PATH_MAX];
    size_t size = 0;
    char *text = tide__jit_file(s->file[i], &size);
    if (!text) return false;
    tide__jit_hash(s->key, text, size);
    const char *slash = strrchr(s->file[i], '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - s->file[i]) : 0, s->file[i]);
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
  if (!strstr(code ? code : source, "include")) return true;
  search *s = calloc(1, sizeof *s);
  if (!s) return false;
  s->key = key;
  bool good = add_options(s, options, n) && add_variable(s, "CPATH") && add_variable(s, "CPLUS_INCLUDE_PATH") &&
              add_included(s, code ? code : source, "") && take_files(s);
  for (int i = 0; i < s->files; i++) free(s->file[i]);
  free(s);
  return good;
}
