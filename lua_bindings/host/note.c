/* note.c: tide.note, a line with the time and the device; what tide.progress (progress.lua) needs of the terminal.
 *
 * The line goes to the host's log where there is one, else to stderr, in one write, so that lines of several processes
 * stay whole. tide.log is the logarithm. */
#include <math.h>
#include <time.h>

#include "call/row.h"
#include "call/each.h"
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

/* {==== For progress.lua */

static int script_floor(lua_State *L) { return ltide_give_integer(L, (lua_Integer)floor(lua_tonumber(L, 1))); }

/* clock(): seconds since some moment. */
static int script_clock(lua_State *L) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return lua_pushnumber(L, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec), 1;
}

/* where(): where lines go: "terminal", "notebook", "log" or "pipe"; columns of it. */
static int script_where(lua_State *L) {
  int columns = 0;
  const char *place = tide_log(NULL) ? "log" : ltide_place_of_errors(&columns);
  if (lua_getfield(L, LUA_REGISTRYINDEX, LTIDE_NOTEBOOK) != LUA_TNIL) place = "notebook";
  lua_pushstring(L, place);
  lua_pushinteger(L, columns > 0 ? columns : 80);
  return 2;
}

static int script_draw(lua_State *L) {
  fflush(stdout);
  fputs(lua_tostring(L, 1), stderr);
  return fflush(stderr), 0;
}

void ltide_open_note(lua_State *L, ltide_state *S) {
#include <rows/note.inc>
  LTIDE_GIVE(L, "host/note.c", floor, clock, where, draw);
  ltide_register_rows(L, "tide", note_rows);
}
