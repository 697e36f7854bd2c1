/* ops.c: every elementwise operation, from op.def by one loop: tide.f, x:f, x:f_ and the operators.
 *
 * The list is expanded into one small C function for each op and form, so that a call needs no closure, no upvalue and
 * no look-up: `x + y` reads two operands, makes a handle and calls core. Whatever has options, parameters or an unusual
 * number of arguments leaves that path at once for `general`, where the table `specials` says how an op reads its
 * parameters. A number is a weak operand: an integer or a float as Lua has it. */
#include <math.h>
#include <pthread.h>

#include "tide/fuse.h"

#include "fuse/fuse.h"
#include "tensor.h"

typedef struct op_call {
  tide_op op;
  tide_operand in[3];
  tide_scalar p[3];
  bool has_params;
  int operands, next; /* next: an op that is applied to the result and next_in, or -1 */
  tide_operand next_in;
} op_call;

typedef void (*op_parse)(lua_State *L, ltide_state *S, op_call *c, ltide_args a);

typedef struct op_special {
  op_parse parse; /* reads parameters into the call; it may change the op */
  bool always;    /* the op needs its parameters, also where the script gives none */
  const char *doc;
} op_special;

/* {==== Parameters of single ops */

/* alpha is a factor of the second operand; sub has it through add. */
static void parse_alpha(lua_State *L, ltide_state *S, op_call *c, ltide_args a) {
  if (!ltide_opt_scalar(L, a.opts, "alpha", &c->p[0])) return;
  if (c->op == TIDE_OP_sub) c->p[0].i = -c->p[0].i, c->p[0].re = -c->p[0].re;
  c->op = TIDE_OP_add_scaled, c->has_params = true;
}

static void parse_rounding(lua_State *L, ltide_state *S, op_call *c, ltide_args a) {
  if (!a.opts || ltide_rawfield(L, a.opts, "rounding_mode") == LUA_TNIL) return;
  const char *mode = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  if (!strcmp(mode, "trunc"))
    c->op = TIDE_OP_div_trunc;
  else if (!strcmp(mode, "floor"))
    c->op = TIDE_OP_floor_divide;
  else
    ltide_arg_error(L, -1, "rounding_mode", "'trunc', 'floor' or nil");
  lua_pop(L, 1);
}

/* The row's signature. */
static const ltide_sig *own_sig(lua_State *L) {
  const ltide_row *row = lua_touserdata(L, lua_upvalueindex(1));
  const ltide_sig *sig = row ? ltide_row_sig(row) : NULL;
  if (!sig) ltide_fail(L, "StateError", "it has no signature");
  return sig;
}

/* What the signature has behind the operands: an argument, an option or its default; without one it is no limit. */
static void parse_params(lua_State *L, ltide_state *S, op_call *c, ltide_args a) {
  const ltide_sig *sig = own_sig(L);
  for (int i = c->operands; i < sig->count && sig->param[i].kind != LTIDE_OUT; i++) {
    const ltide_param *p = &sig->param[i];
    tide_scalar *to = &c->p[i - c->operands];
    if (p->kind == LTIDE_SCALAR)
      *to = tide_int((int64_t)p->number), ltide_opt_scalar(L, a.opts, p->name, to);
    else if (p->kind == LTIDE_BOOLEAN)
      *to = tide_float(ltide_opt_boolean(L, a.opts, p->name, p->number != 0));
    else if (i < a.n)
      *to = tide_float(ltide_check_number(L, i + 1, p->name));
    else
      *to = tide_float(ltide_opt_number(L, a.opts, p->name, *p->standard ? p->number : -HUGE_VAL));
  }
  c->has_params = true;
}

static void parse_order(lua_State *L, ltide_state *S, op_call *c, ltide_args a) {
  lua_Integer n = ltide_check_integer(L, 2, "n");
  if (a.n < 2 || n < 0) ltide_error(L, "ValueError", "polygamma: n: got %I, expected at least 0", n);
  if (n)
    c->p[0] = tide_float((double)n), c->has_params = true;
  else
    c->op = TIDE_OP_digamma;
}

static void parse_round(lua_State *L, ltide_state *S, op_call *c, ltide_args a) {
  double decimals = ltide_opt_number(L, a.opts, "decimals", 0);
  if (decimals != floor(decimals) || fabs(decimals) > 300)
    ltide_error(L, "ValueError", "round: decimals: got %f, expected an integer from -300 to 300", decimals);
  bool is_float = tide_dtype_kind(tide_tensor_dtype(c->in[0].tensor)) == 'F';
  if (decimals == 0 || (!is_float && decimals > 0)) return;
  c->op = TIDE_OP_round_decimals, c->has_params = true;
  c->p[0] = tide_float(pow(10, decimals));
}

static double largest(tide_dtype dtype) {
  switch (dtype) {
  case TIDE_FLOAT16: return 65504;
  case TIDE_BFLOAT16: return 0x1.fep127;
  case TIDE_FLOAT32:
  case TIDE_COMPLEX64: return 0x1.fffffep127;
  default: return 0x1.fffffffffffffp1023;
  }
}

static void parse_nan(lua_State *L, ltide_state *S, op_call *c, ltide_args a) {
  tide_dtype dtype = tide_tensor_dtype(c->in[0].tensor);
  double most = largest(dtype);
  if (tide_dtype_kind(dtype) != 'F' && tide_dtype_kind(dtype) != 'C')
    c->p[0] = c->p[1] = c->p[2] = tide_int(0); /* integers have no NaN */
  else {
    c->p[0] = tide_float(ltide_opt_number(L, a.opts, "nan", 0));
    c->p[1] = tide_float(ltide_opt_number(L, a.opts, "posinf", most));
    c->p[2] = tide_float(ltide_opt_number(L, a.opts, "neginf", -most));
  }
  c->has_params = true;
}

/* Reads a bound, from the argument at `at` or from an option; false: there is none. */
static bool read_bound(lua_State *L, ltide_state *S, ltide_args a, int at, const char *key, tide_operand *out) {
  bool is_option = at > a.n || lua_isnil(L, at);
  if (is_option && (!a.opts || ltide_rawfield(L, a.opts, key) == LUA_TNIL)) return false;
  if (is_option) at = lua_gettop(L);
  if (is_option && lua_istable(L, at)) {
    const tide_tensor *x = ltide_check_tensor(L, S, 1, "x");
    ltide_push_list_beside(L, S, at, tide_tensor_dtype(x), tide_tensor_device(x));
    at = lua_gettop(L);
  }
  ltide_check_operand(L, S, at, out, key);
  return true;
}

/* Bounds that are tensors are applied one after the other, as maximum and minimum. */
static void parse_clamp(lua_State *L, ltide_state *S, op_call *c, ltide_args a) {
  tide_operand lo = {0}, hi = {0};
  bool is_min = c->op != TIDE_OP_clamp_max, is_max = c->op != TIDE_OP_clamp_min;
  is_min = is_min && read_bound(L, S, a, 2, "min", &lo);
  is_max = is_max && read_bound(L, S, a, c->op == TIDE_OP_clamp_max ? 2 : 3, "max", &hi);
  c->in[0].tensor = ltide_check_tensor(L, S, 1, "x"); /* a bound that is a table has made a tensor meanwhile */
  if (!is_min && !is_max) ltide_fail(L, "ArgumentError", "got no bound, expected min, max or both: {min=0, max=1}");
  if (lo.tensor || hi.tensor) {
    c->op = is_min ? TIDE_OP_maximum : TIDE_OP_minimum;
    c->in[1] = is_min ? lo : hi;
    if (is_min && is_max) c->next = TIDE_OP_minimum, c->next_in = hi;
    return;
  }
  c->op = is_min && is_max ? TIDE_OP_clamp : is_min ? TIDE_OP_clamp_min : TIDE_OP_clamp_max;
  c->p[0] = is_min ? lo.number : hi.number, c->p[1] = hi.number;
  c->has_params = true;
}

static const op_special specials[TIDE_OP_COUNT] = {
#define SPECIAL(op, parse, always, signature, text) [TIDE_OP_##op] = {parse, always, "tide." #op signature "\n" text},
#include "tensor/api/ops.def"
};

/* {==== Telling tide.fuse */

static inline tide_status elementwise(lua_State *L, ltide_state *S, tide_tensor **out, tide_op op,
                                      const tide_operand *in, const tide_scalar *p, tide_tensor *into) {
  if (__builtin_expect(S->is_fusing, 0)) return tide_fuse_elementwise(out, ltide_fuse_of(S)->pending, op, in, p, into);
  return tide_elementwise(out, op, in, p, into);
}

/* {==== The general path */

/* Do the options hold `out` and nothing else? So most do, in loops that are to be fast. */
static bool is_out_alone(lua_State *L, int opts) {
  lua_pushnil(L);
  if (!lua_next(L, opts)) return false;
  bool is_out = lua_type(L, -2) == LUA_TSTRING && !strcmp(lua_tostring(L, -2), "out");
  lua_pop(L, 1);
  bool is_alone = !lua_next(L, opts);
  if (!is_alone) lua_pop(L, 2);
  return is_out && is_alone;
}

/* What the row says of arguments and options; what is given by name goes to its place. In-place forms know no `out`. */
static ltide_args read_shape(lua_State *L, int operands, bool in_place) {
  int top = lua_gettop(L);
  if (!in_place && top == operands + 1 && lua_istable(L, top) && is_out_alone(L, top))
    return (ltide_args){operands, top};
  const ltide_sig *sig = own_sig(L);
  const char *names[LTIDE_MOST_PARAMS + 1] = {NULL}, *keys[LTIDE_MOST_PARAMS + 1];
  int n = 0;
  for (int i = 1; i < sig->positional; i++) names[i - 1] = sig->param[i].name;
  for (const char *const *k = sig->keys; *k; k++)
    if (!in_place || strcmp(*k, "out") != 0) keys[n++] = *k;
  keys[n] = NULL;
  ltide_check_keys(L, ltide_split(L, operands).opts, keys);
  ltide_named(L, 2, names);
  ltide_args a = ltide_split(L, operands);
  ltide_check_count(L, a, sig->positional);
  return a;
}

/* Nested tables among the arguments become tensors beside the others, before any operand is read: what is made here may
 * let the collector run. The condition of where is of the kind of its values, and gives the others nothing but its
 * device. */
static void convert_lists(lua_State *L, ltide_state *S, tide_op op, int n) {
  int condition = op == TIDE_OP_where ? 1 : 0, model = 0, lists = 0;
  for (int at = n; at >= 1; at--) {
    if (lua_istable(L, at)) lists++;
    if (ltide_test_handle(L, S, at) && (!model || at != condition)) model = at;
  }
  if (!lists || !model) return;
  const char *name = tide_op_operand(op, model - 1);
  if (!name && !ltide_test_tensor(L, S, model)) return; /* a freed bound or the like: refused under its own name */
  const tide_tensor *x = ltide_check_tensor(L, S, model, name);
  tide_dtype dtype = model == condition ? TIDE_DTYPE_NONE : tide_tensor_dtype(x);
  int device = tide_tensor_device(x);
  for (int at = 1; at <= n; at++) {
    if (!lua_istable(L, at)) continue;
    ltide_push_list_beside(L, S, at, at == condition ? TIDE_DTYPE_NONE : dtype, device);
    lua_replace(L, at);
  }
}

/* A Lua boolean is no condition; in x * (y == z) it counts as 0 or 1, as PyTorch's does, and a warning says so once. */
static inline void check_booleans(lua_State *L, tide_op op, const tide_operand *in, int n) {
  static _Atomic bool has_warned;
  bool is_sum = op == TIDE_OP_add || op == TIDE_OP_sub || op == TIDE_OP_mul || op == TIDE_OP_div;
  if (op == TIDE_OP_where && !in[0].tensor && in[0].number.kind == 'B')
    ltide_arg_error(L, 1, tide_op_operand(op, 0), "a tensor of booleans");
  for (int k = 0; is_sum && k < n; k++)
    if (!in[k].tensor && in[k].number.kind == 'B' && tide_tensor_dtype(in[1 - k].tensor) != TIDE_BOOL &&
        !atomic_exchange_explicit(&has_warned, true, memory_order_relaxed))
      ltide_warn(L,
                 "%s: a Lua boolean counts as 0 or 1; x == y compares whole tensors, x:eq(y) compares their elements",
                 ltide_function_name(L));
}

static void read_operands(lua_State *L, ltide_state *S, op_call *c) {
  bool has_tensor = false;
  for (int k = 0; k < c->operands; k++) {
    ltide_check_operand(L, S, k + 1, &c->in[k], tide_op_operand(c->op, k));
    has_tensor = has_tensor || c->in[k].tensor;
  }
  if (!has_tensor) ltide_arg_error(L, 1, tide_op_operand(c->op, 0), "a tensor");
  check_booleans(L, c->op, c->in, c->operands);
}

/* Pushes the result in a new handle, or writes it to `into`; the first of two operations never writes there. */
static void apply(lua_State *L, ltide_state *S, const op_call *c, tide_tensor *into) {
  const tide_scalar *p = c->has_params ? c->p : NULL;
  bool is_last = c->next < 0;
  ltide_tensor *u = into && is_last ? NULL : ltide_new_tensor(L, S);
  ltide_try(L, elementwise(L, S, u ? &u->t : NULL, c->op, c->in, p, is_last ? into : NULL));
  if (is_last) return;
  ltide_tensor *v = into ? NULL : ltide_new_tensor(L, S);
  const tide_operand in[2] = {{u->t, {0}}, c->next_in};
  ltide_try(L, elementwise(L, S, v ? &v->t : NULL, (tide_op)c->next, in, NULL, into));
  ltide_close_tensor(u);
}

static int general(lua_State *L, ltide_state *S, tide_op op, int operands, bool in_place) {
  const op_special *s = &specials[op];
  op_call c = {.op = op, .operands = operands, .next = -1};
  ltide_args a = read_shape(L, operands, in_place);
  convert_lists(L, S, op, a.n);
  tide_tensor *into =
      in_place ? ltide_check_tensor(L, S, 1, tide_op_operand(op, 0)) : ltide_opt_tensor(L, S, a.opts, "out");
  read_operands(L, S, &c);
  if (s->parse) s->parse(L, S, &c, a);
  apply(L, S, &c, into);
  ltide_made(L, S);
  if (in_place)
    lua_pushvalue(L, 1);
  else if (into)
    ltide_rawfield(L, a.opts, "out");
  return 1;
}

/* {==== The short path */

static inline int unary(lua_State *L, tide_op op, bool in_place) {
  ltide_state *S = ltide_begin(L);
  if (lua_gettop(L) != 1 || specials[op].always) return general(L, S, op, 1, in_place);
  tide_tensor *x = ltide_check_tensor(L, S, 1, "x"), *into = in_place ? x : NULL;
  tide_tensor **out = in_place ? NULL : &ltide_new_tensor(L, S)->t;
  ltide_try(L, __builtin_expect(S->is_fusing, 0)
                   ? tide_fuse_elementwise(out, ltide_fuse_of(S)->pending, op, &(tide_operand){.tensor = x}, NULL, into)
                   : tide_unary(out, op, x, into));
  if (!in_place) ltide_made(L, S);
  return 1;
}

static inline bool read_operand(lua_State *L, ltide_state *S, int arg, tide_operand *out) {
  ltide_tensor *u = ltide_test_handle(L, S, arg);
  out->tensor = u ? u->t : NULL;
  return out->tensor || ltide_test_scalar(L, arg, &out->number);
}

static inline int binary(lua_State *L, tide_op op, bool in_place) {
  ltide_state *S = ltide_begin(L);
  tide_operand in[2];
  if (lua_gettop(L) != 2 || specials[op].always || !read_operand(L, S, 1, &in[0]) || !read_operand(L, S, 2, &in[1]) ||
      !(in[0].tensor || in[1].tensor) || (in_place && !in[0].tensor))
    return general(L, S, op, 2, in_place);
  if (!in[0].tensor || !in[1].tensor) check_booleans(L, op, in, 2);
  tide_tensor *into = in_place ? ((ltide_tensor *)lua_touserdata(L, 1))->t : NULL;
  ltide_tensor *u = in_place ? NULL : ltide_new_tensor(L, S);
  tide_tensor **out = in_place ? NULL : &u->t;
  ltide_try(L, __builtin_expect(S->is_fusing, 0)
                   ? tide_fuse_elementwise(out, ltide_fuse_of(S)->pending, op, in, NULL, into)
               : in[0].tensor && in[1].tensor ? tide_binary(out, op, in[0].tensor, in[1].tensor, into)
                                              : tide_elementwise(out, op, in, NULL, into));
  if (in_place) {
    lua_settop(L, 1);
    return 1;
  }
  ltide_made(L, S);
  return 1;
}

static inline int ternary(lua_State *L, tide_op op, bool in_place) {
  return general(L, ltide_begin(L), op, 3, in_place);
}

/* {==== One loop over the list */

#define OP_FUNCTIONS(name, form)                                                                                       \
  static int lop_##name(lua_State *L) { return form(L, TIDE_OP_##name, false); }                                       \
  static int lop_##name##_(lua_State *L) { return form(L, TIDE_OP_##name, true); }
#define UNARY(name, rule, loop, expr, doc)   OP_FUNCTIONS(name, unary)
#define BINARY(name, rule, loop, expr, doc)  OP_FUNCTIONS(name, binary)
#define TERNARY(name, rule, loop, expr, doc) OP_FUNCTIONS(name, ternary)
#include "tide/op.def"

typedef struct op_face {
  const char *name, *name_;
  lua_CFunction fn, fn_;
  const char *doc;
} op_face;

static const op_face faces[TIDE_OP_COUNT] = {
#define UNARY(name, rule, loop, expr, doc)                                                                             \
  {#name, #name "_", lop_##name, lop_##name##_,                                                                        \
   "tide." #name "(x [, {out=}]) -> Tensor; x:" #name "(), x:" #name "_()\n" doc},
#define BINARY(name, rule, loop, expr, doc)                                                                            \
  {#name, #name "_", lop_##name, lop_##name##_,                                                                        \
   "tide." #name "(a, b [, {out=}]) -> Tensor; a:" #name "(b), a:" #name "_(b)\n" doc                                  \
   ". Tensors or numbers; broadcasts."},
#define TERNARY(name, rule, loop, expr, doc)                                                                           \
  {#name, #name "_", lop_##name, lop_##name##_,                                                                        \
   "tide." #name "(a, b, c [, {out=}]) -> Tensor; a:" #name "(b, c), a:" #name "_(b, c)\n" doc ". Broadcasts."},
#include "tide/op.def"
};

/* Forms of other ops, chosen by an option, parts of others, and what is in tide.special alone. */
static bool is_hidden(int op) {
  switch (op) {
  case TIDE_OP_add_scaled:
  case TIDE_OP_round_decimals:
  case TIDE_OP_div_trunc:
  case TIDE_OP_frexp_fraction:
  case TIDE_OP_frexp_exponent:
  case TIDE_OP_nextafter_half:
  case TIDE_OP_nextafter_bfloat16:
  case TIDE_OP_entr:
  case TIDE_OP_ndtr:
  case TIDE_OP_ndtri: return true;
  default: return false;
  }
}

/* Those of tide.special alone. */
static ltide_row special_rows[] = {FUNCTION(entr, FN(lop_entr), "(x [, {out=}]) -> Tensor",
                                            "-x * log(x), 0 for 0, -inf below: what x adds to an entropy.")
                                       FUNCTION(ndtr, FN(lop_ndtr), "(x [, {out=}]) -> Tensor",
                                                "The normal distribution function: the probability of a value below x.")
                                           FUNCTION(ndtri, FN(lop_ndtri), "(x [, {out=}]) -> Tensor",
                                                    "The inverse of ndtr: the value below which lies the part x of the "
                                                    "normal distribution. NaN outside 0 to 1."){0}};
ltide_row *ltide_special_ops(void) { return special_rows; }

/* tide.polygamma(n, x) is x:polygamma(n). */
static int lpolygamma(lua_State *L) {
  if (lua_gettop(L) >= 2 && lua_type(L, 1) == LUA_TNUMBER) {
    lua_pushvalue(L, 1);
    lua_copy(L, 2, 1);
    lua_replace(L, 2);
  }
  return lop_polygamma(L);
}

static pthread_once_t rows_once = PTHREAD_ONCE_INIT;
static ltide_row rows[2 * TIDE_OP_COUNT + 1];

static void fill_rows(void) {
  ltide_row *r = rows;
  for (int op = 0; op < TIDE_OP_COUNT; op++) {
    if (is_hidden(op)) continue;
    const op_face *f = &faces[op];
    const char *doc = specials[op].doc ? specials[op].doc : f->doc;
    bool is_method = op != TIDE_OP_where; /* its method has the tensor first */
    *r++ = (ltide_row){.noun = "/ops",
                       .name = f->name,
                       .fn = op == TIDE_OP_polygamma ? lpolygamma : f->fn,
                       .doc = doc,
                       .where = LTIDE_IN_MODULE | (is_method ? LTIDE_IN_METHODS : 0)};
    if (is_method)
      *r++ = (ltide_row){.noun = "/ops", .name = f->name_, .fn = f->fn_, .doc = doc, .where = LTIDE_IN_METHODS};
  }
}

/* x:where(condition, y) is where(condition, x, y). */
static int ltensor_where(lua_State *L) {
  if (lua_gettop(L) < 2) lua_settop(L, 2);
  lua_pushvalue(L, 1);
  lua_copy(L, 2, 1);
  lua_replace(L, 2);
  return lop_where(L);
}

/* Lua gives an operator of one operand that operand twice. */
static int lop_unm(lua_State *L) {
  lua_settop(L, 1);
  return lop_neg(L);
}
static int lop_bnot(lua_State *L) {
  lua_settop(L, 1);
  return lop_bitwise_not(L);
}

/* Strings and tensors: what is meant is a number. */
static int lop_concat(lua_State *L) {
  int arg = ltide_test_handle(L, ltide_enter(L), 1) ? 1 : 2;
  return ltide_error(L, "ArgumentError",
                     "concat: got %s, expected strings and numbers; x:item() is its number, tostring(x) its text",
                     ltide_typename(L, arg));
}

/* Operators are the methods of these names; those of one operand drop the other first. */
static void set_operators(lua_State *L, ltide_state *S) {
  static const char *const operators[] = {"__add",  "add",
                                          "__sub",  "sub",
                                          "__mul",  "mul",
                                          "__div",  "div",
                                          "__idiv", "floor_divide",
                                          "__mod",  "remainder",
                                          "__pow",  "pow",
                                          "__unm",  "neg",
                                          "__band", "bitwise_and",
                                          "__bor",  "bitwise_or",
                                          "__bxor", "bitwise_xor",
                                          "__bnot", "bitwise_not",
                                          "__shl",  "bitwise_left_shift",
                                          "__shr",  "bitwise_right_shift"};
  lua_rawgeti(L, LUA_REGISTRYINDEX, S->tensor_ref);
  ltide_push_methods(L);
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i += 2) {
    const char *name = operators[i];
    lua_getfield(L, -1, operators[i + 1]);
    if (!strcmp(name, "__unm") || !strcmp(name, "__bnot")) {
      lua_getupvalue(L, -1, 1);
      lua_pushcclosure(L, !strcmp(name, "__unm") ? lop_unm : lop_bnot, 1);
      lua_remove(L, -2);
    }
    lua_setfield(L, -3, name);
  }
  lua_pop(L, 1);
  ltide_set_function(L, "__concat", lop_concat);
  lua_pop(L, 1);
}

void ltide_open_ops(lua_State *L, ltide_state *S) {
  static ltide_row where[] = {METHOD(where, FN(ltensor_where), "(condition, y [, {out=}]) -> Tensor",
                                     "x where the condition holds, else y. Broadcasts."){0}};
  pthread_once(&rows_once, fill_rows);
  ltide_register_rows(L, "tide", rows);
  ltide_register_rows(L, "tide", where);
  set_operators(L, S);
}
