/* peer.c: operations on one device that read operands of another.
 *
 * Off at the start: an operand that lies elsewhere is a mistake more often than a wish. Once a pair is on, the checks
 * of operands let the peer's tensors pass, and the kernel reads them where they lie. The order is seen to where the use
 * of a storage is noted, which happens for every operand anyway: the first use by another device's stream makes that
 * stream wait for what the owner's current stream has queued, and the owner's next use makes it wait in turn for the
 * reader's. So a program that uses no other streams runs as if it were one queue.
 *
 * Invariant: `any` is true before an entry of the table is. */
#include "memory.h"

_Atomic bool tide__peer_any;
static _Atomic bool allowed[TIDE_MAX_DEVICES][TIDE_MAX_DEVICES];

/* What the backend was asked for on behalf of our own collectives: it stays on until the runtime ends, because work
 * that is queued may use it. */
enum { UNKNOWN, OPEN, NONE };
static _Atomic uint8_t ways[TIDE_MAX_DEVICES][TIDE_MAX_DEVICES];

static bool open_path(int device, int peer) {
  const tide_backend *b;
  bool can = false;
  if (tide__backend(&b, device) != TIDE_OK || tide__backend(&b, peer) != TIDE_OK) return false; /* for now */
  can = b->peer_access && b->device_can_access_peer(&can, device, peer) == TIDE_OK && can &&
        b->peer_access(device, peer, true) == TIDE_OK;
  atomic_store_explicit(&ways[device][peer], can ? OPEN : NONE, memory_order_relaxed);
  return can;
}

bool tide__peer_path(int device, int peer) {
  uint8_t way = atomic_load_explicit(&ways[device][peer], memory_order_relaxed);
  return way == UNKNOWN ? open_path(device, peer) : way == OPEN;
}

bool tide__peer_reads_slow(int device, int peer) {
  return device >= 0 && peer >= 0 && atomic_load_explicit(&allowed[device][peer], memory_order_relaxed);
}

static tide_status resolve(int *device, int *peer, const char *what) {
  TIDE_TRY(tide__device_resolve_accelerator(device, *device, what));
  TIDE_TRY(tide__device_resolve_accelerator(peer, *peer, what));
  if (*device == *peer)
    return tide__fail(TIDE_VALUE, "%s: a device is no peer of itself, got %s twice, expected two devices", what,
                      tide__device_text(*device));
  return TIDE_OK;
}

/* Work that is queued may still read the peer's memory: it is waited for, and new work is kept from joining it. */
static tide_status switch_off(const tide_backend *b, int device, int peer) {
  TIDE_TRY(tide__sync_asked("set_peer_access"));
  bool was = atomic_exchange(&allowed[device][peer], false);
  tide_status status = was ? tide_device_synchronize(device) : TIDE_OK;
  bool ours = atomic_load_explicit(&ways[device][peer], memory_order_relaxed) == OPEN;
  if (status == TIDE_OK && !ours) status = b->peer_access(device, peer, false);
  if (status != TIDE_OK) atomic_store(&allowed[device][peer], was);
  return status;
}

tide_status tide_set_peer_access(int device, int peer, bool enabled) {
  const tide_backend *b;
  bool can = true;
  TIDE_TRY(resolve(&device, &peer, "set_peer_access"));
  if (enabled) TIDE_TRY(tide_device_can_access_peer(&can, device, peer));
  TIDE_TRY(tide__backend(&b, peer));
  TIDE_TRY(tide__backend(&b, device));
  if (!can || !b->peer_access)
    return tide__fail(TIDE_SUPPORT, "set_peer_access: %s cannot reach the memory of %s, see can_device_access_peer",
                      tide__device_text(device), tide__device_text(peer));
  if (!enabled) return switch_off(b, device, peer);
  TIDE_TRY(b->peer_access(device, peer, true));
  atomic_store(&tide__peer_any, true);
  atomic_store(&allowed[device][peer], true);
  return TIDE_OK;
}

tide_status tide_get_peer_access(bool *out, int device, int peer) {
  TIDE_TRY(resolve(&device, &peer, "get_peer_access"));
  *out = tide__peer_reads_slow(device, peer);
  return TIDE_OK;
}

/* Queueing the wait fails on a lost device alone, and the next operation reports it. */
static void wait_for(tide_stream *stream, int device) {
  tide_stream *other;
  if (tide__stream_current(&other, device) == TIDE_OK) (void)tide_stream_wait_stream(stream, other);
}

void tide__peer_order(tide_storage *s, tide_stream *stream) {
  if (stream->device != s->device) {
    wait_for(stream, s->device);
    atomic_fetch_or_explicit(&s->readers, (uint64_t)1 << stream->device, memory_order_relaxed);
    return;
  }
  uint64_t readers = atomic_exchange_explicit(&s->readers, 0, memory_order_relaxed);
  for (int d = 0; readers; d++, readers >>= 1)
    if (readers & 1) wait_for(stream, d);
}

void tide__peer_shutdown(void) {
  atomic_store(&tide__peer_any, false);
  memset(allowed, 0, sizeof allowed);
  memset(ways, 0, sizeof ways);
}
