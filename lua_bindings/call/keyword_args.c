/* keyword_args.c: arguments by their names.
 *
 * What the help names in the signature of a function of tensors can be given by place or by name: x:select(2, 1),
 * x:select{dim = 2, index = 1}. The functions themselves read arguments in one form alone; here the other form is
 * turned into it before they look. A call without options costs a look at its last argument. */

#include "args.h"

const char *ltide_other_word(const char *name) {
  return !strcmp(name, "dims") ? "dim" : !strcmp(name, "k") ? "diagonal" : NULL;
}

bool ltide_push_named(lua_State *L, int opts, const char *name) {
  const char *other = ltide_other_word(name);
  return ltide_push_option(L, opts, name) || (other && ltide_push_option(L, opts, other));
}

/* Is this option one of the arguments? Of one that is there under both its words the second is none. */
static bool is_among(lua_State *L, int opts, const char *key, const char *const *names) {
  for (; *names; names++) {
    const char *other = ltide_other_word(*names);
    if (!strcmp(*names, key)) return true;
    if (!other || strcmp(other, key) != 0) continue;
    bool both = ltide_push_option(L, opts, *names);
    if (both) lua_pop(L, 1);
    return !both;
  }
  return false;
}

/* Pushes a copy of the options without what is named, or nothing where nothing else is in them. */
static bool push_rest(lua_State *L, int opts, const char *const *names) {
  bool any = false;
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, opts);) {
    bool is_named = lua_type(L, -2) == LUA_TSTRING && is_among(L, opts, lua_tostring(L, -2), names);
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    if (is_named)
      lua_pop(L, 2);
    else
      lua_rawset(L, -4), any = true;
  }
  if (!any) lua_pop(L, 1);
  return any;
}

void ltide_named(lua_State *L, int first, const char *const *names) {
  int opts = lua_gettop(L), last = 0;
  while (opts > first && lua_isnil(L, opts)) opts--; /* as ltide_split */
  if (opts < first || !lua_istable(L, opts) || !ltide_is_options(L, opts)) return;
  int given = opts - 1;
  lua_settop(L, opts);
  luaL_checkstack(L, 16, "tide");
  for (int k = 0; names[k]; k++) {
    if (!ltide_push_named(L, opts, names[k])) continue;
    last = first + k;
    if (last <= given && !lua_isnil(L, last))
      ltide_fail(L, "ArgumentError", "%s: got it twice, as argument %d and by its name", names[k], last);
    if (last <= given)
      lua_replace(L, last);
    else
      lua_pop(L, 1);
  }
  if (!last) return;
  bool has_rest = push_rest(L, opts, names);
  for (int at = given + 1; at <= last; at++)
    if (at < first || !ltide_push_named(L, opts, names[at - first])) lua_pushnil(L);
  lua_remove(L, opts);
  if (!has_rest) return;
  lua_pushvalue(L, opts); /* the rest of the options goes behind the values */
  lua_remove(L, opts);
}
