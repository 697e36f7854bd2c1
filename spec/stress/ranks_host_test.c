/* ranks_host_test.c: a host that has initialised MPI itself, by a library that only it sees and whose launcher has left
 * no trace, as a module of another language loads it. tide joins the processes by that library; what the host has
 * finalized it leaves alone.
 *
 * usage: mpirun -n 2 ranks_host_test tide.so libmpi.so.40 leave|stay      stay: the group is still there at the end */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#include "module.h"

static void call(void *library, const char *name) {
  int (*f)(void *, void *) = (int (*)(void *, void *))(size_t)dlsym(library, name);
  if (!f || f(NULL, NULL)) printf("%s failed\n", name), exit(1);
}

int main(int argc, char **argv) {
  static const char *const traces[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"};
  if (argc < 4) return 2;
  module = argv[1];
  void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  if (!library) return printf("%s\n", dlerror()), 77;
  call(library, "MPI_Init");
  for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) unsetenv(traces[i]);
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "tide", (lua_CFunction)function("luaopen_tide"), 1);
  lua_pushboolean(L, strcmp(argv[3], "leave") == 0);
  lua_setglobal(L, "leaves");
  static const char text[] = "local dist = tide.distributed\n"
                             "dist.init_process_group()\n"
                             "local x = tide.tensor {dist.get_rank() + 1}\n"
                             "dist.all_reduce(x)\n"
                             "assert(dist.get_world_size() == 2 and x:item() == 3, dist.get_world_size())\n"
                             "if leaves then dist.destroy_process_group() end\n"
                             "assert(dist.is_initialized() == not leaves)";
  if (luaL_dostring(L, text)) failed = 1, printf("%s\n", lua_tostring(L, -1));
  call(library, "MPI_Finalize");
  if (luaL_dostring(L, "assert(not tide.distributed.is_initialized())\n"
                       "local ok, e = pcall(tide.distributed.barrier)\n"
                       "assert(not ok, 'a barrier without MPI')"))
    failed = 1, printf("%s\n", lua_tostring(L, -1));
  if (strcmp(argv[3], "stay")) lua_close(L);
  return failed;
}
