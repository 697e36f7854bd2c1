/* collective.h: how a backend offers collective operations of its own: NCCL, or a simulation of it.
 *
 * A communicator is for a list of devices, which are its ranks. A call queues one operation on a stream of each rank
 * and returns; core allows one call at a time. Calls that can hang are watched by core, which asks `health` and in the
 * end aborts. */
#pragma once

#include "tide/nccl.h"

typedef enum tide_collective_kind {
  TIDE_COLLECTIVE_BROADCAST, /* in of the root to out of all */
  TIDE_COLLECTIVE_REDUCE,    /* out of the root alone */
  TIDE_COLLECTIVE_ALL_REDUCE,
  TIDE_COLLECTIVE_ALL_GATHER,    /* out holds n times count elements */
  TIDE_COLLECTIVE_REDUCE_SCATTER /* in holds n times count elements */
} tide_collective_kind;

typedef struct tide_collective_call {
  tide_collective_kind kind;
  tide_nccl_op op;
  tide_dtype dtype; /* one that the backend takes */
  int n, root;
  int64_t count;                  /* elements, more than 0 */
  void *stream[TIDE_MAX_DEVICES]; /* the backend's */
  const void *in[TIDE_MAX_DEVICES];
  void *out[TIDE_MAX_DEVICES]; /* may be in[i] or that rank's part of it */
} tide_collective_call;

typedef struct tide_collective {
  /* Opens the library; LIBRARY, with the reason, where there is none. */
  tide_status (*version)(int *major, int *minor, int *patch);
  bool (*takes)(tide_dtype dtype);
  tide_status (*open)(void **out, const int *devices, int n); /* the devices are distinct */
  tide_status (*run)(void *comm, const tide_collective_call *call);
  /* Has something gone wrong since? Then it is told as ACCELERATOR, and *rank says where. */
  tide_status (*health)(void *comm, int *rank);
  /* abort: ends what still runs. Frees the communicator. */
  void (*close)(void *comm, bool abort);

  /* One rank of several processes (optional, all or none). The first rank's id names the communicator to all. */
  tide_status (*rank_id)(unsigned char *id);                                                  /* TIDE_NCCL_ID bytes */
  tide_status (*rank_open)(void **out, int device, const unsigned char *id, int n, int rank); /* waits */
  /* Fails if something has gone wrong. */
  tide_status (*rank_ready)(bool *ready, int device, void *comm);
  tide_status (*rank_run)(int device, void *comm, const tide_collective_call *call); /* this rank's part is [0] */
  void (*rank_close)(int device, void *comm, bool abort);
} tide_collective;
