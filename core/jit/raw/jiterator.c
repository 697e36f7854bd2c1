/* jiterator.c: calls of elementwise functions from C++ text: check, promote, plan, launch.
 *
 * The usual call, all operands contiguous and of one size, is recognised by a few compares, finds its plan (function.c)
 * by one number and copies a ready block of arguments, in which only the addresses and the count are filled in.
 * Everything else takes the general way, which also gives the error messages.
 *
 * Invariants: results are new, so no output overlaps an input; a flat plan is used only where every address allows
 * 16-byte accesses. */
#include "jit/raw/function.h"

#include <stdio.h>

enum { INPUTS = TIDE_JIT_TENSORS, OPERANDS = TIDE_JIT_OPERANDS };

/* ---- launching ---- */

static void put_scalars(char *packed, const tide_jit *j, const tide__jit_plan *p, const tide_scalar *scalars) {
  if (scalars)
    tide__jit_scalars_pack(packed, j, scalars, p->common);
  else
    memcpy(packed, p->scalars, (size_t)j->scalars * 16);
}

static tide_status launch(const tide__jit_plan *p, const tide_jit *j, tide_tensor *const *out,
                          const tide_tensor *const *in, const tide_scalar *scalars, tide__work *w, int device) {
  const tide_tensor *operand[OPERANDS];
  tide__packed a;
  put_scalars(a.bytes, j, p, scalars);
  for (int k = 0; k < p->special.operands; k++) operand[k] = k < j->outputs ? out[k] : in[k - j->outputs];
  return tide__jit_launch_work(p, a.bytes, operand, w, device, TIDE__LAUNCH_JIT);
}

/* ---- the usual way ---- */

/* The plan of a call whose operands are contiguous, of one size, on one device, and aligned. */
static inline const tide__jit_plan *flat_match(const tide_jit *j, tide_tensor *const *in) {
  const tide_tensor *model = in[0];
  uint64_t dtypes = 0;
  uintptr_t address = 0;
  for (int k = 0; k < j->inputs; k++) {
    const tide_tensor *x = in[k];
    if (!tide__tensor_live(x) || !x->contiguous) return NULL;
    if (k && (x->storage->device != model->storage->device || !tide__same_size(x, model))) return NULL;
    dtypes |= (uint64_t)x->dtype << 4 * k;
    address |= (uintptr_t)tide__tensor_ptr(x);
  }
  if (address & 15) return NULL;
  return tide__jit_plan_find(
      j, tide__jit_plan_key(dtypes, model->storage->device, 0, 0)); /* of one size: none counts less */
}

static void drop(tide_tensor **made, int n) {
  for (int k = 0; k < n; k++) tide_tensor_release(made[k]);
}

static tide_status flat_path(tide_tensor **out, const tide__jit_plan *p, const tide_jit *j, tide_tensor *const *in,
                             const tide_scalar *scalars) {
  const tide_tensor *model = in[0];
  tide_tensor *made[TIDE_JIT_TENSORS];
  int device = model->storage->device;
  for (int k = 0; k < j->outputs; k++) {
    tide_status status = tide__tensor_new_strided(&made[k], model->size, model->stride, model->ndim, p->common, device);
    if (TIDE_UNLIKELY(status != TIDE_OK)) {
      drop(made, k);
      return status;
    }
  }
  if (model->numel) {
    tide__work w;
    w.numel = model->numel, w.ndim = 0;
    tide_status status = launch(p, j, made, (const tide_tensor *const *)in, scalars, &w, device);
    if (TIDE_UNLIKELY(status != TIDE_OK)) {
      drop(made, j->outputs);
      return status;
    }
  }
  memcpy(out, made, (size_t)j->outputs * sizeof *out);
  return TIDE_OK;
}

/* ---- the general way ---- */

typedef struct call {
  int device, ndim, work; /* work: dims of the kernel, 0 flat */
  tide_dtype common;
  const tide_tensor *in[INPUTS];
  tide_tensor *owned[INPUTS]; /* values of the CPU that went to the device */
  int64_t size[TIDE_MAX_DIMS], stride[OPERANDS][TIDE_MAX_DIMS], numel;
  uint64_t dtypes;
} call;

/* After a reset of the accelerators everything is compiled, or found in the cache, again. */
static tide_status call_begin(call *c, tide_jit *j, tide_tensor *const *in, int n) {
  if (j->made != tide__epoch_now()) tide__jit_plans_drop(j);
  j->made = tide__epoch_now();
  if (j->epoch != atomic_load(&tide__epochs[0]))
    return tide__fail(TIDE_STATE, "%s: the function belongs to a runtime that has ended or was reset",
                      j->signature.name);
  if (n != j->inputs)
    return tide__fail(TIDE_ARGUMENT, "%s: wrong number of tensors, got %d, expected %d", j->signature.name, n,
                      j->inputs);
  tide__promotion promotion = TIDE_PROMOTION;
  const tide_tensor *leader = NULL;
  for (int k = 0; k < n; k++) {
    char name[24];
    snprintf(name, sizeof name, "argument %d", k + 1);
    TIDE_TRY(tide__check(in[k], j->signature.name, name));
    tide__promote_tensor(&promotion, in[k]);
    c->in[k] = in[k];
    if (!leader || (leader->ndim == 0 && leader->storage->device < 0)) leader = in[k];
    if (!tide__size_broadcast(c->size, &c->ndim, in[k]))
      return tide__fail(TIDE_SHAPE, "%s: shapes do not fit, got %s for argument %d, expected to broadcast to %s",
                        j->signature.name, tide__shape_text(in[k]->size, in[k]->ndim), k + 1,
                        tide__shape_text(c->size, c->ndim));
  }
  c->common = tide__promote_end(&promotion);
  c->device = leader->storage->device;
  return TIDE_OK;
}

/* Single values of the CPU go along with an accelerator's tensors. */
static tide_status call_devices(call *c, const tide_jit *j) {
  for (int k = 0; k < j->inputs; k++) {
    const tide_tensor *x = c->in[k];
    if (x->storage->device != c->device && (x->ndim > 0 || x->storage->device >= 0))
      return tide__fail(TIDE_DEVICE, "%s: tensors on different devices, got argument %d on %s, expected %s",
                        j->signature.name, k + 1, tide__device_text(x->storage->device), tide__device_text(c->device));
    if (x->storage->device != c->device) {
      const tide_options options = {TIDE_DTYPE_NONE, c->device, false};
      TIDE_TRY(tide_to(&c->owned[k], x, &options, true, false));
      c->in[k] = c->owned[k];
    }
    c->dtypes |= (uint64_t)c->in[k]->dtype << 4 * k;
  }
  return TIDE_OK;
}

static tide_status check_into(const call *c, const tide_jit *j, tide_tensor *const *into, int k) {
  const char *name = j->signature.name;
  TIDE_TRY(tide__check(into[k], name, "the destination"));
  TIDE_TRY(tide__writable_check(into[k], name, "the destination"));
  if (into[k]->storage->device != c->device)
    return tide__fail(TIDE_DEVICE, "%s: the destination is on another device, got %s, expected %s", name,
                      tide__device_text(into[k]->storage->device), tide__device_text(c->device));
  for (int i = 0; i < k; i++)
    if (into[i]->storage == into[k]->storage && (into[i] == into[k] || tide__tensor_overlaps(into[i], into[k])))
      return tide__fail(TIDE_VALUE, "%s: destinations %d and %d share elements, expected each to have its own", name,
                        i + 1, k + 1);
  bool shared = false;
  for (int i = 0; i < j->inputs; i++) shared = shared || into[k]->storage == c->in[i]->storage;
  TIDE_TRY(tide__size_takes(into[k], c->size, c->ndim, shared, name));
  return tide__cast_expect(into[k], c->common, name);
}

/* All are looked at before the first one is changed. */
static tide_status call_into(const call *c, const tide_jit *j, tide_tensor *const *into) {
  for (int k = 0; k < j->outputs; k++) TIDE_TRY(check_into(c, j, into, k));
  for (int k = 0; k < j->outputs; k++) TIDE_TRY(tide__size_give(into[k], c->size, c->ndim, false, j->signature.name));
  return TIDE_OK;
}

/* A kernel reads and writes as if nothing overlapped. */
static bool is_direct(const call *c, const tide_jit *j, const tide_tensor *into) {
  bool direct = into->dtype == (uint8_t)c->common;
  for (int k = 0; k < j->inputs; k++) direct = direct && !tide__tensor_overlaps(into, c->in[k]);
  return direct;
}

/* Results have the layout of the first input of full size. */
static tide_status call_results(tide_tensor **made, int *count, const call *c, const tide_jit *j,
                                tide_tensor *const *into) {
  const tide_tensor *model = NULL;
  for (int k = 0; k < j->inputs && !model; k++)
    if (c->in[k]->ndim == c->ndim && !memcmp(c->in[k]->size, c->size, (size_t)c->ndim * sizeof *c->size))
      model = c->in[k];
  for (; *count < j->outputs; ++*count) {
    if (into && is_direct(c, j, into[*count])) {
      made[*count] = into[*count];
      tide_tensor_retain(made[*count]);
      continue;
    }
    TIDE_TRY(model ? tide__tensor_new_like(&made[*count], model, c->common, c->device)
                   : tide__tensor_new(&made[*count], c->size, c->ndim, c->common, c->device));
  }
  return TIDE_OK;
}

/* Dims as few as they can be. Flat: every operand has stride 1 and an aligned address. */
static void call_plan(call *c, const tide_jit *j, tide_tensor *const *made) {
  int operands = j->outputs + j->inputs;
  for (int k = 0; k < operands; k++)
    tide__stride_broadcast(c->stride[k], k < j->outputs ? made[k] : c->in[k - j->outputs], c->size, c->ndim);
  c->numel = made[0]->numel;
  c->ndim = tide__collapse(c->size, c->stride, operands, c->ndim, false);
  bool flat = c->ndim == 1;
  for (int k = 0; k < operands; k++) {
    const tide_tensor *x = k < j->outputs ? made[k] : c->in[k - j->outputs];
    flat &= c->stride[k][0] == 1 && ((uintptr_t)tide__tensor_ptr(x) & 15) == 0;
  }
  c->work = flat ? 0 : c->ndim;
}

/* The inputs that have no dims, one bit each; none where all are such. */
static uint64_t lesser_inputs(const call *c, const tide_jit *j) {
  uint64_t zero = 0;
  for (int k = 0; k < j->inputs; k++) zero |= (uint64_t)(c->in[k]->ndim == 0) << k;
  return zero == ((uint64_t)1 << j->inputs) - 1 ? 0 : zero;
}

/* NULL: it is being compiled. */
static tide_status call_find(const tide__jit_plan **p, call *c, tide_jit *j, tide_tensor *const *made) {
  call_plan(c, j, made);
  uint64_t key = tide__jit_plan_key(c->dtypes, c->device, c->work, lesser_inputs(c, j));
  *p = tide__jit_plan_find(j, key);
  return *p ? TIDE_OK : tide__jit_plan_make(p, j, key, c->in, c->common, c->device, c->work);
}

static tide_status call_run(const call *c, const tide__jit_plan *p, const tide_jit *j, tide_tensor *const *made,
                            const tide_scalar *scalars) {
  if (!p) return tide__jit_pending(j->what);
  tide__work w = {.numel = c->numel, .ndim = c->work, .stride = c->stride};
  memcpy(w.size, c->size, (size_t)c->ndim * sizeof *w.size);
  return launch(p, j, made, c->in, scalars, &w, c->device);
}

/* out or into; or ready: all but the launch. */
static tide_status general_path(bool *ready, tide_tensor **out, tide_jit *j, tide_tensor *const *in, int n,
                                const tide_scalar *scalars, tide_tensor *const *into) {
  call c = {0};
  tide_tensor *made[TIDE_JIT_TENSORS];
  const tide__jit_plan *p = NULL;
  int count = 0;
  tide_status status = call_begin(&c, j, in, n);
  if (status == TIDE_OK) status = call_devices(&c, j);
  if (status == TIDE_OK && into) status = call_into(&c, j, into);
  if (status == TIDE_OK) status = call_results(made, &count, &c, j, into);
  bool empty = status == TIDE_OK && !made[0]->numel; /* needs no kernel */
  if (status == TIDE_OK && !empty) status = call_find(&p, &c, j, made);
  if (status == TIDE_OK && ready) *ready = p || empty;
  if (status == TIDE_OK && !ready && !empty) status = call_run(&c, p, j, made, scalars);
  for (int k = 0; k < INPUTS; k++) tide_tensor_release(c.owned[k]);
  for (int k = 0; into && !ready && k < count && status == TIDE_OK; k++)
    if (made[k] != into[k]) status = tide_copy(into[k], made[k], true);
  if (status != TIDE_OK || into || ready)
    drop(made, count);
  else
    memcpy(out, made, (size_t)count * sizeof *out);
  return status;
}

tide_status tide_jit_call_into(tide_tensor *const *into, tide_jit *j, tide_tensor *const *in, int n,
                               const tide_scalar *scalars) {
  if (TIDE_UNLIKELY(!into || !j || !in))
    return tide__fail(TIDE_ARGUMENT, "jiterator: wrong arguments, expected a function, tensors and destinations");
  if (scalars) TIDE_TRY(tide__jit_scalars_check(j, scalars, j->signature.name));
  return general_path(NULL, NULL, j, in, n, scalars, into);
}

tide_status tide_jit_call(tide_tensor **out, tide_jit *j, tide_tensor *const *in, int n, const tide_scalar *scalars) {
  if (TIDE_UNLIKELY(!out || !j || !in))
    return tide__fail(TIDE_ARGUMENT, "jiterator: wrong arguments, expected a function, tensors and room for results");
  if (scalars) TIDE_TRY(tide__jit_scalars_check(j, scalars, j->signature.name));
  const tide__jit_plan *p = TIDE_LIKELY(n == j->inputs && j->made == tide__epoch_now()) ? flat_match(j, in) : NULL;
  if (TIDE_LIKELY(p != NULL)) return flat_path(out, p, j, in, scalars);
  return general_path(NULL, out, j, in, n, scalars, NULL);
}

tide_status tide_jit_ready(bool *out, tide_jit *j, tide_tensor *const *in, int n, tide_tensor *const *into) {
  if (TIDE_UNLIKELY(!out || !j || !in))
    return tide__fail(TIDE_ARGUMENT, "jiterator: wrong arguments, expected a function, tensors and room for a result");
  if (!into && n == j->inputs && j->made == tide__epoch_now() && flat_match(j, in)) {
    *out = true;
    return TIDE_OK;
  }
  TIDE_ELSEWHERE(true);
  return general_path(out, NULL, j, in, n, NULL, into);
}
