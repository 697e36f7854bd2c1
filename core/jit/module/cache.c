/* cache.c: the disk cache of run-time kernels: one file for each, that any number of processes may use at once.
 *
 * An entry's name is the hash of all that made it. It is written to a file of its own name and renamed, so a reader
 * finds a whole entry or none, whoever dies in between; a checksum over everything finds what a disk or an editor did
 * to it afterwards. What cannot be written is not an error: the kernel is compiled again next time.
 *
 * A compiler's version belongs to the key, but a warm start must not open the compiler. So a record in the cache says
 * which file the compiler was, its size and time, and the version it told; as long as that file is the same, or gone,
 * the record holds.
 *
 * Invariant: no lock is needed: files are complete when they get their name, and are never changed after. */
#include "jit/jit.h"

#include <errno.h>
#include <limits.h>
#include <time.h>

#include "os/file.h"
#include "os/process.h"

_Atomic bool tide__jit_opened;

/* ---- hashing ---- */

static uint64_t mix(uint64_t x) {
  x ^= x >> 32, x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32, x *= 0xd6e8feb86659fd93u;
  return x ^ x >> 32;
}

void tide__jit_hash(tide__jit_key *key, const void *bytes, size_t n) {
  const char *p = bytes;
  uint64_t a = key->h[0] ^ mix(n + 0x9e3779b97f4a7c15u), b = key->h[1] + mix(n);
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t w;
    memcpy(&w, p, 8);
    a = mix(a ^ w), b = mix(b + w + 0x9e3779b97f4a7c15u);
  }
  uint64_t w = 0;
  memcpy(&w, p, n);
  key->h[0] = mix(a ^ w), key->h[1] = mix(b + w + 0x9e3779b97f4a7c15u);
}

/* ---- the folder ---- */

bool tide_jit_cache_path(char *path, size_t size) {
  if (!path) return false;
  const char *off = getenv("TIDE_KERNEL_CACHE"), *own = getenv("TIDE_KERNEL_CACHE_PATH");
  const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n = -1;
  if (off && !strcmp(off, "0")) return false;
  if (own && *own)
    n = snprintf(path, size, "%s", own);
  else if (xdg && *xdg == '/') /* its specification has relative ones ignored */
    n = snprintf(path, size, "%s/tide/kernels", xdg);
  else if (home && *home)
    n = snprintf(path, size, "%s/.cache/tide/kernels", home);
  return n > 0 && (size_t)n < size;
}

static bool make_folders(char *path) {
  for (char *p = path + 1; *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    int why = tide__os_folder(path);
    *p = '/';
    if (why && why != EEXIST && why != EROFS && why != EACCES) return false;
  }
  int why = tide__os_folder(path);
  return !why || why == EEXIST;
}

static bool file_path(char *path, size_t size, const char *name) {
  char folder[PATH_MAX - 80];
  return tide_jit_cache_path(folder, sizeof folder) && (size_t)snprintf(path, size, "%s/%s", folder, name) < size;
}

/* ---- whole files ---- */

enum { LARGEST = 64 << 20 };

char *tide__jit_file(const char *path, size_t *size) {
  int file = tide__os_open(path, TIDE_OS_READ | TIDE_OS_NOW);
  tide__os_about s;
  if (file < 0) return NULL;
  char *bytes = NULL;
  if (!tide__os_look_at(&s, file) && s.kind == TIDE_OS_FILE && s.bytes < LARGEST) bytes = malloc((size_t)s.bytes + 1);
  if (bytes && !tide__os_read(file, bytes, (size_t)s.bytes)) free(bytes), bytes = NULL;
  if (bytes) bytes[s.bytes] = 0, *size = (size_t)s.bytes;
  tide__os_close(file);
  return bytes;
}

/* The names that files get here: the folder may be the user's and hold other files, which are not touched. */
static bool is_unfinished(const char *name) { /* new.<process>.<count>.<time> */
  if (strncmp(name, "new", 3) != 0) return false;
  name += 3;
  for (int i = 0; i < 3; i++) {
    size_t digits = *name == '.' ? strspn(name + 1, "0123456789") : 0;
    if (!digits) return false;
    name += 1 + digits;
  }
  return !*name;
}

static bool is_kept(const char *name) {
  /* by the names of the compilers */
  static const char *const records[] = {"compiler.c++", "compiler.nvrtc", "compiler.ptx"};
  for (size_t i = 0; i < sizeof records / sizeof *records; i++)
    if (!strcmp(name, records[i])) return true;
  return strspn(name, "0123456789abcdef") == 32 && !strcmp(name + 32, ".kernel");
}

/* What a process that was killed left behind goes when it is an hour old. */
static void sweep(void *folder, const char *name) {
  char path[PATH_MAX];
  tide__os_about s;
  if (is_unfinished(name) && (size_t)snprintf(path, sizeof path, "%s/%s", (char *)folder, name) < sizeof path &&
      !tide__os_look(&s, path) && time(NULL) - s.seconds > 3600)
    remove(path);
}

static bool write_file(const char *name, const void *head, size_t head_size, const void *bytes, size_t size) {
  static _Atomic unsigned count;
  char folder[PATH_MAX - 80], to[PATH_MAX], from[PATH_MAX];
  if (!tide_jit_cache_path(folder, sizeof folder) || !make_folders(folder)) return false;
  unsigned n = atomic_fetch_add(&count, 1);
  if (n == 0) tide__os_folder_list(folder, sweep, folder);
  snprintf(to, sizeof to, "%s/%s", folder, name);
  snprintf(from, sizeof from, "%s/new.%ld.%u.%ld", folder, (long)tide__os_self(), n, (long)time(NULL));
  int file = tide__os_open(from, TIDE_OS_WRITE | TIDE_OS_NEW | TIDE_OS_OWN);
  if (file < 0) return false;
  bool good = tide__os_write(file, head, head_size) && tide__os_write(file, bytes, size);
  good &= tide__os_close(file) == 0;
  good = good && tide__os_rename(from, to) == 0;
  if (!good) remove(from);
  return good;
}

/* ---- entries ---- */

static const char magic[8] = {'T', 'I', 'D', 'E', 'J', 'I', 'T', '1'};

typedef struct entry_head {
  char magic[8];
  tide__jit_key key, sum; /* sum: of all that follows it */
  uint64_t size;
  char name[512];
} entry_head;

static tide__jit_key sum_of(const entry_head *h, const void *bytes) {
  tide__jit_key sum = h->key;
  tide__jit_hash(&sum, &h->size, sizeof h->size + sizeof h->name);
  tide__jit_hash(&sum, bytes, h->size);
  return sum;
}

static void entry_name(char *name, size_t size, const tide__jit_key *key) {
  snprintf(name, size, "%016llx%016llx.kernel", (unsigned long long)key->h[0], (unsigned long long)key->h[1]);
}

int tide__jit_read(tide_image *out, const tide__jit_key *key) {
  char name[64], path[PATH_MAX];
  size_t size = 0;
  entry_name(name, sizeof name, key);
  TIDE_FREED char *file = file_path(path, sizeof path, name) ? tide__jit_file(path, &size) : NULL;
  if (!file) return TIDE_ENTRY_NONE;
  entry_head h;
  if (size < sizeof h) return TIDE_ENTRY_DAMAGED;
  memcpy(&h, file, sizeof h);
  if (memcmp(h.magic, magic, sizeof magic) != 0 || memcmp(&h.key, key, sizeof *key) != 0 || h.size != size - sizeof h ||
      !memchr(h.name, 0, sizeof h.name))
    return TIDE_ENTRY_DAMAGED;
  tide__jit_key sum = sum_of(&h, file + sizeof h);
  if (memcmp(&sum, &h.sum, sizeof sum) != 0) return TIDE_ENTRY_DAMAGED;
  memmove(file, file + sizeof h, h.size);
  out->bytes = file, out->size = h.size, file = NULL;
  memcpy(out->name, h.name, sizeof h.name);
  return TIDE_ENTRY_FOUND;
}

bool tide__jit_stored(const tide__jit_key *key) {
  char name[64], path[PATH_MAX];
  entry_name(name, sizeof name, key);
  return file_path(path, sizeof path, name) && tide__os_access(path, 0) == 0;
}

bool tide__jit_write(const tide_image *image, const tide__jit_key *key) {
  char name[64];
  entry_head h = {.key = *key, .size = image->size};
  memcpy(h.magic, magic, sizeof magic);
  snprintf(h.name, sizeof h.name, "%s", image->name);
  h.sum = sum_of(&h, image->bytes);
  entry_name(name, sizeof name, key);
  return write_file(name, &h, sizeof h, image->bytes, image->size);
}

typedef struct clearing {
  const char *folder;
  int error;
} clearing;

static void clear(void *user, const char *name) {
  clearing *c = user;
  char path[PATH_MAX];
  if (!is_kept(name) || (size_t)snprintf(path, sizeof path, "%s/%s", c->folder, name) >= sizeof path) return;
  if (remove(path) && errno != ENOENT) c->error = errno;
}

tide_status tide_jit_cache_clear(void) {
  char folder[PATH_MAX - 80];
  if (!tide_jit_cache_path(folder, sizeof folder)) return TIDE_OK;
  clearing c = {folder, 0};
  tide__os_folder_list(folder, clear, &c);
  return c.error
             ? tide__fail(TIDE_FILE, "cache_clear: an entry of %s could not be removed: %s", folder, strerror(c.error))
             : TIDE_OK;
}

/* ---- the compiler's version ---- */

enum { RECORDS = 4 };
static struct {
  const tide_compiler *compiler;
  char version[256];
} known[RECORDS];
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

void tide__jit_cache_forked(void) { pthread_mutex_init(&known_lock, NULL); }

static void stamp_of(char *out, size_t size, const char *path) {
  tide__os_about s;
  out[0] = 0;
  if (!tide__os_look(&s, path))
    snprintf(out, size, "%lld %lld.%09ld", (long long)s.bytes, (long long)s.seconds, s.nanoseconds);
}

/* A record is four lines: where the environment pointed, the compiler's path, the stamp of that file, the version. */
static bool record_read(char *version, size_t size, const char *name, const char *where) {
  char path[PATH_MAX], stamp[64], *line[4];
  size_t length = 0;
  TIDE_FREED char *text = file_path(path, sizeof path, name) ? tide__jit_file(path, &length) : NULL;
  if (!text) return false;
  char *p = text;
  for (int i = 0; i < 4; i++) {
    char *end = strchr(p, '\n');
    if (!end) return false;
    *end = 0, line[i] = p, p = end + 1;
  }
  stamp_of(stamp, sizeof stamp, line[1]);
  if (strcmp(line[0], where) || (stamp[0] && strcmp(stamp, line[2])) || !*line[3]) return false;
  return (size_t)snprintf(version, size, "%s", line[3]) < size;
}

static tide_status version_find(char *version, size_t size, const tide_compiler *c) {
  char name[64], path[PATH_MAX], stamp[64];
  const char *where = c->variable ? getenv(c->variable) : NULL;
  if (!where || strchr(where, '\n')) where = "";
  snprintf(name, sizeof name, "compiler.%s", c->name);
  if (record_read(version, size, name, where)) return TIDE_OK;
  atomic_store(&tide__jit_opened, true);
  TIDE_TRY(c->identify(path, sizeof path, version, size));
  stamp_of(stamp, sizeof stamp, path);
  TIDE_FREED tide__text t = {0};
  tide__text_add(&t, "%s\n%s\n%s\n%s\n", where, path, stamp, version);
  if (!t.failed) write_file(name, t.at, t.length, NULL, 0);
  return TIDE_OK;
}

/* The place of its record, or of the next one; RECORDS: there are too many. The lock is held. */
static int find_record(const tide_compiler *c) {
  int i = 0;
  while (i < RECORDS && known[i].compiler && known[i].compiler != c) i++;
  return i;
}

bool tide__jit_version_known(const tide_compiler *c) {
  if (pthread_mutex_trylock(&known_lock)) return false;
  int i = find_record(c);
  bool found = i == RECORDS || known[i].compiler;
  pthread_mutex_unlock(&known_lock);
  return found;
}

tide_status tide__jit_compiler_version(char *out, size_t size, const tide_compiler *c) {
  TIDE_LOCKED(&known_lock);
  int i = find_record(c);
  if (i < RECORDS && !known[i].compiler) {
    TIDE_TRY(version_find(known[i].version, sizeof known[i].version, c));
    known[i].compiler = c;
  }
  snprintf(out, size, "%s", i < RECORDS ? known[i].version : "");
  return TIDE_OK;
}
