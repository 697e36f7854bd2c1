/* fuse.c: fused operations as a host has them: made of its nodes, given other numbers, freed.
 *
 * Invariant: a handle that exists can be written as one kernel. */
#include "jit/fuse/fuse.h"

/* Of the caller's nodes: its operands are nodes before it, or numbers; `place` is where those are here. */
static tide_status add_given(tide_fused *f, int given, const tide_fuse_node *node, int numbers, int *place) {
  tide_fuse_node n = *node;
  bool is_op = n.kind == TIDE_FUSE_OP && (unsigned)n.op < TIDE_OP_COUNT;
  int operands = is_op ? tide__op_traits_get((tide_op)n.op)->operands : n.kind != TIDE_FUSE_INPUT;
  for (int k = 0; k < operands; k++) {
    if (n.in[k] >= given || n.in[k] < -numbers)
      return tide__fail(TIDE_ARGUMENT, "%s: operand of node %d: got %d, expected a node before it or -1 to %d", f->name,
                        given, n.in[k], -numbers);
    if (n.in[k] >= 0) n.in[k] = place[n.in[k]];
  }
  int dtype = n.kind == TIDE_FUSE_GATHER && n.in[0] >= 0 ? f->value[n.in[0]].dtype : TIDE_INT64;
  if (tide__category(dtype) == 1 && dtype != TIDE_INT64 && dtype != TIDE_INT32) /* as the functions alone read it */
    TIDE_TRY(
        tide__fuse_add(&n.in[0], f, &(tide_fuse_node){.kind = TIDE_FUSE_CAST, .in = {n.in[0]}, .dtype = TIDE_INT64}));
  return (n.kind == TIDE_FUSE_REDUCE ? tide__fuse_add_reduction : tide__fuse_add)(&place[given], f, &n);
}

static tide_status fill(tide_fused *f, const tide_fuse_node *nodes, int n, const int *outputs, int outputs_n) {
  int place[TIDE_FUSE_NODES], output[TIDE_FUSE_OUTPUTS], numbers = f->numbers;
  for (int i = 0; i < n; i++) TIDE_TRY(add_given(f, i, &nodes[i], numbers, place));
  for (int k = 0; k < outputs_n; k++) {
    if (outputs[k] < 0 || outputs[k] >= n || nodes[outputs[k]].kind == TIDE_FUSE_INPUT)
      return tide__fail(TIDE_ARGUMENT, "%s: result %d: got node %d, expected one that is computed", f->name, k,
                        outputs[k]);
    output[k] = place[outputs[k]];
  }
  return tide__fuse_finish(f, output, outputs_n);
}

tide_status tide_fused_new(tide_fused **out, const char *name, const tide_fuse_node *nodes, int n, const int *outputs,
                           int outputs_n, const tide_scalar *numbers, int numbers_n) {
  if (!tide__running()) return tide__fail(TIDE_STATE, "fuse: tide is not started, expected tide_init first");
  if (!out || !name || !nodes || !outputs || n < 1 || n > TIDE_FUSE_NODES || outputs_n < 1 ||
      outputs_n > TIDE_FUSE_OUTPUTS || numbers_n < 0 || numbers_n > TIDE_FUSE_SCALARS || (numbers_n && !numbers))
    return tide__fail(TIDE_ARGUMENT, "fuse: wrong arguments, expected 1 to %d nodes, 1 to %d results, 0 to %d numbers",
                      TIDE_FUSE_NODES, TIDE_FUSE_OUTPUTS, TIDE_FUSE_SCALARS);
  tide_fused *f;
  TIDE_TRY(tide__fuse_begin(&f, name, numbers, numbers_n));
  tide_status status = fill(f, nodes, n, outputs, outputs_n);
  if (status == TIDE_OK)
    *out = f;
  else
    tide_fused_free(f);
  return status;
}

/* Those that the caller gave come first in the parts too. */
void tide__fuse_set_numbers(tide_fused *f, const tide_scalar *numbers, int n) {
  tide_fused *part;
  memcpy(f->number, numbers, (size_t)n * sizeof *numbers);
  tide__fuse_pack(f);
  for (int k = 0; (part = tide__fuse_stage(f, k)); k++) tide__fuse_set_numbers(part, numbers, n);
}

/* Bit for bit: zeros of two signs differ. */
static bool is_same(const tide_scalar *a, const tide_scalar *b) {
  return a->kind == b->kind && a->i == b->i && !memcmp(&a->re, &b->re, 2 * sizeof a->re);
}

tide_status tide_fused_numbers(tide_fused *f, const tide_scalar *numbers, int n) {
  if (!f || (n && !numbers)) return tide__fail(TIDE_ARGUMENT, "fuse: wrong arguments, expected a handle and numbers");
  if (n != f->given) return tide__fail(TIDE_ARGUMENT, "%s: got %d numbers, expected %d", f->name, n, f->given);
  bool same = true;
  for (int k = 0; k < n; k++) {
    if (is_same(&numbers[k], &f->number[k])) continue;
    same = false;
    if (numbers[k].kind != f->number[k].kind)
      return tide__fail(TIDE_ARGUMENT, "%s: number %d: got one of kind %c, expected %c", f->name, k, numbers[k].kind,
                        f->number[k].kind);
    if ((f->fixed >> k & 1) && tide__value(numbers[k]).re != tide__value(f->number[k]).re)
      return tide__fail(TIDE_ARGUMENT, "%s: number %d: got %.17g, expected %.17g, which the kernel is made for",
                        f->name, k, tide__value(numbers[k]).re, tide__value(f->number[k]).re);
  }
  if (!same) tide__fuse_set_numbers(f, numbers, n);
  return TIDE_OK;
}

void tide_fused_free(tide_fused *f) {
  if (!f) return;
  tide__fuse_drop_plans(f);
  tide__fuse_stages_free(f);
  free(f->problem);
  free(f);
}

const char *tide_fused_problem(const tide_fused *f) {
  if (!f) return NULL;
  const char *problem = f->problem;
  tide_fused *part;
  for (int k = 0; !problem && (part = tide__fuse_stage(f, k)); k++) problem = tide_fused_problem(part);
  return problem;
}
