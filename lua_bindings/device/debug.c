/* debug.c: finding out where a script waits for a device and which of its launches failed, and whether it gives the
 * same each time it runs.
 *
 * A mode is a name or a number, as torch has it. The scoped form puts back the mode that it found, whatever happened
 * to it inside. */
#include "tensor/tensor.h"
#include "call/block.h"
#include "tide/debug.h"
#include "tide/loader.h"

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
    ltide_fail(L, "ValueError", "mode: got %s, expected %s", ltide_typename(L, arg), expected);
  return (tide_sync_debug)n;
}

static int lset_sync_debug_mode(lua_State *L, ltide_call *c) {
  return ltide_done(L, tide_sync_debug_set(check_mode(L, c->v[0].at)));
}

static int lget_sync_debug_mode(lua_State *L, ltide_call *c) { return ltide_give_integer(L, tide_sync_debug_get()); }

static void leave_mode(lua_State *L, void *data) {
  if (L) tide_sync_debug_set(*(tide_sync_debug *)data);
}

static int lsync_debug_mode(lua_State *L, ltide_call *c) {
  tide_sync_debug mode = check_mode(L, 1), *before;
  before = ltide_block_new(L, "cuda.sync_debug_mode", c->v[1].at, leave_mode, sizeof *before);
  *before = tide_sync_debug_get();
  ltide_try(L, tide_sync_debug_set(mode));
  return ltide_block_open(L, c->v[1].at);
}

static int ldevice_reset(lua_State *L, ltide_call *c) {
  if (ltide_is_interrupting(L, c->S))
    return ltide_error(L, "StateError",
                       "device_reset: got a call from a finaliser, which may have interrupted an operation on the "
                       "device, expected one from the program");
  tide_loader_pause(); /* nothing of ours may run beside it */
  tide_status status = tide_device_reset(c->v[0].device);
  tide_loader_resume();
  return ltide_done(L, status);
}

/* {==== Must equal programs give equal results? */

static int luse_deterministic(lua_State *L, ltide_call *c) {
  bool mode = c->v[0].boolean, warns = c->v[1].boolean;
  return ltide_done(L, tide_set_deterministic(!mode   ? TIDE_DETERMINISM_OFF
                                              : warns ? TIDE_DETERMINISM_WARN
                                                      : TIDE_DETERMINISM_ON));
}

/* Is it the mode that the row says, or any? */
static int lis_deterministic(lua_State *L, ltide_call *c) {
  int mode = tide_get_deterministic();
  return ltide_give_boolean(L, c->row->tag ? mode == c->row->tag : mode != TIDE_DETERMINISM_OFF);
}

void ltide_open_debug(lua_State *L, ltide_state *S) {
#include <rows/debug.inc>
#include <rows/determinism.inc>
  ltide_register_in(L, "tide.cuda", debug_rows);
  ltide_register_rows(L, "tide", determinism_rows);
}
