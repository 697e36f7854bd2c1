/* 07_memory.c: what a script holds is bounded, and where memory runs out all the same, the engine drops what it can do
 * without before the allocation fails. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

static tide_tensor *cache; /* of the engine's, on the device */

/* Asked by an allocation that does not fit: 1 says that something has been freed. */
static int drop_cache(void *user, int device, size_t bytes) {
  (void)user, (void)device, (void)bytes;
  if (!cache) return 0;
  tide_tensor_release(cache);
  cache = NULL;
  return 1;
}

static tide_lua_error_info run(lua_State *L, const char *text) {
  tide_lua_error_info error;
  memset(&error, 0, sizeof error);
  lua_settop(L, 0);
  if (luaL_dostring(L, text) != LUA_OK) tide_lua_error(L, -1, &error);
  printf("%s: %s\n", text, error.message ? error.message : "fits");
  return error;
}

int main(void) {
  lua_State *L = luaL_newstate();
  tide_lua_options options = tide_lua_defaults();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module) return EXIT_FAILURE;
  bool gpu = tide_init(NULL) == TIDE_OK && tide_is_available();
  tide_quota_kind kind = gpu ? TIDE_QUOTA_DEVICE_BYTES : TIDE_QUOTA_HOST_BYTES;
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  options.device = gpu ? "cuda:0" : "cpu";
  options.quota[kind] = 8 << 20;
  if (tide_lua_open(L, &options) != LUA_OK) return EXIT_FAILURE;
  lua_setglobal(L, "tide");

  /* A quota's end is an ordinary error; what is garbage does not count. */
  bool fine =
      run(L, "x = tide.zeros(1 << 20)").status == TIDE_OK && run(L, "y = tide.zeros(2 << 20)").status == TIDE_QUOTA;
  printf("%lld bytes are the script's\n", (long long)tide_lua_quota_used(L, kind));
  fine = fine && run(L, "x = nil y = tide.zeros(1 << 20)").status == TIDE_OK;

  /* The device's end: the engine's cache goes first, then there is room. */
  size_t available = 0, total = 0;
  if (gpu && tide_device_mem_info(&available, &total, 0) == TIDE_OK) {
    int64_t most = (int64_t)(available - available / 4);
    tide_options on = tide_options_defaults();
    on.dtype = TIDE_UINT8, on.device = 0;
    tide_lua_quota_set(L, kind, -1);
    fine = fine && tide_reclaim_add(drop_cache, NULL) == TIDE_OK && tide_empty(&cache, &most, 1, &on) == TIDE_OK;
    lua_pushinteger(L, most / 2);
    lua_setglobal(L, "half");
    fine = fine && run(L, "z = tide.empty(half, {dtype = 'uint8'})").status == TIDE_OK && !cache;
    tide_lua_error_info error = run(L, "tide.empty(half * 16, {dtype = 'uint8'})");
    fine = fine && error.status == TIDE_MEMORY && error.requested == (size_t)(most / 2) * 16 && error.total == total;
    tide_reclaim_remove(drop_cache, NULL);
  }
  lua_close(L);
  tide_shutdown();
  return fine ? EXIT_SUCCESS : EXIT_FAILURE;
}
