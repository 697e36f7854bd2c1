/* history.h: what allocator.c tells about its blocks: who asked for them, and the events of the memory history. */
#pragma once

#include "allocation_scope.h"

/* Who asked for a block. It stands in the block while that is in use. */
typedef struct tide__note {
  uint32_t site, stack;         /* the stack only while the history keeps stacks */
  tide_allocation_scope *scope; /* a reference while the block is in use */
} tide__note;

/* Of the calling thread, now; allocation scope is borrowed until tide__note_begin. To be called without a lock. */
tide__note tide__note_now(void);
/* A block of `bytes` is given out; its owner lets it go; no stream uses it any more. */
static inline void tide__note_begin(const tide__note *note, size_t bytes) {
  if (!note->scope) return;
  tide_allocation_scope_retain(note->scope);
  tide__allocation_scope_add(note->scope, bytes);
}
static inline void tide__note_freed(const tide__note *note, size_t bytes) {
  if (note->scope) tide__allocation_scope_sub(note->scope, bytes);
}
static inline void tide__note_end(tide__note *note) {
  if (note->scope) tide_allocation_scope_release(note->scope);
  note->scope = NULL;
}

extern _Atomic bool tide__history_on;
void tide__history_add_slow(tide_memory_action action, int device, const void *ptr, size_t size, uint64_t stream,
                            const tide__note *note);
/* One event, if the history is on: note is the block's, or NULL. A device's lock may be held. */
static inline void tide__history_add(tide_memory_action action, int device, const void *ptr, size_t size,
                                     uint64_t stream, const tide__note *note) {
  if (TIDE_UNLIKELY(atomic_load_explicit(&tide__history_on, memory_order_relaxed)))
    tide__history_add_slow(action, device, ptr, size, stream, note);
}

/* Copies the events, oldest first, each holding its allocation scope: *out is to be freed. */
tide_status tide__history_copy(tide_memory_event **out, int64_t *events, int64_t *lost);
void tide__history_shutdown(void);
