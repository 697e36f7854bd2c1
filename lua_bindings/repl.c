/* repl.c: the prompt.
 *
 * A line is tried as an expression first, whose results are printed, then as statements; a chunk that ends too early is
 * continued on the next line. Lines beginning with ':' are commands. Line editing and history come from libedit, opened
 * here because nothing else needs it; without it lines are read plainly. `_` is the last result; a tensor above 1 MiB
 * is held weakly there, so that looking at a value does not keep a GPU's memory. */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "repl.h"
#include "runner.h"

static struct {
  char *(*readline)(const char *prompt);
  void (*add_history)(const char *line);
  int (*read_history)(const char *path);
  int (*write_history)(const char *path);
} edit;

static sigjmp_buf at_prompt;
static char history_path[1024];

static void on_prompt_sigint(int sig) {
  (void)sig;
  siglongjmp(at_prompt, 1);
}

/* {==== Line editing */

static void find_history(void) {
  const char *path = getenv("TIDE_HISTORY"), *home = getenv("HOME"), *state = getenv("XDG_STATE_HOME");
  if (path)
    snprintf(history_path, sizeof history_path, "%s", path);
  else if (state && *state)
    snprintf(history_path, sizeof history_path, "%s/tide_history", state);
  else if (home)
    snprintf(history_path, sizeof history_path, "%s/.tide_history", home);
}

static void open_editor(lua_State *L) {
  if (!isatty(STDIN_FILENO)) return;
  void *lib = dlopen("libedit.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!lib) lib = dlopen("libedit.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!lib) return;
  edit.readline = (char *(*)(const char *))dlsym(lib, "readline");
  edit.add_history = (void (*)(const char *))dlsym(lib, "add_history");
  edit.read_history = (int (*)(const char *))dlsym(lib, "read_history");
  edit.write_history = (int (*)(const char *))dlsym(lib, "write_history");
  const char **name = dlsym(lib, "rl_readline_name");
  if (name) *name = "tide";
  repl_complete_open(L, lib);
  find_history();
  if (*history_path && edit.read_history) edit.read_history(history_path);
}

static void remember(const char *line) {
  if (!edit.add_history || !*line) return;
  edit.add_history(line);
  if (*history_path && edit.write_history) edit.write_history(history_path);
}

/* Pushes a line without its newline; false at the end of input. */
static bool push_line(lua_State *L, const char *prompt) {
  if (edit.readline) {
    char *line = edit.readline(prompt);
    if (!line) return false;
    lua_pushstring(L, line);
    free(line);
    return true;
  }
  char *line = NULL;
  size_t room = 0;
  fputs(prompt, stdout);
  fflush(stdout);
  ssize_t n = getline(&line, &room, stdin);
  if (n >= 0) {
    if (n && line[n - 1] == '\n') n--;
    lua_pushlstring(L, line, (size_t)n);
  }
  free(line);
  return n >= 0;
}

/* {==== Chunks */

static bool is_incomplete(lua_State *L, int status) {
  size_t n;
  const char *message = status == LUA_ERRSYNTAX ? lua_tolstring(L, -1, &n) : NULL;
  return message && n >= 5 && !strcmp(message + n - 5, "<eof>");
}

/* Compiles the text at index 1: as "return text" if that works, else as it is. */
static int compile(lua_State *L) {
  const char *text = lua_tostring(L, 1);
  const char *wrapped = lua_pushfstring(L, "return %s", text[0] == '=' ? text + 1 : text);
  int status = luaL_loadbuffer(L, wrapped, strlen(wrapped), "=stdin");
  if (status == LUA_OK) {
    lua_remove(L, -2);
    return LUA_OK;
  }
  lua_pop(L, 2);
  return luaL_loadbuffer(L, text, strlen(text), "=stdin");
}

/* Reads lines until they compile; the function or message replaces the text. False at the end of input. */
static bool read_chunk(lua_State *L, int *status) {
  while (is_incomplete(L, *status = compile(L))) {
    lua_pop(L, 1);
    if (!push_line(L, ">> ")) return false;
    lua_pushfstring(L, "%s\n%s", lua_tostring(L, 1), lua_tostring(L, 2));
    lua_replace(L, 1);
    lua_settop(L, 1);
  }
  remember(lua_tostring(L, 1));
  lua_remove(L, 1);
  return true;
}

/* {==== Results */

static void print_value(lua_State *L, int index, int depth);

static void print_key(lua_State *L, int index) {
  const char *name = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : NULL;
  if (name && *name &&
      strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == strlen(name)) {
    printf("%s = ", name);
    return;
  }
  fputs("[", stdout);
  print_value(L, index, 2);
  fputs("] = ", stdout);
}

/* A table without __tostring: up to 24 entries, the list first, nested once. */
static void print_table(lua_State *L, int index, int depth) {
  enum { MOST = 24 };
  lua_Integer n = (lua_Integer)lua_rawlen(L, index);
  int shown = 0, top = lua_gettop(L);
  fputs("{", stdout);
  for (lua_Integer i = 1; i <= n && shown < MOST; i++, shown++) {
    if (shown) fputs(", ", stdout);
    lua_rawgeti(L, index, i);
    print_value(L, top + 1, depth + 1);
    lua_settop(L, top);
  }
  bool more = shown < n;
  lua_pushnil(L);
  while (!more && lua_next(L, index)) {
    bool listed = lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 && lua_tointeger(L, -2) <= n;
    more = !listed && shown == MOST;
    if (!listed && !more) {
      if (shown++) fputs(", ", stdout);
      print_key(L, top + 1);
      print_value(L, top + 2, depth + 1);
    }
    lua_settop(L, top + 1);
  }
  lua_settop(L, top);
  fputs(more ? ", ...}" : "}", stdout);
}

static void print_value(lua_State *L, int index, int depth) {
  int top = lua_gettop(L);
  luaL_checkstack(L, 8, "printing");
  if (lua_istable(L, index) && depth < 2 && luaL_getmetafield(L, index, "__tostring") == LUA_TNIL) {
    print_table(L, index, depth);
    return;
  }
  size_t length;
  const char *text = luaL_tolstring(L, index, &length), *quote = depth && lua_type(L, index) == LUA_TSTRING ? "'" : "";
  fputs(quote, stdout);
  fwrite(text, 1, length, stdout); /* a string may hold zeros */
  fputs(quote, stdout);
  lua_settop(L, top);
}

static int print_results(lua_State *L) {
  int n = lua_gettop(L);
  for (int i = 1; i <= n; i++) {
    if (i > 1) fputs("\t", stdout);
    print_value(L, i, 0);
    lua_settop(L, n);
  }
  fputs("\n", stdout);
  fflush(stdout);
  return 0;
}

static const char key_last, key_weak;

/* Sets `_` to the value at the top and pops it. */
static void set_last(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_tensor *u = ltide_test_handle(L, S, -1);
  bool weak = u && u->t && tide_tensor_numel(u->t) * (int64_t)tide_dtype_size(tide_tensor_dtype(u->t)) > 1 << 20;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_weak);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "_");
  lua_pop(L, 1);
  if (weak) lua_pushnil(L), lua_replace(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_last);
}

/* Globals' __index: `_`, then what was there before. */
static int global_index(lua_State *L) {
  if (lua_type(L, 2) == LUA_TSTRING && !strcmp(lua_tostring(L, 2), "_")) {
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_last) != LUA_TNIL) return 1;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &key_weak);
    lua_getfield(L, -1, "_");
    return 1;
  }
  if (lua_isnil(L, lua_upvalueindex(1))) return 0;
  lua_settop(L, 2);
  if (lua_isfunction(L, lua_upvalueindex(1))) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 2, 1);
    return 1;
  }
  lua_gettable(L, lua_upvalueindex(1));
  return 1;
}

static int lprint_help(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "tide");
  lua_getfield(L, -1, "help");
  lua_insert(L, 1);
  lua_settop(L, lua_gettop(L) - 2);
  lua_call(L, lua_gettop(L) - 1, 1);
  printf("%s\n", lua_tostring(L, -1));
  return 0;
}

static void prepare_globals(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_weak);
  lua_pushglobaltable(L);
  if (!lua_getmetatable(L, -1)) lua_newtable(L);
  lua_getfield(L, -1, "__index");
  lua_pushcclosure(L, global_index, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
  lua_pushcfunction(L, lprint_help);
  lua_setglobal(L, "help");
}

/* Runs the function at the top and prints what it returns. */
static void run_chunk(lua_State *L) {
  if (runner_report(L, runner_call(L, 0, LUA_MULTRET)) != LUA_OK || !lua_gettop(L)) return;
  int n = lua_gettop(L);
  lua_pushvalue(L, 1);
  set_last(L);
  lua_pushcfunction(L, print_results);
  lua_insert(L, 1);
  runner_report(L, runner_call(L, n, 0));
}

/* {==== Commands */

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
  for (int i = 0; tide_is_initialized() && i < tide_device_count(); i++) ltide_try(L, tide_device_synchronize(i));
  return 0;
}

/* :time chunk: wall time to completion, with all devices synchronised before and after. */
static void command_time(lua_State *L, const char *text) {
  lua_settop(L, 0);
  lua_pushstring(L, text);
  if (runner_report(L, compile(L)) != LUA_OK) return;
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  lua_remove(L, 1);
  int status = runner_call(L, 0, 0);
  if (status == LUA_OK) {
    lua_pushcfunction(L, synchronize_all);
    status = runner_call(L, 0, 0);
  }
  clock_gettime(CLOCK_MONOTONIC, &b);
  if (runner_report(L, status) == LUA_OK)
    printf("%.6f s\n", (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec));
}

/* False for :quit. */
static bool run_command(lua_State *L, const char *line) {
  remember(line);
  if (!strcmp(line, ":quit") || !strcmp(line, ":q")) return false;
  if (!strncmp(line, ":time ", 6))
    command_time(L, line + 6);
  else if (!strcmp(line, ":mem"))
    lua_pushcfunction(L, command_mem), runner_report(L, runner_call(L, 0, 0));
  else if (!strcmp(line, ":devices"))
    lua_pushcfunction(L, command_devices), runner_report(L, runner_call(L, 0, 0));
  else if (!strncmp(line, ":help", 5)) {
    lua_pushcfunction(L, lprint_help);
    if (line[5] == ' ')
      lua_pushstring(L, line + 6);
    else
      printf(":mem  :devices  :time CHUNK  :help [NAME]  :quit\n");
    runner_report(L, runner_call(L, line[5] == ' ', 0));
  } else
    printf("unknown command %s: there are :mem :devices :time :help :quit\n", line);
  return true;
}

/* {==== The loop */

/* One prompt and what it runs. False when the session ends. */
static bool step(lua_State *L) {
  int status;
  lua_settop(L, 0);
  signal(SIGINT, edit.readline || isatty(STDIN_FILENO) ? on_prompt_sigint : SIG_DFL);
  bool more = push_line(L, "> ");
  if (more && lua_tostring(L, 1)[0] == ':' && lua_tostring(L, 1)[1] != ':') {
    signal(SIGINT, SIG_DFL);
    return run_command(L, lua_tostring(L, 1));
  }
  if (!more || !read_chunk(L, &status)) return false;
  signal(SIGINT, SIG_DFL);
  if (status == LUA_OK)
    run_chunk(L);
  else
    runner_report(L, status);
  return true;
}

void repl_run(lua_State *L) {
  prepare_globals(L);
  open_editor(L);
  if (sigsetjmp(at_prompt, 1)) fputs("\n", stdout); /* Ctrl-C at the prompt drops the line */
  while (step(L)) {}
  lua_settop(L, 0);
  if (isatty(STDIN_FILENO)) fputs("\n", stdout);
}
