/* loader.h: what the files of the loader share: the copies that one batch needs, and their way to a device. */
#pragma once

#include "tensor/tensor.h"
#include "tide/loader.h"

/* One tensor of a batch: `items` are stacked into `into`, or the only one is copied to it; what lies on a device is
 * filled through the batch's ring. Holds references. */
typedef struct loader_copy {
  struct loader_copy *next;
  bool stacked;
  int n;
  tide_tensor *into, *items[];
} loader_copy;

/* Slots of page-locked memory that are filled and copied to the device in turn. Whoever copies the batches of a loader
 * has it. */
enum { LOADER_SLOTS = 4 };
typedef struct loader_ring {
  struct loader_ring *next; /* a smaller one, which batches may have still */
  tide_stream *stream;      /* borrowed from the loader */
  int64_t bytes;            /* of a slot */
  int turn;
  tide_tensor *slot[LOADER_SLOTS];
  tide_event *copied[LOADER_SLOTS];
} loader_ring;

/* Made by the loop's thread, copied by the worker or at once, let go by the loop's thread. */
typedef struct loader_batch {
  struct loader_batch *next;
  loader_copy *copies;
  loader_ring *ring; /* borrowed from the loader, or NULL */
  tide_event *sent;  /* recorded behind what went through it, or NULL */
  int line;          /* of the program, 0: unknown */
  char source[128];
  bool done;
  tide_status status; /* the first failure of a copy, and its text */
  char message[512];
} loader_batch;

/* loader_copy.c: does what the batch says, on any thread. */
void tide__loader_run(loader_batch *batch);
void tide__loader_drop(loader_batch *batch);
tide_status tide__loader_ring_new(loader_ring **out, tide_stream *stream, int64_t bytes);
void tide__loader_ring_free(loader_ring *ring);
