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
#ifndef LTIDE_BINDINGS_H
#define LTIDE_BINDINGS_H

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

/* Which of a state's warnings are heard, as Lua's own library has it: a message may come in pieces, and one that is all
 * in one piece and begins with "@" commands. */
typedef struct ltide_warn_switch {
  bool off, continues;
} ltide_warn_switch;
/* Is the piece to be told? */
static inline bool ltide_warn_heed(ltide_warn_switch *w, const char *piece, int to_continue) {
  bool commands = !w->continues && !to_continue && piece[0] == '@';
  if (commands && !strcmp(piece, "@on")) w->off = false;
  if (commands && !strcmp(piece, "@off")) w->off = true;
  w->continues = to_continue;
  return !commands && !w->off;
}

typedef void (*ltide_warn_fn)(void *user, const char *message);

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

/* One for each Lua state (a lua_State and its coroutines). Metatables are compared by address, never followed. */
typedef struct ltide_state {
  const void *storage_meta, *stream_meta, *event_meta, *generator_meta, *graph_meta, *device_meta, *dtype_meta,
      *fused_meta, *error_meta;
  uintptr_t tensor_seal;              /* a random word, which no bytes of a script can imitate */
  int tensor_ref;                     /* registry reference of the tensor metatable */
  struct ltide_arena *arena;          /* innermost tide.scope of the running coroutine, or NULL */
  int arenas;                         /* how many there are, of all coroutines */
  struct ltide_record *record;        /* of the running coroutine: state.c */
  lua_State *running;                 /* the coroutine that called last in this Lua state */
  lua_State *main;                    /* the one that every coroutine comes from */
  size_t debt, limit;                 /* bytes allocated since the last look at what is alive, and how many cause one */
  size_t looked;                      /* bytes allocated since the last look at devices, without `debt` */
  size_t alive[TIDE_MAX_DEVICES + 1]; /* bytes that the last collection left: of the CPU, then of each device */
  size_t pinned;                      /* page-locked ones among the CPU's */
  double last_cost, last_end;         /* seconds that collections take, and when the last one ended */
  ltide_link handles;                 /* of tensors in no arena: what the end of the state finds there it releases */
  const void *scope_meta;
  int pooled_scopes, scope_pool; /* of scope.c: how many wait to be reused, the registry reference of their list */
  struct ltide_fork *forks;      /* open blocks of fork_rng, the newest first */
  size_t young, fresh;           /* bytes of the CPU that the collector's last step left, and that had come before it */
  bool in_vain;                  /* it freed little of them */
  size_t step_room, vain_room;   /* how many more ask for the next step, and asked for the last one in vain */
  double step_cost, step_end;
  size_t heap;               /* KiB of Lua's that the last step or collection left */
  _Atomic int wanted;        /* of the collector, by ltide_pace */
  _Atomic uint64_t asked;    /* when another thread has run out of memory and waits for a collection; 0: none has */
  _Atomic int gc;            /* tide_lua_gc: what the host lets operations collect */
  bool told;                 /* that a stopped collector had to run */
  bool started;              /* by tide_init, and not ended since */
  bool has_options;          /* of tide_lua_open */
  bool from_zero;            /* of those: scripts count indexes and dimensions from 0 */
  bool has_device;           /* likewise; then */
  int device;                /* where its coroutines' factories make tensors */
  unsigned granted;          /* tide_lua_capability: what the host lets its scripts do */
  tide_quota *quota;         /* of every coroutine; NULL: the host has opened the module without options */
  size_t steps;              /* of functions of Lua's library, that no quota has counted yet */
  struct ltide_clock *clock; /* quota_clock.c, or NULL */
  struct ltide_alloc *alloc; /* quota_alloc.c, or NULL */
  bool makes_coroutine;      /* one that gets its hook afterwards */
  struct {                   /* the host's hook, which quota_hook.c calls */
    lua_Hook fn;
    int mask, count, counted;
    bool adopted;                                       /* by lua_sethook, not by tide_lua_sethook */
    bool is_free;                                       /* scripts run without a hook where they can */
    lua_State *running;                                 /* what the clock watches */
    void (*on)(struct ltide_state *S, lua_State *co);   /* ltide_hook_on */
    void (*close)(lua_State *L, struct ltide_state *S); /* when the state ends */
  } hook;
  _Atomic bool ended;      /* by the host, or with what a quota allows: no call begins any more */
  struct ltide_held *held; /* pins.c */
  int held_count, held_room;
  struct ltide_warned { /* warning.c */
    char *text;         /* the pieces of a message so far, or NULL */
    size_t length;
    ltide_warn_switch now;
  } warned;
  struct tide_fuse *fuse;             /* of fuse.c: where pending operations are noted; NULL before the first */
  bool is_fusing;                     /* the running coroutine is in a fused function: operations are noted in `fuse` */
  int observing;                      /* an observer of a failed allocation runs */
  bool in_ffi;                        /* core was called through LuaJIT's FFI: nothing may call Lua or collect */
  _Atomic(const void *) thread;       /* the one that called last: where its ltide_last lies */
  struct ltide_state *next;           /* of index_base.c's list */
  ltide_warn_fn warn;                 /* by the higher floors: tells core's warnings, */
  void (*end)(struct ltide_state *S); /* and lets go of what the state's objects hold when it ends */
  /* Likewise: add fields to the error object at the top, if the thread's error is of that sort. */
  void (*set_oom)(lua_State *L, int device), (*set_race)(lua_State *L);
  struct ltide_frame *frame; /* frame.c: NULL before the host's first frame */
  lua_State *in_frame;       /* the coroutine that a frame runs: the one that yields to the host */
  bool frame_awaits;         /* it has yielded because a device is not as far */
  _Atomic bool frame_open;   /* no operation collects */
  int (*frame_wait)(lua_State *L, lua_CFunction fn); /* yields where fn would wait; NULL: that is an error */
} ltide_state;

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
/* Starts tide and makes this Lua state's struct, whose finaliser runs after every other object's: it is made first. */
ltide_state *ltide_state_open(lua_State *L, ltide_warn_fn warn, void (*end)(ltide_state *S));
void ltide_push_state(lua_State *L);  /* the userdata that it lies in */
void ltide_state_close(lua_State *L); /* where there is one, as its finaliser does */
static inline ltide_state *ltide_enter(lua_State *L) {
  ltide_calls++;
  return L == ltide_last && ltide_last_epoch == atomic_load_explicit(&ltide_epoch, memory_order_relaxed)
             ? ltide_last_state
             : ltide_enter_slow(L);
}
/* pins.c: the same as the first thing of a function that Lua calls and no other: what a call before it held, or what
 * was freed while it ran, goes now. The commonest functions begin so. */
void ltide_held_end(lua_State *L, ltide_state *S);
void ltide_still_ended(lua_State *L, ltide_state *S); /* raises, unless the host has set new limits */
static inline ltide_state *ltide_begin(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  if (atomic_load_explicit(&S->ended, memory_order_relaxed)) ltide_still_ended(L, S);
  if (S->held_count) ltide_held_end(L, S);
  return S;
}
/* Is that the frame of a chunk's function (script.c)? Needs "S" of lua_getinfo. */
static inline bool ltide_script_is(const lua_Debug *ar) {
  return *ar->source == '=' && !strncmp(ar->source, "=[tide ", 7);
}
/* Of a process that tide.multiprocessing.spawn has started. */
extern struct ltide_task {
  bool is_task;
  int (*end)(void); /* the runner's: asked for the exit code when the task has failed */
} ltide_task;
/* luaL_traceback without the frames of tide's own chunks. */
void ltide_traceback(lua_State *L, lua_State *co, const char *message, int level);
/* The nearest function of the script's that is running; false: none is. */
bool ltide_find_script(lua_State *L, lua_Debug *ar);
/* The line of the nearest Lua function around the call, and its source as Lua has it; 0: there is none. */
int ltide_line(lua_State *L, const char **source);
/* The collector may run wherever Lua allocates, and a finaliser may run a coroutine that calls tide, which binds that
 * one. So after whatever allocates (an object, a table, a string) or collects, and before S->record, S->arena or core's
 * idea of what is current are used: binds the running coroutine again. */
static inline void ltide_enter_again(lua_State *L) {
  if (L != ltide_last) ltide_enter(L);
}
/* An object of ours ends with a seal, a word made of its metatable's address and its own: it tells what the object is,
 * whatever metatable debug.setmetatable has given to it, to another one or to a foreign userdata. */
static inline uintptr_t *ltide_seal_word(const void *object, size_t room) {
  return (uintptr_t *)((const char *)object + room - sizeof(uintptr_t));
}
/* lua_newuserdatauv with room for a seal. */
static inline void *ltide_new_userdata(lua_State *L, size_t size, int values) {
  size_t room = (size + sizeof(uintptr_t) - 1) / sizeof(uintptr_t) * sizeof(uintptr_t) + sizeof(uintptr_t);
  void *object = lua_newuserdatauv(L, room, values);
  *ltide_seal_word(object, room) = 0;
  return object;
}
/* The same for objects that core fills next. */
static inline void *ltide_new_object(lua_State *L, size_t size, int values) {
  void *object = ltide_new_userdata(L, size, values);
  ltide_enter_again(L);
  return object;
}
static inline void ltide_seal(lua_State *L, void *object, const void *meta) {
  *ltide_seal_word(object, lua_rawlen(L, -1)) = (uintptr_t)meta ^ (uintptr_t)object;
}
/* luaL_setmetatable for an object at the top of the stack, which is sealed. */
static inline void ltide_setmetatable(lua_State *L, const char *name) {
  luaL_getmetatable(L, name);
  const void *meta = lua_topointer(L, -1);
  lua_setmetatable(L, -2);
  ltide_seal(L, lua_touserdata(L, -1), meta);
}
/* A closed handle of one pointer, to be filled. */
static inline void **ltide_new_pointer(lua_State *L, const char *meta) {
  void **u = (void **)ltide_new_object(L, sizeof *u, 0);
  *u = NULL;
  ltide_setmetatable(L, meta);
  return u;
}
/* The object at arg if it was sealed with this metatable, else NULL. */
static inline void *ltide_test_meta(lua_State *L, int arg, const void *meta) {
  void *u = lua_touserdata(L, arg);
  size_t room = u ? lua_rawlen(L, arg) : 0; /* 0 for a light one */
  if (room < sizeof(uintptr_t) || room % sizeof(uintptr_t)) return NULL;
  return *ltide_seal_word(u, room) == ((uintptr_t)meta ^ (uintptr_t)u) ? u : NULL;
}
typedef struct ltide_clock ltide_clock;
/* quota_hook.c */
void ltide_hook_open(lua_State *L, ltide_state *S);
/* L runs on this thread from now on: its hook is there, and counts what it is to. */
void ltide_hook_run(lua_State *L, ltide_state *S);
/* A new coroutine has the hook, whatever L has. */
void ltide_hook_on(ltide_state *S, lua_State *co);
/* Around lua_resume(co) by L. */
bool ltide_hook_enter(lua_State *L, ltide_state *S, lua_State *co);
void ltide_hook_leave(lua_State *L, ltide_state *S, bool entered);
void ltide_alloc_open(lua_State *L, ltide_state *S); /* quota_alloc.c */
void ltide_alloc_close(lua_State *L, ltide_state *S);
int ltide_hook_set(lua_State *L, lua_Hook fn, int mask, int count); /* tide_lua_sethook */
/* index_base.c */
void ltide_state_list(ltide_state *S);
void ltide_state_unlist(ltide_state *S);
int ltide_kill(lua_State *L); /* tide_lua_kill */
int ltide_index_base(void);   /* for tide_index_base_set: while a function of ours runs that a script has called, its */
/* From where the caller at this level of the stack counts, in a state whose scripts count from 0. */
int ltide_base_at(lua_State *L, int level);
/* From where the caller of the function that runs counts indexes and dimensions. */
static inline int ltide_base(lua_State *L) {
  const ltide_state *S = L == ltide_last ? ltide_last_state : ltide_state_of(L);
  return S && S->from_zero ? ltide_base_at(L, 1) : 1;
}
void ltide_pace_slow(lua_State *L, ltide_state *S);
/* Collects before work that dead objects would hinder, unless the collector is stopped. */
void ltide_collect_ahead(lua_State *L);
void ltide_gc_set(lua_State *L, int mode);
/* Of everything that scripts may have allocated: what is alive, garbage included. */
size_t ltide_alive(void);
bool ltide_set_stream(lua_State *L, tide_stream *stream); /* tide_lua_set_stream */
/* Lets the collector follow the bytes that it cannot see. */
static inline void ltide_pace(lua_State *L, ltide_state *S, size_t bytes) {
  if ((S->debt += bytes) >= S->limit) ltide_pace_slow(L, S);
}

/* error.c. All of these raise and never return; the int is for `return`. */
int ltide_raise(lua_State *L);                                            /* the thread's tide_error_get() */
void ltide_push_raised(lua_State *L);                                     /* its object, without raising it */
int ltide_error(lua_State *L, const char *kind, const char *format, ...); /* formats as lua_pushfstring */
/* Makes the error object of the message at the top of the stack, in its place, for further fields and lua_error. */
void ltide_push_error(lua_State *L, const char *kind);
/* Bad argument: "add: x: got string, expected a tensor"; what = NULL: the running function's own name. */
int ltide_arg_error(lua_State *L, int arg, const char *name, const char *expected);
/* A handle without what it held, freed or collected and seen by another finaliser: "sum: x: got a freed tensor, ..." */
int ltide_freed_error(lua_State *L, const char *name, const char *noun);
/* luaL_checkstring and luaL_checkudata, whose errors would be plain strings. */
const char *ltide_check_text(lua_State *L, int arg, const char *name);
void *ltide_check_object(lua_State *L, int arg, const char *meta);
/* luaL_testudata that looks at the seal; it may be called while the state ends. */
void *ltide_test_object(lua_State *L, int arg, const char *meta);
/* For finalisers of objects that hold one pointer: takes it out of the object at 1. NULL where that one is empty or
 * none of these, since a script can call a finaliser with anything. */
void *ltide_take_pointer(lua_State *L, const char *meta);
/* A string that C sees whole, such as a path: one without zeros. */
const char *ltide_check_cstring(lua_State *L, int arg, const char *name, const char *expected);
static inline void ltide_try(lua_State *L, tide_status status) {
  if (status != TIDE_OK) ltide_raise(L);
}
void ltide_open_error_meta(lua_State *L, ltide_state *S);
void ltide_push_error_meta(lua_State *L);
bool ltide_is_error(lua_State *L, int arg); /* an error object? */
/* device_lost_error.c: pushes the error that ltide_lost_keep has kept, for the one at the top, at this place with this
 * message; false: there is none. */
bool ltide_lost_again(lua_State *L, const char *message);
void ltide_lost_keep(lua_State *L);
const char *ltide_typename(lua_State *L,
                           int arg);           /* "number 3", "string 'x'", "tensor [2, 3] float32", ... for messages */
const char *ltide_function_name(lua_State *L); /* by which the running C function was called, for messages */
void ltide_warn(lua_State *L, const char *format, ...); /* through Lua's warn */

void ltide_warn_hook(void *user, const char *message); /* for tide_warn_set */
void ltide_warn_open(lua_State *L, ltide_state *S);    /* warning.c: the state's warnings go to the host's log */

/* Closes the metatable at the top of the stack to scripts: getmetatable gives the name, so that finalisers and the like
 * cannot be called by hand. */
static inline void ltide_protect(lua_State *L, const char *name) {
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__metatable");
}
/* luaL_newmetatable for one that is closed to scripts; false: it was there. */
static inline bool ltide_newmetatable(lua_State *L, const char *name) {
  bool is_new = luaL_newmetatable(L, name);
  ltide_protect(L, name);
  return is_new;
}

/* The metatable of objects that have nothing but an end. */
static inline void ltide_open_finaliser(lua_State *L, const char *name, lua_CFunction gc) {
  ltide_newmetatable(L, name);
  lua_pushcfunction(L, gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
}

/* error.c: __newindex of objects whose fields are told and not set. */
int ltide_read_only(lua_State *L);

/* For functions made in a loop, values and classes: path.name gets this doc (strings must live for ever). */
void ltide_document(lua_State *L, const char *path, const char *name, const char *doc);

/* lua_getfield for options and the like: a metamethod would run a script's code between the reading of operands and
 * their use. */
static inline int ltide_rawfield(lua_State *L, int table, const char *key) {
  table = lua_absindex(L, table);
  if (!lua_istable(L, table)) {
    lua_pushnil(L);
    return LUA_TNIL;
  }
  lua_pushstring(L, key);
  return lua_rawget(L, table);
}

/* t[key] = value in the table at the top of the stack. */
static inline void ltide_set_integer(lua_State *L, const char *key, lua_Integer value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

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
/* An allocator of Lua's that calls ltide_handle_gone for each block of this size before it frees it: then handles need
 * no finaliser, which costs more than all else about them. */
extern lua_Alloc ltide_telling_alloc;
extern size_t ltide_handle_block; /* 0: nobody wants to know */
void ltide_handle_gone(void *block);
/* pins.c: is this called by a finaliser or the like, which may have interrupted a call? */
bool ltide_is_interrupting(lua_State *L, const ltide_state *S);
/* Operands that a table holds and not the stack live until the call has ended, whatever is done to the table. */
void ltide_hold_tensor(lua_State *L, ltide_state *S, tide_tensor *t);
void ltide_hold_generator(lua_State *L, ltide_state *S, tide_generator *g);
void ltide_hold_stream(lua_State *L, ltide_state *S, tide_stream *s);
/* Empties the handle; what it held goes when the next call begins. false: there is no memory, nothing has changed. */
bool ltide_defer_release(ltide_state *S, ltide_tensor *u);
/* What was deferred of the handle, for its end, or NULL. */
tide_tensor *ltide_take_deferred(ltide_state *S, const ltide_tensor *u);
/* Before the tensor of a handle becomes another view: where a call may be reading it, that one keeps what it has. */
void ltide_unshare(lua_State *L, ltide_state *S, ltide_tensor *u);
void ltide_held_close(ltide_state *S); /* the state ends */
/* The tensor at arg; raises when it is none (ArgumentError) or freed (StateError). `name` names the argument. */
tide_tensor *ltide_check_tensor(lua_State *L, ltide_state *S, int arg, const char *name);
/* The tensor at arg or NULL when it is not one; raises when it is freed. */
tide_tensor *ltide_test_tensor(lua_State *L, ltide_state *S, int arg);
/* Pushes a new closed handle; the caller stores the reference in ->t, then calls ltide_made. */
ltide_tensor *ltide_new_tensor(lua_State *L, ltide_state *S);
void ltide_handles_end(ltide_state *S); /* releases what is left: the state ends */
/* tensor.c: is it the iterator of ipairs that calls the running __index? It counts up until it reads a nil, where every
 * other reader is told that it is past the end. */
bool ltide_is_read_by_ipairs(lua_State *L);
/* Paces the collector by what core allocated on this thread since the last time. A result of few bytes is an object of
 * Lua's above all: a million of them are a heap that is worth a look long before their elements are. */
static inline void ltide_pace_taken(lua_State *L, ltide_state *S) {
  enum { HANDLE = 256 };
  size_t bytes = tide_pace_take();
  if (bytes) ltide_pace(L, S, bytes + HANDLE);
}
/* The same once after filling results, when the operands are not used any more. */
static inline void ltide_made(lua_State *L, ltide_state *S) {
  ltide_pace_taken(L, S);
  if (S->held_count) ltide_held_end(L, S);
}

/* fuse.c, where S->is_fusing is set: does what tide_to does, or what the functions of `places` (tide_fuse_places) do;
 * false: it is to be done. */
bool ltide_fuse_cast(lua_State *L, ltide_state *S, tide_tensor **out, tide_tensor *x, const tide_options *o, bool copy);
bool ltide_fuse_gather(lua_State *L, ltide_state *S, tide_tensor **out, const tide_tensor *x, const tide_tensor *index,
                       int dim, int places);

/* util.c: lets hooks run, an interruption among them, in a long loop that calls no Lua function; `i` counts its steps.
 * A hook may do what it likes, so the loop reads no argument afterwards that it does not hold. */
void ltide_poll_hooks(lua_State *L);
static inline void ltide_poll(lua_State *L, int64_t i) {
  if ((i & 1023) == 0) ltide_poll_hooks(L);
}

/* scope.c: runs fn, the body of a function that waits for a device. Inside tide.parallel the other replicas run first,
 * where nothing but the coroutine's own state is in force: inside blocks such as device_scope, whose setting all share,
 * it waits at once. The arguments are on the stack then as before. For `return`, and as the first thing that the
 * function does. */
int ltide_waiting(lua_State *L, lua_CFunction fn);
/* May it yield to the host where a compiler is not done? Then `return ltide_yield_again(L, fn)`, with fn's arguments on
 * the stack, which runs it anew in a later turn. */
bool ltide_may_yield(lua_State *L, const ltide_state *S);
int ltide_yield_again(lua_State *L, lua_CFunction fn);
/* The same for one that a frame refuses: what it gives stays on the device. */
int ltide_in_turn(lua_State *L, lua_CFunction fn);

/* In the registry: true where this program is the runner. */
#define LTIDE_RUNNER "tide.runner"

/* arena.c: arenas of tide.scope. */
void ltide_arena_add(ltide_state *S, ltide_tensor *u); /* called for every new handle while S->arena is set */
void ltide_arena_remove(ltide_tensor *u);              /* the handle is freed or kept */

/* scope.c: the two forms of a scoped block, in two steps, so that no failure leaves it in force.
 *
 * ltide_block_new does whatever may fail: it pushes the scope, closed, and gives the `size` bytes that are kept with
 * it. Then the caller acquires what the block needs, notes in them what `leave` is to restore, and changes it last:
 * only that may fail now. ltide_block_open, for `return` and with the scope at the top of the stack, opens it. fn_arg:
 * index of the closure (the last argument after opts) or 0: returns a scope object.
 *
 * `leave` undoes it and may raise last of all. Without a state (L is NULL) the block was dropped: it lets go of what
 * data holds and restores nothing. */
typedef void (*ltide_leave_fn)(lua_State *L, void *data);
void *ltide_block_new(lua_State *L, const char *what, int fn_arg, ltide_leave_fn leave, size_t size);
int ltide_block_open(lua_State *L, int fn_arg);
/* The same with the value at the top of the stack, popped, that is returned behind the results of the closure, or
 * behind the scope object. leave finds it as the second user value of the scope. */
void *ltide_block_new_with(lua_State *L, const char *what, ltide_leave_fn leave, size_t size);
/* For a leave function with a state: was the block left by neither an error nor the closing of its coroutine? */
bool ltide_left_in_order(const void *data);
int ltide_block_index(const void *data); /* likewise: where on its stack the scope is */
/* The index of the closure at arg, or 0: there is none. */
int ltide_check_block(lua_State *L, int arg);
/* For a block that changes nothing. */
int ltide_empty_block(lua_State *L, const char *what, int fn_arg);

/* handle.c: objects among the arguments. */
enum { LTIDE_NIL_OK = 1, LTIDE_NEGATIVE_OK = 2, LTIDE_CPU_OK = 4 };
/* One routine for every device argument: nil, id, "cpu", "cuda", "cuda:1", tide.device. nil, "cuda" and
 * (with NEGATIVE_OK) negative ids give TIDE_CURRENT, unresolved; the cpu gives TIDE_CPU. */
int ltide_check_device(lua_State *L, int arg, const char *name, int flags);
bool ltide_is_device(lua_State *L, int arg);         /* is it a device object, or a string that names one? */
const int *ltide_test_device(lua_State *L, int arg); /* of a device object, else NULL */
void ltide_push_device(lua_State *L, int device);
tide_stream *ltide_check_stream(lua_State *L, int arg, const char *name); /* raises */
tide_event *ltide_check_event(lua_State *L, int arg, const char *name);
tide_generator *ltide_check_generator(lua_State *L, int arg, const char *name);
tide_tensor *ltide_check_storage(lua_State *L, int arg, const char *name); /* the bytes of the storage */
tide_dtype ltide_check_dtype(lua_State *L, int arg, const char *name);     /* a tide.dtype object or its name */
bool ltide_test_dtype(lua_State *L, int arg, tide_dtype *out);
const tide_dtype *ltide_dtype_of(lua_State *L, int arg); /* of a dtype object, else NULL */
void ltide_push_dtype(lua_State *L, tide_dtype dtype);
extern const char ltide_dtype_objects; /* the key of the registry's table of them */

/* stream.c, event.c */
void ltide_push_stream(lua_State *L, tide_stream *stream); /* takes a reference of its own */
tide_stream **ltide_new_stream(lua_State *L);              /* pushes a closed handle, to be filled */
tide_event **ltide_new_event(lua_State *L);                /* likewise */

/* args.c: sizes, dims, options, scalars. The one place where index bases are converted. */
bool ltide_is_options(lua_State *L, int arg); /* a table without an array part and not empty: options */
/* For a function of at most so many arguments that takes no options: raises for what is beyond them, but for nils and
 * an empty table. Not for metamethods: Lua gives some of them an argument more. */
void ltide_refuse_beyond(lua_State *L, int most);
static inline void ltide_no_options(lua_State *L, int most) {
  if (lua_gettop(L) > most) ltide_refuse_beyond(L, most);
}
/* Raises for every key of the options table at arg that is not in the NULL-terminated list. */
void ltide_check_keys(lua_State *L, int arg, const char *const *keys);
/* As the caller counts, negative from the end -> from 0. */
int ltide_check_dim(lua_State *L, int arg, int ndim, const char *name);
bool ltide_test_scalar(lua_State *L, int arg, tide_scalar *out); /* numbers and booleans */
void ltide_push_scalar(lua_State *L, tide_scalar s);

/* Openers: each adds to the module table at the top of the stack. */
#define OPEN(name) void ltide_open_##name(lua_State *L, ltide_state *S);
#include "call/api/open.def"
#undef OPEN
/* Pushes the table of tensor methods. */
void ltide_push_methods(lua_State *L);

__attribute__((visibility("default"))) int luaopen_tide(lua_State *L);

#endif
