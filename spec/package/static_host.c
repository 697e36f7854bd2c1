/* static_host.c: a host that holds all of tide and its Lua module, in C and in C++: the text is both.
 *
 * Its script computes on the CPU and on a simulated device, which the libraries' constructors have to have registered,
 * and writes a picture, for which libpng has to be inside. usage: static_host picture.png */
#include <stdio.h>

#include "tide/tide.h"
#include "tide/tide_lua.h"

#ifdef __cplusplus
extern "C" {
#endif
#include <lauxlib.h>
#include <lualib.h>
#ifdef __cplusplus
}
#endif

static const char script[] = "local tide = require 'tide'\n"
                             "local x = tide.arange(1, 5, { dtype = 'float32' })\n"
                             "assert(tide.cuda.device_count() == 1 and tide.cuda.get_device_properties(0).simulated)\n"
                             "assert(tide.equal(x:to('cuda'):exp():cpu(), x:exp()))\n"
                             "tide.save_png(..., tide.zeros(4, 4):byte())\n"
                             "return x + x\n";

static int fail(const char *what, const char *why) {
  fprintf(stderr, "static_host: %s: %s\n", what, why);
  return 1;
}

int main(int argc, char **argv) {
  tide_config config = {};
  config.struct_size = sizeof config;
  config.sim_devices = 1;
  if (argc != 2) return fail("usage", "static_host picture.png");
  if (tide_init(&config)) return fail("tide_init", tide_error_get()->message);
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "tide", luaopen_tide, 0);
  lua_settop(L, 0);
  if (luaL_loadstring(L, script)) return fail("script", lua_tostring(L, -1));
  lua_pushstring(L, argv[1]);
  if (lua_pcall(L, 1, 1, 0)) return fail("script", luaL_tolstring(L, -1, NULL));
  tide_tensor *sum = tide_lua_get(L)->to_tensor(L, -1);
  const float *at = sum ? (const float *)tide_tensor_data(sum) : NULL;
  if (!at || tide_tensor_numel(sum) != 4 || at[0] != 2 || at[3] != 8) return fail("the sum", "expected 2 4 6 8");
  lua_close(L);
  tide_shutdown();
  return 0;
}
