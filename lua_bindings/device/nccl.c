/* nccl.c: tide.cuda.nccl: collectives over lists of tensors, one of each GPU, with torch.cuda.nccl's names. What is
 * written is given by the caller; what was written is returned. */

#include "call/row.h"
#include "call/collector.h"
#include "tide/nccl.h"

static const char *const op_names[] = {"sum", "prod", "max", "min", "avg"};

/* A name, or torch's number. */
static tide_nccl_op get_op(lua_State *L, const ltide_call *c) {
  const ltide_value *v = ltide_get(L, c, "op");
  const char *name = v->given && lua_type(L, v->at) == LUA_TSTRING ? lua_tostring(L, v->at) : "";
  lua_Integer number = v->given && lua_isinteger(L, v->at) ? lua_tointeger(L, v->at) : -1;
  for (int i = 0; v->given && i < TIDE_NCCL_OPS; i++)
    if (number == i || !strcmp(name, op_names[i])) return (tide_nccl_op)i;
  if (v->given) ltide_arg_error(L, v->at, "op", "'sum', 'prod', 'max', 'min', 'avg' or nccl.SUM and the like");
  return TIDE_NCCL_SUM;
}

static int get_root(lua_State *L, const ltide_call *c) {
  int64_t root = ltide_get(L, c, "root")->i, n = c->v[0].n;
  if (!n) return 0; /* core tells */
  if (root < 1 || root > n)
    ltide_fail(L, "IndexError", "root: got %I, expected 1 to %I: the place in the list of tensors", (lua_Integer)root,
               (lua_Integer)n);
  return (int)root - 1;
}

/* The second list, one for each input, or the first where that may be missing and is. */
static const ltide_value *get_outputs(lua_State *L, const ltide_call *c) {
  const ltide_value *inputs = &c->v[0], *outputs = c->v[1].given ? &c->v[1] : inputs;
  if (outputs->n != inputs->n)
    ltide_fail(L, "ValueError", "outputs: got %d, expected one for each of the %d inputs", outputs->n, inputs->n);
  return outputs;
}

/* The value at the index is what was written. */
static int finish(lua_State *L, ltide_call *c, int at, tide_status status) {
  ltide_try(L, status);
  ltide_made(L, c->S);
  return lua_pushvalue(L, at), 1;
}

#define INPUTS  c->v[0].tensors
#define COUNT   c->v[0].n
#define STREAMS ltide_streams(L, c, "streams", c->v[0].n)

static int lall_reduce(lua_State *L, ltide_call *c) {
  const ltide_value *out = get_outputs(L, c);
  return finish(L, c, out->at, tide_nccl_all_reduce(INPUTS, out->tensors, COUNT, get_op(L, c), STREAMS));
}

static int lreduce(lua_State *L, ltide_call *c) {
  const ltide_value *output = &c->v[1];
  int root = get_root(L, c);
  tide_tensor *into = output->given ? output->tensor : COUNT ? INPUTS[root] : NULL;
  if (!output->given) lua_rawgeti(L, 1, root + 1);
  return finish(L, c, output->given ? output->at : lua_gettop(L),
                tide_nccl_reduce(INPUTS, into, COUNT, root, get_op(L, c), STREAMS));
}

static int lbroadcast(lua_State *L, ltide_call *c) {
  return finish(L, c, 1, tide_nccl_broadcast(INPUTS, COUNT, get_root(L, c), STREAMS));
}

static int lall_gather(lua_State *L, ltide_call *c) {
  const ltide_value *out = get_outputs(L, c);
  return finish(L, c, out->at, tide_nccl_all_gather(INPUTS, out->tensors, COUNT, STREAMS));
}

static int lreduce_scatter(lua_State *L, ltide_call *c) {
  const ltide_value *out = get_outputs(L, c);
  return finish(L, c, out->at, tide_nccl_reduce_scatter(INPUTS, out->tensors, COUNT, get_op(L, c), STREAMS));
}

static int lversion(lua_State *L, ltide_call *c) {
  int major = 0, minor = 0, patch = 0;
  ltide_try(L, tide_nccl_version(&major, &minor, &patch));
  lua_pushinteger(L, major);
  lua_pushinteger(L, minor);
  lua_pushinteger(L, patch);
  return 3;
}

static int lis_available(lua_State *L, ltide_call *c) {
  return ltide_give_boolean(L, tide_nccl_is_available(INPUTS, COUNT));
}

void ltide_open_nccl(lua_State *L, ltide_state *S) {
#include <rows/nccl.inc>
  static const char *const constants[] = {"SUM", "PROD", "MAX", "MIN", "AVG"};
  ltide_register_in(L, "tide.cuda.nccl", nccl_rows);
  lua_getfield(L, -1, "cuda");
  lua_getfield(L, -1, "nccl");
  for (int i = 0; i < TIDE_NCCL_OPS; i++) ltide_set_integer(L, constants[i], i);
  lua_pop(L, 2);
}
