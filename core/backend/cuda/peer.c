/* peer.c: from one device straight to the memory of another.
 *
 * Copies switch the way on by themselves, since it only makes them faster. It stays on until the process ends: which
 * operations may use it is core's to decide, and switching it off would need every copy that runs to have ended.
 *
 * Invariant: the driver is asked once for each ordered pair. */
#include "internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { UNKNOWN, OPEN, NONE } ways[TIDE_MAX_DEVICES][TIDE_MAX_DEVICES];

bool tide__cuda_peer_open(int device, int peer) {
  TIDE_LOCKED(&lock);
  if (ways[device][peer] == UNKNOWN) {
    int can = 0;
    CUDA_ON_RELAXED(device); /* the first copy between the two may be in a capture */
    bool open = cudaDeviceCanAccessPeer(&can, device, peer) == cudaSuccess && can;
    if (open) {
      int rc = (int)cudaDeviceEnablePeerAccess(peer, 0);
      open = rc == cudaSuccess || rc == cudaErrorPeerAccessAlreadyEnabled;
    }
    cudaGetLastError();
    ways[device][peer] = open ? OPEN : NONE;
    if (open) tide__cuda_range_peer(peer, device); /* mapped memory has an access list of its own */
  }
  return ways[device][peer] == OPEN;
}

tide_status tide__cuda_peer_access(int device, int peer, bool enabled) {
  if (!enabled || tide__cuda_peer_open(device, peer)) return TIDE_OK;
  return tide__cuda_host->fail(TIDE_SUPPORT, "set_peer_access: the driver opens no way from cuda:%d to cuda:%d", device,
                               peer);
}
