/* device_lost_error.c: the errors of a device that is lost, where a loop goes on calling it.
 *
 * They all say the same, and most come from the same place. So what an error says is kept, by the functions and lines
 * that were active when it was made: one more from there is an empty table whose metatable gives the fields of the kept
 * one, and costs no string, no traceback and no fields. pairs and what is assigned make it a table like any other.
 *
 * Two names for one function called in the same line are not told apart: the traceback has that of the first call.
 * Invariant: what is kept holds no function (a closure may hold tensors), so an entry whose functions have gone fits
 * nothing any more. */

#include "error.h"

enum { LEVELS = 24, KEPT = 64 };                /* as many as a traceback shows; entries */
enum { FUNCTIONS = 1, LINES, MESSAGE, FIELDS }; /* of an entry, which is a metatable */

static const char key_kept, key_entry; /* the entries by their places; what tells that a metatable is one */

/* The active functions, pushed, and their lines; one more line says whether there are more. */
typedef struct place {
  int count, lines[LEVELS + 1];
  lua_Integer hash;
} place;

static void find_place(lua_State *L, place *p) {
  lua_Debug ar;
  uint64_t h = 14695981039346656037u;
  p->count = 0;
  while (p->count < LEVELS && lua_getstack(L, p->count, &ar)) {
    lua_getinfo(L, "fl", &ar);
    p->lines[p->count++] = ar.currentline;
    h = (h ^ (uintptr_t)lua_topointer(L, -1) ^ (uint64_t)ar.currentline) * 1099511628211u;
  }
  p->lines[p->count] = p->count == LEVELS && lua_getstack(L, LEVELS, &ar);
  p->hash = (lua_Integer)(h >> 40) + 1;
}

static size_t bytes_of(const place *p) { return (size_t)(p->count + 1) * sizeof *p->lines; }

static bool holds(lua_State *L, int entry, int at, const void *bytes, size_t n) {
  size_t length = 0;
  lua_rawgeti(L, entry, at);
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &length) : NULL;
  bool same = text && length == n && !memcmp(text, bytes, n);
  lua_pop(L, 1);
  return same;
}

/* Is the entry at the top that of the place, whose functions begin at `first`? */
static bool fits(lua_State *L, const place *p, int first, const char *message) {
  int entry = lua_gettop(L);
  if (!lua_istable(L, entry) || !holds(L, entry, LINES, p->lines, bytes_of(p))) return false;
  if (!holds(L, entry, MESSAGE, message, strlen(message))) return false;
  if (lua_rawgeti(L, entry, FUNCTIONS) != LUA_TTABLE) return false;
  bool same = true;
  for (int i = 0; i < p->count && same; i++) {
    lua_rawgeti(L, -1, i + 1);
    same = lua_rawequal(L, -1, first + i);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return same;
}

bool ltide_lost_again(lua_State *L, const char *message) {
  place p;
  int top = lua_gettop(L);
  luaL_checkstack(L, LEVELS + 8, "tide: error");
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_kept) == LUA_TTABLE) {
    find_place(L, &p);
    lua_rawgeti(L, top + 1, p.hash);
    if (fits(L, &p, top + 2, message)) {
      lua_createtable(L, 0, 0);
      lua_insert(L, -2); /* the table, its metatable */
      lua_setmetatable(L, -2);
      lua_replace(L, top + 1);
      lua_settop(L, top + 1);
      return true;
    }
  }
  lua_settop(L, top);
  return false;
}

/* Copies the fields of the table at `from` that the one at `to` has not. */
static void copy_fields(lua_State *L, int to, int from) {
  for (lua_pushnil(L); lua_next(L, from); lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    if (lua_rawget(L, to) == LUA_TNIL) {
      lua_pushvalue(L, -3), lua_pushvalue(L, -3);
      lua_rawset(L, to);
    }
    lua_pop(L, 1);
  }
}

static int next_field(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  return lua_next(L, 1) ? 2 : 0;
}

/* From here on the error has its fields itself, and the metatable of others: the upvalue. */
static int lost_pairs(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  if (lua_getmetatable(L, 1) && lua_istable(L, 2) && lua_rawgeti(L, 2, FIELDS) == LUA_TTABLE) {
    copy_fields(L, 1, 3);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_setmetatable(L, 1);
  }
  lua_pushcfunction(L, next_field);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

/* Pushes the table of entries, with room for one more. */
static void push_kept(lua_State *L) {
  lua_Integer count = 0;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key_kept) == LUA_TTABLE) {
    lua_rawgeti(L, -1, 0);
    count = lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  if (count == 0 || count == KEPT) {
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key_kept);
    lua_remove(L, -2);
    count = 0;
  }
  lua_pushinteger(L, count + 1);
  lua_rawseti(L, -2, 0);
}

void ltide_lost_keep(lua_State *L) {
  place p;
  int error = lua_gettop(L), entry = error + 1;
  luaL_checkstack(L, LEVELS + 12, "tide: error");
  lua_createtable(L, 4, 5);
  lua_createtable(L, LEVELS, 0);
  ltide_make_weak(L, "v");
  find_place(L, &p);
  for (int i = p.count; i > 0; i--) lua_rawseti(L, entry + 1, i);
  lua_rawseti(L, entry, FUNCTIONS);
  lua_pushlstring(L, (const char *)p.lines, bytes_of(&p)), lua_rawseti(L, entry, LINES);
  lua_getfield(L, error, "message"), lua_rawseti(L, entry, MESSAGE);
  lua_createtable(L, 0, 12);
  copy_fields(L, entry + 1, error);
  lua_pushvalue(L, -1), lua_rawseti(L, entry, FIELDS);
  lua_setfield(L, entry, "__index");
  lua_getmetatable(L, error);
  copy_fields(L, entry, entry + 1);
  lua_pushcclosure(L, lost_pairs, 1), lua_setfield(L, entry, "__pairs");
  lua_pushboolean(L, 1), lua_rawsetp(L, entry, &key_entry);
  push_kept(L);
  lua_pushvalue(L, entry), lua_rawseti(L, -2, p.hash);
  lua_settop(L, error);
}

bool ltide_is_error(lua_State *L, int arg) {
  if (!lua_istable(L, arg) || !lua_getmetatable(L, arg)) return false;
  bool is = lua_topointer(L, -1) == ltide_error_of(ltide_state_of(L))->meta;
  if (!is) {
    is = lua_rawgetp(L, -1, &key_entry) != LUA_TNIL;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return is;
}
