/* open.c: what libtide_distributed.so exports: one function, which takes tide and gives the table.
 *
 * Invariant: until init is called nothing of MPI is opened or changed. */
#include <stdio.h>
#include <string.h>

#include "distributed/room.h"

static bool is_launched(void) { return tide__launch_read().variable || tide__launch_host_has_mpi(); }
static int rank_of(const tide_group *group) { return group ? group->rank : tide__world ? tide__world->rank : -1; }
static int size_of(const tide_group *group) { return group ? group->size : tide__world ? tide__world->size : 0; }
static int local_rank(void) { return tide__local_rank; }
static int local_size(void) { return tide__local_size; }

static const char *library(void) {
  static char text[512];
  char version[TIDE__MPI_TEXT] = "";
  int length = 0;
  if (!mpi) return "";
  if (mpi->Get_library_version(version, &length)) version[0] = 0;
  version[strcspn(version, "\n,")] = 0;
  for (char *tab = version; (tab = strpbrk(tab, "\t"));) *tab = ' ';
  snprintf(text, sizeof text, "%s: %s", mpi_file, version);
  return text;
}

static void set_limits(double notice, double timeout) { tide__notice = notice, tide__timeout = timeout; }
static void set_check(tide_rank_check check) { tide__check = check; }
static tide_rank_check get_check(void) { return tide__check; }

static tide_status start(tide_work **out, const tide_distributed_call *call) {
  return tide__work_start(out, call, NULL, 0);
}

static tide_distributed_call call_of(tide_collective kind, const char *name, const char *file, int line) {
  return (tide_distributed_call){sizeof(tide_distributed_call), kind, .name = name, .file = file, .line = line};
}

static tide_status leave(tide_work **out, const char *file, int line) {
  tide_distributed_call call = call_of(TIDE_LEAVE_RANKS, "destroy_process_group", file, line);
  return tide__work_start(out, &call, NULL, 0);
}

static tide_status connect_group(tide_work **out, tide_group *group, int device, bool must, const char *file,
                                 int line) {
  tide_distributed_call call = call_of(TIDE_CONNECT_RANKS, "init_process_group", file, line);
  call.group = group, call.peer = device, call.tag = must;
  return tide__work_start(out, &call, NULL, 0);
}

static bool uses_nccl(const tide_group *group) {
  const tide_group *g = group ? group : tide__world;
  return g && g->nccl;
}

static tide_status group_new(tide_work **out, const int *ranks, int n, const char *file, int line) {
  tide_distributed_call call = call_of(TIDE_NEW_GROUP_RANKS, "new_group", file, line);
  for (int i = 0; i < n && tide__world; i++)
    if (ranks[i] < 0 || ranks[i] >= tide__world->size)
      return tide__dist_fail(TIDE_VALUE, "new_group: ranks: got %d, expected 0 to %d", ranks[i], tide__world->size - 1);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < i; k++)
      if (ranks[i] == ranks[k]) return tide__dist_fail(TIDE_VALUE, "new_group: ranks: got %d twice", ranks[i]);
  if (n < 1) return tide__dist_fail(TIDE_VALUE, "new_group: ranks: got none, expected at least one");
  return tide__work_start(out, &call, ranks, n);
}

static void stop(int code) {
  tide__progress_lock();
  if (mpi && tide__world) mpi->Abort(mpi_const.world, code);
  tide__progress_unlock();
}

static int source(const tide_work *work) { return work->source; }
static tide_group *group_of(const tide_work *work) {
  if (work->made) work->made->refs++;
  return work->made;
}
static void group_retain(tide_group *group) { group->refs++; }
static int group_rank(const tide_group *group, int index) { return (group ? group : tide__world)->ranks[index]; }
static void describe(char *text, size_t size) {
  *text = 0;
  tide__launch_describe(text, size);
}

static const tide_distributed table = {sizeof table,
                                       is_launched,
                                       tide__group_join,
                                       tide__group_is_joined,
                                       leave,
                                       tide__group_leave,
                                       stop,
                                       rank_of,
                                       size_of,
                                       local_rank,
                                       local_size,
                                       library,
                                       set_limits,
                                       tide__progress_tell,
                                       set_check,
                                       get_check,
                                       start,
                                       tide__work_poll,
                                       tide__work_order,
                                       source,
                                       tide__work_release,
                                       group_new,
                                       group_of,
                                       group_retain,
                                       tide__group_release,
                                       connect_group,
                                       uses_nccl,
                                       group_rank,
                                       tide__is_told_elsewhere,
                                       describe,
                                       tide__file_new,
                                       tide__file_write,
                                       tide__file_rename};

__attribute__((visibility("default"))) const tide_distributed *tide_distributed_open(const tide_distributed_host *given,
                                                                                     int version);
const tide_distributed *tide_distributed_open(const tide_distributed_host *given, int version) {
  if (given->struct_size != sizeof host || version != TIDE_DISTRIBUTED_VERSION) {
    given->error_set(TIDE_LIBRARY, "distributed: libtide_distributed.so is of another version than tide");
    return NULL;
  }
  host = *given;
  return &table;
}
