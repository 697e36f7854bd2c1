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

static ltide_tensor *handle_at(const fuse_recorder *r, int index) {
  ltide_tensor *u = ltide_test_handle(r->L, r->S, index);
  return u && u->t ? u : NULL;
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
  const ltide_tensor *u = handle_at(r, index);
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
    if (handle_at(r, key) || !push_template_value(r, key + 1, depth, has_values)) return lua_settop(L, top), false;
    lua_pushvalue(L, key);
    lua_insert(L, -2);
    lua_rawset(L, top + 1);
    lua_settop(L, key);
  }
  return true;
}

static const char *name_of(const fuse_call *c) { return c->row ? c->row->name : "a C function"; }

/* What the metatable at the top, which is popped, has for this event. */
static lua_CFunction meta_function(lua_State *L, const char *event) {
  lua_pushstring(L, event);
  lua_CFunction fn = lua_istable(L, -2) && lua_rawget(L, -2) == LUA_TFUNCTION ? lua_tocfunction(L, -1) : NULL;
  lua_pop(L, 2);
  return fn;
}

static lua_CFunction tensor_meta(const fuse_recorder *r, const char *event) {
  lua_rawgeti(r->L, LUA_REGISTRYINDEX, r->S->tensor_ref);
  return meta_function(r->L, event);
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
  const ltide_tensor *u = handle_at(r, index);
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
  c->is_kernel = is_kernel(L, c->fn);
  c->event.writes =
      c->row ? c->row->name[strlen(c->row->name) - 1] == '_' : c->is_kernel || c->fn == tensor_meta(r, "__newindex");
  lua_getinfo(L, "r", ar);
  int n = ar->ntransfer, first = ar->ftransfer;
  if (n > FUSE_ARGS) {
    fuse_decline(r, "%s gets more than %d arguments", name_of(c), FUSE_ARGS);
    return;
  }
  c->event.call.is_call = true, c->event.call.args = n;
  for (int i = 0; i < n; i++) {
    if (!lua_getlocal(L, ar, first + i)) lua_pushnil(L);
    c->event.writes |= has_out(L, lua_gettop(L));
    if (!read_argument(r, lua_gettop(L), &c->event.call.arg[i]))
      fuse_decline(r, "%s gets an argument that came from elsewhere, or a function", name_of(c));
    lua_settop(L, fn);
  }
  lua_pushvalue(L, fn);
  c->event.call.fn = fuse_keep(r);
}

/* {==== Elementwise operations */

static int16_t find_seen(const fuse_call *c, const tide_tensor *x) {
  for (int i = 0; i < c->seen_count; i++)
    if (c->seen[i].tensor == x) return c->seen[i].value;
  return -1;
}

static bool same_size(const fuse_value *v, const tide_tensor *x) {
  return v->ndim == tide_tensor_ndim(x) && !memcmp(v->size, tide_tensor_size(x), v->ndim * sizeof *v->size);
}

/* Can the operation be part of a kernel? */
static bool is_plain(const fuse_recorder *r, tide_op op, int operands, const tide_operand *in,
                     const tide_tensor *into) {
  const fuse_call *c = &r->call;
  tide_dtype result;
  int device = TIDE_CURRENT;
  if (tide_result_dtype(&result, op, in) != TIDE_OK || !tide_fuse_takes(op, result)) return false;
  for (int k = 0; k < operands; k++) {
    if (!in[k].tensor) {
      if (in[k].number.kind == 'C') return false;
      continue;
    }
    int16_t value = find_seen(c, in[k].tensor);
    if (value < 0 || tide_dtype_kind(tide_tensor_dtype(in[k].tensor)) == 'C') return false;
    if (device != TIDE_CURRENT && device != r->value[value].device) return false;
    device = r->value[value].device;
  }
  if (!into) return true;
  int16_t value = find_seen(c, into);
  return value >= 0 && tide_tensor_dtype(into) == result && same_size(&r->value[value], into);
}

void ltide_fuse_note(lua_State *L, ltide_state *S, tide_op op, const tide_operand *in, const tide_scalar *p,
                     const tide_tensor *into) {
  fuse_recorder *r = S->recorder;
  fuse_call *c = &r->call;
  int operands = tide_op_get(op)->operands;
  if (r->L != L || !r->frames || r->record->eager) return;
  c->is_vague = c->is_op || !is_plain(r, op, operands, in, into);
  c->is_op = true;
  if (c->is_vague) return;
  c->op = op, c->operands = operands, c->into = into;
  c->params = tide_fuse_params(op);
  for (int k = 0; k < operands; k++) {
    c->in[k] = in[k].tensor ? find_seen(c, in[k].tensor) : -1;
    c->number[k] = in[k].number;
  }
  for (int k = 0; p && k < c->params; k++) c->param[k] = p[k];
  /* x^2 is a product, as it is where it runs alone. */
  bool is_square = op == TIDE_OP_pow && in[0].tensor && !in[1].tensor &&
                   tide_dtype_kind(tide_tensor_dtype(in[0].tensor)) == 'F' && in[1].number.re == 2;
  if (is_square) c->op = TIDE_OP_square, c->operands = 1;
}

/* Over the last dims, or the first ones? */
static bool find_dims(fuse_event *e, const tide_reduce_options *o, int ndim) {
  int n = o->ndims ? o->ndims : ndim;
  uint64_t last = 0, first = 0;
  for (int i = 0; i < o->ndims; i++) {
    uint64_t dim = (uint64_t)1 << o->dims[i];
    if (o->dims[i] >= ndim - n) last |= dim;
    if (o->dims[i] < n) first |= dim;
  }
  bool is_last = !o->ndims || __builtin_popcountll(last) == n;
  e->dims = (uint8_t)n, e->leading = !is_last, e->keepdim = o->keepdim;
  return n > 0 && (is_last || __builtin_popcountll(first) == n);
}

void ltide_fuse_note_reduction(lua_State *L, ltide_state *S, tide_reduction op, const tide_tensor *x,
                               const tide_reduce_options *o) {
  fuse_recorder *r = S->recorder;
  fuse_call *c = &r->call;
  fuse_event *e = &c->event;
  if (r->L != L || !r->frames || r->record->eager) return;
  bool fits = find_dims(e, o, tide_tensor_ndim(x));
  int64_t columns =
      fits ? tide_fuse_numel(tide_tensor_size(x) + (e->leading ? 0 : tide_tensor_ndim(x) - e->dims), e->dims) : 0;
  c->in[0] = find_seen(c, x);
  c->is_reduction =
      !c->is_op && !c->is_reduction && c->in[0] >= 0 && columns > 1 && tide_fuse_reduces(op, tide_tensor_dtype(x));
  c->is_vague = true;
  c->op = op;
  e->params = op == TIDE_VAR || op == TIDE_STD || op == TIDE_NORM;
  e->param[0] = tide_float(o->param);
}

/* May the index stand for a dim of x, or for all of x where that is a line, in a kernel? */
static bool is_gatherable(const fuse_value *x, const fuse_value *index, int dim, int places, bool contiguous) {
  char kind = tide_dtype_kind((tide_dtype)index->dtype);
  bool along = places == TIDE_FUSE_ALONG;
  if ((kind != 'I' && kind != 'U') || tide_dtype_kind((tide_dtype)x->dtype) == 'C' || x->device != index->device)
    return false;
  if (places == TIDE_FUSE_LINE) return contiguous;
  if (dim < 0 || dim >= x->ndim || (along && x->ndim != index->ndim)) return false;
  for (int d = 0; along && d < x->ndim; d++)
    if (d != dim && x->size[d] != index->size[d]) return false;
  return true;
}

void ltide_fuse_note_gather(lua_State *L, ltide_state *S, const tide_tensor *x, const tide_tensor *index, int dim,
                            int places) {
  fuse_recorder *r = S->recorder;
  fuse_call *c = &r->call;
  if (r->L != L || !r->frames || r->record->eager) return;
  c->in[0] = find_seen(c, index), c->in[1] = find_seen(c, x);
  if (dim < 0) dim += tide_tensor_ndim(x);
  c->is_gather = !c->is_op && !c->is_gather && c->in[0] >= 0 && c->in[1] >= 0 &&
                 is_gatherable(&r->value[c->in[1]], &r->value[c->in[0]], dim, places, tide_tensor_is_contiguous(x));
  c->is_vague = true;
  c->op = places, c->event.dims = (uint8_t)dim;
  c->event.line = ltide_line(L, &c->event.file);
  /* Where other dims of x stand behind, the index is read as if it had them, and so from memory. */
  c->event.operands = places != TIDE_FUSE_SLICES || dim == tide_tensor_ndim(x) - 1;
}

/* {==== What a call has done */

static fuse_event *add_event(fuse_recorder *r) {
  if (r->events == FUSE_EVENTS) {
    fuse_decline(r, "it does more than %d operations", FUSE_EVENTS);
    return NULL;
  }
  for (int i = 0; i < r->call.seen_count; i++) r->value[r->call.seen[i].value].last = (int16_t)r->events;
  r->event[r->events] = r->call.event;
  return &r->event[r->events++];
}

static void add_op(fuse_recorder *r, int result) {
  const fuse_call *c = &r->call;
  fuse_event *e = add_event(r);
  if (!e) return;
  e->what = FUSE_OP, e->op = (uint8_t)c->op, e->operands = (uint8_t)c->operands, e->params = (uint8_t)c->params;
  memcpy(e->in, c->in, sizeof e->in);
  memcpy(e->number, c->number, sizeof e->number);
  memcpy(e->param, c->param, sizeof e->param);
  e->into = c->into ? find_seen(c, c->into) : -1;
  e->out = fuse_value_new(r, result, r->events - 1);
}

/* The named ones come from the list of dtypes. */
static bool may_cast(const fuse_call *c) {
  const char *noun = c->row ? c->row->noun : NULL;
  return noun && (strstr(noun, "move.def") || strstr(noun, "dtype.def")) && !c->event.writes;
}

/* Does the call give its argument's values as another dtype, and nothing else? */
static bool is_cast(const fuse_recorder *r, int result) {
  const fuse_call *c = &r->call;
  const ltide_tensor *u = handle_at(r, result);
  int16_t from = c->event.call.args ? c->event.call.arg[0].value : -1;
  if (!u || from < 0 || !may_cast(c)) return false;
  const fuse_value *v = &r->value[from];
  tide_dtype dtype = tide_tensor_dtype(u->t);
  return v->dtype != (uint8_t)dtype && v->device == tide_tensor_device(u->t) && same_size(v, u->t) &&
         tide_dtype_kind(dtype) != 'C' && tide_dtype_kind((tide_dtype)v->dtype) != 'C';
}

static void add_cast(fuse_recorder *r, int result) {
  fuse_event *e = add_event(r);
  if (!e) return;
  e->what = FUSE_CAST, e->operands = 1, e->in[0] = e->call.arg[0].value, e->into = -1;
  e->out = fuse_value_new(r, result, r->events - 1);
  if (e->out >= 0) e->dtype = r->value[e->out].dtype;
}

/* A table of tensors. */
static bool add_list(fuse_recorder *r, fuse_event *e, int k, int index) {
  lua_State *L = r->L;
  int n = (int)lua_rawlen(L, index);
  if (!n || n > 64 || lua_getmetatable(L, index)) return false;
  e->call.result[k] = (int16_t)(-2 - r->values), e->call.listed[k] = (int16_t)n;
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, index, i);
    bool fresh = handle_at(r, -1) && fuse_value_of(r, -1) < 0;
    if (fresh) fresh = fuse_value_new(r, -1, r->events - 1) >= 0;
    lua_pop(L, 1);
    if (!fresh) return false;
  }
  return true;
}

/* The results are at first .. top. False: one of them is neither a tensor nor a list of them. */
static bool add_call(fuse_recorder *r, int first, int top) {
  lua_State *L = r->L;
  fuse_event *e = add_event(r);
  if (!e) return true;
  const char *noun = r->call.row ? r->call.row->noun : NULL;
  e->call.results = top - first + 1;
  for (int i = first; i <= top; i++) {
    ltide_tensor *u = handle_at(r, i);
    if (u) {
      int16_t known = fuse_value_of(r, i);
      e->call.result[i - first] = known >= 0 ? known : fuse_value_new(r, i, r->events - 1);
    } else if (!lua_istable(L, i) || !add_list(r, e, i - first, i)) {
      r->events--;
      return false;
    }
  }
  int16_t out = e->call.results == 1 ? e->call.result[0] : -1;
  bool may_view = (noun && strstr(noun, "view.def")) || !r->call.row;
  for (int i = 0; may_view && out >= 0 && i < r->call.seen_count; i++)
    e->is_view |=
        r->value[out].event == r->events - 1 && r->value[r->call.seen[i].value].storage == r->value[out].storage;
  return true;
}

/* {==== What tells dtypes or sizes only */

static const char kinds[] = " dim ndimension is_floating_point is_complex element_size get_device is_tensor type has ";
static const char sizes[] = " size stride numel nelement nbytes is_contiguous ";
static const char dynamic[] =
    " nonzero argwhere masked_select unique unique_consecutive bincount repeat_interleave item totable tolist ";

static void need_sizes(fuse_recorder *r) {
  r->record->exact = true;
  if (r->is_dynamic) fuse_decline(r, "it asks for sizes that depend on values");
}

/* x.field and x[...] gave something that is no tensor. */
static void end_field(fuse_recorder *r, int result) {
  lua_State *L = r->L;
  int type = lua_type(L, result);
  if (type == LUA_TFUNCTION || type == LUA_TUSERDATA || type == LUA_TNIL) return;
  need_sizes(r);
}

/* What a kernel reads from outside decides which dtypes its results have. */
static void end_kernel(fuse_recorder *r, int first, int top) {
  lua_State *L = r->L;
  fuse_step *s = &r->call.event.call;
  lua_rawgeti(L, r->refs, s->arg[0].ref);
  s->is_kernel = true, s->body = ltide_program_body(L, lua_gettop(L));
  if (top >= first)
    fuse_decline(r, "%s gives results, expected a kernel that writes into tensors", luaL_tolstring(L, -1, NULL));
  else
    add_call(r, first, top);
  lua_settop(L, top);
}

static void end_call(fuse_recorder *r, int first, int top) {
  fuse_call *c = &r->call;
  if (c->is_kernel) {
    end_kernel(r, first, top);
    return;
  }
  bool one = top == first, is_field = !c->row;
  const char *name = name_of(c);
  const ltide_tensor *u = one || c->is_reduction ? handle_at(r, first) : NULL;
  if (u && c->is_op && !c->is_vague && (c->into ? u->t == c->into : fuse_value_of(r, first) < 0)) {
    add_op(r, first);
    return;
  }
  if (u && is_cast(r, first) && fuse_value_of(r, first) < 0) {
    add_cast(r, first);
    return;
  }
  if (c->row && ltide_is_in(kinds, name)) return;
  if (c->row && ltide_is_in(sizes, name)) {
    need_sizes(r);
    return;
  }
  if (is_field && one && !u) {
    end_field(r, first);
    return;
  }
  if (u && c->is_reduction && fuse_value_of(r, first) < 0 && add_call(r, first, top)) {
    fuse_event *e = &r->event[r->events - 1];
    if (r->record->eager) return;
    e->what = FUSE_REDUCE, e->op = (uint8_t)c->op, e->operands = 1, e->in[0] = c->in[0], e->into = -1;
    e->out = e->call.result[0];
    return;
  }
  if (u && c->is_gather && fuse_value_of(r, first) < 0 && add_call(r, first, top)) {
    fuse_event *e = &r->event[r->events - 1];
    if (r->record->eager) return;
    e->what = FUSE_GATHER, e->op = (uint8_t)c->op, e->in[0] = c->in[0], e->in[1] = c->in[1], e->into = -1;
    e->out = e->call.result[0];
    return;
  }
  bool has_tensors = is_field && top >= first && (c->event.call.arg[1].value >= 0 || c->event.call.arg[1].is_tree);
  if (!add_call(r, first, top))
    fuse_decline(r, "%s gives what may depend on values", name);
  else if (ltide_is_in(dynamic, name) || has_tensors)
    r->is_dynamic = true;
}

/* {==== The hook */

static bool is_opaque(const fuse_recorder *r) {
  for (int i = 0; i < r->frames; i++)
    if (r->frame[i].is_opaque) return true;
  return false;
}

/* Is it a function whose upvalues are guarded, or one that was made inside such a one? */
static bool is_known(fuse_recorder *r, lua_Debug *ar) {
  const void *address = lua_topointer(r->L, -1);
  for (int i = 0; i < r->functions; i++)
    if (r->function[i] == address) return true;
  lua_getinfo(r->L, "S", ar);
  for (int i = 0; i < r->functions; i++) {
    const struct fuse_lines *l = &r->lines[i];
    if (!strcmp(l->source, ar->short_src) && ar->linedefined >= l->first && ar->lastlinedefined <= l->last) return true;
  }
  return false;
}

static void on_lua_function(fuse_recorder *r, lua_Debug *ar) {
  if (is_opaque(r)) {
    lua_getinfo(r->L, "S", ar);
    if (!ltide_script_is(ar)) fuse_decline(r, "%s calls a function of the script's", name_of(&r->call));
  } else if (!is_known(r, ar))
    fuse_decline(r, "it calls a function that cannot be seen from outside (%s:%d)", ar->short_src, ar->linedefined);
}

/* x[...], x.field, #x and x[...] = v, which are no rows. */
static bool is_access(const fuse_recorder *r, lua_CFunction fn) {
  return fn == tensor_meta(r, "__index") || fn == tensor_meta(r, "__len") || fn == tensor_meta(r, "__newindex");
}

/* Is it the end of a local variable for a tensor that was made inside? */
static bool closes_own(fuse_recorder *r, lua_CFunction fn, lua_Debug *ar) {
  lua_State *L = r->L;
  if (fn != tensor_meta(r, "__close")) return false;
  lua_getinfo(L, "r", ar);
  if (!lua_getlocal(L, ar, ar->ftransfer)) lua_pushnil(L);
  int16_t value = fuse_value_of(r, lua_gettop(L));
  lua_pop(L, 1);
  if (value < 0 || r->value[value].is_input) return false;
  return r->value[value].is_closed = true;
}

static void on_c_function(fuse_recorder *r, lua_Debug *ar) {
  lua_State *L = r->L;
  lua_CFunction fn = lua_tocfunction(L, -1);
  if (r->frames == 64) {
    fuse_decline(r, "its calls are too deep");
    return;
  }
  bool inside = is_opaque(r), pure = fuse_is_pure(L) || (!inside && closes_own(r, fn, ar));
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
    fuse_decline(r, "%s gives more than %d results", name_of(&r->call), FUSE_RESULTS);
    return;
  }
  for (int i = 0; i < n; i++)
    if (!lua_getlocal(L, ar, ar->ftransfer + i)) lua_pushnil(L);
  end_call(r, top + 1, top + n);
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
  r->S->recorder = r;
  lua_sethook(L, hook, r->mask | LUA_MASKCALL | LUA_MASKRET, r->count);
}

/* Somebody else's hook, set meanwhile, has seen what ours has not. */
void fuse_record_end(fuse_recorder *r, lua_State *L) {
  if (r->S->recorder != r) return;
  if (!r->record->eager && lua_gethook(r->L) != hook) fuse_decline(r, "a hook was set while it ran");
  put_back(r);
  r->S->recorder = NULL;
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, r);
}

#endif
