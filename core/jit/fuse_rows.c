/* fuse_rows.c: launches of kernels that reduce rows: how a row is shared by threads, and the packed arguments.
 *
 * Rows of up to 512 accesses of 16 bytes are a warp's, longer ones a block's of up to 1024 threads, each of which has
 * at most 8 accesses: that many elements stay in registers.
 *
 * Invariant: an access of several elements is made only where every row begins at a multiple of it. */
#include "fuse.h"

enum { BLOCK = 256, MOST = 1024 };

static const tide__fuse_value *value_of(const tide_fused *f, int k) {
  return &f->value[k < f->outputs ? f->output[k] : f->input[k - f->outputs]];
}

static int lanes_of(const tide_fused *f, const tide__fuse_rows *r, void *const *ptr) {
  int lanes = 16;
  for (int k = 0; k < f->outputs + f->inputs; k++) {
    int bytes = (int)tide__itemsize(value_of(f, k)->dtype);
    if (!r->spread[k]) continue;
    if (16 / bytes < lanes) lanes = 16 / bytes;
    if (((uintptr_t)ptr[k] & 15) || (r->row_stride[k] * bytes) % 16) lanes = 1;
  }
  return r->columns % lanes ? 1 : lanes;
}

tide__fuse_shape tide__fuse_shape_of(const tide_fused *f, const tide__fuse_rows *r, void *const *ptr) {
  tide__fuse_shape s = {.group = 32, .lanes = lanes_of(f, r, ptr)};
  int64_t accesses = (r->columns + s.lanes - 1) / s.lanes;
  if (accesses > 32 * 8) s.group = BLOCK;
  while (s.group < MOST && accesses > (int64_t)s.group * (s.lanes > 1 ? 4 : 8)) s.group *= 2;
  s.pieces = (int)((accesses + s.group - 1) / s.group);
  for (int k = 0; k < f->outputs + f->inputs; k++) s.spread |= (uint32_t)r->spread[k] << k;
  return s;
}

tide_status tide__fuse_launch_rows(const tide_fused *f, const tide__jit_plan *p, const tide__fuse_shape *shape,
                                   const tide__fuse_rows *r, const tide_tensor *const *operand, int device) {
  static const uint16_t no_offset[1];
  int operands = f->outputs + f->inputs, at = 16 * f->slots;
  int threads = shape->group < BLOCK ? BLOCK : shape->group, each = threads / shape->group;
  uint16_t pointer[TIDE_JIT_OPERANDS];
  int32_t columns = (int32_t)r->columns;
  tide__packed a;
  tide__queue q;
  TIDE_TRY(tide__queue_begin(&q, device));
  memset(&a, 0, (size_t)at + 16 * (size_t)operands + 32);
  memcpy(a.bytes, f->packed, (size_t)at);
  tide__jit_launch_begin();
  for (int k = 0; k < operands; k++) {
    void *ptr = tide__tensor_ptr(operand[k]);
    pointer[k] = (uint16_t)(at + 8 * k);
    memcpy(a.bytes + pointer[k], &ptr, sizeof ptr);
    memcpy(a.bytes + at + 8 * operands + 8 * k, &r->row_stride[k], 8);
    tide__jit_operand(operand[k], k < f->outputs, q.stream);
  }
  memcpy(a.bytes + at + 16 * operands, &r->rows, 8);
  memcpy(a.bytes + at + 16 * operands + 8, &columns, 4);
  const tide_launch launch = {.grid = {(uint32_t)((r->rows + each - 1) / each), 1, 1},
                              .block = {(uint32_t)threads, 1, 1},
                              .site = device < 0 ? 0 : tide__site_now(),
                              .device = device,
                              .moved = r->rows * r->columns * tide_fused_bytes(f),
                              .elementwise = true,
                              .params = 1,
                              .pointers = (uint16_t)operands,
                              .bytes = (uint16_t)(at + 16 * operands + 16),
                              .packed = a.bytes,
                              .offset = no_offset,
                              .pointer = pointer};
  return tide__jit_launch(p->compiler, p->function, &q, TIDE__LAUNCH_FUSED, &launch);
}
