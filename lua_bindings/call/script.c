/* script.c: the parts of the bindings that are written in Lua.
 *
 * What walks tables, chooses and calls back is shorter in Lua, and is in ROOM/NAME.lua, a chunk. What touches tensors,
 * devices or the system stays C and is given to the chunks as a list. A function that scripts call is always C, with
 * its name and its help: it reads its arguments and calls one of the chunks.
 *
 * The text of the chunks is in the binary, and the code that Lua makes of it, which is there sooner. It is
 * taken once this process's Lua has made the same code of a text: another release may write it otherwise. A chunk gets
 * the table that it gives as `...` and sets its functions in it. It takes the table of another with use "ROOM/NAME",
 * and functions of a C file with use("ROOM/NAME.c", "f", "g"). The table of a chunk is empty until a field of it is
 * read: then the chunk is compiled and runs. C calls "ROOM/NAME.function".
 *
 * The globals of the chunks are the C functions below, so they work where a host has opened none of Lua's libraries,
 * and no script sees or changes what they use. Tables of scripts are read raw. Where the line of a script or the name
 * of the called function is looked for, the frames of chunks are passed over.
 *
 * Invariant: a chunk that could not be compiled for want of memory is compiled by the next call. */

#include "each.h"
#include "row.h"
#include "script.h"
#include "system.h"

static const char key_globals;
/* The registry's table of what use gives: "ROOM/NAME" -> the table of a chunk, "ROOM/NAME.c" -> a list of C functions,
 * or their table. "ROOM/NAME.function" -> the function, for C. */
static const char key_tables;
/* In a table that use gives: its name, and whether its chunk is running; false: it has run. */
enum { NAME = 1, RUNNING = 2 };
/* One for each file, made by tide_chunks; LuaJIT's have no code, and neither have long strings. */
static const struct chunk {
  const char *name, *text;
  size_t length;
  const unsigned char *code;
  size_t code_length;
} chunks[] = {
#include <tide_script.inc>
};

void ltide_script_give(lua_State *L, const char *name, const luaL_Reg *list) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_tables);
  lua_pushlightuserdata(L, (void *)list);
  lua_setfield(L, -2, name);
  lua_pop(L, 1);
}

static const struct chunk *find_chunk(const char *name) {
  size_t prefix = strlen("=[tide "), length = strlen(name);
  for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
    if (!strncmp(chunks[i].name + prefix, name, length) && !strcmp(chunks[i].name + prefix + length, ".lua]"))
      return &chunks[i];
  return NULL;
}

/* What is left of the code. */
typedef struct rest {
  const unsigned char *at;
  size_t length;
} rest;

static int compare(lua_State *L, const void *bytes, size_t size, void *user) {
  rest *r = user;
  if (size > r->length || memcmp(r->at, bytes, size) != 0) return 1;
  r->at += size, r->length -= size;
  return 0;
}

static int load_chunk(lua_State *L, const struct chunk *c) {
  static _Atomic int serves; /* the code: 1; it does not: -1; not known yet */
  int known = atomic_load(&serves);
  if (known > 0 && c->code) return luaL_loadbufferx(L, (const char *)c->code, c->code_length, c->name, "b");
  int status = luaL_loadbufferx(L, c->text, c->length, c->name, "t");
  if (status == LUA_OK && known == 0 && c->code) {
    rest r = {c->code, c->code_length};
    atomic_store(&serves, lua_dump(L, compare, &r, 0) == 0 && r.length == 0 ? 1 : -1);
  }
  return status;
}

/* A chunk reads or sets a global that is none. */
static int no_global(lua_State *L) {
  return luaL_error(L, "tide: a chunk has no global '%s'", luaL_tolstring(L, 2, NULL));
}

static void push_globals(lua_State *L);

/* Pushes the table of that name. */
static void push_table(lua_State *L, const char *name) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_tables);
  lua_pushstring(L, name);
  int type = lua_rawget(L, -2);
  if (type == LUA_TTABLE) return lua_remove(L, -2);
  if (type == LUA_TNIL && !find_chunk(name)) luaL_error(L, "tide: there is no chunk '%s'", name);
  lua_createtable(L, 2, 8);
  lua_pushstring(L, name);
  lua_rawseti(L, -2, NAME);
  if (type == LUA_TLIGHTUSERDATA) {
    luaL_setfuncs(L, lua_touserdata(L, -2), 0);
    lua_pushboolean(L, 0);
    lua_rawseti(L, -2, RUNNING);
  }
  lua_getmetatable(L, -3);
  lua_setmetatable(L, -2);
  lua_replace(L, -2);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, name);
  lua_remove(L, -2);
}

/* "ROOM/NAME.function" at 2. */
static int find_function(lua_State *L) {
  const char *name = lua_tostring(L, 2), *dot = strrchr(name, '.');
  push_table(L, lua_pushlstring(L, name, dot ? (size_t)(dot - name) : 0));
  lua_getfield(L, -1, dot + 1);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, 1);
  return 1;
}

/* The table at 1 lacks the name at 2: its chunk runs, unless it has. */
static int find_field(lua_State *L) {
  lua_settop(L, 2);
  if (lua_rawgeti(L, 1, NAME) == LUA_TNIL) return find_function(L);
  const char *name = lua_tostring(L, 3), *field = luaL_tolstring(L, 2, NULL);
  if (lua_rawgeti(L, 1, RUNNING) == LUA_TNIL) {
    const struct chunk *c = find_chunk(name);
    push_globals(L);
    lua_pushboolean(L, 1);
    lua_rawseti(L, 1, RUNNING);
    int status = load_chunk(L, c);
    if (status == LUA_OK) {
      lua_pushvalue(L, -2);
      lua_setupvalue(L, -2, 1);
      lua_pushvalue(L, 1);
      status = lua_pcall(L, 1, 0, 0);
    }
    if (status == LUA_OK)
      lua_pushboolean(L, 0);
    else
      lua_pushnil(L);
    lua_rawseti(L, 1, RUNNING);
    if (status != LUA_OK) return lua_error(L);
    lua_pushvalue(L, 2);
    if (lua_rawget(L, 1) != LUA_TNIL) return 1;
  } else if (lua_toboolean(L, -1)) {
    return luaL_error(L, "tide: %s.%s is read while %s is loaded: chunks need each other in a circle", name, field,
                      name);
  }
  return luaL_error(L, "tide: %s gives no %s", name, field);
}

/* use(name): the table of a chunk or of a C file; use(name, "f", "g"): functions in it. */
static int script_use(lua_State *L) {
  int n = lua_gettop(L);
  luaL_checkstack(L, n, "use");
  push_table(L, luaL_checkstring(L, 1));
  for (int i = 2; i <= n; i++) lua_pushvalue(L, i), lua_gettable(L, n + 1);
  return n > 1 ? n - 1 : 1;
}

/* has(name): is there that table? Of C files of the runner, which other programs lack. */
static int script_has(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_tables);
  lua_pushvalue(L, 1);
  return ltide_give_boolean(L, lua_rawget(L, -2) != LUA_TNIL);
}

static int finish(lua_State *L, int status, lua_KContext context) {
  ltide_enter(L);
  return lua_gettop(L) - (int)context;
}

void ltide_script_push(lua_State *L, const char *name) {
  luaL_checkstack(L, LUA_MINSTACK, "tide");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_tables);
  lua_getfield(L, -1, name);
  lua_replace(L, -2);
}

void ltide_check_time(lua_State *L) {
  const ltide_state *S = ltide_state_of(L);
  if (S->quota) ltide_try(L, tide_quota_check(S->quota));
}

static int nothing(lua_State *L) { return 0; }

/* A call of any function is where Lua looks for hooks. */
void ltide_poll_hooks(lua_State *L) {
  if (!lua_gethookmask(L)) return;
  lua_pushcfunction(L, nothing);
  lua_call(L, 0, 0);
  ltide_check_time(L); /* whose hook counts instructions alone */
}

int ltide_script_call(lua_State *L, const char *name, int n) {
  int before = lua_gettop(L) - n;
  ltide_check_time(L);
  ltide_script_push(L, name);
  lua_insert(L, before + 1);
  lua_callk(L, n, LUA_MULTRET, before, finish);
  return finish(L, LUA_OK, before);
}

void ltide_map_tree(lua_State *L, int index) {
  int leaf = lua_gettop(L);
  lua_pushvalue(L, index);
  lua_insert(L, leaf);
  ltide_script_push(L, "call/tree.copy");
  lua_insert(L, leaf);
  lua_call(L, 2, 1);
  ltide_enter(L);
}

/* {==== What the chunks have of Lua's own libraries, without metamethods */

static int script_next(lua_State *L) {
  lua_settop(L, 2);
  if (lua_next(L, 1)) return 2;
  return lua_pushnil(L), 1;
}

static int script_type(lua_State *L) { return lua_pushstring(L, luaL_typename(L, 1)), 1; }
static int script_rawget(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE); /* Lua itself would read any value as one */
  return lua_rawget(L, 1), 1;
}
static int script_rawlen(lua_State *L) { return ltide_give_integer(L, (lua_Integer)lua_rawlen(L, 1)); }
static int script_is_integer(lua_State *L) { return ltide_give_boolean(L, lua_isinteger(L, 1)); }
static int script_getmeta(lua_State *L) { return lua_getmetatable(L, 1); }
/* setmeta(t, metatable), which is a script's own where t is a copy of its table: one that may have no finalisers can
 * have put __gc there after it set it itself, and Lua must not see that now. */
static int script_setmeta(lua_State *L) {
  lua_settop(L, 2);
  bool hides = lua_istable(L, 2) && ltide_state_of(L)->granted != TIDE_LUA_ALL;
  if (hides) {
    lua_pushliteral(L, "__gc");
    hides = lua_rawget(L, 2) != LUA_TNIL;
  }
  if (hides) lua_pushliteral(L, "__gc"), lua_pushnil(L), lua_rawset(L, 2);
  lua_pushvalue(L, 2);
  lua_setmetatable(L, 1);
  if (hides) lua_pushliteral(L, "__gc"), lua_pushvalue(L, 3), lua_rawset(L, 2);
  return lua_settop(L, 1), 1;
}
static int script_count(lua_State *L) { return ltide_give_integer(L, lua_gettop(L)); }

/* unpack(list, first, last), of a list of the chunks'. */
static int script_unpack(lua_State *L) {
  lua_Integer first = lua_tointeger(L, 2), last = lua_tointeger(L, 3);
  int n = last < first ? 0 : (int)(last - first + 1);
  luaL_checkstack(L, n, "tide: too many values");
  for (lua_Integer i = first; i <= last; i++) lua_rawgeti(L, 1, i);
  return n;
}

static int script_text(lua_State *L) { return luaL_tolstring(L, 1, NULL), 1; }

static int script_class(lua_State *L) { return luaL_getmetatable(L, lua_tostring(L, 1)), 1; }

/* upvalue(f, i): its name and value, or nothing. */
static int script_upvalue(lua_State *L) {
  const char *name = lua_getupvalue(L, 1, (int)lua_tointeger(L, 2));
  return name ? (lua_pushstring(L, name), lua_insert(L, -2), 2) : 0;
}

/* find(text, piece): where it begins, or nil. */
static int script_find(lua_State *L) {
  const char *text = lua_tostring(L, 1), *at = strstr(text, lua_tostring(L, 2));
  return at ? ltide_give_integer(L, at - text + 1) : 0;
}

/* sub(text, first [, last]), as that of string. */
static int script_sub(lua_State *L) {
  size_t size;
  const char *text = lua_tolstring(L, 1, &size);
  lua_Integer n = (lua_Integer)size, first = lua_tointeger(L, 2), last = luaL_optinteger(L, 3, -1);
  first = first > 0 ? first : first < 0 && first + n >= 0 ? first + n + 1 : 1;
  last = last < 0 ? last + n + 1 : last < n ? last : n;
  return lua_pushlstring(L, text + first - 1, first > last ? 0 : (size_t)(last - first + 1)), 1;
}

static int script_replace(lua_State *L) {
  return luaL_gsub(L, lua_tostring(L, 1), lua_tostring(L, 2), lua_tostring(L, 3)), 1;
}

/* From where the script, or chunk, counts that has called the function whose chunk this is. */
static int base_of_caller(lua_State *L) {
  int level = 1;
  if (!ltide_state_of(L)->from_zero) return 1;
  while (ltide_base_at(L, level)) level++;
  return ltide_base_at(L, level + 1);
}

/* index_base(): that, for indexes that the chunk reads or gives itself. */
static int script_index_base(lua_State *L) { return ltide_give_integer(L, base_of_caller(L)); }

/* join(list [, sep]): its strings as one. */
static int script_join(lua_State *L) {
  luaL_Buffer b;
  lua_settop(L, 2);
  lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
  luaL_buffinit(L, &b);
  for (lua_Integer i = 1; i <= n; i++) {
    if (i > 1 && lua_isstring(L, 2)) luaL_addstring(&b, lua_tostring(L, 2));
    lua_rawgeti(L, 1, i);
    luaL_addvalue(&b);
  }
  return luaL_pushresult(&b), 1;
}

/* literal(number): its digits, as C and Lua read them. */
static int script_literal(lua_State *L) {
  char digits[40];
  if (lua_isinteger(L, 1))
    snprintf(digits, sizeof digits, "%lld", (long long)lua_tointeger(L, 1));
  else
    snprintf(digits, sizeof digits, "%.17g", lua_tonumber(L, 1));
  return lua_pushstring(L, digits), 1;
}

typedef struct wanted {
  const char *path, *name;
  const ltide_row *row;
} wanted;

static void look_at(void *ctx, const char *path, const ltide_row *row) {
  wanted *w = ctx;
  if (!strcmp(row->name, w->name) && !strcmp(path, w->path) && row->fn) w->row = row;
}

/* public(path, name, ...): functions of the module, or methods for "Tensor", also if a script has replaced them. */
static int script_public(lua_State *L) {
  int n = lua_gettop(L);
  luaL_checkstack(L, n, "public");
  for (int i = 2; i <= n; i++) {
    wanted w = {lua_tostring(L, 1), lua_tostring(L, i), NULL};
    ltide_each_row(look_at, &w);
    if (!w.row) return ltide_error(L, "StateError", "tide: there is no %s.%s", w.path, w.name);
    lua_pushlightuserdata(L, (void *)w.row);
    lua_pushcclosure(L, ltide_row_fn(w.row), 1);
  }
  return n - 1;
}

static int script_loaded(lua_State *L) { return lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE), 1; }

/* device_of(value) -> its number; nothing where it is no tensor. */
static int script_device_of(lua_State *L) {
  const tide_tensor *x = ltide_test_tensor(L, ltide_enter(L), 1);
  return x ? ltide_give_integer(L, tide_tensor_device(x)) : 0;
}

/* plain_shape(v): a shape, or a small vector or matrix, as a plain list; other values stay. */
static int script_plain_shape(lua_State *L) { return lua_settop(L, 1), ltide_plain_shape(L, 1), 1; }

/* call(f, ...), where f belongs to the script: a level of an error that it names ends here, and it cannot yield. */
static int script_call(lua_State *L) {
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* {==== Coroutines */

/* For a host without Lua's library of coroutines. */
static int resume_plain(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  int n = lua_gettop(L) - 1;
  if (!lua_checkstack(co, n)) ltide_error(L, "OutOfMemoryError", "tide: no room for %d arguments", n);
  lua_xmove(L, co, n);
  int status = lua_resume(co, L, n, &n);
  bool ok = status == LUA_OK || status == LUA_YIELD;
  if (!ok) n = 1;
  luaL_checkstack(L, n + 1, "tide: too many results");
  lua_pushboolean(L, ok);
  lua_xmove(co, L, n);
  return n + 1;
}

/* coroutine.resume: the library's, because the runner has taught that one where Ctrl-C is to go. */
static int script_resume(lua_State *L) {
  int n = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_COLIBNAME) == LUA_TTABLE) lua_getfield(L, -1, "resume");
  if (!lua_isfunction(L, -1)) lua_pushcfunction(L, resume_plain);
  lua_insert(L, 1);
  lua_settop(L, 1 + n);
  lua_call(L, n, LUA_MULTRET);
  ltide_enter(L);
  return lua_gettop(L);
}

static int script_yield(lua_State *L) { return lua_yield(L, lua_gettop(L)); }
static int script_has_ended(lua_State *L) { return ltide_give_boolean(L, lua_status(lua_tothread(L, 1)) != LUA_YIELD); }

/* {==== Messages */

/* refuse(value, name, expected): an argument that is no such thing. */
static int script_refuse(lua_State *L) { return ltide_arg_error(L, 1, lua_tostring(L, 2), lua_tostring(L, 3)); }

/* fail(kind, message [, fields]), in the name of the function that the script has called. */
static int script_fail(lua_State *L) {
  const char *kind = lua_tostring(L, 1), *message = lua_tostring(L, 2);
  if (!lua_istable(L, 3)) return ltide_error(L, kind, "%s", message);
  lua_pushvalue(L, 2);
  ltide_push_error(L, kind);
  for (lua_pushnil(L); lua_next(L, 3); lua_settop(L, 5)) lua_pushvalue(L, 5), lua_pushvalue(L, 6), lua_rawset(L, 4);
  lua_settop(L, 4);
  return lua_error(L);
}

/* reject(kind, name, got, expected): the same for an argument, or a part of one. */
static int script_reject(lua_State *L) {
  const char *got = luaL_tolstring(L, 3, NULL);
  return ltide_error(L, lua_tostring(L, 1), "%s: %s: got %s, expected %s", ltide_function_name(L), lua_tostring(L, 2),
                     got, lua_tostring(L, 4));
}

/* try(fn, ...): did it return? Or false and the error. */
static int script_try(lua_State *L) {
  bool ok = lua_pcall(L, lua_gettop(L) - 1, 0, 0) == LUA_OK;
  lua_pushboolean(L, ok);
  lua_insert(L, 1);
  return lua_gettop(L);
}

static int script_is_error(lua_State *L) { return ltide_give_boolean(L, ltide_is_error(L, 1)); }
static int script_throw(lua_State *L) { return lua_settop(L, 1), lua_error(L); }
static int script_warn(lua_State *L) { return ltide_warn(L, "%s", lua_tostring(L, 1)), 0; }
static int script_called(lua_State *L) { return lua_pushstring(L, ltide_function_name(L)), 1; }
static int script_describe(lua_State *L) { return lua_pushstring(L, ltide_typename(L, 1)), 1; }

/* Through the program's own print, which ends the last line itself. */
static int script_print_text(lua_State *L) {
  lua_getglobal(L, "print");
  lua_pushlstring(L, lua_tostring(L, 1), lua_rawlen(L, 1) - 1);
  return lua_call(L, 1, 0), 0;
}

/* columns(): of the terminal. */
static int script_columns(lua_State *L) {
  int n = ltide_columns();
  return ltide_give_integer(L, n > 0 ? n : 80);
}

/* pad(value, width): its text, with blanks in front of it, or behind it where the width is negative. */
static int script_pad(lua_State *L) {
  char cell[128];
  snprintf(cell, sizeof cell, "%*s", (int)lua_tointeger(L, 2), lua_tostring(L, 1));
  return lua_pushstring(L, cell), 1;
}

/* fixed(x, decimals) */
static int script_fixed(lua_State *L) {
  char text[400];
  snprintf(text, sizeof text, "%.*f", (int)lua_tointeger(L, 2), lua_tonumber(L, 1));
  return lua_pushstring(L, text), 1;
}

/* The globals of chunks: what is from Lua's own libraries, and what tide adds. */
static const luaL_Reg library[] =
    LTIDE_SCRIPT(type, next, rawget, rawlen, getmeta, setmeta, is_integer, count, unpack, upvalue, text, literal, find,
                 sub, replace, join, pad, fixed, loaded, resume, yield, has_ended);
static const luaL_Reg tools[] =
    LTIDE_SCRIPT(class, refuse, reject, throw, warn, describe, fail, try, called, public, index_base, use, has,
                 device_of, plain_shape, call, is_error, print_text, columns);

void ltide_script_add(lua_State *L) { lua_rawsetp(L, LUA_REGISTRYINDEX, &key_globals); }

/* Pushes the globals of the chunks, which are complete once they have a metatable. */
static void push_globals(lua_State *L) {
  static const luaL_Reg none[] = {{"__index", no_global}, {"__newindex", no_global}, {NULL, NULL}};
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_globals) != LUA_TTABLE) lua_newtable(L), lua_replace(L, -2);
  if (lua_getmetatable(L, -1)) return lua_pop(L, 1);
  luaL_setfuncs(L, library, 0), luaL_setfuncs(L, tools, 0);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_globals);
  lua_createtable(L, 0, 2);
  luaL_setfuncs(L, none, 0);
  lua_setmetatable(L, -2);
}

void ltide_open_script(lua_State *L, ltide_state *S) {
  lua_createtable(L, 0, 32);
  lua_createtable(L, 0, 1);
  ltide_set_function(L, "__index", find_field);
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_tables);
}
