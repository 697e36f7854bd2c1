/* nccl.c: collectives by NCCL, which is opened at the first call.
 *
 * One process drives all ranks, so a communicator here is NCCL's communicators of all devices, and each operation is a
 * group of one call for each. Its numbers that are needed are declared
 * here: NCCL does not change them.
 *
 * NCCL looks at its environment when a communicator is made. Multicast over NVLink (NCCL_NVLS_ENABLE) is as the
 * environment says.
 *
 * Invariants: after nccl_open the table does not change; the calling thread's device is as it was after every call,
 * although NCCL changes it. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, IN_PROGRESS = 7, OLDEST = 21000 /* 2.10: averages and bfloat16 */ };

static tide__nccl nccl;

static pthread_once_t nccl_once = PTHREAD_ONCE_INIT;
static char nccl_problem[512];
static int nccl_version;

static void nccl_open(void) {
  if (!tide__library_open(&nccl, TIDE__LIBRARY_nccl, nccl_problem, sizeof nccl_problem)) return;
  if (nccl.version(&nccl_version) != SUCCESS || nccl_version < OLDEST)
    snprintf(nccl_problem, sizeof nccl_problem, "NCCL is too old, got %d, expected version 2.10 or later",
             nccl_version);
}

static tide_status version(int *major, int *minor, int *patch) {
  pthread_once(&nccl_once, nccl_open);
  if (nccl_problem[0]) return tide__cuda_host->fail(TIDE_LIBRARY, "nccl: %s", nccl_problem);
  *major = nccl_version / 10000, *minor = nccl_version / 100 % 100, *patch = nccl_version % 100;
  return TIDE_OK;
}

/* ---- numbers of NCCL ---- */

/* ncclDataType_t, or -1. */
static int type_of(tide_dtype dtype) {
  switch (dtype) {
  case TIDE_INT8: return 0;
  case TIDE_UINT8: return 1;
  case TIDE_INT32: return 2;
  case TIDE_INT64: return 4;
  case TIDE_FLOAT16: return 6;
  case TIDE_FLOAT32: return 7;
  case TIDE_FLOAT64: return 8;
  case TIDE_BFLOAT16: return 9;
  default: return -1;
  }
}

/* All ops, which have NCCL's own numbers, are there for each of its dtypes. */
static bool takes(tide_dtype dtype) { return type_of(dtype) >= 0; }

static const char *name_of(int code) {
  static const char *const names[] = {"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
                                      "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
                                      "ncclRemoteError",   "ncclInProgress"};
  return code >= 0 && code < (int)(sizeof names / sizeof *names) ? names[code] : "ncclError";
}

static tide_status check(int device, const char *what, int code) {
  if (code == SUCCESS || code == IN_PROGRESS) return TIDE_OK;
  cudaGetLastError();
  return tide__cuda_host->fail_driver(device, what, code, name_of(code), nccl.error_string(code), false);
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
  int code = nccl.init_all(comm->rank, n, devices);
  tide__cuda_set_current(before);
  if (code != SUCCESS) {
    free(comm);
    return check(devices[0], "nccl: making a communicator", code);
  }
  *out = comm;
  return TIDE_OK;
}

static int call_rank(const cuda_comm *comm, const tide_collective_call *c, int i) {
  size_t count = (size_t)c->count;
  int type = type_of(c->dtype), op = (int)c->op;
  cudaStream_t stream = ((cuda_stream *)c->stream[i])->handle;
  void *rank = comm->rank[i];
  switch (c->kind) {
  case TIDE_COLLECTIVE_BROADCAST: return nccl.broadcast(c->in[i], c->out[i], count, type, c->root, rank, stream);
  case TIDE_COLLECTIVE_REDUCE: return nccl.reduce(c->in[i], c->out[i], count, type, op, c->root, rank, stream);
  case TIDE_COLLECTIVE_ALL_REDUCE: return nccl.all_reduce(c->in[i], c->out[i], count, type, op, rank, stream);
  case TIDE_COLLECTIVE_ALL_GATHER: return nccl.all_gather(c->in[i], c->out[i], count, type, rank, stream);
  default: return nccl.reduce_scatter(c->in[i], c->out[i], count, type, op, rank, stream);
  }
}

/* A group that was begun is ended in any case. */
static tide_status comm_run(void *impl, const tide_collective_call *call) {
  const cuda_comm *comm = impl;
  int failed = 0;
  CUcontext before = keep_device();
  int code = nccl.group_start();
  for (int i = 0; i < comm->n && code == SUCCESS; i++) {
    code = call_rank(comm, call, i);
    if (code != SUCCESS) failed = i;
  }
  int ended = nccl.group_end();
  tide__cuda_set_current(before);
  return check(comm->device[failed], "nccl", code != SUCCESS ? code : ended);
}

static tide_status comm_health(void *impl, int *rank) {
  const cuda_comm *comm = impl;
  for (int i = 0; i < comm->n; i++) {
    int code = SUCCESS, asked = nccl.async_error(comm->rank[i], &code);
    *rank = i;
    TIDE_TRY(check(comm->device[i], "nccl", asked != SUCCESS ? asked : code));
  }
  return TIDE_OK;
}

/* The ranks of one process share what they hold, which goes with the last of them. */
static void comm_close(void *impl, bool abort) {
  cuda_comm *comm = impl;
  CUcontext before = keep_device();
  for (int i = 0; i < comm->n; i++) {
    if (abort)
      nccl.give_up(comm->rank[i]);
    else
      nccl.destroy(comm->rank[i]);
  }
  cudaGetLastError();
  tide__cuda_set_current(before);
  free(comm);
}

const tide_collective tide__cuda_collective = {
    .version = version, .takes = takes, .open = comm_open, .run = comm_run, .health = comm_health, .close = comm_close};
