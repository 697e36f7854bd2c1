/* repl.c: the prompt.
 *
 * A line is tried as an expression first, whose results are printed, then as statements; a chunk that ends too early is
 * continued on the next line. A paste is one chunk. Lines beginning with ':' are commands (repl_command.c). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "repl.h"
#include "runner.h"

static bool is_incomplete(lua_State *L, int status) {
  size_t n;
  const char *message = status == LUA_ERRSYNTAX ? lua_tolstring(L, -1, &n) : NULL;
  if (!message || n < 5 || strcmp(message + n - 5, "<eof>") != 0) return false;
  return !strstr(message, "function arguments expected"); /* x:shape, which is a mistake and no beginning */
}

/* Reads lines until the text at index 1 compiles; the function or message takes its place, and the status is set. */
static repl_input read_chunk(lua_State *L, int *status) {
  repl_input input = REPL_LINE;
  for (;;) {
    lua_pushvalue(L, 1);
    *status = repl_load(L);
    if (!is_incomplete(L, *status)) break;
    lua_settop(L, 1);
    lua_pushfstring(L, "%s\n", lua_tostring(L, 1));
    lua_replace(L, 1);
    input = edit_read(L, ">> ", lua_tostring(L, 1));
    if (input != REPL_LINE) return input;
    lua_concat(L, 2);
  }
  edit_remember(lua_tostring(L, 1));
  lua_remove(L, 1);
  return input;
}

static int print_results(lua_State *L) {
  size_t length;
  repl_call(L, "runner/repl.prompt_show", lua_gettop(L));
  const char *text = lua_tolstring(L, -1, &length);
  fwrite(text, 1, length, stdout); /* a string may hold zeros */
  fflush(stdout);
  return 0;
}

/* Runs the function at the top and prints what it returns. */
static void run_chunk(lua_State *L) {
  int status = repl_run_function(L), n = lua_gettop(L);
  if (runner_report(L, status) != LUA_OK || !n) return;
  lua_pushcfunction(L, print_results);
  lua_insert(L, 1);
  runner_report(L, runner_call(L, n, 0));
}

/* One prompt and what it runs. False when the session ends. */
static bool step(lua_State *L) {
  int status;
  lua_settop(L, 0);
  repl_input input = edit_read(L, "> ", "");
  if (input != REPL_LINE) return input == REPL_CANCELLED;
  const char *line = lua_tostring(L, 1);
  if (line[0] == ':' && line[1] != ':') {
    edit_remember(line);
    return repl_command(L, line) != REPL_LEAVES;
  }
  lua_pushvalue(L, 1);
  repl_call(L, "runner/repl.prompt_leaves", 1);
  if (lua_toboolean(L, -1)) return false;
  lua_settop(L, 1);
  input = read_chunk(L, &status);
  if (input != REPL_LINE) return input == REPL_CANCELLED;
  if (status == LUA_OK)
    run_chunk(L);
  else
    runner_report(L, status);
  lua_settop(L, 0);
  lua_pushcfunction(L, repl_collect);
  runner_report(L, runner_call(L, 0, 0));
  return true;
}

static int run_steps(lua_State *L) {
  while (step(L) && !interrupt_terminated()) {}
  return 0;
}

void repl_run(lua_State *L) {
  repl_prepare_globals(L);
  edit_open(L);
  interrupt_session(isatty(STDIN_FILENO));
  if (isatty(STDIN_FILENO)) puts("help() tells how to begin, :help lists the commands, :quit leaves");
  lua_settop(L, 0);
  lua_pushcfunction(L, run_steps);
  while (runner_report(L, lua_pcall(L, 0, 0, 0)) != LUA_OK) lua_pushcfunction(L, run_steps); /* memory ran out */
  interrupt_session(false);
  edit_close();
  lua_settop(L, 0);
}
