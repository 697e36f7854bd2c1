/* bindings.h: what the files of this room share. They are Lua faces of tide.h and include nothing else of core.
 *
 * scripts/checks/floors.lua lists the rooms of lua_bindings, lowest first, and what each may call. No file calls one
 * of a higher room: what a lower one needs of it is registered with the state (its `warn`, `end`, `set_oom`
 * ...), with a coroutine's record, or opened later into the same tables, in the order of call/api/open.def.
 *
 * Every C function that Lua calls begins with `ltide_state *S = ltide_enter(L);`: it binds the running coroutine's
 * current device and streams (one pointer compare when the coroutine is the same as last time) and gives the per-state
 * struct. Order inside a function: check arguments first, create the (closed) userdata for results second, call core
 * third, raise last: nothing is lost when an error is raised, since errors jump. */
#pragma once

#include <stdatomic.h>
#include <string.h>

#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

#include "tide/quota.h"
#include "tide/tide.h"

/* What compat/luajit.h says otherwise for LuaJIT: does Lua close what is to be closed when an error passes, does it ask
 * tables about their length (__len), can a C function go on after a yield, which program runs scripts, and which
 * numbers in a list are integers? And what the FFI does: nothing in Lua 5.4, which has none. */
#ifndef LTIDE_CLOSES
#  define LTIDE_CLOSES                      1
#  define LTIDE_TABLE_LEN                   1
#  define LTIDE_YIELDS                      1
#  define LTIDE_FROM_ZERO                   1 /* can scripts count from 0? */
#  define LTIDE_PROGRAM                     "tide"
#  define ltide_is_listed_integer(L, index) lua_isinteger(L, index)
#  define LTIDE_FFI                         0
#  define ltide_push_ffi(L)                 ((void)(L), false)
#  define ltide_push_pointer(L, type, at)   ((void)(L), (void)(type), (void)(at))
#endif

/* A place in a ring, or the ring itself. */
typedef struct ltide_link {
  struct ltide_link *next, *prev;
} ltide_link;
static inline void ltide_link_clear(ltide_link *l) { l->next = l->prev = l; }
static inline void ltide_link_add(ltide_link *ring, ltide_link *l) {
  l->next = ring->next, l->prev = ring;
  ring->next->prev = l;
  ring->next = l;
}
static inline void ltide_link_remove(ltide_link *l) {
  l->next->prev = l->prev;
  l->prev->next = l->next;
}

/* One for each Lua state (a lua_State and its coroutines): what every call reads. What one file or one room alone needs
 * lies in its part. */
typedef struct ltide_state {
  uintptr_t tensor_seal;        /* a random word, which no bytes of a script can imitate */
  int tensor_ref;               /* registry reference of the metatable of tensors */
  ltide_link handles;           /* of tensors in no arena: the end of the state releases what it finds there */
  struct ltide_record *record;  /* of the running coroutine: scope.h */
  struct ltide_arena *arena;    /* innermost tide.scope of the running coroutine, or NULL */
  lua_State *running;           /* the coroutine that called last in this Lua state */
  lua_State *main;              /* the one that every coroutine comes from */
  size_t debt, limit;           /* bytes allocated since the last look at what is alive, and how many cause one */
  int pin_count;                /* pins.c: operands and pending frees */
  bool is_fusing;               /* the running coroutine is in a fused function */
  bool in_ffi;                  /* core was called through LuaJIT's FFI: nothing may call Lua or collect */
  _Atomic bool frame_open;      /* no operation collects */
  _Atomic bool ended;           /* by the host, or with what a quota allows: no call begins any more */
  int observing;                /* an observer of a failed allocation runs */
  bool started;                 /* by tide_init, and not ended since */
  bool has_options;             /* of tide_lua_open */
  bool from_zero;               /* of those: scripts count indexes and dimensions from 0 */
  bool has_device;              /* of those; then */
  int device;                   /* where its coroutines' factories make tensors */
  unsigned granted;             /* tide_lua_capability: what the host lets its scripts do */
  tide_quota *quota;            /* of every coroutine; NULL: the host has opened the module without options */
  _Atomic(const void *) thread; /* the one that called last: where its ltide_last lies */
  struct ltide_state *next;     /* of index_base.c's list */
  void (*warn)(void *user, const char *message);    /* by the module: tells core's warnings, */
  void (*end)(lua_State *L, struct ltide_state *S); /* and frees what the parts hold when the state ends */
  void *part[];                                     /* LTIDE_PARTS of them */
} ltide_state;

/* Part NAME of a state is a struct ltide_NAME_part. Its owner declares it, in a file or in the header of its room, and
 * reads it by ltide_NAME_of(S). All bytes are 0 at first. */
enum {
#define PART(name) LTIDE_PART_##name,
#include "call/api/parts.def"
#undef PART
  LTIDE_PARTS
};
#define LTIDE_PART(name)                                                                                               \
  static inline struct ltide_##name##_part *ltide_##name##_of(const ltide_state *S) {                                  \
    return S->part[LTIDE_PART_##name];                                                                                 \
  }
/* The size of each, for the module, which makes the state: defined in a file of the owner by LTIDE_PART_SIZE. */
#define PART(name) extern const size_t ltide_##name##_size;
#include "call/api/parts.def"
#undef PART
#define LTIDE_PART_SIZE(name) const size_t ltide_##name##_size = sizeof(struct ltide_##name##_part);

/* state.c */
extern _Thread_local lua_State *ltide_last;         /* the coroutine that called last on this thread */
extern _Thread_local ltide_state *ltide_last_state; /* its Lua state */
extern _Thread_local unsigned ltide_last_epoch;
extern _Thread_local unsigned ltide_calls; /* counts calls from Lua: within one, the running line is the same */
/* Counts whatever makes every thread look anew at its next call: a Lua state that closed (an address may be used
 * again), one that goes on on another thread, and one that is to collect. */
extern _Atomic unsigned ltide_epoch;
ltide_state *ltide_enter_slow(lua_State *L);
ltide_state *ltide_state_of(lua_State *L); /* binds nothing and allocates nothing */
/* Starts tide and makes this Lua state's struct with its parts. Its finaliser runs after every other object's, since it
 * is made first. */
ltide_state *ltide_state_open(lua_State *L, const size_t *const sizes[LTIDE_PARTS],
                              void (*warn)(void *user, const char *message), void (*end)(lua_State *L, ltide_state *S));
bool ltide_set_stream(lua_State *L, tide_stream *stream); /* tide_lua_set_stream */
void ltide_push_state(lua_State *L);                      /* the userdata that it lies in */
void ltide_state_close(lua_State *L);                     /* where there is one, as its finaliser does */
static inline ltide_state *ltide_enter(lua_State *L) {
  ltide_calls++;
  return L == ltide_last && ltide_last_epoch == atomic_load_explicit(&ltide_epoch, memory_order_relaxed)
             ? ltide_last_state
             : ltide_enter_slow(L);
}
/* pins.c: the same as the first thing of a function that Lua calls and no other: what a call before it held, or what
 * was freed while it ran, goes now. The commonest functions begin so. */
void ltide_release_pins(lua_State *L, ltide_state *S);
void ltide_still_ended(lua_State *L, ltide_state *S); /* raises, unless the host has set new limits */
static inline ltide_state *ltide_begin(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  if (atomic_load_explicit(&S->ended, memory_order_relaxed)) ltide_still_ended(L, S);
  if (S->pin_count) ltide_release_pins(L, S);
  return S;
}
/* The line of the nearest Lua function around the call, and its source as Lua has it; 0: there is none. */
int ltide_line(lua_State *L, const char **source);
/* The collector may run wherever Lua allocates, and a finaliser may run a coroutine that calls tide, which binds that
 * one. So after whatever allocates (an object, a table, a string) or collects, and before S->record, S->arena or core's
 * idea of what is current are used: binds the running coroutine again. */
static inline void ltide_enter_again(lua_State *L) {
  if (L != ltide_last) ltide_enter(L);
}

/* index_base.c: from where the caller counts indexes and dimensions; the list of open states. */
void ltide_state_list(ltide_state *S);
void ltide_state_unlist(ltide_state *S);
int ltide_kill(lua_State *L); /* stops the quota of the open state; 0: it has none */
int ltide_index_base(void);   /* for tide_index_base_set: while a function of ours runs that a script has called, its */
/* From where the caller at this level of the stack counts, in a state whose scripts count from 0. */
int ltide_base_at(lua_State *L, int level);
/* From where the caller of the function that runs counts indexes and dimensions. */
static inline int ltide_base(lua_State *L) {
  const ltide_state *S = L == ltide_last ? ltide_last_state : ltide_state_of(L);
  return S && S->from_zero ? ltide_base_at(L, 1) : 1;
}

/* Openers: each adds to the module table at the top of the stack. */
#define OPEN(name) void ltide_open_##name(lua_State *L, ltide_state *S);
#include "call/api/open.def"
#undef OPEN

__attribute__((visibility("default"))) int luaopen_tide(lua_State *L);
