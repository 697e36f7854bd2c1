/* graph.c: tide.cuda.CUDAGraph and the block that captures one.
 *
 * A handle holds one reference; a pool token holds one to its pool. The block tide.cuda.graph selects a stream of its
 * own, one for each device and each Lua state, so that states on several threads never meet on one. When it is left in
 * order it ends the capture, and an error of that is raised there; when it is left by an error, or because its
 * coroutine is closed, the capture is dropped and that error goes on. Collection may end the last reference of a graph
 * at any moment, inside another capture too: core then lets it go later.
 *
 * Invariant: what the block has changed is changed back before anything is raised. */

#include "graph.h"
#include "call/each.h"
#include "call/did_you_mean.h"
#include "call/block.h"
#include "device.h"
#include "tensor/tensor.h"

#define GRAPH_META "tide.cuda.CUDAGraph"
#define POOL_META  "tide.GraphPool"

/* {==== Pool tokens */

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
  return ltide_give_boolean(L, a && b && *a == *b);
}

static int pool_tostring(lua_State *L) {
  return lua_pushfstring(L, "tide.cuda.graph_pool(%I)",
                         (lua_Integer)tide_mempool_id(ltide_check_graph_pool(L, 1, "token"))),
         1;
}

static int lgraph_pool_handle(lua_State *L, ltide_call *c) {
  return ltide_give(L, tide_mempool_new((tide_mempool **)ltide_new_pointer(L, POOL_META), TIDE_ALL_DEVICES));
}

/* {==== Graphs */

tide_graph *ltide_check_graph(lua_State *L, int arg, const char *name) {
  tide_graph **u = ltide_test_meta(L, arg, ltide_graph_of(ltide_enter(L))->meta);
  if (!u || !*u) ltide_arg_error(L, arg, name, "a tide.cuda.CUDAGraph");
  return *u;
}

tide_graph **ltide_new_graph(lua_State *L) { return (tide_graph **)ltide_new_pointer(L, GRAPH_META); }

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

/* Of the table of methods, which it is called with: what is in there is found without a call. */
static int graph_lacks(lua_State *L) { return ltide_no_field(L, "CUDAGraph", ltide_check_text(L, 2, "key"), 1, ""); }

/* CUDAGraph([{keep_graph=}]); arg 1 is the class itself. */
static int lgraph_new(lua_State *L) {
  ltide_enter(L);
  lua_remove(L, 1);
  ltide_args a = ltide_split(L, 0);
  ltide_check_count(L, a, 0);
  ltide_check_keys(L, a.opts, LTIDE_NAMES("keep_graph"));
  bool keep = ltide_opt_boolean(L, a.opts, "keep_graph", false);
  return ltide_give(L, tide_graph_new(ltide_new_graph(L), keep));
}

typedef struct capture_options {
  tide_mempool *pool;
  tide_stream *stream;
  int mode;
  int inputs; /* where the table of them is on the stack, or 0 */
} capture_options;

/* The options at arg, a table or 0, whose keys are known. */
static capture_options get_options(lua_State *L, ltide_state *S, int arg) {
  static const char *const modes[] = {"global", "thread_local", "relaxed"};
  capture_options o = {NULL, NULL, TIDE_CAPTURE_THREAD_LOCAL, 0};
  if (ltide_push_option(L, arg, "inputs")) {
    if (!lua_istable(L, -1)) ltide_arg_error(L, -1, "inputs", "a table of tensors by name");
    o.inputs = lua_gettop(L);
  }
  int top = lua_gettop(L);
  if (ltide_push_option(L, arg, "pool")) ltide_hold_pool(L, S, o.pool = ltide_check_graph_pool(L, -1, "pool"));
  if (ltide_push_option(L, arg, "stream")) ltide_hold_stream(L, S, o.stream = ltide_check_stream(L, -1, "stream"));
  if (ltide_push_option(L, arg, "capture_error_mode")) {
    const char *mode = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    for (o.mode = 0; o.mode < 3 && strcmp(mode, modes[o.mode]); o.mode++) {}
    if (o.mode == 3) ltide_arg_error(L, -1, "capture_error_mode", "'global', 'thread_local' or 'relaxed'");
    if (o.mode == TIDE_CAPTURE_GLOBAL) ltide_need(L, TIDE_LUA_GLOBALS, "graph: capture_error_mode");
  }
  lua_settop(L, top);
  return o;
}

enum { INPUT_TEXT = 24 };

/* The name of an input, which is the key at arg: a string, or an integer from 1 on. */
static const char *input_name(lua_State *L, int arg, char *text, const char *what) {
  int exact;
  if (lua_type(L, arg) == LUA_TSTRING) return lua_tostring(L, arg);
  lua_Integer i = lua_tointegerx(L, arg, &exact);
  if (lua_type(L, arg) != LUA_TNUMBER || !exact || i < 1)
    ltide_error(L, "ArgumentError", "%s: bad key, got %s, expected names, or places from 1 on", what,
                luaL_tolstring(L, arg, NULL));
  snprintf(text, INPUT_TEXT, "%lld", (long long)i);
  return text;
}

typedef struct input_list {
  int n;
  const char *name[TIDE_GRAPH_INPUTS];
  const tide_tensor *x[TIDE_GRAPH_INPUTS];
  char text[TIDE_GRAPH_INPUTS][INPUT_TEXT]; /* of places */
} input_list;

/* The tensors of the table at arg, which holds them and the names. */
static void read_inputs(lua_State *L, ltide_state *S, input_list *list, int arg, const char *what) {
  list->n = 0;
  for (lua_pushnil(L); lua_next(L, arg); lua_pop(L, 1)) {
    if (list->n == TIDE_GRAPH_INPUTS)
      ltide_error(L, "ValueError", "%s: too many inputs, got more than %d", what, TIDE_GRAPH_INPUTS);
    const char *name = input_name(L, -2, list->text[list->n], what);
    list->x[list->n] = ltide_check_tensor(L, S, -1, name);
    list->name[list->n++] = name;
  }
}

/* On failure nothing is captured. */
static tide_status begin_with(tide_graph *g, tide_stream *stream, const capture_options *o, const input_list *list) {
  tide_status status = tide_graph_begin(g, stream, o->pool, o->mode);
  if (status != TIDE_OK) return status;
  for (int i = 0; i < list->n && status == TIDE_OK; i++) status = tide_graph_input(g, list->name[i], list->x[i]);
  if (status != TIDE_OK) tide_graph_abort(g);
  return status;
}

static int lgraph_capture_begin(lua_State *L, ltide_call *c) {
  capture_options o = get_options(L, c->S, c->opts);
  input_list list;
  list.n = 0;
  if (o.inputs) read_inputs(L, c->S, &list, o.inputs, "capture_begin");
  return ltide_done(L, begin_with(c->v[0].object, NULL, &o, &list));
}

static int lgraph_bind(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_graph *g = ltide_check_graph(L, 1, "graph");
  input_list list;
  if (lua_gettop(L) != 2 || !lua_istable(L, 2)) return ltide_arg_error(L, 2, "inputs", "a table of tensors by name");
  read_inputs(L, S, &list, 2, "bind");
  return ltide_done(L, tide_graph_bind(g, list.name, list.x, list.n));
}

static int lgraph_capture_end(lua_State *L, ltide_call *c) { return ltide_done(L, tide_graph_end(c->v[0].object)); }
static int lgraph_instantiate(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_graph_instantiate(c->v[0].object));
}
static int lgraph_replay(lua_State *L, ltide_call *c) { return ltide_done(L, tide_graph_replay(c->v[0].object)); }
static int lgraph_reset(lua_State *L, ltide_call *c) { return ltide_done(L, tide_graph_reset(c->v[0].object)); }
static int lgraph_enable_debug_mode(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_graph_enable_debug(c->v[0].object));
}

/* g:replay() costs no look at the row. */
static int lreplay(lua_State *L) {
  if (lua_gettop(L) != 1) return ltide_run(L);
  return ltide_done(L, tide_graph_replay(ltide_check_graph(L, 1, "graph")));
}

static int lgraph_pool(lua_State *L, ltide_call *c) {
  tide_mempool *pool, **u = (tide_mempool **)ltide_new_pointer(L, POOL_META);
  ltide_try(L, tide_graph_pool(&pool, c->v[0].object));
  tide_mempool_retain(pool);
  *u = pool;
  return 1;
}

static int lgraph_pools(lua_State *L, ltide_call *c) {
  lua_createtable(L, 1, 0);
  lgraph_pool(L, c);
  lua_rawseti(L, -2, 1);
  return 1;
}

static int lgraph_debug_dump(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_graph_dump(c->v[0].object, c->v[1].text));
}

static int lgraph_register_generator_state(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_graph_register_generator(c->v[0].object, c->v[1].generator));
}

static int lgraph_output(lua_State *L, ltide_call *c) {
  return ltide_give(L, tide_graph_output(ltide_result(L, c), c->v[0].object, c->v[1].tensor));
}

static int lset_debug(lua_State *L, ltide_call *c) {
  tide_graph_debug_all(c->v[0].boolean);
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
  luaL_getsubtable(L, LUA_REGISTRYINDEX, "tide.cuda.graph.streams"); /* by the number of the device */
  if (lua_rawgeti(L, -1, device) == LUA_TNIL || !tide_stream_is_live(ltide_check_stream(L, -1, "stream"))) {
    lua_pop(L, 1);
    ltide_try(L, tide_stream_new(ltide_new_stream(L), device, 0));
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, device);
  }
  lua_remove(L, -2);
  return ltide_check_stream(L, -1, "stream");
}

/* As torch does: nothing old is running, and what is cached elsewhere can become the graph's. A capture needs neither,
 * so a script that may not wait, or not touch what other states see, does without. */
static tide_status clear_device(lua_State *L, int device) {
  tide_status status = ltide_granted(L, TIDE_LUA_WAITS) ? tide_device_synchronize(device) : TIDE_OK;
  return status == TIDE_OK && ltide_granted(L, TIDE_LUA_GLOBALS) ? tide_memory_empty_cache(TIDE_CURRENT) : status;
}

static tide_status enter_graph(lua_State *L, graph_block *b, tide_graph *g, const capture_options *o,
                               tide_stream *stream, const input_list *list) {
  int device = tide_stream_device(stream);
  tide_status status = clear_device(L, device);
  if (status == TIDE_OK) status = tide_current_stream(&b->stream, device);
  if (status != TIDE_OK) return status;
  tide_stream_retain(b->stream);
  b->device = tide_current_device();
  status = tide_current_set_stream(stream);
  if (status == TIDE_OK) status = tide_current_set_device(device);
  if (status == TIDE_OK) status = begin_with(g, stream, o, list);
  if (status != TIDE_OK) restore(b);
  return status;
}

static int lcuda_graph(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_graph *g = ltide_check_graph(L, 1, "cuda_graph");
  int opts = lua_istable(L, 2) ? 2 : 0, fn = opts || lua_isnil(L, 2) ? 3 : 2;
  if (!lua_isnoneornil(L, fn) && !lua_isfunction(L, fn)) return ltide_arg_error(L, fn, "fn", "a function or nothing");
  if (!lua_isfunction(L, fn)) fn = 0;
  ltide_check_keys(L, opts, LTIDE_NAMES("pool", "stream", "capture_error_mode", "inputs"));
  capture_options o = get_options(L, S, opts);
  input_list list;
  list.n = 0;
  if (o.inputs) {
    read_inputs(L, S, &list, o.inputs, "graph");
    lua_settop(L, o.inputs - 1); /* the options hold it */
  }
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
  ltide_try(L, enter_graph(L, b, g, &o, stream, &list));
  tide_graph_retain(g);
  b->graph = g;
  return ltide_block_open(L, fn);
}

/* {==== Opening */

#include <rows/cudagraph.inc>

#include <rows/graph_cuda.inc>

#include <rows/graph_graphs.inc>

void ltide_open_graph(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {
      {"__gc", graph_gc}, {"__tostring", graph_tostring}, {"__newindex", ltide_read_only}, {0}};
  static const luaL_Reg class[] = {{"__call", lgraph_new}, {0}}, pool_meta[] = LTIDE_META(pool_, gc, eq, tostring);
  ltide_new_class(L, POOL_META, pool_meta, NULL, NULL, NULL);
  ltide_graph_of(S)->meta = ltide_new_class(L, GRAPH_META, meta, "CUDAGraph", cudagraph_rows, NULL);
  luaL_getmetatable(L, GRAPH_META);
  lua_getfield(L, -1, "__index");
  lua_createtable(L, 0, 1);
  ltide_set_function(L, "__index", graph_lacks);
  lua_setmetatable(L, -2);
  lua_pop(L, 2);
  lua_getfield(L, -1, "cuda");
  ltide_register_rows(L, "tide.cuda", graph_cuda_rows);
  lua_createtable(L, 0, 1); /* the class */
  ltide_set_meta(L, "tide.cuda.CUDAGraph", class);
  lua_setfield(L, -2, "CUDAGraph");
  ltide_open_graphed(L);
  ltide_register_also(L, "graphs", graph_cuda_rows);
  lua_getfield(L, -1, "graphs");
  ltide_register_rows(L, "tide.cuda.graphs", graph_graphs_rows);
  lua_getfield(L, -2, "CUDAGraph");
  lua_setfield(L, -2, "CUDAGraph");
  lua_getfield(L, -2, "make_graphed_callables");
  lua_setfield(L, -2, "make_graphed_callables");
  lua_pop(L, 2);
}

LTIDE_PART_SIZE(graph)
