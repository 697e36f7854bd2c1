/* spawn.c: tide.multiprocessing.spawn: a function or a script in new processes.
 *
 * Each process is a runner started anew, which asks tide.multiprocessing._main for its task: a table with the
 * function's bytecode or the script's name, the rank and the arguments, written by serialize.c. Tensors of the host go
 * by value, those of accelerators as IPC handles, one for each process. What a process fails with it writes where its
 * task was, so a message of any length fits and nobody has to read while it runs.
 *
 * Invariant: handles that a process has not opened when it ends are opened and let go of here, so that the memory is
 * free again whatever way it ended. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "row.h"
#include "scope.h"
#include "serialize.h"
#include "tide/ipc.h"
#include "tide/process.h"

#define CONTEXT_META "tide.multiprocessing.Context"
enum { MOST_PROCESSES = 1024 };
static const double patience = 5; /* seconds that a process gets to end by itself */
/* What stands in the file of a task once the process has read it, and before the text of its error. */
static const char begun_head[] = "tide begun\n", failed_head[] = "tide error\n";

/* User value 1: for each process the array of the handles it was given, from 1. */
typedef struct context {
  int n;
  bool handed_out; /* spawn itself is left with the processes running */
  tide_process process[];
} context;

/* {==== The program */

static bool can_run(const char *path) { return access(path, X_OK) == 0; }

/* Pushes the path of the runner beside the module, or returns false. */
static bool push_beside(lua_State *L) {
  Dl_info info;
  char path[PATH_MAX];
  if (!dladdr((void *)(uintptr_t)push_beside, &info) || !info.dli_fname || !realpath(info.dli_fname, path))
    return false;
  char *slash = strrchr(path, '/');
  if (!slash) return false;
  *slash = 0;
  static const char *const places[] = {"/../../../bin/tide", "/../bin/tide", "/tide"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const char *found = lua_pushfstring(L, "%s%s", path, places[i]);
    if (can_run(found)) return true;
    lua_pop(L, 1);
  }
  return false;
}

static bool push_on_path(lua_State *L) {
  const char *path = getenv("PATH");
  while (path && *path) {
    size_t n = strcspn(path, ":");
    lua_pushlstring(L, path, n);
    lua_pushliteral(L, "/tide");
    lua_concat(L, 2);
    if (n && can_run(lua_tostring(L, -1))) return true;
    lua_pop(L, 1);
    path += n + (path[n] == ':');
  }
  return false;
}

/* Pushes the path of what is to be started: the option, this program where it is the runner, or one that is found. */
static const char *push_exe(lua_State *L, int opts) {
  char path[PATH_MAX];
  if (opts && ltide_rawfield(L, opts, "exe") != LUA_TNIL) {
    if (lua_type(L, -1) != LUA_TSTRING) ltide_arg_error(L, lua_gettop(L), "exe", "the path of a program");
    if (!can_run(lua_tostring(L, -1)))
      ltide_error(L, "FileError", "spawn: exe: %s: %s, expected a program", lua_tostring(L, -1), strerror(errno));
    return lua_tostring(L, -1);
  }
  lua_getfield(L, LUA_REGISTRYINDEX, LTIDE_RUNNER);
  ssize_t n = lua_toboolean(L, -1) ? readlink("/proc/self/exe", path, sizeof path) : -1;
  lua_pop(L, 1);
  if (n > 0 && n < (ssize_t)sizeof path) return lua_pushlstring(L, path, (size_t)n);
  if (push_beside(L) || push_on_path(L)) return lua_tostring(L, -1);
  ltide_error(L, "FileError",
              "spawn: no program to start: tide was not found beside the module, in ../../../bin or in PATH, expected "
              "exe= with its path, or that of a Lua 5.4 that can require tide");
  return NULL;
}

/* {==== The task */

/* Of lua_dump, which wants its function at the top when it begins: so the buffer, which puts something there, begins
 * with the first piece. */
typedef struct dump {
  bool begun;
  luaL_Buffer buffer;
} dump;

static int add_piece(lua_State *L, const void *piece, size_t n, void *user) {
  dump *d = user;
  if (!d->begun) luaL_buffinit(L, &d->buffer);
  d->begun = true;
  luaL_addlstring(&d->buffer, piece, n);
  return 0;
}

/* Pushes the name of the module that the value at the top is, or returns false. */
static bool push_module(lua_State *L) {
  int value = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (lua_pushnil(L); lua_next(L, value + 1); lua_settop(L, value + 2)) {
    if (lua_type(L, value + 2) != LUA_TSTRING || !lua_rawequal(L, value + 3, value)) continue;
    lua_settop(L, value + 2);
    lua_remove(L, value + 1);
    return true;
  }
  lua_settop(L, value);
  return false;
}

/* Pushes the modules that the function at 1 uses from around it, the globals as _G, under the numbers of its upvalues.
 * Raises where it uses anything else, which stays here. */
static void push_upvalues(lua_State *L) {
  int others = 0;
  const char *name;
  lua_newtable(L);
  int modules = lua_gettop(L);
  lua_pushliteral(L, "");
  for (int i = 1; (name = lua_getupvalue(L, 1, i)); lua_settop(L, modules + 1), i++) {
    bool is_environment = !strcmp(name, "_ENV"); /* perhaps not the globals, but there it will be */
    if (is_environment) lua_pushliteral(L, "_G");
    if (is_environment || (lua_istable(L, -1) && push_module(L))) {
      lua_rawseti(L, modules, i);
      continue;
    }
    lua_pushfstring(L, "%s%s'%s'", lua_tostring(L, modules + 1), others++ ? ", " : "", name);
    lua_replace(L, modules + 1);
  }
  if (others)
    ltide_error(
        L, "ArgumentError",
        "spawn: fn: got a function that uses %s from around it, expected one that uses only globals and modules "
        "so: another process does not have the rest, pass it in args",
        lua_tostring(L, -1));
  lua_settop(L, modules);
}

/* Sets what is to be run in the table at the top. */
static void set_code(lua_State *L) {
  if (lua_type(L, 1) == LUA_TSTRING) {
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "script");
    return;
  }
  push_upvalues(L);
  lua_setfield(L, -2, "upvalues");
  dump d = {.begun = false};
  lua_pushvalue(L, 1);
  lua_dump(L, add_piece, &d, 0);
  luaL_pushresult(&d.buffer);
  lua_setfield(L, -3, "code");
  lua_pop(L, 1);
}

/* The child finds modules where we do. */
static void set_paths(lua_State *L) {
  static const char *const names[] = {"path", "cpath"};
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_LOADLIBNAME) == LUA_TTABLE)
    for (int i = 0; i < 2; i++) {
      if (lua_getfield(L, -1, names[i]) == LUA_TSTRING)
        lua_setfield(L, -4, names[i]);
      else
        lua_pop(L, 1);
    }
  lua_pop(L, 2);
}

/* The number of arguments in the table at the top, which may be one of table.pack. */
static lua_Integer check_args(lua_State *L) {
  int args = lua_gettop(L);
  if (!lua_istable(L, args) || ltide_is_options(L, args)) ltide_arg_error(L, args, "args", "an array of arguments");
  lua_Integer n = (lua_Integer)lua_rawlen(L, args), count = n;
  bool is_packed = lua_getfield(L, args, "n") == LUA_TNUMBER;
  if (is_packed && lua_tointeger(L, -1) > n) count = lua_tointeger(L, -1);
  lua_pop(L, 1);
  if (n) ltide_check_packed(L, args, n, count, "args");
  if (count > 200) ltide_error(L, "ValueError", "spawn: args: got %I, expected at most 200", count);
  return count;
}

/* Pushes the table that every process gets, but for its rank. */
static void push_task(lua_State *L, int opts, int n) {
  lua_createtable(L, 0, 8);
  int task = lua_gettop(L);
  set_code(L);
  set_paths(L);
  ltide_set_integer(L, "parent", getpid());
  ltide_set_integer(L, "nprocs", n);
  lua_pushstring(L, tide_version());
  lua_setfield(L, task, "version");
  if (!opts || ltide_rawfield(L, opts, "args") == LUA_TNIL) lua_newtable(L);
  lua_Integer count = check_args(L);
  lua_setfield(L, task, "args");
  lua_settop(L, task);
  ltide_set_integer(L, "count", count);
}

/* {==== The context */

static context *check_context(lua_State *L) {
  ltide_enter(L);
  context *c = ltide_test_object(L, 1, CONTEXT_META);
  if (!c) ltide_arg_error(L, 1, "context", "what spawn gave");
  return c;
}

static context *push_context(lua_State *L, int n) {
  context *c = ltide_new_object(L, sizeof *c + (size_t)n * sizeof *c->process, 1);
  memset(c, 0, sizeof *c + (size_t)n * sizeof *c->process);
  ltide_setmetatable(L, CONTEXT_META);
  c->n = n;
  lua_createtable(L, n, 0);
  for (int i = 1; i <= n; i++) {
    lua_newtable(L);
    lua_rawseti(L, -2, i);
  }
  lua_setiuservalue(L, -2, 1);
  return c;
}

/* Opens what process i of the context at `index` was given and did not open: then its memory is ours alone again. */
static void release_handles(lua_State *L, int index, int i) {
  int top = lua_gettop(L);
  lua_getiuservalue(L, index, 1);
  if (lua_rawgeti(L, -1, i + 1) == LUA_TTABLE)
    for (lua_Integer k = 1; lua_rawgeti(L, -1, k) == LUA_TSTRING; k++, lua_pop(L, 1)) {
      tide_ipc_tensor handle;
      tide_tensor *x;
      memcpy(handle.bytes, lua_tostring(L, -1), sizeof handle.bytes);
      if (tide_tensor_from_ipc(&x, &handle) == TIDE_OK) tide_tensor_release(x);
    }
  lua_pushnil(L);
  lua_rawseti(L, top + 1, i + 1);
  lua_settop(L, top);
}

/* Forgets all processes, which have ended. */
static void clear(lua_State *L, context *c, int index) {
  for (int i = 0; i < c->n; i++) {
    release_handles(L, index, i);
    tide_process_drop(&c->process[i]);
  }
  c->n = 0;
  tide_ipc_collect();
}

static int context_close(lua_State *L) {
  context *c = check_context(L);
  if (!c->handed_out) {
    tide_process_stop(c->process, c->n, patience);
    clear(L, c, 1);
  }
  c->handed_out = false;
  return 0;
}

static int context_gc(lua_State *L) {
  context *c = ltide_test_object(L, 1, CONTEXT_META);
  for (int i = 0; c && i < c->n; i++) tide_process_drop(&c->process[i]);
  if (c) c->n = 0;
  return 0;
}

static bool has_head(FILE *file, const char *expected) {
  char head[sizeof failed_head - 1];
  return !fseek(file, 0, SEEK_SET) && fread(head, 1, sizeof head, file) == sizeof head &&
         !memcmp(head, expected, sizeof head);
}

/* Pushes what the process has written about its failure, or nothing. */
static bool push_text(lua_State *L, FILE *file) {
  luaL_Buffer b;
  if (!has_head(file, failed_head)) return false;
  luaL_buffinit(L, &b);
  for (int c; (c = getc(file)) != EOF;) luaL_addchar(&b, (char)c);
  luaL_pushresult(&b);
  return true;
}

/* Ends the other processes and raises the error of number i. */
static int raise_of(lua_State *L, context *c, int index, int i) {
  const tide_process *p = &c->process[i];
  int status = p->status, pid = (int)p->pid;
  bool by_signal = status != -1 && WIFSIGNALED(status);
  tide_process_stop(c->process, c->n, patience);
  lua_pushfstring(L, "spawn: rank %d (process %d) ", i, pid);
  if (by_signal)
    lua_pushfstring(L, "was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
  else if (status == -1)
    lua_pushliteral(L, "has ended, and something else has taken its exit code");
  else if (!status)
    lua_pushliteral(L, "has ended without looking for its task, expected a program that runs tide");
  else
    lua_pushfstring(L, "failed with exit code %d", WEXITSTATUS(status));
  if (push_text(L, p->file)) {
    lua_pushliteral(L, ": ");
    lua_insert(L, -2);
    lua_concat(L, 2);
  } else
    lua_pushliteral(L, "");
  lua_concat(L, 3);
  clear(L, c, index);
  ltide_push_error(L, "StateError");
  ltide_set_integer(L, "rank", i);
  ltide_set_integer(L, "pid", pid);
  if (by_signal)
    ltide_set_integer(L, "signal", WTERMSIG(status));
  else if (status != -1)
    ltide_set_integer(L, "exit_code", WEXITSTATUS(status));
  return lua_error(L);
}

static int nothing(lua_State *L) { return (void)L, 0; }

/* Waits until all processes of the context at `index` have ended well, or for so long. Between the looks a function is
 * called, so that an interruption, which is a hook, is raised from here. */
static bool wait_for_all(lua_State *L, context *c, int index, double seconds) {
  double end = tide_process_now() + seconds, nap = 2e-4;
  while (true) {
    bool all = true;
    for (int i = 0; i < c->n; i++) {
      bool ended = tide_process_ended(&c->process[i]);
      if (ended && (c->process[i].status || !has_head(c->process[i].file, begun_head))) raise_of(L, c, index, i);
      all = all && ended;
    }
    if (all) {
      clear(L, c, index);
      return true;
    }
    double left = end - tide_process_now();
    if (left <= 0) return false;
    tide_process_sleep(nap < left ? nap : left);
    if (nap < 1e-2) nap *= 1.5;
    lua_pushcfunction(L, nothing);
    lua_call(L, 0, 0);
  }
}

static int lcontext_join(lua_State *L) {
  context *c = check_context(L);
  double seconds = lua_isnoneornil(L, 2) ? HUGE_VAL : ltide_check_number(L, 2, "timeout");
  if (isnan(seconds)) return ltide_error(L, "ValueError", "join: timeout: got nan, expected seconds");
  lua_pushboolean(L, wait_for_all(L, c, 1, seconds));
  return 1;
}

static int lcontext_pids(lua_State *L) {
  const context *c = check_context(L);
  lua_createtable(L, c->n, 0);
  for (int i = 0; i < c->n; i++) {
    lua_pushinteger(L, c->process[i].pid);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* {==== spawn */

/* Writes the task at `task` with the rank i to a file of its own. */
static void write_task(lua_State *L, ltide_state *S, context *c, int index, int task, int i) {
  int error = tide_process_prepare(&c->process[i]);
  if (error) ltide_error(L, "FileError", "spawn: no file for a task: %s", strerror(error));
  lua_pushinteger(L, i);
  lua_setfield(L, task, "rank");
  lua_getiuservalue(L, index, 1);
  lua_rawgeti(L, -1, i + 1);
  error = ltide_write_value(L, S, c->process[i].file, task, lua_gettop(L));
  lua_pop(L, 2);
  if (!error && fseek(c->process[i].file, 0, SEEK_SET)) error = errno;
  if (error) ltide_error(L, "FileError", "spawn: a task could not be written: %s", strerror(error));
}

/* Nothing here raises while some run and others do not. */
static void start_all(lua_State *L, context *c, int index, const char *exe) {
  char name[] = "-e", code[] = "(tide or require 'tide').multiprocessing._main()";
  char *arguments[] = {(char *)exe, name, code, NULL};
  fflush(NULL);
  for (int i = 0; i < c->n; i++) {
    int error = tide_process_start(&c->process[i], exe, arguments);
    if (!error) continue;
    tide_process_stop(c->process, c->n, patience);
    clear(L, c, index);
    ltide_error(L, "FileError", "spawn: rank %d: %s could not be started: %s", i, exe, strerror(error));
  }
}

static int lspawn(lua_State *L) {
  static const char *const keys[] = {"nprocs", "args", "join", "exe", NULL};
  if (ltide_unguarded(L)) return ltide_guarded(L, lspawn);
  ltide_state *S = ltide_enter(L);
  ltide_no_options(L, 2);
  lua_settop(L, 2);
  bool is_function = lua_isfunction(L, 1) && !lua_iscfunction(L, 1);
  if (!is_function && lua_type(L, 1) != LUA_TSTRING)
    return ltide_arg_error(L, 1, "fn", "a function of Lua or the name of a script");
  if (!lua_isnil(L, 2) && !lua_istable(L, 2))
    return ltide_arg_error(L, 2, "opts", "a table {nprocs=, args=, join=, exe=}");
  int opts = lua_istable(L, 2) ? 2 : 0;
  if (opts) ltide_check_keys(L, opts, keys);
  lua_Integer n = 1;
  if (opts && ltide_rawfield(L, opts, "nprocs") != LUA_TNIL) n = ltide_check_integer(L, 3, "nprocs");
  if (n < 1 || n > MOST_PROCESSES)
    return ltide_error(L, "ValueError", "spawn: nprocs: got %I, expected 1 to %d", n, MOST_PROCESSES);
  if (!is_function && access(lua_tostring(L, 1), R_OK))
    return ltide_error(L, "FileError", "spawn: %s: %s, expected a script", lua_tostring(L, 1), strerror(errno));
  bool join = ltide_opt_boolean(L, opts, "join", true);
  lua_settop(L, 2);
  const char *exe = push_exe(L, opts);
  lua_insert(L, 3);
  lua_settop(L, 3);
  push_task(L, opts, (int)n);
  context *c = push_context(L, (int)n);
  lua_toclose(L, 5);
  for (int i = 0; i < n; i++) write_task(L, S, c, 5, 4, i);
  start_all(L, c, 5, exe);
  if (join) {
    wait_for_all(L, c, 5, HUGE_VAL);
    return 0;
  }
  c->handed_out = true;
  lua_pushvalue(L, 5);
  return 1;
}

/* {==== In the child */

/* The message with its traceback, as the parent is to show it. */
static int with_traceback(lua_State *L) {
  const char *text = luaL_tolstring(L, 1, NULL);
  if (lua_istable(L, 1) && lua_getfield(L, 1, "traceback") == LUA_TSTRING)
    lua_pushfstring(L, "%s\n%s", text, lua_tostring(L, -1));
  else
    luaL_traceback(L, L, text, 1);
  return 1;
}

static void set_from(lua_State *L, int task, const char *name) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) == LUA_TTABLE &&
      lua_getfield(L, -1, LUA_LOADLIBNAME) == LUA_TTABLE && lua_getfield(L, task, name) == LUA_TSTRING)
    lua_setfield(L, -2, name);
  lua_settop(L, task);
}

/* Gives the function at the top its globals and modules. */
static void set_upvalues(lua_State *L, int task) {
  int fn = lua_gettop(L);
  if (lua_getfield(L, task, "upvalues") == LUA_TTABLE)
    for (lua_pushnil(L); lua_next(L, fn + 1); lua_settop(L, fn + 2)) {
      int i = (int)lua_tointeger(L, fn + 2);
      lua_getglobal(L, "require");
      lua_pushvalue(L, fn + 3);
      lua_call(L, 1, 1);
      if (!lua_setupvalue(L, fn, i)) lua_pop(L, 1);
    }
  lua_settop(L, fn);
}

/* Reads the task, which is pushed, and pushes its function and arguments, whose number it returns. */
static int push_work(lua_State *L, ltide_state *S, FILE *file) {
  lua_pushnil(L);
  ltide_read_value(L, S, file, "task", lua_gettop(L), true, NULL);
  int task = lua_gettop(L);
  lua_getfield(L, task, "version");
  if (!lua_isstring(L, -1) || strcmp(lua_tostring(L, -1), tide_version()) != 0)
    ltide_error(L, "StateError", "spawn: the program is another version of tide, %s, expected that of the parent",
                tide_version());
  lua_getfield(L, task, "parent");
  if (lua_tointeger(L, -1) != getppid()) exit(EXIT_FAILURE); /* it has ended before we could bind to it */
  lua_settop(L, task);
  set_from(L, task, "path");
  set_from(L, task, "cpath");
  size_t n;
  bool is_script = lua_getfield(L, task, "script") == LUA_TSTRING;
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, 0);
  lua_setglobal(L, "arg");
  if (!is_script) lua_getfield(L, task, "code");
  const char *code = lua_tolstring(L, -1, &n);
  if ((is_script ? luaL_loadfile(L, code) : luaL_loadbufferx(L, code, n, "=spawn", "b")) != LUA_OK) lua_error(L);
  set_upvalues(L, task);
  lua_getfield(L, task, "rank");
  lua_getfield(L, task, "args");
  int args = lua_gettop(L);
  lua_getfield(L, task, "count");
  int count = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  luaL_checkstack(L, count + 4, "spawn: too many arguments");
  for (int k = 1; k <= count; k++) lua_rawgeti(L, args, k);
  lua_remove(L, args);
  return 1 + count;
}

/* Puts the head and the text in the place of what the file holds. */
static void write_state(FILE *file, const char *head, const char *text, size_t n) {
  rewind(file);
  if (ftruncate(fileno(file), 0)) return;
  fwrite(head, 1, strlen(head), file);
  fwrite(text, 1, n, file);
  fflush(file);
}

/* The task's file is the argument. Nothing but the function holds its arguments while it runs. */
static int work(lua_State *L) {
  FILE *file = lua_touserdata(L, 1);
  int n = push_work(L, ltide_enter(L), file);
  write_state(file, begun_head, "", 0);
  int fn = lua_gettop(L) - n;
  for (int i = 2; i < fn; i++) {
    lua_pushnil(L);
    lua_replace(L, i);
  }
  lua_call(L, n, 0);
  return 0;
}

static int lmain(lua_State *L) {
  ltide_enter(L);
  FILE *file = tide_process_task();
  if (!file) return ltide_error(L, "StateError", "_main: this process was not started by spawn");
  lua_settop(L, 0);
  lua_pushcfunction(L, with_traceback);
  lua_pushcfunction(L, work);
  lua_pushlightuserdata(L, file);
  if (lua_pcall(L, 1, 0, 1) == LUA_OK) return 0;
  size_t n;
  const char *text = lua_tolstring(L, -1, &n);
  write_state(file, failed_head, text, n);
  fflush(NULL);
  lua_close(L);
  exit(EXIT_FAILURE);
}

static ltide_row spawn_context_rows[] = {
#include "api/spawn_context.def"
    {0}};

#define PATH "tide.multiprocessing."
static ltide_row spawn_rows[] = {
#include "api/spawn.def"
    {0}};

void ltide_open_spawn(lua_State *L, ltide_state *S) {
  (void)S;
  static const luaL_Reg meta[] = {{"__close", context_close}, {"__gc", context_gc}, {0}};
  ltide_newmetatable(L, CONTEXT_META);
  luaL_setfuncs(L, meta, 0);
  lua_newtable(L);
  ltide_register_rows(L, "Context", spawn_context_rows);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  lua_newtable(L);
  ltide_register_rows(L, "tide.multiprocessing", spawn_rows);
  lua_setfield(L, -2, "multiprocessing");
}
