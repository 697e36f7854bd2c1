/* doc.c: tide.help and tide.has. Help searches the rows of functions, which row.c has noted. */
#include <stdio.h>
#include <string.h>

#include "names.h"
#include "row.h"

/* Does "Tensor:view" or "tide.view" answer to the query "view", "Tensor:view", "x:view", "tide.view" or
 * "cuda.stream"? */
static bool matches(const char *query, const char *path, const char *name) {
  char full[128];
  snprintf(full, sizeof full, "%s%c%s", path, path[0] == 't' ? '.' : ':', name);
  if (!strcmp(query, name) || !strcmp(query, full)) return true;
  const char *dot = strchr(full, '.');
  if (dot && !strcmp(query, dot + 1)) return true;
  const char *joint = strpbrk(query, ":.");
  bool is_class = *query >= 'A' && *query <= 'Z'; /* "Tensor:f" is no other class's */
  return path[0] != 't' && joint && !is_class && !strcmp(joint + 1, name) && (*joint == ':' || joint == query + 1);
}

typedef struct help_search {
  lua_State *L;
  luaL_Buffer *b;
  const char *query; /* a name, "tide.cuda.Stream", "Stream"; NULL when a row is looked for */
  const ltide_row *row;
  const char *last; /* the doc shown last: tide.f and x:f often share one */
  int found;
} help_search;

static void add_name(help_search *h, const char *path, const char *name) {
  luaL_addstring(h->b, path), luaL_addchar(h->b, path[0] == 't' ? '.' : ':'), luaL_addstring(h->b, name);
}

static void help_exact(void *ctx, const char *path, const ltide_row *row) {
  help_search *h = ctx;
  bool match = h->query ? matches(h->query, path, row->name) : row == h->row;
  if (!match || (row->doc && row->doc == h->last)) return;
  if (h->found++) luaL_addstring(h->b, "\n\n");
  h->last = row->doc;
  if (!row->doc) {
    add_name(h, path, row->name);
    return;
  }
  ltide_push_doc(h->L, row->doc, false);
  luaL_addvalue(h->b);
}

static void help_near(void *ctx, const char *path, const ltide_row *row) {
  help_search *h = ctx;
  if (h->found > 200 || row->name[0] == '_' ||
      (!strstr(row->name, h->query) && !(row->doc && strlen(h->query) > 3 && strstr(row->doc, h->query))))
    return;
  luaL_addstring(h->b, h->found++ ? ", " : "");
  add_name(h, path, row->name);
}

static void help_methods(void *ctx, const char *path, const ltide_row *row) {
  help_search *h = ctx;
  if (row->name[0] == '_' || strcmp(path, h->query)) return;
  luaL_addstring(h->b, h->found++ ? ", " : h->query[0] == 't' ? "\nIt has: " : "Methods: ");
  luaL_addstring(h->b, row->name);
}

/* Pushes the full name ("tide.cuda.Stream", "Tensor:add") of the value at arg, which is in the table at the top. */
static const char *key_of(lua_State *L, int arg, const char *path, char joint) {
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    if (lua_rawequal(L, -1, arg) && lua_type(L, -2) == LUA_TSTRING) {
      lua_pushstring(L, path);
      lua_pushlstring(L, &joint, 1);
      lua_pushvalue(L, -4);
      lua_concat(L, 3);
      return lua_tostring(L, -1);
    }
    lua_pop(L, 1);
  }
  return NULL;
}

/* The name under which a function made in a loop, or a class, can be reached: in tide and its tables or as a method. */
static const char *name_of_value(lua_State *L, int arg) {
  static const char *const paths[] = {"tide", "tide.cuda", "tide.random", "tide.fft", "tide.errors"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    ltide_push_module(L);
    if (paths[i][4] && lua_istable(L, -1)) lua_getfield(L, -1, paths[i] + 5);
    const char *name = lua_istable(L, -1) ? key_of(L, arg, paths[i], '.') : NULL;
    if (name) return name;
    lua_settop(L, arg);
  }
  ltide_push_methods(L);
  return key_of(L, arg, "Tensor", ':');
}

static const char overview[] =
    "help 'name' or help(function) shows what a function does: help 'matmul', help(tide.zeros), help 'cuda.stream'.\n"
    "help 'word' lists what mentions the word, help(object) the methods of a stream, a graph, a tensor. To begin:\n"
    "  x = tide.randn(3, 4)          on the CPU; tide.randn(3, 4, {device = 'cuda'}) on a GPU\n"
    "  x[1], x[{ {1, 2}, 3 }]        indexes count from 1, ranges include their end, -1 is the last\n"
    "  (x * 2 + 1):sum(2)            operators and methods; names are torch's, an in-place form ends in _";

static bool search(lua_State *L, luaL_Buffer *b, const char *query, const ltide_row *row) {
  help_search h = {L, b, query, row, NULL, 0};
  ltide_each_row(help_exact, &h);
  return h.found;
}

static int help_unknown(lua_State *L) {
  return ltide_arg_error(L, 1, "name", "the name of a function of tide, the function itself, a class or an object");
}

/* An object: its class, and what its methods are called. The class's name ends its metatable's. */
static int help_object(lua_State *L) {
  if (luaL_getmetafield(L, 1, "__name") != LUA_TSTRING) return help_unknown(L);
  const char *full = lua_tostring(L, -1), *dot = strrchr(full, '.'), *class = dot ? dot + 1 : full, *query;
  bool is_dtype = !strcmp(class, "dtype");
  if (is_dtype) query = luaL_tolstring(L, 1, NULL); /* it is known by its own name */
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  bool found = search(L, &b, is_dtype ? query : class, NULL);
  luaL_addstring(&b, found ? "\n" : "");
  help_search h = {L, &b, class, NULL, NULL, 0};
  ltide_each_row(help_methods, &h);
  luaL_pushresult(&b);
  return found || h.found ? 1 : help_unknown(L);
}

static void help_nearest(void *ctx, const char *path, const ltide_row *row) {
  (void)path;
  ltide_nearest_try(ctx, row->name);
}

static int help_nothing(lua_State *L, const char *query) {
  const char *dot = strrchr(query, '.'), *colon = strrchr(query, ':'), *name = dot > colon ? dot : colon;
  ltide_nearest near = {.wanted = name ? name + 1 : query};
  ltide_each_row(help_nearest, &near);
  if (near.name)
    return ltide_error(L, "ValueError", "help: nothing is known of '%s', did you mean '%s'?", query, near.name);
  return ltide_error(L, "ValueError", "help: nothing is known of '%s'; help() tells how to search", query);
}

/* Of a module what is in it. */
static void add_members(lua_State *L, luaL_Buffer *b, const char *query) {
  if (!query) return;
  const char *path = strncmp(query, "tide.", 5) && strcmp(query, "tide") ? lua_pushfstring(L, "tide.%s", query) : query;
  help_search h = {L, b, path, NULL, NULL, 0};
  ltide_each_row(help_methods, &h);
}

static int lhelp(lua_State *L) {
  ltide_no_options(L, 1);
  if (lua_isnone(L, 1)) {
    lua_pushstring(L, overview);
    return 1;
  }
  lua_settop(L, 1);
  int type = lua_type(L, 1);
  if (type == LUA_TUSERDATA) return help_object(L);
  const char *query = type == LUA_TFUNCTION || type == LUA_TTABLE ? name_of_value(L, 1)
                      : type == LUA_TSTRING                       ? lua_tostring(L, 1)
                                                                  : NULL;
  const ltide_row *row = type == LUA_TFUNCTION ? ltide_row_at(L, 1) : NULL;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  bool found = row && search(L, &b, NULL, row);
  if (!found && !query) return help_unknown(L);
  if (!found && !search(L, &b, query, NULL)) {
    luaL_addstring(&b, "See: ");
    help_search h = {L, &b, query, NULL, NULL, 0};
    ltide_each_row(help_near, &h);
    if (!h.found) return help_nothing(L, query);
  }
  add_members(L, &b, query);
  luaL_pushresult(&b);
  return 1;
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
  const char *path = ltide_check_text(L, 1, "name"), *p = path;
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
  lua_pushboolean(L, !lua_isnil(L, -1));
  return 1;
}

static ltide_row values[] = {
#include "api/values.def"
    {0}};

void ltide_open_help(lua_State *L, ltide_state *S) {
  (void)S;
#define PATH "tide."
  static ltide_row rows[] = {
#include "api/doc.def"
#include "api/names.def"
      {0}};
  ltide_register_rows(L, "tide", rows);
  ltide_note_rows("tide", values);
}
