/* sanitizer.c: tide.cuda.sanitizer: the races of a script as tables.
 *
 * A race is a table of strings and numbers with the two operations, the bytes and the missing wait. errors() lists such
 * tables; the error that a race raises has the same fields besides its own. */
#include "tensor/tensor.h"
#include "call/fields.h"
#include "tide/sanitizer.h"

/* {op=, line=, replay=, access=, freed=, device=, stream=}; what the host did has no stream. */
static void push_access(lua_State *L, const tide_race_access *a) {
  lua_createtable(L, 0, 6);
  ltide_set_text(L, "op", a->op);
  ltide_set_text(L, "line", a->line[0] ? a->line : NULL);
  ltide_set_text(L, "replay", a->replay[0] ? a->replay : NULL);
  ltide_set_text(L, "access", a->write ? "write" : "read");
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
  ltide_set_text(L, "edge", race->edge);
}

static void add_race(lua_State *L) {
  tide_race race;
  if (tide_error_race(&race)) set_race(L, &race);
}

static int lenable(lua_State *L, ltide_call *c) {
  const char *action = c->v[0].text;
  bool warns = action && !strcmp(action, "warn");
  if (action && !warns && strcmp(action, "error") != 0)
    return ltide_error(L, "ValueError", "enable: action: got %s, expected 'error' or 'warn'",
                       ltide_typename(L, c->v[0].at));
  return ltide_done(L, tide_sanitizer_enable(warns ? TIDE_SANITIZER_WARN : TIDE_SANITIZER_ERROR));
}

static int lerrors(lua_State *L, ltide_call *c) {
  tide_race race;
  lua_createtable(L, tide_sanitizer_errors(), 1);
  for (int i = 0; tide_sanitizer_error(&race, i); i++) {
    lua_createtable(L, 0, 6);
    set_race(L, &race);
    ltide_set_text(L, "message", race.message);
    ltide_set_integer(L, "count", (lua_Integer)race.count);
    lua_rawseti(L, -2, i + 1);
  }
  ltide_set_integer(L, "count", (lua_Integer)tide_sanitizer_count());
  return 1;
}

void ltide_open_sanitizer(lua_State *L, ltide_state *S) {
  ltide_error_of(S)->set_race = add_race;
#include <rows/sanitizer.inc>
  ltide_register_in(L, "tide.cuda.sanitizer", sanitizer_rows);
}
