/* runner_interrupt.c: Ctrl-C ends the running Lua code, in whichever coroutine, and any wait for a device.
 *
 * The handler sets a hook, which raises the error at the next instruction; a hook is its coroutine's own, and Lua does
 * not say which coroutine runs, so coroutine.resume and wrap are replaced by functions that note it around the
 * originals. A wait asks interrupted() every few milliseconds. The handler puts the default back first: a second Ctrl-C
 * ends the process. */
#include <signal.h>

#include "runner.h"

static volatile sig_atomic_t pending;
static lua_State *volatile running; /* the coroutine that runs */
static bool happened;

static void stop_hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  if (!pending) return;
  pending = 0, happened = true;
  ltide_error(L, "Interrupted", "interrupted");
}

static void on_sigint(int sig) {
  signal(sig, SIG_DFL);
  pending = 1;
  lua_sethook(running, stop_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

/* Asked by every wait: the error that follows takes the hook's place. */
static int interrupted(void *user) {
  (void)user;
  if (!pending) return 0;
  pending = 0, happened = true;
  lua_sethook(running, NULL, 0, 0);
  return 1;
}

/* Back in `before`: an interruption that came too late for the coroutine that ended is for this one. */
static void came_back(lua_State *before) {
  running = before;
  if (pending) lua_sethook(before, stop_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

/* coroutine.resume; the original is the upvalue. It raises for a wrong argument alone, before anything runs. */
static int resume(lua_State *L) {
  lua_State *before = running, *co = lua_tothread(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  if (co) running = co;
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  came_back(before);
  return lua_gettop(L);
}

/* What coroutine.wrap returns: upvalues are the original's function and its coroutine. */
static int call_wrapped(lua_State *L) {
  lua_State *before = running;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  running = lua_tothread(L, lua_upvalueindex(2));
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  came_back(before);
  return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

static int wrap(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  if (!lua_getupvalue(L, -1, 1) || !lua_isthread(L, -1)) return luaL_error(L, "wrap: a coroutine was expected");
  lua_pushcclosure(L, call_wrapped, 2);
  return 1;
}

static void replace(lua_State *L, const char *name, lua_CFunction by) {
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, by, 1);
  lua_setfield(L, -2, name);
}

void interrupt_open(lua_State *L) {
  running = L;
  tide_interrupt_set(interrupted, NULL);
  lua_getglobal(L, LUA_COLIBNAME);
  replace(L, "resume", resume);
  replace(L, "wrap", wrap);
  lua_pop(L, 1);
}

void interrupt_arm(lua_State *L) {
  pending = 0, happened = false, running = L;
  signal(SIGINT, on_sigint);
}

void interrupt_disarm(lua_State *L) {
  signal(SIGINT, SIG_DFL);
  lua_sethook(L, NULL, 0, 0);
}

bool interrupt_happened(void) { return happened; }
