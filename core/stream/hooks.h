/* hooks.h: what streams ask of the memory above them. Private to core. */
#pragma once

#include "handle.h"
#include "tide/history.h"
#include "tide/memory.h"

/* What memory does for streams. Set when the code is loaded. */
typedef struct tide__stream_hooks_table {
  void (*poll)(void);                           /* after a wait: frees that waited for it */
  uint64_t (*settle)(void);                     /* tide__memory_settle */
  void (*idle)(void);                           /* after a wait: gives back a little of what is idle */
  void (*stream_gone)(int device, uint64_t id); /* its cached memory may serve others */
  void (*streams_many)(void);                   /* a second stream was made */
  void (*pool_retain)(tide_mempool *pool);      /* of what is current */
  void (*pool_release)(tide_mempool *pool);
  void (*scope_retain)(tide_allocation_scope *scope);
  void (*scope_release)(tide_allocation_scope *scope);
} tide__stream_hooks_table;
extern const tide__stream_hooks_table *tide__stream_hooks;
