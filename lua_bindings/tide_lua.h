/* tide_lua.h: for a C host that passes tensors and streams to its Lua scripts and takes them back. The functions come
 * from the module that the script has required, through the registry, so that the host links libtide and Lua only. */
#ifndef TIDE_TIDE_LUA_H
#define TIDE_TIDE_LUA_H

#include <lua.h>

#include "tide/tide.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tide_lua_api {
  size_t struct_size;
  /* The tensor or stream at an index, borrowed while the value is on the stack, or NULL if it is none (or freed). Never
   * raises. */
  tide_tensor *(*to_tensor)(lua_State *L, int index);
  tide_stream *(*to_stream)(lua_State *L, int index);
  /* Pushes a handle that holds a reference of its own. May raise a memory error of Lua: call in protected mode. */
  void (*push_tensor)(lua_State *L, tide_tensor *tensor);
  void (*push_stream)(lua_State *L, tide_stream *stream);
} tide_lua_api;

/* NULL before the state has required tide. */
static inline const tide_lua_api *tide_lua_get(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "tide.api");
  const tide_lua_api *api = (const tide_lua_api *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return api;
}

#ifdef __cplusplus
}
#endif
#endif
