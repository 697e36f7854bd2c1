/* fuse_pieces.c: fused operations by their list (base/fused.h): by a host's own loops, and for what an accelerator's
 * assembler takes.
 *
 * The loops serve until a kernel is there, and where the operations are functions for which a host has loops of vector
 * instructions that no compiler makes of their text. */
#include "jit/fuse/fuse.h"

#include <stddef.h>

enum { PIECE = 4096, ACROSS = 128 };
_Static_assert(sizeof(tide_fused_program) <= TIDE_LAUNCH_BYTES, "a program is the arguments of a launch");

/* A host has each value once, so none of them can be two results. */
bool tide__fuse_in_pieces(const tide_fused *f, int ndim) {
  bool fits = ndim <= TIDE_FUSED_DIMS && f->nodes <= TIDE_FUSED_NODES;
  for (int k = 0; k < f->outputs; k++) fits = fits && f->value[f->output[k]].place == k;
  return fits;
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

/* order: of the inputs. */
static void fill_list(tide_fused_program *p, const tide_fused *f, const uint8_t *order) {
  p->nodes = f->nodes, p->operands = f->outputs + f->inputs, p->results = f->outputs, p->scratch = f->scratch;
  memcpy(p->node, f->value, (size_t)f->nodes * sizeof *p->node);
  memcpy(p->operand, f->output, (size_t)f->outputs);
  for (int k = 0; k < f->inputs; k++) p->operand[f->outputs + k] = f->input[order ? order[k] : k];
}

tide_status tide__fuse_run_pieces(const tide_fused *f, const tide_compiler *c, const tide__fuse_work *w) {
  tide_fused_program p;
  uint16_t pointer[TIDE_FUSED_OPERANDS];
  void *function;
  tide__queue q;
  TIDE_TRY(tide__jit_begin(&q, w->device, NULL));
  memset(&p, 0, offsetof(tide_fused_program, node));
  fill_list(&p, f, NULL);
  p.ndim = w->ndim, p.parts = f->is_part ? f->outputs : 0, p.across = w->across;
  memcpy(p.size, w->size, (size_t)w->ndim * sizeof *p.size);
  for (int k = 0; k < f->slots; k++)
    if (f->slot[k].kind == TIDE__FUSE_NUMBER) {
      tide_value v = tide__value(tide__fuse_number(f, k));
      p.number[k].value.i = v.i, p.number[k].value.re = v.re;
    } else
      memcpy(&p.number[k], f->packed + 16 * k, 16);
  for (int k = 0; k < p.operands; k++) {
    p.ptr[k] = tide__tensor_ptr(w->operand[k]);
    memcpy(p.stride[k], w->stride[k], (size_t)w->ndim * sizeof **p.stride);
    pointer[k] = (uint16_t)((size_t)k * sizeof *p.ptr);
    tide__jit_operand(w->operand[k], k < f->outputs, q.stream);
  }
  memcpy(&function, &c->interpreter->fused, sizeof function);
  tide_launch a = {.grid = {(uint32_t)choose_pieces(&p, f->reduces && !f->is_part), 1, 1},
                   .block = {PIECE, 1, 1},
                   .device = w->device,
                   .moved = w->numel * tide_fused_bytes(f),
                   .elementwise = true,
                   .pointers = (uint16_t)p.operands,
                   .bytes = (uint16_t)(offsetof(tide_fused_program, node) + (size_t)f->nodes * sizeof *p.node),
                   .mail = f->mail ? offsetof(tide_fused_program, mail) : 0,
                   .packed = &p,
                   .pointer = pointer};
  return tide__jit_launch(c, function, &q, TIDE__LAUNCH_FUSED, &a);
}

char *tide__fuse_assembly(const tide_fused *f, const tide__jit_plan *p, const uint8_t *order, int device) {
  const tide_compiler *c = p->compiler;
  tide_fused_program list;
  char arch[64];
  if (!c->assembler || f->reduces || f->mail || f->nodes > TIDE_FUSED_NODES) return NULL;
  if (c->loader->arch(arch, sizeof arch, device) != TIDE_OK) return NULL;
  fill_list(&list, f, order);
  return c->assembler->fused_text(&list, &p->layout, arch);
}
