/* stage.c: tensors as contiguous bytes on the host, which is what MPI moves.
 *
 * One contiguous tensor on the host is its own bytes. Everything else is copied: several parts, strided ones, those of
 * devices (through page-locked memory, on the current stream, so that the host does not wait), and 16-bit floats that
 * are to be reduced, which become float32 and are rounded once when they are written back.
 *
 * Invariant: a side holds references to all that it uses. */
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"

static bool is_own(const tide__side *side, tide_tensor *const *tensors, int n, tide_dtype dtype) {
  (void)side;
  return n == 1 && host.tensor_device(tensors[0]) == TIDE_CPU && host.tensor_dtype(tensors[0]) == dtype &&
         host.tensor_is_contiguous(tensors[0]);
}

/* Part i of the staged bytes, in the shape of its tensor. */
static tide_status part_of(tide_tensor **out, const tide__side *side, int i, int64_t offset) {
  const tide_tensor *x = side->tensors[i];
  tide_tensor *line;
  TRY(host.narrow(&line, side->staged, 0, offset, host.tensor_numel(x)));
  tide_status status = host.view(out, line, host.tensor_size(x), host.tensor_ndim(x));
  host.tensor_release(line);
  return status;
}

static tide_status copy_parts(const tide__side *side, bool back) {
  int64_t offset = 0;
  for (int i = 0; i < side->count; i++) {
    tide_tensor *part;
    TRY(part_of(&part, side, i, offset));
    tide_tensor *x = side->tensors[i];
    tide_status status = back ? host.copy(x, part, true) : host.copy(part, x, true);
    host.tensor_release(part);
    TRY(status);
    offset += host.tensor_numel(x);
  }
  return TIDE_OK;
}

static tide_status keep(tide__side *side, tide_tensor *const *tensors, int n) {
  side->tensors = calloc((size_t)n + 1, sizeof *side->tensors);
  if (!side->tensors) return tide__dist_fail(TIDE_MEMORY, "distributed: no memory for a list of %d tensors", n);
  for (int i = 0; i < n; i++) {
    side->tensors[i] = tensors[i];
    host.tensor_retain(tensors[i]);
    side->numel += host.tensor_numel(tensors[i]);
  }
  side->count = n;
  return TIDE_OK;
}

static tide_status stage(tide__side *side, bool reads) {
  int device = side->count ? host.tensor_device(side->tensors[0]) : TIDE_CPU;
  tide_options options = {side->dtype, TIDE_CPU, device != TIDE_CPU, sizeof options};
  TRY(host.empty(&side->staged, &side->numel, 1, &options));
  side->bytes = host.tensor_data(side->staged);
  if (!reads) return TIDE_OK;
  TRY(copy_parts(side, false));
  if (device == TIDE_CPU) return TIDE_OK;
  tide_stream *stream;
  TRY(host.current_stream(&stream, device));
  TRY(host.event_new(&side->ready, 0));
  return host.event_record(side->ready, stream);
}

tide_status tide__side_make(tide__side *side, tide_tensor *const *tensors, int n, tide_dtype dtype, bool reads,
                            bool apart) {
  side->dtype = dtype;
  TRY(keep(side, tensors, n));
  if (!n) return TIDE_OK;
  if (apart || !is_own(side, tensors, n, dtype)) return stage(side, reads);
  side->bytes = host.tensor_data(tensors[0]);
  return TIDE_OK;
}

static tide_status divide(tide__side *side, int divisor) {
  tide_tensor *whole = side->staged ? side->staged : side->tensors[0];
  tide_operand operands[2] = {{whole, {0}}, {NULL, tide_float(divisor)}};
  return host.elementwise(NULL, TIDE_OP_div, operands, NULL, whole);
}

tide_status tide__side_write_back(tide__side *side, int divisor) {
  if (divisor > 1 && side->numel) TRY(divide(side, divisor));
  return side->staged ? copy_parts(side, true) : TIDE_OK;
}

void tide__side_clear(tide__side *side) {
  for (int i = 0; i < side->count; i++) host.tensor_release(side->tensors[i]);
  free(side->tensors);
  host.tensor_release(side->staged);
  if (side->ready) host.event_release(side->ready);
  *side = (tide__side){0};
}
