/* graphed.c: tide.cuda.make_graphed_callables: functions of tensors turned into graphs.
 *
 * Each function is called a few times on a side stream, so that whatever it does once only is done, and then captured
 * with copies of the sample arguments. The result is a closure that copies its arguments over those copies, replays,
 * and gives the tensors that the capture gave, by handles that know which call they belong to. Functions of one list
 * share one pool, so they are to be called in the order of the list.
 *
 * Invariant: nothing of the user's is overwritten: the static inputs are copies. */
#include "row.h"
#include "graph.h"
#include "tree.h"

/* ---- the arguments of make_graphed_callables ---- */

static bool is_callable(lua_State *L, int arg) {
  if (lua_isfunction(L, arg)) return true;
  bool callable = luaL_getmetafield(L, arg, "__call") != LUA_TNIL;
  if (callable) lua_pop(L, 1);
  return callable;
}

static lua_Integer check_warmup(lua_State *L, int opts) {
  if (!opts || ltide_rawfield(L, opts, "num_warmup_iters") == LUA_TNIL) return 3;
  lua_Integer n = ltide_check_integer(L, lua_gettop(L), "num_warmup_iters");
  if (n < 0) ltide_error(L, "ValueError", "make_graphed_callables: num_warmup_iters: got %I, expected 0 or more", n);
  return n;
}

/* Pushes copies of the tensors in the table at `args`, the sample arguments of function number i. */
static void push_inputs(lua_State *L, ltide_state *S, int args, lua_Integer i) {
  if (!lua_istable(L, args))
    ltide_error(L, "ArgumentError", "make_graphed_callables: sample_args[%I]: got %s, expected a table of tensors", i,
                ltide_typename(L, args));
  lua_Integer n = (lua_Integer)lua_rawlen(L, args);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer k = 1; k <= n; k++) {
    lua_rawgeti(L, args, k);
    tide_tensor *x = ltide_test_tensor(L, S, lua_gettop(L));
    if (!x || tide_tensor_device(x) < 0)
      ltide_error(L, "ArgumentError",
                  "make_graphed_callables: sample_args[%I][%I]: got %s, expected a tensor of a cuda device", i, k,
                  ltide_typename(L, -1));
    ltide_tensor *u = ltide_new_tensor(L, S);
    ltide_try(L, tide_clone(&u->t, x));
    ltide_made(L, S);
    lua_rawseti(L, -3, k);
    lua_pop(L, 1);
  }
}

/* ---- warming up and capturing ---- */

/* Calls fn(inputs...); leaves its results from `base` + 1 on. */
static void call_with(lua_State *L, int fn, int inputs, int results) {
  int n = (int)lua_rawlen(L, inputs);
  luaL_checkstack(L, n + 4, "make_graphed_callables: too many arguments");
  lua_pushvalue(L, fn);
  for (int k = 1; k <= n; k++) lua_rawgeti(L, inputs, k);
  lua_call(L, n, results);
}

/* In the block of tide.cuda.stream: fn, inputs, number of calls. */
static int warm_up(lua_State *L) {
  for (lua_Integer i = lua_tointeger(L, 3); i > 0; i--) {
    call_with(L, 1, 2, 0);
    lua_settop(L, 3);
  }
  return 0;
}

/* In the block of tide.cuda.graph: fn, inputs -> the table of its results. */
static int record(lua_State *L) {
  int top = lua_gettop(L);
  call_with(L, 1, 2, LUA_MULTRET);
  int n = lua_gettop(L) - top;
  lua_createtable(L, n, 1);
  lua_insert(L, top + 1);
  for (int k = n; k > 0; k--) lua_rawseti(L, top + 1, k);
  lua_pushinteger(L, n);
  lua_setfield(L, top + 1, "n");
  lua_settop(L, top + 1);
  return 1;
}

/* Pushes the stream of a function's warm-up and capture, on the device that its arguments are on: work on another one
 * would be executed during the capture, and in no replay. */
static tide_stream *push_side(lua_State *L, ltide_state *S, int inputs) {
  int device = TIDE_CURRENT;
  if (lua_rawgeti(L, inputs, 1) != LUA_TNIL) device = tide_tensor_device(ltide_check_tensor(L, S, -1, "input"));
  lua_pop(L, 1);
  tide_stream **side = ltide_new_stream(L);
  ltide_try(L, tide_stream_new(side, device, 0));
  return *side;
}

/* The side stream, at the top of the stack, waits for what the inputs come from; the host then waits for it all. */
static void run_warm_up(lua_State *L, int fn, int inputs, lua_Integer calls, tide_stream *side) {
  tide_stream *current;
  int stream = lua_gettop(L), device = tide_stream_device(side);
  ltide_try(L, tide_current_stream(&current, device));
  ltide_try(L, tide_stream_wait_stream(side, current));
  lua_getfield(L, LUA_REGISTRYINDEX, "tide.cuda.stream");
  lua_pushvalue(L, stream);
  lua_pushcfunction(L, warm_up);
  lua_pushvalue(L, fn);
  lua_pushvalue(L, inputs);
  lua_pushinteger(L, calls);
  lua_call(L, 5, 0);
  ltide_enter(L);
  ltide_try(L, tide_device_synchronize(device));
}

/* ---- the closure ---- */

static const char *on_device(lua_State *L, const tide_tensor *x) {
  int device = tide_tensor_device(x);
  return device < 0 ? " on cpu" : lua_pushfstring(L, " on cuda:%d", device);
}

/* Raises unless the tensor at arg is like the static input. */
static void check_like(lua_State *L, ltide_state *S, int arg, const tide_tensor *input) {
  tide_tensor *x = ltide_test_tensor(L, S, arg);
  bool same = x && tide_tensor_dtype(x) == tide_tensor_dtype(input) &&
              tide_tensor_device(x) == tide_tensor_device(input) && tide_tensor_ndim(x) == tide_tensor_ndim(input);
  for (int d = 0; same && d < tide_tensor_ndim(input); d++) same = tide_tensor_size(x)[d] == tide_tensor_size(input)[d];
  if (same) return;
  ltide_tensor *u = ltide_new_tensor(L, S);
  tide_tensor_retain((tide_tensor *)input);
  u->t = (tide_tensor *)input;
  const char *expected = ltide_typename(L, lua_gettop(L)), *got = ltide_typename(L, arg);
  ltide_error(L, x ? "ShapeError" : "ArgumentError",
              "graphed callable: argument %d: got %s%s, expected %s on cuda:%d, like the sample", arg, got,
              x ? on_device(L, x) : "", expected, tide_tensor_device(input));
}

typedef struct replayed {
  ltide_state *S;
  const tide_graph *graph;
} replayed;

static void push_output(lua_State *L, void *user, int index, tide_tensor *x) {
  const replayed *r = user;
  (void)index;
  ltide_tensor *u = ltide_new_tensor(L, r->S);
  ltide_try(L, tide_graph_output(&u->t, r->graph, x));
}

/* Pushes the captured result at index as this call's: tensors by new handles, trees of them copied, the rest as it
 * is. */
static void push_result(lua_State *L, replayed *r, int index) {
  tide_tensor *x = ltide_test_tensor(L, r->S, index);
  if (x)
    push_output(L, r, index, x);
  else if (lua_istable(L, index))
    ltide_map_tree(L, r->S, index, push_output, r);
  else
    lua_pushvalue(L, index);
}

/* Upvalues: graph, inputs, results. */
static int lgraphed(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_graph *g = ltide_check_graph(L, lua_upvalueindex(1), "graph");
  int n = (int)lua_rawlen(L, lua_upvalueindex(2));
  if (lua_gettop(L) != n)
    return ltide_error(L, "ArgumentError", "graphed callable: got %d arguments, expected %d as in the sample",
                       lua_gettop(L), n);
  luaL_checkstack(L, n + 8, "graphed callable: too many arguments");
  for (int k = 1; k <= n; k++) {
    lua_rawgeti(L, lua_upvalueindex(2), k);
    check_like(L, S, k, ltide_check_tensor(L, S, n + k, "input"));
  }
  for (int k = 1; k <= n; k++) {
    tide_tensor *x = ltide_check_tensor(L, S, k, "x"), *input = ltide_check_tensor(L, S, n + k, "input");
    if (!tide_tensor_same_view(x, input)) ltide_try(L, tide_copy(input, x, true));
  }
  ltide_try(L, tide_graph_replay(g));
  lua_pushvalue(L, lua_upvalueindex(3));
  int results = lua_gettop(L);
  lua_getfield(L, results, "n");
  int count = (int)lua_tointeger(L, -1);
  luaL_checkstack(L, 2 * count, "graphed callable: too many results");
  lua_createtable(L, count, 0);
  int out = lua_gettop(L);
  replayed r = {S, g};
  for (int k = 1; k <= count; k++) {
    lua_rawgeti(L, results, k);
    push_result(L, &r, lua_gettop(L));
    lua_rawseti(L, out, k);
    lua_pop(L, 1);
  }
  for (int k = 1; k <= count; k++) lua_rawgeti(L, out, k);
  return count;
}

/* ---- make_graphed_callables ---- */

/* Pushes the graphed form of the function at fn. */
static void push_graphed(lua_State *L, ltide_state *S, int fn, int args, lua_Integer i, lua_Integer calls, int pool) {
  if (!is_callable(L, fn))
    ltide_error(L, "ArgumentError", "make_graphed_callables: callables[%I]: got %s, expected a function", i,
                ltide_typename(L, fn));
  push_inputs(L, S, args, i);
  int inputs = lua_gettop(L);
  tide_stream *side = push_side(L, S, inputs);
  run_warm_up(L, fn, inputs, calls, side);
  tide_graph **u = ltide_new_graph(L);
  int graph = lua_gettop(L);
  ltide_try(L, tide_graph_new(u, false));
  lua_pushcfunction(L, ltide_cuda_graph);
  lua_pushvalue(L, graph);
  lua_createtable(L, 0, 2);
  lua_pushvalue(L, pool);
  lua_setfield(L, -2, "pool");
  lua_pushvalue(L, graph - 1);
  lua_setfield(L, -2, "stream");
  lua_pushcfunction(L, record);
  lua_pushvalue(L, fn);
  lua_pushvalue(L, inputs);
  lua_call(L, 5, 1);
  ltide_enter(L);
  lua_pushvalue(L, graph);
  lua_pushvalue(L, inputs);
  lua_pushvalue(L, graph + 1);
  lua_pushcclosure(L, lgraphed, 3);
  lua_replace(L, inputs);
  lua_settop(L, inputs);
}

static int lmake_graphed_callables(lua_State *L) {
  static const char *const keys[] = {"num_warmup_iters", "pool", NULL};
  ltide_state *S = ltide_enter(L);
  lua_settop(L, 3);
  bool single = is_callable(L, 1);
  if (!single && !lua_istable(L, 1)) return ltide_arg_error(L, 1, "callables", "a function or a table of functions");
  if (!lua_istable(L, 2)) return ltide_arg_error(L, 2, "sample_args", "a table of tensors, one for each function");
  if (!lua_isnil(L, 3) && !lua_istable(L, 3))
    return ltide_arg_error(L, 3, "opts", "a table {num_warmup_iters=, pool=}");
  int opts = lua_istable(L, 3) ? 3 : 0;
  if (opts) ltide_check_keys(L, opts, keys);
  lua_Integer calls = check_warmup(L, opts), n = single ? 1 : (lua_Integer)lua_rawlen(L, 1);
  if (!single && (lua_Integer)lua_rawlen(L, 2) != n)
    return ltide_error(L, "ArgumentError",
                       "make_graphed_callables: sample_args: got %I tables, expected %I, one a function",
                       (lua_Integer)lua_rawlen(L, 2), n);
  if (opts && ltide_rawfield(L, opts, "pool") != LUA_TNIL)
    ltide_check_graph_pool(L, -1, "pool");
  else
    ltide_graph_pool_handle(L);
  int pool = lua_gettop(L);
  if (single) {
    push_graphed(L, S, 1, 2, 1, calls, pool);
    return 1;
  }
  lua_createtable(L, (int)n, 0);
  int out = lua_gettop(L);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    lua_rawgeti(L, 2, i);
    push_graphed(L, S, out + 1, out + 2, i, calls, pool);
    lua_rawseti(L, out, i);
    lua_settop(L, out);
  }
  return 1;
}

void ltide_open_graphed(lua_State *L) {
#define PATH "tide.cuda."
  static ltide_row rows[] = {
#include "api/graphed.def"
      {0}};
  ltide_register_rows(L, "tide.cuda", rows);
}
