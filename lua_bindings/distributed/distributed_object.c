/* distributed_object.c: values of Lua between processes, and what is made of the operations in distributed.c.
 *
 * A value travels as the bytes of tide.serialize: first all sizes, then the bytes, padded to the longest.
 *
 * Invariant: all ranks call the same operations in the same order, whatever their values are. */

#include <stdlib.h>
#include "distributed.h"
#include "data/serialize.h"
#include "tensor/tensor.h"

/* {==== Bytes */

/* A handle of a new tensor on the cpu, of that many elements, all 0. */
static tide_tensor *push_zeros(lua_State *L, ltide_call *c, tide_dtype dtype, int64_t n) {
  tide_options options = {dtype, TIDE_CPU, false, sizeof options};
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_full(&u->t, &n, 1, tide_int(0), &options));
  return u->t;
}

static const tide_distributed *library(void) { return ltide_distributed_opened(); }

static void run(lua_State *L, tide_distributed_call *call, tide_tensor **in, tide_tensor **out) {
  call->in = in, call->ins = in && *in ? 1 : 0;
  call->out = out, call->outs = out && *out ? 1 : 0;
  ltide_distributed_run(L, call);
}

/* Is this rank the root of a call that has one? */
static bool is_root(const tide_distributed_call *call) { return library()->rank(NULL) == call->peer; }

/* Pushes the list of every rank's string: on the root; with root < 0 on all. */
static void gather_strings(lua_State *L, ltide_call *c, tide_distributed_call call, const char *text, size_t length,
                           int root) {
  int n = library()->size(call.group), top = lua_gettop(L);
  tide_tensor *own = push_zeros(L, c, TIDE_INT64, 1), *all = push_zeros(L, c, TIDE_INT64, n);
  int64_t *sizes = tide_tensor_data(all), most = 0;
  *(int64_t *)tide_tensor_data(own) = (int64_t)length;
  run(L, &call, &own, &all);
  for (int i = 0; i < n; i++) most = sizes[i] > most ? sizes[i] : most;
  bool gets = root < 0 || library()->rank(NULL) == root;
  tide_tensor *bytes = push_zeros(L, c, TIDE_UINT8, most), *room = gets ? push_zeros(L, c, TIDE_UINT8, most * n) : NULL;
  memcpy(tide_tensor_data(bytes), text, length);
  if (root >= 0) call.kind = TIDE_GATHER_RANKS, call.peer = root;
  run(L, &call, &bytes, &room);
  lua_createtable(L, n, 0);
  for (int i = 0; gets && i < n; i++) {
    lua_pushlstring(L, (const char *)tide_tensor_data(room) + i * most, (size_t)sizes[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

/* The value of a string at the top, in its place. */
static void read_value(lua_State *L) {
  size_t n;
  const char *bytes = lua_tolstring(L, -1, &n);
  ltide_push_deserialized(L, bytes, n);
  lua_remove(L, -2);
}

static void check_table(lua_State *L, const ltide_value *v, const char *name) {
  if (!v->given || !lua_istable(L, v->at)) ltide_arg_error(L, v->at, name, "a table");
}

/* list[i] = the value of strings[i], which is at the top. */
static void fill_list(lua_State *L, int list, int n) {
  int strings = lua_gettop(L);
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, strings, i);
    read_value(L);
    lua_rawseti(L, list, i);
  }
}

/* {==== Objects */

static int gather_values(lua_State *L, ltide_call *c, const ltide_value *value, int list, int root) {
  size_t n;
  if (!value->given) ltide_arg_error(L, value->at, "value", "what is to be gathered");
  ltide_push_serialized(L, value->at);
  const char *text = lua_tolstring(L, -1, &n);
  gather_strings(L, c, ltide_distributed_begin_in(L, c, TIDE_ALL_GATHER_RANKS), text, n, root);
  if (list) fill_list(L, list, (int)lua_rawlen(L, -1));
  return 0;
}

static int lall_gather_object(lua_State *L, ltide_call *c) {
  check_table(L, &c->v[0], "list");
  return gather_values(L, c, &c->v[1], c->v[0].at, -1);
}

static int lgather_object(lua_State *L, ltide_call *c) {
  tide_distributed_call call = ltide_distributed_begin_in(L, c, TIDE_GATHER_RANKS);
  call.peer = (int)c->v[2].i;
  if (is_root(&call)) check_table(L, &c->v[1], "list");
  return gather_values(L, c, &c->v[0], is_root(&call) ? c->v[1].at : 0, call.peer);
}

static int lbroadcast_object_list(lua_State *L, ltide_call *c) {
  tide_distributed_call call = ltide_distributed_begin_in(L, c, TIDE_BROADCAST_RANKS);
  call.peer = (int)c->v[1].i;
  check_table(L, &c->v[0], "list");
  size_t length = 0;
  const char *text = NULL;
  if (is_root(&call)) ltide_push_serialized(L, c->v[0].at), text = lua_tolstring(L, -1, &length);
  tide_tensor *size = push_zeros(L, c, TIDE_INT64, 1);
  *(int64_t *)tide_tensor_data(size) = (int64_t)length;
  run(L, &call, NULL, &size);
  int64_t n = *(int64_t *)tide_tensor_data(size);
  tide_tensor *bytes = push_zeros(L, c, TIDE_UINT8, n);
  if (text) memcpy(tide_tensor_data(bytes), text, length);
  run(L, &call, NULL, &bytes);
  if (text) return 0;
  lua_pushlstring(L, tide_tensor_data(bytes), (size_t)n);
  read_value(L);
  int values = lua_gettop(L), count = (int)lua_rawlen(L, values);
  for (int i = 1; i <= count; i++) lua_rawgeti(L, values, i), lua_rawseti(L, c->v[0].at, i);
  return 0;
}

static int lscatter_object_list(lua_State *L, ltide_call *c) {
  tide_distributed_call call = ltide_distributed_begin_in(L, c, TIDE_BROADCAST_RANKS);
  int n = library()->size(call.group), strings = 0;
  call.peer = (int)c->v[2].i;
  check_table(L, &c->v[0], "out");
  tide_tensor *all = push_zeros(L, c, TIDE_INT64, n);
  int64_t *sizes = tide_tensor_data(all), most = 0;
  if (is_root(&call)) {
    check_table(L, &c->v[1], "list");
    if ((int)lua_rawlen(L, c->v[1].at) != n)
      return ltide_error(L, "ValueError",
                         "scatter_object_list: list: got %d values, expected one for each of the %d ranks",
                         (int)lua_rawlen(L, c->v[1].at), n);
    lua_createtable(L, n, 0);
    strings = lua_gettop(L);
    for (int i = 0; i < n; i++) {
      lua_rawgeti(L, c->v[1].at, i + 1);
      ltide_push_serialized(L, -1);
      sizes[i] = (int64_t)lua_rawlen(L, -1);
      lua_rawseti(L, strings, i + 1);
      lua_settop(L, strings);
    }
  }
  run(L, &call, NULL, &all);
  for (int i = 0; i < n; i++) most = sizes[i] > most ? sizes[i] : most;
  tide_tensor *bytes = push_zeros(L, c, TIDE_UINT8, most),
              *parts = strings ? push_zeros(L, c, TIDE_UINT8, most * n) : NULL;
  for (int i = 0; strings && i < n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, strings, i + 1);
    memcpy((char *)tide_tensor_data(parts) + i * most, lua_tostring(L, -1), (size_t)sizes[i]);
  }
  call.kind = TIDE_SCATTER_RANKS;
  run(L, &call, &parts, &bytes);
  lua_pushlstring(L, tide_tensor_data(bytes), (size_t)sizes[library()->rank(call.group)]);
  read_value(L);
  lua_rawseti(L, c->v[0].at, 1);
  return 0;
}

/* {==== Batches of messages */

static int lp2pop(lua_State *L, ltide_call *c) {
  static const char *const keys[] = {"op", "x", "peer", "tag", "group"};
  lua_createtable(L, 0, 5);
  for (int i = 0; i < 5; i++) {
    const ltide_value *v = ltide_get(L, c, keys[i]);
    if (!v->given) continue;
    lua_pushvalue(L, v->at);
    lua_setfield(L, -2, keys[i]);
  }
  return 1;
}

/* The works of the list, each of which its op starts. */
static int lbatch(lua_State *L, ltide_call *c) {
  check_table(L, &c->v[0], "list");
  int list = c->v[0].at, n = (int)lua_rawlen(L, list);
  lua_createtable(L, n, 0);
  int works = lua_gettop(L);
  for (int i = 1; i <= n; i++, lua_settop(L, works)) {
    lua_rawgeti(L, list, i);
    int one = lua_gettop(L);
    if (!lua_istable(L, one) || ltide_rawfield(L, one, "op") != LUA_TFUNCTION)
      return ltide_error(L, "ArgumentError", "batch_isend_irecv: list[%d]: got %s, expected a P2POp", i,
                         ltide_typename(L, one));
    ltide_rawfield(L, one, "x"), ltide_rawfield(L, one, "peer");
    lua_createtable(L, 0, 2);
    ltide_rawfield(L, one, "tag"), lua_setfield(L, -2, "tag");
    ltide_rawfield(L, one, "group"), lua_setfield(L, -2, "group");
    lua_pushliteral(L, "tag");
    if (lua_rawget(L, -2) == LUA_TNIL) lua_pushinteger(L, 0), lua_setfield(L, -3, "tag");
    lua_pop(L, 1);
    lua_call(L, 3, 1);
    lua_rawseti(L, works, i);
  }
  return 1;
}

/* {==== Printing */

/* Pushes the values first..last as print writes them, or those of a table from 1 on. */
static void push_line(lua_State *L, int first, int last, int table) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (int i = first; i <= last; i++) {
    if (i > first) luaL_addchar(&b, '\t');
    if (table) lua_rawgeti(L, table, i);
    luaL_tolstring(L, table ? -1 : i, NULL);
    if (table) lua_remove(L, -2);
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
}

/* Calls the script's print with the string at the top. */
static void print_line(lua_State *L) {
  lua_getglobal(L, "print");
  lua_insert(L, -2);
  lua_call(L, 1, 0);
}

static int lprint(lua_State *L, ltide_call *c) {
  const tide_distributed *d = library();
  int count = lua_gettop(L);
  bool joined = d && d->is_initialized(), all = lua_istable(L, 1) && ltide_rawfield(L, 1, "all") == LUA_TBOOLEAN;
  int rank = joined ? d->rank(NULL) : 0;
  if (!all) {
    if (rank == 0) push_line(L, 1, count, 0), print_line(L);
    return 0;
  }
  size_t n;
  push_line(L, 1, (int)lua_rawlen(L, 1), 1);
  const char *text = lua_tolstring(L, -1, &n);
  gather_strings(L, c, ltide_distributed_begin(L, c, TIDE_ALL_GATHER_RANKS), text, n, 0);
  int lines = lua_gettop(L);
  for (int i = 1; rank == 0 && i <= (int)lua_rawlen(L, lines); i++) {
    lua_rawgeti(L, lines, i);
    lua_pushfstring(L, "[%d] %s", i - 1, lua_tostring(L, -1));
    print_line(L);
    lua_settop(L, lines);
  }
  return 0;
}

void ltide_open_distributed_object(lua_State *L, ltide_state *S) {
#include <rows/distributed_object.inc>
  ltide_register_in(L, "tide.distributed", distributed_object_rows);
}
