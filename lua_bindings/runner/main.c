/* main.c: the runner: tide [options] [script [args]].
 *
 * Options, the table arg, exit codes and tracebacks follow lua.c, so that a .lua script runs as it would there; `tide`
 * is a global, opened before the script. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "distributed/distributed.h"
#include "call/did_you_mean.h"
#include "repl.h"
#include "runner.h"
#include "call/system.h"
#include "host/host.h"

/* {==== Calls */

/* debug.traceback, without the frames of tide's own chunks. */
static int traceback(lua_State *L) {
  lua_State *co = lua_isthread(L, 1) ? lua_tothread(L, 1) : L;
  int arg = lua_isthread(L, 1) ? 2 : 1;
  const char *message = lua_tostring(L, arg);
  if (!message && !lua_isnoneornil(L, arg))
    lua_pushvalue(L, arg); /* no string: as it is */
  else
    ltide_traceback(L, co, message, (int)luaL_optinteger(L, arg + 1, co == L ? 1 : 0));
  return 1;
}

static int run_chunk(lua_State *L, int status) {
  if (status == LUA_OK) status = runner_call(L, 0, 0);
  return runner_report(L, status);
}

/* {==== The command line */

typedef struct ltide_options {
  int script; /* index of the script in argv, or 0 */
  bool interactive, version, evaluated, ignore_env, strict, init;
  const char *device;   /* the default one, or NULL */
  const char *help;     /* what --help asks about, or NULL */
  const char *api;      /* the form that --api asks for, or NULL */
  const char *notebook; /* the folder of --notebook, or NULL */
  bool doctor;
  ranks_options launch;
} ltide_options;

static void print_version(void) { printf("tide %s  %s\n", tide_version(), LUA_COPYRIGHT); }

#define USAGE "usage: %s [options] [script [args]]"
static void print_usage(void) {
  printf(USAGE
         "\n  -e stat   run the string 'stat'\n"
         "  -l mod    require library 'mod' into a global of that name; -l g=mod into 'g'\n"
         "  -i        enter the prompt after running the script\n"
         "  -v        show version information; --version shows it and ends\n"
         "  -W [off]  turn warnings on (they are), or off\n"
         "  -E        ignore environment variables of Lua\n"
         "  -h [name] this text (--help), or what a name is, as help 'name' says: -h matmul, --help cuda.stream\n"
         "  --sim n   simulate n GPUs, which take the place of real ones (as TIDE_SIM_DEVICES=n does)\n"
         "  --strict  reading an undefined global is an error, which names what is near\n"
         "  --device dev  where tensors are made that name no device: cpu, cuda, cuda:1\n"
         "  --init    write .luarc.json, main.lua and spec/main_spec.lua; what is there stays\n"
         "  --api json  write the table of functions: names, signatures, parameters, texts\n"
         "  --notebook dir  serve the cells of a notebook, as its kernel asks; pictures go to dir\n"
         "  --ranks n  run n processes by the launcher of MPI that is installed; behind it --hosts a,b:2\n"
         "            names machines, --verbose shows the launcher's command\n"
         "  --doctor  what there is of MPI: library, launchers, network interfaces\n"
         "  --        stop handling options\n"
         "  -         run the standard input\n"
         "Without a script, a terminal gets a prompt. The text of -e may be one of its commands: -e :devices\n"
         "Modules are found beside the script, too. Exit codes: 1 after an error, 2 after a wrong option, 143 after\n"
         "SIGTERM, which raises an error once, so that a script can save its work; a second one ends at once.\n",
         runner.program);
}

/* Reports a wrong option, with a line on usage; returns false. `hint` may be NULL. */
static bool refuse_option(const char *what, const char *option, const char *hint) {
  runner.failure = EXIT_USAGE;
  fprintf(stderr, "%s: %s '%s'", runner.program, what, option);
  if (hint) fprintf(stderr, ", did you mean --%s?", hint);
  fprintf(stderr, "\n" USAGE "; %s --help lists the options\n", runner.program, runner.program);
  return false;
}

static bool refuse_unknown(const char *option) {
  char name[40];
  ltide_nearest near = {.wanted = name};
  snprintf(name, sizeof name, "%.*s", (int)strcspn(option, "="), option);
  if (!strncmp(option, "--", 2)) {
    near.wanted = name + 2;
    static const char *const all[] = {"sim", "device",   "help",  "version", "strict", "init",
                                      "api", "notebook", "ranks", "doctor",  "hosts"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ltide_nearest_try(&near, all[i]);
  }
  if (!strcmp(name, "-n") || !strcmp(name, "-np") || !strncmp(name, "--np", 4)) near.name = "ranks"; /* others' word */
  bool is_apart = !strcmp(name, "--ranks") || !strcmp(name, "--hosts") || !strcmp(name, "--verbose");
  return is_apart ? refuse_option("--ranks n, --hosts a,b and --verbose stand side by side, got", option, NULL)
                  : refuse_option("unrecognized option", option, near.name);
}

/* Does the option need the next argument? Its text may also follow at once: -lfoo, --sim=2. */
static bool takes_value(const char *option) {
  return option[1] == 'e' || option[1] == 'l' || !strcmp(option, "--sim") || !strcmp(option, "--device") ||
         !strcmp(option, "--api") || !strcmp(option, "--notebook");
}

/* What stands behind a long option, in the same argument or as the next one; NULL if this is another option. */
static const char *long_value(char **argv, int i, const char *option) {
  size_t n = strlen(option);
  if (strncmp(argv[i], option, n)) return NULL;
  return argv[i][n] == '=' ? argv[i] + n + 1 : argv[i][n] ? NULL : argv[i + 1];
}

/* The number of devices goes into the environment, so that processes started by the script simulate them too. */
static bool simulate(const char *count) {
  char *end;
  long n = strtol(count, &end, 10);
  if (*count >= '0' && *count <= '9' && !*end && n <= TIDE_MAX_DEVICES)
    return ltide_set_variable("TIDE_SIM_DEVICES", count);
  char what[100];
  snprintf(what, sizeof what, "--sim: expected how many GPUs to simulate, 0 to %d, got", TIDE_MAX_DEVICES);
  return refuse_option(what, count, NULL);
}

/* --sim, --device, --api and --notebook; false if this is neither. *ok becomes false for a bad value, which has been
 * reported. */
static bool parse_long(ltide_options *o, char **argv, int i, bool *ok) {
  const char *value = long_value(argv, i, "--sim");
  if (value) return *ok = simulate(value), true;
  value = long_value(argv, i, "--api");
  if (value) *ok = !strcmp(value, "json") || refuse_option("--api: expected json, got", value, NULL);
  if (value) return o->api = value, true;
  value = long_value(argv, i, "--notebook");
  if (value) return o->notebook = value, true;
  value = long_value(argv, i, "--device");
  if (value) o->device = value;
  return value != NULL;
}

/* -W may be followed by on or off; alone it means on. */
static bool is_switch(const char *text) { return text && (!strcmp(text, "on") || !strcmp(text, "off")); }

/* --ranks, --hosts and --verbose, which stand side by side from i on. Returns what is behind them; 0: one was wrong. */
static int parse_ranks(ranks_options *o, char **argv, int i) {
  o->first = i;
  for (const char *value; argv[i]; i += strchr(argv[i], '=') || !strcmp(argv[i], "--verbose") ? 1 : 2) {
    if (!strcmp(argv[i], "--verbose")) {
      o->verbose = true;
    } else if ((value = long_value(argv, i, "--ranks"))) {
      char *end;
      long n = strtol(value, &end, 10);
      if (*value < '0' || *value > '9' || *end || n < 1 || n > 1000000)
        return refuse_option("--ranks: expected how many processes, from 1, got", value, NULL);
      o->ranks = (int)n;
    } else if ((value = long_value(argv, i, "--hosts"))) {
      o->hosts = value;
    } else {
      break;
    }
  }
  o->behind = i;
  if (!o->ranks && i > o->first) return refuse_option("without --ranks:", argv[o->first], NULL);
  return i;
}

/* Returns false for a bad option, which has been reported. */
static bool parse_options(ltide_options *o, char **argv) {
  int i = 1;
  for (int first; argv[i] && argv[i][0] == '-' && argv[i][1]; i++) {
    first = i;
    if (!o->launch.ranks && !(i = parse_ranks(&o->launch, argv, i))) return false;
    if (i > first && i--) continue;
    const char *a = argv[i];
    if (!strcmp(a, "--")) {
      i++;
      break;
    }
    bool ok = true, is_long = parse_long(o, argv, i, &ok);
    if (!ok) return false;
    if (takes_value(a)) {
      o->evaluated |= a[1] == 'e';
      bool is_next = a[1] == '-' || !a[2];
      if (is_next && (!argv[++i] || argv[i][0] == '-')) return refuse_option("missing argument of", a, NULL);
    }
    if (!strcmp(a, "--strict")) o->strict = is_long = true;
    if (!strcmp(a, "--init")) o->init = is_long = true;
    if (!strcmp(a, "--doctor")) o->doctor = is_long = true;
    if (is_long || takes_value(a)) continue;
    bool is_help = !strcmp(a, "-h") || !strcmp(a, "--help");
    if (is_help && argv[i + 1]) return o->help = argv[i + 1], true;
    if (is_help || !strcmp(a, "--version")) {
      if (a[2] == 'v')
        print_version();
      else
        print_usage();
      exit(EXIT_SUCCESS);
    }
    if (a[2] || !strchr("ivWE", a[1])) return refuse_unknown(a);
    if (a[1] == 'W' && is_switch(argv[i + 1])) i++;
    o->interactive |= a[1] == 'i';
    o->version |= a[1] == 'v' || a[1] == 'i';
    o->ignore_env |= a[1] == 'E';
  }
  o->script = argv[i] ? i : 0;
  bool is_stdin = !o->script || !strcmp(argv[o->script], "-"); /* it reaches rank 0 alone */
  if (o->launch.ranks && is_stdin && !o->evaluated && !o->doctor)
    return refuse_option("expected a script or -e text behind", "--ranks n", NULL);
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

/* Adds the folder's templates to package[key], of the table at the top. */
static void search_also(lua_State *L, const char *key, const char *folder, const char *templates) {
  int package = lua_gettop(L);
  if (lua_getfield(L, package, key) == LUA_TSTRING) {
    luaL_gsub(L, templates, "\1", folder);
    lua_concat(L, 2);
    lua_setfield(L, package, key);
  }
  lua_settop(L, package);
}

/* Modules are found beside the script, too, where nothing else has them: a script that runs under Lua finds the same
 * ones here. Of a link, beside the file that it names. */
static void search_beside(lua_State *L, const char *script) {
  const char *path = script;
#ifndef _WIN32
  char file[PATH_MAX];
  if (readlink(script, file, sizeof file) > 0 && realpath(script, file)) path = file;
#endif
  const char *slash = strrchr(path, '/');
  const char *folder = slash ? lua_pushlstring(L, path, (size_t)(slash + 1 - path)) : lua_pushliteral(L, "./");
  bool fits = !strpbrk(folder, ";?\1"); /* templates cannot say others */
  if (fits && strcmp(script, "-") && lua_getglobal(L, LUA_LOADLIBNAME) == LUA_TTABLE) {
    search_also(L, "path", folder, ";\1?.lua;\1?/init.lua");
    search_also(L, "cpath", folder, ";\1?.so");
  }
  lua_settop(L, 0);
}

/* "mod", or "g=mod" where the global has another name; the name of "mod-v2" is mod. */
static int require_global(lua_State *L, const char *option) {
  int top = lua_gettop(L);
  const char *equals = strchr(option, '=');
  const char *name = lua_pushlstring(L, option, equals ? (size_t)(equals - option) : strcspn(option, "-"));
  lua_getglobal(L, "require");
  lua_pushstring(L, equals ? equals + 1 : option);
  int status = runner_call(L, 1, 1);
  if (status == LUA_OK) lua_setglobal(L, name);
  runner_report(L, status);
  lua_settop(L, top);
  return status;
}

/* The text of -e: Lua, or a command of the prompt. */
static repl_done run_text(lua_State *L, const char *text) {
  if (text[0] == ':' && text[1] != ':') return repl_command(L, text);
  lua_pushstring(L, text);
  ltide_keep_text(L); /* tide.kernel reads it */
  lua_pop(L, 1);
  return run_chunk(L, luaL_loadbuffer(L, text, strlen(text), "=(command line)")) == LUA_OK ? REPL_DONE : REPL_FAILED;
}

/* Runs -e, -l and -W in order, up to one that fails or leaves. */
static repl_done run_options(lua_State *L, char **argv, int end) {
  for (int i = 1; i < end && argv[i][0] == '-' && argv[i][1] && strcmp(argv[i], "--"); i++) {
    char option = argv[i][1];
    if (option == 'W') {
      bool has_value = i + 1 < end && is_switch(argv[i + 1]);
      lua_warning(L, has_value && !strcmp(argv[++i], "off") ? "@off" : "@on", 0);
      continue;
    }
    if (!takes_value(argv[i])) continue;
    const char *value = option != '-' && argv[i][2] ? argv[i] + 2 : argv[++i];
    repl_done done = REPL_DONE;
    if (option == 'l' && require_global(L, value) != LUA_OK) done = REPL_FAILED;
    if (option == 'e') done = run_text(L, value);
    if (done != REPL_DONE || interrupt_terminated()) return done;
  }
  return REPL_DONE;
}

/* The default device of --device. */
static bool set_device(lua_State *L, const char *device) {
  lua_getglobal(L, "tide");
  lua_getfield(L, -1, "set_default_device");
  lua_pushstring(L, device);
  bool ok = lua_pcall(L, 1, 0, 0) == LUA_OK;
  if (!ok) {
    runner_report(L, (luaL_tolstring(L, -1, NULL), LUA_ERRRUN));
    refuse_option("wrong value of --device:", device, NULL);
  }
  lua_settop(L, 0);
  return ok;
}

static int show_help(lua_State *L, const char *name) {
  lua_pushcfunction(L, repl_print_help);
  lua_pushstring(L, name);
  int status = lua_pcall(L, 1, 0, 0); /* a name that is unknown needs no traceback */
  if (status != LUA_OK) luaL_tolstring(L, -1, NULL), runner_report(L, status);
  return ltide_give_boolean(L, status == LUA_OK);
}

/* Pushes what the table arg has from 1 on, as LUA_INIT, -l and -e have left it. Returns how many. */
static int push_arguments(lua_State *L) {
  if (lua_getglobal(L, "arg") != LUA_TTABLE) luaL_error(L, "'arg' is not a table");
  lua_Integer n = luaL_len(L, -1);
  if (n >= INT_MAX - LUA_MINSTACK) luaL_error(L, "too many arguments to script");
  luaL_checkstack(L, (int)n + LUA_MINSTACK, "too many arguments to script");
  int table = lua_gettop(L);
  for (lua_Integer i = 1; i <= n; i++) lua_rawgeti(L, table, i);
  lua_remove(L, table);
  return n < 0 ? 0 : (int)n;
}

static int run_script(lua_State *L, char **argv, int script) {
  const char *name = argv[script];
  if (!strcmp(name, "-") && strcmp(argv[script - 1], "--")) name = NULL;
  int status = luaL_loadfile(L, name);
  if (status == LUA_OK) status = runner_call(L, push_arguments(L), 0);
  if (runner.failure == EXIT_USAGE) runner.program = argv[script]; /* the message is the script's */
  return runner_report(L, status);
}

static int run_init(lua_State *L) {
  const char *name = "=LUA_INIT_5_4", *init = getenv(name + 1);
  if (!init) init = getenv((name = "=LUA_INIT") + 1);
  if (!init) return LUA_OK;
  return run_chunk(L, init[0] == '@' ? luaL_loadfile(L, init + 1) : luaL_loadbuffer(L, init, strlen(init), name));
}

static void replace_traceback(lua_State *L) {
  lua_getglobal(L, LUA_DBLIBNAME);
  lua_pushcfunction(L, traceback);
  lua_setfield(L, -2, "traceback");
}

/* Has a launcher of MPI started this process? Without one its library stays closed. */
static bool is_launched(void) {
  static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    if (getenv(variables[i])) return true;
  return false;
}

static int run(lua_State *L) {
  int argc = (int)lua_tointeger(L, 1);
  char **argv = lua_touserdata(L, 2);
  ltide_options o = {0};
  if (argv[0] && argv[0][0]) runner.program = argv[0];
  if (!parse_options(&o, argv)) return 0;
  if (o.init && o.script)
    return refuse_option("--init: expected no name, as it writes to this folder, got", argv[o.script], NULL), 0;
  if (o.launch.ranks) return runner.failure = ranks_launch(&o.launch, argv), 0;
  if (o.version) print_version();
  if (o.ignore_env) lua_pushboolean(L, 1), lua_setfield(L, LUA_REGISTRYINDEX, "LUA_NOENV");
  luaL_openlibs(L);
  lua_gc(L, LUA_GCGEN, 0, 0); /* tensors die young */
  lua_warning(L, "@on", 0);
  luaL_requiref(L, "tide", luaopen_tide, 1);
  lua_pushboolean(L, 1);
  lua_setfield(L, LUA_REGISTRYINDEX, LTIDE_RUNNER);
  replace_traceback(L);
  interrupt_open(L);
  push_args(L, argv, argc, o.script);
  lua_settop(L, 0);
  if (o.help) return show_help(L, o.help);
  if (o.api || o.init || o.doctor) {
    lua_pushcfunction(L, o.api ? setup_print_api : o.init ? setup_init : ranks_print_doctor);
    return ltide_give_boolean(L, runner_report(L, runner_call(L, 0, 0)) == LUA_OK);
  }
  bool nothing = !o.script && !o.evaluated && !o.version, prompt = o.interactive || (nothing && isatty(STDIN_FILENO));
  if (prompt || o.evaluated || o.notebook) repl_open(L);
  if (o.device && !set_device(L, o.device)) return 0;
  if (!o.ignore_env && run_init(L) != LUA_OK) return 0;
  globals_check(L, o.strict);
  if (o.script) search_beside(L, argv[o.script]);
  if ((o.script || o.evaluated) && is_launched()) {
    ltide_distributed_join();
    if (ltide_distributed_rank() > 0) lua_warning(L, "@off", 0); /* the first rank warns */
  }
  repl_done done = run_options(L, argv, o.script ? o.script : argc);
  if (done == REPL_FAILED || interrupt_terminated()) return 0;
  if (done == REPL_LEAVES) return lua_pushboolean(L, 1), 1;
  if (o.script && run_script(L, argv, o.script) != LUA_OK && !o.interactive) return 0;
  if (interrupt_terminated()) return 0;
  if (o.notebook) {
    notebook_run(L, o.notebook);
  } else if (prompt) {
    if (!o.version) print_version();
    runner.program = NULL;
    repl_run(L);
  } else if (nothing && run_chunk(L, luaL_loadfile(L, NULL)) != LUA_OK)
    return 0;
  return ltide_give_boolean(L, 1);
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
  if (interrupt_terminated()) runner.failure = EXIT_TERMINATED;
  if (ok && !interrupt_terminated())
    ltide_distributed_leave();
  else
    ltide_distributed_abort(runner.failure);
  if (!ok && runner.has_failed && interrupt_happened()) { /* the work that is queued shall not hold the exit up */
    fflush(NULL);
    _exit(runner.failure);
  }
  interrupt_leave();
  lua_close(L);
  return ok && !interrupt_terminated() ? EXIT_SUCCESS : runner.failure;
}
