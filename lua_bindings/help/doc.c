/* doc.c: tide.help, which is help/help.lua, and tide.has. */

#include "call/each.h"
#include "call/did_you_mean.h"
#include "call/row.h"

/* {==== What help/help.lua is given */

static void add_row(void *ctx, const char *path, const ltide_row *row) {
  lua_State *L = ctx;
  if (!ltide_granted(L, row->needs)) return;
  lua_createtable(L, 3, 0);
  lua_pushstring(L, path), lua_rawseti(L, -2, 1);
  lua_pushstring(L, row->name), lua_rawseti(L, -2, 2);
  if (row->doc) ltide_push_doc(L, row, false), lua_rawseti(L, -2, 3);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static int script_rows(lua_State *L) { return lua_newtable(L), ltide_each_row(add_row, L), 1; }
static int script_tide(lua_State *L) { return ltide_push_module(L), 1; }
static int script_methods(lua_State *L) { return ltide_push_methods(L), 1; }
static int script_meta_name(lua_State *L) { return luaL_getmetafield(L, 1, "__name") == LUA_TSTRING; }

/* row_doc(f): the doc of its row, or nothing. */
static int script_row_doc(lua_State *L) {
  const ltide_row *row = ltide_row_at(L, 1);
  return row && row->doc && ltide_push_doc(L, row, false);
}

/* instead(name): what there is in its place, or nil. */
static int script_instead(lua_State *L) {
  return lua_pushstring(L, ltide_instead(lua_tostring(L, 1), LTIDE_OF_HELP)), 1;
}

static char lower_case(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }
static bool in_word(char c) { return (lower_case(c) >= 'a' && lower_case(c) <= 'z') || (c >= '0' && c <= '9'); }

/* lower(text), of ASCII. */
static int script_lower(lua_State *L) {
  size_t n;
  luaL_Buffer b;
  const char *text = lua_tolstring(L, 1, &n);
  luaL_buffinit(L, &b);
  for (size_t i = 0; i < n; i++) luaL_addchar(&b, lower_case(text[i]));
  return luaL_pushresult(&b), 1;
}

/* has_word(text, word): with neither a letter nor a digit on either side. */
static int script_has_word(lua_State *L) {
  const char *text = lua_tostring(L, 1), *word = lua_tostring(L, 2);
  size_t n = strlen(word);
  for (const char *at = strstr(text, word); at && n; at = strstr(at + 1, word))
    if ((at == text || !in_word(at[-1])) && !in_word(at[n])) return ltide_give_boolean(L, true);
  return ltide_give_boolean(L, false);
}

/* words(text): what stands between its blanks, as a list. */
static int script_words(lua_State *L) {
  lua_newtable(L);
  for (const char *p = lua_tostring(L, 1); *(p += strspn(p, " "));) {
    size_t n = strcspn(p, " ");
    lua_pushlstring(L, p, n);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    p += n;
  }
  return 1;
}

typedef struct search {
  lua_State *L;
  ltide_nearest near;
} search;

static void try_row(void *ctx, const char *path, const ltide_row *row) {
  search *s = ctx;
  if (ltide_granted(s->L, row->needs)) ltide_nearest_try(&s->near, row->name);
}

/* nearest(word): of the names of rows, or nil. */
static int script_nearest(lua_State *L) {
  search s = {L, {.wanted = lua_tostring(L, 1)}};
  ltide_each_row(try_row, &s);
  return lua_pushstring(L, s.near.name), 1;
}

static int lhelp(lua_State *L) {
  ltide_enter(L);
  ltide_no_options(L, 1);
  if (ltide_push_thawed(L, 1)) lua_replace(L, 1);
  return ltide_script_call(L, "help/help.answer", lua_gettop(L));
}

/* {==== tide.has */

static int lget(lua_State *L) {
  lua_gettable(L, 1);
  return 1;
}

/* Replaces the value at the top by its field, or by nil. */
static void step_to(lua_State *L, const char *name, size_t n) {
  lua_pushcfunction(L, lget);
  lua_insert(L, -2);
  lua_pushlstring(L, name, n);
  if (lua_pcall(L, 2, 1, 0) != LUA_OK) lua_pop(L, 1), lua_pushnil(L);
}

/* Replaces the class at the top by its table of methods, or by nil: that of a metatable under the class's path. */
static void to_methods(lua_State *L, const char *path, size_t n) {
  bool is_short = strncmp(path, "tide.", 5);
  int top = lua_gettop(L);
  lua_pushstring(L, is_short ? "tide." : "");
  lua_pushlstring(L, path, n);
  lua_concat(L, 2);
  luaL_getmetatable(L, lua_tostring(L, -1));
  if (lua_istable(L, -1)) lua_getfield(L, -1, "__index");
  if (lua_isfunction(L, -1) && !lua_getupvalue(L, -1, 1)) lua_pushnil(L);
  lua_replace(L, top);
  lua_settop(L, top);
}

static int lhas(lua_State *L) {
  enum { LONGEST = 4096 }; /* no name is as long, and a script may ask for one of megabytes again and again */
  const char *path = ltide_check_text(L, 1, "name"), *p = path;
  if (lua_rawlen(L, 1) > LONGEST) return ltide_give_boolean(L, false);
  lua_settop(L, 1);
  ltide_push_module(L);
  if (!strncmp(p, "tide.", 5)) p += 5;
  for (const char *end; lua_istable(L, -1); p = end + 1) {
    end = p + strcspn(p, ".:");
    step_to(L, p, (size_t)(end - p));
    if (!*end) break;
    if (*end == ':' && strncmp(p, "Tensor:", 7)) to_methods(L, path, (size_t)(end - path));
    if (!lua_istable(L, -1)) lua_pushnil(L);
  }
  return ltide_give_boolean(L, !lua_isnil(L, -1));
}

#include <rows/values.inc>

void ltide_open_help(lua_State *L, ltide_state *S) {
  static ltide_row rows[] = {
#include "help/api/doc.def"
#include "help/api/names.def"
      {0}};
  LTIDE_GIVE(L, "help/doc.c", rows, tide, methods, meta_name, row_doc, nearest, instead, lower, has_word, words);
  ltide_register_rows(L, "tide", rows);
  ltide_note_rows(L, "tide", values_rows);
}
