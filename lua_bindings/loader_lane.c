/* loader_lane.c: batches that go on to a GPU.
 *
 * A loader with a device copies its batches on a stream of its own, so that a batch is on its way while the loop's
 * stream works on those before it; each iteration finds the memory of the ones before there. A batch gets its memory on
 * the device when it is asked for, and its job fills it (loader_job.c). Where there was no room, or the user wants no
 * page-locked memory, the job leaves it in host memory, from which it is moved when it is given out. The loop's stream
 * is told to wait for the copy, the host is not. What the loop does with a batch keeps its memory, as with every tensor
 * that several streams use.
 *
 * A loop whose work is all on the GPU asks for batches faster than they are used up, so the host waits for the one that
 * was given out prefetch + 1 batches before: at most 2 * prefetch + 2 lie on the device.
 *
 * Invariant: slot k % slots of `left` is passed when the loop's stream has done what was queued before the loop asked
 * for the batch after k. */
#include <stdlib.h>

#include "loader.h"
#include "tide/device.h"

enum { SMALLEST_SLOT = 4096, LARGEST_SLOT = 8 << 20 }; /* bytes; larger ones do not stay in the caches */

/* A stream of before a reset has no handle any more. */
tide_status ltide_loader_lane_open(ltide_loader_lane *lane, tide_stream **kept, int device, lua_Integer prefetch) {
  *lane = (ltide_loader_lane){.device = device, .slots = prefetch + 1};
  if (device == TIDE_CPU) return TIDE_OK;
  if (device == TIDE_CURRENT) lane->device = tide_current_device();
  if (*kept && (tide_stream_device(*kept) != lane->device || !tide_stream_handle(*kept))) {
    tide_stream_release(*kept);
    *kept = NULL;
  }
  tide_status status = *kept ? TIDE_OK : tide_stream_new(kept, lane->device, 0);
  if (status != TIDE_OK) return status;
  tide_stream_retain(*kept);
  lane->stream = *kept;
  return TIDE_OK;
}

static void free_ring(ltide_loader_ring *r) {
  for (int i = 0; i < LTIDE_LOADER_SLOTS; i++) {
    tide_tensor_release_deferred(r->slot[i]);
    tide_event_release(r->copied[i]);
  }
  free(r);
}

/* May run in a finaliser. */
void ltide_loader_lane_close(ltide_loader_lane *lane) {
  while (lane->ring) {
    ltide_loader_ring *r = lane->ring;
    lane->ring = r->next;
    free_ring(r);
  }
  for (lua_Integer i = 0; lane->left && i < lane->slots; i++) tide_event_release(lane->left[i]);
  free(lane->left);
  tide_stream_release(lane->stream);
  *lane = (ltide_loader_lane){.device = TIDE_CPU};
}

void ltide_loader_lane_asked(lua_State *L, ltide_loader_lane *lane, lua_Integer given) {
  tide_stream *current;
  if (!lane->stream || !given) return;
  if (!lane->left && !(lane->left = calloc((size_t)lane->slots, sizeof *lane->left)))
    ltide_error(L, "OutOfMemoryError", "loader: no host memory for the events of %I batches", lane->slots);
  tide_event **e = &lane->left[given % lane->slots];
  ltide_try(L, tide_current_stream(&current, lane->device));
  if (!*e) ltide_try(L, tide_event_new(e, 0));
  if (tide_event_record(*e, current) == TIDE_OK) return;
  tide_event_release(*e); /* one of before a reset: the batch that comes next is refused on its way, with its number */
  *e = NULL;
}

/* {==== The ring */

static tide_status new_ring(ltide_loader_ring **out, tide_stream *stream, int64_t bytes) {
  ltide_loader_ring *r = calloc(1, sizeof *r);
  if (!r) return TIDE_MEMORY;
  r->stream = stream, r->bytes = bytes;
  tide_options o = {TIDE_UINT8, TIDE_CPU, true};
  tide_status status = TIDE_OK;
  for (int i = 0; i < LTIDE_LOADER_SLOTS && status == TIDE_OK; i++) {
    status = tide_empty(&r->slot[i], &bytes, 1, &o);
    if (status == TIDE_OK) status = tide_event_new(&r->copied[i], 0);
  }
  if (status == TIDE_OK)
    *out = r;
  else
    free_ring(r);
  return status;
}

/* A larger one takes the place of the first; jobs that have that go on with it. */
static tide_status find_ring(ltide_loader_lane *lane, int64_t bytes) {
  int64_t slot = SMALLEST_SLOT;
  while (slot < bytes && slot < LARGEST_SLOT) slot *= 2;
  if (lane->ring && lane->ring->bytes >= slot) return TIDE_OK;
  ltide_loader_ring *r;
  tide_status status = new_ring(&r, lane->stream, slot);
  if (status == TIDE_OK) r->next = lane->ring, lane->ring = r;
  return status;
}

tide_status ltide_loader_lane_empty(ltide_loader_lane *lane, tide_tensor **out, const int64_t *size, int ndim,
                                    tide_dtype dtype) {
  tide_options o = {dtype, lane->device, false};
  tide_status status = tide_current_override(lane->device, lane->stream);
  if (status != TIDE_OK) return status;
  status = tide_empty(out, size, ndim, &o);
  tide_current_override(lane->device, NULL);
  if (status != TIDE_OK) return status;
  status = find_ring(lane, tide_tensor_numel(*out) * (int64_t)tide_dtype_size(dtype));
  if (status == TIDE_OK) return TIDE_OK;
  tide_tensor_release(*out);
  *out = NULL;
  return status;
}

/* {==== On the way */

/* On the lane, where it is not there yet, or, what lies on some device already, on the loop's stream. */
static tide_status move(ltide_tensor *u, const ltide_loader_lane *lane, bool *moved) {
  tide_options o = {TIDE_DTYPE_NONE, lane->device, false};
  tide_tensor *there;
  bool from_host = tide_tensor_device(u->t) == TIDE_CPU;
  tide_status status = from_host ? tide_current_override(lane->device, lane->stream) : TIDE_OK;
  if (status != TIDE_OK) return status;
  *moved |= from_host;
  status = tide_to(&there, u->t, &o, true, false);
  if (from_host) tide_current_override(lane->device, NULL);
  if (status != TIDE_OK) return status;
  tide_tensor_release(u->t);
  u->t = there;
  return TIDE_OK;
}

tide_status ltide_loader_lane_move(lua_State *L, ltide_loader_lane *lane, lua_Integer k, int handles,
                                   tide_event *sent) {
  if (!lane->stream) return TIDE_OK;
  bool moved = false;
  tide_event *e = k > lane->slots && lane->left ? lane->left[k % lane->slots] : NULL; /* of the batch k - slots */
  tide_status status = e ? tide_event_synchronize(e) : TIDE_OK;
  for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, handles); status == TIDE_OK && i <= n; i++) {
    lua_rawgeti(L, handles, i);
    status = move(lua_touserdata(L, -1), lane, &moved);
    lua_pop(L, 1);
  }
  tide_stream *current; /* asked for now: finding memory may have run code of the script's */
  if (status == TIDE_OK) status = tide_current_stream(&current, lane->device);
  if (status == TIDE_OK && sent) status = tide_stream_wait_event(current, sent);
  return status == TIDE_OK && moved ? tide_stream_wait_stream(current, lane->stream) : status;
}
