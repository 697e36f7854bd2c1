/* repl_command.c: lines that begin with ':', at the prompt and as the text of -e. */
#include <time.h>

#include "repl.h"
#include "runner.h"
#include "call/error.h"
#include "tide/memory.h"

static void print_memory(const char *name, size_t allocated, size_t reserved, size_t free_bytes, size_t total) {
  const double MiB = 1048576;
  printf("%-8s %12.1f MiB in tensors", name, (double)allocated / MiB);
  if (total)
    printf(", %.1f MiB held, %.1f of %.1f MiB free", (double)reserved / MiB, (double)free_bytes / MiB,
           (double)total / MiB);
  fputs("\n", stdout);
}

/* One that cannot tell any more says so in its line, and the others are told of. */
static void print_device_memory(int device) {
  char name[24];
  size_t free_bytes = 0, total = 0;
  snprintf(name, sizeof name, "cuda:%d", device);
  if (tide_device_mem_info(&free_bytes, &total, device) == TIDE_OK) {
    print_memory(name, tide_memory_allocated(device), tide_memory_reserved(device), free_bytes, total);
    return;
  }
  const char *message = tide_error_get()->message;
  printf("%-8s %.*s\n", name, (int)strcspn(message, "\n"), message);
}

static int command_mem(lua_State *L) {
  ltide_enter(L);
  print_memory("cpu", tide_memory_cpu_allocated(), 0, 0, 0);
  for (int i = 0; tide_is_initialized() && i < tide_device_count(); i++) print_device_memory(i);
  printf("%-8s %12.1f KiB in Lua objects\n", "lua", lua_gc(L, LUA_GCCOUNT) + lua_gc(L, LUA_GCCOUNTB) / 1024.0);
  return 0;
}

static int command_devices(lua_State *L) {
  ltide_enter(L);
  printf("cpu      %d threads\n", tide_get_num_threads());
  for (int i = 0; i < tide_device_count(); i++) {
    const tide_device_props *p;
    ltide_try(L, tide_device_get_props(&p, i));
    printf("cuda:%-3d %s, %.0f MiB%s\n", i, p->name, (double)p->total_memory / 1048576,
           p->simulated ? ", simulated" : "");
  }
  return 0;
}

static int synchronize_all(lua_State *L) {
  if (tide_is_initialized()) ltide_try(L, tide_device_synchronize(TIDE_ALL_DEVICES));
  return 0;
}

static int run_function(lua_State *L, lua_CFunction function) {
  lua_pushcfunction(L, function);
  return runner_report(L, runner_call(L, 0, 0));
}

/* :time chunk: wall time to completion, with all devices synchronised before and after. */
static int command_time(lua_State *L, const char *text) {
  lua_settop(L, 0);
  lua_pushstring(L, text);
  int status = runner_report(L, repl_load(L));
  if (status != LUA_OK || (status = run_function(L, synchronize_all)) != LUA_OK) return status;
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  status = runner_report(L, runner_call(L, 0, 0));
  if (status == LUA_OK) status = run_function(L, synchronize_all);
  clock_gettime(CLOCK_MONOTONIC, &b);
  if (status == LUA_OK) printf("%.6f s\n", (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
  return status;
}

static int command_help(lua_State *L, const char *name) {
  if (!*name) printf(":mem  :devices  :time CHUNK  :help [NAME]  :quit\n");
  lua_pushcfunction(L, repl_print_help);
  if (*name) lua_pushstring(L, name);
  return runner_report(L, runner_call(L, *name != 0, 0));
}

/* The rest of the line behind the word and blanks; NULL if the line begins with another word. */
static const char *rest_of(const char *line, const char *word) {
  size_t n = strlen(word);
  if (strncmp(line, word, n) || (line[n] && line[n] != ' ')) return NULL;
  return line + n + strspn(line + n, " ");
}

repl_done repl_command(lua_State *L, const char *line) {
  const char *rest;
  int status = LUA_ERRRUN;
  if (rest_of(line, ":quit") || rest_of(line, ":q") || rest_of(line, ":exit")) return REPL_LEAVES;
  if ((rest = rest_of(line, ":time")) && *rest)
    status = command_time(L, rest);
  else if ((rest = rest_of(line, ":help")) || (rest = rest_of(line, ":h")))
    status = command_help(L, rest);
  else if (rest_of(line, ":mem"))
    status = run_function(L, command_mem);
  else if (rest_of(line, ":devices"))
    status = run_function(L, command_devices);
  else
    printf("unknown command %s: there are :mem :devices :time CHUNK :help [NAME] :quit\n", line);
  fflush(stdout);
  return status == LUA_OK ? REPL_DONE : REPL_FAILED;
}
