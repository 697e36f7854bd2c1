/* nccl.c: collectives by NCCL, which is opened at the first call.
 *
 * One process drives all ranks, so a communicator here is NCCL's communicators of all devices, and each operation is a
 * group of one call for each; or, of several processes, one rank.
 *
 * NCCL looks at its environment when a communicator is made. Multicast over NVLink (NCCL_NVLS_ENABLE) is as the
 * environment says.
 *
 * Invariants: after nccl_open the table does not change; the calling thread's device is as it was after every call,
 * although NCCL changes it. */
#include "backend/nccl.h"
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tide__nccl *nccl;

static tide_status version(int *major, int *minor, int *patch) {
  const char *problem;
  int number;
  nccl = tide__nccl_open(&problem, &number);
  if (!nccl) return tide__cuda_host->fail(TIDE_LIBRARY, "nccl: %s", problem);
  *major = number / 10000, *minor = number / 100 % 100, *patch = number % 100;
  return TIDE_OK;
}

/* All ops, which have NCCL's own numbers, are there for each of its dtypes. */
static bool takes(tide_dtype dtype) { return tide__nccl_type(dtype) >= 0; }

static tide_status check(int device, const char *what, int code) {
  if (code != TIDE__NCCL_SUCCESS && code != TIDE__NCCL_IN_PROGRESS) cudaGetLastError();
  return tide__nccl_check(tide__cuda_host, device, what, code);
}

/* ---- communicators ---- */

typedef struct cuda_comm {
  int n, device[TIDE_MAX_DEVICES];
  void *rank[TIDE_MAX_DEVICES];
} cuda_comm;

static CUcontext keep_device(void) {
  CUcontext before = NULL;
  tide__cuda_get_current(&before);
  return before;
}

static tide_status comm_open(void **out, const int *devices, int n) {
  cuda_comm *comm = calloc(1, sizeof *comm);
  if (!comm) return tide__cuda_host->fail(TIDE_MEMORY, "nccl: no host memory for a communicator");
  comm->n = n;
  memcpy(comm->device, devices, (size_t)n * sizeof *devices);
  CUcontext before = keep_device();
  int code = nccl->init_all(comm->rank, n, devices);
  tide__cuda_set_current(before);
  if (code != TIDE__NCCL_SUCCESS) {
    free(comm);
    return check(devices[0], "nccl: making a communicator", code);
  }
  *out = comm;
  return TIDE_OK;
}

static void *handle_of(const tide_collective_call *c, int i) { return ((cuda_stream *)c->stream[i])->handle; }

/* A group that was begun is ended in any case. */
static tide_status comm_run(void *impl, const tide_collective_call *call) {
  const cuda_comm *comm = impl;
  int failed = 0;
  CUcontext before = keep_device();
  int code = nccl->group_start();
  for (int i = 0; i < comm->n && code == TIDE__NCCL_SUCCESS; i++) {
    code = tide__nccl_call(call, i, comm->rank[i], handle_of(call, i));
    if (code != TIDE__NCCL_SUCCESS) failed = i;
  }
  int ended = nccl->group_end();
  tide__cuda_set_current(before);
  return check(comm->device[failed], "nccl", code != TIDE__NCCL_SUCCESS ? code : ended);
}

static tide_status comm_health(void *impl, int *rank) {
  const cuda_comm *comm = impl;
  for (int i = 0; i < comm->n; i++) {
    int code = TIDE__NCCL_SUCCESS, asked = nccl->async_error(comm->rank[i], &code);
    *rank = i;
    TIDE_TRY(check(comm->device[i], "nccl", asked != TIDE__NCCL_SUCCESS ? asked : code));
  }
  return TIDE_OK;
}

/* The ranks of one process share what they hold, which goes with the last of them. */
static void comm_close(void *impl, bool abort) {
  cuda_comm *comm = impl;
  CUcontext before = keep_device();
  for (int i = 0; i < comm->n; i++) {
    if (abort)
      nccl->give_up(comm->rank[i]);
    else
      nccl->destroy(comm->rank[i]);
  }
  cudaGetLastError();
  tide__cuda_set_current(before);
  free(comm);
}

/* ---- one rank of several processes ---- */

static tide_status rank_id(unsigned char *id) { return tide__nccl_rank_id(tide__cuda_host, id); }

static tide_status rank_open(void **out, int device, const unsigned char *id, int n, int rank) {
  CUDA_ON(device);
  return tide__nccl_rank_open(tide__cuda_host, out, device, id, n, rank);
}

static tide_status rank_ready(bool *ready, int device, void *comm) {
  return tide__nccl_rank_ready(tide__cuda_host, ready, device, comm);
}

static tide_status rank_run(int device, void *comm, const tide_collective_call *call) {
  CUDA_ON(device);
  return check(device, "nccl", tide__nccl_call(call, 0, comm, handle_of(call, 0)));
}

static void rank_close(int device, void *comm, bool abort) {
  CUDA_ON(device);
  tide__nccl_rank_close(comm, abort);
  cudaGetLastError();
}

const tide_collective tide__cuda_collective = {.version = version,
                                               .takes = takes,
                                               .open = comm_open,
                                               .run = comm_run,
                                               .health = comm_health,
                                               .close = comm_close,
                                               .rank_id = rank_id,
                                               .rank_open = rank_open,
                                               .rank_ready = rank_ready,
                                               .rank_run = rank_run,
                                               .rank_close = rank_close};
