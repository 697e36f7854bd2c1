/* util.c: tide.cmdline, threads. */

#include "call/each.h"
#include "call/did_you_mean.h"
#include "call/row.h"

/* {==== What runner/cmdline.lua is given */

/* like(default, value): the number that the value is, an integer where the default is one; nil: it is none. */
static int script_like(lua_State *L) {
  int is = lua_isnumber(L, 2);
  if (lua_isinteger(L, 1)) {
    lua_Integer i = lua_tointegerx(L, 2, &is);
    lua_pushinteger(L, i);
  } else
    lua_pushnumber(L, lua_tonumber(L, 2));
  if (!is) lua_pushnil(L);
  return 1;
}

/* near_option(wanted, options): the name of the option that was meant, or nil: one that is near, or that begins so. */
static int script_near_option(lua_State *L) {
  ltide_nearest near = {.wanted = lua_tostring(L, 1)};
  const char *begins = NULL;
  for (lua_Integer i = 1; lua_rawgeti(L, 2, i) == LUA_TTABLE; i++, lua_settop(L, 2)) {
    lua_getfield(L, -1, "name");
    ltide_nearest_try(&near, lua_tostring(L, -1));
    if (*near.wanted && !strncmp(near.wanted, lua_tostring(L, -1), strlen(near.wanted))) begins = lua_tostring(L, -1);
  }
  return lua_pushstring(L, near.name ? near.name : begins), 1;
}

/* leave(text): prints it and ends the program well. */
static int script_leave(lua_State *L) {
  printf("%s", lua_tostring(L, 1));
  lua_getglobal(L, "os");
  lua_getfield(L, -1, "exit");
  lua_pushboolean(L, 1);
  lua_pushboolean(L, 1);
  lua_call(L, 2, 0);
  return 0;
}

/* {==== Threads */

static int lset_num_threads(lua_State *L, ltide_call *c) {
  lua_Integer n = c->v[0].i;
  if (n < 1 || n > 1024) return ltide_error(L, "ValueError", "set_num_threads: n: got %I, expected 1 to 1024", n);
  tide_set_num_threads((int)n);
  return 0;
}

static int lget_num_threads(lua_State *L, ltide_call *c) { return ltide_give_integer(L, tide_get_num_threads()); }

static int lset_flush_denormal(lua_State *L, ltide_call *c) {
  return ltide_give_boolean(L, tide_set_flush_denormal(c->v[0].boolean));
}

static ltide_row cmdline_rows[] = {
    OF(parser, flag, LUA("host/cmdline.flag"), "(name [, help:string]) -> parser",
       "Adds what is on or off: --name.") OF(parser, option, LUA("host/cmdline.option"),
                                             "(name [, default:any [, help:string]]) -> parser",
                                             "Adds what takes a value of the default's type: --name VALUE.")
        OF(parser, help, LUA("host/cmdline.help"), "() -> string", "The text of --help.") OF(
            parser, parse, LUA("host/cmdline.parse"), "([args:table]) -> table",
            "The values; other arguments are in the array part, and all behind '--'. --help prints the text and ends "
            "the program. A wrong option is a ValueError; the runner answers one that nothing catches with its "
            "message and exit code 2."){0}};

void ltide_open_util(lua_State *L, ltide_state *S) {
  static const luaL_Reg none[] = {{NULL, NULL}};
  LTIDE_GIVE(L, "host/util.c", like, near_option, leave);
  ltide_new_class(L, "tide.cmdline", none, "cmdline", cmdline_rows, NULL);
#include <rows/util.inc>
  ltide_register_rows(L, "tide", util_rows);
}
