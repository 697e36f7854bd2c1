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
#include "fuse_follow.h"

#include <stdlib.h>

#if LUA_VERSION_NUM == 504

#  define FOLLOWER_META "tide.Fused.follower"

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
  if (!writes || fuse_is_idle_cast(e)) return true;
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

/* The function goes on alone, or has returned. */
static void stop(lua_State *L, follower *w) {
  ltide_state *S = w->S;
  w->trace = NULL;
  if (lua_gethook(w->L) == fuse_follow_hook) lua_sethook(w->L, w->hook, w->mask, w->count);
  S->follower = NULL, S->leave = NULL;
  S->is_fusing = S->recorder != NULL;
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, w);
}

tide_status fuse_do_all(lua_State *L, follower *w) {
  const fuse_trace *t = w->trace;
  tide_status status = TIDE_OK;
  if (!t) return TIDE_OK;
  stop(L, w);
  for (int i = 0; i < w->next; i++) {
    const fuse_event *e = &t->event[i];
    tide_tensor *made = NULL;
    if (fuse_is_made(e) || w->has_values[e->out]) continue;
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
void fuse_advance(lua_State *L, follower *w, int step) {
  w->record->followed = true;
  for (; w->step < step; w->step++)
    if (!w->record->step[w->step].is_call) run_kernel(L, w, &w->record->step[w->step]);
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
  fuse_do_all(L, w);
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
static void leave(lua_State *L, ltide_state *S) { fuse_do_all(L, S->follower); }

/* Does the value at the index hold no tensor that the record's kernels do not give? */
static bool is_given(const follower *w, int index, int depth) {
  lua_State *L = w->L;
  int type = lua_type(L, index), top = lua_gettop(L);
  const ltide_tensor *u = ltide_test_handle(L, w->S, index);
  bool given = true;
  if (u) {
    for (int i = w->trace->events - 1; i >= 0; i--) {
      const fuse_event *e = &w->trace->event[i];
      if (!fuse_is_made(e) && w->tensor[e->out] == u->t) return w->record->slot[e->out] != 0;
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
  fuse_advance(L, w, w->record->steps);
}

static int end_follow(lua_State *L, int status, lua_KContext top) {
  int refs = (int)top + 2, base = (int)top + 3;
  follower *w = lua_touserdata(L, base);
  fuse_function *f = lua_touserdata(L, 1);
  int first = base + w->slots + 1, last = lua_gettop(L);
  (void)status;
  ltide_enter_again(L);
  bool fits = w->trace && w->next == w->trace->events && lua_gethook(L) == fuse_follow_hook;
  if (fits) fits = !fuse_guards_changed(L, w->record, refs, 2, w->slots, w->handles, false);
  for (int i = first; i <= last && fits; i++) fits = is_given(w, i, 0);
  if (fits)
    f->changes = 0, finish(L, w);
  else {
    f->strayed = true, f->alone = FUSE_OTHER, f->changes++;
    ltide_try(L, fuse_do_all(L, w));
  }
  lua_settop(L, last);
  ltide_made(L, w->S);
  return last - first + 1;
}

static follower *push_follower(lua_State *L, ltide_state *S, fuse_record *p) {
  size_t values = (size_t)p->values, n = (size_t)p->trace->events;
  size_t tensors = values * (sizeof(tide_tensor *) + sizeof(bool));
  follower *w = ltide_new_object(L, sizeof *w + n * sizeof(fuse_numbers) + tensors, FOLLOWER_VALUES);
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
  lua_setiuservalue(L, base, FOLLOWER_REFS);
  lua_pushthread(L);
  lua_setiuservalue(L, base, FOLLOWER_COROUTINE);
  lua_pushvalue(L, base);
  lua_rawsetp(L, LUA_REGISTRYINDEX, w);
  w->index = fuse_tensor_meta(L, S, "__index"), w->close = fuse_tensor_meta(L, S, "__close");
  w->length = fuse_tensor_meta(L, S, "__len");
  lua_rawgeti(L, top + 1, 1);
  for (int i = 2; i <= top; i++) lua_pushvalue(L, i);
  ltide_enter_again(L);
  w->trace = p->trace;
  S->follower = w, S->leave = leave, S->is_fusing = true;
  lua_sethook(L, fuse_follow_hook, w->mask | LUA_MASKCALL | LUA_MASKRET, w->count);
  lua_callk(L, top - 1, LUA_MULTRET, top, end_follow);
  return end_follow(L, LUA_OK, top);
}

void fuse_open_follow(lua_State *L) {
  static const luaL_Reg closes[] = {{"__gc", follower_gc}, {"__close", follower_close}, {0}};
  ltide_new_class(L, FOLLOWER_META, closes, NULL, NULL, NULL);
}

#endif
