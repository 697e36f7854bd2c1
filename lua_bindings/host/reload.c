/* reload.c: tide.reload: a module's text again while what it holds stays. Which value stays is decided in
 * host/reload.lua; this file does what Lua cannot, or not without the debug library that a host may not have opened.
 *
 * Two things keep it honest. A table is the module's own if the text has made it while it ran, and anything else is
 * somebody else's and never changed: the recorder notes the tables that Lua allocates meanwhile. And nothing is
 * changed before all is decided: the changes come as a list, memory for new keys is taken first, and what follows
 * cannot fail and runs no script.
 *
 * Invariant: an error, wherever it is raised, leaves module, globals and variables as they were. */
#include <stdlib.h>

#include "call/each.h"
#include "frame.h"
#include "reload.h"
#include "call/row.h"

/* {==== Which tables the text makes */

#define RECORDER_META "tide.reload.recorder"

typedef struct recorder {
  lua_Alloc alloc;
  void *user;
  uintptr_t *made;    /* a hash table of the tables' addresses; 0: a free place */
  size_t count, room; /* room is 0 or a power of two */
  size_t table_size;  /* all have the same in Lua 5.4 */
  int apart;          /* calls that are under way in which others' text runs */
} recorder;

static size_t home_of(const recorder *r, uintptr_t address) {
  return (size_t)((uint64_t)address * 0x9e3779b97f4a7c15u >> 32) & (r->room - 1);
}

/* Where the address is, or else belongs. At most half of the places are taken. */
static size_t place_of(const recorder *r, uintptr_t address) {
  size_t i = home_of(r, address);
  while (r->made[i] && r->made[i] != address) i = (i + 1) & (r->room - 1);
  return i;
}

static bool has(const recorder *r, const void *block) { return r->count && r->made[place_of(r, (uintptr_t)block)]; }

static bool make_room(recorder *r) {
  if (2 * (r->count + 1) <= r->room) return true;
  recorder larger = {.room = r->room ? 2 * r->room : 64};
  larger.made = calloc(larger.room, sizeof *larger.made);
  if (!larger.made) return false;
  for (size_t i = 0; i < r->room; i++)
    if (r->made[i]) larger.made[place_of(&larger, r->made[i])] = r->made[i];
  free(r->made);
  r->made = larger.made, r->room = larger.room;
  return true;
}

static void note(recorder *r, const void *block) {
  size_t place = place_of(r, (uintptr_t)block);
  r->count += !r->made[place];
  r->made[place] = (uintptr_t)block;
}

/* What lies behind the address and would be looked for from its place on moves up. */
static void forget(recorder *r, const void *block) {
  if (!has(r, block)) return;
  size_t last = r->room - 1, hole = place_of(r, (uintptr_t)block);
  for (size_t i = (hole + 1) & last; r->made[i]; i = (i + 1) & last) {
    if (((i - home_of(r, r->made[i])) & last) < ((i - hole) & last)) continue;
    r->made[hole] = r->made[i], hole = i;
  }
  r->made[hole] = 0;
  r->count--;
}

/* For a new block Lua says in `old` what it is for; LuaJIT does not, so that there all blocks are noted. */
#ifdef LTIDE_LUAJIT
#  define FOR_TABLE(old)     true
#  define MAY_BE_NOTED(size) true
#else
#  define FOR_TABLE(old)     ((old) == LUA_TTABLE)
#  define MAY_BE_NOTED(size) ((size) == r->table_size)
#endif

/* Lua's allocator while the text runs. An address is the text's until its block is freed, whoever runs then. */
static void *record(void *user, void *block, size_t old, size_t size) {
  recorder *r = user;
  bool is_table = !block && size && !r->apart && FOR_TABLE(old);
  if (is_table && !make_room(r)) return NULL;
  void *out = r->alloc(r->user, block, old, size);
  if (block && out != block && (out || !size) && MAY_BE_NOTED(old)) forget(r, block);
  if (is_table && out) note(r, out), r->table_size = size;
  return out;
}

/* The one that notes tables at present, or NULL. */
static recorder *recorder_of(lua_State *L) {
  void *user;
  return lua_getallocf(L, &user) == record ? user : NULL;
}

static int recorder_gc(lua_State *L) {
  recorder *r = ltide_test_object(L, 1, RECORDER_META);
  if (!r) return 0;
  if (recorder_of(L) == r) lua_setallocf(L, r->alloc, r->user); /* the text closes the state: os.exit */
  free(r->made);
  r->made = NULL, r->count = r->room = 0;
  return 0;
}

/* What another module's text makes is not this one's. Upvalue: require. */
static int require_apart(lua_State *L) {
  recorder *r = recorder_of(L);
  ltide_insert_upvalue(L, 1);
  if (r) r->apart++;
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  if (r) r->apart--;
  return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

/* apart(require): one that the text calls; nil for nil. */
static int script_apart(lua_State *L) {
  if (lua_isfunction(L, 1)) lua_pushcclosure(L, require_apart, 1);
  return 1;
}

/* run_recorded(fn, ...): true, what fn returned first, and the recorder; or false and the error. */
static int script_run_recorded(lua_State *L) {
  recorder *r = ltide_new_object(L, sizeof *r, 0);
  *r = (recorder){0};
  ltide_setmetatable(L, RECORDER_META);
  lua_insert(L, 1);
  recorder *outer = recorder_of(L); /* of another text, which is running */
  r->alloc = lua_getallocf(L, &r->user);
  lua_setallocf(L, record, r);
  if (outer) outer->apart++;
  int status = lua_pcall(L, lua_gettop(L) - 2, 1, 0);
  if (outer) outer->apart--;
  lua_setallocf(L, r->alloc, r->user);
  if (status != LUA_OK && atomic_load(&ltide_state_of(L)->ended)) return lua_error(L); /* no script catches this one */
  ltide_enter(L);
  lua_pushboolean(L, status == LUA_OK);
  lua_insert(L, 2);
  lua_pushvalue(L, 1);
  return 3;
}

/* is_made(recorder, table) */
static int script_is_made(lua_State *L) {
  return ltide_give_boolean(L, has(lua_touserdata(L, 1), lua_topointer(L, 2)));
}

/* {==== The text */

/* compile_text(text, source, env) or compile_text(nil, path, env): the function, or nil and the error. Text alone:
 * bytecode has no names. */
static int script_compile_text(lua_State *L) {
  size_t size;
  const char *text = lua_tolstring(L, 1, &size), *source = lua_tostring(L, 2);
  int status = text ? luaL_loadbufferx(L, text, size, source, "t") : luaL_loadfilex(L, source, "t");
  if (status != LUA_OK) return lua_pushnil(L), lua_insert(L, -2), 2;
  lua_pushvalue(L, 3);
  lua_setupvalue(L, -2, 1); /* _ENV */
  return 1;
}

static int script_global_table(lua_State *L) { return lua_pushglobaltable(L), 1; }

/* {==== Values */

static int script_is_same(lua_State *L) { return ltide_give_boolean(L, lua_rawequal(L, 1, 2)); }

/* source_of(f): the name of the text that a function of Lua stands in; nil for others. */
static int script_source_of(lua_State *L) {
  lua_Debug ar;
  lua_settop(L, 1);
  if (!lua_isfunction(L, 1) || lua_iscfunction(L, 1)) return 0;
  lua_getinfo(L, ">S", &ar);
  return lua_pushstring(L, ar.source), 1;
}

/* variable_of(f, i): which variable the upvalue is, among all functions that share it. */
static int script_variable_of(lua_State *L) {
  return lua_pushlightuserdata(L, lua_upvalueid(L, 1, (int)lua_tointeger(L, 2))), 1;
}

static void add_sizes(luaL_Buffer *text, const tide_tensor *x) {
  char size[32];
  for (int d = 0; d < tide_tensor_ndim(x); d++) {
    snprintf(size, sizeof size, d ? "x%lld" : " %lld", (long long)tide_tensor_size(x)[d]);
    luaL_addstring(text, size);
  }
}

static void push_likeness(lua_State *L, const tide_tensor *x) {
  char device[32];
  luaL_Buffer text;
  luaL_buffinit(L, &text);
  snprintf(device, sizeof device, "%d ", tide_tensor_device(x));
  luaL_addstring(&text, device);
  luaL_addstring(&text, tide_dtype_name(tide_tensor_dtype(x)));
  add_sizes(&text, x);
  luaL_pushresult(&text);
}

/* likeness(value): of a userdata that holds state, a text that two have in common of which one may stand in for the
 * other; true: it is code; nil: it is a part of the module tide. */
static int script_likeness(lua_State *L) {
  ltide_state *S = ltide_enter(L);
  ltide_tensor *u = ltide_test_handle(L, S, 1);
  if (u && u->t) return push_likeness(L, u->t), 1;
  if (ltide_test_meta(L, 1, ltide_handle_of(S)->dtype_meta) || ltide_test_meta(L, 1, ltide_handle_of(S)->device_meta))
    return luaL_tolstring(L, 1, NULL), 1;
  static const char *const codes[] = {"tide.cuda.Kernel", "tide.cuda.BoundKernel", "tide.LuaKernel",
                                      "tide.BoundLuaKernel"};
  bool is_code = false;
  for (int i = 0; i < 4; i++) is_code |= ltide_test_object(L, 1, codes[i]) != NULL;
  if (is_code) return ltide_give_boolean(L, true);
  if (ltide_push_thawed(L, 1)) return 0;
  if (!luaL_getmetafield(L, 1, "__name")) lua_pushliteral(L, "userdata");
  return 1;
}

/* {==== Metamethods of a table that reads as another. Scripts can get at them, and call them with anything. */

/* Pushes the other table. */
static void push_place(lua_State *L) {
  if (lua_istable(L, 1) && lua_getmetatable(L, 1)) {
    lua_pushliteral(L, "__index");
    if (lua_rawget(L, -2) == LUA_TTABLE) return;
  }
  ltide_arg_error(L, 1, "table", "a table that reload has replaced");
}

static int script_length_of_place(lua_State *L) {
  push_place(L);
  return ltide_give_integer(L, (lua_Integer)lua_rawlen(L, -1));
}

static int next_pair(lua_State *L) {
  if (!lua_istable(L, 1)) return ltide_arg_error(L, 1, "table", "a table");
  lua_settop(L, 2);
  return lua_next(L, 1) ? 2 : (lua_pushnil(L), 1);
}

static int script_pairs_of_place(lua_State *L) {
  push_place(L);
  lua_pushcfunction(L, next_pair);
  lua_insert(L, -2);
  return 2;
}

/* {==== Changes: a list of five values each */

enum { STRIDE = 5 };

enum {
  SET = 1, /* table, key, value */
  ADDED,   /* the same, and the key was not there */
  META,    /* table, metatable or nil */
  FORWARD, /* table, metatable: what the text has made reads as what has stayed in its place */
  VALUE,   /* function, upvalue, value */
  JOIN,    /* function, upvalue, function, upvalue: the first has the second's variable */
  OLD,     /* function: of the text before, which may have a variable that another gets; it stays as it is */
};

static int push_change(lua_State *L, lua_Integer i) {
  for (int k = 1; k <= STRIDE; k++) lua_rawgeti(L, 1, i * STRIDE + k);
  return (int)lua_tointeger(L, -STRIDE);
}

static void set_op(lua_State *L, lua_Integer i, int op) {
  lua_pushinteger(L, op);
  lua_rawseti(L, 1, i * STRIDE + 1);
}

/* Compiled code has values of variables as constants. Where the text that made a variable never assigns to it, LuaJIT
 * compiles so always: functions of another text, which may assign, get such a variable, so neither side is compiled. */
static void forget_compiled(lua_State *L, lua_Integer n) {
#ifdef LTIDE_LUAJIT
  ltide_jit_flush(L);
  for (lua_Integer i = 0; i < n; i++, lua_settop(L, 2)) {
    int op = push_change(L, i);
    if (op == JOIN || op == OLD) ltide_jit_interpret(L, 4);
  }
#endif
}

/* Makes place for keys that are not there yet. */
static int add_keys(lua_State *L) {
  lua_Integer n = lua_tointeger(L, 2);
  for (lua_Integer i = 0; i < n; i++, lua_settop(L, 2)) {
    if (push_change(L, i) != SET || lua_isnil(L, 6)) continue;
    lua_pushvalue(L, 5);
    if (lua_rawget(L, 4) != LUA_TNIL) continue;
    lua_pushvalue(L, 5);
    lua_pushboolean(L, 0);
    lua_rawset(L, 4);
    set_op(L, i, ADDED);
  }
  forget_compiled(L, n);
  return 0;
}

static void take_keys_back(lua_State *L, lua_Integer n) {
  for (lua_Integer i = 0; i < n; i++, lua_settop(L, 2)) {
    if (push_change(L, i) != ADDED) continue;
    lua_settop(L, 5);
    lua_pushnil(L);
    lua_rawset(L, 4);
  }
}

static void clear(lua_State *L, int table) {
  for (lua_pushnil(L); lua_next(L, table);) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, table);
  }
}

/* Sets the metatable at 5. A script that may have no finalisers can have put __gc into it after it set it itself: Lua
 * must not see that now. "__gc" is at 2; its key stays in the metatable, so that this takes no memory. */
static void set_metatable(lua_State *L) {
  lua_settop(L, 5);
  bool hides = lua_istable(L, 5) && ltide_state_of(L)->granted != TIDE_LUA_ALL;
  if (hides) {
    lua_pushvalue(L, 2);
    hides = lua_rawget(L, 5) != LUA_TNIL;
  }
  if (hides) {
    lua_pushvalue(L, 2);
    lua_pushnil(L);
    lua_rawset(L, 5);
  }
  lua_pushvalue(L, 5);
  lua_setmetatable(L, 4);
  if (!hides) return;
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 6);
  lua_rawset(L, 5);
}

/* None of this takes memory, or calls anything. The change lies at 3 and above. */
static void make_change(lua_State *L, int op) {
  switch (op) {
  case SET:
  case ADDED:
    lua_settop(L, 6);
    lua_rawset(L, 4);
    break;
  case FORWARD: clear(L, 4); __attribute__((fallthrough));
  case META: set_metatable(L); break;
  case VALUE:
    lua_settop(L, 6);
    lua_setupvalue(L, 4, (int)lua_tointeger(L, 5));
    break;
  case JOIN: lua_upvaluejoin(L, 4, (int)lua_tointeger(L, 5), 6, (int)lua_tointeger(L, 7)); break;
  }
}

/* apply_changes(changes, n) */
static int script_apply_changes(lua_State *L) {
  lua_Integer n = lua_tointeger(L, 2);
  luaL_checkstack(L, 2 * STRIDE + 4, "reload");
  lua_pushliteral(L, "__gc");
  lua_replace(L, 2);
  lua_pushcfunction(L, add_keys);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, n);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) {
    lua_replace(L, 2);
    take_keys_back(L, n);
    return lua_error(L);
  }
  for (lua_Integer i = 0; i < n; i++, lua_settop(L, 2)) make_change(L, push_change(L, i));
  return 0;
}

/* {==== The host's call */

/* The text as a string, which it may not be: reads name, text and size. */
typedef struct host_text {
  const char *name, *text;
  size_t size;
} host_text;

static int reload_text(lua_State *L) {
  const host_text *t = lua_touserdata(L, 1);
  ltide_enter(L);
  ltide_script_push(L, "host/reload.reload");
  lua_pushstring(L, t->name);
  lua_pushlstring(L, t->text, t->size);
  lua_call(L, 2, 2);
  if (lua_isnil(L, -2)) return lua_error(L);
  lua_pop(L, 1);
  return 1;
}

int ltide_reload(lua_State *L, const char *name, const char *text, size_t size) {
  host_text t = {name, text, size};
  if (!name || (!text && size)) return ltide_fail_misuse(L, 0, "reload: a name or a text is missing, got NULL");
  if (ltide_in_script(L))
    return ltide_fail_misuse(L, 0,
                             "reload: a script runs, got a call by one of its functions, expected one by the host");
  int status = ltide_check_ended(L);
  if (status != LUA_OK) return status;
  lua_pushcfunction(L, reload_text);
  lua_pushlightuserdata(L, &t);
  return lua_pcall(L, 1, 1, 0);
}

void ltide_open_reload(lua_State *L, ltide_state *S) {
#include <rows/reload.inc>
  ltide_open_finaliser(L, RECORDER_META, recorder_gc);
  LTIDE_GIVE(L, "host/reload.c", run_recorded, apart, is_made, compile_text, global_table, is_same, source_of,
             variable_of, likeness, length_of_place, pairs_of_place, apply_changes);
  ltide_register_rows(L, "tide", reload_rows);
}
