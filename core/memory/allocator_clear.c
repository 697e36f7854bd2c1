/* allocator_clear.c: device memory that changes its owner.
 *
 * A tenant (tide__tenant) gets no block that holds other data than its own. A block from the trees, or new memory from
 * the driver, is claimed when it is taken, and that clears all of it, with what the request leaves over. A host's
 * blocks are not cleared, and where there are no tenants a claim is one compare.
 *
 * The work is queued on the request's stream, before the lock is left: who takes the rest of the block queues behind
 * it. A captured stream would run it at each replay and not before, so there another stream does it, and is waited for.
 *
 * Invariant: all bytes of a block hold data of its tenant alone, or the tenant is 0. */
#include "allocator.h"

static tide_status fill(const tide_backend *backend, const tide_block *b, tide_stream *stream) {
  tide_fill_args a = {.flat = 1, .ndim = 1, .dtype = TIDE_UINT8, .numel = (int64_t)b->size};
  a.size[0] = a.numel, a.stride[0] = 1;
  a.head.ptr[0] = b->ptr, a.head.nptr = 1, a.head.device = stream->device;
  return backend->fill(stream, &a);
}

static tide_status fill_now(const tide_backend *backend, const tide_block *b, int device) {
  struct tide_stream_head side = {.device = device}; /* all that a backend knows of a stream */
  TIDE_TRY(backend->stream_new(&side.impl, device, 0));
  tide_status status = fill(backend, b, (tide_stream *)(void *)&side);
  if (status == TIDE_OK) status = backend->stream_sync(side.impl);
  backend->stream_free(side.impl);
  return status;
}

void tide__block_claim_slow(tide_block *b, tide__request *r, uint64_t tenant) {
  const tide_backend *backend = tide__backend_peek(r->stream->device);
  b->tenant = 0;
  if (!tenant) return;
  uint32_t number = tide__launch_note(r->stream, r->note.site, TIDE__LAUNCH_fill, 0);
  tide_status status = r->stream->capture ? fill_now(backend, b, r->stream->device)
                                          : tide__launch_end(r->stream, number, fill(backend, b, r->stream));
  if (status == TIDE_OK)
    b->tenant = tenant;
  else
    r->unclean = status;
}
