/* 05_readback.c: the engine wants a number that a script has computed on the device, and does not wait for it: it asks
 * for the value in one frame and takes it in a later one. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

static const char script[] = "local x = tide.ones(1000, {dtype = tide.float32})\n"
                             "function update() x:mul_(1.5) return x:sum() end\n";

typedef struct readback {
  tide_tensor *host; /* NULL: none is under way */
  tide_event *ready;
  double value;
  int results;
} readback;

/* Takes the value if it has arrived. */
static void receive(readback *r) {
  bool done = false;
  if (!r->host || tide_readback_poll(&done, r->ready) || !done) return;
  r->value = *(const float *)tide_tensor_data(r->host);
  r->results++;
  tide_tensor_release(r->host), tide_event_release(r->ready);
  r->host = NULL, r->ready = NULL;
}

int main(void) {
  readback r = {NULL, NULL, 0, 0};
  lua_State *L = luaL_newstate();
  tide_lua_options options = tide_lua_defaults();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module) return EXIT_FAILURE;
  bool gpu = tide_init(NULL) == TIDE_OK && tide_is_available();
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  options.device = gpu ? "cuda" : "cpu"; /* and WAITS is not granted: the script cannot wait either */
  if (tide_lua_open(L, &options) != LUA_OK) return EXIT_FAILURE;
  lua_setglobal(L, "tide");
  if (luaL_dostring(L, script) != LUA_OK) return EXIT_FAILURE;
  for (int frame = 0; frame < 30; frame++) {
    receive(&r);
    lua_getglobal(L, "update");
    if (lua_pcall(L, 0, 1, 0) != LUA_OK) return EXIT_FAILURE;
    /* Queued behind the script's work, on its stream. */
    if (!r.host && tide_lua_readback(&r.host, &r.ready, L, -1)) return EXIT_FAILURE;
    lua_settop(L, 0);
    struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
  }
  receive(&r);
  tide_tensor_release(r.host), tide_event_release(r.ready); /* NULL is allowed */
  printf("%d values arrived, the last one is %g\n", r.results, r.value);
  lua_close(L);
  tide_shutdown();
  return r.results > 0 && r.value >= 1500 ? EXIT_SUCCESS : EXIT_FAILURE;
}
