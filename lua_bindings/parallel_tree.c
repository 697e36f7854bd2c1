/* parallel_tree.c: trees of tensors over several devices: cut into parts, copied whole, and put together again, by the
 * collectives.
 *
 * A tensor is cut along one dimension into as many parts as there are devices, by the rule of chunk, so a short one
 * gives fewer. Every tensor of a tree must give the same number, else a part would have no partner. A part that is on
 * its device already is a view. All is queued: nothing here waits for a device, unless memory of the host takes part.
 * So the parts of a tensor of the host are sent one by one, as they are asked for: between them work can be queued.
 *
 * After a collective the source's current stream goes on behind the copies, and the source's own part of the work with
 * it. So data_parallel lets a side stream of each source stand for it meanwhile, which waits for what was queued
 * before; at the end the current stream waits for it, and what is written to the source after that is ordered as ever.
 *
 * Invariant: the streams and the device that are current stay what they are. */
#include "parallel.h"
#include "tide/comm.h"
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
static int64_t part_size(int64_t size, int n) { return size / n + (size % n != 0); }

static void count_parts(lua_State *L, void *user, int index, tide_tensor *x) {
  (void)index;
  ltide_cut *cut = user;
  if (!tide_tensor_ndim(x))
    ltide_error(L, "ShapeError",
                "%s: got a tensor without dimensions, expected ones that can be cut; pass it as a number, or let "
                "replicate= copy it",
                ltide_function_name(L));
  int dim = ltide_check_dim(L, cut->dim, tide_tensor_ndim(x), "dim");
  int64_t size = tide_tensor_size(x)[dim], each = part_size(size, cut->devices.n);
  int parts = each ? (int)(size / each + (size % each != 0)) : cut->devices.n; /* n empty parts, as torch has it */
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

/* Fills the handles of the parts of x, a tensor of an accelerator. */
static tide_status send(const ltide_cut *cut, ltide_tensor *const *handles, const tide_tensor *x, int dim) {
  int from = tide_tensor_device(x), n;
  tide_tensor *outs[TIDE_MAX_DEVICES];
  tide_stream *before = tide_current_selected(from), *side = cut->side[from];
  if (side && before) tide_stream_retain(before);
  if (side) tide_current_select(from, side);
  tide_status status = tide_comm_scatter(outs, &n, x, cut->devices.id, cut->devices.n, NULL, dim, NULL);
  if (side) tide_current_select(from, before);
  if (side) tide_stream_release(before);
  for (int i = 0; status == TIDE_OK && i < n; i++) handles[i]->t = outs[i];
  return status;
}

/* Pushes the table of all parts of the tensor at index, which is the same at each call. */
static void push_sent(lua_State *L, const ltide_cut *cut, int index, const tide_tensor *x, int dim) {
  lua_pushvalue(L, index);
  if (lua_rawget(L, cut->sent) != LUA_TNIL) return;
  lua_pop(L, 1);
  ltide_tensor *handles[TIDE_MAX_DEVICES];
  lua_createtable(L, cut->n, 0);
  for (int i = 0; i < cut->n; i++) {
    handles[i] = ltide_new_tensor(L, cut->S);
    lua_rawseti(L, -2, i + 1);
  }
  ltide_try(L, send(cut, handles, x, dim));
  lua_pushvalue(L, index);
  lua_pushvalue(L, -2);
  lua_rawset(L, cut->sent);
}

static void push_part_of(lua_State *L, void *user, int index, tide_tensor *x) {
  const ltide_cut *cut = user;
  int dim = ltide_check_dim(L, cut->dim, tide_tensor_ndim(x), "dim"), device = cut->devices.id[cut->part];
  if (tide_tensor_device(x) >= 0 && device >= 0) {
    push_sent(L, cut, index, x, dim);
    lua_rawgeti(L, -1, cut->part + 1);
    lua_remove(L, -2);
    return;
  }
  int64_t size = tide_tensor_size(x)[dim], each = part_size(size, cut->devices.n), start = each * cut->part;
  ltide_tensor *u = ltide_new_tensor(L, cut->S);
  tide_options o = {TIDE_DTYPE_NONE, device, false};
  tide_tensor *part;
  ltide_try(L, tide_narrow(&part, x, dim, start, size - start < each ? size - start : each));
  tide_status status = tide_to(&u->t, part, &o, device >= 0, false);
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

/* Stack indexes: the first replica's tensors in a list, and a table from each of them to that of its copies. */
typedef struct replicas {
  ltide_state *S;
  const ltide_devices *devices;
  int n, list, copies, replica;
} replicas;

/* Of what map makes for the first device: a list of its tensors. */
static void list_tensor(lua_State *L, void *user, int index, tide_tensor *x) {
  const replicas *r = user;
  (void)x;
  lua_pushvalue(L, index);
  lua_rawseti(L, r->list, (lua_Integer)lua_rawlen(L, r->list) + 1);
}

/* Makes the handles of the copies, closed: an array for each tensor, in the order of the list. */
static ltide_tensor **push_handles(lua_State *L, const replicas *r, int tensors) {
  ltide_tensor **handles = ltide_new_object(L, (size_t)(tensors * r->n) * sizeof(ltide_tensor *), 0);
  for (int i = 0; i < tensors; i++) {
    lua_rawgeti(L, r->list, i + 1);
    lua_createtable(L, r->n, 0);
    for (int k = 1; k < r->n; k++) {
      handles[k * tensors + i] = ltide_new_tensor(L, r->S);
      lua_rawseti(L, -2, k + 1);
    }
    lua_rawset(L, r->copies);
  }
  return handles;
}

/* Sends all tensors of the list at once: small ones travel together. */
static void send_copies(lua_State *L, const replicas *r) {
  int tensors = (int)lua_rawlen(L, r->list), top = lua_gettop(L);
  if (!tensors) return;
  ltide_tensor **handles = push_handles(L, r, tensors);
  tide_tensor **list = ltide_new_object(L, (size_t)tensors * sizeof *list, 0);
  tide_tensor **outs = ltide_new_object(L, (size_t)(tensors * r->n) * sizeof *outs, 0);
  for (int i = 0; i < tensors; i++) {
    lua_rawgeti(L, r->list, i + 1);
    list[i] = ltide_check_tensor(L, r->S, -1, "tree");
    lua_pop(L, 1);
  }
  ltide_try(L, tide_comm_broadcast_coalesced(outs, list, tensors, r->devices->id, r->n, TIDE_COMM_BUFFER));
  for (int i = 0; i < tensors * r->n; i++)
    if (i < tensors)
      tide_tensor_release(outs[i]); /* the list itself */
    else
      handles[i]->t = outs[i];
  lua_settop(L, top);
}

static void push_replica_of(lua_State *L, void *user, int index, tide_tensor *x) {
  const replicas *r = user;
  (void)x;
  lua_pushvalue(L, index);
  lua_rawget(L, r->copies);
  lua_rawgeti(L, -1, r->replica + 1);
  lua_remove(L, -2);
}

void ltide_push_replicas(lua_State *L, ltide_state *S, int tree, const ltide_devices *devices, int n) {
  replicas r = {.S = S, .devices = devices, .n = n};
  tree = lua_absindex(L, tree);
  lua_createtable(L, n, 0);
  int result = lua_gettop(L);
  ltide_push_moved(L, S, tree, devices->id[0]);
  lua_pushvalue(L, -1);
  lua_rawseti(L, result, 1);
  lua_newtable(L);
  lua_newtable(L);
  r.copies = lua_gettop(L), r.list = r.copies - 1;
  if (n > 1) ltide_visit_tree(L, S, result + 1, list_tensor, &r);
  send_copies(L, &r);
  for (r.replica = 1; r.replica < n; r.replica++) {
    ltide_map_tree(L, S, result + 1, push_replica_of, &r);
    lua_rawseti(L, result, r.replica + 1);
  }
  ltide_made(L, S);
  lua_settop(L, result);
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

/* Raises unless tensor number i joins to the first. */
static void check_like_first(lua_State *L, const gathering *g, int list, int i, const char *path, int dim) {
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

/* What is joined: tensor number i, or a vector of its one element. Pushes what keeps it alive. */
static tide_tensor *push_joinable(lua_State *L, const gathering *g, int list, int i) {
  const int64_t one = 1;
  lua_rawgeti(L, list, i);
  tide_tensor *x = ltide_check_tensor(L, g->S, -1, "output");
  if (tide_tensor_ndim(x)) return x;
  ltide_tensor *u = ltide_new_tensor(L, g->S);
  ltide_try(L, tide_view(&u->t, x, &one, 1));
  lua_remove(L, -2);
  return u->t;
}

/* Host memory is joined where it is; the collective is for accelerators. */
static tide_status join(tide_tensor **out, tide_tensor *const *items, const gathering *g, int dim) {
  if (tide_tensor_device(items[0]) >= 0) return tide_comm_gather(out, items, g->n, dim, g->device, NULL);
  tide_tensor *whole;
  tide_options o = {TIDE_DTYPE_NONE, g->device, false};
  tide_status status = tide_cat(&whole, items, g->n, dim, NULL);
  if (status != TIDE_OK) return status;
  status = tide_to(out, whole, &o, false, false);
  tide_tensor_release(whole);
  return status;
}

static void join_tensors(lua_State *L, const gathering *g, int list, const tide_tensor *first, const char *path) {
  int ndim = tide_tensor_ndim(first), dim = ndim ? ltide_check_dim(L, g->dim, ndim, "dim") : 0;
  for (int i = 2; i <= g->n; i++) check_like_first(L, g, list, i, path, dim);
  if (!ndim) warn_of_scalars(L, g, path);
  luaL_checkstack(L, g->n + 4, "gather: too many outputs");
  ltide_tensor *u = ltide_new_tensor(L, g->S);
  int result = lua_gettop(L);
  tide_tensor *items[TIDE_MAX_DEVICES];
  for (int i = 0; i < g->n; i++) items[i] = push_joinable(L, g, list, i + 1);
  ltide_try(L, join(&u->t, items, g, dim));
  lua_settop(L, result);
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
    ltide_plain_shape(L, -1);
    lua_pushvalue(L, key);
    if (lua_rawget(L, -2) == LUA_TNIL) refuse(L, i, path, "nothing", "one as in outputs[1]");
    lua_rawseti(L, -3, i);
    lua_pop(L, 1);
  }
}

static void join_tables(lua_State *L, const gathering *g, int list, int first, const char *path) {
  ltide_plain_shape(L, first);
  lua_Integer keys = count_keys(L, first);
  for (int i = 2; i <= g->n; i++) {
    lua_rawgeti(L, list, i);
    int item = lua_gettop(L);
    ltide_plain_shape(L, item);
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
