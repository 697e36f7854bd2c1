/* sim_comm.c: work of simulated devices that concerns several of them.
 *
 * Many pieces are copied by one kernel, whose addresses stand in a list of their own, so they are looked up here when
 * its turn comes.
 *
 * Invariant: a piece touches live memory of the device or of a peer whose way is open, or the device is lost. */
#include <stdlib.h>

#include "sim.h"

#include "core.h"

tide_status tide__sim_run_pack(const sim_args *args) {
  for (int i = 0; i < args->pack.n; i++) {
    const tide_pack_piece *p = &args->pack.piece[i];
    memcpy(p->to, p->from, p->bytes);
  }
  return TIDE_OK;
}

bool tide__sim_translate_pack(int device, tide_pack_args *a) {
  for (int i = 0; i < a->n; i++) {
    tide_pack_piece *p = &a->piece[i];
    p->to = tide__sim_operand(device, p->to);
    p->from = tide__sim_operand(device, p->from);
    if (!p->to || !p->from) return false;
  }
  return true;
}

tide_status tide__sim_pack(tide_stream *stream, const tide_pack_args *a) {
  static const double launch = 3e-6, bytes_per_second = 4e12;
  uint64_t bytes = 0;
  TIDE_TRY(tide__sim_enter("pack"));
  sim_op *op = tide__sim_op_new(SIM_KERNEL);
  if (!op) return TIDE_MEMORY;
  op->run = tide__sim_run_pack;
  op->args.pack = *a;
  for (int i = 0; i < a->n; i++) bytes += 2 * a->piece[i].bytes;
  return tide__sim_submit(tide_stream_impl(stream), op, launch + (double)bytes / bytes_per_second, "pack");
}
