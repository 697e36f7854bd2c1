/* elementwise.c: every op of op.def on tensors and numbers: check, promote, allocate, plan, one call of the backend.
 *
 * Most calls of a script have operands of one shape, one dtype, one device, without holes. They are recognised by a few
 * compares and go to the backend as one flat loop; nothing is collapsed and only the fields that such a plan needs are
 * set. Everything else takes the general way, which also gives the error messages.
 *
 * Invariant: the backend never sees an input that overlaps the output unless both are the same elements, and never a
 * dtype for the result that its compute type cannot represent in one store; such results go through a temporary and a
 * copy. */
#include "tensor.h"

#include <stdio.h>

/* ---- the flat way ---- */

/* Where the numbers of operands and parameters are known, and the operands to be tensors, little is left of the next
 * functions. */
#define INLINED static inline __attribute__((always_inline))

typedef struct flat_call {
  const tide_tensor *model; /* gives shape and device */
  tide_dtype dtype, result;
} flat_call;

static inline bool live(const tide_tensor *x) {
  return atomic_load_explicit(&x->refs, memory_order_relaxed) > 0 && x->storage && tide__storage_live(x->storage);
}

/* Both contiguous and of one size: the same elements, or no byte in common. */
static inline bool apart_or_same(const tide_tensor *a, const tide_tensor *b) {
  if (a == b) return true;
  int64_t size_a = tide__itemsize(a->dtype), size_b = tide__itemsize(b->dtype);
  const char *pa = tide__tensor_ptr(a), *pb = tide__tensor_ptr(b);
  return (pa == pb && size_a == size_b) || pa + a->numel * size_a <= pb || pb + b->numel * size_b <= pa;
}

static inline bool flat_operand(const flat_call *f, const tide_tensor *x, tide_dtype dtype) {
  return x == f->model || (live(x) && x->contiguous && x->dtype == dtype &&
                           x->storage->device == f->model->storage->device && tide__same_size(x, f->model));
}

/* `lead`: how many operands in front have a dtype of their own. */
INLINED bool flat_match(flat_call *f, const tide__op_traits *t, int lead, int operands, const tide_operand *in,
                        const tide_scalar *params, const tide_tensor *into) {
  int k = lead;
  while (k < operands && !in[k].tensor) k++;
  if (k == operands || !live(in[k].tensor) || !in[k].tensor->contiguous) return false;
  f->model = in[k].tensor;
  f->dtype = (tide_dtype)f->model->dtype;
  int category = tide__category(f->dtype), result = tide__rule_result[t->rule][f->dtype];
  if (into && !live(into)) return false;
  if (result == TIDE_SLOW || (t->params && (!params || category < 2))) return false;
  f->result = (tide_dtype)result;
#pragma GCC unroll 3
  for (k = 0; k < operands; k++) {
    const tide_tensor *x = in[k].tensor;
    if (x) {
      if (k < lead && x->dtype != TIDE_BOOL) return false; /* it may be the model itself */
      if (!flat_operand(f, x, k < lead ? TIDE_BOOL : f->dtype)) return false;
      if (into && !apart_or_same(into, x)) return false;
    } else if (k < lead || tide__scalar_category(in[k].number.kind) > category ||
               (category < 2 && (t->rule != TIDE_RULE_ARITHC || in[k].number.kind == 'B'))) {
      return false;
    }
  }
  return !into || (into->dtype == (uint8_t)f->result && flat_operand(f, into, f->result));
}

INLINED tide_status flat_run(tide_tensor *result, uint32_t site, const flat_call *f, int operands, int nparams,
                             tide_op op, const tide_operand *in, const tide_scalar *params) {
  tide__queue q;
  tide_elementwise_args a; /* only what a flat plan needs is set */
  int device = f->model->storage->device;
  TIDE_TRY(tide__queue_begin(&q, device));
  tide__head_begin_at(&a.head, device, operands + 1, site);
  tide__head_set(&a.head, 0, result, &q);
  a.op = op, a.operands = operands + 1, a.compute = tide__compute_dtype(f->dtype);
  a.flat = 1, a.ndim = 1, a.numel = a.size[0] = result->numel;
  a.dtype[0] = (uint8_t)f->result, a.is_number[0] = 0, a.stride[0][0] = 1;
#pragma GCC unroll 3
  for (int k = 0; k < operands; k++) {
    const tide_tensor *x = in[k].tensor;
    a.stride[k + 1][0] = 1;
    a.is_number[k + 1] = !x;
    if (x) {
      tide__head_set(&a.head, k + 1, x, &q);
      a.dtype[k + 1] = x->dtype;
    } else {
      a.head.ptr[k + 1] = NULL;
      a.dtype[k + 1] = (uint8_t)f->dtype;
      a.number[k + 1] = tide__value(in[k].number);
    }
  }
  for (int k = 0; k < nparams; k++) a.param[k] = tide__value(params[k]);
  return TIDE_LAUNCH(&q, elementwise, &a, (int)a.op);
}

/* A contiguous tensor with the size and strides of a contiguous model. */
static inline tide_status flat_new(tide_tensor **out, const tide_tensor *model, tide_dtype dtype) {
  tide_tensor *x = tide__tensor_header();
  if (TIDE_UNLIKELY(!x)) return TIDE_MEMORY;
  x->offset = 0, x->numel = model->numel, x->ndim = model->ndim;
  x->dtype = (uint8_t)dtype, x->contiguous = true;
  /* Most have two dims at most, for which a loop, or the call that it becomes, is too much. */
  for (int d = 0; d < 2; d++) x->size[d] = model->size[d], x->stride[d] = model->stride[d];
  for (int d = 2; d < model->ndim; d++) x->size[d] = model->size[d], x->stride[d] = model->stride[d];
  tide_status status =
      tide__storage_new(&x->storage, (size_t)(x->numel * tide__itemsize(dtype)), model->storage->device, false);
  if (TIDE_LIKELY(status == TIDE_OK)) {
    *out = x;
    return TIDE_OK;
  }
  x->storage = NULL;
  tide_tensor_release(x);
  return status;
}

INLINED tide_status flat_path(tide_tensor **out, const flat_call *f, const tide__op_traits *t, int operands,
                              int nparams, tide_op op, const tide_operand *in, const tide_scalar *params,
                              tide_tensor *into) {
  tide_tensor *result = into;
  if (TIDE_UNLIKELY(t->divides) && tide__category(f->dtype) <= 1 && in[1].tensor)
    TIDE_TRY(tide__verify(in[1].tensor, TIDE_VERIFY_NONZERO, tide_op_get(op)->name));
  TIDE_TRY(into ? tide__storage_write(into->storage) : flat_new(&result, f->model, f->result));
  if (TIDE_LIKELY(result->numel != 0)) {
    /* The line of a new result is known: it has just been asked for. */
    uint32_t site = f->model->storage->device < 0 ? 0
                    : into                        ? tide__site_now()
                                                  : atomic_load_explicit(&result->storage->site, memory_order_relaxed);
    tide_status status = flat_run(result, site, f, operands, nparams, op, in, params);
    if (TIDE_UNLIKELY(status != TIDE_OK)) {
      if (!into) tide_tensor_release(result);
      return status;
    }
  }
  if (out) *out = result;
  return TIDE_OK;
}

/* ---- the general way ---- */

typedef struct call {
  tide_op op;                   /* what the caller asked for: types.op may be another one */
  const tide_op_info *info;     /* its name */
  const tide_tensor *tensor[3]; /* NULL: the number */
  tide_tensor *owned[3];        /* copies made on the way, released at the end */
  tide_scalar number[3];
  tide__types types;
  int device, ndim;
  int64_t size[TIDE_MAX_DIMS];
} call;

static void call_end(call *c) {
  for (int k = 0; k < c->info->operands; k++) tide_tensor_release(c->owned[k]);
}

static tide_status fail_devices(const call *c, const tide_tensor *into) {
  char text[800];
  int at = 0;
  for (int k = 0; k < c->info->operands; k++)
    if (c->tensor[k])
      at += snprintf(text + at, sizeof text - (size_t)at, "%s%s on %s%s", at ? ", " : "", tide_op_operand(c->op, k),
                     tide__device_text(c->tensor[k]->storage->device), tide__made_text(c->tensor[k]));
  if (into)
    snprintf(text + at, sizeof text - (size_t)at, ", the destination on %s%s", tide__device_text(into->storage->device),
             tide__made_text(into));
  return tide__fail(TIDE_DEVICE, "%s: tensors on different devices, got %s, expected one device", c->info->name, text);
}

static tide_status call_begin(call *c, tide_op op, const tide_op_info *info, const tide_operand *in,
                              const tide_tensor *into) {
  c->op = op, c->info = info;
  bool any = false;
  for (int k = 0; k < c->info->operands; k++) {
    c->tensor[k] = in[k].tensor;
    c->number[k] = in[k].number;
    c->owned[k] = NULL;
    if (!in[k].tensor) continue;
    TIDE_TRY(tide__check(in[k].tensor, c->info->name, tide_op_operand(c->op, k)));
    any = true;
  }
  if (!any) return tide__fail(TIDE_ARGUMENT, "%s: only numbers given, expected at least one tensor", c->info->name);
  if (!into) return TIDE_OK;
  TIDE_TRY(tide__check(into, c->info->name, "the destination"));
  return tide__writable_check(into, c->info->name, "the destination");
}

/* The one device of all tensors. 0-d CPU tensors go along with an accelerator: they are read as numbers. */
static tide_status call_device(call *c, const tide_tensor *into) {
  const tide_tensor *leader = NULL;
  for (int k = 0; k < c->info->operands; k++) {
    const tide_tensor *x = c->tensor[k];
    if (x && (!leader || (x->storage->device >= 0 && leader->ndim == 0 && leader->storage->device < 0) ||
              (x->ndim > 0 && leader->ndim == 0 && leader->storage->device < 0)))
      leader = x;
  }
  c->device = leader->storage->device;
  if (into && into->storage->device != c->device) return fail_devices(c, into);
  for (int k = 0; k < c->info->operands; k++) {
    const tide_tensor *x = c->tensor[k];
    if (!x || x->storage->device == c->device) continue;
    if (tide__peer_reads(c->device, x->storage->device)) continue;
    if (x->storage->device >= 0 || x->ndim > 0) return fail_devices(c, into);
  }
  return TIDE_OK;
}

static tide_status call_size(call *c) {
  c->ndim = 0;
  for (int k = 0; k < c->info->operands; k++) {
    const tide_tensor *x = c->tensor[k];
    if (!x || tide__size_broadcast(c->size, &c->ndim, x)) continue;
    const tide_tensor *before = c->tensor[k - 1] ? c->tensor[k - 1] : c->tensor[0];
    return tide__fail(TIDE_SHAPE, "%s: shapes do not fit, got %s%s and %s%s for %s, expected equal sizes or 1",
                      c->info->name, before ? tide__shape_text(before->size, before->ndim) : "[]",
                      before ? tide__made_text(before) : "", tide__shape_text(x->size, x->ndim), tide__made_text(x),
                      tide_op_operand(c->op, k));
  }
  return TIDE_OK;
}

/* An operand as a destination keeps its size: x:add_(y) is no other x. */
static tide_status call_into(const call *c, const tide_tensor *into) {
  bool shared = false;
  TIDE_TRY(tide__cast_expect(into, c->types.result, c->info->name));
  for (int k = 0; k < c->info->operands; k++)
    shared = shared || (c->tensor[k] && c->tensor[k]->storage == into->storage);
  return tide__size_takes(into, c->size, c->ndim, shared, c->info->name);
}

/* CPU tensors of one element become numbers, unless nothing but such tensors is left. */
static tide_status call_numbers(call *c) {
  if (c->ndim == 0 && c->device < 0) return TIDE_OK;
  for (int k = 0; k < c->info->operands; k++) {
    const tide_tensor *x = c->tensor[k];
    if (!x || x->ndim > 0 || x->storage->device >= 0) continue;
    TIDE_TRY(tide__observe_read(x));
    c->number[k] = tide__scalar_unpack(tide__tensor_ptr(x), (tide_dtype)x->dtype);
    c->tensor[k] = NULL;
  }
  return TIDE_OK;
}

/* Zero is no divisor of integers, unless nothing is divided. */
static tide_status call_divisor(const call *c) {
  const tide__op_traits *t = tide__op_traits_get(c->types.op);
  if (!t->divides || tide__category(c->types.common) > 1 || tide__size_product(c->size, c->ndim) == 0) return TIDE_OK;
  if (c->tensor[1]) return tide__verify(c->tensor[1], TIDE_VERIFY_NONZERO, c->info->name);
  return c->number[1].i ? TIDE_OK : tide__fail_divisor(c->types.op);
}

static tide_status own(call *c, int k, tide_status status, tide_tensor *copy) {
  TIDE_TRY(status);
  tide_tensor_release(c->owned[k]);
  c->owned[k] = copy;
  c->tensor[k] = copy;
  return TIDE_OK;
}

static bool same_elements(const call *c, const tide_tensor *into, const tide_tensor *x) {
  int64_t stride[TIDE_MAX_DIMS];
  if (tide__tensor_ptr(into) != tide__tensor_ptr(x) || tide__itemsize(into->dtype) != tide__itemsize(x->dtype))
    return false;
  tide__stride_broadcast(stride, x, c->size, c->ndim);
  for (int d = 0; d < c->ndim; d++)
    if (c->size[d] > 1 && stride[d] != into->stride[d]) return false;
  return true;
}

static tide_status call_overlap(call *c, const tide_tensor *into) {
  for (int k = 0; k < c->info->operands; k++) {
    const tide_tensor *x = c->tensor[k];
    if (!x || !tide__tensor_overlaps(into, x) || same_elements(c, into, x)) continue;
    tide_tensor *copy = NULL;
    tide_status status = tide_clone(&copy, x);
    TIDE_TRY(own(c, k, status, copy));
  }
  return TIDE_OK;
}

/* The layout of the first operand that has the full size. */
static tide_status call_new(tide_tensor **out, const call *c) {
  for (int k = 0; k < c->info->operands; k++) {
    const tide_tensor *x = c->tensor[k];
    if (x && x->ndim == c->ndim && memcmp(x->size, c->size, (size_t)c->ndim * sizeof *c->size) == 0)
      return tide__tensor_new_like(out, x, c->types.result, c->device);
  }
  return tide__tensor_new(out, c->size, c->ndim, c->types.result, c->device);
}

/* Small integers wrap as they would in a tensor of the common dtype; floats keep the precision that is computed in. */
static tide_value number_value(tide_scalar s, tide_dtype common) {
  if (tide__category(common) > 1 || s.kind == 'F' || s.kind == 'C') return tide__value(s);
  uint64_t bits[2];
  tide__scalar_pack(bits, s, common);
  return tide__value(tide__scalar_unpack(bits, common));
}

static tide_status call_run(const call *c, const tide_tensor *result, const tide_scalar *params) {
  tide__queue q;
  tide_elementwise_args a;
  int n = c->info->operands + 1;
  TIDE_TRY(tide__queue_begin(&q, c->device));
  tide__head_begin(&a.head, c->device, n);
  a.op = c->types.op, a.operands = n, a.compute = c->types.compute;
  a.numel = result->numel;
  memcpy(a.size, c->size, (size_t)c->ndim * sizeof *a.size);
  for (int k = 0; k < n; k++) {
    const tide_tensor *x = k ? c->tensor[k - 1] : result;
    a.is_number[k] = !x;
    a.dtype[k] = x ? x->dtype : (uint8_t)c->types.common;
    a.head.ptr[k] = NULL;
    if (x) {
      tide__head_set(&a.head, k, x, &q);
      tide__stride_broadcast(a.stride[k], x, c->size, c->ndim);
    } else {
      a.number[k] = number_value(c->number[k - 1], c->types.common);
      memset(a.stride[k], 0, (size_t)c->ndim * sizeof a.stride[k][0]);
    }
  }
  a.ndim = tide__collapse(a.size, a.stride, n, c->ndim, false);
  a.flat = a.ndim == 1;
  for (int k = 0; k < n; k++) a.flat &= a.is_number[k] || a.stride[k][0] == 1;
  for (int k = 0; k < tide__op_traits_get(c->types.op)->params; k++) a.param[k] = tide__value(params[k]);
  return TIDE_LAUNCH(&q, elementwise, &a, (int)a.op);
}

/* May the backend store the result to this dtype? Results narrower than their compute type must be rounded first. */
static bool storable(const call *c, const tide_tensor *into) {
  if (into->dtype == (uint8_t)c->types.result) return true;
  return c->types.result == c->types.common && c->types.compute == c->types.common;
}

static tide_status call_finish(tide_tensor **out, call *c, const tide_scalar *params, tide_tensor *into) {
  tide_tensor *result = into;
  bool direct = into && storable(c, into);
  if (direct)
    TIDE_TRY(call_overlap(c, into));
  else
    TIDE_TRY(call_new(&result, c));
  return tide__deliver(out, result, into, result->numel ? call_run(c, result, params) : TIDE_OK);
}

static tide_status general_path(tide_tensor **out, tide_op op, const tide_op_info *info, const tide_operand *in,
                                const tide_scalar *params, tide_tensor *into) {
  call c;
  TIDE_TRY(call_begin(&c, op, info, in, into));
  if (!params && tide__op_traits_get(op)->params)
    return tide__fail(TIDE_ARGUMENT, "%s: parameters are missing, got none, expected %d", c.info->name,
                      tide__op_traits_get(op)->params);
  TIDE_TRY(call_device(&c, into));
  TIDE_TRY(tide__op_types(&c.types, op, in, params));
  TIDE_TRY(call_size(&c));
  if (into) TIDE_TRY(call_into(&c, into));
  TIDE_TRY(call_numbers(&c));
  TIDE_TRY(call_divisor(&c));
  if (into) TIDE_TRY(tide__size_give(into, c.size, c.ndim, false, c.info->name));
  tide_status status = call_finish(out, &c, params, into);
  call_end(&c);
  return status;
}

/* ---- the polar form of complex numbers ---- */

static inline bool is_polar(tide_op op, const tide_operand *in) {
  return (op == TIDE_OP_abs || op == TIDE_OP_angle) && in[0].tensor && tide__category(in[0].tensor->dtype) == 3;
}

/* abs and angle of complex numbers are real: functions of two views, of the real and of the imaginary parts. */
static tide_status polar_path(tide_tensor **out, tide_op op, const tide_tensor *x, tide_tensor *into) {
  tide_op of_parts = op == TIDE_OP_abs ? TIDE_OP_hypot : TIDE_OP_atan2;
  tide_op_info info = *tide_op_get(of_parts);
  TIDE_OWNED tide_tensor *re = NULL, *im = NULL;
  info.name = tide_op_get(op)->name;
  TIDE_TRY(tide_real(&re, x));
  TIDE_TRY(tide_imag(&im, x));
  tide_operand parts[2] = {{.tensor = op == TIDE_OP_abs ? re : im}, {.tensor = op == TIDE_OP_abs ? im : re}};
  return general_path(out, of_parts, &info, parts, NULL, into);
}

/* ---- the entries ---- */

tide_status tide_elementwise(tide_tensor **out, tide_op op, const tide_operand *in, const tide_scalar *params,
                             tide_tensor *into) {
  TIDE_GIVEN("elementwise", in);
  if (TIDE_UNLIKELY((unsigned)op >= TIDE_OP_COUNT))
    return tide__fail(TIDE_ARGUMENT, "elementwise: unknown op, got %d, expected 0 to %d", (int)op, TIDE_OP_COUNT - 1);
  const tide__op_traits *t = tide__op_traits_get(op);
  TIDE_TRY(tide__out_check(out, into, tide_op_get(op)->name));
  flat_call f;
  if (TIDE_LIKELY(flat_match(&f, t, op == TIDE_OP_where, t->operands, in, params, into)))
    return flat_path(out, &f, t, t->operands, t->params, op, in, params, into);
  if (is_polar(op, in)) return polar_path(out, op, in[0].tensor, into);
  return general_path(out, op, tide_op_get(op), in, params, into);
}

/* What the flat way does not take. */
static __attribute__((noinline)) tide_status of_tensors(tide_tensor **out, tide_op op, const tide_tensor *a,
                                                        const tide_tensor *b, int operands, tide_tensor *into) {
  if ((unsigned)op < TIDE_OP_COUNT && tide_op_get(op)->operands != operands)
    return tide__fail(TIDE_ARGUMENT, "%s: wrong number of operands, got %d, expected %d", tide_op_get(op)->name,
                      operands, tide_op_get(op)->operands);
  const tide_operand in[3] = {{.tensor = a}, {.tensor = b}, {.tensor = b}};
  return tide_elementwise(out, op, in, NULL, into);
}

INLINED tide_status flat_tensors(tide_tensor **out, tide_op op, const tide_tensor *a, const tide_tensor *b,
                                 int operands, tide_tensor *into) {
  const tide__op_traits *t = (unsigned)op < TIDE_OP_COUNT ? tide__op_traits_get(op) : NULL;
  const tide_operand in[2] = {{.tensor = a}, {.tensor = b}};
  flat_call f;
  if (TIDE_LIKELY(t && t->operands == operands && !t->params && (out || into) &&
                  flat_match(&f, t, 0, operands, in, NULL, into)))
    return flat_path(out, &f, t, operands, 0, op, in, NULL, into);
  return of_tensors(out, op, a, b, operands, into);
}

tide_status tide_unary(tide_tensor **out, tide_op op, const tide_tensor *x, tide_tensor *into) {
  if (TIDE_UNLIKELY(!x))
    return tide__tensor_check(x, (unsigned)op < TIDE_OP_COUNT ? tide_op_get(op)->name : "unary", "x");
  return flat_tensors(out, op, x, x, 1, into);
}

tide_status tide_binary(tide_tensor **out, tide_op op, const tide_tensor *a, const tide_tensor *b, tide_tensor *into) {
  if (TIDE_UNLIKELY(!a || !b))
    return tide__tensor_check(NULL, (unsigned)op < TIDE_OP_COUNT ? tide_op_get(op)->name : "binary", a ? "b" : "a");
  return flat_tensors(out, op, a, b, 2, into);
}
