/* runner_ranks.c: `tide --ranks 4 [--hosts a,b:2] script.lua`, which becomes the installed launcher of MPI, and
 * `tide --doctor`, which says what there is of it.
 *
 * The launcher is TIDE_MPIRUN, or the first of the usual names in PATH; its family follows from what it says of its
 * version. The library is chosen later, by each rank, from what the launcher leaves in the environment, so both fit.
 *
 * Invariant: nothing of MPI runs in this process. */
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <unistd.h>

#include "distributed/distributed.h"
#include "runner.h"
#include "call/system.h"

typedef enum family { NO_FAMILY, OPEN_MPI, HYDRA } family;
static const char *const names[] = {"mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich"};

/* The first line of what the launcher says of its version; NULL: it does not run. */
static const char *version_of(const char *launcher, char *line, size_t size, family *is) {
  char command[600], rest[256];
  *is = NO_FAMILY;
  if (strchr(launcher, '\'')) return NULL;
  snprintf(command, sizeof command, "'%s' --version 2>/dev/null </dev/null", launcher);
  FILE *pipe = popen(command, "r");
  if (!pipe) return NULL;
  bool any = fgets(line, (int)size, pipe) != NULL;
  for (const char *text = any ? line : NULL; text; text = fgets(rest, sizeof rest, pipe)) {
    if (strstr(text, "Open MPI") || strstr(text, "OpenRTE") || strstr(text, "PRRTE") || strstr(text, "prte"))
      *is = OPEN_MPI;
    if (strstr(text, "HYDRA") || strstr(text, "Hydra") || strstr(text, "Intel(R) MPI")) *is = HYDRA;
  }
  pclose(pipe);
  line[strcspn(line, "\n")] = 0;
  return any ? line : NULL;
}

/* A launcher that runs, and its family. */
static const char *find_launcher(char *line, size_t size, family *is) {
  const char *chosen = getenv("TIDE_MPIRUN");
  if (chosen && *chosen) return version_of(chosen, line, size, is) ? chosen : NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (version_of(names[i], line, size, is) && *is) return names[i];
  return NULL;
}

/* A slip of the finger would start thousands of processes on this machine; a scheduler may have given us others. */
static bool are_too_many(const ranks_options *o) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN), most = cores > 4 ? 16 * cores : 64;
  bool is_job = getenv("SLURM_JOB_ID") || getenv("PBS_JOBID") || getenv("LSB_JOBID");
  if (o->hosts || is_job || o->ranks <= most) return false;
  fprintf(stderr, "tide: --ranks: got %d, expected at most %ld on %ld cores; or mpirun -n\n", o->ranks, most, cores);
  return true;
}

/* Open MPI's launcher looks after 300 s, and ten times, whether another host is still there. */
static void look_after_hosts(void) {
  setenv("OMPI_MCA_oob_tcp_keepalive_time", "10", false);
  setenv("OMPI_MCA_oob_tcp_keepalive_intvl", "5", false);
  setenv("OMPI_MCA_oob_tcp_keepalive_probes", "3", false);
}

int ranks_launch(const ranks_options *o, char **argv) {
  char line[256] = "", program[4096], number[16];
  family is;
  const char *launcher = find_launcher(line, sizeof line, &is), *list[16];
  int n = 0, given = 0;
  if (are_too_many(o)) return 2; /* a wrong option */
  if (!launcher || !ltide_program_path(program, sizeof program)) {
    fprintf(stderr,
            "tide: --ranks: no launcher of MPI was found: mpirun, mpiexec or the one that TIDE_MPIRUN names; expected "
            "a package such as openmpi-bin or mpich\n");
    return EXIT_FAILURE;
  }
  snprintf(number, sizeof number, "%d", o->ranks);
  list[n++] = launcher, list[n++] = "-n", list[n++] = number;
  if (is == OPEN_MPI) list[n++] = "--oversubscribe";
  if (is == OPEN_MPI && geteuid() == 0)
    list[n++] = "--allow-run-as-root"; /* as in containers: we run as root already */
  if (o->hosts && is == OPEN_MPI) look_after_hosts();
  if (o->hosts) list[n++] = is == OPEN_MPI ? "--host" : "-hosts", list[n++] = o->hosts;
  list[n++] = program;
  while (argv[given]) given++;
  char **command = calloc((size_t)(n + given + 1), sizeof *command);
  if (!command) return EXIT_FAILURE;
  for (int i = 0; i < n; i++) command[i] = (char *)(size_t)list[i];
  for (int i = 1; i < given; i++)
    if (i < o->first || i >= o->behind) command[n++] = argv[i];
  for (int i = 0; o->verbose && command[i]; i++) fprintf(stderr, "%s%s", command[i], command[i + 1] ? " " : "\n");
  fflush(NULL);
  execvp(command[0], command);
  perror("tide: --ranks");
  free(command);
  return EXIT_FAILURE;
}

/* {==== tide --doctor */

static void print_interfaces(void) {
  struct ifaddrs *all;
  fputs("interfaces:", stdout);
  if (getifaddrs(&all)) return (void)puts(" unknown");
  for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
    bool is_up = (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK);
    if (is_up && i->ifa_addr && i->ifa_addr->sa_family == 2 /* IPv4 */) printf(" %s", i->ifa_name);
  }
  freeifaddrs(all);
  fputc('\n', stdout);
}

static void print_nccl(void) {
  int version = 0;
  void *library = ltide_library_open("libnccl.so.2");
  int (*get)(int *) = NULL;
  if (library) *(void **)&get = ltide_library_symbol(library, "ncclGetVersion");
  if (get && !get(&version))
    printf("NCCL: libnccl.so.2, version %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
  else
    puts("NCCL: none");
}

int ranks_print_doctor(lua_State *L) {
  const tide_distributed *d = ltide_distributed_open();
  char text[2048] = "", line[256];
  const char *chosen = getenv("TIDE_MPIRUN");
  if (!d) return printf("MPI: %s\n", tide_error_get()->message), 0;
  d->describe(text, sizeof text);
  fputs(text, stdout);
  if (chosen) printf("TIDE_MPIRUN: %s\n", chosen);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    family is;
    const char *version = version_of(names[i], line, sizeof line, &is);
    if (version) printf("%s: %s%s\n", names[i], is == HYDRA ? "MPICH's family, " : "", version);
  }
  print_nccl();
  print_interfaces();
  if (strstr(text, "Open MPI") && !getenv("OMPI_MCA_btl_vader_single_copy_mechanism"))
    puts("note: in containers Open MPI may need OMPI_MCA_btl_vader_single_copy_mechanism=none");
  return 0;
}
