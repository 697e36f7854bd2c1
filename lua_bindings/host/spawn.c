/* spawn.c: tide.multiprocessing.spawn: a function or a script in new processes. How they are started and watched is
 * written in Lua, host/spawn.lua.
 *
 * Invariant: handles that a process has not opened when it ends are opened and let go of here, so that the memory is
 * free again whatever way it ended. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "call/row.h"
#include "call/each.h"
#include "data/serialize.h"
#include "call/system.h"
#include "host.h"
#include "tide/ipc.h"
#include "tide/process.h"

#define CONTEXT_META "tide.multiprocessing.Context"
static const double patience = 5; /* seconds that a process gets to end by itself */

/* User value 1: the array of the handles that the processes were given. */
typedef struct context {
  int n;
  bool handed_out; /* spawn itself is left with the processes running */
  tide_process process[];
} context;

/* {==== The context */

static context *check_context(lua_State *L) {
  ltide_enter(L);
  context *c = ltide_test_object(L, 1, CONTEXT_META);
  if (!c) ltide_arg_error(L, 1, "context", "what spawn gave");
  return c;
}

static tide_process *process_of(lua_State *L) { return &check_context(L)->process[lua_tointeger(L, 2)]; }

static int script_new_context(lua_State *L) {
  int n = (int)lua_tointeger(L, 1);
  size_t size = sizeof(context) + (size_t)n * sizeof(tide_process);
  context *c = memset(ltide_new_object(L, size, 1), 0, size);
  ltide_setmetatable(L, CONTEXT_META);
  c->n = n;
  lua_newtable(L);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

static int context_gc(lua_State *L) {
  context *c = ltide_test_object(L, 1, CONTEXT_META);
  for (int i = 0; c && i < c->n; i++) tide_process_drop(&c->process[i]);
  if (c) c->n = 0;
  return 0;
}

/* Ends the processes that still run and forgets all. What they were given and did not open is opened: then its memory
 * is ours alone again. */
static int script_end_all(lua_State *L) {
  context *c = check_context(L);
  tide_ipc_tensor handle;
  tide_tensor *x;
  tide_process_stop(c->process, c->n, patience);
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, 1);
  lua_pushnil(L);
  lua_setiuservalue(L, 1, 1);
  for (lua_Integer k = 1; lua_istable(L, 2) && lua_rawgeti(L, 2, k) == LUA_TSTRING; k++, lua_pop(L, 1)) {
    memcpy(handle.bytes, lua_tostring(L, -1), sizeof handle.bytes);
    if (tide_tensor_from_ipc(&x, &handle) == TIDE_OK) tide_tensor_release(x);
  }
  context_gc(L);
  tide_ipc_collect();
  return 0;
}

static int context_close(lua_State *L) {
  context *c = check_context(L);
  bool handed_out = c->handed_out;
  c->handed_out = false;
  return handed_out ? 0 : script_end_all(L);
}

static int script_hand_out(lua_State *L) { return check_context(L)->handed_out = true, 1; }
static int script_count_processes(lua_State *L) { return ltide_give_integer(L, check_context(L)->n); }
static int script_pid_of(lua_State *L) { return ltide_give_integer(L, process_of(L)->pid); }

/* how_ended(context, rank): false while it runs, true where all was well. Else nil, what became of it, a number with
 * its name or two nils, and what it told, if it did. */
static int script_how_ended(lua_State *L) {
  tide_process *p = process_of(L);
  bool ended = tide_process_ended(p);
  tide_process_word told = ended ? tide_process_told(p) : TIDE_PROCESS_SILENT;
  if (!ended || (!p->status && told == TIDE_PROCESS_BEGUN)) return ltide_give_boolean(L, ended);
  bool is_known = p->status != -1, by_signal = is_known && ltide_signal_of(p->status);
  int code = by_signal ? ltide_signal_of(p->status) : ltide_exit_code_of(p->status);
  lua_pushnil(L);
  if (by_signal)
    lua_pushfstring(L, "was ended by signal %d (%s)", code, ltide_signal_name(code));
  else if (!is_known)
    lua_pushliteral(L, "has ended, and something else has taken its exit code");
  else if (!p->status)
    lua_pushliteral(L, "has ended without looking for its task, expected a program that runs tide");
  else
    lua_pushfstring(L, "failed with exit code %d", code);
  lua_pushstring(L, by_signal ? "signal" : is_known ? "exit_code" : NULL);
  lua_pushinteger(L, code);
  if (told != TIDE_PROCESS_FAILED) return 4;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (int ch; (ch = getc(p->file)) != EOF;) luaL_addchar(&b, (char)ch);
  luaL_pushresult(&b);
  return 5;
}

/* {==== For the chunk: programs and functions */

static int script_cannot_use(lua_State *L) {
  int error = ltide_cannot_use(lua_tostring(L, 1), lua_toboolean(L, 2));
  return error ? (lua_pushstring(L, strerror(error)), 1) : 0;
}

/* This program where it is the runner, or one that is found. */
static int script_own_program(lua_State *L) {
  char path[PATH_MAX];
  lua_getfield(L, LUA_REGISTRYINDEX, LTIDE_RUNNER);
  const void *beside = lua_toboolean(L, -1) ? NULL : (const void *)(uintptr_t)script_own_program;
  return tide_process_find(path, sizeof path, LTIDE_PROGRAM, beside) ? (lua_pushstring(L, path), 1) : 0;
}

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

/* Nothing for a function of C. */
static int script_dump(lua_State *L) {
  dump d = {.begun = false};
  lua_dump(L, add_piece, &d, 0);
  return d.begun ? (luaL_pushresult(&d.buffer), 1) : 0;
}

/* write_task(context, task, rank), to a file of its own */
static int script_write_task(lua_State *L) {
  tide_process *p = &check_context(L)->process[lua_tointeger(L, 3)];
  int error = tide_process_prepare(p);
  if (error) ltide_error(L, "FileError", "spawn: no file for a task: %s", strerror(error));
  lua_setfield(L, 2, "rank");
  ltide_set_integer(L, "parent", getpid());
  lua_pushstring(L, tide_version());
  lua_setfield(L, 2, "version");
  lua_getiuservalue(L, 1, 1);
  error = ltide_write_value(L, p->file, 2, 3);
  if (!error && fseek(p->file, 0, SEEK_SET)) error = errno;
  if (error) ltide_error(L, "FileError", "spawn: a task could not be written: %s", strerror(error));
  return 0;
}

/* start(context, rank, exe): nothing, or why it could not be started */
static int script_start(lua_State *L) {
  char name[] = "-e", code[] = "(tide or require 'tide').multiprocessing._main()", *exe = (char *)lua_tostring(L, 3);
  fflush(NULL);
  int error = tide_process_start(process_of(L), exe, (char *[]){exe, name, code, NULL});
  return error ? (lua_pushstring(L, strerror(error)), 1) : 0;
}

static int script_now(lua_State *L) { return lua_pushnumber(L, tide_process_now()), 1; }
static int script_sleep(lua_State *L) { return tide_process_sleep(lua_tonumber(L, 1)), 0; }

/* {==== In the child */

/* The message with its traceback, as the parent is to show it. */
static int with_traceback(lua_State *L) {
  const char *text = luaL_tolstring(L, 1, NULL);
  if (lua_istable(L, 1) && lua_getfield(L, 1, "traceback") == LUA_TSTRING)
    lua_pushfstring(L, "%s\n%s", text, lua_tostring(L, -1));
  else
    ltide_traceback(L, L, text, 1);
  return 1;
}

/* load(script, code) */
static int script_load(lua_State *L) {
  size_t n;
  const char *script = lua_tostring(L, 1), *code = lua_tolstring(L, 2, &n);
  return (script ? luaL_loadfile(L, script) : luaL_loadbufferx(L, code, n, "=spawn", "b")) ? lua_error(L) : 1;
}

static int script_set_upvalue(lua_State *L) { return lua_setupvalue(L, 1, (int)lua_tointeger(L, 2)), 0; }

/* The task's file is the argument. */
static int work(lua_State *L) {
  FILE *file = lua_touserdata(L, 1);
  ltide_read_value(L, file, "task", 0, true, NULL);
  lua_getfield(L, 2, "version");
  if (!lua_isstring(L, -1) || strcmp(lua_tostring(L, -1), tide_version()) != 0)
    ltide_error(L, "StateError", "spawn: the program is another version of tide, %s, expected that of the parent",
                tide_version());
  lua_getfield(L, 2, "parent");
  if (!ltide_is_parent((long)lua_tointeger(L, -1))) exit(EXIT_FAILURE); /* it has ended before we could bind to it */
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  return ltide_script_call(L, "host/spawn.run_task", 2);
}

static int script_tell_begun(lua_State *L) { return tide_process_tell(lua_touserdata(L, 1), NULL, 0), 0; }

struct ltide_task ltide_task;

static int lmain(lua_State *L, ltide_call *c) {
  FILE *file = tide_process_task();
  if (!file) return ltide_error(L, "StateError", "_main: this process was not started by spawn");
  ltide_task.is_task = true;
  lua_settop(L, 0);
  lua_pushcfunction(L, with_traceback);
  lua_pushcfunction(L, work);
  lua_pushlightuserdata(L, file);
  if (lua_pcall(L, 1, 0, 1) == LUA_OK) return 0;
  size_t n;
  const char *text = lua_tolstring(L, -1, &n);
  tide_process_tell(file, text, n);
  fflush(NULL);
  int code = ltide_task.end ? ltide_task.end() : EXIT_FAILURE;
  lua_close(L);
  exit(code);
}

#include <rows/spawn_context.inc>

#include <rows/spawn.inc>

void ltide_open_spawn(lua_State *L, ltide_state *S) {
  LTIDE_GIVE(L, "host/spawn.c", new_context, end_all, hand_out, count_processes, pid_of, how_ended, cannot_use,
             own_program, dump, write_task, start, now, sleep, load, set_upvalue, tell_begun);
  static const luaL_Reg meta[] = {{"__close", context_close}, {"__gc", context_gc}, {0}};
  ltide_new_class(L, CONTEXT_META, meta, "Context", spawn_context_rows, NULL);
  ltide_register_in(L, "tide.multiprocessing", spawn_rows);
}
