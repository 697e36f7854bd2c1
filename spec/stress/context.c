/* context.c: a context of the driver's that is the host's own, for spec/stress/calls.lua on a GPU. A host that draws by
 * CUDA, or another library, has one current on its thread, and no call of tide's may leave another one there.
 *
 * A module of Lua's: begin() makes such a context and leaves it current, false where there is no driver or GPU;
 * is_current() asks whether it still is. */
#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>

static void *mine;
static int (*get_current)(void **);

static int begin(lua_State *L) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver) return lua_pushboolean(L, 0), 1;
  int (*init)(unsigned) = (int (*)(unsigned))(size_t)dlsym(driver, "cuInit");
  int (*create)(void **, unsigned, int) = (int (*)(void **, unsigned, int))(size_t)dlsym(driver, "cuCtxCreate_v2");
  get_current = (int (*)(void **))(size_t)dlsym(driver, "cuCtxGetCurrent");
  lua_pushboolean(L, init && create && get_current && !init(0) && !create(&mine, 0, 0));
  return 1;
}

static int is_current(lua_State *L) {
  void *now = NULL;
  lua_pushboolean(L, get_current && !get_current(&now) && now == mine);
  return 1;
}

__attribute__((visibility("default"))) int luaopen_context(lua_State *L);
int luaopen_context(lua_State *L) {
  static const luaL_Reg functions[] = {{"begin", begin}, {"is_current", is_current}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
