/* parallel.c: tide.parallel: one function on several devices at once.
 *
 * What is decided is written in Lua, in lua/parallel.lua, which says how. Here are the arguments, and what it cannot
 * do: copies between devices by the collectives. The coroutines of replicas are in parallel_replica.c.
 *
 * After a collective the source's current stream goes on behind the copies, and the source's own part of the work with
 * it. So data_parallel lets a side stream of each source stand for it meanwhile, which waits for what was queued
 * before; at the end the current stream waits for it, and what is written to the source after that is ordered as ever.
 * All is queued: nothing here waits for a device, unless memory of the host takes part.
 *
 * Invariant: the streams and the device that are current stay what they are. */
#include <string.h>

#include "row.h"
#include "scope.h"
#include "script.h"
#include "tide/comm.h"
#include "tide/device.h"
#include "tree.h"

#define SIDE_META "tide.parallel.Side"

/* {==== Lists of devices */

/* Devices in the order in which they take part: accelerators, each once, or the CPU alone. */
typedef struct device_list {
  int n, id[TIDE_MAX_DEVICES];
} device_list;

/* The device at the top of the stack, which stands behind these in the table. */
static int check_one(lua_State *L, const device_list *before) {
  int device = ltide_check_device(L, lua_gettop(L), "devices", LTIDE_CPU_OK);
  if (device == TIDE_CURRENT) device = tide_current_device();
  const tide_device_props *props;
  if (device >= 0) ltide_try(L, tide_device_get_props(&props, device));
  for (int k = 0; k < before->n; k++) {
    const char *what = before->id[k] == device               ? "twice"
                       : (before->id[k] < 0) != (device < 0) ? "beside another kind of device"
                                                             : NULL;
    if (what)
      ltide_error(L, "DeviceError", "%s: devices: got %s %s, expected accelerators, each once, or the cpu alone",
                  ltide_function_name(L), device < 0 ? "cpu" : lua_pushfstring(L, "cuda:%d", device), what);
  }
  return device;
}

/* Pushes the list of devices at arg, all known to exist, and gives its index; of nil: every accelerator, or the CPU
 * where there is none. */
static int push_devices(lua_State *L, int arg) {
  device_list list = {0};
  if (lua_isnoneornil(L, arg)) {
    list.n = tide_device_count();
    for (int i = 0; i < list.n; i++) list.id[i] = i;
    if (!list.n) list.id[list.n++] = TIDE_CPU;
  } else {
    if (!lua_istable(L, arg)) ltide_arg_error(L, arg, "devices", "a table of devices");
    lua_Integer n = (lua_Integer)lua_rawlen(L, arg);
    if (n < 1 || n > TIDE_MAX_DEVICES)
      ltide_error(L, "ValueError", "%s: devices: got a table of %I, expected 1 to %d", ltide_function_name(L), n,
                  TIDE_MAX_DEVICES);
    ltide_check_unnamed(L, arg, n, "devices");
    for (; list.n < n; list.n++) {
      lua_rawgeti(L, arg, list.n + 1);
      list.id[list.n] = check_one(L, &list);
      lua_pop(L, 1);
    }
  }
  lua_createtable(L, list.n, 0);
  for (int i = 0; i < list.n; i++) {
    lua_pushinteger(L, list.id[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return lua_gettop(L);
}

/* The first n of a list of the chunk's. */
static device_list read_devices(lua_State *L, int arg, int n) {
  device_list list = {.n = n};
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, arg, i + 1);
    list.id[i] = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  return list;
}

static int current_device(void) { return tide_device_count() ? tide_current_device() : TIDE_CPU; }

/* device_size(device) -> bytes, processors; nothing for the CPU. */
static int script_device_size(lua_State *L) {
  const tide_device_props *p;
  int device = (int)lua_tointeger(L, 1);
  if (device < 0 || tide_device_get_props(&p, device) != TIDE_OK) return 0;
  lua_pushinteger(L, (lua_Integer)p->total_memory);
  lua_pushinteger(L, p->multi_processor_count);
  return 2;
}

static int script_device_object(lua_State *L) { return ltide_push_device(L, (int)lua_tointeger(L, 1)), 1; }

/* {==== Tensors, for the chunk */

/* device_of(value) -> its number; nothing where it is no tensor. */
static int script_device_of(lua_State *L) {
  const tide_tensor *x = ltide_test_tensor(L, ltide_enter(L), 1);
  return x ? ltide_give_integer(L, tide_tensor_device(x)) : 0;
}

static int script_dimensions(lua_State *L) {
  return ltide_give_integer(L, tide_tensor_ndim(ltide_check_tensor(L, ltide_enter(L), 1, "output")));
}

/* plain_list(list, n): a copy of it with the tables of shapes in their place. */
static int script_plain_list(lua_State *L) {
  lua_Integer n = lua_tointeger(L, 2);
  lua_createtable(L, (int)n, 0);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    ltide_plain_shape(L, -1);
    lua_rawseti(L, 3, i);
  }
  return 1;
}

/* Elements of a dimension of `size` in each of the parts for n devices; the last part may have fewer. */
static int64_t part_size(int64_t size, lua_Integer n) { return size / n + (size % n != 0); }

/* count_parts(x, dim, devices) -> parts, size. */
static int script_count_parts(lua_State *L) {
  const tide_tensor *x = ltide_check_tensor(L, ltide_enter(L), 1, "tree");
  lua_Integer n = lua_tointeger(L, 3);
  if (!tide_tensor_ndim(x))
    ltide_error(L, "ShapeError",
                "%s: got a tensor without dimensions, expected ones that can be cut; pass it as a number, or let "
                "replicate= copy it",
                ltide_function_name(L));
  int64_t size = tide_tensor_size(x)[ltide_check_dim(L, 2, tide_tensor_ndim(x), "dim")], each = part_size(size, n);
  lua_pushinteger(L, each ? size / each + (size % each != 0) : n); /* n empty parts, as torch has it */
  lua_pushinteger(L, size);
  return 2;
}

/* send_part(x, dim, devices, i, device) -> part i on the device; a view if x is there. */
static int script_send_part(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const tide_tensor *x = ltide_check_tensor(L, S, 1, "tree");
  int dim = ltide_check_dim(L, 2, tide_tensor_ndim(x), "dim"), device = (int)lua_tointeger(L, 5);
  int64_t size = tide_tensor_size(x)[dim], each = part_size(size, lua_tointeger(L, 3));
  int64_t start = each * (lua_tointeger(L, 4) - 1);
  ltide_tensor *u = ltide_new_tensor(L, S);
  tide_options o = {TIDE_DTYPE_NONE, device, false};
  tide_tensor *part;
  ltide_try(L, tide_narrow(&part, x, dim, start, size - start < each ? size - start : each));
  tide_status status = tide_to(&u->t, part, &o, device >= 0, false);
  tide_tensor_release(part);
  ltide_try(L, status);
  ltide_made(L, S);
  return 1;
}

static int script_move(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const tide_tensor *x = ltide_check_tensor(L, S, 1, "tree");
  tide_options o = {TIDE_DTYPE_NONE, (int)lua_tointeger(L, 2), false};
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_to(&u->t, x, &o, o.device >= 0, false));
  ltide_made(L, S);
  return 1;
}

/* Pushes a list of n closed handles. */
static void push_handles(lua_State *L, ltide_state *S, ltide_tensor **handles, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    handles[i] = ltide_new_tensor(L, S);
    lua_rawseti(L, -2, i + 1);
  }
}

/* send_copies(list, devices, n): lists of copies, by the number of the device; the first has the list itself. */
static int script_send_copies(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  int n = (int)lua_tointeger(L, 3), tensors = (int)lua_rawlen(L, 1);
  device_list devices = read_devices(L, 2, n);
  size_t most = (size_t)tensors * (size_t)n;
  tide_tensor **list = ltide_new_object(L, (size_t)tensors * sizeof *list, 0);
  tide_tensor **outs = ltide_new_object(L, most * sizeof *outs, 0);
  ltide_tensor **handles = ltide_new_object(L, most * sizeof *handles, 0);
  lua_createtable(L, n, 0);
  for (int k = 1; k < n; k++) {
    push_handles(L, S, handles + k * tensors, tensors);
    lua_rawseti(L, -2, k + 1);
  }
  ltide_check_tensors(L, S, 1, list, tensors, "tree");
  ltide_try(L, tide_comm_broadcast_coalesced(outs, list, tensors, devices.id, n, TIDE_COMM_BUFFER));
  for (int i = 0; i < tensors; i++) tide_tensor_release(outs[i]); /* the list itself */
  for (int i = tensors; i < tensors * n; i++) handles[i]->t = outs[i];
  ltide_made(L, S);
  return 1;
}

/* joins_to(first, x, dim): do they differ in the size of that dimension at most? */
static int script_joins_to(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  const tide_tensor *first = ltide_check_tensor(L, S, 1, "output"), *x = ltide_check_tensor(L, S, 2, "output");
  int ndim = tide_tensor_ndim(first), dim = ndim ? ltide_check_dim(L, 3, ndim, "dim") : 0;
  bool same = tide_tensor_ndim(x) == ndim && tide_tensor_dtype(x) == tide_tensor_dtype(first);
  for (int d = 0; same && d < ndim; d++) same = d == dim || tide_tensor_size(x)[d] == tide_tensor_size(first)[d];
  return ltide_give_boolean(L, same);
}

/* What is joined: tensor number i, or a vector of its one element. Pushes what keeps it alive. */
static tide_tensor *push_joinable(lua_State *L, ltide_state *S, int i) {
  const int64_t one = 1;
  lua_rawgeti(L, 1, i);
  tide_tensor *x = ltide_check_tensor(L, S, -1, "output");
  if (tide_tensor_ndim(x)) return x;
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_view(&u->t, x, &one, 1));
  lua_remove(L, -2);
  return u->t;
}

/* Host memory is joined where it is; the collective is for accelerators. */
static tide_status join(tide_tensor **out, tide_tensor *const *items, int n, int dim, int device) {
  if (tide_tensor_device(items[0]) >= 0) return tide_comm_gather(out, items, n, dim, device, NULL);
  tide_tensor *whole;
  tide_options o = {TIDE_DTYPE_NONE, device, false};
  tide_status status = tide_cat(&whole, items, n, dim, NULL);
  if (status != TIDE_OK) return status;
  status = tide_to(out, whole, &o, false, false);
  tide_tensor_release(whole);
  return status;
}

/* join(list, n, dim, device): tensors of which the others join to the first. */
static int script_join(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *items[TIDE_MAX_DEVICES];
  int n = (int)lua_tointeger(L, 2);
  luaL_checkstack(L, n + 4, "gather: too many outputs");
  for (int i = 0; i < n; i++) items[i] = push_joinable(L, S, i + 1);
  int dim = ltide_check_dim(L, 3, tide_tensor_ndim(items[0]), "dim");
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, join(&u->t, items, n, dim, (int)lua_tointeger(L, 4)));
  ltide_made(L, S);
  return 1;
}

/* {==== Side streams */

/* Of each device with tensors that are sent on: stands for its current stream in the copies; or NULL. */
typedef struct side {
  tide_stream *stream[TIDE_MAX_DEVICES];
} side;

/* By the collector: without an order, since nobody will use what was copied. */
static int side_gc(lua_State *L) {
  side *s = ltide_test_object(L, 1, SIDE_META);
  for (int d = 0; s && d < TIDE_MAX_DEVICES; d++) {
    tide_stream_release(s->stream[d]);
    s->stream[d] = NULL;
  }
  return 0;
}

/* open_side(sources, devices, n): the copies from the sources run beside what is queued from now on. */
static int script_open_side(lua_State *L) {
  ltide_enter(L);
  device_list devices = read_devices(L, 2, (int)lua_tointeger(L, 3));
  side *s = ltide_new_object(L, sizeof *s, 0);
  memset(s, 0, sizeof *s);
  ltide_setmetatable(L, SIDE_META);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    bool leaves = false;
    for (int i = 0; i < devices.n; i++) leaves |= devices.id[i] >= 0 && devices.id[i] != d;
    bool is_source = lua_rawgeti(L, 1, d) != LUA_TNIL;
    lua_pop(L, 1);
    if (!leaves || !is_source) continue;
    tide_stream *current;
    ltide_try(L, tide_current_stream(&current, d));
    ltide_try(L, tide_stream_new(&s->stream[d], d, tide_stream_priority(current)));
    ltide_try(L, tide_stream_wait_stream(s->stream[d], current));
  }
  return 1;
}

/* join_side(side): what is queued next comes behind the copies. Never fails. */
static int script_join_side(lua_State *L) {
  ltide_enter(L);
  side *s = ltide_test_object(L, 1, SIDE_META);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    tide_stream *beside = s->stream[d], *current;
    s->stream[d] = NULL;
    if (beside && tide_current_stream(&current, d) == TIDE_OK) tide_stream_wait_stream(current, beside);
    tide_stream_release(beside);
  }
  return 0;
}

/* send_parts(x, dim, devices, n, side or nil): the list of all n parts of x, a tensor of an accelerator. */
static int script_send_parts(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "tree"), *outs[TIDE_MAX_DEVICES];
  ltide_tensor *handles[TIDE_MAX_DEVICES];
  int dim = ltide_check_dim(L, 2, tide_tensor_ndim(x), "dim"), from = tide_tensor_device(x), n;
  device_list devices = read_devices(L, 3, (int)lua_rawlen(L, 3));
  const side *s = lua_isnil(L, 5) ? NULL : ltide_test_object(L, 5, SIDE_META);
  push_handles(L, S, handles, (int)lua_tointeger(L, 4));
  tide_stream *before = tide_current_selected(from), *beside = s ? s->stream[from] : NULL;
  if (beside && before) tide_stream_retain(before);
  if (beside) tide_current_select(from, beside);
  tide_status status = tide_comm_scatter(outs, &n, x, devices.id, devices.n, NULL, dim, NULL);
  if (beside) tide_current_select(from, before);
  if (beside) tide_stream_release(before);
  ltide_try(L, status);
  for (int i = 0; i < n; i++) handles[i]->t = outs[i];
  ltide_made(L, S);
  return 1;
}

/* {==== Arguments */

static int script_check_unnamed(lua_State *L) {
  return ltide_check_unnamed(L, 1, lua_tointeger(L, 2), lua_tostring(L, 3)), 0;
}

static bool is_callable(lua_State *L, int arg) {
  if (lua_isfunction(L, arg)) return true;
  bool callable = luaL_getmetafield(L, arg, "__call") != LUA_TNIL;
  if (callable) lua_pop(L, 1);
  return callable;
}

/* The dimension as the script counts it. */
static lua_Integer opt_dim(lua_State *L, int opts) {
  if (!opts || ltide_rawfield(L, opts, "dim") == LUA_TNIL) return 1;
  lua_Integer dim = ltide_check_integer(L, lua_gettop(L), "dim");
  if (dim == 0) ltide_error(L, "IndexError", "%s: dim: got 0; dimensions count from 1", ltide_function_name(L));
  return dim;
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

/* {==== The functions */

static int lscatter(lua_State *L) {
  static const char *const keys[] = {"dim", NULL};
  ltide_enter(L);
  ltide_by_place(L, 3, LTIDE_NAMES("dim"));
  ltide_args a = check_tree_call(L, 2, keys);
  if (a.n < 1) return ltide_arg_error(L, 1, "tree", "a tensor or a table of tensors");
  int devices = push_devices(L, a.n > 1 ? 2 : lua_gettop(L) + 1);
  lua_Integer dim = opt_dim(L, a.opts);
  lua_pushvalue(L, 1), lua_pushvalue(L, devices), lua_pushinteger(L, dim);
  return ltide_script_call(L, "scatter", 3);
}

static int lreplicate(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 2);
  if (lua_isnoneornil(L, 1)) return ltide_arg_error(L, 1, "tree", "a tensor or a table of tensors");
  int devices = push_devices(L, 2);
  lua_pushvalue(L, 1), lua_pushvalue(L, devices);
  return ltide_script_call(L, "replicate", 2);
}

static int lgather(lua_State *L) {
  static const char *const keys[] = {"dim", NULL};
  ltide_enter(L);
  ltide_by_place(L, 3, LTIDE_NAMES("dim"));
  if (!lua_istable(L, 1)) return ltide_arg_error(L, 1, "outputs", "a table of what each device gave");
  ltide_args a = check_tree_call(L, 2, keys);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  if (n < 1 || n > TIDE_MAX_DEVICES)
    return ltide_error(L, "ValueError", "gather: outputs: got a table of %I, expected 1 to %d", n, TIDE_MAX_DEVICES);
  int device = check_output(L, a.n > 1 ? 2 : lua_gettop(L) + 1, "device", current_device());
  lua_Integer dim = opt_dim(L, a.opts);
  lua_pushvalue(L, 1), lua_pushinteger(L, n), lua_pushinteger(L, dim), lua_pushinteger(L, device);
  return ltide_script_call(L, "gather", 4);
}

/* Raises unless there is a function for each of n inputs. */
static void check_functions(lua_State *L, lua_Integer n) {
  lua_Integer functions = (lua_Integer)lua_rawlen(L, 1);
  if (functions != n)
    ltide_error(L, "ArgumentError", "apply: inputs: got %I, expected %I, one for each function", n, functions);
  for (lua_Integer i = 1; i <= n; i++, lua_pop(L, 1)) {
    lua_rawgeti(L, 1, i);
    if (!is_callable(L, -1))
      ltide_error(L, "ArgumentError", "apply: fns[%I]: got %s, expected a function", i, ltide_typename(L, -1));
  }
}

static int lapply(lua_State *L) {
  static const char *const keys[] = {"devices", NULL};
  if (ltide_unguarded(L)) return ltide_guarded(L, lapply);
  ltide_enter(L);
  ltide_no_options(L, 3);
  lua_settop(L, 3);
  bool single = is_callable(L, 1);
  if (!single && !lua_istable(L, 1)) return ltide_arg_error(L, 1, "fns", "a function or a table of functions");
  if (!lua_istable(L, 2)) return ltide_arg_error(L, 2, "inputs", "a table with the arguments of each function");
  if (!lua_isnil(L, 3) && !lua_istable(L, 3)) return ltide_arg_error(L, 3, "opts", "a table {devices=}");
  lua_Integer n = (lua_Integer)lua_rawlen(L, 2);
  if (!single) check_functions(L, n);
  if (lua_istable(L, 3)) ltide_check_keys(L, 3, keys);
  int devices = ltide_rawfield(L, 3, "devices") == LUA_TNIL ? 4 : push_devices(L, 4);
  lua_Integer given = devices > 4 ? (lua_Integer)lua_rawlen(L, devices) : n;
  if (given != n)
    return ltide_error(L, "ArgumentError", "apply: devices: got %I, expected %I, one for each input", given, n);
  lua_pushvalue(L, 1), lua_pushboolean(L, !single), lua_pushvalue(L, 2), lua_pushvalue(L, devices);
  lua_pushinteger(L, current_device());
  return ltide_script_call(L, "apply", 5);
}

static int ldata_parallel(lua_State *L) {
  static const char *const keys[] = {"devices", "dim", "output_device", "replicate", NULL};
  if (ltide_unguarded(L)) return ltide_guarded(L, ldata_parallel);
  ltide_enter(L);
  ltide_no_options(L, 3);
  lua_settop(L, 3);
  if (!is_callable(L, 1)) return ltide_arg_error(L, 1, "fn", "a function, or a table that can be called");
  if (!lua_isnil(L, 3) && !lua_istable(L, 3))
    return ltide_arg_error(L, 3, "opts", "{devices=, dim=, output_device=, replicate=}");
  int opts = lua_istable(L, 3) ? 3 : 0;
  ltide_check_keys(L, opts, keys);
  ltide_rawfield(L, 3, "devices");
  int devices = push_devices(L, 4);
  lua_rawgeti(L, devices, 1);
  ltide_rawfield(L, 3, "output_device");
  int output_device = check_output(L, devices + 2, "output_device", (int)lua_tointeger(L, devices + 1));
  lua_Integer dim = opt_dim(L, opts);
  lua_pushvalue(L, 1), lua_pushvalue(L, 2), lua_pushvalue(L, devices);
  lua_pushinteger(L, dim), lua_pushinteger(L, output_device);
  ltide_rawfield(L, 3, "replicate");
  return ltide_script_call(L, "data_parallel", 6);
}

#define PATH "tide.parallel."
static ltide_row parallel_rows[] = {
#include "api/parallel.def"
    {0}};

void ltide_open_parallel(lua_State *L, ltide_state *S) {
  (void)S;
  static const luaL_Reg script[] = {{"device_size", script_device_size},     {"device_object", script_device_object},
                                    {"device_of", script_device_of},         {"dimensions", script_dimensions},
                                    {"plain_list", script_plain_list},       {"count_parts", script_count_parts},
                                    {"send_part", script_send_part},         {"send_parts", script_send_parts},
                                    {"send_copies", script_send_copies},     {"move", script_move},
                                    {"joins_to", script_joins_to},           {"join", script_join},
                                    {"open_side", script_open_side},         {"join_side", script_join_side},
                                    {"check_unnamed", script_check_unnamed}, {NULL, NULL}};
  ltide_script_give(L, ltide_replica_script);
  ltide_script_give(L, script);
  ltide_newmetatable(L, SIDE_META);
  lua_pushcfunction(L, side_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  lua_newtable(L);
  ltide_register_rows(L, "tide.parallel", parallel_rows);
  lua_setfield(L, -2, "parallel");
}
