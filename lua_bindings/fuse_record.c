/* fuse_record.c: what one run of a function does: the recording of tide.fuse.
 *
 * The run is an ordinary one. A hook of Lua's sees every call that the function makes, with its arguments and what it
 * gives; elementwise operations tell in addition what they have made of these (ltide_fuse_note). Functions of Lua's own
 * libraries whose results depend on their arguments alone do not count. A call of the module's that gives tensors can
 * be made again; what gives anything else may have looked at values, unless it is known to tell dtypes or sizes only.
 * Any other call, or a function that cannot be seen from outside, makes the function one that has to run each time.
 *
 * Invariant: while S->recorder is set its struct is alive and lies on the stack of the coroutine that it records. */
#include "fuse.h"

#include "program.h"

#include <stdarg.h>

#if LUA_VERSION_NUM == 504

void fuse_decline(fuse_recorder *r, const char *format, ...) {
  fuse_record *p = r->record;
  va_list list;
  if (p->eager) return;
  p->eager = true;
  va_start(list, format);
  vsnprintf(p->why, sizeof p->why, format, list);
  va_end(list);
}

int fuse_keep(fuse_recorder *r) {
  lua_rawseti(r->L, r->refs, ++r->refs_count);
  return r->refs_count;
}

/* {==== Values */

int16_t fuse_value_of(fuse_recorder *r, int index) {
  lua_State *L = r->L;
  lua_pushvalue(L, index);
  int16_t value = lua_rawget(L, r->ids) == LUA_TNUMBER ? (int16_t)lua_tointeger(L, -1) : -1;
  lua_pop(L, 1);
  return value;
}

int16_t fuse_value_new(fuse_recorder *r, int index, int event) {
  lua_State *L = r->L;
  index = lua_absindex(L, index);
  const tide_tensor *x = ((ltide_tensor *)lua_touserdata(L, index))->t;
  if (r->values == FUSE_VALUES) {
    fuse_decline(r, "it makes more than %d tensors", FUSE_VALUES);
    return -1;
  }
  fuse_value *v = &r->value[r->values];
  *v = (fuse_value){.event = (int16_t)event,
                    .last = -1,
                    .dtype = (uint8_t)tide_tensor_dtype(x),
                    .ndim = (uint8_t)tide_tensor_ndim(x),
                    .device = tide_tensor_device(x),
                    .storage = tide_tensor_storage((tide_tensor *)x)};
  memcpy(v->size, tide_tensor_size(x), v->ndim * sizeof *v->size);
  memcpy(v->stride, tide_tensor_stride(x), v->ndim * sizeof *v->stride);
  lua_pushvalue(L, index);
  lua_pushinteger(L, r->values);
  lua_rawset(L, r->ids);
  return (int16_t)r->values++;
}

/* {==== Arguments */

static bool is_shape(lua_State *L, int index) {
  lua_pushvalue(L, index);
  bool is_one = ltide_plain_shape(L, lua_gettop(L));
  lua_pop(L, 1);
  return is_one;
}

static void note_seen(fuse_recorder *r, const tide_tensor *x, int16_t value) {
  fuse_call *c = &r->call;
  if (c->seen_count < 32) c->seen[c->seen_count++] = (fuse_seen){x, value};
}

static bool push_template_value(fuse_recorder *r, int index, int depth, bool *has_values) {
  lua_State *L = r->L;
  const ltide_tensor *u = fuse_handle_at(r, index);
  if (u) {
    int16_t value = fuse_value_of(r, index);
    if (value < 0) return false;
    note_seen(r, u->t, value);
    lua_pushlightuserdata(L, (char *)NULL + value + 1);
    return *has_values = true;
  }
  if (lua_istable(L, index) && !is_shape(L, index)) return fuse_push_template(r, index, depth + 1, has_values);
  if (lua_islightuserdata(L, index) || (lua_isfunction(L, index) && !lua_iscfunction(L, index))) return false;
  lua_pushvalue(L, index);
  return true;
}

bool fuse_push_template(fuse_recorder *r, int index, int depth, bool *has_values) {
  lua_State *L = r->L;
  int top = lua_gettop(L);
  index = lua_absindex(L, index);
  if (depth > 4 || !lua_checkstack(L, 16)) return false;
  if (lua_getmetatable(L, index)) return lua_settop(L, top), false;
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, index);) {
    int key = lua_gettop(L) - 1;
    if (fuse_handle_at(r, key) || !push_template_value(r, key + 1, depth, has_values)) return lua_settop(L, top), false;
    lua_pushvalue(L, key);
    lua_insert(L, -2);
    lua_rawset(L, top + 1);
    lua_settop(L, key);
  }
  return true;
}

/* What the metatable at the top, which is popped, has for this event. */
static lua_CFunction meta_function(lua_State *L, const char *event) {
  lua_pushstring(L, event);
  lua_CFunction fn = lua_istable(L, -2) && lua_rawget(L, -2) == LUA_TFUNCTION ? lua_tocfunction(L, -1) : NULL;
  lua_pop(L, 2);
  return fn;
}

lua_CFunction fuse_tensor_meta(lua_State *L, const ltide_state *S, const char *event) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, S->tensor_ref);
  return meta_function(L, event);
}

/* A call of a kernel that is written in Lua, or of one with its arguments. */
static bool is_kernel(lua_State *L, lua_CFunction fn) {
  luaL_getmetatable(L, LTIDE_PROGRAM_META);
  if (fn == meta_function(L, "__call")) return true;
  luaL_getmetatable(L, LTIDE_BOUND_META);
  return fn == meta_function(L, "__call");
}

/* Is the argument at the index options that have a destination? */
static bool has_out(lua_State *L, int index) {
  if (!lua_istable(L, index)) return false;
  lua_pushliteral(L, "out");
  bool has = lua_rawget(L, index) != LUA_TNIL;
  lua_pop(L, 1);
  return has;
}

/* What a call of the same function is to be given. */
static bool read_argument(fuse_recorder *r, int index, fuse_arg *a) {
  lua_State *L = r->L;
  const ltide_tensor *u = fuse_handle_at(r, index);
  *a = (fuse_arg){.value = -1};
  if (u) {
    a->value = fuse_value_of(r, index);
    if (a->value >= 0) note_seen(r, u->t, a->value);
    return a->value >= 0;
  }
  bool has_values = false;
  if (!push_template_value(r, index, 0, &has_values)) return false;
  a->is_tree = lua_istable(L, -1) && has_values;
  a->ref = fuse_keep(r);
  return true;
}

/* The function is at the top, its arguments are the locals of ar. */
static void begin_call(fuse_recorder *r, lua_Debug *ar) {
  lua_State *L = r->L;
  fuse_call *c = &r->call;
  memset(c, 0, sizeof *c);
  int fn = lua_gettop(L);
  c->fn = lua_tocfunction(L, fn);
  c->row = ltide_row_at(L, fn);
  c->event.what = FUSE_CALL, c->event.out = c->event.into = -1;
  c->event.fn = c->fn, c->event.row = c->row;
  c->is_kernel = is_kernel(L, c->fn);
  c->event.writes = c->row ? c->row->name[strlen(c->row->name) - 1] == '_'
                           : c->is_kernel || c->fn == fuse_tensor_meta(r->L, r->S, "__newindex");
  lua_getinfo(L, "r", ar);
  int n = ar->ntransfer, first = ar->ftransfer;
  if (n > FUSE_ARGS) {
    fuse_decline(r, "%s gets more than %d arguments", fuse_name_of(c), FUSE_ARGS);
    return;
  }
  c->event.call.is_call = true, c->event.call.args = n;
  for (int i = 0; i < n; i++) {
    if (!lua_getlocal(L, ar, first + i)) lua_pushnil(L);
    c->event.writes |= has_out(L, lua_gettop(L));
    if (!read_argument(r, lua_gettop(L), &c->event.call.arg[i]))
      fuse_decline(r, "%s gets an argument that came from elsewhere, or a function", fuse_name_of(c));
    lua_settop(L, fn);
  }
  lua_pushvalue(L, fn);
  c->event.call.fn = fuse_keep(r);
}

/* {==== The hook */

static bool is_opaque(const fuse_recorder *r) {
  for (int i = 0; i < r->frames; i++)
    if (r->frame[i].is_opaque) return true;
  return false;
}

int fuse_find_known(lua_State *L, const fuse_known *known, lua_Debug *ar) {
  const void *address = lua_topointer(L, -1);
  for (int i = 0; i < known->functions; i++)
    if (known->function[i] == address) return i;
  lua_getinfo(L, "S", ar);
  for (int i = 0; i < known->functions; i++) {
    const struct fuse_lines *l = &known->lines[i];
    if (!strcmp(l->source, ar->short_src) && ar->linedefined >= l->first && ar->lastlinedefined <= l->last) return i;
  }
  return -1;
}

static void on_lua_function(fuse_recorder *r, lua_Debug *ar) {
  if (is_opaque(r)) {
    lua_getinfo(r->L, "S", ar);
    if (!ltide_script_is(ar)) fuse_decline(r, "%s calls a function of the script's", fuse_name_of(&r->call));
    return;
  }
  int known = fuse_find_known(r->L, &r->known, ar);
  if (known >= 0)
    r->writes |= r->known.writes[known];
  else
    fuse_decline(r, "it calls a function that cannot be seen from outside (%s:%d)", ar->short_src, ar->linedefined);
}

/* x[...], x.field, #x and x[...] = v, which are no rows. */
static bool is_access(const fuse_recorder *r, lua_CFunction fn) {
  return fn == fuse_tensor_meta(r->L, r->S, "__index") || fn == fuse_tensor_meta(r->L, r->S, "__len") ||
         fn == fuse_tensor_meta(r->L, r->S, "__newindex");
}

/* x:free(), or the end of a local variable, for a tensor that was made inside? */
static bool closes_own(fuse_recorder *r, lua_CFunction fn, lua_Debug *ar) {
  lua_State *L = r->L;
  if (!fuse_frees(ltide_row_at(L, -1)) && fn != fuse_tensor_meta(L, r->S, "__close")) return false;
  lua_getinfo(L, "r", ar);
  if (!lua_getlocal(L, ar, ar->ftransfer)) lua_pushnil(L);
  int16_t value = fuse_value_of(r, lua_gettop(L));
  lua_pop(L, 1);
  if (value < 0 || r->value[value].is_input) return false;
  return r->value[value].is_closed = true;
}

/* Of a large table nothing is guarded but what is named. */
static void note_table(fuse_recorder *r, lua_Debug *ar, bool writes) {
  lua_State *L = r->L;
  lua_getinfo(L, "r", ar);
  if (!lua_getlocal(L, ar, ar->ftransfer)) lua_pushnil(L);
  r->writes |= writes;
  for (int k = 0; k < r->larges; k++) {
    lua_rawgeti(L, r->refs, r->large[k]);
    if (lua_rawequal(L, -1, -2))
      fuse_decline(r,
                   writes ? "it changes a table such as the globals" : "it reads all of a table such as the globals");
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* The text of a table is where it lies, unless it has another. */
static void note_shown(fuse_recorder *r, lua_Debug *ar) {
  lua_State *L = r->L;
  int top = lua_gettop(L);
  lua_getinfo(L, "r", ar);
  for (int i = 0; i < ar->ntransfer; i++, lua_settop(L, top)) {
    if (!lua_getlocal(L, ar, ar->ftransfer + i)) lua_pushnil(L);
    if (lua_istable(L, -1) && !luaL_getmetafield(L, -1, "__tostring"))
      fuse_decline(r, "it makes text of where a table lies");
  }
}

static void on_c_function(fuse_recorder *r, lua_Debug *ar) {
  lua_State *L = r->L;
  lua_CFunction fn = lua_tocfunction(L, -1);
  if (r->frames == 64) {
    fuse_decline(r, "its calls are too deep");
    return;
  }
  bool inside = is_opaque(r);
  fuse_purity purity = fuse_purity_of(L);
  bool pure = purity != FUSE_IMPURE || (!inside && closes_own(r, fn, ar));
  if (purity >= FUSE_READS && !inside) note_table(r, ar, purity == FUSE_WRITES);
  if (purity == FUSE_SHOWS && !inside) note_shown(r, ar);
  r->record->walks |= purity == FUSE_WALKS;
  r->frame[r->frames++] = (fuse_frame){ar->i_ci, !pure};
  if (inside || pure) return;
  if (ltide_row_at(L, -1) || is_access(r, fn) || is_kernel(L, fn)) {
    begin_call(r, ar);
    return;
  }
  lua_getinfo(L, "n", ar);
  fuse_decline(r, "it calls %s, which may do anything", ar->name ? ar->name : "a C function");
}

static void on_return(fuse_recorder *r, lua_Debug *ar) {
  lua_State *L = r->L;
  int at = r->frames - 1, top = lua_gettop(L);
  while (at >= 0 && r->frame[at].at != ar->i_ci) at--;
  if (at < 0) return;
  if (at < r->frames - 1) fuse_decline(r, "it catches an error");
  bool was = r->frame[at].is_opaque;
  r->frames = at;
  if (!was || is_opaque(r)) return;
  lua_getinfo(L, "r", ar);
  int n = ar->ntransfer;
  if (n > FUSE_RESULTS) {
    fuse_decline(r, "%s gives more than %d results", fuse_name_of(&r->call), FUSE_RESULTS);
    return;
  }
  for (int i = 0; i < n; i++)
    if (!lua_getlocal(L, ar, ar->ftransfer + i)) lua_pushnil(L);
  fuse_end_call(r, top + 1, top + n);
  lua_settop(L, top);
}

static void hook(lua_State *L, lua_Debug *ar);

static void put_back(fuse_recorder *r) {
  if (lua_gethook(r->L) == hook) lua_sethook(r->L, r->hook, r->mask, r->count);
}

static int mask_of(int event) { return event == LUA_HOOKTAILCALL ? LUA_MASKCALL : 1 << event; }

static void hook(lua_State *L, lua_Debug *ar) {
  const ltide_state *S = ltide_state_of(L);
  fuse_recorder *r = S ? S->recorder : NULL;
  if (!r || r->L != L) return;
  if (r->hook && (r->mask & mask_of(ar->event))) r->hook(L, ar);
  if (lua_gethook(L) != hook || !lua_checkstack(L, 48)) return;
  int top = lua_gettop(L), refs = r->refs, ids = r->ids;
  lua_rawgetp(L, LUA_REGISTRYINDEX, r); /* indexes count from the frame of the function that is called */
  lua_rawgeti(L, top + 1, 1);
  lua_rawgeti(L, top + 1, 2);
  r->refs = top + 2, r->ids = top + 3;
  if (!r->record->eager && (ar->event == LUA_HOOKCALL || ar->event == LUA_HOOKTAILCALL)) {
    lua_getinfo(L, "f", ar);
    if (lua_iscfunction(L, -1))
      on_c_function(r, ar);
    else
      on_lua_function(r, ar);
  } else if (!r->record->eager && ar->event == LUA_HOOKRET)
    on_return(r, ar);
  lua_settop(L, top);
  r->refs = refs, r->ids = ids;
  if (r->record->eager) put_back(r);
}

void fuse_record_begin(fuse_recorder *r) {
  lua_State *L = r->L;
  r->hook = lua_gethook(L), r->mask = lua_gethookmask(L), r->count = lua_gethookcount(L);
  lua_createtable(L, 2, 0);
  lua_pushvalue(L, r->refs);
  lua_rawseti(L, -2, 1);
  lua_pushvalue(L, r->ids);
  lua_rawseti(L, -2, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, r);
  r->S->recorder = r, r->S->is_fusing = true;
  lua_sethook(L, hook, r->mask | LUA_MASKCALL | LUA_MASKRET, r->count);
}

/* Somebody else's hook, set meanwhile, has seen what ours has not. */
void fuse_record_end(fuse_recorder *r, lua_State *L) {
  if (r->S->recorder != r) return;
  if (!r->record->eager && lua_gethook(r->L) != hook) fuse_decline(r, "a hook was set while it ran");
  put_back(r);
  r->S->recorder = NULL, r->S->is_fusing = r->S->follower != NULL;
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, r);
}

#endif
