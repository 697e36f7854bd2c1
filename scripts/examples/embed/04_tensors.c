/* 04_tensors.c: tensors in and out without a copy. The script computes on an array of the engine's, and the engine
 * reads what the script has made where it lies. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

static const char script[] = "heights:mul_(2)\n"        /* the engine's own memory */
                             "return heights:sum(2)\n"; /* a new tensor */

static bool given_back;

/* Called once, on any thread, when nothing of tide uses the array any more. */
static void give_back(void *user) {
  (void)user;
  given_back = true;
}

int main(void) {
  static float heights[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
  const int64_t size[] = {3, 4};
  tide_options like = tide_options_defaults();
  like.dtype = TIDE_FLOAT32, like.device = TIDE_CPU;
  lua_State *L = luaL_newstate();
  tide_lua_options options = tide_lua_defaults();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module || tide_init(NULL)) return EXIT_FAILURE;
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  if (tide_lua_open(L, &options) != LUA_OK) return EXIT_FAILURE;
  lua_setglobal(L, "tide");

  tide_tensor *in = NULL;
  if (tide_from_ptr(&in, heights, size, NULL, 2, &like, give_back, NULL)) return EXIT_FAILURE;
  tide_lua_push_tensor(L, in); /* holds a reference of its own */
  tide_tensor_release(in);
  lua_setglobal(L, "heights");
  if (luaL_dostring(L, script) != LUA_OK) return EXIT_FAILURE;

  tide_tensor *out = tide_lua_to_tensor(L, -1); /* borrowed while it is on the stack */
  if (!out) return EXIT_FAILURE;
  tide_tensor_retain(out);
  lua_close(L); /* what the host has retained lives on */
  const float *sums = (const float *)tide_tensor_data(out);
  bool fine = tide_tensor_ndim(out) == 1 && tide_tensor_size(out)[0] == 3 && tide_tensor_dtype(out) == TIDE_FLOAT32 &&
              tide_tensor_is_contiguous(out);
  printf("heights[2][3] is %g now; sums of rows: %g %g %g\n", heights[2][3], sums[0], sums[1], sums[2]);
  fine = fine && heights[2][3] == 24 && sums[0] == 20 && sums[2] == 84;
  tide_tensor_release(out);
  tide_memory_pump(); /* frees what finalizers have released */
  printf("the array %s\n", given_back ? "is the engine's again" : "is still in use");
  tide_shutdown();
  return fine && given_back ? EXIT_SUCCESS : EXIT_FAILURE;
}
