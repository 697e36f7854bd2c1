/* 10_threads.c: one state on each of several threads, which share devices and tensors; and a script that does not end
 * is ended from another thread, with its host alive. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

typedef struct worker {
  pthread_t thread;
  lua_State *L;
  tide_tensor *shared;
  const char *script;
  tide_status status; /* how the script has ended */
  double result;
} worker;

static lua_State *open_state(void) {
  lua_State *L = luaL_newstate();
  tide_lua_options options = tide_lua_defaults();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module) return NULL;
  luaL_openlibs(L);
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  options.capabilities = TIDE_LUA_WAITS;
  if (tide_lua_open(L, &options) != LUA_OK) return NULL;
  lua_setglobal(L, "tide");
  return L;
}

static void *run(void *user) {
  worker *w = (worker *)user;
  tide_lua_error_info error;
  if (w->shared) tide_lua_push_tensor(w->L, w->shared), lua_setglobal(w->L, "shared");
  if (luaL_dostring(w->L, w->script) != LUA_OK) {
    tide_lua_error(w->L, -1, &error);
    w->status = error.status;
  } else
    w->result = lua_tonumber(w->L, -1);
  return NULL;
}

int main(void) {
  enum { STATES = 4 };
  const int64_t n = 1000;
  worker w[STATES];
  tide_tensor *shared = NULL;
  bool gpu = tide_init(NULL) == TIDE_OK && tide_is_available(), fine = true;
  tide_options on = tide_options_defaults();
  on.dtype = TIDE_FLOAT32, on.device = gpu ? 0 : TIDE_CPU;
  if (tide_full(&shared, &n, 1, tide_float(3), &on)) return EXIT_FAILURE;
  if (gpu && tide_device_synchronize(0)) return EXIT_FAILURE; /* other threads have other streams */
  for (int i = 0; i < STATES; i++) {
    worker one = {0, open_state(), shared, "return (shared * 2):sum():item()", TIDE_OK, 0};
    w[i] = one;
    if (i == STATES - 1) w[i].script = "while true do pcall(tide.ones, 3) end";
    if (!w[i].L) return EXIT_FAILURE;
  }
  const tide_lua_api *api = tide_lua_get(w[STATES - 1].L); /* asked for before the script runs */
  for (int i = 0; i < STATES; i++)
    if (pthread_create(&w[i].thread, NULL, run, &w[i])) return EXIT_FAILURE;
  const struct timespec patience = {0, 50000000};
  nanosleep(&patience, NULL);
  fine = tide_lua_kill(api, w[STATES - 1].L) == 1;
  for (int i = 0; i < STATES; i++) {
    pthread_join(w[i].thread, NULL);
    bool ended = w[i].status == TIDE_INTERRUPTED;
    printf("state %d: %s %g\n", i + 1, ended ? "was ended," : "gave", w[i].result);
    fine = fine && (i < STATES - 1 ? w[i].result == 6000 : ended);
    lua_close(w[i].L);
  }
  tide_tensor_release(shared);
  tide_shutdown();
  return fine ? EXIT_SUCCESS : EXIT_FAILURE;
}
