/* random.c: generators, seeds and random tensors.
 *
 * Every function that draws takes {generator=}; without one the default generator of the tensor's device is used. The
 * state of a generator is 16 bytes, seed and offset, on every kind of device: a uint8 tensor on the CPU that goes back
 * in. */

#include "call/class.h"
#include "random.h"
#include "tensor.h"

#define GENERATOR_META "tide.Generator"

/* {==== Generators */

static tide_generator **new_generator(lua_State *L) { return (tide_generator **)ltide_new_pointer(L, GENERATOR_META); }

void ltide_push_generator(lua_State *L, tide_generator *g) {
  tide_generator **u = new_generator(L);
  tide_generator_retain(g);
  *u = g;
}

tide_generator *ltide_default_generator(lua_State *L, int device) {
  tide_generator *g;
  ltide_try(L, tide_generator_default(&g, device));
  return g;
}

/* That of a method; NULL: it is a function, of the default ones. */
static tide_generator *own(const ltide_call *c) {
  return c->sig->count && c->sig->param[0].kind == LTIDE_GENERATOR ? c->v[0].generator : NULL;
}

static tide_generator *own_or_default(lua_State *L, const ltide_call *c) {
  return own(c) ? own(c) : ltide_default_generator(L, TIDE_CPU);
}

static int lgenerator(lua_State *L, ltide_call *c) {
  return ltide_give(L, tide_generator_new(new_generator(L), c->v[0].given ? c->v[0].device : TIDE_CPU));
}

void ltide_check_settable(lua_State *L, int device) {
  if (device == TIDE_CPU || !tide_thread_is_capturing()) return;
  ltide_fail(L, "StateError",
             "not allowed while a graph is captured, because it draws from where the generator stands at each "
             "replay, expected this before or after it");
}

/* Of a function: every default generator. */
static void seed(lua_State *L, const ltide_call *c, uint64_t value) {
  ltide_check_settable(L, own(c) ? tide_generator_device(own(c)) : TIDE_CURRENT);
  if (own(c))
    tide_generator_seed(own(c), value);
  else
    tide_manual_seed(value);
}

static int lmanual_seed(lua_State *L, ltide_call *c) {
  seed(L, c, (uint64_t)c->v[c->sig->count - 1].i);
  if (own(c)) return ltide_self(L, TIDE_OK);
  return ltide_push_generator(L, ltide_default_generator(L, TIDE_CPU)), 1;
}

static int lseed(lua_State *L, ltide_call *c) {
  uint64_t value = tide_random_seed();
  seed(L, c, value);
  return ltide_give_integer(L, (lua_Integer)value);
}

static int linitial_seed(lua_State *L, ltide_call *c) {
  return ltide_give_integer(L, (lua_Integer)tide_generator_get_seed(own_or_default(L, c)));
}

int ltide_push_rng_state(lua_State *L, ltide_state *S, tide_generator *g) {
  uint64_t state[2] = {tide_generator_get_seed(g), tide_generator_get_offset(g)};
  int64_t size = sizeof state;
  tide_options o = {TIDE_UINT8, TIDE_CPU, false};
  ltide_tensor *u = ltide_new_tensor(L, S);
  return ltide_give_tensors(L, S, tide_from_data(&u->t, state, &size, 1, &o), 1);
}

void ltide_check_rng_state(lua_State *L, ltide_state *S, int arg, const char *name, uint64_t state[2]) {
  tide_tensor *t = ltide_check_tensor(L, S, arg, name);
  bool is_state = tide_tensor_device(t) == TIDE_CPU && tide_tensor_dtype(t) == TIDE_UINT8;
  if (!is_state || tide_tensor_numel(t) != (int64_t)(2 * sizeof *state))
    ltide_arg_error(L, arg, name, "16 bytes, as get_state gives them: a uint8 tensor on the cpu");
  ltide_try(L, tide_read(state, t));
  if (state[1] % 4)
    ltide_fail(L, "ValueError", "%s: its offset is %I, expected a multiple of 4", name, (lua_Integer)state[1]);
}

void ltide_set_rng_state(lua_State *L, tide_generator *g, const uint64_t state[2]) {
  ltide_check_settable(L, tide_generator_device(g));
  tide_generator_seed(g, state[0]);
  ltide_try(L, tide_generator_set_offset(g, state[1]));
}

static int lget_rng_state(lua_State *L, ltide_call *c) { return ltide_push_rng_state(L, c->S, own_or_default(L, c)); }

/* The state is the last parameter. */
static int lset_rng_state(lua_State *L, ltide_call *c) {
  uint64_t state[2];
  ltide_check_rng_state(L, c->S, c->v[c->sig->count - 1].at, "state", state);
  ltide_set_rng_state(L, own_or_default(L, c), state);
  return c->sig->count > 1 ? ltide_self(L, TIDE_OK) : 0;
}

static int lgenerator_get_offset(lua_State *L, ltide_call *c) {
  return ltide_give_integer(L, (lua_Integer)tide_generator_get_offset(c->v[0].generator));
}

static int lgenerator_set_offset(lua_State *L, ltide_call *c) {
  tide_generator *g = c->v[0].generator;
  if (c->v[1].i < 0)
    return ltide_error(L, "ValueError", "set_offset: offset: got %I, expected a multiple of 4 from 0",
                       (lua_Integer)c->v[1].i);
  ltide_check_settable(L, tide_generator_device(g));
  return ltide_self(L, tide_generator_set_offset(g, (uint64_t)c->v[1].i));
}

static int lgenerator_clone_state(lua_State *L, ltide_call *c) {
  tide_generator *g = c->v[0].generator, **u = new_generator(L);
  ltide_try(L, tide_generator_new(u, tide_generator_device(g)));
  tide_generator_seed(*u, tide_generator_get_seed(g));
  return ltide_give(L, tide_generator_set_offset(*u, tide_generator_get_offset(g)));
}

static int lgenerator_graphsafe_get_state(lua_State *L, ltide_call *c) {
  return ltide_give(L, tide_generator_share(new_generator(L), c->v[0].generator));
}

static int lgenerator_graphsafe_set_state(lua_State *L, ltide_call *c) {
  return ltide_self(L, tide_generator_join(c->v[0].generator, c->v[1].generator));
}

static int generator_tostring(lua_State *L, void *g) {
  ltide_push_device(L, tide_generator_device(g));
  return lua_pushfstring(L, "tide.Generator(device=%s, seed=%I, offset=%I)", luaL_tolstring(L, -1, NULL),
                         (lua_Integer)tide_generator_get_seed(g), (lua_Integer)tide_generator_get_offset(g)),
         1;
}

static int device_of(lua_State *L, void *g) { return ltide_push_device(L, tide_generator_device(g)), 1; }

/* {==== In place */

/* x:f_([a [, b]] [, {generator=}]): fills x; a distribution of one parameter has no b. */
static int lfill_random(lua_State *L, ltide_call *c) {
  bool has_b = c->sig->positional > 2;
  return ltide_self(L, tide_random(c->x, (tide_random_kind)c->row->tag, c->v[1].number, has_b ? c->v[2].number : 0,
                                   c->v[has_b ? 3 : 2].generator));
}

static int lgeometric_(lua_State *L, ltide_call *c) {
  if (!c->v[1].given || lua_isnil(L, c->v[1].at))
    return ltide_arg_error(L, 2, "p", "a probability, above 0 and below 1");
  c->v[1].number = ltide_check_number(L, c->v[1].at, "p");
  return lfill_random(L, c);
}

/* bernoulli_(p): p a number, or a tensor of probabilities that broadcasts to x. */
static int lbernoulli_(lua_State *L, ltide_call *c) {
  tide_tensor *p = c->v[1].given ? ltide_test_tensor(L, c->S, c->v[1].at) : NULL;
  tide_generator *g = c->v[2].generator;
  if (p) return ltide_self(L, tide_bernoulli(c->x, p, g));
  double a = c->v[1].given ? ltide_check_number(L, c->v[1].at, "p") : 0.5;
  return ltide_self(L, tide_random(c->x, TIDE_BERNOULLI, a, 0, g));
}

/* random_([low,] [high]): high excluded; without arguments, what the dtype holds exactly. */
static int lrandom_(lua_State *L, ltide_call *c) {
  tide_generator *g = c->v[3].generator;
  if (c->n == 1) return ltide_self(L, tide_random_bits(c->x, g));
  int64_t low = c->n == 2 ? 0 : ltide_check_integer(L, 2, "low"), high = ltide_check_integer(L, c->n, "high");
  return ltide_self(L, tide_random_int(c->x, low, high, g));
}

/* {==== New tensors */

/* Pushes a tensor of these sizes, or what out= gives. */
static tide_tensor *push_sized(lua_State *L, ltide_call *c, const ltide_value *sizes, tide_options o) {
  ltide_opt_options(L, c->opts, &o);
  return ltide_push_target(L, c->S, c->opts, sizes->sizes, sizes->n, &o);
}

static int lrand(lua_State *L, ltide_call *c) {
  tide_tensor *x = push_sized(L, c, &c->v[0], (tide_options)TIDE_OPTIONS);
  return ltide_give_tensors(
      L, c->S, tide_random(x, (tide_random_kind)c->row->tag, 0, 1, ltide_get(L, c, "generator")->generator), 1);
}

static int lrand_like(lua_State *L, ltide_call *c) {
  tide_options o = {tide_tensor_dtype(c->x), tide_tensor_device(c->x), false};
  ltide_opt_options(L, c->opts, &o);
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_empty_like(&u->t, c->x, &o));
  return ltide_finish(L, c,
                      tide_random(u->t, (tide_random_kind)c->row->tag, 0, 1, ltide_get(L, c, "generator")->generator));
}

/* randint(low, high, size) or randint(high, size). */
static int lrandint(lua_State *L, ltide_call *c) {
  tide_options o = TIDE_OPTIONS;
  o.dtype = TIDE_INT64;
  tide_tensor *x = push_sized(L, c, &c->v[2], o);
  return ltide_give_tensors(L, c->S, tide_random_int(x, c->v[0].i, c->v[1].i, ltide_get(L, c, "generator")->generator),
                            1);
}

static int lrandperm(lua_State *L, ltide_call *c) {
  tide_options o = TIDE_OPTIONS;
  ltide_opt_options(L, c->opts, &o);
  return ltide_finish(L, c, tide_randperm(ltide_result(L, c), c->v[0].i, &o, ltide_get(L, c, "generator")->generator));
}

/* bernoulli(p): a tensor like p, 1 with the probability that stands there. */
static int lbernoulli(lua_State *L, ltide_call *c) {
  tide_options o = {tide_tensor_dtype(c->x), tide_tensor_device(c->x), false};
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_empty_like(&u->t, c->x, &o));
  return ltide_finish(L, c, tide_bernoulli(u->t, c->x, c->v[1].generator));
}

/* poisson(rate): a tensor like rate. */
static int lpoisson(lua_State *L, ltide_call *c) {
  tide_tensor *rate = c->v[0].tensor;
  tide_options o = {tide_tensor_dtype(rate), tide_tensor_device(rate), false};
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_empty_like(&u->t, rate, &o));
  return ltide_finish(L, c, tide_poisson(u->t, rate, ltide_get(L, c, "generator")->generator));
}

/* normal(mean, std): of two numbers with sizes, else like what the two broadcast to. */
static int lnormal(lua_State *L, ltide_call *c) {
  tide_operand mean = c->v[0].operand, deviation = {NULL, tide_float(1)};
  const ltide_value *size = ltide_get(L, c, "size");
  tide_generator *g = ltide_get(L, c, "generator")->generator;
  if (c->v[1].given) deviation = c->v[1].operand;
  if (mean.tensor || deviation.tensor) {
    if (size->given) return ltide_arg_error(L, size->at, "size", "none beside a tensor, whose size it is");
    return ltide_finish(L, c, tide_normal(ltide_result(L, c), &mean, &deviation, g));
  }
  if (!size->given)
    return ltide_error(L, "ArgumentError", "normal: size: got none beside two numbers, expected sizes of a tensor");
  double at = ltide_check_number(L, c->v[0].at, "mean"), by = 1;
  if (c->v[1].given) by = ltide_check_number(L, c->v[1].at, "std");
  tide_tensor *x = push_sized(L, c, size, (tide_options)TIDE_OPTIONS);
  return ltide_give_tensors(L, c->S, tide_random(x, TIDE_NORMAL, at, by, g), 1);
}

/* pick(sums, n, generator) */
static int script_pick(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  tide_tensor *sums = ltide_check_tensor(L, S, 1, "sums");
  tide_generator *g = lua_isnil(L, 3) ? NULL : ltide_check_generator(L, 3, "generator");
  ltide_tensor *u = ltide_new_tensor(L, S);
  return ltide_give(L, tide_pick(&u->t, sums, lua_tointeger(L, 2), g));
}

/* {==== Registration */

static void release(void *g) { tide_generator_release(g); }

void ltide_open_random(lua_State *L, ltide_state *S) {
#include <rows/generator.inc>
#include <rows/random.inc>
  static const ltide_class class = {.meta = GENERATOR_META,
                                    .name = "Generator",
                                    .rows = generator_rows,
                                    .release = release,
                                    .tostring = generator_tostring};
  ltide_handle_of(S)->generator_meta = ltide_open_class(L, &class);
  ltide_register_rows(L, "tide", random_rows);
  LTIDE_GIVE(L, "tensor/random.c", pick);
}
