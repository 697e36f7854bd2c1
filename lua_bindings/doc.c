/* doc.c: registration of functions with their doc strings, and help().
 *
 * The doc strings are C literals in the registration lists. Nothing is built when the module opens: a list is noted by
 * address, and help() searches the noted lists. Functions that are made in a loop are noted one by one. */
#include <stdlib.h>
#include <string.h>

#include "bindings.h"

typedef struct doc_note {
  const char *path; /* "tide", "tide.cuda", "Tensor" */
  const ltide_reg *list;
  const char *name, *doc; /* of a single function, where list is NULL */
} doc_note;

static doc_note notes[2048];
static atomic_int note_count;

/* Several universes may open at once, and each notes the same: a note that is there already is not made again. */
static void note(const char *path, const ltide_reg *list, const char *name, const char *doc) {
  int n = atomic_load(&note_count);
  for (int i = 0; list && i < n; i++)
    if (notes[i].list == list && !strcmp(notes[i].path ? notes[i].path : "", path)) return;
  for (int i = 0; !list && i < n; i++)
    if (!notes[i].list && notes[i].name == name && notes[i].path == path) return;
  int at = atomic_fetch_add(&note_count, 1);
  if (at < (int)(sizeof notes / sizeof *notes)) notes[at] = (doc_note){path, list, name, doc};
}

void ltide_register(lua_State *L, const char *path, const ltide_reg *list) {
  note(path, list, NULL, NULL);
  for (const ltide_reg *r = list; r->name; r++) {
    lua_pushcfunction(L, r->fn);
    lua_setfield(L, -2, r->name);
  }
}

void ltide_document(lua_State *L, const char *path, const char *name, const char *doc) {
  (void)L;
  note(path, NULL, name, doc);
}

const char *ltide_registered_name(lua_CFunction fn) {
  int n = atomic_load(&note_count);
  for (int i = 0; i < n; i++)
    for (const ltide_reg *r = notes[i].list; r && r->name; r++)
      if (r->fn == fn) return r->name;
  return NULL;
}

/* Does "Tensor:view" or "tide.view" answer to the query "view", "Tensor:view", "x:view", "tide.view" or "cuda.stream"?
 */
static bool matches(const char *query, const char *path, const char *name) {
  char full[128];
  snprintf(full, sizeof full, "%s%c%s", path, path[0] == 't' ? '.' : ':', name);
  if (!strcmp(query, name) || !strcmp(query, full)) return true;
  const char *dot = strchr(full, '.');
  if (dot && !strcmp(query, dot + 1)) return true;
  const char *colon = strchr(query, ':');
  return path[0] != 't' && colon && !strcmp(colon + 1, name);
}

static void add_doc(lua_State *L, luaL_Buffer *b, int *found, const char *path, const char *name, const char *doc) {
  (void)L;
  if ((*found)++) luaL_addstring(b, "\n\n");
  if (!doc) {
    luaL_addstring(b, path), luaL_addchar(b, path[0] == 't' ? '.' : ':'), luaL_addstring(b, name);
    return;
  }
  luaL_addstring(b, doc);
}

typedef void (*doc_visit)(void *ctx, const char *path, const char *name, const char *doc);
static void visit_docs(doc_visit visit, void *ctx) {
  int n = atomic_load(&note_count);
  for (int i = 0; i < n; i++) {
    if (!notes[i].list)
      visit(ctx, notes[i].path, notes[i].name, notes[i].doc);
    else
      for (const ltide_reg *r = notes[i].list; r->name; r++) visit(ctx, notes[i].path, r->name, r->doc);
  }
}

typedef struct help_search {
  lua_State *L;
  luaL_Buffer *b;
  const char *query;
  const char *last; /* the doc shown last: tide.f and x:f often share one */
  int found;
} help_search;

static void help_exact(void *ctx, const char *path, const char *name, const char *doc) {
  help_search *h = ctx;
  if (!matches(h->query, path, name) || (doc && doc == h->last)) return;
  add_doc(h->L, h->b, &h->found, path, name, doc);
  h->last = doc;
}

static void help_near(void *ctx, const char *path, const char *name, const char *doc) {
  help_search *h = ctx;
  if (h->found > 200 || name[0] == '_' ||
      (!strstr(name, h->query) && !(doc && strlen(h->query) > 3 && strstr(doc, h->query))))
    return;
  luaL_addstring(h->b, h->found++ ? ", " : "");
  luaL_addstring(h->b, path), luaL_addchar(h->b, path[0] == 't' ? '.' : ':'), luaL_addstring(h->b, name);
}

/* The name under which a function value was registered, by a walk over tide, tide.cuda and the tensor methods. */
static const char *name_of_function(lua_State *L, int arg) {
  static const char *const paths[] = {"", "cuda", "random", "cuda.memory", "cuda.jiterator", "fft"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths + 1; i++) {
    int top = lua_gettop(L);
    if (i < sizeof paths / sizeof *paths) {
      luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
      lua_getfield(L, -1, "tide");
      for (const char *p = paths[i]; *p && lua_istable(L, -1);) {
        size_t n = strcspn(p, ".");
        lua_pushlstring(L, p, n);
        lua_rawget(L, -2);
        p += n + (p[n] == '.');
      }
    } else
      ltide_push_methods(L);
    if (lua_istable(L, -1)) {
      lua_pushnil(L);
      while (lua_next(L, -2)) {
        if (lua_rawequal(L, -1, arg) && lua_type(L, -2) == LUA_TSTRING) return lua_tostring(L, -2);
        lua_pop(L, 1);
      }
    }
    lua_settop(L, top);
  }
  return NULL;
}

static const char overview[] =
    "help 'name' or help(function) shows what a function does: help 'matmul', help(tide.zeros), help 'cuda.stream'.\n"
    "help 'word' lists what mentions the word. A first tensor:\n"
    "  x = tide.randn(3, 4)          on the CPU; tide.randn(3, 4, {device = 'cuda'}) on a GPU\n"
    "  x[1], x[{ {1, 2}, 3 }]        indexes count from 1, ranges include their end, -1 is the last\n"
    "  (x * 2 + 1):sum(2)            operators and methods; names are torch's, an in-place form ends in _";

static int lhelp(lua_State *L) {
  if (lua_isnone(L, 1)) {
    lua_pushstring(L, overview);
    return 1;
  }
  const char *query = lua_isfunction(L, 1) ? name_of_function(L, 1) : lua_tostring(L, 1);
  if (!query) return ltide_arg_error(L, 1, "name", "the name of a function of tide, or the function itself");
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  help_search h = {L, &b, query, NULL, 0};
  visit_docs(help_exact, &h);
  if (!h.found) {
    luaL_addstring(&b, "See: ");
    visit_docs(help_near, &h);
    if (!h.found)
      return ltide_error(L, "ValueError", "help: nothing is known of '%s'; help() tells how to search", query);
  }
  luaL_pushresult(&b);
  return 1;
}

void ltide_open_help(lua_State *L, ltide_state *S) {
  (void)S;
  static const ltide_reg list[] = {
      {"help", lhelp,
       "tide.help([name]) -> string\nThe doc string of a function, by its name or itself; or what mentions the word."},
      {0}};
  ltide_register(L, "tide", list);
}
