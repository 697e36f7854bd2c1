/* fused.c: fused operations on the CPU without a compiler: the loops that every operation has, one after the other over
 * a piece of the tensors that stays in the first caches.
 *
 * A piece is some rows of the last two dims, or a part of one row. Values that only lead to others live in scratch
 * memory that the pieces of a thread share.
 *
 * Where rows are longer than a piece, a reduction is of the piece, and gives one element of a tensor of parts.
 *
 * Invariant: pieces share no element, and a step reads what steps before it have made of the same piece. */
#include "base/fused.h"
#include "cxx.h"
#include "backend/cpu/cpu.h"
#include "os/os.h"

enum { GATHER = 253, REDUCE, CAST };

typedef struct piece {
  const tide_fused_program *p;
  char *at[TIDE_FUSED_OPERANDS], *scratch;
  int64_t rows, columns, room;
} piece;

/* Where a value lies, and its strides over the piece. */
static void *operand(const piece *x, int value, int64_t *stride) {
  const tide_fused_program *p = x->p;
  bool two = p->ndim > 1;
  if (value >= p->operands) {
    stride[0] = p->is_row[value] ? 1 : x->columns, stride[1] = !p->is_row[value];
    return x->scratch + (size_t)p->place[value] * (size_t)x->room;
  }
  stride[0] = two ? p->stride[value][p->ndim - 2] : 0, stride[1] = p->stride[value][p->ndim - 1];
  return x->at[value];
}

static tide_status do_cast(const piece *x, const tide_fused_step *s) {
  int64_t stride[2][TIDE_MAX_DIMS];
  int64_t columns = x->p->is_row[s->out] ? 1 : x->columns;
  tide_copy_args a = {.head = {.nptr = 2, .device = -1}, .numel = x->rows * columns};
  int value[2] = {s->out, s->in[0]};
  for (int k = 0; k < 2; k++) {
    a.head.ptr[k] = operand(x, value[k], stride[k]);
    a.dtype[k] = x->p->dtype[value[k]];
  }
  a.size[0] = x->rows, a.size[1] = columns;
  a.ndim = tide__collapse(a.size, stride, 2, 2, false);
  memcpy(a.stride, stride, sizeof stride);
  a.flat = a.ndim == 1 && stride[0][0] == 1 && stride[1][0] == 1;
  return tide__cpu_copy(NULL, &a);
}

static tide_status do_op(const piece *x, const tide_fused_step *s) {
  const tide_fused_program *p = x->p;
  tide_elementwise_args a;
  int n = s->operands + 1;
  a.head = (tide_head){.nptr = n, .device = -1};
  a.op = s->op, a.operands = n, a.compute = s->compute;
  int64_t columns = p->is_row[s->out] ? 1 : x->columns;
  a.numel = x->rows * columns, a.size[0] = x->rows, a.size[1] = columns;
  for (int k = 0; k < n; k++) {
    int value = k ? s->in[k - 1] : s->out;
    a.is_number[k] = value < 0;
    if (value < 0) {
      a.number[k] = p->number[-1 - value], a.dtype[k] = s->compute;
      a.head.ptr[k] = NULL;
      a.stride[k][0] = a.stride[k][1] = 0;
    } else {
      a.head.ptr[k] = operand(x, value, a.stride[k]);
      a.dtype[k] = p->dtype[value];
    }
  }
  a.ndim = tide__collapse(a.size, a.stride, n, 2, false);
  a.flat = a.ndim == 1;
  for (int k = 0; k < n; k++) a.flat &= a.is_number[k] || a.stride[k][0] == 1;
  for (int k = 0; k < s->params; k++) a.param[k] = p->number[s->param + k];
  return tide__cpu_elementwise(NULL, &a);
}

static tide_status do_reduce(const piece *x, const tide_fused_step *s) {
  const tide_fused_program *p = x->p;
  int64_t out[2], in[2];
  int red = !p->across, keep = p->across; /* of the two dims */
  tide_reduce_args a = {.head = {.nptr = 3, .device = -1}, .op = s->compute, .nkeep = 1, .nred = 1, .scale = 1};
  a.head.ptr[0] = operand(x, s->out, out), a.head.ptr[1] = operand(x, s->in[0], in);
  a.dtype[0] = p->dtype[s->out], a.dtype[1] = p->dtype[s->in[0]];
  a.acc = tide__category(a.dtype[1]) == 1 ? TIDE_INT64 : tide__compute_dtype((tide_dtype)a.dtype[1]);
  a.outer = a.keep_size[0] = keep ? x->columns : x->rows, a.inner = a.red_size[0] = keep ? x->rows : x->columns;
  a.keep_stride[0][0] = out[keep], a.keep_stride[1][0] = in[keep], a.red_stride[0] = in[red];
  double n = (double)a.inner - (s->params ? p->number[s->param].re : 0);
  if (s->compute == TIDE_MEAN || s->params) a.scale = 1 / (n > 0 ? n : 0);
  return tide__cpu_reduce(NULL, &a);
}

/* The first of all threads tells of a place that is outside. */
static void note_bad(const piece *x, int64_t value, const tide_fused_line *l) {
  uint32_t none = 0;
  tide_mail *m = x->p->mail[1];
  if (!__atomic_compare_exchange_n((uint32_t *)x->p->mail[0], &none, 1u, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    return;
  m->site = l->site, m->base = l->base, m->value = value, m->length = l->length, m->full = 1;
}

static void do_gather(const piece *x, const tide_fused_step *s) {
  const tide_fused_program *p = x->p;
  const tide_fused_line *l = (const void *)&p->number[s->param];
  int64_t value;
  tide_index_args a = {
      .head = {.nptr = 3, .device = -1}, .index_base = l->base, .length = l->length, .pitch = l->pitch};
  const int part[3] = {s->out, s->in[1], s->in[0]};
  for (int k = 0; k < 3; k++) a.head.ptr[k] = operand(x, part[k], a.stride[k]);
  a.dtype = p->dtype[s->out], a.item_size = (int32_t)tide__itemsize(a.dtype), a.index_dtype = p->dtype[s->in[0]];
  a.numel = x->rows * x->columns, a.size[0] = x->rows, a.size[1] = x->columns;
  a.ndim = tide__collapse(a.size, a.stride, 3, 2, false);
  if (tide__cpu_gather_bad(&a, &value)) note_bad(x, value, l);
}

static tide_status do_piece(const piece *x) {
  for (int i = 0; i < x->p->steps; i++) {
    const tide_fused_step *s = &x->p->step[i];
    if (s->op == GATHER)
      do_gather(x, s);
    else
      TIDE_TRY(s->op == CAST ? do_cast(x, s) : s->op == REDUCE ? do_reduce(x, s) : do_op(x, s));
  }
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
    x->at[k] = (char *)p->ptr[k] + offset * tide__itemsize(p->dtype[k]);
  }
}

int tide__cpu_fused(const void *packed, const uint32_t *dims, long long begin, long long end, const void *hooks) {
  (void)dims, (void)hooks;
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
