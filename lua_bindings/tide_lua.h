/* tide_lua.h: for a host in C or C++ that passes tensors, streams and the like to its Lua scripts and takes them back,
 * and that opens the module for scripts it does not trust. The functions come from the module that the script has
 * required, or tide_lua_open has opened, through the registry, so that the host links libtide and Lua only.
 *
 * Threads: a Lua state and its coroutines belong to one thread at a time, and every function here is called on that
 * one, while it does not run Lua itself; only tide_lua_kill may be called on any. Several states may run on several
 * threads at once, and what they hold may go from one to another: a tensor, event, stream, graph or generator has a
 * count of references that any thread may change.
 *
 * Errors: tide_lua_push_tensor and the like may raise a memory error of Lua's: call them in protected mode (lua_pcall),
 * or tide_lua_try_push_tensor and the like anywhere. Nothing else here raises, and nothing throws or jumps through the
 * host's frames otherwise. A state that is NULL is one that has not required tide. What pushes, and any script, may
 * leave its coroutine's device and streams current on the thread: a host with work of its own binds its own again,
 * tide_current_bind(NULL).
 *
 * Lua's headers are included as those of a library in C, which the module needs, in a host in C++ too; so a host needs
 * no other include for them. */
#ifndef TIDE_TIDE_LUA_H
#define TIDE_TIDE_LUA_H

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tide/dlpack.h"
#include "tide/graph.h"
#include "tide/quota.h"
#include "tide/readback.h"

TIDE_C_BEGIN
/* Lua's own headers do not say that they are C. */
#ifdef __has_include
#  if !__has_include(<lua.h>)
#    error "tide_lua.h needs the headers of Lua 5.4: those of liblua5.4-dev, by pkg-config --cflags lua5.4, or your own"
#  endif
#endif
#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

/* The module, where the host links it (tide::lua_static) instead of letting `require` find it: for tide_lua_options, or
 * luaL_requiref. */
int luaopen_tide(lua_State *L);

/* What an error of a script says: see tide_lua_error. */
typedef struct tide_lua_error_info {
  tide_status status;      /* of the kind; TIDE_OK: no error of tide's */
  const char *kind;        /* "ShapeError", ... (tide_status_kind); NULL: no error of tide's */
  const char *message;     /* what was wrong, without the place; never NULL */
  char source[LUA_IDSIZE]; /* where the script was: "game.lua"; "" where that is not known */
  int line;                /* 0 where it is not known */
  int device;              /* the device concerned, or TIDE_CPU */
  int code;                /* ACCELERATOR: the driver's number, else 0 */
  const char *name;        /* ACCELERATOR: the driver's name of that number, else "" */
  bool sticky;             /* ACCELERATOR: every later call on the device fails with this cause */
  size_t requested, free, total, allocated, reserved; /* MEMORY: bytes, as in tide_error */
  const char *traceback; /* Lua's, of where it was raised; "" of what is no error of tide's */
} tide_lua_error_info;

struct tide_frame_options;
struct tide_frame_stats;

/* What the functions below call. */
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
  int (*restrict_to)(lua_State *L, unsigned capabilities);             /* see tide_lua_restrict */
  int (*quota_set)(lua_State *L, tide_quota_kind kind, int64_t limit); /* see tide_lua_quota_set */
  int64_t (*quota_used)(lua_State *L, tide_quota_kind kind);
  int (*kill)(lua_State *L); /* see tide_lua_kill */
  /* Objects, errors and values for the host: see the functions of these names. */
  tide_event *(*to_event)(lua_State *L, int index);
  tide_graph *(*to_graph)(lua_State *L, int index);
  tide_generator *(*to_generator)(lua_State *L, int index);
  void (*push_event)(lua_State *L, tide_event *event);
  void (*push_graph)(lua_State *L, tide_graph *graph);
  void (*push_generator)(lua_State *L, tide_generator *generator);
  int (*error)(lua_State *L, int index, tide_lua_error_info *error, size_t size);
  tide_status (*readback)(tide_tensor **host, tide_event **ready, lua_State *L, int index);
  tide_stream *(*stream)(lua_State *L, int device);
  int (*set_stream)(lua_State *L, tide_stream *stream); /* see tide_lua_set_stream */
  int (*frame_begin)(lua_State *L, const struct tide_frame_options *options);
  int (*frame_call)(lua_State *L, int args, int results);
  int (*frame_resume)(lua_State *L);
  int (*frame_end)(lua_State *L, struct tide_frame_stats *stats);
  int (*reload)(lua_State *L, const char *name, const char *text, size_t size); /* see tide_lua_reload */
  int64_t (*quota_overrun)(lua_State *L, tide_quota_kind kind);
  int (*sethook)(lua_State *L, lua_Hook hook, int mask, int count); /* see tide_lua_sethook */
} tide_lua_api;

/* Of any coroutine of the state; lives as long as the process. NULL before the state has required tide, and of NULL. */
static inline const tide_lua_api *tide_lua_get(lua_State *L) {
  if (!L) return NULL;
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

/* What scripts may do beside computing; SANDBOX.md says which functions need what. A state that has not been granted
 * something lacks the names that need it, and a function that gets there otherwise raises PermissionError. */
typedef enum tide_lua_capability {
  TIDE_LUA_FILES = 1,     /* read and write files: load, save_png, trace */
  TIDE_LUA_NATIVE = 2,    /* run text or libraries as machine code: jiterator, compile_kernel, allocators */
  TIDE_LUA_POINTERS = 4,  /* addresses and handles: data_ptr, from_ptr, cuda_stream, DLPack */
  TIDE_LUA_PROCESSES = 8, /* start other processes, reach into them, end this one: spawn, ipc_handle, cmdline */
  TIDE_LUA_GLOBALS = 16,  /* change what other states see too: defaults, limits, seeds, device_reset, observers */
  TIDE_LUA_WAITS = 32,    /* make the host wait for a device: synchronize */
  TIDE_LUA_ALL = 63       /* what `require "tide"` grants */
} tide_lua_capability;

/* From where a state's scripts count. */
typedef enum tide_lua_indexes {
  TIDE_LUA_FROM_ONE, /* as everything in Lua, and -1 is the last */
  /* As the host, a renderer's buffers of indexes and Python do: indexes and dimensions that a script writes or is
   * given, and those in tensors. x[0] is the first, x:sum(0) sums over the first dimension, a range {0, 2} includes its
   * end. Lua's own stay: lists (x.shape[1], the parts of x:split(2)) and ipairs, which begins at x[1]: x:iter() begins
   * at 0. So do kernels written in Lua, and a function of tide's that another one of tide's is to call. Not under
   * LuaJIT. */
  TIDE_LUA_FROM_ZERO
} tide_lua_indexes;

typedef struct tide_lua_options {
  size_t struct_size;    /* sizeof(tide_lua_options) */
  unsigned capabilities; /* of tide_lua_capability; 0: scripts compute, and nothing else */
  lua_CFunction open;    /* luaopen_tide of the module; NULL: the state's own `require` finds it */
  tide_lua_gc gc;
  tide_stream *stream; /* current in the main coroutine; NULL: the default one */
  /* What scripts may take, by tide_quota_kind (tide/quota.h says what each counts); 0: as much as they want. */
  int64_t quota[TIDE_QUOTA_KINDS];
  /* Where scripts make tensors for which they name no device: "cpu", "cuda:1", or "cuda", which is whichever is
   * current; an accelerator is current at the start, too. Scripts of other states are not concerned. NULL: as the
   * process has it (tide_default_device). */
  const char *device;
  tide_lua_indexes indexes; /* 0: from 1 */
} tide_lua_options;

/* All as the comments above say of 0 and NULL, for the host to change. */
static inline tide_lua_options tide_lua_defaults(void) {
  tide_lua_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}

/* Opens the module with options and pushes it; `require "tide"` gives the same afterwards. NULL: tide_lua_defaults.
 * Scripts cannot change it: its tables are read-only, so that one script does not patch what another one calls. Returns
 * LUA_OK, or another status with the message in the module's place. LUA_OK means that the options hold. It fails, and
 * changes nothing, in a state that has the module already, by `require` or by an earlier call, and where `require`
 * gives anything else than tide's module. After a failure the state may try again. Of the coroutines that there are
 * already only L and the main one have quotas; under LuaJIT L is the main one, else this fails. */
static inline int tide_lua_open(lua_State *L, const tide_lua_options *options) {
  const tide_lua_options none = tide_lua_defaults();
  if (!L) return LUA_ERRRUN;
  if (!options) options = &none;
  if (tide_lua_get(L)) {
    lua_pushliteral(L, "tide_lua_open: already open in this Lua state, expected one without tide: open it once, before "
                       "any `require`");
    return LUA_ERRRUN;
  }
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  if (!lua_istable(L, -1)) { /* none of Lua's libraries has been opened */
    lua_newtable(L);
    lua_setfield(L, LUA_REGISTRYINDEX, "_LOADED");
  }
  lua_pop(L, 1);
  lua_pushlightuserdata(L, (void *)options);
  lua_setfield(L, LUA_REGISTRYINDEX, "tide.options");
  if (options->open)
    lua_pushcfunction(L, options->open);
  else
    lua_getglobal(L, "require");
  lua_pushliteral(L, "tide");
  int status = lua_pcall(L, 1, 1, 0);
  lua_pushnil(L);
  lua_setfield(L, LUA_REGISTRYINDEX, "tide.options");
  if (status != LUA_OK && !options->open && lua_isstring(L, -1))
    lua_pushliteral(L, "\n\toptions.open of tide_lua_open is NULL: luaopen_tide, or a path for `require`"),
        lua_concat(L, 2);
  if (status != LUA_OK) return status;
  const tide_lua_api *api = tide_lua_get(L);
  if (!api || api->quota_used(L, TIDE_QUOTA_LAUNCHES) < 0) { /* a quota is what the options make last */
    lua_pop(L, 1);
    lua_pushliteral(L, "tide_lua_open: `require` gave another module, expected tide's, which applies the options");
    return LUA_ERRRUN;
  }
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "tide");
  lua_pop(L, 1);
  return LUA_OK;
}

/* Leaves the state at most these capabilities from now on, as after trusted code has run in it: what needs others
 * disappears, of Lua's own library too, and where a script has saved it, it refuses. On the thread that runs the state.
 * 1; 0 where tide_lua_open has not opened it, and where Lua has no memory, so that this is to be called again. */
static inline int tide_lua_restrict(lua_State *L, unsigned capabilities) {
  const tide_lua_api *api = tide_lua_get(L);
  return api && api->struct_size > offsetof(tide_lua_api, restrict_to) ? api->restrict_to(L, capabilities) : 0;
}

/* Sets what a state that tide_lua_open has opened may take of one kind, negative: as much as it wants. What is spent is
 * counted from 0 again, and time from now, so that a host sets them before each call of a script. A breach is an
 * ordinary error (QuotaError); but for bytes every later call of the script's raises it again, no pcall catches it, and
 * new limits are what lets scripts run again. On the thread that runs the state, and that runs it from now on: a host
 * that hands the state to another thread sets one there. Scripts are fastest without a limit of instructions. 1; 0
 * where there are no quotas. */
static inline int tide_lua_quota_set(lua_State *L, tide_quota_kind kind, int64_t limit) {
  const tide_lua_api *api = tide_lua_get(L);
  return api && api->struct_size > offsetof(tide_lua_api, quota_set) ? api->quota_set(L, kind, limit) : 0;
}
/* What it has taken; -1 where there are no quotas. */
static inline int64_t tide_lua_quota_used(lua_State *L, tide_quota_kind kind) {
  const tide_lua_api *api = tide_lua_get(L);
  return api && api->struct_size > offsetof(tide_lua_api, quota_used) ? api->quota_used(L, kind) : -1;
}

/* Does the module that the state has opened have the function? */
#define TIDE_LUA_HAS(api, function) ((api) && (api)->struct_size > offsetof(tide_lua_api, function))

/* How far its use of a kind was beyond the limit when a breach ended the script: for times, how late that was in
 * microseconds. 0: no breach since the limit was set; -1 where there are no quotas. */
static inline int64_t tide_lua_quota_overrun(lua_State *L, tide_quota_kind kind) {
  const tide_lua_api *api = tide_lua_get(L);
  return TIDE_LUA_HAS(api, quota_overrun) ? api->quota_overrun(L, kind) : -1;
}

/* lua_sethook for a state that tide_lua_open has opened: quotas and kills hold beside this hook. It is called in every
 * coroutine of the state, in others than L and the main one after at most 1000 of their instructions. A count above
 * 1000 may be some instructions off. What was set by lua_sethook before tide_lua_open is kept so. NULL or mask 0: none.
 * While there is one, scripts are as slow as with any hook. On the thread that runs the state. 1; 0 where there are no
 * quotas, and nothing is set. */
static inline int tide_lua_sethook(lua_State *L, lua_Hook hook, int mask, int count) {
  const tide_lua_api *api = tide_lua_get(L);
  return TIDE_LUA_HAS(api, sethook) ? api->sethook(L, hook, mask, count) : 0;
}

/* Ends what runs in a state that tide_lua_open has opened, from any thread, which has asked the state's own thread for
 * `api` before: its Lua code at once, its operation between two blocks, its wait for a device, its kernels written in
 * Lua that run on one. The error (Interrupted) passes every pcall, and all later calls raise it:
 * at once what calls tide, tide_frame_call and tide_lua_reload, within some milliseconds what does not. L is the main
 * coroutine's. 1; 0 where there is no such state. */
static inline int tide_lua_kill(const tide_lua_api *api, lua_State *L) {
  return L && api && api->struct_size > offsetof(tide_lua_api, kill) ? api->kill(L) : 0;
}

/* ---- Objects in and out ---- */

/* The object at an index, borrowed while the value is on the stack; to keep it longer, retain it. NULL: it is none of
 * these, or freed, or the state has not required tide. */
#define TIDE_LUA_TO(noun)                                                                                              \
  static inline tide_##noun *tide_lua_to_##noun(lua_State *L, int index) {                                             \
    const tide_lua_api *api = tide_lua_get(L);                                                                         \
    return TIDE_LUA_HAS(api, to_##noun) ? api->to_##noun(L, index) : NULL;                                             \
  }
/* Pushes an object that holds a reference of its own: the host keeps its reference, and releases it when it likes, on
 * any thread. 1; 0 where the state has not required tide, and of NULL, and nothing is pushed. */
#define TIDE_LUA_PUSH(noun)                                                                                            \
  static inline int tide_lua_push_##noun(lua_State *L, tide_##noun *noun) {                                            \
    const tide_lua_api *api = tide_lua_get(L);                                                                         \
    if (!noun || !TIDE_LUA_HAS(api, push_##noun)) return 0;                                                            \
    api->push_##noun(L, noun);                                                                                         \
    return 1;                                                                                                          \
  }
/* The same outside of protected mode, and a tensor as a global of the scripts (NULL: nil), without a script's code:
 * they raise nothing. MEMORY: Lua has no memory; STATE: the state has not required tide, or it may not go on; ARGUMENT:
 * an argument is NULL. Then nothing is pushed, or set. */
typedef struct tide_lua_passed {
  void *object;
  const char *name;
  int done;
} tide_lua_passed;
static inline tide_status tide_lua_protected(lua_State *L, lua_CFunction fn, tide_lua_passed *passed, int results) {
  if (!lua_checkstack(L, 2)) return TIDE_MEMORY;
  lua_pushcfunction(L, fn);
  lua_pushlightuserdata(L, passed);
  int status = lua_pcall(L, 1, results, 0);
  if (status == LUA_OK && passed->done) return TIDE_OK;
  lua_pop(L, status == LUA_OK ? results : 1);
  return status == LUA_ERRMEM ? TIDE_MEMORY : TIDE_STATE;
}
#define TIDE_LUA_TRY_PUSH(noun)                                                                                        \
  static inline int tide_lua_pushing_##noun(lua_State *L) {                                                            \
    tide_lua_passed *passed = (tide_lua_passed *)lua_touserdata(L, 1);                                                 \
    return passed->done = tide_lua_push_##noun(L, (tide_##noun *)passed->object);                                      \
  }                                                                                                                    \
  static inline tide_status tide_lua_try_push_##noun(lua_State *L, tide_##noun *noun) {                                \
    tide_lua_passed passed = {noun, NULL, 0};                                                                          \
    return L && noun ? tide_lua_protected(L, tide_lua_pushing_##noun, &passed, 1) : TIDE_ARGUMENT;                     \
  }
TIDE_LUA_TO(tensor)    /* tide_tensor *tide_lua_to_tensor(L, index) */
TIDE_LUA_TO(stream)    /* tide_stream *tide_lua_to_stream(L, index) */
TIDE_LUA_TO(event)     /* tide_event *tide_lua_to_event(L, index) */
TIDE_LUA_TO(graph)     /* tide_graph *tide_lua_to_graph(L, index) */
TIDE_LUA_TO(generator) /* tide_generator *tide_lua_to_generator(L, index) */
TIDE_LUA_PUSH(tensor)
TIDE_LUA_PUSH(stream)
TIDE_LUA_PUSH(event)
TIDE_LUA_PUSH(graph)
TIDE_LUA_PUSH(generator)
TIDE_LUA_TRY_PUSH(tensor) /* tide_status tide_lua_try_push_tensor(L, tensor) */
TIDE_LUA_TRY_PUSH(stream)
TIDE_LUA_TRY_PUSH(event)
TIDE_LUA_TRY_PUSH(graph)
TIDE_LUA_TRY_PUSH(generator)
static inline int tide_lua_setting_tensor(lua_State *L) {
  tide_lua_passed *passed = (tide_lua_passed *)lua_touserdata(L, 1);
#ifdef LUA_GLOBALSINDEX
  lua_pushvalue(L, LUA_GLOBALSINDEX);
#else
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
#endif
  lua_pushstring(L, passed->name);
  passed->done = passed->object ? tide_lua_push_tensor(L, (tide_tensor *)passed->object) : tide_lua_get(L) != NULL;
  if (!passed->done) return 0;
  if (!passed->object) lua_pushnil(L);
  lua_rawset(L, -3);
  return 0;
}
static inline tide_status tide_lua_set_global_tensor(lua_State *L, const char *name, tide_tensor *tensor) {
  tide_lua_passed passed = {tensor, name, 0};
  return L && name ? tide_lua_protected(L, tide_lua_setting_tensor, &passed, 0) : TIDE_ARGUMENT;
}

/* ---- Errors ---- */

/* What tide_lua_error says of a value that is no error of tide's. */
static inline void tide_lua_error_plain(lua_State *L, int index, tide_lua_error_info *error) {
  static const char *const other[] = {
      "(error object is nil)",        "(error object is a boolean)",  "(error object is a light userdata)",
      "(error object is a number)",   "(error object is a string)",   "(error object is a table)",
      "(error object is a function)", "(error object is a userdata)", "(error object is a thread)"};
  int type = L ? lua_type(L, index) : LUA_TNIL;
  memset(error, 0, sizeof *error);
  error->message = type == LUA_TSTRING ? lua_tolstring(L, index, NULL) : other[type < 0 ? 0 : type];
  error->name = error->traceback = "";
  error->device = TIDE_CPU;
}

/* Says what the error at an index is, as lua_pcall leaves it at the top; 1 if it is one of tide's. Of a plain string
 * the place, "game.lua:12: ", becomes source and line, and the rest the message; a number becomes a string; of other
 * values the message says the type: no script's code runs (__tostring). The strings are Lua's and live while the value
 * is on the stack, untouched by scripts; source is the struct's own. error may be NULL. Works before the state has
 * required tide, where Lua has no memory left, and after tide_lua_kill. */
static inline int tide_lua_error(lua_State *L, int index, tide_lua_error_info *error) {
  const tide_lua_api *api = tide_lua_get(L);
  tide_lua_error_info unread;
  if (!error) error = &unread;
  if (TIDE_LUA_HAS(api, error)) return api->error(L, index, error, sizeof *error);
  tide_lua_error_plain(L, index, error);
  return 0;
}

/* ---- Values and order ---- */

/* Asks for the values of the tensor at an index without waiting: tide_readback, behind what the coroutine L has queued
 * so far, with any tide_current that the host has bound. It counts in no quota. When tide_readback_poll says so of
 * *ready, the values lie at tide_tensor_data(*host), contiguous. The caller releases both, whenever it likes. STATE: it
 * is no tensor, or the state has not required tide. */
static inline tide_status tide_lua_readback(tide_tensor **host, tide_event **ready, lua_State *L, int index) {
  const tide_lua_api *api = tide_lua_get(L);
  return TIDE_LUA_HAS(api, readback) ? api->readback(host, ready, L, index) : TIDE_STATE;
}

/* The stream of the device on which the coroutine L works, borrowed until it selects another one: a renderer's stream
 * waits for it (tide_stream_wait_stream), or it for that one. NULL where there is no such device (tide_error_get), and
 * before the state has required tide. */
static inline tide_stream *tide_lua_stream(lua_State *L, int device) {
  const tide_lua_api *api = tide_lua_get(L);
  return TIDE_LUA_HAS(api, stream) ? api->stream(L, device) : NULL;
}

/* ---- Frames ---- */

/* From now on the stream of the state's scripts on its device: of the main coroutine, and of every one that had the
 * same stream there. What they queue waits there for what they have queued before. On the thread that runs the state.
 * 1; 0 before the state has required tide, and where tide_error_get says why. */
static inline int tide_lua_set_stream(lua_State *L, tide_stream *stream) {
  const tide_lua_api *api = tide_lua_get(L);
  return api && api->struct_size > offsetof(tide_lua_api, set_stream) ? api->set_stream(L, stream) : 0;
}

/* Frames: scripts in the loop of a host that must not stop.
 *
 *   tide_frame_begin(L, &options);
 *   lua_rawgeti(L, LUA_REGISTRYINDEX, update);              // by luaL_ref: a global may have a script's metamethod
 *   lua_pushnumber(L, dt);
 *   if (tide_frame_call(L, 1, 0) > LUA_YIELD) report(L);    // pops the message
 *   while (tide_frame_resume(L) != LUA_OK) report(L);
 *   tide_frame_end(L, NULL);
 *
 * In a frame nothing that a script does makes the host wait for a device: item, totable, a mask as an index,
 * synchronize, a copy to or from memory that is not page-locked and the like raise a StateError that names the script's
 * line, whether or not the device is done; tide.await is how a script gets a value. What needs a kernel that no cache
 * has raises one, too, and the compiler runs in the background: another call in a later frame finds the kernel. Nor
 * does an operation collect garbage: Lua's collector stands still until tide_frame_end. An allocation that fails over
 * garbage fails. A driver may still load kernels of the library at their first use: tide_preload does that before.
 *
 * All of these are called on the thread that runs the state, never by a function that a script has called: there they
 * do nothing, and fail, with the reason as tide_error_get's (STATE) or pushed. Each state has its own frames; lua_close
 * may come in the middle of one. Without quotas nothing ends a script that goes on beyond the budget:
 * tide_lua_quota_set, or tide_lua_kill. */

/* What a script does that would wait. */
typedef enum tide_frame_wait {
  TIDE_FRAME_WAIT_RAISES, /* the error above */
  /* item, totable, cpu, to("cpu"), equal, allclose and synchronize of a stream or an event yield the function's
   * coroutine to the host, as tide.await does, and go on in a frame when the device is as far; so does what needs a
   * compiler. What else would wait, and all of it in a coroutine of the script's own, raises. */
  TIDE_FRAME_WAIT_YIELDS
} tide_frame_wait;

typedef struct tide_frame_options {
  size_t struct_size; /* sizeof(tide_frame_options) */
  /* Microseconds from tide_frame_begin on that scripts and collection may take. tide_frame_resume gives no turn to a
   * job whose turns have taken more than what is left, but in the next frame the first one. */
  int64_t budget;
  /* Microseconds that collection may take at the end; 0: what is left of the budget, and at least as much work as
   * Lua's collector would have done for what scripts have allocated. */
  int64_t collect;
  tide_frame_wait on_wait;
  /* Microseconds of the device's time that the work of a frame may take; 0: it is not counted. Events on the stream
   * that is current for a coroutine, before and behind each slice (a call, or a turn of a job), tell how long the
   * device took, when they have passed; nothing waits for them. tide_frame_resume gives no turn to a job whose next
   * slice, which takes what its slices have taken before, would go beyond the budget together with what this frame has
   * queued and what earlier frames have left undone; it goes on in a later frame. Calls are made in any case, and
   * count. A job that has never run, or that takes longer than a whole frame, has its turn where no other
   * job has had one; then it is alone in the frame. So has one that did not fit in the frame before, unless calls and
   * what is left undone take the whole budget. What is queued on other streams does not count; time for which the
   * device waits for the host within a slice does. */
  int64_t device_budget;
} tide_frame_options;

typedef struct tide_frame_stats {
  size_t struct_size;         /* sizeof(tide_frame_stats) */
  int64_t microseconds;       /* since tide_frame_begin */
  int64_t scripts, collected; /* of them: in calls and jobs, in collection */
  int jobs;                   /* functions that have yielded and go on in later frames */
  int cycle;                  /* 1: a cycle of the collector has ended in this frame */
  /* With a device_budget, microseconds of the device's time: what this frame has queued is expected to take, and what
   * earlier frames had left undone when it began. */
  int64_t device, device_behind;
} tide_frame_stats;

/* 1; 0 with the reason in tide_error_get: before the state has required tide, where struct_size is no size of a
 * struct, without a budget, where a frame is open, and in a script's call. */
static inline int tide_frame_begin(lua_State *L, const tide_frame_options *options) {
  const tide_lua_api *api = tide_lua_get(L);
  return api && api->struct_size > offsetof(tide_lua_api, frame_begin) ? api->frame_begin(L, options) : 0;
}
/* lua_pcall of a function with `args` arguments above it, in a coroutine that begins with the streams and the device of
 * L. LUA_OK: the results; an error: the message; LUA_YIELD: nothing is pushed, the function has yielded and is a job
 * from now on. The host's own device and streams are current afterwards, if they were before. */
static inline int tide_frame_call(lua_State *L, int args, int results) {
  const tide_lua_api *api = tide_lua_get(L);
  if (TIDE_LUA_HAS(api, frame_call)) return api->frame_call(L, args, results);
  if (!L || args < 0 || args >= lua_gettop(L)) return LUA_ERRRUN;
  lua_settop(L, -args - 2);
  lua_pushliteral(L, "tide_frame_call: this state has not opened tide, or one without it");
  return LUA_ERRRUN;
}
/* Resumes jobs, in turn, until a budget is used or all of them wait for a device. A job that yields by itself has its
 * turn again in the same frame; while a quota is used up, or after a kill, none has one. LUA_OK, or the status of a job
 * that has ended with an error, whose message is pushed: then the others want another call. In a script's call always
 * LUA_ERRRUN, with a message. */
static inline int tide_frame_resume(lua_State *L) {
  const tide_lua_api *api = tide_lua_get(L);
  return TIDE_LUA_HAS(api, frame_resume) ? api->frame_resume(L) : LUA_OK;
}
/* Collects, in steps of some 5 us, one of them longer, and never all at once, and releases what finalisers have left.
 * stats may be NULL. 1; 0 with the reason in tide_error_get: where no frame is open, and in a
 * script's call. */
static inline int tide_frame_end(lua_State *L, tide_frame_stats *stats) {
  const tide_lua_api *api = tide_lua_get(L);
  return api && api->struct_size > offsetof(tide_lua_api, frame_end) ? api->frame_end(L, stats) : 0;
}

/* ---- Scripts changed while they run ---- */

/* tide.reload(name, text) by the host, in a state that may not read files, too: pushes the module of that name that the
 * text makes, the first time or again, with the state that it had. What the text sets as globals belongs to it as well,
 * so it may be a script that returns nothing (then `true` is pushed). Scripts cannot call this where FILES is not
 * granted. LUA_OK, or another status of lua_pcall with the error pushed: then everything is as before. On the thread
 * that runs the state, between two calls of its scripts: in one it fails. */
static inline int tide_lua_reload(lua_State *L, const char *name, const char *text, size_t size) {
  const tide_lua_api *api = tide_lua_get(L);
  if (TIDE_LUA_HAS(api, reload)) return api->reload(L, name, text, size);
  if (!L) return LUA_ERRRUN;
  lua_pushliteral(L, "tide_lua_reload: this state has not opened tide, or one without it");
  return LUA_ERRRUN;
}

TIDE_C_END
#endif
