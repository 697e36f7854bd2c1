/* repl.c: the prompt.
 *
 * A line is tried as an expression first, whose results are printed, then as statements; a chunk that ends too early is
 * continued on the next line. A paste is one chunk. Local variables of a chunk's outermost block live on in the session
 * (repl_local.c). Lines beginning with ':' are commands (repl_command.c). `_` is the last result; a tensor above 1 MiB
 * is held weakly there, so that looking at a value does not keep a GPU's memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "repl.h"
#include "row.h"
#include "runner.h"
#include "tide/memory.h"

/* {==== Chunks */

static bool is_incomplete(lua_State *L, int status) {
  size_t n;
  const char *message = status == LUA_ERRSYNTAX ? lua_tolstring(L, -1, &n) : NULL;
  if (!message || n < 5 || strcmp(message + n - 5, "<eof>") != 0) return false;
  return !strstr(message, "function arguments expected"); /* x:shape, which is a mistake and no beginning */
}

/* As "return text" if that works, else as it is. */
int repl_load(lua_State *L) {
  int at = lua_gettop(L);
  const char *text = lua_tostring(L, at);
  lua_pushfstring(L, "return %s", text[0] == '=' ? text + 1 : text);
  size_t size;
  const char *source = lua_tolstring(L, -1, &size);
  int status = repl_local_load(L, source, size);
  if (status == LUA_ERRSYNTAX) {
    lua_settop(L, at);
    source = lua_tolstring(L, at, &size);
    status = repl_local_load(L, source, size);
  }
  lua_replace(L, at);
  lua_settop(L, at);
  return status;
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
  const ltide_row *row = depth ? NULL : ltide_row_at(L, index);
  if (row && row->doc) { /* looked at, or meant to be called */
    printf("function: %s", ltide_push_doc(L, row->doc, true));
    lua_settop(L, top);
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

void repl_push_last(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_last) != LUA_TNIL) return;
  lua_pop(L, 1);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_weak) == LUA_TTABLE) lua_getfield(L, -1, "_"), lua_remove(L, -2);
}

/* Globals' __index: `_`, then what was there before. */
static int global_index(lua_State *L) {
  if (lua_type(L, 2) == LUA_TSTRING && !strcmp(lua_tostring(L, 2), "_")) {
    repl_push_last(L);
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

int repl_print_help(lua_State *L) {
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
}

/* {==== Memory */

static size_t alive(void) {
  size_t bytes = tide_memory_cpu_allocated();
  for (int i = 0; tide_is_initialized() && i < tide_device_count(); i++) bytes += tide_memory_allocated(i);
  return bytes;
}

/* What a chunk made and dropped goes at once, where it is more than a little: nobody computes while the prompt waits.
 * So of results that are only looked at the last one alone is there. */
static int collect_garbage(lua_State *L) {
  static size_t left;
  ltide_enter(L);
  if (!lua_gc(L, LUA_GCISRUNNING) || alive() <= left + (1 << 20)) return 0;
  repl_push_last(L);
  lua_gc(L, LUA_GCCOLLECT);
  tide_memory_pump();
  left = alive();
  return 0;
}

/* {==== The loop */

/* Runs the function at the top and prints what it returns. */
static void run_chunk(lua_State *L) {
  if (runner_report(L, runner_call(L, 0, LUA_MULTRET)) != LUA_OK || !lua_gettop(L)) return;
  int n = lua_gettop(L);
  luaL_checkstack(L, LUA_MINSTACK, "too many results");
  lua_pushvalue(L, 1);
  set_last(L);
  lua_pushcfunction(L, print_results);
  lua_insert(L, 1);
  runner_report(L, runner_call(L, n, 0));
}

/* quit, exit, with blanks or empty brackets: the words that people try first. A variable of that name is one. */
static bool leaves(lua_State *L, const char *line) {
  repl_scanner scan = {line, line + strlen(line)};
  repl_token name, t;
  if (!repl_scan(&scan, &name) || !(repl_token_is(&name, "quit") || repl_token_is(&name, "exit"))) return false;
  if (repl_scan(&scan, &t) && !(repl_token_is(&t, "(") && repl_scan(&scan, &t) && repl_token_is(&t, ")"))) return false;
  if (repl_scan(&scan, &t) || t.kind != REPL_END) return false;
  lua_pushglobaltable(L);
  lua_pushlstring(L, name.text, name.size);
  bool is_variable = lua_rawget(L, -2) != LUA_TNIL || repl_local_push(L, name.text, name.size);
  lua_settop(L, 1);
  return !is_variable;
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
  if (leaves(L, line)) return false;
  input = read_chunk(L, &status);
  if (input != REPL_LINE) return input == REPL_CANCELLED;
  if (status == LUA_OK)
    run_chunk(L);
  else
    runner_report(L, status);
  lua_settop(L, 0);
  lua_pushcfunction(L, collect_garbage);
  runner_report(L, runner_call(L, 0, 0));
  return true;
}

static int run_steps(lua_State *L) {
  while (step(L)) {}
  return 0;
}

void repl_open(lua_State *L) {
  repl_local_open(L);
  lua_pushcfunction(L, repl_print_help);
  lua_setglobal(L, "help");
}

void repl_run(lua_State *L) {
  prepare_globals(L);
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
