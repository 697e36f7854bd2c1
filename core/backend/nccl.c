/* nccl.c: what backends share of NCCL, which is opened at the first call. Its numbers are declared here: NCCL does not
 * change them. This file is part of libtide, for simulated devices, and of libtide_cuda.
 *
 * A communicator of several processes is one whose calls wait: with others NCCL launches by a thread of its own, and a
 * call takes 80 us in place of 20. Ranks connect where it is made, so that no later call waits for another rank.
 *
 * Invariant: after open the table does not change. */
#include "backend/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST = 21000 /* 2.10: averages and bfloat16 */ };

static tide__nccl calls;
static tide__nccl_ranks ranks;
static char problem_all[512], problem_ranks[512];
static int version_all;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_once(void) {
  if (!tide__library_open(&calls, TIDE__LIBRARY_nccl, problem_all, sizeof problem_all)) return;
  if (calls.version(&version_all) != TIDE__NCCL_SUCCESS || version_all < OLDEST)
    snprintf(problem_all, sizeof problem_all, "NCCL is too old, got %d, expected version 2.10 or later", version_all);
  else
    tide__library_open(&ranks, TIDE__LIBRARY_nccl_ranks, problem_ranks, sizeof problem_ranks);
}

const tide__nccl *tide__nccl_open(const char **problem, int *version) {
  pthread_once(&once, open_once);
  *problem = problem_all, *version = version_all;
  return problem_all[0] ? NULL : &calls;
}

int tide__nccl_type(tide_dtype dtype) {
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

static const char *name_of(int code) {
  static const char *const names[] = {"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
                                      "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
                                      "ncclRemoteError",   "ncclInProgress"};
  return code >= 0 && code < (int)(sizeof names / sizeof *names) ? names[code] : "ncclError";
}

tide_status tide__nccl_check(const tide_backend_host *host, int device, const char *what, int code) {
  if (code == TIDE__NCCL_SUCCESS || code == TIDE__NCCL_IN_PROGRESS) return TIDE_OK;
  return host->fail_driver(device, what, code, name_of(code), calls.error_string(code), false);
}

int tide__nccl_call(const tide_collective_call *c, int i, void *comm, void *stream) {
  size_t count = (size_t)c->count;
  int type = tide__nccl_type(c->dtype), op = (int)c->op;
  switch (c->kind) {
  case TIDE_COLLECTIVE_BROADCAST: return calls.broadcast(c->in[i], c->out[i], count, type, c->root, comm, stream);
  case TIDE_COLLECTIVE_REDUCE: return calls.reduce(c->in[i], c->out[i], count, type, op, c->root, comm, stream);
  case TIDE_COLLECTIVE_ALL_REDUCE: return calls.all_reduce(c->in[i], c->out[i], count, type, op, comm, stream);
  case TIDE_COLLECTIVE_ALL_GATHER: return calls.all_gather(c->in[i], c->out[i], count, type, comm, stream);
  default: return calls.reduce_scatter(c->in[i], c->out[i], count, type, op, comm, stream);
  }
}

/* ---- several processes ---- */

/* ncclConfig_t of version 2.14: a later NCCL takes what it has further from its own defaults. */
typedef struct config {
  size_t size;
  unsigned magic, version;
  int blocking;
} config;

tide_status tide__nccl_rank_id(const tide_backend_host *host, unsigned char *id) {
  const char *problem;
  int version;
  if (!tide__nccl_open(&problem, &version)) return host->fail(TIDE_LIBRARY, "nccl: %s", problem);
  if (problem_ranks[0]) return host->fail(TIDE_LIBRARY, "nccl: %s", problem_ranks);
  return tide__nccl_check(host, TIDE_CPU, "nccl: a name for communicators", ranks.get_id(id));
}

tide_status tide__nccl_rank_open(const tide_backend_host *host, void **out, int device, const unsigned char *id, int n,
                                 int rank) {
  const char *problem;
  int version;
  if (!tide__nccl_open(&problem, &version)) return host->fail(TIDE_LIBRARY, "nccl: %s", problem);
  if (problem_ranks[0]) return host->fail(TIDE_LIBRARY, "nccl: %s", problem_ranks);
  tide__nccl_id name;
  memcpy(name.bytes, id, sizeof name.bytes);
  config c = {sizeof c, 0xcafebeef, 21400, 1};
  return tide__nccl_check(host, device, "nccl: making a communicator", ranks.init_rank(out, n, name, rank, &c));
}

tide_status tide__nccl_rank_ready(const tide_backend_host *host, bool *ready, int device, void *comm) {
  int state = TIDE__NCCL_SUCCESS, code = calls.async_error(comm, &state);
  *ready = code == TIDE__NCCL_SUCCESS && state == TIDE__NCCL_SUCCESS;
  return tide__nccl_check(host, device, "nccl", code == TIDE__NCCL_SUCCESS ? state : code);
}

void tide__nccl_rank_close(void *comm, bool abort) {
  if (abort)
    calls.give_up(comm);
  else
    calls.destroy(comm);
}
