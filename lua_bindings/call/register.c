/* register.c: functions by their rows, in the tables of the module.
 *
 * Nothing is built when the module opens but closures: each function has its row as a light userdata in its first
 * upvalue, so that functions which many rows share know which one is called. */
#include <stdlib.h>
#include <string.h>

#include "row.h"

/* {==== What a state has been granted
 *
 * A state that has not been granted something has no name for it: withhold takes the functions out of the tables. One
 * that comes there otherwise, saved before a restriction or handed over by a host from another state, is refused by the
 * function itself. Only functions that need something look. */

static const char tables_of_rows[] =
    "tide.tables"; /* in the registry: keys are the tables that hold functions of rows */

const char *ltide_capability_names(lua_State *L, unsigned needs) {
  static const char *const names[] = {"FILES", "NATIVE", "POINTERS", "PROCESSES", "GLOBALS", "WAITS"};
  const char *text = "";
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
    if (needs & 1u << i) text = lua_pushfstring(L, "%s%s%s", text, *text ? " and " : "", names[i]);
  return text;
}

void ltide_need(lua_State *L, unsigned needs, const char *what) {
  const ltide_state *S = ltide_state_of(L);
  unsigned missing = S ? needs & ~S->granted : needs;
  if (missing)
    ltide_error(L, "PermissionError", "%s: the host has not granted this script %s", what,
                ltide_capability_names(L, missing));
}

static int run_granted(lua_State *L) {
  const ltide_row *row = lua_touserdata(L, lua_upvalueindex(1));
  ltide_need(L, row->needs, row->name);
  return ltide_row_fn(row)(L);
}

void ltide_note_table(lua_State *L) {
  int table = lua_gettop(L);
  if (!ltide_state_of(L)->has_options) return; /* nothing will be taken out, and the collector need not see the list */
  luaL_getsubtable(L, LUA_REGISTRYINDEX, tables_of_rows);
  lua_pushvalue(L, table);
  lua_pushboolean(L, 1);
  lua_rawset(L, -3);
  lua_settop(L, table);
}

/* The row of the function at the top, or of the class there, a table that is called. */
static const ltide_row *row_or_class(lua_State *L) {
  if (!lua_istable(L, -1) || !luaL_getmetafield(L, -1, "__call")) return ltide_row_at(L, -1);
  const ltide_row *row = ltide_row_at(L, -1);
  lua_pop(L, 1);
  return row;
}

void ltide_withhold(lua_State *L) {
  int top = lua_gettop(L), tables = top + 1, table = top + 2;
  luaL_checkstack(L, 8, "tide");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, tables_of_rows);
  for (lua_pushnil(L); lua_next(L, tables); lua_settop(L, table))
    for (lua_pushnil(L); lua_next(L, table); lua_settop(L, table + 2)) {
      const ltide_row *row = row_or_class(L);
      if (!row || ltide_granted(L, row->needs)) continue;
      lua_pushvalue(L, table + 2);
      lua_pushnil(L);
      lua_rawset(L, table);
    }
  lua_settop(L, top);
}

/* {==== Registration */

static void no_memory(lua_State *L) {
  ltide_error(L, "OutOfMemoryError", "tide: no memory for the table of functions");
}

void ltide_note_rows(lua_State *L, const char *path, ltide_row *rows) {
  int count = 0;
  while (rows[count].name) count++;
  if (ltide_row_note(path, rows, rows, count) < 0) no_memory(L);
}

void ltide_push_methods(lua_State *L) {
  static const char key;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key) != LUA_TNIL) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 400);
  ltide_note_table(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
}

/* A table that calls the function at the top, in whose place it is pushed. */
static void push_class(lua_State *L, const char *path, const char *name) {
  lua_newtable(L);
  lua_createtable(L, 0, 2);
  lua_rotate(L, -3, -1);
  lua_setfield(L, -2, "__call");
  lua_pushfstring(L, "%s.%s", path, name);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
}

void ltide_register_rows(lua_State *L, const char *path, ltide_row *rows) {
  int table = lua_gettop(L);
  ltide_note_rows(L, path, rows);
  ltide_note_table(L);
  ltide_push_methods(L);
  for (ltide_row *r = rows; r->name; r++) {
    if (!r->fn && !r->same) continue; /* a field */
    if (r->same)
      lua_getfield(L, table, r->same);
    else
      lua_pushlightuserdata(L, r), lua_pushcclosure(L, r->needs ? run_granted : ltide_row_fn(r), 1);
    if (r->is_class) push_class(L, path, r->name);
    if (r->where & LTIDE_IN_METHODS) lua_pushvalue(L, -1), lua_setfield(L, table + 1, r->name);
    if (r->where != LTIDE_IN_METHODS) lua_pushvalue(L, -1), lua_setfield(L, table, r->name);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

void ltide_register_in(lua_State *L, const char *path, ltide_row *rows) {
  int module = lua_gettop(L);
  lua_pushvalue(L, module);
  for (const char *at = strchr(path, '.'), *end; at; at = end) {
    end = strchr(++at, '.');
    const char *name = lua_pushlstring(L, at, end ? (size_t)(end - at) : strlen(at));
    luaL_getsubtable(L, -2, name);
  }
  ltide_register_rows(L, path, rows);
  lua_settop(L, module);
}

const void *ltide_new_class(lua_State *L, const char *meta, const luaL_Reg *functions, const char *path,
                            ltide_row *methods, lua_CFunction index) {
  ltide_newmetatable(L, meta);
  luaL_setfuncs(L, functions, 0);
  if (methods) {
    lua_createtable(L, 0, 12);
    ltide_register_rows(L, path, methods);
    if (index) lua_pushcclosure(L, index, 1);
    lua_setfield(L, -2, "__index");
  }
  const void *address = lua_topointer(L, -1);
  lua_pop(L, 1);
  return address;
}

void ltide_register_also(lua_State *L, const char *table, const ltide_row *rows) {
  luaL_getsubtable(L, -1, table);
  ltide_note_table(L);
  for (const ltide_row *r = rows; r->name; r++) {
    lua_getfield(L, -2, r->name);
    lua_setfield(L, -2, r->name);
  }
  lua_pop(L, 1);
}

void ltide_document(lua_State *L, const char *path, const char *name, const char *doc) {
  ltide_row *row = calloc(2, sizeof *row); /* the second one ends the list */
  if (row) row->name = name, row->doc = doc, row->where = LTIDE_IN_MODULE;
  int added = row ? ltide_row_note(path, name, row, 1) : -1;
  if (added < 1) free(row);
  if (added < 0) no_memory(L);
}
