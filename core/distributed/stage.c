/* stage.c: tensors as contiguous bytes on the host, which is what MPI moves.
 *
 * One contiguous tensor on the host is its own bytes. Everything else is copied: several parts, strided ones, those of
 * devices, and 16-bit floats that are to be reduced, which become float32 and are rounded once when they are written
 * back. Values of a device are packed there and travel to page-locked memory on the current stream; a job of the host
 * (tide/host_job.h) begins behind them, so that nobody waits.
 *
 * Invariant: a side holds references to all that it uses. */
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"

static bool is_own(const tide__side *side) {
  return side->count == 1 && host.tensor_dtype(side->tensors[0]) == side->dtype &&
         host.tensor_is_contiguous(side->tensors[0]);
}

/* Part i of `whole`, in the shape of its tensor. */
static tide_status part_of(tide_tensor **out, const tide__side *side, tide_tensor *whole, int i, int64_t offset) {
  const tide_tensor *x = side->tensors[i];
  tide_tensor *line;
  TRY(host.narrow(&line, whole, 0, offset, host.tensor_numel(x)));
  tide_status status = host.view(out, line, host.tensor_size(x), host.tensor_ndim(x));
  host.tensor_release(line);
  return status;
}

static tide_status copy_parts(const tide__side *side, tide_tensor *whole, bool back) {
  int64_t offset = 0;
  for (int i = 0; i < side->count; i++) {
    tide_tensor *part;
    TRY(part_of(&part, side, whole, i, offset));
    tide_tensor *x = side->tensors[i];
    tide_status status = back ? host.copy(x, part, true) : host.copy(part, x, true);
    host.tensor_release(part);
    TRY(status);
    offset += host.tensor_numel(x);
  }
  return TIDE_OK;
}

static tide_status keep(tide__side *side, tide_tensor *const *tensors, int n) {
  side->tensors = n > 1 ? calloc((size_t)n, sizeof *side->tensors) : &side->one;
  if (!side->tensors) return tide__dist_fail(TIDE_MEMORY, "distributed: no memory for a list of %d tensors", n);
  for (int i = 0; i < n; i++) {
    side->tensors[i] = tensors[i];
    host.tensor_retain(tensors[i]);
    side->numel += host.tensor_numel(tensors[i]);
  }
  side->count = n;
  side->device = n ? host.tensor_device(tensors[0]) : TIDE_CPU;
  return TIDE_OK;
}

void tide__side_drop(tide__side *side) {
  for (int i = 0; i < side->count; i++) host.tensor_release(side->tensors[i]);
  side->count = 0;
  host.tensor_release(side->packed);
  side->packed = NULL;
}

/* ---- devices ---- */

/* The values in one piece on the device: the tensor itself as a line, or `packed`. */
static tide_status get_line(tide_tensor **out, tide__side *side) {
  tide_options options = {side->dtype, side->device, false, sizeof options};
  if (is_own(side)) return host.view(out, side->tensors[0], &side->numel, 1);
  if (!side->packed) TRY(host.empty(&side->packed, &side->numel, 1, &options));
  host.tensor_retain(side->packed);
  *out = side->packed;
  return TIDE_OK;
}

static tide_status begin(tide__side *side) {
  tide_stream *stream;
  TRY(host.current_stream(&stream, side->device));
  if (side->job) return host.host_job_begin(side->job, stream);
  TRY(host.event_new(&side->ready, 0));
  return host.event_record(side->ready, stream);
}

tide_status tide__side_keep(tide__side *side, tide_tensor *const *tensors, int n, tide_dtype dtype) {
  side->dtype = dtype;
  return keep(side, tensors, n);
}

tide_status tide__side_line(tide_tensor **out, tide__side *side, bool reads) {
  TRY(get_line(out, side));
  return reads && *out == side->packed ? copy_parts(side, *out, false) : TIDE_OK;
}

tide_status tide__side_spread(tide__side *side, tide_tensor *line) {
  return line == side->packed ? copy_parts(side, line, true) : TIDE_OK;
}

tide_status tide__side_watch(tide__side *side) {
  TRY(host.host_job_new(&side->job, side->device));
  return host.host_job_wait(side->job, NULL);
}

static tide_status fetch(tide__side *side) {
  tide_tensor *line;
  TRY(tide__side_line(&line, side, true));
  tide_status status = host.copy(side->staged, line, true);
  host.tensor_release(line);
  TRY(status);
  return begin(side);
}

static tide_status divide(tide_tensor *x, int divisor) {
  tide_operand operands[2] = {{x, {0}}, {NULL, tide_float(divisor)}};
  return divisor > 1 ? host.elementwise(NULL, TIDE_OP_div, operands, NULL, x) : TIDE_OK;
}

static tide_status write_line(tide__side *side, tide_tensor *line, int divisor) {
  TRY(host.copy(line, side->staged, true));
  TRY(divide(line, divisor));
  return tide__side_spread(side, line);
}

static tide_status deliver(tide__side *side, int divisor) {
  tide_tensor *line;
  TRY(get_line(&line, side));
  tide_status status = write_line(side, line, divisor);
  host.tensor_release(line);
  return status;
}

/* ---- all ---- */

static tide_status stage(tide__side *side, bool reads, bool may_be_job) {
  tide_options options = {side->dtype, TIDE_CPU, side->device != TIDE_CPU, sizeof options};
  TRY(host.empty(&side->staged, &side->numel, 1, &options));
  side->bytes = host.tensor_data(side->staged);
  if (side->device == TIDE_CPU) return reads ? copy_parts(side, side->staged, false) : TIDE_OK;
  tide_status status = may_be_job ? host.host_job_new(&side->job, side->device) : TIDE_OK;
  if (status != TIDE_OK && status != TIDE_SUPPORT) return status;
  return reads ? fetch(side) : TIDE_OK;
}

tide_status tide__side_make(tide__side *side, tide_tensor *const *tensors, int n, tide_dtype dtype,
                            tide__side_use use) {
  side->dtype = dtype;
  TRY(keep(side, tensors, n));
  if (!n) return TIDE_OK;
  if (use.apart || side->device != TIDE_CPU || !is_own(side)) {
    tide_status status = stage(side, use.reads, use.may_be_job);
    if (use.once) tide__side_drop(side);
    return status;
  }
  side->bytes = host.tensor_data(tensors[0]);
  return TIDE_OK;
}

tide_status tide__side_pass(tide__side *in, tide__side *out, const tide_distributed_call *c) {
  tide_tensor *from = NULL, *to = NULL;
  tide_dtype dtype = host.tensor_dtype(c->out[0]);
  TRY(tide__side_keep(out, c->out, c->outs, dtype));
  TRY(tide__side_keep(in, c->in, c->ins, dtype));
  if (!in->count || !in->numel) return TIDE_OK;
  tide_status status = tide__side_line(&from, in, true);
  if (status == TIDE_OK) status = tide__side_line(&to, out, false);
  if (status == TIDE_OK) status = host.copy(to, from, true);
  if (status == TIDE_OK) status = tide__side_spread(out, to);
  host.tensor_release(from), host.tensor_release(to);
  return status;
}

tide_status tide__side_write_back(tide__side *side, int divisor) {
  if (!side->numel) return TIDE_OK;
  if (side->device != TIDE_CPU) return deliver(side, divisor);
  TRY(divide(side->staged ? side->staged : side->tensors[0], divisor));
  return side->staged ? copy_parts(side, side->staged, true) : TIDE_OK;
}

tide_status tide__side_ready(bool *ready, const tide__side *side) {
  *ready = true;
  if (side->job) return host.host_job_ready(ready, side->job);
  return side->ready ? host.event_query(ready, side->ready) : TIDE_OK;
}

void tide__side_clear(tide__side *side) {
  tide__side_drop(side);
  if (side->tensors != &side->one) free(side->tensors);
  host.tensor_release(side->staged);
  host.event_release(side->ready), host.host_job_release(side->job);
  *side = (tide__side){0};
}
