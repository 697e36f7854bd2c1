/* special.c: tide.special, which holds functions under the names that mathematics has for them; and operations that are
 * several others. */
#include "tensor.h"

/* {==== Of several operations */

static int lfrexp(lua_State *L, ltide_call *c) {
  ltide_check_out(L, c->S, c->opts, 2);
  ltide_tensor *fraction = ltide_new_tensor(L, c->S), *exponent = ltide_new_tensor(L, c->S);
  ltide_tensor *whole = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_unary(&fraction->t, TIDE_OP_frexp_fraction, c->x, NULL));
  ltide_try(L, tide_unary(&exponent->t, TIDE_OP_frexp_exponent, c->x, NULL));
  tide_options int32 = {TIDE_INT32, tide_tensor_device(c->x), false};
  ltide_try(L, tide_to(&whole->t, exponent->t, &int32, false, false));
  ltide_close_tensor(exponent);
  lua_remove(L, -2);
  return ltide_deliver(L, c->S, c->opts, 2);
}

/* The operand in float64 or complex128. A number is weak, and takes what the other one is. */
static tide_operand in_double(lua_State *L, ltide_call *c, const tide_operand *in, tide_dtype dtype) {
  if (!in->tensor) return *in;
  tide_options options = {dtype, tide_tensor_device(in->tensor), false};
  ltide_tensor *u = ltide_new_tensor(L, c->S);
  ltide_try(L, tide_to(&u->t, in->tensor, &options, false, false));
  return (tide_operand){u->t, {0}};
}

static bool is_complex(const tide_operand *in) {
  return in->tensor ? tide_dtype_kind(tide_tensor_dtype(in->tensor)) == 'C' : in->number.kind == 'C';
}

static int lfloat_power(lua_State *L, ltide_call *c) {
  tide_operand in[2] = {c->v[0].operand, c->v[1].operand};
  tide_dtype dtype = is_complex(&in[0]) || is_complex(&in[1]) ? TIDE_COMPLEX128 : TIDE_FLOAT64;
  if (!in[0].tensor && !in[1].tensor) ltide_arg_error(L, 1, "x", "a tensor");
  for (int k = 0; k < 2; k++) in[k] = in_double(L, c, &in[k], dtype);
  tide_tensor **slot = ltide_slot(L, c);
  return ltide_finish_into(L, c, tide_elementwise(slot, TIDE_OP_pow, in, NULL, c->into));
}

#include <rows/special.inc>

/* {==== tide.special */

void ltide_open_special(lua_State *L, ltide_state *S) {
  static const char *const names[] = {
      /* here, in tide */
      "erf",       "erf",       "erfc",    "erfc",    "erfinv",      "erfinv",      "expit",   "sigmoid",
      "logit",     "logit",     "exp2",    "exp2",    "expm1",       "expm1",       "log1p",   "log1p",
      "logsumexp", "logsumexp", "softmax", "softmax", "log_softmax", "log_softmax", "gammaln", "lgamma",
      "digamma",   "digamma",   "psi",     "digamma", "polygamma",   "polygamma",   "i0",      "i0",
      "sinc",      "sinc",      "xlogy",   "xlogy",   "round",       "round"};
  ltide_register_rows(L, "tide", special_rows);
  lua_newtable(L);
  ltide_register_rows(L, "tide.special", ltide_special_ops());
  for (size_t i = 0; i < sizeof names / sizeof *names; i += 2) {
    lua_getfield(L, -2, names[i + 1]);
    lua_setfield(L, -2, names[i]);
  }
  lua_setfield(L, -2, "special");
}
