/* handle.h: tensors and other objects among the arguments of a call. */
#pragma once

#include "error.h"
#include "tide/memory.h"

/* The tensor userdata, of tensor.c. It is created closed (t NULL) and filled after. */
typedef struct ltide_tensor {
  ltide_link link; /* in the ring of its arena, or of the state, from its making to its end */
  tide_tensor *t;
  struct ltide_arena *arena; /* scope.c: the tide.scope that frees it, or NULL */
  uintptr_t seal;            /* the state's tensor_seal and its own address; 0 until it is complete */
} ltide_tensor;
static inline ltide_tensor *ltide_test_handle(lua_State *L, ltide_state *S, int arg) {
  ltide_tensor *u = (ltide_tensor *)lua_touserdata(L, arg);
  if (!u || lua_rawlen(L, arg) != sizeof *u) return NULL;
  return u->seal == (S->tensor_seal ^ (uintptr_t)u) ? u : NULL;
}
/* The tensor at arg; raises when it is none (ArgumentError) or freed (StateError). `name` names the argument. */
tide_tensor *ltide_check_tensor(lua_State *L, ltide_state *S, int arg, const char *name);
/* The tensor at arg or NULL when it is not one; raises when it is freed. */
tide_tensor *ltide_test_tensor(lua_State *L, ltide_state *S, int arg);

/* The metatables of the classes that this room reads, by their address, which is never followed. The rooms of the
 * classes set them. */
struct ltide_handle_part {
  const void *storage_meta, *stream_meta, *event_meta, *generator_meta, *device_meta, *dtype_meta;
};
LTIDE_PART(handle)

enum { LTIDE_NIL_OK = 1, LTIDE_NEGATIVE_OK = 2, LTIDE_CPU_OK = 4 };
/* One routine for every device argument: nil, id, "cpu", "cuda", "cuda:1", tide.device. nil, "cuda" and
 * (with NEGATIVE_OK) negative ids give TIDE_CURRENT, unresolved; the cpu gives TIDE_CPU. */
int ltide_check_device(lua_State *L, int arg, const char *name, int flags);
bool ltide_is_device(lua_State *L, int arg);         /* is it a device object, or a string that names one? */
const int *ltide_test_device(lua_State *L, int arg); /* of a device object, else NULL */
tide_stream *ltide_check_stream(lua_State *L, int arg, const char *name); /* raises */
tide_event *ltide_check_event(lua_State *L, int arg, const char *name);
tide_generator *ltide_check_generator(lua_State *L, int arg, const char *name);
tide_tensor *ltide_check_storage(lua_State *L, int arg, const char *name); /* the bytes of the storage */
/* The pool of the tide.cuda.MemPool at arg, or that of a graph's token; NULL if it is none. */
tide_mempool *ltide_test_mempool(lua_State *L, int arg);
tide_mempool *ltide_test_graph_pool(lua_State *L, int arg);
tide_dtype ltide_check_dtype(lua_State *L, int arg, const char *name); /* a tide.dtype object or its name */
bool ltide_test_dtype(lua_State *L, int arg, tide_dtype *out);
const tide_dtype *ltide_dtype_of(lua_State *L, int arg); /* of a dtype object, else NULL */
void ltide_push_dtype(lua_State *L, tide_dtype dtype);
extern const char ltide_dtype_objects; /* the key of the registry's table of them */

/* {==== pins.c: keeps what a running call uses */

/* pins.c: is this called by a finaliser or the like, which may have interrupted a call? */
bool ltide_is_interrupting(lua_State *L, const ltide_state *S);
/* Operands that a table holds and not the stack live until the call has ended, whatever is done to the table. */
void ltide_hold_tensor(lua_State *L, ltide_state *S, tide_tensor *t);
void ltide_hold_generator(lua_State *L, ltide_state *S, tide_generator *g);
void ltide_hold_stream(lua_State *L, ltide_state *S, tide_stream *s);
void ltide_hold_pool(lua_State *L, ltide_state *S, tide_mempool *p);
/* Empties the handle; what it held goes when the next call begins. false: there is no memory, nothing has changed. */
bool ltide_defer_release(ltide_state *S, ltide_tensor *u);
/* What was deferred of the handle, for its end, or NULL. */
tide_tensor *ltide_take_deferred(ltide_state *S, const ltide_tensor *u);
/* Before the tensor of a handle becomes another view: where a call may be reading it, that one keeps what it has. */
void ltide_unshare(lua_State *L, ltide_state *S, ltide_tensor *u);
void ltide_held_close(ltide_state *S); /* the state ends */
