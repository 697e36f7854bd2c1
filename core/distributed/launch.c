/* launch.c: which launcher has started this process, and which library of MPI belongs to it.
 *
 * A launcher leaves variables in the environment. They say how many processes there are before any library is open, so
 * that a library of another MPI, which would see one process alone, is found out. Processes that this one starts
 * inherit the variables: TIDE_MPI_OWNER says to them that a process has used them up.
 *
 * Invariant: nothing is opened by looking. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "distributed/room.h"
#include "os/os.h"

static const char all_libraries[] = "libmpi.so.40 libmpich.so.12 libmpi.so.12 libmpi_abi.so.1 libmpi.so";

/* In the order of the search. Slurm's own and PMIx's say nothing of the MPI. PMIx has no size, but a rank below it. */
static const struct launcher {
  const char *size, *rank, *libraries;
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "libmpi.so.40 libmpi.so"},
    {"PMI_SIZE", "PMI_RANK", "libmpich.so.12 libmpi.so.12 libmpi_abi.so.1 libmpich.so"},
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "libmpi.so.12 libmpich.so.12"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", all_libraries},
    {"FLUX_JOB_SIZE", "FLUX_TASK_RANK", all_libraries},
    {"PMIX_RANK", "PMIX_RANK", all_libraries},
};
static const char owner[] = "TIDE_MPI_OWNER";
static bool is_owner; /* has this process set it? */

static int number_of(const char *name) {
  const char *text = getenv(name);
  char *end;
  long n = text ? strtol(text, &end, 10) : -1;
  return text && end != text && !*end && n >= 0 && n < INT_MAX ? (int)n : -1;
}

tide__launch tide__launch_read(void) {
  tide__launch launch = {.rank = -1, .size = 1};
  launch.inherited = !is_owner && getenv(owner);
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers && !launch.inherited; i++) {
    int size = number_of(launchers[i].size) + (launchers[i].size == launchers[i].rank);
    if (size < 1) continue;
    launch.variable = launchers[i].size, launch.size = size, launch.rank = number_of(launchers[i].rank);
    break;
  }
  return launch;
}

tide_status tide__launch_check_alone(const tide__launch *launch) {
  int size = number_of("WORLD_SIZE"), rank = number_of("RANK");
  if (launch->inherited || size < 2 || rank < 0 || !getenv("MASTER_ADDR")) return TIDE_OK;
  tide__dist_fail(TIDE_STATE,
                  "init_process_group: RANK, WORLD_SIZE=%d and MASTER_ADDR are set by a launcher without MPI, such as "
                  "torchrun; expected mpirun -n %d tide script.lua, srun, or tide --ranks %d script.lua, or "
                  "{backend = 'alone'} for a group of this process only",
                  size, size, size);
  tide__tell_elsewhere(host.error_get()->message, rank > 0);
  return TIDE_STATE;
}

/* Open MPI ends a process of srun that has no PMI. One that was chosen by name is asked itself: an old Open MPI may
 * know Slurm's own PMI, which sets no variables. */
tide_status tide__launch_check_pmi(const tide__launch *launch) {
  const char *chosen = getenv("TIDE_MPI_LIBRARY");
  bool is_slurm = launch->variable && !strncmp(launch->variable, "SLURM", 5);
  if (!is_slurm || strcmp(mpi_abi, "Open MPI") != 0 || getenv("PMIX_RANK") || (chosen && *chosen)) return TIDE_OK;
  tide__dist_fail(TIDE_LIBRARY,
                  "init_process_group: srun started this process (%s=%d) without PMI, so %s, a library of Open MPI, "
                  "finds no other rank; expected srun --mpi=pmix tide script.lua (srun --mpi=list says which there "
                  "are), mpirun -n %d tide script.lua, or TIDE_MPI_LIBRARY=%s to call it all the same",
                  launch->variable, launch->size, mpi_file, launch->size, mpi_file);
  tide__tell_elsewhere(host.error_get()->message, launch->rank > 0);
  return TIDE_LIBRARY;
}

void tide__launch_own(void) {
  is_owner = true;
  setenv(owner, "1", 1);
}

static bool is_initialised(void *library) {
  int (*initialized)(int *) = NULL;
  int flag = 0;
  *(void **)&initialized = tide__os_symbol(library, "MPI_Initialized");
  return initialized && !initialized(&flag) && flag;
}

/* The first of the names, which blanks part; moves behind it. */
static bool next_name(char *name, size_t size, const char **names) {
  size_t length = strcspn(*names, " ");
  snprintf(name, size, "%.*s", (int)length, *names);
  *names += length + ((*names)[length] == ' ');
  return length > 0;
}

static char host_library[64] = "none";

/* Modules of other languages load their library so that only they see it: the loaded ones are asked, too. Once one is
 * open, it stays as it was found. */
bool tide__launch_host_has_mpi(void) {
  if (mpi) return strcmp(host_library, "none") != 0;
  host_library[0] = 0;
  if (is_initialised(NULL)) return true;
  for (const char *names = all_libraries; next_name(host_library, sizeof host_library, &names);) {
    void *library = tide__os_library_loaded(host_library);
    const bool has = library && is_initialised(library);
    if (library) tide__os_library_close(library);
    if (has) return true;
  }
  return snprintf(host_library, sizeof host_library, "none"), false;
}

static bool open_any(const char *names, char *problem, size_t size) {
  for (char name[64]; next_name(name, sizeof name, &names);)
    if (tide__mpi_open(name, problem, size)) return true;
  return false;
}

static const char *libraries_of(const tide__launch *launch) {
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
    if (launch->variable && !strcmp(launch->variable, launchers[i].size)) return launchers[i].libraries;
  return all_libraries;
}

tide_status tide__launch_open(const tide__launch *launch) {
  char problem[512] = "";
  const char *chosen = getenv("TIDE_MPI_LIBRARY");
  if (chosen && *chosen) {
    if (tide__mpi_open(chosen, problem, sizeof problem)) return TIDE_OK;
    return tide__dist_fail(TIDE_LIBRARY, "init_process_group: TIDE_MPI_LIBRARY: %s could not be opened: %s", chosen,
                           problem);
  }
  if (tide__launch_host_has_mpi()) { /* another one beside it would end its connection to the launcher */
    if (tide__mpi_open(host_library, problem, sizeof problem)) return TIDE_OK;
    return tide__dist_fail(TIDE_LIBRARY, "init_process_group: the MPI that this program has initialised: %s", problem);
  }
  if (open_any(libraries_of(launch), problem, sizeof problem)) return TIDE_OK;
  return tide__dist_fail(
      TIDE_LIBRARY,
      "init_process_group: no library of MPI was found, looked for %s: %s; expected a package such as "
      "openmpi-bin or mpich, or TIDE_MPI_LIBRARY=/path/libmpi.so.40",
      libraries_of(launch), problem);
}

void tide__launch_describe(char *text, size_t size) {
  tide__launch launch = tide__launch_read();
  if (launch.variable)
    tide__append(text, size, "launcher: %s=%d, this is rank %d\n", launch.variable, launch.size, launch.rank);
  else
    tide__append(text, size, "launcher: none has started this process%s\n",
                 launch.inherited ? " (it was started by a rank)" : "");
  if (tide__launch_open(&launch) != TIDE_OK) return tide__append(text, size, "MPI: %s\n", host.error_get()->message);
  char version[TIDE__MPI_TEXT] = "";
  int length = 0;
  if (mpi->Get_library_version(version, &length)) version[0] = 0;
  version[strcspn(version, "\n")] = 0;
  tide__append(text, size, "MPI: %s, interface of %s: %.200s\n", mpi_file, mpi_abi, version);
}
