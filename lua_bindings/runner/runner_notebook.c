/* runner_notebook.c: `tide --notebook FOLDER`, the session behind a notebook. scripts/notebook/tide_kernel.py starts
 * it.
 *
 * Requests come on the standard input: a line "KIND BYTES NAME", then that many bytes.
 *   run       the text of the cell NAME: replies picture, result, error, and done at last
 *   complete  the text before the cursor: replies matches, a line for the word and one for each name
 *   inspect   the same: replies help, which is empty where there is none
 * Replies go to the standard output, among what the cells print: ESC ] FOLDER ; KIND ; BYTES BEL, then the bytes. A
 * picture's bytes are the path of a PNG file in the folder, which the reader removes. The standard input of cells is
 * empty. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "repl.h"
#include "runner.h"
#include "call/did_you_mean.h"
#include "call/script.h"
#include "call/each.h"
#include "call/handle.h"
#include "call/system.h"

static int requests; /* a file descriptor */
static const char *folder;
static const char key_shown;

/* {==== Requests and replies */

static void reply(const char *kind, const char *bytes, size_t n) {
  printf("\033]%s;%s;%zu\a", folder, kind, n);
  fwrite(bytes, 1, n, stdout);
  fflush(stdout);
}

static void reply_text(lua_State *L, const char *kind, int index) {
  size_t n;
  const char *text = lua_tolstring(L, index, &n);
  reply(kind, text ? text : "", text ? n : 0);
}

/* Ctrl-C may break a read off. */
static bool read_bytes(char *to, size_t n) {
  while (n > 0) {
    ssize_t got = read(requests, to, n);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    if (got > 0) to += got, n -= (size_t)got;
  }
  return true;
}

typedef struct request {
  char kind[16], name[32];
} request;

/* Reads a request and pushes its bytes. */
static bool read_request(lua_State *L, request *r) {
  char line[80];
  size_t size = 0, n = 0;
  do {
    if (n == sizeof line - 1 || !read_bytes(line + n, 1)) return false;
  } while (line[n++] != '\n');
  line[n - 1] = 0;
  *r = (request){0};
  if (sscanf(line, "%15s %zu %31[^\n]", r->kind, &size, r->name) < 2) return false;
  luaL_Buffer b;
  bool ok = read_bytes(luaL_buffinitsize(L, &b, size), size);
  return luaL_pushresultsize(&b, ok ? size : 0), ok;
}

/* {==== Pictures */

/* show_picture(picture): of bytes, [height, width, 3]. */
static int script_show_picture(lua_State *L) {
  static int number;
  const char *path = lua_pushfstring(L, "%s/%d.png", folder, ++number);
  ltide_try(L, tide_png_save(path, ltide_check_tensor(L, ltide_enter(L), 1, "picture")));
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_shown);
  lua_pushvalue(L, 1);
  lua_pushboolean(L, true);
  lua_rawset(L, -3);
  reply("picture", path, strlen(path));
  return 0;
}

/* picture_shown(value) */
static int script_picture_shown(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_shown);
  lua_pushvalue(L, 1);
  return ltide_give_boolean(L, !lua_isnil(L, 1) && lua_rawget(L, -2) != LUA_TNIL);
}

static void open_pictures(lua_State *L) {
  LTIDE_GIVE(L, "runner/runner_notebook.c", show_picture, picture_shown);
  lua_pushboolean(L, true);
  lua_setfield(L, LUA_REGISTRYINDEX, LTIDE_NOTEBOOK);
  lua_newtable(L);
  ltide_make_weak(L, "k");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_shown);
}

/* {==== Cells */

static void reply_error(lua_State *L) {
  reply_text(L, interrupt_happened() ? "interrupted" : "error", -1);
  lua_settop(L, 0);
}

static int show_results(lua_State *L) { return repl_call(L, "runner/repl.cell_show", lua_gettop(L)); }

/* The text of the cell is alone on the stack. */
static void run_cell(lua_State *L, const char *name) {
  const char *text = lua_tostring(L, 1);
  if (text[0] == ':' && text[1] != ':') return (void)repl_command(L, text);
  repl_name_chunks(name);
  repl_call(L, "runner/repl.cell_load", 1);
  if (!lua_isfunction(L, 1)) {
    const char *message = lua_tostring(L, -1);
    lua_pushfstring(L, "%s%s", message, ltide_lua_hint(L, message));
    return reply_error(L);
  }
  lua_settop(L, 1);
  if (repl_run_function(L) != LUA_OK) return reply_error(L);
  int n = lua_gettop(L);
  if (n == 0) return;
  lua_pushcfunction(L, show_results);
  lua_insert(L, 1);
  if (runner_call(L, n, 1) != LUA_OK) return reply_error(L);
  if (lua_isstring(L, -1)) reply_text(L, "result", -1);
}

static void serve(lua_State *L, const request *r) {
  if (!strcmp(r->kind, "run")) {
    run_cell(L, r->name);
    lua_settop(L, 0);
    lua_pushcfunction(L, repl_collect);
    runner_report(L, runner_call(L, 0, 0));
    fflush(stderr);
    reply("done", "", 0);
  } else if (!strcmp(r->kind, "complete")) {
    repl_call(L, "runner/repl.cell_complete", 1);
    lua_pushfstring(L, "%s\n%s", lua_tostring(L, -2), lua_tostring(L, -1));
    reply_text(L, "matches", -1);
  } else {
    repl_call(L, "runner/repl.cell_inspect", 1);
    reply_text(L, "help", lua_gettop(L) ? -1 : 1);
  }
}

static int serve_all(lua_State *L) {
  request r;
  for (lua_settop(L, 0); read_request(L, &r) && !interrupt_terminated(); lua_settop(L, 0)) serve(L, &r);
  return 0;
}

void notebook_run(lua_State *L, const char *where) {
  folder = where;
  requests = dup(STDIN_FILENO);
  if (requests < 0 || !freopen("/dev/null", "r", stdin)) return perror("tide: --notebook");
  setvbuf(stdout, NULL, _IOLBF, 0);
  repl_prepare_globals(L);
  open_pictures(L);
  interrupt_session(true);
  lua_settop(L, 0);
  lua_pushcfunction(L, serve_all);
  while (runner_report(L, lua_pcall(L, 0, 0, 0)) != LUA_OK) { /* memory ran out */
    reply("done", "", 0);
    lua_pushcfunction(L, serve_all);
  }
  interrupt_session(false);
  lua_settop(L, 0);
}
