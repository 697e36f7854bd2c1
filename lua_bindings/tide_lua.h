/* tide_lua.h: for a C host that passes tensors and streams to its Lua scripts and takes them back. The functions come
 * from the module that the script has required, through the registry, so that the host links libtide and Lua only. */
#ifndef TIDE_TIDE_LUA_H
#define TIDE_TIDE_LUA_H

#include <lua.h>

#include "tide/dlpack.h"

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
  int (*gc_set)(lua_State *L, int mode); /* see tide_lua_gc_set */
  /* For other modules (tide/dlpack.h). push_dlpack makes the capsule that tide.from_dlpack takes and owns `managed`
   * from then on, after an error too. take_dlpack gives what is in the capsule of x:to_dlpack() at an index, which is
   * empty then; NULL: it is no capsule, or empty. */
  void (*push_dlpack)(lua_State *L, struct DLManagedTensorVersioned *managed);
  struct DLManagedTensorVersioned *(*take_dlpack)(lua_State *L, int index);
} tide_lua_api;

/* NULL before the state has required tide. */
static inline const tide_lua_api *tide_lua_get(lua_State *L) {
  lua_getfield(L, LUA_REGISTRYINDEX, "tide.api");
  const tide_lua_api *api = (const tide_lua_api *)lua_touserdata(L, -1);
  lua_pop(L, 1);
  return api;
}

/* When operations may collect the state's garbage, which may take long in a frame. */
typedef enum tide_lua_gc {
  /* As memory that Lua does not see grows, unless Lua's collector is stopped: then as LAST. The default. */
  TIDE_LUA_GC_AUTO,
  TIDE_LUA_GC_LAST, /* only before an allocation, of any state, fails */
  TIDE_LUA_GC_NEVER /* the host collects by lua_gc or frees tensors itself, else allocations fail over garbage */
} tide_lua_gc;
/* On the thread that runs the state. 1; 0 before the state has required tide and for an unknown mode. */
static inline int tide_lua_gc_set(lua_State *L, tide_lua_gc mode) {
  const tide_lua_api *api = tide_lua_get(L);
  return api && api->struct_size > offsetof(tide_lua_api, gc_set) ? api->gc_set(L, (int)mode) : 0;
}

#ifdef __cplusplus
}
#endif
#endif
