/* fuse_follow.c: a call of a function that is fused, with other numbers than those of its record.
 *
 * Numbers may decide what a function does, so it has to run; but as a rule it does what it did before. Its operations
 * are put off: each that is the record's next one gives a tensor of the right size and dtype without values, and its
 * numbers are noted. Before a call that is no part of a kernel, and when the function has returned, the record's
 * kernels run with these numbers, and the tensors get the values. At the first call that is not the record's next one,
 * everything that was put off is done, one by one, and the function goes on alone.
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
  const fuse_trace *trace;       /* NULL: it is followed no longer */
  int next, step, values, slots; /* next: event; step: the first one that has not run */
  const void *handles[FUSE_INPUTS];
  lua_CFunction index, close, length; /* of tensors */
  const void *frame;                  /* of the record's call that is being made, or NULL */
  lua_Hook hook;
  int mask, count;
  tide_tensor **tensor;  /* of each value, with a reference */
  bool *has_values;      /* of each value */
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

/* A cast to the dtype that its argument has, which it gives. */
static bool is_idle_cast(const fuse_event *e) {
  bool moves = e->what == FUSE_CALL && fuse_may_cast(e) && strcmp(e->row->name, "contiguous") != 0;
  return moves && e->call.args && e->call.results == 1 && e->call.arg[0].value == e->call.result[0];
}

static bool has_own_arg(const fuse_recorder *r, const fuse_event *e) {
  for (int k = 0; k < e->call.args; k++) {
    const fuse_arg *a = &e->call.arg[k];
    if (a->is_tree || (a->value >= 0 && !r->value[a->value].is_input && r->value[a->value].event >= 0)) return true;
  }
  return false;
}

/* Where the function writes to tensors nothing is made in the middle but views of its arguments, as what is put off
 * could not be done later. */
static bool can_follow(const fuse_recorder *r, const fuse_event *e, bool writes) {
  if (e->step < 0) return e->what != FUSE_GATHER && (e->what != FUSE_REDUCE || e->call.results == 1);
  if (!writes || is_idle_cast(e)) return true;
  return e->what == FUSE_CALL && e->is_view && !has_own_arg(r, e);
}

void fuse_trace_keep(fuse_recorder *r) {
  fuse_record *p = r->record;
  bool is_useful = false, writes = p->writes;
  for (int i = 0; i < p->steps; i++) is_useful |= p->step[i].fused != NULL;
  for (int i = 0; i < r->events; i++) writes |= r->event[i].into >= 0;
  for (int i = 0; i < r->events && is_useful; i++) is_useful = can_follow(r, &r->event[i], writes);
  if (!is_useful || r->writes || p->kernels) return;
  fuse_trace *t = malloc(sizeof *t + (size_t)r->events * sizeof *t->event);
  if (!t) return;
  t->known = r->known, t->events = r->events;
  memcpy(t->event, r->event, (size_t)r->events * sizeof *t->event);
  for (int i = 0; i < r->values; i++)
    t->kind[i] = (struct fuse_kind){r->value[i].dtype, r->value[i].ndim, r->value[i].device};
  p->trace = t;
}

static void put_numbers(lua_State *L, const fuse_trace *t, fuse_step *s, const fuse_numbers *now) {
  for (int k = 0; k < s->numbers; k++) {
    int at = s->from[k] >> 3, which = s->from[k] & 7;
    const fuse_event *e = &t->event[at];
    const tide_scalar *number = now ? now[at].number : e->number, *param = now ? now[at].param : e->param;
    s->number[k] = which < 3 ? number[which] : param[which - 3];
  }
  if (s->fused) ltide_try(L, tide_fused_numbers(s->fused, s->number, s->numbers));
}

void fuse_put_back_numbers(lua_State *L, fuse_record *p) {
  p->followed = false;
  for (int i = 0; i < p->steps; i++) put_numbers(L, p->trace, &p->step[i], NULL);
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

/* Is it the record's, but no part of a kernel? It is made when the function makes it. */
static bool is_made(const fuse_event *e) { return e->step >= 0; }

static tide_status do_all(lua_State *L, follower *w) {
  const fuse_trace *t = w->trace;
  tide_status status = TIDE_OK;
  if (!t) return TIDE_OK;
  stop(L, w);
  for (int i = 0; i < w->next; i++) {
    const fuse_event *e = &t->event[i];
    tide_tensor *made = NULL;
    if (is_made(e) || w->has_values[e->out]) continue;
    if (status == TIDE_OK) status = do_event(w, e, &w->numbers[i], &made);
    if (made) tide_set(w->tensor[e->out], made);
    if (!made && e->into < 0) make_empty(w->tensor[e->out]);
    tide_tensor_release(made);
  }
  return status;
}

static void run_kernel(lua_State *L, follower *w, fuse_step *s) {
  tide_tensor *in[TIDE_FUSE_INPUTS], *into[TIDE_FUSE_OUTPUTS], *out[TIDE_FUSE_OUTPUTS];
  put_numbers(L, w->record->trace, s, w->numbers);
  for (int k = 0; k < s->inputs; k++) in[k] = w->tensor[s->input[k]];
  for (int k = 0; k < s->outputs; k++) into[k] = s->into[k] < 0 ? NULL : w->tensor[s->into[k]];
  ltide_try(L, fuse_run_kernel(out, s, in, into));
  tide_status status = TIDE_OK;
  for (int k = 0; k < s->outputs; k++) {
    if (status == TIDE_OK && !into[k]) status = tide_set(w->tensor[s->output[k]], out[k]);
    w->has_values[s->output[k]] = true;
    tide_tensor_release(out[k]);
  }
  ltide_try(L, status);
}

/* Runs the kernels before that step; the calls between them have been made. */
static void advance(lua_State *L, follower *w, int step) {
  w->record->followed = true;
  for (; w->step < step; w->step++)
    if (!w->record->step[w->step].is_call) run_kernel(L, w, &w->record->step[w->step]);
}

/* {==== Operations that are put off */

enum { REFS = 1, COROUTINE, USER_VALUES = COROUTINE };

static const fuse_event *next_event(const follower *w, fuse_what what) {
  const fuse_event *e = w->next < w->trace->events ? &w->trace->event[w->next] : NULL;
  return e && e->what == what && !is_made(e) ? e : NULL;
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

/* What such a call does inside it does at once. */
static bool is_in_call(const follower *w, const lua_State *L) { return w->frame && w->L == L; }

tide_status ltide_fuse_elementwise(lua_State *L, ltide_state *S, tide_tensor **out, tide_op op, const tide_operand *in,
                                   const tide_scalar *p, tide_tensor *into) {
  follower *w = S->follower;
  tide_status status = TIDE_OK;
  if (w && w->L == L && !w->frame && put_off_op(w, out, op, in, p, into)) return TIDE_OK;
  if (w && !is_in_call(w, L)) status = do_all(L, w);
  if (status == TIDE_OK) status = tide_elementwise(out, op, in, p, into);
  if (status == TIDE_OK && S->recorder) fuse_note(L, S, op, in, p, into);
  return status;
}

tide_status ltide_fuse_reduce(lua_State *L, ltide_state *S, tide_tensor **out, tide_reduction op, const tide_tensor *x,
                              const tide_reduce_options *o) {
  follower *w = S->follower;
  tide_status status = TIDE_OK;
  if (w && w->L == L && !w->frame && put_off_reduction(w, out, op, x, o)) return TIDE_OK;
  if (w && !is_in_call(w, L)) status = do_all(L, w);
  if (status == TIDE_OK) status = tide_reduce(out, op, x, o, NULL);
  if (status == TIDE_OK && S->recorder && o->dtype == TIDE_DTYPE_NONE) ltide_fuse_note_reduction(L, S, op, x, o);
  return status;
}

bool ltide_fuse_cast(lua_State *L, ltide_state *S, tide_tensor **out, tide_tensor *x, const tide_options *o,
                     bool copy) {
  follower *w = S->follower;
  tide_dtype dtype = o->dtype;
  bool is_cast = o->device == tide_tensor_device(x) && !o->pin_memory && !copy;
  if (!w || is_in_call(w, L) || (is_cast && (dtype == TIDE_DTYPE_NONE || dtype == tide_tensor_dtype(x)))) return false;
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

/* Do the tensors in the tables lie where they lay? */
static bool has_same_tensors(follower *w, int a, int b, int depth) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  if (ltide_test_handle(L, w->S, a) || lua_islightuserdata(L, b)) return is_same_value(w, a, b, true);
  if (!lua_istable(L, a) || !lua_istable(L, b)) return !lua_istable(L, a) && !lua_istable(L, b);
  if (depth > 4 || lua_getmetatable(L, a)) return lua_settop(L, top), false;
  if (!lua_checkstack(L, 8)) return false;
  bool same = true;
  for (lua_pushnil(L); same && lua_next(L, a); lua_settop(L, top + 1)) {
    lua_pushvalue(L, top + 1);
    lua_rawget(L, b);
    same = has_same_tensors(w, top + 2, top + 3, depth + 1);
  }
  lua_settop(L, top);
  return same;
}

/* Gives the tensors at the index their values, if the record's call gets those, before it is made. */
static bool begin_call(follower *w, const fuse_event *e, lua_Debug *ar) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  bool same = true, needs = false;
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
    else
      lua_rawgeti(L, top + 1, a->ref), same = has_same_tensors(w, top + 2, top + 3, 0);
    needs |= a->is_tree || (a->value >= 0 && !w->has_values[a->value]);
  }
  lua_settop(L, top);
  if (!same) return false;
  if (needs && !is_idle_cast(e)) advance(L, w, e->step);
  w->frame = ar->i_ci;
  return true;
}

/* The tensor at the top, which is popped, is the value; false: it is of another kind than it was. */
static bool note_made(follower *w, int value) {
  const struct fuse_kind *kind = &w->trace->kind[value];
  const ltide_tensor *u = ltide_test_handle(w->L, w->S, lua_gettop(w->L));
  lua_pop(w->L, 1);
  if (!u || !u->t || (w->tensor[value] && w->tensor[value] != u->t)) return false;
  if (tide_tensor_dtype(u->t) != (tide_dtype)kind->dtype || tide_tensor_ndim(u->t) != kind->ndim ||
      tide_tensor_device(u->t) != kind->device)
    return false;
  if (w->tensor[value]) return true;
  tide_tensor_retain(w->tensor[value] = u->t);
  return w->has_values[value] = true;
}

static bool note_results(follower *w, const fuse_event *e, lua_Debug *ar) {
  lua_State *L = w->L;
  const fuse_step *s = &e->call;
  lua_getinfo(L, "r", ar);
  if (ar->ntransfer != s->results) return false;
  for (int k = 0; k < s->results; k++) {
    int top = lua_gettop(L);
    if (!lua_getlocal(L, ar, ar->ftransfer + k)) lua_pushnil(L);
    if (s->result[k] >= 0) {
      if (!note_made(w, s->result[k])) return false;
      continue;
    }
    if (!lua_istable(L, -1) || (int)lua_rawlen(L, -1) != s->listed[k]) return false;
    for (int i = 0; i < s->listed[k]; i++) {
      lua_rawgeti(L, top + 1, i + 1);
      if (!note_made(w, -2 - s->result[k] + i)) return false;
    }
    lua_settop(L, top);
  }
  return true;
}

static void end_call(follower *w, lua_Debug *ar) {
  lua_State *L = w->L;
  int top = lua_gettop(L);
  bool same = note_results(w, &w->trace->event[w->next], ar);
  lua_settop(L, top);
  w->frame = NULL;
  if (same)
    w->next++;
  else
    ltide_try(L, do_all(L, w));
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
  if (w->frame) return true;
  if (fn == w->index) {
    lua_getinfo(L, "r", ar);
    if (!lua_getlocal(L, ar, ar->ftransfer + 1)) lua_pushnil(L);
    const char *key = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "T";
    bool is_view = !strcmp(key, "T") || !strcmp(key, "mT");
    lua_pop(L, 1);
    if (!is_view) return true;
  } else if (fn == w->close)
    return is_own(w, ar);
  else if (fn == w->length)
    return true;
  else if (!e || e->fn != fn || e->what != FUSE_OP)
    row = ltide_row_at(L, -1);
  else
    row = e->row;
  if (e && e->fn == fn && e->row == row) {
    if (is_made(e)) return begin_call(w, e, ar);
    return e->what == FUSE_CAST || has_same_args(w, e, ar);
  }
  if (row) return fuse_tells_kind(row->name) || ltide_is_in(" size numel nelement nbytes ", row->name);
  fuse_purity purity = fuse_purity_of(L);
  return purity == FUSE_PURE || purity == FUSE_READS;
}

/* What it writes to other tables might be a tensor without values, where nobody sees it. */
static bool is_safe_function(const follower *w, lua_Debug *ar) {
  if (w->frame) {
    lua_getinfo(w->L, "S", ar);
    return ltide_script_is(ar);
  }
  int known = fuse_find_known(w->L, &w->trace->known, ar);
  return known >= 0 && !w->trace->known.writes[known];
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
    if (w->frame == ar->i_ci) end_call(w, ar);
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
      if (!is_made(e) && w->tensor[e->out] == u->t) return w->record->slot[e->out] != 0;
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

/* The kernels do the rest. */
static void finish(lua_State *L, follower *w) {
  stop(L, w);
  advance(L, w, w->record->steps);
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
    f->changes = 0, finish(L, w);
  else {
    f->strayed = true, f->changes++;
    ltide_try(L, do_all(L, w));
  }
  lua_settop(L, last);
  ltide_made(L, w->S);
  return last - first + 1;
}

static follower *push_follower(lua_State *L, ltide_state *S, fuse_record *p) {
  size_t values = (size_t)p->values, n = (size_t)p->trace->events;
  size_t tensors = values * (sizeof(tide_tensor *) + sizeof(bool));
  follower *w = ltide_new_object(L, sizeof *w + n * sizeof(fuse_numbers) + tensors, USER_VALUES);
  memset(w, 0, sizeof *w);
  w->L = L, w->S = S, w->record = p, w->values = p->values, w->slots = p->slots;
  w->numbers = (fuse_numbers *)(w + 1);
  w->tensor = (tide_tensor **)(w->numbers + n), w->has_values = (bool *)(w->tensor + values);
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
  for (int k = 0; k < p->inputs; k++) {
    w->handles[k] = handles[k], w->has_values[k] = true;
    tide_tensor_retain(w->tensor[k] = handles[k]->t);
  }
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
