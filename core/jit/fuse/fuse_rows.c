/* fuse_rows.c: launches of kernels that reduce rows: how a row is shared by threads, and the packed arguments.
 *
 * Rows of up to 256 accesses of 16 bytes are a warp's, longer ones a block's of up to 1024 threads, each of which has
 * at most 8 accesses: that many elements stay in registers. Longer ones that are written are a cluster's of up to 8
 * blocks, where the GPU has these. All others are done in parts (fuse_stages.c), each by a block, or where rows lie
 * beside each other by a thread for all the rows that it reads at once.
 *
 * Invariant: an access of several elements is made only where every row begins at a multiple of it. */
#include "jit/fuse/fuse.h"

enum { BLOCK = 256, CLUSTER = 32 * BLOCK, MOST = 1024, BLOCKS = 2112, PARTS = 2048, FEW_PARTS = 128 };

static const tide_fused_node *value_of(const tide_fused *f, int k) {
  return &f->value[k < f->outputs ? f->output[k] : f->input[k - f->outputs]];
}

static int lanes_of(const tide_fused *f, const tide__fuse_rows *r, void *const *ptr) {
  int lanes = 16;
  for (int k = f->is_part ? f->outputs : 0; k < f->outputs + f->inputs; k++) {
    int bytes = (int)tide__itemsize(value_of(f, k)->dtype);
    if (!(r->across ? r->row_stride : r->step)[k]) continue;
    if (16 / bytes < lanes) lanes = 16 / bytes;
    if (((uintptr_t)ptr[k] & 15) || ((r->across ? r->step : r->row_stride)[k] * bytes) % 16) lanes = 1;
  }
  return (r->across ? r->rows : r->columns) % lanes ? 1 : lanes;
}

/* Bits count from the first operand that is read: a result has one element for a part. */
static tide__fuse_shape shape_of_parts(const tide_fused *f, const tide__fuse_rows *r, void *const *ptr) {
  tide__fuse_shape s = {.lanes = lanes_of(f, r, ptr)};
  if (r->across) s.pieces = f->inputs == 1 && r->rows / s.lanes <= 8 * BLOCK ? 16 : 8; /* few threads: more each */
  for (int k = f->outputs; k < f->outputs + f->inputs; k++) {
    s.spread |= (uint32_t)((r->across ? r->row_stride : r->step)[k] != 0) << (k - f->outputs);
    s.moves |= (uint32_t)(r->step[k] != 0) << (k - f->outputs);
  }
  return s;
}

static int64_t up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/* By sizes alone, so that the same call gives the same bits. A thread has 8 accesses at least. Where r->parts is given
 * it stays: the last ones may have nothing to do. */
void tide__fuse_choose_parts(const tide_fused *f, tide__fuse_rows *r, void *const *ptr) {
  int64_t lanes = lanes_of(f, r, ptr), count = r->across ? r->columns : r->columns / lanes;
  int64_t wanted = up(BLOCKS, r->across ? up(r->rows / lanes, BLOCK) : r->rows);
  int64_t most = up(count, r->across ? 8 : 8 * BLOCK), limit = r->across ? PARTS / 2 : PARTS;
  if (most > limit) most = limit;
  if (wanted > most) wanted = most;
  r->span = up(count, r->parts ? r->parts : wanted);
  if (r->parts) return;
  if (r->across && r->span > 16) r->span = up(r->span, 16) * 16; /* the accesses that a thread has in flight */
  r->parts = up(count, r->span);
}

tide__fuse_shape tide__fuse_shape_of(const tide_fused *f, const tide__fuse_rows *r, void *const *ptr) {
  if (f->is_part || !f->reduces) return shape_of_parts(f, r, ptr);
  tide__fuse_shape s = {.group = 32, .lanes = lanes_of(f, r, ptr)};
  for (int k = 0; k < f->outputs + f->inputs; k++) s.spread |= (uint32_t)(r->step[k] != 0) << k;
  if (r->parts && r->columns <= PARTS) { /* one kernel for any number of parts */
    s.group = r->columns > FEW_PARTS ? BLOCK : 32, s.lanes = 1, s.pieces = 8;
    return s;
  }
  int64_t accesses = up(r->columns, s.lanes);
  s.blocks = 1;
  if (r->columns > TIDE_FUSE_COLUMNS) { /* by a cluster: 32 values are in the registers of a thread */
    while (s.blocks < TIDE_FUSE_BLOCKS && r->columns > (int64_t)s.blocks * CLUSTER) s.blocks *= 2;
    s.group = (r->columns > (int64_t)s.blocks * CLUSTER ? 2 : 1) * BLOCK * s.blocks;
  } else if (accesses > 32 * 8)
    s.group = BLOCK; /* nothing between: threads of a block that wait are all of one row */
  while (s.blocks == 1 && s.group >= BLOCK && s.group < MOST && accesses > (int64_t)s.group * (s.lanes > 1 ? 4 : 8))
    s.group *= 2;
  s.pieces = (int)up(accesses, s.group);
  return s;
}

static int64_t blocks_of(const tide__fuse_shape *shape, const tide__fuse_rows *r, int threads) {
  if (shape->blocks > 1) return r->rows * shape->blocks;
  if (shape->group) return up(r->rows, threads / shape->group);
  return r->across ? up(r->rows / shape->lanes * r->parts, BLOCK) : r->rows * r->parts;
}

tide_status tide__fuse_launch_rows(const tide_fused *f, const tide__jit_plan *p, const tide__fuse_shape *shape,
                                   const tide__fuse_rows *r, const tide_tensor *const *operand, int device) {
  int operands = f->outputs + f->inputs, at = 16 * f->slots, n = 2 * operands;
  int threads = tide__fuse_threads(shape);
  int64_t word[3 * TIDE_FUSED_OPERANDS + 5] = {0};
  uint16_t pointer[TIDE_FUSED_OPERANDS];
  tide__packed a;
  tide__queue q;
  TIDE_TRY(tide__jit_begin(&q, device, NULL));
  for (int k = 0; k < operands; k++) {
    pointer[k] = (uint16_t)(at + 8 * k);
    word[k] = (int64_t)(intptr_t)tide__tensor_ptr(operand[k]), word[operands + k] = r->row_stride[k];
    tide__jit_operand(operand[k], k < f->outputs, q.stream);
  }
  word[n++] = r->rows, word[n++] = shape->group || r->across ? r->columns : r->columns / shape->lanes;
  if (!shape->group) {
    word[n++] = r->span, word[n++] = r->parts;
    for (int k = 0; k < operands; k++) word[n++] = r->across ? r->step[k] : r->step[k] * shape->lanes;
  }
  n += n % 2; /* 16 bytes */
  memcpy(a.bytes, f->packed, (size_t)at);
  memcpy(a.bytes + at, word, 8 * (size_t)n);
  tide_launch launch = {.grid = {(uint32_t)blocks_of(shape, r, threads), 1, 1},
                        .block = {(uint32_t)threads, 1, 1},
                        .device = device,
                        .moved = r->rows * r->columns * tide_fused_bytes(f),
                        .elementwise = true,
                        .pointers = (uint16_t)operands,
                        .bytes = (uint16_t)(at + 8 * n),
                        .mail = (uint16_t)(16 * f->mail),
                        .packed = a.bytes,
                        .pointer = pointer};
  return tide__jit_launch(p->compiler, p->function, &q, TIDE__LAUNCH_FUSED, &launch);
}
