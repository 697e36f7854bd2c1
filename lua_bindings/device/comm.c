/* comm.c: tide.cuda.comm: collectives between the devices of this process. Results are handles in a table, one for each
 * device in the order of the list; where core gives back an input, the result is the caller's own handle of it. */
#include "memory.h"
#include "tensor/tensor.h"
#include "tide/comm.h"

/* Pushes a table of n closed handles. */
static void push_handles(lua_State *L, ltide_state *S, ltide_tensor **u, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    u[i] = ltide_new_tensor(L, S);
    lua_rawseti(L, -2, i + 1);
  }
}

/* Memory for n pointers, which goes with the call. */
static void *push_array(lua_State *L, size_t n) { return ltide_new_object(L, (n + 1) * sizeof(void *), 0); }

/* The destinations that are given instead of devices, which are then the result; NULL: there are none. */
static const ltide_value *get_out(lua_State *L, const ltide_call *c, const ltide_value *devices) {
  const ltide_value *out = ltide_get(L, c, "out");
  if (out->given == devices->given)
    ltide_fail(L, "ArgumentError", "got %s, expected a list of devices or out, one of the two",
               out->given ? "devices and out" : "neither devices nor out");
  return out->given ? out : NULL;
}

/* Raises where the option is given beside out. */
static void refuse_beside_out(lua_State *L, const ltide_value *v, const char *name) {
  if (v->given) ltide_fail(L, "ArgumentError", "%s: got it beside out, expected one of the two", name);
}

static int finish_into(lua_State *L, ltide_call *c, const ltide_value *out, tide_status status) {
  ltide_try(L, status);
  ltide_made(L, c->S);
  return lua_pushvalue(L, out->at), 1;
}

static size_t get_buffer_size(lua_State *L, const ltide_call *c) {
  const ltide_value *size = ltide_get(L, c, "buffer_size");
  if (size->given && size->i < 1) ltide_fail(L, "ValueError", "buffer_size: got %I, expected at least 1", size->i);
  return size->given ? (size_t)size->i : TIDE_COMM_BUFFER;
}

/* {==== Broadcast */

static int lbroadcast(lua_State *L, ltide_call *c) {
  const ltide_value *devices = &c->v[1], *into = get_out(L, c, devices);
  if (into) return finish_into(L, c, into, tide_comm_broadcast_into(into->tensors, into->n, c->x));
  tide_tensor *outs[TIDE_MAX_DEVICES];
  ltide_tensor *u[TIDE_MAX_DEVICES];
  lua_createtable(L, devices->n, 0);
  for (int i = 0; i < devices->n; i++) {
    u[i] = NULL;
    if (devices->devices[i] == tide_tensor_device(c->x))
      lua_pushvalue(L, 1);
    else
      u[i] = ltide_new_tensor(L, c->S);
    lua_rawseti(L, -2, i + 1);
  }
  ltide_try(L, tide_comm_broadcast(outs, c->x, devices->devices, devices->n));
  for (int i = 0; i < devices->n; i++) {
    if (u[i])
      u[i]->t = outs[i];
    else
      tide_tensor_release(outs[i]);
  }
  ltide_made(L, c->S);
  return 1;
}

static int lbroadcast_coalesced(lua_State *L, ltide_call *c) {
  const ltide_value *list = &c->v[0], *devices = &c->v[1];
  int n = list->n;
  size_t all = (size_t)n * (size_t)devices->n, buffer_size = get_buffer_size(L, c);
  tide_tensor **outs = push_array(L, all);
  ltide_tensor **u = push_array(L, all);
  lua_createtable(L, devices->n, 0);
  for (int d = 0; d < devices->n; d++) {
    push_handles(L, c->S, u + (size_t)d * (size_t)n, d == 0 ? 0 : n);
    for (int i = 0; d == 0 && i < n; i++) lua_rawgeti(L, 1, i + 1), lua_rawseti(L, -2, i + 1);
    lua_rawseti(L, -2, d + 1);
  }
  ltide_try(L, tide_comm_broadcast_coalesced(outs, list->tensors, n, devices->devices, devices->n, buffer_size));
  for (int i = 0; i < n; i++) tide_tensor_release(outs[i]);
  for (int i = n; i < n * devices->n; i++) u[i]->t = outs[i];
  ltide_made(L, c->S);
  return 1;
}

/* {==== Sums */

static int lreduce_add(lua_State *L, ltide_call *c) {
  const ltide_value *list = &c->v[0];
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_comm_reduce_add(&u->t, list->tensors, list->n, c->v[1].device));
  if (u->t == c->x) lua_rawgeti(L, 1, 1);
  return ltide_result_or_self(L, c->S, u, c->x, lua_gettop(L));
}

static int lreduce_add_coalesced(lua_State *L, ltide_call *c) {
  int ranks = ltide_check_list(L, 1, TIDE_MAX_DEVICES, "inputs", "lists of tensors"), n = 0;
  size_t buffer_size = get_buffer_size(L, c);
  tide_tensor **lists = NULL;
  lua_settop(L, 2);
  for (int r = 0; r < ranks; r++) {
    const char *name = lua_pushfstring(L, "inputs[%d]", r + 1);
    lua_rawgeti(L, 1, r + 1);
    int list = lua_gettop(L), each = ltide_check_list(L, list, INT16_MAX, name, "tensors");
    if (r == 0) n = each, lists = push_array(L, (size_t)ranks * (size_t)n), lua_replace(L, 2);
    if (each != n)
      return ltide_error(L, "ValueError", "reduce_add_coalesced: %s: got %d tensors, expected %d as in the first", name,
                         each, n);
    ltide_check_tensors(L, c->S, list, lists + (size_t)r * (size_t)n, n, name);
    lua_settop(L, list - 2);
  }
  tide_tensor **outs = push_array(L, (size_t)n);
  ltide_tensor **u = push_array(L, (size_t)n);
  push_handles(L, c->S, u, n);
  ltide_try(L, tide_comm_reduce_add_coalesced(outs, lists, ranks, n, c->v[1].device, buffer_size));
  for (int i = 0; i < n; i++) u[i]->t = outs[i];
  ltide_made(L, c->S);
  return 1;
}

/* {==== Scatter and gather */

/* The chunk sizes that were given, one for each device, or NULL. */
static const int64_t *get_chunks(lua_State *L, const ltide_value *v, int64_t *sizes, int n) {
  if (!v->given) return NULL;
  if (!lua_istable(L, v->at)) ltide_arg_error(L, v->at, "chunk_sizes", "a list of integers");
  int given = ltide_check_integers(L, v->at, sizes, TIDE_MAX_DEVICES, "chunk_sizes");
  if (given != n)
    ltide_error(L, "ValueError", "scatter: chunk_sizes: got %d, expected one for each of the %d devices", given, n);
  return sizes;
}

static int lscatter(lua_State *L, ltide_call *c) {
  const ltide_value *devices = &c->v[1], *into = get_out(L, c, devices);
  int dim = c->v[3].dim, n = into ? into->n : devices->n, count = 0;
  tide_stream *const *streams = ltide_streams(L, c, "streams", n);
  if (into) {
    refuse_beside_out(L, &c->v[2], "chunk_sizes");
    return finish_into(L, c, into, tide_comm_scatter_into(into->tensors, n, c->x, dim, streams));
  }
  int64_t sizes[TIDE_MAX_DEVICES];
  const int64_t *chunks = get_chunks(L, &c->v[2], sizes, n);
  tide_tensor *outs[TIDE_MAX_DEVICES];
  ltide_tensor *u[TIDE_MAX_DEVICES];
  push_handles(L, c->S, u, n);
  ltide_try(L, tide_comm_scatter(outs, &count, c->x, devices->devices, n, chunks, dim, streams));
  for (int i = 0; i < count; i++) u[i]->t = outs[i];
  for (int i = n; i > count; i--) {
    lua_pushnil(L);
    lua_rawseti(L, -2, i);
  }
  ltide_made(L, c->S);
  return 1;
}

static int get_destination(lua_State *L, const ltide_value *v) {
  if (!v->given) return TIDE_CURRENT;
  if (!lua_isinteger(L, v->at) || lua_tointeger(L, v->at) != -1)
    return ltide_check_device(L, v->at, "destination", LTIDE_CPU_OK);
  ltide_deprecated(L, "comm.gather with destination = -1", "comm.gather with destination = 'cpu'");
  return TIDE_CPU;
}

static int lgather(lua_State *L, ltide_call *c) {
  const ltide_value *list = &c->v[0];
  tide_tensor **slot = ltide_slot(L, c);
  if (c->into) refuse_beside_out(L, &c->v[2], "destination");
  int device = get_destination(L, &c->v[2]);
  return ltide_finish_into(L, c, tide_comm_gather(slot, list->tensors, list->n, c->v[1].dim, device, c->into));
}

/* {==== Time */

static int lset_timeout(lua_State *L, ltide_call *c) { return ltide_done(L, tide_comm_set_timeout(c->v[0].number)); }

static int lget_timeout(lua_State *L, ltide_call *c) { return lua_pushnumber(L, tide_comm_get_timeout()), 1; }

#define NOUN  comm
#define SPACE "tide.cuda.comm"
#include "call/api/open_noun.def"
