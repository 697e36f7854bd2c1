/* module.c: functions by the text that makes them: found in memory, on disk, or compiled.
 *
 * The key is a hash of everything that decides what the machine code is: the text and what it includes, the options,
 * the architecture, the compiler's version and ours. What was loaded stays loaded until tide ends, as queued work may
 * use it at any time and no finaliser may wait. No lock is held while a compiler runs: two threads that want the same
 * kernel at once may both make it, and the second one uses the first one's.
 *
 * Invariant: an entry of the table is complete when it is linked and is not changed after. */
#include "jit/jit.h"
#include "os/os.h"

#include <limits.h>
#include <stdio.h>

enum { BUCKETS = 256, ABI = 2 }; /* ABI: to be counted up when the same text must be compiled anew */

typedef struct made {
  struct made *next;
  tide__jit_key key;
  int device;
  const tide_compiler *compiler;
  void *module;
  tide__function function;
} made;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static made *table[BUCKETS];
static struct { _Atomic int64_t memory_hits, disk_hits, misses, ahead, stored, damaged, nanoseconds; } stats;

static void count(_Atomic int64_t *n) { atomic_fetch_add_explicit(n, 1, memory_order_relaxed); }

void tide_jit_get_stats(tide_jit_stats *out) {
  if (!out) return;
  *out = (tide_jit_stats){.memory_hits = atomic_load(&stats.memory_hits),
                          .disk_hits = atomic_load(&stats.disk_hits),
                          .misses = atomic_load(&stats.misses),
                          .ahead = atomic_load(&stats.ahead),
                          .stored = atomic_load(&stats.stored),
                          .damaged = atomic_load(&stats.damaged),
                          .pending = tide__jit_ahead_pending(),
                          .compile_seconds = 1e-9 * (double)atomic_load(&stats.nanoseconds),
                          .compiler_opened = atomic_load(&tide__jit_opened)};
}

void tide__jit_module_forked(void) { pthread_mutex_init(&lock, NULL); }

/* ---- the table ---- */

static made *find(const tide__jit_key *key, int device) {
  made *m = table[key->h[0] % BUCKETS];
  while (m && (m->device != device || memcmp(&m->key, key, sizeof *key) != 0)) m = m->next;
  return m;
}

static bool recall(tide__function *out, const tide__jit_key *key, int device) {
  TIDE_LOCKED(&lock);
  const made *m = find(key, device);
  if (m) *out = m->function;
  return m != NULL;
}

/* Adds it, unless another thread was faster: gives what is there. */
static made *add(tide__function *out, made *m) {
  TIDE_LOCKED(&lock);
  made *first = find(&m->key, m->device), **bucket = &table[m->key.h[0] % BUCKETS];
  if (!first) m->next = *bucket, first = *bucket = m;
  *out = first->function;
  return first;
}

/* Loads the image and adds it. */
static tide_status keep(tide__function *out, const tide_image *image, const tide__jit_key *key, const tide_compiler *c,
                        int device) {
  TIDE_FREED made *m = calloc(1, sizeof *m);
  if (!m) return tide__fail(TIDE_MEMORY, "jit: no host memory");
  m->key = *key, m->device = device, m->compiler = c;
  TIDE_TRY(c->loader->load(&m->module, image->bytes, image->size, device));
  tide_status status = c->loader->function(&m->function.handle, &m->function.info, m->module, image->name, device);
  if (status != TIDE_OK || add(out, m) != m)
    c->loader->unload(m->module, device);
  else
    m = NULL; /* it is in the table */
  return status;
}

/* After the backend was closed: a worker that was not waited for would otherwise run code that is gone. Before contexts
 * are reset: their modules go with them. */
void tide__jit_unload(bool of_cpu) {
  TIDE_LOCKED(&lock);
  for (int i = 0; i < BUCKETS; i++)
    for (made **p = &table[i]; *p;) {
      made *m = *p;
      if (m->device < 0 && !of_cpu) {
        p = &m->next;
        continue;
      }
      *p = m->next;
      m->compiler->loader->unload(m->module, m->device);
      free(m);
    }
}

/* ---- compiling ---- */

enum { OPTIONS = 40, ARCH = 64 };

typedef struct options {
  const char *list[OPTIONS];
  int count;
  char own[512];
} options;

/* The compiler's own options, which are one text with blanks, and then the user's. */
static tide_status gather(options *o, const tide__jit_request *r, const tide_compiler *c) {
  o->count = 0;
  snprintf(o->own, sizeof o->own, "%s", r->raw ? c->raw_options : c->options);
  char *rest = o->own;
  for (char *p; (p = strtok_r(rest, " ", &rest)) && o->count < OPTIONS;) o->list[o->count++] = p;
  if (o->count + r->options_count > OPTIONS)
    return tide__fail(TIDE_VALUE, "%s: too many options, got %d, expected at most %d", r->what, r->options_count,
                      OPTIONS - o->count);
  for (int i = 0; i < r->options_count; i++) o->list[o->count++] = r->options[i];
  return TIDE_OK;
}

static void hash_text(tide__jit_key *key, const char *text) { tide__jit_hash(key, text, strlen(text)); }

static void key_of(tide__jit_key *key, const tide__jit_request *r, const options *o, const tide_compiler *c,
                   const char *arch, const char *version) {
  char ours[64];
  snprintf(ours, sizeof ours, "tide " TIDE_VERSION " %d", ABI);
  *key = (tide__jit_key){{0x243f6a8885a308d3u, 0x13198a2e03707344u}};
  hash_text(key, ours), hash_text(key, c->name), hash_text(key, version), hash_text(key, arch);
  for (int i = 0; i < o->count; i++) hash_text(key, o->list[i]);
  hash_text(key, r->name);
  hash_text(key, r->source);
}

/* The errors among the lines that a compiler wrote, with the line numbers of the user's code: "code:3:5: error: x" and
 * "code(3): error: x" become "line 3: x". At most a few; the first line if none is known as an error. */
static void explain(char *out, size_t size, const char *log) {
  size_t at = 0;
  int shown = 0;
  out[0] = 0;
  for (const char *p = log; *p && shown < 4 && at + 1 < size;) {
    int length = (int)strcspn(p, "\n"), line = 0;
    char text[256];
    snprintf(text, sizeof text, "%.*s", length < 255 ? length : 255, p);
    p += length + (p[length] == '\n');
    const char *error = strstr(text, "error");
    if (!error || !strchr(error, ':')) continue;
    const char *where = strstr(text, "code");
    if (where) line = atoi(where + 4 + (where[4] == ':' || where[4] == '('));
    const char *message = strchr(error, ':') + 1;
    while (*message == ' ') message++;
    int wrote = line > 0 ? snprintf(out + at, size - at, "%sline %d: %s", shown ? "\n  " : "", line, message)
                         : snprintf(out + at, size - at, "%s%s", shown ? "\n  " : "", message);
    if (wrote < 0) break;
    at += (size_t)wrote < size - at ? (size_t)wrote : size - at - 1;
    shown++;
  }
  if (!shown) snprintf(out, size, "%.*s", (int)(strlen(log) < 400 ? strlen(log) : 400), log);
}

/* What a compiler says of text that is all tide's: everything, and the line of the text that it names first. */
static tide_status fail_ours(const tide__jit_request *r, const char *log) {
  char text[TIDE__MESSAGE_MOST];
  const char *error = strstr(log, "error"), *number = error, *line = r->source;
  while (number > log && number[-1] != '\n') number--;
  if (number) number += strcspn(number, ":(\n");
  int n = number && *number && *number != '\n' ? atoi(number + 1) : 0;
  for (int i = 1; i < n && *line; i++) line += strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n');
  snprintf(text, sizeof text, "%s: tide has written text that the compiler refuses; please report this: %.4000s\n%.*s",
           r->what, log, n ? (int)strcspn(line, "\n") : 0, line);
  return tide__error_set(&(tide_error){.status = TIDE_VALUE, .device = TIDE_CPU}, text, "");
}

/* Runs the compiler. */
static tide_status run(tide_image *out, char **log, const char *source, const options *o, const tide_compiler *c,
                       const char *arch) {
  atomic_store(&tide__jit_opened, true);
  const int64_t start = tide__os_ns();
  tide_status status = c->compile(out, log, source, o->list, o->count, arch);
  atomic_fetch_add_explicit(&stats.nanoseconds, tide__os_ns() - start, memory_order_relaxed);
  return status;
}

tide_status tide__jit_compile(tide_image *out, const tide__jit_request *r, const tide_compiler *c, const char *arch) {
  TIDE_FREED char *log = NULL;
  char text[900];
  options o;
  TIDE_TRY(tide__quota_count(TIDE_QUOTA_COMPILES));
  TIDE_TRY(gather(&o, r, c));
  snprintf(out->name, sizeof out->name, "%s", r->name);
  tide_status status = run(out, &log, r->source, &o, c, arch);
  if (status == TIDE_OK || !log) return status;
  if (r->ours && strstr(log, "error")) return fail_ours(r, log);
  explain(text, sizeof text, log);
  return tide__fail(TIDE_VALUE, "%s: the code does not compile: %s", r->what, text);
}

static void name_joined(char *to, size_t size, int i) { snprintf(to, size, TIDE_JOINED "%d", i); }

/* Each text in a namespace; its macros go on, but it defines what it uses itself. */
static char *join(const tide__jit_request *const *r, int n) {
  tide__text t = {0};
  char name[32];
  for (int i = 0; i < n; i++) {
    name_joined(name, sizeof name, i);
    tide__text_add(&t, "#define %s %s\nnamespace tide_of_%s {\n%s\n}\n#undef %s\n", r[i]->name, name, name,
                   r[i]->source, r[i]->name);
  }
  return tide__text_end(&t, "jit");
}

tide_status tide__jit_compile_joined(tide_image *const *out, const tide__jit_request *const *r, int n,
                                     const tide_compiler *c, const char *arch) {
  tide_image image = {0};
  TIDE_FREED char *log = NULL, *source = join(r, n);
  options o;
  bool copied = true;
  if (!source) return TIDE_MEMORY;
  name_joined(image.name, sizeof image.name, 0);
  tide_status status = gather(&o, r[0], c);
  if (status == TIDE_OK) status = run(&image, &log, source, &o, c, arch);
  for (int i = 0; i < n && status == TIDE_OK; i++) {
    copied &= (out[i]->bytes = malloc(image.size)) != NULL;
    if (!out[i]->bytes) continue;
    memcpy(out[i]->bytes, image.bytes, image.size);
    out[i]->size = image.size;
    name_joined(out[i]->name, sizeof out[i]->name, i);
  }
  for (int i = 0; i < n && !copied; i++) free(out[i]->bytes), out[i]->bytes = NULL;
  if (status == TIDE_OK) free(image.bytes);
  return copied ? status : TIDE_MEMORY;
}

static void warn_damaged(void) {
  char folder[512] = "", text[700];
  tide_jit_cache_path(folder, sizeof folder);
  snprintf(text, sizeof text, "tide: a damaged entry of the kernel cache in %s is made again", folder);
  tide__warn(text);
}

/* *known: can it be told without compiling? What may include anything is known only by its image. */
static tide_status find_key(tide__jit_key *key, bool *known, const tide__jit_request *r, const tide_compiler *c,
                            const char *arch, bool disk) {
  char version[256] = "";
  options o;
  TIDE_TRY(gather(&o, r, c));
  if (disk) TIDE_TRY(tide__jit_compiler_version(version, sizeof version, c));
  key_of(key, r, &o, c, arch, version);
  *known = r->ours || tide__jit_hash_includes(key, r->source, o.list, o.count);
  return TIDE_OK;
}

tide_status tide__jit_missing(bool *out, const tide__jit_request *r, const tide_compiler *c, const char *arch,
                              int device) {
  char folder[PATH_MAX];
  tide__function f;
  tide__jit_key key;
  bool disk = tide_jit_cache_path(folder, sizeof folder), known;
  TIDE_TRY(find_key(&key, &known, r, c, arch, disk));
  *out = !known || !(recall(&f, &key, device) || (disk && tide__jit_stored(&key)));
  return TIDE_OK;
}

/* ---- where nothing may wait ---- */

_Thread_local bool tide__jit_elsewhere;

tide_status tide__jit_pending(const char *what) {
  char line[160];
  tide__site_text(tide__site_now(), line, sizeof line);
  return tide__fail(TIDE_STATE,
                    "%s: would make the host wait for a compiler%s%s, expected another call when the kernel, which is "
                    "being made in the background, is ready",
                    what, *line ? " at " : "", line);
}

/* Takes what another thread has compiled and could not load, or lets one begin. *pending: a later call has to ask
 * again. A thread may have ended it since the caller looked for the key, or found no version of the compiler. */
static tide_status compile_elsewhere(tide__function *out, tide_image *image, bool *pending, const tide__jit_request *r,
                                     const tide_compiler *c, const char *arch, int device, const tide__jit_key *key,
                                     bool stored) {
  tide__ahead state = tide__jit_ahead_take(image, r, c, arch, false);
  if (state == TIDE_AHEAD_NONE && (key ? recall(out, key, device) : tide__jit_version_known(c))) return TIDE_OK;
  if (state == TIDE_AHEAD_NONE) state = tide__jit_ahead(r, c, device, stored ? TIDE_WISH_LOAD : TIDE_WISH_MAKE);
  *pending = state == TIDE_AHEAD_PENDING;
  return state == TIDE_AHEAD_FAILED ? tide_error_get()->status : TIDE_OK;
}

/* The image, taken from another thread or compiled here, or the function, which another thread has just loaded. */
static tide_status make_image(tide__function *out, tide_image *image, const tide__jit_request *r,
                              const tide_compiler *c, const char *arch, int device, const tide__jit_key *key) {
  tide__ahead state = image->bytes ? TIDE_AHEAD_TAKEN : tide__jit_ahead_take(image, r, c, arch, true);
  if (state == TIDE_AHEAD_NONE && recall(out, key, device)) return TIDE_OK;
  count(&stats.misses);
  if (state == TIDE_AHEAD_FAILED) return tide_error_get()->status;
  if (state == TIDE_AHEAD_NONE) return tide__jit_compile(image, r, c, arch);
  count(&stats.ahead);
  return TIDE_OK;
}

/* ---- all of it ---- */

/* Looks in memory and on disk; out->handle stays NULL where neither has it. */
static tide_status look(tide__function *out, const tide__jit_key *key, const tide_compiler *c, int device, bool known,
                        bool disk) {
  tide_image image = {0};
  if (known && recall(out, key, device)) {
    count(&stats.memory_hits);
    return TIDE_OK;
  }
  int found = disk && known ? tide__jit_read(&image, key) : TIDE_ENTRY_NONE;
  if (found == TIDE_ENTRY_FOUND) {
    tide_status status = keep(out, &image, key, c, device);
    free(image.bytes);
    if (status == TIDE_OK) count(&stats.disk_hits);
    /* A whole entry that the driver refuses is as good as a damaged one; a fault of the device is not its fault. */
    if (status == TIDE_OK || tide__device_lost(NULL, device)) return status;
    found = TIDE_ENTRY_DAMAGED;
  }
  if (found == TIDE_ENTRY_DAMAGED) {
    count(&stats.damaged);
    warn_damaged();
  }
  return TIDE_OK;
}

/* Takes the image. */
static tide_status keep_new(tide__function *out, tide_image *image, tide__jit_key key, const tide_compiler *c,
                            int device, bool known, bool disk) {
  if (!known) {
    key = (tide__jit_key){{0}}; /* without what was taken in before the search for files ended */
    tide__jit_hash(&key, image->name, strlen(image->name));
    tide__jit_hash(&key, image->bytes, image->size);
  }
  tide_status status = keep(out, image, &key, c, device);
  if (status == TIDE_OK && disk && known && tide__jit_write(image, &key)) count(&stats.stored);
  free(image->bytes);
  return status;
}

tide_status tide__jit_bring(bool *missing, tide_image *image, const tide__jit_request *r, const tide_compiler *c,
                            const char *arch, int device) {
  char folder[PATH_MAX];
  tide__function f = {0};
  tide__jit_key key;
  bool disk = tide_jit_cache_path(folder, sizeof folder), known;
  TIDE_TRY(find_key(&key, &known, r, c, arch, disk));
  if (!image) {
    tide_status status = look(&f, &key, c, device, known, disk);
    *missing = !f.handle;
    return status;
  }
  if (!known) return TIDE_OK;
  count(&stats.misses), count(&stats.ahead);
  tide_status status = keep_new(&f, image, key, c, device, known, disk);
  image->bytes = NULL;
  return status;
}

/* Even the version of a compiler, which the key needs, may take long to find. What is on disk is loaded elsewhere, too,
 * unless the kernel is a function of the host's, which waits for no device. */
tide_status tide__jit_function(tide__function *out, const tide__jit_request *r, const tide_compiler *c, int device) {
  char arch[ARCH], folder[PATH_MAX];
  tide__jit_key key;
  tide_image image = {0};
  TIDE_TRY(c->loader->arch(arch, sizeof arch, device));
  bool disk = tide_jit_cache_path(folder, sizeof folder), known, pending = false;
  bool elsewhere = tide__jit_elsewhere || tide__waits_refused(r->what) != TIDE_OK;
  out->handle = NULL;
  if (elsewhere && disk && !tide__jit_version_known(c))
    TIDE_TRY(compile_elsewhere(out, &image, &pending, r, c, arch, device, NULL, false));
  if (pending) return TIDE_OK;
  tide_status status = find_key(&key, &known, r, c, arch, disk);
  bool stored = false, loads = disk && (c->host || !elsewhere);
  if (status == TIDE_OK && !image.bytes) status = look(out, &key, c, device, known, loads);
  if (status == TIDE_OK && elsewhere && !out->handle && !image.bytes) {
    stored = !loads && disk && known && tide__jit_stored(&key);
    status = compile_elsewhere(out, &image, &pending, r, c, arch, device, &key, stored);
  }
  if (status == TIDE_OK && stored && !out->handle && !pending && !image.bytes) /* there are no threads */
    status = look(out, &key, c, device, known, true);
  if (status == TIDE_OK && !out->handle && !pending) status = make_image(out, &image, r, c, arch, device, &key);
  if (status == TIDE_OK && image.bytes) return keep_new(out, &image, key, c, device, known, disk);
  free(image.bytes);
  return status;
}
