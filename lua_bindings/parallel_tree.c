/* parallel_tree.c: trees of tensors over several devices: cut into parts, copied whole, and put together again.
 *
 * A tensor is cut along one dimension into as many parts as there are devices, by the rule of chunk, so a short one
 * gives fewer. Every tensor of a tree must give the same number, else a part would have no partner. A part that is on
 * its device already is a view. All is queued: nothing here waits for a device, unless values go to the CPU.
 *
 * A copy between two accelerators runs on the source's current stream, behind which the source's own part of the work
 * would stand. So data_parallel takes a side stream of each source for them, which waits for what was queued before;
 * at the end the current stream waits for it, and what is written to the source after that is ordered as ever.
 *
 * Invariant: the streams and the device that are current stay what they are. */
#include <stdio.h>

#include "parallel.h"
#include "tide/device.h"
#include "tree.h"

/* {==== Devices */

const char *ltide_push_device_name(lua_State *L, int device) {
  return device < 0 ? lua_pushliteral(L, "cpu") : lua_pushfstring(L, "cuda:%d", device);
}

/* The device at the top of the stack, which is number `at` of the table. */
static int check_one(lua_State *L, const ltide_devices *before, int at) {
  int device = ltide_check_device(L, lua_gettop(L), "devices", LTIDE_CPU_OK);
  if (device == TIDE_CURRENT) device = tide_current_device();
  const tide_device_props *props;
  if (device >= 0) ltide_try(L, tide_device_get_props(&props, device));
  for (int k = 0; k < at; k++) {
    const char *what = before->id[k] == device               ? "twice"
                       : (before->id[k] < 0) != (device < 0) ? "beside another kind of device"
                                                             : NULL;
    if (what)
      ltide_error(L, "DeviceError", "%s: devices: got %s %s, expected accelerators, each once, or the cpu alone",
                  ltide_function_name(L), ltide_push_device_name(L, device), what);
  }
  return device;
}

void ltide_check_devices(lua_State *L, int arg, ltide_devices *out) {
  out->n = 0;
  if (lua_isnoneornil(L, arg)) {
    out->n = tide_device_count();
    for (int i = 0; i < out->n; i++) out->id[i] = i;
    if (!out->n) out->id[out->n++] = TIDE_CPU;
    return;
  }
  if (!lua_istable(L, arg)) ltide_arg_error(L, arg, "devices", "a table of devices");
  lua_Integer n = (lua_Integer)lua_rawlen(L, arg);
  if (n < 1 || n > TIDE_MAX_DEVICES)
    ltide_error(L, "ValueError", "%s: devices: got a table of %I, expected 1 to %d", ltide_function_name(L), n,
                TIDE_MAX_DEVICES);
  ltide_check_unnamed(L, arg, n, "devices");
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, arg, i + 1);
    out->id[i] = check_one(L, out, i);
    lua_pop(L, 1);
  }
  out->n = (int)n;
}

/* {==== Cutting */

/* Elements of a dimension of `size` in each of the parts for n devices; the last part may have fewer. */
static int64_t part_size(int64_t size, int n) { return size ? size / n + (size % n != 0) : 1; }

static void count_parts(lua_State *L, void *user, tide_tensor *x) {
  ltide_cut *cut = user;
  if (!tide_tensor_ndim(x))
    ltide_error(L, "ShapeError",
                "%s: got a tensor without dimensions, expected ones that can be cut; pass it as a number, or let "
                "replicate= copy it",
                ltide_function_name(L));
  int dim = ltide_check_dim(L, cut->dim, tide_tensor_ndim(x), "dim");
  int64_t size = tide_tensor_size(x)[dim], each = part_size(size, cut->devices.n);
  int parts = size ? (int)(size / each + (size % each != 0)) : 1;
  if (cut->n && cut->n != parts)
    ltide_error(L, "ShapeError",
                "%s: got a tensor of size %I in dimension %I, which makes %d parts, expected %d as of "
                "the tensor before it",
                ltide_function_name(L), (lua_Integer)size, lua_tointeger(L, cut->dim), parts, cut->n);
  cut->n = parts;
  if (tide_tensor_device(x) >= 0) cut->sources |= (uint64_t)1 << tide_tensor_device(x);
}

void ltide_cut_plan(lua_State *L, ltide_cut *cut) {
  cut->n = 0, cut->sources = 0;
  ltide_visit_tree(L, cut->S, cut->tree, count_parts, cut);
  if (!cut->n) cut->n = cut->devices.n; /* nothing to cut: every device gets what there is */
}

void ltide_cut_beside(lua_State *L, ltide_cut *cut) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    bool leaves = false;
    for (int i = 0; i < cut->n; i++) leaves |= cut->devices.id[i] >= 0 && cut->devices.id[i] != d;
    if (!leaves || !(cut->sources >> d & 1)) continue;
    tide_stream *current;
    ltide_try(L, tide_current_stream(&current, d));
    ltide_try(L, tide_stream_new(&cut->side[d], d, tide_stream_priority(current)));
    ltide_try(L, tide_stream_wait_stream(cut->side[d], current));
  }
}

void ltide_cut_end(ltide_cut *cut) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    tide_stream *side = cut->side[d], *current;
    cut->side[d] = NULL;
    if (side && tide_current_stream(&current, d) == TIDE_OK) tide_stream_wait_stream(current, side);
    tide_stream_release(side);
  }
}

/* The part on the device; on the side stream of where it is, if there is one. */
static tide_status send(tide_tensor **out, const ltide_cut *cut, const tide_tensor *part, int device) {
  int from = tide_tensor_device(part);
  tide_options o = {TIDE_DTYPE_NONE, device, false};
  tide_stream *side = from >= 0 && from != device && device >= 0 ? cut->side[from] : NULL;
  if (!side) return tide_to(out, part, &o, device >= 0, false);
  tide_stream *before = tide_current_selected(from);
  if (before) tide_stream_retain(before);
  tide_current_select(from, side);
  tide_status status = tide_to(out, part, &o, true, false);
  tide_current_select(from, before);
  tide_stream_release(before);
  return status;
}

static void push_part_of(lua_State *L, void *user, int index, tide_tensor *x) {
  (void)index;
  const ltide_cut *cut = user;
  int dim = ltide_check_dim(L, cut->dim, tide_tensor_ndim(x), "dim");
  int64_t size = tide_tensor_size(x)[dim], each = part_size(size, cut->devices.n), start = each * cut->part;
  ltide_tensor *u = ltide_new_tensor(L, cut->S);
  tide_tensor *part;
  ltide_try(L, tide_narrow(&part, x, dim, start, size - start < each ? size - start : each));
  tide_status status = send(&u->t, cut, part, cut->devices.id[cut->part]);
  tide_tensor_release(part);
  ltide_try(L, status);
}

void ltide_push_part(lua_State *L, ltide_cut *cut, int i) {
  cut->part = i;
  ltide_map_tree(L, cut->S, cut->tree, push_part_of, cut);
  ltide_made(L, cut->S);
}

/* {==== Copying whole */

typedef struct copying {
  ltide_state *S;
  int device;
} copying;

static void push_copy_of(lua_State *L, void *user, int index, tide_tensor *x) {
  const copying *c = user;
  if (tide_tensor_device(x) == c->device) {
    lua_pushvalue(L, index);
    return;
  }
  tide_options o = {TIDE_DTYPE_NONE, c->device, false};
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_to(&u->t, x, &o, c->device >= 0, false));
}

void ltide_push_moved(lua_State *L, ltide_state *S, int tree, int device) {
  copying c = {S, device};
  ltide_map_tree(L, S, tree, push_copy_of, &c);
  ltide_made(L, S);
}

void ltide_push_replicas(lua_State *L, ltide_state *S, int tree, const ltide_devices *devices, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    ltide_push_moved(L, S, tree, devices->id[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

/* {==== Putting together */

typedef struct gathering {
  ltide_state *S;
  int n, dim, device; /* dim: stack index */
} gathering;

static void push_joined(lua_State *L, const gathering *g, int list, const char *path);

static int refuse(lua_State *L, int i, const char *path, const char *got, const char *expected) {
  return ltide_error(L, "ArgumentError", "%s: outputs[%d]%s: got %s, expected %s", ltide_function_name(L), i, path, got,
                     expected);
}

/* What is missing at number i, which tensor 1 has. */
static tide_tensor *check_like_first(lua_State *L, const gathering *g, int list, int i, const char *path, int dim) {
  int top = lua_gettop(L);
  lua_rawgeti(L, list, 1);
  lua_rawgeti(L, list, i);
  tide_tensor *first = ltide_test_tensor(L, g->S, top + 1), *x = ltide_test_tensor(L, g->S, top + 2);
  if (!x) refuse(L, i, path, ltide_typename(L, top + 2), "a tensor as in outputs[1]");
  bool same = tide_tensor_ndim(x) == tide_tensor_ndim(first) && tide_tensor_dtype(x) == tide_tensor_dtype(first);
  for (int d = 0; same && d < tide_tensor_ndim(x); d++)
    same = d == dim || tide_tensor_size(x)[d] == tide_tensor_size(first)[d];
  if (!same)
    ltide_error(L, "ShapeError", "%s: outputs[%d]%s: got %s, expected one that joins to %s", ltide_function_name(L), i,
                path, ltide_typename(L, top + 2), ltide_typename(L, top + 1));
  lua_settop(L, top);
  return x;
}

/* One element from each device makes a vector: said once. */
static void warn_of_scalars(lua_State *L, const gathering *g, const char *path) {
  if (lua_tointeger(L, g->dim) != 1 && lua_tointeger(L, g->dim) != -1)
    ltide_error(L, "IndexError", "%s: dim: got %I, but outputs%s have no dimensions, expected 1",
                ltide_function_name(L), lua_tointeger(L, g->dim), path);
  static const char key_warned;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_warned) == LUA_TNIL) {
    lua_pushboolean(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_warned);
    ltide_warn(L, "%s: outputs%s have no dimensions and become a vector of one element for each device",
               ltide_function_name(L), path);
  }
  lua_pop(L, 1);
}

/* Copies tensor number i into its place of `out`, from `start` on; returns how many indexes it takes. */
static int64_t put(lua_State *L, tide_tensor *out, const tide_tensor *x, int dim, int64_t start) {
  int64_t length = tide_tensor_ndim(x) ? tide_tensor_size(x)[dim] : 1;
  tide_tensor *place;
  ltide_try(L, tide_narrow(&place, out, dim, start, length));
  tide_status status = tide_copy(place, x, true);
  tide_tensor_release(place);
  ltide_try(L, status);
  return length;
}

static void join_tensors(lua_State *L, const gathering *g, int list, const tide_tensor *first, const char *path) {
  int ndim = tide_tensor_ndim(first), dim = ndim ? ltide_check_dim(L, g->dim, ndim, "dim") : 0;
  int64_t size[TIDE_MAX_DIMS] = {0}, total = 0, start = 0;
  for (int d = 0; d < ndim; d++) size[d] = tide_tensor_size(first)[d];
  for (int i = 1; i <= g->n; i++) {
    const tide_tensor *x = check_like_first(L, g, list, i, path, dim);
    total += ndim ? tide_tensor_size(x)[dim] : 1;
  }
  if (!ndim) warn_of_scalars(L, g, path);
  size[dim] = total;
  ltide_tensor *u = ltide_new_tensor(L, g->S);
  tide_options o = {tide_tensor_dtype(first), g->device, false};
  ltide_try(L, tide_empty(&u->t, size, ndim ? ndim : 1, &o));
  for (int i = 1; i <= g->n; i++) {
    lua_rawgeti(L, list, i);
    start += put(L, u->t, ltide_check_tensor(L, g->S, -1, "output"), dim, start);
    lua_pop(L, 1);
  }
}

static lua_Integer count_keys(lua_State *L, int t) {
  lua_Integer n = 0;
  for (lua_pushnil(L); lua_next(L, t); lua_pop(L, 1)) n++;
  return n;
}

/* Pushes the table of what the n tables of the list have under the key at `key`. */
static void push_column(lua_State *L, const gathering *g, int list, int key, const char *path) {
  lua_createtable(L, g->n, 0);
  for (int i = 1; i <= g->n; i++) {
    lua_rawgeti(L, list, i);
    lua_pushvalue(L, key);
    if (lua_rawget(L, -2) == LUA_TNIL) refuse(L, i, path, "nothing", "one as in outputs[1]");
    lua_rawseti(L, -3, i);
    lua_pop(L, 1);
  }
}

static void join_tables(lua_State *L, const gathering *g, int list, int first, const char *path) {
  lua_Integer keys = count_keys(L, first);
  for (int i = 2; i <= g->n; i++) {
    lua_rawgeti(L, list, i);
    int item = lua_gettop(L);
    if (!lua_istable(L, item)) refuse(L, i, path, ltide_typename(L, item), "a table as in outputs[1]");
    if (count_keys(L, item) != keys)
      refuse(L, i, path, lua_pushfstring(L, "%I keys", count_keys(L, item)),
             lua_pushfstring(L, "%I as in outputs[1]", keys));
    lua_settop(L, item - 1);
  }
  lua_newtable(L);
  int result = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, first); lua_settop(L, result + 1)) {
    const char *name = luaL_tolstring(L, result + 1, NULL);
    const char *below = lua_pushfstring(L, lua_type(L, result + 1) == LUA_TSTRING ? "%s.%s" : "%s[%s]", path, name);
    lua_pushvalue(L, result + 1);
    push_column(L, g, list, result + 1, below);
    push_joined(L, g, lua_gettop(L), below);
    lua_remove(L, -2);
    lua_rawset(L, result);
  }
  if (lua_getmetatable(L, first)) lua_setmetatable(L, result);
}

/* Pushes one value for the list of n values at `list`. */
static void push_joined(lua_State *L, const gathering *g, int list, const char *path) {
  luaL_checkstack(L, 20, "gather: tables nested too deeply");
  lua_rawgeti(L, list, 1);
  int first = lua_gettop(L);
  const tide_tensor *x = ltide_test_tensor(L, g->S, first);
  if (x)
    join_tensors(L, g, list, x, path);
  else if (lua_istable(L, first))
    join_tables(L, g, list, first, path);
  else if (lua_isnil(L, first)) {
    for (int i = 2; i <= g->n; i++) {
      if (lua_rawgeti(L, list, i) != LUA_TNIL) refuse(L, i, path, ltide_typename(L, -1), "nothing as in outputs[1]");
      lua_pop(L, 1);
    }
    lua_pushnil(L);
  } else
    refuse(L, 1, path, ltide_typename(L, first), "tensors or tables of them; a number can be given as a tensor");
  lua_replace(L, first);
  lua_settop(L, first);
}

void ltide_push_gathered(lua_State *L, ltide_state *S, int list, int n, int dim, int device) {
  gathering g = {S, n, dim, device};
  push_joined(L, &g, lua_absindex(L, list), "");
  ltide_made(L, S);
}
