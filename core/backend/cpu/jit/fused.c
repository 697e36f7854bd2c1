/* fused.c: fused operations on the CPU without a compiler: the loops that every operation has, one after the other over
 * a piece of the tensors that stays in the first caches.
 *
 * A piece is some rows of the last two dims, or a part of one row. Values that only lead to others live in scratch
 * memory that the pieces of a thread share.
 *
 * Where rows are longer than a piece, a reduction is of the piece, and gives one element of a tensor of parts.
 *
 * Invariant: pieces share no element, and a node reads what nodes before it have made of the same piece. */
#include "cxx.h"
#include "backend/cpu/cpu.h"
#include "os/os.h"

typedef struct piece {
  const tide_fused_program *p;
  char *at[TIDE_FUSED_OPERANDS], *scratch;
  int64_t rows, columns, room;
} piece;

/* Where operand k lies, and its strides over the piece. */
static void *operand(const piece *x, int k, int64_t *stride) {
  const tide_fused_program *p = x->p;
  stride[0] = p->ndim > 1 ? p->stride[k][p->ndim - 2] : 0, stride[1] = p->stride[k][p->ndim - 1];
  return x->at[k];
}

/* And a node's value. */
static void *value(const piece *x, int node, int64_t *stride) {
  const tide_fused_node *n = &x->p->node[node];
  int scratch = n->place - TIDE_FUSED_OPERANDS;
  if (scratch < 0) return operand(x, n->place, stride);
  stride[0] = n->is_row ? 1 : x->columns, stride[1] = !n->is_row;
  return x->scratch + scratch * x->room;
}

static int64_t columns_of(const piece *x, const tide_fused_node *n) { return n->is_row ? 1 : x->columns; }

static tide_status do_cast(const piece *x, int node) {
  const tide_fused_node *n = &x->p->node[node];
  int64_t stride[2][TIDE_MAX_DIMS], columns = columns_of(x, n);
  tide_copy_args a = {.head = {.nptr = 2, .device = -1}, .numel = x->rows * columns};
  a.head.ptr[0] = value(x, node, stride[0]), a.head.ptr[1] = value(x, n->in[0], stride[1]);
  a.dtype[0] = n->dtype, a.dtype[1] = x->p->node[n->in[0]].dtype;
  a.size[0] = x->rows, a.size[1] = columns;
  a.ndim = tide__collapse(a.size, stride, 2, 2, false);
  memcpy(a.stride, stride, sizeof stride);
  a.flat = a.ndim == 1 && stride[0][0] == 1 && stride[1][0] == 1;
  return tide__cpu_copy(NULL, &a);
}

static tide_value number(const tide_fused_program *p, int slot) {
  return (tide_value){.i = p->number[slot].value.i, .re = p->number[slot].value.re};
}

static tide_status do_op(const piece *x, int node) {
  const tide_fused_program *p = x->p;
  const tide_fused_node *o = &p->node[node];
  tide_elementwise_args a;
  int n = o->operands + 1;
  a.head = (tide_head){.nptr = n, .device = -1};
  a.op = o->op, a.operands = n, a.compute = o->compute;
  int64_t columns = columns_of(x, o);
  a.numel = x->rows * columns, a.size[0] = x->rows, a.size[1] = columns;
  for (int k = 0; k < n; k++) {
    int from = k ? o->in[k - 1] : node;
    a.is_number[k] = from < 0;
    if (from < 0) {
      a.number[k] = number(p, -1 - from), a.dtype[k] = o->compute;
      a.head.ptr[k] = NULL;
      a.stride[k][0] = a.stride[k][1] = 0;
    } else {
      a.head.ptr[k] = value(x, from, a.stride[k]);
      a.dtype[k] = p->node[from].dtype;
    }
  }
  a.ndim = tide__collapse(a.size, a.stride, n, 2, false);
  a.flat = a.ndim == 1;
  for (int k = 0; k < n; k++) a.flat &= a.is_number[k] || a.stride[k][0] == 1;
  for (int k = 0; k < o->params; k++) a.param[k] = number(p, o->param + k);
  return tide__cpu_elementwise(NULL, &a);
}

static tide_status do_reduce(const piece *x, int node) {
  const tide_fused_program *p = x->p;
  const tide_fused_node *o = &p->node[node];
  int64_t out[2], in[2];
  int red = !p->across, keep = p->across; /* of the two dims */
  tide_reduce_args a = {.head = {.nptr = 3, .device = -1}, .op = o->op, .nkeep = 1, .nred = 1, .scale = 1};
  a.head.ptr[0] = value(x, node, out), a.head.ptr[1] = value(x, o->in[0], in);
  a.dtype[0] = o->dtype, a.dtype[1] = p->node[o->in[0]].dtype;
  a.acc = tide__category(a.dtype[1]) == 1 ? TIDE_INT64 : tide__compute_dtype((tide_dtype)a.dtype[1]);
  a.outer = a.keep_size[0] = keep ? x->columns : x->rows, a.inner = a.red_size[0] = keep ? x->rows : x->columns;
  a.keep_stride[0][0] = out[keep], a.keep_stride[1][0] = in[keep], a.red_stride[0] = in[red];
  double n = (double)a.inner - (o->params ? number(p, o->param).re : 0), one = 1;
  bool divides = p->parts && o->op == TIDE_MEAN && o->dtype == TIDE_FLOAT64; /* a variance's: exact for a constant */
  if ((o->op == TIDE_MEAN && !divides) || o->params) a.scale = 1 / (n > 0 ? n : 0);
  if (o->op == TIDE_VAR) a.param = n - 1; /* of a part, as these two: the sum of squares around the mean */
  if (o->op == TIDE_COUNT_NONZERO) {      /* of all elements: it is 1 that many times */
    a.op = TIDE_SUM, a.scale = n, a.inner = a.red_size[0] = 1;
    a.head.ptr[1] = &one, a.dtype[1] = a.acc = TIDE_FLOAT64, a.keep_stride[1][0] = 0;
  }
  TIDE_TRY(tide__cpu_reduce(NULL, &a));
  for (int64_t k = 0; divides && k < a.outer; k++) ((double *)a.head.ptr[0])[k * out[keep]] /= n;
  return TIDE_OK;
}

/* The first of all threads reports a place that is outside. */
static void note_bad(const piece *x, int64_t value, const tide_fused_line *l) {
  uint32_t none = 0;
  tide_mail *m = x->p->mail[1];
  if (!__atomic_compare_exchange_n((uint32_t *)x->p->mail[0], &none, 1u, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    return;
  m->site = l->site, m->base = l->base, m->value = value, m->length = l->length, m->full = 1;
}

static tide_status do_gather(const piece *x, int node) {
  const tide_fused_program *p = x->p;
  const tide_fused_node *n = &p->node[node];
  const tide_fused_line *l = &p->number[n->param].line;
  int64_t bad;
  tide_index_args a = {
      .head = {.nptr = 3, .device = -1}, .index_base = l->base, .length = l->length, .pitch = l->pitch};
  a.head.ptr[0] = value(x, node, a.stride[0]), a.head.ptr[1] = operand(x, p->results + n->input, a.stride[1]);
  a.head.ptr[2] = value(x, n->in[0], a.stride[2]);
  a.dtype = n->dtype, a.item_size = (int32_t)tide__itemsize(a.dtype), a.index_dtype = p->node[n->in[0]].dtype;
  a.numel = x->rows * x->columns, a.size[0] = x->rows, a.size[1] = x->columns;
  a.ndim = tide__collapse(a.size, a.stride, 3, 2, false);
  if (tide__cpu_gather_bad(&a, &bad)) note_bad(x, bad, l);
  return TIDE_OK;
}

static tide_status do_piece(const piece *x) {
  static tide_status (*const kinds[])(const piece *x, int node) = {[TIDE_FUSE_OP] = do_op,
                                                                   [TIDE_FUSE_CAST] = do_cast,
                                                                   [TIDE_FUSE_REDUCE] = do_reduce,
                                                                   [TIDE_FUSE_GATHER] = do_gather};
  for (int i = 0; i < x->p->nodes; i++)
    if (x->p->node[i].kind != TIDE_FUSE_INPUT) TIDE_TRY(kinds[x->p->node[i].kind](x, i));
  return TIDE_OK;
}

static int64_t pieces_of(int64_t n, int64_t of) { return (n + of - 1) / of; }

/* The block'th piece: its first elements, and how large it is. */
static void find_piece(piece *x, int64_t block) {
  const tide_fused_program *p = x->p;
  int last = p->ndim - 1;
  int64_t wide = pieces_of(p->size[last], p->columns), column = block % wide * p->columns, row = 0;
  int64_t index[TIDE_FUSED_DIMS] = {0};
  block /= wide;
  x->columns = p->size[last] - column < p->columns ? p->size[last] - column : p->columns;
  x->rows = 1;
  index[last] = column;
  if (last > 0) {
    int64_t high = pieces_of(p->size[last - 1], p->rows);
    row = block % high * p->rows;
    block /= high;
    x->rows = p->size[last - 1] - row < p->rows ? p->size[last - 1] - row : p->rows;
    index[last - 1] = row;
  }
  for (int d = last - 2; d >= 0; d--) index[d] = block % p->size[d], block /= p->size[d];
  for (int k = p->operands - 1; k >= 0; k--) {
    int64_t offset = 0;
    if (k + 1 == p->parts) index[last - p->across] /= p->across ? p->rows : p->columns;
    for (int d = 0; d < p->ndim; d++) offset += index[d] * p->stride[k][d];
    x->at[k] = (char *)p->ptr[k] + offset * tide__itemsize(p->node[p->operand[k]].dtype);
  }
}

int tide__cpu_fused(const void *packed, const uint32_t *dims, long long begin, long long end, const void *hooks) {
  piece x = {.p = packed};
  x.room = (x.p->rows * x.p->columns * 8 + 127) / 64 * 64;
  x.scratch = tide__os_aligned(64, (size_t)(x.p->scratch + 1) * (size_t)x.room);
  if (!x.scratch) return TIDE__CXX_NO_MEMORY;
  tide_status status = TIDE_OK;
  for (int64_t i = begin; i < end && status == TIDE_OK; i++) {
    find_piece(&x, i);
    status = do_piece(&x);
  }
  tide__os_aligned_free(x.scratch);
  return status == TIDE_OK ? 0 : TIDE__CXX_NO_MEMORY;
}
