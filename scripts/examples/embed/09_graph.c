/* 09_graph.c: a script records a step once, as a graph, and the host replays it in each frame at the cost of one
 * launch: Lua does not run. The script may record another one whenever it likes. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tide/graph.h"
#include "tide/tide.h"
#include "tide/tide_lua.h"

static const char script[] = "local cuda = tide.cuda\n"
                             "x = tide.zeros(256, {dtype = tide.float32})\n"
                             "local v = tide.ones(256, {dtype = tide.float32})\n"
                             "local function step() v:mul_(0.5) x:add_(v) end\n"
                             "step() -- once without: kernels are loaded now\n"
                             "local g = cuda.CUDAGraph()\n"
                             "cuda.graph(g, step)\n"
                             "return g\n";

int main(void) {
  lua_State *L = luaL_newstate();
  tide_lua_options options = tide_lua_defaults();
  void *module = dlopen(TIDE_MODULE, RTLD_NOW);
  if (!L || !module || tide_init(NULL)) return EXIT_FAILURE;
  if (!tide_is_available()) {
    printf("graphs need a GPU, or TIDE_SIM_DEVICES=1\n");
    return EXIT_SUCCESS;
  }
  options.open = (lua_CFunction)dlsym(module, "luaopen_tide");
  options.capabilities = TIDE_LUA_WAITS; /* recording waits once for the device */
  options.device = "cuda:0";
  if (tide_lua_open(L, &options) != LUA_OK) return EXIT_FAILURE;
  lua_setglobal(L, "tide");
  if (luaL_dostring(L, script) != LUA_OK) return printf("%s\n", luaL_tolstring(L, -1, NULL)), EXIT_FAILURE;

  tide_graph *graph = tide_lua_to_graph(L, -1);
  lua_getglobal(L, "x");
  tide_tensor *x = tide_lua_to_tensor(L, -1);
  tide_event *done = NULL;
  if (!graph || !x || tide_event_new(&done, 0)) return EXIT_FAILURE;
  tide_graph_retain(graph), tide_tensor_retain(x);
  lua_settop(L, 0);
  for (int frame = 0; frame < 8; frame++)
    if (tide_graph_replay(graph)) return printf("%s\n", tide_error_get()->message), EXIT_FAILURE;
  if (tide_graph_record(graph, done) || tide_event_synchronize(done)) return EXIT_FAILURE;
  float first[256];
  if (tide_read(first, x)) return EXIT_FAILURE;
  printf("after a step of the script's and 8 of the host's x is %g\n", first[0]);
  bool fine = first[0] == 1 - 1.0f / 512;
  tide_event_release(done), tide_graph_release(graph), tide_tensor_release(x);
  lua_close(L);
  tide_shutdown();
  return fine ? EXIT_SUCCESS : EXIT_FAILURE;
}
