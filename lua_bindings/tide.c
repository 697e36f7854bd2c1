/* tide.c: the module: the one file that sees every other one of the bindings, and lets them open in order. */
#include "names.h"
#include "script.h"

static void end(ltide_state *S) {
  ltide_handles_end(S);
  ltide_held_close(S);
}

/* Makes the module and pushes it. */
static int open_module(lua_State *L) {
  static void (*const openers[])(lua_State *, ltide_state *) = {
      ltide_open_script,  ltide_open_errors,      ltide_open_help,     ltide_open_blocks,    ltide_open_arena,
      ltide_open_device,  ltide_open_stream,      ltide_open_event,    ltide_open_info,      ltide_open_graph,
      ltide_open_memory,  ltide_open_dtype,       ltide_open_tensor,   ltide_open_storage,   ltide_open_factory,
      ltide_open_convert, ltide_open_view,        ltide_open_index,    ltide_open_ops,       ltide_open_reduce,
      ltide_open_matmul,  ltide_open_fft,         ltide_open_linalg,   ltide_open_random,    ltide_open_random_cuda,
      ltide_open_format,  ltide_open_determinism, ltide_open_io,       ltide_open_util,      ltide_open_ipc,
      ltide_open_debug,   ltide_open_jit,         ltide_open_timer,    ltide_open_loader,    ltide_open_sanitizer,
      ltide_open_nvtx,    ltide_open_profiler,    ltide_open_parallel, ltide_open_serialize, ltide_open_spawn,
      ltide_open_comm,    ltide_open_nccl,        ltide_open_api,
  };
  static const luaL_Reg *const script_given[] = {ltide_memory_script, ltide_spawn_script, ltide_profiler_script, NULL};
  ltide_state *S = ltide_state_open(L, ltide_warn_hook, end);
  S->script_given = script_given;
  lua_createtable(L, 0, 320);
  lua_createtable(L, 0, 160);
  lua_setfield(L, -2, "cuda");
  lua_pushstring(L, tide_version());
  lua_setfield(L, -2, "_VERSION");
  for (size_t i = 0; i < sizeof openers / sizeof *openers; i++) openers[i](L, S);
  ltide_open_names(L, S); /* closes the tables that the others have filled */
  return 1;
}

int luaopen_tide(lua_State *L) {
  if (ltide_state_of(L)) return luaL_error(L, "tide: already open in this Lua state; require gives it again");
  lua_pushcfunction(L, open_module);
  if (lua_pcall(L, 0, 1, 0) == LUA_OK) {
    ltide_warn_open(L, ltide_state_of(L));
    return 1;
  }
  ltide_state_close(L); /* so that the next require begins anew */
  return lua_error(L);
}
