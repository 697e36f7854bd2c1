/* nvtx.c: ranges that a program names, for profilers.
 *
 * NVTX (version 3) has no library that a program links: a profiler names a library of its own in NVTX_INJECTION64_PATH;
 * whoever wants to be heard opens it at the first call and lends it tables of function pointers, in which it writes its
 * own. That protocol is small and fixed, so it is spoken here, and works without CUDA. Only the functions that are
 * called here matter; the profiler gets a place for every other one as well, because it may fill all of a table.
 *
 * Each thread keeps its open ranges itself, whoever listens: the depth is counted here, and a range that ends although
 * ranges above it are open (coroutines that interleave) is taken out from below them. The profiler, which knows only
 * push and pop, is told that those above end and begin again, so what it draws nests.
 *
 * Invariant: what the listener has on its stack of the thread is what lies on ours from `told` on. */

#include "profiler.h"
#include "base/own.h"
#include "os/os.h"

/* ---- the listener: numbers and structs of NVTX's binary interface ---- */

enum { CORE = 1, CUDA, OPENCL, CUDART, CORE2, SYNC, MODULES };
enum { MARK_A = 2, RANGE_START_A = 5, RANGE_END = 7, RANGE_PUSH_A = 9, RANGE_POP = 11, MOST = 16 };
enum { TABLE_CALLBACKS = 1, TABLE_VERSION = 3, NVTX_VERSION = 3 };
static const unsigned sizes[MODULES] = {[CORE] = 16, [CUDA] = 9, [OPENCL] = 15, [CUDART] = 7, [CORE2] = 16, [SYNC] = 7};

typedef void (*function)(void);
typedef struct callbacks_table {
  size_t struct_size;
  int (*module_table)(int module, function ***out, unsigned *size);
} callbacks_table;
typedef struct version_table {
  size_t struct_size;
  uint32_t version, reserved;
  void (*set_injection_version)(uint32_t version);
} version_table;

static function slot[MODULES][MOST]; /* what the listener wrote */
static function
    *place[MODULES][MOST + 1]; /* where it writes; number 0 of each table is none, as is the one at its end */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic bool looked, listening;

static int module_table(int module, function ***out, unsigned *size) {
  if (module < CORE || module >= MODULES) return 0;
  for (unsigned i = 1; i < sizes[module]; i++) place[module][i] = &slot[module][i];
  if (out) *out = place[module];
  if (size) *size = sizes[module];
  return 1;
}

static void set_injection_version(uint32_t version) {}

static const void *export_table(uint32_t id) {
  static const callbacks_table callbacks = {sizeof callbacks, module_table};
  static const version_table version = {sizeof version, NVTX_VERSION, 0, set_injection_version};
  return id == TABLE_CALLBACKS ? (const void *)&callbacks : id == TABLE_VERSION ? (const void *)&version : NULL;
}

/* What cannot be opened or does not want to listen is nobody: ranges are for those who look. */
static void look(void) {
  const char *path = getenv("NVTX_INJECTION64_PATH");
  void *library = path && *path ? tide__os_library(path, false) : NULL;
  int (*start)(const void *(*)(uint32_t)) = NULL;
  void *found = library ? tide__os_symbol(library, "InitializeInjectionNvtx2") : NULL;
  memcpy(&start, &found, sizeof found);
  bool taken = start && start(export_table) != 0;
  if (library && !taken) tide__os_library_close(library);
  atomic_store_explicit(&listening, taken, memory_order_relaxed);
  atomic_store_explicit(&looked, true, memory_order_release);
}

bool tide_nvtx_available(void) {
  if (!atomic_load_explicit(&looked, memory_order_acquire)) pthread_once(&once, look);
  return atomic_load_explicit(&listening, memory_order_relaxed);
}

static void tell_text(int which, const char *text) {
  if (slot[CORE][which]) ((void (*)(const char *))slot[CORE][which])(text);
}
static void tell_push(const char *text) {
  if (slot[CORE][RANGE_PUSH_A]) ((int (*)(const char *))slot[CORE][RANGE_PUSH_A])(text);
}
static void tell_pop(void) {
  if (slot[CORE][RANGE_POP]) ((int (*)(void))slot[CORE][RANGE_POP])();
}
static uint64_t tell_start(const char *text) {
  function fn = slot[CORE][RANGE_START_A];
  return fn ? ((uint64_t(*)(const char *))fn)(text) : 0;
}
static void tell_end(uint64_t id) {
  if (slot[CORE][RANGE_END]) ((void (*)(uint64_t))slot[CORE][RANGE_END])(id);
}

/* ---- the ranges of a thread ---- */

typedef struct range {
  uint64_t id, since; /* since: nanoseconds, 0 if nobody recorded when it began */
  size_t text;        /* where its text begins */
} range;

static _Thread_local struct {
  range *open;
  int depth, room;
  char *text;
  size_t used, text_room;
} mine;
static _Atomic uint64_t last_id;

static void drop_mine(void) {
  free(mine.open), free(mine.text);
  memset(&mine, 0, sizeof mine);
}
static void watch_threads(void) { tide__thread_at_end(drop_mine); }

static bool make_room(size_t bytes) {
  static pthread_once_t threads = PTHREAD_ONCE_INIT;
  if (mine.depth == mine.room) {
    pthread_once(&threads, watch_threads);
    tide__thread_touch();
    if (!tide__grow(&mine.open, &mine.room, mine.depth, sizeof *mine.open)) return false;
  }
  if (mine.used + bytes <= mine.text_room) return true;
  size_t room = 2 * mine.text_room + bytes + 256;
  char *text = realloc(mine.text, room);
  if (!text) return false;
  mine.text = text, mine.text_room = room;
  return true;
}

static uint64_t time_if_recording(void) { return tide__profiling() ? tide__profile_clock() : 0; }

/* The number of the new range; 0 without memory, then it counts and has no text. */
static uint64_t push(const char *text) {
  size_t bytes = strlen(text) + 1;
  if (!make_room(bytes)) return 0;
  uint64_t id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
  mine.open[mine.depth++] = (range){id, time_if_recording(), mine.used};
  memcpy(mine.text + mine.used, text, bytes);
  mine.used += bytes;
  if (tide_nvtx_available()) tell_push(text);
  return id;
}

static void record(const range *r) {
  if (tide__profiling()) tide__profile_range(TIDE__RANGE, mine.text + r->text, 0, r->since, tide__profile_clock());
}

/* Ends the range at this depth. Those above it are told to end and to begin again. */
static void end_at(int depth) {
  bool heard = tide_nvtx_available();
  for (int i = mine.depth - 1; i >= depth; i--) {
    record(&mine.open[i]);
    if (heard) tell_pop();
  }
  size_t from = mine.open[depth].text, to = depth + 1 < mine.depth ? mine.open[depth + 1].text : mine.used;
  memmove(mine.text + from, mine.text + to, mine.used - to);
  memmove(mine.open + depth, mine.open + depth + 1, (size_t)(mine.depth - depth - 1) * sizeof *mine.open);
  mine.used -= to - from;
  mine.depth--;
  for (int i = depth; i < mine.depth; i++) {
    mine.open[i].text -= to - from;
    mine.open[i].since = time_if_recording();
    if (heard) tell_push(mine.text + mine.open[i].text);
  }
}

void tide__nvtx_flush(void) {
  for (int i = mine.depth - 1; i >= 0; i--) {
    record(&mine.open[i]);
    mine.open[i].since = 0;
  }
}

/* ---- for hosts ---- */

void tide_nvtx_mark(const char *text) {
  if (tide_nvtx_available()) tell_text(MARK_A, text);
  if (!tide__profiling()) return;
  uint64_t now = tide__profile_clock();
  tide__profile_range(TIDE__MARK, text, 0, now, now);
}

int tide_nvtx_range_push(const char *text) { return text ? push(text) ? mine.depth - 1 : mine.depth : 0; }

int tide_nvtx_range_pop(void) {
  if (mine.depth > 0)
    end_at(mine.depth - 1);
  else
    return -1;
  return mine.depth;
}

uint64_t tide_nvtx_scope_enter(const char *text) { return text ? push(text) : 0; }

void tide_nvtx_scope_leave(uint64_t scope) {
  int i = mine.depth - 1;
  while (i >= 0 && mine.open[i].id != scope) i--;
  if (i >= 0) end_at(i);
}

/* ---- ranges of no thread ---- */

typedef struct free_range {
  struct free_range *next;
  uint64_t id, since, listener;
  char text[];
} free_range;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static free_range *free_ranges;

uint64_t tide_nvtx_range_start(const char *text) {
  if (!text) return 0;
  size_t bytes = strlen(text) + 1;
  free_range *r = malloc(sizeof *r + bytes);
  if (!r) return 0;
  uint64_t id = r->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
  r->since = time_if_recording();
  r->listener = tide_nvtx_available() ? tell_start(text) : 0;
  memcpy(r->text, text, bytes);
  TIDE_LOCKED(&lock);
  r->next = free_ranges;
  free_ranges = r;
  return id;
}

tide_status tide_nvtx_range_end(uint64_t id) {
  pthread_mutex_lock(&lock);
  free_range **at = &free_ranges;
  while (*at && (*at)->id != id) at = &(*at)->next;
  free_range *r = *at;
  if (r) *at = r->next;
  pthread_mutex_unlock(&lock);
  if (!r)
    return tide__fail(TIDE_VALUE, "range_end: no such range is open, got %llu, expected what range_start gave",
                      (unsigned long long)id);
  if (tide_nvtx_available()) tell_end(r->listener);
  if (tide__profiling()) tide__profile_range(TIDE__FREE_RANGE, r->text, 0, r->since, tide__profile_clock());
  free(r);
  return TIDE_OK;
}

void tide__nvtx_flush_free(void) {
  TIDE_LOCKED(&lock);
  for (free_range *r = free_ranges; r; r = r->next) {
    tide__profile_range(TIDE__FREE_RANGE, r->text, 0, r->since, tide__profile_clock());
    r->since = 0;
  }
}
