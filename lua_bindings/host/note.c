/* note.c: tide.note, a line with the time and the device.
 *
 * The line goes to the host's log where there is one, else to stderr, in one write, so that lines of several processes
 * stay whole. tide.log is the logarithm. */
#include <stdio.h>

#include "call/row.h"
#include "call/system.h"

/* Pushes "[12:34:56.789 cuda:0]". A device is asked of only where one is in use. */
static void push_head(lua_State *L) {
  char time[32];
  int device = tide_is_initialized() ? tide_current_device() : TIDE_CPU;
  ltide_clock_text(time, sizeof time);
  if (device < 0)
    lua_pushfstring(L, "[%s cpu]", time);
  else
    lua_pushfstring(L, "[%s cuda:%d]", time, device);
}

static int lnote(lua_State *L) {
  luaL_Buffer b;
  int n = lua_gettop(L);
  ltide_enter(L);
  luaL_checkstack(L, LUA_MINSTACK, "note");
  for (int i = 1; i <= n; i++) { /* __tostring may call anything */
    luaL_tolstring(L, i, NULL);
    lua_replace(L, i);
  }
  luaL_buffinit(L, &b);
  push_head(L);
  luaL_addvalue(&b);
  for (int i = 1; i <= n; i++) {
    luaL_addchar(&b, ' ');
    lua_pushvalue(L, i);
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
  if (tide_log(NULL)) return tide_log(lua_tostring(L, -1)), 0;
  lua_pushliteral(L, "\n");
  lua_concat(L, 2);
  size_t size;
  const char *line = lua_tolstring(L, -1, &size);
  fflush(stdout);
  fwrite(line, 1, size, stderr);
  fflush(stderr);
  return 0;
}

void ltide_open_note(lua_State *L, ltide_state *S) {
#define PATH "tide."
  static ltide_row rows[] = {
#include "host/api/note.def"
      {0}};
  (void)S;
  ltide_register_rows(L, "tide", rows);
}
