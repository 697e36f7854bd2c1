/* sandbox_test.c: a host of scripts that it does not trust. Each part of the files in spec/sandbox is a script of its
 * own, an escape or an abuse: it runs in a state that was given base, string, table, math, coroutine and tide, and has
 * to be refused or contained, with the process as it was before.
 *
 *   --- NAME                 begins a part
 *   --! raises TEXT          it ends with an error that has this text; else it must end well (what it asserts holds)
 *   --! grant NAME ...       capabilities of the state; else none
 *   --! then NAME ...        what tide_lua_restrict leaves when the function `restrict` is called
 *   --! give NAME ...        further libraries of Lua: debug
 *
 * usage: sandbox_test tide.so [part]      Simulated devices stand in: two of them. */
#include <glob.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "module.h"
#include "tide/memory.h"
#include "tide/tide.h"
#include "tide_lua.h"

typedef struct part {
  const char *file, *name, *text;
  int line;
  unsigned granted, left;
  char raises[200];
  bool debug;
} part;

static lua_CFunction opener;
static int parts;

static void check(bool holds, const part *p, const char *what) {
  if (!holds) printf("%s:%d: %s: %s\n", p->file, p->line, p->name, what);
  failed |= !holds;
}

/* {==== What a part says of itself */

static unsigned read_capabilities(const char *words) {
  static const char *const names[] = {"FILES", "NATIVE", "POINTERS", "PROCESSES", "GLOBALS", "WAITS"};
  unsigned all = 0;
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (strstr(words, names[i])) all |= 1u << i;
  return all;
}

static void read_setting(part *p, const char *line) {
  if (!strncmp(line, "raises ", 7)) snprintf(p->raises, sizeof p->raises, "%s", line + 7);
  if (!strncmp(line, "grant ", 6)) p->granted = read_capabilities(line);
  if (!strncmp(line, "then ", 5)) p->left = read_capabilities(line);
  if (!strncmp(line, "give ", 5)) p->debug = strstr(line, "debug") != NULL;
}

/* {==== A state */

static void open_libraries(lua_State *L, const part *p) {
  static const luaL_Reg given[] = {{LUA_GNAME, luaopen_base},          {LUA_STRLIBNAME, luaopen_string},
                                   {LUA_TABLIBNAME, luaopen_table},    {LUA_MATHLIBNAME, luaopen_math},
                                   {LUA_COLIBNAME, luaopen_coroutine}, {NULL, NULL}};
  for (const luaL_Reg *r = given; r->name; r++) luaL_requiref(L, r->name, r->func, 1), lua_pop(L, 1);
  if (p->debug) luaL_requiref(L, LUA_DBLIBNAME, luaopen_debug, 1), lua_pop(L, 1);
}

static int restrict_now(lua_State *L) {
  const part *p = lua_touserdata(L, lua_upvalueindex(1));
  return lua_pushboolean(L, tide_lua_restrict(L, p->left)), 1;
}

/* What another state has: a function that needs POINTERS, with the value that makes it what it is. */
static int leaked(lua_State *L) {
  lua_CFunction *fn = lua_touserdata(L, lua_upvalueindex(1));
  lua_pushlightuserdata(L, lua_touserdata(L, lua_upvalueindex(2)));
  lua_pushcclosure(L, *fn, 1);
  return 1;
}

static struct {
  lua_CFunction fn;
  void *row;
} leak;

static void take_leak(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  tide_lua_options all = {.struct_size = sizeof all, .capabilities = TIDE_LUA_ALL, .open = opener};
  if (tide_lua_open(L, &all) != LUA_OK) exit(2);
  lua_getfield(L, -1, "from_ptr");
  leak.fn = lua_tocfunction(L, -1);
  lua_getupvalue(L, -1, 1);
  leak.row = lua_touserdata(L, -1);
  lua_close(L);
}

static lua_State *open_state(const part *p) {
  lua_State *L = luaL_newstate();
  open_libraries(L, p);
  tide_lua_options o = {.struct_size = sizeof o, .capabilities = p->granted, .open = opener};
  if (tide_lua_open(L, &o) != LUA_OK) {
    printf("sandbox_test: %s\n", lua_tostring(L, -1));
    exit(2);
  }
  lua_setglobal(L, "tide");
  lua_pushlightuserdata(L, (void *)p);
  lua_pushcclosure(L, restrict_now, 1);
  lua_setglobal(L, "restrict");
  lua_pushlightuserdata(L, &leak.fn);
  lua_pushlightuserdata(L, leak.row);
  lua_pushcclosure(L, leaked, 2);
  lua_setglobal(L, "leaked_from_ptr");
  return L;
}

/* {==== The process around it */

typedef struct process {
  int dtype, device, threads, deterministic;
  size_t cpu, gpu;
} process;

static process look(void) {
  return (process){(int)TIDE(tide_get_default_dtype)(), TIDE(tide_default_device)(),   TIDE(tide_get_num_threads)(), 0,
                   TIDE(tide_memory_cpu_allocated)(),   TIDE(tide_memory_allocated)(0)};
}

static void run(const part *p) {
  process before = look();
  lua_State *L = open_state(p);
  int status = luaL_loadbuffer(L, p->text, strlen(p->text), p->name);
  if (status == LUA_OK) status = lua_pcall(L, 0, 0, 0);
  const char *message = status == LUA_OK ? "" : luaL_tolstring(L, -1, NULL);
  if (*p->raises)
    check(status != LUA_OK && strstr(message, p->raises), p, status == LUA_OK ? "ended well" : message);
  else
    check(status == LUA_OK, p, message);
  lua_close(L);
  process after = look();
  check(!memcmp(&before, &after, sizeof before), p, "the process is not as it was");
  parts++;
}

/* {==== The files */

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) exit(2);
  fseek(f, 0, SEEK_END);
  size_t n = (size_t)ftell(f);
  char *text = calloc(1, n + 1);
  rewind(f);
  if (!text || fread(text, 1, n, f) != n) exit(2);
  fclose(f);
  return text;
}

static void run_file(const char *path, const char *only) {
  char *text = read_file(path), *at = strstr(text, "--- ");
  while (at) {
    char *next = strstr(at, "\n--- "), *end = strchr(at, '\n');
    part p = {.file = path, .name = at + 4, .line = 1};
    for (const char *c = text; c < at; c++) p.line += *c == '\n';
    if (next) *next = 0;
    *end = 0;
    p.text = end + 1;
    while (!strncmp(end + 1, "--! ", 4)) {
      char *line = end + 5;
      end = strchr(line, '\n');
      *end = 0;
      read_setting(&p, line);
      p.text = end + 1;
    }
    if (!only || strstr(p.name, only)) run(&p);
    for (char *c = text; c < (next ? next : at); c++)
      if (!*c) *c = '\n';
    at = next ? next + 1 : NULL;
  }
  free(text);
}

int main(int argc, char **argv) {
  setenv("TIDE_SIM_DEVICES", "2", 1);
  glob_t files;
  if (argc < 2 || glob("spec/sandbox/*.lua", 0, NULL, &files)) return 2;
  module = argv[1];
  void *tide = dlopen(module, RTLD_NOW);
  if (!tide) return printf("sandbox_test: %s\n", dlerror()), 2;
  opener = (lua_CFunction)(size_t)dlsym(tide, "luaopen_tide");
  take_leak();
  for (size_t i = 0; i < files.gl_pathc; i++) run_file(files.gl_pathv[i], argc > 2 ? argv[2] : NULL);
  globfree(&files);
  printf("sandbox_test: %d escapes and abuses\n", parts);
  return failed;
}
