/* comm.c: tide.cuda.comm: collectives between the devices of this process. Lists are read into C arrays, results are
 * handles in a table, one for each device in the order of the list; where core gives back an input, the result is the
 * caller's own handle of it. */
#include <string.h>

#include "row.h"
#include "memory.h"
#include "tide/comm.h"

/* {==== Lists */

int ltide_check_list(lua_State *L, int arg, int most, const char *name, const char *of) {
  char expected[64];
  snprintf(expected, sizeof expected, "a list of %s", of);
  if (!lua_istable(L, arg)) ltide_arg_error(L, arg, name, expected);
  lua_Unsigned n = lua_rawlen(L, arg);
  if (!n && ltide_is_options(L, arg)) ltide_arg_error(L, arg, name, expected);
  if (n > (lua_Unsigned)most)
    ltide_error(L, "ValueError", "%s: %s: got %I entries, expected at most %d", ltide_function_name(L), name,
                (lua_Integer)n, most);
  if (n) ltide_check_unnamed(L, arg, (lua_Integer)n, name);
  return (int)n;
}

void ltide_check_tensors(lua_State *L, ltide_state *S, int arg, tide_tensor **out, int n, const char *name) {
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, arg, i + 1);
    ltide_tensor *u = ltide_test_handle(L, S, -1);
    if (!u || !u->t) {
      const char *got = u ? "a freed tensor" : ltide_typename(L, -1);
      ltide_error(L, u ? "StateError" : "ArgumentError", "%s: %s[%d]: got %s, expected a tensor%s",
                  ltide_function_name(L), name, i + 1, got, u ? " that is alive" : "");
    }
    out[i] = u->t;
    ltide_hold_tensor(L, S, u->t);
    lua_pop(L, 1);
  }
}

/* TIDE_CURRENT becomes what it stands for, so that entries can be compared. */
static int check_devices(lua_State *L, int arg, int *out, const char *name) {
  int n = ltide_check_list(L, arg, TIDE_MAX_DEVICES, name, "cuda devices");
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, arg, i + 1);
    out[i] = ltide_check_device(L, lua_gettop(L), name, 0);
    if (out[i] == TIDE_CURRENT) out[i] = tide_current_device();
    lua_pop(L, 1);
  }
  return n;
}

/* A stream, or nil or false for the current one, for each device. */
void ltide_check_streams(lua_State *L, int arg, tide_stream **out, int n) {
  if (!lua_istable(L, arg)) ltide_arg_error(L, arg, "streams", "a list of tide.cuda.Stream, false for the current one");
  lua_Unsigned given = lua_rawlen(L, arg);
  if (given > (lua_Unsigned)n)
    ltide_error(L, "ValueError", "%s: streams: got %I entries, expected at most %d", ltide_function_name(L),
                (lua_Integer)given, n);
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, arg, i + 1);
    out[i] = lua_toboolean(L, -1) ? ltide_check_stream(L, -1, "streams") : NULL;
    if (out[i]) ltide_hold_stream(L, ltide_enter(L), out[i]);
    lua_pop(L, 1);
  }
}

/* Pushes the option, or returns false. */
/* Pushes a table of n closed handles. */
static int push_handles(lua_State *L, ltide_state *S, ltide_tensor **u, int n) {
  lua_createtable(L, n, 0);
  int at = lua_gettop(L);
  for (int i = 0; i < n; i++) {
    u[i] = ltide_new_tensor(L, S);
    lua_rawseti(L, at, i + 1);
  }
  return at;
}

/* {==== Broadcast */

static int broadcast_into(lua_State *L, ltide_state *S, const tide_tensor *x, int opts) {
  tide_tensor *outs[TIDE_MAX_DEVICES];
  ltide_rawfield(L, opts, "out");
  int list = lua_gettop(L), n = ltide_check_list(L, list, TIDE_MAX_DEVICES, "out", "tensors");
  ltide_check_tensors(L, S, list, outs, n, "out");
  ltide_try(L, tide_comm_broadcast_into(outs, n, x));
  ltide_made(L, S);
  lua_settop(L, list);
  return 1;
}

static int lbroadcast(lua_State *L) {
  static const char *const keys[] = {"out", NULL};
  ltide_state *S = ltide_enter(L);
  ltide_args a = ltide_split(L, 2);
  ltide_check_count(L, a, 2);
  ltide_check_keys(L, a.opts, keys);
  const tide_tensor *x = ltide_check_tensor(L, S, 1, "tensor");
  bool into = ltide_push_option(L, a.opts, "out"), listed = a.n == 2 && !lua_isnil(L, 2);
  if (into == listed)
    return ltide_error(L, "ArgumentError", "broadcast: got %s, expected a list of devices or out, one of the two",
                       into ? "devices and out" : "neither devices nor out");
  if (into) return broadcast_into(L, S, x, a.opts);
  int devices[TIDE_MAX_DEVICES], n = check_devices(L, 2, devices, "devices");
  tide_tensor *outs[TIDE_MAX_DEVICES];
  ltide_tensor *u[TIDE_MAX_DEVICES];
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    u[i] = NULL;
    if (devices[i] == tide_tensor_device(x))
      lua_pushvalue(L, 1);
    else
      u[i] = ltide_new_tensor(L, S);
    lua_rawseti(L, -2, i + 1);
  }
  ltide_try(L, tide_comm_broadcast(outs, x, devices, n));
  for (int i = 0; i < n; i++) {
    if (u[i])
      u[i]->t = outs[i];
    else
      tide_tensor_release(outs[i]);
  }
  ltide_made(L, S);
  return 1;
}

/* Memory for a list of unknown length that goes with the call. */
static tide_tensor **push_array(lua_State *L, size_t n) {
  tide_tensor **list = ltide_new_object(L, (n + 1) * sizeof *list, 0);
  memset(list, 0, (n + 1) * sizeof *list);
  return list;
}

static size_t check_buffer_size(lua_State *L, int opts) {
  static const char *const keys[] = {"buffer_size", NULL};
  ltide_check_keys(L, opts, keys);
  if (!ltide_push_option(L, opts, "buffer_size")) return TIDE_COMM_BUFFER;
  int64_t size = ltide_check_integer(L, -1, "buffer_size");
  if (size < 1)
    ltide_error(L, "ValueError", "%s: buffer_size: got %I, expected at least 1", ltide_function_name(L),
                (lua_Integer)size);
  lua_pop(L, 1);
  return (size_t)size;
}

static int lbroadcast_coalesced(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_args a = ltide_split(L, 2);
  ltide_check_count(L, a, 2);
  size_t buffer_size = check_buffer_size(L, a.opts);
  int devices[TIDE_MAX_DEVICES], n = ltide_check_list(L, 1, INT16_MAX, "tensors", "tensors");
  int count = check_devices(L, 2, devices, "devices");
  tide_tensor **list = push_array(L, (size_t)n), **outs = push_array(L, (size_t)n * (size_t)count);
  ltide_tensor **u = ltide_new_object(L, ((size_t)n * (size_t)count + 1) * sizeof *u, 0);
  ltide_check_tensors(L, S, 1, list, n, "tensors");
  lua_createtable(L, count, 0);
  for (int d = 0; d < count; d++) {
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
      if (d == 0)
        lua_rawgeti(L, 1, i + 1);
      else
        u[(size_t)d * (size_t)n + (size_t)i] = ltide_new_tensor(L, S);
      lua_rawseti(L, -2, i + 1);
    }
    lua_rawseti(L, -2, d + 1);
  }
  ltide_try(L, tide_comm_broadcast_coalesced(outs, list, n, devices, count, buffer_size));
  for (int i = 0; i < n; i++) tide_tensor_release(outs[i]);
  for (int i = n; i < n * count; i++) u[i]->t = outs[i];
  ltide_made(L, S);
  return 1;
}

/* {==== Sums */

static int lreduce_add(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *list[TIDE_MAX_DEVICES];
  if (!lua_isnone(L, 3)) return ltide_arg_error(L, 3, "arguments", "at most two");
  int n = ltide_check_list(L, 1, TIDE_MAX_DEVICES, "inputs", "tensors");
  ltide_check_tensors(L, S, 1, list, n, "inputs");
  int destination = ltide_check_device(L, 2, "destination", LTIDE_NIL_OK);
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_comm_reduce_add(&u->t, list, n, destination));
  if (u->t == list[0]) lua_rawgeti(L, 1, 1);
  return ltide_result_or_self(L, S, u, list[0], lua_gettop(L));
}

static int lreduce_add_coalesced(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_args a = ltide_split(L, 1);
  ltide_check_count(L, a, 2);
  size_t buffer_size = check_buffer_size(L, a.opts);
  int ranks = ltide_check_list(L, 1, TIDE_MAX_DEVICES, "inputs", "lists of tensors"), n = 0;
  int destination = a.n < 2 ? TIDE_CURRENT : ltide_check_device(L, 2, "destination", LTIDE_NIL_OK);
  tide_tensor **lists = NULL;
  for (int r = 0; r < ranks; r++) {
    char name[32];
    snprintf(name, sizeof name, "inputs[%d]", r + 1);
    lua_rawgeti(L, 1, r + 1);
    int each = ltide_check_list(L, lua_gettop(L), INT16_MAX, name, "tensors");
    if (r == 0) n = each;
    if (each != n)
      return ltide_error(L, "ValueError", "reduce_add_coalesced: %s: got %d tensors, expected %d as in the first", name,
                         each, n);
    if (r == 0) lists = push_array(L, (size_t)ranks * (size_t)n), lua_insert(L, -2);
    ltide_check_tensors(L, S, lua_gettop(L), lists + (size_t)r * (size_t)n, n, name);
    lua_pop(L, 1);
  }
  tide_tensor **outs = push_array(L, (size_t)n);
  ltide_tensor **u = ltide_new_object(L, ((size_t)n + 1) * sizeof *u, 0);
  push_handles(L, S, u, n);
  ltide_try(L, tide_comm_reduce_add_coalesced(outs, lists, ranks, n, destination, buffer_size));
  for (int i = 0; i < n; i++) u[i]->t = outs[i];
  ltide_made(L, S);
  return 1;
}

/* {==== Scatter and gather */

static int opt_dim(lua_State *L, int opts, int ndim) {
  if (!ltide_push_option(L, opts, "dim")) return 0;
  int dim = ltide_check_dim(L, -1, ndim, "dim");
  lua_pop(L, 1);
  return dim;
}

static int scatter_into(lua_State *L, ltide_state *S, const tide_tensor *x, int opts, int dim) {
  tide_tensor *outs[TIDE_MAX_DEVICES];
  tide_stream *streams[TIDE_MAX_DEVICES] = {NULL};
  if (ltide_push_option(L, opts, "chunk_sizes"))
    return ltide_error(L, "ArgumentError", "scatter: chunk_sizes: got it beside out, expected one of the two");
  ltide_rawfield(L, opts, "out");
  int list = lua_gettop(L), n = ltide_check_list(L, list, TIDE_MAX_DEVICES, "out", "tensors");
  ltide_check_tensors(L, S, list, outs, n, "out");
  if (ltide_push_option(L, opts, "streams")) ltide_check_streams(L, lua_gettop(L), streams, n);
  ltide_try(L, tide_comm_scatter_into(outs, n, x, dim, streams));
  ltide_made(L, S);
  lua_settop(L, list);
  return 1;
}

/* The chunk sizes that were given, one for each device, or NULL. */
static const int64_t *opt_chunks(lua_State *L, int opts, int64_t *sizes, int n) {
  if (!ltide_push_option(L, opts, "chunk_sizes")) return NULL;
  if (!lua_istable(L, -1)) ltide_arg_error(L, lua_gettop(L), "chunk_sizes", "a list of integers");
  int given = ltide_check_integers(L, lua_gettop(L), sizes, TIDE_MAX_DEVICES, "chunk_sizes");
  if (given != n)
    ltide_error(L, "ValueError", "scatter: chunk_sizes: got %d, expected one for each of the %d devices", given, n);
  lua_pop(L, 1);
  return sizes;
}

static int lscatter(lua_State *L) {
  static const char *const keys[] = {"chunk_sizes", "dim", "streams", "out", NULL};
  ltide_state *S = ltide_enter(L);
  ltide_by_place(L, 3, LTIDE_NAMES("chunk_sizes", "dim", "streams"));
  ltide_args a = ltide_split(L, 2);
  ltide_check_count(L, a, 2);
  ltide_check_keys(L, a.opts, keys);
  const tide_tensor *x = ltide_check_tensor(L, S, 1, "tensor");
  int dim = opt_dim(L, a.opts, tide_tensor_ndim(x));
  bool into = ltide_push_option(L, a.opts, "out"), listed = a.n == 2 && !lua_isnil(L, 2);
  if (into == listed)
    return ltide_error(L, "ArgumentError", "scatter: got %s, expected a list of devices or out, one of the two",
                       into ? "devices and out" : "neither devices nor out");
  if (into) return scatter_into(L, S, x, a.opts, dim);
  int devices[TIDE_MAX_DEVICES], n = check_devices(L, 2, devices, "devices"), count = 0;
  int64_t sizes[TIDE_MAX_DEVICES];
  const int64_t *chunks = opt_chunks(L, a.opts, sizes, n);
  tide_stream *streams[TIDE_MAX_DEVICES] = {NULL};
  bool streamed = ltide_push_option(L, a.opts, "streams");
  if (streamed) ltide_check_streams(L, lua_gettop(L), streams, n);
  tide_tensor *outs[TIDE_MAX_DEVICES];
  ltide_tensor *u[TIDE_MAX_DEVICES];
  int table = push_handles(L, S, u, n);
  ltide_try(L, tide_comm_scatter(outs, &count, x, devices, n, chunks, dim, streamed ? streams : NULL));
  for (int i = 0; i < count; i++) u[i]->t = outs[i];
  for (int i = n; i > count; i--) {
    lua_pushnil(L);
    lua_rawseti(L, table, i);
  }
  ltide_made(L, S);
  return 1;
}

static int opt_destination(lua_State *L, int opts) {
  if (!ltide_push_option(L, opts, "destination")) return TIDE_CURRENT;
  int is_integer, device;
  if (lua_type(L, -1) == LUA_TNUMBER && lua_tointegerx(L, -1, &is_integer) == -1 && is_integer) {
    ltide_deprecated(L, "comm.gather with destination = -1", "comm.gather with destination = 'cpu'");
    device = TIDE_CPU;
  } else {
    device = ltide_check_device(L, lua_gettop(L), "destination", LTIDE_CPU_OK);
  }
  lua_pop(L, 1);
  return device;
}

static int lgather(lua_State *L) {
  static const char *const keys[] = {"dim", "destination", "out", NULL};
  ltide_state *S = ltide_enter(L);
  ltide_by_place(L, 2, LTIDE_NAMES("dim", "destination"));
  ltide_args a = ltide_split(L, 1);
  ltide_check_count(L, a, 1);
  ltide_check_keys(L, a.opts, keys);
  tide_tensor *list[TIDE_MAX_DEVICES];
  int n = ltide_check_list(L, 1, TIDE_MAX_DEVICES, "tensors", "tensors");
  ltide_check_tensors(L, S, 1, list, n, "tensors");
  int dim = n ? opt_dim(L, a.opts, tide_tensor_ndim(list[0])) : 0;
  tide_tensor *into = ltide_opt_tensor(L, S, a.opts, "out");
  if (into) {
    if (ltide_push_option(L, a.opts, "destination"))
      return ltide_error(L, "ArgumentError", "gather: destination: got it beside out, expected one of the two");
    ltide_try(L, tide_comm_gather(NULL, list, n, dim, TIDE_CURRENT, into));
    ltide_made(L, S);
    ltide_rawfield(L, a.opts, "out");
    return 1;
  }
  int destination = opt_destination(L, a.opts);
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_comm_gather(&u->t, list, n, dim, destination, NULL));
  ltide_made(L, S);
  return 1;
}

/* {==== Time */

static int lset_timeout(lua_State *L) {
  ltide_try(L, tide_comm_set_timeout(ltide_check_number(L, 1, "seconds")));
  return 0;
}

static int lget_timeout(lua_State *L) {
  lua_pushnumber(L, tide_comm_get_timeout());
  return 1;
}

#define ORDER " Nothing waits: what is queued later on the current streams of all devices comes after it."
#define COALESCED                                                                                                      \
  " Small tensors of one dtype travel together, in buffers of at most buffer_size bytes (10 MiB if not given); the "   \
  "results are then views of such buffers."

void ltide_open_comm(lua_State *L, ltide_state *S) {
  (void)S;
#define PATH "tide.cuda.comm."
  static ltide_row rows[] = {
#include "api/comm.def"
      {0}};
  lua_getfield(L, -1, "cuda");
  lua_newtable(L);
  ltide_register_rows(L, "tide.cuda.comm", rows);
  lua_setfield(L, -2, "comm");
  lua_pop(L, 1);
}
