/* fuse_pieces.c: fused operations as a list of steps (base/fused.h): for a host's own loops, and for what an
 * accelerator's assembler takes.
 *
 * The loops serve until a kernel is there, and where the operations are functions for which a host has loops of vector
 * instructions that no compiler makes of their text.
 *
 * Invariant: scratch memory is given to another value only when no later step reads the one that was there. */
#include "jit/fuse/fuse.h"

#include <stddef.h>

enum { PIECE = 4096, ACROSS = 128, NONE = 255 };
_Static_assert(sizeof(tide_fused_program) <= TIDE_LAUNCH_BYTES, "a program is the arguments of a launch");

bool tide__fuse_in_pieces(const tide_fused *f, int ndim) {
  return ndim <= TIDE_FUSED_DIMS && f->nodes <= TIDE_FUSED_STEPS && f->slots <= TIDE_FUSED_NUMBERS;
}

static int last_use(const tide_fused *f, int node) {
  int last = node;
  for (int i = node + 1; i < f->nodes; i++)
    for (int k = 0; k < f->value[i].operands; k++)
      if (f->value[i].in[k] == node) last = i;
  return last;
}

/* Numbers the values: the operands are what the kernel of a text has, the others follow. */
static void number_values(tide_fused_program *p, const tide_fused *f, uint8_t *value) {
  int next = p->operands, until[TIDE_FUSED_VALUES];
  for (int i = 0; i < f->nodes; i++) value[i] = NONE;
  for (int k = 0; k < f->outputs; k++) value[f->output[k]] = (uint8_t)k;
  for (int k = 0; k < f->inputs; k++)
    if (tide__fuse_gathers(f, k))
      p->dtype[f->outputs + k] = f->value[f->input[k]].dtype;
    else
      value[f->input[k]] = (uint8_t)(f->outputs + k);
  for (int i = 0; i < f->nodes; i++) {
    int place = 0;
    if (value[i] == NONE) {
      while (place < p->scratch && until[place] >= i) place++;
      if (place == p->scratch) p->scratch++;
      until[place] = last_use(f, i);
      value[i] = (uint8_t)next++;
      p->place[value[i]] = (uint8_t)place;
    }
    p->dtype[value[i]] = f->value[i].dtype, p->is_row[value[i]] = f->value[i].is_row;
  }
}

static void add_step(tide_fused_program *p, const tide_fused *f, int node, const uint8_t *value) {
  const tide__fuse_value *v = &f->value[node];
  tide_fused_step *s = &p->step[p->steps++];
  *s = (tide_fused_step){.compute = v->compute, .operands = v->operands, .params = v->params, .out = value[node]};
  s->op = v->kind == TIDE_FUSE_CAST ? 255 : v->op, s->param = (uint8_t)v->param;
  if (v->kind == TIDE_FUSE_REDUCE) s->op = 254, s->compute = v->op;
  if (v->kind == TIDE_FUSE_GATHER) s->op = 253, s->in[1] = (int8_t)(f->outputs + v->input);
  for (int k = 0; k < v->operands; k++) s->in[k] = (int8_t)(v->in[k] < 0 ? v->in[k] : value[v->in[k]]);
}

int64_t tide__fuse_piece(int64_t rows, bool across) { return across ? PIECE / (rows < ACROSS ? rows : ACROSS) : PIECE; }

static int64_t choose_pieces(tide_fused_program *p, bool whole_rows) {
  int last = p->ndim - 1;
  int64_t blocks = 1;
  p->columns = p->size[last] < PIECE || whole_rows ? p->size[last] : PIECE, p->rows = 1;
  if (last > 0 && p->columns < PIECE) {
    p->rows = PIECE / p->columns;
    if (p->rows > p->size[last - 1]) p->rows = p->size[last - 1];
  }
  if (p->across) {
    p->columns = p->size[last] < ACROSS ? p->size[last] : ACROSS;
    p->rows = tide__fuse_piece(p->size[last], true);
  }
  for (int d = 0; d <= last; d++) {
    int64_t of = d == last ? p->columns : d == last - 1 ? p->rows : 1;
    blocks *= (p->size[d] + of - 1) / of;
  }
  return blocks;
}

void tide__fuse_list(tide_fused_program *p, const tide_fused *f) {
  uint8_t value[TIDE_FUSE_NODES];
  p->operands = f->outputs + f->inputs, p->results = f->outputs;
  number_values(p, f, value);
  for (int i = 0; i < f->nodes; i++)
    if (f->value[i].kind != TIDE_FUSE_INPUT) add_step(p, f, i, value);
}

static void fill_operands(tide_fused_program *p, const tide__fuse_work *w) {
  p->ndim = w->ndim;
  memcpy(p->size, w->size, (size_t)w->ndim * sizeof *p->size);
  for (int k = 0; k < p->operands; k++) {
    p->ptr[k] = tide__tensor_ptr(w->operand[k]);
    memcpy(p->stride[k], w->stride[k], (size_t)w->ndim * sizeof **p->stride);
  }
}

tide_status tide__fuse_run_pieces(const tide_fused *f, const tide_compiler *c, const tide__fuse_work *w) {
  tide_fused_program p = {.scratch = 0};
  uint16_t pointer[TIDE_FUSED_OPERANDS];
  void *function;
  tide__queue q;
  TIDE_TRY(tide__jit_begin(&q, w->device, NULL));
  tide__fuse_list(&p, f);
  fill_operands(&p, w);
  for (int k = 0; k < f->slots; k++)
    if (f->slot[k].kind == TIDE__FUSE_NUMBER)
      p.number[k] = tide__value(tide__fuse_number(f, k));
    else
      memcpy(&p.number[k], f->packed + 16 * k, 16);
  p.parts = f->is_part ? f->outputs : 0, p.across = w->across;
  int64_t blocks = choose_pieces(&p, f->reduces && !f->is_part);
  for (int k = 0; k < p.operands; k++) {
    pointer[k] = (uint16_t)((size_t)k * sizeof *p.ptr);
    tide__jit_operand(w->operand[k], k < f->outputs, q.stream);
  }
  memcpy(&function, &c->interpreter->fused, sizeof function);
  tide_launch a = {.grid = {(uint32_t)blocks, 1, 1},
                   .block = {PIECE, 1, 1},
                   .device = w->device,
                   .moved = w->numel * tide_fused_bytes(f),
                   .elementwise = true,
                   .pointers = (uint16_t)p.operands,
                   .bytes = sizeof p,
                   .mail = f->mail ? offsetof(tide_fused_program, mail) : 0,
                   .packed = &p,
                   .pointer = pointer};
  return tide__jit_launch(c, function, &q, TIDE__LAUNCH_FUSED, &a);
}

/* ---- the assembler of an accelerator ---- */

char *tide__fuse_assembly(const tide_fused *f, const tide__jit_plan *p, const uint8_t *order, int device) {
  const tide_compiler *c = p->compiler;
  const tide__special *s = &p->special;
  tide_fused_program list = {.ndim = s->ndim};
  tide_fused_layout l = {.pointers = p->layout.pointers,
                         .count = p->layout.count,
                         .strides = p->layout.strides,
                         .divisors = p->layout.divisors,
                         .bytes = p->layout.bytes,
                         .ndim = (uint16_t)s->ndim,
                         .lanes = (uint16_t)p->layout.vector,
                         .block = (uint16_t)c->text->threads};
  char arch[64];
  if (!c->assembler || f->reduces || s->mail || !tide__fuse_in_pieces(f, 1)) return NULL;
  if (c->loader->arch(arch, sizeof arch, device) != TIDE_OK) return NULL;
  tide__fuse_list(&list, f);
  for (int k = 0; k < s->operands; k++) {
    int at = k < s->outputs ? k : s->outputs + order[k - s->outputs];
    l.place[at] = (uint8_t)k;
    list.stride[at][0] = k < s->operands - s->uniform;
  }
  return c->assembler->fused_text(&list, &l, arch);
}
