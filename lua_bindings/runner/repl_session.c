/* repl_session.c: the session of the prompt or of a notebook: chunks are compiled and run, and what is left of them.
 *
 * What needs Lua's text is written in Lua (runner/repl.lua): local variables of a chunk's outermost block that
 * live on in the session, completion, and how results are shown. `_` is the last result; a tensor above 1 MiB is held
 * weakly there, so that looking at a value does not keep a GPU's memory. */
#include <stdio.h>
#include <string.h>

#include "call/did_you_mean.h"
#include "call/each.h"
#include "repl.h"
#include "call/row.h"
#include "runner.h"
#include "tide/memory.h"

static const char key_last, key_weak;
static const char undefined_names[] = "tide.undefined"; /* in the registry: a list, or nil */

static void push_last(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_last) != LUA_TNIL) return;
  lua_pop(L, 1);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_weak) == LUA_TTABLE) lua_getfield(L, -1, "_"), lua_remove(L, -2);
}

/* {==== What runner/repl.lua is given */

static char chunk_name[40] = "=stdin";

void repl_name_chunks(const char *name) { snprintf(chunk_name, sizeof chunk_name, "=%s", name); }

/* compile(text): a chunk of the session's, or nil and the message. */
static int script_compile(lua_State *L) {
  size_t size;
  const char *text = lua_tolstring(L, 1, &size);
  int status = luaL_loadbufferx(L, text, size, chunk_name, "t");
  if (status == LUA_OK) {
    lua_pushvalue(L, 1);
    ltide_keep_text(L); /* tide.kernel reads it */
    lua_pop(L, 1);
    return 1;
  }
  if (status != LUA_ERRSYNTAX) return lua_error(L);
  lua_pushnil(L);
  lua_insert(L, -2);
  return 2;
}

/* share_upvalue(f, i, g): upvalue i of f is the first of g from now on. */
static int script_share_upvalue(lua_State *L) { return lua_upvaluejoin(L, 1, (int)lua_tointeger(L, 2), 3, 1), 0; }

static int script_is_help(lua_State *L) { return ltide_give_boolean(L, lua_tocfunction(L, 1) == repl_print_help); }
static int script_is_c(lua_State *L) { return ltide_give_boolean(L, lua_iscfunction(L, 1)); }
static int script_globals(lua_State *L) { return lua_pushglobaltable(L), 1; }
static int script_last_result(lua_State *L) { return push_last(L), 1; }
static int script_number(lua_State *L) { return lua_stringtonumber(L, lua_tostring(L, 1)) != 0; }

/* row_line(f): the first line of the help of its row, or nil. */
static int script_row_line(lua_State *L) {
  const ltide_row *row = ltide_row_at(L, 1);
  if (row && row->doc) return ltide_push_doc(L, row, true), 1;
  return lua_pushnil(L), 1;
}

/* help_line(value): the first line of what help tells of it, or nil. */
static int script_help_line(lua_State *L) {
  ltide_push_module(L);
  lua_getfield(L, -1, "help");
  lua_pushvalue(L, 1);
  bool found = lua_iscfunction(L, -2) && lua_pcall(L, 1, 1, 0) == LUA_OK && lua_isstring(L, -1);
  const char *text = found ? lua_tostring(L, -1) : "See:";
  if (!strncmp(text, "See:", 4)) return lua_pushnil(L), 1;
  return lua_pushlstring(L, text, strcspn(text, "\n")), 1;
}

/* option_keys(f): what may be given to it by name, or nil. */
static int script_option_keys(lua_State *L) {
  const ltide_row *row = ltide_row_at(L, 1);
  const ltide_sig *sig = row ? ltide_row_sig(row) : NULL;
  if (!sig) return lua_pushnil(L), 1;
  lua_newtable(L);
  for (int i = 0; sig->keys[i]; i++) lua_pushstring(L, sig->keys[i]), lua_rawseti(L, -2, i + 1);
  return 1;
}

/* Libraries that no script of the user's has changed. The strings keep the methods that they have. */
static int script_libraries(lua_State *L) {
  lua_pushliteral(L, "");
  if (!lua_getmetatable(L, -1)) lua_pushnil(L);
  int meta = lua_gettop(L);
  lua_pushcfunction(L, luaopen_string), lua_call(L, 0, 1);
  lua_pushcfunction(L, luaopen_table), lua_call(L, 0, 1);
  lua_pushvalue(L, meta);
  lua_setmetatable(L, meta - 1);
  return 2;
}

int repl_call(lua_State *L, const char *name, int n) {
  static bool given;
  if (!given) {
    LTIDE_GIVE(L, "runner/repl_session.c", compile, share_upvalue, is_c, is_help, globals, last_result, number,
               row_line, help_line, option_keys, libraries);
    manual_open(L);
  }
  given = true;
  return ltide_script_call(L, name, n);
}

/* {==== Chunks */

/* The function, or nil and the message of the compiler. */
int repl_load(lua_State *L) {
  int at = lua_gettop(L);
  repl_call(L, "runner/repl.prompt_load", 1);
  bool ok = lua_isfunction(L, at);
  if (!ok) lua_remove(L, at);
  lua_settop(L, at);
  return ok ? LUA_OK : LUA_ERRSYNTAX;
}

/* {==== Results */

/* Sets `_` to the value at the top and pops it. */
static void set_last(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_tensor *u = ltide_test_handle(L, S, -1);
  bool weak = u && u->t && tide_tensor_numel(u->t) * (int64_t)tide_dtype_size(tide_tensor_dtype(u->t)) > 1 << 20;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_weak);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "_");
  lua_pop(L, 1);
  if (weak) lua_pushnil(L), lua_replace(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_last);
}

/* Globals' __index: `_`, then what was there before. Notes undefined names that the user's text reads. */
static int global_index(lua_State *L) {
  lua_settop(L, 2);
  bool is_name = lua_type(L, 2) == LUA_TSTRING;
  if (is_name && !strcmp(lua_tostring(L, 2), "_")) return push_last(L), 1;
  globals_inherited(L, lua_upvalueindex(1));
  if (!is_name || !lua_isnil(L, -1) || !globals_is_typed(L)) return 1;
  luaL_getsubtable(L, LUA_REGISTRYINDEX, undefined_names);
  lua_pushvalue(L, 2);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  lua_pop(L, 1);
  return 1;
}

/* Warns of the undefined names that the last chunk has read, each once, except one that its error names. */
static void warn_of_undefined(lua_State *L, const char *message) {
  int top = lua_gettop(L);
  if (lua_getfield(L, LUA_REGISTRYINDEX, undefined_names) != LUA_TTABLE) return lua_settop(L, top);
  lua_pushnil(L);
  lua_setfield(L, LUA_REGISTRYINDEX, undefined_names);
  lua_newtable(L);
  repl_call(L, "runner/repl.prompt_locals", 0);
  fflush(stdout);
  for (lua_Integer i = 1; lua_rawgeti(L, top + 1, i) == LUA_TSTRING; i++, lua_settop(L, top + 3)) {
    const char *name = lua_tostring(L, -1);
    bool is_known = message && strstr(message, lua_pushfstring(L, "global '%s'", name));
    lua_pushvalue(L, top + 4);
    is_known |= lua_rawget(L, top + 2) != LUA_TNIL;
    lua_pushvalue(L, top + 4);
    lua_pushboolean(L, true);
    lua_rawset(L, top + 2);
    if (!is_known) ltide_warn(L, "undefined global '%s'%s", name, ltide_global_hint(L, name, top + 3));
  }
  lua_settop(L, top);
}

int repl_print_help(lua_State *L) {
  repl_call(L, "runner/manual.prompt_help", lua_gettop(L));
  printf("%s\n", lua_tostring(L, -1));
  return 0;
}

void repl_prepare_globals(lua_State *L) {
  lua_newtable(L);
  ltide_make_weak(L, "v");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_weak);
  lua_pushglobaltable(L);
  if (!lua_getmetatable(L, -1)) lua_newtable(L);
  lua_getfield(L, -1, "__index");
  lua_pushcclosure(L, global_index, 1);
  globals_outer(global_index);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

/* {==== Memory */

static size_t alive(void) {
  size_t bytes = tide_memory_cpu_allocated();
  for (int i = 0; tide_is_initialized() && i < tide_device_count(); i++) bytes += tide_memory_allocated(i);
  return bytes;
}

/* What a chunk made and dropped goes at once, where it is more than a little: nobody computes while the prompt waits.
 * So of results that are only looked at the last one alone is there. */
int repl_collect(lua_State *L) {
  static size_t left;
  ltide_enter(L);
  if (!lua_gc(L, LUA_GCISRUNNING) || alive() <= left + (1 << 20)) return 0;
  push_last(L);
  lua_gc(L, LUA_GCCOLLECT);
  tide_memory_pump();
  left = alive();
  return 0;
}

int repl_run_function(lua_State *L) {
  int status = runner_call(L, 0, LUA_MULTRET);
  luaL_checkstack(L, LUA_MINSTACK, "too many results");
  warn_of_undefined(L, status == LUA_OK ? NULL : lua_tostring(L, -1));
  if (status == LUA_OK && lua_gettop(L)) lua_pushvalue(L, 1), set_last(L);
  return status;
}

void repl_open(lua_State *L) {
  lua_pushcfunction(L, repl_print_help);
  lua_setglobal(L, "help");
}
