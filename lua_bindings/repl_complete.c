/* repl_complete.c: completion of globals, fields and methods at the prompt.
 *
 * The word before the cursor is a path, a.b.c or a.b:c. It is followed by raw reads only (no user code runs): tables
 * give their own keys and those of an __index table; objects of tide keep the tables of their methods and fields in the
 * upvalues of their __index, the methods first. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "bindings.h"
#include "repl.h"

static lua_State *state;
static char **(*completion_matches)(const char *text, char *(*next)(const char *text, int index));
static int *attempted_over;
static char **found;
static int found_count;

static void add(const char *head, size_t head_length, const char *name, size_t name_length) {
  char **grown = realloc(found, sizeof *found * (size_t)(found_count + 1));
  char *text = grown ? malloc(head_length + name_length + 1) : NULL;
  if (grown) found = grown;
  if (!text) return;
  memcpy(text, head, head_length);
  memcpy(text + head_length, name, name_length + 1);
  found[found_count++] = text;
}

/* Replaces the value at the top by the table of its methods, or nil. */
static void to_methods(lua_State *L) {
  if (!luaL_getmetafield(L, -1, "__index")) lua_pushnil(L);
  if (lua_isfunction(L, -1)) {
    if (!lua_getupvalue(L, -1, 1)) lua_pushnil(L);
    lua_remove(L, -2);
  }
  if (!lua_istable(L, -1)) lua_pop(L, 1), lua_pushnil(L);
  lua_remove(L, -2);
}

/* Adds the string keys of the table at the top that begin with prefix. */
static void add_keys(lua_State *L, const char *head, size_t head_length, const char *prefix, bool functions) {
  size_t n = strlen(prefix);
  if (!lua_istable(L, -1)) return;
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    if (lua_type(L, -2) == LUA_TSTRING && (!functions || lua_isfunction(L, -1))) {
      size_t length;
      const char *name = lua_tolstring(L, -2, &length);
      if (!strncmp(name, prefix, n) && (n || name[0] != '_')) add(head, head_length, name, length);
    }
    lua_pop(L, 1);
  }
}

/* Adds what the __index of the value at the top knows. */
static void add_members(lua_State *L, const char *text, size_t head, bool functions) {
  if (!luaL_getmetafield(L, -1, "__index")) return;
  add_keys(L, text, head, text + head, functions);
  for (int i = 1; lua_isfunction(L, -1) && lua_getupvalue(L, -1, i); i++, lua_pop(L, 1))
    add_keys(L, text, head, text + head, functions);
}

/* Pushes the value of the path [text, end), or nil. */
static void push_path(lua_State *L, const char *text, const char *end) {
  lua_pushglobaltable(L);
  while (text < end) {
    size_t n = strcspn(text, ".:");
    if (!lua_istable(L, -1)) to_methods(L);
    if (!lua_istable(L, -1)) break;
    lua_pushlstring(L, text, n);
    lua_rawget(L, -2);
    lua_remove(L, -2);
    text += n + 1;
  }
}

static void collect(lua_State *L, const char *text) {
  int top = lua_gettop(L);
  size_t head = strlen(text);
  while (head && text[head - 1] != '.' && text[head - 1] != ':') head--;
  bool functions = head && text[head - 1] == ':';
  luaL_checkstack(L, 16, "completion");
  push_path(L, text, text + head);
  if (lua_istable(L, -1)) add_keys(L, text, head, text + head, functions);
  if (head) add_members(L, text, head, functions);
  lua_settop(L, top);
}

/* libedit asks for one match after the other and frees them. */
static char *next_match(const char *text, int index) {
  static int at;
  (void)text;
  if (!index) at = 0;
  return at < found_count ? found[at++] : NULL;
}

static char **complete(const char *text, int start, int end) {
  (void)start, (void)end;
  if (attempted_over) *attempted_over = 1; /* never file names */
  found_count = 0;
  collect(state, text);
  return found_count ? completion_matches(text, next_match) : NULL;
}

void repl_complete_open(lua_State *L, void *lib) {
  state = L;
  completion_matches = (char **(*)(const char *, char *(*)(const char *, int)))dlsym(lib, "rl_completion_matches");
  attempted_over = dlsym(lib, "rl_attempted_completion_over");
  char **(**attempt)(const char *, int, int) = dlsym(lib, "rl_attempted_completion_function");
  const char **breaks = dlsym(lib, "rl_basic_word_break_characters");
  int *append = dlsym(lib, "rl_completion_append_character");
  if (!completion_matches || !attempt) return;
  *attempt = complete;
  if (breaks) *breaks = " \t\n\"\\'><=;+-*/%^~#{}()[]&|,";
  if (append) *append = 0;
}
