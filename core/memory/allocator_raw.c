/* allocator_raw.c: memory that is known by its address alone.
 *
 * Backends take scratch memory for the length of queued work: few pieces at a time, so a list will do. Programs that
 * know pointers alone take memory to keep: a table by address finds its block again when they give it back.
 *
 * Invariant: a block is in the list or the table, linked by `right`, from its taking to its giving back. */
#include "allocator.h"

/* ---- scratch memory for backends: counts in the bound quota from its taking to its giving back ---- */

_Thread_local tide__scratch_list *tide__scratch_listens;

static void listen(tide__scratch_list *list, void *ptr, size_t bytes) {
  const int room = (int)(sizeof list->item / sizeof *list->item);
  if (list->n == room) list->failed = true;
  if (list->n < room) list->item[list->n].ptr = ptr, list->item[list->n++].bytes = bytes;
}

static tide_status give_again(void **out, tide__scratch_list *list, size_t bytes) {
  if (list->at == list->n || list->item[list->at].bytes != bytes)
    return tide__fail(TIDE_SUPPORT, "scratch: the operation wants other memory than when it was recorded");
  *out = list->item[list->at++].ptr;
  return TIDE_OK;
}

static tide_status get(void **out, tide_stream *stream, size_t bytes,
                       tide_status (*charge)(tide_quota **out, size_t bytes, int device)) {
  tide__scratch_list *list = tide__scratch_listens;
  tide_quota *quota = NULL;
  if (list && list->again) return give_again(out, list, bytes);
  if (stream->device < 0)
    return tide__fail(TIDE_SUPPORT, "scratch: the CPU has no streams, expected one of an accelerator");
  if (tide__quota_bound() && !tide__pool_counts(stream)) TIDE_TRY(charge(&quota, bytes, stream->device));
  tide_block *b;
  tide_status status = tide__block_alloc(&b, stream, bytes);
  if (status != TIDE_OK) {
    if (quota) tide__quota_give(quota, bytes, stream->device);
    return status;
  }
  tide__allocator *a = b->owner;
  tide__allocator_enter(a);
  b->right = a->scratch, a->scratch = b, b->quota = quota;
  tide__allocator_unlock(a);
  *out = b->ptr;
  if (list) listen(list, b->ptr, bytes);
  return TIDE_OK;
}

static tide_status take_now(tide_quota **out, size_t bytes, int device) { return tide__quota_take(out, bytes, device); }

tide_status tide__scratch_get(void **out, tide_stream *stream, size_t bytes) {
  return get(out, stream, bytes, tide__quota_charge);
}

tide_status tide__scratch_try(void **out, tide_stream *stream, size_t bytes) {
  return get(out, stream, bytes, take_now);
}

/* Few pieces are out at a time: a backend gives them back as soon as the work is queued. */
void tide__scratch_put(tide_stream *stream, void *ptr) {
  if (!ptr || (tide__scratch_listens && tide__scratch_listens->again)) return;
  tide__allocator *a = tide__allocator_of(stream->device);
  tide__allocator_enter(a);
  tide_block **at = &a->scratch;
  while (*at && (*at)->ptr != ptr) at = &(*at)->right;
  tide_block *b = *at;
  if (b) *at = b->right;
  tide__allocator_unlock(a);
  if (b && b->quota) tide__quota_give(b->quota, b->requested, stream->device);
  tide__block_free(b);
}

/* ---- memory for programs ---- */

static tide_block **place_of(tide__allocator *a, const void *ptr) {
  tide_block **at = &a->raw[((uintptr_t)ptr >> 9) * 0x9E3779B97F4A7C15u >> (64 - TIDE__RAW_BITS)];
  while (*at && (*at)->ptr != ptr) at = &(*at)->right;
  return at;
}

tide_status tide_allocator_take(void **out, size_t bytes, int device, tide_stream *stream) {
  TIDE_GIVEN("allocator_take", out);
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "caching_allocator_alloc"));
  if (!stream) TIDE_TRY(tide__stream_current(&stream, device));
  TIDE_TRY(tide__stream_check(stream, "caching_allocator_alloc"));
  if (stream->device != device)
    return tide__fail(TIDE_DEVICE, "caching_allocator_alloc: wrong stream, got one of %s, expected one of %s",
                      tide__device_text(stream->device), tide__device_text(device));
  tide_block *b;
  TIDE_TRY(tide__block_alloc(&b, stream, bytes));
  tide__allocator *a = b->owner;
  tide__allocator_enter(a);
  b->right = NULL;
  *place_of(a, b->ptr) = b;
  tide__allocator_unlock(a);
  *out = b->ptr;
  return TIDE_OK;
}

tide_status tide_allocator_give(void *ptr) {
  if (!ptr) return TIDE_OK;
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    tide__allocator *a = tide__allocator_of(d);
    if (a->source == SOURCE_UNREADY) continue;
    tide__allocator_enter(a);
    tide_block **at = place_of(a, ptr), *b = *at;
    if (b) *at = b->right;
    tide__allocator_unlock(a);
    if (!b) continue;
    tide__block_free(b);
    return TIDE_OK;
  }
  return tide__fail(TIDE_VALUE,
                    "caching_allocator_delete: unknown pointer, got %p, expected one that caching_allocator_alloc gave",
                    ptr);
}
