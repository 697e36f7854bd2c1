/* runner_manual.c: the pages of the manual for help at the prompt (help/manual.lua): Markdown files in the folder
 * share/tide/manual beside the runner's bin. A build tree has a link there. */

#include "call/did_you_mean.h"
#include "call/each.h"
#include "repl.h"
#include "call/script.h"
#include "call/system.h"

static void push_folder(lua_State *L) {
  char program[4096];
  char *slash = ltide_program_path(program, sizeof program) ? strrchr(program, '/') : NULL;
  if (slash) *slash = 0;
  slash = slash ? strrchr(program, '/') : NULL;
  if (slash) *slash = 0;
  lua_pushfstring(L, "%s/share/tide/manual", slash ? program : "..");
}

/* manual_folder(): where the pages are, or would be. */
static int script_manual_folder(lua_State *L) { return push_folder(L), 1; }

/* manual_text(name): the text of that file of the folder, or nil. */
static int script_manual_text(lua_State *L) {
  char bytes[4096];
  luaL_Buffer b;
  push_folder(L);
  FILE *file = ltide_open_plain(lua_pushfstring(L, "%s/%s", lua_tostring(L, -1), lua_tostring(L, 1)));
  if (!file) return lua_pushnil(L), 1;
  luaL_buffinit(L, &b);
  for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;) luaL_addlstring(&b, bytes, n);
  fclose(file);
  return luaL_pushresult(&b), 1;
}

/* nearest_of(word, list): of its strings, or nil. */
static int script_nearest_of(lua_State *L) {
  ltide_nearest near = {.wanted = lua_tostring(L, 1)};
  for (lua_Integer i = 1; lua_rawgeti(L, 2, i) == LUA_TSTRING; i++, lua_settop(L, 2))
    ltide_nearest_try(&near, lua_tostring(L, -1));
  return lua_pushstring(L, near.name), 1;
}

void manual_open(lua_State *L) { LTIDE_GIVE(L, "runner/runner_manual.c", manual_folder, manual_text, nearest_of); }
