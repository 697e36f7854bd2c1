/* runner_call.c: calls with a traceback, and how errors are reported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "distributed/distributed.h"
#include "call/did_you_mean.h"
#include "runner.h"

struct runner_report runner = {.program = "tide", .failure = EXIT_FAILURE};

/* Is the error at 1 a wrong option of the script's, which tide.cmdline has found? Then its message is pushed. */
static bool is_misuse(lua_State *L) {
  if (!ltide_is_error(L, 1) || ltide_rawfield(L, 1, "usage") != LUA_TBOOLEAN) return false;
  return ltide_rawfield(L, 1, "message") == LUA_TSTRING;
}

/* The message with its traceback: an error object carries its own. */
static int with_traceback(lua_State *L) {
  runner.failure = EXIT_FAILURE;
  if (lua_isstring(L, 1)) { /* or a number */
    const char *message = lua_tostring(L, 1), *hint = ltide_lua_hint(L, message);
    ltide_traceback(L, L, lua_pushfstring(L, "%s%s", message, hint), 1);
    return 1;
  }
  if (is_misuse(L)) {
    const char *message = lua_tostring(L, -1);
    runner.failure = EXIT_USAGE;
    return lua_pushstring(L, strncmp(message, "cmdline: ", 9) ? message : message + 9), 1;
  }
  lua_settop(L, 1);
  if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) {
    if (lua_istable(L, 1) && lua_getfield(L, 1, "traceback") == LUA_TSTRING) {
      lua_pushfstring(L, "%s\n%s", lua_tostring(L, -2), lua_tostring(L, -1));
      return 1;
    }
    lua_settop(L, 2);
    return 1;
  }
  ltide_traceback(L, L, lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1)), 1);
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
  runner.has_failed = status != LUA_OK;
  if (status == LUA_OK) return status;
  const char *text = lua_tostring(L, -1);
  int top = lua_gettop(L);
  fflush(stdout);
  if (interrupt_terminated() && ltide_distributed_is_several())
    return lua_settop(L, top - 1), status; /* by the launcher */
  ltide_distributed_hold(text);
  if (runner.program) fprintf(stderr, "%s: ", runner.program);
  if (ltide_distributed_is_several()) fprintf(stderr, "rank %d: ", ltide_distributed_rank());
  fputs(text ? text : "(error message is not a string)", stderr);
  fprintf(stderr, "%s\n", text && !strchr(text, '\n') ? ltide_lua_hint(L, text) : "");
  fflush(stderr);
  lua_settop(L, top - 1);
  return status;
}
