/* fuse_event.c: what one call has done, for the recording of tide.fuse: an operation, a cast, a reduction or a gather
 * that a kernel can do, a call that is made again, or nothing but a look. */
#include "fuse.h"

#include "program.h"

#if LUA_VERSION_NUM == 504

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

/* x^2 is a product, as it is where it runs alone. */
tide_op fuse_plain_op(tide_op op, const tide_operand *in) {
  bool is_square = op == TIDE_OP_pow && in[0].tensor && !in[1].tensor &&
                   tide_dtype_kind(tide_tensor_dtype(in[0].tensor)) == 'F' && in[1].number.re == 2;
  return is_square ? TIDE_OP_square : op;
}

void fuse_note(lua_State *L, ltide_state *S, tide_op op, const tide_operand *in, const tide_scalar *p,
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
  c->op = fuse_plain_op(op, in);
  if (c->op != (int)op) c->operands = 1;
}

bool fuse_find_dims(fuse_event *e, const tide_reduce_options *o, int ndim) {
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
  bool fits = fuse_find_dims(e, o, tide_tensor_ndim(x));
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
  if (e->out >= 0) e->dtype = r->value[e->out].dtype;
}

/* The named ones come from the list of dtypes. */
bool fuse_may_cast(const fuse_event *e) {
  const char *noun = e->row ? e->row->noun : NULL;
  return noun && (strstr(noun, "move.def") || strstr(noun, "dtype.def")) && !e->writes;
}

/* Does the call give its argument's values as another dtype, and nothing else? */
static bool is_cast(const fuse_recorder *r, int result) {
  const fuse_call *c = &r->call;
  const ltide_tensor *u = fuse_handle_at(r, result);
  int16_t from = c->event.call.args ? c->event.call.arg[0].value : -1;
  if (!u || from < 0 || !fuse_may_cast(&c->event)) return false;
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
    bool fresh = fuse_handle_at(r, -1) && fuse_value_of(r, -1) < 0;
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
    ltide_tensor *u = fuse_handle_at(r, i);
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

bool fuse_tells_kind(const char *name) { return ltide_is_in(kinds, name); }

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

void fuse_end_call(fuse_recorder *r, int first, int top) {
  fuse_call *c = &r->call;
  if (c->is_kernel) {
    end_kernel(r, first, top);
    return;
  }
  bool one = top == first, is_field = !c->row;
  const char *name = fuse_name_of(c);
  const ltide_tensor *u = one || c->is_reduction ? fuse_handle_at(r, first) : NULL;
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
    e->out = e->call.result[0], e->dtype = r->value[e->out].dtype;
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

#endif
