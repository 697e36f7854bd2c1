/* fuse_run.c: does the steps of a record: calls that are made again, and kernels, or their operations one by one. */
#include "fuse.h"

#include "tide/scatter.h"

#if LUA_VERSION_NUM == 504

static int place(const fuse_record *p, int base, int value) {
  int slot = p->slot[value];
  return slot < 0 ? 2 + (-1 - slot) : base + slot;
}

static tide_tensor *tensor_of(lua_State *L, ltide_state *S, const fuse_record *p, int base, int value) {
  ltide_tensor *u = ltide_test_handle(L, S, place(p, base, value));
  if (!u || !u->t) ltide_freed_error(L, "fuse: a tensor", "tensor");
  return u->t;
}

/* Pushes a copy of the template at the top, which is popped, with the values in it. */
static void push_tree(lua_State *L, const fuse_record *p, int base) {
  luaL_checkstack(L, 8, "tide.fuse");
  int from = lua_gettop(L);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, from); lua_settop(L, from + 2)) {
    lua_pushvalue(L, from + 2);
    if (lua_islightuserdata(L, from + 3))
      lua_pushvalue(L, place(p, base, (int)((char *)lua_touserdata(L, from + 3) - (char *)NULL) - 1));
    else {
      lua_pushvalue(L, from + 3);
      if (lua_istable(L, -1) && !lua_getmetatable(L, -1)) push_tree(L, p, base);
      lua_settop(L, from + 5);
    }
    lua_rawset(L, from + 1);
  }
  lua_remove(L, from);
}

static void push_arg(lua_State *L, const fuse_record *p, const fuse_arg *a, int refs, int base) {
  if (a->value >= 0) {
    lua_pushvalue(L, place(p, base, a->value));
    return;
  }
  lua_rawgeti(L, refs, a->ref);
  if (a->is_tree) push_tree(L, p, base);
}

static void run_call(lua_State *L, const fuse_record *p, const fuse_step *s, int refs, int base) {
  int top = lua_gettop(L);
  luaL_checkstack(L, FUSE_ARGS + FUSE_RESULTS + 8, "tide.fuse");
  lua_rawgeti(L, refs, s->fn);
  for (int k = 0; k < s->args; k++) push_arg(L, p, &s->arg[k], refs, base);
  lua_call(L, s->args, s->results);
  ltide_enter_again(L);
  for (int k = 0; k < s->results; k++) {
    int at = top + 1 + k;
    if (s->result[k] >= 0) {
      if (p->slot[s->result[k]] > 0) lua_copy(L, at, place(p, base, s->result[k]));
      continue;
    }
    for (int i = 0; lua_istable(L, at) && i < s->listed[k]; i++) {
      lua_rawgeti(L, at, i + 1);
      lua_replace(L, place(p, base, -2 - s->result[k] + i));
    }
  }
  lua_settop(L, top);
}

static tide_status gather(tide_tensor **out, const tide_fuse_node *n, tide_tensor *x, tide_tensor *index) {
  switch (n->op) {
  case TIDE_FUSE_LINE: return tide_take(out, x, index, NULL);
  case TIDE_FUSE_ALONG: return tide_take_along_dim(out, x, index, n->dims, NULL);
  default: return tide_index_get(out, x, n->dims, index);
  }
}

/* One node alone. */
static tide_status do_node(tide_tensor **made, const fuse_step *s, int i, tide_tensor *into) {
  const tide_fuse_node *n = &s->node[i];
  tide_operand in[3];
  if (n->kind == TIDE_FUSE_REDUCE) {
    tide_reduce_options o = TIDE_REDUCE_OPTIONS;
    int dims[TIDE_MAX_DIMS], ndim = tide_tensor_ndim(made[n->in[0]]);
    for (int k = 0; k < n->dims; k++) dims[k] = k + (n->leading ? 0 : ndim - n->dims);
    o.dims = dims, o.ndims = n->dims, o.keepdim = n->keepdim;
    if (n->param >= 0) o.param = s->number[n->param].re;
    return tide_reduce(&made[i], (tide_reduction)n->op, made[n->in[0]], &o, NULL);
  }
  if (n->kind == TIDE_FUSE_CAST) {
    const tide_options o = {n->dtype, tide_tensor_device(made[n->in[0]]), false};
    return tide_to(&made[i], made[n->in[0]], &o, true, false);
  }
  for (int k = 0; k < tide_op_get((tide_op)n->op)->operands; k++)
    in[k] =
        n->in[k] < 0 ? (tide_operand){.number = s->number[-1 - n->in[k]]} : (tide_operand){.tensor = made[n->in[k]]};
  const tide_scalar *params = n->param >= 0 ? s->number + n->param : NULL;
  if (!into) return tide_elementwise(&made[i], (tide_op)n->op, in, params, NULL);
  tide_status status = tide_elementwise(NULL, (tide_op)n->op, in, params, into);
  if (status == TIDE_OK) tide_tensor_retain(made[i] = into);
  return status;
}

/* The operations one by one, as the function would do them. */
static tide_status do_nodes(tide_tensor **out, const fuse_step *s, tide_tensor *const *in, tide_tensor *const *into) {
  tide_tensor *made[TIDE_FUSE_NODES] = {NULL};
  tide_status status = TIDE_OK;
  int inputs = 0;
  for (int i = 0; i < s->nodes && status == TIDE_OK; i++) {
    if (s->node[i].kind == TIDE_FUSE_INPUT) {
      tide_tensor_retain(made[i] = in[inputs++]);
      continue;
    }
    if (s->node[i].kind == TIDE_FUSE_GATHER) {
      status = gather(&made[i], &s->node[i], in[inputs++], made[s->node[i].in[0]]);
      continue;
    }
    tide_tensor *to = NULL;
    for (int k = 0; s->writes && k < s->outputs; k++)
      if (s->written[k] == i) to = into[k];
    status = do_node(made, s, i, to);
  }
  for (int k = 0; k < s->outputs && status == TIDE_OK; k++) tide_tensor_retain(out[k] = made[s->written[k]]);
  for (int i = 0; i < s->nodes; i++) tide_tensor_release(made[i]);
  return status;
}

tide_status fuse_run_kernel(tide_tensor **out, const fuse_step *s, tide_tensor *const *in, tide_tensor *const *into) {
  bool done = false;
  tide_status status = s->fused ? tide_fused_call(&done, out, s->fused, in, s->writes ? into : NULL) : TIDE_OK;
  return status != TIDE_OK || done ? status : do_nodes(out, s, in, into);
}

/* False: an index is outside, and the function, which has written nothing yet, is to say where. */
static bool run_kernel(lua_State *L, ltide_state *S, const fuse_record *p, const fuse_step *s, int base) {
  tide_tensor *in[TIDE_FUSE_INPUTS], *into[TIDE_FUSE_OUTPUTS], *out[TIDE_FUSE_OUTPUTS];
  ltide_tensor *made[TIDE_FUSE_OUTPUTS];
  for (int k = 0; k < s->outputs; k++) {
    made[k] = NULL;
    if (s->into[k] >= 0) continue;
    made[k] = ltide_new_tensor(L, S);
    lua_replace(L, base + p->slot[s->output[k]]);
  }
  for (int k = 0; k < s->inputs; k++) in[k] = tensor_of(L, S, p, base, s->input[k]);
  for (int k = 0; k < s->outputs; k++) into[k] = s->into[k] < 0 ? NULL : tensor_of(L, S, p, base, s->into[k]);
  tide_status status = fuse_run_kernel(out, s, in, into);
  if (status == TIDE_INDEX && !p->writes && tide_tensor_device(in[0]) == TIDE_CPU) return false;
  ltide_try(L, status);
  for (int k = 0; k < s->outputs; k++)
    if (made[k])
      made[k]->t = out[k];
    else
      tide_tensor_release(out[k]);
  return true;
}

int fuse_run(lua_State *L, ltide_state *S, fuse_record *p, int refs, int base) {
  for (int i = 0; i < p->steps; i++)
    if (p->step[i].is_call)
      run_call(L, p, &p->step[i], refs, base);
    else if (!run_kernel(L, S, p, &p->step[i], base))
      return -1;
  luaL_checkstack(L, p->results, "tide.fuse");
  for (int k = 0; k < p->results; k++) push_arg(L, p, &p->result[k], refs, base);
  ltide_made(L, S);
  return p->results;
}

#endif
