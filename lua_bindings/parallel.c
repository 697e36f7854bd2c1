/* parallel.c: tide.parallel: one function on several devices at once.
 *
 * Nothing here starts a thread. Work on a device is queued and returns, so one thread that calls the function for each
 * device in turn keeps all of them busy. Each call, a replica, runs in a coroutine of its own, with its device as the
 * current one: whatever it selects is gone with it, also when it fails. A function that waits for its device (item,
 * totable, synchronize ...) would keep the others from being issued. So before such a wait a replica yields and the
 * next one runs; the wait itself comes when all others wait too or have ended. That is only done where nothing but
 * the coroutine's own state is in force: inside blocks such as device_scope, whose setting all share, it waits at once.
 *
 * A yield of the function itself is passed on to whoever resumes the caller.
 *
 * Invariant: a replica that has started has ended, or is closed, when apply and data_parallel return or raise. */
#include <string.h>

#include "parallel.h"
#include "scope.h"
#include "tree.h"

#define JOB_META "tide.parallel.Job"
static const char key_turn;   /* what a replica yields when it would wait */
static const char key_warned; /* in the registry: the devices that were warned of */

/* The stack of both functions while their replicas run: the function or a table of them, the inputs, the dimension,
 * each replica's first argument or nil, the parts that are on their way, the job, the coroutines (false: ended) and the
 * results. */
enum { FN = 1, INPUTS, DIM, REPLICAS, SENT, JOB, THREADS, OUTPUTS, BASE = OUTPUTS };

typedef struct job {
  const char *what;
  bool many;   /* FN is a table of functions */
  bool is_cut; /* data_parallel: INPUTS is cut, else it is a list */
  int n, left, next, running, output_device;
  ltide_cut cut;
  int device[];
} job;

/* {==== Waiting in turns */

static int waited(lua_State *L, int status, lua_KContext fn) {
  (void)status;
  return ((lua_CFunction)fn)(L);
}

int ltide_waiting(lua_State *L, lua_CFunction fn) {
  ltide_state *S = ltide_enter(L);
  if (!S->record->turns || !lua_isyieldable(L) || !ltide_scopes_own(S->record)) return fn(L);
  lua_pushlightuserdata(L, (void *)&key_turn);
  return lua_yieldk(L, 1, (lua_KContext)fn, waited);
}

/* {==== Errors of a replica */

static const char *push_replica_name(lua_State *L, const job *j, int i) {
  const char *device = ltide_push_device_name(L, j->device[i]);
  lua_pushfstring(L, "%s: replica %d (%s): ", j->what, i + 1, device);
  lua_remove(L, -2);
  return lua_tostring(L, -1);
}

/* Replaces the error object at the top by one that names the replica. */
static void name_object(lua_State *L, const job *j, int i) {
  int old = lua_gettop(L);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, old); lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, old + 1);
  }
  push_replica_name(L, j, i);
  lua_getfield(L, old, "message");
  lua_concat(L, 2);
  lua_setfield(L, old + 1, "message");
  ltide_set_integer(L, "replica", i + 1);
  if (lua_getfield(L, old, "device") == LUA_TNIL) {
    ltide_push_device(L, j->device[i]);
    lua_setfield(L, old + 1, "device");
  }
  lua_settop(L, old + 1);
  lua_getmetatable(L, old);
  lua_setmetatable(L, -2);
}

/* The error of replica i is at the top. The coroutine's stack is still there for the traceback of a plain message. */
static int fail(lua_State *L, const job *j, int i, lua_State *co) {
  bool is_object = ltide_is_error(L, -1);
  lua_settop(L, BASE + 1);
  if (is_object)
    name_object(L, j, i);
  else if (lua_isstring(L, -1)) {
    push_replica_name(L, j, i);
    lua_pushvalue(L, BASE + 1);
    lua_concat(L, 2);
    lua_pushliteral(L, "\n");
    lua_pushvalue(L, BASE + 1);
    ltide_push_trace(L, co);
    lua_remove(L, -2);
    lua_concat(L, 3);
  }
  return lua_error(L);
}

/* {==== The replicas */

/* Ends what is still running, and lets the copies of the side streams come before what is queued next. */
static int job_close(lua_State *L) {
  job *j = ltide_test_object(L, 1, JOB_META);
  if (!j) return 0;
  lua_getiuservalue(L, 1, 1);
  for (int i = 0; i < j->n && lua_istable(L, -1); i++, lua_pop(L, 1)) {
    if (lua_rawgeti(L, -1, i + 1) == LUA_TTHREAD) lua_resetthread(lua_tothread(L, -1));
  }
  j->n = 0;
  ltide_enter(L);
  ltide_cut_end(&j->cut);
  return 0;
}

/* By the collector: without an order, since nobody will use what was copied. */
static int job_gc(lua_State *L) {
  job *j = ltide_test_object(L, 1, JOB_META);
  for (int d = 0; j && d < TIDE_MAX_DEVICES; d++) {
    tide_stream_release(j->cut.side[d]);
    j->cut.side[d] = NULL;
  }
  return 0;
}

/* Pushes the job and the tables of the replicas' coroutines and results. */
static job *push_job(lua_State *L, const char *what, int n) {
  lua_settop(L, JOB - 1);
  job *j = ltide_new_object(L, sizeof *j + (size_t)n * sizeof *j->device, 1);
  memset(j, 0, sizeof *j);
  ltide_setmetatable(L, JOB_META);
  j->what = what, j->n = j->left = n;
  lua_createtable(L, n, 0);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, JOB, 1);
  lua_createtable(L, n, 0);
  lua_toclose(L, JOB);
  return j;
}

static bool has_metatable(lua_State *L, int index) {
  bool has = lua_getmetatable(L, index);
  if (has) lua_pop(L, 1);
  return has;
}

/* The n of table.pack; -1 where there is none, or other names beside it, of which it is then one. */
static lua_Integer packed_count(lua_State *L, int list) {
  bool packed = lua_getfield(L, list, "n") == LUA_TNUMBER && lua_isinteger(L, -1);
  lua_Integer n = packed ? lua_tointeger(L, -1) : -1;
  for (lua_pushnil(L); packed && lua_next(L, list); lua_pop(L, 1))
    packed = lua_type(L, -2) != LUA_TSTRING || !strcmp(lua_tostring(L, -2), "n");
  lua_settop(L, list);
  return packed ? n : -1;
}

/* Replaces the value at the top by the arguments that it means: the values of an array (with those of table.pack the
 * nils too), else itself. Returns how many. */
static int spread(lua_State *L) {
  int list = lua_gettop(L);
  if (lua_isnil(L, list)) return lua_settop(L, list - 1), 0;
  if (!lua_istable(L, list) || has_metatable(L, list)) return 1;
  lua_Integer n = (lua_Integer)lua_rawlen(L, list), packed = packed_count(L, list);
  if (packed > n) n = packed;
  if (!n && packed < 0 && ltide_is_options(L, list)) return 1; /* named values alone are one argument */
  if (n > 200)
    return ltide_error(L, "ValueError", "%s: inputs: got %I arguments for one call, expected at most 200",
                       ltide_function_name(L), n);
  if (n && packed < 0) ltide_check_unnamed(L, list, n, "inputs");
  luaL_checkstack(L, (int)n + 4, "parallel: too many arguments");
  for (lua_Integer k = 1; k <= n; k++) lua_rawgeti(L, list, k);
  lua_remove(L, list);
  return (int)n;
}

/* Pushes the function of replica i and its arguments; returns how many arguments. */
static int push_call(lua_State *L, job *j, int i) {
  int first = 0;
  if (j->many)
    lua_rawgeti(L, FN, i + 1);
  else
    lua_pushvalue(L, FN);
  if (lua_istable(L, REPLICAS)) first = 1, lua_rawgeti(L, REPLICAS, i + 1);
  if (j->is_cut)
    ltide_push_part(L, &j->cut, i);
  else
    lua_rawgeti(L, INPUTS, i + 1);
  return first + spread(L);
}

/* Makes the coroutine of replica i, with its device as the current one, and leaves it and its arguments at the top. */
static int start(lua_State *L, job *j, int i) {
  lua_State *co = lua_newthread(L);
  ltide_record *replica = ltide_make_record(L, -1);
  lua_pushvalue(L, -1);
  lua_rawseti(L, THREADS, i + 1);
  int arguments = push_call(L, j, i);
  lua_pushvalue(L, -1 - arguments);
  if (!lua_checkstack(co, 1)) ltide_error(L, "OutOfMemoryError", "parallel: no room on the stack of a replica");
  lua_xmove(L, co, 1);
  lua_remove(L, -1 - arguments);
  tide_current *before = tide_current_bind(replica->current);
  tide_status status = j->device[i] < 0 ? TIDE_OK : tide_current_set_device(j->device[i]);
  tide_current_bind(before);
  ltide_state *S = ltide_enter(L);
  ltide_try(L, status);
  replica->replica = true, replica->turns = j->n > 1;
  ltide_arena_inherit(replica, S->arena); /* a tide.scope around the call frees the tensors of its replicas too */
  return arguments;
}

/* For a host without Lua's library of coroutines. */
static int resume_plain(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  int n = lua_gettop(L) - 1;
  if (!lua_checkstack(co, n)) ltide_error(L, "OutOfMemoryError", "parallel: no room for %d arguments of a replica", n);
  lua_xmove(L, co, n);
  int status = lua_resume(co, L, n, &n);
  bool ok = status == LUA_OK || status == LUA_YIELD;
  if (!ok) n = 1;
  luaL_checkstack(L, n + 1, "parallel: too many results");
  lua_pushboolean(L, ok);
  lua_xmove(co, L, n);
  return n + 1;
}

/* Puts coroutine.resume below the coroutine and its arguments: the library's, because the runner has taught that one
 * where Ctrl-C is to go. */
static void insert_resume(lua_State *L, int arguments) {
  int at = lua_gettop(L) - arguments;
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_COLIBNAME) == LUA_TTABLE) lua_getfield(L, -1, "resume");
  if (!lua_isfunction(L, -1)) lua_pushcfunction(L, resume_plain);
  lua_insert(L, at);
  lua_settop(L, at + 1 + arguments);
}

/* Keeps the results above BASE + 1 as those of replica i. */
static void end(lua_State *L, job *j, int i) {
  int n = lua_gettop(L) - BASE - 1;
  lua_createtable(L, n, 1);
  lua_insert(L, BASE + 2);
  for (int k = n; k > 0; k--) lua_rawseti(L, BASE + 2, k);
  ltide_set_integer(L, "n", n);
  lua_rawseti(L, OUTPUTS, i + 1);
  lua_pushboolean(L, 0);
  lua_rawseti(L, THREADS, i + 1);
  j->left--;
}

static int finish(lua_State *L, job *j);
static int go_on(lua_State *L, int status, lua_KContext i);

/* Pushes the coroutine of the next replica that has not ended, and its arguments if it is new; returns how many. */
static int push_next(lua_State *L, job *j) {
  int type;
  do {
    lua_settop(L, BASE);
    j->running = j->next;
    j->next = (j->next + 1) % j->n;
    type = lua_rawgeti(L, THREADS, j->running + 1);
  } while (type == LUA_TBOOLEAN);
  if (type == LUA_TTHREAD) return 0;
  lua_settop(L, BASE);
  return start(L, j, j->running);
}

/* Resumes the coroutine below the `arguments` at the top, then the others, until all have ended. */
static int run(lua_State *L, job *j, int arguments) {
  while (true) {
    lua_State *co = lua_tothread(L, -1 - arguments);
    insert_resume(L, arguments);
    lua_call(L, 1 + arguments, LUA_MULTRET);
    luaL_checkstack(L, LUA_MINSTACK, "parallel: too many results"); /* a call that gives many leaves no room */
    ltide_enter(L);
    if (!lua_toboolean(L, BASE + 1)) {
      lua_remove(L, BASE + 1);
      return fail(L, j, j->running, co);
    }
    if (lua_status(co) != LUA_YIELD)
      end(L, j, j->running);
    else if (lua_gettop(L) != BASE + 2 || lua_touserdata(L, BASE + 2) != &key_turn)
      return lua_yieldk(L, lua_gettop(L) - BASE - 1, 0, go_on);
    if (!j->left) return finish(L, j);
    arguments = push_next(L, j);
  }
}

/* The script resumes the caller: what it passes goes to the replica that had yielded. */
static int go_on(lua_State *L, int status, lua_KContext context) {
  (void)status, (void)context;
  luaL_checkstack(L, LUA_MINSTACK, "parallel: too many arguments");
  ltide_enter(L);
  job *j = lua_touserdata(L, JOB);
  int arguments = lua_gettop(L) - BASE - 1; /* the flag of coroutine.resume is below them */
  lua_rawgeti(L, THREADS, j->running + 1);
  lua_replace(L, BASE + 1);
  return run(L, j, arguments);
}

static int run_all(lua_State *L, job *j) { return j->n ? run(L, j, push_next(L, j)) : finish(L, j); }

/* {==== Results */

/* The number of results of replica i, whose table it pushes. */
static lua_Integer push_results(lua_State *L, int i) {
  lua_rawgeti(L, OUTPUTS, i);
  lua_getfield(L, -1, "n");
  lua_Integer n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

/* Of apply: one result stands for itself, several are a table. */
static int finish_apply(lua_State *L, const job *j) {
  lua_createtable(L, j->n, 0);
  for (int i = 1; i <= j->n; i++) {
    if (push_results(L, i) < 2) {
      lua_rawgeti(L, -1, 1);
      lua_replace(L, -2);
    } else {
      lua_pushnil(L);
      lua_setfield(L, -2, "n");
    }
    lua_rawseti(L, -2, i);
  }
  return 1;
}

/* Pushes the k-th result of data_parallel: what the only device gave, or what all gave joined. */
static void push_result(lua_State *L, ltide_state *S, const job *j, int k) {
  lua_createtable(L, j->n, 0);
  int list = lua_gettop(L);
  for (int i = 1; i <= j->n; i++) {
    push_results(L, i);
    lua_rawgeti(L, -1, k);
    lua_rawseti(L, list, i);
    lua_pop(L, 1);
  }
  if (j->cut.devices.n > 1) {
    ltide_push_gathered(L, S, list, j->n, DIM, j->output_device);
  } else {
    lua_rawgeti(L, list, 1);
    ltide_push_moved(L, S, list + 1, j->output_device);
  }
  lua_replace(L, list);
  lua_settop(L, list);
}

static int finish(lua_State *L, job *j) {
  ltide_state *S = ltide_enter(L);
  if (!j->is_cut) return finish_apply(L, j);
  lua_Integer most = 0;
  for (int i = 1; i <= j->n; i++) {
    lua_Integer n = push_results(L, i);
    if (n > most) most = n;
    lua_pop(L, 1);
  }
  luaL_checkstack(L, (int)most + 8, "data_parallel: too many results");
  for (int k = 1; k <= most; k++) push_result(L, S, j, k);
  return (int)most;
}

/* {==== Arguments */

static bool is_callable(lua_State *L, int arg) {
  if (lua_isfunction(L, arg)) return true;
  bool callable = luaL_getmetafield(L, arg, "__call") != LUA_TNIL;
  if (callable) lua_pop(L, 1);
  return callable;
}

/* Pushes the dimension as the script counts it. */
static void push_dim(lua_State *L, int opts) {
  lua_pushinteger(L, 1);
  if (!opts || ltide_rawfield(L, opts, "dim") == LUA_TNIL) {
    lua_settop(L, opts ? -2 : -1);
    return;
  }
  lua_remove(L, -2);
  if (ltide_check_integer(L, lua_gettop(L), "dim") == 0)
    ltide_error(L, "IndexError", "%s: dim: got 0; dimensions count from 1", ltide_function_name(L));
}

/* Where results go: the option, of which -1 means the CPU as torch has it, or else the device. */
static int check_output(lua_State *L, int arg, const char *name, int otherwise) {
  if (lua_isnoneornil(L, arg)) return otherwise;
  if (lua_isinteger(L, arg) && lua_tointeger(L, arg) == -1) return TIDE_CPU;
  int device = ltide_check_device(L, arg, name, LTIDE_CPU_OK);
  const tide_device_props *props;
  if (device == TIDE_CURRENT) device = tide_current_device();
  if (device >= 0) ltide_try(L, tide_device_get_props(&props, device));
  return device;
}

static ltide_args check_tree_call(lua_State *L, int most, const char *const *keys) {
  ltide_args a = ltide_split(L, most);
  ltide_check_count(L, a, most);
  ltide_check_keys(L, a.opts, keys);
  return a;
}

/* {==== scatter, replicate, gather */

static int lscatter(lua_State *L) {
  static const char *const keys[] = {"dim", NULL};
  ltide_state *S = ltide_enter(L);
  ltide_by_place(L, 3, LTIDE_NAMES("dim"));
  ltide_args a = check_tree_call(L, 2, keys);
  if (a.n < 1) return ltide_arg_error(L, 1, "tree", "a tensor or a table of tensors");
  ltide_cut cut = {.S = S, .tree = 1};
  ltide_check_devices(L, a.n > 1 ? 2 : lua_gettop(L) + 1, &cut.devices);
  push_dim(L, a.opts);
  cut.dim = lua_gettop(L);
  ltide_cut_plan(L, &cut);
  lua_newtable(L);
  cut.sent = lua_gettop(L);
  lua_createtable(L, cut.n, 0);
  for (int i = 0; i < cut.n; i++) {
    ltide_push_part(L, &cut, i);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int lreplicate(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  ltide_devices devices;
  if (lua_isnoneornil(L, 1)) return ltide_arg_error(L, 1, "tree", "a tensor or a table of tensors");
  ltide_check_devices(L, 2, &devices);
  ltide_push_replicas(L, S, 1, &devices, devices.n);
  return 1;
}

static int lgather(lua_State *L) {
  static const char *const keys[] = {"dim", NULL};
  ltide_state *S = ltide_enter(L);
  ltide_by_place(L, 3, LTIDE_NAMES("dim"));
  if (!lua_istable(L, 1)) return ltide_arg_error(L, 1, "outputs", "a table of what each device gave");
  ltide_args a = check_tree_call(L, 2, keys);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  if (n < 1 || n > TIDE_MAX_DEVICES)
    return ltide_error(L, "ValueError", "gather: outputs: got a table of %I, expected 1 to %d", n, TIDE_MAX_DEVICES);
  int otherwise = tide_device_count() ? tide_current_device() : TIDE_CPU;
  int device = check_output(L, a.n > 1 ? 2 : lua_gettop(L) + 1, "device", otherwise);
  push_dim(L, a.opts);
  ltide_push_gathered(L, S, 1, (int)n, lua_gettop(L), device);
  return 1;
}

/* {==== apply */

typedef struct found {
  int device;
  bool any;
} found;

static void note_device(lua_State *L, void *user, int index, tide_tensor *x) {
  (void)L, (void)index;
  found *f = user;
  if (!f->any) f->device = tide_tensor_device(x);
  f->any = true;
}

/* The device of replica i: the one given, else that of its first tensor, else the current one. */
static int device_of(lua_State *L, ltide_state *S, const ltide_devices *given, int i) {
  if (given->n) return given->id[i];
  found f = {tide_device_count() ? tide_current_device() : TIDE_CPU, false};
  lua_rawgeti(L, INPUTS, i + 1);
  ltide_visit_tree(L, S, -1, note_device, &f);
  lua_pop(L, 1);
  return f.device;
}

static int lapply(lua_State *L) {
  static const char *const keys[] = {"devices", NULL};
  if (ltide_unguarded(L)) return ltide_guarded(L, lapply);
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 3);
  lua_settop(L, 3);
  bool single = is_callable(L, 1);
  if (!single && !lua_istable(L, 1)) return ltide_arg_error(L, 1, "fns", "a function or a table of functions");
  if (!lua_istable(L, 2)) return ltide_arg_error(L, 2, "inputs", "a table with the arguments of each function");
  if (!lua_isnil(L, 3) && !lua_istable(L, 3)) return ltide_arg_error(L, 3, "opts", "a table {devices=}");
  lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
  if (!single && (lua_Integer)lua_rawlen(L, 1) != n)
    return ltide_error(L, "ArgumentError", "apply: inputs: got %I, expected %I, one for each function", n,
                       (lua_Integer)lua_rawlen(L, 1));
  for (lua_Integer i = 1; !single && i <= n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 1, i);
    if (!is_callable(L, -1))
      return ltide_error(L, "ArgumentError", "apply: fns[%I]: got %s, expected a function", i, ltide_typename(L, -1));
  }
  ltide_devices devices = {0};
  if (lua_istable(L, 3)) {
    ltide_check_keys(L, 3, keys);
    if (ltide_rawfield(L, 3, "devices") != LUA_TNIL) ltide_check_devices(L, 4, &devices);
    if (devices.n && devices.n != n)
      return ltide_error(L, "ArgumentError", "apply: devices: got %d, expected %I, one for each input", devices.n, n);
  }
  lua_settop(L, INPUTS);
  lua_settop(L, REPLICAS);
  job *j = push_job(L, "apply", (int)n);
  j->many = !single;
  for (int i = 0; i < n; i++) j->device[i] = device_of(L, S, &devices, i);
  return run_all(L, j);
}

/* {==== data_parallel */

/* A device that is much smaller than another one makes the others wait: said once for each. */
static void warn_of_imbalance(lua_State *L, const ltide_devices *devices) {
  const tide_device_props *p, *largest[2] = {NULL, NULL};
  int owner[2] = {0, 0};
  for (int i = 0; i < devices->n; i++) {
    if (devices->id[i] < 0 || tide_device_get_props(&p, devices->id[i]) != TIDE_OK) return;
    if (!i || p->total_memory > largest[0]->total_memory) largest[0] = p, owner[0] = devices->id[i];
    if (!i || p->multi_processor_count > largest[1]->multi_processor_count) largest[1] = p, owner[1] = devices->id[i];
  }
  for (int i = 0; i < devices->n; i++) {
    int d = devices->id[i];
    tide_device_get_props(&p, d);
    bool memory = (double)p->total_memory < 0.75 * (double)largest[0]->total_memory;
    bool processors = p->multi_processor_count < 0.75 * largest[1]->multi_processor_count;
    if (!memory && !processors) continue;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &key_warned);
    if (lua_rawgeti(L, -1, d) == LUA_TNIL) {
      lua_pushboolean(L, 1);
      lua_rawseti(L, -3, d);
      ltide_warn(L,
                 "data_parallel: cuda:%d has less than 75%% of the %s of cuda:%d and will keep the others waiting; "
                 "devices= can leave it out",
                 d, memory ? "memory" : "processors", owner[memory ? 0 : 1]);
    }
    lua_pop(L, 2);
  }
}

static int ldata_parallel(lua_State *L) {
  static const char *const keys[] = {"devices", "dim", "output_device", "replicate", NULL};
  if (ltide_unguarded(L)) return ltide_guarded(L, ldata_parallel);
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 3);
  lua_settop(L, 3);
  if (!is_callable(L, FN)) return ltide_arg_error(L, 1, "fn", "a function, or a table that can be called");
  if (lua_isnil(L, 3)) lua_newtable(L), lua_replace(L, 3);
  if (!lua_istable(L, 3)) return ltide_arg_error(L, 3, "opts", "{devices=, dim=, output_device=, replicate=}");
  ltide_check_keys(L, 3, keys);
  ltide_cut cut = {.S = S, .tree = INPUTS, .dim = DIM, .sent = SENT};
  ltide_rawfield(L, 3, "devices");
  ltide_check_devices(L, 4, &cut.devices);
  ltide_rawfield(L, 3, "output_device");
  int output_device = check_output(L, 5, "output_device", cut.devices.id[0]);
  bool is_module = ltide_rawfield(L, 3, "replicate") == LUA_TNIL && lua_istable(L, FN);
  push_dim(L, 3);
  lua_replace(L, DIM);
  lua_replace(L, REPLICAS);
  lua_settop(L, REPLICAS);
  warn_of_imbalance(L, &cut.devices);
  ltide_cut_plan(L, &cut);
  if (is_module || !lua_isnil(L, REPLICAS)) {
    ltide_push_replicas(L, S, is_module ? FN : REPLICAS, &cut.devices, cut.n);
    lua_replace(L, is_module ? FN : REPLICAS);
  }
  lua_newtable(L);
  job *j = push_job(L, "data_parallel", cut.n);
  j->many = is_module, j->is_cut = true, j->cut = cut, j->output_device = output_device;
  for (int i = 0; i < cut.n; i++) j->device[i] = cut.devices.id[i];
  ltide_cut_beside(L, &j->cut);
  return run_all(L, j);
}

void ltide_open_parallel(lua_State *L, ltide_state *S) {
  (void)S;
  static const luaL_Reg meta[] = {{"__close", job_close}, {"__gc", job_gc}, {0}};
  static const ltide_reg list[] = {
      {"data_parallel", ldata_parallel,
       "tide.parallel.data_parallel(fn, inputs [, {devices=all, dim=1, output_device=devices[1], replicate=}]) -> "
       "results of fn\nCuts the tensors of inputs along dim into a part for each device, calls fn for each with that "
       "device as the current one, and joins the results along dim on output_device ('cpu' and -1: in host memory). "
       "inputs is a tensor, a list whose values are the arguments of fn, or a table of named values, which is one "
       "argument; other values go to every device. With replicate = tree, fn(replica, input, ...) gets a copy of the "
       "tree on its device first; a table that can be called is its own tree. Everything is queued, so the devices "
       "work at the same time; where fn waits (item, totable, cpu, synchronize) the other devices' calls go on first, "
       "unless fn stands in a block whose setting is not its own, as device_scope. The results are those of fn(inputs) "
       "if fn treats rows alone. Copies from pinned memory may still be under way at the return."},
      {"scatter", lscatter,
       "tide.parallel.scatter(tree, devices [, dim=1]) -> {tree, ...}\nThe tree once for each device, with its "
       "tensors cut along dim by the rule of chunk: fewer parts than devices where there is too little. Parts that are "
       "on their device already are views; tables are copied, other values shared."},
      {"replicate", lreplicate,
       "tide.parallel.replicate(tree, devices) -> {tree, ...}\nThe tree once for each device, with copies of its "
       "tensors; what is on a device already is shared. Metatables are kept."},
      {"apply", lapply,
       "tide.parallel.apply(fns, inputs [, {devices=}]) -> {output, ...}\nfns[i], or the one function, with the "
       "arguments inputs[i] on device i: the one given, else that of its first tensor. Several results of a function "
       "are a table. See data_parallel for what inputs may be and for how the calls overlap."},
      {"gather", lgather,
       "tide.parallel.gather(outputs [, device [, dim=1]]) -> tree\nThe tensors of the outputs joined along dim on the "
       "device (the current one; 'cpu' and -1: host memory). Tensors without dimensions make a vector. Tables are "
       "walked by key."},
      {0}};
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_warned);
  ltide_newmetatable(L, JOB_META);
  luaL_setfuncs(L, meta, 0);
  lua_pop(L, 1);
  lua_newtable(L);
  ltide_register(L, "tide.parallel", list);
  lua_setfield(L, -2, "parallel");
}
