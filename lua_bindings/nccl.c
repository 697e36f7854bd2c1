/* nccl.c: tide.cuda.nccl: collectives over lists of tensors, one of each GPU, with torch.cuda.nccl's names. What is
 * written is given by the caller; what was written is returned. */
#include <string.h>

#include "row.h"
#include "tide/nccl.h"

static const char *const op_names[] = {"sum", "prod", "max", "min", "avg"};

/* A name, or torch's number. */
static tide_nccl_op opt_op(lua_State *L, int opts) {
  if (!ltide_push_option(L, opts, "op")) return TIDE_NCCL_SUM;
  int is_integer = 0, at = lua_gettop(L);
  lua_Integer number = lua_type(L, at) == LUA_TNUMBER ? lua_tointegerx(L, at, &is_integer) : -1;
  for (int i = 0; i < TIDE_NCCL_OPS; i++) {
    bool named = lua_type(L, at) == LUA_TSTRING && !strcmp(lua_tostring(L, at), op_names[i]);
    if (!named && !(is_integer && number == i)) continue;
    lua_pop(L, 1);
    return (tide_nccl_op)i;
  }
  ltide_arg_error(L, at, "op", "'sum', 'prod', 'max', 'min', 'avg' or nccl.SUM and the like");
  return TIDE_NCCL_SUM;
}

/* The list of streams that was given, or NULL. */
static tide_stream *const *opt_streams(lua_State *L, int opts, tide_stream **streams, int n) {
  if (!ltide_push_option(L, opts, "streams")) return NULL;
  ltide_check_streams(L, lua_gettop(L), streams, n);
  lua_pop(L, 1);
  return streams;
}

static int opt_root(lua_State *L, int opts, int n) {
  if (!ltide_push_option(L, opts, "root")) return 0;
  int64_t root = ltide_check_integer(L, -1, "root");
  if (root < 1 || root > n)
    ltide_error(L, "IndexError", "%s: root: got %I, expected 1 to %d: the place in the list of tensors",
                ltide_function_name(L), (lua_Integer)root, n);
  lua_pop(L, 1);
  return (int)root - 1;
}

typedef struct nccl_call {
  ltide_state *S;
  ltide_args args;
  int n;
  tide_tensor *inputs[TIDE_MAX_DEVICES], *outputs[TIDE_MAX_DEVICES];
  tide_stream *streams[TIDE_MAX_DEVICES], *const *given; /* NULL: the current ones */
} nccl_call;

static void begin(lua_State *L, nccl_call *c, int most, const char *const *keys) {
  c->S = ltide_enter(L);
  c->args = ltide_split(L, most);
  ltide_check_count(L, c->args, most);
  ltide_check_keys(L, c->args.opts, keys);
  c->n = ltide_check_list(L, 1, TIDE_MAX_DEVICES, "inputs", "tensors");
  ltide_check_tensors(L, c->S, 1, c->inputs, c->n, "inputs");
  c->given = opt_streams(L, c->args.opts, c->streams, c->n);
}

/* The list at 2, one for each input. */
static void check_outputs(lua_State *L, nccl_call *c) {
  int n = ltide_check_list(L, 2, TIDE_MAX_DEVICES, "outputs", "tensors");
  if (n != c->n)
    ltide_error(L, "ValueError", "%s: outputs: got %d, expected one for each of the %d inputs", ltide_function_name(L),
                n, c->n);
  ltide_check_tensors(L, c->S, 2, c->outputs, n, "outputs");
}

static const char *const joined_keys[] = {"op", "streams", NULL};

static int lall_reduce(lua_State *L) {
  nccl_call c;
  begin(L, &c, 2, joined_keys);
  bool apart = c.args.n == 2 && !lua_isnil(L, 2);
  if (apart) check_outputs(L, &c);
  tide_nccl_op op = opt_op(L, c.args.opts);
  ltide_try(L, tide_nccl_all_reduce(c.inputs, apart ? c.outputs : c.inputs, c.n, op, c.given));
  ltide_made(L, c.S);
  lua_settop(L, apart ? 2 : 1);
  return 1;
}

static int lreduce(lua_State *L) {
  static const char *const keys[] = {"op", "root", "streams", NULL};
  nccl_call c;
  begin(L, &c, 2, keys);
  int root = opt_root(L, c.args.opts, c.n);
  bool apart = c.args.n == 2 && !lua_isnil(L, 2);
  tide_tensor *output = apart ? ltide_check_tensor(L, c.S, 2, "output") : c.n ? c.inputs[root] : NULL;
  ltide_try(L, tide_nccl_reduce(c.inputs, output, c.n, root, opt_op(L, c.args.opts), c.given));
  ltide_made(L, c.S);
  if (apart)
    lua_settop(L, 2);
  else
    lua_rawgeti(L, 1, root + 1);
  return 1;
}

static int lbroadcast(lua_State *L) {
  static const char *const keys[] = {"root", "streams", NULL};
  nccl_call c;
  begin(L, &c, 1, keys);
  ltide_try(L, tide_nccl_broadcast(c.inputs, c.n, opt_root(L, c.args.opts, c.n), c.given));
  ltide_made(L, c.S);
  lua_settop(L, 1);
  return 1;
}

static int lall_gather(lua_State *L) {
  static const char *const keys[] = {"streams", NULL};
  nccl_call c;
  begin(L, &c, 2, keys);
  check_outputs(L, &c);
  ltide_try(L, tide_nccl_all_gather(c.inputs, c.outputs, c.n, c.given));
  ltide_made(L, c.S);
  lua_settop(L, 2);
  return 1;
}

static int lreduce_scatter(lua_State *L) {
  nccl_call c;
  begin(L, &c, 2, joined_keys);
  check_outputs(L, &c);
  ltide_try(L, tide_nccl_reduce_scatter(c.inputs, c.outputs, c.n, opt_op(L, c.args.opts), c.given));
  ltide_made(L, c.S);
  lua_settop(L, 2);
  return 1;
}

static int lversion(lua_State *L) {
  int major = 0, minor = 0, patch = 0;
  ltide_try(L, tide_nccl_version(&major, &minor, &patch));
  lua_pushinteger(L, major);
  lua_pushinteger(L, minor);
  lua_pushinteger(L, patch);
  return 3;
}

static int lis_available(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 1);
  tide_tensor *list[TIDE_MAX_DEVICES];
  int n = lua_isnoneornil(L, 1) ? 0 : ltide_check_list(L, 1, TIDE_MAX_DEVICES, "tensors", "tensors");
  ltide_check_tensors(L, S, 1, list, n, "tensors");
  lua_pushboolean(L, tide_nccl_is_available(list, n));
  ltide_made(L, S);
  return 1;
}

#define OPS " op: 'sum' (if not given), 'prod', 'max', 'min', 'avg'."
#define RULES                                                                                                          \
  " Entry i of each list lies on one device, another for each i; all are contiguous and of one dtype. Queued on "      \
  "streams[i], or on the current streams; nothing waits. Where NCCL is missing, or does not know the dtype, it goes "  \
  "over copies between the GPUs with the same result."

void ltide_open_nccl(lua_State *L, ltide_state *S) {
  (void)S;
#define PATH "tide.cuda.nccl."
  static ltide_row rows[] = {
#include "api/nccl.def"
      {0}};
  static const char *const constants[] = {"SUM", "PROD", "MAX", "MIN", "AVG"};
  lua_getfield(L, -1, "cuda");
  lua_newtable(L);
  ltide_register_rows(L, "tide.cuda.nccl", rows);
  for (int i = 0; i < TIDE_NCCL_OPS; i++) ltide_set_integer(L, constants[i], i);
  lua_setfield(L, -2, "nccl");
  lua_pop(L, 1);
}
