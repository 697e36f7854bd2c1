/* group.c: groups of the processes of a job.
 *
 * A group has two communicators of its own, so that what compares and reports operations never meets the operations
 * themselves, nor those of a host that uses MPI too. Both return errors. Alone there is no MPI, and a group of one. */
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"

tide_group *tide__world;
int tide__local_rank, tide__local_size = 1;
bool tide__crowded;
double tide__notice = 30, tide__timeout = 600;
int64_t tide__most_bytes = 1 << 30;

static tide_status new_group(tide_group **out, int size) {
  tide_group *g = calloc(1, sizeof *g);
  int *ranks = calloc((size_t)size, sizeof *ranks);
  if (!g || !ranks)
    return free(g), free(ranks), tide__dist_fail(TIDE_MEMORY, "distributed: no memory for a group of %d ranks", size);
  *g = (tide_group){.refs = 1, .size = size, .ranks = ranks};
  return *out = g, TIDE_OK;
}

int tide__group_find(const tide_group *group, int rank) {
  for (int i = 0; i < group->size; i++)
    if (group->ranks[i] == rank) return i;
  return -1;
}

static tide_status duplicate(uint64_t *out, uint64_t comm) {
  *out = 0;
  TRY_MPI(Comm_dup, (comm, out));
  TRY_MPI(Comm_set_errhandler, (*out, mpi_const.errors_return));
  return TIDE_OK;
}

tide_status tide__group_world(int size, int rank, uint64_t comm) {
  tide_group *g = NULL;
  TRY(new_group(&g, size));
  g->rank = rank;
  for (int i = 0; i < size; i++) g->ranks[i] = i;
  if (comm) TRY(duplicate(&g->data, comm));
  if (comm) TRY(duplicate(&g->check, comm));
  tide__world = g;
  return TIDE_OK;
}

static tide_status split(tide_group *g) {
  int color = g->rank < 0 ? mpi_const.undefined : 0;
  uint64_t comm = 0;
  TRY_MPI(Comm_split, (tide__world->data, color, g->rank < 0 ? 0 : g->rank, &comm));
  if (g->rank < 0) return TIDE_OK;
  g->data = comm;
  TRY_MPI(Comm_set_errhandler, (g->data, mpi_const.errors_return));
  return duplicate(&g->check, g->data);
}

tide_status tide__group_split(tide_group **out, const int *ranks, int n, uint64_t id) {
  tide_group *g = NULL;
  TRY(new_group(&g, n));
  memcpy(g->ranks, ranks, (size_t)n * sizeof *ranks);
  g->rank = tide__group_find(g, tide__world->rank), g->id = id;
  tide_status status = tide__world->data ? split(g) : TIDE_OK;
  bool is_in = status == TIDE_OK && g->rank >= 0;
  if (!is_in) tide__group_release(g);
  *out = is_in ? g : NULL;
  return status;
}

/* Its communicators stay: freeing them is a collective operation, which a collector's order is not fit for. */
void tide__group_release(tide_group *group) {
  if (!group || --group->refs > 0 || group == tide__world) return;
  host.nccl_rank_release(group->nccl);
  free(group->ranks), free(group->failure);
  free(group);
}
