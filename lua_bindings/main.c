/* main.c: the runner: tide [options] [script [args]].
 *
 * Options, the table arg, exit codes and tracebacks follow lua.c, so that a .lua script runs as it would there; `tide`
 * is a global, opened before the script. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "names.h"
#include "runner.h"

static const char *program = "tide";

/* {==== Calls */

/* The message with its traceback: an error object carries its own. */
static int with_traceback(lua_State *L) {
  if (lua_isstring(L, 1)) { /* or a number */
    const char *message = lua_tostring(L, 1), *hint = ltide_lua_hint(L, message);
    luaL_traceback(L, L, lua_pushfstring(L, "%s%s", message, hint), 1);
    return 1;
  }
  if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) {
    if (lua_istable(L, 1) && lua_getfield(L, 1, "traceback") == LUA_TSTRING) {
      lua_pushfstring(L, "%s\n%s", lua_tostring(L, -2), lua_tostring(L, -1));
      return 1;
    }
    lua_settop(L, 2);
    return 1;
  }
  lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
  luaL_traceback(L, L, lua_tostring(L, -1), 1);
  return 1;
}

int runner_call(lua_State *L, int nargs, int nresults) {
  int base = lua_gettop(L) - nargs;
  lua_pushcfunction(L, with_traceback);
  lua_insert(L, base);
  interrupt_arm(L);
  int status = lua_pcall(L, nargs, nresults, base);
  interrupt_disarm(L);
  lua_remove(L, base);
  return status;
}

int runner_report(lua_State *L, int status) {
  if (status == LUA_OK) return status;
  const char *text = lua_tostring(L, -1);
  int top = lua_gettop(L);
  fflush(stdout);
  fprintf(stderr, "%s: %s", program, text ? text : "(error message is not a string)");
  fprintf(stderr, "%s\n", text && !strchr(text, '\n') ? ltide_lua_hint(L, text) : "");
  fflush(stderr);
  lua_settop(L, top - 1);
  return status;
}

static int run_chunk(lua_State *L, int status) {
  if (status == LUA_OK) status = runner_call(L, 0, 0);
  return runner_report(L, status);
}

/* {==== The command line */

typedef struct ltide_options {
  int script; /* index of the script in argv, or 0 */
  bool interactive, version, evaluated, ignore_env;
} ltide_options;

static void print_version(void) { printf("tide %s  %s\n", tide_version(), LUA_COPYRIGHT); }

static void print_usage(const char *bad) {
  if (bad) fprintf(stderr, "%s: unrecognized option or missing argument: '%s'\n", program, bad);
  fprintf(bad ? stderr : stdout,
          "usage: %s [options] [script [args]]\n"
          "  -e stat   run the string 'stat'\n"
          "  -l mod    require library 'mod' into a global of that name\n"
          "  -l g=mod  require library 'mod' into the global 'g'\n"
          "  -i        enter the prompt after running the script\n"
          "  -v        show version information\n"
          "  -W [off]  turn warnings off (they are on; -W on)\n"
          "  -E        ignore environment variables of Lua\n"
          "  -h        this text\n"
          "  --        stop handling options\n"
          "  -         run the standard input\n"
          "Without a script, a terminal gets a prompt. Environment: TIDE_SIM_DEVICES=n simulates n GPUs.\n",
          program);
}

/* Does the option need the next argument? Its text may also follow at once: -lfoo. */
static bool takes_value(const char *option) { return option[1] == 'e' || option[1] == 'l'; }

/* -W may be followed by on or off; alone it means off. */
static bool is_switch(const char *text) { return text && (!strcmp(text, "on") || !strcmp(text, "off")); }

/* Returns false for a bad option, which has been reported. */
static bool parse_options(ltide_options *o, char **argv) {
  int i = 1;
  for (; argv[i] && argv[i][0] == '-' && argv[i][1]; i++) {
    const char *a = argv[i];
    if (!strcmp(a, "--")) {
      i++;
      break;
    }
    if (takes_value(a)) {
      o->evaluated |= a[1] == 'e';
      if (!a[2] && !argv[++i]) return print_usage(a), false;
      continue;
    }
    if (!strcmp(a, "-h") || !strcmp(a, "--help")) {
      print_usage(NULL);
      exit(EXIT_SUCCESS);
    }
    if (a[2] || !strchr("ivWE", a[1])) return print_usage(a), false;
    if (a[1] == 'W' && is_switch(argv[i + 1])) i++;
    o->interactive |= a[1] == 'i';
    o->version |= a[1] == 'v' || a[1] == 'i';
    o->ignore_env |= a[1] == 'E';
  }
  o->script = argv[i] ? i : 0;
  return true;
}

/* The table arg: the script at 0, its arguments from 1, what came before at negative indexes. */
static void push_args(lua_State *L, char **argv, int argc, int script) {
  lua_createtable(L, argc - script, script + 1);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - script);
  }
  lua_setglobal(L, "arg");
}

/* "mod", or "g=mod" where the global has another name. */
static int require_global(lua_State *L, const char *option) {
  int top = lua_gettop(L);
  const char *equals = strchr(option, '=');
  const char *name = equals ? lua_pushlstring(L, option, (size_t)(equals - option)) : option;
  lua_getglobal(L, "require");
  lua_pushstring(L, equals ? equals + 1 : option);
  int status = runner_call(L, 1, 1);
  if (status == LUA_OK) lua_setglobal(L, name);
  runner_report(L, status);
  lua_settop(L, top);
  return status;
}

/* Runs -e, -l and -W in order. */
static bool run_options(lua_State *L, char **argv, int end) {
  for (int i = 1; i < end && argv[i][0] == '-' && argv[i][1] && strcmp(argv[i], "--"); i++) {
    char option = argv[i][1];
    if (option == 'W') {
      bool has_value = i + 1 < end && is_switch(argv[i + 1]);
      lua_warning(L, has_value && !strcmp(argv[++i], "on") ? "@on" : "@off", 0);
      continue;
    }
    if (!takes_value(argv[i])) continue;
    const char *value = argv[i][2] ? argv[i] + 2 : argv[++i];
    int status = option == 'l' ? require_global(L, value)
                               : run_chunk(L, luaL_loadbuffer(L, value, strlen(value), "=(command line)"));
    if (status != LUA_OK) return false;
  }
  return true;
}

static int run_script(lua_State *L, char **argv, int script) {
  const char *name = argv[script];
  if (!strcmp(name, "-") && strcmp(argv[script - 1], "--")) name = NULL;
  int status = luaL_loadfile(L, name), n = 0;
  if (status == LUA_OK) {
    while (argv[script + 1 + n]) n++;
    luaL_checkstack(L, n, "too many arguments to the script");
    for (int i = 1; i <= n; i++) lua_pushstring(L, argv[script + i]);
    status = runner_call(L, n, 0);
  }
  return runner_report(L, status);
}

static int run_init(lua_State *L) {
  const char *name = "=LUA_INIT_5_4", *init = getenv(name + 1);
  if (!init) init = getenv((name = "=LUA_INIT") + 1);
  if (!init) return LUA_OK;
  return run_chunk(L, init[0] == '@' ? luaL_loadfile(L, init + 1) : luaL_loadbuffer(L, init, strlen(init), name));
}

static int run(lua_State *L) {
  int argc = (int)lua_tointeger(L, 1);
  char **argv = lua_touserdata(L, 2);
  ltide_options o = {0};
  if (argv[0] && argv[0][0]) program = argv[0];
  if (!parse_options(&o, argv)) return 0;
  if (o.version) print_version();
  if (o.ignore_env) lua_pushboolean(L, 1), lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  luaL_openlibs(L);
  lua_gc(L, LUA_GCGEN, 0, 0); /* tensors die young */
  lua_warning(L, "@on", 0);
  luaL_requiref(L, "tide", luaopen_tide, 1);
  lua_pushboolean(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, LTIDE_RUNNER);
  interrupt_open(L);
  push_args(L, argv, argc, o.script);
  lua_settop(L, 0);
  if (!o.ignore_env && run_init(L) != LUA_OK) return 0;
  if (!run_options(L, argv, o.script ? o.script : argc)) return 0;
  if (o.script && run_script(L, argv, o.script) != LUA_OK && !o.interactive) return 0;
  bool nothing = !o.script && !o.evaluated && !o.version;
  if (o.interactive || (nothing && isatty(STDIN_FILENO))) {
    if (!o.version) print_version();
    repl_run(L);
  } else if (nothing && run_chunk(L, luaL_loadfile(L, NULL)) != LUA_OK)
    return 0;
  lua_pushboolean(L, 1);
  return 1;
}

int main(int argc, char **argv) {
  lua_State *L = runner_newstate();
  if (!L) {
    fprintf(stderr, "%s: no memory for a Lua state\n", argv[0]);
    return EXIT_FAILURE;
  }
  lua_pushcfunction(L, run);
  lua_pushinteger(L, argc);
  lua_pushlightuserdata(L, argv);
  int status = lua_pcall(L, 2, 1, 0);
  bool ok = lua_toboolean(L, -1) && status == LUA_OK;
  if (status != LUA_OK) runner_report(L, status);
  if (!ok && interrupt_happened()) { /* the work that is queued shall not hold the exit up */
    fflush(NULL);
    _exit(EXIT_FAILURE);
  }
  lua_close(L);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
