/* sanitizer.c: tide.cuda.sanitizer: the races of a script as tables.
 *
 * A race is a table of strings and numbers with the two operations, the bytes and the missing wait. errors() lists such
 * tables; the error that a race raises has the same fields besides its own. */
#include <string.h>

#include "row.h"
#include "bindings.h"
#include "tide/sanitizer.h"

/* {op=, line=, replay=, access=, freed=, device=, stream=}; what the host did has no stream. */
static void push_access(lua_State *L, const tide_race_access *a) {
  lua_createtable(L, 0, 6);
  lua_pushstring(L, a->op);
  lua_setfield(L, -2, "op");
  if (a->line[0]) lua_pushstring(L, a->line), lua_setfield(L, -2, "line");
  if (a->replay[0]) lua_pushstring(L, a->replay), lua_setfield(L, -2, "replay");
  lua_pushstring(L, a->write ? "write" : "read");
  lua_setfield(L, -2, "access");
  if (a->freed) lua_pushboolean(L, 1), lua_setfield(L, -2, "freed");
  ltide_push_device(L, a->device);
  lua_setfield(L, -2, "device");
  if (a->device >= 0) ltide_set_integer(L, "stream", (lua_Integer)a->stream);
}

/* Sets earlier, later, bytes and edge in the table at the top. */
static void set_race(lua_State *L, const tide_race *race) {
  luaL_checkstack(L, 6, "tide: sanitizer");
  push_access(L, &race->earlier);
  lua_setfield(L, -2, "earlier");
  push_access(L, &race->later);
  lua_setfield(L, -2, "later");
  lua_createtable(L, 2, 0);
  lua_pushinteger(L, (lua_Integer)race->first);
  lua_rawseti(L, -2, 1);
  lua_pushinteger(L, (lua_Integer)race->last - 1);
  lua_rawseti(L, -2, 2);
  lua_setfield(L, -2, "bytes");
  lua_pushstring(L, race->edge);
  lua_setfield(L, -2, "edge");
}

void ltide_set_race(lua_State *L) {
  tide_race race;
  if (tide_error_race(&race)) set_race(L, &race);
}

static tide_sanitizer_action check_action(lua_State *L, int arg) {
  static const char *const keys[] = {"action", NULL};
  if (lua_isnoneornil(L, arg)) return TIDE_SANITIZER_ERROR;
  if (!lua_istable(L, arg)) ltide_arg_error(L, arg, "options", "a table {action='error' or 'warn'} or nothing");
  ltide_check_keys(L, arg, keys);
  if (ltide_rawfield(L, arg, "action") == LUA_TNIL) return TIDE_SANITIZER_ERROR;
  if (lua_type(L, -1) != LUA_TSTRING) ltide_arg_error(L, lua_gettop(L), "action", "'error' or 'warn'");
  const char *name = lua_tostring(L, -1);
  if (strcmp(name, "error") && strcmp(name, "warn"))
    ltide_error(L, "ValueError", "%s: action: got %s, expected 'error' or 'warn'", ltide_function_name(L),
                ltide_typename(L, lua_gettop(L)));
  return strcmp(name, "warn") ? TIDE_SANITIZER_ERROR : TIDE_SANITIZER_WARN;
}

static int lenable(lua_State *L) {
  ltide_try(L, tide_sanitizer_enable(check_action(L, 1)));
  return 0;
}

static int ldisable(lua_State *L) {
  (void)L;
  tide_sanitizer_disable();
  return 0;
}

static int lis_enabled(lua_State *L) {
  lua_pushboolean(L, tide_sanitizer_is_enabled());
  return 1;
}

static int lerrors(lua_State *L) {
  tide_race race;
  lua_createtable(L, tide_sanitizer_errors(), 1);
  for (int i = 0; tide_sanitizer_error(&race, i); i++) {
    lua_createtable(L, 0, 6);
    set_race(L, &race);
    lua_pushstring(L, race.message);
    lua_setfield(L, -2, "message");
    ltide_set_integer(L, "count", (lua_Integer)race.count);
    lua_rawseti(L, -2, i + 1);
  }
  ltide_set_integer(L, "count", (lua_Integer)tide_sanitizer_count());
  return 1;
}

void ltide_open_sanitizer(lua_State *L, ltide_state *S) {
  (void)S;
#define PATH "tide.cuda.sanitizer."
  static ltide_row rows[] = {
#include "api/sanitizer.def"
      {0}};
  lua_getfield(L, -1, "cuda");
  lua_createtable(L, 0, 4);
  ltide_register_rows(L, "tide.cuda.sanitizer", rows);
  lua_setfield(L, -2, "sanitizer");
  lua_pop(L, 1);
}
