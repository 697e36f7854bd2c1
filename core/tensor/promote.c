/* promote.c: the dtypes of operations: promotion, numbers that a user writes, the rules of each op.
 *
 * Promotion has three ranks: tensors with dims, tensors without, numbers; a lower rank counts only if its category
 * (bool, integer, floating, complex) is above that of the ranks over it. So a float32 tensor plus a Lua number stays
 * float32, and an int64 tensor plus 0.5 becomes the default float.
 *
 * Invariant: tide__rule_result (op.c) answers where nothing but the rule and the one dtype counts; every exception
 * (bool in sub, pow of integers, parameters of integers) goes through tide__op_types. */
#include "tensor.h"

tide_dtype tide__scalar_dtype(tide_scalar s) {
  if (s.kind == 'B') return TIDE_BOOL;
  if (s.kind != 'F' && s.kind != 'C') return TIDE_INT64;
  tide_dtype real = tide_get_default_dtype();
  if (s.kind == 'F') return real;
  return real == TIDE_FLOAT64 ? TIDE_COMPLEX128 : TIDE_COMPLEX64;
}

static int join(int a, int b) {
  if (a == TIDE_DTYPE_NONE || a == b) return b;
  return b == TIDE_DTYPE_NONE ? a : (int)tide_dtype_promote((tide_dtype)a, (tide_dtype)b);
}

void tide__promote_tensor(tide__promotion *p, const tide_tensor *x) {
  if (x->ndim)
    p->dim = join(p->dim, x->dtype);
  else
    p->zero = join(p->zero, x->dtype);
}

void tide__promote_scalar(tide__promotion *p, tide_scalar s) { p->weak = join(p->weak, (int)tide__scalar_dtype(s)); }

/* The lower rank adds its category, not its width, where the higher one has a floating dtype already. */
static int combine(int higher, int lower) {
  if (higher == TIDE_DTYPE_NONE || lower == TIDE_DTYPE_NONE) return higher == TIDE_DTYPE_NONE ? lower : higher;
  int high = tide__category(higher), low = tide__category(lower);
  if (low <= high) return higher;
  if (high == 2) return higher == TIDE_FLOAT64 ? TIDE_COMPLEX128 : TIDE_COMPLEX64;
  return join(higher, lower);
}

tide_dtype tide__promote_end(const tide__promotion *p) {
  return (tide_dtype)combine(p->dim, combine(p->zero, p->weak));
}

/* ---- numbers that a user writes ---- */

static bool float_fits(double f, double most) { return isnan(f) || isinf(f) || (f >= -most && f <= most); }

static bool integer_fits(tide_scalar s, tide_dtype dtype) {
  int bits = 8 * (int)tide__itemsize(dtype);
  /* Negative numbers may wrap in uint8, so that -1 means "all ones"; this is torch's rule. */
  double most = dtype == TIDE_UINT8 ? 255.0 : ldexp(1.0, bits - 1) - (bits < 64), least = -ldexp(1.0, bits - 1);
  if (dtype == TIDE_UINT8) least = -255.0;
  if (s.kind == 'F' || s.kind == 'C') return trunc(s.re) >= least && (bits < 64 ? trunc(s.re) <= most : s.re < most);
  return bits == 64 || ((double)s.i >= least && (double)s.i <= most);
}

tide_status tide__scalar_check(tide_scalar s, tide_dtype dtype, const char *what) {
  int category = tide__category(dtype);
  if (s.kind == 'C' && s.im != 0 && category != 3)
    return tide__fail(TIDE_DTYPE, "%s: wrong value, got a complex number, expected a real one for %s", what,
                      tide_dtype_name(dtype));
  double f = s.kind == 'F' || s.kind == 'C' ? s.re : (double)s.i;
  bool fits = category == 0 || (category == 1 && integer_fits(s, dtype)) || category == 3;
  if (category == 2)
    fits = float_fits(f, dtype == TIDE_FLOAT16   ? 65504.0
                         : dtype == TIDE_FLOAT64 ? 1.7976931348623157e308
                                                 : 3.4028234663852886e38);
  if (fits) return TIDE_OK;
  return tide__fail(TIDE_VALUE, "%s: value does not fit, got %.17g, expected one that %s can hold", what, f,
                    tide_dtype_name(dtype));
}

/* ---- the rules ---- */

/* clamp's bounds take part in promotion; the other parameters take the dtype of the operands. */
static bool params_promote(tide_op op) {
  return op == TIDE_OP_clamp || op == TIDE_OP_clamp_min || op == TIDE_OP_clamp_max;
}

static tide_dtype common_dtype(tide_op op, const tide_operand *in, const tide_scalar *params) {
  tide__promotion p = TIDE_PROMOTION;
  for (int k = op == TIDE_OP_where ? 1 : 0; k < tide_op_get(op)->operands; k++) {
    if (in[k].tensor)
      tide__promote_tensor(&p, in[k].tensor);
    else
      tide__promote_scalar(&p, in[k].number);
  }
  if (params && params_promote(op))
    for (int k = 0; k < tide__op_traits_get(op)->params; k++) tide__promote_scalar(&p, params[k]);
  return tide__promote_end(&p);
}

static tide_dtype operand_dtype(const tide_operand *in) {
  return in->tensor ? (tide_dtype)in->tensor->dtype : tide__scalar_dtype(in->number);
}

static tide_status refuse(tide_op op, tide_dtype got, const char *expected) {
  return tide__fail(TIDE_DTYPE, "%s: dtype not accepted, got %s, expected %s", tide_op_get(op)->name,
                    tide_dtype_name(got), expected);
}

tide_status tide__fail_divisor(tide_op op) {
  return tide__fail(TIDE_VALUE, "%s: integers cannot be divided by zero, got divisor 0, expected another number",
                    tide_op_get(op)->name);
}

/* Exceptions of single ops. */
static tide_status check_op(tide_op op, const tide_operand *in, const tide_scalar *params, tide_dtype common) {
  int category = tide__category(common);
  if (op == TIDE_OP_where && operand_dtype(&in[0]) != TIDE_BOOL)
    return refuse(op, operand_dtype(&in[0]), "bool for the condition: use ne(0) or a comparison");
  if (op == TIDE_OP_neg && category == 0) return refuse(op, TIDE_BOOL, "a number: use logical_not or bitwise_not");
  if (op == TIDE_OP_sub && (operand_dtype(&in[0]) == TIDE_BOOL || operand_dtype(&in[1]) == TIDE_BOOL))
    return refuse(op, TIDE_BOOL, "numbers: use logical_xor, logical_not or bitwise_not");
  if (op == TIDE_OP_pow && category <= 1 && !in[1].tensor && in[1].number.i < 0)
    return tide__fail(TIDE_VALUE,
                      "pow: integers cannot be raised to a negative power, got exponent %lld, expected at "
                      "least 0 or a floating tensor",
                      (long long)in[1].number.i);
  if (tide__op_traits_get(op)->divides && category <= 1 && !in[1].tensor && in[1].number.i == 0)
    return tide__fail_divisor(op);
  if ((op == TIDE_OP_add_scaled || op == TIDE_OP_addcmul) && params && category <= 1 && params[0].kind == 'F')
    return tide__fail(TIDE_DTYPE, "%s: wrong factor for %s tensors, got a float, expected an integer",
                      tide_op_get(op)->name, tide_dtype_name(common));
  return TIDE_OK;
}

tide_status tide__op_types(tide__types *out, tide_op op, const tide_operand *in, const tide_scalar *params) {
  tide_dtype common = common_dtype(op, in, params);
  int category = tide__category(common), rule = tide__op_traits_get(op)->rule;
  TIDE_TRY(check_op(op, in, params, common));
  bool complex_ok = tide__rule_result[rule][TIDE_COMPLEX64] != TIDE_SLOW;
  if (category == 3 && !complex_ok)
    return refuse(op, common, rule == TIDE_RULE_BITS ? "integers or bool" : "a real dtype");
  if (rule == TIDE_RULE_BITS && category == 2) return refuse(op, common, "integers or bool");
  if (rule <= TIDE_RULE_EXACT && category <= 1) /* the rules of functions of floats stand first */
    common = tide_get_default_dtype();
  if (rule == TIDE_RULE_CLOSE && category <= 1) common = TIDE_FLOAT64;
  if (op == TIDE_OP_square && category == 0) common = TIDE_INT64;
  out->op = op == TIDE_OP_bitwise_not && category == 0 ? TIDE_OP_logical_not : op;
  if (rule == TIDE_RULE_EXACT && tide__itemsize(common) == 2)
    out->op = common == TIDE_FLOAT16 ? TIDE_OP_nextafter_half : TIDE_OP_nextafter_bfloat16;
  out->common = common;
  out->compute = tide__compute_dtype(common);
  bool test = rule >= TIDE_RULE_TEST && rule <= TIDE_RULE_LOGIC;
  out->result = test ? TIDE_BOOL : common;
  return TIDE_OK;
}

tide_status tide_result_dtype(tide_dtype *out, tide_op op, const tide_operand *in) {
  TIDE_GIVEN("result_dtype", out);
  TIDE_GIVEN("result_dtype", in);
  if ((unsigned)op >= TIDE_OP_COUNT)
    return tide__fail(TIDE_ARGUMENT, "result_dtype: unknown op, got %d, expected 0 to %d", (int)op, TIDE_OP_COUNT - 1);
  for (int k = 0; k < tide_op_get(op)->operands; k++)
    if (in[k].tensor) TIDE_TRY(tide__check(in[k].tensor, tide_op_get(op)->name, "an operand"));
  tide__types types;
  TIDE_TRY(tide__op_types(&types, op, in, NULL));
  *out = types.result;
  return TIDE_OK;
}
