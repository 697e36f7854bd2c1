/* sandbox.c: how a host opens the module for scripts that it does not trust (tide_lua_open): what it grants them, and
 * tables that they cannot change. SANDBOX.md says what that promises. */
#include "quota/interruptible_stdlib.h"
#include "quota/interruptible_pcall.h"
#include "call/row.h"
#include "sandbox.h"
#include "call/scope.h"
#include "call/collector.h"

/* The host's options, which lie in the registry while the module opens. One who forgot struct_size would be given a
 * sandbox without the quotas that he has set. */
static tide_lua_options read_options(lua_State *L) {
  tide_lua_options o = {0};
  lua_getfield(L, LUA_REGISTRYINDEX, "tide.options");
  const tide_lua_options *from = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (from->struct_size < offsetof(tide_lua_options, device) || from->struct_size > 65536)
    ltide_error(L, "ValueError", "options.struct_size: got %d, expected sizeof(tide_lua_options)",
                (int)from->struct_size);
  memcpy(&o, from, from->struct_size < sizeof o ? from->struct_size : sizeof o);
  if ((int)o.gc < TIDE_LUA_GC_AUTO || o.gc > TIDE_LUA_GC_NEVER)
    ltide_error(L, "ValueError", "options.gc: got %d, expected TIDE_LUA_GC_AUTO, _LAST or _NEVER", (int)o.gc);
  return o;
}

/* {==== Lua's own library
 *
 * What of it would reach beyond the script, where the host has opened it: it is changed in the globals, before a script
 * or an environment of the host's has it. Each asks at a call what the state is granted, so that one which was saved
 * before a restriction refuses, too. Upvalue: the original. */

static bool has_all(lua_State *L, unsigned capabilities) {
  const ltide_state *S = ltide_state_of(L);
  return S && (S->granted & capabilities) == capabilities;
}

static int give_all(lua_State *L, int status, lua_KContext context) {
  return (void)status, (void)context, lua_gettop(L);
}

static int call_original(lua_State *L) {
  ltide_insert_upvalue(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, give_all);
  return give_all(L, LUA_OK, 0);
}

#if !LTIDE_FFI
/* What lua_load gets, in small pieces: for some texts the compiler takes 0.1 ms for a name. */
typedef struct reading {
  ltide_state *S;
  const char *text;
  size_t left, read;
} reading;

enum { PIECE_SLOT = 5 };

/* The next text of the script's function; false: it has no more. */
static bool read_more(lua_State *L, reading *r) {
  luaL_checkstack(L, 2, "too many nested functions");
  lua_pushvalue(L, 1);
  lua_call(L, 0, 1);
  if (lua_isnil(L, -1)) return lua_pop(L, 1), false;
  if (!lua_isstring(L, -1)) luaL_error(L, "reader function must return a string");
  lua_replace(L, PIECE_SLOT);
  r->text = lua_tolstring(L, PIECE_SLOT, &r->left);
  return r->left > 0;
}

/* A string or name in the text is copied and hashed when it ends, and may be all that was read. */
static const char *read_piece(lua_State *L, void *user, size_t *size) {
  enum { PIECE = 64, TOKEN = 3, NANOSECONDS = 2000 };
  reading *r = user;
  ltide_charge(L, r->S, NANOSECONDS);
  if (r->read % 4096 == 0) ltide_try(L, tide_quota_afford(r->S->quota, (int64_t)r->read * TOKEN / 1000));
  ltide_check_time(L);
  if (!r->left && (!lua_isfunction(L, 1) || !read_more(L, r))) return NULL;
  *size = r->left < PIECE ? r->left : PIECE;
  r->text += *size, r->left -= *size, r->read += *size;
  return r->text - *size;
}

static int load_pieces(lua_State *L, const char *mode) {
  reading r = {.S = ltide_state_of(L)};
  bool has_env = lua_gettop(L) >= 4;
  if (lua_type(L, 1) == LUA_TNUMBER) lua_tostring(L, 1);
  if (lua_type(L, 1) == LUA_TSTRING)
    r.text = lua_tolstring(L, 1, &r.left);
  else
    luaL_checktype(L, 1, LUA_TFUNCTION);
  const char *name = luaL_optstring(L, 2, r.text ? r.text : "=(load)");
  ltide_charge(L, r.S, (double)strlen(name));
  lua_settop(L, has_env ? 4 : 3);
  lua_settop(L, PIECE_SLOT);
  if (lua_load(L, read_piece, &r, name, mode) != LUA_OK) {
    luaL_pushfail(L);
    lua_insert(L, -2);
    return 2;
  }
  if (has_env) {
    lua_pushvalue(L, 4);
    if (!lua_setupvalue(L, -2, 1)) lua_pop(L, 1);
  }
  return 1;
}
#endif

/* load, of text alone: bytecode that no compiler made runs as machine code would. A name that begins with '@' says that
 * the text is a file's, which tide.kernel would look into, and is shown as one that begins with '='. */
static int load_text(lua_State *L) {
  const char *mode = luaL_optstring(L, 3, "bt");
  if (!has_all(L, TIDE_LUA_NATIVE)) {
    mode = "t";
    if (lua_gettop(L) < 3) lua_settop(L, 3);
    if (lua_type(L, 2) == LUA_TSTRING && *lua_tostring(L, 2) == '@') {
      lua_pushfstring(L, "=%s", lua_tostring(L, 2) + 1);
      lua_replace(L, 2);
    }
  }
#if LTIDE_FFI
  if (lua_gettop(L) < 3) lua_settop(L, 3);
  lua_pushstring(L, mode);
  lua_replace(L, 3);
  return call_original(L);
#else
  return load_pieces(L, mode);
#endif
}

/* A file, too, is text alone. */
static int load_file(lua_State *L) {
  ltide_need(L, TIDE_LUA_FILES, "loadfile");
  if (has_all(L, TIDE_LUA_NATIVE)) return call_original(L);
  if (lua_gettop(L) < 2) lua_settop(L, 2);
  lua_pushliteral(L, "t");
  lua_replace(L, 2);
  return call_original(L);
}

static int do_file(lua_State *L) {
  ltide_need(L, TIDE_LUA_FILES, "dofile");
  if (has_all(L, TIDE_LUA_NATIVE)) return call_original(L);
  lua_settop(L, 1);
  if (luaL_loadfilex(L, luaL_optstring(L, 1, NULL), "t") != LUA_OK) return lua_error(L);
  lua_replace(L, 1);
  lua_callk(L, 0, LUA_MULTRET, 0, give_all);
  return give_all(L, LUA_OK, 0);
}

/* setmetatable without __gc: Lua runs finalisers without hooks, so that nothing could end one. */
static int set_metatable(lua_State *L) {
  int type = lua_type(L, 2);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_argcheck(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table expected");
  if (luaL_getmetafield(L, 1, "__metatable")) return luaL_error(L, "cannot change a protected metatable");
  if (type == LUA_TTABLE && !has_all(L, TIDE_LUA_ALL)) {
    lua_pushliteral(L, "__gc");
    if (lua_rawget(L, 2) != LUA_TNIL)
      return ltide_error(L, "PermissionError",
                         "setmetatable: got a metatable with __gc, expected one without: "
                         "the host does not let this script have finalisers");
    lua_pop(L, 1);
  }
  lua_settop(L, 2);
  lua_setmetatable(L, 1);
  return 1;
}

/* Puts a function of ours in the place of the one in the table at the top, which is its upvalue; NULL: it goes. */
static void replace(lua_State *L, const char *name, lua_CFunction by) {
  lua_pushstring(L, name);
  if (lua_rawget(L, -2) == LUA_TFUNCTION) {
    if (by)
      lua_pushcclosure(L, by, 1);
    else
      lua_pop(L, 1), lua_pushnil(L);
    lua_setfield(L, -2, name);
  } else
    lua_pop(L, 1);
}

static void guard_library(lua_State *L) {
  lua_pushglobaltable(L);
  replace(L, "load", load_text);
  if (LTIDE_FFI) replace(L, "loadstring", load_text);
  replace(L, "loadfile", load_file);
  replace(L, "dofile", do_file);
  replace(L, "setmetatable", set_metatable);
  lua_pop(L, 1);
}

/* All strings have one metatable: a script that changed its __index would run in what others write. */
static void close_strings(lua_State *L) {
  lua_pushliteral(L, "");
  if (lua_getmetatable(L, -1)) {
    ltide_protect(L, "string");
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static int narrow_library(lua_State *L) {
  if (has_all(L, TIDE_LUA_ALL)) return 0;
  lua_pushglobaltable(L);
  if (!has_all(L, TIDE_LUA_FILES)) replace(L, "loadfile", NULL), replace(L, "dofile", NULL);
  if (LTIDE_FFI) replace(L, "newproxy", NULL); /* userdata with __gc, in Lua 5.1 */
  lua_pop(L, 1);
  close_strings(L);
  return 0;
}

/* {==== Quotas */

static void open_quota(lua_State *L, ltide_state *S, const tide_lua_options *o) {
  if (!S->main) ltide_error(L, "StateError", "tide_lua_open: expected the main coroutine: LuaJIT tells no other one's");
  ltide_try(L, tide_quota_new(&S->quota));
  for (int k = 0; k < TIDE_QUOTA_KINDS; k++)
    if (o->quota[k]) tide_quota_limit(S->quota, (tide_quota_kind)k, o->quota[k]);
  tide_quota_refuse_waits(S->quota, !(S->granted & TIDE_LUA_WAITS));
  tide_current_set_quota(S->record->current, S->quota);
  ltide_hook_open(L, S);
  ltide_let_pass(L, &S->ended, true);
}

int ltide_quota_set(lua_State *L, tide_quota_kind kind, int64_t limit) {
  ltide_state *S = ltide_state_of(L);
  if (!S || !S->quota || (unsigned)kind >= TIDE_QUOTA_KINDS) return 0;
  tide_quota_limit(S->quota, kind, limit);
  atomic_store(&S->ended, tide_quota_ended(S->quota));
  ltide_hook_run(L, S);
  return 1;
}

int64_t ltide_quota_used(lua_State *L, tide_quota_kind kind) {
  const ltide_state *S = ltide_state_of(L);
  return S && S->quota ? tide_quota_used(S->quota, kind) : -1;
}

int64_t ltide_quota_overrun(lua_State *L, tide_quota_kind kind) {
  const ltide_state *S = ltide_state_of(L);
  return S && S->quota ? tide_quota_overrun(S->quota, kind) : -1;
}

/* {==== Opening */

/* Before the stream, whose device need not be this one. */
static void choose_device(lua_State *L, ltide_state *S, const char *name) {
  lua_pushstring(L, name);
  int device = ltide_check_device(L, lua_gettop(L), "options.device", LTIDE_CPU_OK);
  lua_pop(L, 1);
  ltide_enter_again(L);
  S->has_device = true, S->device = device;
  ltide_try(L, ltide_use_device(S, S->record->current));
}

static void choose_indexes(lua_State *L, ltide_state *S, int indexes) {
  if (indexes != TIDE_LUA_FROM_ONE && indexes != TIDE_LUA_FROM_ZERO)
    ltide_error(L, "ValueError", "options.indexes: got %d, expected TIDE_LUA_FROM_ONE or TIDE_LUA_FROM_ZERO", indexes);
  if (indexes == TIDE_LUA_FROM_ZERO && !LTIDE_FROM_ZERO)
    ltide_error(L, "StateError", "options.indexes: expected TIDE_LUA_FROM_ONE: LuaJIT's compiled calls count from 1");
  S->from_zero = indexes == TIDE_LUA_FROM_ZERO;
}

/* What stands in Lua's library from now on looks into the struct, also where something below fails and the module does
 * not open: it lives as long as the state. */
static void keep_struct(lua_State *L) {
  ltide_push_state(L);
  luaL_ref(L, LUA_REGISTRYINDEX);
}

void ltide_sandbox(lua_State *L, ltide_state *S) {
  if (!S->has_options) return;
  tide_lua_options o = read_options(L);
  choose_indexes(L, S, (int)o.indexes);
  S->granted = o.capabilities & TIDE_LUA_ALL;
  if (o.device) choose_device(L, S, o.device);
  if (o.stream) ltide_try(L, tide_current_set_stream(o.stream));
  keep_struct(L);
  open_quota(L, S, &o);
  ltide_gc_set(L, (int)o.gc);
  ltide_withhold(L);
  ltide_freeze(L);
  guard_library(L);
#if !LTIDE_FFI
  ltide_bound_library(L, S);
#endif
  narrow_library(L);
}

int ltide_restrict(lua_State *L, unsigned capabilities) {
  ltide_state *S = ltide_state_of(L);
  if (!S || !S->has_options) return 0;
  S->granted &= capabilities;
  if (S->quota) tide_quota_refuse_waits(S->quota, !(S->granted & TIDE_LUA_WAITS));
  ltide_withhold(L);
  lua_pushcfunction(L, narrow_library);
  if (lua_pcall(L, 0, 0, 0) == LUA_OK) return 1;
  lua_pop(L, 1);
  return 0;
}
