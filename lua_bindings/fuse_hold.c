/* fuse_hold.c: are the values that a fused function can see as the guards of a record want them? */
#include "fuse.h"

#include "program.h"

#if LUA_VERSION_NUM == 504

int fuse_count_fields(lua_State *L, int index, int most) {
  int n = 0;
  index = lua_absindex(L, index);
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1))
    if (++n > most) return lua_pop(L, 2), n;
  return n;
}

/* Pushes what the guard is about; false, and nothing is pushed: that cannot be reached. `held` is which of refs lies
 * at `spot`. */
static bool push_value(lua_State *L, const fuse_record *p, const fuse_guard *g, int refs, int first, int base, int spot,
                       int *held) {
  if (g->source == FUSE_ARGUMENT) return lua_pushvalue(L, first + g->at), true;
  if (g->holder && *held != g->holder) {
    lua_rawgeti(L, refs, g->holder);
    lua_replace(L, spot);
    *held = g->holder;
  }
  int table = spot;
  if (g->source == FUSE_UPVALUE) return lua_getupvalue(L, spot, g->at) != NULL;
  if (!g->holder) {
    const fuse_guard *parent = &p->guard[g->parent];
    table = parent->source == FUSE_ARGUMENT ? first + parent->at : base + parent->slot;
  }
  if (g->source == FUSE_META) return lua_getmetatable(L, table) || (lua_pushnil(L), true);
  lua_rawgeti(L, refs, g->key);
  return lua_rawget(L, table), true;
}

/* Does next give the keys of the table at the top in their order? */
static bool is_in_order(lua_State *L, int refs, int order) {
  int table = lua_gettop(L), n = 0;
  bool same = true;
  lua_rawgeti(L, refs, order);
  for (lua_pushnil(L); same && lua_next(L, table); lua_settop(L, table + 2)) {
    lua_rawgeti(L, table + 1, ++n);
    same = lua_rawequal(L, -1, table + 2);
  }
  lua_settop(L, table);
  return same;
}

static bool table_holds(lua_State *L, const fuse_record *p, const fuse_guard *g, int refs) {
  if (!lua_istable(L, -1) || fuse_count_fields(L, -1, g->count) != g->count) return false;
  return !p->walks || !g->order || is_in_order(L, refs, g->order);
}

static bool is_same(lua_State *L, const fuse_record *p, const fuse_guard *g, int refs) {
  int type = lua_type(L, -1);
  if (type != g->type) return false;
  switch (type) {
  case LUA_TNIL: return true;
  case LUA_TBOOLEAN: return lua_toboolean(L, -1) == (int)g->integer;
  case LUA_TNUMBER: {
    if (lua_isinteger(L, -1) != g->is_integer) return false;
    if (g->is_integer) return lua_tointeger(L, -1) == g->integer;
    lua_Number x = lua_tonumber(L, -1);
    return !memcmp(&x, &g->number, sizeof x); /* NaN is the same, -0.0 and 0.0 are not */
  }
  case LUA_TSTRING: {
    lua_rawgeti(L, refs, g->value);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
    return same;
  }
  case LUA_TTABLE: return lua_topointer(L, -1) == g->address && (g->count < 0 || table_holds(L, p, g, refs));
  default: return lua_topointer(L, -1) == g->address;
  }
}

static bool tensor_holds(const tide_tensor *x, const fuse_input *in, const fuse_record *p, ltide_tensor **handles) {
  if (!x || (int)tide_tensor_dtype(x) != in->dtype || tide_tensor_ndim(x) != in->ndim) return false;
  if (tide_tensor_device(x) != in->device) return false;
  const int64_t *size = tide_tensor_size(x), *stride = tide_tensor_stride(x);
  if (p->exact) {
    size_t n = (size_t)in->ndim * sizeof *size;
    return !memcmp(size, in->size, n) && !memcmp(stride, in->stride, n);
  }
  for (int d = 0; d < in->ndim; d++) {
    if (in->size[d] < 2 ? size[d] != in->size[d] : size[d] < 2) return false;
    const tide_tensor *other = handles[in->like[d] >> 4]->t;
    if (tide_tensor_size(other)[in->like[d] & 15] != size[d]) return false;
  }
  return true;
}

/* Do the kernels that it calls give nothing still? Another body may. */
static bool kernels_hold(lua_State *L, const fuse_record *p, int refs) {
  bool same = true;
  for (int i = 0; p->kernels && same && i < p->steps; i++) {
    const fuse_step *s = &p->step[i];
    if (!s->is_kernel) continue;
    lua_rawgeti(L, refs, s->arg[0].ref);
    same = ltide_program_body(L, lua_gettop(L)) == s->body;
    lua_pop(L, 1);
  }
  return same;
}

/* What is written may share memory with the others only as it did. */
static bool storages_hold(const fuse_record *p, ltide_tensor **handles) {
  for (int i = 0; i < p->inputs; i++)
    for (int j = 0; j < i; j++) {
      bool same = tide_tensor_storage(handles[i]->t) == tide_tensor_storage(handles[j]->t);
      if (same != (p->input[i].storage == p->input[j].storage)) return false;
    }
  return true;
}

static bool is_other_number(lua_State *L, const fuse_guard *g) {
  return g->type == LUA_TNUMBER && lua_type(L, -1) == LUA_TNUMBER && lua_isinteger(L, -1) == g->is_integer;
}

bool fuse_state_holds(lua_State *L, const fuse_record *p) {
  int top = lua_gettop(L);
  lua_pushnil(L), lua_pushboolean(L, 0), lua_pushinteger(L, 0), lua_pushcfunction(L, lua_error);
  bool plain = true;
  for (int i = top + 1; i <= top + 4; i++) plain = plain && !lua_getmetatable(L, i);
  lua_settop(L, top);
  return plain && p->dtype == tide_get_default_dtype() && p->device == tide_current_device() &&
         p->default_device == tide_default_device();
}

/* Another input is another tensor, unless the same one was there twice. */
static bool input_holds(lua_State *L, ltide_state *S, const fuse_record *p, const fuse_guard *g,
                        ltide_tensor **handles) {
  ltide_tensor *u = ltide_test_handle(L, S, lua_gettop(L));
  if (g->want == FUSE_AGAIN) return u && u == handles[g->input];
  if (!u || !u->t) return false;
  for (int k = 0; k < g->input; k++)
    if (handles[k] == u) return false;
  handles[g->input] = u;
  return tensor_holds(u->t, &p->input[g->input], p, handles);
}

/* Is the table of guard i the same as that of another guard where it was? tables: of each guard before it. */
static bool is_as_apart(const fuse_record *p, const void **tables, int i) {
  const fuse_guard *g = &p->guard[i];
  for (int k = 0; k < i; k++)
    if (p->guard[k].type == LUA_TTABLE && (tables[k] == tables[i]) != (p->guard[k].address == g->address)) return false;
  return true;
}

/* Of guard i, whose value is at the top. */
static bool value_holds(lua_State *L, ltide_state *S, const fuse_record *p, int i, int refs, ltide_tensor **handles,
                        bool *other_numbers) {
  const fuse_guard *g = &p->guard[i];
  if (g->want == FUSE_TABLE) return table_holds(L, p, g, refs);
  if (g->want != FUSE_SAME) return input_holds(L, S, p, g, handles);
  if (is_same(L, p, g, refs)) return true;
  return other_numbers && is_other_number(L, g) && (*other_numbers = true);
}

bool fuse_guards_hold(lua_State *L, ltide_state *S, fuse_record *p, int refs, int first, ltide_tensor **handles,
                      bool *other_numbers) {
  int base = lua_gettop(L), spot = base + p->slots + 1, held = 0;
  const void *tables[FUSE_GUARDS];
  p->failed = p->guards;
  if (!fuse_state_holds(L, p)) return false;
  lua_settop(L, spot);
  for (int i = 0; i < p->guards; i++) {
    const fuse_guard *g = &p->guard[i];
    bool holds =
        push_value(L, p, g, refs, first, base, spot, &held) && value_holds(L, S, p, i, refs, handles, other_numbers);
    if (holds && p->compares && g->type == LUA_TTABLE)
      tables[i] = lua_topointer(L, -1), holds = is_as_apart(p, tables, i);
    if (!holds) return p->failed = i, lua_settop(L, base), false;
    if (g->slot) lua_copy(L, -1, base + g->slot);
    lua_settop(L, spot);
  }
  lua_settop(L, spot - 1);
  if ((p->writes && !storages_hold(p, handles)) || !kernels_hold(L, p, refs)) return lua_settop(L, base), false;
  return true;
}

const char *fuse_guard_what(lua_State *L, const fuse_guard *g, int refs) {
  const char *name = NULL;
  switch (g->source) {
  case FUSE_ARGUMENT: return lua_pushfstring(L, "argument %d", g->at + 1);
  case FUSE_FIELD: return lua_rawgeti(L, refs, g->key), luaL_tolstring(L, -1, NULL);
  case FUSE_UPVALUE:
    lua_rawgeti(L, refs, g->holder);
    name = lua_getupvalue(L, -1, g->at);
    break;
  default: break;
  }
  return name ? name : "a metatable";
}

/* A tensor may have been written, and is then a value of another number; but it has to be the one that was there. */
const fuse_guard *fuse_guards_changed(lua_State *L, const fuse_record *p, int refs, int first, int slots,
                                      const void *const *handles, bool with_numbers) {
  const fuse_guard *changed = NULL;
  int base = lua_gettop(L), spot = base + slots + 1, held = 0;
  luaL_checkstack(L, slots + 16, "tide.fuse");
  lua_settop(L, spot);
  for (int i = 0; i < p->guards && !changed; i++) {
    const fuse_guard *g = &p->guard[i];
    bool holds = push_value(L, p, g, refs, first, base, spot, &held);
    if (holds && g->want == FUSE_SAME) holds = is_same(L, p, g, refs) || (!with_numbers && is_other_number(L, g));
    if (holds && g->want == FUSE_TABLE) holds = table_holds(L, p, g, refs);
    if (holds && g->want <= FUSE_AGAIN) holds = lua_touserdata(L, -1) == handles[g->input];
    if (!holds) changed = g;
    if (holds && g->slot) lua_copy(L, -1, base + g->slot);
    lua_settop(L, spot);
  }
  lua_settop(L, base);
  return changed;
}

#endif
