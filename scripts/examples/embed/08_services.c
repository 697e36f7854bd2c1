/* 08_services.c: tide takes its memory from the engine's allocator, gives its warnings to the engine's log and its
 * large loops to the engine's jobs. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

typedef struct engine {
  long allocations, freed, loops, warnings;
} engine;

static void *take(void *user, size_t bytes, size_t align) {
  __atomic_add_fetch(&((engine *)user)->allocations, 1, __ATOMIC_RELAXED); /* on any thread */
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void give(void *user, void *ptr, size_t bytes) {
  (void)bytes;
  __atomic_add_fetch(&((engine *)user)->freed, 1, __ATOMIC_RELAXED);
  free(ptr);
}

static void log_line(void *user, const char *message) {
  ((engine *)user)->warnings++;
  printf("engine's log: %s\n", message);
}

/* A job system with one worker: half of the loop is its, half the caller's. */
typedef struct job {
  tide_task_fn fn;
  void *arg;
  int64_t begin, end;
} job;

static void *work(void *user) {
  job *j = (job *)user;
  j->fn(j->arg, j->begin, j->end);
  return NULL;
}

static void parallel_for(void *user, int64_t n, int64_t grain, tide_task_fn fn, void *arg) {
  pthread_t worker;
  job half = {fn, arg, n / 2, n};
  ((engine *)user)->loops++;
  if (n < 2 * grain || pthread_create(&worker, NULL, work, &half)) {
    fn(arg, 0, n);
    return;
  }
  fn(arg, 0, n / 2);
  pthread_join(worker, NULL);
}

int main(void) {
  engine e = {0, 0, 0, 0};
  tide_config config;
  memset(&config, 0, sizeof config);
  config.struct_size = sizeof config, config.user = &e;
  config.alloc = take, config.free = give, config.log = log_line, config.parallel_for = parallel_for;
  if (tide_init(&config)) return EXIT_FAILURE; /* before the first state: the first one's config holds */
  lua_State *L = luaL_newstate();
  tide_lua_options options = tide_lua_defaults();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module) return EXIT_FAILURE;
  luaL_openlibs(L);
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  if (tide_lua_open(L, &options) != LUA_OK) return EXIT_FAILURE;
  lua_setglobal(L, "tide");
  bool ran = luaL_dostring(L, "warn('@on') warn('from the script')\n"
                              "local x = tide.ones(1 << 22, {device = 'cpu'})\n"
                              "assert((x + x):sum():item() == 1 << 23)") == LUA_OK;
  if (!ran) printf("%s\n", lua_tostring(L, -1));
  lua_close(L);
  tide_shutdown();
  printf("%s from the engine's allocator, %s given back, %s loops as its jobs\n",
         e.allocations ? "memory came" : "none", e.allocations == e.freed ? "all of it" : "not all",
         e.loops ? "large" : "no");
  return ran && e.warnings == 1 && e.loops && e.allocations && e.allocations == e.freed ? EXIT_SUCCESS : EXIT_FAILURE;
}
