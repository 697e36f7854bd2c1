/* collective_ops.h: what the files of the operations of nccl.h share. Private. */
#pragma once

#include "comm.h"

/* One operation, checked. */
typedef struct tide__collective {
  const char *what;
  tide_collective_call call; /* kind, op, n, root and count are set; the rest on the way to the backend */
  tide_tensor *in[TIDE_MAX_DEVICES];
  tide_tensor *out[TIDE_MAX_DEVICES]; /* NULL where a rank has none */
  tide_stream *streams[TIDE_MAX_DEVICES];
} tide__collective;

/* Queues it: over the backend's collectives if they take it, else over the other. */
tide_status tide__collective_queue(tide__collective *o);
tide_status tide__collective_peers(tide__collective *o);
/* collective.c: what the backend is to do for values of that dtype. */
void tide__collective_translate(tide_collective_call *call, tide_dtype dtype);
