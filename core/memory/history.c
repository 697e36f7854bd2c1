/* history.c: the last events of device memory, for those who ask where it went.
 *
 * A ring of events of fixed size that is made when the history is switched on; off it costs a relaxed load. Events are
 * added under the lock of a device's allocator, which orders those of one device; the ring has a lock of its own,
 * always the inner one. An event carries numbers, its strings are looked up when somebody reads: script lines are
 * interned by trace.c, whole stacks here. Both tables only grow and are bounded, so an event may outlive its
 * subject. Labels are held by reference.
 *
 * Invariant: ring.event[i % ring.most] is set for the last ring.most values of i below ring.count. */
#include "history.h"

#include <stdlib.h>
#include <time.h>

enum { ENTRIES = 100000, MOST_ENTRIES = 1 << 26, STACKS = 1 << 16, BUCKETS = 4096, STACK_TEXT = 2048 };

_Atomic bool tide__history_on;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  tide_memory_event *event;
  int64_t most, count;
  uint32_t skip;
} ring;

/* ---- stacks ---- */

typedef struct stack {
  struct stack *next;
  uint32_t hash, id;
  char text[];
} stack;

static struct {
  pthread_mutex_t lock;
  _Atomic(tide_stack_fn) fn;
  _Atomic(void *) user;
  uint32_t count;
  stack *bucket[BUCKETS];
  _Atomic(stack *) by_id[STACKS];
} stacks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static stack *stack_add(uint32_t hash, const char *text, size_t length) {
  if (stacks.count + 1 >= STACKS) return NULL;
  stack *s = malloc(sizeof *s + length + 1);
  if (!s) return NULL;
  memcpy(s->text, text, length);
  s->text[length] = 0;
  s->hash = hash, s->id = ++stacks.count;
  s->next = stacks.bucket[hash % BUCKETS];
  stacks.bucket[hash % BUCKETS] = s;
  atomic_store_explicit(&stacks.by_id[s->id], s, memory_order_release);
  return s;
}

static uint32_t stack_intern(const char *text, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 16777619u;
  TIDE_LOCKED(&stacks.lock);
  stack *s = stacks.bucket[hash % BUCKETS];
  while (s && (s->hash != hash || strncmp(s->text, text, length) != 0 || s->text[length])) s = s->next;
  if (!s) s = stack_add(hash, text, length);
  return s ? s->id : 0;
}

static uint32_t stack_now(void) {
  tide_stack_fn fn = atomic_load_explicit(&stacks.fn, memory_order_acquire);
  if (!fn) return 0;
  char text[STACK_TEXT];
  size_t length = fn(atomic_load_explicit(&stacks.user, memory_order_relaxed), text, sizeof text);
  if (length >= sizeof text) length = sizeof text - 1;
  return length ? stack_intern(text, length) : 0;
}

const char *tide_memory_stack(uint32_t id) {
  const stack *s = id && id < STACKS ? atomic_load_explicit(&stacks.by_id[id], memory_order_acquire) : NULL;
  return s ? s->text : "";
}

/* The number stands behind the last colon that one stands behind: both names may hold colons and words like " in ". */
void tide_memory_stack_line(tide_stack_line *out, const char *text, size_t length) {
  if (!out) return;
  if (!text) return;
  *out = (tide_stack_line){length, 0, length};
  for (size_t at = length; at-- > 0;) {
    size_t end = at + 1;
    while (end < length && text[end] >= '0' && text[end] <= '9') end++;
    bool named = end + 4 <= length && !memcmp(text + end, " in ", 4);
    if (text[at] != ':' || end == at + 1 || !(named || end == length)) continue;
    *out = (tide_stack_line){at, (int)strtol(text + at + 1, NULL, 10), named ? end + 4 : length};
    return;
  }
}

/* ---- who asks ---- */

tide__note tide__note_now(void) {
  bool on = atomic_load_explicit(&tide__history_on, memory_order_relaxed);
  return (tide__note){
      .site = tide__site_now(), .stack = on ? stack_now() : 0, .scope = tide_current_allocation_scope()};
}

int tide_site_describe(uint32_t site, char *text, size_t size) {
  if (!text) return 0;
  char full[512];
  tide__site_text(site, full, sizeof full);
  size_t length = strlen(full);
  if (size) {
    size_t n = length < size ? length : size - 1;
    memcpy(text, full, n);
    text[n] = 0;
  }
  return (int)length;
}

/* ---- the ring ---- */

const char *tide_memory_action_name(tide_memory_action action) {
  static const char *const names[TIDE_MEMORY_ACTIONS] = {
      [TIDE_MEMORY_ALLOC] = "alloc",
      [TIDE_MEMORY_FREE_REQUESTED] = "free_requested",
      [TIDE_MEMORY_FREE_COMPLETED] = "free_completed",
      [TIDE_MEMORY_SEGMENT_ALLOC] = "segment_alloc",
      [TIDE_MEMORY_SEGMENT_FREE] = "segment_free",
      [TIDE_MEMORY_SEGMENT_MAP] = "segment_map",
      [TIDE_MEMORY_SEGMENT_UNMAP] = "segment_unmap",
      [TIDE_MEMORY_OOM] = "oom",
  };
  return (unsigned)action < TIDE_MEMORY_ACTIONS ? names[action] : "unknown";
}

static void drop_events(void) {
  int64_t from = ring.count > ring.most ? ring.count - ring.most : 0;
  for (int64_t i = from; i < ring.count; i++) tide_allocation_scope_release(ring.event[i % ring.most].scope);
  free(ring.event);
  ring.event = NULL, ring.most = ring.count = 0;
}

tide_status tide_memory_history(const tide_history_config *config) {
  if (config) TIDE_TRY(tide__struct_check("record_history", config->struct_size, sizeof *config));
  tide_memory_event *fresh = NULL;
  int64_t most = config && config->max_entries ? config->max_entries : ENTRIES;
  if (most < 1 || most > MOST_ENTRIES)
    return tide__fail(TIDE_VALUE, "record_history: wrong max_entries, got %lld, expected 1 to %d", (long long)most,
                      MOST_ENTRIES);
  if (config && !(fresh = malloc(sizeof *fresh * (size_t)most)))
    return tide__fail(TIDE_MEMORY, "record_history: no host memory for %lld entries", (long long)most);
  TIDE_LOCKED(&lock);
  drop_events();
  ring.event = fresh, ring.most = fresh ? most : 0, ring.skip = config ? config->skip : 0;
  atomic_store(&stacks.user, config ? config->user : NULL);
  atomic_store(&stacks.fn, config ? config->stack : NULL);
  atomic_store(&tide__history_on, fresh != NULL);
  return TIDE_OK;
}

bool tide_memory_history_enabled(void) { return atomic_load_explicit(&tide__history_on, memory_order_relaxed); }

void tide__history_shutdown(void) { tide_memory_history(NULL); }

static uint64_t microseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* The line of an allocation is known from its note; for other events it is looked up now. */
void tide__history_add_slow(tide_memory_action action, int device, const void *ptr, size_t size, uint64_t stream,
                            const tide__note *note) {
  bool is_alloc = action == TIDE_MEMORY_ALLOC;
  tide_memory_event e = {.action = action, .device = device, .address = (uintptr_t)ptr, .stream = stream, .size = size};
  e.time_us = microseconds();
  e.owner = note ? note->site : 0;
  e.site = is_alloc ? e.owner : tide__site_now();
  e.stack = is_alloc ? note->stack : 0;
  e.scope = note ? note->scope : NULL;
  TIDE_LOCKED(&lock);
  if (ring.event && !(ring.skip >> action & 1)) {
    tide_memory_event *at = &ring.event[ring.count % ring.most];
    if (ring.count >= ring.most) tide_allocation_scope_release(at->scope);
    if (e.scope) tide_allocation_scope_retain(e.scope);
    *at = e;
    ring.count++;
  }
}

tide_status tide__history_copy(tide_memory_event **out, int64_t *events, int64_t *lost) {
  tide_status status = TIDE_OK;
  TIDE_LOCKED(&lock);
  int64_t n = ring.count < ring.most ? ring.count : ring.most;
  tide_memory_event *copy = n ? malloc(sizeof *copy * (size_t)n) : NULL;
  for (int64_t i = 0; copy && i < n; i++) {
    copy[i] = ring.event[(ring.count - n + i) % ring.most];
    if (copy[i].scope) tide_allocation_scope_retain(copy[i].scope);
  }
  if (n && !copy)
    status = tide__fail(TIDE_MEMORY, "memory_snapshot: no host memory for %lld events", (long long)n);
  else
    *out = copy, *events = n, *lost = ring.count - n;
  return status;
}
