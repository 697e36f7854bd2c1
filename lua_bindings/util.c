/* util.c: tide.cmdline, threads, hooks in long loops. */
#include <stdio.h>
#include <string.h>

#include "row.h"

/* {==== cmdline: options of a script. A parser is a table {title, n descriptions}; parse gives a table of values. */

/* A parser is a script's table: its fields are looked at one by one, and without metamethods. */
static lua_Integer check_parser(lua_State *L) {
  if (!lua_istable(L, 1) || ltide_rawfield(L, 1, "title") != LUA_TSTRING)
    ltide_arg_error(L, 1, "parser", "what tide.cmdline gives");
  lua_pop(L, 1);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  for (lua_Integer k = 1; k <= n; k++) {
    bool is_option = lua_rawgeti(L, 1, k) == LUA_TTABLE && ltide_rawfield(L, -1, "name") == LUA_TSTRING &&
                     ltide_rawfield(L, -2, "help") == LUA_TSTRING;
    if (!is_option)
      ltide_error(L, "ArgumentError", "cmdline: parser[%I]: got what is no option, expected it from flag or option", k);
    lua_pop(L, 3);
  }
  return n;
}

/* parser:flag(name, help) and parser:option(name, default, help) add a description and return the parser. */
static int add_option(lua_State *L, bool is_flag) {
  int help = is_flag ? 3 : 4;
  check_parser(L);
  lua_settop(L, help);
  if (lua_type(L, 2) != LUA_TSTRING) return ltide_arg_error(L, 2, "name", "a name without leading dashes");
  const char *name = lua_tostring(L, 2);
  if (!*name || name[0] == '-')
    return ltide_error(L, "ValueError", "cmdline: name: got '%s', expected a name without leading dashes", name);
  if (!is_flag && !lua_isnil(L, 3) && !lua_isstring(L, 3))
    return ltide_arg_error(L, 3, "default", "a number, a string or nothing; parser:flag is for what is on or off");
  if (!lua_isnil(L, help) && lua_type(L, help) != LUA_TSTRING) return ltide_arg_error(L, help, "help", "a text");
  lua_createtable(L, 0, 4);
  lua_pushstring(L, name), lua_setfield(L, -2, "name");
  lua_pushboolean(L, is_flag), lua_setfield(L, -2, "flag");
  if (!is_flag) lua_pushvalue(L, 3), lua_setfield(L, -2, "default");
  lua_pushstring(L, lua_isnil(L, help) ? "" : lua_tostring(L, help)), lua_setfield(L, -2, "help");
  lua_rawseti(L, 1, (lua_Integer)lua_rawlen(L, 1) + 1);
  lua_settop(L, 1);
  return 1;
}
static int lcmdline_flag(lua_State *L) { return add_option(L, true); }
static int lcmdline_option(lua_State *L) { return add_option(L, false); }

/* Pushes the line that describes option k of the parser at 1. */
static void push_option_line(lua_State *L, lua_Integer k) {
  char left[96], line[512];
  int top = lua_gettop(L);
  lua_rawgeti(L, 1, k);
  ltide_rawfield(L, top + 1, "name"), ltide_rawfield(L, top + 1, "help"), ltide_rawfield(L, top + 1, "flag");
  bool has_default = ltide_rawfield(L, top + 1, "default") != LUA_TNIL;
  const char *value = has_default ? luaL_tolstring(L, -1, NULL) : "";
  const char *name = lua_tostring(L, top + 2), *help = lua_tostring(L, top + 3);
  snprintf(left, sizeof left, "--%s%s", name ? name : "", lua_toboolean(L, top + 4) ? "" : " VALUE");
  snprintf(line, sizeof line, "  %-22s %s%s%s%s\n", left, help ? help : "", *value ? " (default " : "", value,
           *value ? ")" : "");
  lua_settop(L, top);
  lua_pushstring(L, line);
}

static int lcmdline_help(lua_State *L) {
  ltide_no_options(L, 1);
  check_parser(L);
  lua_settop(L, 1);
  ltide_rawfield(L, 1, "title");
  lua_pushliteral(L, "\n");
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  luaL_checkstack(L, (int)n + 8, "cmdline: too many options");
  for (lua_Integer k = 1; k <= n; k++) push_option_line(L, k);
  lua_pushliteral(L, "  --help                 this text\n");
  lua_concat(L, lua_gettop(L) - 1);
  return 1;
}

/* Replaces the text below the default, which is at the top, and the default by the number of the default's kind. */
static void push_number(lua_State *L, const char *name) {
  bool is_integer = lua_isinteger(L, -1);
  int fits;
  lua_Integer i = lua_tointegerx(L, -2, &fits);
  if (!lua_isnumber(L, -2) || (is_integer && !fits))
    ltide_error(L, "ValueError", "cmdline: --%s: got '%s', expected %s", name, lua_tostring(L, -2),
                is_integer ? "an integer" : "a number");
  lua_Number x = lua_tonumber(L, -2);
  lua_pop(L, 2);
  if (is_integer)
    lua_pushinteger(L, i);
  else
    lua_pushnumber(L, x);
}

/* Sets result[key] for the option `text` ("--name" or "--name=value") at args[i]; returns how many arguments it
 * took. */
static int take_option(lua_State *L, const char *text, lua_Integer i) {
  size_t length = strcspn(text + 2, "=");
  for (lua_Integer k = 1, n = (lua_Integer)lua_rawlen(L, 1); k <= n; k++, lua_settop(L, 4)) {
    lua_rawgeti(L, 1, k);
    ltide_rawfield(L, -1, "name");
    const char *name = lua_tostring(L, -1);
    if (!name || strlen(name) != length || strncmp(name, text + 2, length)) continue;
    ltide_rawfield(L, -2, "flag");
    bool is_flag = lua_toboolean(L, -1), has_value = text[2 + length] == '=';
    if (is_flag && has_value) return ltide_error(L, "ValueError", "cmdline: --%s takes no value", name);
    luaL_gsub(L, name, "-", "_");
    if (is_flag)
      lua_pushboolean(L, 1);
    else if (has_value)
      lua_pushstring(L, text + 2 + length + 1);
    else if (lua_rawgeti(L, 2, i + 1) == LUA_TNIL)
      return ltide_error(L, "ValueError", "cmdline: --%s expects a value", name);
    if (ltide_rawfield(L, 5, "default") == LUA_TNUMBER)
      push_number(L, name);
    else
      lua_pop(L, 1);
    lua_rawset(L, 3);
    lua_settop(L, 3);
    return is_flag || has_value ? 1 : 2;
  }
  return ltide_error(L, "ValueError", "cmdline: unknown option %s; --help lists them", text);
}

static void set_defaults(lua_State *L) {
  for (lua_Integer k = 1, n = (lua_Integer)lua_rawlen(L, 1); k <= n; k++, lua_settop(L, 3)) {
    lua_rawgeti(L, 1, k);
    ltide_rawfield(L, -1, "name");
    if (lua_type(L, -1) != LUA_TSTRING) continue; /* a finaliser has changed the parser */
    luaL_gsub(L, lua_tostring(L, -1), "-", "_");
    ltide_rawfield(L, 4, "flag");
    if (lua_toboolean(L, -1))
      lua_pushboolean(L, 0);
    else
      ltide_rawfield(L, 4, "default");
    lua_remove(L, -2);
    lua_rawset(L, 3);
  }
}

/* parser:parse(args): positional arguments are the array part of the result. --help prints the text and exits. */
static int lcmdline_parse(lua_State *L) {
  ltide_no_options(L, 2);
  check_parser(L);
  if (lua_isnoneornil(L, 2)) lua_settop(L, 1), lua_newtable(L);
  if (!lua_istable(L, 2)) return ltide_arg_error(L, 2, "args", "a table of strings");
  lua_settop(L, 2);
  lua_newtable(L);
  set_defaults(L);
  for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, 2); i <= n;) {
    lua_rawgeti(L, 2, i);
    const char *text = lua_tostring(L, -1);
    if (!text) return ltide_arg_error(L, -1, "args", "strings");
    if (!strcmp(text, "--help")) {
      lua_settop(L, 1);
      lcmdline_help(L);
      printf("%s", lua_tostring(L, -1));
      lua_getglobal(L, "os");
      lua_getfield(L, -1, "exit");
      lua_pushboolean(L, 1);
      lua_pushboolean(L, 1);
      lua_call(L, 2, 0);
      lua_newtable(L); /* the program has an os.exit that returns */
      return 1;
    }
    if (!strncmp(text, "--", 2)) {
      i += take_option(L, text, i);
      lua_settop(L, 3);
      continue;
    }
    lua_rawseti(L, 3, (lua_Integer)lua_rawlen(L, 3) + 1);
    i++;
  }
  lua_settop(L, 3);
  return 1;
}

static int lcmdline(lua_State *L) {
  if (lua_type(L, 1) != LUA_TSTRING) return ltide_arg_error(L, 1, "title", "a text");
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, 1);
  lua_setfield(L, -2, "title");
  luaL_setmetatable(L, "tide.cmdline");
  return 1;
}

/* {==== Threads */

static int lset_num_threads(lua_State *L) {
  lua_Integer n = ltide_check_integer(L, 1, "n");
  if (n < 1 || n > 1024) return ltide_error(L, "ValueError", "set_num_threads: n: got %I, expected 1 to 1024", n);
  tide_set_num_threads((int)n);
  return 0;
}

static int lget_num_threads(lua_State *L) {
  lua_pushinteger(L, tide_get_num_threads());
  return 1;
}

static int lset_flush_denormal(lua_State *L) {
  lua_pushboolean(L, tide_set_flush_denormal(ltide_check_boolean(L, 1, "on")));
  return 1;
}

static int nothing(lua_State *L) {
  (void)L;
  return 0;
}

/* A call of any function is where Lua looks for hooks. */
void ltide_poll_hooks(lua_State *L) {
  if (!lua_gethookmask(L)) return;
  lua_pushcfunction(L, nothing);
  lua_call(L, 0, 0);
}

static ltide_row cmdline_rows[] = {
    OF(parser, flag, FN(lcmdline_flag), "(name [, help:string]) -> parser", "Adds what is on or off: --name.")
        OF(parser, option, FN(lcmdline_option), "(name [, default:any [, help:string]]) -> parser",
           "Adds what takes a value of the default's type: --name VALUE.")
            OF(parser, help, FN(lcmdline_help), "() -> string", "The text of --help.")
                OF(parser, parse, FN(lcmdline_parse), "([args:table]) -> table",
                   "The values; other arguments are in the array part."){0}};

void ltide_open_util(lua_State *L, ltide_state *S) {
  (void)S;
  ltide_newmetatable(L, "tide.cmdline");
  lua_newtable(L);
  ltide_register_rows(L, "cmdline", cmdline_rows);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
#define PATH "tide."
  static ltide_row rows[] = {
#include "api/util.def"
      {0}};
  ltide_register_rows(L, "tide", rows);
}
