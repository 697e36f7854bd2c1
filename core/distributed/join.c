/* join.c: how this process joins the others of its job, and leaves them.
 *
 * Invariant: MPI is finalized here only where it was initialised here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "distributed/room.h"
#include "os/os.h"

static bool is_ours, has_left; /* MPI */
static uint64_t siblings;      /* a communicator of the ranks of this host */

static tide_status initialise(void) {
  int flag = 0, level = 0;
  TRY_MPI(Finalized, (&flag));
  if (flag || has_left)
    return tide__dist_fail(TIDE_STATE, "init_process_group: MPI is finalized, and cannot begin again");
  TRY_MPI(Initialized, (&flag));
  if (flag) { /* the host calls it whenever it likes */
    TRY_MPI(Query_thread, (&level));
    tide__progress_allow(level >= mpi_const.multiple);
    return TIDE_OK;
  }
  TRY_MPI(Init_thread, (NULL, NULL, mpi_const.serialized, &level));
  is_ours = true;
  tide__progress_allow(level >= mpi_const.serialized);
  TRY_MPI(Comm_set_errhandler, (mpi_const.world, mpi_const.errors_return)); /* Open MPI reports some errors there */
  return TIDE_OK;
}

/* The launcher has started more processes than the library sees. */
static tide_status fail_alone(const tide__launch *launch, int size) {
  bool is_open_mpi = !strcmp(mpi_abi, "Open MPI"), is_slurm = !strncmp(launch->variable, "SLURM", 5);
  return tide__dist_fail(
      TIDE_LIBRARY,
      "init_process_group: the launcher started %d processes (%s), but %s, a library of %s, knows of %d: "
      "they do not belong together; expected %sa launcher of %s (mpirun.%s), or TIDE_MPI_LIBRARY=%s",
      launch->size, launch->variable, mpi_file, mpi_abi, size,
      is_slurm ? "srun --mpi=pmix or --mpi=pmi2 (srun --mpi=list says which there are), " : "", mpi_abi,
      is_open_mpi ? "openmpi" : "mpich", is_open_mpi ? "libmpich.so.12" : "libmpi.so.40");
}

/* Has this machine more ranks than processors that one of them may use? Launchers bind each rank to some of its own. */
static tide_status count_processors(uint64_t local) {
  unsigned char usable[1024];
  int n = (int)sizeof usable, count = 0, flag = 0, status[TIDE__MPI_STATUS];
  uint64_t request = 0;
  for (int i = 0; i < n; i++) usable[i] = tide__os_may_use(i);
  void *in = (void *)(intptr_t)mpi_const.in_place;
  TRY_MPI(Iallreduce, (in, usable, n, mpi_const.uint8, mpi_const.max, local, &request));
  while (!flag) TRY_MPI(Test, (&request, &flag, status));
  for (int i = 0; i < n; i++) count += usable[i];
  tide__crowded = tide__local_size > count;
  return TIDE_OK;
}

static tide_status count_local(void) {
  TRY_MPI(Comm_split_type, (mpi_const.world, mpi_const.shared, 0, mpi_const.info_null, &siblings));
  TRY_MPI(Comm_rank, (siblings, &tide__local_rank));
  TRY_MPI(Comm_size, (siblings, &tide__local_size));
  return count_processors(siblings);
}

static tide_status join(const tide__launch *launch) {
  int size, rank;
  TRY(tide__launch_open(launch));
  if (!tide__launch_host_has_mpi()) TRY(tide__launch_check_pmi(launch));
  TRY(initialise());
  TRY_MPI(Comm_size, (mpi_const.world, &size));
  TRY_MPI(Comm_rank, (mpi_const.world, &rank));
  if (launch->variable && size == 1 && launch->size > 1) {
    tide_status status = fail_alone(launch, size);
    tide__tell_elsewhere(host.error_get()->message, launch->rank > 0);
    return status;
  }
  tide__launch_own();
  TRY(count_local());
  return tide__group_world(size, rank, mpi_const.world);
}

tide_status tide__group_join(const tide_distributed_config *config) {
  if (config && config->notice > 0) tide__notice = config->notice;
  if (config && config->timeout > 0) tide__timeout = config->timeout;
  bool alone = config && config->alone;
  if (tide__world && alone && tide__world->size > 1)
    return tide__dist_fail(TIDE_STATE, "init_process_group: backend: got 'alone', but %d processes have been joined",
                           tide__world->size);
  if (tide__world) return TIDE_OK;
  const char *most = getenv("TIDE_MPI_MOST_BYTES"); /* of one call of MPI: for tests of long messages */
  if (most && atoll(most) > 0) tide__most_bytes = atoll(most);
  tide__launch launch = tide__launch_read();
  if (!alone && (launch.variable || tide__launch_host_has_mpi())) return join(&launch);
  if (!alone) TRY(tide__launch_check_alone(&launch));
  if (config && config->needs_mpi)
    return tide__dist_fail(TIDE_STATE, "init_process_group: no launcher of MPI has started this process, expected "
                                       "mpirun -n 4 tide script.lua, or tide --ranks 4 script.lua");
  return tide__group_world(1, 0, 0);
}

bool tide__group_is_joined(void) {
  int flag = 0;
  if (!tide__world || is_ours || !mpi) return tide__world;
  return !mpi->Finalized(&flag) && !flag;
}

/* A message that is left at the end had another rank or tag than its receiver expected. */
static void report_unreceived(void) {
  int status[TIDE__MPI_STATUS], flag = 0;
  if (!tide__world || tide__world->size == 1) return;
  if (mpi->Iprobe(mpi_const.any_source, mpi_const.any_tag, tide__world->data, &flag, status) || !flag) return;
  char text[100];
  snprintf(text, sizeof text, "a message from rank %d with tag %d was not received", status[mpi_const.status_source],
           status[mpi_const.status_tag]);
  tide__tell(text);
}

#if defined(__GLIBC__)
/* Over the TCP of UCX 1.13, Finalize of MPICH 4.0.2 did not come back in every other run of three ranks on two hosts,
 * of programs in C too. It is left out there. Then the launcher kills the others of a host once one has ended, and
 * looks at its exit code alone: they end together, and failures first. */
static void end_together(int code, void *unused) {
  int flag = 0, status[TIDE__MPI_STATUS];
  uint64_t request = 0;
  (void)unused;
  if (mpi->Ibarrier(siblings, &request)) return;
  while (!mpi->Test(&request, &flag, status) && !flag) tide__progress_nap(1e-3);
  if (!code) tide__progress_nap(0.1);
}

static bool ends_without(void) {
  char version[TIDE__MPI_TEXT] = "";
  int length = 0;
  return tide__local_size < tide__world->size && !mpi->Get_library_version(version, &length) &&
         !strncmp(version, "MPICH", 5) && !on_exit(end_together, NULL);
}
#else
static bool ends_without(void) { return false; }
#endif

void tide__group_leave(void) {
  int flag = 0;
  tide__progress_end();
  if (tide__world) host.nccl_rank_release(tide__world->nccl), tide__world->nccl = NULL;
  if (is_ours && !mpi->Finalized(&flag) && !flag) {
    report_unreceived();
    has_left = true;
    if (!ends_without()) mpi->Finalize();
  }
  tide_group *world = tide__world;
  is_ours = false, tide__world = NULL;
  tide__message_end();
  tide__group_release(world); /* works hold on to it */
}
