/* debug.c: finding out where a script waits for a device and which of its launches failed.
 *
 * A mode is a name or a number, as torch has it. The scoped form puts back the mode that it found, whatever happened
 * to it inside. */
#include <string.h>

#include "loader.h"
#include "tide/debug.h"

static const char *const mode_names[] = {"default", "warn", "error"};

static tide_sync_debug check_mode(lua_State *L, int arg) {
  static const char expected[] = "'default', 'warn', 'error' or 0, 1, 2";
  lua_Integer n = -1;
  int is_integer = 0;
  if (lua_type(L, arg) == LUA_TSTRING) {
    for (int i = 0; i < 3; i++)
      if (!strcmp(lua_tostring(L, arg), mode_names[i])) n = i;
  } else if (lua_type(L, arg) != LUA_TNUMBER || (n = lua_tointegerx(L, arg, &is_integer), !is_integer))
    ltide_arg_error(L, arg, "mode", expected);
  if (n < TIDE_SYNC_DEFAULT || n > TIDE_SYNC_ERROR)
    ltide_error(L, "ValueError", "%s: mode: got %s, expected %s", ltide_function_name(L), ltide_typename(L, arg),
                expected);
  return (tide_sync_debug)n;
}

static int lset_sync_debug_mode(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  ltide_try(L, tide_sync_debug_set(check_mode(L, 1)));
  return 0;
}

static int lget_sync_debug_mode(lua_State *L) {
  ltide_no_options(L, 0);
  lua_pushinteger(L, (lua_Integer)tide_sync_debug_get());
  return 1;
}

static void leave_mode(lua_State *L, void *data) {
  if (!L) return;
  tide_sync_debug_set(*(tide_sync_debug *)data);
}

static int lsync_debug_mode(lua_State *L) {
  ltide_enter(L);
  tide_sync_debug mode = check_mode(L, 1), *before;
  int fn = lua_isfunction(L, 2) ? 2 : 0;
  if (!fn && !lua_isnoneornil(L, 2)) return ltide_arg_error(L, 2, "fn", "a function or nothing");
  before = ltide_block_new(L, "cuda.sync_debug_mode", fn, leave_mode, sizeof *before);
  *before = tide_sync_debug_get();
  ltide_try(L, tide_sync_debug_set(mode));
  return ltide_block_open(L, fn);
}

static int ldevice_reset(lua_State *L) {
  if (ltide_is_interrupting(L, ltide_begin(L)))
    return ltide_error(L, "StateError",
                       "device_reset: got a call from a finaliser, which may have interrupted an operation on the "
                       "device, expected one from the program");
  ltide_refuse_beyond(L, 1);
  int device = ltide_check_device(L, 1, "device", LTIDE_NIL_OK);
  ltide_loader_pause(); /* nothing of ours may run beside it */
  tide_status status = tide_device_reset(device);
  ltide_loader_resume();
  ltide_try(L, status);
  return 0;
}

static int llaunch_blocking(lua_State *L) {
  ltide_no_options(L, 0);
  lua_pushboolean(L, tide_launch_blocking());
  return 1;
}

void ltide_open_debug(lua_State *L, ltide_state *S) {
  (void)S;
  static const ltide_reg list[] = {
      {"set_sync_debug_mode", lset_sync_debug_mode,
       "tide.cuda.set_sync_debug_mode(mode)\nWhat happens when an operation makes the host wait for a device: "
       "'default' "
       "or 0: nothing; 'warn' or 1: a warning with the line, each time; 'error' or 2: it raises at the line and does "
       "nothing. Counts item, totable, printing values, equal, nonzero, masks, and copies between the host and a "
       "device that are not both non_blocking and of pinned memory. synchronize() of a device, a stream or an event "
       "says what it does and never counts. The mode is the process's."},
      {"get_sync_debug_mode", lget_sync_debug_mode, "tide.cuda.get_sync_debug_mode() -> 0, 1 or 2"},
      {"sync_debug_mode", lsync_debug_mode,
       "tide.cuda.sync_debug_mode(mode, fn, ...) -> results of fn\nlocal _ <close> = tide.cuda.sync_debug_mode(mode)\n"
       "set_sync_debug_mode for a block; the mode before comes back on leaving, also after an error."},
      {"launch_blocking", llaunch_blocking,
       "tide.cuda.launch_blocking() -> boolean\nIs CUDA_LAUNCH_BLOCKING=1 set? Then the script waits for every launch, "
       "and an error of a device names the one line that caused it."},
      {"device_reset", ldevice_reset,
       "tide.cuda.device_reset([device])\nFor recovery after a sticky error: drops all that lies on GPUs, of every GPU "
       "in "
       "use, and opens them anew at the next use, as far as the driver allows; a new process is the sure way. Tensors "
       "on GPUs or in pinned memory, streams, events and graphs made before raise StateError when they are used; other "
       "tensors on the cpu stay."},
      {0}};
  lua_getfield(L, -1, "cuda");
  ltide_register(L, "tide.cuda", list);
  lua_pop(L, 1);
}
