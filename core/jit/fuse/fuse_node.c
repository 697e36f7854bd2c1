/* fuse_node.c: the nodes of fused operations, checked once.
 *
 * Each node comes after its operands. Their dtypes follow from those of the inputs
 * by the same rules that the operations have when they run alone, and a number becomes a slot for each operation that
 * takes it, in the dtype that this one computes in. 16-bit floats stay float32 between operations, all other dtypes are
 * rounded or wrapped as they would be in memory. */
#include "jit/fuse/fuse.h"

/* ---- dtypes ---- */

bool tide_fuse_takes(tide_op op, tide_dtype common) {
  if ((unsigned)op >= TIDE_OP_COUNT || !tide__fuse_has_text(op)) return false;
  int category = tide__category(common);
  return category < 3 && !(category < 2 && tide__op_traits_get(op)->divides);
}

int tide_fuse_params(tide_op op) { return (unsigned)op < TIDE_OP_COUNT ? tide__op_traits_get(op)->params : 0; }

tide_status tide__fuse_refuse(const tide_fused *f, const char *why) {
  return tide__fail(TIDE_SUPPORT, "%s: cannot be one kernel: %s", f->name, why);
}

static tide_status add_slot(int *out, tide_fused *f, int number, const tide_fused_node *v, bool is_param) {
  if (number < 0 || number >= f->numbers)
    return tide__fail(TIDE_ARGUMENT, "%s: number %d is not there, expected 0 to %d", f->name, number, f->numbers - 1);
  if (f->slots == TIDE_FUSE_SCALARS) return tide__fuse_refuse(f, "it takes too many numbers");
  f->slot[f->slots] = (tide__fuse_slot){TIDE__FUSE_NUMBER, (uint8_t)number, v->common, v->compute, is_param};
  *out = f->slots++;
  return TIDE_OK;
}

static tide_status add_op(tide_fused *f, int at, const tide_fuse_node *node) {
  tide_fused_node *v = &f->value[at];
  tide_tensor model[3];
  tide_operand in[3];
  tide__types types;
  if ((unsigned)node->op >= TIDE_OP_COUNT) return tide__fail(TIDE_ARGUMENT, "%s: unknown op %d", f->name, node->op);
  const tide__op_traits *t = tide__op_traits_get((tide_op)node->op);
  int tensors = 0, dropped = 0;
  v->operands = t->operands, v->params = t->params, v->keepdim = true;
  for (int k = 0; k < t->operands; k++) {
    in[k] = (tide_operand){.number = f->number[node->in[k] < 0 ? -1 - node->in[k] : 0]};
    if (node->in[k] < 0) continue;
    const tide_fused_node *from = &f->value[node->in[k]];
    model[k] = (tide_tensor){.dtype = from->dtype, .ndim = from->ndim};
    in[k].tensor = &model[k];
    if (from->ndim > v->ndim) v->ndim = from->ndim;
    dropped += from->is_row && !from->keepdim;
    v->is_row = from->is_row && (v->is_row || !tensors);
    tensors++;
    v->reach |= from->reach;
  }
  if (dropped && dropped < tensors)
    return tide__fuse_refuse(f, "what was reduced without keepdim is computed with others");
  v->keepdim = !dropped;
  bool has_params = t->params && node->param >= 0 && node->param + t->params <= f->numbers;
  if (t->params && !has_params) return tide__fail(TIDE_ARGUMENT, "%s: node %d has no parameters", f->name, at);
  TIDE_TRY(tide__op_types(&types, (tide_op)node->op, in, has_params ? f->number + node->param : NULL));
  v->op = (uint8_t)types.op, v->common = types.common, v->compute = types.compute, v->dtype = types.result;
  if (!tide_fuse_takes(types.op, types.common)) return tide__fuse_refuse(f, tide_op_get(types.op)->name);
  for (int k = 0; k < t->operands; k++) {
    int slot = 0;
    if (node->in[k] < 0) TIDE_TRY(add_slot(&slot, f, -1 - node->in[k], v, false));
    v->in[k] = (int8_t)(node->in[k] < 0 ? -1 - slot : node->in[k]);
  }
  for (int k = 0; k < t->params; k++) {
    int slot;
    TIDE_TRY(add_slot(&slot, f, node->param + k, v, true));
    if (!k) v->param = (uint8_t)slot;
  }
  return TIDE_OK;
}

static tide_status add_input(tide_fused *f, int at, const tide_fuse_node *node) {
  tide_fused_node *v = &f->value[at];
  if ((unsigned)node->dtype >= TIDE_DTYPE_COUNT || node->ndim < 0 || node->ndim > TIDE_MAX_DIMS)
    return tide__fail(TIDE_ARGUMENT, "%s: node %d is no tensor", f->name, at);
  if (tide__category(node->dtype) > 2) return tide__fuse_refuse(f, "complex numbers");
  if (f->inputs == TIDE_FUSE_INPUTS) return tide__fuse_refuse(f, "it reads too many tensors");
  if (node->kind == TIDE_FUSE_INPUT && (node->dims < 0 || node->ndim + node->dims > TIDE_MAX_DIMS))
    return tide__fail(TIDE_ARGUMENT, "%s: node %d has too many dims", f->name, at);
  v->dtype = v->common = node->dtype, v->compute = tide__compute_dtype(node->dtype);
  v->given = (uint8_t)node->ndim, v->dims = (uint8_t)node->dims, v->ndim = (uint8_t)(node->ndim + node->dims);
  f->views |= node->dims > 0;
  v->input = (uint8_t)f->inputs, v->reach = (uint16_t)(1u << f->inputs);
  f->input[f->inputs++] = (uint8_t)at;
  return node->kind == TIDE_FUSE_GATHER ? tide__fuse_add_gather(f, at, node) : TIDE_OK;
}

static tide_status add_cast(tide_fused *f, int at, const tide_fuse_node *node) {
  tide_fused_node *v = &f->value[at];
  if (node->in[0] < 0 || (unsigned)node->dtype >= TIDE_DTYPE_COUNT)
    return tide__fail(TIDE_ARGUMENT, "%s: node %d is no cast", f->name, at);
  if (tide__category(node->dtype) > 2) return tide__fuse_refuse(f, "complex numbers");
  const tide_fused_node *from = &f->value[node->in[0]];
  v->operands = 1, v->in[0] = (int8_t)node->in[0];
  v->dtype = v->common = node->dtype, v->compute = tide__compute_dtype(node->dtype);
  v->ndim = from->ndim, v->reach = from->reach;
  v->is_row = from->is_row, v->keepdim = !from->is_row || from->keepdim;
  return TIDE_OK;
}

/* All of one kernel are over the same dims of values of one size, with the largest one's number of dims. */
static tide_status add_reduce(tide_fused *f, int at, const tide_fuse_node *node) {
  tide_fused_node *v = &f->value[at];
  const tide_fused_node *from = &f->value[node->in[0]];
  bool other = f->reduces && (f->dims != node->dims || f->leading != node->leading);
  if (from->is_row || node->dims < 1 || node->dims > from->ndim || other)
    return tide__fuse_refuse(f, "reductions of several sizes");
  f->reduces = true, f->dims = node->dims, f->leading = node->leading;
  v->operands = 1, v->in[0] = (int8_t)node->in[0], v->op = (uint8_t)node->op, v->dims = (uint8_t)node->dims;
  v->dtype = v->common = from->dtype, v->compute = tide__compute_dtype((tide_dtype)from->dtype);
  v->is_row = true, v->keepdim = node->keepdim, v->reach = from->reach;
  v->ndim = (uint8_t)(node->keepdim ? from->ndim : from->ndim - node->dims);
  int slot = 0;
  if (node->param >= 0) TIDE_TRY(add_slot(&slot, f, node->param, v, true));
  v->params = node->param >= 0, v->param = (uint8_t)slot;
  return TIDE_OK;
}

tide_status tide__fuse_add(int *out, tide_fused *f, const tide_fuse_node *node) {
  int at = f->nodes;
  if (at == TIDE_FUSE_NODES) return tide__fuse_refuse(f, "it computes too many values");
  f->value[at] = (tide_fused_node){.kind = (uint8_t)node->kind};
  *out = f->nodes++;
  switch (node->kind) {
  case TIDE_FUSE_INPUT:
  case TIDE_FUSE_GATHER: return add_input(f, at, node);
  case TIDE_FUSE_OP: return add_op(f, at, node);
  case TIDE_FUSE_CAST: return add_cast(f, at, node);
  case TIDE_FUSE_REDUCE: return add_reduce(f, at, node);
  default: return tide__fail(TIDE_ARGUMENT, "%s: node %d is of no kind", f->name, at);
  }
}

/* ---- making ---- */

/* Small integers wrap as they would in a tensor of the common dtype; floats keep the precision that is computed in. */
tide_scalar tide__fuse_number(const tide_fused *f, int slot) {
  const tide__fuse_slot *s = &f->slot[slot];
  tide_scalar number = f->number[s->number];
  uint64_t bits[2];
  if (s->is_param || tide__category(s->common) > 1 || number.kind == 'F' || number.kind == 'C') return number;
  tide__scalar_pack(bits, number, (tide_dtype)s->common);
  return tide__scalar_unpack(bits, (tide_dtype)s->common);
}

static void pack(tide_fused *f, int slot) {
  uint64_t bits[2];
  tide__scalar_pack(bits, tide__fuse_number(f, slot), (tide_dtype)f->slot[slot].compute);
  memcpy(f->packed + 16 * slot, bits, sizeof bits);
}

void tide__fuse_pack(tide_fused *f) {
  for (int k = 0; k < f->slots; k++)
    if (f->slot[k].kind == TIDE__FUSE_NUMBER) pack(f, k);
}

/* Where a host has each value. */
static void find_places(tide_fused *f) {
  int last[TIDE_FUSE_NODES], until[TIDE_FUSE_NODES];
  for (int i = 0; i < f->nodes; i++) {
    last[i] = i, f->value[i].place = 0;
    for (int k = 0; k < f->value[i].operands; k++)
      if (f->value[i].in[k] >= 0) last[f->value[i].in[k]] = i;
  }
  for (int k = 0; k < f->inputs; k++)
    if (!tide__fuse_gathers(f, k)) last[f->input[k]] = -1, f->value[f->input[k]].place = (uint8_t)(f->outputs + k);
  for (int k = 0; k < f->outputs; k++) last[f->output[k]] = -1, f->value[f->output[k]].place = (uint8_t)k;
  for (int i = 0; i < f->nodes; i++) {
    int place = 0;
    if (last[i] < 0) continue;
    while (place < f->scratch && until[place] >= i) place++;
    if (place == f->scratch) f->scratch++;
    until[place] = last[i], f->value[i].place = (uint8_t)(TIDE_FUSED_OPERANDS + place);
  }
}

tide_status tide__fuse_finish(tide_fused *f, const int *outputs, int n) {
  if (!f->inputs) return tide__fuse_refuse(f, "it reads no tensor");
  f->outputs = n, f->row_results = f->value[outputs[0]].is_row;
  for (int k = 0; k < n; k++) {
    f->output[k] = (uint8_t)outputs[k];
    if (f->value[outputs[k]].is_row != f->row_results) return tide__fuse_refuse(f, "results of several sizes");
  }
  for (int k = 0; k < f->inputs; k++)
    if (f->value[f->input[k]].ndim > f->ndim) f->ndim = f->value[f->input[k]].ndim;
  for (int i = 0; i < f->nodes; i++) {
    const tide_fused_node *v = &f->value[i];
    if (v->kind == TIDE_FUSE_REDUCE && f->value[v->in[0]].ndim != f->ndim)
      return tide__fuse_refuse(f, "reductions of several sizes");
    f->costly |= v->kind == TIDE_FUSE_OP && tide__fuse_is_costly(v->op);
  }
  tide__fuse_pack(f);
  find_places(f);
  return TIDE_OK;
}

tide_status tide__fuse_begin(tide_fused **out, const char *name, const tide_scalar *numbers, int n) {
  tide_fused *f = calloc(1, sizeof *f + strlen(name) + 1);
  if (!f) return tide__fail(TIDE_MEMORY, "fuse: no host memory");
  memcpy(f->name, name, strlen(name));
  f->epoch = atomic_load(&tide__epochs[0]), f->made = tide__epoch_now();
  f->numbers = f->given = n;
  if (n) memcpy(f->number, numbers, (size_t)n * sizeof *numbers);
  *out = f;
  return TIDE_OK;
}

/* ---- questions ---- */

int64_t tide_fuse_numel(const int64_t *size, int ndim) {
  return size && ndim <= TIDE_MAX_DIMS ? tide__size_product(size, ndim) : 0;
}

int64_t tide_fused_bytes(const tide_fused *f) {
  if (!f) return 0;
  int64_t bytes = 0;
  for (int k = 0; k < f->inputs; k++) bytes += tide__itemsize(f->value[f->input[k]].dtype);
  for (int k = 0; k < f->outputs; k++) bytes += tide__itemsize(f->value[f->output[k]].dtype);
  return bytes;
}
