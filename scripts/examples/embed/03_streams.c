/* 03_streams.c: a script works on a stream of its own beside the renderer's, and each waits for the other where it has
 * to, on the device: the host never does. A renderer with a cudaStream_t gets its tide_stream by tide_stream_wrap. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

static const char script[] = "x = tide.zeros(1024, {dtype = tide.float32})\n"
                             "function update() x:add_(1) return x end\n";

/* What the renderer does with a frame's vertices: here it adds them up, on its own stream. */
static tide_status draw(tide_tensor *picture, const tide_tensor *x) {
  return tide_binary(NULL, TIDE_OP_add, picture, x, picture);
}

int main(void) {
  const int64_t n = 1024;
  bool gpu = tide_init(NULL) == TIDE_OK && tide_is_available();
  tide_options on = tide_options_defaults();
  on.dtype = TIDE_FLOAT32, on.device = gpu ? 0 : TIDE_CPU;
  tide_stream *renderer = NULL, *scripts = NULL;
  tide_tensor *picture = NULL;
  lua_State *L = luaL_newstate();
  tide_lua_options options = tide_lua_defaults();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module) return EXIT_FAILURE;
  if (gpu && (tide_stream_new(&renderer, 0, 0) || tide_stream_new(&scripts, 0, -1))) return EXIT_FAILURE;
  if (gpu) tide_current_set_stream(renderer); /* of the host's own calls on this thread */
  if (tide_full(&picture, &n, 1, tide_float(0), &on)) return EXIT_FAILURE;
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  options.device = gpu ? "cuda:0" : "cpu";
  options.stream = scripts;
  if (tide_lua_open(L, &options) != LUA_OK) return EXIT_FAILURE;
  lua_setglobal(L, "tide");
  if (luaL_dostring(L, script) != LUA_OK) return EXIT_FAILURE;
  for (int frame = 1; frame <= 10; frame++) {
    if (gpu) tide_stream_wait_stream(scripts, renderer); /* it has drawn what update writes now */
    lua_getglobal(L, "update");
    if (lua_pcall(L, 0, 1, 0) != LUA_OK) return EXIT_FAILURE;
    if (gpu) tide_stream_wait_stream(renderer, tide_lua_stream(L, 0));
    tide_tensor *x = tide_lua_to_tensor(L, -1);
    tide_current_bind(NULL); /* the script's stream has stayed current: back to the renderer's */
    if (!x || draw(picture, x)) return EXIT_FAILURE;
    lua_settop(L, 0);
  }
  tide_tensor *sum = NULL;
  tide_scalar value;
  if (tide_reduce(&sum, TIDE_MAX, picture, NULL, NULL) || tide_item(&value, sum)) return EXIT_FAILURE;
  printf("each vertex was drawn at 1 + 2 + ... + 10 = %g\n", value.re);
  tide_tensor_release(sum), tide_tensor_release(picture);
  lua_close(L);
  if (gpu) tide_stream_release(scripts), tide_stream_release(renderer);
  tide_shutdown();
  return value.re == 55 ? EXIT_SUCCESS : EXIT_FAILURE;
}
