/* history_test.c: allocation scopes, history and snapshots from C, on simulated devices: what they count, that they
 * agree with the statistics, that several threads may use them at once, and that nothing is left behind. */
#include "tide/history.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static void start(int devices) {
  OK(tide_init(&(tide_config){.struct_size = sizeof(tide_config), .sim_devices = devices, .sim_memory = 64 << 20}));
}

static tide_tensor *make(int64_t n, int device) {
  tide_tensor *x = NULL;
  tide_options options = TIDE_OPTIONS;
  options.dtype = TIDE_UINT8, options.device = device;
  OK(tide_empty(&x, &n, 1, &options));
  return x;
}

/* A hook like a script's: the line is a variable. */
static _Thread_local int line;
static int site(void *user, const char **source) {
  *source = user;
  return line;
}

static tide_allocation_figures read_scope(const tide_allocation_scope *t) {
  tide_allocation_figures f;
  tide_allocation_scope_read(&f, t);
  return f;
}

static void allocation_scopes(void) {
  start(2);
  tide_allocation_scope *outer = NULL, *inner = NULL;
  OK(tide_allocation_scope_new(&outer, "outer", NULL));
  OK(tide_allocation_scope_new(&inner, "inner", outer));
  CHECK(tide_allocation_scope_new(&inner, NULL, NULL) == TIDE_ARGUMENT);
  CHECK(!strcmp(tide_allocation_scope_label(inner), "outer/inner"));
  tide_current_set_allocation_scope(outer);
  tide_tensor *a = make(1000, 0), *b;
  tide_current_set_allocation_scope(inner);
  b = make(100, 1); /* a allocation scope spans the devices */
  tide_current_set_allocation_scope(NULL);
  tide_tensor *c = make(100, 0);
  CHECK(tide_current_allocation_scope() == NULL);
  tide_allocation_figures o = read_scope(outer), i = read_scope(inner);
  CHECK(o.allocated_bytes == 1024 + 512 && o.live_bytes == 1536 && o.peak_bytes == 1536 && o.allocations == 2);
  CHECK(i.allocated_bytes == 512 && i.live_bytes == 512 && i.freed_bytes == 0 && i.allocations == 1);
  tide_allocation_scope_release(inner); /* b still holds it */
  tide_tensor_release(b);
  tide_tensor_release(a);
  o = read_scope(outer);
  CHECK(o.freed_bytes == 1536 && o.live_bytes == 0 && o.peak_bytes == 1536);
  tide_allocation_scope_release(outer);
  tide_tensor_release(c);
  tide_shutdown();
}

static void snapshots(void) {
  start(2);
  line = 7;
  tide_site_set(site, "@game.lua");
  tide_allocation_scope *t = NULL;
  OK(tide_allocation_scope_new(&t, "level", NULL));
  tide_current_set_allocation_scope(t);
  tide_tensor *a = make(3000, 0);
  line = 8;
  tide_tensor *b = make(30 << 20, 1);
  tide_current_set_allocation_scope(NULL);
  tide_allocation_scope_release(t);
  tide_memory_snapshot *s = NULL;
  OK(tide_memory_snapshot_new(&s, 0, 0));
  size_t total[2] = {0}, used[2] = {0};
  for (int64_t g = 0; g < s->segments; g++) {
    const tide_segment_info *segment = &s->segment[g];
    size_t covered = 0;
    total[segment->device] += segment->total, used[segment->device] += segment->allocated;
    for (int64_t k = 0; k < segment->blocks; k++) {
      const tide_block_info *block = &s->block[segment->first + k];
      CHECK(block->address == segment->address + covered);
      covered += block->size;
      if (block->state != TIDE_BLOCK_USED) continue;
      char where[64];
      CHECK(tide_site_describe(block->site, where, sizeof where) == 10);
      CHECK(!strcmp(where, segment->device ? "game.lua:8" : "game.lua:7"));
      CHECK(block->scope && !strcmp(tide_allocation_scope_label(block->scope), "level"));
    }
    CHECK(covered == segment->total || segment->expandable);
  }
  for (int d = 0; d < 2; d++) CHECK(total[d] == tide_memory_reserved(d) && used[d] == tide_memory_allocated(d));
  tide_memory_site sites[4];
  CHECK(tide_memory_sites(sites, 4, 0) == 1 && sites[0].bytes == 3072 && sites[0].blocks == 1);
  CHECK(tide_memory_sites(sites, 4, TIDE_MAX_DEVICES) == 0 && tide_memory_sites(sites, 4, TIDE_CPU) == 0);
  tide_tensor *more[4]; /* in segments of both pools: the largest sum first, of equal ones the earlier line */
  line = 9, more[0] = make(5 << 20, 0);
  line = 10, more[2] = make(100, 0);
  line = 9, more[1] = make(3 << 20, 0); /* the line is known still */
  line = 11, more[3] = make(512, 0);
  CHECK(tide_memory_sites(sites, 4, 0) == 4 && sites[0].bytes == 8 << 20 && sites[0].blocks == 2);
  CHECK(sites[1].bytes == 3072 && sites[2].bytes == 512 && sites[3].bytes == 512 && sites[2].site < sites[3].site);
  for (int i = 0; i < 4; i++) {
    static const char *const lines[] = {"game.lua:9", "game.lua:7", "game.lua:10", "game.lua:11"};
    char where[64];
    tide_site_describe(sites[i].site, where, sizeof where);
    CHECK(!strcmp(where, lines[i]));
  }
  CHECK(tide_memory_sites(sites, 2, 0) == 2 && sites[0].bytes == 8 << 20 && sites[1].bytes == 3072);
  CHECK(tide_memory_sites(sites, 4, 1) == 1 && sites[0].bytes == 30 << 20);
  for (int i = 0; i < 4; i++) tide_tensor_release(more[i]);
  CHECK(tide_memory_sites(sites, 4, 0) == 1 && sites[0].bytes == 3072);
  tide_tensor_release(a);
  tide_tensor_release(b);
  tide_memory_snapshot_free(s); /* its label outlives the blocks */
  tide_memory_snapshot_free(NULL);
  char small[5];
  CHECK(tide_site_describe(0, small, sizeof small) == 0 && !small[0]);
  CHECK(tide_site_describe(sites[0].site, small, sizeof small) == 10 && !strcmp(small, "game"));
  tide_site_set(NULL, NULL);
  tide_shutdown();
}

static size_t stack(void *user, char *text, size_t size) {
  return (size_t)snprintf(text, size, "%s\nb.lua:2 in g", (const char *)user);
}

static void ring(void) {
  start(1);
  tide_history_config config = {.struct_size = sizeof config, .max_entries = 5, .stack = stack, .user = "a.lua:1 in f"};
  config.skip = 1u << TIDE_MEMORY_FREE_REQUESTED;
  OK(tide_memory_history(&config));
  CHECK(tide_memory_history_enabled());
  for (int i = 0; i < 10; i++) tide_tensor_release(make(1000 + 1000 * i, 0));
  tide_memory_snapshot *s = NULL;
  OK(tide_memory_snapshot_new(&s, 0, TIDE_SNAPSHOT_EVENTS));
  CHECK(s->events == 5 && s->lost >= 15);
  for (int64_t i = 0; i < s->events; i++) {
    const tide_memory_event *e = &s->event[i];
    CHECK(e->action == (i % 2 ? TIDE_MEMORY_ALLOC : TIDE_MEMORY_FREE_COMPLETED));
    if (i % 2) CHECK(!strcmp(tide_memory_stack(e->stack), "a.lua:1 in f\nb.lua:2 in g"));
  }
  CHECK(!*tide_memory_stack(0) && !*tide_memory_stack(1u << 30));
  CHECK(!strcmp(tide_memory_action_name(TIDE_MEMORY_OOM), "oom") && *tide_memory_action_name(TIDE_MEMORY_ACTIONS));
  CHECK(tide_memory_snapshot_write(s, "/no/such/folder/x") == TIDE_FILE);
  tide_memory_snapshot_free(s);
  config.max_entries = -1;
  CHECK(tide_memory_history(&config) == TIDE_VALUE && tide_memory_history_enabled());
  OK(tide_memory_history(NULL));
  CHECK(!tide_memory_history_enabled());
  tide_shutdown();
}

static int calls;
static void observer(void *user, const tide_memory_oom *oom) {
  CHECK(user == &calls && oom->device == 0 && oom->requested == (size_t)1 << 30 && oom->total == 64 << 20);
  calls++;
}

static void running_out(void) {
  start(1);
  OK(tide_memory_on_oom_add(observer, &calls));
  CHECK(tide_memory_on_oom_add(NULL, NULL) == TIDE_ARGUMENT);
  tide_tensor *x = NULL, *held = make(8 << 20, 0);
  int64_t n = 1 << 30;
  tide_options options = TIDE_OPTIONS;
  options.dtype = TIDE_UINT8, options.device = 0;
  CHECK(tide_empty(&x, &n, 1, &options) == TIDE_MEMORY && calls == 1 && !x);
  const tide_memory_oom *oom = tide_memory_oom_get();
  CHECK(oom && oom->allocated == 8 << 20 && oom->sites == 1 && oom->site[0].bytes == 8 << 20 && oom->site[0].site == 0);
  CHECK(strstr(tide_error_get()->message, "the host (8.00 MiB)") != NULL);
  tide_memory_on_oom_remove(observer, &calls);
  CHECK(tide_empty(&x, &n, 1, &options) == TIDE_MEMORY && calls == 1);
  tide_tensor_release(held);
  tide_shutdown();
}

/* Of one function with several users, and of several functions with one user, each goes alone: observers of a failure,
 * and hooks that free memory. */
static void add_one(void *user, const tide_memory_oom *oom) { (void)oom, *(int *)user += 1; }
static void add_ten(void *user, const tide_memory_oom *oom) { (void)oom, *(int *)user += 10; }
static int free_one(void *user, int device, size_t bytes) { return (void)device, (void)bytes, *(int *)user += 100, 0; }
static int free_ten(void *user, int device, size_t bytes) { return (void)device, (void)bytes, *(int *)user += 1000, 0; }

static void observers_apart(void) {
  static const tide_oom_fn observes[] = {add_one, add_ten};
  static const tide_reclaim_fn frees[] = {free_one, free_ten};
  static const int by[] = {101, 1010};
  enum { FNS = 2, USERS = 3, ALL = FNS * USERS };
  tide_options options = {TIDE_UINT8, 0, false};
  int64_t n = 1 << 30;
  for (int gone = 0; gone < ALL; gone++) {
    int sums[USERS] = {0};
    start(1);
    for (int i = 0; i < ALL; i++) {
      OK(tide_memory_on_oom_add(observes[i % FNS], &sums[i / FNS]));
      OK(tide_reclaim_add(frees[i % FNS], &sums[i / FNS]));
    }
    tide_memory_on_oom_remove(observes[gone % FNS], &sums[gone / FNS]);
    tide_reclaim_remove(frees[gone % FNS], &sums[gone / FNS]);
    tide_tensor *x = NULL;
    CHECK(tide_empty(&x, &n, 1, &options) == TIDE_MEMORY);
    for (int u = 0; u < USERS; u++) CHECK(sums[u] == by[0] + by[1] - (u == gone / FNS ? by[gone % FNS] : 0));
    for (int i = 0; i < ALL; i++) {
      tide_memory_on_oom_remove(observes[i % FNS], &sums[i / FNS]);
      tide_reclaim_remove(frees[i % FNS], &sums[i / FNS]);
    }
    int before = sums[0] + sums[1] + sums[2];
    CHECK(tide_empty(&x, &n, 1, &options) == TIDE_MEMORY && sums[0] + sums[1] + sums[2] == before);
    tide_shutdown();
  }
}

/* Threads allocate under allocation scopes and lines of their own while the history runs and snapshots are taken. */
static void *work(void *arg) {
  tide_allocation_scope *t = NULL;
  OK(tide_allocation_scope_new(&t, arg, NULL));
  tide_site_set(site, "@thread.lua");
  tide_current_set_allocation_scope(t);
  for (int i = 0; i < 300; i++) {
    line = i % 50 + 1;
    tide_tensor *x = make(100 + 97 * i, i % 2);
    if (i % 40 == 0) {
      tide_memory_snapshot *s = NULL;
      OK(tide_memory_snapshot_new(&s, 0, TIDE_SNAPSHOT_EVENTS));
      tide_memory_snapshot_free(s);
    }
    if (i % 90 == 0) {
      OK(tide_memory_history(&(tide_history_config){.struct_size = sizeof(tide_history_config), .max_entries = 64}));
    }
    tide_tensor_release(x);
  }
  tide_current_set_allocation_scope(NULL);
  tide_allocation_figures f = read_scope(t);
  CHECK(f.allocations == 300 && f.live_bytes == 0 && f.peak_bytes > 0);
  tide_allocation_scope_release(t);
  tide_site_set(NULL, NULL);
  return NULL;
}

static void threads(void) {
  start(2);
  pthread_t t[4];
  for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, work, (void *)(uintptr_t) "thread");
  for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
  tide_shutdown(); /* the history goes too */
  CHECK(!tide_memory_history_enabled());
}

int main(void) {
  allocation_scopes();
  snapshots();
  ring();
  running_out();
  observers_apart();
  threads();
  printf("history_test: %s\n", failures ? "failed" : "passed");
  return failures != 0;
}
