/* trace.c: which script line queued what.
 *
 * A host names the running line through a hook; source and line are interned, so that a launch carries 32 bits and the
 * error that surfaces much later can still be told with its line. Looking a known line up takes no lock: entries are
 * never changed and never freed, buckets are chains that only grow at the head. A script that makes lines without end
 * (generated chunks) fills the table; what comes after that is line 0, unknown.
 *
 * Invariant: an entry is complete before a bucket or the index points to it. */
#include "base.h"

#include <stdio.h>
#include <stdlib.h>

enum { BUCKETS = 1024, SITES = 16384, CACHE = 64 };

typedef struct site {
  struct site *next;
  uint32_t hash, id;
  int line;
  char source[];
} site;

static _Atomic(site *) bucket[BUCKETS];
static _Atomic(site *) by_id[SITES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held to add an entry */
static uint32_t count = 1;                               /* 0 is "unknown" */

/* Each thread remembers lines by the address of their source, whose text is compared: the address may have been
 * reused. */
typedef struct known {
  const char *source;
  const site *site;
} known;
static _Thread_local struct {
  tide_site_fn fn;
  void *user;
  uint32_t now; /* what was answered last */
  known cache[CACHE];
} hook;

void tide_site_set(tide_site_fn fn, void *user) { hook.fn = fn, hook.user = user, hook.now = 0; }

static uint32_t hash_of(const char *source, int line) {
  uint32_t hash = 2166136261u ^ (uint32_t)line;
  for (const char *p = source; *p; p++) hash = (hash ^ (unsigned char)*p) * 16777619u;
  return hash;
}

static const site *find(uint32_t hash, const char *source, int line) {
  const site *s = atomic_load_explicit(&bucket[hash % BUCKETS], memory_order_acquire);
  for (; s; s = s->next)
    if (s->hash == hash && s->line == line && !strcmp(s->source, source)) return s;
  return NULL;
}

static const site *add(uint32_t hash, const char *source, int line) {
  pthread_mutex_lock(&lock);
  const site *found = find(hash, source, line); /* another thread may have been faster */
  size_t length = strlen(source);
  site *s = found || count >= SITES ? NULL : malloc(sizeof *s + length + 1);
  if (s) {
    s->id = count++, s->hash = hash, s->line = line;
    s->next = atomic_load_explicit(&bucket[hash % BUCKETS], memory_order_relaxed);
    memcpy(s->source, source, length + 1);
    atomic_store_explicit(&by_id[s->id], s, memory_order_release);
    atomic_store_explicit(&bucket[hash % BUCKETS], s, memory_order_release);
    found = s;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

static __attribute__((noinline)) const site *intern(known *k, const char *source, int line) {
  uint32_t hash = hash_of(source, line);
  const site *s = find(hash, source, line);
  if (!s) s = add(hash, source, line);
  if (s) *k = (known){source, s};
  return s;
}

uint32_t tide__site_now(void) {
  const char *source;
  int line = hook.fn ? hook.fn(hook.user, &source) : 0;
  if (line < 0) return hook.now;
  if (line == 0) return hook.now = 0;
  known *k = &hook.cache[((uintptr_t)source / 8 + (uintptr_t)line) % CACHE];
  const site *s = k->site;
  if (k->source != source || s->line != line || strcmp(s->source, source) != 0) s = intern(k, source, line);
  if (!s) return hook.now = 0;
  return hook.now = s->id;
}

uint32_t tide__site_of(const char *source, int line) {
  uint32_t hash = hash_of(source, line);
  const site *s = line > 0 ? find(hash, source, line) : NULL;
  if (!s && line > 0) s = add(hash, source, line);
  return s ? s->id : 0;
}

/* "@file.lua" and "=name" lose their mark; a chunk that is its own text is shown by its first line. */
void tide__site_text(uint32_t id, char *text, size_t size) {
  const site *s = id && id < SITES ? atomic_load_explicit(&by_id[id], memory_order_acquire) : NULL;
  text[0] = 0;
  if (!s) return;
  const char *name = s->source;
  if (*name == '@' || *name == '=')
    snprintf(text, size, "%s:%d", name + 1, s->line);
  else
    snprintf(text, size, "[string \"%.*s\"]:%d", (int)(strcspn(name, "\n") < 40 ? strcspn(name, "\n") : 40), name,
             s->line);
}
