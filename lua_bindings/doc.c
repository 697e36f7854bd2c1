/* doc.c: registration of functions with their doc strings, and help().
 *
 * The doc strings are C literals in the registration lists. Nothing is built when the module opens: a list is noted by
 * address, and help() searches the noted lists. Functions that are made in a loop are noted one by one. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "names.h"

typedef struct doc_note {
  const char *path; /* "tide", "tide.cuda", "Tensor" */
  const ltide_reg *list;
  const char *name, *doc; /* of a single function, where list is NULL */
} doc_note;

static doc_note notes[2048];
static atomic_int note_count;

static bool is_noted(int n, const char *path, const ltide_reg *list, const char *name) {
  for (int i = 0; list && i < n; i++)
    if (notes[i].list == list && !strcmp(notes[i].path ? notes[i].path : "", path)) return true;
  for (int i = 0; !list && i < n; i++)
    if (!notes[i].list && notes[i].name == name && notes[i].path == path) return true;
  return false;
}

/* Several Lua states may open at once, and each notes the same: a note that is there already is not made again. Who
 * reads takes no lock: what the count covers is written before it and never changed. */
static void note(const char *path, const ltide_reg *list, const char *name, const char *doc) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  int n = atomic_load(&note_count);
  if (n < (int)(sizeof notes / sizeof *notes) && !is_noted(n, path, list, name)) {
    notes[n] = (doc_note){path, list, name, doc};
    atomic_store(&note_count, n + 1);
  }
  pthread_mutex_unlock(&lock);
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

const char *ltide_registered_name(lua_CFunction fn, const char *called) {
  const char *first = NULL;
  int n = atomic_load(&note_count);
  for (int i = 0; i < n; i++)
    for (const ltide_reg *r = notes[i].list; r && r->name; r++) {
      if (!fn || r->fn != fn) continue;
      if (called && !strcmp(r->name, called)) return r->name;
      if (!first) first = r->name;
    }
  return first;
}

const char *ltide_registered_doc(lua_CFunction fn, const char *called) {
  const char *first = NULL;
  int n = atomic_load(&note_count);
  for (int i = 0; fn && i < n; i++)
    for (const ltide_reg *r = notes[i].list; r && r->name; r++) {
      if (r->fn != fn) continue;
      if (called && !strcmp(r->name, called)) return r->doc;
      if (!first) first = r->doc;
    }
  return first;
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

typedef void (*doc_visit)(void *ctx, const char *path, const char *name, lua_CFunction fn, const char *doc);
static void visit_docs(doc_visit visit, void *ctx) {
  int n = atomic_load(&note_count);
  for (int i = 0; i < n; i++) {
    if (!notes[i].list)
      visit(ctx, notes[i].path, notes[i].name, NULL, notes[i].doc);
    else
      for (const ltide_reg *r = notes[i].list; r->name; r++) visit(ctx, notes[i].path, r->name, r->fn, r->doc);
  }
}

typedef struct help_search {
  lua_State *L;
  luaL_Buffer *b;
  const char *query; /* a name, "tide.cuda.Stream", "Stream"; NULL when fn is looked for */
  lua_CFunction fn;
  const char *last; /* the doc shown last: tide.f and x:f often share one */
  int found;
} help_search;

static void help_exact(void *ctx, const char *path, const char *name, lua_CFunction fn, const char *doc) {
  help_search *h = ctx;
  bool match = h->query ? matches(h->query, path, name) : fn && fn == h->fn;
  if (!match || (doc && doc == h->last)) return;
  add_doc(h->L, h->b, &h->found, path, name, doc);
  h->last = doc;
}

static void help_near(void *ctx, const char *path, const char *name, lua_CFunction fn, const char *doc) {
  help_search *h = ctx;
  (void)fn;
  if (h->found > 200 || name[0] == '_' ||
      (!strstr(name, h->query) && !(doc && strlen(h->query) > 3 && strstr(doc, h->query))))
    return;
  luaL_addstring(h->b, h->found++ ? ", " : "");
  luaL_addstring(h->b, path), luaL_addchar(h->b, path[0] == 't' ? '.' : ':'), luaL_addstring(h->b, name);
}

static void help_methods(void *ctx, const char *path, const char *name, lua_CFunction fn, const char *doc) {
  help_search *h = ctx;
  (void)fn, (void)doc;
  if (name[0] == '_' || strcmp(path, h->query)) return;
  luaL_addstring(h->b, h->found++ ? ", " : "Methods: ");
  luaL_addstring(h->b, name);
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
  static const char *const paths[] = {"tide", "tide.cuda", "tide.random", "tide.fft"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(L, -1, "tide");
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

static bool search(lua_State *L, luaL_Buffer *b, const char *query, lua_CFunction fn) {
  help_search h = {L, b, query, fn, NULL, 0};
  visit_docs(help_exact, &h);
  return h.found;
}

static int help_unknown(lua_State *L) {
  return ltide_arg_error(L, 1, "name", "the name of a function of tide, the function itself, a class or an object");
}

/* An object: its class, and what its methods are called. The class's name ends its metatable's. */
static int help_object(lua_State *L) {
  if (luaL_getmetafield(L, 1, "__name") != LUA_TSTRING) return help_unknown(L);
  const char *full = lua_tostring(L, -1), *dot = strrchr(full, '.'), *class = dot ? dot + 1 : full;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  bool found = search(L, &b, class, NULL);
  luaL_addstring(&b, found ? "\n" : "");
  help_search h = {L, &b, class, NULL, NULL, 0};
  visit_docs(help_methods, &h);
  luaL_pushresult(&b);
  return found || h.found ? 1 : help_unknown(L);
}

static void help_nearest(void *ctx, const char *path, const char *name, lua_CFunction fn, const char *doc) {
  (void)path, (void)fn, (void)doc;
  ltide_nearest_try(ctx, name);
}

static int help_nothing(lua_State *L, const char *query) {
  const char *dot = strrchr(query, '.'), *colon = strrchr(query, ':'), *name = dot > colon ? dot : colon;
  ltide_nearest near = {.wanted = name ? name + 1 : query};
  visit_docs(help_nearest, &near);
  if (near.name)
    return ltide_error(L, "ValueError", "help: nothing is known of '%s', did you mean '%s'?", query, near.name);
  return ltide_error(L, "ValueError", "help: nothing is known of '%s'; help() tells how to search", query);
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
  lua_CFunction fn = type == LUA_TFUNCTION ? lua_tocfunction(L, 1) : NULL;
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  bool found = fn && search(L, &b, NULL, fn);
  if (!found && !query) return help_unknown(L);
  if (!found && !search(L, &b, query, NULL)) {
    luaL_addstring(&b, "See: ");
    help_search h = {L, &b, query, NULL, NULL, 0};
    visit_docs(help_near, &h);
    if (!h.found) return help_nothing(L, query);
  }
  luaL_pushresult(&b);
  return 1;
}

void ltide_open_help(lua_State *L, ltide_state *S) {
  (void)S;
  static const ltide_reg list[] = {{"help", lhelp,
                                    "tide.help([name]) -> string\nThe doc string of a function or class, by its name "
                                    "or itself; of an object the names "
                                    "of its methods; else what mentions the word."},
                                   {0}};
  ltide_register(L, "tide", list);
}
