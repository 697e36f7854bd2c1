/* fuse_follow.c: a call of a function that is fused, with other numbers than those of its record.
 *
 * Numbers may decide what a function does, so it has to run; but as a rule it does what it did before. Its operations
 * are put off: each that is the record's next one gives a tensor of the right size and dtype without values, and its
 * numbers are noted. When the function has returned the record's kernels run with these numbers, and the tensors get
 * the values. At the first call that is not the record's next one, everything that was put off is done, one by one, and
 * the function goes on alone.
 *
 * Invariant: a tensor without values is read by nobody. A hook sees every call before it is made; what may read tensors
 * and is not the record's next call, or one that tells dtypes and sizes only, is made after they have their values. */
#include "bounded.h"
#include "fuse.h"

#include <stdlib.h>

#if LUA_VERSION_NUM == 504

#  define FOLLOWER_META "tide.Fused.follower"

struct ltide_follower {
  lua_State *L;
  ltide_state *S;
  fuse_record *record;
  const fuse_trace *trace; /* NULL: it is followed no longer */
  int next, values, slots; /* next: event */
  const void *handles[FUSE_INPUTS];
  lua_CFunction index, close, length; /* of tensors */
  const void *view;                   /* the frame of the view that is being made, or NULL */
  lua_Hook hook;
  int mask, count;
  tide_tensor **tensor;  /* of each value, with a reference */
  fuse_numbers *numbers; /* of each event */
};
typedef struct ltide_follower follower;

bool fuse_is_followed(const lua_State *L, const ltide_state *S) { return S->follower && S->follower->L == L; }

/* A hook that counts instructions begins anew at each call: those of a quota are counted otherwise, another's would not
 * be. And small tensors of the CPU gain less than is spent. */
bool fuse_may_follow(lua_State *L, const ltide_state *S, const fuse_record *p, ltide_tensor *const *handles) {
  if (lua_gethook(L) && (!S->quota || lua_gethookmask(L) != LUA_MASKCOUNT)) return false;
  for (int k = 0; k < p->inputs; k++)
    if (p->input[k].device >= 0 || tide_tensor_numel(handles[k]->t) >= FUSE_WORTH) return true;
  return false;
}

/* {==== What is kept of a run */

static bool has_values(const fuse_event *e) { return e->what != FUSE_CALL; }

static bool is_made_inside(const fuse_recorder *r, int value) {
  const fuse_value *v = &r->value[value];
  return !v->is_input && v->event >= 0 && has_values(&r->event[v->event]);
}

/* A cast to the dtype that its argument has, which it gives. */
static bool is_idle_cast(const fuse_event *e) {
  bool moves = fuse_may_cast(e) && strcmp(e->row->name, "contiguous") != 0;
  return moves && e->call.args && e->call.arg[0].value == e->call.result[0];
}

/* Views of tensors that are there are made at once; any other call may read what is put off. */
static bool can_follow(const fuse_recorder *r, const fuse_event *e) {
  if (e->what == FUSE_OP || e->what == FUSE_CAST) return true;
  if (e->call.results != 1 || e->call.result[0] < 0) return false;
  if (e->what == FUSE_CALL && is_idle_cast(e)) return true;
  for (int k = 0; k < e->call.args; k++) {
    const fuse_arg *a = &e->call.arg[k];
    if (a->is_tree || (e->what == FUSE_CALL && a->value >= 0 && is_made_inside(r, a->value))) return false;
  }
  return e->what == FUSE_REDUCE || (e->what == FUSE_CALL && e->is_view);
}

void fuse_trace_keep(fuse_recorder *r) {
  fuse_record *p = r->record;
  bool is_useful = false;
  for (int i = 0; i < p->steps; i++) is_useful |= p->step[i].fused != NULL;
  for (int i = 0; i < r->events && is_useful; i++) is_useful = can_follow(r, &r->event[i]);
  if (!is_useful || r->is_dynamic || r->writes || p->kernels) return;
  fuse_trace *t = malloc(sizeof *t + (size_t)r->events * sizeof *t->event);
  if (!t) return;
  t->known = r->known, t->events = r->events;
  memcpy(t->event, r->event, (size_t)r->events * sizeof *t->event);
  p->trace = t;
}

void fuse_put_numbers(lua_State *L, fuse_record *p, const fuse_numbers *now) {
  p->followed = now != NULL;
  for (int i = 0; i < p->steps; i++) {
    fuse_step *s = &p->step[i];
    for (int k = 0; k < s->numbers; k++) {
      int at = s->from[k] >> 3, which = s->from[k] & 7;
      const fuse_event *e = &p->trace->event[at];
      const tide_scalar *number = now ? now[at].number : e->number, *param = now ? now[at].param : e->param;
      s->number[k] = which < 3 ? number[which] : param[which - 3];
    }
    if (s->fused) ltide_try(L, tide_fused_numbers(s->fused, s->number, s->numbers));
  }
}

/* {==== Doing what was put off */

static tide_status do_event(follower *w, const fuse_event *e, const fuse_numbers *n, tide_tensor **made) {
  tide_tensor *x = e->in[0] >= 0 ? w->tensor[e->in[0]] : NULL;
  if (e->what == FUSE_CAST)
    return tide_to(made, x, &(tide_options){(tide_dtype)e->dtype, tide_tensor_device(x), false}, true, false);
  if (e->what == FUSE_REDUCE) {
    tide_reduce_options o = TIDE_REDUCE_OPTIONS;
    int dims[TIDE_MAX_DIMS], ndim = tide_tensor_ndim(x);
    for (int k = 0; k < e->dims; k++) dims[k] = k + (e->leading ? 0 : ndim - e->dims);
    o.dims = dims, o.ndims = e->dims, o.keepdim = e->keepdim;
    if (e->params) o.param = n->param[0].re;
    return tide_reduce(made, (tide_reduction)e->op, x, &o, NULL);
  }
  tide_operand in[3];
  for (int k = 0; k < e->operands; k++)
    in[k] = e->in[k] >= 0 ? (tide_operand){.tensor = w->tensor[e->in[k]]} : (tide_operand){.number = n->number[k]};
  tide_tensor *into = e->into >= 0 ? w->tensor[e->into] : NULL;
  return tide_elementwise(into ? NULL : made, (tide_op)e->op, in, e->params ? n->param : NULL, into);
}

/* A tensor without values that gets none is empty, so that a script that goes on after the error reads no others. */
static void make_empty(tide_tensor *x) {
  const tide_options o = {tide_tensor_dtype(x), tide_tensor_device(x), false};
  tide_tensor *empty = NULL;
  if (tide_empty(&empty, (const int64_t[]){0}, 1, &o) == TIDE_OK) tide_set(x, empty);
  tide_tensor_release(empty);
}

static void hook(lua_State *L, lua_Debug *ar);

/* The function goes on alone, or has returned. */
static void stop(lua_State *L, follower *w) {
  ltide_state *S = w->S;
  w->trace = NULL;
  if (lua_gethook(w->L) == hook) lua_sethook(w->L, w->hook, w->mask, w->count);
  S->follower = NULL, S->leave = NULL;
  S->is_fusing = S->recorder != NULL;
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, w);
}

static tide_status do_all(lua_State *L, follower *w) {
  const fuse_trace *t = w->trace;
  tide_status status = TIDE_OK;
  if (!t) return TIDE_OK;
  stop(L, w);
  for (int i = 0; i < w->next; i++) {
    const fuse_event *e = &t->event[i];
    tide_tensor *made = NULL;
    if (!has_values(e)) continue;
    if (status == TIDE_OK) status = do_event(w, e, &w->numbers[i], &made);
    if (made) tide_set(w->tensor[e->out], made);
    if (!made && e->into < 0) make_empty(w->tensor[e->out]);
    tide_tensor_release(made);
  }
  return status;
}

/* {==== Operations that are put off */

enum { REFS = 1, COROUTINE, USER_VALUES = COROUTINE };

static const fuse_event *next_event(const follower *w, fuse_what what) {
  const fuse_event *e = w->next < w->trace->events ? &w->trace->event[w->next] : NULL;
  return e && e->what == what ? e : NULL;
}

static bool is_value(const follower *w, int value, const tide_tensor *x) { return value >= 0 && w->tensor[value] == x; }

static void note_value(follower *w, const fuse_event *e, tide_tensor *x) {
  tide_tensor_retain(w->tensor[e->out] = x);
  w->next++;
}

/* All its elements are one, which nobody reads. */
static bool put_off(follower *w, const fuse_event *e, tide_tensor **out, const int64_t *size, int ndim, int device) {
  static const int64_t stride[TIDE_MAX_DIMS] = {0};
  const tide_options o = {(tide_dtype)e->dtype, device, false};
  if (tide_empty_strided(out, size, stride, ndim, &o) != TIDE_OK) return false;
  note_value(w, e, *out);
  return true;
}

static bool broadcast(int64_t *size, int *ndim, const tide_tensor *x) {
  const int64_t *other = tide_tensor_size(x);
  int n = tide_tensor_ndim(x), more = n - *ndim;
  if (more > 0) {
    memmove(size + more, size, (size_t)*ndim * sizeof *size);
    for (int d = 0; d < more; d++) size[d] = 1;
    *ndim = n;
  }
  for (int d = 1; d <= n; d++) {
    int64_t *at = &size[*ndim - d];
    if (*at != other[n - d] && *at != 1 && other[n - d] != 1) return false;
    if (*at == 1) *at = other[n - d];
  }
  return true;
}

static bool put_off_op(follower *w, tide_tensor **out, tide_op op, const tide_operand *in, const tide_scalar *p,
                       tide_tensor *into) {
  const fuse_event *e = next_event(w, FUSE_OP);
  int64_t size[TIDE_MAX_DIMS];
  int ndim = 0, device = 0;
  tide_dtype dtype;
  if (!e || e->op != fuse_plain_op(op, in) || (e->into >= 0) != (into != NULL)) return false;
  fuse_numbers *n = &w->numbers[w->next];
  for (int k = 0; k < e->operands; k++) {
    const tide_tensor *x = in[k].tensor;
    if (x ? !is_value(w, e->in[k], x) : e->in[k] >= 0 || in[k].number.kind != e->number[k].kind) return false;
    n->number[k] = in[k].number;
    if (x && !broadcast(size, &ndim, x)) return false;
    if (x) device = tide_tensor_device(x);
  }
  for (int k = 0; k < e->params; k++) {
    if (!p || p[k].kind != e->param[k].kind) return false;
    n->param[k] = p[k];
  }
  if (tide_result_dtype(&dtype, op, in) != TIDE_OK || dtype != (tide_dtype)e->dtype) return false;
  if (!into) return put_off(w, e, out, size, ndim, device);
  if (!is_value(w, e->into, into) || tide_tensor_ndim(into) != ndim ||
      memcmp(tide_tensor_size(into), size, (size_t)ndim * sizeof *size) != 0)
    return false;
  note_value(w, e, into);
  return true;
}

static bool put_off_reduction(follower *w, tide_tensor **out, tide_reduction op, const tide_tensor *x,
                              const tide_reduce_options *o) {
  const fuse_event *e = next_event(w, FUSE_REDUCE);
  fuse_event is = {0};
  int64_t size[TIDE_MAX_DIMS];
  int n = tide_tensor_ndim(x), ndim = 0;
  if (!e || e->op != op || o->dtype != TIDE_DTYPE_NONE || !is_value(w, e->in[0], x)) return false;
  if (!fuse_find_dims(&is, o, n) || is.dims != e->dims || is.leading != e->leading || is.keepdim != e->keepdim)
    return false;
  w->numbers[w->next].param[0] = e->param[0];
  if (e->params && o->param != e->param[0].re) return false;
  for (int d = 0; d < n; d++) {
    bool reduced = e->leading ? d < e->dims : d >= n - e->dims;
    if (!reduced || e->keepdim) size[ndim++] = reduced ? 1 : tide_tensor_size(x)[d];
  }
  return put_off(w, e, out, size, ndim, tide_tensor_device(x));
}

tide_status ltide_fuse_elementwise(lua_State *L, ltide_state *S, tide_tensor **out, tide_op op, const tide_operand *in,
                                   const tide_scalar *p, tide_tensor *into) {
  follower *w = S->follower;
  tide_status status = TIDE_OK;
  if (w && w->L == L && put_off_op(w, out, op, in, p, into)) return TIDE_OK;
  if (w) status = do_all(L, w);
  if (status == TIDE_OK) status = tide_elementwise(out, op, in, p, into);
  if (status == TIDE_OK && S->recorder) fuse_note(L, S, op, in, p, into);
  return status;
}

tide_status ltide_fuse_reduce(lua_State *L, ltide_state *S, tide_tensor **out, tide_reduction op, const tide_tensor *x,
                              const tide_reduce_options *o) {
  follower *w = S->follower;
  tide_status status = TIDE_OK;
  if (w && w->L == L && put_off_reduction(w, out, op, x, o)) return TIDE_OK;
  if (w) status = do_all(L, w);
  if (status == TIDE_OK) status = tide_reduce(out, op, x, o, NULL);
  if (status == TIDE_OK && S->recorder && o->dtype == TIDE_DTYPE_NONE) ltide_fuse_note_reduction(L, S, op, x, o);
  return status;
}

bool ltide_fuse_cast(lua_State *L, ltide_state *S, tide_tensor **out, tide_tensor *x, const tide_options *o,
                     bool copy) {
  follower *w = S->follower;
  tide_dtype dtype = o->dtype;
  bool is_cast = o->device == tide_tensor_device(x) && !o->pin_memory && !copy;
  if (!w || (is_cast && (dtype == TIDE_DTYPE_NONE || dtype == tide_tensor_dtype(x)))) return false;
  const fuse_event *e = is_cast && w->L == L ? next_event(w, FUSE_CAST) : NULL;
  bool is_next = e && is_value(w, e->in[0], x) && e->dtype == (uint8_t)dtype;
  if (is_next && put_off(w, e, out, tide_tensor_size(x), tide_tensor_ndim(x), tide_tensor_device(x))) return true;
  ltide_try(L, do_all(L, w));
  return false;
}

/* {==== The hook */

/* The record's value at b, where a tensor is lightuserdata, and the one at a. The numbers of an operation may differ.
 */
static bool is_same_value(follower *w, int a, int b, bool is_op) {
  lua_State *L = w->L;
  const ltide_tensor *u = ltide_test_handle(L, w->S, a);
  if (u) return lua_islightuserdata(L, b) && is_value(w, (int)((char *)lua_touserdata(L, b) - (char *)NULL) - 1, u->t);
  if (lua_type(L, a) == LUA_TNUMBER && lua_type(L, b) == LUA_TNUMBER && lua_isinteger(L, a) == lua_isinteger(L, b))
    return is_op || lua_rawequal(L, a, b);
  return lua_type(L, a) != LUA_TNUMBER && lua_rawequal(L, a, b);
}

static bool is_same_table(follower *w, int a, int b, bool is_op) {
  lua_State *L = w->L;
  int fields = 0, top = lua_gettop(L);
  if (!lua_istable(L, a) || !lua_istable(L, b)) return false;
  for (lua_pushnil(L); lua_next(L, a); lua_settop(L, top + 1), fields++) {
    lua_pushvalue(L, top + 1);
    lua_rawget(L, b);
    if (!is_same_value(w, top + 2, top + 3, is_op)) return false;
  }
  for (lua_pushnil(L); lua_next(L, b); lua_settop(L, top + 1)) fields--;
  return fields == 0;
}

static bool has_same_args(follower *w, const fuse_event *e, lua_Debug *ar) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  bool same = true, is_op = e->what == FUSE_OP;
  lua_getinfo(L, "r", ar);
  if (ar->ntransfer != e->call.args) return false;
  lua_rawgetp(L, LUA_REGISTRYINDEX, w);
  lua_getiuservalue(L, -1, REFS);
  lua_replace(L, top + 1);
  for (int k = 0; k < e->call.args && same; k++, lua_settop(L, top + 1)) {
    const fuse_arg *a = &e->call.arg[k];
    if (!lua_getlocal(L, ar, ar->ftransfer + k)) lua_pushnil(L);
    const ltide_tensor *u = ltide_test_handle(L, w->S, top + 2);
    if (a->value >= 0 || u)
      same = u && is_value(w, a->value, u->t);
    else {
      lua_rawgeti(L, top + 1, a->ref);
      same = is_same_value(w, top + 2, top + 3, is_op) || is_same_table(w, top + 2, top + 3, is_op);
    }
  }
  lua_settop(L, top);
  return same;
}

/* Is the first argument a tensor that the function has made? */
static bool is_own(follower *w, lua_Debug *ar) {
  lua_State *L = w->L;
  lua_getinfo(L, "r", ar);
  if (!lua_getlocal(L, ar, ar->ftransfer)) lua_pushnil(L);
  const void *handle = ltide_test_handle(L, w->S, lua_gettop(L));
  lua_pop(L, 1);
  for (int k = 0; k < w->record->inputs; k++)
    if (w->handles[k] == handle) return false;
  return handle != NULL;
}

/* The C function at the top reads no values, or the record's next operation puts it off. */
static bool is_safe(follower *w, lua_Debug *ar) {
  lua_State *L = w->L;
  lua_CFunction fn = lua_tocfunction(L, -1);
  const fuse_event *e = w->next < w->trace->events ? &w->trace->event[w->next] : NULL;
  const ltide_row *row = NULL;
  if (w->view) return true;
  if (fn == w->index) {
    lua_getinfo(L, "r", ar);
    if (!lua_getlocal(L, ar, ar->ftransfer + 1)) lua_pushnil(L);
    const char *key = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "T";
    bool is_view = !strcmp(key, "T") || !strcmp(key, "mT");
    lua_pop(L, 1);
    if (!is_view) return true;
  } else if (e && e->fn == fn && e->what == FUSE_OP)
    return has_same_args(w, e, ar);
  else if (fn == w->close)
    return is_own(w, ar);
  else if (fn == w->length)
    return true;
  else
    row = ltide_row_at(L, -1);
  if (e && e->fn == fn && e->row == row) {
    bool same = e->what == FUSE_CAST || has_same_args(w, e, ar);
    if (same && e->what == FUSE_CALL) w->view = ar->i_ci;
    return same;
  }
  if (row) return fuse_tells_kind(row->name) || ltide_is_in(" size numel nelement nbytes ", row->name);
  fuse_purity purity = fuse_purity_of(L);
  return purity == FUSE_PURE || purity == FUSE_READS;
}

/* What it writes to other tables might be a tensor without values, where nobody sees it. */
static bool is_safe_function(const follower *w, lua_Debug *ar) {
  int known = fuse_find_known(w->L, &w->trace->known, ar);
  return known >= 0 && !w->trace->known.writes[known];
}

static void end_view(follower *w, lua_Debug *ar) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  w->view = NULL;
  lua_getinfo(L, "r", ar);
  if (ar->ntransfer != 1 || !lua_getlocal(L, ar, ar->ftransfer)) lua_pushnil(L);
  const ltide_tensor *u = ltide_test_handle(L, w->S, top + 1);
  tide_tensor **to = &w->tensor[w->trace->event[w->next].call.result[0]];
  if (u && u->t && (!*to || *to == u->t)) {
    if (!*to) tide_tensor_retain(*to = u->t);
    w->next++;
  } else
    ltide_try(L, do_all(L, w));
  lua_settop(L, top);
}

static void hook(lua_State *L, lua_Debug *ar) {
  ltide_state *S = ltide_state_of(L);
  follower *w = S ? S->follower : NULL;
  if (!w || w->L != L) return;
  int top = lua_gettop(L);
  if (ar->event == LUA_HOOKCOUNT || ar->event == LUA_HOOKLINE) { /* of somebody else, who may do anything */
    lua_Hook other = w->hook;
    ltide_try(L, do_all(L, w));
    if (other) other(L, ar);
    return;
  }
  if (!lua_checkstack(L, 16)) return;
  if (ar->event == LUA_HOOKRET) {
    if (w->view == ar->i_ci) end_view(w, ar);
    return;
  }
  lua_getinfo(L, "f", ar);
  bool safe = lua_iscfunction(L, -1) ? is_safe(w, ar) : is_safe_function(w, ar);
  lua_settop(L, top);
  if (!safe) ltide_try(L, do_all(L, w));
}

/* {==== A call */

static void release(follower *w) {
  for (int i = 0; i < w->values && w->tensor; i++) tide_tensor_release(w->tensor[i]);
  w->tensor = NULL;
}

/* After an error: what came before it is done, as it would have been. */
static int follower_close(lua_State *L) {
  follower *w = ltide_test_object(L, 1, FOLLOWER_META);
  if (!w) return 0;
  do_all(L, w);
  release(w);
  return 0;
}

/* The registry held it until it had stopped, unless the state closes. */
static int follower_gc(lua_State *L) {
  follower *w = ltide_test_object(L, 1, FOLLOWER_META);
  if (!w) return 0;
  if (w->S->follower == w) w->S->follower = NULL, w->S->leave = NULL, w->S->is_fusing = w->S->recorder != NULL;
  release(w);
  return 0;
}

/* Another coroutine calls tide: that of the function has failed, and nobody has closed it. */
static void leave(lua_State *L, ltide_state *S) { do_all(L, S->follower); }

/* Does the value at the index hold no tensor that the record's kernels do not give? */
static bool is_given(const follower *w, int index, int depth) {
  lua_State *L = w->L;
  int type = lua_type(L, index), top = lua_gettop(L);
  const ltide_tensor *u = ltide_test_handle(L, w->S, index);
  bool given = true;
  if (u) {
    for (int i = w->trace->events - 1; i >= 0; i--) {
      const fuse_event *e = &w->trace->event[i];
      if (has_values(e) && w->tensor[e->out] == u->t) return w->record->slot[e->out] != 0;
    }
    return true;
  }
  if (type != LUA_TTABLE) return type < LUA_TTABLE && type != LUA_TLIGHTUSERDATA;
  if (depth > 4 || lua_getmetatable(L, index)) return lua_settop(L, top), false;
  luaL_checkstack(L, 8, "tide.fuse");
  for (lua_pushnil(L); given && lua_next(L, index); lua_settop(L, top + 1))
    given = is_given(w, top + 1, 5) && is_given(w, top + 2, depth + 1);
  lua_settop(L, top);
  return given;
}

/* The kernels do the work, and what the function has gets the values. */
static void finish(follower *w, int refs, int base) {
  lua_State *L = w->L;
  const fuse_trace *t = w->trace;
  fuse_record *p = w->record;
  stop(L, w);
  fuse_put_numbers(L, p, w->numbers);
  if (!fuse_run(L, w->S, p, refs, base)) ltide_error(L, "StateError", "fuse: a kernel was refused");
  for (int i = 0; i < t->events; i++) {
    const fuse_event *e = &t->event[i];
    if (!has_values(e) || e->out < 0 || p->slot[e->out] <= 0) continue;
    const ltide_tensor *u = ltide_test_handle(L, w->S, fuse_place(p, base, e->out));
    if (u && u->t && u->t != w->tensor[e->out]) ltide_try(L, tide_set(w->tensor[e->out], u->t));
  }
}

static int end_follow(lua_State *L, int status, lua_KContext top) {
  int refs = (int)top + 2, base = (int)top + 3;
  follower *w = lua_touserdata(L, base);
  fuse_function *f = lua_touserdata(L, 1);
  int first = base + w->slots + 1, last = lua_gettop(L);
  (void)status;
  ltide_enter_again(L);
  bool fits = w->trace && w->next == w->trace->events && lua_gethook(L) == hook;
  if (fits) fits = !fuse_guards_changed(L, w->record, refs, 2, w->slots, w->handles, false);
  for (int i = first; i <= last && fits; i++) fits = is_given(w, i, 0);
  if (fits)
    f->changes = 0, finish(w, refs, base);
  else {
    f->strayed = true, f->changes++;
    ltide_try(L, do_all(L, w));
  }
  lua_settop(L, last);
  ltide_made(L, w->S);
  return last - first + 1;
}

static follower *push_follower(lua_State *L, ltide_state *S, fuse_record *p) {
  size_t tensors = (size_t)p->values * sizeof(tide_tensor *), n = (size_t)p->trace->events;
  follower *w = ltide_new_object(L, sizeof *w + n * sizeof *w->numbers + tensors, USER_VALUES);
  memset(w, 0, sizeof *w);
  w->L = L, w->S = S, w->record = p, w->values = p->values, w->slots = p->slots;
  w->numbers = (fuse_numbers *)(w + 1);
  w->tensor = (tide_tensor **)(w->numbers + n);
  memset(w->tensor, 0, tensors);
  ltide_setmetatable(L, FOLLOWER_META);
  lua_toclose(L, -1);
  return w;
}

int fuse_follow(lua_State *L, ltide_state *S, fuse_function *f, fuse_record *p, int top) {
  int refs = top + 2, base = top + 3;
  ltide_tensor *handles[FUSE_INPUTS];
  bool differs = false;
  fuse_record **at = &f->records;
  if (S->quota && lua_gethook(L)) ltide_steps(L, S, 2 * (size_t)lua_gethookcount(L));
  while (*at != p) at = &(*at)->next;
  *at = p->next, p->next = f->records, f->records = p;
  lua_settop(L, top + 1);
  luaL_checkstack(L, p->slots + top + 32, "tide.fuse");
  lua_rawgetp(L, top + 1, p);
  follower *w = push_follower(L, S, p);
  w->hook = lua_gethook(L), w->mask = lua_gethookmask(L), w->count = lua_gethookcount(L);
  if (!fuse_guards_hold(L, S, p, refs, 2, handles, &differs)) return -1; /* the collector has run */
  for (int k = 0; k < p->inputs; k++) w->handles[k] = handles[k], tide_tensor_retain(w->tensor[k] = handles[k]->t);
  lua_pushvalue(L, refs);
  lua_setiuservalue(L, base, REFS);
  lua_pushthread(L);
  lua_setiuservalue(L, base, COROUTINE);
  lua_pushvalue(L, base);
  lua_rawsetp(L, LUA_REGISTRYINDEX, w);
  w->index = fuse_tensor_meta(L, S, "__index"), w->close = fuse_tensor_meta(L, S, "__close");
  w->length = fuse_tensor_meta(L, S, "__len");
  lua_rawgeti(L, top + 1, 1);
  for (int i = 2; i <= top; i++) lua_pushvalue(L, i);
  ltide_enter_again(L);
  w->trace = p->trace;
  S->follower = w, S->leave = leave, S->is_fusing = true;
  lua_sethook(L, hook, w->mask | LUA_MASKCALL | LUA_MASKRET, w->count);
  lua_callk(L, top - 1, LUA_MULTRET, top, end_follow);
  return end_follow(L, LUA_OK, top);
}

void fuse_open_follow(lua_State *L) {
  static const luaL_Reg closes[] = {{"__gc", follower_gc}, {"__close", follower_close}, {0}};
  ltide_new_class(L, FOLLOWER_META, closes, NULL, NULL, NULL);
}

#endif
