/* runner_setup.c: `tide --api json`, which prints the table of functions, and `tide --init`, which begins a project.
 *
 * Invariant: no file that exists is opened for writing. */
#include <errno.h>

#include "call/did_you_mean.h"
#include "call/each.h"
#include "runner.h"
#include "call/script.h"
#include "call/system.h"

/* json_string(text): with its quotes. */
static int script_json_string(lua_State *L) {
  size_t n;
  char escape[8];
  luaL_Buffer b;
  const char *text = lua_tolstring(L, 1, &n);
  luaL_buffinit(L, &b);
  luaL_addchar(&b, '"');
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\') luaL_addchar(&b, '\\');
    if (c >= 32) {
      luaL_addchar(&b, text[i]);
      continue;
    }
    snprintf(escape, sizeof escape, "\\u%04x", c);
    luaL_addstring(&b, c == '\n' ? "\\n" : escape);
  }
  luaL_addchar(&b, '"');
  return luaL_pushresult(&b), 1;
}

/* insteads(): the list of {names, hint} of call/api/instead.def. */
static int script_insteads(lua_State *L) {
  const char *names, *hint;
  lua_newtable(L);
  for (int i = 0; (hint = ltide_instead_at(i, &names)); i++) {
    lua_createtable(L, 2, 0);
    lua_pushstring(L, names), lua_rawseti(L, -2, 1);
    lua_pushstring(L, hint), lua_rawseti(L, -2, 2);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static void give(lua_State *L) { LTIDE_GIVE(L, "runner/runner_setup.c", json_string, insteads); }

int setup_print_api(lua_State *L) {
  size_t n;
  give(L);
  lua_pushstring(L, tide_version());
  ltide_script_call(L, "runner/api_json.write", 1);
  const char *text = lua_tolstring(L, -1, &n);
  if (fwrite(text, 1, n, stdout) != n || fflush(stdout)) return luaL_error(L, "--api: %s", strerror(errno));
  return 0;
}

/* Pushes the folder of the stubs for the Lua language server, of the installed tree or of a build, or nil. */
static void push_stubs(lua_State *L) {
  static const char *const places[] = {"/../share/tide/stubs", "/../docs/stubs"};
  char program[4096];
  char *slash = ltide_program_path(program, sizeof program) ? strrchr(program, '/') : NULL;
  if (!slash) return lua_pushnil(L);
  *slash = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const char *folder = lua_pushfstring(L, "%s%s", program, places[i]);
    if (!ltide_cannot_use(lua_pushfstring(L, "%s/tide.lua", folder), false)) return lua_pop(L, 1);
    lua_pop(L, 2);
  }
  lua_pushnil(L);
}

/* Writes a file that is not there yet; its folder is made. */
static void write_new(lua_State *L, const char *path, const char *text, size_t n) {
  const char *slash = strrchr(path, '/');
  if (slash) ltide_make_folder(lua_pushlstring(L, path, (size_t)(slash - path)));
  FILE *file = ltide_open_new(path);
  if (!file && errno == EEXIST) return (void)printf("kept   %s, which exists\n", path);
  if (!file) luaL_error(L, "--init: %s: %s", path, strerror(errno));
  bool is_written = fwrite(text, 1, n, file) == n;
  if (fclose(file) || !is_written) luaL_error(L, "--init: %s: %s", path, strerror(errno));
  printf("wrote  %s\n", path);
}

int setup_init(lua_State *L) {
  give(L);
  push_stubs(L);
  bool has_stubs = lua_isstring(L, -1);
  ltide_script_call(L, "runner/starter.files", 1);
  int files = lua_gettop(L);
  for (lua_Integer i = 1; lua_rawgeti(L, files, i) == LUA_TTABLE; i++, lua_settop(L, files)) {
    size_t n;
    lua_rawgeti(L, -1, 1), lua_rawgeti(L, -2, 2);
    const char *text = lua_tolstring(L, -1, &n);
    write_new(L, lua_tostring(L, -2), text, n);
  }
  puts("run    tide main.lua, tide spec/main_spec.lua");
  if (!has_stubs) puts("note   no stubs for editors were found: tide --help prompt says where they are");
  return 0;
}
