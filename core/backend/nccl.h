/* nccl.h: what backends share of NCCL: its functions, its numbers, and communicators of several processes. */
#pragma once

#include "backend.h"
#include "library.h"

enum { TIDE__NCCL_SUCCESS = 0, TIDE__NCCL_IN_PROGRESS = 7 };

/* The functions, once the library is open; NULL: *problem says why it cannot be. */
const tide__nccl *tide__nccl_open(const char **problem, int *version);
int tide__nccl_type(tide_dtype dtype); /* ncclDataType_t, or -1 */
tide_status tide__nccl_check(const tide_backend_host *host, int device, const char *what, int code);
/* Queues the part of rank `i` of the call. Returns NCCL's code. */
int tide__nccl_call(const tide_collective_call *call, int i, void *comm, void *stream);

/* One rank of several processes, as in collective.h. The device is current; the stream is the driver's. */
tide_status tide__nccl_rank_id(const tide_backend_host *host, unsigned char *id);
tide_status tide__nccl_rank_open(const tide_backend_host *host, void **out, int device, const unsigned char *id, int n,
                                 int rank);
tide_status tide__nccl_rank_ready(const tide_backend_host *host, bool *ready, int device, void *comm);
void tide__nccl_rank_close(void *comm, bool abort);
