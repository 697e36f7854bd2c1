/* graphed.c: tide.cuda.make_graphed_callables: functions of tensors turned into graphs. They are captured in Lua, in
 * device/graphed.lua; the closure that copies its arguments over the static inputs, replays and gives the static
 * results, by handles that know which call they belong to, is here. */
#include "call/each.h"
#include "graph.h"
#include "tensor/tensor.h"

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
              "graphed callable: argument %d: got %s%s, expected %s, like the sample", arg, got,
              x && tide_tensor_device(x) < 0 ? " on cpu" : "", expected);
}

/* The captured tensor at 1 by a new handle. Upvalue: the graph, which the caller holds. */
static int output(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const tide_tensor *x = ltide_check_tensor(L, S, 1, "output");
  ltide_tensor *u = ltide_new_tensor(L, S);
  return ltide_give(L, tide_graph_output(&u->t, lua_touserdata(L, lua_upvalueindex(1)), x));
}

/* Pushes the captured result at index as this call's: tensors by new handles, trees of them copied, the rest as it
 * is. */
static void push_result(lua_State *L, ltide_state *S, tide_graph *g, int index) {
  tide_tensor *x = ltide_test_tensor(L, S, index);
  if (x) {
    ltide_tensor *u = ltide_new_tensor(L, S);
    ltide_try(L, tide_graph_output(&u->t, g, x));
  } else if (lua_istable(L, index)) {
    lua_pushlightuserdata(L, g);
    lua_pushcclosure(L, output, 1);
    ltide_map_tree(L, index);
  } else
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
  for (int k = 1; k <= count; k++) {
    lua_rawgeti(L, results, k);
    push_result(L, S, g, lua_gettop(L));
    lua_rawseti(L, out, k);
    lua_pop(L, 1);
  }
  for (int k = 1; k <= count; k++) lua_rawgeti(L, out, k);
  return count;
}

static int script_replayer(lua_State *L) { return lua_pushcclosure(L, lgraphed, 3), 1; }
static int script_check_pool(lua_State *L) { return ltide_check_graph_pool(L, 1, "pool"), 0; }
static int script_new_graph(lua_State *L) { return ltide_try(L, tide_graph_new(ltide_new_graph(L), false)), 1; }

void ltide_open_graphed(lua_State *L) {
#include <rows/graphed.inc>
  LTIDE_GIVE(L, "device/graphed.c", replayer, check_pool, new_graph);
  ltide_register_rows(L, "tide.cuda", graphed_rows);
}
