/* capsule_test.c: DLPack between the C of a host and its scripts, through tide_lua.h: a capsule that a host makes is a
 * tensor for the script, one that a script makes is taken by the host, and whoever has it last lets go, once.
 *
 * usage: capsule_test tide.so */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "module.h"
#include "tide/tide.h"
#include "tide_lua.h"

/* As DLPack publishes it; a host would include its header. */
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  void *data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
typedef struct DLManagedTensorVersioned managed;

static int deleted;
static double values[3] = {1, 2, 3};
static int64_t size = 3;

static void delete_it(managed *m) {
  deleted++;
  free(m);
}

static managed *make(void) {
  managed *m = calloc(1, sizeof *m);
  if (!m) exit(2);
  *m = (managed){.major = 1, .deleter = delete_it, .data = values, .device_type = 1, .ndim = 1, .shape = &size};
  m->code = 2, m->bits = 64, m->lanes = 1;
  return m;
}

static void check(bool holds, const char *what) {
  if (!holds) printf("capsule_test: %s\n", what);
  failed |= !holds;
}

static void run(lua_State *L, const char *text) {
  if (luaL_dostring(L, text) == LUA_OK) return;
  check(false, luaL_tolstring(L, -1, NULL));
  lua_pop(L, 2);
}

static void give(lua_State *L, const tide_lua_api *api, managed *m) {
  api->push_dlpack(L, m);
  lua_setglobal(L, "capsule");
}

/* The state's allocator gives nothing while this is set. */
static bool is_poor;
static void *allocate(void *user, void *ptr, size_t old, size_t n) {
  (void)user, (void)old;
  if (!n) return free(ptr), NULL;
  return is_poor && n > old ? NULL : realloc(ptr, n);
}

static int push_while_poor(lua_State *L) {
  managed *m = make();
  is_poor = true;
  tide_lua_get(L)->push_dlpack(L, m);
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  module = argv[1];
  lua_State *L = lua_newstate(allocate, NULL);
  luaL_openlibs(L);
  lua_getglobal(L, "package");
  lua_pushstring(L, module);
  lua_setfield(L, -2, "cpath");
  lua_pop(L, 1);
  run(L, "tide = require 'tide'");
  const tide_lua_api *api = tide_lua_get(L);
  check(TIDE(tide_init)(NULL) == TIDE_OK, "no tide");

  give(L, api, make());
  run(L, "x = tide.from_dlpack(capsule) assert(x:sum():item() == 6 and x.dtype == tide.float64) x:add_(1)");
  check(values[0] == 2 && deleted == 0, "the script's tensor is not the host's memory");
  run(L, "x = nil collectgarbage() collectgarbage()");
  TIDE(tide_memory_pump)();
  check(deleted == 1, "the host was not told of the end");

  give(L, api, make());
  run(L, "capsule = nil collectgarbage()");
  check(deleted == 2, "a capsule that nobody took keeps the memory");
  give(L, api, make());
  run(L, "do local closed <close> = capsule end assert(not pcall(tide.from_dlpack, capsule))");
  check(deleted == 3, "a closed capsule keeps the memory");
  managed *strange = make();
  strange->lanes = 4;
  give(L, api, strange);
  run(L, "local ok, e = pcall(tide.from_dlpack, capsule) assert(not ok and e.kind == 'DtypeError')\n"
         "assert(not pcall(tide.from_dlpack, capsule)) capsule = nil collectgarbage()");
  check(deleted == 4, "a capsule that was refused is not let go once");

  run(L, "y = tide.tensor({4, 5}, {dtype = 'float32'}) capsule = y:to_dlpack() y = nil");
  lua_getglobal(L, "capsule");
  managed *taken = api->take_dlpack(L, -1);
  check(taken && ((float *)taken->data)[1] == 5 && taken->shape[0] == 2 && taken->bits == 32,
        "not what the script gave");
  check(!api->take_dlpack(L, -1), "a capsule was taken twice");
  lua_pushinteger(L, 3);
  check(!api->take_dlpack(L, -1), "a number is no capsule");
  lua_settop(L, 0);
  run(L, "assert(not pcall(tide.from_dlpack, capsule)) collectgarbage()");
  if (taken) check(((float *)taken->data)[0] == 4, "what was taken is gone"), taken->deleter(taken);

  lua_pushcfunction(L, push_while_poor);
  check(lua_pcall(L, 0, 0, 0) == LUA_ERRMEM, "no error without memory");
  is_poor = false;
  check(deleted == 5, "a capsule for which there was no memory keeps the host's");
  lua_close(L);
  TIDE(tide_memory_pump)();
  TIDE(tide_shutdown)();
  printf("capsule_test: %s\n", failed ? "failed" : "passed");
  return failed;
}
