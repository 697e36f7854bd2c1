/* graph.c: tide.cuda.CUDAGraph and the block that captures one.
 *
 * A handle holds one reference; a pool token holds one to its pool. The block tide.cuda.graph selects a stream of its
 * own, one for each device and each Lua state, so that states on several threads never meet on one. When it is left in
 * order it ends the capture, and an error of that is raised there; when it is left by an error, or because its
 * coroutine is closed, the capture is dropped and that error goes on. Collection may end the last reference of a graph
 * at any moment, inside another capture too: core then lets it go later.
 *
 * Invariant: what the block has changed is changed back before anything is raised. */
#include <string.h>

#include "row.h"
#include "graph.h"
#include "names.h"
#include "mempool.h"

#define GRAPH_META "tide.cuda.CUDAGraph"
#define POOL_META  "tide.GraphPool"

static const char key_streams; /* registry: device -> the stream that graphs are captured on */

/* {==== Pool tokens */

static tide_mempool **new_pool(lua_State *L) {
  tide_mempool **u = ltide_new_object(L, sizeof *u, 0);
  *u = NULL;
  ltide_setmetatable(L, POOL_META);
  return u;
}

tide_mempool *ltide_test_graph_pool(lua_State *L, int arg) {
  tide_mempool **u = ltide_test_object(L, arg, POOL_META);
  return u ? *u : ltide_test_mempool(L, arg);
}

tide_mempool *ltide_check_graph_pool(lua_State *L, int arg, const char *name) {
  tide_mempool *pool = ltide_test_graph_pool(L, arg);
  if (!pool) ltide_arg_error(L, arg, name, "a token of graph_pool_handle() or g:pool(), or a tide.cuda.MemPool");
  return pool;
}

static int pool_gc(lua_State *L) {
  tide_mempool_release(ltide_take_pointer(L, POOL_META));
  return 0;
}

static int pool_eq(lua_State *L) {
  tide_mempool **a = ltide_test_object(L, 1, POOL_META), **b = ltide_test_object(L, 2, POOL_META);
  lua_pushboolean(L, a && b && *a == *b);
  return 1;
}

static int pool_tostring(lua_State *L) {
  lua_pushfstring(L, "tide.cuda.graph_pool(%I)", (lua_Integer)tide_mempool_id(ltide_check_graph_pool(L, 1, "token")));
  return 1;
}

int ltide_graph_pool_handle(lua_State *L) {
  ltide_enter(L);
  tide_mempool **u = new_pool(L);
  ltide_try(L, tide_mempool_new(u, TIDE_ALL_DEVICES));
  return 1;
}

static int lgraph_pool_handle(lua_State *L) { return ltide_graph_pool_handle(L); }

/* {==== Graphs */

tide_graph *ltide_check_graph(lua_State *L, int arg, const char *name) {
  tide_graph **u = ltide_test_object(L, arg, GRAPH_META);
  if (!u || !*u) ltide_arg_error(L, arg, name, "a tide.cuda.CUDAGraph");
  return *u;
}

tide_graph **ltide_new_graph(lua_State *L) {
  tide_graph **u = ltide_new_object(L, sizeof *u, 0);
  *u = NULL;
  ltide_setmetatable(L, GRAPH_META);
  return u;
}

static int graph_gc(lua_State *L) {
  tide_graph_release(ltide_take_pointer(L, GRAPH_META));
  return 0;
}

static int graph_tostring(lua_State *L) {
  tide_graph *g = ltide_check_graph(L, 1, "graph");
  if (tide_graph_device(g) < 0)
    lua_pushliteral(L, "tide.cuda.CUDAGraph(empty)");
  else
    lua_pushfstring(L, "tide.cuda.CUDAGraph(device=cuda:%d%s)", tide_graph_device(g),
                    tide_graph_is_capturing(g) ? ", capturing" : "");
  return 1;
}

/* Upvalue 1: the methods. */
static int graph_index(lua_State *L) {
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  return ltide_no_field(L, "CUDAGraph", ltide_check_text(L, 2, "key"), lua_upvalueindex(1), "");
}

/* CUDAGraph([{keep_graph=}]); arg 1 is the class itself. */
static int lgraph_new(lua_State *L) {
  static const char *const keys[] = {"keep_graph", NULL};
  ltide_enter(L);
  bool keep = false;
  if (lua_istable(L, 2)) {
    ltide_check_keys(L, 2, keys);
    if (ltide_rawfield(L, 2, "keep_graph") != LUA_TNIL && !lua_isboolean(L, -1))
      return ltide_arg_error(L, -1, "keep_graph", "a boolean");
    keep = lua_toboolean(L, -1);
  } else if (!lua_isnoneornil(L, 2)) {
    return ltide_arg_error(L, 2, "opts", "a table {keep_graph = boolean}");
  }
  tide_graph **u = ltide_new_graph(L);
  ltide_try(L, tide_graph_new(u, keep));
  return 1;
}

typedef struct capture_options {
  tide_mempool *pool;
  tide_stream *stream;
  int mode;
} capture_options;

/* The options at arg, a table or 0. */
static capture_options check_options(lua_State *L, int arg, const char *const *keys) {
  static const char *const modes[] = {"global", "thread_local", "relaxed"};
  capture_options o = {NULL, NULL, TIDE_CAPTURE_THREAD_LOCAL};
  if (!arg) return o;
  ltide_check_keys(L, arg, keys);
  if (ltide_rawfield(L, arg, "pool") != LUA_TNIL) o.pool = ltide_check_graph_pool(L, -1, "pool");
  if (ltide_rawfield(L, arg, "stream") != LUA_TNIL) o.stream = ltide_check_stream(L, -1, "stream");
  if (ltide_rawfield(L, arg, "capture_error_mode") != LUA_TNIL) {
    const char *mode = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    for (o.mode = 0; o.mode < 3 && strcmp(mode, modes[o.mode]); o.mode++) {}
    if (o.mode == 3) ltide_arg_error(L, -1, "capture_error_mode", "'global', 'thread_local' or 'relaxed'");
  }
  if (o.pool) ltide_hold_pool(L, ltide_enter(L), o.pool);
  if (o.stream) ltide_hold_stream(L, ltide_enter(L), o.stream);
  lua_pop(L, 3);
  return o;
}

static int lgraph_capture_begin(lua_State *L) {
  static const char *const keys[] = {"pool", "capture_error_mode", NULL};
  ltide_enter(L);
  tide_graph *g = ltide_check_graph(L, 1, "graph");
  if (!lua_isnoneornil(L, 2) && !lua_istable(L, 2))
    return ltide_arg_error(L, 2, "opts", "a table {pool=, capture_error_mode=}");
  capture_options o = check_options(L, lua_istable(L, 2) ? 2 : 0, keys);
  ltide_try(L, tide_graph_begin(g, NULL, o.pool, o.mode));
  return 0;
}

#define GRAPH_METHOD(name, call)                                                                                       \
  static int lgraph_##name(lua_State *L) {                                                                             \
    ltide_enter(L);                                                                                                    \
    ltide_no_options(L, 1);                                                                                            \
    ltide_try(L, call(ltide_check_graph(L, 1, "graph")));                                                              \
    return 0;                                                                                                          \
  }
GRAPH_METHOD(capture_end, tide_graph_end)
GRAPH_METHOD(instantiate, tide_graph_instantiate)
GRAPH_METHOD(replay, tide_graph_replay)
GRAPH_METHOD(reset, tide_graph_reset)
GRAPH_METHOD(enable_debug_mode, tide_graph_enable_debug)

static int lgraph_pool(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  tide_graph *g = ltide_check_graph(L, 1, "graph");
  tide_mempool *pool, **u = new_pool(L);
  ltide_try(L, tide_graph_pool(&pool, g));
  tide_mempool_retain(pool);
  *u = pool;
  return 1;
}

static int lgraph_pools(lua_State *L) {
  lua_settop(L, 1);
  lgraph_pool(L);
  lua_createtable(L, 1, 0);
  lua_insert(L, -2);
  lua_rawseti(L, -2, 1);
  return 1;
}

static int lgraph_debug_dump(lua_State *L) {
  tide_graph *g = ltide_check_graph(L, 1, "graph");
  ltide_try(L, tide_graph_dump(g, ltide_check_cstring(L, 2, "path", "the path of a file to write")));
  return 0;
}

static int lgraph_register_generator_state(lua_State *L) {
  tide_graph *g = ltide_check_graph(L, 1, "graph");
  ltide_try(L, tide_graph_register_generator(g, ltide_check_generator(L, 2, "generator")));
  return 0;
}

static int lgraph_output(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_graph *g = ltide_check_graph(L, 1, "graph");
  tide_tensor *x = ltide_check_tensor(L, S, 2, "x");
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_graph_output(&u->t, g, x));
  return 1;
}

static int lis_current_stream_capturing(lua_State *L) {
  lua_pushboolean(L, tide_current_is_capturing());
  return 1;
}

static int lset_debug(lua_State *L) {
  if (!lua_isboolean(L, 1)) return ltide_arg_error(L, 1, "enabled", "a boolean");
  tide_graph_debug_all(lua_toboolean(L, 1));
  return 0;
}

/* {==== The block */

typedef struct graph_block {
  tide_graph *graph;
  tide_stream *stream; /* the current one before, of the device of the captured one */
  int device;          /* the current device before */
} graph_block;

static void restore(graph_block *b) {
  tide_current_set_stream(b->stream);
  tide_current_set_device(b->device);
  tide_stream_release(b->stream);
}

static void leave_graph(lua_State *L, void *data) {
  graph_block *b = data;
  tide_status status = TIDE_OK;
  if (!L) {
    tide_stream_release(b->stream);
    tide_graph_release(b->graph);
    return;
  }
  if (ltide_left_in_order(data))
    status = tide_graph_end(b->graph);
  else
    tide_graph_abort(b->graph);
  restore(b);
  tide_graph_release(b->graph);
  ltide_try(L, status);
}

/* Pushes the stream of this state on which graphs of the current device are captured. A reset ends it. */
static tide_stream *push_side_stream(lua_State *L) {
  int device = tide_current_device();
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_streams) != LUA_TTABLE) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_streams);
    lua_remove(L, -2);
  }
  if (lua_rawgeti(L, -1, device) == LUA_TNIL || !tide_stream_is_live(ltide_check_stream(L, -1, "stream"))) {
    lua_pop(L, 1);
    ltide_try(L, tide_stream_new(ltide_new_stream(L), device, 0));
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, device);
  }
  lua_remove(L, -2);
  return ltide_check_stream(L, -1, "stream");
}

/* As torch does: nothing old is running, and what is cached elsewhere can become the graph's. */
static tide_status clear_device(int device) {
  tide_status status = tide_device_synchronize(device);
  return status == TIDE_OK ? tide_memory_empty_cache(TIDE_CURRENT) : status;
}

static tide_status enter_graph(graph_block *b, tide_graph *g, const capture_options *o, tide_stream *stream) {
  int device = tide_stream_device(stream);
  tide_status status = clear_device(device);
  if (status == TIDE_OK) status = tide_current_stream(&b->stream, device);
  if (status != TIDE_OK) return status;
  tide_stream_retain(b->stream);
  b->device = tide_current_device();
  status = tide_current_set_stream(stream);
  if (status == TIDE_OK) status = tide_current_set_device(device);
  if (status == TIDE_OK) status = tide_graph_begin(g, stream, o->pool, o->mode);
  if (status != TIDE_OK) restore(b);
  return status;
}

int ltide_cuda_graph(lua_State *L) {
  static const char *const keys[] = {"pool", "stream", "capture_error_mode", NULL};
  ltide_enter(L);
  tide_graph *g = ltide_check_graph(L, 1, "cuda_graph");
  int opts = lua_istable(L, 2) ? 2 : 0, fn = opts || lua_isnil(L, 2) ? 3 : 2;
  if (!lua_isnoneornil(L, fn) && !lua_isfunction(L, fn)) return ltide_arg_error(L, fn, "fn", "a function or nothing");
  if (!lua_isfunction(L, fn)) fn = 0;
  capture_options o = check_options(L, opts, keys);
  tide_stream *stream = o.stream;
  if (!stream) {
    stream = push_side_stream(L);
    lua_pop(L, 1); /* the registry holds it */
  }
  if (tide_thread_is_capturing())
    return ltide_error(L, "StateError", "graph: this thread captures another graph, expected one at a time");
  ltide_collect_ahead(L); /* what dead tensors hold cannot be given back during the capture */
  ltide_enter_again(L);
  graph_block *b = ltide_block_new(L, "cuda.graph", fn, leave_graph, sizeof *b);
  ltide_try(L, enter_graph(b, g, &o, stream));
  tide_graph_retain(g);
  b->graph = g;
  return ltide_block_open(L, fn);
}

/* {==== Opening */

static ltide_row cudagraph_rows[] = {
#include "api/cudagraph.def"
    {0}};

#define PATH "tide.cuda."
static ltide_row graph_cuda_rows[] = {
#include "api/graph_cuda.def"
    {0}};

#undef PATH
#define PATH "tide.cuda.graphs."
static ltide_row graph_graphs_rows[] = {
#include "api/graph_graphs.def"
    {0}};

/* tide.cuda.graphs: aliases of the functions in tide.cuda, which is at the top of the stack. */
static void open_aliases(lua_State *L) {
  static const char *const names[] = {"CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing",
                                      "make_graphed_callables"};
  luaL_getsubtable(L, -1, "graphs");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    lua_getfield(L, -2, names[i]);
    lua_setfield(L, -2, names[i]);
  }
  ltide_register_rows(L, "tide.cuda.graphs", graph_graphs_rows);
  lua_pop(L, 1);
}

void ltide_open_graph(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {
      {"__gc", graph_gc}, {"__tostring", graph_tostring}, {"__newindex", ltide_read_only}, {0}};
  static const luaL_Reg pool_meta[] = {{"__gc", pool_gc}, {"__eq", pool_eq}, {"__tostring", pool_tostring}, {0}};
  (void)S;
  ltide_newmetatable(L, POOL_META);
  luaL_setfuncs(L, pool_meta, 0);
  lua_pop(L, 1);
  ltide_newmetatable(L, GRAPH_META);
  luaL_setfuncs(L, meta, 0);
  lua_createtable(L, 0, 12);
  ltide_register_rows(L, "CUDAGraph", cudagraph_rows);
  lua_pushcclosure(L, graph_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  lua_getfield(L, -1, "cuda");
  ltide_register_rows(L, "tide.cuda", graph_cuda_rows);
  lua_createtable(L, 0, 1); /* the class */
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, lgraph_new);
  lua_setfield(L, -2, "__call");
  ltide_protect(L, "tide.cuda.CUDAGraph");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "CUDAGraph");
  ltide_open_graphed(L);
  open_aliases(L);
  lua_pop(L, 1);
}
