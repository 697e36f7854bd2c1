/* random.c: generators, seeds and random tensors.
 *
 * Every function that draws takes {generator=}; without one the default generator of the tensor's device is used. The
 * state of a generator is 16 bytes, seed and offset, on every kind of device: a uint8 tensor on the CPU that goes back
 * in. */
#include <math.h>
#include <string.h>

#include "row.h"
#include "names.h"
#include "random.h"
#include "tide/graph.h"

#define GENERATOR_META "tide.Generator"

/* {==== Generators */

tide_generator *ltide_check_generator(lua_State *L, int arg, const char *name) {
  tide_generator **u = ltide_test_object(L, arg, GENERATOR_META);
  if (!u || !*u) ltide_arg_error(L, arg, name, "a tide.Generator");
  return *u;
}

static tide_generator **new_generator(lua_State *L) {
  tide_generator **u = ltide_new_object(L, sizeof *u, 0);
  *u = NULL;
  ltide_setmetatable(L, GENERATOR_META);
  return u;
}

static int generator_gc(lua_State *L) {
  tide_generator *g = ltide_take_pointer(L, GENERATOR_META);
  if (g) tide_generator_release(g);
  return 0;
}

static int lgenerator(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  int device = lua_isnoneornil(L, 1) ? TIDE_CPU : ltide_check_device(L, 1, "device", LTIDE_CPU_OK);
  tide_generator **u = new_generator(L);
  ltide_try(L, tide_generator_new(u, device));
  return 1;
}

void ltide_check_settable(lua_State *L, int device) {
  if (device == TIDE_CPU || !tide_thread_is_capturing()) return;
  ltide_error(L, "StateError",
              "%s: not allowed while a graph is captured, because it draws from where the generator stands at each "
              "replay, expected this before or after it",
              ltide_function_name(L));
}

static int lgenerator_manual_seed(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 2);
  tide_generator *g = ltide_check_generator(L, 1, "generator");
  uint64_t seed = (uint64_t)ltide_check_integer(L, 2, "seed");
  ltide_check_settable(L, tide_generator_device(g));
  tide_generator_seed(g, seed);
  lua_settop(L, 1);
  return 1;
}

static int lgenerator_seed(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  tide_generator *g = ltide_check_generator(L, 1, "generator");
  ltide_check_settable(L, tide_generator_device(g));
  uint64_t seed = tide_random_seed();
  tide_generator_seed(g, seed);
  lua_pushinteger(L, (lua_Integer)seed);
  return 1;
}

static int lgenerator_initial_seed(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  lua_pushinteger(L, (lua_Integer)tide_generator_get_seed(ltide_check_generator(L, 1, "generator")));
  return 1;
}

int ltide_push_rng_state(lua_State *L, ltide_state *S, tide_generator *g) {
  uint64_t state[2] = {tide_generator_get_seed(g), tide_generator_get_offset(g)};
  int64_t size = sizeof state;
  tide_options o = {TIDE_UINT8, TIDE_CPU, false};
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_from_data(&u->t, state, &size, 1, &o));
  ltide_made(L, S);
  return 1;
}

void ltide_check_rng_state(lua_State *L, ltide_state *S, int arg, const char *name, uint64_t state[2]) {
  tide_tensor *t = ltide_check_tensor(L, S, arg, name);
  bool is_state = tide_tensor_device(t) == TIDE_CPU && tide_tensor_dtype(t) == TIDE_UINT8;
  if (!is_state || tide_tensor_numel(t) != (int64_t)(2 * sizeof *state))
    ltide_arg_error(L, arg, name, "16 bytes, as get_state gives them: a uint8 tensor on the cpu");
  ltide_try(L, tide_read(state, t));
  if (state[1] % 4)
    ltide_error(L, "ValueError", "%s: %s: its offset is %I, expected a multiple of 4", ltide_function_name(L), name,
                (lua_Integer)state[1]);
}

void ltide_set_rng_state(lua_State *L, ltide_state *S, tide_generator *g, int arg) {
  uint64_t state[2];
  ltide_check_rng_state(L, S, arg, "state", state);
  ltide_check_settable(L, tide_generator_device(g));
  tide_generator_seed(g, state[0]);
  ltide_try(L, tide_generator_set_offset(g, state[1]));
}

static int lgenerator_get_state(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 1);
  return ltide_push_rng_state(L, S, ltide_check_generator(L, 1, "generator"));
}

static int lgenerator_set_state(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  ltide_set_rng_state(L, S, ltide_check_generator(L, 1, "generator"), 2);
  lua_settop(L, 1);
  return 1;
}

static int lgenerator_get_offset(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  lua_pushinteger(L, (lua_Integer)tide_generator_get_offset(ltide_check_generator(L, 1, "generator")));
  return 1;
}

static int lgenerator_set_offset(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 2);
  tide_generator *g = ltide_check_generator(L, 1, "generator");
  int64_t offset = ltide_check_integer(L, 2, "offset");
  if (offset < 0)
    return ltide_error(L, "ValueError", "set_offset: offset: got %I, expected a multiple of 4 from 0",
                       (lua_Integer)offset);
  ltide_check_settable(L, tide_generator_device(g));
  ltide_try(L, tide_generator_set_offset(g, (uint64_t)offset));
  lua_settop(L, 1);
  return 1;
}

static int lgenerator_clone_state(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  tide_generator *g = ltide_check_generator(L, 1, "generator"), **u = new_generator(L);
  ltide_try(L, tide_generator_new(u, tide_generator_device(g)));
  tide_generator_seed(*u, tide_generator_get_seed(g));
  ltide_try(L, tide_generator_set_offset(*u, tide_generator_get_offset(g)));
  return 1;
}

static int lgenerator_graphsafe_get_state(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  tide_generator *g = ltide_check_generator(L, 1, "generator"), **u = new_generator(L);
  ltide_try(L, tide_generator_share(u, g));
  return 1;
}

static int lgenerator_graphsafe_set_state(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 2);
  tide_generator *g = ltide_check_generator(L, 1, "generator");
  ltide_try(L, tide_generator_join(g, ltide_check_generator(L, 2, "state")));
  lua_settop(L, 1);
  return 1;
}

static int generator_tostring(lua_State *L) {
  tide_generator *g = ltide_check_generator(L, 1, "generator");
  int device = tide_generator_device(g);
  if (device < 0)
    lua_pushliteral(L, "tide.Generator(device=cpu");
  else
    lua_pushfstring(L, "tide.Generator(device=cuda:%d", device);
  lua_pushfstring(L, "%s, seed=%I, offset=%I)", lua_tostring(L, -1), (lua_Integer)tide_generator_get_seed(g),
                  (lua_Integer)tide_generator_get_offset(g));
  return 1;
}

static int generator_index(lua_State *L) {
  tide_generator *g = ltide_check_generator(L, 1, "generator");
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  const char *key = ltide_check_text(L, 2, "key");
  if (strcmp(key, "device")) return ltide_no_field(L, "Generator", key, lua_upvalueindex(1), "device");
  ltide_push_device(L, tide_generator_device(g));
  return 1;
}

/* {==== Seeds of the default generators */

tide_generator *ltide_default_generator(lua_State *L, int device) {
  tide_generator *g;
  ltide_try(L, tide_generator_default(&g, device));
  return g;
}

void ltide_push_generator(lua_State *L, tide_generator *g) {
  tide_generator **u = new_generator(L);
  tide_generator_retain(g);
  *u = g;
}

static int lmanual_seed(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  uint64_t seed = (uint64_t)ltide_check_integer(L, 1, "seed");
  ltide_check_settable(L, TIDE_CURRENT);
  tide_manual_seed(seed);
  ltide_push_generator(L, ltide_default_generator(L, TIDE_CPU));
  return 1;
}

static int lseed(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 0);
  ltide_check_settable(L, TIDE_CURRENT);
  uint64_t seed = tide_random_seed();
  tide_manual_seed(seed);
  lua_pushinteger(L, (lua_Integer)seed);
  return 1;
}

static int linitial_seed(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 0);
  lua_pushinteger(L, (lua_Integer)tide_generator_get_seed(ltide_default_generator(L, TIDE_CPU)));
  return 1;
}

static int lget_rng_state(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 0);
  return ltide_push_rng_state(L, S, ltide_default_generator(L, TIDE_CPU));
}

static int lset_rng_state(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 1);
  ltide_set_rng_state(L, S, ltide_default_generator(L, TIDE_CPU), 1);
  return 0;
}

/* {==== In place */

static const char *const generator_keys[] = {"generator", NULL};

/* x:f_([a [, b]] [, {generator=}]): reads the defaults' replacements and fills x. */
static int fill_random(lua_State *L, tide_random_kind kind, int count, const char *first, const char *second, double a,
                       double b) {
  ltide_state *S = ltide_begin(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args args = ltide_split(L, 1);
  ltide_check_count(L, args, 1 + count);
  ltide_check_keys(L, args.opts, generator_keys);
  if (args.n > 1) a = ltide_check_number(L, 2, first);
  if (args.n > 2) b = ltide_check_number(L, 3, second);
  ltide_try(L, tide_random(x, kind, a, b, ltide_opt_generator(L, args.opts)));
  lua_settop(L, 1);
  return 1;
}

static int luniform_(lua_State *L) { return fill_random(L, TIDE_UNIFORM, 2, "a", "b", 0, 1); }
static int lnormal_(lua_State *L) { return fill_random(L, TIDE_NORMAL, 2, "mean", "std", 0, 1); }
static int lexponential_(lua_State *L) { return fill_random(L, TIDE_EXPONENTIAL, 1, "lambda", "", 1, 0); }
static int lcauchy_(lua_State *L) { return fill_random(L, TIDE_CAUCHY, 2, "median", "sigma", 0, 1); }
static int llog_normal_(lua_State *L) { return fill_random(L, TIDE_LOG_NORMAL, 2, "mean", "std", 1, 2); }

static int lgeometric_(lua_State *L) {
  if (ltide_split(L, 1).n < 2 || lua_isnil(L, 2))
    return ltide_arg_error(L, 2, "p", "a probability, above 0 and below 1");
  return fill_random(L, TIDE_GEOMETRIC, 1, "p", "", 0.5, 0);
}

/* bernoulli_(p): p a number, or a tensor of probabilities that broadcasts to x. */
static int lbernoulli_(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *p = ltide_test_tensor(L, S, 2);
  if (!p) return fill_random(L, TIDE_BERNOULLI, 1, "p", "", 0.5, 0);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args args = ltide_split(L, 2);
  ltide_check_count(L, args, 2);
  ltide_check_keys(L, args.opts, generator_keys);
  ltide_try(L, tide_bernoulli(x, p, ltide_opt_generator(L, args.opts)));
  lua_settop(L, 1);
  return 1;
}

/* random_([low,] [high]): high excluded; without arguments, what the dtype holds exactly. */
static int lrandom_(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args args = ltide_split(L, 1);
  ltide_check_count(L, args, 3);
  ltide_check_keys(L, args.opts, generator_keys);
  tide_generator *g = ltide_opt_generator(L, args.opts);
  if (args.n == 1)
    ltide_try(L, tide_random_bits(x, g));
  else {
    int64_t low = args.n == 2 ? 0 : ltide_check_integer(L, 2, "low"), high = ltide_check_integer(L, args.n, "high");
    ltide_try(L, tide_random_int(x, low, high, g));
  }
  lua_settop(L, 1);
  return 1;
}

/* {==== New tensors */

static const char *const new_keys[] = {LTIDE_OUT_KEYS, "generator", NULL};

static int new_random(lua_State *L, tide_random_kind kind) {
  ltide_state *S = ltide_begin(L);
  int64_t size[TIDE_MAX_DIMS];
  tide_options o = TIDE_OPTIONS;
  ltide_args args = ltide_split(L, 1);
  ltide_check_keys(L, args.opts, new_keys);
  int ndim = ltide_check_sizes(L, 1, args.n, size, "sizes", 0);
  ltide_opt_options(L, args.opts, &o);
  tide_generator *g = ltide_opt_generator(L, args.opts);
  tide_tensor *x = ltide_push_target(L, S, args.opts, size, ndim, &o);
  ltide_try(L, tide_random(x, kind, 0, 1, g));
  ltide_made(L, S);
  return 1;
}

static int lrand(lua_State *L) { return new_random(L, TIDE_UNIFORM); }
static int lrandn(lua_State *L) { return new_random(L, TIDE_NORMAL); }

static int random_like(lua_State *L, tide_random_kind kind) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
  ltide_args args = ltide_split(L, 1);
  ltide_check_count(L, args, 1);
  ltide_check_keys(L, args.opts, new_keys);
  tide_options o = {tide_tensor_dtype(x), tide_tensor_device(x), false};
  ltide_opt_options(L, args.opts, &o);
  tide_generator *g = ltide_opt_generator(L, args.opts);
  ltide_check_out(L, S, args.opts, 1);
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_empty_like(&u->t, x, &o));
  ltide_try(L, tide_random(u->t, kind, 0, 1, g));
  return ltide_deliver(L, S, args.opts, 1);
}

static int lrand_like(lua_State *L) { return random_like(L, TIDE_UNIFORM); }
static int lrandn_like(lua_State *L) { return random_like(L, TIDE_NORMAL); }

/* randint(low, high, size) or randint(high, size). */
static int lrandint(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  int64_t size[TIDE_MAX_DIMS], low = 0;
  tide_options o = TIDE_OPTIONS;
  ltide_args args = ltide_split(L, 3);
  ltide_check_count(L, args, 3);
  ltide_check_keys(L, args.opts, new_keys);
  if (args.n < 2)
    return ltide_arg_error(L, args.n + 1, args.n ? "size" : "high", args.n ? "a table of sizes" : "an integer");
  if (args.n == 3) low = ltide_check_integer(L, 1, "low");
  int64_t high = ltide_check_integer(L, args.n - 1, "high");
  int ndim = ltide_check_sizes(L, args.n, args.n, size, "size", 0);
  o.dtype = TIDE_INT64;
  ltide_opt_options(L, args.opts, &o);
  tide_generator *g = ltide_opt_generator(L, args.opts);
  tide_tensor *x = ltide_push_target(L, S, args.opts, size, ndim, &o);
  ltide_try(L, tide_random_int(x, low, high, g));
  ltide_made(L, S);
  return 1;
}

static int lrandperm(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_options o = TIDE_OPTIONS;
  ltide_args args = ltide_split(L, 1);
  ltide_check_count(L, args, 1);
  ltide_check_keys(L, args.opts, new_keys);
  int64_t n = ltide_check_integer(L, 1, "n");
  ltide_opt_options(L, args.opts, &o);
  tide_generator *g = ltide_opt_generator(L, args.opts);
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_randperm(&u->t, n, &o, g));
  return ltide_deliver(L, S, args.opts, 1);
}

/* bernoulli(p): a tensor like p, 1 with the probability that stands there. */
static int lbernoulli(lua_State *L) {
  static const char *const bernoulli_keys[] = {"generator", "out", NULL};
  ltide_state *S = ltide_enter(L);
  tide_tensor *p = ltide_check_tensor(L, S, 1, "p");
  ltide_args args = ltide_split(L, 1);
  ltide_check_count(L, args, 1);
  ltide_check_keys(L, args.opts, bernoulli_keys);
  ltide_check_out(L, S, args.opts, 1);
  tide_generator *g = ltide_opt_generator(L, args.opts);
  tide_options o = {tide_tensor_dtype(p), tide_tensor_device(p), false};
  ltide_tensor *u = ltide_new_tensor(L, S);
  ltide_try(L, tide_empty_like(&u->t, p, &o));
  ltide_try(L, tide_bernoulli(u->t, p, g));
  return ltide_deliver(L, S, args.opts, 1);
}

/* {==== Registration */

static ltide_row generator_rows[] = {
#include "api/generator.def"
    {0}};

#define PATH "tide."
static ltide_row random_rows[] = {
#include "api/random.def"
    {0}};

void ltide_open_random(lua_State *L, ltide_state *S) {
  static const luaL_Reg meta[] = {{"__gc", generator_gc}, {"__tostring", generator_tostring}, {NULL, NULL}};
  ltide_newmetatable(L, GENERATOR_META);
  S->generator_meta = lua_topointer(L, -1);
  luaL_setfuncs(L, meta, 0);
  lua_createtable(L, 0, 8);
  ltide_register_rows(L, "Generator", generator_rows);
  lua_pushcclosure(L, generator_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  ltide_register_rows(L, "tide", random_rows);
  ltide_open_random_cuda(L);
}
